/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/remote/fault.c - every allocation of the library fails in turn, against a real server:
 *     fault URL FOLDER
 * Opening and hashing, a batch of reads, a download: each must end with SFT_E_NOMEM and everything
 * given back, or succeed. Prints how many allocations failed.
 */
#include "remote/open_url.h"
#include "unit/counting.h"

#include <sft/digest.h>
#include <sft/extend.h>
#include <sft/remote.h>
#include <sft/sft.h>

typedef struct scenario {
    const char *name;
    sft_status (*run)(sft_remote *remote, const char *url, const char *folder,
                      const sft_allocator *a, sft_error *err);
} scenario;

static sft_status run_hash(sft_remote *remote, const char *url, const char *folder,
                           const sft_allocator *a, sft_error *err) {
    sft_open_options o;
    sft_catalog *c;
    uint8_t digest[32];
    (void)folder;

    SFT_INIT(&o);
    o.allocator = a;
    sft_status status = open_url(&c, remote, url, &o, err);
    if (status == SFT_OK) {
        status = sft_tensor_digest(c, sft_catalog_at(c, 0), digest, NULL, NULL, err);
        sft_catalog_close(c);
    }
    return status;
}

typedef struct ended {
    size_t count;
    size_t good;
} ended;

static void on_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    ended *e = ctx;
    (void)index;
    e->count++;
    e->good += status == SFT_OK;
    assert_true((status == SFT_OK) == (err == NULL));
}

static sft_status run_batch(sft_remote *remote, const char *url, const char *folder,
                            const sft_allocator *a, sft_error *err) {
    static uint8_t bytes[4][4096];
    const sft_io_range ranges[4] = {
        {10, bytes[0], 100}, {90000, bytes[1], 4096}, {500, bytes[2], 4096}, {0, bytes[3], 0}};
    ended e = {0, 0};
    sft_source *source;
    (void)folder, (void)a;

    sft_status status = sft_remote_source_open(&source, remote, url, err);
    if (status != SFT_OK) {
        assert_null(source);
        return status;
    }
    if (sft_source_size(source) > 100000) {
        status = sft_source_read_many(source, &(sft_io_batch){ranges, 4, on_done, &e, NULL}, err);
        assert_int_equal(e.count, 4);
        assert_true((e.good == 4) == (status == SFT_OK));
    }
    sft_source_close(source);
    return status;
}

static sft_status run_fetch(sft_remote *remote, const char *url, const char *folder,
                            const sft_allocator *a, sft_error *err) {
    sft_fetch_options o;
    sft_fetch_result r;
    (void)a;

    SFT_INIT(&o);
    o.flags = SFT_FETCH_REPLACE;
    return sft_remote_fetch(remote, url, folder, &o, &r, err);
}

static int wanted(void *ctx, const sft_tensor *t) {
    (void)ctx;
    return strstr(t->name, "norm") != NULL;
}

static sft_status run_select(sft_remote *remote, const char *url, const char *folder,
                             const sft_allocator *a, sft_error *err) {
    sft_fetch_options o;
    (void)a;

    SFT_INIT(&o);
    o.wanted = wanted;
    o.flags = SFT_FETCH_REPLACE;
    return sft_remote_fetch(remote, url, folder, &o, NULL, err);
}

static sft_status once(const scenario *s, const char *url, const char *folder, counting *c) {
    sft_remote_options o;
    sft_remote *remote;
    sft_error err;

    SFT_INIT(&o);
    o.allocator = &c->allocator;
    o.memory_cache_bytes = 1 << 20;
    o.hf_token = "a token";
    o.stall_ms = 5000;
    sft_status status = sft_remote_create(&remote, &o, &err);
    if (status == SFT_OK) {
        status = s->run(remote, url, folder, &c->allocator, &err);
        sft_remote_free(remote);
    } else {
        assert_null(remote);
    }
    if (status != SFT_OK) {
        assert_int_equal(err.status, status);
    }
    return status;
}

int main(int argc, char **argv) {
    static const scenario scenarios[] = {
        {"hash", run_hash}, {"batch", run_batch}, {"fetch", run_fetch}, {"select", run_select}};
    size_t failed = 0;

    if (argc != 3) {
        return 2;
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        for (size_t k = 1;; k++) {
            counting c;
            counting_init(&c);
            c.fail_from = k;
            const sft_status status = once(&scenarios[i], argv[1], argv[2], &c);
            assert_all_given_back(&c);
            if (c.calls < k) { /* nothing was left to fail */
                assert_int_equal(status, SFT_OK);
                break;
            }
            /* a block that the cache cannot keep, an address that cannot be remembered: no failures
             */
            assert_true(status == SFT_E_NOMEM || status == SFT_OK);
            failed++;
        }
    }
    (void)printf("%zu allocations failed\n", failed);
    return failed > 100 ? 0 : 1;
}
