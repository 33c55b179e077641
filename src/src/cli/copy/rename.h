/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/rename.h - renaming by patterns without regular expressions: 'model.*=*',
 * 'h.{}.w=layers.{}.w'. Read cmd.h first.
 */
#ifndef SFT_CLI_RENAME_H
#define SFT_CLI_RENAME_H

#include <stdbool.h>
#include <stddef.h>

enum { CLI_MOST_HOLES = 16 };

typedef struct cli_text_part {
    const char *at;
    size_t len;
} cli_text_part;

/* OLD=NEW: literal parts with holes between them; "*" and "{}" are holes, "\" makes the next
 * character a literal one. Each hole of NEW takes what the hole of OLD in the same place caught;
 * "{2}" the second. */
typedef struct cli_rename {
    char *text; /* the literal parts, unescaped */
    cli_text_part old_parts[CLI_MOST_HOLES + 1];
    size_t old_holes;
    cli_text_part new_parts[CLI_MOST_HOLES + 1];
    size_t new_holes;
    size_t takes[CLI_MOST_HOLES]; /* which hole of OLD, from 0 */
} cli_rename;

/* Returns NULL, or what is wrong with the rule. */
const char *cli_rename_parse(cli_rename *rule, const char *text);
void cli_rename_reset(cli_rename *rule);
/* False: OLD is not the shape of this name. Else *out is the new name, to be freed. Holes catch as
 * little as they can, from the left. */
bool cli_rename_apply(const cli_rename *rule, const char *name, size_t len, char **out,
                      size_t *out_len);

#endif
