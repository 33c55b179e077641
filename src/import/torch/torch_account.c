/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_account.c - every tensor of a pickle arrives, or is named. Two walks over all
 * that nodes refer to (items, keys, arguments, attributes, what is called): the first finds what
 * holds a tensor; the second, when the tensors have been taken, finds those that nobody took: keys
 * of dicts, attributes of containers, parts of objects that cannot be kept; and places of those that
 * were taken elsewhere, which would be names of them if anything named them. At last the nodes that
 * nothing refers to. Each node is looked at once. Read first: torch_walk.h.
 */
#include "base/memory/need.h"
#include "base/text/utf8.h"
#include "import/torch/torch_walk.h"
#include <stdio.h>

enum { SUBJECT = 400, LEVELS = 32 };

/* How a node refers to another. The order is that of the walks. */
enum { ITEM, ARGUMENTS, STATE, CALLED, NOTHING, ATTRIBUTES };

typedef struct sft__import_edge {
    uint32_t to;
    uint32_t how;
    bool key; /* of a dict */
} edge;

static sft__import_pk_node *node(const walk *w, uint32_t id) {
    return sft__import_pk_at(w->t->p, id);
}

static bool is_scalar(const sft__import_pk_node *n) {
    return n->type < SFT__PK_LIST || n->type == SFT__PK_GLOBAL;
}

static bool has_items(const sft__import_pk_node *n) {
    return n->type == SFT__PK_LIST || n->type == SFT__PK_TUPLE || n->type == SFT__PK_DICT ||
           n->type == SFT__PK_SET || n->type == SFT__PK_CALL;
}

/* ---------------------------------------------------------------- what a node refers to */

/* The next item; a dict's keys come before their values. */
static bool next_item(step *s, const sft__import_pk_node *n, edge *e) {
    uint32_t id;

    if (!sft__import_pk_next(&s->it, &id)) {
        return false;
    }
    s->key = n->type == SFT__PK_DICT && !s->half ? id : s->key;
    s->half = n->type == SFT__PK_DICT && !s->half;
    s->index += !s->half;
    *e = (edge){id, ITEM, s->half};
    return true;
}

/* false: that was all. Numbers, texts and names refer to nothing and are passed over. */
static bool next_edge(const walk *w, step *s, edge *e) {
    const sft__import_pk_node *n = node(w, s->id);

    while (s->stage == ITEM) {
        if (!has_items(n) || !next_item(s, n, e)) {
            s->stage = ARGUMENTS;
        } else if (!is_scalar(node(w, e->to))) {
            return true;
        }
    }
    while (s->stage < NOTHING) {
        const uint32_t how = s->stage++;
        const uint32_t to =
            !has_items(n)
                ? (how == CALLED && n->type == SFT__PK_PID ? n->persistent_id : SFT__PK_NO)
            : how == ARGUMENTS ? n->args
            : how == STATE     ? n->state
                               : n->callable;
        if (to != SFT__PK_NO && !is_scalar(node(w, to))) {
            *e = (edge){to, how, false};
            return true;
        }
    }
    if (s->stage == ATTRIBUTES) {
        s->stage = NOTHING;
        *e = (edge){sft__import_torch_attributes(w->t, s->id), ATTRIBUTES, false};
        return e->to != SFT__PK_NO;
    }
    return false;
}

static sft_status push(walk *w, uint32_t id, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(w->t->job->allocator, w->stack, w->room, w->depth, err));
    const sft__import_pk_node *n = node(w, id);
    step *s = &w->stack[w->depth++];
    *s = (step){.id = id, .stage = ITEM};
    if (has_items(n)) {
        s->it = sft__import_pk_begin(n);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- who holds a tensor */

/* Of a tensor, only the attributes count: the rest of it is itself. */
static sft_status hold(walk *w, uint32_t id, sft_error *err) {
    sft__import_pk_node *n = node(w, id);
    const bool tensor = sft__import_torch_is_tensor(w->t, id);

    SFT_TRY(push(w, id, err));
    n->walked = WALKING;
    n->holds_tensor = tensor;
    if (tensor || sft__import_torch_is_wrapper(w->t, id)) {
        w->stack[w->depth - 1].stage = n->type == SFT__PK_PID ? NOTHING : ATTRIBUTES;
    }
    return SFT_OK;
}

sft_status sft__import_tree_holders(walk *w, uint32_t root, sft_error *err) {
    edge e;

    SFT_TRY(hold(w, root, err));
    while (w->depth > 0) {
        sft__import_pk_node *n = node(w, w->stack[w->depth - 1].id);
        if (next_edge(w, &w->stack[w->depth - 1], &e)) {
            if (node(w, e.to)->walked == UNWALKED) { /* each node once */
                SFT_TRY(hold(w, e.to, err));
            } else {
                n->holds_tensor |= node(w, e.to)->holds_tensor;
            }
            continue;
        }
        n->walked = WALKED;
        w->depth--;
        if (w->depth > 0) {
            node(w, w->stack[w->depth - 1].id)->holds_tensor |= n->holds_tensor;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what nobody took */

/* The name of what the last step of the walk led to, as far as it has one. */
static size_t subject_of(const walk *w, char text[SUBJECT]) {
    const size_t first = w->depth > LEVELS ? w->depth - LEVELS : 0;
    size_t len = 0;

    for (size_t i = first; i + 1 < w->depth && len < SUBJECT; i++) {
        const step *s = &w->stack[i];
        const uint8_t type = node(w, s->id)->type;
        const sft__import_pk_node *key = node(w, s->key);
        char number[24] = "";
        const char *part = number;
        int size;

        const bool inner = i != 0 && type == SFT__PK_TUPLE && w->stack[i - 1].stage != ITEM;
        if (s->stage != ITEM || type == SFT__PK_CALL || inner ||
            (type == SFT__PK_DICT && !s->half && sft__import_tree_is_module_part(key))) {
            continue; /* arguments and attributes have names only in their own dict */
        }
        (void)snprintf(number, sizeof number, "%lld",
                       type == SFT__PK_DICT && key->type == SFT__PK_INT ? (long long)key->u.integer
                                                                        : (long long)s->index - 1);
        size = (int)strlen(number);
        if (s->half) {
            part = "(key)";
            size = 5;
        } else if (type == SFT__PK_DICT && key->type == SFT__PK_STR && key->count < SUBJECT &&
                   sft__base_utf8_valid(key->u.text, key->count) == key->count) {
            part = key->u.text;
            size = (int)key->count;
        } else if (type == SFT__PK_DICT && key->type != SFT__PK_INT) {
            (void)snprintf(number, sizeof number, "#%u", (unsigned)s->index - 1);
            size = (int)strlen(number);
        }
        const int n =
            snprintf(text + len, SUBJECT - len, "%s%.*s", len != 0 ? "." : "", size, part);
        len += n > 0 ? (size_t)n : 0;
    }
    len = len < SUBJECT ? len : SUBJECT - 1;
    while (len != 0 && sft__base_utf8_valid(text, len) != len) {
        len--;
    }
    return len;
}

static bool is_name(const sft__import_pk_node *key) {
    return key->type == SFT__PK_INT ||
           (key->type == SFT__PK_STR &&
            sft__base_utf8_valid(key->u.text, key->count) == key->count);
}

/* Where the outermost step is that no name leads through. */
static const char *reason_of(const walk *w, char text[SUBJECT]) {
    for (size_t i = 0; i + 1 < w->depth; i++) {
        const step *s = &w->stack[i];
        const sft__import_pk_node *n = node(w, s->id);
        const sft__import_pk_node *class =
            node(w, n->type == SFT__PK_CALL ? n->callable : SFT__PK_NO);
        if (sft__import_torch_is_tensor(w->t, s->id) || sft__import_torch_is_wrapper(w->t, s->id)) {
            return "a tensor beside the bytes of another one, which has no place for it";
        }
        if (n->type == SFT__PK_DICT && s->half) {
            return "a tensor in a key of a dict: a key is a name, and no tensor";
        }
        if (n->type == SFT__PK_CALL) {
            (void)snprintf(text, SUBJECT, "a tensor in an object of the class %.200s",
                           class->type == SFT__PK_GLOBAL ? class->u.text : "(none)");
            return text;
        }
        if (n->type == SFT__PK_DICT && s->stage == ITEM && !is_name(node(w, s->key))) {
            return "torch-name: a key that is no text or integer";
        }
        if (s->stage == STATE + 1) {
            return "a tensor in an attribute of a dict or list, which keeps its items alone";
        }
        if (s->stage != ITEM) {
            return "a tensor in what made a dict or list, which keeps its items alone";
        }
    }
    return "a tensor that has no place here";
}

/* A tensor by what is called, or a storage; not yet: is it in the catalog? */
static bool is_one(const walk *w, uint32_t id) {
    const sft__import_pk_node *n = node(w, id);

    if (n->type == SFT__PK_PID) {
        return w->t->tensor != NULL
                   ? node(w, n->persistent_id)->type != SFT__PK_TUPLE
                   : sft__import_pk_is_text(
                         w->t->p, sft__import_pk_item(w->t->p, n->persistent_id, 0), "storage");
    }
    return n->type == SFT__PK_CALL &&
           ((n->known >= SFT__G_REBUILD_TENSOR && n->known <= SFT__G_REBUILD_FROM_CPU) ||
            n->known == SFT__G_NP_MASKED || sft__import_torch_is_array(w->t, n));
}

static sft_status told(walk *w, uint32_t id, const char *subject, size_t len, const char *why,
                       sft_error *err) {
    SFT_TRY(sft__import_tree_visit(w, LEVELS, err)); /* what is told takes longer than a look */
    SFT_TRY(sft__import_opaque(w->t->job, SFT__AT(subject, len, SFT_NO_OFFSET), err, "%s", why));
    w->t->marks[id] |= SFT__TORCH_TOLD;
    return sft__import_tree_outside(w, id, err); /* its bytes are used, all the same */
}

/* Does no name of the catalog lead through this edge? */
static bool is_nameless(const walk *w, const step *s, const edge *e) {
    const sft__import_pk_node *n = node(w, s->id);
    const bool keep = (w->t->job->options.flags & SFT_IMPORT_KEEP_TREE) != 0; /* any key is kept */

    if (sft__import_torch_is_tensor(w->t, s->id) || n->type == SFT__PK_CALL) {
        return false; /* a record's arguments and state follow its own name */
    }
    return e->how == STATE || (n->type == SFT__PK_DICT && e->how == ITEM && !e->key && !keep &&
                               !is_name(node(w, s->key)));
}

/* Another place of what has been taken, which nothing names. */
static sft_status tell_place(walk *w, sft_error *err) {
    char subject[SUBJECT];
    char reason[SUBJECT];
    const size_t len = subject_of(w, subject);

    SFT_TRY(sft__import_tree_visit(w, LEVELS, err));
    return sft__import_opaque(w->t->job, SFT__AT(subject, len, SFT_NO_OFFSET), err,
                              "another place of what is taken elsewhere: %s", reason_of(w, reason));
}

/* What the last step led to. A tensor that was told of is all that it is made of; a part that was,
 * all that is in it. */
static sft_status account(walk *w, uint8_t inherited, sft_error *err) {
    step *s = &w->stack[w->depth - 1];
    uint8_t *mark = &w->t->marks[s->id];
    const bool nameless = inherited == SFT__TORCH_NAMELESS;

    *mark |= SFT__TORCH_SEEN;
    s->inherited = *mark & SFT__TORCH_PART ? SFT__TORCH_PART : inherited;
    const bool one = is_one(w, s->id);
    w->seen += one;
    if (one && (*mark & (SFT__TORCH_MET | SFT__TORCH_TOLD)) == 0 &&
        (s->inherited == 0 || nameless)) {
        char subject[SUBJECT];
        char reason[SUBJECT];
        const size_t len = subject_of(w, subject);
        SFT_TRY(told(w, s->id, subject, len, reason_of(w, reason), err));
    } else if (nameless && sft__import_torch_is_tensor(w->t, s->id)) {
        SFT_TRY(tell_place(w, err));
        w->stack[w->depth - 1].inherited = SFT__TORCH_TOLD;
    }
    s = &w->stack[w->depth - 1];
    if ((s->inherited == 0 || nameless) && (*mark & SFT__TORCH_TOLD) != 0) {
        s->inherited = SFT__TORCH_TOLD;
    }
    return SFT_OK;
}

/* The edge of the last step, to a node that was looked at before. */
static sft_status account_again(walk *w, const edge *e, uint8_t inherited, sft_error *err) {
    const uint8_t mark = w->t->marks[e->to];

    if (inherited != SFT__TORCH_NAMELESS || !node(w, e->to)->holds_tensor ||
        (mark & (SFT__TORCH_TOLD | SFT__TORCH_PART)) != 0) {
        return SFT_OK;
    }
    SFT_TRY(push(w, e->to, err));
    SFT_TRY(tell_place(w, err));
    w->depth--;
    return SFT_OK;
}

static sft_status account_below(walk *w, uint32_t root, sft_error *err) {
    edge e;

    if (is_scalar(node(w, root))) {
        return SFT_OK;
    }
    SFT_TRY(push(w, root, err));
    SFT_TRY(account(w, 0, err));
    while (w->depth > 0) {
        step *s = &w->stack[w->depth - 1];
        if (!next_edge(w, s, &e)) {
            w->depth--;
        } else {
            const uint8_t type = node(w, e.to)->type;
            const bool apart = type == SFT__PK_LIST || type == SFT__PK_DICT || type == SFT__PK_SET;
            uint8_t from = s->inherited == SFT__TORCH_TOLD && apart ? 0 : s->inherited;
            from = from == 0 && is_nameless(w, s, &e) ? SFT__TORCH_NAMELESS : from;
            if ((w->t->marks[e.to] & SFT__TORCH_SEEN) != 0) {
                SFT_TRY(account_again(w, &e, from, err));
            } else {
                SFT_TRY(push(w, e.to, err));
                SFT_TRY(account(w, from, err));
            }
        }
    }
    return SFT_OK;
}

sft_status sft__import_tree_account(walk *w, uint32_t root, bool all, sft_error *err) {
    static const char why[] = "a tensor of the pickle that nothing in it leads to";

    SFT_TRY(account_below(w, root, err));
    for (uint32_t id = 0; all && id < w->t->p->count; id++) {
        if ((w->t->marks[id] & (SFT__TORCH_SEEN | SFT__TORCH_MET)) != 0 || !is_one(w, id)) {
            continue;
        }
        w->seen++;
        SFT_TRY(told(w, id, "", 0, why, err));
        SFT_TRY(account_below(w, id, err));
    }
    return SFT_OK;
}

sft_status sft__import_tree_rest(walk *w, sft_error *err) {
    for (uint32_t id = w->t->p->count; id-- > 0;) { /* a tensor before the storage it is made of */
        if (is_one(w, id) && (w->t->marks[id] & (SFT__TORCH_MET | SFT__TORCH_TOLD)) == 0) {
            SFT_TRY(sft__import_tree_outside(w, id, err));
        }
    }
    return SFT_OK;
}
