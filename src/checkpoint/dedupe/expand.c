/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/dedupe/expand.c - every rank's full set out of a directory without replicas: what the record of
 * it says, or what the layout gives to each rank. A rank's own tensors come from its own file, the
 * others out of the global tensors. Read checkpoint/dedupe/dedupe.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/dedupe/dedupe.h"
#include "fs/file.h"
#include "layout/jsontree.h"

typedef struct expanding {
    sft_dedupe *d;
    const sft_open_options *open;
    const sft_catalog *global;
    const sft__layout_jnode **names; /* of the record */
    size_t name_count;
    sft_error *err;
} expanding;

/* One file to be made. */
typedef struct wanted {
    uint64_t rank;
    const sft_rank_part *own;         /* NULL: the rank has none */
    const char *name;                 /* of the file */
    const sft__layout_jnode *file;    /* of the record; NULL: there is none */
    const sft__layout_jnode *tensors; /* of the record: numbers of names */
} wanted;

/* Keeps a catalog until the end. */
static sft_status own(sft_dedupe *d, sft_catalog *catalog, sft_error *err) {
    if (!sft__base_grow(d->allocator, &d->catalogs, &d->catalog_room, d->catalog_count + 1,
                        sizeof *d->catalogs)) {
        sft_catalog_close(catalog);
        return sft__base_fail_nomem(err, (d->catalog_count + 1) * sizeof *d->catalogs);
    }
    d->catalogs[d->catalog_count++] = catalog;
    return SFT_OK;
}

static sft_status find_layout(const expanding *e, const sft_tensor *t, uint64_t rank,
                              const sft_layout **layout) {
    uint64_t shape[SFT_LAYOUT_RANK];
    size_t dims = t->rank;
    *layout = NULL;
    return sft_layout_set_find_global(e->d->checkpoint->layouts, t, rank, layout, shape, &dims,
                                      e->err);
}

/* ---------------------------------------------------------------- one file */

static sft_status take(sft__checkpoint_assembly *a, size_t which, const sft_tensor *t) {
    SFT_TRY(sft__checkpoint_assembly_global(a, which, t));
    return sft__checkpoint_assembly_add(a, which, t, t->shape, t->rank);
}

static void count_back(sft_dedupe *d, const sft_tensor *t) {
    d->changed_tensors++;
    d->changed_bytes += t->nbytes;
}

/* Catalog 0 is the rank's part of the global tensors, 1 its own file, if any. */
static sft_status take_recorded(const expanding *e, sft__checkpoint_assembly *a, const wanted *w) {
    for (const sft__layout_jnode *n = w->tensors->first; n != NULL; n = n->next) {
        if (n->type != SFT__J_NUMBER || !n->is_int || n->negative || n->value >= e->name_count) {
            return sft__base_fail_at(e->err, SFT_E_SCHEMA, n->offset,
                                     SFT__DEDUPE_RECORD ": a number of a name is needed");
        }
        const sft__layout_jnode *const name = e->names[n->value];
        const sft_tensor *t =
            w->own != NULL ? sft_catalog_find(w->own->catalog, name->text, name->len) : NULL;
        if (t != NULL) {
            SFT_TRY(take(a, 1, t));
            continue;
        }
        t = sft_catalog_find(a->catalogs[0], name->text, name->len);
        if (t == NULL) {
            return sft__base_fail_tensor(
                e->err, SFT_E_MISMATCH, SFT_NO_OFFSET, name->text, name->len,
                "rank %llu had it, and the layout gives it no part", (unsigned long long)w->rank);
        }
        count_back(e->d, t);
        SFT_TRY(take(a, 0, t));
    }
    return SFT_OK;
}

static sft_status take_laid_out(const expanding *e, sft__checkpoint_assembly *a, const wanted *w) {
    const sft_catalog *const mine = w->own != NULL ? w->own->catalog : NULL;
    for (size_t i = 0; mine != NULL && i < sft_catalog_count(mine); i++) {
        SFT_TRY(take(a, 1, sft_catalog_at(mine, i)));
    }
    for (size_t i = 0; i < sft_catalog_count(a->catalogs[0]); i++) {
        const sft_tensor *const t = sft_catalog_at(a->catalogs[0], i);
        const sft_layout *layout;
        if (mine != NULL && sft_catalog_find(mine, t->name, t->name_len) != NULL) {
            continue;
        }
        SFT_TRY(
            find_layout(e, sft_catalog_find(e->global, t->name, t->name_len), w->rank, &layout));
        if (layout != NULL || mine == NULL) { /* others are each rank's own affair */
            count_back(e->d, t);
            SFT_TRY(take(a, 0, t));
        }
    }
    return SFT_OK;
}

static sft_status put_together(const expanding *e, const wanted *w, sft_catalog **out) {
    const sft_catalog *catalogs[2] = {NULL, w->own != NULL ? w->own->catalog : NULL};
    sft_catalog *part;
    sft__checkpoint_assembly a;
    *out = NULL;
    SFT_TRY(sft_checkpoint_part(&part, e->global, w->rank, sft_layout_set_find_global,
                                e->d->checkpoint->layouts, e->open, e->err));
    SFT_TRY(own(e->d, part, e->err));
    catalogs[0] = part;
    sft_status status =
        sft__checkpoint_assembly_init(&a, catalogs, w->own != NULL ? 2 : 1, e->open, e->err);
    if (status == SFT_OK) {
        status = w->tensors != NULL ? take_recorded(e, &a, w) : take_laid_out(e, &a, w);
    }
    if (status == SFT_OK) {
        status = sft_builder_finish(out, a.builder, e->err);
    }
    sft__checkpoint_assembly_reset(&a);
    return status;
}

static sft_status recorded_metadata(const expanding *e, sft_job_file *f,
                                    const sft__layout_jnode *given) {
    sft_metadata_entry *const list =
        sft__base_arena_alloc(&e->d->arena, (given->len + 1) * sizeof *list, sizeof(void *));
    SFT_NEED(list != NULL, (given->len + 1) * sizeof *list, e->err);
    for (const sft__layout_jnode *n = given->first; n != NULL; n = n->next) {
        if (given->type != SFT__J_OBJECT || n->type != SFT__J_STRING) {
            return sft__base_fail_at(e->err, SFT_E_SCHEMA, n->offset,
                                     SFT__DEDUPE_RECORD ": metadata are strings by name");
        }
        const sft_metadata_entry entry = {n->key, n->key_len, n->text, n->len};
        list[f->metadata_count++] = entry;
    }
    f->metadata = list;
    return SFT_OK;
}

static sft_status make_file(const expanding *e, const wanted *w) {
    sft_job_file *f;
    sft_catalog *catalog;
    SFT_TRY(put_together(e, w, &catalog));
    SFT_TRY(own(e->d, catalog, e->err));
    SFT_TRY(sft__checkpoint_dedupe_add_file(e->d, &f, e->err));
    f->name = w->name;
    f->catalog = catalog;
    if (w->file != NULL) {
        const sft__layout_jnode *const metadata = sft__layout_jtree_get(w->file, "metadata");
        return metadata != NULL ? recorded_metadata(e, f, metadata) : SFT_OK;
    }
    const bool more =
        w->own == NULL || sft_catalog_count(catalog) > sft_catalog_count(w->own->catalog);
    const sft__checkpoint_dedupe_metadata change = {more ? "crc_num" : NULL, "False", false};
    return sft__checkpoint_dedupe_describe(e->d, f, w->own != NULL ? w->own->catalog : e->global,
                                           &change, e->err);
}

/* ---------------------------------------------------------------- with a record */

static const sft_rank_part *part_of(const sft_checkpoint *c, uint64_t rank) {
    for (size_t i = 0; i < c->count; i++) {
        if (c->parts[i].rank == rank) {
            return &c->parts[i];
        }
    }
    return NULL;
}

static sft_status schema(const expanding *e, const sft__layout_jnode *where, const char *needed) {
    return sft__base_fail_at(e->err, SFT_E_SCHEMA, where->offset,
                             SFT__DEDUPE_RECORD ": %s is needed", needed);
}

static sft_status list_names(expanding *e, const sft__layout_jnode *names) {
    size_t count = 0;
    e->names =
        sft__base_arena_alloc(&e->d->arena, (names->len + 1) * sizeof *e->names, sizeof(void *));
    SFT_NEED(e->names != NULL, (names->len + 1) * sizeof *e->names, e->err);
    for (const sft__layout_jnode *n = names->first; n != NULL; n = n->next) {
        if (n->type != SFT__J_STRING) {
            return schema(e, n, "a list of names");
        }
        e->names[count++] = n;
    }
    e->name_count = count;
    return SFT_OK;
}

static sft_status expand_recorded(expanding *e, const sft__layout_jnode *root) {
    const sft__layout_jnode *const version = sft__layout_jtree_get(root, "version");
    const sft__layout_jnode *const names = sft__layout_jtree_get(root, "names");
    const sft__layout_jnode *const files = sft__layout_jtree_get(root, "files");
    const sft__layout_jnode *const order = sft__layout_jtree_get(root, "order");
    wanted w;
    memset(&w, 0, sizeof w);
    if (version == NULL || version->type != SFT__J_NUMBER || version->value != 1) {
        return schema(e, root, "version 1");
    }
    if (names == NULL || names->type != SFT__J_ARRAY || files == NULL ||
        files->type != SFT__J_ARRAY || order == NULL || order->type != SFT__J_STRING) {
        return schema(e, root, "names, files and an order");
    }
    e->d->order = strcmp(order->text, "declared") == 0 ? SFT_ORDER_DECLARED : SFT_ORDER_REFERENCE;
    SFT_TRY(list_names(e, names));
    const size_t count = e->d->checkpoint->count;
    bool *const listed = sft__base_arena_alloc(&e->d->arena, count + 1, 1);
    SFT_NEED(listed != NULL, count, e->err);
    memset(listed, 0, count);
    for (const sft__layout_jnode *f = files->first; f != NULL; f = f->next) {
        const sft__layout_jnode *const rank = sft__layout_jtree_get(f, "rank");
        const sft__layout_jnode *const name = sft__layout_jtree_get(f, "file");
        const sft__layout_jnode *const tensors = sft__layout_jtree_get(f, "tensors");
        w.tensors = tensors != NULL ? tensors : w.tensors; /* else as in the file before */
        if (rank == NULL || rank->type != SFT__J_NUMBER || !rank->is_int || rank->negative ||
            name == NULL || name->type != SFT__J_STRING || strlen(name->text) != name->len ||
            w.tensors == NULL || w.tensors->type != SFT__J_ARRAY) {
            return schema(e, f, "a rank, the name of its file, and its tensors");
        }
        w.rank = rank->value;
        w.own = part_of(e->d->checkpoint, w.rank);
        if (w.own != NULL) {
            listed[w.own - e->d->checkpoint->parts] = true;
        }
        w.name = name->text;
        w.file = f;
        SFT_TRY(make_file(e, &w));
    }
    for (size_t i = 0; i < count;
         i++) { /* what is there and, by the record, was not, would be left behind */
        if (!listed[i]) {
            return sft__base_fail(e->err, SFT_E_MISMATCH,
                                  "rank %llu has a file, and " SFT__DEDUPE_RECORD
                                  " lists none of it",
                                  (unsigned long long)e->d->checkpoint->parts[i].rank);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- without one */

/* Does any layout have the rank? */
static sft_status is_named(const expanding *e, uint64_t rank, bool *named) {
    *named = false;
    for (size_t i = 0; i < sft_catalog_count(e->global) && !*named; i++) {
        const sft_layout *layout;
        SFT_TRY(find_layout(e, sft_catalog_at(e->global, i), rank, &layout));
        *named = layout != NULL && sft_layout_holds(layout, rank);
    }
    return SFT_OK;
}

/* Another rank's name with this number for its own behind every "rank_". */
static const char *name_like(const expanding *e, const sft_rank_part *other, uint64_t rank) {
    static const char word[] = "rank_";
    const char *const like = sft__checkpoint_dedupe_name(e->d, other->catalog);
    sft__base_buf b;
    const char *made = NULL;
    sft__base_buf_init(&b, e->d->allocator);
    for (const char *at = like; at != NULL && *at != '\0';) {
        if (strncmp(at, word, sizeof word - 1) == 0) {
            at += sizeof word - 1;
            const char *const digits = at;
            while (*at >= '0' && *at <= '9') {
                at++;
            }
            sft__base_buf_text(&b, word);
            if (at != digits) {
                sft__base_buf_u64(&b, rank);
            }
        } else {
            sft__base_buf_add(&b, at++, 1);
        }
    }
    if (like != NULL && !b.failed) {
        made = sft__base_arena_copy(&e->d->arena, b.data, b.len);
    }
    sft__base_buf_reset(&b);
    return made;
}

static sft_status expand_laid_out(const expanding *e) {
    const sft_checkpoint *const c = e->d->checkpoint;
    const uint64_t ranks = sft_layout_set_ranks(c->layouts);
    const uint64_t end =
        c->parts[c->count - 1].rank >= ranks ? c->parts[c->count - 1].rank + 1 : ranks;
    if (end > SFT__MOST_PARTS) {
        return sft__base_fail(e->err, SFT_E_LIMIT, "%llu ranks, at most %llu files are made",
                              (unsigned long long)end, (unsigned long long)SFT__MOST_PARTS);
    }
    e->d->order = SFT_ORDER_REFERENCE;
    for (uint64_t rank = 0; rank < end; rank++) {
        wanted w;
        bool named = true;
        memset(&w, 0, sizeof w);
        w.rank = rank;
        w.own = part_of(c, rank);
        if (w.own == NULL) {
            SFT_TRY(is_named(e, rank, &named));
        }
        if (!named) {
            continue;
        }
        w.name = w.own != NULL ? sft__checkpoint_dedupe_name(e->d, w.own->catalog)
                               : name_like(e, &c->parts[0], rank);
        SFT_NEED(w.name != NULL, 1, e->err);
        SFT_TRY(make_file(e, &w));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all of it */

/* The record, if there is one. */
static sft_status read_record(const expanding *e, const sft__layout_jnode **root) {
    const char *const directory = e->d->checkpoint->directory;
    const size_t len = strlen(directory);
    sft__checkpoint_text text;
    sft__layout_jnode *tree = NULL;
    char *const path = sft__base_arena_alloc(&e->d->arena, len + 1 + sizeof SFT__DEDUPE_RECORD, 1);
    *root = NULL;
    SFT_NEED(path != NULL, len, e->err);
    memcpy(path, directory, len);
    path[len] = '/';
    memcpy(path + len + 1, SFT__DEDUPE_RECORD, sizeof SFT__DEDUPE_RECORD);
    sft__fs_stat fact;
    SFT_TRY(sft__fs_look(path, &fact, e->err));
    if (!fact.exists) {
        return SFT_OK;
    }
    sft_error why;
    sft_status status = sft__checkpoint_read(e->d->checkpoint, path, &text, &why);
    if (status == SFT_OK) {
        status = sft__layout_jtree_parse(&tree, &e->d->arena, text.data, text.size,
                                         SFT__DEDUPE_RECORD, &why);
        sft__checkpoint_text_reset(&text);
    }
    if (status != SFT_OK) {
        return sft_error_from(e->err, status, &why, "%s: %s", path, why.message);
    }
    const sft__layout_jnode *const format = sft__layout_jtree_get(tree, "format");
    if (format == NULL || format->type != SFT__J_STRING ||
        strcmp(format->text, "safetensors-dedupe") != 0) {
        return sft__base_fail_at(
            e->err, SFT_E_SCHEMA, tree->offset,
            "%s: \"format\": \"safetensors-dedupe\" is needed; without the file the "
            "layout tells what each rank had",
            path);
    }
    *root = tree;
    return SFT_OK;
}

static sft_status make(sft_dedupe *d, sft_error *err) {
    sft_catalog *global;
    const sft__layout_jnode *root;
    expanding e;
    memset(&e, 0, sizeof e);
    e.d = d;
    e.open = d->options.open;
    e.err = err;
    SFT_TRY(sft_checkpoint_join_ranks(&global, d->checkpoint, e.open, err));
    SFT_TRY(own(d, global, err));
    e.global = global;
    SFT_TRY(read_record(&e, &root));
    return root != NULL ? expand_recorded(&e, root) : expand_laid_out(&e);
}

sft_status sft_dedupe_expand(sft_dedupe **out, const sft_checkpoint *checkpoint,
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
