/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/stage_publish.c - a staging directory opened, and its files given their names, or
 * removed. Read stage.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/stage/stage.h"
#include "fs/output/keep.h"
#include <sft/extend.h>

/* ---------------------------------------------------------------- removing */

sft_status sft__checkpoint_stage_drop(const sft__checkpoint_stage *s, sft_error *err) {
    SFT_TRY(sft__checkpoint_stage_ours(s, false, err));
    return sft__checkpoint_remove_tree(s->directory, s->allocator, err);
}

/* ---------------------------------------------------------------- the beginning */

static bool is_source(const sft_job *job, const sft__fs_stat *fact) {
    for (size_t i = 0; i < job->source_count; i++) {
        const sft__checkpoint_job_source *const s = &job->sources[i];
        if (s->timed && s->device == fact->device && s->number == fact->inode) {
            return true;
        }
    }
    return false;
}

/* What is replaced are files. Several that the job reads cannot be: were it killed between two
 * renames, nobody could make the same plan again. */
static sft_status check_replaced(const sft__checkpoint_stage *s, const char *name,
                                 sft__base_buf *path, sft_error *err) {
    sft__fs_stat fact;
    SFT_TRY(sft__checkpoint_stage_path(path, s->root, name, err));
    SFT_TRY(sft__fs_look(path->data, &fact, err));
    if (fact.exists && !fact.regular) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%.200s\" is there, and no file", path->data);
    }
    if (fact.exists && s->job->count + s->job->text_count > 1 && is_source(s->job, &fact)) {
        return sft__base_fail(
            err, SFT_E_EXISTS,
            "\"%.200s\" is read by this job: another directory is needed for what it "
            "writes",
            path->data);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_stage_open(sft__checkpoint_stage *s, bool restart, sft_error *err) {
    const size_t count = s->fresh ? 0 : s->job->count + s->job->text_count;
    sft__base_buf path;
    sft_status status = SFT_OK;
    if (sft__fs_is_link(s->directory)) { /* what lies behind it is not ours to write or remove */
        return sft__base_fail(err, SFT_E_PATH, "\"%.200s\" is a link: a directory is needed there",
                              s->directory);
    }
    sft__base_buf_init(&path, s->allocator);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        status = check_replaced(s, sft__checkpoint_job_name(s->job, i), &path, err);
    }
    sft__base_buf_reset(&path);
    SFT_TRY(status);
    SFT_TRY(sft__checkpoint_stage_ours(s, restart, err));
    if (!s->fresh) {
        SFT_TRY(sft__fs_make_directory(s->root, err));
    }
    if (restart && sft__fs_is_directory(s->directory)) {
        SFT_TRY(sft__checkpoint_stage_hold(s, err));
        if (!sft__checkpoint_stage_have_alone(s)) {
            return sft__base_fail(
                err, SFT_E_STATE,
                "another process is at work in \"%.200s\", which a restart removes", s->directory);
        }
        SFT_TRY(sft__checkpoint_remove_tree(s->directory, s->allocator, err));
    }
    return sft__checkpoint_stage_hold(s, err);
}

/* ---------------------------------------------------------------- the end */

sft_status sft__checkpoint_stage_check(const sft__checkpoint_stage *s, sft_error *err) {
    const size_t count = s->job->count + s->job->text_count;
    sft__base_buf path;
    sft_status status = SFT_OK;
    if (s->fresh) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, s->allocator);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        sft__fs_stat fact;
        status =
            sft__checkpoint_stage_path(&path, s->root, sft__checkpoint_job_name(s->job, i), err);
        if (status == SFT_OK) {
            status = sft__fs_look(path.data, &fact, err);
        }
        if (status == SFT_OK && (fact.exists || sft__fs_is_link(path.data))) {
            status = sft__base_fail(err, SFT_E_EXISTS, "\"%.200s\" is there already", path.data);
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

bool sft__checkpoint_stage_is_published(const sft__checkpoint_stage *s) {
    sft__base_buf path;
    bool all = true;
    sft__base_buf_init(&path, s->allocator);
    for (size_t i = 0; i < s->job->count + s->job->text_count && all; i++) {
        const bool text = i >= s->job->count;
        const uint64_t size = text ? s->job->texts[i - s->job->count].size : s->job->files[i].size;
        sft__fs_stat fact;
        all = sft__checkpoint_stage_path(&path, s->root, sft__checkpoint_job_name(s->job, i),
                                         NULL) == SFT_OK &&
              sft__fs_look(path.data, &fact, NULL) == SFT_OK && fact.regular && fact.size == size;
    }
    sft__base_buf_reset(&path);
    return all;
}

/* One file to its place; one that has gone there before is fine. */
static sft_status move_one(const sft__checkpoint_stage *s, const char *name, sft__base_buf *from,
                           sft__base_buf *to, sft_error *err) {
    sft__fs_stat fact;
    SFT_TRY(sft__checkpoint_stage_path(from, s->directory, name, err));
    SFT_TRY(sft__checkpoint_stage_path(to, s->root, name, err));
    SFT_TRY(sft__fs_look(from->data, &fact, err));
    if (!fact.exists) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_stage_parents(s, s->root, name, err));
    SFT_TRY(sft__fs_keep_path(from->data, to->data, err));
    SFT_TRY(sft__fs_rename(from->data, to->data, err));
    if (s->durable && strchr(name, '/') != NULL) {
        to->data[sft__fs_base_name(to->data) - to->data - 1] = '\0';
        return sft__fs_sync_directory(to->data, err);
    }
    return SFT_OK;
}

/* The text that readers begin with, of a job of several files; NULL: none. */
static const char *index_of(const sft_job *job) {
    static const char *const ends[] = {".index.json", "param_name_map.json", "layout.json"};
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < job->text_count; i++) {
            const char *const name = job->texts[i].name;
            if (sft__checkpoint_ends(name, strlen(name), ends[k])) {
                return name;
            }
        }
    }
    return NULL;
}

/* What lies in the place of a text that is still to be moved goes. */
static sft_status set_aside(const sft__checkpoint_stage *s, const char *name, bool index,
                            sft__base_buf *from, sft__base_buf *to, sft_error *err) {
    sft__fs_stat fact;
    SFT_TRY(sft__checkpoint_stage_path(from, s->directory, name, err));
    SFT_TRY(sft__checkpoint_stage_path(to, s->root, name, err));
    SFT_TRY(sft__fs_look(from->data, &fact, err));
    if (!fact.exists) {
        return SFT_OK;
    }
    SFT_TRY(sft__fs_keep_path(from->data, to->data, err));
    return index ? sft_model_begin(to->data, s->durable, err) : sft__fs_remove(to->data, err);
}

static sft_status move_all(const sft__checkpoint_stage *s, sft__base_buf *from, sft__base_buf *to,
                           sft_error *err) {
    const sft_job *const job = s->job;
    const char *const index = index_of(job);
    if (index != NULL) { /* an old one must not speak of new files */
        SFT_TRY(set_aside(s, index, true, from, to, err));
    }
    for (size_t i = 0; i < job->text_count; i++) {
        SFT_TRY(set_aside(s, job->texts[i].name, false, from, to, err));
    }
    for (size_t i = 0; i < job->count + job->text_count; i++) {
        if (sft__checkpoint_job_name(job, i) != index) {
            SFT_TRY(move_one(s, sft__checkpoint_job_name(job, i), from, to, err));
        }
    }
    if (index == NULL) {
        return SFT_OK;
    }
    SFT_TRY(move_one(s, index, from, to, err));
    SFT_TRY(sft__checkpoint_stage_path(to, s->root, index, err));
    return sft_model_end(to->data, err);
}

static sft_status replace_directory(const sft__checkpoint_stage *s, sft_error *err) {
    const size_t base = (size_t)(sft__fs_base_name(s->root) - s->root);
    sft__base_buf parent;
    sft_status status;
    sft__base_buf_init(&parent, s->allocator);
    sft__base_buf_add(&parent, base > 0 ? s->root : ".", base > 0 ? base : 1);
    sft__base_buf_add(&parent, "", 1);
    status = parent.failed ? sft__base_fail_nomem(err, base)
                           : sft__fs_rename(s->directory, s->root, err);
    if (status == SFT_OK && s->durable && sft__fs_sync_directory(parent.data, err) != SFT_OK) {
        status = SFT_E_DURABILITY;
        if (err != NULL) {
            err->status = SFT_E_DURABILITY;
        }
    }
    sft__base_buf_reset(&parent);
    return status == SFT_OK ? sft__checkpoint_stage_clean(s, s->root, err) : status;
}

sft_status sft__checkpoint_stage_commit(const sft__checkpoint_stage *s, sft_error *err) {
    sft__base_buf from;
    sft__base_buf to;
    SFT_TRY(sft__checkpoint_stage_ours(s, false, err));
    sft__base_buf_init(&from, s->allocator);
    sft__base_buf_init(&to, s->allocator);
    sft_status status = sft__checkpoint_stage_board(s, &from, err);
    if (status == SFT_OK) {
        status = sft__fs_remove(from.data, err);
    }
    if (status == SFT_OK && s->fresh) {
        status = replace_directory(s, err);
        sft__base_buf_reset(&from);
        return status;
    }
    if (status == SFT_OK) {
        status = move_all(s, &from, &to, err);
    }
    sft__base_buf_reset(&from);
    sft__base_buf_reset(&to);
    if (status == SFT_OK && s->durable) {
        status = sft__fs_sync_directory(s->root, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_stage_clean(s, s->directory, err);
    }
    if (status == SFT_OK &&
        sft__checkpoint_stage_ours(s, false, NULL) == SFT_OK) { /* else it stays */
        status = sft__checkpoint_remove_tree(s->directory, s->allocator, err);
    }
    return status;
}
