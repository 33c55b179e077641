/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/need.c - see need.h.
 */
#include "base/memory/need.h"

sft_status sft__base_need(const sft_allocator *a, void *pointer, size_t size, sft_error *err) {
    void *p = sft__base_alloc(a, size);

    memcpy(pointer, &p, sizeof p);
    return p != NULL ? SFT_OK : sft__base_fail_nomem(err, size);
}

sft_status sft__base_need_zero(const sft_allocator *a, void *pointer, size_t size, sft_error *err) {
    void *p = sft__base_alloc_zero(a, size);

    memcpy(pointer, &p, sizeof p);
    return p != NULL ? SFT_OK : sft__base_fail_nomem(err, size);
}

sft_status sft__base_need_room(const sft_allocator *a, void *array, size_t *room, size_t need,
                               size_t size, sft_error *err) {
    return sft__base_grow(a, array, room, need, size) ? SFT_OK
                                                      : sft__base_fail_nomem(err, need * size);
}
