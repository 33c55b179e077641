/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/jsontree.c - one pass over the text with a stack of open containers. Read jsontree.h first.
 */
#include "layout/jsontree.h"
#include "base/error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

#define FEW_MEMBERS 64u

typedef struct builder {
    sft__base_json json;
    char *text; /* a copy with zeros behind it */
    sft__base_arena *arena;
    const char *what;
    sft_error *err;
    sft_status status;
    bool config; /* of Python: NaN and Infinity are numbers */
    unsigned depth;
    sft__layout_jnode *open[SFT__JSON_DEPTH]; /* containers */
    sft__layout_jnode *last[SFT__JSON_DEPTH]; /* their last member so far */
} builder;

static const char *fail(builder *b, sft_status status, const char *at, const char *sentence) {
    const char *const where = at < b->json.end ? at : b->json.end;
    b->status = sft__base_fail_at(b->err, status, (uint64_t)(where - b->text), "%s: %s%s", b->what,
                                  sentence, at >= b->json.end ? ", found the end of the text" : "");
    return NULL;
}

static const char *json_fault(builder *b) {
    return fail(b, SFT_E_JSON, b->json.fault_at, b->json.fault);
}

static const char *no_memory(builder *b) {
    b->status = b->arena->over_budget
                    ? sft__base_fail(b->err, SFT_E_LIMIT,
                                     "%s needs more memory than the limit allows", b->what)
                    : sft__base_fail_nomem(b->err, sizeof(sft__layout_jnode));
    return NULL;
}

/* p behind the string, or at the value behind a key. */
static const char *keep(builder *b, const char *p, const sft__base_json_str *s, const char **text,
                        size_t *len) {
    if (p == NULL) {
        return json_fault(b);
    }
    *text = sft__base_json_keep(b->arena, b->text + (s->raw - b->text), s, len);
    return *text == NULL ? no_memory(b) : p;
}

static bool has_key(const sft__layout_jnode *object, const char *key, size_t len) {
    if (object->len > FEW_MEMBERS) {
        return false;
    }
    for (const sft__layout_jnode *m = object->first; m != NULL; m = m->next) {
        if (m->key_len == len && memcmp(m->key, key, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes "key": off the text. p at the quote. */
static const char *take_key(builder *b, const char *p, sft__layout_jnode *node) {
    const char *const at = p;
    sft__base_json_str s;
    p = sft__base_json_key(&b->json, p, &s, "expected a key in quotes", "expected ':'");
    p = keep(b, p, &s, &node->key, &node->key_len);
    return p != NULL && has_key(b->open[b->depth - 1], node->key, node->key_len)
               ? fail(b, SFT_E_DUPLICATE, at, "key given twice")
               : p;
}

static const char *take_word(builder *b, const char *p, sft__layout_jnode *node) {
    static const struct {
        const char *word;
        size_t len;
        sft__layout_jtype type;
        uint64_t value;
    } words[] = {{"true", 4, SFT__J_BOOL, 1},
                 {"false", 5, SFT__J_BOOL, 0},
                 {"null", 4, SFT__J_NULL, 0},
                 {"NaN", 3, SFT__J_NUMBER, 0}, /* is_int stays false */
                 {"Infinity", 8, SFT__J_NUMBER, 0}};
    for (size_t i = 0; i < (b->config ? 5u : 3u); i++) {
        if (memcmp(p, words[i].word, words[i].len) == 0) { /* zeros lie behind the text */
            node->type = words[i].type;
            node->value = words[i].value;
            return p + words[i].len;
        }
    }
    return fail(b, SFT_E_JSON, p, "expected a value");
}

static const char *take_number(builder *b, const char *p, sft__layout_jnode *node) {
    sft__base_json_num n;
    const char *const digits = *p == '-' ? p + 1 : p;
    if (*digits == 'I' && b->config) {
        return take_word(b, digits, node);
    }
    const char *const end = sft__base_json_number(&b->json, p, &n);
    if (end == NULL) {
        return json_fault(b);
    }
    node->type = SFT__J_NUMBER;
    node->negative = digits != p;
    if (node->negative && sft__base_json_number(&b->json, digits, &n) == NULL) {
        return json_fault(b);
    }
    node->is_int = n.is_uint;
    node->value = n.value;
    return end;
}

/* One value, or the opening of a container. */
static const char *take_value(builder *b, const char *p, sft__layout_jnode *node) {
    node->offset = (uint64_t)(p - b->text);
    if (*p == '"') {
        node->type = SFT__J_STRING;
        sft__base_json_str s;
        p = sft__base_json_read(&b->json, p, &s);
        return keep(b, p, &s, &node->text, &node->len);
    }
    if (*p == '{' || *p == '[') {
        node->type = *p == '{' ? SFT__J_OBJECT : SFT__J_ARRAY;
        if (b->depth == SFT__JSON_DEPTH) {
            return fail(b, SFT_E_JSON, p, "containers nested too deeply");
        }
        b->open[b->depth] = node;
        b->last[b->depth] = NULL;
        b->depth++;
        return p + 1;
    }
    if (*p == '-' || (*p >= '0' && *p <= '9')) {
        return take_number(b, p, node);
    }
    return take_word(b, p, node);
}

/* Key (in an object) and value of a new member of the innermost container, or the root. */
static const char *take_member(builder *b, const char *p, sft__layout_jnode **root) {
    sft__layout_jnode *const node = sft__base_arena_alloc(b->arena, sizeof *node, sizeof(void *));
    sft__layout_jnode *const parent = b->depth != 0 ? b->open[b->depth - 1] : NULL;
    if (node == NULL) {
        return no_memory(b);
    }
    memset(node, 0, sizeof *node);
    if (parent == NULL) {
        *root = node;
        return take_value(b, p, node);
    }
    if (parent->type == SFT__J_OBJECT) {
        p = take_key(b, p, node);
        if (p == NULL) {
            return NULL;
        }
    }
    if (b->last[b->depth - 1] == NULL) {
        parent->first = node;
    } else {
        b->last[b->depth - 1]->next = node;
    }
    b->last[b->depth - 1] = node;
    parent->len++;
    return take_value(b, p, node);
}

/* Behind a value: closes containers, and takes the comma in front of the next member. NULL with status OK:
 * the root is closed. */
static const char *after_value(builder *b, const char *p) {
    while (b->depth != 0) {
        const sft__layout_jnode *const parent = b->open[b->depth - 1];
        const char close = parent->type == SFT__J_OBJECT ? '}' : ']';
        p = sft__base_json_blank(p);
        if (*p == close) {
            p++;
            b->depth--;
        } else if (parent->first == NULL) {
            return p; /* just opened, not empty */
        } else if (*p == ',') {
            return sft__base_json_blank(p + 1);
        } else {
            return fail(b, SFT_E_JSON, p, "expected ',' or the end of the list");
        }
    }
    p = sft__base_json_blank(p);
    return p == b->json.end ? NULL : fail(b, SFT_E_JSON, p, "text behind the end");
}

/* what: NULL for a config.json. */
static sft_status parse(sft__layout_jnode **out, sft__base_arena *arena, const char *text,
                        size_t size, const char *what, sft_error *err) {
    const bool config = what == NULL;
    builder b;
    what = config ? "config.json" : what;
    const size_t valid = sft__base_utf8_valid(text, size);
    *out = NULL;
    if (valid != size) {
        return sft__base_fail_at(err, SFT_E_UTF8, valid, "%s is not UTF-8", what);
    }
    memset(&b, 0, sizeof b);
    b.arena = arena;
    b.what = what;
    b.config = config;
    b.err = err;
    if (size > SIZE_MAX - SFT__JSON_SLACK) {
        return sft__base_fail(err, SFT_E_LIMIT, "%s is too large", what);
    }
    b.text = sft__base_arena_alloc(arena, size + SFT__JSON_SLACK, 1);
    if (b.text == NULL) {
        (void)no_memory(&b);
        return b.status;
    }
    memcpy(b.text, text, size);
    memset(b.text + size, 0, SFT__JSON_SLACK);
    b.json.end = b.text + size;
    const char *p = sft__base_json_blank(b.text);
    while (p != NULL) {
        p = take_member(&b, p, out);
        if (p != NULL) {
            p = after_value(&b, p);
        }
    }
    if (b.status != SFT_OK) {
        *out = NULL;
    }
    return b.status;
}

sft_status sft__layout_jtree_parse(sft__layout_jnode **out, sft__base_arena *arena,
                                   const char *text, size_t size, const char *what,
                                   sft_error *err) {
    return parse(out, arena, text, size, what, err);
}

sft_status sft__layout_jtree_config(sft__layout_jnode **out, sft__base_arena *arena,
                                    const char *text, size_t size, sft_error *err) {
    return parse(out, arena, text, size, NULL, err);
}

const sft__layout_jnode *sft__layout_jtree_get(const sft__layout_jnode *node, const char *key) {
    const size_t len = strlen(key);
    if (node == NULL || node->type != SFT__J_OBJECT) {
        return NULL;
    }
    for (const sft__layout_jnode *m = node->first; m != NULL; m = m->next) {
        if (m->key_len == len && memcmp(m->key, key, len) == 0) {
            return m;
        }
    }
    return NULL;
}

bool sft__layout_jtree_int(const sft__layout_jnode *node, int64_t *value) {
    if (node == NULL || node->type != SFT__J_NUMBER || !node->is_int ||
        node->value > (uint64_t)INT64_MAX) {
        return false;
    }
    *value = node->negative ? -(int64_t)node->value : (int64_t)node->value;
    return true;
}
