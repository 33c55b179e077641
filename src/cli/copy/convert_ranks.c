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
#include <sft/layout_set.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t TEXT_MOST = UINT64_C(256) << 20;

typedef struct ranks {
    cli_batch b;
    const char *below; /* names that are noted lie in this directory of the source; "": in itself */
    cli_strings files; /* relative to the source */
    sft_catalog **catalogs;
    uint64_t *numbers; /* the ranks that they are of */
    size_t opened;
    bool ranked;
    cli_strings
        layouts; /* what says how the ranks are cut, to be looked at when all of them are read */
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

/* Digits, up to what comes after them. */
static uint64_t number_of(const char *digits) {
    uint64_t number = 0;

    for (size_t i = 0; i < 18 && digits[i] >= '0' && digits[i] <= '9'; i++) {
        number = 10 * number + (uint64_t)(digits[i] - '0'); /* below 10^18 */
    }
    return number;
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
    r->numbers = cli_resize(r->numbers, r->opened + 1, sizeof *r->numbers);
    r->numbers[r->opened] = r->ranked ? number_of(name + sizeof "rank_" - 1) : 0;
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

/* A meta.json names the file that is converted. */
static void follow(const char *name, char **text, size_t *size) {
    static const char before[] = ".ckpt\"";
    static const char now[] = ".safetensors\"";
    const bool is_meta = strcmp(cli_base_name(name), "meta.json") == 0;
    const char *const key = is_meta ? strstr(*text, "\"last_ckpt_file\"") : NULL;
    const char *const at = key != NULL ? strstr(key, before) : NULL;

    if (at != NULL && at < key + strcspn(key, ",}")) {
        char *stem = cli_copy_bytes(*text, (size_t)(at - *text));
        char *all = cli_joined(stem, now, at + sizeof before - 1);
        free(stem);
        free(*text);
        *text = all;
        *size = strlen(all);
    }
}

static void take_text(ranks *r, const char *name) {
    char *path = cli_path_in(r->b.source, name);
    char *text = NULL;
    size_t size;
    sft_error err;

    if (cli_read_text(path, TEXT_MOST, &text, &size, &err) == SFT_OK) {
        follow(name, &text, &size);
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

/* Of other tensors or names it would say what is no more. */
static bool is_layout(const ranks *r, const char *name) {
    return r->b.chosen != NULL && r->ranked &&
           (strcmp(name, "layout.json") == 0 || strcmp(name, "strategy.ckpt") == 0 ||
            strncmp(name, "strategy/", 9) == 0);
}

static void take(ranks *r, const char *name, bool weights) {
    if (is_layout(r, name)) {
        cli_strings_take(&r->layouts, cli_copy_of(name));
    } else if (is_text(name)) {
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

    for (size_t i = 0; i < names.count; i++) {
        r->ranked =
            r->ranked || (is_rank(names.items[i]) && is_directory(r->b.source, names.items[i]));
    }
    for (size_t i = 0; i < names.count && r->b.c->status == 0; i++) {
        const char *name = names.items[i];
        if (!is_directory(r->b.source, name)) {
            take(r, name, !r->ranked);
        } else if (is_rank(name) || strcmp(name, "strategy") == 0) {
            take_directory(r, name);
        } else {
            cli_lost_tell(r->b.c, r->b.source, name, "a directory: not carried along");
        }
    }
    cli_strings_reset(&names);
}

/* ---------------------------------------------------------------- how the ranks are cut */

/* A tensor's name now, and before. */
typedef struct pair {
    const char *now;
    size_t now_len;
    const char *before;
    size_t before_len;
} pair;

static int by_names(const void *a, const void *b) {
    const pair *x = a;
    const pair *y = b;
    const size_t n = x->now_len < y->now_len ? x->now_len : y->now_len;
    const int now = memcmp(x->now, y->now, n);

    if (now != 0 || x->now_len != y->now_len) {
        return now != 0 ? now : x->now_len < y->now_len ? -1 : 1;
    }
    const size_t m = x->before_len < y->before_len ? x->before_len : y->before_len;
    const int before = memcmp(x->before, y->before, m);
    return before != 0                     ? before
           : x->before_len < y->before_len ? -1
                                           : x->before_len > y->before_len;
}

static bool same(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* All tensors that are left, with the names that they had. *changed: some are not, or have other ones. */
static pair *pairs_of(const ranks *r, size_t *count, bool *changed) {
    pair *list = NULL;

    *count = 0;
    for (size_t i = 0; i < r->opened; i++) {
        const uint32_t *index;
        const sft_catalog *from = cli_chosen_from(r->catalogs[i], &index);
        const size_t n = sft_catalog_count(r->catalogs[i]);

        list = cli_resize(list, *count + n + 1, sizeof *list);
        *changed = *changed || n != sft_catalog_count(from);
        for (size_t k = 0; k < n; k++) {
            const sft_tensor *now = sft_catalog_at(r->catalogs[i], k);
            const sft_tensor *before = sft_catalog_at(from, index[k]);
            *changed = *changed || !same(now->name, now->name_len, before->name, before->name_len);
            list[(*count)++] = (pair){now->name, now->name_len, before->name, before->name_len};
        }
    }
    return list;
}

/* Two tensors of a model must not become one, on whatever ranks they are. */
static bool stay_apart(const ranks *r, pair *list, size_t count) {
    cli *c = r->b.c;

    if (count > 1) {
        qsort(list, count, sizeof *list, by_names);
    }
    for (size_t i = 1; i < count; i++) {
        const pair *a = &list[i - 1];
        const pair *b = &list[i];
        if (same(a->now, a->now_len, b->now, b->now_len) &&
            !same(a->before, a->before_len, b->before, b->before_len)) {
            char shown[3][160];
            (void)sft_escape(shown[0], sizeof shown[0], a->before, a->before_len);
            (void)sft_escape(shown[1], sizeof shown[1], b->before, b->before_len);
            (void)sft_escape(shown[2], sizeof shown[2], b->now, b->now_len);
            CLI_FAIL(c, r->b.source, SFT_E_DUPLICATE,
                     "--rename would give \"%s\" and \"%s\" of the ranks one name, \"%s\"",
                     shown[0], shown[1], shown[2]);
            return false;
        }
    }
    return true;
}

static const char *name_now(void *ctx, const char *name, size_t len, size_t *new_len) {
    return cli_chosen_name(((const ranks *)ctx)->b.chosen, name, len, new_len);
}

/* Where readers look for it. *set NULL: nowhere. */
static sft_status find_layout(const ranks *r, sft_layout_set **set, const char **place,
                              sft_error *err) {
    static const char *const places[] = {"layout.json", "strategy", "strategy.ckpt", "../strategy",
                                         "../merged_strategy"};
    sft_status status = SFT_E_IO;

    *set = NULL;
    for (size_t i = 0;
         i < sizeof places / sizeof places[0] && (status == SFT_E_IO || status == SFT_E_FORMAT);
         i++) {
        char *path = cli_path_in(r->b.source, places[i]);
        *place = places[i];
        status = sft_layout_set_open(set, path, NULL, err);
        free(path);
    }
    return status == SFT_E_IO || status == SFT_E_FORMAT ? SFT_OK : status;
}

static sft_status write_layout(ranks *r, sft_layout_set *set, sft_error *err) {
    sft_rank_part *parts = cli_alloc(r->opened + 1, sizeof *parts);
    size_t size = 0;

    for (size_t i = 0; i < r->opened; i++) {
        const uint32_t *index;
        parts[i] = (sft_rank_part){cli_chosen_from(r->catalogs[i], &index), r->numbers[i]};
    }
    sft_status status = sft_layout_set_rename(set, parts, r->opened, name_now, r, err);
    free(parts);
    if (status == SFT_OK) {
        status = sft_layout_set_write(set, NULL, 0, &size, err);
    }
    if (status == SFT_OK) {
        char *text = cli_alloc(size + 1, 1);
        status = sft_layout_set_write(set, text, size, &size, err);
        if (status == SFT_OK) {
            cli_batch_text(&r->b, "layout.json", text, size);
        } else {
            free(text);
        }
    }
    return status;
}

/* As it is where the tensors are; else one that says how those that are left are cut, as layout.json. */
static void take_layouts(ranks *r) {
    cli *c = r->b.c;
    sft_layout_set *set = NULL;
    const char *place = "";
    bool changed = false;
    size_t count;
    sft_error err;

    if (r->b.chosen == NULL || !r->ranked) {
        return;
    }
    pair *list = pairs_of(r, &count, &changed);
    const bool apart = stay_apart(r, list, count);
    free(list);
    for (size_t i = 0; i < r->layouts.count && apart && !changed; i++) {
        take_text(r, r->layouts.items[i]);
    }
    if (!apart || !changed) {
        return;
    }
    sft_status status = find_layout(r, &set, &place, &err);
    if (status == SFT_OK && set != NULL) {
        status = write_layout(r, set, &err);
    }
    for (size_t i = 0; i < r->layouts.count; i++) {
        const char *name = r->layouts.items[i];
        if (status == SFT_OK && set == NULL) { /* no reader knows it */
            take_text(r, name);
        } else if (status != SFT_OK) {
            cli_lost_tell(c, r->b.source, name,
                          "not carried along: how the tensors that are left "
                          "are cut is not known (%.300s)",
                          err.message);
        } else if (strcmp(name, "layout.json") != 0) {
            cli_lost_tell(c, r->b.source, name,
                          "not carried along: layout.json says how the "
                          "tensors that are left are cut");
        }
    }
    sft_layout_set_free(set);
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
    if (c->status == 0) {
        take_layouts(&r);
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
    cli_strings_reset(&r.layouts);
    free(r.numbers);
    free(r.catalogs);
}
