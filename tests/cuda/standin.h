/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/standin.h - a driver library that is none: device memory is host memory under
 * addresses that cannot be touched, streams are queues whose work is done later, in an order drawn
 * from a seed, when some call waits or by the way. It notes every use that a real driver would not
 * forgive, or would forgive silently with wrong bytes. Tests reach these functions by dlsym in the
 * library that they gave as driver_path.
 */
#ifndef SFT_TESTS_STANDIN_H
#define SFT_TESTS_STANDIN_H

#include <stddef.h>
#include <stdint.h>

typedef struct standin_config {
    uint32_t seed;
    uint32_t devices;
    uint64_t memory_bytes; /* of each device */
    uint64_t pinned_bytes; /* of the host */
    uint64_t fail_call;    /* the n-th call from here on fails, counted from 1; 0: none */
    int fail_result;
    int integrated;
    int lazy; /* 1: work is done only when somebody waits for it; 0: now and then by the way */
} standin_config;

typedef struct standin_report {
    uint64_t calls;
    uint64_t faults; /* misuse found */
    char first[160]; /* the first of it */
    uint64_t device_live;
    uint64_t pinned_live;
    uint64_t streams_live;
    uint64_t events_live;
    uint64_t contexts_live; /* references to primary contexts */
    uint64_t copies;
    uint64_t pinned_peak; /* bytes */
    char failed[48];      /* the call that was made to fail */
} standin_report;

typedef void (*standin_reset_fn)(const standin_config *config);
typedef void (*standin_report_fn)(standin_report *out);
/* What a kernel on `stream` would see: queued, done when the stream comes to it. */
typedef int (*standin_consume_fn)(void *stream, uint64_t address, size_t size, void *dst);
/* Work that takes its time on `stream`, filling device memory when it is done. */
typedef int (*standin_produce_fn)(void *stream, uint64_t address, size_t size, int value);
/* What device memory holds now; no call of the driver's, never fails on request. 0: outside of any.
 */
typedef int (*standin_peek_fn)(uint64_t address, size_t size, void *dst);
/* Bytes to device memory from beside the streams, as a storage device does; 0: outside of any
 * allocation. */
int standin_store(uint64_t address, const void *src, size_t size);

/* cuFile's stand-in: how it behaves from here on. */
enum {
    STANDIN_CUFILE_REAL = 0,
    STANDIN_CUFILE_NO_MODULE,
    STANDIN_CUFILE_COMPAT,
    STANDIN_CUFILE_NO_DRIVER,
    STANDIN_CUFILE_REFUSES,
    STANDIN_CUFILE_WRONG_BYTES,
    STANDIN_CUFILE_FAILS_PROBE,
    STANDIN_CUFILE_FAILS_LATER,
    STANDIN_CUFILE_SHORT
};
typedef void (*standin_cufile_reset_fn)(int behaviour);
typedef struct standin_cufile_report {
    uint64_t handles_live;
    uint64_t drivers_live;
    uint64_t reads;
    uint64_t faults;
} standin_cufile_report;
typedef void (*standin_cufile_report_fn)(standin_cufile_report *out);

#endif
