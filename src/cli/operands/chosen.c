/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/chosen.c - see chosen.h.
 */
#include "cli/operands/chosen.h"
#include "cli/copy/cast_lost.h"
#include "cli/copy/choice.h"
#include "cli/operands/names.h"
#include <sft/names.h>
#include <stdlib.h>

struct cli_chosen {
    cli *c;
    cli_choice choice;
    cli_cast_lost *lost;
};

static sft_status choose(void *ctx, const sft_tensor *t, sft_chosen *chosen, sft_error *err) {
    cli_choice *const k = &((cli_chosen *)ctx)->choice;
    const sft_dtype *dtype;
    char *now;

    (void)err;
    chosen->keep = cli_choice_wants(k, t->name, t->name_len);
    if (chosen->keep == 0) {
        return SFT_OK;
    }
    if (cli_choice_rename(k, t->name, t->name_len, &now, &chosen->name_len)) {
        cli_strings_take(&k->names, now);
        chosen->name = now;
    }
    dtype = cli_choice_cast(k, t->name, t->name_len, t);
    chosen->dtype = dtype != NULL ? dtype : t->dtype;
    return SFT_OK;
}

static void casted(void *ctx, const sft_tensor *t, const sft_dtype *to, const void *before,
                   const void *after, size_t n) {
    cli_cast_saw(((cli_chosen *)ctx)->lost, t, to, before, after, n);
}

/* False: reported. */
static bool apply(cli_chosen *k, const char *operand, sft_catalog **catalog) {
    const size_t aliases = sft_catalog_alias_count(*catalog);
    sft_choose_options o;
    sft_choose_result result;
    sft_catalog *made;
    sft_error err;

    SFT_INIT(&o);
    SFT_INIT(&result);
    o.ctx = k;
    o.choose = choose;
    o.casted = casted;
    if (sft_choose(&made, *catalog, &o, &result, &err) != SFT_OK) {
        cli_fail_plainly(k->c, operand, &err);
        return false;
    }
    cli_choice_unused(&k->choice, operand);
    if (result.kept == 0) {
        CLI_FAIL(k->c, operand, SFT_E_NOT_FOUND, "no tensor is left: nothing is written");
        sft_catalog_close(made);
        return false;
    }
    if (aliases > 0) {
        cli_warn(k->c, operand, "%llu other name%s of tensors %s left out",
                 (unsigned long long)aliases, aliases == 1 ? "" : "s", aliases == 1 ? "is" : "are");
    }
    cli_names_tell(k->c, operand, *catalog, made,
                   "it says something of tensors that are left out, cast or renamed");
    k->c->unchosen = *catalog;
    *catalog = made;
    return true;
}

bool cli_chosen_use(cli *c, const char *operand, sft_catalog **catalog, cli_chosen **chosen) {
    cli_chosen *k;
    bool done;

    *chosen = NULL;
    if (!cli_choice_any(c)) {
        return true;
    }
    k = cli_alloc(1, sizeof *k);
    k->c = c;
    cli_choice_init(&k->choice, c);
    k->lost = cli_cast_watch();
    *chosen = k;
    done = cli_choice_parse_renames(&k->choice) && cli_choice_parse_casts(&k->choice) &&
           apply(k, operand, catalog);
    if (!done) {
        sft_catalog_close(*catalog);
        *catalog = NULL;
    }
    return done;
}

void cli_chosen_tell(cli_chosen *k, const char *target) {
    if (k != NULL) {
        cli_cast_tell(k->lost, k->c, target);
    }
}

void cli_chosen_end(cli_chosen *k) {
    if (k != NULL) {
        cli_cast_end(k->lost);
        cli_choice_reset(&k->choice);
        free(k);
    }
}
