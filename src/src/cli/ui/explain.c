/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/explain.c - --explain: where the bytes of each file are, how this command reads them, and what a
 * load into memory (sft_load) would choose for the file as it stands now. Said before the work, which
 * changes the answer.
 */
#include "cli/ui/explain.h"
#include "cli/cmd.h"
#include <stdio.h>
#include <string.h>

static const char *way_of(sft_strategy strategy) {
    switch (strategy) {
    case SFT_STRATEGY_DIRECT:
        return "past the page cache";
    case SFT_STRATEGY_MAP:
        return "as a mapping";
    default:
        return "through the page cache";
    }
}

static void explain_file(const sft_file *file, const sft_strategy_choice *choice) {
    char cached[32];
    char path[1024];

    (void)sft_escape(path, sizeof path, file->path, strlen(file->path));
    (void)snprintf(cached, sizeof cached, "%d %%", (int)choice->cached);
    if (choice->file_system[0] == '\0') {
        (void)fprintf(stderr, "explain: %s: no file of this system; %s\n", path, choice->reason);
        return;
    }
    (void)fprintf(stderr,
                  "explain: %s: read through the page cache, which holds %s of it; file system %s; "
                  "a load into memory would read it %s: %s\n",
                  path, choice->cached < 0 ? "an unknown part" : cached, choice->file_system,
                  way_of(choice->strategy), choice->reason);
}

void cli_explain(const sft_catalog *catalog) {
    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        sft_strategy_choice choice;
        if (sft_strategy_choose(catalog, i, SFT_STRATEGY_AUTO, &choice, NULL) == SFT_OK) {
            explain_file(sft_catalog_file_at(catalog, i), &choice);
        }
    }
}
