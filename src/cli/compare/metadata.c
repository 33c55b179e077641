/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/metadata.c - how the metadata of two models differ: of several files that have a key,
 * the first counts. Read diff.h first.
 */
#include "cli/compare/diff.h"
#include "cli/ui/text.h"
#include <string.h>

/* The value of a key in the first file that has it. */
static const char *find_metadata(const sft_catalog *catalog, const char *key, size_t len,
                                 size_t *value_len) {
    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        const char *value = sft_catalog_metadata_find(catalog, f, key, len, value_len);
        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

/* Goes over the keys of one side; from_a: reports changed and removed ones, else added ones. */
static uint64_t walk_metadata(cli_diff *d, bool from_a, cli_metadata_change_fn report, void *ctx) {
    const sft_catalog *mine = from_a ? d->a : d->b;
    const sft_catalog *other = from_a ? d->b : d->a;
    uint64_t changes = 0;

    for (size_t f = 0; f < sft_catalog_file_count(mine); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(mine, f); i++) {
            const sft_metadata_entry e = cli_metadata_at(mine, f, i);
            size_t other_len = 0;
            size_t first_len;
            if (find_metadata(mine, e.key, e.key_len, &first_len) != e.value) {
                continue; /* an earlier file has it */
            }
            const char *there = find_metadata(other, e.key, e.key_len, &other_len);
            const bool same =
                there != NULL && other_len == e.value_len && memcmp(there, e.value, other_len) == 0;
            if (same || (!from_a && there != NULL)) {
                continue;
            }
            changes++;
            if (report != NULL) {
                const cli_metadata_change x = {.key = e.key,
                                               .key_len = e.key_len,
                                               .a = from_a ? e.value : NULL,
                                               .a_len = e.value_len,
                                               .b = from_a ? there : e.value,
                                               .b_len = from_a ? other_len : e.value_len};
                report(d, ctx, &x);
            }
        }
    }
    return changes;
}

uint64_t cli_diff_metadata(cli_diff *d, cli_metadata_change_fn report, void *ctx) {
    const uint64_t changes = walk_metadata(d, true, report, ctx);
    return changes + walk_metadata(d, false, report, ctx);
}
