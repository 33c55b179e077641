/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/copy_win.c - see copy.h. Windows copies whole files only: ranges go through the buffer.
 */
#ifdef _WIN32
#include "fs/copy_any.h"

sft_status sft__fs_copy_range(const sft__fs_copy *copy, sft_error *err) {
    sft__fs_copy c = *copy;
    return sft__fs_copy_bounce(&c, err);
}

sft_status sft__fs_copy_cheaply(sft__fs_handle file, const char *name, uint64_t offset, int fd,
                                uint64_t from, uint64_t size, uint64_t *moved, sft_error *err) {
    (void)file, (void)name, (void)offset, (void)fd, (void)from, (void)size, (void)err;
    *moved = 0;
    return SFT_OK;
}
#else
typedef int sft__fs_copy_win_empty;
#endif
