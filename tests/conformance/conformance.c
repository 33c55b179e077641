/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/conformance/conformance.c - runs the cases of the files that are named as arguments (see
 * README.md): verdict, status, offset and tensor must be as written. The text lies against an
 * unreadable page, so that a read behind the promised slack ends the program.
 */
#include "base/error.h"
#include "base/text/buf.h"
#include "format/header.h"
#include <stdio.h>
#include <stdlib.h>

#ifndef _WIN32
#include <sys/mman.h>
#include <unistd.h>
#endif

/* ---------------------------------------------------------------- memory that ends at a guard page
 */

#ifndef _WIN32
static size_t round_up(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

/* The last byte is the last of a page; the next page cannot be read. */
static void *guarded(size_t size) {
    const size_t span = round_up(size);
    const size_t page = round_up(1);
    uint8_t *base =
        mmap(NULL, span + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + span, page, PROT_NONE) != 0) {
        return NULL;
    }
    return base + span - size;
}

static void guarded_free(void *ctx, void *ptr, size_t size) {
    const size_t page = round_up(1);
    (void)ctx;
    (void)munmap((uint8_t *)ptr - ((uintptr_t)ptr & (page - 1)), round_up(size) + page);
}
#else
static void *guarded(size_t size) {
    return malloc(size);
}

static void guarded_free(void *ctx, void *ptr, size_t size) {
    (void)ctx;
    (void)size;
    free(ptr);
}
#endif

/* Everything but the text must be aligned; its sizes are multiples of 8 except for strings. */
static void *guarded_alloc(void *ctx, size_t size) {
    (void)ctx;
    return guarded((size + 15) & ~(size_t)15);
}

static void *guarded_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    void *fresh = guarded_alloc(ctx, new_size);
    if (fresh != NULL) {
        memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
        guarded_free(ctx, ptr, old_size);
    }
    return fresh;
}

static const sft_allocator allocator = {guarded_alloc, guarded_resize, guarded_free, NULL};

/* ---------------------------------------------------------------- a case */

typedef struct test_case {
    char name[200];
    sft__base_buf file; /* length bytes, header, data */
    bool has_text;
    sft_limits limits;
    uint32_t flags;
    char want[256];
    unsigned line;
} test_case;

static unsigned cases_run;
static unsigned faults;
static const char *path;

static void report(const test_case *c, const char *what, const char *found) {
    (void)fprintf(stderr, "%s:%u: %s: %s\n    want %s\n    have %s\n", path, c->line, c->name, what,
                  c->want, found);
    faults++;
}

/* Reads every byte that a caller could read, as a view of a validated header allows. */
static uint64_t touch(const sft__format_header *h) {
    uint64_t sum = 0;
    for (size_t i = 0; i < h->tensor_count; i++) {
        const sft_tensor *t = &h->tensors[i];
        for (size_t k = 0; k <= t->name_len; k++) {
            sum += (uint8_t)t->name[k];
        }
        for (uint32_t d = 0; d < t->rank; d++) {
            sum += t->shape[d];
        }
        sum += t->pieces[0].offset + t->nbytes + t->dtype->id;
        if (t->pieces[0].offset + t->nbytes > h->file_size || t->name[t->name_len] != '\0' ||
            sft__base_strmap_find(&h->names, t->name, t->name_len) != i) {
            return UINT64_MAX;
        }
    }
    for (size_t i = 0; i < h->metadata_count; i++) {
        const sft_metadata_entry *m = &h->metadata[i];
        for (size_t k = 0; k <= m->key_len; k++) {
            sum += (uint8_t)m->key[k];
        }
        for (size_t k = 0; k <= m->value_len; k++) {
            sum += (uint8_t)m->value[k];
        }
    }
    return sum;
}

static void verdict(const test_case *c, bool canonical, char *out, size_t cap) {
    sft_open_options options;
    sft_error err;
    sft__format_header h;
    uint64_t n;
    const size_t size = c->file.len;

    memset(&err, 0, sizeof err);
    memset(&h, 0, sizeof h);
    SFT_INIT(&options);
    options.allocator = &allocator;
    options.limits = &c->limits;
    options.flags = c->flags;
    sft_status status = sft__format_header_length((const uint8_t *)c->file.data,
                                                  size < 8 ? size : 8, size, &c->limits, &n, &err);
    if (status == SFT_OK) {
        char *text = guarded((size_t)n + SFT__HEADER_SLACK);
        memcpy(text, c->file.data + 8, (size_t)n);
        status = sft__format_header_parse_as(&h, (sft__format_text){text, n, size}, &options,
                                             canonical, &err);
    }
    if (status == SFT_OK) {
        (void)snprintf(out, cap, touch(&h) == UINT64_MAX ? "a broken header" : "ok %llu",
                       (unsigned long long)h.tensor_count);
    } else if (err.offset == SFT_NO_OFFSET) {
        (void)snprintf(out, cap, "%s - %s", sft_status_name(status), err.tensor);
    } else {
        (void)snprintf(out, cap, "%s %llu %s", sft_status_name(status),
                       (unsigned long long)err.offset, err.tensor);
    }
    if (out[strlen(out) - 1] == ' ') {
        out[strlen(out) - 1] = '\0';
    }
    sft__format_header_reset(&h);
    if (status != SFT_OK && (err.status != (int32_t)status || err.message[0] == '\0')) {
        (void)snprintf(out, cap, "an error record that does not fit");
    }
}

static void run(test_case *c) {
    char have[256];
    if (!c->has_text || c->want[0] == '\0') {
        report(c, "case without input or verdict", "");
        return;
    }
    cases_run++;
    for (int canonical = 0; canonical < 2; canonical++) {
        verdict(c, canonical != 0, have, sizeof have);
        if (strcmp(have, c->want) != 0) {
            report(c, canonical != 0 ? "with the canonical form" : "with the general form", have);
            return;
        }
    }
}

/* ---------------------------------------------------------------- reading the files */

static void put(char *dst, size_t cap, const char *src) {
    const size_t len = strlen(src) < cap ? strlen(src) : cap - 1;
    memcpy(dst, src, len);
    dst[len] = '\0';
}

static unsigned hex(char c) {
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* Decodes text up to `end` onto out. Repeats do not nest. */
static void put_text(sft__base_buf *out, const char *p, const char *end) {
    while (p < end) {
        if (*p != '\\' || end - p < 2) {
            sft__base_buf_add(out, p++, 1);
        } else if (p[1] == 'x' && end - p >= 4) {
            sft__base_buf_fill(out, (char)(hex(p[2]) * 16 + hex(p[3])), 1);
            p += 4;
        } else if (p[1] == '*') {
            char *body;
            const unsigned long count = strtoul(p + 2, &body, 10);
            const char *close = memchr(body, ')', (size_t)(end - body));
            for (unsigned long i = 0; i < count; i++) {
                put_text(out, body + 1, close);
            }
            p = close + 1;
        } else {
            sft__base_buf_add(out, p[1] == 's' ? " " : p + 1, 1);
            p += 2;
        }
    }
}

static void set_limit(test_case *c, const char *text) {
    const char *number = strchr(text, ' ');
    const uint64_t n = strtoull(number + 1, NULL, 10);
    const size_t len = (size_t)(number - text);
    if (strncmp(text, "rank", len) == 0) {
        c->limits.rank = n;
    } else if (strncmp(text, "tensors", len) == 0) {
        c->limits.tensors = n;
    } else if (strncmp(text, "name_bytes", len) == 0) {
        c->limits.name_bytes = n;
    } else {
        c->limits.header_bytes = n;
    }
}

static void start(test_case *c, const char *name, unsigned line) {
    sft__base_buf_reset(&c->file);
    put(c->name, sizeof c->name, name);
    c->has_text = false;
    memset(&c->limits, 0, sizeof c->limits);
    SFT_INIT(&c->limits);
    c->flags = 0;
    c->want[0] = '\0';
    c->line = line;
}

static void read_line(test_case *c, char *text) {
    char *value = strchr(text, ' ');
    const char *const end = text + strlen(text);
    value = value == NULL ? text + strlen(text) : value + 1;
    if (strncmp(text, "header", 6) == 0) {
        uint8_t length[8];
        sft__base_buf_fill(&c->file, '\0', 8);
        put_text(&c->file, value, end);
        sft__base_store_le64(length, c->file.len - 8);
        memcpy(c->file.data, length, 8);
        c->has_text = true;
    } else if (strncmp(text, "file", 4) == 0) {
        put_text(&c->file, value, end);
        c->has_text = true;
    } else if (strncmp(text, "data ", 5) == 0) {
        sft__base_buf_fill(&c->file, '\0', (size_t)strtoull(value, NULL, 10));
    } else if (strncmp(text, "strict", 6) == 0) {
        c->flags = SFT_OPEN_STRICT;
    } else if (strncmp(text, "limit ", 6) == 0) {
        set_limit(c, value);
    } else if (strncmp(text, "want ", 5) == 0) {
        put(c->want, sizeof c->want, value);
    } else if (strncmp(text, "reference ", 10) != 0) { /* that line is for reference.py */
        report(c, "line not understood", text);
    }
}

static void run_file(void) {
    static char line[1 << 16];
    test_case c;
    unsigned number = 0;
    bool open = false;
    FILE *f = fopen(path, "rb");

    if (f == NULL) {
        (void)fprintf(stderr, "%s: cannot be opened\n", path);
        faults++;
        return;
    }
    memset(&c, 0, sizeof c);
    sft__base_buf_init(&c.file, NULL);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        number++;
        if (strncmp(line, "case ", 5) == 0) {
            if (open) {
                run(&c);
            }
            start(&c, line + 5, number);
            open = true;
        } else if (line[0] != '\0' && line[0] != '#') {
            read_line(&c, line);
        }
    }
    if (open) {
        run(&c);
    }
    sft__base_buf_reset(&c.file);
    (void)fclose(f);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        path = argv[i];
        run_file();
    }
    (void)printf("%u cases, %u faults\n", cases_run, faults);
    return faults == 0 && cases_run != 0 ? 0 : 1;
}
