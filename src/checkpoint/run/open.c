/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/open.c - a run opened and closed: its directory, its lock, which run it is, the thread
 * behind. Read run.h first.
 */
#include "base/options.h"
#include "base/text/strmap.h"
#include "checkpoint/run/together.h"
#include "fs/output/staged.h"

/* ---------------------------------------------------------------- which run it is */

static void draw_id(char id[SFT__RUN_ID + 1]) {
    uint64_t key[2];
    sft__base_random_key(key);
    sft__base_hex(id, (const uint8_t *)key, sizeof key);
    id[SFT__RUN_ID] = '\0';
}

/* Where run.json was lost the newest step says which run this is. */
static sft_status find_id(sft_run *run, sft_error *err) {
    sft_run_list *list;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    const sft_status status = sft__checkpoint_run_scan(list, run->path, "", SFT_RUN_NONE, err);
    const sft__checkpoint_run_found *const newest = sft__checkpoint_run_newest(list, SFT_RUN_NONE);
    if (status == SFT_OK && newest != NULL) {
        memcpy(run->id, newest->manifest.id, sizeof run->id);
    } else if (status == SFT_OK && !run->read_only) {
        draw_id(run->id);
    }
    sft_run_list_free(list);
    return status;
}

static sft_status write_id(const sft_run *run, sft_error *err) {
    sft__base_buf b;
    sft__base_buf from;
    sft__base_buf to;
    sft__base_buf_init(&b, run->allocator);
    sft__base_buf_init(&from, run->allocator);
    sft__base_buf_init(&to, run->allocator);
    sft__base_buf_text(&b, "{\"format\": \"safetensors-run\", \"version\": 1, \"run\": \"");
    sft__base_buf_text(&b, run->id);
    sft__base_buf_text(&b, "\", \"created\": ");
    sft__base_buf_u64(&b, (uint64_t)sft__base_now_seconds());
    sft__base_buf_text(&b, "}\n");
    sft_status status = sft__checkpoint_stage_path(&from, run->path, ".run.json.sft-part", err);
    if (status == SFT_OK) {
        status = sft__fs_remove(from.data, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_write_text(run->path, ".run.json.sft-part", &b,
                                            run->options.durability == SFT_DURABLE_FULL, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_stage_path(&to, run->path, SFT__RUN_FILE, err);
    }
    if (status == SFT_OK) {
        status = sft__fs_rename(from.data, to.data, err);
    }
    sft__base_buf_reset(&b);
    sft__base_buf_reset(&from);
    sft__base_buf_reset(&to);
    return status;
}

static sft_status take_id(sft_run *run, sft_error *err) {
    SFT_TRY(sft__checkpoint_run_id_read(run->id, run->path, &run->arena, err));
    if (run->id[0] != '\0') {
        return SFT_OK;
    }
    SFT_TRY(find_id(run, err));
    return run->read_only || sft__checkpoint_run_rank(run) > 0 ? SFT_OK : write_id(run, err);
}

/* ---------------------------------------------------------------- options */

static sft_status take_rules(sft_run *run, sft_error *err) {
    SFT_TRY(sft__base_options_read(&run->rules, sizeof run->rules, run->options.rules,
                                   SFT__UP_TO(sft_run_rules, reserved), "rules", err));
    run->options.rules = &run->rules;
    if (run->rules.best == NULL ? run->rules.keep_best > 0 : run->rules.best[0] == '\0') {
        return sft__base_fail(err, SFT_E_ARG, "rules: the best ones need the name of a metric");
    }
    if (run->rules.best != NULL) {
        run->rules.best =
            sft__base_arena_copy(&run->arena, run->rules.best, strlen(run->rules.best));
        if (run->rules.best == NULL) {
            return sft__base_fail_nomem(err, 1);
        }
    }
    return run->rules.best_mode == SFT_RUN_MIN || run->rules.best_mode == SFT_RUN_MAX
               ? SFT_OK
               : sft__base_fail(err, SFT_E_ARG, "rules: the best is the least or the greatest");
}

static sft_status take_options(sft_run *run, const char *path, sft_error *err) {
    sft_run_options *const o = &run->options;
    size_t len = path != NULL ? strlen(path) : 0;
    o->shard_bytes = o->shard_bytes > 0 ? o->shard_bytes : UINT64_C(5000000000);
    o->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : 600000;
    o->arenas = o->arenas > 0 ? o->arenas : 1;
    if (len == 0 || o->arenas > SFT__RUN_ARENAS || o->reserve_bytes > SIZE_MAX / 2 ||
        (o->flags & ~SFT_RUN_READ_ONLY) != 0) {
        return sft__base_fail(
            err, SFT_E_ARG,
            "a path, at most %d arenas, room that memory has and known flags are needed",
            (int)SFT__RUN_ARENAS);
    }
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    run->read_only = (o->flags & SFT_RUN_READ_ONLY) != 0;
    run->path = sft__base_arena_copy(&run->arena, path, len);
    if (run->path == NULL) {
        return sft__base_fail_nomem(err, len);
    }
    SFT_TRY(sft__base_options_read(&run->copier, sizeof run->copier, o->copier,
                                   SFT__UP_TO(sft_copier, ctx), "copier", err));
    if ((run->copier.alloc == NULL) != (run->copier.free == NULL)) {
        return sft__base_fail(err, SFT_E_ARG, "a copier with one of alloc and free");
    }
    return take_rules(run, err);
}

/* ---------------------------------------------------------------- the directory */

/* A process that was killed has the lock until the system has cleared it away: a job that starts again at
 * once waits for that. */
static sft_status take_lock(sft_run *run, const char *path, sft_error *err) {
    enum { PATIENCE_MS = 2000, NAP_MS = 20 };
    const uint64_t begun = sft__base_now_ms();
    for (;;) {
        const sft_status status = sft__fs_staged_lock_alone(path, &run->lock, err);
        if (status != SFT_E_STATE || sft__base_now_ms() - begun >= PATIENCE_MS) {
            return status;
        }
        sft__base_sleep_ms(NAP_MS);
    }
}

static sft_status take_directory(sft_run *run, sft_error *err) {
    sft__base_buf lock;
    if (!run->read_only && sft__checkpoint_run_rank(run) == 0) {
        const bool there = sft__fs_is_directory(run->path);
        SFT_TRY(sft__fs_make_directory(run->path, err));
        if (!there && run->options.durability == SFT_DURABLE_FULL) {
            SFT_TRY(sft__fs_sync_parent(run->path, err)); /* steps count once they can be found */
        }
        sft__base_buf_init(&lock, run->allocator);
        sft_status status = sft__checkpoint_stage_path(&lock, run->path, SFT__RUN_LOCK, err);
        if (status == SFT_OK) {
            status = take_lock(run, lock.data, err);
        }
        sft__base_buf_reset(&lock);
        SFT_TRY(status);
        SFT_TRY(sft__checkpoint_run_sweep(run, err));
    } else if (!sft__fs_is_directory(run->path)) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "there is no directory \"%.200s\"", run->path);
    }
    SFT_TRY(take_id(run, err));
    if (run->read_only || sft__checkpoint_run_rank(run) > 0) {
        return SFT_OK;
    }
    const sft_status status = sft__checkpoint_run_end_rewind(run, err);
    return run->unfinished ? status : SFT_OK; /* what is left has no name of a step */
}

/* Rank 0 has the run, for all. */
static sft_status take_together(sft_run *run, sft_error *err) {
    const sft_group *const g = run->options.group;
    SFT_TRY(sft__checkpoint_group_check(g, err));
    if (!sft__checkpoint_group_is_many(g)) {
        return take_directory(run, err);
    }
    const sft_status status = g->rank == 0 ? take_directory(run, err) : SFT_OK;
    SFT_TRY(sft__checkpoint_group_agree(g, status, false, err));
    return sft__checkpoint_group_agree(g, g->rank != 0 ? take_directory(run, err) : SFT_OK, false,
                                       err);
}

static sft_status start(sft_run *run, sft_error *err) {
    if (!sft__base_mutex_init(&run->mutex)) {
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    if (!sft__base_cond_init(&run->changed)) {
        sft__base_mutex_reset(&run->mutex);
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a condition variable");
    }
    run->made = true;
    for (uint32_t i = 0; i < run->options.arenas && run->options.reserve_bytes > 0; i++) {
        SFT_TRY(sft__checkpoint_run_slot_grow(run, &run->slots[i],
                                              (size_t)run->options.reserve_bytes, err));
    }
    if (!run->read_only) {
        run->started = sft__base_thread_start(&run->thread, sft__checkpoint_run_work, run);
        if (!run->started) {
            return sft__base_fail(err, SFT_E_NOMEM, "cannot start a thread");
        }
    }
    return SFT_OK;
}

sft_status sft_run_open(sft_run **out, const char *path, const sft_run_options *options,
                        sft_error *err) {
    sft_run_options o;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_run_options, flags),
                                   "run options", err));
    const sft_allocator *const a = sft__base_allocator(o.allocator);
    sft_run *const run = sft__base_alloc_zero(a, sizeof *run);
    if (run == NULL) {
        return sft__base_fail_nomem(err, sizeof *run);
    }
    run->allocator = a;
    run->options = o;
    run->lock = SFT__FS_NO_HANDLE;
    run->keep = SFT_RUN_NONE;
    run->progress.staged = SFT_RUN_NONE;
    run->progress.committed = SFT_RUN_NONE;
    sft__base_arena_init(&run->arena, a, 0);
    sft_status status = take_options(run, path, err);
    if (status == SFT_OK) {
        status = take_together(run, err);
    }
    if (status == SFT_OK) {
        status = start(run, err);
    }
    if (status != SFT_OK) {
        (void)!sft_run_close(run, NULL);
        return status;
    }
    *out = run;
    return SFT_OK;
}

sft_status sft_run_close(sft_run *run, sft_error *err) {
    sft_status status = SFT_OK;
    if (run == NULL) {
        return SFT_OK;
    }
    sft_run_save_free(run->begun);
    if (run->started) {
        sft__base_mutex_lock(&run->mutex);
        run->stop = true; /* once the queue is empty */
        sft__base_cond_broadcast(&run->changed);
        sft__base_mutex_unlock(&run->mutex);
        sft__base_thread_join(&run->thread);
    }
    if (run->made) {
        status = sft__checkpoint_run_tell(run, err);
        sft__base_cond_reset(&run->changed);
        sft__base_mutex_reset(&run->mutex);
    }
    sft__checkpoint_run_free_slots(run);
    sft__base_free(run->allocator, run->marks, run->mark_room * sizeof *run->marks);
    sft_run_list_free(run->skipped);
    sft__fs_close(run->lock);
    sft__base_arena_free(&run->arena);
    sft__base_free(run->allocator, run, sizeof *run);
    return status;
}
