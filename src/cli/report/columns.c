/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/columns.c - names, kinds and places of a model's tensors. Read report.h first.
 */
#include "cli/report/report.h"
#include <stdlib.h>
#include <string.h>

void cli_columns_make(cli_columns *k, const sft_catalog *catalog) {
    uint64_t end = 0;
    uint32_t file = UINT32_MAX;

    memset(k, 0, sizeof *k);
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        cli_tables_name(&k->tables, t->name, t->name_len, &k->names);
        cli_tables_kind(&k->tables, t, &k->kind_ids);
        end = t->file == file ? end : 0;
        file = t->file;
        const uint64_t begin = t->piece_count > 0 ? t->pieces[0].offset : end;
        const int64_t step = (int64_t)(begin - end);
        cli_put_leb(&k->places, file);
        cli_put_leb(&k->places, (uint64_t)step << 1 ^ (step < 0 ? UINT64_MAX : 0));
        end = begin + t->nbytes;
    }
}

void cli_columns_reset(cli_columns *k) {
    cli_tables_reset(&k->tables);
    free(k->names.data);
    free(k->kind_ids.data);
    free(k->places.data);
}
