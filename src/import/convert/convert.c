/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert.c - conversions into safetensors: the inputs' tensors are chosen, put in order,
 * cut into files, and each file is written by the core's writer, so that it appears whole or not at
 * all. Read first: convert.h.
 */
#include "import/convert/convert.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include <sft/digest.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- inputs */

/* What its own writer of safetensors calls the framework; NULL: it has none, or says nothing. */
static const char *framework_of(uint32_t format) {
    return format >= SFT_IMPORT_TORCH_ZIP && format <= SFT_IMPORT_PICKLE ? "pt"
           : format == SFT_IMPORT_MINDSPORE                              ? "ms"
                                                                         : NULL;
}

/* Of several inputs each finding says whose it is. */
static sft_status add_report(sft__import_conversion *c, const sft_import_report *report,
                             const char *input, sft_error *err) {
    enum { MESSAGE = 640 };
    char name[200];

    if (c->report == NULL) {
        SFT_TRY(sft__import_report_create(&c->report, c->allocator, err));
    }
    if (!c->many) {
        sft__import_report_merge(c->report, report);
        return SFT_OK;
    }
    (void)sft_escape(name, sizeof name, input, strlen(input));
    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        sft_finding f = *sft_import_report_at(report, i);
        char message[MESSAGE];
        (void)snprintf(message, sizeof message, "%s (in %s)", f.message, name);
        f.message = message;
        sft__import_report_add(c->report, &f, strlen(f.subject));
    }
    sft__import_report_format(c->report, sft_import_report_format(report));
    sft__import_report_unused(c->report, sft__import_report_unused_bytes(report));
    return SFT_OK;
}

static sft_status open_input(sft__import_conversion *c, const char *input, sft_error *err) {
    sft_import_report *report = NULL;
    sft_source *source = NULL;
    sft_catalog *catalog;

    SFT_TRY(SFT_ONE_MORE(c->allocator, c->catalogs, c->catalog_room, c->catalog_count, err));
    if (c->options.open != NULL) {
        SFT_TRY(c->options.open(c->options.ctx, input, &source, err));
    }
    SFT_TRY(source != NULL ? sft_import_open_source(&catalog, source, &c->read, &report, err)
                           : sft_import_open(&catalog, input, &c->read, &report, err));
    c->catalogs[c->catalog_count++] = catalog;
    const char *framework = framework_of(sft_import_report_format(report));
    c->framework = c->framework == NULL ? framework : c->framework;
    c->result.unused_bytes += sft__import_report_unused_bytes(report);
    c->result.left_out += sft__import_report_left_out(report);
    const bool verify = (c->options.flags & SFT_CONVERT_VERIFY) != 0;
    sft_status counts = verify ? sft__import_convert_counts(catalog, report, err) : SFT_OK;
    if (counts == SFT_OK && verify && (c->read.flags & SFT_IMPORT_NO_CRC) == 0 &&
        (c->options.flags & SFT_CONVERT_PLAN) == 0) {
        counts = sft__import_convert_recorded(c, catalog, err);
    }
    if (c->report == NULL && !c->many) {
        c->report = report;
    } else {
        const sft_status named = add_report(c, report, input, err);
        sft_import_report_free(report);
        SFT_TRY(named);
    }
    c->result.left_out += sft__import_convert_problems(c, catalog);
    if (counts == SFT_OK && c->options.opened != NULL) {
        counts = c->options.opened(c->options.ctx, input, &c->catalogs[c->catalog_count - 1], err);
    }
    return counts;
}

/* The order of the reference's writer: types by descending rank, then names. */
static int by_reference(const void *a, const void *b) {
    const sft_import_item *x = a;
    const sft_import_item *y = b;
    if (x->dtype->id != y->dtype->id) {
        return x->dtype->id > y->dtype->id ? -1 : 1; /* ids are in the reference's order */
    }
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int o = memcmp(x->name, y->name, n);
    return o != 0 ? o : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

/* ---------------------------------------------------------------- files */

/* Bytes of tensors in the largest file of an input in several; 0: it is in one. */
static sft_status largest_file(const sft__import_conversion *c, uint64_t *most, sft_error *err) {
    const sft_catalog *catalog = c->catalogs[0];
    const size_t files = sft_catalog_file_count(catalog);
    uint64_t *bytes = sft__base_alloc_zero(c->allocator, (files + 1) * sizeof *bytes);

    *most = 0;
    SFT_NEED(bytes != NULL, files * sizeof *bytes, err);
    for (size_t i = 0; i < sft_catalog_count(catalog) && files > 1; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        uint64_t *of = &bytes[t->file < files ? t->file : files];
        *of = sft__base_add64(*of, t->nbytes, of) ? *of : UINT64_MAX;
        *most = *of > *most ? *of : *most;
    }
    sft__base_free(c->allocator, bytes, (files + 1) * sizeof *bytes);
    return SFT_OK;
}

/* Gives each item its file: full files first, as Hugging Face cuts. Returns how many. */
static uint32_t cut_files(sft__import_conversion *c, uint64_t most) {
    uint64_t used = 0;
    uint32_t file = 0;

    for (size_t i = 0; i < c->item_count; i++) {
        sft_import_item *item = &c->items[i];
        if (most != 0 && used != 0 && (item->nbytes > most || used > most - item->nbytes)) {
            file++;
            used = 0;
        }
        item->file = file;
        used += item->nbytes;
    }
    return file + 1;
}

/* The output's name, or that of one of its shards. */
sft_status sft__import_convert_name(sft__import_conversion *c, sft__base_buf *b, const char *output,
                                    uint32_t file, uint32_t files, sft_error *err) {
    static const char end[] = ".safetensors";
    const size_t len = strlen(output);
    const bool has_end = len >= sizeof end - 1 && strcmp(output + len - (sizeof end - 1), end) == 0;
    char number[64];

    sft__base_buf_init(b, c->allocator);
    sft__base_buf_add(b, output, files > 1 && has_end ? len - (sizeof end - 1) : len);
    if (files > 1) {
        const int n = snprintf(number, sizeof number, "-%05u-of-%05u%s", (unsigned)file + 1,
                               (unsigned)files, end);
        sft__base_buf_add(b, number, (size_t)n);
    }
    sft__base_buf_add(b, "", 1);
    return b->failed ? sft__base_fail_nomem(err, b->len) : SFT_OK;
}

/* ---------------------------------------------------------------- writing */

/* The writer, which is taken over if this succeeds, has all its bytes. */
static sft_status note_made(sft__import_conversion *c, const char *path, sft_writer *writer,
                            sft_error *err) {
    const size_t size = strlen(path) + 1;
    char *copy = sft__base_alloc(c->allocator, size);

    if (copy == NULL || !sft__base_grow(c->allocator, &c->made, &c->made_room, c->made_count + 1,
                                        sizeof *c->made)) {
        sft__base_free(c->allocator, copy, size);
        return sft__base_fail_nomem(err, size);
    }
    memcpy(copy, path, size);
    c->made[c->made_count++] = (sft__import_made){copy, writer, false};
    return SFT_OK;
}

sft_status sft__import_convert_commit(sft__import_conversion *c, sft_error *err) {
    if (c->options.ready != NULL && !c->is_ready) {
        c->is_ready = true;
        SFT_TRY(c->options.ready(c->options.ready_ctx, err));
    }
    for (size_t i = 0; i < c->made_count; i++) {
        sft__import_made *m = &c->made[i];
        if (m->writer != NULL) {
            SFT_TRY(sft_writer_commit(m->writer, err));
            m->is_new = (c->options.flags & SFT_CONVERT_REPLACE) == 0;
            sft_writer_free(m->writer);
            m->writer = NULL;
        }
    }
    return SFT_OK;
}

/* Digests that the inputs record go with their bytes. */
static sft_status carry_digests(sft__import_conversion *c, sft_writer *writer, size_t first,
                                size_t end, sft_error *err) {
    const size_t bytes = (end - first + 1) * sizeof(sft_writer_origin);
    sft_writer_origin *origins;
    uint32_t lost;

    if (sft__import_convert_given(c, "sft.crc32c", 10) ||
        sft__import_convert_given(c, "sft.sha256", 10)) {
        return SFT_OK;
    }
    SFT_TRY(sft__base_need_zero(c->allocator, &origins, bytes, err));
    for (size_t i = first; i < end; i++) {
        origins[i - first] = (sft_writer_origin){c->items[i].catalog, c->items[i].tensor};
    }
    const sft_status status = sft_writer_carry_digests(writer, origins, &lost, err);
    sft__base_free(c->allocator, origins, bytes);
    static const char why[] = "digests are recorded of other bytes than those of the output";
    if (status == SFT_OK && (lost & SFT_DIGEST_CRC32C) != 0) {
        sft__import_convert_lost(c, "sft.crc32c", 0, why);
    }
    if (status == SFT_OK && (lost & SFT_DIGEST_SHA256) != 0) {
        sft__import_convert_lost(c, "sft.sha256", 0, why);
    }
    return status;
}

static sft_status unchanged(const sft__import_conversion *c, sft_error *err) {
    for (size_t i = 0; i < c->catalog_count; i++) {
        SFT_TRY(sft_catalog_unchanged(c->catalogs[i], err));
    }
    return SFT_OK;
}

static sft_status write_file(sft__import_conversion *c, const char *path, size_t first, size_t end,
                             sft_error *err) {
    sft_write_options o = c->write;
    sft_writer *writer;

    o.order = SFT_ORDER_DECLARED; /* items are in order already */
    o.order_list = NULL;
    o.order_count = 0;
    o.flags = (o.flags & SFT_WRITE_DIGESTS_SIDECAR) |
              ((c->options.flags & SFT_CONVERT_REPLACE) != 0 ? 0 : SFT_WRITE_NEW_ONLY);
    SFT_TRY(sft_writer_create(&writer, path, &o, err));
    sft_status status = sft__import_convert_metadata(c, writer, first, end, err);
    for (size_t i = first; i < end && status == SFT_OK; i++) {
        const sft_import_item *item = &c->items[i];
        status = sft_writer_declare(writer, item->name, item->name_len, item->dtype,
                                    item->tensor->shape, item->tensor->rank, NULL, err);
    }
    SFT_THEN(status, carry_digests(c, writer, first, end, err));
    SFT_THEN(status, sft_writer_start(writer, err));
    if (status == SFT_OK) {
        c->result.file_bytes += sft_writer_file_bytes(writer);
        status = sft__import_convert_copy(c, writer, first, end, err);
    }
    if (status == SFT_OK) {
        status = note_made(c, path, writer, err);
        writer = status == SFT_OK ? NULL : writer;
    }
    SFT_THEN(status, unchanged(c, err));
    if (status == SFT_OK && (!c->several || c->index != NULL)) {
        status = sft__import_convert_commit(c, err);
    }
    sft_writer_free(writer);
    return status;
}

/* Of several outputs none may take the place of an input: were the next one to fail, what the input
 * had for it would be gone. */
static sft_status check_places(sft__import_conversion *c, const char *const *inputs, size_t count,
                               const char *output, uint32_t files, sft_error *err) {
    sft_status status = SFT_OK;

    for (uint32_t f = 0; f < files && files > 1 && status == SFT_OK; f++) {
        sft__base_buf name;
        status = sft__import_convert_name(c, &name, output, f, files, err);
        const bool there = status == SFT_OK && sft__fs_is_same(name.data, name.data);
        for (size_t i = 0; i < count && there && status == SFT_OK; i++) {
            if (sft__fs_is_same(name.data, inputs[i])) {
                status =
                    sft__base_fail(err, SFT_E_EXISTS,
                                   "%.200s is read: several files that replace their inputs need "
                                   "another name",
                                   name.data);
            }
        }
        sft__base_buf_reset(&name);
    }
    return status;
}

/* Items [*first, *end) are those of file f. */
static void items_of(const sft__import_conversion *c, uint32_t f, size_t *first, size_t *end) {
    *first = *end;
    while (*end < c->item_count && c->items[*end].file == f) {
        ++*end;
    }
}

static sft_status write_files(sft__import_conversion *c, const char *output, uint32_t files,
                              sft_error *err) {
    size_t first = 0;
    size_t end = 0;

    c->several = c->several || files > 1;
    for (uint32_t f = 0; f < files; f++) {
        sft__base_buf name;
        items_of(c, f, &first, &end);
        sft_status status = sft__import_convert_name(c, &name, output, f, files, err);
        SFT_THEN(status, write_file(c, name.data, first, end, err));
        sft__base_buf_reset(&name);
        SFT_TRY(status);
    }
    return files > 1 ? sft__import_convert_index(c, output, files, err) : SFT_OK;
}

static sft_status verify_files(sft__import_conversion *c, const char *output, uint32_t files,
                               sft_error *err) {
    size_t first = 0;
    size_t end = 0;

    for (uint32_t f = 0; f < files && (c->options.flags & SFT_CONVERT_VERIFY) != 0; f++) {
        sft__base_buf name;
        items_of(c, f, &first, &end);
        sft_status status = sft__import_convert_name(c, &name, output, f, files, err);
        SFT_THEN(status, sft__import_convert_verify(c, name.data, first, end, err));
        sft__base_buf_reset(&name);
        SFT_TRY(status);
    }
    return SFT_OK;
}

static bool has_tree(const sft_catalog *catalog) {
    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        if (sft_catalog_metadata_find(catalog, f, "sft.tree", 8, NULL) != NULL) {
            return true;
        }
    }
    return false;
}

/* A tree in the metadata names tensors: all of its file must go on under their names, into one
 * file. */
static sft_status trees_hold(const sft__import_conversion *c, uint32_t files, sft_error *err) {
    for (size_t k = 0; k < c->catalog_count; k++) {
        const bool given = sft__import_convert_given(c, "sft.tree", 8);
        if (has_tree(c->catalogs[k]) && given && (c->read.flags & SFT_IMPORT_KEEP_TREE) != 0) {
            return sft__base_fail(err, SFT_E_ARG,
                                  "metadata sft.tree is what keeping the tree makes: give "
                                  "one or ask for the other");
        }
        if (!has_tree(c->catalogs[k]) || given) {
            continue;
        }
        const size_t of = sft_catalog_file_count(c->catalogs[k]);
        if (of != 1) {
            return sft__base_fail(
                err, SFT_E_UNSUPPORTED,
                "%zu files, of which each would have a tree (sft.tree) of its own: convert "
                "them one by one, or without a tree",
                of);
        }
        size_t same = 0;
        for (size_t i = 0; i < c->item_count; i++) {
            const sft_import_item *item = &c->items[i];
            same += item->catalog == c->catalogs[k] && item->name_len == item->tensor->name_len &&
                    memcmp(item->name, item->tensor->name, item->name_len) == 0;
        }
        for (size_t i = 0; i < c->other_count && c->others[i].catalog == c->catalogs[k]; i++) {
            const sft__import_other *o = &c->others[i];
            same -=
                sft__import_convert_compare_names(o->name, o->name_len, o->old, o->old_len) != 0;
        }
        if (same != sft_catalog_count(c->catalogs[k]) || c->names_left != 0 ||
            c->catalog_count != 1 || files != 1) {
            return sft__base_fail(
                err, SFT_E_UNSUPPORTED,
                "the input has a tree (sft.tree), which names its tensors: convert it "
                "alone, into one file, without leaving out or renaming any");
        }
    }
    return SFT_OK;
}

/* The rule of every conversion: what the catalogs have is an item, or was left out by `choose`. (What
 * the files have and the catalogs do not is in the report.) An output of nothing is refused. */
sft_status sft__import_convert_complete(const sft__import_conversion *c,
                                        const sft_catalog *const *catalogs, size_t count,
                                        sft_error *err) {
    bool tree = false;
    size_t have = 0;

    for (size_t i = 0; i < count; i++) {
        have += sft_catalog_count(catalogs[i]);
        tree = tree || has_tree(catalogs[i]);
    }
    if (have + c->apart != c->item_count + c->not_taken) {
        return sft__base_fail(err, SFT_E_INTERNAL,
                              "%zu tensors are read, %zu go on, %zu are left out", have + c->apart,
                              c->item_count, c->not_taken);
    }
    if (c->item_count == 0 && !tree) {
        return have == 0 ? sft__base_fail(err, SFT_E_UNSUPPORTED,
                                          "there are no tensors in it: nothing is written")
                         : sft__base_fail(err, SFT_E_UNSUPPORTED,
                                          "all %zu tensors are left out: nothing is written", have);
    }
    return SFT_OK;
}

sft_status sft__import_convert_files(sft__import_conversion *c, const char *const *inputs,
                                     size_t count, const char *output, sft_error *err) {
    c->many = c->many || count > 1;
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(open_input(c, inputs[i], err));
    }
    for (size_t i = 0; i < c->catalog_count; i++) {
        SFT_TRY(sft__import_convert_take(c, c->catalogs[i], err));
    }
    SFT_TRY(sft__import_convert_complete(c, (const sft_catalog *const *)c->catalogs,
                                         c->catalog_count, err));
    SFT_TRY(sft__import_convert_names(c, err));
    if (c->write.order != SFT_ORDER_DECLARED && c->item_count != 0) {
        qsort(c->items, c->item_count, sizeof *c->items, by_reference);
    }
    SFT_TRY(sft__import_convert_map(c, err));
    uint64_t most = c->options.max_shard_bytes;
    if (c->as_input && most == 0) {
        SFT_TRY(largest_file(c, &most, err));
    }
    const uint32_t files = cut_files(c, most);
    SFT_TRY(trees_hold(c, files, err));
    c->result.files += files;
    for (size_t i = 0; i < c->item_count && c->options.planned != NULL; i++) {
        c->options.planned(c->options.ctx, &c->items[i]);
    }
    if ((c->options.flags & SFT_CONVERT_PLAN) != 0) {
        return SFT_OK;
    }
    SFT_TRY(check_places(c, inputs, count, output, files, err));
    SFT_TRY(sft__import_convert_retyped(c, (const sft_catalog *const *)c->catalogs,
                                        c->catalog_count, err));
    SFT_TRY(write_files(c, output, files, err));
    return verify_files(c, output, files, err);
}

void sft__import_convert_clear(sft__import_conversion *c) {
    for (size_t i = 0; i < c->catalog_count; i++) {
        sft_catalog_close(c->catalogs[i]);
    }
    c->catalog_count = 0;
    c->item_count = 0;
    c->other_count = 0;
    c->not_taken = c->apart = c->names_left = 0;
    sft__import_convert_forget_names(c);
    sft__base_free(c->allocator, c->places, c->place_room * sizeof *c->places);
    c->places = NULL;
    c->place_room = 0;
}
