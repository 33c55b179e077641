/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/choice.c - what `convert` and `cp` were asked to take, and how: --select, --drop, --rename,
 * --cast and the metadata that are given. See choice.h.
 */
#include "cli/copy/choice.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- options */

static size_t list_length(const cli *c, const char *option) {
    size_t n = 0;
    while (cli_list(c, option, n) != NULL) {
        n++;
    }
    return n;
}

static cli_choice_patterns patterns_of(const cli *c, const char *option) {
    cli_choice_patterns p = {option, list_length(c, option), NULL};
    p.used = cli_alloc(p.count, sizeof *p.used);
    return p;
}

bool cli_choice_parse_renames(cli_choice *k) {
    k->rename_count = k->renamed.count;
    k->renames = cli_alloc(k->rename_count, sizeof *k->renames);
    for (size_t i = 0; i < k->rename_count; i++) {
        const char *fault = cli_rename_parse(&k->renames[i], cli_list(k->c, "rename", i));
        if (fault != NULL) {
            cli_usage(k->c, "--rename \"%s\": %s", cli_list(k->c, "rename", i), fault);
            k->rename_count = i + 1; /* this one has its text, too */
            return false;
        }
    }
    return true;
}

bool cli_choice_parse_casts(cli_choice *k) {
    k->cast_count = k->casted.count;
    k->casts = cli_alloc(k->cast_count, sizeof *k->casts);
    for (size_t i = 0; i < k->cast_count; i++) {
        const char *text = cli_list(k->c, "cast", i);
        const char *equals = strrchr(text, '=');
        const char *name = equals != NULL ? equals + 1 : text;
        char upper[32] = "";
        for (size_t n = 0; n < sizeof upper - 1 && name[n] != '\0'; n++) {
            upper[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 0x20 : name[n]);
        }
        k->casts[i].dtype = sft_dtype_find(upper, strlen(upper));
        if (k->casts[i].dtype == NULL) {
            cli_usage(k->c, "--cast \"%s\": unknown element type %s", text, name);
            return false;
        }
        if (equals != NULL) {
            k->casts[i].pattern = cli_copy_bytes(text, (size_t)(equals - text));
        }
    }
    return true;
}

/* --metadata-json: an object of strings. */
static bool read_json(cli_choice *k, const char *path) {
    enum { JSON_MAX = 100 << 20 };
    const char *fault;
    size_t size;
    sft_error err;
    size_t at;

    sft_status status = cli_read_text(path, JSON_MAX, &k->json_text, &size, &err);
    if (status == SFT_OK && !cli_meta_parse(&k->pairs, k->json_text, size, &fault, &at)) {
        status = sft_error_at(&err, SFT_E_JSON, at, NULL, 0, "%s", fault);
    }
    status = status == SFT_OK ? cli_meta_different(&k->pairs, &err) : status;
    if (status != SFT_OK) {
        cli_fail_plainly(k->c, path, &err);
    }
    return status == SFT_OK;
}

/* Those of the file that --metadata does not give. */
static void add_json(cli_choice *k) {
    const size_t given = k->metadata_count;

    for (size_t i = 0; i < k->pairs.count; i++) {
        const sft_metadata_entry *e = &k->pairs.entries[i];
        bool earlier = false;
        for (size_t j = 0; j < given && !earlier; j++) {
            earlier = k->metadata[j].key_len == e->key_len &&
                      memcmp(k->metadata[j].key, e->key, e->key_len) == 0;
        }
        if (!earlier) {
            k->metadata[k->metadata_count++] = *e;
        }
    }
}

static bool parse_metadata(cli_choice *k) {
    const size_t count = list_length(k->c, "metadata");
    const char *file = cli_text(k->c, "metadata-json");

    if (file != NULL && !read_json(k, file)) {
        return false;
    }
    k->metadata = cli_alloc(count + k->pairs.count, sizeof *k->metadata);
    for (size_t i = 0; i < count; i++) {
        const char *text = cli_list(k->c, "metadata", i);
        const char *equals = strchr(text, '=');
        if (equals == NULL) {
            cli_usage(k->c, "--metadata \"%s\": KEY=VALUE is needed", text);
            return false;
        }
        k->metadata[k->metadata_count++] =
            (sft_metadata_entry){text, (size_t)(equals - text), equals + 1, strlen(equals + 1)};
    }
    add_json(k);
    return true;
}

/* ---------------------------------------------------------------- choosing */

/* Does one of the option's patterns match? All that do are noted as used. */
static bool any_matches(const cli *c, cli_choice_patterns *of, const char *name, size_t len) {
    bool found = false;

    for (size_t i = 0; i < of->count; i++) {
        if (cli_match(cli_list(c, of->option, i), name, len)) {
            of->used[i] = true;
            found = true;
        }
    }
    return found;
}

void cli_choice_tell(const cli_choice *k, const cli_choice_patterns *of, const char *file) {
    for (size_t i = 0; i < of->count; i++) {
        if (!of->used[i]) {
            cli_warn(k->c, file, "--%s \"%s\" matches no tensor", of->option,
                     cli_list(k->c, of->option, i));
        }
    }
}

/* Of all that conversions of the same inputs asked for: none is told twice. */
void cli_choice_unused(const cli_choice *k, const char *file) {
    cli_choice_tell(k, &k->selects, file);
    cli_choice_tell(k, &k->drops, file);
    cli_choice_tell(k, &k->renamed, file);
    cli_choice_tell(k, &k->casted, file);
}

bool cli_choice_any(const cli *c) {
    return cli_list(c, "select", 0) != NULL || cli_list(c, "drop", 0) != NULL ||
           cli_list(c, "rename", 0) != NULL || cli_list(c, "cast", 0) != NULL;
}

bool cli_choice_wants(cli_choice *k, const char *name, size_t len) {
    const bool wanted = k->selects.count == 0 || any_matches(k->c, &k->selects, name, len);
    return !any_matches(k->c, &k->drops, name, len) && wanted;
}

bool cli_choice_rename(cli_choice *k, const char *name, size_t len, char **now, size_t *now_len) {
    for (size_t i = 0; i < k->rename_count; i++) {
        if (cli_rename_apply(&k->renames[i], name, len, now, now_len)) {
            k->renamed.used[i] = true;
            return true;
        }
    }
    return false;
}

const sft_dtype *cli_choice_cast(cli_choice *k, const char *name, size_t len, const sft_tensor *t) {
    const sft_dtype *dtype = NULL;

    for (size_t i = 0; i < k->cast_count; i++) {
        const cli_choice_cast_rule *r = &k->casts[i];
        if (r->pattern != NULL ? cli_match(r->pattern, name, len)
                               : t->dtype->kind == SFT_KIND_FLOAT) {
            k->casted.used[i] = true;
            dtype = r->dtype;
        }
    }
    return dtype;
}

/* Every name of a tensor is asked for: its own, and those that it has beside it. */
void cli_choice_take(cli_choice *k, sft_import_item *item) {
    const char *name = item->name;
    const size_t len = item->name_len;
    char *now;

    item->take = cli_choice_wants(k, name, len);
    if (item->take == 0) {
        return;
    }
    if (cli_choice_rename(k, name, len, &now, &item->name_len)) {
        cli_strings_take(&k->names, now);
        item->name = now;
    }
    const sft_dtype *dtype = cli_choice_cast(k, name, len, item->tensor);
    item->dtype = dtype != NULL ? dtype : item->dtype;
}

/* ---------------------------------------------------------------- all of it */

void cli_choice_init(cli_choice *k, cli *c) {
    memset(k, 0, sizeof *k);
    k->c = c;
    k->selects = patterns_of(c, "select");
    k->drops = patterns_of(c, "drop");
    k->renamed = patterns_of(c, "rename");
    k->casted = patterns_of(c, "cast");
}

bool cli_choice_parse(cli_choice *k, cli *c) {
    cli_choice_init(k, c);
    return cli_choice_parse_renames(k) && cli_choice_parse_casts(k) && parse_metadata(k);
}

void cli_choice_reset(cli_choice *k) {
    for (size_t i = 0; i < k->rename_count; i++) {
        cli_rename_reset(&k->renames[i]);
    }
    for (size_t i = 0; k->casts != NULL && i < k->cast_count; i++) {
        free(k->casts[i].pattern);
    }
    cli_strings_reset(&k->names);
    free(k->selects.used);
    free(k->drops.used);
    free(k->renamed.used);
    free(k->casted.used);
    free(k->renames);
    free(k->casts);
    free(k->metadata);
    free(k->json_text);
    cli_meta_reset(&k->pairs);
}
