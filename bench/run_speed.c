/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/run_speed.c - what a save of a training run costs: the stall against a memcpy of the same tensors
 * by two threads, training beside the writing, the writing against the durable floor, the resume against a
 * read. Contenders take turns; JSON on standard output. Linux and other POSIX systems only.
 *     run_speed FOLDER [MIB [ROUNDS]]
 */
#include <fcntl.h>
#include <pthread.h>
#include <sft/run.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TENSOR = 16 << 20, WRITE = 4 << 20, ROUNDS_MAX = 64 };

static uint64_t now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void must(sft_status status, const sft_error *err) {
    if (status != SFT_OK) {
        fprintf(stderr, "run_speed: %s\n", err->message);
        exit(1);
    }
}

static void *pages(size_t size) {
    void *p = NULL;
    if (posix_memalign(&p, (size_t)2 << 20, size) != 0) {
        fprintf(stderr, "run_speed: no memory\n");
        exit(1);
    }
    memset(p, 1, size); /* touched */
    return p;
}

/* ---------------------------------------------------------------- the state */

typedef struct state {
    size_t count;
    uint8_t *data;
    uint8_t *copy;
    uint64_t shape[1];
} state;

static void change(state *s) { /* every tensor, as an update does */
    for (size_t i = 0; i < s->count * TENSOR; i += 4096) {
        s->data[i]++;
    }
}

static void describe(const state *s, size_t i, char name[64], sft_run_tensor *t) {
    static const char *const parts[] = {"layer", "optimizer.exp_avg.layer",
                                        "optimizer.exp_avg_sq.layer"};
    (void)snprintf(name, 64, "%s.%zu.weight", parts[i % 3], i / 3);
    SFT_INIT(t);
    t->name = name;
    t->name_len = strlen(name);
    t->part = i % 3 == 0 ? SFT_RUN_MODEL : SFT_RUN_OPTIMIZER;
    t->dtype = sft_dtype_get(SFT_F32);
    t->shape = s->shape;
    t->rank = 1;
    t->data = s->data + i * TENSOR;
    t->nbytes = TENSOR;
}

static double stage(sft_run *run, const state *s, uint64_t step) {
    sft_run_save *save;
    sft_run_tensor t;
    sft_error err;
    char name[64];
    must(sft_run_begin(&save, run, step, 0, &err), &err);
    for (size_t i = 0; i < s->count; i++) {
        describe(s, i, name, &t);
        must(sft_run_add_tensor(save, &t, &err), &err);
    }
    must(sft_run_add_i64(save, "step", (int64_t)step, &err), &err);
    const uint64_t begun = now();
    must(sft_run_stage(save, NULL, &err), &err);
    return (double)(now() - begun) / 1e9;
}

static double finish(sft_run *run, uint64_t begun) {
    sft_error err;
    must(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, &err), &err);
    return (double)(now() - begun) / 1e9;
}

/* ---------------------------------------------------------------- floors */

typedef struct half {
    const state *s;
    size_t first;
} half;

static void *copy_half(void *ctx) {
    const half *const h = ctx;
    for (size_t i = h->first; i < h->s->count; i += 2) {
        memcpy(h->s->copy + i * TENSOR, h->s->data + i * TENSOR, TENSOR);
    }
    return NULL;
}

/* Two threads that are there already: the other one is started outside the clock's interest, at 20 us. */
static double copy(const state *s) {
    half halves[2] = {{s, 0}, {s, 1}};
    pthread_t other;
    const uint64_t begun = now();
    if (pthread_create(&other, NULL, copy_half, &halves[1]) != 0) {
        exit(1);
    }
    (void)copy_half(&halves[0]);
    (void)pthread_join(other, NULL);
    return (double)(now() - begun) / 1e9;
}

/* All bytes by one thread into one new file, flushed, which then takes the place of the one of the round
 * before, as a step does where one is kept: freeing the old bytes takes its time. Past the cache where
 * that goes. */
static double write_floor(const state *s, const char *scratch, bool direct) {
    char path[4200];
    char old[4200];
    (void)snprintf(path, sizeof path, "%s/floor-new", scratch);
    (void)snprintf(old, sizeof old, "%s/floor-%s", scratch, direct ? "direct" : "cached");
    const uint64_t begun = now();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | (direct ? O_DIRECT : 0), 0600);
    if (fd < 0) {
        return -1;
    }
    (void)!posix_fallocate(fd, 0, (off_t)(s->count * TENSOR));
    for (size_t at = 0; at < s->count * TENSOR; at += WRITE) {
        if (pwrite(fd, s->data + at, WRITE, (off_t)at) != WRITE) {
            close(fd);
            return -1;
        }
    }
    (void)fsync(fd);
    (void)close(fd);
    (void)rename(path, old);
    return (double)(now() - begun) / 1e9;
}

static double read_floor(const state *s, const char *path) {
    const uint64_t begun = now();
    const int fd = open(path, O_RDONLY);
    size_t got = 0;
    for (ssize_t n = 1; fd >= 0 && n > 0 && got < s->count * TENSOR; got += n > 0 ? (size_t)n : 0) {
        n = read(fd, s->copy + got,
                 s->count * TENSOR - got < WRITE ? s->count * TENSOR - got : WRITE);
    }
    (void)close(fd);
    return (double)(now() - begun) / 1e9;
}

/* ---------------------------------------------------------------- training */

static float a[96][96];
static float b[96][96];

static void train_once(void) {
    float sum = 0;
    for (int i = 0; i < 96; i++) {
        for (int k = 0; k < 96; k++) {
            float x = 0;
            for (int j = 0; j < 96; j++) {
                x += a[i][j] * b[j][k];
            }
            sum += x;
            a[k][i] = x * 0.001f;
        }
    }
    b[0][0] = sum > 1 ? 1 : sum;
}

static double train(sft_run *run, double seconds, bool until_written) {
    const uint64_t begun = now();
    uint64_t steps = 0;
    sft_run_progress p;
    sft_error err;
    SFT_INIT(&p);
    do {
        train_once();
        steps++;
        if (until_written && steps % 16 == 0) {
            must(sft_run_poll(run, &p, &err), &err);
        }
    } while (until_written ? p.pending > 0 || steps < 16 : (double)(now() - begun) / 1e9 < seconds);
    return (double)steps / ((double)(now() - begun) / 1e9);
}

/* ---------------------------------------------------------------- rounds */

static int by_value(const void *x, const void *y) {
    const double p = *(const double *)x;
    const double q = *(const double *)y;
    return p < q ? -1 : p > q;
}

typedef struct series {
    double values[ROUNDS_MAX];
    size_t count;
} series;

static double median(series *s) {
    qsort(s->values, s->count, sizeof *s->values, by_value);
    return s->count > 0 ? s->values[s->count / 2] : 0;
}

static void add(series *s, double value) {
    if (value > 0 && s->count < ROUNDS_MAX) {
        s->values[s->count++] = value;
    }
}

typedef struct results {
    series memcpy_s, stall_s, floor_s, write_s, alone, beside, resume_s, read_s;
} results;

static double resume(sft_run *run, const state *s) {
    sft_run_resume_options o;
    sft_run_point *point;
    sft_error err;
    sft_run_tensor *const t = calloc(s->count, sizeof *t);
    char(*const names)[64] = calloc(s->count, sizeof *names);
    if (t == NULL || names == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < s->count; i++) {
        describe(s, i, names[i], &t[i]);
        t[i].data = s->copy + i * TENSOR;
    }
    SFT_INIT(&o);
    o.check = SFT_RUN_CHECK_SIZES; /* digests are compared while loading */
    const uint64_t begun = now();
    must(sft_run_resume(&point, run, &o, &err), &err);
    must(sft_run_point_load(point, t, s->count, 0, &err), &err);
    const double seconds = (double)(now() - begun) / 1e9;
    sft_run_point_free(point);
    free(t);
    free(names);
    return seconds;
}

static void round_of(sft_run *run, state *s, uint64_t step, const char *scratch, results *r) {
    char path[4200];
    change(s);
    add(&r->memcpy_s, copy(s));
    add(&r->stall_s, stage(run, s, step));
    add(&r->write_s, finish(run, now())); /* begun when staged: the thread behind had it at once */
    const double direct = write_floor(s, scratch, true);
    const double cached = write_floor(s, scratch, false);
    add(&r->floor_s, direct > 0 && direct < cached ? direct : cached);
    add(&r->alone, train(run, 0.5, false));
    change(s);
    (void)stage(run, s, step + 1);
    add(&r->beside, train(run, 0, true));
    add(&r->resume_s, resume(run, s));
    (void)snprintf(path, sizeof path, "%s/run/step-%09llu/optimizer.safetensors", scratch,
                   (unsigned long long)step + 1);
    const double part = read_floor(s, path);
    add(&r->read_s, part * 1.5); /* two thirds of the state */
}

int main(int argc, char **argv) {
    const char *const scratch = argc > 1 ? argv[1] : ".";
    const size_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 768;
    const size_t rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 5;
    static results r;
    state s;
    sft_run_rules rules;
    sft_run_options o;
    sft_pool *pool;
    sft_run *run;
    sft_error err;
    char path[4200];
    s.count = mib / 16 > 3 ? mib / 16 : 3;
    s.shape[0] = TENSOR / 4;
    s.data = pages(s.count * TENSOR);
    s.copy = pages(s.count * TENSOR);
    memset(b, 0, sizeof b);
    must(sft_pool_create(&pool, 2, NULL, &err), &err);
    SFT_INIT(&rules);
    rules.keep_last = 1;
    SFT_INIT(&o);
    o.rules = &rules;
    o.pool = pool;
    o.writers = pool; /* threads that mostly wait for the device: digests are taken meanwhile */
    o.reserve_bytes = s.count * TENSOR + (1 << 20);
    (void)snprintf(path, sizeof path, "%s/run", scratch);
    must(sft_run_open(&run, path, &o, &err), &err);
    sft_run_point *point = NULL; /* of an earlier call in the same folder */
    const uint64_t first =
        sft_run_resume(&point, run, NULL, NULL) == SFT_OK ? sft_run_point_step(point) + 1 : 1;
    sft_run_point_free(point);
    for (size_t i = 0; i < rounds && i < ROUNDS_MAX; i++) {
        round_of(run, &s, first + 2 * i, scratch, &r);
    }
    must(sft_run_close(run, &err), &err);
    sft_pool_free(pool);
    const double bytes = (double)(s.count * TENSOR);
    const double copied = median(&r.memcpy_s);
    const double stall = median(&r.stall_s);
    const double floor_s = median(&r.floor_s);
    const double written = median(&r.write_s);
    const double alone = median(&r.alone);
    const double beside = median(&r.beside);
    const double resumed = median(&r.resume_s);
    const double read_s = median(&r.read_s);
    printf("{\"bytes\": %.0f, \"rounds\": %zu,\n", bytes, rounds);
    printf(" \"memcpy_two_threads_s\": %.4f, \"stall_s\": %.4f, \"stall_ratio\": %.3f,\n", copied,
           stall, stall / copied);
    printf(" \"durable_floor_s\": %.4f, \"write_s\": %.4f, \"write_ratio\": %.3f,\n", floor_s,
           written, floor_s / written);
    printf(" \"train_alone\": %.1f, \"train_beside\": %.1f, \"train_ratio\": %.3f,\n", alone,
           beside, beside / alone);
    printf(" \"read_s\": %.4f, \"resume_s\": %.4f, \"resume_ratio\": %.3f}\n", read_s, resumed,
           resumed / read_s);
    free(s.data);
    free(s.copy);
    return 0;
}
