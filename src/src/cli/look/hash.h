/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/hash.h - the digests of one catalog or file, all of them from one pass over its bytes. The
 * command around it is cmd_hash.c. Read cmd.h first.
 */
#ifndef SFT_CLI_HASH_H
#define SFT_CLI_HASH_H

#include "cli/cmd.h"

#define CLI_HASH_WHOLE   1u  /* the file */
#define CLI_HASH_DATA    2u  /* its data section */
#define CLI_HASH_AUTO    4u  /* AutoV1, AutoV2, AutoV3 */
#define CLI_HASH_CONTENT 8u  /* names, dtypes, shapes, bytes of the catalog */
#define CLI_HASH_TENSORS 16u /* each tensor */

/* Of one file. */
typedef struct cli_file_hash {
    uint8_t whole[32];
    uint8_t data[32];
    uint8_t window[32]; /* bytes [0x100000, 0x110000) or as many of them as there are */
} cli_file_hash;

/* Of one catalog. */
typedef struct cli_hashes {
    cli_file_hash *files;   /* one per file */
    uint8_t (*tensors)[32]; /* one per tensor, in catalog order; NULL if not wanted */
    uint8_t content[32];
} cli_hashes;

sft_status cli_hash_catalog(cli *c, const sft_catalog *catalog, uint32_t wanted, cli_hashes *out,
                            sft_error *err);
/* sft_catalog_content_hash from the tensors' SHA-256s, in catalog order. */
void cli_hash_join(const sft_catalog *catalog, const uint8_t (*digests)[32], uint8_t out[32]);
void cli_hashes_reset(cli_hashes *h);
/* The whole file only, whatever it is. */
sft_status cli_hash_source(cli *c, const sft_source *source, uint8_t whole[32], sft_error *err);

#endif
