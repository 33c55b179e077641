/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/mindspore/mindspore.c - MindSpore's .ckpt: Checkpoint messages one after the other, each with a
 * Value (name, shape, type, bytes). A parameter of more than 512 MiB is several values of the same
 * name in a row. At the end perhaps "crc_num" and ten bytes. Source:
 * mindspore/train/checkpoint.proto, serialization.py. Read first: wire.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/core/wire.h"

enum { TRAILER = 17, TRAILER_NUMBER = 10, TAG_MAX = 65536, TYPE_MAX = 32 };

typedef struct ms_type {
    const char *name;
    uint32_t dtype;
} ms_type;

/* Int4: two in a byte. */
static const ms_type types[] = {{"Float32", SFT_F32},
                                {"Float16", SFT_F16},
                                {"BFloat16", SFT_BF16},
                                {"Float64", SFT_F64},
                                {"Int8", SFT_I8},
                                {"UInt8", SFT_U8},
                                {"Int16", SFT_I16},
                                {"UInt16", SFT_U16},
                                {"Int32", SFT_I32},
                                {"UInt32", SFT_U32},
                                {"Int64", SFT_I64},
                                {"UInt64", SFT_U64},
                                {"Bool", SFT_BOOL},
                                {"Complex64", SFT_C64},
                                {"Complex128", SFT__C128},
                                {"Float8E4M3FN", SFT_F8_E4M3},
                                {"Float8E5M2", SFT_F8_E5M2},
                                {"Int4", SFT_I8}};

/* One Value. */
typedef struct value {
    const char *tag;
    size_t tag_len;
    char type[TYPE_MAX];
    sft__import_wire_dims dims;
    sft__import_run run;
    uint64_t at;
    bool has_tag;
    bool has_tensor;
    bool has_type;
    bool has_content;
    bool map;
} value;

typedef struct reading {
    sft__import *job;
    sft__import_wire_in in;
    value whole; /* the values of one name so far */
    bool open;
    sft__import_run *runs;
    size_t count;
    size_t room;
    uint64_t data_bytes;
} reading;

static const sft_dtype *type_of(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return sft__import_dtype(types[i].dtype);
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- one value */

static sft_status read_type(sft__import_wire_in *in, value *v, const sft__import_wire_field *f,
                            sft_error *err) {
    const uint8_t *bytes;

    if (f->wire != SFT__PB_BYTES || f->len >= TYPE_MAX) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, f->start,
                                 "mindspore: a tensor_type that names no type");
    }
    SFT_TRY(sft__import_wire_bytes(in, f->at, (size_t)f->len, &bytes, err));
    memset(v->type, 0, sizeof v->type);
    memcpy(v->type, bytes, (size_t)f->len);
    v->has_type = true;
    return SFT_OK;
}

static sft_status read_tensor(sft__import_wire_in *in, value *v, sft__import_wire m,
                              sft_error *err) {
    sft__import_wire_field f;
    sft_status status;

    while (sft__import_wire_each(in, &m, &f, &status, err)) {
        if (f.number == 1) {
            SFT_TRY(sft__import_wire_dims_add(in, &v->dims, &f, err));
        } else if (f.number == 2) {
            SFT_TRY(read_type(in, v, &f, err));
        } else if (f.number == 3 && f.wire == SFT__PB_BYTES && !v->has_content) {
            v->run = (sft__import_run){f.at, f.len, 0};
            v->has_content = true;
        } else {
            return sft__base_fail_at(
                err, SFT_E_SCHEMA, f.start,
                "mindspore: field %u where a tensor has dims, type and content once",
                (unsigned)f.number);
        }
    }
    return status;
}

/* job: NULL while only probing; then the tag is not kept. */
static sft_status read_value(sft__import_wire_in *in, sft__import *job, value *v,
                             sft__import_wire m, sft_error *err) {
    sft__import_wire_field f;
    sft_status status;

    memset(v, 0, sizeof *v);
    v->at = m.at;
    while (sft__import_wire_each(in, &m, &f, &status, err)) {
        if (f.wire != SFT__PB_BYTES) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, f.start,
                                     "mindspore: field %u is no message", (unsigned)f.number);
        }
        if (f.number == 1 && !v->has_tag) {
            v->has_tag = true;
            v->tag_len = (size_t)f.len;
            if (job != NULL) {
                SFT_TRY(sft__import_wire_text(in, job, &f, TAG_MAX, &v->tag, err));
            }
        } else if (f.number == 2 && !v->has_tensor && !v->map) {
            v->has_tensor = true;
            SFT_TRY(read_tensor(in, v, sft__import_wire_inside(&f), err));
        } else if (f.number == 3 && !v->has_tensor) {
            v->map = true;
        } else {
            return sft__base_fail_at(err, SFT_E_SCHEMA, f.start,
                                     "mindspore: field %u where a value has a name and one tensor",
                                     (unsigned)f.number);
        }
    }
    SFT_TRY(status);
    if (!v->has_tag || !(v->map || (v->has_tensor && v->has_type && v->has_content))) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, v->at,
                                 "mindspore: a value without its name, type or content");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- parameters */

static sft_status flush(reading *r, sft_error *err) {
    const value *v = &r->whole;
    sft__import *job = r->job;
    sft_tensor t;

    if (!r->open) {
        return SFT_OK;
    }
    r->open = false;
    if (v->map) {
        return sft__import_opaque(job, SFT__AT(v->tag, v->tag_len, v->at), err,
                                  "mindspore: %.100s is a map parameter (a hash table), no tensor",
                                  v->tag);
    }
    if (strcmp(v->type, "str") == 0) {
        sft__import_find(job, SFT__RULE(LEFT_OUT, HARMLESS, "text"),
                         SFT__AT(v->tag, v->tag_len, v->at), "a text, no tensor");
        return SFT_OK;
    }
    memset(&t, 0, sizeof t);
    t.dtype = type_of(v->type);
    if (t.dtype == NULL) {
        char type[4 * TYPE_MAX];
        (void)sft_escape(type, sizeof type, v->type, strlen(v->type));
        return sft__import_opaque(job, SFT__AT(v->tag, v->tag_len, v->at), err,
                                  "mindspore: %.100s has the type \"%s\", which is not known",
                                  v->tag, type);
    }
    t.name = v->tag;
    t.name_len = v->tag_len;
    t.shape = v->dims.at;
    t.rank = v->dims.rank;
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->count; i++) {
        bytes += r->runs[i].nbytes;
    }
    if (t.rank == 1 && t.shape[0] == 0 && bytes == t.dtype->block_bytes) {
        t.rank = 0; /* how scalars were written before 2.0 */
    }
    return sft__import_runs(job, &t, r->runs, r->count, err);
}

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

static sft_status differs(const value *v, sft_error *err) {
    return sft__base_fail_tensor(
        err, SFT_E_SCHEMA, v->at, v->tag, v->tag_len,
        "mindspore: the pieces of one parameter have different shapes or types");
}

static sft_status add_value(reading *r, const value *v, sft_error *err) {
    const value *w = &r->whole;

    if (r->open && same_text(w->tag, w->tag_len, v->tag, v->tag_len)) {
        if (v->map != w->map || strcmp(v->type, w->type) != 0 || v->dims.rank != w->dims.rank ||
            memcmp(v->dims.at, w->dims.at, v->dims.rank * sizeof v->dims.at[0]) != 0) {
            return differs(v, err);
        }
    } else {
        SFT_TRY(flush(r, err));
        r->whole = *v;
        r->open = true;
        r->count = 0;
    }
    SFT_TRY(SFT_ONE_MORE(r->job->allocator, r->runs, r->room, r->count, err));
    if (r->room * sizeof *r->runs > r->job->options.memory_bytes / 4) {
        return sft__base_fail_at(err, SFT_E_LIMIT, v->at, "memory: one parameter in %zu pieces",
                                 r->count);
    }
    r->runs[r->count++] = v->run;
    return SFT_OK;
}

/* ---------------------------------------------------------------- the file */

static sft_status check_trailer(reading *r, uint64_t *end, sft_error *err) {
    sft__import *job = r->job;
    const uint8_t *t;
    uint32_t crc;

    if (*end < TRAILER) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_wire_bytes(&r->in, *end - TRAILER, TRAILER, &t, err));
    if (memcmp(t, "crc_num", TRAILER - TRAILER_NUMBER) != 0) {
        return SFT_OK;
    }
    const uint8_t *n = t + (TRAILER - TRAILER_NUMBER);
    const uint32_t want =
        (uint32_t)n[6] << 24 | (uint32_t)n[7] << 16 | (uint32_t)n[8] << 8 | (uint32_t)n[9];
    const bool large = (n[0] | n[1] | n[2] | n[3] | n[4] | n[5]) != 0;
    *end -= TRAILER;
    if (!large && (job->options.flags & SFT_IMPORT_CHECKSUMS) == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_source_crc32(job->file, 0, *end, &crc, job->allocator, err));
    if (large || crc != want) {
        return sft__import_trick(job, SFT__RULE(CONTAINER, UNKNOWN, "crc-mismatch"),
                                 sft__import_text_at("crc_num", *end), err,
                                 "the checksum of the file is %08x, its trailer says %08x",
                                 (unsigned)crc, (unsigned)want);
    }
    return SFT_OK;
}

static sft_status read_file(reading *r, sft_error *err) {
    sft__import_wire m = {0, sft_source_size(r->job->file)};
    sft__import_wire_field f;
    sft_status status;
    value v;

    sft__import_wire_init(&r->in, r->job->file);
    SFT_TRY(check_trailer(r, &m.end, err));
    while (sft__import_wire_each(&r->in, &m, &f, &status, err)) {
        if (f.number != 1 || f.wire != SFT__PB_BYTES) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, f.start,
                                     "mindspore: field %u, a checkpoint has values only",
                                     (unsigned)f.number);
        }
        SFT_TRY(read_value(&r->in, r->job, &v, sft__import_wire_inside(&f), err));
        SFT_TRY(add_value(r, &v, err));
    }
    SFT_TRY(status);
    return flush(r, err);
}

static sft_status open_mindspore(sft__import *job, sft_error *err) {
    reading *r;

    SFT_TRY(sft__base_need_zero(job->allocator, &r, sizeof *r, err));
    r->job = job;
    const sft_status status = read_file(r, err);
    sft__base_free(job->allocator, r->runs, r->room * sizeof *r->runs);
    sft__base_free(job->allocator, r, sizeof *r);
    return status;
}

/* A first value with a name, and a tensor whose type is a word, or a map. */
static bool probe(const sft__import_probe *p) {
    sft__import_wire m = {0, p->size};
    sft__import_wire_in in;
    sft__import_wire_field f;
    bool more;
    value v;

    if (p->head_len < 8 || p->head[0] != 0x0a) {
        return false;
    }
    sft__import_wire_init(&in, p->source);
    if (sft__import_wire_next(&in, &m, &f, &more, NULL) != SFT_OK ||
        read_value(&in, NULL, &v, sft__import_wire_inside(&f), NULL) != SFT_OK) {
        return false;
    }
    return v.tag_len != 0 && (v.map || strcmp(v.type, "str") == 0 || type_of(v.type) != NULL);
}

const sft__import_reader sft__import_reader_mindspore = {SFT_IMPORT_MINDSPORE, probe,
                                                         open_mindspore};
