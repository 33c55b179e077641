/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/other_name.h - names that are none of a catalog's tensors: what each finds. For every command
 * that lists or carries them.
 */
#ifndef SFT_CLI_OTHER_NAME_H
#define SFT_CLI_OTHER_NAME_H

#include <sft/catalog.h>
#include <stdbool.h>

/* A name that is none of a tensor's own: another one of a tensor, or of a part of it. */
typedef struct cli_other_name {
    const char *name;
    size_t len;
    size_t index;            /* of the tensor */
    const sft_tensor *whole; /* that tensor */
    const sft_tensor *shows; /* what the name finds */
    bool part;               /* shows is not all of it */
} cli_other_name;

/* index: below sft_catalog_alias_count. */
cli_other_name cli_other_name_at(const sft_catalog *catalog, size_t index);

#endif
