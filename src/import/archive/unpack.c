/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/unpack.c - see unpack.h. The first pass counts, and keeps the beginning; reads
 * behind it unpack forward from where the last one ended, or from the first byte again. The header
 * of gzip is read as Python's gzip reads it, which looks past what zlib minds. Read first:
 * unpack.h.
 */
#include "import/archive/unpack.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/thread/thread.h"
#include "import/archive/unpack_step.h"

enum {
    INPUT = 65536,
    OUTPUT = 65536,
    TAIL = 2 * OUTPUT,
    GZIP_HEAD = 10,
    GZIP_TAIL = 8,
    MAGIC = 16, /* at least what sft__import_pack_of looks at */
    IDLE_MOST = 8
};

typedef struct packed {
    const sft_allocator *allocator;
    const sft_source *inner;
    sft__import_pack pack;
    uint64_t offset;
    uint64_t end;  /* of the compressed bytes */
    uint64_t size; /* that come out */
    sft__base_mutex lock;
    /* the state of unpacking, under the lock */
    sft__import_stepper *step;
    uint64_t in_at; /* of input[0] + in_len */
    size_t in_pos;
    size_t in_len;
    uint64_t streams; /* begun behind the first */
    uint64_t most;    /* that they may cost */
    bool limited;     /* they cost more */
    uint64_t out_at;  /* of output[0] */
    size_t out_len;
    bool over;
    bool damaged;
    bool trailing;
    uint8_t *input;
    uint8_t *output;
    uint8_t *kept;
    size_t kept_len;
    size_t kept_room;
    uint8_t *tail; /* the last bytes, which readers of archives ask for first: TAIL, or NULL */
    size_t tail_len;
} packed;

/* ---------------------------------------------------------------- which it is */

static const struct magic {
    const char *bytes;
    uint32_t len;
    sft__import_pack pack;
    const char *name;
} magics[] = {
    {"\x1f\x8b", 2, SFT__PACK_GZIP, "gzip"},
    {"BZh", 3, SFT__PACK_BZIP2, "bzip2"},
    {"\xfd"
     "7zXZ",
     5, SFT__PACK_LZMA, "xz or lzma"},
    {"\x28\xb5\x2f\xfd", 4, SFT__PACK_ZSTD, "zstd"},
    {"\x04\x22\x4d\x18", 4, SFT__PACK_LZ4, "lz4"},
    {"7z\xbc\xaf\x27\x1c", 6, SFT__PACK_7Z, "7z"},
    {"Rar!", 4, SFT__PACK_RAR, "RAR"},
    {"\x1f\x9d", 2, SFT__PACK_COMPRESS, "compress"},
    {"", UINT32_MAX, SFT__PACK_ZLIB, "zlib"},
    {"", UINT32_MAX, SFT__PACK_DEFLATE, "deflate"},
};

/* The properties of the old format, a dictionary of at least 4 KiB, a size that is known or not. */
static bool is_lzma_alone(const uint8_t *h, size_t len) {
    if (len < 13 || h[0] >= 9 * 5 * 5) {
        return false;
    }
    const uint32_t dict = sft__base_load_le32(h + 1);
    const uint64_t size = sft__base_load_le64(h + 5);
    const uint32_t low = dict & (0 - dict);
    const bool round = dict >= 4096 && (dict == low || dict == low * 3 || dict == UINT32_MAX);
    return round && (size == UINT64_MAX || size < UINT64_C(1) << 38);
}

sft__import_pack sft__import_pack_of(const uint8_t *head, size_t len) {
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (len >= magics[i].len && memcmp(head, magics[i].bytes, magics[i].len) == 0) {
            return magics[i].pack;
        }
    }
    if (len >= 6 && (head[0] & 0x8f) == 8 && head[0] >> 4 <= 7 &&
        (head[0] * 256u + head[1]) % 31 == 0 && (head[1] & 0x20) == 0) {
        return SFT__PACK_ZLIB;
    }
    return is_lzma_alone(head, len) ? SFT__PACK_LZMA : SFT__PACK_NONE;
}

const char *sft__import_pack_name(sft__import_pack pack) {
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (magics[i].pack == pack) {
            return magics[i].name;
        }
    }
    return "nothing";
}

/* ---------------------------------------------------------------- input */

/* More input behind what is left of it. */
static sft_status refill(packed *p, sft_error *err) {
    const size_t left = p->in_len - p->in_pos;
    size_t n = INPUT - left;

    memmove(p->input, p->input + p->in_pos, left);
    p->in_pos = 0;
    p->in_len = left;
    n = p->end - p->in_at < n ? (size_t)(p->end - p->in_at) : n;
    if (n == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(p->inner, p->in_at, p->input + left, n, err));
    p->in_at += n;
    p->in_len += n;
    return SFT_OK;
}

static sft_status need(packed *p, size_t n, bool *there, sft_error *err) {
    if (p->in_len - p->in_pos < n) {
        SFT_TRY(refill(p, err));
    }
    *there = p->in_len - p->in_pos >= n;
    return SFT_OK;
}

/* Text that ends with a NUL, in the header of gzip. */
static sft_status skip_text(packed *p, bool *good, sft_error *err) {
    for (;;) {
        SFT_TRY(need(p, 1, good, err));
        if (!*good || p->input[p->in_pos++] == 0) {
            return SFT_OK;
        }
    }
}

static sft_status gzip_head(packed *p, bool *good, sft_error *err) {
    SFT_TRY(need(p, GZIP_HEAD, good, err));
    const uint8_t *h = p->input + p->in_pos;
    if (!*good || h[0] != 0x1f || h[1] != 0x8b || h[2] != 8) {
        *good = false;
        return SFT_OK;
    }
    const unsigned flags = h[3];
    p->in_pos += GZIP_HEAD;
    if ((flags & 4) != 0) {
        SFT_TRY(need(p, 2, good, err));
        const uint32_t extra = *good ? sft__base_load_le16(p->input + p->in_pos) : 0;
        p->in_pos += *good ? 2 : 0;
        for (uint32_t i = 0; i < extra && *good; i++) {
            SFT_TRY(need(p, 1, good, err));
            p->in_pos += *good;
        }
    }
    for (unsigned bit = 8; bit <= 16 && *good; bit *= 2) {
        if ((flags & bit) != 0) {
            SFT_TRY(skip_text(p, good, err));
        }
    }
    if (*good && (flags & 2) != 0) {
        SFT_TRY(need(p, 2, good, err));
        p->in_pos += *good ? 2 : 0;
    }
    return SFT_OK;
}

/* A stream costs as much as so many bytes that come out: libbz2 and liblzma begin with tables. */
static uint64_t cost_of_streams(const packed *p) {
    const uint64_t one = p->pack == SFT__PACK_LZMA    ? 32768
                         : p->pack == SFT__PACK_BZIP2 ? 8192
                                                      : 512;
    return p->streams * one; /* each has a byte at least: below 2^63 */
}

/* Behind a stream: the next one of the kind, or the end. */
static sft_status next_stream(packed *p, sft_error *err) {
    bool there;

    if (p->pack == SFT__PACK_GZIP) {
        SFT_TRY(need(p, GZIP_TAIL, &there, err));
        p->damaged = p->damaged || !there;
        p->in_pos += there ? GZIP_TAIL : p->in_len - p->in_pos;
    }
    SFT_TRY(need(p, 1, &there, err));
    /* zeros between members are padding */
    while (there && p->input[p->in_pos] == 0 && p->pack != SFT__PACK_DEFLATE) {
        p->in_pos++;
        SFT_TRY(need(p, 1, &there, err));
    }
    if (!there || p->pack == SFT__PACK_DEFLATE) {
        p->over = true;
        p->trailing = there;
        return SFT_OK;
    }
    SFT_TRY(need(p, MAGIC, &there, err));
    const sft__import_pack next = sft__import_pack_of(p->input + p->in_pos, p->in_len - p->in_pos);
    bool good = next == p->pack;
    if (good && p->pack == SFT__PACK_GZIP) {
        SFT_TRY(gzip_head(p, &good, err));
    }
    if (!good) {
        p->over = true;
        p->trailing = true;
        return SFT_OK;
    }
    p->streams++;
    p->limited = p->limited || cost_of_streams(p) > p->most;
    p->over = p->limited;
    return sft__import_step_restart(p->step) ? SFT_OK : sft__base_fail_nomem(err, OUTPUT);
}

/* ---------------------------------------------------------------- output */

static sft_status begin(packed *p, sft_error *err) {
    bool good = true;

    p->in_at = p->offset;
    p->in_pos = 0;
    p->in_len = 0;
    p->out_at = 0;
    p->out_len = 0;
    p->streams = 0;
    p->over = false;
    SFT_NEED(sft__import_step_restart(p->step), OUTPUT, err);
    if (p->pack == SFT__PACK_GZIP) {
        SFT_TRY(gzip_head(p, &good, err));
    }
    p->over = !good;
    p->damaged = p->damaged || !good;
    return SFT_OK;
}

/* The next bytes into the output; none: it is over. */
static sft_status advance(packed *p, sft_error *err) {
    p->out_at += p->out_len;
    p->out_len = 0;
    for (int idle = 0; p->out_len == 0 && !p->over;) {
        if (p->in_pos == p->in_len) {
            SFT_TRY(refill(p, err));
        }
        sft__import_step_bytes b = {p->input + p->in_pos, p->in_len - p->in_pos, p->output, OUTPUT,
                                    p->in_at == p->end};
        const sft__import_step_result step = sft__import_step(p->step, &b);
        p->in_pos += b.used;
        p->out_len = b.got;
        idle = b.used + b.got == 0 ? idle + 1 : 0;
        if (step == SFT__STEP_NOMEM) {
            return sft__base_fail_nomem(err, OUTPUT);
        }
        if (step == SFT__STEP_BAD || (step == SFT__STEP_GO && idle >= IDLE_MOST)) {
            p->damaged = true;
            p->over = true;
        } else if (step == SFT__STEP_END) {
            SFT_TRY(next_stream(p, err));
        }
    }
    return SFT_OK;
}

static sft_status packed_bytes(packed *p, uint64_t offset, uint8_t *dst, size_t size,
                               sft_error *err) {
    if (offset < p->out_at) {
        SFT_TRY(begin(p, err));
    }
    while (size != 0) {
        while (offset >= p->out_at + p->out_len) {
            if (p->over) {
                return sft__base_fail_at(err, SFT_E_CHANGED, p->offset,
                                         "what is compressed is shorter than before");
            }
            SFT_TRY(advance(p, err));
        }
        const size_t at = (size_t)(offset - p->out_at);
        const size_t n = p->out_len - at < size ? p->out_len - at : size;
        memcpy(dst, p->output + at, n);
        dst += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

static sft_status packed_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    packed *p = self;
    uint8_t *to = dst;

    if (offset < p->kept_len) {
        const size_t n = p->kept_len - (size_t)offset < size ? p->kept_len - (size_t)offset : size;
        memcpy(to, p->kept + (size_t)offset, n);
        offset += n;
        to += n;
        size -= n;
    }
    if (size == 0) {
        return SFT_OK;
    }
    if (offset >= p->size - p->tail_len) {
        memcpy(to, p->tail + (size_t)(offset - (p->size - p->tail_len)), size);
        return SFT_OK;
    }
    sft__base_mutex_lock(&p->lock);
    const sft_status status = packed_bytes(p, offset, to, size, err);
    sft__base_mutex_unlock(&p->lock);
    return status;
}

/* ---------------------------------------------------------------- making one */

static void packed_free(packed *p) {
    sft__import_step_free(p->step);
    sft__base_free(p->allocator, p->input, INPUT);
    sft__base_free(p->allocator, p->output, OUTPUT);
    sft__base_free(p->allocator, p->kept, p->kept_room);
    sft__base_free(p->allocator, p->tail, TAIL);
    sft__base_free(p->allocator, p, sizeof *p);
}

static void packed_close(void *self) {
    packed *p = self;
    sft__base_mutex_reset(&p->lock);
    packed_free(p);
}

/* What came out last goes behind what is kept of the end, if not all is kept from the beginning. */
static void keep_tail(packed *p, const sft__import_unpack *how, uint64_t size) {
    const size_t n = p->out_len;

    if (size <= how->keep) {
        return;
    }
    if (p->tail == NULL) {
        p->tail = sft__base_alloc(p->allocator, TAIL);
    }
    if (p->tail == NULL) {
        return;
    }
    const size_t old = p->tail_len < TAIL - n ? p->tail_len : TAIL - n;
    memmove(p->tail, p->tail + p->tail_len - old, old);
    memcpy(p->tail + old, p->output, n);
    p->tail_len = old + n;
}

/* The first pass. */
static sft_status count(packed *p, const sft__import_unpack *how, sft__import_unpacked *got,
                        sft_error *err) {
    SFT_TRY(begin(p, err));
    while (!p->over && got->size <= how->most) {
        SFT_TRY(advance(p, err));
        const uint64_t room = how->keep > p->kept_len ? how->keep - p->kept_len : 0;
        const size_t n = p->out_len < room ? p->out_len : (size_t)room;
        if (n != 0 && p->kept_len == got->size &&
            sft__base_grow(p->allocator, &p->kept, &p->kept_room, p->kept_len + n, 1)) {
            memcpy(p->kept + p->kept_len, p->output, n);
            p->kept_len += n;
        }
        got->size += p->out_len;
        keep_tail(p, how, got->size);
    }
    got->limited = p->limited || got->size > how->most;
    if (got->size > how->most) { /* its end is not the end of what is looked at */
        got->size = how->most;
        p->tail_len = 0;
    }
    const uint64_t streams = cost_of_streams(p);
    got->work = streams < how->most - got->size ? got->size + streams : how->most;
    got->damaged = p->damaged;
    got->trailing = p->trailing;
    p->size = got->size;
    return SFT_OK;
}

static sft_status packed_create(packed **out, const sft_source *inner,
                                const sft__import_unpack *how, const sft_allocator *allocator,
                                sft_error *err) {
    packed *p = sft__base_alloc_zero(allocator, sizeof *p);

    *out = p;
    SFT_NEED(p != NULL, sizeof *p, err);
    p->allocator = allocator;
    p->inner = inner;
    p->pack = how->pack;
    p->offset = how->offset;
    p->end = how->offset + how->size;
    p->most = how->most;
    p->input = sft__base_alloc(allocator, INPUT);
    p->output = sft__base_alloc(allocator, OUTPUT);
    p->step = sft__import_step_create(how->pack, allocator);
    if (p->input == NULL || p->output == NULL || p->step == NULL ||
        !sft__base_mutex_init(&p->lock)) {
        packed_free(p);
        *out = NULL;
        return sft__base_fail_nomem(err, INPUT + OUTPUT);
    }
    return SFT_OK;
}

sft_status sft__import_source_unpack(sft_source **out, const sft_source *inner,
                                     const sft__import_unpack *how, sft__import_unpacked *got,
                                     const sft_allocator *allocator, sft_error *err) {
    sft_source_vtable vtable;
    packed *p;

    *out = NULL;
    memset(got, 0, sizeof *got);
    if (!sft__import_pack_is_read(how->pack)) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, how->offset,
                                 "compressed with %s, which this build cannot unpack",
                                 sft__import_pack_name(how->pack));
    }
    SFT_TRY(packed_create(&p, inner, how, allocator, err));
    sft_status status = count(p, how, got, err);
    if (status == SFT_OK) {
        SFT_INIT(&vtable);
        vtable.read_at = packed_read;
        vtable.close = packed_close;
        status = sft_source_create(
            out, &vtable, p,
            &(sft_source_info){got->size, SFT_SOURCE_SEQUENTIAL, sft_source_name(inner), allocator},
            err);
    }
    if (status != SFT_OK) {
        packed_close(p);
    }
    return status;
}
