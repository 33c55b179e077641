/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/recorded_sidecar.c - PATH.digests.json:
 * {"schema":1,"file":NAME,"size":BYTES,"tensors":{NAME:
 * {"crc32c":8 hex,"sha256":64 hex}}}. Members of other names are skipped. Read first: recorded.h.
 */
#include "base/text/buf.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "fs/file.h"
#include "io/source.h"
#include "move/load/recorded.h"
#include <sft/extend.h>

enum { SIDECAR_MAX = 1 << 30 };

typedef struct sidecar {
    const sft__move_recorded_file *f;
    sft__base_json json;
    sft__base_arena arena;
    const char *path;
    const char *text;
    size_t listed; /* tensors */
    bool any;      /* at least one digest of a kind that was asked for */
    bool schema;
    bool size;
    sft_error *err;
    sft_status status; /* why parsing stopped, if not for the JSON */
} sidecar;

/* Ends parsing: returns NULL for the parsers. */
static const char *sidecar_stop(sidecar *s, sft_status status) {
    s->status = status;
    return NULL;
}

static const char *sidecar_digest(sidecar *s, const char *p, const char *name, size_t name_len,
                                  uint32_t kind) {
    sft__base_json_str hex;

    if (*p != '"') {
        return sft__base_json_expected(&s->json, p, "a digest is a string");
    }
    p = sft__base_json_read(&s->json, p, &hex);
    if (p == NULL || (s->f->want & kind) == 0) {
        return p;
    }
    if (hex.escaped || hex.len != sft__move_recorded_digits(kind)) {
        return sidecar_stop(s, sft__base_fail_tensor(s->err, SFT_E_STALE, SFT_NO_OFFSET, name,
                                                     name_len, "a digest in %s has %llu digits",
                                                     s->path, (unsigned long long)hex.len));
    }
    s->any = true;
    const sft_status status = sft__move_recorded_put(s->f, name, name_len, kind, hex.raw, s->err);
    return status == SFT_OK ? p : sidecar_stop(s, status);
}

/* Walks the members of an object: p at its `{`. member gets the key and the position of the value
 * and returns the position behind it. */
typedef const char *sidecar_member(sidecar *s, const char *p, const char *key, size_t key_len,
                                   const char *name, size_t name_len);

static const char *sidecar_object(sidecar *s, const char *p, sidecar_member *member,
                                  const char *name, size_t name_len) {
    if (*p != '{') {
        return sft__base_json_expected(&s->json, p, "an object is needed");
    }
    p = sft__base_json_blank(p + 1);
    if (*p == '}') {
        return p + 1;
    }
    for (;;) {
        sft__base_json_str key;
        if (*p != '"') {
            return sft__base_json_expected(&s->json, p, "a key in quotes is needed");
        }
        p = sft__base_json_read(&s->json, p, &key);
        if (p == NULL) {
            return NULL;
        }
        char *decoded = sft__base_arena_alloc(&s->arena, key.len + 1, 1);
        if (decoded == NULL) {
            return sidecar_stop(s, sft__base_fail_nomem(s->err, key.len + 1));
        }
        const size_t key_len = sft__base_json_decode(decoded, &key);
        p = sft__base_json_blank(p);
        if (*p != ':') {
            return sft__base_json_expected(&s->json, p, "a colon is needed");
        }
        p = member(s, sft__base_json_blank(p + 1), decoded, key_len, name, name_len);
        if (p == NULL) {
            return NULL;
        }
        p = sft__base_json_blank(p);
        if (*p == '}') {
            return p + 1;
        }
        if (*p != ',') {
            return sft__base_json_expected(&s->json, p, "a comma or a closing brace is needed");
        }
        p = sft__base_json_blank(p + 1);
    }
}

static bool sidecar_key(const char *key, size_t len, const char *want) {
    return len == strlen(want) && memcmp(key, want, len) == 0;
}

static const char *sidecar_of_tensor(sidecar *s, const char *p, const char *key, size_t key_len,
                                     const char *name, size_t name_len) {
    if (sidecar_key(key, key_len, "crc32c")) {
        return sidecar_digest(s, p, name, name_len, SFT_DIGEST_CRC32C);
    }
    if (sidecar_key(key, key_len, "sha256")) {
        return sidecar_digest(s, p, name, name_len, SFT_DIGEST_SHA256);
    }
    return sft__base_json_value(&s->json, p, 3);
}

/* Is there a tensor of this name in the file's header? Binary search: `sorted` is in byte order. */
static bool sidecar_known(const sidecar *s, const char *name, size_t len) {
    size_t low = 0;
    size_t high = s->f->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const sft_tensor *t = s->f->sorted[middle];
        const size_t n = t->name_len < len ? t->name_len : len;
        const int c = n == 0 ? 0 : memcmp(t->name, name, n);
        if (c == 0 && t->name_len == len) {
            return true;
        }
        if (c < 0 || (c == 0 && t->name_len < len)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

static const char *sidecar_in_tensors(sidecar *s, const char *p, const char *key, size_t key_len,
                                      const char *name, size_t name_len) {
    (void)name;
    (void)name_len;
    if (!sidecar_known(s, key, key_len)) {
        return sidecar_stop(
            s, sft__base_fail_tensor(s->err, SFT_E_STALE, SFT_NO_OFFSET, key, key_len,
                                     "%s lists a tensor that the file does not have", s->path));
    }
    s->listed++;
    return sidecar_object(s, p, sidecar_of_tensor, key, key_len);
}

static const char *sidecar_number(sidecar *s, const char *p, uint64_t want, bool *seen,
                                  const char *what) {
    sft__base_json_num number;

    if (*p != '-' && (*p < '0' || *p > '9')) {
        return sft__base_json_expected(&s->json, p, "a number is needed");
    }
    p = sft__base_json_number(&s->json, p, &number);
    if (p != NULL && (!number.is_uint || number.value != want)) {
        return sidecar_stop(s, sft__base_fail(s->err, SFT_E_STALE, "%s: %s is %llu, not %llu",
                                              s->path, what, (unsigned long long)number.value,
                                              (unsigned long long)want));
    }
    *seen = true;
    return p;
}

static const char *sidecar_top(sidecar *s, const char *p, const char *key, size_t key_len,
                               const char *name, size_t name_len) {
    (void)name;
    (void)name_len;
    if (sidecar_key(key, key_len, "schema")) {
        return sidecar_number(s, p, 1, &s->schema, "schema");
    }
    if (sidecar_key(key, key_len, "size")) {
        return sidecar_number(s, p, s->f->info->size, &s->size, "size");
    }
    if (sidecar_key(key, key_len, "tensors")) {
        return sidecar_object(s, p, sidecar_in_tensors, NULL, 0);
    }
    return sft__base_json_value(&s->json, p, 1);
}

static sft_status sidecar_parse(sidecar *s, const char *text, size_t len) {
    const size_t valid = sft__base_utf8_valid(text, len);
    const char *p;

    if (valid != len) {
        return sft__base_fail_at(s->err, SFT_E_UTF8, valid, "%s is not UTF-8", s->path);
    }
    s->json.end = text + len;
    p = sidecar_object(s, sft__base_json_blank(text), sidecar_top, NULL, 0);
    if (p == NULL && s->status != SFT_OK) {
        return s->status;
    }
    if (p == NULL) {
        return sft__base_fail_at(s->err, SFT_E_JSON, (uint64_t)(s->json.fault_at - text), "%s: %s",
                                 s->path, s->json.fault);
    }
    if (sft__base_json_blank(p) < s->json.end) {
        return sft__base_fail_at(s->err, SFT_E_JSON, (uint64_t)(p - text),
                                 "%s: text behind the object", s->path);
    }
    if (!s->schema || !s->size || s->listed != s->f->count) {
        return sft__base_fail(
            s->err, SFT_E_STALE,
            "%s lists %llu of %llu tensors; schema, size and all tensors are needed", s->path,
            (unsigned long long)s->listed, (unsigned long long)s->f->count);
    }
    return SFT_OK;
}

static sft_status sidecar_read(sidecar *s, const sft__move_recorded_file *f, sft_error *err) {
    sft_source *source;
    char *text = NULL;
    sft_status status;

    SFT_TRY(sft_source_open(&source, s->path, SFT_ACCESS_READ, f->allocator, err));
    const uint64_t size = sft_source_size(source);
    if (size > SIDECAR_MAX) {
        status = sft__base_fail(err, SFT_E_LIMIT, "%s has %llu bytes, the limit is %d", s->path,
                                (unsigned long long)size, SIDECAR_MAX);
    } else {
        text = sft__base_alloc_zero(f->allocator, (size_t)size + SFT__JSON_SLACK);
        status = text == NULL ? sft__base_fail_nomem(err, (size_t)size + SFT__JSON_SLACK)
                              : sft_source_read(source, 0, text, (size_t)size, err);
    }
    sft_source_close(source);
    if (status == SFT_OK) {
        s->err = err;
        sft__base_arena_init(&s->arena, f->allocator, 0);
        status = sidecar_parse(s, text, (size_t)size);
        sft__base_arena_free(&s->arena);
    }
    sft__base_free(f->allocator, text, (size_t)size + SFT__JSON_SLACK);
    return status;
}

/* *holds: the file's path still leads to the file that is open. A descriptor's name is no path.
 * *taken: it leads to another file, or to another size of it. */
static sft_status sidecar_path_holds(const sft__move_recorded_file *f, const sft_source *source,
                                     bool *holds, bool *taken, sft_error *err) {
    const int fd = sft_source_descriptor(source);
    bool exists;
    sft__fs_stat named;
    sft__fs_stat opened;

    *holds = *taken = false;
    SFT_TRY(sft__fs_stat_path(f->info->path, &exists, &named, err));
    if (!exists || !named.regular) {
        return SFT_OK;
    }
    *holds = named.size == f->info->size;
    if (*holds && fd >= 0) {
        SFT_TRY(sft__fs_stat_file((sft__fs_handle)fd, f->info->path, &opened, err));
        *holds = named.device == opened.device && named.inode == opened.inode;
    }
    *taken = !*holds;
    return SFT_OK;
}

sft_status sft__move_recorded_sidecar(const sft__move_recorded_file *f, bool *found,
                                      sft_error *err) {
    const sft_source *source = sft_catalog_source_at(f->catalog, f->info->source);
    sft__base_buf path;
    sft__fs_stat st;
    sidecar s = {0};
    bool exists = false;
    bool holds;
    bool taken;
    sft_status status = SFT_OK;

    *found = false;
    if (source == NULL || sft__io_source_nameless(source) ||
        (sft_source_flags(source) & (SFT_SOURCE_MEMORY | SFT_SOURCE_REMOTE)) != 0) {
        return SFT_OK; /* its "path" is none */
    }
    SFT_TRY(sidecar_path_holds(f, source, &holds, &taken, err));
    if (!holds && !taken) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, f->allocator);
    sft__base_buf_text(&path, f->info->path);
    sft__base_buf_add(&path, ".digests.json", sizeof ".digests.json");
    if (path.failed) {
        status = sft__base_fail_nomem(err, strlen(f->info->path) + sizeof ".digests.json");
    } else {
        status = sft__fs_stat_path(path.data, &exists, &st, err);
    }
    if (status == SFT_OK && !exists) { /* what it leads to, if it is a link, has one, perhaps */
        bool is;
        path.len = 0;
        status = sft__fs_link_target(f->info->path, &path, &is, err);
        if (status == SFT_OK && is) {
            path.len--; /* its NUL */
            sft__base_buf_add(&path, ".digests.json", sizeof ".digests.json");
            status = path.failed ? sft__base_fail_nomem(err, path.len)
                                 : sft__fs_stat_path(path.data, &exists, &st, err);
        }
    }
    if (status == SFT_OK && exists && taken) { /* of which of the two files? nobody knows */
        status = sft__base_fail(err, SFT_E_CHANGED, "%s was replaced before %s was read",
                                f->info->path, path.data);
    } else if (status == SFT_OK && exists) {
        s.f = f;
        s.path = path.data;
        status = sidecar_read(&s, f, err);
        *found = s.any;
    }
    sft__base_buf_reset(&path);
    return status;
}
