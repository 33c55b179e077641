/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/verify.h - recording digests of the tensors of one file (verify --record). Read cmd.h first;
 * the form in which they are kept is told in sft/digest.h.
 */
#ifndef SFT_CLI_VERIFY_H
#define SFT_CLI_VERIFY_H

#include "cmd.h"

/* Computes SFT_DIGEST_* of every tensor of a file and puts them into its metadata, or beside it
 * into PATH.digests.json. False: reported. way: how the metadata was edited. */
bool cli_record_digests(cli *c, const char *path, uint32_t digests, bool beside, size_t *tensors,
                        sft_edit_way *way);

/* verify_same.c: --same over all operands, and --replicas of one. */
void cli_verify_same(cli *c);
void cli_verify_replicas(cli *c, const char *operand);

#endif
