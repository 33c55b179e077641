/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/header_build.c - from declared tensors to the header's bytes, exactly as the reference
 * writes them: compact JSON, `__metadata__` first, tensors in the order of their data, blanks up to
 * a multiple of 8. Its own deviations: metadata keys are sorted (the reference's order is random),
 * an empty metadata object is valid without tensors, and a tensor called `__metadata__` or a name
 * given twice is refused.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "base/text/utf8.h"
#include "format/build.h"
#include "format/emit.h"

enum { MAX_ALIGNMENT = 1 << 20 };
#define DEFAULT_HEADER_BYTES UINT64_C(100000000)
#define DEFAULT_RANK         UINT64_C(1024)
#define MAX_TENSORS          UINT64_C(2147483647)

static const sft_limits *limits_of(const sft_write_options *options) {
    static const sft_limits none;
    return options != NULL && options->limits != NULL ? options->limits : &none;
}

/* Fails for the tensor of an entry. */
#define FAIL(err, e, status, ...)                                                                  \
    sft__base_fail_tensor(err, status, SFT_NO_OFFSET, (e)->name, (e)->name_len, __VA_ARGS__)

/* ---------------------------------------------------------------- one tensor */

static sft_status check_name(const sft__format_entry *e, const sft_limits *limits, sft_error *err) {
    if (e->name == NULL && e->name_len != 0) {
        return sft__base_fail(err, SFT_E_ARG, "tensor without a name");
    }
    if (sft__base_utf8_valid(e->name, e->name_len) != e->name_len) {
        return FAIL(err, e, SFT_E_ARG, "tensor name is not UTF-8");
    }
    if (e->name_len == 12 && memcmp(e->name, "__metadata__", 12) == 0) {
        return FAIL(err, e, SFT_E_ARG, "a tensor cannot be called __metadata__");
    }
    if (limits->name_bytes != 0 && e->name_len > limits->name_bytes) {
        return FAIL(err, e, SFT_E_LIMIT, "tensor name of %llu bytes, the limit is %llu",
                    (unsigned long long)e->name_len, (unsigned long long)limits->name_bytes);
    }
    return SFT_OK;
}

/* The size as readers compute it: the product from left to right, then bits. */
static sft_status measure(sft__format_entry *e, const sft_limits *limits, sft_error *err) {
    const uint64_t rank_limit = limits->rank != 0 ? limits->rank : DEFAULT_RANK;
    uint64_t elements = 1;
    sft_error inner;

    if (e->dtype == NULL || (e->rank != 0 && e->shape == NULL)) {
        return FAIL(err, e, SFT_E_ARG, "tensor without dtype or shape");
    }
    if (sft_dtype_get(e->dtype->id) == NULL) {
        return FAIL(err, e, SFT_E_UNSUPPORTED, "dtype %s is not part of the safetensors format",
                    e->dtype->name);
    }
    if (e->rank > rank_limit) {
        return FAIL(err, e, SFT_E_LIMIT, "%u dimensions, the limit is %llu", e->rank,
                    (unsigned long long)rank_limit);
    }
    for (uint32_t d = 0; d < e->rank; d++) {
        if (!sft__base_mul64(elements, e->shape[d], &elements)) {
            return FAIL(err, e, SFT_E_OVERFLOW, "shape has 2^64 elements or more");
        }
    }
    const sft_status status = sft_dtype_bytes(sft_dtype_get(e->dtype->id), elements, &e->nbytes,
                                              err != NULL ? &inner : NULL);
    return status == SFT_OK ? SFT_OK : FAIL(err, e, status, "%s", err != NULL ? inner.message : "");
}

static sft_status check_unique(const sft__format_entry *entries, size_t count,
                               const sft_allocator *allocator, sft_error *err) {
    sft__base_strmap names;
    sft_status status = SFT_OK;

    SFT_NEED(sft__base_strmap_init(&names, entries, sizeof *entries, count, allocator),
             count * 2 * sizeof *names.slots, err);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        if (sft__base_strmap_add(&names, i) != SFT__STRMAP_NONE) {
            status = FAIL(err, &entries[i], SFT_E_DUPLICATE, "tensor name given twice");
        }
    }
    sft__base_strmap_reset(&names);
    return status;
}

/* ---------------------------------------------------------------- order */

static bool entry_before(const void *items, uint32_t a, uint32_t b) {
    const sft__format_entry *const x = (const sft__format_entry *)items + a;
    const sft__format_entry *const y = (const sft__format_entry *)items + b;
    if (x->dtype->id != y->dtype->id) {
        return x->dtype->id > y->dtype->id;
    }
    return sft__format_name_compare(x->name, x->name_len, y->name, y->name_len) < 0;
}

static sft_status order_by_reference(const sft__format_entry *entries, size_t count,
                                     uint32_t *order, const sft_allocator *allocator,
                                     sft_error *err) {
    const size_t bytes = count * sizeof *order; /* cannot overflow: the caller has such an array */
    uint32_t *room;
    const uint32_t *sorted;
    size_t ordered = 1;

    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    while (ordered < count && entry_before(entries, (uint32_t)ordered - 1, (uint32_t)ordered)) {
        ordered++;
    }
    if (ordered >= count) {
        return SFT_OK;
    }
    room = sft__base_alloc(allocator, bytes);
    SFT_NEED(room != NULL, bytes, err);
    sorted = sft__format_merge_sort(order, room, count, entry_before, entries);
    if (sorted != order) {
        memcpy(order, sorted, bytes);
    }
    sft__base_free(allocator, room, bytes);
    return SFT_OK;
}

/* entries[].position is still free and marks what the list has named: UINT32_MAX is not yet. */
static sft_status order_by_list(sft__format_entry *entries, size_t count, uint32_t *order,
                                const sft_write_options *options, sft_error *err) {
    if (options->order_count != count || (count != 0 && options->order_list == NULL)) {
        return sft__base_fail(err, SFT_E_ARG, "order list has %llu items for %llu tensors",
                              (unsigned long long)options->order_count, (unsigned long long)count);
    }
    for (size_t i = 0; i < count; i++) {
        entries[i].position = UINT32_MAX;
    }
    for (size_t p = 0; p < count; p++) {
        const uint32_t i = options->order_list[p];
        if (i >= count || entries[i].position != UINT32_MAX) {
            return sft__base_fail(err, SFT_E_ARG, "order list names tensor %u %s", i,
                                  i >= count ? "of which there is none" : "twice");
        }
        entries[i].position = (uint32_t)p;
        order[p] = i;
    }
    return SFT_OK;
}

sft_status sft__format_layout(sft__format_entry *entries, size_t count,
                              const sft_write_options *options, uint32_t *order_out,
                              uint64_t *data_bytes, sft_error *err) {
    const sft_limits *const limits = limits_of(options);
    const sft_allocator *const allocator = options != NULL ? options->allocator : NULL;
    const uint64_t most =
        limits->tensors != 0 && limits->tensors < MAX_TENSORS ? limits->tensors : MAX_TENSORS;
    const sft_order order = options != NULL ? options->order : SFT_ORDER_REFERENCE;
    uint64_t at = 0;

    *data_bytes = 0;
    if (count > most) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu tensors, the limit is %llu",
                              (unsigned long long)count, (unsigned long long)most);
    }
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(check_name(&entries[i], limits, err));
        SFT_TRY(measure(&entries[i], limits, err));
    }
    SFT_TRY(check_unique(entries, count, allocator, err));
    if (order == SFT_ORDER_REFERENCE) {
        SFT_TRY(order_by_reference(entries, count, order_out, allocator, err));
    } else if (order == SFT_ORDER_LIST) {
        SFT_TRY(order_by_list(entries, count, order_out, options, err));
    } else if (order != SFT_ORDER_DECLARED) {
        return sft__base_fail(err, SFT_E_ARG, "order %d is none of the known ones", (int)order);
    }
    for (size_t p = 0; p < count; p++) {
        if (order == SFT_ORDER_DECLARED) {
            order_out[p] = (uint32_t)p;
        }
        sft__format_entry *const e = &entries[order_out[p]];
        e->position = (uint32_t)p;
        e->begin = at;
        if (!sft__base_add64(at, e->nbytes, &at)) {
            return FAIL(err, e, SFT_E_OVERFLOW, "data section grows beyond 2^64 bytes");
        }
    }
    *data_bytes = at;
    return SFT_OK;
}

/* ---------------------------------------------------------------- text */

static void emit_entry(sft__base_buf *out, const sft__format_entry *e) {
    sft__base_json_string(out, e->name, e->name_len);
    sft__base_buf_text(out, ":{\"dtype\":\"");
    sft__base_buf_text(out, e->dtype->name);
    sft__base_buf_text(out, "\",\"shape\":[");
    for (uint32_t d = 0; d < e->rank; d++) {
        sft__base_buf_add(out, ",", d != 0 ? 1 : 0);
        sft__base_buf_u64(out, e->shape[d]);
    }
    sft__base_buf_text(out, "],\"data_offsets\":[");
    sft__base_buf_u64(out, e->begin);
    sft__base_buf_add(out, ",", 1);
    sft__base_buf_u64(out, e->begin + e->nbytes);
    sft__base_buf_text(out, "]}");
}

static sft_status alignment_of(const sft_write_options *options, uint64_t *alignment,
                               sft_error *err) {
    const uint64_t wanted = options != NULL ? options->data_alignment : 0;
    *alignment = wanted == 0 ? 8 : wanted;
    if (*alignment < 8 || *alignment > MAX_ALIGNMENT || (*alignment & (*alignment - 1)) != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "data alignment %llu, needed a power of two from 8 to %d",
                              (unsigned long long)wanted, MAX_ALIGNMENT);
    }
    return SFT_OK;
}

sft_status sft__format_header_build(sft__base_buf *out, const sft__format_contents *contents,
                                    const sft_write_options *options, sft_error *err) {
    const sft_metadata_entry *const metadata = contents->metadata;
    const size_t count = contents->count;
    const sft_limits *const limits = limits_of(options);
    const uint64_t limit = limits->header_bytes != 0 ? limits->header_bytes : DEFAULT_HEADER_BYTES;
    const uint64_t reserve = options != NULL ? options->reserve_bytes : 0;
    const size_t start = out->len;
    uint64_t alignment;
    uint64_t text;
    uint64_t padded;

    SFT_TRY(alignment_of(options, &alignment, err));
    if (reserve > limit) {
        return sft__base_fail(err, SFT_E_HEADER_TOO_LARGE,
                              "%llu bytes to reserve, the header limit is %llu",
                              (unsigned long long)reserve, (unsigned long long)limit);
    }
    sft__base_buf_fill(out, '\0', 8);
    sft__base_buf_add(out, "{", 1);
    if (metadata != NULL || reserve != 0) {
        sft__base_buf_text(out, "\"__metadata__\":");
        SFT_TRY(sft__format_metadata_build(
            out, metadata, metadata != NULL ? contents->metadata_count : 0, reserve, err));
        sft__base_buf_add(out, ",", count != 0 ? 1 : 0);
    }
    for (size_t p = 0; p < count && !out->failed; p++) {
        sft__base_buf_add(out, ",", p != 0 ? 1 : 0);
        emit_entry(out, &contents->entries[contents->order[p]]);
    }
    sft__base_buf_add(out, "}", 1);
    text = out->len - start; /* cannot overflow below: a buffer is far from 2^64 - 2^20 */
    padded = (text + alignment - 1) & ~(alignment - 1);
    sft__base_buf_fill(out, ' ', (size_t)(padded - text));
    SFT_NEED(!out->failed, (size_t)padded, err);
    if (padded - 8 > limit) {
        return sft__base_fail(err, SFT_E_HEADER_TOO_LARGE,
                              "header of %llu bytes, the limit is %llu",
                              (unsigned long long)(padded - 8), (unsigned long long)limit);
    }
    sft__base_store_le64(out->data + start, padded - 8);
    return SFT_OK;
}
