/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/back.c - a training goes on from an older step: those above it go. A mark with that step's
 * number decides: before it is on the disk all of them are there, from then on none is for anybody, however
 * the removal ends. Read run.h first.
 */
#include "checkpoint/run/together.h"
#include "fs/output/entry.h"

/* ---------------------------------------------------------------- what is there */

/* What has the name of a step, and what a failed removal has left without one. */
typedef struct remains {
    sft_run *run;
    sft_run_list *list;
    sft__checkpoint_run_back to; /* a rewind's own, before it has made a mark */
    bool hidden; /* some above it have lost their name, and might be given it back */
    uint64_t count;
    sft_status status; /* of what is in nobody's way: told at the end */
    sft_error *err;
} remains;

static sft_status see(void *ctx, const char *name, size_t len, sft_error *err) {
    remains *const r = ctx;
    (void)len;
    (void)err;
    (void)sft__checkpoint_run_see_back(&r->to, name);
    return SFT_OK;
}

static sft_status see_hidden(void *ctx, const char *name, size_t len, sft_error *err) {
    remains *const r = ctx;
    uint64_t step;
    (void)len;
    (void)err;
    r->hidden = r->hidden || (sft__checkpoint_run_is_hidden(name, SFT__RUN_GONE, &step) &&
                              sft__checkpoint_run_is_above(&r->to, step));
    return SFT_OK;
}

/* All steps; one above that cannot be looked at is an error. *above: how many are to go. */
static sft_status look(remains *r, uint64_t *above, sft_error *err) {
    const sft_run *const run = r->run;
    *above = 0;
    SFT_TRY(sft__checkpoint_run_list_new(&r->list, run->allocator, err));
    r->list->all = true;
    SFT_TRY(sft__checkpoint_run_scan(r->list, run->path, run->id, SFT_RUN_NONE, err));
    for (size_t i = 0; i < r->list->count; i++) {
        const sft__checkpoint_run_found *const s = &r->list->steps[i];
        if (sft__checkpoint_run_is_above(&r->to, s->told.step) && s->unread) {
            return sft__base_fail(err, SFT_E_IO, "%s cannot be looked at, and stays: %s",
                                  s->told.name, s->told.why);
        }
        *above += sft__checkpoint_run_is_above(&r->to, s->told.step) && s->told.complete;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the mark */

static sft_status mark_path(sft__base_buf *out, const sft_run *run, uint64_t step, sft_error *err) {
    char name[SFT__RUN_HIDDEN];
    sft__checkpoint_run_hidden(name, step, SFT__RUN_BACK);
    return sft__checkpoint_stage_path(out, run->path, name, err);
}

/* It has no bytes: a full disk has room for it. On the disk whatever the run's durability is: the mark
 * must not come back once newer steps are there. */
static sft_status decide(sft_run *run, uint64_t step, sft_error *err) {
    sft__fs_handle file;
    sft__base_buf path;
    sft__base_buf_init(&path, run->allocator);
    sft_status status = mark_path(&path, run, step, err);
    if (status == SFT_OK) {
        status = sft__fs_create(path.data, &file, err);
    }
    if (status == SFT_OK) {
        sft__fs_close(file);
        status = sft__fs_sync_directory(run->path, err);
        run->unfinished = status == SFT_OK || sft__fs_remove(path.data, NULL) != SFT_OK;
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status remove_mark(void *ctx, const char *name, size_t len, sft_error *err) {
    const sft_run *const run = ctx;
    uint64_t step;
    sft__base_buf path;
    (void)len;
    if (!sft__checkpoint_run_is_hidden(name, SFT__RUN_BACK, &step)) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, run->allocator);
    sft_status status = mark_path(&path, run, step, err);
    if (status == SFT_OK) {
        status = sft__fs_remove(path.data, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

/* ---------------------------------------------------------------- what follows */

static sft_status rename_gone(void *ctx, const char *name, size_t len, sft_error *err) {
    remains *const r = ctx;
    uint64_t step;
    (void)len;
    if (!sft__checkpoint_run_is_hidden(name, SFT__RUN_GONE, &step) ||
        !sft__checkpoint_run_is_above(&r->to, step)) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_run_rename(r->run, step, SFT__RUN_GONE, SFT__RUN_OLD, err));
    r->count++;
    return SFT_OK;
}

/* No step above has a name any more that it could be given back from. */
static sft_status rename_all(remains *r, sft_error *err) {
    sft_run *const run = r->run;
    SFT_TRY(sft__fs_list(run->path, rename_gone, r, err));
    for (size_t i = r->list->count; i-- > 0;) { /* the newest first */
        const sft_run_step *const s = &r->list->steps[i].told;
        if (s->complete && sft__checkpoint_run_is_above(&r->to, s->step)) {
            SFT_TRY(sft__checkpoint_run_rename(run, s->step, NULL, SFT__RUN_OLD, err));
            r->count++;
        }
    }
    return sft__fs_sync_directory(run->path, err);
}

static sft_error *told(const remains *r) {
    return r->status == SFT_OK ? r->err : NULL; /* the first one */
}

static sft_status remove_old(void *ctx, const char *name, size_t len, sft_error *err) {
    remains *const r = ctx;
    uint64_t step;
    sft__base_buf path;
    (void)len;
    (void)err;
    if (!sft__checkpoint_run_is_hidden(name, SFT__RUN_OLD, &step)) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, r->run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, r->run->path, name, told(r));
    if (status == SFT_OK) {
        status = sft__checkpoint_remove_tree(path.data, r->run->allocator, told(r));
    }
    r->status = r->status == SFT_OK ? status : r->status;
    sft__base_buf_reset(&path);
    return SFT_OK;
}

/* `latest` names the newest of those that stay. */
static sft_status name_latest(const remains *r, sft_error *err) {
    char name[SFT__RUN_NAME + 1];
    uint64_t newest = SFT_RUN_NONE;
    char *text;
    size_t size;
    sft__base_arena arena;
    for (size_t i = 0; i < r->list->count; i++) {
        const sft_run_step *const s = &r->list->steps[i].told;
        newest = s->complete && !sft__checkpoint_run_is_above(&r->to, s->step) ? s->step : newest;
    }
    sft__checkpoint_run_name(name, newest);
    (void)memcpy(name + strlen(name), "\n", 2);
    sft__base_arena_init(&arena, r->run->allocator, 0);
    const bool right = newest != SFT_RUN_NONE &&
                       sft__checkpoint_run_read_text(r->run->path, SFT__RUN_LATEST, &arena, &text,
                                                     &size, NULL) == SFT_OK &&
                       size == strlen(name) && memcmp(text, name, size) == 0;
    sft__base_arena_free(&arena);
    return right ? SFT_OK : sft__checkpoint_run_write_latest(r->run, newest, err);
}

/* Removing gives the room that `latest` may need. What cannot be removed has no step's name, and is told. */
static sft_status follow(remains *r, sft_error *err) {
    sft_run *const run = r->run;
    SFT_TRY(rename_all(r, err));
    r->err = err;
    SFT_TRY(sft__fs_list(run->path, remove_old, r, err));
    const sft_status named = name_latest(r, told(r));
    r->status = r->status == SFT_OK ? named : r->status;
    SFT_TRY(sft__fs_list(run->path, remove_mark, run, err));
    SFT_TRY(sft__fs_sync_directory(run->path, err));
    run->unfinished = false;
    return r->status;
}

sft_status sft__checkpoint_run_end_rewind(sft_run *run, sft_error *err) {
    remains r = {.run = run};
    uint64_t above;
    run->unfinished = true; /* as far as is known */
    SFT_TRY(sft__fs_list(run->path, see, &r, err));
    run->unfinished = r.to.is_set;
    if (!r.to.is_set) {
        return SFT_OK;
    }
    sft_status status = look(&r, &above, err);
    if (status == SFT_OK) {
        status = follow(&r, err);
    }
    sft_run_list_free(r.list);
    return status;
}

/* ---------------------------------------------------------------- the call */

static sft_status rewind_to(sft_run *run, uint64_t step, uint64_t *removed, sft_error *err) {
    remains r = {.run = run, .to = {true, step}};
    uint64_t above;
    if (run->unfinished) {
        SFT_TRY(sft__checkpoint_run_end_rewind(run, err));
    }
    sft_status status = look(&r, &above, err);
    if (status == SFT_OK) {
        status = sft__fs_list(run->path, see_hidden, &r, err);
    }
    if (status == SFT_OK && (above > 0 || r.hidden)) {
        status = decide(run, step, err);
    }
    if (status == SFT_OK) {
        status = follow(&r, err);
    }
    *removed = r.count;
    sft_run_list_free(r.list);
    return status;
}

/* The step from which training goes on is there, and good: of a group each process reads its share. */
static sft_status prove(const sft_run *run, uint64_t step, sft_error *err) {
    const sft_group *const g = run->options.group;
    const sft__checkpoint_run_verify v = {.allocator = run->allocator,
                                          .pool = run->options.pool,
                                          .share = g != NULL ? g->rank : 0,
                                          .shares = g != NULL ? g->size : 1};
    sft_run_list *list;
    sft__base_buf path;
    sft_error why;
    if (step == SFT_RUN_NONE) {
        return SFT_OK;
    }
    memset(&why, 0, sizeof why);
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, step, err);
    if (status == SFT_OK && (list->count == 0 || !list->steps[0].told.complete)) {
        status = sft__base_fail(err, SFT_E_NOT_FOUND,
                                "the run has no complete step %llu to rewind to: nothing was "
                                "removed",
                                (unsigned long long)step);
    } else if (status == SFT_OK) {
        sft__base_buf_init(&path, run->allocator);
        status = sft__checkpoint_stage_path(&path, run->path, list->steps[0].told.name, &why);
        if (status == SFT_OK) {
            status = sft__checkpoint_run_verify_step(&v, path.data, &list->steps[0].manifest, &why);
        }
        sft__base_buf_reset(&path);
        if (status != SFT_OK) {
            status = sft_error_from(err, status, &why,
                                    "step %llu cannot be rewound to: %s: nothing was removed",
                                    (unsigned long long)step, why.message);
        }
    }
    sft_run_list_free(list);
    return status;
}

/* Nothing is being written or begun, and all processes mean the same step. */
static sft_status agree(sft_run *run, uint64_t step, sft_error *err) {
    uint64_t first = step;
    sft_status status = SFT_OK;
    if (run->read_only || run->begun != NULL) {
        status = sft__base_fail(err, SFT_E_STATE,
                                run->read_only ? "the run was opened to be read"
                                               : "a save of this run is begun and not staged");
    }
    if (status == SFT_OK) {
        status = sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, err);
    }
    SFT_TRY(sft__checkpoint_group_agree_on(run->options.group, status, &first, err));
    status = first == step ? prove(run, step, err)
                           : sft__base_fail(err, SFT_E_MISMATCH,
                                            "the processes rewind to different steps: nothing was "
                                            "removed");
    return sft__checkpoint_group_agree(run->options.group, status, false, err);
}

sft_status sft_run_rewind(sft_run *run, uint64_t step, uint64_t *removed, sft_error *err) {
    uint64_t count = 0;
    if (removed != NULL) {
        *removed = 0;
    }
    SFT_TRY(agree(run, step, err));
    sft_status status =
        sft__checkpoint_run_rank(run) == 0 ? rewind_to(run, step, &count, err) : SFT_OK;
    status = sft__checkpoint_group_agree_on(run->options.group, status, &count, err);
    if (status == SFT_OK) {
        sft__checkpoint_run_unmark(run, step);
    }
    if (removed != NULL) {
        *removed = status == SFT_OK ? count : 0;
    }
    return status;
}
