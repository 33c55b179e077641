/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/stage.c - where a staging directory lies, what its files are called, and
 * what its journals say. Read stage.h first.
 */
#include "checkpoint/stage/stage.h"
#include "base/memory/need.h"
#include <stdio.h>

static const char suffix[] = ".sft-part";
static const char journal_prefix[] = ".sft-journal-";
static const char board[] = ".sft-board"; /* of a group that was killed */

/* ---------------------------------------------------------------- paths */

static bool is_slash(char c) {
#ifdef _WIN32
    return c == '/' || c == '\\';
#else
    return c == '/';
#endif
}

/* PATH up to `len` bytes (none: the current directory), then the name of the staging directory for NAME.
 */
static sft_status name_directory(sft__checkpoint_stage *s, const char *path, size_t len,
                                 const char *name, sft_error *err) {
    const size_t name_len = strlen(name);
    const size_t size = len + name_len + sizeof suffix + 2;
    char *const text = sft__base_arena_alloc(&s->arena, size, 1);
    SFT_NEED(text != NULL, size, err);
    (void)snprintf(text, size, "%.*s%s%s%s", (int)len, path, name_len > 0 ? "." : "", name, suffix);
    s->directory = text;
    return SFT_OK;
}

typedef struct counting {
    size_t entries;
} counting;

static sft_status count_entry(void *ctx, const char *name, size_t len, sft_error *err) {
    counting *const c = ctx;
    (void)name;
    (void)len;
    (void)err;
    c->entries++;
    return SFT_OK;
}

/* Can the directory itself be replaced by a rename? */
static sft_status can_replace(const sft__checkpoint_stage *s, const char *parent, bool *yes,
                              sft_error *err) {
    const char *const base = sft__fs_base_name(s->root);
    sft__fs_stat target;
    sft__fs_stat above;
    counting c = {0};
    *yes = false;
    if (*base == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__fs_look(s->root, &target, err));
    if (!target.exists && sft__fs_is_link(s->root)) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%.200s\" is a link that leads nowhere",
                              s->root);
    }
    if (!target.exists) {
        *yes = true;
        return SFT_OK;
    }
    if (!target.directory) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%.200s\" is there, and no directory", s->root);
    }
    SFT_TRY(sft__fs_look(parent, &above, err));
    SFT_TRY(sft__fs_list(s->root, count_entry, &c, err));
    *yes = c.entries == 0 && above.exists && above.device == target.device &&
           !sft__fs_is_link(s->root);
    return SFT_OK;
}

static sft_status begin(sft__checkpoint_stage *s, const char *directory, bool durable,
                        const sft_allocator *allocator, sft_error *err) {
    size_t len = strlen(directory);
    memset(s, 0, sizeof *s);
    s->allocator = allocator;
    s->durable = durable;
    sft__base_arena_init(&s->arena, allocator, 0);
    while (len > 1 && is_slash(directory[len - 1])) {
        len--;
    }
    char *const root =
        sft__base_arena_copy(&s->arena, len > 0 ? directory : ".", len > 0 ? len : 1);
    s->root = root;
    return root != NULL ? SFT_OK : sft__base_fail_nomem(err, len);
}

/* Beside the target if the whole of it can appear at once. */
static sft_status find_directory(sft__checkpoint_stage *s, sft_error *err) {
    const size_t base = (size_t)(sft__fs_base_name(s->root) - s->root);
    char *const parent =
        sft__base_arena_copy(&s->arena, base > 0 ? s->root : ".", base > 0 ? base : 1);
    SFT_NEED(parent != NULL, base + 1, err);
    SFT_TRY(can_replace(s, parent, &s->fresh, err));
    return s->fresh ? name_directory(s, s->root, base, s->root + base, err) : SFT_OK;
}

sft_status sft__checkpoint_stage_init(sft__checkpoint_stage *s, const sft_job *job,
                                      const char *directory, bool durable, sft_error *err) {
    const char *name = "";
    SFT_TRY(begin(s, directory, durable, job->allocator, err));
    s->job = job;
    if (job->count == 1 && job->text_count == 0) { /* one file is renamed by itself; its name may
                                                      hold directories: the last part counts */
        name = job->files[0].given.name;
        name = sft__fs_base_name(name);
    }
    sft__fs_stat target;
    SFT_TRY(sft__fs_look(s->root, &target, err));
    if (*name == '\0' ||
        !target.exists) { /* a directory that is not there appears with its files */
        SFT_TRY(find_directory(s, err));
        if (s->fresh) {
            return SFT_OK;
        }
    }
    sft__base_buf in;
    sft__base_buf_init(&in, job->allocator);
    sft_status status = sft__checkpoint_stage_path(&in, s->root, "", err);
    if (status == SFT_OK) {
        status = name_directory(s, in.data, in.len - 1, name, err);
    }
    sft__base_buf_reset(&in);
    return status;
}

sft_status sft__checkpoint_stage_init_set(sft__checkpoint_stage *s, const char *directory,
                                          bool durable, const sft_allocator *allocator,
                                          sft_error *err) {
    SFT_TRY(begin(s, directory, durable, allocator, err));
    SFT_TRY(find_directory(s, err));
    return s->fresh ? SFT_OK
                    : sft__base_fail(err, SFT_E_EXISTS,
                                     "\"%.200s\" is there already, and not empty", s->root);
}

static void let_go(sft__checkpoint_stage *s) {
    if (s->held) {
        sft__fs_close(s->hold);
        s->held = false;
    }
}

sft_status sft__checkpoint_stage_hold(sft__checkpoint_stage *s, sft_error *err) {
    let_go(s);
    SFT_TRY(sft__fs_hold_directory(s->directory, &s->hold, err));
    s->held = true;
    return SFT_OK;
}

bool sft__checkpoint_stage_have_alone(sft__checkpoint_stage *s) {
    return s->held && sft__fs_hold_alone(s->hold);
}

void sft__checkpoint_stage_reset(sft__checkpoint_stage *s) {
    let_go(s);
    sft__base_arena_free(&s->arena);
}

bool sft__checkpoint_stage_is_there(const sft__checkpoint_stage *s) {
    return sft__fs_is_directory(s->directory);
}

sft_status sft__checkpoint_stage_sync_parents(const sft__checkpoint_stage *s, const char *name,
                                              sft_error *err) {
    sft__base_buf path;
    sft_status status = SFT_OK;
    sft__base_buf_init(&path, s->allocator);
    for (size_t i = strlen(name); i-- > 0 && status == SFT_OK;) {
        if (name[i] == '/') {
            status = sft__checkpoint_stage_path(&path, s->directory, name, err);
            if (status == SFT_OK) {
                path.data[strlen(s->directory) + 1 + i] = '\0';
                status = sft__fs_sync_directory(path.data, err);
            }
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

sft_status sft__checkpoint_stage_parents(const sft__checkpoint_stage *s, const char *directory,
                                         const char *name, sft_error *err) {
    sft__base_buf path;
    sft_status status = SFT_OK;
    sft__base_buf_init(&path, s->allocator);
    for (size_t i = 0; name[i] != '\0' && status == SFT_OK; i++) {
        if (name[i] == '/') {
            status = sft__checkpoint_stage_path(&path, directory, name, err);
            if (status == SFT_OK) {
                path.data[strlen(directory) + 1 + i] = '\0';
                status = sft__fs_make_directory(path.data, err);
            }
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

/* ---------------------------------------------------------------- journals */

sft_status sft__checkpoint_stage_journal(const sft__checkpoint_stage *s, uint32_t task,
                                         uint32_t tasks, sft__base_buf *out, sft_error *err) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s%lu-of-%lu", journal_prefix,
                   (unsigned long)(tasks > 0 ? task : 1), (unsigned long)(tasks > 0 ? tasks : 1));
    return sft__checkpoint_stage_path(out, s->directory, name, err);
}

#ifdef _WIN32
/* Beside the staging directory: none is renamed while something in it is open. */
sft_status sft__checkpoint_stage_guard(const sft__checkpoint_stage *s, sft__base_buf *out,
                                       sft_error *err) {
    out->len = 0;
    sft__base_buf_text(out, s->directory);
    sft__base_buf_text(out, ".lock");
    sft__base_buf_add(out, "", 1);
    return out->failed ? sft__base_fail_nomem(err, strlen(s->directory) + 6) : SFT_OK;
}

void sft__checkpoint_stage_guard_end(const char *path) {
    (void)!sft__fs_remove(path, NULL); /* another one may have it by now */
}
#else
sft_status sft__checkpoint_stage_guard(const sft__checkpoint_stage *s, sft__base_buf *out,
                                       sft_error *err) {
    return sft__checkpoint_stage_path(out, s->directory, ".sft-journal-lock", err);
}

void sft__checkpoint_stage_guard_end(const char *path) {
    (void)path; /* goes with the journals */
}
#endif

sft_status sft__checkpoint_stage_board(const sft__checkpoint_stage *s, sft__base_buf *out,
                                       sft_error *err) {
    return sft__checkpoint_stage_path(out, s->directory, board, err);
}

static bool is_journal(const char *name, size_t len) {
    return len > sizeof journal_prefix - 1 &&
           memcmp(name, journal_prefix, sizeof journal_prefix - 1) == 0;
}

typedef struct reading {
    const sft__checkpoint_stage *stage;
    const char *directory;
    sft__checkpoint_done *done; /* NULL: they are removed */
    bool all;                   /* those that say "commit", too */
} reading;

static sft_status read_entry(void *ctx, const char *name, size_t len, sft_error *err) {
    const reading *const r = ctx;
    sft__base_buf path;
    uint64_t valid;
    if (!is_journal(name, len)) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, r->stage->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, r->directory, name, err);
    if (status == SFT_OK && r->done != NULL) {
        status = sft__checkpoint_journal_read(r->stage->job, path.data, r->done, &valid, err);
    } else if (status == SFT_OK &&
               (r->all || !sft__checkpoint_journal_is_committed(r->stage->job, path.data))) {
        status = sft__fs_remove(path.data, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

sft_status sft__checkpoint_stage_read(const sft__checkpoint_stage *s, const char *directory,
                                      sft__checkpoint_done *done, sft_error *err) {
    reading r = {s, directory, done, false};
    return sft__fs_is_directory(directory) ? sft__fs_list(directory, read_entry, &r, err) : SFT_OK;
}

sft_status sft__checkpoint_stage_clean(const sft__checkpoint_stage *s, const char *directory,
                                       sft_error *err) {
    reading r = {s, directory, NULL, false};
    SFT_TRY(sft__fs_list(directory, read_entry, &r, err));
    r.all = true;
    return sft__fs_list(directory, read_entry, &r, err);
}
