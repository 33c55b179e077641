/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/convert_choice.c - what `convert` was asked to take, and how: --select, --drop, --rename,
 * --cast and the metadata that are given. See convert_choice.h.
 */
#include "cli/copy/convert_choice.h"
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
    const cli_choice_patterns p = {option, cli_alloc(list_length(c, option) + 1, sizeof *p.used)};
    return p;
}

static bool parse_renames(cli_choice *k) {
    k->rename_count = list_length(k->c, "rename");
    k->renames = cli_alloc(k->rename_count, sizeof *k->renames);
    for (size_t i = 0; i < k->rename_count; i++) {
        const char *fault = cli_rename_parse(&k->renames[i], cli_list(k->c, "rename", i));
        if (fault != NULL) {
            cli_usage(k->c, "--rename \"%s\": %s", cli_list(k->c, "rename", i), fault);
            k->rename_count = i;
            return false;
        }
    }
    return true;
}

static bool parse_casts(cli_choice *k) {
    k->cast_count = list_length(k->c, "cast");
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
            k->casts[i].pattern = cli_alloc((size_t)(equals - text) + 1, 1);
            memcpy(k->casts[i].pattern, text, (size_t)(equals - text));
        }
    }
    return true;
}

/* --metadata-json: an object of strings. */
static bool read_json(cli_choice *k, const char *path) {
    enum { JSON_MAX = 100 << 20 };
    sft_source *source;
    const char *fault;
    sft_error err;
    size_t at;

    sft_status status = sft_source_open(&source, path, SFT_ACCESS_READ, NULL, &err);
    if (status == SFT_OK) {
        const uint64_t size = sft_source_size(source);
        if (size == 0 || size > JSON_MAX) {
            status = sft_error_set(&err, SFT_E_LIMIT, 0, SFT_NO_OFFSET, NULL, 0,
                                   "the file is empty, or larger than %d bytes", (int)JSON_MAX);
        } else {
            k->json_text = cli_alloc((size_t)size + 1, 1);
            status = sft_source_read(source, 0, k->json_text, (size_t)size, &err);
        }
        if (status == SFT_OK &&
            !cli_meta_parse(&k->pairs, k->json_text, (size_t)size, &fault, &at)) {
            status = sft_error_set(&err, SFT_E_JSON, 0, at, NULL, 0, "%s", fault);
        }
        status = status == SFT_OK ? cli_meta_different(&k->pairs, &err) : status;
        sft_source_close(source);
    }
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

static void keep_name(cli_choice *k, char *name) {
    if (k->name_count == k->name_room) {
        k->name_room = k->name_room != 0 ? 2 * k->name_room : 64;
        k->names = cli_resize(k->names, k->name_room, sizeof *k->names);
    }
    k->names[k->name_count++] = name;
}

/* ---------------------------------------------------------------- choosing */

/* Does one of the option's patterns match? All that do are noted as used. */
static bool any_matches(cli_choice *k, cli_choice_patterns *of, const char *name, size_t len) {
    const char *pattern;
    bool found = false;

    for (size_t i = 0; (pattern = cli_list(k->c, of->option, i)) != NULL; i++) {
        if (cli_match(pattern, name, len)) {
            of->used[i] = true;
            found = true;
        }
    }
    return found;
}

/* Of all that conversions of the same inputs asked for: none is told twice. */
void cli_choice_unused(cli_choice *k) {
    cli_choice_patterns *const all[] = {&k->selects, &k->drops, &k->renamed, &k->casted};
    const char *pattern;

    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        for (size_t i = 0; (pattern = cli_list(k->c, all[n]->option, i)) != NULL; i++) {
            if (!all[n]->used[i]) {
                cli_warn(k->c, k->c->operand_count == 1 ? k->c->operands[0] : NULL,
                         "--%s \"%s\" matches no tensor", all[n]->option, pattern);
            }
        }
    }
}

bool cli_choice_any(const cli *c) {
    return cli_list(c, "select", 0) != NULL || cli_list(c, "drop", 0) != NULL ||
           cli_list(c, "rename", 0) != NULL || cli_list(c, "cast", 0) != NULL;
}

/* Every name of a tensor is asked for: its own, and those that it has beside it. */
void cli_choice_take(cli_choice *k, sft_import_item *item) {
    const char *name = item->name;
    const size_t len = item->name_len;

    const bool wanted =
        cli_list(k->c, "select", 0) == NULL || any_matches(k, &k->selects, name, len);
    item->take = !any_matches(k, &k->drops, name, len) && wanted;
    for (size_t i = 0; i < k->rename_count && item->take != 0; i++) {
        char *now;
        if (cli_rename_apply(&k->renames[i], name, len, &now, &item->name_len)) {
            k->renamed.used[i] = true;
            keep_name(k, now);
            item->name = now;
            break;
        }
    }
    for (size_t i = 0; i < k->cast_count && item->take != 0; i++) {
        const cli_choice_cast *r = &k->casts[i];
        if (r->pattern != NULL ? cli_match(r->pattern, name, len)
                               : item->tensor->dtype->kind == SFT_KIND_FLOAT) {
            k->casted.used[i] = true;
            item->dtype = r->dtype;
        }
    }
}

/* ---------------------------------------------------------------- all of it */

bool cli_choice_parse(cli_choice *k, cli *c) {
    memset(k, 0, sizeof *k);
    k->c = c;
    k->selects = patterns_of(c, "select");
    k->drops = patterns_of(c, "drop");
    k->renamed = patterns_of(c, "rename");
    k->casted = patterns_of(c, "cast");
    return parse_renames(k) && parse_casts(k) && parse_metadata(k);
}

void cli_choice_reset(cli_choice *k) {
    for (size_t i = 0; i < k->rename_count; i++) {
        cli_rename_reset(&k->renames[i]);
    }
    for (size_t i = 0; k->casts != NULL && i < k->cast_count; i++) {
        free(k->casts[i].pattern);
    }
    for (size_t i = 0; i < k->name_count; i++) {
        free(k->names[i]);
    }
    free(k->selects.used);
    free(k->drops.used);
    free(k->renamed.used);
    free(k->casted.used);
    free(k->renames);
    free(k->casts);
    free(k->metadata);
    free(k->json_text);
    cli_meta_reset(&k->pairs);
    free(k->names);
}
