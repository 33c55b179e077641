/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/old_ranks.c - see old_ranks.h.
 */
#include "old_ranks.h"
#include "ranks.h"
#include "sys.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *join(const char *folder, const char *name) {
    const size_t room = strlen(folder) + strlen(name) + 2;
    const size_t len = strlen(folder);
    char *path = cli_alloc(room, 1);

    (void)snprintf(path, room, "%s%s%s", folder, len > 0 && folder[len - 1] == '/' ? "" : "/",
                   name);
    return path;
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

/* ---------------------------------------------------------------- what lies there */

typedef struct listing {
    const char *prefix; /* "rank_3/", or "" for the target itself */
    char **names;
    size_t count;
    bool folders;
} listing;

static void on_entry(void *ctx, const char *name, bool is_folder) {
    listing *l = ctx;
    const bool weights = ends_with(name, ".safetensors") || ends_with(name, ".ckpt");

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

static bool is_planned(const cli_batch *b, const char *name) {
    for (size_t i = 0; i < b->count; i++) {
        if (strcmp(b->files[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Weights of other names below rank_N, relative to the target. */
static void list_others(cli_old_ranks *old, const cli_batch *b) {
    listing folders = {"", NULL, 0, true};

    (void)cli_sys_list(b->folder, on_entry, &folders);
    for (size_t i = 0; i < folders.count; i++) {
        listing files = {folders.names[i], NULL, 0, false};
        char *path = join(b->folder, folders.names[i]);
        (void)cli_sys_list(path, on_entry, &files);
        for (size_t k = 0; k < files.count; k++) {
            if (!is_planned(b, files.names[k])) {
                old->files = cli_resize(old->files, old->count + 1, sizeof *old->files);
                old->files[old->count++] = files.names[k];
                files.names[k] = NULL;
            }
        }
        free(path);
        free_names(&files);
    }
    free_names(&folders);
}

/* ---------------------------------------------------------------- whose they are */

/* Is the file one of the ranks' of this checkpoint, and no link leads out of the target? */
static bool belongs(const cli_batch *b, const char *name, const sft_rank_part *parts,
                    size_t count) {
    char *path = join(b->folder, name);
    char *folder = join(b->folder, name);
    bool found = false;

    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < count && !found; i++) {
        found = sft_catalog_file_count(parts[i].catalog) == 1 &&
                cli_sys_same_file(sft_catalog_file_at(parts[i].catalog, 0)->path, path);
    }
    found = found && !cli_sys_is_link(folder) && !cli_sys_is_link(path);
    free(folder);
    free(path);
    return found;
}

/* All of them are of the model whose layout.json lies there: it opens, and is whole. */
static bool proven(const cli_old_ranks *old, const cli_batch *b) {
    char *layout = join(b->folder, "layout.json");
    sft_checkpoint_options o;
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *whole = NULL;
    size_t count = 0;
    bool all = false;

    SFT_INIT(&o);
    if (b->api->checkpoint_open(&checkpoint, b->folder, &o, NULL) == SFT_OK) {
        const sft_rank_part *parts = b->api->checkpoint_ranks(checkpoint, &count);
        all = b->api->checkpoint_kind_of(checkpoint) == SFT_CHECKPOINT_RANKS &&
              cli_sys_same_file(b->api->checkpoint_layout_path(checkpoint), layout) &&
              b->api->checkpoint_join_ranks(&whole, checkpoint, NULL, NULL) == SFT_OK;
        sft_catalog_close(whole);
        for (size_t i = 0; i < old->count; i++) {
            all = all && belongs(b, old->files[i], parts, count);
        }
        b->api->checkpoint_close(checkpoint);
    }
    free(layout);
    return all;
}

bool cli_old_ranks_find(cli_old_ranks *old, cli_batch *b) {
    sft_error err;

    memset(old, 0, sizeof *old);
    if (cli_sys_kind(b->folder) != CLI_KIND_FOLDER) {
        return true;
    }
    list_others(old, b);
    if (old->count == 0 || (b->c->force && proven(old, b))) {
        return true;
    }
    (void)sft_error_set(&err, SFT_E_EXISTS, 0, SFT_NO_OFFSET, NULL, 0,
                        "%s%s%s of another model, and readers would take %s for this one's: %s",
                        old->files[0], old->count > 1 ? " and others are" : " is", "",
                        old->count > 1 ? "them" : "it",
                        b->c->force ? "nothing proves that they may be removed"
                                    : "--force removes an older model that its layout.json proves");
    cli_fail_plainly(b->c, b->target, &err);
    return false;
}

void cli_old_ranks_remove(const cli_old_ranks *old, cli *c) {
    const char *target = cli_text(c, "output");

    for (size_t i = 0; i < old->count; i++) {
        char *path = join(target, old->files[i]);
        char *beside = cli_alloc(strlen(path) + sizeof ".digests.json", 1);
        (void)snprintf(beside, strlen(path) + sizeof ".digests.json", "%s.digests.json", path);
        if (remove(path) != 0) {
            cli_warn(c, path, "is of the older model, and cannot be removed");
            cli_answer(c, CLI_SYSTEM);
        }
        (void)remove(beside);
        *strrchr(path, '/') = '\0';
        cli_sys_remove_folder(path);
        free(beside);
        free(path);
    }
    if (old->count > 0) {
        char *record = join(target, "dedupe.json"); /* spoke of the older model's files */
        (void)remove(record);
        free(record);
        cli_note(c, target, "%llu %s of the older model removed", (unsigned long long)old->count,
                 old->count == 1 ? "file" : "files");
    }
}

void cli_old_ranks_reset(cli_old_ranks *old) {
    for (size_t i = 0; i < old->count; i++) {
        free(old->files[i]);
    }
    free(old->files);
    old->files = NULL;
    old->count = 0;
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

void cli_read_again(cli_batch *b, const sft_catalog *whole) {
    sft_checkpoint *checkpoint = NULL;
    sft_catalog *read = NULL;
    sft_error err;

    sft_status status = b->api->checkpoint_open(&checkpoint, b->folder, NULL, &err);
    if (status == SFT_OK) {
        status = b->api->checkpoint_take_whole(&read, checkpoint, NULL, &err);
    }
    if (status == SFT_OK) {
        status = compare(read, whole, &err);
    }
    sft_catalog_close(read);
    const bool few = status == SFT_E_IO && (err.sys == EMFILE || err.sys == ENFILE);
    if (status == SFT_E_SHAPE || few) { /* no fault: a rank's part may not tell the full shape */
        cli_warn(b->c, b->target, "does not open as one model again: %s", err.message);
    } else if (status != SFT_OK) {
        cli_fail(b->c, b->target, &err);
    }
}
