/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_grid.c - chunks by their places in the grid of a dataset, for all indexes. Read first:
 * hdf5.h.
 */
#include "import/hdf5/hdf5.h"

sft_status sft__import_h5_chunk_inside(const sft__import_h5 *h, const sft__import_h5_dataset *d,
                                       const sft__import_h5_chunk *chunk, sft_error *err) {
    if (chunk->addr > h->end || chunk->size > h->end - chunk->addr) {
        return sft__base_fail_tensor(
            err, SFT_E_SCHEMA, h->base + h->end, d->name, d->name_len,
            "hdf5: a chunk of %llu bytes at the address %llu, the file ends at "
            "%llu",
            (unsigned long long)chunk->size, (unsigned long long)chunk->addr,
            (unsigned long long)h->end);
    }
    return SFT_OK;
}

sft_status sft__import_h5_chunk_put(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                    sft__import_h5_chunks *c, const uint64_t *place,
                                    const sft__import_h5_chunk *chunk, sft_error *err) {
    uint64_t number = 0;

    if (chunk->addr == SFT__H5_UNDEF) {
        return SFT_OK;
    }
    for (uint32_t i = 0; i < d->rank; i++) {
        if (place[i] >= c->grid[i]) {
            return SFT_OK; /* left over from a larger shape */
        }
        number = number * c->grid[i] + place[i]; /* below the total, which fits */
    }
    SFT_TRY(sft__import_h5_chunk_inside(h, d, chunk, err));
    SFT_TRY(sft__import_h5_grow(h, &c->at, &c->room, c->count, sizeof *c->at, err));
    c->at[c->count] = *chunk;
    c->at[c->count++].place = number;
    return SFT_OK;
}

sft_status sft__import_h5_chunk_number(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                       sft__import_h5_chunks *c, uint64_t number,
                                       const sft__import_h5_chunk *chunk, sft_error *err) {
    uint64_t place[SFT__H5_RANK];

    for (uint32_t i = d->rank; i-- > 0;) {
        if (i != c->grows) {
            place[i] = c->most[i] != 0 ? number % c->most[i] : 0;
            number = c->most[i] != 0 ? number / c->most[i] : number;
        }
    }
    if (c->grows < d->rank) {
        place[c->grows] = number;
    } else if (number != 0) {
        return SFT_OK; /* beyond the largest shape */
    }
    return sft__import_h5_chunk_put(h, d, c, place, chunk, err);
}
