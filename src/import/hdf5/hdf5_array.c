/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_array.c - indexes of chunks by number: fixed arrays, and extensible arrays for
 * datasets that grow in one dimension. Blocks may be in pages, each with a checksum; all are
 * compared. Source: HDF5 File Format Specification, VII.C, VII.D. Read first: hdf5.h.
 */
#include "base/checked.h"
#include "import/hdf5/hdf5.h"

typedef struct array {
    sft__import_h5 *h;
    const sft__import_h5_dataset *d;
    sft__import_h5_chunks *c;
    uint64_t addr;    /* of the header: its blocks repeat it */
    uint32_t element; /* bytes */
    uint64_t page;    /* elements in a page */
    uint64_t count;   /* elements of the array */
    uint32_t index_elements;
    uint32_t least;      /* elements of the smallest block */
    uint32_t pointers;   /* blocks of the smallest super block */
    uint32_t bits;       /* of an element's number */
    uint32_t bits_width; /* bytes of it */
} array;

static sft_status take_element(array *a, const uint8_t *p, uint64_t number, sft_error *err) {
    sft__import_h5_in in = {p, a->element, false};
    sft__import_h5_chunk chunk = {0, sft__import_h5_take_addr(a->h, &in), a->d->chunk_bytes, 0};

    if (a->d->filter_count != 0) {
        chunk.size = sft__import_h5_take(&in, a->element - a->h->offset_size - 4);
        chunk.mask = (uint32_t)sft__import_h5_take(&in, 4);
    }
    return sft__import_h5_chunk_number(a->h, a->d, a->c, number, &chunk, err);
}

static sft_status take_elements(array *a, const uint8_t *p, uint64_t first, uint64_t n,
                                sft_error *err) {
    for (uint64_t i = 0; i < n && first + i < a->count; i++) {
        SFT_TRY(take_element(a, p + i * a->element, first + i, err));
    }
    return SFT_OK;
}

/* Is the element of the size that the chunks need, and the header of the right client? */
static sft_status check_element(const array *a, uint8_t client, sft_error *err) {
    const uint32_t o = a->h->offset_size;
    const bool filtered = a->d->filter_count != 0;

    if (client != (filtered ? 1 : 0) ||
        (filtered ? a->element < o + 5 || a->element > o + 12 : a->element != o)) {
        return sft__import_h5_bad(a->h, a->addr, err,
                                  "an array of something that is not these chunks");
    }
    return SFT_OK;
}

/* The head of a block: signature, version, client, address of the header. */
static sft_status check_head(const array *a, const uint8_t *p, const char *signature, uint64_t addr,
                             sft_error *err) {
    sft__import_h5_in in = {p + 6, a->h->offset_size, false};
    return memcmp(p, signature, 4) == 0 && p[4] == 0 &&
                   sft__import_h5_take_addr(a->h, &in) == a->addr
               ? SFT_OK
               : sft__import_h5_bad(a->h, addr, err,
                                    "a block of an array that is not the one it should be");
}

/* Which pages were written: bits from `bit` on, the highest of a byte first. */
typedef struct written {
    const uint8_t *map;
    uint64_t bit;
} written;

static bool was_written(const written *w, uint64_t page) {
    const uint64_t bit = w->bit + page;
    return (w->map[bit / 8] & (0x80 >> (bit % 8))) != 0;
}

/* Pages of `n` elements from number `first` on. */
static sft_status take_pages(array *a, uint64_t addr, const written *w, uint64_t first, uint64_t n,
                             sft_error *err) {
    sft__import_h5 *h = a->h;

    SFT_TRY(sft__import_h5_charge_places(h, addr, n / a->page, err));
    for (uint64_t at = 0, page = 0; at < n; at += a->page, page++) {
        const uint64_t here = n - at < a->page ? n - at : a->page;
        const uint64_t bytes = here * a->element + 4;
        if (was_written(w, page)) {
            SFT_TRY(sft__import_h5_block(h, &h->more, addr, bytes, "a page of an array", err));
            SFT_TRY(sft__import_h5_sum(h, h->more.data, (size_t)bytes, addr, "a page of an array",
                                       err));
            SFT_TRY(take_elements(a, h->more.data, first + at, here, err));
        }
        addr += bytes;
    }
    return SFT_OK;
}

/* A block's head of n bytes and its checksum. */
static sft_status load(array *a, sft__import_h5_buf *buf, uint64_t addr, uint64_t n,
                       const char *signature, sft_error *err) {
    SFT_TRY(sft__import_h5_block(a->h, buf, addr, n, "a block of an array", err));
    SFT_TRY(sft__import_h5_sum(a->h, buf->data, (size_t)n, addr, "a block of an array", err));
    return check_head(a, buf->data, signature, addr, err);
}

/* ---------------------------------------------------------------- fixed arrays */

sft_status sft__import_h5_fixed_array(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                      sft__import_h5_chunks *c, sft_error *err) {
    array a = {.h = h, .d = d, .c = c, .addr = d->data};
    const size_t n = 12 + (size_t)h->length_size + h->offset_size;
    uint8_t head[32];

    SFT_TRY(sft__import_h5_read(h, a.addr, head, n, "a fixed array", err));
    if (memcmp(head, "FAHD", 4) != 0 || head[4] != 0) {
        return sft__import_h5_bad(h, a.addr, err, "a fixed array without its signature");
    }
    SFT_TRY(sft__import_h5_sum(h, head, n, a.addr, "a fixed array", err));
    a.element = head[6];
    SFT_TRY(check_element(&a, head[5], err));
    sft__import_h5_in in = {head + 8, n - 12, false};
    a.count = sft__import_h5_take(&in, h->length_size);
    const uint64_t block = sft__import_h5_take_addr(h, &in);
    a.page = head[7] < 32 ? UINT64_C(1) << head[7] : UINT64_MAX;
    if (block == SFT__H5_UNDEF) {
        return SFT_OK;
    }
    if (a.count > h->end / a.element || head[7] > 31) {
        return sft__import_h5_bad(h, a.addr, err, "a fixed array larger than the file");
    }
    const uint64_t top = 6 + h->offset_size;
    if (a.count <= a.page) {
        SFT_TRY(load(&a, &h->node, block, top + a.count * a.element + 4, "FADB", err));
        return take_elements(&a, h->node.data + top, 0, a.count, err);
    }
    const uint64_t pages = (a.count + a.page - 1) / a.page;
    const uint64_t all = top + (pages + 7) / 8 + 4;
    SFT_TRY(load(&a, &h->node, block, all, "FADB", err));
    const written w = {h->node.data + top, 0};
    return take_pages(&a, block + all, &w, 0, a.count, err);
}

/* ---------------------------------------------------------------- extensible arrays */

/* A block of `n` elements from number `first` on. w: NULL, or its pages that were written. */
static sft_status take_block(array *a, uint64_t addr, uint64_t first, uint64_t n, const written *w,
                             sft_error *err) {
    sft__import_h5 *h = a->h;
    const uint64_t top = 6 + h->offset_size + a->bits_width;

    if (addr == SFT__H5_UNDEF || first >= a->count) {
        return SFT_OK;
    }
    if (n > a->page && w != NULL) {
        SFT_TRY(load(a, &h->more, addr, top + 4, "EADB", err));
        return take_pages(a, addr + top + 4, w, first, n, err);
    }
    if (n > h->end / a->element) {
        return sft__import_h5_bad(h, addr, err, "a block of an array larger than the file");
    }
    SFT_TRY(load(a, &h->more, addr, top + n * a->element + 4, "EADB", err));
    return take_elements(a, h->more.data + top, first, n, err);
}

/* Super block s: 2^(s/2) blocks of 2^((s+1)/2) times the least elements. */
static uint64_t blocks_of(uint32_t s) {
    return UINT64_C(1) << (s / 2);
}
static uint64_t elements_of(const array *a, uint32_t s) {
    return (UINT64_C(1) << ((s + 1) / 2)) * a->least;
}

static sft_status take_super(array *a, uint64_t addr, uint32_t s, uint64_t first, sft_error *err) {
    sft__import_h5 *h = a->h;
    const uint64_t blocks = blocks_of(s);
    const uint64_t n = elements_of(a, s);
    const uint64_t map = n > a->page ? (n / a->page + 7) / 8 : 0; /* bytes for a block's pages */
    const uint64_t top = 6 + h->offset_size + a->bits_width;

    if (addr == SFT__H5_UNDEF || first >= a->count) {
        return SFT_OK;
    }
    if (blocks > h->end / (map + h->offset_size)) {
        return sft__import_h5_bad(h, addr, err, "a super block of an array larger than the file");
    }
    SFT_TRY(load(a, &h->heap, addr, top + blocks * (map + h->offset_size) + 4, "EASB", err));
    for (uint64_t i = 0; i < blocks; i++) {
        const uint8_t *p = h->heap.data + top;
        sft__import_h5_in in = {p + blocks * map + i * h->offset_size, h->offset_size, false};
        const written w = {p, i * (n / a->page)}; /* the maps of all blocks without a gap */
        SFT_TRY(take_block(a, sft__import_h5_take_addr(h, &in), first + i * n, n, &w, err));
    }
    return SFT_OK;
}

/* The index block: elements, blocks, super blocks. */
static sft_status take_index(array *a, uint64_t addr, sft_error *err) {
    sft__import_h5 *h = a->h;
    uint32_t log = 0;
    uint32_t direct = 0; /* super blocks whose blocks stand in the index block itself */

    while (a->least >> log > 1) {
        log++;
    }
    while (a->pointers >> (direct / 2) > 1) {
        direct += 2;
    }
    const uint32_t supers = 1 + a->bits - log;
    const uint64_t blocks = 2 * (uint64_t)(a->pointers - 1);
    const uint64_t top = 6 + h->offset_size;
    const uint64_t rest = supers > direct ? supers - direct : 0;
    const uint64_t own = (uint64_t)a->index_elements * a->element;
    SFT_TRY(load(a, &h->node, addr, top + own + (blocks + rest) * h->offset_size + 4, "EAIB", err));
    SFT_TRY(take_elements(a, h->node.data + top, 0, a->index_elements, err));
    sft__import_h5_in in = {h->node.data + top + own, (size_t)((blocks + rest) * h->offset_size),
                            false};
    uint64_t first = a->index_elements;
    for (uint32_t s = 0; s < supers && first < a->count; s++) { /* `first` doubles */
        const uint64_t each = elements_of(a, s);
        if (s >= direct) {
            SFT_TRY(take_super(a, sft__import_h5_take_addr(h, &in), s, first, err));
        }
        for (uint64_t i = 0; s < direct && i < blocks_of(s); i++) {
            SFT_TRY(
                take_block(a, sft__import_h5_take_addr(h, &in), first + i * each, each, NULL, err));
        }
        first += blocks_of(s) * each;
    }
    return SFT_OK;
}

static bool is_power(uint32_t v) {
    return v != 0 && (v & (v - 1)) == 0;
}

sft_status sft__import_h5_extensible_array(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                           sft__import_h5_chunks *c, sft_error *err) {
    array a = {.h = h, .d = d, .c = c, .addr = d->data};
    const size_t n = 16 + 6 * (size_t)h->length_size + h->offset_size;
    uint8_t head[80];

    SFT_TRY(sft__import_h5_read(h, a.addr, head, n, "an extensible array", err));
    if (memcmp(head, "EAHD", 4) != 0 || head[4] != 0) {
        return sft__import_h5_bad(h, a.addr, err, "an extensible array without its signature");
    }
    SFT_TRY(sft__import_h5_sum(h, head, n, a.addr, "an extensible array", err));
    a.element = head[6];
    SFT_TRY(check_element(&a, head[5], err));
    a.bits = head[7];
    a.index_elements = head[8];
    a.least = head[9];
    a.pointers = head[10];
    a.page = head[11] < 32 ? UINT64_C(1) << head[11] : 0;
    a.bits_width = (a.bits + 7) / 8;
    c->grows = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        c->grows = c->most[i] == UINT64_MAX ? i : c->grows;
    }
    sft__import_h5_in in = {head + 12 + 4 * (size_t)h->length_size, n - 16, false};
    a.count = sft__import_h5_take(
        &in, h->length_size); /* one more than the largest number that was set */
    (void)sft__import_h5_take(&in, h->length_size);
    const uint64_t index = sft__import_h5_take_addr(h, &in);
    if (a.bits == 0 || a.bits > 60 || !is_power(a.least) || !is_power(a.pointers) || a.page == 0 ||
        a.least > a.page) {
        return sft__import_h5_bad(h, a.addr, err, "an extensible array with impossible numbers");
    }
    return index == SFT__H5_UNDEF ? SFT_OK : take_index(&a, index, err);
}
