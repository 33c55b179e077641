/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/mem.c - what loading a model would take: bytes by dtype, by file, and as if cast. Only
 * headers are read. Read cmd.h first.
 */
#include "cli/operands/rank.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sum {
    const char *name;
    uint64_t tensors;
    uint64_t elements;
    uint64_t nbytes;
    uint64_t cast; /* bytes as --dtype */
} sum;

typedef struct memory {
    sum kinds[SFT_DTYPE_COUNT + 2];
    sum all;
    uint64_t largest;
    const sft_tensor *largest_tensor;
    const sft_dtype *dtype; /* NULL: as it is */
    sum *ranks;             /* of a layout, all of them; or NULL */
    uint64_t rank_count;
} memory;

/* Floating point becomes --dtype, as frameworks do it; integers stay. */
static uint64_t cast_bytes(const memory *m, const sft_tensor *t) {
    if (m->dtype == NULL || t->dtype->kind != SFT_KIND_FLOAT) {
        return t->nbytes;
    }
    const uint64_t per = m->dtype->block_elements;
    return (cli_elements(t) + per - 1) / per * m->dtype->block_bytes;
}

static void add_tensor(memory *m, const sft_tensor *t) {
    const uint32_t id = t->dtype->id;
    sum *kind = &m->kinds[id <= SFT_DTYPE_COUNT ? id : SFT_DTYPE_COUNT + 1];
    sum *const both[] = {kind, &m->all};

    kind->name = id <= SFT_DTYPE_COUNT ? t->dtype->name : "other";
    for (size_t i = 0; i < 2; i++) {
        both[i]->tensors++;
        both[i]->elements += cli_elements(t);
        both[i]->nbytes += t->nbytes;
        both[i]->cast += cast_bytes(m, t);
    }
    if (t->nbytes > m->largest || m->largest_tensor == NULL) {
        m->largest = t->nbytes;
        m->largest_tensor = t;
    }
}

static void row(cli *c, cli_table *t, const memory *m, const char *name, const sum *s) {
    char number[32];
    char size[32];

    cli_table_text(t, name, strlen(name));
    cli_table_cell(t, "%s tensor%s", cli_grouped(number, s->tensors), s->tensors == 1 ? "" : "s");
    cli_table_cell(t, "%s parameter%s", cli_grouped(number, s->elements),
                   s->elements == 1 ? "" : "s");
    cli_table_cell(t, "%s", cli_size(size, s->nbytes, c->units));
    if (m->dtype != NULL) {
        cli_table_cell(t, "%s as %s", cli_size(size, s->cast, c->units), m->dtype->name);
    }
}

static void print_files(cli *c, const sft_catalog *catalog, const char *operand) {
    const size_t count = sft_catalog_file_count(catalog);
    char size[32];
    char header[32];
    cli_table t;

    if (count < 2) {
        return;
    }
    cli_put(&c->out, "\n", 1);
    cli_table_init(&t, 3, NULL, 0x6);
    for (size_t i = 0; i < count; i++) {
        const sft_file *f = sft_catalog_file_at(catalog, i);
        const char *name = cli_relative(f, operand);
        cli_table_text(&t, name, strlen(name));
        cli_table_cell(&t, "%s", cli_size(size, f->data_bytes, c->units));
        cli_table_cell(&t, "header %s", cli_size(header, f->header_bytes, c->units));
    }
    cli_table_print(&t, &c->out, c->color);
}

static void print_ranks(cli *c, const memory *m) {
    char name[32];
    cli_table t;

    if (m->ranks == NULL) {
        return;
    }
    cli_put(&c->out, "\n", 1);
    cli_table_init(&t, m->dtype != NULL ? 5 : 4, NULL, 0x1e);
    for (uint64_t k = 0; k < m->rank_count; k++) {
        (void)snprintf(name, sizeof name, "rank %llu", (unsigned long long)k);
        row(c, &t, m, name, &m->ranks[k]);
    }
    cli_table_print(&t, &c->out, c->color);
}

static void print_text(cli *c, const sft_catalog *catalog, const char *operand, const memory *m) {
    char size[32];
    cli_table t;

    cli_put_escaped(&c->out, operand, strlen(operand));
    cli_put(&c->out, "\n", 1);
    cli_table_init(&t, m->dtype != NULL ? 5 : 4, NULL, 0x1e);
    for (size_t k = SFT_DTYPE_COUNT + 2; k-- > 0;) { /* widest types first */
        if (m->kinds[k].tensors > 0) {
            row(c, &t, m, m->kinds[k].name, &m->kinds[k]);
        }
    }
    row(c, &t, m, "total", &m->all);
    cli_table_print(&t, &c->out, c->color);
    if (m->largest_tensor != NULL) {
        cli_printf(&c->out, "largest tensor: ");
        cli_put_escaped(&c->out, m->largest_tensor->name, m->largest_tensor->name_len);
        cli_printf(&c->out, ", %s\n", cli_size(size, m->largest, c->units));
    }
    print_ranks(c, m);
    print_files(c, catalog, operand);
}

static void json_sum(cli_json *j, const memory *m, const sum *s) {
    cli_json_open(j, '{');
    cli_json_field_u64(j, "tensors", s->tensors);
    cli_json_field_u64(j, "parameters", s->elements);
    cli_json_field_u64(j, "nbytes", s->nbytes);
    if (m->dtype != NULL) {
        cli_json_field_u64(j, "cast_nbytes", s->cast);
    }
    cli_json_close(j, '}');
}

static void print_json(cli *c, const sft_catalog *catalog, const char *operand, const memory *m) {
    cli_json j;

    cli_json_begin(&j, &c->out);
    cli_json_field_string(&j, "file", operand);
    cli_json_field_open(&j, "dtypes", '{');
    for (size_t k = SFT_DTYPE_COUNT + 2; k-- > 0;) {
        if (m->kinds[k].tensors > 0) {
            cli_json_key(&j, m->kinds[k].name);
            json_sum(&j, m, &m->kinds[k]);
        }
    }
    cli_json_close(&j, '}');
    cli_json_key(&j, "total");
    json_sum(&j, m, &m->all);
    cli_json_field_u64(&j, "largest_nbytes", m->largest);
    if (m->ranks != NULL) {
        cli_json_field_open(&j, "ranks", '[');
        for (uint64_t k = 0; k < m->rank_count; k++) {
            json_sum(&j, m, &m->ranks[k]);
        }
        cli_json_close(&j, ']');
    }
    cli_json_field_open(&j, "files", '[');
    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        const sft_file *f = sft_catalog_file_at(catalog, i);
        cli_json_open(&j, '{');
        cli_json_field_string(&j, "file", cli_relative(f, operand));
        cli_json_field_u64(&j, "data_bytes", f->data_bytes);
        cli_json_field_u64(&j, "header_bytes", f->header_bytes);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_end(&j);
}

static void add_all(memory *m, const sft_catalog *catalog) {
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        add_tensor(m, sft_catalog_at(catalog, i));
    }
}

/* All ranks of the layout, each by itself. */
static sft_status add_ranks(const cli *c, memory *m, const cli_rank *r, const sft_catalog *global,
                            sft_error *err) {
    m->ranks = cli_alloc((size_t)r->count + 1, sizeof *m->ranks);
    for (; m->rank_count < r->count && !cli_stopped(c); m->rank_count++) {
        sft_catalog *part;
        memory own;
        const sft_status status = cli_rank_cut(r, global, m->rank_count, &part, err);
        if (status != SFT_OK) {
            return status;
        }
        memset(&own, 0, sizeof own);
        own.dtype = m->dtype;
        add_all(&own, part);
        m->ranks[m->rank_count] = own.all;
        sft_catalog_close(part);
    }
    return SFT_OK;
}

static void one(cli *c, const char *operand, const sft_dtype *dtype, cli_rank *r) {
    sft_catalog *catalog;
    sft_catalog *part = NULL;
    sft_status status = SFT_OK;
    sft_error err;
    memory m;

    if (!cli_open(c, operand, 0, &catalog)) {
        return;
    }
    if (!cli_rank_bind(r, c, operand, catalog)) {
        cli_close(c, catalog);
        return;
    }
    memset(&m, 0, sizeof m);
    m.dtype = dtype;
    if (r->rank != UINT64_MAX) {
        status = cli_rank_cut(r, catalog, r->rank, &part, &err);
    } else if (r->set != NULL) {
        status = add_ranks(c, &m, r, catalog, &err);
    }
    if (status != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
    } else {
        add_all(&m, part != NULL ? part : catalog);
        if (c->json) {
            print_json(c, catalog, operand, &m);
        } else {
            print_text(c, catalog, operand, &m);
        }
        cli_warn_problems(c, catalog, operand);
    }
    free(m.ranks);
    sft_catalog_close(part);
    cli_close(c, catalog);
}

static void run(cli *c) {
    const char *name = cli_text(c, "dtype");
    const sft_dtype *dtype = name != NULL ? sft_dtype_find(name, strlen(name)) : NULL;
    cli_rank r;

    if (name != NULL && dtype == NULL) {
        cli_usage(c, "--dtype: \"%s\" is no element type", name);
        return;
    }
    if (!cli_rank_init(&r, c)) {
        return;
    }
    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        if (i > 0 && !c->json) {
            cli_put(&c->out, "\n", 1);
        }
        one(c, c->operands[i], dtype, &r);
    }
    cli_rank_reset(&r);
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_TEXT, "dtype", 0, "DTYPE",
                "also as if floating-point tensors were cast to DTYPE (F16, BF16, F8_E4M3 ...)"),
    CLI_RANK_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_mem = {
    .name = "mem",
    .operands = "FILE...",
    .summary = "what loading would take, by dtype and by file",
    .description =
        "Sums up what the tensors of a file, directory, index or URL take in memory: per dtype, "
        "overall, the largest tensor, and per file. Only headers are read.\n\n"
        "With --dtype a further column tells the same with every floating-point tensor cast; "
        "integer and boolean tensors stay as they are. With --layout the same for each rank of it, "
        "with --rank for that one alone.\n\n"
        "--json writes one object per operand: schema, file, dtypes, total (tensors, parameters, "
        "nbytes, cast_nbytes), largest_nbytes, ranks (with --layout), files.",
    .examples = "safetensors mem hf://org/model # before it is downloaded\n"
                "safetensors mem --dtype BF16 model/\n"
                "safetensors mem --layout plan.json --rank 0/8 hf://org/model",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_SIZES | CLI_WITH_IMPORT | CLI_WITH_REMOTE,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
