/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/ls.h - between the parts of the ls command: rows, folding of numbered names, the tree by
 * dots.
 */
#ifndef SFT_CLI_LS_H
#define SFT_CLI_LS_H

#include "cli/cmd.h"

/* One line of the listing: a tensor, or several alike that differ only in numbers in their names.
 */
typedef struct ls_row {
    const char *name; /* raw, as in the file; of a folded row: made, with {0..31} or # */
    size_t len;
    char *owned;              /* name, when it was made */
    const sft_tensor *tensor; /* the first */
    uint64_t count;
    uint64_t nbytes; /* of all */
} ls_row;

/* One operand being listed. */
typedef struct ls_listing {
    cli *c;
    const char *operand;
    sft_catalog *catalog;
    bool single; /* one file, not a model of several */
    ls_row *rows;
    size_t count;
} ls_listing;

/* Does --filter let the name through? */
bool cli_ls_wanted(const cli *c, const char *name, size_t len);

/* Other names: as a table, as names, as how many there are, as "aliases" (if there are any). */
bool cli_ls_alias_any(ls_listing *l);
void cli_ls_alias_table(ls_listing *l);
void cli_ls_alias_names(ls_listing *l);
void cli_ls_alias_note(ls_listing *l);
void cli_ls_alias_json(ls_listing *l, cli_json *j);

/* Puts rows together whose names differ only in whole numbers between dots and whose dtype and
 * shape are equal. Works in place, keeps the order of first appearance; returns the new number of
 * rows. */
size_t cli_ls_fold(ls_row *rows, size_t count);

/* Rows as an indented tree. Sorts them. */
void cli_ls_tree(cli *c, ls_row *rows, size_t count);

/* The cells that follow the name: dtype, shape, number (only with `counts`), size. */
void cli_ls_facts(cli *c, cli_table *t, const ls_row *row, bool counts);

/* The whole operand as one JSON object. */
void cli_ls_json(ls_listing *l);

#endif
