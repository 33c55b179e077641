/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_start.c - where an HDF5 file begins, and its superblock. Read first: hdf5.h.
 */
#include "import/hdf5/hdf5.h"

enum { PLACES = 1 << 25 };

static const uint8_t magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

uint64_t sft__import_h5_find(const sft_source *source) {
    const uint64_t size = sft_source_size(source);
    uint8_t head[8];

    for (uint64_t at = 0; at <= size && size - at >= 48; at = at == 0 ? 512 : at * 2) {
        if (sft_source_read(source, at, head, sizeof head, NULL) == SFT_OK &&
            memcmp(head, magic, sizeof magic) == 0) {
            return at;
        }
        if (at > UINT64_MAX / 4) {
            break;
        }
    }
    return UINT64_MAX;
}

static bool is_size(uint64_t n) {
    return n == 2 || n == 4 || n == 8;
}

/* What lies behind the sizes in both kinds of superblock: base, two others, in between the end.
 * Where something was put before the file or taken away, the base says where it once lay: as HDF5
 * does, addresses count from the superblock that was found. */
static sft_status addresses(sft__import_h5 *h, uint64_t base, uint64_t end, sft_error *err) {
    const uint64_t size = sft_source_size(h->source);

    if (end < base || end - base > size - h->base) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, h->base,
            "hdf5: cut short: the file has %llu bytes, its superblock says %llu",
            (unsigned long long)size, (unsigned long long)end);
    }
    h->end = end - base;
    h->places = PLACES + size;
    h->budget = size > (UINT64_MAX - (1u << 20)) / 8 ? UINT64_MAX : 8 * size + (1u << 20);
    return SFT_OK;
}

static sft_status superblock_0(sft__import_h5 *h, const uint8_t *head, size_t n, uint32_t version,
                               sft_error *err) {
    sft__import_h5_in in = {head + 8, n - 8, false};

    h->offset_size = head[13];
    h->length_size = head[14];
    if (!is_size(h->offset_size) || !is_size(h->length_size)) {
        return sft__import_h5_bad(h, 0, err, "addresses or lengths that have not 2, 4 or 8 bytes");
    }
    (void)sft__import_h5_skip(&in, version == 0 ? 16 : 20);
    const uint64_t base = sft__import_h5_take_addr(h, &in);
    (void)sft__import_h5_take_addr(h, &in);
    const uint64_t end = sft__import_h5_take_addr(h, &in);
    const uint64_t driver = sft__import_h5_take_addr(h, &in);
    (void)sft__import_h5_take_addr(h, &in);
    h->root = sft__import_h5_take_addr(h, &in);
    if (in.bad) {
        return sft__import_h5_bad(h, 0, err, "cut short in the superblock");
    }
    SFT_TRY(addresses(h, base, end, err));
    return driver == SFT__H5_UNDEF
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_UNSUPPORTED, h->base,
                                   "hdf5: a file of a driver that spreads it over several files");
}

/* Messages of a superblock's extension that change how the file is read. */
static sft_status extension(sft__import_h5 *h, uint64_t addr, sft_error *err) {
    if (addr == SFT__H5_UNDEF) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_h5_object_read(h, &h->object, addr, err));
    if (sft__import_h5_message_find(&h->object, SFT__H5_DRIVER) != NULL) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, h->base + addr,
                                 "hdf5: a file of a driver that spreads it over several files");
    }
    if (sft__import_h5_message_find(&h->object, SFT__H5_CACHE_IMAGE) != NULL) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, h->base + addr,
                                 "hdf5: metadata in a cache image, which is not read");
    }
    return SFT_OK;
}

static sft_status superblock_2(sft__import_h5 *h, const uint8_t *head, size_t n, sft_error *err) {
    h->offset_size = head[9];
    h->length_size = head[10];
    if (!is_size(h->offset_size) || !is_size(h->length_size)) {
        return sft__import_h5_bad(h, 0, err, "addresses or lengths that have not 2, 4 or 8 bytes");
    }
    const size_t all = 12 + 4 * (size_t)h->offset_size + 4;
    if (n < all) {
        return sft__import_h5_bad(h, 0, err, "cut short in the superblock");
    }
    SFT_TRY(sft__import_h5_sum(h, head, all, 0, "the superblock", err));
    sft__import_h5_in in = {head + 12, n - 12, false};
    const uint64_t base = sft__import_h5_take_addr(h, &in);
    const uint64_t more = sft__import_h5_take_addr(h, &in);
    const uint64_t end = sft__import_h5_take_addr(h, &in);
    h->root = sft__import_h5_take_addr(h, &in);
    SFT_TRY(addresses(h, base, end, err));
    return extension(h, more, err);
}

sft_status sft__import_h5_start(sft__import_h5 *h, sft_error *err) {
    const uint64_t size = sft_source_size(h->source);
    uint8_t head[128];

    h->base = sft__import_h5_find(h->source);
    if (h->base == UINT64_MAX) {
        h->base = 0;
        return sft__import_h5_bad(h, 0, err, "no superblock");
    }
    const size_t n = size - h->base < sizeof head ? (size_t)(size - h->base) : sizeof head;
    SFT_TRY(sft_source_read(h->source, h->base, head, n, err));
    if (head[8] > 3) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, h->base + 8,
                                 "hdf5: version %u of the superblock, 0 to 3 are known",
                                 (unsigned)head[8]);
    }
    return head[8] < 2 ? superblock_0(h, head, n, head[8], err) : superblock_2(h, head, n, err);
}
