/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_matrix.c - is the strategy that AUTO chooses the right one? The same bytes of one
 * file or of many, whole tensors, a quarter of the rows or a quarter of the columns of each, out of
 * a cold or a warm page cache, by every strategy. Destinations are warm memory. Through
 * bench/matrix.py.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS = 8192, ROW = COLUMNS * 2, TENSORS_MAX = 64 }; /* BF16, rows of 16 KiB */

static const char *file_name(char *room, size_t size, const char *folder, uint64_t i) {
    (void)snprintf(room, size, "%s/model-%05llu.safetensors", folder, (unsigned long long)i);
    return room;
}

/* matrix_make FOLDER FILES TENSORS ROWS: files of that many tensors each, not all zero. */
static double run_make(const bench_args *args) {
    const uint64_t files = bench_number(args->text[2]), tensors = bench_number(args->text[3]);
    const uint64_t shape[2] = {bench_number(args->text[4]), COLUMNS};
    const size_t nbytes = (size_t)shape[0] * ROW;
    unsigned char *data = bench_memory(0, nbytes);
    sft_save_tensor list[TENSORS_MAX];
    char names[TENSORS_MAX][32], path[4096];
    sft_write_options o;
    sft_error err;

    if (tensors > TENSORS_MAX) {
        bench_die("matrix_make", "too many tensors a file");
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_FULL;
    for (size_t i = 0; i + 8 <= nbytes; i += 8) {
        const uint64_t v = (i + 1) * 0x9e3779b97f4a7c15u;
        memcpy(data + i, &v, 8);
    }
    for (uint64_t f = 0; f < files; f++) {
        memset(list, 0, sizeof list);
        for (uint64_t t = 0; t < tensors; t++) {
            (void)snprintf(names[t], sizeof names[t], "f%llu.t%llu", (unsigned long long)f,
                           (unsigned long long)t);
            list[t] = (sft_save_tensor){.name = names[t],
                                        .name_len = strlen(names[t]),
                                        .dtype = sft_dtype_get(SFT_BF16),
                                        .shape = shape,
                                        .rank = 2,
                                        .data = data,
                                        .nbytes = nbytes};
        }
        bench_try(sft_save(file_name(path, sizeof path, args->text[1], f), list, (size_t)tensors,
                           NULL, 0, &o, &err),
                  &err, path);
    }
    return 0;
}

/* Out of the page cache, or wholly into it; then what part of it is there. */
static double prepare(const char *folder, bool cold) {
    uint64_t pages = 0, there = 0;
    char path[4096];
    for (uint64_t i = 0;; i++) {
        struct stat st;
        const int fd = open(file_name(path, sizeof path, folder, i), O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            break;
        }
        if (fstat(fd, &st) != 0 || fsync(fd) != 0) {
            bench_die(path, strerror(errno));
        }
#if defined(POSIX_FADV_DONTNEED)
        if (cold) {
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        }
#endif
        unsigned char *room = bench_memory(1, 8 << 20);
        while (!cold && read(fd, room, 8 << 20) > 0) {
        }
        const size_t n = ((size_t)st.st_size + 4095) / 4096;
        unsigned char *seen = malloc(n);
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (seen == NULL || map == MAP_FAILED || mincore(map, (size_t)st.st_size, seen) != 0) {
            bench_die(path, "mincore");
        }
        for (size_t k = 0; k < n; k++) {
            there += seen[k] & 1;
        }
        pages += n;
        munmap(map, (size_t)st.st_size);
        free(seen);
        close(fd);
    }
    return (double)there / (double)(pages != 0 ? pages : 1);
}

static sft_strategy strategy_of(const char *name) {
    static const char *const names[] = {"auto", "map", "read", "direct"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (sft_strategy)i;
        }
    }
    bench_die(name, "no such strategy");
}

/* Whole tensors, into memory that stays. A mapping is not a load until its bytes are there: it is
 * populated, and every page is looked at. */
static void load_whole(const sft_catalog *c, sft_strategy strategy, const sft_pool *pool) {
    static sft_arena *arena;
    sft_load_options o;
    sft_loaded *l;
    sft_error err;

    if (arena == NULL) {
        bench_try(sft_arena_create(&arena, 0, 0, NULL, &err), &err, "arena");
    }
    SFT_INIT(&o);
    o.strategy = strategy;
    o.pool = pool;
    o.arena = arena;
    o.flags = SFT_LOAD_POPULATE;
    bench_try(sft_load(&l, c, &o, &err), &err, "load");
    sft_loaded_free(l);
    sft_arena_reset(arena);
}

static void read_part(const sft_catalog *c, bool rows, sft_strategy strategy,
                      const sft_pool *pool) {
    const uint64_t height = sft_catalog_at(c, 0)->shape[0];
    const sft_slice slices[2] = {
        {.kind = SFT_SLICE_RANGE,
         .start = 0,
         .stop = (int64_t)(rows ? height / 4 : height),
         .step = 1},
        {.kind = SFT_SLICE_RANGE, .start = 0, .stop = rows ? COLUMNS : COLUMNS / 4, .step = 1}};
    const uint64_t each = height * ROW / 4;
    const size_t count = sft_catalog_count(c);
    unsigned char *dst = bench_memory(0, (size_t)each * count);
    sft_read_options o;
    sft_stream_options how;
    sft_stream_item item;
    sft_stream *stream;
    sft_error err;

    SFT_INIT(&o);
    o.slices = slices;
    o.slice_count = 2;
    if (strategy == SFT_STRATEGY_MAP) {
        o.flags = SFT_READ_BORROW;
        o.pool = pool;
        for (size_t i = 0; i < count; i++) {
            unsigned char *to = dst + i * (size_t)each;
            bench_try(sft_tensor_read(c, sft_catalog_at(c, i), &o, to, (size_t)each, &err), &err,
                      "read");
        }
        return;
    }
    SFT_INIT(&how);
    how.pool = pool;
    how.strategy = strategy;
    bench_try(sft_stream_create(&stream, c, &how, &err), &err, "stream");
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = dst + i * (size_t)each;
        bench_try(sft_stream_add(stream, sft_catalog_at(c, i), &o, to, (size_t)each, &err), &err,
                  "tensor");
    }
    do {
        bench_try(sft_stream_next(stream, &item, &err), &err, "next");
    } while (item.tensor != NULL);
    sft_stream_free(stream);
}

/* matrix FOLDER cold|warm whole|rows|columns STRATEGY THREADS: open, bring the bytes, close. */
static double run_matrix(const bench_args *args) {
    static sft_pool *pool;
    const bool cold = strcmp(args->text[2], "cold") == 0;
    const sft_strategy strategy = strategy_of(args->text[4]);
    const char *what = args->text[3];
    sft_open_options open_options;
    sft_catalog *c;
    sft_error err;

    if (pool == NULL) {
        bench_try(sft_pool_create(&pool, (uint32_t)bench_number(args->text[5]), NULL, &err), &err,
                  "pool");
        bench_try(sft_pool_set_cpu(pool, getenv("SFT_CPU"), &err), &err, "SFT_CPU");
    }
    const double there = prepare(args->text[1], cold);
    if (cold ? there > 0.01 : there < 0.99) {
        bench_die(args->text[1], cold ? "not cold" : "not warm");
    }
    SFT_INIT(&open_options);
    open_options.access = strategy == SFT_STRATEGY_MAP ? SFT_ACCESS_MAP : SFT_ACCESS_READ;
    const uint64_t start = bench_now();
    bench_try(sft_catalog_open(&c, args->text[1], &open_options, &err), &err, args->text[1]);
    if (strcmp(what, "whole") == 0) {
        load_whole(c, strategy, pool);
    } else {
        read_part(c, strcmp(what, "rows") == 0, strategy, pool);
    }
    const uint64_t end = bench_now();
    sft_catalog_close(c);
    return (double)(end - start);
}

const bench_command bench_matrix_commands[] = {
    {"matrix_make", run_make, 4}, {"matrix", run_matrix, 5}, {NULL, NULL, 0}};
