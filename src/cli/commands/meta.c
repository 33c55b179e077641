/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/meta.c - the strings in a header's __metadata__: shown, taken out, changed. All changes
 * of one call are one atomic edit; tensor data stays as it is, byte for byte. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/look/meta_json.h"
#include "cli/outputs/kept.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 400, IMPORT_BYTES = 100000000 };

/* ---------------------------------------------------------------- showing */

static void show_json(cli *c, const sft_catalog *catalog, const char *operand) {
    const bool single = cli_is_single(catalog, operand);
    cli_json j;

    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        const sft_file *file = sft_catalog_file_at(catalog, i);
        cli_json_begin(&j, &c->out);
        cli_json_field_string(&j, "file", single ? operand : file->path);
        cli_json_key(&j, "metadata");
        cli_json_metadata(&j, catalog, i);
        cli_json_end(&j);
    }
}

/* One member per line: made to be edited, and to be compared by diff. */
static void export_json(cli *c, const sft_catalog *catalog) {
    const size_t count = sft_catalog_metadata_count(catalog, 0);
    cli_json j;

    cli_puts(&c->out, count > 0 ? "{\n" : "{}\n");
    for (size_t i = 0; i < count; i++) {
        const sft_metadata_entry e = cli_metadata_at(catalog, 0, i);
        cli_json_init(&j, &c->out);
        cli_puts(&c->out, "  ");
        cli_json_key_text(&j, e.key, e.key_len);
        cli_json_text(&j, e.value, e.value_len);
        cli_puts(&c->out, i + 1 < count ? ",\n" : "\n}\n");
    }
}

static void put_value(cli *c, const char *value, size_t len, bool whole) {
    const size_t shown = whole || len <= SHOWN_BYTES ? len : SHOWN_BYTES;
    char number[32];

    if (cli_flag(c, "raw")) {
        cli_put(&c->out, value, len);
    } else {
        cli_put_escaped(&c->out, value, shown);
        if (shown < len) {
            cli_printf(&c->out, "... (%s bytes; -v shows all)", cli_grouped(number, len));
        }
    }
    cli_put(&c->out, "\n", 1);
}

static void show_all(cli *c, const sft_catalog *catalog, const char *operand) {
    const bool single = cli_is_single(catalog, operand);

    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        const sft_file *file = sft_catalog_file_at(catalog, f);
        if (!single) {
            cli_puts(&c->out, f > 0 ? "\n" : "");
            cli_put_escaped(&c->out, file->path, strlen(file->path));
            cli_puts(&c->out, ":\n");
        }
        for (size_t i = 0; i < sft_catalog_metadata_count(catalog, f); i++) {
            const sft_metadata_entry e = cli_metadata_at(catalog, f, i);
            cli_puts(&c->out, c->color ? CLI_BOLD : "");
            cli_put_escaped(&c->out, e.key, e.key_len);
            cli_puts(&c->out, c->color ? CLI_NORMAL ": " : ": ");
            put_value(c, e.value, e.value_len, c->verbose);
        }
    }
}

static void show_key(cli *c, const sft_catalog *catalog, const char *operand, const char *key) {
    size_t len = 0;
    sft_error err;

    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        const char *value = sft_catalog_metadata_find(catalog, f, key, strlen(key), &len);
        if (value != NULL) {
            put_value(c, value, len, true);
            return;
        }
    }
    char name[256];
    (void)sft_escape(name, sizeof name, key, strlen(key));
    (void)CLI_ERROR(&err, SFT_E_NOT_FOUND, "no metadata key \"%s\"", name);
    cli_fail(c, operand, &err);
}

static void show(cli *c, const char *operand) {
    sft_catalog *catalog;

    if (!cli_open(c, operand, SFT_OPEN_INCOMPLETE, &catalog)) {
        return;
    }
    if (cli_flag(c, "export") && !cli_is_single(catalog, operand)) {
        cli_usage(c, "--export takes one file, not a model of several");
    } else if (cli_flag(c, "export")) {
        export_json(c, catalog);
    } else if (c->json) {
        show_json(c, catalog, operand);
    } else if (c->operand_count > 1) {
        for (size_t i = 1; i < c->operand_count; i++) {
            show_key(c, catalog, operand, c->operands[i]);
        }
    } else {
        show_all(c, catalog, operand);
    }
    cli_close(c, catalog);
}

/* ---------------------------------------------------------------- changing */

typedef struct changes {
    sft_metadata_entry *entries;
    size_t count;
    size_t room;
    char *json; /* what --import read */
    meta_pairs imported;
} changes;

static void add_change(changes *ch, const sft_metadata_entry *entry) {
    if (ch->count == ch->room) {
        ch->room = ch->room * 2 + 16;
        ch->entries = cli_resize(ch->entries, ch->room, sizeof *ch->entries);
    }
    ch->entries[ch->count++] = *entry;
}

static bool read_all(cli *c, const char *path, char **text, size_t *len) {
    sft_source *source;
    sft_error err;
    const bool is_stdin = strcmp(path, "-") == 0;

    sft_status status = is_stdin ? sft_source_open_stream(&source, 0, IMPORT_BYTES, NULL, &err)
                                 : sft_source_open(&source, path, SFT_ACCESS_READ, NULL, &err);
    status = status == SFT_OK ? cli_read_source(source, IMPORT_BYTES, text, len, &err) : status;
    if (status != SFT_OK) {
        cli_fail_plainly(c, path, &err);
    }
    return status == SFT_OK;
}

/* What describes the bytes of one file is wrong in another: digests, and the box that a rank has.
 */
static bool is_of_bytes(const sft_metadata_entry *e) {
    static const char *const keys[] = {"sft.crc32c", "sft.sha256", "crc_num", "DCP_SHARDING_INFO"};

    bool is = false;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        is = is || cli_is_word(e->key, e->key_len, keys[i]);
    }
    return is;
}

/* Does the file say just this already? */
static bool is_own(const sft_catalog *file, const sft_metadata_entry *e) {
    size_t len = 0;
    const char *value =
        file == NULL ? NULL : sft_catalog_metadata_find(file, 0, e->key, e->key_len, &len);

    return value != NULL && len == e->value_len && memcmp(value, e->value, len) == 0;
}

static void add_imported(cli *c, changes *ch) {
    const char *operand = c->operands[0];
    sft_catalog *file = NULL;
    sft_open_options o;
    const sft_limits limits = cli_limits(c);

    SFT_INIT(&o);
    o.limits = &limits;
    if (sft_catalog_open(&file, operand, &o, NULL) != SFT_OK) {
        file = NULL; /* the edit says why */
    }
    for (size_t i = 0; i < ch->imported.count; i++) {
        const sft_metadata_entry *e = &ch->imported.entries[i];
        if (is_of_bytes(e) && e->value != NULL && !is_own(file, e)) {
            cli_warn(c, operand, "%.*s describes the bytes of another file: not imported",
                     (int)e->key_len, e->key);
        } else {
            add_change(ch, e);
        }
    }
    sft_catalog_close(file);
}

static bool import_file(cli *c, const char *path, changes *ch) {
    const char *fault;
    size_t len = 0;
    size_t at;
    sft_error err;

    if (!read_all(c, path, &ch->json, &len)) {
        return false;
    }
    if (!cli_meta_parse(&ch->imported, ch->json, len, &fault, &at)) {
        (void)sft_error_at(&err, SFT_E_JSON, at, NULL, 0, "%s", fault);
        cli_fail_plainly(c, path, &err);
        return false;
    }
    if (cli_meta_different(&ch->imported, &err) != SFT_OK) {
        cli_fail_plainly(c, path, &err);
        return false;
    }
    add_imported(c, ch);
    return true;
}

static bool collect_changes(cli *c, changes *ch) {
    const char *path = cli_text(c, "import");

    if (path != NULL && !import_file(c, path, ch)) {
        return false;
    }
    for (size_t i = 0; i < c->value_count; i++) { /* in the order given */
        const cli_value *v = &c->values[i];
        sft_metadata_entry e = {.key = v->text};
        if (strcmp(v->opt->name, "set") == 0) {
            const char *equals = strchr(v->text, '=');
            if (equals == NULL) {
                cli_usage(c, "--set: \"%s\" is not KEY=VALUE", v->text);
                return false;
            }
            e.key_len = (size_t)(equals - v->text);
            e.value = equals + 1;
            e.value_len = strlen(e.value);
            add_change(ch, &e);
        } else if (strcmp(v->opt->name, "delete") == 0) {
            e.key_len = strlen(v->text);
            add_change(ch, &e);
        }
    }
    return true;
}

typedef struct ranked {
    const sft_metadata_entry *entry;
    size_t rank;
} ranked;

static int by_key(const void *left, const void *right) {
    const ranked *a = left;
    const ranked *b = right;
    const size_t la = a->entry->key_len;
    const size_t lb = b->entry->key_len;
    const int order = memcmp(a->entry->key, b->entry->key, la < lb ? la : lb);

    if (order != 0 || la != lb) {
        return order != 0 ? order : la < lb ? -1 : 1;
    }
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Of several changes of one key only the last one counts. */
static void keep_last(changes *ch) {
    ranked *order = cli_alloc(ch->count, sizeof *order);
    sft_metadata_entry *kept = cli_alloc(ch->count, sizeof *kept);
    size_t count = 0;

    for (size_t i = 0; i < ch->count; i++) {
        order[i].entry = &ch->entries[i];
        order[i].rank = i;
    }
    qsort(order, ch->count, sizeof *order, by_key);
    for (size_t i = 0; i < ch->count; i++) {
        const sft_metadata_entry *e = order[i].entry;
        const sft_metadata_entry *next = i + 1 < ch->count ? order[i + 1].entry : NULL;
        if (next == NULL || next->key_len != e->key_len ||
            memcmp(next->key, e->key, e->key_len) != 0) {
            kept[count++] = *e;
        }
    }
    free(order);
    free(ch->entries);
    ch->entries = kept;
    ch->count = count;
}

static void change(cli *c, const char *operand) {
    static const char *const ways[] = {"nothing to change", "changed in place", "written anew"};
    changes ch;
    sft_edit_options options;
    const sft_limits limits = cli_limits(c);
    sft_edit_way way;
    sft_error err;

    memset(&ch, 0, sizeof ch);
    if (collect_changes(c, &ch)) {
        cli_kept_watch(c, operand);
        keep_last(&ch);
        SFT_INIT(&options);
        options.limits = &limits;
        options.reserve_bytes = cli_number(c, "reserve", 0);
        options.control = cli_control(c, "writing");
        options.flags = (cli_flag(c, "clear") ? SFT_EDIT_CLEAR : 0) |
                        (cli_flag(c, "in-place") ? SFT_EDIT_IN_PLACE : 0);
        const sft_status status =
            sft_edit_metadata(operand, ch.entries, ch.count, &options, &way, &err);
        cli_control_end(c);
        if (status != SFT_OK) {
            cli_fail(c, operand, &err);
        } else {
            cli_note(c, operand, "%s",
                     ways[way <= SFT_EDITED_NEW_FILE ? way : SFT_EDITED_NEW_FILE]);
        }
    }
    cli_meta_reset(&ch.imported);
    free(ch.json);
    free(ch.entries);
}

static void run(cli *c) {
    const char *operand = c->operands[0];
    const bool changing = cli_list(c, "set", 0) != NULL || cli_list(c, "delete", 0) != NULL ||
                          cli_flag(c, "clear") || cli_text(c, "import") != NULL;

    if (!changing) {
        show(c, operand);
    } else if (c->operand_count > 1 || cli_flag(c, "export") || cli_flag(c, "raw")) {
        cli_usage(c, "either show keys or change them, not both");
    } else if (strcmp(operand, "-") == 0) {
        cli_usage(c, "standard input cannot be changed");
    } else {
        change(c, operand);
    }
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_LIST, "set", 's', "KEY=VALUE", "set KEY; may be repeated"),
    CLI_OPT_ARG(CLI_LIST, "delete", 'd', "KEY", "delete KEY, if it is there; may be repeated"),
    CLI_OPT_FLAG("clear", 0, "delete all keys first"),
    CLI_OPT_ARG(CLI_FILE, "import", 0, "FILE",
                "set every key of the JSON object in FILE; - is standard input"),
    CLI_OPT_FLAG("export", 0,
                 "write all metadata as one JSON object, made for editing and --import"),
    CLI_OPT_FLAG("raw", 0, "write values as they are, not escaped"),
    CLI_OPT_FLAG("in-place", 0,
                 "change the file itself even where a crash at that moment could tear its header; "
                 "refused for a file with several hard links"),
    CLI_OPT_ARG(CLI_BYTES, "reserve", 0, "SIZE",
                "if a new file is written, leave SIZE bytes for later changes"),
    CLI_OPT_END,
};

const cli_command cli_cmd_meta = {
    .name = "meta",
    .operands = "FILE [KEY...]",
    .summary = "show, set, delete, export and import metadata",
    .description =
        "Without options shows all metadata, or the values of the KEYs; a KEY that is missing "
        "gives exit status 1.\n\n"
        "With --set, --delete, --clear or --import changes one file: first --clear, then --import, "
        "then --set and --delete in the order given, all at once or not at all. Where the change "
        "fits into the header's spare room, only the header is written; otherwise a new file takes "
        "the place of the old one. Tensor data stays as it is, byte for byte. -v says which way "
        "was taken. --import leaves out, and names, what describes the bytes of another file: "
        "digests, and PyTorch's boxes.\n\n"
        "With --json, one object per file and line: schema (1), file, metadata.",
    .examples =
        "safetensors meta model.safetensors\n"
        "safetensors meta model.safetensors format\n"
        "safetensors meta model.safetensors --set license=mit --delete ss_tag_frequency\n"
        "safetensors meta a.safetensors --export | safetensors meta b.safetensors --import -",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
