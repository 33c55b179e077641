/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/tiling.c - do explicit boxes fill a tensor, each element once? And if not, which box
 * is missing. Read checkpoint/open/tiling.h first.
 */
#include "checkpoint/open/tiling.h"
#include "base/error.h"
#include "base/text/buf.h"
#include <sft/extend.h>
#include <stdlib.h>

#define MAX_REST 65536u /* boxes that are left over while a hole is looked for */

typedef sft__checkpoint_box one_box;

void sft__checkpoint_box_describe(char *text, size_t room, const uint64_t *start,
                                  const uint64_t *count, size_t dims) {
    sft__base_buf b;
    sft__base_buf_init(&b, NULL);
    sft__base_buf_text(&b, "[");
    for (size_t d = 0; d < dims; d++) {
        sft__base_buf_text(&b, d == 0 ? "" : ", ");
        sft__base_buf_u64(&b, start[d]);
        sft__base_buf_text(&b, ":");
        sft__base_buf_u64(&b, start[d] + count[d]);
    }
    sft__base_buf_add(&b, "]", 2); /* with its NUL */
    (void)sft_escape(text, room, b.failed ? "" : b.data, b.failed ? 0 : b.len - 1);
    sft__base_buf_reset(&b);
}

/* Parts of a cut or flat layout tile the tensor. Explicit boxes must be shown to: they are apart,
 * and their elements are as many as the tensor's. Sorted by one dimension, only neighbours that
 * reach into each other there are compared. */
static int compare_boxes(const void *a, const void *b) {
    const one_box *const x = a;
    const one_box *const y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static bool overlap(const one_box *a, const one_box *b, size_t dims) {
    for (size_t d = 0; d < dims; d++) {
        if (a->start[d] + a->count[d] <= b->start[d] || b->start[d] + b->count[d] <= a->start[d]) {
            return false;
        }
    }
    return true;
}

/* What is left of the tensor when the boxes are taken out, as boxes: one of them is named. */
typedef struct rest {
    const sft_allocator *allocator;
    uint64_t *numbers; /* start and count of each */
    size_t count;
    size_t room;
    size_t dims;
} rest;

static bool push_rest(rest *r, const uint64_t *start, const uint64_t *count) {
    if (r->count >= MAX_REST ||
        !sft__base_grow(r->allocator, &r->numbers, &r->room, (r->count + 1) * (2 * r->dims + 1),
                        sizeof *r->numbers)) {
        return false;
    }
    memcpy(r->numbers + r->count * 2 * r->dims, start, r->dims * sizeof *start);
    memcpy(r->numbers + r->count++ * 2 * r->dims + r->dims, count, r->dims * sizeof *count);
    return true;
}

/* Box number i without `box`: along each dimension what lies below and above of it. */
static bool take_out(rest *r, size_t i, const one_box *box) {
    uint64_t start[SFT_LAYOUT_RANK], count[SFT_LAYOUT_RANK];
    memcpy(start, r->numbers + i * 2 * r->dims, r->dims * sizeof *start);
    memcpy(count, r->numbers + i * 2 * r->dims + r->dims, r->dims * sizeof *count);
    r->count--;
    memmove(r->numbers + i * 2 * r->dims, r->numbers + r->count * 2 * r->dims,
            2 * r->dims * sizeof *r->numbers);
    for (size_t d = 0; d < r->dims; d++) {
        const uint64_t end = start[d] + count[d];
        const uint64_t low = box->start[d] > start[d] ? box->start[d] : start[d];
        const uint64_t box_end = box->start[d] + box->count[d];
        const uint64_t high = box_end < end ? box_end : end;
        count[d] = low - start[d];
        if (count[d] != 0 && !push_rest(r, start, count)) {
            return false;
        }
        const uint64_t from = start[d];
        start[d] = high;
        count[d] = end - high;
        if (count[d] != 0 && !push_rest(r, start, count)) {
            return false;
        }
        start[d] = low > from ? low : from;
        count[d] = high - low;
    }
    return true;
}

static sft_status name_hole(const sft__checkpoint_tiling *s, const one_box *boxes, size_t count) {
    const uint64_t zero[SFT_LAYOUT_RANK] = {0};
    rest r = {s->allocator, NULL, 0, 0, s->dims};
    char text[160] = "";
    bool ok = push_rest(&r, zero, s->shape);
    for (size_t i = 0; i < count && ok; i++) {
        for (size_t k = r.count; k-- > 0 && ok;) {
            const one_box left = {r.numbers + k * 2 * r.dims, r.numbers + k * 2 * r.dims + r.dims,
                                  0, 0};
            if (overlap(&left, &boxes[i], s->dims)) {
                ok = take_out(&r, k, &boxes[i]);
            }
        }
    }
    if (ok && r.count != 0) {
        sft__checkpoint_box_describe(text, sizeof text, r.numbers, r.numbers + r.dims, r.dims);
    }
    sft__base_free(s->allocator, r.numbers, r.room * sizeof *r.numbers);
    return sft__base_fail_tensor(s->err, SFT_E_HOLE, SFT_NO_OFFSET, s->like->name,
                                 s->like->name_len, "no file holds the box %s",
                                 text[0] != '\0' ? text : "(one of very many)");
}

/* By the dimension that is cut most, judged by the first box: fewest neighbours reach into each
 * other there. Scalars all do. */
static void sort_boxes(const sft__checkpoint_tiling *s, one_box *boxes, size_t count) {
    size_t by = 0;
    for (size_t d = 1; d < s->dims && count != 0; d++) {
        /* shape[d] / count[d] > shape[by] / count[by]; boxes that are here are not empty */
        by = s->shape[d] / boxes[0].count[d] > s->shape[by] / boxes[0].count[by] ? d : by;
    }
    for (size_t i = 0; i < count; i++) {
        boxes[i].low = s->dims == 0 ? 0 : boxes[i].start[by];
        boxes[i].high = s->dims == 0 ? 1 : boxes[i].start[by] + boxes[i].count[by];
    }
    if (count > 1) {
        qsort(boxes, count, sizeof *boxes, compare_boxes);
    }
}

sft_status sft__checkpoint_tiling_check(const sft__checkpoint_tiling *s, one_box *boxes,
                                        size_t count) {
    uint64_t wanted = 1;
    uint64_t held = 0;
    for (size_t d = 0; d < s->dims; d++) {
        wanted *= s->shape[d]; /* checked: the layout was */
    }
    sort_boxes(s, boxes, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t n = 1;
        for (size_t d = 0; d < s->dims; d++) {
            n *= boxes[i].count[d];
        }
        held += n;
        for (size_t k = i + 1; k < count && boxes[k].low < boxes[i].high; k++) {
            if (overlap(&boxes[i], &boxes[k], s->dims)) {
                return sft__base_fail_tensor(s->err, SFT_E_OVERLAP, SFT_NO_OFFSET, s->like->name,
                                             s->like->name_len,
                                             "two boxes overlap without being replicas");
            }
        }
    }
    return held == wanted ? SFT_OK : name_hole(s, boxes, count);
}
