/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/beside.c - configuration and tokenizer files travel with the weights: convert, split, join
 * and fetch leave them beside their outputs. Only files of known names, each at most FILE_MOST bytes;
 * nothing that a loader would execute. The list is in docs/import.md, "Beside the weights". Read beside.h
 * first.
 */
#include "cli/outputs/beside.h"
#include "cli/operands/scan_dir.h"
#include "cli/operands/url.h"
#include "cli/outputs/lost.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 256 << 20, BLOCK = 1 << 20 };

/* Patterns of what travels. */
static const char *const carried[] = {
    "config.json",
    "*_config.json",
    "config_*.json",
    "tokenizer*.json",
    "tokenizer*.txt",
    "vocab*.json",
    "vocab*.txt",
    "vocab*.bpe",
    "*.tiktoken",
    "merges*.txt",
    "spiece.model",
    "tokenizer*.model",
    "sentencepiece*.model",
    "*.jinja",
    "chat_template.json",
    "normalizer.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "modules.json",
    "model_index.json",
    "README*",
    "LICENSE*",
    "LICENCE*",
    "NOTICE*",
};

/* Of these a URL is asked, which cannot be listed. */
static const char *const asked[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "added_tokens.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "chat_template.jinja",
    "README.md",
    "LICENSE",
};

/* What a loader would execute. */
static const char *const refused[] = {"*.py",   "*.pkl", "*.pickle", "*.joblib",
                                      "*.dill", "*.bin", "*.pt",     "*.pth"};
/* Of those, what weights are called. */
static const char *const weights[] = {"*pytorch_model*.bin", "model*.bin", "model*.pt",
                                      "model*.pth", "adapter_model*.bin"};

static bool is_one(const char *name, const char *const *patterns, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (cli_match(patterns[i], name, strlen(name))) {
            return true;
        }
    }
    return false;
}
#define IS_ONE(name, patterns) is_one(name, patterns, sizeof patterns / sizeof patterns[0])

static char *join(const char *directory, size_t len, const char *name) {
    const size_t size = strlen(name) + 1;
    char *path = cli_alloc(len + 1 + size, 1);

    memcpy(path, directory, len);
    path[len] = '/';
    memcpy(path + len + 1, name, size);
    return path;
}

/* ---------------------------------------------------------------- what is told later */

enum { NOTE, WARNING, WARNING_OF_MANY }; /* the last: its place is no single file */

/* text: at most 400 bytes of it. */
static void say(cli_beside *b, int kind, const char *path, const char *text) {
    b->said = cli_resize(b->said, b->said_count + 1, sizeof *b->said);
    b->said[b->said_count++] = (cli_beside_said){
        kind, cli_copy_of(path), cli_copy_bytes(text, strlen(text) < 400 ? strlen(text) : 400)};
}

static sft_status fail_file(const char *path, int error, sft_error *err) {
    char text[160];

    return sft_error_set(err, SFT_E_IO, error, "%.200s: cannot write: %s", path,
                         cli_sys_text(error, text, sizeof text));
}

/* ---------------------------------------------------------------- one file */

static sft_status copy_blocks(cli_sys_file *out, const sft_source *source, const char *path,
                              sft_error *err) {
    const uint64_t size = sft_source_size(source);
    char *block = cli_alloc(BLOCK, 1);
    sft_status status = SFT_OK;

    for (uint64_t at = 0; at < size && status == SFT_OK; at += BLOCK) {
        const size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        status = sft_source_read(source, at, block, n, err);
        const int error = status == SFT_OK ? cli_sys_put(out, block, n) : 0;
        if (error != 0) {
            status = fail_file(path, error, err);
        }
    }
    free(block);
    return status;
}

/* Has the file at `path` the bytes of the source? */
static bool is_equal(const sft_source *source, const char *path) {
    const uint64_t size = sft_source_size(source);
    char *blocks = cli_alloc(2, BLOCK);
    sft_source *there;
    sft_error err;

    bool equal = sft_source_open(&there, path, SFT_ACCESS_READ, NULL, &err) == SFT_OK;
    const bool opened = equal;
    equal = equal && sft_source_size(there) == size;
    for (uint64_t at = 0; at < size && equal; at += BLOCK) {
        const size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        equal = sft_source_read(source, at, blocks, n, &err) == SFT_OK &&
                sft_source_read(there, at, blocks + BLOCK, n, &err) == SFT_OK &&
                memcmp(blocks, blocks + BLOCK, n) == 0;
    }
    if (opened) {
        sft_source_close(there);
    }
    free(blocks);
    return equal;
}

static void tell_there(cli_beside *b, const sft_source *source, const char *path) {
    if (is_equal(source, path)) {
        say(b, NOTE, path, "is there already, with the same bytes");
    } else {
        say(b, WARNING, path, "is there already, with other bytes, and stays as it is");
    }
}

static sft_status write_file(cli_beside *b, const sft_source *source, const char *path,
                             sft_error *err) {
    cli_sys_file out;

    int error = cli_sys_create(&out, path, false);
    if (error != 0) {
        return fail_file(path, error, err);
    }
    const sft_status status = copy_blocks(&out, source, path, err);
    if (status != SFT_OK) {
        cli_sys_discard(&out);
        return status;
    }
    error = cli_sys_commit(&out);
    if (error != 0 && cli_sys_exists_error(error)) {
        tell_there(b, source, path);
        return SFT_OK;
    }
    if (error != 0) {
        return fail_file(path, error, err);
    }
    cli_strings_take(&b->made, cli_copy_of(path));
    say(b, NOTE, path, "carried along");
    return SFT_OK;
}

/* The source is closed. */
static sft_status copy_source(cli_beside *b, sft_source *source, const char *from, const char *path,
                              sft_error *err) {
    sft_status status = SFT_OK;
    char text[64];

    if (sft_source_size(source) > FILE_MOST) {
        (void)snprintf(text, sizeof text, "larger than %d bytes: not carried along",
                       (int)FILE_MOST);
        say(b, WARNING, from, text);
    } else if (cli_sys_kind(path) != CLI_KIND_NONE) {
        tell_there(b, source, path);
    } else {
        status = write_file(b, source, path, err);
    }
    sft_source_close(source);
    return status;
}

/* ---------------------------------------------------------------- directories */

static void note_name(void *ctx, const char *name, bool is_directory) {
    if (IS_ONE(name, carried) || (!is_directory && IS_ONE(name, refused))) {
        cli_strings_take(ctx, cli_copy_of(name));
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static sft_status carry_one(cli_beside *b, const char *directory, const char *from,
                            const char *name, const char *path, sft_error *err) {
    sft_source *source;
    const cli_kind kind = cli_sys_kind(from);

    if (IS_ONE(name, refused)) {
        if (!IS_ONE(name, weights)) {
            say(b, WARNING, from,
                cli_match("*.py", name, strlen(name))
                    ? "a program, which loaders execute: not carried along"
                    : "perhaps a pickle, which loaders execute: not carried along");
        }
    } else if (kind != CLI_KIND_NONE && cli_sys_is_link(from) &&
               cli_link_leads_out(directory, from)) {
        say(b, WARNING, from, "a link that leads out of the directory: not carried along");
    } else if (kind == CLI_KIND_FILE) {
        const sft_status status = sft_source_open(&source, from, SFT_ACCESS_READ, NULL, err);
        return status == SFT_OK ? copy_source(b, source, from, path, err) : status;
    } else {
        say(b, WARNING, from,
            kind == CLI_KIND_NONE        ? "a link to nothing: not carried along"
            : kind == CLI_KIND_DIRECTORY ? "a directory: not carried along"
                                         : "no regular file: not carried along");
    }
    return SFT_OK;
}

static sft_status carry_directory(cli_beside *b, sft_error *err) {
    cli_strings n = {NULL, 0};
    char *directory = cli_copy_bytes(b->source, b->from);
    sft_status status = SFT_OK;

    (void)cli_sys_list(directory, note_name, &n); /* it was read a moment ago */
    if (n.count > 1) { /* an empty list is NULL, which qsort must not get */
        qsort(n.items, n.count, sizeof *n.items, by_text);
    }
    for (size_t i = 0; i < n.count; i++) {
        char *from = join(b->source, b->from, n.items[i]);
        char *path = join(b->target, b->to, n.items[i]);
        if (status == SFT_OK) {
            status = carry_one(b, directory, from, n.items[i], path, err);
        }
        free(from);
        free(path);
    }
    cli_strings_reset(&n);
    free(directory);
    return status;
}

/* Is the source what was asked for? A directory of that name gives a file in it. */
static bool is_called(const sft_source *source, const char *name) {
    const char *slash = strrchr(sft_source_name(source), '/');
    return slash != NULL && strcmp(slash + 1, name) == 0;
}

/* Is all that is known that the local cache has it not? */
static bool is_offline(const sft_error *err) {
    return err->status == SFT_E_HTTP && err->sys == 0 && strstr(err->message, ": offline,") != NULL;
}

static void add_name(char **list, const char *name) {
    const size_t len = *list != NULL ? strlen(*list) : 0;

    *list = cli_resize(*list, len + strlen(name) + 3, 1);
    memcpy(*list + len, ", ", 2);
    memcpy(*list + len + (len > 0 ? 2 : 0), name, strlen(name) + 1);
}

static sft_status ask_url(cli_beside *b, const char *from, const char *name, const char *path,
                          char **unknown, sft_error *err) {
    sft_source *source;
    sft_error why;
    char text[400];

    if (cli_url_source(b->c, from, &source, &why) == SFT_OK) {
        if (is_called(source, name)) {
            return copy_source(b, source, from, path, err);
        }
        sft_source_close(source);
    } else if (is_offline(&why)) {
        add_name(unknown, name);
    } else if (why.status != SFT_E_NOT_FOUND && why.sys != 404 && why.sys != 403) {
        (void)snprintf(text, sizeof text, "not carried along: %s", why.message);
        say(b, WARNING, from, text);
    }
    return SFT_OK;
}

static sft_status carry_url(cli_beside *b, sft_error *err) {
    static const char offline[] = "offline: not carried along, as the local cache has none: ";
    char *unknown = NULL; /* whether these are at the hub */
    sft_status status = SFT_OK;

    for (size_t i = 0; i < sizeof asked / sizeof asked[0] && status == SFT_OK; i++) {
        char *from = join(b->source, b->from, asked[i]);
        char *path = join(b->target, b->to, asked[i]);
        status = ask_url(b, from, asked[i], path, &unknown, err);
        free(from);
        free(path);
    }
    if (unknown != NULL) {
        char *text = cli_joined(offline, unknown, "");
        say(b, WARNING_OF_MANY, b->source, text);
        free(text);
        free(unknown);
    }
    return status;
}

/* ---------------------------------------------------------------- both */

/* The length of the directory in a path to a model's own file; 0: it is none. "model.safetensors" alone: the
 * directory is ".", and *here is set. */
static size_t directory_of(const char *path, bool *here) {
    static const char *const files[] = {"model*.safetensors", "pytorch_model*.bin", "*.index.json",
                                        "diffusion_pytorch_model*"};
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    *here = false;
    if (!IS_ONE(name, files)) {
        return 0;
    }
    *here = slash == NULL;
    return slash == NULL || slash == path ? 1 : (size_t)(slash - path);
}

static size_t place_of(const char **path) {
    size_t len = strlen(*path);
    bool here = false;

    if (cli_is_url(*path)) {
        const size_t scheme = (size_t)(strstr(*path, "://") - *path) + 3;
        const size_t directory = directory_of(*path, &here);
        /* hf://ORG/REPO is a directory by itself; of other URLs what ends like a file's name is a file's */
        return directory > scheme ? directory : strncmp(*path, "hf://", 5) == 0 ? len : 0;
    }
    if (cli_sys_kind(*path) != CLI_KIND_DIRECTORY) {
        len = directory_of(*path, &here);
        *path = here ? "." : *path;
        return len;
    }
    while (len > 1 && (*path)[len - 1] == '/') {
        len--;
    }
    return len;
}

void cli_beside_begin(cli_beside *b, cli *c, const char *source, const char *target) {
    *b = (cli_beside){.c = c, .source = source, .target = target};
    if (cli_flag(c, "no-config") || cli_flag(c, "plan") || cli_flag(c, "dry-run") || c->out.mute ||
        target == NULL) {
        b->source = NULL; /* of several processes the first does it */
    }
}

sft_status cli_beside_put(void *ctx, sft_error *err) {
    cli_beside *b = ctx;

    if (b->source == NULL) {
        return SFT_OK;
    }
    b->from = place_of(&b->source);
    b->to = place_of(&b->target); /* by now it is made */
    if (b->from == 0 || b->to == 0) {
        return SFT_OK;
    }
    if (cli_is_url(b->source)) {
        return carry_url(b, err);
    }
    return b->from != b->to || memcmp(b->source, b->target, b->from) != 0 ? carry_directory(b, err)
                                                                          : SFT_OK;
}

void cli_beside_tell(cli_beside *b) {
    for (size_t i = 0; i < b->said_count; i++) {
        const cli_beside_said *s = &b->said[i];
        const char *slash = strrchr(s->path, '/');
        const char *name = slash != NULL ? slash + 1 : s->path;
        if (s->kind == NOTE) {
            cli_note(b->c, s->path, "%s", s->text);
        } else if (s->kind == WARNING_OF_MANY || !cli_lost_is_told(b->c, name)) {
            cli_warn(b->c, s->path, "%s", s->text);
            cli_lost_note(b->c, name, strlen(name), s->text);
        }
    }
}

void cli_beside_end(cli_beside *b, bool keep) {
    for (size_t i = 0; !keep && i < b->made.count; i++) {
        (void)remove(b->made.items[i]);
    }
    cli_strings_reset(&b->made);
    for (size_t i = 0; i < b->said_count; i++) {
        free(b->said[i].path);
        free(b->said[i].text);
    }
    free(b->said);
    *b = (cli_beside){.c = b->c};
}

void cli_beside_carry(cli *c, const char *source, const char *target) {
    cli_beside b;
    sft_error err;

    if (c->status != 0) {
        return;
    }
    cli_beside_begin(&b, c, source, target);
    const sft_status status = cli_beside_put(&b, &err);
    cli_beside_tell(&b);
    if (status != SFT_OK) {
        cli_fail_plainly(c, NULL, &err);
    }
    cli_beside_end(&b, true);
}
