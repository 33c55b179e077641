/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/show_file.c - show FILE: files, headers, totals and metadata, with JSON inside metadata
 * values set out in lines. The checker of that JSON is iterative, with a fixed depth. Read show.h
 * first.
 */
#include "cli/look/show.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <string.h>

enum { JSON_DEPTH = 64, VALUE_LINES = 40, VALUE_BYTES = 2000 };

/* ---------------------------------------------------------------- JSON in a string */

typedef struct reader {
    const char *text;
    size_t len;
    size_t at;
} reader;

static void skip_blanks(reader *r) {
    while (r->at < r->len && strchr(" \t\r\n", r->text[r->at]) != NULL && r->text[r->at] != '\0') {
        r->at++;
    }
}

static bool take(reader *r, char ch) {
    if (r->at < r->len && r->text[r->at] == ch) {
        r->at++;
        return true;
    }
    return false;
}

static bool is_hex(char ch) {
    return (ch >= '0' && ch <= '9') || ((ch | 0x20) >= 'a' && (ch | 0x20) <= 'f');
}

static bool take_string(reader *r) {
    if (!take(r, '"')) {
        return false;
    }
    while (r->at < r->len && r->text[r->at] != '"') {
        if ((unsigned char)r->text[r->at] < 0x20) {
            return false;
        }
        if (r->text[r->at++] != '\\') {
            continue;
        }
        if (r->at >= r->len || r->text[r->at] == '\0' ||
            strchr("\"\\/bfnrtu", r->text[r->at]) == NULL) {
            return false;
        }
        if (r->text[r->at++] == 'u') {
            for (int i = 0; i < 4; i++, r->at++) {
                if (r->at >= r->len || !is_hex(r->text[r->at])) {
                    return false;
                }
            }
        }
    }
    return take(r, '"');
}

static bool take_digits(reader *r) {
    const size_t start = r->at;
    while (r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        r->at++;
    }
    return r->at > start;
}

/* Python's NaN and Infinity are let through: json.dumps writes them. */
static bool take_word(reader *r) {
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i]);
        if (r->len - r->at >= n && memcmp(r->text + r->at, words[i], n) == 0) {
            r->at += n;
            return true;
        }
    }
    return false;
}

static bool take_scalar(reader *r) {
    if (r->at < r->len && r->text[r->at] == '"') {
        return take_string(r);
    }
    if (take_word(r)) {
        return true;
    }
    (void)take(r, '-');
    if (!take_digits(r) || (take(r, '.') && !take_digits(r))) {
        return false;
    }
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '+')) {
            (void)take(r, '-');
        }
        return take_digits(r);
    }
    return true;
}

/* Key and colon, where a member of an object begins. */
static bool take_key(reader *r) {
    skip_blanks(r);
    if (!take_string(r)) {
        return false;
    }
    skip_blanks(r);
    return take(r, ':');
}

/* After a value: closes what ends here, takes the comma. 1: another value follows; 0: the end; -1:
 * wrong. */
static int after_value(reader *r, const char *open, size_t *depth) {
    while (*depth > 0) {
        skip_blanks(r);
        if (take(r, open[*depth - 1] == '{' ? '}' : ']')) {
            (*depth)--;
            continue;
        }
        if (!take(r, ',')) {
            return -1;
        }
        return open[*depth - 1] != '{' || take_key(r) ? 1 : -1;
    }
    skip_blanks(r);
    return r->at == r->len ? 0 : -1;
}

/* Is the text a JSON object or array, whole and correct? */
static bool is_json(const char *text, size_t len) {
    reader r = {text, len, 0};
    char open[JSON_DEPTH];
    size_t depth = 0;
    int more = 1;

    skip_blanks(&r);
    if (r.at >= len || (text[r.at] != '{' && text[r.at] != '[')) {
        return false; /* a bare number or word is better shown as it is */
    }
    while (more == 1) {
        skip_blanks(&r);
        const char ch = r.at < len ? text[r.at] : '\0';
        if (ch == '{' || ch == '[') {
            if (depth == JSON_DEPTH) {
                return false;
            }
            open[depth++] = ch;
            r.at++;
            skip_blanks(&r);
            const bool empty = r.at < len && text[r.at] == (ch == '{' ? '}' : ']');
            if (!empty) {
                if (ch == '{' && !take_key(&r)) {
                    return false;
                }
                continue;
            }
        } else if (!take_scalar(&r)) {
            return false;
        }
        more = after_value(&r, open, &depth);
    }
    return more == 0;
}

/* A string token as it stands, but for characters that must not reach a terminal: those become
 * \uXXXX. */
static void put_token(cli_out *o, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        char safe[16];
        size_t used;
        const uint32_t cp = cli_decode(text + i, len - i, &used);
        if (cp == '\\' ||
            (sft_escape(safe, sizeof safe, text + i, used) == used && safe[0] != '\\')) {
            cli_put(o, text + i, used);
        } else {
            cli_json_escape(o, cp);
        }
        i += used;
    }
}

static bool end_line(cli_out *o, size_t *lines, size_t indent) {
    if (*lines == 0) {
        return false;
    }
    (*lines)--;
    cli_put(o, "\n", 1);
    cli_put_blanks(o, indent);
    return true;
}

/* End of the scalar or string that begins at `at`. */
static size_t token_end(const char *text, size_t len, size_t at) {
    reader r = {text, len, at};
    (void)take_scalar(&r);
    return r.at > at ? r.at : at + 1;
}

/* Writes JSON that cli_is_json accepted in lines, indented; at most `lines` of them. True: all of
 * it. */
static bool put_json(cli_out *o, const char *text, size_t len, size_t indent, size_t lines) {
    size_t depth = 0;
    bool fresh = false; /* a bracket was opened, nothing is in it yet */

    for (size_t i = 0; i < len;) {
        const char ch = text[i];
        bool more = true;
        size_t next = i + 1;
        if (ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r') {
            i = next;
            continue;
        }
        if (ch == '}' || ch == ']') {
            depth--;
            more = fresh || end_line(o, &lines, indent + 2 * depth);
            cli_put(o, &ch, more ? 1 : 0);
            fresh = false;
        } else if (ch == ',') {
            cli_put(o, ",", 1);
            more = end_line(o, &lines, indent + 2 * depth);
        } else if (ch == ':') {
            cli_puts(o, ": ");
        } else {
            more = !fresh || end_line(o, &lines, indent + 2 * depth);
            fresh = ch == '{' || ch == '[';
            next = fresh ? i + 1 : token_end(text, len, i);
            if (more) {
                put_token(o, text + i, next - i);
            }
            depth += fresh;
        }
        if (!more) {
            return false;
        }
        i = next;
    }
    return true;
}

/* ---------------------------------------------------------------- metadata */

static void put_value(cli *c, const char *value, size_t len, size_t indent) {
    const bool all = cli_flag(c, "all");

    if (is_json(value, len)) {
        if (!put_json(&c->out, value, len, indent, all ? SIZE_MAX : VALUE_LINES)) {
            cli_puts(&c->out, "\n");
            cli_put_blanks(&c->out, indent);
            cli_puts(&c->out, "... (more with --all)");
        }
        return;
    }
    const size_t shown = all || len <= VALUE_BYTES ? len : VALUE_BYTES;
    cli_put_escaped(&c->out, value, shown);
    if (shown < len) {
        char text[32];
        cli_printf(&c->out, "... (%s bytes; all with --all)", cli_grouped(text, len));
    }
}

static void put_metadata(cli *c, const sft_catalog *catalog, size_t file) {
    const size_t count = sft_catalog_metadata_count(catalog, file);

    cli_show_label(&c->out, "metadata");
    if (sft_catalog_file_at(catalog, file)->has_metadata == 0) {
        cli_puts(&c->out, "none\n");
        return;
    }
    cli_printf(&c->out, "%llu %s\n", (unsigned long long)count, count == 1 ? "entry" : "entries");
    for (size_t i = 0; i < count && !cli_stopped(c); i++) {
        const sft_metadata_entry e = cli_metadata_at(catalog, file, i);
        cli_puts(&c->out, "  ");
        cli_put_escaped(&c->out, e.key, e.key_len);
        cli_puts(&c->out, ": ");
        put_value(c, e.value, e.value_len, 2);
        cli_put(&c->out, "\n", 1);
    }
}

/* ---------------------------------------------------------------- the file */

static void put_file(cli *c, const sft_catalog *catalog, size_t index) {
    const sft_file *f = sft_catalog_file_at(catalog, index);
    char text[32];
    char exact[32];

    cli_show_label(&c->out, "file");
    cli_put_escaped(&c->out, f->path, strlen(f->path));
    cli_put(&c->out, "\n", 1);
    cli_show_label(&c->out, "size");
    cli_printf(&c->out, "%s (%s bytes)\n", cli_size(text, f->size, c->units),
               cli_grouped(exact, f->size));
    cli_show_label(&c->out, "header");
    cli_printf(&c->out, "%s bytes\n", cli_grouped(text, f->header_bytes));
    cli_show_label(&c->out, "data");
    cli_printf(&c->out, "%s bytes from %s\n", cli_grouped(text, f->data_bytes),
               cli_grouped(exact, f->data_offset));
    cli_show_label(&c->out, "tensors");
    cli_printf(&c->out, "%s\n", cli_grouped(text, f->tensor_count));
    put_metadata(c, catalog, index);
}

static void put_totals(cli *c, const sft_catalog *catalog) {
    uint64_t total = 0;
    char text[32];
    char brief[32];

    cli_show_label(&c->out, "dtypes");
    bool any = false;
    for (uint32_t id = SFT_DTYPE_COUNT; id >= 1; id--) {
        uint64_t tensors = 0;
        uint64_t elements = 0;
        for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
            const sft_tensor *t = sft_catalog_at(catalog, i);
            tensors += t->dtype->id == id;
            elements += t->dtype->id == id ? cli_elements(t) : 0;
        }
        if (tensors > 0) {
            cli_printf(&c->out, "%s%s: %s in %llu", any ? ", " : "", sft_dtype_get(id)->name,
                       cli_grouped(text, elements), (unsigned long long)tensors);
            any = true;
        }
        total += elements;
    }
    cli_puts(&c->out, any ? "\n" : "none\n");
    cli_show_label(&c->out, "elements");
    cli_grouped(text, total);
    cli_count_short(brief, total);
    cli_printf(&c->out, "%s%s%s%s\n", text, total >= 1000 ? " (" : "", total >= 1000 ? brief : "",
               total >= 1000 ? ")" : "");
}

static void show_json(cli *c, const char *file, const sft_catalog *catalog) {
    cli_json j;

    cli_json_begin(&j, &c->out);
    cli_json_field_string(&j, "file", file);
    cli_json_field_u64(&j, "tensor_count", sft_catalog_count(catalog));
    cli_json_field_open(&j, "files", '[');
    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        const sft_file *f = sft_catalog_file_at(catalog, i);
        cli_json_open(&j, '{');
        cli_json_field_string(&j, "file", f->path);
        cli_json_field_u64(&j, "bytes", f->size);
        cli_json_field_u64(&j, "header_bytes", f->header_bytes);
        cli_json_field_u64(&j, "data_offset", f->data_offset);
        cli_json_field_u64(&j, "data_bytes", f->data_bytes);
        cli_json_field_u64(&j, "tensor_count", f->tensor_count);
        cli_json_key(&j, "metadata");
        if (f->has_metadata != 0) {
            cli_json_metadata(&j, catalog, i);
        } else {
            cli_json_null(&j);
        }
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_end(&j);
}

void cli_show_file(cli *c, const char *file, const sft_catalog *catalog) {
    if (c->json) {
        show_json(c, file, catalog);
        return;
    }
    for (size_t i = 0; i < sft_catalog_file_count(catalog) && !cli_stopped(c); i++) {
        put_file(c, catalog, i);
        cli_puts(&c->out, sft_catalog_file_count(catalog) > 1 ? "\n" : "");
    }
    put_totals(c, catalog);
}
