/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/choice.h - the choices of `convert` and `cp`: which tensors, under which names and types; of
 * `convert` also with which metadata. Read cmd.h first.
 */
#ifndef SFT_CLI_CHOICE_H
#define SFT_CLI_CHOICE_H

#include "cli/cmd.h"
#include "cli/copy/rename.h"
#include "cli/look/meta_json.h"
#include "cli/ui/text.h"
#include <sft/import.h>

typedef struct cli_choice_cast_rule {
    char *pattern; /* NULL: every floating-point tensor */
    const sft_dtype *dtype;
} cli_choice_cast_rule;

/* An option with patterns, and which of them have matched anything. */
typedef struct cli_choice_patterns {
    const char *option;
    size_t count;
    bool *used;
} cli_choice_patterns;

typedef struct cli_choice {
    cli *c;
    cli_rename *renames;
    size_t rename_count;
    cli_choice_cast_rule *casts;
    size_t cast_count;
    sft_metadata_entry *metadata;
    size_t metadata_count;
    meta_pairs pairs; /* of --metadata-json */
    char *json_text;
    cli_strings names; /* renamed ones */
    cli_choice_patterns selects;
    cli_choice_patterns drops;
    cli_choice_patterns renamed;
    cli_choice_patterns casted;
} cli_choice;

/* Of `convert`, all of it. False: reported. cli_choice_reset() in any case. */
bool cli_choice_parse(cli_choice *k, cli *c);
void cli_choice_reset(cli_choice *k);
/* Of `cp`, in steps; false: reported. */
void cli_choice_init(cli_choice *k, cli *c);
bool cli_choice_parse_renames(cli_choice *k);
bool cli_choice_parse_casts(cli_choice *k);
/* Is anything but all of it asked for? */
bool cli_choice_any(const cli *c);
/* One name of a tensor: its own, or one that it has beside it. */
void cli_choice_take(cli_choice *k, sft_import_item *item);
/* What is asked for of a name. --select and --drop: */
bool cli_choice_wants(cli_choice *k, const char *name, size_t len);
/* The first --rename that fits; *now is the caller's. */
bool cli_choice_rename(cli_choice *k, const char *name, size_t len, char **now, size_t *now_len);
/* The last --cast that fits; NULL: none. */
const sft_dtype *cli_choice_cast(cli_choice *k, const char *name, size_t len, const sft_tensor *t);
/* Warns of patterns that nothing matched: of one option, or of all. */
void cli_choice_tell(const cli_choice *k, const cli_choice_patterns *of, const char *file);
void cli_choice_unused(const cli_choice *k, const char *file);

#endif
