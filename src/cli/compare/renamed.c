/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/renamed.c - finds names of a that b has under others. Tensors that only one of them has are
 * grouped by type and shape; within a group a sample of each is read. Samples with the same bytes
 * are pairs, where there are several those whose other bytes are the same, too, and then in the order
 * of names; of the others those that correlate most. Whether all bytes are the same is found out when
 * the pairs' values are compared. Read diff.h first.
 */
#include "cli/compare/diff.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRETCH = 1024, /* elements; a multiple of every block of the format's types */
    STRETCHES = 4,
    SAMPLE = STRETCH * STRETCHES,
    MOST_TENSORS = 200000, /* that only one has */
    MOST_ALIKE = 2048      /* of one group, so that samples take 32 MiB at most */
};
/* Bytes of a group that are read to tell it apart. */
static const uint64_t MOST_WHOLE = UINT64_C(1) << 30;
static const double ALIKE = 0.9;

typedef struct lonely {
    cli_pair *pair;
    const sft_tensor *tensor;
    bool in_b;
    bool taken;
    bool varied;     /* has more than one value in its sample, all finite: it can correlate */
    uint64_t digest; /* of the sample's bytes */
    uint64_t whole;  /* of all bytes, where samples do not tell */
    size_t n;
    float *values; /* minus their mean, of length 1; NULL: not a type of numbers */
} lonely;

typedef struct finder {
    cli_diff *d;
    lonely *items;
    size_t count;
    uint64_t skipped; /* tensors of groups that are too large to be searched for likeness */
    unsigned char bytes[SAMPLE * 16];
} finder;

/* ---------------------------------------------------------------- order */

static int by_kind(const sft_tensor *x, const sft_tensor *y) {
    if (x->dtype->id != y->dtype->id) {
        return x->dtype->id < y->dtype->id ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    for (uint32_t k = 0; k < x->rank; k++) {
        if (x->shape[k] != y->shape[k]) {
            return x->shape[k] < y->shape[k] ? -1 : 1;
        }
    }
    return 0;
}

static int by_kind_and_name(const void *a, const void *b) {
    const sft_tensor *x = ((const lonely *)a)->tensor;
    const sft_tensor *y = ((const lonely *)b)->tensor;
    const int kind = by_kind(x, y);
    return kind != 0 ? kind : cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

static int by_digest_and_name(const void *a, const void *b) {
    const lonely *x = a;
    const lonely *y = b;
    if (x->digest != y->digest) {
        return x->digest < y->digest ? -1 : 1;
    }
    return by_kind_and_name(a, b);
}

static int by_whole_and_name(const void *a, const void *b) {
    const lonely *x = a;
    const lonely *y = b;
    if (x->whole != y->whole) {
        return x->whole < y->whole ? -1 : 1;
    }
    return by_kind_and_name(a, b);
}

/* ---------------------------------------------------------------- samples */

static uint64_t digest_of(uint64_t digest, const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    }
    return digest;
}

/* Numbers as they are compared: without their mean, and of length 1. */
static void normalize(lonely *l) {
    double mean = 0;
    double length = 0;

    for (size_t i = 0; i < l->n; i++) {
        mean += (double)l->values[i] / (double)l->n;
    }
    for (size_t i = 0; i < l->n; i++) {
        const double v = (double)l->values[i] - mean;
        length += v * v;
    }
    l->varied = length > 0 && isfinite(length);
    for (size_t i = 0; i < l->n && l->varied; i++) {
        l->values[i] = (float)(((double)l->values[i] - mean) / sqrt(length));
    }
}

static sft_status take_sample(finder *f, lonely *l, bool keep, sft_error *err) {
    const sft_catalog *catalog = l->in_b ? f->d->b : f->d->a;
    const sft_dtype *type = l->tensor->dtype;
    const uint64_t elements = cli_elements(l->tensor);
    const uint64_t apart = elements <= SAMPLE ? STRETCH : elements / STRETCHES / STRETCH * STRETCH;
    size_t size = 0;

    l->n = elements < SAMPLE ? (size_t)elements : SAMPLE;
    for (uint64_t at = 0; at < l->n; at += STRETCH) {
        const uint64_t n = l->n - at < STRETCH ? l->n - at : STRETCH;
        const size_t bytes = (size_t)cli_bytes_of(type, n);
        const sft_status status =
            sft_tensor_read_bytes(catalog, l->tensor, cli_bytes_of(type, at / STRETCH * apart),
                                  f->bytes + size, bytes, err);
        if (status != SFT_OK) {
            return status;
        }
        size += bytes;
    }
    l->digest = digest_of(UINT64_C(0xcbf29ce484222325), f->bytes, size);
    if (!keep || !cli_change_measurable(type, type) || type->kind == SFT_KIND_COMPLEX || l->n < 2) {
        return SFT_OK;
    }
    l->values = cli_alloc(l->n, sizeof *l->values);
    const sft_status status =
        sft_convert(l->values, f->bytes, l->n,
                    &(sft_cast){sft_dtype_get(SFT_F32), type, SFT_CONVERT_HOST_DST}, err);
    normalize(l);
    return status;
}

/* ---------------------------------------------------------------- pairs */

static void marry(lonely *a, lonely *b) {
    a->pair->b = b->tensor;
    a->pair->renamed = true;
    a->pair->verdict = CLI_SAME; /* until values say otherwise */
    b->pair->b = NULL;           /* goes */
    a->taken = true;
    b->taken = true;
}

/* In their order, those of a as well as those of b. */
static void marry_in_order(lonely *items, size_t count) {
    size_t b = 0;

    for (size_t a = 0; a < count; a++) {
        if (items[a].in_b || items[a].taken) {
            continue;
        }
        while (b < count && (!items[b].in_b || items[b].taken)) {
            b++;
        }
        if (b < count) {
            marry(&items[a], &items[b++]);
        }
    }
}

/* Have they the same sample, and there is more than one way to pair them? */
static bool is_ambiguous(const lonely *items, size_t count) {
    const uint64_t bytes = items[0].tensor->nbytes;
    size_t of_b = 0;

    for (size_t i = 0; i < count; i++) {
        of_b += items[i].in_b;
    }
    return count > 2 && of_b > 0 && of_b < count && cli_elements(items[0].tensor) > SAMPLE &&
           bytes <= MOST_WHOLE / count;
}

static sft_status digest_whole(finder *f, lonely *l, sft_error *err) {
    const uint64_t size = l->tensor->nbytes;
    sft_status status = SFT_OK;

    l->whole = UINT64_C(0xcbf29ce484222325);
    for (uint64_t at = 0; at < size && status == SFT_OK; at += sizeof f->bytes) {
        const size_t n = size - at < sizeof f->bytes ? (size_t)(size - at) : sizeof f->bytes;
        status =
            sft_tensor_read_bytes(l->in_b ? f->d->b : f->d->a, l->tensor, at, f->bytes, n, err);
        l->whole = status == SFT_OK ? digest_of(l->whole, f->bytes, n) : 0;
    }
    return status;
}

/* Those with all bytes the same. */
static sft_status marry_whole(finder *f, lonely *items, size_t count, sft_error *err) {
    sft_status status = SFT_OK;

    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        status = digest_whole(f, &items[i], err);
    }
    qsort(items, count, sizeof *items, by_whole_and_name);
    for (size_t first = 0; first < count && status == SFT_OK;) {
        size_t end = first + 1;
        while (end < count && items[end].whole == items[first].whole) {
            end++;
        }
        marry_in_order(items + first, end - first);
        first = end;
    }
    qsort(items, count, sizeof *items, by_kind_and_name);
    return status;
}

static sft_status marry_same(finder *f, lonely *items, size_t count, sft_error *err) {
    sft_status status = SFT_OK;

    qsort(items, count, sizeof *items, by_digest_and_name);
    for (size_t first = 0; first < count && status == SFT_OK;) {
        size_t end = first + 1;
        while (end < count && items[end].digest == items[first].digest) {
            end++;
        }
        if (is_ambiguous(items + first, end - first)) {
            status = marry_whole(f, items + first, end - first, err);
        }
        marry_in_order(items + first, end - first);
        first = end;
    }
    return status;
}

typedef struct likeness {
    float price;
    size_t a;
    size_t b;
} likeness;

static int by_likeness(const void *x, const void *y) {
    const likeness *p = x;
    const likeness *q = y;
    if (p->price < q->price || q->price < p->price) {
        return p->price > q->price ? -1 : 1;
    }
    return p->a != q->a ? (p->a < q->a ? -1 : 1) : p->b < q->b ? -1 : p->b > q->b;
}

static double correlation(const lonely *a, const lonely *b) {
    double sum = 0;
    for (size_t i = 0; i < a->n; i++) {
        sum += (double)a->values[i] * (double)b->values[i];
    }
    return sum;
}

static void marry_alike(lonely *items, size_t count) {
    size_t of_a = 0;
    size_t of_b = 0;
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        const bool free_one = !items[i].taken && items[i].varied;
        of_a += free_one && !items[i].in_b;
        of_b += free_one && items[i].in_b;
    }
    if (of_a == 0 || of_b == 0) {
        return;
    }
    likeness *list = cli_alloc(of_a * of_b, sizeof *list);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count && !items[a].in_b && !items[a].taken && items[a].varied; b++) {
            if (items[b].in_b && !items[b].taken && items[b].varied) {
                const double price = correlation(&items[a], &items[b]);
                list[found] = (likeness){(float)price, a, b};
                found += price >= ALIKE;
            }
        }
    }
    qsort(list, found, sizeof *list, by_likeness);
    for (size_t i = 0; i < found; i++) {
        if (!items[list[i].a].taken && !items[list[i].b].taken) {
            marry(&items[list[i].a], &items[list[i].b]);
        }
    }
    free(list);
}

static uint64_t left_of(const lonely *items, size_t count) {
    uint64_t left = 0;
    for (size_t i = 0; i < count; i++) {
        left += !items[i].taken;
    }
    return left;
}

static sft_status search_group(finder *f, lonely *items, size_t count, sft_error *err) {
    bool both = false;
    sft_status status = SFT_OK;

    for (size_t i = 1; i < count && !both; i++) {
        both = items[i].in_b != items[0].in_b;
    }
    for (size_t i = 0; i < count && both && status == SFT_OK; i++) {
        status = cli_stopped(f->d->c) ? CLI_ERROR(err, SFT_E_CANCELLED, "interrupted")
                                      : take_sample(f, &items[i], count <= MOST_ALIKE, err);
    }
    if (both && status == SFT_OK) {
        status = marry_same(f, items, count, err);
    }
    if (both && status == SFT_OK) {
        marry_alike(items, count);
        f->skipped += count > MOST_ALIKE ? left_of(items, count) : 0;
    }
    for (size_t i = 0; i < count; i++) {
        free(items[i].values);
        items[i].values = NULL;
    }
    return status;
}

static void collect(finder *f) {
    for (size_t i = 0; i < f->d->count; i++) {
        cli_pair *p = &f->d->pairs[i];
        if (p->verdict == CLI_ONLY_A || p->verdict == CLI_ONLY_B) {
            const bool in_b = p->verdict == CLI_ONLY_B;
            f->items[f->count++] = (lonely){.pair = p, .tensor = in_b ? p->b : p->a, .in_b = in_b};
        }
    }
    qsort(f->items, f->count, sizeof *f->items, by_kind_and_name);
}

/* Pairs that b alone had stand last, so that no other pair moves. */
static void drop_married(cli_diff *d) {
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->pairs[i].a != NULL || d->pairs[i].b != NULL) {
            d->pairs[kept++] = d->pairs[i];
        }
    }
    d->count = kept;
}

bool cli_diff_find_renamed(cli_diff *d) {
    uint64_t only[2] = {0, 0};
    sft_status status = SFT_OK;
    sft_error err;

    for (size_t i = 0; i < d->count; i++) {
        only[0] += d->pairs[i].verdict == CLI_ONLY_A;
        only[1] += d->pairs[i].verdict == CLI_ONLY_B;
    }
    if (only[0] == 0 || only[1] == 0) {
        return true;
    }
    if (only[0] + only[1] > MOST_TENSORS) {
        cli_warn(d->c, NULL,
                 "%llu tensors are in one model alone: too many to look for renamed ones",
                 (unsigned long long)(only[0] + only[1]));
        return true;
    }
    finder *f = cli_alloc(1, sizeof *f);
    f->d = d;
    f->items = cli_alloc((size_t)(only[0] + only[1]), sizeof *f->items);
    collect(f);
    for (size_t first = 0; first < f->count && status == SFT_OK;) {
        size_t end = first + 1;
        while (end < f->count && by_kind(f->items[first].tensor, f->items[end].tensor) == 0) {
            end++;
        }
        status = search_group(f, f->items + first, end - first, &err);
        first = end;
    }
    if (f->skipped > 0) {
        cli_warn(d->c, NULL,
                 "%llu tensors of one shape: too many to look for renamed ones with other values",
                 (unsigned long long)f->skipped);
    }
    free(f->items);
    free(f);
    drop_married(d);
    if (status != SFT_OK) {
        cli_fail(d->c, NULL, &err);
    }
    return status == SFT_OK;
}
