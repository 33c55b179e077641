/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * host.h - what the module asks of JavaScript: files by path, the clock, random bytes. Nothing else is
 * imported. src/host.ts is the other side.
 *
 * Results below 0 are errors: minus the errno of this C library. Positions and sizes of files are doubles,
 * which are exact up to 2^53, as JavaScript's own are.
 */
#ifndef SFT_WASM_HOST_H
#define SFT_WASM_HOST_H

#include <stddef.h>
#include <stdint.h>

#define HOST(name) __attribute__((import_module("host"), import_name(#name)))

typedef struct host_stat {
    double size;
    double mtime_ms;
    double inode;
    double device;
    uint32_t kind; /* 1: file, 2: directory, 3: anything else */
    uint32_t reserved;
} host_stat;

/* A handle. */
HOST(open) int32_t host_open(const char *path, size_t len, host_stat *st);
HOST(fstat) int32_t host_fstat(int32_t file, host_stat *st);
HOST(stat) int32_t host_stat_path(const char *path, size_t len, host_stat *st);
/* How many bytes were read: fewer at the end of the file. */
HOST(read) double host_read(int32_t file, double offset, void *dst, size_t size);
/* Another handle of the same file. */
HOST(dup) int32_t host_dup(int32_t file);
HOST(close) void host_close(int32_t file);
/* The names in a directory, each with a NUL behind it: how many bytes they take. Written if they fit. */
HOST(list) int32_t host_list(const char *path, size_t len, char *names, size_t cap);
/* The path without links, with its NUL; as host_list. */
HOST(real) int32_t host_real(const char *path, size_t len, char *real, size_t cap);
/* A number as %.<digits>e or %.<digits>g of C: how many bytes. */
HOST(real_text)
size_t host_real_text(double v, uint32_t general, uint32_t digits, char *text, size_t cap);
/* The number that a text of such a form is. Of safetensors-report.wasm alone. */
HOST(real_of) double host_real_of(const char *text, size_t len);
HOST(random) void host_random(void *dst, size_t size);
HOST(now) double host_now(void); /* milliseconds since 1970 */

#endif
