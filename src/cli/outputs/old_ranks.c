/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/old_ranks.c - see old_ranks.h.
 */
#include "cli/outputs/old_ranks.h"
#include "cli/operands/ranks.h"
#include "cli/outputs/rank_names.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include "cli/ui/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- what lies there */

typedef struct listing {
    const char *prefix; /* "rank_3/", or "" for the target itself */
    bool directories;
    cli_strings names;
} listing;

static void on_entry(void *ctx, const char *name, bool is_directory) {
    listing *l = ctx;
    const bool weights = cli_ends_with(name, ".safetensors") || cli_ends_with(name, ".ckpt");

    if (name[0] == '.' || is_directory != l->directories ||
        (is_directory ? strncmp(name, "rank_", 5) != 0 : !weights)) {
        return;
    }
    cli_strings_take(&l->names, cli_joined(l->prefix, name, is_directory ? "/" : ""));
}

static const char *const records[] = {"dedupe.json", "layout.json"}; /* spoke of its files */

static uint64_t stamp_of(const cli_old_ranks *old, const char *name) {
    char *path = cli_path_in(old->directory, name);
    const uint64_t stamp = cli_sys_stamp(path);
    free(path);
    return stamp;
}

/* Weights of other names below rank_N, relative to the directory. */
static void list_others(cli_old_ranks *old, const char *const *planned, size_t count) {
    listing ranks = {"", true, {NULL, 0}};

    (void)cli_sys_list(old->directory, on_entry, &ranks);
    for (size_t i = 0; i < ranks.names.count; i++) {
        listing files = {ranks.names.items[i], false, {NULL, 0}};
        char *path = cli_path_in(old->directory, ranks.names.items[i]);
        (void)cli_sys_list(path, on_entry, &files);
        for (size_t k = 0; k < files.names.count; k++) {
            const char *name = files.names.items[k];
            if (!cli_is_among(planned, count, name)) {
                old->stamps = cli_resize(old->stamps, old->files.count + 1, sizeof *old->stamps);
                old->stamps[old->files.count] = stamp_of(old, name);
                cli_strings_take(&old->files, cli_copy_of(name));
            }
        }
        free(path);
        cli_strings_reset(&files.names);
    }
    cli_strings_reset(&ranks.names);
}

static void forget(cli_old_ranks *old) {
    cli_strings_reset(&old->files);
    free(old->stamps);
    memset(old, 0, sizeof *old);
}

char *cli_old_ranks_first(const char *directory, const char *const *planned, size_t count) {
    cli_old_ranks old = {.directory = directory};
    char *first = NULL;

    list_others(&old, planned, count);
    if (old.files.count > 0) {
        first = cli_copy_of(old.files.items[0]);
    }
    forget(&old);
    return first;
}

/* ---------------------------------------------------------------- whose they are */

/* No link leads out of the directory. */
static bool is_here(const cli_old_ranks *old, const char *name) {
    char *path = cli_path_in(old->directory, name);
    char *directory = cli_path_in(old->directory, name);

    *strrchr(directory, '/') = '\0';
    const bool here = !cli_sys_is_link(directory) && !cli_sys_is_link(path);
    free(directory);
    free(path);
    return here;
}

/* Is the file one of the ranks' of this checkpoint? */
static bool belongs(const cli_old_ranks *old, const char *name, const sft_rank_part *parts,
                    size_t count) {
    char *path = cli_path_in(old->directory, name);
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
    char *layout = cli_path_in(old->directory, "layout.json");
    sft_checkpoint_options o;
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *global = NULL;
    size_t count = 0;
    bool all = false;

    SFT_INIT(&o);
    if (sft_checkpoint_open(&checkpoint, old->directory, &o, NULL) == SFT_OK) {
        const sft_rank_part *parts = sft_checkpoint_ranks(checkpoint, &count);
        all = sft_checkpoint_kind_of(checkpoint) == SFT_CHECKPOINT_RANKS &&
              cli_sys_same_file(sft_checkpoint_layout_path(checkpoint), layout) &&
              sft_checkpoint_join_ranks(&global, checkpoint, NULL, NULL) == SFT_OK;
        sft_catalog_close(global);
        for (size_t i = 0; i < old->files.count; i++) {
            all = all && belongs(old, old->files.items[i], parts, count);
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
    char *path = cli_path_in(old->directory, journal);
    char *lines = NULL;
    size_t size = 0;
    bool all = false;

    if (!cli_sys_is_link(path) && cli_read_text(path, MOST, &lines, &size, NULL) == SFT_OK) {
        char *text = cli_joined("\n", lines, "");
        all = size > 0;
        for (size_t i = 0; i < old->files.count && all; i++) {
            char *line = cli_joined("\n", old->files.items[i], "\n");
            all = strstr(text, line) != NULL && is_here(old, old->files.items[i]);
            free(line);
        }
        free(text);
    }
    free(lines);
    free(path);
    return all;
}

bool cli_old_ranks_begin(cli_old_ranks *old, cli *c) {
    cli_sys_file file;

    if (old->files.count == 0 || old->journal || c->out.mute) {
        return true;
    }
    char *path = cli_path_in(old->directory, journal);
    int error = cli_sys_create(&file, path, true);
    for (size_t i = 0; i < old->files.count && error == 0; i++) {
        error = cli_sys_put(&file, old->files.items[i], strlen(old->files.items[i]));
        error = error == 0 ? cli_sys_put(&file, "\n", 1) : error;
    }
    error = error == 0 ? cli_sys_commit(&file) : error;
    old->journal = error == 0;
    if (error != 0) {
        cli_fail_io(c, path, error, "cannot write");
    }
    free(path);
    return error == 0;
}

/* ---------------------------------------------------------------- refusing, removing */

static bool refuse(cli *c, const char *directory, const char *what, const char *why) {
    CLI_FAIL(c, directory, SFT_E_EXISTS, "%s: %s", what, why);
    return false;
}

/* Files of ranks are written, and a record of other ones lies there. */
static bool find_record(cli_old_ranks *old, cli *c, const char *const *planned, size_t count) {
    for (size_t i = 0; i < count && old->records[0] != 0; i++) {
        old->record = old->record || strncmp(planned[i], "rank_", 5) == 0;
    }
    old->record = old->record && !cli_is_among(planned, count, records[0]);
    return !old->record || c->force ||
           refuse(c, old->directory, "dedupe.json of another model lies there",
                  "--force removes it with what it speaks of");
}

bool cli_old_ranks_find(cli_old_ranks *old, cli *c, const char *directory,
                        const char *const *planned, size_t count) {
    memset(old, 0, sizeof *old);
    old->directory = directory;
    if (cli_sys_kind(directory) != CLI_KIND_DIRECTORY) {
        return true;
    }
    list_others(old, planned, count);
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        old->records[i] = stamp_of(old, records[i]);
    }
    if (old->files.count == 0) { /* all of them went before the run was killed */
        char *path = cli_path_in(directory, journal);
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
    (void)snprintf(text, sizeof text,
                   "%.400s%s of another model, and readers would take %s for this one's",
                   old->files.items[0], old->files.count > 1 ? " and others are" : " is",
                   old->files.count > 1 ? "them" : "it");
    return refuse(c, directory, text,
                  c->force ? "nothing proves that they may be removed"
                           : "--force removes an older model that its layout.json proves");
}

static void replaced(cli *c, const char *path) {
    CLI_FAIL(c, path, SFT_E_CHANGED, "was replaced by another process meanwhile, and stays");
}

/* A meta.json that says that the file which is gone is its rank's last one. */
static void remove_meta(const char *path) {
    char *directory = cli_copy_bytes(path, (size_t)(cli_base_name(path) - path));
    char *meta = cli_joined(directory, "meta.json", "");
    char *text = NULL;
    size_t size;

    if (cli_read_text(meta, CLI_RANK_META_MOST, &text, &size, NULL) == SFT_OK &&
        cli_rank_meta_names(text, cli_base_name(path))) {
        (void)remove(meta);
    }
    free(text);
    free(meta);
    free(directory);
}

static void remove_one(cli *c, const char *path, uint64_t stamp) {
    const uint64_t now = cli_sys_stamp(path);

    if (now != 0 && now != stamp) {
        replaced(c, path);
        return;
    }
    char *beside = cli_joined(path, ".digests.json", "");
    if (remove(path) != 0 && cli_sys_kind(path) != CLI_KIND_NONE) {
        cli_warn(c, path, "is of the older model, and cannot be removed");
        cli_answer(c, CLI_SYSTEM);
    }
    (void)remove(beside);
    free(beside);
    remove_meta(path);
}

/* Also those that a run which was killed has emptied: a rank without a file is one that is missing.
 */
static void remove_empty(const cli_old_ranks *old) {
    listing ranks = {"", true, {NULL, 0}};

    (void)cli_sys_list(old->directory, on_entry, &ranks);
    for (size_t i = 0; i < ranks.names.count; i++) {
        char *name = ranks.names.items[i];
        name[strlen(name) - 1] = '\0';
        char *path = cli_path_in(old->directory, name);
        if (!cli_sys_is_link(path)) {
            cli_sys_remove_directory(path);
        }
        free(path);
    }
    cli_strings_reset(&ranks.names);
}

static void remove_record(const cli_old_ranks *old, cli *c, size_t i) {
    char *path = cli_path_in(old->directory, records[i]);
    const uint64_t now = cli_sys_stamp(path);

    if (now == old->records[i]) {
        (void)remove(path);
    } else if (now != 0) {
        replaced(c, path);
    }
    free(path);
}

static void remove_all(cli_old_ranks *old, cli *c, const char *const *planned, size_t count) {
    for (size_t i = 0; i < old->files.count; i++) {
        char *path = cli_path_in(old->directory, old->files.items[i]);
        remove_one(c, path, old->stamps[i]);
        *strrchr(path, '/') = '\0';
        cli_sys_remove_directory(path);
        free(path);
    }
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (!cli_is_among(planned, count, records[i])) {
            remove_record(old, c, i);
        }
    }
    cli_note(c, old->directory, "%llu %s of the older model removed",
             (unsigned long long)old->files.count, old->files.count == 1 ? "file" : "files");
}

void cli_old_ranks_end(cli_old_ranks *old, cli *c, bool done, const char *const *planned,
                       size_t count) {
    char *layout = old->directory != NULL ? cli_path_in(old->directory, "layout.json") : NULL;

    if (done && old->files.count > 0 && c->force && !c->out.mute) {
        remove_all(old, c, planned, count);
    } else if (done && old->record && c->force && !c->out.mute) {
        remove_record(old, c, 0);
    }
    if (done && (old->files.count > 0 || old->journal) && c->force && !c->out.mute) {
        remove_empty(old);
    }
    if (old->journal && (done || cli_sys_kind(layout) == CLI_KIND_FILE)) {
        char *path = cli_path_in(old->directory, journal);
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

static sft_status compare(const sft_catalog *read, const sft_catalog *global, sft_error *err) {
    for (size_t i = 0; i < sft_catalog_count(global); i++) {
        const sft_tensor *t = sft_catalog_at(global, i);
        if (!same(t, sft_catalog_find(read, t->name, t->name_len))) {
            return sft_error_at(err, SFT_E_MISMATCH, SFT_NO_OFFSET, t->name, t->name_len,
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
                    const sft_catalog *global) {
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
        status = compare(read, global, &err);
    }
    sft_catalog_close(read);
    sft_checkpoint_close(checkpoint);
    sft_layout_set_free(set);
    free(ranks);
    if (status != SFT_E_SHAPE &&
        is_bad(b, status, &err)) { /* what only warns is said afterwards, too */
        const sft_error why = err;
        (void)sft_error_at(&err, status, SFT_NO_OFFSET, why.tensor, strlen(why.tensor),
                           "files cut so would not open as one model again: %.400s", why.message);
        cli_fail_plainly(b->c, cli_text(b->c, "target-layout"), &err);
        return false;
    }
    return true;
}

void cli_read_again(cli_batch *b, const sft_catalog *global) {
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *read = NULL;
    sft_error err;

    sft_status status = sft_checkpoint_open(&checkpoint, b->directory, NULL, &err);
    if (status == SFT_OK) {
        status = sft_checkpoint_take_global(&read, checkpoint, NULL, &err);
    }
    if (status == SFT_OK) {
        status = compare(read, global, &err);
    }
    sft_catalog_close(read);
    if (is_bad(b, status, &err)) {
        cli_fail(b->c, b->target, &err);
    }
}
