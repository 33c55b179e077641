/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/directory.c - which files make up a model: those that an index names, or all *.safetensors
 * files of a directory. Names from an index are checked as text first and then opened so that no link
 * leads out of the directory. Read first: model.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "catalog/model.h"
#include "fs/below.h"
#include "fs/output/half.h"
#include <stdlib.h>

#define WEIGHTS         ".safetensors"
#define INDEX           WEIGHTS ".index.json"
#define INDEX_PREFERRED "model" INDEX

typedef struct listed {
    const char *name; /* in the catalog's arena; name, len first for a sft__base_strmap */
    size_t len;
} listed;

typedef struct listing {
    bool marked; /* a model in it is half written, perhaps */
    sft__base_arena *arena;
    const sft_allocator *allocator;
    listed *weights;
    size_t weight_count;
    size_t weight_room;
    listed *indexes;
    size_t index_count;
    size_t index_room;
    uint64_t limit;
} listing;

static bool has_suffix(const char *name, size_t len, const char *suffix) {
    const size_t n = strlen(suffix);
    return len > n && memcmp(name + len - n, suffix, n) == 0;
}

static sft_status list_add(void *ctx, const char *name, size_t len, sft_error *err) {
    listing *l = ctx;
    const bool weights = has_suffix(name, len, WEIGHTS);
    listed **list = weights ? &l->weights : &l->indexes;
    size_t *count = weights ? &l->weight_count : &l->index_count;

    l->marked = l->marked || sft__fs_half_is_mark(name, len);
    if (name[0] == '.' || (!weights && !has_suffix(name, len, INDEX))) {
        return SFT_OK;
    }
    if (*count == l->limit) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "the directory has more than %llu weight files, the limit",
                              (unsigned long long)l->limit);
    }
    SFT_TRY(sft__base_need_room(l->allocator, list, weights ? &l->weight_room : &l->index_room,
                                *count + 1, sizeof **list, err));
    (*list)[*count].name = sft__base_arena_copy(l->arena, name, len);
    (*list)[*count].len = len;
    if ((*list)[*count].name == NULL) {
        return sft__catalog_arena_failed(l->arena, len, err);
    }
    ++*count;
    return SFT_OK;
}

static void listing_init(listing *l, sft__catalog_model *model) {
    memset(l, 0, sizeof *l);
    l->arena = &model->catalog->arena;
    l->allocator = model->catalog->allocator;
    l->limit = model->options->limits.shards;
}

static void listing_reset(listing *l) {
    sft__base_free(l->allocator, l->weights, l->weight_room * sizeof *l->weights);
    sft__base_free(l->allocator, l->indexes, l->index_room * sizeof *l->indexes);
}

static int by_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : a_len < b_len ? -1 : a_len > b_len;
}

static int compare_shards(const void *a, const void *b) {
    const sft__catalog_shard *x = a;
    const sft__catalog_shard *y = b;
    return by_bytes(x->name, x->name_len, y->name, y->name_len);
}

static int compare_listed(const void *a, const void *b) {
    const listed *x = a;
    const listed *y = b;
    return by_bytes(x->name, x->len, y->name, y->len);
}

static void sort(void *entries, size_t count, size_t size,
                 int (*compare)(const void *, const void *)) {
    if (count > 1) { /* qsort must not be given NULL */
        qsort(entries, count, size, compare);
    }
}

/* ---------------------------------------------------------------- a directory without an index */

static sft_status shards_from_listing(sft__catalog_model *model, listing *l, sft_error *err) {
    if (l->weight_count == 0) {
        return sft__base_fail(err, SFT_E_FORMAT, "%s has no *" WEIGHTS " file and no *" INDEX,
                              model->prefix);
    }
    sort(l->weights, l->weight_count, sizeof *l->weights, compare_listed);
    model->shards = sft__base_alloc_array(l->allocator, l->weight_count, sizeof *model->shards);
    SFT_NEED(model->shards != NULL, l->weight_count * sizeof *model->shards, err);
    model->shard_count = l->weight_count;
    for (size_t i = 0; i < l->weight_count; i++) {
        model->shards[i] =
            (sft__catalog_shard){.name = l->weights[i].name, .name_len = l->weights[i].len};
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- shards from an index */

static sft_status check_names(const sft__format_index *index, const char *index_name,
                              sft_error *err) {
    for (size_t i = 0; i < index->entry_count; i++) {
        const sft__format_index_entry *e = &index->entries[i];
        sft_error why;
        if (i > 0 && e->file_len == e[-1].file_len &&
            memcmp(e->file, e[-1].file, e->file_len) == 0) {
            continue; /* neighbours mostly share a file */
        }
        const sft_status status = sft__format_shard_name_check(e->file, e->file_len, &why);
        if (status != SFT_OK) {
            return sft__base_fail_tensor(err, status, e->offset, e->name, e->name_len, "%s: %s",
                                         index_name, why.message);
        }
    }
    return SFT_OK;
}

/* shard_of[i] becomes the first entry that names the same file; *count: how many such there are. */
static sft_status group_entries(sft__catalog_model *model, size_t *count, sft_error *err) {
    const sft__format_index *index = model->index;
    sft__base_strmap files; /* over the entries' file names */

    *count = 0;
    if (!sft__base_strmap_init(&files, &index->entries[0].file, sizeof *index->entries,
                               index->entry_count, model->catalog->allocator)) {
        sft__base_strmap_reset(&files);
        return sft__base_fail_nomem(err, index->entry_count * 2 * sizeof(uint64_t));
    }
    for (uint32_t i = 0; i < index->entry_count; i++) { /* fits: strmap_init took the count */
        const sft__format_index_entry *e = &index->entries[i];
        if (i > 0 && e->file_len == e[-1].file_len &&
            memcmp(e->file, e[-1].file, e->file_len) == 0) {
            model->shard_of[i] = model->shard_of[i - 1];
            continue;
        }
        const size_t first = sft__base_strmap_add(&files, i);
        model->shard_of[i] = first == SFT__STRMAP_NONE ? i : (uint32_t)first;
        *count += first == SFT__STRMAP_NONE;
    }
    sft__base_strmap_reset(&files);
    return SFT_OK;
}

static sft_status shards_from_index(sft__catalog_model *model, sft_error *err) {
    const sft__format_index *index = model->index;
    const sft_allocator *a = model->catalog->allocator;
    size_t count = 0;
    size_t at = 0;

    if (index->entry_count == 0) {
        return SFT_OK;
    }
    SFT_TRY(group_entries(model, &count, err));
    if (count > model->options->limits.shards) {
        return sft__base_fail(err, SFT_E_LIMIT, "the index names %llu files, the limit is %llu",
                              (unsigned long long)count,
                              (unsigned long long)model->options->limits.shards);
    }
    model->shards = sft__base_alloc_array(a, count, sizeof *model->shards);
    uint32_t *position = sft__base_alloc_array(a, index->entry_count, sizeof *position);
    if (model->shards != NULL) {
        model->shard_count = count;
    }
    if (model->shards == NULL || position == NULL) {
        sft__base_free(a, position, index->entry_count * sizeof *position);
        return sft__base_fail_nomem(err, count * sizeof *model->shards);
    }
    for (uint32_t i = 0; i < index->entry_count; i++) {
        if (model->shard_of[i] == i) {
            const sft__format_index_entry *e = &index->entries[i];
            model->shards[at++] =
                (sft__catalog_shard){.name = e->file, .name_len = e->file_len, .first = i};
        }
    }
    sort(model->shards, count, sizeof *model->shards, compare_shards);
    for (uint32_t s = 0; s < count; s++) {
        position[model->shards[s].first] = s;
    }
    for (size_t i = 0; i < index->entry_count; i++) {
        model->shard_of[i] = position[model->shard_of[i]];
        model->shards[model->shard_of[i]].entries++;
    }
    sft__base_free(a, position, index->entry_count * sizeof *position);
    for (size_t s = 0; s < count; s++) { /* the index's own memory ends with the opening */
        sft__catalog_shard *shard = &model->shards[s];
        shard->name = sft__base_arena_copy(&model->catalog->arena, shard->name, shard->name_len);
        if (shard->name == NULL) {
            return sft__catalog_arena_failed(&model->catalog->arena, shard->name_len, err);
        }
    }
    return SFT_OK;
}

/* Weight files that the index does not name. */
static sft_status orphan_files(sft__catalog_model *model, const listing *l, sft_error *err) {
    sort(l->weights, l->weight_count, sizeof *l->weights, compare_listed);
    for (size_t i = 0, s = 0; i < l->weight_count; i++) {
        const listed *w = &l->weights[i];
        sft__catalog_shown shown;
        int order = 1;
        while (s < model->shard_count &&
               (order = by_bytes(model->shards[s].name, model->shards[s].name_len, w->name,
                                 w->len)) < 0) {
            s++;
        }
        if (s == model->shard_count || order != 0) {
            SFT_TRY(sft__catalog_problem_add(model->catalog, SFT_PROBLEM_ORPHAN_FILE,
                                             (sft__catalog_subject){w->name, w->len}, err,
                                             "%s lies beside the index but is not named in it",
                                             sft__catalog_show(&shown, w->name, w->len)));
        }
    }
    return SFT_OK;
}

/* Everything that follows once the index is parsed. */
static sft_status open_indexed(sft__catalog_model *model, const listing *l, sft_error *err) {
    const sft_allocator *a = model->catalog->allocator;
    const size_t entries = model->index->entry_count;
    sft_status status;

    SFT_TRY(check_names(model->index, model->index_name, err));
    model->shard_of = sft__base_alloc_array(a, entries, sizeof *model->shard_of);
    if (model->shard_of == NULL && entries != 0) {
        return sft__base_fail_nomem(err, entries * sizeof *model->shard_of);
    }
    status = shards_from_index(model, err);
    if (status == SFT_OK) {
        status = sft__catalog_shards_load(model, err);
    }
    if (status == SFT_OK) {
        status = sft__catalog_shards_reconcile(model, err);
    }
    if (status == SFT_OK) {
        status = orphan_files(model, l, err);
    }
    sft__base_free(a, model->shard_of, entries * sizeof *model->shard_of);
    return status;
}

static sft_status read_index(sft__catalog_model *model, const sft_source *source, const listing *l,
                             sft_error *err) {
    const sft_allocator *a = model->catalog->allocator;
    const uint64_t size = sft_source_size(source);
    const sft_limits *limits = &model->options->limits;
    sft__format_index index;
    sft_status status;

    /* header_bytes < 2^32, so the conversion below cannot fail where size_t has 32 bits */
    if (size > limits->header_bytes || (limits->memory_bytes != 0 && size > limits->memory_bytes)) {
        return sft__base_fail(err, SFT_E_LIMIT, "%s has %llu bytes, above the limit",
                              model->index_name, (unsigned long long)size);
    }
    char *text = sft__base_alloc(a, (size_t)size + 1);
    SFT_NEED(text != NULL, (size_t)size + 1, err);
    text[size] = '\0';
    status = sft_source_read(source, 0, text, (size_t)size, err);
    if (status == SFT_OK) {
        status = sft__format_index_parse(&index, text, (size_t)size, &model->options->open, err);
        if (status != SFT_OK) {
            sft__catalog_error_prefix(err, model->index_name);
        }
    }
    sft__base_free(a, text, (size_t)size + 1); /* the parsed index keeps what it needs */
    if (status == SFT_OK) {
        model->index = &index;
        status = open_indexed(model, l, err);
        model->index = NULL;
        sft__format_index_reset(&index);
    }
    return status;
}

static void model_reset(sft__catalog_model *model) {
    sft__base_free(model->catalog->allocator, model->shards,
                   model->shard_count * sizeof *model->shards);
    model->shards = NULL;
}

/* ---------------------------------------------------------------- the two ways in */

/* The path of a directory as the beginning of its files' paths. */
static sft_status set_prefix(sft__catalog_model *model, const char *path, size_t len,
                             bool separator, sft_error *err) {
    char *prefix = sft__base_arena_alloc(&model->catalog->arena, len + 2, 1);
    if (prefix == NULL) {
        return sft__catalog_arena_failed(&model->catalog->arena, len + 2, err);
    }
    memcpy(prefix, path, len);
    if (separator && len > 0 && sft__fs_base_name(path) != path + len) {
        prefix[len++] = '/';
    }
    prefix[len] = '\0';
    model->prefix = prefix;
    return SFT_OK;
}

/* The index that named the files is there still, so none of them was replaced before it was opened:
 * who replaces a model removes its index first. */
static sft_status same_index(const sft__catalog_model *model, const char *path,
                             const sft__fs_stat *then, sft_error *err) {
    sft__fs_stat now;
    bool there;

    SFT_TRY(sft__fs_stat_path(path, &there, &now, err));
    if (there && now.device == then->device && now.inode == then->inode && now.size == then->size &&
        now.mtime_ns == then->mtime_ns) {
        return SFT_OK;
    }
    return sft__base_fail(err, SFT_E_CHANGED, "%s was replaced while its files were opened",
                          model->index_name);
}

sft_status sft__catalog_open_index(sft_catalog *catalog, const sft_source *source, const char *path,
                                   const sft__catalog_options *options, sft_error *err) {
    sft__catalog_model model = {
        .catalog = catalog, .options = options, .directory = SFT__FS_NO_HANDLE};
    const char *base = sft__fs_base_name(path);
    listing l;
    sft__fs_stat st;
    sft_status status;

    model.index_name = sft__base_arena_copy(&catalog->arena, base, strlen(base));
    if (model.index_name == NULL) {
        return sft__catalog_arena_failed(&catalog->arena, strlen(base), err);
    }
    SFT_TRY(set_prefix(&model, path, (size_t)(base - path), false, err));
    SFT_TRY(
        sft__fs_open_any(model.prefix[0] != '\0' ? model.prefix : ".", &model.directory, &st, err));
    listing_init(&l, &model);
    status = sft__fs_list(model.prefix, list_add, &l, err);
    if (status == SFT_E_IO || status == SFT_E_LIMIT) {
        status =
            SFT_OK; /* only orphans are looked for here: a directory may be searchable, not listable */
    }
    if (status == SFT_OK) {
        status = read_index(&model, source, &l, err);
    }
    if (status == SFT_OK && sft__io_source_stamp(source, &st)) {
        status = same_index(&model, path, &st, err);
    }
    listing_reset(&l);
    model_reset(&model);
    sft__fs_close(model.directory);
    return status;
}

/* The index among those listed: NULL if there is none. */
static sft_status choose_index(const listing *l, const char *path, const char **name,
                               sft_error *err) {
    char names[200];
    size_t at = 0;

    *name = l->index_count == 1 ? l->indexes[0].name : NULL;
    if (l->index_count < 2) {
        return SFT_OK;
    }
    sort(l->indexes, l->index_count, sizeof *l->indexes, compare_listed);
    for (size_t i = 0; i < l->index_count; i++) {
        sft__catalog_shown shown;
        const char *text = sft__catalog_show(&shown, l->indexes[i].name, l->indexes[i].len);
        const size_t len = strlen(text);
        if (strcmp(l->indexes[i].name, INDEX_PREFERRED) == 0) {
            *name = l->indexes[i].name;
            return SFT_OK;
        }
        if (at + len + 3 < sizeof names) { /* as many as fit */
            memcpy(names + at, i > 0 ? ", " : "", i > 0 ? 2 : 0);
            at += i > 0 ? 2 : 0;
            memcpy(names + at, text, len);
            at += len;
        }
    }
    names[at] = '\0';
    return sft__base_fail(err, SFT_E_INDEX, "%s has %llu index files, open one of them: %s", path,
                          (unsigned long long)l->index_count, names);
}

static sft_status open_chosen(sft__catalog_model *model, const listing *l, sft_error *err) {
    const sft__fs_root root = {model->directory, model->prefix, SFT__FS_LINKS_INSIDE};
    sft__fs_handle file;
    sft__fs_stat st;
    sft_source *source;
    bool missing;

    SFT_TRY(sft__fs_open_below(&root, model->index_name, &file, &st, &missing, err));
    SFT_TRY(sft__io_source_from_handle(&source, &(sft__io_file){file, &st, model->index_name},
                                       SFT_ACCESS_READ, model->catalog->allocator, err));
    sft_status status = read_index(model, source, l, err);
    sft_source_close(source);
    if (status == SFT_OK) {
        const size_t before = strlen(model->prefix);
        const size_t len = strlen(model->index_name) + 1;
        char *path = sft__base_arena_alloc(&model->catalog->arena, before + len, 1);
        if (path == NULL) {
            return sft__catalog_arena_failed(&model->catalog->arena, before + len, err);
        }
        memcpy(path, model->prefix, before);
        memcpy(path + before, model->index_name, len);
        status = same_index(model, path, &st, err);
    }
    return status;
}

/* Files come and go without anybody's word; but who writes a model of several leaves a mark first, and an
 * index last. */
static sft_status look_again(void *ctx, const char *name, size_t len, sft_error *err) {
    (void)ctx;
    return name[0] != '.' && has_suffix(name, len, INDEX)
               ? sft__base_fail(err, SFT_E_CHANGED, "a model came to lie there while it was opened")
               : SFT_OK;
}

static sft_status open_unindexed(sft__catalog_model *model, listing *l, sft_error *err) {
    if (l->marked) {
        SFT_TRY(sft_model_check(model->prefix[0] != '\0' ? model->prefix : ".", err));
    }
    SFT_TRY(shards_from_listing(model, l, err));
    SFT_TRY(sft__catalog_shards_load(model, err));
    if (model->elsewhere == NULL) { /* began, or ended, meanwhile? */
        const char *path = model->prefix[0] != '\0' ? model->prefix : ".";
        SFT_TRY(sft__fs_list(path, look_again, NULL, err));
        SFT_TRY(sft_model_check(path, err));
        SFT_TRY(sft__catalog_shards_count(model, err));
    }
    return sft__catalog_shards_merge(model, err);
}

sft_status sft__catalog_open_directory(sft_catalog *catalog, sft__fs_handle directory,
                                       const char *path, const sft__catalog_options *options,
                                       sft_error *err) {
    sft__catalog_model model = {.catalog = catalog, .options = options, .directory = directory};
    listing l;
    sft_status status;

    SFT_TRY(set_prefix(&model, path, strlen(path), true, err));
    listing_init(&l, &model);
    status = sft__fs_list(model.prefix, list_add, &l, err);
    if (status == SFT_OK) {
        status = choose_index(&l, path, &model.index_name, err);
    }
    if (status == SFT_OK) {
        status = model.index_name != NULL ? open_chosen(&model, &l, err)
                                          : open_unindexed(&model, &l, err);
    }
    listing_reset(&l);
    model_reset(&model);
    return status;
}

/* ---------------------------------------------------------------- files that are in no directory */

static sft_status names_add(listing *l, const sft_model_files *files, sft_error *err) {
    for (size_t i = 0; i < files->name_count; i++) {
        const size_t len = strlen(files->names[i]);
        SFT_TRY(sft__format_shard_name_check(files->names[i], len, err));
        if (!has_suffix(files->names[i], len, WEIGHTS)) {
            return sft__base_fail(err, SFT_E_ARG, "a file of a model is not called *" WEIGHTS);
        }
        SFT_TRY(list_add(l, files->names[i], len, err));
    }
    return SFT_OK;
}

static sft_status open_elsewhere(sft_catalog *catalog, const sft_model_files *files,
                                 const sft__catalog_options *options, sft_error *err) {
    sft__catalog_model model = {.catalog = catalog,
                                .options = options,
                                .directory = SFT__FS_NO_HANDLE,
                                .elsewhere = files,
                                .prefix = "the model"};
    listing l;
    sft_status status;

    listing_init(&l, &model);
    if (files->index != NULL) {
        const char *base = sft__fs_base_name(sft_source_name(files->index));
        model.index_name = sft__base_arena_copy(&catalog->arena, base, strlen(base));
        status = model.index_name == NULL
                     ? sft__catalog_arena_failed(&catalog->arena, strlen(base), err)
                     : read_index(&model, files->index, &l, err);
    } else {
        status = names_add(&l, files, err);
        if (status == SFT_OK) {
            status = open_unindexed(&model, &l, err);
        }
    }
    listing_reset(&l);
    model_reset(&model);
    return status;
}

sft_status sft_catalog_open_model(sft_catalog **out, const sft_model_files *files,
                                  const sft_open_options *options, sft_error *err) {
    sft__catalog_options o;
    sft_catalog *catalog;

    SFT_OUT(out, err);
    if (files == NULL || files->struct_size < sizeof *files || files->open == NULL ||
        (files->names == NULL && files->name_count != 0)) {
        return sft__base_fail(err, SFT_E_ARG, "files needs struct_size, open and names");
    }
    SFT_TRY(sft__catalog_open_read(&o, options, err));
    SFT_TRY(sft__catalog_new(&catalog, &o, err));
    sft_status status = open_elsewhere(catalog, files, &o, err);
    status = status == SFT_OK ? sft__catalog_aliases(catalog, err) : status;
    if (status == SFT_OK) {
        *out = catalog;
    } else {
        sft_catalog_close(catalog);
    }
    return status;
}
