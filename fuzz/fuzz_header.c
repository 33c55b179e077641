/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_header.c - any bytes as a header. The first byte chooses options, the rest is the text. The
 * canonical and the general reader must agree in every respect; an accepted header must fulfil every promise
 * of format/header.h, every string and shape is read, and building it again must give the same facts.
 */
#include "fuzz.h"

#include "format/build.h"
#include "format/header.h"

static volatile uint64_t sink; /* what was read must be read */

static sft_status parse(sft__format_header *h, const uint8_t *text, size_t len, uint64_t file_size,
                        const sft_open_options *options, bool canonical, sft_error *err) {
    char *copy = malloc(len + SFT__HEADER_SLACK);
    CHECK(copy != NULL);
    if (len != 0) {
        memcpy(copy, text, len);
    }
    memset(copy + len, '"', SFT__HEADER_SLACK);
    memset(err, 0, sizeof *err);
    const sft_status status = sft__format_header_parse_as(
        h, (sft__format_text){copy, len, file_size}, options, canonical, err);
    CHECK(err->status == (int32_t)status);
    if (status != SFT_OK) {
        CHECK(h->text == NULL && h->tensors == NULL && h->tensor_count == 0);
        CHECK(err->message[0] != '\0' && memchr(err->message, '\n', sizeof err->message) == NULL);
        CHECK(err->offset == SFT_NO_OFFSET || err->offset <= file_size);
    }
    return status;
}

static void check_tensors(const sft__format_header *h) {
    uint64_t at = 8 + h->header_bytes;
    for (size_t i = 0; i < h->tensor_count; i++) {
        const sft_tensor *t = &h->tensors[i];
        uint64_t elements = 1;
        CHECK(t->name[t->name_len] == '\0' && t->piece_count == 1 && t->flags == 0);
        CHECK(sft__base_strmap_find(&h->names, t->name, t->name_len) == i);
        for (uint32_t d = 0; d < t->rank; d++) {
            elements *= t->shape[d];
        }
        CHECK(elements * sft_dtype_bits(t->dtype) / 8 == t->nbytes);
        CHECK(t->pieces[0].offset == at && t->pieces[0].nbytes == t->nbytes);
        at += t->nbytes;
    }
    CHECK(at == h->file_size);
}

static void check_metadata(const sft__format_header *h) {
    uint64_t sum = 0;
    for (size_t i = 0; i < h->metadata_count; i++) {
        const sft_metadata_entry *m = &h->metadata[i];
        CHECK(m->key[m->key_len] == '\0' && m->value[m->value_len] == '\0');
        for (size_t k = 0; k < m->key_len; k++) {
            sum += (uint8_t)m->key[k];
        }
        for (size_t k = 0; k < m->value_len; k++) {
            sum += (uint8_t)m->value[k];
        }
    }
    sink = sum;
    CHECK(h->has_metadata ? h->metadata_end > h->metadata_begin && h->metadata_begin >= 8
                          : h->metadata_begin == 0 && h->metadata_count == 0);
}

static void check_same(const sft__format_header *a, const sft__format_header *b, bool moved) {
    CHECK(a->tensor_count == b->tensor_count && a->metadata_count == b->metadata_count);
    CHECK(a->has_metadata == b->has_metadata);
    for (size_t i = 0; i < a->tensor_count; i++) {
        const sft_tensor *x = &a->tensors[i];
        const sft_tensor *y = &b->tensors[i];
        CHECK(x->name_len == y->name_len && memcmp(x->name, y->name, x->name_len) == 0);
        CHECK(x->dtype == y->dtype && x->rank == y->rank && x->nbytes == y->nbytes);
        CHECK(x->rank == 0 || memcmp(x->shape, y->shape, x->rank * sizeof *x->shape) == 0);
        CHECK(moved || x->pieces[0].offset == y->pieces[0].offset);
    }
    for (size_t i = 0; i < a->metadata_count && !moved; i++) {
        const sft_metadata_entry *x = &a->metadata[i];
        const sft_metadata_entry *y = &b->metadata[i];
        CHECK(x->key_len == y->key_len && memcmp(x->key, y->key, x->key_len) == 0);
        CHECK(x->value_len == y->value_len && memcmp(x->value, y->value, x->value_len) == 0);
    }
}

/* Builds a header from the facts and parses that. A tensor's declared order is its order in the file. */
static void check_rebuilt(const sft__format_header *h) {
    const size_t n = h->tensor_count;
    sft__format_entry *entries = calloc(n + 1, sizeof *entries);
    uint32_t *order = calloc(n + 1, sizeof *order);
    sft_metadata_entry none;
    sft_write_options options;
    sft__format_header again;
    sft_error err;
    uint64_t bytes;
    sft__base_buf b;

    SFT_INIT(&options);
    options.order = SFT_ORDER_DECLARED;
    CHECK(entries != NULL && order != NULL);
    for (size_t i = 0; i < n; i++) {
        entries[i].name = h->tensors[i].name;
        entries[i].name_len = h->tensors[i].name_len;
        entries[i].dtype = h->tensors[i].dtype;
        entries[i].shape = h->tensors[i].shape;
        entries[i].rank = h->tensors[i].rank;
    }
    sft__base_buf_init(&b, NULL);
    CHECK(sft__format_layout(entries, n, &options, order, &bytes, &err) == SFT_OK);
    CHECK(bytes == h->file_size - 8 - h->header_bytes);
    const sft__format_contents contents = {entries, order, n,
                                           h->metadata_count != 0 ? h->metadata
                                           : h->has_metadata      ? &none
                                                                  : NULL,
                                           h->metadata_count};
    CHECK(sft__format_header_build(&b, &contents, &options, &err) == SFT_OK);
    if (bytes <= UINT64_MAX - b.len) {
        CHECK(parse(&again, (const uint8_t *)b.data + 8, b.len - 8, b.len + bytes, NULL, true,
                    &err) == SFT_OK);
        check_same(h, &again, true);
        sft__format_header_reset(&again);
    }
    sft__base_buf_reset(&b);
    free(order);
    free(entries);
}

static void one(const uint8_t *text, size_t len, uint64_t file_size,
                const sft_open_options *options, uint64_t *wanted_size) {
    sft__format_header a;
    sft__format_header b;
    sft_error err_a;
    sft_error err_b;
    const sft_status status = parse(&a, text, len, file_size, options, true, &err_a);
    CHECK(parse(&b, text, len, file_size, options, false, &err_b) == status);
    *wanted_size = 0;
    if (status == SFT_OK) {
        check_tensors(&a);
        check_metadata(&a);
        check_same(&a, &b, false);
        if (options->limits->memory_bytes == 0 && options->limits->rank == 0) {
            check_rebuilt(&a);
        }
    } else {
        CHECK(memcmp(&err_a, &err_b, sizeof err_a) == 0);
        *wanted_size = status == SFT_E_COVERAGE ? err_a.expected : 0;
    }
    sft__format_header_reset(&a);
    sft__format_header_reset(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sft_open_options options;
    sft_limits limits;
    uint64_t wanted;
    uint64_t unused;

    if (size < 1) {
        return 0;
    }
    SFT_INIT(&options);
    SFT_INIT(&limits);
    options.limits = &limits;
    options.flags = (data[0] & 1) != 0 ? SFT_OPEN_STRICT : 0;
    limits.rank = (data[0] & 2) != 0 ? 3 : 0;
    limits.tensors = (data[0] & 4) != 0 ? 2 : 0;
    limits.name_bytes = (data[0] & 8) != 0 ? 4 : 0;
    data++;
    size--;
    one(data, size, 8 + (uint64_t)size, &options, &wanted);
    if (wanted > 8 + (uint64_t)size) { /* give it the data section that it asks for */
        one(data, size, wanted, &options, &unused);
    }
    return 0;
}
