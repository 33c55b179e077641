/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/dcp/dcp.c - .metadata of torch.distributed.checkpoint (Metadata, a dataclass): the global
 * shape, type and boxes of every tensor, and the place of each box. Every box must be there, and
 * together they must be the tensor. Objects that were saved whole (numbers, texts, lists) are named
 * and left out. Source: torch/distributed/checkpoint/metadata.py, filesystem.py of torch 2.0 to
 * 2.13. Read first: dcp.h.
 */
#include "import/dcp/dcp.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include <stdio.h>
#include <stdlib.h>

static const char module[] = "torch.distributed.checkpoint.metadata";

static bool probe(const sft__import_probe *p) {
    const size_t most = p->head_len < 256 ? p->head_len : 256;
    const size_t n = sizeof module - 1;

    if (p->head_len < 64 || p->head[0] != 0x80) {
        return false;
    }
    for (size_t i = 0; i + n <= most; i++) {
        if (p->head[i] == 't' && memcmp(p->head + i, module, n) == 0) {
            return true;
        }
    }
    return false;
}

static const sft__import_pk_node *node(const sft__import_dcp *d, uint32_t id) {
    return sft__import_pk_at(&d->p, id);
}

static sft_status bad(sft_error *err, const char *text) {
    return sft__base_fail(err, SFT_E_SCHEMA, "dcp-metadata: %s", text);
}

/* Is it an object of this class? Of which module differs between versions. */
static bool is_a(const sft__import_dcp *d, uint32_t id, const char *class) {
    const sft__import_pk_node *n = node(d, id);
    const sft__import_pk_node *c = node(d, n->callable);
    const size_t len = strlen(class);

    return n->type == SFT__PK_CALL && c->type == SFT__PK_GLOBAL && c->count > len &&
           strncmp(c->u.text, "torch.distributed.", 18) == 0 &&
           c->u.text[c->count - len - 1] == '.' &&
           memcmp(c->u.text + c->count - len, class, len) == 0;
}

static uint32_t field(const sft__import_dcp *d, uint32_t id, const char *name) {
    return sft__import_pk_get(&d->p, node(d, id)->state, name);
}

/* ---------------------------------------------------------------- storage_data */

/* (MetadataIndex, _StorageInfo) */
static sft_status read_item(sft__import_dcp *d, uint32_t key, uint32_t value,
                            sft__import_dcp_item *item, sft_error *err) {
    const sft__import_pk_node *name = node(d, field(d, key, "fqn"));
    const uint32_t offset = field(d, key, "offset");
    const sft__import_pk_node *path = node(d, field(d, value, "relative_path"));
    const uint32_t transforms = field(d, value, "transform_descriptors");
    uint64_t *at;

    memset(item, 0, sizeof *item);
    if (!is_a(d, key, "MetadataIndex") || name->type != SFT__PK_STR ||
        !is_a(d, value, "_StorageInfo") || path->type != SFT__PK_STR ||
        !sft__import_pk_uint(&d->p, field(d, value, "offset"), &item->offset) ||
        !sft__import_pk_uint(&d->p, field(d, value, "length"), &item->length)) {
        return bad(err, "an entry of storage_data that is no place");
    }
    if (node(d, transforms)->count != 0) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, name->u.text,
                                     name->count,
                                     "dcp-metadata: it was transformed when it was written "
                                     "(compressed, encrypted), which is not read");
    }
    if (path->count == 0 || memchr(path->u.text, '\0', path->count) != NULL) {
        return bad(err, "a file without a name");
    }
    item->name = name->u.text;
    item->name_len = name->count;
    item->path = path->u.text;
    if (node(d, offset)->type != SFT__PK_NONE) {
        SFT_TRY(sft__import_torch_numbers(&d->t, offset, "box", &at, &item->rank, err));
        item->at = at;
    }
    return SFT_OK;
}

static sft_status read_items(sft__import_dcp *d, uint32_t storage, sft_error *err) {
    const sft__import_pk_node *n = node(d, storage);
    uint32_t key;
    uint32_t value;

    if (n->type != SFT__PK_DICT) {
        return bad(err, "no storage_data: which file a tensor lies in is not said");
    }
    SFT_TRY(sft__import_alloc(d->job, &d->items, n->count / 2, sizeof *d->items, err));
    for (sft__import_pk_iter it = sft__import_pk_begin(n);
         sft__import_pk_next(&it, &key) && sft__import_pk_next(&it, &value);) {
        SFT_TRY(read_item(d, key, value, &d->items[d->item_count], err));
        d->item_count++;
    }
    return sft__import_dcp_files(d, err);
}

/* ---------------------------------------------------------------- tensors */

typedef struct tensor {
    const char *name; /* whole */
    size_t name_len;
    const sft_dtype *dtype;
    uint64_t *shape;
    uint32_t rank;
} tensor;

static sft_status of_tensor(sft_error *err, sft_status status, const tensor *t, const char *what) {
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, t->name, t->name_len,
                                 "dcp-metadata: %s", what);
}

/* properties: the state of TensorProperties is (dtype, layout, ...), in some versions a dict. */
static sft_status read_properties(sft__import_dcp *d, uint32_t id, tensor *t, sft_error *err) {
    const sft__import_pk_node *p = node(d, field(d, id, "properties"));
    const uint32_t dtype = node(d, p->state)->type == SFT__PK_TUPLE
                               ? sft__import_pk_item(&d->p, p->state, 0)
                               : sft__import_pk_get(&d->p, p->state, "dtype");
    const sft__import_pk_node *g = node(d, dtype);

    t->dtype = g->type == SFT__PK_GLOBAL && g->known == SFT__G_DTYPE && g->argument != 0
                   ? sft__import_dtype(g->argument)
                   : NULL;
    if (t->dtype == NULL) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, t->name, t->name_len,
                                     "torch-dtype: a tensor of the type %.100s",
                                     g->type == SFT__PK_GLOBAL ? g->u.text : "(none)");
    }
    SFT_TRY(
        sft__import_torch_numbers(&d->t, field(d, id, "size"), "size", &t->shape, &t->rank, err));
    if (t->dtype->block_elements != 1 && t->rank == 0) {
        return of_tensor(err, SFT_E_UNSUPPORTED, t, "a scalar of several values in a byte");
    }
    return SFT_OK;
}

static int by_start(const void *a, const void *b) {
    const sft_piece *x = a;
    const sft_piece *y = b;
    return x->start[0] < y->start[0] ? -1 : x->start[0] > y->start[0];
}

static bool overlap(const sft_piece *a, const sft_piece *b, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        if (a->start[k] >= b->start[k] + b->count[k] || b->start[k] >= a->start[k] + a->count[k]) {
            return false;
        }
    }
    return true;
}

/* Boxes inside the shape, as many elements as it has, no two of them sharing one: all of it. */
static sft_status check_cover(const sft__import_dcp *d, const tensor *t, uint32_t count,
                              sft_error *err) {
    uint64_t want = 1;
    uint64_t have = 0;

    for (uint32_t k = 0; k < t->rank; k++) {
        if (!sft__base_mul64(want, t->shape[k], &want)) {
            return of_tensor(err, SFT_E_OVERFLOW, t, "the shape overflows");
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const sft_piece *p = &d->pieces[i];
        uint64_t n = 1;
        for (uint32_t k = 0; k < t->rank; k++) {
            if (p->start[k] > t->shape[k] || p->count[k] > t->shape[k] - p->start[k]) {
                return of_tensor(err, SFT_E_RANGE, t, "a box leaves the tensor");
            }
            n *= p->count[k]; /* at most the product of the shape */
        }
        if (!sft__base_add64(have, n, &have)) {
            return of_tensor(err, SFT_E_OVERFLOW, t, "the boxes overflow");
        }
    }
    if (have < want) {
        return sft__base_fail_tensor(err, SFT_E_HOLE, SFT_NO_OFFSET, t->name, t->name_len,
                                     "dcp-metadata: its %u boxes have %llu of %llu elements",
                                     (unsigned)count, (unsigned long long)have,
                                     (unsigned long long)want);
    }
    if (t->rank == 0) {
        return have == want ? SFT_OK : of_tensor(err, SFT_E_OVERLAP, t, "it is there twice");
    }
    qsort(d->pieces, count, sizeof *d->pieces, by_start);
    for (uint32_t i = 0; i < count && have != 0; i++) {
        const sft_piece *p = &d->pieces[i];
        for (uint32_t j = i + 1; j < count && d->pieces[j].start[0] < p->start[0] + p->count[0];
             j++) {
            if (overlap(p, &d->pieces[j], t->rank)) {
                return of_tensor(err, SFT_E_OVERLAP, t, "two boxes share elements");
            }
        }
    }
    return SFT_OK;
}

/* One box: where it is in the tensor, and in its file. `scratch` numbers stay in the arena. */
static sft_status read_box(sft__import_dcp *d, const tensor *t, uint32_t chunk, sft_piece *piece,
                           sft_error *err) {
    const uint32_t offsets = field(d, chunk, "offsets");
    const uint32_t sizes = field(d, chunk, "sizes");
    sft__import_dcp_item *item = NULL;
    const uint32_t values = t->dtype->block_elements;
    uint64_t *start;
    uint64_t *count;
    int64_t *strides;
    uint32_t rank;
    uint32_t other;

    memset(piece, 0, sizeof *piece);
    SFT_TRY(sft__import_torch_numbers(&d->t, offsets, "box", &start, &rank, err));
    SFT_TRY(sft__import_torch_numbers(&d->t, sizes, "box", &count, &other, err));
    if (rank != t->rank || other != rank) {
        return of_tensor(err, SFT_E_SHAPE, t, "a box of another number of dimensions");
    }
    item = sft__import_dcp_find(d, t->name, t->name_len, start, rank);
    if (item == NULL) {
        return of_tensor(err, SFT_E_HOLE, t, "one of its boxes is in no file");
    }
    item->named = true;
    SFT_TRY(sft__import_alloc(d->job, &strides, rank, sizeof *strides, err));
    const sft_tensor box = {.dtype = t->dtype, .shape = count, .rank = rank};
    SFT_TRY(sft__import_dcp_place(d, item, &box, piece, strides, err));
    if (values != 1) { /* counted in bytes so far; bounded by the file */
        start[rank - 1] *= values;
        count[rank - 1] *= values;
    }
    piece->start = start;
    piece->count = count;
    return SFT_OK;
}

/* The name without what --key says; false: it is of another part. */
static bool of_key(const sft__import_dcp *d, const char **name, size_t *len) {
    const char *key = d->job->options.key;
    const size_t n = key != NULL ? strlen(key) : 0;

    if (key == NULL || strcmp(key, ".") == 0) {
        return true;
    }
    if (*len == n && memcmp(*name, key, n) == 0) {
        return true;
    }
    if (*len <= n + 1 || memcmp(*name, key, n) != 0 || (*name)[n] != '.') {
        return false;
    }
    *name += n + 1;
    *len -= n + 1;
    return true;
}

static sft_status read_tensor(sft__import_dcp *d, uint32_t id, tensor *t, const char *name,
                              size_t name_len, sft_error *err) {
    const sft__import_pk_node *chunks = node(d, field(d, id, "chunks"));
    uint32_t chunk;
    uint32_t count = 0;

    SFT_TRY(read_properties(d, id, t, err));
    if (chunks->type != SFT__PK_LIST && chunks->type != SFT__PK_TUPLE) {
        return of_tensor(err, SFT_E_SCHEMA, t, "no list of boxes");
    }
    SFT_TRY(SFT_ONE_MORE(d->job->allocator, d->pieces, d->piece_room, (size_t)chunks->count, err));
    for (sft__import_pk_iter it = sft__import_pk_begin(chunks); sft__import_pk_next(&it, &chunk);
         count++) {
        SFT_TRY(read_box(d, t, chunk, &d->pieces[count], err));
    }
    if (t->dtype->block_elements != 1 &&
        !sft__base_mul64(t->shape[t->rank - 1], t->dtype->block_elements, &t->shape[t->rank - 1])) {
        return of_tensor(err, SFT_E_OVERFLOW, t, "the last dimension overflows");
    }
    SFT_TRY(check_cover(d, t, count, err));
    const sft_tensor made = {.name = name,
                             .name_len = name_len,
                             .dtype = t->dtype,
                             .shape = t->shape,
                             .pieces = d->pieces,
                             .rank = t->rank,
                             .piece_count = count};
    return sft__import_tensor(d->job, &made, err);
}

/* An object that was saved whole. */
static sft_status read_object(sft__import_dcp *d, const char *name, size_t len, sft_error *err) {
    sft__import_dcp_item *item = sft__import_dcp_find(d, name, len, NULL, 0);
    bool tensors = false;

    if (item != NULL) {
        item->named = true;
        SFT_TRY(sft__import_dcp_object(d, item, &tensors, err));
    }
    if (tensors) {
        return sft__import_opaque(d->job, SFT__AT(name, len, SFT_NO_OFFSET), err,
                                  "dcp-object: an object with tensors in it, saved whole");
    }
    sft__import_find(d->job, SFT__RULE(LEFT_OUT, HARMLESS, "dcp-object"),
                     SFT__AT(name, len, SFT_NO_OFFSET),
                     "no tensor: an object that was saved whole");
    return SFT_OK;
}

static sft_status read_entry(sft__import_dcp *d, uint32_t key, uint32_t value, sft_error *err) {
    const sft__import_pk_node *k = node(d, key);
    const char *name = k->u.text;
    size_t len = k->count;
    sft_error why;

    if (k->type != SFT__PK_STR) {
        return bad(err, "a name that is no text");
    }
    if (!of_key(d, &name, &len)) {
        return SFT_OK;
    }
    if (is_a(d, value, "BytesStorageMetadata")) {
        return read_object(d, k->u.text, k->count, err);
    }
    if (!is_a(d, value, "TensorStorageMetadata")) {
        return sft__base_fail_tensor(err, SFT_E_SCHEMA, SFT_NO_OFFSET, k->u.text, k->count,
                                     "dcp-metadata: neither a tensor nor an object");
    }
    tensor t = {.name = k->u.text, .name_len = k->count};
    memset(&why, 0, sizeof why);
    const sft_status status = read_tensor(d, value, &t, name, len, &why);
    if (status == SFT_E_UNSUPPORTED) {
        return sft__import_opaque(d->job, SFT__AT(k->u.text, k->count, why.offset), err, "%s",
                                  why.message);
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
        if (err->tensor[0] == '\0') {
            (void)sft_escape(err->tensor, sizeof err->tensor, k->u.text, k->count);
        }
    }
    return status;
}

/* Items of the files that no entry of the state dict has. */
static void tell_others(const sft__import_dcp *d) {
    const char *key = d->job->options.key;

    for (size_t i = 0; i < d->item_count && (key == NULL || strcmp(key, ".") == 0); i++) {
        const sft__import_dcp_item *item = &d->items[i];
        if (!item->named) {
            sft__import_left(d->job, item->name, item->name_len, 1,
                             "%llu bytes of %.200s that no entry of the state dict has",
                             (unsigned long long)item->length, item->path);
        }
    }
}

static sft_status read_metadata(sft__import_dcp *d, sft_error *err) {
    const uint64_t size = sft_source_size(d->job->file);
    uint32_t key;
    uint32_t value;

    SFT_TRY(sft__import_pickle_init(&d->p, d->job, d->job->file, 0, "", err));
    d->p.classes = true; /* planners leave objects of all kinds beside the tensors */
    SFT_TRY(sft__import_pickle_run(&d->p, 0, size, err));
    if (d->p.end < size) {
        SFT_TRY(sft__import_trick(d->job, SFT__RULE(PICKLE, DANGEROUS, "pickle-trailing"),
                                  SFT__AT("", 0, d->p.end), err,
                                  "bytes follow the end of the pickle"));
    }
    const uint32_t root = d->p.root;
    if (!is_a(d, root, "Metadata") ||
        node(d, field(d, root, "state_dict_metadata"))->type != SFT__PK_DICT) {
        return bad(err, "the pickle is no Metadata of a checkpoint");
    }
    SFT_TRY(read_items(d, field(d, root, "storage_data"), err));
    const sft__import_pk_node *entries = node(d, field(d, root, "state_dict_metadata"));
    for (sft__import_pk_iter it = sft__import_pk_begin(entries);
         sft__import_pk_next(&it, &key) && sft__import_pk_next(&it, &value);) {
        SFT_TRY(read_entry(d, key, value, err));
    }
    tell_others(d);
    return SFT_OK;
}

static sft_status open_dcp(sft__import *job, sft_error *err) {
    sft__import_dcp d;

    memset(&d, 0, sizeof d);
    d.job = job;
    d.p.job = job;
    d.t.job = job;
    d.t.p = &d.p;
    const sft_status status = read_metadata(&d, err);
    sft__import_pickle_reset(&d.p);
    sft__base_free(job->allocator, d.pieces, d.piece_room * sizeof *d.pieces);
    return status;
}

bool sft__import_dcp_locate(const char *path, const sft_import_options *options, char *found,
                            size_t size) {
    const size_t len = strlen(path);
    uint8_t head[SFT__IMPORT_HEAD];
    sft__import_probe p;
    sft_source *source;
    const int n =
        snprintf(found, size, "%s%s.metadata", path, len != 0 && path[len - 1] == '/' ? "" : "/");

    if (len == 0 || n < 0 || (size_t)n >= size ||
        sft_source_open(&source, found, SFT_ACCESS_READ, options->allocator, NULL) != SFT_OK) {
        return false;
    }
    const bool is =
        sft__import_probe_read(&p, head, source, options->allocator, NULL) == SFT_OK && probe(&p);
    sft_source_close(source);
    return is;
}

const sft__import_reader sft__import_reader_dcp = {SFT_IMPORT_DCP, probe, open_dcp};
