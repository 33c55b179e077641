/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/paddle/paddle.c - what Paddle's pickles have beyond arrays of numpy in dicts: large parameters in
 * slices (protocols 2 and 3), bfloat16 as uint16, arrays as text (protocol 2). Source:
 * paddle/framework/io.py, io_utils.py. Read first: torch.h.
 */
#include "base/text/utf8.h"
#include "import/core/wire.h"
#include "import/torch/torch.h"

#define BIG_PARAMETERS "UnpackBigParamInfor@@"
#define STRUCTURED     "StructuredToParameterName@@"

static sft_status bad(sft_error *err, const char *text) {
    return sft__base_fail(err, SFT_E_SCHEMA, "paddle-slices: %s", text);
}

bool sft__import_paddle_is_dict(const sft__import_torch *t, uint32_t id) {
    return sft__import_pk_at(t->p, id)->type == SFT__PK_DICT &&
           (sft__import_pk_get(t->p, id, STRUCTURED) != SFT__PK_NO ||
            sft__import_pk_get(t->p, id, BIG_PARAMETERS) != SFT__PK_NO);
}

/* ---------------------------------------------------------------- slices */

/* Entries of the dict that are looked at for the names of slices, each counted once more for 64
 * bytes of the name. Paddle cuts at 1 GiB. */
enum { LOOKED_MAX = 1 << 26, LOOKED_TEXT = 64 };

static sft_status take_slice(sft__import_torch *t, uint32_t dict, uint32_t name,
                             sft__import_run *run, const sft_dtype **dtype, sft_error *err) {
    const sft__import_pk_node *n = sft__import_pk_at(t->p, name);
    sft__import_view v;

    if (n->type != SFT__PK_STR || strlen(n->u.text) != n->count) {
        return bad(err, "the name of a slice is no text");
    }
    const uint32_t id = sft__import_pk_get(t->p, dict, n->u.text);
    sft__import_pk_node *slice = sft__import_pk_at(t->p, id);
    if (id == SFT__PK_NO || !sft__import_torch_is_array(t, slice)) {
        return bad(err, "a slice is not there, or no array");
    }
    if (!slice->holds_tensor) {
        return bad(err, "a slice is used twice");
    }
    SFT_TRY(sft__import_torch_numpy(t, slice, &v, err));
    if (v.rank != 1 || v.swap || (*dtype != NULL && *dtype != v.dtype)) {
        return bad(err, "the slices of a parameter are not vectors of one type");
    }
    slice->holds_tensor = false; /* no tensor of its own any more */
    sft__import_torch_meet(t, id);
    *dtype = v.dtype;
    *run = (sft__import_run){v.first, v.high - v.low, v.source};
    return SFT_OK;
}

static sft_status take_parameter(sft__import_torch *t, uint32_t dict,
                                 const sft__import_pk_node *key, uint32_t value, uint64_t *looked,
                                 sft_error *err) {
    const uint32_t list = sft__import_pk_get(t->p, value, "slices");
    const sft__import_pk_node *slices = sft__import_pk_at(t->p, list);
    const sft_dtype *dtype = NULL;
    sft_tensor tensor;
    uint64_t *shape;
    sft__import_run *runs;
    uint32_t id;
    size_t i = 0;

    memset(&tensor, 0, sizeof tensor);
    if (slices->type != SFT__PK_LIST || slices->count == 0 || key->type != SFT__PK_STR ||
        sft__base_utf8_valid(key->u.text, key->count) != key->count) {
        return bad(err, "a parameter without a name or slices");
    }
    SFT_TRY(sft__import_torch_numbers(t, sft__import_pk_get(t->p, value, "OriginShape"), "shape",
                                      &shape, &tensor.rank, err));
    SFT_TRY(sft__import_alloc(t->job, &runs, slices->count, sizeof *runs, err));
    for (sft__import_pk_iter it = sft__import_pk_begin(slices); sft__import_pk_next(&it, &id);
         i++) {
        const uint64_t text = sft__import_pk_at(t->p, id)->count; /* products below 2^58 */
        *looked += (1 + text / LOOKED_TEXT) * sft__import_pk_at(t->p, dict)->count;
        if (*looked > LOOKED_MAX) {
            return sft__base_fail(err, SFT_E_LIMIT,
                                  "paddle-slices: more slices than a model is cut into");
        }
        SFT_TRY(take_slice(t, dict, id, &runs[i], &dtype, err));
    }
    tensor.name = key->u.text;
    tensor.name_len = key->count;
    tensor.dtype = dtype;
    tensor.shape = shape;
    return sft__import_runs(t->job, &tensor, runs, i, err);
}

sft_status sft__import_paddle_slices(sft__import_torch *t, uint32_t dict, sft_error *err) {
    uint64_t looked = 0;
    uint32_t key;
    uint32_t value;

    if (sft__import_pk_at(t->p, dict)->type != SFT__PK_DICT) {
        return SFT_OK;
    }
    const uint32_t id = sft__import_pk_get(t->p, dict, BIG_PARAMETERS);
    const sft__import_pk_node *info = sft__import_pk_at(t->p, id);
    if (id == SFT__PK_NO) {
        return SFT_OK;
    }
    if (info->type != SFT__PK_DICT) {
        return bad(err, "the list of parameters in slices is no dict");
    }
    for (sft__import_pk_iter it = sft__import_pk_begin(info);
         sft__import_pk_next(&it, &key) && sft__import_pk_next(&it, &value);) {
        if (sft__import_pk_at(t->p, value)->type != SFT__PK_DICT) {
            return bad(err, "a parameter in slices is not described");
        }
        SFT_TRY(take_parameter(t, dict, sft__import_pk_at(t->p, key), value, &looked, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- bytes as text */

typedef struct decoded {
    const sft_allocator *allocator;
    size_t size;
    uint8_t bytes[];
} decoded;

static sft_status decoded_read(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    const decoded *d = self;
    (void)err;
    memcpy(dst, d->bytes + offset, size);
    return SFT_OK;
}

static void decoded_close(void *self) {
    decoded *d = self;
    sft__base_free(d->allocator, d, sizeof *d + d->size);
}

/* Characters up to U+00FF as bytes; SIZE_MAX: there are others. dst: NULL only to count. */
static size_t latin1(uint8_t *dst, const char *text, size_t len) {
    const uint8_t *s = (const uint8_t *)text;
    size_t n = 0;

    for (size_t i = 0; i < len; n++) {
        const bool pair = s[i] >= 0x80;
        if (pair && (s[i] < 0xc2 || s[i] > 0xc3 || i + 1 == len)) {
            return SIZE_MAX;
        }
        const uint8_t value = pair ? (uint8_t)((s[i] & 3) << 6 | (s[i + 1] & 0x3f)) : s[i];
        if (dst != NULL) {
            dst[n] = value;
        }
        i += pair ? 2 : 1;
    }
    return n;
}

static void take_decoded(const sft__import_decoded_text *d, sft__import_view *v) {
    v->low = v->first = 0;
    v->high = d->size;
    v->data = d->data;
    v->source = d->source;
}

/* Each is in memory until the catalog is closed: together at most half of the limit. */
static sft_status decode(sft__import_torch *t, const sft__import_pk_node *text, size_t size,
                         sft__import_decoded_text *made, sft_error *err) {
    const uint64_t most = t->job->options.memory_bytes / 2;
    sft_source_vtable vtable;
    sft_source *source;

    if (size > most || t->text_bytes > most - size) {
        return sft__base_fail(
            err, SFT_E_LIMIT,
            "memory: bytes as text need more than half of the limit of %llu bytes",
            (unsigned long long)t->job->options.memory_bytes);
    }
    decoded *d = sft__base_alloc(t->job->allocator, sizeof *d + size);
    if (d == NULL) {
        return sft__base_fail_nomem(err, sizeof *d + size);
    }
    d->allocator = t->job->allocator;
    d->size = size;
    (void)latin1(d->bytes, text->u.text, text->count);
    SFT_INIT(&vtable);
    vtable.read_at = decoded_read;
    vtable.close = decoded_close;
    const sft_status status = sft_source_create(&source, &vtable, d, size, SFT_SOURCE_MEMORY,
                                                "text", t->job->options.allocator, err);
    if (status != SFT_OK) {
        decoded_close(d);
        return status;
    }
    t->text_bytes += size;
    made->data = source;
    made->size = size;
    return sft_builder_add_source(t->job->builder, source, &made->source, err);
}

sft_status sft__import_paddle_latin1(sft__import_torch *t, uint32_t id, sft__import_view *v,
                                     sft_error *err) {
    const sft__import_pk_node *bytes = sft__import_pk_at(t->p, id);
    const bool call = bytes->type == SFT__PK_CALL;
    sft__import_pk_node *text =
        sft__import_pk_at(t->p, call ? sft__import_pk_item(t->p, bytes->args, 0) : id);

    const bool named = text->type == SFT__PK_STR &&
                       (!call || sft__import_pk_is_text(
                                     t->p, sft__import_pk_item(t->p, bytes->args, 1), "latin1"));
    if (named && text->state != 0) { /* another array has it, too */
        take_decoded(&t->texts[text->state - 1], v);
        return SFT_OK;
    }
    const size_t size = named ? latin1(NULL, text->u.text, text->count) : SIZE_MAX;
    if (size == SIZE_MAX) {
        return sft__base_fail(err, SFT_E_SCHEMA, "numpy-pickle: bytes as text that is not Latin-1");
    }
    const sft__import_decoded_text none = {t->p->source, 0, t->p->source_index};
    if (size == 0) {
        take_decoded(&none, v);
        return SFT_OK;
    }
    if (!sft__base_grow(t->job->allocator, &t->texts, &t->text_room, t->text_count + 1,
                        sizeof *t->texts)) {
        return sft__base_fail_nomem(err, t->text_count * sizeof *t->texts);
    }
    SFT_TRY(decode(t, text, size, &t->texts[t->text_count], err));
    take_decoded(&t->texts[t->text_count], v);
    text->state = (uint32_t)++t->text_count; /* at most one for each node */
    return SFT_OK;
}
