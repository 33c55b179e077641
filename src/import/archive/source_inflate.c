/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/source_inflate.c - deflated members of archives as sequential sources, and CRC-32. All
 * members of a catalog share a few inflaters with a short history each, so that memory does not
 * depend on how many members there are, and readers that run a little behind each other do not
 * start anew. Only this file, hdf5_filter.c and crc32.c know zlib. Read first: import.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/thread/thread.h"
#include "import/core/import.h"
#if SFT_HAVE_ZLIB
#include <zlib.h>
#endif

sft_status sft__import_source_crc32(const sft_source *source, uint64_t offset, uint64_t size,
                                    uint32_t *crc, const sft_allocator *allocator, sft_error *err) {
    const size_t most = size < 256 << 10 ? (size_t)size : 256 << 10;
    sft_status status = SFT_OK;

    *crc = 0;
    if (most == 0) {
        return SFT_OK;
    }
    uint8_t *block;
    SFT_TRY(sft__base_need(allocator, &block, most, err));
    while (size > 0 && status == SFT_OK) {
        const size_t n = size < most ? (size_t)size : most;
        status = sft_source_read(source, offset, block, n, err);
        *crc = status == SFT_OK ? sft__import_crc32(*crc, block, n) : 0;
        offset += n;
        size -= n;
    }
    sft__base_free(allocator, block, most);
    return status;
}

#if SFT_HAVE_ZLIB
enum {
    LANES = 4,
    HISTORY = 4 << 20, /* a power of two: positions wrap by a mask */
    INPUT = 64 << 10,
    POINTS = 512, /* 40 KiB each */
    POINTS_EACH = 256,
    POINT_STEP = 1 << 20, /* bytes between two of a member at least */
    RATIO_MAX = 1032      /* no deflate stream expands more */
};

typedef struct member {
    struct sft__import_inflater *shared;
    const sft_source *inner;
    uint64_t offset;
    uint64_t csize;
    uint64_t usize;
    uint32_t crc32;
    bool check_crc;
    const char *name;
    size_t name_size;
} member;

/* One stream under way. */
typedef struct lane {
    const member *owner; /* NULL: free */
    uint64_t used;       /* tick of its last use */
    z_stream z;
    bool started; /* z must be ended */
    uint64_t in_at;
    uint64_t out_at;
    uint64_t from; /* the history begins here, or later */
    uint32_t crc;
    uint8_t *input;
    uint8_t *history;
} lane;

/* A stream as it was at some place, so that what lies before the history of all lanes is not
 * inflated from the first byte on for every tensor of a member. */
typedef struct point {
    const member *owner; /* NULL: free */
    uint64_t in_at;
    uint64_t out_at;
    uint32_t crc;
    z_stream z;
} point;

struct sft__import_inflater {
    const sft_allocator *allocator;
    sft__base_mutex lock;
    uint64_t tick;
    size_t references; /* under the lock */
    lane lanes[LANES];
    size_t next_point; /* to be given away */
    point *points;     /* POINTS of them, or NULL */
};

/* ---------------------------------------------------------------- the shared inflaters */

static sft_status inflater_create(struct sft__import_inflater **out, const sft_allocator *allocator,
                                  sft_error *err) {
    struct sft__import_inflater *s;

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

static void point_reset(point *p) {
    if (p->owner != NULL) {
        (void)inflateEnd(&p->z);
    }
    memset(p, 0, sizeof *p);
}

static void lane_reset(struct sft__import_inflater *s, lane *l) {
    if (l->started) {
        (void)inflateEnd(&l->z);
    }
    sft__base_free(s->allocator, l->input, INPUT);
    sft__base_free(s->allocator, l->history, HISTORY);
    memset(l, 0, sizeof *l);
}

void sft__import_inflater_drop(struct sft__import_inflater *inflater) {
    if (inflater == NULL) {
        return;
    }
    sft__base_mutex_lock(&inflater->lock);
    const size_t left = --inflater->references;
    sft__base_mutex_unlock(&inflater->lock);
    if (left == 0) {
        for (size_t i = 0; i < LANES; i++) {
            lane_reset(inflater, &inflater->lanes[i]);
        }
        for (size_t i = 0; i < POINTS && inflater->points != NULL; i++) {
            point_reset(&inflater->points[i]);
        }
        sft__base_free(inflater->allocator, inflater->points, POINTS * sizeof *inflater->points);
        sft__base_mutex_reset(&inflater->lock);
        sft__base_free(inflater->allocator, inflater, sizeof *inflater);
    }
}

static sft_status lane_start(struct sft__import_inflater *s, lane *l, const member *m,
                             sft_error *err) {
    l->owner = NULL;
    if (l->input == NULL) {
        l->input = sft__base_alloc(s->allocator, INPUT);
    }
    if (l->history == NULL) {
        l->history = sft__base_alloc(s->allocator, HISTORY);
    }
    SFT_NEED(l->input != NULL && l->history != NULL, HISTORY + INPUT, err);
    const int result = l->started ? inflateReset(&l->z) : inflateInit2(&l->z, -MAX_WBITS);
    if (result != Z_OK) {
        return sft__base_fail_nomem(err, sizeof l->z);
    }
    l->started = true;
    l->z.avail_in = 0;
    l->in_at = 0;
    l->out_at = 0;
    l->from = 0;
    l->crc = 0;
    l->owner = m;
    return SFT_OK;
}

/* ---------------------------------------------------------------- points to go on from */

static uint64_t step_of(const member *m) {
    const uint64_t step = m->usize / POINTS_EACH;
    return step > POINT_STEP ? step : POINT_STEP;
}

/* The last point of the member at or before `offset`. */
static point *point_before(struct sft__import_inflater *s, const member *m, uint64_t offset) {
    point *best = NULL;

    for (size_t i = 0; i < POINTS && s->points != NULL; i++) {
        point *p = &s->points[i];
        if (p->owner == m && p->out_at <= offset && (best == NULL || p->out_at > best->out_at)) {
            best = p;
        }
    }
    return best;
}

/* Notes where the lane is, if no point lies a step before it. Without memory there is none. A
 * stream knows its own address: it is copied, never moved. */
static void point_put(struct sft__import_inflater *s, lane *l) {
    const uint64_t step = step_of(l->owner);
    const point *before = l->out_at < step ? NULL : point_before(s, l->owner, l->out_at);

    if (l->out_at < step || (before != NULL && l->out_at - before->out_at < step)) {
        return;
    }
    if (s->points == NULL) {
        s->points = sft__base_alloc_zero(s->allocator, POINTS * sizeof *s->points);
    }
    if (s->points == NULL) {
        return;
    }
    point *p = &s->points[s->next_point];
    point_reset(p);
    if (inflateCopy(&p->z, &l->z) == Z_OK) {
        p->owner = l->owner;
        p->in_at = l->in_at - l->z.avail_in;
        p->out_at = l->out_at;
        p->crc = l->crc;
        s->next_point = (s->next_point + 1) % POINTS;
    }
}

/* Brings a lane of the member to a point. */
static sft_status lane_jump(lane *l, point *p, sft_error *err) {
    (void)inflateEnd(&l->z);
    l->started = inflateCopy(&l->z, &p->z) == Z_OK;
    if (!l->started) {
        l->owner = NULL;
        return sft__base_fail_nomem(err, sizeof l->z);
    }
    l->z.avail_in = 0;
    l->in_at = p->in_at;
    l->out_at = l->from = p->out_at;
    l->crc = p->crc;
    return SFT_OK;
}

/* The lane that can give byte `offset` of the member with the least work. */
static sft_status lane_for(struct sft__import_inflater *s, const member *m, uint64_t offset,
                           lane **out, sft_error *err) {
    lane *best = NULL;
    lane *oldest = &s->lanes[0];

    for (size_t i = 0; i < LANES; i++) {
        lane *l = &s->lanes[i];
        const bool behind =
            offset < l->from || (l->out_at > HISTORY && offset < l->out_at - HISTORY);
        if (l->owner == m && !behind && (best == NULL || l->out_at > best->out_at)) {
            best = l;
        }
        oldest = l->used < oldest->used ? l : oldest;
    }
    if (best == NULL) {
        best = oldest;
        SFT_TRY(lane_start(s, best, m, err));
    }
    point *p = best->out_at < offset ? point_before(s, m, offset) : NULL;
    if (p != NULL && p->out_at > best->out_at) {
        SFT_TRY(lane_jump(best, p, err));
    }
    best->used = ++s->tick;
    *out = best;
    return SFT_OK;
}

static sft_status broken(const member *m, const lane *l, sft_error *err, const char *what) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, m->offset + l->in_at, "zip-deflate: member %s: %s",
                             m->name, what);
}

/* More input, if the stream has none. Behind its end it may still hold some bits, which stand for
 * up to thousands of bytes: then it goes on without. */
static sft_status refill(lane *l, sft_error *err) {
    const member *m = l->owner;
    const uint64_t left = m->csize - l->in_at;
    const size_t n = left < INPUT ? (size_t)left : INPUT;

    if (l->z.avail_in != 0 || n == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(m->inner, m->offset + l->in_at, l->input, n, err));
    l->in_at += n;
    l->z.next_in = l->input;
    l->z.avail_in = (uInt)n;
    return SFT_OK;
}

/* The stream has said that it is over. */
static sft_status lane_ended(lane *l, sft_error *err) {
    const member *m = l->owner;

    if (l->z.avail_in != 0 || l->in_at != m->csize) {
        return broken(m, l, err, "bytes follow the end of its deflate stream");
    }
    if (m->check_crc && l->crc != m->crc32) {
        return sft__base_fail_at(err, SFT_E_MISMATCH, m->offset,
                                 "zip-crc: member %s has the CRC-32 %08x, its record says %08x",
                                 m->name, (unsigned)l->crc, (unsigned)m->crc32);
    }
    return SFT_OK;
}

/* All bytes are out: the stream must say so itself, without a byte more on either side. */
static sft_status lane_finish(lane *l, sft_error *err) {
    const member *m = l->owner;
    uint8_t extra;
    int result = Z_OK;

    while (result != Z_STREAM_END) {
        SFT_TRY(refill(l, err));
        const bool all = l->z.avail_in == 0;
        l->z.next_out = &extra;
        l->z.avail_out = 1;
        result = inflate(&l->z, Z_NO_FLUSH);
        if (l->z.avail_out == 0) {
            return broken(m, l, err, "it inflates to more than its size says");
        }
        if (all && result != Z_STREAM_END) {
            return broken(m, l, err, "its deflate stream ends early");
        }
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
            return broken(m, l, err, "its deflate stream is damaged");
        }
    }
    return lane_ended(l, err);
}

/* Inflates the next bytes into the history. */
static sft_status lane_step(struct sft__import_inflater *s, lane *l, sft_error *err) {
    const member *m = l->owner;
    const size_t at = (size_t)(l->out_at & (HISTORY - 1));
    const uint64_t left = m->usize - l->out_at;
    size_t room = HISTORY - at;

    room = room < 65536 ? room : 65536;
    room = room < left ? room : (size_t)left;
    SFT_TRY(refill(l, err));
    const bool all = l->z.avail_in == 0;
    l->z.next_out = l->history + at;
    l->z.avail_out = (uInt)room;
    const int result = inflate(&l->z, Z_NO_FLUSH);
    const size_t got = room - l->z.avail_out;
    l->crc = sft__import_crc32(l->crc, l->history + at, got);
    l->out_at += got;
    if (result == Z_STREAM_END && l->out_at < m->usize) {
        return broken(m, l, err, "it inflates to less than its size says");
    }
    if (result == Z_STREAM_END) { /* the end was reached together with the last byte */
        return lane_ended(l, err);
    }
    if (result != Z_OK && result != Z_BUF_ERROR) {
        return broken(m, l, err, "its deflate stream is damaged");
    }
    if (all && got == 0) {
        return broken(m, l, err, "its deflate stream ends early");
    }
    if (l->out_at == m->usize) {
        return lane_finish(l, err);
    }
    point_put(s, l);
    return SFT_OK;
}

static sft_status lane_read(struct sft__import_inflater *s, lane *l, uint64_t offset, uint8_t *dst,
                            size_t size, sft_error *err) {
    while (size > 0) {
        while (l->out_at <= offset) {
            SFT_TRY(lane_step(s, l, err));
        }
        const size_t at = (size_t)(offset & (HISTORY - 1));
        const uint64_t have = l->out_at - offset;
        size_t n = have < size ? (size_t)have : size;
        n = n < HISTORY - at ? n : HISTORY - at;
        memcpy(dst, l->history + at, n);
        dst += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

static sft_status member_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const member *m = self;
    lane *l;

    sft__base_mutex_lock(&m->shared->lock);
    sft_status status = lane_for(m->shared, m, offset, &l, err);
    if (status == SFT_OK) {
        status = lane_read(m->shared, l, offset, dst, size, err);
        if (status != SFT_OK) {
            l->owner = NULL;
        }
    }
    sft__base_mutex_unlock(&m->shared->lock);
    return status;
}

static void member_free(member *m) {
    const sft_allocator *allocator = m->shared->allocator;
    sft__base_free(allocator, m, sizeof *m + m->name_size);
}

static void member_close(void *self) {
    member *m = self;
    struct sft__import_inflater *shared = m->shared;

    sft__base_mutex_lock(&shared->lock);
    for (size_t i = 0; i < LANES; i++) {
        if (shared->lanes[i].owner == m) {
            shared->lanes[i].owner = NULL;
        }
    }
    for (size_t i = 0; i < POINTS && shared->points != NULL; i++) {
        if (shared->points[i].owner == m) {
            point_reset(&shared->points[i]);
        }
    }
    sft__base_mutex_unlock(&shared->lock);
    member_free(m);
    sft__import_inflater_drop(shared);
}

static sft_status budget(sft__import *job, const sft__import_deflated *d, sft_error *err) {
    uint64_t most;

    if (!sft__base_mul64(d->csize, RATIO_MAX, &most) || !sft__base_add64(most, 64, &most)) {
        most = UINT64_MAX;
    }
    if (d->usize > most) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, d->offset,
            "zip-ratio: member %s would inflate from %llu to %llu bytes, deflate "
            "reaches 1032 to 1",
            d->name, (unsigned long long)d->csize, (unsigned long long)d->usize);
    }
    if (d->usize > job->inflate_left) {
        return sft__base_fail_at(
            err, SFT_E_LIMIT, d->offset,
            "zip-inflate: member %s inflates to %llu bytes, %llu are left of the "
            "budget for deflated members",
            d->name, (unsigned long long)d->usize, (unsigned long long)job->inflate_left);
    }
    job->inflate_left -= d->usize;
    return SFT_OK;
}

sft_status sft__import_source_inflate(sft_source **out, sft__import *job,
                                      const sft__import_deflated *d, sft_error *err) {
    const size_t name_size = strlen(d->name) + 1;
    sft_source_vtable vtable;

    *out = NULL;
    SFT_TRY(budget(job, d, err));
    if (job->inflater == NULL) {
        SFT_TRY(inflater_create(&job->inflater, job->allocator, err));
    }
    member *m;
    SFT_TRY(sft__base_need_zero(job->allocator, &m, sizeof *m + name_size, err));
    char *name = (char *)(m + 1);
    memcpy(name, d->name, name_size);
    *m = (member){.shared = job->inflater,
                  .inner = job->file,
                  .offset = d->offset,
                  .csize = d->csize,
                  .usize = d->usize,
                  .crc32 = d->crc32,
                  .check_crc = (job->options.flags & SFT_IMPORT_NO_CRC) == 0,
                  .name = name,
                  .name_size = name_size};
    SFT_INIT(&vtable);
    vtable.read_at = member_read;
    vtable.close = member_close;
    const sft_status status = sft_source_create(
        out, &vtable, m, &(sft_source_info){d->usize, SFT_SOURCE_SEQUENTIAL, name, job->allocator},
        err);
    if (status != SFT_OK) {
        member_free(m);
        return status;
    }
    sft__base_mutex_lock(&job->inflater->lock);
    job->inflater->references++;
    sft__base_mutex_unlock(&job->inflater->lock);
    return SFT_OK;
}
#else
void sft__import_inflater_drop(struct sft__import_inflater *inflater) {
    (void)inflater;
}

sft_status sft__import_source_inflate(sft_source **out, sft__import *job,
                                      const sft__import_deflated *d, sft_error *err) {
    (void)job;
    *out = NULL;
    return sft__base_fail_at(err, SFT_E_UNSUPPORTED, d->offset,
                             "zip-deflate: member %s is deflated, and this was built without zlib",
                             d->name);
}
#endif
