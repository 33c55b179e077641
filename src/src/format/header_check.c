/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/header_check.c - the invariants of a set of tensors. Errors and tests cite their numbers:
 *
 *   H1  names are unique (the reference keeps the last one; a hazard that is refused here)
 *   H2  in the order of (begin, end), then of the header, the first tensor begins at 0 and every other
 *       where the one before it ends: no hole (HOLE), no overlap (OVERLAP)
 *   H3  begin <= end (OFFSETS)
 *   H4  the product of the shape, from left to right, stays below 2^64 (OVERFLOW): [0, 2^32, 2^32] is
 *       fine, [2^32, 2^32, 0] is not
 *   H5  elements times bits per element stay below 2^64 (OVERFLOW)
 *   H6  the bits are whole bytes (SUBBYTE)
 *   H7  end - begin is that many bytes (SIZE)
 *   H8  the last end is the size of the data section (COVERAGE)
 *
 * With SFT_OPEN_STRICT also:
 *   S1  the header's entries stand in the order of H2 (OFFSETS)
 */
#include "format/header_check.h"
#include "base/checked.h"

typedef struct sort_key {
    uint64_t begin;
    uint64_t end;
    uint32_t index;
} sort_key;

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* One round of a radix sort by the bits of begin or end from `shift` on; stable. */
static void sort_round(const sort_key *from, sort_key *to, size_t n, unsigned shift, bool by_end) {
    uint32_t next[DIGITS] = {0};
    uint32_t at = 0;

    for (size_t i = 0; i < n; i++) {
        next[((by_end ? from[i].end : from[i].begin) >> shift) & (DIGITS - 1)]++;
    }
    for (size_t d = 0; d < DIGITS; d++) {
        const uint32_t count = next[d];
        next[d] = at;
        at += count;
    }
    for (size_t i = 0; i < n; i++) {
        to[next[((by_end ? from[i].end : from[i].begin) >> shift) & (DIGITS - 1)]++] = from[i];
    }
}

/* Sorts by (begin, end), header order where both are equal, in time proportional to n for any
 * input. The result lies in the array that is returned. */
static sort_key *sort_keys(sort_key *from, sort_key *to, size_t n) {
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        most |= from[i].begin | from[i].end;
    }
    for (unsigned field = 0; field < 2; field++) {
        for (unsigned shift = 0; shift < 64 && (most >> shift) != 0; shift += DIGIT_BITS) {
            sort_key *const other = to;
            sort_round(from, to, n, shift, field == 0);
            to = from;
            from = other;
        }
    }
    return from;
}

/* Moves tensors and pieces to where the keys say, cycle by cycle; keys[i].index is what goes to i.
 */
static void permute(sft_tensor *tensors, sft_piece *pieces, sort_key *keys, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const sft_tensor tensor = tensors[i];
        const sft_piece piece = pieces[i];
        size_t to = i;
        while (keys[to].index != i) {
            const size_t from = keys[to].index;
            tensors[to] = tensors[from];
            pieces[to] = pieces[from];
            keys[to].index = (uint32_t)to; /* done */
            to = from;
        }
        tensors[to] = tensor;
        pieces[to] = piece;
        keys[to].index = (uint32_t)to;
    }
}

/* Does i follow i - 1 in the order of H2? */
static inline bool follows(const sft_piece *pieces, size_t i) {
    return pieces[i - 1].offset < pieces[i].offset ||
           (pieces[i - 1].offset == pieces[i].offset && pieces[i - 1].nbytes <= pieces[i].nbytes);
}

/* The absolute place of a tensor's name in the text, or of one of its values. */
static const char *name_place(const sft__format_scan *s, const sft_tensor *t) {
    return s->text + t->flags;
}

static const char *value_place(sft__format_scan *s, const sft_tensor *t, const char *member) {
    const char *p = name_place(s, t);
    sft__base_json_str raw;
    if (t->name == p + 1) {
        p = t->name + t->name_len + 1; /* its quote was overwritten */
    } else {
        p = sft__base_json_read(&s->json, p, &raw);
    }
    return sft__format_scan_member(s, sft__base_json_blank(sft__base_json_blank(p) + 1), member);
}

static bool fail_tensor(sft__format_scan *s, const sft_tensor *t, sft_status status,
                        const char *member, const char *what, uint64_t found, uint64_t needed) {
    s->name = t->name;
    s->name_len = t->name_len;
    (void)SFT__SCAN_FAIL(s, status, value_place(s, t, member), "%s %llu, needed %llu", what,
                         (unsigned long long)found, (unsigned long long)needed);
    return false;
}

static bool sort_by_offset(sft__format_header *h, sft_piece *pieces, sft__format_scan *s) {
    const size_t n = h->tensor_count;
    sort_key *keys;
    sort_key *sorted;
    size_t bytes;
    size_t first = 1;

    while (first < n && follows(pieces, first)) {
        first++;
    }
    if (first >= n) {
        return true;
    }
    if (s->strict) {
        return fail_tensor(s, &h->tensors[first], SFT_E_OFFSETS, "data_offsets",
                           "strict: entry not in the order of its data: begins at",
                           pieces[first].offset, pieces[first - 1].nbytes);
    }
    if (!sft__base_mul_size(n, 2 * sizeof *keys, &bytes) ||
        (keys = sft__base_alloc(h->arena.allocator, bytes)) == NULL) {
        s->status = sft__base_fail_nomem(s->err, n * 2 * sizeof *keys);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        keys[i].begin = pieces[i].offset;
        keys[i].end = pieces[i].nbytes;
        keys[i].index = (uint32_t)i;
    }
    sorted = sort_keys(keys, keys + n, n);
    permute(h->tensors, pieces, sorted, n);
    sft__base_free(h->arena.allocator, keys, bytes);
    return true;
}

/* H1, and the index by name. */
static bool index_names(sft__format_header *h, uint64_t *slots, sft__format_scan *s) {
    const size_t n = h->tensor_count;
    size_t other;
    size_t i;

    sft__base_strmap_init_at(&h->names, h->tensors, sizeof *h->tensors, slots,
                             sft__base_strmap_slots(n));
    i = sft__base_strmap_add_all(&h->names, n, &other);
    if (i != SFT__STRMAP_NONE) {
        const sft_tensor *const a = &h->tensors[i];
        const sft_tensor *const b = &h->tensors[other];
        const sft_tensor *const later = a->flags > b->flags ? a : b;
        s->name = later->name;
        s->name_len = later->name_len;
        (void)SFT__SCAN_FAIL(s, SFT_E_DUPLICATE, name_place(s, later),
                             "tensor name given twice, first at offset %llu",
                             8ull + (later == a ? b : a)->flags);
        return false;
    }
    return true;
}

/* H4 to H7 of one tensor of `bytes` = end - begin. */
static bool check_size(const sft_tensor *t, uint64_t bytes, sft__format_scan *s) {
    const uint32_t bits = sft__format_dtype_bits_of[t->dtype->id];
    uint64_t product = 1;
    uint64_t total;

    for (uint32_t d = 0; d < t->rank; d++) {
        if (!sft__base_mul64(product, t->shape[d], &product)) {
            s->name = t->name;
            s->name_len = t->name_len;
            (void)SFT__SCAN_FAIL(s, SFT_E_OVERFLOW, value_place(s, t, "shape"),
                                 "shape has 2^64 elements or more");
            return false;
        }
    }
    if (!sft__base_mul64(product, bits, &total)) {
        s->name = t->name;
        s->name_len = t->name_len;
        (void)SFT__SCAN_FAIL(s, SFT_E_OVERFLOW, value_place(s, t, "shape"),
                             "%llu elements of %s have 2^64 bits or more",
                             (unsigned long long)product, t->dtype->name);
        return false;
    }
    if (total % 8 != 0) {
        s->name = t->name;
        s->name_len = t->name_len;
        (void)SFT__SCAN_FAIL(s, SFT_E_SUBBYTE, value_place(s, t, "shape"),
                             "%llu elements of %s end inside a byte", (unsigned long long)product,
                             t->dtype->name);
        return false;
    }
    if (total / 8 != bytes) {
        return fail_tensor(s, t, SFT_E_SIZE, "data_offsets", "data_offsets span bytes", bytes,
                           total / 8);
    }
    return true;
}

static bool check_one(const sft_tensor *t, const sft_piece *piece, uint64_t expected,
                      sft__format_scan *s) {
    const uint64_t begin = piece->offset;
    const uint64_t end = piece->nbytes;
    if (SFT_UNLIKELY(begin != expected)) {
        return fail_tensor(s, t, begin < expected ? SFT_E_OVERLAP : SFT_E_HOLE, "data_offsets",
                           begin < expected ? "overlap: tensor begins at"
                                            : "hole: tensor begins at",
                           begin, expected);
    }
    if (SFT_UNLIKELY(end < begin)) {
        return fail_tensor(s, t, SFT_E_OFFSETS, "data_offsets",
                           "tensor ends before it begins: ends at", end, begin);
    }
    return check_size(t, end - begin, s);
}

/* The size that the file should have; not said if that is beyond 64 bits. */
static void set_expected(sft_error *err, uint64_t data_start, uint64_t covered) {
    if (err != NULL && covered <= UINT64_MAX - data_start) {
        err->expected = data_start + covered;
    }
}

/* H8. `covered` bytes of the data section belong to tensors. */
static bool check_coverage(sft__format_header *h, const sft_piece *pieces, uint64_t covered,
                           sft__format_scan *s) {
    const uint64_t data_start = 8 + h->header_bytes;
    const uint64_t data_bytes = h->file_size - data_start;
    size_t i = 0;

    if (covered == data_bytes) {
        return true;
    }
    if (covered < data_bytes) {
        s->status = sft__base_fail_at(s->err, SFT_E_COVERAGE, data_start + covered,
                                      "tensors end after %llu bytes of data, the file has %llu",
                                      (unsigned long long)covered, (unsigned long long)data_bytes);
        set_expected(s->err, data_start, covered);
        return false;
    }
    while (pieces[i].nbytes <= data_bytes) {
        i++; /* ends: the last one is `covered`, above data_bytes */
    }
    (void)fail_tensor(s, &h->tensors[i], SFT_E_COVERAGE, "data_offsets",
                      "file is too short for its tensors: bytes of data", data_bytes, covered);
    set_expected(s->err, data_start, covered);
    return false;
}

bool sft__format_header_check(sft__format_header *h, sft_piece *pieces, uint64_t *slots,
                              sft__format_scan *s) {
    const size_t n = h->tensor_count;
    const uint64_t data_start = 8 + h->header_bytes;
    uint64_t expected = 0;

    if (!sort_by_offset(h, pieces, s) || !index_names(h, slots, s)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!check_one(&h->tensors[i], &pieces[i], expected, s)) {
            return false;
        }
        expected = pieces[i].nbytes;
    }
    if (!check_coverage(h, pieces, expected, s)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        sft_piece *const piece = &pieces[i];
        h->tensors[i].nbytes = piece->nbytes - piece->offset;
        h->tensors[i].pieces = piece;
        h->tensors[i].flags = 0;
        piece->nbytes = h->tensors[i].nbytes;
        piece->offset += data_start;
    }
    return true;
}
