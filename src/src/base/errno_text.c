/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/errno_text.c - one table of the errno values that file operations give, as text that is the same in
 * every locale and on every C library.
 */
#include "base/error.h"
#include <errno.h>

const char *sft__base_errno_text(int32_t sys) {
    static const struct {
        int32_t sys;
        const char *text;
    } table[] = {
        {ENOENT, "no such file or directory"},
        {EACCES, "permission denied"},
        {EPERM, "operation not permitted"},
        {EEXIST, "file exists"},
        {ENOTDIR, "not a directory"},
        {EISDIR, "is a directory"},
        {ENOSPC, "no space left on device"},
        {EROFS, "read-only file system"},
        {EMFILE, "too many open files in this process"},
        {ENFILE, "too many open files in the system"},
        {ENOMEM, "out of memory"},
        {EIO, "input/output error"},
        {EINTR, "interrupted"},
        {EAGAIN, "resource temporarily unavailable"},
        {EBADF, "bad file descriptor"},
        {EBUSY, "busy"},
        {EINVAL, "invalid argument"},
        {EFBIG, "file too large"},
        {ENODEV, "not supported by this file system"},
        {ENXIO, "no such device"},
        {EPIPE, "broken pipe"},
        {ESPIPE, "cannot seek"},
        {EXDEV, "on another file system"},
        {ENAMETOOLONG, "name too long"},
        {EFAULT, "bad address"},
        {ENOSYS, "not supported by the system"},
        {ETXTBSY, "file is being executed"},
#ifdef ELOOP
        {ELOOP, "too many symbolic links"},
#endif
#ifdef EDQUOT
        {EDQUOT, "disk quota exceeded"},
#endif
#ifdef ESTALE
        {ESTALE, "stale file handle"},
#endif
#ifdef EOPNOTSUPP
        {EOPNOTSUPP, "operation not supported"},
#endif
#ifdef ETIMEDOUT
        {ETIMEDOUT, "timed out"},
#endif
#ifdef EOVERFLOW
        {EOVERFLOW, "value too large"},
#endif
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].sys == sys) {
            return table[i].text;
        }
    }
    return NULL;
}
