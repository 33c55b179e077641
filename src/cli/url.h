/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/url.h - operands that are URLs, through the remote wing. Read wing.h first.
 */
#ifndef SFT_CLI_URL_H
#define SFT_CLI_URL_H

#include "cmd.h"
#include <sft/remote.h>

/* Told by its beginning; the wing is not needed for that. */
bool cli_is_url(const char *operand);
/* The wing and its state, made on first use from the options and the environment; NULL: *err. */
const sft_remote_api *cli_url_api(cli *c, sft_error *err);
sft_status cli_url_open(cli *c, const char *operand, const sft_open_options *options,
                        sft_catalog **out, sft_error *err);
/* What the URL names as bytes, whatever they are. */
sft_status cli_url_source(cli *c, const char *operand, sft_source **out, sft_error *err);
void cli_url_end(cli *c); /* from main */

#endif
