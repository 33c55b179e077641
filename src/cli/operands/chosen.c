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

/* What a catalog was made of. */
typedef struct origins {
    sft_catalog *from; /* owned */
    uint32_t *index;   /* by tensor */
    size_t count;
} origins;

static const char key[] = "cli.chosen";

struct cli_chosen {
    cli *c;
    cli_choice choice;
    cli_cast_lost *lost;
    uint64_t kept;    /* tensors */
    origins *origins; /* of the catalog at hand */
};

int cli_leaves_out(void *ctx, const char *name, size_t name_len) {
    const cli *c = ctx;
    const char *pattern;
    bool found = cli_list(c, "select", 0) == NULL;

    for (size_t i = 0; (pattern = cli_list(c, "select", i)) != NULL && !found; i++) {
        found = cli_match(pattern, name, name_len);
    }
    for (size_t i = 0; (pattern = cli_list(c, "drop", i)) != NULL && found; i++) {
        found = !cli_match(pattern, name, name_len);
    }
    return found ? 0 : 1;
}

static sft_status choose(void *ctx, const sft_tensor *t, sft_chosen *chosen, sft_error *err) {
    cli_choice *const k = &((cli_chosen *)ctx)->choice;
    origins *const from = ((cli_chosen *)ctx)->origins;
    const sft_dtype *dtype;
    char *now;

    (void)err;
    chosen->keep = cli_choice_wants(k, t->name, t->name_len);
    if (chosen->keep == 0) {
        return SFT_OK;
    }
    from->index[from->count++] = (uint32_t)sft_catalog_index_of(from->from, t);
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

bool cli_chosen_begin(cli *c, cli_chosen **chosen) {
    cli_chosen *k;

    *chosen = NULL;
    if (!cli_choice_any(c)) {
        return true;
    }
    k = cli_alloc(1, sizeof *k);
    k->c = c;
    cli_choice_init(&k->choice, c);
    k->lost = cli_cast_watch();
    *chosen = k;
    return cli_choice_parse_renames(&k->choice) && cli_choice_parse_casts(&k->choice);
}

static void drop_origins(void *self) {
    origins *from = self;

    sft_catalog_close(from->from);
    free(from->index);
    free(from);
}

/* *made owns the origins if this succeeds. */
static sft_status make(cli_chosen *k, sft_catalog **made, sft_error *err) {
    sft_choose_options o;
    sft_choose_result result;

    SFT_INIT(&o);
    SFT_INIT(&result);
    o.ctx = k;
    o.choose = choose;
    o.casted = casted;
    sft_status status = sft_choose(made, k->origins->from, &o, &result, err);
    if (status == SFT_OK) {
        k->kept += result.kept;
        status = sft_catalog_attach(*made, key, k->origins, drop_origins, err);
        if (status != SFT_OK) {
            sft_catalog_close(*made);
        }
    }
    return status;
}

bool cli_chosen_make(cli_chosen *k, const char *operand, sft_catalog **catalog) {
    sft_catalog *const from = *catalog;
    const size_t aliases = sft_catalog_alias_count(from);
    sft_error err;

    k->origins = cli_alloc(1, sizeof *k->origins);
    k->origins->from = from;
    k->origins->index = cli_alloc(sft_catalog_count(from) + 1, sizeof *k->origins->index);
    if (make(k, catalog, &err) != SFT_OK) {
        drop_origins(k->origins);
        *catalog = NULL;
        cli_fail_plainly(k->c, operand, &err);
        return false;
    }
    if (aliases > 0) {
        cli_warn(k->c, operand, "%llu other name%s of tensors %s left out",
                 (unsigned long long)aliases, aliases == 1 ? "" : "s", aliases == 1 ? "is" : "are");
    }
    cli_names_tell(k->c, operand, from, *catalog,
                   "it says something of tensors that are left out, cast or renamed");
    return true;
}

const sft_tensor *cli_chosen_origin(const sft_catalog **catalog, const sft_tensor *t) {
    const origins *from = sft_catalog_attached(*catalog, key);

    if (from == NULL) {
        return t;
    }
    const sft_tensor *own =
        sft_catalog_at(from->from, from->index[sft_catalog_index_of(*catalog, t)]);
    *catalog = from->from;
    return own->dtype->id == t->dtype->id ? own : NULL;
}

const sft_catalog *cli_chosen_from(const sft_catalog *catalog, const uint32_t **index) {
    const origins *from = sft_catalog_attached(catalog, key);

    *index = from != NULL ? from->index : NULL;
    return from != NULL ? from->from : NULL;
}

const char *cli_chosen_name(cli_chosen *k, const char *name, size_t len, size_t *new_len) {
    char *now;

    *new_len = len;
    if (cli_choice_wants(&k->choice, name, len) == 0) {
        return NULL;
    }
    if (!cli_choice_rename(&k->choice, name, len, &now, new_len)) {
        *new_len = len;
        return name;
    }
    cli_strings_take(&k->choice.names, now);
    return now;
}

bool cli_chosen_any(cli_chosen *k, const char *operand) {
    cli_choice_unused(&k->choice, operand);
    if (k->kept == 0) {
        CLI_FAIL(k->c, operand, SFT_E_NOT_FOUND, "no tensor is left: nothing is written");
    }
    return k->kept != 0;
}

bool cli_chosen_use(cli *c, const char *operand, sft_catalog **catalog, cli_chosen **chosen) {
    *chosen = NULL;
    if (!cli_choice_any(c)) {
        return true;
    }
    c->unchosen = *catalog;
    const bool done = cli_chosen_begin(c, chosen) && cli_chosen_make(*chosen, operand, catalog) &&
                      cli_chosen_any(*chosen, operand);
    if (!done) {
        c->unchosen = NULL;
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
