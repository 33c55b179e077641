/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/flatbuf.c - FlatBuffers by offsets: each is checked against the buffer before
 * anything is read there. Read first: flatbuf.h.
 */
#include "import/core/flatbuf.h"
#include "base/checked.h"
#include "base/text/utf8.h"

enum { BUDGET_TIMES = 8, BUDGET_FLOOR = 64 << 20 };

void sft__import_fb_init(sft__import_fb *b, sft__import *job, const char *what, uint64_t begin,
                         uint64_t end) {
    b->job = job;
    b->what = what;
    b->begin = begin;
    b->end = end;
    b->tick = 0;
    b->reach = begin;
    if (!sft__base_mul64(end - begin, BUDGET_TIMES, &b->budget) ||
        !sft__base_add64(b->budget, BUDGET_FLOOR, &b->budget)) {
        b->budget = UINT64_MAX;
    }
    for (size_t i = 0; i < SFT__FB_WINDOWS; i++) {
        b->windows[i].len = 0;
        b->windows[i].used = 0;
    }
}

sft_status sft__import_fb_bad(const sft__import_fb *b, uint64_t at, sft_error *err,
                              const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "%s: %s", b->what, text);
}

/* ---------------------------------------------------------------- bytes */

static sft_status fill(sft__import_fb *b, sft__import_fb_window *w, uint64_t at, sft_error *err) {
    const uint64_t left = b->end - at;
    const size_t take = left < SFT__FB_WINDOW ? (size_t)left : SFT__FB_WINDOW;

    if (b->budget < take) {
        return sft__base_fail_at(
            err, SFT_E_LIMIT, at,
            "%s: the description refers to itself more often than a file of this "
            "size has reason to",
            b->what);
    }
    b->budget -= take;
    w->len = 0;
    SFT_TRY(sft_source_read(b->job->file, at, w->bytes, take, err));
    w->at = at;
    w->len = take;
    return SFT_OK;
}

/* n <= SFT__FB_WINDOW / 2 bytes at an offset; they stay until the next call. */
static sft_status bytes_at(sft__import_fb *b, uint64_t at, size_t n, const uint8_t **bytes,
                           sft_error *err) {
    sft__import_fb_window *best = &b->windows[0];

    if (at < b->begin || at > b->end || n > b->end - at) {
        return sft__import_fb_bad(b, at, err, "an offset that leads out of the file");
    }
    b->reach = at + n > b->reach ? at + n : b->reach;
    for (size_t i = 0; i < SFT__FB_WINDOWS; i++) {
        sft__import_fb_window *w = &b->windows[i];
        if (at >= w->at && at - w->at < w->len && w->len - (size_t)(at - w->at) >= n) {
            w->used = ++b->tick;
            *bytes = w->bytes + (at - w->at);
            return SFT_OK;
        }
        best = w->used < best->used ? w : best;
    }
    /* some of what lies before it, too: tables lie behind what they refer to, or before */
    const uint64_t back = at - b->begin < SFT__FB_WINDOW / 2 ? at - b->begin : SFT__FB_WINDOW / 2;
    SFT_TRY(fill(b, best, at - back, err));
    best->used = ++b->tick;
    *bytes = best->bytes + back;
    return SFT_OK;
}

static sft_status number_at(sft__import_fb *b, uint64_t at, uint32_t width, uint64_t *value,
                            sft_error *err) {
    const uint8_t *p = NULL;

    SFT_TRY(bytes_at(b, at, width, &p, err));
    *value = width == 8   ? sft__base_load_le64(p)
             : width == 4 ? sft__base_load_le32(p)
             : width == 2 ? sft__base_load_le16(p)
                          : *p;
    return SFT_OK;
}

/* Where the four bytes at `at` lead to. */
static sft_status follow(sft__import_fb *b, uint64_t at, uint64_t *target, sft_error *err) {
    uint64_t offset;

    SFT_TRY(number_at(b, at, 4, &offset, err));
    if (offset == 0 || offset > b->end - at) {
        return sft__import_fb_bad(b, at, err, "an offset that leads out of the file");
    }
    *target = at + offset;
    return SFT_OK;
}

/* ---------------------------------------------------------------- tables */

static sft_status table_at(sft__import_fb *b, uint64_t at, sft__import_fb_table *t,
                           sft_error *err) {
    uint64_t back;
    uint64_t length;
    uint64_t size;

    memset(t, 0, sizeof *t);
    SFT_TRY(number_at(b, at, 4, &back, err));
    const int64_t distance = (int64_t)(back ^ 0x80000000u) - INT64_C(0x80000000);
    const uint64_t vtable = at - (uint64_t)distance; /* wraps where it would lie before the file */
    if (vtable < b->begin || vtable > b->end) {
        return sft__import_fb_bad(b, at, err, "an offset that leads out of the file");
    }
    SFT_TRY(number_at(b, vtable, 2, &length, err));
    SFT_TRY(number_at(b, vtable + 2, 2, &size, err));
    if (length < 4 || length % 2 != 0 || size < 4 || size > b->end - at ||
        length > b->end - vtable) {
        return sft__import_fb_bad(b, vtable, err, "a table whose size cannot be");
    }
    t->at = at;
    t->size = (uint32_t)size;
    b->reach = at + size > b->reach ? at + size : b->reach;
    for (uint32_t i = 0; i < SFT__FB_SLOTS && 4 + 2 * (uint64_t)i < length; i++) {
        uint64_t offset;
        SFT_TRY(number_at(b, vtable + 4 + 2 * (uint64_t)i, 2, &offset, err));
        if (offset != 0 && (offset < 4 || offset >= size)) {
            return sft__import_fb_bad(b, vtable, err, "a field that lies outside of its table");
        }
        t->slots[i] = (uint16_t)offset;
    }
    return SFT_OK;
}

sft_status sft__import_fb_root(sft__import_fb *b, sft__import_fb_table *t, sft_error *err) {
    uint64_t at = 0;

    SFT_TRY(follow(b, b->begin, &at, err));
    return table_at(b, at, t, err);
}

/* Where a field of `width` bytes lies; 0: not there. */
static sft_status field_at(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                           uint32_t width, uint64_t *at, sft_error *err) {
    const uint32_t offset = slot < SFT__FB_SLOTS ? t->slots[slot] : 0;

    *at = 0;
    if (offset != 0 && offset + width > t->size) {
        return sft__import_fb_bad(b, t->at, err, "a field that lies outside of its table");
    }
    *at = offset != 0 ? t->at + offset : 0;
    return SFT_OK;
}

sft_status sft__import_fb_number(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                                 uint32_t width, uint64_t *value, sft_error *err) {
    uint64_t at;

    *value = 0;
    SFT_TRY(field_at(b, t, slot, width, &at, err));
    return at != 0 ? number_at(b, at, width, value, err) : SFT_OK;
}

sft_status sft__import_fb_pair(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                               uint64_t pair[2], bool *there, sft_error *err) {
    uint64_t at;

    SFT_TRY(field_at(b, t, slot, 16, &at, err));
    *there = at != 0;
    for (uint32_t i = 0; i < 2; i++) {
        pair[i] = 0;
        if (at != 0) {
            SFT_TRY(number_at(b, at + 8 * (uint64_t)i, 8, &pair[i], err));
        }
    }
    return SFT_OK;
}

sft_status sft__import_fb_inner(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                                sft__import_fb_table *inner, bool *there, sft_error *err) {
    uint64_t at;

    SFT_TRY(field_at(b, t, slot, 4, &at, err));
    *there = at != 0;
    if (!*there) {
        memset(inner, 0, sizeof *inner);
        return SFT_OK;
    }
    SFT_TRY(follow(b, at, &at, err));
    return table_at(b, at, inner, err);
}

/* ---------------------------------------------------------------- vectors and texts */

sft_status sft__import_fb_vector_of(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                                    uint32_t width, sft__import_fb_vector *v, sft_error *err) {
    uint64_t at;

    *v = (sft__import_fb_vector){0, 0, width};
    SFT_TRY(field_at(b, t, slot, 4, &at, err));
    if (at == 0) {
        return SFT_OK;
    }
    SFT_TRY(follow(b, at, &at, err));
    SFT_TRY(number_at(b, at, 4, &v->count, err));
    v->at = at + 4;
    if (v->count > (b->end - v->at) / width) {
        return sft__import_fb_bad(b, at, err, "a list of more items than the file has bytes for");
    }
    const uint64_t stop = v->at + v->count * width;
    b->reach = stop > b->reach ? stop : b->reach;
    return SFT_OK;
}

sft_status sft__import_fb_item(sft__import_fb *b, const sft__import_fb_vector *v, uint64_t i,
                               uint64_t *value, sft_error *err) {
    return number_at(b, v->at + i * v->width, v->width, value, err); /* the vector fits */
}

sft_status sft__import_fb_item_table(sft__import_fb *b, const sft__import_fb_vector *v, uint64_t i,
                                     sft__import_fb_table *t, sft_error *err) {
    uint64_t at = 0;

    SFT_TRY(follow(b, v->at + i * v->width, &at, err));
    return table_at(b, at, t, err);
}

sft_status sft__import_fb_text(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                               size_t most, const char **text, sft_error *err) {
    sft__import_fb_vector v;
    char *copy;

    SFT_TRY(sft__import_fb_vector_of(b, t, slot, 1, &v, err));
    if (v.count > most) {
        return sft__base_fail_at(err, SFT_E_LIMIT, v.at,
                                 "%s: a name of %llu bytes, %zu are the limit", b->what,
                                 (unsigned long long)v.count, most);
    }
    const size_t len = (size_t)v.count;
    SFT_TRY(sft__import_alloc(b->job, &copy, len + 1, 1, err));
    if (len > SFT__FB_WINDOW / 2) { /* charged as a window is */
        if (b->budget < len) {
            return sft__base_fail_at(err, SFT_E_LIMIT, v.at, "%s: more names than the file is long",
                                     b->what);
        }
        b->budget -= len;
        SFT_TRY(sft_source_read(b->job->file, v.at, copy, len, err));
    } else if (len != 0) {
        const uint8_t *bytes;
        SFT_TRY(bytes_at(b, v.at, len, &bytes, err));
        memcpy(copy, bytes, len);
    }
    copy[len] = '\0';
    const size_t good = sft__base_utf8_valid(copy, len);
    if (good != len) {
        return sft__base_fail_at(err, SFT_E_UTF8, v.at + good, "%s: a name that is not UTF-8",
                                 b->what);
    }
    if (strlen(copy) != len) {
        return sft__import_fb_bad(b, v.at, err, "a name with a NUL");
    }
    *text = copy;
    return SFT_OK;
}
