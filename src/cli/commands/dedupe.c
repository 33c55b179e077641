/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/dedupe.c - dedupe and expand: a directory of ranks without its replicas, and with all of
 * them again. Read batch.h first.
 */
#include "cli/group.h"
#include "cli/look/verify.h"
#include "cli/operands/ranks.h"
#include "cli/operands/siblings.h"
#include "cli/outputs/batch.h"
#include "cli/outputs/lost.h"
#include "cli/outputs/rank_names.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

static void take_files(cli_batch *b, const sft_dedupe *d) {
    size_t count;
    const sft_job_file *files = sft_dedupe_files(d, &count);

    for (size_t i = 0; i < count; i++) {
        uint32_t *tensors = NULL;
        if (files[i].tensors != NULL) {
            tensors = cli_alloc(files[i].tensor_count + 1, sizeof *tensors);
            memcpy(tensors, files[i].tensors, files[i].tensor_count * sizeof *tensors);
        }
        sft_job_file *f =
            cli_batch_file(b, files[i].name, files[i].catalog, tensors, files[i].tensor_count);
        cli_rank_meta_carry(b, files[i].name);
        f->flags = files[i].flags;
        f->metadata = files[i].metadata;
        f->metadata_count = files[i].metadata_count;
    }
    const sft_job_text *texts = sft_dedupe_texts(d, &count);
    for (size_t i = 0; i < count; i++) {
        cli_batch_text(b, texts[i].name, cli_copy_bytes(texts[i].data, texts[i].size),
                       texts[i].size);
    }
    b->order = sft_dedupe_order(d);
}

/* False: replicas differ, or the run was stopped; reported. */
static bool compare(cli_batch *b, const sft_dedupe *d) {
    cli *c = b->c;
    uint64_t compared = 0;
    sft_error err;

    if (cli_flag(c, "plan") || cli_flag(c, "no-compare") || !cli_group_first(c)) {
        return true; /* what rank 0 finds is found for all */
    }
    const sft_status status =
        sft_dedupe_compare(d, cli_pool(c), cli_control(c, "comparing replicas"), &compared, &err);
    cli_control_end(c);
    if (status != SFT_OK) {
        cli_fail_plainly(c, b->source, &err);
        return false;
    }
    cli_batch_number_add(b, "bytes_compared", compared);
    return true;
}

/* Digests of files are of what these hold: dedupe keeps those of metadata for expand, in its
 * record. */
static void tell_digests(cli_batch *b, bool expand) {
    cli *c = b->c;
    cli_strings paths = {NULL, 0};

    if (cli_text(c, "record") == NULL) {
        paths = cli_verify_files(c, b->source);
    }
    const bool any = paths.count > 0;
    cli_strings_reset(&paths);
    if (!any) {
        return;
    }
    char *record = cli_joined(b->source, "/dedupe.json", "");
    if (!expand) {
        cli_warn(c, b->source,
                 "recorded digests do not go with what is written (those in the files are in "
                 "dedupe.json, for expand); --record records new ones");
    } else if (cli_sys_kind(record) != CLI_KIND_FILE) {
        cli_lost_digests(c, b->source, 0, "what is written", "--record");
    }
    free(record);
}

static void carry_out(cli_batch *b, const sft_checkpoint *checkpoint, bool expand) {
    cli *c = b->c;
    const char *rule = expand ? NULL : cli_text(c, "rule");
    sft_dedupe_options o;
    sft_dedupe *d;
    uint64_t tensors, bytes;
    char size[32];
    sft_error err;

    SFT_INIT(&o);
    o.rule =
        rule != NULL && strcmp(rule, "balanced") == 0 ? SFT_DEDUPE_BALANCED : SFT_DEDUPE_MINDSPORE;
    const sft_status status = expand ? sft_dedupe_expand(&d, checkpoint, &o, &err)
                                     : sft_dedupe_create(&d, checkpoint, &o, &err);
    if (status != SFT_OK) {
        cli_fail_plainly(c, b->source, &err);
        return;
    }
    sft_dedupe_total(d, &tensors, &bytes);
    cli_batch_number_add(b, expand ? "replicas_added" : "replicas_removed", tensors);
    cli_batch_number_add(b, expand ? "bytes_added" : "bytes_removed", bytes);
    cli_note(c, b->source, "%llu %s (%s) %s", (unsigned long long)tensors,
             tensors == 1 ? "replica" : "replicas", cli_size(size, bytes, c->units),
             expand ? "come back" : "go");
    take_files(b, d);
    tell_digests(b, expand);
    if (expand || compare(b, d)) {
        cli_batch_run(b, expand ? "expanding" : "removing replicas");
        if (c->status == 0 && cli_group_first(c)) {
            cli_siblings_tell_ranks(c, b->source, b->target);
        }
    }
    sft_dedupe_free(d);
}

/* Ranks without a file; what is left out. */
static void tell(cli *c, cli_batch *b, const sft_checkpoint *checkpoint) {
    sft_open_options open;
    sft_catalog *global;

    SFT_INIT(&open);
    cli_ranks_tell(c, b->source, checkpoint, NULL);
    if (cli_flag(c, "partial") &&
        sft_checkpoint_join_ranks(&global, checkpoint, &open, NULL) == SFT_OK) {
        (void)cli_batch_took(b, &global); /* no names: they are the files' own here */
        cli_close(c, global);
    } /* else dedupe and expand say why */
}

static void run(cli *c, bool expand) {
    sft_checkpoint *checkpoint;
    cli_batch b;
    sft_error err;

    if (!cli_batch_init(&b, c, c->operands[0]) || !cli_batch_to_directory(&b)) {
        return;
    }
    if (cli_ranks_open(c, c->operands[0], &checkpoint, &err) != SFT_OK) {
        cli_fail_plainly(c, c->operands[0], &err);
    } else {
        tell(c, &b, checkpoint);
        carry_out(&b, checkpoint, expand);
        sft_checkpoint_close(checkpoint);
    }
    cli_batch_reset(&b);
}

/* ---------------------------------------------------------------- dedupe */

static void run_dedupe(cli *c) {
    run(c, false);
}

static const cli_opt dedupe_options[] = {
    CLI_OPT_CHOICE(
        "rule", 0, "RULE", "mindspore|balanced",
        "who keeps a part: mindspore (default), as its remove_redundancy does; balanced, by bytes"),
    CLI_OPT_FLAG("no-compare", 0, "believe that replicas are equal"),
    CLI_BATCH_RUN_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_dedupe = {
    .name = "dedupe",
    .operands = "DIR",
    .summary = "write a directory of ranks without its replicas",
    .description =
        "DIR has a directory for each rank (rank_0, rank_1 ...). What several ranks hold, by the "
        "layout, is kept by one of them: -o gets the files under their names with what each rank "
        "keeps, layout.json, and dedupe.json, from which expand makes what was. It opens as the "
        "same model; MindSpore reads it with remove_redundancy=True.\n\n"
        "Replicas are compared byte by byte before anything is written: if two differ, the tensor "
        "and the ranks are named, and the exit status is 1. Every run compares anew, and so does "
        "every task of --task: give all but one of them --no-compare.\n\n"
        "By --rule mindspore tensors that the layout does not name stay with every rank; by "
        "balanced they are replicas like others.",
    .examples = "safetensors dedupe checkpoint/ --layout strategy/ -o small/\n"
                "safetensors dedupe checkpoint/ --rule balanced -o small/ --plan",
    .options = dedupe_options,
    .common = CLI_NO_STDIN | CLI_BATCH_COMMON | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_dedupe,
};

/* ---------------------------------------------------------------- expand */

static void run_expand(cli *c) {
    run(c, true);
}

static const cli_opt expand_options[] = {
    CLI_BATCH_RUN_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_expand = {
    .name = "expand",
    .operands = "DIR",
    .summary = "give every rank of a directory without replicas its full set back",
    .description =
        "DIR was written by dedupe, or by MindSpore with remove_redundancy=True. With dedupe.json "
        "the files are those that were there, byte for byte if a usual writer had made them. "
        "Without it each rank gets all that the layout gives it beside what it has, and ranks that "
        "have no file get one.",
    .examples = "safetensors expand small/ -o full/\n"
                "safetensors expand checkpoint/ --layout strategy.ckpt -o full/",
    .options = expand_options,
    .common = CLI_NO_STDIN | CLI_BATCH_COMMON | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_expand,
};
