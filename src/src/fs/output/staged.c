/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/staged.c - the part of staged.h that every system has.
 */
#include "fs/output/staged.h"

sft_status sft__fs_staged_open(const char *path, sft__fs_handle *out, sft_error *err) {
    sft__fs_stat st;

    SFT_TRY(sft__fs_create(path, out, err));
    if (sft__fs_stat_file(*out, path, &st, NULL) == SFT_OK && st.names > 1) {
        sft__fs_close(*out); /* a copy made by links, as backups are: not ours to change */
        *out = SFT__FS_NO_HANDLE;
        return sft__base_fail(
            err, SFT_E_EXISTS,
            "\"%.200s\" has another name, whose file would change with it: restart", path);
    }
    return SFT_OK;
}
