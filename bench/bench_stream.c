/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_stream.c - every tensor of a model once, in little memory; and what the machine needs
 * to read the same bytes into a buffer that it uses again and again. "crc" lets the consumer take
 * the CRC32C of what it gets, "none" lets it do nothing.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sft_pool *pool_of(uint64_t threads) {
    static sft_pool *pool;
    static uint64_t pool_threads;
    sft_error err;
    if (pool_threads != threads) {
        sft_pool_free(pool);
        bench_try(sft_pool_create(&pool, (uint32_t)threads, NULL, &err), &err, "pool");
        bench_try(sft_pool_set_cpu(pool, getenv("SFT_CPU"), &err), &err, "SFT_CPU");
        pool_threads = threads;
    }
    return pool;
}

static volatile uint32_t sink;

/* stream_in PATH auto|read|direct MEBIBYTES THREADS none|crc: open, stream all in parts, close. */
static double run_stream(const bench_args *args) {
    static const char *const strategies[] = {"auto", "map", "read", "direct"};
    const bool crc = strcmp(args->text[5], "crc") == 0;
    sft_stream_options o;
    sft_stream_item item;
    sft_catalog *c;
    sft_stream *s;
    sft_error err;

    SFT_INIT(&o);
    for (int i = 0; i < 4; i++) {
        o.strategy = strcmp(args->text[2], strategies[i]) == 0 ? (sft_strategy)i : o.strategy;
    }
    o.memory_bytes = bench_number(args->text[3]) << 20;
    o.pool = pool_of(bench_number(args->text[4]));
    o.flags = SFT_STREAM_PARTS;
    const uint64_t start = bench_now();
    bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
    bench_try(sft_stream_create(&s, c, &o, &err), &err, args->text[1]);
    bench_try(sft_stream_add_all(s, &err), &err, args->text[1]);
    do {
        bench_try(sft_stream_next(s, &item, &err), &err, args->text[1]);
        if (crc && item.tensor != NULL) {
            sink = sft_crc32c(sink, item.data, item.size);
        }
        sft_stream_release(s, &item);
    } while (item.tensor != NULL);
    sft_stream_free(s);
    sft_catalog_close(c);
    return (double)(bench_now() - start);
}

/* A line of /proc/self/status in bytes; 0 where there is none. */
static double status_bytes(const char *key) {
    char line[256];
    double found = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            found = strtod(line + strlen(key), NULL) * 1024;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return found;
}

/* stream_in_memory, arguments as stream_in: not nanoseconds but the bytes by which the process grew
 * at most. */
static double run_stream_memory(const bench_args *args) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f == NULL || fputs("5", f) < 0 || fclose(f) != 0) { /* the peak is now what is resident */
        bench_die("/proc/self/clear_refs", strerror(errno));
    }
    const double before = status_bytes("VmRSS:");
    (void)run_stream(args);
    return status_bytes("VmHWM:") - before;
}

enum { CHUNK = 8 << 20, PAGE = 4096 };

typedef struct passing {
    const char *path;
    unsigned char *memory; /* `share` bytes of each thread, used in turn */
    size_t share;
    size_t size;
    int flags;
    bool crc;
    atomic_size_t next;
    atomic_size_t threads;
} passing;

static void *pass_chunks(void *ctx) {
    passing *p = ctx;
    unsigned char *room = p->memory + atomic_fetch_add(&p->threads, 1) * p->share;
    const int fd = open(p->path, p->flags);
    uint32_t sum = 0;
    size_t turn = 0;
    if (fd < 0) {
        bench_die(p->path, strerror(errno));
    }
    for (;;) {
        const size_t at = atomic_fetch_add(&p->next, CHUNK);
        if (at >= p->size) {
            break;
        }
        unsigned char *buffer = room + turn;
        turn = (turn + CHUNK) % p->share;
        const size_t want = p->size - at < CHUNK ? p->size - at : CHUNK;
        for (size_t done = 0; done < want;) {
            const ssize_t n = pread(fd, buffer + done, want - done, (off_t)(at + done));
            if (n <= 0) {
                bench_die(p->path, n < 0 ? strerror(errno) : "short read");
            }
            done += (size_t)n;
        }
        sum = p->crc ? sft_crc32c(sum, buffer, want) : sum;
    }
    close(fd);
    sink = sum;
    return NULL;
}

/* read_through PATH cached|direct MEBIBYTES THREADS none|crc: the whole file in chunks of 8 MiB into
 * a touched huge buffer of each thread. */
static double run_read_through(const bench_args *args) {
    const bool direct = strcmp(args->text[2], "direct") == 0;
    const uint64_t threads = bench_number(args->text[4]);
    pthread_t ids[16];
    struct stat st;
    if (stat(args->text[1], &st) != 0 || threads == 0 || threads > 16) {
        bench_die(args->text[1], "no such file, or not 1 to 16 threads");
    }
    passing p = {.path = args->text[1], .size = (size_t)st.st_size, .flags = O_RDONLY | O_CLOEXEC};
    p.share = (size_t)((bench_number(args->text[3]) << 20) / threads) / CHUNK * CHUNK;
    p.share = p.share > 0 ? p.share : CHUNK;
    p.memory = bench_memory(0, (size_t)threads * p.share);
    p.crc = strcmp(args->text[5], "crc") == 0;
    if (direct) {
#if defined(O_DIRECT)
        p.flags |= O_DIRECT;
#endif
        p.size -= p.size % PAGE;
    }
    const uint64_t start = bench_now();
    for (uint64_t i = 1; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, pass_chunks, &p) != 0) {
            bench_die("pthread_create", "refused");
        }
    }
    (void)pass_chunks(&p);
    for (uint64_t i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    return (double)(bench_now() - start);
}

const bench_command bench_stream_commands[] = {{"stream_in", run_stream, 5},
                                               {"stream_in_memory", run_stream_memory, 5},
                                               {"read_through", run_read_through, 5},
                                               {NULL, NULL, 0}};
