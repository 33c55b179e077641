/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * park_posix.c - open files without descriptors. A process may have 1,024 of those and a program may open more
 * handles: from DESCRIPTORS on a handle keeps its file by a mapping alone. What is read through it is read from the
 * path while that leads to the same file, and else, when the file was replaced or unlinked, copied out of the mapping
 * by the system, for which a page that is gone is an error and not a signal. Read core.h first.
 */
#if !defined(_WIN32)
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS                                                                                \
    64 /* so many handles have one each; fewer where the process may have fewer than 512 */

typedef struct parked {
    unsigned char *map; /* read-only, of the whole file */
    size_t size;
    int fd; /* while the catalog is made; then -1 */
    dev_t device;
    ino_t inode;
    char path[]; /* absolute */
} parked;

/* Of the process, as the limit is; atomic. */
static size_t descriptors;

void core_descriptors_add(size_t count) {
    __atomic_fetch_add(&descriptors, count, __ATOMIC_RELAXED);
}

void core_descriptors_drop(size_t count) {
    __atomic_fetch_sub(&descriptors, count, __ATOMIC_RELAXED);
}

static bool many_open(void) {
    const size_t now = __atomic_load_n(&descriptors, __ATOMIC_RELAXED);
    struct rlimit limit;

    if (now < 8) {
        return false;
    }
    return now >= DESCRIPTORS ||
           (getrlimit(RLIMIT_NOFILE, &limit) == 0 && now >= limit.rlim_cur / 8);
}

/* The bytes of the mapping as the system sees them: fewer than `size` where pages are gone. */
static size_t copy_mapped(const parked *p, uint64_t offset, void *dst, size_t size) {
    size_t done = 0;
#if defined(__linux__)
    int fd = -1;

    while (done < size) {
        struct iovec to = {(char *)dst + done, size - done};
        struct iovec from = {p->map + offset + done, size - done};
        ssize_t n;
        if (fd < 0) {
            n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
            if (n < 0 && errno != EFAULT) { /* not allowed here */
                fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
                if (fd >= 0) {
                    continue;
                }
            }
        } else {
            n = pread(fd, to.iov_base, to.iov_len, (off_t)(uintptr_t)from.iov_base);
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
#else
    (void)p, (void)offset, (void)dst, (void)size;
#endif
    return done;
}

int core_gather(const core_runs *runs, void *dst, size_t size) {
#if defined(__linux__)
    enum { BATCH = 256 }; /* of at most 1,024 (UIO_MAXIOV): so many stay in the nearest cache */
    uint64_t at[CORE_MAX_RANK] = {0};
    int64_t offset = (int64_t)runs->offset;
    size_t done = 0;

    while (done < size) {
        struct iovec from[BATCH], to = {(char *)dst + done, 0};
        unsigned long n = 0;
        for (; n < BATCH && done + to.iov_len < size; n++) {
            __builtin_prefetch(
                runs->base + offset); /* never a fault; the system takes them one after the other */
            from[n].iov_base = (void *)(uintptr_t)(runs->base + offset);
            from[n].iov_len = (size_t)runs->size;
            to.iov_len += (size_t)runs->size;
            for (uint32_t d = 0; d < runs->rank; d++) { /* the next one's place */
                offset += runs->stride[d];
                if (++at[d] < runs->count[d]) {
                    break;
                }
                offset -= runs->stride[d] * (int64_t)runs->count[d];
                at[d] = 0;
            }
        }
        /* Written to ourselves, not read from: the other side, here `dst`, is looked up and held page by page, which
         * for scattered runs is five times the work. This side's are copied as user memory is. */
        const ssize_t got = process_vm_writev(getpid(), from, n, &to, 1, 0);
        if (got < 0 && errno != EFAULT) {
            return 0;
        }
        if (got < 0 || (size_t)got != to.iov_len) {
            return -1;
        }
        done += to.iov_len;
    }
    return 1;
#else
    (void)runs, (void)dst, (void)size;
    return 0;
#endif
}

/* The file itself, if its path still leads to it. */
static int reopen(const parked *p) {
    struct stat st;
    int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != p->device || st.st_ino != p->inode)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static sft_status parked_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const parked *p = self;
    const int fd = p->fd >= 0 ? p->fd : reopen(p);
    size_t done = 0;

    while (fd >= 0 && done < size) {
        ssize_t n = pread(fd, (char *)dst + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    if (fd >= 0 && fd != p->fd) {
        (void)close(fd);
    }
    if (fd < 0) {
        done = copy_mapped(p, offset, dst, size);
    }
    return done == size ? SFT_OK
                        : sft_error_at(err, SFT_E_TRUNCATED, offset + done, NULL, 0,
                                       "%s is shorter than it was", p->path);
}

static sft_status parked_borrow(void *self, uint64_t offset, size_t size, const void **data,
                                sft_error *err) {
    (void)size, (void)err;
    *data = ((const parked *)self)->map + offset;
    return SFT_OK;
}

static void parked_close(void *self) {
    parked *p = self;
    (void)munmap(p->map, p->size);
    free(p);
}

static parked *parked_new(int fd, const char *name, const struct stat *st) {
    char here[4096] = "";
    size_t len = 0;
    parked *p = NULL;
    void *map;

    if (name[0] != '/') {
        if (getcwd(here, sizeof here - 1) == NULL) {
            return NULL;
        }
        len = strlen(here);
        here[len++] = '/';
    }
    map = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
    p = map != MAP_FAILED ? malloc(sizeof *p + len + strlen(name) + 1) : NULL;
    if (p == NULL) {
        if (map != MAP_FAILED) {
            (void)munmap(map, (size_t)st->st_size);
        }
        return NULL;
    }
    *p = (parked){.map = map,
                  .size = (size_t)st->st_size,
                  .fd = fd,
                  .device = st->st_dev,
                  .inode = st->st_ino};
    memcpy(p->path, here, len);
    memcpy(p->path + len, name, strlen(name) + 1);
    return p;
}

void core_park(core_state *state, sft_catalog **catalog, core_memory **map) {
    static const sft_source_vtable vtable = {.struct_size = sizeof vtable,
                                             .read_at = parked_read,
                                             .borrow = parked_borrow,
                                             .close = parked_close};
    const sft_source *old = sft_catalog_source_at(*catalog, 0);
    const int fd =
        old != NULL && sft_catalog_source_count(*catalog) == 1 ? sft_source_descriptor(old) : -1;
    sft_catalog *fresh;
    sft_source *source;
    struct stat st;
    parked *p;

    *map = NULL;
    if (fd < 0 || !many_open() || fstat(fd, &st) != 0 || st.st_size <= 0 ||
        (uint64_t)st.st_size != sft_source_size(old) ||
        (p = parked_new(fd, sft_source_name(old), &st)) == NULL) {
        return;
    }
    *map = core_memory_map(state, fd, p->size, p->path);
    if (*map == NULL ||
        sft_source_create(&source, &vtable, p,
                          &(sft_source_info){p->size, 0, sft_source_name(old), NULL},
                          NULL) != SFT_OK) {
        parked_close(p);
    } else if (sft_catalog_open_source(&fresh, source, NULL, NULL) == SFT_OK) {
        p->fd = -1; /* the old catalog's, which closes it */
        sft_catalog_close(*catalog);
        *catalog = fresh;
        return;
    }
    PyErr_Clear(); /* it stays as it was */
    core_memory_drop(*map);
    *map = NULL;
}
#else
typedef int core_park_posix_unused;
#endif
