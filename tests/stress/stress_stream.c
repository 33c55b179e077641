/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Four streams of one catalog on one pool, three threads taking from each, in little memory, while
 * the pool does other work and every fourth round is cancelled. Meant to be run under
 * ThreadSanitizer as well.
 */
#include "stress.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 4, TAKERS = 3, TENSORS = 64, NBYTES = 3001, LARGE = 300000, ROUNDS = 40 };

static const char *const path = "stress_stream.safetensors";

typedef struct taker {
    sft_stream *stream;
    pthread_t thread;
    uint64_t bytes;
    bool cancelled;
} taker;

static void *take(void *arg) {
    taker *t = arg;
    sft_stream_item item;
    sft_error err;
    for (;;) {
        const sft_status status = sft_stream_next(t->stream, &item, &err);
        if (status == SFT_E_CANCELLED) {
            t->cancelled = true;
            return NULL;
        }
        REQUIRE_OK(status, err);
        if (item.tensor == NULL) {
            return NULL;
        }
        const uint8_t *data = item.data;
        for (size_t i = 0; i < item.size; i++) {
            REQUIRE(data[i] == pattern((uint32_t)item.index, item.offset + i));
        }
        memset(item.data, 0, item.size); /* ours until the release */
        t->bytes += item.size;
        sft_stream_release(t->stream, &item);
    }
}

static size_t size_of(uint32_t t) {
    return t % 8 == 7 ? LARGE : t % 8 == 3 ? 0 : NBYTES;
}

static uint64_t write_file(void) {
    static char names[TENSORS][8];
    static uint64_t shapes[TENSORS];
    uint8_t *blocks[TENSORS];
    sft_save_tensor list[TENSORS];
    sft_error err;
    uint64_t total = 0;
    for (uint32_t t = 0; t < TENSORS; t++) {
        shapes[t] = size_of(t);
        uint8_t *bytes = blocks[t] = malloc(size_of(t) + 1);
        REQUIRE(bytes != NULL);
        for (uint64_t i = 0; i < shapes[t]; i++) {
            bytes[i] = pattern(t, i);
        }
        const int len = snprintf(names[t], sizeof names[t], "t%02u", t);
        list[t] = (sft_save_tensor){
            names[t], (size_t)len, sft_dtype_find("U8", 2), &shapes[t], 1, 0, bytes, shapes[t]};
        total += shapes[t];
    }
    REQUIRE_OK(sft_save(path, list, TENSORS, NULL, 0, NULL, &err), err);
    for (uint32_t t = 0; t < TENSORS; t++) {
        free(blocks[t]);
    }
    return total;
}

static void count_one(void *ctx, size_t index) {
    (void)index;
    atomic_fetch_add((atomic_size_t *)ctx, 1);
}

static void one_round(unsigned round, const sft_catalog *c, const sft_pool *pool, uint64_t total) {
    taker takers[STREAMS][TAKERS];
    sft_stream *streams[STREAMS];
    atomic_size_t counted = 0;
    sft_error err;
    memset(takers, 0, sizeof takers);
    for (unsigned s = 0; s < STREAMS; s++) {
        sft_stream_options o;
        SFT_INIT(&o);
        o.pool = pool;
        o.order = (round + s) % 3;
        o.memory_bytes = 40000;
        o.flags = SFT_STREAM_WAIT | SFT_STREAM_PARTS;
        REQUIRE_OK(sft_stream_create(&streams[s], c, &o, &err), err);
        for (uint32_t t = 0; t < TENSORS; t++) { /* as named: index and content belong together */
            char name[8];
            const int len = snprintf(name, sizeof name, "t%02u", t);
            const sft_tensor *tensor = sft_catalog_find(c, name, (size_t)len);
            REQUIRE_OK(sft_stream_add(streams[s], tensor, NULL, NULL, 0, &err), err);
        }
        REQUIRE_OK(sft_stream_start(streams[s], &err), err);
        for (unsigned k = 0; k < TAKERS; k++) {
            takers[s][k].stream = streams[s];
            REQUIRE(pthread_create(&takers[s][k].thread, NULL, take, &takers[s][k]) == 0);
        }
    }
    sft_pool_run(pool, 100, count_one, &counted);
    REQUIRE(atomic_load(&counted) == 100);
    if (round % 4 == 3) {
        sft_stream_cancel(streams[round % STREAMS]);
    }
    for (unsigned s = 0; s < STREAMS; s++) {
        uint64_t bytes = 0;
        bool cancelled = false;
        for (unsigned k = 0; k < TAKERS; k++) {
            REQUIRE(pthread_join(takers[s][k].thread, NULL) == 0);
            bytes += takers[s][k].bytes;
            cancelled = cancelled || takers[s][k].cancelled;
        }
        REQUIRE(bytes == total || cancelled);
        sft_stream_free(streams[s]);
    }
}

int main(void) {
    sft_catalog *c;
    sft_pool *pool;
    sft_error err;
    const uint64_t total = write_file();
    REQUIRE_OK(sft_catalog_open(&c, path, NULL, &err), err);
    REQUIRE_OK(sft_pool_create(&pool, 4, NULL, &err), err);
    for (unsigned round = 0; round < ROUNDS; round++) {
        one_round(round, c, pool, total);
    }
    sft_pool_free(pool);
    sft_catalog_close(c);
    REQUIRE(unlink(path) == 0);
    printf("%d rounds of %d streams with %d takers each\n", ROUNDS, STREAMS, TAKERS);
    return 0;
}
