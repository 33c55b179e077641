/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/json.c - the streaming JSON writer. What it writes is plain JSON (RFC 8259) that is also safe
 * to show on a terminal. Read out.h first.
 */
#include "cli/ui/out.h"
#include <float.h>
#include <sft/extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_json_init(cli_json *j, cli_out *out) {
    memset(j, 0, sizeof *j);
    j->out = out;
}

/* What goes before a member: nothing after a key, ", " from the second on. */
static void separate(cli_json *j) {
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    const uint64_t bit = 1ull << j->depth;
    if (j->depth > 0 && (j->filled & bit) != 0) {
        cli_puts(j->out, ", ");
    }
    j->filled |= bit;
}

void cli_json_open(cli_json *j, char bracket) {
    separate(j);
    cli_put(j->out, &bracket, 1);
    j->depth++;
    j->filled &= ~(1ull << j->depth);
}

void cli_json_close(cli_json *j, char bracket) {
    cli_put(j->out, &bracket, 1);
    j->depth--;
}

void cli_json_escape(cli_out *o, uint32_t cp) {
    if (cp >= 0x10000) {
        cli_printf(o, "\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)));
        cp = 0xdc00 + ((cp - 0x10000) & 0x3ff);
    }
    cli_printf(o, "\\u%04x", (unsigned)cp);
}

static void put_char(cli_out *o, const char *text, uint32_t cp, size_t used) {
    char escaped[16];

    if (cp == '"' || cp == '\\') {
        cli_put(o, "\\", 1);
        cli_put(o, text, 1);
    } else if (cp == '\n' || cp == '\r' || cp == '\t') {
        cli_puts(o, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
    } else if (cp == 0xfffd) { /* one that is there, or a byte that is not UTF-8 */
        cli_puts(o, "\xef\xbf\xbd");
    } else if (sft_escape(escaped, sizeof escaped, text, used) == used && escaped[0] != '\\') {
        cli_put(o, text, used);
    } else {
        cli_json_escape(o, cp);
    }
}

static void put_quoted(cli_out *o, const char *text, size_t len) {
    cli_put(o, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t plain = i;
        while (plain < len && (unsigned char)text[plain] >= 0x20 &&
               (unsigned char)text[plain] < 0x7f && text[plain] != '"' && text[plain] != '\\') {
            plain++;
        }
        cli_put(o, text + i, plain - i);
        i = plain;
        if (i < len) {
            size_t used;
            const uint32_t cp = cli_decode(text + i, len - i, &used);
            put_char(o, text + i, cp, used);
            i += used;
        }
    }
    cli_put(o, "\"", 1);
}

void cli_json_key_text(cli_json *j, const char *key, size_t len) {
    separate(j);
    put_quoted(j->out, key, len);
    cli_puts(j->out, ": ");
    j->after_key = true;
}

void cli_json_key(cli_json *j, const char *key) {
    cli_json_key_text(j, key, strlen(key));
}

void cli_json_text(cli_json *j, const char *text, size_t len) {
    separate(j);
    put_quoted(j->out, text, len);
}

void cli_json_string(cli_json *j, const char *text) {
    if (text == NULL) {
        cli_json_null(j);
    } else {
        cli_json_text(j, text, strlen(text));
    }
}

void cli_json_u64(cli_json *j, uint64_t value) {
    separate(j);
    cli_printf(j->out, "%llu", (unsigned long long)value);
}

void cli_json_i64(cli_json *j, int64_t value) {
    separate(j);
    cli_printf(j->out, "%lld", (long long)value);
}

void cli_json_real(cli_json *j, double value) {
    char text[40];

    if (!(value - value >= 0)) { /* NaN and infinities; isfinite() warns on some systems */
        cli_json_null(j);
        return;
    }
    separate(j);
    /* 17 always reads back; below 15 only what is subnormal can be shorter than %g makes it */
    const int first = value > -DBL_MIN && value < DBL_MIN ? 1 : 15;
    for (int digits = first; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) >= value && strtod(text, NULL) <= value) {
            break;
        }
    }
    cli_puts(j->out, text);
    if (strpbrk(text, ".en") == NULL) {
        cli_puts(j->out, ".0");
    }
}

void cli_json_bool(cli_json *j, bool value) {
    separate(j);
    cli_puts(j->out, value ? "true" : "false");
}

void cli_json_null(cli_json *j) {
    separate(j);
    cli_puts(j->out, "null");
}

void cli_json_newline(cli_json *j) {
    cli_put(j->out, "\n", 1);
    j->filled = 0;
}

/* ---------------------------------------------------------------- fields */

void cli_json_field_open(cli_json *j, const char *key, char bracket) {
    cli_json_key(j, key);
    cli_json_open(j, bracket);
}

void cli_json_field_text(cli_json *j, const char *key, const char *text, size_t len) {
    cli_json_key(j, key);
    if (text == NULL) {
        cli_json_null(j);
    } else {
        cli_json_text(j, text, len);
    }
}

void cli_json_field_string(cli_json *j, const char *key, const char *text) {
    cli_json_key(j, key);
    cli_json_string(j, text);
}

void cli_json_field_u64(cli_json *j, const char *key, uint64_t value) {
    cli_json_key(j, key);
    cli_json_u64(j, value);
}

void cli_json_field_real(cli_json *j, const char *key, double value) {
    cli_json_key(j, key);
    cli_json_real(j, value);
}

void cli_json_field_bool(cli_json *j, const char *key, bool value) {
    cli_json_key(j, key);
    cli_json_bool(j, value);
}

static void field_null(cli_json *j, const char *key) {
    cli_json_key(j, key);
    cli_json_null(j);
}

void cli_json_field_offset(cli_json *j, const char *key, uint64_t offset) {
    if (offset == SFT_NO_OFFSET) {
        field_null(j, key);
    } else {
        cli_json_field_u64(j, key, offset);
    }
}

void cli_json_field_shape(cli_json *j, const char *key, const uint64_t *shape, size_t rank) {
    cli_json_field_open(j, key, '[');
    for (size_t k = 0; k < rank; k++) {
        cli_json_u64(j, shape[k]);
    }
    cli_json_close(j, ']');
}

void cli_json_field_range(cli_json *j, const char *key, uint64_t begin, uint64_t end) {
    const uint64_t both[2] = {begin, end};
    cli_json_field_shape(j, key, both, 2);
}

void cli_json_fields_of(cli_json *j, const sft_tensor *tensor) {
    cli_json_field_text(j, "name", tensor->name, tensor->name_len);
    cli_json_field_string(j, "dtype", tensor->dtype->name);
    cli_json_field_shape(j, "shape", tensor->shape, tensor->rank);
}

void cli_json_fields_of_error(cli_json *j, const sft_error *err) {
    cli_json_field_string(j, "status", sft_status_name(err->status));
    cli_json_field_offset(j, "offset", err->offset);
    cli_json_field_string(j, "tensor", err->tensor[0] != '\0' ? err->tensor : NULL);
    cli_json_field_string(j, "message", err->message);
}

void cli_json_begin(cli_json *j, cli_out *out) {
    cli_json_init(j, out);
    cli_json_open(j, '{');
    cli_json_field_u64(j, "schema", 1);
}

void cli_json_end(cli_json *j) {
    cli_json_close(j, '}');
    cli_json_newline(j);
}
