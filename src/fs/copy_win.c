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

sft_status sft__fs_copy_cheaply(const sft__fs_copy *copy, uint64_t *moved, sft_error *err) {
    (void)copy, (void)err;
    *moved = 0;
    return SFT_OK;
}
#endif
