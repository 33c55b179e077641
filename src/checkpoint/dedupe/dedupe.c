/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/dedupe/dedupe.c - a directory of ranks without replicas: from headers to shards, from kept
 * copies to the files of a job, and the record of what was there. Read checkpoint/dedupe/dedupe.h first.
 */
#include "checkpoint/dedupe/dedupe.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "checkpoint/job/job.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- the object */

/* Name and length come first: base/text/strmap.h reads them there. */
typedef struct known_name {
    const char *name;
    size_t len;
    uint32_t number; /* as they were found; then in the order of bytes */
} known_name;

sft_status sft__checkpoint_dedupe_begin(sft_dedupe **out, const sft_checkpoint *checkpoint,
                                        const sft_dedupe_options *options, sft_error *err) {
    sft_dedupe_options o;
    size_t size;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_dedupe_options, allocator),
                                   "options", err));
    const sft_allocator *const a = sft__base_allocator(o.allocator);
    if (checkpoint->kind != SFT_CHECKPOINT_RANKS) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "%s: replicas are known in directories of ranks only",
                              sft_checkpoint_kind_title(checkpoint->kind));
    }
    if (checkpoint->layouts == NULL) {
        return sft__base_fail(err, SFT_E_NOT_FOUND,
                              "how tensors are sharded is not known: a layout is "
                              "needed");
    }
    sft_dedupe *const d = sft__base_alloc_zero(a, sizeof *d);
    SFT_NEED(d != NULL, sizeof *d, err);
    d->allocator = a;
    d->checkpoint = checkpoint;
    d->options = o;
    d->order = SFT_ORDER_DECLARED;
    sft__base_arena_init(&d->arena, a, 0);
    sft__base_buf_init(&d->layout_text, a);
    sft__base_buf_init(&d->record, a);
    *out = d;
    SFT_TRY(sft_layout_set_write(checkpoint->layouts, NULL, 0, &size, err));
    SFT_NEED(sft__base_buf_reserve(&d->layout_text, size), size, err);
    d->layout_text.len = size;
    d->texts[d->text_count].name = "layout.json";
    d->texts[d->text_count].data = d->layout_text.data;
    d->texts[d->text_count++].size = size;
    return sft_layout_set_write(checkpoint->layouts, d->layout_text.data, size, &size, err);
}

void sft_dedupe_free(sft_dedupe *dedupe) {
    if (dedupe == NULL) {
        return;
    }
    const sft_allocator *const a = dedupe->allocator;
    while (dedupe->catalog_count > 0) { /* later ones borrow from earlier ones */
        sft_catalog_close(dedupe->catalogs[--dedupe->catalog_count]);
    }
    sft__base_free(a, dedupe->catalogs, dedupe->catalog_room * sizeof(void *));
    sft__base_free(a, dedupe->base, (dedupe->checkpoint->count + 1) * sizeof *dedupe->base);
    sft__base_free(a, dedupe->ids, dedupe->total * sizeof *dedupe->ids);
    sft__base_free(a, dedupe->names, (dedupe->name_count + 1) * sizeof *dedupe->names);
    sft__base_free(a, dedupe->name_lens, (dedupe->name_count + 1) * sizeof *dedupe->name_lens);
    sft__base_free(a, dedupe->copies, dedupe->total * sizeof *dedupe->copies);
    sft__base_free(a, dedupe->shards, dedupe->shard_room * sizeof *dedupe->shards);
    sft__base_free(a, dedupe->files, dedupe->file_room * sizeof *dedupe->files);
    sft__base_buf_reset(&dedupe->layout_text);
    sft__base_buf_reset(&dedupe->record);
    sft__base_arena_free(&dedupe->arena);
    sft__base_free(a, dedupe, sizeof *dedupe);
}

const sft_job_file *sft_dedupe_files(const sft_dedupe *dedupe, size_t *count) {
    *count = dedupe->file_count;
    return dedupe->files;
}

const sft_job_text *sft_dedupe_texts(const sft_dedupe *dedupe, size_t *count) {
    *count = dedupe->text_count;
    return dedupe->texts;
}

sft_order sft_dedupe_order(const sft_dedupe *dedupe) {
    return dedupe->order;
}

void sft_dedupe_total(const sft_dedupe *dedupe, uint64_t *tensors, uint64_t *bytes) {
    *tensors = dedupe->changed_tensors;
    *bytes = dedupe->changed_bytes;
}

/* ---------------------------------------------------------------- names */

typedef struct naming {
    sft_dedupe *d;
    known_name *list;
    size_t count;
    size_t room;
    sft__base_strmap map;
} naming;

static sft_status more_names(naming *n, sft_error *err) {
    const size_t wanted = n->count < 1024 ? 2048 : 2 * n->count;
    SFT_TRY(
        sft__checkpoint_more(n->d->allocator, &n->list, &n->room, wanted, sizeof *n->list, err));
    if (n->map.slots != NULL) {
        sft__base_strmap_reset(&n->map);
    }
    SFT_NEED(sft__base_strmap_init(&n->map, n->list, sizeof *n->list, n->room, n->d->allocator),
             wanted * sizeof(uint64_t), err);
    for (size_t i = 0; i < n->count; i++) {
        (void)sft__base_strmap_add(&n->map, i);
    }
    return SFT_OK;
}

static bool is_name(const known_name *n, const sft_tensor *t) {
    return n->len == t->name_len && memcmp(n->name, t->name, n->len) == 0;
}

static sft_status note_name(naming *n, const sft_tensor *t, size_t *guess, uint32_t *id,
                            sft_error *err) {
    if (*guess < n->count && is_name(&n->list[*guess], t)) { /* ranks keep one order */
        *id = (uint32_t)(*guess)++;
        return SFT_OK;
    }
    if (n->count == n->room) {
        SFT_TRY(more_names(n, err));
    }
    n->list[n->count].name = t->name;
    n->list[n->count].len = t->name_len;
    const size_t at = sft__base_strmap_add(&n->map, n->count);
    n->count += at == SFT__STRMAP_NONE;
    *id = (uint32_t)(at == SFT__STRMAP_NONE ? n->count - 1 : at);
    *guess = (size_t)*id + 1;
    return SFT_OK;
}

static int by_name(const void *a, const void *b) {
    const known_name *const x = a;
    const known_name *const y = b;
    const int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* Numbers in the order of bytes instead of that of finding. */
static sft_status sort_names(naming *n, sft_error *err) {
    sft_dedupe *const d = n->d;
    uint32_t *const place = sft__base_alloc_array(d->allocator, n->count + 1, sizeof *place);
    d->names = sft__base_alloc_array(d->allocator, n->count + 1, sizeof *d->names);
    d->name_lens = sft__base_alloc_array(d->allocator, n->count + 1, sizeof *d->name_lens);
    if (place == NULL || d->names == NULL || d->name_lens == NULL) {
        sft__base_free(d->allocator, place, (n->count + 1) * sizeof *place);
        sft__base_free(d->allocator, d->names, (n->count + 1) * sizeof *d->names);
        sft__base_free(d->allocator, d->name_lens, (n->count + 1) * sizeof *d->name_lens);
        d->names = NULL;
        d->name_lens = NULL;
        return sft__base_fail_nomem(err, n->count * sizeof(void *));
    }
    d->name_count = n->count;
    for (size_t i = 0; i < n->count; i++) {
        n->list[i].number = (uint32_t)i;
    }
    if (n->count > 1) {
        qsort(n->list, n->count, sizeof *n->list, by_name);
    }
    for (size_t i = 0; i < n->count; i++) {
        d->names[i] = n->list[i].name;
        d->name_lens[i] = n->list[i].len;
        place[n->list[i].number] = (uint32_t)i;
    }
    for (size_t i = 0; i < d->total; i++) {
        d->ids[i] = place[d->ids[i]];
    }
    sft__base_free(d->allocator, place, (n->count + 1) * sizeof *place);
    return SFT_OK;
}

static sft_status number_names(sft_dedupe *d, sft_error *err) {
    const sft_checkpoint *const c = d->checkpoint;
    naming n;
    sft_status status = SFT_OK;
    size_t total = 0;
    memset(&n, 0, sizeof n);
    n.d = d;
    d->base = sft__base_alloc_array(d->allocator, c->count + 1, sizeof *d->base);
    SFT_NEED(d->base != NULL, (c->count + 1) * sizeof *d->base, err);
    for (size_t i = 0; i <= c->count; i++) {
        d->base[i] = total; /* of tensors that are in memory: cannot overflow */
        total += i < c->count ? sft_catalog_count(c->parts[i].catalog) : 0;
    }
    d->ids = sft__base_alloc_array(d->allocator, total, sizeof *d->ids);
    d->copies = sft__base_alloc_array(d->allocator, total, sizeof *d->copies);
    if (total != 0 && (d->ids == NULL || d->copies == NULL)) {
        sft__base_free(d->allocator, d->ids, total * sizeof *d->ids);
        sft__base_free(d->allocator, d->copies, total * sizeof *d->copies);
        d->ids = NULL;
        d->copies = NULL;
        return sft__base_fail_nomem(err, total * sizeof *d->copies);
    }
    d->total = total;
    for (size_t i = 0; i < c->count && status == SFT_OK; i++) {
        size_t guess = 0;
        for (size_t t = d->base[i]; t < d->base[i + 1] && status == SFT_OK; t++) {
            status = note_name(&n, sft_catalog_at(c->parts[i].catalog, t - d->base[i]), &guess,
                               &d->ids[t], err);
        }
    }
    if (status == SFT_OK) {
        status = sort_names(&n, err);
    }
    if (n.map.slots != NULL) {
        sft__base_strmap_reset(&n.map);
    }
    sft__base_free(d->allocator, n.list, n.room * sizeof *n.list);
    return status;
}

/* ---------------------------------------------------------------- shards */

/* A copy of the name at hand, and which part it is. */
typedef struct placed {
    sft__checkpoint_copy copy;
    uint32_t group; /* ranks of one layout */
    const sft_layout *layout;
    uint64_t number;
} placed;

static int by_part(const void *a, const void *b) {
    const placed *const x = a;
    const placed *const y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    if (x->number != y->number) {
        return x->number < y->number ? -1 : 1;
    }
    return x->copy.part < y->copy.part ? -1 : x->copy.part > y->copy.part;
}

/* The layout of copy i: one of an earlier copy's, if that has the rank. */
static sft_status place(const sft_dedupe *d, placed *list, size_t i, uint32_t *groups,
                        sft_error *err) {
    const sft_rank_part *const part = &d->checkpoint->parts[list[i].copy.part];
    const sft_tensor *const t = sft_catalog_at(part->catalog, list[i].copy.tensor);
    uint64_t shape[SFT_LAYOUT_RANK];
    size_t dims = t->rank;
    placed *const p = &list[i];
    if (i > 0 && list[i - 1].layout != NULL && sft_layout_holds(list[i - 1].layout, part->rank)) {
        p->layout = list[i - 1].layout;
        p->group = list[i - 1].group;
    } else {
        memcpy(shape, t->shape, (dims < SFT_LAYOUT_RANK ? dims : SFT_LAYOUT_RANK) * sizeof *shape);
        p->layout = NULL;
        SFT_TRY(sft__checkpoint_find_part((void *)(uintptr_t)d->checkpoint, t, part->rank,
                                          &p->layout, shape, &dims, err));
        p->group = *groups;
        for (size_t k = 0; k < i; k++) {
            p->group = list[k].layout == p->layout ? list[k].group : p->group;
        }
        *groups += p->group == *groups;
    }
    p->number = 0;
    if (p->layout != NULL && !sft_layout_holds(p->layout, part->rank)) {
        return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, t->name, t->name_len,
                                     "rank %llu has it, and the layout gives it no part",
                                     (unsigned long long)part->rank);
    }
    return p->layout != NULL ? sft__layout_part(p->layout, part->rank, &p->number, err) : SFT_OK;
}

static sft_status same_kind(const sft_dedupe *d, const sft__checkpoint_shard *s, size_t copy,
                            sft_error *err) {
    const sft_tensor *const x = sft__checkpoint_dedupe_tensor(d, s->first);
    const sft_tensor *const y = sft__checkpoint_dedupe_tensor(d, copy);
    const sft_rank_part *const parts = d->checkpoint->parts;
    if (x->dtype->id == y->dtype->id && x->rank == y->rank &&
        memcmp(x->shape, y->shape, x->rank * sizeof *x->shape) == 0) {
        return SFT_OK;
    }
    return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, x->name, x->name_len,
                                 "ranks %llu and %llu have other dtypes or shapes of the same part",
                                 (unsigned long long)parts[d->copies[s->first].part].rank,
                                 (unsigned long long)parts[d->copies[copy].part].rank);
}

/* Copies [first, first + count) are all of one name. */
static sft_status shard_name(sft_dedupe *d, const placed *list, size_t first, size_t count,
                             sft_error *err) {
    sft__checkpoint_shard *s = NULL;
    for (size_t i = 0; i < count; i++) {
        d->copies[first + i] = list[i].copy;
        if (i == 0 || list[i].group != list[i - 1].group || list[i].number != list[i - 1].number) {
            SFT_TRY(sft__checkpoint_more(d->allocator, &d->shards, &d->shard_room,
                                         d->shard_count + 1, sizeof *d->shards, err));
            s = &d->shards[d->shard_count++];
            const size_t id = d->ids[d->base[list[i].copy.part] + list[i].copy.tensor];
            s->name = d->names[id];
            s->len = d->name_lens[id];
            s->layout = list[i].layout;
            s->number = list[i].number;
            s->bytes = sft__checkpoint_dedupe_tensor(d, first + i)->nbytes;
            s->first = first + i;
            s->count = 0;
            s->keeper = SFT__KEEP_ALL;
        }
        s->count++;
        /* Without a layout ranks may differ, as long as each keeps its own. */
        SFT_TRY(same_kind(d, s, first + i, err));
    }
    return SFT_OK;
}

/* Copies by name (a counting sort), then name by name. */
static sft_status shard_all(sft_dedupe *d, size_t *starts, placed **room, size_t *room_count,
                            sft_error *err) {
    for (size_t i = 0; i < d->total; i++) {
        starts[d->ids[i] + 1]++;
    }
    for (size_t i = 0; i < d->name_count; i++) {
        starts[i + 1] += starts[i];
    }
    for (size_t i = d->checkpoint->count; i-- > 0;) { /* from behind: each start moves to its end */
        for (size_t t = d->base[i + 1]; t-- > d->base[i];) {
            sft__checkpoint_copy *const c = &d->copies[--starts[d->ids[t] + 1]];
            c->part = (uint32_t)i;
            c->tensor = (uint32_t)(t - d->base[i]);
        }
    }
    for (size_t n = 0; n < d->name_count; n++) {
        const size_t first = starts[n + 1];
        const size_t end = n + 1 < d->name_count ? starts[n + 2] : d->total;
        uint32_t groups = 0;
        SFT_TRY(
            sft__checkpoint_more(d->allocator, room, room_count, end - first, sizeof **room, err));
        for (size_t i = 0; i < end - first; i++) {
            (*room)[i].copy = d->copies[first + i];
            SFT_TRY(place(d, *room, i, &groups, err));
        }
        if (end - first > 1) {
            qsort(*room, end - first, sizeof **room, by_part);
        }
        SFT_TRY(shard_name(d, *room, first, end - first, err));
    }
    return SFT_OK;
}

static sft_status find_shards(sft_dedupe *d, sft_error *err) {
    placed *room = NULL;
    size_t room_count = 0;
    SFT_TRY(number_names(d, err));
    size_t *const starts = sft__base_alloc_zero(d->allocator, (d->name_count + 1) * sizeof *starts);
    SFT_NEED(starts != NULL, (d->name_count + 1) * sizeof *starts, err);
    const sft_status status = shard_all(d, starts, &room, &room_count, err);
    sft__base_free(d->allocator, starts, (d->name_count + 1) * sizeof *starts);
    sft__base_free(d->allocator, room, room_count * sizeof *room);
    return status;
}

/* ---------------------------------------------------------------- files */

sft_status sft__checkpoint_dedupe_add_file(sft_dedupe *d, sft_job_file **out, sft_error *err) {
    SFT_TRY(sft__checkpoint_more(d->allocator, &d->files, &d->file_room, d->file_count + 1,
                                 sizeof *d->files, err));
    *out = &d->files[d->file_count++];
    memset(*out, 0, sizeof **out);
    return SFT_OK;
}

const char *sft__checkpoint_dedupe_name(sft_dedupe *d, const sft_catalog *rank) {
    static const char other[] = ".ckpt";
    const char *path = sft_catalog_file_at(rank, 0)->path;
    size_t skip = strlen(d->checkpoint->directory);
    if (strncmp(path, d->checkpoint->directory, skip) == 0) {
        while (path[skip] == '/') {
            skip++;
        }
        path += skip;
    }
    size_t len = strlen(path);
    if (!sft__checkpoint_ends(path, len, other)) {
        return sft__base_arena_copy(&d->arena, path, len);
    }
    len -= sizeof other - 1;
    char *const made = sft__base_arena_alloc(&d->arena, len + sizeof ".safetensors", 1);
    if (made != NULL) {
        memcpy(made, path, len);
        memcpy(made + len, ".safetensors", sizeof ".safetensors");
    }
    return made;
}

static bool is_key(const sft_metadata_entry *e, const char *key) {
    return key != NULL && e->key_len == strlen(key) && memcmp(e->key, key, e->key_len) == 0;
}

sft_status sft__checkpoint_dedupe_describe(sft_dedupe *d, sft_job_file *file,
                                           const sft_catalog *rank,
                                           const sft__checkpoint_dedupe_metadata *change,
                                           sft_error *err) {
    static const char key[] = "remove_redundancy";
    const size_t count = sft_catalog_metadata_count(rank, 0);
    sft_metadata_entry *const list =
        sft__base_arena_alloc(&d->arena, (count + 1) * sizeof *list, sizeof(void *));
    size_t kept = 0;
    bool put = change->put;
    SFT_NEED(list != NULL, (count + 1) * sizeof *list, err);
    for (size_t i = 0; i < count; i++) {
        sft_metadata_entry *const e = &list[kept];
        SFT_TRY(
            sft_catalog_metadata_at(rank, 0, i, &e->key, &e->key_len, &e->value, &e->value_len));
        if (is_key(e, key)) {
            e->value = change->redundancy;
            e->value_len = strlen(change->redundancy);
            put = false;
        }
        kept +=
            !is_key(e, change->drop) && (change->drop == NULL || !sft__checkpoint_job_is_digest(e));
    }
    if (put) {
        const sft_metadata_entry added = {key, sizeof key - 1, change->redundancy,
                                          strlen(change->redundancy)};
        list[kept++] = added;
    }
    file->metadata = kept > 0 || sft_catalog_file_at(rank, 0)->has_metadata != 0 ? list : NULL;
    file->metadata_count = kept;
    return SFT_OK;
}

/* A tensor in its file's order of bytes. */
typedef struct lying {
    uint64_t offset;
    uint32_t tensor;
} lying;

static int by_offset(const void *a, const void *b) {
    const lying *const x = a;
    const lying *const y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static void by_place(const sft_catalog *c, lying *list) {
    const size_t count = sft_catalog_count(c);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        list[i].offset = t->piece_count != 0 ? t->pieces[0].offset : 0;
        list[i].tensor = (uint32_t)i;
    }
    for (size_t i = count; i-- > 1;) { /* empty ones may have no piece: where the next one lies */
        const sft_tensor *const t = sft_catalog_at(c, i - 1);
        list[i - 1].offset = t->piece_count != 0 ? list[i - 1].offset : list[i].offset;
    }
    if (count > 1) {
        qsort(list, count, sizeof *list, by_offset);
    }
}

static void put_key(sft__base_buf *b, const char *key) {
    sft__base_json_string(b, key, strlen(key));
    sft__base_buf_text(b, ": ");
}

/* What the rank's file was. same: its tensors are those of the file before it. */
static void record_file(sft_dedupe *d, size_t part, const char *name, const lying *list,
                        bool same) {
    const sft_catalog *const c = d->checkpoint->parts[part].catalog;
    const size_t entries = sft_catalog_metadata_count(c, 0);
    sft__base_buf *const b = &d->record;
    sft__base_buf_text(b, part == 0 ? "\n  {" : ",\n  {");
    put_key(b, "rank");
    sft__base_buf_u64(b, d->checkpoint->parts[part].rank);
    sft__base_buf_text(b, ", ");
    put_key(b, "file");
    sft__base_json_string(b, name, strlen(name));
    if (sft_catalog_file_at(c, 0)->has_metadata != 0) {
        sft__base_buf_text(b, ", \"metadata\": {");
        for (size_t i = 0; i < entries; i++) {
            sft_metadata_entry e;
            (void)sft_catalog_metadata_at(c, 0, i, &e.key, &e.key_len, &e.value,
                                          &e.value_len); /* it is there */
            sft__base_buf_text(b, i == 0 ? "" : ", ");
            sft__base_json_string(b, e.key, e.key_len);
            sft__base_buf_text(b, ": ");
            sft__base_json_string(b, e.value, e.value_len);
        }
        sft__base_buf_text(b, "}");
    }
    if (!same) {
        sft__base_buf_text(b, ", \"tensors\": [");
        for (size_t i = 0; i < sft_catalog_count(c); i++) {
            sft__base_buf_text(b, i == 0 ? "" : ",");
            sft__base_buf_u64(b, d->ids[d->base[part] + list[i].tensor]);
        }
        sft__base_buf_text(b, "]");
    }
    sft__base_buf_text(b, "}");
}

static bool is_same(const sft_dedupe *d, size_t part, const lying *list, const lying *before) {
    const size_t count = d->base[part + 1] - d->base[part];
    if (part == 0 || count != d->base[part] - d->base[part - 1]) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (d->ids[d->base[part] + list[i].tensor] !=
            d->ids[d->base[part - 1] + before[i].tensor]) {
            return false;
        }
    }
    return true;
}

/* kept: a byte for each tensor of every rank. */
static sft_status make_file(sft_dedupe *d, size_t part, const lying *list, const uint8_t *kept,
                            sft_error *err) {
    const sft_catalog *const c = d->checkpoint->parts[part].catalog;
    const size_t count = sft_catalog_count(c);
    uint32_t *const tensors =
        sft__base_arena_alloc(&d->arena, (count + 1) * sizeof *tensors, sizeof *tensors);
    sft_job_file *f;
    SFT_TRY(sft__checkpoint_dedupe_add_file(d, &f, err));
    f->name = sft__checkpoint_dedupe_name(d, c);
    SFT_NEED(tensors != NULL && f->name != NULL, (count + 1) * sizeof *tensors, err);
    for (size_t i = 0; i < count; i++) {
        if (kept[d->base[part] + list[i].tensor]) {
            tensors[f->tensor_count++] = list[i].tensor;
        }
    }
    if (!sft__checkpoint_ends(sft_catalog_file_at(c, 0)->path,
                              strlen(sft_catalog_file_at(c, 0)->path), ".safetensors")) {
        d->order = SFT_ORDER_REFERENCE; /* there is no order of such a file to be kept */
    }
    f->catalog = c;
    f->tensors = tensors;
    const sft__checkpoint_dedupe_metadata change = {f->tensor_count < count ? "crc_num" : NULL,
                                                    "True", true};
    return sft__checkpoint_dedupe_describe(d, f, c, &change, err);
}

static void begin_record(sft_dedupe *d, sft_dedupe_rule rule) {
    sft__base_buf *const b = &d->record;
    sft__base_buf_text(b,
                       "{\n \"format\": \"safetensors-dedupe\",\n \"version\": 1,\n \"rule\": \"");
    sft__base_buf_text(b, rule == SFT_DEDUPE_BALANCED ? "balanced" : "mindspore");
    sft__base_buf_text(b, "\",\n \"names\": [");
    for (size_t i = 0; i < d->name_count; i++) {
        sft__base_buf_text(b, i == 0 ? "\n  " : ",\n  ");
        sft__base_json_string(b, d->names[i], d->name_lens[i]);
    }
    sft__base_buf_text(b, "],\n \"files\": [");
}

static sft_status make_files(sft_dedupe *d, const uint8_t *kept, sft_error *err) {
    const size_t ranks = d->checkpoint->count;
    size_t most = 0;
    sft_status status = SFT_OK;
    for (size_t i = 0; i < ranks; i++) {
        const size_t n = d->base[i + 1] - d->base[i];
        most = n > most ? n : most;
    }
    lying *lists[2] = {sft__base_alloc_array(d->allocator, most + 1, sizeof(lying)),
                       sft__base_alloc_array(d->allocator, most + 1, sizeof(lying))};
    if (lists[0] == NULL || lists[1] == NULL) {
        status = sft__base_fail_nomem(err, most * sizeof(lying));
    }
    for (size_t i = 0; i < ranks && status == SFT_OK; i++) {
        lying *const list = lists[i % 2];
        by_place(d->checkpoint->parts[i].catalog, list);
        status = make_file(d, i, list, kept, err);
        if (status == SFT_OK) {
            record_file(d, i, d->files[i].name, list, is_same(d, i, list, lists[(i + 1) % 2]));
        }
    }
    for (size_t i = 0; i < 2; i++) {
        sft__base_free(d->allocator, lists[i], (most + 1) * sizeof(lying));
    }
    return status;
}

/* The record comes before layout.json, which makes the directory one that opens by itself. */
static sft_status end_record(sft_dedupe *d, sft_error *err) {
    sft__base_buf_text(&d->record, "\n ],\n \"order\": ");
    sft__base_buf_text(&d->record,
                       d->order == SFT_ORDER_DECLARED ? "\"declared\"\n}\n" : "\"reference\"\n}\n");
    SFT_NEED(!d->record.failed, d->record.len, err);
    d->texts[d->text_count] = d->texts[0];
    d->texts[0].name = SFT__DEDUPE_RECORD;
    d->texts[0].data = d->record.data;
    d->texts[0].size = d->record.len;
    d->text_count++;
    return SFT_OK;
}

static sft_status write_files(sft_dedupe *d, sft_dedupe_rule rule, sft_error *err) {
    uint8_t *const kept = sft__base_alloc_zero(d->allocator, d->total + 1);
    SFT_NEED(kept != NULL, d->total + 1, err);
    for (size_t i = 0; i < d->shard_count; i++) {
        const sft__checkpoint_shard *const s = &d->shards[i];
        for (size_t k = 0; k < s->count; k++) {
            const sft__checkpoint_copy *const c = &d->copies[s->first + k];
            const bool stays = s->keeper == SFT__KEEP_ALL || s->keeper == k;
            kept[d->base[c->part] + c->tensor] = stays;
            d->changed_tensors += !stays;
            d->changed_bytes += stays ? 0 : s->bytes;
        }
    }
    begin_record(d, rule);
    const sft_status status = make_files(d, kept, err);
    sft__base_free(d->allocator, kept, d->total + 1);
    return status == SFT_OK ? end_record(d, err) : status;
}

/* ---------------------------------------------------------------- all of it */

static sft_status make(sft_dedupe *d, sft_error *err) {
    const sft_dedupe_rule rule = d->options.rule;
    sft_catalog *global;
    if (rule != SFT_DEDUPE_MINDSPORE && rule != SFT_DEDUPE_BALANCED) {
        return sft__base_fail(err, SFT_E_ARG, "no rule %d", (int)rule);
    }
    /* Nothing may be missing already. */
    SFT_TRY(sft_checkpoint_join_ranks(&global, d->checkpoint, d->options.open, err));
    sft_catalog_close(global);
    SFT_TRY(find_shards(d, err));
    SFT_TRY(rule == SFT_DEDUPE_BALANCED ? sft__checkpoint_dedupe_balance(d, err)
                                        : sft__checkpoint_dedupe_round_robin(d, err));
    return write_files(d, rule, err);
}

sft_status sft_dedupe_create(sft_dedupe **out, const sft_checkpoint *checkpoint,
                             const sft_dedupe_options *options, sft_error *err) {
    sft_dedupe *d;
    sft_status status = sft__checkpoint_dedupe_begin(&d, checkpoint, options, err);
    if (status == SFT_OK) {
        status = make(d, err);
    }
    *out = status == SFT_OK ? d : NULL;
    if (status != SFT_OK) {
        sft_dedupe_free(d);
    }
    return status;
}
