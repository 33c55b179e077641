/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/tables.c - names and kinds of a million tensors in a few bytes each: a name is the number of its
 * template (what lies between its numbers) and the numbers. Read parts.h first.
 */
#include "cli/report/parts.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 15 }; /* such numbers are below 2^53 */

static char *put_leb(char *to, uint64_t value) {
    for (; value >= 128; value >>= 7) {
        *to++ = (char)((value & 127) | 128);
    }
    *to++ = (char)value;
    return to;
}

void cli_put_leb(cli_text_buffer *t, uint64_t value) {
    char *to = cli_text_room(t, 10);
    t->size = (size_t)(put_leb(to, value) - t->data);
}

uint64_t cli_get_leb(const unsigned char **at) {
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        const unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
}

/* Most parts are short: a loop is faster than a call. */
static char *put_part(char *to, const char *text, size_t len) {
    to = put_leb(to, len);
    for (size_t i = 0; i < len; i++) {
        *to++ = text[i];
    }
    return to;
}

/* The template: parts, each behind its length, into `parts`; the numbers into `numbers`. */
static void cut_name(const char *name, size_t len, cli_text_buffer *parts,
                     cli_text_buffer *numbers) {
    size_t begin = 0;                                    /* of the part */
    char *part = cli_text_room(parts, 2 * len + 20);     /* lengths of parts: a byte each, */
    char *number = cli_text_room(numbers, 2 * len + 20); /* or of more than 127 bytes */

    for (size_t i = 0; i < len;) {
        size_t end = i;
        uint64_t value = 0;
        while (end < len && (unsigned char)(name[end] - '0') < 10) {
            value = end - i < MOST_DIGITS ? value * 10 + (uint64_t)(name[end] - '0') : value;
            end++;
        }
        if (end > i && end - i <= MOST_DIGITS && (name[i] != '0' || end - i == 1)) {
            part = put_part(part, name + begin, i - begin);
            number = put_leb(number, value);
            begin = end;
        }
        i = end > i ? end : i + 1;
    }
    part = put_part(part, name + begin, len - begin);
    parts->size = (size_t)(part - parts->data);
    numbers->size = (size_t)(number - numbers->data);
}

/* A number of 1 to MOST_DIGITS digits without leading zeros, all of its digits: behind it, or NULL. */
static const char *read_number(const char *at, const char *end, uint64_t *value) {
    const char *const begin = at;

    for (*value = 0; at < end && (unsigned char)(*at - '0') < 10 && at - begin <= MOST_DIGITS;
         at++) {
        *value = *value * 10 + (uint64_t)(*at - '0');
    }
    const ptrdiff_t digits = at - begin;
    return digits > 0 && digits <= MOST_DIGITS && (*begin != '0' || digits == 1) ? at : NULL;
}

/* Is the name of this template? Then its entry is added to the column. No part ends or begins with a digit
 * where a number is, so a name that fits is cut in the same places. */
static bool fits(const cli_tables *k, size_t id, const char *name, size_t len,
                 cli_text_buffer *column) {
    size_t size;
    const unsigned char *part = (const unsigned char *)cli_id_text(&k->templates, id, &size);
    const unsigned char *const parts_end = part + size;
    const char *const end = name + len;
    char *to = put_leb(cli_text_room(column, 2 * len + 20), id);

    for (;;) {
        const size_t n = (size_t)cli_get_leb(&part);
        uint64_t value;
        if (n > (size_t)(end - name) || memcmp(name, part, n) != 0) {
            return false;
        }
        name += n;
        part += n;
        if (part == parts_end) {
            column->size = name == end ? (size_t)(to - column->data) : column->size;
            return name == end;
        }
        name = read_number(name, end, &value);
        if (name == NULL) {
            return false;
        }
        to = put_leb(to, value);
    }
}

/* Templates mostly come in the order in which they came before: what followed the last one is tried first. */
void cli_tables_name(cli_tables *k, const char *name, size_t len, cli_text_buffer *column) {
    const size_t last = k->last_template;

    if (last < k->templates.count && fits(k, k->next_template[last], name, len, column)) {
        k->last_template = k->next_template[last];
        return;
    }
    k->room.size = k->numbers.size = 0;
    cut_name(name, len, &k->room, &k->numbers);
    const size_t id = cli_id_of(&k->templates, k->room.data, k->room.size);
    cli_put_leb(column, id);
    cli_text_add(column, k->numbers.data, k->numbers.size);
    if (k->template_room < k->templates.room) { /* at first, too */
        k->next_template =
            cli_resize(k->next_template, k->templates.room, sizeof *k->next_template);
        memset(k->next_template + k->template_room, 0,
               (k->templates.room - k->template_room) * sizeof *k->next_template);
        k->template_room = k->templates.room;
    }
    k->next_template[last] = (uint32_t)id;
    k->last_template = id;
}

uint64_t cli_tables_name_cost(const char *name, size_t len) {
    uint64_t room = UINT64_MAX;
    uint64_t runs = 1; /* of digits, and one more */

    (void)cli_page_fitting(name, len, &room);
    for (size_t i = 1; i < len; i++) {
        runs += (unsigned char)(name[i - 1] - '0') < 10 && (unsigned char)(name[i] - '0') >= 10;
    }
    return UINT64_MAX - room + 4 * (runs + 1) + 4;
}

static bool is_same_kind(const sft_tensor *a, const sft_tensor *b) {
    bool same = a != NULL && a->dtype == b->dtype && a->nbytes == b->nbytes && a->rank == b->rank;

    for (uint32_t i = 0; same && i < a->rank; i++) {
        same = a->shape[i] == b->shape[i];
    }
    return same;
}

static size_t kind_of(cli_tables *k, const sft_tensor *t) {
    cli_text_buffer *room = &k->room;

    room->size = 0;
    cli_put_leb(room, t->dtype->block_elements);
    cli_put_leb(room, t->dtype->block_bytes);
    cli_put_leb(room, t->dtype->kind);
    cli_text_add(room, t->dtype->name, strlen(t->dtype->name));
    const size_t dtype = cli_id_of(&k->dtypes, room->data, room->size);
    room->size = 0;
    cli_put_leb(room, dtype);
    cli_put_leb(room, t->nbytes);
    for (uint32_t i = 0; i < t->rank; i++) {
        cli_put_leb(room, t->shape[i]);
    }
    return cli_id_of(&k->kinds, room->data, room->size);
}

void cli_tables_kind(cli_tables *k, const sft_tensor *t, cli_text_buffer *column) {
    const size_t slot = (size_t)(t->nbytes ^ t->nbytes >> 6 ^ t->dtype->id) % CLI_RECENT_KINDS;

    if (!is_same_kind(k->recent[slot], t)) {
        k->recent[slot] = t;
        k->recent_ids[slot] = kind_of(k, t);
    }
    cli_put_leb(column, k->recent_ids[slot]);
}

uint64_t cli_tables_kind_cost(const sft_tensor *t) {
    return 200 + 24 * (uint64_t)t->rank;
}

static const char *kind_word(uint64_t kind) {
    static const char *const words[] = {"opaque", "bool", "uint", "int", "float", "complex"};
    return words[kind < sizeof words / sizeof words[0] ? kind : 0];
}

void cli_tables_put(const cli_tables *k, cli_json *j) {
    size_t len;

    cli_json_field_open(j, "dtypes", '[');
    for (size_t i = 0; i < k->dtypes.count; i++) {
        const char *text = cli_id_text(&k->dtypes, i, &len);
        const unsigned char *at = (const unsigned char *)text;
        const uint64_t elements = cli_get_leb(&at);
        const uint64_t bytes = cli_get_leb(&at);
        const uint64_t kind = cli_get_leb(&at);
        cli_json_open(j, '{');
        cli_json_field_text(j, "name", (const char *)at,
                            (size_t)((const unsigned char *)text + len - at));
        cli_json_field_u64(j, "block_elements", elements);
        cli_json_field_u64(j, "block_bytes", bytes);
        cli_json_field_string(j, "kind", kind_word(kind));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    cli_json_field_open(j, "kinds", '[');
    for (size_t i = 0; i < k->kinds.count; i++) {
        const unsigned char *at = (const unsigned char *)cli_id_text(&k->kinds, i, &len);
        const unsigned char *end = at + len;
        cli_json_open(j, '[');
        cli_json_u64(j, cli_get_leb(&at));
        cli_json_big(j, cli_get_leb(&at));
        cli_json_open(j, '[');
        while (at < end) {
            cli_json_big(j, cli_get_leb(&at));
        }
        cli_json_close(j, ']');
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
    cli_json_field_open(j, "templates", '[');
    for (size_t i = 0; i < k->templates.count; i++) {
        const unsigned char *at = (const unsigned char *)cli_id_text(&k->templates, i, &len);
        const unsigned char *end = at + len;
        cli_json_open(j, '[');
        while (at < end) {
            const size_t n = (size_t)cli_get_leb(&at);
            cli_json_text(j, (const char *)at, n);
            at += n;
        }
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
}

void cli_tables_reset(cli_tables *k) {
    cli_ids_reset(&k->dtypes);
    cli_ids_reset(&k->kinds);
    cli_ids_reset(&k->templates);
    free(k->room.data);
    free(k->numbers.data);
    free(k->next_template);
    memset(k, 0, sizeof *k);
}
