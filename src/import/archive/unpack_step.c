/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/unpack_step.c - what was there when this was built (SFT_HAVE_ZLIB, SFT_HAVE_BZIP2,
 * SFT_HAVE_LZMA) of zlib, libbz2 and liblzma, behind one function. Read first:
 * unpack_step.h.
 */
#include "import/archive/unpack_step.h"
#include "base/checked.h"
#if SFT_HAVE_ZLIB
#include <zlib.h>
#endif
#if SFT_HAVE_BZIP2
#include <bzlib.h>
#endif
#if SFT_HAVE_LZMA
#include <lzma.h>
#endif

/* xz -9 asks for 65 MiB; a stream that needs more is not looked into. */
#define LZMA_MEMORY (UINT64_C(80) << 20)

struct sft__import_stepper {
    const sft_allocator *allocator;
    sft__import_pack pack;
    bool started;
#if SFT_HAVE_ZLIB
    z_stream z;
#endif
#if SFT_HAVE_BZIP2
    bz_stream b;
#endif
#if SFT_HAVE_LZMA
    lzma_stream l;
    lzma_allocator memory;
#endif
};

/* ---------------------------------------------------------------- the libraries' memory is the caller's */

#if SFT_HAVE_ZLIB || SFT_HAVE_BZIP2 || SFT_HAVE_LZMA
enum { SIZE_BEFORE = 16 }; /* each block's size, which freeing needs; aligned as malloc does */

static void *step_alloc(void *stepper, size_t count, size_t size) {
    const sft__import_stepper *s = stepper;
    size_t all;

    if (!sft__base_mul_size(count, size, &all) || !sft__base_add_size(all, SIZE_BEFORE, &all)) {
        return NULL;
    }
    uint8_t *p = sft__base_alloc(s->allocator, all);
    if (p == NULL) {
        return NULL;
    }
    memcpy(p, &all, sizeof all);
    return p + SIZE_BEFORE;
}

static void step_release(void *stepper, void *p) {
    const sft__import_stepper *s = stepper;
    size_t all;

    if (p != NULL) {
        uint8_t *const block = (uint8_t *)p - SIZE_BEFORE;
        memcpy(&all, block, sizeof all);
        sft__base_free(s->allocator, block, all);
    }
}
#endif

#if SFT_HAVE_ZLIB
static voidpf zlib_alloc(voidpf stepper, uInt count, uInt size) {
    return step_alloc(stepper, count, size);
}
#endif

#if SFT_HAVE_BZIP2
static void *bzip2_alloc(void *stepper, int count, int size) {
    return count < 0 || size < 0 ? NULL : step_alloc(stepper, (size_t)count, (size_t)size);
}
#endif

/* ---------------------------------------------------------------- streams */

bool sft__import_pack_is_read(sft__import_pack pack) {
    switch (pack) {
#if SFT_HAVE_ZLIB
    case SFT__PACK_GZIP:
    case SFT__PACK_ZLIB:
    case SFT__PACK_DEFLATE:
        return true;
#endif
#if SFT_HAVE_BZIP2
    case SFT__PACK_BZIP2:
        return true;
#endif
#if SFT_HAVE_LZMA
    case SFT__PACK_LZMA:
        return true;
#endif
    default:
        return false;
    }
}

static void step_stop(sft__import_stepper *s) {
    if (!s->started) {
        return;
    }
    s->started = false;
#if SFT_HAVE_BZIP2
    if (s->pack == SFT__PACK_BZIP2) {
        (void)BZ2_bzDecompressEnd(&s->b);
        return;
    }
#endif
#if SFT_HAVE_LZMA
    if (s->pack == SFT__PACK_LZMA) {
        lzma_end(&s->l);
        return;
    }
#endif
#if SFT_HAVE_ZLIB
    (void)inflateEnd(&s->z);
#endif
}

bool sft__import_step_restart(sft__import_stepper *s) {
#if SFT_HAVE_BZIP2
    if (s->pack == SFT__PACK_BZIP2) {
        step_stop(s);
        memset(&s->b, 0, sizeof s->b);
        s->b.bzalloc = bzip2_alloc;
        s->b.bzfree = step_release;
        s->b.opaque = s;
        s->started = BZ2_bzDecompressInit(&s->b, 0, 0) == BZ_OK;
        return s->started;
    }
#endif
#if SFT_HAVE_LZMA
    if (s->pack == SFT__PACK_LZMA) {
        const lzma_stream fresh = LZMA_STREAM_INIT;
        step_stop(s);
        s->l = fresh;
        s->memory = (lzma_allocator){step_alloc, step_release, s};
        s->l.allocator = &s->memory;
        s->started = lzma_auto_decoder(&s->l, LZMA_MEMORY, LZMA_IGNORE_CHECK) == LZMA_OK;
        return s->started;
    }
#endif
#if SFT_HAVE_ZLIB
    if (s->started) {
        return inflateReset(&s->z) == Z_OK;
    }
    s->z.zalloc = zlib_alloc;
    s->z.zfree = step_release;
    s->z.opaque = s;
    s->started = inflateInit2(&s->z, s->pack == SFT__PACK_ZLIB ? MAX_WBITS : -MAX_WBITS) == Z_OK;
    return s->started;
#else
    (void)s;
    return false; /* no stream is asked for that is not read */
#endif
}

sft__import_stepper *sft__import_step_create(sft__import_pack pack,
                                             const sft_allocator *allocator) {
    sft__import_stepper *s = sft__base_alloc_zero(allocator, sizeof *s);

    if (s == NULL) {
        return NULL;
    }
    s->allocator = allocator;
    s->pack = pack;
    if (!sft__import_step_restart(s)) {
        sft__import_step_free(s);
        return NULL;
    }
    return s;
}

void sft__import_step_free(sft__import_stepper *s) {
    if (s != NULL) {
        step_stop(s);
        sft__base_free(s->allocator, s, sizeof *s);
    }
}

#if SFT_HAVE_BZIP2
static sft__import_step_result step_bzip2(bz_stream *b, sft__import_step_bytes *step) {
    union {
        const uint8_t *from;
        char *to;
    } cast = {step->in}; /* libbz2 never writes there */

    b->next_in = cast.to;
    b->avail_in = (unsigned)step->used;
    b->next_out = (char *)step->out;
    b->avail_out = (unsigned)step->got;
    const int result = BZ2_bzDecompress(b);
    step->used -= b->avail_in;
    step->got -= b->avail_out;
    return result == BZ_STREAM_END  ? SFT__STEP_END
           : result == BZ_OK        ? SFT__STEP_GO
           : result == BZ_MEM_ERROR ? SFT__STEP_NOMEM
                                    : SFT__STEP_BAD;
}
#endif

#if SFT_HAVE_LZMA
static sft__import_step_result step_lzma(lzma_stream *l, sft__import_step_bytes *step) {
    l->next_in = step->in;
    l->avail_in = step->used;
    l->next_out = step->out;
    l->avail_out = step->got;
    const lzma_ret result = lzma_code(l, step->last && step->used == 0 ? LZMA_FINISH : LZMA_RUN);
    step->used -= l->avail_in;
    step->got -= l->avail_out;
    return result == LZMA_STREAM_END                       ? SFT__STEP_END
           : result == LZMA_OK || result == LZMA_BUF_ERROR ? SFT__STEP_GO
           : result == LZMA_MEM_ERROR                      ? SFT__STEP_NOMEM
                                                           : SFT__STEP_BAD;
}
#endif

#if SFT_HAVE_ZLIB
static sft__import_step_result step_zlib(z_stream *z, sft__import_step_bytes *step) {
    union {
        const uint8_t *from;
        Bytef *to;
    } cast = {step->in}; /* zlib never writes there */

    z->next_in = cast.to;
    z->avail_in = (uInt)step->used;
    z->next_out = step->out;
    z->avail_out = (uInt)step->got;
    const int result = inflate(z, Z_NO_FLUSH);
    step->used -= z->avail_in;
    step->got -= z->avail_out;
    return result == Z_STREAM_END                    ? SFT__STEP_END
           : result == Z_OK || result == Z_BUF_ERROR ? SFT__STEP_GO
           : result == Z_MEM_ERROR                   ? SFT__STEP_NOMEM
                                                     : SFT__STEP_BAD;
}
#endif

sft__import_step_result sft__import_step(sft__import_stepper *s, sft__import_step_bytes *b) {
#if SFT_HAVE_BZIP2
    if (s->pack == SFT__PACK_BZIP2) {
        return step_bzip2(&s->b, b);
    }
#endif
#if SFT_HAVE_LZMA
    if (s->pack == SFT__PACK_LZMA) {
        return step_lzma(&s->l, b);
    }
#endif
#if SFT_HAVE_ZLIB
    return step_zlib(&s->z, b);
#else
    (void)s;
    (void)b;
    return SFT__STEP_BAD;
#endif
}
