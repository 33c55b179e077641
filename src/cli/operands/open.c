/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/open.c - operands become catalogs: what they are, sft_open finds out. The worker pool;
 * patterns. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/group.h"
#include "cli/operands/other_format.h"
#include "cli/operands/ranks.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
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

/* A pipe is read once and kept, as it may be opened more than once. */
static sft_status open_kept(cli *c, sft_source **out, sft_error *err) {
    static const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = kept_read, .borrow = kept_borrow};
    sft_status status = SFT_OK;

    if (c->stdin_bytes == NULL) {
        /* Nothing is to be cleaned up while we wait for a pipe, so Ctrl-C may simply end us. */
        cli_sys_catch(false);
        status = cli_sys_interrupted() /* before: a read that nothing ends would forget it */
                     ? sft_error_set(err, SFT_E_CANCELLED, 0, "cancelled")
                     : sft_source_open_stream(&c->stdin_bytes, 0, 0, NULL, err);
        cli_sys_catch(true);
    }
    return status == SFT_OK
               ? sft_source_create(out, &vtable, c->stdin_bytes,
                                   &(sft_source_info){sft_source_size(c->stdin_bytes),
                                                      SFT_SOURCE_MEMORY, "stream", NULL},
                                   err)
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

/* ---------------------------------------------------------------- operands */

/* What is asked of every opener, and the rows that sft_open tries. */
typedef struct opening {
    sft_limits limits;
    sft_open_options open;
    sft_import_options other_formats;
    sft_checkpoint_options ranks;
    sft_remote_opening remote;
    sft_opener_row rows[4];
} opening;

static void opening_init(opening *o, cli *c, uint32_t flags) {
    SFT_INIT(&o->open);
    cli_import_options(c, &o->other_formats, &o->limits);
    cli_ranks_options(c, &o->ranks, NULL);
    o->open.limits = &o->limits;
    o->open.flags = flags;
    o->rows[0] = (sft_opener_row){sft_checkpoint_opener(), &o->ranks}; /* URLs of ranks, too */
    o->rows[1] = cli_url_row(c, &o->remote);
    o->rows[2] = (sft_opener_row){sft_catalog_opener(), NULL};
    o->rows[3] = (sft_opener_row){sft_import_opener(), &o->other_formats};
}

/* taken_by: as sft_open tells. */
static sft_status open_operand(cli *c, const char *operand, const opening *o, sft_catalog **out,
                               const sft_opener **taken_by, sft_error *err) {
    const char *path = cli_is_url(operand) ? cli_url_real(c, operand) : operand;
    sft_source *source = NULL;
    sft_door_options door;

    *out = NULL;
    *taken_by = NULL;
    if (strcmp(operand, "-") == 0) {
        const sft_status status = cli_stdin_source(c, &source, err);
        if (status != SFT_OK) {
            return status;
        }
        path = NULL;
    }
    SFT_INIT(&door);
    door.open = &o->open;
    door.rows = o->rows;
    door.row_count = sizeof o->rows / sizeof o->rows[0];
    door.taken_by = taken_by;
    const sft_status status = sft_open(out, path, source, &door, err);
    if (status == SFT_OK) {
        cli_ranks_opened(c, operand, *out);
        cli_import_opened(c, operand, *out);
    }
    return status;
}

sft_status cli_open_quietly(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                            sft_error *err) {
    const sft_opener *taken_by;
    opening o;

    opening_init(&o, c, flags);
    return open_operand(c, operand, &o, out, &taken_by, err);
}

sft_status cli_open_sharded(cli *c, const char *operand, const char *layout, uint64_t ranks,
                            sft_catalog **out, sft_error *err) {
    const sft_opener *taken_by;
    opening o;

    opening_init(&o, c, 0);
    o.ranks.layout = layout;
    o.ranks.layout_ranks = ranks;
    o.ranks.flags |= SFT_CHECKPOINT_NOTHING_ELSE;
    return open_operand(c, operand, &o, out, &taken_by, err);
}

bool cli_open(cli *c, const char *operand, uint32_t flags, sft_catalog **out) {
    const int before = c->status;
    const sft_opener *taken_by;
    sft_error err;
    opening o;

    opening_init(&o, c, flags);
    const sft_status status = open_operand(c, operand, &o, out, &taken_by, &err);
    if (status != SFT_OK && taken_by == sft_import_opener()) {
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
    const uint64_t jobs = cli_number(c, "jobs", cli_group_threads(c));

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
