/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_copy.c - moves tensors into a writer in bounded memory: units on the pool's
 * workers, in buffers from one budget. Most bytes pass through a block that stays in the
 * processor's cache; a tensor whose elements lie in another order is turned panel by panel
 * (turn.h). Read first: convert.h.
 */
#include "base/memory/need.h"
#include "base/thread/thread.h"
#include "import/convert/convert.h"
#include "import/convert/turn.h"
#include "move/loop.h"
#include <stdlib.h>

enum {
    BUDGET = 48 << 20,
    BLOCK = 1 << 20, /* read and written again while it is in the cache */
    BLOCK_MIN = 64 << 10,
    UNIT = 8 << 20,
    PANEL_MAX = 32 << 20,
    PANEL_MAPPED = 6 << 20, /* two of them stay in the processor's last cache */
    AHEAD_MAX = 256 << 20,  /* of a band, that the system is asked to fetch at once */
    PANEL_MIN = 4 << 20     /* smaller ones only to give all workers something to do */
};

typedef struct unit {
    size_t item;
    uint64_t first; /* element; of a turned tensor: number of the panel */
    uint64_t count; /* elements */
    bool mapped;    /* of a turned tensor: found out once, for panels are cut by it */
} unit;

/* A buffer: two blocks, and a panel if anything is turned. */
typedef struct room {
    uint8_t *a;
    uint8_t *b;
    uint8_t *panel;
} room;

typedef struct copying {
    sft__import_conversion *c;
    sft_writer *writer; /* NULL: compare with `with` */
    sft_catalog *with;
    const sft__import_sink *sink;
    size_t base; /* item that is declared as 0 */
    unit *units;
    size_t unit_count;
    size_t unit_room;
    size_t block; /* bytes of a room's a and b */
    size_t panel; /* bytes of its panel; 0: none */
    bool in_order;
    sft__move_loop loop;
    sft__base_mutex lock;
    const sft_source *mapped; /* under the lock: of the band that was begun last */
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

/* ---------------------------------------------------------------- reading */

/* Part of a strided tensor in row-major order: what lies between its runs is left out. */
static sft_status read_box(const sft_import_item *item, const uint64_t *start,
                           const uint64_t *count, uint8_t *out, size_t out_bytes, sft_error *err) {
    const sft_tensor *t = item->tensor;
    sft_slice slices[SFT__TURN_DIMS];
    sft_read_options o;

    for (uint32_t d = 0; d < t->rank; d++) {
        slices[d] = (sft_slice){.kind = SFT_SLICE_RANGE,
                                .start = (int64_t)start[d],
                                .stop = (int64_t)(start[d] + count[d]),
                                .step = 1};
    }
    SFT_INIT(&o);
    o.slices = slices;
    o.slice_count = t->rank;
    return sft_tensor_read(item->catalog, t, &o, out, out_bytes, err);
}

/* Elements [first, first + n) of such a tensor, as the largest boxes that are whole stretches of
 * it. */
static sft_status read_runs(const sft_import_item *item, uint64_t first, uint64_t n, uint8_t *out,
                            sft_error *err) {
    const sft_tensor *t = item->tensor;

    while (n > 0) {
        uint64_t start[SFT__TURN_DIMS] = {0};
        uint64_t count[SFT__TURN_DIMS];
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
        const size_t bytes = (size_t)(inner * t->dtype->block_bytes);
        SFT_TRY(read_box(item, start, count, out, bytes, err));
        out += bytes;
        first += inner;
        n -= inner;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- handing on */

/* Bytes of an item as the output has them. */
typedef struct stretch {
    uint64_t offset;
    const uint8_t *data;
    size_t size;
} stretch;

/* again: room for as many. */
static sft_status compare(const copying *k, const sft_import_item *item, const stretch *s,
                          uint8_t *again, sft_error *err) {
    const sft_tensor *t = sft_catalog_find(k->with, item->name, item->name_len);

    if (t == NULL) {
        return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, item->name, item->name_len,
                                     "verify: it is not in the output");
    }
    SFT_TRY(sft_tensor_read_bytes(k->with, t, s->offset, again, s->size, err));
    if (memcmp(again, s->data, s->size) != 0) {
        return sft__base_fail_tensor(err, SFT_E_MISMATCH, t->pieces[0].offset + s->offset,
                                     item->name, item->name_len,
                                     "verify: the output holds other bytes");
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

/* Elements of the item from `at` on that make one step of about `bytes`. Steps end where the file's
 * position is a multiple of their size, so that whole pages are written: others cost a file system
 * a third more. */
static uint64_t step(const copying *k, size_t i, uint64_t at, size_t bytes) {
    const sft_import_item *item = &k->c->items[i];
    const sft_dtype *from = item->tensor->dtype;
    const uint32_t size = element_bytes(item->dtype);
    const uint64_t most = bytes / (size > element_bytes(from) ? size : element_bytes(from));

    if (from->block_elements != 1 || item->dtype->block_elements != 1) {
        return fitting(item, bytes);
    }
    if (k->writer == NULL) {
        return most - at % most;
    }
    const uint64_t skew = sft_writer_offset(k->writer, (uint32_t)(i - k->base)) / size;
    return most - (skew + at) % most;
}

/* Elements of an item, which lie at `data` in the tensor's type: in r->a or outside of the blocks. More than
 * fit into a block only from outside. */
typedef struct elements {
    uint64_t first;
    uint64_t count;
    const uint8_t *data;
} elements;

static sft_status deliver(copying *k, const unit *u, const elements *e, room *r, sft_error *err) {
    const uint64_t n = e->count;
    const sft_import_item *item = &k->c->items[u->item];
    const sft_dtype *type = item->tensor->dtype;
    const bool cast = item->dtype->id != type->id;
    const uint64_t at_once = cast || k->with != NULL ? fitting(item, k->block) : n;
    uint8_t *made = e->data == r->a ? r->b : r->a;

    for (uint64_t done = 0; done < n;) {
        const uint64_t m = n - done < at_once ? n - done : at_once;
        const uint8_t *have = e->data + bytes_of(type, done);
        if (cast) {
            SFT_TRY(sft_convert(made, have, m, &(sft_cast){item->dtype, type, 0}, err));
            if (k->with == NULL && k->c->options.casted != NULL) {
                k->c->options.casted(k->c->options.ctx, item, have, made, (size_t)m);
            }
            have = made;
        }
        const stretch s = {bytes_of(item->dtype, e->first + done), have,
                           (size_t)bytes_of(item->dtype, m)};
        if (k->sink != NULL) {
            SFT_TRY(k->sink->put(k->sink->ctx, u->item, s.offset, have, s.size, err));
        } else if (k->writer != NULL) {
            const uint32_t index = (uint32_t)(u->item - k->base);
            SFT_TRY(sft_writer_put(k->writer, index, s.offset, have, s.size, err));
        } else {
            SFT_TRY(compare(k, item, &s, have == r->b ? r->a : r->b, err));
        }
        done += m;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- one unit */

static const sft_source *source_of(const sft_import_item *item) {
    return sft_catalog_source_at(item->catalog, item->tensor->pieces[0].source);
}

/* May a turned item be read from memory that its source lends, and does it lend any? */
static bool is_mapped(const copying *k, const sft_import_item *item) {
    const sft_source *source = source_of(item);
    const void *data;

    return (k->c->options.flags & SFT_CONVERT_BORROW) != 0 && source != NULL &&
           sft_source_borrow(source, item->tensor->pieces[0].offset, 1, &data, NULL) == SFT_OK;
}

/* How a turned item is cut; enough panels for all workers. */
static void plan(const copying *k, const sft_import_item *item, bool mapped,
                 sft__import_panels *panels) {
    const uint64_t bytes = elements_of(item->tensor) * item->tensor->dtype->block_bytes;
    const uint64_t share = bytes / sft_pool_threads(k->c->write.pool) + 1;
    uint64_t most = share > PANEL_MIN ? share : PANEL_MIN;

    most = mapped && most > PANEL_MAPPED ? PANEL_MAPPED : most;
    most = most < k->panel ? most : k->panel;
    sft__import_panels_plan(panels, item->tensor, most,
                            k->in_order ? SFT__CUT_STRETCHES
                            : mapped    ? SFT__CUT_MAPPED
                                        : SFT__CUT_READ);
}

/* Before a band is read from a mapping: the system may fetch it, and takes back the pages of those
 * before it (what another worker still reads of them is mapped again). */
static void next_band(copying *k, const sft_import_item *item, const sft__import_panels *panels,
                      uint64_t index) {
    const sft_source *before;
    uint64_t offset;
    uint64_t size;

    if (panels->cut != SFT__CUT_MAPPED ||
        !sft__import_panel_begins_band(panels, item->tensor, index, &offset, &size)) {
        return;
    }
    sft__base_mutex_lock(&k->lock);
    before = k->mapped;
    k->mapped = source_of(item);
    sft__base_mutex_unlock(&k->lock);
    if (before != NULL) {
        sft_source_advise(before, 0, sft_source_size(before), SFT_ADVICE_UNMAP);
    }
    sft_source_advise(source_of(item), offset, size < AHEAD_MAX ? size : AHEAD_MAX,
                      SFT_ADVICE_WILL_NEED);
}

static sft_status run_panel(copying *k, const unit *u, room *r, sft_error *err) {
    const sft_import_item *item = &k->c->items[u->item];
    sft__import_turn_room here = {r->panel, r->a, k->block, false};
    const uint32_t unit_bytes = item->tensor->dtype->block_bytes;
    sft__import_panels panels;
    sft__import_panel panel;

    plan(k, item, u->mapped, &panels);
    here.mapped = panels.cut == SFT__CUT_MAPPED;
    next_band(k, item, &panels, u->first);
    sft__import_panel_at(&panels, item->tensor, u->first, &panel);
    SFT_TRY(sft__import_panel_read(item->catalog, item->tensor, &panel, &here, err));
    for (uint64_t i = 0; i < panel.runs; i++) {
        const elements run = {sft__import_panel_run_at(&panel, item->tensor, i), panel.run,
                              r->panel + i * panel.run * unit_bytes};
        SFT_TRY(deliver(k, u, &run, r, err));
    }
    return SFT_OK;
}

static sft_status run_unit(copying *k, const unit *u, room *r, sft_error *err) {
    const sft_import_item *item = &k->c->items[u->item];
    const sft_tensor *t = item->tensor;

    if (sft__import_is_turned(t)) {
        return run_panel(k, u, r, err);
    }
    for (uint64_t done = 0; done < u->count;) {
        const uint64_t first = u->first + done;
        const uint64_t most = step(k, u->item, first, k->block);
        const uint64_t n = u->count - done < most ? u->count - done : most;
        if (sft__import_is_strided(t)) {
            SFT_TRY(read_runs(item, first, n, r->a, err));
        } else {
            SFT_TRY(sft_tensor_read_bytes(item->catalog, t, bytes_of(t->dtype, first), r->a,
                                          (size_t)bytes_of(t->dtype, n), err));
        }
        const elements taken = {first, n, r->a};
        SFT_TRY(deliver(k, u, &taken, r, err));
        done += n;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all units */

static sft_status work(void *ctx, size_t index, sft_error *err) {
    copying *k = ctx;
    const unit *u = &k->units[index];
    uint8_t *buffer = sft__move_loop_take(&k->loop, err);

    if (buffer == NULL) {
        return SFT_E_NOMEM;
    }
    room r = {buffer, buffer + k->block, buffer + 2 * k->block};
    const sft_status status = run_unit(k, u, &r, err);
    sft__move_loop_give(&k->loop, buffer);
    return status == SFT_OK
               ? sft__move_loop_add(&k->loop, bytes_of(k->c->items[u->item].dtype, u->count), err)
               : status;
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

static sft_status add_unit(copying *k, unit u, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(k->c->allocator, k->units, k->unit_room, k->unit_count, err));
    k->units[k->unit_count++] = u;
    return SFT_OK;
}

static sft_status cut_turned(copying *k, size_t i, sft_error *err) {
    const sft_import_item *item = &k->c->items[i];
    const bool mapped = !k->in_order && is_mapped(k, item);
    sft__import_panels panels;
    sft__import_panel panel;

    plan(k, item, mapped, &panels);
    for (uint64_t n = 0; n < panels.all; n++) {
        sft__import_panel_at(&panels, item->tensor, n, &panel);
        SFT_TRY(add_unit(k, (unit){i, n, panel.run * panel.runs, mapped}, err));
    }
    return SFT_OK;
}

/* Of deflated members: they are inflated from their beginning to their end, however the output is
 * ordered. */
typedef struct turn_of {
    const sft_source *source; /* NULL: any order */
    uint64_t offset;
    size_t item;
} turn_of;

static int by_source(const void *a, const void *b) {
    const turn_of *x = a;
    const turn_of *y = b;

    if (x->source != y->source) {
        return (uintptr_t)x->source < (uintptr_t)y->source ? -1 : 1;
    }
    if (x->source != NULL && x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return x->item < y->item ? -1 : x->item > y->item;
}

/* The order in which the items are copied. */
static turn_of *order(const copying *k, size_t first, size_t end) {
    turn_of *turns = sft__base_alloc_array(k->c->allocator, end - first + 1, sizeof *turns);

    for (size_t i = first; i < end && turns != NULL; i++) {
        const sft_import_item *item = &k->c->items[i];
        const sft_tensor *t = item->tensor;
        const bool later = !k->in_order && is_sequential(item);
        turns[i - first] =
            (turn_of){later ? sft_catalog_source_at(item->catalog, t->pieces[0].source) : NULL,
                      later ? t->pieces[0].offset : 0, i};
    }
    if (turns != NULL && end - first > 1) {
        qsort(turns, end - first, sizeof *turns, by_source);
    }
    return turns;
}

/* Cuts an item; what comes from a sequential source stays in one unit, unless it is turned: its
 * panels are as many passes anyway. */
static sft_status cut_item(copying *k, size_t i, sft_error *err) {
    const sft_import_item *item = &k->c->items[i];
    const uint64_t all = elements_of(item->tensor);

    if (all != 0 && sft__import_is_turned(item->tensor)) {
        return cut_turned(k, i, err);
    }
    const bool whole = is_sequential(item) || k->in_order;
    for (uint64_t at = 0; at < all;) {
        const uint64_t most = whole ? all : step(k, i, at, UNIT);
        const uint64_t n = all - at < most ? all - at : most;
        SFT_TRY(add_unit(k, (unit){i, at, n, false}, err));
        at += n;
    }
    return SFT_OK;
}

static sft_status cut(copying *k, size_t first, size_t end, sft_error *err) {
    turn_of *turns = order(k, first, end);
    sft_status status = SFT_OK;

    SFT_NEED(turns != NULL, (end - first) * sizeof *turns, err);
    for (size_t i = 0; i < end - first && status == SFT_OK; i++) {
        status = cut_item(k, turns[i].item, err);
    }
    sft__base_free(k->c->allocator, turns, (end - first + 1) * sizeof *turns);
    return status;
}

/* Progress goes on where the files before left it. */
static sft_status run_all(copying *k, sft_error *err) {
    const bool verify = (k->c->options.flags & SFT_CONVERT_VERIFY) != 0;
    uint64_t all = k->c->result.data_bytes * (verify ? 2 : 1); /* of the files known so far */
    uint64_t end = k->c->done_bytes;

    for (size_t i = 0; i < k->unit_count; i++) {
        end += bytes_of(k->c->items[k->units[i].item].dtype, k->units[i].count);
    }
    all = all > end ? all : end;
    k->loop = (sft__move_loop){.pool = k->in_order ? NULL : k->c->write.pool,
                               .allocator = k->c->allocator,
                               .room = 2 * k->block + k->panel,
                               .block = work,
                               .ctx = k};
    SFT_TRY(sft__move_loop_begin(&k->loop, k->c->write.control, all, err));
    k->loop.watch.progress.bytes_done = k->c->done_bytes;
    sft_status status = sft__move_loop_run(&k->loop, k->unit_count, err);
    if (status == SFT_OK) { /* the last word is the caller's thread's */
        status = sft__move_loop_add(&k->loop, 0, err);
    }
    k->c->done_bytes = k->loop.watch.progress.bytes_done;
    (void)sft__move_loop_end(&k->loop, NULL);
    return status;
}

/* Shares the budget out. */
static void size_rooms(copying *k, size_t threads, size_t first, size_t end) {
    const size_t share = BUDGET / threads;
    bool turned = false;

    for (size_t i = first; i < end && !turned; i++) {
        turned = sft__import_is_turned(k->c->items[i].tensor);
    }
    k->block = turned ? BLOCK / 2 : BLOCK;
    k->block = share / 4 < k->block ? share / 4 : k->block;
    k->block = k->block < BLOCK_MIN ? BLOCK_MIN : k->block / 4096 * 4096;
    if (turned) {
        k->panel = share > 2 * k->block + BLOCK_MIN ? share - 2 * k->block : BLOCK_MIN;
        k->panel = k->panel > PANEL_MAX ? PANEL_MAX : k->panel / 4096 * 4096;
    }
}

static sft_status run(copying *k, size_t first, size_t end, sft_error *err) {
    size_t threads = sft_pool_threads(k->c->write.pool);

    k->in_order = k->writer != NULL && (k->c->write.digests & SFT_DIGEST_SHA256) != 0;
    threads = k->in_order ? 1 : threads;
    size_rooms(k, threads, first, end);
    if (!sft__base_mutex_init(&k->lock)) {
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    sft_status status = cut(k, first, end, err);
    SFT_THEN(status, run_all(k, err));
    sft__base_mutex_reset(&k->lock);
    sft__base_free(k->c->allocator, k->units, k->unit_room * sizeof *k->units);
    return status;
}

sft_status sft__import_convert_copy(sft__import_conversion *c, sft_writer *writer, size_t first,
                                    size_t end, sft_error *err) {
    copying k = {.c = c, .writer = writer, .base = first};
    return run(&k, first, end, err);
}

sft_status sft__import_convert_sink(sft__import_conversion *c, const sft__import_sink *sink,
                                    sft_error *err) {
    copying k = {.c = c, .sink = sink};
    return run(&k, 0, c->item_count, err);
}

sft_status sft__import_convert_compare(sft__import_conversion *c, sft_catalog *with,
                                       sft_error *err) {
    copying k = {.c = c, .with = with};
    const sft_status status = run(&k, 0, c->item_count, err);
    c->result.verified += status == SFT_OK ? c->item_count : 0;
    return status;
}

/* The other names of the file's tensors find what they show. */
static sft_status others_are_there(const sft__import_conversion *c, const sft_catalog *with,
                                   size_t first, size_t end, sft_error *err) {
    for (size_t i = 0; i < c->other_count && (c->options.flags & SFT_CONVERT_NO_METADATA) == 0;
         i++) {
        const sft__import_other *o = &c->others[i];
        size_t at;
        const sft_import_item *item = sft__import_convert_item_of(c, o->catalog, o->of, &at);
        const sft_tensor *t = sft_catalog_find(with, o->name, o->name_len);
        if (item == NULL || at < first || at >= end) {
            continue;
        }
        if (t == NULL || t->dtype->id != (o->part ? o->shows : t)->dtype->id ||
            t->nbytes != (o->part ? o->shows->nbytes : item->nbytes) || t->rank != o->shows->rank) {
            return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, o->name, o->name_len,
                                         "verify: the output does not find it as another name");
        }
    }
    return SFT_OK;
}

sft_status sft__import_convert_verify(sft__import_conversion *c, const char *path, size_t first,
                                      size_t end, sft_error *err) {
    copying k = {.c = c, .base = first};

    SFT_TRY(sft_catalog_open(&k.with, path, NULL, err));
    sft_status status = run(&k, first, end, err);
    status = status == SFT_OK ? others_are_there(c, k.with, first, end, err) : status;
    sft_catalog_close(k.with);
    c->result.verified += status == SFT_OK ? end - first : 0;
    return status;
}
