/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/standin_cufile.c - a libcufile that is none: it reads files into the stand-in driver's
 * device memory, or behaves badly in one of the ways that the probe must notice. See standin.h.
 */
#include "standin.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct error {
    int err;
    int cu_err;
} error;

typedef struct descriptor {
    int type;
    union {
        int fd;
        void *handle;
    } handle;
    const void *fs_ops;
} descriptor;

typedef struct properties {
    struct {
        unsigned major_version, minor_version;
        size_t poll_thresh_size, max_direct_io_size;
        unsigned status, control;
    } nvfs;
    unsigned rest[6];
} properties;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static standin_cufile_report report;
static int behaviour;

error cuFileDriverOpen(void);
error cuFileDriverOpen(void) {
    if (behaviour == STANDIN_CUFILE_NO_DRIVER) {
        return (error){5001, 0};
    }
    (void)pthread_mutex_lock(&lock);
    report.drivers_live++;
    (void)pthread_mutex_unlock(&lock);
    return (error){0, 0};
}

error cuFileDriverClose(void);
error cuFileDriverClose(void) {
    (void)pthread_mutex_lock(&lock);
    report.drivers_live--;
    (void)pthread_mutex_unlock(&lock);
    return (error){0, 0};
}

error cuFileDriverGetProperties(properties *out);
error cuFileDriverGetProperties(properties *out) {
    memset(out, 0, sizeof *out);
    out->nvfs.major_version = behaviour == STANDIN_CUFILE_NO_MODULE ? 0 : 2;
    out->nvfs.status = 1u << 4;
    out->nvfs.control = behaviour == STANDIN_CUFILE_COMPAT ? 2 : 0;
    return (error){0, 0};
}

error cuFileHandleRegister(void **handle, descriptor *d);
error cuFileHandleRegister(void **handle, descriptor *d) {
    int *fd;
    if (behaviour == STANDIN_CUFILE_REFUSES) {
        return (error){5018, 0};
    }
    fd = malloc(sizeof *fd);
    if (fd == NULL || d->type != 1) {
        abort();
    }
    *fd = d->handle.fd;
    (void)pthread_mutex_lock(&lock);
    report.faults += (fcntl(*fd, F_GETFL) & O_DIRECT) == 0 ? 1 : 0;
    report.handles_live++;
    (void)pthread_mutex_unlock(&lock);
    *handle = fd;
    return (error){0, 0};
}

void cuFileHandleDeregister(void *handle);
void cuFileHandleDeregister(void *handle) {
    (void)pthread_mutex_lock(&lock);
    report.handles_live--;
    (void)pthread_mutex_unlock(&lock);
    free(handle);
}

ssize_t cuFileRead(void *handle, void *base, size_t size, off_t offset, off_t at);
ssize_t cuFileRead(void *handle, void *base, size_t size, off_t offset, off_t at) {
    char path[40] = "/proc/self/fd/";
    char digits[12];
    int n = 0;
    (void)pthread_mutex_lock(&lock);
    const uint64_t number = report.reads++;
    (void)pthread_mutex_unlock(&lock);
    if (behaviour == STANDIN_CUFILE_FAILS_PROBE ||
        (behaviour == STANDIN_CUFILE_FAILS_LATER && number > 1)) {
        return -1;
    }
    if (behaviour == STANDIN_CUFILE_SHORT && size > 5000) {
        size = 5000;
    }
    for (int fd = *(int *)handle; fd > 0 || n == 0; fd /= 10) {
        digits[n++] = (char)('0' + fd % 10);
    }
    size_t length = strlen(path);
    while (n > 0) {
        path[length++] = digits[--n];
    }
    path[length] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC); /* the storage's own way: no alignment */
    char *buffer = malloc(size);
    if (fd < 0 || buffer == NULL) {
        abort();
    }
    const ssize_t got = pread(fd, buffer, size, offset);
    (void)close(fd);
    if (behaviour == STANDIN_CUFILE_WRONG_BYTES && got > 0) {
        buffer[got / 2] ^= 1;
    }
    if (got > 0 && !standin_store((uint64_t)(uintptr_t)base + (uint64_t)at, buffer, (size_t)got)) {
        free(buffer);
        return -1;
    }
    free(buffer);
    return got;
}

void standin_cufile_reset(int how);
void standin_cufile_reset(int how) {
    behaviour = how;
    memset(&report, 0, sizeof report);
}

void standin_cufile_report_get(standin_cufile_report *out);
void standin_cufile_report_get(standin_cufile_report *out) {
    (void)pthread_mutex_lock(&lock);
    *out = report;
    (void)pthread_mutex_unlock(&lock);
}
