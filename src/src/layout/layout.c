/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/layout.c - making layouts, and which rank holds which part. Every number that came from outside is
 * checked here, once; layout/shard.c then computes with what is left. Read layout/layout.h first.
 */
#include "layout/layout.h"
#include "base/checked.h"
#include "base/error.h"
#include <stdlib.h>

#define MAX_DEVICES (UINT64_C(1) << 31)

/* ---------------------------------------------------------------- the mesh */

static sft_status count_devices(const sft__layout_mesh *mesh, uint64_t *devices, sft_error *err) {
    uint64_t n = 1;
    if (mesh->axis_count > SFT__LAYOUT_AXES) {
        return sft__base_fail(err, SFT_E_LIMIT, "mesh of %llu axes, at most %u are possible",
                              (unsigned long long)mesh->axis_count, SFT__LAYOUT_AXES);
    }
    for (size_t i = 0; i < mesh->axis_count; i++) {
        if (mesh->axes[i] == 0) {
            return sft__base_fail(err, SFT_E_ARG, "mesh axis %llu has size 0",
                                  (unsigned long long)i);
        }
        if (!sft__base_mul64(n, mesh->axes[i], &n) || n > MAX_DEVICES) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "mesh has more than 2^31 ranks");
        }
    }
    if (mesh->ranks == NULL && mesh->first_rank > UINT64_MAX - n) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "first rank %llu is too large",
                              (unsigned long long)mesh->first_rank);
    }
    *devices = n;
    return SFT_OK;
}

/* A factor as a digit of the device number. Axis i steps by the product of the sizes behind it. */
static sft_status make_digit(const sft__layout_mesh *mesh, const sft__layout_factor *factor,
                             sft__layout_digit *digit, sft_error *err) {
    uint64_t stride = 1;
    const uint64_t divisor = factor->divisor == 0 ? 1 : factor->divisor;
    if (factor->axis >= mesh->axis_count) {
        return sft__base_fail(err, SFT_E_ARG, "factor names mesh axis %u of %llu", factor->axis,
                              (unsigned long long)mesh->axis_count);
    }
    const uint64_t axis = mesh->axes[factor->axis];
    if (axis % divisor != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "divisor %llu does not divide mesh axis %u of size %llu",
                              (unsigned long long)divisor, factor->axis, (unsigned long long)axis);
    }
    const uint64_t size = factor->size == 0 ? axis / divisor : factor->size;
    if ((axis / divisor) % size != 0) {
        return sft__base_fail(err, SFT_E_ARG, "%llu parts do not divide mesh axis %u of size %llu",
                              (unsigned long long)size, factor->axis, (unsigned long long)axis);
    }
    for (size_t i = factor->axis + (size_t)1; i < mesh->axis_count; i++) {
        stride *= mesh->axes[i]; /* at most the number of devices */
    }
    digit->divisor = stride * divisor;
    digit->size = size;
    return SFT_OK;
}

/* Two digits of one number are apart if one ends at or below the other's begin. */
static bool digits_apart(const sft__layout_digit *a, const sft__layout_digit *b) {
    return a->size == 1 || b->size == 1 || b->divisor % (a->divisor * a->size) == 0 ||
           a->divisor % (b->divisor * b->size) == 0;
}

static sft_status check_digits(const sft__layout_digit *digits, size_t count, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!digits_apart(&digits[i], &digits[k])) {
                return sft__base_fail(err, SFT_E_ARG, "a mesh axis cuts twice");
            }
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- one allocation */

/* Room for the struct and its arrays, taken from the front to the back. */
typedef struct room {
    uint8_t *at;
    size_t size;
    bool failed;
} room;

static void room_for(room *r, size_t count, size_t size) {
    size_t bytes;
    if (!sft__base_mul_size(count, size, &bytes) || !sft__base_add_size(r->size, bytes, &r->size) ||
        r->size > SIZE_MAX / 2) {
        r->failed = true;
    }
}

static void *take(room *r, size_t count, size_t size) {
    void *const p = r->at;
    r->at += count * size;
    return p;
}

static const uint64_t *take_copy(room *r, const uint64_t *from, size_t count) {
    uint64_t *const to = take(r, count, sizeof *to);
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
    }
    return to;
}

static sft_layout *take_layout(room *r, const sft_allocator *allocator, sft_error *err) {
    const sft_allocator *const a = sft__base_allocator(allocator);
    sft_layout *layout;
    if (r->failed) {
        (void)sft__base_fail(err, SFT_E_OVERFLOW, "layout is too large");
        return NULL;
    }
    r->size += sizeof *layout;
    layout = sft__base_alloc_zero(a, r->size);
    if (layout == NULL) {
        (void)sft__base_fail_nomem(err, r->size);
        return NULL;
    }
    layout->allocator = a;
    layout->size = r->size;
    r->at = (uint8_t *)(layout + 1);
    return layout;
}

/* qsort hands no context to its comparison: what is sorted are pairs that carry all that it needs. */
typedef struct placed {
    uint64_t rank;
    uint64_t device;
} placed;

static int compare_placed(const void *a, const void *b) {
    const placed *const x = a;
    const placed *const y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static sft_status sort_ranks(const uint64_t *ranks, size_t count, uint64_t *by_rank,
                             const sft_allocator *allocator, sft_error *err) {
    placed *const list = sft__base_alloc_array(allocator, count, sizeof *list);
    sft_status status = SFT_OK;
    if (list == NULL) {
        return count == 0 ? SFT_OK : sft__base_fail_nomem(err, count * sizeof *list);
    }
    for (size_t i = 0; i < count; i++) {
        list[i].rank = ranks[i];
        list[i].device = i;
    }
    qsort(list, count, sizeof *list, compare_placed);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && list[i].rank == list[i - 1].rank) {
            status = sft__base_fail(err, SFT_E_DUPLICATE, "rank %llu is given twice",
                                    (unsigned long long)list[i].rank);
            break;
        }
        by_rank[i] = list[i].device;
    }
    sft__base_free(allocator, list, count * sizeof *list);
    return status;
}

static sft_status keep_mesh(sft_layout *layout, room *r, const sft__layout_mesh *mesh,
                            sft_error *err) {
    uint64_t *by_rank;
    layout->first_rank = mesh->first_rank;
    if (mesh->ranks == NULL) {
        return SFT_OK;
    }
    layout->ranks = take_copy(r, mesh->ranks, (size_t)layout->devices);
    by_rank = take(r, (size_t)layout->devices, sizeof *by_rank);
    layout->by_rank = by_rank;
    return sort_ranks(layout->ranks, (size_t)layout->devices, by_rank, layout->allocator, err);
}

/* ---------------------------------------------------------------- cuts */

static sft_status check_cut(const sft__layout_cut *cut, size_t dim, sft_error *err) {
    const bool sized = cut->split == SFT__SPLIT_SIZES;
    if ((uint32_t)cut->split > SFT__SPLIT_SIZES) {
        return sft__base_fail(err, SFT_E_ARG, "dimension %llu: unknown split %u",
                              (unsigned long long)dim, (unsigned)cut->split);
    }
    if (sized != (cut->sizes != NULL) || (!sized && cut->size_count != 0)) {
        return sft__base_fail(err, SFT_E_ARG,
                              "dimension %llu: sizes go with SFT__SPLIT_SIZES alone",
                              (unsigned long long)dim);
    }
    if ((cut->blocks == NULL) != (cut->block_count == 0) ||
        (cut->block_parts != 0 && cut->block_count != 0) ||
        (sized && (cut->block_count != 0 || cut->block_parts > 1))) {
        return sft__base_fail(err, SFT_E_ARG, "dimension %llu: blocks are given two ways",
                              (unsigned long long)dim);
    }
    if (cut->block_count > SFT__LAYOUT_BLOCKS || cut->block_parts > SFT__LAYOUT_BLOCKS) {
        return sft__base_fail(err, SFT_E_LIMIT, "dimension %llu: more than %u blocks",
                              (unsigned long long)dim, SFT__LAYOUT_BLOCKS);
    }
    if (cut->factor_count > SFT__LAYOUT_AXES) {
        return sft__base_fail(err, SFT_E_LIMIT, "dimension %llu: more than %u factors",
                              (unsigned long long)dim, SFT__LAYOUT_AXES);
    }
    return SFT_OK;
}

static sft_status keep_cut(sft__layout_dim_cut *to, room *r, sft__layout_digit *digits,
                           const sft__layout_cut *cut, sft_error *err) {
    to->digits = digits;
    to->digit_count = cut->factor_count;
    to->split = cut->split;
    to->parts = 1;
    for (size_t i = 0; i < cut->factor_count; i++) {
        to->parts *=
            digits[i].size; /* distinct digits of a number below 2^31: checked by the caller */
    }
    if (cut->split == SFT__SPLIT_SIZES && to->parts != cut->size_count) {
        return sft__base_fail(err, SFT_E_ARG, "%llu sizes for %llu parts",
                              (unsigned long long)cut->size_count, (unsigned long long)to->parts);
    }
    if (cut->sizes != NULL) {
        to->sizes = take_copy(r, cut->sizes, cut->size_count);
    }
    to->block_count = cut->block_parts > 1 ? (size_t)cut->block_parts : 1;
    if (cut->blocks != NULL) {
        to->blocks = take_copy(r, cut->blocks, cut->block_count);
        to->block_count = cut->block_count;
    }
    return SFT_OK;
}

static sft_status fill_cuts(sft_layout *layout, room *r, const sft__layout_mesh *mesh,
                            const sft__layout_cut *cuts, size_t count, sft_error *err) {
    size_t total = 0;
    size_t at = 0;
    sft__layout_digit *digits;
    for (size_t i = 0; i < count; i++) {
        total += cuts[i].factor_count;
    }
    layout->cuts = take(r, count, sizeof *layout->cuts);
    digits = take(r, total, sizeof *digits);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < cuts[i].factor_count; k++) {
            SFT_TRY(make_digit(mesh, &cuts[i].factors[k], &digits[at++], err));
        }
    }
    SFT_TRY(check_digits(digits, total, err));
    layout->parts = 1;
    at = 0;
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(keep_cut(&layout->cuts[i], r, digits + at, &cuts[i], err));
        layout->parts *= layout->cuts[i].parts;
        at += cuts[i].factor_count;
    }
    return SFT_OK;
}

static sft_status create(sft_layout **out, const sft__layout_mesh *mesh,
                         const sft__layout_cut *cuts, size_t count, const sft_allocator *allocator,
                         sft_error *err) {
    uint64_t devices = 0;
    sft_layout *layout;
    sft_status status;
    room r = {NULL, 0, false};
    SFT_TRY(count_devices(mesh, &devices, err));
    room_for(&r, count, sizeof *layout->cuts);
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(check_cut(&cuts[i], i, err));
        room_for(&r, cuts[i].factor_count, sizeof(sft__layout_digit));
        room_for(&r, cuts[i].size_count, sizeof(uint64_t));
        room_for(&r, cuts[i].block_count, sizeof(uint64_t));
    }
    if (mesh->ranks != NULL) {
        room_for(&r, (size_t)devices, 2 * sizeof(uint64_t));
    }
    layout = take_layout(&r, allocator, err);
    if (layout == NULL) {
        return r.failed ? SFT_E_OVERFLOW : SFT_E_NOMEM;
    }
    layout->devices = devices;
    layout->dims = count;
    status = keep_mesh(layout, &r, mesh, err);
    if (status == SFT_OK) {
        status = fill_cuts(layout, &r, mesh, cuts, count, err);
    }
    if (status != SFT_OK) {
        sft__layout_free(layout);
        return status;
    }
    *out = layout;
    return SFT_OK;
}

sft_status sft__layout_create(sft_layout **out, const sft__layout_mesh *mesh,
                              const sft__layout_cut *cuts, size_t dims,
                              const sft_allocator *allocator, sft_error *err) {
    *out = NULL;
    if (dims > SFT_LAYOUT_RANK) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "layout of %llu dimensions, at most %u are possible",
                              (unsigned long long)dims, SFT_LAYOUT_RANK);
    }
    return create(out, mesh, cuts, dims, allocator, err);
}

sft_status sft__layout_create_flat(sft_layout **out, const sft__layout_mesh *mesh,
                                   const sft__layout_factor *factors, size_t count, uint64_t align,
                                   const sft_allocator *allocator, sft_error *err) {
    sft__layout_cut cut;
    sft_zero(&cut, sizeof cut);
    cut.factors = factors;
    cut.factor_count = count;
    cut.split = SFT__SPLIT_CHUNK;
    *out = NULL;
    SFT_TRY(create(out, mesh, &cut, 1, allocator, err));
    (*out)->kind = SFT__LAYOUT_FLAT;
    (*out)->dims = 0;
    (*out)->align = align == 0 ? 1 : align;
    return SFT_OK;
}

/* ---------------------------------------------------------------- explicit boxes */

typedef struct boxed {
    const uint64_t *box;
    size_t numbers;
    uint64_t device;
} boxed;

static int compare_boxed(const void *a, const void *b) {
    const boxed *const x = a;
    const boxed *const y = b;
    for (size_t i = 0; i < x->numbers; i++) {
        if (x->box[i] != y->box[i]) {
            return x->box[i] < y->box[i] ? -1 : 1;
        }
    }
    return 0;
}

/* Numbers the parts: equal boxes, equal numbers. */
static sft_status number_parts(sft_layout *layout, uint64_t *part_of, sft_error *err) {
    const size_t count = (size_t)layout->devices;
    boxed *const list = sft__base_alloc_array(layout->allocator, count, sizeof *list);
    layout->parts = 0;
    if (list == NULL) {
        return count == 0 ? SFT_OK : sft__base_fail_nomem(err, count * sizeof *list);
    }
    for (size_t i = 0; i < count; i++) {
        list[i].box = layout->boxes + i * 2 * layout->dims;
        list[i].numbers = 2 * layout->dims;
        list[i].device = i;
    }
    qsort(list, count, sizeof *list, compare_boxed);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_boxed(&list[i - 1], &list[i]) != 0) {
            layout->parts++;
        }
        part_of[list[i].device] = layout->parts - 1;
    }
    sft__base_free(layout->allocator, list, count * sizeof *list);
    return SFT_OK;
}

sft_status sft__layout_create_boxes(sft_layout **out, const uint64_t *ranks, const uint64_t *boxes,
                                    size_t count, size_t dims, const sft_allocator *allocator,
                                    sft_error *err) {
    sft_layout *layout;
    sft_status status;
    uint64_t *part_of;
    sft__layout_mesh mesh;
    room r = {NULL, 0, false};
    *out = NULL;
    if (dims > SFT_LAYOUT_RANK || count > MAX_DEVICES) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "%llu boxes of %llu dimensions, more than is possible",
                              (unsigned long long)count, (unsigned long long)dims);
    }
    room_for(&r, count, 3 * sizeof(uint64_t)); /* ranks, their order, parts */
    room_for(&r, count, 2 * dims * sizeof(uint64_t));
    layout = take_layout(&r, allocator, err);
    if (layout == NULL) {
        return r.failed ? SFT_E_OVERFLOW : SFT_E_NOMEM;
    }
    sft_zero(&mesh, sizeof mesh);
    mesh.ranks = ranks;
    layout->kind = SFT__LAYOUT_BOXES;
    layout->dims = dims;
    layout->devices = count;
    status = keep_mesh(layout, &r, &mesh, err);
    layout->boxes = take_copy(&r, boxes, count * 2 * dims);
    part_of = take(&r, count, sizeof *part_of);
    layout->part_of = part_of;
    if (status == SFT_OK) {
        status = number_parts(layout, part_of, err);
    }
    if (status != SFT_OK) {
        sft__layout_free(layout);
        return status;
    }
    *out = layout;
    return SFT_OK;
}

void sft__layout_free(sft_layout *layout) {
    if (layout != NULL) {
        sft__base_free(layout->allocator, layout, layout->size);
    }
}

/* ---------------------------------------------------------------- ranks and parts */

size_t sft__layout_dims(const sft_layout *layout) {
    return layout->dims;
}

int sft_layout_is_flat(const sft_layout *layout) {
    return layout->kind == SFT__LAYOUT_FLAT;
}

int sft__layout_is_boxes(const sft_layout *layout) {
    return layout->kind == SFT__LAYOUT_BOXES;
}

uint64_t sft_layout_rank_count(const sft_layout *layout) {
    return layout->devices;
}

sft_status sft_layout_rank_at(const sft_layout *layout, uint64_t index, uint64_t *rank,
                              sft_error *err) {
    if (index >= layout->devices) {
        return sft__base_fail(err, SFT_E_RANGE, "device %llu of a mesh of %llu",
                              (unsigned long long)index, (unsigned long long)layout->devices);
    }
    *rank = layout->ranks != NULL ? layout->ranks[index] : layout->first_rank + index;
    return SFT_OK;
}

bool sft__layout_device(const sft_layout *layout, uint64_t rank, uint64_t *device) {
    size_t low = 0;
    size_t high = (size_t)layout->devices;
    if (layout->ranks == NULL) {
        *device = rank - layout->first_rank;
        return rank >= layout->first_rank && *device < layout->devices;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (layout->ranks[layout->by_rank[middle]] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == layout->devices || layout->ranks[layout->by_rank[low]] != rank) {
        return false;
    }
    *device = layout->by_rank[low];
    return true;
}

int sft_layout_holds(const sft_layout *layout, uint64_t rank) {
    uint64_t device;
    return sft__layout_device(layout, rank, &device);
}

uint64_t sft__layout_part_count(const sft_layout *layout) {
    return layout->parts;
}

sft_status sft__layout_part(const sft_layout *layout, uint64_t rank, uint64_t *part,
                            sft_error *err) {
    const size_t cuts = layout->kind == SFT__LAYOUT_FLAT ? 1 : layout->dims;
    uint64_t device;
    uint64_t n = 0;
    if (!sft__layout_device(layout, rank, &device)) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "rank %llu is not of this mesh",
                              (unsigned long long)rank);
    }
    if (layout->kind == SFT__LAYOUT_BOXES) {
        *part = layout->part_of[device];
        return SFT_OK;
    }
    for (size_t i = 0; i < cuts; i++) {
        for (size_t k = 0; k < layout->cuts[i].digit_count; k++) {
            const sft__layout_digit *const digit = &layout->cuts[i].digits[k];
            n = n * digit->size + device / digit->divisor % digit->size;
        }
    }
    *part = n;
    return SFT_OK;
}
