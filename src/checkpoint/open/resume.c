/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/resume.c - the newest step of a training job's directory that is complete over all ranks,
 * and why newer ones are not. What is complete is found out by opening it. Read checkpoint/open/checkpoint.h
 * first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/run/steps.h"
#include "fs/file.h"
#include <stdio.h>
#include <stdlib.h>

struct sft_resume {
    sft_checkpoint *c;      /* for its arena and limits only */
    sft_resume_step *steps; /* newest first */
    size_t count;
    size_t room;
    size_t shown;  /* steps that were looked into */
    size_t chosen; /* shown - 1, or SIZE_MAX */
    const sft_checkpoint_options *options;
    bool ranks;       /* directories of ranks, each with files of all steps */
    bool flat;        /* a file for each step */
    uint64_t tracker; /* MindFormers' last committed iteration; UINT64_MAX: no tracker */
    uint64_t tensors; /* of the step that was looked into last; UINT64_MAX: not known */
    bool mute;        /* there is a tracker, and it names none */
    bool files;       /* Lightning's: a file for each step, which is all of it */
    bool run;         /* a training run of ours */
    sft__checkpoint_run_back mark;
    char id[SFT__RUN_ID + 1];
};

/* ---------------------------------------------------------------- lists */

static sft_status add_step(sft_resume *r, const sft_resume_step *step, sft_error *err) {
    SFT_NEED(sft__base_grow(r->c->allocator, &r->steps, &r->room, r->count + 1, sizeof *r->steps),
             (r->count + 1) * sizeof *r->steps, err);
    r->steps[r->count++] = *step;
    return SFT_OK;
}

static int newest_first(const void *a, const void *b) {
    const sft_resume_step *const x = a;
    const sft_resume_step *const y = b;
    if (x->epoch != y->epoch) {
        return x->epoch > y->epoch ? -1 : 1;
    }
    if (x->step != y->step) {
        return x->step > y->step ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static sft_status keep_text(sft_resume *r, const char *text, size_t len, const char **out,
                            sft_error *err) {
    *out = sft__base_arena_copy(&r->c->arena, text, len);
    return *out != NULL ? SFT_OK : sft__checkpoint_nomem(r->c, len, err);
}

/* ---------------------------------------------------------------- directories of ranks */

/* {"last_epoch": 3, "last_step": 2, ...}; false: none, or broken, and then nothing is known. */
static bool read_meta(sft_checkpoint *c, const char *directory, uint64_t *epoch, uint64_t *step) {
    sft__checkpoint_text text;
    const char *path;
    sft__layout_jnode *root;
    int64_t e = -1;
    int64_t s = -1;
    if (sft__checkpoint_path(c, directory, "meta.json", &path, NULL) != SFT_OK ||
        sft__checkpoint_read(c, path, &text, NULL) != SFT_OK) {
        return false;
    }
    const bool ok = sft__layout_jtree_parse(&root, &c->arena, text.data, text.size, "meta.json",
                                            NULL) == SFT_OK &&
                    sft__layout_jtree_int(sft__layout_jtree_get(root, "last_epoch"), &e) &&
                    sft__layout_jtree_int(sft__layout_jtree_get(root, "last_step"), &s) && e >= 0 &&
                    s >= 0;
    sft__checkpoint_text_reset(&text);
    if (ok) {
        *epoch = (uint64_t)e;
        *step = (uint64_t)s;
    }
    return ok;
}

static sft_status add_files(sft_resume *r, const sft__checkpoint_names *files, sft_error *err) {
    for (size_t i = 0; i < files->count; i++) {
        const char *const file = files->list[i];
        sft_resume_step step;
        memset(&step, 0, sizeof step);
        if (!sft__checkpoint_step_of(file, strlen(file), &step.epoch, &step.step)) {
            continue;
        }
        const char *const name = strrchr(file, '-'); /* "-3_02", as it is written */
        SFT_TRY(keep_text(r, name, (size_t)(strrchr(file, '.') - name), &step.name, err));
        step.path = r->c->directory;
        step.why = "";
        SFT_TRY(add_step(r, &step, err));
    }
    return SFT_OK;
}

/* Every step that some rank has; *epoch, *step: the least that a meta.json tells, if one does. */
static sft_status list_ranks(sft_resume *r, const sft__checkpoint_names *directories,
                             uint64_t *epoch, uint64_t *step, sft_error *err) {
    for (size_t i = 0; i < directories->count; i++) {
        sft__checkpoint_names files = {r->c, NULL, 0, 0, {".safetensors", ".ckpt"}};
        const char *directory;
        uint64_t rank, e, s;
        if (!sft__checkpoint_rank_of(directories->list[i], strlen(directories->list[i]), &rank)) {
            continue;
        }
        SFT_TRY(sft__checkpoint_path(r->c, r->c->directory, directories->list[i], &directory, err));
        if (read_meta(r->c, directory, &e, &s) && (e < *epoch || (e == *epoch && s < *step))) {
            *epoch = e;
            *step = s;
        }
        sft_status status =
            sft__fs_is_directory(directory) ? sft__checkpoint_list(&files, directory, err) : SFT_OK;
        if (status == SFT_OK) {
            status = add_files(r, &files, err);
        }
        sft__checkpoint_names_reset(&files);
        SFT_TRY(status);
    }
    return SFT_OK;
}

static bool is_same_step(const sft_resume_step *a, const sft_resume_step *b) {
    return a->epoch == b->epoch && a->step == b->step;
}

/* Newest first, each once; epoch, step: of meta.json. */
static void sort_steps(sft_resume *r, uint64_t epoch, uint64_t step) {
    size_t n = 0;
    if (r->count > 1) {
        qsort(r->steps, r->count, sizeof *r->steps, newest_first);
    }
    for (size_t i = 0; i < r->count; i++) { /* each once */
        if (n == 0 || strcmp(r->steps[n - 1].name, r->steps[i].name) != 0) {
            r->steps[n] = r->steps[i];
            if (r->steps[n].epoch > epoch ||
                (r->steps[n].epoch == epoch && r->steps[n].step > step)) {
                r->steps[n].why = "a rank's meta.json does not have it yet";
            }
            if (n > 0 && is_same_step(&r->steps[n - 1], &r->steps[n])) { /* -1_2 and -1_02 */
                r->steps[n - 1].why = "the names of its files write the step in two ways";
                r->steps[n].why = r->steps[n - 1].why;
            }
            n++;
        }
    }
    r->count = n;
}

static sft_status collect_ranks(sft_resume *r, const sft__checkpoint_names *directories,
                                sft_error *err) {
    uint64_t epoch = UINT64_MAX;
    uint64_t step = UINT64_MAX;
    SFT_TRY(list_ranks(r, directories, &epoch, &step, err));
    sort_steps(r, epoch, step);
    return SFT_OK;
}

/* A file for each step, in the directory itself. */
static sft_status collect_flat(sft_resume *r, sft_error *err) {
    sft__checkpoint_names files = {r->c, NULL, 0, 0, {".safetensors", ".ckpt"}};
    uint64_t epoch = UINT64_MAX;
    uint64_t step = UINT64_MAX;
    (void)read_meta(r->c, r->c->directory, &epoch, &step);
    sft_status status = sft__checkpoint_list(&files, r->c->directory, err);
    if (status == SFT_OK) {
        status = add_files(r, &files, err);
    }
    sft__checkpoint_names_reset(&files);
    r->flat = r->count != 0;
    sort_steps(r, epoch, step);
    return status;
}

/* ---------------------------------------------------------------- a directory for each step */

/* What holds a part of a model is no step of its training: mp_rank_01, Shard-2, tp_1. `end`: of the
 * word before the number and its separator. */
static bool is_part(const char *name, size_t end) {
    static const char *const words[] = {"rank", "shard",  "part",    "stage",  "layer", "node",
                                        "host", "worker", "process", "device", "gpu",   "tp",
                                        "pp",   "dp",     "mp",      "ep",     "cp",    "fsdp"};
    size_t begin = end;
    while (begin > 0 && ((name[begin - 1] | 32) >= 'a' && (name[begin - 1] | 32) <= 'z')) {
        begin--;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = 0;
        while (n < end - begin && (name[begin + n] | 32) == words[i][n]) {
            n++;
        }
        if (n == end - begin && words[i][n] == '\0') {
            return true;
        }
    }
    return false;
}

static bool numbered(const char *name, uint64_t *number) {
    const size_t len = strlen(name);
    size_t at = len;
    *number = 0;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    if (at == len || len - at > 18 || at == 0 || (name[at - 1] != '-' && name[at - 1] != '_') ||
        is_part(name, at - 1)) {
        return false;
    }
    for (size_t i = at; i < len; i++) {
        *number = *number * 10 + (uint64_t)(name[i] - '0'); /* below 10^18 */
    }
    return true;
}

static sft_status read_tracker(sft_resume *r, sft_error *err) {
    sft__checkpoint_text text;
    const char *path;
    size_t n = 0;
    r->tracker = UINT64_MAX;
    SFT_TRY(sft__checkpoint_path(r->c, r->c->directory, "latest_checkpointed_iteration.txt", &path,
                                 err));
    if (sft__checkpoint_read(r->c, path, &text, NULL) != SFT_OK) {
        return SFT_OK;
    }
    uint64_t v = 0;
    while (n < text.size && n < 18 && text.data[n] >= '0' && text.data[n] <= '9') {
        v = v * 10 + (uint64_t)(text.data[n++] - '0');
    }
    const bool ends = n == text.size || text.data[n] == '\n' || text.data[n] == '\r';
    const bool release =
        text.size >= 7 && memcmp(text.data, "release", 7) == 0; /* Megatron's: no step */
    r->tracker = n != 0 ? v : UINT64_MAX;
    r->mute = !release && (n == 0 || !ends);
    sft__checkpoint_text_reset(&text);
    return SFT_OK;
}

/* Else a run.json that cannot be read is another program's. */
static bool has_steps_of_run(const sft__checkpoint_names *names) {
    uint64_t step;
    for (size_t i = 0; i < names->count; i++) {
        if (sft__checkpoint_run_is_name(names->list[i], &step)) {
            return true;
        }
    }
    return false;
}

static sft_status see_mark(void *ctx, const char *name, size_t len, sft_error *err) {
    sft_resume *const r = ctx;
    (void)len;
    (void)err;
    (void)sft__checkpoint_run_see_back(&r->mark, name);
    return SFT_OK;
}

/* Where run.json was lost the newest complete step says which run this is, as it does for a writer; one
 * above the mark of a rewind only if there is no other. */
static sft_status find_lost_run(sft_resume *r, const sft__checkpoint_names *names, sft_error *err) {
    const sft__checkpoint_run_found *newest = NULL;
    sft_run_list *list;
    SFT_TRY(sft__checkpoint_run_list_new(&list, r->c->allocator, err));
    list->all = true;
    sft_status status = sft__checkpoint_run_scan(list, r->c->directory, "", SFT_RUN_NONE, err);
    for (size_t i = 0; i < list->count && status == SFT_OK; i++) {
        const sft__checkpoint_run_found *const s = &list->steps[i];
        if (s->told.complete &&
            (newest == NULL || !sft__checkpoint_run_is_above(&r->mark, s->told.step))) {
            newest = s;
        }
    }
    if (newest != NULL) {
        memcpy(r->id, newest->manifest.id, sizeof r->id);
        r->run = true;
    }
    sft_run_list_free(list);
    for (size_t i = 0; i < names->count && status == SFT_OK && !r->run; i++) {
        sft__checkpoint_run_manifest m;
        uint64_t step;
        const char *path;
        if (sft__checkpoint_run_is_name(names->list[i], &step)) {
            status = sft__checkpoint_path(r->c, r->c->directory, names->list[i], &path, err);
            r->run = status == SFT_OK &&
                     sft__checkpoint_run_manifest_read(&m, path, &r->c->arena, NULL) == SFT_OK;
        }
    }
    return status;
}

/* Is it a training run of ours, and which one? */
static sft_status find_run(sft_resume *r, const sft__checkpoint_names *names, sft_error *err) {
    sft_error why;
    memset(&why, 0, sizeof why);
    const bool steps = has_steps_of_run(names);
    const sft_status told = sft__checkpoint_run_id_read(r->id, r->c->directory, &r->c->arena, &why);
    if (told == SFT_E_UNSUPPORTED || told == SFT_E_NOMEM || (told != SFT_OK && steps)) {
        return sft_error_from(err, told, &why, "%s", why.message);
    }
    r->run = told == SFT_OK && r->id[0] != '\0';
    if (r->run || (told == SFT_OK && steps)) {
        SFT_TRY(sft__fs_list(r->c->directory, see_mark, r, err));
    }
    return told == SFT_OK && steps && !r->run ? find_lost_run(r, names, err) : SFT_OK;
}

static sft_status collect_directories(sft_resume *r, const sft__checkpoint_names *names,
                                      sft_error *err) {
    SFT_TRY(read_tracker(r, err));
    for (size_t i = 0; i < names->count; i++) {
        sft_resume_step step;
        memset(&step, 0, sizeof step);
        if (r->run ? !sft__checkpoint_run_is_name(names->list[i], &step.step)
                   : !numbered(names->list[i], &step.step)) {
            continue;
        }
        step.name = names->list[i];
        step.why = strncmp(step.name, "tmp", 3) == 0
                       ? "a job writes into such a directory before it renames it"
                   : r->mute ? "perhaps not committed: the tracker holds no number of an iteration"
                   : step.step > r->tracker ? "not committed: the tracker names an older iteration"
                   : sft__checkpoint_run_is_above(&r->mark, step.step)
                       ? "a rewind to an older step has begun: nobody takes it"
                       : "";
        SFT_TRY(sft__checkpoint_path(r->c, r->c->directory, names->list[i], &step.path, err));
        if (sft__fs_is_directory(step.path)) {
            SFT_TRY(add_step(r, &step, err));
        }
    }
    if (r->count > 1) {
        qsort(r->steps, r->count, sizeof *r->steps, newest_first);
    }
    return SFT_OK;
}

/* Lightning's files: "epoch=3-step=1200.ckpt", with other things before and between, perhaps. */
static bool take_after(const char *name, const char *word, uint64_t *value) {
    const char *p = strstr(name, word);
    size_t n = 0;
    *value = 0;
    for (p = p != NULL ? p + strlen(word) : ""; p[n] >= '0' && p[n] <= '9' && n < 18; n++) {
        *value = *value * 10 + (uint64_t)(p[n] - '0');
    }
    return n > 0;
}

static sft_status collect_lightning(sft_resume *r, sft_error *err) {
    sft__checkpoint_names files = {r->c, NULL, 0, 0, {".ckpt", NULL}};
    sft_status status = sft__checkpoint_list(&files, r->c->directory, err);
    for (size_t i = 0; i < files.count && status == SFT_OK; i++) {
        sft_resume_step step;
        memset(&step, 0, sizeof step);
        step.name = files.list[i];
        step.why = "";
        if (take_after(step.name, "step=", &step.step)) { /* steps are counted through */
            status = sft__checkpoint_path(r->c, r->c->directory, step.name, &step.path, err);
            if (status == SFT_OK) {
                status = add_step(r, &step, err);
            }
        }
    }
    sft__checkpoint_names_reset(&files);
    r->files = r->count != 0;
    if (r->count > 1) {
        qsort(r->steps, r->count, sizeof *r->steps, newest_first);
    }
    return status;
}

/* ---------------------------------------------------------------- is it complete? */

static bool is_filled(const char *path) {
    sft_source *source;
    if (sft_source_open(&source, path, SFT_ACCESS_READ, NULL, NULL) != SFT_OK) {
        return false;
    }
    const bool filled = sft_source_size(source) != 0;
    sft_source_close(source);
    return filled;
}

/* A file that the trainer was writing when it was killed is none. */
static sft_status check_state(const sft_resume *r, const char *path, sft_error *why) {
    sft__checkpoint_text text;
    sft__layout_jnode *root;

    if (sft__checkpoint_read(r->c, path, &text, NULL) != SFT_OK) {
        return sft__base_fail(why, SFT_E_NOT_FOUND, "there is no trainer_state.json");
    }
    sft_status status = sft__layout_jtree_parse(&root, &r->c->arena, text.data, text.size,
                                                "trainer_state.json", why);
    sft__checkpoint_text_reset(&text);
    if (status == SFT_OK && root->type != SFT__J_OBJECT) {
        status = sft__base_fail(why, SFT_E_SCHEMA, "trainer_state.json: no JSON object");
    }
    return status;
}

/* What a trainer writes whose state was elsewhere when it saved is nothing to go on from. */
static sft_status check_tensors(sft_resume *r, const sft_catalog *catalog, sft_error *why) {
    r->tensors = sft_catalog_count(catalog);
    return r->tensors != 0
               ? SFT_OK
               : sft__base_fail(why, SFT_E_NOT_FOUND, "its weights are files without a tensor");
}

/* optimizer.safetensors, scheduler.bin and their like are the trainer's state, no weights. */
static bool is_of_trainer(const char *path) {
    static const char *const words[] = {"optimizer", "optim",     "scheduler",  "lr_scheduler",
                                        "scaler",    "rng_state", "rng_states", "random_states"};
    const char *base = path;
    for (const char *p = path; *p != '\0'; p++) {
        base = *p == '/' || *p == '\\' ? p + 1 : base;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i]);
        const bool begins = strncmp(base, words[i], n) == 0;
        if (begins && ((base[n] | 32) < 'a' || (base[n] | 32) > 'z')) { /* not "optimized" */
            return true;
        }
    }
    return false;
}

static sft_status check_weights(sft_resume *r, const sft_catalog *catalog, sft_error *why) {
    const size_t count = sft_catalog_file_count(catalog);
    size_t i = 0;
    SFT_TRY(check_tensors(r, catalog, why));
    while (i < count && is_of_trainer(sft_catalog_file_at(catalog, i)->path)) {
        i++;
    }
    return i < count || count == 0
               ? SFT_OK
               : sft__base_fail(why, SFT_E_NOT_FOUND,
                                "it has no weights but the state of an optimizer or scheduler");
}

/* torch.save writes no empty file: one of 0 bytes was begun, no more. Beside the weights, which are
 * opened, these are the states of optimizers, schedulers and engines, which only Python reads. */
static bool is_state(const char *name) {
    const size_t len = strlen(name);
    return sft__checkpoint_ends(name, len, ".pt") || sft__checkpoint_ends(name, len, ".pth") ||
           (sft__checkpoint_ends(name, len, ".bin") && is_of_trainer(name));
}

static bool is_begun(const char *path) {
    sft__fs_stat fact;
    return sft__fs_look(path, &fact, NULL) == SFT_OK && fact.exists && fact.regular &&
           fact.size == 0;
}

/* directories: gets those in the directory; NULL: they are passed over. */
static sft_status check_files(const sft_resume *r, const char *directory,
                              sft__checkpoint_names *directories, sft_error *why) {
    sft__checkpoint_names all = {r->c, NULL, 0, 0, {NULL, NULL}};
    sft_status status = sft__checkpoint_list(&all, directory, why);

    for (size_t i = 0; i < all.count && status == SFT_OK; i++) {
        const bool state = is_state(all.list[i]);
        const char *path;
        if (!state && directories == NULL) {
            continue;
        }
        status = sft__checkpoint_path(r->c, directory, all.list[i], &path, why);
        if (status == SFT_OK && state && is_begun(path)) {
            status = sft__base_fail(why, SFT_E_FORMAT, "%.200s is empty", all.list[i]);
        } else if (status == SFT_OK && directories != NULL && sft__fs_is_directory(path)) {
            if (!sft__base_grow(r->c->allocator, &directories->list, &directories->room,
                                directories->count + 1, sizeof *directories->list)) {
                status = sft__base_fail_nomem(why, directories->count);
            } else {
                directories->list[directories->count++] = path;
            }
        }
    }
    sft__checkpoint_names_reset(&all);
    return status;
}

/* In the directory of a step, and one level below (DeepSpeed's global_stepN). */
static sft_status check_begun(const sft_resume *r, const char *directory, sft_error *why) {
    sft__checkpoint_names below = {r->c, NULL, 0, 0, {NULL, NULL}};
    sft_status status = check_files(r, directory, &below, why);

    for (size_t i = 0; i < below.count && status == SFT_OK; i++) {
        status = check_files(r, below.list[i], NULL, why);
        status = status == SFT_E_IO ? SFT_OK : status; /* not ours to look into */
    }
    sft__checkpoint_names_reset(&below);
    return status;
}

/* A checkpoint of many ranks: all of it can be put together. */
static sft_status try_checkpoint(sft_resume *r, const sft_resume_step *step, sft_error *why) {
    sft_checkpoint_options options;
    sft_checkpoint *c;
    sft_catalog *global;
    SFT_TRY(sft__base_options_read(&options, sizeof options, r->options,
                                   SFT__UP_TO(sft_checkpoint_options, open), "options", why));
    options.step = r->ranks || r->flat ? step->name : NULL;
    options.flags = 0;
    SFT_TRY(sft_checkpoint_open(&c, step->path, &options, why));
    sft_status status = sft_checkpoint_take_global(&global, c, options.open, why);
    if (status == SFT_OK) {
        status = check_tensors(r, global, why);
        sft_catalog_close(global);
    }
    return status;
}

/* PyTorch's own form, which it finishes with .metadata: every file that it names must be there and
 * as long, and the boxes of every tensor must fill it. *is: there is such a description. What the
 * reader does not know, and what nobody here reads, speaks for no gap. */
static sft_status try_described(sft_resume *r, const sft_resume_step *step, bool *is,
                                sft_error *why) {
    const char *metadata;
    sft_catalog *catalog;
    SFT_TRY(sft__checkpoint_path(r->c, step->path, ".metadata", &metadata, why));
    *is = is_filled(metadata);
    if (!*is || r->c->other == NULL) {
        return SFT_OK;
    }
    const sft_status status = r->c->other(r->c->other_ctx, metadata, &r->c->open, &catalog, why);
    if (status == SFT_OK) {
        r->tensors = sft_catalog_count(catalog);
        sft_catalog_close(catalog);
    }
    *is = status != SFT_E_FORMAT; /* another program's .metadata */
    return status == SFT_E_UNSUPPORTED || status == SFT_E_LIMIT || !*is ? SFT_OK : status;
}

/* A directory of one model, which the trainer finishes with trainer_state.json; or PyTorch's own. */
static sft_status try_plain(sft_resume *r, const sft_resume_step *step, sft_error *why) {
    const char *state;
    sft_catalog *catalog;
    bool described;
    SFT_TRY(sft__checkpoint_path(r->c, step->path, "trainer_state.json", &state, why));
    SFT_TRY(try_described(r, step, &described, why));
    if (described) {
        return SFT_OK;
    }
    sft_status status = sft_catalog_open(&catalog, step->path, &r->c->open, why);
    if (status == SFT_E_FORMAT && r->c->other != NULL) { /* pytorch_model.bin */
        sft_error other;
        memset(&other, 0, sizeof other);
        status = r->c->other(r->c->other_ctx, step->path, &r->c->open, &catalog, &other);
        if (status != SFT_OK && status != SFT_E_FORMAT && status != SFT_E_NOT_REGULAR) {
            *why = other; /* else what the directory lacks says more */
        }
    }
    SFT_TRY(status);
    status = check_weights(r, catalog, why);
    sft_catalog_close(catalog);
    SFT_TRY(status);
    return strncmp(step->name, "checkpoint-", 11) == 0 ? check_state(r, state, why) : SFT_OK;
}

/* A step of a run of ours says itself what belongs to it. */
static sft_status try_run_step(sft_resume *r, const sft_resume_step *step, sft_error *why) {
    sft__checkpoint_run_found found;
    sft_run_list *list;
    memset(&found, 0, sizeof found);
    found.told.name = step->name;
    found.told.step = step->step;
    found.told.why = "";
    SFT_TRY(sft__checkpoint_run_list_new(&list, r->c->allocator, why));
    sft_status status = sft__checkpoint_run_look(list, &found, r->c->directory, r->id, why);
    if (status == SFT_OK && !found.told.complete) {
        status = sft__base_fail(why, SFT_E_MISMATCH, "%s", found.told.why);
    }
    sft_run_list_free(list);
    return status;
}

static sft_status try_file(sft_resume *r, const sft_resume_step *step, sft_error *why) {
    sft_catalog *catalog;
    if (r->c->other == NULL) {
        return sft__base_fail(why, SFT_E_UNSUPPORTED, "nobody here reads it");
    }
    SFT_TRY(r->c->other(r->c->other_ctx, step->path, &r->c->open, &catalog, why));
    const sft_status status = check_tensors(r, catalog, why);
    sft_catalog_close(catalog);
    return status;
}

/* accelerate writes the states of random generators last. */
static sft_status check_accelerate(sft_resume *r, const sft_resume_step *step, sft_error *why) {
    const char *optimizer;
    const char *states;
    if (strncmp(step->name, "checkpoint_", 11) != 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_path(r->c, step->path, "optimizer.bin", &optimizer, why));
    SFT_TRY(sft__checkpoint_path(r->c, step->path, "random_states_0.pkl", &states, why));
    return !is_filled(optimizer) || is_filled(states)
               ? SFT_OK
               : sft__base_fail(why, SFT_E_NOT_FOUND,
                                "there is no random_states_0.pkl, which accelerate writes last");
}

static bool is_of_the_machine(sft_status status) {
    return status == SFT_E_NOMEM || status == SFT_E_ARG || status == SFT_E_CANCELLED;
}

static sft_status try_step(sft_resume *r, const sft_resume_step *step, sft_error *why) {
    uint32_t kind = SFT_CHECKPOINT_RANKS;
    if (r->files) {
        return try_file(r, step, why);
    }
    if (r->run) {
        return try_run_step(r, step, why);
    }
    if (!r->ranks && !r->flat) {
        SFT_TRY(sft_checkpoint_detect(step->path, &kind, why));
        SFT_TRY(check_begun(r, step->path, why));
        SFT_TRY(check_accelerate(r, step, why));
    }
    return kind != SFT_CHECKPOINT_NONE ? try_checkpoint(r, step, why) : try_plain(r, step, why);
}

static sft_status look_into(sft_resume *r, sft_resume_step *step, sft_error *err) {
    sft_error why;
    char text[sizeof why.tensor + sizeof why.message + 16];
    r->tensors = UINT64_MAX;
    if (step->why[0] != '\0') {
        return SFT_OK;
    }
    memset(&why, 0, sizeof why);
    const sft_status status = try_step(r, step, &why);
    if (is_of_the_machine(status)) {
        return sft_error_from(err, status, &why, "%s: %s", step->name, why.message);
    }
    step->complete = status == SFT_OK;
    if (status != SFT_OK) {
        (void)snprintf(text, sizeof text, "%s%s%s%s", why.tensor[0] != '\0' ? "tensor \"" : "",
                       why.tensor, why.tensor[0] != '\0' ? "\": " : "", why.message);
        return keep_text(r, text, strlen(text), &step->why, err);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all of it */

static sft_status collect(sft_resume *r, sft_error *err) {
    sft__checkpoint_names names = {r->c, NULL, 0, 0, {NULL, NULL}};
    uint64_t rank;
    sft_status status = sft__checkpoint_list(&names, r->c->directory, err);
    if (status == SFT_OK) {
        status = find_run(r, &names, err);
    }
    for (size_t i = 0; i < names.count && !r->run; i++) {
        r->ranks = r->ranks || sft__checkpoint_rank_of(names.list[i], strlen(names.list[i]), &rank);
    }
    if (status == SFT_OK) {
        status = r->ranks ? collect_ranks(r, &names, err) : collect_directories(r, &names, err);
    }
    sft__checkpoint_names_reset(&names);
    if (status == SFT_OK && r->count == 0 && !r->ranks) {
        status = collect_flat(r, err);
    }
    if (status == SFT_OK && r->count == 0 && !r->ranks) {
        status = collect_lightning(r, err);
    }
    if (status == SFT_OK && r->count == 0) {
        return sft__base_fail(err, SFT_E_FORMAT, "the directory holds no steps of a training job");
    }
    return status;
}

/* Fewer tensors than the step before it had: perhaps a part of the job did not save. The older one
 * is the next that is complete. */
static sft_status compare_older(sft_resume *r, sft_error *err) {
    const uint64_t have = r->tensors;
    char text[300];
    for (size_t i = r->shown; i < r->count && have != UINT64_MAX; i++) {
        sft_resume_step older = r->steps[i];
        SFT_TRY(look_into(r, &older, err));
        if (older.complete && r->tensors != UINT64_MAX && r->tensors > have) {
            (void)snprintf(text, sizeof text, "it has %llu tensors, %.200s before it has %llu",
                           (unsigned long long)have, older.name, (unsigned long long)r->tensors);
            return keep_text(r, text, strlen(text), &r->steps[r->chosen].why, err);
        }
        if (older.complete) {
            break;
        }
    }
    return SFT_OK;
}

static sft_status find(sft_resume *r, sft_error *err) {
    SFT_TRY(collect(r, err));
    r->chosen = SIZE_MAX;
    for (; r->shown < r->count; r->shown++) {
        SFT_TRY(look_into(r, &r->steps[r->shown], err));
        if (r->steps[r->shown].complete) {
            r->chosen = r->shown++;
            return compare_older(r, err);
        }
    }
    return SFT_OK;
}

sft_status sft_resume_find(sft_resume **out, const char *path,
                           const sft_checkpoint_options *options, sft_error *err) {
    sft_checkpoint *c;
    *out = NULL;
    SFT_TRY(sft__checkpoint_create(&c, options, err));
    sft_resume *const r = sft__base_alloc_zero(c->allocator, sizeof *r);
    if (r == NULL) {
        sft_checkpoint_close(c);
        return sft__base_fail_nomem(err, sizeof *r);
    }
    r->c = c;
    r->options = options;
    c->directory = sft__base_arena_copy(&c->arena, path, strlen(path));
    const sft_status status =
        c->directory != NULL ? find(r, err) : sft__checkpoint_nomem(c, strlen(path), err);
    r->options = NULL;
    if (status != SFT_OK) {
        sft_resume_free(r);
        return status;
    }
    *out = r;
    return SFT_OK;
}

const sft_resume_step *sft_resume_at(const sft_resume *resume, size_t index) {
    return index < resume->shown ? &resume->steps[index] : NULL;
}

const sft_resume_step *sft_resume_chosen(const sft_resume *resume) {
    return resume->chosen < resume->shown ? &resume->steps[resume->chosen] : NULL;
}

void sft_resume_free(sft_resume *resume) {
    if (resume == NULL) {
        return;
    }
    sft_checkpoint *const c = resume->c;
    sft__base_free(c->allocator, resume->steps, resume->room * sizeof *resume->steps);
    sft__base_free(c->allocator, resume, sizeof *resume);
    sft_checkpoint_close(c);
}
