/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_read.c - one tensor, row slices, column slices; and pread or a strided memcpy of the
 * same bytes. Destinations are warm memory, the same for every contender.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const sft_tensor *find(const sft_catalog *c, const char *name) {
    const sft_tensor *t = sft_catalog_find(c, name, strlen(name));
    if (t == NULL) {
        bench_die(name, "no such tensor");
    }
    return t;
}

/* tensor PATH NAME N: open, find, read into warm memory, close. */
static double run_tensor(const bench_args *args) {
    unsigned char *dst = bench_memory(0, 1);
    uint64_t n = bench_number(args->text[3]), spent = 0;
    for (uint64_t i = 0; i <= n; i++) { /* the first one sizes the memory and is not counted */
        uint64_t start = bench_now();
        sft_catalog *c;
        sft_error err;
        bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
        const sft_tensor *t = find(c, args->text[2]);
        if (i == 0) {
            dst = bench_memory(0, (size_t)t->nbytes);
        }
        bench_try(sft_tensor_read(c, t, NULL, dst, (size_t)t->nbytes, &err), &err, args->text[2]);
        sft_catalog_close(c);
        spent += i == 0 ? 0 : bench_now() - start;
    }
    return (double)spent / (double)n;
}

/* slice PATH NAME RANGES read|borrow|memory N: after opening; one sft_tensor_read each. */
static double run_slice(const bench_args *args) {
    sft_catalog *c;
    sft_error err;
    sft_open_options open_options;
    SFT_INIT(&open_options);
    bool borrow = strcmp(args->text[4], "borrow") == 0;
    open_options.access = borrow ? SFT_ACCESS_MAP : SFT_ACCESS_READ;
    if (strcmp(args->text[4], "memory") == 0) {
        size_t size;
        unsigned char *data = bench_load(args->text[1], &size);
        bench_try(sft_catalog_open_memory(&c, data, size, NULL, &err), &err, args->text[1]);
    } else {
        bench_try(sft_catalog_open(&c, args->text[1], &open_options, &err), &err, args->text[1]);
    }
    const sft_tensor *t = find(c, args->text[2]);
    sft_slice slices[8];
    sft_read_options options;
    SFT_INIT(&options);
    options.slices = slices;
    options.flags = borrow ? SFT_READ_BORROW : 0;
    bench_try(sft_slice_parse(args->text[3], strlen(args->text[3]), slices, 8, &options.slice_count,
                              &err),
              &err, args->text[3]);
    uint64_t nbytes, n = bench_number(args->text[5]);
    bench_try(sft_tensor_result(t, &options, NULL, NULL, &nbytes, &err), &err, args->text[3]);
    unsigned char *dst = bench_memory(0, (size_t)nbytes);
    if (borrow) { /* as the memcpy beside it, out of pages that are mapped already */
        bench_try(sft_tensor_read(c, t, &options, dst, (size_t)nbytes, &err), &err, args->text[3]);
    }
    uint64_t start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        bench_try(sft_tensor_read(c, t, &options, dst, (size_t)nbytes, &err), &err, args->text[3]);
    }
    uint64_t end = bench_now();
    sft_catalog_close(c);
    return (double)(end - start) / (double)n;
}

/* pread PATH OFFSET SIZE N [open]: the same bytes by pread; "open": with open and close each time.
 */
static double run_pread(const bench_args *args) {
    uint64_t offset = bench_number(args->text[2]), size = bench_number(args->text[3]);
    uint64_t n = bench_number(args->text[4]);
    bool each = args->count > 5;
    unsigned char *dst = bench_memory(0, (size_t)size);
    int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
    uint64_t start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        int one = each ? open(args->text[1], O_RDONLY | O_CLOEXEC) : fd;
        for (uint64_t done = 0; done < size;) {
            ssize_t got = pread(one, dst + done, (size_t)(size - done), (off_t)(offset + done));
            if (got <= 0) {
                bench_die(args->text[1], "short read");
            }
            done += (uint64_t)got;
        }
        if (each) {
            close(one);
        }
    }
    uint64_t end = bench_now();
    close(fd);
    return (double)(end - start) / (double)n;
}

/* gather PATH OFFSET ROWS ROW_BYTES WIDTH N: WIDTH bytes of each row, one pread each, packed. */
static double run_gather(const bench_args *args) {
    uint64_t offset = bench_number(args->text[2]), rows = bench_number(args->text[3]);
    uint64_t row = bench_number(args->text[4]), n = bench_number(args->text[6]);
    size_t width = (size_t)bench_number(args->text[5]);
    unsigned char *dst = bench_memory(0, (size_t)rows * width);
    int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
    uint64_t start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t r = 0; r < rows; r++) {
            if (pread(fd, dst + (size_t)r * width, width, (off_t)(offset + r * row)) !=
                (ssize_t)width) {
                bench_die(args->text[1], "short read");
            }
        }
    }
    uint64_t end = bench_now();
    close(fd);
    return (double)(end - start) / (double)n;
}

/* through PATH OFFSET ROWS ROW_BYTES WIDTH N: the same bytes, but all rows are read, some 256 KiB
 * at a time, and WIDTH bytes of each are taken from there. */
static double run_through(const bench_args *args) {
    uint64_t offset = bench_number(args->text[2]), rows = bench_number(args->text[3]);
    const size_t row = (size_t)bench_number(args->text[4]);
    uint64_t n = bench_number(args->text[6]);
    size_t width = (size_t)bench_number(args->text[5]);
    const size_t most = ((size_t)256 << 10) / row;
    unsigned char *dst = bench_memory(0, (size_t)rows * width), *all = bench_memory(1, most * row);
    int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
    uint64_t start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t r = 0; r < rows; r += most) {
            const size_t some = rows - r < most ? (size_t)(rows - r) : most;
            const size_t size = (some - 1) * row + width;
            if (pread(fd, all, size, (off_t)(offset + r * row)) != (ssize_t)size) {
                bench_die(args->text[1], "short read");
            }
            for (size_t k = 0; k < some; k++) {
                memcpy(dst + ((size_t)r + k) * width, all + k * row, width);
            }
        }
    }
    uint64_t end = bench_now();
    close(fd);
    return (double)(end - start) / (double)n;
}

/* strided PATH OFFSET ROWS ROW_BYTES WIDTH STEP memory|map N: from each row of ROW_BYTES, WIDTH
 * bytes out of every STEP, packed. "map": from a mapping whose pages are all present; "memory":
 * from touched memory. */
static double run_strided(const bench_args *args) {
    size_t offset = (size_t)bench_number(args->text[2]), rows = (size_t)bench_number(args->text[3]);
    size_t row = (size_t)bench_number(args->text[4]), width = (size_t)bench_number(args->text[5]);
    size_t step = (size_t)bench_number(args->text[6]), size, total = offset + rows * row;
    bool mapped = strcmp(args->text[7], "map") == 0;
    uint64_t n = bench_number(args->text[8]);
    const unsigned char *src = NULL;
    if (mapped) {
        int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
        src = mmap(NULL, total, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (src == MAP_FAILED) {
            bench_die(args->text[1], strerror(errno));
        }
        close(fd);
    } else {
        src = bench_load(args->text[1], &size);
    }
    size_t per_row = step == 0 ? 1 : row / step;
    unsigned char *dst = bench_memory(0, rows * per_row * width);
    uint64_t start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        unsigned char *to = dst;
        for (size_t r = 0; r < rows; r++) {
            const unsigned char *from = src + offset + r * row;
            if (width == 4) { /* single elements: as a compiler copies them */
                for (size_t k = 0; k < per_row; k++, from += step, to += 4) {
                    memcpy(to, from, 4);
                }
                continue;
            }
            for (size_t k = 0; k < per_row; k++, from += step, to += width) {
                memcpy(to, from, width);
            }
        }
    }
    uint64_t end = bench_now();
    if (mapped) {
        munmap((void *)(uintptr_t)src, total);
    }
    return (double)(end - start) / (double)n;
}

const bench_command bench_read_commands[] = {{"tensor", run_tensor, 3},
                                             {"slice", run_slice, 5},
                                             {"pread", run_pread, 4},
                                             {"gather", run_gather, 6},
                                             {"through", run_through, 6},
                                             {"strided", run_strided, 8},
                                             {NULL, NULL, 0}};
