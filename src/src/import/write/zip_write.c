/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/zip_write.c - stored zip archives (APPNOTE.TXT 6.3) with aligned members, zip64 where a
 * size or place needs it. The bytes of tensors go to their places first, their CRC-32s are summed
 * on the way, the headers are put last. Times are 1980-01-01: equal input gives equal files. Read
 * first: export.h.
 */
#include "base/checked.h"
#include "import/write/export.h"
#include <stdlib.h>

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    EXTRA64_BYTES = 20, /* both sizes */
    NAME_MAX_BYTES = 60000,
    PAD_ID = 0xd935, /* alignment, as Android's zipalign writes it */
    FLAG_UTF8 = 1 << 11,
    DATE = 0x21, /* 1980-01-01 */
    VERSION = 20,
    VERSION64 = 45
};

#define ALL_ONES UINT32_C(0xffffffff)

static void put16(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v) {
    put16(p, v & 0xffff);
    put16(p + 2, v >> 16);
}

static void put64(uint8_t *p, uint64_t v) {
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint64_t member_bytes(const sft__import_export *job, const sft__import_zip_member *m) {
    return m->head_len + (m->item != SIZE_MAX ? job->c.items[m->item].nbytes : 0);
}

static bool is_long(uint64_t v) {
    return v >= ALL_ONES;
}

static uint32_t clip(uint64_t v) {
    return is_long(v) ? ALL_ONES : (uint32_t)v;
}

static uint32_t flags_of(const sft__import_zip_member *m) {
    for (size_t i = 0; i < m->name_len; i++) {
        if ((m->name[i] & 0x80) != 0) {
            return FLAG_UTF8;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- layout */

/* Gives the members their places from `at` = 0 on; *end: where the directory begins. */
static sft_status lay_out(sft__import_export *job, sft__import_zip_member *members, size_t count,
                          uint32_t alignment, uint64_t *end, sft_error *err) {
    uint64_t at = 0;

    for (size_t i = 0; i < count; i++) {
        sft__import_zip_member *m = &members[i];
        if (m->name_len == 0 || m->name_len > NAME_MAX_BYTES ||
            memchr(m->name, '\0', m->name_len) != NULL) {
            return sft__base_fail_tensor(
                err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, m->name, m->name_len,
                "a zip member's name has 1 to %d bytes, none of them 0", (int)NAME_MAX_BYTES);
        }
        const uint64_t bytes = member_bytes(job, m);
        m->at = at;
        m->extra = is_long(bytes) ? EXTRA64_BYTES : 0;
        uint64_t data = at + LOCAL_BYTES + m->name_len + m->extra;
        const uint64_t pad = (0 - data) & (alignment - 1);
        if (pad != 0) { /* a field of its own: 4 bytes of its header, 2 that say the alignment */
            m->extra +=
                (uint32_t)(pad >= 6 ? pad
                                    : pad + alignment * ((6 - pad + alignment - 1) / alignment));
        }
        m->data = at + LOCAL_BYTES + m->name_len + m->extra;
        if (!sft__base_add64(m->data, bytes, &at) || at > INT64_MAX) {
            return sft__base_fail(err, SFT_E_OVERFLOW,
                                  "the archive would have more than 2^63 bytes");
        }
    }
    *end = at;
    return SFT_OK;
}

/* ---------------------------------------------------------------- headers */

static sft_status put_local(sft__import_export *job, const sft__import_zip_member *m,
                            uint32_t alignment, uint8_t *room, sft_error *err) {
    const uint64_t bytes = member_bytes(job, m);
    uint8_t *p = room + LOCAL_BYTES + m->name_len;
    size_t left = m->extra;

    memset(room, 0, LOCAL_BYTES + m->name_len + m->extra);
    put32(room, 0x04034b50);
    put16(room + 4, is_long(bytes) ? VERSION64 : VERSION);
    put16(room + 6, flags_of(m));
    put16(room + 12, DATE);
    put32(room + 14, m->crc32);
    put32(room + 18, clip(bytes));
    put32(room + 22, clip(bytes));
    put16(room + 26, (uint32_t)m->name_len);
    put16(room + 28, m->extra);
    memcpy(room + LOCAL_BYTES, m->name, m->name_len);
    if (is_long(bytes)) {
        put16(p, 1);
        put16(p + 2, EXTRA64_BYTES - 4);
        put64(p + 4, bytes);
        put64(p + 12, bytes);
        p += EXTRA64_BYTES;
        left -= EXTRA64_BYTES;
    }
    if (left > 0) {
        put16(p, PAD_ID);
        put16(p + 2, (uint32_t)left - 4);
        put16(p + 4, alignment);
    }
    SFT_TRY(sft__import_export_put(job, m->at, room, LOCAL_BYTES + m->name_len + m->extra, err));
    return sft__import_export_put(job, m->data, m->head, m->head_len, err);
}

static void add_entry(sft__base_buf *b, const sft__import_export *job,
                      const sft__import_zip_member *m) {
    const uint64_t bytes = member_bytes(job, m);
    uint8_t e[ENTRY_BYTES] = {0};
    uint8_t extra[28] = {0};
    size_t n = 4;

    if (is_long(bytes)) {
        put64(extra + n, bytes);
        put64(extra + n + 8, bytes);
        n += 16;
    }
    if (is_long(m->at)) {
        put64(extra + n, m->at);
        n += 8;
    }
    put16(extra, 1);
    put16(extra + 2, (uint32_t)n - 4);
    n = n == 4 ? 0 : n;
    put32(e, 0x02014b50);
    put16(e + 4, (3 << 8) | (n != 0 ? VERSION64 : VERSION)); /* made on Unix */
    put16(e + 6, n != 0 ? VERSION64 : VERSION);
    put16(e + 8, flags_of(m));
    put16(e + 14, DATE);
    put32(e + 16, m->crc32);
    put32(e + 20, clip(bytes));
    put32(e + 24, clip(bytes));
    put16(e + 28, (uint32_t)m->name_len);
    put16(e + 30, (uint32_t)n);
    put32(e + 38, UINT32_C(0100644) << 16);
    put32(e + 42, clip(m->at));
    sft__base_buf_add(b, e, sizeof e);
    sft__base_buf_add(b, m->name, m->name_len);
    sft__base_buf_add(b, extra, n);
}

/* How long the directory and the end records will be. */
static uint64_t tail_bytes(const sft__import_export *job, const sft__import_zip_member *members,
                           size_t count, uint64_t start, bool *long_end) {
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t big = (is_long(member_bytes(job, &members[i])) ? 16u : 0u) +
                           (is_long(members[i].at) ? 8u : 0u);
        bytes += ENTRY_BYTES + members[i].name_len + (big != 0 ? big + 4 : 0);
    }
    *long_end = count >= 0xffff || is_long(bytes) || is_long(start);
    return bytes + END_BYTES + (*long_end ? END64_BYTES + LOCATOR_BYTES : 0);
}

static void add_end(sft__base_buf *b, size_t count, uint64_t start, uint64_t bytes, bool long_end) {
    uint8_t end64[END64_BYTES] = {0};
    uint8_t locator[LOCATOR_BYTES] = {0};
    uint8_t end[END_BYTES] = {0};
    const uint32_t few = count >= 0xffff ? 0xffff : (uint32_t)count;

    if (long_end) {
        put32(end64, 0x06064b50);
        put64(end64 + 4, END64_BYTES - 12);
        put16(end64 + 12, (3 << 8) | VERSION64);
        put16(end64 + 14, VERSION64);
        put64(end64 + 24, count);
        put64(end64 + 32, count);
        put64(end64 + 40, bytes);
        put64(end64 + 48, start);
        put32(locator, 0x07064b50);
        put64(locator + 8, start + bytes);
        put32(locator + 16, 1);
        sft__base_buf_add(b, end64, sizeof end64);
        sft__base_buf_add(b, locator, sizeof locator);
    }
    put32(end, 0x06054b50);
    put16(end + 8, few);
    put16(end + 10, few);
    put32(end + 12, clip(bytes));
    put32(end + 16, clip(start));
    sft__base_buf_add(b, end, sizeof end);
}

static sft_status put_tail(sft__import_export *job, const sft__import_zip_member *members,
                           size_t count, uint64_t start, bool long_end, sft_error *err) {
    sft__base_buf b;

    sft__base_buf_init(&b, job->c.allocator);
    for (size_t i = 0; i < count; i++) {
        add_entry(&b, job, &members[i]);
    }
    add_end(&b, count, start, b.len, long_end);
    const sft_status status = b.failed ? sft__base_fail_nomem(err, b.len)
                                       : sft__import_export_put(job, start, b.data, b.len, err);
    sft__base_buf_reset(&b);
    return status;
}

/* ---------------------------------------------------------------- all of it */

static int by_item(const void *a, const void *b) {
    const sft__import_stretch *x = a;
    const sft__import_stretch *y = b;
    return x->item < y->item ? -1 : x->item > y->item;
}

static sft_status copy_items(sft__import_export *job, sft__import_zip_member *members, size_t count,
                             sft_error *err) {
    sft__import_stretch *stretches;
    size_t n = 0;

    SFT_TRY(sft__import_export_alloc(job, &stretches, count, sizeof *stretches, err));
    for (size_t i = 0; i < count; i++) {
        const sft__import_zip_member *m = &members[i];
        if (m->item != SIZE_MAX) {
            stretches[n++] = (sft__import_stretch){
                m->item, 0, job->c.items[m->item].nbytes, m->data + m->head_len, 0, (uint32_t)i};
        }
    }
    qsort(stretches, n, sizeof *stretches, by_item);
    SFT_TRY(sft__import_export_copy(job, stretches, n, true, err));
    for (size_t i = 0; i < count; i++) {
        members[i].crc32 = sft__import_crc32(0, members[i].head, members[i].head_len);
    }
    for (size_t i = 0; i < n; i++) {
        sft__import_zip_member *m = &members[stretches[i].reserved];
        m->crc32 = sft__import_crc32_shift(m->crc32, stretches[i].nbytes) ^ stretches[i].crc32;
    }
    return SFT_OK;
}

sft_status sft__import_zip_write(sft__import_export *job, sft__import_zip_member *members,
                                 size_t count, uint32_t alignment, sft_error *err) {
    uint64_t start = 0;
    bool long_end;
    uint8_t *room;

    if (count > UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "an archive of more than 2^32 members");
    }
    SFT_TRY(lay_out(job, members, count, alignment, &start, err));
    const uint64_t tail = tail_bytes(job, members, count, start, &long_end);
    SFT_TRY(sft__import_export_start(job, start + tail, err));
    SFT_TRY(copy_items(job, members, count, err));
    SFT_TRY(
        sft__import_export_alloc(job, &room, LOCAL_BYTES + NAME_MAX_BYTES + 2 * 4096 + 64, 1, err));
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(put_local(job, &members[i], alignment, room, err));
    }
    return put_tail(job, members, count, start, long_end, err);
}
