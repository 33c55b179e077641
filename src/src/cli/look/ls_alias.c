/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/ls_alias.c - other names of tensors, which are none of the file's tensors: a table of them,
 * their names, or how many there are. Read ls.h first.
 */
#include "cli/look/ls.h"
#include "cli/operands/other_name.h"

/* Calls `each` with every alias that --filter lets through; returns how many. */
static size_t walk(ls_listing *l, void (*each)(void *ctx, const cli_other_name *alias), void *ctx) {
    const size_t count = sft_catalog_alias_count(l->catalog);
    size_t wanted = 0;

    for (size_t i = 0; i < count && !cli_stopped(l->c); i++) {
        const cli_other_name a = cli_other_name_at(l->catalog, i);
        if (a.shows != NULL && cli_ls_wanted(l->c, a.name, a.len)) {
            wanted++;
            if (each != NULL) {
                each(ctx, &a);
            }
        }
    }
    return wanted;
}

/* ---------------------------------------------------------------- text */

static void row(void *ctx, const cli_other_name *a) {
    cli_table *t = ctx;
    char shape[CLI_SHAPE_ROOM];

    cli_table_text(t, a->name, a->len);
    cli_table_text(t, a->whole->name, a->whole->name_len);
    cli_table_cell(t, "%s", a->shows->dtype->name);
    cli_table_cell(t, "%s", cli_shape(shape, a->shows->shape, a->shows->rank));
    cli_table_cell(t, "%s", a->part ? "part" : "all");
}

void cli_ls_alias_table(ls_listing *l) {
    static const char *const titles[] = {"other name", "of", "dtype", "shape", "shows"};
    cli_table t;

    cli_table_init(&t, 5, titles, 0);
    if (walk(l, row, &t) != 0) {
        cli_put(&l->c->out, "\n", 1);
        cli_table_print(&t, &l->c->out, l->c->color);
    }
    cli_table_reset(&t);
}

void cli_ls_alias_note(ls_listing *l) {
    const size_t count = walk(l, NULL, NULL);

    if (count != 0) {
        cli_printf(&l->c->out, "%llu other %s (--aliases)\n", (unsigned long long)count,
                   count == 1 ? "name of a tensor" : "names of tensors");
    }
}

static void name(void *ctx, const cli_other_name *a) {
    const ls_listing *l = ctx;
    const bool raw = cli_flag(l->c, "null");

    if (raw) {
        cli_put(&l->c->out, a->name, a->len);
    } else {
        cli_put_escaped(&l->c->out, a->name, a->len);
    }
    cli_put(&l->c->out, raw ? "" : "\n", 1);
}

void cli_ls_alias_names(ls_listing *l) {
    (void)walk(l, name, l);
}

/* ---------------------------------------------------------------- JSON */

static void member(void *ctx, const cli_other_name *a) {
    cli_json *j = ctx;

    cli_json_open(j, '{');
    cli_json_key(j, "name");
    cli_json_text(j, a->name, a->len);
    cli_json_key(j, "of");
    cli_json_text(j, a->whole->name, a->whole->name_len);
    cli_json_key(j, "dtype");
    cli_json_string(j, a->shows->dtype->name);
    cli_json_key(j, "shape");
    cli_json_open(j, '[');
    for (uint32_t d = 0; d < a->shows->rank; d++) {
        cli_json_u64(j, a->shows->shape[d]);
    }
    cli_json_close(j, ']');
    cli_json_key(j, "whole");
    cli_json_bool(j, !a->part);
    cli_json_close(j, '}');
}

void cli_ls_alias_json(ls_listing *l, cli_json *j) {
    if (walk(l, NULL, NULL) == 0) {
        return;
    }
    cli_json_key(j, "aliases");
    cli_json_open(j, '[');
    (void)walk(l, member, j);
    cli_json_close(j, ']');
}

bool cli_ls_alias_any(ls_listing *l) {
    return walk(l, NULL, NULL) != 0;
}
