/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/parts.c - a page of the template and data, and what its data say of any model. Read parts.h
 * first.
 */
#include "cli/report/parts.h"
#include "cli/operands/other_format.h"
#include <sft/import.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXACT = 53 };

static const char marker[] = "<!-- sft:data -->";
static const char json_head[] = "<script type=\"application/json\" id=\"";
static const char columns_head[] = "<script type=\"application/octet-stream\" id=\"sft-columns\">";
static const char tail[] = "</script>\n";

/* ---------------------------------------------------------------- members */

void cli_json_big(cli_json *j, uint64_t value) {
    char text[24];

    if (value >> MOST_EXACT == 0) {
        cli_json_u64(j, value);
        return;
    }
    size_t at = sizeof text; /* JavaScript has no such numbers */
    for (; value > 0; value /= 10) {
        text[--at] = (char)('0' + value % 10);
    }
    cli_json_text(j, text + at, sizeof text - at);
}

void cli_json_field_big(cli_json *j, const char *key, uint64_t value) {
    cli_json_key(j, key);
    cli_json_big(j, value);
}

const char *cli_page_format(const sft_catalog *catalog) {
    uint32_t format = SFT_IMPORT_SAFETENSORS;

    if (sft_catalog_file_count(catalog) > 0 && sft_catalog_source_count(catalog) > 0 &&
        sft_import_detect(sft_catalog_source_at(catalog, sft_catalog_file_at(catalog, 0)->source),
                          &format, NULL) != SFT_OK) {
        format = SFT_IMPORT_SAFETENSORS;
    }
    return sft_import_format_name(format);
}

char *cli_page_name(const char *operand) {
    size_t len = strlen(operand);

    if (strcmp(operand, "-") == 0) {
        return cli_copy_of("standard input");
    }
    while (len > 1 && operand[len - 1] == '/') {
        len--;
    }
    char *path = cli_copy_bytes(operand, len);
    char *name = cli_copy_of(cli_base_name(path));
    free(path);
    return name;
}

void cli_page_tool(cli_json *j) {
    char *tool = cli_joined("safetensors ", sft_version(), "");

    cli_json_field_string(j, "tool", tool);
    free(tool);
}

void cli_put_sections(cli_json *j, uint64_t count, const cli_section *s) {
    size_t offset = 0;

    cli_json_field_open(j, "columns", '{');
    cli_json_field_u64(j, "count", count);
    cli_json_field_open(j, "sections", '[');
    for (; s->name != NULL; s++) {
        cli_json_open(j, '{');
        cli_json_field_string(j, "name", s->name);
        cli_json_field_u64(j, "offset", offset);
        cli_json_field_u64(j, "bytes", s->bytes);
        cli_json_close(j, '}');
        offset += s->bytes;
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

/* ---------------------------------------------------------------- the page */

/* In the page: `<` is six bytes. */
uint64_t cli_page_json(const cli_text_buffer *json) {
    uint64_t size = json->size;

    for (size_t i = 0; i < json->size; i++) {
        size += json->data[i] == '<' ? 5 : 0;
    }
    return size;
}

uint64_t cli_page_base64(uint64_t bytes) {
    return (bytes + 2) / 3 * 4;
}

uint64_t cli_page_size(const char *id, const cli_text_buffer *json, uint64_t columns) {
    return cli_page_bare(id) + cli_page_json(json) + cli_page_base64(columns);
}

uint64_t cli_page_bare(const char *id) {
    return cli_report_template_size - strlen(marker) + strlen(json_head) + strlen(id) + 2 +
           strlen(columns_head) + 2 * strlen(tail);
}

static void put_json(const cli_text_buffer *json, cli_out *out) {
    size_t begin = 0;

    for (size_t i = 0; i < json->size; i++) {
        if (json->data[i] == '<') { /* in a string: nothing can end the element */
            cli_put(out, json->data + begin, i - begin);
            cli_puts(out, "\\u003c");
            begin = i + 1;
        }
    }
    cli_put(out, json->data + begin, json->size - begin);
}

typedef struct base64 {
    cli_out *out;
    unsigned char rest[3];
    size_t held;
} base64;

static void put_three(base64 *b) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t v = (uint32_t)b->rest[0] << 16 | (uint32_t)b->rest[1] << 8 | b->rest[2];
    const char text[4] = {digits[v >> 18], digits[v >> 12 & 63],
                          b->held > 1 ? digits[v >> 6 & 63] : '=',
                          b->held > 2 ? digits[v & 63] : '='};

    cli_put(b->out, text, sizeof text);
    b->held = 0;
    memset(b->rest, 0, sizeof b->rest);
}

static void put_bytes(base64 *b, const cli_text_buffer *bytes) {
    for (size_t i = 0; i < bytes->size; i++) {
        b->rest[b->held++] = (unsigned char)bytes->data[i];
        if (b->held == 3) {
            put_three(b);
        }
    }
}

/* Where the template has its marker: the page cannot be without. */
static size_t marker_at(void) {
    const char *text = (const char *)cli_report_template;
    size_t at = 0;

    while (at + sizeof marker - 1 <= cli_report_template_size &&
           memcmp(text + at, marker, sizeof marker - 1) != 0) {
        at++;
    }
    return at;
}

void cli_page_put(cli_out *out, const char *id, const cli_text_buffer *json,
                  const cli_text_buffer *const *columns) {
    const size_t at = marker_at();
    const size_t behind = at + sizeof marker - 1;
    base64 b = {.out = out};

    cli_put(out, cli_report_template, at);
    cli_puts(out, json_head);
    cli_puts(out, id);
    cli_puts(out, "\">");
    put_json(json, out);
    cli_puts(out, tail);
    cli_puts(out, columns_head);
    for (; *columns != NULL; columns++) {
        put_bytes(&b, *columns);
    }
    if (b.held > 0) {
        put_three(&b);
    }
    cli_puts(out, tail);
    cli_put(out, cli_report_template + behind, cli_report_template_size - behind);
}
