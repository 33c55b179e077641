/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_emit.c - the views that a walk has found, into the catalog: which of them are the same
 * bytes, byte order and signs, what they cover. Read first: torch_walk.h.
 */
#include "base/checked.h"
#include "import/torch/torch_walk.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- the same bytes */

static bool is_empty(const sft__view *v) {
    for (uint32_t d = 0; d < v->rank; d++) {
        if (v->shape[d] == 0) {
            return true;
        }
    }
    return false;
}

static int order64(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

/* By place, type, shape, strides (of dimensions that have any); equal: the same tensor. */
static int compare_places(const sft__view *x, const sft__view *y) {
    int o = order64(x->source, y->source);

    o = o != 0 ? o : order64(x->first, y->first);
    o = o != 0 ? o : order64(x->dtype->id, y->dtype->id);
    o = o != 0 ? o : order64(x->rank, y->rank);
    o = o != 0 ? o : order64(x->conjugate * 2u + x->negative, y->conjugate * 2u + y->negative);
    for (uint32_t d = 0; o == 0 && d < x->rank; d++) {
        o = order64(x->shape[d], y->shape[d]);
        o = o != 0 || x->shape[d] < 2 ? o
                                      : order64((uint64_t)x->strides[d], (uint64_t)y->strides[d]);
    }
    return o;
}

static int by_place(const void *a, const void *b) {
    const leaf *x = *(leaf *const *)a;
    const leaf *y = *(leaf *const *)b;
    int o = compare_places(&x->view, &y->view);
    o = o != 0 ? o : y->outside - x->outside;
    return o != 0 ? o : order64(x->order, y->order);
}

static bool name_before(const leaf *x, const leaf *y) {
    const uint32_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int o = memcmp(x->name, y->name, n);
    return o != 0 ? o < 0 : x->name_len < y->name_len;
}

/* One run of equal places in sorted[first, end). */
static sft_status merge_run(walk *w, leaf **sorted, size_t first, size_t end, sft_error *err) {
    const sft_import_dedup dedup = w->t->job->options.dedup;
    while (first < end && sorted[first]->outside) { /* sorted before those that are taken */
        first++;
    }
    leaf *kept = first < end ? sorted[first] : NULL;

    if (end - first < 2 || dedup == SFT_DEDUP_KEEP || is_empty(&kept->view)) {
        return SFT_OK;
    }
    if (dedup == SFT_DEDUP_ERROR) {
        return sft__fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, sorted[first + 1]->name,
                                sorted[first + 1]->name_len, "shares its storage with %.200s",
                                sorted[first]->name);
    }
    const bool least = dedup == SFT_DEDUP_HF || dedup == SFT_DEDUP_ALIAS;
    for (size_t i = first; i < end && least; i++) {
        kept = name_before(sorted[i], kept) ? sorted[i] : kept;
    }
    for (size_t i = first; i < end; i++) {
        sorted[i]->kept = kept->order;
    }
    return SFT_OK;
}

/* Bytes of the stretch [view.first, end of its last element). */
static uint64_t extent_end(const sft__view *v) {
    uint64_t end = v->first + v->dtype->block_bytes;
    for (uint32_t d = 0; d < v->rank; d++) {
        end += (v->shape[d] - 1) * (uint64_t)v->strides[d]; /* checked when the view was made */
    }
    return end;
}

/* The union of the extents of sorted leaves, of those, too, that are not taken. */
static uint64_t extent_union(leaf *const *sorted, size_t count) {
    uint64_t used = 0;
    uint64_t reach = 0;
    uint32_t source = 0;

    for (size_t i = 0; i < count; i++) {
        const sft__view *v = &sorted[i]->view;
        const uint64_t end = is_empty(v) ? v->first : extent_end(v);
        if (v->source != source) {
            source = v->source;
            reach = 0;
        }
        const uint64_t from = v->first > reach ? v->first : reach;
        used += end > from ? end - from : 0;
        reach = end > reach ? end : reach;
    }
    return used;
}

/* ---------------------------------------------------------------- parts of others */

static bool keeps_sharing(const walk *w) {
    const sft_import_options *o = &w->t->job->options;
    return !w->t->job->scanning &&
           (o->dedup == SFT_DEDUP_ALIAS ||
            ((o->flags & SFT_IMPORT_KEEP_TREE) != 0 && o->dedup != SFT_DEDUP_KEEP &&
             o->dedup != SFT_DEDUP_ERROR));
}

/* A tensor of the catalog that is read as it lies in its storage. */
static bool is_plain(const leaf *l) {
    const sft__view *v = &l->view;
    return !l->outside && l->kept == l->order && !is_empty(v) && v->dtype->block_elements == 1 &&
           !(v->swap && v->dtype->block_bytes > 1) && !v->conjugate && !v->negative;
}

/* Does `of` hold all bytes of l, one behind the other and at whole elements? */
static bool covers(const leaf *of, const leaf *l) {
    const sft__view *a = &of->view;
    const sft__view *b = &l->view;

    if (of == l || a->source != b->source || b->first < a->first || extent_end(b) > extent_end(a) ||
        (b->first - a->first) % b->dtype->block_bytes != 0) {
        return false;
    }
    for (uint32_t d = 0; d < b->rank; d++) {
        if (b->strides[d] < 0 || (uint64_t)b->strides[d] % b->dtype->block_bytes != 0) {
            return false;
        }
    }
    return true;
}

/* Of leaves that begin at one place, sorted[first, end): the whole one that reaches furthest, or the one
 * before it. */
static leaf *furthest(leaf *const *sorted, size_t first, size_t end, leaf *base) {
    for (size_t i = first; i < end; i++) {
        leaf *l = sorted[i];
        if (is_plain(l) && sft__torch_is_whole(&l->view) &&
            (base == NULL || base->view.source != l->view.source ||
             extent_end(&l->view) > extent_end(&base->view))) {
            base = l;
        }
    }
    return base;
}

/* Tensors whose bytes lie in another one become names of a part of it. sorted: by place. */
static void find_parts(walk *w, leaf *const *sorted) {
    leaf *base = NULL;
    size_t end;

    for (size_t i = 0; i < w->leaf_count && keeps_sharing(w); i = end) {
        end = i + 1;
        while (end < w->leaf_count && sorted[end]->view.source == sorted[i]->view.source &&
               sorted[end]->view.first == sorted[i]->view.first) {
            end++;
        }
        base = furthest(sorted, i, end, base);
        for (size_t k = i; k < end && base != NULL; k++) {
            if (is_plain(sorted[k]) && covers(base, sorted[k])) {
                sorted[k]->shown = base->order;
            }
        }
    }
    for (size_t i = 0; i < w->leaf_count; i++) { /* a base that a later one of its place covers */
        leaf *l = &w->leaves[i];
        while (l->shown != UINT32_MAX && w->leaves[l->shown].shown != UINT32_MAX) {
            l->shown = w->leaves[l->shown].shown;
        }
    }
}

/* Bytes of the elements. */
static uint64_t bytes_of(const sft__view *v) {
    uint64_t bytes = v->dtype->block_bytes;

    for (uint32_t d = 0; d < v->rank; d++) {
        if (!sft__mul64(bytes, v->shape[d], &bytes)) {
            return UINT64_MAX;
        }
    }
    return bytes;
}

/* Tensors that share bytes without being the same are tensors of their own in the catalog: these bytes lie
 * in an output more than once, and what was one storage is several. sorted: by place. */
static void tell_overlaps(walk *w, leaf *const *sorted) {
    const leaf *first = NULL;
    uint64_t more = 0;
    uint64_t reach = 0;
    uint32_t source = 0;
    size_t count = 0;

    if (w->t->job->options.dedup == SFT_DEDUP_KEEP || w->t->job->scanning) {
        return; /* asked for, or nothing is made of them */
    }
    for (size_t i = 0; i < w->leaf_count; i++) {
        const leaf *l = sorted[i];
        const sft__view *v = &l->view;
        if (l->outside || l->kept != l->order || is_empty(v) || l->shown != UINT32_MAX) {
            continue;
        }
        const uint64_t end = extent_end(v);
        reach = v->source != source ? 0 : reach;
        source = v->source;
        if (v->first < reach) {
            const uint64_t shared = (end < reach ? end : reach) - v->first;
            const uint64_t bytes = bytes_of(v);
            first = first == NULL ? l : first;
            count++;
            if (!sft__add64(more, shared < bytes ? shared : bytes, &more)) {
                more = UINT64_MAX;
            }
        }
        reach = end > reach ? end : reach;
    }
    if (count != 0) {
        sft__import_left(w->t->job, first->name, first->name_len, 0,
                         "the storage that %llu %s with others: each becomes a tensor of its own, "
                         "with up to %llu bytes that are there already",
                         (unsigned long long)count, count == 1 ? "tensor shares" : "tensors share",
                         (unsigned long long)more);
    }
}

sft_status sft__tree_merge(walk *w, sft_error *err) {
    leaf **sorted;
    size_t first = 0;

    SFT_TRY(sft__import_alloc(w->t->job, &sorted, w->leaf_count, sizeof *sorted, err));
    for (size_t i = 0; i < w->leaf_count; i++) {
        sorted[i] = &w->leaves[i];
    }
    qsort(sorted, w->leaf_count, sizeof *sorted, by_place);
    for (size_t i = 1; i <= w->leaf_count; i++) {
        if (i == w->leaf_count || compare_places(&sorted[i]->view, &sorted[first]->view) != 0) {
            SFT_TRY(merge_run(w, sorted, first, i, err));
            first = i;
        }
    }
    const uint64_t used = extent_union(sorted, w->leaf_count);
    find_parts(w, sorted);
    tell_overlaps(w, sorted);
    if (w->t->storage_bytes > used) {
        sft__report_unused(w->t->job->report, w->t->storage_bytes - used);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- into the catalog */

static void flip_sign(void *dst, const void *src, size_t blocks, uint32_t argument) {
    const uint32_t unit =
        argument >> 8; /* bytes of an element; argument & 255: first byte of the sign */
    memcpy(dst, src, blocks * unit);
    for (size_t i = 0; i < blocks; i++) {
        ((uint8_t *)dst)[i * unit + (argument & 255u)] ^= 0x80;
    }
}

static sft_status turn(sft__import *job, sft__view *v, sft__block_fn fn, uint32_t argument,
                       uint32_t unit, sft_error *err) {
    const sft__block_map map = {fn, argument, unit, unit};
    const uint64_t bytes = v->high - v->low;
    sft_source *made;

    SFT_TRY(sft__source_map(&made, v->data, v->low, bytes / unit, &map, job->allocator, err));
    v->first -= v->low;
    v->high = bytes / unit * unit;
    v->low = 0;
    v->data = made;
    return sft_builder_add_source(job->builder, made, &v->source, err);
}

/* Byte order, conjugate and negative bits become sources that turn bytes as they are read. */
static sft_status dress(sft__import *job, sft__view *v, sft_error *err) {
    const bool complex = v->dtype->kind == SFT_KIND_COMPLEX;
    const uint32_t unit = v->dtype->block_bytes;
    const uint32_t number = complex ? unit / 2 : unit;

    if (is_empty(v)) {
        return SFT_OK;
    }
    if (v->swap && number > 1) {
        SFT_TRY(turn(job, v, sft__block_swap, number, number, err));
    }
    if (v->conjugate && complex) {
        SFT_TRY(turn(job, v, flip_sign, unit << 8 | (unit - 1), unit, err));
    }
    if (v->negative && v->dtype->kind != SFT_KIND_FLOAT && !complex) {
        return sft__fail(err, SFT_E_UNSUPPORTED, "torch-negative: a negated view of integers");
    }
    if (v->negative) {
        SFT_TRY(turn(job, v, flip_sign, number << 8 | (number - 1), number, err));
    }
    return SFT_OK;
}

/* What the places say a tensor has, against what its type and shape do. */
static sft_status check_bytes(walk *w, const sft__view *v, const uint64_t *shape, sft_error *err) {
    uint64_t elements = 1;
    uint64_t bytes = v->dtype->block_bytes;
    uint64_t counted;

    for (uint32_t d = 0; d < v->rank; d++) {
        if (!sft__mul64(elements, shape[d], &elements) || !sft__mul64(bytes, v->shape[d], &bytes)) {
            return SFT_OK; /* the builder says which */
        }
    }
    SFT_TRY(sft_dtype_bytes(v->dtype, elements, &counted, err));
    sft__report_covered(w->t->job->report, bytes);
    return counted == bytes ? SFT_OK
                            : sft__fail(err, SFT_E_INTERNAL,
                                        "torch-view: %llu bytes in the storage became %llu",
                                        (unsigned long long)bytes, (unsigned long long)counted);
}

static sft_status emit(walk *w, leaf *l, sft_error *err) {
    sft__import *job = w->t->job;
    sft__view *v = &l->view;

    uint64_t shape[SFT__TORCH_RANK_MAX];

    sft__torch_shape(v, shape);
    SFT_TRY(check_bytes(w, v, shape, err));
    SFT_TRY(dress(job, v, err));
    sft_piece piece = {.offset = v->first, .source = v->source};
    if (!is_empty(v) && !sft__torch_is_whole(v)) {
        piece.strides = v->strides;
    }
    const sft_tensor t = {.name = l->name,
                          .name_len = l->name_len,
                          .dtype = v->dtype,
                          .shape = shape,
                          .pieces = &piece,
                          .rank = v->rank,
                          .piece_count = 1};
    return sft__import_tensor(job, &t, err);
}

/* The leaf, called name, as what it shows of another one. */
static sft_status emit_part(walk *w, const leaf *l, const leaf *name, sft_error *err) {
    const leaf *of = &w->leaves[l->shown];
    const sft__view *v = &l->view;
    const sft_piece piece = {.offset = v->first,
                             .source = v->source,
                             .strides = sft__torch_is_whole(v) ? NULL : v->strides};
    uint64_t shape[SFT__TORCH_RANK_MAX];

    sft__torch_shape(v, shape);
    const sft_tensor t = {.name = name->name,
                          .name_len = name->name_len,
                          .dtype = v->dtype,
                          .shape = shape,
                          .pieces = &piece,
                          .rank = v->rank,
                          .piece_count = 1};
    return sft_builder_add_part(w->t->job->builder, &t, of->name, of->name_len, err);
}

/* Of another name, as objects of the tree: it is sorted, kept, written and found. */
enum { COST_ALIAS = 24 };

sft_status sft__tree_emit(walk *w, sft_error *err) {
    for (size_t i = 0; i < w->leaf_count; i++) {
        const leaf *l = &w->leaves[i];
        if (l->kept == i && !l->outside && l->shown == UINT32_MAX) {
            SFT_TRY(emit(w, &w->leaves[i], err));
        }
    }
    for (size_t i = 0; i < w->leaf_count; i++) {
        const leaf *l = &w->leaves[i];
        const leaf *of = &w->leaves[l->kept];
        if (l->kept == i && l->shown == UINT32_MAX) {
            continue;
        }
        SFT_TRY(sft__tree_visit(w, COST_ALIAS + of->name_len / SFT__TREE_TEXT, err));
        SFT_TRY(of->shown != UINT32_MAX
                    ? emit_part(w, of, l, err)
                    : sft_builder_add_alias(w->t->job->builder, l->name, l->name_len, of->name,
                                            of->name_len, err));
    }
    return SFT_OK;
}
