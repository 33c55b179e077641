/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/older_replace.c - the older model of a directory goes, when the new one is in place: a copy
 * of its index before, its files and digests after, its index last. See older.h.
 */
#include "cli/outputs/older_parts.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index that is there: the first that is to go, or the one that is replaced. */
static const char *old_index(const cli_older *o) {
    if (o->count > 0 && cli_older_is_index(o->files[0])) {
        return o->files[0];
    }
    for (size_t i = 0; i < o->planned_count; i++) {
        if (cli_older_is_index(o->planned[i])) {
            return o->planned[i];
        }
    }
    return NULL;
}

static bool copy_index(cli_older *o, const char *index, const char *journal) {
    char *from = cli_path_in(o->folder, index);
    char *to = cli_path_in(o->folder, journal);
    char *text;
    size_t size = 0;
    cli_sys_file file;
    char why[160];
    int error = 0;

    const bool there = cli_sys_kind(from) == CLI_KIND_FILE && cli_older_read(from, &text, &size);
    if (there) {
        error = cli_sys_create(&file, to, true);
        error = error == 0 ? cli_sys_put(&file, text, size) : error;
        if (error == 0) {
            error = cli_sys_commit(&file);
            o->journal = error == 0 ? cli_older_joined(journal, "", "") : NULL;
        }
        free(text);
    }
    if (error != 0) {
        sft_error err;
        (void)sft_error_set(&err, SFT_E_IO, error, SFT_NO_OFFSET, NULL, 0, "cannot write: %s",
                            cli_sys_text(error, why, sizeof why));
        cli_fail_plainly(o->c, to, &err);
    }
    free(from);
    free(to);
    return error == 0;
}

static void remove_file(const cli_older *o, const char *name) {
    char *path = cli_path_in(o->folder, name);

    if (remove(path) != 0 && cli_sys_kind(path) != CLI_KIND_NONE) {
        cli_warn(o->c, path, "is of the older model, and cannot be removed");
        cli_answer(o->c, CLI_SYSTEM);
    }
    free(path);
}

/* Digests that were recorded beside a file go with it. A link stays, what it leads to is not ours.
 */
static void remove_digests(const cli_older *o, const char *name) {
    char *digests = cli_older_joined(name, DIGESTS, "");
    char *path = cli_path_in(o->folder, digests);

    if (cli_older_ends(name, WEIGHTS) && cli_sys_kind(path) == CLI_KIND_FILE &&
        !cli_sys_is_link(path)) {
        remove_file(o, digests);
    }
    free(path);
    free(digests);
}

/* Only what was found: a file that somebody has put in its place since is of their model. */
static void remove_found(const cli_older *o, size_t i) {
    char *path = cli_path_in(o->folder, o->files[i]);
    const uint64_t now = cli_sys_stamp(path);

    if (now == 0 || now == o->stamps[i]) {
        remove_file(o, o->files[i]);
        remove_digests(o, o->files[i]);
    } else {
        sft_error err;
        (void)sft_error_set(&err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                            "was replaced by another process meanwhile, and stays");
        cli_fail_plainly(o->c, path, &err);
    }
    free(path);
}

/* What readers would see besides or instead of the new model now was not there before. */
static void look_again(const cli_older *o) {
    char *first = cli_older_another(o);

    if (first != NULL) {
        char *path = cli_path_in(o->folder, first);
        sft_error err;
        (void)sft_error_set(&err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                            "came while this model was written, by another process: the directory "
                            "holds files of two models");
        cli_fail_plainly(o->c, path, &err);
        free(path);
    }
    free(first);
}

bool cli_older_begin(cli_older *o) {
    const char *index = old_index(o);

    if (!cli_old_ranks_begin(&o->ranks, o->c)) {
        return false;
    }
    if (!o->c->force || o->c->out.mute || (o->count == 0 && !o->collides)) {
        return true;
    }
    if (o->journal == NULL && index != NULL) {
        char *journal = cli_older_joined(".", index, JOURNAL);
        const bool good = copy_index(o, index, journal);
        free(journal);
        if (!good) {
            return false;
        }
    }
    return true;
}

void cli_older_end(cli_older *o, bool done) {
    const char *index = old_index(o);
    const bool ours = o->c->force && !o->c->out.mute;
    char *path = index != NULL ? cli_path_in(o->folder, index) : NULL;

    /* The index last: without it readers would take what is left of its files for the new model's.
     */
    for (size_t i = o->count; done && ours && i > 0; i--) {
        remove_found(o, i - 1);
    }
    for (size_t i = 0; done && !o->c->out.mute && i < o->planned_count; i++) {
        remove_digests(o, o->planned[i]); /* of other bytes; the new file carries its own inside */
    }
    if (done && ours && o->count > 0) {
        cli_note(o->c, o->folder, "%llu %s of the older model removed",
                 (unsigned long long)o->count, o->count == 1 ? "file" : "files");
    }
    if (o->journal != NULL && (done || (path != NULL && cli_sys_kind(path) == CLI_KIND_FILE))) {
        remove_file(o, o->journal);
    }
    cli_old_ranks_end(&o->ranks, o->c, done, o->planned, o->planned_count);
    if (done && !o->c->out.mute && o->folder != NULL && o->c->status == CLI_OK) {
        look_again(o);
    }
    if (o->turn > 0) {
        cli_sys_unlock(o->turn - 1);
    }
    for (size_t i = 0; i < o->count; i++) {
        free(o->files[i]);
    }
    for (size_t i = 0; o->owned_names != NULL && i < o->planned_count; i++) {
        free(o->owned_names[i]);
    }
    free(o->owned_names);
    free(o->owned_folder);
    free(o->files);
    free(o->stamps);
    free(o->journal);
    free(path);
    memset(o, 0, sizeof *o);
}
