/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/keras_yaml.c - Keras configurations in YAML (to_yaml() of Keras 1 and 2, which
 * model_from_yaml reads up to TensorFlow 2.6): judged by the words that those in JSON are judged
 * by. Which object a word belongs to is not told: the worst counts. Read first: settings.h.
 */
#include "import/settings/settings.h"

enum { VALUE_MOST = 200 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

typedef struct reading {
    const sft__import_content *c;
    const char *text;
    const char *end;
    size_t base;
    bool code; /* functions are given by their bytes */
} reading;

/* The next value of the key, from *at on: a word, a path; moves *at. Its length. */
static size_t next_value(const reading *r, const char **at, const char *key, const char **value) {
    const size_t n = strlen(key);
    const char *end = r->end;
    const char *p = *at;

    while ((size_t)(end - p) > n) {
        p = memchr(p, key[0], (size_t)(end - p) - n);
        if (p == NULL) {
            break;
        }
        if (memcmp(p, key, n) != 0 || is_word(p[n]) || (p > r->text && is_word(p[-1]))) {
            p++;
            continue;
        }
        const char *q = p + n;
        while (q < end && (*q == '"' || *q == '\'' || is_blank(*q))) {
            q++;
        }
        p += n;
        if (q == end || *q != ':') {
            continue;
        }
        for (q++; q < end && (*q == '"' || *q == '\'' || *q == ' ' || *q == '\t'); q++) {
        }
        size_t len = 0;
        while (q + len < end && len < VALUE_MOST && !is_blank(q[len]) &&
               memchr("\"',]}#", q[len], 6) == NULL) {
            len++;
        }
        *at = q;
        *value = q;
        return len;
    }
    *at = end;
    return 0;
}

/* Each value of one key as an object of its own. */
static void take_all(const reading *r, const char *key, const char *const *only) {
    const char *at = r->text;
    const char *value;
    char text[VALUE_MOST + 1];

    while (at < r->end && !sft__import_content_is_tired(r->c)) {
        const size_t n = next_value(r, &at, key, &value);
        if (n == 0 || (only != NULL && !sft__import_text_is_one(value, n, only))) {
            continue;
        }
        memcpy(text, value, n);
        text[n] = '\0';
        sft__import_keras o = {.class_name = "Layer", .has_config = true, .code = r->code};
        o.at = r->base == SIZE_MAX ? 0 : r->base + (size_t)(value - r->text);
        if (strcmp(key, "class_name") == 0) {
            o.class_name = text;
        } else if (strcmp(key, "module") == 0) {
            o.module = text;
        } else if (strcmp(key, "registered_name") == 0) {
            o.registered = text;
        } else {
            o.vocabulary = text;
        }
        if (only != NULL || (strcmp(text, "null") != 0 && strcmp(text, "[") != 0)) {
            sft__import_content_keras(r->c, &o);
        }
    }
}

/* Is there a model among the classes? Then all names are Keras's. */
static bool is_model(const reading *r) {
    static const char *const models[] = {"Sequential", "Functional", "Model", NULL};
    const char *at = r->text;
    const char *value;

    while (at < r->end) {
        const size_t n = next_value(r, &at, "class_name", &value);
        if (n != 0 && sft__import_text_is_one(value, n, models)) {
            return true;
        }
    }
    return false;
}

bool sft__import_setting_keras(const sft__import_content *c, const char *text, size_t len,
                               size_t base) {
    static const char *const acting[] = {"Lambda", "TorchModuleWrapper", "TFSMLayer", "__lambda__",
                                         NULL};
    static const char *const rooms[] = {"module", "registered_name", "vocabulary"};
    const char *end = text + len;
    const unsigned before = c->state->found;

    if (!sft__import_text_has(text, (size_t)(end - text), "class_name") ||
        !sft__import_text_has(text, (size_t)(end - text), "config")) {
        return true;
    }
    const reading r = {c, text, end, base,
                       sft__import_text_has(text, (size_t)(end - text), "lambda") ||
                           sft__import_text_has(text, (size_t)(end - text), "tuple") ||
                           sft__import_text_has(text, (size_t)(end - text), "!!binary")};
    if (!is_model(&r)) {
        take_all(&r, "class_name", acting);
        return c->state->found == before;
    }
    take_all(&r, "class_name", NULL);
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        take_all(&r, rooms[i], NULL);
    }
    return c->state->found == before;
}
