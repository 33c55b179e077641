/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/ms_crc.c - the crc_num that MindSpore's save_checkpoint puts into a file's
 * metadata: zlib's CRC-32 over the names in the order of their bytes, each followed by its tensor's
 * bytes. Source: mindspore/python/mindspore/train/serialization.py (crc_check). Read
 * <sft/checkpoint.h> first.
 */
#include "base/error.h"
#include "base/memory/alloc.h"
#include <sft/checkpoint.h>
#include <sft/read.h>
#include <stdlib.h>

#define BLOCK ((size_t)1 << 20)

typedef struct crc {
    uint32_t table[8][256]; /* of the polynomial 0xedb88320, eight bytes at once */
    uint8_t block[BLOCK];
    uint32_t value;
    sft_progress progress;
} crc;

static void make_table(crc *c) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++) {
            v = (v >> 1) ^ ((v & 1) != 0 ? UINT32_C(0xedb88320) : 0);
        }
        c->table[0][i] = v;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            const uint32_t v = c->table[k - 1][i];
            c->table[k][i] = (v >> 8) ^ c->table[0][v & 0xff];
        }
    }
}

static void add(crc *c, const uint8_t *p, size_t n) {
    uint32_t v = ~c->value;
    for (; n >= 8; n -= 8, p += 8) {
        v ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        v = c->table[7][v & 0xff] ^ c->table[6][v >> 8 & 0xff] ^ c->table[5][v >> 16 & 0xff] ^
            c->table[4][v >> 24] ^ c->table[3][p[4]] ^ c->table[2][p[5]] ^ c->table[1][p[6]] ^
            c->table[0][p[7]];
    }
    for (; n > 0; n--, p++) {
        v = (v >> 8) ^ c->table[0][(v ^ *p) & 0xff];
    }
    c->value = ~v;
}

/* Polynomials mod P, lowest power in the highest bit. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        product ^= (a & bit) != 0 ? b : 0;
        b = (b >> 1) ^ ((b & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return product;
}

/* `n` bytes of zero. */
static void add_zeros(crc *c, uint64_t n) {
    uint32_t power = UINT32_C(1) << 23; /* x^8 */
    uint32_t v = ~c->value;
    for (; n > 0; n >>= 1, power = multiply(power, power)) {
        v = (n & 1) != 0 ? multiply(v, power) : v;
    }
    c->value = ~v;
}

/* MindSpore takes bytes(array): of an integer without dimensions these are, in Python, so many zeros as it
 * says. A negative one cannot be saved so. */
static bool is_count(const sft_tensor *t) {
    return t->rank == 0 && (t->dtype->kind == SFT_KIND_UINT || t->dtype->kind == SFT_KIND_INT);
}

static sft_status add_count(crc *c, const sft_catalog *catalog, const sft_tensor *t,
                            sft_error *err) {
    uint8_t bytes[8] = {0};
    uint64_t n = 0;
    SFT_TRY(sft_tensor_read_bytes(catalog, t, 0, bytes, (size_t)t->nbytes, err));
    for (size_t i = 0; i < sizeof bytes; i++) {
        n |= (uint64_t)bytes[i] << 8 * i;
    }
    add_zeros(c, n);
    return SFT_OK;
}

static int by_name(const void *a, const void *b) {
    const sft_tensor *const x = *(const sft_tensor *const *)a;
    const sft_tensor *const y = *(const sft_tensor *const *)b;
    const int order =
        memcmp(x->name, y->name, x->name_len < y->name_len ? x->name_len : y->name_len);
    return order != 0 ? order : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

static sft_status add_tensor(crc *c, const sft_catalog *catalog, const sft_tensor *t,
                             const sft_control *control, sft_error *err) {
    add(c, (const uint8_t *)t->name, t->name_len);
    if (is_count(t)) {
        return add_count(c, catalog, t, err);
    }
    for (uint64_t at = 0; at < t->nbytes; at += BLOCK) {
        const size_t n = (size_t)(t->nbytes - at < BLOCK ? t->nbytes - at : BLOCK);
        SFT_TRY(sft_tensor_read_bytes(catalog, t, at, c->block, n, err));
        add(c, c->block, n);
        c->progress.bytes_done += n;
        if (control != NULL && control->poll != NULL &&
            control->poll(control->ctx, &c->progress) != 0) {
            return sft__base_fail(err, SFT_E_CANCELLED, "cancelled");
        }
    }
    return SFT_OK;
}

sft_status sft_ms_crc_num(const sft_catalog *catalog, size_t file, const sft_control *control,
                          uint32_t *out, sft_error *err) {
    const sft_allocator *const a = sft__base_allocator(NULL);
    const size_t count = sft_catalog_count(catalog);
    const sft_tensor **const list = sft__base_alloc_array(a, count + 1, sizeof *list);
    crc *const c = sft__base_alloc_zero(a, sizeof *c);
    sft_status status = SFT_OK;
    size_t n = 0;
    if (list == NULL || c == NULL) {
        status = sft__base_fail_nomem(err, (count + 1) * sizeof *list);
    } else {
        make_table(c);
        for (size_t i = 0; i < count; i++) {
            const sft_tensor *const t = sft_catalog_at(catalog, i);
            if (t->file == file) {
                list[n++] = t;
                c->progress.bytes_total += t->nbytes; /* inside the file: cannot overflow */
            }
        }
        qsort(list, n, sizeof *list, by_name);
    }
    for (size_t i = 0; i < n && status == SFT_OK; i++) {
        status = add_tensor(c, catalog, list[i], control, err);
    }
    *out = c != NULL ? c->value : 0;
    sft__base_free(a, list, (count + 1) * sizeof *list);
    sft__base_free(a, c, sizeof *c);
    return status;
}
