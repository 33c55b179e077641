/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_read.c - our own JSON form of a layout set, as docs/layout.md describes it:
 *
 *   FILE  = {"format": "safetensors-layout", "version": 1, "mesh": MESH, "meshes": {NAME: MESH, ...},
 *            "tensors": [ENTRY, ...]}
 *   MESH  = {"axes": {NAME: SIZE, ...}, "first_rank": R, "ranks": [R, ...]}
 *   ENTRY = {"name" | "pattern" | "module": TEXT, "mesh": NAME, "shape": [...], and one of
 *            "whole": true, "placements": TEXT, "spec": TEXT, "style": TEXT, "cuts": [CUT, ...],
 *            "flat": {"by": BY, "align": N}, "boxes": [{"rank": R, "start": [...], "count": [...]}, ...]}
 *   CUT   = null | BY | {"by": BY, "split": RULE, "sizes": [...], "blocks": N | [...]}
 *   BY    = AXIS | [AXIS | {"axis": AXIS, "divisor": N, "size": N}, ...]
 *
 * Read checkpoint/layouts/layout_set.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"

static sft_status fault(const sft__layout_jnode *at, const char *what, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at->offset, "layout: %s", what);
}

static bool is(const sft__layout_jnode *node, sft__layout_jtype type) {
    return node != NULL && node->type == type;
}

static bool key_is(const sft__layout_jnode *m, const char *key) {
    return strlen(key) == m->key_len && memcmp(key, m->key, m->key_len) == 0;
}

/* A C text: no NUL inside, which our functions would take for the end. */
static bool is_text(const sft__layout_jnode *node) {
    return is(node, SFT__J_STRING) && strlen(node->text) == node->len;
}

static bool take_u64(const sft__layout_jnode *node, uint64_t *out) {
    int64_t v;
    if (!sft__layout_jtree_int(node, &v) || v < 0) {
        return false;
    }
    *out = (uint64_t)v;
    return true;
}

sft_status sft__checkpoint_lset_numbers(sft_layout_set *set, const sft__layout_jnode *list,
                                        const uint64_t **out, size_t *count, sft_error *err) {
    uint64_t *numbers;
    size_t n = 0;
    if (!is(list, SFT__J_ARRAY)) {
        return fault(list, "expected a list of integers", err);
    }
    SFT_TRY(sft__checkpoint_lset_take(set, &numbers, list->len, sizeof *numbers, err));
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next) {
        if (!take_u64(m, &numbers[n++])) {
            return fault(m, "expected an integer of 0 or more", err);
        }
    }
    *out = numbers;
    *count = n;
    return SFT_OK;
}

static sft_status unknown_member(const sft__layout_jnode *m, sft_error *err) {
    char key[64];
    (void)sft_escape(key, sizeof key, m->key, m->key_len);
    return sft__base_fail_at(err, SFT_E_SCHEMA, m->offset, "layout: unknown member \"%s\"", key);
}

/* ---------------------------------------------------------------- meshes */

static sft_status read_axes(sft_layout_set *set, sft__checkpoint_lset_mesh *mesh,
                            const sft__layout_jnode *axes, sft_error *err) {
    const char **names;
    uint64_t *sizes;
    size_t n = 0;
    if (!is(axes, SFT__J_OBJECT)) {
        return fault(axes, "expected an object of axes and their sizes", err);
    }
    if (axes->len > SFT__LAYOUT_AXES) {
        return sft__base_fail_at(err, SFT_E_LIMIT, axes->offset,
                                 "layout: mesh of more than %u axes", SFT__LAYOUT_AXES);
    }
    SFT_TRY(sft__checkpoint_lset_take(set, &names, axes->len, sizeof *names, err));
    SFT_TRY(sft__checkpoint_lset_take(set, &sizes, axes->len, sizeof *sizes, err));
    for (const sft__layout_jnode *m = axes->first; m != NULL; m = m->next, n++) {
        if (!take_u64(m, &sizes[n]) || strlen(m->key) != m->key_len) {
            return fault(m, "expected the size of an axis", err);
        }
        names[n] = m->key;
    }
    mesh->mesh.axes = sizes;
    mesh->mesh.axis_count = n;
    mesh->mesh.axis_names = names;
    return SFT_OK;
}

static sft_status read_mesh(sft_layout_set *set, const sft__layout_jnode *node, const char *name,
                            size_t name_len, sft_error *err) {
    sft__checkpoint_lset_mesh *mesh;
    size_t ranks = 0;
    if (!is(node, SFT__J_OBJECT)) {
        return fault(node, "expected a mesh", err);
    }
    SFT_TRY(sft__checkpoint_lset_add_mesh(set, &mesh, err));
    mesh->name = name;
    mesh->name_len = name_len;
    for (const sft__layout_jnode *m = node->first; m != NULL; m = m->next) {
        if (key_is(m, "axes")) {
            SFT_TRY(read_axes(set, mesh, m, err));
        } else if (key_is(m, "first_rank")) {
            if (!take_u64(m, &mesh->mesh.first_rank)) {
                return fault(m, "expected a rank", err);
            }
        } else if (key_is(m, "ranks")) {
            SFT_TRY(sft__checkpoint_lset_numbers(set, m, &mesh->mesh.ranks, &ranks, err));
        } else {
            return unknown_member(m, err);
        }
    }
    if (mesh->mesh.axis_names == NULL) {
        return fault(node, "mesh without axes", err);
    }
    uint64_t devices = 1;
    for (size_t i = 0; i < mesh->mesh.axis_count && devices <= ranks; i++) {
        devices = mesh->mesh.axes[i] != 0 && devices > UINT64_MAX / mesh->mesh.axes[i]
                      ? UINT64_MAX
                      : devices * mesh->mesh.axes[i];
    }
    if (mesh->mesh.ranks != NULL && devices != ranks) {
        return fault(node, "as many ranks as the mesh has devices are needed", err);
    }
    return sft__checkpoint_lset_mesh_done(set, mesh, node->offset, err);
}

static sft_status find_mesh(const sft_layout_set *set, const sft__layout_jnode *entry,
                            size_t *index, sft_error *err) {
    const sft__layout_jnode *const name = sft__layout_jtree_get(entry, "mesh");
    const char *const text = name != NULL && is(name, SFT__J_STRING) ? name->text : "";
    const size_t len = name != NULL && is(name, SFT__J_STRING) ? name->len : 0;
    if (name != NULL && !is(name, SFT__J_STRING)) {
        return fault(name, "expected the name of a mesh", err);
    }
    *index = sft__base_strmap_find(&set->mesh_map, text, len);
    if (*index != SFT__STRMAP_NONE) {
        return SFT_OK;
    }
    return fault(name != NULL ? name : entry, "there is no such mesh", err);
}

/* ---------------------------------------------------------------- cuts */

static sft_status read_axis(const sft__checkpoint_lset_mesh *mesh, const sft__layout_jnode *node,
                            uint32_t *axis, sft_error *err) {
    for (uint32_t i = 0; is_text(node) && i < mesh->mesh.axis_count; i++) {
        if (strcmp(mesh->mesh.axis_names[i], node->text) == 0) {
            *axis = i;
            return SFT_OK;
        }
    }
    return fault(node, "expected the name of an axis of the mesh", err);
}

static sft_status read_factor(const sft__checkpoint_lset_mesh *mesh, const sft__layout_jnode *node,
                              sft__layout_factor *f, sft_error *err) {
    if (!is(node, SFT__J_OBJECT)) {
        return read_axis(mesh, node, &f->axis, err);
    }
    const sft__layout_jnode *const axis = sft__layout_jtree_get(node, "axis");
    SFT_TRY(read_axis(mesh, axis != NULL ? axis : node, &f->axis, err));
    for (const sft__layout_jnode *m = node->first; m != NULL; m = m->next) {
        if (key_is(m, "axis")) {
            continue;
        }
        if (!key_is(m, "divisor") && !key_is(m, "size")) {
            return unknown_member(m, err);
        }
        if (!take_u64(m, key_is(m, "size") ? &f->size : &f->divisor)) {
            return fault(m, "expected an integer", err);
        }
    }
    return SFT_OK;
}

static sft_status read_by(sft_layout_set *set, size_t mesh, const sft__layout_jnode *node,
                          sft__layout_cut *cut, sft_error *err) {
    const bool many = is(node, SFT__J_ARRAY);
    sft__layout_factor *factors;
    size_t n = 0;
    SFT_TRY(sft__checkpoint_lset_take(set, &factors, many ? node->len : 1, sizeof *factors, err));
    if (!many) {
        SFT_TRY(read_factor(&set->meshes[mesh], node, &factors[n++], err));
    }
    for (const sft__layout_jnode *m = many ? node->first : NULL; m != NULL; m = m->next) {
        SFT_TRY(read_factor(&set->meshes[mesh], m, &factors[n++], err));
    }
    cut->factors = factors;
    cut->factor_count = n;
    return SFT_OK;
}

static sft_status read_split(const sft__layout_jnode *node, sft__layout_split *split,
                             sft_error *err) {
    static const char *const rules[] = {"even", "chunk", "balanced", "sizes"};
    for (int i = 0; is_text(node) && i < 4; i++) {
        if (strcmp(rules[i], node->text) == 0) {
            *split = (sft__layout_split)i;
            return SFT_OK;
        }
    }
    return fault(node, "expected \"even\", \"chunk\", \"balanced\" or \"sizes\"", err);
}

static sft_status read_cut(sft_layout_set *set, size_t mesh, const sft__layout_jnode *node,
                           sft__layout_cut *cut, sft_error *err) {
    if (node->type == SFT__J_NULL) {
        return SFT_OK;
    }
    if (node->type != SFT__J_OBJECT) {
        return read_by(set, mesh, node, cut, err);
    }
    for (const sft__layout_jnode *m = node->first; m != NULL; m = m->next) {
        if (key_is(m, "by")) {
            SFT_TRY(read_by(set, mesh, m, cut, err));
        } else if (key_is(m, "split")) {
            SFT_TRY(read_split(m, &cut->split, err));
        } else if (key_is(m, "sizes")) {
            SFT_TRY(sft__checkpoint_lset_numbers(set, m, &cut->sizes, &cut->size_count, err));
            cut->split = SFT__SPLIT_SIZES;
        } else if (key_is(m, "blocks") && is(m, SFT__J_ARRAY)) {
            SFT_TRY(sft__checkpoint_lset_numbers(set, m, &cut->blocks, &cut->block_count, err));
            cut->blocks = cut->block_count != 0 ? cut->blocks : NULL;
        } else if (key_is(m, "blocks")) {
            if (!take_u64(m, &cut->block_parts)) {
                return fault(m, "expected a number or a list of blocks", err);
            }
        } else {
            return unknown_member(m, err);
        }
    }
    return SFT_OK;
}

static sft_status read_cuts(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                            const sft__layout_jnode *list, sft_error *err) {
    sft__layout_cut *cuts;
    size_t n = 0;
    if (!is(list, SFT__J_ARRAY) || list->len > SFT_LAYOUT_RANK) {
        return fault(list, "expected a list with one cut per dimension", err);
    }
    SFT_TRY(sft__checkpoint_lset_take(set, &cuts, list->len, sizeof *cuts, err));
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next) {
        SFT_TRY(read_cut(set, e->mesh, m, &cuts[n++], err));
    }
    if (e->shape != NULL && e->dims != n) {
        return fault(list, "shape and cuts differ in length", err);
    }
    e->kind = SFT__LSET_CUTS;
    e->cuts = cuts;
    e->dims = n;
    return SFT_OK;
}

static sft_status read_flat(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                            const sft__layout_jnode *node, sft_error *err) {
    if (!is(node, SFT__J_OBJECT)) {
        return fault(node, "expected {\"by\": ...}", err);
    }
    for (const sft__layout_jnode *m = node->first; m != NULL; m = m->next) {
        if (key_is(m, "by")) {
            SFT_TRY(read_by(set, e->mesh, m, &e->flat, err));
        } else if (key_is(m, "align")) {
            if (!take_u64(m, &e->align)) {
                return fault(m, "expected an integer", err);
            }
        } else {
            return unknown_member(m, err);
        }
    }
    e->kind = SFT__LSET_FLAT;
    return SFT_OK;
}

/* ---------------------------------------------------------------- boxes */

static sft_status read_box(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                           const sft__layout_jnode *node, uint64_t *rank, uint64_t *box,
                           sft_error *err) {
    const sft__layout_jnode *const start = sft__layout_jtree_get(node, "start");
    const sft__layout_jnode *const count = sft__layout_jtree_get(node, "count");
    const uint64_t *from, *extent;
    size_t from_len, extent_len;
    if (!is(node, SFT__J_OBJECT) || start == NULL || count == NULL ||
        sft__layout_jtree_get(node, "rank") == NULL ||
        !take_u64(sft__layout_jtree_get(node, "rank"), rank)) {
        return fault(node, "a box needs rank, start and count", err);
    }
    SFT_TRY(sft__checkpoint_lset_numbers(set, start, &from, &from_len, err));
    SFT_TRY(sft__checkpoint_lset_numbers(set, count, &extent, &extent_len, err));
    if (from_len != e->dims || extent_len != e->dims) {
        return fault(node, "boxes of one tensor differ in their dimensions", err);
    }
    for (size_t d = 0; d < e->dims; d++) {
        box[d] = from[d];
        box[e->dims + d] = extent[d];
    }
    return SFT_OK;
}

/* A shape that the file does not tell is where the boxes end. */
static sft_status reach(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                        const sft__layout_jnode *at, sft_error *err) {
    uint64_t *shape;
    if (e->shape != NULL) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_lset_take(set, &shape, e->dims, sizeof *shape, err));
    for (size_t i = 0; i < e->box_count; i++) {
        const uint64_t *const box = e->boxes + i * 2 * e->dims;
        for (size_t d = 0; d < e->dims; d++) {
            if (box[d] > UINT64_MAX - box[e->dims + d]) {
                return fault(at, "a box ends beyond 2^64", err);
            }
            if (box[d] + box[e->dims + d] > shape[d]) {
                shape[d] = box[d] + box[e->dims + d];
            }
        }
    }
    e->shape = shape;
    return SFT_OK;
}

static sft_status read_boxes(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                             const sft__layout_jnode *list, sft_error *err) {
    const sft__layout_jnode *const first =
        is(list, SFT__J_ARRAY) ? sft__layout_jtree_get(list->first, "start") : NULL;
    uint64_t *ranks;
    uint64_t *boxes;
    size_t n = 0;
    if (!is(first, SFT__J_ARRAY) || first->len > SFT_LAYOUT_RANK) {
        return fault(list, "expected a list of boxes", err);
    }
    if (e->shape != NULL && e->dims != first->len) {
        return fault(list, "shape and boxes differ in their dimensions", err);
    }
    e->kind = SFT__LSET_BOXES;
    e->dims = first->len;
    SFT_TRY(sft__checkpoint_lset_take(set, &ranks, list->len, sizeof *ranks, err));
    /* cannot overflow: e->dims <= SFT_LAYOUT_RANK */
    SFT_TRY(
        sft__checkpoint_lset_take(set, &boxes, list->len, (2 * e->dims + 1) * sizeof *boxes, err));
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next, n++) {
        SFT_TRY(read_box(set, e, m, &ranks[n], boxes + n * 2 * e->dims, err));
    }
    e->ranks = ranks;
    e->boxes = boxes;
    e->box_count = n;
    return reach(set, e, list, err);
}

/* ---------------------------------------------------------------- entries */

static sft_status read_match(sft__checkpoint_lset_entry *e, const sft__layout_jnode *node,
                             sft_error *err) {
    static const char *const keys[] = {"name", "pattern", "module"};
    size_t found = 0;
    for (int i = 0; i < 3; i++) {
        const sft__layout_jnode *const m = sft__layout_jtree_get(node, keys[i]);
        if (m == NULL) {
            continue;
        }
        if (!is(m, SFT__J_STRING) || (i != 0 && !is_text(m))) {
            return fault(m, "expected a name", err);
        }
        found++;
        e->match = (sft_layout_match)i;
        e->name = m->text;
        e->name_len = m->len;
    }
    return found == 1 ? SFT_OK : fault(node, "one of name, pattern and module is needed", err);
}

/* Which of the ways of telling a cut the member is; -1: none of them. */
static int kind_of(const sft__layout_jnode *m) {
    static const char *const keys[] = {"whole",      "cuts", "flat", "boxes",
                                       "placements", "spec", "style"};
    for (int i = 0; i < 7; i++) {
        if (key_is(m, keys[i])) {
            return i;
        }
    }
    return -1;
}

static sft_status read_kind(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                            const sft__layout_jnode *m, sft_error *err) {
    const int kind = kind_of(m);
    if (kind == SFT__LSET_WHOLE) {
        return is(m, SFT__J_BOOL) && m->value != 0 ? SFT_OK : fault(m, "expected true", err);
    }
    if (kind == SFT__LSET_CUTS) {
        return read_cuts(set, e, m, err);
    }
    if (kind == SFT__LSET_FLAT) {
        return read_flat(set, e, m, err);
    }
    if (kind == SFT__LSET_BOXES) {
        return read_boxes(set, e, m, err);
    }
    if (!is_text(m)) {
        return fault(m, "expected a text", err);
    }
    e->kind = (sft__checkpoint_lset_kind)kind;
    e->text = m->text;
    return SFT_OK;
}

static sft_status read_entry(sft_layout_set *set, const sft__layout_jnode *node, sft_error *err) {
    const sft__layout_jnode *kind = NULL;
    sft__checkpoint_lset_entry *e;
    if (!is(node, SFT__J_OBJECT)) {
        return fault(node, "expected an entry", err);
    }
    SFT_TRY(sft__checkpoint_lset_add(set, &e, err));
    SFT_TRY(read_match(e, node, err));
    for (const sft__layout_jnode *m = node->first; m != NULL; m = m->next) {
        if (kind_of(m) >= 0) {
            if (kind != NULL) {
                return fault(m, "an entry is cut in one way only", err);
            }
            kind = m;
        } else if (key_is(m, "shape")) {
            SFT_TRY(sft__checkpoint_lset_numbers(set, m, &e->shape, &e->dims, err));
            if (e->dims > SFT_LAYOUT_RANK) {
                return fault(m, "too many dimensions", err);
            }
        } else if (!key_is(m, "name") && !key_is(m, "pattern") && !key_is(m, "module") &&
                   !key_is(m, "mesh")) {
            return unknown_member(m, err);
        }
    }
    if (kind == NULL) {
        return fault(node,
                     "an entry needs one of whole, cuts, flat, boxes, placements, spec and style",
                     err);
    }
    const sft__layout_jnode *const mesh = sft__layout_jtree_get(node, "mesh");
    if (kind_of(kind) == SFT__LSET_WHOLE && mesh != NULL) {
        return fault(mesh, "whole is on every rank; on those of one mesh: cuts of nulls", err);
    }
    if (kind_of(kind) == SFT__LSET_BOXES && mesh != NULL) {
        return fault(mesh, "boxes name their ranks, and have no mesh", err);
    }
    if (kind_of(kind) != SFT__LSET_WHOLE && kind_of(kind) != SFT__LSET_BOXES) {
        SFT_TRY(find_mesh(set, node, &e->mesh, err));
    }
    return read_kind(set, e, kind, err);
}

sft_status sft__checkpoint_lset_read_own(sft_layout_set *set, const sft__layout_jnode *root,
                                         sft_error *err) {
    const sft__layout_jnode *const version = sft__layout_jtree_get(root, "version");
    const sft__layout_jnode *const tensors = sft__layout_jtree_get(root, "tensors");
    uint64_t number = 0;
    if (version == NULL || !take_u64(version, &number) || number != 1) {
        return fault(version != NULL ? version : root, "version 1 is needed", err);
    }
    if (!is(tensors, SFT__J_ARRAY)) {
        return fault(tensors != NULL ? tensors : root, "a list \"tensors\" is needed", err);
    }
    for (const sft__layout_jnode *m = root->first; m != NULL; m = m->next) {
        if (key_is(m, "mesh")) {
            SFT_TRY(read_mesh(set, m, "", 0, err));
        } else if (key_is(m, "meshes")) {
            if (!is(m, SFT__J_OBJECT)) {
                return fault(m, "expected an object of meshes", err);
            }
            for (const sft__layout_jnode *k = m->first; k != NULL; k = k->next) {
                if (k->key_len == 0) {
                    return fault(k, "a mesh without a name", err);
                }
                SFT_TRY(read_mesh(set, k, k->key, k->key_len, err));
            }
        } else if (!key_is(m, "format") && !key_is(m, "version") && !key_is(m, "tensors")) {
            return unknown_member(m, err);
        }
    }
    set->form = SFT_LAYOUT_FORM_OWN;
    SFT_NEED(sft__base_strmap_init(&set->mesh_map, set->meshes, sizeof *set->meshes,
                                   set->mesh_count, set->allocator),
             set->mesh_count * sizeof(uint64_t), err);
    for (size_t i = 0; i < set->mesh_count; i++) { /* of equal names the first counts */
        (void)sft__base_strmap_add(&set->mesh_map, i);
    }
    for (const sft__layout_jnode *m = tensors->first; m != NULL; m = m->next) {
        SFT_TRY(read_entry(set, m, err));
    }
    return SFT_OK;
}
