/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Trains a small network and saves a step every ten updates, behind the training. Killed at any moment and
 * started again, it ends with the very weights of one that was never killed: train_and_resume RUN [UPDATES]
 */
#include <math.h>
#include <sft/run.h>
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>

enum { UNITS = 8 };
static double weight[3][UNITS] = {{.1, -.2, .3, -.4, .5, -.6, .7, -.8}}, momentum[3][UNITS];
static uint64_t shape[2] = {3, UNITS}, rng = 88172645463325252u;

static double uniform(void) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(rng >> 11) / 9007199254740992.0 - 0.5;
}

static void update(void) { /* towards weight[2] * tanh(weight[0] * a + weight[1] * b) = a * b + a */
    const double a = uniform(), b = uniform();
    double h[UNITS], error = -a * b - a;
    for (int j = 0; j < UNITS; j++) {
        h[j] = tanh(weight[0][j] * a + weight[1][j] * b);
        error += weight[2][j] * h[j];
    }
    for (int i = 0; i < 3 * UNITS; i++) {
        const int k = i / UNITS, j = i % UNITS; /* weight[2] last */
        const double back = k == 2 ? h[j] : weight[2][j] * (1 - h[j] * h[j]) * (k == 0 ? a : b);
        momentum[k][j] = 0.9 * momentum[k][j] + error * back;
        weight[k][j] -= 0.05 * momentum[k][j];
    }
}

static int resume(sft_run *run, const sft_run_tensor *tensors, uint64_t *step, sft_error *err) {
    size_t size;
    sft_run_point *p;
    if (sft_run_resume(&p, run, NULL, err) != SFT_OK) { /* with a damaged step it is no new run */
        return err->status == SFT_E_NOT_FOUND && sft_run_skipped(run, 0) == NULL;
    }
    *step = sft_run_point_step(p);
    const int ok = sft_run_point_load(p, tensors, 2, 0, err) == SFT_OK &&
                   sft_run_point_blob(p, "rng", &rng, sizeof rng, &size, err) == SFT_OK;
    sft_run_point_free(p);
    return ok;
}

int main(int argc, char **argv) {
    const uint64_t updates = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    sft_run_tensor t[2];
    uint64_t step = 0;
    sft_run *run;
    sft_run_save *save;
    sft_error err;
    SFT_INIT(&t[0]);
    t[0].name = "weight", t[0].name_len = 6, t[0].shape = shape, t[0].rank = 2;
    t[0].dtype = sft_dtype_find("F64", 3), t[0].data = weight, t[0].nbytes = sizeof weight;
    t[1] = t[0];
    t[1].name = "optimizer.momentum.weight", t[1].name_len = 25, t[1].data = momentum;
    t[1].part = SFT_RUN_OPTIMIZER;
    int ok = sft_run_open(&run, argc > 1 ? argv[1] : "run", NULL, &err) == SFT_OK &&
             resume(run, t, &step, &err);
    while (ok && step < updates) {
        update();
        if (++step % 10 == 0) { /* begin tells what failed behind; after stage memory may change */
            ok = sft_run_begin(&save, run, step, 0, &err) == SFT_OK &&
                 sft_run_add_tensor(save, &t[0], &err) == SFT_OK &&
                 sft_run_add_tensor(save, &t[1], &err) == SFT_OK &&
                 sft_run_add_blob(save, "rng", &rng, sizeof rng, &err) == SFT_OK &&
                 sft_run_stage(save, NULL, &err) == SFT_OK;
        }
    }
    if (!ok || sft_run_close(run, &err) != SFT_OK) { /* close waits until all is on the disk */
        return fprintf(stderr, "%s\n", err.message), 1;
    }
    for (int i = 0; i < 3 * UNITS; i++) {
        printf("%a\n", weight[i / UNITS][i % UNITS]);
    }
    return 0;
}
