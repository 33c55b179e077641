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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static sft_strategy strategy_named(const char *name) {
    static const char *const strategies[] = {"auto", "map", "read", "direct"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, strategies[i]) == 0) {
            return (sft_strategy)i;
        }
    }
    bench_die(name, "no such strategy");
}

/* Every loaded byte against a plain pread of its place; outside every clock. */
static void compare(const sft_catalog *c, const sft_loaded *l) {
    const size_t step = (size_t)4 << 20;
    unsigned char *buffer = malloc(step);
    int fd = -1;
    uint32_t open_file = UINT32_MAX;
    for (size_t i = 0; i < sft_catalog_count(c); i++) {
        const sft_tensor *t = sft_catalog_at(c, i);
        const unsigned char *data = sft_loaded_data(l, t, NULL);
        if (data == NULL) {
            continue;
        }
        if (t->file != open_file) {
            if (fd >= 0) {
                close(fd);
            }
            open_file = t->file;
            fd = open(sft_catalog_file_at(c, t->file)->path, O_RDONLY | O_CLOEXEC);
        }
        for (uint64_t at = 0; at < t->nbytes; at += step) {
            const size_t want = t->nbytes - at < step ? (size_t)(t->nbytes - at) : step;
            if (buffer == NULL ||
                pread(fd, buffer, want, (off_t)(t->pieces[0].offset + at)) != (ssize_t)want ||
                memcmp(buffer, data + at, want) != 0) {
                bench_die(t->name, "what was loaded is not what the file has");
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(buffer);
}

static void fill_arena(const char *path, const sft_load_options *o) {
    sft_catalog *c;
    sft_loaded *l;
    sft_error err;
    bench_try(sft_catalog_open(&c, path, NULL, &err), &err, path);
    bench_try(sft_load(&l, c, o, &err), &err, path);
    sft_loaded_free(l);
    sft_catalog_close(c);
    sft_arena_reset(o->arena);
}

/* load PATH auto|map|read|direct fresh|reused|touched THREADS [verify]: open, load all, close.
 * "reused": into an arena that a load of this file has filled before, if need be outside the clock;
 * "touched": into memory of the caller's that was touched before. The pool is made beforehand, as a
 * program would. */
static double run_load(const bench_args *args) {
    static sft_arena *kept;
    const bool reused = strcmp(args->text[3], "fresh") != 0;
    sft_load_options o;
    sft_error err;

    SFT_INIT(&o);
    o.strategy = strategy_named(args->text[2]);
    o.pool = bench_pool(bench_number(args->text[4]));
    if (strcmp(args->text[3], "touched") == 0) {
        struct stat st;
        if (stat(args->text[1], &st) != 0) {
            bench_die(args->text[1], strerror(errno));
        }
        const size_t room = (size_t)st.st_size + (1u << 20);
        bench_try(sft_arena_create_over(&kept, bench_memory(0, room), room, NULL, &err), &err,
                  "arena");
    } else if (reused && kept == NULL) {
        bench_try(sft_arena_create(&kept, 0, 0, NULL, &err), &err, "arena");
        o.arena = kept;
        fill_arena(args->text[1], &o);
    }
    o.arena = reused ? kept : NULL;
    const bool recorded = args->count > 5 && strcmp(args->text[5], "recorded") == 0;
    o.flags = recorded ? SFT_LOAD_VERIFY : 0;
    const uint64_t start = bench_start();
    sft_catalog *c;
    sft_loaded *l;
    bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
    bench_try(sft_load(&l, c, &o, &err), &err, args->text[1]);
    const uint64_t end = bench_stop();
    if (args->count > 5 && !recorded) {
        compare(c, l);
    }
    sft_loaded_free(l);
    sft_catalog_close(c);
    if (strcmp(args->text[3], "touched") == 0) {
        sft_arena_free(kept);
        kept = NULL;
    } else if (reused) {
        sft_arena_reset(kept); /* the pages stay for the next turn */
    }
    return (double)(end - start);
}

/* views PATH N: open mapped, a view of every tensor, close; no byte of data is touched. */
static double run_views(const bench_args *args) {
    const uint64_t n = bench_number(args->text[2]);
    sft_open_options open_options;
    SFT_INIT(&open_options);
    open_options.access = SFT_ACCESS_MAP;
    const uint64_t start = bench_start();
    for (uint64_t i = 0; i < n; i++) {
        sft_catalog *c;
        sft_loaded *l;
        sft_load_options o;
        sft_error err;
        SFT_INIT(&o);
        o.strategy = SFT_STRATEGY_MAP;
        bench_try(sft_catalog_open(&c, args->text[1], &open_options, &err), &err, args->text[1]);
        bench_try(sft_load(&l, c, &o, &err), &err, args->text[1]);
        sft_loaded_free(l);
        sft_catalog_close(c);
    }
    return (double)(bench_stop() - start) / (double)n;
}

/* map_base PATH N: open, fstat, mmap, munmap, close. */
static double run_map_base(const bench_args *args) {
    const uint64_t n = bench_number(args->text[2]), start = bench_start();
    for (uint64_t i = 0; i < n; i++) {
        struct stat st;
        const int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) != 0) {
            bench_die(args->text[1], strerror(errno));
        }
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            bench_die(args->text[1], strerror(errno));
        }
        munmap(p, (size_t)st.st_size);
        close(fd);
    }
    return (double)(bench_stop() - start) / (double)n;
}

static uint64_t sum_words(const unsigned char *p, size_t size) {
    uint64_t sums[4] = {0, 0, 0, 0}, w[4];
    size_t i = 0;
    for (; i + sizeof w <= size; i += sizeof w) {
        memcpy(w, p + i, sizeof w);
        for (int k = 0; k < 4; k++) {
            sums[k] += w[k];
        }
    }
    for (; i < size; i++) {
        sums[0] += p[i];
    }
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* sum PATH lazy|populate THREADS: open, views of all tensors, every byte of them summed by this
 * thread, close. "populate": the pages are asked for at once, with the pool. */
static double run_sum(const bench_args *args) {
    sft_open_options open_options;
    SFT_INIT(&open_options);
    open_options.access = SFT_ACCESS_MAP;
    sft_load_options o;
    sft_error err;
    SFT_INIT(&o);
    o.strategy = SFT_STRATEGY_MAP;
    o.flags = strcmp(args->text[2], "populate") == 0 ? SFT_LOAD_POPULATE : 0;
    o.pool = bench_pool(bench_number(args->text[3]));
    const uint64_t start = bench_start();
    sft_catalog *c;
    sft_loaded *l;
    bench_try(sft_catalog_open(&c, args->text[1], &open_options, &err), &err, args->text[1]);
    bench_try(sft_load(&l, c, &o, &err), &err, args->text[1]);
    uint64_t sum = 0;
    for (size_t i = 0; i < sft_catalog_count(c); i++) {
        size_t size;
        const void *data = sft_loaded_data(l, sft_catalog_at(c, i), &size);
        sum += sum_words(data, size);
    }
    bench_keep(sum);
    sft_loaded_free(l);
    sft_catalog_close(c);
    return (double)(bench_stop() - start);
}

/* sum_base PATH: the same sum over memory that has the file's bytes already. */
static double run_sum_base(const bench_args *args) {
    size_t size;
    const unsigned char *p = bench_load(args->text[1], &size);
    const uint64_t start = bench_start();
    bench_keep(sum_words(p, size));
    return (double)(bench_stop() - start);
}

/* windows PATH auto|direct|read THREADS WINDOW_MIB: every tensor once, in file order, through an
 * arena of WINDOW_MIB that is used again and again; for files larger than memory. */
static double run_windows(const bench_args *args) {
    const uint64_t room = bench_number(args->text[4]) << 20;
    sft_load_options o;
    sft_error err;
    sft_catalog *c;
    sft_arena *arena;
    SFT_INIT(&o);
    o.strategy = strategy_named(args->text[2]);
    o.pool = bench_pool(bench_number(args->text[3]));
    const uint64_t start = bench_start();
    bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
    bench_try(sft_arena_create(&arena, room, 0, NULL, &err), &err, "arena");
    const size_t count = sft_catalog_count(c);
    size_t *select = malloc(count * sizeof *select);
    if (select == NULL) {
        bench_die(args->text[1], "no memory");
    }
    o.arena = arena;
    o.select = select;
    for (size_t at = 0; at < count;) {
        uint64_t bytes = 0;
        for (o.select_count = 0; at < count; at++) {
            const uint64_t more = sft_catalog_at(c, at)->nbytes;
            if (o.select_count > 0 && bytes + more > room) {
                break;
            }
            select[o.select_count++] = at;
            bytes += more;
        }
        sft_loaded *l;
        bench_try(sft_load(&l, c, &o, &err), &err, args->text[1]);
        sft_loaded_free(l);
        sft_arena_reset(arena);
    }
    sft_arena_free(arena);
    sft_catalog_close(c);
    const uint64_t end = bench_stop();
    free(select);
    return (double)(end - start);
}

enum { CHUNK = 8 << 20, PAGE = 4096 };

typedef struct reading {
    const char *path;
    unsigned char *memory;
    size_t room; /* of the memory: beyond it, it is written again */
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
            const ssize_t n =
                pread(fd, r->memory + at % r->room + done, want - done, (off_t)(at + done));
            if (n <= 0) {
                bench_die(r->path, n < 0 ? strerror(errno) : "short read");
            }
            done += (size_t)n;
        }
    }
    close(fd);
    return NULL;
}

/* read_all PATH cached|direct THREADS [WINDOW_MIB]: the whole file in chunks of 8 MiB into touched
 * huge pages; with a window, into the same few again and again. */
static double run_read_all(const bench_args *args) {
    const bool direct = strcmp(args->text[2], "direct") == 0;
    const uint64_t threads = bench_number(args->text[3]);
    pthread_t ids[16];
    struct stat st;
    if (stat(args->text[1], &st) != 0 || threads == 0 || threads > 16) {
        bench_die(args->text[1], "no such file, or not 1 to 16 threads");
    }
    const size_t size = (size_t)st.st_size;
    size_t room = (size + CHUNK - 1) / CHUNK * CHUNK;
    if (args->count > 4) {
        room = (size_t)bench_number(args->text[4]) << 20;
    }
    reading r = {args->text[1], bench_memory(0, room), room, size, O_RDONLY | O_CLOEXEC, 0};
    if (direct) {
#if defined(O_DIRECT)
        r.flags |= O_DIRECT;
#endif
        r.size -= r.size % PAGE;
    }
    const uint64_t start = bench_start();
    for (uint64_t i = 1; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, read_chunks, &r) != 0) {
            bench_die("pthread_create", "refused");
        }
    }
    (void)read_chunks(&r);
    for (uint64_t i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    return (double)(bench_stop() - start);
}

const bench_command bench_load_commands[] = {
    {"load", run_load, 4},         {"views", run_views, 2},
    {"map_base", run_map_base, 2}, {"sum", run_sum, 3},
    {"sum_base", run_sum_base, 1}, {"windows", run_windows, 4},
    {"read_all", run_read_all, 3}, {NULL, NULL, 0}};
