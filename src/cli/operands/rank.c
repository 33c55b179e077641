/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/rank.c - see rank.h.
 */
#include "cli/operands/rank.h"
#include "cli/operands/names.h"
#include <string.h>

/* "3" or "3/8". */
static bool parse(const char *text, uint64_t *rank, uint64_t *count) {
    uint64_t numbers[2] = {0, 0};
    size_t at = 0;
    size_t digits = 0;

    for (; *text != '\0'; text++) {
        if (*text == '/' && at == 0 && digits > 0) {
            at = 1;
            digits = 0;
        } else if (*text < '0' || *text > '9' || ++digits > 9) {
            return false;
        } else {
            numbers[at] = numbers[at] * 10 + (uint64_t)(*text - '0'); /* at most 9 digits */
        }
    }
    *rank = numbers[0];
    *count = numbers[1];
    return digits > 0 && (at == 0 || *rank < *count);
}

bool cli_rank_init(cli_rank *r, cli *c) {
    const char *text = cli_text(c, "rank");
    const char *path = cli_text(c, "layout");
    sft_layout_set_options o;
    uint64_t given = 0;
    sft_error err;

    *r = (cli_rank){NULL, 0, UINT64_MAX};
    if (path == NULL && text == NULL) {
        return true;
    }
    if (text != NULL && !parse(text, &r->rank, &given)) {
        cli_usage(c, "--rank: \"%s\" is neither K nor K/N, with K from 0 to N - 1", text);
        return false;
    }
    if (path == NULL) {
        cli_usage(c, "--layout FILE says how the model is cut");
        return false;
    }
    SFT_INIT(&o);
    o.ranks = given;
    if (sft_layout_set_open(&r->set, path, &o, &err) != SFT_OK) {
        r->set = NULL;
        cli_fail_plainly(c, path, &err);
        return false;
    }
    r->count = sft_layout_set_ranks(r->set);
    if ((given != 0 && given != r->count) || (text != NULL && r->rank >= r->count)) {
        cli_usage(c, "--rank %s: the layout has %llu ranks, from 0", text,
                  (unsigned long long)r->count);
        cli_rank_reset(r);
        return false;
    }
    return true;
}

void cli_rank_reset(cli_rank *r) {
    if (r->set != NULL) {
        sft_layout_set_free(r->set);
        r->set = NULL;
    }
}

sft_status cli_rank_cut(const cli_rank *r, const sft_catalog *whole, uint64_t rank,
                        sft_catalog **part, sft_error *err) {
    sft_open_options open;

    SFT_INIT(&open);
    return sft_checkpoint_part(part, whole, rank, sft_layout_set_find_global, r->set, &open, err);
}

bool cli_rank_bind(cli_rank *r, cli *c, const char *operand, const sft_catalog *whole) {
    const char *path = cli_text(c, "layout");
    sft_error err;

    if (r->set == NULL || sft_layout_set_form(r->set) != SFT_LAYOUT_FORM_PARALLEL) {
        return true;
    }
    cli_rank_reset(r);
    if (cli_ranks_read_layout(path, 0, &r->set, &err) != SFT_OK) {
        cli_fail_plainly(c, path, &err);
        return false;
    }
    return cli_names_bind(c, operand, r->set, whole);
}
