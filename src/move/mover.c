/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/mover.c - one grid from a source into memory.
 *
 * A source that lends memory which cannot vanish is copied from where it lies. Everything else is
 * read, a mapped file too: so a file that shrinks is an error and never a signal. Runs that are
 * packed on both sides go straight to their place. Runs with small gaps between them are read
 * together, gaps and all, into a bounce buffer that fits the processor's cache, and taken from
 * there by the strided kernel. Reading over a gap pays while it costs less than another call:
 * MOVER_GAP bytes for a local file, whose call was measured at about a quarter of a microsecond and
 * whose bytes at about 12 per nanosecond; more where a call may cost a seek or a round trip. Past
 * the page cache every read pays the device's latency, and all bytes go through large buffers of
 * whole pages.
 */
#include "move/mover.h"
#include "base/memory/need.h"
#include "base/sizes.h"
#include "move/kernels/convert.h"
#include <sft/extend.h>

enum {
    MOVER_BOUNCE_DIRECT = 4 << 20,
    MOVER_GAP_DIRECT = 256 << 10,
    MOVER_BOUNCE = 256 << 10,
    MOVER_BOUNCE_REMOTE = 8 << 20,
    MOVER_GAP = 3 << 10,
    MOVER_GAP_UNKNOWN = 64 << 10,
    MOVER_GAP_REMOTE = 1 << 20,
    MOVER_STEP = 16 << 20, /* bytes between two looks at the watch */
    MOVER_CHUNK = 1024,    /* elements that a kernel gets from strided memory at a time */
    MOVER_LONG = 512,      /* bytes of a run from which a kernel is given the run itself */
    MOVER_BATCH = 64,      /* ranges that a remote source is asked for at once, at least */
    MOVER_BATCH_MOST = 8192,
    MOVER_GAP_SCATTERED = 512, /* what one more range costs a source that likes them scattered */
    MOVER_BATCH_RANGE = 8 << 20,
    MOVER_BATCH_BYTES = 128 << 20,
    MOVER_AHEAD = 4 << 20, /* bytes that the system is told to fetch when runs are read singly */
    MOVER_AHEAD_GAP = 64 << 10,
    MOVER_AHEAD_MIN = 1 << 20
};

/* ---------------------------------------------------------------- kernels */

sft_status sft__move_kernel_apply(const sft__move_mover *m, void *dst, const void *src,
                                  uint64_t src_bytes, sft_error *err) {
    if (m->kernel == SFT__KERNEL_CONVERT) {
        return sft_convert(dst, src,
                           src_bytes / m->src_dtype->block_bytes * m->src_dtype->block_elements,
                           &(sft_cast){m->dst_dtype, m->src_dtype, m->convert_flags}, err);
    }
    if (m->kernel == SFT__KERNEL_SWAP && m->src_dtype->alignment > 1 &&
        m->src_dtype->alignment <= 16) {
        sft__move_swap(dst, src, (size_t)src_bytes, m->src_dtype->alignment);
    } else if (dst != src) {
        memcpy(dst, src, (size_t)src_bytes);
    }
    return SFT_OK;
}

/* A packed run through a kernel, with looks at the watch. */
static sft_status mover_long_run(const sft__move_mover *m, uint8_t *dst, const uint8_t *src,
                                 uint64_t src_size, uint64_t dst_size, sft_error *err) {
    /* a multiple of every block of the format's types, so that both sides advance by whole blocks
     */
    const uint64_t elements = (uint64_t)1 << 20;
    const uint64_t src_step = elements / m->src_dtype->block_elements * m->src_dtype->block_bytes;
    const uint64_t dst_step = elements / m->dst_dtype->block_elements * m->dst_dtype->block_bytes;

    if (m->kernel == SFT__KERNEL_SWAP) {
        SFT_TRY(sft__move_kernel_apply(m, dst, src, src_size, err));
        return sft__move_watch_add(m->watch, dst_size, err);
    }
    for (uint64_t at = 0; at < src_size; at += src_step, dst += dst_step) {
        const uint64_t left = src_size - at;
        SFT_TRY(sft__move_kernel_apply(m, dst, src + at, left < src_step ? left : src_step, err));
        SFT_TRY(sft__move_watch_add(m->watch, left < src_step ? dst_size : dst_step, err));
        dst_size -= left < src_step ? 0 : dst_step;
    }
    return SFT_OK;
}

/* A part of at most MOVER_CHUNK elements with short runs: gathered, converted, scattered; the steps
 * that have nothing to do are left out. */
static sft_status mover_chunk(const sft__move_mover *m, sft__move_grid *part, uint8_t *dst,
                              const uint8_t *src, sft_error *err) {
    uint8_t gathered[MOVER_CHUNK * 8];
    uint8_t made[MOVER_CHUNK * 8];
    const uint64_t blocks = sft__move_grid_blocks(part);
    const bool scatter = !sft__move_grid_dst_packed(part);
    sft__move_grid g = *part;
    uint8_t *out = scatter ? made : dst + (ptrdiff_t)part->dst;
    const uint8_t *in = src + (ptrdiff_t)part->src;

    if (!sft__move_grid_src_packed(part)) {
        int64_t stride = (int64_t)part->src_block;
        for (uint32_t d = g.rank; d-- > 0; stride *= (int64_t)g.count[d]) {
            g.dst_stride[d] = stride;
        }
        g.dst = 0;
        g.dst_block = part->src_block;
        sft__move_grid_copy(&g, gathered, src);
        in = gathered;
    }
    SFT_TRY(sft__move_kernel_apply(m, out, in, blocks * part->src_block, err));
    if (scatter) {
        int64_t stride = (int64_t)part->dst_block;
        g = *part;
        for (uint32_t d = g.rank; d-- > 0; stride *= (int64_t)g.count[d]) {
            g.src_stride[d] = stride;
        }
        g.src = 0;
        g.src_block = part->dst_block;
        sft__move_grid_copy(&g, dst, made);
    }
    return SFT_OK;
}

/* From memory: src is the place of source offset 0. */
static sft_status mover_memory(const sft__move_mover *m, sft__move_grid *g, uint8_t *dst,
                               const uint8_t *src, sft_error *err) {
    const bool copy = m->kernel == SFT__KERNEL_COPY;
    const bool lone = copy || g->src_block >= MOVER_LONG || m->src_dtype->block_bytes > 8;
    sft__move_parts parts;
    sft__move_grid part;
    uint64_t most;

    sft__move_grid_sort_dst(g);
    if (copy) {
        most = MOVER_STEP / g->dst_block;
    } else {
        most = lone ? 1
                    : MOVER_CHUNK /
                          (g->src_block / m->src_dtype->block_bytes * m->src_dtype->block_elements);
    }
    for (sft__move_parts_begin(&parts, g, most > 0 ? most : 1);
         sft__move_parts_next(&parts, g, &part);) {
        if (copy) {
            sft__move_grid_copy(&part, dst, src);
            SFT_TRY(
                sft__move_watch_add(m->watch, sft__move_grid_blocks(&part) * part.dst_block, err));
        } else if (lone) {
            SFT_TRY(mover_long_run(m, dst + (ptrdiff_t)part.dst, src + (ptrdiff_t)part.src,
                                   part.src_block, part.dst_block, err));
        } else {
            SFT_TRY(mover_chunk(m, &part, dst, src, err));
            SFT_TRY(
                sft__move_watch_add(m->watch, sft__move_grid_blocks(&part) * part.dst_block, err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- reading */

static sft_status mover_too_large(uint64_t size, sft_error *err) {
    return sft__base_fail(err, SFT_E_OVERFLOW, "%llu bytes are more than this process can address",
                          (unsigned long long)size);
}

/* A run that is packed on both sides: straight to its place. */
static sft_status mover_direct(const sft__move_mover *m, uint64_t offset, uint8_t *dst,
                               uint64_t size, sft_error *err) {
    const uint64_t step = m->watch->control == NULL && !m->watch->shared ? size : MOVER_STEP;

    if (size > SIZE_MAX) {
        return mover_too_large(size, err);
    }
    for (uint64_t at = 0; at < size;) {
        const uint64_t n = size - at < step ? size - at : step;
        SFT_TRY(sft_source_read(m->source, offset + at, dst + (size_t)at, (size_t)n, err));
        SFT_TRY(sft__move_watch_add(m->watch, n, err));
        at += n;
    }
    return SFT_OK;
}

/* Direct reads that a remote source gets together, so that it can have several under way. */
typedef struct mover_batch {
    sft_io_range *ranges;
    size_t room;
    size_t count;
    uint64_t bytes;
} mover_batch;

/* How a grid is read: parts (see grid.h), each with one call. */
typedef struct mover_way {
    uint64_t bounce; /* size of the buffer */
    uint64_t gap;    /* gaps up to this are read over */
    uint64_t group;
    uint64_t ahead; /* distance of parts if the system should be told to fetch them, else 0 */
    uint64_t span;  /* bytes of one part, gaps included */
    uint32_t dim;
    uint8_t *buffer;
    mover_batch batch;
} mover_way;

static sft_status mover_batch_flush(const sft__move_mover *m, mover_batch *b, sft_error *err) {
    const uint64_t bytes = b->bytes;

    if (b->count == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read_many(m->source, &(sft_io_batch){b->ranges, b->count, NULL, NULL, NULL},
                                 err));
    b->count = 0;
    b->bytes = 0;
    return sft__move_watch_add(m->watch, bytes, err);
}

static sft_status mover_batch_add(const sft__move_mover *m, mover_batch *b, uint64_t offset,
                                  uint8_t *dst, uint64_t size, sft_error *err) {
    if (size > SIZE_MAX) {
        return mover_too_large(size, err);
    }
    for (uint64_t at = 0; at < size;) {
        const uint64_t n = size - at < MOVER_BATCH_RANGE ? size - at : MOVER_BATCH_RANGE;
        b->ranges[b->count++] = (sft_io_range){offset + at, dst + (size_t)at, (size_t)n};
        b->bytes += n;
        at += n;
        if (b->count == b->room || b->bytes >= MOVER_BATCH_BYTES) {
            SFT_TRY(mover_batch_flush(m, b, err));
        }
    }
    return SFT_OK;
}

static bool mover_past_cache(const sft__move_mover *m) {
    return m->way != NULL && m->way->direct >= 0;
}

/* Reads into the bounce buffer; *at: where the bytes lie in it. */
static sft_status mover_fetch(const sft__move_mover *m, uint64_t offset, uint8_t *bounce,
                              uint64_t size, uint8_t **at, sft_error *err) {
    *at = bounce;
    if (mover_past_cache(m)) {
        *at += offset % SFT__FS_DIRECT_ALIGN;
        return sft__io_reader_read(m->way, offset, size, *at, err);
    }
    return sft_source_read(m->source, offset, bounce, (size_t)size, err);
}

/* A packed run longer than the bounce buffer, through a kernel. */
static sft_status mover_through(const sft__move_mover *m, const mover_way *way,
                                const sft__move_grid *g, uint8_t *dst, sft_error *err) {
    const uint64_t src_block = m->src_dtype->block_bytes;
    /* elements per step: a multiple of 4,096, which is one of every block of the format's types */
    const uint64_t elements = way->bounce / src_block * m->src_dtype->block_elements / 4096 * 4096;
    uint64_t src_step = elements / m->src_dtype->block_elements * src_block;
    uint64_t dst_step =
        elements / m->dst_dtype->block_elements * (uint64_t)m->dst_dtype->block_bytes;

    if (m->kernel == SFT__KERNEL_SWAP) { /* of any type: whole numbers, of at most 8 bytes */
        src_step = dst_step = way->bounce / 16 * 16;
    }
    dst += (ptrdiff_t)g->dst;
    for (uint64_t at = 0; at < g->src_block; at += src_step, dst += dst_step) {
        const uint64_t n = g->src_block - at < src_step ? g->src_block - at : src_step;
        uint8_t *data;
        SFT_TRY(mover_fetch(m, g->src + at, way->buffer, n, &data, err));
        SFT_TRY(sft__move_kernel_apply(m, dst, data, n, err));
        SFT_TRY(sft__move_watch_add(m->watch, n, err));
    }
    return SFT_OK;
}

/* Walks from the inside out: a dimension joins a part while its gaps are small and the part fits.
 */
static void mover_way_find(const sft__move_mover *m, const sft__move_grid *g, mover_way *way) {
    const bool local = way->gap == MOVER_GAP;
    uint64_t span = g->src_block;
    uint32_t d = g->rank;

    way->group = 1;
    way->ahead = 0;
    while (d > 0 && span <= way->bounce) {
        const uint64_t stride = (uint64_t)g->src_stride[d - 1];
        const uint64_t gap = stride > span ? stride - span : 0;
        const bool could_be_direct = d == g->rank && m->kernel == SFT__KERNEL_COPY;
        if (gap > way->gap || (could_be_direct && local && gap * 2 + span > 2 * way->gap)) {
            way->ahead = gap <= MOVER_AHEAD_GAP && local ? stride : 0;
            break;
        }
        const uint64_t room = stride == 0 ? g->count[d - 1] : (way->bounce - span) / stride + 1;
        d--;
        way->group = room < g->count[d] ? room : g->count[d];
        span += (way->group - 1) * stride;
        if (way->group < g->count[d]) {
            break;
        }
    }
    way->dim = d;
    way->span = span;
    if (d == g->rank && d > 0) {
        way->group = 1;
    }
}

static bool mover_remote(const sft__move_mover *m) {
    return (sft_source_flags(m->source) & SFT_SOURCE_REMOTE) != 0;
}

/* Blocks far enough apart for a source that wants to know what is wanted, and no more. */
static bool mover_scattered(const sft__move_mover *m, const sft__move_grid *g) {
    return mover_remote(m) && (sft_source_flags(m->source) & SFT_SOURCE_SCATTERED) != 0 &&
           m->kernel == SFT__KERNEL_COPY && g->rank > 0 &&
           (uint64_t)g->src_stride[g->rank - 1] > g->src_block &&
           (uint64_t)g->src_stride[g->rank - 1] - g->src_block > MOVER_GAP_SCATTERED;
}

static void mover_way_init(const sft__move_mover *m, const sft__move_grid *g, mover_way *way) {
    const uint32_t flags = sft_source_flags(m->source);

    way->bounce = MOVER_BOUNCE;
    way->gap = sft_source_descriptor(m->source) >= 0 ? MOVER_GAP : MOVER_GAP_UNKNOWN;
    if ((flags & (SFT_SOURCE_REMOTE | SFT_SOURCE_SEQUENTIAL)) != 0) {
        way->bounce = MOVER_BOUNCE_REMOTE;
        way->gap = MOVER_GAP_REMOTE;
    }
    if (mover_past_cache(m)) {
        way->bounce = MOVER_BOUNCE_DIRECT;
        way->gap = MOVER_GAP_DIRECT;
    } else if (mover_scattered(m, g)) {
        way->gap = 0;
    }
    mover_way_find(m, g, way);
    if (sft__move_grid_src_span(g) < MOVER_AHEAD_MIN) {
        way->ahead = 0; /* the call would cost more than it saves */
    }
}

static sft_status mover_read_part(const sft__move_mover *m, const mover_way *way,
                                  sft__move_grid *part, uint8_t *dst, sft_error *err) {
    if (part->rank == 0 && m->kernel == SFT__KERNEL_COPY && !mover_past_cache(m)) {
        return mover_direct(m, part->src, dst + (ptrdiff_t)part->dst, part->src_block, err);
    }
    if (part->rank == 0 && part->src_block > way->bounce) {
        return mover_through(m, way, part, dst, err);
    }
    uint8_t *data;
    SFT_TRY(mover_fetch(m, part->src, way->buffer, sft__move_grid_src_span(part), &data, err));
    part->src = 0;
    return mover_memory(m, part, dst, data, err);
}

static sft_status mover_read_parts(const sft__move_mover *m, mover_way *way,
                                   const sft__move_grid *g, uint8_t *dst, sft_error *err) {
    mover_batch *batch = &way->batch;
    uint64_t told = 0;
    sft__move_parts parts;
    sft__move_grid part;

    for (sft__move_parts_begin_at(&parts, g, way->dim, way->group);
         sft__move_parts_next(&parts, g, &part);) {
        if (way->ahead != 0 && part.src >= told) {
            sft_source_advise(m->source, part.src, MOVER_AHEAD, SFT_ADVICE_WILL_NEED);
            told = part.src + MOVER_AHEAD / 2;
        }
        if (batch->room > 0 && part.rank == 0) {
            SFT_TRY(mover_batch_add(m, batch, part.src, dst + (ptrdiff_t)part.dst, part.src_block,
                                    err));
        } else {
            SFT_TRY(mover_read_part(m, way, &part, dst, err));
        }
    }
    return mover_batch_flush(m, batch, err);
}

static sft_status mover_read(const sft__move_mover *m, mover_way *way, const sft__move_grid *g,
                             uint8_t *dst, sft_error *err) {
    const uint64_t blocks = sft__move_grid_blocks(g);
    mover_batch *batch = &way->batch;

    memset(batch, 0, sizeof *batch);
    if (mover_remote(m) && m->kernel == SFT__KERNEL_COPY) {
        batch->room = blocks > MOVER_BATCH_MOST ? MOVER_BATCH_MOST
                      : blocks < MOVER_BATCH    ? MOVER_BATCH
                                                : (size_t)blocks;
        batch->ranges = sft__base_alloc(m->allocator, batch->room * sizeof *batch->ranges);
        SFT_NEED(batch->ranges != NULL, batch->room * sizeof *batch->ranges, err);
    }
    const sft_status status = mover_read_parts(m, way, g, dst, err);
    sft__base_free(m->allocator, batch->ranges, batch->room * sizeof *batch->ranges);
    return status;
}

void sft__move_grid_for_reading(sft__move_grid *g) {
    sft__move_grid_src_ascending(g);
    sft__move_grid_sort_src(g);
    sft__move_grid_coalesce(g);
}

/* Memory of the source that holds the grid and cannot vanish (or that the caller trusts), or NULL.
 */
static const uint8_t *mover_lent(const sft__move_mover *m, const sft__move_grid *g) {
    const uint64_t span = sft__move_grid_src_span(g);
    const void *data = NULL;

    const bool lasting = (sft_source_flags(m->source) & SFT_SOURCE_MEMORY) != 0;
    if ((!lasting && !m->borrow) || span > SIZE_MAX ||
        sft_source_borrow(m->source, g->src, (size_t)span, &data, NULL) != SFT_OK) {
        return NULL;
    }
    return data;
}

sft_status sft__move_mover_run(const sft__move_mover *given, sft__move_grid *g, uint8_t *dst,
                               sft_error *err) {
    sft__move_mover past = *given;
    const sft__move_mover *m = &past;
    mover_way way;
    const uint8_t *lent;
    uint8_t *bounce = NULL;
    size_t size = 0;
    sft_status status;

    sft__move_grid_for_reading(g);
    if (sft__move_grid_src_span(g) < sft__base_size.load_span) {
        past.way = NULL; /* too little to pay the device's latency */
    }
    const bool direct = mover_past_cache(m);
    lent = mover_lent(m, g);
    if (lent != NULL) {
        g->src = 0;
        return mover_memory(m, g, dst, lent, err);
    }
    if (g->rank == 0 && m->kernel == SFT__KERNEL_COPY && !mover_remote(m) && !direct) {
        return mover_direct(m, g->src, dst + (ptrdiff_t)g->dst, g->src_block, err);
    }
    mover_way_init(m, g, &way);
    if (way.dim < g->rank || m->kernel != SFT__KERNEL_COPY || direct) {
        size = (size_t)(way.span < way.bounce ? way.span : way.bounce);
        size += direct ? 4 * SFT__FS_DIRECT_ALIGN : 0;
        bounce = sft__base_alloc(m->allocator, size);
        SFT_NEED(bounce != NULL, size, err);
    }
    const size_t skew =
        direct ? SFT__FS_DIRECT_ALIGN - (uintptr_t)bounce % SFT__FS_DIRECT_ALIGN : (size_t)0;
    way.buffer = bounce != NULL ? bounce + skew : NULL;
    status = mover_read(m, &way, g, dst, err);
    sft__base_free(m->allocator, bounce, size);
    return status;
}

/* ---------------------------------------------------------------- cutting for a pool */

enum { CUT_ELEMENTS = 1 << 16 }; /* blocks are cut at multiples of it: whole blocks of every type */

static uint64_t cut_granules(const sft__move_grid *g, const sft__move_mover *m) {
    const uint64_t elements =
        g->src_block / m->src_dtype->block_bytes * m->src_dtype->block_elements;
    if (CUT_ELEMENTS % m->src_dtype->block_elements != 0 ||
        CUT_ELEMENTS % m->dst_dtype->block_elements != 0) {
        return 1;
    }
    return elements / CUT_ELEMENTS + (elements % CUT_ELEMENTS != 0 ? 1 : 0);
}

sft__move_cut sft__move_grid_cut_choose(const sft__move_grid *g, const sft__move_mover *m,
                                        uint64_t want) {
    sft__move_cut best = {cut_granules(g, m), g->rank};

    for (uint32_t d = g->rank; d-- > 0 && want > 1;) {
        if (g->count[d] >= want || g->count[d] > best.jobs) {
            best.jobs = g->count[d]; /* the outermost that suffices comes last and stays */
            best.dim = d;
        }
    }
    best.jobs = best.jobs < want ? best.jobs : want;
    return best;
}

/* Bounds of part `index` of n things in `jobs` parts; n * jobs fits: jobs is small and n below
 * 2^48. */
static uint64_t cut_bound(uint64_t n, uint64_t jobs, uint64_t index) {
    return n / jobs * index + (n % jobs < index ? n % jobs : index);
}

void sft__move_grid_cut_apply(sft__move_grid *g, const sft__move_mover *m, sft__move_cut cut,
                              uint64_t index) {
    const bool inner = cut.dim == g->rank;
    const uint64_t n = inner ? cut_granules(g, m) : g->count[cut.dim];
    const uint64_t first = cut_bound(n, cut.jobs, index);
    const uint64_t end = cut_bound(n, cut.jobs, index + 1);

    if (!inner) {
        sft__move_grid_cut(g, cut.dim, first, end - first);
    } else if (cut.jobs > 1) {
        const uint64_t src =
            (uint64_t)CUT_ELEMENTS / m->src_dtype->block_elements * m->src_dtype->block_bytes;
        const uint64_t dst =
            (uint64_t)CUT_ELEMENTS / m->dst_dtype->block_elements * m->dst_dtype->block_bytes;
        g->src += first * src;
        g->dst += first * dst;
        g->src_block = index + 1 == cut.jobs ? g->src_block - first * src : (end - first) * src;
        g->dst_block = index + 1 == cut.jobs ? g->dst_block - first * dst : (end - first) * dst;
    }
}
