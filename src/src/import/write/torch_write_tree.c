/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/torch_write_tree.c - the JSON of docs/tree.md as a pickle: dicts, lists, tuples, sets and
 * scalars around the tensors. The text may come from anyone: no name in it reaches the pickle but
 * those of the tables here, and torch's element types. One pass, with an explicit stack. In a node
 * with a tag "$" comes first, "v" last. Read first: torch_write.h, docs/tree.md.
 */
#include "base/text/json.h"
#include "import/core/decimal.h"
#include "import/pickle/globals.h"
#include "import/write/torch_write.h"

enum { DEPTH_MAX = 201 };

typedef enum frame_kind { ITEMS, OBJECT, PAIRS } frame_kind;

typedef struct frame {
    frame_kind kind;
    bool tagged;       /* the object around it ends behind it */
    bool any;          /* one value has been there */
    uint8_t half;      /* PAIRS: 0 between, 1 key wanted, 2 value wanted, 3 end wanted */
    const char *close; /* opcodes */
} frame;

typedef struct tree {
    sft__import_torch_writer *t;
    sft__base_json j;
    const char *text;
    frame frames[DEPTH_MAX + 1];
    size_t depth;
} tree;

static sft_status bad(const tree *k, const char *p, sft_error *err, const char *what) {
    return sft__base_fail(err, SFT_E_SCHEMA, "metadata sft.tree: %s (byte %llu of its text)", what,
                          (unsigned long long)(p != NULL ? p - k->text : 0));
}

static sft__base_buf *out(const tree *k) {
    return &k->t->pickle;
}

/* A string, decoded into the scratch memory. */
static sft_status string(tree *k, const char **p, const char **text, size_t *len, sft_error *err) {
    const char *at = sft__base_json_blank(*p);
    sft__base_json_str s = {NULL, 0, false};
    char *copy;

    const char *end = *at == '"' ? sft__base_json_read(&k->j, at, &s) : NULL;
    if (end == NULL) {
        return bad(k, at, err, "a string was expected");
    }
    SFT_TRY(sft__import_export_alloc(k->t->job, &copy, s.len + 1, 1, err));
    memcpy(copy, s.raw, s.len);
    *len = s.len;
    if (s.escaped) {
        const sft__base_json_str again = {copy, s.len, true};
        *len = sft__base_json_decode(copy, &again);
    }
    *text = copy;
    *p = end;
    return SFT_OK;
}

static sft_status expect(const tree *k, const char **p, char c, sft_error *err) {
    const char *at = sft__base_json_blank(*p);
    if (*at != c) {
        return bad(k, at, err, "another character was expected");
    }
    *p = at + 1;
    return SFT_OK;
}

static bool is(const char *text, size_t len, const char *word) {
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* ---------------------------------------------------------------- scalars */

static void put_real(sft__base_buf *b, double value) {
    uint64_t bits;
    uint8_t bytes[8];

    memcpy(&bits, &value, sizeof bits);
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    sft__import_put_byte(b, 'G'); /* BINFLOAT */
    sft__base_buf_add(b, bytes, sizeof bytes);
}

static sft_status real(tree *k, const char **p, double *value, sft_error *err) {
    const char *at = *p;
    const char *text;
    size_t len;

    SFT_TRY(string(k, p, &text, &len, err));
    return sft__import_decimal_read(text, len, value) ? SFT_OK : bad(k, at, err, "no number");
}

static sft_status big_int(tree *k, const char **p, sft_error *err) {
    uint8_t bytes[SFT__DECIMAL_BYTES];
    const char *at = *p;
    const char *text;
    size_t size;
    size_t len;

    SFT_TRY(string(k, p, &text, &len, err));
    if (!sft__import_decimal_unbig(text, len, bytes, &size)) {
        return bad(k, at, err, "no integer, or one of more than 4,000 digits");
    }
    if (size < 256) {
        sft__import_put_byte(out(k), 0x8a); /* LONG1 */
        sft__import_put_byte(out(k), (uint8_t)size);
    } else {
        sft__import_put_byte(out(k), 0x8b); /* LONG4 */
        sft__import_put_le32(out(k), (uint32_t)size);
    }
    sft__base_buf_add(out(k), bytes, size);
    return SFT_OK;
}

/* _codecs.encode(text, 'latin1'): what protocol 2 has for bytes */
static void put_bytes(sft__base_buf *b, const uint8_t *bytes, size_t size) {
    size_t high = 0;

    for (size_t i = 0; i < size; i++) {
        high += bytes[i] >= 0x80;
    }
    sft__base_buf_text(b, "c_codecs\nencode\nX");
    sft__import_put_le32(b, (uint32_t)(size + high));
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] >= 0x80) {
            sft__import_put_byte(b, (uint8_t)(0xc0 | bytes[i] >> 6));
        }
        sft__import_put_byte(b, bytes[i] >= 0x80 ? (uint8_t)(0x80 | (bytes[i] & 0x3f)) : bytes[i]);
    }
    sft__import_put_text(b, "latin1", 6);
    sft__base_buf_text(b, "\x86R"); /* TUPLE2 REDUCE */
}

static int base64_digit(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static sft_status bytes(tree *k, const char **p, sft_error *err) {
    const char *at = *p;
    const char *text;
    uint8_t *decoded;
    size_t len;
    size_t n = 0;
    uint32_t v = 0;

    SFT_TRY(string(k, p, &text, &len, err));
    const size_t pad = len > 0 && text[len - 1] == '=' ? 1u + (len > 1 && text[len - 2] == '=') : 0;
    SFT_TRY(sft__import_export_alloc(k->t->job, &decoded, len, 1, err));
    for (size_t i = 0; i < len - pad; i++) {
        const int digit = base64_digit(text[i]);
        if (digit < 0) {
            return bad(k, at, err, "bytes that are no base64");
        }
        v = v << 6 | (uint32_t)digit;
        if (i % 4 != 0) {
            decoded[n++] = (uint8_t)(v >> (6 - 2 * (i % 4)));
        }
    }
    if (len % 4 != 0 || len - pad < pad) {
        return bad(k, at, err, "bytes that are no base64");
    }
    put_bytes(out(k), decoded, n);
    return SFT_OK;
}

static sft_status torch_dtype(tree *k, const char **p, sft_error *err) {
    const char *at = *p;
    const char *text;
    size_t len;

    SFT_TRY(string(k, p, &text, &len, err));
    const sft__import_global *row = sft__import_global_find("torch", 5, text, len);
    if (row == NULL || row->known != SFT__G_DTYPE) {
        return bad(k, at, err, "a torch.dtype that is not known");
    }
    sft__base_buf_text(out(k), "ctorch\n");
    sft__base_buf_text(out(k), row->name);
    sft__base_buf_text(out(k), "\n");
    return SFT_OK;
}

/* ---------------------------------------------------------------- scalars of numpy */

typedef struct np_type {
    const char *name;
    const char *code;
    uint32_t size;
    uint16_t dtype; /* 0: an integer */
} np_type;

static const np_type np_types[] = {
    {"bool", "b1", 1, 0},          {"int8", "i1", 1, 0},          {"int16", "i2", 2, 0},
    {"int32", "i4", 4, 0},         {"int64", "i8", 8, 0},         {"uint8", "u1", 1, 0},
    {"uint16", "u2", 2, 0},        {"uint32", "u4", 4, 0},        {"uint64", "u8", 8, 0},
    {"float16", "f2", 2, SFT_F16}, {"float32", "f4", 4, SFT_F32}, {"float64", "f8", 8, SFT_F64},
};

static sft_status np_value(tree *k, const char **p, const np_type *type, uint8_t raw[8],
                           sft_error *err) {
    uint8_t big[SFT__DECIMAL_BYTES];
    const char *at = *p;
    const char *text;
    uint8_t wide[8];
    uint64_t bits;
    double value;
    size_t size;
    size_t len;

    memset(raw, 0, 8);
    if (type->dtype == 0) {
        SFT_TRY(string(k, p, &text, &len, err));
        const bool minus = len > 0 && text[0] == '-';
        const size_t room = type->size + (type->code[0] != 'i' && !minus ? 1u : 0u);
        if (!sft__import_decimal_unbig(text, len, big, &size) || size > room ||
            (size > type->size && big[size - 1] != 0) || (minus && type->code[0] != 'i')) {
            return bad(k, at, err, "a NumPy integer that its type does not hold");
        }
        memset(raw, minus ? 0xff : 0, 8);
        memcpy(raw, big, size < type->size ? size : type->size);
        return SFT_OK;
    }
    SFT_TRY(real(k, p, &value, err));
    memcpy(&bits, &value, sizeof bits);
    sft__base_store_le64(wide, bits);
    return sft_convert(raw, sft_dtype_get(type->dtype), wide, sft_dtype_get(SFT_F64), 1, 0, err);
}

static sft_status numpy(tree *k, const char **p, const char *name, size_t len, sft_error *err) {
    const np_type *type = NULL;
    sft__base_buf *b = out(k);
    uint8_t raw[8];

    for (size_t i = 0; i < sizeof np_types / sizeof np_types[0]; i++) {
        type = is(name, len, np_types[i].name) ? &np_types[i] : type;
    }
    if (type == NULL) {
        return bad(k, *p, err, "a NumPy scalar of a type that is not known");
    }
    SFT_TRY(np_value(k, p, type, raw, err));
    sft__base_buf_text(b, "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n");
    sft__import_put_text(b, type->code, 2);
    sft__base_buf_text(b, "\x89\x88\x87R(");
    sft__import_put_int(b, 3);
    sft__import_put_text(b, type->size == 1 ? "|" : "<", 1);
    sft__base_buf_text(b, "NNN");
    sft__import_put_int(b, -1);
    sft__import_put_int(b, -1);
    sft__import_put_int(b, 0);
    sft__base_buf_text(b, "tb"); /* TUPLE BUILD */
    put_bytes(b, raw, type->size);
    sft__base_buf_text(b, "\x86R");
    return SFT_OK;
}

static sft_status tensor(tree *k, const char **p, sft_error *err) {
    const char *text;
    size_t len;

    SFT_TRY(string(k, p, &text, &len, err));
    const size_t at = sft__base_strmap_find(&k->t->names, text, len);
    if (at == SFT__STRMAP_NONE) {
        return sft__base_fail_tensor(err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, text, len,
                                     "the tree (metadata sft.tree) names this tensor, which is not "
                                     "among those to write");
    }
    return sft__import_put_tensor(k->t, &k->t->called[at], err);
}

static sft_status complex(tree *k, const char **p, sft_error *err) {
    double re;
    double im;

    SFT_TRY(expect(k, p, '[', err));
    SFT_TRY(real(k, p, &re, err));
    SFT_TRY(expect(k, p, ',', err));
    SFT_TRY(real(k, p, &im, err));
    SFT_TRY(expect(k, p, ']', err));
    sft__base_buf_text(out(k), "c__builtin__\ncomplex\n");
    put_real(out(k), re);
    put_real(out(k), im);
    sft__base_buf_text(out(k), "\x86R");
    return SFT_OK;
}

/* ---------------------------------------------------------------- containers */

static sft_status open_frame(tree *k, const char *p, frame_kind kind, bool tagged,
                             const char *close, sft_error *err) {
    if (k->depth == DEPTH_MAX) {
        return bad(k, p, err, "nested deeper than 200");
    }
    k->frames[k->depth++] = (frame){.kind = kind, .tagged = tagged, .close = close};
    return SFT_OK;
}

typedef struct container {
    const char *tag;
    const char *open; /* opcodes */
    const char *close;
    frame_kind kind;
} container;

static const container containers[] = {
    {"tuple", "(", "t", ITEMS},
    {"set", "c__builtin__\nset\n](", "e\x85R", ITEMS},
    {"frozenset", "c__builtin__\nfrozenset\n](", "e\x85R", ITEMS},
    {"torch.Size", "ctorch\nSize\n(", "t\x85R", ITEMS},
    {"dict", "}(", "u", PAIRS},
    {"odict", NULL, "u", PAIRS},
    {"counter", "ccollections\nCounter\n}(", "u\x85R", PAIRS},
};

/* p behind `"$":`; on return behind the node, or in the container that it opens. */
static sft_status tagged(tree *k, const char **p, sft_error *err) {
    const char *dtype = "";
    const char *start = *p;
    size_t dtype_len = 0;
    const char *text;
    const char *tag;
    size_t tag_len;
    double value;
    size_t len;

    SFT_TRY(string(k, p, &tag, &tag_len, err));
    SFT_TRY(expect(k, p, ',', err));
    SFT_TRY(string(k, p, &text, &len, err));
    SFT_TRY(expect(k, p, ':', err));
    if (is(text, len, "dtype")) {
        SFT_TRY(string(k, p, &dtype, &dtype_len, err));
        SFT_TRY(expect(k, p, ',', err));
        SFT_TRY(string(k, p, &text, &len, err));
        SFT_TRY(expect(k, p, ':', err));
    }
    if (!is(text, len, "v")) {
        return bad(k, start, err, "a node without \"v\"");
    }
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        const container *c = &containers[i];
        if (is(tag, tag_len, c->tag)) {
            SFT_TRY(expect(k, p, '[', err));
            if (c->open != NULL) {
                sft__base_buf_text(out(k), c->open);
            } else {
                sft__import_put_ordered_dict(k->t);
                sft__import_put_byte(out(k), '(');
            }
            return open_frame(k, start, c->kind, true, c->close, err);
        }
    }
    sft_status status;
    if (is(tag, tag_len, "tensor")) {
        status = tensor(k, p, err);
    } else if (is(tag, tag_len, "float")) {
        status = real(k, p, &value, err);
        put_real(out(k), status == SFT_OK ? value : 0);
    } else if (is(tag, tag_len, "int")) {
        status = big_int(k, p, err);
    } else if (is(tag, tag_len, "complex")) {
        status = complex(k, p, err);
    } else if (is(tag, tag_len, "bytes")) {
        status = bytes(k, p, err);
    } else if (is(tag, tag_len, "torch.dtype")) {
        status = torch_dtype(k, p, err);
    } else if (is(tag, tag_len, "numpy")) {
        status = numpy(k, p, dtype, dtype_len, err);
    } else {
        status = bad(k, start, err, "an unknown tag");
    }
    return status == SFT_OK ? expect(k, p, '}', err) : status;
}

static sft_status object(tree *k, const char **p, sft_error *err) {
    const char *at = *p;
    const char *text;
    size_t len;

    if (*sft__base_json_blank(at) == '"') {
        const char *q = at;
        SFT_TRY(string(k, &q, &text, &len, err));
        if (is(text, len, "$")) {
            SFT_TRY(expect(k, &q, ':', err));
            *p = q;
            return tagged(k, p, err);
        }
    }
    sft__base_buf_text(out(k), "}("); /* EMPTY_DICT MARK */
    return open_frame(k, at, OBJECT, false, "u", err);
}

static sft_status number(tree *k, const char **p, sft_error *err) {
    const char *at = *p;
    const bool minus = *at == '-';
    sft__base_json_num n;

    *p = sft__base_json_number(&k->j, at + minus, &n);
    if (*p == NULL || !n.is_uint || n.value > INT64_MAX) {
        return bad(k, at, err, "a bare number that is no integer below 2^63");
    }
    sft__import_put_int(out(k), minus ? -(int64_t)n.value : (int64_t)n.value);
    return SFT_OK;
}

static sft_status value(tree *k, const char **p, sft_error *err) {
    static const struct {
        const char *word;
        uint8_t op;
    } words[] = {{"null", 'N'}, {"true", 0x88}, {"false", 0x89}};
    const char *at = sft__base_json_blank(*p);
    const char *text;
    size_t len;

    *p = at;
    if (*at == '"') {
        SFT_TRY(string(k, p, &text, &len, err));
        sft__import_put_text(out(k), text, len);
        return SFT_OK;
    }
    if (*at == '{') {
        ++*p;
        return object(k, p, err);
    }
    if (*at == '[') {
        ++*p;
        sft__base_buf_text(out(k), "]("); /* EMPTY_LIST MARK */
        return open_frame(k, at, ITEMS, false, "e", err);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i].word);
        if (strncmp(at, words[i].word, n) == 0) { /* zero bytes follow the text */
            sft__import_put_byte(out(k), words[i].op);
            *p = at + n;
            return SFT_OK;
        }
    }
    return (*at >= '0' && *at <= '9') || *at == '-' ? number(k, p, err)
                                                    : bad(k, at, err, "no value");
}

/* ---------------------------------------------------------------- the walk */

static sft_status close_frame(tree *k, const char **p, sft_error *err) {
    const frame *f = &k->frames[--k->depth];

    sft__base_buf_text(out(k), f->close);
    return f->tagged ? expect(k, p, '}', err) : SFT_OK;
}

static sft_status next_pair(tree *k, frame *f, const char **p, sft_error *err) {
    if (f->half == 1) {
        f->half = 2;
        return value(k, p, err);
    }
    if (f->half == 2) {
        SFT_TRY(expect(k, p, ',', err));
        f->half = 3;
        return value(k, p, err);
    }
    if (f->half == 3) {
        f->half = 0;
        return expect(k, p, ']', err);
    }
    f->half = 1;
    return expect(k, p, '[', err);
}

static sft_status step(tree *k, const char **p, sft_error *err) {
    frame *f = &k->frames[k->depth - 1];
    const char *text;
    size_t len;

    if (f->kind == PAIRS && f->half != 0) {
        return next_pair(k, f, p, err);
    }
    const char *at = sft__base_json_blank(*p);
    if (*at == (f->kind == OBJECT ? '}' : ']')) {
        *p = at + 1;
        return close_frame(k, p, err);
    }
    if (f->any) {
        SFT_TRY(expect(k, p, ',', err));
    }
    f->any = true;
    if (f->kind == PAIRS) {
        return next_pair(k, f, p, err);
    }
    if (f->kind == OBJECT) {
        SFT_TRY(string(k, p, &text, &len, err));
        SFT_TRY(expect(k, p, ':', err));
        sft__import_put_text(out(k), text, len);
    }
    return value(k, p, err);
}

static sft_status document(tree *k, const char **p, sft_error *err) {
    const char *text;
    size_t len;

    SFT_TRY(expect(k, p, '{', err));
    SFT_TRY(string(k, p, &text, &len, err));
    SFT_TRY(expect(k, p, ':', err));
    const char *at = sft__base_json_blank(*p);
    if (!is(text, len, "version") || at[0] != '1' || (at[1] != ',' && at[1] != ' ')) {
        return bad(k, at, err, "this is not version 1");
    }
    *p = at + 1;
    SFT_TRY(expect(k, p, ',', err));
    SFT_TRY(string(k, p, &text, &len, err));
    SFT_TRY(expect(k, p, ':', err));
    if (!is(text, len, "tree")) {
        return bad(k, at, err, "no tree in it");
    }
    SFT_TRY(value(k, p, err));
    while (k->depth > 0) {
        SFT_TRY(step(k, p, err));
    }
    SFT_TRY(expect(k, p, '}', err));
    return *sft__base_json_blank(*p) == '\0' && sft__base_json_blank(*p) == k->j.end
               ? SFT_OK
               : bad(k, *p, err, "something follows the tree");
}

sft_status sft__import_put_tree(sft__import_torch_writer *t, const char *text, size_t len,
                                sft_error *err) {
    const char *p;
    char *copy;
    tree k;

    memset(&k, 0, sizeof k);
    k.t = t;
    SFT_TRY(sft__import_export_alloc(t->job, &copy, len + SFT__JSON_SLACK, 1, err));
    memcpy(copy, text, len);
    k.text = copy;
    k.j.end = copy + len;
    p = copy;
    return document(&k, &p, err);
}
