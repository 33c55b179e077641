/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/json_emit.c - the __metadata__ object of headers as serde_json writes it, and the order of
 * names. Read first: format/build.h.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "format/build.h"
#include "format/emit.h"

int sft__format_name_compare(const char *a, size_t a_len, const char *b, size_t b_len) {
    const size_t len = a_len < b_len ? a_len : b_len;
    const int order = len == 0 ? 0 : memcmp(a, b, len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

uint32_t *sft__format_merge_sort(uint32_t *from, uint32_t *to, size_t n,
                                 sft__format_order_fn before, const void *items) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            const size_t mid = n - at < width ? n : at + width;
            const size_t end = n - at < 2 * width ? n : at + 2 * width;
            size_t a = at;
            size_t b = mid;
            for (size_t k = at; k < end; k++) {
                const bool right = a == mid || (b < end && before(items, from[b], from[a]));
                to[k] = from[right ? b : a];
                a += right ? 0 : 1;
                b += right ? 1 : 0;
            }
        }
        uint32_t *const other = from;
        from = to;
        to = other;
    }
    return from;
}

static bool key_before(const void *items, uint32_t a, uint32_t b) {
    const sft_metadata_entry *const m = items;
    return sft__format_name_compare(m[a].key, m[a].key_len, m[b].key, m[b].key_len) < 0;
}

static sft_status check_strings(const sft_metadata_entry *m, size_t count, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        if ((m[i].key == NULL && m[i].key_len != 0) ||
            (m[i].value == NULL && m[i].value_len != 0)) {
            return sft__base_fail(err, SFT_E_ARG, "metadata entry %llu has no string",
                                  (unsigned long long)i);
        }
        if (sft__base_utf8_valid(m[i].key, m[i].key_len) != m[i].key_len) {
            return sft__base_fail(err, SFT_E_ARG, "metadata key %llu is not UTF-8",
                                  (unsigned long long)i);
        }
        if (sft__base_utf8_valid(m[i].value, m[i].value_len) != m[i].value_len) {
            return sft__base_fail(err, SFT_E_ARG, "metadata value %llu is not UTF-8",
                                  (unsigned long long)i);
        }
    }
    return SFT_OK;
}

static sft_status emit_sorted(sft__base_buf *out, const sft_metadata_entry *m,
                              const uint32_t *order, size_t count, sft_error *err) {
    char shown[64];
    for (size_t i = 0; i < count; i++) {
        const sft_metadata_entry *const e = &m[order[i]];
        if (i != 0 && !key_before(m, order[i - 1], order[i])) {
            (void)sft__base_escape(shown, sizeof shown, e->key, e->key_len);
            return sft__base_fail(err, SFT_E_DUPLICATE, "metadata key \"%s\" given twice", shown);
        }
        sft__base_buf_add(out, ",", i != 0 ? 1 : 0);
        sft__base_json_string(out, e->key, e->key_len);
        sft__base_buf_add(out, ":", 1);
        sft__base_json_string(out, e->value, e->value_len);
    }
    return SFT_OK;
}

sft_status sft__format_metadata_build(sft__base_buf *out, const sft_metadata_entry *metadata,
                                      size_t count, uint64_t blanks, sft_error *err) {
    const size_t bytes = 2 * count * sizeof(uint32_t);
    uint32_t *order = NULL;
    sft_status status = SFT_OK;

    if (count > UINT32_MAX / sizeof(uint32_t) || blanks > UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "metadata of %llu entries and %llu reserved bytes",
                              (unsigned long long)count, (unsigned long long)blanks);
    }
    SFT_TRY(check_strings(metadata, count, err));
    sft__base_buf_add(out, "{", 1);
    if (count != 0) {
        order = sft__base_alloc(out->allocator, bytes);
        SFT_NEED(order != NULL, bytes, err);
        for (size_t i = 0; i < count; i++) {
            order[i] = (uint32_t)i;
        }
        status = emit_sorted(
            out, metadata,
            sft__format_merge_sort(order, order + count, count, key_before, metadata), count, err);
        sft__base_free(out->allocator, order, bytes);
    }
    sft__base_buf_fill(out, ' ', (size_t)blanks);
    sft__base_buf_add(out, "}", 1);
    if (status == SFT_OK && out->failed) {
        status = sft__base_fail_nomem(err, out->len);
    }
    return status;
}
