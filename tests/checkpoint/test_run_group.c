/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of runs of many processes, which are threads here: what four save two and three resume from,
 * optimizer included; a process that fails or is missing is named, and nothing appears.
 */
#include "checkpoint/crowd.h"

#include "checkpoint/run_home.h"

#include <stdbool.h>
#include <sys/stat.h>

enum { ROWS = 37, COLUMNS = 5, BLOB = 16 };

/* Rows begin to end - 1 of a tensor whose element i is i times the step. */
typedef struct piece {
    uint64_t shape[2], start[2], count[2];
    float data[ROWS * COLUMNS];
} piece;

static void cut(piece *p, uint32_t rank, uint32_t size, uint64_t step) {
    const uint64_t each = (ROWS + size - 1) / size;
    p->shape[0] = ROWS;
    p->shape[1] = COLUMNS;
    p->start[0] = rank * each < ROWS ? rank * each : ROWS;
    p->count[0] = ROWS - p->start[0] < each ? ROWS - p->start[0] : each;
    p->start[1] = 0;
    p->count[1] = COLUMNS;
    for (uint64_t i = 0; i < p->count[0] * COLUMNS; i++) {
        p->data[i] = (float)((p->start[0] * COLUMNS + i) * step);
    }
}

static sft_run_tensor tensor(const char *name, uint32_t part, const piece *p) {
    const size_t size = (size_t)(p->count[0] * p->count[1] * sizeof(float));
    sft_run_tensor t = floats(name, part, p->shape, 2, size > 0 ? p->data : NULL, size);
    t.start = p->start;
    t.count = p->count;
    return t;
}

/* What a test tells its processes. */
typedef struct plan {
    uint64_t step;
    uint64_t timeout_ms;
    uint32_t astray; /* this rank sees another directory; UINT32_MAX: none */
    uint32_t odd;    /* this rank leaves a hole; UINT32_MAX: none */
    uint64_t found;
    uint64_t frozen;    /* which values */
    uint64_t keep_last; /* the run's rule */
    uint32_t gives_up;  /* this rank does; UINT32_MAX: none */
    uint32_t flags;     /* of the save */
    bool empty;         /* a tensor without elements is saved, and resumed, too */
} plan;

static sft_status open_run(const crowd_member *m, sft_run **run, sft_error *err) {
    const plan *const p = m->ctx;
    sft_run_options o;
    char other[96];
    SFT_INIT(&o);
    o.group = &m->group;
    o.durability = SFT_DURABLE_NONE;
    o.timeout_ms = p->timeout_ms;
    sft_run_rules rules;
    SFT_INIT(&rules);
    rules.keep_last = p->keep_last;
    o.rules = &rules;
    (void)snprintf(other, sizeof other, "%s/astray", base);
    return sft_run_open(run, m->rank == p->astray ? other : path, &o, err);
}

/* The frozen tensor has the same values in every step. */
static sft_status add(crowd_member *m, sft_run_save *s, const piece *w, const piece *frozen) {
    const plan *const p = m->ctx;
    sft_run_tensor t[4];
    uint8_t blob[BLOB];
    memset(blob, (int)m->rank, sizeof blob);
    t[0] = tensor("w", SFT_RUN_MODEL, w);
    t[1] = tensor("optimizer.exp_avg.w", SFT_RUN_OPTIMIZER, w);
    t[2] = tensor("same", SFT_RUN_MODEL, w); /* a replica: all of it, on every rank */
    t[2].start = NULL;
    t[2].count = NULL;
    t[2].rank = 0;
    t[2].data = &p->step;
    t[2].nbytes = 4;
    t[3] = tensor("frozen.w", SFT_RUN_MODEL, frozen);
    t[3].flags = SFT_RUN_FROZEN;
    sft_status status = SFT_OK;
    for (size_t i = 0; i < 4 && status == SFT_OK; i++) {
        if (m->rank != p->odd || i != 1) {
            status = sft_run_add_tensor(s, &t[i], &m->err);
        }
    }
    if (status == SFT_OK) {
        status = sft_run_add_blob(s, "rng", blob, sizeof blob, &m->err);
    }
    return status == SFT_OK ? sft_run_add_i64(s, "rank", m->rank, &m->err) : status;
}

/* Rows of a tensor that has rows, and no columns. */
static sft_run_tensor rows_of_nothing(const crowd_member *m, piece *p) {
    cut(p, m->rank, m->group.size, 1);
    p->shape[1] = 0;
    p->count[1] = 0;
    return tensor("nothing", SFT_RUN_MODEL, p);
}

static sft_status add_empty(crowd_member *m, sft_run_save *s) {
    const plan *const p = m->ctx;
    piece *const nothing = calloc(1, sizeof *nothing);
    const sft_run_tensor t = rows_of_nothing(m, nothing);
    const sft_status status = p->empty ? sft_run_add_tensor(s, &t, &m->err) : SFT_OK;
    free(nothing);
    return status;
}

static void save(crowd_member *m) {
    const plan *const p = m->ctx;
    piece *const w = calloc(1, sizeof *w);
    piece *const frozen = calloc(1, sizeof *frozen);
    sft_run_save *s;
    sft_run *run;
    cut(w, m->rank, m->group.size, p->step);
    cut(frozen, m->rank, m->group.size, p->frozen);
    m->status = open_run(m, &run, &m->err);
    if (m->status == SFT_OK) {
        m->status = sft_run_begin(&s, run, p->step, p->flags, &m->err);
        if (m->status == SFT_OK) {
            m->status = add(m, s, w, frozen);
            memset(&m->err, 0, sizeof m->err);
            m->status = add_empty(m, s);
            if (m->rank == p->gives_up) {
                sft_run_give_up(s, "the sea is rough");
                m->status = SFT_E_ARG;
            } else {
                m->status = sft_run_stage(s, NULL, &m->err);
            }
        }
        memset(w, 0xee, sizeof *w);
        if (m->status == SFT_OK) {
            m->status = sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, &m->err);
        }
        (void)!sft_run_close(run, NULL);
    }
    free(w);
    free(frozen);
}

/* Every process its rows, and the state of its own, if there are as many as saved. */
static void resume(crowd_member *m) {
    plan *const p = m->ctx;
    piece *const w = calloc(1, sizeof *w);
    piece *const wanted = calloc(1, sizeof *wanted);
    sft_run_tensor t;
    sft_run_point *point = NULL;
    sft_run *run;
    int64_t rank = -1;
    uint8_t blob[BLOB];
    size_t size = 0;
    m->status = open_run(m, &run, &m->err);
    if (m->status != SFT_OK) {
        return;
    }
    m->status = sft_run_resume(&point, run, NULL, &m->err);
    if (m->status == SFT_OK) {
        const uint64_t step = sft_run_point_step(point);
        cut(w, m->rank, m->group.size, 0);
        cut(wanted, m->rank, m->group.size, step);
        t = tensor("optimizer.exp_avg.w", SFT_RUN_OPTIMIZER, w);
        m->status = sft_run_point_load(point, &t, 1, 0, &m->err);
        if (m->status == SFT_OK && memcmp(w, wanted, sizeof *w) != 0) {
            m->status = SFT_E_MISMATCH;
        }
        if (m->status == SFT_OK && p->empty) {
            t = rows_of_nothing(m, w);
            m->status = sft_run_point_load(point, &t, 1, 0, &m->err);
        }
        if (m->status == SFT_OK) {
            m->status = sft_run_point_i64(point, "rank", &rank, &m->err);
        }
        if (m->status == SFT_OK && rank != (m->group.size == 4 ? (int64_t)m->rank : 0)) {
            m->status = SFT_E_MISMATCH;
        }
        if (m->group.size == 4 && m->status == SFT_OK) {
            m->status = sft_run_point_blob(point, "rng", blob, sizeof blob, &size, &m->err);
            m->status = size == BLOB && blob[3] == m->rank ? m->status : SFT_E_MISMATCH;
        }
        if (m->rank == 0) {
            p->found = step;
        }
    }
    sft_run_point_free(point);
    (void)!sft_run_close(run, NULL);
    free(w);
    free(wanted);
}

static plan a_plan(uint64_t step) {
    return (plan){step, 20000, UINT32_MAX, UINT32_MAX, 0, 3, 0, UINT32_MAX, 0, false};
}

static void four_to_others(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(7);
    (void)state;
    crowd_run(members, 4, save, &p);
    assert_all_ok(members, 4);
    p.step = 8;
    crowd_run(members, 4, save, &p);
    assert_all_ok(members, 4);
    for (uint32_t size = 1; size <= 4; size++) {
        crowd_run(members, size, resume, &p);
        assert_all_ok(members, size);
        assert_int_equal(p.found, 8);
    }
    assert_int_equal(access(in_folder(path, "step-000000008/topology.json"), F_OK), 0);
    assert_int_equal(access(in_folder(path, "step-000000008/state.rank-00003.json"), F_OK), 0);
    /* fewer than saved save on */
    p.step = 9;
    crowd_run(members, 3, save, &p);
    assert_all_ok(members, 3);
    crowd_run(members, 2, resume, &p);
    assert_all_ok(members, 2);
    assert_int_equal(p.found, 9);
}

/* Something that one process did not give: nobody saves. */
static void a_hole(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(5);
    (void)state;
    p.odd = 1;
    crowd_run(members, 3, save, &p);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(members[i].status, SFT_E_HOLE);
    }
    assert_int_not_equal(access(in_folder(path, "step-000000005"), F_OK), 0);
    p.odd = UINT32_MAX;
    crowd_run(members, 3, save, &p);
    assert_all_ok(members, 3);
}

/* A process whose files the others do not see: rank 0 names it, and all are told. */
static void a_missing_process(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(1);
    (void)state;
    crowd_run(members, 3, save, &p);
    assert_all_ok(members, 3);
    assert_int_equal(mkdir(in_folder(base, "astray"), 0700), 0);
    p.step = 2;
    p.timeout_ms = 300;
    p.astray = 2;
    crowd_run(members, 3, save, &p);
    assert_int_equal(members[0].status, SFT_E_TIMEOUT);
    assert_non_null(strstr(members[0].err.message, "rank 2"));
    assert_int_equal(members[1].status, SFT_E_TIMEOUT);
    assert_non_null(strstr(members[1].err.message, "rank 0: "));
    assert_int_not_equal(members[2].status, SFT_OK);
    p = a_plan(2);
    crowd_run(members, 2, resume, &p);
    assert_all_ok(members, 2);
    assert_int_equal(p.found, 1);
    crowd_run(members, 3, save, &p);
    assert_all_ok(members, 3);
}

static nlink_t links_of(const char *step, const char *file) {
    char name[128];
    struct stat st;
    (void)snprintf(name, sizeof name, "%s/%s", step, file);
    assert_int_equal(stat(in_folder(path, name), &st), 0);
    return st.st_nlink;
}

/* What does not change is stored once, whoever writes it; and again once it has changed. */
static void frozen_once(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(1);
    (void)state;
    for (p.step = 1; p.step <= 4; p.step++) {
        p.frozen = p.step < 4 ? 3 : 5;
        crowd_run(members, 3, save, &p);
        assert_all_ok(members, 3);
    }
    for (uint32_t rank = 1; rank <= 3; rank++) {
        char name[96];
        (void)snprintf(name, sizeof name, "shard-0000%u-model-frozen-00001-of-00001.safetensors",
                       (unsigned)rank);
        assert_int_equal(links_of("step-000000003", name), 3);
        assert_int_equal(links_of("step-000000004", name), 1);
        (void)snprintf(name, sizeof name, "shard-0000%u-model-00001-of-00001.safetensors",
                       (unsigned)rank);
        assert_int_equal(links_of("step-000000003", name), 1);
    }
    for (uint32_t size = 1; size <= 2; size++) {
        crowd_run(members, size, resume, &p);
        assert_all_ok(members, size);
        assert_int_equal(p.found, 4);
    }
}

/* An older step, which the rules do not keep: committed all the same, and nobody waits for it in vain. */
static void an_older_step(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(100);
    (void)state;
    p.keep_last = 1;
    p.timeout_ms = 2000;
    p.flags = SFT_RUN_REPLACE;
    for (p.step = 100; p.step > 88; p.step--) {
        crowd_run(members, 4, save, &p);
        assert_all_ok(members, 4);
    }
    crowd_run(members, 4, resume, &p);
    assert_all_ok(members, 4);
    assert_int_equal(p.found, 100);
}

static void go_back(crowd_member *m) {
    const plan *const p = m->ctx;
    uint64_t removed = 9;
    sft_run *run;
    m->status = open_run(m, &run, &m->err);
    if (m->status == SFT_OK) {
        m->status = sft_run_rewind(run, p->step, &removed, &m->err);
        m->status = m->status == SFT_OK && removed != 2 ? SFT_E_ARG : m->status;
        (void)!sft_run_close(run, NULL);
    }
}

/* A step below the newest is refused in all processes; they rewind together. */
static void together_back(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(1);
    (void)state;
    for (p.step = 10; p.step < 40; p.step += 10) {
        crowd_run(members, 4, save, &p);
        assert_all_ok(members, 4);
    }
    p.step = 15;
    crowd_run(members, 4, save, &p);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(members[i].status, SFT_E_EXISTS);
        assert_non_null(strstr(members[i].err.message, "step 15 comes before step 30"));
    }
    crowd_run(members, 4, go_back, &p);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(members[i].status, SFT_E_NOT_FOUND);
    }
    p.step = 10;
    crowd_run(members, 4, go_back, &p);
    assert_all_ok(members, 4);
    p.step = 15;
    crowd_run(members, 4, save, &p);
    assert_all_ok(members, 4);
    crowd_run(members, 4, resume, &p);
    assert_all_ok(members, 4);
    assert_int_equal(p.found, 15);
}

/* One process cannot: the others learn why at once, and nothing is saved. */
static void one_gives_up(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(4);
    (void)state;
    p.gives_up = 2;
    crowd_run(members, 4, save, &p);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(members[i].status, SFT_E_ARG);
        assert_true(i == 2 || strstr(members[i].err.message, "the sea is rough") != NULL);
    }
    assert_int_not_equal(access(in_folder(path, "step-000000004"), F_OK), 0);
    p.gives_up = UINT32_MAX;
    crowd_run(members, 4, save, &p);
    assert_all_ok(members, 4);
    p.gives_up = 0; /* alone */
    p.step = 5;
    crowd_run(members, 1, save, &p);
    assert_int_equal(members[0].status, SFT_E_ARG);
    assert_int_not_equal(access(in_folder(path, "step-000000005"), F_OK), 0);
}

static void without_elements(void **state) {
    crowd_member members[CROWD_MOST];
    plan p = a_plan(2);
    (void)state;
    p.empty = true;
    crowd_run(members, 4, save, &p);
    assert_all_ok(members, 4);
    for (uint32_t size = 1; size <= 4; size++) {
        crowd_run(members, size, resume, &p);
        assert_all_ok(members, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {IN_FOLDER(four_to_others),    IN_FOLDER(a_hole),
                                       IN_FOLDER(a_missing_process), IN_FOLDER(frozen_once),
                                       IN_FOLDER(an_older_step),     IN_FOLDER(one_gives_up),
                                       IN_FOLDER(without_elements),  IN_FOLDER(together_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
