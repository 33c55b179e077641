/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_slice.c - a shape (first byte: rank; then one byte a dimension) and the text of slices: whatever
 * resolves lies inside the shape.
 */
#include "fuzz.h"

#include <sft/region.h>

enum { MAX_RANK = 6, MAX_ITEMS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t shape[MAX_RANK];
    sft_slice slices[MAX_ITEMS];
    sft_dim dims[MAX_RANK];
    sft_error err;
    size_t count = 99;
    size_t rank;

    if (size < 1 + MAX_RANK) {
        return 0;
    }
    rank = data[0] % (MAX_RANK + 1);
    for (size_t i = 0; i < MAX_RANK; i++) { /* small ones, and ones at the ends of the range */
        shape[i] = data[1 + i] < 240 ? data[1 + i] % 16 : UINT64_MAX - (255u - data[1 + i]);
    }
    memset(&err, 0, sizeof err);
    data += 1 + MAX_RANK;
    size -= 1 + MAX_RANK;
    if (sft_slice_parse((const char *)data, size, slices, MAX_ITEMS, &count, &err) != SFT_OK) {
        CHECK(err.status == SFT_E_ARG && err.offset <= size && count == 0);
        return 0;
    }
    CHECK(count <= MAX_ITEMS);
    if (sft_slice_resolve(slices, count, shape, rank, dims, &err) != SFT_OK) {
        CHECK(err.status == SFT_E_ARG || err.status == SFT_E_RANGE);
        return 0;
    }
    for (size_t i = 0; i < rank; i++) {
        const sft_dim *d = &dims[i];
        CHECK(d->count <= shape[i] && d->step != 0 && (d->dropped == 0 || d->count == 1));
        if (d->count != 0) {
            const uint64_t step = d->step < 0 ? 0 - (uint64_t)d->step : (uint64_t)d->step;
            CHECK(d->start < shape[i]);
            const uint64_t room = d->step < 0 ? d->start : shape[i] - 1 - d->start;
            CHECK(d->count - 1 <= room / step);
            CHECK(d->count == shape[i] || d->dropped != 0 || size != 0);
        }
    }
    return 0;
}
