/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/flax/flax.c - Flax's msgpack files: maps in maps, whose leaves are extension 1 (an array:
 * shape, name of its type, bytes) or 3 (a scalar of numpy, the same); an array of more than 1 GiB
 * is a map with a mark, a shape and chunks. Names are joined with dots. Read by lengths; a stack
 * instead of recursion. Source: flax/serialization.py,
 * github.com/msgpack/msgpack/blob/master/spec.md. Read first: wire.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/utf8.h"
#include "import/flax/flax_types.h"
#include <stdio.h>

enum { DEPTH = 512, NAME_MAX = 65536, TYPE_MAX = 32, PATH_TEXT = 200, PROBE_TOKENS = 4096 };
enum { EXT_ARRAY = 1, EXT_COMPLEX = 2, EXT_SCALAR = 3 };

#define CHUNKED "__msgpack_chunked_array__"

typedef enum token_type { NIL, BOOL, INT, FLOAT, STR, BIN, ARRAY, MAP, EXT } token_type;

typedef struct token {
    token_type type;
    int code;       /* EXT */
    uint64_t at;    /* STR, BIN, EXT: their bytes */
    uint64_t len;   /* of them; ARRAY, MAP: items or pairs */
    uint64_t value; /* INT, BOOL: two's complement */
    uint64_t start;
    bool negative;
} token;

typedef struct frame {
    uint64_t left; /* items or pairs */
    uint64_t index;
    size_t name_len; /* of the path to it */
    uint64_t start;
    bool map;
} frame;

typedef struct reading {
    sft__import *job;
    sft__import_wire_in in;
    uint64_t end;
    frame stack[DEPTH];
    size_t depth;
    char *name;
    size_t name_len;
    size_t name_room;
    sft__import_run *runs;
    size_t run_room;
    uint64_t others;
    uint64_t matched; /* tensors below the key that was asked for */
    uint64_t part;    /* where what the key leads to begins; 0: it leads to none so far */
    char part_path[PATH_TEXT];
} reading;

static sft_status bad(uint64_t at, sft_error *err, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "msgpack: %s", text);
}

/* ---------------------------------------------------------------- tokens */

/* What a first byte means: bytes of the length or number behind it, and what it is. */
typedef struct head {
    uint8_t type;
    uint8_t bytes;
    uint8_t fixed; /* EXT: the length itself */
} head;

static const head heads[32] = {
    [0x00] = {NIL, 0, 0},   [0x02] = {BOOL, 0, 0},  [0x03] = {BOOL, 0, 0},  [0x04] = {BIN, 1, 0},
    [0x05] = {BIN, 2, 0},   [0x06] = {BIN, 4, 0},   [0x07] = {EXT, 1, 0},   [0x08] = {EXT, 2, 0},
    [0x09] = {EXT, 4, 0},   [0x0a] = {FLOAT, 4, 0}, [0x0b] = {FLOAT, 8, 0}, [0x0c] = {INT, 1, 0},
    [0x0d] = {INT, 2, 0},   [0x0e] = {INT, 4, 0},   [0x0f] = {INT, 8, 0},   [0x10] = {INT, 1, 0},
    [0x11] = {INT, 2, 0},   [0x12] = {INT, 4, 0},   [0x13] = {INT, 8, 0},   [0x14] = {EXT, 0, 1},
    [0x15] = {EXT, 0, 2},   [0x16] = {EXT, 0, 4},   [0x17] = {EXT, 0, 8},   [0x18] = {EXT, 0, 16},
    [0x19] = {STR, 1, 0},   [0x1a] = {STR, 2, 0},   [0x1b] = {STR, 4, 0},   [0x1c] = {ARRAY, 2, 0},
    [0x1d] = {ARRAY, 4, 0}, [0x1e] = {MAP, 2, 0},   [0x1f] = {MAP, 4, 0},
};

/* Behind the head: is what it promises there? Containers need a byte for every item at least. */
static sft_status token_end(token *t, uint64_t *at, uint64_t end, sft_error *err) {
    const uint64_t left = end - *at;

    if (t->type == ARRAY || t->type == MAP) {
        return t->len > left / (t->type == MAP ? 2 : 1)
                   ? bad(t->start, err, "more items than bytes are left")
                   : SFT_OK;
    }
    if (t->type == STR || t->type == BIN || t->type == EXT) {
        t->at = *at;
        if (t->len > left) {
            return bad(t->start, err, "longer than what it is in");
        }
        *at += t->len;
    }
    return SFT_OK;
}

static sft_status token_head(sft__import_wire_in *in, token *t, uint8_t first, uint64_t *at,
                             uint64_t end, sft_error *err) {
    const head h = heads[first & 0x1f];
    const size_t n = h.bytes + (h.type == EXT ? 1u : 0u);
    const uint8_t *p;
    uint64_t value = 0;

    if (first == 0xc1) {
        return bad(t->start, err, "the byte c1, which means nothing");
    }
    if (end - *at < n) {
        return bad(t->start, err, "cut short");
    }
    SFT_TRY(sft__import_wire_bytes(in, *at, n, &p, err));
    *at += n;
    for (size_t i = 0; i < h.bytes; i++) {
        value = value << 8 | p[i];
    }
    t->type = (token_type)h.type;
    t->len = h.fixed != 0 ? h.fixed : value;
    t->value = first == 0xc3 ? 1 : value;
    if (h.type == INT && first >= 0xd0) {
        t->negative = (p[0] & 0x80) != 0;
    }
    if (h.type == EXT) {
        t->code = p[h.bytes];
    }
    return SFT_OK;
}

static sft_status next_token(sft__import_wire_in *in, token *t, uint64_t *at, uint64_t end,
                             sft_error *err) {
    const uint8_t *p;

    memset(t, 0, sizeof *t);
    t->start = *at;
    if (*at >= end) {
        return bad(*at, err, "cut short");
    }
    SFT_TRY(sft__import_wire_bytes(in, *at, 1, &p, err));
    const uint8_t first = *p;
    ++*at;
    if (first < 0x80 || first >= 0xe0) {
        t->type = INT;
        t->value = first;
        t->negative = first >= 0xe0;
    } else if (first < 0xa0) {
        t->type = first < 0x90 ? MAP : ARRAY;
        t->len = first & 0x0f;
    } else if (first < 0xc0) {
        t->type = STR;
        t->len = first & 0x1f;
    } else {
        SFT_TRY(token_head(in, t, first, at, end, err));
    }
    return token_end(t, at, end, err);
}

static sft_status is_text(sft__import_wire_in *in, const token *t, const char *text, bool *same,
                          sft_error *err) {
    const size_t n = strlen(text);
    const uint8_t *p;

    *same = false;
    if ((t->type == STR || t->type == BIN) && t->len == n) {
        SFT_TRY(sft__import_wire_bytes(in, t->at, n, &p, err));
        *same = memcmp(p, text, n) == 0;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- arrays */

typedef struct array {
    sft__import_wire_dims dims;
    const sft__import_flax_type *kind; /* NULL: not known */
    char type[TYPE_MAX];
    sft__import_run run;
} array;

static sft_status read_dims(reading *r, sft__import_wire_dims *dims, uint64_t *at, uint64_t end,
                            sft_error *err) {
    token t;

    SFT_TRY(next_token(&r->in, &t, at, end, err));
    if (t.type != ARRAY || t.len > SFT__WIRE_RANK) {
        return t.type == ARRAY ? sft__base_fail_at(err, SFT_E_LIMIT, t.start,
                                                   "more than %d dimensions", (int)SFT__WIRE_RANK)
                               : bad(t.start, err, "an array without a shape");
    }
    dims->rank = (uint32_t)t.len;
    for (uint32_t d = 0; d < dims->rank; d++) {
        SFT_TRY(next_token(&r->in, &t, at, end, err));
        if (t.type != INT || t.negative || t.value > INT64_MAX) {
            return bad(t.start, err, "a dimension that is no size");
        }
        dims->at[d] = t.value;
    }
    return SFT_OK;
}

/* The payload of an extension: [shape, type, bytes]. */
static sft_status read_array(reading *r, const token *ext, array *a, sft_error *err) {
    const uint64_t end = ext->at + ext->len;
    uint64_t at = ext->at;
    const uint8_t *p;
    token t;

    memset(a, 0, sizeof *a);
    SFT_TRY(next_token(&r->in, &t, &at, end, err));
    if (t.type != ARRAY || t.len != 3) {
        return bad(t.start, err, "an array that is not shape, type and bytes");
    }
    SFT_TRY(read_dims(r, &a->dims, &at, end, err));
    SFT_TRY(next_token(&r->in, &t, &at, end, err));
    if ((t.type != STR && t.type != BIN) || t.len >= TYPE_MAX) {
        return bad(t.start, err, "an array whose type has no name");
    }
    SFT_TRY(sft__import_wire_bytes(&r->in, t.at, (size_t)t.len, &p, err));
    memcpy(a->type, p, (size_t)t.len);
    SFT_TRY(next_token(&r->in, &t, &at, end, err));
    if (t.type != BIN || at != end) {
        return bad(t.start, err, "an array that does not end with its bytes");
    }
    a->kind = sft__import_flax_type_get(a->type);
    a->run = (sft__import_run){t.at, t.len, 0};
    return SFT_OK;
}

/* The name without the key that was asked for; false: it is not below it. */
static bool below_key(const reading *r, const char **name, size_t *len) {
    const char *key = r->job->options.key;
    const size_t n = key != NULL && strcmp(key, ".") != 0 ? strlen(key) : 0;

    *name = r->depth == 0 ? "tensor" : r->name != NULL ? r->name : "";
    *len = r->depth == 0 ? 6 : r->name_len; /* the file is the tensor; "" is a key like others */
    if (n == 0) {
        return true;
    }
    if (*len <= n + 1 || memcmp(*name, key, n) != 0 || (*name)[n] != '.') {
        return false;
    }
    *name += n + 1;
    *len -= n + 1;
    return true;
}

/* The keys that lead to frame `to`, each in quotes: keys may have dots of their own. */
static void path_text(const reading *r, size_t to, char *text) {
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 1; i <= to && used + 8 < PATH_TEXT; i++) {
        const size_t from = i > 1 ? r->stack[i - 1].name_len + 1 : 0; /* behind the dot */
        char key[60];
        (void)sft_escape(key, sizeof key, r->name + from, r->stack[i].name_len - from);
        const int n = snprintf(text + used, PATH_TEXT - used, "%s\"%s\"", i > 1 ? " > " : "", key);
        used += (size_t)n;
    }
}

/* Names of parts are keys put together with dots: the one that was asked for may be that of two. */
static sft_status one_part(reading *r, sft_error *err) {
    const char *key = r->job->options.key;
    const size_t n = key != NULL && strcmp(key, ".") != 0 ? strlen(key) : 0;
    char path[PATH_TEXT];

    for (size_t i = 1; i < r->depth && n != 0; i++) {
        if (r->stack[i].name_len != n || r->stack[i].start == r->part) {
            continue;
        }
        path_text(r, i, path);
        if (r->part != 0) {
            return sft__base_fail_at(
                err, SFT_E_DUPLICATE, r->stack[i].start,
                "the key \"%.100s\" names two parts, %s and %s: --key . takes both", key,
                r->part_path, path);
        }
        r->part = r->stack[i].start;
        memcpy(r->part_path, path, sizeof path);
    }
    return SFT_OK;
}

static sft_status add_array(reading *r, const array *a, sft__import_run *runs, size_t count,
                            sft_error *err) {
    const char *name;
    size_t len;
    sft_tensor t;

    if (!below_key(r, &name, &len)) {
        return SFT_OK;
    }
    r->matched++;
    SFT_TRY(one_part(r, err));
    if (a->kind == NULL) {
        char type[4 * TYPE_MAX];
        (void)sft_escape(type, sizeof type, a->type, strlen(a->type));
        return sft__import_opaque(r->job, SFT__AT(name, len, a->run.offset), err,
                                  "msgpack: %.*s has the type \"%s\", which is not known",
                                  (int)(len < 100 ? len : 100), name, type);
    }
    memset(&t, 0, sizeof t);
    t.name = name;
    t.name_len = len;
    t.shape = a->dims.at;
    t.rank = a->dims.rank;
    SFT_TRY(sft__import_flax_take(r->job, a->kind, &t, runs, count, err));
    return sft__import_runs(r->job, &t, runs, count, err);
}

/* ---------------------------------------------------------------- arrays in chunks */

/* A key of a map that stands for a tuple: "0", "1" ... in order. */
static sft_status index_key(reading *r, uint64_t index, uint64_t *at, sft_error *err) {
    char number[24];
    bool same;
    token t;

    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)index);
    SFT_TRY(next_token(&r->in, &t, at, r->end, err));
    SFT_TRY(is_text(&r->in, &t, number, &same, err));
    return same ? SFT_OK : bad(t.start, err, "the chunks of an array are not in order");
}

static sft_status chunk_shape(reading *r, array *a, uint64_t count, uint64_t *at, sft_error *err) {
    token t;

    if (count > SFT__WIRE_RANK) {
        return bad(*at, err, "more than 64 dimensions");
    }
    a->dims.rank = (uint32_t)count;
    for (uint32_t d = 0; d < count; d++) {
        SFT_TRY(index_key(r, d, at, err));
        SFT_TRY(next_token(&r->in, &t, at, r->end, err));
        if (t.type != INT || t.negative || t.value > INT64_MAX) {
            return bad(t.start, err, "a dimension that is no size");
        }
        a->dims.at[d] = t.value;
    }
    return SFT_OK;
}

static sft_status chunk_all(reading *r, array *a, uint64_t count, uint64_t *at, sft_error *err) {
    array chunk;
    token t;

    for (uint64_t i = 0; i < count; i++) {
        SFT_TRY(index_key(r, i, at, err));
        SFT_TRY(next_token(&r->in, &t, at, r->end, err));
        if (t.type != EXT || t.code != EXT_ARRAY) {
            return bad(t.start, err, "a chunk that is no array");
        }
        SFT_TRY(read_array(r, &t, &chunk, err));
        if (i > 0 && strcmp(chunk.type, a->type) != 0) {
            return bad(t.start, err, "chunks of different types");
        }
        memcpy(a->type, chunk.type, sizeof a->type);
        a->kind = chunk.kind;
        a->run = chunk.run;
        SFT_TRY(SFT_ONE_MORE(r->job->allocator, r->runs, r->run_room, (size_t)i, err));
        if (r->run_room * sizeof *r->runs > r->job->options.memory_bytes / 4) {
            return sft__base_fail_at(err, SFT_E_LIMIT, t.start,
                                     "memory: an array of too many chunks");
        }
        r->runs[i] = chunk.run;
    }
    return SFT_OK;
}

/* Behind the mark of a map of `pairs`: its value, then shape and chunks. */
static sft_status read_chunked(reading *r, uint64_t pairs, uint64_t *at, sft_error *err) {
    static const char *const keys[2] = {"shape", "chunks"};
    uint64_t count = 0;
    bool same;
    array a;
    token t;

    memset(&a, 0, sizeof a);
    const uint64_t start = *at;
    SFT_TRY(next_token(&r->in, &t, at, r->end, err));
    if (pairs != 3 || t.type != BOOL) {
        return bad(start, err, "an array in chunks has a mark, a shape and chunks");
    }
    for (int i = 0; i < 2; i++) {
        SFT_TRY(next_token(&r->in, &t, at, r->end, err));
        SFT_TRY(is_text(&r->in, &t, keys[i], &same, err));
        const uint64_t key_at = t.start;
        SFT_TRY(next_token(&r->in, &t, at, r->end, err));
        if (!same || t.type != MAP) {
            return bad(key_at, err, "an array in chunks has a mark, a shape and chunks");
        }
        count = t.len;
        SFT_TRY(i == 0 ? chunk_shape(r, &a, count, at, err) : chunk_all(r, &a, count, at, err));
    }
    return count == 0 ? bad(start, err, "an array in no chunks")
                      : add_array(r, &a, r->runs, (size_t)count, err);
}

/* ---------------------------------------------------------------- the tree */

static sft_status name_put(reading *r, const void *text, size_t len, uint64_t at, sft_error *err) {
    if (r->name_len + len + 1 > NAME_MAX) {
        return sft__base_fail_at(err, SFT_E_LIMIT, at, "a name of more than %d bytes",
                                 (int)NAME_MAX);
    }
    SFT_TRY(sft__base_need_room(r->job->allocator, &r->name, &r->name_room, r->name_len + len + 1,
                                1, err));
    memcpy(r->name + r->name_len, text, len);
    r->name_len += len;
    return SFT_OK;
}

static sft_status name_key(reading *r, const token *t, sft_error *err) {
    char number[24];
    size_t n = 0;

    if (t->type == INT && !t->negative) {
        n = (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)t->value);
        return name_put(r, number, n, t->start, err);
    }
    if (t->type != STR && t->type != BIN) {
        return bad(t->start, err, "a key that is no text");
    }
    const size_t before = r->name_len;
    for (uint64_t done = 0; done < t->len;) {
        const uint8_t *p;
        n = t->len - done < SFT__WIRE_WINDOW ? (size_t)(t->len - done) : SFT__WIRE_WINDOW;
        SFT_TRY(sft__import_wire_bytes(&r->in, t->at + done, n, &p, err));
        SFT_TRY(name_put(r, p, n, t->start, err));
        done += n;
    }
    n = r->name_len - before;
    if (n != 0 && sft__base_utf8_valid(r->name + before, n) != n) {
        return sft__base_fail_at(err, SFT_E_UTF8, t->at, "a name that is not UTF-8");
    }
    return SFT_OK;
}

static sft_status enter(reading *r, const token *t, sft_error *err) {
    if (r->depth == DEPTH) {
        return sft__base_fail_at(err, SFT_E_LIMIT, t->start, "msgpack: more than %d levels",
                                 (int)DEPTH);
    }
    r->stack[r->depth++] = (frame){t->len, 0, r->name_len, t->start, t->type == MAP};
    return SFT_OK;
}

static sft_status take(reading *r, const token *t, sft_error *err) {
    array a;

    if (t->type == MAP || t->type == ARRAY) {
        return enter(r, t, err);
    }
    if (t->type != EXT || t->code == EXT_COMPLEX) {
        r->others++;
        return SFT_OK;
    }
    if (t->code != EXT_ARRAY && t->code != EXT_SCALAR) {
        return sft__import_opaque(r->job, SFT__NAMED(r, t->start), err,
                                  "msgpack: an extension of type %d, which Flax does not write",
                                  t->code);
    }
    SFT_TRY(read_array(r, t, &a, err));
    return add_array(r, &a, &a.run, 1, err);
}

/* The next child of the innermost container: its key, then itself. */
static sft_status step(reading *r, frame *f, uint64_t *at, sft_error *err) {
    bool mark = false;
    token t;

    r->name_len = f->name_len;
    if (f->left == 0) {
        r->depth--;
        return SFT_OK;
    }
    f->left--;
    if (f->map) {
        SFT_TRY(next_token(&r->in, &t, at, r->end, err));
        SFT_TRY(is_text(&r->in, &t, CHUNKED, &mark, err));
    } else {
        t = (token){.type = INT, .value = f->index, .start = *at};
    }
    if (mark && f->index != 0) {
        return bad(t.start, err, "the mark of an array in chunks is not the first key");
    }
    if (mark) {
        r->depth--;
        return read_chunked(r, f->left + 1, at, err);
    }
    f->index++;
    if (r->depth > 1) {
        SFT_TRY(name_put(r, ".", 1, t.start, err));
    }
    SFT_TRY(name_key(r, &t, err));
    SFT_TRY(next_token(&r->in, &t, at, r->end, err));
    return take(r, &t, err);
}

static sft_status read_file(reading *r, sft_error *err) {
    uint64_t at = 0;
    token t;

    r->end = sft_source_size(r->job->file);
    sft__import_wire_init(&r->in, r->job->file);
    SFT_TRY(next_token(&r->in, &t, &at, r->end, err));
    SFT_TRY(take(r, &t, err));
    while (r->depth > 0) {
        SFT_TRY(step(r, &r->stack[r->depth - 1], &at, err));
    }
    if (at != r->end) {
        return sft__import_trick(r->job, SFT__RULE(CONTAINER, UNKNOWN, "msgpack-trailing"),
                                 SFT__AT("", 0, at), err, "bytes follow the end of the tree");
    }
    if (r->job->options.key != NULL && strcmp(r->job->options.key, ".") != 0 && r->matched == 0) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "the file has no part \"%s\" (key)",
                              r->job->options.key);
    }
    if (r->others != 0) {
        sft__import_find(
            r->job, SFT__RULE(NOTE, HARMLESS, "no-tensors"), SFT__AT("", 0, SFT_NO_OFFSET),
            "%llu values beside the tensors are no tensors", (unsigned long long)r->others);
    }
    return SFT_OK;
}

static sft_status open_flax(sft__import *job, sft_error *err) {
    reading *r;

    SFT_TRY(sft__base_need_zero(job->allocator, &r, sizeof *r, err));
    r->job = job;
    const sft_status status = read_file(r, err);
    sft__base_free(job->allocator, r->name, r->name_room);
    sft__base_free(job->allocator, r->runs, r->run_room * sizeof *r->runs);
    sft__base_free(job->allocator, r, sizeof *r);
    return status;
}

/* ---------------------------------------------------------------- what it is */

/* An array as Flax writes it: extension 1 or 3 that begins with a msgpack array of three. */
static bool is_array(sft__import_wire_in *in, const token *t) {
    const uint8_t *p;
    return t->type == EXT && (t->code == EXT_ARRAY || t->code == EXT_SCALAR) && t->len > 3 &&
           sft__import_wire_bytes(in, t->at, 1, &p, NULL) == SFT_OK && *p == 0x93;
}

/* A map whose first key is text, or an array; an array of numpy among the first tokens. */
static bool probe(const sft__import_probe *p) {
    sft__import_wire_in in;
    uint64_t at = 0;
    token t;

    sft__import_wire_init(&in, p->source);
    for (int i = 0; i < PROBE_TOKENS; i++) {
        const sft_status status = next_token(&in, &t, &at, p->size, NULL);
        if ((i == 0 && t.type != MAP && t.type != EXT) || (i == 1 && t.type != STR)) {
            return false;
        }
        if (is_array(&in, &t)) {
            return true; /* perhaps cut short: opening says so */
        }
        if (status != SFT_OK || (i == 0 && t.len == 0)) {
            return false;
        }
    }
    return false;
}

const sft__import_reader sft__import_reader_flax = {SFT_IMPORT_FLAX, probe, open_flax};
