/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/url.h - operands that are URLs, through libsafetensors-remote. Read cmd.h first.
 */
#ifndef SFT_CLI_URL_H
#define SFT_CLI_URL_H

#include "cli/cmd.h"
#include <sft/remote.h>

/* Before anything else looks at the arguments: URLs that hold a query or a password are replaced by
 * what of them may be shown, and the secrets wiped from where other programs see them. So nothing
 * that prints an operand can print a secret; what opens one asks for the real URL. */
void cli_url_conceal(cli *c, int argc, char **argv);
const char *cli_url_real(const cli *c, const char *operand); /* itself, if nothing was concealed */

static inline bool cli_is_url(const char *operand) {
    return sft_operand_is_url(operand) != 0;
}
/* Makes c->remote on first use, from the options and the environment. SFT_E_IO: there is no libcurl,
 * or this build cannot read URLs. */
sft_status cli_url_begin(cli *c, sft_error *err);
/* For sft_open: the row of URLs, with its options. */
sft_opener_row cli_url_row(cli *c, sft_remote_opening *opening);
/* What the URL names as bytes, whatever they are. */
sft_status cli_url_source(cli *c, const char *operand, sft_source **out, sft_error *err);
/* Threads that wait for answers; NULL: none are to be had. */
const sft_pool *cli_url_askers(cli *c);
/* After cli_url_begin. */
sft_status cli_url_fetch(cli *c, const char *operand, const char *directory,
                         const sft_fetch_options *options, sft_fetch_result *result,
                         sft_error *err);
void cli_url_end(cli *c); /* from main */

#endif
