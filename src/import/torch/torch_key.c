/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_key.c - the part of a pickle's tree that --key names. Its parts are joined by dots, and
 * keys have dots of their own: all ways to read it are followed, and one that leads to two parts
 * with tensors is refused. Read first: torch_walk.h.
 */
#include "base/memory/need.h"
#include "import/torch/torch_walk.h"
#include <stdio.h>

/* WAYS_MAX: a key that can be read in more ways is a trick. */
enum { WAYS_MAX = 4096, PATH_MAX_TEXT = 150, PATH_STEPS = 16 };

/* A node that key[0, used) leads to, by way of another one. */
typedef struct sft__import_way {
    uint32_t id;
    uint32_t from; /* of the list */
    uint32_t key;  /* node of the dict's key; SFT__PK_NO: the number counts */
    uint32_t number;
    size_t used;
} way;

typedef struct finding {
    walk *w;
    const char *text;
    size_t len;
    way *ways;
    size_t count;
    size_t room;
} finding;

static sft__import_pk_node *node(const walk *w, uint32_t id) {
    return sft__import_pk_at(w->t->p, id);
}

/* A place that is named twice is where the last of them leads, as a dict has it. */
static sft_status add(finding *f, const way *to, sft_error *err) {
    for (size_t i = 0; i < f->count; i++) {
        way *old = &f->ways[i];
        const bool again = old->from == to->from && old->used == to->used &&
                           node(f->w, old->key)->type == node(f->w, to->key)->type &&
                           to->key != SFT__PK_NO;
        if (again || (old->id == to->id && old->used == to->used)) {
            *old = again ? *to : *old;
            return SFT_OK;
        }
    }
    SFT_TRY(sft__import_tree_visit(f->w, f->count / 16, err));
    if (f->count == WAYS_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "the key can be read in more than %d ways",
                              (int)WAYS_MAX);
    }
    SFT_TRY(SFT_ONE_MORE(f->w->t->job->allocator, f->ways, f->room, f->count, err));
    f->ways[f->count++] = *to;
    return SFT_OK;
}

/* A child of the node at ways[to.from], called `text` there. */
static sft_status step_to(finding *f, way to, const char *text, size_t len, sft_error *err) {
    const size_t used = f->ways[to.from].used;
    const size_t left = f->len - used;

    if (len > left || memcmp(f->text + used, text, len) != 0 ||
        (len != left && f->text[used + len] != '.')) {
        return SFT_OK;
    }
    to.used = used + len + (len != left);
    return add(f, &to, err);
}

/* Every child of ways[from] that the rest of the text goes on with. */
static sft_status steps_of(finding *f, size_t from, sft_error *err) {
    const sft__import_pk_node *n = node(f->w, f->ways[from].id);
    const bool dict = n->type == SFT__PK_DICT;
    uint32_t number = 0;
    uint32_t id;

    if (n->type == SFT__PK_CALL && n->state != SFT__PK_NO) { /* an object is what its state has */
        const way next = {n->state, (uint32_t)from, SFT__PK_NO, UINT32_MAX, f->ways[from].used};
        return add(f, &next, err);
    }
    if (!dict && n->type != SFT__PK_LIST && n->type != SFT__PK_TUPLE) {
        return SFT_OK;
    }
    for (sft__import_pk_iter it = sft__import_pk_begin(n); sft__import_pk_next(&it, &id);
         number++) {
        const uint32_t key = dict ? id : SFT__PK_NO;
        const sft__import_pk_node *k = node(f->w, key);
        char text[24];
        SFT_TRY(sft__import_tree_visit(f->w, 0, err));
        if (dict && !sft__import_pk_next(&it, &id)) {
            return SFT_OK;
        }
        const way to = {id, (uint32_t)from, key, number, 0};
        if (dict && k->type == SFT__PK_STR) {
            SFT_TRY(step_to(f, to, k->u.text, k->count, err));
            continue;
        }
        const long long v = dict && k->type == SFT__PK_INT ? (long long)k->u.integer : number;
        const int len = snprintf(text, sizeof text, "%lld", v);
        SFT_TRY(step_to(f, to, text, (size_t)len, err));
    }
    return SFT_OK;
}

/* How ways[at] is reached, as Python would write it: ["a.b"][0]. */
static void describe(const finding *f, size_t at, char text[PATH_MAX_TEXT]) {
    size_t path[PATH_STEPS];
    size_t count = 0;
    size_t len = 0;

    for (; at != 0 && count < PATH_STEPS; at = f->ways[at].from) {
        path[count++] = at;
    }
    text[0] = '\0';
    while (count != 0 && len < PATH_MAX_TEXT) {
        const way *x = &f->ways[path[--count]];
        const sft__import_pk_node *k = node(f->w, x->key);
        char name[64];
        int n = 0;
        if (k->type == SFT__PK_STR) {
            (void)sft_escape(name, sizeof name, k->u.text, k->count);
            n = snprintf(text + len, PATH_MAX_TEXT - len, "[\"%s\"]", name);
        } else if (x->number != UINT32_MAX) {
            const bool is_int = k->type == SFT__PK_INT;
            n = snprintf(text + len, PATH_MAX_TEXT - len, is_int ? "[%lld]" : "[#%lld]",
                         is_int ? (long long)k->u.integer : (long long)x->number);
        }
        len += n > 0 ? (size_t)n : 0;
    }
}

/* The one part that the text names; of several the one that holds tensors. */
static sft_status choose(finding *f, uint32_t *found, sft_error *err) {
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < f->count; i++) {
        const way *x = &f->ways[i];
        if (x->used != f->len || (i != 0 && x->number == UINT32_MAX && x->key == SFT__PK_NO)) {
            continue; /* the object counts, not its state */
        }
        const bool holds = node(f->w, x->id)->holds_tensor;
        const bool held = best != SIZE_MAX && node(f->w, f->ways[best].id)->holds_tensor;
        if (holds && held) {
            char one[PATH_MAX_TEXT];
            char other[PATH_MAX_TEXT];
            describe(f, best, one);
            describe(f, i, other);
            return sft__base_fail(
                err, SFT_E_DUPLICATE,
                "the key \"%.100s\" names two parts, %s and %s: --tree takes both", f->text, one,
                other);
        }
        best = holds || best == SIZE_MAX ? i : best;
    }
    if (best == SIZE_MAX) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "the file has no part \"%s\" (key)", f->text);
    }
    *found = f->ways[best].id;
    return SFT_OK;
}

static sft_status find(walk *w, uint32_t root, const char *key, uint32_t *found, sft_error *err) {
    finding f = {.w = w, .text = key, .len = strlen(key)};
    const way first = {root, 0, SFT__PK_NO, 0, 0};
    sft_status status = add(&f, &first, err);

    for (size_t i = 0; i < f.count && status == SFT_OK; i++) {
        status = f.ways[i].used < f.len ? steps_of(&f, i, err) : SFT_OK;
    }
    status = status == SFT_OK ? choose(&f, found, err) : status;
    sft__base_free(w->t->job->allocator, f.ways, f.room * sizeof *f.ways);
    return status;
}

sft_status sft__import_tree_locate(walk *w, uint32_t root, uint32_t *found, sft_error *err) {
    const char *key = w->t->job->options.key;

    if (key == NULL && (w->t->job->options.flags & SFT_IMPORT_KEEP_TREE) != 0) {
        key = ".";
    }
    if (key == NULL) {
        return sft__import_tree_part(w, root, found, err);
    }
    *found = root;
    return strcmp(key, ".") == 0 || key[0] == '\0' ? SFT_OK : find(w, root, key, found, err);
}
