/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job.c - jobs: taken apart, told about, freed. Read <sft/job.h> and job.h first.
 */
#include "checkpoint/job/job.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "base/text/strmap.h"
#include "checkpoint/open/assembly.h"

/* ---------------------------------------------------------------- names */

/* Relative, no empty, hidden or parent component, nothing that Windows takes for a device path. */
static bool is_harmless(const char *name) {
    bool begins = true;
    if (*name == '\0') {
        return false;
    }
    for (const char *p = name; *p != '\0'; p++) {
        if ((begins && (*p == '.' || *p == '/')) || *p == '\\' || *p == ':' || (uint8_t)*p < 0x20) {
            return false;
        }
        begins = *p == '/';
    }
    return !begins;
}

static sft_status keep_name(sft_job *job, const char *name, const char **kept, sft_error *err) {
    if (name == NULL || !is_harmless(name)) {
        return sft__base_fail(err, SFT_E_PATH,
                              "an output called \"%.200s\": a relative name is needed, without "
                              "hidden or parent directories",
                              name != NULL ? name : "");
    }
    *kept = sft__base_arena_copy(&job->arena, name, strlen(name));
    return *kept != NULL ? SFT_OK : sft__base_fail_nomem(err, strlen(name) + 1);
}

typedef struct named {
    const char *name;
    size_t len;
} named;

static sft_status check_names(const sft_job *job, sft_error *err) {
    const size_t count = job->count + job->text_count;
    named *const names = sft__base_alloc_array(job->allocator, count + 1, sizeof *names);
    sft__base_strmap map;
    size_t twice = 0;
    sft_status status = SFT_OK;
    if (names == NULL ||
        !sft__base_strmap_init(&map, names, sizeof *names, count, job->allocator)) {
        sft__base_free(job->allocator, names, (count + 1) * sizeof *names);
        return sft__base_fail_nomem(err, (count + 1) * sizeof *names);
    }
    for (size_t i = 0; i < count; i++) {
        const char *const name = sft__checkpoint_job_name(job, i);
        names[i] = (named){name, strlen(name)};
    }
    if (sft__base_strmap_add_all(&map, count, &twice) != SFT__STRMAP_NONE) {
        status = sft__base_fail(err, SFT_E_DUPLICATE, "two outputs are called \"%.200s\"",
                                names[twice].name);
    }
    sft__base_strmap_reset(&map);
    sft__base_free(job->allocator, names, (count + 1) * sizeof *names);
    return status;
}

/* ---------------------------------------------------------------- metadata */

static sft_status keep_entry(sft_job *job, const sft_metadata_entry *from, sft_metadata_entry *to,
                             sft_error *err) {
    to->key = sft__base_arena_copy(&job->arena, from->key, from->key_len);
    to->key_len = from->key_len;
    to->value = sft__base_arena_copy(&job->arena, from->value, from->value_len);
    to->value_len = from->value_len;
    return to->key != NULL && to->value != NULL
               ? SFT_OK
               : sft__base_fail_nomem(err, from->key_len + from->value_len);
}

/* Has no file before this one the key, and none behind it with another value? */
static bool agreed(const sft_catalog *c, size_t file, const sft_metadata_entry *e) {
    for (size_t i = 0; i < sft_catalog_file_count(c); i++) {
        size_t len;
        const char *const value = sft_catalog_metadata_find(c, i, e->key, e->key_len, &len);
        if (value != NULL && i != file &&
            (i < file || len != e->value_len || memcmp(value, e->value, len) != 0)) {
            return false;
        }
    }
    return true;
}

/* A tree names the tensors of its file: of several files it is true only if all have it. */
static bool is_partial_tree(const sft_catalog *c, const sft_metadata_entry *e) {
    bool partial = false;

    for (size_t i = 0; i < sft_catalog_file_count(c); i++) {
        partial = partial || sft_catalog_metadata_find(c, i, e->key, e->key_len, NULL) == NULL;
    }
    return partial && e->key_len == 8 && memcmp(e->key, "sft.tree", 8) == 0;
}

static sft_status keep_catalog_metadata(sft_job *job, sft__checkpoint_job_file *f,
                                        const sft_job_file *given, sft_error *err) {
    const sft_catalog *const c = f->given.catalog;
    sft_metadata_entry *kept = NULL;
    size_t room = 0;
    size_t count = 0;
    bool any = false;
    /* the tensors of one file, all of them */
    const bool same = sft_catalog_file_count(c) == 1 && f->count == sft_catalog_count(c);
    sft_status status = SFT_OK;
    sft__base_strmap said; /* what is given replaces what the files say */
    SFT_NEED(sft__base_strmap_init(&said, given->metadata, sizeof *given->metadata,
                                   given->metadata_count + 1, job->allocator),
             given->metadata_count * sizeof(uint64_t), err);
    for (size_t i = 0; i < given->metadata_count; i++) {
        (void)sft__base_strmap_add(&said, i);
    }
    for (size_t i = 0; i < sft_catalog_file_count(c) && status == SFT_OK; i++) {
        any = any || sft_catalog_file_at(c, i)->has_metadata != 0;
        for (size_t k = 0; k < sft_catalog_metadata_count(c, i) && status == SFT_OK; k++) {
            sft_metadata_entry e;
            (void)sft_catalog_metadata_at(c, i, k, &e.key, &e.key_len, &e.value, &e.value_len);
            if (!agreed(c, i, &e) || sft__checkpoint_job_is_digest(&e) || is_partial_tree(c, &e) ||
                (!same && sft__checkpoint_is_crc_num(e.key, e.key_len)) ||
                sft__base_strmap_find(&said, e.key, e.key_len) != SFT__STRMAP_NONE) {
                continue;
            }
            if (!sft__base_grow(job->allocator, &kept, &room, count + 1, sizeof *kept)) {
                status = sft__base_fail_nomem(err, (count + 1) * sizeof *kept);
                break;
            }
            status = keep_entry(job, &e, &kept[count++], err);
        }
    }
    sft__base_strmap_reset(&said);
    sft_metadata_entry *const all = sft__base_arena_alloc(
        &job->arena, (count + given->metadata_count + 1) * sizeof *all, sizeof(void *));
    if (status == SFT_OK && all == NULL) {
        status = sft__base_fail_nomem(err, (count + 1) * sizeof *all);
    } else if (status == SFT_OK && count > 0) {
        memcpy(all, kept, count * sizeof *all);
    }
    sft__base_free(job->allocator, kept, room * sizeof *kept);
    for (size_t i = 0; i < given->metadata_count && status == SFT_OK; i++) {
        status = keep_entry(job, &given->metadata[i], &all[count++], err);
    }
    f->given.metadata = any || count > 0 ? all : NULL;
    f->given.metadata_count = count;
    return status;
}

static sft_status keep_metadata(sft_job *job, sft__checkpoint_job_file *f,
                                const sft_job_file *given, sft_error *err) {
    if ((given->flags & SFT_JOB_FILE_METADATA) != 0) {
        return keep_catalog_metadata(job, f, given, err);
    }
    if (given->metadata == NULL) {
        return given->metadata_count == 0
                   ? SFT_OK
                   : sft__base_fail(err, SFT_E_ARG, "a count without an array");
    }
    sft_metadata_entry *const all = sft__base_arena_alloc(
        &job->arena, (given->metadata_count + 1) * sizeof *all, sizeof(void *));
    SFT_NEED(all != NULL, (given->metadata_count + 1) * sizeof *all, err);
    for (size_t i = 0; i < given->metadata_count; i++) {
        SFT_TRY(keep_entry(job, &given->metadata[i], &all[i], err));
    }
    f->given.metadata = all;
    return SFT_OK;
}

/* ---------------------------------------------------------------- sources */

enum { MOST_DESCRIPTORS = 1 << 24 };

static bool same_source(const sft_source *a, const sft_source *b) {
    const int fd = sft_source_descriptor(a);
    const void *x = NULL;
    const void *y = NULL;
    if (a == b || (fd >= 0 && fd == sft_source_descriptor(b))) {
        return true;
    }
    if (fd >= 0 || sft_source_size(a) != sft_source_size(b) || sft_source_size(a) == 0 ||
        (sft_source_flags(a) & SFT_SOURCE_MEMORY) == 0 ||
        (sft_source_flags(b) & SFT_SOURCE_MEMORY) == 0) {
        return false;
    }
    return sft_source_borrow(a, 0, 1, &x, NULL) == SFT_OK &&
           sft_source_borrow(b, 0, 1, &y, NULL) == SFT_OK && x == y;
}

static sft_status look_at(const sft_source *source, sft__checkpoint_job_source *s, sft_error *err) {
    const int fd = sft_source_descriptor(source);
    const char *const name = sft_source_name(source);
    sft__fs_stat fact;
    s->source = source;
    s->size = sft_source_size(source);
    s->mtime_ns = 0;
    s->timed = false;
    s->number = sft_source_version(source);
    if (fd >= 0) {
        SFT_TRY(sft__fs_stat_fd(fd, name, &fact, err));
    } else if ((sft_source_flags(source) & (SFT_SOURCE_MEMORY | SFT_SOURCE_REMOTE)) != 0 ||
               sft__fs_look(name, &fact, NULL) != SFT_OK) {
        return SFT_OK;
    }
    if (fact.regular && fact.size == s->size) {
        s->mtime_ns = fact.mtime_ns;
        s->device = fact.device;
        s->number = fact.inode;
        s->timed = true;
    }
    return SFT_OK;
}

/* The number of a source that is known; of one without a descriptor by looking at all. Catalogs
 * that are parts of one whole lend the same sources in about the same order: the guess is mostly
 * right. */
static bool is_known(const sft_job *job, const sft_source *source, uint32_t *index) {
    const int fd = sft_source_descriptor(source);
    if (fd >= 0 && fd < MOST_DESCRIPTORS) {
        const bool known = (size_t)fd < job->descriptor_room && job->by_descriptor[fd] != 0;
        *index = known ? job->by_descriptor[fd] - 1 : *index;
        return known;
    }
    for (size_t i = 0; i < job->source_count; i++) {
        const size_t guess = (*index + i) % job->source_count;
        if (same_source(job->sources[guess].source, source)) {
            *index = (uint32_t)guess;
            return true;
        }
    }
    return false;
}

static sft_status note_descriptor(sft_job *job, const sft_source *source, uint32_t number,
                                  sft_error *err) {
    const int fd = sft_source_descriptor(source);
    const size_t before = job->descriptor_room;
    if (fd < 0 || fd >= MOST_DESCRIPTORS) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->by_descriptor, &job->descriptor_room,
                                 (size_t)fd + 1, sizeof *job->by_descriptor, err));
    memset(job->by_descriptor + before, 0,
           (job->descriptor_room - before) * sizeof *job->by_descriptor);
    job->by_descriptor[fd] = number + 1;
    return SFT_OK;
}

sft_status sft__checkpoint_job_add_source(sft_job *job, const sft_source *source, uint32_t *index,
                                          sft_error *err) {
    if (is_known(job, source, index)) {
        return SFT_OK;
    }
    const size_t count = job->source_count + 1;
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->sources, &job->source_room, count,
                                 sizeof *job->sources, err));
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->stamps, &job->stamp_room, count,
                                 sizeof *job->stamps, err));
    SFT_TRY(look_at(source, &job->sources[job->source_count], err));
    job->stamps[job->source_count] = 0;
    *index = (uint32_t)job->source_count++;
    return note_descriptor(job, source, *index, err);
}

static sft_status take_sources(sft_job *job, size_t file, sft_error *err) {
    sft__checkpoint_job_file *const f = &job->files[file];
    const size_t count = sft_catalog_source_count(f->given.catalog);
    if (file > 0 && job->files[file - 1].given.catalog == f->given.catalog) {
        f->source_table = job->files[file - 1].source_table;
        return SFT_OK;
    }
    f->source_table = job->source_index_count;
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->source_index, &job->source_index_room,
                                 job->source_index_count + count, sizeof *job->source_index, err));
    uint32_t index = 0;
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(sft__checkpoint_job_add_source(job, sft_catalog_source_at(f->given.catalog, i),
                                               &index, err));
        job->source_index[job->source_index_count++] = index++;
    }
    return SFT_OK;
}

static void count_sources(sft_job *job, size_t file) {
    sft__checkpoint_job_file *const f = &job->files[file];
    for (size_t i = 0; i < f->count; i++) {
        const sft_tensor *const t = sft__checkpoint_job_tensor(f, i);
        for (uint32_t p = 0; p < t->piece_count; p++) {
            const uint32_t source = job->source_index[f->source_table + t->pieces[p].source];
            f->source_count += job->stamps[source] != (uint32_t)file + 1;
            job->stamps[source] = (uint32_t)file + 1;
        }
    }
}

/* ---------------------------------------------------------------- making one */

static sft_status take_file(sft_job *job, size_t i, const sft_job_file *given, sft_error *err) {
    sft__checkpoint_job_file *const f = &job->files[i];
    sft__base_buf header;
    f->given = *given;
    f->count = given->tensors != NULL ? given->tensor_count : sft_catalog_count(given->catalog);
    for (size_t k = 0; given->tensors != NULL && k < f->count; k++) {
        if (given->tensors[k] >= sft_catalog_count(given->catalog)) {
            return sft__base_fail(err, SFT_E_RANGE, "tensor %llu of a catalog that has fewer",
                                  (unsigned long long)given->tensors[k]);
        }
    }
    SFT_TRY(keep_name(job, given->name, &f->given.name, err));
    SFT_TRY(keep_metadata(job, f, given, err));
    SFT_TRY(sft__checkpoint_job_places(job, f, err));
    if (given->tensors != NULL) {
        uint32_t *const kept =
            sft__base_arena_alloc(&job->arena, (f->count + 1) * sizeof *kept, sizeof *kept);
        SFT_NEED(kept != NULL, (f->count + 1) * sizeof *kept, err);
        memcpy(kept, given->tensors, f->count * sizeof *kept);
        f->given.tensors = kept;
    }
    SFT_TRY(take_sources(job, i, err));
    count_sources(job, i);
    f->offsets = sft__base_alloc_array(job->allocator, f->count + 1, sizeof *f->offsets);
    SFT_NEED(f->offsets != NULL, (f->count + 1) * sizeof *f->offsets, err);
    sft__base_buf_init(&header, job->allocator);
    sft_status status = sft__checkpoint_job_header(job, f, &header, f->offsets, err);
    f->header = header.len;
    f->size = header.len;
    for (size_t k = 0; k < f->count; k++) {
        f->size +=
            sft__checkpoint_job_tensor(f, k)->nbytes; /* cannot overflow: the header was laid out */
    }
    sft__base_buf_reset(&header);
    f->first_run = job->run_count;
    if (status == SFT_OK) {
        status = sft__checkpoint_job_take_file(job, (uint32_t)i, err);
    }
    f->run_count = job->run_count - f->first_run;
    return status;
}

static sft_status take_text(sft_job *job, const sft_job_text *given, sft_job_text *text,
                            sft_error *err) {
    SFT_TRY(keep_name(job, given->name, &text->name, err));
    text->data = sft__base_arena_copy(&job->arena, given->data, given->size);
    text->size = given->size;
    return text->data != NULL ? SFT_OK : sft__base_fail_nomem(err, given->size);
}

static sft_status make(sft_job *job, const sft_job_file *files, const sft_job_text *texts,
                       sft_error *err) {
    for (size_t i = 0; i < job->count; i++) {
        SFT_TRY(take_file(job, i, &files[i], err));
    }
    for (size_t i = 0; i < job->text_count; i++) {
        SFT_TRY(take_text(job, &texts[i], &job->texts[i], err));
    }
    SFT_TRY(check_names(job, err));
    SFT_TRY(sft__checkpoint_job_gather(job, err));
    for (size_t i = 0; i < job->count;
         i++) { /* only sft__checkpoint_job_gather still asks for them */
        sft__base_free(job->allocator, job->files[i].offsets,
                       (job->files[i].count + 1) * sizeof(uint64_t));
        job->files[i].offsets = NULL;
    }
    return sft__checkpoint_job_divide(job, err);
}

sft_status sft_job_create(sft_job **out, const sft_job_file *files, size_t count,
                          const sft_job_text *texts, size_t text_count,
                          const sft_job_options *options, sft_error *err) {
    sft_job_options o;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_job_options, allocator),
                                   "options", err));
    const sft_allocator *const a = sft__base_allocator(o.allocator);
    if ((files == NULL && count > 0) || (texts == NULL && text_count > 0) || count >= UINT32_MAX) {
        return sft__base_fail(err, SFT_E_ARG, "a count without an array");
    }
    if ((o.digests & ~(SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256)) != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "digests %#lx: only SFT_DIGEST_CRC32C and SFT_DIGEST_SHA256 exist",
                              (unsigned long)o.digests);
    }
    sft_job *const job = sft__base_alloc_zero(a, sizeof *job);
    SFT_NEED(job != NULL, sizeof *job, err);
    job->allocator = a;
    sft__base_arena_init(&job->arena, a, 0);
    job->order = options != NULL ? o.order : SFT_ORDER_REFERENCE;
    job->data_alignment = o.data_alignment;
    job->digests = o.digests;
    if (o.limits != NULL) {
        const size_t given = o.limits->struct_size;
        memcpy(&job->limits_given, o.limits,
               given < sizeof job->limits_given ? given : sizeof job->limits_given);
        job->limits = &job->limits_given;
    }
    job->files = sft__base_alloc_zero(a, (count + 1) * sizeof *job->files);
    job->texts = sft__base_alloc_zero(a, (text_count + 1) * sizeof *job->texts);
    job->count = job->files != NULL ? count : 0;
    job->text_count = job->texts != NULL ? text_count : 0;
    sft_status status = job->files == NULL || job->texts == NULL
                            ? sft__base_fail_nomem(err, (count + 1) * sizeof *job->files)
                            : make(job, files, texts, err);
    if (status != SFT_OK) {
        sft_job_free(job);
        return status;
    }
    *out = job;
    return SFT_OK;
}

void sft_job_free(sft_job *job) {
    if (job == NULL) {
        return;
    }
    const sft_allocator *const a = job->allocator;
    for (size_t i = 0; i < job->count; i++) {
        sft__base_free(a, job->files[i].offsets, (job->files[i].count + 1) * sizeof(uint64_t));
    }
    if (job->files != NULL) {
        sft__base_free(a, job->files, (job->count + 1) * sizeof *job->files);
    }
    if (job->texts != NULL) {
        sft__base_free(a, job->texts, (job->text_count + 1) * sizeof *job->texts);
    }
    sft__base_free(a, job->sources, job->source_room * sizeof *job->sources);
    sft__base_free(a, job->by_descriptor, job->descriptor_room * sizeof *job->by_descriptor);
    sft__base_free(a, job->stamps, job->stamp_room * sizeof *job->stamps);
    sft__base_free(a, job->source_index, job->source_index_room * sizeof *job->source_index);
    sft__base_free(a, job->runs, job->run_room * sizeof *job->runs);
    sft__base_free(a, job->moves, job->move_room * sizeof *job->moves);
    sft__base_free(a, job->nodes, job->node_room * sizeof *job->nodes);
    sft__base_free(a, job->clusters, job->cluster_room * sizeof *job->clusters);
    sft__base_free(a, job->wholes, job->whole_room * sizeof *job->wholes);
    sft__base_free(a, job->units, job->unit_room * sizeof *job->units);
    sft__base_arena_free(&job->arena);
    sft__base_free(a, job, sizeof *job);
}

/* ---------------------------------------------------------------- telling */

sft_status sft_job_plan(const sft_job *job, sft_job_visit visit, void *ctx, sft_error *err) {
    for (size_t i = 0; i < job->count + job->text_count; i++) {
        sft_job_cost cost;
        sft_zero(&cost, sizeof cost);
        if (i < job->count) {
            const sft__checkpoint_job_file *const f = &job->files[i];
            cost.name = f->given.name;
            cost.bytes = f->size;
            cost.header_bytes = f->header;
            cost.tensors = f->count;
            cost.runs = f->pieces;
            cost.sources = f->source_count;
            cost.bytes_read = f->read;
            cost.cost = cost.bytes + cost.bytes_read + 4096 * cost.runs;
        } else {
            cost.name = job->texts[i - job->count].name;
            cost.bytes = job->texts[i - job->count].size;
            cost.header_bytes = cost.bytes;
            cost.cost = cost.bytes;
        }
        SFT_TRY(visit(ctx, &cost, err));
    }
    return SFT_OK;
}

void sft_job_total(const sft_job *job, sft_job_cost *cost) {
    *cost = job->total;
}

void sft_job_key(const sft_job *job, uint8_t key[32]) {
    memcpy(key, job->key, sizeof job->key);
}
