/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/split.c - a model as shards of bounded size with an index, by Hugging Face's rule. Read
 * batch.h first.
 */
#include "cli/outputs/batch.h"
#include "cli/outputs/beside.h"
#include <stdio.h>
#include <stdlib.h>

/* Shards as lists of tensors: the rule of huggingface_hub's split_state_dict_into_shards_factory
 * (2.4). A tensor that is larger than a shard may be gets its own at once, while the open shard
 * stays open; another one opens a new shard if it does not fit. */
typedef struct shards {
    uint32_t **lists;
    size_t *counts;
    size_t count;
} shards;

static void add_shard(shards *s, uint32_t *list, size_t count) {
    s->lists = cli_resize(s->lists, s->count + 1, sizeof *s->lists);
    s->counts = cli_resize(s->counts, s->count + 1, sizeof *s->counts);
    s->lists[s->count] = list;
    s->counts[s->count++] = count;
}

static uint64_t cut(const sft_catalog *catalog, uint64_t most, shards *s) {
    const size_t count = sft_catalog_count(catalog);
    uint32_t *open = NULL;
    size_t open_count = 0;
    uint64_t size = 0;
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        const uint64_t bytes = sft_catalog_at(catalog, i)->nbytes;
        total += bytes;
        if (bytes > most) {
            uint32_t *own = cli_alloc(1, sizeof *own);
            *own = (uint32_t)i;
            add_shard(s, own, 1);
            continue;
        }
        if (bytes > most - size) {
            add_shard(s, open, open_count);
            open = NULL;
            open_count = 0;
            size = 0;
        }
        open = cli_resize(open, open_count + 1, sizeof *open);
        open[open_count++] = (uint32_t)i;
        size += bytes;
    }
    if (open_count > 0 || s->count == 0) {
        add_shard(s, open, open_count);
    }
    return total;
}

static void name_shards(cli_batch *b, const sft_catalog *catalog, const shards *s, uint64_t total) {
    cli_text_buffer index = {NULL, 0, 0};
    char name[64];

    for (size_t i = 0; i < s->count; i++) {
        cli_shard_name(name, sizeof name, i, s->count);
        (void)cli_batch_file(b, name, catalog,
                             s->lists[i] != NULL ? s->lists[i] : cli_alloc(1, sizeof(uint32_t)),
                             s->counts[i]);
    }
    if (s->count > 1) {
        cli_text_index(&index, b, b->count, total, 2);
        cli_batch_text(b, "model.safetensors.index.json", index.data, index.size);
    }
}

static void run(cli *c) {
    const uint64_t most = cli_number(c, "max-shard-size", 5000000000u);
    shards s = {NULL, NULL, 0};
    sft_catalog *catalog;
    cli_batch b;

    if (!cli_batch_init(&b, c, c->operands[0])) {
        return;
    }
    if (!cli_batch_to_directory(&b) || !cli_batch_open(&b, &catalog)) {
        cli_batch_reset(&b);
        return;
    }
    const uint64_t total = cut(catalog, most, &s);
    name_shards(&b, catalog, &s, total);
    b.carries = true;
    b.named = catalog;
    cli_batch_run(&b, "splitting");
    if (cli_text(c, "task") == NULL || b.published) { /* of tasks the one that publishes */
        cli_beside_carry(c, c->operands[0], b.target);
    }
    cli_batch_reset(&b);
    free(s.lists);
    free(s.counts);
    cli_close(c, catalog);
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_BYTES, "max-shard-size", 0, "SIZE",
                "bytes of tensors in one file (default 5GB)"),
    CLI_BESIDE_OPTION,
    CLI_BATCH_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_split = {
    .name = "split",
    .operands = "SRC",
    .summary = "split a model into files of bounded size, with an index",
    .description =
        "SRC is a file, directory, index, URL or checkpoint of many ranks. -o names a directory; "
        "the files in it are model-00001-of-0000N.safetensors and model.safetensors.index.json, "
        "cut and called exactly as Hugging Face does: tensors in order, a new file when the next "
        "tensor does not fit, a tensor larger than a file alone. If one file suffices it is "
        "model.safetensors, without an index.\n\n"
        "The directory appears when everything is written. A run that was killed goes on where it "
        "was when it is started again; what it has left lies in a directory that ends in "
        ".sft-part.",
    .examples = "safetensors split model.safetensors -o model/ --max-shard-size 5GB\n"
                "safetensors split model.safetensors -o model/ --plan # what would be written",
    .options = options,
    .common = CLI_BATCH_COMMON | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
