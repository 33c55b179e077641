/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Everything that a step of a run can hold, and all that it says of itself: train_and_resume.c at length,
 * with rules, numbers, texts, metrics, and damage that is passed over.
 *     run_in_full RUN [UPDATES]
 */
#include <sft/run.h>
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 64 };

/* All that training needs to go on: a linear model, its momentum, a random generator. */
static struct {
    double w[WEIGHTS], m[WEIGHTS];
    uint64_t rng;
} net = {.rng = 88172645463325252u};

static double uniform(void) {
    net.rng ^= net.rng << 13;
    net.rng ^= net.rng >> 7;
    net.rng ^= net.rng << 17;
    return (double)(net.rng >> 11) / 9007199254740992.0;
}

static double update(double rate) { /* one example of a target that the model has to find */
    double x[WEIGHTS], error = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        x[i] = uniform() - 0.5;
        error += x[i] * (net.w[i] - i);
    }
    for (int i = 0; i < WEIGHTS; i++) {
        net.m[i] = 0.9 * net.m[i] + error * x[i];
        net.w[i] -= rate * net.m[i];
    }
    return error * error;
}

/* The same list is saved and loaded. */
static void describe(sft_run_tensor tensors[2]) {
    static const uint64_t shape[1] = {WEIGHTS};
    static const char *const names[2] = {"linear.weight", "optimizer.momentum.linear.weight"};
    for (int i = 0; i < 2; i++) {
        SFT_INIT(&tensors[i]);
        tensors[i].name = names[i];
        tensors[i].name_len = strlen(names[i]);
        tensors[i].part = i == 0 ? SFT_RUN_MODEL : SFT_RUN_OPTIMIZER;
        tensors[i].dtype = sft_dtype_find("F64", 3);
        tensors[i].shape = shape;
        tensors[i].rank = 1;
        tensors[i].data = i == 0 ? net.w : net.m;
        tensors[i].nbytes = sizeof net.w;
    }
}

static sft_status save(sft_run *run, uint64_t step, double rate, double loss, sft_error *err) {
    static const char config[] = "{\"weights\": 64}\n";
    static const char schedule[] = "{\"decay\": [999, 1000]}";
    sft_run_tensor tensors[2];
    sft_run_save *s;
    sft_status st = sft_run_begin(&s, run, step, 0, err);
    describe(tensors);
    for (int i = 0; i < 2 && st == SFT_OK; i++) {
        st = sft_run_add_tensor(s, &tensors[i], err);
    }
    if (st == SFT_OK && (st = sft_run_add_f64(s, "rate", rate, err)) == SFT_OK &&
        (st = sft_run_add_i64(s, "examples", (int64_t)step, err)) == SFT_OK &&
        (st = sft_run_add_bool(s, "momentum", 1, err)) == SFT_OK &&
        (st = sft_run_add_text(s, "task", "find i", 6, err)) == SFT_OK &&
        (st = sft_run_add_node(s, "schedule", schedule, sizeof schedule - 1, err)) == SFT_OK &&
        (st = sft_run_add_blob(s, "rng", &net.rng, sizeof net.rng, err)) == SFT_OK &&
        (st = sft_run_add_metric(s, "loss", loss, err)) == SFT_OK &&
        (st = sft_run_add_metadata(s, "made.by", 7, "run_in_full", 11, err)) == SFT_OK &&
        (st = sft_run_add_file(s, "config.json", config, sizeof config - 1, err)) == SFT_OK) {
        sft_run_keep(s, 10);                /* that one stays, too, whatever the rules say */
        return sft_run_stage(s, NULL, err); /* from here on `net` may change */
    }
    sft_run_save_free(s);
    return st;
}

/* What a step says of itself. */
static void report(const sft_run *run, const sft_run_point *point) {
    const sft_run_step *passed;
    const char *name;
    const char *json;
    const char *task = "";
    double loss = 0;
    int64_t examples = 0;
    int momentum = 0;
    size_t len = 0;
    for (size_t i = 0; (passed = sft_run_skipped(run, i)) != NULL; i++) {
        fprintf(stderr, "%s was passed over: %s\n", passed->name, passed->why);
    }
    if (sft_run_point_metric(point, "loss", &loss, NULL) == SFT_OK &&
        sft_run_point_i64(point, "examples", &examples, NULL) == SFT_OK &&
        sft_run_point_bool(point, "momentum", &momentum, NULL) == SFT_OK &&
        sft_run_point_text(point, "task", &task, &len, NULL) == SFT_OK) {
        fprintf(stderr, "resumed from %s: %s, %lld examples, loss %g, %lu tensors, momentum %d\n",
                sft_run_point_path(point), task, (long long)examples, loss,
                (unsigned long)sft_catalog_count(sft_run_point_catalog(point)), momentum);
    }
    for (size_t i = 0; (name = sft_run_point_name(point, i)) != NULL; i++) {
        if (sft_run_point_node(point, name, &json, &len, NULL) == SFT_OK) {
            fprintf(stderr, "  %s: %.*s\n", name, (int)len, json);
        }
    }
}

static sft_status resume(sft_run *run, uint64_t *step, double *rate, sft_error *err) {
    sft_run_tensor tensors[2];
    sft_run_point *point;
    size_t size;
    sft_status st = sft_run_resume(&point, run, NULL, err);
    if (st == SFT_E_NOT_FOUND) {
        return SFT_OK; /* a new run */
    }
    describe(tensors);
    while (st == SFT_OK && (st = sft_run_point_load(point, tensors, 2, 0, err)) == SFT_E_MISMATCH) {
        const sft_error damage = *err; /* an older step, then */
        st = sft_run_point_next(point, damage.message, err);
    }
    if (st == SFT_OK && (st = sft_run_point_f64(point, "rate", rate, err)) == SFT_OK &&
        (st = sft_run_point_blob(point, "rng", &net.rng, sizeof net.rng, &size, err)) == SFT_OK) {
        *step = sft_run_point_step(point);
        report(run, point);
    }
    sft_run_point_free(point);
    return st;
}

int main(int argc, char **argv) {
    const uint64_t updates = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    double rate = 0.005, loss = 0;
    uint64_t step = 0;
    sft_run_rules rules;
    sft_run_options options;
    sft_run *run = NULL;
    sft_error err;
    SFT_INIT(&rules);
    rules.keep_last = 3;
    rules.best = "loss";
    SFT_INIT(&options);
    options.rules = &rules;
    sft_status status = sft_run_open(&run, argc > 1 ? argv[1] : "run", &options, &err);
    if (status == SFT_OK) {
        status = resume(run, &step, &rate, &err);
    }
    while (status == SFT_OK && step < updates) {
        loss = update(rate);
        rate *= 0.999;
        if (++step % 10 == 0 || step == updates) {
            status = save(run, step, rate, loss, &err);
        } else {
            status = sft_run_poll(run, NULL, &err); /* has a save failed behind? */
        }
    }
    if (status == SFT_OK) {
        status = sft_run_wait(run, SFT_RUN_ALL, 60000, &err);
    }
    const sft_status closed = sft_run_close(run, status == SFT_OK ? &err : NULL);
    status = status == SFT_OK ? closed : status;
    if (status != SFT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("step %llu", (unsigned long long)step);
    for (int i = 0; i < WEIGHTS; i++) {
        printf(" %a", net.w[i]);
    }
    printf("\n");
    return 0;
}
