/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_directory.c - whole directories as Hugging Face lays them out: pytorch_model.bin, or
 * pytorch_model-0000x-of-0000y.bin with pytorch_model.bin.index.json. Read first: convert.h.
 */
#include "base/memory/need.h"
#include "import/convert/convert.h"
#include "import/core/beside.h"
#include "import/core/shards.h"
#include "import/write/export.h"
#include <stdlib.h>

typedef struct directory {
    sft__import_conversion *c;
    const char *input;
    const char *output;
    sft__import_shard_index shards;
    sft__base_buf index; /* of the output */
} directory;

static bool join(sft__base_buf *b, const char *directory_name, const char *file) {
    b->len = 0;
    sft__base_buf_text(b, directory_name);
    sft__base_buf_text(b, "/");
    sft__base_buf_text(b, file);
    sft__base_buf_add(b, "", 1);
    return !b->failed;
}

/* pytorch_model-00001-of-00002.bin -> model-00001-of-00002.safetensors */
static void output_name(sft__base_buf *b, const char *file) {
    static const char prefix[] = "pytorch_";
    const size_t skip = strncmp(file, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    size_t len = strlen(file);

    len -= len > 4 && strcmp(file + len - 4, ".bin") == 0 ? 4 : 0;
    b->len = 0;
    sft__base_buf_add(b, file + skip, len - skip);
    sft__base_buf_text(b, ".safetensors");
    sft__base_buf_add(b, "", 1);
}

/* What the index says of this file must be in it, and no name may come twice. */
static sft_status note_written(directory *f, size_t first, const char *made, sft_error *err) {
    const char *file = f->shards.entries[first].file;
    sft__import_conversion *c = f->c;

    if (c->catalog_count == 1) {
        SFT_TRY(sft__import_shard_index_holds(&f->shards, first, c->catalogs[0], err));
    }
    for (size_t i = 0; i < c->item_count; i++) {
        SFT_TRY(sft__import_shard_index_places(&f->shards, file, c->items[i].tensor, err));
        sft__import_index_add(&f->index, c->items[i].name, c->items[i].name_len, made);
    }
    return SFT_OK;
}

/* entry: the first of this file in the index; SIZE_MAX without one. */
static sft_status convert_one(directory *f, const char *file, size_t entry, sft_error *err) {
    sft__base_buf in;
    sft__base_buf out;
    sft__base_buf name;
    sft_status status = SFT_OK;

    sft__base_buf_init(&in, f->c->allocator);
    sft__base_buf_init(&out, f->c->allocator);
    sft__base_buf_init(&name, f->c->allocator);
    output_name(&name, file);
    if (name.failed || !join(&in, f->input, file) || !join(&out, f->output, name.data)) {
        status = sft__base_fail_nomem(err, in.len + out.len);
    }
    SFT_THEN(status, sft__import_beside_stays(in.data, f->c->read.flags, err));
    if (status == SFT_OK) {
        const char *path = in.data;
        status = sft__import_convert_files(f->c, &path, 1, out.data, err);
    }
    if (status == SFT_OK && entry != SIZE_MAX) {
        status = note_written(f, entry, name.data, err);
    }
    sft__import_convert_clear(f->c);
    sft__base_buf_reset(&in);
    sft__base_buf_reset(&out);
    sft__base_buf_reset(&name);
    return status;
}

static int by_file(const void *a, const void *b) {
    const sft__import_shard_entry *x = a;
    const sft__import_shard_entry *y = b;
    return strcmp(x->file, y->file);
}

/* Two files of the index that would become one. */
static sft_status check_outputs(directory *f, sft_error *err) {
    sft__import_shard_index *shards = &f->shards;
    const sft_allocator *a = f->c->allocator;
    sft__import_shard_entry *made = sft__base_alloc_array(a, shards->count + 1, sizeof *made);
    sft_status status = SFT_OK;
    size_t count = 0;
    sft__base_buf name;

    SFT_NEED(made != NULL, shards->count * sizeof *made, err);
    sft__base_buf_init(&name, a);
    for (size_t i = 0; i < shards->count && status == SFT_OK; i++) {
        const char *file = shards->entries[i].file;
        if (i > 0 && strcmp(file, shards->entries[i - 1].file) == 0) {
            continue;
        }
        output_name(&name, file);
        made[count].name = file;
        made[count].file =
            name.failed ? NULL : sft__base_arena_copy(&shards->arena, name.data, name.len);
        status = made[count++].file == NULL ? sft__base_fail_nomem(err, name.len) : SFT_OK;
    }
    if (status == SFT_OK && count > 1) {
        qsort(made, count, sizeof *made, by_file);
    }
    for (size_t i = 1; i < count && status == SFT_OK; i++) {
        if (strcmp(made[i].file, made[i - 1].file) == 0) {
            status =
                sft__base_fail(err, SFT_E_DUPLICATE,
                               "the index names %.100s and %.100s, which would both become %.100s",
                               made[i - 1].name, made[i].name, made[i].file);
        }
    }
    sft__base_buf_reset(&name);
    sft__base_free(a, made, (shards->count + 1) * sizeof *made);
    return status;
}

/* What is compared with its input is read by its name. */
static sft_status begin_now(directory *f, sft_error *err) {
    sft__base_buf path;

    f->c->several = (f->c->options.flags & SFT_CONVERT_PLAN) == 0;
    if (!f->c->several || (f->c->options.flags & SFT_CONVERT_VERIFY) == 0) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, f->c->allocator);
    const sft_status status = join(&path, f->output, "model.safetensors.index.json")
                                  ? sft__import_convert_begin(f->c, path.data, err)
                                  : sft__base_fail_nomem(err, path.len);
    sft__base_buf_reset(&path);
    return status;
}

static sft_status convert_indexed(directory *f, sft_source *source, sft_error *err) {
    const sft__import_shard_index *shards = &f->shards;
    sft__base_buf path;

    SFT_TRY(sft__import_shard_index_read(&f->shards, source, f->c->allocator, err));
    SFT_TRY(check_outputs(f, err));
    SFT_TRY(begin_now(f, err));
    sft__import_index_begin(&f->index);
    for (size_t i = 0; i < shards->count; i++) {
        if (i == 0 || strcmp(shards->entries[i].file, shards->entries[i - 1].file) != 0) {
            SFT_TRY(convert_one(f, shards->entries[i].file, i, err));
        }
    }
    sft__import_index_end(&f->index, f->c->result.data_bytes);
    if ((f->c->options.flags & SFT_CONVERT_PLAN) != 0) {
        return SFT_OK;
    }
    sft__base_buf_init(&path, f->c->allocator);
    sft_status status = join(&path, f->output, "model.safetensors.index.json")
                            ? sft__import_convert_together(f->c, path.data, &f->index, err)
                            : sft__base_fail_nomem(err, path.len);
    sft__base_buf_reset(&path);
    return status;
}

/* What is chosen by names is chosen from all files together: names of different files must not become one,
 * and of a file nothing may be left. Likewise where files of another size are asked for. */
static sft_status convert_chosen(directory *f, const char *input, sft_error *err) {
    sft__base_buf path;

    sft__base_buf_init(&path, f->c->allocator);
    f->c->as_input = true;
    const sft_status status = join(&path, f->output, "model.safetensors")
                                  ? sft__import_convert_files(f->c, &input, 1, path.data, err)
                                  : sft__base_fail_nomem(err, path.len);
    sft__base_buf_reset(&path);
    sft__import_convert_clear(f->c);
    return status;
}

static bool is_directory(const char *path, const sft_allocator *allocator) {
    sft_source *source;
    sft__base_buf inside;
    sft_error why;
    bool is = false;

    sft__base_buf_init(&inside, allocator);
    if (join(&inside, path, ".")) { /* only a directory has one */
        const sft_status status =
            sft_source_open(&source, inside.data, SFT_ACCESS_READ, allocator, &why);
        is = status == SFT_E_NOT_REGULAR;
        if (status == SFT_OK) {
            sft_source_close(source);
        }
    }
    sft__base_buf_reset(&inside);
    return is;
}

/* Is `file` in the input? */
static bool has_file(const directory *f, const char *file, sft_source **source) {
    sft__base_buf path;

    sft__base_buf_init(&path, f->c->allocator);
    const bool has =
        join(&path, f->input, file) &&
        sft_source_open(source, path.data, SFT_ACCESS_READ, f->c->allocator, NULL) == SFT_OK;
    sft__base_buf_reset(&path);
    return has;
}

/* Does the directory open as safetensors, or should it? Then it is that model to every command, whatever
 * lies beside it. (In place, safetensors that do not open are those of a conversion that was killed.) */
static bool is_safetensors(const directory *f, bool in_place) {
    sft_catalog *catalog;
    sft_open_options o;
    sft_error why;

    SFT_INIT(&o);
    o.allocator = f->c->read.allocator;
    o.limits = f->c->read.limits;
    const sft_status status = sft_catalog_open(&catalog, f->input, &o, &why);
    if (status == SFT_OK) {
        sft_catalog_close(catalog);
    }
    return status == SFT_OK || (status != SFT_E_FORMAT && !in_place);
}

/* Bytes that only other names show are numbered across the files (docs/tree.md). */
static bool has_storages(const sft_catalog *catalog) {
    static const char storage[] = "sft.storage.";
    bool has = false;

    for (size_t i = 0; i < sft_catalog_count(catalog) && sft_catalog_alias_count(catalog) != 0;
         i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        has = has || (t->name_len > sizeof storage - 1 &&
                      memcmp(t->name, storage, sizeof storage - 1) == 0);
    }
    return has;
}

/* All files of an index as the one model that they are: names that come twice, an index that says
 * something else than its files. *one: they are converted together, for the index needs a single file
 * only, or names are of all of them. */
static sft_status check_model(const directory *f, const char *path, const sft_source *index,
                              bool *one, sft_error *err) {
    sft_import_report *report = NULL;
    sft_catalog *catalog = NULL;

    const sft_status status =
        sft__import_shards_open(&catalog, path, index, &f->c->read, &report, err);
    *one = status == SFT_OK && (sft_catalog_file_count(catalog) == 1 || has_storages(catalog));
    sft_import_report_free(report);
    sft_catalog_close(catalog);
    return status;
}

static sft_status convert_torch(directory *f, sft_source *index, sft_error *err) {
    bool together = f->c->options.choose != NULL || f->c->options.opened != NULL ||
                    f->c->options.max_shard_bytes != 0;
    sft_status status = SFT_OK;
    sft__base_buf path;

    if (index == NULL) {
        return convert_one(f, "pytorch_model.bin", SIZE_MAX, err);
    }
    sft__base_buf_init(&path, f->c->allocator);
    if (!join(&path, f->input, "pytorch_model.bin.index.json")) {
        status = sft__base_fail_nomem(err, path.len);
    } else if (!together) {
        status = check_model(f, path.data, index, &together, err);
    }
    SFT_THEN(status, together ? convert_chosen(f, path.data, err) : convert_indexed(f, index, err));
    sft__base_buf_reset(&path);
    return status;
}

static sft_status try_directory(directory *f, bool *done, sft_error *err) {
    sft_source *source = NULL;
    sft_source *index = NULL;
    sft_status status = SFT_OK;

    const bool torch = has_file(f, "pytorch_model.bin.index.json", &index) ||
                       has_file(f, "pytorch_model.bin", &source);
    const bool in_place = torch && sft__fs_is_same(f->input, f->output);
    const bool several = torch && is_safetensors(f, in_place);
    if (several && in_place) {
        *done = true;
        status = sft__base_fail(err, SFT_E_UNSUPPORTED,
                                "the directory has safetensors, which are its model: to convert "
                                "pytorch_model.bin beside them, name %s",
                                index != NULL ? "its index" : "the file");
    } else if (torch && !several) {
        *done = true;
        status = convert_torch(f, index, err);
    } else if (is_directory(f->input, f->c->allocator) &&
               is_directory(f->output, f->c->allocator)) {
        *done = true; /* of another format: files in the directory, not in its place */
        status = convert_chosen(f, f->input, err);
    }
    sft_source_close(source);
    sft_source_close(index);
    return status;
}

sft_status sft__import_convert_directory(sft__import_conversion *c, const char *input,
                                         const char *output, bool *done, sft_error *err) {
    directory f;

    memset(&f, 0, sizeof f);
    f.c = c;
    f.input = input;
    f.output = output;
    *done = false;
    sft__base_buf_init(&f.index, c->allocator);
    const sft_status status = try_directory(&f, done, err);
    sft__base_buf_reset(&f.index);
    sft__import_shard_index_reset(&f.shards);
    return status;
}
