/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/text.c - see text.h.
 */
#include "cli/ui/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *cli_copy_bytes(const char *text, size_t len) {
    char *copy = cli_alloc(len + 1, 1);

    memcpy(copy, text, len);
    return copy;
}

char *cli_copy_of(const char *text) {
    return cli_copy_bytes(text, strlen(text));
}

char *cli_joined(const char *a, const char *b, const char *c) {
    const size_t room = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = cli_alloc(room, 1);

    (void)snprintf(text, room, "%s%s%s", a, b, c);
    return text;
}

bool cli_is_word(const char *text, size_t len, const char *word) {
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

bool cli_is_among(const char *const *words, size_t count, const char *text) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

const char *cli_base_name(const char *path) {
    const char *base = path;

    for (const char *p = path; *p != '\0'; p++) {
#ifdef _WIN32
        base = *p == '\\' || *p == ':' ? p + 1 : base;
#endif
        base = *p == '/' ? p + 1 : base;
    }
    return base;
}

sft_status cli_read_source(sft_source *source, uint64_t most, char **text, size_t *size,
                           sft_error *err) {
    const uint64_t bytes = sft_source_size(source);
    sft_status status;

    *text = NULL;
    *size = 0;
    if (bytes > most) {
        status = CLI_ERROR(err, SFT_E_LIMIT, "the file is larger than %llu bytes",
                           (unsigned long long)most);
    } else {
        *size = (size_t)bytes;
        *text = cli_alloc(*size + 1, 1);
        status = sft_source_read(source, 0, *text, *size, err);
    }
    sft_source_close(source);
    return status;
}

sft_status cli_read_text(const char *path, uint64_t most, char **text, size_t *size,
                         sft_error *err) {
    sft_source *source;
    const sft_status status = sft_source_open(&source, path, SFT_ACCESS_READ, NULL, err);

    *text = NULL;
    return status == SFT_OK ? cli_read_source(source, most, text, size, err) : status;
}

/* ---------------------------------------------------------------- lists */

void cli_strings_take(cli_strings *s, char *text) {
    if ((s->count & (s->count - 1)) == 0) { /* full: there is room for a power of two */
        s->items = cli_resize(s->items, s->count > 0 ? 2 * s->count : 1, sizeof *s->items);
    }
    s->items[s->count++] = text;
}

bool cli_strings_have(const cli_strings *s, const char *text) {
    return cli_is_among((const char *const *)s->items, s->count, text);
}

void cli_strings_reset(cli_strings *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i]);
    }
    free(s->items);
    memset(s, 0, sizeof *s);
}

/* ---------------------------------------------------------------- metadata */

sft_metadata_entry cli_metadata_at(const sft_catalog *catalog, size_t file, size_t at) {
    sft_metadata_entry e = {NULL, 0, NULL, 0};

    (void)sft_catalog_metadata_at(catalog, file, at, &e.key, &e.key_len, &e.value, &e.value_len);
    return e;
}

void cli_json_metadata(cli_json *j, const sft_catalog *catalog, size_t file) {
    cli_json_open(j, '{');
    for (size_t i = 0; i < sft_catalog_metadata_count(catalog, file); i++) {
        const sft_metadata_entry e = cli_metadata_at(catalog, file, i);
        cli_json_key_text(j, e.key, e.key_len);
        cli_json_text(j, e.value, e.value_len);
    }
    cli_json_close(j, '}');
}

/* ---------------------------------------------------------------- text that grows */

char *cli_text_room(cli_text_buffer *t, size_t len) {
    if (t->size + len + 1 > t->room) {
        t->room = 2 * (t->size + len) + 256;
        t->data = cli_resize(t->data, t->room, 1);
    }
    return t->data + t->size;
}

void cli_text_add(cli_text_buffer *t, const char *text, size_t len) {
    (void)cli_text_room(t, len);
    if (len > 0) { /* text may be NULL if not */
        memcpy(t->data + t->size, text, len);
    }
    t->size += len;
    t->data[t->size] = '\0';
}

void cli_text_put(cli_text_buffer *t, const char *text) {
    cli_text_add(t, text, strlen(text));
}

void cli_text_number(cli_text_buffer *t, uint64_t value) {
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    cli_text_put(t, digits);
}

static void put_unit(cli_text_buffer *t, uint32_t unit) {
    char text[16];
    (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)unit);
    cli_text_put(t, text);
}

void cli_text_json(cli_text_buffer *t, const char *text, size_t len) {
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";

    cli_text_put(t, "\"");
    for (size_t i = 0; i < len;) {
        size_t used;
        const uint32_t ch = cli_decode(text + i, len - i, &used);
        const char *special = ch > 0 && ch < 0x80 ? strchr(plain, (int)ch) : NULL;
        if (special != NULL) {
            const char pair[2] = {'\\', letters[special - plain]};
            cli_text_add(t, pair, 2);
        } else if (ch >= 0x20 && ch < 0x7f) {
            cli_text_add(t, text + i, 1);
        } else if (ch >= 0x10000) {
            put_unit(t, 0xd800 + ((ch - 0x10000) >> 10));
            put_unit(t, 0xdc00 + ((ch - 0x10000) & 0x3ff));
        } else {
            put_unit(t, ch);
        }
        i += used;
    }
    cli_text_put(t, "\"");
}
