/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_copy.c - from files to files and from files to verdicts: merging, splitting,
 * verifying; and what the machine needs to copy the same bytes, or to read them. Results are
 * flushed and removed outside the clock, as in bench_save.c.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* copy_file_range */
#endif
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4 << 20, MOST_FILES = 64 };

static void settle(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        bench_die(path, strerror(errno));
    }
    close(fd);
    unlink(path);
}

/* remove PATH...: flushed, then removed. */
static double run_remove(const bench_args *args) {
    for (int i = 1; i < args->count; i++) {
        settle(args->text[i]);
    }
    return 0;
}

/* ---------------------------------------------------------------- copies without a format */

/* out bytes [i] of the target are bytes [i * in / out] of the sources, in blocks: with in == out a
 * plain copy, otherwise what a cast to another width has to read and write. */
typedef struct copying {
    int in[MOST_FILES];
    uint64_t sizes[MOST_FILES];
    int sources;
    int out;
    uint64_t reads, writes; /* bytes of a block on either side */
    uint64_t total;         /* bytes of all sources */
    atomic_ullong next;
    bool in_kernel;
    const sft_dtype *from,
        *to; /* cast between reading and writing; NULL: what is read is written */
} copying;

enum { CAST_STEP = 1 << 16 /* elements, so that both sides stay in a core's cache */ };

static void cast_all(const sft_dtype *to, void *dst, const sft_dtype *from, const void *src,
                     uint64_t elements) {
    sft_error err;
    bench_try(sft_convert(dst, src, elements, &(sft_cast){to, from, bench_convert_flags()}, &err),
              &err, "convert");
}

/* Read in steps that stay in the cache, and written at once. */
static uint64_t cast_piece(const copying *k, unsigned char *buffer, uint64_t at, uint64_t size) {
    unsigned char *step = buffer + BLOCK;
    uint64_t out = 0;
    for (uint64_t done = 0; done < size;) {
        const uint64_t most = (uint64_t)CAST_STEP * k->from->block_bytes;
        const uint64_t want = size - done < most ? size - done : most;
        if (pread(k->in[0], step, (size_t)want, (off_t)(at + done)) != (ssize_t)want) {
            bench_die("copy", "short");
        }
        cast_all(k->to, buffer + out, k->from, step, want / k->from->block_bytes);
        out += want / k->from->block_bytes * k->to->block_bytes;
        done += want;
    }
    return out;
}

static void copy_piece(const copying *k, unsigned char *buffer, uint64_t at, uint64_t size) {
    uint64_t from = at;
    int i = 0;
    while (i < k->sources && from >= k->sizes[i]) {
        from -= k->sizes[i++];
    }
    uint64_t got = k->from != NULL ? size : 0;
    while (got < size && i < k->sources) {
        const uint64_t left = k->sizes[i] - from, want = size - got < left ? size - got : left;
        ssize_t n;
        if (k->in_kernel) {
            off_t in_at = (off_t)from, out_at = (off_t)(at + got);
            n = copy_file_range(k->in[i], &in_at, k->out, &out_at, (size_t)want, 0);
        } else {
            n = pread(k->in[i], buffer + got, (size_t)want, (off_t)from);
        }
        if (n <= 0) {
            bench_die("copy", n < 0 ? strerror(errno) : "short");
        }
        got += (uint64_t)n;
        from += (uint64_t)n;
        if (from == k->sizes[i]) {
            from = 0;
            i++;
        }
    }
    if (k->in_kernel) {
        return;
    }
    const uint64_t out =
        k->from != NULL ? cast_piece(k, buffer, at, size - size % 8) : size * k->writes / k->reads;
    for (uint64_t done = 0; done < out;) {
        const ssize_t n = pwrite(k->out, buffer + done, (size_t)(out - done),
                                 (off_t)(at * k->writes / k->reads + done));
        if (n <= 0) {
            bench_die("pwrite", n < 0 ? strerror(errno) : "nothing written");
        }
        done += (uint64_t)n;
    }
}

static void *copy_blocks(void *ctx) {
    copying *k = ctx;
    unsigned char *buffer = malloc(2 * (size_t)BLOCK);
    if (buffer == NULL) {
        bench_die("copy", "no memory");
    }
    memset(buffer, 1, 2 * (size_t)BLOCK);
    for (;;) {
        const uint64_t at = atomic_fetch_add(&k->next, k->reads);
        if (at >= k->total) {
            break;
        }
        copy_piece(k, buffer, at, k->total - at < k->reads ? k->total - at : k->reads);
    }
    free(buffer);
    return NULL;
}

static void copy_open(copying *k, const bench_args *args, int first) {
    for (int i = first; i < args->count && k->sources < MOST_FILES; i++) {
        struct stat st;
        const int fd = open(args->text[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) != 0) {
            bench_die(args->text[i], strerror(errno));
        }
        k->in[k->sources] = fd;
        k->sizes[k->sources++] = (uint64_t)st.st_size;
        k->total += (uint64_t)st.st_size;
    }
}

/* copy DST kernel|threads|FROM>TO IN OUT SOURCE...: all sources one behind the other into DST.
 * "kernel": copy_file_range; "threads": fallocate, then two threads of pread and pwrite. IN:OUT:
 * OUT bytes are written for every IN read (1:1 to copy; 1:2 as a cast to twice the width; threads
 * only). FROM>TO: all bytes of one source, header and all, cast between reading and writing. */
static double run_copy(const bench_args *args) {
    copying k;
    memset(&k, 0, sizeof k);
    const uint64_t in = bench_number(args->text[3]), out = bench_number(args->text[4]);
    k.in_kernel = strcmp(args->text[2], "kernel") == 0;
    const char *arrow = strchr(args->text[2], '>');
    if (arrow != NULL) {
        k.from = sft_dtype_find(args->text[2], (size_t)(arrow - args->text[2]));
        k.to = sft_dtype_find(arrow + 1, strlen(arrow + 1));
        if (k.from == NULL || k.to == NULL || args->count != 6) {
            bench_die(args->text[2], "no such cast of one file");
        }
    }
    k.reads = out > in ? BLOCK / (out / in) : BLOCK;
    k.writes = k.reads * out / in;
    copy_open(&k, args, 5);
    if (k.in_kernel) {
        k.reads = k.total;
        k.writes = k.total;
    }
    const uint64_t start = bench_start();
    k.out = open(args->text[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (k.out < 0 || posix_fallocate(k.out, 0, (off_t)(k.total * k.writes / k.reads)) != 0) {
        bench_die(args->text[1], strerror(errno));
    }
    pthread_t other;
    if (!k.in_kernel && pthread_create(&other, NULL, copy_blocks, &k) != 0) {
        bench_die("pthread_create", "refused");
    }
    if (k.in_kernel) {
        copy_piece(&k, NULL, 0, k.total);
    } else {
        (void)copy_blocks(&k);
        pthread_join(other, NULL);
    }
    close(k.out);
    const uint64_t end = bench_stop();
    settle(args->text[1]);
    for (int i = 0; i < k.sources; i++) {
        close(k.in[i]);
    }
    return (double)(end - start);
}

/* cast_base FROM TO MIB: as many MIB of FROM cast to TO by one thread, the same elements again and
 * again, in the cache. */
static double run_cast_base(const bench_args *args) {
    const sft_dtype *from = sft_dtype_find(args->text[1], strlen(args->text[1]));
    const sft_dtype *to = sft_dtype_find(args->text[2], strlen(args->text[2]));
    if (from == NULL || to == NULL) {
        bench_die(args->text[1], "no such types");
    }
    unsigned char *src = bench_memory(0, (size_t)CAST_STEP * from->block_bytes);
    unsigned char *dst = bench_memory(1, (size_t)CAST_STEP * to->block_bytes);
    const uint64_t times =
        (bench_number(args->text[3]) << 20) / ((uint64_t)CAST_STEP * from->block_bytes);
    for (uint64_t i = 0; i < (uint64_t)CAST_STEP * from->block_bytes; i++) {
        src[i] = (unsigned char)(i % 4 == 3 ? 60 : i * 37); /* numbers of about 1/100 */
    }
    cast_all(to, dst, from, src, CAST_STEP);
    const uint64_t start = bench_start();
    for (uint64_t i = 0; i < times; i++) {
        cast_all(to, dst, from, src, CAST_STEP);
    }
    bench_keep(dst[0]);
    return (double)(bench_stop() - start);
}

/* ---------------------------------------------------------------- merging and splitting */

/* Saves tensors [first, last) of a mapped catalog, straight from the mapping. */
static void save_range(const char *path, const sft_catalog *c, const sft_loaded *l, size_t first,
                       size_t last, uint64_t threads) {
    sft_save_tensor *t = calloc(last - first + 1, sizeof *t);
    sft_write_options o;
    sft_error err;
    if (t == NULL) {
        bench_die(path, "no memory");
    }
    for (size_t i = first; i < last; i++) {
        const sft_tensor *from = sft_catalog_at(c, i);
        t[i - first] = (sft_save_tensor){.name = from->name,
                                         .name_len = from->name_len,
                                         .dtype = from->dtype,
                                         .shape = from->shape,
                                         .rank = from->rank,
                                         .data = sft_loaded_data(l, from, NULL),
                                         .nbytes = from->nbytes};
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.pool = bench_pool(threads);
    bench_try(sft_save(path, t, last - first, NULL, 0, &o, &err), &err, path);
    free(t);
}

/* reshard SOURCE THREADS DST...: all tensors of SOURCE (a file or folder) into as many files as are
 * named, by sft_load (mapped) and sft_save; the results are flushed and removed. */
static double run_reshard(const bench_args *args) {
    const uint64_t threads = bench_number(args->text[2]);
    const size_t parts = (size_t)args->count - 3;
    sft_open_options open_options;
    sft_load_options o;
    sft_catalog *c;
    sft_loaded *l;
    sft_error err;
    SFT_INIT(&open_options);
    SFT_INIT(&o);
    open_options.access = SFT_ACCESS_MAP;
    o.strategy = SFT_STRATEGY_MAP;
    (void)bench_pool(threads);
    const uint64_t start = bench_start();
    bench_try(sft_catalog_open(&c, args->text[1], &open_options, &err), &err, args->text[1]);
    bench_try(sft_load(&l, c, &o, &err), &err, args->text[1]);
    const size_t count = sft_catalog_count(c);
    for (size_t i = 0; i < parts; i++) {
        save_range(args->text[3 + i], c, l, count * i / parts, count * (i + 1) / parts, threads);
    }
    sft_loaded_free(l);
    sft_catalog_close(c);
    const uint64_t end = bench_stop();
    for (size_t i = 0; i < parts; i++) {
        settle(args->text[3 + i]);
    }
    return (double)(end - start);
}

/* Tensors [first, last) of the catalog by sft_writer_copy. */
static void copy_range(const char *path, const sft_catalog *c, size_t first, size_t last,
                       uint64_t threads) {
    const sft_tensor **t = calloc(last - first + 1, sizeof *t);
    sft_write_options o;
    sft_writer *w;
    sft_error err;
    if (t == NULL) {
        bench_die(path, "no memory");
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.pool = bench_pool(threads);
    bench_try(sft_writer_create(&w, path, &o, &err), &err, path);
    for (size_t i = first; i < last; i++) {
        const sft_tensor *from = sft_catalog_at(c, i);
        t[i - first] = from;
        bench_try(sft_writer_declare(w, from->name, from->name_len, from->dtype, from->shape,
                                     from->rank, NULL, &err),
                  &err, path);
    }
    bench_try(sft_writer_copy(w, c, t, &err), &err, path);
    bench_try(sft_writer_commit(w, &err), &err, path);
    sft_writer_free(w);
    free(t);
}

/* recopy SOURCE THREADS DST...: the same as reshard, by sft_writer_copy. */
static double run_recopy(const bench_args *args) {
    const uint64_t threads = bench_number(args->text[2]);
    const size_t parts = (size_t)args->count - 3;
    sft_catalog *c;
    sft_error err;
    (void)bench_pool(threads);
    const uint64_t start = bench_start();
    bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
    const size_t count = sft_catalog_count(c);
    for (size_t i = 0; i < parts; i++) {
        copy_range(args->text[3 + i], c, count * i / parts, count * (i + 1) / parts, threads);
    }
    sft_catalog_close(c);
    const uint64_t end = bench_stop();
    for (size_t i = 0; i < parts; i++) {
        settle(args->text[3 + i]);
    }
    return (double)(end - start);
}

/* ---------------------------------------------------------------- verifying */

/* verify PATH crc32c|sha256 THREADS: every tensor against its recorded digest. */
static double run_verify(const bench_args *args) {
    sft_verify_options o;
    sft_verify_result r;
    sft_catalog *c;
    sft_error err;
    SFT_INIT(&o);
    o.digests = strcmp(args->text[2], "sha256") == 0 ? SFT_DIGEST_SHA256 : SFT_DIGEST_CRC32C;
    o.pool = bench_pool(bench_number(args->text[3]));
    const uint64_t start = bench_start();
    bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
    bench_try(sft_catalog_verify(c, &o, &r, &err), &err, args->text[1]);
    sft_catalog_close(c);
    const uint64_t end = bench_stop();
    if (r.checked == 0 || r.damaged != 0) {
        bench_die(args->text[1], "nothing was verified");
    }
    return (double)(end - start);
}

/* hash_base PATH crc32c|sha256|again: the digest of the file's bytes, which lie in touched memory;
 * "again": the CRC32C of as many bytes, but the same 256 KiB again and again, in the cache. */
static double run_hash_base(const bench_args *args) {
    size_t size;
    const unsigned char *p = bench_load(args->text[1], &size);
    const size_t block = (size_t)256 << 10;
    const uint64_t start = bench_start();
    if (strcmp(args->text[2], "again") == 0) {
        for (size_t i = 0; i < size / block; i++) {
            bench_keep(sft_crc32c((uint32_t)i, p, block));
        }
    } else if (strcmp(args->text[2], "sha256") == 0) {
        sft_sha256 s;
        uint8_t digest[32];
        sft_sha256_init(&s);
        sft_sha256_update(&s, p, size);
        sft_sha256_final(&s, digest);
        bench_keep(digest[0]);
    } else {
        bench_keep(sft_crc32c(0, p, size));
    }
    return (double)(bench_stop() - start);
}

const bench_command bench_copy_commands[] = {
    {"remove", run_remove, 1},       {"copy", run_copy, 5},
    {"cast_base", run_cast_base, 3}, {"reshard", run_reshard, 3},
    {"recopy", run_recopy, 3},       {"verify", run_verify, 3},
    {"hash_base", run_hash_base, 2}, {NULL, NULL, 0}};
