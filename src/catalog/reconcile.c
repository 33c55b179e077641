/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/reconcile.c - an index says which file has which tensor; the files say what they have.
 * The index decides what the catalog holds:
 *
 *   named, in the named file              taken
 *   named, in exactly one other file      taken from there, OTHER_SHARD
 *   named, in several others only         SFT_E_DUPLICATE: no way to tell which is meant
 *   named, in the named file and others   taken from the named one, OTHER_SHARD for each other
 *   named, nowhere                        SFT_E_SHARD_DISAGREES, or MISSING_TENSOR when INCOMPLETE is allowed
 *   not named                             left out, ORPHAN_TENSOR
 *
 * Read first: model.h.
 */
#include "base/checked.h"
#include "catalog/model.h"

/* Where the tensor of an index entry was met so far. */
enum { NOWHERE = 0, ELSEWHERE = 1, ELSEWHERE_TWICE = 2, AT_HOME = 3 };

typedef struct survey {
    sft__catalog_model *model;
    uint32_t *entry_of; /* per tensor of all headers, in file order: the entry, or NO_ENTRY */
    uint8_t *met;       /* per entry */
    size_t total;       /* tensors of all headers */
    size_t wanted;      /* of those, how many will be taken */
} survey;

#define NO_ENTRY UINT32_MAX

/* The file of the catalog that the index wants the entry's tensor to be in; SFT__NO_SHARD: not
 * there. */
static uint32_t home_of(const sft__catalog_model *model, uint32_t entry) {
    return model->shards[model->shard_of[entry]].file;
}

/* The entry of a tensor. Files and index mostly list names in the same order: `next`, the entry
 * behind the last one, is looked at first. */
static size_t find_entry(const sft__format_index *index, const sft_tensor *t, size_t next) {
    if (next < index->entry_count && index->entries[next].name_len == t->name_len &&
        memcmp(index->entries[next].name, t->name, t->name_len) == 0) {
        return next;
    }
    return sft__base_strmap_find(&index->names, t->name, t->name_len);
}

static void survey_tensors(survey *s) {
    const sft_catalog *catalog = s->model->catalog;
    size_t at = 0;
    size_t next = 0;

    for (uint32_t f = 0; f < catalog->header_count; f++) {
        for (size_t i = 0; i < catalog->headers[f].tensor_count; i++, at++) {
            const sft_tensor *t = &catalog->headers[f].tensors[i];
            const size_t entry = find_entry(s->model->index, t, next);
            s->entry_of[at] = entry == SFT__STRMAP_NONE ? NO_ENTRY : (uint32_t)entry;
            if (entry == SFT__STRMAP_NONE) {
                continue;
            }
            next = entry + 1;
            if (home_of(s->model, (uint32_t)entry) == f) {
                s->met[entry] = AT_HOME;
            } else if (s->met[entry] < ELSEWHERE_TWICE) {
                s->met[entry]++;
            }
        }
    }
    for (size_t e = 0; e < s->model->index->entry_count; e++) {
        s->wanted += s->met[e] != NOWHERE;
    }
}

/* A tensor that lies in `file` although the index says otherwise. */
static sft_status elsewhere(const survey *s, const sft_tensor *t, uint32_t file, uint32_t entry,
                            sft_error *err) {
    const sft__catalog_model *model = s->model;
    const sft__catalog_shard *home = &model->shards[model->shard_of[entry]];
    sft__catalog_shown tensor;
    sft__catalog_shown named;
    sft__catalog_shown actual;
    const char *path = sft__fs_base_name(model->catalog->files[file].info.path);

    (void)sft__catalog_show(&tensor, t->name, t->name_len);
    (void)sft__catalog_show(&named, home->name, home->name_len);
    (void)sft__catalog_show(&actual, path, strlen(path));
    if (s->met[entry] == ELSEWHERE_TWICE) {
        return sft__base_fail_tensor(
            err, SFT_E_DUPLICATE, model->index->entries[entry].offset, t->name, t->name_len,
            "the index places the tensor in %s, but it lies in several others, "
            "%s among them",
            named.text, actual.text);
    }
    return sft__catalog_problem_add(
        model->catalog, SFT_PROBLEM_OTHER_SHARD, (sft__catalog_subject){t->name, t->name_len}, err,
        s->met[entry] == AT_HOME
            ? "%s: the index places it in %s, where it is; another one in %s is left out"
            : "%s: the index places it in %s, it lies in %s",
        tensor.text, named.text, actual.text);
}

static sft_status take_tensors(const survey *s, sft_tensor *tensors, sft_piece *pieces,
                               sft_error *err) {
    sft_catalog *catalog = s->model->catalog;
    size_t taken = 0;
    size_t at = 0;

    for (uint32_t f = 0; f < catalog->header_count; f++) {
        for (size_t i = 0; i < catalog->headers[f].tensor_count; i++, at++) {
            const sft_tensor *t = &catalog->headers[f].tensors[i];
            const uint32_t entry = s->entry_of[at];
            sft__catalog_shown shown;
            if (entry == NO_ENTRY) {
                const char *file = sft__fs_base_name(catalog->files[f].info.path);
                sft__catalog_shown where;
                SFT_TRY(sft__catalog_problem_add(catalog, SFT_PROBLEM_ORPHAN_TENSOR,
                                                 (sft__catalog_subject){t->name, t->name_len}, err,
                                                 "%s in %s is not in the index: left out",
                                                 sft__catalog_show(&shown, t->name, t->name_len),
                                                 sft__catalog_show(&where, file, strlen(file))));
                continue;
            }
            if (home_of(s->model, entry) != f) {
                SFT_TRY(elsewhere(s, t, f, entry, err));
                if (s->met[entry] == AT_HOME) {
                    continue;
                }
            }
            if (taken == s->wanted ||
                !sft__catalog_merge_put(s->model, tensors, pieces, taken++, t, f)) {
                return sft__base_fail(err, SFT_E_INTERNAL, "merged more tensors than were counted");
            }
        }
    }
    catalog->tensor_count = taken;
    return SFT_OK;
}

/* Entries that no file has. Those of a missing file are told of already. */
static sft_status miss_tensors(const survey *s, size_t *missing, sft_error *err) {
    const sft__catalog_model *model = s->model;

    for (uint32_t e = 0; e < model->index->entry_count; e++) {
        const sft__format_index_entry *entry = &model->index->entries[e];
        const sft__catalog_shard *home = &model->shards[model->shard_of[e]];
        sft__catalog_shown shown;
        sft__catalog_shown named;
        if (s->met[e] != NOWHERE) {
            continue;
        }
        ++*missing;
        if (home->file == SFT__NO_SHARD) {
            continue;
        }
        (void)sft__catalog_show(&named, home->name, home->name_len);
        if ((model->options->open.flags & SFT_OPEN_INCOMPLETE) == 0) {
            return sft__base_fail_tensor(
                err, SFT_E_SHARD_DISAGREES, entry->offset, entry->name, entry->name_len,
                "%s does not have the tensor that the index places in it", named.text);
        }
        char *name = sft__base_arena_copy(&model->catalog->arena, entry->name, entry->name_len);
        if (name == NULL) {
            return sft__catalog_arena_failed(&model->catalog->arena, entry->name_len, err);
        }
        SFT_TRY(sft__catalog_problem_add(
            model->catalog, SFT_PROBLEM_MISSING_TENSOR,
            (sft__catalog_subject){name, entry->name_len}, err,
            "%s is not in %s, where the index places it, nor elsewhere",
            sft__catalog_show(&shown, entry->name, entry->name_len), named.text));
    }
    return SFT_OK;
}

static sft_status compare_total(const sft__catalog_model *model, sft_error *err) {
    const sft_catalog *catalog = model->catalog;
    uint64_t sum = 0;

    for (size_t i = 0; i < catalog->tensor_count; i++) {
        if (!sft__base_add64(sum, catalog->tensors[i].nbytes, &sum)) {
            sum = UINT64_MAX; /* cannot be: every tensor lies in a file */
            break;
        }
    }
    if (!model->index->has_total_size || model->index->total_size == sum) {
        return SFT_OK;
    }
    return sft__catalog_problem_add(
        model->catalog, SFT_PROBLEM_TOTAL_SIZE,
        (sft__catalog_subject){model->index_name, strlen(model->index_name)}, err,
        "the index says total_size %llu, its tensors have %llu bytes",
        (unsigned long long)model->index->total_size, (unsigned long long)sum);
}

static sft_status reconcile(survey *s, sft_error *err) {
    sft_tensor *tensors;
    sft_piece *pieces;
    size_t missing = 0;

    survey_tensors(s);
    SFT_TRY(miss_tensors(s, &missing, err));
    SFT_TRY(sft__catalog_merge_begin(s->model, s->wanted, &tensors, &pieces, err));
    SFT_TRY(take_tensors(s, tensors, pieces, err));
    return missing == 0 ? compare_total(s->model, err) : SFT_OK;
}

sft_status sft__catalog_shards_reconcile(sft__catalog_model *model, sft_error *err) {
    const sft_catalog *catalog = model->catalog;
    const sft_allocator *a = catalog->allocator;
    const size_t entries = model->index->entry_count;
    survey s = {.model = model};
    sft_status status;

    for (size_t f = 0; f < catalog->header_count; f++) {
        s.total += catalog->headers[f].tensor_count; /* cannot overflow: all are in memory */
    }
    s.entry_of = sft__base_alloc_array(a, s.total, sizeof *s.entry_of);
    s.met = entries != 0 ? sft__base_alloc_zero(a, entries) : NULL;
    if ((s.entry_of == NULL && s.total != 0) || (s.met == NULL && entries != 0)) {
        status = sft__base_fail_nomem(err, s.total * sizeof *s.entry_of + entries);
    } else {
        status = reconcile(&s, err);
    }
    sft__base_free(a, s.entry_of, s.total * sizeof *s.entry_of);
    sft__base_free(a, s.met, entries);
    return status;
}
