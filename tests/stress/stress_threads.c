/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * 64 threads write one file through one writer, then 64 threads read it through one handle: whole, sliced,
 * borrowed and looked up by name. Meant to be run under ThreadSanitizer as well.
 */
#include "stress.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 64, TENSORS = 128, ROWS = 64, COLS = 100, ROUNDS = 40, PIECE = 700 };

static const char *const path = "stress_threads.safetensors";

typedef struct shared {
    sft_writer *writer;
    const sft_catalog *catalog;
    uint32_t next; /* thread number source, under lock */
    pthread_mutex_t lock;
} shared;

static uint32_t my_number(shared *s) {
    pthread_mutex_lock(&s->lock);
    const uint32_t n = s->next++;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Thread n puts the pieces p with p % THREADS == n of every tensor, last piece first. */
static void *put_pieces(void *arg) {
    shared *s = arg;
    const uint32_t n = my_number(s);
    const uint32_t nbytes = ROWS * COLS;
    const uint32_t pieces = (nbytes + PIECE - 1) / PIECE;
    for (uint32_t t = 0; t < TENSORS; t++) {
        for (uint32_t p = pieces; p-- > 0;) {
            uint8_t data[PIECE];
            const uint32_t at = p * PIECE;
            const uint32_t size = nbytes - at < PIECE ? nbytes - at : PIECE;
            sft_error err;
            if ((p + t) % THREADS != n) {
                continue;
            }
            for (uint32_t i = 0; i < size; i++) {
                data[i] = pattern(t, at + i);
            }
            REQUIRE_OK(sft_writer_put(s->writer, t, at, data, size, &err), err);
        }
    }
    return NULL;
}

static void *read_all_ways(void *arg) {
    shared *s = arg;
    const uint32_t n = my_number(s);
    uint8_t whole[ROWS * COLS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t t = (n * 7 + round * 13) % TENSORS;
        char name[32];
        sft_error err;
        const int len = snprintf(name, sizeof name, "layer.%u.weight", t);
        const sft_tensor *tensor = sft_catalog_find(s->catalog, name, (size_t)len);
        REQUIRE(tensor != NULL);
        REQUIRE_OK(sft_tensor_read(s->catalog, tensor, NULL, whole, sizeof whole, &err), err);
        for (uint32_t i = 0; i < sizeof whole; i++) {
            REQUIRE(whole[i] == pattern(t, i));
        }
        const sft_slice slices[2] = {{round % ROWS, ROWS, 3, SFT_SLICE_RANGE, 0},
                                     {SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0}};
        sft_read_options opt;
        SFT_INIT(&opt);
        opt.slices = slices;
        opt.slice_count = 2;
        uint64_t nbytes;
        REQUIRE_OK(sft_tensor_result(tensor, &opt, NULL, NULL, &nbytes, &err), err);
        REQUIRE(nbytes <= sizeof whole);
        REQUIRE_OK(sft_tensor_read(s->catalog, tensor, &opt, whole, sizeof whole, &err), err);
        for (uint64_t i = 0; i < nbytes; i++) {
            const uint64_t row = round % ROWS + 3 * (i / COLS);
            REQUIRE(whole[i] == pattern(t, row * COLS + (COLS - 1 - i % COLS)));
        }
        const void *borrowed;
        size_t size;
        REQUIRE_OK(sft_tensor_borrow(s->catalog, tensor, &borrowed, &size, &err), err);
        REQUIRE(size == ROWS * COLS && ((const uint8_t *)borrowed)[round] == pattern(t, round));
    }
    return NULL;
}

static void run_threads(shared *s, void *(*fn)(void *)) {
    pthread_t threads[THREADS];
    s->next = 0;
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, fn, s) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void) {
    shared s = {NULL, NULL, 0, PTHREAD_MUTEX_INITIALIZER};
    const uint64_t shape[2] = {ROWS, COLS};
    sft_write_options wopt;
    sft_verify_result verified;
    sft_catalog *catalog;
    sft_error err;

    SFT_INIT(&wopt);
    wopt.digests = SFT_DIGEST_CRC32C;
    wopt.durability = SFT_DURABLE_NONE;
    REQUIRE_OK(sft_writer_create(&s.writer, path, &wopt, &err), err);
    for (uint32_t t = 0; t < TENSORS; t++) {
        char name[32];
        const int len = snprintf(name, sizeof name, "layer.%u.weight", t);
        REQUIRE_OK(sft_writer_declare(s.writer, name, (size_t)len, sft_dtype_get(SFT_U8), shape, 2,
                                      NULL, &err),
                   err);
    }
    REQUIRE_OK(sft_writer_start(s.writer, &err), err);
    run_threads(&s, put_pieces);
    REQUIRE_OK(sft_writer_commit(s.writer, &err), err);
    sft_writer_free(s.writer);

    REQUIRE_OK(sft_catalog_open(&catalog, path, NULL, &err), err);
    s.catalog = catalog;
    run_threads(&s, read_all_ways);
    REQUIRE_OK(sft_catalog_verify(catalog, NULL, &verified, &err), err);
    REQUIRE(verified.checked == TENSORS && verified.damaged == 0);
    sft_catalog_close(catalog);
    REQUIRE(unlink(path) == 0);
    printf("%d threads: %d tensors put in pieces, %d reads of each kind, %llu digests equal\n",
           THREADS, TENSORS, THREADS * ROUNDS, (unsigned long long)verified.checked);
    return 0;
}
