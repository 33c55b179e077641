/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/verify.h - the parts of the command verify: recorded digests, by one process or many, and
 * recording them. Read cmd.h first; the form in which they are kept is told in sft/digest.h.
 */
#ifndef SFT_CLI_VERIFY_H
#define SFT_CLI_VERIFY_H

#include "cli/cmd.h"

/* Computes SFT_DIGEST_* of every tensor of a file and puts them into its metadata, or beside it
 * into PATH.digests.json. False: reported. way: how the metadata was edited. */
bool cli_record_digests(cli *c, const char *path, uint32_t digests, bool beside, size_t *tensors,
                        sft_edit_way *way);

/* "crc32c", "sha256" or both: SFT_DIGEST_*. False: reported. */
bool cli_record_kinds(cli *c, const char *text, uint32_t *kinds);

/* One operand while it is verified. */
typedef struct cli_damage {
    const sft_tensor *tensor;
    char *message;
} cli_damage;

typedef struct cli_check {
    cli *c;
    const char *operand;
    const sft_catalog *catalog;
    cli_damage *list;
    size_t count;
    uint64_t bytes; /* of tensors that are as they should be */
    bool by_crc;    /* a crc_num differs */
} cli_check;

/* What sft_catalog_verify reports: ctx is the cli_check. */
void cli_verify_tensor(void *ctx, const sft_tensor *tensor, sft_status status, const char *message);
/* verify_team.c: sft_catalog_verify by all processes, each a share of the tensors; afterwards every
 * check and result is that of all. */
sft_status cli_verify_together(cli_check *k, const sft_verify_options *options,
                               sft_verify_result *result, sft_error *err);
/* sft_catalog_content_hash by all processes, each a share of the tensors. */
sft_status cli_content_together(cli *c, const sft_catalog *catalog, uint8_t digest[32],
                                sft_error *err);

/* verify_crc.c: files whose metadata have MindSpore's crc_num, compared: SFT_E_MISMATCH names the
 * first that differs. *tensors: how many these files have. */
sft_status cli_verify_crc(cli *c, const sft_catalog *catalog, uint64_t *tensors, sft_error *err);
/* The same of all operands that are safetensors, for a command that reads them. False: reported. */
bool cli_verify_inputs(cli *c);
/* The files of a checkpoint of many ranks, where digests are recorded in some: they speak of what
 * lies there, not of the whole. 0: verify the operand itself. Free each, and the list. */
size_t cli_verify_files(cli *c, const char *operand, char ***paths);
/* The same whether they record digests, which *digests says, or not. */
size_t cli_verify_ranks(cli *c, const char *operand, char ***paths, bool *digests);

/* Which tensors somebody looks at: of a catalog those that are chosen (NULL: all), and of these share
 * `number`, from 0, of `of`. */
typedef struct cli_share {
    const uint8_t *chosen; /* by tensor */
    uint32_t number;
    uint32_t of;
} cli_share;
/* sound.c: what is recorded of the operand's bytes, in its files or beside them, is true of them;
 * SFT_E_MISMATCH names the tensor. catalog: the open operand; NULL: it has files of ranks alone, of
 * which all tensors are looked at. */
sft_status cli_source_holds(cli *c, const char *operand, const sft_catalog *catalog,
                            const cli_share *share, sft_error *err);

/* verify_same.c: --same over all operands, and --replicas of one. */
void cli_verify_same(cli *c);
void cli_verify_replicas(cli *c, const char *operand);

#endif
