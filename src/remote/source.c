/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/source.c - reads become gets. What lies in the object's head or in a cache is copied; what
 * is left of the ranges is sorted; short neighbours are fetched together, widened to whole blocks,
 * which the cache keeps; long ones go straight to their place, cut so that several connections
 * share them. Read first: room.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "remote/disk/disk.h"
#include "remote/http/transfer.h"
#include <sft/digest.h>
#include <stdlib.h>
#include <string.h>

enum {
    PART_MIN = 2 << 20,
    PART_MAX = 16 << 20,
    PIECES_EACH = 3, /* of a range: its front, its whole blocks, its back */
    PART_COST = 128, /* bytes of boundary and head of a part of an answer in parts */
    SCATTER_MIN = 8, /* ranges that are worth being asked for in one request */
    SCATTER_GAIN = 64 << 10,
    SCATTER_LEAST = 256 << 10, /* bytes of one such request, so that connections share them */
    SCATTER_MOST = 4 << 20
};

/* What is left of a range after head and caches. */
typedef struct piece {
    uint64_t offset;
    size_t size;
    uint8_t *dst;
    size_t range;
} piece;

typedef struct reading reading;

/* What one get serves: pieces [first, first + count), through a buffer; or a part of one, directly.
 */
typedef struct share {
    reading *r;
    size_t first;
    size_t count;
    uint8_t *buffer; /* of the whole get, or NULL */
    size_t buffer_size;
    uint8_t *direct;
    uint64_t offset; /* of the get */
    size_t filled;   /* of the buffer, if the get has ranges: what is wanted, side by side */
} share;

typedef struct range_state {
    size_t outstanding; /* gets */
    const sft__remote_get *failed;
    bool told; /* that it ended */
} range_state;

struct reading {
    sft__remote_object *object;
    sft_io_done done;
    void *done_ctx;
    piece *pieces;
    size_t piece_count;
    range_state *states; /* one per range */
    sft__remote_get *gets;
    share *shares;
    size_t get_count;
    size_t get_room;
    sft__remote_range *ranges; /* of gets that have some; a place for each piece */
    size_t range_count;
    uint64_t each; /* bytes of a get with ranges */
};

/* ---------------------------------------------------------------- what is here already */

static size_t block_size(const sft__remote_object *object, uint64_t index) {
    const uint64_t left = object->size - index * SFT__BLOCK;
    return left < SFT__BLOCK ? (size_t)left : SFT__BLOCK;
}

static bool block_find(sft__remote_object *object, uint64_t index, uint8_t *block) {
    sft_remote *remote = object->remote;
    const size_t size = block_size(object, index);

    if (sft__remote_cache_get(remote->cache, object->key, index, block, size)) {
        return true;
    }
    if (remote->disk != NULL && sft__remote_disk_get(remote->disk, object, index, block, size)) {
        sft__remote_cache_put(remote->cache, object->key, index, block, size);
        return true;
    }
    return false;
}

/* Cuts off what the caches have at the front and at the back. */
static void take_cached(sft__remote_object *object, piece *p) {
    uint8_t block[SFT__BLOCK];
    const size_t before = p->size;

    if (p->size > SFT__SHORT && object->remote->disk == NULL) {
        return;
    }
    while (p->size > 0) {
        const uint64_t index = p->offset / SFT__BLOCK;
        const size_t skip = (size_t)(p->offset % SFT__BLOCK);
        if (!block_find(object, index, block)) {
            break;
        }
        size_t n = block_size(object, index) - skip;
        n = n < p->size ? n : p->size;
        memcpy(p->dst, block + skip, n);
        p->dst += n;
        p->offset += n;
        p->size -= n;
    }
    while (p->size > 0) {
        const uint64_t index = (p->offset + p->size - 1) / SFT__BLOCK;
        const uint64_t begin = index * SFT__BLOCK;
        if (begin < p->offset || !block_find(object, index, block)) {
            break;
        }
        const size_t n = (size_t)(p->offset + p->size - begin);
        p->size -= n;
        memcpy(p->dst + p->size, block, n);
    }
    atomic_fetch_add_explicit(&object->remote->cache_hits, before - p->size, memory_order_relaxed);
}

static void keep_blocks(sft__remote_object *object, uint64_t offset, const uint8_t *data,
                        size_t size) {
    sft_remote *remote = object->remote;
    uint64_t index = offset / SFT__BLOCK + (offset % SFT__BLOCK != 0 ? 1 : 0);

    for (; index * SFT__BLOCK < offset + size; index++) {
        const size_t n = block_size(object, index);
        const size_t at = (size_t)(index * SFT__BLOCK - offset);
        if (n > size - at) {
            break;
        }
        sft__remote_cache_put(remote->cache, object->key, index, data + at, n);
        if (remote->disk != NULL) {
            sft__remote_disk_put(remote->disk, object, index, data + at, n);
        }
    }
}

/* ---------------------------------------------------------------- gets */

static sft_status share_put(void *ctx, uint64_t offset, const uint8_t *data, size_t size,
                            sft_error *err) {
    share *s = ctx;
    (void)err;
    if (s->r->gets[s - s->r->shares].ranges != NULL) { /* ascending, with nothing left out */
        memcpy(s->buffer + s->filled, data, size);
        s->filled += size;
        return SFT_OK;
    }
    memcpy((s->buffer != NULL ? s->buffer : s->direct) + (size_t)(offset - s->offset), data, size);
    return SFT_OK;
}

static void range_ended(reading *r, size_t range, const sft__remote_get *get) {
    range_state *state = &r->states[range];

    if (get->status != SFT_OK && state->failed == NULL) {
        state->failed = get;
    }
    if (--state->outstanding == 0) {
        const sft__remote_get *failed = state->failed;
        r->done(r->done_ctx, range, failed != NULL ? failed->status : SFT_OK,
                failed != NULL ? &failed->err : NULL);
    }
}

/* Where byte `offset` of a get with ranges lies in its buffer; k and base go on from piece to
 * piece. */
static size_t place_of(const sft__remote_get *get, uint64_t offset, size_t *k, size_t *base) {
    while (offset >= get->ranges[*k].offset + get->ranges[*k].size) {
        *base += (size_t)get->ranges[(*k)++].size;
    }
    return *base + (size_t)(offset - get->ranges[*k].offset);
}

static void share_ended(sft__remote_get *get) {
    share *s = get->ctx;
    reading *r = s->r;
    size_t k = 0;
    size_t base = 0;

    if (get->status == SFT_OK && get->ranges == NULL) {
        if (s->buffer != NULL) {
            keep_blocks(get->object, get->offset, s->buffer, s->buffer_size);
        } else if (r->object->remote->disk != NULL) {
            keep_blocks(get->object, get->offset, s->direct, (size_t)get->size);
        }
    }
    for (size_t i = s->first; i < s->first + s->count; i++) {
        const piece *p = &r->pieces[i];
        if (get->status == SFT_OK && s->buffer != NULL) {
            const size_t at = get->ranges != NULL ? place_of(get, p->offset, &k, &base)
                                                  : (size_t)(p->offset - get->offset);
            memcpy(p->dst, s->buffer + at, p->size);
        }
        range_ended(r, p->range, get);
    }
    sft__base_free(get->object->remote->allocator, s->buffer, s->buffer_size);
    s->buffer = NULL;
}

static int compare_pieces(const void *a, const void *b) {
    const piece *x = a;
    const piece *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* How many gets a long piece becomes, and of what size. */
static size_t part_size(const reading *r, size_t size) {
    const uint32_t connections = r->object->remote->settings.o.connections;
    size_t part = size / connections + 1;

    if (connections == 1 || size <= PART_MIN) {
        return size;
    }
    part = part < PART_MIN ? PART_MIN : part > PART_MAX ? PART_MAX : part;
    return (part + SFT__BLOCK - 1) / SFT__BLOCK * SFT__BLOCK;
}

static share *add_get(reading *r, size_t first, size_t count, uint64_t offset, uint64_t size) {
    share *s = &r->shares[r->get_count];
    sft__remote_get *get = &r->gets[r->get_count++];

    *s = (share){.r = r, .first = first, .count = count, .offset = offset};
    memset(get, 0, sizeof *get);
    get->object = r->object;
    get->offset = offset;
    get->size = size;
    get->put = share_put;
    get->ctx = s;
    get->ended = share_ended;
    for (size_t i = first; i < first + count; i++) {
        r->states[r->pieces[i].range].outstanding++;
    }
    return s;
}

static bool add_joined(reading *r, size_t first, size_t count, uint64_t end) {
    const uint64_t size = r->object->size;
    /* whole blocks, for the cache; not where gaps of less are too much */
    const uint64_t whole = r->object->remote->settings.o.gap_bytes < SFT__BLOCK ? 1 : SFT__BLOCK;
    const uint64_t begin = r->pieces[first].offset / whole * whole;
    uint64_t stop = (end + whole - 1) / whole * whole; /* end <= size, which is in a file */

    stop = stop < size ? stop : size;
    uint8_t *buffer = sft__base_alloc(r->object->remote->allocator, (size_t)(stop - begin));
    if (buffer == NULL) {
        return false;
    }
    share *s = add_get(r, first, count, begin, stop - begin);
    s->buffer = buffer;
    s->buffer_size = (size_t)(stop - begin);
    return true;
}

static void add_long(reading *r, size_t index) {
    const piece *p = &r->pieces[index];
    const size_t part = part_size(r, p->size);

    for (size_t at = 0; at < p->size;) {
        size_t n = p->size - at < part ? p->size - at : part;
        share *s = add_get(r, index, 1, p->offset + at, n);
        s->direct = p->dst + at;
        r->gets[r->get_count - 1].bulk = true;
        at += n;
    }
}

/* The pieces from `first` on that are fetched together; *end: of the last byte. */
static size_t joined(const reading *r, size_t first, uint64_t *end) {
    const uint64_t gap = r->object->remote->settings.o.gap_bytes;
    size_t n = 1;

    *end = r->pieces[first].offset + r->pieces[first].size;
    for (; first + n < r->piece_count; n++) {
        const piece *p = &r->pieces[first + n];
        const uint64_t last = p->offset + p->size > *end ? p->offset + p->size : *end;
        if ((p->offset > *end && p->offset - *end > gap) ||
            last - r->pieces[first].offset > SFT__SHORT) {
            break;
        }
        *end = last;
    }
    return n;
}

/* What the pieces [first, end) cost with the gaps between them: bytes, and requests as bytes. */
static uint64_t joined_cost(const reading *r, size_t first, size_t end) {
    uint64_t cost = 0;
    while (first < end) {
        uint64_t stop;
        const size_t n = joined(r, first, &stop);
        cost += stop - r->pieces[first].offset + SFT__BLOCK + SFT__JOIN_GAP;
        first += n;
    }
    return cost;
}

/* The short pieces from `first` on as ranges of one get, if that costs less than to fetch them with
 * their gaps; returns how many pieces, 0: none. *bytes: of all ranges. */
static size_t scattered(reading *r, size_t first, size_t *range_count, size_t *bytes) {
    sft__remote_range *ranges = r->ranges + r->range_count;
    size_t count = 0;
    size_t n = 0;
    uint64_t total = 0;

    if (r->ranges == NULL) {
        return 0;
    }
    for (; first + n < r->piece_count && r->pieces[first + n].size <= SFT__SHORT; n++) {
        const piece *p = &r->pieces[first + n];
        sft__remote_range *last = count > 0 ? &ranges[count - 1] : NULL;
        const uint64_t end = p->offset + p->size;
        if (last != NULL && p->offset <= last->offset + last->size + PART_COST) {
            const uint64_t before = last->size;
            last->size = end > last->offset + before ? end - last->offset : before;
            total += last->size - before;
        } else if (count == SFT__RANGES_MAX || total >= r->each) {
            break;
        } else {
            ranges[count++] = (sft__remote_range){p->offset, p->size};
            total += p->size;
        }
    }
    const uint64_t cost = total + count * PART_COST + SFT__JOIN_GAP;
    if (count < SCATTER_MIN || cost + cost / 8 + SCATTER_GAIN > joined_cost(r, first, first + n)) {
        return 0;
    }
    *range_count = count;
    *bytes = (size_t)total;
    return n;
}

static bool add_scattered(reading *r, size_t first, size_t count, size_t ranges, size_t bytes) {
    const sft__remote_range *from = r->ranges + r->range_count;
    const sft__remote_range *last = from + ranges - 1;
    uint8_t *buffer = sft__base_alloc(r->object->remote->allocator, bytes);

    if (buffer == NULL) {
        return false;
    }
    share *s = add_get(r, first, count, from->offset, last->offset + last->size - from->offset);
    sft__remote_get *get = &r->gets[r->get_count - 1];
    s->buffer = buffer;
    s->buffer_size = bytes;
    get->ranges = from;
    get->range_count = ranges;
    r->range_count += ranges;
    return true;
}

/* May requests for several ranges pay? Then there is room for the ranges. */
static bool plan_scattered(reading *r) {
    const sft_remote *remote = r->object->remote;
    uint64_t bytes = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->piece_count; i++) {
        if (r->pieces[i].size <= SFT__SHORT) {
            bytes += r->pieces[i].size;
            n++;
        }
    }
    if (n < SCATTER_MIN || remote->disk != NULL || r->object->credential == SFT__SIGV4 ||
        sft__remote_multipart_refused(r->object->remote, r->object->url)) {
        return true;
    }
    r->each = bytes / remote->settings.o.connections;
    r->each = r->each < SCATTER_LEAST ? SCATTER_LEAST : r->each;
    r->each = r->each > SCATTER_MOST ? SCATTER_MOST : r->each;
    r->ranges = sft__base_alloc_array(remote->allocator, r->piece_count, sizeof *r->ranges);
    return r->ranges != NULL;
}

static sft_status make_gets(reading *r, sft_error *err) {
    const sft_allocator *a = r->object->remote->allocator;

    for (size_t i = 0; i < r->piece_count; i++) {
        const size_t size = r->pieces[i].size;
        r->get_room += size > SFT__SHORT ? size / part_size(r, size) + 1 : 1;
    }
    SFT_NEED(plan_scattered(r), r->piece_count * sizeof *r->ranges, err);
    r->gets = sft__base_alloc_array(a, r->get_room, sizeof *r->gets);
    r->shares = sft__base_alloc_array(a, r->get_room, sizeof *r->shares);
    SFT_NEED(r->gets != NULL && r->shares != NULL, r->get_room * sizeof *r->gets, err);
    for (size_t i = 0; i < r->piece_count;) {
        uint64_t end;
        if (r->pieces[i].size > SFT__SHORT) {
            add_long(r, i++);
            continue;
        }
        size_t ranges;
        size_t bytes;
        size_t n = scattered(r, i, &ranges, &bytes);
        if (n > 0) {
            SFT_NEED(add_scattered(r, i, n, ranges, bytes), bytes, err);
            i += n;
            continue;
        }
        n = joined(r, i, &end);
        SFT_NEED(add_joined(r, i, n, end), SFT__SHORT, err);
        i += n;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- a batch of reads */

/* Ends every range that still waits. */
static void end_waiting(reading *r, sft_status status, const sft_error *err) {
    for (size_t i = 0; i < r->get_count; i++) {
        sft__base_free(r->object->remote->allocator, r->shares[i].buffer, r->shares[i].buffer_size);
    }
    for (size_t i = 0; i < r->piece_count; i++) {
        range_state *state = &r->states[r->pieces[i].range];
        if (!state->told) {
            state->told = true;
            r->done(r->done_ctx, r->pieces[i].range, status, err);
        }
    }
}

/* What the head and the caches have not of a piece; true: nothing is left. */
static bool take_piece(reading *r, piece p) {
    const sft__remote_object *object = r->object;

    if (p.offset < object->head_len) {
        const size_t have = object->head_len - (size_t)p.offset;
        const size_t n = have < p.size ? have : p.size;
        memcpy(p.dst, object->head + (size_t)p.offset, n);
        p.dst += n;
        p.offset += n;
        p.size -= n;
    }
    take_cached(r->object, &p);
    if (p.size == 0) {
        return true;
    }
    r->pieces[r->piece_count++] = p;
    return false;
}

/* A disk keeps whole blocks: the odd ends of long ranges are pieces of their own, which are
 * widened. */
static bool take_range(reading *r, piece p) {
    const size_t front = (SFT__BLOCK - (size_t)(p.offset % SFT__BLOCK)) % SFT__BLOCK;
    bool all = true;

    if (r->object->remote->disk == NULL || p.size <= SFT__SHORT) {
        return take_piece(r, p);
    }
    if (front > 0) {
        all &= take_piece(r, (piece){p.offset, front, p.dst, p.range});
        p = (piece){p.offset + front, p.size - front, p.dst + front, p.range};
    }
    const size_t back = p.size % SFT__BLOCK;
    all &= take_piece(r, (piece){p.offset, p.size - back, p.dst, p.range});
    p = (piece){p.offset + (p.size - back), back, p.dst + (p.size - back), p.range};
    return (back == 0 || take_piece(r, p)) && all;
}

static void take_here(reading *r, const sft_io_range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const piece p = {ranges[i].offset, ranges[i].size, ranges[i].data, i};
        if (p.size == 0 || take_range(r, p)) {
            r->done(r->done_ctx, i, SFT_OK, NULL);
        }
    }
}

/* Reads through the object's head and the caches. */
static sft_status read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    sft__remote_object *object = self;
    const sft_allocator *a = object->remote->allocator;
    const size_t count = batch->count;
    reading r = {.object = object, .done = batch->done, .done_ctx = batch->done_ctx};
    sft_status status;
    sft_error why;

    r.pieces = sft__base_alloc_array(a, count, PIECES_EACH * sizeof *r.pieces);
    r.states =
        sft__base_alloc_zero(a, count * sizeof *r.states); /* fits: smaller than the pieces */
    if (r.pieces == NULL || r.states == NULL) {
        status = sft__base_fail_nomem(&why, count * sizeof *r.pieces);
        for (size_t i = 0; i < count; i++) {
            batch->done(batch->done_ctx, i, status, &why);
        }
    } else {
        take_here(&r, batch->ranges, count);
        if (r.piece_count > 1) {
            qsort(r.pieces, r.piece_count, sizeof *r.pieces, compare_pieces);
        }
        status = r.piece_count > 0 ? make_gets(&r, &why) : SFT_OK;
        if (status != SFT_OK) {
            end_waiting(&r, status, &why);
        } else {
            const sft__remote_gets list = {r.gets, r.get_count, 0, false, batch->control};
            status = sft__remote_transfer(object->remote, &list, &why);
        }
    }
    sft__base_free(a, r.gets, r.get_room * sizeof *r.gets);
    sft__base_free(a, r.shares, r.get_room * sizeof *r.shares);
    sft__base_free(a, r.ranges, r.ranges != NULL ? r.piece_count * sizeof *r.ranges : 0);
    sft__base_free(a, r.pieces, count * PIECES_EACH * sizeof *r.pieces);
    sft__base_free(a, r.states, count * sizeof *r.states);
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

/* ---------------------------------------------------------------- the source */

static void ignore_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    (void)ctx, (void)index, (void)status, (void)err;
}

static sft_status remote_read_at(void *self, uint64_t offset, void *dst, size_t size,
                                 sft_error *err) {
    const sft_io_range range = {offset, dst, size};
    return read_many(self, &(sft_io_batch){&range, 1, ignore_done, NULL, NULL}, err);
}

static void remote_close(void *self) {
    sft__remote_object_free(self);
}

static uint64_t remote_version(void *self) {
    const sft__remote_object *object = self;
    const char *text = object->etag[0] != '\0' ? object->etag : object->modified;
    uint8_t digest[32];
    uint64_t version;
    sft_sha256 sha;

    if (text[0] == '\0') {
        return 0;
    }
    sft_sha256_init(&sha);
    sft_sha256_update(&sha, text, strlen(text));
    sft_sha256_final(&sha, digest);
    memcpy(&version, digest, sizeof version);
    return version != 0 ? version : 1;
}

sft_status sft__remote_source_over(sft_source **out, sft__remote_object *object, sft_error *err) {
    static const sft_source_vtable vtable = {.struct_size = sizeof vtable,
                                             .read_at = remote_read_at,
                                             .read_many = read_many,
                                             .close = remote_close,
                                             .version = remote_version};
    const size_t len = strcspn(object->url, "?#");
    char *name =
        sft__base_alloc(object->remote->allocator, len + 1); /* the query may be a secret */

    *out = NULL;
    SFT_NEED(name != NULL, len + 1, err);
    memcpy(name, object->url, len);
    name[len] = '\0';
    const sft_status status =
        sft_source_create(out, &vtable, object,
                          &(sft_source_info){object->size, SFT_SOURCE_REMOTE | SFT_SOURCE_SCATTERED,
                                             name, object->remote->allocator},
                          err);
    sft__base_free(object->remote->allocator, name, len + 1);
    return status;
}

/* ---------------------------------------------------------------- beginnings */

static sft_status head_put(void *ctx, uint64_t offset, const uint8_t *data, size_t size,
                           sft_error *err) {
    sft__remote_object *object = ctx;
    (void)err;
    memcpy(object->head + (size_t)offset, data, size);
    object->head_len = (size_t)offset + size; /* ascending: offset is head_len */
    return SFT_OK;
}

static sft_status head_get(sft__remote_object *object, uint64_t offset, uint64_t end, bool first,
                           sft__remote_get *get, sft_error *err) {
    uint8_t *head =
        sft__base_resize(object->remote->allocator, object->head, object->head_room, (size_t)end);
    SFT_NEED(head != NULL, (size_t)end, err);
    object->head = head;
    object->head_room = (size_t)end;
    memset(get, 0, sizeof *get);
    get->object = object;
    get->offset = offset;
    get->size = end - offset;
    get->first = first;
    get->put = head_put;
    get->ctx = object;
    return SFT_OK;
}

/* Where the header ends of what begins with these 8 bytes; 0: it is here, or makes no sense. */
static uint64_t header_end(const sft__remote_object *object, uint64_t limit) {
    uint64_t n = 0;

    if (object->head_len < 8) {
        return 0;
    }
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | object->head[i];
    }
    return n > limit || n > object->size - 8 || n + 8 <= object->head_len ? 0 : n + 8;
}

enum { HEADS_AT_ONCE = 32 };

/* The rest of headers that are longer than the first read. */
static sft_status rest_of_headers(const sft__remote_beginnings *b, sft__remote_get *gets,
                                  size_t *of, sft_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        sft__remote_object *object = b->objects[i];
        const uint64_t end = b->statuses[i] == SFT_OK ? header_end(object, b->limit) : 0;
        if (end != 0) {
            SFT_TRY(head_get(object, object->head_len, end, false, &gets[n], err));
            of[n++] = i;
        }
    }
    const sft__remote_gets list = {gets, n, HEADS_AT_ONCE, false, NULL};
    const sft_status status = sft__remote_transfer(b->objects[0]->remote, &list, err);
    for (size_t i = 0; i < n; i++) {
        b->statuses[of[i]] = gets[i].status;
    }
    return status;
}

static sft_status begin_all(const sft__remote_beginnings *b, sft__remote_get *gets,
                            sft_error *err) {
    sft_remote *remote = b->objects[0]->remote;
    const size_t first = b->first != 0 ? b->first : remote->settings.o.first_bytes;
    for (size_t i = 0; i < b->count; i++) {
        SFT_TRY(head_get(b->objects[i], 0, first, true, &gets[i], err));
    }
    const sft__remote_gets list = {gets, b->count, HEADS_AT_ONCE, true, NULL};
    const sft_status status = sft__remote_transfer(remote, &list, err);
    for (size_t i = 0; i < b->count; i++) {
        b->statuses[i] = gets[i].status;
        if (b->https != NULL) {
            b->https[i] = gets[i].status == SFT_E_HTTP ? gets[i].err.sys : 0;
        }
        if (gets[i].status == SFT_OK) {
            keep_blocks(b->objects[i], 0, b->objects[i]->head, b->objects[i]->head_len);
        }
    }
    return status;
}

sft_status sft__remote_objects_begin(const sft__remote_beginnings *b, sft_error *err) {
    if (b->count == 0) {
        return SFT_OK;
    }
    const size_t count = b->count;
    const sft_allocator *a = b->objects[0]->remote->allocator;
    sft__remote_get *gets = sft__base_alloc_array(a, count, sizeof *gets);
    size_t *of = sft__base_alloc_array(a, count, sizeof *of);
    sft_status status;

    for (size_t i = 0; i < count; i++) {
        b->statuses[i] = SFT_E_NOMEM;
    }
    if (gets == NULL || of == NULL) {
        status = sft__base_fail_nomem(err, count * sizeof *gets);
    } else {
        status = begin_all(b, gets, err);
        if (b->headers && status != SFT_E_NOMEM && status != SFT_E_CANCELLED) {
            sft_error why;
            const sft_status more = rest_of_headers(b, gets, of, &why);
            if (status == SFT_OK && more != SFT_OK) {
                status = more;
                if (err != NULL) {
                    *err = why;
                }
            }
        }
    }
    sft__base_free(a, gets, count * sizeof *gets);
    sft__base_free(a, of, count * sizeof *of);
    return status;
}
