/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/table.c - tables: cells are kept in one buffer, then printed with columns as wide as their
 * widest cell on the screen. The last column is never padded. Read out.h first.
 */
#include "cli/cmd.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cell wider than WIDEST does not widen its column: else one huge name would pad every row. Of
 * text from a file, LONGEST_CELL bytes are shown. */
enum { MAX_COLUMNS = 16, WIDEST = 160, LONGEST_CELL = 4000 };

void cli_table_init(cli_table *t, size_t columns, const char *const *titles, uint32_t right) {
    memset(t, 0, sizeof *t);
    t->columns = columns < MAX_COLUMNS ? columns : MAX_COLUMNS;
    t->titles = titles;
    t->right = right;
}

static char *room_for(cli_table *t, size_t size) {
    if (size > t->text_room - t->text_used) {
        const size_t want = t->text_room + size;
        t->text_room = want + want / 2 + 256;
        t->text = cli_resize(t->text, t->text_room, 1);
    }
    return t->text + t->text_used;
}

static void end_cell(cli_table *t, size_t size) {
    t->text_used += size;
    if (t->cells == t->cell_room) {
        t->cell_room = t->cell_room * 2 + 64;
        t->ends = cli_resize(t->ends, t->cell_room, sizeof *t->ends);
    }
    t->ends[t->cells++] = t->text_used;
}

void cli_table_text(cli_table *t, const char *text, size_t len) {
    const size_t shown = len <= LONGEST_CELL ? len : cli_whole_characters(text, LONGEST_CELL);
    const size_t cap = 4 * shown + 8; /* a byte becomes at most four */
    char *dst = room_for(t, cap + 64);
    size_t n = sft_escape(dst, cap, text, shown);

    if (shown < len) {
        char number[32];
        n += (size_t)snprintf(dst + n, 64, "... (%s bytes)", cli_grouped(number, len));
    }
    end_cell(t, n);
}

void cli_table_cell(cli_table *t, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    memcpy(room_for(t, size + 1), text, size);
    end_cell(t, size);
}

static void put_cell(cli_out *o, const char *text, size_t len, size_t pad, bool right) {
    cli_put_blanks(o, right ? pad : 0);
    cli_put(o, text, len);
    cli_put_blanks(o, right ? 0 : pad);
}

static void put_titles(const cli_table *t, cli_out *o, const size_t *widths, bool color) {
    if (t->titles == NULL) {
        return;
    }
    for (size_t k = 0; k < t->columns; k++) {
        const bool right = (t->right >> k & 1) != 0;
        const size_t len = strlen(t->titles[k]);
        const size_t pad = widths[k] - len;
        cli_puts(o, k == 0 ? "" : "  ");
        cli_put_blanks(o, right ? pad : 0);
        cli_puts(o, color ? CLI_BOLD : "");
        cli_put(o, t->titles[k], len);
        cli_puts(o, color ? CLI_NORMAL : "");
        cli_put_blanks(o, right || k + 1 == t->columns ? 0 : pad);
    }
    cli_put(o, "\n", 1);
}

void cli_table_print(cli_table *t, cli_out *o, bool color) {
    size_t widths[MAX_COLUMNS] = {0};
    size_t start = 0;

    for (size_t k = 0; t->titles != NULL && k < t->columns; k++) {
        widths[k] = strlen(t->titles[k]);
    }
    for (size_t i = 0; i < t->cells; i++) {
        const size_t width = cli_width(t->text + start, t->ends[i] - start);
        const size_t k = i % t->columns;
        widths[k] = width > widths[k] && width <= WIDEST ? width : widths[k];
        start = t->ends[i];
    }
    put_titles(t, o, widths, color);
    start = 0;
    for (size_t i = 0; i < t->cells; i++) {
        const size_t k = i % t->columns;
        const bool last = k + 1 == t->columns;
        const bool right = (t->right >> k & 1) != 0;
        const size_t len = t->ends[i] - start;
        const size_t width = last && !right ? 0 : cli_width(t->text + start, len);
        const size_t pad = (last && !right) || width >= widths[k] ? 0 : widths[k] - width;
        put_cell(o, t->text + start, len, pad, right);
        cli_puts(o, last ? "\n" : "  ");
        start = t->ends[i];
    }
}

void cli_table_reset(cli_table *t) {
    free(t->text);
    free(t->ends);
    memset(t, 0, sizeof *t);
}
