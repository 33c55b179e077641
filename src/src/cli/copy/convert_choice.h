/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/convert_choice.h - the choices of `convert`: which tensors, under which names and types, with
 * which metadata. Read cmd.h first.
 */
#ifndef SFT_CLI_CONVERT_CHOICE_H
#define SFT_CLI_CONVERT_CHOICE_H

#include "cli/cmd.h"
#include "cli/copy/rename.h"
#include "cli/look/meta_json.h"
#include <sft/import.h>

typedef struct cli_choice_cast {
    char *pattern; /* NULL: every floating-point tensor */
    const sft_dtype *dtype;
} cli_choice_cast;

/* An option with patterns, and which of them have matched anything. */
typedef struct cli_choice_patterns {
    const char *option;
    bool *used;
} cli_choice_patterns;

typedef struct cli_choice {
    cli *c;
    cli_rename *renames;
    size_t rename_count;
    cli_choice_cast *casts;
    size_t cast_count;
    sft_metadata_entry *metadata;
    size_t metadata_count;
    meta_pairs pairs; /* of --metadata-json */
    char *json_text;
    char **names; /* renamed ones, owned */
    size_t name_count;
    size_t name_room;
    cli_choice_patterns selects;
    cli_choice_patterns drops;
    cli_choice_patterns renamed;
    cli_choice_patterns casted;
} cli_choice;

/* False: reported. cli_choice_reset() in any case. */
bool cli_choice_parse(cli_choice *k, cli *c);
void cli_choice_reset(cli_choice *k);
/* Is anything but all of it asked for? */
bool cli_choice_any(const cli *c);
/* One name of a tensor: its own, or one that it has beside it. */
void cli_choice_take(cli_choice *k, sft_import_item *item);
/* Warns of patterns that nothing matched. */
void cli_choice_unused(cli_choice *k);

#endif
