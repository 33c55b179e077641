/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/convert_ranks.c - see convert_ranks.h. The files are written by a job, as those of reshard are.
 */
#include "cli/copy/convert_ranks.h"
#include "cli/operands/chosen.h"
#include "cli/outputs/batch.h"
#include "cli/outputs/lost.h"
#include "cli/outputs/rank_names.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <stdlib.h>
#include <string.h>

static const uint64_t TEXT_MOST = UINT64_C(256) << 20;

typedef struct ranks {
    cli_batch b;
    const char *below; /* names that are noted lie in this directory of the source; "": in itself */
    cli_strings files; /* relative to the source */
    sft_catalog **catalogs;
    size_t opened;
} ranks;

/* ---------------------------------------------------------------- what lies there */

static bool is_weights(const char *name) {
    return name[0] != '.' && (cli_ends_with(name, ".ckpt") || cli_ends_with(name, ".safetensors"));
}

static bool is_rank(const char *name) {
    static const char prefix[] = "rank_";
    const char *digits = name + (sizeof prefix - 1);

    return strncmp(name, prefix, sizeof prefix - 1) == 0 && *digits != '\0' &&
           strspn(digits, "0123456789") == strlen(digits);
}

static void note(void *ctx, const char *name, bool is_directory) {
    ranks *r = ctx;

    (void)is_directory;
    if (name[0] != '.') {
        cli_strings_take(&r->files,
                         r->below[0] != '\0' ? cli_path_in(r->below, name) : cli_copy_of(name));
    }
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory below the source, in order. */
static cli_strings names_in(const char *source, const char *below) {
    ranks r = {.below = below};
    char *path = below[0] != '\0' ? cli_path_in(source, below) : cli_copy_of(source);

    (void)cli_sys_list(path, note, &r); /* what cannot be listed has nothing to open */
    free(path);
    if (r.files.count > 1) {
        qsort(r.files.items, r.files.count, sizeof *r.files.items, by_bytes);
    }
    return r.files;
}

static bool is_directory(const char *source, const char *name) {
    char *path = cli_path_in(source, name);
    const bool is = cli_sys_kind(path) == CLI_KIND_DIRECTORY;

    free(path);
    return is;
}

bool cli_convert_is_ranks(const char *directory) {
    cli_strings names = names_in(directory, "");
    size_t ranked = 0;
    size_t stepped = 0;
    size_t others = 0;

    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        ranked += is_rank(name) && is_directory(directory, name);
        stepped += is_weights(name) && cli_rank_has_step(name);
        others +=
            (is_weights(name) && !cli_rank_has_step(name)) || cli_ends_with(name, ".index.json");
    }
    cli_strings_reset(&names);
    return ranked > 0 || (stepped > 0 && others == 0);
}

/* ---------------------------------------------------------------- what is written */

/* What convert writes of a framework, where the file does not say it. */
static const sft_metadata_entry *framework_of(const sft_catalog *catalog) {
    static const sft_metadata_entry torch = {"format", 6, "pt", 2};
    static const sft_metadata_entry mindspore = {"format", 6, "ms", 2};
    uint32_t format = SFT_IMPORT_UNKNOWN;

    if (sft_catalog_metadata_find(catalog, 0, "format", 6, NULL) != NULL ||
        sft_import_detect(sft_catalog_source_at(catalog, 0), &format, NULL) != SFT_OK) {
        return NULL;
    }
    return format >= SFT_IMPORT_TORCH_ZIP && format <= SFT_IMPORT_PICKLE ? &torch
           : format == SFT_IMPORT_MINDSPORE                              ? &mindspore
                                                                         : NULL;
}

static void take_weights(ranks *r, const char *name) {
    cli *c = r->b.c;
    char *path = cli_path_in(r->b.source, name);
    sft_catalog *catalog = NULL;

    if (!cli_open(c, path, 0, &catalog)) {
        free(path);
        return;
    }
    cli_warn_problems(c, catalog, path);
    r->catalogs = cli_resize(r->catalogs, r->opened + 1, sizeof(sft_catalog *));
    r->catalogs[r->opened++] = catalog;
    const sft_metadata_entry *framework = framework_of(catalog);
    if (r->b.chosen != NULL && !cli_chosen_make(r->b.chosen, path, &r->catalogs[r->opened - 1])) {
        free(path);
        return;
    }
    const size_t stem = (size_t)(strrchr(name, '.') - name);
    char *own = cli_copy_bytes(name, stem);
    char *now = cli_joined(own, ".safetensors", "");
    sft_job_file *f = cli_batch_file(&r->b, now, r->catalogs[r->opened - 1], NULL, 0);
    f->metadata = framework;
    f->metadata_count = framework != NULL;
    free(now);
    free(own);
    free(path);
}

static void take_text(ranks *r, const char *name) {
    char *path = cli_path_in(r->b.source, name);
    char *text = NULL;
    size_t size;
    sft_error err;

    if (cli_read_text(path, TEXT_MOST, &text, &size, &err) == SFT_OK) {
        cli_batch_text(&r->b, name, text, size);
    } else {
        free(text);
        cli_fail_plainly(r->b.c, path, &err);
    }
    free(path);
}

/* What says how the ranks are cut, where readers look for it, and what says which step is the last. */
static bool is_text(const char *name) {
    static const char *const words[] = {"layout.json", "meta.json", "strategy.ckpt"};
    return cli_is_among(words, sizeof words / sizeof words[0], cli_base_name(name)) ||
           strncmp(name, "strategy/", 9) == 0;
}

static void take(ranks *r, const char *name, bool weights) {
    if (is_text(name)) {
        take_text(r, name);
    } else if (weights && is_weights(name)) {
        take_weights(r, name);
    } else if (!cli_ends_with(name, ".digests.json")) { /* which goes into the files */
        cli_lost_tell(r->b.c, r->b.source, name, "not carried along");
    }
}

static void take_directory(ranks *r, const char *name) {
    cli_strings below = names_in(r->b.source, name);

    for (size_t i = 0; i < below.count && r->b.c->status == 0; i++) {
        if (is_directory(r->b.source, below.items[i])) {
            cli_lost_tell(r->b.c, r->b.source, below.items[i], "a directory: not carried along");
        } else {
            take(r, below.items[i], is_rank(name));
        }
    }
    cli_strings_reset(&below);
}

static void take_all(ranks *r) {
    cli_strings names = names_in(r->b.source, "");
    bool ranked = false;

    for (size_t i = 0; i < names.count; i++) {
        ranked = ranked || (is_rank(names.items[i]) && is_directory(r->b.source, names.items[i]));
    }
    for (size_t i = 0; i < names.count && r->b.c->status == 0; i++) {
        const char *name = names.items[i];
        if (!is_directory(r->b.source, name)) {
            take(r, name, !ranked);
        } else if (is_rank(name) || strcmp(name, "strategy") == 0) {
            take_directory(r, name);
        } else {
            cli_lost_tell(r->b.c, r->b.source, name, "a directory: not carried along");
        }
    }
    cli_strings_reset(&names);
}

/* ---------------------------------------------------------------- command */

/* Options that are of one file or of one model. */
static bool fits(cli *c) {
    static const char *const others[] = {"names",          "metadata",   "metadata-json",
                                         "max-shard-size", "piece-size", "tree"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (cli_flag(c, others[i])) {
            cli_usage(c, "--%s: not of a directory of ranks or steps; %s", others[i],
                      i == 0 ? "join and reshard give whole tensors other names"
                             : "its files have one each, and stay so");
            return false;
        }
    }
    if (cli_ends_with(cli_text(c, "output"), ".safetensors")) {
        cli_usage(c, "-o names a directory, for the files of every rank or step; join "
                     "--layout makes one file of them");
        return false;
    }
    return true;
}

void cli_convert_ranks(cli *c) {
    ranks r = {.below = ""};

    if (!fits(c) || !cli_batch_init(&r.b, c, c->operands[0]) || !cli_batch_to_directory(&r.b)) {
        return;
    }
    if (cli_chosen_begin(c, &r.b.chosen)) {
        take_all(&r);
    }
    if (c->status == 0 && r.b.count == 0) {
        CLI_FAIL(c, r.b.source, SFT_E_NOT_FOUND, "no rank has a file of weights");
    } else if (c->status == 0 && (r.b.chosen == NULL || cli_chosen_any(r.b.chosen, r.b.source))) {
        r.b.carries = true;
        cli_batch_run(&r.b, "converting");
    }
    cli_batch_reset(&r.b);
    for (size_t i = 0; i < r.opened; i++) {
        cli_close(c, r.catalogs[i]);
    }
    free(r.catalogs);
}
