/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Example: a training program of many MPI ranks saves its sharded weights as one set, and loads them
 * into another number of ranks.
 *
 *     cc -o mpi_checkpoint mpi_checkpoint.c $(pkg-config --cflags --libs libsafetensors-mpi) (with mpicc)
 *     mpirun -n 4 ./mpi_checkpoint save step_100
 *     mpirun -n 3 ./mpi_checkpoint load step_100     # fills and checks: every value is known
 *
 * Here "training" is three tensors whose element i has the value i: one cut by rows, one by columns
 * (both unevenly), and one that every rank holds whole.
 */
#include <mpi.h>
#include <sft/mpi.h>
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 3 };

typedef struct weight {
    const char *name;
    uint64_t shape[2];
    int cut; /* this dimension, or -1 */
    uint64_t start[2];
    uint64_t count[2];
    float *data;
} weight;

/* Rank r of n gets rows [r * ceil(size / n), ...), the last ones fewer, or none. */
static void cut(weight *w, int rank, int ranks) {
    for (int d = 0; d < 2; d++) {
        const uint64_t size = w->shape[d];
        const uint64_t each = (size + (uint64_t)ranks - 1) / (uint64_t)ranks;
        const uint64_t first = (uint64_t)rank * each < size ? (uint64_t)rank * each : size;
        w->start[d] = d == w->cut ? first : 0;
        w->count[d] = d != w->cut ? size : size - first < each ? size - first : each;
    }
    w->data = calloc((size_t)(w->count[0] * w->count[1]) + 1, sizeof *w->data);
}

static float value(const weight *w, uint64_t i) {
    const uint64_t row = w->start[0] + i / w->count[1];
    const uint64_t column = w->start[1] + i % w->count[1];
    return (float)(row * w->shape[1] + column);
}

static int fill(weight *w, int check) {
    int wrong = 0;
    for (uint64_t i = 0; i < w->count[0] * w->count[1]; i++) {
        if (check) {
            wrong += w->data[i] != value(w, i);
        } else {
            w->data[i] = value(w, i);
        }
    }
    return wrong;
}

int main(int argc, char **argv) {
    static weight weights[TENSORS] = {{"up.weight", {37, 19}, 0, {0, 0}, {0, 0}, NULL},
                                      {"down.weight", {21, 53}, 1, {0, 0}, {0, 0}, NULL},
                                      {"norm.weight", {1, 29}, -1, {0, 0}, {0, 0}, NULL}};
    sft_group_tensor list[TENSORS];
    MPI_Comm all = MPI_COMM_WORLD;
    sft_group_result result;
    sft_error err;
    int rank, ranks, provided;
    int wrong = 0;

    if (argc != 3 || (strcmp(argv[1], "save") != 0 && strcmp(argv[1], "load") != 0)) {
        fprintf(stderr, "usage: mpi_checkpoint save|load FOLDER\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    const int saving = strcmp(argv[1], "save") == 0;
    for (int i = 0; i < TENSORS; i++) {
        weight *w = &weights[i];
        cut(w, rank, ranks);
        if (saving) {
            (void)fill(w, 0);
        }
        memset(&list[i], 0, sizeof list[i]);
        list[i].name = w->name;
        list[i].name_len = strlen(w->name);
        list[i].dtype = sft_dtype_get(SFT_F32);
        list[i].shape = w->shape; /* of the whole tensor */
        list[i].dims = 2;
        list[i].start = w->start; /* the box that this rank holds */
        list[i].count = w->count;
        list[i].data = w->data;
        list[i].nbytes = w->count[0] * w->count[1] * sizeof(float);
    }
    SFT_INIT(&result);
    sft_status status;
    if (saving) {
        sft_group_save_options options;
        SFT_INIT(&options);
        options.digests = SFT_DIGEST_CRC32C;
        status = sft_mpi_save(&all, argv[2], list, TENSORS, &options, &result, &err);
    } else {
        status = sft_mpi_load(&all, argv[2], list, TENSORS, NULL, &result, &err);
        for (int i = 0; i < TENSORS && status == SFT_OK; i++) {
            wrong += fill(&weights[i], 1);
        }
    }
    if (status != SFT_OK && rank == 0) { /* the same on every rank */
        fprintf(stderr, "%s: %s\n", argv[2], err.message);
    } else if (status == SFT_OK && rank == 0) {
        printf("%s: %llu bytes in all\n", argv[1], (unsigned long long)result.total_bytes);
    }
    if (wrong > 0) {
        fprintf(stderr, "rank %d: %d wrong values\n", rank, wrong);
    }
    for (int i = 0; i < TENSORS; i++) {
        free(weights[i].data);
    }
    MPI_Finalize();
    return status != SFT_OK || wrong > 0;
}
