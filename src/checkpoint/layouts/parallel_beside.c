/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_beside.c - shapes of a model's tensors against each other, where a few numbers
 * are the layout: what goes as another tensor has that one's shape, or it was cut otherwise. Read
 * checkpoint/layouts/parallel_facts.h first.
 */
#include "base/error.h"
#include "checkpoint/layouts/parallel_facts.h"
#include <stdio.h>
#include <string.h>

static sft_status apart(const sft_tensor *t, const sft_tensor *of, const char *whose,
                        const char *more, sft_error *err) {
    char has[96], want[96], name[160];
    sft__checkpoint_tell_shape(has, sizeof has, t->rank, t->shape);
    sft__checkpoint_tell_shape(want, sizeof want, of->rank, of->shape);
    (void)sft_escape(name, sizeof name, of->name, of->name_len);
    return SFT_FAIL_TENSOR(err, SFT_E_MISMATCH, t, "%s, and its %s \"%s\" is %s: %s", has, whose,
                           name, want, more);
}

/* Single numbers are no parts of anything. */
static sft_status check_state(const sft_catalog *model, const sft_tensor *t, size_t prefix,
                              bool ranks, sft_error *err) {
    const sft_tensor *const of = sft_catalog_find(model, t->name + prefix, t->name_len - prefix);
    if (of == NULL || t->rank == 0 || sft__checkpoint_is_packed(of->dtype) ||
        (t->rank == of->rank && memcmp(t->shape, of->shape, t->rank * sizeof *t->shape) == 0)) {
        return SFT_OK;
    }
    return apart(t, of, "parameter",
                 ranks ? "the numbers cut both alike, and the ranks do not, as where the optimizer "
                         "alone is sharded among replicas (optimizer-parallel): such ranks need a "
                         "layout's file (layout make --optimizer-parallel)"
                       : "the numbers would cut both alike",
                 err);
}

static sft_status check_bias(const sft_catalog *model, const sft_tensor *t, sft_error *err) {
    static const char ending[] = "weight";
    const size_t stem = t->name_len - (sizeof "bias" - 1);
    char name[512];
    if (t->rank != 1 || stem + sizeof ending > sizeof name) {
        return SFT_OK;
    }
    memcpy(name, t->name, stem);
    memcpy(name + stem, ending, sizeof ending);
    const sft_tensor *const of = sft_catalog_find(model, name, stem + sizeof ending - 1);
    if (of == NULL || of->rank == 0 || of->rank > 2 || sft__checkpoint_is_packed(of->dtype) ||
        of->shape[0] == t->shape[0]) {
        return SFT_OK;
    }
    return apart(t, of, "weight", "the numbers cut both alike, and one of them is cut otherwise",
                 err);
}

sft_status sft__checkpoint_parallel_beside(const sft_catalog *model, bool ranks, sft_error *err) {
    for (size_t i = 0; i < sft_catalog_count(model); i++) {
        const sft_tensor *const t = sft_catalog_at(model, i);
        const size_t prefix = sft__checkpoint_state_of(t->name, t->name_len);
        sft__checkpoint_role role;
        if (prefix != 0) {
            SFT_TRY(check_state(model, t, prefix, ranks, err));
        } else if (ranks && sft__checkpoint_role_of(t->name, t->name_len, &role) && role.is_bias) {
            SFT_TRY(check_bias(model, t, err));
        }
    }
    return SFT_OK;
}
