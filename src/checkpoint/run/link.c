/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/link.c - is a file of an older step, byte for byte, the one that is to be written? Then
 * it gets another name instead. The header is compared by what it says, the data with the arena; and the
 * digest of what was read must be the one in the manifest, so that damage is never handed on. Read run.h
 * first.
 */
#include "checkpoint/run/run.h"
#include "fs/output/entry.h"
#include "move/loop.h"
#include <sft/digest.h>

enum { BLOCK = 1 << 20 };

typedef struct comparing {
    const sft_run_save *save;
    const sft__checkpoint_run_plan *plan;
    const uint8_t *data; /* as it is to be */
    const char *path;
    sft__fs_handle disk;
    uint64_t data_offset;
    uint32_t *crcs;
    sft__move_loop loop;
} comparing;

/* ---------------------------------------------------------------- headers */

static bool is_same_tensor(const sft_tensor *a, const sft_save_tensor *b) {
    if (a == NULL || a->dtype->id != b->dtype->id || a->rank != b->rank) {
        return false;
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        if (a->shape[d] != b->shape[d]) {
            return false;
        }
    }
    return true;
}

static bool is_same_header(const comparing *c, const sft_catalog *old) {
    const sft_run_save *const s = c->save;
    const sft__checkpoint_run_plan *const plan = c->plan;
    const sft_file *const file = sft_catalog_file_at(old, 0);
    size_t own = 0; /* entries that are not digests */
    if (sft_catalog_count(old) != plan->count || file->data_offset % SFT__RUN_PAGE != 0 ||
        file->data_bytes != plan->data_bytes ||
        (sft_catalog_metadata_find(old, 0, "sft.crc32c", 10, NULL) == NULL) ||
        (sft_catalog_metadata_find(old, 0, "sft.sha256", 10, NULL) == NULL) !=
            (s->run->options.sha256 == 0)) {
        return false;
    }
    for (size_t i = 0; i < plan->count; i++) {
        const sft_save_tensor *const t = &s->tensors[plan->first + i];
        const sft_tensor *const had = sft_catalog_find(old, t->name, t->name_len);
        if (!is_same_tensor(had, t) || had->pieces[0].offset - file->data_offset !=
                                           s->items[s->order[plan->first + i]].file_begin) {
            return false;
        }
    }
    for (size_t i = 0; i < sft_catalog_metadata_count(old, 0); i++) {
        const char *key;
        size_t len;
        own += sft_catalog_metadata_at(old, 0, i, &key, &len, NULL, NULL) == SFT_OK &&
               !sft_digest_is_key(key, len);
    }
    for (size_t i = 0; i < plan->metadata_count; i++) {
        const sft_metadata_entry *const e = &plan->metadata[i];
        size_t len = 0;
        const char *const value = sft_catalog_metadata_find(old, 0, e->key, e->key_len, &len);
        if (value == NULL || len != e->value_len || memcmp(value, e->value, len) != 0) {
            return false;
        }
    }
    return own == plan->metadata_count;
}

/* ---------------------------------------------------------------- data */

/* SFT_E_MISMATCH: it differs. */
static sft_status compare_block(void *ctx, size_t index, sft_error *err) {
    comparing *const c = ctx;
    const uint64_t begin = (uint64_t)index * BLOCK;
    const uint64_t left = c->plan->data_bytes - begin;
    const size_t size = left < BLOCK ? (size_t)left : BLOCK;
    uint8_t *const buffer = sft__move_loop_take(&c->loop, err);
    if (buffer == NULL) {
        return SFT_E_NOMEM;
    }
    sft_status status =
        sft__fs_read_at(c->disk, c->path, c->data_offset + begin, buffer, size, err);
    if (status == SFT_OK && memcmp(buffer, c->data + begin, size) != 0) {
        status = SFT_E_MISMATCH;
    }
    if (status == SFT_OK) {
        c->crcs[index] = sft_crc32c(0, buffer, size);
        status = sft__move_loop_add(&c->loop, size, err);
    }
    sft__move_loop_give(&c->loop, buffer);
    return status;
}

static sft_status crc_of_header(const comparing *c, uint32_t *crc) {
    uint8_t piece[SFT__RUN_PAGE];
    *crc = 0;
    for (uint64_t at = 0; at < c->data_offset; at += sizeof piece) { /* a multiple of it */
        SFT_TRY(sft__fs_read_at(c->disk, c->path, at, piece, sizeof piece, NULL));
        *crc = sft_crc32c(*crc, piece, sizeof piece);
    }
    return SFT_OK;
}

static bool is_same_data(comparing *c, uint32_t wanted) {
    const sft_allocator *const a = c->save->allocator;
    const size_t blocks = (size_t)((c->plan->data_bytes + BLOCK - 1) / BLOCK);
    uint32_t crc;
    c->crcs = sft__base_alloc_array(a, blocks + 1, sizeof *c->crcs);
    c->loop.pool = c->save->run->options.writers;
    c->loop.allocator = a;
    c->loop.room = BLOCK;
    c->loop.block = compare_block;
    c->loop.ctx = c;
    sft_status status = c->crcs == NULL
                            ? SFT_E_NOMEM
                            : sft__move_loop_begin(&c->loop, NULL, c->plan->data_bytes, NULL);
    if (status == SFT_OK) {
        status = sft__move_loop_run(&c->loop, blocks, NULL);
        (void)!sft__move_loop_end(&c->loop, NULL);
    }
    if (status == SFT_OK) {
        status = crc_of_header(c, &crc);
    }
    for (size_t i = 0; i < blocks && status == SFT_OK; i++) {
        const uint64_t left = c->plan->data_bytes - (uint64_t)i * BLOCK;
        crc = sft_crc32c_combine(crc, c->crcs[i], left < BLOCK ? left : BLOCK);
    }
    sft__base_free(a, c->crcs, (blocks + 1) * sizeof *c->crcs);
    return status == SFT_OK && crc == wanted;
}

/* ---------------------------------------------------------------- all of it */

/* It may have been written without being flushed, or copied here. Some systems flush no file that is open to
 * be read. */
static bool is_flushed(const comparing *c) {
    sft__fs_handle file;
    if (c->save->run->options.durability != SFT_DURABLE_FULL ||
        sft__fs_sync(c->disk, c->path, NULL) == SFT_OK) {
        return true;
    }
    if (sft__fs_create(c->path, &file, NULL) != SFT_OK) {
        return false;
    }
    const bool done = sft__fs_is_at(file, c->path) && sft__fs_sync(file, c->path, NULL) == SFT_OK;
    sft__fs_close(file);
    return done;
}

/* What cannot be opened, read or flushed is not equal: it is written then. */
static bool is_equal(comparing *c, const sft__checkpoint_run_fact *fact) {
    sft_open_options o;
    sft_catalog *old;
    sft__fs_stat st;
    SFT_INIT(&o);
    o.allocator = c->save->allocator;
    if (sft__fs_is_link(c->path) || sft_catalog_open(&old, c->path, &o, NULL) != SFT_OK) {
        return false;
    }
    const sft_file *const file = sft_catalog_file_at(old, 0);
    c->data_offset = file->data_offset;
    bool equal = file->size == fact->size && is_same_header(c, old);
    sft_catalog_close(old);
    if (equal && sft__fs_open(c->path, &c->disk, &st, NULL) == SFT_OK) {
        equal = st.size == fact->size && is_same_data(c, fact->crc) &&
                sft__fs_is_at(c->disk, c->path) && is_flushed(c);
        sft__fs_close(c->disk);
        return equal;
    }
    return false;
}

sft_status sft__checkpoint_run_link(const sft_run_save *save, const sft__checkpoint_run_plan *plan,
                                    const sft__checkpoint_run_older *older, const char *to,
                                    bool *linked, sft_error *err) {
    const sft__checkpoint_run_fact *const fact =
        older->path != NULL ? sft__checkpoint_run_manifest_find(older->manifest, plan->name) : NULL;
    sft__base_buf path;
    comparing c;
    *linked = false;
    if (fact == NULL) {
        return SFT_OK;
    }
    memset(&c, 0, sizeof c);
    c.save = save;
    c.plan = plan;
    c.data = save->run->slots[save->slot].base + plan->base;
    sft__base_buf_init(&path, save->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, older->path, plan->name, err);
    if (status == SFT_OK) {
        c.path = path.data;
        if (is_equal(&c, fact)) {
            status = sft__fs_link(path.data, to, err);
            *linked = status == SFT_OK;
            status = status == SFT_E_UNSUPPORTED ? SFT_OK : status;
        }
    }
    sft__base_buf_reset(&path);
    return status;
}
