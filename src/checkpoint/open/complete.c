/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/complete.c - MindSpore's complete weights: part files, a param_name_map.json
 * that says which parameter lies in which ({"weight_map": {...}} or flat), and
 * hyper_param.safetensors with what is no weight. The map becomes an index, so that the catalog's
 * rules for indexes hold. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "checkpoint/open/checkpoint.h"

#define NAME_MAP "param_name_map.json"
#define HYPER    "hyper_param.safetensors"

typedef struct complete {
    sft_checkpoint *c;
    const sft__layout_jnode *map;
    sft_catalog *hyper;
    sft__base_buf index;
    bool any;
} complete;

static void put_entry(complete *w, const char *name, size_t len, const char *file,
                      size_t file_len) {
    sft__base_buf_text(&w->index, w->any ? ", " : "");
    sft__base_json_string(&w->index, name, len);
    sft__base_buf_text(&w->index, ": ");
    sft__base_json_string(&w->index, file, file_len);
    w->any = true;
}

static sft_status read_map(complete *w, sft__checkpoint_text *text, sft_error *err) {
    const char *path;
    sft__layout_jnode *root;
    SFT_TRY(sft__checkpoint_path(w->c, w->c->directory, NAME_MAP, &path, err));
    SFT_TRY(sft__checkpoint_read(w->c, path, text, err));
    SFT_TRY(sft__layout_jtree_parse(&root, &w->c->arena, text->data, text->size, NAME_MAP, err));
    w->map = sft__layout_jtree_get(root, "weight_map");
    w->map = w->map != NULL && w->map->type == SFT__J_OBJECT ? w->map : root;
    if (w->map->type != SFT__J_OBJECT) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, w->map->offset,
                                 NAME_MAP ": expected an object");
    }
    if (w->map->first == NULL) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, w->map->offset,
                                 NAME_MAP ": it names no tensor");
    }
    for (const sft__layout_jnode *m = w->map->first; m != NULL; m = m->next) {
        if (m->type != SFT__J_STRING) {
            return sft__base_fail_tensor(err, SFT_E_SCHEMA, m->offset, m->key, m->key_len,
                                         NAME_MAP ": expected the name of a file");
        }
    }
    return SFT_OK;
}

/* What both have is the map's: a rank's slices of parameters that a filter left out land among the
 * others. */
static sft_status put_hyper(complete *w, sft_error *err) {
    const size_t count = w->hyper != NULL ? sft_catalog_count(w->hyper) : 0;
    sft__base_strmap names;
    struct {
        const char *name;
        size_t len;
    } *list;
    size_t n = 0;
    list = sft__base_alloc_array(w->c->allocator, w->map->len + 1, sizeof *list);
    SFT_NEED(list != NULL, w->map->len * sizeof *list, err);
    const bool ok =
        sft__base_strmap_init(&names, list, sizeof *list, w->map->len + 1, w->c->allocator);
    for (const sft__layout_jnode *m = ok ? w->map->first : NULL; m != NULL; m = m->next) {
        list[n].name = m->key;
        list[n].len = m->key_len;
        if (sft__base_strmap_add(&names, n) == SFT__STRMAP_NONE) {
            n++;
        }
    }
    for (size_t i = 0; ok && i < count; i++) {
        const sft_tensor *const t = sft_catalog_at(w->hyper, i);
        if (sft__base_strmap_find(&names, t->name, t->name_len) == SFT__STRMAP_NONE) {
            put_entry(w, t->name, t->name_len, HYPER, sizeof HYPER - 1);
        }
    }
    sft__base_strmap_reset(&names);
    sft__base_free(w->c->allocator, list, (w->map->len + 1) * sizeof *list);
    return ok ? SFT_OK : sft__base_fail_nomem(err, n * sizeof(uint64_t));
}

static sft_status open_files(void *ctx, const char *const *names, size_t count,
                             sft_source **sources, sft_error *err) {
    const complete *const w = ctx;
    for (size_t i = 0; i < count; i++) {
        sft_error why;
        bool missing; /* told by the catalog, which knows what the file was for */
        const sft_status status = sft__checkpoint_open_below(
            w->c->directory, names[i], w->c->allocator, &sources[i], &missing, &why);
        if (status != SFT_OK && !missing) {
            if (err != NULL) {
                *err = why;
            }
            return status;
        }
    }
    return SFT_OK;
}

/* Of the index that was made of the map nobody knows. */
static sft_status about_map(const sft_error *why, sft_error *err) {
    static const char made[] = "memory: ";
    static const char places[] = " memory places ";
    const size_t n = strncmp(why->message, made, sizeof made - 1) == 0 ? sizeof made - 1 : 0;
    const char *const at = strstr(why->message, places);
    const sft_status status = (sft_status)why->status;

    if (at != NULL) {
        return sft_error_from(err, status, why, "%.*s " NAME_MAP " places %s",
                              (int)(at - why->message), why->message, at + sizeof places - 1);
    }

    if (n == 0) {
        return sft_error_from(err, status, why, "%s", why->message);
    }
    return sft_error_at(err, status, SFT_NO_OFFSET, why->tensor, strlen(why->tensor),
                        NAME_MAP ": %s", why->message + n);
}

static sft_status open_all(complete *w, sft_error *err) {
    sft_model_files files;
    sft_catalog *catalog;
    sft_source *index;
    bool missing;
    SFT_TRY(sft__checkpoint_open_named(w->c, HYPER, &w->hyper, &missing, err));
    sft__base_buf_text(&w->index, "{\"weight_map\": {");
    for (const sft__layout_jnode *m = w->map->first; m != NULL; m = m->next) {
        put_entry(w, m->key, m->key_len, m->text, m->len);
    }
    SFT_TRY(put_hyper(w, err));
    sft__base_buf_text(&w->index, "}}");
    SFT_NEED(!w->index.failed, w->index.len, err);
    SFT_TRY(sft_source_open_memory(&index, w->index.data, w->index.len, w->c->allocator, err));
    SFT_INIT(&files);
    files.index = index;
    files.open = open_files;
    files.ctx = w;
    sft_error why;
    const sft_status status = sft_catalog_open_model(&catalog, &files, &w->c->open, &why);
    sft_source_close(index);
    return status == SFT_OK ? sft__checkpoint_add(w->c, 0, catalog, err) : about_map(&why, err);
}

sft_status sft__checkpoint_complete(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_text text;
    complete w;
    memset(&w, 0, sizeof w);
    memset(&text, 0, sizeof text);
    w.c = c;
    sft__base_buf_init(&w.index, c->allocator);
    text.allocator = c->allocator;
    sft_status status = read_map(&w, &text, err);
    if (status == SFT_OK) {
        status = open_all(&w, err);
    }
    sft_catalog_close(w.hyper);
    sft__base_buf_reset(&w.index);
    sft__checkpoint_text_reset(&text);
    return status;
}
