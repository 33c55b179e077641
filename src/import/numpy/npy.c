/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/numpy/npy.c - numpy arrays, format versions 1.0 to 3.0: a header that is one Python dict of
 * three keys, read by a parser of exactly that, and the elements behind it. Either order of
 * dimensions (by strides) and of bytes (turned when read). Arrays of objects are pickles: refused,
 * or scanned. Source: numpy/lib/format.py. Read first: npy.h.
 */
#include "import/numpy/npy.h"
#include "base/checked.h"
#include "import/pickle/pickle.h"
#include <stdio.h>

enum { HEADER_MAX = 10000 /* as numpy itself has it */, DESCR_MAX = 64 };

typedef struct header {
    char descr[DESCR_MAX];
    size_t descr_len;
    bool listed; /* descr is no string: fields */
    bool fortran;
    uint32_t rank;
    uint64_t shape[SFT__NPY_RANK_MAX];
} header;

typedef struct reading {
    sft__import *job;
    sft__import_npy at;
    uint64_t data; /* of the elements */
} reading;

static sft_status wrong(const reading *r, sft_error *err, const char *what) {
    return sft__base_fail_tensor(err, SFT_E_SCHEMA, r->at.offset, r->at.name, r->at.name_len,
                                 "npy-header: %s", what);
}

/* ---------------------------------------------------------------- the dict */

static const char *blank(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') {
        p++;
    }
    return p;
}

/* A string without escapes. NULL: none here. */
static const char *string(const char *p, const char **text, size_t *len) {
    const char quote = *p;
    const char *start = ++p;

    if (quote != '\'' && quote != '"') {
        return NULL;
    }
    while (*p != quote) {
        if (*p == '\0' || *p == '\\' || *p == '\n') {
            return NULL;
        }
        p++;
    }
    *text = start;
    *len = (size_t)(p - start);
    return p + 1;
}

static const char *word(const char *p, const char *text) {
    const size_t n = strlen(text);
    return strncmp(p, text, n) == 0 ? p + n : NULL;
}

/* "(2, 3)", "(2,)", "()"; Python 2 wrote 2L. */
static const char *parse_shape(const char *p, header *h) {
    if (*p != '(') {
        return NULL;
    }
    p = blank(p + 1);
    while (*p != ')') {
        uint64_t n = 0;
        if (h->rank == SFT__NPY_RANK_MAX || *p < '0' || *p > '9') {
            return NULL;
        }
        for (; *p >= '0' && *p <= '9'; p++) {
            if (!sft__base_mul64(n, 10, &n) || !sft__base_add64(n, (uint64_t)(*p - '0'), &n)) {
                return NULL;
            }
        }
        p += *p == 'L';
        h->shape[h->rank++] = n;
        p = blank(p);
        if (*p == ',') {
            p = blank(p + 1);
        } else if (*p != ')' || h->rank == 1) { /* (2) is a number in brackets, no tuple */
            return NULL;
        }
    }
    return p + 1;
}

/* A list of fields: only where it ends matters. Brackets and strings are all that can hide it. */
static const char *skip_list(const char *p) {
    int depth = 0;

    do {
        const char *text;
        size_t len;
        if (*p == '[' || *p == '(') {
            depth++;
        } else if (*p == ']' || *p == ')') {
            depth--;
        } else if (*p == '\'' || *p == '"') {
            p = string(p, &text, &len);
            if (p == NULL) {
                return NULL;
            }
            continue;
        } else if (*p == '\0') {
            return NULL;
        }
        p++;
    } while (depth > 0);
    return p;
}

static const char *parse_value(const char *p, uint32_t key, header *h) {
    const char *text;
    const char *next;
    size_t len;

    if (key == 2) {
        return parse_shape(p, h);
    }
    if (key == 1) {
        next = word(p, "True");
        h->fortran = next != NULL;
        return next != NULL ? next : word(p, "False");
    }
    if (*p == '[' || *p == '(') {
        h->listed = true;
        return skip_list(p);
    }
    next = string(p, &text, &len);
    if (next == NULL || len >= DESCR_MAX) {
        return NULL;
    }
    memcpy(h->descr, text, len);
    h->descr_len = len;
    return next;
}

/* Exactly the three keys, in any order, then blanks. NULL: fine; else what is wrong. */
static const char *parse_dict(const char *p, header *h) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    uint32_t seen = 0;

    p = blank(p);
    if (*p != '{') {
        return "the header is no dict";
    }
    p = blank(p + 1);
    while (*p != '}') {
        const char *text;
        size_t len;
        uint32_t k = 0;
        p = string(p, &text, &len);
        while (p != NULL && k < 3 && !(strlen(keys[k]) == len && memcmp(keys[k], text, len) == 0)) {
            k++;
        }
        if (p == NULL || k == 3 || (seen & (1u << k)) != 0) {
            return "the dict has other keys than descr, fortran_order and shape, once each";
        }
        seen |= 1u << k;
        p = blank(p);
        if (*p != ':') {
            return "a key of the dict has no value";
        }
        p = parse_value(blank(p + 1), k, h);
        if (p == NULL) {
            return k == 0   ? "descr is no string and no list of fields"
                   : k == 1 ? "fortran_order is neither True nor False"
                            : "shape is no tuple of at most 64 numbers from 0 to 2^64 - 1";
        }
        p = blank(p);
        if (*p == ',') {
            p = blank(p + 1);
        } else if (*p != '}') {
            return "the dict is not closed";
        }
    }
    if (seen != 7) {
        return "the dict lacks one of descr, fortran_order and shape";
    }
    return *blank(p + 1) == '\0' ? NULL : "something follows the dict";
}

static sft_status read_header(reading *r, header *h, sft_error *err) {
    uint8_t head[12];
    const uint64_t size = r->at.end - r->at.offset;
    const char *fault;
    char *text;

    if (size < 10) {
        return wrong(r, err, "the file ends in it");
    }
    SFT_TRY(sft_source_read(r->at.bytes, r->at.offset, head, size < 12 ? 10 : 12, err));
    if (memcmp(head, "\x93NUMPY", 6) != 0) {
        return wrong(r, err, "it does not begin with \\x93NUMPY");
    }
    if (head[6] < 1 || head[6] > 3 || head[7] != 0) {
        return sft__base_fail_tensor(
            err, SFT_E_SCHEMA, r->at.offset + 6, r->at.name, r->at.name_len,
            "npy-header: format version %u.%u, only 1.0, 2.0 and 3.0 are known", head[6], head[7]);
    }
    const size_t fixed = head[6] == 1 ? 10 : 12;
    if (size < fixed) {
        return wrong(r, err, "the file ends in it");
    }
    const uint32_t len =
        head[6] == 1 ? sft__base_load_le16(head + 8) : sft__base_load_le32(head + 8);
    if (len > size - fixed) {
        return wrong(r, err, "it is said to be longer than the file");
    }
    if (len > HEADER_MAX) {
        return sft__base_fail_tensor(err, SFT_E_LIMIT, r->at.offset, r->at.name, r->at.name_len,
                                     "npy-header: %u bytes, numpy itself takes at most %d",
                                     (unsigned)len, (int)HEADER_MAX);
    }
    SFT_TRY(sft__import_alloc(r->job, &text, (size_t)len + 1, 1, err));
    text[len] = '\0';
    if (len > 0) {
        SFT_TRY(sft_source_read(r->at.bytes, r->at.offset + fixed, text, len, err));
    }
    r->data = r->at.offset + fixed + len;
    if (strlen(text) != len) {
        return wrong(r, err, "it holds a zero byte");
    }
    fault = parse_dict(text, h);
    return fault == NULL ? SFT_OK : wrong(r, err, fault);
}

/* ---------------------------------------------------------------- element types */

static const sft_dtype *dtype_of(const header *h, bool *swap, bool *bare) {
    static const struct {
        const char *text;
        uint32_t id;
    } rows[] = {
        {"b1", SFT_BOOL}, {"u1", SFT_U8},     {"i1", SFT_I8},  {"u2", SFT_U16},
        {"i2", SFT_I16},  {"f2", SFT_F16},    {"u4", SFT_U32}, {"i4", SFT_I32},
        {"f4", SFT_F32},  {"u8", SFT_U64},    {"i8", SFT_I64}, {"f8", SFT_F64},
        {"c8", SFT_C64},  {"c16", SFT__C128}, {"V1", SFT_U8},  {"V2", SFT_U16},
    };
    const char order = h->descr[0];

    if (h->listed || h->descr_len < 3 || (order != '<' && order != '>' && order != '|')) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].text) == h->descr_len - 1 &&
            memcmp(rows[i].text, h->descr + 1, h->descr_len - 1) == 0) {
            const sft_dtype *d = sft__import_dtype(rows[i].id);
            *bare = h->descr[1] == 'V';
            *swap = order == '>' && d->block_bytes > 1 && !*bare;
            return order != '|' || d->block_bytes == 1 || *bare ? d : NULL;
        }
    }
    return NULL;
}

/* What the array is, that it cannot become a tensor; in a scan its pickle is looked into. */
static sft_status opaque(reading *r, const header *h, sft_error *err) {
    char text[6 * DESCR_MAX];

    if (!h->listed && h->descr_len == 2 && h->descr[1] == 'O') {
        sft__import_pickle p;
        if (r->job->scanning) {
            const sft__base_arena before = r->job->arena; /* nothing of it stays but findings */
            memset(&p, 0, sizeof p);
            p.job = r->job;
            sft_status status =
                sft__import_pickle_init(&p, r->job, r->at.bytes, r->at.source, r->at.name, err);
            SFT_THEN(status, sft__import_pickle_run(&p, r->data, r->at.end, err));
            sft__import_pickle_reset(&p);
            sft__base_arena_rewind(&r->job->arena, &before);
            SFT_TRY(status);
        }
        return sft__import_opaque(r->job, SFT__NAMED(&r->at, r->at.offset), err,
                                  "npy-object: an array of Python objects, which is a pickle and "
                                  "no array of numbers");
    }
    (void)sft_escape(text, sizeof text, h->descr, h->descr_len);
    return sft__import_opaque(r->job, SFT__NAMED(&r->at, r->at.offset), err, "npy-dtype: %s",
                              h->listed ? "a structured array: its fields have types of their own"
                                        : text);
}

/* ---------------------------------------------------------------- the tensor */

static sft_status count_bytes(const reading *r, const header *h, const sft_dtype *d,
                              uint64_t *elements, sft_error *err) {
    uint64_t nbytes;
    uint64_t n = 1;
    bool empty = false;

    for (uint32_t i = 0; i < h->rank; i++) {
        empty = empty || h->shape[i] == 0;
    }
    for (uint32_t i = 0; i < h->rank && !empty; i++) {
        if (!sft__base_mul64(n, h->shape[i], &n)) {
            return sft__base_fail_tensor(err, SFT_E_OVERFLOW, r->at.offset, r->at.name,
                                         r->at.name_len, "npy-header: the shape overflows 64 bits");
        }
    }
    n = empty ? 0 : n;
    if (!sft__base_mul64(n, d->block_bytes, &nbytes)) {
        return sft__base_fail_tensor(err, SFT_E_OVERFLOW, r->at.offset, r->at.name, r->at.name_len,
                                     "npy-header: the shape overflows 64 bits");
    }
    if (nbytes > r->at.end - r->data) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, r->data, r->at.name, r->at.name_len,
                                     "npy-size: the shape needs %llu bytes, %llu are there",
                                     (unsigned long long)nbytes,
                                     (unsigned long long)(r->at.end - r->data));
    }
    if (nbytes < r->at.end - r->data) {
        SFT_TRY(sft__import_trick(r->job, SFT__RULE(CONTAINER, UNKNOWN, "npy-trailing"),
                                  sft__import_text_at(r->at.name, r->data + nbytes), err,
                                  "%llu bytes follow the array",
                                  (unsigned long long)(r->at.end - r->data - nbytes)));
    }
    *elements = n;
    return SFT_OK;
}

/* Column-major: the first dimension is the one that lies in order. */
static void fortran_strides(const header *h, const sft_dtype *d, int64_t *strides) {
    uint64_t at = d->block_bytes;

    for (uint32_t i = 0; i < h->rank; i++) {
        strides[i] = (int64_t)at; /* no overflow: the product of all is inside the file */
        at *= h->shape[i];
    }
}

static sft_status add_tensor(reading *r, const header *h, const sft_dtype *d, bool swap,
                             sft_error *err) {
    int64_t strides[SFT__NPY_RANK_MAX];
    uint64_t elements = 0;
    sft_piece piece;
    sft_tensor t;

    SFT_TRY(count_bytes(r, h, d, &elements, err));
    memset(&piece, 0, sizeof piece);
    memset(&t, 0, sizeof t);
    piece.source = r->at.source;
    piece.offset = r->data;
    if (swap) {
        const uint32_t unit = d->kind == SFT_KIND_COMPLEX ? d->block_bytes / 2 : d->block_bytes;
        const sft__import_block_map map = {sft__import_block_swap, unit, unit, unit};
        sft_source *made;
        SFT_TRY(sft__import_source_map(
            &made, r->at.bytes, (sft__import_extent){r->data, elements * (d->block_bytes / unit)},
            &map, r->job->allocator, err));
        SFT_TRY(sft_builder_add_source(r->job->builder, made, &piece.source, err));
        piece.offset = 0;
    }
    if (h->fortran && h->rank > 1 && elements > 0) {
        fortran_strides(h, d, strides);
        piece.strides = strides;
    }
    t.name = r->at.name;
    t.name_len = r->at.name_len;
    t.dtype = d;
    t.shape = h->shape;
    t.rank = h->rank;
    t.pieces = &piece;
    t.piece_count = 1;
    return sft__import_tensor(r->job, &t, err);
}

sft_status sft__import_npy_add(sft__import *job, const sft__import_npy *array, sft_error *err) {
    reading r = {job, *array, 0};
    bool swap = false;
    bool bare = false;
    header h;

    memset(&h, 0, sizeof h);
    SFT_TRY(read_header(&r, &h, err));
    const sft_dtype *d = dtype_of(&h, &swap, &bare);
    if (d == NULL) {
        return opaque(&r, &h, err);
    }
    if (bare) {
        sft__import_find(job, SFT__RULE(NOTE, HARMLESS, "npy-void"),
                         SFT__NAMED(array, array->offset),
                         "elements of %u bytes without a type (bfloat16 and float8 are saved so): "
                         "given as %s",
                         (unsigned)d->block_bytes, d->name);
    }
    return add_tensor(&r, &h, d, swap, err);
}

/* ---------------------------------------------------------------- a file of its own */

static bool probe(const sft__import_probe *p) {
    return p->head_len >= 6 && memcmp(p->head, "\x93NUMPY", 6) == 0;
}

static sft_status open_npy(sft__import *job, sft_error *err) {
    const sft__import_npy all = {job->file, 0, 0, sft_source_size(job->file), "arr_0", 5};

    return sft__import_npy_add(job, &all, err);
}

const sft__import_reader sft__import_reader_npy = {SFT_IMPORT_NPY, probe, open_npy};
