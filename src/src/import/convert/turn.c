/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/turn.c - see turn.h. What bounds it: a call to read or write costs as much as copying some
 * thousand bytes, and the product of the lengths of the runs on both sides is the panel's size. So
 * panels are as large as memory allows, and read in strips that stay in the cache until they are
 * turned. Read first: turn.h.
 */
#include "import/convert/turn.h"
#include "base/error.h"
#include "import/convert/tile.h"
#include <sft/read.h>

/* Bytes of a run that is written, if possible: two threads wait for each other when they write one
 * file, but not when they read. Less for small elements, which leave shorter runs to read. */
enum {
    WRITTEN = 48 << 10,
    WRITTEN_2 = 32 << 10, /* of elements of two bytes */
    WRITTEN_1 = 24 << 10,
    STRIP = 256 << 10, /* of the nearest cache but one */
    READ_MAPPED = 128, /* a run that is read from a mapping, at least */
    PAGE = 4096,
    LINE = 64
};

bool sft__import_is_strided(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces[0].strides != NULL && t->dtype->block_elements == 1;
}

bool sft__import_is_turned(const sft_tensor *t) {
    int64_t outer = INT64_MAX;

    if (!sft__import_is_strided(t)) {
        return false;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        const int64_t stride = t->pieces[0].strides[d];
        if (t->shape[d] > 1) {
            if (stride <= 0 || stride > outer) {
                return true;
            }
            outer = stride;
        }
    }
    return false;
}

/* Dimensions in the order of the source's strides, the longest first; those that repeat (stride 0)
 * are read once. */
static void source_order(const sft_tensor *t, uint32_t order[SFT__TURN_DIMS]) {
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

/* ---------------------------------------------------------------- panels */

static uint64_t volume(const uint64_t *count, uint32_t rank) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < rank; d++) {
        n *= count[d]; /* of a box of the tensor, whose own product fits */
    }
    return n;
}

/* Lets dimension d of the panel grow until the panel has up to `most` elements; all panels along it
 * become equally long, up to a page. false: it is still a part of the dimension. */
static bool grow(sft__import_panels *p, const sft_tensor *t, uint32_t d, uint64_t most) {
    const uint64_t page = PAGE / t->dtype->block_bytes;
    const uint64_t room = most / (volume(p->count, t->rank) / p->count[d]);
    uint64_t n = t->shape[d] < room ? t->shape[d] : room;

    if (n < t->shape[d] && n > 0) {
        const uint64_t parts = (t->shape[d] - 1) / n + 1;
        n = (t->shape[d] - 1) / parts + 1;
        n = n > 2 * page && n + page <= room ? (n + page - 1) / page * page : n;
    }
    p->count[d] = n > p->count[d] ? n : p->count[d];
    return p->count[d] == t->shape[d];
}

/* Elements of a run that is written, if possible. */
static uint64_t run_written(uint64_t most, uint32_t unit, sft__import_cut cut) {
    const uint64_t bytes = unit == 1 ? WRITTEN_1 : unit == 2 ? WRITTEN_2 : WRITTEN;
    const uint64_t n = cut == SFT__CUT_READ     ? bytes / unit
                       : cut == SFT__CUT_MAPPED ? most / (READ_MAPPED / unit)
                                                : most;
    return n > 0 && n < most ? n : most;
}

void sft__import_panels_plan(sft__import_panels *p, const sft_tensor *t, uint64_t capacity,
                             sft__import_cut cut) {
    const uint64_t most = capacity / t->dtype->block_bytes;
    const uint64_t written = run_written(most, t->dtype->block_bytes, cut);
    const bool stretches = cut == SFT__CUT_STRETCHES;
    uint32_t order[SFT__TURN_DIMS];
    uint32_t d = t->rank;

    p->cut = cut;
    for (uint32_t k = 0; k < t->rank; k++) {
        p->count[k] = 1;
    }
    while (d > 0 && grow(p, t, d - 1, written)) {
        d--;
    }
    source_order(t, order);
    for (uint32_t k = t->rank; k-- > 0 && !stretches;) {
        if (t->pieces[0].strides[order[k]] != 0) {
            (void)grow(p, t, order[k], most);
        }
    }
    for (uint32_t k = t->rank; k-- > 0 && !stretches;) {
        (void)grow(p, t, k, most);
    }
    p->all = 1;
    for (uint32_t k = 0; k < t->rank; k++) {
        p->across[k] = t->shape[k] == 0 ? 0 : (t->shape[k] - 1) / p->count[k] + 1;
        p->all *= p->across[k]; /* at most as many as elements */
        p->order[k] = cut == SFT__CUT_MAPPED ? order[k] : k;
    }
}

bool sft__import_panel_begins_band(const sft__import_panels *p, const sft_tensor *t, uint64_t index,
                                   uint64_t *offset, uint64_t *size) {
    const uint32_t slow = t->rank == 0 ? 0 : p->order[0];
    const uint64_t of_band = t->rank == 0 ? 1 : p->all / p->across[slow];
    uint64_t at = t->pieces[0].offset;
    uint64_t last = at; /* the last element; inside the source, as the catalog's maker checked */

    if (index % of_band != 0) {
        return false;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        const int64_t stride = t->pieces[0].strides[d];
        const uint64_t first = d == slow ? index / of_band * p->count[d] : 0;
        const uint64_t n =
            d == slow && t->shape[d] - first > p->count[d] ? p->count[d] : t->shape[d] - first;
        at += (uint64_t)(stride * (int64_t)(stride < 0 ? first + n - 1 : first));
        last += (uint64_t)(stride * (int64_t)(stride < 0 ? first : first + n - 1));
    }
    *offset = at;
    *size = last - at + t->dtype->block_bytes;
    return true;
}

void sft__import_panel_at(const sft__import_panels *p, const sft_tensor *t, uint64_t index,
                          sft__import_panel *panel) {
    uint32_t d = t->rank;

    for (uint32_t at = t->rank; at-- > 0;) {
        const uint32_t k = p->order[at];
        panel->start[k] = index % p->across[k] * p->count[k];
        index /= p->across[k];
        const uint64_t left = t->shape[k] - panel->start[k];
        panel->count[k] = left < p->count[k] ? left : p->count[k];
    }
    panel->run = 1;
    while (d > 0 && panel->count[d - 1] == t->shape[d - 1]) {
        panel->run *= panel->count[--d];
    }
    panel->run *= d > 0 ? panel->count[d - 1] : 1;
    panel->runs = d > 0 ? volume(panel->count, d - 1) : 1;
}

uint64_t sft__import_panel_run_at(const sft__import_panel *panel, const sft_tensor *t, uint64_t i) {
    uint64_t outer = panel->runs;
    uint64_t at = 0;

    for (uint32_t d = 0; d < t->rank; d++) {
        uint64_t index = 0;
        if (outer > 1) { /* inside a run all indices are the first ones */
            outer /= panel->count[d];
            index = i / outer;
            i %= outer;
        }
        at = at * t->shape[d] + panel->start[d] + index;
    }
    return at;
}

/* ---------------------------------------------------------------- turning in memory */

/* A box in two layouts: as it was read (src strides, in elements) and in the panel. */
typedef struct box {
    uint32_t rank;
    uint64_t count[SFT__TURN_DIMS];
    uint64_t src[SFT__TURN_DIMS];
    uint64_t dst[SFT__TURN_DIMS];
} box;

/* Two dimensions: x, in whose direction the result lies in order, and y, in which the source does.
 */
static void turn_plane(uint8_t *dst, const uint8_t *src, const box *b, uint32_t y, uint32_t x,
                       uint32_t unit_bytes) {
    const sft__import_plane plane = {.count = {b->count[y], b->count[x]},
                                     .src_stride = {b->src[y], b->src[x]},
                                     .dst_stride = {b->dst[y], b->dst[x]},
                                     .unit = unit_bytes};
    sft__import_plane_turn(dst, src, &plane);
}

/* All planes of the box, one after the other. */
static void turn(uint8_t *dst, const uint8_t *src, const box *b, uint32_t unit_bytes) {
    uint64_t at[SFT__TURN_DIMS] = {0};
    box padded = *b;

    while (padded.rank < 2) { /* dimensions of one element change nothing */
        padded.count[padded.rank] = 1;
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

/* ---------------------------------------------------------------- strips */

/* Extents of the strips of a panel: runs of the source first; whatever repeats is whole. */
static void strip_extents(const sft_tensor *t, const sft__import_panel *panel,
                          const uint32_t *order, size_t strip_bytes, uint64_t *count) {
    const uint64_t bytes = strip_bytes / 2 < STRIP ? strip_bytes / 2 : STRIP;
    const uint64_t tiles = 2 * LINE / t->dtype->block_bytes; /* whole lines of the result */
    uint64_t room = bytes / t->dtype->block_bytes;

    for (uint32_t k = t->rank; k-- > 0;) {
        const uint32_t d = order[k];
        uint64_t n = panel->count[d] < room ? panel->count[d] : room;
        if (t->pieces[0].strides[d] == 0) {
            count[d] = panel->count[d];
            continue;
        }
        n -= n < panel->count[d] && n > tiles ? n % tiles : 0;
        count[d] = n > 0 ? n : 1;
        room = n < panel->count[d] ? 1 : room / count[d];
    }
}

/* Reads the box that begins at index `start` into the strip, in the order of the source, and turns
 * it into room->out. b: count and dst are set. */
static sft_status strip_read(const sft_catalog *catalog, const sft_tensor *t, const uint64_t *start,
                             box *b, const sft__import_turn_room *room, sft_error *err) {
    const int64_t *strides = t->pieces[0].strides;
    const uint32_t unit = t->dtype->block_bytes;
    int64_t dst_strides[SFT__TURN_DIMS];
    uint32_t order[SFT__TURN_DIMS];
    sft_slice slices[SFT__TURN_DIMS];
    sft_read_options o;
    uint64_t elements = 1;
    bool padded = false;

    source_order(t, order);
    for (uint32_t k = t->rank; k-- > 0;) {
        const uint32_t d = order[k];
        const uint64_t n = strides[d] == 0 ? 1 : b->count[d];
        b->src[d] = strides[d] == 0 ? 0 : elements;
        dst_strides[d] = (int64_t)(elements * unit);
        elements *= n;
        slices[d] = (sft_slice){.kind = SFT_SLICE_RANGE,
                                .start = (int64_t)start[d],
                                .stop = (int64_t)(start[d] + n),
                                .step = 1};
        /* runs whose distance is a power of two would share a few lines of the cache */
        if (!padded && n > 1 && n < t->shape[d] && elements * unit % (8 * LINE) == 0) {
            elements += LINE / unit;
            padded = true;
        }
    }
    SFT_INIT(&o);
    o.slices = slices;
    o.slice_count = t->rank;
    o.dst_strides = dst_strides;
    o.flags = room->mapped ? SFT_READ_BORROW : 0;
    SFT_TRY(sft_tensor_read(catalog, t, &o, room->strip, room->strip_bytes, err));
    turn(room->out, room->strip, b, unit);
    return SFT_OK;
}

sft_status sft__import_panel_read(const sft_catalog *catalog, const sft_tensor *t,
                                  const sft__import_panel *panel, const sft__import_turn_room *room,
                                  sft_error *err) {
    uint64_t extent[SFT__TURN_DIMS];
    uint64_t at[SFT__TURN_DIMS] = {0}; /* in the panel */
    uint64_t start[SFT__TURN_DIMS];
    uint32_t order[SFT__TURN_DIMS];
    uint64_t elements = 1;
    sft__import_turn_room here = *room;
    box b = {.rank = t->rank};

    for (uint32_t d = t->rank; d-- > 0;) {
        b.dst[d] = elements;
        elements *= panel->count[d];
    }
    source_order(t, order);
    strip_extents(t, panel, order, room->strip_bytes, extent);
    for (bool more = true; more;) {
        uint64_t to = 0;
        for (uint32_t d = 0; d < t->rank; d++) {
            const uint64_t left = panel->count[d] - at[d];
            b.count[d] = left < extent[d] ? left : extent[d];
            start[d] = panel->start[d] + at[d];
            to += b.dst[d] * at[d];
        }
        here.out = room->out + to * t->dtype->block_bytes;
        SFT_TRY(strip_read(catalog, t, start, &b, &here, err));
        more = false;
        for (uint32_t k = t->rank; k-- > 0 && !more;) {
            const uint32_t d = order[k];
            at[d] += extent[d];
            more = at[d] < panel->count[d];
            at[d] = more ? at[d] : 0;
        }
    }
    return SFT_OK;
}
