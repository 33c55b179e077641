/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/join.c - a model of many files as one file, or in MindSpore's unified form. Read batch.h
 * first.
 */
#include "cli/operands/chosen.h"
#include "cli/operands/ranks.h"
#include "cli/outputs/batch.h"
#include "cli/outputs/beside.h"
#include "cli/ui/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MindSpore's parts have about so many bytes (mindspore.parallel.unified_safetensors). */
static const uint64_t PART_BYTES = (uint64_t)3 << 30;

typedef struct unifying {
    cli_batch *b;
    const sft_catalog *catalog;
    const sft_catalog *original; /* with the names of the layout */
    const sft_layout_set *set;   /* NULL: nobody says which tensors are hyper parameters */
    uint32_t *params;            /* positions of parameters, the largest first */
    size_t param_count;
    uint32_t *hyper;
    size_t hyper_count;
    uint64_t total;
} unifying;

/* ---------------------------------------------------------------- what is a parameter */

typedef struct entry_name {
    const char *text;
    size_t len;
} entry_name;

static int by_name(const void *a, const void *b) {
    const entry_name *const x = a;
    const entry_name *const y = b;
    const size_t n = x->len < y->len ? x->len : y->len;
    const int order = n != 0 ? memcmp(x->text, y->text, n) : 0;

    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* The layout's names in order; NULL: it has patterns or modules, which speak of parameters alone. */
static entry_name *named(const sft_layout_set *set, size_t *count) {
    const size_t n = sft_layout_set_count(set);
    entry_name *all = cli_alloc(n + 1, sizeof *all);

    for (*count = 0; *count < n; ++*count) {
        sft_layout_entry e;
        SFT_INIT(&e);
        if (sft_layout_set_at(set, *count, &e, NULL) != SFT_OK ||
            e.match != SFT_LAYOUT_MATCH_NAME) {
            free(all);
            return NULL;
        }
        all[*count] = (entry_name){e.name, e.name_len};
    }
    if (n > 1) {
        qsort(all, n, sizeof *all, by_name);
    }
    return all;
}

/* The tensor as the layout knows it; NULL: rules for names have changed it, so it is a parameter. */
static const sft_tensor *as_opened(const unifying *u, const sft_tensor *t) {
    const sft_tensor *was = sft_catalog_find(u->original, t->name, t->name_len);
    const uint32_t *index;
    const sft_catalog *from = cli_chosen_from(u->original, &index);

    return was == NULL || from == NULL
               ? was
               : sft_catalog_at(from, index[sft_catalog_index_of(u->original, was)]);
}

static void sort_out(unifying *u) {
    const size_t count = sft_catalog_count(u->catalog);
    size_t n = 0;
    entry_name *names = u->set != NULL ? named(u->set, &n) : NULL;

    u->params = cli_alloc(count + 1, sizeof *u->params);
    u->hyper = cli_alloc(count + 1, sizeof *u->hyper);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(u->catalog, i);
        const bool accumulator = t->name_len >= 10 && memcmp(t->name, "accu_grads", 10) == 0;
        const sft_tensor *was = as_opened(u, t);
        bool known = names == NULL || was == NULL;

        if (!known) {
            const entry_name key = {was->name, was->name_len};
            known = bsearch(&key, names, n, sizeof *names, by_name) != NULL;
        }
        if (!accumulator && known) {
            u->params[u->param_count++] = (uint32_t)i;
            u->total += t->nbytes;
        } else if (!accumulator) {
            u->hyper[u->hyper_count++] = (uint32_t)i;
        }
    }
    free(names);
}

/* ---------------------------------------------------------------- parts */

/* Merge sort by size, the largest first; equal ones keep their order. */
static void sort_by_size(unifying *u) {
    const size_t n = u->param_count;
    uint32_t *from = u->params;
    uint32_t *to = cli_alloc(n + 1, sizeof *to);

    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            const size_t mid = at + width < n ? at + width : n;
            const size_t end = at + 2 * width < n ? at + 2 * width : n;
            size_t a = at;
            size_t b = mid;
            for (size_t i = at; i < end; i++) {
                const bool left =
                    a < mid && (b == end || sft_catalog_at(u->catalog, from[a])->nbytes >=
                                                sft_catalog_at(u->catalog, from[b])->nbytes);
                to[i] = left ? from[a++] : from[b++];
            }
        }
        uint32_t *other = from;
        from = to;
        to = other;
    }
    u->params = from;
    free(to);
}

/* The first file's, as a format of MindSpore. */
static size_t make_metadata(const sft_catalog *c, sft_metadata_entry **all) {
    const size_t count = sft_catalog_file_count(c) > 0 ? sft_catalog_metadata_count(c, 0) : 0;
    size_t n = 0;

    *all = cli_alloc(count + 1, sizeof **all);
    for (size_t i = 0; i < count; i++) {
        const sft_metadata_entry e = cli_metadata_at(c, 0, i);
        if (!cli_is_word(e.key, e.key_len, "crc_num") && !cli_is_word(e.key, e.key_len, "format")) {
            (*all)[n++] = e;
        }
    }
    (*all)[n++] = (sft_metadata_entry){"format", 6, "ms", 2};
    return n;
}

/* The largest first, each to the part that has least; of equal ones to the first. */
static void make_parts(unifying *u, uint64_t part_bytes) {
    const char *names = cli_text(u->b->c, "part-names");
    const bool as_models = names != NULL && strcmp(names, "model") == 0;
    uint64_t parts = u->total / part_bytes + (u->total % part_bytes != 0);
    char name[64];

    parts = parts < u->param_count ? parts : u->param_count;
    parts = parts > 0 ? parts : 1;
    uint64_t *load = cli_alloc((size_t)parts, sizeof *load);
    for (size_t i = 0; i < parts; i++) {
        if (as_models) {
            cli_shard_name(name, sizeof name, i, parts);
        } else {
            (void)snprintf(name, sizeof name, "part%llu.safetensors", (unsigned long long)i);
        }
        (void)cli_batch_file(u->b, name, u->catalog,
                             cli_alloc(u->param_count + 1, sizeof(uint32_t)), 0);
    }
    for (size_t i = 0; i < u->param_count; i++) {
        size_t best = 0;
        for (size_t k = 1; k < parts; k++) {
            best = load[k] < load[best] ? k : best;
        }
        sft_job_file *f = &u->b->files[best];
        ((uint32_t *)(uintptr_t)f->tensors)[f->tensor_count++] = u->params[i];
        load[best] += sft_catalog_at(u->catalog, u->params[i])->nbytes;
    }
    free(load);
}

static void unify(cli_batch *b, const sft_catalog *catalog, const sft_layout_set *set) {
    cli *c = b->c;
    unifying u = {.b = b, .catalog = catalog, .set = set};
    cli_text_buffer index = {NULL, 0, 0};
    sft_metadata_entry *metadata = NULL;

    u.original = c->unnamed != NULL ? c->unnamed : catalog;
    sort_out(&u);
    sort_by_size(&u);
    make_parts(&u, cli_number(c, "part-size", PART_BYTES));
    cli_text_index(&index, b, b->count, u.total, 4);
    cli_batch_text(b, "param_name_map.json", index.data, index.size);
    if (u.hyper_count > 0) {
        (void)cli_batch_file(b, "hyper_param.safetensors", catalog, u.hyper, u.hyper_count);
    } else {
        free(u.hyper);
    }
    const size_t entries = make_metadata(catalog, &metadata);
    for (size_t i = 0; i < b->count; i++) {
        b->files[i].flags = 0;
        b->files[i].metadata = metadata;
        b->files[i].metadata_count = entries;
    }
    cli_batch_run(b, "joining");
    free(metadata);
    free(u.params);
}

/* A checkpoint of ranks tells its layout, which may be one that was found: it says what is a
 * parameter. */
static const sft_layout_set *layouts_of(const cli *c, const sft_catalog *catalog) {
    const sft_checkpoint *checkpoint = sft_checkpoint_of(cli_as_opened(c, catalog));

    return checkpoint != NULL && sft_checkpoint_kind_of(checkpoint) == SFT_CHECKPOINT_RANKS
               ? sft_checkpoint_layouts(checkpoint)
               : NULL;
}

/* ---------------------------------------------------------------- command */

static void run(cli *c) {
    const bool unified = cli_flag(c, "unified");
    const char *name = NULL;
    sft_catalog *catalog;
    cli_batch b;

    if (!cli_batch_init(&b, c, c->operands[0])) {
        return;
    }
    if (cli_number(c, "part-size", PART_BYTES) == 0) {
        cli_usage(c, "--part-size: parts of 0 bytes");
        return;
    }
    if (unified ? !cli_batch_to_directory(&b) : (name = cli_batch_to_file(&b)) == NULL) {
        return;
    }
    if (cli_batch_open(&b, &catalog)) {
        b.named = catalog;
        if (unified) {
            unify(&b, catalog, layouts_of(c, catalog));
        } else {
            (void)cli_batch_file(&b, name, catalog, NULL, 0);
            b.carries = true;
            cli_batch_run(&b, "joining");
        }
        if (cli_text(c, "task") == NULL || b.published) { /* of tasks the one that publishes */
            cli_beside_carry(c, c->operands[0], b.target);
        }
        cli_close(c, catalog);
    }
    cli_batch_reset(&b);
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("unified", 0,
                 "MindSpore's form: a directory of part files, param_name_map.json and "
                 "hyper_param.safetensors"),
    CLI_OPT_ARG(CLI_BYTES, "part-size", 0, "SIZE", "of the parts of --unified (default 3GiB)"),
    CLI_OPT_CHOICE("part-names", 0, "WORD", "part|model",
                   "what the parts of --unified are called: part0.safetensors ... (default), as "
                   "MindSpore does, or model-00001-of-0000N.safetensors"),
    CLI_BESIDE_OPTION,
    CLI_BATCH_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_join = {
    .name = "join",
    .operands = "SRC",
    .summary = "join a model of many files, or of many ranks, into one",
    .description =
        "SRC is a directory, an index, a URL or the checkpoint of many ranks; --layout says how "
        "ranks were cut where the directory does not. -o names the one file to write. With "
        "--unified it names a directory, which gets the form of "
        "mindspore.parallel.unified_safetensors: the largest tensors first, each into the part "
        "that has least.\n\n"
        "Tensors that no rank holds in full are an error that says which box is missing. The "
        "output appears when everything is written. A run that was killed goes on where it was "
        "when it is started again.",
    .examples = "safetensors join model/ -o model.safetensors\n"
                "safetensors join ranks/ --layout strategy/ -o unified/ --unified",
    .options = options,
    .common = CLI_BATCH_COMMON | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
