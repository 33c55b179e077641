/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/sound.c - before new digests are recorded: what the source records of itself holds. Digests
 * of damaged bytes would call them right. For every command that writes and records. Read verify.h
 * first.
 */
#include "cli/look/verify.h"
#include <stdlib.h>
#include <string.h>

/* The first tensor of a share of the catalog, contiguous and by bytes: that of `number` of `of`. */
static size_t begin_of(const sft_catalog *catalog, uint32_t number, uint32_t of) {
    const size_t count = sft_catalog_count(catalog);
    uint64_t total = 0;
    uint64_t at = 0;
    size_t i = 0;

    for (size_t k = 0; k < count; k++) {
        total += sft_catalog_at(catalog, k)->nbytes + 1; /* inside files: cannot overflow */
    }
    while (number != 0 && i < count && (number == of || (double)at < (double)total / of * number)) {
        at += sft_catalog_at(catalog, i++)->nbytes + 1;
    }
    return i;
}

static sft_status compare(cli *c, const sft_catalog *catalog, const char *operand,
                          const cli_share *share, sft_error *err) {
    sft_verify_options o;
    sft_status status = SFT_OK;
    uint64_t tensors;

    SFT_INIT(&o);
    o.pool = cli_pool(c);
    o.chosen = share->chosen;
    o.first = begin_of(catalog, share->number, share->of);
    o.count = begin_of(catalog, share->number + 1, share->of) - o.first;
    for (unsigned again = 0; again < 2 && o.count > 0; again++) {
        o.control = cli_control(c, "comparing recorded digests");
        status = sft_catalog_verify(catalog, &o, NULL, err);
        cli_control_end(c);
        if (status != SFT_E_STALE || again != 0) {
            break;
        }
        cli_warn(c, operand, "%s: not compared", err->message);
        o.flags = SFT_VERIFY_SKIP_STALE; /* other files' are */
    }
    if (status == SFT_E_NOT_FOUND) {
        status = SFT_OK;
    }
    return status == SFT_OK && share->number == 0 ? cli_verify_crc(c, catalog, &tensors, err)
                                                  : status;
}

static sft_status compare_file(cli *c, const char *path, sft_error *err) {
    const cli_share all = {NULL, 0, 1};
    sft_catalog *catalog;
    sft_status status = cli_open_quietly(c, path, 0, &catalog, err);

    if (status == SFT_OK) {
        status = compare(c, catalog, path, &all, err);
        cli_close(c, catalog);
    }
    return status;
}

sft_status cli_source_holds(cli *c, const char *operand, const sft_catalog *catalog,
                            const cli_share *share, sft_error *err) {
    char **paths;
    const size_t count = cli_verify_files(c, operand, &paths);
    sft_status status = SFT_OK;

    for (size_t i = 0; i < count; i++) {
        if (status == SFT_OK && i % share->of == share->number) {
            status = compare_file(c, paths[i], err);
        }
        free(paths[i]);
    }
    free(paths);
    if (count == 0 && catalog != NULL) {
        status = compare(c, catalog, operand, share, err);
    }
    if (status == SFT_E_MISMATCH) {
        const sft_error why = *err;
        status = sft_error_set(err, status, 0, why.offset, why.tensor, strlen(why.tensor),
                               "%s; new digests would call it right", why.message);
    }
    return status;
}
