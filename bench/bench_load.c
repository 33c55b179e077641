/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_load.c - everything in a file, into memory of one's own; and what the machine needs
 * to bring the same bytes into huge pages that were touched before, through the page cache and past
 * it.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* load PATH auto|map|read|direct fresh|reused THREADS: open, load all, close. "reused": into an
 * arena that a load of this file has filled before. The pool is made beforehand, as a program
 * would. */
static double run_load(const bench_args *args) {
    static const char *const strategies[] = {"auto", "map", "read", "direct"};
    static sft_arena *kept;
    static sft_pool *pool;
    static uint64_t pool_threads;
    const bool reused = strcmp(args->text[3], "reused") == 0;
    const uint64_t threads = bench_number(args->text[4]);
    sft_load_options o;
    sft_error err;

    SFT_INIT(&o);
    for (int i = 0; i < 4; i++) {
        o.strategy = strcmp(args->text[2], strategies[i]) == 0 ? (sft_strategy)i : o.strategy;
    }
    if (pool_threads != threads) {
        sft_pool_free(pool);
        bench_try(sft_pool_create(&pool, (uint32_t)threads, NULL, &err), &err, "pool");
        pool_threads = threads;
    }
    o.pool = pool;
    if (reused && kept == NULL) {
        bench_try(sft_arena_create(&kept, 0, 0, NULL, &err), &err, "arena");
    }
    o.arena = reused ? kept : NULL;
    const uint64_t start = bench_now();
    sft_catalog *c;
    sft_loaded *l;
    bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
    bench_try(sft_load(&l, c, &o, &err), &err, args->text[1]);
    const uint64_t end = bench_now();
    sft_loaded_free(l);
    sft_catalog_close(c);
    if (reused) {
        sft_arena_reset(kept); /* the pages stay for the next turn */
    }
    return (double)(end - start);
}

enum { CHUNK = 8 << 20, PAGE = 4096 };

typedef struct reading {
    const char *path;
    unsigned char *memory;
    size_t size; /* bytes to read, a multiple of PAGE if direct */
    int flags;
    atomic_size_t next;
} reading;

static void *read_chunks(void *ctx) {
    reading *r = ctx;
    const int fd = open(r->path, r->flags);
    if (fd < 0) {
        bench_die(r->path, strerror(errno));
    }
    for (;;) {
        const size_t at = atomic_fetch_add(&r->next, CHUNK);
        if (at >= r->size) {
            break;
        }
        const size_t want = r->size - at < CHUNK ? r->size - at : CHUNK;
        for (size_t done = 0; done < want;) {
            const ssize_t n = pread(fd, r->memory + at + done, want - done, (off_t)(at + done));
            if (n <= 0) {
                bench_die(r->path, n < 0 ? strerror(errno) : "short read");
            }
            done += (size_t)n;
        }
    }
    close(fd);
    return NULL;
}

/* read_all PATH cached|direct THREADS: the whole file in chunks of 8 MiB into touched huge pages.
 */
static double run_read_all(const bench_args *args) {
    const bool direct = strcmp(args->text[2], "direct") == 0;
    const uint64_t threads = bench_number(args->text[3]);
    pthread_t ids[16];
    struct stat st;
    if (stat(args->text[1], &st) != 0 || threads == 0 || threads > 16) {
        bench_die(args->text[1], "no such file, or not 1 to 16 threads");
    }
    reading r = {args->text[1], bench_memory(0, (size_t)st.st_size), (size_t)st.st_size,
                 O_RDONLY | O_CLOEXEC, 0};
    if (direct) {
#if defined(O_DIRECT)
        r.flags |= O_DIRECT;
#endif
        r.size -= r.size % PAGE;
    }
    const uint64_t start = bench_now();
    for (uint64_t i = 1; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, read_chunks, &r) != 0) {
            bench_die("pthread_create", "refused");
        }
    }
    (void)read_chunks(&r);
    for (uint64_t i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    return (double)(bench_now() - start);
}

const bench_command bench_load_commands[] = {
    {"load", run_load, 4}, {"read_all", run_read_all, 3}, {NULL, NULL, 0}};
