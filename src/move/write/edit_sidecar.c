/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/edit_sidecar.c - see edit_sidecar.h. Nothing changes but the number of the file's size.
 */
#include "move/write/edit_sidecar.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "move/write/set.h"

enum { SIDECAR_MAX = 1 << 30 };

/* Where things stand in the text. */
typedef struct places {
    char *text;
    sft__base_json json;
    size_t size_begin; /* of the number behind "size"; end 0: not seen */
    size_t size_end;
} places;

static const char *on_top(void *ctx, sft__base_json *j, const sft__base_json_str *key,
                          const char *value) {
    places *w = ctx;

    const char *end = sft__base_json_value(j, value, 1);
    if (end != NULL && sft__base_json_is(key, "size", 4)) {
        w->size_begin = (size_t)(value - w->text);
        w->size_end = (size_t)(end - w->text);
    }
    return end;
}

sft_status sft__move_edit_sidecar_find(sft__move_edit_sidecar *s, const char *path,
                                       const sft_allocator *allocator, sft_error *err) {
    static const char suffix[] = ".digests.json";
    sft__fs_stat st;
    bool exists;

    sft__base_buf_init(&s->path, allocator);
    sft__base_buf_init(&s->text, allocator);
    sft__base_buf_text(&s->path, path);
    sft__base_buf_add(&s->path, suffix, sizeof suffix);
    SFT_NEED(!s->path.failed, strlen(path) + sizeof suffix, err);
    SFT_TRY(sft__fs_stat_path(s->path.data, &exists, &st, err));
    s->wanted = exists && st.regular && st.size <= SIDECAR_MAX;
    return SFT_OK;
}

/* Fills *text (of *cap bytes, owned) with the sidecar and zeros behind it. */
static sft_status read_text(const sft__move_edit_sidecar *s, char **text, size_t *size,
                            const sft_allocator *allocator, sft_error *err) {
    sft__fs_handle file;
    sft__fs_stat st;
    sft_status status;

    SFT_TRY(sft__fs_open(s->path.data, &file, &st, err));
    *size = st.size <= SIDECAR_MAX ? (size_t)st.size : 0;
    *text = sft__base_alloc(allocator, *size + SFT__JSON_SLACK);
    if (*text == NULL) {
        status = sft__base_fail_nomem(err, *size + SFT__JSON_SLACK);
    } else {
        memset(*text + *size, 0, SFT__JSON_SLACK);
        status = sft__fs_read_at(file, s->path.data, 0, *text, *size, err);
    }
    sft__fs_close(file);
    return status;
}

static sft_status write_new(sft__move_edit_sidecar *s, const sft__fs_publish_options *options,
                            sft_error *err) {
    const sft__fs_span part = {s->text.data, s->text.len};

    SFT_TRY(sft__fs_publish_open(&s->publish, s->path.data, options, err));
    SFT_TRY(sft__fs_publish_reserve(s->publish, s->text.len, err));
    return sft__fs_publish_write(s->publish, 0, &part, 1, err);
}

sft_status sft__move_edit_sidecar_make(sft__move_edit_sidecar *s, uint64_t file_size,
                                       const sft__fs_publish_options *options, sft_error *err) {
    places w;
    size_t size = 0;
    sft_status st;

    if (!s->wanted) {
        return SFT_OK;
    }
    memset(&w, 0, sizeof w);
    st = read_text(s, &w.text, &size, options->allocator, err);
    if (st == SFT_OK) {
        w.json.end = w.text + size;
        s->wanted =
            sft__base_utf8_valid(w.text, size) == size &&
            sft__base_json_members(&w.json, sft__base_json_blank(w.text), on_top, &w) != NULL &&
            w.size_end != 0;
    }
    if (st == SFT_OK && s->wanted) {
        sft__base_buf_add(&s->text, w.text, w.size_begin);
        sft__base_buf_u64(&s->text, file_size);
        sft__base_buf_add(&s->text, w.text + w.size_end, size - w.size_end);
        st = s->text.failed ? sft__base_fail_nomem(err, size) : write_new(s, options, err);
    }
    if (w.text != NULL) {
        sft__base_free(options->allocator, w.text, size + SFT__JSON_SLACK);
    }
    return st;
}

sft_status sft__move_edit_sidecar_publish(sft__move_edit_sidecar *s, sft_error *err) {
    sft_error cause;

    if (s->publish == NULL || sft__fs_publish_commit(s->publish, &cause) == SFT_OK) {
        return SFT_OK;
    }
    return sft_error_set(err, SFT_E_DURABILITY, cause.sys,
                         "the file is edited, but not its digests: %s", cause.message);
}

void sft__move_edit_sidecar_reset(sft__move_edit_sidecar *s) {
    sft__fs_publish_free(s->publish);
    s->publish = NULL;
    sft__base_buf_reset(&s->text);
    sft__base_buf_reset(&s->path);
}
