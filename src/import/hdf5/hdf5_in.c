/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_in.c - the bytes of an HDF5 file: metadata by address through a few windows, checksums,
 * and memory that grows within the limit. Read first: hdf5.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/hdf5/hdf5.h"

/* What a read and a window cost beyond the bytes asked for, in bytes of the budget. */
enum { READ_COST = 16, WINDOW_COST = 112 };

sft_status sft__import_h5_bad(const sft__import_h5 *h, uint64_t addr, sft_error *err,
                              const char *what) {
    return sft__base_fail_at(err, SFT_E_SCHEMA,
                             addr == SFT__H5_UNDEF ? SFT_NO_OFFSET : h->base + addr, "hdf5: %s",
                             what);
}

/* ---------------------------------------------------------------- memory */

static sft_status over_memory(const sft__import_h5 *h, sft_error *err) {
    return sft__base_fail(
        err, SFT_E_LIMIT,
        "memory: reading this file needs more than its part of the limit of %llu bytes",
        (unsigned long long)h->job->options.memory_bytes);
}

sft_status sft__import_h5_room(sft__import_h5 *h, sft__import_h5_buf *buf, size_t n,
                               sft_error *err) {
    if (n > h->job->options.memory_bytes / 8) {
        return over_memory(h, err);
    }
    return sft__base_grow(h->job->allocator, &buf->data, &buf->room, n != 0 ? n : 1, 1)
               ? SFT_OK
               : sft__base_fail_nomem(err, n);
}

sft_status sft__import_h5_grow(sft__import_h5 *h, void *array, size_t *room, size_t count,
                               size_t size, sft_error *err) {
    if (count < *room) {
        return SFT_OK;
    }
    if (count > h->job->options.memory_bytes / 8 / size) {
        return over_memory(h, err);
    }
    return sft__base_grow(h->job->allocator, array, room, count + 1, size)
               ? SFT_OK
               : sft__base_fail_nomem(err, count * size);
}

sft_status sft__import_h5_push(sft__import_h5 *h, uint64_t addr, uint64_t records, uint32_t level,
                               sft_error *err) {
    SFT_TRY(sft__import_h5_grow(h, &h->todo, &h->todo_room, h->todo_count, sizeof *h->todo, err));
    h->todo[h->todo_count++] = (sft__import_h5_node){addr, records, level};
    return SFT_OK;
}

/* ---------------------------------------------------------------- addresses that were met */

static size_t seen_slot(const sft__import_h5_seen *s, uint64_t addr) {
    size_t i = (size_t)sft__base_hash(s->key, &addr, sizeof addr) & (s->room - 1);
    while (s->slots[2 * i] != 0 && s->slots[2 * i] != addr + 1) {
        i = (i + 1) & (s->room - 1);
    }
    return i;
}

static sft_status seen_grow(sft__import_h5 *h, sft_error *err) {
    sft__import_h5_seen old = h->seen;
    sft__import_h5_seen *s = &h->seen;
    const size_t room = old.room != 0 ? 2 * old.room : 256;

    if (room > h->job->options.memory_bytes / 8 / 16) {
        return over_memory(h, err);
    }
    uint64_t *slots;
    SFT_TRY(sft__base_need_zero(h->job->allocator, &slots, room * 16, err));
    if (old.room == 0) {
        sft__base_random_key(s->key);
    }
    s->slots = slots;
    s->room = room;
    for (size_t i = 0; i < old.room; i++) {
        if (old.slots[2 * i] != 0) {
            const size_t to = seen_slot(s, old.slots[2 * i] - 1);
            slots[2 * to] = old.slots[2 * i];
            slots[2 * to + 1] = old.slots[2 * i + 1];
        }
    }
    sft__base_free(h->job->allocator, old.slots, old.room * 16);
    return SFT_OK;
}

sft_status sft__import_h5_meet(sft__import_h5 *h, uint64_t addr, uint64_t number, uint64_t *met,
                               bool *was, sft_error *err) {
    sft__import_h5_seen *s = &h->seen;

    if (s->count >= s->room / 2) {
        SFT_TRY(seen_grow(h, err));
    }
    const size_t i = seen_slot(s, addr);
    *was = s->slots[2 * i] != 0;
    if (!*was) {
        s->slots[2 * i] = addr + 1; /* an address is below the end of the file */
        s->slots[2 * i + 1] = number;
        s->count++;
    }
    *met = s->slots[2 * i + 1];
    return SFT_OK;
}

void sft__import_h5_number(sft__import_h5 *h, uint64_t addr, uint64_t number) {
    h->seen.slots[2 * seen_slot(&h->seen, addr) + 1] = number;
}

/* ---------------------------------------------------------------- numbers */

uint64_t sft__import_h5_uint(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

uint32_t sft__import_h5_width(uint64_t limit) {
    uint32_t n = 1;
    while (n < 8 && limit >> (8 * n) != 0) {
        n++;
    }
    return n;
}

const uint8_t *sft__import_h5_skip(sft__import_h5_in *in, size_t n) {
    const uint8_t *p = in->p;
    if (in->bad || n > in->left) {
        in->bad = true;
        return NULL;
    }
    in->p += n;
    in->left -= n;
    return p;
}

uint64_t sft__import_h5_take(sft__import_h5_in *in, size_t n) {
    const uint8_t *p = sft__import_h5_skip(in, n);
    return p != NULL ? sft__import_h5_uint(p, n) : 0;
}

uint64_t sft__import_h5_take_addr(const sft__import_h5 *h, sft__import_h5_in *in) {
    const uint64_t v = sft__import_h5_take(in, h->offset_size);
    const uint64_t all = UINT64_MAX >> (64 - 8 * h->offset_size);
    return v == all ? SFT__H5_UNDEF : v;
}

/* ---------------------------------------------------------------- bytes by address */

sft_status sft__import_h5_charge(sft__import_h5 *h, uint64_t addr, uint64_t n, sft_error *err) {
    if (n > h->budget) {
        return sft__import_h5_bad(h, addr, err,
                                  "metadata that refers to the same bytes again and again");
    }
    h->budget -= n;
    return SFT_OK;
}

sft_status sft__import_h5_charge_places(sft__import_h5 *h, uint64_t addr, uint64_t n,
                                        sft_error *err) {
    if (n > h->places) {
        return sft__base_fail_at(
            err, SFT_E_LIMIT, h->base + addr,
            "hdf5: datasets with places for %llu more chunks than a file of this "
            "size may have",
            (unsigned long long)(n - h->places));
    }
    h->places -= n;
    return SFT_OK;
}

static sft_status window_at(sft__import_h5 *h, uint64_t at, const sft__import_h5_window **out,
                            sft_error *err) {
    const uint64_t size = sft_source_size(h->source);
    sft__import_h5_window *oldest = &h->windows[0];

    for (int i = 0; i < SFT__H5_WINDOWS; i++) {
        sft__import_h5_window *w = &h->windows[i];
        if (w->at == at) {
            w->used = ++h->tick;
            *out = w;
            return SFT_OK;
        }
        oldest = w->used < oldest->used ? w : oldest;
    }
    SFT_TRY(sft__import_h5_charge(h, at > h->base ? at - h->base : 0, WINDOW_COST, err));
    oldest->at = UINT64_MAX;
    oldest->len = size - at < SFT__H5_WINDOW ? (size_t)(size - at) : SFT__H5_WINDOW;
    SFT_TRY(sft_source_read(h->source, at, oldest->bytes, oldest->len, err));
    oldest->at = at;
    oldest->used = ++h->tick;
    *out = oldest;
    return SFT_OK;
}

sft_status sft__import_h5_read(sft__import_h5 *h, uint64_t addr, void *dst, size_t n,
                               const char *what, sft_error *err) {
    const sft__import_h5_window *w;
    uint8_t *to = dst;

    if (addr > h->end || n > h->end - addr) {
        return sft__base_fail_at(err, SFT_E_SCHEMA,
                                 addr == SFT__H5_UNDEF ? SFT_NO_OFFSET : h->base + h->end,
                                 "hdf5: %s of %zu bytes at the address %llu, the file ends at %llu",
                                 what, n, (unsigned long long)addr, (unsigned long long)h->end);
    }
    SFT_TRY(sft__import_h5_charge(h, addr, n + READ_COST, err));
    uint64_t at = h->base + addr;
    if (n >= SFT__H5_WINDOW) {
        return sft_source_read(h->source, at, dst, n, err);
    }
    while (n > 0) {
        const size_t skip = (size_t)(at % SFT__H5_WINDOW);
        SFT_TRY(window_at(h, at - skip, &w, err));
        const size_t have = w->len - skip;
        const size_t take = n < have ? n : have;
        memcpy(to, w->bytes + skip, take);
        to += take;
        at += take;
        n -= take;
    }
    return SFT_OK;
}

sft_status sft__import_h5_block(sft__import_h5 *h, sft__import_h5_buf *buf, uint64_t addr,
                                uint64_t n, const char *what, sft_error *err) {
    size_t size;

    if (!sft__base_size_from_u64(n, &size) || addr > h->end || n > h->end - addr) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, addr == SFT__H5_UNDEF ? SFT_NO_OFFSET : h->base + h->end,
            "hdf5: %s of %llu bytes at the address %llu, the file ends at %llu", what,
            (unsigned long long)n, (unsigned long long)addr, (unsigned long long)h->end);
    }
    SFT_TRY(sft__import_h5_room(h, buf, size, err));
    return sft__import_h5_read(h, addr, buf->data, size, what, err);
}

/* ---------------------------------------------------------------- checksums */

/* Fuzzers cannot find checksums: their build takes any (fuzz/CMakeLists.txt). */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { ANY_SUM = 1 };
#else
enum { ANY_SUM = 0 };
#endif

static uint32_t rotate(uint32_t v, unsigned n) {
    return v << n | v >> (32 - n);
}

/* lookup3 by Bob Jenkins (hashlittle), as HDF5 sums its metadata: three words at a time. */
static uint32_t lookup3(const uint8_t *p, size_t n) {
    uint32_t a = 0xdeadbeefu + (uint32_t)n;
    uint32_t b = a;
    uint32_t c = a;
    uint8_t tail[12] = {0};

    if (n == 0) {
        return c;
    }
    for (; n > 12; n -= 12, p += 12) {
        a += sft__base_load_le32(p);
        b += sft__base_load_le32(p + 4);
        c += sft__base_load_le32(p + 8);
        a = (a - c) ^ rotate(c, 4);
        c += b;
        b = (b - a) ^ rotate(a, 6);
        a += c;
        c = (c - b) ^ rotate(b, 8);
        b += a;
        a = (a - c) ^ rotate(c, 16);
        c += b;
        b = (b - a) ^ rotate(a, 19);
        a += c;
        c = (c - b) ^ rotate(b, 4);
        b += a;
    }
    memcpy(tail, p, n);
    a += sft__base_load_le32(tail);
    b += sft__base_load_le32(tail + 4);
    c += sft__base_load_le32(tail + 8);
    c = (c ^ b) - rotate(b, 14);
    a = (a ^ c) - rotate(c, 11);
    b = (b ^ a) - rotate(a, 25);
    c = (c ^ b) - rotate(b, 16);
    a = (a ^ c) - rotate(c, 4);
    b = (b ^ a) - rotate(a, 14);
    return (c ^ b) - rotate(b, 24);
}

sft_status sft__import_h5_sum(const sft__import_h5 *h, const uint8_t *bytes, size_t n,
                              uint64_t addr, const char *what, sft_error *err) {
    const uint32_t want = n >= 4 ? sft__base_load_le32(bytes + n - 4) : 0;
    const uint32_t have = n >= 4 ? lookup3(bytes, n - 4) : 1;

    return have == want || ANY_SUM
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_MISMATCH, h->base + addr,
                                   "hdf5-checksum: %s has the checksum %08x, %08x is stored", what,
                                   (unsigned)have, (unsigned)want);
}
