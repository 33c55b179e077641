/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/manifest.c - manifest.json and run.json: written as docs/run.md says, and read without
 * trust. Read steps.h first.
 */
#include "base/checked.h"
#include "base/text/json.h"
#include "base/text/real.h"
#include "checkpoint/run/steps.h"
#include "fs/output/entry.h"
#include "layout/jsontree.h"
#include <sft/digest.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT "safetensors-run"

/* ---------------------------------------------------------------- texts */

sft_status sft__checkpoint_run_read_text(const char *directory, const char *name,
                                         sft__base_arena *arena, char **text, size_t *size,
                                         sft_error *err) {
    sft__base_buf path;
    sft__fs_handle file = SFT__FS_NO_HANDLE;
    sft__fs_stat st;
    bool exists = false;
    *text = NULL;
    *size = 0;
    sft__base_buf_init(&path, arena->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, directory, name, err);
    if (status == SFT_OK && sft__fs_is_link(path.data)) {
        status = sft__base_fail(err, SFT_E_FORMAT, "%s is a link, no file of its own", name);
    }
    if (status == SFT_OK) {
        status = sft__fs_stat_path(path.data, &exists, &st, err);
    }
    if (status == SFT_OK && !exists) {
        status = sft__base_fail(err, SFT_E_NOT_FOUND, "there is no %s", name);
    }
    if (status == SFT_OK) {
        status = sft__fs_open(path.data, &file, &st, err);
    }
    if (status == SFT_OK && st.size > SFT__RUN_TEXT_MAX) {
        status = sft__base_fail(err, SFT_E_LIMIT, "%s has %llu bytes, the limit is %llu", name,
                                (unsigned long long)st.size, (unsigned long long)SFT__RUN_TEXT_MAX);
    }
    if (status == SFT_OK) {
        char *const data = sft__base_arena_alloc(arena, (size_t)st.size + SFT__JSON_SLACK, 8);
        status = data == NULL ? sft__base_fail_nomem(err, (size_t)st.size)
                              : sft__fs_read_at(file, name, 0, data, (size_t)st.size, err);
        if (status == SFT_OK) {
            memset(data + st.size, 0, SFT__JSON_SLACK);
            *text = data;
            *size = (size_t)st.size;
        }
    }
    sft__fs_close(file);
    sft__base_buf_reset(&path);
    return status;
}

static void put_hex32(sft__base_buf *out, uint32_t value) {
    char text[8];
    sft__base_hex32(text, value);
    sft__base_buf_add(out, text, sizeof text);
}

/* 2 * count lower-case digits, and nothing else. */
static bool take_hex(const sft__layout_jnode *node, uint8_t *bytes, size_t count) {
    return node != NULL && node->type == SFT__J_STRING && node->len == 2 * count &&
           sft__base_hex_read(bytes, node->text, count);
}

static bool take_hex32(const sft__layout_jnode *node, uint32_t *value) {
    return node != NULL && node->type == SFT__J_STRING && node->len == 8 &&
           sft__base_hex32_read(value, node->text);
}

static bool take_id(const sft__layout_jnode *node, char id[SFT__RUN_ID + 1]) {
    uint8_t bytes[SFT__RUN_ID / 2];
    if (!take_hex(node, bytes, sizeof bytes)) {
        return false;
    }
    sft__base_hex(id, bytes, sizeof bytes);
    id[SFT__RUN_ID] = '\0';
    return true;
}

static bool take_number(const sft__layout_jnode *node, uint64_t *value) {
    int64_t v = 0;
    if (!sft__layout_jtree_int(node, &v) || v < 0) {
        return false;
    }
    *value = (uint64_t)v;
    return true;
}

/* ---------------------------------------------------------------- writing */

static void put_u64(sft__base_buf *out, const char *before, uint64_t value) {
    sft__base_buf_text(out, before);
    sft__base_buf_u64(out, value);
}

static void put_metrics(sft__base_buf *out, const sft__checkpoint_run_manifest *m) {
    sft__base_buf_text(out, ",\n  \"metrics\": {");
    for (size_t i = 0; i < m->metric_count; i++) {
        char text[SFT__REAL_ROOM];
        sft__base_real_print(text, m->metrics[i].value);
        sft__base_buf_text(out, i > 0 ? ", " : "");
        sft__base_json_string(out, m->metrics[i].name, m->metrics[i].name_len);
        sft__base_buf_text(out, ": \"");
        sft__base_buf_text(out, text);
        sft__base_buf_text(out, "\"");
    }
    sft__base_buf_text(out, "}");
}

static void put_files(sft__base_buf *out, const sft__checkpoint_run_manifest *m) {
    sft__base_buf_text(out, ",\n  \"files\": {");
    for (size_t i = 0; i < m->count; i++) {
        const sft__checkpoint_run_fact *const f = &m->files[i];
        sft__base_buf_text(out, i > 0 ? ",\n    " : "\n    ");
        sft__base_json_string(out, f->name, f->name_len);
        put_u64(out, ": {\"size\": ", f->size);
        sft__base_buf_text(out, ", \"crc32c\": \"");
        put_hex32(out, f->crc);
        if (f->hashed) {
            char text[2 * sizeof f->sha];
            sft__base_hex(text, f->sha, sizeof f->sha);
            sft__base_buf_text(out, "\", \"sha256\": \"");
            sft__base_buf_add(out, text, sizeof text);
        }
        sft__base_buf_text(out, "\"}");
    }
    sft__base_buf_text(out, "\n  },\n");
}

void sft__checkpoint_run_manifest_text(sft__base_buf *out, const sft__checkpoint_run_manifest *m) {
    const size_t begin = out->len;
    sft__base_buf_text(out, "{\n  \"format\": \"" FORMAT "\",\n  \"version\": 1,\n  \"run\": \"");
    sft__base_buf_text(out, m->id);
    put_u64(out, "\",\n  \"step\": ", m->step);
    put_u64(out, ",\n  \"time\": ", (uint64_t)m->time);
    put_u64(out, ",\n  \"processes\": ", m->processes);
    put_metrics(out, m);
    put_files(out, m);
    if (!out->failed) {
        const uint32_t crc = sft_crc32c(0, out->data + begin, out->len - begin);
        sft__base_buf_text(out, "  \"crc32c\": \"");
        put_hex32(out, crc);
        sft__base_buf_text(out, "\"\n}\n");
    }
}

/* ---------------------------------------------------------------- reading */

/* Is the digest in the last line but one that of everything before this line, and nothing else behind it than
 * a line with the bracket? */
static bool is_own_digest(const char *text, size_t size) {
    static const char before[] = "  \"crc32c\": \"";
    const size_t line = sizeof before - 1 + 8 + 1; /* digits and a quote */
    size_t at = size;
    uint32_t crc;
    for (unsigned lines = 0; at > 0 && lines < 3; at--) { /* to the line break before it */
        lines += text[at - 1] == '\n';
    }
    at += at > 0 || text[0] == '\n';
    if (at + line + 3 != size || memcmp(text + at, before, sizeof before - 1) != 0 ||
        memcmp(text + at + line - 1, "\"\n}\n", 4) != 0) {
        return false;
    }
    return sft__base_hex32_read(&crc, text + at + sizeof before - 1) &&
           sft_crc32c(0, text, at) == crc;
}

/* A plain name that leads nowhere else, on any system. */
static bool is_part(const char *name, size_t len) {
    bool plain = len > 0 && name[0] != '.';
    for (size_t i = 0; i < len; i++) {
        plain = plain && (unsigned char)name[i] >= 0x20 && strchr("/\\:*?\"<>|", name[i]) == NULL;
    }
    return plain;
}

bool sft__checkpoint_run_is_plain(const char *name, size_t len) {
    if (len > 200 || strlen(name) != len) {
        return false;
    }
    const char *const slash = memchr(name, '/', len);
    const size_t directory = slash != NULL ? (size_t)(slash - name) : 0;
    return slash == NULL ? is_part(name, len)
                         : is_part(name, directory) && is_part(slash + 1, len - directory - 1);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sft__checkpoint_run_fact *)a)->name,
                  ((const sft__checkpoint_run_fact *)b)->name);
}

static sft_status bad(sft_error *err, const char *what) {
    return sft__base_fail(err, SFT_E_SCHEMA, "manifest.json: %s", what);
}

static sft_status take_files(sft__checkpoint_run_manifest *m, const sft__layout_jnode *node,
                             sft__base_arena *arena, sft_error *err) {
    if (node == NULL || node->type != SFT__J_OBJECT) {
        return bad(err, "\"files\" is missing, or no object");
    }
    m->files = sft__base_arena_alloc(arena, (node->len + 1) * sizeof *m->files, 8);
    if (m->files == NULL) {
        return sft__base_fail_nomem(err, node->len * sizeof *m->files);
    }
    for (const sft__layout_jnode *n = node->first; n != NULL; n = n->next) {
        sft__checkpoint_run_fact *const f = &m->files[m->count++];
        const sft__layout_jnode *const sha = sft__layout_jtree_get(n, "sha256");
        memset(f, 0, sizeof *f);
        f->name = n->key;
        f->name_len = n->key_len;
        f->hashed = sha != NULL;
        if (!sft__checkpoint_run_is_plain(f->name, f->name_len) ||
            strcmp(f->name, SFT__RUN_MANIFEST) == 0) {
            return bad(err, "a file has a name that no file of a step has");
        }
        if (!take_number(sft__layout_jtree_get(n, "size"), &f->size) ||
            !take_hex32(sft__layout_jtree_get(n, "crc32c"), &f->crc) ||
            (f->hashed && !take_hex(sha, f->sha, sizeof f->sha))) {
            return bad(err, "a file lacks its size or its digest");
        }
    }
    if (m->count > 1) {
        qsort(m->files, m->count, sizeof *m->files, by_name);
    }
    for (size_t i = 1; i < m->count; i++) {
        if (strcmp(m->files[i - 1].name, m->files[i].name) == 0) {
            return bad(err, "a file is listed twice");
        }
    }
    return SFT_OK;
}

static sft_status take_metrics(sft__checkpoint_run_manifest *m, const sft__layout_jnode *node,
                               sft__base_arena *arena, sft_error *err) {
    const size_t count = node != NULL && node->type == SFT__J_OBJECT ? node->len : 0;
    m->metrics = sft__base_arena_alloc(arena, (count + 1) * sizeof *m->metrics, 8);
    if (m->metrics == NULL) {
        return sft__base_fail_nomem(err, count * sizeof *m->metrics);
    }
    for (const sft__layout_jnode *n = count > 0 ? node->first : NULL; n != NULL; n = n->next) {
        sft__checkpoint_run_metric *const one = &m->metrics[m->metric_count++];
        one->name = n->key;
        one->name_len = n->key_len;
        if (n->type != SFT__J_STRING || !sft__base_real_parse(n->text, n->len, &one->value)) {
            return bad(err, "a metric is no number in a text");
        }
    }
    return SFT_OK;
}

/* "format" and "version" are ours. */
static sft_status take_format(const sft__layout_jnode *root, const char *what, sft_error *err) {
    const sft__layout_jnode *const format = sft__layout_jtree_get(root, "format");
    uint64_t version;
    if (format == NULL || format->type != SFT__J_STRING || strcmp(format->text, FORMAT) != 0) {
        return sft__base_fail(err, SFT_E_FORMAT,
                              "%s is not one of a run: its \"format\" is not \"" FORMAT "\"", what);
    }
    if (!take_number(sft__layout_jtree_get(root, "version"), &version) || version != 1) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "%s is of a version that is not known here",
                              what);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_run_manifest_read(sft__checkpoint_run_manifest *m, const char *directory,
                                             sft__base_arena *arena, sft_error *err) {
    SFT_TRY(sft__checkpoint_run_note_read(m, directory, SFT__RUN_MANIFEST, arena, err));
    return sft__checkpoint_run_manifest_find(m, SFT__RUN_STATE) != NULL
               ? SFT_OK
               : bad(err, "it does not list state.json, which every step has");
}

sft_status sft__checkpoint_run_note_read(sft__checkpoint_run_manifest *m, const char *directory,
                                         const char *name, sft__base_arena *arena, sft_error *err) {
    sft__layout_jnode *root;
    uint64_t time;
    char *text;
    size_t size;
    memset(m, 0, sizeof *m);
    SFT_TRY(sft__checkpoint_run_read_text(directory, name, arena, &text, &size, err));
    SFT_TRY(sft__layout_jtree_parse(&root, arena, text, size, SFT__RUN_MANIFEST, err));
    SFT_TRY(take_format(root, SFT__RUN_MANIFEST, err));
    if (!is_own_digest(text, size)) {
        return sft__base_fail(err, SFT_E_MISMATCH, "manifest.json: its own digest is wrong");
    }
    if (!take_id(sft__layout_jtree_get(root, "run"), m->id) ||
        !take_number(sft__layout_jtree_get(root, "step"), &m->step) ||
        !take_number(sft__layout_jtree_get(root, "time"), &time) ||
        !take_number(sft__layout_jtree_get(root, "processes"), &m->processes)) {
        return bad(err,
                   "\"run\", \"step\", \"time\" or \"processes\" is missing, or no such thing");
    }
    m->time = (int64_t)time;
    SFT_TRY(take_metrics(m, sft__layout_jtree_get(root, "metrics"), arena, err));
    return take_files(m, sft__layout_jtree_get(root, "files"), arena, err);
}

const sft__checkpoint_run_fact *
sft__checkpoint_run_manifest_find(const sft__checkpoint_run_manifest *m, const char *name) {
    sft__checkpoint_run_fact wanted = {.name = name};
    return m->count > 0 ? bsearch(&wanted, m->files, m->count, sizeof *m->files, by_name) : NULL;
}

sft_status sft__checkpoint_run_id_read(char id[SFT__RUN_ID + 1], const char *path,
                                       sft__base_arena *arena, sft_error *err) {
    sft__layout_jnode *root;
    char *text;
    size_t size;
    sft_error why;
    id[0] = '\0';
    memset(&why, 0, sizeof why);
    const sft_status status =
        sft__checkpoint_run_read_text(path, SFT__RUN_FILE, arena, &text, &size, &why);
    if (status != SFT_OK) {
        if (status != SFT_E_NOT_FOUND && err != NULL) {
            *err = why;
        }
        return status == SFT_E_NOT_FOUND ? SFT_OK : status;
    }
    SFT_TRY(sft__layout_jtree_parse(&root, arena, text, size, SFT__RUN_FILE, err));
    SFT_TRY(take_format(root, SFT__RUN_FILE, err));
    return take_id(sft__layout_jtree_get(root, "run"), id)
               ? SFT_OK
               : sft__base_fail(err, SFT_E_FORMAT,
                                "run.json: \"run\" is missing, or no such thing");
}
