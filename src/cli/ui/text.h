/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/text.h - texts that are kept: copies, lists of them, and one that grows. What is returned goes
 * with free(). Read cmd.h first.
 */
#ifndef SFT_CLI_TEXT_H
#define SFT_CLI_TEXT_H

#include "cli/cmd.h"

char *cli_copy_of(const char *text);
char *cli_copy_bytes(const char *text, size_t len);
char *cli_joined(const char *a, const char *b, const char *c); /* one behind the other */
/* Are these bytes the word? */
bool cli_is_word(const char *text, size_t len, const char *word);
bool cli_is_among(const char *const *words, size_t count, const char *text);
/* All bytes of a file and a NUL; free() *text also on failure. SFT_E_LIMIT: it has more than `most`. */
sft_status cli_read_text(const char *path, uint64_t most, char **text, size_t *size,
                         sft_error *err);
/* The same of a source, which is closed. */
sft_status cli_read_source(sft_source *source, uint64_t most, char **text, size_t *size,
                           sft_error *err);
/* The last part of a path. */
const char *cli_base_name(const char *path);

typedef struct cli_strings {
    char **items;
    size_t count;
} cli_strings;

void cli_strings_take(cli_strings *s, char *text); /* which it owns then */
bool cli_strings_have(const cli_strings *s, const char *text);
void cli_strings_reset(cli_strings *s);

/* An entry of a file's metadata; `at` below their number. */
sft_metadata_entry cli_metadata_at(const sft_catalog *catalog, size_t file, size_t at);
/* All entries of a file, as an object. */
void cli_json_metadata(cli_json *j, const sft_catalog *catalog, size_t file);

/* Text that grows; data is freed or taken over by the caller. */
typedef struct cli_text_buffer {
    char *data;
    size_t size;
    size_t room;
} cli_text_buffer;

/* Where so many bytes may be written, behind what is there; whoever does so adds to the size. */
char *cli_text_room(cli_text_buffer *t, size_t len);
void cli_text_add(cli_text_buffer *t, const char *text, size_t len);
void cli_text_put(cli_text_buffer *t, const char *text);
void cli_text_number(cli_text_buffer *t, uint64_t value);
/* A JSON string as Python's json module writes it: ASCII alone. */
void cli_text_json(cli_text_buffer *t, const char *text, size_t len);

#endif
