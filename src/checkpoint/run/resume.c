/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/resume.c - the newest step that is complete and verified, and why newer ones are not; and
 * what the steps of a run are. Read point.h first.
 */
#include "base/options.h"
#include "checkpoint/run/point.h"
#include "checkpoint/run/together.h"
#include <stdio.h>

/* ---------------------------------------------------------------- what was passed over */

static sft_status pass_over(sft_run_point *p, const sft__checkpoint_run_found *s, sft_error *err) {
    sft_run_list *const skipped = p->run->skipped;
    if (!sft__base_grow(skipped->allocator, &skipped->steps, &skipped->room, skipped->count + 1,
                        sizeof *skipped->steps)) {
        return sft__base_fail_nomem(err, (skipped->count + 1) * sizeof *skipped->steps);
    }
    sft__checkpoint_run_found *const copy = &skipped->steps[skipped->count];
    *copy = *s;
    memset(&copy->manifest, 0, sizeof copy->manifest);
    copy->told.metric_name = "";
    copy->told.name = sft__base_arena_copy(&skipped->arena, s->told.name, strlen(s->told.name));
    copy->told.why = sft__base_arena_copy(&skipped->arena, s->told.why, strlen(s->told.why));
    if (copy->told.name == NULL || copy->told.why == NULL) {
        return sft__base_fail_nomem(err, 1);
    }
    skipped->count++;
    return SFT_OK;
}

const sft_run_step *sft_run_skipped(const sft_run *run, size_t index) {
    return run->skipped != NULL ? sft_run_list_at(run->skipped, index) : NULL;
}

/* ---------------------------------------------------------------- one step */

static bool verifies_itself(const sft_catalog *c) {
    for (size_t i = 0; i < sft_catalog_file_count(c); i++) {
        if (sft_catalog_metadata_find(c, i, "sft.crc32c", 10, NULL) == NULL) {
            return false;
        }
    }
    return true;
}

static sft_status verify(const sft_run_point *p, const sft__checkpoint_run_found *s,
                         sft_error *why) {
    const sft_group *const g = p->run->options.group;
    const sft__checkpoint_run_verify v = {
        .allocator = p->run->allocator,
        .pool = p->options.pool != NULL ? p->options.pool : p->run->options.pool,
        .control = p->options.control,
        .loads = !p->verified,
        .share = g != NULL ? g->rank : 0,
        .shares = g != NULL ? g->size : 1,
    };
    return sft__checkpoint_run_verify_step(&v, p->path, &s->manifest, why);
}

/* Opens it. Digests are compared of what a load does not compare: of all files where those of tensors do not
 * record any themselves; else of the others, and of the headers. */
static sft_status try_step(sft_run_point *p, const sft__checkpoint_run_found *s, sft_error *why) {
    sft__base_buf path;
    sft__base_buf_init(&path, p->run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, p->run->path, s->told.name, why);
    if (status == SFT_OK) {
        p->path = sft__base_arena_copy(&p->arena, path.data, strlen(path.data));
        status = p->path == NULL ? sft__base_fail_nomem(why, path.len) : SFT_OK;
    }
    sft__base_buf_reset(&path);
    SFT_TRY(status);
    SFT_TRY(sft__checkpoint_run_point_open(p, s, why));
    p->verified = p->options.check == SFT_RUN_CHECK_DIGESTS || s->manifest.processes > 1 ||
                  sft__checkpoint_run_group(p->run) != NULL || !verifies_itself(p->catalog);
    return verify(p, s, why);
}

/* Where the step's directory lies now: another one, or none, if a writer has replaced or removed it. */
static void look_at(const sft_run_point *p, const sft__checkpoint_run_found *s, sft__fs_stat *st) {
    sft__base_buf path;
    memset(st, 0, sizeof *st);
    sft__base_buf_init(&path, p->run->allocator);
    if (sft__checkpoint_stage_path(&path, p->run->path, s->told.name, NULL) == SFT_OK) {
        (void)!sft__fs_look(path.data, st, NULL);
    }
    sft__base_buf_reset(&path);
}

static bool is_another(const sft__fs_stat *a, const sft__fs_stat *b) {
    return !a->exists || !b->exists || a->device != b->device || a->inode != b->inode ||
           a->mtime_ns != b->mtime_ns;
}

/* SFT_OK: this is the one. SFT_E_NOT_FOUND: it is not, as its `why` says. */
static sft_status consider(sft_run_point *p, sft__checkpoint_run_found *s, sft_error *err) {
    const sft_group *const g = p->run->options.group;
    sft__fs_stat before;
    sft__fs_stat after;
    sft_error why;
    memset(&why, 0, sizeof why);
    look_at(p, s, &before);
    SFT_TRY(sft__checkpoint_run_look(p->list, s, p->run->path, p->run->id, err));
    sft_status status = s->told.complete ? try_step(p, s, &why) : SFT_E_NOT_FOUND;
    if (!s->told.complete) {
        (void)snprintf(why.message, sizeof why.message, "%s", s->told.why);
    }
    status = sft__checkpoint_group_agree(g, status, false, &why);
    if (status == SFT_OK) {
        s->told.verified = p->verified;
        return SFT_OK;
    }
    sft__checkpoint_run_point_close(p);
    if (sft__checkpoint_run_is_of_machine(status)) {
        return sft_error_from(err, status, &why, "%s: %s", s->told.name, why.message);
    }
    s->told.verified = s->told.complete ? 2 : 0;
    look_at(p, s, &after);
    const bool moved = p->run->read_only && is_another(&before, &after);
    p->moved = p->moved || moved;
    if (s->told.complete && !moved) {
        SFT_TRY(sft__checkpoint_run_mark_bad(p->run, s->told.step, status == SFT_E_IO, err));
    }
    SFT_TRY(sft__checkpoint_run_why(p->list, s, &why, err));
    SFT_TRY(pass_over(p, s, err));
    return SFT_E_NOT_FOUND;
}

/* ---------------------------------------------------------------- from the newest on */

static sft_status find(sft_run_point *p, sft_error *err) {
    while (p->left > 0) {
        sft__checkpoint_run_found *const s = &p->list->steps[--p->left];
        if (p->options.exact ? s->told.step != p->options.step
                             : p->options.step != 0 && s->told.step > p->options.step) {
            continue;
        }
        p->seen++;
        const sft_status status = consider(p, s, err);
        if (status != SFT_E_NOT_FOUND) {
            p->step = s;
            return status;
        }
    }
    const sft_run_step *const newest = sft_run_skipped(p->run, 0);
    return newest == NULL
               ? sft__base_fail(err, SFT_E_NOT_FOUND, "the run has no such step yet")
               : sft__base_fail(err, SFT_E_NOT_FOUND, "no step can be used; the newest, %s: %s",
                                newest->name, newest->why);
}

static sft_status list_steps(sft_run_point *p, sft_error *err) {
    sft_run *const run = p->run;
    sft_run_list_free(run->skipped);
    run->skipped = NULL;
    sft_run_list_free(p->list);
    p->list = NULL;
    p->moved = false;
    p->seen = 0;
    p->rounds++;
    SFT_TRY(sft__checkpoint_run_list_new(&run->skipped, run->allocator, err));
    SFT_TRY(sft__checkpoint_run_list_new(&p->list, run->allocator, err));
    SFT_TRY(sft__checkpoint_run_names(p->list, run->path, SFT_RUN_NONE, err));
    p->left = p->list->count;
    return SFT_OK;
}

static sft_status begin(sft_run_point *p, const sft_run_resume_options *options, sft_error *err) {
    SFT_TRY(sft__base_options_read(&p->options, sizeof p->options, options,
                                   SFT__UP_TO(sft_run_resume_options, check), "resume options",
                                   err));
    if (p->options.check != SFT_RUN_CHECK_DIGESTS && p->options.check != SFT_RUN_CHECK_SIZES) {
        return sft__base_fail(err, SFT_E_ARG, "no such check");
    }
    return list_steps(p, err);
}

/* ---------------------------------------------------------------- beside a writer */

static sft_status see_gone(void *ctx, const char *name, size_t len, sft_error *err) {
    bool *const gone = ctx;
    uint64_t step;
    (void)len;
    (void)err;
    *gone = *gone || sft__checkpoint_run_is_hidden(name, SFT__RUN_GONE, &step);
    return SFT_OK;
}

enum { FEW = 3 };

/* Are other steps there than were listed, or is one just being replaced, which has no name meanwhile? */
static sft_status look_again(sft_run_point *p, sft_error *err) {
    sft_run_list *now;
    bool gone = false;
    SFT_TRY(sft__checkpoint_run_list_new(&now, p->run->allocator, err));
    sft_status status = sft__checkpoint_run_names(now, p->run->path, SFT_RUN_NONE, err);
    if (status == SFT_OK) {
        status = sft__fs_list(p->run->path, see_gone, &gone, err);
    }
    gone = gone && (p->seen == 0 || p->rounds < FEW); /* a killed writer may have left it */
    p->moved = p->moved || gone || now->count != p->list->count;
    for (size_t i = 0; i < now->count && !p->moved; i++) {
        p->moved = now->steps[i].told.step != p->list->steps[i].told.step;
    }
    sft_run_list_free(now);
    return status;
}

/* A reader without the lock: a step that it has listed may be removed or replaced by the writer meanwhile. It
 * lists them again before it says that there is none; a new run is looked at three times. */
static sft_status find_beside(sft_run_point *p, sft_error *err) {
    enum { ROUNDS = 100, NAP_MS = 10 };
    sft_status status = find(p, err);
    while (status == SFT_E_NOT_FOUND && p->run->read_only &&
           sft__checkpoint_run_group(p->run) == NULL) {
        SFT_TRY(look_again(p, err));
        if (!p->moved && (p->list->count > 0 || p->rounds >= FEW)) {
            break;
        }
        if (p->rounds >= ROUNDS) {
            return sft__base_fail(err, SFT_E_STATE,
                                  "no step stayed while it was looked at: another process writes "
                                  "and removes steps; or it was killed while it replaced the only "
                                  "one, which comes back when the run is opened to be written");
        }
        sft__base_sleep_ms(NAP_MS);
        SFT_TRY(list_steps(p, err));
        status = find(p, err);
    }
    return status;
}

sft_status sft_run_resume(sft_run_point **out, sft_run *run, const sft_run_resume_options *options,
                          sft_error *err) {
    *out = NULL;
    sft_run_point *const p = sft__base_alloc_zero(run->allocator, sizeof *p);
    if (p == NULL) {
        return sft__base_fail_nomem(err, sizeof *p);
    }
    p->run = run;
    sft__base_arena_init(&p->arena, run->allocator, 0);
    sft_status status = begin(p, options, err);
    if (status == SFT_OK) {
        status = find_beside(p, err);
    }
    if (status != SFT_OK) {
        sft_run_point_free(p);
        return status;
    }
    *out = p;
    return SFT_OK;
}

sft_status sft_run_point_next(sft_run_point *point, const char *why, sft_error *err) {
    sft__checkpoint_run_found *const s = point->step;
    sft_error reason;
    if (s == NULL) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "there is no older step");
    }
    memset(&reason, 0, sizeof reason);
    (void)snprintf(reason.message, sizeof reason.message, "%s", why != NULL ? why : "refused");
    sft__checkpoint_run_point_close(point);
    point->step = NULL;
    s->told.verified = 2;
    SFT_TRY(sft__checkpoint_run_mark_bad(point->run, s->told.step, false, err));
    SFT_TRY(sft__checkpoint_run_why(point->list, s, &reason, err));
    SFT_TRY(pass_over(point, s, err));
    return find_beside(point, err);
}

/* ---------------------------------------------------------------- lists */

static sft_status verify_one(sft_run *run, sft_run_list *list, sft__checkpoint_run_found *s,
                             const sft_control *control, sft_error *err) {
    const sft__checkpoint_run_verify v = {
        .allocator = run->allocator, .pool = run->options.pool, .control = control};
    sft_error why;
    sft__base_buf path;
    memset(&why, 0, sizeof why);
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, s->told.name, &why);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_verify_step(&v, path.data, &s->manifest, &why);
    }
    sft__base_buf_reset(&path);
    s->told.verified = status == SFT_OK ? 1 : 2;
    s->unread = status == SFT_E_IO;
    if (sft__checkpoint_run_is_of_machine(status) && err != NULL) {
        *err = why;
    }
    return sft__checkpoint_run_is_of_machine(status) ? status
           : status == SFT_OK                        ? SFT_OK
                                                     : sft__checkpoint_run_why(list, s, &why, err);
}

/* Something good is to stay: the newest complete step is compared, and if it is damaged, the one before. */
static sft_status find_good(sft_run *run, sft_error *err) {
    sft_run_list *list;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, SFT_RUN_NONE, err);
    for (size_t i = status == SFT_OK ? list->count : 0; i-- > 0 && status == SFT_OK;) {
        sft__checkpoint_run_found *const s = &list->steps[i];
        if (!s->told.complete) {
            continue;
        }
        status = verify_one(run, list, s, NULL, err);
        if (status != SFT_OK || s->told.verified == 1) {
            break;
        }
        status = sft__checkpoint_run_mark_bad(run, s->told.step, s->unread, err);
    }
    sft_run_list_free(list);
    return status;
}

static sft_status check_best(const sft_run *run, sft_error *err) {
    sft_run_list *list;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, SFT_RUN_NONE, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_check_best(&run->rules, list->steps, list->count, err);
    }
    sft_run_list_free(list);
    return status;
}

sft_status sft_run_prune(sft_run *run, uint64_t *removed, sft_error *err) {
    if (removed != NULL) {
        *removed = 0;
    }
    if (run->read_only) {
        return sft__base_fail(err, SFT_E_STATE, "the run was opened to be read");
    }
    SFT_TRY(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, err));
    SFT_TRY(check_best(run, err));
    SFT_TRY(find_good(run, err));
    return sft__checkpoint_run_clear(run, sft__checkpoint_run_saved(run), removed, err);
}

sft_status sft_run_list_make(sft_run_list **out, sft_run *run, uint64_t step, uint32_t flags,
                             const sft_control *control, sft_error *err) {
    sft_run_list *list;
    *out = NULL;
    if ((flags & ~(SFT_RUN_LIST_VERIFY | SFT_RUN_LIST_RULES)) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "flags that are not known");
    }
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, step, err);
    for (size_t i = 0; i < list->count && status == SFT_OK && (flags & SFT_RUN_LIST_VERIFY) != 0;
         i++) {
        if (list->steps[i].told.complete) {
            status = verify_one(run, list, &list->steps[i], control, err);
            if (status == SFT_OK &&
                list->steps[i].told.verified == 2) { /* which is known from now on */
                status = sft__checkpoint_run_mark_bad(run, list->steps[i].told.step,
                                                      list->steps[i].unread, err);
            }
        }
    }
    if (status == SFT_OK && (flags & SFT_RUN_LIST_RULES) != 0) {
        status = sft__checkpoint_run_check_best(&run->rules, list->steps, list->count, err);
    }
    if (status != SFT_OK) {
        sft_run_list_free(list);
        return status;
    }
    sft__checkpoint_run_judge_list(run, list, sft__checkpoint_run_saved(run));
    *out = list;
    return SFT_OK;
}
