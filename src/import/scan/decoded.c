/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/decoded.c - tensors whose bytes do not lie in the file as programs read them: HDF5
 * keeps them in chunks, compressed or in an order of their own. What comes out is looked through
 * as the bytes of the file are: pickles in datasets of bytes, texts and records. Read first:
 * work.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/scan/work.h"
#include <sft/read.h>

/* What a tensor costs, in unpacked bytes, beside its own. */
enum { PIECE_COST = 256, STEP_COST = 4, STEP = 1 << 20 };

/* The catalog, for as long as a source reads from it. */
typedef struct held {
    const sft_allocator *allocator;
    sft_catalog *catalog;
    size_t refs;
} held;

typedef struct decoded {
    held *of;
    const sft_tensor *tensor;
} decoded;

static void drop(held *h) {
    if (--h->refs == 0) {
        sft_catalog_close(h->catalog);
        sft__base_free(h->allocator, h, sizeof *h);
    }
}

static sft_status decoded_read(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    const decoded *d = self;
    return sft_tensor_read_bytes(d->of->catalog, d->tensor, offset, dst, size, err);
}

static void decoded_close(void *self) {
    decoded *d = self;
    held *of = d->of;

    sft__base_free(of->allocator, d, sizeof *d);
    drop(of);
}

static sft_status open_tensor(sft_source **out, held *h, const sft_tensor *tensor, sft_error *err) {
    sft_source_vtable vtable;
    decoded *d = sft__base_alloc(h->allocator, sizeof *d);

    *out = NULL;
    SFT_NEED(d != NULL, sizeof *d, err);
    *d = (decoded){h, tensor};
    SFT_INIT(&vtable);
    vtable.read_at = decoded_read;
    vtable.close = decoded_close;
    h->refs++;
    const sft_status status = sft_source_create(
        out, &vtable, d, &(sft_source_info){tensor->nbytes, 0, "", h->allocator}, err);
    if (status != SFT_OK) {
        decoded_close(d);
    }
    return status;
}

/* Its bytes lie in the file one behind the other, or are all alike. */
static bool is_raw(const sft__import_scan_part *part, const sft_tensor *t) {
    const uint32_t member = part->format == SFT_IMPORT_KERAS; /* source 1: of the archive */
    bool alike = true;

    if (t->nbytes == 0 || t->piece_count != 1) {
        return t->nbytes == 0;
    }
    const sft_piece *p = t->pieces;
    for (uint32_t i = 0; i < t->rank && p->strides != NULL; i++) {
        alike = alike && p->strides[i] == 0;
    }
    return p->strides != NULL ? alike : p->source <= member;
}

static bool pay(sft__import_scan *s, const sft_tensor *t) {
    const uint64_t each = PIECE_COST + STEP_COST * (t->nbytes / STEP);
    uint64_t cost;

    if (!sft__base_mul64(t->piece_count, each, &cost) || !sft__base_add64(cost, t->nbytes, &cost) ||
        cost > s->unpack_left) {
        return false;
    }
    s->unpack_left -= cost;
    s->runs_left += t->nbytes; /* they are paid for here */
    s->marks_left += t->nbytes;
    return true;
}

/* What is found in it becomes tasks above the one that closes it. */
static sft_status look_into(sft__import_scan *s, const sft__import_scan_part *part, held *h,
                            const sft_tensor *t, sft_error *err) {
    sft__import_task close = {.kind = SFT__TASK_CLOSE};
    sft_error why;
    char name[200];

    (void)sft_escape(name, sizeof name, t->name, t->name_len);
    close.where = sft__import_scan_join(s, part->where, name);
    sft_status status =
        close.where != NULL ? open_tensor(&close.source, h, t, err) : sft__base_fail_nomem(err, 1);
    if (status == SFT_OK) {
        status = sft__import_scan_push(s, &close, err);
    }
    if (status != SFT_OK) {
        sft__import_task_reset(s, &close);
        return status;
    }
    const size_t above = s->count;
    const sft__import_scan_part inner = {.source = close.source,
                                         .size = t->nbytes,
                                         .where = close.where,
                                         .base = SFT_NO_OFFSET,
                                         .depth = part->depth + 1,
                                         .container = part->format};
    memset(&why, 0, sizeof why);
    status = sft__import_scan_runs(s, &inner, true, &why);
    if (status != SFT_OK && !sft__import_scan_is_outside(status)) {
        sft__import_find(s->job, SFT__RULE(CONTAINER, UNKNOWN, "hdf5-chunk"),
                         sft__import_text_at(close.where, why.offset), "%s", why.message);
        status = SFT_OK;
    } else if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    if (s->count == above) { /* nothing was */
        s->count--;
        sft__import_task_reset(s, &close);
    }
    return status;
}

sft_status sft__import_scan_decoded(sft__import_scan *s, const sft__import_scan_part *part,
                                    sft_catalog *catalog, sft_error *err) {
    held *h = sft__base_alloc(s->job->allocator, sizeof *h);
    sft_status status = SFT_OK;

    if (h == NULL) {
        sft_catalog_close(catalog);
        return sft__base_fail_nomem(err, sizeof *h);
    }
    *h = (held){s->job->allocator, catalog, 1};
    for (size_t i = 0; i < sft_catalog_count(catalog) && status == SFT_OK && !s->tired; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        if (is_raw(part, t)) {
            continue;
        }
        if (!pay(s, t)) {
            sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "unpack-limit",
                                  "more is in chunks than is looked into");
            break;
        }
        status = look_into(s, part, h, t, err);
    }
    drop(h);
    return status;
}
