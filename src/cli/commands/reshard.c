/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/reshard.c - from any number of ranks to any other, and what one rank gets of a model.
 * Read batch.h first.
 */
#include "cli/group.h"
#include "cli/operands/names.h"
#include "cli/outputs/batch.h"
#include "cli/outputs/old_ranks.h"
#include "cli/outputs/rank_names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file each, planned in memory. */
static const uint64_t MOST_RANKS = (uint64_t)1 << 17;

static bool open_target(cli *c, const char *option, sft_layout_set **set) {
    const char *path = cli_text(c, option);
    sft_error err;

    if (path == NULL) {
        cli_usage(c, "--%s FILE says how the model is to be cut", option);
        return false;
    }
    if (cli_ranks_read_layout(path, cli_number(c, "ranks", 0), set, &err) != SFT_OK) {
        cli_fail_plainly(c, path, &err);
        return false;
    }
    return true;
}

static bool cut_rank(cli_batch *b, const sft_catalog *global, sft_layout_set *set, uint64_t rank,
                     sft_catalog **part) {
    sft_open_options open;
    sft_error err;

    SFT_INIT(&open);
    if (sft_checkpoint_part(part, global, rank, sft_layout_set_find_global, set, &open, &err) !=
        SFT_OK) {
        cli_fail_plainly(b->c, b->source, &err);
        return false;
    }
    cli_batch_lacks(b, *part);
    if (!b->told_metadata && sft_catalog_count(*part) > 0) {
        b->told_metadata = true;
        cli_names_tell(b->c, b->source, global, *part, "it says something of tensors that are cut");
    }
    return true;
}

/* ---------------------------------------------------------------- reshard */

static bool add_layout(cli_batch *b, const sft_layout_set *set) {
    size_t size;
    sft_error err;

    if (sft_layout_set_write(set, NULL, 0, &size, &err) != SFT_OK) {
        cli_fail_plainly(b->c, cli_text(b->c, "target-layout"), &err);
        return false;
    }
    char *text = cli_alloc(size + 1, 1);
    if (sft_layout_set_write(set, text, size, &size, &err) != SFT_OK) {
        free(text);
        cli_fail_plainly(b->c, cli_text(b->c, "target-layout"), &err);
        return false;
    }
    cli_batch_text(b, "layout.json", text, size);
    return true;
}

static void write_ranks(cli_batch *b, const sft_catalog *global, bool opens) {
    b->named = global;
    cli_batch_run(b, "resharding");
    if (b->published && opens && cli_group_first(b->c)) {
        cli_read_again(b, global);
    }
}

static void reshard(cli_batch *b, const sft_catalog *global, sft_layout_set *set) {
    const char *given = cli_text(b->c, "name");
    const char *pattern = given != NULL ? given : "rank_{rank}/model.safetensors";
    const uint64_t ranks = sft_layout_set_ranks(set);
    uint64_t made = 0;

    if (ranks > MOST_RANKS) {
        CLI_FAIL(b->c, cli_text(b->c, "target-layout"), SFT_E_LIMIT,
                 "a layout of %llu ranks: files are made for %llu at most",
                 (unsigned long long)ranks, (unsigned long long)MOST_RANKS);
        return;
    }
    cli_rank_names names;
    sft_catalog **parts = cli_alloc((size_t)ranks + 1, sizeof *parts);
    if (cli_rank_names_init(&names, b->c, pattern, cli_as_opened(b->c, global), ranks)) {
        const bool opens = cli_rank_names_open(pattern);
        while (made < ranks && cut_rank(b, global, set, made, &parts[made])) {
            char *name = cli_rank_name(&names, made);
            (void)cli_batch_file(b, name, parts[made], NULL, 0);
            if (opens) {
                cli_rank_meta(b, name);
            }
            free(name);
            made++;
        }
        sft_layout_set_trim(set, global);
        if (made == ranks && add_layout(b, set) &&
            (!opens || cli_would_open(b, parts, (size_t)made, global))) {
            write_ranks(b, global, opens);
        }
    }
    while (made > 0) {
        sft_catalog_close(parts[--made]);
    }
    free(parts);
    cli_rank_names_reset(&names);
}

static void run_reshard(cli *c) {
    sft_layout_set *set = NULL;
    sft_catalog *global;
    cli_batch b;

    if (!cli_batch_init(&b, c, c->operands[0]) || !cli_batch_to_directory(&b) ||
        !open_target(c, "target-layout", &set)) {
        return;
    }
    if (cli_batch_open(&b, &global)) {
        if (cli_batch_fits(&b, "target-layout", set, global)) {
            reshard(&b, global, set);
        }
        cli_close(c, global);
    }
    sft_layout_set_free(set);
    cli_batch_reset(&b);
}

#define SOURCE_OPTIONS                                                                             \
    CLI_OPT_ARG(CLI_TEXT, "step", 0, "NAME",                                                       \
                "of directories of ranks: the files whose names end so (3_2)"),                    \
        CLI_OPT_FLAG("partial", 0,                                                                 \
                     "of directories of ranks: leave out incomplete tensors, and say which"),      \
        CLI_OPT_FLAG("allow-replicated", 0,                                                        \
                     "go on with a layout that fits no tensor: every rank gets the whole model")

static const cli_opt reshard_options[] = {
    CLI_OPT_ARG(CLI_FILE, "source-layout", 0, "FILE",
                "how the ranks of SRC are sharded, where the directory does not say"),
    CLI_OPT_ARG(CLI_FILE, "target-layout", 0, "FILE", "how the model is to be cut"),
    CLI_OPT_ARG(CLI_NUMBER, "source-ranks", 0, "N", "of a source layout that does not say"),
    CLI_OPT_ARG(CLI_NUMBER, "ranks", 'r', "N", "of a target layout that does not say"),
    SOURCE_OPTIONS,
    CLI_OPT_ARG(CLI_TEXT, "name", 0, "PATTERN",
                "names of the files (default: rank_{rank}/model.safetensors); {prefix}, {epoch}, "
                "{step} and "
                "{task} are those of the source's, PREFIX_rank_RANK_TASK-EPOCH_STEP"),
    CLI_BATCH_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_reshard = {
    .name = "reshard",
    .operands = "SRC",
    .summary = "cut a model anew: from any number of ranks to any other",
    .description =
        "SRC is a checkpoint of many ranks, or any model that is whole. A layout is a MindSpore "
        "strategy or a directory of them, a layout.json, a topology.json or a tensor-parallel "
        "plan; numbers of ranks need not divide one another, nor the sizes of tensors. -o names a "
        "directory, which gets a file for each rank, and layout.json; where the names of --name "
        "end in a "
        "step, rank_N/meta.json names it as the last one.\n\n"
        "Every byte of the source is read once, also where tensors are cut along columns, in the "
        "memory that --memory gives. The directory appears when everything is written. A run that "
        "was killed goes on where it was when it is started again. For many machines: --task 1/8 "
        "to --task 8/8 on a common file system.",
    .examples =
        "safetensors reshard ranks/ --source-layout strategy/ --target-layout new.ckpt -o out/\n"
        "safetensors reshard model/ --target-layout plan.json --ranks 8 -o tp8/",
    .options = reshard_options,
    .common = CLI_BATCH_COMMON,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_reshard,
};

/* ---------------------------------------------------------------- slice */

/* With --partial a rank's part may be gone altogether. False: reported, and closed. */
static bool holds(cli_batch *b, const sft_catalog *global, sft_catalog *part) {
    bool any = sft_catalog_count(part) != 0 || sft_catalog_problem_count(part) == 0;

    for (size_t i = 0; sft_catalog_count(part) == 0 && i < sft_catalog_problem_count(global); i++) {
        const uint32_t kind = sft_catalog_problem_at(global, i)->kind;
        any = any && kind != SFT_PROBLEM_MISSING_FILE && kind != SFT_PROBLEM_MISSING_TENSOR;
    }

    if (!any) {
        CLI_FAIL(b->c, b->source, SFT_E_HOLE, "no tensor of the part is whole: nothing is written");
        sft_catalog_close(part);
    }
    return any;
}

static void run_slice(cli *c) {
    const uint64_t rank = cli_number(c, "rank", UINT64_MAX);
    sft_layout_set *set = NULL;
    sft_catalog *global;
    sft_catalog *part;
    cli_batch b;

    if (!cli_batch_init(&b, c, c->operands[0])) {
        return;
    }
    const char *name = cli_batch_to_file(&b);
    if (name != NULL && rank == UINT64_MAX) {
        cli_usage(c, "--rank K says whose part");
    } else if (name != NULL && open_target(c, "layout", &set) && cli_batch_open(&b, &global)) {
        if (rank >= sft_layout_set_ranks(set)) {
            cli_usage(c, "rank %llu: the layout has %llu ranks, from 0", (unsigned long long)rank,
                      (unsigned long long)sft_layout_set_ranks(set));
        } else if (cli_batch_fits(&b, "layout", set, global) &&
                   cut_rank(&b, global, set, rank, &part) && holds(&b, global, part)) {
            (void)cli_batch_file(&b, name, part, NULL, 0);
            b.named = global;
            cli_batch_run(&b, "slicing");
            sft_catalog_close(part);
        }
        cli_close(c, global);
    }
    if (set != NULL) {
        sft_layout_set_free(set);
    }
    cli_batch_reset(&b);
}

static const cli_opt slice_options[] = {
    CLI_OPT_ARG(CLI_NUMBER, "rank", 'k', "K", "whose part"),
    CLI_OPT_ARG(CLI_FILE, "layout", 0, "FILE", "how the model is to be cut"),
    CLI_OPT_ARG(CLI_NUMBER, "ranks", 'r', "N", "of a layout that does not say"),
    CLI_OPT_ARG(CLI_FILE, "source-layout", 0, "FILE", "of a source of many ranks: how it is cut"),
    CLI_OPT_ARG(CLI_NUMBER, "source-ranks", 0, "N", "of a source layout that does not say"),
    SOURCE_OPTIONS,
    CLI_BATCH_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_slice = {
    .name = "slice",
    .operands = "SRC",
    .summary = "write what one rank holds of a model",
    .description =
        "SRC is any model, or a checkpoint of many ranks with --source-layout. -o names the file "
        "that gets what --layout gives to rank K; only these bytes are read. Of ranks that are "
        "not all there --partial takes what is whole of the part (with --cast: what is whole of "
        "the model).",
    .examples = "safetensors slice model/ --rank 3 --layout strategy.ckpt -o rank_3.safetensors",
    .options = slice_options,
    .common = CLI_BATCH_COMMON,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_slice,
};
