/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/driver.h - the few calls of the CUDA driver that are used, found by name at run time.
 * Declared from NVIDIA's public description of the driver's interface; no header of CUDA is needed.
 * Symbols with a version (_v2) are the ones that 64-bit programs have been given since CUDA 4.
 */
#ifndef SFT_CUDA_DRIVER_H
#define SFT_CUDA_DRIVER_H

#include "base/compiler.h"
#include <sft/types.h>

/* X(field, symbol, arguments): every call returns a CUresult. Contexts, streams and events are
 * pointers, devices int, device addresses uint64_t. */
#define SFT__CUDA_CALLS(X)                                                                         \
    X(init, cuInit, (unsigned flags))                                                              \
    X(driver_version, cuDriverGetVersion, (int *version))                                          \
    X(device_count, cuDeviceGetCount, (int *count))                                                \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                         \
    X(device_name, cuDeviceGetName, (char *name, int size, int device))                            \
    X(device_uuid, cuDeviceGetUuid, (void *uuid, int device))                                      \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))             \
    X(context_retain, cuDevicePrimaryCtxRetain, (void **context, int device))                      \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
    X(context_push, cuCtxPushCurrent_v2, (void *context))                                          \
    X(context_pop, cuCtxPopCurrent_v2, (void **context))                                           \
    X(memory_info, cuMemGetInfo_v2, (size_t *left, size_t *total))                                 \
    X(memory_alloc, cuMemAlloc_v2, (uint64_t *address, size_t size))                               \
    X(memory_free, cuMemFree_v2, (uint64_t address))                                               \
    X(host_alloc, cuMemHostAlloc, (void **memory, size_t size, unsigned flags))                    \
    X(host_free, cuMemFreeHost, (void *memory))                                                    \
    X(copy, cuMemcpyHtoDAsync_v2, (uint64_t dst, const void *src, size_t size, void *stream))      \
    X(copy_back, cuMemcpyDtoH_v2, (void *dst, uint64_t src, size_t size))                          \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *dst, uint64_t src, size_t size, void *stream))        \
    X(pointer_attribute, cuPointerGetAttribute, (void *value, int attribute, uint64_t address))    \
    X(stream_create, cuStreamCreate, (void **stream, unsigned flags))                              \
    X(stream_free, cuStreamDestroy_v2, (void *stream))                                             \
    X(stream_wait, cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                 \
    X(stream_sync, cuStreamSynchronize, (void *stream))                                            \
    X(event_create, cuEventCreate, (void **event, unsigned flags))                                 \
    X(event_free, cuEventDestroy_v2, (void *event))                                                \
    X(event_record, cuEventRecord, (void *event, void *stream))                                    \
    X(event_query, cuEventQuery, (void *event))                                                    \
    X(event_sync, cuEventSynchronize, (void *event))                                               \
    X(error_name, cuGetErrorName, (int result, const char **name))                                 \
    X(error_text, cuGetErrorString, (int result, const char **text))

enum {
    SFT__CUDA_OK = 0,
    SFT__CUDA_OUT_OF_MEMORY = 2,
    SFT__CUDA_NO_DEVICE = 100,
    SFT__CUDA_NOT_READY = 600,
    SFT__CUDA_INTEGRATED = 18, /* attributes of a device */
    SFT__CUDA_CAPABILITY_MAJOR = 75,
    SFT__CUDA_CAPABILITY_MINOR = 76,
    SFT__CUDA_POINTER_DEVICE = 9, /* attribute of an address */
    SFT__CUDA_STREAM_NON_BLOCKING = 1,
    SFT__CUDA_EVENT_BLOCKING_SYNC = 1,
    SFT__CUDA_EVENT_NO_TIMING = 2,
    SFT__CUDA_HOST_PORTABLE = 1
};

typedef struct sft__cuda_driver {
    void *library;
#define SFT__CUDA_FIELD(field, symbol, arguments) int(*field) arguments;
    SFT__CUDA_CALLS(SFT__CUDA_FIELD)
#undef SFT__CUDA_FIELD
} sft__cuda_driver;

/* Opens the driver and starts it. path: NULL for the system's. SFT_E_UNSUPPORTED says what is
 * missing. After a failure there is nothing to close. */
sft_status sft__cuda_driver_open(sft__cuda_driver *out, const char *path, sft_error *err);
void sft__cuda_driver_close(sft__cuda_driver *driver);

/* The error for a result that is not 0: `call` by its name, the driver's name and text for the
 * result. out of memory is SFT_E_NOMEM, no device SFT_E_UNSUPPORTED, the rest SFT_E_IO. */
sft_status sft__cuda_fail(const sft__cuda_driver *driver, sft_error *err, int result,
                          const char *call);

/* Runs a call of the table; on failure returns from the calling function. */
#define SFT__CUDA_TRY(driver, err, field, arguments)                                               \
    do {                                                                                           \
        const int try_result = (driver)->field arguments;                                          \
        if (try_result != SFT__CUDA_OK) {                                                          \
            return sft__cuda_fail((driver), (err), try_result, #field);                            \
        }                                                                                          \
    } while (0)

/* ---------------------------------------------------------------- libraries (library_posix.c) */

/* NULL, and one sentence in `why` (an array), if it cannot be opened. Never unloaded from memory.
 */
void *sft__cuda_library_open(const char *path, char *why, size_t cap);
void sft__cuda_library_close(void *library);
/* Copies the address of a function into *function (a pointer to a function pointer); false: not
 * there. */
bool sft__cuda_library_find(void *library, const char *symbol, void *function);

#endif
