/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/dcp/dcp_items.c - the files of a checkpoint: which there are, where an item lies in them, and
 * what it is: an archive that torch.save wrote, with one tensor, read as such a file is. Read
 * first: dcp.h.
 */
#include "base/checked.h"
#include "import/core/beside.h"
#include "import/dcp/dcp.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- order */

static int order64(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_items(const sft__import_dcp_item *x, const sft__import_dcp_item *y) {
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int o = memcmp(x->name, y->name, n);

    o = o != 0 ? o : order64(x->name_len, y->name_len);
    o = o != 0 ? o : (x->at != NULL) - (y->at != NULL);
    o = o != 0 ? o : order64(x->rank, y->rank);
    for (uint32_t k = 0; o == 0 && k < x->rank; k++) {
        o = order64(x->at[k], y->at[k]);
    }
    return o;
}

static int by_name(const void *a, const void *b) {
    return compare_items(a, b);
}

static int by_path(const void *a, const void *b) {
    const sft__import_dcp_item *x = *(sft__import_dcp_item *const *)a;
    const sft__import_dcp_item *y = *(sft__import_dcp_item *const *)b;
    const int o = strcmp(x->path, y->path);
    return o != 0 ? o : order64(x->offset, y->offset);
}

sft__import_dcp_item *sft__import_dcp_find(const sft__import_dcp *d, const char *name,
                                           size_t name_len, const uint64_t *at, uint32_t rank) {
    const sft__import_dcp_item want = {.name = name, .name_len = name_len, .at = at, .rank = rank};
    size_t low = 0;
    size_t high = d->item_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int o = compare_items(&want, &d->items[middle]);
        if (o == 0) {
            return &d->items[middle];
        }
        if (o < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- files */

static sft_status open_file(sft__import_dcp *d, const char *path, sft_error *err) {
    sft__import_dcp_file *f = &d->files[d->file_count];
    sft_source *source;
    sft_error why;

    memset(&why, 0, sizeof why);
    const sft_status status =
        sft__import_beside_open(&source, d->job, path, d->file_count < SFT__BESIDE_OPEN, &why);
    if (status != SFT_OK) {
        char shown[200];
        (void)sft_escape(shown, sizeof shown, path, strlen(path));
        return sft__base_fail(err, status == SFT_E_IO ? SFT_E_SHARD_MISSING : status,
                              "dcp-file: \"%s\", which .metadata names: %.200s", shown,
                              why.message);
    }
    f->path = path;
    f->source = source;
    if (!sft__base_add64(d->job->beside_bytes, sft_source_size(source), &d->job->beside_bytes)) {
        d->job->beside_bytes = UINT64_MAX;
    }
    d->file_count++;
    return sft_builder_add_source(d->job->builder, source, &f->index, err);
}

/* In the order of the files: each opened once; items inside them, one behind the other. */
static sft_status walk_files(sft__import_dcp *d, sft__import_dcp_item **sorted, sft_error *err) {
    uint64_t end = 0;
    uint64_t used = 0;

    for (size_t i = 0; i < d->item_count; i++) {
        sft__import_dcp_item *item = sorted[i];
        if (i == 0 || strcmp(item->path, sorted[i - 1]->path) != 0) {
            SFT_TRY(open_file(d, item->path, err));
            end = 0;
        }
        item->file = (uint32_t)d->file_count - 1;
        const uint64_t size = sft_source_size(d->files[item->file].source);
        if (item->offset > size || item->length > size - item->offset) {
            return sft__base_fail_tensor(
                err, SFT_E_OFFSETS, item->offset, item->name, item->name_len,
                "dcp-file: %llu bytes at %llu of %.100s, which has %llu",
                (unsigned long long)item->length, (unsigned long long)item->offset, item->path,
                (unsigned long long)size);
        }
        if (item->offset < end && item->length != 0) {
            return sft__base_fail_tensor(
                err, SFT_E_OVERLAP, item->offset, item->name, item->name_len,
                "dcp-file: it shares bytes of %.100s with another item", item->path);
        }
        end = item->length != 0 ? item->offset + item->length : end;
        used += item->length;
    }
    if (d->job->beside_bytes > used) {
        sft__import_report_unused(d->job->report, d->job->beside_bytes - used);
    }
    return SFT_OK;
}

sft_status sft__import_dcp_files(sft__import_dcp *d, sft_error *err) {
    sft__import_dcp_item **sorted;
    size_t files = 0;

    if (d->item_count == 0) {
        return SFT_OK;
    }
    qsort(d->items, d->item_count, sizeof *d->items, by_name);
    for (size_t i = 1; i < d->item_count; i++) {
        const sft__import_dcp_item *item = &d->items[i];
        if (compare_items(item, item - 1) == 0) {
            return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, item->name,
                                         item->name_len, "dcp-metadata: one box has two places");
        }
    }
    SFT_TRY(sft__import_alloc(d->job, &sorted, d->item_count, sizeof *sorted, err));
    for (size_t i = 0; i < d->item_count; i++) {
        sorted[i] = &d->items[i];
    }
    qsort(sorted, d->item_count, sizeof *sorted, by_path);
    for (size_t i = 0; i < d->item_count; i++) {
        files += i == 0 || strcmp(sorted[i]->path, sorted[i - 1]->path) != 0;
    }
    SFT_TRY(sft__import_alloc(d->job, &d->files, files, sizeof *d->files, err));
    return walk_files(d, sorted, err);
}

/* ---------------------------------------------------------------- items */

typedef struct glance {
    sft__import_view view;
    uint64_t shape[SFT__TORCH_RANK_MAX];
    int64_t strides[SFT__TORCH_RANK_MAX];
    bool tensor;
    bool storages;
} glance;

/* Reads the item as the file that it is, and gives back the memory that it took. */
static sft_status look(sft__import_dcp *d, const sft__import_dcp_item *item, glance *g,
                       sft_error *err) {
    const sft__import_dcp_file *f = &d->files[item->file];
    const sft_source *outer = d->job->file;
    const sft__base_arena before = d->job->arena;
    const uint32_t flags = d->job->options.flags;
    sft_source *part;

    SFT_TRY(sft__import_source_part(&part, f->source,
                                    (sft__import_extent){item->offset, item->length}, f->path,
                                    d->job->allocator, err));
    d->job->file = part;
    const sft_status status =
        sft__import_torch_zip_item(d->job, &g->view, &g->tensor, &g->storages, err);
    d->job->file = outer;
    d->job->options.flags = flags; /* of archives without checksums */
    if (status == SFT_OK && g->tensor) {
        for (uint32_t k = 0; k < g->view.rank; k++) {
            g->shape[k] = g->view.shape[k];
            g->strides[k] = g->view.strides[k];
        }
        g->view.shape = g->shape;
        g->view.strides = g->strides;
    }
    sft_source_close(part);
    sft__base_arena_rewind(&d->job->arena, &before);
    return status;
}

sft_status sft__import_dcp_object(sft__import_dcp *d, const sft__import_dcp_item *item,
                                  bool *tensors, sft_error *err) {
    sft_error why;
    glance g;

    memset(&g, 0, sizeof g);
    memset(&why, 0, sizeof why);
    const sft_status status = look(d, item, &g, &why);
    *tensors = g.storages;
    if (status == SFT_E_NOMEM || status == SFT_E_IO || status == SFT_E_LIMIT) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    if (status != SFT_OK) { /* an object of classes that are not known: it stays outside anyway */
        sft__import_find(d->job,
                         (sft__import_rule){SFT_FINDING_CONTAINER,
                                            d->job->scanning ? SFT_SCAN_UNKNOWN : SFT_SCAN_HARMLESS,
                                            "dcp-object"},
                         SFT__NAMED(item, why.offset), "%s", why.message);
    }
    return SFT_OK;
}

static sft_status wrong(const sft__import_dcp_item *item, sft_error *err, const char *what) {
    return sft__base_fail_tensor(err, SFT_E_MISMATCH, item->offset, item->name, item->name_len,
                                 "dcp-item: what lies in %.100s %s", item->path, what);
}

sft_status sft__import_dcp_place(sft__import_dcp *d, const sft__import_dcp_item *item,
                                 const sft_tensor *box, sft_piece *piece, int64_t *strides,
                                 sft_error *err) {
    glance g;

    memset(&g, 0, sizeof g);
    SFT_TRY(look(d, item, &g, err));
    if (!g.tensor) {
        return wrong(item, err, "is no tensor");
    }
    if (g.view.dtype->id != box->dtype->id) {
        return wrong(item, err, "has another type than .metadata says");
    }
    bool same = g.view.rank == box->rank;
    for (uint32_t k = 0; same && k < box->rank; k++) {
        same = g.view.shape[k] == box->shape[k];
    }
    if (!same) {
        return wrong(item, err, "has another shape than .metadata says");
    }
    if (g.view.source != 0 || g.view.swap || g.view.conjugate || g.view.negative) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, item->offset, item->name,
                                     item->name_len,
                                     "dcp-item: it is compressed, big-endian or conjugated");
    }
    piece->source = d->files[item->file].index;
    piece->offset = item->offset + g.view.first; /* inside the part */
    bool packed = sft__import_torch_is_whole(&g.view);
    for (uint32_t k = 0; k < box->rank; k++) {
        packed = packed || box->shape[k] == 0;
        strides[k] = g.strides[k];
    }
    piece->strides = packed ? NULL : strides;
    return SFT_OK;
}
