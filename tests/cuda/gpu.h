/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/gpu.h - what the tests of libsafetensors-cuda share: the stand-in's own functions, random
 * models, and the comparison of what lies on the device with what sft_tensor_read gives.
 */
#ifndef SFT_TESTS_GPU_H
#define SFT_TESTS_GPU_H

#include "standin.h"
#include "unit/counting.h"
#include "unit/files.h"

#include <dlfcn.h>
#include <sft/cuda.h>
#include <sft/sft.h>
#include <stdbool.h>

#define DRIVER SFT_STANDIN
#define CUFILE SFT_STANDIN_CUFILE

static standin_reset_fn standin_reset_;
static standin_report_fn standin_report_;
static standin_consume_fn consume;
static standin_produce_fn produce;
static standin_peek_fn peek;
static standin_cufile_reset_fn cufile_reset;
static standin_cufile_report_fn cufile_report;
static int (*copy_back)(void *dst, uint64_t src, size_t size);
static int (*stream_sync)(void *stream);
static int (*stream_create)(void **stream, unsigned flags);
static int (*stream_free)(void *stream);
static int (*memory_alloc)(uint64_t *address, size_t size);
static int (*memory_free)(uint64_t address);
static int (*context_retain)(void **context, int device);
static int (*context_release)(int device);
static int (*context_push)(void *context);
static int (*context_pop)(void **context);

static inline void gpu_symbol(void *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    assert_non_null(address);
    memcpy(function, &address, sizeof address);
}

static inline int gpu_setup(void **state) {
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    void *cufile = dlopen(CUFILE, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(driver);
    assert_non_null(cufile);
    gpu_symbol(driver, "standin_reset", &standin_reset_);
    gpu_symbol(driver, "standin_report_get", &standin_report_);
    gpu_symbol(driver, "standin_consume", &consume);
    gpu_symbol(driver, "standin_produce", &produce);
    gpu_symbol(driver, "standin_peek", &peek);
    gpu_symbol(cufile, "standin_cufile_reset", &cufile_reset);
    gpu_symbol(cufile, "standin_cufile_report_get", &cufile_report);
    gpu_symbol(driver, "cuMemcpyDtoH_v2", &copy_back);
    gpu_symbol(driver, "cuStreamSynchronize", &stream_sync);
    gpu_symbol(driver, "cuStreamCreate", &stream_create);
    gpu_symbol(driver, "cuStreamDestroy_v2", &stream_free);
    gpu_symbol(driver, "cuMemAlloc_v2", &memory_alloc);
    gpu_symbol(driver, "cuMemFree_v2", &memory_free);
    gpu_symbol(driver, "cuDevicePrimaryCtxRetain", &context_retain);
    gpu_symbol(driver, "cuDevicePrimaryCtxRelease_v2", &context_release);
    gpu_symbol(driver, "cuCtxPushCurrent_v2", &context_push);
    gpu_symbol(driver, "cuCtxPopCurrent_v2", &context_pop);
    return scratch_make(state);
}

static inline standin_config gpu_config(uint32_t seed) {
    const standin_config c = {.seed = seed,
                              .devices = 2,
                              .memory_bytes = 64u << 20,
                              .pinned_bytes = 64u << 20,
                              .fail_result = 999};
    return c;
}

static inline void gpu_reset(const standin_config *c) {
    standin_reset_(c);
    cufile_reset(STANDIN_CUFILE_REAL);
}

/* No misuse, nothing left. */
#define assert_gpu_clean()                                                                         \
    do {                                                                                           \
        standin_report clean_;                                                                     \
        standin_cufile_report file_;                                                               \
        standin_report_(&clean_);                                                                  \
        cufile_report(&file_);                                                                     \
        assert_string_equal(clean_.first, "");                                                     \
        assert_int_equal(clean_.faults, 0);                                                        \
        assert_int_equal(clean_.device_live + clean_.pinned_live, 0);                              \
        assert_int_equal(clean_.streams_live + clean_.events_live, 0);                             \
        assert_int_equal(clean_.contexts_live, 0);                                                 \
        assert_int_equal(file_.handles_live + file_.drivers_live + file_.faults, 0);               \
    } while (0)

/* ---------------------------------------------------------------- chance */

static uint64_t rnd_state = 1;

static inline uint64_t rnd_below(uint64_t n) {
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (rnd_state >> 33) % n;
}

/* ---------------------------------------------------------------- models */

enum { MODEL_MOST = 24, RANK_MOST = 5 };

/* Writes a file of random tensors of all types and shapes; large: one of 200 KB among them. */
static inline void make_model(const char *path, const char *prefix, bool large) {
    static char names[MODEL_MOST][32];
    static uint64_t shapes[MODEL_MOST][RANK_MOST];
    sft_save_tensor t[MODEL_MOST];
    const size_t count = rnd_below(MODEL_MOST) + 1;
    size_t n = 0;
    sft_error err;

    memset(t, 0, sizeof t);
    for (size_t i = 0; i < count; i++) {
        const sft_dtype *type = sft_dtype_get((uint32_t)rnd_below(SFT_DTYPE_COUNT) + 1);
        uint32_t rank = (uint32_t)rnd_below(RANK_MOST + 1);
        uint64_t elements = 1;
        uint64_t bytes;
        for (uint32_t d = 0; d < rank; d++) {
            shapes[n][d] = rnd_below(20) == 0 ? 0 : rnd_below(d == 0 ? 60 : 9) + 1;
            elements *= shapes[n][d];
        }
        if (large && i == 0) {
            type = sft_dtype_get(SFT_F32);
            rank = 2;
            shapes[n][0] = 250;
            shapes[n][1] = 200;
            elements = 250 * 200;
        }
        if (sft_dtype_bytes(type, elements, &bytes, NULL) != SFT_OK) {
            continue;
        }
        uint8_t *data = malloc(bytes + 1);
        assert_non_null(data);
        for (uint64_t k = 0; k < bytes; k++) {
            data[k] = (uint8_t)rnd_below(256);
        }
        (void)snprintf(names[n], sizeof names[n], "%s.%zu", prefix, i);
        t[n] = (sft_save_tensor){names[n], strlen(names[n]), type, shapes[n], rank, 0, data, bytes};
        n++;
    }
    assert_int_equal(sft_save(path, t, n, NULL, 0, NULL, &err), SFT_OK);
    for (size_t i = 0; i < n; i++) {
        void *data;
        memcpy(&data, &t[i].data, sizeof data);
        free(data);
    }
}

/* Some slices, sometimes of the wrong kind for the type. Returns how many. */
static inline size_t make_slices(sft_slice *s, const sft_tensor *t) {
    size_t n = 0;
    for (uint32_t d = 0; d < t->rank && rnd_below(8) != 0; d++) {
        const int64_t size = (int64_t)t->shape[d];
        s[n] = (sft_slice){.start = SFT_OMIT, .stop = SFT_OMIT, .step = 1, .kind = SFT_SLICE_RANGE};
        switch (rnd_below(6)) {
        case 0:
            if (size > 0) {
                s[n].kind = SFT_SLICE_INDEX;
                s[n].start = (int64_t)rnd_below((uint64_t)size);
            }
            break;
        case 1:
            s[n].start = (int64_t)rnd_below((uint64_t)size + 1);
            break;
        case 2:
            s[n].start = (int64_t)rnd_below((uint64_t)size + 1);
            s[n].stop = s[n].start + (int64_t)rnd_below((uint64_t)size + 1);
            break;
        case 3:
            s[n].step = (int64_t)rnd_below(4) + 1;
            break;
        case 4:
            s[n].step = -(int64_t)rnd_below(4) - 1;
            break;
        default:
            break;
        }
        n++;
    }
    return n;
}

/* ---------------------------------------------------------------- comparison */

/* The item as it should be; *size: its bytes. Owned. NULL: *status says why not. */
static inline uint8_t *expected(const sft_catalog *catalog, const sft_cuda_item *item,
                                uint64_t *size, sft_status *status) {
    sft_read_options o;
    SFT_INIT(&o);
    o.slices = item->slices;
    o.slice_count = item->slice_count;
    *status = sft_tensor_result(item->tensor, &o, NULL, NULL, size, NULL);
    if (*status != SFT_OK) {
        return NULL;
    }
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    *status = sft_tensor_read(catalog, item->tensor, &o, bytes, *size, NULL);
    if (*status != SFT_OK) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

#endif
