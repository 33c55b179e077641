/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/gds.c - see gds.h. Structures and numbers follow NVIDIA's public description of the cuFile
 * API.
 */
#include "cuda/gds.h"
#include "base/memory/alloc.h"
#include "fs/probe.h"
#include <sys/types.h>

/* Both ways of going wrong in one value; 0 in the first: none. */
typedef struct cufile_error {
    int err;
    int cu_err;
} cufile_error;

typedef struct cufile_descriptor {
    int type; /* 1: a file descriptor */
    union {
        int fd;
        void *handle;
    } handle;
    const void *fs_ops;
} cufile_descriptor;

typedef struct cufile_properties {
    struct {
        unsigned major_version; /* of the kernel module; 0: there is none */
        unsigned minor_version;
        size_t poll_thresh_size;
        size_t max_direct_io_size;
        unsigned status_flags;
        unsigned control_flags;
    } nvfs;
    unsigned feature_flags;
    unsigned max_device_cache_size;
    unsigned per_buffer_cache_size;
    unsigned max_device_pinned_size;
    unsigned max_batch_io_size;
    unsigned max_batch_io_timeout;
    uint64_t later[32]; /* room for what newer versions write */
} cufile_properties;

enum {
    CUFILE_OPAQUE_FD = 1,
    CUFILE_ALREADY_OPEN = 5004,
    STATUS_NVME_P2P = 1u << 11, /* peer-to-peer NVMe of the kernel itself, without the module */
    CONTROL_COMPAT = 1u << 1,   /* reads may fall back to host memory, silently */
    PROBE_BYTES = 4096
};

struct sft__cuda_gds {
    sft__base_mutex lock; /* of library and reason, until they are decided */
    char *path;
    size_t path_size;
    void *library;
    const char *reason; /* why not; NULL: it is open, or was not tried (library NULL) */
    bool close_driver;
    cufile_error (*driver_open)(void);
    cufile_error (*driver_close)(void);
    cufile_error (*driver_properties)(cufile_properties *out);
    cufile_error (*handle_register)(void **handle, cufile_descriptor *descriptor);
    void (*handle_deregister)(void *handle);
    ssize_t (*read)(void *handle, void *base, size_t size, off_t offset, off_t at);
};

sft_status sft__cuda_gds_create(sft__cuda_gds **out, const char *path,
                                const sft_allocator *allocator, sft_error *err) {
    sft__cuda_gds *gds = sft__base_alloc_zero(allocator, sizeof *gds);

    *out = NULL;
    if (gds == NULL || !sft__base_mutex_init(&gds->lock)) {
        sft__base_free(allocator, gds, sizeof *gds);
        return sft__base_fail_nomem(err, sizeof *gds);
    }
    path = path != NULL ? path : "libcufile.so.0";
    gds->path_size = strlen(path) + 1;
    gds->path = sft__base_alloc(allocator, gds->path_size);
    if (gds->path == NULL) {
        const size_t size = gds->path_size;
        sft__cuda_gds_free(gds, allocator);
        return sft__base_fail_nomem(err, size);
    }
    memcpy(gds->path, path, gds->path_size);
    *out = gds;
    return SFT_OK;
}

void sft__cuda_gds_free(sft__cuda_gds *gds, const sft_allocator *allocator) {
    if (gds == NULL) {
        return;
    }
    if (gds->close_driver) {
        (void)gds->driver_close();
    }
    sft__cuda_library_close(gds->library);
    sft__base_free(allocator, gds->path, gds->path_size);
    sft__base_mutex_reset(&gds->lock);
    sft__base_free(allocator, gds, sizeof *gds);
}

static bool find_calls(sft__cuda_gds *g) {
    return sft__cuda_library_find(g->library, "cuFileDriverOpen", &g->driver_open) &&
           sft__cuda_library_find(g->library, "cuFileDriverClose", &g->driver_close) &&
           sft__cuda_library_find(g->library, "cuFileDriverGetProperties", &g->driver_properties) &&
           sft__cuda_library_find(g->library, "cuFileHandleRegister", &g->handle_register) &&
           sft__cuda_library_find(g->library, "cuFileHandleDeregister", &g->handle_deregister) &&
           sft__cuda_library_find(g->library, "cuFileRead", &g->read);
}

/* Why not, or NULL. */
static const char *open_driver(sft__cuda_gds *g) {
    cufile_properties p;
    cufile_error e;
    char why[256];

    g->library = sft__cuda_library_open(g->path, why, sizeof why);
    if (g->library == NULL) {
        return "libcufile is not there";
    }
    if (!find_calls(g)) {
        return "libcufile lacks a function that is needed";
    }
    e = g->driver_open();
    if (e.err != 0 && e.err != CUFILE_ALREADY_OPEN) {
        return "cuFile's driver does not open";
    }
    g->close_driver = e.err == 0; /* else somebody else's */
    memset(&p, 0, sizeof p);
    e = g->driver_properties(&p);
    if (e.err != 0) {
        return "cuFile's driver does not tell its properties";
    }
    if (p.nvfs.major_version == 0 && (p.nvfs.status_flags & STATUS_NVME_P2P) == 0) {
        return "cuFile is in compatibility mode: no nvidia-fs module and no peer-to-peer NVMe";
    }
    if ((p.nvfs.control_flags & CONTROL_COMPAT) != 0) {
        return "cuFile may fall back to host memory silently: set allow_compat_mode to false";
    }
    return NULL;
}

/* The same small read both ways. Why not, or NULL. */
static const char *compare(const sft_cuda *cuda, const sft_source *source,
                           const sft__cuda_gds_file *file) {
    const sft__cuda_driver *d = &cuda->driver;
    uint8_t plain[PROBE_BYTES];
    uint8_t direct[PROBE_BYTES];
    uint64_t address = 0;
    const char *reason = NULL;

    if (sft_source_size(source) < PROBE_BYTES) {
        return "the file is too small to be worth it";
    }
    if (sft_source_read(source, 0, plain, sizeof plain, NULL) != SFT_OK) {
        return "the file cannot be read";
    }
    if (d->memory_alloc(&address, PROBE_BYTES) != SFT__CUDA_OK) {
        return "there is no device memory for the probe";
    }
    memset(direct, 0, sizeof direct);
    if (!sft__cuda_gds_read(cuda, file, address, 0, 0, PROBE_BYTES)) {
        reason = "a read from storage to the device failed";
    } else if (d->copy_back(direct, address, PROBE_BYTES) != SFT__CUDA_OK) {
        reason = "what was read to the device cannot be read back";
    } else if (memcmp(plain, direct, sizeof plain) != 0) {
        reason = "a read from storage to the device brought other bytes than pread";
    }
    (void)d->memory_free(address);
    return reason;
}

static const char *open_file(sft_cuda *cuda, const sft_source *source, sft__cuda_gds_file *out) {
    const sft__cuda_gds *g = cuda->gds;
    cufile_descriptor descriptor;

    out->direct = sft__fs_open_direct(sft_source_descriptor(source));
    if (out->direct < 0) {
        return "the source is no file that can be read past the page cache";
    }
    memset(&descriptor, 0, sizeof descriptor);
    descriptor.type = CUFILE_OPAQUE_FD;
    descriptor.handle.fd = out->direct;
    const cufile_error e = g->handle_register(&out->handle, &descriptor);
    if (e.err != 0) {
        out->handle = NULL;
        return "cuFile does not accept files of this file system";
    }
    return compare(cuda, source, out);
}

bool sft__cuda_gds_open_file(sft_cuda *cuda, const sft_source *source, sft__cuda_gds_file *out,
                             const char **reason) {
    sft__cuda_gds *g = cuda->gds;

    out->handle = NULL;
    out->direct = -1;
    sft__base_mutex_lock(&g->lock);
    if (g->library == NULL && g->reason == NULL) {
        g->reason = open_driver(g);
    }
    *reason = g->reason;
    sft__base_mutex_unlock(&g->lock);
    if (*reason == NULL) {
        *reason = open_file(cuda, source, out);
    }
    if (*reason == NULL) {
        *reason = "the probe read the same bytes both ways";
        return true;
    }
    sft__cuda_gds_close_file(cuda, out);
    return false;
}

bool sft__cuda_gds_read(const sft_cuda *cuda, const sft__cuda_gds_file *file, uint64_t base,
                        uint64_t at, uint64_t offset, uint64_t size) {
    while (size > 0) {
        const ssize_t n = cuda->gds->read(file->handle, (void *)(uintptr_t)base, (size_t)size,
                                          (off_t)offset, (off_t)at);
        if (n <= 0 || (uint64_t)n > size) {
            return false;
        }
        at += (uint64_t)n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

void sft__cuda_gds_close_file(const sft_cuda *cuda, sft__cuda_gds_file *file) {
    if (file->handle != NULL) {
        cuda->gds->handle_deregister(file->handle);
    }
    sft__fs_close_direct(file->direct);
    file->handle = NULL;
    file->direct = -1;
}
