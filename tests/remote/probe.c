/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/remote/probe.c - the library from the command line, for the tests in Python:
 *     probe [NAME=VALUE...] open|again|hash|load|fetch|read URL [FOLDER | OFFSET:SIZE ...]
 * Prints one JSON object: the status, what was found, what was counted, the time. Options by their
 * names in sft_remote_options; env=1, http=1, offline=1, nohub=1 are its flags; threads=N makes a
 * pool; keep=TEXT selects the tensors whose names hold it (fetch).
 */
#include "remote/open_url.h"

#include <sft/digest.h>
#include <sft/load.h>
#include <sft/remote.h>
#include <sft/sft.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct probe {
    sft_remote_options o;
    sft_remote *remote;
    sft_pool *pool;
    const char *keep;
    const char *verb;
    const char *url;
    uint64_t header_bytes;
    int argc;
    char **argv;
} probe;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int is(const char *arg, const char *name, const char **value) {
    const size_t len = strlen(name);
    *value = arg + len + 1;
    return strncmp(arg, name, len) == 0 && arg[len] == '=';
}

static int option(probe *p, const char *arg) {
    struct text {
        const char *name;
        const char **field;
    } texts[] = {{"hf_endpoint", &p->o.hf_endpoint},
                 {"hf_token", &p->o.hf_token},
                 {"hf_cache", &p->o.hf_cache},
                 {"s3_endpoint", &p->o.s3_endpoint},
                 {"s3_region", &p->o.s3_region},
                 {"s3_access_key", &p->o.s3_access_key},
                 {"s3_secret_key", &p->o.s3_secret_key},
                 {"s3_session_token", &p->o.s3_session_token},
                 {"ca_file", &p->o.ca_file},
                 {"proxy", &p->o.proxy},
                 {"disk_cache", &p->o.disk_cache},
                 {"keep", &p->keep}};
    struct number {
        const char *name;
        uint32_t *field;
    } numbers[] = {{"connections", &p->o.connections}, {"retries", &p->o.retries},
                   {"connect_ms", &p->o.connect_ms},   {"stall_ms", &p->o.stall_ms},
                   {"stall_bytes", &p->o.stall_bytes}, {"deadline_ms", &p->o.deadline_ms},
                   {"backoff_ms", &p->o.backoff_ms},   {"first_bytes", &p->o.first_bytes},
                   {"redirects", &p->o.redirects}};
    struct number64 {
        const char *name;
        uint64_t *field;
    } wide[] = {{"disk_cache_bytes", &p->o.disk_cache_bytes},
                {"memory_cache_bytes", &p->o.memory_cache_bytes},
                {"whole_bytes", &p->o.whole_bytes},
                {"gap_bytes", &p->o.gap_bytes},
                {"header_bytes", &p->header_bytes}};
    struct bit {
        const char *name;
        uint32_t flag;
    } bits[] = {{"env", SFT_REMOTE_ENVIRONMENT},
                {"http", SFT_REMOTE_ALLOW_HTTP},
                {"offline", SFT_REMOTE_OFFLINE},
                {"nohub", SFT_REMOTE_NO_HUB_CACHE}};
    const char *value;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (is(arg, texts[i].name, &value)) {
            *texts[i].field = value;
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (is(arg, numbers[i].name, &value)) {
            *numbers[i].field = (uint32_t)strtoul(value, NULL, 10);
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (is(arg, wide[i].name, &value)) {
            *wide[i].field = strtoull(value, NULL, 10);
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        if (is(arg, bits[i].name, &value)) {
            p->o.flags |= bits[i].flag;
            return 1;
        }
    }
    if (is(arg, "threads", &value)) {
        return sft_pool_create(&p->pool, (uint32_t)strtoul(value, NULL, 10), NULL, NULL) == SFT_OK;
    }
    return 0;
}

static void put_text(const char *text) {
    (void)putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)putchar('\\');
        }
        (void)putchar(*text);
    }
    (void)putchar('"');
}

static void put_hex(const char *name, const uint8_t *bytes, size_t size) {
    (void)printf(", \"%s\": \"", name);
    for (size_t i = 0; i < size; i++) {
        (void)printf("%02x", bytes[i]);
    }
    (void)printf("\"");
}

static void describe(const sft_catalog *c) {
    (void)printf(", \"tensors\": %zu, \"files\": %zu, \"problems\": %zu, \"paths\": [",
                 sft_catalog_count(c), sft_catalog_file_count(c), sft_catalog_problem_count(c));
    for (size_t i = 0; i < sft_catalog_file_count(c); i++) {
        (void)printf(i > 0 ? ", " : "");
        put_text(sft_catalog_file_at(c, i)->path);
    }
    (void)printf("]");
}

static sft_status read_ranges(const probe *p, sft_error *err) {
    sft_source *source;
    sft_io_range ranges[64];
    size_t count = 0;
    sft_sha256 s;
    uint8_t digest[32];

    sft_status status = sft_remote_source_open(&source, p->remote, p->url, err);
    if (status != SFT_OK) {
        return status;
    }
    for (int i = 0; i < p->argc && count < 64; i++) {
        char *end;
        ranges[count].offset = strtoull(p->argv[i], &end, 10);
        ranges[count].size = (size_t)strtoull(end + 1, NULL, 10);
        ranges[count].data = malloc(ranges[count].size + 1);
        count++;
    }
    status = sft_source_read_many(source, &(sft_io_batch){ranges, count, NULL, NULL, NULL}, err);
    sft_sha256_init(&s);
    for (size_t i = 0; i < count; i++) {
        if (status == SFT_OK) {
            sft_sha256_update(&s, ranges[i].data, ranges[i].size);
        }
        free(ranges[i].data);
    }
    sft_sha256_final(&s, digest);
    (void)printf(", \"size\": %llu", (unsigned long long)sft_source_size(source));
    put_hex("sha256", digest, sizeof digest);
    sft_source_close(source);
    return status;
}

static int wanted(void *ctx, const sft_tensor *t) {
    return strstr(t->name, ctx) != NULL;
}

static sft_status fetch(const probe *p, sft_error *err) {
    sft_fetch_options o;
    sft_fetch_result r;

    SFT_INIT(&o);
    if (p->keep != NULL) {
        o.wanted = wanted;
        o.wanted_ctx = strdup(p->keep);
    }
    memset(&r, 0, sizeof r);
    const sft_status status =
        sft_remote_fetch(p->remote, p->url, p->argc > 0 ? p->argv[0] : ".", &o, &r, err);
    free(o.wanted_ctx);
    (void)printf(
        ", \"published\": %llu, \"fetched_bytes\": %llu, \"resumed\": %llu, \"kept\": %llu, "
        "\"verified\": %llu",
        (unsigned long long)r.files, (unsigned long long)r.bytes, (unsigned long long)r.resumed,
        (unsigned long long)r.kept, (unsigned long long)r.verified);
    return status;
}

static sft_status with_catalog(const probe *p, sft_error *err) {
    sft_open_options open;
    sft_limits limits;
    sft_catalog *c;
    uint8_t digest[32];

    SFT_INIT(&open);
    SFT_INIT(&limits);
    limits.header_bytes = p->header_bytes;
    open.limits = &limits;
    sft_status status = open_url(&c, p->remote, p->url, &open, err);
    if (status == SFT_OK && strcmp(p->verb, "again") == 0) { /* the connections are there now */
        const double begun = now();
        sft_catalog_close(c);
        status = open_url(&c, p->remote, p->url, &open, err);
        (void)printf(", \"again_ms\": %.1f", now() - begun);
    }
    if (status != SFT_OK) {
        return status;
    }
    describe(c);
    if (strcmp(p->verb, "hash") == 0) {
        status = sft_catalog_content_hash(c, digest, p->pool, NULL, err);
        if (status == SFT_OK) {
            put_hex("content", digest, sizeof digest);
        }
    } else if (strcmp(p->verb, "load") == 0) {
        sft_load_options o;
        sft_loaded *l;
        SFT_INIT(&o);
        o.pool = p->pool;
        status = sft_load(&l, c, &o, err);
        if (status == SFT_OK) {
            (void)printf(", \"loaded\": %llu", (unsigned long long)sft_loaded_bytes(l));
            sft_loaded_free(l);
        }
    }
    sft_catalog_close(c);
    return status;
}

static sft_status run(probe *p, sft_error *err) {
    const sft_status status = sft_remote_create(&p->remote, &p->o, err);
    if (status != SFT_OK) {
        return status;
    }
    return strcmp(p->verb, "read") == 0    ? read_ranges(p, err)
           : strcmp(p->verb, "fetch") == 0 ? fetch(p, err)
                                           : with_catalog(p, err);
}

int main(int argc, char **argv) {
    probe p = {0};
    sft_remote_counts n = {0};
    sft_error err = {0};
    int i = 1;

    SFT_INIT(&p.o);
    while (i < argc && option(&p, argv[i])) {
        i++;
    }
    if (argc - i < 2) {
        (void)fprintf(stderr, "usage: probe [NAME=VALUE...] open|hash|load|fetch|read URL [...]\n");
        return 2;
    }
    p.verb = argv[i];
    p.url = argv[i + 1];
    p.argc = argc - i - 2;
    p.argv = argv + i + 2;
    const double begun = now();
    (void)printf("{\"verb\": \"%s\"", p.verb);
    const sft_status status = run(&p, &err);
    (void)printf(", \"status\": \"%s\", \"sys\": %d, \"message\": ", sft_status_name(status),
                 err.sys);
    put_text(status == SFT_OK ? "" : err.message);
    if (p.remote != NULL) {
        sft_remote_count(p.remote, &n);
    }
    (void)printf(", \"ms\": %.1f, \"requests\": %llu, \"bytes\": %llu, \"retries\": %llu, "
                 "\"redirects\": %llu, \"cache_hits\": %llu}\n",
                 now() - begun, (unsigned long long)n.requests, (unsigned long long)n.bytes,
                 (unsigned long long)n.retries, (unsigned long long)n.redirects,
                 (unsigned long long)n.cache_hits);
    sft_remote_free(p.remote);
    sft_pool_free(p.pool);
    return status == SFT_OK ? 0 : 1;
}
