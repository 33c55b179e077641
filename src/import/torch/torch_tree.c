/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_tree.c - the tree of dicts, lists and records: where its tensors are, what they are
 * called, which of them are the same bytes. Walks with explicit stacks and budgets; a node that
 * holds no tensor is never entered twice, so shared parts cost nothing. Read first: torch.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/utf8.h"
#include "import/torch/torch_walk.h"
#include <stdio.h>
#include <stdlib.h>

/* Of step.stage. */
enum { ITEMS = 0, ARGUMENTS = 1, STATE = 2, DONE = 3, ATTRIBUTES = 4 };

static sft__import_pk_node *node(const walk *w, uint32_t id) {
    return sft__import_pk_at(w->t->p, id);
}

static sft_status enter(walk *w, uint32_t id, uint32_t name_len, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(w->t->job->allocator, w->stack, w->room, w->depth, err));
    const sft__import_pk_node *n = node(w, id);
    const bool record = n->type == SFT__PK_CALL;
    step *s = &w->stack[w->depth++];
    *s = (step){.id = id, .name_len = name_len, .stage = ITEMS, .joint = '.'};
    if (sft__import_torch_is_wrapper(w->t, id)) {
        s->stage = ATTRIBUTES;
        return SFT_OK;
    }
    if (n->type == SFT__PK_LIST || n->type == SFT__PK_TUPLE || n->type == SFT__PK_DICT ||
        n->type == SFT__PK_SET || record) {
        s->it = sft__import_pk_begin(n);
    } else {
        s->stage = DONE;
    }
    return SFT_OK;
}

/* The next child of the innermost node, with its key (SFT__PK_NO: none, use the index). */
static bool next_child(walk *w, step *s, uint32_t *key, uint32_t *child) {
    const sft__import_pk_node *n = node(w, s->id);

    *key = SFT__PK_NO;
    if (s->stage == ATTRIBUTES) {
        s->stage = DONE;
        *child = sft__import_torch_attributes(w->t, s->id);
        return *child != SFT__PK_NO;
    }
    if (s->stage == ITEMS) {
        uint32_t first;
        if (sft__import_pk_next(&s->it, &first)) {
            *child = first;
            if (n->type == SFT__PK_DICT) {
                *key = first;
                if (!sft__import_pk_next(&s->it, child)) {
                    return false;
                }
            }
            s->index++;
            return true;
        }
        s->stage = n->type == SFT__PK_CALL ? ARGUMENTS : DONE;
    }
    if (s->stage == ARGUMENTS) {
        s->stage = STATE;
        if (n->args != SFT__PK_NO) {
            *child = n->args;
            return true;
        }
    }
    if (s->stage == STATE) {
        s->stage = DONE;
        if (n->state != SFT__PK_NO) {
            *child = n->state;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- names */

/* How Paddle pickles a tensor outside a state dict: (name, array). */
static bool is_paddle_pair(const walk *w, uint32_t id) {
    const sft__import_pk_node *n = node(w, id);
    return w->t->job->format == SFT_IMPORT_PICKLE && n->type == SFT__PK_TUPLE && n->count == 2 &&
           node(w, sft__import_pk_item(w->t->p, id, 0))->type == SFT__PK_STR &&
           sft__import_torch_is_array(w->t, node(w, sft__import_pk_item(w->t->p, id, 1)));
}

/* The name of a child below w->name[0, len): its length goes to *out; NAMELESS: it has none. */
#define NAMELESS UINT32_MAX
static sft_status child_name(walk *w, const step *s, uint32_t key, uint32_t len, uint32_t *out,
                             sft_error *err) {
    const sft__import_pk_node *parent = node(w, s->id);
    const sft__import_pk_node *k = node(w, key);
    const char *text;
    char number[24];
    size_t n;

    *out = len;
    if (parent->type == SFT__PK_CALL || is_paddle_pair(w, s->id)) {
        return SFT_OK; /* a record's parts follow its own name */
    }
    if (parent->type != SFT__PK_DICT) {
        n = (size_t)snprintf(number, sizeof number, "%u", (unsigned)(s->index - 1));
        text = number;
    } else if (k->type == SFT__PK_INT) {
        n = (size_t)snprintf(number, sizeof number, "%lld", (long long)k->u.integer);
        text = number;
    } else if (k->type == SFT__PK_STR && sft__base_utf8_valid(k->u.text, k->count) == k->count) {
        if (sft__import_tree_is_module_part(k)) {
            return SFT_OK;
        }
        text = k->u.text;
        n = k->count;
    } else {
        *out = NAMELESS; /* torch_account.c names every tensor below */
        return SFT_OK;
    }
    if (len != 0 || s->named) {
        SFT_TRY(sft__import_tree_name(w, len, &s->joint, 1, err));
        len++;
    }
    SFT_TRY(sft__import_tree_name(w, len, text, n, err));
    *out = len + (uint32_t)n;
    return SFT_OK;
}

/* Has the child, whose name has `len` bytes, a key that leads to it? "" is a key like others. */
static bool is_named(const walk *w, const step *s, uint32_t key, uint32_t len) {
    const sft__import_pk_node *k = node(w, key);

    return s->named || len != 0 ||
           (node(w, s->id)->type == SFT__PK_DICT && k->type == SFT__PK_STR && k->count == 0);
}

/* Something called w->name[0, len) that is not taken. */
static sft_status told_out(walk *w, uint32_t len, const char *why, sft_error *err) {
    w->visits += SFT__TREE_TOLD;
    return sft__import_opaque(
        w->t->job, SFT__AT(w->name != NULL ? w->name : "", len, SFT_NO_OFFSET), err, "%s", why);
}

/* Into what an object called w->name[0, len) keeps beside its own bytes, if there are tensors. */
static sft_status enter_parts(walk *w, uint32_t id, uint32_t len, sft_error *err) {
    const uint32_t attributes = sft__import_torch_attributes(w->t, id);
    sft__import_pk_node *n = node(w, attributes);
    char joint;

    if (attributes == SFT__PK_NO || !n->holds_tensor) {
        return SFT_OK;
    }
    if (n->walked == ON_PATH) {
        return told_out(w, len, "pickle-cycle: a container that holds itself", err);
    }
    SFT_TRY(sft__import_tree_wrapper(w, id, &len, &joint, err));
    n->walked = ON_PATH;
    SFT_TRY(enter(w, attributes, len, err));
    w->stack[w->depth - 1].joint = joint;
    w->stack[w->depth - 1].wrapper = true;
    w->inside++;
    return SFT_OK;
}

/* A child of the innermost node: a tensor, a holder of some, or nothing to us. */
static sft_status take_child(walk *w, uint32_t key, uint32_t child, sft_error *err) {
    const step s = w->stack[w->depth - 1];
    sft__import_pk_node *c = node(w, child);
    uint32_t len;

    const uint32_t text = node(w, key)->type == SFT__PK_STR ? node(w, key)->count : 0;
    SFT_TRY(sft__import_tree_visit(w, c->holds_tensor ? text / SFT__TREE_TEXT : 0, err));
    const bool wrapper = sft__import_torch_is_wrapper(w->t, child);
    if (!c->holds_tensor && !wrapper) {
        w->others += c->type != SFT__PK_DICT && c->type != SFT__PK_LIST && c->type != SFT__PK_TUPLE;
        return SFT_OK;
    }
    SFT_TRY(child_name(w, &s, key, s.name_len, &len, err));
    if (len == NAMELESS) {
        w->visits += SFT__TREE_TOLD;
        return SFT_OK;
    }
    const bool tensor = sft__import_torch_is_tensor(w->t, child);
    const bool named = is_named(w, &s, key, len);
    if (len == 0 && !named) {
        SFT_TRY(
            sft__import_tree_name(w, 0, "tensor", 6, err)); /* no key leads to it: the file is it */
        len = tensor ? 6 : 0;
    }
    if (tensor) {
        const bool paddle = w->t->paddle;
        w->t->paddle = paddle || is_paddle_pair(w, s.id);
        const sft_status status = sft__import_tree_tensor(w, child, len, err);
        w->t->paddle = paddle;
        return status == SFT_OK ? enter_parts(w, child, len, err) : status;
    }
    if (wrapper) {
        sft__import_torch_meet(w->t, child);
        return c->holds_tensor ? enter_parts(w, child, len, err)
                               : told_out(w, len, "a tensor of a class without any bytes", err);
    }
    if (c->walked == ON_PATH) {
        return told_out(w, len, "pickle-cycle: a container that holds itself", err);
    }
    c->walked = ON_PATH;
    SFT_TRY(enter(w, child, len, err));
    w->stack[w->depth - 1].named = named;
    return SFT_OK;
}

static sft_status flatten(walk *w, uint32_t root, sft_error *err) {
    if (sft__import_torch_is_tensor(w->t, root)) { /* the part is a tensor */
        SFT_TRY(sft__import_tree_name(w, 0, "tensor", 6, err));
        return sft__import_tree_tensor(w, root, 6, err);
    }
    if (!node(w, root)->holds_tensor) {
        return SFT_OK;
    }
    node(w, root)->walked = ON_PATH;
    if (sft__import_torch_is_wrapper(w->t, root)) {
        SFT_TRY(sft__import_tree_name(w, 0, "tensor", 6, err));
        sft__import_torch_meet(w->t, root);
        SFT_TRY(enter_parts(w, root, 6, err));
    } else {
        SFT_TRY(enter(w, root, 0, err));
    }
    while (w->depth > 0) {
        uint32_t key;
        uint32_t child;
        if (next_child(w, &w->stack[w->depth - 1], &key, &child)) {
            SFT_TRY(take_child(w, key, child, err));
        } else {
            w->inside -= w->stack[w->depth - 1].wrapper;
            node(w, w->stack[w->depth - 1].id)->walked = WALKED;
            w->depth--;
        }
    }
    return sft__import_tree_torchao(w, err);
}

/* ---------------------------------------------------------------- the whole */

/* Nothing is lost in silence. A part that was asked for is all that is asked. */
static sft_status complete(walk *w, uint32_t part, sft_error *err) {
    const sft_import_options *o = &w->t->job->options;
    const bool all = o->key == NULL || strcmp(o->key, ".") == 0;
    size_t taken = 0;

    if (w->t->job->scanning) {
        return SFT_OK; /* nothing is made of it */
    }
    SFT_TRY(sft__import_tree_account(w, all ? w->t->p->root : part, all, err));
    if (!all) {
        SFT_TRY(sft__import_tree_rest(w, err));
    }
    for (size_t i = 0; i < w->leaf_count; i++) {
        taken += !w->leaves[i].outside;
    }
    return w->seen == 0 || taken != 0 || (o->flags & SFT_IMPORT_KEEP_TREE) == 0
               ? SFT_OK
               : sft__base_fail(err, SFT_E_UNSUPPORTED,
                                "tree: it holds tensors, and none of them can be kept");
}

static sft_status tree(walk *w, sft_error *err) {
    const uint32_t root = w->t->p->root;
    uint32_t part;

    SFT_TRY(sft__import_torch_texts(w->t, err));
    SFT_TRY(sft__import_alloc(w->t->job, &w->t->marks, w->t->p->count, 1, err));
    memset(w->t->marks, 0, w->t->p->count);
    SFT_TRY(sft__import_tree_holders(w, root, err));
    SFT_TRY(sft__import_tree_locate(w, root, &part, err));
    w->visits = 0;
    w->t->paddle = w->t->job->format == SFT_IMPORT_PICKLE && sft__import_paddle_is_dict(w->t, part);
    if ((w->t->job->options.flags & SFT_IMPORT_KEEP_TREE) != 0) {
        SFT_TRY(sft__import_tree_keep(w, part, err));
        SFT_TRY(complete(w, part, err));
        SFT_TRY(sft__import_tree_merge(w, err));
        SFT_TRY(sft__import_tree_kept(w, err));
        return sft__import_tree_emit(w, err);
    }
    if (w->t->paddle) {
        SFT_TRY(sft__import_paddle_slices(w->t, part, err));
    }
    SFT_TRY(flatten(w, part, err));
    if (w->others != 0) {
        sft__import_find(
            w->t->job, SFT__RULE(NOTE, HARMLESS, "no-tensors"), SFT__AT("", 0, SFT_NO_OFFSET),
            "%llu values beside the tensors are no tensors", (unsigned long long)w->others);
    }
    SFT_TRY(complete(w, part, err));
    SFT_TRY(sft__import_tree_merge(w, err));
    return sft__import_tree_emit(w, err);
}

static void walk_init(walk *w, sft__import_torch *t) {
    memset(w, 0, sizeof *w);
    w->t = t;
    sft__base_buf_init(&w->json, t->job->allocator);
}

static void walk_reset(walk *w) {
    const sft_allocator *a = w->t->job->allocator;

    sft__base_free(a, w->stack, w->room * sizeof *w->stack);
    sft__base_free(a, w->name, w->name_room);
    sft__base_free(a, w->leaves, w->leaf_room * sizeof *w->leaves);
    sft__base_free(a, w->mentions, w->mention_room * sizeof *w->mentions);
    sft__base_free(a, w->tops, w->top_room * sizeof *w->tops);
    sft__base_buf_reset(&w->json);
}

sft_status sft__import_torch_views(sft__import_torch *t, const sft__import_named_view *views,
                                   size_t count, sft_error *err) {
    sft_status status = SFT_OK;
    walk w;

    walk_init(&w, t);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        status = sft__import_tree_leaf(&w, views[i].name, views[i].name_len, &views[i].view, err);
    }
    SFT_THEN(status, sft__import_tree_merge(&w, err));
    SFT_THEN(status, sft__import_tree_emit(&w, err));
    walk_reset(&w);
    return status;
}

sft_status sft__import_torch_tree(sft__import_torch *t, sft_error *err) {
    sft_error local;
    walk w;

    walk_init(&w, t);
    const sft_status status = tree(&w, err != NULL ? err : &local);
    walk_reset(&w);
    return status;
}

void sft__import_torch_reset(sft__import_torch *t) {
    if (t->keys.slots != NULL) {
        sft__base_strmap_reset(&t->keys);
    }
    sft__base_free(t->job->allocator, t->storages, t->storage_room * sizeof *t->storages);
    t->storages = NULL;
    t->storage_room = 0;
    sft__base_free(t->job->allocator, t->texts, t->text_room * sizeof *t->texts);
    t->texts = NULL;
    t->text_room = 0;
}
