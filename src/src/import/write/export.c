/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/export.c - catalogs into files of other formats: the table of writers, options, the choice
 * of tensors, and the copy of their bytes to where a writer wants them. What a file of a format
 * looks like is the writers' business alone. Read first: export.h.
 */
#include "import/write/export.h"
#include "base/checked.h"
#include "base/options.h"
#include "base/thread/thread.h"
#include <sft/digest.h>
#include <stdio.h>

const sft__import_writer_row *const sft__import_export_writers[] = {
    &sft__import_writer_npz,
    &sft__import_writer_gguf,
    &sft__import_writer_mindspore,
    &sft__import_writer_torch,
    NULL,
};

static const sft__import_writer_row *row_of(uint32_t format) {
    for (size_t i = 0; sft__import_export_writers[i] != NULL; i++) {
        if (sft__import_export_writers[i]->format == format) {
            return sft__import_export_writers[i];
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- CRC-32 by parts */

/* a * b modulo the polynomial of CRC-32, bits reflected: bit 31 is x^0. */
static uint32_t crc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;

    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        product ^= (a & bit) != 0 ? b : 0;
        b = (b & 1) != 0 ? (b >> 1) ^ 0xedb88320u : b >> 1;
    }
    return product;
}

uint32_t sft__import_crc32_shift(uint32_t crc, uint64_t bytes) {
    uint32_t power = 0x00800000u; /* x^8 */

    for (; bytes != 0; bytes >>= 1) {
        crc = (bytes & 1) != 0 ? crc_multiply(power, crc) : crc;
        power = crc_multiply(power, power);
    }
    return crc;
}

/* ---------------------------------------------------------------- for writers */

sft_status sft__import_export_alloc(sft__import_export *job, void *pointer, size_t count,
                                    size_t size, sft_error *err) {
    size_t bytes;
    void *p = NULL;

    if (sft__base_mul_size(count != 0 ? count : 1, size, &bytes)) {
        p = sft__base_arena_alloc(&job->arena, bytes, 8);
    }
    if (p == NULL) {
        return sft__base_fail_nomem(err, count * size);
    }
    memset(p, 0, bytes);
    memcpy(pointer, &p, sizeof p);
    return SFT_OK;
}

sft_status sft__import_convert_output(const sft__import_conversion *c, const char *path,
                                      uint64_t size, sft__fs_publish **out, sft_error *err) {
    const sft__fs_publish_options options = {
        .allocator = c->allocator,
        .durability = c->write.durability,
        .new_only = (c->options.flags & SFT_CONVERT_REPLACE) == 0,
    };

    SFT_TRY(sft__fs_publish_open(out, path, &options, err));
    const sft_status status = sft__fs_publish_reserve(*out, size, err);
    if (status != SFT_OK) {
        sft__fs_publish_free(*out);
        *out = NULL;
    }
    return status;
}

sft_status sft__import_export_start(sft__import_export *job, uint64_t file_bytes, sft_error *err) {
    job->c.result.file_bytes = file_bytes;
    return sft__import_convert_output(&job->c, job->path, file_bytes, &job->output, err);
}

sft_status sft__import_export_put(sft__import_export *job, uint64_t offset, const void *data,
                                  size_t size, sft_error *err) {
    const sft__fs_span part = {data, size};
    return size == 0 ? SFT_OK : sft__fs_publish_write(job->output, offset, &part, 1, err);
}

typedef struct placing {
    sft__import_export *job;
    sft__import_stretch *stretches;
    size_t count;
    sft__base_mutex lock; /* of the checksums */
    bool crc32;
} placing;

/* The first stretch that ends behind byte `offset` of the item. */
static size_t stretch_of(const placing *p, size_t item, uint64_t offset) {
    size_t low = 0;
    size_t high = p->count;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const sft__import_stretch *s = &p->stretches[mid];
        if (s->item < item || (s->item == item && s->first + s->nbytes <= offset)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static sft_status put(void *ctx, size_t item, uint64_t offset, const void *data, size_t size,
                      sft_error *err) {
    placing *p = ctx;
    const uint8_t *bytes = data;

    for (size_t i = stretch_of(p, item, offset); size > 0; i++) {
        if (i >= p->count || p->stretches[i].item != item || p->stretches[i].first > offset) {
            return sft__base_fail(err, SFT_E_INTERNAL,
                                  "the writer has no place for bytes of an item");
        }
        sft__import_stretch *s = &p->stretches[i];
        const uint64_t at = offset - s->first;
        const uint64_t left = s->nbytes - at;
        const size_t n = left < size ? (size_t)left : size;
        if (p->crc32) {
            const uint32_t crc = sft__import_crc32_shift(sft__import_crc32(0, bytes, n), left - n);
            sft__base_mutex_lock(&p->lock);
            s->crc32 ^= crc;
            sft__base_mutex_unlock(&p->lock);
        }
        SFT_TRY(sft__import_export_put(p->job, s->offset + at, bytes, n, err));
        bytes += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

sft_status sft__import_export_copy(sft__import_export *job, sft__import_stretch *stretches,
                                   size_t count, bool crc32, sft_error *err) {
    placing p = {.job = job, .stretches = stretches, .count = count, .crc32 = crc32};
    const sft__import_sink sink = {put, &p};

    if (!sft__base_mutex_init(&p.lock)) {
        return sft__base_fail_nomem(err, sizeof p);
    }
    const sft_status status = sft__import_convert_sink(&job->c, &sink, err);
    sft__base_mutex_reset(&p.lock);
    return status;
}

/* ---------------------------------------------------------------- all of it */

static sft_status read_options(sft__import_export *job, const sft_export_options *options,
                               sft_error *err) {
    sft_export_options *o = &job->options;
    sft__import_conversion *c = &job->c;

    SFT_TRY(sft__base_options_read(o, sizeof *o, options, offsetof(sft_export_options, pool),
                                   "options", err));
    SFT_INIT(&c->options);
    SFT_INIT(&c->read);
    SFT_INIT(&c->write);
    c->options.choose = o->choose;
    c->options.planned = o->planned;
    c->options.casted = o->casted;
    c->options.ctx = o->ctx;
    c->options.metadata = o->metadata;
    c->options.metadata_count = o->metadata_count;
    c->options.flags = o->flags;
    c->write.allocator = o->allocator;
    c->write.pool = o->pool;
    c->write.control = o->control;
    c->write.durability = o->durability;
    c->allocator = sft__base_allocator(o->allocator);
    sft__base_arena_init(&job->arena, c->allocator, 0);
    return SFT_OK;
}

static sft_status take_items(sft__import_export *job, const sft__import_writer_row *row,
                             sft_error *err) {
    sft__import_conversion *c = &job->c;

    if (!row->metadata && job->options.metadata_count != 0) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "%s files have no room for metadata",
                              sft_import_format_name(row->format));
    }
    c->any_type = true;
    c->no_parts = !row->shares;
    SFT_TRY(sft__import_convert_take(c, job->catalog, err));
    SFT_TRY(sft__import_convert_complete(c, &job->catalog, 1, err));
    SFT_TRY(sft__import_convert_names(c, err));
    for (size_t i = 0; i < c->item_count; i++) {
        SFT_TRY(row->check(&c->items[i], err));
    }
    SFT_TRY(sft__import_convert_map(c, err));
    c->result.files = 1;
    for (size_t i = 0; i < c->item_count && c->options.planned != NULL; i++) {
        c->options.planned(c->options.ctx, &c->items[i]);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what does not arrive */

enum { TOLD_MAX = 320 };

bool sft__import_names_framework(const sft_metadata_entry *e) {
    static const char *const names[] = {"pt", "np", "tf", "flax", "mlx", "ms", "paddle"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if (e->key_len == 6 && memcmp(e->key, "format", 6) == 0 && e->value_len == n &&
            memcmp(e->value, names[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/* Metadata that stands for something which the format has in another way. */
static bool is_format_own(const sft__import_export *job, const sft__import_writer_row *row,
                          const sft_metadata_entry *e) {
    const bool tree = e->key_len == 8 && memcmp(e->key, "sft.tree", 8) == 0;

    return sft__import_names_framework(e) || (tree && row->shares) ||
           (row->format == SFT_IMPORT_GGUF && sft_import_collects(e)) || /* put together */
           sft__import_convert_is_record(job->catalog, e);
}

/* Does an earlier file have the key? *same: with this value. */
static bool is_earlier(const sft_catalog *catalog, size_t file, const sft_metadata_entry *e,
                       bool *same) {
    for (size_t f = 0; f < file; f++) {
        size_t len;
        const char *value = sft_catalog_metadata_find(catalog, f, e->key, e->key_len, &len);
        if (value != NULL) {
            *same = len == e->value_len && memcmp(value, e->value, len) == 0;
            return true;
        }
    }
    return false;
}

/* Keys that the format has no room for. */
typedef struct keys {
    char text[TOLD_MAX];
    size_t len;
    size_t told;
} keys;

static void add_key(keys *k, const sft_metadata_entry *e) {
    char key[64];

    (void)sft_escape(key, sizeof key, e->key, e->key_len);
    if (k->len + strlen(key) + 8 < sizeof k->text) {
        k->len += (size_t)snprintf(k->text + k->len, sizeof k->text - k->len, "%s%s",
                                   k->told != 0 ? ", " : "", key);
    } else if (k->text[k->len - 1] != '.') {
        k->len += (size_t)snprintf(k->text + k->len, sizeof k->text - k->len, " ...");
    }
    k->told++;
}

static void tell_entry(sft__import_export *job, const sft__import_writer_row *row, size_t file,
                       const sft_metadata_entry *e, keys *k) {
    bool same = false;
    const bool earlier = is_earlier(job->catalog, file, e, &same);
    char subject[128];

    if (sft_digest_is_key(e->key, e->key_len)) {
        if (!earlier) {
            sft__import_convert_lost(&job->c, e->key[4] == 'c' ? "sft.crc32c" : "sft.sha256", 0,
                                     "recorded digests are of the file that they are in");
        }
    } else if (same || is_format_own(job, row, e)) {
        return;
    } else if (!row->metadata && !earlier) {
        add_key(k, e);
    } else if (file > 0) {
        (void)sft_escape(subject, sizeof subject, e->key, e->key_len);
        sft__import_convert_lost(&job->c, subject, 0,
                                 earlier
                                     ? "another value than in an earlier file"
                                     : "of the metadata of several files the first file's go on");
    }
}

/* Metadata without room, or of later files, and recorded digests, which are of the input's file. */
static sft_status tell_metadata(sft__import_export *job, const sft__import_writer_row *row,
                                sft_error *err) {
    keys k = {"no room for it in this format: ", 0, 0};

    k.len = strlen(k.text);
    for (size_t f = 0; f < sft_catalog_file_count(job->catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(job->catalog, f); i++) {
            sft_metadata_entry e;
            (void)sft_catalog_metadata_at(job->catalog, f, i, &e.key, &e.key_len, &e.value,
                                          &e.value_len);
            tell_entry(job, row, f, &e, &k);
        }
    }
    if (k.told != 0) {
        sft__import_convert_lost(&job->c, "metadata", 0, k.text);
    }
    return row->metadata ? sft__import_convert_retyped(&job->c, &job->catalog, 1, err) : SFT_OK;
}

/* Other names of tensors that go on. */
static void tell_aliases(sft__import_export *job, const sft__import_writer_row *row) {
    for (size_t i = 0; i < job->c.other_count && !row->shares; i++) {
        const sft__import_other *o = &job->c.others[i];
        const sft_import_item *item = sft__import_convert_item_of(&job->c, o->catalog, o->of, NULL);
        char text[TOLD_MAX];
        char name[256];
        char subject[256] = "";
        (void)sft_escape(name, sizeof name, item->name, item->name_len);
        memcpy(subject, o->name, o->name_len < sizeof subject ? o->name_len : sizeof subject - 1);
        (void)snprintf(text, sizeof text, "another name of \"%s\"; --dedup keep writes both", name);
        sft__import_convert_lost(&job->c, subject, 1, text);
        job->c.result.aliases--;
    }
}

static sft_status tell(sft__import_export *job, const sft__import_writer_row *row, sft_error *err) {
    SFT_TRY(tell_metadata(job, row, err));
    tell_aliases(job, row);
    job->c.result.left_out += sft__import_report_left_out(job->c.report);
    return SFT_OK;
}

static sft_status verify(sft__import_export *job, const sft__import_writer_row *row,
                         sft_error *err) {
    sft_import_options o;
    sft_catalog *again;

    if (job->c.item_count == 0 && row->format == SFT_IMPORT_NPZ) {
        return SFT_OK; /* an archive of nothing, which does not say whose it is */
    }
    SFT_INIT(&o);
    o.allocator = job->options.allocator;
    o.dedup = SFT_DEDUP_KEEP;
    SFT_TRY(row->reopen != NULL ? row->reopen(job, &again, err)
                                : sft_import_open(&again, job->path, &o, NULL, err));
    const sft_status status = sft__import_convert_compare(&job->c, again, err);
    sft_catalog_close(again);
    return status;
}

static sft_status run(sft__import_export *job, const sft__import_writer_row *row, sft_error *err) {
    SFT_TRY(sft__import_report_create(&job->c.report, job->c.allocator, err));
    sft__import_report_format(job->c.report, row->format);
    SFT_TRY(take_items(job, row, err));
    (void)sft__import_convert_problems(&job->c, job->catalog); /* counted by tell */
    SFT_TRY(tell(job, row, err));
    if ((job->options.flags & SFT_CONVERT_PLAN) != 0) {
        return SFT_OK;
    }
    if ((job->options.flags & SFT_CONVERT_VERIFY) != 0) {
        SFT_TRY(sft__import_convert_recorded(&job->c, job->catalog, err));
    }
    SFT_TRY(row->write(job, err));
    SFT_TRY(sft_catalog_unchanged(job->catalog, err));
    SFT_TRY(sft__fs_publish_commit(job->output, err));
    if ((job->options.flags & SFT_CONVERT_VERIFY) == 0) {
        return SFT_OK;
    }
    const sft_status status = verify(job, row, err);
    if (status != SFT_OK && (job->options.flags & SFT_CONVERT_REPLACE) == 0) {
        (void)remove(job->path); /* what this call made */
    }
    return status;
}

sft_status sft_import_export(const sft_catalog *catalog, uint32_t format, const char *path,
                             const sft_export_options *options, sft_import_converted *result,
                             sft_error *err) {
    const sft__import_writer_row *row = row_of(format);
    sft__import_export job;

    if (catalog == NULL || path == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or path is NULL");
    }
    if (row == NULL) {
        return sft__base_fail(err, SFT_E_FORMAT, "there is no writer for the format %s",
                              sft_import_format_name(format));
    }
    memset(&job, 0, sizeof job);
    job.catalog = catalog;
    job.path = path;
    SFT_TRY(read_options(&job, options, err));
    const sft_status status = run(&job, row, err);
    if (result != NULL) {
        *result = job.c.result;
    }
    if (job.options.report != NULL) {
        *job.options.report = status == SFT_OK ? job.c.report : NULL;
        job.c.report = status == SFT_OK ? NULL : job.c.report;
    }
    sft_import_report_free(job.c.report);
    sft__fs_publish_free(job.output);
    sft__base_arena_free(&job.arena);
    sft__import_convert_forget_names(&job.c);
    sft__base_free(job.c.allocator, job.c.items, job.c.item_room * sizeof *job.c.items);
    sft__base_free(job.c.allocator, job.c.others, job.c.other_room * sizeof *job.c.others);
    sft__base_free(job.c.allocator, job.c.places, job.c.place_room * sizeof *job.c.places);
    return status;
}
