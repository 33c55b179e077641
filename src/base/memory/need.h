/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/need.h - memory as alloc.h has it, for functions that fail without it: SFT_E_NOMEM, with the
 * size in the record.
 */
#ifndef SFT_BASE_NEED_H
#define SFT_BASE_NEED_H

#include "base/error.h"
#include "base/memory/alloc.h"

/* Where memory comes by another way: SFT_NEED(!text.failed, text.len, err). */
#define SFT_NEED(had, size, err)                                                                   \
    do {                                                                                           \
        if (!(had)) {                                                                              \
            return sft__base_fail_nomem(err, size);                                                \
        }                                                                                          \
    } while (0)

/* `size` bytes into the pointer that `pointer` points at; NULL into it on failure. */
sft_status sft__base_need(const sft_allocator *a, void *pointer, size_t size, sft_error *err);
sft_status sft__base_need_zero(const sft_allocator *a, void *pointer, size_t size, sft_error *err);
/* sft__base_grow: room for `need` elements. */
sft_status sft__base_need_room(const sft_allocator *a, void *array, size_t *room, size_t need,
                               size_t size, sft_error *err);

/* The same for one more element than `count`. */
#define SFT_ONE_MORE(a, array, room, count, err)                                                   \
    sft__base_need_room(a, &(array), &(room), (count) + 1, sizeof *(array), err)

#endif
