/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/keep_win.c - see <sft/extend.h>, sft_file_keep.
 */
#ifdef _WIN32
#include "fs/output/keep.h"

sft_status sft_file_keep(int fd, const char *path, sft_error *err) {
    (void)fd;
    (void)path;
    (void)err;
    return SFT_OK;
}

sft_status sft__fs_keep_path(const char *path, const char *old, sft_error *err) {
    (void)path;
    (void)old;
    (void)err;
    return SFT_OK;
}

void sft__fs_attribute_names(const char *path, sft__base_buf *out) {
    (void)path;
    (void)out;
}
#else
typedef int sft__fs_keep_win_empty;
#endif
