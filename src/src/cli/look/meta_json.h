/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/meta_json.h - reads {"key": "value", ...}, the only JSON that the tool takes in.
 */
#ifndef SFT_CLI_META_JSON_H
#define SFT_CLI_META_JSON_H

#include <sft/write.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct meta_pairs {
    sft_metadata_entry *entries;
    size_t count;
    size_t room;
    char *text; /* decoded strings; entries point into it */
} meta_pairs;

/* Parses a JSON object of strings. False: *fault says what is wrong at byte *at. Free with reset
 * either way. */
bool cli_meta_parse(meta_pairs *pairs, const char *json, size_t len, const char **fault,
                    size_t *at);
/* Refuses keys that are there twice, as files with such metadata are. */
sft_status cli_meta_different(const meta_pairs *pairs, sft_error *err);
void cli_meta_reset(meta_pairs *pairs);

#endif
