/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bytes.c - load(): all tensors of the bytes of a file, copied. Adjacent small tensors share a block, so that a load
 * makes few allocations and the next load can reuse a released block; a tensor keeps at most GROUP bytes alive.
 * Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

#define GROUP ((size_t)8 << 20) /* tensors of half this size or more have memory of their own */
#define COPY  ((size_t)1 << 20) /* one worker's share at a time */
#define ALIGN ((size_t)64)
#define UNLOCKED                                                                                   \
    ((size_t)64                                                                                    \
     << 10) /* below this, copying takes less time than releasing the GIL and taking it back */

typedef struct copying {
    core_state *state;
    core_file *file;
    core_framework framework;
    size_t count;
    core_memory **memory; /* of each tensor, counted once for each */
    size_t *at;           /* where it begins in that */
    size_t *first;        /* the first share of each tensor, and one past the last share */
} copying;

static size_t aligned(size_t size) {
    return (size + ALIGN - 1) & ~(ALIGN - 1); /* cannot overflow: the bytes lie in memory */
}

static void copying_free(copying *c) {
    for (size_t i = 0; c->memory != NULL && i < c->count; i++) {
        core_memory_drop(c->memory[i]);
    }
    free((void *)c->memory);
    free(c->at);
    free(c->first);
}

/* How many tensors from `i` on share the next block, and its size. */
static size_t group(const copying *c, size_t i, size_t *size) {
    size_t n = 0, sum = 0;

    for (; i + n < c->count; n++) {
        const size_t bytes = aligned((size_t)sft_catalog_at(c->file->catalog, i + n)->nbytes);
        if (n > 0 && (bytes >= GROUP / 2 || sum + bytes > GROUP)) {
            break;
        }
        sum += bytes;
        if (bytes >= GROUP / 2) {
            n++;
            break;
        }
    }
    *size = sum;
    return n;
}

static bool place(copying *c) {
    size_t shares = 0;

    c->memory = calloc(c->count + 1, sizeof(core_memory *));
    c->at = calloc(c->count + 1, sizeof *c->at);
    c->first = calloc(c->count + 1, sizeof *c->first);
    if (c->memory == NULL || c->at == NULL || c->first == NULL) {
        return core_no_memory(0) != NULL;
    }
    for (size_t i = 0; i < c->count;) {
        size_t size, at = 0;
        const size_t n = group(c, i, &size);
        core_memory *memory = core_memory_new(c->state, size + 1);
        if (memory == NULL) {
            return core_no_memory(size) != NULL;
        }
        for (size_t k = i; k < i + n; k++) {
            const size_t bytes = (size_t)sft_catalog_at(c->file->catalog, k)->nbytes;
            c->memory[k] = core_memory_keep(memory);
            c->at[k] = at;
            c->first[k] = shares;
            at += aligned(bytes);
            shares += (bytes + COPY - 1) / COPY;
        }
        core_memory_drop(memory);
        i += n;
    }
    c->first[c->count] = shares;
    return true;
}

static void copy_share(void *ctx, size_t share) {
    const copying *c = ctx;
    size_t low = 0, high = c->count;

    while (high - low > 1) { /* the last tensor whose first share is not after this one */
        const size_t middle = low + (high - low) / 2;
        if (c->first[middle] <= share) {
            low = middle;
        } else {
            high = middle;
        }
    }
    {
        const sft_tensor *t = sft_catalog_at(c->file->catalog, low);
        const size_t from = (share - c->first[low]) * COPY;
        const size_t left = (size_t)t->nbytes - from;
        memcpy(c->memory[low]->base + c->at[low] + from,
               c->file->bytes->base + t->pieces[0].offset + from, left < COPY ? left : COPY);
    }
}

static void copy_all(copying *c) {
    const size_t shares = c->first[c->count];
    const sft_pool *pool = shares >= 8 ? core_pool(c->state) : NULL;
    size_t bytes = 0;

    for (size_t i = 0; i < c->count && bytes < UNLOCKED; i++) {
        bytes += (size_t)sft_catalog_at(c->file->catalog, i)->nbytes;
    }
    if (bytes < UNLOCKED) {
        for (size_t i = 0; i < c->count; i++) {
            const sft_tensor *t = sft_catalog_at(c->file->catalog, i);
            memcpy(c->memory[i]->base + c->at[i], c->file->bytes->base + t->pieces[0].offset,
                   (size_t)t->nbytes);
        }
        return;
    }
    Py_BEGIN_ALLOW_THREADS if (pool != NULL) {
        sft_pool_run(pool, shares, copy_share, c);
    }
    else {
        for (size_t i = 0; i < shares; i++) {
            copy_share(c, i);
        }
    }
    Py_END_ALLOW_THREADS
}

static bool where_copied(void *ctx, const sft_tensor *tensor, core_place *place) {
    const copying *c = ctx;
    const size_t i = sft_catalog_index_of(c->file->catalog, tensor);

    place->memory = c->memory[i];
    place->data = c->memory[i]->base + c->at[i];
    place->lender = NULL;
    return true;
}

PyObject *core_load_bytes(PyObject *module, PyObject *args) {
    copying c = {core_state_of(module), NULL, CORE_NUMPY, 0, NULL, NULL, NULL};
    PyObject *data, *name, *dict = NULL;
    const char *framework;
    Py_ssize_t len;
    int found;

    if (!PyArg_ParseTuple(args, "Os#:_load_bytes", &data, &framework, &len)) {
        return NULL;
    }
    found = core_framework_find(framework, len);
    if (!core_has_bytes(data) || found < 0) {
        return core_wrong_type("bytes", data, "bytes");
    }
    c.framework = (core_framework)found;
    c.file = core_file_open(c.state, data, &name, NULL, "Error while deserializing", false);
    if (c.file == NULL) {
        return NULL;
    }
    Py_DECREF(name);
    c.count = sft_catalog_count(c.file->catalog);
    if (place(&c)) {
        copy_all(&c);
        dict = core_load_placed(c.state, c.file, c.framework, where_copied, &c);
    }
    copying_free(&c);
    core_file_drop(c.file);
    return dict;
}
