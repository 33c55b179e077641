/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/url.c - operands that are URLs. The remote wing is opened when the first of them is met. Read
 * url.h first.
 */
#include "url.h"
#include "wing.h"
#include <string.h>

bool cli_is_url(const char *operand) {
    static const char *const starts[] = {"https://", "http://", "hf://", "s3://"};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(operand, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return false;
}

static int poll_stopped(void *ctx, const sft_progress *progress) {
    (void)progress; /* what is under way is told by whoever asked for it */
    return cli_stopped(ctx) ? 1 : 0;
}

const sft_remote_api *cli_url_api(cli *c, sft_error *err) {
    const sft_remote_api *api = cli_wing_get(CLI_WING_REMOTE, err);
    sft_remote_options o;

    if (api == NULL || c->remote != NULL) {
        return api;
    }
    SFT_INIT(&c->remote_control);
    c->remote_control.poll = poll_stopped;
    c->remote_control.ctx = c;
    SFT_INIT(&o);
    o.control = &c->remote_control;
    o.connections = (uint32_t)cli_number(c, "connections", 0);
    o.disk_cache = cli_text(c, "block-cache");
    o.flags = SFT_REMOTE_ENVIRONMENT | (cli_flag(c, "allow-http") ? SFT_REMOTE_ALLOW_HTTP : 0) |
              (cli_flag(c, "offline") ? SFT_REMOTE_OFFLINE : 0);
    return api->create(&c->remote, &o, err) == SFT_OK ? api : NULL;
}

sft_status cli_url_open(cli *c, const char *operand, const sft_open_options *options,
                        sft_catalog **out, sft_error *err) {
    sft_error why;
    const sft_remote_api *api = cli_url_api(c, &why);
    const sft_status status =
        api != NULL ? api->open(out, c->remote, operand, options, &why) : (sft_status)why.status;

    if (api == NULL) {
        *out = NULL;
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

sft_status cli_url_source(cli *c, const char *operand, sft_source **out, sft_error *err) {
    const sft_remote_api *api = cli_url_api(c, err);

    *out = NULL;
    return api != NULL ? api->source_open(out, c->remote, operand, err) : SFT_E_UNSUPPORTED;
}

void cli_url_end(cli *c) {
    if (c->remote != NULL) {
        const sft_remote_api *api = cli_wing_get(CLI_WING_REMOTE, NULL);
        if (c->verbose) {
            sft_remote_counts n;
            api->count(c->remote, &n);
            cli_note(c, NULL, "%llu requests, %llu bytes received, %llu retries, %llu redirects",
                     (unsigned long long)n.requests, (unsigned long long)n.bytes,
                     (unsigned long long)n.retries, (unsigned long long)n.redirects);
        }
        api->free(c->remote);
        c->remote = NULL;
    }
}
