/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/set.c - see set.h. Digest values have a fixed width, so the header can be laid out before
 * any byte was seen: it is built with zeros in their places, which are overwritten when the digests
 * are known.
 */
#include "move/write/set.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "base/text/json.h"
#include "base/thread/pool.h"
#include <stdlib.h>

static const char crc_key[] = "sft.crc32c";
static const char sha_key[] = "sft.sha256";
enum { KEY_LEN = sizeof crc_key - 1, CRC_DIGITS = 8, SHA_DIGITS = 64 };

size_t sft__move_set_digest_block(const sft__move_set *set) {
    return set->options.durability == SFT_DURABLE_FULL ? SFT__DIGEST_BLOCK_DURABLE
                                                       : SFT__DIGEST_BLOCK;
}

sft_status sft__move_set_init(sft__move_set *set, const sft_write_options *options,
                              sft_error *err) {
    memset(set, 0, sizeof *set);
    sft__base_buf_init(&set->header, NULL);
    SFT_TRY(sft__base_options_read(&set->options, sizeof set->options, options,
                                   SFT__UP_TO(sft_write_options, allocator), "write options", err));
    set->cpu = sft__base_pool_cpu(set->options.pool);
    set->allocator = set->options.allocator;
    sft__base_buf_init(&set->header, set->allocator);
    SFT_TRY(sft__base_limits_read(&set->limits, set->options.limits, err));
    set->options.limits = &set->limits;
    return SFT_OK;
}

void sft__move_set_reset(sft__move_set *set) {
    sft__base_free(set->allocator, set->order, set->count * sizeof *set->order);
    sft__base_free(set->allocator, set->crc, set->count * sizeof *set->crc);
    sft__base_free(set->allocator, set->sha, set->count * sizeof *set->sha);
    sft__base_buf_reset(&set->header);
    set->order = NULL;
    set->crc = NULL;
    set->sha = NULL;
}

bool sft__move_set_digests_inside(const sft__move_set *set) {
    return set->options.digests != 0 && (set->options.flags & SFT_WRITE_DIGESTS_SIDECAR) == 0;
}

uint64_t sft__move_set_file_bytes(const sft__move_set *set) {
    return set->data_offset +
           set->data_bytes; /* cannot overflow: checked in sft__move_set_layout */
}

size_t sft__move_set_position(const sft__move_set *set, uint64_t offset) {
    size_t low = 0;
    size_t high = set->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const sft__format_entry *e = &set->entries[set->order[mid]];
        if (e->begin + e->nbytes > offset) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

static bool is_key(const sft_metadata_entry *e, const char key[KEY_LEN + 1]) {
    return e->key_len == KEY_LEN && memcmp(e->key, key, KEY_LEN) == 0;
}

/* Characters of a value: the description's digest and one per tensor. */
static bool value_size(size_t count, size_t digits, size_t *size) {
    return sft__base_mul_size(count, digits, size) && sft__base_add_size(*size, CRC_DIGITS, size);
}

/* The metadata with digest keys added; those of the caller's that would be in the way are left out.
 */
static sft_status build_with_digests(sft__move_set *set, sft_error *err) {
    const uint32_t want = set->options.digests;
    const size_t cap = set->metadata_count + 2; /* fits: the caller's array is in memory */
    sft_metadata_entry *all = sft__base_alloc_array(set->allocator, cap, sizeof *all);
    char *zeros = NULL;
    size_t zeros_len = 0;
    size_t crc_len;
    size_t sha_len;
    size_t n = 0;
    sft_status st = SFT_OK;

    if (value_size(set->count, CRC_DIGITS, &crc_len) &&
        value_size(set->count, SHA_DIGITS, &sha_len)) {
        zeros_len = (want & SFT_DIGEST_SHA256) != 0 ? sha_len : crc_len;
        zeros = sft__base_alloc(set->allocator, zeros_len);
    }
    if (all == NULL || zeros == NULL) {
        st = sft__base_fail_nomem(err, all == NULL ? cap * sizeof *all : zeros_len);
    } else {
        memset(zeros, '0', zeros_len);
        for (size_t i = 0; i < set->metadata_count; i++) {
            const sft_metadata_entry *e = &set->metadata[i];
            const bool ours = ((want & SFT_DIGEST_CRC32C) != 0 && is_key(e, crc_key)) ||
                              ((want & SFT_DIGEST_SHA256) != 0 && is_key(e, sha_key));
            if (!ours) {
                all[n++] = *e;
            }
        }
        if ((want & SFT_DIGEST_CRC32C) != 0) {
            all[n++] = (sft_metadata_entry){crc_key, KEY_LEN, zeros, crc_len};
        }
        if ((want & SFT_DIGEST_SHA256) != 0) {
            all[n++] = (sft_metadata_entry){sha_key, KEY_LEN, zeros, sha_len};
        }
        const sft__format_contents contents = {set->entries, set->order, set->count, all, n};
        st = sft__format_header_build(&set->header, &contents, &set->options, err);
    }
    sft__base_free(set->allocator, zeros, zeros_len);
    sft__base_free(set->allocator, all, cap * sizeof *all);
    return st;
}

static sft_status alloc_digests(sft__move_set *set, sft_error *err) {
    if (set->count == 0) {
        return SFT_OK;
    }
    if ((set->options.digests & SFT_DIGEST_CRC32C) != 0) {
        set->crc = sft__base_alloc_array(set->allocator, set->count, sizeof *set->crc);
        SFT_NEED(set->crc != NULL, set->count * sizeof *set->crc, err);
        memset(set->crc, 0, set->count * sizeof *set->crc);
    }
    if ((set->options.digests & SFT_DIGEST_SHA256) != 0) {
        set->sha = sft__base_alloc_array(set->allocator, set->count, sizeof *set->sha);
        SFT_NEED(set->sha != NULL, set->count * sizeof *set->sha, err);
    }
    return SFT_OK;
}

sft_status sft__move_set_layout(sft__move_set *set, sft_error *err) {
    uint64_t end;

    if ((set->options.digests & ~(SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256)) != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "digests %#lx: only SFT_DIGEST_CRC32C and SFT_DIGEST_SHA256 exist",
                              (unsigned long)set->options.digests);
    }
    if (set->count > 0) {
        set->order = sft__base_alloc_array(set->allocator, set->count, sizeof *set->order);
        SFT_NEED(set->order != NULL, set->count * sizeof *set->order, err);
    }
    SFT_TRY(sft__format_layout(set->entries, set->count, &set->options, set->order,
                               &set->data_bytes, err));
    if (sft__move_set_digests_inside(set)) {
        SFT_TRY(build_with_digests(set, err));
    } else {
        const sft__format_contents contents = {set->entries, set->order, set->count, set->metadata,
                                               set->metadata_count};
        SFT_TRY(sft__format_header_build(&set->header, &contents, &set->options, err));
    }
    SFT_TRY(alloc_digests(set, err));
    set->data_offset = set->header.len;
    if (!sft__base_add64(set->data_offset, set->data_bytes, &end) || end > (uint64_t)INT64_MAX) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "%llu bytes of tensors do not fit into any file",
                              (unsigned long long)set->data_bytes);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- digests into text */

static int by_name(const void *a, const void *b) {
    const sft__format_entry *x = *(const sft__format_entry *const *)a;
    const sft__format_entry *y = *(const sft__format_entry *const *)b;
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int c = n == 0 ? 0 : memcmp(x->name, y->name, n);
    return c != 0 ? c : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

/* Entries in byte order of their names: `count` pointers, owned. NULL: no memory. */
static const sft__format_entry **sort_entries(const sft__move_set *set) {
    const sft__format_entry **sorted =
        sft__base_alloc_array(set->allocator, set->count, sizeof *sorted);
    if (sorted != NULL) {
        for (size_t i = 0; i < set->count; i++) {
            sorted[i] = &set->entries[i];
        }
        qsort(sorted, set->count, sizeof *sorted, by_name);
    }
    return sorted;
}

static uint32_t crc_u64(uint32_t crc, uint64_t v) {
    uint8_t bytes[8];
    sft__base_store_le64(bytes, v);
    return sft_crc32c(crc, bytes, sizeof bytes);
}

uint32_t sft__move_set_description(const sft__format_entry *const *sorted, size_t count) {
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        const sft__format_entry *e = sorted[i];
        crc = crc_u64(crc, e->name_len);
        crc = sft_crc32c(crc, e->name, e->name_len);
        crc = sft_crc32c(crc, e->dtype->name, strlen(e->dtype->name) + 1);
        crc = crc_u64(crc, e->rank);
        for (uint32_t k = 0; k < e->rank; k++) {
            crc = crc_u64(crc, e->shape[k]);
        }
    }
    return crc;
}

/* Where a digest key's value begins in the header text. A quote in a string is escaped, so the
 * pattern with a bracket or comma before it can only be a key of the metadata, which stands first.
 */
static char *find_value(const sft__move_set *set, const char key[KEY_LEN + 1]) {
    char pattern[KEY_LEN + 4];
    char *at = set->header.data + 8;
    char *end = set->header.data + set->header.len;

    pattern[0] = '"';
    memcpy(pattern + 1, key, KEY_LEN);
    memcpy(pattern + 1 + KEY_LEN, "\":\"", 3);
    while ((size_t)(end - at) > sizeof pattern) {
        at = memchr(at, '"', (size_t)(end - at) - sizeof pattern);
        if (at == NULL) {
            return NULL;
        }
        if (memcmp(at, pattern, sizeof pattern) == 0 && (at[-1] == '{' || at[-1] == ',')) {
            return at + sizeof pattern;
        }
        at++;
    }
    return NULL;
}

sft_status sft__move_set_seal(sft__move_set *set, sft_error *err) {
    const bool want_crc = (set->options.digests & SFT_DIGEST_CRC32C) != 0;
    const bool want_sha = (set->options.digests & SFT_DIGEST_SHA256) != 0;
    const sft__format_entry **sorted;
    char *crc_at;
    char *sha_at;

    if (!sft__move_set_digests_inside(set)) {
        return SFT_OK;
    }
    crc_at = want_crc ? find_value(set, crc_key) : NULL;
    sha_at = want_sha ? find_value(set, sha_key) : NULL;
    if ((want_crc && crc_at == NULL) || (want_sha && sha_at == NULL)) {
        return sft__base_fail(err, SFT_E_INTERNAL, "the header has no room for the digests");
    }
    sorted = set->count == 0 ? NULL : sort_entries(set);
    if (sorted == NULL && set->count > 0) {
        return sft__base_fail_nomem(err, set->count * sizeof *sorted);
    }
    if (crc_at != NULL) {
        sft__base_hex32(crc_at, sft__move_set_description(sorted, set->count));
    }
    if (sha_at != NULL) {
        sft__base_hex32(sha_at, sft__move_set_description(sorted, set->count));
    }
    for (size_t i = 0; i < set->count; i++) {
        const size_t index = (size_t)(sorted[i] - set->entries);
        if (crc_at != NULL) {
            sft__base_hex32(crc_at + CRC_DIGITS * (i + 1), set->crc[index]);
        }
        if (sha_at != NULL) {
            sft__base_hex(sha_at + CRC_DIGITS + SHA_DIGITS * i, set->sha[index], 32);
        }
    }
    sft__base_free(set->allocator, sorted, set->count * sizeof *sorted);
    return SFT_OK;
}

sft_status sft__move_set_sidecar(const sft__move_set *set, const char *file_name,
                                 sft__base_buf *out, sft_error *err) {
    sft__base_buf_text(out, "{\"schema\":1,\"file\":");
    sft__base_json_string(out, file_name, strlen(file_name));
    sft__base_buf_text(out, ",\"size\":");
    sft__base_buf_u64(out, sft__move_set_file_bytes(set));
    sft__base_buf_text(out, ",\"tensors\":{");
    for (size_t p = 0; p < set->count; p++) {
        const uint32_t index = set->order[p];
        char hex[SHA_DIGITS];
        sft__base_buf_text(out, p == 0 ? "\n" : ",\n");
        sft__base_json_string(out, set->entries[index].name, set->entries[index].name_len);
        sft__base_buf_text(out, ":{");
        if (set->crc != NULL) {
            sft__base_hex32(hex, set->crc[index]);
            sft__base_buf_text(out, "\"crc32c\":\"");
            sft__base_buf_add(out, hex, CRC_DIGITS);
            sft__base_buf_text(out, set->sha != NULL ? "\"," : "\"");
        }
        if (set->sha != NULL) {
            sft__base_hex(hex, set->sha[index], 32);
            sft__base_buf_text(out, "\"sha256\":\"");
            sft__base_buf_add(out, hex, SHA_DIGITS);
            sft__base_buf_text(out, "\"");
        }
        sft__base_buf_text(out, "}");
    }
    sft__base_buf_text(out, "\n}}\n");
    return out->failed ? sft__base_fail_nomem(err, out->len) : SFT_OK;
}
