/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5.c - HDF5 files as Keras and h5py write them: every dataset is a tensor, called
 * by its path with slashes. The tree is walked by a stack, each object once: a second link to it is
 * an alias. What would lead out of the file is named and never opened. Archives of Keras (.keras)
 * are zips with such a file stored inside. Source: HDF5 File Format Specification 3.0; keras
 * src/saving/saving_lib.py. Read first: hdf5.h.
 */
#include "import/hdf5/hdf5.h"
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/archive/zip.h"

/* ---------------------------------------------------------------- names */

/* The name below the key that was asked for; false: it is not below it. */
static bool below_key(const sft__import_h5 *h, const sft__import_h5_link *link, const char **name,
                      size_t *len) {
    const char *key = h->job->options.key;
    const size_t n = key != NULL && strcmp(key, ".") != 0 ? strlen(key) : 0;

    *name = link->name;
    *len = link->len;
    if (n == 0) {
        return true;
    }
    if (*len <= n + 1 || memcmp(*name, key, n) != 0 || (*name)[n] != '/') {
        return false;
    }
    *name += n + 1;
    *len -= n + 1;
    return true;
}

/* ---------------------------------------------------------------- datasets */

/* What HDF5 would open another file for, or what this reader does not know. */
static sft_status refuse(sft__import_h5 *h, const sft__import_h5_dataset *d, const char *why,
                         sft_error *err) {
    if (sft__import_h5_message_find(&h->object, SFT__H5_EXTERNAL) != NULL || d->layout == 3) {
        sft__import_find(h->job, SFT__RULE(CONTAINER, DANGEROUS, "hdf5-external"),
                         SFT__NAMED(d, h->base + d->addr),
                         "its data are read out of other files by HDF5, whichever they are");
    }
    return sft__import_opaque(h->job, SFT__NAMED(d, h->base + d->addr), err, "hdf5: %.*s has %s",
                              (int)(d->name_len < 200 ? d->name_len : 200), d->name, why);
}

/* The dataset in h->object, under this name. */
static sft_status take_dataset(sft__import_h5 *h, const sft__import_h5_link *link, sft_error *err) {
    const char *why;
    const char *name;
    sft__import_h5_dataset d;
    size_t len;

    if (!below_key(h, link, &name, &len)) {
        return SFT_OK;
    }
    memset(&d, 0, sizeof d);
    d.name = name;
    d.name_len = len;
    d.addr = link->addr;
    SFT_TRY(sft__import_h5_dataset_read(h, &d, &why, err));
    if (why != NULL) {
        h->matched++;
        return refuse(h, &d, why, err);
    }
    if (d.empty) {
        sft__import_find(h->job, SFT__RULE(LEFT_OUT, HARMLESS, "hdf5-null"),
                         SFT__AT(name, len, h->base + d.addr),
                         "a dataset without a shape (a null dataspace)");
        return SFT_OK;
    }
    h->matched++;
    if (d.type.bare) {
        sft__import_find(h->job, SFT__RULE(NOTE, HARMLESS, "hdf5-opaque"),
                         SFT__AT(name, len, h->base + d.addr),
                         "elements of %u bytes without a type (bfloat16 and float8 are saved so): "
                         "given as %s",
                         (unsigned)d.type.size, d.type.dtype->name);
    }
    return sft__import_h5_add(h, &d, name, len, err);
}

/* A name of a dataset that was added under another one (links[index]). */
static sft_status take_again(sft__import_h5 *h, const sft__import_h5_link *link, uint64_t index,
                             sft_error *err) {
    const sft__import_h5_link *first = &h->tensors.at[index];
    const char *name;
    const char *of;
    size_t len;
    size_t of_len;

    if (!below_key(h, link, &name, &len)) {
        return SFT_OK;
    }
    if (h->job->options.dedup == SFT_DEDUP_ERROR) {
        return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, name, len,
                                     "shares its storage with %.200s", first->name);
    }
    SFT_TRY(
        sft__import_h5_charge(h, link->addr == SFT__H5_UNDEF ? 0 : link->addr, first->len, err));
    if (h->job->options.dedup == SFT_DEDUP_KEEP || !below_key(h, first, &of, &of_len)) {
        const size_t extents = h->extent_count;
        sft__import_h5_link same = *link;
        same.addr = first->addr;
        SFT_TRY(sft__import_h5_object_read(h, &h->object, first->addr, err));
        SFT_TRY(take_dataset(h, &same, err));
        h->extent_count = extents; /* they are known */
        return SFT_OK;
    }
    return sft_builder_add_alias(h->job->builder, name, len, of, of_len, err);
}

/* ---------------------------------------------------------------- objects */

/* Instead of the index of a tensor. */
#define GROUP   UINT64_MAX
#define NOTHING (UINT64_MAX - 1)

static sft_status remember(sft__import_h5 *h, const sft__import_h5_link *link, sft_error *err) {
    sft__import_h5_links *l = &h->tensors;
    SFT_TRY(sft__import_h5_grow(h, &l->at, &l->room, l->count, sizeof *l->at, err));
    l->at[l->count++] = *link;
    return SFT_OK;
}

static sft_status met_before(sft__import_h5 *h, const sft__import_h5_link *link, uint64_t met,
                             sft_error *err) {
    if (met == GROUP) {
        return sft__import_opaque(h->job, SFT__AT(link->name, link->len, h->base + link->addr), err,
                                  "hdf5: %.200s is a second link to a group, or leads in a circle",
                                  link->name);
    }
    if (met == NOTHING) {
        return SFT_OK;
    }
    SFT_TRY(take_again(h, link, met, err));
    return remember(h, link, err);
}

/* Texts of h->object under the names that are wanted. */
static sft_status follow_texts(sft__import_h5 *h, const sft__import_h5_link *link, sft_error *err) {
    const sft__import_h5_wanted *w = h->want;
    bool met;

    for (size_t i = 0; i < w->count; i++) {
        SFT_TRY(sft__import_h5_attribute_met(h, w->names[i], w->text, w->cap, &met, err));
        if (met) {
            SFT_TRY(w->each(w->ctx, link->name, link->len, w->names[i], err));
        }
    }
    if (sft__import_h5_is_group(&h->object)) {
        return sft__import_h5_group(h, link->name, link->len, err);
    }
    for (size_t i = 0; i < w->count; i++) {
        const size_t n = strlen(w->names[i]);
        const bool named = link->len >= n &&
                           memcmp(link->name + link->len - n, w->names[i], n) == 0 &&
                           (link->len == n || link->name[link->len - n - 1] == '/');
        if (named && sft__import_h5_message_find(&h->object, SFT__H5_DATASPACE) != NULL &&
            sft__import_h5_message_find(&h->object, SFT__H5_DATATYPE) != NULL &&
            sft__import_h5_message_find(&h->object, SFT__H5_LAYOUT) != NULL) {
            SFT_TRY(sft__import_h5_dataset_text(h, w->text, w->cap, err));
            return w->each(w->ctx, link->name, link->len, w->names[i], err);
        }
    }
    return SFT_OK;
}

/* What a link leads to. */
static sft_status follow(sft__import_h5 *h, const sft__import_h5_link *link, sft_error *err) {
    const uint64_t before = h->job->tensors;
    const char *name;
    size_t len;
    uint64_t met;
    bool was;

    SFT_TRY(sft__import_h5_meet(h, link->addr, NOTHING, &met, &was, err));
    if (was) {
        return h->want != NULL ? SFT_OK : met_before(h, link, met, err);
    }
    SFT_TRY(sft__import_h5_object_read(h, &h->object, link->addr, err));
    const sft__import_h5_object *o = &h->object;
    if (h->want != NULL) {
        return follow_texts(h, link, err);
    }
    if (below_key(h, link, &name, &len) || h->job->options.key == NULL) {
        SFT_TRY(sft__import_h5_attributes(h, link->name, link->len, err));
    }
    if (sft__import_h5_is_group(o)) {
        sft__import_h5_number(h, link->addr, GROUP);
        return sft__import_h5_group(h, link->name, link->len, err);
    }
    if (sft__import_h5_message_find(o, SFT__H5_DATASPACE) == NULL ||
        sft__import_h5_message_find(o, SFT__H5_DATATYPE) == NULL ||
        sft__import_h5_message_find(o, SFT__H5_LAYOUT) == NULL) {
        h->others++; /* a committed datatype, say */
        return SFT_OK;
    }
    SFT_TRY(take_dataset(h, link, err));
    if (h->job->tensors == before && below_key(h, link, &name, &len)) {
        return SFT_OK; /* left out: so are its other names */
    }
    sft__import_h5_number(h, link->addr, h->tensors.count);
    return remember(h, link, err);
}

static sft_status walk(sft__import_h5 *h, sft_error *err) {
    sft__import_h5_link root = {"", 0, h->root, NULL, 0};

    SFT_TRY(follow(h, &root, err));
    while (h->stack.count > 0) {
        const sft__import_h5_link link = h->stack.at[--h->stack.count];
        SFT_TRY(follow(h, &link, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- soft links */

/* The path that a soft link means, from the root, without empty parts and dots. */
static sft_status soft_path(sft__import_h5 *h, const sft__import_h5_link *link, char **path,
                            size_t *len, sft_error *err) {
    size_t from = link->len;
    size_t n = 0;

    while (from > 0 && link->name[from - 1] != '/') {
        from--;
    }
    from = link->target_len != 0 && link->target[0] == '/' ? 0 : from;
    SFT_TRY(sft__import_alloc(h->job, path, from + link->target_len + 1, 1, err));
    memcpy(*path, link->name, from);
    n = from;
    for (size_t at = 0; at < link->target_len;) {
        size_t end = at;
        while (end < link->target_len && link->target[end] != '/') {
            end++;
        }
        if (end > at && !(end - at == 1 && link->target[at] == '.')) {
            memcpy(*path + n, link->target + at, end - at);
            n += end - at;
            (*path)[n++] = '/';
        }
        at = end + 1;
    }
    *len = n > 0 ? n - 1 : 0;
    return SFT_OK;
}

static sft_status take_soft(sft__import_h5 *h, const sft__base_strmap *map,
                            const sft__import_h5_link *link, sft_error *err) {
    char target[256];
    char *path;
    uint64_t met;
    size_t len;
    bool was;

    SFT_TRY(soft_path(h, link, &path, &len, err));
    const size_t found = sft__base_strmap_find(map, path, len);
    if (found == SFT__STRMAP_NONE) {
        (void)sft_escape(target, sizeof target, link->target, link->target_len);
        return sft__import_opaque(h->job, SFT__AT(link->name, link->len, SFT_NO_OFFSET), err,
                                  "hdf5: %.200s is a soft link to \"%s\", which is no tensor of "
                                  "this file",
                                  link->name, target);
    }
    SFT_TRY(sft__import_h5_meet(h, h->tensors.at[found].addr, NOTHING, &met, &was, err));
    return take_again(h, link, met, err);
}

static sft_status soft_links(sft__import_h5 *h, sft_error *err) {
    const size_t count = h->tensors.count;
    sft_status status = SFT_OK;
    sft__base_strmap map;
    size_t twice;

    if (h->soft.count == 0) {
        return SFT_OK;
    }
    SFT_NEED(
        sft__base_strmap_init(&map, h->tensors.at, sizeof *h->tensors.at, count, h->job->allocator),
        count * 16, err);
    (void)sft__base_strmap_add_all(&map, count,
                                   &twice); /* a name twice is refused by the builder */
    for (size_t i = 0; i < h->soft.count && status == SFT_OK; i++) {
        status = take_soft(h, &map, &h->soft.at[i], err);
    }
    sft__base_strmap_reset(&map);
    return status;
}

/* ---------------------------------------------------------------- a file */

static sft_status start(sft__import_h5 *h, sft_error *err) {
    SFT_TRY(
        sft__base_need(h->job->allocator, &h->windows, SFT__H5_WINDOWS * sizeof *h->windows, err));
    for (int i = 0; i < SFT__H5_WINDOWS; i++) {
        h->windows[i].at = UINT64_MAX;
        h->windows[i].used = 0;
    }
    return sft__import_h5_start(h, err);
}

/* Bytes before the superblock, which MATLAB says its name in, and behind the end that it tells. */
static sft_status around(sft__import_h5 *h, sft_error *err) {
    static const char matlab[] = "MATLAB 7.";
    char head[sizeof matlab - 1] = "";

    if (h->base >= sizeof head) {
        SFT_TRY(sft_source_read(h->source, 0, head, sizeof head, err));
    }
    if (memcmp(head, matlab, sizeof head) != 0) {
        SFT_TRY(sft__import_unnamed(h->job, h->source, 0, h->base, err));
    }
    return sft__import_unnamed(h->job, h->source, h->base + h->end, sft_source_size(h->source),
                               err);
}

static sft_status read_file(sft__import_h5 *h, sft_error *err) {
    SFT_TRY(start(h, err));
    SFT_TRY(walk(h, err));
    SFT_TRY(soft_links(h, err));
    SFT_TRY(sft__import_h5_overlaps(h, err));
    SFT_TRY(around(h, err));
    const char *key = h->job->options.key;
    if (key != NULL && strcmp(key, ".") != 0 && h->matched == 0) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "the file has no part \"%s\" (key)", key);
    }
    if (h->others != 0) {
        sft__import_find(
            h->job, SFT__RULE(NOTE, HARMLESS, "no-tensors"), SFT__AT("", 0, SFT_NO_OFFSET),
            "%llu objects beside the tensors are no tensors", (unsigned long long)h->others);
    }
    return SFT_OK;
}

static void links_reset(sft__import_h5 *h, sft__import_h5_links *l) {
    sft__base_free(h->job->allocator, l->at, l->room * sizeof *l->at);
}

static void reset(sft__import_h5 *h) {
    const sft_allocator *a = h->job->allocator;

    sft__import_h5_decoder_drop(h->decoder);
    sft__import_h5_object_reset(h, &h->object);
    sft__import_h5_object_reset(h, &h->shared);
    sft__base_free(a, h->node.data, h->node.room);
    sft__base_free(a, h->heap.data, h->heap.room);
    sft__base_free(a, h->more.data, h->more.room);
    sft__base_free(a, h->todo, h->todo_room * sizeof *h->todo);
    links_reset(h, &h->stack);
    links_reset(h, &h->soft);
    links_reset(h, &h->tensors);
    sft__base_free(a, h->seen.slots, h->seen.room * 16);
    sft__base_free(a, h->extents, h->extent_room * sizeof *h->extents);
    sft__base_free(a, h->windows, SFT__H5_WINDOWS * sizeof *h->windows);
    sft__base_free(a, h, sizeof *h);
}

sft_status sft__import_hdf5_add(sft__import *job, const sft_source *source, uint32_t index,
                                sft_error *err) {
    sft__import_h5 *h;

    SFT_TRY(sft__base_need_zero(job->allocator, &h, sizeof *h, err));
    h->job = job;
    h->source = source;
    h->index = index;
    const sft_status status = read_file(h, err);
    reset(h);
    return status;
}

static sft_status texts(sft__import *job, const sft_source *source,
                        const sft__import_h5_wanted *want, sft_error *err) {
    sft__import_h5 *h;

    SFT_TRY(sft__base_need_zero(job->allocator, &h, sizeof *h, err));
    h->job = job;
    h->source = source;
    h->want = want;
    sft_status status = start(h, err);
    SFT_THEN(status, walk(h, err));
    reset(h);
    return status;
}

/* A job of its own: what the walk finds was said when the file was read. */
sft_status sft__import_hdf5_texts(const sft__import *job, const sft_source *source,
                                  const sft__import_h5_wanted *want, sft_error *err) {
    sft__import own;

    memset(&own, 0, sizeof own);
    own.scanning = true;
    sft_status status = sft__import_job_options(&own, &job->options, err);
    if (status == SFT_OK) {
        sft__base_arena_init(&own.arena, own.allocator, own.options.memory_bytes / 4);
        status = sft__import_report_create(&own.report, own.allocator, err);
    }
    SFT_THEN(status, texts(&own, source, want, err));
    sft__import_job_reset(&own);
    return status;
}

static bool probe(const sft__import_probe *p) {
    return sft__import_h5_find(p->source) != UINT64_MAX;
}

static sft_status open_hdf5(sft__import *job, sft_error *err) {
    return sft__import_hdf5_add(job, job->file, 0, err);
}

const sft__import_reader sft__import_reader_hdf5 = {SFT_IMPORT_HDF5, probe, open_hdf5};

/* ---------------------------------------------------------------- archives of Keras */

#define WEIGHTS "model.weights.h5"

/* A zip whose first member is one of those that Keras writes, in no directory. */
static bool probe_keras(const sft__import_probe *p) {
    static const char *const first[] = {"metadata.json", "config.json", WEIGHTS};

    if (!sft__import_zip_probe(p) || p->head_len < 64) {
        return false;
    }
    const size_t len = sft__base_load_le16(p->head + 26);
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        if (strlen(first[i]) == len && memcmp(p->head + 30, first[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static sft_status add_weights(sft__import *job, const sft__import_zip *zip, sft_error *err) {
    const sft__import_zip_entry *e = sft__import_zip_find(zip, WEIGHTS, strlen(WEIGHTS));
    sft_source *part;
    uint32_t index;

    if (e == NULL) {
        return sft__base_fail(err, SFT_E_SCHEMA, "keras: the archive has no member " WEIGHTS);
    }
    if (e->method != 0) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, e->header,
                                 "keras: " WEIGHTS
                                 " is compressed, which Keras does not do: unpack it");
    }
    if ((job->options.flags & SFT_IMPORT_CHECKSUMS) != 0) {
        SFT_TRY(sft__import_zip_check(job, e, err));
    }
    for (size_t i = 0; i < zip->count; i++) {
        const sft__import_zip_entry *m = &zip->entries[i];
        const bool text = strcmp(m->name, "config.json") == 0 ||
                          strcmp(m->name, "metadata.json") == 0 || m->name[m->name_len - 1] == '/';
        if (m != e && !text) {
            sft__import_find(job, SFT__RULE(LEFT_OUT, HARMLESS, "keras-member"),
                             SFT__NAMED(m, m->header), "a member beside the weights");
        }
    }
    SFT_TRY(sft__import_source_part(&part, job->file, (sft__import_extent){e->data, e->usize},
                                    WEIGHTS, job->allocator, err));
    SFT_TRY(sft_builder_add_source(job->builder, part, &index, err));
    return sft__import_hdf5_add(job, part, index, err);
}

static sft_status open_keras(sft__import *job, sft_error *err) {
    sft__import_zip zip;

    sft_status status = sft__import_zip_open(&zip, job, err);
    SFT_THEN(status, add_weights(job, &zip, err));
    sft__import_zip_reset(&zip);
    return status;
}

const sft__import_reader sft__import_reader_keras = {SFT_IMPORT_KERAS, probe_keras, open_keras};
