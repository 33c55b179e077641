/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of the rules of a run: every combination of small rules over every set of five steps, against
 * a second statement of docs/run.md; and that what is removed is what the list says.
 */
#include "checkpoint/run_home.h"

#include "checkpoint/run/steps.h"
#include <stdbool.h>

enum { STEPS = 5 };
static const double NONE = -1;

/* A step as the test sees it. */
typedef struct fact {
    uint64_t step;
    bool complete;
    double metric; /* NONE: no such metric */
    int64_t time;
} fact;

static uint64_t last_of(const fact *f, const bool *in) {
    uint64_t last = 0;
    for (int i = 0; i < STEPS; i++) {
        last = in[i] && f[i].complete ? f[i].step : last;
    }
    return last;
}

/* The best of those that are left, the oldest of equals; -1: none. */
static int best_of(const fact *f, const bool *in, bool most) {
    int best = -1;
    for (int i = 0; i < STEPS; i++) {
        if (in[i] && f[i].complete && f[i].metric > NONE &&
            (best < 0 || (most ? f[i].metric > f[best].metric : f[i].metric < f[best].metric))) {
            best = i;
        }
    }
    return best;
}

static void wanted(bool kept[STEPS], const fact *f, const bool *in, const sft_run_rules *r,
                   int64_t now) {
    const bool rule =
        r->keep_last != 0 || r->keep_every != 0 || r->best != NULL || r->keep_seconds != 0;
    bool left[STEPS];
    bool known = r->best == NULL;
    uint64_t count = 0;
    for (int i = 0; i < STEPS; i++) {
        known = known || (in[i] && f[i].complete && f[i].metric > NONE);
    }
    for (int i = STEPS; i-- > 0;) {
        kept[i] = in[i] && !rule;
        left[i] = in[i];
        if (in[i] && f[i].complete) {
            kept[i] = kept[i] || !known || count < r->keep_last || f[i].step == last_of(f, in) ||
                      (r->keep_every != 0 && f[i].step % r->keep_every == 0) ||
                      (r->keep_seconds != 0 && now - f[i].time < (int64_t)r->keep_seconds);
            count++;
        } else if (in[i]) {
            kept[i] = kept[i] || count == 0;
        }
    }
    for (uint64_t k = 0; r->best != NULL && k < (r->keep_best != 0 ? r->keep_best : 1); k++) {
        const int best = best_of(f, left, r->best_mode == SFT_RUN_MAX);
        if (best >= 0) {
            kept[best] = true;
            left[best] = false;
        }
    }
}

static void make(sft__checkpoint_run_found *found, sft__checkpoint_run_metric *metric,
                 const fact *f) {
    memset(found, 0, sizeof *found);
    found->told.step = f->step;
    found->told.complete = f->complete;
    found->told.time = f->time;
    metric->name = "loss";
    metric->name_len = 4;
    metric->value = f->metric;
    found->manifest.metrics = metric;
    found->manifest.metric_count = f->complete && f->metric > NONE;
}

static void compare(const fact *f, const bool *in, const sft_run_rules *rules) {
    sft__checkpoint_run_found found[STEPS];
    sft__checkpoint_run_metric metrics[STEPS];
    bool kept[STEPS];
    size_t n = 0;
    wanted(kept, f, in, rules, 1000);
    for (int i = 0; i < STEPS; i++) {
        if (in[i]) {
            make(&found[n], &metrics[n], &f[i]);
            n++;
        }
    }
    sft__checkpoint_run_judge(rules, found, n, 1000);
    n = 0;
    for (int i = 0; i < STEPS; i++) {
        if (in[i]) {
            if ((found[n].told.kept != 0) != kept[i]) {
                fail_msg("step %d: kept is %lu", i, (unsigned long)found[n].told.kept);
            }
            n++;
        }
    }
}

static void every_combination(void **state) {
    static const double metrics[3][STEPS] = {
        {3, 1, 2, 1, 5}, {-1, 4, -1, 4, 4}, {-1, -1, -1, -1, -1}};
    static const uint64_t numbers[STEPS] = {5, 10, 15, 20, 23};
    (void)state;
    for (unsigned present = 0; present < 1u << STEPS; present++) {
        for (unsigned complete = 0; complete < 1u << STEPS; complete += 3) {
            for (unsigned k = 0; k < 3; k++) {
                fact f[STEPS];
                bool in[STEPS];
                for (int i = 0; i < STEPS; i++) {
                    in[i] = (present >> i & 1) != 0;
                    f[i] =
                        (fact){numbers[i], (complete >> i & 1) != 0, metrics[k][i], 900 + 20 * i};
                }
                for (unsigned rule = 0; rule < 3 * 3 * 4 * 2 * 2; rule++) {
                    sft_run_rules r;
                    SFT_INIT(&r);
                    r.keep_last = rule % 3;
                    r.keep_every = rule / 3 % 3 * 5;
                    r.best = rule / 9 % 4 > 0 ? "loss" : NULL;
                    r.keep_best = rule / 9 % 4 > 0 ? rule / 9 % 4 - 1 : 0;
                    r.best_mode = rule / 36 % 2 != 0 ? SFT_RUN_MAX : SFT_RUN_MIN;
                    r.keep_seconds = rule / 72 % 2 * 50;
                    compare(f, in, &r);
                }
            }
        }
    }
}

/* A NaN is never the best, damaged and other runs' steps are not counted. */
static void odd_steps(void **state) {
    static const char zero[] = {0};
    sft__checkpoint_run_found found[3];
    sft__checkpoint_run_metric metrics[3];
    const fact f[3] = {{1, true, 5, 0}, {2, true, 1, 0}, {3, true, 7, 0}};
    sft_run_rules r;
    (void)state;
    SFT_INIT(&r);
    r.best = "loss";
    for (int i = 0; i < 3; i++) {
        make(&found[i], &metrics[i], &f[i]);
    }
    metrics[1].value = (double)zero[0] / (double)zero[0];
    sft__checkpoint_run_judge(&r, found, 3, 0);
    assert_int_equal(found[0].told.kept, SFT_RUN_KEPT_BEST);
    assert_int_equal(found[1].told.kept, 0);
    assert_int_equal(found[2].told.kept, SFT_RUN_KEPT_NEWEST);
    found[2].told.verified = 2;
    sft__checkpoint_run_judge(&r, found, 3, 0);
    assert_int_equal(found[1].told.kept, SFT_RUN_KEPT_NEWEST);
    found[0].told.complete = 0;
    found[0].told.kept = SFT_RUN_KEPT_OTHER;
    sft__checkpoint_run_judge(&r, found, 3, 0);
    assert_int_equal(found[0].told.kept, SFT_RUN_KEPT_OTHER);
}

/* A metric that no step has: nobody knows the best, and prune says which metrics there are. */
static void an_unknown_metric(void **state) {
    sft_run_rules r;
    sft_run_options o;
    sft_run *run;
    sft_run_save *save;
    sft_run_list *list;
    sft_error err;
    uint64_t removed = 9;
    (void)state;
    SFT_INIT(&r);
    r.best = "val_los";
    SFT_INIT(&o);
    o.rules = &r;
    o.durability = SFT_DURABLE_NONE;
    assert_int_equal(sft_run_open(&run, base, &o, NULL), SFT_OK);
    assert_int_equal(sft_run_prune(run, &removed, NULL), SFT_OK); /* no step at all */
    for (uint64_t step = 1; step <= 3; step++) {
        assert_int_equal(sft_run_begin(&save, run, step, 0, NULL), SFT_OK);
        assert_int_equal(sft_run_add_metric(save, "val_loss", 1, NULL), SFT_OK);
        assert_int_equal(sft_run_add_metric(save, "acc", 1, NULL), SFT_OK);
        assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
    }
    assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
    assert_int_equal(sft_run_list_make(&list, run, SFT_RUN_NONE, 0, NULL, NULL), SFT_OK);
    assert_int_equal(sft_run_list_count(list), 3);
    sft_run_list_free(list);
    assert_int_equal(sft_run_list_make(&list, run, SFT_RUN_NONE, SFT_RUN_LIST_RULES, NULL, NULL),
                     SFT_E_NOT_FOUND);
    assert_int_equal(sft_run_prune(run, &removed, &err), SFT_E_NOT_FOUND);
    assert_int_equal(removed, 0);
    assert_non_null(strstr(err.message, "\"val_los\"; metrics that are there: val_loss, acc"));
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* ---------------------------------------------------------------- on the disk */

static void what_is_left(void **state) {
    sft_run_rules r;
    sft_run_options o;
    sft_run *run;
    sft_run_save *save;
    sft_run_list *list;
    char latest[64] = "";
    uint64_t removed = 9;
    (void)state;
    SFT_INIT(&r);
    r.keep_last = 2;
    r.keep_every = 4;
    r.best = "loss";
    SFT_INIT(&o);
    o.rules = &r;
    o.durability = SFT_DURABLE_NONE;
    assert_int_equal(sft_run_open(&run, base, &o, NULL), SFT_OK);
    for (uint64_t step = 1; step <= 11; step++) {
        assert_int_equal(sft_run_begin(&save, run, step, 0, NULL), SFT_OK);
        assert_int_equal(sft_run_add_metric(save, "loss", step == 5 ? 0.5 : 1, NULL), SFT_OK);
        assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
        assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
    }
    static const uint64_t left[] = {4, 5, 8, 10, 11};
    assert_int_equal(sft_run_list_make(&list, run, SFT_RUN_NONE, SFT_RUN_LIST_VERIFY, NULL, NULL),
                     SFT_OK);
    assert_int_equal(sft_run_list_count(list), 5);
    for (size_t i = 0; i < 5; i++) {
        const sft_run_step *const s = sft_run_list_at(list, i);
        assert_int_equal(s->step, left[i]);
        assert_int_equal(s->verified, 1);
        assert_true(s->complete && s->kept != 0 && s->time > 0 && s->has_metric);
    }
    assert_true((sft_run_list_at(list, 1)->kept & SFT_RUN_KEPT_BEST) != 0);
    sft_run_list_free(list);
    assert_int_equal(sft_run_prune(run, &removed, NULL), SFT_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    FILE *const f = fopen(in_folder(base, "latest"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(latest, 1, sizeof latest - 1, f), 15);
    (void)fclose(f);
    assert_string_equal(latest, "step-000000011\n");
}

/* The oldest of equals is the best; and what a save names stays until another one is named. */
static void equals_and_names(void **state) {
    static const uint64_t named[] = {SFT_RUN_NONE, 1, SFT_RUN_NONE, SFT_RUN_NONE, 3};
    static const uint64_t left[][3] = {{1}, {1, 2}, {1, 2, 3}, {1, 2, 4}, {2, 3, 5}};
    sft_run_rules r;
    sft_run_options o;
    sft_run *run;
    sft_run_save *save;
    sft_run_list *list;
    (void)state;
    SFT_INIT(&r);
    r.best = "loss";
    SFT_INIT(&o);
    o.rules = &r;
    o.durability = SFT_DURABLE_NONE;
    assert_int_equal(sft_run_open(&run, base, &o, NULL), SFT_OK);
    for (uint64_t step = 1; step <= 4; step++) {
        assert_int_equal(sft_run_begin(&save, run, step, 0, NULL), SFT_OK);
        assert_int_equal(sft_run_add_metric(save, "loss", step == 1 ? 2 : 1, NULL), SFT_OK);
        sft_run_keep(save, named[step - 1]);
        assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
        assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
        assert_int_equal(sft_run_list_make(&list, run, SFT_RUN_NONE, 0, NULL, NULL), SFT_OK);
        const size_t count = sft_run_list_count(list);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(sft_run_list_at(list, i)->step, left[step - 1][i]);
        }
        assert_true(count == 3 || left[step - 1][count] == 0);
        sft_run_list_free(list);
    }
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

static void names(void **state) {
    char text[SFT__RUN_NAME];
    uint64_t step = 0;
    (void)state;
    sft__checkpoint_run_name(text, 1200);
    assert_string_equal(text, "step-000001200");
    assert_true(sft__checkpoint_run_is_name("step-9007199254740991", &step));
    assert_true(step == SFT__RUN_STEP_MAX);
    static const char *const bad[] = {"step-1200",
                                      "step-",
                                      "step-00000120x",
                                      "step-0000001200",
                                      "step-9007199254740992",
                                      "Step-000001200",
                                      "step-000001200 ",
                                      ".step-000001200",
                                      "step-+00001200"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(sft__checkpoint_run_is_name(bad[i], &step));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination),
        cmocka_unit_test(odd_steps),
        cmocka_unit_test(names),
        cmocka_unit_test_setup_teardown(what_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equals_and_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_metric, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
