/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/mindspore/mindspore_write.c - MindSpore's .ckpt, as save_checkpoint(crc_check=True) writes it: one
 * Checkpoint message per piece of at most 512 MiB, "crc_num" and the CRC-32 of all of it at the
 * end. Source: mindspore/train/serialization.py. Read first: export.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/write/export.h"

enum { PIECE = 512 << 20, TRAILER = 17, NUMBER_MOST = 11, NAME_MOST = 1024 };

/* Those that load_checkpoint takes. */
static const char *type_of(const sft_dtype *dtype) {
    static const struct {
        uint32_t id;
        const char *name;
    } rows[] = {
        {SFT_BOOL, "Bool"},   {SFT_U8, "UInt8"},      {SFT_I8, "Int8"},     {SFT_I16, "Int16"},
        {SFT_U16, "UInt16"},  {SFT_F16, "Float16"},   {SFT_I32, "Int32"},   {SFT_U32, "UInt32"},
        {SFT_F32, "Float32"}, {SFT_BF16, "BFloat16"}, {SFT_F64, "Float64"}, {SFT_I64, "Int64"},
        {SFT_U64, "UInt64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].id == dtype->id) {
            return rows[i].name;
        }
    }
    return NULL;
}

/* load_checkpoint refuses the whole file for a longer name; it counts characters, not bytes. */
static bool is_too_long(const sft_import_item *item) {
    size_t count = 0;

    for (size_t i = 0; i < item->name_len; i++) {
        count += ((uint8_t)item->name[i] & 0xC0) != 0x80;
    }
    return count > NAME_MOST;
}

static sft_status check(const sft_import_item *item, sft_error *err) {
    if (type_of(item->dtype) == NULL) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "a MindSpore checkpoint has no type %s: cast it (--cast f32) or leave "
            "it out",
            item->dtype->name);
    }
    if (item->name_len == 0 || is_too_long(item)) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "MindSpore loads a checkpoint only if its names have 1 to %d characters: "
            "rename it",
            (int)NAME_MOST);
    }
    if (item->tensor->rank == 1 && item->tensor->shape[0] == 0) { /* it means a scalar there */
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "a MindSpore checkpoint has no vector without elements: leave it out");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- messages */

static size_t number_len(uint64_t v) {
    size_t n = 1;
    for (; v > 0x7f; v >>= 7) {
        n++;
    }
    return n;
}

/* A tag of one byte, and a number. */
static void put_number(sft__base_buf *b, uint8_t tag, uint64_t v) {
    uint8_t bytes[NUMBER_MOST];
    size_t n = 0;

    bytes[n++] = tag;
    for (; v > 0x7f; v >>= 7) {
        bytes[n++] = (uint8_t)(v | 0x80);
    }
    bytes[n++] = (uint8_t)v;
    sft__base_buf_add(b, bytes, n);
}

/* Everything of a piece that comes before its content. */
static void put_head(sft__base_buf *b, const sft_import_item *item, uint64_t nbytes) {
    const sft_tensor *t = item->tensor;
    const char *type = type_of(item->dtype);
    uint64_t inner = 2 + strlen(type) + 1 + number_len(nbytes) + nbytes;

    for (uint32_t d = 0; d < t->rank; d++) {
        inner += 1 + number_len(t->shape[d]);
    }
    const uint64_t name = 1 + number_len(item->name_len) + item->name_len;
    put_number(b, 1 << 3 | 2, name + 1 + number_len(inner) + inner);
    put_number(b, 1 << 3 | 2, item->name_len);
    sft__base_buf_add(b, item->name, item->name_len);
    put_number(b, 2 << 3 | 2, inner);
    for (uint32_t d = 0; d < t->rank; d++) {
        put_number(b, 1 << 3, t->shape[d]);
    }
    put_number(b, 2 << 3 | 2, strlen(type));
    sft__base_buf_text(b, type);
    put_number(b, 3 << 3 | 2, nbytes);
}

/* ---------------------------------------------------------------- the file */

typedef struct layout {
    sft__import_export *job;
    sft__import_stretch *pieces;
    size_t count;
    uint64_t most; /* bytes of a piece */
    uint64_t end;  /* of the messages */
    sft__base_buf head;
} layout;

static uint64_t pieces_of(const layout *l, const sft_import_item *item) {
    return item->nbytes == 0 ? 1 : item->nbytes / l->most + (item->nbytes % l->most != 0);
}

static sft_status plan(layout *l, sft_error *err) {
    sft__import_export *job = l->job;
    uint64_t count = 0;

    for (size_t i = 0; i < job->c.item_count; i++) {
        count += pieces_of(l, &job->c.items[i]); /* at most the bytes */
    }
    if (count > SIZE_MAX / sizeof *l->pieces) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu pieces are too many",
                              (unsigned long long)count);
    }
    SFT_TRY(sft__import_export_alloc(job, &l->pieces, (size_t)count, sizeof *l->pieces, err));
    for (size_t i = 0; i < job->c.item_count; i++) {
        const sft_import_item *item = &job->c.items[i];
        for (uint64_t n = pieces_of(l, item), first = 0; n > 0; n--, first += l->most) {
            const uint64_t left = item->nbytes - first;
            const uint64_t nbytes = left < l->most ? left : l->most;
            l->head.len = 0;
            put_head(&l->head, item, nbytes);
            SFT_NEED(!l->head.failed, item->name_len, err);
            uint64_t at;
            if (!sft__base_add64(l->end, l->head.len, &at) ||
                !sft__base_add64(at, nbytes, &l->end)) {
                return sft__base_fail(err, SFT_E_OVERFLOW,
                                      "the file would have more than 2^64 bytes");
            }
            l->pieces[l->count++] =
                (sft__import_stretch){.item = i, .first = first, .nbytes = nbytes, .offset = at};
        }
    }
    return SFT_OK;
}

/* The heads, and the checksum of all: each part's, shifted over what follows it. */
static sft_status finish(layout *l, sft_error *err) {
    uint8_t trailer[TRAILER] = "crc_num";
    uint64_t at = 0;
    uint32_t crc = 0;

    for (size_t i = 0; i < l->count; i++) {
        const sft__import_stretch *p = &l->pieces[i];
        l->head.len = 0;
        put_head(&l->head, &l->job->c.items[p->item], p->nbytes);
        SFT_NEED(!l->head.failed, l->head.len, err);
        SFT_TRY(sft__import_export_put(l->job, at, l->head.data, l->head.len, err));
        crc = sft__import_crc32(crc, l->head.data, l->head.len);
        crc = sft__import_crc32_shift(crc, p->nbytes) ^ p->crc32;
        at = p->offset + p->nbytes;
    }
    for (int i = 0; i < 4; i++) {
        trailer[TRAILER - 1 - i] = (uint8_t)(crc >> 8 * i);
    }
    return sft__import_export_put(l->job, l->end, trailer, sizeof trailer, err);
}

static sft_status write_all(layout *l, sft_error *err) {
    SFT_TRY(plan(l, err));
    SFT_TRY(sft__import_export_start(l->job, l->end + TRAILER, err));
    SFT_TRY(sft__import_export_copy(l->job, l->pieces, l->count, true, err));
    return finish(l, err);
}

static sft_status write_mindspore(sft__import_export *job, sft_error *err) {
    layout l = {.job = job, .most = job->options.piece_bytes};

    if (job->c.item_count == 0) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "a MindSpore checkpoint without a parameter is none");
    }
    l.most = l.most == 0 || l.most > PIECE ? PIECE : l.most;
    l.most = l.most < 16 ? 16 : l.most / 16 * 16; /* whole elements */
    sft__base_buf_init(&l.head, job->c.allocator);
    const sft_status status = write_all(&l, err);
    sft__base_buf_reset(&l.head);
    return status;
}

const sft__import_writer_row sft__import_writer_mindspore = {
    SFT_IMPORT_MINDSPORE, false, false, check, write_mindspore, NULL};
