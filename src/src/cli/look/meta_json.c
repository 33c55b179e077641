/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/meta_json.c - see meta_json.h. Grammar: blanks, '{', pairs of strings, '}', blanks; strings
 * as in RFC 8259: no raw control characters, surrogates only in pairs, valid UTF-8.
 */
#include "cli/look/meta_json.h"
#include "cli/cmd.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *json;
    size_t len;
    size_t at;
    char *out; /* decoded text is never longer than its source */
    size_t used;
    const char *fault;
} reader;

static bool fail(reader *r, const char *fault) {
    r->fault = fault;
    return false;
}

static char peek(const reader *r) {
    return r->at < r->len ? r->json[r->at] : '\0';
}

static void skip_blanks(reader *r) {
    while (r->at < r->len && (r->json[r->at] == ' ' || r->json[r->at] == '\n' ||
                              r->json[r->at] == '\r' || r->json[r->at] == '\t')) {
        r->at++;
    }
}

static bool read_hex(reader *r, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char ch = peek(r);
        const char lower = (char)(ch | 0x20);
        if (ch >= '0' && ch <= '9') {
            *unit = *unit * 16 + (uint32_t)(ch - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            *unit = *unit * 16 + (uint32_t)(lower - 'a') + 10;
        } else {
            return fail(r, "\\u needs four hexadecimal digits");
        }
    }
    return true;
}

static void put_utf8(reader *r, uint32_t cp) {
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const unsigned n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;

    if (n == 1) {
        r->out[r->used++] = (char)cp;
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        const uint32_t bits = cp >> (6 * (n - 1 - i));
        r->out[r->used++] = (char)(i == 0 ? lead[n] | bits : 0x80 | (bits & 0x3f));
    }
}

static bool read_unicode(reader *r) {
    uint32_t unit;
    uint32_t low;

    if (!read_hex(r, &unit)) {
        return false;
    }
    if (unit >= 0xdc00 && unit <= 0xdfff) {
        return fail(r, "second half of a surrogate pair without the first");
    }
    if (unit >= 0xd800 && unit <= 0xdbff) {
        if (r->len - r->at < 6 || r->json[r->at] != '\\' || r->json[r->at + 1] != 'u') {
            return fail(r, "first half of a surrogate pair without the second");
        }
        r->at += 2;
        if (!read_hex(r, &low)) {
            return false;
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return fail(r, "first half of a surrogate pair without the second");
        }
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    put_utf8(r, unit);
    return true;
}

static bool read_escape(reader *r) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const char ch = peek(r);

    r->at++;
    if (ch == 'u') {
        return read_unicode(r);
    }
    const char *found = ch != '\0' ? strchr(letters, ch) : NULL;
    if (found == NULL) {
        return fail(r, "unknown escape");
    }
    r->out[r->used++] = meant[found - letters];
    return true;
}

/* A string into r->out, NUL-terminated. */
static bool read_string(reader *r, const char *what, const char **text, size_t *len) {
    if (peek(r) != '"') {
        return fail(r, what);
    }
    const size_t start = r->used;
    for (r->at++; peek(r) != '"';) {
        size_t used;
        if (r->at >= r->len || (unsigned char)r->json[r->at] < 0x20) {
            return fail(r, r->at >= r->len ? "the string does not end"
                                           : "control character in a string");
        }
        if (r->json[r->at] == '\\') {
            r->at++;
            if (!read_escape(r)) {
                return false;
            }
            continue;
        }
        if (cli_decode(r->json + r->at, r->len - r->at, &used) == 0xfffd &&
            (used != 3 || (unsigned char)r->json[r->at] != 0xef)) {
            return fail(r, "not UTF-8");
        }
        memcpy(r->out + r->used, r->json + r->at, used);
        r->used += used;
        r->at += used;
    }
    r->at++;
    *text = r->out + start;
    *len = r->used - start;
    r->out[r->used++] = '\0'; /* takes the place of a quote */
    return true;
}

static bool read_pair(reader *r, meta_pairs *pairs) {
    sft_metadata_entry e;

    if (!read_string(r, "a key in quotes was needed", &e.key, &e.key_len)) {
        return false;
    }
    skip_blanks(r);
    if (peek(r) != ':') {
        return fail(r, "':' was needed");
    }
    r->at++;
    skip_blanks(r);
    if (!read_string(r, "values must be strings", &e.value, &e.value_len)) {
        return false;
    }
    if (pairs->count == pairs->room) {
        pairs->room = pairs->room * 2 + 16;
        pairs->entries = cli_resize(pairs->entries, pairs->room, sizeof *pairs->entries);
    }
    pairs->entries[pairs->count++] = e;
    skip_blanks(r);
    return true;
}

static bool read_object(reader *r, meta_pairs *pairs) {
    skip_blanks(r);
    if (peek(r) != '{') {
        return fail(r, "an object of strings was needed: {\"key\": \"value\"}");
    }
    r->at++;
    skip_blanks(r);
    while (peek(r) != '}') {
        if (!read_pair(r, pairs)) {
            return false;
        }
        if (peek(r) == ',') {
            r->at++;
            skip_blanks(r);
            if (peek(r) == '}') {
                return fail(r, "a key was needed after ','");
            }
        } else if (peek(r) != '}') {
            return fail(r, "',' or '}' was needed");
        }
    }
    r->at++;
    skip_blanks(r);
    return r->at == r->len || fail(r, "text after the object");
}

bool cli_meta_parse(meta_pairs *pairs, const char *json, size_t len, const char **fault,
                    size_t *at) {
    memset(pairs, 0, sizeof *pairs);
    pairs->text = cli_alloc(len + 1, 1);
    reader r = {.json = json, .len = len, .out = pairs->text};
    const bool good = read_object(&r, pairs);
    *fault = r.fault;
    *at = r.at;
    return good;
}

static int by_key(const void *a, const void *b) {
    const sft_metadata_entry *x = *(const sft_metadata_entry *const *)a;
    const sft_metadata_entry *y = *(const sft_metadata_entry *const *)b;

    return cli_compare_bytes(x->key, x->key_len, y->key, y->key_len);
}

sft_status cli_meta_different(const meta_pairs *pairs, sft_error *err) {
    const sft_metadata_entry **sorted = cli_alloc(pairs->count + 1, sizeof *sorted);
    sft_status status = SFT_OK;

    for (size_t i = 0; i < pairs->count; i++) {
        sorted[i] = &pairs->entries[i];
    }
    qsort(sorted, pairs->count, sizeof *sorted, by_key);
    for (size_t i = 1; i < pairs->count && status == SFT_OK; i++) {
        if (by_key(&sorted[i - 1], &sorted[i]) == 0) {
            char key[100];
            (void)sft_escape(key, sizeof key, sorted[i]->key, sorted[i]->key_len);
            status = sft_error_set(err, SFT_E_DUPLICATE, 0, SFT_NO_OFFSET, NULL, 0,
                                   "the key \"%s\" is there twice", key);
        }
    }
    free(sorted);
    return status;
}

void cli_meta_reset(meta_pairs *pairs) {
    free(pairs->entries);
    free(pairs->text);
    memset(pairs, 0, sizeof *pairs);
}
