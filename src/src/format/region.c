/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/region.c - slices as Python writes and means them: "0:2, ::-1, 3, ...". The arithmetic is
 * that of slice.indices(), done on unsigned numbers since a dimension may be larger than 2^63.
 */
#include "base/checked.h"
#include "base/error.h"
#include <sft/region.h>

/* ---------------------------------------------------------------- text */

typedef struct reader {
    const char *text;
    size_t at;
    size_t len;
    sft_error *err;
} reader;

static char peek(const reader *r) {
    return r->at < r->len ? r->text[r->at] : '\0';
}

static void skip_blanks(reader *r) {
    while (peek(r) == ' ' || peek(r) == '\t') {
        r->at++;
    }
}

static bool at_digit(const reader *r) {
    return peek(r) >= '0' && peek(r) <= '9';
}

/* An optional integer; *given false if there is none. Numbers beyond 64 bits become the largest or
 * smallest: clipping a range gives the same, and no index is that large. */
static sft_status read_int(reader *r, int64_t *value, bool *given) {
    const uint64_t limit = INT64_MAX;
    uint64_t v = 0;
    bool minus;

    skip_blanks(r);
    minus = peek(r) == '-';
    *given = minus || peek(r) == '+' || at_digit(r);
    if (!*given) {
        return SFT_OK;
    }
    r->at += at_digit(r) ? 0 : 1;
    if (!at_digit(r)) {
        return sft__base_fail_at(r->err, SFT_E_ARG, r->at,
                                 "slice: expected a digit behind the sign");
    }
    for (; at_digit(r); r->at++) {
        const uint64_t digit = (uint64_t)(peek(r) - '0');
        v = v > (limit - digit) / 10 ? limit : v * 10 + digit;
    }
    *value = minus ? -(int64_t)v : (int64_t)v;
    skip_blanks(r);
    return SFT_OK;
}

static sft_status read_item(reader *r, sft_slice *out) {
    bool given;
    const size_t start = r->at;

    memset(out, 0, sizeof *out);
    out->start = SFT_OMIT;
    out->stop = SFT_OMIT;
    out->step = 1;
    if (r->len - r->at >= 3 && memcmp(r->text + r->at, "...", 3) == 0) {
        r->at += 3;
        out->kind = SFT_SLICE_ELLIPSIS;
        return SFT_OK;
    }
    SFT_TRY(read_int(r, &out->start, &given));
    if (peek(r) != ':') {
        out->kind = SFT_SLICE_INDEX;
        return given ? SFT_OK
                     : sft__base_fail_at(r->err, SFT_E_ARG, start,
                                         "slice: expected an index, start:stop:step, or ...");
    }
    r->at++;
    SFT_TRY(read_int(r, &out->stop, &given));
    if (peek(r) == ':') {
        size_t step_at;
        r->at++;
        skip_blanks(r);
        step_at = r->at;
        SFT_TRY(read_int(r, &out->step, &given));
        if (out->step == 0) {
            return sft__base_fail_at(r->err, SFT_E_ARG, step_at, "slice: step is 0");
        }
    }
    return SFT_OK;
}

sft_status sft_slice_parse(const char *text, size_t text_len, sft_slice *slices, size_t capacity,
                           size_t *count, sft_error *err) {
    reader r = {text, 0, text_len, err};
    size_t n = 0;

    *count = 0;
    skip_blanks(&r);
    while (r.at < r.len) {
        if (n == capacity) {
            return sft__base_fail_at(err, SFT_E_ARG, r.at, "slice: more than %llu items",
                                     (unsigned long long)capacity);
        }
        SFT_TRY(read_item(&r, &slices[n]));
        n++;
        skip_blanks(&r);
        if (r.at < r.len && peek(&r) != ',') {
            return sft__base_fail_at(err, SFT_E_ARG, r.at, "slice: expected ',' between items");
        }
        r.at += r.at < r.len ? 1 : 0; /* as in Python, a comma may end the list */
        skip_blanks(&r);
    }
    *count = n;
    return SFT_OK;
}

/* ---------------------------------------------------------------- meaning */

/* Distance of a negative number from 0. */
static uint64_t magnitude(int64_t v) {
    return 0 - (uint64_t)v;
}

/* For ascending ranges: v clipped to 0..size. */
static uint64_t clip_up(int64_t v, uint64_t size) {
    if (v < 0) {
        return magnitude(v) > size ? 0 : size - magnitude(v);
    }
    return (uint64_t)v > size ? size : (uint64_t)v;
}

/* For descending ranges: v clipped to -1..size - 1, plus 1. */
static uint64_t clip_down(int64_t v, uint64_t size) {
    if (v < 0) {
        return magnitude(v) > size ? 0 : size - magnitude(v) + 1;
    }
    return (uint64_t)v >= size ? size : (uint64_t)v + 1;
}

static void resolve_range(const sft_slice *s, uint64_t size, sft_dim *out) {
    out->step = s->step;
    if (s->step > 0) {
        const uint64_t start = s->start == SFT_OMIT ? 0 : clip_up(s->start, size);
        const uint64_t stop = s->stop == SFT_OMIT ? size : clip_up(s->stop, size);
        out->count = start < stop ? stop - start : 0;
        if (s->step != 1) { /* a division costs more than all the rest */
            out->count =
                out->count / (uint64_t)s->step + (out->count % (uint64_t)s->step != 0 ? 1 : 0);
        }
        out->start = out->count != 0 ? start : 0;
    } else {
        const uint64_t start = s->start == SFT_OMIT ? size : clip_down(s->start, size);
        const uint64_t stop = s->stop == SFT_OMIT ? 0 : clip_down(s->stop, size);
        out->count = start > stop ? (start - stop - 1) / magnitude(s->step) + 1 : 0;
        out->start = out->count != 0 ? start - 1 : 0;
    }
}

static sft_status resolve_one(const sft_slice *s, size_t dimension, uint64_t size, sft_dim *out,
                              sft_error *err) {
    out->dropped = 0;
    out->reserved = 0;
    if (s->kind == SFT_SLICE_RANGE) {
        if (s->step == 0) {
            return sft__base_fail(err, SFT_E_ARG, "slice: step is 0 in dimension %llu",
                                  (unsigned long long)dimension);
        }
        resolve_range(s, size, out);
        return SFT_OK;
    }
    if (s->kind != SFT_SLICE_INDEX || s->start == SFT_OMIT) {
        return sft__base_fail(err, SFT_E_ARG, "slice: invalid item for dimension %llu",
                              (unsigned long long)dimension);
    }
    if (s->start < 0 ? magnitude(s->start) > size : (uint64_t)s->start >= size) {
        return sft__base_fail(
            err, SFT_E_RANGE, "index %lld is out of range for dimension %llu of size %llu",
            (long long)s->start, (unsigned long long)dimension, (unsigned long long)size);
    }
    out->start = s->start < 0 ? size - magnitude(s->start) : (uint64_t)s->start;
    out->count = 1;
    out->step = 1;
    out->dropped = 1;
    return SFT_OK;
}

sft_status sft_slice_resolve(const sft_slice *slices, size_t slice_count, const uint64_t *shape,
                             size_t rank, sft_dim *dims, sft_error *err) {
    static const sft_slice whole = {SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0};
    size_t ellipses = 0;
    size_t d = 0;

    for (size_t i = 0; i < slice_count; i++) {
        ellipses += slices[i].kind == SFT_SLICE_ELLIPSIS ? 1 : 0;
    }
    if (ellipses > 1) {
        return sft__base_fail(err, SFT_E_ARG, "slice: more than one ellipsis");
    }
    if (slice_count - ellipses > rank) {
        return sft__base_fail(err, SFT_E_ARG, "slice: %llu items for a tensor of %llu dimensions",
                              (unsigned long long)(slice_count - ellipses),
                              (unsigned long long)rank);
    }
    for (size_t i = 0; i < slice_count; i++) {
        if (slices[i].kind == SFT_SLICE_ELLIPSIS) {
            for (size_t missing = rank - (slice_count - 1); missing > 0; missing--, d++) {
                SFT_TRY(resolve_one(&whole, d, shape[d], &dims[d], err));
            }
        } else {
            SFT_TRY(resolve_one(&slices[i], d, shape[d], &dims[d], err));
            d++;
        }
    }
    for (; d < rank; d++) {
        SFT_TRY(resolve_one(&whole, d, shape[d], &dims[d], err));
    }
    return SFT_OK;
}
