/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/ranks.c - checkpoints of many ranks as operands. The extension libraries do not
 * know each other: files of ranks that are no safetensors are opened by sft_import_open, through a
 * callback from here. Read ranks.h first.
 */
#include "cli/operands/ranks.h"
#include "cli/operands/foreign.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_ranks_possible(const char *operand) {
    static const char *const names[] = {"param_name_map.json", "metadata.json", "topology.json"};
    const char *base = operand;

    if (strcmp(operand, "-") == 0 || cli_is_url(operand)) {
        return false;
    }
    for (const char *p = operand; *p != '\0'; p++) {
        base = *p == '/' || *p == '\\' ? p + 1 : base;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(base, names[i]) == 0) {
            return true;
        }
    }
    return cli_sys_kind(operand) == CLI_KIND_FOLDER;
}

uint32_t cli_ranks_kind(const char *operand) {
    uint32_t kind = SFT_CHECKPOINT_NONE;

    return cli_ranks_possible(operand) && sft_checkpoint_detect(operand, &kind, NULL) == SFT_OK
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
    return sft_import_open(out, path, &o, NULL, err);
}

void cli_ranks_options(cli *c, sft_checkpoint_options *o, const sft_open_options *open) {
    SFT_INIT(o);
    o->open = open;
    o->step = cli_text(c, "step");
    o->other = open_other;
    o->other_ctx = c;
    o->flags = cli_flag(c, "partial") ? SFT_CHECKPOINT_PARTIAL : 0;
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
        return sft_error_set(err, status, why.sys, why.offset, why.tensor, strlen(why.tensor),
                             "%s: %s", path, why.message);
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

void cli_ranks_tell(cli *c, const char *operand, const char *absent, const sft_layout_set *layouts,
                    const sft_catalog *whole) {
    sft_layout_fit fit;
    char text[256];

    if (absent[0] != '\0') {
        cli_warn(c, operand, "the layout's rank%s %s %s no file%s",
                 strpbrk(absent, ",-") != NULL ? "s" : "", absent,
                 strpbrk(absent, ",-") != NULL ? "have" : "has",
                 cli_flag(c, "partial") ? "" : ": replicas on other ranks stand in");
    }
    if (layouts == NULL) {
        return;
    }
    SFT_INIT(&fit);
    (void)!sft_layout_set_fit(layouts, whole, &fit, NULL);
    fit.entries_unmatched = 0; /* were promises, and are kept or told */
    if (cli_ranks_unmatched(text, sizeof text, c, &fit)) {
        if (fit.bytes_unmatched > 8 * fit.tensors_unmatched) { /* no mere steps and rates */
            cli_warn(c, operand, "%s", text);
        } else {
            cli_note(c, operand, "%s", text);
        }
    }
}

sft_status cli_ranks_layout(cli *c, sft_layout_set **out, sft_error *err) {
    const bool about_source =
        (c->command->common & CLI_WITH_RANKS) != 0; /* slice's is the target's */
    const char *path = about_source ? cli_text(c, "layout") : NULL;

    *out = NULL;
    if (path == NULL) {
        return SFT_OK;
    }
    return cli_ranks_read_layout(path, cli_number(c, "ranks", 0), out, err);
}

/* Layouts live until the tool ends: a set learns from what it is used with, so that each operand
 * has its own. */
static sft_status lasting_layout(cli *c, sft_layout_set **out, sft_error *err) {
    const sft_status status = cli_ranks_layout(c, out, err);
    if (*out != NULL) {
        c->layouts = cli_resize(c->layouts, c->layout_count + 1, sizeof *c->layouts);
        c->layouts[c->layout_count++] = *out;
    }
    return status;
}

void cli_ranks_end(cli *c) {
    sft_catalog_close(c->unnamed);
    c->unnamed = NULL;
    for (size_t i = 0; i < c->layout_count; i++) {
        sft_layout_set_free(c->layouts[i]);
    }
    free(c->layouts);
    c->layouts = NULL;
    c->layout_count = 0;
}

sft_status cli_ranks_open(cli *c, const char *operand, const sft_open_options *options,
                          sft_checkpoint **out, sft_error *err) {
    sft_checkpoint_options o;
    sft_layout_set *layouts;

    *out = NULL;
    sft_status status = lasting_layout(c, &layouts, err);
    if (status != SFT_OK) {
        return status;
    }
    cli_ranks_options(c, &o, options);
    o.layouts = layouts;
    status = sft_checkpoint_open(out, operand, &o, err);
    if (status == SFT_OK) {
        const char *found = sft_checkpoint_layout_path(*out);
        cli_note(c, operand, "%s%s%s", sft_checkpoint_kind_title(sft_checkpoint_kind_of(*out)),
                 found[0] != '\0' ? ", cut as told in " : "", found);
    }
    return status;
}

sft_status cli_ranks_take(cli *c, const char *operand, sft_checkpoint *checkpoint,
                          const sft_open_options *options, sft_catalog **out, sft_error *err) {
    const bool ranks = sft_checkpoint_kind_of(checkpoint) == SFT_CHECKPOINT_RANKS;
    const sft_layout_set *layouts = ranks ? sft_checkpoint_layouts(checkpoint) : NULL;
    char absent[256];

    /* both go with the catalog, but for the text */
    (void)snprintf(absent, sizeof absent, "%s", sft_checkpoint_absent(checkpoint));
    const sft_status status = sft_checkpoint_take_global(out, checkpoint, options, err);
    if (status == SFT_OK) {
        cli_ranks_tell(c, operand, absent, layouts, *out);
    }
    return status;
}

sft_status cli_ranks_open_whole(cli *c, const char *operand, const sft_open_options *options,
                                sft_catalog **out, bool *ours, sft_error *err) {
    uint32_t kind = SFT_CHECKPOINT_NONE;
    sft_checkpoint *checkpoint;
    sft_status status;

    *out = NULL;
    *ours = false;
    if (!cli_ranks_possible(operand)) {
        return SFT_OK;
    }
    const bool stepped = cli_text(c, "step") != NULL && cli_sys_kind(operand) == CLI_KIND_FOLDER;
    if (sft_checkpoint_detect(operand, &kind, NULL) != SFT_OK ||
        (kind == SFT_CHECKPOINT_NONE && !stepped)) {
        return SFT_OK; /* the core says what is wrong with it */
    }
    *ours = true;
    status = cli_ranks_open(c, operand, options, &checkpoint, err);
    return status == SFT_OK ? cli_ranks_take(c, operand, checkpoint, options, out, err) : status;
}
