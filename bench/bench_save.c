/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_save.c - saving at once and as a stream, editing metadata; and what the machine needs
 * to write the same bytes. Every repetition writes a new name, which is flushed and removed outside
 * the clock, so that no contender pays for another's dirty pages.
 */
#include "bench.h"

#include <sft/extend.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TENSORS 64u

/* Random bytes that no file system or hypervisor can shrink. */
static unsigned char *source(size_t size) {
    static size_t filled;
    unsigned char *p = bench_memory(1, size);
    if (filled < size) {
        uint64_t state = 0x9e3779b97f4a7c15u;
        for (size_t i = 0; i + 8 <= size; i += 8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memcpy(p + i, &state, 8);
        }
        filled = size;
    }
    return p;
}

static void settle(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        bench_die(path, strerror(errno));
    }
    close(fd);
    unlink(path);
}

static void write_options(sft_write_options *o, const char *durability, const char *digests) {
    SFT_INIT(o);
    o->durability = strcmp(durability, "durable") == 0 ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    if (strcmp(digests, "crc32c") == 0) {
        o->digests = SFT_DIGEST_CRC32C;
    } else if (strcmp(digests, "sha256") == 0) {
        o->digests = SFT_DIGEST_SHA256;
    }
}

/* save PATH MIB plain|durable none|crc32c|sha256 THREADS [ALIGNMENT]: 64 tensors of equal size, one
 * sft_save; ALIGNMENT: of the data section. */
static double run_save(const bench_args *args) {
    size_t size = (size_t)bench_number(args->text[2]) << 20, each = size / TENSORS;
    unsigned char *data = source(size);
    sft_save_tensor tensors[TENSORS];
    char names[TENSORS][32];
    uint64_t shape[2] = {each / 2 / 1024, 1024};
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < TENSORS; i++) {
        int len = snprintf(names[i], sizeof names[i], "model.layers.%02zu.weight", i);
        tensors[i].name = names[i];
        tensors[i].name_len = (size_t)len;
        tensors[i].dtype = sft_dtype_get(SFT_BF16);
        tensors[i].shape = shape;
        tensors[i].rank = 2;
        tensors[i].data = data + i * each;
        tensors[i].nbytes = each;
    }
    sft_write_options options;
    write_options(&options, args->text[3], args->text[4]);
    options.data_alignment = args->count > 6 ? bench_number(args->text[6]) : 0;
    sft_pool *pool = NULL;
    sft_error err;
    uint64_t threads = bench_number(args->text[5]);
    if (threads > 1 || getenv("SFT_CPU") != NULL) {
        bench_try(sft_pool_create(&pool, (uint32_t)threads, NULL, &err), &err, "pool");
        bench_try(sft_pool_set_cpu(pool, getenv("SFT_CPU"), &err), &err, "SFT_CPU");
        options.pool = pool;
    }
    uint64_t start = bench_start();
    bench_try(sft_save(args->text[1], tensors, TENSORS, NULL, 0, &options, &err), &err,
              args->text[1]);
    uint64_t end = bench_stop();
    sft_pool_free(pool);
    settle(args->text[1]);
    return (double)(end - start);
}

/* through: NULL, or memory that every block is copied to before. */
static void write_all(int fd, const unsigned char *p, size_t size, uint64_t offset, size_t block,
                      unsigned char *through) {
    while (size > 0) {
        const size_t part = size < block ? size : block;
        if (through != NULL) {
            memcpy(through, p, part);
        }
        ssize_t n = pwrite(fd, through != NULL ? through : p, part, (off_t)offset);
        if (n <= 0) {
            bench_die("pwrite", n < 0 ? strerror(errno) : "nothing written");
        }
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
}

typedef struct block_writer {
    int fd;
    const unsigned char *data;
    size_t size;
    size_t block;
} block_writer;

static void write_block(void *ctx, size_t index) {
    const block_writer *w = ctx;
    const size_t at = index * w->block;
    const size_t size = w->size - at < w->block ? w->size - at : w->block;
    write_all(w->fd, w->data + at, size, at, w->block, NULL);
}

/* write PATH MIB plain|durable|direct|copied BLOCK_KIB [THREADS]: fallocate, then pwrite in blocks;
 * "durable" with fsync at the end, "direct" with O_DIRECT and fsync, "copied" so, too, but every
 * block is copied before, as bytes must be that do not lie at whole pages; one thread. */
static double run_write(const bench_args *args) {
    size_t size = (size_t)bench_number(args->text[2]) << 20,
           block = (size_t)bench_number(args->text[4]) << 10;
    unsigned char *data = source(size);
    const char *kind = args->text[3];
    sft_pool *pool = bench_pool(args->count > 5 ? bench_number(args->text[5]) : 1);
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
#if defined(O_DIRECT)
    const bool copied = strcmp(kind, "copied") == 0;
    flags |= copied || strcmp(kind, "direct") == 0 ? O_DIRECT : 0;
#else
    const bool copied = false;
#endif
    unsigned char *through = copied ? bench_memory(0, block) : NULL;
    uint64_t start = bench_start();
    int fd = open(args->text[1], flags, 0666);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) != 0) {
        bench_die(args->text[1], strerror(errno));
    }
    if (pool != NULL && !copied) {
        block_writer w = {fd, data, size, block};
        sft_pool_run(pool, (size + block - 1) / block, write_block, &w);
    } else {
        write_all(fd, data, size, 0, block, through);
    }
    if (strcmp(kind, "plain") != 0 && fsync(fd) != 0) {
        bench_die("fsync", strerror(errno));
    }
    close(fd);
    uint64_t end = bench_stop();
    settle(args->text[1]);
    return (double)(end - start);
}

/* stream PATH MIB plain|durable BLOCK_KIB: a writer, 64 tensors, pieces in order. */
static double run_stream(const bench_args *args) {
    size_t size = (size_t)bench_number(args->text[2]) << 20,
           block = (size_t)bench_number(args->text[4]) << 10;
    size_t each = size / TENSORS;
    unsigned char *data = source(block);
    uint64_t shape[2] = {each / 2 / 1024, 1024};
    sft_write_options options;
    write_options(&options, args->text[3], "none");
    sft_writer *w;
    sft_error err;
    uint64_t start = bench_start();
    bench_try(sft_writer_create(&w, args->text[1], &options, &err), &err, args->text[1]);
    for (uint32_t i = 0; i < TENSORS; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "model.layers.%02u.weight", i);
        bench_try(
            sft_writer_declare(w, name, (size_t)len, sft_dtype_get(SFT_BF16), shape, 2, NULL, &err),
            &err, name);
    }
    for (uint32_t i = 0; i < TENSORS; i++) {
        for (size_t at = 0; at < each; at += block) {
            size_t n = each - at < block ? each - at : block;
            bench_try(sft_writer_put(w, i, at, data, n, &err), &err, "put");
        }
    }
    bench_try(sft_writer_commit(w, &err), &err, "commit");
    uint64_t end = bench_stop();
    sft_writer_free(w);
    settle(args->text[1]);
    return (double)(end - start);
}

/* stream_base PATH MIB BLOCK_KIB: fallocate and pwrite of the same block over and over. */
static double run_stream_base(const bench_args *args) {
    size_t size = (size_t)bench_number(args->text[2]) << 20,
           block = (size_t)bench_number(args->text[3]) << 10;
    unsigned char *data = source(block);
    uint64_t start = bench_start();
    int fd = open(args->text[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) != 0) {
        bench_die(args->text[1], strerror(errno));
    }
    for (size_t at = 0; at < size; at += block) {
        write_all(fd, data, size - at < block ? size - at : block, at, block, NULL);
    }
    close(fd);
    uint64_t end = bench_stop();
    settle(args->text[1]);
    return (double)(end - start);
}

/* make PATH MIB RESERVE: a file of one tensor with one metadata key, for the edits; removes
 * nothing. */
static double run_make(const bench_args *args) {
    size_t size = (size_t)bench_number(args->text[2]) << 20;
    uint64_t shape[1] = {size};
    sft_save_tensor t = {.name = "w",
                         .name_len = 1,
                         .dtype = sft_dtype_get(SFT_U8),
                         .shape = shape,
                         .rank = 1,
                         .data = source(size),
                         .nbytes = size};
    sft_metadata_entry entry = {"format", 6, "pt", 2};
    sft_write_options options;
    write_options(&options, "durable", "none");
    options.reserve_bytes = bench_number(args->text[3]);
    sft_error err;
    uint64_t start = bench_now();
    bench_try(sft_save(args->text[1], &t, 1, &entry, 1, &options, &err), &err, args->text[1]);
    return (double)(bench_now() - start);
}

/* edit PATH VALUE plain|durable in-place|new-file: one metadata key set; dies if it went another
 * way. */
static double run_edit(const bench_args *args) {
    sft_metadata_entry entry = {"note", 4, args->text[2], strlen(args->text[2])};
    sft_edit_options options;
    SFT_INIT(&options);
    options.durability =
        strcmp(args->text[3], "durable") == 0 ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    bool in_place = strcmp(args->text[4], "in-place") == 0;
    options.flags = in_place ? 0 : SFT_EDIT_NEW_FILE;
    sft_edit_way way, wanted = in_place ? SFT_EDITED_IN_PLACE : SFT_EDITED_NEW_FILE;
    sft_error err;
    uint64_t start = bench_now();
    bench_try(sft_edit_metadata(args->text[1], &entry, 1, &options, &way, &err), &err,
              args->text[1]);
    uint64_t end = bench_now();
    if (way != wanted) {
        bench_die(args->text[1], "edited in another way than wanted");
    }
    return (double)(end - start);
}

/* edit_base PATH plain|durable: the first 4 KiB of the file written over itself, with fsync if
 * durable. */
static double run_edit_base(const bench_args *args) {
    unsigned char block[4096];
    uint64_t start = bench_now();
    int fd = open(args->text[1], O_RDWR | O_CLOEXEC);
    if (fd < 0 || pread(fd, block, sizeof block, 0) != (ssize_t)sizeof block) {
        bench_die(args->text[1], "cannot read");
    }
    write_all(fd, block, sizeof block, 0, sizeof block, NULL);
    if (strcmp(args->text[2], "durable") == 0 && fsync(fd) != 0) {
        bench_die("fsync", strerror(errno));
    }
    close(fd);
    return (double)(bench_now() - start);
}

const bench_command bench_save_commands[] = {
    {"save", run_save, 5},           {"write", run_write, 4},
    {"stream", run_stream, 4},       {"stream_base", run_stream_base, 3},
    {"make", run_make, 3},           {"edit", run_edit, 4},
    {"edit_base", run_edit_base, 2}, {NULL, NULL, 0}};
