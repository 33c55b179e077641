/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_write.c - GGUF version 3, little-endian, alignment 32: metadata, descriptions of
 * tensors, the tensors one after the other. Floats and signed integers as they are; bytes that came
 * as raw blocks of a GGUF file become those blocks again. Source: ggml's docs/gguf.md. Read first:
 * gguf_meta.h, export.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/gguf/gguf_meta.h"

/* One tensor as it will be described. */
typedef struct described {
    const sft__import_gguf_type *type;
    uint64_t shape[SFT__GGUF_RANK_MAX];
    uint32_t rank;
    uint64_t offset; /* behind the description */
} described;

static sft_status unsupported(const sft_import_item *item, sft_error *err) {
    return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
                                 "GGUF has no type %s: cast it (--cast NAME=TYPE) or leave it out",
                                 item->dtype->name);
}

/* Does a file say of blocks what they are? */
static bool has_blocks(const sft_catalog *catalog) {
    bool has = false;

    for (size_t f = 0; f < sft_catalog_file_count(catalog) && !has; f++) {
        has = sft_catalog_metadata_find(catalog, f, SFT__GGUF_KEY_TENSORS,
                                        sizeof SFT__GGUF_KEY_TENSORS - 1, NULL) != NULL;
    }
    return has;
}

static sft_status check(const sft_import_item *item, sft_error *err) {
    const bool raw = item->dtype->id == SFT_U8 && has_blocks(item->catalog);

    if (!raw && sft__import_gguf_type_of(item->dtype->id) == NULL) {
        return unsupported(item, err);
    }
    if (item->tensor->rank > SFT__GGUF_RANK_MAX) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "a tensor of GGUF has at most 4 dimensions, this one %u", (unsigned)item->tensor->rank);
    }
    if (item->name_len > SFT__GGUF_NAME_MAX) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "a name in GGUF has at most %d bytes, this one %llu: rename it",
            (int)SFT__GGUF_NAME_MAX, (unsigned long long)item->name_len);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what the tensors are */

static sft_status describe(const sft__import_gguf_meta *m, const sft_import_item *item,
                           described *d, sft_error *err) {
    const sft_tensor *t = item->tensor;

    d->type = sft__import_gguf_type_of(item->dtype->id);
    d->rank = t->rank > 0 ? t->rank : 1;
    d->shape[0] = 1; /* of a scalar */
    memcpy(d->shape, t->shape, t->rank * sizeof *t->shape);
    if (d->type != NULL) {
        return SFT_OK;
    }
    const sft__import_gguf_raw *raw = sft__import_gguf_meta_raw(m, t->name, t->name_len);
    if (raw == NULL || item->dtype->id != t->dtype->id || raw->nbytes != item->nbytes) {
        return unsupported(item, err);
    }
    d->type = raw->type;
    d->rank = raw->rank;
    memcpy(d->shape, raw->shape, sizeof d->shape);
    return SFT_OK;
}

static void put32(sft__base_buf *b, uint32_t v) {
    uint8_t bytes[4];
    sft__base_store_le32(bytes, v);
    sft__base_buf_add(b, bytes, sizeof bytes);
}

static void put64(sft__base_buf *b, uint64_t v) {
    uint8_t bytes[8];
    sft__base_store_le64(bytes, v);
    sft__base_buf_add(b, bytes, sizeof bytes);
}

static void add_info(sft__base_buf *b, const sft_import_item *item, const described *d) {
    put64(b, item->name_len);
    sft__base_buf_add(b, item->name, item->name_len);
    put32(b, d->rank);
    for (uint32_t k = d->rank; k-- > 0;) {
        put64(b, d->shape[k]);
    }
    put32(b, d->type->number);
    put64(b, d->offset);
}

/* ---------------------------------------------------------------- the file */

static sft_status add_infos(sft__import_export *job, const sft__import_gguf_meta *m,
                            sft__base_buf *b, sft__import_stretch *stretches, uint64_t *data_bytes,
                            sft_error *err) {
    uint64_t at = 0;

    for (size_t i = 0; i < job->c.item_count; i++) {
        const sft_import_item *item = &job->c.items[i];
        described d;
        memset(&d, 0, sizeof d);
        SFT_TRY(describe(m, item, &d, err));
        d.offset = at;
        stretches[i] = (sft__import_stretch){.item = i, .nbytes = item->nbytes, .offset = at};
        add_info(b, item, &d);
        if (!sft__base_add64(at, item->nbytes, &at) ||
            !sft__base_align64(at, SFT__GGUF_ALIGNMENT, &at)) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "the file would have more than 2^64 bytes");
        }
    }
    *data_bytes = at;
    return b->failed ? sft__base_fail_nomem(err, b->len) : SFT_OK;
}

static sft_status write_file(sft__import_export *job, sft__import_gguf_meta *m, sft__base_buf *b,
                             sft_error *err) {
    const size_t count = job->c.item_count;
    sft__import_stretch *stretches;
    uint64_t data_bytes = 0;
    uint64_t size;

    SFT_TRY(sft__import_export_alloc(job, &stretches, count, sizeof *stretches, err));
    sft__base_buf_add(b, "GGUF\3\0\0\0", 8);
    put64(b, count);
    put64(b, m->count);
    sft__base_buf_add(b, m->text.data, m->text.len);
    SFT_TRY(add_infos(job, m, b, stretches, &data_bytes, err));
    sft__base_buf_fill(b, 0, (0 - b->len) & (SFT__GGUF_ALIGNMENT - 1));
    SFT_NEED(!b->failed, b->len, err);
    if (!sft__base_add64(b->len, data_bytes, &size)) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "the file would have more than 2^64 bytes");
    }
    for (size_t i = 0; i < count; i++) {
        stretches[i].offset += b->len;
    }
    SFT_TRY(sft__import_export_start(job, size, err));
    SFT_TRY(sft__import_export_put(job, 0, b->data, b->len, err));
    return sft__import_export_copy(job, stretches, count, false, err);
}

static sft_status write_gguf(sft__import_export *job, sft_error *err) {
    sft__import_gguf_meta m;
    sft__base_buf b;

    sft__base_buf_init(&b, job->c.allocator);
    sft_status status = sft__import_gguf_meta_init(&m, job, err);
    SFT_THEN(status, write_file(job, &m, &b, err));
    sft__import_gguf_meta_reset(&m);
    sft__base_buf_reset(&b);
    return status;
}

const sft__import_writer_row sft__import_writer_gguf = {SFT_IMPORT_GGUF, true,       false,
                                                        check,           write_gguf, NULL};
