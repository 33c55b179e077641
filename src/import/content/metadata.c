/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/metadata.c - texts with keys, as safetensors, GGUF and ONNX have them beside their
 * tensors: judged as an entry of a JSON object of that key would be, as templates where the key says
 * so, and as Python where programs are known to evaluate them. Read first: content.h.
 */
#include "import/content/content.h"

enum { KEY_MOST = 256, TEXT_MOST = 1 << 20, ENTRIES = 1 << 17 };

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool is_letter(char c) {
    return c == '_' || (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
           (c & 0x80) != 0;
}

/* Is the word there, in any case? */
static bool holds(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);

    for (size_t i = 0; i + n <= len; i++) {
        size_t k = 0;
        while (k < n && lower(text[i + k]) == word[k]) {
            k++;
        }
        if (k == n) {
            return true;
        }
    }
    return false;
}

static bool is_word(const char *text, size_t len, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- values that are evaluated */

/* What reaches beyond the values, behind letters that are no text in quotes: a call, or a name of
 * the interpreter's. Classes of a model may be called "open" or "import". */
static uint32_t evaluated(const char *p, size_t len) {
    static const char *const acts[] = {"eval",  "exec",    "open",       "compile", "getattr",
                                       "os",    "sys",     "subprocess", "lambda",  "input",
                                       "print", "globals", "vars",       "import",  NULL};
    uint32_t verdict = SFT_SCAN_HARMLESS;
    char quote = 0;

    for (size_t i = 0; i < len; i++) {
        if (quote != 0) {
            i += p[i] == '\\';
            quote = i < len && p[i] == quote ? 0 : quote;
            continue;
        }
        if (p[i] == '"' || p[i] == '\'') {
            quote = p[i];
            continue;
        }
        const size_t from = i;
        while (i < len && is_letter(p[i])) {
            i++;
        }
        if (i == from || (p[from] >= '0' && p[from] <= '9')) {
            i -= i != from;
            continue;
        }
        size_t next = i;
        while (next < len && (p[next] == ' ' || p[next] == '\t' || p[next] == '\n')) {
            next++;
        }
        if ((i - from > 2 && memcmp(p + from, "__", 2) == 0) ||
            (next < len && (p[next] == '(' || p[next] == '.') &&
             is_word(p + from, i - from, acts))) {
            return SFT_SCAN_DANGEROUS;
        }
        verdict = i < len && p[i] == '(' ? SFT_SCAN_UNKNOWN : verdict;
        i--;
    }
    return verdict;
}

/* Values of which YOLOv5, Ultralytics and those that load their models make Python's. */
static void take_evaluated(const sft__content *c, const sft__content_entry *e) {
    static const char *const keys[] = {"names",     "imgsz", "stride", "batch",    "channels",
                                       "kpt_shape", "args",  "task",   "kpt_names", NULL};
    static const char *const inner[] = {"__import__", "__globals__", "__subclasses__",
                                        "__builtins__", NULL};
    uint32_t verdict = SFT_SCAN_HARMLESS;

    if (e->value_len > SFT__CONTENT_STRING) {
        return; /* said already */
    }
    if (is_word(e->key, e->key_len, keys)) {
        verdict = evaluated(e->value, e->value_len);
    }
    for (size_t i = 0; inner[i] != NULL; i++) {
        verdict = holds(e->value, e->value_len, inner[i]) ? SFT_SCAN_DANGEROUS : verdict;
    }
    if (verdict != SFT_SCAN_HARMLESS) {
        sft__content_find(c, verdict, "config-target", 0, e->key, e->key_len,
                          "an expression of Python, which programs evaluate");
    }
}

/* ---------------------------------------------------------------- an entry */

/* {"KEY": VALUE}; a value that is no JSON is a text. */
static sft_status as_json(sft__content *c, const sft__content_entry *e, sft_error *err) {
    static const char digits[] = "0123456789abcdef";
    const sft_allocator *a = c->job->allocator;
    const bool json = e->value_len >= 2 && (e->value[0] == '{' || e->value[0] == '[');
    const size_t key_len = e->key_len <= KEY_MOST ? e->key_len : 0;
    bool is;

    if (e->value_len > (json ? (size_t)SFT__CONTENT_STRING : (size_t)TEXT_MOST)) {
        return SFT_OK;
    }
    const size_t room = 6 * key_len + (json ? 1 : 6) * e->value_len + SFT__JSON_SLACK + 8;
    char *text = sft__alloc_zero(a, room);
    if (text == NULL) {
        return sft__fail_nomem(err, room);
    }
    const struct {
        const char *p;
        size_t len;
        bool plain;
    } parts[] = {{"{", 1, true},          {e->key, key_len, false}, {":", 1, true},
                 {e->value, e->value_len, json}, {"}", 1, true}};
    size_t n = 0;
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        if (parts[k].plain) {
            memcpy(text + n, parts[k].p, parts[k].len);
            n += parts[k].len;
            continue;
        }
        text[n++] = '"';
        for (size_t i = 0; i < parts[k].len; i++) {
            const unsigned char b = (unsigned char)parts[k].p[i];
            if (b < 0x20) {
                memcpy(text + n, "\\u00", 4);
                text[n + 4] = digits[b >> 4];
                text[n + 5] = digits[b & 15];
                n += 6;
                continue;
            }
            if (b == '"' || b == '\\') {
                text[n++] = '\\';
            }
            text[n++] = (char)b;
        }
        text[n++] = '"';
    }
    c->data = (const uint8_t *)text;
    c->len = n;
    (void)sft__content_json(c, &is);
    sft__free(a, text, room);
    return SFT_OK;
}

sft_status sft__content_metadata(sft__content *c, const sft__content_entry *e, sft_error *err) {
    if (c->state->entries == ENTRIES) {
        c->state->entries++;
        sft__content_find(c, SFT_SCAN_UNKNOWN, "strings", 0, e->key, e->key_len,
                          "more entries of metadata than are looked at");
    }
    if (c->state->entries > ENTRIES) {
        return SFT_OK;
    }
    c->state->entries++;
    if (holds(e->key, e->key_len, "template")) {
        (void)sft__content_template(c, e->key, e->key_len, 0, e->value, e->value_len);
        return SFT_OK;
    }
    sft__scan_string(c->job, c->state->part, e->key, e->key_len, false);
    sft__scan_string(c->job, c->state->part, e->value, e->value_len, false);
    take_evaluated(c, e);
    return as_json(c, e, err);
}

sft_status sft__scan_metadata(sft__import *job, const sft__scan_part *part,
                              const sft_catalog *catalog, sft_error *err) {
    sft__content_state state = {.part = part, .err = err};
    sft__content c = {.job = job, .state = &state, .name = "metadata", .at = SFT_NO_OFFSET};

    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(catalog, f); i++) {
            sft__content_entry e;
            SFT_TRY(
                sft_catalog_metadata_at(catalog, f, i, &e.key, &e.key_len, &e.value, &e.value_len));
            SFT_TRY(sft__content_metadata(&c, &e, err));
        }
    }
    return state.status;
}
