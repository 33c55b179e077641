/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/file.c - the parts of file.h that are made of the others. It may not call the system itself.
 */
#include "fs/file.h"

bool sft__fs_is_same(const char *a, const char *b) {
    sft__fs_stat x;
    sft__fs_stat y;
    bool there;

    return sft__fs_stat_path(a, &there, &x, NULL) == SFT_OK && there &&
           sft__fs_stat_path(b, &there, &y, NULL) == SFT_OK && there && x.device == y.device &&
           x.inode == y.inode;
}
