/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_visit.c - what all walks over the tree share: their budget and the name of where they
 * are. Read first: torch_walk.h.
 */
#include "base/memory/need.h"
#include "import/torch/torch_walk.h"

/* Visits: one for so many bytes of the memory limit (8 million by default), and for every object of
 * the file. What is told of a tensor that is left out costs as much as so many of them. */
enum { VISIT_BYTES = 24, VISITS_EACH = 8 };

sft_status sft__import_tree_visit(walk *w, uint64_t cost, sft_error *err) {
    const uint64_t most =
        w->t->job->options.memory_bytes / VISIT_BYTES + VISITS_EACH * (uint64_t)w->t->p->count;

    w->visits += 1 + cost; /* costs are below 2^32 */
    return w->visits <= most
               ? SFT_OK
               : sft__base_fail(err, SFT_E_LIMIT,
                                "pickle-expansion: the tree unfolds to more than %llu objects",
                                (unsigned long long)most);
}

sft_status sft__import_tree_name(walk *w, size_t at, const char *text, size_t len, sft_error *err) {
    if (at + len > SFT__TREE_NAME_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "torch-name: a name of more than %d bytes",
                              SFT__TREE_NAME_MAX);
    }
    SFT_TRY(
        sft__base_need_room(w->t->job->allocator, &w->name, &w->name_room, at + len + 1, 1, err));
    memcpy(w->name + at, text, len);
    return SFT_OK;
}

/* Parts of a pickled module that are no parts of its tensors' names. */
bool sft__import_tree_is_module_part(const sft__import_pk_node *key) {
    static const char *const parts[] = {"_parameters", "_buffers", "_modules"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (key->type == SFT__PK_STR && key->count == strlen(parts[i]) &&
            memcmp(key->u.text, parts[i], key->count) == 0) {
            return true;
        }
    }
    return false;
}
