/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/remove.c - steps that the rules do not keep, those above the one from which training goes
 * on, and what killed processes left. A step loses its name first: it is there whole, or not at all. Read
 * run.h first.
 */
#include "checkpoint/run/together.h"
#include "fs/output/entry.h"
#include "fs/output/publish.h"
#include <stdio.h>

#define PART ".sft-part"
#define GONE ".sft-gone"

void sft__checkpoint_run_hidden(char out[SFT__RUN_HIDDEN], uint64_t step, bool gone) {
    char name[SFT__RUN_NAME];
    sft__checkpoint_run_name(name, step);
    (void)snprintf(out, SFT__RUN_HIDDEN, ".%s%s", name, gone ? GONE : PART);
}

sft_status sft__checkpoint_run_make_staging(const sft_run *run, const sft_run_save *save,
                                            sft_error *err) {
    char hidden[SFT__RUN_HIDDEN];
    sft__base_buf path;
    sft__checkpoint_run_hidden(hidden, save->step, false);
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, hidden, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_remove_tree(path.data, run->allocator, err);
    }
    if (status == SFT_OK) {
        status = sft__fs_make_directory(path.data, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

/* FROM and TO of a step's directory and of what it is called while it is removed. */
typedef struct two_paths {
    sft__base_buf from;
    sft__base_buf to;
} two_paths;

static sft_status make_paths(two_paths *p, const sft_run *run, uint64_t step, sft_error *err) {
    char name[SFT__RUN_NAME];
    char hidden[SFT__RUN_HIDDEN];
    sft__checkpoint_run_name(name, step);
    sft__checkpoint_run_hidden(hidden, step, true);
    sft__base_buf_init(&p->from, run->allocator);
    sft__base_buf_init(&p->to, run->allocator);
    SFT_TRY(sft__checkpoint_stage_path(&p->from, run->path, name, err));
    return sft__checkpoint_stage_path(&p->to, run->path, hidden, err);
}

static void free_paths(two_paths *p) {
    sft__base_buf_reset(&p->from);
    sft__base_buf_reset(&p->to);
}

sft_status sft__checkpoint_run_hide(const sft_run *run, uint64_t step, sft_error *err) {
    two_paths p;
    sft__fs_stat st;
    sft_status status = make_paths(&p, run, step, err);
    if (status == SFT_OK) {
        status = sft__fs_look(p.from.data, &st, err);
    }
    if (status == SFT_OK && st.exists) {
        status =
            sft__checkpoint_remove_tree(p.to.data, run->allocator, err); /* of an earlier one */
        if (status == SFT_OK) {
            status = sft__fs_rename(p.from.data, p.to.data, err);
        }
    }
    free_paths(&p);
    return status;
}

sft_status sft__checkpoint_run_forget(const sft_run *run, uint64_t step, sft_error *err) {
    two_paths p;
    sft_status status = make_paths(&p, run, step, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_remove_tree(p.to.data, run->allocator, err);
    }
    free_paths(&p);
    return status;
}

sft_status sft__checkpoint_run_clear(sft_run *run, uint64_t saved, uint64_t *removed,
                                     sft_error *err) {
    sft_run_list *list;
    uint64_t count = 0;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, SFT_RUN_NONE, err);
    if (status == SFT_OK) {
        sft__checkpoint_run_judge_list(run, list, saved);
    }
    for (size_t i = 0; i < list->count && status == SFT_OK; i++) {
        if (list->steps[i].told.kept == 0) {
            status = sft__checkpoint_run_hide(run, list->steps[i].told.step, err);
            if (status == SFT_OK) {
                status = sft__checkpoint_run_forget(run, list->steps[i].told.step, err);
            }
            count += status == SFT_OK;
        }
    }
    sft_run_list_free(list);
    if (removed != NULL) {
        *removed = count;
    }
    return status;
}

/* ---------------------------------------------------------------- latest */

sft_status sft__checkpoint_run_write_latest(const sft_run *run, uint64_t step, sft_error *err) {
    const sft__fs_publish_options o = {run->allocator, run->options.durability, 0, false, NULL};
    char name[SFT__RUN_NAME + 1];
    sft__fs_publish *publish = NULL;
    sft__base_buf path;
    sft__checkpoint_run_name(name, step);
    const sft__fs_span parts[2] = {{name, strlen(name)}, {"\n", 1}};
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, SFT__RUN_LATEST, err);
    if (status == SFT_OK && (step == SFT_RUN_NONE || sft__fs_is_link(path.data))) {
        status = sft__fs_remove(path.data, err); /* what a link points at is somebody else's */
    }
    if (status != SFT_OK || step == SFT_RUN_NONE) {
        sft__base_buf_reset(&path);
        return status;
    }
    status = sft__fs_publish_open(&publish, path.data, &o, err);
    if (status == SFT_OK) {
        status = sft__fs_publish_reserve(publish, parts[0].size + 1, err);
    }
    if (status == SFT_OK) {
        status = sft__fs_publish_write(publish, 0, parts, 2, err);
    }
    if (status == SFT_OK) {
        status = sft__fs_publish_commit(publish, err);
    }
    sft__fs_publish_free(publish);
    sft__base_buf_reset(&path);
    return status;
}

/* ---------------------------------------------------------------- rewind */

static bool is_above(const sft_run_step *s, uint64_t step) {
    return s->complete && (step == SFT_RUN_NONE || s->step > step);
}

static sft_status find(const sft_run_list *list, uint64_t step, sft_error *err) {
    bool there = step == SFT_RUN_NONE;
    for (size_t i = 0; i < list->count; i++) {
        there = there || (list->steps[i].told.step == step && list->steps[i].told.complete);
    }
    return there ? SFT_OK
                 : sft__base_fail(err, SFT_E_NOT_FOUND,
                                  "the run has no complete step %llu to rewind to: nothing was "
                                  "removed",
                                  (unsigned long long)step);
}

/* All of them lose their names before the first is removed, the newest first, so that what a killed process
 * leaves is the run as it was, or without some of its newest steps. */
static sft_status take_away(sft_run *run, const sft_run_list *list, uint64_t step,
                            uint64_t *removed, sft_error *err) {
    const bool durable = run->options.durability == SFT_DURABLE_FULL;
    sft_status status = SFT_OK;
    for (size_t i = list->count; i-- > 0 && status == SFT_OK;) {
        if (is_above(&list->steps[i].told, step)) {
            status = sft__checkpoint_run_hide(run, list->steps[i].told.step, err);
            *removed += status == SFT_OK;
        }
    }
    if (status == SFT_OK && *removed > 0) {
        status = sft__checkpoint_run_write_latest(run, step, err);
    }
    if (status == SFT_OK && *removed > 0 && durable) {
        status = sft__fs_sync_directory(run->path, err);
    }
    for (size_t i = list->count; i-- > 0 && status == SFT_OK;) {
        if (is_above(&list->steps[i].told, step)) {
            status = sft__checkpoint_run_forget(run, list->steps[i].told.step, err);
        }
    }
    return status;
}

static sft_status rewind_to(sft_run *run, uint64_t step, uint64_t *removed, sft_error *err) {
    sft_run_list *list;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, SFT_RUN_NONE, err);
    if (status == SFT_OK) {
        status = find(list, step, err);
    }
    if (status == SFT_OK) {
        status = take_away(run, list, step, removed, err);
    }
    sft_run_list_free(list);
    return status;
}

sft_status sft_run_rewind(sft_run *run, uint64_t step, uint64_t *removed, sft_error *err) {
    uint64_t count = 0;
    sft_status status = SFT_OK;
    if (run->read_only || run->begun != NULL) {
        status = sft__base_fail(err, SFT_E_STATE,
                                run->read_only ? "the run was opened to be read"
                                               : "a save of this run is begun and not staged");
    }
    if (status == SFT_OK) {
        status = sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, err);
    }
    /* all have written what they had before the first one removes anything */
    status = sft__checkpoint_group_agree(run->options.group, status, false, err);
    if (status == SFT_OK && sft__checkpoint_run_rank(run) == 0) {
        status = rewind_to(run, step, &count, err);
    }
    status = sft__checkpoint_group_agree_on(run->options.group, status, &count, err);
    if (status == SFT_OK) {
        sft__checkpoint_run_unmark(run, step);
    }
    if (removed != NULL) {
        *removed = status == SFT_OK ? count : 0;
    }
    return status;
}

/* ---------------------------------------------------------------- leftovers */

/* A step that was to be replaced lost its name, and then the process was killed: it is given back, if it
 * is whole and the new one is not there. So is one whose removal had only begun; it goes again with the
 * next removals. */
static sft_status restore(const sft_run *run, const char *hidden, uint64_t step, sft_error *err) {
    sft_run_list *list;
    sft__checkpoint_run_found found;
    two_paths p;
    sft__fs_stat st;
    memset(&found, 0, sizeof found);
    memset(&st, 0, sizeof st);
    found.told.name = hidden;
    found.told.step = step;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_look(list, &found, run->path, "", err);
    const sft_status named = make_paths(&p, run, step, status == SFT_OK ? err : NULL);
    status = status == SFT_OK ? named : status;
    if (status == SFT_OK) {
        status = sft__fs_look(p.from.data, &st, err);
    }
    if (status == SFT_OK && found.told.complete && !st.exists) {
        status = sft__fs_rename(p.to.data, p.from.data, err);
    }
    free_paths(&p);
    sft_run_list_free(list);
    return status;
}

static sft_status sweep_entry(void *ctx, const char *name, size_t len, sft_error *err) {
    const sft_run *const run = ctx;
    char step[SFT__RUN_HIDDEN];
    uint64_t number;
    sft__base_buf path;
    const size_t tail = sizeof PART - 1;
    const bool gone = len > tail && strcmp(name + len - tail, GONE) == 0;
    if (name[0] != '.' || len <= tail + 1 || len >= sizeof step ||
        (strcmp(name + len - tail, PART) != 0 && !gone)) {
        return SFT_OK;
    }
    memcpy(step, name + 1, len - tail - 1);
    step[len - tail - 1] = '\0';
    if (!sft__checkpoint_run_is_name(step, &number)) {
        return SFT_OK;
    }
    if (gone) {
        SFT_TRY(restore(run, name, number, err));
    }
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, name, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_remove_tree(path.data, run->allocator, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

sft_status sft__checkpoint_run_sweep(const sft_run *run, sft_error *err) {
    return sft__fs_list(run->path, sweep_entry, (void *)(uintptr_t)run, err);
}
