/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/fetch.c - downloads. Every file to be written is a list of spans, each a stretch of a
 * source; what its staging lacks of them becomes gets; when all files are whole, right and on disk
 * they are published, the index last. Read first: room.h, staging.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "base/text/utf8.h"
#include "remote/disk/staging.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <string.h>

enum { LOCAL_STEP = 4 << 20 };

typedef struct span {
    const sft_source *source;
    sft__remote_object *object; /* NULL: read from the source, which is local */
    uint64_t from;
    uint64_t to; /* in the file that is written */
    uint64_t size;
} span;

typedef struct outcome { /* one file to be written */
    const char *name;
    uint64_t size;
    span *spans;
    size_t span_count;
    size_t span_room;
    bool has_sha;
    uint8_t sha[32];
    uint8_t *own; /* bytes [0, own_size) are made here: a header */
    size_t own_size;
    bool kept;
    sft__remote_range *ranges; /* that are missing, where the server has no ranges */
    size_t range_room;
    sft__remote_staging staging;
} outcome;

typedef struct work {
    sft_remote *remote;
    const sft_allocator *a;
    const sft_fetch_options *options;
    sft_fetch_result *result;
    const char *directory;
    outcome *files; /* the index, if there is one, is the last */
    size_t count;
    bool indexed;
    uint64_t done;
    uint64_t total;
    sft_control control;
} work;

typedef struct sink {
    work *w;
    outcome *file;
    uint64_t shift; /* from source to file; wraps around */
} sink;

/* ---------------------------------------------------------------- spans */

static sft_status add_span(const work *w, outcome *f, const span *s, sft_error *err) {
    span *last = f->span_count > 0 ? &f->spans[f->span_count - 1] : NULL;

    if (last != NULL && last->source == s->source && last->from + last->size == s->from &&
        last->to + last->size == s->to) {
        last->size += s->size;
        return SFT_OK;
    }
    SFT_NEED(sft__base_grow(w->a, &f->spans, &f->span_room, f->span_count + 1, sizeof *f->spans),
             (f->span_count + 1) * sizeof *f->spans, err);
    f->spans[f->span_count++] = *s;
    return SFT_OK;
}

/* What a journal must be about to be taken up: where from, which version, which bytes. */
static void identity(const outcome *f, uint8_t digest[32]) {
    sft_sha256 sha;

    sft_sha256_init(&sha);
    sft_sha256_update(&sha, f->own, f->own_size);
    for (size_t i = 0; i < f->span_count; i++) {
        const span *s = &f->spans[i];
        const uint64_t numbers[3] = {s->from, s->to, s->size};
        const sft__remote_object *o = s->object;
        const char *name = sft_source_name(s->source);
        const uint64_t size = sft_source_size(s->source);
        sft_sha256_update(&sha, name, strlen(name) + 1);
        sft_sha256_update(&sha, &size, sizeof size);
        if (o != NULL) {
            sft_sha256_update(&sha, o->etag, strlen(o->etag) + 1);
            sft_sha256_update(&sha, o->modified, strlen(o->modified) + 1);
        }
        if (o != NULL && o->etag[0] == '\0' && o->modified[0] == '\0' && !f->has_sha) {
            /* no version: what an earlier call has may be of another one */
            sft_sha256_update(&sha, o->remote->secret, sizeof o->remote->secret);
        }
        sft_sha256_update(&sha, numbers, sizeof numbers);
    }
    sft_sha256_final(&sha, digest);
}

/* ---------------------------------------------------------------- what is to be written */

static sft_status whole_file(const work *w, outcome *f, const char *name, sft_source *source,
                             sft__remote_object *object, sft_error *err) {
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return sft__base_fail(err, SFT_E_PATH, "the URL does not end in a name for the file");
    }
    f->name = name;
    f->size = sft_source_size(source);
    const span s = {source, object, 0, 0, f->size};
    if (object != NULL) {
        f->has_sha = sft__remote_etag_sha256(object->linked_etag, f->sha);
    }
    return f->size > 0 ? add_span(w, f, &s, err) : SFT_OK;
}

/* What a server's index names becomes files here: weights, in plain sight, and nothing by which
 * other programs, or later calls, are led. */
static sft_status check_written(const char *name, sft_error *err) {
    static const char end[] = ".safetensors";
    const size_t len = strlen(name);
    bool good = len >= sizeof end && strcmp(name + len - (sizeof end - 1), end) == 0;
    uint32_t c = 0;

    for (size_t i = 0; i < len && good;) {
        const size_t n = sft__base_utf8_decode(name + i, len - i, &c);
        const bool first = i == 0 || name[i - 1] == '/';
        good =
            n > 0 && !sft__base_utf8_deceptive(c) && !(first && (c == '.' || c == '-' || c == '~'));
        i += n;
    }
    return good ? SFT_OK
                : sft__base_fail(err, SFT_E_PATH,
                                 "the index names \"%.200s\": only files that end in .safetensors, "
                                 "and are neither hidden nor named deceptively, are fetched",
                                 name);
}

static sft_status whole_model(work *w, const sft__remote_opened *o, sft_error *err) {
    const size_t count = o->count + (o->index != NULL ? 1 : 0);
    const char *name;
    size_t len;

    w->files = sft__base_alloc_zero(w->a, count * sizeof *w->files);
    SFT_NEED(w->files != NULL, count * sizeof *w->files, err);
    w->count = count;
    for (size_t i = 0; i < o->count; i++) {
        SFT_TRY(o->index != NULL ? check_written(o->files[i].name, err) : SFT_OK);
        SFT_TRY(whole_file(w, &w->files[i], o->files[i].name, o->files[i].source,
                           o->files[i].object, err));
    }
    if (o->index != NULL) {
        sft__remote_url_base(o->place.url.data, &name, &len);
        /* the arena is the opened one's; it lives as long as this */
        name = sft__base_arena_copy((sft__base_arena *)(uintptr_t)&o->names, name, len);
        SFT_NEED(name != NULL, len, err);
        w->indexed = true;
        return whole_file(w, &w->files[o->count], name, o->index, o->index_object, err);
    }
    return SFT_OK;
}

static sft_status add_metadata(sft_writer *writer, const sft_catalog *catalog, sft_error *err) {
    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        const size_t n = sft_catalog_metadata_count(catalog, f);
        for (size_t i = 0; i < n; i++) {
            const char *key;
            const char *value;
            size_t key_len;
            size_t value_len;
            bool before = false;
            (void)sft_catalog_metadata_at(catalog, f, i, &key, &key_len, &value, &value_len);
            for (size_t k = 0; k < f && !before; k++) { /* the first file that has it */
                before = sft_catalog_metadata_find(catalog, k, key, key_len, NULL) != NULL;
            }
            const bool digests = key_len > 4 && memcmp(key, "sft.", 4) == 0; /* of other files */
            if (!before && !digests) {
                SFT_TRY(sft_writer_metadata(writer, key, key_len, value, value_len, err));
            }
        }
    }
    return SFT_OK;
}

static const sft__remote_opened_file *file_of(const sft__remote_opened *o,
                                              const sft_source *source) {
    for (size_t i = 0; i < o->count; i++) {
        if (o->files[i].source == source) {
            return &o->files[i];
        }
    }
    return NULL;
}

/* Declares the wanted tensors and begins the stream, which writes the header; then takes over where
 * each lies. */
static sft_status lay_out(const work *w, const sft__remote_opened *o, sft_writer *writer,
                          outcome *f, sft_error *err) {
    const sft_catalog *catalog = o->catalog;
    const size_t count = sft_catalog_count(catalog);
    uint32_t *of =
        sft__base_alloc_array(w->a, count + 1, sizeof *of); /* per declared: index of the tensor */
    size_t n = 0;
    sft_status status = of != NULL ? SFT_OK : sft__base_fail_nomem(err, count * sizeof *of);

    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        if (w->options->wanted(w->options->wanted_ctx, t) != 0) {
            of[n++] = (uint32_t)i;
            status = sft_writer_declare(writer, t->name, t->name_len, t->dtype, t->shape, t->rank,
                                        NULL, err);
        }
    }
    if (status == SFT_OK && n == 0) {
        status = sft__base_fail(err, SFT_E_NOT_FOUND, "none of the model's %llu tensors is wanted",
                                (unsigned long long)count);
    }
    if (status == SFT_OK) {
        status = sft_writer_start(writer, err);
    }
    f->size = status == SFT_OK ? sft_writer_file_bytes(writer) : 0;
    for (uint32_t at = 0; at < n && status == SFT_OK; at++) {
        const uint32_t index = sft_writer_at(writer, at);
        const sft_tensor *t = sft_catalog_at(catalog, of[index]);
        const sft_source *source = sft_catalog_source_at(catalog, t->pieces[0].source);
        const sft__remote_opened_file *from =
            file_of(o, source); /* every source is one of those opened */
        const span s = {source, from != NULL ? from->object : NULL, t->pieces[0].offset,
                        sft_writer_offset(writer, index), t->nbytes};
        f->own_size = at == 0 ? (size_t)s.to : f->own_size;
        status = t->nbytes > 0 ? add_span(w, f, &s, err) : SFT_OK;
    }
    sft__base_free(w->a, of, (count + 1) * sizeof *of);
    return status;
}

static sft_status selection(work *w, const sft__remote_opened *o, sft_error *err) {
    sft_write_options options;
    sft_writer *writer = NULL;
    sft__fs_handle file;

    w->files = sft__base_alloc_zero(w->a, sizeof *w->files);
    SFT_NEED(w->files != NULL, sizeof *w->files, err);
    w->count = 1;
    outcome *f = &w->files[0];
    f->name = "model.safetensors";
    SFT_INIT(&options);
    options.allocator = w->a;
    SFT_TRY(sft__fs_scratch(&file, err));
    sft_status status = sft_writer_create_stream(&writer, sft__fs_descriptor(file), &options, err);
    if (status == SFT_OK) {
        status = add_metadata(writer, o->catalog, err);
    }
    if (status == SFT_OK) {
        status = lay_out(w, o, writer, f, err);
    }
    sft_writer_free(writer);
    if (status == SFT_OK) {
        f->own = sft__base_alloc(w->a, f->own_size);
        status = f->own == NULL
                     ? sft__base_fail_nomem(err, f->own_size)
                     : sft__fs_read_at(file, "a temporary file", 0, f->own, f->own_size, err);
    }
    sft__fs_close(file);
    return status;
}

/* ---------------------------------------------------------------- carrying it out */

static int poll_progress(void *ctx, const sft_progress *nothing) {
    const work *w = ctx;
    const sft_control *c = w->options->control;
    const sft_progress p = {w->done, w->total};
    (void)nothing;
    return c != NULL && c->poll != NULL ? c->poll(c->ctx, &p) : 0;
}

static sft_status sink_put(void *ctx, uint64_t offset, const uint8_t *data, size_t size,
                           sft_error *err) {
    const sink *s = ctx;
    SFT_TRY(sft__remote_staging_put(&s->file->staging, offset + s->shift, data, size, err));
    s->w->done += size;
    return SFT_OK;
}

typedef struct todo {
    work *w;
    sft__remote_get *gets;
    sink *sinks;
    size_t count;
    size_t room;
    size_t sink_room;
    uint64_t part; /* bytes of a get; 0: as long as it can be */
} todo;

static sft_status copy_local(work *w, outcome *f, const span *s, uint64_t begin, uint64_t end,
                             sft_error *err) {
    uint8_t *buffer = sft__base_alloc(w->a, LOCAL_STEP);
    sft_status status = buffer != NULL ? SFT_OK : sft__base_fail_nomem(err, LOCAL_STEP);

    while (begin < end && status == SFT_OK) {
        const size_t n = end - begin < LOCAL_STEP ? (size_t)(end - begin) : LOCAL_STEP;
        status = sft_source_read(s->source, s->from + (begin - s->to), buffer, n, err);
        if (status == SFT_OK) {
            status = sft__remote_staging_put(&f->staging, begin, buffer, n, err);
        }
        if (status == SFT_OK && poll_progress(w, NULL) != 0) {
            status = sft__base_fail(err, SFT_E_CANCELLED, "cancelled");
        }
        begin += n;
        w->done += n;
    }
    sft__base_free(w->a, buffer, LOCAL_STEP);
    return status;
}

/* Bytes [begin, end) of the file, all from one span. */
static sft_status add_todo(todo *t, outcome *f, const span *s, uint64_t begin, uint64_t end,
                           sft_error *err) {
    work *w = t->w;
    if (s->object == NULL) {
        return copy_local(w, f, s, begin, end, err);
    }
    while (begin < end) {
        const bool rest = t->part == 0 || end - begin < t->part + SFT__STAGE_BLOCK;
        const uint64_t n = rest ? end - begin : t->part;
        SFT_NEED(sft__base_grow(w->a, &t->gets, &t->room, t->count + 1, sizeof *t->gets) &&
                     sft__base_grow(w->a, &t->sinks, &t->sink_room, t->count + 1, sizeof *t->sinks),
                 (t->count + 1) * sizeof *t->gets, err);
        t->sinks[t->count] = (sink){w, f, s->to - s->from};
        t->gets[t->count] = (sft__remote_get){.object = s->object,
                                              .offset = s->from + (begin - s->to),
                                              .size = n,
                                              .bulk = n >= SFT__STAGE_BLOCK,
                                              .share = true,
                                              .put = sink_put};
        t->count++;
        begin += n;
    }
    return SFT_OK;
}

/* The missing blocks [first, end) of a file, cut where spans meet. */
static sft_status add_missing(todo *t, outcome *f, uint64_t first, uint64_t end, sft_error *err) {
    const uint64_t low = first * SFT__STAGE_BLOCK;
    const uint64_t stop = end * SFT__STAGE_BLOCK < f->size ? end * SFT__STAGE_BLOCK : f->size;

    if (low < f->own_size) {
        const uint64_t n = (stop < f->own_size ? stop : f->own_size) - low;
        SFT_TRY(sft__remote_staging_put(&f->staging, low, f->own + (size_t)low, (size_t)n, err));
    }
    for (size_t i = 0; i < f->span_count; i++) {
        const span *s = &f->spans[i];
        const uint64_t a = s->to > low ? s->to : low;
        const uint64_t b = s->to + s->size < stop ? s->to + s->size : stop;
        if (a < b) {
            SFT_TRY(add_todo(t, f, s, a, b, err));
        }
    }
    return SFT_OK;
}

/* The file from a server without ranges: one get from its beginning, of which what is missing is
 * taken. */
static sft_status add_in_one_go(todo *t, outcome *f, sft_error *err) {
    work *w = t->w;
    const span *s = &f->spans[0];
    size_t n = 0;

    for (uint64_t b = 0; b < f->staging.blocks; b++) {
        const uint64_t begin = b * SFT__STAGE_BLOCK;
        const uint64_t left = f->size - begin;
        const uint64_t size = left < SFT__STAGE_BLOCK ? left : SFT__STAGE_BLOCK;
        if (sft__remote_staging_has(&f->staging, b)) {
            continue;
        }
        if (n > 0 && f->ranges[n - 1].offset + f->ranges[n - 1].size == begin) {
            f->ranges[n - 1].size += size;
            continue;
        }
        SFT_NEED(sft__base_grow(w->a, &f->ranges, &f->range_room, n + 1, sizeof *f->ranges),
                 (n + 1) * sizeof *f->ranges, err);
        f->ranges[n++] = (sft__remote_range){begin, size};
    }
    if (n == 0) {
        return SFT_OK;
    }
    const uint64_t first = f->ranges[0].offset;
    SFT_TRY(add_todo(t, f, s, first, first + 1, err)); /* a place for it */
    sft__remote_get *get = &t->gets[t->count - 1];
    get->offset = first;
    get->size = f->ranges[n - 1].offset + f->ranges[n - 1].size - first;
    get->ranges = f->ranges;
    get->range_count = n;
    get->whole = true;
    get->bulk = true;
    get->share = false;
    return SFT_OK;
}

static bool in_one_go(const outcome *f) {
    return !f->kept && f->own_size == 0 && f->span_count == 1 && f->spans[0].object != NULL &&
           f->spans[0].size == f->size && f->spans[0].object->whole_only;
}

static sft_status gather(todo *t, sft_error *err) {
    work *w = t->w;
    const uint32_t connections = w->remote->settings.o.connections;

    /* One part for each connection, for every further request costs it a round trip; who is ready
     * early takes over from the slowest (share). Whole blocks, so that a kill loses less. */
    t->part = (w->total - w->done) / connections / SFT__STAGE_BLOCK * SFT__STAGE_BLOCK;
    t->part = connections == 1 ? 0 : t->part > SFT__STAGE_BLOCK ? t->part : SFT__STAGE_BLOCK;
    for (size_t i = 0; i < w->count; i++) {
        outcome *f = &w->files[i];
        if (in_one_go(f)) {
            SFT_TRY(add_in_one_go(t, f, err));
            continue;
        }
        for (uint64_t b = 0; !f->kept && b < f->staging.blocks;) {
            uint64_t end = b;
            while (end < f->staging.blocks && !sft__remote_staging_has(&f->staging, end)) {
                end++;
            }
            if (end > b) {
                SFT_TRY(add_missing(t, f, b, end, err));
            }
            b = end > b ? end : b + 1;
        }
    }
    for (size_t i = 0; i < t->count; i++) { /* the array has its place now */
        t->gets[i].ctx = &t->sinks[i];
    }
    return SFT_OK;
}

static sft_status bring(work *w, sft_error *err) {
    todo t = {.w = w};

    sft_status status = gather(&t, err);
    if (status == SFT_OK) {
        const sft__remote_gets list = {t.gets, t.count, 0, false, &w->control};
        status = sft__remote_transfer(w->remote, &list, err);
    }
    sft__base_free(w->a, t.gets, t.room * sizeof *t.gets);
    sft__base_free(w->a, t.sinks, t.sink_room * sizeof *t.sinks);
    return status;
}

/* A file of that name is there: kept if it is the same for certain. */
static sft_status look_for(work *w, outcome *f, sft_error *err) {
    uint8_t digest[32];
    uint64_t size;

    const sft_status status = sft__remote_existing(w->directory, f->name, &size, digest, w->a, err);
    if (status == SFT_E_NOT_FOUND) {
        return SFT_OK;
    }
    if (status == SFT_OK && f->has_sha && size == f->size &&
        memcmp(digest, f->sha, sizeof digest) == 0) {
        f->kept = true;
        w->result->kept++;
        return SFT_OK;
    }
    if ((w->options->flags & SFT_FETCH_REPLACE) != 0) {
        return SFT_OK;
    }
    return status != SFT_OK
               ? status
               : sft__base_fail(err, SFT_E_EXISTS, "%.100s/%.150s exists", w->directory, f->name);
}

static sft_status prepare(work *w, sft_error *err) {
    uint8_t digest[32];

    bool all = true;
    for (size_t i = 0; i < w->count; i++) {
        SFT_TRY(look_for(w, &w->files[i], err));
        all = all && w->files[i].kept;
    }
    outcome *last = &w->files[w->count - 1];
    if (w->indexed && last->kept && !all && (w->options->flags & SFT_FETCH_REPLACE) != 0) {
        last->kept = false; /* the files that it names are replaced: so is it, as the last */
        w->result->kept--;
    }
    for (size_t i = 0; i < w->count; i++) {
        outcome *f = &w->files[i];
        if (!f->kept) {
            const sft__remote_staged what = {w->directory, f->name, f->size, digest};
            identity(f, digest);
            SFT_TRY(sft__remote_staging_open(&f->staging, &what, w->a, err));
            w->total += f->size;
            w->done += f->staging.resumed;
            w->result->resumed += f->staging.resumed;
        }
    }
    return SFT_OK;
}

static sft_status prove(work *w, outcome *f, sft_error *err) {
    uint8_t digest[32];

    if (!sft__remote_staging_whole(&f->staging)) {
        return sft__base_fail(err, SFT_E_INTERNAL, "%.200s is not whole", f->name);
    }
    if (f->has_sha) {
        SFT_TRY(sft__remote_staging_sha256(&f->staging, digest, &w->control, err));
        if (memcmp(digest, f->sha, sizeof digest) != 0) {
            sft__remote_staging_drop(&f->staging);
            return sft__base_fail(
                err, SFT_E_MISMATCH,
                "%.200s has not the SHA-256 that the server tells: what came is removed", f->name);
        }
        w->result->verified++;
    }
    return sft__remote_staging_flush(&f->staging, err);
}

static sft_status publish(work *w, sft_error *err) {
    const bool replace = (w->options->flags & SFT_FETCH_REPLACE) != 0;

    for (size_t i = 0; i < w->count; i++) {
        if (!w->files[i].kept) {
            SFT_TRY(prove(w, &w->files[i], err));
        }
    }
    if (w->options->ready != NULL) {
        SFT_TRY(w->options->ready(w->options->ready_ctx, err));
    }
    outcome *index = w->indexed && !w->files[w->count - 1].kept ? &w->files[w->count - 1] : NULL;
    if (index != NULL) {
        SFT_TRY(sft__remote_staging_begin_set(&index->staging, err));
    }
    for (size_t i = 0; i < w->count; i++) {
        if (!w->files[i].kept) {
            SFT_TRY(sft__remote_staging_publish(&w->files[i].staging, replace, err));
            w->result->files++;
            w->result->bytes += w->files[i].size;
        }
    }
    return index != NULL ? sft_model_end(index->staging.path, err) : SFT_OK;
}

static void work_reset(work *w) {
    for (size_t i = 0; i < w->count; i++) {
        outcome *f = &w->files[i];
        if (f->staging.allocator != NULL) {
            sft__remote_staging_close(&f->staging);
        }
        sft__base_free(w->a, f->spans, f->span_room * sizeof *f->spans);
        sft__base_free(w->a, f->ranges, f->range_room * sizeof *f->ranges);
        sft__base_free(w->a, f->own, f->own_size);
    }
    sft__base_free(w->a, w->files, w->count * sizeof *w->files);
}

static sft_status fetch(work *w, const char *url, sft_error *err) {
    sft__remote_opened opened;

    SFT_TRY(sft__remote_open(&opened, w->remote, url, NULL, err));
    sft_status status =
        w->options->wanted != NULL ? selection(w, &opened, err) : whole_model(w, &opened, err);
    if (status == SFT_OK) {
        status = prepare(w, err);
    }
    if (status == SFT_OK) {
        status = bring(w, err);
    }
    if (status == SFT_OK) {
        status = publish(w, err);
    }
    work_reset(w);
    sft__remote_opened_reset(&opened, w->remote);
    return status;
}

sft_status sft_remote_fetch(sft_remote *remote, const char *url, const char *directory,
                            const sft_fetch_options *options, sft_fetch_result *result,
                            sft_error *err) {
    sft_fetch_options o;
    sft_fetch_result r;

    if (remote == NULL || directory == NULL || directory[0] == '\0') {
        return sft__base_fail(err, SFT_E_ARG, "remote or directory is NULL");
    }
    SFT_TRY(sft__base_options_read(&o, sizeof o, options,
                                   SFT__UP_TO(sft_fetch_options, struct_size), "options", err));
    memset(&r, 0, sizeof r);
    work w = {.remote = remote,
              .a = remote->allocator,
              .options = &o,
              .result = &r,
              .directory = directory};
    SFT_INIT(&w.control);
    w.control.poll = poll_progress;
    w.control.ctx = &w;
    const sft_status status = fetch(&w, url, err);
    if (result != NULL) {
        *result = r;
    }
    return status;
}
