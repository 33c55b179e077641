/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tflite/tflite_add.c - the tensors that were found, into the catalog: TFLite asks for no
 * names of their own, and tensors may share a buffer. Read first: tflite.h.
 */
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/tflite/tflite.h"
#include <stdio.h>
#include <stdlib.h>

/* A name that an earlier tensor has gets the tensor's number behind it. */
static sft_status tell_apart(sft__import_tflite *x, sft__base_strmap *names, sft_error *err) {
    for (size_t i = 0; i < x->count; i++) {
        sft__import_tflite_row *r = &x->rows[i];
        if (sft__base_strmap_add(names, i) == SFT__STRMAP_NONE) {
            continue;
        }
        char *name;
        const size_t room = r->len + 32;
        sft__import_find(x->job, SFT__RULE(NOTE, HARMLESS, "tflite-name"),
                         SFT__AT(r->name, r->len, r->offset),
                         "a name that several tensors have: a number is put behind it");
        SFT_TRY(sft__import_alloc(x->job, &name, room, 1, err));
        memcpy(name, r->name, r->len);
        const int n = snprintf(name + r->len, room - r->len, "#%llu", (unsigned long long)r->order);
        r->name = name;
        r->len += (size_t)n;
        if (sft__base_strmap_add(names, i) != SFT__STRMAP_NONE) {
            return sft__base_fail_tensor(err, SFT_E_DUPLICATE, r->offset, r->name, r->len,
                                         "name given twice");
        }
    }
    return SFT_OK;
}

static int by_number(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* Equal where two rows are one tensor. */
static int same_tensor(const sft__import_tflite_row *x, const sft__import_tflite_row *y) {
    int c = by_number(x->source, y->source);

    c = c != 0 ? c : by_number(x->offset, y->offset);
    c = c != 0 ? c : by_number(x->nbytes, y->nbytes);
    c = c != 0 ? c : by_number(x->dtype->id, y->dtype->id);
    c = c != 0 ? c : by_number(x->rank, y->rank);
    for (uint32_t d = 0; d < x->rank && c == 0; d++) {
        c = by_number(x->shape[d], y->shape[d]);
    }
    return c;
}

static int by_place(const void *a, const void *b) {
    const sft__import_tflite_row *x = *(const sft__import_tflite_row *const *)a;
    const sft__import_tflite_row *y = *(const sft__import_tflite_row *const *)b;
    const int c = same_tensor(x, y);

    return c != 0 ? c : by_number(x->order, y->order);
}

static bool is_smaller(const sft__import_tflite_row *x, const sft__import_tflite_row *y) {
    const size_t n = x->len < y->len ? x->len : y->len;
    const int c = memcmp(x->name, y->name, n);
    return c != 0 ? c < 0 : x->len < y->len;
}

static sft_status add_row(sft__import_tflite *x, const sft__import_tflite_row *r, sft_error *err) {
    const sft_piece piece = {.offset = r->offset, .source = r->source};
    const sft_tensor t = {.name = r->name,
                          .name_len = r->len,
                          .dtype = r->dtype,
                          .shape = r->shape,
                          .rank = r->rank,
                          .pieces = &piece,
                          .piece_count = 1};
    return sft__import_tensor(x->job, &t, err);
}

/* sorted[first] to sorted[end - 1] are one tensor: which name it has, in of[] for all of them. */
static sft_status choose(sft__import_tflite *x, sft__import_tflite_row **sorted, size_t first,
                         size_t end, const sft__import_tflite_row **of, sft_error *err) {
    const sft_import_dedup dedup = x->job->options.dedup;
    const sft__import_tflite_row *kept = sorted[first];
    const bool apart = dedup == SFT_DEDUP_KEEP || kept->nbytes == 0;

    if (end - first > 1 && !apart && dedup == SFT_DEDUP_ERROR) {
        return sft__base_fail_tensor(err, SFT_E_DUPLICATE, kept->offset, sorted[first + 1]->name,
                                     sorted[first + 1]->len, "shares its storage with %.200s",
                                     kept->name);
    }
    for (size_t i = first; i < end && (dedup == SFT_DEDUP_HF || dedup == SFT_DEDUP_ALIAS); i++) {
        kept = is_smaller(sorted[i], kept) ? sorted[i] : kept;
    }
    for (size_t i = first; i < end; i++) {
        of[sorted[i]->order] = apart ? sorted[i] : kept;
    }
    return SFT_OK;
}

/* Buffers that share bytes without being one are no writer's. */
static sft_status overlaps(sft__import_tflite *x, sft__import_tflite_row *const *sorted,
                           sft_error *err) {
    uint64_t reach = 0;
    uint64_t begin = 0;
    uint32_t source = 0;

    for (size_t i = 0; i < x->count; i++) {
        const sft__import_tflite_row *r = sorted[i];
        if (r->nbytes == 0) {
            continue;
        }
        const bool same = r->source == source && r->offset == begin;
        if (r->source == source && r->offset < reach && !(same && r->offset + r->nbytes == reach)) {
            return sft__import_trick(x->job, SFT__RULE(CONTAINER, UNKNOWN, "tflite-overlap"),
                                     sft__import_text_at(r->name, r->offset), err,
                                     "the data of two buffers share bytes");
        }
        source = r->source;
        begin = r->offset;
        reach = r->offset + r->nbytes; /* inside its source */
    }
    return SFT_OK;
}

static sft_status add_all(sft__import_tflite *x, sft_error *err) {
    sft__import_tflite_row **sorted;
    const sft__import_tflite_row **of;

    SFT_TRY(sft__import_alloc(x->job, &sorted, x->count, sizeof *sorted, err));
    SFT_TRY(sft__import_alloc(x->job, &of, x->count, sizeof *of, err));
    for (size_t i = 0; i < x->count; i++) {
        sorted[i] = &x->rows[i];
    }
    if (x->count > 1) {
        qsort(sorted, x->count, sizeof *sorted, by_place);
    }
    SFT_TRY(overlaps(x, sorted, err));
    for (size_t first = 0, end; first < x->count; first = end) {
        for (end = first + 1; end < x->count && same_tensor(sorted[first], sorted[end]) == 0;) {
            end++;
        }
        SFT_TRY(choose(x, sorted, first, end, of, err));
    }
    for (size_t i = 0; i < x->count; i++) {
        if (of[i] == &x->rows[i]) {
            SFT_TRY(add_row(x, of[i], err));
        }
    }
    for (size_t i = 0; i < x->count; i++) {
        const sft__import_tflite_row *r = &x->rows[i];
        if (of[i] != r) {
            SFT_TRY(sft_builder_add_alias(x->job->builder, r->name, r->len, of[i]->name, of[i]->len,
                                          err));
        }
    }
    return SFT_OK;
}

sft_status sft__import_tflite_add(sft__import_tflite *x, sft_error *err) {
    sft__base_strmap names;

    if (x->count == 0) {
        return SFT_OK;
    }
    SFT_NEED(sft__base_strmap_init(&names, x->rows, sizeof *x->rows, x->count, x->job->allocator),
             x->count * sizeof *x->rows, err);
    sft_status status = tell_apart(x, &names, err);
    sft__base_strmap_reset(&names);
    return status == SFT_OK ? add_all(x, err) : status;
}
