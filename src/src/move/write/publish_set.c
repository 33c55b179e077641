/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/publish_set.c - see publish_set.h.
 */
#include "move/write/publish_set.h"
#include "base/error.h"

static const char sidecar_suffix[] = ".digests.json";

sft_status sft__move_set_create(sft__fs_publish **out, const sft__move_set *set, const char *path,
                                sft_error *err) {
    const sft_write_options *o = &set->options;
    const sft__fs_publish_options p = {set->allocator, o->durability, o->mode,
                                       (o->flags & SFT_WRITE_NEW_ONLY) != 0, NULL};
    sft_status st = sft__fs_publish_open(out, path, &p, err);

    if (st == SFT_OK) {
        st = sft__fs_publish_reserve(*out, sft__move_set_file_bytes(set), err);
        if (st != SFT_OK) {
            sft__fs_publish_free(*out);
            *out = NULL;
        }
    }
    return st;
}

/* The sidecar, written but not yet visible. Its mode is the one of the file. */
static sft_status write_sidecar(sft__fs_publish **out, const sft__move_set *set, const char *path,
                                sft_error *err) {
    const sft__fs_publish_options p = {set->allocator, set->options.durability, set->options.mode,
                                       false, NULL};
    sft__base_buf name;
    sft__base_buf text;
    sft__fs_span part;
    sft_status st;

    *out = NULL;
    sft__base_buf_init(&name, set->allocator);
    sft__base_buf_init(&text, set->allocator);
    sft__base_buf_text(&name, path);
    sft__base_buf_add(&name, sidecar_suffix, sizeof sidecar_suffix);
    st = name.failed ? sft__base_fail_nomem(err, strlen(path) + sizeof sidecar_suffix)
                     : sft__move_set_sidecar(set, sft__fs_base_name(path), &text, err);
    if (st == SFT_OK) {
        st = sft__fs_publish_open(out, name.data, &p, err);
    }
    part = (sft__fs_span){text.data, text.len};
    if (st == SFT_OK) {
        st = sft__fs_publish_reserve(*out, text.len, err);
    }
    if (st == SFT_OK) {
        st = sft__fs_publish_write(*out, 0, &part, 1, err);
    }
    if (st != SFT_OK) {
        sft__fs_publish_free(*out);
        *out = NULL;
    }
    sft__base_buf_reset(&text);
    sft__base_buf_reset(&name);
    return st;
}

sft_status sft__move_set_publish(const sft__move_set *set, sft__fs_publish *publish,
                                 const char *path, sft_error *err) {
    const bool wanted = set->options.digests != 0 && !sft__move_set_digests_inside(set);
    sft__fs_publish *sidecar = NULL;
    sft_error cause;
    sft_status st;

    if (wanted) {
        SFT_TRY(write_sidecar(&sidecar, set, path, err));
    }
    st = sft__fs_publish_commit(publish, err);
    /* a file that is in place, durable or not, needs its digests */
    if ((st == SFT_OK || st == SFT_E_DURABILITY) && wanted &&
        sft__fs_publish_commit(sidecar, &cause) != SFT_OK && st == SFT_OK) {
        st = sft_error_set(err, SFT_E_DURABILITY, cause.sys, SFT_NO_OFFSET, NULL, 0,
                           "\"%s\" is in place, but not its digests: %s", path, cause.message);
    }
    sft__fs_publish_free(sidecar);
    return st;
}
