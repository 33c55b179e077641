/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer_alias.c - other names of a file's tensors, in its metadata: "alias": "tensor", and for
 * what shows a part of a tensor, or is an entry's key already, sft.aliases (docs/tree.md). What reads
 * them is catalog/aliases.c. Read first: <sft/write.h>.
 */
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "move/write/writer.h"

static const char records[] = "sft.aliases";

/* Of dimension d, in elements. placed: as the tensor lies in its file; else as it is written. */
static uint64_t stride_of(const sft_tensor *t, uint32_t d, bool placed) {
    uint64_t stride = 1;

    if (placed && t->piece_count != 0 && t->pieces[0].strides != NULL) {
        return (uint64_t)t->pieces[0].strides[d] / t->dtype->block_bytes;
    }
    for (uint32_t n = d + 1; n < t->rank; n++) {
        stride *= t->shape[n] != 0 ? t->shape[n] : 1; /* fits: the product of all was checked */
    }
    return stride;
}

static void put_record(sft__base_buf *b, const sft_writer_name *n) {
    const sft_tensor *t = n->shows != NULL ? n->shows : n->whole;
    const bool apart = n->shows != NULL && t->nbytes != 0;

    sft__base_buf_text(b, b->len > 1 ? "," : "");
    sft__base_json_string(b, n->name, n->name_len);
    sft__base_buf_text(b, ":{\"of\":");
    sft__base_json_string(b, n->of, n->of_len);
    sft__base_buf_text(b, ",\"dtype\":\"");
    sft__base_buf_text(b, n->shows != NULL ? t->dtype->name : n->dtype->name);
    sft__base_buf_text(b, "\",\"shape\":[");
    for (uint32_t d = 0; d < t->rank; d++) {
        sft__base_buf_text(b, d != 0 ? "," : "");
        sft__base_buf_u64(b, t->shape[d]);
    }
    sft__base_buf_text(b, "],\"stride\":[");
    for (uint32_t d = 0; d < t->rank; d++) {
        sft__base_buf_text(b, d != 0 ? "," : "");
        sft__base_buf_u64(b, stride_of(t, d, n->shows != NULL));
    }
    sft__base_buf_text(b, "],\"offset\":");
    sft__base_buf_u64(
        b, apart ? (t->pieces[0].offset - n->whole->pieces[0].offset) / t->dtype->block_bytes : 0);
    sft__base_buf_text(b, "}");
}

/* What readers take for something else. */
static bool is_reserved(const sft_writer_name *n) {
    return n->name_len == 0 || (n->name_len == 6 && memcmp(n->name, "format", 6) == 0) ||
           (n->name_len >= 4 && memcmp(n->name, "sft.", 4) == 0);
}

/* map: of the metadata before these names. */
static sft_status put_names(sft_writer *w, const sft_writer_name *names, size_t count,
                            const sft__base_strmap *map, sft__base_buf *b, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        const sft_writer_name *n = &names[i];
        if (n->name == NULL || n->of == NULL || n->whole == NULL || n->dtype == NULL) {
            return sft__base_fail(err, SFT_E_ARG, "a name of a tensor is not filled in");
        }
        if (n->shows == NULL && !is_reserved(n) &&
            sft__base_strmap_find(map, n->name, n->name_len) == SFT__STRMAP_NONE) {
            SFT_TRY(sft_writer_metadata(w, n->name, n->name_len, n->of, n->of_len, err));
        } else {
            put_record(b, n);
        }
    }
    sft__base_buf_text(b, "}");
    SFT_NEED(!b->failed, b->len, err);
    if (b->len == 2) {
        return SFT_OK;
    }
    if (sft__base_strmap_find(map, records, sizeof records - 1) != SFT__STRMAP_NONE) {
        return sft__base_fail(
            err, SFT_E_DUPLICATE,
            "metadata sft.aliases is given, and there are other names of tensors to "
            "record in it");
    }
    return sft_writer_metadata(w, records, sizeof records - 1, b->data, b->len, err);
}

sft_status sft_writer_names(sft_writer *writer, const sft_writer_name *names, size_t count,
                            sft_error *err) {
    const size_t before = writer->set.metadata_count;
    const sft_allocator *a = writer->set.allocator;
    sft_metadata_entry *had;
    sft__base_strmap map;
    sft__base_buf b;

    if (count == 0) {
        return SFT_OK;
    }
    had = sft__base_alloc_array(a, before + 1, sizeof *had);
    if (had == NULL || !sft__base_strmap_init(&map, had, sizeof *had, before + 1, a)) {
        sft__base_free(a, had, (before + 1) * sizeof *had);
        return sft__base_fail_nomem(err, before * sizeof *had);
    }
    for (size_t i = 0; i < before; i++) {
        had[i] = writer->metadata[i];
        (void)sft__base_strmap_add(&map, i);
    }
    sft__base_buf_init(&b, a);
    sft__base_buf_text(&b, "{");
    const sft_status status = put_names(writer, names, count, &map, &b, err);
    sft__base_buf_reset(&b);
    sft__base_strmap_reset(&map);
    sft__base_free(a, had, (before + 1) * sizeof *had);
    return status;
}
