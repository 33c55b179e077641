/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/ls_tree.c - the listing as a tree by the dots in names. Rows are sorted; then each row prints
 * the branches that it does not share with the row before. Depth is limited, since a name may be all
 * dots. Read ls.h first.
 */
#include "cli/look/ls.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 24 };

/* What is printed, and the branches that are open above the row at hand: where in the name each ends. */
typedef struct tree {
    cli *c;
    cli_table table;
    size_t depth;
    size_t prefix[MAX_DEPTH];
} tree;

/* Length of the part at `at`, the dot included; a {0..31} that folding made is no place to cut. */
static size_t part_length(const ls_row *row, size_t at) {
    bool inside = false;

    for (size_t i = at; i < row->len; i++) {
        if (row->owned != NULL && (row->name[i] == '{' || row->name[i] == '}')) {
            inside = row->name[i] == '{';
        }
        if (row->name[i] == '.' && !inside) {
            return i + 1 - at;
        }
    }
    return row->len - at;
}

/* Names that begin with the same branch stay together in this order, since branches end with a dot. */
static int compare_rows(const void *left, const void *right) {
    const ls_row *a = left;
    const ls_row *b = right;
    return sft_natural_compare(a->name, a->len, b->name, b->len);
}

static void put_name(tree *t, const char *name, size_t len) {
    const size_t indent = 2 * t->depth;
    char *text = cli_alloc(indent + len + 1, 1);

    memset(text, ' ', indent);
    memcpy(text + indent, name, len);
    cli_table_text(&t->table, text, indent + len);
    free(text);
}

/* Bytes of whole parts that two names have in common at the start. */
static size_t shared(const ls_row *a, const ls_row *b) {
    size_t at = 0;

    while (at < a->len && at < b->len) {
        const size_t na = part_length(a, at);
        const size_t nb = part_length(b, at);
        if (na != nb || at + na >= a->len || at + nb >= b->len ||
            memcmp(a->name + at, b->name + at, na) != 0) {
            break;
        }
        at += na;
    }
    return at;
}

/* First row after `first` that does not begin with its first `prefix` bytes. */
static size_t branch_end(const ls_row *rows, size_t count, size_t first, size_t prefix) {
    size_t i = first + 1;

    while (i < count && rows[i].len >= prefix &&
           memcmp(rows[i].name, rows[first].name, prefix) == 0) {
        i++;
    }
    return i;
}

static void put_branch(tree *t, const ls_row *rows, size_t count, size_t from, size_t prefix) {
    uint64_t tensors = 0;
    uint64_t nbytes = 0;
    char number[32];
    char size[32];

    for (size_t i = 0; i < count; i++) {
        tensors += rows[i].count;
        nbytes += rows[i].nbytes;
    }
    put_name(t, rows[0].name + from, prefix - from);
    cli_table_cell(&t->table, "%s", "");
    cli_table_cell(&t->table, "%s tensor%s", cli_grouped(number, tensors), tensors == 1 ? "" : "s");
    cli_table_cell(&t->table, "%s", "");
    cli_table_cell(&t->table, "%s", cli_size(size, nbytes, t->c->units));
}

/* Branches that row i opens: each as long as all its rows agree, none for a single row. */
static void open_branches(tree *t, const ls_row *rows, size_t count, size_t i) {
    while (t->depth < MAX_DEPTH) {
        const size_t at = t->depth > 0 ? t->prefix[t->depth - 1] : 0;
        const size_t n = part_length(&rows[i], at);
        if (at + n >= rows[i].len) {
            return;
        }
        const size_t end = branch_end(rows, count, i, at + n);
        if (end == i + 1) {
            return;
        }
        const size_t common = shared(&rows[i], &rows[end - 1]); /* sorted: all share it, too */
        const size_t prefix = common > at + n ? common : at + n;
        put_branch(t, rows + i, end - i, at, prefix);
        t->prefix[t->depth++] = prefix;
    }
}

void cli_ls_tree(cli *c, ls_row *rows, size_t count) {
    static const char *const titles[] = {"name", "dtype", "shape", "", "size"};
    tree t = {.c = c};

    qsort(rows, count, sizeof *rows, compare_rows);
    cli_table_init(&t.table, 5, titles, 1u << 4);
    for (size_t i = 0; i < count && !cli_stopped(c); i++) {
        const size_t common = i > 0 ? shared(&rows[i - 1], &rows[i]) : 0;
        while (t.depth > 0 && t.prefix[t.depth - 1] > common) {
            t.depth--;
        }
        open_branches(&t, rows, count, i);
        const size_t at = t.depth > 0 ? t.prefix[t.depth - 1] : 0;
        put_name(&t, rows[i].name + at, rows[i].len - at);
        cli_ls_facts(c, &t.table, &rows[i], true);
    }
    cli_table_print(&t.table, &c->out, c->color);
}
