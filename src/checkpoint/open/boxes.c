/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/boxes.c - checkpoints that say of each file which box of each tensor it holds:
 * PyTorch's shards in safetensors (in their metadata), MindFormers 2.0 (metadata.json) and
 * topology.json. Files are numbered, a number is a rank, and the boxes become a layout set. Read
 * checkpoint/open/checkpoint.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/open/checkpoint.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- boxes, one by one */

typedef struct one_box {
    const char *name;
    size_t len;
    uint64_t file;
    const uint64_t *numbers; /* dims starts, then dims counts */
    size_t dims;
} one_box;

typedef struct collection {
    sft_checkpoint *c;
    sft_layout_set *set;
    one_box *list;
    size_t count;
    size_t room;
} collection;

/* A box of `box`, whose numbers the caller then fills in. */
static sft_status collect(collection *b, const one_box *box, uint64_t **numbers, sft_error *err) {
    if (box->dims > SFT_LAYOUT_RANK) {
        return sft__base_fail_tensor(err, SFT_E_LIMIT, SFT_NO_OFFSET, box->name, box->len,
                                     "more than %u dimensions", SFT_LAYOUT_RANK);
    }
    SFT_NEED(sft__base_grow(b->c->allocator, &b->list, &b->room, b->count + 1, sizeof *b->list),
             (b->count + 1) * sizeof *b->list, err);
    SFT_TRY(sft__checkpoint_lset_take(b->set, numbers, 2 * box->dims, sizeof **numbers, err));
    one_box *const one = &b->list[b->count++];
    *one = *box;
    one->numbers = *numbers;
    return sft__checkpoint_lset_copy(b->set, &one->name, box->name, box->len, err);
}

static int by_name_and_file(const void *a, const void *b) {
    const one_box *const x = a;
    const one_box *const y = b;
    const int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);
    if (order != 0 || x->len != y->len) {
        return order != 0 ? order : x->len < y->len ? -1 : 1;
    }
    return x->file < y->file ? -1 : x->file > y->file;
}

/* The global shape is where the boxes end, unless `shape` tells it. */
static sft_status add_entry(collection *b, const one_box *list, size_t count, sft_error *err) {
    sft__checkpoint_lset_entry *e;
    uint64_t *ranks, *boxes, *shape;
    const size_t dims = list[0].dims;
    SFT_TRY(sft__checkpoint_lset_add(b->set, &e, err));
    SFT_TRY(sft__checkpoint_lset_take(b->set, &ranks, count, sizeof *ranks, err));
    /* cannot overflow: dims <= SFT_LAYOUT_RANK */
    SFT_TRY(sft__checkpoint_lset_take(b->set, &boxes, count, (2 * dims + 1) * sizeof *boxes, err));
    SFT_TRY(sft__checkpoint_lset_take(b->set, &shape, dims, sizeof *shape, err));
    for (size_t i = 0; i < count; i++) {
        if (list[i].dims != dims) {
            return sft__base_fail_tensor(
                err, SFT_E_MISMATCH, SFT_NO_OFFSET, list[i].name, list[i].len,
                "has %llu dimensions in one file and %llu in another", (unsigned long long)dims,
                (unsigned long long)list[i].dims);
        }
        ranks[i] = list[i].file;
        memcpy(boxes + i * 2 * dims, list[i].numbers, 2 * dims * sizeof *boxes);
        for (size_t d = 0; d < dims; d++) {
            uint64_t end;
            if (!sft__base_add64(list[i].numbers[d], list[i].numbers[dims + d], &end)) {
                return sft__base_fail_tensor(err, SFT_E_OVERFLOW, SFT_NO_OFFSET, list[i].name,
                                             list[i].len, "a box ends beyond 2^64");
            }
            shape[d] = end > shape[d] ? end : shape[d];
        }
    }
    e->name = list[0].name;
    e->name_len = list[0].len;
    e->kind = SFT__LSET_BOXES;
    e->ranks = ranks;
    e->boxes = boxes;
    e->box_count = count;
    e->dims = dims;
    e->shape = shape;
    return SFT_OK;
}

static bool same_name(const one_box *a, const one_box *b) {
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

/* All boxes as the checkpoint's layouts. */
static sft_status finish_set(collection *b, sft_error *err) {
    if (b->count > 1) {
        qsort(b->list, b->count, sizeof *b->list, by_name_and_file);
    }
    for (size_t i = 0; i < b->count;) {
        size_t n = 1;
        while (i + n < b->count && same_name(&b->list[i], &b->list[i + n])) {
            n++;
        }
        SFT_TRY(add_entry(b, b->list + i, n, err));
        i += n;
    }
    return sft__checkpoint_lset_finish(b->set, err);
}

static sft_status begin(collection *b, sft_checkpoint *c, sft_error *err) {
    sft_layout_set_options options;
    memset(b, 0, sizeof *b);
    b->c = c;
    SFT_INIT(&options);
    options.allocator = c->allocator;
    options.limits = &c->limits;
    SFT_TRY(sft__checkpoint_lset_create(&c->own, &options, err));
    b->set = c->own;
    b->set->form = SFT_LAYOUT_FORM_TOPOLOGY;
    c->layouts = c->own;
    return SFT_OK;
}

static void end(collection *b) {
    sft__base_free(b->c->allocator, b->list, b->room * sizeof *b->list);
}

/* ---------------------------------------------------------------- PyTorch */

/* {"NAME": {"saved_offsets": [...]}, ...} of one file, as a table. */
typedef struct sharding_info {
    struct {
        const char *name;
        size_t len;
        const sft__layout_jnode *node;
    } *list;
    size_t room;
    sft__base_strmap map;
    bool given;
} sharding_info;

static sft_status read_info(collection *b, const sft_catalog *catalog, sharding_info *info,
                            sft_error *err) {
    static const char key[] = "DCP_SHARDING_INFO";
    size_t len = 0;
    size_t n = 0;
    const char *const text = sft_catalog_metadata_find(catalog, 0, key, sizeof key - 1, &len);
    sft__layout_jnode *root;
    if (text == NULL) {
        return SFT_OK;
    }
    SFT_TRY(sft__layout_jtree_parse(&root, &b->set->arena, text, len, key, err));
    if (root->type != SFT__J_OBJECT) {
        return sft__base_fail(err, SFT_E_SCHEMA, "DCP_SHARDING_INFO: expected an object");
    }
    info->given = true;
    info->room = root->len + 1;
    info->list = sft__base_alloc_array(b->c->allocator, info->room, sizeof *info->list);
    SFT_NEED(info->list != NULL && sft__base_strmap_init(&info->map, info->list, sizeof *info->list,
                                                         info->room, b->c->allocator),
             info->room * sizeof *info->list, err);
    for (const sft__layout_jnode *m = root->first; m != NULL; m = m->next, n++) {
        info->list[n].name = m->key;
        info->list[n].len = m->key_len;
        info->list[n].node = m;
        if (sft__base_strmap_add(&info->map, n) != SFT__STRMAP_NONE) {
            return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, m->key, m->key_len,
                                         "DCP_SHARDING_INFO names it twice");
        }
    }
    return SFT_OK;
}

/* The offsets of a tensor, or zeros in a file that says none at all. */
static sft_status take_tensor(collection *b, const sharding_info *info, const sft_tensor *t,
                              uint64_t file, sft_error *err) {
    const sft__layout_jnode *offsets = NULL;
    uint64_t *numbers;
    if (info->given) {
        const size_t at = sft__base_strmap_find(&info->map, t->name, t->name_len);
        offsets = at != SFT__STRMAP_NONE
                      ? sft__layout_jtree_get(info->list[at].node, "saved_offsets")
                      : NULL;
        if (offsets == NULL || offsets->type != SFT__J_ARRAY || offsets->len != t->rank) {
            return sft__base_fail_tensor(
                err, SFT_E_SCHEMA, SFT_NO_OFFSET, t->name, t->name_len,
                "DCP_SHARDING_INFO has no saved_offsets of %u dimensions for it",
                (unsigned)t->rank);
        }
    }
    const one_box box = {t->name, t->name_len, file, NULL, t->rank};
    SFT_TRY(collect(b, &box, &numbers, err));
    const sft__layout_jnode *m = offsets != NULL ? offsets->first : NULL;
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t v = 0;
        if (m != NULL && (!sft__layout_jtree_int(m, &v) || v < 0)) {
            return sft__base_fail_tensor(err, SFT_E_SCHEMA, SFT_NO_OFFSET, t->name, t->name_len,
                                         "DCP_SHARDING_INFO: an offset is no integer of 0 or more");
        }
        numbers[d] = (uint64_t)v;
        numbers[t->rank + d] = t->shape[d];
        m = m != NULL ? m->next : NULL;
    }
    return SFT_OK;
}

static sft_status take_file(collection *b, const sft_catalog *catalog, uint64_t file,
                            sft_error *err) {
    sharding_info info;
    memset(&info, 0, sizeof info);
    sft_status status = read_info(b, catalog, &info, err);
    for (size_t i = 0; i < sft_catalog_count(catalog) && status == SFT_OK; i++) {
        status = take_tensor(b, &info, sft_catalog_at(catalog, i), file, err);
    }
    sft__base_strmap_reset(&info.map);
    sft__base_free(b->c->allocator, info.list, info.room * sizeof *info.list);
    return status;
}

static sft_status take_files(collection *b, const sft__checkpoint_names *names, sft_error *err) {
    for (size_t i = 0; i < names->count; i++) {
        sft_catalog *catalog;
        bool missing;
        SFT_TRY(sft__checkpoint_open_named(b->c, names->list[i], &catalog, &missing, err));
        if (missing) {
            return sft__base_fail(err, SFT_E_CHANGED, "%s is not there any more", names->list[i]);
        }
        SFT_TRY(sft__checkpoint_add(b->c, i, catalog, err));
        SFT_TRY(take_file(b, catalog, i, err));
    }
    return finish_set(b, err);
}

sft_status sft__checkpoint_dcp(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_names names = {c, NULL, 0, 0, {".safetensors", NULL}};
    collection b;
    SFT_TRY(begin(&b, c, err));
    sft_status status = sft__checkpoint_list(&names, c->directory, err);
    if (status == SFT_OK) {
        status = take_files(&b, &names, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_note_shards(c, &names, err);
    }
    sft__checkpoint_names_reset(&names);
    end(&b);
    return status;
}

/* ---------------------------------------------------------------- files that a description names
 */

/* Opens those that are there, number i as rank i. */
static sft_status open_files(sft_checkpoint *c, const char *const *files, size_t count,
                             sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        sft_catalog *catalog;
        bool missing;
        SFT_TRY(sft__checkpoint_open_named(c, files[i], &catalog, &missing, err));
        if (!missing) {
            SFT_TRY(sft__checkpoint_add(c, i, catalog, err));
        }
    }
    if (c->count == 0) {
        return sft__base_fail(err, SFT_E_SHARD_MISSING, "none of the %llu files is there",
                              (unsigned long long)count);
    }
    return sft__checkpoint_check_named(c, err);
}

static sft_status read_description(sft_checkpoint *c, const char *name, sft__checkpoint_text *text,
                                   sft__layout_jnode **root, sft_error *err) {
    const char *path;
    SFT_TRY(sft__checkpoint_path(c, c->directory, name, &path, err));
    SFT_TRY(sft__checkpoint_read(c, path, text, err));
    SFT_TRY(sft__layout_jtree_parse(root, &c->arena, text->data, text->size, name, err));
    return SFT_OK;
}

static sft_status open_topology(sft_checkpoint *c, sft__checkpoint_text *text, sft_error *err) {
    const char **files;
    sft__layout_jnode *root;
    size_t n = 0;
    SFT_TRY(read_description(c, "topology.json", text, &root, err));
    SFT_TRY(sft__checkpoint_lset_read_topology(c->own, root, err));
    SFT_TRY(sft__checkpoint_lset_finish(c->own, err));
    const sft__layout_jnode *const list =
        sft__layout_jtree_get(root, "filenames"); /* a list: it was read */
    SFT_TRY(sft__checkpoint_lset_take(c->own, &files, list->len, sizeof *files, err));
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next) {
        if (m->type != SFT__J_STRING || strlen(m->text) != m->len) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, m->offset,
                                     "topology: expected the name of a file");
        }
        files[n++] = m->text;
    }
    return open_files(c, files, n, err);
}

sft_status sft__checkpoint_topology(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_text text;
    collection b;
    memset(&text, 0, sizeof text);
    text.allocator = c->allocator;
    SFT_TRY(begin(&b, c, err));
    const sft_status status = open_topology(c, &text, err);
    sft__checkpoint_text_reset(&text);
    return status;
}

/* ---------------------------------------------------------------- MindFormers 2.0 */

typedef struct file_name {
    const char *name; /* name, len first: a sft__base_strmap can index these */
    size_t len;
} file_name;

typedef struct mindformers {
    collection boxes;
    const sft__layout_jnode *tensors; /* state_dict_metadata */
    sft__base_strmap tensor_map;      /* of `by_name` */
    struct {
        const char *name;
        size_t len;
        const sft__layout_jnode *node;
    } *by_name;
    size_t tensor_room;
    sft__base_strmap chunk_map; /* of `chunks`, by the tensor's number and the offset, as bytes */
    struct {
        const char *key;
        size_t len;
        const sft__layout_jnode *shape; /* local_shape */
    } *chunks;
    size_t chunk_room;
    file_name *files;
    size_t file_count;
    size_t file_room;
    sft__base_strmap file_map;
} mindformers;

/* The text between Python's quotes: its escapes are taken out in place. p at the quote; NULL: no
 * such text. */
static const char *python_text(const char *p, const char *stop, char *out, size_t *len) {
    const char quote = *p++;
    *len = 0;
    while (p < stop && *p != quote) {
        if (*p == '\\') {
            p++;
            if (p == stop || (*p != '\\' && *p != '\'' && *p != '"')) {
                return NULL; /* \n, \x1b and the like: in no name of a parameter */
            }
        }
        out[(*len)++] = *p++;
    }
    return p < stop ? p + 1 : NULL;
}

static const char *blanks(const char *p, const char *stop) {
    while (p < stop && *p == ' ') {
        p++;
    }
    return p;
}

/* A tuple of integers, "()", "(3,)" or "(0, 4)"; p at its parenthesis. NULL: none, or too long. */
static const char *python_tuple(const char *p, const char *stop, uint64_t *out, size_t *count) {
    *count = 0;
    for (p = blanks(p + 1, stop); p < stop && *p != ')'; p = blanks(p, stop)) {
        uint64_t v = 0;
        size_t digits = 0;
        while (p < stop && *p >= '0' && *p <= '9' && digits < 19) {
            v = v * 10 + (uint64_t)(*p++ - '0'); /* below 10^19 */
            digits++;
        }
        if (digits == 0 || *count == SFT_LAYOUT_RANK) {
            return NULL;
        }
        out[(*count)++] = v;
        p = blanks(p, stop);
        if (p < stop && *p == ',') {
            p++;
        } else if (p < stop && *p != ')') {
            return NULL;
        }
    }
    return p < stop ? p + 1 : NULL;
}

/* "('NAME', (0, 4))" as Python prints such a tuple. name: room for as many bytes as the key has. */
static bool shard_key(const sft__layout_jnode *item, char *name, size_t *name_len, uint64_t *offset,
                      size_t *dims) {
    const char *const stop = item->key + item->key_len;
    const char *p = item->key;
    if (item->key_len < 2 || *p++ != '(' || (*p != '\'' && *p != '"')) {
        return false;
    }
    p = python_text(p, stop, name, name_len);
    if (p == NULL) {
        return false;
    }
    p = blanks(p, stop);
    if (p == stop || *p++ != ',') {
        return false;
    }
    p = blanks(p, stop);
    if (p == stop || *p != '(') {
        return false;
    }
    p = python_tuple(p, stop, offset, dims);
    return p != NULL && p + 1 == stop && *p == ')';
}

static bool equals(const sft__layout_jnode *list, const uint64_t *numbers, size_t count) {
    int64_t v;
    size_t n = 0;
    if (list == NULL || list->type != SFT__J_ARRAY || list->len != count) {
        return false;
    }
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next) {
        if (!sft__layout_jtree_int(m, &v) || v < 0 || (uint64_t)v != numbers[n++]) {
            return false;
        }
    }
    return true;
}

static sft_status about(const sft__layout_jnode *item, const char *what, sft_error *err) {
    return sft__base_fail_tensor(err, SFT_E_SCHEMA, item->offset, item->key, item->key_len,
                                 "metadata.json: %s", what);
}

/* Every chunk of every tensor, by where it begins; of two at one offset the first counts. */
static sft_status note_chunks(mindformers *m, size_t tensor, const sft__layout_jnode *list,
                              size_t *count, sft_error *err) {
    for (const sft__layout_jnode *c = list->first; c != NULL; c = c->next) {
        const sft__layout_jnode *const offset = sft__layout_jtree_get(c, "global_offset");
        uint64_t *key;
        size_t n = 0;
        if (offset == NULL || offset->type != SFT__J_ARRAY || offset->len > SFT_LAYOUT_RANK) {
            continue; /* an error if it is asked for */
        }
        SFT_TRY(sft__checkpoint_lset_take(m->boxes.set, &key, offset->len + 1, sizeof *key, err));
        key[n++] = tensor;
        const sft__layout_jnode *v = offset->first;
        for (int64_t number; v != NULL && sft__layout_jtree_int(v, &number) && number >= 0;
             v = v->next) {
            key[n++] = (uint64_t)number;
        }
        if (v == NULL) {
            m->chunks[*count].key = (const char *)key;
            m->chunks[*count].len = n * sizeof *key;
            m->chunks[*count].shape = sft__layout_jtree_get(c, "local_shape");
            *count += sft__base_strmap_add(&m->chunk_map, *count) == SFT__STRMAP_NONE;
        }
    }
    return SFT_OK;
}

static sft_status index_chunks(mindformers *m, sft_error *err) {
    const sft_allocator *const a = m->boxes.c->allocator;
    size_t tensor = 0;
    size_t count = 0;
    m->chunk_room = 1;
    for (const sft__layout_jnode *t = m->tensors->first; t != NULL; t = t->next) {
        const sft__layout_jnode *const list = sft__layout_jtree_get(t, "chunk");
        m->chunk_room += list != NULL ? list->len : 0; /* members of a text: no overflow */
    }
    m->chunks = sft__base_alloc_array(a, m->chunk_room, sizeof *m->chunks);
    SFT_NEED(m->chunks != NULL && sft__base_strmap_init(&m->chunk_map, m->chunks, sizeof *m->chunks,
                                                        m->chunk_room, a),
             m->chunk_room * sizeof *m->chunks, err);
    for (const sft__layout_jnode *t = m->tensors->first; t != NULL; t = t->next, tensor++) {
        const sft__layout_jnode *const list = sft__layout_jtree_get(t, "chunk");
        if (list != NULL && list->type == SFT__J_ARRAY) {
            SFT_TRY(note_chunks(m, tensor, list, &count, err));
        }
    }
    return SFT_OK;
}

/* The local shape of the chunk at this offset. */
static sft_status find_chunk(const mindformers *m, const sft__layout_jnode *item,
                             const one_box *box, const sft__layout_jnode **shape, sft_error *err) {
    uint64_t key[SFT_LAYOUT_RANK + 1];
    const size_t tensor = sft__base_strmap_find(&m->tensor_map, box->name, box->len);
    key[0] = tensor;
    memcpy(key + 1, box->numbers, box->dims * sizeof *key);
    const size_t at =
        sft__base_strmap_find(&m->chunk_map, (const char *)key, (box->dims + 1) * sizeof *key);
    *shape = at != SFT__STRMAP_NONE ? m->chunks[at].shape : NULL;
    if (*shape == NULL || (*shape)->type != SFT__J_ARRAY || (*shape)->len != box->dims) {
        return about(item, "no chunk of state_dict_metadata is at this offset", err);
    }
    return SFT_OK;
}

static sft_status file_number(mindformers *m, const sft__layout_jnode *node, uint64_t *number,
                              sft_error *err) {
    const sft__layout_jnode *const name = sft__layout_jtree_get(node, "file_name");
    if (name == NULL || name->type != SFT__J_STRING || strlen(name->text) != name->len) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, node->offset,
                                 "metadata.json: storage_data without file_name");
    }
    size_t at = m->file_count != 0 ? sft__base_strmap_find(&m->file_map, name->text, name->len)
                                   : SFT__STRMAP_NONE;
    if (at == SFT__STRMAP_NONE) {
        at = m->file_count; /* room was made for one per storage_data entry */
        m->files[at].name = name->text;
        m->files[at].len = name->len;
        (void)sft__base_strmap_add(&m->file_map, at);
        m->file_count++;
    }
    *number = at;
    return SFT_OK;
}

/* One box in one file, or the same box in several. */
static sft_status take_shard(mindformers *m, const sft__layout_jnode *item, char *name,
                             sft_error *err) {
    uint64_t offset[SFT_LAYOUT_RANK];
    const sft__layout_jnode *shape;
    one_box box = {name, 0, 0, offset, 0};
    if (!shard_key(item, name, &box.len, offset, &box.dims)) {
        return about(item, "expected a key like ('name', (0, 0))", err);
    }
    SFT_TRY(find_chunk(m, item, &box, &shape, err));
    if (item->type != SFT__J_ARRAY) {
        return about(item, "expected a list of files", err);
    }
    for (const sft__layout_jnode *f = item->first; f != NULL; f = f->next) {
        const sft__layout_jnode *size = shape->first;
        uint64_t *numbers;
        SFT_TRY(file_number(m, f, &box.file, err));
        SFT_TRY(collect(&m->boxes, &box, &numbers, err));
        for (size_t d = 0; d < box.dims; d++, size = size->next) {
            int64_t v;
            if (!sft__layout_jtree_int(size, &v) || v < 0) {
                return about(item, "local_shape is no list of sizes", err);
            }
            numbers[d] = offset[d];
            numbers[box.dims + d] = (uint64_t)v;
        }
    }
    return SFT_OK;
}

/* Tables over the tensors and over as many files as there can be. */
static sft_status prepare(mindformers *m, const sft__layout_jnode *storage, sft_error *err) {
    const sft_allocator *const a = m->boxes.c->allocator;
    size_t files = 1;
    size_t n = 0;
    for (const sft__layout_jnode *item = storage->first; item != NULL; item = item->next) {
        files += item->len; /* members of a text that was read: no overflow */
    }
    m->tensor_room = m->tensors->len + 1;
    m->by_name = sft__base_alloc_array(a, m->tensor_room, sizeof *m->by_name);
    m->files = sft__base_alloc_array(a, files, sizeof *m->files);
    m->file_room = files;
    SFT_NEED(m->by_name != NULL && m->files != NULL &&
                 sft__base_strmap_init(&m->tensor_map, m->by_name, sizeof *m->by_name,
                                       m->tensor_room, a) &&
                 sft__base_strmap_init(&m->file_map, m->files, sizeof *m->files, files, a),
             files * sizeof *m->files, err);
    for (const sft__layout_jnode *t = m->tensors->first; t != NULL; t = t->next, n++) {
        m->by_name[n].name = t->key;
        m->by_name[n].len = t->key_len;
        m->by_name[n].node = t;
        if (sft__base_strmap_add(&m->tensor_map, n) != SFT__STRMAP_NONE) {
            return about(t, "tensor given twice", err);
        }
    }
    return index_chunks(m, err);
}

/* Of each tensor the global shape must be where its boxes end: the rest would be a hole that nobody
 * names. */
static sft_status check_shapes(const mindformers *m, sft_error *err) {
    const sft_layout_set *const set = m->boxes.set;
    for (size_t i = 0; i < set->count; i++) {
        const sft__checkpoint_lset_entry *const e = &set->entries[i];
        const size_t at = sft__base_strmap_find(&m->tensor_map, e->name, e->name_len);
        const sft__layout_jnode *const shape =
            at != SFT__STRMAP_NONE ? sft__layout_jtree_get(m->by_name[at].node, "global_shape")
                                   : NULL;
        if (shape != NULL && !equals(shape, e->shape, e->dims)) {
            return sft__base_fail_tensor(
                err, SFT_E_HOLE, shape->offset, e->name, e->name_len,
                "metadata.json: the chunks do not end where global_shape does");
        }
    }
    return SFT_OK;
}

static sft_status read_metadata(mindformers *m, const sft__layout_jnode *root, sft_error *err) {
    const sft__layout_jnode *const storage = sft__layout_jtree_get(root, "storage_data");
    size_t longest = 0;
    char *name;
    m->tensors = sft__layout_jtree_get(root, "state_dict_metadata");
    if (m->tensors == NULL || storage == NULL || m->tensors->type != SFT__J_OBJECT ||
        storage->type != SFT__J_OBJECT) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, root->offset,
                                 "metadata.json: state_dict_metadata and storage_data are needed");
    }
    SFT_TRY(prepare(m, storage, err));
    for (const sft__layout_jnode *item = storage->first; item != NULL; item = item->next) {
        longest = item->key_len > longest ? item->key_len : longest;
    }
    SFT_TRY(sft__checkpoint_lset_take(m->boxes.set, &name, longest, 1, err));
    for (const sft__layout_jnode *item = storage->first; item != NULL; item = item->next) {
        SFT_TRY(take_shard(m, item, name, err));
    }
    SFT_TRY(finish_set(&m->boxes, err));
    return check_shapes(m, err);
}

static sft_status open_mindformers(mindformers *m, sft__checkpoint_text *text, sft_error *err) {
    sft_checkpoint *const c = m->boxes.c;
    const char **files;
    sft__layout_jnode *root;
    SFT_TRY(read_description(c, "metadata.json", text, &root, err));
    SFT_TRY(read_metadata(m, root, err));
    SFT_TRY(sft__checkpoint_lset_take(m->boxes.set, &files, m->file_count, sizeof *files, err));
    for (size_t i = 0; i < m->file_count; i++) {
        files[i] = m->files[i].name;
    }
    return open_files(c, files, m->file_count, err);
}

/* The directory of all iterations: the tracker says which one was committed last. */
static sft_status find_iteration(sft_checkpoint *c, sft_error *err) {
    char directory[] = "iteration_00000000";
    sft__checkpoint_text text;
    const char *path;
    uint64_t number = 0;
    size_t n = 0;
    SFT_TRY(sft__checkpoint_path(c, c->directory, "latest_checkpointed_iteration.txt", &path, err));
    if (sft__checkpoint_read(c, path, &text, NULL) != SFT_OK) {
        return SFT_OK; /* the directory of one iteration */
    }
    while (n < text.size && n < 8 && text.data[n] >= '0' && text.data[n] <= '9') {
        number = number * 10 + (uint64_t)(text.data[n++] - '0');
    }
    const bool ok = n != 0 && (n == text.size || text.data[n] == '\n' || text.data[n] == '\r');
    sft__checkpoint_text_reset(&text);
    if (!ok) {
        return sft__base_fail(err, SFT_E_SCHEMA, "%s holds no number of an iteration", path);
    }
    for (size_t i = sizeof directory - 1; number != 0; number /= 10) {
        directory[--i] = (char)('0' + number % 10); /* at most eight digits */
    }
    return sft__checkpoint_path(c, c->directory, directory, &c->directory, err);
}

sft_status sft__checkpoint_mindformers(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_text text;
    mindformers m;
    memset(&m, 0, sizeof m);
    memset(&text, 0, sizeof text);
    text.allocator = c->allocator;
    SFT_TRY(find_iteration(c, err));
    SFT_TRY(begin(&m.boxes, c, err));
    const sft_status status = open_mindformers(&m, &text, err);
    sft__base_strmap_reset(&m.tensor_map);
    sft__base_strmap_reset(&m.file_map);
    sft__base_strmap_reset(&m.chunk_map);
    sft__base_free(c->allocator, m.chunks, m.chunk_room * sizeof *m.chunks);
    sft__base_free(c->allocator, m.by_name, m.tensor_room * sizeof *m.by_name);
    sft__base_free(c->allocator, m.files, m.file_room * sizeof *m.files);
    end(&m.boxes);
    sft__checkpoint_text_reset(&text);
    return status;
}
