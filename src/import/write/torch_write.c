/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/torch_write.c - PyTorch's zip archives, as torch.save writes them: <directory>/data.pkl
 * (protocol 2), byteorder, data/0, data/1 ... at multiples of 64 bytes, version,
 * .data/serialization_id. torch.load(weights_only=True) takes them, mapped or read. Names of the
 * same tensor share a storage. Source: torch/serialization.py, torch/_utils.py. Read first:
 * torch_write.h.
 */
#include "import/write/torch_write.h"
#include "base/memory/need.h"
#include <stdio.h>

enum { ALIGNMENT = 64, FIXED = 4, NAME_MAX_BYTES = 65536 };

static sft_status check(const sft_import_item *item, sft_error *err) {
    const sft_tensor *t = item->tensor;

    if (!sft__import_put_has_type(item->dtype)) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "PyTorch has no type %s: cast it (--cast bf16) or leave it out", item->dtype->name);
    }
    if (item->name_len > NAME_MAX_BYTES) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name,
                                     item->name_len, "a name of more than %d bytes: rename it",
                                     (int)NAME_MAX_BYTES);
    }
    if (item->dtype->id == SFT_F4 && (t->rank == 0 || t->shape[t->rank - 1] % 2 != 0)) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, item->name, item->name_len,
            "PyTorch keeps F4 in pairs along the last dimension, which is odd");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- names */

/* Room was made for all: the table of names points into the list. A name that is there stays what
 * it is. */
static void add_name(sft__import_torch_writer *t, const char *name, size_t len, size_t item,
                     const sft_tensor *part) {
    t->called[t->called_count] = (sft__import_called){name, len, item, part, 0, false};
    t->called_count += sft__base_strmap_add(&t->names, t->called_count) == SFT__STRMAP_NONE;
}

static sft_status make_room(sft__import_torch_writer *t, sft_error *err) {
    const sft_allocator *a = t->job->c.allocator;
    const size_t most = t->job->c.item_count + t->job->c.other_count + 1;

    SFT_TRY(sft__import_export_alloc(t->job, &t->untyped, t->job->c.item_count, 1, err));
    SFT_NEED(sft__base_grow(a, &t->called, &t->called_room, most, sizeof *t->called) &&
                 sft__base_strmap_init(&t->names, t->called, sizeof *t->called, most, a),
             most * sizeof *t->called, err);
    return SFT_OK;
}

/* Names of the items, and the others, which share storages with them. */
static sft_status add_names(sft__import_torch_writer *t, sft_error *err) {
    static const char storage[] = "sft.storage.";
    sft__import_conversion *c = &t->job->c;

    SFT_TRY(make_room(t, err));
    for (size_t i = 0; i < c->item_count; i++) {
        add_name(t, c->items[i].name, c->items[i].name_len, i, NULL);
    }
    for (size_t i = 0; i < c->other_count; i++) {
        const sft__import_other *o = &c->others[i];
        size_t at;
        const sft_import_item *item = sft__import_convert_item_of(c, o->catalog, o->of, &at);
        if (item == NULL) {
            return sft__base_fail(err, SFT_E_INTERNAL, "another name of a tensor that is left out");
        }
        add_name(t, o->name, o->name_len, at, o->part ? o->shows : NULL);
        t->untyped[at] = t->untyped[at] || (o->part && o->shows->dtype->id != item->dtype->id);
        t->called[at].hidden =
            t->called[at].hidden || (o->part && item->name_len >= sizeof storage - 1 &&
                                     memcmp(item->name, storage, sizeof storage - 1) == 0);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the pickle */

static sft_status put_flat(sft__import_torch_writer *t, sft_error *err) {
    sft__import_put_ordered_dict(t);
    sft__import_put_byte(&t->pickle, '(');
    for (size_t i = 0; i < t->called_count; i++) {
        if (!t->called[i].hidden) {
            sft__import_put_text(&t->pickle, t->called[i].name, t->called[i].len);
            SFT_TRY(sft__import_put_tensor(t, &t->called[i], err));
        }
    }
    sft__import_put_byte(&t->pickle, 'u'); /* SETITEMS */
    return SFT_OK;
}

/* The tree of the input. Of several files each would have its own, of its tensors alone: then names do. */
static const char *tree_of(const sft__import_torch_writer *t, size_t *len) {
    const sft_catalog *catalog = t->job->catalog;
    const size_t files = sft_catalog_file_count(catalog);
    const char *tree = NULL;

    for (size_t f = 0; f < files && tree == NULL; f++) {
        tree = sft_catalog_metadata_find(catalog, f, "sft.tree", 8, len);
    }
    if (tree != NULL && files > 1) {
        sft__import_convert_lost(&t->job->c, "sft.tree", 0,
                                 "trees of several files: their tensors are written as one dict");
        return NULL;
    }
    return tree;
}

/* A tensor that the tree does not name would be nowhere in the file. */
static sft_status all_named(const sft__import_torch_writer *t, sft_error *err) {
    const sft__import_conversion *c = &t->job->c;
    uint8_t *named;

    SFT_TRY(sft__import_export_alloc(t->job, &named, c->item_count, 1, err));
    memset(named, 0, c->item_count);
    for (size_t i = 0; i < t->called_count; i++) {
        named[t->called[i].item] |= t->called[i].memo != 0;
    }
    for (size_t i = 0; i < c->item_count; i++) {
        if (!named[i]) {
            return sft__base_fail_tensor(
                err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, c->items[i].name, c->items[i].name_len,
                "the tree (metadata sft.tree) does not name it: delete the tree "
                "(meta --delete sft.tree) to have a dict of all tensors");
        }
    }
    return SFT_OK;
}

static sft_status put_pickle(sft__import_torch_writer *t, sft_error *err) {
    size_t len = 0;
    const char *tree = tree_of(t, &len);

    sft__import_put_byte(&t->pickle, 0x80); /* PROTO 2 */
    sft__import_put_byte(&t->pickle, 2);
    SFT_TRY(tree != NULL ? sft__import_put_tree(t, tree, len, err) : put_flat(t, err));
    SFT_TRY(tree != NULL ? all_named(t, err) : SFT_OK);
    sft__import_put_byte(&t->pickle, '.');
    return t->pickle.failed ? sft__base_fail_nomem(err, t->pickle.len) : SFT_OK;
}

/* ---------------------------------------------------------------- the archive */

/* 40 digits that depend on the contents of data.pkl alone. */
static void serial_number(const sft__base_buf *pickle, char text[41]) {
    uint64_t a = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    uint64_t b = UINT64_C(0x9ae16a3b2f90404f);

    for (size_t i = 0; i < pickle->len; i++) {
        a = (a ^ (uint8_t)pickle->data[i]) * UINT64_C(0x100000001b3);
        b = (b ^ a) * UINT64_C(0x100000001b3);
    }
    (void)snprintf(text, 41, "%020llu%020llu", (unsigned long long)a, (unsigned long long)b);
}

static sft_status write_members(sft__import_torch_writer *t, sft_error *err) {
    sft__import_export *job = t->job;
    const size_t items = job->c.item_count;
    enum { NAME_ROOM = 40 };
    sft__import_zip_member *members;
    char serial[41];
    char *names;

    serial_number(&t->pickle, serial);
    SFT_TRY(sft__import_export_alloc(job, &members, items + FIXED, sizeof *members, err));
    SFT_TRY(sft__import_export_alloc(job, &names, items, NAME_ROOM, err));
    const sft__import_zip_member head[2] = {
        {"archive/data.pkl", 16, t->pickle.data, t->pickle.len, SIZE_MAX, 0, 0, 0, 0},
        {"archive/byteorder", 17, "little", 6, SIZE_MAX, 0, 0, 0, 0},
    };
    const sft__import_zip_member tail[2] = {
        {"archive/version", 15, "3\n", 2, SIZE_MAX, 0, 0, 0, 0},
        {"archive/.data/serialization_id", 30, serial, 40, SIZE_MAX, 0, 0, 0, 0},
    };
    memcpy(members, head, sizeof head);
    for (size_t i = 0; i < items; i++) {
        char *name = names + i * NAME_ROOM;
        const int n = snprintf(name, NAME_ROOM, "archive/data/%zu", i);
        members[2 + i] = (sft__import_zip_member){name, (size_t)n, NULL, 0, i, 0, 0, 0, 0};
    }
    memcpy(members + 2 + items, tail, sizeof tail);
    job->kept = members;
    return sft__import_zip_write(job, members, items + FIXED, ALIGNMENT, err);
}

static sft_status write_torch(sft__import_export *job, sft_error *err) {
    const sft_allocator *a = job->c.allocator;
    sft__import_torch_writer t;

    memset(&t, 0, sizeof t);
    t.job = job;
    sft__base_buf_init(&t.pickle, a);
    sft_status status = add_names(&t, err);
    SFT_THEN(status, put_pickle(&t, err));
    SFT_THEN(status, write_members(&t, err));
    if (t.names.slots != NULL) {
        sft__base_strmap_reset(&t.names);
    }
    sft__base_free(a, t.called, t.called_room * sizeof *t.called);
    sft__base_buf_reset(&t.pickle);
    return status;
}

/* The storages under the items' names (the tree may call them otherwise), after the reader has
 * taken the whole file. */
static sft_status reopen(sft__import_export *job, sft_catalog **out, sft_error *err) {
    const sft__import_zip_member *members = job->kept;
    sft_import_options io;
    sft_builder *builder;
    sft_source *source;
    sft_open_options o;

    SFT_INIT(&io);
    io.allocator = job->options.allocator;
    io.flags = SFT_IMPORT_ALLOW_OPAQUE;
    sft_status read = sft_import_open(out, job->path, &io, NULL, err);
    if (read == SFT_E_DUPLICATE) { /* of a tree whose paths meet */
        io.flags |= SFT_IMPORT_KEEP_TREE;
        read = sft_import_open(out, job->path, &io, NULL, err);
    }
    SFT_TRY(read);
    sft_catalog_close(*out);
    *out = NULL;
    SFT_INIT(&o);
    o.allocator = job->options.allocator;
    SFT_TRY(sft_source_open(&source, job->path, SFT_ACCESS_READ, o.allocator, err));
    const sft_file file = {.path = job->path, .size = sft_source_size(source)};
    sft_status status = sft_builder_create(&builder, &o, err);
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    status = sft_builder_add_source(builder, source, NULL, err);
    SFT_THEN(status, sft_builder_add_file(builder, &file, NULL, err));
    for (size_t i = 0; i < job->c.item_count && status == SFT_OK; i++) {
        const sft_import_item *item = &job->c.items[i];
        const sft_piece piece = {.offset = members[2 + i].data};
        const sft_tensor t = {.name = item->name,
                              .name_len = item->name_len,
                              .dtype = item->dtype,
                              .shape = item->tensor->shape,
                              .pieces = &piece,
                              .rank = item->tensor->rank,
                              .piece_count = 1};
        status = sft_builder_add_tensor(builder, &t, err);
    }
    SFT_THEN(status, sft_builder_finish(out, builder, err));
    sft_builder_free(builder);
    return status;
}

const sft__import_writer_row sft__import_writer_torch = {SFT_IMPORT_TORCH_ZIP, false, true, check,
                                                         write_torch,          reopen};
