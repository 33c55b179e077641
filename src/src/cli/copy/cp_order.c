/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cp_order.c - --order: the source's order, the reference's, or that of a list of names. Read
 * cp.h first; the reference's order is told in sft/write.h.
 */
#include "cli/copy/cp.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

enum { LIST_MOST_BYTES = 1 << 30 };

static int by_reference(const void *a, const void *b) {
    const cli_item *x = a;
    const cli_item *y = b;

    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    if (x->dtype->id != y->dtype->id) {
        return x->dtype->id > y->dtype->id ? -1 : 1;
    }
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

/* ---------------------------------------------------------------- a list of names */

static bool read_list(cli_copy *copy, const char *path, size_t *size) {
    sft_source *source;
    sft_error err;
    sft_status status = sft_source_open(&source, path, SFT_ACCESS_READ, NULL, &err);

    if (status == SFT_OK) {
        const uint64_t bytes = sft_source_size(source);
        if (bytes > LIST_MOST_BYTES) {
            status = sft_error_set(&err, SFT_E_LIMIT, 0, SFT_NO_OFFSET, NULL, 0,
                                   "a list of more than 1 GiB");
        } else {
            *size = (size_t)bytes;
            copy->order_text = cli_alloc(*size + 1, 1);
            status = sft_source_read(source, 0, copy->order_text, *size, &err);
        }
        sft_source_close(source);
    }
    if (status != SFT_OK) {
        cli_fail(copy->c, path, &err);
    }
    return status == SFT_OK;
}

static int by_new_name(const void *a, const void *b) {
    const cli_item *x = a;
    const cli_item *y = b;
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

/* Gives each tensor the number of its line; those without one come last. */
static bool order_by_list(cli_copy *copy, const char *path) {
    size_t size = 0;
    size_t line = 0;

    if (!read_list(copy, path, &size)) {
        return false;
    }
    qsort(copy->items, copy->count, sizeof *copy->items, by_new_name);
    for (size_t i = 0; i < copy->count; i++) {
        copy->items[i].rank = SIZE_MAX;
    }
    for (size_t at = 0; at < size; line++) {
        const char *start = copy->order_text + at;
        const char *end = memchr(start, '\n', size - at);
        size_t len = end != NULL ? (size_t)(end - start) : size - at;
        at += len + 1;
        len -= len > 0 && start[len - 1] == '\r';
        const cli_item key = {.name = start, .name_len = len};
        cli_item *item =
            len == 0 ? NULL
                     : bsearch(&key, copy->items, copy->count, sizeof *copy->items, by_new_name);
        if (item != NULL && item->rank == SIZE_MAX) {
            item->rank = line;
        } else if (len > 0) {
            char name[256];
            (void)sft_escape(name, sizeof name, start, len);
            cli_warn(copy->c, path, "line %llu: \"%s\" %s", (unsigned long long)line + 1, name,
                     item != NULL ? "is there twice" : "is no tensor of the copy");
        }
    }
    qsort(copy->items, copy->count, sizeof *copy->items, by_reference);
    return true;
}

bool cli_copy_order(cli_copy *copy) {
    const char *order = cli_text(copy->c, "order");

    if (order == NULL) { /* types that are cast would lie where they are not aligned */
        const bool keep = sft_catalog_file_count(copy->catalog) == 1 && copy->cast == 0;
        order = keep ? "declared" : "reference";
    }
    if (strcmp(order, "reference") == 0) {
        qsort(copy->items, copy->count, sizeof *copy->items, by_reference);
        return true;
    }
    return strcmp(order, "declared") == 0 || order_by_list(copy, order);
}
