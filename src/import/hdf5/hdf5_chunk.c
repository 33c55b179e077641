/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_chunk.c - where the chunks of a dataset lie: B-trees of version 1 and 2, a single
 * chunk, chunks one after the other; the arrays are in hdf5_array.c. Gives them in the order of
 * their places, none twice. Source: HDF5 File Format Specification, III.A.1, VII. Read first:
 * hdf5.h.
 */
#include "base/checked.h"
#include "import/hdf5/hdf5.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- B-trees of version 1 */

static sft_status tree1_node(sft__import_h5 *h, const sft__import_h5_dataset *d,
                             sft__import_h5_chunks *c, const sft__import_h5_node *n,
                             sft_error *err) {
    const size_t head = 8 + 2 * (size_t)h->offset_size;
    const size_t key = 8 + 8 * ((size_t)d->rank + 1);
    const size_t step = key + h->offset_size;
    uint64_t place[SFT__H5_RANK];
    uint8_t top[8];

    SFT_TRY(sft__import_h5_read(h, n->addr, top, sizeof top, "a B-tree of chunks", err));
    const uint32_t count = sft__base_load_le16(top + 6);
    if (memcmp(top, "TREE", 4) != 0 || top[4] != 1 ||
        (n->level != UINT32_MAX && top[5] != n->level)) {
        return sft__import_h5_bad(h, n->addr, err, "no node of the B-tree of chunks of this level");
    }
    SFT_TRY(
        sft__import_h5_block(h, &h->node, n->addr, head + count * step, "a B-tree of chunks", err));
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *p = h->node.data + head + i * step;
        sft__import_h5_in in = {p + key, h->offset_size, false};
        sft__import_h5_chunk chunk = {0, sft__import_h5_take_addr(h, &in), sft__base_load_le32(p),
                                      sft__base_load_le32(p + 4)};
        if (top[5] != 0) {
            SFT_TRY(sft__import_h5_push(h, chunk.addr, 0, top[5] - 1u, err));
            continue;
        }
        for (uint32_t k = 0; k < d->rank; k++) {
            const uint64_t at = sft__base_load_le64(p + 8 + 8 * (size_t)k);
            place[k] = at / d->chunk[k];
            if (at % d->chunk[k] != 0) {
                return sft__import_h5_bad(h, n->addr, err,
                                          "a chunk that does not begin at its place");
            }
        }
        SFT_TRY(sft__import_h5_chunk_put(h, d, c, place, &chunk, err));
    }
    return SFT_OK;
}

static sft_status tree1(sft__import_h5 *h, const sft__import_h5_dataset *d,
                        sft__import_h5_chunks *c, sft_error *err) {
    h->todo_count = 0;
    SFT_TRY(sft__import_h5_push(h, d->data, 0, UINT32_MAX, err));
    while (h->todo_count > 0) {
        const sft__import_h5_node n = h->todo[--h->todo_count];
        SFT_TRY(tree1_node(h, d, c, &n, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- B-trees of version 2 */

typedef struct records {
    sft__import_h5 *h;
    const sft__import_h5_dataset *d;
    sft__import_h5_chunks *c;
    bool filtered;
} records;

static sft_status each_chunk(void *ctx, const uint8_t *record, size_t size, sft_error *err) {
    const records *r = ctx;
    const size_t fixed = r->h->offset_size + 8 * (size_t)r->d->rank + (r->filtered ? 4u : 0u);
    sft__import_h5_in in = {record, size, false};
    sft__import_h5_chunk chunk = {0, 0, r->d->chunk_bytes, 0};
    uint64_t place[SFT__H5_RANK];

    if (size < fixed || size - fixed > 8 || (size != fixed) != r->filtered) {
        return sft__import_h5_bad(r->h, r->d->data, err, "records of chunks of another size");
    }
    chunk.addr = sft__import_h5_take_addr(r->h, &in);
    if (r->filtered) {
        chunk.size = sft__import_h5_take(&in, size - fixed);
        chunk.mask = (uint32_t)sft__import_h5_take(&in, 4);
    }
    for (uint32_t i = 0; i < r->d->rank; i++) {
        place[i] = sft__import_h5_take(&in, 8);
    }
    return sft__import_h5_chunk_put(r->h, r->d, r->c, place, &chunk, err);
}

static sft_status tree2(sft__import_h5 *h, const sft__import_h5_dataset *d,
                        sft__import_h5_chunks *c, sft_error *err) {
    records r = {h, d, c, d->filter_count != 0};
    return sft__import_h5_tree2(h, d->data, r.filtered ? 11 : 10, each_chunk, &r, err);
}

/* ---------------------------------------------------------------- without an index */

static sft_status single(sft__import_h5 *h, const sft__import_h5_dataset *d,
                         sft__import_h5_chunks *c, sft_error *err) {
    const uint64_t place[SFT__H5_RANK] = {0};
    const sft__import_h5_chunk chunk = {0, d->data, d->data_size, d->single_mask};
    return sft__import_h5_chunk_put(h, d, c, place, &chunk, err);
}

/* All chunks of the largest shape, one after the other. */
static sft_status implicit(sft__import_h5 *h, const sft__import_h5_dataset *d,
                           sft__import_h5_chunks *c, sft_error *err) {
    uint64_t all = 1;

    for (uint32_t i = 0; i < d->rank; i++) {
        if (c->most[i] == UINT64_MAX || !sft__base_mul64(all, c->most[i], &all)) {
            return sft__import_h5_bad(h, d->data, err,
                                      "chunks in a row of a dataset without a largest shape");
        }
    }
    if (d->filter_count != 0 || all > h->end / d->chunk_bytes) {
        return sft__import_h5_bad(h, d->data, err,
                                  "chunks in a row that are filtered, or beyond the file");
    }
    SFT_TRY(sft__import_h5_charge_places(h, d->addr, all, err));
    for (uint64_t i = 0; i < all; i++) { /* at most one for each chunk_bytes of the file */
        const sft__import_h5_chunk chunk = {0, d->data + i * d->chunk_bytes, d->chunk_bytes, 0};
        SFT_TRY(sft__import_h5_chunk_number(h, d, c, i, &chunk, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all kinds */

static int by_place(const void *a, const void *b) {
    const sft__import_h5_chunk *x = a;
    const sft__import_h5_chunk *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

static sft_status grids(const sft__import_h5_dataset *d, sft__import_h5_chunks *c, sft_error *err) {
    c->total = 1;
    c->grows = d->rank;
    for (uint32_t i = 0; i < d->rank; i++) {
        const uint64_t size = d->chunk[i];
        c->grid[i] = d->shape[i] / size + (d->shape[i] % size != 0);
        c->most[i] =
            d->most[i] == UINT64_MAX ? UINT64_MAX : d->most[i] / size + (d->most[i] % size != 0);
        if (!sft__base_mul64(c->total, c->grid[i],
                             &c->total)) { /* not empty: at most the elements */
            return sft__base_fail(err, SFT_E_OVERFLOW, "hdf5: 2^64 chunks or more");
        }
    }
    return SFT_OK;
}

sft_status sft__import_h5_chunks_read(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                      sft__import_h5_chunks *c, sft_error *err) {
    static sft_status (*const read[6])(sft__import_h5 *, const sft__import_h5_dataset *,
                                       sft__import_h5_chunks *, sft_error *) = {
        tree1, single, implicit, sft__import_h5_fixed_array, sft__import_h5_extensible_array,
        tree2};

    SFT_TRY(grids(d, c, err));
    if (d->data == SFT__H5_UNDEF) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_h5_charge_places(h, d->addr, c->total, err));
    SFT_TRY(read[d->index](h, d, c, err));
    if (c->count > 1) {
        qsort(c->at, c->count, sizeof *c->at, by_place);
    }
    for (size_t i = 1; i < c->count; i++) {
        if (c->at[i].place == c->at[i - 1].place) {
            return sft__base_fail_tensor(err, SFT_E_SCHEMA, h->base + c->at[i].addr, d->name,
                                         d->name_len, "hdf5: two chunks for the same place");
        }
    }
    return SFT_OK;
}
