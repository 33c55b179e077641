/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/stage_ours.c - what lies in a staging directory was put there by jobs: the files of
 * this plan, journals, or, where an older plan's go, weights and JSON. A file of somebody else
 * would go along with the output, or be removed with the directory: then nothing is begun. Read
 * stage.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/stage/stage.h"
#include <stdlib.h>

typedef struct looking {
    const sft__checkpoint_stage *stage;
    const char **names; /* of the plan, in order */
    size_t count;
    bool any_plan;
    const char *inner; /* below the staging directory: "", or "rank_0/" */
    const char **directories;
    size_t directory_count;
    size_t room;
    sft__base_arena arena;
    sft__base_buf path;
} looking;

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static sft_status take_names(looking *l, sft_error *err) {
    const sft_job *const job = l->stage->job;
    l->count = job != NULL ? job->count + job->text_count : 0;
    l->names = sft__base_alloc_array(l->stage->allocator, l->count + 1, sizeof *l->names);
    SFT_NEED(l->names != NULL, (l->count + 1) * sizeof *l->names, err);
    for (size_t i = 0; i < l->count; i++) {
        l->names[i] = sft__checkpoint_job_name(job, i);
    }
    if (l->count > 1) {
        qsort(l->names, l->count, sizeof *l->names, by_text);
    }
    return SFT_OK;
}

/* The first name that does not come before this one. */
static const char *name_from(const looking *l, const char *name) {
    size_t low = 0;
    size_t high = l->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (strcmp(l->names[mid], name) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < l->count ? l->names[low] : "";
}

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

static sft_status push(looking *l, const char *directory, sft_error *err) {
    SFT_TRY(sft__checkpoint_more(l->stage->allocator, &l->directories, &l->room,
                                 l->directory_count + 1, sizeof *l->directories, err));
    l->directories[l->directory_count++] = directory;
    return SFT_OK;
}

static sft_status look_at(void *ctx, const char *name, size_t len, sft_error *err) {
    looking *const l = ctx;
    sft__fs_stat fact;
    if (begins(name, ".sft-journal-") || strcmp(name, ".sft-board") == 0 ||
        begins(name, ".nfs")) { /* what a server keeps of a removed file that is open */
        return SFT_OK;
    }
    const size_t inner = strlen(l->inner);
    char *const own = sft__base_arena_alloc(&l->arena, inner + len + 2, 1); /* and a slash */
    SFT_NEED(own != NULL, inner + len + 2, err);
    memcpy(own, l->inner, inner);
    memcpy(own + inner, name, len);
    own[inner + len] = '\0';
    if (strcmp(name_from(l, own), own) == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_stage_path(&l->path, l->stage->directory, own, err));
    const bool link = sft__fs_is_link(l->path.data);
    SFT_TRY(sft__fs_look(l->path.data, &fact, err));
    if (!fact.exists && !link) { /* another process had it */
        return SFT_OK;
    }
    if (fact.directory && !link) {
        memcpy(own + inner + len, "/", 2);
        if (l->any_plan || begins(name_from(l, own), own)) {
            return push(l, own, err);
        }
    } else if (l->any_plan && !link &&
               (sft__checkpoint_ends(name, len, ".safetensors") ||
                sft__checkpoint_ends(name, len, ".json"))) {
        return SFT_OK;
    }
    return sft__base_fail(err, SFT_E_EXISTS,
                          "\"%.200s\" is no file of this job: it would go along or be removed, and "
                          "belongs elsewhere",
                          l->path.data);
}

sft_status sft__checkpoint_stage_ours(const sft__checkpoint_stage *s, bool any_plan,
                                      sft_error *err) {
    looking l;
    if (!sft__checkpoint_stage_is_there(s)) {
        return SFT_OK;
    }
    memset(&l, 0, sizeof l);
    l.stage = s;
    l.any_plan = any_plan || s->job == NULL;
    sft__base_arena_init(&l.arena, s->allocator, 0);
    sft__base_buf_init(&l.path, s->allocator);
    sft_status status = take_names(&l, err);
    if (status == SFT_OK) {
        status = push(&l, "", err);
    }
    for (size_t i = 0; i < l.directory_count && status == SFT_OK; i++) {
        sft__base_buf directory;
        sft__base_buf_init(&directory, s->allocator);
        l.inner = l.directories[i];
        status = sft__checkpoint_stage_path(&directory, s->directory, l.inner, err);
        if (status == SFT_OK && sft__fs_is_directory(directory.data)) {
            status = sft__fs_list(directory.data, look_at, &l, err);
        }
        sft__base_buf_reset(&directory);
    }
    sft__base_free(s->allocator, l.directories, l.room * sizeof *l.directories);
    sft__base_free(s->allocator, l.names, (l.count + 1) * sizeof *l.names);
    sft__base_buf_reset(&l.path);
    sft__base_arena_free(&l.arena);
    return status;
}
