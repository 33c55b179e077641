/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/verify_crc.c - verify: the crc_num that MindSpore records, and checkpoints of many ranks,
 * whose files are verified one by one. Read verify.h first.
 */
#include "cli/look/verify.h"
#include "cli/operands/ranks.h"
#include "cli/operands/url.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- crc_num */

/* A decimal number of 32 bits, and nothing else. */
static bool parse(const char *text, size_t len, uint32_t *out) {
    uint64_t value = 0;

    for (size_t i = 0; i < len && len <= 10; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0'); /* ten digits at most */
    }
    *out = (uint32_t)value;
    return len > 0 && len <= 10 && value <= UINT32_MAX;
}

static sft_status compare(cli *c, const sft_catalog *catalog, size_t file, const char *text,
                          size_t len, sft_error *err) {
    uint32_t recorded = 0;
    uint32_t computed = 0;
    char shown[64];

    const bool number = parse(text, len, &recorded);
    const sft_status status =
        sft_ms_crc_num(catalog, file, cli_control(c, "comparing crc_num"), &computed, err);
    cli_control_end(c);
    if (status != SFT_OK || (number && recorded == computed)) {
        return status;
    }
    (void)sft_escape(shown, sizeof shown, text, len);
    return CLI_ERROR(err, SFT_E_MISMATCH,
                     "%s is damaged: its crc_num is %s, its names and bytes give %lu",
                     sft_catalog_file_at(catalog, file)->path, shown, (unsigned long)computed);
}

sft_status cli_verify_crc(cli *c, const sft_catalog *catalog, uint64_t *tensors, sft_error *err) {
    static const char key[] = "crc_num";
    sft_status status = SFT_OK;

    *tensors = 0;
    for (size_t f = 0; f < sft_catalog_file_count(catalog) && status == SFT_OK; f++) {
        size_t len = 0;
        const char *text = sft_catalog_metadata_find(catalog, f, key, sizeof key - 1, &len);
        if (text != NULL) {
            *tensors += sft_catalog_file_at(catalog, f)->tensor_count;
            status = compare(c, catalog, f, text, len, err);
        }
    }
    return status;
}

bool cli_verify_inputs(cli *c) {
    for (size_t i = 0; i < c->operand_count; i++) {
        sft_catalog *catalog;
        uint64_t tensors;
        sft_error err;
        if (cli_is_url(c->operands[i]) ||
            sft_catalog_open(&catalog, c->operands[i], NULL, &err) != SFT_OK) {
            continue; /* another format, which its reader compares, or what opening it will say */
        }
        const sft_status status = cli_verify_crc(c, catalog, &tensors, &err);
        sft_catalog_close(catalog);
        if (status != SFT_OK) {
            cli_fail_plainly(c, c->operands[i], &err);
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- the files of ranks */

static bool has_digests(const sft_catalog *catalog) {
    static const char *const keys[] = {"sft.crc32c", "sft.sha256", "crc_num"};
    const char *path = sft_catalog_file_at(catalog, 0)->path;
    size_t len;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (sft_catalog_metadata_find(catalog, 0, keys[i], strlen(keys[i]), &len) != NULL) {
            return true;
        }
    }
    char *beside = cli_joined(path, ".digests.json", "");
    sft_source *source = NULL;
    const bool there = sft_source_open(&source, beside, SFT_ACCESS_READ, NULL, NULL) == SFT_OK;
    sft_source_close(source);
    free(beside);
    return there;
}

size_t cli_verify_ranks(cli *c, const char *operand, char ***paths, bool *digests) {
    const uint32_t kind = cli_ranks_kind(operand);
    sft_checkpoint *checkpoint;
    size_t count = 0;

    *paths = NULL;
    *digests = false;
    if (kind == SFT_CHECKPOINT_NONE || kind == SFT_CHECKPOINT_COMPLETE ||
        kind == SFT_CHECKPOINT_STEPS || kind == SFT_CHECKPOINT_STEP) {
        return 0;
    }
    const bool verbose = c->verbose;
    c->verbose = false; /* opening the whole says what it is, and why it does not open */
    const sft_status status = cli_ranks_open(c, operand, &checkpoint, NULL);
    c->verbose = verbose;
    if (status != SFT_OK) {
        return 0;
    }
    const sft_rank_part *parts = sft_checkpoint_ranks(checkpoint, &count);
    *paths = cli_alloc(count + 1, sizeof **paths);
    for (size_t i = 0; i < count; i++) {
        const char *path = sft_catalog_file_at(parts[i].catalog, 0)->path;
        (*paths)[i] = cli_copy_of(path);
        *digests = *digests || has_digests(parts[i].catalog);
    }
    sft_checkpoint_close(checkpoint);
    return count;
}

cli_strings cli_verify_files(cli *c, const char *operand) {
    cli_strings paths = {NULL, 0};
    bool any;

    paths.count = cli_verify_ranks(c, operand, &paths.items, &any);
    if (!any) {
        cli_strings_reset(&paths);
    }
    return paths;
}
