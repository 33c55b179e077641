/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench.h - what the parts of the benchmark program share.
 *
 * The program is a server: one command a line on stdin, one answer a line on stdout, so that
 * bench/run.py can interleave contenders that are all warm. A command does one timed repetition and
 * returns nanoseconds; whatever is not the thing measured stays outside its clock. Linux and other
 * POSIX systems only.
 */
#ifndef BENCH_H
#define BENCH_H

#include <sft/sft.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bench_args {
    int count;
    char **text; /* text[0] is the command */
} bench_args;

/* Returns the nanoseconds measured (a mean where it repeats inside). */
typedef double (*bench_fn)(const bench_args *args);

typedef struct bench_command {
    const char *name;
    bench_fn run;
    int least; /* arguments behind the name */
} bench_command;

extern const bench_command bench_open_commands[];
extern const bench_command bench_read_commands[];
extern const bench_command bench_load_commands[];
extern const bench_command bench_save_commands[];
extern const bench_command bench_stream_commands[];
extern const bench_command bench_matrix_commands[];
extern const bench_command bench_copy_commands[];

uint64_t bench_now(void);

/* A clock that also counts page faults, processor time, bytes from the device and the peak of
 * memory between start and stop; the answer of the command then carries them (JSON). Both return
 * nanoseconds. */
uint64_t bench_start(void);
uint64_t bench_stop(void);

/* A result that nobody looks at, so that the work for it is done. */
void bench_keep(uint64_t result);

_Noreturn void bench_die(const char *what, const char *why);
void bench_try(sft_status status, const sft_error *err, const char *what); /* dies unless SFT_OK */
uint64_t bench_number(const char *text);

/* A pool of that many threads, kept for the whole run; NULL for 1. */
sft_pool *bench_pool(uint64_t threads);
uint32_t bench_convert_flags(void);

/* At least `size` bytes, 2 MiB aligned, huge pages asked for, touched; kept for the whole run. Slot
 * 0 or 1. */
unsigned char *bench_memory(int slot, size_t size);

/* The whole file in memory of slot 1. */
unsigned char *bench_load(const char *path, size_t *size);

#endif
