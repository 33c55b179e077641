/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_filter.c - chunks of HDF5 decoded: deflate, LZF, shuffle, fletcher32, in any order. The
 * chunks of a dataset one behind the other are a source; all such sources of a file share one
 * decoder with a few chunks kept, so that memory does not depend on how many there are. Sizes were
 * checked when the source was made. Source: HDF5 File Format Specification, IV.A.2.l. Read first:
 * hdf5.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/thread/thread.h"
#include "import/hdf5/hdf5.h"
#if SFT_HAVE_ZLIB
#include <zlib.h>
#endif

enum {
    DEFLATE = 1,
    SHUFFLE = 2,
    FLETCHER = 3,
    SLOTS = 256,
    KEPT = 32 << 20,
    RATIO_MAX = 1032,
    ROW_RATIO = 16
};

typedef struct slot {
    const void *owner; /* NULL: empty */
    size_t chunk;
    uint64_t used;
    uint8_t *data;
    size_t size; /* of the memory */
} slot;

struct sft__import_h5_decoder {
    const sft_allocator *allocator;
    sft__base_mutex lock;
    size_t references; /* under the lock */
    uint64_t tick;
    size_t kept; /* bytes in the slots */
    size_t last; /* slot that was asked for last */
    slot slots[SLOTS];
    uint8_t *work[2];
    size_t room; /* of each */
#if SFT_HAVE_ZLIB
    z_stream z;
    bool started;
#endif
};

typedef struct chunks {
    struct sft__import_h5_decoder *shared;
    const sft_source *inner;
    uint64_t base;
    size_t chunk_bytes;
    sft__import_h5_chunk *at;
    size_t count;
    uint32_t filter_count;
    sft__import_h5_filter filters[SFT__H5_FILTERS];
} chunks;

/* ---------------------------------------------------------------- the shared decoder */

static sft_status decoder_create(struct sft__import_h5_decoder **out,
                                 const sft_allocator *allocator, sft_error *err) {
    struct sft__import_h5_decoder *s;

    *out = NULL;
    SFT_TRY(sft__base_need_zero(allocator, &s, sizeof *s, err));
    if (!sft__base_mutex_init(&s->lock)) {
        sft__base_free(allocator, s, sizeof *s);
        return sft__base_fail_nomem(err, sizeof s->lock);
    }
    s->allocator = allocator;
    s->references = 1;
    *out = s;
    return SFT_OK;
}

static void slot_reset(struct sft__import_h5_decoder *s, slot *e) {
    sft__base_free(s->allocator, e->data, e->size);
    s->kept -= e->size;
    memset(e, 0, sizeof *e);
}

void sft__import_h5_decoder_drop(struct sft__import_h5_decoder *decoder) {
    if (decoder == NULL) {
        return;
    }
    sft__base_mutex_lock(&decoder->lock);
    const size_t left = --decoder->references;
    sft__base_mutex_unlock(&decoder->lock);
    if (left != 0) {
        return;
    }
    for (size_t i = 0; i < SLOTS; i++) {
        slot_reset(decoder, &decoder->slots[i]);
    }
#if SFT_HAVE_ZLIB
    if (decoder->started) {
        (void)inflateEnd(&decoder->z);
    }
#endif
    for (int i = 0; i < 2; i++) {
        sft__base_free(decoder->allocator, decoder->work[i], decoder->room);
    }
    sft__base_mutex_reset(&decoder->lock);
    sft__base_free(decoder->allocator, decoder, sizeof *decoder);
}

static sft_status make_room(struct sft__import_h5_decoder *s, size_t n, sft_error *err) {
    if (n <= s->room) {
        return SFT_OK;
    }
    for (int i = 0; i < 2; i++) {
        sft__base_free(s->allocator, s->work[i], s->room);
        s->work[i] = NULL;
    }
    s->room = 0;
    s->work[0] = sft__base_alloc(s->allocator, n);
    s->work[1] = sft__base_alloc(s->allocator, n);
    if (s->work[0] == NULL || s->work[1] == NULL) {
        sft__base_free(s->allocator, s->work[0], n);
        sft__base_free(s->allocator, s->work[1], n);
        s->work[0] = NULL;
        s->work[1] = NULL;
        return sft__base_fail_nomem(err, n);
    }
    s->room = n;
    return SFT_OK;
}

/* A slot of this size: an empty one, or that which was used longest ago. */
static slot *slot_for(struct sft__import_h5_decoder *s, size_t size) {
    slot *best = &s->slots[0];

    for (size_t i = 0; i < SLOTS; i++) {
        slot *e = &s->slots[i];
        best = e->used < best->used ? e : best;
    }
    slot_reset(s, best);
    for (size_t i = 0; i < SLOTS && s->kept + size > KEPT; i++) { /* make way for a large one */
        slot *oldest = NULL;
        for (size_t k = 0; k < SLOTS; k++) {
            slot *e = &s->slots[k];
            oldest = e->data != NULL && (oldest == NULL || e->used < oldest->used) ? e : oldest;
        }
        if (oldest == NULL) {
            break;
        }
        slot_reset(s, oldest);
    }
    best->data = sft__base_alloc(s->allocator, size);
    best->size = best->data != NULL ? size : 0;
    s->kept += best->size;
    return best;
}

/* ---------------------------------------------------------------- filters */

static sft_status broken(const chunks *c, const sft__import_h5_chunk *k, sft_error *err,
                         const char *what) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, c->base + k->addr, "hdf5-chunk: %s", what);
}

/* Sums of 16-bit words, the first byte of each the high one, modulo 65535. */
static uint32_t fletcher32(const uint8_t *p, size_t n) {
    uint32_t a = 0;
    uint32_t b = 0;

    for (size_t left = n / 2; left > 0;) {
        size_t run = left < 360 ? left : 360; /* that many cannot overflow */
        left -= run;
        for (; run > 0; run--, p += 2) {
            a += (uint32_t)p[0] << 8 | p[1];
            b += a;
        }
        a = (a & 0xffff) + (a >> 16);
        b = (b & 0xffff) + (b >> 16);
    }
    if (n % 2 != 0) {
        a += (uint32_t)*p << 8;
        b += a;
        a = (a & 0xffff) + (a >> 16);
        b = (b & 0xffff) + (b >> 16);
    }
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
    return b << 16 | a;
}

static sft_status unsum(const chunks *c, const sft__import_h5_chunk *k, const uint8_t *p, size_t *n,
                        sft_error *err) {
    if (*n < 4) {
        return broken(c, k, err, "a chunk too short for its checksum");
    }
    *n -= 4;
    const uint32_t want = sft__base_load_le32(p + *n);
    const uint32_t have = fletcher32(p, *n);
    return have == want
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_MISMATCH, c->base + k->addr,
                                   "hdf5-checksum: a chunk has the checksum %08x, %08x is stored",
                                   (unsigned)have, (unsigned)want);
}

/* Bytes of the same rank of all elements stand together: puts the elements together again. */
static void unshuffle(uint8_t *dst, const uint8_t *src, size_t n, size_t unit) {
    const size_t count = n / unit;

    for (size_t k = 0; k < unit; k++) {
        const uint8_t *from = src + k * count;
        for (size_t i = 0; i < count; i++) {
            dst[i * unit + k] = from[i];
        }
    }
    memcpy(dst + count * unit, src + count * unit, n - count * unit);
}

#if SFT_HAVE_ZLIB
static sft_status unpack(const chunks *c, const sft__import_h5_chunk *k, uint8_t *dst, uint8_t *src,
                         size_t *n, sft_error *err) {
    struct sft__import_h5_decoder *s = c->shared;

    const int ready = s->started ? inflateReset(&s->z) : inflateInit(&s->z);
    if (ready != Z_OK) {
        return sft__base_fail_nomem(err, sizeof s->z);
    }
    s->started = true;
    s->z.next_in = src;
    s->z.avail_in = (uInt)*n;
    s->z.next_out = dst;
    s->z.avail_out = (uInt)s->room;
    const int result = inflate(&s->z, Z_FINISH);
    *n = s->room - s->z.avail_out;
    if (result == Z_BUF_ERROR && s->z.avail_out == 0) {
        return broken(c, k, err, "a chunk that inflates to more than its size");
    }
    return result == Z_STREAM_END
               ? SFT_OK
               : broken(c, k, err, "a chunk whose deflate stream is damaged or ends early");
}
#else
static sft_status unpack(const chunks *c, const sft__import_h5_chunk *k, uint8_t *dst, uint8_t *src,
                         size_t *n, sft_error *err) {
    (void)dst;
    (void)src;
    (void)n;
    return sft__base_fail_at(err, SFT_E_UNSUPPORTED, c->base + k->addr,
                             "hdf5-deflate: a chunk is deflated, and this was built without zlib");
}
#endif

/* Chunk number i into work[0] or work[1]; which one. */
static sft_status decode(const chunks *c, size_t i, const uint8_t **out, sft_error *err) {
    struct sft__import_h5_decoder *s = c->shared;
    const sft__import_h5_chunk *k = &c->at[i];
    size_t n = (size_t)k->size;
    int at = 0;

    const size_t plain = c->chunk_bytes + 4 * (size_t)SFT__H5_FILTERS;
    SFT_TRY(make_room(s, n > plain ? n : plain, err));
    SFT_TRY(sft_source_read(c->inner, c->base + k->addr, s->work[0], n, err));
    for (uint32_t f = c->filter_count; f-- > 0;) {
        const sft__import_h5_filter *filter = &c->filters[f];
        if ((k->mask >> f & 1) != 0) {
            continue;
        }
        if (filter->id == FLETCHER) {
            SFT_TRY(unsum(c, k, s->work[at], &n, err));
        } else if (filter->id == DEFLATE) {
            SFT_TRY(unpack(c, k, s->work[1 - at], s->work[at], &n, err));
            at = 1 - at;
        } else if (filter->id == SFT__H5_LZF) {
            if (!sft__import_h5_unlzf(s->work[at], n, s->work[1 - at], s->room, &n)) {
                return broken(c, k, err, "a chunk whose LZF stream is damaged");
            }
            at = 1 - at;
        } else if (filter->value > 1 && n >= filter->value) {
            unshuffle(s->work[1 - at], s->work[at], n, filter->value);
            at = 1 - at;
        }
    }
    *out = s->work[at];
    return n == c->chunk_bytes ? SFT_OK : broken(c, k, err, "a chunk that has not its size");
}

/* Bytes of a chunk, out of a slot or decoded into one. Under the lock. */
static sft_status take(const chunks *c, size_t i, size_t skip, uint8_t *dst, size_t n,
                       sft_error *err) {
    struct sft__import_h5_decoder *s = c->shared;
    const uint8_t *data = NULL;

    for (size_t e = 0; e < SLOTS && data == NULL; e++) { /* most often the same again */
        slot *k = &s->slots[(s->last + e) % SLOTS];
        if (k->owner == c && k->chunk == i) {
            data = k->data;
            k->used = ++s->tick;
            s->last = (s->last + e) % SLOTS;
        }
    }
    if (data == NULL) {
        SFT_TRY(decode(c, i, &data, err));
        slot *e = slot_for(s, c->chunk_bytes);
        if (e->data != NULL) { /* else it is decoded again the next time */
            memcpy(e->data, data, c->chunk_bytes);
            e->owner = c;
            e->chunk = i;
            e->used = ++s->tick;
        }
    }
    memcpy(dst, data + skip, n);
    return SFT_OK;
}

/* ---------------------------------------------------------------- the source */

static bool is_plain(const chunks *c, const sft__import_h5_chunk *k) {
    const uint32_t all = (UINT32_C(1) << c->filter_count) - 1;
    return (k->mask & all) == all;
}

static sft_status chunks_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const chunks *c = self;
    uint8_t *to = dst;

    while (size > 0) {
        const size_t i = (size_t)(offset / c->chunk_bytes);
        const size_t skip = (size_t)(offset % c->chunk_bytes);
        size_t n = c->chunk_bytes - skip;
        n = n < size ? n : size;
        if (is_plain(c, &c->at[i])) {
            SFT_TRY(sft_source_read(c->inner, c->base + c->at[i].addr + skip, to, n, err));
        } else {
            sft__base_mutex_lock(&c->shared->lock);
            const sft_status status = take(c, i, skip, to, n, err);
            sft__base_mutex_unlock(&c->shared->lock);
            SFT_TRY(status);
        }
        to += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

static void chunks_free(chunks *c, const sft_allocator *allocator) {
    sft__base_free(allocator, c->at, c->count * sizeof *c->at);
    sft__base_free(allocator, c, sizeof *c);
}

static void chunks_close(void *self) {
    chunks *c = self;
    struct sft__import_h5_decoder *shared = c->shared;

    sft__base_mutex_lock(&shared->lock);
    for (size_t i = 0; i < SLOTS; i++) {
        if (shared->slots[i].owner == c) {
            slot_reset(shared, &shared->slots[i]);
        }
    }
    sft__base_mutex_unlock(&shared->lock);
    chunks_free(c, shared->allocator);
    sft__import_h5_decoder_drop(shared);
}

/* ---------------------------------------------------------------- making it */

/* Could these bytes be that chunk? Against bombs, before anything is read. */
static sft_status check_size(sft__import_h5 *h, const sft__import_h5_dataset *d,
                             const sft__import_h5_chunk *k, sft_error *err) {
    uint64_t least = d->chunk_bytes;
    bool packed = false;

    for (uint32_t f = 0; f < d->filter_count; f++) {
        const uint32_t id = d->filters[f].id;
        packed = packed || ((id == DEFLATE || id == SFT__H5_LZF) && (k->mask >> f & 1) == 0);
    }
    least = packed ? (least > 64 ? (least - 64) / RATIO_MAX : 0) : least;
    if (k->size < least || k->size > 2 * d->chunk_bytes + 1024) {
        return sft__base_fail_tensor(err, SFT_E_SCHEMA, h->base + k->addr, d->name, d->name_len,
                                     "hdf5-ratio: %llu bytes cannot be a chunk of %llu",
                                     (unsigned long long)k->size,
                                     (unsigned long long)d->chunk_bytes);
    }
    return SFT_OK;
}

/* Rows of a tensor are read one after the other. The chunks that one row meets are decoded once if
 * all of them are kept; if not, for each stretch of rows anew: little data must not become much
 * work.
 */
static sft_status check_row(sft__import_h5 *h, const sft__import_h5_dataset *d,
                            const sft__import_h5_chunks *c, sft_error *err) {
    uint64_t row = d->chunk_bytes;
    uint64_t packed = 0;

    for (uint32_t i = 1; i < d->rank; i++) {
        row = sft__base_mul64(row, c->grid[i], &row) ? row : UINT64_MAX;
    }
    for (size_t i = 0; i < c->count; i++) {
        packed += c->at[i].size; /* each lies in the file, and there are less than 2^32 */
    }
    return row <= KEPT || packed > c->count * d->chunk_bytes / ROW_RATIO
               ? SFT_OK
               : sft__base_fail_tensor(
                     err, SFT_E_LIMIT, h->base + d->addr, d->name, d->name_len,
                     "hdf5-ratio: %llu bytes inflate %d-fold or more, and the chunks "
                     "of one row to %llu bytes, %d are kept",
                     (unsigned long long)packed, (int)ROW_RATIO, (unsigned long long)row,
                     (int)KEPT);
}

static sft_status check_budget(sft__import_h5 *h, const sft__import_h5_dataset *d,
                               const sft__import_h5_chunks *c, sft_error *err) {
    uint64_t all;

    if (d->chunk_bytes > h->job->options.memory_bytes / 8) {
        return sft__base_fail_tensor(
            err, SFT_E_LIMIT, h->base + d->addr, d->name, d->name_len,
            "hdf5: filtered chunks of %llu bytes, more than an eighth of the "
            "memory limit",
            (unsigned long long)d->chunk_bytes);
    }
    for (size_t i = 0; i < c->count; i++) {
        SFT_TRY(check_size(h, d, &c->at[i], err));
    }
    if (!sft__base_mul64(c->count, d->chunk_bytes, &all) ||
        (d->filter_count != 0 && all > h->job->inflate_left)) {
        return sft__base_fail_tensor(
            err, SFT_E_LIMIT, h->base + d->addr, d->name, d->name_len,
            "hdf5: filtered chunks of more than the %llu bytes that are left "
            "of the budget",
            (unsigned long long)h->job->inflate_left);
    }
    h->job->inflate_left -= d->filter_count != 0 ? all : 0;
    return SFT_OK;
}

sft_status sft__import_h5_chunk_source(sft_source **out, sft__import_h5 *h,
                                       const sft__import_h5_dataset *d,
                                       const sft__import_h5_chunks *c, sft_error *err) {
    const sft_allocator *allocator = h->job->allocator;
    sft_source_vtable vtable;

    *out = NULL;
    SFT_TRY(check_budget(h, d, c, err));
    if (d->filter_count != 0) {
        SFT_TRY(check_row(h, d, c, err));
    }
    if (h->decoder == NULL) {
        SFT_TRY(decoder_create(&h->decoder, allocator, err));
    }
    chunks *s;
    SFT_TRY(sft__base_need_zero(allocator, &s, sizeof *s, err));
    s->at = sft__base_alloc_array(allocator, c->count, sizeof *s->at);
    s->count = c->count;
    if (s->at == NULL) {
        sft__base_free(allocator, s, sizeof *s);
        return sft__base_fail_nomem(err, c->count * sizeof *s->at);
    }
    memcpy(s->at, c->at, c->count * sizeof *s->at);
    s->shared = h->decoder;
    s->inner = h->source;
    s->base = h->base;
    s->chunk_bytes = (size_t)d->chunk_bytes;
    s->filter_count = d->filter_count;
    memcpy(s->filters, d->filters, sizeof s->filters);
    SFT_INIT(&vtable);
    vtable.read_at = chunks_read;
    vtable.close = chunks_close;
    const sft_status status = sft_source_create(
        out, &vtable, s,
        &(sft_source_info){c->count * d->chunk_bytes, 0, sft_source_name(h->source), allocator},
        err);
    if (status != SFT_OK) {
        chunks_free(s, allocator);
        return status;
    }
    sft__base_mutex_lock(&h->decoder->lock);
    h->decoder->references++;
    sft__base_mutex_unlock(&h->decoder->lock);
    return SFT_OK;
}
