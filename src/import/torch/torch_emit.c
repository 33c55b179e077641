/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_emit.c - the views that a walk has found, into the catalog: which of them are the same
 * bytes, byte order and signs, what they cover. Read first: torch_walk.h.
 */
#include "base/checked.h"
#include "import/torch/torch_walk.h"
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- the same bytes */

static bool is_empty(const sft__import_view *v) {
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
static int compare_places(const sft__import_view *x, const sft__import_view *y) {
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
        return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, sorted[first + 1]->name,
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
static uint64_t extent_end(const sft__import_view *v) {
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
        const sft__import_view *v = &sorted[i]->view;
        const uint64_t end = is_empty(v) || v->made ? v->first : extent_end(v);
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
    return !w->t->job->scanning && (o->dedup == SFT_DEDUP_ALIAS ||
                                    ((o->flags & SFT_IMPORT_KEEP_TREE) != 0 &&
                                     o->dedup != SFT_DEDUP_KEEP && o->dedup != SFT_DEDUP_ERROR));
}

/* A tensor of the catalog that is read as it lies in its storage. */
static bool is_plain(const leaf *l) {
    const sft__import_view *v = &l->view;
    return !l->outside && l->kept == l->order && !is_empty(v) && v->dtype->block_elements == 1 &&
           !(v->swap && v->dtype->block_bytes > 1) && !v->conjugate && !v->negative;
}

/* Does `of` hold all bytes of l, one behind the other and at whole elements? */
static bool covers(const leaf *of, const leaf *l) {
    const sft__import_view *a = &of->view;
    const sft__import_view *b = &l->view;

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
        if (is_plain(l) && sft__import_torch_is_whole(&l->view) &&
            (base == NULL || base->view.source != l->view.source ||
             extent_end(&l->view) > extent_end(&base->view))) {
            base = l;
        }
    }
    return base;
}

/* Tensors whose bytes lie in another one become names of a part of it. sorted: by place. */
static void find_parts(leaf *const *sorted, size_t count) {
    leaf *base = NULL;
    size_t end;

    for (size_t i = 0; i < count; i = end) {
        end = i + 1;
        while (end < count && sorted[end]->view.source == sorted[i]->view.source &&
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
}

/* A base may itself be shown by one that a later leaf of its place, or a storage, is. */
static void settle_parts(walk *w, size_t count) {
    for (size_t i = 0; i < count; i++) {
        leaf *l = &w->leaves[i];
        while (l->shown != UINT32_MAX && w->leaves[l->shown].shown != UINT32_MAX) {
            l->shown = w->leaves[l->shown].shown;
        }
    }
}

/* Bytes of the elements. */
static uint64_t bytes_of(const sft__import_view *v) {
    uint64_t bytes = v->dtype->block_bytes;

    for (uint32_t d = 0; d < v->rank; d++) {
        if (!sft__base_mul64(bytes, v->shape[d], &bytes)) {
            return UINT64_MAX;
        }
    }
    return bytes;
}

/* ---------------------------------------------------------------- storages */

#define STORAGE "sft.storage." /* docs/tree.md */

/* A tensor of bytes that only other names show; room for it was made. */
static sft_status add_storage(walk *w, const leaf *like, uint64_t end, unsigned number,
                              sft_error *err) {
    sft__import *job = w->t->job;
    leaf *l = &w->leaves[w->leaf_count];
    char *name;

    SFT_TRY(sft__import_alloc(job, &name, 32, 1, err));
    *l = (leaf){.name = name, .shown = UINT32_MAX, .view = like->view};
    l->name_len = (uint32_t)snprintf(name, 32, STORAGE "%u", number);
    l->order = l->kept = (uint32_t)w->leaf_count;
    SFT_TRY(sft__import_alloc(job, &l->view.shape, 1, sizeof *l->view.shape, err));
    SFT_TRY(sft__import_alloc(job, &l->view.strides, 1, sizeof *l->view.strides, err));
    l->view.dtype = sft_dtype_get(SFT_U8);
    l->view.swap = false;
    l->view.rank = 1;
    l->view.shape[0] = end - like->view.first;
    l->view.strides[0] = 1;
    w->leaf_count++;
    return SFT_OK;
}

/* sorted[0, all) meet, and reach up to `reach`: they become names of parts of one storage, unless that
 * would be larger than they are, because most of it is nobody's. */
static sft_status share(walk *w, leaf **sorted, size_t all, uint64_t reach, unsigned *number,
                        sft_error *err) {
    const leaf *low = NULL;
    uint64_t bytes = 0;
    size_t count = 0;

    for (size_t i = 0; i < all; i++) {
        const leaf *l = sorted[i];
        if (is_plain(l) && l->shown == UINT32_MAX) {
            low = low == NULL ? l : low;
            count++;
            bytes = sft__base_add64(bytes, bytes_of(&l->view), &bytes) ? bytes : UINT64_MAX;
        }
    }
    if (count < 2 || bytes < reach - low->view.first) {
        return SFT_OK;
    }
    const size_t base = w->leaf_count;
    SFT_TRY(add_storage(w, low, reach, *number, err));
    count = 0;
    for (size_t i = 0; i < all; i++) {
        leaf *l = sorted[i];
        if (is_plain(l) && l->shown == UINT32_MAX && covers(&w->leaves[base], l)) {
            l->shown = (uint32_t)base;
            count++;
        }
    }
    *number += count != 0;
    w->leaf_count -= count == 0;
    return SFT_OK;
}

/* Tensors that share bytes of which no tensor has all become names of parts of a storage. sorted: by
 * place. What was shown of them already is shown of the storage then, too. */
static sft_status find_storages(walk *w, leaf **sorted, size_t count, sft_error *err) {
    unsigned number = 0;
    uint64_t reach = 0;
    size_t first = 0;

    for (size_t i = 0; i < count; i++) {
        const leaf *l = &w->leaves[i];
        if (l->name_len >= sizeof STORAGE - 1 &&
            memcmp(l->name, STORAGE, sizeof STORAGE - 1) == 0) {
            return SFT_OK; /* the name is taken */
        }
    }
    for (size_t i = 0; i < count; i++) {
        const leaf *l = sorted[i];
        if (!is_plain(l) || l->shown != UINT32_MAX) {
            continue;
        }
        const uint64_t end = extent_end(&l->view);
        if (sorted[first]->view.source != l->view.source || l->view.first >= reach) {
            SFT_TRY(share(w, sorted + first, i - first, reach, &number, err));
            first = i;
            reach = 0;
        }
        reach = end > reach ? end : reach;
    }
    return share(w, sorted + first, count - first, reach, &number, err);
}

/* Tensors that share bytes without being the same are tensors of their own in the catalog: these bytes lie
 * in an output more than once, and what was one storage is several. sorted: by place. */
static void tell_overlaps(walk *w, leaf *const *sorted, size_t all) {
    const leaf *first = NULL;
    uint64_t more = 0;
    uint64_t reach = 0;
    uint32_t source = 0;
    size_t count = 0;

    if (w->t->job->options.dedup == SFT_DEDUP_KEEP || w->t->job->scanning) {
        return; /* asked for, or nothing is made of them */
    }
    for (size_t i = 0; i < all; i++) {
        const leaf *l = sorted[i];
        const sft__import_view *v = &l->view;
        const bool shown = l->shown != UINT32_MAX; /* of a storage: its bytes are there, too */
        if (l->outside || l->kept != l->order || is_empty(v) || (shown && l->shown < all)) {
            continue;
        }
        const uint64_t end = extent_end(v);
        reach = v->source != source ? 0 : reach;
        source = v->source;
        if (v->first < reach && !shown) {
            const uint64_t shared = (end < reach ? end : reach) - v->first;
            const uint64_t bytes = bytes_of(v);
            first = first == NULL ? l : first;
            count++;
            if (!sft__base_add64(more, shared < bytes ? shared : bytes, &more)) {
                more = UINT64_MAX;
            }
        }
        reach = end > reach ? end : reach;
    }
    if (count != 0) {
        sft__import_find(w->t->job, SFT__RULE(NOTE, HARMLESS, "shared"),
                         SFT__NAMED(first, SFT_NO_OFFSET),
                         "the storage that %llu %s with others: each becomes a tensor of its own, "
                         "with up to %llu bytes that are there already",
                         (unsigned long long)count, count == 1 ? "tensor shares" : "tensors share",
                         (unsigned long long)more);
    }
}

sft_status sft__import_tree_merge(walk *w, sft_error *err) {
    const size_t count = w->leaf_count;
    leaf **sorted;
    size_t first = 0;

    if (!sft__base_grow(
            w->t->job->allocator, &w->leaves, &w->leaf_room, count + count / 2 + 1,
            sizeof *w->leaves)) { /* so many storages there may be; leaves stay in their places */
        return sft__base_fail_nomem(err, count * sizeof *w->leaves);
    }
    SFT_TRY(sft__import_alloc(w->t->job, &sorted, count, sizeof *sorted, err));
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &w->leaves[i];
    }
    qsort(sorted, count, sizeof *sorted, by_place);
    for (size_t i = 1; i <= count; i++) {
        if (i == count || compare_places(&sorted[i]->view, &sorted[first]->view) != 0) {
            SFT_TRY(merge_run(w, sorted, first, i, err));
            first = i;
        }
    }
    const uint64_t used = extent_union(sorted, count);
    if (keeps_sharing(w)) {
        find_parts(sorted, count);
        SFT_TRY(find_storages(w, sorted, count, err));
        settle_parts(w, count);
    }
    tell_overlaps(w, sorted, count);
    if (w->t->storage_bytes > used) {
        sft__import_report_unused(w->t->job->report, w->t->storage_bytes - used);
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

static sft_status turn(sft__import *job, sft__import_view *v, sft__import_block_fn fn,
                       uint32_t argument, uint32_t unit, sft_error *err) {
    const sft__import_block_map map = {fn, argument, unit, unit};
    const uint64_t bytes = v->high - v->low;
    sft_source *made;

    SFT_TRY(sft__import_source_map(&made, v->data, (sft__import_extent){v->low, bytes / unit}, &map,
                                   job->allocator, err));
    v->first -= v->low;
    v->high = bytes / unit * unit;
    v->low = 0;
    v->data = made;
    return sft_builder_add_source(job->builder, made, &v->source, err);
}

/* Byte order, conjugate and negative bits become sources that turn bytes as they are read. */
static sft_status dress(sft__import *job, sft__import_view *v, sft_error *err) {
    const bool complex = v->dtype->kind == SFT_KIND_COMPLEX;
    const uint32_t unit = v->dtype->block_bytes;
    const uint32_t number = complex ? unit / 2 : unit;

    if (is_empty(v)) {
        return SFT_OK;
    }
    if (v->swap && number > 1) {
        SFT_TRY(turn(job, v, sft__import_block_swap, number, number, err));
    }
    if (v->conjugate && complex) {
        SFT_TRY(turn(job, v, flip_sign, unit << 8 | (unit - 1), unit, err));
    }
    if (v->negative && v->dtype->kind != SFT_KIND_FLOAT && !complex) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "torch-negative: a negated view of integers");
    }
    if (v->negative) {
        SFT_TRY(turn(job, v, flip_sign, number << 8 | (number - 1), number, err));
    }
    return SFT_OK;
}

/* What the places say a tensor has, against what its type and shape do. */
static sft_status check_bytes(walk *w, const sft__import_view *v, const uint64_t *shape,
                              sft_error *err) {
    uint64_t elements = 1;
    uint64_t bytes = v->dtype->block_bytes;
    uint64_t counted;

    for (uint32_t d = 0; d < v->rank; d++) {
        if (!sft__base_mul64(elements, shape[d], &elements) ||
            !sft__base_mul64(bytes, v->shape[d], &bytes)) {
            return SFT_OK; /* the builder says which */
        }
    }
    SFT_TRY(sft_dtype_bytes(v->dtype, elements, &counted, err));
    sft__import_report_covered(w->t->job->report, bytes);
    return counted == bytes
               ? SFT_OK
               : sft__base_fail(err, SFT_E_INTERNAL,
                                "torch-view: %llu bytes in the storage became %llu",
                                (unsigned long long)bytes, (unsigned long long)counted);
}

static sft_status emit(walk *w, leaf *l, sft_error *err) {
    sft__import *job = w->t->job;
    sft__import_view *v = &l->view;

    uint64_t shape[SFT__TORCH_RANK_MAX];

    sft__import_torch_shape(v, shape);
    SFT_TRY(check_bytes(w, v, shape, err));
    SFT_TRY(dress(job, v, err));
    sft_piece piece = {.offset = v->first, .source = v->source};
    if (!is_empty(v) && !sft__import_torch_is_whole(v)) {
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
    const sft__import_view *v = &l->view;
    const sft_piece piece = {.offset = v->first,
                             .source = v->source,
                             .strides = sft__import_torch_is_whole(v) ? NULL : v->strides};
    uint64_t shape[SFT__TORCH_RANK_MAX];

    sft__import_torch_shape(v, shape);
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

sft_status sft__import_tree_emit(walk *w, sft_error *err) {
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
        SFT_TRY(sft__import_tree_visit(w, COST_ALIAS + of->name_len / SFT__TREE_TEXT, err));
        SFT_TRY(of->shown != UINT32_MAX
                    ? emit_part(w, of, l, err)
                    : sft_builder_add_alias(w->t->job->builder, l->name, l->name_len, of->name,
                                            of->name_len, err));
    }
    return SFT_OK;
}
