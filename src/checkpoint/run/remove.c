/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/remove.c - steps that the rules do not keep, and what killed processes left. A step loses
 * its name first: it is there whole, or not at all. Read run.h first.
 */
#include "checkpoint/run/together.h"
#include "fs/output/entry.h"
#include "fs/output/publish.h"

sft_status sft__checkpoint_run_make_staging(const sft_run *run, const sft_run_save *save,
                                            sft_error *err) {
    char hidden[SFT__RUN_HIDDEN];
    sft__base_buf path;
    sft__checkpoint_run_hidden(hidden, save->step, SFT__RUN_PART);
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

/* from: an end, or NULL: the step's own name. */
static sft_status make_paths(two_paths *p, const sft_run *run, uint64_t step, const char *from,
                             const char *to, sft_error *err) {
    char name[SFT__RUN_HIDDEN];
    sft__base_buf_init(&p->from, run->allocator);
    sft__base_buf_init(&p->to, run->allocator);
    if (from != NULL) {
        sft__checkpoint_run_hidden(name, step, from);
    } else {
        sft__checkpoint_run_name(name, step);
    }
    SFT_TRY(sft__checkpoint_stage_path(&p->from, run->path, name, err));
    sft__checkpoint_run_hidden(name, step, to);
    return sft__checkpoint_stage_path(&p->to, run->path, name, err);
}

static void free_paths(two_paths *p) {
    sft__base_buf_reset(&p->from);
    sft__base_buf_reset(&p->to);
}

sft_status sft__checkpoint_run_rename(const sft_run *run, uint64_t step, const char *from,
                                      const char *to, sft_error *err) {
    two_paths p;
    sft__fs_stat st;
    sft_status status = make_paths(&p, run, step, from, to, err);
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

sft_status sft__checkpoint_run_hide(const sft_run *run, uint64_t step, sft_error *err) {
    return sft__checkpoint_run_rename(run, step, NULL, SFT__RUN_GONE, err);
}

sft_status sft__checkpoint_run_forget(const sft_run *run, uint64_t step, sft_error *err) {
    two_paths p;
    sft_status status = make_paths(&p, run, step, NULL, SFT__RUN_GONE, err);
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
    if (status == SFT_OK && found.unread) {
        status = sft__base_fail(err, SFT_E_IO,
                                "\"%s\" cannot be looked at, which may be step %llu, about to be "
                                "replaced: %s",
                                hidden, (unsigned long long)step, found.told.why);
    }
    const sft_status named =
        make_paths(&p, run, step, NULL, SFT__RUN_GONE, status == SFT_OK ? err : NULL);
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
    static const char latest[] = ".latest.tmp."; /* a file that was to become it */
    const sft_run *const run = ctx;
    uint64_t number;
    sft__base_buf path;
    const bool gone = sft__checkpoint_run_is_hidden(name, SFT__RUN_GONE, &number);
    const bool old = sft__checkpoint_run_is_hidden(name, SFT__RUN_OLD, &number);
    const bool text = strncmp(name, latest, sizeof latest - 1) == 0;
    (void)len;
    if (!gone && !old && !text && !sft__checkpoint_run_is_hidden(name, SFT__RUN_PART, &number)) {
        return SFT_OK;
    }
    if (gone) {
        SFT_TRY(restore(run, name, number, err));
    }
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, name, err);
    if (status == SFT_OK && (old || text)) { /* in nobody's way */
        (void)!(old ? sft__checkpoint_remove_tree(path.data, run->allocator, NULL)
                    : sft__fs_remove(path.data, NULL));
    } else if (status == SFT_OK) {
        status = sft__checkpoint_remove_tree(path.data, run->allocator, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

sft_status sft__checkpoint_run_sweep(const sft_run *run, sft_error *err) {
    return sft__fs_list(run->path, sweep_entry, (void *)(uintptr_t)run, err);
}
