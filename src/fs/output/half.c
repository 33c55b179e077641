/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/half.c - a model of several files that is being written: see sft_model_begin in
 * <sft/extend.h>. What is left of a run that was killed is a file of no bytes, .INDEX.sft-half.
 */
#include "fs/output/half.h"
#include "base/memory/need.h"
#include "fs/output/entry.h"
#include <string.h>

#define SUFFIX ".sft-half"

/* DIRECTORY/.NAME.sft-half; NULL: no memory. *size: bytes allocated. */
static char *mark_of(const char *index, size_t *size) {
    const char *base = sft__fs_base_name(index);
    const size_t before = (size_t)(base - index);
    const size_t len = strlen(base);

    *size = before + 1 + len + sizeof SUFFIX;
    char *mark = sft__base_alloc(NULL, *size);
    if (mark != NULL) {
        memcpy(mark, index, before);
        mark[before] = '.';
        memcpy(mark + before + 1, base, len);
        memcpy(mark + before + 1 + len, SUFFIX, sizeof SUFFIX);
    }
    return mark;
}

/* The mark may be there already. durable: its entry reaches the disk. */
static sft_status make(const char *mark, bool durable, sft_error *err) {
    sft__fs_handle file;

    SFT_TRY(sft__fs_create(mark, &file, err));
    sft__fs_close(file); /* nothing was written */
    return durable ? sft__fs_sync_parent(mark, err) : SFT_OK;
}

sft_status sft_model_begin(const char *index, int durable, sft_error *err) {
    size_t size;
    char *mark = mark_of(index, &size);

    SFT_NEED(mark != NULL, size, err);
    sft_status status = make(mark, durable != 0, err);
    if (status == SFT_OK) {
        status = sft__fs_remove(index, err);
    }
    sft__base_free(NULL, mark, size);
    return status;
}

sft_status sft_model_end(const char *index, sft_error *err) {
    size_t size;
    char *mark = mark_of(index, &size);

    SFT_NEED(mark != NULL, size, err);
    const sft_status status = sft__fs_remove(mark, err);
    sft__base_free(NULL, mark, size);
    return status;
}

bool sft__fs_half_is_mark(const char *name, size_t len) {
    return len > sizeof SUFFIX && name[0] == '.' &&
           memcmp(name + len - (sizeof SUFFIX - 1), SUFFIX, sizeof SUFFIX - 1) == 0;
}

/* Is what the mark stands for not there? */
static sft_status check_mark(const char *directory, const char *name, size_t len, sft_error *err) {
    const size_t before = strlen(directory);
    const size_t stem = len - sizeof SUFFIX; /* without the first dot, too */
    const size_t size = before + 1 + stem + 1;
    char *path = sft__base_alloc(NULL, size);
    sft__fs_stat st;
    bool there = true;

    SFT_NEED(path != NULL, size, err);
    memcpy(path, directory, before);
    path[before] = '/';
    memcpy(path + before + 1, name + 1, stem);
    path[before + 1 + stem] = '\0';
    sft_status status = sft__fs_stat_path(path, &there, &st, err);
    if (status == SFT_OK && !there) {
        char text[300];
        (void)sft_escape(text, sizeof text, name + 1, stem);
        status = sft__base_fail(
            err, SFT_E_CHANGED,
            "the model that lies there is half written or half replaced: another "
            "process is at it, or was killed, and has to be run again to give %.200s "
            "its name",
            text);
    }
    sft__base_free(NULL, path, size);
    return status;
}

static sft_status on_entry(void *ctx, const char *name, size_t len, sft_error *err) {
    return sft__fs_half_is_mark(name, len) ? check_mark(ctx, name, len, err) : SFT_OK;
}

sft_status sft_model_check(const char *directory, sft_error *err) {
    char path[4096];
    const size_t len = strlen(directory);

    if (len >= sizeof path) {
        return sft__base_fail(err, SFT_E_PATH, "the path is too long");
    }
    memcpy(path, directory, len + 1);
    return sft__fs_list(directory, on_entry, path, err);
}
