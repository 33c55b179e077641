/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/parts.h - what pages are made of, whatever they show: texts with numbers, tables of names and
 * kinds, columns, and the template that data are put into (docs/report.md). Read cmd.h first.
 */
#ifndef SFT_CLI_PARTS_H
#define SFT_CLI_PARTS_H

#include "cli/ui/text.h"

/* ---------------------------------------------------------------- ids.c */

/* Texts, each with the number of its first appearance. */
typedef struct cli_ids {
    cli_text_buffer text;
    size_t *ends; /* of each text in text.data */
    size_t count;
    size_t room;
    uint32_t *table; /* number + 1; 0: free */
    size_t slots;    /* a power of two */
    uint64_t seed;   /* so that nobody can choose texts that meet */
} cli_ids;

size_t cli_id_of(cli_ids *ids, const void *text, size_t len);
const char *cli_id_text(const cli_ids *ids, size_t id, size_t *len);
void cli_ids_reset(cli_ids *ids);

/* ---------------------------------------------------------------- tables.c */

/* LEB128. */
void cli_put_leb(cli_text_buffer *t, uint64_t value);
uint64_t cli_get_leb(const unsigned char **at);

/* What names and tensors have in common, each once; a column has the number of the entry. */
enum { CLI_RECENT_KINDS = 64 };

typedef struct cli_tables {
    cli_ids dtypes; /* name, block elements, block bytes, kind */
    cli_ids kinds;
    cli_ids templates;
    cli_text_buffer room;
    cli_text_buffer numbers;
    uint32_t *next_template; /* of each template, the one that came behind it last */
    size_t template_room;
    size_t last_template;
    /* Kinds that came last, by what is cheap to look at: most tensors are as one not long before. */
    const sft_tensor *recent[CLI_RECENT_KINDS];
    size_t recent_ids[CLI_RECENT_KINDS];
} cli_tables;

/* Add an entry to a column: of a name its template and its numbers; of a tensor its kind. */
void cli_tables_name(cli_tables *k, const char *name, size_t len, cli_text_buffer *column);
void cli_tables_kind(cli_tables *k, const sft_tensor *t, cli_text_buffer *column);
/* Bytes that a name, or a tensor's kind, adds to the tables in a page at most. */
uint64_t cli_tables_name_cost(const char *name, size_t len);
uint64_t cli_tables_kind_cost(const sft_tensor *t);
/* The members dtypes, kinds, templates. */
void cli_tables_put(const cli_tables *k, cli_json *j);
void cli_tables_reset(cli_tables *k);

/* ---------------------------------------------------------------- parts.c */

/* Of the columns of a page; the last one has no name. */
typedef struct cli_section {
    const char *name;
    size_t bytes;
} cli_section;
void cli_put_sections(cli_json *j, uint64_t count, const cli_section *sections);

/* A count; as text from 2^53 on. */
void cli_json_big(cli_json *j, uint64_t value);
void cli_json_field_big(cli_json *j, const char *key, uint64_t value);
/* "safetensors", "gguf" ... */
const char *cli_page_format(const sft_catalog *catalog);
/* The model's name; free(). */
char *cli_page_name(const char *operand);
void cli_page_tool(cli_json *j); /* the member tool */

/* The template with an object as the element `id`, and columns (NULL ends them) behind it. */
void cli_page_put(cli_out *out, const char *id, const cli_text_buffer *json,
                  const cli_text_buffer *const *columns);
/* Bytes of the page; of it without object and columns, of an object in it, and of columns. */
uint64_t cli_page_size(const char *id, const cli_text_buffer *json, uint64_t columns);
uint64_t cli_page_bare(const char *id);
uint64_t cli_page_json(const cli_text_buffer *json);
uint64_t cli_page_base64(uint64_t bytes);

/* ---------------------------------------------------------------- room.c */

/* How much of a text fits into so many bytes of JSON in a page; what it takes there at most goes off. */
size_t cli_page_fitting(const char *text, size_t len, uint64_t *room);
uint64_t cli_page_cost(const char *text, size_t len); /* what all of it takes there at most */

/* Of a metadata key, in one model (b is NULL) or two; NULL: it has it not. */
typedef struct cli_metadata_change {
    const char *key;
    size_t key_len;
    const char *a;
    size_t a_len;
    const char *b;
    size_t b_len;
} cli_metadata_change;

/* What entries share: the longest are cut to one size, and if that becomes too small, the last ones have no
 * room. */
typedef struct cli_room {
    uint64_t left; /* bytes of JSON in the page */
    uint64_t most; /* that an entry takes */
    uint64_t entries_left;
    uint64_t values_cut;
} cli_room;

uint64_t cli_room_cost(const cli_metadata_change *x);
/* Room of so many bytes for entries of these costs, which are sorted; UINT64_MAX: for all of them. */
cli_room cli_room_of(uint64_t *costs, size_t count, uint64_t bytes);
/* Bytes of a and b that are shown; false: the entry has no room. */
bool cli_room_take(cli_room *r, const cli_metadata_change *x, size_t shown[2]);

/* web/dist/report.html. */
extern const unsigned char cli_report_template[];
extern const size_t cli_report_template_size;

#endif
