/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_strategy.c - a layout set as MindSpore's strategy, as far as one can say it:
 * even cuts by whole axes, on meshes that follow one another as pipeline stages. Read
 * checkpoint/layouts/layout_set.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/layouts/layout_set.h"
#include <string.h>

typedef struct writing {
    const sft_layout_set *set;
    sft_ms_strategy *s;
    const sft__checkpoint_lset_entry *e; /* at hand */
    const sft__layout_mesh *mesh;
    sft_error *err;
} writing;

static sft_status cannot(const writing *w, const char *what) {
    return SFT_FAIL_TENSOR(w->err, SFT_E_UNSUPPORTED, w->e, "no strategy can say so: %s", what);
}

/* Memory of the strategy. */
static sft_status take(const writing *w, void *out, size_t count, size_t size) {
    size_t bytes;
    void *p = NULL;
    if (sft__base_mul_size(count, size, &bytes) && bytes < SIZE_MAX / 2) {
        p = sft__base_arena_alloc(&w->s->arena, bytes + 1, sizeof(uint64_t));
    }
    if (p == NULL) {
        return sft__layout_ms_nomem(w->s, count, w->err);
    }
    memset(p, 0, bytes + 1);
    memcpy(out, &p, sizeof p);
    return SFT_OK;
}

static bool is_whole_axis(const writing *w, const sft__layout_factor *f) {
    return f->divisor <= 1 && (f->size == 0 || f->size == w->mesh->axes[f->axis]);
}

static sft_status check_entry(const writing *w) {
    const sft__checkpoint_lset_entry *const e = w->e;
    if (e->match != SFT_LAYOUT_MATCH_NAME) {
        return cannot(w, "it has names, no patterns");
    }
    if (e->kind != SFT__LSET_CUTS) {
        return cannot(w, "it cuts dimensions by axes alone");
    }
    if (w->mesh->ranks != NULL) {
        return cannot(w, "its meshes have ranks one after the other");
    }
    for (size_t d = 0; d < e->dims; d++) {
        if (e->cuts[d].split != SFT__SPLIT_EVEN || e->cuts[d].block_count > 1 ||
            e->cuts[d].block_parts > 1) {
            return cannot(w, "parts are even, and of one block");
        }
        for (size_t i = 0; i < e->cuts[d].factor_count; i++) {
            if (!is_whole_axis(w, &e->cuts[d].factors[i])) {
                return cannot(w, "an axis is used as a whole");
            }
        }
    }
    return SFT_OK;
}

static bool is_used(const writing *w, uint32_t axis) {
    for (size_t d = 0; d < w->e->dims; d++) {
        const sft__layout_cut *const c = &w->e->cuts[d];
        for (size_t i = 0; i < (d == 0 && c->factor_count > 1 ? 1 : c->factor_count); i++) {
            if (c->factors[i].axis == axis) {
                return true;
            }
        }
    }
    return false;
}

/* Factors of dimension 0 behind the first: all axes that nothing else uses, in their order. That is what
 * MindSpore's optimizer sharding does. */
static sft_status take_optimizer(const writing *w, sft__layout_ms_param *p) {
    const sft__layout_cut *const c = &w->e->cuts[0];
    size_t n = 1;
    uint64_t size = 1;
    uint64_t step = 1;
    for (uint32_t axis = 0; axis < w->mesh->axis_count; axis++) {
        step *= w->mesh->axes[axis]; /* at most 2^31, as size */
        if (is_used(w, axis) || w->mesh->axes[axis] == 1) {
            continue;
        }
        if (n == c->factor_count || c->factors[n].axis != axis) {
            return cannot(w, "a second cut of dimension 0 is by all axes that are left");
        }
        size *= w->mesh->axes[axis];
        step = 1; /* of the axes to the right of this one */
        n++;
    }
    if (n != c->factor_count || size > INT32_MAX || step > INT32_MAX) {
        return cannot(w, "a second cut of dimension 0 is by all axes that are left");
    }
    p->opt_shard_size = (int32_t)size;
    p->opt_shard_step = (int32_t)step;
    return SFT_OK;
}

static sft_status take_map(const writing *w, sft__layout_ms_param *p) {
    const sft__checkpoint_lset_entry *const e = w->e;
    uint64_t *list = NULL;
    size_t *begin = NULL;
    SFT_TRY(take(w, &list, e->dims, sizeof *list));
    SFT_TRY(take(w, &begin, e->dims + 1, sizeof *begin));
    for (size_t d = 0; d < e->dims; d++) {
        const sft__layout_cut *const c = &e->cuts[d];
        if (c->factor_count > 1 && d != 0) {
            return cannot(w, "one axis cuts a dimension");
        }
        list[d] = c->factor_count == 0 ? UINT64_MAX : w->mesh->axis_count - 1 - c->factors[0].axis;
        begin[d + 1] = d + 1;
    }
    SFT_TRY(sft__layout_ms_set_map(w->s, p, &(sft__layout_ms_map){list, begin, e->dims},
                                   SFT_NO_OFFSET, w->err));
    return e->dims != 0 && e->cuts[0].factor_count > 1 ? take_optimizer(w, p) : SFT_OK;
}

/* "3-name" where there are stages. */
static sft_status take_name(const writing *w, sft__layout_ms_param *p, uint64_t stage) {
    char digits[24];
    size_t n = sizeof digits;
    char *name = NULL;
    if (w->s->merged) {
        digits[--n] = '-';
        for (uint64_t first = 1; first || stage != 0; stage /= 10, first = 0) {
            digits[--n] = (char)('0' + stage % 10);
        }
    }
    const size_t width = sizeof digits - n;
    SFT_TRY(take(w, &name, width + w->e->name_len, 1)); /* and a NUL */
    memcpy(name, digits + n, width);
    memcpy(name + width, w->e->name, w->e->name_len);
    p->name = name;
    p->name_len = width + w->e->name_len;
    return SFT_OK;
}

static sft_status take_entry(const writing *w, uint64_t devices) {
    sft__layout_ms_entry *e;
    uint64_t *axes = NULL;
    uint64_t *shape = NULL;
    SFT_TRY(check_entry(w));
    const sft__checkpoint_lset_mesh *const m = &w->set->meshes[w->e->mesh];
    if (m->devices != devices || m->mesh.first_rank % devices != 0) {
        return cannot(w, "stages are of equally many ranks");
    }
    SFT_TRY(sft__layout_ms_add(w->s, &e, w->err));
    SFT_TRY(take(w, &axes, m->mesh.axis_count, sizeof *axes));
    memcpy(axes, m->mesh.axes, m->mesh.axis_count * sizeof *axes);
    e->param.dev_matrix = axes;
    e->param.axis_count = m->mesh.axis_count;
    if (w->e->shape != NULL) {
        SFT_TRY(take(w, &shape, w->e->dims, sizeof *shape));
        memcpy(shape, w->e->shape, w->e->dims * sizeof *shape);
    }
    e->param.shape = shape;
    SFT_TRY(take_name(w, &e->param, m->mesh.first_rank / devices));
    return take_map(w, &e->param);
}

/* What is whole everywhere is not named: so MindSpore does with steps and rates. */
static bool is_wanted(const sft__checkpoint_lset_entry *e) {
    return e->kind != SFT__LSET_WHOLE && !e->trimmed;
}

/* An operator that says nothing: MindSpore takes a file without any for an empty one, and the stage of a
 * file from its first. */
static sft_status add_operator(const writing *w) {
    static const char name[] = "Layout-op0";
    sft__layout_ms_node *n;
    uint64_t *numbers = NULL;
    size_t *begin = NULL;
    SFT_TRY(take(w, &numbers, 1, sizeof *numbers));
    SFT_TRY(take(w, &begin, 2, sizeof *begin));
    numbers[0] = 1;
    begin[1] = 1;
    SFT_TRY(sft__layout_ms_add_node(w->s, &n, w->err));
    n->name = name;
    n->name_len = sizeof name - 1;
    n->numbers = numbers;
    n->begin = begin;
    n->count = 1;
    return SFT_OK;
}

static sft_status fill(writing *w) {
    uint64_t devices = 0;
    SFT_TRY(add_operator(w));
    w->s->current_stage = 1; /* as MindSpore writes it */
    for (size_t i = 0; i < w->set->mesh_count; i++) {
        const sft__checkpoint_lset_mesh *const m = &w->set->meshes[i];
        w->s->merged = w->s->merged || m->mesh.first_rank != 0;
        devices = devices != 0 ? devices : m->devices;
    }
    for (size_t i = 0; i < w->set->count; i++) {
        w->e = &w->set->entries[i];
        if (is_wanted(w->e)) {
            w->mesh = w->e->kind == SFT__LSET_BOXES ? NULL : &w->set->meshes[w->e->mesh].mesh;
            SFT_TRY(take_entry(w, devices));
        }
    }
    return sft__layout_ms_finish(w->s, w->err);
}

sft_status sft_layout_set_write_strategy(const sft_layout_set *set, sft_ms_form form, void *data,
                                         size_t capacity, size_t *size, sft_error *err) {
    writing w = {set, NULL, NULL, NULL, err};
    *size = 0;
    SFT_TRY(sft__checkpoint_lset_bound(set, err));
    if (set->strategy != NULL) {
        return sft__layout_ms_write(set->strategy, form, data, capacity, size, err);
    }
    SFT_TRY(sft__layout_ms_create(
        &w.s, &(sft__layout_ms_options){"strategy", &set->limits, set->allocator}, err));
    sft_status status = fill(&w);
    if (status == SFT_OK) {
        status = sft__layout_ms_write(w.s, form, data, capacity, size, err);
    }
    sft__layout_ms_free(w.s);
    return status;
}
