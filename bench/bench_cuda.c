/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_cuda.c - one measurement of a load to a GPU, or of what bounds it; cuda_bench.py
 * drives it.
 *
 *     sft_bench_cuda WHAT MODEL [name=value ...]
 *
 * WHAT: load (libsafetensors-cuda), pcie (pinned memory to the device), storage (the files by pread, O_DIRECT
 * if direct=1, same threads). Values: driver= cufile= device= threads= chunk= ring= streams=
 * strategy= gds= direct= check=1 (compare what lies on the device with reads). Prints one JSON
 * object; "gpu": null with the reason where there is no GPU. Exit status: 0 also then.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sft/cuda.h>
#include <sft/extend.h>
#include <sft/sft.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct settings {
    const char *driver;
    const char *cufile;
    uint64_t device, threads, chunk, ring, streams, strategy, gds, direct, check;
} settings;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int give_up(const char *what, const sft_error *err) {
    char text[512];
    size_t n = 0;
    for (const char *p = err->message; *p != '\0' && n + 2 < sizeof text; p++) {
        if (*p == '"' || *p == '\\') {
            text[n++] = '\\';
        }
        text[n++] = *p;
    }
    text[n] = '\0';
    if (err->status == SFT_E_UNSUPPORTED) {
        printf("{\"what\": \"%s\", \"gpu\": null, \"reason\": \"%s\"}\n", what, text);
        return 0;
    }
    printf("{\"what\": \"%s\", \"error\": \"%s\"}\n", what, text);
    return 1;
}

static bool read_setting(settings *s, const char *argument) {
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"device=", &s->device}, {"threads=", &s->threads}, {"chunk=", &s->chunk},
                   {"ring=", &s->ring},     {"streams=", &s->streams}, {"strategy=", &s->strategy},
                   {"gds=", &s->gds},       {"direct=", &s->direct},   {"check=", &s->check}};
    if (strncmp(argument, "driver=", 7) == 0) {
        s->driver = argument + 7;
        return true;
    }
    if (strncmp(argument, "cufile=", 7) == 0) {
        s->cufile = argument + 7;
        return true;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const size_t n = strlen(numbers[i].name);
        if (strncmp(argument, numbers[i].name, n) == 0) {
            *numbers[i].value = strtoull(argument + n, NULL, 10);
            return true;
        }
    }
    return false;
}

static void options_of(const settings *s, sft_cuda_options *how) {
    SFT_INIT(how);
    how->driver_path = s->driver;
    how->cufile_path = s->cufile;
    how->device = (uint32_t)s->device;
    how->chunk_bytes = s->chunk;
    how->ring_bytes = s->ring;
    how->streams = (uint32_t)s->streams;
}

/* ---------------------------------------------------------------- the driver, for the yardsticks
 */

typedef struct driver {
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*memory_alloc)(uint64_t *address, size_t size);
    int (*memory_free)(uint64_t address);
    int (*host_alloc)(void **memory, size_t size, unsigned flags);
    int (*host_free)(void *memory);
    int (*copy)(uint64_t dst, const void *src, size_t size, void *stream);
    int (*copy_back)(void *dst, uint64_t src, size_t size);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_free)(void *stream);
    int (*stream_sync)(void *stream);
} driver;

static bool find(void *library, const char *name, void *function) {
    void *address = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static bool driver_open(driver *d, const char *path) {
    void *l = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return find(l, "cuDevicePrimaryCtxRetain", &d->context_retain) &&
           find(l, "cuDevicePrimaryCtxRelease_v2", &d->context_release) &&
           find(l, "cuCtxPushCurrent_v2", &d->context_push) &&
           find(l, "cuCtxPopCurrent_v2", &d->context_pop) &&
           find(l, "cuMemAlloc_v2", &d->memory_alloc) && find(l, "cuMemFree_v2", &d->memory_free) &&
           find(l, "cuMemHostAlloc", &d->host_alloc) && find(l, "cuMemFreeHost", &d->host_free) &&
           find(l, "cuMemcpyHtoDAsync_v2", &d->copy) && find(l, "cuMemcpyDtoH_v2", &d->copy_back) &&
           find(l, "cuStreamCreate", &d->stream_create) &&
           find(l, "cuStreamDestroy_v2", &d->stream_free) &&
           find(l, "cuStreamSynchronize", &d->stream_sync);
}

/* Best of eight copies of 64 MiB (or what the device has) from one pinned block, in bytes a
 * second. */
static double copy_rate(const driver *d, size_t size) {
    void *host = NULL, *stream = NULL;
    uint64_t device = 0;
    double best = 0;

    if (d->host_alloc(&host, size, 0) == 0 && d->memory_alloc(&device, size) == 0 &&
        d->stream_create(&stream, 1) == 0) {
        memset(host, 1, size);
        for (int i = 0; i < 8; i++) {
            const double begun = now();
            if (d->copy(device, host, size, stream) != 0 || d->stream_sync(stream) != 0) {
                break;
            }
            const double rate = (double)size / (now() - begun);
            best = rate > best ? rate : best;
            if (rate < 1e9) {
                break; /* no PCI Express: the stand-in */
            }
        }
    }
    if (stream != NULL) {
        (void)d->stream_free(stream);
    }
    if (device != 0) {
        (void)d->memory_free(device);
    }
    if (host != NULL) {
        (void)d->host_free(host);
    }
    return best;
}

static int pcie(const settings *s) {
    driver d;
    void *context;
    uint32_t devices;
    sft_error err = {0};

    if (sft_cuda_available(&devices, s->driver, &err) != SFT_OK) {
        return give_up("pcie", &err);
    }
    if (!driver_open(&d, s->driver) || d.context_retain(&context, (int)s->device) != 0 ||
        d.context_push(context) != 0) {
        (void)sft_error_at(&err, SFT_E_IO, 0, NULL, 0, "the driver does not start");
        return give_up("pcie", &err);
    }
    double rate = copy_rate(&d, (size_t)64 << 20);
    rate = rate > 0 ? rate : copy_rate(&d, (size_t)8 << 20);
    (void)d.context_pop(&context);
    (void)d.context_release((int)s->device);
    printf("{\"what\": \"pcie\", \"bytes_per_second\": %.0f}\n", rate);
    return rate > 0 ? 0 : 1;
}

/* ---------------------------------------------------------------- storage */

enum { BLOCK = 8 << 20 };

typedef struct reader {
    const sft_catalog *model;
    const settings *s;
    atomic_size_t next; /* block */
    size_t blocks;
    atomic_ullong bytes;
    atomic_bool failed;
} reader;

static void read_blocks(void *ctx, size_t index) {
    reader *r = ctx;
    void *memory = NULL;
    int direct = -1;
    size_t open_file = SIZE_MAX;

    (void)index;
    if (posix_memalign(&memory, 2 << 20, BLOCK) != 0) {
        atomic_store(&r->failed, true);
        return;
    }
    memset(memory, 1, BLOCK);
    for (size_t b = atomic_fetch_add(&r->next, 1); b < r->blocks;
         b = atomic_fetch_add(&r->next, 1)) {
        size_t file = 0, at = b;
        const sft_file *f = sft_catalog_file_at(r->model, 0);
        for (; at >= (f->size + BLOCK - 1) / BLOCK; f = sft_catalog_file_at(r->model, ++file)) {
            at -= (f->size + BLOCK - 1) / BLOCK;
        }
        if (file != open_file) {
            if (direct >= 0) {
                (void)close(direct);
            }
            direct = open(f->path, O_RDONLY | O_CLOEXEC | (r->s->direct != 0 ? O_DIRECT : 0));
            open_file = file;
        }
        const ssize_t n = pread(direct, memory, BLOCK, (off_t)at * BLOCK);
        if (n <= 0) {
            atomic_store(&r->failed, true);
        } else {
            atomic_fetch_add(&r->bytes, (unsigned long long)n);
        }
    }
    if (direct >= 0) {
        (void)close(direct);
    }
    free(memory);
}

static int storage(const settings *s, const sft_catalog *model, sft_pool *pool) {
    reader r = {.model = model, .s = s};
    for (size_t i = 0; i < sft_catalog_file_count(model); i++) {
        r.blocks += (sft_catalog_file_at(model, i)->size + BLOCK - 1) / BLOCK;
    }
    const double begun = now();
    sft_pool_run(pool, sft_pool_threads(pool), read_blocks, &r);
    const double seconds = now() - begun;
    printf("{\"what\": \"storage\", \"direct\": %llu, \"bytes\": %llu, \"seconds\": %.6f, "
           "\"failed\": %s}\n",
           (unsigned long long)s->direct, atomic_load(&r.bytes), seconds,
           atomic_load(&r.failed) ? "true" : "false");
    return atomic_load(&r.failed);
}

/* ---------------------------------------------------------------- libsafetensors-cuda */

/* Tensors that differ from what reads give; the context is made current around the copies. */
static size_t differing(const settings *s, const sft_catalog *model, const sft_cuda_loaded *l) {
    driver d;
    void *context;
    size_t bad = 0;
    if (!driver_open(&d, s->driver) || d.context_retain(&context, (int)s->device) != 0) {
        return SIZE_MAX;
    }
    (void)d.context_push(context);
    for (size_t i = 0; i < sft_cuda_loaded_count(l); i++) {
        sft_cuda_view v;
        if (sft_cuda_loaded_at(l, i, &v) != SFT_OK || v.nbytes == 0) {
            continue;
        }
        uint8_t *want = malloc(v.nbytes), *got = malloc(v.nbytes);
        if (want == NULL || got == NULL ||
            sft_tensor_read_bytes(model, v.tensor, 0, want, v.nbytes, NULL) != SFT_OK ||
            d.copy_back(got, v.address, v.nbytes) != 0 || memcmp(want, got, v.nbytes) != 0) {
            bad++;
        }
        free(want);
        free(got);
    }
    (void)d.context_pop(&context);
    (void)d.context_release((int)s->device);
    return bad;
}

static int load(const settings *s, const sft_catalog *model, sft_pool *pool) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda *gpu;
    sft_cuda_loaded *l;
    sft_cuda_info info;
    sft_cuda_stats stats;
    sft_error err = {0};
    const char *reason, *direct_reason;
    int direct;

    options_of(s, &how);
    SFT_INIT(&o);
    o.pool = pool;
    o.strategy = (sft_strategy)s->strategy;
    o.flags = s->gds != 0 ? SFT_CUDA_DIRECT_STORAGE : 0;
    const double begun = now();
    if (sft_cuda_open(&gpu, &how, &err) != SFT_OK) {
        return give_up("load", &err);
    }
    const double opened = now();
    if (sft_cuda_load(&l, gpu, model, &o, &err) != SFT_OK) {
        sft_cuda_close(gpu);
        return give_up("load", &err);
    }
    const double first = now();
    if (sft_cuda_info_get(gpu, &info, &err) != SFT_OK) {
        return give_up("load", &err);
    }
    sft_cuda_loaded_stats(l, &stats);
    const sft_strategy strategy = sft_cuda_loaded_strategy(l, 0, &reason, &direct, &direct_reason);
    printf(
        "{\"what\": \"load\", \"gpu\": \"%s\", \"driver\": %u, \"unified\": %u, \"bytes\": %llu, "
        "\"seconds\": %.6f, \"open_seconds\": %.6f, \"strategy\": %d, \"reason\": \"%s\", "
        "\"storage_direct\": %d, \"storage_direct_reason\": \"%s\", \"chunks\": %llu, "
        "\"copies\": %llu, \"ring_waits\": %llu, \"ring_bytes\": %llu",
        info.name, info.driver_version, info.unified, (unsigned long long)sft_cuda_loaded_bytes(l),
        first - opened, opened - begun, (int)strategy, reason, direct, direct_reason,
        (unsigned long long)stats.chunks, (unsigned long long)stats.copies,
        (unsigned long long)stats.ring_waits, (unsigned long long)info.ring_bytes);
    size_t bad = 0;
    if (s->check != 0) {
        bad = differing(s, model, l);
        printf(", \"differing\": %zu", bad);
    }
    sft_cuda_loaded_free(l);
    const double again = now(); /* the ring is pinned now */
    const bool second = sft_cuda_load(&l, gpu, model, &o, &err) == SFT_OK;
    printf(", \"again_seconds\": %.6f}\n", now() - again);
    sft_cuda_loaded_free(second ? l : NULL);
    sft_cuda_close(gpu);
    return bad != 0 || !second;
}

int main(int argc, char **argv) {
    settings s = {.threads = 8};
    sft_catalog *model = NULL;
    sft_pool *pool = NULL;
    sft_error err = {0};
    int failed = 0;

    for (int i = 3; i < argc; i++) {
        failed |= !read_setting(&s, argv[i]);
    }
    if (argc < 3 || failed) {
        fprintf(stderr, "usage: sft_bench_cuda load|pcie|storage MODEL [name=value ...]\n");
        return 2;
    }
    if (strcmp(argv[1], "pcie") == 0) {
        return pcie(&s);
    }
    if (sft_catalog_open(&model, argv[2], NULL, &err) != SFT_OK ||
        sft_pool_create(&pool, (uint32_t)s.threads, NULL, &err) != SFT_OK) {
        failed = give_up(argv[1], &err);
    } else {
        failed = strcmp(argv[1], "storage") == 0 ? storage(&s, model, pool) : load(&s, model, pool);
    }
    sft_pool_free(pool);
    sft_catalog_close(model);
    return failed;
}
