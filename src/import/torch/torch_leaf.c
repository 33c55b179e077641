/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_leaf.c - the tensors that walks over the tree have found. Read first: torch_walk.h.
 */
#include "base/memory/need.h"
#include "import/torch/torch_walk.h"

sft_status sft__import_tree_leaf(walk *w, const char *name, size_t len, const sft__import_view *v,
                                 sft_error *err) {
    char *copy;

    SFT_TRY(SFT_ONE_MORE(w->t->job->allocator, w->leaves, w->leaf_room, w->leaf_count, err));
    SFT_TRY(sft__import_copy(w->t->job, &copy, name, len, err));
    leaf *l = &w->leaves[w->leaf_count];
    *l = (leaf){.name = copy, .name_len = (uint32_t)len, .part = w->inside != 0, .view = *v};
    l->shown = UINT32_MAX;
    l->order = l->kept = (uint32_t)w->leaf_count++;
    return SFT_OK;
}

/* A tensor of a part that stays outside: only its places count, as used. What is odd about it is
 * said when somebody asks for that part. */
sft_status sft__import_tree_outside(walk *w, uint32_t id, sft_error *err) {
    sft__import_parts parts;

    w->t->outside = true;
    const sft_status status = sft__import_torch_eval(w->t, id, "", 0, &parts, err);
    w->t->outside = false;
    if (status != SFT_OK) {
        return status == SFT_E_NOMEM ? status : SFT_OK;
    }
    for (size_t i = 0; i < parts.count; i++) {
        SFT_TRY(sft__import_tree_leaf(w, "", 0, &parts.at[i].view, err));
        w->leaves[w->leaf_count - 1].outside = true;
    }
    return SFT_OK;
}

/* A tensor: one leaf, or one for each of its parts. */
sft_status sft__import_tree_tensor(walk *w, uint32_t id, uint32_t len, sft_error *err) {
    sft__import_parts parts;
    sft_status status;

    status = sft__import_torch_eval(w->t, id, w->name, len, &parts, err);
    if (status != SFT_OK) {
        if (err != NULL && err->tensor[0] == '\0') {
            (void)sft_escape(err->tensor, sizeof err->tensor, w->name, len);
        }
        return status;
    }
    w->visits += parts.count == 0 ? SFT__TREE_TOLD : 0;
    for (size_t i = 0; i < parts.count; i++) {
        const size_t more = strlen(parts.at[i].suffix);
        SFT_TRY(sft__import_tree_name(w, len, parts.at[i].suffix, more, err));
        SFT_TRY(sft__import_tree_leaf(w, w->name, len + more, &parts.at[i].view, err));
    }
    return SFT_OK;
}
