/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/view.c - slices of a tensor as sequences of blocks. A block is a box of the slice: single
 * indices in the dimensions before `axis`, a part of `axis`, everything behind it. Read view.h
 * first.
 */
#include "cli/look/view.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- operands */

static void add_pick(cli_picks *picks, const sft_tensor *tensor, const char *ranges, size_t len) {
    if (picks->count == picks->room) {
        picks->room = picks->room * 2 + 16;
        picks->items = cli_resize(picks->items, picks->room, sizeof *picks->items);
    }
    picks->items[picks->count++] = (cli_pick){tensor, ranges, len};
}

static bool add_matches(const sft_catalog *catalog, const char *pattern, const char *ranges,
                        size_t ranges_len, cli_picks *picks) {
    const size_t before = picks->count;
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *tensor = sft_catalog_at(catalog, i);
        if (cli_match(pattern, tensor->name, tensor->name_len)) {
            add_pick(picks, tensor, ranges, ranges_len);
        }
    }
    return picks->count > before;
}

static bool are_ranges(const char *text, size_t len) {
    sft_slice slices[64];
    size_t count;
    return sft_slice_parse(text, len, slices, 64, &count, NULL) == SFT_OK;
}

void cli_fail_no_tensor(cli *c, const char *file, const sft_catalog *catalog, const char *name,
                        size_t len) {
    enum { LOOKED_AT = 20000 };
    const size_t total = sft_catalog_count(catalog);
    const size_t count = total < LOOKED_AT ? total : LOOKED_AT;
    const char **words = cli_alloc(count, sizeof *words);
    char *word = cli_copy_bytes(name, len);
    sft_error err;

    for (size_t i = 0; i < count; i++) {
        words[i] = sft_catalog_at(catalog, i)->name;
    }
    const char *closest = cli_closest(word, words, count);
    (void)sft_error_at(&err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, name, len, "no such tensor%s%s%s",
                       closest != NULL ? "; did you mean \"" : "", closest != NULL ? closest : "",
                       closest != NULL ? "\"?" : "");
    cli_fail(c, file, &err);
    free(word);
    free(words);
}

bool cli_pick_operand(cli *c, const char *file, const sft_catalog *catalog, const char *operand,
                      cli_picks *picks) {
    const size_t len = strlen(operand);
    const sft_tensor *tensor = sft_catalog_find(catalog, operand, len);
    const char *bracket = strrchr(operand, '[');
    bool found = false;

    if (tensor != NULL) {
        add_pick(picks, tensor, NULL, 0);
        return true;
    }
    if (bracket != NULL && operand[len - 1] == ']') {
        const size_t name_len = (size_t)(bracket - operand);
        const size_t ranges_len = len - name_len - 2;
        tensor = sft_catalog_find(catalog, operand, name_len);
        if (tensor != NULL) {
            add_pick(picks, tensor, bracket + 1, ranges_len);
            return true;
        }
        if (name_len > 0 && are_ranges(bracket + 1, ranges_len)) {
            char *pattern = cli_copy_bytes(operand, name_len);
            found = add_matches(catalog, pattern, bracket + 1, ranges_len, picks);
            free(pattern);
        }
    }
    if (!found && !add_matches(catalog, operand, NULL, 0, picks)) {
        cli_fail_no_tensor(c, file, catalog, operand, len);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- views */

static sft_status resolve(cli_view *view, const cli_pick *pick, sft_error *err) {
    const sft_tensor *tensor = view->tensor;
    sft_slice *slices = cli_alloc(CLI_MOST_SLICES, sizeof *slices);
    size_t count = 0;
    sft_status status = SFT_OK;

    if (pick != NULL && pick->ranges != NULL) {
        status =
            sft_slice_parse(pick->ranges, pick->ranges_len, slices, CLI_MOST_SLICES, &count, err);
        if (status != SFT_OK && err != NULL) {
            err->offset = SFT_NO_OFFSET; /* a place in the operand, not in the file */
        }
    }
    if (status == SFT_OK) {
        status = sft_slice_resolve(slices, count, tensor->shape, tensor->rank, view->dims, err);
    }
    free(slices);
    return status;
}

/* Chooses the dimension to cut. The product of counts is the result's element count, which fits 64
 * bits: a slice has at most the elements of its tensor, or none. */
static void plan_blocks(cli_view *view) {
    const sft_tensor *tensor = view->tensor;
    uint64_t inner = 1;
    uint32_t k = tensor->rank;

    while (k > 0 && (view->dims[k - 1].count <= view->block / inner)) {
        inner *= view->dims[k - 1].count;
        k--;
    }
    if (k == 0) { /* all in one */
        view->axis = 0;
        view->chunk = tensor->rank > 0 ? view->dims[0].count : 1;
        view->per_axis = 1;
        view->units = 1;
        return;
    }
    view->axis = k - 1;
    view->chunk = view->block / inner;
    view->chunk -= view->chunk >= 8 ? view->chunk % 8 : 0;
    view->per_axis = (view->dims[k - 1].count - 1) / view->chunk + 1;
    view->units = view->per_axis;
    for (uint32_t i = 0; i + 1 < k; i++) {
        view->units *= view->dims[i].count;
    }
}

sft_status cli_view_init(cli_view *view, const sft_catalog *catalog, const sft_tensor *tensor,
                         const cli_pick *pick, size_t block, sft_error *err) {
    memset(view, 0, sizeof *view);
    view->catalog = catalog;
    view->tensor = tensor;
    view->block = block;
    view->dims = cli_alloc(tensor->rank, sizeof *view->dims);
    const sft_status status = resolve(view, pick, err);
    if (status != SFT_OK) {
        cli_view_reset(view);
        return status;
    }
    view->whole = true;
    view->elements = 1;
    for (uint32_t k = 0; k < tensor->rank; k++) {
        const sft_dim *d = &view->dims[k];
        view->whole = view->whole && d->count == tensor->shape[k] && (d->step == 1 || d->count < 2);
        if (d->count == 0) {
            view->elements = 0;
            return SFT_OK;
        }
    }
    for (uint32_t k = 0; k < tensor->rank; k++) {
        view->elements *= view->dims[k].count;
    }
    if (view->whole) {
        view->units = (view->elements - 1) / block + 1;
    } else {
        plan_blocks(view);
    }
    return SFT_OK;
}

void cli_view_reset(cli_view *view) {
    free(view->dims);
    memset(view, 0, sizeof *view);
}

size_t cli_view_scratch(const cli_view *view) {
    const size_t rank = view->tensor->rank;
    return (rank + 1) * (sizeof(sft_slice) + 2 * sizeof(uint64_t));
}

/* Elements low .. low + count of a resolved dimension, as a slice. The element before the first one
 * cannot be written as a stop: -1 means the last one, so it is left out. */
static sft_slice part_of(const sft_dim *d, uint64_t low, uint64_t count) {
    sft_slice s = {0, 0, 1, SFT_SLICE_RANGE, 0};
    const int64_t first = (int64_t)d->start + (int64_t)low * d->step;

    s.start = first;
    if (d->dropped != 0) {
        s.kind = SFT_SLICE_INDEX;
        return s;
    }
    if (count == 1) { /* whatever the step */
        s.stop = first + 1;
        return s;
    }
    const int64_t last = first + (int64_t)(count - 1) * d->step;
    s.step = d->step;
    s.stop = d->step > 0 ? last + 1 : last > 0 ? last - 1 : SFT_OMIT;
    return s;
}

sft_status cli_view_read_box(const cli_view *view, const uint64_t *low, const uint64_t *count,
                             const cli_view_room *room, sft_error *err) {
    sft_slice *slices = room->scratch;
    sft_read_options options;

    for (uint32_t k = 0; k < view->tensor->rank; k++) {
        slices[k] = part_of(&view->dims[k], low[k], count[k]);
    }
    SFT_INIT(&options);
    options.slices = slices;
    options.slice_count = view->tensor->rank;
    return sft_tensor_read(view->catalog, view->tensor, &options, room->data, room->size, err);
}

static sft_status read_whole(const cli_view *view, uint64_t unit, const cli_view_room *room,
                             size_t *elements, sft_error *err) {
    const sft_dtype *dtype = view->tensor->dtype;
    const uint64_t first = unit * view->block; /* below view->elements */
    const uint64_t left = view->elements - first;
    const size_t n = left < view->block ? (size_t)left : view->block;
    const uint64_t offset = first / dtype->block_elements * dtype->block_bytes;
    const uint64_t size = n / dtype->block_elements * dtype->block_bytes;

    *elements = n;
    if (size > room->size) {
        return sft_error_at(err, SFT_E_INTERNAL, SFT_NO_OFFSET, view->tensor->name,
                            view->tensor->name_len, "block of %llu bytes, room for %llu",
                            (unsigned long long)size, (unsigned long long)room->size);
    }
    return sft_tensor_read_bytes(view->catalog, view->tensor, offset, room->data, (size_t)size,
                                 err);
}

sft_status cli_view_read_block(const cli_view *view, uint64_t unit, const cli_view_room *room,
                               size_t *elements, sft_error *err) {
    const uint32_t rank = view->tensor->rank;
    uint64_t *low = (uint64_t *)(void *)((char *)room->scratch + rank * sizeof(sft_slice));
    uint64_t *count = low + rank;
    uint64_t outer;
    uint64_t n = 1;

    if (view->whole) {
        return read_whole(view, unit, room, elements, err);
    }
    outer = unit / view->per_axis;
    for (uint32_t k = rank; k-- > 0;) {
        const uint64_t all = view->dims[k].count;
        if (k > view->axis) {
            low[k] = 0;
            count[k] = all;
        } else if (k == view->axis) {
            low[k] = unit % view->per_axis * view->chunk;
            count[k] = all - low[k] < view->chunk ? all - low[k] : view->chunk;
        } else {
            low[k] = outer % all;
            outer /= all;
            count[k] = 1;
        }
        n *= count[k];
    }
    *elements = (size_t)n; /* at most view->block */
    return cli_view_read_box(view, low, count, room, err);
}
