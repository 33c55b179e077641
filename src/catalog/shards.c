/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/shards.c - reads the headers of a model's files and merges their tensors into one array
 * with one name table. Read first: model.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "catalog/model.h"
#include "fs/below.h"
#include <stdio.h>

const char *sft__catalog_show(sft__catalog_shown *shown, const char *name, size_t name_len) {
    (void)sft__base_escape(shown->text, sizeof shown->text, name, name_len);
    return shown->text;
}

sft_status sft__catalog_problem_add(sft_catalog *catalog, sft_problem_kind kind,
                                    sft__catalog_subject subject, sft_error *err,
                                    const char *format, ...) {
    char text[SFT__PROBLEM_MAX];
    va_list args;
    sft_problem *problem;

    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0) {
        text[0] = '\0';
    }
    va_end(args);
    SFT_TRY(SFT_ONE_MORE(catalog->allocator, catalog->problems, catalog->problem_room,
                         catalog->problem_count, err));
    problem = &catalog->problems[catalog->problem_count];
    problem->kind = kind;
    problem->fatal = kind == SFT_PROBLEM_MISSING_FILE || kind == SFT_PROBLEM_MISSING_TENSOR;
    problem->subject = subject.text;
    problem->subject_len = subject.len;
    problem->message = sft__base_arena_copy(&catalog->arena, text, strlen(text));
    if (problem->message == NULL) {
        return sft__catalog_arena_failed(&catalog->arena, sizeof text, err);
    }
    catalog->problem_count++;
    return SFT_OK;
}

void sft__catalog_error_prefix(sft_error *err, const char *name) {
    sft__catalog_shown shown;
    if (err != NULL) {
        const sft_error e = *err;
        (void)sft__base_fail_at(err, (sft_status)e.status, e.offset, "%s: %s",
                                sft__catalog_show(&shown, name, strlen(name)), e.message);
        err->sys = e.sys;
        err->expected = e.expected;
        memcpy(err->tensor, e.tensor, sizeof err->tensor);
    }
}

/* A source over the shard, or NULL (and SFT_OK) if it is not there. */
static sft_status shard_open(const sft__catalog_model *model, const sft__catalog_shard *shard,
                             sft_source **source, sft_error *err) {
    sft_catalog *catalog = model->catalog;
    const size_t prefix_len = strlen(model->prefix);
    sft__fs_handle file;
    sft__fs_stat st;
    bool missing;
    char *path = sft__base_arena_alloc(&catalog->arena, prefix_len + shard->name_len + 1, 1);

    *source = NULL;
    if (path == NULL) {
        return sft__catalog_arena_failed(&catalog->arena, prefix_len + shard->name_len + 1, err);
    }
    memcpy(path, model->prefix, prefix_len);
    memcpy(path + prefix_len, shard->name, shard->name_len + 1);
    const sft__fs_root root = {model->directory, model->prefix, SFT__FS_LINKS_INSIDE};
    const sft_status status = sft__fs_open_below(&root, shard->name, &file, &st, &missing, err);
    if (missing) {
        return SFT_OK;
    }
    SFT_TRY(status);
    return sft__io_source_from_handle(source, &(sft__io_file){file, &st, path},
                                      model->options->open.access, catalog->allocator, err);
}

static sft_status shard_missing(const sft__catalog_model *model, const sft__catalog_shard *shard,
                                sft_error *err) {
    sft__catalog_shown shown;
    const char *name = sft__catalog_show(&shown, shard->name, shard->name_len);
    const unsigned long long entries = shard->entries;

    if (model->index == NULL) { /* it was listed a moment ago */
        return sft__base_fail(err, SFT_E_SHARD_MISSING,
                              "%s vanished while the directory was opened", name);
    }
    if ((model->options->open.flags & SFT_OPEN_INCOMPLETE) == 0) {
        return sft__base_fail_at(
            err, SFT_E_SHARD_MISSING, model->index->entries[shard->first].offset,
            "%s is not there, but %s places %llu tensors in it", name, model->index_name, entries);
    }
    return sft__catalog_problem_add(model->catalog, SFT_PROBLEM_MISSING_FILE,
                                    (sft__catalog_subject){shard->name, shard->name_len}, err,
                                    "%s is not there, but the index places %llu tensors in it",
                                    name, entries);
}

/* Reads one shard's header into the next free places of the catalog. source: taken over; NULL: the
 * shard is not there. */
static sft_status shard_load(sft__catalog_model *model, sft__catalog_shard *shard,
                             sft_source *source, sft_error *err) {
    sft_catalog *catalog = model->catalog;
    sft__catalog_options options = *model->options;
    sft__format_header *header = &catalog->headers[catalog->header_count];

    shard->file = SFT__NO_SHARD;
    if (source == NULL) {
        return shard_missing(model, shard, err);
    }
    catalog->sources[catalog->source_count++] = source;
    options.open.limits = &options.limits;
    options.exact = model->elsewhere != NULL;
    if (options.limits.memory_bytes != 0) { /* what the others left; 0 would mean no limit */
        if (model->memory >= options.limits.memory_bytes) {
            return sft__base_fail(err, SFT_E_LIMIT,
                                  "%s: the headers before it used up limits.memory_bytes",
                                  shard->name);
        }
        options.limits.memory_bytes -= model->memory;
    }
    const sft_status status = sft__catalog_header_read(header, source, &options, err);
    if (status != SFT_OK) {
        sft__catalog_error_prefix(err, shard->name);
        return status;
    }
    shard->file = (uint32_t)catalog->header_count; /* fits: <= limits.shards, see shards_room */
    sft__catalog_file *const file = &catalog->files[catalog->file_count++];
    sft__catalog_file_describe(file, header, source, shard->file);
    sft__catalog_file_index(catalog, file);
    catalog->header_count++;
    model->memory += sft__catalog_header_memory(header);
    return SFT_OK;
}

static sft_status shards_room(sft__catalog_model *model, sft_error *err) {
    sft_catalog *catalog = model->catalog;
    const sft_allocator *a = catalog->allocator;
    const size_t count = model->shard_count;

    if (count > model->options->limits.shards || count >= SFT__NO_SHARD) {
        return sft__base_fail(err, SFT_E_LIMIT, "the model has %llu files, the limit is %llu",
                              (unsigned long long)count,
                              (unsigned long long)model->options->limits.shards);
    }
    catalog->files = sft__base_alloc_array(a, count, sizeof *catalog->files);
    catalog->file_room = catalog->files != NULL ? count : 0;
    catalog->sources = sft__base_alloc_array(a, count, sizeof(sft_source *));
    catalog->source_room = catalog->sources != NULL ? count : 0;
    catalog->headers = sft__base_alloc_array(a, count, sizeof *catalog->headers);
    catalog->header_room = catalog->headers != NULL ? count : 0;
    if (count != 0 &&
        (catalog->files == NULL || catalog->sources == NULL || catalog->headers == NULL)) {
        return sft__base_fail_nomem(err, count * sizeof *catalog->headers);
    }
    return SFT_OK;
}

/* Shards that are not in a directory: asked for together. found: room for one source each, all NULL.
 */
static sft_status shards_ask(sft__catalog_model *model, const char **names, sft_source **found,
                             sft_error *err) {
    const sft_model_files *files = model->elsewhere;
    sft_error e;

    for (size_t i = 0; i < model->shard_count; i++) {
        names[i] = model->shards[i].name;
    }
    e.status = SFT_OK;
    sft_status status = files->open(files->ctx, names, model->shard_count, found, &e);
    if (status != SFT_OK && err != NULL) { /* a stranger's function may leave the record empty */
        *err = e;
        if (e.status != (int32_t)status) {
            (void)sft__base_fail(err, status, "the files of the model could not be opened");
        }
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        if (status == SFT_OK) {
            status = shard_load(model, &model->shards[i], found[i], err);
        } else {
            sft_source_close(found[i]);
        }
    }
    return status;
}

sft_status sft__catalog_shards_load(sft__catalog_model *model, sft_error *err) {
    const sft_allocator *a = model->catalog->allocator;
    const size_t count = model->shard_count;

    SFT_TRY(shards_room(model, err));
    if (model->elsewhere != NULL && count != 0) {
        const size_t size = count * sizeof(void *); /* fits: shards_room allocated larger ones */
        const char **names = sft__base_alloc(a, size);
        sft_source **found = sft__base_alloc_zero(a, size);
        const sft_status status = names == NULL || found == NULL
                                      ? sft__base_fail_nomem(err, size)
                                      : shards_ask(model, names, found, err);
        sft__base_free(a, names, size);
        sft__base_free(a, found, size);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        sft_source *source;
        SFT_TRY(shard_open(model, &model->shards[i], &source, err));
        SFT_TRY(shard_load(model, &model->shards[i], source, err));
    }
    return SFT_OK;
}

sft_status sft__catalog_merge_begin(sft__catalog_model *model, size_t count, sft_tensor **tensors,
                                    sft_piece **pieces, sft_error *err) {
    sft_catalog *catalog = model->catalog;
    const uint64_t limit = model->options->limits.memory_bytes;
    const size_t each = sizeof **tensors + sizeof **pieces;
    size_t bytes;

    if (count > model->options->limits.tensors || count > UINT32_MAX / 2 ||
        !sft__base_mul_size(count, each, &bytes)) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "the model has %llu tensors, too many for the limit",
                              (unsigned long long)count);
    }
    if (limit != 0) { /* the arena has what the headers left; 0 would mean no limit */
        catalog->arena.budget = limit > model->memory ? limit - model->memory : 1;
    }
    *tensors = sft__base_arena_alloc(&catalog->arena, count * sizeof **tensors, sizeof(uint64_t));
    *pieces =
        *tensors == NULL /* or the arena would forget why it failed */
            ? NULL
            : sft__base_arena_alloc(&catalog->arena, count * sizeof **pieces, sizeof(uint64_t));
    if (*pieces == NULL) {
        return sft__catalog_arena_failed(&catalog->arena, bytes, err);
    }
    for (size_t i = 0; i < catalog->header_count; i++) { /* replaced by one table over all */
        sft__base_strmap_reset(&catalog->headers[i].names);
    }
    SFT_NEED(sft__base_strmap_init(&catalog->merged_names, *tensors, sizeof **tensors, count,
                                   catalog->allocator),
             count * 2 * sizeof(uint64_t), err);
    catalog->tensors = *tensors;
    catalog->names = &catalog->merged_names;
    return SFT_OK;
}

bool sft__catalog_merge_put(sft__catalog_model *model, sft_tensor *tensors, sft_piece *pieces,
                            size_t at, const sft_tensor *tensor, uint32_t file) {
    /* A tensor of a safetensors file has exactly one piece. */
    pieces[at] = tensor->pieces[0];
    pieces[at].source = file;
    tensors[at] = *tensor;
    tensors[at].pieces = &pieces[at];
    tensors[at].file = file;
    return sft__base_strmap_add(&model->catalog->merged_names, at) == SFT__STRMAP_NONE;
}

sft_status sft__catalog_shards_merge(sft__catalog_model *model, sft_error *err) {
    sft_catalog *catalog = model->catalog;
    sft_tensor *tensors;
    sft_piece *pieces;
    size_t count = 0;
    size_t at = 0;

    if (catalog->header_count == 1) { /* nothing to merge */
        catalog->tensors = catalog->headers[0].tensors;
        catalog->tensor_count = catalog->headers[0].tensor_count;
        catalog->names = &catalog->headers[0].names;
        return SFT_OK;
    }
    for (size_t f = 0; f < catalog->header_count; f++) {
        count += catalog->headers[f].tensor_count; /* cannot overflow: all are in memory */
    }
    SFT_TRY(sft__catalog_merge_begin(model, count, &tensors, &pieces, err));
    for (size_t f = 0; f < catalog->header_count; f++) {
        for (size_t i = 0; i < catalog->headers[f].tensor_count; i++, at++) {
            const sft_tensor *t = &catalog->headers[f].tensors[i];
            if (!sft__catalog_merge_put(model, tensors, pieces, at, t, (uint32_t)f)) {
                const size_t other =
                    sft__base_strmap_find(&catalog->merged_names, t->name, t->name_len);
                sft__catalog_shown a;
                sft__catalog_shown b;
                const char *first = model->shards[tensors[other].file].name;
                const char *second = model->shards[f].name;
                return SFT_FAIL_TENSOR(err, SFT_E_DUPLICATE, t, "both %s and %s have the tensor",
                                       sft__catalog_show(&a, first, strlen(first)),
                                       sft__catalog_show(&b, second, strlen(second)));
            }
        }
    }
    catalog->tensor_count = at;
    return SFT_OK;
}
