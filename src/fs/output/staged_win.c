/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/staged_win.c - see staged.h. A file that is opened to be held is shared with readers only.
 * Nothing that is open and held so is removed, so directories with such files stay.
 */
#ifdef _WIN32
#include "fs/output/staged.h"
#include <windows.h>

sft_status sft__fs_staged_open_alone(const char *path, sft__fs_handle *out, sft_error *err) {
    SFT_TRY(sft__fs_staged_open(path, out, err)); /* it is there, and has one name */
    sft__fs_close(*out);
    return sft__fs_create_shared(path, FILE_SHARE_READ, out, err);
}

sft_status sft__fs_staged_lock_alone(const char *path, sft__fs_handle *out, sft_error *err) {
    SFT_TRY(sft__fs_create(path, out, err));
    sft__fs_close(*out);
    return sft__fs_create_shared(path, FILE_SHARE_READ, out, err);
}

sft_status sft__fs_hold_directory(const char *path, sft__fs_handle *out, sft_error *err) {
    *out = SFT__FS_NO_HANDLE;
    return sft__fs_make_directory(path, err);
}

bool sft__fs_try_hold(const char *path, bool shared, sft__fs_handle *out, bool *busy) {
    (void)path, (void)shared;
    *out = SFT__FS_NO_HANDLE;
    *busy = false; /* directories have no locks here */
    return false;
}

bool sft__fs_hold_alone(sft__fs_handle directory) {
    (void)directory;
    return true;
}
#endif
