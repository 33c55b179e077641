/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/told.c - the CRC32C of a file of tensors as its header tells it: that of the header itself,
 * and those of the tensors that are recorded in it. Read steps.h first.
 */
#include "base/checked.h"
#include "base/text/buf.h"
#include "checkpoint/run/steps.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <stdlib.h>

typedef struct digest_order {
    const sft_tensor *tensor;
    size_t position;
} digest_order;

static int by_name(const void *a, const void *b) {
    const sft_tensor *const x = ((const digest_order *)a)->tensor;
    const sft_tensor *const y = ((const digest_order *)b)->tensor;
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int order = memcmp(x->name, y->name, n);
    return order != 0 ? order : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

/* The tensors' digests are in the header: eight digits for the description, then eight for each by its
 * name. They were taken of the bytes as they went out, so that those of the data need not be read again. */
static sft_status crc_of_data(const sft_catalog *c, uint32_t *crc, const sft_allocator *a,
                              sft_error *err) {
    const size_t count = sft_catalog_count(c);
    size_t len = 0;
    const char *const hex = sft_catalog_metadata_find(c, 0, "sft.crc32c", 10, &len);
    bool right = hex != NULL && len == 8 * (count + 1);
    if (!right) {
        return sft__base_fail(err, SFT_E_MISMATCH, "a file of tensors without CRC32C");
    }
    digest_order *const order = sft__base_alloc_array(a, count + 1, sizeof *order);
    uint32_t *const crcs = sft__base_alloc_array(a, count + 1, sizeof *crcs);
    if (order != NULL && crcs != NULL) {
        for (size_t i = 0; i < count; i++) {
            order[i] = (digest_order){sft_catalog_at(c, i), i};
        }
        qsort(order, count, sizeof *order, by_name);
        for (size_t i = 0; i < count; i++) {
            right = right && sft__base_hex32_read(&crcs[order[i].position], hex + 8 * (i + 1));
        }
        for (size_t i = 0; i < count && right; i++) { /* in the order of the file, without gaps */
            *crc = sft_crc32c_combine(*crc, crcs[i], sft_catalog_at(c, i)->nbytes);
        }
    }
    const bool done = order != NULL && crcs != NULL;
    sft__base_free(a, order, (count + 1) * sizeof *order);
    sft__base_free(a, crcs, (count + 1) * sizeof *crcs);
    if (!done) {
        return sft__base_fail_nomem(err, count * sizeof *order);
    }
    return right ? SFT_OK
                 : sft__base_fail(err, SFT_E_MISMATCH, "its digests are not lower-case hex");
}

sft_status sft__checkpoint_run_told_crc(const sft_catalog *c, uint32_t *crc, const sft_allocator *a,
                                        sft_error *err) {
    const uint64_t end = sft_catalog_file_at(c, 0)->data_offset;
    uint8_t piece[16384];
    *crc = 0;
    for (uint64_t at = 0; at < end; at += sizeof piece) {
        const size_t n = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        SFT_TRY(sft_source_read(sft_catalog_source_at(c, 0), at, piece, n, err));
        *crc = sft_crc32c(*crc, piece, n);
    }
    return crc_of_data(c, crc, a, err);
}
