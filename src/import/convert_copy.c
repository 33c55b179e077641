/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert_copy.c - moves tensors into a writer in bounded memory: blocks on the pool's
 * workers, each with two buffers from one budget. A tensor whose elements do not lie in order is
 * read box by box in the order of its file and turned in memory, tile by tile, so that neither side
 * sees single elements. Read first: convert.h.
 */
#include "base/thread.h"
#include "import/convert.h"
#include "import/tile.h"
#include <stdlib.h>

enum {
    BUDGET = 40 << 20,
    BLOCK_MAX = 16 << 20, /* touched only where elements are gathered: longer runs on both sides */
    BLOCK_MIN = 256 << 10,
    COPY_BLOCK = 1 << 20, /* read and written again while it is in the cache */
    DIMS_MAX = 64
};

typedef struct unit {
    size_t item;
    uint64_t first; /* element */
    uint64_t count; /* elements */
} unit;

typedef struct room {
    struct room *next;
    uint8_t *in;
    uint8_t *out;
} room;

typedef struct copying {
    sft__conversion *c;
    sft_writer *writer; /* NULL: compare with `with` */
    sft_catalog *with;
    const sft__sink *sink;
    size_t base; /* item that is declared as 0 */
    unit *units;
    size_t unit_count;
    size_t unit_room;
    size_t block; /* bytes of each buffer */
    sft__mutex lock;
    room *rooms;      /* free ones */
    size_t failed_at; /* the first unit that failed; SIZE_MAX: none */
    sft_status status;
    sft_error error;
} copying;

static uint64_t bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return elements / dtype->block_elements * dtype->block_bytes;
}

static uint64_t elements_of(const sft_tensor *t) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        n *= t->shape[d]; /* checked when the catalog was made */
    }
    return n;
}

static bool is_strided(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces[0].strides != NULL && t->dtype->block_elements == 1;
}

/* ---------------------------------------------------------------- turning boxes in memory */

/* A box in two layouts: as it was read (src strides, in elements) and row-major. */
typedef struct box {
    uint32_t rank;
    uint64_t count[DIMS_MAX];
    uint64_t src[DIMS_MAX];
    uint64_t dst[DIMS_MAX];
} box;

/* Two dimensions: x, in whose direction the result lies in order, and y, in which the source does.
 */
static void turn_plane(uint8_t *dst, const uint8_t *src, const box *b, uint32_t y, uint32_t x,
                       uint32_t unit_bytes) {
    const sft__plane plane = {.count = {b->count[y], b->count[x]},
                              .src_stride = {b->src[y], b->src[x]},
                              .dst_stride = {b->dst[y], b->dst[x]},
                              .unit = unit_bytes};
    sft__plane_turn(dst, src, &plane);
}

/* All planes of the box, one after the other. */
static void turn(uint8_t *dst, const uint8_t *src, const box *b, uint32_t unit_bytes) {
    static const box plain = {.rank = 2, .count = {1, 1}};
    uint64_t at[DIMS_MAX] = {0};
    box padded = *b;

    while (padded.rank < 2) { /* dimensions of one element change nothing */
        padded.count[padded.rank] = plain.count[0];
        padded.src[padded.rank] = padded.dst[padded.rank] = 0;
        padded.rank++;
    }
    const uint32_t rank = padded.rank;
    uint32_t x = 0;
    uint32_t y = 0;
    for (uint32_t d = 0; d < rank; d++) {
        x = padded.count[d] > 1 && (padded.count[x] < 2 || padded.dst[d] <= padded.dst[x]) ? d : x;
    }
    y = x == 0 ? 1 : 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (d != x && padded.count[d] > 1 &&
            (padded.count[y] < 2 || padded.src[d] <= padded.src[y])) {
            y = d;
        }
    }
    for (bool more = true; more;) {
        uint64_t s = 0;
        uint64_t o = 0;
        for (uint32_t d = 0; d < rank; d++) {
            s += at[d] * padded.src[d];
            o += at[d] * padded.dst[d];
        }
        turn_plane(dst + o * unit_bytes, src + s * unit_bytes, &padded, y, x, unit_bytes);
        more = false;
        for (uint32_t d = rank; d-- > 0 && !more;) {
            if (d != x && d != y) {
                at[d]++;
                more = at[d] < padded.count[d];
                at[d] = more ? at[d] : 0;
            }
        }
    }
}

/* Dimensions in the order of the source's strides, the longest first; those that repeat (stride 0)
 * are read once. */
static void source_order(const sft_tensor *t, uint32_t order[DIMS_MAX]) {
    const int64_t *strides = t->pieces[0].strides;

    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t at = d;
        while (at > 0 && strides[order[at - 1]] < strides[d]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
}

/* Reads the box of the tensor that begins at index `start` with extents `count` into `in`, in the
 * order of the source, and turns it into `out`. */
static sft_status gather_box(const sft_import_item *item, const uint64_t *start,
                             const uint64_t *count, uint8_t *in, uint8_t *out, size_t room_bytes,
                             sft_error *err) {
    const sft_tensor *t = item->tensor;
    const uint32_t unit_bytes = t->dtype->block_bytes;
    const int64_t *strides = t->pieces[0].strides;
    int64_t dst_strides[DIMS_MAX];
    uint32_t order[DIMS_MAX];
    sft_slice slices[DIMS_MAX];
    sft_read_options o;
    uint64_t elements = 1;
    box b = {.rank = t->rank};

    source_order(t, order);
    for (uint32_t k = t->rank; k-- > 0;) {
        const uint32_t d = order[k];
        const uint64_t n = strides[d] == 0 ? 1 : count[d];
        b.src[d] = strides[d] == 0 ? 0 : elements;
        dst_strides[d] = (int64_t)(elements * unit_bytes);
        elements *= n;
        slices[d] = (sft_slice){.kind = SFT_SLICE_RANGE,
                                .start = (int64_t)start[d],
                                .stop = (int64_t)(start[d] + n),
                                .step = 1};
    }
    elements = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        b.count[d] = count[d];
        b.dst[d] = elements;
        elements *= count[d];
    }
    SFT_INIT(&o);
    o.slices = slices;
    o.slice_count = t->rank;
    o.dst_strides = dst_strides;
    SFT_TRY(sft_tensor_read(item->catalog, t, &o, in, room_bytes, err));
    turn(out, in, &b, unit_bytes);
    return SFT_OK;
}

/* Elements [first, first + n) of a strided tensor as the largest boxes that are whole stretches of
 * it. */
static sft_status gather(const sft_import_item *item, uint64_t first, uint64_t n, room *r,
                         size_t room_bytes, sft_error *err) {
    const sft_tensor *t = item->tensor;
    uint8_t *out = r->out;

    while (n > 0) {
        uint64_t start[DIMS_MAX] = {0};
        uint64_t count[DIMS_MAX];
        uint64_t inner = 1;
        uint32_t d = t->rank;
        for (uint32_t k = 0; k < t->rank; k++) {
            count[k] = 1;
        }
        while (d > 0 && first % (inner * t->shape[d - 1]) == 0 && inner * t->shape[d - 1] <= n) {
            d--;
            count[d] = t->shape[d];
            inner *= t->shape[d];
        }
        uint64_t rest = first / inner;
        for (uint32_t k = d; k-- > 0;) {
            start[k] = rest % t->shape[k];
            rest /= t->shape[k];
        }
        if (d > 0) {
            const uint64_t left = t->shape[d - 1] - start[d - 1];
            const uint64_t fit = n / inner;
            count[d - 1] = left < fit ? left : fit;
            inner *= count[d - 1];
        }
        SFT_TRY(gather_box(item, start, count, r->in, out, room_bytes, err));
        out += inner * t->dtype->block_bytes;
        first += inner;
        n -= inner;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- one unit */

/* The item's elements [first, first + n) in the output's type: *data is one of the two buffers. */
static sft_status produce(const copying *k, const sft_import_item *item, uint64_t first, uint64_t n,
                          room *r, const uint8_t **data, sft_error *err) {
    const sft_tensor *t = item->tensor;
    uint8_t *have = r->in;

    if (is_strided(t)) {
        SFT_TRY(gather(item, first, n, r, k->block, err));
        have = r->out;
    } else {
        SFT_TRY(sft_tensor_read_bytes(item->catalog, t, bytes_of(t->dtype, first), r->in,
                                      (size_t)bytes_of(t->dtype, n), err));
    }
    if (item->dtype->id != t->dtype->id) {
        uint8_t *to = have == r->in ? r->out : r->in;
        SFT_TRY(sft_convert(to, item->dtype, have, t->dtype, n, 0, err));
        have = to;
    }
    *data = have;
    return SFT_OK;
}

static sft_status compare(const copying *k, const sft_import_item *item, uint64_t offset,
                          const uint8_t *data, size_t size, room *r, sft_error *err) {
    const sft_tensor *t = sft_catalog_find(k->with, item->name, item->name_len);
    uint8_t *again = data == r->in ? r->out : r->in;

    if (t == NULL) {
        return sft__fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, item->name, item->name_len,
                                "verify: it is not in the output");
    }
    SFT_TRY(sft_tensor_read_bytes(k->with, t, offset, again, size, err));
    if (memcmp(again, data, size) != 0) {
        return sft__fail_tensor(err, SFT_E_MISMATCH, t->pieces[0].offset + offset, item->name,
                                item->name_len, "verify: the output holds other bytes");
    }
    return SFT_OK;
}

static uint32_t element_bytes(const sft_dtype *dtype) {
    return (dtype->block_bytes + dtype->block_elements - 1) / dtype->block_elements;
}

/* Elements that fit into `bytes` on both sides: whole blocks of every type of the format. */
static uint64_t fitting(const sft_import_item *item, size_t bytes) {
    const sft_dtype *from = item->tensor->dtype;
    const uint32_t a = element_bytes(from);
    const uint32_t b = element_bytes(item->dtype);
    const uint64_t multiple = from->block_elements > 24 ? from->block_elements : 24;
    return bytes / (a > b ? a : b) / multiple * multiple;
}

static sft_status run_unit(copying *k, const unit *u, room *r, sft_error *err) {
    const sft_import_item *item = &k->c->items[u->item];
    const size_t limit =
        is_strided(item->tensor) || k->block < COPY_BLOCK ? k->block : (size_t)COPY_BLOCK;
    const uint64_t at_once = fitting(item, limit);
    const uint8_t *data;

    for (uint64_t done = 0; done < u->count;) {
        const uint64_t n = u->count - done < at_once ? u->count - done : at_once;
        const uint64_t offset = bytes_of(item->dtype, u->first + done);
        const size_t size = (size_t)bytes_of(item->dtype, n);
        SFT_TRY(produce(k, item, u->first + done, n, r, &data, err));
        if (k->sink != NULL) {
            SFT_TRY(k->sink->put(k->sink->ctx, u->item, offset, data, size, err));
            done += n;
            continue;
        }
        SFT_TRY(k->writer != NULL ? sft_writer_put(k->writer, (uint32_t)(u->item - k->base), offset,
                                                   data, size, err)
                                  : compare(k, item, offset, data, size, r, err));
        done += n;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all units */

static bool is_cancelled(copying *k, uint64_t bytes) {
    const sft_control *control = k->c->write.control;
    const bool verify = (k->c->options.flags & SFT_CONVERT_VERIFY) != 0;
    const uint64_t all = k->c->result.data_bytes * (verify ? 2 : 1); /* of the files known so far */
    k->c->done_bytes += bytes;
    const sft_progress progress = {k->c->done_bytes,
                                   all > k->c->done_bytes ? all : k->c->done_bytes};
    return control != NULL && control->poll != NULL && control->poll(control->ctx, &progress) != 0;
}

static void work(void *ctx, size_t index) {
    copying *k = ctx;
    const unit *u = &k->units[index];
    sft_error err;

    sft__mutex_lock(&k->lock);
    const bool stop = k->failed_at != SIZE_MAX;
    room *r = k->rooms; /* as many as workers: never empty here */
    k->rooms = r->next;
    sft__mutex_unlock(&k->lock);
    memset(&err, 0, sizeof err);
    sft_status status = stop ? SFT_OK : run_unit(k, u, r, &err);
    sft__mutex_lock(&k->lock);
    r->next = k->rooms;
    k->rooms = r;
    if (!stop && status == SFT_OK &&
        is_cancelled(k, bytes_of(k->c->items[u->item].dtype, u->count))) {
        status = sft__fail(&err, SFT_E_CANCELLED, "cancelled");
    }
    if (status != SFT_OK && index < k->failed_at) {
        k->failed_at = index;
        k->status = status;
        k->error = err;
    }
    sft__mutex_unlock(&k->lock);
}

static bool is_sequential(const sft_import_item *item) {
    for (uint32_t i = 0; i < item->tensor->piece_count; i++) {
        const sft_source *s = sft_catalog_source_at(item->catalog, item->tensor->pieces[i].source);
        if (s != NULL && (sft_source_flags(s) & SFT_SOURCE_SEQUENTIAL) != 0) {
            return true;
        }
    }
    return false;
}

/* Cuts the items; what comes from a sequential source stays in one unit. */
static sft_status cut(copying *k, size_t first, size_t end, bool in_order, sft_error *err) {
    for (size_t i = first; i < end; i++) {
        const sft_import_item *item = &k->c->items[i];
        const uint64_t all = elements_of(item->tensor);
        const uint64_t part = is_sequential(item) || in_order ? all : fitting(item, k->block);
        for (uint64_t at = 0; at < all; at += part) {
            if (!sft__grow(k->c->allocator, &k->units, &k->unit_room, k->unit_count + 1,
                           sizeof *k->units)) {
                return sft__fail_nomem(err, k->unit_count * sizeof *k->units);
            }
            k->units[k->unit_count++] = (unit){i, at, all - at < part ? all - at : part};
        }
    }
    return SFT_OK;
}

static sft_status run_all(copying *k, room *rooms, size_t count, bool in_order, sft_error *err) {
    uint8_t *memory = sft__alloc(k->c->allocator, count * 2 * k->block);

    if (memory == NULL) {
        return sft__fail_nomem(err, count * 2 * k->block);
    }
    for (size_t i = 0; i < count; i++) {
        rooms[i] = (room){k->rooms, memory + 2 * i * k->block, memory + (2 * i + 1) * k->block};
        k->rooms = &rooms[i];
    }
    k->failed_at = SIZE_MAX;
    sft_pool_run(in_order ? NULL : k->c->write.pool, k->unit_count, work, k);
    sft__free(k->c->allocator, memory, count * 2 * k->block);
    if (k->failed_at != SIZE_MAX && err != NULL) {
        *err = k->error;
    }
    return k->failed_at != SIZE_MAX ? k->status : SFT_OK;
}

static sft_status run(copying *k, size_t first, size_t end, sft_error *err) {
    enum { ROOMS_MAX = 1024 };
    const bool in_order = k->writer != NULL && (k->c->write.digests & SFT_DIGEST_SHA256) != 0;
    size_t threads = sft_pool_threads(k->c->write.pool);
    const sft_allocator *a = k->c->allocator;

    threads = threads > ROOMS_MAX ? ROOMS_MAX : threads;
    k->block = BUDGET / (2 * threads);
    k->block = k->block > BLOCK_MAX ? BLOCK_MAX : k->block < BLOCK_MIN ? BLOCK_MIN : k->block;
    room *rooms = sft__alloc_array(a, threads, sizeof *rooms);
    if (rooms == NULL || !sft__mutex_init(&k->lock)) {
        sft__free(a, rooms, threads * sizeof *rooms);
        return sft__fail_nomem(err, threads * sizeof *rooms);
    }
    sft_status status = cut(k, first, end, in_order, err);
    if (status == SFT_OK) {
        status = run_all(k, rooms, threads, in_order, err);
    }
    if (status == SFT_OK && is_cancelled(k, 0)) { /* the last word is the caller's thread's */
        status = sft__fail(err, SFT_E_CANCELLED, "cancelled");
    }
    sft__mutex_reset(&k->lock);
    sft__free(a, k->units, k->unit_room * sizeof *k->units);
    sft__free(a, rooms, threads * sizeof *rooms);
    return status;
}

sft_status sft__convert_copy(sft__conversion *c, sft_writer *writer, size_t first, size_t end,
                             sft_error *err) {
    copying k = {.c = c, .writer = writer, .base = first};
    return run(&k, first, end, err);
}

sft_status sft__convert_sink(sft__conversion *c, const sft__sink *sink, sft_error *err) {
    copying k = {.c = c, .sink = sink};
    return run(&k, 0, c->item_count, err);
}

sft_status sft__convert_compare(sft__conversion *c, sft_catalog *with, sft_error *err) {
    copying k = {.c = c, .with = with};
    const sft_status status = run(&k, 0, c->item_count, err);
    c->result.verified += status == SFT_OK ? c->item_count : 0;
    return status;
}

sft_status sft__convert_verify(sft__conversion *c, const char *path, size_t first, size_t end,
                               sft_error *err) {
    copying k = {.c = c, .base = first};

    SFT_TRY(sft_catalog_open(&k.with, path, NULL, err));
    const sft_status status = run(&k, first, end, err);
    sft_catalog_close(k.with);
    c->result.verified += status == SFT_OK ? end - first : 0;
    return status;
}
