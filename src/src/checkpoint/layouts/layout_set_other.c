/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_other.c - layout sets out of what others write: MindSpore's strategies, the
 * topology.json of safetensors_distributed (explicit boxes by file, whose number is the rank), and
 * the tensor-parallel plans of transformers (modules and styles). Read checkpoint/layouts/layout_set.h
 * first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/layouts/layout_set.h"
#include "layout/layout.h"
#include "layout/strategy.h"

#define RECENT_MESHES                                                                              \
    64u /* looked through for an equal one: more only makes the written form longer */

static sft_status fault_of(const sft__layout_jnode *item, const char *what, sft_error *err) {
    return sft__base_fail_tensor(err, SFT_E_SCHEMA, item->offset, item->key, item->key_len,
                                 "layout: %s", what);
}

static bool is(const sft__layout_jnode *node, sft__layout_jtype type) {
    return node != NULL && node->type == type;
}

static bool take_u64(const sft__layout_jnode *node, uint64_t *out) {
    int64_t v;
    if (!sft__layout_jtree_int(node, &v) || v < 0) {
        return false;
    }
    *out = (uint64_t)v;
    return true;
}

/* ---------------------------------------------------------------- strategies */

static sft_status strategy_mesh(sft_layout_set *set, const sft__layout_ms_param *p,
                                const sft_layout *layout, size_t *index, sft_error *err) {
    sft__checkpoint_lset_mesh *m;
    const char **names;
    uint64_t *axes;
    const bool by_number = sft__layout_ms_ignores_axes(p);
    const size_t count = by_number ? 1 : p->axis_count;
    const size_t recent = set->mesh_count > RECENT_MESHES ? set->mesh_count - RECENT_MESHES : 0;
    SFT_TRY(sft__checkpoint_lset_take(set, &axes, count, sizeof *axes, err));
    for (size_t i = 0; i < count; i++) {
        axes[i] = by_number ? layout->devices : p->dev_matrix[i];
    }
    for (size_t i = set->mesh_count; i-- > recent;) {
        const sft__layout_mesh *const mesh = &set->meshes[i].mesh;
        if (mesh->axis_count == count && mesh->first_rank == layout->first_rank &&
            memcmp(mesh->axes, axes, count * sizeof *axes) == 0) {
            *index = i;
            return SFT_OK;
        }
    }
    SFT_TRY(sft__checkpoint_lset_add_mesh(set, &m, err));
    SFT_TRY(sft__checkpoint_lset_take(set, &names, count, sizeof *names, err));
    for (size_t i = 0; i < count; i++) { /* at most SFT__LAYOUT_AXES: the layout was made */
        const char text[3] = {'d', (char)(i < 10 ? '0' + i : '0' + i / 10), (char)('0' + i % 10)};
        SFT_TRY(sft__checkpoint_lset_copy(set, &names[i], text, i < 10 ? 2 : 3, err));
    }
    char number[24];
    size_t n = sizeof number;
    for (uint64_t v = set->mesh_count - 1, first = 1; first || v != 0; v /= 10, first = 0) {
        number[--n] = (char)('0' + v % 10);
    }
    number[--n] = 'm';
    SFT_TRY(sft__checkpoint_lset_copy(set, &m->name, number + n, sizeof number - n, err));
    m->name_len = sizeof number - n;
    m->axis_names = names;
    m->mesh.axes = axes;
    m->mesh.axis_count = count;
    m->mesh.first_rank = layout->first_rank;
    *index = set->mesh_count - 1;
    return sft__checkpoint_lset_mesh_done(set, m, SFT_NO_OFFSET, err);
}

/* The digit of a device number as a part of one axis: the axis whose steps it counts. */
static void find_axis(const sft__layout_mesh *mesh, const sft__layout_digit *digit,
                      sft__layout_factor *f) {
    uint64_t stride = 1;
    for (size_t i = mesh->axis_count; i-- > 0;) {
        if (digit->divisor < stride * mesh->axes[i] || i == 0) {
            f->axis = (uint32_t)i;
            f->divisor = digit->divisor / stride > 1 ? digit->divisor / stride : 0;
            f->size = digit->size == mesh->axes[i] ? 0 : digit->size;
            return;
        }
        stride *= mesh->axes[i]; /* at most 2^31 */
    }
}

static sft_status strategy_cuts(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                                const sft_layout *layout, const sft__layout_ms_param *p,
                                sft_error *err) {
    sft__layout_cut *cuts;
    SFT_TRY(sft__checkpoint_lset_take(set, &cuts, layout->dims, sizeof *cuts, err));
    for (size_t d = 0; d < layout->dims; d++) {
        const sft__layout_dim_cut *const from = &layout->cuts[d];
        sft__layout_factor *factors;
        SFT_TRY(sft__checkpoint_lset_take(set, &factors, from->digit_count, sizeof *factors, err));
        for (size_t i = 0; i < from->digit_count; i++) {
            find_axis(&set->meshes[e->mesh].mesh, &from->digits[i], &factors[i]);
            cuts[d].factor_count += from->digits[i].size > 1;
            if (from->digits[i].size > 1) {
                factors[cuts[d].factor_count - 1] = factors[i];
            }
        }
        cuts[d].factors = factors;
        if (from->split == SFT__SPLIT_SIZES) {
            cuts[d].split = SFT__SPLIT_SIZES;
            cuts[d].sizes = p->split_rows;
            cuts[d].size_count = p->split_count;
        }
    }
    e->kind = SFT__LSET_CUTS;
    e->cuts = cuts;
    e->dims = layout->dims;
    e->shape = p->shape;
    return SFT_OK;
}

static sft_status take_param(sft_layout_set *set, const sft__layout_ms_param *p, sft_error *err) {
    sft_layout *layout;
    sft__checkpoint_lset_entry *e;
    SFT_TRY(sft__layout_ms_layout(&layout, p, set->allocator, err));
    sft_status status = sft__checkpoint_lset_add(set, &e, err);
    if (status == SFT_OK) {
        e->name = p->name;
        e->name_len = p->name_len;
        status = strategy_mesh(set, p, layout, &e->mesh, err);
    }
    if (status == SFT_OK) {
        status = strategy_cuts(set, e, layout, p, err);
    }
    sft__layout_free(layout);
    return status;
}

sft_status sft__checkpoint_lset_take_strategy(sft_layout_set *set, sft_ms_strategy *strategy,
                                              sft_error *err) {
    set->strategy = strategy;
    set->form = SFT_LAYOUT_FORM_STRATEGY;
    for (size_t i = 0; i < sft__layout_ms_count(strategy); i++) {
        SFT_TRY(take_param(set, sft__layout_ms_at(strategy, i), err));
    }
    return sft__checkpoint_ms_layouts_create(&set->ms, strategy, set->allocator, err);
}

/* ---------------------------------------------------------------- topology.json */

static sft_status read_shape(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                             const sft__layout_jnode *item, sft_error *err) {
    const sft__layout_jnode *const shape = sft__layout_jtree_get(item, "shape");
    if (shape == NULL) {
        return fault_of(item, "tensor without a shape", err);
    }
    SFT_TRY(sft__checkpoint_lset_numbers(set, shape, &e->shape, &e->dims, err));
    return e->dims <= SFT_LAYOUT_RANK ? SFT_OK : fault_of(item, "too many dimensions", err);
}

static sft_status box_room(sft_layout_set *set, sft__checkpoint_lset_entry *e, size_t count,
                           uint64_t **ranks, uint64_t **boxes, sft_error *err) {
    SFT_TRY(sft__checkpoint_lset_take(set, ranks, count, sizeof **ranks, err));
    /* cannot overflow: e->dims <= SFT_LAYOUT_RANK */
    SFT_TRY(sft__checkpoint_lset_take(set, boxes, count, (2 * e->dims + 1) * sizeof **boxes, err));
    e->kind = SFT__LSET_BOXES;
    e->ranks = *ranks;
    e->boxes = *boxes;
    e->box_count = count;
    return SFT_OK;
}

/* The file's number, which must be one of the list's. */
static sft_status file_number(const sft__layout_jnode *item, const sft__layout_jnode *node,
                              uint64_t files, uint64_t *out, sft_error *err) {
    if (node == NULL || !take_u64(node, out) || *out >= files) {
        return fault_of(item, "filename_index outside the list of filenames", err);
    }
    return SFT_OK;
}

static sft_status read_chunks(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                              const sft__layout_jnode *item, const sft__layout_jnode *chunks,
                              uint64_t files, sft_error *err) {
    uint64_t *ranks;
    uint64_t *boxes;
    size_t n = 0;
    SFT_TRY(box_room(set, e, chunks->len, &ranks, &boxes, err));
    for (const sft__layout_jnode *m = chunks->first; m != NULL; m = m->next, n++) {
        const sft__layout_jnode *const offsets = sft__layout_jtree_get(m, "offsets");
        const sft__layout_jnode *const shape = sft__layout_jtree_get(m, "shape");
        const uint64_t *from, *extent;
        size_t from_len, extent_len;
        if (offsets == NULL || shape == NULL) {
            return fault_of(item, "chunk without offsets or shape", err);
        }
        SFT_TRY(
            file_number(item, sft__layout_jtree_get(m, "filename_index"), files, &ranks[n], err));
        SFT_TRY(sft__checkpoint_lset_numbers(set, offsets, &from, &from_len, err));
        SFT_TRY(sft__checkpoint_lset_numbers(set, shape, &extent, &extent_len, err));
        if (from_len != e->dims || extent_len != e->dims) {
            return fault_of(item, "chunk of other dimensions than the tensor", err);
        }
        for (size_t d = 0; d < e->dims; d++) {
            boxes[n * 2 * e->dims + d] = from[d];
            boxes[n * 2 * e->dims + e->dims + d] = extent[d];
        }
    }
    return SFT_OK;
}

/* Whole in the files that are listed. */
static sft_status read_shared(sft_layout_set *set, sft__checkpoint_lset_entry *e,
                              const sft__layout_jnode *item, const sft__layout_jnode *list,
                              uint64_t files, sft_error *err) {
    uint64_t *ranks;
    uint64_t *boxes;
    size_t n = 0;
    SFT_TRY(box_room(set, e, list->len, &ranks, &boxes, err));
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next, n++) {
        SFT_TRY(file_number(item, m, files, &ranks[n], err));
        for (size_t d = 0; d < e->dims; d++) {
            boxes[n * 2 * e->dims + e->dims + d] = e->shape[d];
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_lset_read_topology(sft_layout_set *set, const sft__layout_jnode *root,
                                              sft_error *err) {
    const sft__layout_jnode *const tensors = sft__layout_jtree_get(root, "tensors");
    const sft__layout_jnode *const files = sft__layout_jtree_get(root, "filenames");
    if (!is(tensors, SFT__J_OBJECT) || !is(files, SFT__J_ARRAY)) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, root->offset,
                                 "topology: tensors and filenames are needed");
    }
    set->form = SFT_LAYOUT_FORM_TOPOLOGY;
    for (const sft__layout_jnode *item = tensors->first; item != NULL; item = item->next) {
        const sft__layout_jnode *const chunks = sft__layout_jtree_get(item, "chunks");
        const sft__layout_jnode *const shared = sft__layout_jtree_get(item, "filename_indices");
        sft__checkpoint_lset_entry *e;
        SFT_TRY(sft__checkpoint_lset_add(set, &e, err));
        e->name = item->key;
        e->name_len = item->key_len;
        SFT_TRY(read_shape(set, e, item, err));
        if (is(chunks, SFT__J_ARRAY) && shared == NULL) {
            SFT_TRY(read_chunks(set, e, item, chunks, files->len, err));
        } else if (is(shared, SFT__J_ARRAY) && chunks == NULL) {
            SFT_TRY(read_shared(set, e, item, shared, files->len, err));
        } else {
            return fault_of(item, "either chunks or filename_indices are needed", err);
        }
    }
    if (files->len > set->ranks) {
        set->ranks = files->len;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- tensor-parallel plans */

static sft_status plan_mesh(sft_layout_set *set, uint64_t ranks, sft_error *err) {
    static const char *const names[] = {"tp"};
    sft__checkpoint_lset_mesh *m;
    uint64_t *axes;
    SFT_TRY(sft__checkpoint_lset_take(set, &axes, 1, sizeof *axes, err));
    axes[0] = ranks;
    SFT_TRY(sft__checkpoint_lset_add_mesh(set, &m, err));
    m->name = "";
    m->axis_names = names;
    m->mesh.axes = axes;
    m->mesh.axis_count = 1;
    return sft__checkpoint_lset_mesh_done(set, m, SFT_NO_OFFSET, err);
}

sft_status sft__checkpoint_lset_read_plan(sft_layout_set *set, const sft__layout_jnode *root,
                                          uint64_t ranks, sft_error *err) {
    const sft__layout_jnode *plan = sft__layout_jtree_get(root, "tp_plan");
    const sft__layout_jnode *const size = sft__layout_jtree_get(root, "tp_size");
    plan = is(plan, SFT__J_OBJECT) ? plan : sft__layout_jtree_get(root, "base_model_tp_plan");
    plan = is(plan, SFT__J_OBJECT) ? plan : root;
    if (is(size, SFT__J_NUMBER) && !take_u64(size, &ranks)) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, size->offset,
                                 "plan: tp_size is no number of ranks");
    }
    if (ranks == 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a tensor-parallel plan does not say how many ranks it is for: "
                              "the number is needed");
    }
    set->form = SFT_LAYOUT_FORM_PLAN;
    SFT_TRY(plan_mesh(set, ranks, err));
    for (const sft__layout_jnode *m = plan->first; m != NULL; m = m->next) {
        sft__checkpoint_lset_entry *e;
        if (!is(m, SFT__J_STRING) || strlen(m->text) != m->len || strlen(m->key) != m->key_len) {
            return fault_of(m, "expected the style of a module", err);
        }
        SFT_TRY(sft__checkpoint_lset_add(set, &e, err));
        e->name = m->key;
        e->name_len = m->key_len;
        e->match = SFT_LAYOUT_MATCH_MODULE;
        e->kind = SFT__LSET_STYLE;
        e->text = m->text;
    }
    return SFT_OK;
}
