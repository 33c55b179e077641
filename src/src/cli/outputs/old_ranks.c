/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/old_ranks.c - see old_ranks.h.
 */
#include "cli/outputs/old_ranks.h"
#include "cli/operands/ranks.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- what lies there */

typedef struct listing {
    const char *prefix; /* "rank_3/", or "" for the target itself */
    char **names;
    size_t count;
    bool folders;
} listing;

static void on_entry(void *ctx, const char *name, bool is_folder) {
    listing *l = ctx;
    const bool weights = cli_ends_with(name, ".safetensors") || cli_ends_with(name, ".ckpt");

    if (name[0] == '.' || is_folder != l->folders ||
        (is_folder ? strncmp(name, "rank_", 5) != 0 : !weights)) {
        return;
    }
    char *path = cli_alloc(strlen(l->prefix) + strlen(name) + 2, 1);
    (void)snprintf(path, strlen(l->prefix) + strlen(name) + 2, "%s%s%s", l->prefix, name,
                   is_folder ? "/" : "");
    l->names = cli_resize(l->names, l->count + 1, sizeof *l->names);
    l->names[l->count++] = path;
}

static void free_names(listing *l) {
    for (size_t i = 0; i < l->count; i++) {
        free(l->names[i]);
    }
    free(l->names);
}

static bool is_in(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Weights of other names below rank_N, relative to the directory. */
static void list_others(cli_old_ranks *old, const char *const *planned, size_t count) {
    listing folders = {"", NULL, 0, true};

    (void)cli_sys_list(old->folder, on_entry, &folders);
    for (size_t i = 0; i < folders.count; i++) {
        listing files = {folders.names[i], NULL, 0, false};
        char *path = cli_path_in(old->folder, folders.names[i]);
        (void)cli_sys_list(path, on_entry, &files);
        for (size_t k = 0; k < files.count; k++) {
            if (!is_in(planned, count, files.names[k])) {
                char *file = cli_path_in(old->folder, files.names[k]);
                old->files = cli_resize(old->files, old->count + 1, sizeof *old->files);
                old->stamps = cli_resize(old->stamps, old->count + 1, sizeof *old->stamps);
                old->stamps[old->count] = cli_sys_stamp(file);
                old->files[old->count++] = files.names[k];
                free(file);
                files.names[k] = NULL;
            }
        }
        free(path);
        free_names(&files);
    }
    free_names(&folders);
}

static const char *const records[] = {"dedupe.json", "layout.json"}; /* spoke of its files */

static uint64_t stamp_of(const cli_old_ranks *old, const char *name) {
    char *path = cli_path_in(old->folder, name);
    const uint64_t stamp = cli_sys_stamp(path);
    free(path);
    return stamp;
}

static void forget(cli_old_ranks *old) {
    for (size_t i = 0; i < old->count; i++) {
        free(old->files[i]);
    }
    free(old->files);
    free(old->stamps);
    memset(old, 0, sizeof *old);
}

char *cli_old_ranks_first(const char *folder, const char *const *planned, size_t count) {
    cli_old_ranks old = {.folder = folder};
    char *first = NULL;

    list_others(&old, planned, count);
    if (old.count > 0) {
        first = old.files[0];
        old.files[0] = NULL;
    }
    forget(&old);
    return first;
}

/* ---------------------------------------------------------------- whose they are */

/* No link leads out of the directory. */
static bool is_here(const cli_old_ranks *old, const char *name) {
    char *path = cli_path_in(old->folder, name);
    char *folder = cli_path_in(old->folder, name);

    *strrchr(folder, '/') = '\0';
    const bool here = !cli_sys_is_link(folder) && !cli_sys_is_link(path);
    free(folder);
    free(path);
    return here;
}

/* Is the file one of the ranks' of this checkpoint? */
static bool belongs(const cli_old_ranks *old, const char *name, const sft_rank_part *parts,
                    size_t count) {
    char *path = cli_path_in(old->folder, name);
    bool found = false;

    for (size_t i = 0; i < count && !found; i++) {
        found = sft_catalog_file_count(parts[i].catalog) == 1 &&
                cli_sys_same_file(sft_catalog_file_at(parts[i].catalog, 0)->path, path);
    }
    free(path);
    return found && is_here(old, name);
}

/* All of them are of the model whose layout.json lies there: it opens, and is whole. */
static bool proven(const cli_old_ranks *old) {
    char *layout = cli_path_in(old->folder, "layout.json");
    sft_checkpoint_options o;
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *whole = NULL;
    size_t count = 0;
    bool all = false;

    SFT_INIT(&o);
    if (sft_checkpoint_open(&checkpoint, old->folder, &o, NULL) == SFT_OK) {
        const sft_rank_part *parts = sft_checkpoint_ranks(checkpoint, &count);
        all = sft_checkpoint_kind_of(checkpoint) == SFT_CHECKPOINT_RANKS &&
              cli_sys_same_file(sft_checkpoint_layout_path(checkpoint), layout) &&
              sft_checkpoint_join_ranks(&whole, checkpoint, NULL, NULL) == SFT_OK;
        sft_catalog_close(whole);
        for (size_t i = 0; i < old->count; i++) {
            all = all && belongs(old, old->files[i], parts, count);
        }
        sft_checkpoint_close(checkpoint);
    }
    free(layout);
    return all;
}

/* ---------------------------------------------------------------- the journal */

static const char journal[] = ".layout.json.sft-older"; /* a name in each line */

/* A run that was killed has named all of them. */
static bool is_named(const cli_old_ranks *old) {
    enum { MOST = 16 << 20 };
    char *path = cli_path_in(old->folder, journal);
    sft_source *source;
    bool all = false;

    if (!cli_sys_is_link(path) &&
        sft_source_open(&source, path, SFT_ACCESS_READ, NULL, NULL) == SFT_OK) {
        const size_t size = sft_source_size(source) < MOST ? (size_t)sft_source_size(source) : 0;
        char *text = cli_alloc(size + 2, 1);
        text[0] = '\n';
        all = size > 0 && sft_source_read(source, 0, text + 1, size, NULL) == SFT_OK;
        for (size_t i = 0; i < old->count && all; i++) {
            char *line = cli_alloc(strlen(old->files[i]) + 3, 1);
            (void)snprintf(line, strlen(old->files[i]) + 3, "\n%s\n", old->files[i]);
            all = strstr(text, line) != NULL && is_here(old, old->files[i]);
            free(line);
        }
        free(text);
        sft_source_close(source);
    }
    free(path);
    return all;
}

bool cli_old_ranks_begin(cli_old_ranks *old, cli *c) {
    cli_sys_file file;
    char why[160];

    if (old->count == 0 || old->journal || c->out.mute) {
        return true;
    }
    char *path = cli_path_in(old->folder, journal);
    int error = cli_sys_create(&file, path, true);
    for (size_t i = 0; i < old->count && error == 0; i++) {
        error = cli_sys_put(&file, old->files[i], strlen(old->files[i]));
        error = error == 0 ? cli_sys_put(&file, "\n", 1) : error;
    }
    error = error == 0 ? cli_sys_commit(&file) : error;
    old->journal = error == 0;
    if (error != 0) {
        sft_error err;
        (void)sft_error_set(&err, SFT_E_IO, error, SFT_NO_OFFSET, NULL, 0, "cannot write: %s",
                            cli_sys_text(error, why, sizeof why));
        cli_fail_plainly(c, path, &err);
    }
    free(path);
    return error == 0;
}

/* ---------------------------------------------------------------- refusing, removing */

static bool refuse(cli *c, const char *folder, const char *what, const char *why) {
    sft_error err;

    (void)sft_error_set(&err, SFT_E_EXISTS, 0, SFT_NO_OFFSET, NULL, 0, "%s: %s", what, why);
    cli_fail_plainly(c, folder, &err);
    return false;
}

/* Files of ranks are written, and a record of other ones lies there. */
static bool find_record(cli_old_ranks *old, cli *c, const char *const *planned, size_t count) {
    for (size_t i = 0; i < count && old->records[0] != 0; i++) {
        old->record = old->record || strncmp(planned[i], "rank_", 5) == 0;
    }
    old->record = old->record && !is_in(planned, count, records[0]);
    return !old->record || c->force ||
           refuse(c, old->folder, "dedupe.json of another model lies there",
                  "--force removes it with what it speaks of");
}

bool cli_old_ranks_find(cli_old_ranks *old, cli *c, const char *folder, const char *const *planned,
                        size_t count) {

    memset(old, 0, sizeof *old);
    old->folder = folder;
    if (cli_sys_kind(folder) != CLI_KIND_FOLDER) {
        return true;
    }
    list_others(old, planned, count);
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        old->records[i] = stamp_of(old, records[i]);
    }
    if (old->count == 0) { /* all of them went before the run was killed */
        char *path = cli_path_in(folder, journal);
        old->journal = c->force && cli_sys_kind(path) == CLI_KIND_FILE && !cli_sys_is_link(path);
        free(path);
        return find_record(old, c, planned, count);
    }
    if (c->force) {
        old->journal = is_named(old);
        if (old->journal || proven(old)) {
            return true;
        }
    }
    char text[600];
    (void)snprintf(
        text, sizeof text, "%.400s%s of another model, and readers would take %s for this one's",
        old->files[0], old->count > 1 ? " and others are" : " is", old->count > 1 ? "them" : "it");
    return refuse(c, folder, text,
                  c->force ? "nothing proves that they may be removed"
                           : "--force removes an older model that its layout.json proves");
}

static void replaced(cli *c, const char *path) {
    sft_error err;
    (void)sft_error_set(&err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                        "was replaced by another process meanwhile, and stays");
    cli_fail_plainly(c, path, &err);
}

static void remove_one(cli *c, const char *path, uint64_t stamp) {
    const uint64_t now = cli_sys_stamp(path);

    if (now != 0 && now != stamp) {
        replaced(c, path);
        return;
    }
    char *beside = cli_alloc(strlen(path) + sizeof ".digests.json", 1);
    (void)snprintf(beside, strlen(path) + sizeof ".digests.json", "%s.digests.json", path);
    if (remove(path) != 0 && cli_sys_kind(path) != CLI_KIND_NONE) {
        cli_warn(c, path, "is of the older model, and cannot be removed");
        cli_answer(c, CLI_SYSTEM);
    }
    (void)remove(beside);
    free(beside);
}

/* Also those that a run which was killed has emptied: a rank without a file is one that is missing.
 */
static void remove_empty(const cli_old_ranks *old) {
    listing folders = {"", NULL, 0, true};

    (void)cli_sys_list(old->folder, on_entry, &folders);
    for (size_t i = 0; i < folders.count; i++) {
        folders.names[i][strlen(folders.names[i]) - 1] = '\0';
        char *path = cli_path_in(old->folder, folders.names[i]);
        if (!cli_sys_is_link(path)) {
            cli_sys_remove_folder(path);
        }
        free(path);
    }
    free_names(&folders);
}

static void remove_record(const cli_old_ranks *old, cli *c, size_t i) {
    char *path = cli_path_in(old->folder, records[i]);
    const uint64_t now = cli_sys_stamp(path);

    if (now == old->records[i]) {
        (void)remove(path);
    } else if (now != 0) {
        replaced(c, path);
    }
    free(path);
}

static void remove_all(cli_old_ranks *old, cli *c, const char *const *planned, size_t count) {
    for (size_t i = 0; i < old->count; i++) {
        char *path = cli_path_in(old->folder, old->files[i]);
        remove_one(c, path, old->stamps[i]);
        *strrchr(path, '/') = '\0';
        cli_sys_remove_folder(path);
        free(path);
    }
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (!is_in(planned, count, records[i])) {
            remove_record(old, c, i);
        }
    }
    cli_note(c, old->folder, "%llu %s of the older model removed", (unsigned long long)old->count,
             old->count == 1 ? "file" : "files");
}

void cli_old_ranks_end(cli_old_ranks *old, cli *c, bool done, const char *const *planned,
                       size_t count) {
    char *layout = old->folder != NULL ? cli_path_in(old->folder, "layout.json") : NULL;

    if (done && old->count > 0 && c->force && !c->out.mute) {
        remove_all(old, c, planned, count);
    } else if (done && old->record && c->force && !c->out.mute) {
        remove_record(old, c, 0);
    }
    if (done && (old->count > 0 || old->journal) && c->force && !c->out.mute) {
        remove_empty(old);
    }
    if (old->journal && (done || cli_sys_kind(layout) == CLI_KIND_FILE)) {
        char *path = cli_path_in(old->folder, journal);
        (void)remove(path);
        free(path);
    }
    free(layout);
    forget(old);
}

/* ---------------------------------------------------------------- read again */

static bool same(const sft_tensor *a, const sft_tensor *b) {
    return b != NULL && a->dtype->id == b->dtype->id && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static sft_status compare(const sft_catalog *read, const sft_catalog *whole, sft_error *err) {
    for (size_t i = 0; i < sft_catalog_count(whole); i++) {
        const sft_tensor *t = sft_catalog_at(whole, i);
        if (!same(t, sft_catalog_find(read, t->name, t->name_len))) {
            return sft_error_set(err, SFT_E_MISMATCH, 0, SFT_NO_OFFSET, t->name, t->name_len,
                                 "is not what was to be written");
        }
    }
    return SFT_OK;
}

/* Is it so bad that what was written, or is to be, is no model? A rank's part may not tell the full
 * shape, and there may be too few descriptors: no faults. */
static bool is_bad(cli_batch *b, sft_status status, const sft_error *err) {
    const bool few = status == SFT_E_IO && (err->sys == EMFILE || err->sys == ENFILE);

    if (status == SFT_E_SHAPE || few) {
        cli_warn(b->c, b->target, "does not open as one model again: %s", err->message);
        return false;
    }
    return status != SFT_OK;
}

static const sft_job_text *layout_text(const cli_batch *b) {
    for (size_t i = 0; i < b->text_count; i++) {
        if (strcmp(b->texts[i].name, "layout.json") == 0) {
            return &b->texts[i];
        }
    }
    return NULL;
}

bool cli_would_open(cli_batch *b, sft_catalog *const *parts, size_t count,
                    const sft_catalog *whole) {
    const sft_job_text *text = layout_text(b);
    sft_rank_part *ranks = cli_alloc(count + 1, sizeof *ranks);
    sft_layout_set *set = NULL;
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *read = NULL;
    sft_error err;

    for (size_t i = 0; i < count; i++) {
        ranks[i] = (sft_rank_part){parts[i], i};
    }
    sft_status status = sft_layout_set_parse(&set, text->data, text->size, text->name, NULL, &err);
    if (status == SFT_OK) {
        status = sft_checkpoint_from_ranks(&checkpoint, ranks, count, set, &err);
    }
    if (status == SFT_OK) {
        status = sft_checkpoint_join_ranks(&read, checkpoint, NULL, &err);
    }
    if (status == SFT_OK) {
        status = compare(read, whole, &err);
    }
    sft_catalog_close(read);
    sft_checkpoint_close(checkpoint);
    sft_layout_set_free(set);
    free(ranks);
    if (status != SFT_E_SHAPE &&
        is_bad(b, status, &err)) { /* what only warns is said afterwards, too */
        const sft_error why = err;
        (void)sft_error_set(&err, status, 0, SFT_NO_OFFSET, why.tensor, strlen(why.tensor),
                            "files cut so would not open as one model again: %.400s", why.message);
        cli_fail_plainly(b->c, cli_text(b->c, "target-layout"), &err);
        return false;
    }
    return true;
}

void cli_read_again(cli_batch *b, const sft_catalog *whole) {
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *read = NULL;
    sft_error err;

    sft_status status = sft_checkpoint_open(&checkpoint, b->folder, NULL, &err);
    if (status == SFT_OK) {
        status = sft_checkpoint_take_global(&read, checkpoint, NULL, &err);
    }
    if (status == SFT_OK) {
        status = compare(read, whole, &err);
    }
    sft_catalog_close(read);
    if (is_bad(b, status, &err)) {
        cli_fail(b->c, b->target, &err);
    }
}
