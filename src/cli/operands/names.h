/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/names.h - --names: the tensors of a model under the names of another convention. Read
 * ranks.h first.
 */
#ifndef SFT_CLI_NAMES_H
#define SFT_CLI_NAMES_H

#include "cli/operands/ranks.h"
#include <sft/names.h>

/* Where --names is given, *catalog becomes one with the new names, which owns the old one. operand: what was
 * opened; config.json in it or beside it has the numbers that rules ask for. False: reported, and *catalog
 * closed. */
bool cli_names_use(cli *c, const char *operand, sft_catalog **catalog);
/* The same in steps, for many operands. The rules; NULL: reported. */
sft_names *cli_names_open(cli *c);
sft_status cli_names_give(cli *c, const sft_names *names, const char *operand,
                          sft_catalog **catalog, sft_error *err);

#define CLI_NAMES_OPTIONS                                                                          \
    CLI_OPT_ARG(CLI_TEXT, "names", 0, "RULES",                                                     \
                "rename, fuse and split tensors: a file of rules, or those called "                \
                "MODEL-mindformers, MODEL being "                                                  \
                "llama, qwen2, qwen3, qwen3-moe, glm4, glm4-moe, deepseek3, telechat3 or "         \
                "telechat3-moe; with -fused behind "                                               \
                "for fused ones (llama, qwen2, qwen3); qwen2-mindformers2 for MindFormers 2.x"),   \
        CLI_OPT_FLAG("reverse-names", 0, "--names the other way round"), CLI_CONFIG_OPTION
#define CLI_CONFIG_OPTION                                                                          \
    CLI_OPT_ARG(CLI_FILE, "config", 0, "FILE",                                                     \
                "numbers that --names, or a layout of numbers, needs (default: config.json in "    \
                "the input or beside it)")

/* Reads --config into c->config, if it is given, before operands are opened. False: reported. */
bool cli_config_begin(cli *c);

/* A layout of numbers alone becomes one of this model: by --config, or by config.json of the operand or
 * beside its files. Other layouts stay as they are. False: reported. */
bool cli_names_bind(cli *c, const char *operand, sft_layout_set *set, const sft_catalog *model);

/* Warns of metadata that `before` has and `after`, which was made of it, has not: what they say of tensors is
 * no longer so. */
void cli_names_tell(cli *c, const char *operand, const sft_catalog *before,
                    const sft_catalog *after, const char *why);

#endif
