/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tensorflow/tf_table.c - the table (LevelDB's format, without its internal keys) that the index of a
 * tensor bundle is: a footer with the place of the index block, blocks of keys that share prefixes,
 * restart points, a type and a masked CRC32C behind each. Blocks are read one at a time. Read
 * first: tf.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/tensorflow/tf.h"
#include <sft/digest.h>

enum { FOOTER = 48, HANDLES = 40, TRAILER = 5, BLOCK_MAX = 64 << 20 };

static const uint8_t magic[8] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

typedef struct block {
    uint8_t *bytes;
    size_t room;
    size_t len;
    uint64_t offset;
} block;

/* A block being walked. */
typedef struct cursor {
    block b;
    size_t at;
    size_t end; /* of the entries; the restart points begin there */
    size_t restarts;
    size_t restart; /* the next one */
    uint8_t *key;
    size_t key_room;
    size_t key_len;
    size_t value;
    size_t value_len;
} cursor;

typedef struct handle {
    uint64_t offset;
    uint64_t size;
} handle;

typedef struct table {
    sft__import *job;
    cursor index;
    cursor data;
    uint8_t *below; /* all keys to come are above this one */
    size_t below_len;
    size_t below_room;
    uint64_t end; /* of the last block */
    bool first;
} table;

uint32_t sft__import_tf_masked(uint32_t crc) {
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

bool sft__import_tf_is_table(const sft_source *source) {
    const uint64_t size = sft_source_size(source);
    uint8_t tail[sizeof magic];

    return size >= FOOTER + TRAILER &&
           sft_source_read(source, size - sizeof tail, tail, sizeof tail, NULL) == SFT_OK &&
           memcmp(tail, magic, sizeof magic) == 0;
}

static sft_status bad(uint64_t at, sft_error *err, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "tf-table: %s", text);
}

static int key_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len) {
    const size_t n = a_len < b_len ? a_len : b_len;
    const int o = n != 0 ? memcmp(a, b, n) : 0;
    return o != 0 ? o : a_len < b_len ? -1 : a_len > b_len;
}

/* ---------------------------------------------------------------- blocks */

static bool read_handle(const uint8_t **at, const uint8_t *end, handle *h) {
    return sft__base_pb_varint(at, end, &h->offset) && sft__base_pb_varint(at, end, &h->size);
}

/* least: where the block may begin at the earliest. */
static sft_status read_block(sft__import *job, block *b, const handle *h, uint64_t least,
                             sft_error *err) {
    const uint64_t end = sft_source_size(job->file) - FOOTER;

    if (h->offset > end || h->size > end - h->offset || end - h->offset - h->size < TRAILER) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, h->offset,
            "tf-table: a block of %llu bytes at %llu, the file has %llu before its "
            "footer",
            (unsigned long long)h->size, (unsigned long long)h->offset, (unsigned long long)end);
    }
    if (h->offset < least) {
        return bad(h->offset, err, "a block that begins in another, or is used twice");
    }
    if (h->size > BLOCK_MAX || h->size > job->options.memory_bytes / 4) {
        return sft__base_fail_at(err, SFT_E_LIMIT, h->offset, "memory: a block of %llu bytes",
                                 (unsigned long long)h->size);
    }
    const size_t n = (size_t)h->size + TRAILER;
    SFT_TRY(sft__base_need_room(job->allocator, &b->bytes, &b->room, n, 1, err));
    b->offset = h->offset;
    b->len = (size_t)h->size;
    SFT_TRY(sft_source_read(job->file, h->offset, b->bytes, n, err));
    const uint8_t type = b->bytes[b->len];
    const uint32_t want = sft__base_load_le32(b->bytes + b->len + 1);
    const uint32_t have = sft__import_tf_masked(sft_crc32c(0, b->bytes, b->len + 1));
    if (want != have) {
        return sft__base_fail_at(
            err, SFT_E_MISMATCH, h->offset,
            "tf-table: the masked CRC32C of a block is %08x, behind it is %08x", (unsigned)have,
            (unsigned)want);
    }
    if (type == 1) {
        return sft__base_fail_at(
            err, SFT_E_UNSUPPORTED, h->offset,
            "tf-table: a block compressed with snappy, which TensorFlow does not "
            "write since 1.2: save it again");
    }
    return type == 0
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_SCHEMA, h->offset + h->size,
                                   "tf-table: a block of the unknown type %u", (unsigned)type);
}

static sft_status cursor_begin(cursor *c, sft_error *err) {
    const block *b = &c->b;
    const uint32_t n = b->len >= 4 ? sft__base_load_le32(b->bytes + b->len - 4) : 0;

    if (b->len < 4 || n > (b->len - 4) / 4 || n == 0) {
        return bad(b->offset, err, "a block without room for its restart points");
    }
    c->end = b->len - 4 - 4 * (size_t)n;
    c->restarts = n;
    c->restart = 0;
    c->at = 0;
    c->key_len = 0;
    return SFT_OK;
}

/* The entry that begins at `from` must be a restart point if one lies there, and share nothing. */
static sft_status check_restart(cursor *c, size_t from, uint64_t shared, sft_error *err) {
    if (c->restart < c->restarts &&
        sft__base_load_le32(c->b.bytes + c->end + 4 * c->restart) == from) {
        c->restart++;
        return shared == 0 ? SFT_OK
                           : bad(c->b.offset + from, err,
                                 "an entry at a restart point that shares another's key");
    }
    return from != 0 ? SFT_OK : bad(c->b.offset, err, "a first entry that is no restart point");
}

static sft_status take_key(const sft__import *job, cursor *c, size_t shared, const uint8_t *rest,
                           size_t n, sft_error *err) {
    const uint64_t at = c->b.offset + c->at;

    if (n > SFT__TF_KEY - shared) {
        return sft__base_fail_at(err, SFT_E_LIMIT, at,
                                 "tf-table: a key of %zu bytes, %d are the limit", shared + n,
                                 (int)SFT__TF_KEY);
    }
    if (c->at != 0 && key_compare(rest, n, c->key + shared, c->key_len - shared) <= 0) {
        return bad(at, err, "a key that is not above the one before it");
    }
    SFT_TRY(sft__base_need_room(job->allocator, &c->key, &c->key_room, shared + n + 1, 1, err));
    if (n != 0) {
        memcpy(c->key + shared, rest, n);
    }
    c->key_len = shared + n;
    return SFT_OK;
}

static sft_status cursor_next(const sft__import *job, cursor *c, bool *more, sft_error *err) {
    const uint8_t *const end = c->b.bytes + c->end;
    const uint8_t *p = c->b.bytes + c->at;
    uint64_t shared;
    uint64_t own;
    uint64_t len;

    *more = c->at < c->end;
    if (!*more) {
        return c->restart == c->restarts
                   ? SFT_OK
                   : bad(c->b.offset + c->end, err, "a restart point where no entry begins");
    }
    if (!sft__base_pb_varint(&p, end, &shared) || !sft__base_pb_varint(&p, end, &own) ||
        !sft__base_pb_varint(&p, end, &len) || own > (uint64_t)(end - p) ||
        len > (uint64_t)(end - p) - own) {
        return bad(c->b.offset + c->at, err, "an entry that is longer than its block");
    }
    if (shared > c->key_len) {
        return bad(c->b.offset + c->at, err, "an entry that shares more than the key before it");
    }
    SFT_TRY(check_restart(c, c->at, shared, err));
    SFT_TRY(take_key(job, c, (size_t)shared, p, (size_t)own, err));
    c->value = (size_t)(p - c->b.bytes) + (size_t)own;
    c->value_len = (size_t)len;
    c->at = c->value + c->value_len;
    return SFT_OK;
}

/* ---------------------------------------------------------------- the table */

static sft_status read_footer(table *t, sft_error *err) {
    const sft_source *file = t->job->file;
    const uint64_t size = sft_source_size(file);
    uint8_t footer[FOOTER];
    const uint8_t *p = footer;
    handle meta;
    handle index;

    if (size < FOOTER + TRAILER) {
        return bad(0, err, "no room for a footer");
    }
    SFT_TRY(sft_source_read(file, size - FOOTER, footer, FOOTER, err));
    if (memcmp(footer + HANDLES, magic, sizeof magic) != 0) {
        return bad(size - sizeof magic, err, "no footer at the end");
    }
    if (!read_handle(&p, footer + HANDLES, &meta) || !read_handle(&p, footer + HANDLES, &index)) {
        return bad(size - FOOTER, err, "a footer without the places of two blocks");
    }
    SFT_TRY(read_block(t->job, &t->data.b, &meta, 0, err));
    SFT_TRY(cursor_begin(&t->data, err));
    return read_block(t->job, &t->index.b, &index, 0, err);
}

static sft_status walk_block(table *t, const handle *h, sft__import_tf_fn fn, void *ctx,
                             sft_error *err) {
    cursor *c = &t->data;
    bool more;

    SFT_TRY(read_block(t->job, &c->b, h, t->end, err));
    t->end = h->offset + h->size + TRAILER;
    SFT_TRY(cursor_begin(c, err));
    for (;;) {
        SFT_TRY(cursor_next(t->job, c, &more, err));
        if (!more) {
            break;
        }
        if (!t->first && key_compare(c->key, c->key_len, t->below, t->below_len) <= 0) {
            return bad(c->b.offset, err, "a key that belongs into an earlier block");
        }
        t->first = true; /* the keys of one block ascend: only its first is compared */
        const sft__import_tf_pair pair = {c->key, c->b.bytes + c->value, c->key_len, c->value_len,
                                          c->b.offset + c->value};
        SFT_TRY(fn(ctx, &pair, err));
    }
    if (key_compare(c->key, c->key_len, t->index.key, t->index.key_len) > 0) {
        return bad(c->b.offset, err, "a key above the one that the index has for its block");
    }
    return SFT_OK;
}

static sft_status walk(table *t, sft__import_tf_fn fn, void *ctx, sft_error *err) {
    cursor *i = &t->index;
    handle h;
    bool more;

    SFT_TRY(read_footer(t, err));
    SFT_TRY(cursor_begin(i, err));
    t->first = true;
    for (;;) {
        SFT_TRY(cursor_next(t->job, i, &more, err));
        if (!more) {
            return SFT_OK;
        }
        const uint8_t *p = i->b.bytes + i->value;
        if (!read_handle(&p, p + i->value_len, &h) || p != i->b.bytes + i->value + i->value_len) {
            return bad(i->b.offset + i->value, err, "an entry of the index that is no place");
        }
        SFT_TRY(walk_block(t, &h, fn, ctx, err));
        SFT_TRY(sft__base_need_room(t->job->allocator, &t->below, &t->below_room, i->key_len + 1, 1,
                                    err));
        memcpy(t->below, i->key, i->key_len);
        t->below_len = i->key_len;
        t->first = false;
    }
}

sft_status sft__import_tf_table(sft__import *job, sft__import_tf_fn fn, void *ctx, sft_error *err) {
    table t;

    memset(&t, 0, sizeof t);
    t.job = job;
    const sft_status status = walk(&t, fn, ctx, err);
    sft__base_free(job->allocator, t.index.b.bytes, t.index.b.room);
    sft__base_free(job->allocator, t.index.key, t.index.key_room);
    sft__base_free(job->allocator, t.data.b.bytes, t.data.b.room);
    sft__base_free(job->allocator, t.data.key, t.data.key_room);
    sft__base_free(job->allocator, t.below, t.below_room);
    return status;
}
