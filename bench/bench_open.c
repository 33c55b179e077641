/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_open.c - opening: whole, refused, the parse alone; lookups; and what the machine
 * needs to read and scan the same header bytes.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile size_t sink;

/* open PATH N: open + validate + index + close, mean of N. */
static double run_open(const bench_args *args) {
    uint64_t n = bench_number(args->text[2]), start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        sft_catalog *c;
        sft_error err;
        bench_try(sft_catalog_open(&c, args->text[1], NULL, &err), &err, args->text[1]);
        sink += sft_catalog_count(c);
        sft_catalog_close(c);
    }
    return (double)(bench_now() - start) / (double)n;
}

/* open_memory PATH N: the same from bytes in memory. */
static double run_open_memory(const bench_args *args) {
    size_t size;
    unsigned char *data = bench_load(args->text[1], &size);
    uint64_t n = bench_number(args->text[2]), start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        sft_catalog *c;
        sft_error err;
        bench_try(sft_catalog_open_memory(&c, data, size, NULL, &err), &err, args->text[1]);
        sink += sft_catalog_count(c);
        sft_catalog_close(c);
    }
    return (double)(bench_now() - start) / (double)n;
}

/* reject PATH N: open of a file that must be refused. */
static double run_reject(const bench_args *args) {
    uint64_t n = bench_number(args->text[2]), start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        sft_catalog *c;
        sft_error err;
        if (sft_catalog_open(&c, args->text[1], NULL, &err) == SFT_OK) {
            bench_die(args->text[1], "accepted");
        }
    }
    return (double)(bench_now() - start) / (double)n;
}

/* judge PATH: open, whatever comes of it; the peak memory is what is wanted. */
static double run_judge(const bench_args *args) {
    uint64_t start = bench_now();
    sft_catalog *c;
    sft_error err;
    if (sft_catalog_open(&c, args->text[1], NULL, &err) == SFT_OK) {
        sft_catalog_close(c);
    }
    return (double)(bench_now() - start);
}

/* One pass of memchr: over everything for a byte that never comes, or from quote to quote. */
static size_t pass(const unsigned char *p, size_t size, bool quotes) {
    if (!quotes) {
        return memchr(p, 0x01, size) == NULL ? 0 : 1;
    }
    size_t count = 0;
    const unsigned char *end = p + size;
    while ((p = memchr(p, '"', (size_t)(end - p))) != NULL) {
        count++;
        p++;
    }
    return count;
}

static void read_all(int fd, void *data, size_t size, uint64_t offset) {
    unsigned char *p = data;
    while (size > 0) {
        ssize_t n = pread(fd, p, size, (off_t)offset);
        if (n <= 0) {
            bench_die("pread", n < 0 ? strerror(errno) : "short");
        }
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
}

static uint64_t header_size(int fd) {
    unsigned char b[8];
    read_all(fd, b, 8, 0);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | b[i];
    }
    return n;
}

/* scan PATH N absent|quotes: open, fstat, two preads into fresh memory, one pass, close. */
static double run_scan(const bench_args *args) {
    bool quotes = strcmp(args->text[3], "quotes") == 0;
    uint64_t n = bench_number(args->text[2]), start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) != 0) {
            bench_die(args->text[1], strerror(errno));
        }
        uint64_t size = header_size(fd);
        unsigned char *text = malloc((size_t)size + 64);
        if (text == NULL) {
            bench_die("malloc", "no memory");
        }
        read_all(fd, text, (size_t)size, 8);
        sink += pass(text, (size_t)size, quotes);
        free(text);
        close(fd);
    }
    return (double)(bench_now() - start) / (double)n;
}

/* pass PATH N absent|quotes: the pass alone, header warm in memory. */
static double run_pass(const bench_args *args) {
    bool quotes = strcmp(args->text[3], "quotes") == 0;
    size_t size;
    unsigned char *data = bench_load(args->text[1], &size);
    uint64_t n = bench_number(args->text[2]), header = 0;
    for (int i = 7; i >= 0; i--) {
        header = header << 8 | data[i];
    }
    uint64_t start = bench_now();
    for (uint64_t i = 0; i < n; i++) {
        sink += pass(data + 8, (size_t)header, quotes);
    }
    return (double)(bench_now() - start) / (double)n;
}

/* ---------------------------------------------------------------- lookup */

typedef struct names {
    sft_catalog *catalog;
    char *text; /* copies, so that the caller's name and the catalog's are not the same memory */
    const char **name;
    size_t *len;
    size_t count;
} names;

static void *need(size_t size) {
    void *p = malloc(size != 0 ? size : 1);
    if (p == NULL) {
        bench_die("malloc", "no memory");
    }
    return p;
}

static void names_load(names *s, const char *path) {
    sft_error err;
    bench_try(sft_catalog_open(&s->catalog, path, NULL, &err), &err, path);
    s->count = sft_catalog_count(s->catalog);
    s->name = need(s->count * sizeof *s->name);
    s->len = need(s->count * sizeof *s->len);
    size_t total = 0;
    for (size_t i = 0; i < s->count; i++) {
        total += sft_catalog_at(s->catalog, i)->name_len;
    }
    s->text = need(total);
    uint64_t state = 88172645463325252u;
    size_t at = 0;
    for (size_t i = 0; i < s->count; i++) { /* file order first, then shuffled */
        const sft_tensor *t = sft_catalog_at(s->catalog, i);
        memcpy(s->text + at, t->name, t->name_len);
        s->name[i] = s->text + at;
        s->len[i] = t->name_len;
        at += t->name_len;
    }
    for (size_t i = s->count; i > 1; i--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t j = (size_t)(state % i);
        const char *name = s->name[i - 1];
        size_t len = s->len[i - 1];
        s->name[i - 1] = s->name[j];
        s->len[i - 1] = s->len[j];
        s->name[j] = name;
        s->len[j] = len;
    }
}

static names *names_of(const char *path) {
    static names loaded;
    static char which[4096];
    if (strcmp(which, path) != 0) {
        sft_catalog_close(loaded.catalog);
        free(loaded.text);
        free(loaded.name);
        free(loaded.len);
        names_load(&loaded, path);
        snprintf(which, sizeof which, "%s", path);
    }
    return &loaded;
}

/* lookup PATH N: mean of N finds in random order. */
static double run_lookup(const bench_args *args) {
    names *s = names_of(args->text[1]);
    uint64_t n = bench_number(args->text[2]), start = bench_now();
    for (uint64_t i = 0, k = 0; i < n; i++, k = k + 1 < s->count ? k + 1 : 0) {
        const sft_tensor *t = sft_catalog_find(s->catalog, s->name[k], s->len[k]);
        if (t == NULL) {
            bench_die("lookup", "not found");
        }
        sink += (size_t)t->nbytes;
    }
    return (double)(bench_now() - start) / (double)n;
}

/* lookup_base PATH N: walking the same names in the same order with one multiplication per 8 bytes.
 */
static double run_lookup_base(const bench_args *args) {
    names *s = names_of(args->text[1]);
    uint64_t n = bench_number(args->text[2]), start = bench_now(), h = 0;
    for (uint64_t i = 0, k = 0; i < n; i++, k = k + 1 < s->count ? k + 1 : 0) {
        const char *p = s->name[k];
        size_t left = s->len[k];
        for (; left >= 8; left -= 8, p += 8) {
            uint64_t w;
            memcpy(&w, p, 8);
            h = (h ^ w) * 0x9e3779b97f4a7c15u;
        }
        for (; left > 0; left--, p++) {
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
        }
    }
    sink += (size_t)h;
    return (double)(bench_now() - start) / (double)n;
}

const bench_command bench_open_commands[] = {{"open", run_open, 2},
                                             {"open_memory", run_open_memory, 2},
                                             {"reject", run_reject, 2},
                                             {"judge", run_judge, 1},
                                             {"scan", run_scan, 3},
                                             {"pass", run_pass, 3},
                                             {"lookup", run_lookup, 2},
                                             {"lookup_base", run_lookup_base, 2},
                                             {NULL, NULL, 0}};
