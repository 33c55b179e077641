/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/export_put.c - what writers ask for: memory, the output, and the copy of tensors' bytes to
 * where they want them. Read first: export.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/thread/thread.h"
#include "import/write/export.h"

/* ---------------------------------------------------------------- CRC-32 by parts */

/* a * b modulo the polynomial of CRC-32, bits reflected: bit 31 is x^0. */
static uint32_t crc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;

    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        product ^= (a & bit) != 0 ? b : 0;
        b = (b & 1) != 0 ? (b >> 1) ^ 0xedb88320u : b >> 1;
    }
    return product;
}

uint32_t sft__import_crc32_shift(uint32_t crc, uint64_t bytes) {
    uint32_t power = 0x00800000u; /* x^8 */

    for (; bytes != 0; bytes >>= 1) {
        crc = (bytes & 1) != 0 ? crc_multiply(power, crc) : crc;
        power = crc_multiply(power, power);
    }
    return crc;
}

/* ---------------------------------------------------------------- for writers */

sft_status sft__import_export_alloc(sft__import_export *job, void *pointer, size_t count,
                                    size_t size, sft_error *err) {
    size_t bytes;
    void *p = NULL;

    if (sft__base_mul_size(count != 0 ? count : 1, size, &bytes)) {
        p = sft__base_arena_alloc(&job->arena, bytes, 8);
    }
    SFT_NEED(p != NULL, count * size, err);
    memset(p, 0, bytes);
    memcpy(pointer, &p, sizeof p);
    return SFT_OK;
}

sft_status sft__import_convert_output(const sft__import_conversion *c, const char *path,
                                      uint64_t size, sft__fs_publish **out, sft_error *err) {
    const sft__fs_publish_options options = {
        .allocator = c->allocator,
        .durability = c->write.durability,
        .new_only = (c->options.flags & SFT_CONVERT_REPLACE) == 0,
    };

    SFT_TRY(sft__fs_publish_open(out, path, &options, err));
    const sft_status status = sft__fs_publish_reserve(*out, size, err);
    if (status != SFT_OK) {
        sft__fs_publish_free(*out);
        *out = NULL;
    }
    return status;
}

sft_status sft__import_export_start(sft__import_export *job, uint64_t file_bytes, sft_error *err) {
    job->c.result.file_bytes = file_bytes;
    return sft__import_convert_output(&job->c, job->path, file_bytes, &job->output, err);
}

sft_status sft__import_export_put(sft__import_export *job, uint64_t offset, const void *data,
                                  size_t size, sft_error *err) {
    const sft__fs_span part = {data, size};
    return size == 0 ? SFT_OK : sft__fs_publish_write(job->output, offset, &part, 1, err);
}

typedef struct placing {
    sft__import_export *job;
    sft__import_stretch *stretches;
    size_t count;
    sft__base_mutex lock; /* of the checksums */
    bool crc32;
} placing;

/* The first stretch that ends behind byte `offset` of the item. */
static size_t stretch_of(const placing *p, size_t item, uint64_t offset) {
    size_t low = 0;
    size_t high = p->count;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const sft__import_stretch *s = &p->stretches[mid];
        if (s->item < item || (s->item == item && s->first + s->nbytes <= offset)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static sft_status put(void *ctx, size_t item, uint64_t offset, const void *data, size_t size,
                      sft_error *err) {
    placing *p = ctx;
    const uint8_t *bytes = data;

    for (size_t i = stretch_of(p, item, offset); size > 0; i++) {
        if (i >= p->count || p->stretches[i].item != item || p->stretches[i].first > offset) {
            return sft__base_fail(err, SFT_E_INTERNAL,
                                  "the writer has no place for bytes of an item");
        }
        sft__import_stretch *s = &p->stretches[i];
        const uint64_t at = offset - s->first;
        const uint64_t left = s->nbytes - at;
        const size_t n = left < size ? (size_t)left : size;
        if (p->crc32) {
            const uint32_t crc = sft__import_crc32_shift(sft__import_crc32(0, bytes, n), left - n);
            sft__base_mutex_lock(&p->lock);
            s->crc32 ^= crc;
            sft__base_mutex_unlock(&p->lock);
        }
        SFT_TRY(sft__import_export_put(p->job, s->offset + at, bytes, n, err));
        bytes += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

sft_status sft__import_export_copy(sft__import_export *job, sft__import_stretch *stretches,
                                   size_t count, bool crc32, sft_error *err) {
    placing p = {.job = job, .stretches = stretches, .count = count, .crc32 = crc32};
    const sft__import_sink sink = {put, &p};

    SFT_NEED(sft__base_mutex_init(&p.lock), sizeof p, err);
    const sft_status status = sft__import_convert_sink(&job->c, &sink, err);
    sft__base_mutex_reset(&p.lock);
    return status;
}

bool sft__import_names_framework(const sft_metadata_entry *e) {
    static const char *const names[] = {"pt", "np", "tf", "flax", "mlx", "ms", "paddle"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if (e->key_len == 6 && memcmp(e->key, "format", 6) == 0 && e->value_len == n &&
            memcmp(e->value, names[i], n) == 0) {
            return true;
        }
    }
    return false;
}
