/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Example: a training program of many MPI ranks keeps a run; any other number of ranks goes on with it,
 * the optimizer's state cut anew like the weight that it belongs to.
 *
 *     cc -o mpi_train mpi_train.c $(pkg-config --cflags --libs libsafetensors-mpi) (with mpicc)
 *     mpirun -n 4 ./mpi_train RUN 20
 *     mpirun -n 3 ./mpi_train RUN 40     # goes on at step 20
 *
 * "Training" adds the row's number to each element of a weight that is cut by rows, and the momentum is
 * what was added so far: after step N both are known, and are compared before and after.
 */
#include <mpi.h>
#include <sft/mpi.h>
#include <sft/run.h>
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 37, COLUMNS = 5, TENSORS = 2 };

static const uint64_t shape[2] = {ROWS, COLUMNS};

/* This rank's rows of a tensor. */
typedef struct part {
    const char *name;
    uint32_t kind;
    uint64_t start[2];
    uint64_t count[2];
    float data[ROWS * COLUMNS];
} part;

static void cut(part *p, int rank, int ranks) {
    const uint64_t each = (ROWS + (uint64_t)ranks - 1) / (uint64_t)ranks;
    const uint64_t first = (uint64_t)rank * each;
    p->start[0] = first < ROWS ? first : ROWS;
    p->count[0] = ROWS - p->start[0] < each ? ROWS - p->start[0] : each;
    p->start[1] = 0;
    p->count[1] = COLUMNS;
}

static void describe(sft_run_tensor *t, const part *p) {
    SFT_INIT(t);
    t->name = p->name;
    t->name_len = strlen(p->name);
    t->dtype = sft_dtype_get(SFT_F32);
    t->shape = shape;
    t->rank = 2;
    t->part = p->kind;
    t->start = p->start;
    t->count = p->count;
    t->nbytes = p->count[0] * p->count[1] * sizeof(float);
    t->data = t->nbytes > 0 ? p->data : NULL;
}

static void train(part *weight, part *momentum) {
    for (uint64_t i = 0; i < weight->count[0] * COLUMNS; i++) {
        const float change = (float)(weight->start[0] + i / COLUMNS);
        momentum->data[i] += change;
        weight->data[i] += change;
    }
}

static int wrong(const part *p, uint64_t step) {
    int count = 0;
    for (uint64_t i = 0; i < p->count[0] * COLUMNS; i++) {
        count += p->data[i] != (float)((p->start[0] + i / COLUMNS) * step);
    }
    return count;
}

static sft_status resume(sft_run *run, part *parts, uint64_t *step, sft_error *err) {
    sft_run_tensor list[TENSORS];
    sft_run_point *point;
    sft_status status = sft_run_resume(&point, run, NULL, err);
    if (status == SFT_E_NOT_FOUND && sft_run_skipped(run, 0) == NULL) {
        return SFT_OK; /* a new run */
    }
    if (status == SFT_OK) {
        for (int i = 0; i < TENSORS; i++) {
            describe(&list[i], &parts[i]);
        }
        status = sft_run_point_load(point, list, TENSORS, 0, err);
        *step = sft_run_point_step(point);
        sft_run_point_free(point);
    }
    return status;
}

static sft_status save(sft_run *run, const part *parts, uint64_t step, sft_error *err) {
    sft_run_save *made;
    sft_run_tensor t;
    sft_status status = sft_run_begin(&made, run, step, 0, err);
    for (int i = 0; i < TENSORS && status == SFT_OK; i++) {
        describe(&t, &parts[i]);
        status = sft_run_add_tensor(made, &t, err);
        if (status != SFT_OK) {
            sft_run_save_free(made);
        }
    }
    return status == SFT_OK ? sft_run_stage(made, NULL, err) : status;
}

static sft_status go_on(sft_run *run, part *parts, uint64_t last, int rank, sft_error *err) {
    uint64_t step = 0;
    sft_status status = resume(run, parts, &step, err);
    if (status == SFT_OK && rank == 0) {
        printf("from step %llu\n", (unsigned long long)step);
    }
    if (status == SFT_OK && wrong(&parts[0], step) + wrong(&parts[1], step) > 0) {
        status = sft_error_set(err, SFT_E_MISMATCH, 0, "rank %d: wrong values", rank);
    }
    while (status == SFT_OK && step < last) {
        train(&parts[0], &parts[1]);
        status = save(run, parts, ++step, err);
    }
    return status;
}

int main(int argc, char **argv) {
    static part parts[TENSORS] = {
        {"up.weight", SFT_RUN_MODEL, {0, 0}, {0, 0}, {0}},
        {"optimizer.momentum.up.weight", SFT_RUN_OPTIMIZER, {0, 0}, {0, 0}, {0}}};
    MPI_Comm all = MPI_COMM_WORLD;
    sft_run_options options;
    sft_run_rules rules;
    sft_run *run = NULL;
    sft_group group;
    sft_error err;
    int rank, ranks, provided;

    if (argc != 3) {
        fprintf(stderr, "usage: mpi_train RUN LAST-STEP\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    for (int i = 0; i < TENSORS; i++) {
        cut(&parts[i], rank, ranks);
    }
    SFT_INIT(&group);
    SFT_INIT(&options);
    SFT_INIT(&rules);
    rules.keep_last = 3;
    options.rules = &rules;
    options.group = &group;
    options.timeout_ms = 60000;
    memset(&err, 0, sizeof err);
    sft_status status = sft_mpi_group(&group, &all, &err);
    if (status == SFT_OK) {
        status = sft_run_open(&run, argv[1], &options, &err);
    }
    if (status == SFT_OK) {
        status = go_on(run, parts, strtoull(argv[2], NULL, 10), rank, &err);
    }
    const sft_status closed = sft_run_close(run, status == SFT_OK ? &err : NULL);
    status = status == SFT_OK ? closed : status;
    if (status != SFT_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, err.message);
    }
    MPI_Finalize();
    return status != SFT_OK;
}
