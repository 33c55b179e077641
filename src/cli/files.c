/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/files.c - the half of sys.h that is about files, for all systems: the room src/fs does the work. The
 * only file of the tool that includes it; what fails is told as a number of the system.
 */
#include "cli/cmd.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include "fs/file.h"
#include "fs/output/entry.h"
#include "fs/output/keep.h"
#include "fs/output/publish.h"
#include "fs/output/staged.h"
#include <stdlib.h>
#include <string.h>

/* Numbers for what src/fs says with a status alone. */
#ifdef _WIN32
enum { EXISTS = 183, NO_MEMORY = 8, IS_DIRECTORY = 267, NO_FILE = 87, FAILED = 31 };
#else
#include <errno.h>
enum { EXISTS = EEXIST, NO_MEMORY = ENOMEM, IS_DIRECTORY = EISDIR, NO_FILE = EINVAL, FAILED = EIO };
#endif

static int number_of(sft_status status, const sft_error *err) {
    return status == SFT_OK         ? 0
           : status == SFT_E_EXISTS ? EXISTS
           : err->sys != 0          ? err->sys
           : status == SFT_E_NOMEM  ? NO_MEMORY
                                    : FAILED;
}

bool cli_sys_exists_error(int error) {
    return error == EXISTS;
}

/* ---------------------------------------------------------------- facts */

cli_kind cli_sys_kind(const char *path) {
    sft__fs_stat st;

    if (sft__fs_look(path, &st, NULL) != SFT_OK || !st.exists) {
        return CLI_KIND_NONE;
    }
    return st.regular ? CLI_KIND_FILE : st.directory ? CLI_KIND_DIRECTORY : CLI_KIND_OTHER;
}

bool cli_sys_same_file(const char *a, const char *b) {
    return sft__fs_is_same(a, b);
}

uint64_t cli_sys_stamp(const char *path) {
    sft__fs_stat st;

    if (sft__fs_look(path, &st, NULL) != SFT_OK || !st.exists) {
        return 0;
    }
    return ((uint64_t)st.mtime_ns + (st.size << 40)) ^ st.inode << 32;
}

uint64_t *cli_sys_stamps(char *const *paths, size_t count) {
    uint64_t *stamps = cli_alloc(count, sizeof *stamps);

    for (size_t i = 0; i < count; i++) {
        stamps[i] = cli_sys_stamp(paths[i]);
    }
    return stamps;
}

const char *cli_sys_changed(char *const *paths, size_t count, const uint64_t *before) {
    for (size_t i = 0; i < count; i++) {
        if (cli_sys_stamp(paths[i]) != before[i]) {
            return paths[i];
        }
    }
    return NULL;
}

bool cli_sys_is_link(const char *path) {
    return sft__fs_is_link(path);
}

/* The buffer's bytes, for free(); NULL when there are none. */
static char *taken(sft__base_buf *b) {
    char *text = b->failed || b->len == 0 ? NULL : cli_alloc(b->len, 1);

    if (text != NULL) {
        memcpy(text, b->data, b->len);
    }
    sft__base_buf_reset(b);
    return text;
}

char *cli_sys_real(const char *path) {
    sft__base_buf b;

    sft__base_buf_init(&b, NULL);
    (void)sft__fs_real(path, &b);
    char *real = taken(&b);
#ifdef _WIN32
    for (char *p = real; p != NULL && *p != '\0'; p++) {
        *p = *p == '\\' ? '/' : *p; /* for comparing with what we made ourselves */
    }
#endif
    return real;
}

char *cli_sys_attributes(const char *path) {
    sft__base_buf b;

    sft__base_buf_init(&b, NULL);
    sft__fs_attribute_names(path, &b);
    return taken(&b);
}

typedef struct listing {
    const char *directory;
    cli_sys_entry entry;
    void *ctx;
} listing;

static sft_status list_one(void *ctx, const char *name, size_t name_len, sft_error *err) {
    const listing *l = ctx;
    char *path = cli_path_in(l->directory, name);
    const bool is_directory = sft__fs_is_directory(path) && !sft__fs_is_link(path);

    (void)name_len;
    (void)err;
    free(path);
    l->entry(l->ctx, name, is_directory);
    return SFT_OK;
}

int cli_sys_list(const char *directory, cli_sys_entry entry, void *ctx) {
    listing l = {directory, entry, ctx};
    sft_error err = {0};

    return number_of(sft__fs_list(directory, list_one, &l, &err), &err);
}

/* ---------------------------------------------------------------- directories */

int cli_sys_make_directory(const char *path) {
    sft_error err = {0};

    return cli_sys_kind(path) != CLI_KIND_NONE
               ? EXISTS
               : number_of(sft__fs_make_directory(path, &err), &err);
}

void cli_sys_remove_directory(const char *path) {
    (void)sft__fs_remove_directory(path);
}

int cli_sys_lock_directory(const char *directory, bool shared, bool *busy) {
    sft__fs_handle held;

    return sft__fs_try_hold(directory, shared, &held, busy) ? (int)held : -1;
}

void cli_sys_unlock(int lock) {
    sft__fs_close(lock);
}

/* ---------------------------------------------------------------- files that appear all at once */

int cli_sys_create(cli_sys_file *f, const char *path, bool replace) {
    const sft__fs_publish_options options = {.durability = SFT_DURABLE_NONE, .new_only = !replace};
    const cli_kind kind = cli_sys_kind(path);
    sft_error err = {0};

    f->at = 0;
    f->publish = NULL;
    if (kind == CLI_KIND_DIRECTORY || kind == CLI_KIND_OTHER) {
        return kind == CLI_KIND_DIRECTORY ? IS_DIRECTORY : NO_FILE; /* never rename over a device */
    }
    return number_of(sft__fs_publish_open(&f->publish, path, &options, &err), &err);
}

int cli_sys_put(cli_sys_file *f, const void *data, size_t size) {
    const sft__fs_span part = {data, size};
    sft_error err = {0};
    sft_status status = sft__fs_may_grow(sft__fs_publish_name(f->publish), f->at + size, &err);

    if (status == SFT_OK) {
        status = sft__fs_publish_write(f->publish, f->at, &part, 1, &err);
    }
    f->at += size; /* what is written lies in memory or in a file: cannot overflow */
    return number_of(status, &err);
}

int cli_sys_commit(cli_sys_file *f) {
    sft_error err = {0};
    const int error = number_of(sft__fs_publish_commit(f->publish, &err), &err);

    cli_sys_discard(f);
    return error;
}

void cli_sys_discard(cli_sys_file *f) {
    sft__fs_publish_free(f->publish);
    f->publish = NULL;
}
