/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/hash.c - several digests from one pass: while one buffer is hashed, by one worker per digest,
 * the next one is read. Read hash.h first; the content hash is defined in sft/digest.h.
 */
#include "cli/look/hash.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 4 << 20, WINDOW_BEGIN = 0x100000, WINDOW_END = 0x110000 };

enum { TASK_READ, TASK_WHOLE, TASK_DATA, TASK_TENSORS, TASK_COUNT };

typedef struct pass {
    const sft_source *source;
    uint64_t size;
    uint64_t data_offset;
    /* tensors of this file, in the order of their bytes */
    const sft_catalog *catalog; /* NULL: no tensor digests */
    size_t tensor;              /* the one whose bytes come next */
    size_t tensor_end;
    uint8_t (*digests)[32];
    uint32_t wanted;
    sft_sha256 whole;
    sft_sha256 window;
    sft_sha256 data;
    sft_sha256 one;
    /* the buffer being hashed, and the one being filled */
    const unsigned char *buffer;
    uint64_t at;
    size_t used;
    unsigned char *next;
    size_t next_used;
    sft_status status;
    sft_error err;
} pass;

static void restart(sft_sha256 *s, uint32_t without) {
    sft_sha256_init(s);
    s->without = without;
}

/* The part of the buffer that lies in [begin, end) of the file. */
static void update_part(sft_sha256 *s, const pass *p, uint64_t begin, uint64_t end) {
    const uint64_t low = begin > p->at ? begin : p->at;
    const uint64_t high = end < p->at + p->used ? end : p->at + p->used;
    if (low < high) {
        sft_sha256_update(s, p->buffer + (low - p->at), (size_t)(high - low));
    }
}

/* Tensors follow each other without holes; those without bytes end where they begin. */
static void update_tensors(pass *p) {
    while (p->tensor < p->tensor_end) {
        const sft_tensor *t = sft_catalog_at(p->catalog, p->tensor);
        const uint64_t begin = t->pieces[0].offset;
        update_part(&p->one, p, begin, begin + t->nbytes);
        if (begin + t->nbytes > p->at + p->used) {
            return;
        }
        sft_sha256_final(&p->one, p->digests[p->tensor]);
        restart(&p->one, p->one.without);
        p->tensor++;
    }
}

static void fill_next(pass *p) {
    const uint64_t from = p->at + p->used;
    const uint64_t left = p->size - from;

    p->next_used = left < BUFFER ? (size_t)left : BUFFER;
    p->status = SFT_OK;
    if (p->next_used > 0) {
        p->status = sft_source_read(p->source, from, p->next, p->next_used, &p->err);
    }
}

static void run_task(void *ctx, size_t task) {
    pass *p = ctx;

    if (task == TASK_READ) {
        fill_next(p);
    } else if (task == TASK_WHOLE && (p->wanted & CLI_HASH_WHOLE) != 0) {
        sft_sha256_update(&p->whole, p->buffer, p->used);
        update_part(&p->window, p, WINDOW_BEGIN, WINDOW_END);
    } else if (task == TASK_DATA && (p->wanted & CLI_HASH_DATA) != 0) {
        update_part(&p->data, p, p->data_offset, UINT64_MAX);
    } else if (task == TASK_TENSORS && (p->wanted & CLI_HASH_TENSORS) != 0) {
        update_tensors(p);
    }
}

static sft_status run_pass(cli *c, pass *p, sft_progress *progress, sft_error *err) {
    const sft_pool *pool = p->size > BUFFER ? cli_pool(c) : NULL;
    const size_t room = p->size < BUFFER ? (size_t)p->size + 1 : BUFFER;
    unsigned char *buffers[2] = {cli_alloc(room, 1), cli_alloc(room, 1)};
    unsigned turn = 0;

    /* Without the whole file only the data section is read. */
    p->at = (p->wanted & CLI_HASH_WHOLE) != 0 ? 0 : p->data_offset;
    p->used = 0;
    p->next = buffers[0];
    fill_next(p);
    while (p->status == SFT_OK && p->next_used > 0) {
        p->at += p->used;
        p->used = p->next_used;
        p->buffer = p->next;
        turn ^= 1u;
        p->next = buffers[turn];
        sft_pool_run(pool, TASK_COUNT, run_task, p);
        progress->bytes_done += p->used;
        if (c->progress.control.poll(c, progress) != 0 || cli_stopped(c)) {
            p->status =
                sft_error_set(&p->err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "interrupted");
        }
    }
    if (p->status == SFT_OK && (p->wanted & CLI_HASH_TENSORS) != 0) {
        p->used = 0; /* at the end: what is left has no bytes */
        p->at = p->size;
        update_tensors(p);
    }
    free(buffers[0]);
    free(buffers[1]);
    if (p->status != SFT_OK && err != NULL) {
        *err = p->err;
    }
    return p->status;
}

static void start_pass(cli *c, pass *p, const sft_source *source, uint32_t wanted) {
    const uint32_t without = cli_without(c);

    memset(p, 0, sizeof *p);
    p->source = source;
    p->size = sft_source_size(source);
    p->wanted = wanted;
    restart(&p->whole, without);
    restart(&p->window, without);
    restart(&p->data, without);
    restart(&p->one, without);
}

/* ---------------------------------------------------------------- content */

static void put64(sft_sha256 *s, uint64_t v) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(v >> (8 * i));
    }
    sft_sha256_update(s, bytes, sizeof bytes);
}

typedef struct named {
    const sft_tensor *tensor;
    const uint8_t *digest;
} named;

static int by_name(const void *a, const void *b) {
    const sft_tensor *x = ((const named *)a)->tensor;
    const sft_tensor *y = ((const named *)b)->tensor;
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

void cli_hash_join(const sft_catalog *catalog, const uint8_t (*digests)[32], uint8_t out[32]) {
    const size_t count = sft_catalog_count(catalog);
    named *order = cli_alloc(count, sizeof *order);
    sft_sha256 s;

    for (size_t i = 0; i < count; i++) {
        order[i] = (named){sft_catalog_at(catalog, i), digests[i]};
    }
    qsort(order, count, sizeof *order, by_name);
    sft_sha256_init(&s);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = order[i].tensor;
        put64(&s, t->name_len);
        sft_sha256_update(&s, t->name, t->name_len);
        sft_sha256_update(&s, t->dtype->name, strlen(t->dtype->name) + 1);
        put64(&s, t->rank);
        for (uint32_t k = 0; k < t->rank; k++) {
            put64(&s, t->shape[k]);
        }
        sft_sha256_update(&s, order[i].digest, 32);
    }
    sft_sha256_final(&s, out);
    free(order);
}

/* ---------------------------------------------------------------- catalogs */

/* Can tensor digests be had from a pass over the files? */
static bool lies_in_order(const sft_catalog *catalog) {
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        if (t->piece_count != 1 || t->pieces[0].strides != NULL) {
            return false;
        }
    }
    return true;
}

static sft_status hash_file(cli *c, const sft_catalog *catalog, size_t index, uint32_t wanted,
                            size_t *tensor, cli_hashes *out, sft_progress *progress,
                            sft_error *err) {
    const sft_file *file = sft_catalog_file_at(catalog, index);
    pass p;

    start_pass(c, &p, sft_catalog_source_at(catalog, file->source), wanted);
    p.data_offset = file->data_offset;
    p.catalog = catalog;
    p.digests = out->tensors;
    p.tensor = *tensor;
    p.tensor_end = *tensor;
    while (p.tensor_end < sft_catalog_count(catalog) &&
           sft_catalog_at(catalog, p.tensor_end)->file == index) {
        p.tensor_end++;
    }
    *tensor = p.tensor_end;
    const sft_status status = run_pass(c, &p, progress, err);
    sft_sha256_final(&p.whole, out->files[index].whole);
    sft_sha256_final(&p.window, out->files[index].window);
    sft_sha256_final(&p.data, out->files[index].data);
    return status;
}

static sft_status hash_pieces(const sft_catalog *catalog, const sft_control *control,
                              cli_hashes *out, sft_error *err) {
    sft_status status = SFT_OK;
    for (size_t i = 0; status == SFT_OK && i < sft_catalog_count(catalog); i++) {
        status = sft_tensor_digest(catalog, sft_catalog_at(catalog, i), out->tensors[i], NULL,
                                   control, err);
    }
    return status;
}

sft_status cli_hash_catalog(cli *c, const sft_catalog *catalog, uint32_t wanted, cli_hashes *out,
                            sft_error *err) {
    const size_t files = sft_catalog_file_count(catalog);
    const sft_control *control;
    sft_progress progress = {0, 0};
    size_t tensor = 0;
    sft_status status = SFT_OK;

    memset(out, 0, sizeof *out);
    out->files = cli_alloc(files, sizeof *out->files);
    control = cli_control(c, "hashing");
    if (wanted == CLI_HASH_CONTENT) { /* alone: several tensors at a time */
        status = sft_catalog_content_hash(catalog, out->content, cli_pool(c), control, err);
        cli_control_end(c);
        return status;
    }
    uint32_t todo = wanted & (CLI_HASH_WHOLE | CLI_HASH_DATA);
    todo |= (wanted & CLI_HASH_AUTO) != 0 ? CLI_HASH_WHOLE | CLI_HASH_DATA : 0;
    if ((wanted & (CLI_HASH_CONTENT | CLI_HASH_TENSORS)) != 0) {
        out->tensors = cli_alloc(sft_catalog_count(catalog), sizeof *out->tensors);
        if (lies_in_order(catalog)) {
            todo |= CLI_HASH_TENSORS;
        } else {
            status = hash_pieces(catalog, control, out, err);
        }
    }
    for (size_t i = 0; i < files; i++) {
        progress.bytes_total += sft_catalog_file_at(catalog, i)->size;
    }
    for (size_t i = 0; status == SFT_OK && todo != 0 && i < files; i++) {
        status = hash_file(c, catalog, i, todo, &tensor, out, &progress, err);
    }
    cli_control_end(c);
    if (status == SFT_OK && (wanted & CLI_HASH_CONTENT) != 0) {
        cli_hash_join(catalog, (const uint8_t(*)[32])out->tensors, out->content);
    }
    return status;
}

void cli_hashes_reset(cli_hashes *h) {
    free(h->files);
    free(h->tensors);
    memset(h, 0, sizeof *h);
}

sft_status cli_hash_source(cli *c, const sft_source *source, uint8_t whole[32], sft_error *err) {
    sft_progress progress = {0, sft_source_size(source)};
    pass p;

    start_pass(c, &p, source, CLI_HASH_WHOLE);
    (void)cli_control(c, "hashing");
    const sft_status status = run_pass(c, &p, &progress, err);
    cli_control_end(c);
    sft_sha256_final(&p.whole, whole);
    return status;
}
