/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pt2/pt2_config.c - NAME_weights_config.json and NAME_constants_config.json of a .pt2 archive
 * (PayloadConfig of torch/_export/serde/schema.py). Keys that are not known are passed over.
 * Read first: pt2.h.
 */
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "import/pt2/pt2.h"

typedef struct reading {
    sft__import *job;
    sft__base_json j;
    sft__import_pt2_entry *entries;
    size_t count;
    size_t room;
    sft_error *err;
    sft_status status; /* what is no fault of the text */
} reading;

/* {"as_int": N}; N of 0 or more */
typedef struct whole {
    sft__base_json_num n;
    bool found;
} whole;

static const char *take_int(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                            const char *p) {
    whole *w = ctx;

    w->found = sft__base_json_is(name, "as_int", 6) && *p >= '0' && *p <= '9';
    return w->found ? sft__base_json_number(j, p, &w->n)
                    : sft__base_json_expected(j, p, "an integer");
}

static const char *read_int(reading *r, const char *p, uint64_t *value) {
    whole w = {{0, false}, false};

    p = sft__base_json_members(&r->j, p, take_int, &w);
    if (p != NULL && (!w.found || !w.n.is_uint)) {
        return sft__base_json_fail(&r->j, p, "no integer of 0 or more");
    }
    *value = w.n.value;
    return p;
}

static const char *read_ints(reading *r, const char *p, uint64_t **list, uint32_t *count) {
    uint64_t numbers[SFT__TORCH_RANK_MAX];
    uint32_t n = 0;
    bool more = false;

    if (*p != '[') {
        return sft__base_json_expected(&r->j, p, "a list");
    }
    for (p = sft__base_json_first(p, ']', &more); p != NULL && more;) {
        if (n == SFT__TORCH_RANK_MAX) {
            return sft__base_json_fail(&r->j, p, "more dimensions than a tensor has");
        }
        p = sft__base_json_next(&r->j, read_int(r, p, &numbers[n++]), ']', "a comma", &more);
    }
    if (p == NULL) {
        return NULL;
    }
    r->status = sft__import_alloc(r->job, list, n, sizeof **list, r->err);
    if (r->status != SFT_OK) {
        return NULL;
    }
    if (n != 0) {
        memcpy(*list, numbers, n * sizeof *numbers);
    }
    *count = n;
    return p;
}

static const char *read_number(reading *r, const char *p, uint64_t *value) {
    sft__base_json_num n = {0, false};

    if (*p < '0' || *p > '9') {
        return sft__base_json_expected(&r->j, p, "a number");
    }
    p = sft__base_json_number(&r->j, p, &n);
    *value = n.value;
    return p != NULL && !n.is_uint ? sft__base_json_fail(&r->j, p, "no integer") : p;
}

/* Of tensor_meta of the last entry. */
static const char *take_meta(void *ctx, sft__base_json *j, const sft__base_json_str *key,
                             const char *p) {
    reading *r = ctx;
    sft__import_pt2_entry *e = &r->entries[r->count - 1];

    return sft__base_json_is(key, "dtype", 5)     ? read_number(r, p, &e->dtype)
           : sft__base_json_is(key, "layout", 6)  ? read_number(r, p, &e->layout)
           : sft__base_json_is(key, "sizes", 5)   ? read_ints(r, p, &e->shape, &e->rank)
           : sft__base_json_is(key, "strides", 7) ? read_ints(r, p, &e->strides, &e->stride_count)
           : sft__base_json_is(key, "storage_offset", 14) ? read_int(r, p, &e->offset)
                                                          : sft__base_json_value(j, p, 4);
}

static const char *keep_text(reading *r, const sft__base_json_str *s, const char **text,
                             size_t *len) {
    char *copy;

    r->status = sft__import_alloc(r->job, &copy, s->len + 1, 1, r->err);
    if (r->status != SFT_OK) {
        return NULL;
    }
    *len = sft__base_json_decode(copy, s);
    copy[*len] = '\0';
    *text = copy;
    return copy;
}

/* Of the last entry. */
static const char *take_member(void *ctx, sft__base_json *j, const sft__base_json_str *key,
                               const char *p) {
    reading *r = ctx;
    sft__import_pt2_entry *e = &r->entries[r->count - 1];
    sft__base_json_str text;

    if (sft__base_json_is(key, "path_name", 9) && *p == '"') {
        p = sft__base_json_read(j, p, &text);
        return p != NULL && keep_text(r, &text, &e->path, &e->path_len) != NULL ? p : NULL;
    }
    if (sft__base_json_is(key, "tensor_meta", 11) && *p == '{') { /* null: no tensor */
        e->described = true;
        return sft__base_json_members(j, p, take_meta, r);
    }
    e->pickled = e->pickled || (sft__base_json_is(key, "use_pickle", 10) && *p == 't');
    return sft__base_json_value(j, p, 3);
}

static const char *take_entry(void *ctx, sft__base_json *j, const sft__base_json_str *key,
                              const char *p) {
    reading *r = ctx;

    if (r->count == r->room) { /* doubles: the old ones stay in the arena, at most as large */
        sft__import_pt2_entry *old = r->entries;
        r->room = r->room == 0 ? 64 : 2 * r->room;
        r->status = sft__import_alloc(r->job, &r->entries, r->room, sizeof *r->entries, r->err);
        if (r->status != SFT_OK) {
            return NULL;
        }
        if (r->count != 0) {
            memcpy(r->entries, old, r->count * sizeof *old);
        }
    }
    sft__import_pt2_entry *e = &r->entries[r->count++];
    memset(e, 0, sizeof *e);
    return keep_text(r, key, &e->name, &e->name_len) != NULL
               ? sft__base_json_members(j, p, take_member, r)
               : NULL;
}

static const char *take_config(void *ctx, sft__base_json *j, const sft__base_json_str *key,
                               const char *p) {
    const reading *r = ctx;

    return sft__base_json_is(key, "config", 6) && r->count == 0
               ? sft__base_json_members(j, p, take_entry, ctx)
               : sft__base_json_value(j, p, 1);
}

sft_status sft__import_pt2_config(sft__import *job, char *text, size_t len,
                                  sft__import_pt2_entry **entries, size_t *count, sft_error *err) {
    reading r = {.job = job, .err = err};

    r.j.end = text + len;
    if (sft__base_utf8_valid(text, len) != len) {
        return sft__base_fail(err, SFT_E_UTF8, "pt2-config: the list of weights is not UTF-8");
    }
    const char *p = sft__base_json_members(&r.j, sft__base_json_blank(text), take_config, &r);
    if (r.status != SFT_OK) {
        return r.status;
    }
    if (p == NULL) {
        return sft__base_fail(err, SFT_E_SCHEMA, "pt2-config: %s, at character %zu of the list",
                              r.j.fault != NULL ? r.j.fault : "damaged",
                              r.j.fault_at != NULL ? (size_t)(r.j.fault_at - text) : 0);
    }
    *entries = r.entries;
    *count = r.count;
    return SFT_OK;
}
