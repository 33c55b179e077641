/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/file.c - the parts of file.h and probe.h that every system has. It may not call the system itself.
 */
#include "fs/file.h"
#include "fs/probe.h"
#include <errno.h>

sft_status sft__fs_open_any(const char *path, sft__fs_handle *out, sft__fs_stat *st,
                            sft_error *err) {
    return sft__fs_open_kind(path, true, out, st, err);
}

sft_status sft__fs_open(const char *path, sft__fs_handle *out, sft__fs_stat *st, sft_error *err) {
    return sft__fs_open_kind(path, false, out, st, err);
}

bool sft__fs_stamp_fd(int fd, sft__fs_stamp *out) {
    sft__fs_stat st = {0};

    if (fd < 0 || sft__fs_stat_fd(fd, "", &st, NULL) != SFT_OK) {
        return false;
    }
    *out = (sft__fs_stamp){st.size, st.mtime_ns};
    return true;
}

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
    return sft__fs_look(path, &st, NULL) == SFT_OK && st.directory;
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

/* ---------------------------------------------------------------- bytes */

/* Positions are signed on every system: only the sign bit is missing. */
static sft_status check_position(uint64_t offset, size_t size, sft_error *err) {
    uint64_t end;
    return sft__base_add64(offset, size, &end) && end <= (uint64_t)INT64_MAX
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_ARG, offset, "position %llu is beyond any file",
                                   (unsigned long long)offset);
}

static sft_status fail_transfer(sft_error *err, const char *verb, const char *name, uint64_t offset,
                                int32_t sys) {
    (void)sft__base_fail_sys(err, SFT_E_IO, sys, "cannot %s %s", verb, name);
    if (err != NULL) {
        err->offset = offset;
    }
    return SFT_E_IO;
}

sft_status sft__fs_read_at(sft__fs_handle file, const char *name, uint64_t offset, void *dst,
                           size_t size, sft_error *err) {
    uint8_t *p = dst;

    SFT_TRY(check_position(offset, size, err));
    for (size_t n = 0; size > 0; p += n, offset += n, size -= n) {
        const int32_t sys = sft__fs_read_some(file, offset, p, size, &n);
        if (sys != 0) {
            return fail_transfer(err, "read", name, offset, sys);
        }
        if (n == 0) {
            return sft__base_fail_at(err, SFT_E_TRUNCATED, offset,
                                     "%s ends here or before, %llu more bytes were needed", name,
                                     (unsigned long long)size);
        }
    }
    return SFT_OK;
}

sft_status sft__fs_write_at(sft__fs_handle file, const char *name, uint64_t offset, const void *src,
                            size_t size, sft_error *err) {
    const uint8_t *p = src;

    SFT_TRY(check_position(offset, size, err));
    for (size_t n = 0; size > 0; p += n, offset += n, size -= n) {
        const int32_t sys = sft__fs_write_some(file, offset, p, size, &n);
        if (sys != 0) {
            return fail_transfer(err, "write", name, offset, sys);
        }
    }
    return SFT_OK;
}
