/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_eval.c - what torch._utils._rebuild_* would have made of its arguments, as places in
 * the file. Every number is checked: a view that leaves its storage is refused, whatever PyTorch
 * does. Read first: torch.h.
 */
#include "base/checked.h"
#include "import/torch/torch.h"

enum { METADATA_MAX = 256 };

static sft_status bad(sft_error *err, const char *rule, const char *text) {
    return sft__base_fail(err, SFT_E_SCHEMA, "%s: %s", rule, text);
}

static uint32_t arg(const sft__import_torch *t, const sft__import_pk_node *call, uint32_t i) {
    return sft__import_pk_item(t->p, call->args, i);
}

static const sft__import_pk_node *node(const sft__import_torch *t, uint32_t id) {
    return sft__import_pk_at(t->p, id);
}

/* ---------------------------------------------------------------- storages */

static const sft_dtype *dtype_of(const sft__import_pk_node *global) {
    return global->argument != 0 ? sft__import_dtype(global->argument) : NULL;
}

sft_status sft__import_torch_more(sft__import_torch *t, sft_error *err) {
    return sft__import_more_named(t->job->allocator, &t->keys, &t->storages, &t->storage_room,
                                  t->storage_count, sizeof *t->storages)
               ? SFT_OK
               : sft__base_fail_nomem(err, t->storage_count * sizeof *t->storages);
}

/* ('storage', class, key, location, numel): the class says the element type, or that there is none.
 */
static sft_status storage_describe(const sft__import_torch *t, const sft__import_pk_node *pid,
                                   sft__import_storage *s, sft_error *err) {
    const sft__import_pk_node *id = node(t, pid->persistent_id);
    const sft__import_pk_node *class = node(t, sft__import_pk_item(t->p, pid->persistent_id, 1));
    const sft__import_pk_node *key = node(t, sft__import_pk_item(t->p, pid->persistent_id, 2));
    uint64_t unit = 1;

    memset(s, 0, sizeof *s);
    if (id->type != SFT__PK_TUPLE || id->count < 5 || key->type != SFT__PK_STR ||
        !sft__import_pk_is_text(t->p, sft__import_pk_item(t->p, pid->persistent_id, 0),
                                "storage") ||
        !sft__import_pk_uint(t->p, sft__import_pk_item(t->p, pid->persistent_id, 4),
                             &s->elements)) {
        return bad(err, "torch-storage", "a persistent id that does not describe a storage");
    }
    if (class->type != SFT__PK_GLOBAL || class->known != SFT__G_STORAGE) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "torch-storage: a storage of the class %.100s",
                              class->type == SFT__PK_GLOBAL ? class->u.text : "(none)");
    }
    if (key->count > SFT__TORCH_KEY_MAX) {
        return bad(err, "torch-storage", "a storage key of more than 512 bytes");
    }
    s->key = key->u.text;
    s->key_len = key->count;
    s->dtype = dtype_of(class);
    if (s->dtype != NULL) {
        unit = s->dtype->block_bytes;
    }
    if (!sft__base_mul64(s->elements, unit, &s->bytes)) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "torch-storage: a storage of %llu elements",
                              (unsigned long long)s->elements);
    }
    return SFT_OK;
}

/* Are two descriptions of a storage of one key the same? PyTorch writes the views of a uint8 tensor
 * whose types have no storage class (float8, uint16 ...) over an untyped storage of the same bytes. */
static bool same_storage(const sft__import_storage *a, const sft__import_storage *b) {
    const bool bytes = (a->dtype == NULL || a->dtype->id == SFT_U8) &&
                       (b->dtype == NULL || b->dtype->id == SFT_U8);
    return (a->dtype == b->dtype || bytes) && a->elements == b->elements;
}

sft_status sft__import_torch_storage(sft__import_torch *t, const sft__import_pk_node *pid,
                                     uint32_t *index, sft_error *err) {
    sft__import_storage s;

    SFT_TRY(storage_describe(t, pid, &s, err));
    const size_t old = t->keys.slots != NULL ? sft__base_strmap_find(&t->keys, s.key, s.key_len)
                                             : SFT__STRMAP_NONE;
    if (old != SFT__STRMAP_NONE) {
        if (!same_storage(&t->storages[old], &s)) {
            return bad(err, "torch-storage",
                       "one storage is described twice, with another type or size");
        }
        *index = (uint32_t)old;
        return SFT_OK;
    }
    SFT_TRY(sft__import_torch_more(t, err));
    SFT_TRY(t->place(t, &s, err));
    t->storages[t->storage_count] = s;
    (void)sft__base_strmap_add(&t->keys, t->storage_count);
    *index = (uint32_t)t->storage_count++;
    return SFT_OK;
}

/* ---------------------------------------------------------------- views */

/* offset and strides in elements -> bytes; the last element must lie in the stretch. */
sft_status sft__import_torch_view(sft__import_view *v, uint64_t offset, const uint64_t *strides,
                                  sft_error *err) {
    const uint64_t unit = v->dtype->block_bytes;
    uint64_t last = offset;
    uint64_t part;
    bool empty = false;
    uint64_t end;

    for (uint32_t d = 0; d < v->rank; d++) {
        empty = empty || v->shape[d] == 0;
    }
    for (uint32_t d = 0; d < v->rank; d++) {
        if (strides[d] > INT64_MAX / 16) {
            return bad(err, "torch-view", "a stride overflows");
        }
        v->strides[d] = (int64_t)(strides[d] * unit);
        if (!empty && (!sft__base_mul64(v->shape[d] - 1, strides[d], &part) ||
                       !sft__base_add64(last, part, &last))) {
            return bad(err, "torch-view", "the extent of a view overflows");
        }
    }
    if (empty) {
        v->first = v->low;
        return SFT_OK;
    }
    if (!sft__base_add64(last, 1, &end) || !sft__base_mul64(end, unit, &end) ||
        end > v->high - v->low) {
        return sft__base_fail(err, SFT_E_OFFSETS,
                              "torch-view: a view ends at byte %llu of a storage of %llu bytes",
                              (unsigned long long)end, (unsigned long long)(v->high - v->low));
    }
    v->first = v->low + offset * unit; /* offset <= last */
    return SFT_OK;
}

/* The bytes of a storage; before 1.6 a persistent id could name a part of one: (key, offset,
 * elements). */
static sft_status view_storage(const sft__import_torch *t, const sft__import_pk_node *pid,
                               const sft__import_storage *s, sft__import_view *v, sft_error *err) {
    const uint32_t part = sft__import_pk_item(t->p, pid->persistent_id, 5);
    const uint64_t unit = s->dtype != NULL ? s->dtype->block_bytes : 1;
    uint64_t first;
    uint64_t count;

    v->data = s->data;
    v->source = s->source;
    v->swap = t->big_endian;
    v->low = s->offset;
    v->high = s->offset + s->bytes; /* placed: inside the source */
    if (node(t, part)->type == SFT__PK_NONE) {
        return SFT_OK;
    }
    if (!sft__import_pk_uint(t->p, sft__import_pk_item(t->p, part, 1), &first) ||
        !sft__import_pk_uint(t->p, sft__import_pk_item(t->p, part, 2), &count) ||
        first > s->elements || count > s->elements - first) {
        return bad(err, "torch-storage", "a part of a storage leaves it");
    }
    v->low += first * unit;
    v->high = v->low + count * unit;
    return SFT_OK;
}

/* Of a storage's class: values that share a byte while the tensor counts each of them. */
static uint32_t values_per_byte(const sft__import_torch *t, const sft__import_pk_node *pid) {
    const sft__import_pk_node *class = node(t, sft__import_pk_item(t->p, pid->persistent_id, 1));

    return class->type != SFT__PK_GLOBAL                         ? 1
           : strcmp(class->u.text, "torch.QUInt4x2Storage") == 0 ? 2
           : strcmp(class->u.text, "torch.QUInt2x4Storage") == 0 ? 4
                                                                 : 1;
}

/* The place of a tensor whose storage is known; sizes are counted as the type's bytes lie. */
static sft_status view_in(sft__import_torch *t, const sft__import_pk_node *pid,
                          const sft_dtype *dtype, sft__import_view *v, uint32_t *index,
                          sft_error *err) {
    SFT_TRY(sft__import_torch_storage(t, pid, index, err));
    const sft__import_storage *s = &t->storages[*index];
    v->dtype = dtype != NULL ? dtype : s->dtype != NULL ? s->dtype : sft_dtype_get(SFT_U8);
    if (dtype != NULL && s->dtype != NULL && s->dtype->id != dtype->id && s->dtype->id != SFT_U8) {
        return bad(err, "torch-view", "the tensor's type is not the storage's");
    }
    return view_storage(t, pid, s, v, err);
}

/* (storage, offset, size, stride): dtype NULL means the storage's. */
static sft_status view_of(sft__import_torch *t, const sft__import_pk_node *call,
                          const sft_dtype *dtype, sft__import_view *v, sft_error *err) {
    const sft__import_pk_node *pid = node(t, arg(t, call, 0));
    uint64_t *strides;
    uint32_t count;
    uint64_t offset;
    uint32_t index;

    if (pid->type != SFT__PK_PID) {
        return bad(err, "torch-view", "a tensor over something that is no storage");
    }
    sft__import_torch_mark(t, arg(t, call, 0), SFT__TORCH_MET);
    if (!sft__import_pk_uint(t->p, arg(t, call, 1), &offset)) {
        return bad(err, "torch-view", "an offset that is no integer of 0 or more");
    }
    SFT_TRY(sft__import_torch_numbers(t, arg(t, call, 2), "size", &v->shape, &v->rank, err));
    SFT_TRY(sft__import_torch_numbers(t, arg(t, call, 3), "stride", &strides, &count, err));
    if (count != v->rank) {
        return bad(err, "torch-view", "size and stride have different lengths");
    }
    SFT_TRY(sft__import_alloc(t->job, &v->strides, v->rank, sizeof *v->strides, err));
    SFT_TRY(view_in(t, pid, dtype, v, &index, err));
    const uint32_t values = dtype == NULL ? values_per_byte(t, pid) : 1;
    if (values != 1) {
        SFT_TRY(sft__import_torch_packed_bytes(v, offset, strides, values, err));
    }
    SFT_TRY(sft__import_torch_view(v, offset, strides, err));
    return sft__import_torch_packed_check(v, err);
}

static bool flag_of(const sft__import_torch *t, uint32_t dict, const char *key) {
    const sft__import_pk_node *n = node(t, sft__import_pk_get(t->p, dict, key));
    return n->type == SFT__PK_BOOL && n->u.integer != 0;
}

/* Looked through for every tensor, which may all share it: PyTorch's has one entry per flag. */
static sft_status eval_metadata(const sft__import_torch *t, uint32_t dict, sft__import_view *v,
                                sft_error *err) {
    if (node(t, dict)->type == SFT__PK_DICT && node(t, dict)->count > METADATA_MAX) {
        return bad(err, "torch-view", "more flags than a tensor has");
    }
    v->conjugate = flag_of(t, dict, "conj");
    v->negative = flag_of(t, dict, "neg");
    return SFT_OK;
}

static sft_status eval_tensor(sft__import_torch *t, const sft__import_pk_node *call, uint32_t known,
                              sft__import_view *v, sft_error *err) {
    const sft_dtype *dtype = NULL;
    uint32_t metadata = 6;

    if (known == SFT__G_REBUILD_TENSOR_V3) {
        const sft__import_pk_node *d = node(t, arg(t, call, 6));
        if (d->type != SFT__PK_GLOBAL || d->known != SFT__G_DTYPE || dtype_of(d) == NULL) {
            return sft__base_fail(err, SFT_E_UNSUPPORTED,
                                  "torch-dtype: a tensor of the type %.100s",
                                  d->type == SFT__PK_GLOBAL ? d->u.text : "(none)");
        }
        dtype = dtype_of(d);
        metadata = 7;
    }
    SFT_TRY(view_of(t, call, dtype, v, err));
    return known == SFT__G_REBUILD_TENSOR ? SFT_OK
                                          : eval_metadata(t, arg(t, call, metadata), v, err);
}

/* ---------------------------------------------------------------- which call is it */

bool sft__import_torch_is_tensor(const sft__import_torch *t, uint32_t id) {
    const sft__import_pk_node *n = node(t, id);
    const char *subclass = NULL;
    sft__import_pk_node call;

    if (n->type == SFT__PK_PID) {
        return true;
    }
    if (n->type != SFT__PK_CALL || (sft__import_torch_is_wrapper(t, id) &&
                                    sft__import_torch_attributes(t, id) != SFT__PK_NO)) {
        return false;
    }
    const uint32_t known = sft__import_torch_strip(t, id, &call, &subclass, 0);
    return (known >= SFT__G_REBUILD_TENSOR && known <= SFT__G_REBUILD_FROM_CPU) ||
           known == SFT__G_STORAGE || known == SFT__G_NP_MASKED ||
           (known != SFT__G_UNKNOWN && sft__import_torch_is_array(t, &call));
}

bool sft__import_torch_is_storage(const sft__import_torch *t, uint32_t id) {
    const char *subclass = NULL;
    sft__import_pk_node call;

    return t->tensor == NULL &&
           sft__import_torch_strip(t, id, &call, &subclass, 0) == SFT__G_STORAGE;
}

/* A storage by itself: one dimension. A tar's persistent id: whatever it says. */
static sft_status eval_pid(sft__import_torch *t, const sft__import_pk_node *pid,
                           sft__import_view *v, sft_error *err) {
    uint32_t index;

    if (t->tensor != NULL) {
        return t->tensor(t, pid, v, err);
    }
    SFT_TRY(sft__import_torch_storage(t, pid, &index, err));
    const sft__import_storage *s = &t->storages[index];
    SFT_TRY(sft__import_alloc(t->job, &v->shape, 1, sizeof *v->shape, err));
    SFT_TRY(sft__import_alloc(t->job, &v->strides, 1, sizeof *v->strides, err));
    const uint64_t one = 1;
    v->rank = 1;
    v->shape[0] = s->elements;
    v->dtype = s->dtype != NULL ? s->dtype : sft_dtype_get(SFT_U8);
    SFT_TRY(view_storage(t, pid, s, v, err));
    v->shape[0] = (v->high - v->low) / v->dtype->block_bytes;
    return sft__import_torch_view(v, 0, &one, err);
}

/* ---------------------------------------------------------------- one view */

static sft_status eval_one(sft__import_torch *t, uint32_t id, sft__import_view *v, sft_error *err) {
    const char *subclass = NULL;
    sft__import_pk_node call;
    const uint32_t known = sft__import_torch_strip(t, id, &call, &subclass, SFT__TORCH_MET);

    memset(v, 0, sizeof *v);
    if (known == SFT__G_STORAGE) {
        return t->tensor != NULL ? t->tensor(t, &call, v, err) : eval_pid(t, &call, v, err);
    }
    if (known == SFT__G_REBUILD_TENSOR || known == SFT__G_REBUILD_TENSOR_V2 ||
        known == SFT__G_REBUILD_TENSOR_V3) {
        return eval_tensor(t, &call, known, v, err);
    }
    if (known != SFT__G_UNKNOWN && sft__import_torch_is_array(t, &call)) {
        return sft__import_torch_numpy(t, &call, v, err);
    }
    return bad(err, "torch-view", "a part of a tensor is no tensor");
}

sft_status sft__import_torch_constant(sft__import_torch *t, const sft_dtype *dtype,
                                      const uint64_t *values, uint32_t count, sft__import_view *v,
                                      sft_error *err) {
    const size_t size = (size_t)count * 8;
    const uint64_t one = 1;
    sft_source *source;
    uint8_t *bytes;

    memset(v, 0, sizeof *v);
    v->rank = 1;
    v->dtype = dtype;
    v->high = size;
    v->made = true;
    SFT_TRY(sft__import_alloc(t->job, &v->shape, 1, sizeof *v->shape, err));
    SFT_TRY(sft__import_alloc(t->job, &v->strides, 1, sizeof *v->strides, err));
    v->shape[0] = count;
    SFT_TRY(sft__import_torch_view(v, 0, &one, err));
    if (count == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_source_own(&source, &bytes, size, "constant", t->job->allocator, err));
    for (uint32_t i = 0; i < count; i++) {
        sft__base_store_le64(bytes + 8 * i, values[i]);
    }
    v->data = source;
    return sft_builder_add_source(t->job->builder, source, &v->source, err);
}

static sft_status scalar(sft__import_torch *t, uint32_t dtype, uint64_t bits, sft__import_view *v,
                         sft_error *err) {
    SFT_TRY(sft__import_torch_constant(t, sft_dtype_get(dtype), &bits, 1, v, err));
    v->rank = 0;
    return SFT_OK;
}

/* ---------------------------------------------------------------- several views */

/* (storage, offset, size, stride, (scheme, scale, zero point | scales, zero points, axis), ...) */
static sft_status eval_qtensor(sft__import_torch *t, const sft__import_pk_node *call,
                               sft__import_part parts[SFT__TORCH_PARTS], size_t *count,
                               sft_error *err) {
    const uint32_t params = arg(t, call, 4);
    const sft__import_pk_node *scheme = node(t, sft__import_pk_item(t->p, params, 0));
    const uint32_t scale_id = sft__import_pk_item(t->p, params, 1);
    const uint32_t zero_id = sft__import_pk_item(t->p, params, 2);

    if (scheme->type != SFT__PK_GLOBAL || scheme->known != SFT__G_QSCHEME) {
        return bad(err, "torch-quantised", "a quantised tensor without a scheme");
    }
    memset(parts, 0, SFT__TORCH_PARTS * sizeof *parts);
    SFT_TRY(view_of(t, call, NULL, &parts[0].view, err));
    parts[0].suffix = "";
    parts[1].suffix = ".scale";
    parts[2].suffix = ".zero_point";
    if (scheme->argument == 0) {
        const sft__import_pk_node *scale = node(t, scale_id);
        const sft__import_pk_node *zero = node(t, zero_id);
        uint64_t bits;
        if (scale->type != SFT__PK_FLOAT || scale->known != 0 || zero->type != SFT__PK_INT ||
            !(scale->u.real > 0)) {
            return bad(err, "torch-quantised",
                       "a scale that is no number above 0, or a zero point that is no integer");
        }
        memcpy(&bits, &scale->u.real, sizeof bits);
        SFT_TRY(scalar(t, SFT_F64, bits, &parts[1].view, err));
        memcpy(&bits, &zero->u.integer, sizeof bits);
        SFT_TRY(scalar(t, SFT_I64, bits, &parts[2].view, err));
        *count = 3;
        return SFT_OK;
    }
    uint64_t axis;
    if (!sft__import_pk_uint(t->p, sft__import_pk_item(t->p, params, 3), &axis) ||
        axis >= parts[0].view.rank) {
        return bad(err, "torch-quantised", "an axis that the tensor has not");
    }
    SFT_TRY(eval_one(t, scale_id, &parts[1].view, err));
    SFT_TRY(eval_one(t, zero_id, &parts[2].view, err));
    for (size_t i = 1; i < 3; i++) {
        const sft__import_view *v = &parts[i].view;
        if (v->rank != 1 || v->shape[0] != parts[0].view.shape[axis]) {
            return bad(err, "torch-quantised", "scales and channels differ in number");
        }
    }
    parts[3].suffix = ".axis";
    SFT_TRY(scalar(t, SFT_I64, axis, &parts[3].view, err));
    *count = 4;
    return SFT_OK;
}

/* (layout, (indices, values, size ...)), or (crow, col, values, size) before 2.0: the parts as they
 * are. */
static sft_status eval_sparse(sft__import_torch *t, const sft__import_pk_node *call,
                              sft__import_part parts[SFT__TORCH_PARTS], size_t *count,
                              sft_error *err) {
    const uint32_t layout = arg(t, call, 0);
    const uint32_t data = arg(t, call, 1);
    const sft__import_pk_node *d = node(t, data);
    const bool coo = node(t, sft__import_pk_item(t->p, data, 2))->type != SFT__PK_CALL;
    const uint32_t tensors = coo ? 2 : 3;
    static const char *const coo_names[] = {".indices", ".values"};
    static const char *const csr_names[] = {".compressed_indices", ".plain_indices", ".values"};
    uint64_t *size;
    uint32_t rank;

    (void)layout;
    if (d->type != SFT__PK_TUPLE || d->count < tensors + 1) {
        return bad(err, "torch-sparse", "a sparse tensor without its parts");
    }
    memset(parts, 0, SFT__TORCH_PARTS * sizeof *parts);
    for (uint32_t i = 0; i < tensors; i++) {
        parts[i].suffix = coo ? coo_names[i] : csr_names[i];
        SFT_TRY(eval_one(t, sft__import_pk_item(t->p, data, i), &parts[i].view, err));
    }
    SFT_TRY(sft__import_torch_numbers(t, sft__import_pk_item(t->p, data, tensors), "sparse size",
                                      &size, &rank, err));
    parts[tensors].suffix = ".size";
    SFT_TRY(sft__import_torch_constant(t, sft_dtype_get(SFT_I64), size, rank, &parts[tensors].view,
                                       err));
    *count = tensors + 1;
    return SFT_OK;
}

/* (buffer, sizes, strides, offsets): rows of different lengths, one after the other. */
static sft_status eval_nested(sft__import_torch *t, const sft__import_pk_node *call,
                              sft__import_part parts[SFT__TORCH_PARTS], size_t *count,
                              sft_error *err) {
    static const char *const names[SFT__TORCH_PARTS] = {".buffer", ".sizes", ".strides",
                                                        ".offsets"};

    memset(parts, 0, SFT__TORCH_PARTS * sizeof *parts);
    for (uint32_t i = 0; i < SFT__TORCH_PARTS; i++) {
        parts[i].suffix = names[i];
        SFT_TRY(eval_one(t, arg(t, call, i), &parts[i].view, err));
    }
    *count = SFT__TORCH_PARTS;
    return SFT_OK;
}

/* Keeps a tensor out of the catalog if that is allowed: what an evaluation could not do. */
static sft_status left_out(sft__import_torch *t, const char *name, size_t name_len,
                           sft_status status, sft_error *err) {
    sft_error e;

    if (status != SFT_E_UNSUPPORTED || err == NULL || t->outside) {
        return status;
    }
    e = *err;
    return sft__import_opaque(t->job, SFT__AT(name, name_len, e.offset), err, "%s", e.message);
}

sft_status sft__import_torch_eval(sft__import_torch *t, uint32_t id, const char *name,
                                  size_t name_len, sft__import_parts *parts, sft_error *err) {
    const char *subclass = NULL;
    sft__import_pk_node call;
    const uint32_t known = sft__import_torch_strip(t, id, &call, &subclass, SFT__TORCH_MET);

    parts->count = 0;
    if (subclass != NULL && !t->outside) {
        sft__import_find(t->job, SFT__RULE(NOTE, HARMLESS, "torch-class"),
                         SFT__AT(name, name_len, SFT_NO_OFFSET),
                         "a tensor of the class %.200s, which is not known: its bytes are taken as "
                         "they are",
                         subclass);
    }
    if (known == SFT__G_REBUILD_META || known == SFT__G_REBUILD_WRAPPER) {
        sft__import_torch_mark(t, id, SFT__TORCH_TOLD);
        return t->outside
                   ? SFT_OK
                   : sft__import_opaque(t->job, SFT__AT(name, name_len, SFT_NO_OFFSET), err, "%s",
                                        known == SFT__G_REBUILD_META
                                            ? "a tensor on the meta device has no data"
                                            : "a tensor of a class without any bytes");
    }
    sft_status status;
    if (known == SFT__G_REBUILD_QTENSOR) {
        status = eval_qtensor(t, &call, parts->at, &parts->count, err);
    } else if (known == SFT__G_REBUILD_SPARSE) {
        status = eval_sparse(t, &call, parts->at, &parts->count, err);
    } else if (known == SFT__G_NP_MASKED) {
        status = sft__import_torch_masked(t, &call, parts->at, &parts->count, err);
    } else if (known == SFT__G_REBUILD_NESTED) {
        status = eval_nested(t, &call, parts->at, &parts->count, err);
    } else if (known == SFT__G_REBUILD_SPARSE_CSR) {
        status = bad(err, "torch-sparse", "a sparse tensor of an unreleased form");
    } else {
        parts->at[0].suffix = "";
        status = eval_one(t, id, &parts->at[0].view, err);
        parts->count = 1;
    }
    if (status != SFT_OK) {
        parts->count = 0;
        sft__import_torch_mark(t, id, SFT__TORCH_TOLD);
    }
    return left_out(t, name, name_len, status, err);
}
