/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/point.c - what a step holds: one catalog over its files, the entries of state.json, loads
 * in place. Read point.h first.
 */
#include "checkpoint/run/point.h"
#include "base/text/json.h"
#include "base/text/real.h"
#include "base/text/utf8.h"
#include "checkpoint/run/together.h"
#include "layout/jsontree.h"
#include <sft/checkpoint_open.h>
#include <sft/digest.h>
#include <sft/load.h>
#include <stdio.h>

/* ---------------------------------------------------------------- tensors */

/* The shards of many processes, as global tensors. */
static sft_status open_shards(sft_run_point *p, const sft_open_options *open, sft_error *err) {
    sft_checkpoint_options o;
    sft_checkpoint *c;
    SFT_INIT(&o);
    o.open = open;
    SFT_TRY(sft_checkpoint_open(&c, p->path, &o, err));
    return sft_checkpoint_take_global(&p->catalog, c, open, err);
}

/* ---------------------------------------------------------------- state.json */

typedef struct reading {
    sft_run_point *point;
    bool version; /* it is 1 */
    bool state;   /* it is there */
    bool nomem;
} reading;

static const char *take_entry(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                              const char *value) {
    reading *const r = ctx;
    sft_run_point *const p = r->point;
    sft__checkpoint_run_words *const words = &p->entries;
    const char *const end = sft__base_json_value(j, value, 2);
    if (end == NULL) {
        return NULL;
    }
    r->nomem = !sft__base_grow(p->run->allocator, &words->list, &words->room, words->count + 1,
                               sizeof *words->list);
    char *const text = r->nomem ? NULL : sft__base_arena_alloc(&p->arena, name->len + 1, 1);
    if (text == NULL) {
        r->nomem = true;
        return NULL;
    }
    sft__checkpoint_run_word *const w = &words->list[words->count++];
    w->name_len = sft__base_json_decode(text, name);
    text[w->name_len] = '\0';
    w->name = text;
    w->text = value;
    w->len = (size_t)(end - value);
    return end;
}

static const char *take_member(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                               const char *value) {
    reading *const r = ctx;
    if (sft__base_json_is(name, "state", 5)) {
        r->state = true;
        return sft__base_json_members(j, value, take_entry, ctx);
    }
    if (sft__base_json_is(name, "version", 7)) {
        r->version = value[0] == '1' && (value[1] < '0' || value[1] > '9') && value[1] != '.';
    }
    return sft__base_json_value(j, value, 1);
}

static sft_status name_entries(sft_run_point *p, const char *name, sft_error *err) {
    const sft__checkpoint_run_words *const w = &p->entries;
    size_t twice = 0;
    if (!sft__base_strmap_init(&p->names, w->list, sizeof *w->list, w->count, p->run->allocator)) {
        return sft__base_fail_nomem(err, w->count * sizeof(uint64_t));
    }
    return w->count > 0 && sft__base_strmap_add_all(&p->names, w->count, &twice) != SFT__STRMAP_NONE
               ? sft__base_fail(err, SFT_E_DUPLICATE, "%s: the entry \"%.200s\" is there twice",
                                name, w->list[twice].name)
               : SFT_OK;
}

static sft_status read_state(sft_run_point *p, const sft__checkpoint_run_manifest *m,
                             const char *name, sft_error *err) {
    reading r = {p, false, false, false};
    char *text;
    size_t size;
    SFT_TRY(sft__checkpoint_run_read_text(p->path, name, &p->arena, &text, &size, err));
    const sft__checkpoint_run_fact *const fact = sft__checkpoint_run_manifest_find(m, name);
    const uint32_t crc = sft_crc32c(0, text, size);
    if (fact != NULL && fact->crc != crc) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "%s is damaged: its CRC32C is %08lx, its manifest says %08lx", name,
                              (unsigned long)crc, (unsigned long)fact->crc);
    }
    sft__base_json j = {.end = text + size};
    const char *end = NULL;
    if (sft__base_utf8_valid(text, size) == size) {
        end = sft__base_json_members(&j, sft__base_json_blank(text), take_member, &r);
    }
    if (r.nomem) {
        return sft__base_fail_nomem(err, size);
    }
    if (end == NULL || sft__base_json_blank(end) != j.end) {
        return sft__base_fail(err, SFT_E_JSON, "%s: %s", name,
                              j.fault != NULL ? j.fault : "no JSON object");
    }
    return r.version && r.state
               ? name_entries(p, name, err)
               : sft__base_fail(err, SFT_E_SCHEMA, "%s: no \"state\", or another version than 1",
                                name);
}

/* This process's own, if as many saved as there are now. */
static sft_status open_state(sft_run_point *p, const sft__checkpoint_run_manifest *m,
                             sft_error *err) {
    const sft_group *const g = p->run->options.group;
    char name[64];
    sft__checkpoint_run_state_name(name, g != NULL && m->processes == g->size ? g->rank : 0);
    return read_state(p, m, name, err);
}

sft_status sft__checkpoint_run_point_open(sft_run_point *p, const sft__checkpoint_run_found *s,
                                          sft_error *err) {
    sft_open_options o;
    SFT_INIT(&o);
    o.allocator = p->run->allocator;
    SFT_TRY(s->manifest.processes > 1
                ? open_shards(p, &o, err)
                : sft__checkpoint_run_open_files(&p->catalog, p->path, &s->manifest, &o, err));
    return open_state(p, &s->manifest, err);
}

void sft__checkpoint_run_point_close(sft_run_point *p) {
    sft_catalog_close(p->catalog);
    p->catalog = NULL;
    sft__base_strmap_reset(&p->names);
    memset(&p->names, 0, sizeof p->names);
    sft__base_free(p->run->allocator, p->entries.list, p->entries.room * sizeof *p->entries.list);
    memset(&p->entries, 0, sizeof p->entries);
    sft__base_arena_free(&p->arena);
    p->path = NULL;
}

void sft_run_point_free(sft_run_point *point) {
    if (point != NULL) {
        sft__checkpoint_run_point_close(point);
        sft_run_list_free(point->list);
        sft__base_free(point->run->allocator, point, sizeof *point);
    }
}

uint64_t sft_run_point_step(const sft_run_point *point) {
    return point->step != NULL ? point->step->told.step : SFT_RUN_NONE;
}

const char *sft_run_point_path(const sft_run_point *point) {
    return point->path != NULL ? point->path : "";
}

const sft_catalog *sft_run_point_catalog(const sft_run_point *point) {
    return point->catalog;
}

/* ---------------------------------------------------------------- loads */

typedef struct loading {
    const sft_run_point *point;
    const sft_run_tensor *tensors; /* by their struct_size, one after the other */
    size_t count;
    uint32_t flags;
    size_t *select;
    sft_load_place *places;
    const sft_dtype **dtypes;
    size_t wanted;
} loading;

static void put_shape(char *text, size_t room, const uint64_t *shape, uint32_t rank) {
    size_t at = (size_t)snprintf(text, room, "[");
    for (uint32_t d = 0; d < rank && at < room; d++) {
        at += (size_t)snprintf(text + at, room - at, "%s%llu", d > 0 ? ", " : "",
                               (unsigned long long)shape[d]);
    }
    (void)snprintf(text + (at < room ? at : room - 2), room - (at < room ? at : room - 2), "]");
}

static sft_status check(const loading *l, const sft_run_tensor *want, const sft_tensor *have,
                        sft_error *err) {
    char mine[100];
    char theirs[100];
    if (want->rank != have->rank ||
        (want->rank > 0 &&
         memcmp(want->shape, have->shape, want->rank * sizeof *want->shape) != 0)) {
        put_shape(mine, sizeof mine, want->shape, want->rank);
        put_shape(theirs, sizeof theirs, have->shape, have->rank);
        return sft__base_fail_tensor(
            err, SFT_E_SHAPE, SFT_NO_OFFSET, want->name, want->name_len,
            "has the shape %s in step %llu, and %s is asked for: the step is of "
            "another model",
            theirs, (unsigned long long)sft_run_point_step(l->point), mine);
    }
    if (want->dtype->id != have->dtype->id && (l->flags & SFT_GROUP_CAST) == 0) {
        return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, want->name, want->name_len,
                                     "is %s in step %llu, and %s is asked for", have->dtype->name,
                                     (unsigned long long)sft_run_point_step(l->point),
                                     want->dtype->name);
    }
    return SFT_OK;
}

static sft_status take_one(loading *l, const sft_run_tensor *want, sft_error *err) {
    const sft_catalog *const c = l->point->catalog;
    const sft_tensor *const have = sft_catalog_find(c, want->name, want->name_len);
    if (have == NULL) {
        return (l->flags & SFT_GROUP_MISSING) != 0
                   ? SFT_OK
                   : sft__base_fail_tensor(err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, want->name,
                                           want->name_len,
                                           "is not in step %llu: the step is of another model",
                                           (unsigned long long)sft_run_point_step(l->point));
    }
    SFT_TRY(check(l, want, have, err));
    l->select[l->wanted] = sft_catalog_index_of(c, have);
    /* what the caller lends to be written */
    memcpy(&l->places[l->wanted].data, &want->data, sizeof want->data);
    l->places[l->wanted].size = (size_t)want->nbytes;
    l->dtypes[l->wanted] = want->dtype->id != have->dtype->id ? want->dtype : NULL;
    l->wanted += want->nbytes > 0;
    return SFT_OK;
}

/* Whole tensors, each in one file: digests are compared on the way. */
static sft_status load_whole(loading *l, sft_error *err) {
    const sft_run *const run = l->point->run;
    sft_load_options o;
    sft_loaded *loaded;
    for (size_t i = 0; i < l->count; i++) {
        SFT_TRY(take_one(l, &l->tensors[i], err));
    }
    if (l->wanted == 0) {
        return SFT_OK;
    }
    SFT_INIT(&o);
    o.allocator = run->allocator;
    o.select = l->select;
    o.select_count = l->wanted;
    o.places = l->places;
    o.dtypes = l->dtypes;
    o.pool = l->point->options.pool != NULL ? l->point->options.pool : run->options.pool;
    o.control = l->point->options.control;
    o.flags = l->point->verified ? 0 : SFT_LOAD_VERIFY;
    SFT_TRY(sft_load(&loaded, l->point->catalog, &o, err));
    sft_loaded_free(loaded);
    return SFT_OK;
}

/* Boxes, or shards: as any checkpoint. */
static sft_status load_parts(loading *l, sft_error *err) {
    const sft_run *const run = l->point->run;
    sft_group_load_options o;
    sft_group_tensor *const t = sft__base_alloc_zero(run->allocator, (l->count + 1) * sizeof *t);
    if (t == NULL) {
        return sft__base_fail_nomem(err, l->count * sizeof *t);
    }
    sft_status status = SFT_OK;
    for (size_t i = 0; i < l->count; i++) {
        const sft_run_tensor *const want = &l->tensors[i];
        const sft_tensor *const have =
            sft_catalog_find(l->point->catalog, want->name, want->name_len);
        t[i] = (sft_group_tensor){.name = want->name,
                                  .name_len = want->name_len,
                                  .dtype = want->dtype,
                                  .shape = want->shape,
                                  .dims = want->rank,
                                  .start = want->start,
                                  .count = want->count,
                                  .nbytes = want->nbytes};
        memcpy(&t[i].data, &want->data, sizeof want->data);
        if (have != NULL && status == SFT_OK) {
            status = check(l, want, have, err);
        }
    }
    SFT_INIT(&o);
    o.pool = l->point->options.pool != NULL ? l->point->options.pool : run->options.pool;
    o.control = l->point->options.control;
    o.flags = l->flags;
    status = sft__checkpoint_group_agree(run->options.group, status, false, err);
    if (status == SFT_OK) {
        status =
            sft__checkpoint_load_parts(run->options.group, l->point->catalog, t, l->count, &o, err);
    }
    sft__base_free(run->allocator, t, (l->count + 1) * sizeof *t);
    return status;
}

static sft_status check_given(const loading *l, bool *whole, sft_error *err) {
    *whole =
        l->point->step != NULL && l->point->step->manifest.processes <= 1 &&
        sft__checkpoint_run_group(l->point->run) == NULL; /* many talk, whatever each asks for */
    for (size_t i = 0; i < l->count; i++) {
        const sft_run_tensor *const t = &l->tensors[i];
        if (t->struct_size !=
            sizeof *t) { /* they lie one after the other: of another size none can be found */
            return sft__base_fail(err, SFT_E_ARG, "tensor %llu has another struct_size",
                                  (unsigned long long)i);
        }
        if (t->name == NULL || t->dtype == NULL || (t->shape == NULL && t->rank > 0) ||
            t->nbytes > SIZE_MAX || (t->data == NULL && t->nbytes > 0)) {
            return sft__base_fail(
                err, t->fill != NULL || t->address != 0 ? SFT_E_UNSUPPORTED : SFT_E_ARG,
                "tensor %llu needs a name, a dtype, a shape and memory", (unsigned long long)i);
        }
        SFT_TRY(sft__checkpoint_run_check_bytes(t, err));
        *whole = *whole && t->start == NULL;
    }
    return l->point->catalog != NULL
               ? SFT_OK
               : sft__base_fail(err, SFT_E_STATE, "the point has no step any more");
}

sft_status sft_run_point_load(const sft_run_point *point, const sft_run_tensor *tensors,
                              size_t count, uint32_t flags, sft_error *err) {
    const sft_allocator *const a = point->run->allocator;
    loading l = {.point = point, .tensors = tensors, .count = count, .flags = flags};
    bool whole;
    SFT_TRY(check_given(&l, &whole, err));
    if (!whole) {
        return load_parts(&l, err);
    }
    l.select = sft__base_alloc_array(a, count + 1, sizeof *l.select);
    l.places = sft__base_alloc_array(a, count + 1, sizeof *l.places);
    l.dtypes = sft__base_alloc_array(a, count + 1, sizeof *l.dtypes);
    const sft_status status = l.select == NULL || l.places == NULL || l.dtypes == NULL
                                  ? sft__base_fail_nomem(err, (count + 1) * sizeof *l.places)
                                  : load_whole(&l, err);
    sft__base_free(a, l.select, (count + 1) * sizeof *l.select);
    sft__base_free(a, l.places, (count + 1) * sizeof *l.places);
    sft__base_free(a, l.dtypes, (count + 1) * sizeof *l.dtypes);
    return status;
}

/* ---------------------------------------------------------------- entries */

static const sft__checkpoint_run_word *find(const sft_run_point *p, const char *name) {
    const size_t at = sft__base_strmap_find(&p->names, name, strlen(name));
    return at != SFT__STRMAP_NONE ? &p->entries.list[at] : NULL;
}

const char *sft_run_point_name(const sft_run_point *point, size_t index) {
    return index < point->entries.count ? point->entries.list[index].name : NULL;
}

sft_status sft_run_point_node(const sft_run_point *point, const char *name, const char **json,
                              size_t *len, sft_error *err) {
    const sft__checkpoint_run_word *const w = find(point, name);
    if (w == NULL) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "state.json has no entry \"%.200s\"", name);
    }
    *json = w->text;
    *len = w->len;
    return SFT_OK;
}

/* The entry as a tree in `arena`; *value: what a tag holds, if it is `tag`. */
static sft_status parse(const sft_run_point *p, const char *name, sft__base_arena *arena,
                        const sft__layout_jnode **node, sft_error *err) {
    sft__layout_jnode *root;
    const char *json;
    size_t len;
    sft__base_arena_init(arena, p->run->allocator, 0);
    SFT_TRY(sft_run_point_node(p, name, &json, &len, err));
    SFT_TRY(sft__layout_jtree_parse(&root, arena, json, len, name, err));
    *node = root;
    return SFT_OK;
}

static const sft__layout_jnode *tagged(const sft__layout_jnode *node, const char *tag) {
    const sft__layout_jnode *const t = sft__layout_jtree_get(node, "$");
    const sft__layout_jnode *const v = sft__layout_jtree_get(node, "v");
    return t != NULL && t->type == SFT__J_STRING && strcmp(t->text, tag) == 0 && v != NULL &&
                   v->type == SFT__J_STRING
               ? v
               : NULL;
}

static sft_status other_type(const char *name, const char *wanted, sft_error *err) {
    return sft__base_fail(err, SFT_E_MISMATCH, "the entry \"%.200s\" is no %s", name, wanted);
}

sft_status sft_run_point_f64(const sft_run_point *point, const char *name, double *out,
                             sft_error *err) {
    const sft__layout_jnode *node = NULL;
    sft__base_arena arena;
    sft_status status = parse(point, name, &arena, &node, err);
    const sft__layout_jnode *const v = status == SFT_OK ? tagged(node, "float") : NULL;
    if (status == SFT_OK && (v == NULL || !sft__base_real_parse(v->text, v->len, out))) {
        status = other_type(name, "floating-point number", err);
    }
    sft__base_arena_free(&arena);
    return status;
}

/* Decimal digits, in the range of int64_t. */
static bool take_i64(const char *text, size_t len, int64_t *out) {
    const bool negative = len > 0 && text[0] == '-';
    uint64_t value = 0;
    size_t at = negative;
    if (at == len || len - at > 19) {
        return false;
    }
    for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
        value = value * 10 + (uint64_t)(text[at] - '0'); /* below 10^19 */
    }
    if (at != len || value > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

sft_status sft_run_point_i64(const sft_run_point *point, const char *name, int64_t *out,
                             sft_error *err) {
    const sft__layout_jnode *node = NULL;
    sft__base_arena arena;
    sft_status status = parse(point, name, &arena, &node, err);
    if (status == SFT_OK) {
        const sft__layout_jnode *const v = tagged(node, "int");
        const bool good =
            v != NULL ? take_i64(v->text, v->len, out) : sft__layout_jtree_int(node, out);
        status = good ? SFT_OK : other_type(name, "integer of 64 bits", err);
    }
    sft__base_arena_free(&arena);
    return status;
}

sft_status sft_run_point_bool(const sft_run_point *point, const char *name, int *out,
                              sft_error *err) {
    const sft__checkpoint_run_word *const w = find(point, name);
    const char *json;
    size_t len;
    SFT_TRY(sft_run_point_node(point, name, &json, &len, err));
    *out = w->len == 4 && memcmp(w->text, "true", 4) == 0;
    return *out || (w->len == 5 && memcmp(w->text, "false", 5) == 0)
               ? SFT_OK
               : other_type(name, "truth value", err);
}

/* Decoded once, into the point's arena: the borrow lives as long as the point's step. */
sft_status sft_run_point_text(const sft_run_point *point, const char *name, const char **out,
                              size_t *len, sft_error *err) {
    sft_run_point *const p = (sft_run_point *)(uintptr_t)point; /* its arena is its own business */
    const char *json;
    size_t size;
    SFT_TRY(sft_run_point_node(point, name, &json, &size, err));
    if (json[0] != '"') {
        return other_type(name, "text", err);
    }
    sft__base_json j = {.end = json + size};
    sft__base_json_str s;
    char *const text = sft__base_arena_alloc(&p->arena, size, 1);
    if (text == NULL) {
        return sft__base_fail_nomem(err, size);
    }
    (void)sft__base_json_read(&j, json, &s); /* it was read before */
    const size_t n = sft__base_json_decode(text, &s);
    text[n] = '\0';
    *out = text;
    if (len != NULL) {
        *len = n;
    }
    return SFT_OK;
}

sft_status sft_run_point_blob(const sft_run_point *point, const char *name, void *buffer,
                              size_t capacity, size_t *size, sft_error *err) {
    const sft__layout_jnode *node = NULL;
    sft__base_arena arena;
    sft_run_tensor t;
    sft_status status = parse(point, name, &arena, &node, err);
    const sft__layout_jnode *const v = status == SFT_OK ? tagged(node, "tensor") : NULL;
    const sft_tensor *const have =
        v != NULL ? sft_catalog_find(point->catalog, v->text, v->len) : NULL;
    *size = 0;
    if (status == SFT_OK &&
        (have == NULL || have->rank != 1 || strcmp(have->dtype->name, "U8") != 0)) {
        status = other_type(name, "blob", err);
    }
    if (status == SFT_OK) {
        *size = (size_t)have->nbytes;
    }
    if (status == SFT_OK && buffer != NULL && capacity < *size) {
        status = sft__base_fail(err, SFT_E_ARG, "%llu bytes of room, %llu are needed",
                                (unsigned long long)capacity, (unsigned long long)*size);
    } else if (status == SFT_OK && buffer != NULL && *size > 0) {
        SFT_INIT(&t);
        t.name = v->text;
        t.name_len = v->len;
        t.dtype = have->dtype;
        t.shape = have->shape;
        t.rank = 1;
        t.data = buffer;
        t.nbytes = have->nbytes;
        status = sft_run_point_load(point, &t, 1, 0, err);
    }
    sft__base_arena_free(&arena);
    return status;
}

sft_status sft_run_point_metric(const sft_run_point *point, const char *name, double *out,
                                sft_error *err) {
    const sft__checkpoint_run_manifest *const m = &point->step->manifest;
    for (size_t i = 0; i < m->metric_count; i++) {
        if (strcmp(m->metrics[i].name, name) == 0) {
            *out = m->metrics[i].value;
            return SFT_OK;
        }
    }
    return sft__base_fail(err, SFT_E_NOT_FOUND, "the step has no metric \"%.200s\"", name);
}
