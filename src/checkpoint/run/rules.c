/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/rules.c - which steps stay: a pure function of what is known of them. Read steps.h first.
 */
#include "checkpoint/run/steps.h"
#include <stdio.h>

static bool is_good(const sft__checkpoint_run_found *s) {
    return s->told.complete != 0 && s->told.verified != 2;
}

static const sft__checkpoint_run_metric *metric_of(const sft__checkpoint_run_found *s,
                                                   const char *name) {
    for (size_t i = 0; i < s->manifest.metric_count; i++) {
        if (strcmp(s->manifest.metrics[i].name, name) == 0) {
            return &s->manifest.metrics[i];
        }
    }
    return NULL;
}

/* A NaN is no value. */
static bool value_of(const sft__checkpoint_run_found *s, const char *name, double *value) {
    const sft__checkpoint_run_metric *const m = is_good(s) ? metric_of(s, name) : NULL;
    *value = m != NULL ? m->value : 0;
    return m != NULL && m->value == m->value;
}

/* How many steps are better, or as good and older: what came later is the best where it is better. */
static uint64_t place_of(const sft_run_rules *rules, const sft__checkpoint_run_found *steps,
                         size_t count, size_t of) {
    uint64_t place = 0;
    double mine;
    double other;
    (void)value_of(&steps[of], rules->best, &mine);
    for (size_t i = 0; i < count; i++) {
        if (i != of && value_of(&steps[i], rules->best, &other)) {
            const bool better = rules->best_mode == SFT_RUN_MAX ? other > mine : other < mine;
            const bool worse = rules->best_mode == SFT_RUN_MAX ? other < mine : other > mine;
            place += better || (!worse && i < of);
        }
    }
    return place;
}

static void show_metric(const sft_run_rules *rules, sft__checkpoint_run_found *s) {
    const sft__checkpoint_run_metric *const m = rules->best != NULL ? metric_of(s, rules->best)
                                                : s->manifest.metric_count > 0
                                                    ? &s->manifest.metrics[0]
                                                    : NULL;
    s->told.has_metric = m != NULL;
    s->told.metric = m != NULL ? m->value : 0;
    s->told.metric_name = m != NULL ? m->name : "";
}

static uint32_t judge_good(const sft_run_rules *rules, const sft__checkpoint_run_found *steps,
                           size_t count, size_t at) {
    const sft_run_step *const s = &steps[at].told;
    uint32_t kept = 0;
    uint64_t newer = 0;
    double value;
    for (size_t i = at + 1; i < count; i++) {
        newer += is_good(&steps[i]);
    }
    kept |= newer == 0 ? SFT_RUN_KEPT_NEWEST : 0;
    kept |= newer < rules->keep_last ? SFT_RUN_KEPT_LAST : 0;
    kept |= rules->keep_every > 0 && s->step % rules->keep_every == 0 ? SFT_RUN_KEPT_EVERY : 0;
    if (rules->best != NULL && value_of(&steps[at], rules->best, &value)) {
        const uint64_t best = rules->keep_best > 0 ? rules->keep_best : 1;
        kept |= place_of(rules, steps, count, at) < best ? SFT_RUN_KEPT_BEST : 0;
    }
    return kept;
}

/* How many good steps there are, and how many of them have the metric, be it a NaN. */
static void count_best(const sft_run_rules *rules, const sft__checkpoint_run_found *steps,
                       size_t count, size_t good[2]) {
    good[0] = 0;
    good[1] = 0;
    for (size_t i = 0; i < count; i++) {
        good[0] += is_good(&steps[i]);
        good[1] += is_good(&steps[i]) && metric_of(&steps[i], rules->best) != NULL;
    }
}

static bool is_listed(const sft__checkpoint_run_found *steps, size_t before, const char *name) {
    for (size_t i = 0; i < before; i++) {
        if (is_good(&steps[i]) && metric_of(&steps[i], name) != NULL) {
            return true;
        }
    }
    return false;
}

sft_status sft__checkpoint_run_check_best(const sft_run_rules *rules,
                                          const sft__checkpoint_run_found *steps, size_t count,
                                          sft_error *err) {
    char names[200] = "";
    size_t at = 0;
    size_t good[2];
    if (rules->best == NULL) {
        return SFT_OK;
    }
    count_best(rules, steps, count, good);
    if (good[0] == 0 || good[1] > 0) {
        return SFT_OK;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; is_good(&steps[i]) && k < steps[i].manifest.metric_count; k++) {
            const char *const name = steps[i].manifest.metrics[k].name;
            if (at < sizeof names - 1 && !is_listed(steps, i, name)) {
                at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "",
                                       name);
            }
        }
    }
    return sft__base_fail(err, SFT_E_NOT_FOUND,
                          "no step has the metric \"%.100s\"; metrics that are there: %s",
                          rules->best, names[0] != '\0' ? names : "none");
}

void sft__checkpoint_run_judge(const sft_run_rules *rules, sft__checkpoint_run_found *steps,
                               size_t count, int64_t now) {
    const bool none = rules->keep_last == 0 && rules->keep_every == 0 && rules->best == NULL &&
                      rules->keep_seconds == 0;
    size_t newest = count; /* the newest good one */
    size_t good[2] = {0, 1};
    if (rules->best != NULL) {
        count_best(rules, steps, count, good);
    }
    for (size_t i = 0; i < count; i++) {
        newest = is_good(&steps[i]) ? i : newest;
    }
    for (size_t i = 0; i < count; i++) {
        sft_run_step *const s = &steps[i].told;
        show_metric(rules, &steps[i]);
        s->kept &= SFT_RUN_KEPT_OTHER;
        s->kept |= none ? SFT_RUN_KEPT_ALL : 0;
        if (is_good(&steps[i])) {
            s->kept |= judge_good(rules, steps, count, i);
            s->kept |= good[1] == 0 ? SFT_RUN_KEPT_BEST : 0; /* it may be: nobody knows */
            s->kept |= rules->keep_seconds > 0 && s->time != 0 &&
                               (now <= s->time || (uint64_t)(now - s->time) < rules->keep_seconds)
                           ? SFT_RUN_KEPT_YOUNG
                           : 0;
        } else if (newest == count || i > newest) {
            s->kept |= SFT_RUN_KEPT_NEWEST;
        }
    }
}
