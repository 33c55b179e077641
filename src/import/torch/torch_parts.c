/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_parts.c - which part of a checkpoint is the model. One part alone is taken only if
 * every other part that holds tensors is known to be no weights of its own: an optimizer's or a
 * scheduler's state, what the trainer recorded, an average of the model. Each of them is named in the
 * report. In every other case the whole tree is taken, and nothing stays outside. The table is in
 * docs/import.md, "Which part". Read first: torch_walk.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/torch/torch_walk.h"
#include <stdio.h>

enum { WORD_MAX = 32 };

static sft__import_pk_node *node(const walk *w, uint32_t id) {
    return sft__import_pk_at(w->t->p, id);
}

/* ---------------------------------------------------------------- by its name */

typedef enum kind { WEIGHTS, OPTIMIZER, SCHEDULER, SCALER, RANDOM, RECORD, AVERAGE, AVERAGED } kind;

static const char *const kinds[] = {
    [OPTIMIZER] = "an optimizer's state",
    [SCHEDULER] = "a scheduler's state",
    [SCALER] = "a loss scaler's state",
    [RANDOM] = "the state of random number generators",
    [RECORD] = "what the trainer recorded",
    [AVERAGE] = "an average of the model",
    [AVERAGED] = "the model whose average is taken",
};

/* Words that say what a part is whatever stands beside them. Others, as "lr", "opt" or "meta", say it only
 * if every word of the key is known: "lr_head" and "meta_embeddings" are weights. */
static const char *const strong[] = {
    "optim",      "optims", "optimizer", "optimizers", "optimiser", "scheduler",
    "schedulers", "scaler", "rng",       "callbacks",  "loops",     "trainer",
    "hparams",    "ema",    "swa",       "avg",        "averaged",
};

/* Words that say nothing. */
static const char *const plain[] = {
    "state",      "states", "dict",     "dicts",   "param",  "params", "parameter",
    "parameters", "data",   "info",     "value",   "values", "list",   "scale",
    "grad",       "grads",  "last",     "current", "global", "num",    "iter",
    "total",      "log",    "logs",     "groups",  "lrs",    "rate",   "learning",
    "model",      "train",  "training", "val",     "eval",   "test",   "top",
};

static bool is_listed(const char *word, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What a word in a key says about the part. alone: only if the part is one tensor. */
static const struct {
    const char *word;
    kind is;
    bool alone;
} words[] = {
    {"optim", OPTIMIZER, false},     {"optims", OPTIMIZER, false},
    {"optimizer", OPTIMIZER, false}, {"optimizers", OPTIMIZER, false},
    {"optimiser", OPTIMIZER, false}, {"opt", OPTIMIZER, false},
    {"scheduler", SCHEDULER, false}, {"schedulers", SCHEDULER, false},
    {"lr", SCHEDULER, false},        {"scaler", SCALER, false},
    {"amp", SCALER, false},          {"rng", RANDOM, false},
    {"callbacks", RECORD, false},    {"loops", RECORD, false},
    {"trainer", RECORD, false},      {"hparams", RECORD, false},
    {"hyper", RECORD, false},        {"args", RECORD, false},
    {"config", RECORD, false},       {"cfg", RECORD, false},
    {"meta", RECORD, false},         {"metric", RECORD, false},
    {"metrics", RECORD, false},      {"history", RECORD, false},
    {"hub", RECORD, false},          {"best", RECORD, true},
    {"loss", RECORD, true},          {"losses", RECORD, true},
    {"acc", RECORD, true},           {"epoch", RECORD, true},
    {"step", RECORD, true},          {"iteration", RECORD, true},
    {"ema", AVERAGE, false},         {"swa", AVERAGE, false},
    {"avg", AVERAGE, false},         {"averaged", AVERAGE, false},
};

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The next word of text[*at, len), in lower case; its length, 0 at the end. */
static size_t next_word(const char *text, size_t len, size_t *at, char word[WORD_MAX]) {
    size_t n = 0;

    while (*at < len && !is_letter(text[*at])) {
        ++*at;
    }
    for (; *at < len && is_letter(text[*at]); ++*at) {
        if (n < WORD_MAX - 1) {
            word[n++] = (char)(text[*at] | 0x20);
        }
    }
    word[n] = '\0';
    return n;
}

/* The first word that says anything counts. */
static kind by_words(const sft__import_pk_node *key, bool is_tensor) {
    char word[WORD_MAX];
    kind found = WEIGHTS;
    bool certain = false; /* by a strong word */
    bool known = true;    /* all words are */
    size_t at = 0;
    size_t n;

    while ((n = next_word(key->u.text, key->count, &at, word)) != 0) {
        size_t i = 0;
        while (i < sizeof words / sizeof words[0] &&
               (strcmp(word, words[i].word) != 0 || (!is_tensor && words[i].alone))) {
            i++;
        }
        const bool says = i < sizeof words / sizeof words[0];
        if (says && found == WEIGHTS) {
            found = words[i].is;
        }
        certain = certain || (says && is_listed(word, strong, sizeof strong / sizeof strong[0]));
        known = known && (says || n == 1 || is_listed(word, plain, sizeof plain / sizeof plain[0]));
    }
    return certain || known ? found : WEIGHTS;
}

/* ---------------------------------------------------------------- by what is in it */

/* Without "module.", which DataParallel puts before every name. */
static bool same_key(const sft__import_pk_node *x, const sft__import_pk_node *y) {
    static const char front[] = "module.";
    const size_t skip = sizeof front - 1;

    if (x->type != SFT__PK_STR || y->type != SFT__PK_STR) {
        return false;
    }
    const size_t a = x->count > skip && memcmp(x->u.text, front, skip) == 0 ? skip : 0;
    const size_t b = y->count > skip && memcmp(y->u.text, front, skip) == 0 ? skip : 0;
    return x->count - a == y->count - b && memcmp(x->u.text + a, y->u.text + b, x->count - a) == 0;
}

/* Has every key of y that holds a tensor its like in x? Both in order, as averages are made: each is
 * looked for behind the one before it, so that this takes one pass. */
static bool has_keys(const walk *w, uint32_t x, uint32_t y) {
    uint32_t key;
    uint32_t value;
    uint32_t k;
    uint32_t v;

    if (node(w, x)->type != SFT__PK_DICT || node(w, y)->type != SFT__PK_DICT) {
        return false;
    }
    sft__import_pk_iter of_x = sft__import_pk_begin(node(w, x));
    for (sft__import_pk_iter of_y = sft__import_pk_begin(node(w, y));
         sft__import_pk_next(&of_y, &key) && sft__import_pk_next(&of_y, &value);) {
        bool found = !node(w, value)->holds_tensor;
        while (!found && sft__import_pk_next(&of_x, &k) && sft__import_pk_next(&of_x, &v)) {
            found = same_key(node(w, k), node(w, key));
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* {"state": ..., "param_groups": ...}, or a list of such. */
static bool is_optimizer(const walk *w, uint32_t id) {
    const sft__import_pickle *p = w->t->p;
    const uint8_t type = node(w, id)->type;

    if (type == SFT__PK_LIST || type == SFT__PK_TUPLE) {
        id = sft__import_pk_item(p, id, 0);
    }
    return node(w, id)->type == SFT__PK_DICT && sft__import_pk_get(p, id, "state") != SFT__PK_NO &&
           sft__import_pk_get(p, id, "param_groups") != SFT__PK_NO;
}

/* What the part `id` is beside the model. */
static kind kind_of(const walk *w, uint32_t model_key, uint32_t model, uint32_t key, uint32_t id) {
    if (is_optimizer(w, id)) {
        return OPTIMIZER;
    }
    if (node(w, key)->type != SFT__PK_STR) {
        return WEIGHTS;
    }
    const kind is = by_words(node(w, key), sft__import_torch_is_tensor(w->t, id));
    const bool averaged = by_words(node(w, model_key), false) == AVERAGE;
    if (is == AVERAGE) {
        return has_keys(w, model, id) ? AVERAGE : WEIGHTS;
    }
    return is == WEIGHTS && averaged && has_keys(w, id, model) ? AVERAGED : is;
}

/* ---------------------------------------------------------------- telling */

typedef struct counting {
    uint32_t *seen; /* those ahead lie behind those that were looked at */
    size_t room;
    size_t count;
    uint64_t tensors;
} counting;

static sft_status ahead(walk *w, counting *c, uint32_t id, sft_error *err) {
    sft__import_pk_node *n = node(w, id);

    if (id == SFT__PK_NO || !n->holds_tensor || n->walked == COUNTED) {
        return SFT_OK;
    }
    SFT_TRY(SFT_ONE_MORE(w->t->job->allocator, c->seen, c->room, c->count, err));
    n->walked = COUNTED;
    c->seen[c->count++] = id;
    return SFT_OK;
}

static sft_status count_node(walk *w, counting *c, uint32_t id, sft_error *err) {
    const sft__import_pk_node *n = node(w, id);
    uint32_t child;

    SFT_TRY(sft__import_tree_visit(w, 0, err));
    const bool wrapper = sft__import_torch_is_wrapper(w->t, id);
    if (sft__import_torch_is_tensor(w->t, id) || wrapper) {
        SFT_TRY(ahead(w, c, sft__import_torch_attributes(w->t, id), err));
        c->tensors += !wrapper;
        return wrapper ? SFT_OK : sft__import_tree_outside(w, id, err);
    }
    const bool call = n->type == SFT__PK_CALL;
    if (call || n->type == SFT__PK_LIST || n->type == SFT__PK_TUPLE || n->type == SFT__PK_DICT ||
        n->type == SFT__PK_SET) {
        for (sft__import_pk_iter it = sft__import_pk_begin(n); sft__import_pk_next(&it, &child);) {
            SFT_TRY(ahead(w, c, child, err));
        }
    }
    SFT_TRY(ahead(w, c, call ? n->args : SFT__PK_NO, err));
    return ahead(w, c, call || n->type == SFT__PK_DICT ? n->state : SFT__PK_NO, err);
}

/* Every tensor below, each once. */
static sft_status count_part(walk *w, uint32_t root, uint64_t *tensors, sft_error *err) {
    counting c = {0};
    sft_status status = ahead(w, &c, root, err);

    for (size_t i = 0; i < c.count && status == SFT_OK; i++) {
        status = count_node(w, &c, c.seen[i], err);
    }
    for (size_t i = 0; i < c.count; i++) {
        node(w, c.seen[i])->walked = WALKED;
    }
    sft__base_free(w->t->job->allocator, c.seen, c.room * sizeof *c.seen);
    *tensors = c.tensors;
    return status;
}

static sft_status tell_part(walk *w, uint32_t key, uint32_t id, kind is, sft_error *err) {
    const sft__import_pk_node *k = node(w, key);
    const char *text = k->u.text;
    size_t len = k->count;
    char number[24];
    uint64_t tensors;

    if (k->type != SFT__PK_STR) { /* an integer, if --key can name it at all */
        len = (size_t)snprintf(number, sizeof number, "%lld",
                               k->type == SFT__PK_INT ? (long long)k->u.integer : 0);
        text = number;
    }
    SFT_TRY(count_part(w, id, &tensors, err));
    sft__import_torch_mark(w->t, id, SFT__TORCH_PART);
    sft__import_left(w->t->job, text, len, tensors, "%s (%llu %s); --key \"%.100s\" takes it",
                     kinds[is], (unsigned long long)tensors, tensors == 1 ? "tensor" : "tensors",
                     text);
    return SFT_OK;
}

/* What it takes to look at a part: a memo may mention one large part or key many times. */
static uint64_t look_cost(const walk *w, uint32_t model, uint32_t key, uint32_t id) {
    const sft__import_pk_node *k = node(w, key);
    const uint64_t text = k->type == SFT__PK_STR ? k->count / SFT__TREE_TEXT : 0;
    const uint64_t both = (uint64_t)node(w, id)->count + node(w, model)->count;

    return both + text < UINT32_MAX ? both + text : UINT32_MAX;
}

/* The model among the items of a dict. */
typedef struct model_at {
    uint32_t root;
    uint32_t key;
    uint32_t id;
} model_at;

/* Walks the parts beside the model. all: NULL: names them; else *all: may all of them stay outside? */
static sft_status beside(walk *w, model_at model, bool *all, sft_error *err) {
    size_t averaged = 0; /* one average is that of one model */
    uint32_t key;
    uint32_t id;

    for (sft__import_pk_iter it = sft__import_pk_begin(node(w, model.root));
         sft__import_pk_next(&it, &key) && sft__import_pk_next(&it, &id);) {
        if (id == model.id || !node(w, id)->holds_tensor) {
            continue;
        }
        SFT_TRY(sft__import_tree_visit(w, look_cost(w, model.id, key, id), err));
        const kind is = kind_of(w, model.key, model.id, key, id);
        averaged += is == AVERAGED;
        if (all != NULL) {
            *all = *all && is != WEIGHTS && averaged < 2;
        } else {
            SFT_TRY(tell_part(w, key, id, is, err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the choice */

static uint32_t key_of(const walk *w, uint32_t root, const char *name) {
    uint32_t found = SFT__PK_NO;
    uint32_t key;
    uint32_t id;

    for (sft__import_pk_iter it = sft__import_pk_begin(node(w, root));
         sft__import_pk_next(&it, &key) && sft__import_pk_next(&it, &id);) {
        found = sft__import_pk_is_text(w->t->p, key, name) ? key : found;
    }
    return found;
}

sft_status sft__import_tree_part(walk *w, uint32_t root, uint32_t *part, sft_error *err) {
    static const char *const names[] = {"state_dict", "model_state_dict", "model_state", "model",
                                        "params_ema", "params",           "module",      "weights",
                                        "net",        "network",          "generator",   "ema"};

    *part = root;
    if (node(w, root)->type != SFT__PK_DICT) {
        return SFT_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const uint32_t id = sft__import_pk_get(w->t->p, root, names[i]);
        bool all = true;
        if (id == SFT__PK_NO || !node(w, id)->holds_tensor ||
            sft__import_torch_is_tensor(w->t, id)) {
            continue;
        }
        const model_at model = {root, key_of(w, root, names[i]), id};
        SFT_TRY(beside(w, model, &all, err));
        if (all) {
            *part = id;
            return beside(w, model, NULL, err);
        }
    }
    return SFT_OK;
}
