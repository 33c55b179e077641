/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/file.c - the parts of file.h that are made of the others. It may not call the system itself.
 */
#include "fs/file.h"
#include <errno.h>

sft_status sft__fs_look(const char *path, sft__fs_stat *st, sft_error *err) {
    sft_error why;
    bool there;

    memset(&why, 0, sizeof why);
    memset(st, 0, sizeof *st);
    const sft_status status = sft__fs_stat_path(path, &there, st, &why);
    if (status != SFT_OK && why.sys != ENOTDIR && err != NULL) {
        *err = why;
    }
    return status != SFT_OK && why.sys == ENOTDIR ? SFT_OK : status;
}

bool sft__fs_is_directory(const char *path) {
    sft__fs_stat st;
    return sft__fs_look(path, &st, NULL) == SFT_OK && st.folder;
}

bool sft__fs_is_at(sft__fs_handle file, const char *path) {
    sft__fs_stat held = {0};
    sft__fs_stat st;

    return sft__fs_stat_file(file, path, &held, NULL) == SFT_OK &&
           sft__fs_look(path, &st, NULL) == SFT_OK && st.exists && held.device == st.device &&
           held.inode == st.inode;
}

bool sft__fs_is_same(const char *a, const char *b) {
    sft__fs_stat x;
    sft__fs_stat y;

    return sft__fs_look(a, &x, NULL) == SFT_OK && x.exists && sft__fs_look(b, &y, NULL) == SFT_OK &&
           y.exists && x.device == y.device && x.inode == y.inode;
}
