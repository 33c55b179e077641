/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/names.c - see names.h.
 */
#include "cli/operands/names.h"
#include "cli/operands/url.h"
#include "cli/outputs/lost.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include <sft/digest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* The whole of a small file, with a NUL; NULL: *err says why. */
static char *read_text(const char *path, size_t *size, sft_error *err) {
    FILE *f = fopen(path, "rb");
    char *text;

    if (f == NULL) {
        (void)sft_error_set(err, SFT_E_IO, 0, "%s: cannot be opened", path);
        return NULL;
    }
    text = cli_alloc(MOST_BYTES + 2, 1);
    *size = fread(text, 1, MOST_BYTES + 1, f);
    const bool failed = ferror(f) != 0 || *size > MOST_BYTES;
    (void)fclose(f);
    if (failed) {
        (void)sft_error_set(err, SFT_E_IO, 0, "%s: cannot be read, or is larger than 1 MiB", path);
        free(text);
        return NULL;
    }
    text[*size] = '\0';
    return text;
}

/* A name without a dot or a directory is meant for rules that come with the library. */
static void no_such_rules(const char *given, sft_error *err) {
    const char *nearest = sft_names_nearest(given);
    cli_text_buffer all = {NULL, 0, 0};

    for (size_t i = 0; nearest == NULL && sft_names_shipped_at(i) != NULL; i++) {
        cli_text_put(&all, i == 0 ? "" : ", ");
        cli_text_put(&all, sft_names_shipped_at(i));
    }
    (void)sft_error_set(
        err, SFT_E_NOT_FOUND, 0, "no such file, and no rules that come with the library: %s %s",
        nearest != NULL ? "the nearest are" : "these are", nearest != NULL ? nearest : all.data);
    free(all.data);
}

sft_names *cli_names_open(cli *c) {
    const char *given = cli_text(c, "names");
    const char *shipped = sft_names_shipped_text(given);
    size_t size = shipped != NULL ? strlen(shipped) : 0;
    sft_names *names = NULL;
    char *text = NULL;
    sft_error err;

    if (shipped == NULL && (text = read_text(given, &size, &err)) == NULL) {
        if (strpbrk(given, "./\\") == NULL && cli_sys_kind(given) == CLI_KIND_NONE) {
            no_such_rules(given, &err);
        }
        cli_fail_plainly(c, given, &err);
        return NULL;
    }
    if (sft_names_parse(&names, shipped != NULL ? shipped : text, size, NULL, &err) != SFT_OK) {
        cli_fail_plainly(c, given, &err);
    }
    free(text);
    return names;
}

bool cli_config_begin(cli *c) {
    const char *given = cli_text(c, "config");
    sft_error err;

    if (given != NULL && c->config == NULL) {
        c->config = read_text(given, &c->config_size, &err);
        if (c->config == NULL) {
            cli_fail_plainly(c, NULL, &err);
            return false;
        }
    }
    return true;
}

/* config.json beside a file behind a URL, or beneath a URL of a directory. */
static char *read_beside(cli *c, const char *url, size_t *size) {
    const char *const real = cli_url_real(c, url);
    const char *const last = strrchr(real, '/');
    const bool is_file = strstr(last, ".safetensors") != NULL;
    sft_source *source = NULL;
    char *text = NULL;
    sft_error err;

    if (strpbrk(real, "?#{") != NULL) { /* of one file alone */
        return NULL;
    }
    char *stem =
        cli_copy_bytes(real, is_file || last[1] == '\0' ? (size_t)(last - real) : strlen(real));
    char *path = cli_joined(stem, "/config.json", "");
    if (cli_url_source(c, path, &source, &err) == SFT_OK && sft_source_size(source) <= MOST_BYTES) {
        *size = (size_t)sft_source_size(source);
        text = cli_alloc(*size + 1, 1);
        if (sft_source_read(source, 0, text, *size, &err) != SFT_OK) {
            free(text);
            text = NULL;
        }
    }
    sft_source_close(source);
    free(path);
    free(stem);
    return text;
}

/* --config, or config.json of the directory or beside the file; *text NULL: there is none. */
static sft_status read_config(cli *c, const char *operand, char **text, size_t *size,
                              sft_error *err) {
    const char *given = cli_text(c, "config");

    *text = NULL;
    if (given != NULL) {
        *text = read_text(given, size, err);
        return *text != NULL ? SFT_OK : (sft_status)err->status;
    }
    if (cli_is_url(operand)) {
        *text = read_beside(c, operand, size);
    } else if (strcmp(operand, "-") != 0) {
        const bool is_directory = cli_sys_kind(operand) == CLI_KIND_DIRECTORY;
        const size_t len =
            is_directory ? strlen(operand) + 1 : (size_t)(cli_base_name(operand) - operand);
        char *path = cli_alloc(len + 16, 1);
        (void)snprintf(path, len + 16, "%.*s%sconfig.json", (int)(len - is_directory), operand,
                       is_directory ? "/" : "");
        *text = read_text(path, size, NULL); /* whoever needs it will say so */
        free(path);
    }
    return SFT_OK;
}

/* Of one file or rank: nothing is lost with it. */
static bool is_of_one_file(const sft_metadata_entry *e) {
    static const char *const others[] = {"crc_num", "remove_redundancy", "DCP_SHARDING_INFO",
                                         "DCP_VERSION"};

    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (strlen(others[k]) == e->key_len && memcmp(others[k], e->key, e->key_len) == 0) {
            return true;
        }
    }
    return sft_digest_is_key(e->key, e->key_len);
}

/* Only the first file's go on. */
static void tell_file(cli *c, const char *operand, const sft_catalog *before, size_t file,
                      const sft_catalog *after, const char *why) {
    for (size_t i = 0; i < sft_catalog_metadata_count(before, file); i++) {
        sft_metadata_entry e;
        bool same;
        (void)sft_catalog_metadata_at(before, file, i, &e.key, &e.key_len, &e.value, &e.value_len);
        if (is_of_one_file(&e) || !cli_lost_is_first(before, file, &e)) {
            continue;
        }
        (void)cli_lost_agree(before, &e, &same);
        if (file != 0) {
            cli_lost_metadata(c, operand, e.key, e.key_len,
                              "the model's first file does not have it");
        } else if (sft_catalog_metadata_find(after, 0, e.key, e.key_len, NULL) == NULL) {
            cli_lost_metadata(c, operand, e.key, e.key_len, why);
        } else if (!same) {
            cli_lost_metadata(c, operand, e.key, e.key_len,
                              "the files have different values of it, the first one's is kept");
        }
    }
}

void cli_names_tell(cli *c, const char *operand, const sft_catalog *before,
                    const sft_catalog *after, const char *why) {
    for (size_t f = 0; f < sft_catalog_file_count(before); f++) {
        if (sft_catalog_file_count(after) != 0) {
            tell_file(c, operand, before, f, after, why);
        }
    }
}

typedef struct warning {
    cli *c;
    const char *operand;
} warning;

static void warn(void *ctx, const char *message) {
    const warning *w = ctx;
    cli_warn(w->c, w->operand, "%s", message);
}

static void unmatched(void *ctx, const sft_tensor *t, const char *nearest) {
    cli *c = ((warning *)ctx)->c;

    if (cli_flag(c, "json")) {
        cli_lost_unmatched(c, t, nearest);
    }
}

static void drop_catalog(void *catalog) {
    sft_catalog_close(catalog);
}

sft_status cli_names_give(cli *c, const sft_names *names, const char *operand,
                          sft_catalog **catalog, sft_error *err) {
    warning w = {c, operand};
    sft_catalog *renamed;
    sft_names_options o;
    char *config;

    SFT_INIT(&o);
    sft_status status = read_config(c, operand, &config, &o.config_size, err);
    if (status != SFT_OK) {
        return status;
    }
    o.config = config;
    o.reverse = cli_flag(c, "reverse-names");
    o.warn = warn;
    o.warn_ctx = &w;
    o.unmatched = unmatched;
    status = sft_names_apply(&renamed, *catalog, names, &o, NULL, err);
    free(config);
    if (status != SFT_OK) {
        return status;
    }
    cli_names_tell(c, operand, *catalog, renamed,
                   "it says something of tensors by their old names");
    status = sft_catalog_attach(renamed, "cli.unnamed", *catalog, drop_catalog, err);
    if (status != SFT_OK) {
        sft_catalog_close(renamed);
        return status;
    }
    *catalog = renamed;
    return SFT_OK;
}

bool cli_names_use(cli *c, const char *operand, sft_catalog **catalog) {
    if (cli_text(c, "names") == NULL) {
        return true;
    }
    sft_catalog *const before = *catalog;
    sft_names *names = cli_names_open(c);
    sft_error err;
    const sft_status status =
        names != NULL ? cli_names_give(c, names, operand, catalog, &err) : SFT_E_NOT_FOUND;
    if (names != NULL && status != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
    }
    sft_names_free(names);
    if (status != SFT_OK) {
        sft_catalog_close(*catalog);
        *catalog = NULL;
        return false;
    }
    c->unnamed = before;
    return true;
}

bool cli_names_bind(cli *c, const char *operand, sft_layout_set *set, const sft_catalog *model) {
    char *config;
    size_t size = 0;
    sft_error err;

    if (sft_layout_set_form(set) != SFT_LAYOUT_FORM_PARALLEL) {
        return true;
    }
    sft_status status = read_config(c, operand, &config, &size, &err);
    if (status == SFT_OK) {
        status = sft_layout_set_bind(set, model, config, size, &err);
    }
    free(config);
    if (status != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
    }
    return status == SFT_OK;
}
