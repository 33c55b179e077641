/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_walk.h - between the two walks over a pickle's tree: torch_tree.c, which takes the
 * tensors out of it, and torch_keep.c, which keeps all of it as JSON, too. Read first: torch.h.
 */
#ifndef SFT_IMPORT_TORCH_WALK_H
#define SFT_IMPORT_TORCH_WALK_H

#include "base/text/buf.h"
#include "import/torch/torch.h"

enum { SFT__TREE_NAME_MAX = 65536 };

/* node.walked. ON_PATH: the walk is inside it; COUNTED: by the search for the model. */
enum { UNWALKED = 0, WALKING, WALKED, ON_PATH, COUNTED };

/* One tensor of the catalog to be. */
typedef struct leaf {
    const char *name;
    uint32_t name_len;
    uint32_t order;
    bool part;     /* of an object of several */
    uint32_t kept; /* index of the leaf that this is another name of; itself */
    /* index of the leaf whose bytes it shows, for good; UINT32_MAX: it is a tensor */
    uint32_t shown;
    bool outside; /* of a part that is not taken: it has no name, only a place */
    sft__import_view view;
} leaf;

/* Where the JSON names a tensor: its name is known only when the same bytes have been found. */
typedef struct sft__import_mention {
    size_t at;
    size_t leaf;
} sft__import_mention;

/* The name of an object of several tensors. */
typedef struct sft__import_top {
    const char *name;
    size_t len;
} sft__import_top;

/* One node under way: its children are items, then arguments and state of records. */
typedef struct step {
    uint32_t id;
    uint32_t index;
    uint32_t name_len; /* of the path to this node */
    uint32_t stage;    /* each walk has its own */
    uint32_t key;      /* torch_account.c: of a dict's last item */
    char joint;        /* between the names of this node and of its children */
    bool wrapper;
    bool named; /* a key leads to it, if only the empty text */
    bool half;  /* torch_account.c: the value of `key` comes next */
    uint8_t inherited;
    sft__import_pk_iter it;
} step;

typedef struct walk {
    sft__import_torch *t;
    step *stack;
    size_t depth;
    size_t room;
    char *name; /* path of the innermost node */
    size_t name_room;
    leaf *leaves;
    size_t leaf_count;
    size_t leaf_room;
    uint64_t visits;
    uint64_t others; /* leaves that are no tensors */
    uint64_t seen;   /* tensors and storages that the file has, when all have been accounted for */
    sft__base_buf json;
    sft__import_mention *mentions;
    size_t mention_count;
    size_t mention_room;
    sft__import_top *tops; /* torchao's */
    size_t top_count;
    size_t top_room;
    uint32_t inside; /* how many wrappers the walk is in */
} walk;

/* Counts one more node that a walk looks at, wherever it is mentioned: a memo lets a few bytes
 * mention the same ones billions of times. cost: what it takes beyond a look, in looks; of text one
 * for SFT__TREE_TEXT bytes. SFT_E_LIMIT: more than any file says by itself. */
enum { SFT__TREE_TEXT = 16, SFT__TREE_TOLD = 32 /* visits for a tensor that is told of */ };
sft_status sft__import_tree_visit(walk *w, uint64_t cost, sft_error *err);

/* Text at place `at` of the walk's name. */
sft_status sft__import_tree_name(walk *w, size_t at, const char *text, size_t len, sft_error *err);
/* A tensor that was found. */
sft_status sft__import_tree_leaf(walk *w, const char *name, size_t len, const sft__import_view *v,
                                 sft_error *err);
/* The tensor `id`, called name[0, len): one leaf, or one for each of its parts, or none (told). */
sft_status sft__import_tree_tensor(walk *w, uint32_t id, uint32_t len, sft_error *err);

/* The tensor `id` of a part that is not taken. */
sft_status sft__import_tree_outside(walk *w, uint32_t id, sft_error *err);

/* Parts of a pickled module that are no parts of its tensors' names. */
bool sft__import_tree_is_module_part(const sft__import_pk_node *key);

/* torch_account.c: sets holds_tensor in every node below root that is a tensor or holds one. */
sft_status sft__import_tree_holders(walk *w, uint32_t root, sft_error *err);
/* Names every tensor below root that is in no view and was not told of; all: those that nothing leads
 * to, too. */
sft_status sft__import_tree_account(walk *w, uint32_t root, bool all, sft_error *err);

/* When a part was asked for and taken: the bytes of the others are used, too. */
sft_status sft__import_tree_rest(walk *w, sft_error *err);

/* torch_key.c: the part that was asked for, or the whole of it, or sft__import_tree_part.
 * SFT_E_DUPLICATE: the key names two parts that hold tensors. */
sft_status sft__import_tree_locate(walk *w, uint32_t root, uint32_t *found, sft_error *err);

/* torch_parts.c: the part of the tree that is the model, or all of it; what stays outside is told. */
sft_status sft__import_tree_part(walk *w, uint32_t root, uint32_t *part, sft_error *err);

/* torch_emit.c: finds the leaves that are the same bytes; puts the others into the catalog. */
sft_status sft__import_tree_merge(walk *w, sft_error *err);
sft_status sft__import_tree_emit(walk *w, sft_error *err);

/* torch_wrap.c: `id`, called name[0, *len), keeps tensors as attributes: the metadata say what it is;
 * its parts are called name[0, *len) joint ATTRIBUTE. */
sft_status sft__import_tree_wrapper(walk *w, uint32_t id, uint32_t *len, char *joint,
                                    sft_error *err);
/* When all are taken: torchao's list of them. */
sft_status sft__import_tree_torchao(walk *w, sft_error *err);

/* In the place of taking the tensors alone: the whole of it as JSON in w->json, tensors as leaves.
 */
sft_status sft__import_tree_keep(walk *w, uint32_t root, sft_error *err);
/* Puts the names of the kept leaves in, and gives the catalog its "sft.tree". */
sft_status sft__import_tree_kept(walk *w, sft_error *err);

#endif
