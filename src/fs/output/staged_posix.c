/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/staged_posix.c - see staged.h. Locks are flock's.
 */
#ifndef _WIN32
#include "fs/output/staged.h"
#include <errno.h>
#include <sys/file.h>

/* False: another process has it. Where there are no locks, nobody has. */
static bool lock(sft__fs_handle file, int how) {
    while (flock((int)file, how) != 0) {
        if (errno != EINTR) {
            return errno != EWOULDBLOCK;
        }
    }
    return true;
}

typedef sft_status opener(const char *path, sft__fs_handle *out, sft_error *err);

static sft_status open_alone(opener *open, const char *path, sft__fs_handle *out, sft_error *err) {
    enum { TRIES = 100 };

    for (unsigned i = 0; i < TRIES; i++) {
        SFT_TRY(open(path, out, err));
        if (!lock(*out, LOCK_EX | LOCK_NB)) {
            break;
        }
        if (sft__fs_is_at(*out, path)) {
            return SFT_OK;
        }
        sft__fs_close(*out); /* who had it before has removed it */
        *out = SFT__FS_NO_HANDLE;
    }
    sft__fs_close(*out);
    *out = SFT__FS_NO_HANDLE;
    return sft__base_fail(err, SFT_E_STATE, "another process is at it: \"%.200s\" is locked", path);
}

sft_status sft__fs_staged_open_alone(const char *path, sft__fs_handle *out, sft_error *err) {
    return open_alone(sft__fs_staged_open, path, out, err);
}

sft_status sft__fs_staged_lock_alone(const char *path, sft__fs_handle *out, sft_error *err) {
    return open_alone(sft__fs_create, path, out, err);
}

sft_status sft__fs_hold_directory(const char *path, sft__fs_handle *out, sft_error *err) {
    enum { TRIES = 100 };
    sft_error why;

    for (unsigned i = 0; i < TRIES; i++) {
        sft__fs_stat st;
        SFT_TRY(sft__fs_make_directory(path, err));
        memset(&why, 0, sizeof why);
        if (sft__fs_open_any(path, out, &st, &why) == SFT_OK) {
            if (st.directory && lock(*out, LOCK_SH) && sft__fs_is_at(*out, path)) {
                return SFT_OK;
            }
            sft__fs_close(*out); /* removed meanwhile: once more */
        } else if (why.sys != ENOENT) {
            return sft__base_fail_sys(err, SFT_E_IO, why.sys,
                                      "cannot open the directory \"%.200s\"", path);
        }
        *out = SFT__FS_NO_HANDLE;
    }
    return sft__base_fail(err, SFT_E_STATE, "the directory \"%.200s\" is removed again and again",
                          path);
}

bool sft__fs_try_hold(const char *path, bool shared, sft__fs_handle *out, bool *busy) {
    sft__fs_stat st;

    *busy = false;
    if (sft__fs_open_any(path, out, &st, NULL) != SFT_OK) {
        return false;
    }
    if (st.directory && flock((int)*out, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
        return true;
    }
    *busy = st.directory && (errno == EWOULDBLOCK || errno == EINTR);
    sft__fs_close(*out);
    *out = SFT__FS_NO_HANDLE;
    return false;
}

bool sft__fs_hold_alone(sft__fs_handle directory) {
    if (!lock(directory, LOCK_EX | LOCK_NB)) {
        (void)lock(directory, LOCK_SH | LOCK_NB); /* systems give up the one for the other */
        return false;
    }
    return true;
}
#endif
