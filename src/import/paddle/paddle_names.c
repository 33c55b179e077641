/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/paddle/paddle_names.c - the names of a static graph's parameters, out of the model beside
 * it: persistable variables of a ProgramDesc (.pdmodel), or the parameters of a program in JSON
 * (PIR). Paddle writes the tensors in the order of their names. Source: paddle/fluid/framework/
 * framework.proto, python/paddle/static/io.py, pir_io.py. Read first: paddle_static.h.
 */
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "import/core/beside.h"
#include "import/paddle/paddle_static.h"
#include <stdio.h>
#include <stdlib.h>

enum { FEED = 9, FETCH = 10, READER = 15, RAW = 17 };

typedef struct reading {
    sft__import *job;
    sft__import_paddle_names *names;
    sft__import_wire_in in;
} reading;

static sft_status unreadable(sft_error *err) {
    return sft__base_fail(err, SFT_E_SCHEMA, "it is not what Paddle writes");
}

static sft_status put(reading *r, const sft__import_paddle_name *name, sft_error *err) {
    sft__import_paddle_names *n = r->names;

    SFT_TRY(SFT_ONE_MORE(r->job->allocator, n->at, n->room, n->count, err));
    if (n->room * sizeof *n->at > r->job->options.memory_bytes / 4) {
        return sft__base_fail(err, SFT_E_LIMIT, "memory: too many parameters");
    }
    n->at[n->count++] = *name;
    return SFT_OK;
}

/* ---------------------------------------------------------------- protobuf */

/* The dimensions of VarDesc.type.lod_tensor.tensor, wherever they are; the type's number. */
static sft_status read_type(reading *r, sft__import_wire m, sft__import_paddle_name *name,
                            uint64_t *type, sft_error *err) {
    sft__import_wire inner[2] = {{0, 0}, {0, 0}};
    sft__import_wire_dims dims = {.rank = 0};
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(&r->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 && f.wire == SFT__PB_VARINT) {
            *type = f.value;
        } else if (f.number == 3 && f.wire == SFT__PB_BYTES) {
            inner[0] = sft__import_wire_inside(&f);
        }
    }
    while (inner[0].at < inner[0].end) {
        SFT_TRY(sft__import_wire_next(&r->in, &inner[0], &f, &more, err));
        if (f.number == 1 && f.wire == SFT__PB_BYTES) {
            inner[1] = sft__import_wire_inside(&f);
            name->shaped = true;
        }
    }
    while (inner[1].at < inner[1].end) {
        SFT_TRY(sft__import_wire_next(&r->in, &inner[1], &f, &more, err));
        if (f.number == 2) {
            const sft_status status = sft__import_wire_dims_add(&r->in, &dims, &f, NULL);
            name->shaped = name->shaped && status == SFT_OK; /* -1: any */
        }
    }
    name->rank = dims.rank;
    memcpy(name->dims, dims.at, dims.rank * sizeof dims.at[0]);
    return SFT_OK;
}

static sft_status read_variable(reading *r, sft__import_wire m, sft_error *err) {
    sft__import_paddle_name name;
    bool persistable = false;
    const char *text = NULL;
    uint64_t type = 0;
    sft__import_wire_field f;
    bool more;

    memset(&name, 0, sizeof name);
    for (;;) {
        SFT_TRY(sft__import_wire_next(&r->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1) {
            SFT_TRY(sft__import_wire_text(&r->in, r->job, &f, SFT__PADDLE_NAME, &text, err));
        } else if (f.number == 2 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(read_type(r, sft__import_wire_inside(&f), &name, &type, err));
        } else if (f.number == 3) {
            persistable = f.value != 0;
        }
    }
    if (!persistable || type == FEED || type == FETCH || type == READER || type == RAW) {
        return SFT_OK;
    }
    if (text == NULL || text[0] == '\0') {
        return unreadable(err);
    }
    name.name = text;
    name.len = strlen(text);
    return put(r, &name, err);
}

static sft_status read_program(reading *r, const sft_source *model, sft_error *err) {
    sft__import_wire m = {0, sft_source_size(model)};
    sft__import_wire_field f;
    bool more;

    sft__import_wire_init(&r->in, model);
    for (;;) {
        SFT_TRY(sft__import_wire_next(&r->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        sft__import_wire block = sft__import_wire_inside(&f);
        while (f.number == 1 && f.wire == SFT__PB_BYTES && block.at < block.end) {
            sft__import_wire_field v;
            SFT_TRY(sft__import_wire_next(&r->in, &block, &v, &more, err));
            if (v.number == 3 && v.wire == SFT__PB_BYTES) {
                SFT_TRY(read_variable(r, sft__import_wire_inside(&v), err));
            }
        }
    }
}

/* ---------------------------------------------------------------- JSON */

/* The value behind a key, if p is at one called `key` (p behind the key's text). */
static const char *value_of(const char *p, const sft__base_json_str *key, const char *name) {
    p = sft__base_json_blank(p);
    return sft__base_json_is(key, name, strlen(name)) && *p == ':' ? sft__base_json_blank(p + 1)
                                                                   : NULL;
}

/* [0,1,1,"name"]: the last item; p behind the '['. */
static const char *last_text(sft__base_json *j, const char *p, sft__base_json_str *text,
                             bool *found) {
    *found = false;
    for (p = sft__base_json_blank(p); p != NULL && *p != ']';) {
        *found = *p == '"';
        p = *p == '"' ? sft__base_json_read(j, p, text) : sft__base_json_value(j, p, 1);
        p = p != NULL ? sft__base_json_blank(p) : NULL;
        if (p != NULL && *p == ',') {
            p = sft__base_json_blank(p + 1);
        } else if (p != NULL && *p != ']') {
            return NULL;
        }
    }
    return p;
}

/* [{"#":"0.t_f32"},[4,3], ...: the dimensions; p behind the '['. */
static const char *dimensions(sft__base_json *j, const char *p, sft__import_paddle_name *name) {
    sft__base_json_num n;

    p = sft__base_json_blank(p);
    p = *p == '{' ? sft__base_json_value(j, p, 1) : NULL;
    p = p != NULL ? sft__base_json_blank(p) : NULL;
    p = p != NULL && *p == ',' ? sft__base_json_blank(p + 1) : NULL;
    if (p == NULL || *p != '[') {
        return p;
    }
    name->shaped = true;
    for (p = sft__base_json_blank(p + 1); p != NULL && *p != ']';) {
        if (name->rank == SFT__WIRE_RANK) {
            return NULL;
        }
        p = *p == '-' || (*p >= '0' && *p <= '9') ? sft__base_json_number(j, p, &n) : NULL;
        if (p == NULL) {
            return NULL;
        }
        name->dims[name->rank++] = n.is_uint ? n.value : UINT64_MAX;
        p = sft__base_json_blank(p);
        p = *p == ',' ? sft__base_json_blank(p + 1) : p;
    }
    return p;
}

typedef struct op {
    bool parameter; /* "#": "p" was met */
    bool named;
    sft__import_paddle_name name;
} op;

/* A text of the program: keys of parameters move `o` on. p behind it. */
static const char *take_key(reading *r, sft__base_json *j, const char *p,
                            const sft__base_json_str *key, op *o, sft_error *err) {
    const char *v = value_of(p, key, "#");
    sft__base_json_str text;
    bool found;

    if (v != NULL && *v == '"') {
        p = sft__base_json_read(j, v, &text);
        if (p != NULL && sft__base_json_is(&text, "p", 1)) {
            memset(o, 0, sizeof *o);
            o->parameter = true;
        }
        return p;
    }
    v = value_of(p, key, "A");
    if (v != NULL && *v == '[' && o->parameter && !o->named) {
        p = last_text(j, v + 1, &text, &found);
        if (p == NULL || !found || text.len == 0 || text.len > SFT__PADDLE_NAME) {
            return NULL;
        }
        char *copy;
        if (sft__import_copy(r->job, &copy, text.raw, text.len, err) != SFT_OK) {
            return NULL;
        }
        o->name.len = text.escaped ? sft__base_json_decode(copy, &text) : text.len;
        copy[o->name.len] = '\0';
        o->name.name = copy;
        o->named = strlen(copy) == o->name.len;
        return o->named ? p : NULL;
    }
    v = value_of(p, key, "D");
    if (v != NULL && *v == '[' && o->named) {
        p = dimensions(j, v + 1, &o->name);
        const bool kept = p != NULL && put(r, &o->name, err) == SFT_OK;
        memset(o, 0, sizeof *o);
        return kept ? p : NULL;
    }
    return p;
}

static sft_status read_json(reading *r, const sft_source *model, sft_error *err) {
    const uint64_t size = sft_source_size(model);
    sft__base_json j;
    sft__base_json_str key;
    char *text;
    op o;

    if (size > r->job->options.memory_bytes / 8) {
        return sft__base_fail(err, SFT_E_LIMIT, "it has %llu bytes", (unsigned long long)size);
    }
    const size_t len = (size_t)size;
    SFT_TRY(sft__import_alloc(r->job, &text, len + SFT__JSON_SLACK, 1, err));
    memset(text + len, 0, SFT__JSON_SLACK);
    SFT_TRY(sft_source_read(model, 0, text, len, err));
    if (sft__base_utf8_valid(text, len) != len) {
        return unreadable(err);
    }
    memset(&j, 0, sizeof j);
    memset(&o, 0, sizeof o);
    j.end = text + len;
    for (const char *p = text; p < j.end;) {
        if (*p != '"') {
            p++;
            continue;
        }
        p = sft__base_json_read(&j, p, &key);
        p = p != NULL ? take_key(r, &j, p, &key, &o, err) : NULL;
        if (p == NULL) {
            return unreadable(err);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the model */

const char *sft__import_paddle_base(const sft__import *job) {
    const char *slash = job->path != NULL ? strrchr(job->path, '/') : NULL;
    return slash != NULL ? slash + 1 : job->path;
}

static int by_name(const void *a, const void *b) {
    const sft__import_paddle_name *x = a;
    const sft__import_paddle_name *y = b;
    return strcmp(x->name, y->name);
}

static sft_status read_model(reading *r, const char *location, const sft_source *model,
                             sft_error *err) {
    uint8_t first = 0;

    if (sft_source_size(model) != 0) {
        SFT_TRY(sft_source_read(model, 0, &first, 1, err));
    }
    SFT_TRY(first == '{' ? read_json(r, model, err) : read_program(r, model, err));
    sft__import_paddle_names *n = r->names;
    if (n->count == 0) {
        return sft__base_fail(err, SFT_E_SCHEMA, "it names no parameter");
    }
    qsort(n->at, n->count, sizeof *n->at, by_name);
    n->model = location;
    return SFT_OK;
}

/* The model called `location`, if it is there. */
static sft_status try_model(sft__import *job, sft__import_paddle_names *names, const char *location,
                            sft_error *err) {
    sft_source *model = NULL;
    sft_error why;

    memset(&why, 0, sizeof why);
    reading *r;
    SFT_TRY(sft__base_need_zero(job->allocator, &r, sizeof *r, err));
    r->job = job;
    r->names = names;
    sft_status status = sft__import_beside_open(&model, job, location, true, &why);
    const bool absent = status == SFT_E_IO || status == SFT_E_SHARD_MISSING;
    if (status == SFT_OK) {
        status = read_model(r, location, model, &why);
        sft_source_close(model);
    }
    sft__base_free(job->allocator, r, sizeof *r);
    if (status == SFT_E_NOMEM) {
        return sft__base_fail_nomem(err, sizeof *r);
    }
    if (status != SFT_OK) {
        names->count = 0;
    }
    if (status != SFT_OK && !absent) {
        sft__import_find(job, SFT__RULE(NOTE, UNKNOWN, "paddle-model"),
                         sft__import_text_at(location, SFT_NO_OFFSET),
                         "the model beside it gives no names: %.200s", why.message);
    }
    return SFT_OK;
}

sft_status sft__import_paddle_names_read(sft__import *job, sft__import_paddle_names *names,
                                         sft_error *err) {
    static const char *const ends[] = {".pdmodel", ".json"};
    const char *base = sft__import_paddle_base(job);
    char *location;

    if (base == NULL) {
        return SFT_OK;
    }
    if (strcmp(base, "__params__") == 0) {
        return try_model(job, names, "__model__", err);
    }
    const char *dot = strrchr(base, '.');
    const size_t stem = dot != NULL ? (size_t)(dot - base) : strlen(base);
    if (dot == NULL || strcmp(dot, ".pdiparams") != 0) {
        return SFT_OK; /* one tensor, or nothing that a name could say */
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && names->model == NULL; i++) {
        SFT_TRY(sft__import_alloc(job, &location, stem + 16, 1, err));
        memcpy(location, base, stem);
        memcpy(location + stem, ends[i], strlen(ends[i]) + 1);
        SFT_TRY(try_model(job, names, location, err));
    }
    return SFT_OK;
}
