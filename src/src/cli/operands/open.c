/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/open.c - operands become catalogs; the worker pool; patterns. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/operands/foreign.h"
#include "cli/operands/ranks.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include "cli/team.h"
#include "cli/ui/explain.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- standard input */

static sft_status kept_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    return sft_source_read(self, offset, dst, size, err);
}

static sft_status kept_borrow(void *self, uint64_t offset, size_t size, const void **data,
                              sft_error *err) {
    return sft_source_borrow(self, offset, size, data, err);
}

/* A pipe is read once and kept, as more than one reader may ask what it is. */
static sft_status open_kept(cli *c, sft_source **out, sft_error *err) {
    static const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = kept_read, .borrow = kept_borrow};
    sft_status status = SFT_OK;

    if (c->stdin_bytes == NULL) {
        /* Nothing is to be cleaned up while we wait for a pipe, so Ctrl-C may simply end us. */
        cli_sys_catch(false);
        status = cli_sys_interrupted() /* before: a read that nothing ends would forget it */
                     ? sft_error_set(err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "cancelled")
                     : sft_source_open_stream(&c->stdin_bytes, 0, 0, NULL, err);
        cli_sys_catch(true);
    }
    return status == SFT_OK
               ? sft_source_create(out, &vtable, c->stdin_bytes, sft_source_size(c->stdin_bytes),
                                   SFT_SOURCE_MEMORY, "stream", NULL, err)
               : status;
}

sft_status cli_stdin_source(cli *c, sft_source **out, sft_error *err) {
    sft_status status = SFT_E_IO;

    *out = NULL;
    if (c->stdin_bytes == NULL && cli_sys_regular_fd(0)) {
        status = sft_source_open_fd(out, 0, SFT_ACCESS_READ, NULL, err);
    }
    /* not every system lets an inherited file be looked at */
    return status == SFT_E_IO ? open_kept(c, out, err) : status;
}

bool cli_reads_stdin(const cli *c) {
    for (size_t i = 0; i < c->operand_count; i++) {
        if (strcmp(c->operands[i], "-") == 0) {
            return true;
        }
    }
    return false;
}

void cli_stdin_end(cli *c) {
    sft_source_close(c->stdin_bytes);
    c->stdin_bytes = NULL;
}

static sft_status open_stdin(cli *c, const sft_open_options *options, sft_catalog **out,
                             sft_error *err) {
    sft_source *source;
    sft_status status;

    *out = NULL;
    if (c->stdin_bytes == NULL && cli_sys_regular_fd(0)) {
        status = sft_catalog_open_fd(out, 0, options, err);
        if (status != SFT_E_IO) {
            return status;
        }
    }
    status = open_kept(c, &source, err);
    return status == SFT_OK ? sft_catalog_open_source(out, source, options, err) : status;
}

/* ---------------------------------------------------------------- operands */

/* foreign: whether it was read as another format. */
static sft_status open_any(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                           bool *foreign, sft_error *err) {
    sft_open_options options;
    sft_limits limits;

    *foreign = false;
    SFT_INIT(&options);
    SFT_INIT(&limits);
    limits.header_bytes = cli_number(c, "max-header-bytes", 0);
    options.limits = &limits;
    options.flags = flags;
    if (strcmp(operand, "-") == 0) {
        const sft_status read = open_stdin(c, &options, out, err);
        return read != SFT_OK ? cli_open_foreign(c, operand, read, out, foreign, err) : SFT_OK;
    }
    if (cli_is_url(operand)) {
        const sft_status there = cli_url_open(c, operand, &options, out, err);
        return there != SFT_OK ? cli_open_foreign(c, operand, there, out, foreign, err) : SFT_OK;
    }
    bool ranks;
    sft_status status = cli_ranks_open_whole(c, operand, &options, out, &ranks, err);
    if (ranks) {
        return status;
    }
    status = sft_catalog_open(out, operand, &options, err);
    return status != SFT_OK ? cli_open_foreign(c, operand, status, out, foreign, err) : SFT_OK;
}

sft_status cli_open_quietly(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                            sft_error *err) {
    bool foreign;
    return open_any(c, operand, flags, out, &foreign, err);
}

bool cli_open(cli *c, const char *operand, uint32_t flags, sft_catalog **out) {
    const int before = c->status;
    bool foreign;
    sft_error err;

    const sft_status status = open_any(c, operand, flags, out, &foreign, &err);
    if (status != SFT_OK && foreign) {
        cli_fail_plainly(c, operand, &err); /* hints are about safetensors */
        if (status == SFT_E_UNSUPPORTED) {  /* the file's fault, not the command line's */
            c->status = before > CLI_NO ? before : CLI_NO;
        }
    } else if (status != SFT_OK) {
        cli_fail(c, operand, &err);
    }
    if (status == SFT_OK && cli_flag(c, "explain")) {
        cli_explain(*out);
    }
    return status == SFT_OK;
}

void cli_close(cli *c, sft_catalog *catalog) {
    sft_error err;

    if (catalog != NULL && !c->proved && c->status < CLI_SYSTEM &&
        sft_catalog_unchanged(catalog, &err) != SFT_OK) {
        cli_fail_plainly(c, NULL, &err);
    }
    sft_catalog_close(catalog);
}

/* What SFT_CPU says; NULL: nothing. */
static const char *asked_cpu(void) {
    const char *cpu = getenv("SFT_CPU");
    return cpu != NULL && *cpu != '\0' ? cpu : NULL;
}

uint32_t cli_without(cli *c) {
    return asked_cpu() != NULL ? sft_pool_without(cli_pool(c)) : 0;
}

const sft_pool *cli_pool(cli *c) {
    const uint64_t jobs = cli_number(c, "jobs", cli_team_threads(c));

    if (c->pool == NULL && (jobs != 1 || asked_cpu() != NULL)) {
        sft_error err; /* without a pool everything works as well, only slower */
        (void)!sft_pool_create(&c->pool, jobs > 1024 ? 1024 : (uint32_t)jobs, NULL, &err);
        if (c->pool != NULL && sft_pool_set_cpu(c->pool, asked_cpu(), &err) != SFT_OK) {
            cli_fail_plainly(c, "SFT_CPU", &err);
        }
    }
    return c->pool;
}

bool cli_match(const char *pattern, const char *name, size_t name_len) {
    return sft_glob_match(pattern, strlen(pattern), name, name_len) != 0;
}
