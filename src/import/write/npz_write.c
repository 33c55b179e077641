/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/npz_write.c - numpy archives: one stored member NAME.npy per tensor, format version 1.0
 * (2.0 where the header is longer than 65,535 bytes), in C order, as numpy.savez writes them but
 * with the arrays at multiples of 64 bytes. Source: numpy/lib/format.py. Read first: export.h.
 */
#include "base/memory/need.h"
#include "import/archive/zip.h"
#include "import/numpy/npy.h"
#include "import/write/export.h"

enum { ALIGNMENT = 64 };

static const char *descr_of(const sft_dtype *dtype) {
    static const struct {
        uint32_t id;
        const char *descr;
    } rows[] = {
        {SFT_BOOL, "|b1"}, {SFT_U8, "|u1"},     {SFT_I8, "|i1"},  {SFT_I16, "<i2"},
        {SFT_U16, "<u2"},  {SFT_F16, "<f2"},    {SFT_I32, "<i4"}, {SFT_U32, "<u4"},
        {SFT_F32, "<f4"},  {SFT_C64, "<c8"},    {SFT_F64, "<f8"}, {SFT_I64, "<i8"},
        {SFT_U64, "<u8"},  {SFT__C128, "<c16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].id == dtype->id) {
            return rows[i].descr;
        }
    }
    return NULL;
}

static sft_status check(const sft_import_item *item, sft_error *err) {
    if (descr_of(item->dtype) == NULL) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "numpy has no type %s: cast it (--cast NAME=TYPE) or leave it out", item->dtype->name);
    }
    if (item->tensor->rank > SFT__NPY_RANK_MAX) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name,
                                     item->name_len,
                                     "an array has at most %d dimensions, this one %u",
                                     SFT__NPY_RANK_MAX, (unsigned)item->tensor->rank);
    }
    return SFT_OK;
}

/* Magic, version, length, the dict, blanks up to a multiple of 64, a line break: at most 64
 * dimensions of 21 bytes keep it below the 65,535 bytes of version 1.0. */
static void add_header(sft__base_buf *b, const sft_import_item *item) {
    const sft_tensor *t = item->tensor;
    const size_t start = b->len;

    sft__base_buf_add(b, "\x93NUMPY\x01\x00\x00\x00", 10);
    sft__base_buf_text(b, "{'descr': '");
    sft__base_buf_text(b, descr_of(item->dtype));
    sft__base_buf_text(b, "', 'fortran_order': False, 'shape': (");
    for (uint32_t d = 0; d < t->rank; d++) {
        sft__base_buf_text(b, d > 0 ? " " : "");
        sft__base_buf_u64(b, t->shape[d]);
        sft__base_buf_text(b, d + 1 < t->rank || t->rank == 1 ? "," : "");
    }
    sft__base_buf_text(b, "), }");
    const size_t used = b->len - start + 1;
    sft__base_buf_fill(b, ' ', (ALIGNMENT - used % ALIGNMENT) % ALIGNMENT);
    sft__base_buf_text(b, "\n");
    if (!b->failed) {
        const size_t len = b->len - start - 10;
        b->data[start + 8] = (char)(len & 0xff);
        b->data[start + 9] = (char)(len >> 8);
    }
}

static sft_status add_member(sft__import_export *job, sft__base_buf *b, size_t i,
                             sft__import_zip_member *m, sft_error *err) {
    const sft_import_item *item = &job->c.items[i];
    char *text;

    b->len = 0;
    sft__base_buf_add(b, item->name, item->name_len);
    sft__base_buf_text(b, ".npy");
    const size_t name_len = b->len;
    add_header(b, item);
    SFT_NEED(!b->failed, b->len, err);
    if (!sft__import_zip_name_is_safe(b->data, name_len)) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "no name for a member of an archive (absolute, \"..\", a backslash, "
            "a drive's letter, control characters): rename it");
    }
    SFT_TRY(sft__import_export_alloc(job, &text, b->len, 1, err));
    memcpy(text, b->data, b->len);
    m->name = text;
    m->name_len = name_len;
    m->head = text + name_len;
    m->head_len = b->len - name_len;
    m->item = i;
    return SFT_OK;
}

static sft_status write_npz(sft__import_export *job, sft_error *err) {
    const size_t count = job->c.item_count;
    sft_status status = SFT_OK;
    sft__import_zip_member *members;
    sft__base_buf b;

    SFT_TRY(sft__import_export_alloc(job, &members, count, sizeof *members, err));
    sft__base_buf_init(&b, job->c.allocator);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        status = add_member(job, &b, i, &members[i], err);
    }
    sft__base_buf_reset(&b);
    return status == SFT_OK ? sft__import_zip_write(job, members, count, ALIGNMENT, err) : status;
}

const sft__import_writer_row sft__import_writer_npz = {SFT_IMPORT_NPZ, false,     false,
                                                       check,          write_npz, NULL};
