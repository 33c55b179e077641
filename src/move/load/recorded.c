/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/recorded.c - digests in `__metadata__`: "sft.crc32c" and "sft.sha256". Read first:
 * recorded.h. The sidecar is in recorded_sidecar.c.
 */
#include "move/load/recorded.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "move/digest_tensor.h"
#include <stdlib.h>

static const struct recorded_kind {
    uint32_t kind;
    const char *key;
    size_t digits;
} recorded_kinds[] = {{SFT_DIGEST_CRC32C, "sft.crc32c", 8}, {SFT_DIGEST_SHA256, "sft.sha256", 64}};
enum { RECORDED_KINDS = 2, RECORDED_HEAD = 8 };

size_t sft__move_recorded_digits(uint32_t kind) {
    return kind == SFT_DIGEST_CRC32C ? recorded_kinds[0].digits : recorded_kinds[1].digits;
}

sft_status sft__move_recorded_put(const sft__move_recorded_file *f, const char *name,
                                  size_t name_len, uint32_t kind, const char *hex, sft_error *err) {
    const sft_tensor *t = sft_catalog_find(f->catalog, name, name_len);
    uint32_t crc = 0;
    uint8_t sha[32];
    const bool good = kind == SFT_DIGEST_CRC32C ? sft__base_hex32_read(&crc, hex)
                                                : sft__base_hex_read(sha, hex, sizeof sha);

    if (!good) {
        return sft__base_fail_tensor(err, SFT_E_STALE, SFT_NO_OFFSET, name, name_len,
                                     "a recorded digest in %s is not lower-case hex",
                                     f->info->path);
    }
    if (t == NULL || t->file != f->file) {
        return SFT_OK; /* left out of the catalog, or taken from another file */
    }
    sft__move_recorded *r = &f->list[sft_catalog_index_of(f->catalog, t)];
    if ((r->have & kind) != 0 &&
        (kind == SFT_DIGEST_CRC32C ? r->crc != crc : memcmp(r->sha, sha, sizeof sha) != 0)) {
        return sft__base_fail_tensor(
            err, SFT_E_MISMATCH, SFT_NO_OFFSET, name, name_len,
            "the digest in the metadata of %s and the one beside it contradict "
            "each other",
            f->info->path);
    }
    r->have |= kind;
    if (kind == SFT_DIGEST_CRC32C) {
        r->crc = crc;
    } else {
        memcpy(r->sha, sha, sizeof sha);
    }
    return SFT_OK;
}

static sft_status recorded_value(const sft__move_recorded_file *f, const struct recorded_kind *k,
                                 const char *value, size_t len, sft_error *err) {
    uint32_t description = 0;
    uint32_t want;

    if (len < RECORDED_HEAD || (len - RECORDED_HEAD) % k->digits != 0 ||
        (len - RECORDED_HEAD) / k->digits != f->count) {
        return sft__base_fail(
            err, SFT_E_STALE, "\"%s\" in %s has %llu digits, %llu tensors need another number",
            k->key, f->info->path, (unsigned long long)len, (unsigned long long)f->count);
    }
    for (size_t i = 0; i < f->count; i++) {
        sft__move_describe(f->sorted[i], sft__move_feed_crc, &description);
    }
    if (!sft__base_hex32_read(&want, value) || want != description) {
        return sft__base_fail(err, SFT_E_STALE,
                              "\"%s\" in %s was made for tensors of other names, dtypes or shapes",
                              k->key, f->info->path);
    }
    for (size_t i = 0; i < f->count; i++) {
        SFT_TRY(sft__move_recorded_put(f, f->sorted[i]->name, f->sorted[i]->name_len, k->kind,
                                       value + RECORDED_HEAD + i * k->digits, err));
    }
    return SFT_OK;
}

/* In the metadata, and in the sidecar: a record that the file brings along is no answer to one that
 * was made to watch over it. */
static sft_status recorded_of_file(const sft__move_recorded_file *f, bool *found, sft_error *err) {
    bool here = false;

    for (size_t k = 0; k < RECORDED_KINDS; k++) {
        const char *key = recorded_kinds[k].key;
        size_t len;
        const char *value = sft_catalog_metadata_find(f->catalog, f->file, key, strlen(key), &len);
        if (value != NULL && (f->want & recorded_kinds[k].kind) != 0) {
            SFT_TRY(recorded_value(f, &recorded_kinds[k], value, len, err));
            here = true;
        }
    }
    *found = *found || here;
    if (!here || (f->want & SFT__RECORDED_INSIDE) == 0) {
        SFT_TRY(sft__move_recorded_sidecar(f, &here, err));
    }
    *found = *found || here;
    return SFT_OK;
}

/* ---------------------------------------------------------------- all files */

static int recorded_order(const void *a, const void *b) {
    const sft_tensor *x = *(const sft_tensor *const *)a;
    const sft_tensor *y = *(const sft_tensor *const *)b;
    return x->file != y->file ? (x->file < y->file ? -1 : 1) : sft__move_name_order(x, y);
}

/* All tensors of a catalog by file, then by name; owned by the caller. */
static const sft_tensor **recorded_sorted(const sft_catalog *catalog,
                                          const sft_allocator *allocator) {
    const size_t count = sft_catalog_count(catalog);
    const sft_tensor **sorted = sft__base_alloc_array(allocator, count + 1, sizeof *sorted);
    if (sorted != NULL) {
        for (size_t i = 0; i < count; i++) {
            sorted[i] = sft_catalog_at(catalog, i);
        }
        qsort(sorted, count, sizeof *sorted, recorded_order);
    }
    return sorted;
}

/* A file of which the catalog holds only some tensors: its header is read once more. */
static sft_status recorded_reopened(sft__move_recorded_file *f, bool *found, sft_error *err) {
    sft_open_options o;
    sft_catalog *whole;
    sft_status status = SFT_OK;

    SFT_INIT(&o);
    o.allocator = f->allocator;
    SFT_TRY(sft_catalog_open(&whole, f->info->path, &o, err));
    const sft_tensor **sorted = recorded_sorted(whole, f->allocator);
    if (sorted == NULL) {
        status = sft__base_fail_nomem(err, sft_catalog_count(whole) * sizeof *sorted);
    } else {
        f->sorted = sorted;
        f->count = sft_catalog_count(whole);
        status = recorded_of_file(f, found, err);
    }
    sft__base_free(f->allocator, sorted, (sft_catalog_count(whole) + 1) * sizeof *sorted);
    sft_catalog_close(whole);
    return status;
}

sft_status sft__move_recorded_load(const sft_catalog *catalog, uint32_t want,
                                   const sft_allocator *allocator, sft__move_recorded *list,
                                   bool *found, sft_error *err) {
    const size_t count = sft_catalog_count(catalog);
    const sft_tensor **sorted = recorded_sorted(catalog, allocator);
    sft_status status = SFT_OK;
    size_t at = 0;

    *found = false;
    SFT_NEED(sorted != NULL, count * sizeof *sorted, err);
    for (size_t i = 0; i < sft_catalog_file_count(catalog) && status == SFT_OK; i++) {
        sft__move_recorded_file f = {
            catalog, sft_catalog_file_at(catalog, i), i, sorted + at, 0, list, allocator, want};
        while (at < count && sorted[at]->file == i) {
            at++;
            f.count++;
        }
        status = f.count == f.info->tensor_count ? recorded_of_file(&f, found, err)
                                                 : recorded_reopened(&f, found, err);
        if (status == SFT_E_STALE && (want & SFT__RECORDED_FITTING) != 0) {
            status = SFT_OK;
        }
    }
    sft__base_free(allocator, sorted, (count + 1) * sizeof *sorted);
    return status;
}
