/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_strip.c - which call makes a tensor, and the lists of numbers among its arguments.
 * Read first: torch.h.
 */
#include "import/torch/torch.h"

enum { NEST_MAX = 16 };

static uint32_t arg(const sft__import_torch *t, const sft__import_pk_node *call, uint32_t i) {
    return sft__import_pk_item(t->p, call->args, i);
}

static const sft__import_pk_node *node(const sft__import_torch *t, uint32_t id) {
    return sft__import_pk_at(t->p, id);
}

sft_status sft__import_torch_numbers(sft__import_torch *t, uint32_t id, const char *what,
                                     uint64_t **numbers, uint32_t *count, sft_error *err) {
    const sft__import_pk_node *n = node(t, id);
    uint32_t item;
    uint32_t i = 0;

    if (n->type != SFT__PK_TUPLE && n->type != SFT__PK_LIST) {
        return sft__base_fail(err, SFT_E_SCHEMA, "torch-view: a %s that is no tuple", what);
    }
    if (n->count > SFT__TORCH_RANK_MAX) {
        return sft__base_fail(err, SFT_E_SHAPE,
                              "torch-view: a %s of %u dimensions, %d is the limit", what,
                              (unsigned)n->count, SFT__TORCH_RANK_MAX);
    }
    SFT_TRY(sft__import_alloc(t->job, numbers, n->count, sizeof **numbers, err));
    for (sft__import_pk_iter it = sft__import_pk_begin(n); sft__import_pk_next(&it, &item); i++) {
        if (!sft__import_pk_uint(t->p, item, &(*numbers)[i])) {
            return sft__base_fail(
                err, SFT_E_SCHEMA,
                "torch-view: a %s holds something that is no integer of 0 or more", what);
        }
    }
    *count = n->count;
    return SFT_OK;
}

bool sft__import_torch_is_array(const sft__import_torch *t, const sft__import_pk_node *call) {
    (void)t;
    return call->type == SFT__PK_CALL &&
           (call->known == SFT__G_NP_RECONSTRUCT || call->known == SFT__G_NP_FROMBUFFER ||
            call->known == SFT__G_JOBLIB_ARRAY);
}

uint32_t sft__import_torch_strip(const sft__import_torch *t, uint32_t id, sft__import_pk_node *call,
                                 const char **subclass, uint8_t mark) {
    *call = *node(t, id);
    sft__import_torch_mark(t, id, mark);
    for (int depth = 0; depth < NEST_MAX; depth++) {
        uint32_t known = call->known;
        if (call->type != SFT__PK_CALL) {
            return call->type == SFT__PK_PID ? (uint32_t)SFT__G_STORAGE : (uint32_t)SFT__G_UNKNOWN;
        }
        if (known == SFT__G_REBUILD_FROM_TYPE) {
            const sft__import_pk_node *func = node(t, arg(t, call, 0));
            const sft__import_pk_node *class = node(t, arg(t, call, 1));
            if (func->type != SFT__PK_GLOBAL || func->known == SFT__G_REBUILD_FROM_TYPE) {
                return SFT__G_UNKNOWN;
            }
            if (class->type == SFT__PK_GLOBAL && class->known != SFT__G_TENSOR_CLASS &&
                class->known != SFT__G_PARAMETER) {
                *subclass = class->u.text;
            }
            const uint32_t args = arg(t, call, 2);
            call->known = func->known;
            call->args = args;
            call->callable = arg(t, call, 0);
            continue;
        }
        uint32_t next = SFT__PK_NO;
        if (known == SFT__G_REBUILD_PARAMETER || known == SFT__G_REBUILD_FROM_NUMPY ||
            known == SFT__G_REBUILD_FROM_CPU) {
            next = arg(t, call, 0);
        } else if (known == SFT__G_PARAMETER) { /* before 0.4: the state is (tensor, ...) */
            next = node(t, call->args)->count != 0 ? arg(t, call, 0)
                                                   : sft__import_pk_item(t->p, call->state, 0);
        } else {
            return known >= SFT__G_REBUILD_TENSOR || sft__import_torch_is_array(t, call)
                       ? known
                       : (uint32_t)SFT__G_UNKNOWN;
        }
        *call = *node(t, next);
        sft__import_torch_mark(t, next, mark);
    }
    return SFT__G_UNKNOWN;
}

void sft__import_torch_meet(const sft__import_torch *t, uint32_t id) {
    const char *subclass = NULL;
    sft__import_pk_node call;

    (void)sft__import_torch_strip(t, id, &call, &subclass, SFT__TORCH_MET);
}
