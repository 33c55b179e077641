/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/torch_write.c - PyTorch's zip archives, as torch.save writes them: <folder>/data.pkl
 * (protocol 2), byteorder, data/0, data/1 ... at multiples of 64 bytes, version,
 * .data/serialization_id. torch.load(weights_only=True) takes them, mapped or read. Names of the
 * same tensor share a storage. Source: torch/serialization.py, torch/_utils.py. Read first:
 * torch_write.h.
 */
#include "import/write/torch_write.h"
#include <stdio.h>

enum { ALIGNMENT = 64, FIXED = 4, NAME_MAX_BYTES = 65536 };

/* What the elements are called: a storage class, or a dtype over an untyped storage. */
typedef struct torch_type {
    uint32_t id;
    const char *storage; /* NULL: there is none */
    const char *dtype;
} torch_type;

static const torch_type types[] = {
    {SFT_F64, "DoubleStorage", "float64"},
    {SFT_F32, "FloatStorage", "float32"},
    {SFT_F16, "HalfStorage", "float16"},
    {SFT_BF16, "BFloat16Storage", "bfloat16"},
    {SFT_I64, "LongStorage", "int64"},
    {SFT_I32, "IntStorage", "int32"},
    {SFT_I16, "ShortStorage", "int16"},
    {SFT_I8, "CharStorage", "int8"},
    {SFT_U8, "ByteStorage", "uint8"},
    {SFT_BOOL, "BoolStorage", "bool"},
    {SFT_C64, "ComplexFloatStorage", "complex64"},
    {SFT__C128, "ComplexDoubleStorage", "complex128"},
    {SFT__C32, NULL, "complex32"},
    {SFT_U16, NULL, "uint16"},
    {SFT_U32, NULL, "uint32"},
    {SFT_U64, NULL, "uint64"},
    {SFT_F8_E5M2, NULL, "float8_e5m2"},
    {SFT_F8_E4M3, NULL, "float8_e4m3fn"},
    {SFT_F8_E8M0, NULL, "float8_e8m0fnu"},
    {SFT_F8_E4M3FNUZ, NULL, "float8_e4m3fnuz"},
    {SFT_F8_E5M2FNUZ, NULL, "float8_e5m2fnuz"},
    {SFT_F4, NULL, "float4_e2m1fn_x2"},
};

static const torch_type *type_of(const sft_dtype *dtype) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id == dtype->id) {
            return &types[i];
        }
    }
    return NULL;
}

/* float4_e2m1fn_x2 counts pairs. */
static uint64_t per_unit(const sft_import_item *item) {
    return item->dtype->id == SFT_F4 ? 2 : 1;
}

static sft_status check(const sft_import_item *item, sft_error *err) {
    const sft_tensor *t = item->tensor;

    if (type_of(item->dtype) == NULL) {
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

/* ---------------------------------------------------------------- opcodes */

void sft__import_put_byte(sft__base_buf *b, uint8_t op) {
    sft__base_buf_add(b, &op, 1);
}

void sft__import_put_le32(sft__base_buf *b, uint32_t v) {
    uint8_t bytes[4];
    sft__base_store_le32(bytes, v);
    sft__base_buf_add(b, bytes, sizeof bytes);
}

void sft__import_put_text(sft__base_buf *b, const char *text, size_t len) {
    sft__import_put_byte(b, 'X'); /* BINUNICODE */
    sft__import_put_le32(b, (uint32_t)len);
    sft__base_buf_add(b, text, len);
}

void sft__import_put_int(sft__base_buf *b, int64_t v) {
    uint8_t bytes[8];

    if (v >= 0 && v < 256) {
        sft__import_put_byte(b, 'K'); /* BININT1 */
        sft__import_put_byte(b, (uint8_t)v);
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        sft__import_put_byte(b, 'J'); /* BININT */
        sft__import_put_le32(b, (uint32_t)(int32_t)v);
    } else {
        sft__import_put_byte(b, 0x8a); /* LONG1 */
        sft__import_put_byte(b, sizeof bytes);
        sft__base_store_le64(bytes, (uint64_t)v);
        sft__base_buf_add(b, bytes, sizeof bytes);
    }
}

static uint32_t remember(sft__import_torch_writer *t) {
    sft__import_put_byte(&t->pickle, 'r'); /* LONG_BINPUT */
    sft__import_put_le32(&t->pickle, ++t->memo);
    return t->memo;
}

static void recall(sft__import_torch_writer *t, uint32_t memo) {
    sft__import_put_byte(&t->pickle, 'j'); /* LONG_BINGET */
    sft__import_put_le32(&t->pickle, memo);
}

enum { REBUILD_V2 = 0, REBUILD_V3 = 1, ORDERED_DICT = 2, STORAGE = 3, CPU = 4 };

/* One of what every tensor needs: written once, then recalled. */
static void put_kept(sft__import_torch_writer *t, int which) {
    static const char *const words[] = {"ctorch._utils\n_rebuild_tensor_v2\n",
                                        "ctorch._utils\n_rebuild_tensor_v3\n",
                                        "ccollections\nOrderedDict\n", "storage", "cpu"};
    if (t->kept[which] != 0) {
        recall(t, t->kept[which]);
        return;
    }
    if (which < STORAGE) {
        sft__base_buf_text(&t->pickle, words[which]);
    } else {
        sft__import_put_text(&t->pickle, words[which], strlen(words[which]));
    }
    t->kept[which] = remember(t);
}

void sft__import_put_ordered_dict(sft__import_torch_writer *t) {
    put_kept(t, ORDERED_DICT);
    sft__base_buf_text(&t->pickle, ")R"); /* EMPTY_TUPLE REDUCE */
}

/* ('storage', class, key, 'cpu', elements) as a persistent id */
static void put_storage(sft__import_torch_writer *t, size_t index, const torch_type *type) {
    const sft_import_item *item = &t->job->c.items[index];
    const bool typed = type->storage != NULL && t->untyped[index] == 0;
    sft__base_buf *b = &t->pickle;
    char key[24];
    const int n = snprintf(key, sizeof key, "%zu", index);

    sft__import_put_byte(b, '(');
    put_kept(t, STORAGE);
    if (typed) {
        sft__base_buf_text(b, "ctorch\n");
        sft__base_buf_text(b, type->storage);
        sft__base_buf_text(b, "\n");
    } else {
        sft__base_buf_text(b, "ctorch.storage\nUntypedStorage\n");
    }
    sft__import_put_text(b, key, (size_t)n);
    put_kept(t, CPU);
    sft__import_put_int(b,
                        (int64_t)(typed ? item->nbytes / item->dtype->block_bytes : item->nbytes));
    sft__base_buf_text(b, "tQ"); /* TUPLE BINPERSID */
}

/* Strides and offset, in elements as torch counts them. */
static sft_status place_of(sft__import_torch_writer *t, const sft__import_called *c,
                           uint64_t **strides, uint64_t *offset, sft_error *err) {
    const sft_import_item *item = &t->job->c.items[c->item];
    const sft_tensor *tensor = c->part != NULL ? c->part : item->tensor;
    const sft_piece *piece = c->part != NULL ? &c->part->pieces[0] : NULL;
    const uint64_t pairs = per_unit(item);
    const uint32_t rank = tensor->rank;
    uint64_t stride = 1;

    SFT_TRY(sft__import_export_alloc(t->job, strides, rank, sizeof **strides, err));
    for (uint32_t d = rank; d-- > 0;) { /* no overflow unless empty: then any stride will do */
        (*strides)[d] = stride > INT64_MAX ? 1 : stride;
        stride *= d + 1 == rank ? tensor->shape[d] / pairs : tensor->shape[d];
        stride = stride == 0 ? 1 : stride;
        if (piece != NULL && piece->strides != NULL) {
            (*strides)[d] = (uint64_t)piece->strides[d] / tensor->dtype->block_bytes;
        }
    }
    *offset = piece != NULL && tensor->nbytes != 0
                  ? (piece->offset - item->tensor->pieces[0].offset) / tensor->dtype->block_bytes
                  : 0;
    return SFT_OK;
}

sft_status sft__import_put_tensor(sft__import_torch_writer *t, sft__import_called *c,
                                  sft_error *err) {
    const sft_import_item *item = &t->job->c.items[c->item];
    const sft_tensor *tensor = c->part != NULL ? c->part : item->tensor;
    const torch_type *type = type_of(c->part != NULL ? tensor->dtype : item->dtype);
    const bool typed = type != NULL && type->storage != NULL && t->untyped[c->item] == 0;
    const uint64_t pairs = per_unit(item);
    sft__base_buf *b = &t->pickle;
    uint64_t *strides;
    uint64_t offset;

    if (c->memo != 0) {
        recall(t, c->memo);
        return SFT_OK;
    }
    if (type == NULL) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, c->name, c->len,
                                     "PyTorch has no type %s: leave it out", tensor->dtype->name);
    }
    SFT_TRY(place_of(t, c, &strides, &offset, err));
    put_kept(t, typed ? REBUILD_V2 : REBUILD_V3);
    sft__import_put_byte(b, '(');
    put_storage(t, c->item, type);
    sft__import_put_int(b, (int64_t)offset);
    sft__import_put_byte(b, '(');
    for (uint32_t d = 0; d < tensor->rank; d++) {
        sft__import_put_int(
            b, (int64_t)(d + 1 == tensor->rank ? tensor->shape[d] / pairs : tensor->shape[d]));
    }
    sft__base_buf_text(b, "t(");
    for (uint32_t d = 0; d < tensor->rank; d++) {
        sft__import_put_int(b, (int64_t)strides[d]);
    }
    sft__import_put_byte(b, 't');
    sft__import_put_byte(b, 0x89); /* requires_grad False */
    sft__import_put_ordered_dict(t);
    if (!typed) {
        sft__base_buf_text(b, "ctorch\n");
        sft__base_buf_text(b, type->dtype);
        sft__base_buf_text(b, "\n");
    }
    sft__base_buf_text(b, "tR");
    c->memo = remember(t);
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
    if (!sft__base_grow(a, &t->called, &t->called_room, most, sizeof *t->called) ||
        !sft__base_strmap_init(&t->names, t->called, sizeof *t->called, most, a)) {
        return sft__base_fail_nomem(err, most * sizeof *t->called);
    }
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
    if (status == SFT_OK) {
        status = put_pickle(&t, err);
    }
    if (status == SFT_OK) {
        status = write_members(&t, err);
    }
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
    if (status == SFT_OK) {
        status = sft_builder_add_file(builder, &file, NULL, err);
    }
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
    if (status == SFT_OK) {
        status = sft_builder_finish(out, builder, err);
    }
    sft_builder_free(builder);
    return status;
}

const sft__import_writer_row sft__import_writer_torch = {SFT_IMPORT_TORCH_ZIP, false, true, check,
                                                         write_torch,          reopen};
