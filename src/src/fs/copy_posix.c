/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/copy_posix.c - see copy.h. On Linux: shared blocks where both offsets are block-aligned, then
 * copy_file_range, or sendfile into a stream. Each of them may be refused by a file system or a
 * container at any time; what is left then goes through the buffer. Real failures (no space, bad
 * disk) are not retried.
 */
#ifndef _WIN32
#include "fs/copy_any.h"
#include "fs/probe.h"
#include "fs/stream_posix.h"
#include <errno.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

enum { BLOCK = 4096 };
static const uint64_t COPY_STEP = (uint64_t)64 << 20;
static const uint64_t SEND_STEP = (uint64_t)4 << 20;

/* "This way is not open", as opposed to "it went wrong". */
static bool is_refusal(int cause) {
    return cause == EXDEV || cause == EINVAL || cause == ENOSYS || cause == EOPNOTSUPP ||
           cause == EPERM || cause == EBADF || cause == ETXTBSY || cause == ENOTTY ||
           cause == EACCES;
}

/* Blocks shared instead of copied (XFS, btrfs, bcachefs ...): everything, or nothing happens. */
static bool share_blocks(sft__fs_copy *c) {
    struct file_clone_range range;

    /* the size must be block-aligned too, unless it ends with the source: the kernel judges that */
    if (c->src_offset % BLOCK != 0 || c->dst_offset % BLOCK != 0) {
        return false;
    }
    range.src_fd = (int)c->src;
    range.src_offset = c->src_offset;
    range.src_length = c->size;
    range.dest_offset = c->dst_offset;
    return ioctl((int)c->dst, FICLONERANGE, &range) == 0;
}

/* Sets *left if the rest must go another way. */
static sft_status copy_in_kernel(sft__fs_copy *c, bool *left, sft_error *err) {
    *left = false;
    if (c->size >= BLOCK && share_blocks(c)) {
        return sft__fs_copy_advance(c, c->size, err);
    }
    while (c->size > 0) {
        off_t from = (off_t)c->src_offset;
        off_t to = (off_t)c->dst_offset;
        const uint64_t step =
            c->meter != NULL && c->meter->control != NULL ? SFT__METER_STEP : COPY_STEP;
        const size_t want = (size_t)(c->size < step ? c->size : step);
        const ssize_t n = copy_file_range((int)c->src, &from, (int)c->dst, &to, want, 0);
        if (n > 0) {
            SFT_TRY(sft__fs_copy_advance(c, (uint64_t)n, err));
        } else if (n == 0 || is_refusal(errno)) {
            *left = true; /* the end of the source, or a file that only looks like one: read will
                             tell */
            return SFT_OK;
        } else if (errno != EINTR) {
            return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot copy \"%s\" to \"%s\"",
                                      c->src_name, c->dst_name);
        }
    }
    return SFT_OK;
}

static sft_status send_in_kernel(sft__fs_copy *c, bool *left, sft_error *err) {
    *left = false;
    while (c->size > 0) {
        off_t from = (off_t)c->src_offset;
        const size_t want = (size_t)(c->size < SEND_STEP ? c->size : SEND_STEP);
        sft__fs_sigpipe guard;
        sft__fs_sigpipe_hold(&guard);
        const ssize_t n = sendfile((int)c->stream->handle, (int)c->src, &from, want);
        const int cause = n < 0 ? errno : 0;
        sft__fs_sigpipe_release(&guard, cause == EPIPE);
        if (n > 0) {
            SFT_TRY(sft__fs_copy_advance(c, (uint64_t)n, err));
        } else if (cause == EAGAIN) {
            if (sft__fs_stream_wait((int)c->stream->handle) != 0) {
                return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot wait for the stream");
            }
        } else if (n == 0 || is_refusal(cause)) {
            *left = true;
            return SFT_OK;
        } else if (cause != EINTR) {
            return sft__base_fail_sys(err, SFT_E_IO, cause, "cannot send \"%s\" to the stream",
                                      c->src_name);
        }
    }
    return SFT_OK;
}

sft_status sft__fs_copy_range(const sft__fs_copy *copy, sft_error *err) {
    sft__fs_copy c = *copy;
    bool left;

    SFT_TRY(c.stream != NULL ? send_in_kernel(&c, &left, err) : copy_in_kernel(&c, &left, err));
    return left ? sft__fs_copy_bounce(&c, err) : SFT_OK;
}
#else
sft_status sft__fs_copy_range(const sft__fs_copy *copy, sft_error *err) {
    sft__fs_copy c = *copy;
    return sft__fs_copy_bounce(&c, err);
}
#endif

sft_status sft__fs_copy_cheaply(sft__fs_handle file, const char *name, uint64_t offset, int fd,
                                uint64_t from, uint64_t size, uint64_t *moved, sft_error *err) {
    *moved = 0;
#if defined(__linux__)
    const bool aligned = (from - offset) % BLOCK == 0;
    while (*moved < size && sft__fs_copies_well((int)file, aligned)) {
        off_t src = (off_t)(from + *moved);
        off_t dst = (off_t)(offset + *moved);
        const ssize_t n = copy_file_range(fd, &src, (int)file, &dst, (size_t)(size - *moved), 0);
        if (n == 0 || (n < 0 && is_refusal(errno))) {
            return SFT_OK;
        }
        if (n < 0 && errno != EINTR) {
            return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot copy to \"%.200s\"", name);
        }
        *moved += n > 0 ? (uint64_t)n : 0;
    }
#else
    (void)file, (void)name, (void)offset, (void)fd, (void)from, (void)size, (void)err;
#endif
    return SFT_OK;
}
#else
typedef int sft__fs_copy_posix_empty;
#endif
