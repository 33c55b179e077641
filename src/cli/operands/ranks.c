/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/ranks.c - checkpoints of many ranks as operands. The extension libraries do not
 * know each other: files of ranks that are no safetensors are opened by sft_import_open, through a
 * callback from here. Read ranks.h first.
 */
#include "cli/operands/ranks.h"
#include "cli/operands/chosen.h"
#include "cli/operands/other_format.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t cli_ranks_kind(const char *operand) {
    uint32_t kind = SFT_CHECKPOINT_NONE;

    return strcmp(operand, "-") != 0 && sft_checkpoint_detect(operand, &kind, NULL) == SFT_OK
               ? kind
               : SFT_CHECKPOINT_NONE;
}

/* A rank's .ckpt. */
static sft_status open_other(void *ctx, const char *path, const sft_open_options *options,
                             sft_catalog **out, sft_error *err) {
    cli *c = ctx;
    sft_import_options o;
    sft_limits limits;

    *out = NULL;
    cli_import_options(c, &o, &limits);
    o.allocator = options->allocator;
    sft_import_report *report;
    const sft_status status = sft_import_open(out, path, &o, &report, err);
    if (status == SFT_OK) {
        cli_import_opened_rank(c, path, report);
    }
    return status;
}

static sft_status open_bytes(void *ctx, const char *url, sft_source **out, sft_error *err) {
    return cli_url_source(ctx, url, out, err);
}

void cli_ranks_options(cli *c, sft_checkpoint_options *o, const sft_open_options *open) {
    SFT_INIT(o);
    o->open = open;
    o->step = cli_text(c, "step");
    o->other = open_other;
    o->other_ctx = c;
    o->source = open_bytes;
    o->source_ctx = c;
    for (size_t i = 0; i < c->operand_count && o->pool == NULL; i++) {
        o->pool = cli_is_url(c->operands[i]) ? cli_url_askers(c) : NULL;
    }
    o->flags = cli_flag(c, "partial") ? SFT_CHECKPOINT_PARTIAL : 0;
    if (strcmp(c->command->name, "slice") == 0 && !cli_flag(c, "cast")) {
        o->flags |= SFT_CHECKPOINT_HOLES; /* the rank's own part may be whole */
    }
    o->config = c->config;
    o->config_size = c->config_size;
    o->leaves_out = cli_leaves_out;
    o->leaves_out_ctx = c;
    if ((c->command->common & CLI_WITH_RANKS) != 0) { /* slice's layout is the target's */
        o->layout = cli_text(c, "layout");
        o->layout_ranks = cli_number(c, "ranks", 0);
    }
}

sft_status cli_ranks_read_layout(const char *path, uint64_t ranks, sft_layout_set **out,
                                 sft_error *err) {
    sft_layout_set_options o;
    sft_error why;

    *out = NULL;
    SFT_INIT(&o);
    o.ranks = ranks;
    const sft_status status = sft_layout_set_open(out, path, &o, &why);
    if (status != SFT_OK) {
        return sft_error_from(err, status, &why, "%s: %s", path, why.message);
    }
    return SFT_OK;
}

bool cli_ranks_unmatched(char *text, size_t cap, const cli *c, const sft_layout_fit *fit) {
    char size[32];
    size_t n = 0;

    text[0] = '\0';
    if (fit->tensors_unmatched != 0) {
        const bool one = fit->tensors_unmatched == 1;
        n = (size_t)snprintf(text, cap,
                             "%llu of %llu tensors (%s) %s named by no entry of the "
                             "layout: whole on every rank",
                             (unsigned long long)fit->tensors_unmatched,
                             (unsigned long long)fit->tensors,
                             cli_size(size, fit->bytes_unmatched, c->units), one ? "is" : "are");
    }
    if (fit->entries_unmatched != 0 && n < cap) {
        (void)snprintf(text + n, cap - n, "%s%llu of %llu entries of the layout fit%s no tensor",
                       n != 0 ? "; " : "", (unsigned long long)fit->entries_unmatched,
                       (unsigned long long)fit->entries, fit->entries_unmatched == 1 ? "s" : "");
    }
    return text[0] != '\0';
}

void cli_ranks_tell(cli *c, const char *operand, const sft_checkpoint *checkpoint,
                    const sft_catalog *global) {
    const char *absent = sft_checkpoint_absent(checkpoint);
    const sft_layout_set *layouts = sft_checkpoint_layouts(checkpoint);
    sft_layout_fit fit;
    char text[256];

    if (absent[0] != '\0') {
        cli_warn(c, operand, "the layout's rank%s %s %s no file%s",
                 strpbrk(absent, ",-") != NULL ? "s" : "", absent,
                 strpbrk(absent, ",-") != NULL ? "have" : "has",
                 cli_flag(c, "partial") ? "" : ": replicas on other ranks stand in");
    }
    if (global == NULL || layouts == NULL ||
        sft_checkpoint_kind_of(checkpoint) != SFT_CHECKPOINT_RANKS) {
        return;
    }
    SFT_INIT(&fit);
    (void)!sft_layout_set_fit(layouts, global, &fit, NULL);
    fit.entries_unmatched = 0; /* were promises, and are kept or told */
    if (cli_ranks_unmatched(text, sizeof text, c, &fit)) {
        if (fit.bytes_unmatched > 8 * fit.tensors_unmatched) { /* no mere steps and rates */
            cli_warn(c, operand, "%s", text);
        } else {
            cli_note(c, operand, "%s", text);
        }
    }
}

void cli_ranks_end(cli *c) {
    c->unnamed = c->unchosen = NULL;
}

const sft_catalog *cli_as_opened(const cli *c, const sft_catalog *catalog) {
    return c->unchosen != NULL ? c->unchosen : c->unnamed != NULL ? c->unnamed : catalog;
}

static void note_kind(cli *c, const char *operand, const sft_checkpoint *checkpoint) {
    const char *found = sft_checkpoint_layout_path(checkpoint);
    const bool said = found[0] != '\0';

    cli_note(c, operand, "%s%s%s%s", sft_checkpoint_kind_title(sft_checkpoint_kind_of(checkpoint)),
             said ? ", sharded as " : "", found, said ? " says" : "");
}

sft_status cli_ranks_open(cli *c, const char *operand, sft_checkpoint **out, sft_error *err) {
    sft_checkpoint_options o;
    sft_open_options open;
    sft_limits limits;

    SFT_INIT(&open);
    SFT_INIT(&limits);
    limits.header_bytes = cli_number(c, "max-header-bytes", 0);
    open.limits = &limits;
    cli_ranks_options(c, &o, &open);
    const sft_status status = sft_checkpoint_open(out, operand, &o, err);
    if (status == SFT_OK) {
        note_kind(c, operand, *out);
    }
    return status;
}

void cli_ranks_opened(cli *c, const char *operand, const sft_catalog *catalog) {
    const sft_checkpoint *checkpoint = sft_checkpoint_of(catalog);

    if (checkpoint != NULL) {
        note_kind(c, operand, checkpoint);
        cli_ranks_tell(c, operand, checkpoint, catalog);
    }
}
