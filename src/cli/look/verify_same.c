/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/verify_same.c - verify --same: are all operands the same weights, whatever files and ranks
 * they lie in? And verify --replicas: are the copies that ranks hold equal? Read verify.h first.
 */
#include "cli/group.h"
#include "cli/look/hash.h"
#include "cli/look/verify.h"
#include "cli/operands/ranks.h"
#include "cli/work.h"
#include <string.h>

/* ---------------------------------------------------------------- --same */

static bool content_together(cli *c, const char *operand, uint8_t digest[32]) {
    sft_catalog *catalog;
    sft_error err;

    const sft_status opened = cli_open_quietly(c, operand, 0, &catalog, &err);
    sft_status status = cli_group_agree(c, opened, &err);
    if (status == SFT_OK) {
        status = cli_content_together(c, catalog, digest, &err);
    }
    if (opened == SFT_OK) {
        cli_close(c, catalog);
    }
    if (status != SFT_OK) {
        cli_fail(c, operand, &err);
    }
    return status == SFT_OK;
}

static bool content_of(cli *c, const char *operand, uint8_t digest[32]) {
    sft_catalog *catalog;
    cli_hashes h;
    sft_error err;

    if (c->processes != NULL) {
        return content_together(c, operand, digest);
    }
    if (!cli_open(c, operand, 0, &catalog)) {
        return false;
    }
    cli_warn_problems(c, catalog, operand);
    const sft_status status = cli_hash_catalog(c, catalog, CLI_HASH_CONTENT, &h, &err);
    if (status != SFT_OK) {
        cli_fail(c, operand, &err);
    } else {
        memcpy(digest, h.content, 32);
    }
    cli_hashes_reset(&h);
    cli_close(c, catalog);
    return status == SFT_OK;
}

static void put_content(cli *c, const char *operand, const uint8_t digest[32], bool same) {
    char hex[65];
    cli_json j;

    if (!c->json) {
        cli_puts(&c->out, cli_hex(hex, digest, 32));
        cli_puts(&c->out, same ? "  same       " : "  different  ");
        cli_put_escaped(&c->out, operand, strlen(operand));
        cli_put(&c->out, "\n", 1);
        return;
    }
    cli_json_begin(&j, &c->out);
    cli_json_field_string(&j, "file", operand);
    cli_json_field_string(&j, "content_sha256", cli_hex(hex, digest, 32));
    cli_json_field_bool(&j, "same", same);
    cli_json_end(&j);
}

void cli_verify_same(cli *c) {
    uint8_t first[32];
    uint8_t digest[32];
    bool any = false;

    if (c->operand_count < 2) {
        cli_usage(c, "--same compares two or more operands");
        return;
    }
    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        if (!content_of(c, c->operands[i], digest)) {
            continue;
        }
        if (!any) {
            memcpy(first, digest, sizeof first);
            any = true;
        }
        const bool same = memcmp(first, digest, sizeof first) == 0;
        put_content(c, c->operands[i], digest, same);
        if (!same) {
            cli_answer(c, CLI_NO);
        }
    }
}

/* ---------------------------------------------------------------- --replicas */

void cli_verify_replicas(cli *c, const char *operand) {
    sft_checkpoint *checkpoint;
    uint64_t compared = 0;
    size_t ranks = 0;
    char size[32];
    sft_error err;
    cli_json j;

    if (cli_ranks_open(c, operand, &checkpoint, &err) != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
        return;
    }
    const sft_status status =
        sft_checkpoint_verify(checkpoint, cli_control(c, "comparing"), &compared, &err);
    cli_control_end(c);
    (void)sft_checkpoint_ranks(checkpoint, &ranks);
    if (status != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
    }
    if (c->json) {
        cli_json_begin(&j, &c->out);
        cli_json_field_string(&j, "file", operand);
        cli_json_field_u64(&j, "ranks", ranks);
        cli_json_field_u64(&j, "compared_bytes", compared);
        cli_json_field_bool(&j, "equal", status == SFT_OK);
        cli_json_end(&j);
    } else if (status == SFT_OK) {
        cli_put_escaped(&c->out, operand, strlen(operand));
        cli_printf(&c->out, ": replicas of %llu ranks are equal, %s compared\n",
                   (unsigned long long)ranks, cli_size(size, compared, c->units));
    }
    sft_checkpoint_close(checkpoint);
}
