/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/columns.c - names, kinds and places of a million tensors in a few bytes each: a name is
 * the number of its template (what lies between its numbers) and the numbers. Read report.h first.
 */
#include "cli/report/report.h"
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
static void cut_name(const sft_tensor *t, cli_text_buffer *parts, cli_text_buffer *numbers) {
    size_t begin = 0;                                        /* of the part */
    char *part = cli_text_room(parts, 2 * t->name_len + 20); /* lengths of parts: a byte each, */
    char *number = cli_text_room(numbers, 2 * t->name_len + 20); /* or of more than 127 bytes */

    for (size_t i = 0; i < t->name_len;) {
        size_t end = i;
        uint64_t value = 0;
        while (end < t->name_len && (unsigned char)(t->name[end] - '0') < 10) {
            value = end - i < MOST_DIGITS ? value * 10 + (uint64_t)(t->name[end] - '0') : value;
            end++;
        }
        if (end > i && end - i <= MOST_DIGITS && (t->name[i] != '0' || end - i == 1)) {
            part = put_part(part, t->name + begin, i - begin);
            number = put_leb(number, value);
            begin = end;
        }
        i = end > i ? end : i + 1;
    }
    part = put_part(part, t->name + begin, t->name_len - begin);
    parts->size = (size_t)(part - parts->data);
    numbers->size = (size_t)(number - numbers->data);
}

/* Kinds that came last, by what is cheap to look at: most tensors are as one not long before them. */
enum { RECENT = 64 };
typedef struct recent {
    const sft_tensor *tensors[RECENT];
    size_t kinds[RECENT];
} recent;

static bool is_same_kind(const sft_tensor *a, const sft_tensor *b) {
    bool same = a != NULL && a->dtype == b->dtype && a->nbytes == b->nbytes && a->rank == b->rank;

    for (uint32_t i = 0; same && i < a->rank; i++) {
        same = a->shape[i] == b->shape[i];
    }
    return same;
}

static size_t kind_of(cli_columns *k, const sft_tensor *t, cli_text_buffer *room) {
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

static size_t quick_kind_of(cli_columns *k, const sft_tensor *t, recent *last,
                            cli_text_buffer *room) {
    const size_t slot = (size_t)(t->nbytes ^ t->nbytes >> 6 ^ t->dtype->id) % RECENT;

    if (!is_same_kind(last->tensors[slot], t)) {
        last->tensors[slot] = t;
        last->kinds[slot] = kind_of(k, t, room);
    }
    return last->kinds[slot];
}

void cli_columns_make(cli_columns *k, const sft_catalog *catalog) {
    cli_text_buffer room = {NULL, 0, 0};
    cli_text_buffer numbers = {NULL, 0, 0};
    uint64_t end = 0;
    uint32_t file = UINT32_MAX;
    recent last;

    memset(k, 0, sizeof *k);
    memset(&last, 0, sizeof last);
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        room.size = numbers.size = 0;
        cut_name(t, &room, &numbers);
        cli_put_leb(&k->names, cli_id_of(&k->templates, room.data, room.size));
        cli_text_add(&k->names, numbers.data, numbers.size);
        cli_put_leb(&k->kind_ids, quick_kind_of(k, t, &last, &room));
        end = t->file == file ? end : 0;
        file = t->file;
        const uint64_t begin = t->piece_count > 0 ? t->pieces[0].offset : end;
        const int64_t step = (int64_t)(begin - end);
        cli_put_leb(&k->places, file);
        cli_put_leb(&k->places, (uint64_t)step << 1 ^ (step < 0 ? UINT64_MAX : 0));
        end = begin + t->nbytes;
    }
    free(room.data);
    free(numbers.data);
}

void cli_columns_reset(cli_columns *k) {
    cli_ids_reset(&k->dtypes);
    cli_ids_reset(&k->kinds);
    cli_ids_reset(&k->templates);
    free(k->names.data);
    free(k->kind_ids.data);
    free(k->places.data);
}
