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
