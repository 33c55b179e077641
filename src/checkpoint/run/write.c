/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/write.c - one step from its arena to its name: files, manifest, rename, latest, in the
 * order of docs/run.md. Read run.h first.
 */
#include "base/checked.h"
#include "base/text/json.h"
#include "checkpoint/run/together.h"
#include "fs/output/entry.h"
#include <sft/digest.h>
#include <stdlib.h>

/* The step being written. */
typedef struct writing {
    sft_run *run;
    sft_run_save *save;
    const char *directory;           /* the staging directory */
    const sft_group *group;          /* NULL: this process alone */
    sft__checkpoint_run_share share; /* files that are written */
    bool durable;
    sft_run_list *steps; /* what is there */
    sft__checkpoint_run_older older;
    uint64_t linked;
    uint64_t written;
    sft__base_buf text; /* reused */
} writing;

static void count_bytes(writing *w, uint64_t done, uint64_t total) {
    sft__base_mutex_lock(&w->run->mutex);
    w->run->progress.bytes_done = done;
    w->run->progress.bytes_total = total;
    sft__base_mutex_unlock(&w->run->mutex);
}

/* ---------------------------------------------------------------- what the manifest says of a file */

static sft_status hash_all(const sft_source *source, uint64_t end, sft_sha256 *sha,
                           sft_error *err) {
    uint8_t piece[16384];
    for (uint64_t at = 0; at < end; at += sizeof piece) {
        const size_t n = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        SFT_TRY(sft_source_read(source, at, piece, n, err));
        sft_sha256_update(sha, piece, n);
    }
    return SFT_OK;
}

static sft_status fact_of(const writing *w, const char *path, sft__checkpoint_run_fact *fact,
                          sft_error *err) {
    sft_open_options o;
    sft_catalog *c;
    SFT_INIT(&o);
    o.allocator = w->save->allocator;
    SFT_TRY(sft_catalog_open(&c, path, &o, err));
    const sft_file *const file = sft_catalog_file_at(c, 0);
    const sft_source *const source = sft_catalog_source_at(c, 0);
    fact->size = file->size;
    sft_status status = sft__checkpoint_run_told_crc(c, &fact->crc, w->save->allocator, err);
    if (status == SFT_OK && w->run->options.sha256 != 0) {
        sft_sha256 sha;
        sft_sha256_init(&sha);
        fact->hashed = true;
        status = hash_all(source, file->size, &sha, err);
        sft_sha256_final(&sha, fact->sha);
    }
    sft_catalog_close(c);
    return status;
}

/* ---------------------------------------------------------------- files of tensors */

static sft_status save_plan(writing *w, const sft__checkpoint_run_plan *plan, const char *path,
                            sft__checkpoint_run_fact *fact, sft_error *err) {
    sft_write_options o;
    sft__checkpoint_run_write_options(w->save, &o);
    SFT_TRY(sft_save(path, w->save->tensors + plan->first, plan->count, plan->metadata,
                     plan->metadata_count, &o, err));
    SFT_TRY(fact_of(w, path, fact, err));
    w->written += fact->size;
    return SFT_OK;
}

static sft_status write_plan(writing *w, const sft__checkpoint_run_plan *plan, sft_error *err) {
    sft__checkpoint_run_fact fact;
    sft__base_buf path;
    bool linked = false;
    memset(&fact, 0, sizeof fact);
    fact.name = plan->name;
    fact.name_len = strlen(plan->name);
    sft__base_buf_init(&path, w->save->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, w->directory, plan->name, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_link(w->save, plan, &w->older, path.data, &linked, err);
    }
    if (status == SFT_OK && linked) {
        fact = *sft__checkpoint_run_manifest_find(w->older.manifest, plan->name);
        w->linked += fact.size;
    } else if (status == SFT_OK) {
        status = save_plan(w, plan, path.data, &fact, err);
    }
    sft__base_buf_reset(&path);
    return status == SFT_OK ? sft__checkpoint_run_add_fact(&w->share, &fact, err) : status;
}

/* ---------------------------------------------------------------- texts */

static sft_status put_text(writing *w, const char *name, const sft__base_buf *text,
                           sft_error *err) {
    sft__checkpoint_run_fact fact;
    SFT_TRY(sft__checkpoint_write_text(w->directory, name, text, w->durable, err));
    memset(&fact, 0, sizeof fact);
    fact.name = name;
    fact.name_len = strlen(name);
    fact.size = text->len;
    fact.crc = sft_crc32c(0, text->data, text->len);
    if (w->run->options.sha256 != 0) {
        sft_sha256 sha;
        sft_sha256_init(&sha);
        sft_sha256_update(&sha, text->data, text->len);
        sft_sha256_final(&sha, fact.sha);
        fact.hashed = true;
    }
    w->written += fact.size;
    return sft__checkpoint_run_add_fact(&w->share, &fact, err);
}

/* PART.safetensors.index.json of the plans [first, end), if they are several. */
static sft_status write_index(writing *w, size_t first, size_t end, sft_error *err) {
    const sft_run_save *const s = w->save;
    const char *const part = sft__checkpoint_run_parts[s->plans[first].part];
    const size_t room = strlen(part) + sizeof ".safetensors.index.json";
    sft__base_buf *const b = &w->text;
    uint64_t total = 0;
    char *const name = sft__base_arena_alloc(&w->save->arena, room, 1);
    if (name == NULL) {
        return sft__base_fail_nomem(err, room);
    }
    memcpy(name, part, strlen(part));
    memcpy(name + strlen(part), ".safetensors.index.json", sizeof ".safetensors.index.json");
    for (size_t i = first; i < end; i++) {
        total += s->plans[i].data_bytes; /* of an arena that is there */
    }
    b->len = 0;
    sft__base_buf_text(b, "{\n  \"metadata\": {\n    \"total_size\": ");
    sft__base_buf_u64(b, total);
    sft__base_buf_text(b, "\n  },\n  \"weight_map\": {");
    const char *comma = "\n    ";
    for (size_t i = first; i < end; i++) {
        for (size_t k = 0; k < s->plans[i].count; k++) {
            const sft_save_tensor *const t = &s->tensors[s->plans[i].first + k];
            sft__base_buf_text(b, comma);
            sft__base_json_string(b, t->name, t->name_len);
            sft__base_buf_text(b, ": \"");
            sft__base_buf_text(b, s->plans[i].name);
            sft__base_buf_text(b, "\"");
            comma = ",\n    ";
        }
    }
    sft__base_buf_text(b, "\n  }\n}\n");
    return put_text(w, name, b, err);
}

static sft_status write_indexes(writing *w, sft_error *err) {
    const sft_run_save *const s = w->save;
    for (size_t first = 0, end; first < s->plan_count; first = end) {
        for (end = first; end < s->plan_count && s->plans[end].part == s->plans[first].part;) {
            end++;
        }
        if (end - first > 1) {
            SFT_TRY(write_index(w, first, end, err));
        }
    }
    return SFT_OK;
}

static sft_status write_state(writing *w, sft_error *err) {
    const sft__checkpoint_run_words *const entries = &w->save->entries;
    sft__base_buf *const b = &w->text;
    b->len = 0;
    sft__base_buf_text(b, "{\n  \"version\": 1,\n  \"step\": ");
    sft__base_buf_u64(b, w->save->step);
    sft__base_buf_text(b, ",\n  \"state\": {");
    for (size_t i = 0; i < entries->count; i++) {
        sft__base_buf_text(b, i > 0 ? ",\n    " : "\n    ");
        sft__base_json_string(b, entries->list[i].name, entries->list[i].name_len);
        sft__base_buf_text(b, ": ");
        sft__base_buf_add(b, entries->list[i].text, entries->list[i].len);
    }
    sft__base_buf_text(b, "\n  }\n}\n");
    char *const name = sft__base_arena_alloc(&w->save->arena, 64, 1);
    if (name == NULL) {
        return sft__base_fail_nomem(err, 64);
    }
    sft__checkpoint_run_state_name(name, sft__checkpoint_run_rank(w->run));
    return put_text(w, name, b, err);
}

/* The directory of a file DIRECTORY/NAME is made, or, `filled`, flushed. */
static sft_status inner_directory(const writing *w, const char *name, bool filled, sft_error *err) {
    const char *const slash = strchr(name, '/');
    sft__base_buf path;
    if (slash == NULL || (filled && !w->durable)) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, w->run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, w->directory, name, err);
    if (status == SFT_OK) {
        path.data[path.len - 1 - strlen(slash)] = '\0';
        status = filled ? sft__fs_sync_directory(path.data, err)
                        : sft__fs_make_directory(path.data, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status write_files(writing *w, sft_error *err) {
    const sft__checkpoint_run_words *const files = &w->save->files;
    for (size_t i = 0; i < files->count; i++) {
        w->text.len = 0;
        sft__base_buf_add(&w->text, files->list[i].text, files->list[i].len);
        SFT_TRY(inner_directory(w, files->list[i].name, false, err));
        SFT_TRY(put_text(w, files->list[i].name, &w->text, err));
    }
    for (size_t i = 0; i < files->count; i++) {
        SFT_TRY(inner_directory(w, files->list[i].name, true, err));
    }
    return SFT_OK;
}

static int fact_order(const void *a, const void *b) {
    return strcmp(((const sft__checkpoint_run_fact *)a)->name,
                  ((const sft__checkpoint_run_fact *)b)->name);
}

static sft_status write_manifest(writing *w, sft_error *err) {
    const sft_run_save *const s = w->save;
    sft__checkpoint_run_manifest m;
    memset(&m, 0, sizeof m);
    memcpy(m.id, w->run->id, sizeof m.id);
    m.step = s->step;
    m.time = s->time;
    m.processes = w->group != NULL ? w->group->size : 1;
    m.files = w->share.facts;
    m.count = w->share.count;
    m.metric_count = s->metrics.count;
    m.metrics = sft__base_arena_alloc(&w->save->arena, (m.metric_count + 1) * sizeof *m.metrics, 8);
    if (m.metrics == NULL) {
        return sft__base_fail_nomem(err, m.metric_count * sizeof *m.metrics);
    }
    for (size_t i = 0; i < m.metric_count; i++) {
        const sft__checkpoint_run_word *const word = &s->metrics.list[i];
        m.metrics[i].name = word->name;
        m.metrics[i].name_len = word->name_len;
        memcpy(&m.metrics[i].value, word->text, sizeof m.metrics[i].value);
    }
    qsort(m.files, m.count, sizeof *m.files, fact_order);
    w->text.len = 0;
    sft__checkpoint_run_manifest_text(&w->text, &m);
    if (w->text.len > SFT__RUN_TEXT_MAX) {
        return sft__base_fail(
            err, SFT_E_LIMIT, "manifest.json would have %llu bytes, the limit is %llu",
            (unsigned long long)w->text.len, (unsigned long long)SFT__RUN_TEXT_MAX);
    }
    SFT_TRY(sft__checkpoint_write_text(w->directory, SFT__RUN_MANIFEST, &w->text, w->durable, err));
    return w->durable ? sft__fs_sync_directory(w->directory, err) : SFT_OK;
}

/* ---------------------------------------------------------------- the directory */

static sft_status is_ours(const sft_run *run, sft_error *err) {
    sft__base_buf path;
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, SFT__RUN_LOCK, err);
    if (status == SFT_OK && !sft__fs_is_at(run->lock, path.data)) {
        status = sft__base_fail(
            err, SFT_E_STATE,
            "the directory \"%.200s\" was removed or replaced while the run was open", run->path);
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status look_around(writing *w, sft_error *err) {
    const sft_run *const run = w->run;
    sft__base_buf path;
    SFT_TRY(sft__checkpoint_run_list_new(&w->steps, run->allocator, err));
    SFT_TRY(sft__checkpoint_run_scan(w->steps, run->path, run->id, SFT_RUN_NONE, err));
    const sft__checkpoint_run_found *const newest =
        sft__checkpoint_run_newest(w->steps, w->save->step);
    if (newest == NULL) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, run->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, run->path, newest->told.name, err);
    if (status == SFT_OK) {
        w->older.manifest = &newest->manifest;
        w->older.path = sft__base_arena_copy(&w->steps->arena, path.data, path.len);
        status = w->older.path == NULL ? sft__base_fail_nomem(err, path.len) : SFT_OK;
    }
    sft__base_buf_reset(&path);
    return status;
}

/* A step of this number that is there was found to be no good, or is to be replaced. */
static sft_status commit(writing *w, sft_error *err) {
    char name[SFT__RUN_NAME];
    sft__base_buf target;
    sft__checkpoint_run_name(name, w->save->step);
    sft__base_buf_init(&target, w->run->allocator);
    sft_status status = sft__checkpoint_stage_path(&target, w->run->path, name, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_hide(w->run, w->save->step, err);
    }
    if (status == SFT_OK) {
        status = sft__fs_rename_new(w->directory, target.data, err);
    }
    sft__base_buf_reset(&target);
    return status;
}

/* Everything that this process writes but the manifest. */
static sft_status fill(writing *w, sft_error *err) {
    const sft_run_save *const s = w->save;
    uint64_t done = 0;
    SFT_TRY(look_around(w, err));
    for (size_t i = 0; i < s->plan_count; i++) {
        count_bytes(w, done, s->bytes);
        SFT_TRY(write_plan(w, &s->plans[i], err));
        done += s->plans[i].data_bytes;
    }
    if (w->group == NULL) {
        SFT_TRY(write_indexes(w, err));
    }
    SFT_TRY(write_state(w, err));
    return sft__checkpoint_run_rank(w->run) == 0 ? write_files(w, err) : SFT_OK;
}

static sft_status finish(writing *w, sft_error *err) {
    SFT_TRY(write_manifest(w, err));
    SFT_TRY(is_ours(w->run, err));
    return commit(w, err);
}

static sft_status write_alone(writing *w, sft_error *err) {
    SFT_TRY(is_ours(w->run, err));
    SFT_TRY(sft__checkpoint_run_make_staging(w->run, w->save, err));
    SFT_TRY(fill(w, err));
    return finish(w, err);
}

/* Rank 0 makes the step of everybody's files; the directory of a save that failed stays for the others to
 * read why, until the run is opened again. */
static sft_status write_together(writing *w, sft_error *err) {
    const bool first = w->group->rank == 0;
    sft_error why;
    sft_status status = fill(w, err);
    if (status == SFT_OK && first) {
        status = sft__checkpoint_run_gather(&w->share, &w->save->arena, err);
        status = status == SFT_OK ? finish(w, err) : status;
    }
    if (status != SFT_OK || !first) {
        memset(&why, 0, sizeof why);
        const sft_status noted =
            sft__checkpoint_run_note(&w->share, status, err, status == SFT_OK ? err : &why);
        status = status == SFT_OK ? noted : status;
    }
    return status == SFT_OK && !first ? sft__checkpoint_run_await(&w->share, err) : status;
}

/* Behind the rename the step is there; what fails then is told, but is no failure of it. */
static void follow(writing *w) {
    sft_error why;
    memset(&why, 0, sizeof why);
    sft_status status = w->durable ? sft__fs_sync_directory(w->run->path, &why) : SFT_OK;
    if (status == SFT_OK) {
        status = sft__checkpoint_run_write_latest(w->run, w->save->step, &why);
    } else {
        why.status = SFT_E_DURABILITY;
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_run_forget(w->run, w->save->step, &why);
    }
    if (status != SFT_OK) {
        sft__checkpoint_run_keep_failure(w->run, 0, &why);
    }
    sft__base_mutex_lock(&w->run->mutex);
    w->run->progress.linked += w->linked;
    w->run->progress.written += w->written;
    sft__base_mutex_unlock(&w->run->mutex);
}

sft_status sft__checkpoint_run_write(sft_run *run, sft_run_save *save, sft_error *err) {
    char hidden[SFT__RUN_HIDDEN];
    sft__base_buf directory;
    writing w;
    memset(&w, 0, sizeof w);
    w.run = run;
    w.save = save;
    w.group = sft__checkpoint_run_group(run);
    w.durable = run->options.durability == SFT_DURABLE_FULL;
    sft__base_buf_init(&w.text, run->allocator);
    sft__base_buf_init(&directory, run->allocator);
    sft__checkpoint_run_hidden(hidden, save->step, SFT__RUN_PART);
    sft_status status = sft__checkpoint_stage_path(&directory, run->path, hidden, err);
    if (status == SFT_OK) {
        w.directory = directory.data;
        w.share =
            (sft__checkpoint_run_share){.run = run, .save = save, .directory = directory.data};
        status = w.group != NULL ? write_together(&w, err) : write_alone(&w, err);
        if (status == SFT_OK && sft__checkpoint_run_rank(run) == 0) {
            follow(&w);
        } else if (status != SFT_OK && w.group == NULL) {
            (void)!sft__checkpoint_remove_tree(w.directory, run->allocator, NULL);
        }
    }
    sft_run_list_free(w.steps);
    sft__base_free(run->allocator, w.share.facts, w.share.room * sizeof *w.share.facts);
    sft__base_buf_reset(&w.text);
    sft__base_buf_reset(&directory);
    return status;
}
