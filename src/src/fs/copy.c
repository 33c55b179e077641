/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/copy.c - the part of fs/copy.h that every system has: read into a buffer, write out of it.
 */
#include "fs/copy_any.h"

enum { BOUNCE = 1 << 20 };

sft_status sft__fs_copy_bounce(sft__fs_copy *c, sft_error *err) {
    const size_t cap = c->size < BOUNCE ? (size_t)c->size : BOUNCE;
    char *buffer = sft__base_alloc(c->allocator, cap);
    sft_status st = SFT_OK;

    if (buffer == NULL) {
        return cap == 0 ? SFT_OK : sft__base_fail_nomem(err, cap);
    }
    while (st == SFT_OK && c->size > 0) {
        const size_t n = c->size < cap ? (size_t)c->size : cap;
        st = sft__fs_read_at(c->src, c->src_name, c->src_offset, buffer, n, err);
        if (st == SFT_OK && c->stream != NULL) {
            const sft__fs_span part = {buffer, n};
            st = sft__fs_stream_write(c->stream, &part, 1, err);
        } else if (st == SFT_OK) {
            st = sft__fs_write_at(c->dst, c->dst_name, c->dst_offset, buffer, n, err);
        }
        if (st == SFT_OK) {
            st = sft__fs_copy_advance(c, n, err);
        }
    }
    sft__base_free(c->allocator, buffer, cap);
    return st;
}

sft_status sft__fs_copy_advance(sft__fs_copy *c, uint64_t n, sft_error *err) {
    c->src_offset += n;
    c->dst_offset += n;
    c->size -= n;
    return c->meter == NULL ? SFT_OK : sft__base_meter_add(c->meter, n, err);
}
