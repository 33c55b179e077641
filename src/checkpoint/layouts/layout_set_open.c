/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_open.c - which of the forms a text is, and reading it from a file or from a
 * directory of strategies. Read checkpoint/layouts/layout_set.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/layouts/parallel.h"
#include "checkpoint/text.h"
#include "fs/file.h"
#include <stdlib.h>

#define MAX_TEXT UINT64_C(100000000)

/* ---------------------------------------------------------------- one text */

static bool all_texts(const sft__layout_jnode *root) {
    for (const sft__layout_jnode *m = root->first; m != NULL; m = m->next) {
        if (m->type != SFT__J_STRING) {
            return false;
        }
    }
    return root->first != NULL;
}

static sft_status read_json(sft_layout_set *set, const void *data, size_t size, const char *name,
                            sft_error *err) {
    const sft__layout_jnode *format;
    sft__layout_jnode *root;
    SFT_TRY(sft__layout_jtree_parse(&root, &set->arena, data, size, "layout", err));
    format = sft__layout_jtree_get(root, "format");
    if (format != NULL && format->type == SFT__J_STRING &&
        strcmp(format->text, "safetensors-layout") == 0) {
        return sft__checkpoint_lset_read_own(set, root, err);
    }
    if (sft__layout_jtree_get(root, "filenames") != NULL &&
        sft__layout_jtree_get(root, "tensors") != NULL) {
        return sft__checkpoint_lset_read_topology(set, root, err);
    }
    if (sft__layout_jtree_get(root, "tp_plan") != NULL ||
        sft__layout_jtree_get(root, "base_model_tp_plan") != NULL || all_texts(root)) {
        return sft__checkpoint_lset_read_plan(set, root, set->plan_ranks, err);
    }
    return sft__base_fail(err, SFT_E_FORMAT,
                          "%s: no layout, strategy, topology or tensor-parallel plan", name);
}

/* A strategy in JSON has its layouts under this key, near its begin or not. */
static bool is_strategy_json(const void *data, size_t size) {
    static const char key[] = "\"parallel_layout_item\"";
    const char *const text = data;
    for (size_t i = 0; i + sizeof key - 1 <= size; i++) {
        if (text[i] == '"' && memcmp(text + i, key, sizeof key - 1) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_json(const void *data, size_t size) {
    const char *const text = data;
    size_t i = 0;
    while (i < size && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r')) {
        i++;
    }
    return i < size && text[i] == '{';
}

static sft_status fill(sft_layout_set *set, const void *data, size_t size, const char *name,
                       sft_error *err) {
    sft_ms_strategy *strategy;
    if (sft__checkpoint_parallel_is(data, size)) {
        return sft__checkpoint_parallel_parse(set, data, size, err);
    }
    if (sft__checkpoint_parallel_is_yaml(data, size)) {
        return sft__checkpoint_parallel_yaml(set, data, size, err);
    }
    if (is_json(data, size) && !is_strategy_json(data, size)) {
        return read_json(set, data, size, name, err);
    }
    SFT_TRY(sft__layout_ms_parse(
        &strategy, data, size, &(sft__layout_ms_options){name, &set->limits, set->allocator}, err));
    return sft__checkpoint_lset_take_strategy(set, strategy, err);
}

static sft_status finish(sft_layout_set **out, sft_layout_set *set, sft_status status,
                         sft_error *err) {
    if (status == SFT_OK) {
        status = sft__checkpoint_lset_finish(set, err);
    }
    if (status != SFT_OK) {
        sft_layout_set_free(set);
        return status;
    }
    *out = set;
    return SFT_OK;
}

sft_status sft_layout_set_parse(sft_layout_set **out, const void *data, size_t size,
                                const char *name, const sft_layout_set_options *options,
                                sft_error *err) {
    sft_layout_set *set;
    *out = NULL;
    SFT_TRY(sft__checkpoint_lset_create(&set, options, err));
    return finish(out, set, fill(set, data, size, name != NULL ? name : "layout", err), err);
}

/* ---------------------------------------------------------------- files */

static sft_status read_file(const sft_layout_set *set, const char *path, sft__checkpoint_text *out,
                            sft_error *err) {
    const uint64_t most = set->limits.header_bytes != 0 ? set->limits.header_bytes : MAX_TEXT;
    return sft__checkpoint_text_read(out, path, most, "layouts", set->allocator, err);
}

/* ---------------------------------------------------------------- a directory of strategies */

typedef struct strategies {
    sft_layout_set *set;
    const char *directory;
    const char **names; /* in the arena */
    size_t count;
    size_t room;
    sft_ms_strategy **list;
} strategies;

static bool ends_with(const char *name, size_t len, const char *suffix) {
    const size_t n = strlen(suffix);
    return len > n && memcmp(name + len - n, suffix, n) == 0;
}

static sft_status note_file(void *ctx, const char *name, size_t len, sft_error *err) {
    strategies *const s = ctx;
    if (name[0] == '.' || (!ends_with(name, len, ".ckpt") && !ends_with(name, len, ".json"))) {
        return SFT_OK;
    }
    SFT_NEED(sft__base_grow(s->set->allocator, &s->names, &s->room, s->count + 1, sizeof *s->names),
             (s->count + 1) * sizeof *s->names, err);
    return sft__checkpoint_lset_copy(s->set, &s->names[s->count++], name, len, err);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static sft_status read_strategy(strategies *s, size_t i, sft_error *err) {
    sft__base_buf path;
    sft__checkpoint_text t = {NULL, NULL, 0};
    sft_error why;
    sft__base_buf_init(&path, s->set->allocator);
    sft__base_buf_text(&path, s->directory);
    sft__base_buf_text(&path, "/");
    sft__base_buf_text(&path, s->names[i]);
    sft__base_buf_add(&path, "", 1);
    sft_status status =
        path.failed ? sft__base_fail_nomem(&why, path.len) : read_file(s->set, path.data, &t, &why);
    if (status == SFT_OK) {
        status = sft__layout_ms_parse(
            &s->list[i], t.data, t.size,
            &(sft__layout_ms_options){s->names[i], &s->set->limits, s->set->allocator}, &why);
    }
    sft__checkpoint_text_reset(&t);
    sft__base_buf_reset(&path);
    if (status != SFT_OK) {
        return sft__base_fail_at(err, status, why.offset, "%s: %s", s->names[i], why.message);
    }
    return SFT_OK;
}

static sft_status merge_directory(strategies *s, sft_error *err) {
    sft_ms_strategy *merged = NULL;
    if (s->count == 0) {
        return sft__base_fail(err, SFT_E_FORMAT,
                              "the directory holds no strategy: no *.ckpt and no *.json");
    }
    qsort(s->names, s->count, sizeof *s->names, by_name);
    s->list = sft__base_alloc_zero(s->set->allocator, s->count * sizeof *s->list);
    SFT_NEED(s->list != NULL, s->count * sizeof *s->list, err);
    for (size_t i = 0; i < s->count; i++) {
        SFT_TRY(read_strategy(s, i, err));
    }
    if (s->count == 1) {
        merged = s->list[0];
        s->list[0] = NULL;
    } else {
        SFT_TRY(sft__layout_ms_merge(&merged, (const sft_ms_strategy *const *)(const void *)s->list,
                                     s->count, s->set->allocator, err));
    }
    return sft__checkpoint_lset_take_strategy(s->set, merged, err);
}

static sft_status open_directory(sft_layout_set *set, const char *path, sft_error *err) {
    strategies s = {set, path, NULL, 0, 0, NULL};
    sft_status status = sft__fs_list(path, note_file, &s, err);
    if (status == SFT_OK) {
        status = merge_directory(&s, err);
    }
    for (size_t i = 0; s.list != NULL && i < s.count; i++) {
        sft__layout_ms_free(s.list[i]);
    }
    sft__base_free(set->allocator, s.list, s.count * sizeof *s.list);
    sft__base_free(set->allocator, s.names, s.room * sizeof *s.names);
    return status;
}

/* "dp=2,tp=4", and no file of this name. */
static bool is_numbers(const char *path) {
    sft__fs_stat st;
    bool exists = false;
    return sft__checkpoint_parallel_is(path, strlen(path)) &&
           (sft__fs_stat_path(path, &exists, &st, NULL) != SFT_OK || !exists);
}

sft_status sft_layout_set_open(sft_layout_set **out, const char *path,
                               const sft_layout_set_options *options, sft_error *err) {
    sft__checkpoint_text t = {NULL, NULL, 0};
    sft_layout_set *set;
    sft_status status;
    *out = NULL;
    SFT_TRY(sft__checkpoint_lset_create(&set, options, err));
    if (is_numbers(path)) {
        status = sft__checkpoint_parallel_parse(set, path, strlen(path), err);
    } else if (sft__fs_is_directory(path)) {
        status = open_directory(set, path, err);
    } else {
        status = read_file(set, path, &t, err);
        if (status == SFT_OK) {
            status = fill(set, t.data, t.size, path, err);
        }
        sft__checkpoint_text_reset(&t);
    }
    return finish(out, set, status, err);
}
