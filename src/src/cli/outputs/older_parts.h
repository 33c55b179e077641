/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/older_parts.h - between older.c, which finds the older model of a directory, and
 * older_replace.c.
 */
#ifndef SFT_CLI_OLDER_PARTS_H
#define SFT_CLI_OLDER_PARTS_H

#include "cli/outputs/older.h"

#define WEIGHTS ".safetensors"
#define INDEX   ".safetensors.index.json"
#define JOURNAL ".sft-older"
#define MAP     "param_name_map.json"
#define HYPER   "hyper_param" WEIGHTS /* beside a map; it names no file of this name */
#define DIGESTS ".digests.json"

/* Does the name end so, with something before it? */
bool cli_older_ends(const char *name, const char *end);
bool cli_older_is_index(const char *name);
char *cli_older_joined(const char *a, const char *b, const char *c);
/* The text of an index, free() it; false: there is none, or it is too long for one. */
bool cli_older_read(const char *path, char **text, size_t *size);
/* The first file that readers would see besides or instead of the planned ones; free() it. NULL:
 * none. */
char *cli_older_another(const cli_older *o);

#endif
