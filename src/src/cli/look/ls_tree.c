/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/ls_tree.c - the listing as a tree by the dots in names. Rows are sorted; then each row prints
 * the folders that it does not share with the row before. Depth is limited, since a name may be all
 * dots. Read ls.h first.
 */
#include "cli/look/ls.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 24 };

/* Folders that are open above the row at hand: where in the name each ends. */
typedef struct stack {
    size_t depth;
    size_t prefix[MAX_DEPTH];
} stack;

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

/* Names that begin with the same folder stay together in this order, since folders end with a dot.
 */
static int compare_rows(const void *left, const void *right) {
    const ls_row *a = left;
    const ls_row *b = right;
    return sft_natural_compare(a->name, a->len, b->name, b->len);
}

static void put_name(cli_table *t, size_t depth, const char *name, size_t len) {
    char *text = cli_alloc(2 * depth + len + 1, 1);

    memset(text, ' ', 2 * depth);
    memcpy(text + 2 * depth, name, len);
    cli_table_text(t, text, 2 * depth + len);
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
static size_t folder_end(const ls_row *rows, size_t count, size_t first, size_t prefix) {
    size_t i = first + 1;

    while (i < count && rows[i].len >= prefix &&
           memcmp(rows[i].name, rows[first].name, prefix) == 0) {
        i++;
    }
    return i;
}

static void put_folder(cli *c, cli_table *t, const ls_row *rows, size_t count, size_t depth,
                       size_t from, size_t prefix) {
    uint64_t tensors = 0;
    uint64_t nbytes = 0;
    char number[32];
    char size[32];

    for (size_t i = 0; i < count; i++) {
        tensors += rows[i].count;
        nbytes += rows[i].nbytes;
    }
    put_name(t, depth, rows[0].name + from, prefix - from);
    cli_table_cell(t, "%s", "");
    cli_table_cell(t, "%s tensor%s", cli_grouped(number, tensors), tensors == 1 ? "" : "s");
    cli_table_cell(t, "%s", "");
    cli_table_cell(t, "%s", cli_size(size, nbytes, c->units));
}

/* Folders that row i opens: each as long as all its rows agree, none for a single row. */
static void open_folders(cli *c, cli_table *t, const ls_row *rows, size_t count, size_t i,
                         stack *open) {
    while (open->depth < MAX_DEPTH) {
        const size_t at = open->depth > 0 ? open->prefix[open->depth - 1] : 0;
        const size_t n = part_length(&rows[i], at);
        if (at + n >= rows[i].len) {
            return;
        }
        const size_t end = folder_end(rows, count, i, at + n);
        if (end == i + 1) {
            return;
        }
        const size_t prefix =
            shared(&rows[i], &rows[end - 1]); /* sorted: what these two share, all do */
        put_folder(c, t, rows + i, end - i, open->depth, at, prefix > at + n ? prefix : at + n);
        open->prefix[open->depth++] = prefix > at + n ? prefix : at + n;
    }
}

void cli_ls_tree(cli *c, ls_row *rows, size_t count) {
    static const char *const titles[] = {"name", "dtype", "shape", "", "size"};
    stack open = {0, {0}};
    cli_table t;

    qsort(rows, count, sizeof *rows, compare_rows);
    cli_table_init(&t, 5, titles, 1u << 4);
    for (size_t i = 0; i < count && !cli_stopped(c); i++) {
        const size_t common = i > 0 ? shared(&rows[i - 1], &rows[i]) : 0;
        while (open.depth > 0 && open.prefix[open.depth - 1] > common) {
            open.depth--;
        }
        open_folders(c, &t, rows, count, i, &open);
        const size_t at = open.depth > 0 ? open.prefix[open.depth - 1] : 0;
        put_name(&t, open.depth, rows[i].name + at, rows[i].len - at);
        cli_ls_facts(c, &t, &rows[i], true);
    }
    cli_table_print(&t, &c->out, c->color);
    cli_table_reset(&t);
}
