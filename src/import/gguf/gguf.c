/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf.c - GGUF files, versions 1 to 3 in both byte orders: the description is read
 * through one window, front to back, each count compared with the bytes that are left before
 * anything is made of it. Blocks are given raw, as rows of bytes, or as 32-bit floats if that is
 * asked for. Source: ggml's docs/gguf.md, gguf.cpp. Read first: gguf.h, gguf_in.h.
 */
#include "base/checked.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "import/gguf/gguf_in.h"
#include <stdlib.h>

enum { GAPS_MOST = 4096 };

typedef struct info {
    const char *name; /* name, len first for the name table */
    size_t name_len;
    const sft__import_gguf_type *type;
    uint64_t shape[SFT__GGUF_RANK_MAX]; /* as it is given: reversed */
    uint64_t row;                       /* elements of a row: the last of shape, or 1 */
    uint64_t offset;                    /* in the file */
    uint64_t nbytes;
    uint32_t rank;
    uint32_t reserved;
} info;

/* ---------------------------------------------------------------- tensors */

static sft_status read_shape(sft__import_gguf_in *g, info *t, sft_error *err) {
    uint64_t elements = 1;
    uint32_t rank;

    SFT_TRY(sft__import_gguf_u32(g, &rank, err));
    if (rank > SFT__GGUF_RANK_MAX) {
        return sft__base_fail_tensor(err, SFT_E_SCHEMA, g->at - 4, t->name, t->name_len,
                                     "gguf-rank: %u dimensions, at most 4 are possible",
                                     (unsigned)rank);
    }
    t->rank = rank;
    for (uint32_t d = rank; d-- > 0;) { /* the first in the file lies in order: it is the last */
        SFT_TRY(sft__import_gguf_size(g, &t->shape[d], err));
        if (t->shape[d] > INT64_MAX || !sft__base_mul64(elements, t->shape[d], &elements)) {
            return sft__base_fail_tensor(err, SFT_E_OVERFLOW, g->at, t->name, t->name_len,
                                         "gguf-shape: the dimensions overflow 64 bits");
        }
    }
    t->row = rank > 0 ? t->shape[rank - 1] : 1;
    return SFT_OK;
}

static sft_status read_info(sft__import_gguf_in *g, info *t, sft_error *err) {
    uint64_t elements = 1;
    uint32_t number;

    SFT_TRY(sft__import_gguf_string(g, SFT__GGUF_KEY_MAX, &t->name, &t->name_len, err));
    SFT_TRY(read_shape(g, t, err));
    SFT_TRY(sft__import_gguf_u32(g, &number, err));
    t->type = sft__import_gguf_type_get(number);
    if (t->type == NULL) {
        return sft__base_fail_tensor(err, SFT_E_DTYPE, g->at - 4, t->name, t->name_len,
                                     "gguf-type: there is no type %u, or not any more",
                                     (unsigned)number);
    }
    SFT_TRY(sft__import_gguf_u64(g, &t->offset, err));
    if (t->row % t->type->elements != 0) {
        return sft__base_fail_tensor(err, SFT_E_SHAPE, g->at, t->name, t->name_len,
                                     "gguf-shape: rows of %llu elements, a block of %s has %u",
                                     (unsigned long long)t->row, t->type->name,
                                     (unsigned)t->type->elements);
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        elements *= t->shape[d];
    }
    if (!sft__base_mul64(elements / t->type->elements, t->type->bytes, &t->nbytes)) {
        return sft__base_fail_tensor(err, SFT_E_OVERFLOW, g->at, t->name, t->name_len,
                                     "gguf-shape: the dimensions overflow 64 bits");
    }
    return SFT_OK;
}

/* Offsets count from the first multiple of the alignment behind the description. */
static sft_status place(sft__import_gguf_in *g, info *infos, size_t count, uint64_t start,
                        sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        info *t = &infos[i];
        uint64_t stop;
        if (t->offset % g->alignment != 0) {
            return sft__base_fail_tensor(err, SFT_E_OFFSETS, t->offset, t->name, t->name_len,
                                         "gguf-offset: %llu is no multiple of the alignment %llu",
                                         (unsigned long long)t->offset,
                                         (unsigned long long)g->alignment);
        }
        if (!sft__base_add64(t->offset, start, &t->offset) ||
            !sft__base_add64(t->offset, t->nbytes, &stop) || stop > g->end) {
            return sft__base_fail_tensor(
                err, SFT_E_SCHEMA, t->offset, t->name, t->name_len,
                "gguf-offset: %llu bytes are needed there, the file has %llu",
                (unsigned long long)t->nbytes, (unsigned long long)g->end);
        }
    }
    return SFT_OK;
}

static int by_offset(const void *a, const void *b) {
    const info *x = *(const info *const *)a;
    const info *y = *(const info *const *)b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
                                  : (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes);
}

static sft_status check_overlaps(sft__import_gguf_in *g, info *infos, size_t count, uint64_t start,
                                 sft_error *err) {
    const info **sorted;
    uint64_t at = start;
    uint64_t unused = 0;
    uint64_t gaps = 0;

    SFT_TRY(sft__import_alloc(g->job, &sorted, count, sizeof *sorted, err));
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &infos[i];
    }
    qsort(sorted, count, sizeof *sorted, by_offset);
    for (size_t i = 0; i < count; i++) {
        const info *t = sorted[i];
        if (t->offset < at && t->nbytes > 0) {
            SFT_TRY(sft__import_trick(g->job, SFT__RULE(CONTAINER, UNKNOWN, "gguf-overlap"),
                                      sft__import_text_at(t->name, t->offset), err,
                                      "it shares bytes with another tensor"));
        }
        if (t->offset > at && t->offset - at >= g->alignment) {
            unused += t->offset - at;
            gaps++;
            SFT_TRY(gaps <= GAPS_MOST
                        ? sft__import_unnamed(g->job, g->job->file, at, t->offset, err)
                        : SFT_OK);
        }
        at = t->offset + t->nbytes > at ? t->offset + t->nbytes : at;
    }
    if (count > 0 && g->end > at && g->end - at >= g->alignment) {
        unused += g->end - at;
    }
    sft__import_report_unused(g->job->report, unused);
    if (gaps > GAPS_MOST && g->job->scanning) {
        sft__import_find(g->job, SFT__RULE(CONTAINER, UNKNOWN, "trailing"), SFT__AT("", 0, start),
                         "more gaps between tensors than are looked into");
    }
    return sft__import_unnamed(g->job, g->job->file, at, g->end, err);
}

/* ---------------------------------------------------------------- into the catalog */

static void note_blocks(sft__import_gguf_in *g, const info *t) {
    sft__base_buf *b = &g->tensors;

    sft__base_buf_text(b, b->len == 0 ? "{" : ", ");
    sft__base_json_string(b, t->name, t->name_len);
    sft__base_buf_text(b, ": {\"type\": \"");
    sft__base_buf_text(b, t->type->name);
    sft__base_buf_text(b, "\", \"shape\": [");
    for (uint32_t d = 0; d < t->rank; d++) {
        sft__base_buf_text(b, d > 0 ? ", " : "");
        sft__base_buf_u64(b, t->shape[d]);
    }
    sft__base_buf_text(b, "]}");
}

/* A source that turns the tensor's blocks (or elements) into what is given. */
static sft_status map(sft__import_gguf_in *g, const info *t, const sft__import_block_map *m,
                      sft_piece *piece, sft_error *err) {
    sft_source *made;

    SFT_TRY(sft__import_source_map(&made, g->job->file,
                                   (sft__import_extent){t->offset, t->nbytes / m->in_bytes}, m,
                                   g->job->allocator, err));
    SFT_TRY(sft_builder_add_source(g->job->builder, made, &piece->source, err));
    piece->offset = 0;
    return SFT_OK;
}

static sft_status add_tensor(sft__import_gguf_in *g, info *t, sft_error *err) {
    const sft__import_gguf_type *type = t->type;
    const bool wanted = (g->job->options.flags & SFT_IMPORT_DEQUANTIZE) != 0;
    uint32_t dtype = type->dtype;
    uint64_t shape[SFT__GGUF_RANK_MAX];
    sft_piece piece;
    sft_tensor out;

    memset(&piece, 0, sizeof piece);
    memset(&out, 0, sizeof out);
    memcpy(shape, t->shape, sizeof shape);
    piece.offset = t->offset;
    if (dtype == 0 && g->big) {
        return sft__import_opaque(g->job, SFT__NAMED(t, t->offset), err,
                                  "gguf-order: blocks of %s in a big-endian file", type->name);
    }
    const sft__import_block_fn floats = wanted ? sft__import_dequant(type->number) : NULL;
    if (dtype == 0 && floats != NULL) {
        const sft__import_block_map m = {floats, 0, type->bytes, 4 * type->elements};
        SFT_TRY(map(g, t, &m, &piece, err));
        dtype = SFT_F32;
    } else if (dtype == 0) {
        if (wanted) {
            sft__import_find(g->job, SFT__RULE(NOTE, HARMLESS, "gguf-raw"),
                             SFT__NAMED(t, t->offset),
                             "blocks of %s are not turned into floats: given as bytes", type->name);
        }
        shape[t->rank - 1] = t->row / type->elements * type->bytes;
        note_blocks(g, t);
        SFT_TRY(sft__import_gguf_check_note(g, &g->tensors, err));
        dtype = SFT_U8;
    } else if (g->big && type->bytes > 1) {
        const sft__import_block_map m = {sft__import_block_swap, type->bytes, type->bytes,
                                         type->bytes};
        SFT_TRY(map(g, t, &m, &piece, err));
    }
    out.name = t->name;
    out.name_len = t->name_len;
    out.dtype = sft_dtype_get(dtype);
    out.shape = shape;
    out.rank = t->rank;
    out.pieces = &piece;
    out.piece_count = 1;
    return sft__import_tensor(g->job, &out, err);
}

static sft_status read_tensors(sft__import_gguf_in *g, uint64_t count, sft_error *err) {
    uint64_t start;
    info *infos;

    SFT_TRY(sft__import_alloc(g->job, &infos, (size_t)count, sizeof *infos, err));
    for (size_t i = 0; i < count; i++) {
        memset(&infos[i], 0, sizeof infos[i]);
        SFT_TRY(read_info(g, &infos[i], err));
    }
    if (!sft__base_align64(g->at, g->alignment, &start)) {
        return sft__base_fail_at(err, SFT_E_OVERFLOW, g->at, "gguf-alignment: it overflows");
    }
    SFT_TRY(place(g, infos, (size_t)count, start, err));
    SFT_TRY(check_overlaps(g, infos, (size_t)count, start, err));
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(add_tensor(g, &infos[i], err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the file */

static bool probe(const sft__import_probe *p) {
    return p->head_len >= 8 && memcmp(p->head, "GGUF", 4) == 0;
}

/* A description is worth at least this many bytes: then counts cannot be lies for long. */
static sft_status check_count(sft__import_gguf_in *g, uint64_t count, uint32_t least,
                              const char *what, sft_error *err) {
    if (count > (g->end - g->at) / least || count > SIZE_MAX / 256) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, g->at,
                                 "gguf-count: %llu %s cannot be in the %llu bytes that are left",
                                 (unsigned long long)count, what,
                                 (unsigned long long)(g->end - g->at));
    }
    return SFT_OK;
}

static sft_status read_all(sft__import_gguf_in *g, sft_error *err) {
    uint64_t tensors;
    uint64_t values;

    SFT_TRY(sft__import_gguf_begin(g, err));
    SFT_TRY(sft__import_gguf_size(g, &tensors, err));
    SFT_TRY(sft__import_gguf_size(g, &values, err));
    const uint32_t length = g->version == 1 ? 4 : 8;
    SFT_TRY(check_count(g, tensors, length + 16, "tensors", err));
    SFT_TRY(check_count(g, values, length + 5, "metadata values", err));
    SFT_TRY(sft__import_gguf_values(g, values, err));
    if (g->split_count > 1 && (g->job->options.flags & SFT__IMPORT_IN_SET) == 0) {
        sft__import_find(
            g->job, SFT__RULE(LEFT_OUT, HARMLESS, "gguf-split"), SFT__AT("", 0, SFT_NO_OFFSET),
            "this is shard %llu of %llu of a model: the tensors of the others are in "
            "their own files; the first, under the name that gguf-split gave it, opens all",
            (unsigned long long)g->split_no + 1, (unsigned long long)g->split_count);
    }
    SFT_TRY(read_tensors(g, tensors, err));
    return sft__import_gguf_note_types(g, err);
}

static sft_status open_gguf(sft__import *job, sft_error *err) {
    sft__import_gguf_in g;

    memset(&g, 0, sizeof g);
    g.job = job;
    g.end = sft_source_size(job->file);
    g.alignment = SFT__GGUF_ALIGNMENT;
    sft__base_buf_init(&g.text, job->allocator);
    sft__base_buf_init(&g.types, job->allocator);
    sft__base_buf_init(&g.bytes, job->allocator);
    sft__base_buf_init(&g.tensors, job->allocator);
    const sft_status status = read_all(&g, err);
    sft__base_buf_reset(&g.text);
    sft__base_buf_reset(&g.types);
    sft__base_buf_reset(&g.bytes);
    sft__base_buf_reset(&g.tensors);
    return status;
}

const sft__import_reader sft__import_reader_gguf = {SFT_IMPORT_GGUF, probe, open_gguf};
