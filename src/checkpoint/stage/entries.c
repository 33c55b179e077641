/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/entries.c - see entries.h.
 */
#include "checkpoint/stage/entries.h"
#include "fs/output/staged.h"

sft_status sft__checkpoint_stage_path(sft__base_buf *out, const char *directory, const char *name,
                                      sft_error *err) {
    out->len = 0;
    sft__base_buf_text(out, directory);
    sft__base_buf_text(out, "/");
    sft__base_buf_text(out, name);
    sft__base_buf_add(out, "", 1);
    return out->failed ? sft__base_fail_nomem(err, strlen(directory) + strlen(name) + 2) : SFT_OK;
}

sft_status sft__checkpoint_write_text(const char *directory, const char *name,
                                      const sft__base_buf *text, bool durable, sft_error *err) {
    sft__fs_handle disk;
    sft__base_buf path;
    if (text->failed) {
        return sft__base_fail_nomem(err, text->len);
    }
    sft__base_buf_init(&path, text->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, directory, name, err);
    if (status == SFT_OK) {
        status = sft__fs_staged_open(path.data, &disk, err);
        if (status == SFT_OK) {
            status = sft__fs_write_at(disk, path.data, 0, text->data, text->len, err);
            if (status == SFT_OK && durable) {
                status = sft__fs_sync(disk, path.data, err);
            }
            sft__fs_close(disk);
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

/* ---------------------------------------------------------------- removing */

typedef struct clearing {
    const sft_allocator *allocator;
    const char *directory;
    const char **directories; /* still to be cleared, then to be removed */
    size_t count;
    size_t room;
    sft__base_buf path;
    sft__base_arena arena;
} clearing;

static sft_status clear_entry(void *ctx, const char *name, size_t len, sft_error *err) {
    clearing *const c = ctx;
    (void)len;
    SFT_TRY(sft__checkpoint_stage_path(&c->path, c->directory, name, err));
    if (sft__fs_is_link(c->path.data) || !sft__fs_is_directory(c->path.data)) {
        return sft__fs_remove(c->path.data, err);
    }
    char *const kept = sft__base_arena_copy(&c->arena, c->path.data, strlen(c->path.data));
    if (kept == NULL || !sft__base_grow(c->allocator, &c->directories, &c->room, c->count + 1,
                                        sizeof *c->directories)) {
        return sft__base_fail_nomem(err, c->path.len);
    }
    c->directories[c->count++] = kept;
    return SFT_OK;
}

sft_status sft__checkpoint_remove_tree(const char *path, const sft_allocator *allocator,
                                       sft_error *err) {
    clearing c;
    sft__fs_stat st;
    if (sft__fs_is_link(path)) { /* what it points at is somebody else's */
        return sft__fs_remove(path, err);
    }
    sft_status status = sft__fs_look(path, &st, err);
    if (status != SFT_OK || !st.directory) {
        return status;
    }
    memset(&c, 0, sizeof c);
    c.allocator = allocator;
    sft__base_buf_init(&c.path, allocator);
    sft__base_arena_init(&c.arena, allocator, 0);
    if (!sft__base_grow(allocator, &c.directories, &c.room, 1, sizeof *c.directories)) {
        return sft__base_fail_nomem(err, sizeof *c.directories);
    }
    c.directories[c.count++] = path;
    for (size_t i = 0; i < c.count && status == SFT_OK; i++) {
        c.directory = c.directories[i];
        status = sft__fs_list(c.directory, clear_entry, &c, err);
    }
    while (c.count > 0) { /* inner ones were found later */
        (void)sft__fs_remove_directory(c.directories[--c.count]);
    }
    sft__base_free(allocator, c.directories, c.room * sizeof *c.directories);
    sft__base_arena_free(&c.arena);
    sft__base_buf_reset(&c.path);
    return status;
}
