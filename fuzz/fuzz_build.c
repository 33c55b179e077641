/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_build.c - bytes as a list of tensors and metadata: what lays out and builds must parse, with the
 * same facts, sorted as the reference sorts; what does not must be refused with a reason.
 */
#include "fuzz.h"

#include "format/build.h"
#include "format/header.h"

enum { MAX_TENSORS = 8, MAX_RANK = 4, MAX_PAIRS = 4 };

typedef struct reader {
    const uint8_t *at;
    size_t left;
} reader;

static uint8_t take(reader *r) {
    if (r->left == 0) {
        return 0;
    }
    r->left--;
    return *r->at++;
}

/* Up to seven bytes of the input. */
static const char *take_text(reader *r, size_t *len) {
    const char *text = (const char *)r->at;
    *len = take(r) % 8;
    *len = *len < r->left ? *len : r->left;
    text = (const char *)r->at;
    r->at += *len;
    r->left -= *len;
    return text;
}

static void check_facts(const sft__format_header *h, const sft__format_entry *entries,
                        const uint32_t *order, size_t count, bool sorted) {
    CHECK(h->tensor_count == count);
    for (size_t p = 0; p < count; p++) {
        const sft__format_entry *e = &entries[order[p]];
        const sft_tensor *t = &h->tensors[p];
        CHECK(e->position == p && t->name_len == e->name_len);
        CHECK(memcmp(t->name, e->name, e->name_len) == 0 && t->dtype->id == e->dtype->id);
        CHECK(t->rank == e->rank && t->nbytes == e->nbytes);
        CHECK(t->rank == 0 || memcmp(t->shape, e->shape, t->rank * sizeof *t->shape) == 0);
        CHECK(t->pieces[0].offset == 8 + h->header_bytes + e->begin);
        CHECK(!sorted || p == 0 || entries[order[p - 1]].dtype->id >= e->dtype->id);
    }
}

static void check_parses(const sft__base_buf *b, uint64_t bytes, const sft__format_entry *entries,
                         const uint32_t *order, size_t count, size_t pairs, bool sorted) {
    const size_t len = b->len - 8;
    char *text = malloc(len + SFT__HEADER_SLACK);
    sft_open_options options;
    sft__format_header h;
    sft_error err;
    SFT_INIT(&options);
    CHECK(text != NULL && sft__base_load_le64(b->data) == len && len % 8 == 0);
    memcpy(text, b->data + 8, len);
    CHECK(sft__format_header_parse(&h, text, len, b->len + bytes, &options, &err) == SFT_OK);
    CHECK(h.metadata_count == pairs);
    check_facts(&h, entries, order, count, sorted);
    for (size_t i = 1; i < pairs; i++) { /* sorted keys; all are different */
        const sft_metadata_entry *x = &h.metadata[i - 1];
        const size_t shorter = x[0].key_len < x[1].key_len ? x[0].key_len : x[1].key_len;
        const int c = memcmp(x[0].key, x[1].key, shorter);
        CHECK(c < 0 || (c == 0 && x[0].key_len < x[1].key_len));
    }
    sft__format_header_reset(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t shapes[MAX_TENSORS][MAX_RANK];
    sft__format_entry entries[MAX_TENSORS];
    sft_metadata_entry pairs[MAX_PAIRS + 1];
    uint32_t order[MAX_TENSORS];
    reader r = {data, size};
    sft_write_options options;
    sft_error err;
    uint64_t bytes;
    sft__base_buf b;
    const uint8_t mode = take(&r);
    const size_t count = take(&r) % (MAX_TENSORS + 1);
    const size_t pair_count = take(&r) % (MAX_PAIRS + 1);

    SFT_INIT(&options);
    options.order = (mode & 1) != 0 ? SFT_ORDER_DECLARED : SFT_ORDER_REFERENCE;
    options.data_alignment = (uint64_t)8 << ((mode >> 1) & 3);
    options.reserve_bytes = (mode >> 3) & 7;
    memset(entries, 0, sizeof entries);
    memset(&err, 0, sizeof err);
    for (size_t i = 0; i < count; i++) {
        entries[i].dtype = sft_dtype_get(1u + take(&r) % SFT_DTYPE_COUNT);
        entries[i].rank = take(&r) % (MAX_RANK + 1);
        entries[i].shape = shapes[i];
        for (uint32_t d = 0; d < entries[i].rank; d++) {
            const uint8_t v = take(&r);
            shapes[i][d] = v < 200 ? v % 16 : UINT64_MAX >> (v - 200);
        }
        entries[i].name = take_text(&r, &entries[i].name_len);
    }
    for (size_t i = 0; i < pair_count; i++) {
        pairs[i].key = take_text(&r, &pairs[i].key_len);
        pairs[i].value = take_text(&r, &pairs[i].value_len);
    }
    sft__base_buf_init(&b, NULL);
    sft_status status = sft__format_layout(entries, count, &options, order, &bytes, &err);
    if (status == SFT_OK) {
        const sft__format_contents contents = {entries, order, count,
                                               (mode & 64) != 0 ? pairs : NULL, pair_count};
        status = sft__format_header_build(&b, &contents, &options, &err);
    }
    if (status != SFT_OK) {
        CHECK(err.status == (int32_t)status && err.message[0] != '\0');
    } else if (bytes <= UINT64_MAX - b.len) {
        check_parses(&b, bytes, entries, order, count, (mode & 64) != 0 ? pair_count : 0,
                     (mode & 1) == 0);
    }
    sft__base_buf_reset(&b);
    return 0;
}
