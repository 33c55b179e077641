/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/metadata.c - texts with keys, as safetensors, GGUF and ONNX have them beside their
 * tensors: judged as an entry of a JSON object of that key would be, as templates where the key
 * says so, and as Python where programs are known to evaluate them. Read first: content.h.
 */
#include "base/text/buf.h"
#include "base/text/json.h"
#include "import/content/content.h"
#include "import/settings/settings.h"

enum { KEY_MOST = 256, ENTRIES = 1 << 17 };

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
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

/* ---------------------------------------------------------------- values that are evaluated */

/* Values of which YOLOv5, Ultralytics and those that load their models make Python's. */
static void take_evaluated(const sft__import_content *c, const sft__import_content_entry *e) {
    static const char *const inner[] = {"__import__", "__globals__", "__subclasses__",
                                        "__builtins__", NULL};
    uint32_t verdict = SFT_SCAN_HARMLESS;

    if (e->value_len > SFT__CONTENT_STRING) {
        return; /* said already */
    }
    if ((sft__import_setting_key(e->key, e->key_len) & SFT__KEY_METADATA) != 0) {
        const unsigned python = sft__import_setting_python(e->value, e->value_len);
        verdict = (python & SFT__PYTHON_REACHES) != 0 ? SFT_SCAN_DANGEROUS
                  : (python & SFT__PYTHON_CALLS) != 0 ? SFT_SCAN_UNKNOWN
                                                      : SFT_SCAN_HARMLESS;
    }
    for (size_t i = 0; inner[i] != NULL; i++) {
        verdict = holds(e->value, e->value_len, inner[i]) ? SFT_SCAN_DANGEROUS : verdict;
    }
    if (verdict != SFT_SCAN_HARMLESS) {
        sft__import_content_find(c, verdict, "config-target", 0, e->key, e->key_len,
                                 "an expression of Python, which programs evaluate");
    }
}

/* ---------------------------------------------------------------- an entry */

/* {"KEY": VALUE}; a value that is no JSON is a text. */
static sft_status as_json(sft__import_content *c, const sft__import_content_entry *e,
                          sft_error *err) {
    const char *key = e->key + (e->key_len > KEY_MOST ? e->key_len - KEY_MOST : 0);
    const char *key_end = e->key + e->key_len;
    sft__base_buf text;
    size_t from = 0;
    bool is;

    if (e->value_len > SFT__CONTENT_STRING) {
        return SFT_OK; /* said already */
    }
    while (from < e->value_len && memchr(" \t\r\n", e->value[from], 4) != NULL) {
        from++;
    }
    while (key != e->key && key < key_end && (*key & 0xc0) == 0x80) {
        key++; /* of a long one its end, from a whole letter on */
    }
    const bool json = e->value_len - from >= 2 && (e->value[from] == '{' || e->value[from] == '[');
    sft__base_buf_init(&text, c->job->allocator);
    sft__base_buf_text(&text, "{");
    sft__base_json_string(&text, key, (size_t)(key_end - key));
    sft__base_buf_text(&text, ":");
    if (json) {
        sft__base_buf_add(&text, e->value, e->value_len);
    } else {
        sft__base_json_string(&text, e->value, e->value_len);
    }
    sft__base_buf_text(&text, "}");
    c->len = text.len;
    sft__base_buf_fill(&text, '\0', SFT__JSON_SLACK);
    if (text.failed) {
        sft__base_buf_reset(&text);
        return sft__base_fail_nomem(err, e->value_len);
    }
    c->data = (const uint8_t *)text.data;
    (void)sft__import_content_json(c, &is);
    sft__base_buf_reset(&text);
    return SFT_OK;
}

sft_status sft__import_content_metadata(sft__import_content *c, const sft__import_content_entry *e,
                                        sft_error *err) {
    if (c->state->entries == ENTRIES) {
        c->state->entries++;
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "strings", 0, e->key, e->key_len,
                                 "more entries of metadata than are looked at");
    }
    if (c->state->entries > ENTRIES) {
        return SFT_OK;
    }
    c->state->entries++;
    if (holds(e->key, e->key_len, "template")) {
        (void)sft__import_content_template(c, e->key, e->key_len, 0, e->value, e->value_len);
        return SFT_OK;
    }
    sft__import_scan_string(c->job, c->state->part, e->key, e->key_len, false);
    sft__import_scan_string(c->job, c->state->part, e->value, e->value_len, false);
    take_evaluated(c, e);
    return as_json(c, e, err);
}

sft_status sft__import_scan_metadata(sft__import *job, const sft__import_scan_part *part,
                                     const sft_catalog *catalog, sft_error *err) {
    sft__import_content_state state = {.part = part, .err = err};
    sft__import_content c = {.job = job, .state = &state, .name = "metadata", .at = SFT_NO_OFFSET};

    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(catalog, f); i++) {
            sft__import_content_entry e;
            SFT_TRY(
                sft_catalog_metadata_at(catalog, f, i, &e.key, &e.key_len, &e.value, &e.value_len));
            SFT_TRY(sft__import_content_metadata(&c, &e, err));
        }
    }
    return state.status;
}
