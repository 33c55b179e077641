/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/ls.c - what is in a file: a table, a tree, totals, or JSON. Reads headers only.
 * Read cmd.h and ls.h first.
 */
#include "cli/look/ls.h"
#include <stdlib.h>
#include <string.h>

bool cli_ls_wanted(const cli *c, const char *name, size_t len) {
    const char *pattern;

    for (size_t i = 0; (pattern = cli_list(c, "filter", i)) != NULL; i++) {
        if (cli_match(pattern, name, len)) {
            return true;
        }
    }
    return cli_list(c, "filter", 0) == NULL;
}

static int by_name(const void *left, const void *right) {
    const ls_row *a = left;
    const ls_row *b = right;
    return sft_natural_compare(a->name, a->len, b->name, b->len);
}

static int by_size(const void *left, const void *right) {
    const ls_row *a = left;
    const ls_row *b = right;
    return a->nbytes != b->nbytes ? (a->nbytes > b->nbytes ? -1 : 1) : by_name(left, right);
}

static void collect(ls_listing *l) {
    const size_t total = sft_catalog_count(l->catalog);

    l->rows = cli_alloc(total, sizeof *l->rows);
    for (size_t i = 0; i < total; i++) {
        const sft_tensor *t = sft_catalog_at(l->catalog, i);
        if (cli_ls_wanted(l->c, t->name, t->name_len)) {
            l->rows[l->count++] = (ls_row){t->name, t->name_len, NULL, t, 1, t->nbytes};
        }
    }
}

static void sort_rows(ls_listing *l) {
    const char *sort = cli_text(l->c, "sort");

    if (sort != NULL && strcmp(sort, "file") != 0) {
        qsort(l->rows, l->count, sizeof *l->rows, strcmp(sort, "name") == 0 ? by_name : by_size);
    }
}

/* ---------------------------------------------------------------- table */

void cli_ls_facts(cli *c, cli_table *t, const ls_row *row, bool counts) {
    char shape[CLI_SHAPE_ROOM];
    char size[32];
    char number[32];

    cli_table_text(t, row->tensor->dtype->name, strlen(row->tensor->dtype->name));
    cli_table_cell(t, "%s", cli_shape(shape, row->tensor->shape, row->tensor->rank));
    if (counts) {
        cli_table_cell(t, "%s%s", row->count > 1 ? "x" : "",
                       row->count > 1 ? cli_grouped(number, row->count) : "");
    }
    cli_table_cell(t, "%s", cli_size(size, row->nbytes, c->units));
}

static void print_table(ls_listing *l) {
    static const char *const plain[] = {"name", "dtype", "shape", "size"};
    static const char *const folded[] = {"name", "dtype", "shape", "", "size"};
    static const char *const full[] = {"name", "dtype", "shape", "size", "begin", "end", "file"};
    const bool fold = cli_flag(l->c, "fold");
    const bool is_long = cli_flag(l->c, "long") && !fold;
    cli_table t;

    if (is_long) {
        cli_table_init(&t, 7, full, 7u << 3);
    } else if (fold) {
        cli_table_init(&t, 5, folded, 1u << 4);
    } else {
        cli_table_init(&t, 4, plain, 1u << 3);
    }
    for (size_t i = 0; i < l->count; i++) {
        const ls_row *row = &l->rows[i];
        cli_table_text(&t, row->name, row->len);
        cli_ls_facts(l->c, &t, row, fold);
        if (is_long) {
            const sft_piece *piece = &row->tensor->pieces[0];
            const char *file =
                cli_relative(sft_catalog_file_at(l->catalog, row->tensor->file), l->operand);
            cli_table_cell(&t, "%llu", (unsigned long long)piece->offset);
            cli_table_cell(&t, "%llu", (unsigned long long)(piece->offset + piece->nbytes));
            cli_table_text(&t, file, strlen(file));
        }
    }
    cli_table_print(&t, &l->c->out, l->c->color);
    cli_table_reset(&t);
}

static void print_names(ls_listing *l) {
    const bool raw = cli_flag(l->c, "null");

    for (size_t i = 0; i < l->count; i++) {
        if (raw) {
            cli_put(&l->c->out, l->rows[i].name, l->rows[i].len);
        } else {
            cli_put_escaped(&l->c->out, l->rows[i].name, l->rows[i].len);
        }
        cli_put(&l->c->out, raw ? "" : "\n", 1);
    }
}

/* ---------------------------------------------------------------- totals */

typedef struct total {
    const char *name;
    uint64_t tensors;
    uint64_t elements;
    uint64_t nbytes;
} total;

static void add_total(cli *c, cli_table *t, const char *name, const total *sum) {
    char number[32];
    char count[32];
    char size[32];
    const char *brief = cli_count_short(count, sum->elements);

    cli_table_text(t, name, strlen(name));
    cli_table_cell(t, "%s tensor%s", cli_grouped(number, sum->tensors),
                   sum->tensors == 1 ? "" : "s");
    cli_table_cell(t, "%s parameter%s", cli_grouped(number, sum->elements),
                   sum->elements == 1 ? "" : "s");
    cli_table_cell(t, "%s%s%s", sum->elements >= 1000 ? "(" : "",
                   sum->elements >= 1000 ? brief : "", sum->elements >= 1000 ? ")" : "");
    cli_table_cell(t, "%s", cli_size(size, sum->nbytes, c->units));
}

static void print_totals(ls_listing *l) {
    total kinds[SFT_DTYPE_COUNT + 2];
    total all = {"total", 0, 0, 0};
    size_t used = 0;
    cli_table t;

    memset(kinds, 0, sizeof kinds);
    for (size_t i = 0; i < l->count; i++) {
        const sft_tensor *tensor = l->rows[i].tensor;
        const uint64_t elements = cli_elements(tensor) * l->rows[i].count;
        const uint32_t id = tensor->dtype->id;
        total *kind = &kinds[id <= SFT_DTYPE_COUNT ? id : SFT_DTYPE_COUNT + 1];
        used += kind->tensors == 0;
        kind->name = id <= SFT_DTYPE_COUNT ? tensor->dtype->name : "other";
        kind->tensors += l->rows[i].count;
        kind->elements += elements;
        kind->nbytes += l->rows[i].nbytes;
        all.tensors += l->rows[i].count;
        all.elements += elements;
        all.nbytes += l->rows[i].nbytes;
    }
    cli_table_init(&t, 5, NULL, 0x1e);
    for (size_t k = SFT_DTYPE_COUNT + 2; used > 1 && k-- > 0;) { /* widest types first */
        if (kinds[k].tensors > 0) {
            add_total(l->c, &t, kinds[k].name, &kinds[k]);
        }
    }
    add_total(l->c, &t, used == 1 ? "total" : all.name, &all);
    if (!cli_flag(l->c, "totals")) {
        cli_put(&l->c->out, "\n", 1);
    }
    cli_table_print(&t, &l->c->out, l->c->color);
    cli_table_reset(&t);
}

/* ---------------------------------------------------------------- command */

static void print_listing(ls_listing *l) {
    cli *c = l->c;

    if (c->json) {
        cli_ls_json(l);
        return;
    }
    if (c->operand_count > 1 && !cli_flag(c, "null")) {
        cli_puts(&c->out, c->color ? CLI_BOLD : "");
        cli_put_escaped(&c->out, l->operand, strlen(l->operand));
        cli_puts(&c->out, c->color ? ":" CLI_NORMAL "\n" : ":\n");
    }
    if (cli_flag(c, "fold")) {
        l->count = cli_ls_fold(l->rows, l->count);
        sort_rows(l);
    }
    if (cli_flag(c, "totals")) {
        print_totals(l);
    } else if (cli_flag(c, "names") || cli_flag(c, "null")) {
        print_names(l);
        if (cli_flag(c, "aliases")) {
            cli_ls_alias_names(l);
        }
        return;
    } else if (cli_flag(c, "tree")) {
        cli_ls_tree(c, l->rows, l->count);
        print_totals(l);
    } else {
        print_table(l);
        print_totals(l);
    }
    if (cli_flag(c, "aliases")) {
        cli_ls_alias_table(l);
    } else {
        cli_ls_alias_note(l);
    }
}

static void list_one(cli *c, const char *operand) {
    ls_listing l = {.c = c, .operand = operand};

    if (!cli_open(c, operand, SFT_OPEN_INCOMPLETE, &l.catalog)) {
        return;
    }
    l.single = cli_is_single(l.catalog, operand);
    collect(&l);
    sort_rows(&l);
    print_listing(&l);
    cli_warn_problems(c, l.catalog, operand);
    if (l.count == 0 && (!cli_flag(c, "aliases") || !cli_ls_alias_any(&l)) &&
        cli_list(c, "filter", 0) != NULL) {
        cli_answer(c, CLI_NO); /* as grep */
    }
    for (size_t i = 0; i < l.count; i++) {
        free(l.rows[i].owned);
    }
    free(l.rows);
    cli_close(c, l.catalog);
}

static void run(cli *c) {
    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        if (i > 0 && !c->json && !cli_flag(c, "names") && !cli_flag(c, "null")) {
            cli_put(&c->out, "\n", 1);
        }
        list_one(c, c->operands[i]);
    }
}

static const cli_opt options[] = {
    CLI_OPT_ARG(
        CLI_LIST, "filter", 'F', "GLOB",
        "only tensors whose whole name matches GLOB (* ? [a-z] [!x]); several: any of them"),
    CLI_OPT_CHOICE(
        "sort", 0, "KEY", "file|name|size",
        "order: file (as in the file; default), name (numbers as numbers), size (largest first)"),
    CLI_OPT_FLAG("tree", 't', "as a tree, by the dots in names"),
    CLI_OPT_FLAG("fold", 0,
                 "numbered tensors of one dtype and shape as one line: layers.{0..31}.w"),
    CLI_OPT_FLAG("long", 'l', "also where the bytes lie: offsets in the file, and which file"),
    CLI_OPT_FLAG("aliases", 'a',
                 "also other names of tensors, which the file records or shares storage by"),
    CLI_OPT_FLAG("totals", 0, "only totals: per dtype and overall"),
    CLI_OPT_FLAG("names", 0, "only names, escaped, one per line"),
    CLI_OPT_FLAG("null", '0', "only names, raw, each ended by a zero byte"),
    CLI_OPT_END,
};

const cli_command cli_cmd_ls = {
    .name = "ls",
    .operands = "FILE...",
    .summary = "list tensors: name, dtype, shape, size",
    .description = "Lists what is in files. Only headers are read, and they are validated: what ls "
                   "shows without "
                   "an error is a valid file.\n\n"
                   "Under the table are totals per dtype and overall. With --json, one object per "
                   "operand and line: "
                   "schema (1), file, header_bytes, data_bytes, metadata, and tensors in file "
                   "order, each with name, "
                   "dtype, shape, data_offsets (relative to the data section) and nbytes; for a "
                   "directory or index also "
                   "files, and with each tensor its file; where tensors have other names also "
                   "aliases, each with "
                   "name, of, dtype, shape and whole (false: it shows a part of the tensor). Other "
                   "names are no tensors "
                   "of the file: --aliases lists them, and commands that are given one find it.\n\n"
                   "If --filter matches nothing, the exit status is 1.",
    .examples = "safetensors ls model.safetensors\n"
                "safetensors ls --fold --sort name model/\n"
                "safetensors ls --filter '*.bias' --totals model.safetensors.index.json\n"
                "safetensors ls --json model.safetensors | jq '.tensors[].name'",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_SIZES | CLI_WITH_IMPORT |
              CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
