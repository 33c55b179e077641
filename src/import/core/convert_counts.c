/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/convert_counts.c - of --verify: do the tensors of an input have all bytes that its
 * container gave them? A copy that is compared with the catalog it was made from cannot say so.
 * Read first: convert.h.
 */
#include "base/checked.h"
#include "import/core/convert.h"
#include <stdlib.h>

typedef struct extent {
    uint32_t source;
    uint64_t first;
    uint64_t end;
} extent;

static int by_place(const void *a, const void *b) {
    const extent *x = a;
    const extent *y = b;

    return x->source != y->source ? (x->source < y->source ? -1 : 1)
           : x->first != y->first ? (x->first < y->first ? -1 : 1)
                                  : 0;
}

/* Where a tensor of one piece lies, by its type and shape. */
static extent extent_of(const sft_tensor *t) {
    const sft_piece *p = &t->pieces[0];
    extent e = {p->source, p->offset, p->offset + t->nbytes};

    if (p->strides != NULL && t->nbytes != 0) { /* the builder has checked it */
        e.end = p->offset + t->dtype->block_bytes;
        for (uint32_t d = 0; d < t->rank; d++) {
            e.end += p->strides[d] > 0 ? (t->shape[d] - 1) * (uint64_t)p->strides[d] : 0;
        }
    }
    return e;
}

sft_status sft__convert_counts(const sft__conversion *c, const sft_catalog *catalog,
                               const sft_import_report *report, sft_error *err) {
    const uint64_t want = sft__report_covered_bytes(report);
    const size_t count = sft_catalog_count(catalog);
    uint64_t have = 0;
    uint64_t reach = 0;

    if (want == 0) {
        return SFT_OK;
    }
    extent *list = sft__alloc_array(c->allocator, count + 1, sizeof *list);
    if (list == NULL) {
        return sft__fail_nomem(err, count * sizeof *list);
    }
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        list[i] = t->piece_count == 1 ? extent_of(t) : (extent){0, 0, 0};
    }
    qsort(list, count, sizeof *list, by_place);
    for (size_t i = 0; i < count; i++) {
        reach = i == 0 || list[i].source != list[i - 1].source ? 0 : reach;
        const uint64_t from = list[i].first > reach ? list[i].first : reach;
        have += list[i].end > from ? list[i].end - from : 0;
        reach = list[i].end > reach ? list[i].end : reach;
    }
    sft__free(c->allocator, list, (count + 1) * sizeof *list);
    return have >= want ? SFT_OK
                        : sft__fail(err, SFT_E_MISMATCH,
                                    "verify: the tensors have %llu bytes of the storages, which "
                                    "gave them %llu",
                                    (unsigned long long)have, (unsigned long long)want);
}
