/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench_kernels.c - rates of the digests and conversions under each mask of processor features,
 * and what CRC32C adds to a save: `sft_bench_kernels DIR [ROUNDS]` prints one JSON object per line.
 * Kernels work on 256 KiB that stay in the cache; saves write 512 MiB below DIR. Times are the
 * processor's, not the clock's, and the least of ROUNDS (20) in which everything takes turns, so that a
 * loaded machine disturbs little.
 */
#include "base/cpu.h"
#include "move/kernels/convert.h"
#include "move/kernels/digest_twins.h"
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCK = 256 << 10, TURNS = 16, TENSORS = 32 };
static const size_t SAVED = (size_t)512 << 20;

static const char *const masks[] = {"avx512", "avx2",          "avx2,-vpclmul",
                                    "sse4.2", "sse4.2,-clmul", "portable"};
enum { MASKS = sizeof masks / sizeof masks[0] };

static const struct work {
    const char *name;
    uint32_t to; /* a conversion; 0: a digest */
    uint32_t from;
} works[] = {
    {"crc32c", 0, 0},
    {"sha256", 0, 1},
    {"f32 to f8_e4m3", SFT_F8_E4M3, SFT_F32},
    {"f32 to f8_e5m2", SFT_F8_E5M2, SFT_F32},
    {"bf16 to f8_e4m3", SFT_F8_E4M3, SFT_BF16},
    {"f8_e4m3 to f32", SFT_F32, SFT_F8_E4M3},
    {"f8_e5m2 to f32", SFT_F32, SFT_F8_E5M2},
    {"f8_e4m3 to bf16", SFT_BF16, SFT_F8_E4M3},
    {"f32 to bf16", SFT_BF16, SFT_F32},
    {"f32 to f16", SFT_F16, SFT_F32},
    {"bf16 to f32", SFT_F32, SFT_BF16},
    {"f16 to f32", SFT_F32, SFT_F16},
};
enum { WORKS = sizeof works / sizeof works[0] };

static double used(void) {
    struct rusage r;
    (void)getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static uint32_t without_of(const char *mask) {
    uint32_t without = 0;
    (void)!sft__base_cpu_parse(mask, &without, NULL);
    return without;
}

/* Bytes of the source per second. */
static double rate(const struct work *w, uint32_t without, uint8_t *dst, const uint8_t *src) {
    const uint32_t cpu = sft__base_cpu_features() & ~without;
    const uint64_t n = w->from > 1 ? BLOCK / sft_dtype_get(w->from)->block_bytes : 0;
    const double start = used();
    double seconds;
    size_t turns = 0;

    do {
        for (size_t i = 0; i < TURNS; i++) {
            sft_sha256 sha;
            if (w->to != 0) {
                (void)!sft_convert(dst, src, n,
                                   &(sft_cast){sft_dtype_get(w->to), sft_dtype_get(w->from),
                                               SFT_CONVERT_WITHOUT(without)},
                                   NULL);
            } else if (w->from == 0) {
                dst[0] = (uint8_t)sft__move_crc32c(cpu, 0, src, BLOCK);
            } else {
                sft_sha256_init(&sha);
                sft__move_sha256_update(cpu, &sha, src, BLOCK);
            }
        }
        turns += TURNS;
        seconds = used() - start;
    } while (seconds < 0.002);
    return (double)turns * BLOCK / seconds;
}

static void kernels(size_t rounds) {
    static double best[WORKS][MASKS];
    uint8_t *dst = malloc((size_t)8 * BLOCK);
    uint8_t *src = malloc(BLOCK);

    for (size_t i = 0; src != NULL && i < BLOCK; i++) {
        src[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (size_t round = 0; dst != NULL && src != NULL && round < rounds; round++) {
        for (size_t w = 0; w < WORKS; w++) {
            for (size_t m = 0; m < MASKS; m++) {
                const double now = rate(&works[w], without_of(masks[m]), dst, src);
                best[w][m] = now > best[w][m] ? now : best[w][m];
            }
        }
    }
    for (size_t w = 0; w < WORKS; w++) {
        printf("{\"kernel\": \"%s\", \"unit\": \"GB/s of input\"", works[w].name);
        for (size_t m = 0; m < MASKS; m++) {
            printf(", \"%s\": %.2f", masks[m], best[w][m] / 1e9);
        }
        printf("}\n");
    }
    free(dst);
    free(src);
}

/* Processor seconds of one save. */
static double save(const char *path, const sft_save_tensor *tensors, uint32_t threads,
                   const char *mask) {
    sft_write_options options = {.struct_size = sizeof options};
    sft_pool *pool = NULL;
    sft_error err;

    options.durability = SFT_DURABLE_NONE;
    options.digests = mask != NULL ? SFT_DIGEST_CRC32C : 0;
    if (sft_pool_create(&pool, threads, NULL, &err) != SFT_OK ||
        sft_pool_set_cpu(pool, mask, &err) != SFT_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    options.pool = pool;
    const double start = used();
    if (sft_save(path, tensors, TENSORS, NULL, 0, &options, &err) != SFT_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    const double seconds = used() - start;
    sft_pool_free(pool);
    (void)unlink(path);
    return seconds;
}

static void saves(const char *directory, size_t rounds, uint32_t threads) {
    double best[MASKS + 1];
    char path[4096];
    char names[TENSORS][8];
    sft_save_tensor tensors[TENSORS];
    const uint64_t shape[1] = {SAVED / TENSORS};
    uint8_t *data = malloc(SAVED);

    if (data == NULL) {
        return;
    }
    memset(data, 0x5a, SAVED);
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < TENSORS; i++) {
        tensors[i].name_len = (size_t)snprintf(names[i], sizeof names[i], "t%zu", i);
        tensors[i].name = names[i];
        tensors[i].dtype = sft_dtype_get(SFT_U8);
        tensors[i].shape = shape;
        tensors[i].rank = 1;
        tensors[i].data = data + i * (SAVED / TENSORS);
        tensors[i].nbytes = SAVED / TENSORS;
    }
    (void)snprintf(path, sizeof path, "%s/sft_bench_kernels.safetensors", directory);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t m = 0; m <= MASKS; m++) {
            const double now = save(path, tensors, threads, m == 0 ? NULL : masks[m - 1]);
            best[m] = round == 0 || now < best[m] ? now : best[m];
        }
    }
    const double scale = 1e3 * (double)((size_t)1 << 30) / (double)SAVED;
    printf("{\"save\": \"CRC32C\", \"threads\": %u, \"unit\": \"ms of processor per GiB\", "
           "\"none\": %.1f",
           (unsigned)threads, best[0] * scale);
    for (size_t m = 0; m < MASKS; m++) {
        printf(", \"%s\": %.1f", masks[m], best[m + 1] * scale);
    }
    printf("}\n");
    free(data);
}

int main(int argc, char **argv) {
    const size_t rounds = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 20;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: sft_bench_kernels DIR [ROUNDS]\n");
        return 2;
    }
    kernels(rounds);
    saves(argv[1], rounds, 1);
    saves(argv[1], rounds, 2);
    return 0;
}
