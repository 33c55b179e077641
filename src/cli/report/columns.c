/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/columns.c - names, kinds and places of a million tensors in a few bytes each: a name is
 * the number of its template (what lies between its numbers) and the numbers. Read report.h first.
 */
#include "cli/report/report.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 15 }; /* such numbers are below 2^53 */

void cli_put_leb(cli_text_buffer *t, uint64_t value) {
    char bytes[10];
    size_t n = 0;

    for (; value >= 128; value >>= 7) {
        bytes[n++] = (char)((value & 127) | 128);
    }
    bytes[n++] = (char)value;
    cli_text_add(t, bytes, n);
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

/* The template: parts, each behind its length, into `parts`; the numbers into `numbers`. */
static void cut_name(const sft_tensor *t, cli_text_buffer *parts, cli_text_buffer *numbers) {
    size_t begin = 0; /* of the part */

    for (size_t i = 0; i < t->name_len;) {
        size_t end = i;
        uint64_t value = 0;
        while (end < t->name_len && (unsigned char)(t->name[end] - '0') < 10) {
            value = end - i < MOST_DIGITS ? value * 10 + (uint64_t)(t->name[end] - '0') : value;
            end++;
        }
        if (end > i && end - i <= MOST_DIGITS && (t->name[i] != '0' || end - i == 1)) {
            cli_put_leb(parts, i - begin);
            cli_text_add(parts, t->name + begin, i - begin);
            cli_put_leb(numbers, value);
            begin = end;
        }
        i = end > i ? end : i + 1;
    }
    cli_put_leb(parts, t->name_len - begin);
    cli_text_add(parts, t->name + begin, t->name_len - begin);
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

void cli_columns_make(cli_columns *k, const sft_catalog *catalog) {
    cli_text_buffer room = {NULL, 0, 0};
    cli_text_buffer numbers = {NULL, 0, 0};
    uint64_t end = 0;
    uint32_t file = UINT32_MAX;

    memset(k, 0, sizeof *k);
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        room.size = numbers.size = 0;
        cut_name(t, &room, &numbers);
        cli_put_leb(&k->names, cli_id_of(&k->templates, room.data, room.size));
        cli_text_add(&k->names, numbers.data, numbers.size);
        cli_put_leb(&k->kind_ids, kind_of(k, t, &room));
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
