/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/open.c - from a URL to a catalog or a source: finds the file that is meant, begins what is
 * not in the local Hugging Face cache, lets the core merge shards by their index. Read first:
 * room.h, sft/extend.h, sft/open.h.
 */
#include "base/memory/need.h"
#include "base/options.h"
#include "remote/room.h"
#include <string.h>

#define HEADER_LIMIT ((uint64_t)100000000)

enum {
    INDEX_FIRST = 4 << 20,
    FIRST_DEFAULT = 64 << 10,
    FIRST_LEAST = 16 << 10,
    FIRST_MOST = 100000
};

/* What is the model of a repository when no file is named; the first that is there. */
static const char *const candidates[] = {"model.safetensors.index.json", "model.safetensors",
                                         "diffusion_pytorch_model.safetensors.index.json",
                                         "diffusion_pytorch_model.safetensors",
                                         "adapter_model.safetensors"};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

/* Where files of a model are looked for. */
typedef struct search {
    sft_remote *remote;
    const sft__remote_place *place; /* beside it */
    size_t first;                   /* as in sft__remote_beginnings */
    uint64_t limit;
} search;

/* ---------------------------------------------------------------- parts */

static void parts_reset(sft__remote_part *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sft_source_close(parts[i].local);
        sft__remote_object_free(parts[i].object);
        parts[i].local = NULL;
        parts[i].object = NULL;
    }
}

/* The directory of a path in the cache, and a name behind it. */
static sft_status part_local(sft__remote_part *part, sft_remote *remote,
                             const sft__remote_place *place, sft_error *err) {
    sft__base_buf path;
    size_t directory = place->cached.len > 0 ? place->cached.len - 1 : 0;
    sft_status status = SFT_OK;

    if (directory == 0) {
        return SFT_OK;
    }
    while (directory > 0 && place->cached.data[directory - 1] != '/') {
        directory--;
    }
    sft__base_buf_init(&path, remote->allocator);
    sft__base_buf_add(&path, place->cached.data, directory);
    sft__base_buf_text(&path, part->name);
    sft__base_buf_add(&path, "", 1);
    if (path.failed) {
        status = sft__base_fail_nomem(err, directory + strlen(part->name) + 1);
    } else if (sft__remote_path_exists(path.data)) {
        status = sft_source_open(&part->local, path.data, SFT_ACCESS_AUTO, remote->allocator, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status part_object(sft__remote_part *part, sft_remote *remote,
                              const sft__remote_place *place, sft_error *err) {
    sft__base_buf url;
    sft_status status;

    if ((remote->settings.o.flags & SFT_REMOTE_OFFLINE) != 0) { /* as if it were not there */
        return SFT_OK;
    }
    sft__base_buf_init(&url, remote->allocator);
    sft__remote_url_beside(&url, place->url.data, part->name);
    sft__base_buf_add(&url, "", 1);
    status = url.failed ? sft__base_fail_nomem(err, place->url.len + strlen(part->name))
                        : sft__remote_object_create(&part->object, remote, url.data,
                                                    place->credential, err);
    sft__base_buf_reset(&url);
    return status;
}

/* Begins the objects among the parts. Those that are not there end; any other failure is one of
 * all. */
static sft_status parts_begin(sft__remote_part *parts, size_t count, const search *s,
                              sft_error *err) {
    const sft_allocator *a = s->remote->allocator;
    sft__remote_object **objects = sft__base_alloc_array(a, count, sizeof *objects);
    size_t *of = sft__base_alloc_array(a, count, sizeof *of);
    sft_status *statuses = sft__base_alloc_array(a, count, sizeof *statuses);
    int32_t *https = sft__base_alloc_zero(a, count * sizeof *https);
    sft_status status = SFT_OK;
    size_t n = 0;

    if (objects == NULL || of == NULL || statuses == NULL || https == NULL) {
        status = sft__base_fail_nomem(err, count * sizeof *objects);
    } else {
        for (size_t i = 0; i < count; i++) {
            if (parts[i].object != NULL) {
                of[n] = i;
                objects[n++] = parts[i].object;
            }
        }
        const sft__remote_beginnings all = {.objects = objects,
                                            .count = n,
                                            .first = s->first,
                                            .headers = true,
                                            .limit = s->limit,
                                            .statuses = statuses,
                                            .https = https};
        status = sft__remote_objects_begin(&all, err);
        if (status == SFT_E_HTTP) {
            status = SFT_OK;
            for (size_t i = 0; i < n; i++) {
                status = statuses[i] != SFT_OK && https[i] != 404 ? statuses[i] : status;
            }
        }
        for (size_t i = 0; i < n && status == SFT_OK; i++) {
            if (https[i] == 404) {
                sft__remote_object_free(parts[of[i]].object);
                parts[of[i]].object = NULL;
            }
        }
    }
    sft__base_free(a, objects, count * sizeof *objects);
    sft__base_free(a, of, count * sizeof *of);
    sft__base_free(a, statuses, count * sizeof *statuses);
    sft__base_free(a, https, count * sizeof *https);
    return status;
}

/* Finds the files called `names` and begins all that are not in the local cache. Those that are nowhere
 * (HTTP 404) stay empty. */
static sft_status parts_find(sft__remote_part *parts, const search *s, const char *const *names,
                             size_t count, sft_error *err) {
    sft_status status = SFT_OK;

    memset(parts, 0, count * sizeof *parts);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        parts[i].name = names[i];
        status = part_local(&parts[i], s->remote, s->place, err);
        if (status == SFT_OK && parts[i].local == NULL) {
            status = part_object(&parts[i], s->remote, s->place, err);
        }
    }
    if (status == SFT_OK && count > 0) {
        status = parts_begin(parts, count, s, err);
    }
    if (status != SFT_OK) {
        parts_reset(parts, count);
    }
    return status;
}

/* Takes the part's source out; the object goes into it. */
static sft_status part_source(sft__remote_part *part, sft_source **out, sft_error *err) {
    *out = part->local;
    part->local = NULL;
    if (*out == NULL) {
        SFT_TRY(sft__remote_source_over(out, part->object, err));
        part->object = NULL;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the file that is meant */

static sft_status name_chosen(sft__remote_place *place, const char *name, sft_error *err) {
    sft__base_buf *const texts[] = {&place->url, &place->cached};
    for (size_t i = 0; i < 2; i++) {
        if (texts[i]->len > 0) {
            texts[i]->len--; /* the NUL */
            sft__base_buf_text(texts[i], name);
            sft__base_buf_add(texts[i], "", 1);
            if (texts[i]->failed) {
                return sft__base_fail_nomem(err, texts[i]->len + strlen(name));
            }
        }
    }
    return SFT_OK;
}

static sft_status choose(sft__remote_place *place, sft__remote_part *part, sft_remote *remote,
                         uint64_t limit, sft_error *err) {
    sft__remote_part parts[CANDIDATES];
    char shown[200];
    size_t i = 0;

    if (place->cached.len > 1 && place->cached.data[place->cached.len - 2] != '/') {
        place->cached.len--;
        sft__base_buf_add(&place->cached, "/", 2);
    }
    const search where = {remote, place, 0, limit};
    SFT_TRY(parts_find(parts, &where, candidates, CANDIDATES, err));
    while (i < CANDIDATES && parts[i].local == NULL && parts[i].object == NULL) {
        i++;
    }
    if (i == CANDIDATES) {
        sft__remote_url_show(shown, sizeof shown, place->url.data);
        const bool offline = (remote->settings.o.flags & SFT_REMOTE_OFFLINE) != 0;
        return sft_error_set(
            err, SFT_E_HTTP, offline ? 0 : 404,
            offline ? "%s: offline, and not in the local cache"
                    : "%s: has neither model.safetensors nor an index for it; name a file",
            shown);
    }
    *part = parts[i];
    parts[i].local = NULL;
    parts[i].object = NULL;
    parts_reset(parts, CANDIDATES);
    return name_chosen(place, part->name, err);
}

static sft_status begin_one(sft__remote_part *part, bool json, uint64_t limit, sft_error *err) {
    sft_status status;
    const sft__remote_beginnings one = {.objects = &part->object,
                                        .count = 1,
                                        .first = json ? INDEX_FIRST : 0,
                                        .headers = !json,
                                        .limit = limit,
                                        .statuses = &status};
    return sft__remote_objects_begin(&one, err);
}

/* The place is a directory's now. Where the search there says no, it was no file's either. */
static sft_status choose_named(sft__remote_place *place, sft__remote_part *part, sft_remote *remote,
                               uint64_t limit, sft_error *err) {
    char shown[200];

    sft__remote_url_show(shown, sizeof shown, place->url.data);
    place->url.len--; /* the NUL */
    sft__base_buf_add(&place->url, "/", 2);
    SFT_NEED(!place->url.failed, place->url.len + 2, err);
    sft_error why = {0};
    const sft_status status = choose(place, part, remote, limit, &why);
    if (status == SFT_E_HTTP && why.sys == 404) {
        return sft_error_set(err, SFT_E_HTTP, 404,
                             "%s: not found, neither a file nor a directory with model.safetensors "
                             "or an index for it",
                             shown);
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

static sft_status begin_named(sft__remote_place *place, sft__remote_part *part, sft_remote *remote,
                              uint64_t limit, sft_error *err) {
    const bool json = sft__remote_url_is_json(place->url.data);
    const bool here = place->cached.len > 0;
    sft_error why = {0};
    sft_status status;

    if (here) {
        status = sft_source_open(&part->local, place->cached.data, SFT_ACCESS_AUTO,
                                 remote->allocator, &why);
    } else {
        status = sft__remote_object_create(&part->object, remote, place->url.data,
                                           place->credential, &why);
        if (status == SFT_OK) {
            status = begin_one(part, json, limit, &why);
        }
    }
    if (place->perhaps_directory &&
        (here ? status == SFT_E_NOT_REGULAR : status == SFT_E_HTTP && why.sys == 404)) {
        parts_reset(part, 1);
        return choose_named(place, part, remote, limit, err);
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

/* The file that the place names, or the one that is the model of the repository: parts[0]. The
 * place is then that of the file, with the commit that the hub told instead of a branch. */
static sft_status place_begin(sft__remote_place *place, sft__remote_part *part, sft_remote *remote,
                              uint64_t limit, sft_error *err) {
    memset(part, 0, sizeof *part);
    sft_status status = place->repository ? choose(place, part, remote, limit, err)
                                          : begin_named(place, part, remote, limit, err);
    if (status == SFT_OK && part->object != NULL) {
        status = sft__remote_place_pin(place, remote, part->object->commit, err);
    }
    if (status != SFT_OK) {
        parts_reset(part, 1);
    }
    return status;
}

/* ---------------------------------------------------------------- catalogs */

typedef struct opening {
    sft_remote *remote;
    uint64_t limit;
    sft__remote_opened *opened;
} opening;

/* A header says of each tensor what the index says and some 80 bytes more: how long headers will be
 * is told by the length of the index. */
static size_t first_read(const sft__remote_opened *opened, const sft_remote *remote, size_t count) {
    const size_t given = remote->settings.o.first_bytes;
    if (opened->index == NULL || given != FIRST_DEFAULT) {
        return given;
    }
    const uint64_t guess = sft_source_size(opened->index) / count * 3 + (8 << 10);
    return guess < FIRST_LEAST ? FIRST_LEAST : guess > FIRST_MOST ? FIRST_MOST : (size_t)guess;
}

static sft_status open_shards(void *ctx, const char *const *names, size_t count,
                              sft_source **sources, sft_error *err) {
    const opening *o = ctx;
    sft__remote_opened *opened = o->opened;
    const sft_allocator *a = o->remote->allocator;
    sft__remote_part *parts = sft__base_alloc_array(a, count, sizeof *parts);
    sft_status status;

    opened->files = sft__base_alloc_zero(a, count * sizeof *opened->files);
    if (parts == NULL || opened->files == NULL) {
        sft__base_free(a, parts, count * sizeof *parts);
        sft__base_free(a, opened->files, count * sizeof *opened->files);
        opened->files = NULL;
        return sft__base_fail_nomem(err, count * sizeof *parts);
    }
    opened->room = count;
    const search where = {o->remote, &opened->place, first_read(opened, o->remote, count),
                          o->limit};
    status = parts_find(parts, &where, names, count, err);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        sft__remote_opened_file *file = &opened->files[opened->count];
        if (parts[i].local == NULL && parts[i].object == NULL) {
            continue;
        }
        *file = (sft__remote_opened_file){NULL, NULL, parts[i].object};
        status = part_source(&parts[i], &sources[i], err);
        if (status == SFT_OK) {
            file->source = sources[i];
            file->name = sft__base_arena_copy(&opened->names, names[i], strlen(names[i]));
            status = file->name != NULL ? SFT_OK : sft__base_fail_nomem(err, strlen(names[i]));
            opened->count++;
        }
    }
    if (status != SFT_OK) {
        parts_reset(parts, count);
    }
    sft__base_free(a, parts, count * sizeof *parts);
    return status;
}

/* A file under any name that begins as a JSON object is an index. */
static bool is_index(const sft__remote_place *place, const sft_source *source) {
    char first;
    return sft__remote_url_is_json(place->url.data) ||
           (sft_source_size(source) > 0 && sft_source_read(source, 0, &first, 1, NULL) == SFT_OK &&
            first == '{' && sft_source_size(source) < HEADER_LIMIT);
}

static uint64_t header_limit(const sft_open_options *options) {
    if (options != NULL && options->struct_size >= offsetof(sft_open_options, access) &&
        options->limits != NULL && options->limits->struct_size >= 2 * sizeof(uint64_t) &&
        options->limits->header_bytes != 0) {
        return options->limits->header_bytes;
    }
    return HEADER_LIMIT;
}

static sft_status open_single(sft__remote_opened *opened, sft_remote *remote, sft_source *source,
                              sft__remote_object *object, const sft_open_options *options,
                              sft_error *err) {
    const char *name;
    size_t len;

    opened->files = sft__base_alloc_zero(remote->allocator, sizeof *opened->files);
    opened->room = opened->files != NULL ? 1 : 0;
    sft__remote_url_base(opened->place.url.data, &name, &len);
    name = sft__base_arena_copy(&opened->names, name, len);
    if (opened->files == NULL || name == NULL) {
        sft_source_close(source);
        return sft__base_fail_nomem(err, sizeof *opened->files + len);
    }
    opened->files[opened->count++] = (sft__remote_opened_file){name, source, object};
    return sft_catalog_open_source(&opened->catalog, source, options, err);
}

static sft_status open_indexed(sft__remote_opened *opened, const opening *o,
                               const sft_open_options *options, sft_error *err) {
    sft_model_files files;
    opening mine = *o;

    SFT_INIT(&files);
    files.index = opened->index;
    files.open = open_shards;
    files.ctx = &mine;
    return sft_catalog_open_model(&opened->catalog, &files, options, err);
}

sft_status sft__remote_open(sft__remote_opened *out, sft_remote *remote, const char *url,
                            const sft_open_options *options, sft_error *err) {
    opening o = {.remote = remote, .limit = header_limit(options), .opened = out};
    sft_source *source;
    sft__remote_part part;

    memset(out, 0, sizeof *out);
    sft__base_arena_init(&out->names, remote->allocator, 0);
    SFT_TRY(sft__remote_place_find(&out->place, remote, url, err));
    sft_status status = place_begin(&out->place, &part, remote, o.limit, err);
    if (status == SFT_OK) {
        sft__remote_object *object = part.object;
        status = part_source(&part, &source, err);
        if (status != SFT_OK) {
            parts_reset(&part, 1);
        } else if (is_index(&out->place, source)) {
            out->index = source;
            out->index_object = object;
            status = open_indexed(out, &o, options, err);
        } else {
            status = open_single(out, remote, source, object, options, err);
        }
    }
    if (status != SFT_OK) {
        out->count = 0; /* gone with their sources */
        sft__remote_opened_reset(out, remote);
        return status;
    }
    for (size_t i = 0; i < out->count; i++) {
        if (out->files[i].object != NULL) {
            sft__remote_object_forget_head(out->files[i].object);
        }
    }
    return SFT_OK;
}

void sft__remote_opened_reset(sft__remote_opened *opened, sft_remote *remote) {
    sft_catalog_close(opened->catalog);
    sft_source_close(opened->index);
    sft__base_free(remote->allocator, opened->files, opened->room * sizeof *opened->files);
    sft__base_arena_free(&opened->names);
    sft__remote_place_reset(&opened->place);
    memset(opened, 0, sizeof *opened);
}

sft_status sft_remote_source_open(sft_source **out, sft_remote *remote, const char *url,
                                  sft_error *err) {
    sft__remote_place place;
    sft__remote_part part;

    if (out == NULL || remote == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out or remote is NULL");
    }
    *out = NULL;
    SFT_TRY(sft__remote_place_find(&place, remote, url, err));
    sft_status status = place_begin(&place, &part, remote, HEADER_LIMIT, err);
    if (status == SFT_OK) {
        status = part_source(&part, out, err);
        if (status != SFT_OK) {
            parts_reset(&part, 1);
        }
    }
    sft__remote_place_reset(&place);
    return status;
}

/* ---------------------------------------------------------------- at the one door */

/* For openers behind this one. The caches have what was read of it. */
static sft_status fetch(sft_operand *operand, sft_error *err) {
    return sft_remote_source_open(&operand->source, operand->fetch_ctx, operand->path, err);
}

static sft_status open_operand(sft_operand *operand, const void *options, sft_catalog **out,
                               sft_error *err) {
    sft_remote_opening o;
    sft__remote_opened opened;

    if (operand->kind != SFT_OPERAND_URL) {
        return SFT_OK;
    }
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_remote_opening, remote),
                                   "options", err));
    if (o.remote == NULL && o.find != NULL) {
        SFT_TRY(o.find(o.ctx, &o.remote, err));
    }
    if (o.remote == NULL) {
        return sft_error_set(err, SFT_E_ARG, 0, "remote is NULL");
    }
    const sft_status status =
        sft__remote_open(&opened, o.remote, operand->path, operand->open, err);
    if (status == SFT_OK) {
        *out = opened.catalog;
        opened.catalog = NULL;
        sft__remote_opened_reset(&opened, o.remote);
        return SFT_OK;
    }
    operand->refused = *err;
    operand->fetch = fetch;
    operand->fetch_ctx = o.remote;
    return sft_operand_is_other(operand) ? SFT_OK : status;
}

const sft_opener *sft_remote_opener(void) {
    static const sft_opener opener = {sizeof opener, open_operand};
    return &opener;
}
