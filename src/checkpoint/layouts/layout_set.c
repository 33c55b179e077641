/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set.c - the object behind a layout set: its lists, the layouts made of its
 * entries, and which entry a tensor belongs to. Texts are read in layout_set_read.c and
 * layout_set_other.c. Read checkpoint/layouts/layout_set.h first.
 */
#include "checkpoint/layouts/layout_set.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "layout/layout.h"

#define MAX_ENTRIES (UINT64_C(1) << 24)

/* ---------------------------------------------------------------- the object */

sft_status sft__checkpoint_lset_create(sft_layout_set **out, const sft_layout_set_options *options,
                                       sft_error *err) {
    sft_layout_set_options o;
    sft_limits limits;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options,
                                   SFT__UP_TO(sft_layout_set_options, allocator), "options", err));
    const sft_allocator *const a = sft__base_allocator(o.allocator);
    SFT_TRY(sft__base_limits_read(&limits, o.limits, err));
    sft_layout_set *const set = sft__base_alloc_zero(a, sizeof *set);
    SFT_NEED(set != NULL, sizeof *set, err);
    set->allocator = a;
    set->limits = limits;
    set->plan_ranks = o.ranks;
    sft__base_arena_init(&set->arena, a, limits.memory_bytes);
    *out = set;
    return SFT_OK;
}

void sft_layout_set_free(sft_layout_set *set) {
    if (set == NULL) {
        return;
    }
    const sft_allocator *const a = set->allocator;
    for (size_t i = 0; i < set->count; i++) {
        for (size_t k = 0; k < set->entries[i].layout_count; k++) {
            sft__layout_free(set->entries[i].layouts[k]);
        }
    }
    sft__checkpoint_ms_layouts_free(set->ms);
    sft__layout_ms_free(set->strategy);
    sft__base_strmap_reset(&set->map);
    sft__base_strmap_reset(&set->mesh_map);
    sft__base_strmap_reset(&set->shape_map);
    sft__base_free(a, set->entries, set->room * sizeof *set->entries);
    sft__base_free(a, set->meshes, set->mesh_room * sizeof *set->meshes);
    sft__base_free(a, set->shapes, set->shape_room * sizeof *set->shapes);
    sft__base_arena_free(&set->arena);
    sft__base_free(a, set, sizeof *set);
}

static sft_status no_memory(const sft_layout_set *set, size_t size, sft_error *err) {
    if (set->arena.over_budget) {
        return sft__base_fail(err, SFT_E_LIMIT, "layouts need more memory than the limit allows");
    }
    return sft__base_fail_nomem(err, size);
}

sft_status sft__checkpoint_lset_take(sft_layout_set *set, void *out_pointer, size_t count,
                                     size_t size, sft_error *err) {
    size_t bytes;
    void *p = NULL;
    if (sft__base_mul_size(count, size, &bytes) && bytes < SIZE_MAX / 2) {
        p = sft__base_arena_alloc(&set->arena, bytes + 1, sizeof(uint64_t)); /* never of size 0 */
    }
    if (p == NULL) {
        return no_memory(set, count, err);
    }
    memset(p, 0, bytes + 1);
    memcpy(out_pointer, &p, sizeof p);
    return SFT_OK;
}

sft_status sft__checkpoint_lset_copy(sft_layout_set *set, const char **out, const char *text,
                                     size_t len, sft_error *err) {
    *out = sft__base_arena_copy(&set->arena, text, len);
    return *out != NULL ? SFT_OK : no_memory(set, len, err);
}

sft_status sft__checkpoint_lset_add(sft_layout_set *set, sft__checkpoint_lset_entry **out,
                                    sft_error *err) {
    const uint64_t most = set->limits.tensors != 0 && set->limits.tensors < MAX_ENTRIES
                              ? set->limits.tensors
                              : MAX_ENTRIES;
    if (set->count >= most) {
        return sft__base_fail(err, SFT_E_LIMIT, "layouts of more than %llu tensors",
                              (unsigned long long)most);
    }
    SFT_NEED(sft__base_grow(set->allocator, &set->entries, &set->room, set->count + 1,
                            sizeof *set->entries),
             (set->count + 1) * sizeof *set->entries, err);
    *out = &set->entries[set->count++];
    memset(*out, 0, sizeof **out);
    return SFT_OK;
}

/* ---------------------------------------------------------------- meshes */

sft_status sft__checkpoint_lset_add_mesh(sft_layout_set *set, sft__checkpoint_lset_mesh **out,
                                         sft_error *err) {
    SFT_NEED(sft__base_grow(set->allocator, &set->meshes, &set->mesh_room, set->mesh_count + 1,
                            sizeof *set->meshes),
             (set->mesh_count + 1) * sizeof *set->meshes, err);
    *out = &set->meshes[set->mesh_count++];
    memset(*out, 0, sizeof **out);
    return SFT_OK;
}

static void note_rank(sft_layout_set *set, uint64_t rank) {
    if (rank >= set->ranks && rank != UINT64_MAX) {
        set->ranks = rank + 1;
    }
}

sft_status sft__checkpoint_lset_mesh_done(sft_layout_set *set, sft__checkpoint_lset_mesh *m,
                                          uint64_t offset, sft_error *err) {
    uint64_t n = 1;
    sft__base_buf b;
    if (m->mesh.axis_count > SFT__LAYOUT_AXES) {
        return sft__base_fail_at(err, SFT_E_LIMIT, offset,
                                 "mesh of %llu axes, at most %u are possible",
                                 (unsigned long long)m->mesh.axis_count, SFT__LAYOUT_AXES);
    }
    sft__base_buf_init(&b, set->allocator);
    for (size_t i = 0; i < m->mesh.axis_count; i++) {
        if (m->mesh.axes[i] == 0 || !sft__base_mul64(n, m->mesh.axes[i], &n) ||
            n > UINT64_C(1) << 31) {
            sft__base_buf_reset(&b);
            return sft__base_fail_at(err, SFT_E_SCHEMA, offset,
                                     "mesh of no rank, or of more than 2^31");
        }
        sft__base_buf_text(&b, i == 0 ? "" : ", ");
        sft__base_buf_text(&b, m->mesh.axis_names[i]);
        sft__base_buf_text(&b, " ");
        sft__base_buf_u64(&b, m->mesh.axes[i]);
    }
    m->devices = n;
    const sft_status status =
        b.failed ? sft__base_fail_nomem(err, b.len)
                 : sft__checkpoint_lset_copy(set, &m->text, b.len != 0 ? b.data : "", b.len, err);
    sft__base_buf_reset(&b);
    if (m->mesh.ranks == NULL && m->mesh.first_rank > UINT64_MAX - 1 - n) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, offset, "first rank is too large");
    }
    for (uint64_t i = 0; m->mesh.ranks != NULL && i < n; i++) {
        note_rank(set, m->mesh.ranks[i]);
    }
    if (m->mesh.ranks == NULL) {
        note_rank(set, m->mesh.first_rank + n - 1);
    }
    return status;
}

/* ---------------------------------------------------------------- texts for people */

static void describe_cut(sft__base_buf *b, const sft__layout_cut *cut,
                         const sft__checkpoint_lset_mesh *m) {
    static const char *const rules[] = {"", " chunk", " balanced", " by sizes"};
    if (cut->factor_count == 0) {
        sft__base_buf_text(b, "-");
    }
    for (size_t i = 0; i < cut->factor_count; i++) {
        const sft__layout_factor *const f = &cut->factors[i];
        sft__base_buf_text(b, i == 0 ? "" : "*");
        sft__base_buf_text(b, f->axis < m->mesh.axis_count ? m->mesh.axis_names[f->axis] : "?");
        if (f->divisor > 1) {
            sft__base_buf_text(b, "/");
            sft__base_buf_u64(b, f->divisor);
        }
        if (f->size != 0) {
            sft__base_buf_text(b, "%");
            sft__base_buf_u64(b, f->size);
        }
    }
    sft__base_buf_text(b, (uint32_t)cut->split <= SFT__SPLIT_SIZES ? rules[cut->split] : "");
    if (cut->block_count > 1 || cut->block_parts > 1) {
        sft__base_buf_text(b, " in ");
        sft__base_buf_u64(b, cut->block_count > 1 ? cut->block_count : cut->block_parts);
        sft__base_buf_text(b, " blocks");
    }
}

static sft_status describe(sft_layout_set *set, sft__checkpoint_lset_entry *e, sft_error *err) {
    sft__base_buf b;
    sft__base_buf_init(&b, set->allocator);
    if (e->kind == SFT__LSET_CUTS) {
        for (size_t d = 0; d < e->dims; d++) {
            sft__base_buf_text(&b, d == 0 ? "" : ", ");
            describe_cut(&b, &e->cuts[d], &set->meshes[e->mesh]);
        }
        sft__base_buf_text(&b, e->dims == 0 ? "whole" : "");
    } else if (e->kind == SFT__LSET_FLAT) {
        sft__base_buf_text(&b, "flat ");
        describe_cut(&b, &e->flat, &set->meshes[e->mesh]);
    } else {
        sft__base_buf_text(&b, e->kind == SFT__LSET_WHOLE   ? "whole"
                               : e->kind == SFT__LSET_BOXES ? "boxes"
                                                            : e->text);
    }
    const sft_status status =
        b.failed ? sft__base_fail_nomem(err, b.len)
                 : sft__checkpoint_lset_copy(set, &e->cut_text, b.data, b.len, err);
    sft__base_buf_reset(&b);
    return status;
}

/* ---------------------------------------------------------------- layouts of the entries */

static sft_status make(const sft_layout_set *set, const sft__checkpoint_lset_entry *e, size_t dims,
                       int is_bias, sft_layout **out, sft_error *err) {
    const sft__checkpoint_lset_mesh *const m =
        e->kind == SFT__LSET_BOXES ? NULL : &set->meshes[e->mesh];
    switch (e->kind) {
    case SFT__LSET_CUTS:
        return sft__layout_create(out, &m->mesh, e->cuts, e->dims, set->allocator, err);
    case SFT__LSET_FLAT:
        return sft__layout_create_flat(out, &m->mesh, &e->flat, e->align, set->allocator, err);
    case SFT__LSET_BOXES:
        return sft__layout_create_boxes(
            out, &(sft__layout_box_list){e->ranks, e->boxes, e->box_count, e->dims}, set->allocator,
            err);
    case SFT__LSET_PLACEMENTS:
        return sft__layout_parse_placements(out, e->text, &m->mesh, dims, set->allocator, err);
    case SFT__LSET_SPEC:
        return sft__layout_parse_spec(out, e->text, &m->mesh, dims, set->allocator, err);
    case SFT__LSET_STYLE:
        return sft__layout_from_style(out, &(sft__layout_style){e->text, is_bias}, &m->mesh, dims,
                                      set->allocator, err);
    case SFT__LSET_WHOLE:
        break;
    }
    *out = NULL;
    return SFT_OK;
}

static sft_status about(const sft__checkpoint_lset_entry *e, const sft_error *why, sft_error *err) {
    const sft_status status = why->status == SFT_E_ARG ? SFT_E_SCHEMA : (sft_status)why->status;
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, e->name, e->name_len, "layout: %s",
                                 why->message);
}

/* A text may fit some numbers of dimensions and not others; one that fits none is wrong. */
static sft_status make_for_all_dims(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                                    sft_error *err) {
    const size_t sets = e->kind == SFT__LSET_STYLE ? 2 : 1;
    sft_error why;
    bool any = false;
    SFT_TRY(sft__checkpoint_lset_take(set, &e->layouts, sets * SFT__LSET_DIMS, sizeof(sft_layout *),
                                      err));
    e->layout_count = sets * SFT__LSET_DIMS;
    for (size_t i = 0; i < e->layout_count; i++) {
        const sft_status status =
            make(set, e, i % SFT__LSET_DIMS, i >= SFT__LSET_DIMS, &e->layouts[i], &why);
        if (status == SFT_E_NOMEM) {
            return sft__base_fail_nomem(err, sizeof(sft_layout *));
        }
        any = any || status == SFT_OK;
    }
    return any ? SFT_OK : about(e, &why, err);
}

static sft_status make_layouts(sft_layout_set *set, sft__checkpoint_lset_entry *e, sft_error *err) {
    sft_error why;
    if (e->kind == SFT__LSET_WHOLE) {
        return SFT_OK;
    }
    for (size_t i = 0; e->kind == SFT__LSET_BOXES && i < e->box_count; i++) {
        note_rank(set, e->ranks[i]);
    }
    if (e->kind >= SFT__LSET_PLACEMENTS) {
        return make_for_all_dims(set, e, err);
    }
    SFT_TRY(sft__checkpoint_lset_take(set, &e->layouts, 1, sizeof(sft_layout *), err));
    e->layout_count = 1;
    if (make(set, e, e->dims, 0, &e->layouts[0], &why) != SFT_OK) {
        return about(e, &why, err);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- tables */

/* Two entries of one name must speak of different ranks. */
static bool exclude_each_other(const sft__checkpoint_lset_entry *a,
                               const sft__checkpoint_lset_entry *b) {
    return a->kind == SFT__LSET_WHOLE || b->kind == SFT__LSET_WHOLE || a->kind == SFT__LSET_BOXES ||
           b->kind == SFT__LSET_BOXES || a->mesh == b->mesh;
}

static sft_status index_names(sft_layout_set *set, sft_error *err) {
    sft__base_strmap_reset(&set->map); /* of numbers alone: before the model was there */
    SFT_NEED(sft__base_strmap_init(&set->map, set->entries, sizeof *set->entries, set->count,
                                   set->allocator),
             set->count * sizeof(uint64_t), err);
    SFT_TRY(sft__checkpoint_lset_take(set, &set->loose, set->count, sizeof *set->loose, err));
    for (size_t i = 0; i < set->count; i++) {
        sft__checkpoint_lset_entry *const e = &set->entries[i];
        if (e->match != SFT_LAYOUT_MATCH_NAME) {
            set->loose[set->loose_count++] = i;
            continue;
        }
        size_t at = sft__base_strmap_add(&set->map, i);
        size_t last = at;
        for (size_t links = 0; at != SFT__STRMAP_NONE; links++) {
            if (exclude_each_other(e, &set->entries[at]) || links == 65536) {
                return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, e->name,
                                             e->name_len, "layout given twice");
            }
            last = at;
            at = set->entries[at].next != 0 ? set->entries[at].next : SFT__STRMAP_NONE;
        }
        if (last != SFT__STRMAP_NONE) {
            set->entries[last].next = i; /* never 0: another one came before */
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_lset_finish(sft_layout_set *set, sft_error *err) {
    for (size_t i = 0; i < set->count; i++) {
        sft__checkpoint_lset_entry *const e = &set->entries[i];
        if (set->limits.name_bytes != 0 && e->name_len > set->limits.name_bytes) {
            return sft__base_fail(err, SFT_E_LIMIT, "layout: name of %llu bytes",
                                  (unsigned long long)e->name_len);
        }
        SFT_TRY(describe(set, e, err));
        SFT_TRY(make_layouts(set, e, err));
    }
    return index_names(set, err);
}

/* ---------------------------------------------------------------- names */

/* Components apart by dots; "*" is one of digits. */
static bool same_module(const char *module, size_t module_len, const char *name, size_t len) {
    size_t i = 0;
    size_t k = 0;
    while (i < module_len && k < len) {
        if (module[i] == '*' && name[k] >= '0' && name[k] <= '9') {
            i++;
            while (k < len && name[k] >= '0' && name[k] <= '9') {
                k++;
            }
        } else if (module[i++] != name[k++]) {
            return false;
        }
    }
    return i == module_len && k == len;
}

/* The name's bytes against a module of a plan. */
static bool module_of(const char *module, size_t module_len, const char *name, size_t len,
                      bool parent) {
    if (parent) { /* without its last component */
        while (len > 0 && name[len - 1] != '.') {
            len--;
        }
        if (len == 0) {
            return false;
        }
        len--;
    }
    for (size_t from = 0; from < len; from++) {
        if ((from == 0 || name[from - 1] == '.') &&
            same_module(module, module_len, name + from, len - from)) {
            return true;
        }
    }
    return false;
}

/* parent: also modules that the tensor is a parameter of. What names the parameter itself goes
 * before that. */
static bool matches(const sft__checkpoint_lset_entry *e, const sft_tensor *t, bool parent) {
    if (e->match == SFT_LAYOUT_MATCH_PATTERN) {
        return !parent && sft_glob_match(e->name, e->name_len, t->name, t->name_len) != 0;
    }
    return module_of(e->name, e->name_len, t->name, t->name_len, parent);
}

/* ---------------------------------------------------------------- finding */

static bool is_bias(const sft_tensor *t) {
    static const char end[] = "bias";
    const size_t n = sizeof end - 1;
    return t->name_len >= n && memcmp(t->name + t->name_len - n, end, n) == 0 &&
           (t->name_len == n || t->name[t->name_len - n - 1] == '.');
}

const sft_layout *sft__checkpoint_lset_layout(const sft__checkpoint_lset_entry *e,
                                              const sft_tensor *t) {
    if (e->kind < SFT__LSET_PLACEMENTS) {
        return e->layout_count != 0 ? e->layouts[0] : NULL;
    }
    if (t->rank >= SFT__LSET_DIMS) {
        return NULL;
    }
    return e->layouts[(e->kind == SFT__LSET_STYLE && is_bias(t) ? SFT__LSET_DIMS : 0) + t->rank];
}

/* Keeps the first that the tensor belongs to; true: the rank is of its mesh, no need to look
 * further. */
static bool consider(const sft__checkpoint_lset_entry *e, const sft_tensor *t, uint64_t rank,
                     const sft__checkpoint_lset_entry **best) {
    const sft_layout *const layout = sft__checkpoint_lset_layout(e, t);
    if (e->kind == SFT__LSET_WHOLE || (layout != NULL && sft_layout_holds(layout, rank))) {
        *best = e;
        return true;
    }
    if (*best == NULL) {
        *best = e;
    }
    return false;
}

const sft__checkpoint_lset_entry *
sft__checkpoint_lset_entry_of(const sft_layout_set *set, const sft_tensor *t, uint64_t rank) {
    const sft__checkpoint_lset_entry *best = NULL;
    size_t at = sft__base_strmap_find(&set->map, t->name, t->name_len);
    if (at != SFT__STRMAP_NONE) {
        do {
            if (consider(&set->entries[at], t, rank, &best)) {
                return best;
            }
            at = set->entries[at].next;
        } while (at != 0);
        return best;
    }
    for (int parent = 0; parent < 2 && best == NULL; parent++) {
        for (size_t i = 0; i < set->loose_count; i++) {
            const sft__checkpoint_lset_entry *const e = &set->entries[set->loose[i]];
            if (matches(e, t, parent != 0) && consider(e, t, rank, &best)) {
                return best;
            }
        }
    }
    return best;
}

static sft_status no_layout(const sft__checkpoint_lset_entry *e, const sft_tensor *t,
                            sft_error *err) {
    return sft__base_fail_tensor(err, SFT_E_SHAPE, SFT_NO_OFFSET, t->name, t->name_len,
                                 "no layout of %u dimensions can be had from \"%s\"",
                                 (unsigned)t->rank, e->cut_text);
}

static void copy_shape(uint64_t *to, const uint64_t *from, size_t dims) {
    for (size_t d = 0; d < dims; d++) {
        to[d] = from[d];
    }
}

/* The global shape multiplied back from a part, where every rank's part tells it. */
static sft_status unfold(const sft_layout *layout, const sft_tensor *t, uint64_t *shape,
                         sft_error *err) {
    for (size_t d = 0; d < layout->dims; d++) {
        const sft__layout_dim_cut *const cut = &layout->cuts[d];
        bool ok = true;
        uint64_t n = 0;
        if (cut->split == SFT__SPLIT_SIZES) {
            for (uint64_t i = 0; i < cut->parts; i++) {
                ok = ok && sft__base_add64(n, cut->sizes[i], &n);
            }
        } else if (cut->blocks != NULL) {
            for (size_t i = 0; i < cut->block_count; i++) {
                ok = ok && sft__base_add64(n, cut->blocks[i], &n);
            }
        } else if (cut->split == SFT__SPLIT_EVEN || cut->parts == 1) {
            ok = sft__base_mul64(t->shape[d], cut->parts, &n);
        } else {
            return sft__base_fail_tensor(
                err, SFT_E_SHAPE, SFT_NO_OFFSET, t->name, t->name_len,
                "the global size of dimension %u is not known: its parts may be uneven",
                (unsigned)d);
        }
        if (!ok) {
            return sft__base_fail_tensor(err, SFT_E_OVERFLOW, SFT_NO_OFFSET, t->name, t->name_len,
                                         "size of the global tensor overflows 64 bits");
        }
        shape[d] = n;
    }
    return SFT_OK;
}

/* A shape that the file tells, or that was learnt. */
static const uint64_t *known_shape(const sft_layout_set *set, const sft__checkpoint_lset_entry *e,
                                   const sft_tensor *t, size_t *dims) {
    if (e->shape != NULL) {
        *dims = e->dims;
        return e->shape;
    }
    const size_t at = set->shape_count != 0
                          ? sft__base_strmap_find(&set->shape_map, t->name, t->name_len)
                          : SFT__STRMAP_NONE;
    if (at == SFT__STRMAP_NONE) {
        return NULL;
    }
    *dims = set->shapes[at].dims;
    return set->shapes[at].shape;
}

sft_status sft__checkpoint_lset_find_part(void *set_pointer, const sft_tensor *tensor,
                                          uint64_t rank, const sft_layout **layout, uint64_t *shape,
                                          size_t *dims, sft_error *err) {
    const sft_layout_set *const set = set_pointer;
    size_t known_dims = 0;
    *layout = NULL;
    if (set->ms != NULL) {
        return sft__checkpoint_ms_layouts_find_part(set->ms, tensor, rank, layout, shape, dims,
                                                    err);
    }
    SFT_TRY(sft__checkpoint_lset_bound(set, err));
    const sft__checkpoint_lset_entry *const e = sft__checkpoint_lset_entry_of(set, tensor, rank);
    if (e == NULL || e->kind == SFT__LSET_WHOLE) {
        return SFT_OK;
    }
    const sft_layout *const found = sft__checkpoint_lset_layout(e, tensor);
    const uint64_t *const known = known_shape(set, e, tensor, &known_dims);
    const bool flat = found != NULL && sft_layout_is_flat(found);
    if (found == NULL || (!flat && sft__layout_dims(found) != tensor->rank) ||
        (known != NULL && !flat && known_dims != tensor->rank)) {
        return no_layout(e, tensor, err);
    }
    if (known != NULL) {
        copy_shape(shape, known, known_dims);
        *dims = known_dims;
    } else if (flat) {
        return sft__base_fail_tensor(err, SFT_E_SHAPE, SFT_NO_OFFSET, tensor->name,
                                     tensor->name_len,
                                     "a flat range, and the layout does not tell the global shape");
    } else {
        SFT_TRY(unfold(found, tensor, shape, err));
        *dims = tensor->rank;
    }
    *layout = found;
    return SFT_OK;
}

sft_status sft_layout_set_find_global(void *set_pointer, const sft_tensor *tensor, uint64_t rank,
                                      const sft_layout **layout, uint64_t *shape, size_t *dims,
                                      sft_error *err) {
    const sft_layout_set *const set = set_pointer;
    *layout = NULL;
    if (set->ms != NULL) {
        return sft__checkpoint_ms_layouts_find_global(set->ms, tensor, rank, layout, shape, dims,
                                                      err);
    }
    SFT_TRY(sft__checkpoint_lset_bound(set, err));
    const sft__checkpoint_lset_entry *const e = sft__checkpoint_lset_entry_of(set, tensor, rank);
    if (e == NULL || e->kind == SFT__LSET_WHOLE) {
        return SFT_OK;
    }
    const sft_layout *const found = sft__checkpoint_lset_layout(e, tensor);
    if (found == NULL || (!sft_layout_is_flat(found) && sft__layout_dims(found) != tensor->rank)) {
        return no_layout(e, tensor, err);
    }
    if (e->unsure && sft_layout_holds(found, rank)) {
        return sft__base_fail_tensor(err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, tensor->name,
                                     tensor->name_len,
                                     "whether the last stage has it, too, is not known: what it "
                                     "had is not there, and nothing says tie_word_embeddings: the "
                                     "model's config.json is needed");
    }
    if (e->shape != NULL && (e->dims != tensor->rank ||
                             memcmp(e->shape, tensor->shape, e->dims * sizeof *e->shape) != 0)) {
        return sft__base_fail_tensor(err, SFT_E_SHAPE, SFT_NO_OFFSET, tensor->name,
                                     tensor->name_len,
                                     "the layout is for a tensor of another shape");
    }
    *layout = found;
    return SFT_OK;
}

/* ---------------------------------------------------------------- questions */

sft_status sft__checkpoint_lset_bound(const sft_layout_set *set, sft_error *err) {
    return set->parallel == NULL || set->bound
               ? SFT_OK
               : sft__base_fail(err, SFT_E_ARG,
                                "a layout of numbers alone says nothing of tensors before it is "
                                "made for a model (sft_layout_set_bind)");
}

sft_layout_form sft_layout_set_form(const sft_layout_set *set) {
    return set->form;
}

uint64_t sft_layout_set_ranks(const sft_layout_set *set) {
    return set->ranks;
}

size_t sft_layout_set_count(const sft_layout_set *set) {
    return set->count;
}

sft_status sft_layout_set_at(const sft_layout_set *set, size_t index, sft_layout_entry *entry,
                             sft_error *err) {
    sft_layout_entry full;
    if (index >= set->count) {
        return sft__base_fail(err, SFT_E_RANGE, "entry %llu of %llu", (unsigned long long)index,
                              (unsigned long long)set->count);
    }
    if (entry->struct_size < SFT__UP_TO(sft_layout_entry, name)) {
        return sft__base_fail(err, SFT_E_ARG, "entry without struct_size: use SFT_INIT");
    }
    const sft__checkpoint_lset_entry *const e = &set->entries[index];
    SFT_INIT(&full);
    full.name = e->name;
    full.name_len = e->name_len;
    full.match = (uint32_t)e->match;
    full.has_shape = e->shape != NULL;
    full.shape = e->shape;
    full.layout = e->layout_count == 1 ? e->layouts[0] : NULL;
    full.dims = e->dims;
    full.mesh =
        e->kind == SFT__LSET_WHOLE || e->kind == SFT__LSET_BOXES ? "" : set->meshes[e->mesh].text;
    full.cut = e->cut_text;
    sft__base_result_write(entry, &full, sizeof full);
    return SFT_OK;
}
