/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/files.c - what the kinds share: numbers in names, listings, descriptions as text, and
 * files opened below the checkpoint's directory. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/open/checkpoint.h"
#include "fs/below.h"
#include <sft/open.h>
#include <stdlib.h>

#define MAX_TEXT UINT64_C(100000000)

/* ---------------------------------------------------------------- names */

bool sft__checkpoint_ends(const char *name, size_t len, const char *suffix) {
    const size_t n = strlen(suffix);
    return len >= n && memcmp(name + len - n, suffix, n) == 0;
}

static size_t take_digits(const char *text, size_t len, uint64_t *value) {
    size_t n = 0;
    *value = 0;
    while (n < len && n < 18 && text[n] >= '0' && text[n] <= '9') {
        *value = *value * 10 + (uint64_t)(text[n++] - '0'); /* below 10^18 */
    }
    return n;
}

bool sft__checkpoint_rank_of(const char *name, size_t len, uint64_t *rank) {
    static const char prefix[] = "rank_";
    const size_t n = sizeof prefix - 1;
    size_t at = n;
    if (len <= n || memcmp(name, prefix, n) != 0) {
        return false;
    }
    while (at < len && name[at] >= '0' && name[at] <= '9') {
        at++;
    }
    if (take_digits(name + n, len - n, rank) != len - n) {
        *rank = SFT__RANK_BEYOND;
    }
    return at == len;
}

bool sft__checkpoint_step_of(const char *name, size_t len, uint64_t *epoch, uint64_t *step) {
    size_t end = len;
    size_t at;
    while (end > 0 && name[end - 1] != '.') {
        end--;
    }
    end -= end > 0;
    at = end;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    if (at == end || at == 0 || name[at - 1] != '_' ||
        take_digits(name + at, end - at, step) != end - at) {
        return false;
    }
    const size_t middle = at - 1;
    at = middle;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    return at != middle && at > 0 && name[at - 1] == '-' &&
           take_digits(name + at, middle - at, epoch) == middle - at;
}

/* ---------------------------------------------------------------- descriptions */

sft_status sft__checkpoint_path(sft_checkpoint *c, const char *directory, const char *name,
                                const char **out, sft_error *err) {
    const size_t a = strlen(directory);
    const size_t b = strlen(name);
    const bool slash = a != 0 && directory[a - 1] != '/';
    char *const path = sft__base_arena_alloc(&c->arena, a + b + 2, 1);
    if (path == NULL) {
        return sft__checkpoint_nomem(c, a + b + 2, err);
    }
    memcpy(path, directory, a);
    path[a] = '/';
    memcpy(path + a + slash, name, b + 1);
    *out = path;
    return SFT_OK;
}

sft_status sft__checkpoint_read(const sft_checkpoint *c, const char *path,
                                sft__checkpoint_text *out, sft_error *err) {
    const uint64_t most = c->limits.header_bytes != 0 ? c->limits.header_bytes : MAX_TEXT;
    if (c->source != NULL && sft_operand_is_url(path)) {
        sft_source *source;
        memset(out, 0, sizeof *out);
        SFT_TRY(c->source(c->source_ctx, path, &source, err));
        return sft__checkpoint_text_take(out, source, most, "description", c->allocator, err);
    }
    return sft__checkpoint_text_read(out, path, most, "description", c->allocator, err);
}

/* ---------------------------------------------------------------- listings */

static sft_status note_name(void *ctx, const char *name, size_t len, sft_error *err) {
    sft__checkpoint_names *const n = ctx;
    if (name[0] == '.' ||
        (n->suffixes[0] != NULL && !sft__checkpoint_ends(name, len, n->suffixes[0]) &&
         (n->suffixes[1] == NULL || !sft__checkpoint_ends(name, len, n->suffixes[1])))) {
        return SFT_OK;
    }
    SFT_NEED(sft__base_grow(n->c->allocator, &n->list, &n->room, n->count + 1, sizeof *n->list),
             (n->count + 1) * sizeof *n->list, err);
    n->list[n->count] = sft__base_arena_copy(&n->c->arena, name, len);
    return n->list[n->count++] != NULL ? SFT_OK : sft__checkpoint_nomem(n->c, len, err);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

sft_status sft__checkpoint_list(sft__checkpoint_names *names, const char *directory,
                                sft_error *err) {
    SFT_TRY(sft__fs_list(directory, note_name, names, err));
    if (names->count > 1) {
        qsort(names->list, names->count, sizeof *names->list, by_bytes);
    }
    return SFT_OK;
}

void sft__checkpoint_names_reset(sft__checkpoint_names *names) {
    sft__base_free(names->c->allocator, names->list, names->room * sizeof *names->list);
    names->list = NULL;
    names->count = 0;
    names->room = 0;
}

/* ---------------------------------------------------------------- files */

sft_status sft__checkpoint_open_below(const char *directory, const char *name,
                                      const sft_allocator *allocator, sft_source **out,
                                      bool *missing, sft_error *err) {
    sft__fs_root root = {SFT__FS_NO_HANDLE, directory, SFT__FS_LINKS_INSIDE};
    sft__fs_handle file;
    sft__fs_stat inside;
    sft__fs_stat opened;
    sft__base_buf path;

    *out = NULL;
    *missing = false;
    SFT_TRY(sft__fs_open_any(directory, &root.directory, &inside, err));
    sft_status status = sft__fs_open_below(&root, name, &file, &inside, missing, err);
    sft__fs_close(root.directory);
    SFT_TRY(status);
    sft__base_buf_init(&path, allocator);
    sft__base_buf_text(&path, directory);
    sft__base_buf_text(&path, "/");
    sft__base_buf_add(&path, name, strlen(name) + 1);
    status = path.failed ? sft__base_fail_nomem(err, strlen(name))
                         : sft_source_open(out, path.data, SFT_ACCESS_READ, allocator, err);
    /* a source is opened by a name, which may lead elsewhere by now */
    const int fd = status == SFT_OK ? sft_source_descriptor(*out) : -1;
    if (fd >= 0 && (sft__fs_stat_fd(fd, name, &opened, NULL) != SFT_OK ||
                    inside.device != opened.device || inside.inode != opened.inode)) {
        sft_source_close(*out);
        *out = NULL;
        status = sft__base_fail(err, SFT_E_CHANGED, "%s was replaced while it was opened", name);
    }
    sft__fs_close(file);
    sft__base_buf_reset(&path);
    return status;
}

typedef struct named_file {
    const sft_checkpoint *c;
    bool missing;
    sft_error *err;
} named_file;

static sft_status open_below(void *ctx, const char *const *names, size_t count,
                             sft_source **sources, sft_error *err) {
    named_file *const f = ctx;
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(sft__checkpoint_open_below(f->c->directory, names[i], f->c->allocator, &sources[i],
                                           &f->missing, err));
    }
    return SFT_OK;
}

sft_status sft__checkpoint_open_named(sft_checkpoint *c, const char *name, sft_catalog **out,
                                      bool *missing, sft_error *err) {
    const char *const names[] = {name};
    named_file f = {c, false, err};
    sft_model_files files;
    SFT_INIT(&files);
    files.names = names;
    files.name_count = 1;
    files.open = open_below;
    files.ctx = &f;
    *missing = false;
    sft_error why;
    const sft_status status = sft_catalog_open_model(out, &files, &c->open, &why);
    if (status != SFT_OK && f.missing) {
        *missing = true;
        return SFT_OK;
    }
    if (status == SFT_E_ARG) { /* what would be a caller's fault was the description's */
        return sft__base_fail(err, SFT_E_SCHEMA, "file name \"%.200s\" in the description: %s",
                              name, why.message);
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

sft_status sft__checkpoint_open_file(sft_checkpoint *c, const char *path, sft_catalog **out,
                                     sft_error *err) {
    if (c->source != NULL && sft_operand_is_url(path)) {
        sft_source *source;
        *out = NULL;
        SFT_TRY(c->source(c->source_ctx, path, &source, err));
        return sft_catalog_open_source(out, source, &c->open, err);
    }
    if (sft__checkpoint_ends(path, strlen(path), ".safetensors")) {
        return sft_catalog_open(out, path, &c->open, err);
    }
    *out = NULL;
    if (c->other == NULL) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "%s is no safetensors file, and nothing here reads it", path);
    }
    return c->other(c->other_ctx, path, &c->open, out, err);
}
