/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_metadata.c - what the output says of itself: what the caller gave, what the
 * inputs say (under the names that their tensors have in the output), and the other names of its
 * tensors. What fits no more is left out and named. Read first: convert.h.
 */
#include "base/memory/need.h"
#include "import/convert/convert.h"
#include <sft/digest.h>
#include <stdio.h>

static const char records[] = "sft.aliases";

void sft__import_convert_lost(sft__import_conversion *c, const char *subject, uint64_t tensors,
                              const char *message) {
    const sft_finding f = {SFT_FINDING_LEFT_OUT,
                           SFT_SCAN_HARMLESS,
                           subject,
                           "metadata",
                           message,
                           SFT_NO_OFFSET,
                           tensors};
    sft__import_report_add(c->report, &f, strlen(subject));
}

uint64_t sft__import_convert_problems(sft__import_conversion *c, const sft_catalog *catalog) {
    uint64_t tensors = 0;

    for (size_t i = 0; i < sft_catalog_problem_count(catalog); i++) {
        const sft_problem *p = sft_catalog_problem_at(catalog, i);
        char subject[256];
        const size_t n = p->subject_len < sizeof subject - 1 ? p->subject_len : sizeof subject - 1;
        memcpy(subject, p->subject, n);
        subject[n] = '\0';
        if (p->kind != SFT_PROBLEM_TOTAL_SIZE && p->kind != SFT_PROBLEM_OTHER_SHARD) {
            sft__import_convert_lost(c, subject, p->kind == SFT_PROBLEM_ORPHAN_TENSOR, p->message);
            tensors += p->kind == SFT_PROBLEM_ORPHAN_TENSOR;
        }
    }
    return tensors;
}

static bool is_text(const char *text, size_t len, const char *want) {
    return len == strlen(want) && memcmp(text, want, len) == 0;
}

bool sft__import_convert_given(const sft__import_conversion *c, const char *key, size_t len) {
    for (size_t i = 0; i < c->options.metadata_count; i++) {
        const sft_metadata_entry *e = &c->options.metadata[i];
        if (e->key_len == len && memcmp(e->key, key, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Do all tensors of the only input go on as they are, into one file? */
static bool is_whole(const sft__import_conversion *c) {
    const uint32_t last = c->item_count != 0 ? c->items[c->item_count - 1].file : 0;

    for (size_t i = 0; i < c->item_count; i++) {
        const sft_import_item *item = &c->items[i];
        const sft_tensor *t = item->tensor;
        if (item->dtype->id != t->dtype->id || item->name_len != t->name_len ||
            memcmp(item->name, t->name, t->name_len) != 0) {
            return false;
        }
    }
    return c->catalog_count == 1 && last == 0 && c->item_count == sft_catalog_count(c->catalogs[0]);
}

/* ---------------------------------------------------------------- names in it */

typedef struct naming {
    sft__import_conversion *c;
    const sft_catalog *catalog;
    bool cast; /* a tensor has another type, which is not what is said of it */
} naming;

/* The other name of the output that was `name` in the catalog. */
static const sft__import_other *find_other(const naming *k, const char *name, size_t len) {
    const sft__import_conversion *c = k->c;
    size_t low = 0;
    size_t high = c->other_count;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (sft__import_convert_compare_names(c->others[mid].old, c->others[mid].old_len, name,
                                              len) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    for (; low < c->other_count && sft__import_convert_compare_names(
                                       c->others[low].old, c->others[low].old_len, name, len) == 0;
         low++) {
        if (c->others[low].catalog == k->catalog) {
            return &c->others[low];
        }
    }
    return NULL;
}

static sft_import_named name_now(void *ctx, const char *name, size_t len, const char **now,
                                 size_t *now_len) {
    naming *k = ctx;
    const sft_tensor *t = sft_catalog_find(k->catalog, name, len);
    const sft__import_other *other = t != NULL ? find_other(k, name, len) : NULL;

    if (t == NULL) {
        return SFT_IMPORT_NAME_UNKNOWN;
    }
    const sft_import_item *item = sft__import_convert_item_of(k->c, k->catalog, t, NULL);
    if (item == NULL) {
        return SFT_IMPORT_NAME_GONE;
    }
    if (item->dtype->id != item->tensor->dtype->id) {
        k->cast = true;
        return SFT_IMPORT_NAME_GONE;
    }
    *now = other != NULL ? other->name : item->name;
    *now_len = other != NULL ? other->name_len : item->name_len;
    return SFT_IMPORT_NAME_HERE;
}

/* What describes tensors goes on under their names. */
static sft_status put_described(sft__import_conversion *c, const sft_catalog *catalog,
                                const sft_metadata_entry *e, sft_writer *writer, sft_error *err) {
    naming k = {c, catalog, false};
    sft_metadata_entry now;
    size_t size;
    char *memory;

    SFT_TRY(sft_import_describe(&now, &memory, &size, e, name_now, &k, c->allocator, err));
    sft_status status = SFT_OK;
    if (k.cast) {
        char subject[128];
        const size_t n = e->key_len < sizeof subject - 1 ? e->key_len : sizeof subject - 1;
        memcpy(subject, e->key, n);
        subject[n] = '\0';
        sft__import_convert_lost(c, subject, 0, "it tells the type of tensors that are cast");
    }
    if (now.key != NULL && !sft__import_convert_given(c, now.key, now.key_len)) {
        status = sft_writer_metadata(writer, now.key, now.key_len, now.value, now.value_len, err);
    }
    sft__base_free(c->allocator, memory, size);
    return status;
}

/* ---------------------------------------------------------------- of the inputs */

/* What says something about the bytes of its file: digests, which sft_writer_carry_digests hands on,
 * MindSpore's checksum of all tensors, and what torchao says of the tensors that one was made of. */
static bool is_of_old_bytes(sft__import_conversion *c, const sft_metadata_entry *e) {
    static const char parts[] = "{\"_type\":";

    if (sft_digest_is_key(e->key, e->key_len)) {
        return true;
    }
    if (is_text(e->key, e->key_len, "crc_num") && !is_whole(c)) {
        sft__import_convert_lost(c, "crc_num", 0,
                                 "a checksum of other tensors than those of the output");
        return true;
    }
    if ((is_text(e->key, e->key_len, "tensor_names") ||
         (e->value_len > sizeof parts && memcmp(e->value, parts, sizeof parts - 1) == 0)) &&
        !is_whole(c)) {
        sft__import_convert_lost(
            c, "tensor_names", 0,
            "which tensors are parts of one: some are renamed, cast, left out or in "
            "another file");
        return true;
    }
    return false;
}

/* Does the entry record another name, as c->others has it? */
bool sft__import_convert_is_record(const sft_catalog *catalog, const sft_metadata_entry *e) {
    const sft_tensor *t = sft_catalog_find(catalog, e->key, e->key_len);

    if (is_text(e->key, e->key_len, records)) {
        return true;
    }
    return t != NULL && t != sft_catalog_at(catalog, sft_catalog_index_of(catalog, t)) &&
           sft_catalog_find(catalog, e->value, e->value_len) != NULL;
}

/* Does an earlier file have the key? Another value there is told. */
static bool is_earlier(sft__import_conversion *c, size_t input, size_t file,
                       const sft_metadata_entry *e) {
    for (size_t k = 0; k <= input; k++) {
        const sft_catalog *catalog = c->catalogs[k];
        const size_t files = k < input ? sft_catalog_file_count(catalog) : file;
        for (size_t f = 0; f < files; f++) {
            size_t len = 0;
            const char *value = sft_catalog_metadata_find(catalog, f, e->key, e->key_len, &len);
            if (value == NULL) {
                continue;
            }
            if ((len != e->value_len || memcmp(value, e->value, len) != 0) &&
                !sft_digest_is_key(e->key, e->key_len) && !sft_import_collects(e) &&
                !sft__import_convert_is_record(c->catalogs[input], e)) {
                char subject[128];
                (void)sft_escape(subject, sizeof subject, e->key, e->key_len);
                sft__import_convert_lost(c, subject, 0, "another value than in an earlier file");
            }
            return true;
        }
    }
    return false;
}

static void tell_retyped(void *ctx, const sft_metadata_entry *e) {
    sft__import_conversion *c = ctx;
    char subject[128];

    if (!sft__import_convert_given(c, e->key, e->key_len)) {
        (void)sft_escape(subject, sizeof subject, e->key, e->key_len);
        sft__import_convert_lost(
            c, subject, 0, "the same text as in an earlier file, but a value of another type");
    }
}

sft_status sft__import_convert_retyped(sft__import_conversion *c,
                                       const sft_catalog *const *catalogs, size_t count,
                                       sft_error *err) {
    const sft_import_collection from = {catalogs, count, NULL, NULL, c->allocator};

    return sft_import_retyped(&from, tell_retyped, c, err);
}

static sft_import_named name_block(void *ctx, const sft_catalog *catalog, const sft_tensor *t,
                                   const char **now, size_t *now_len) {
    naming *k = ctx;

    k->catalog = catalog;
    return name_now(k, t->name, t->name_len, now, now_len);
}

/* The objects of all files as one. *several: there are some; else nothing was done. */
static sft_status put_collected(sft__import_conversion *c, const sft_metadata_entry *like,
                                sft_writer *writer, bool *several, sft_error *err) {
    naming k = {c, NULL, false};
    const sft_import_collection from = {(const sft_catalog *const *)c->catalogs, c->catalog_count,
                                        name_block, &k, c->allocator};
    const char *key = like->key_len == 10 ? "gguf.types" : "gguf.tensors";
    sft_metadata_entry now;
    size_t count = 0;
    size_t size;
    char *memory;

    for (size_t i = 0; i < c->catalog_count; i++) {
        for (size_t f = 0; f < sft_catalog_file_count(c->catalogs[i]); f++) {
            count += sft_catalog_metadata_find(c->catalogs[i], f, like->key, like->key_len, NULL) !=
                     NULL;
        }
    }
    *several = count > 1;
    if (!*several) {
        return SFT_OK;
    }
    sft_status status = sft_import_collect(&now, &memory, &size, like, &from, err);
    if (status == SFT_E_SCHEMA) { /* the first stays */
        *several = false;
        sft__import_convert_lost(c, key, 0,
                                 "the values of several files, which are not all objects");
        return SFT_OK;
    }
    if (k.cast) {
        sft__import_convert_lost(c, key, 0, "it tells the type of tensors that are cast");
    }
    if (status == SFT_OK && now.key != NULL &&
        !sft__import_convert_given(c, now.key, now.key_len)) {
        status = sft_writer_metadata(writer, now.key, now.key_len, now.value, now.value_len, err);
    }
    sft__base_free(c->allocator, memory, size);
    return status;
}

/* Would readers of safetensors take a text of the input for another name of a tensor? */
static bool looks_like_name(sft__import_conversion *c, const sft_metadata_entry *e) {
    char subject[128];

    if (!sft__import_convert_is_name(c, e->value, e->value_len) ||
        sft__import_convert_is_name(c, e->key, e->key_len) ||
        is_text(e->key, e->key_len, "format") ||
        (e->key_len >= 4 && memcmp(e->key, "sft.", 4) == 0)) {
        return false;
    }
    (void)sft_escape(subject, sizeof subject, e->key, e->key_len);
    sft__import_convert_lost(
        c, subject, 0,
        "its text is a tensor's name: readers would take the key for another name of it");
    return true;
}

static sft_status put_inputs(sft__import_conversion *c, sft_writer *writer, size_t input,
                             size_t file, sft_error *err) {
    const sft_catalog *catalog = c->catalogs[input];

    for (size_t i = 0; i < sft_catalog_metadata_count(catalog, file); i++) {
        sft_metadata_entry e;
        bool several = false;
        (void)sft_catalog_metadata_at(catalog, file, i, &e.key, &e.key_len, &e.value, &e.value_len);
        if (is_earlier(c, input, file, &e) || sft__import_convert_is_record(catalog, &e) ||
            is_of_old_bytes(c, &e)) {
            continue;
        }
        if (sft_import_collects(&e)) {
            SFT_TRY(put_collected(c, &e, writer, &several, err));
        }
        if (several) {
            continue;
        }
        if (!sft__import_convert_given(c, e.key, e.key_len) && looks_like_name(c, &e)) {
            continue;
        }
        if (sft_import_describes(&e)) {
            SFT_TRY(put_described(c, catalog, &e, writer, err));
        } else if (!sft__import_convert_given(c, e.key, e.key_len)) {
            SFT_TRY(sft_writer_metadata(writer, e.key, e.key_len, e.value, e.value_len, err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- other names */

/* Those of tensors in this file. */
static sft_status put_others(sft__import_conversion *c, sft_writer *writer, size_t first,
                             size_t end, sft_error *err) {
    sft_writer_name *names = sft__base_alloc_array(c->allocator, c->other_count + 1, sizeof *names);
    size_t count = 0;

    SFT_NEED(names != NULL, c->other_count * sizeof *names, err);
    for (size_t i = 0; i < c->other_count; i++) {
        const sft__import_other *o = &c->others[i];
        size_t at;
        const sft_import_item *item = sft__import_convert_item_of(c, o->catalog, o->of, &at);
        if (item != NULL && at >= first && at < end) {
            names[count++] = (sft_writer_name){o->name,
                                               o->name_len,
                                               item->name,
                                               item->name_len,
                                               item->dtype,
                                               o->of,
                                               o->part ? o->shows : NULL};
        }
    }
    const sft_status status = sft_writer_names(writer, names, count, err);
    sft__base_free(c->allocator, names, (c->other_count + 1) * sizeof *names);
    return status;
}

sft_status sft__import_convert_metadata(sft__import_conversion *c, sft_writer *writer, size_t first,
                                        size_t end, sft_error *err) {
    for (size_t i = 0; i < c->options.metadata_count; i++) {
        const sft_metadata_entry *e = &c->options.metadata[i];
        SFT_TRY(sft_writer_metadata(writer, e->key, e->key_len, e->value, e->value_len, err));
    }
    for (size_t k = 0; k < c->catalog_count; k++) {
        for (size_t f = 0; f < sft_catalog_file_count(c->catalogs[k]); f++) {
            SFT_TRY(put_inputs(c, writer, k, f, err));
        }
    }
    if ((c->options.flags & SFT_CONVERT_NO_METADATA) != 0) {
        return SFT_OK;
    }
    size_t len;
    if (c->framework != NULL &&
        sft_writer_metadata_find(writer, "format", 6, &len) == NULL) { /* as inputs have it */
        SFT_TRY(sft_writer_metadata(writer, "format", 6, c->framework, 2, err));
    }
    return put_others(c, writer, first, end, err);
}
