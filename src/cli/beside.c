/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/beside.c - configuration and tokenizer files travel with the weights: convert, split, join and fetch
 * leave them beside their outputs. Only files of known names, each at most FILE_MOST bytes; nothing that a
 * loader would execute. The list is in docs/import.md, "Beside the weights". Read beside.h first.
 */
#include "beside.h"
#include "lost.h"
#include "scan_dir.h"
#include "sys.h"
#include "url.h"
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 256 << 20, BLOCK = 1 << 20 };

/* Patterns of what travels. */
static const char *const carried[] = {
    "config.json",    "*_config.json",     "config_*.json",           "tokenizer*.json", "tokenizer*.txt",
    "vocab*.json",    "vocab*.txt",        "vocab*.bpe",              "*.tiktoken",      "merges*.txt",
    "spiece.model",   "tokenizer*.model",  "sentencepiece*.model",    "*.jinja",         "chat_template.json",
    "normalizer.json", "added_tokens.json", "special_tokens_map.json", "modules.json",    "model_index.json",
    "README*",        "LICENSE*",          "LICENCE*",                "NOTICE*",
};

/* Of these a URL is asked, which cannot be listed. */
static const char *const asked[] = {
    "config.json",       "generation_config.json", "tokenizer.json",          "tokenizer_config.json",
    "vocab.json",        "vocab.txt",              "merges.txt",              "tokenizer.model",
    "added_tokens.json", "special_tokens_map.json", "preprocessor_config.json", "chat_template.jinja",
    "README.md",         "LICENSE",
};

/* What a loader would execute. */
static const char *const refused[] = {"*.py",   "*.pkl", "*.pickle", "*.joblib",
                                      "*.dill", "*.bin", "*.pt",     "*.pth"};
/* Of those, what weights are called. */
static const char *const weights[] = {"*pytorch_model*.bin", "model*.bin", "model*.pt", "model*.pth",
                                      "adapter_model*.bin"};

static bool is_one(const char *name, const char *const *patterns, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (cli_match(patterns[i], name, strlen(name))) {
            return true;
        }
    }
    return false;
}
#define IS_ONE(name, patterns) is_one(name, patterns, sizeof patterns / sizeof patterns[0])

static char *join(const char *folder, size_t len, const char *name) {
    const size_t size = strlen(name) + 1;
    char *path = cli_alloc(len + 1 + size, 1);

    memcpy(path, folder, len);
    path[len] = '/';
    memcpy(path + len + 1, name, size);
    return path;
}

/* ---------------------------------------------------------------- one file */

static sft_status copy_blocks(cli_sys_file *out, const sft_source *source, sft_error *err) {
    const uint64_t size = sft_source_size(source);
    char *block = cli_alloc(BLOCK, 1);
    sft_status status = SFT_OK;

    for (uint64_t at = 0; at < size && status == SFT_OK; at += BLOCK) {
        const size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        status = sft_source_read(source, at, block, n, err);
        const int error = status == SFT_OK ? cli_sys_write(out->fd, block, n) : 0;
        if (error != 0) {
            char text[160];
            status = sft_error_set(err, SFT_E_IO, error, SFT_NO_OFFSET, NULL, 0, "cannot write: %s",
                                   cli_sys_text(error, text, sizeof text));
        }
    }
    free(block);
    return status;
}

static void fail_file(cli *c, const char *path, int error) {
    sft_error err;
    char text[160];

    (void)sft_error_set(&err, SFT_E_IO, error, SFT_NO_OFFSET, NULL, 0, "cannot write: %s",
                        cli_sys_text(error, text, sizeof text));
    cli_fail_plainly(c, path, &err);
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

static void tell_there(cli *c, const sft_source *source, const char *path) {
    if (is_equal(source, path)) {
        cli_note(c, path, "is there already, with the same bytes");
    } else {
        cli_warn(c, path, "is there already, with other bytes, and stays as it is");
    }
}

/* The source is closed. */
static void copy_source(cli *c, sft_source *source, const char *from, const char *path) {
    cli_sys_file out;
    sft_error err;

    if (sft_source_size(source) > FILE_MOST) {
        cli_warn(c, from, "larger than %d bytes: not carried along", (int)FILE_MOST);
    } else if (cli_sys_kind(path) != CLI_KIND_NONE) {
        tell_there(c, source, path);
    } else {
        int error = cli_sys_create(&out, path);
        if (error != 0) {
            fail_file(c, path, error);
        } else if (copy_blocks(&out, source, &err) != SFT_OK) {
            cli_sys_discard(&out);
            cli_fail_plainly(c, from, &err);
        } else if ((error = cli_sys_commit(&out, false)) != 0) {
            if (cli_sys_exists_error(error)) {
                tell_there(c, source, path);
            } else {
                fail_file(c, path, error);
            }
        } else {
            cli_note(c, path, "carried along");
        }
    }
    sft_source_close(source);
}

/* ---------------------------------------------------------------- directories */

typedef struct names {
    char **list;
    size_t count;
} names;

static void note_name(void *ctx, const char *name, bool is_folder) {
    names *n = ctx;

    if (IS_ONE(name, carried) || (!is_folder && IS_ONE(name, refused))) {
        const size_t size = strlen(name) + 1;
        n->list = cli_resize(n->list, n->count + 1, sizeof *n->list);
        n->list[n->count] = cli_alloc(size, 1);
        memcpy(n->list[n->count++], name, size);
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void carry_one(cli *c, const char *folder, const char *from, const char *name, const char *path) {
    sft_source *source;
    sft_error err;
    const cli_kind kind = cli_sys_kind(from);

    if (IS_ONE(name, refused)) {
        if (!IS_ONE(name, weights) && !cli_lost_is_told(c, name)) {
            cli_warn(c, from, "%s: not carried along", cli_match("*.py", name, strlen(name))
                                                           ? "a program, which loaders execute"
                                                           : "perhaps a pickle, which loaders execute");
        }
    } else if (kind != CLI_KIND_NONE && cli_sys_is_link(from) && cli_link_leads_out(folder, from)) {
        cli_warn(c, from, "a link that leads out of the directory: not carried along");
    } else if (kind == CLI_KIND_FILE) {
        if (sft_source_open(&source, from, SFT_ACCESS_READ, NULL, &err) != SFT_OK) {
            cli_fail_plainly(c, from, &err);
        } else {
            copy_source(c, source, from, path);
        }
    } else {
        cli_warn(c, from, "%s: not carried along",
                 kind == CLI_KIND_NONE     ? "a link to nothing"
                 : kind == CLI_KIND_FOLDER ? "a directory"
                                           : "no regular file");
    }
}

static void carry_folder(cli *c, const char *source, size_t len, const char *target,
                         size_t target_len) {
    names n = {NULL, 0};
    char *folder = cli_alloc(len + 1, 1);

    memcpy(folder, source, len);
    folder[len] = '\0';
    (void)cli_sys_list(folder, note_name, &n); /* it was read a moment ago */
    if (n.count > 1) { /* an empty list is NULL, which qsort must not get */
        qsort(n.list, n.count, sizeof *n.list, by_text);
    }
    for (size_t i = 0; i < n.count; i++) {
        char *from = join(source, len, n.list[i]);
        char *path = join(target, target_len, n.list[i]);
        carry_one(c, folder, from, n.list[i], path);
        free(from);
        free(path);
        free(n.list[i]);
    }
    free(n.list);
    free(folder);
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

static void carry_url(cli *c, const char *url, size_t len, const char *target, size_t target_len) {
    char *unknown = NULL; /* whether these are at the hub */

    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        char *from = join(url, len, asked[i]);
        char *path = join(target, target_len, asked[i]);
        sft_source *source;
        sft_error err;
        if (cli_url_source(c, from, &source, &err) == SFT_OK) {
            if (is_called(source, asked[i])) {
                copy_source(c, source, from, path);
            } else {
                sft_source_close(source);
            }
        } else if (is_offline(&err)) {
            add_name(&unknown, asked[i]);
        } else if (err.status != SFT_E_NOT_FOUND && err.sys != 404 && err.sys != 403) {
            cli_warn(c, from, "not carried along: %s", err.message);
        }
        free(from);
        free(path);
    }
    if (unknown != NULL) {
        cli_warn(c, url, "offline: not carried along, as the local cache has none: %s", unknown);
        free(unknown);
    }
}

/* ---------------------------------------------------------------- both */

/* The length of the directory in a path to a model's own file; 0: it is none. "model.safetensors" alone: the
 * directory is ".", and *here is set. */
static size_t folder_of(const char *path, bool *here) {
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
        const size_t folder = folder_of(*path, &here);
        /* hf://ORG/REPO is a directory by itself; of other URLs what ends like a file's name is a file's */
        return folder > scheme               ? folder
               : strncmp(*path, "hf://", 5) == 0 ? len
                                               : 0;
    }
    if (cli_sys_kind(*path) != CLI_KIND_FOLDER) {
        len = folder_of(*path, &here);
        *path = here ? "." : *path;
        return len;
    }
    while (len > 1 && (*path)[len - 1] == '/') {
        len--;
    }
    return len;
}

void cli_beside_carry(cli *c, const char *source, const char *target) {
    if (cli_flag(c, "no-config") || cli_flag(c, "plan") || cli_flag(c, "dry-run") ||
        c->status != 0 || c->out.mute || target == NULL) {
        return; /* of several processes the first does it */
    }
    const size_t from = place_of(&source);
    const size_t to = place_of(&target);
    if (from == 0 || to == 0) {
        return;
    }
    if (cli_is_url(source)) {
        carry_url(c, source, from, target, to);
    } else if (from != to || memcmp(source, target, from) != 0) {
        carry_folder(c, source, from, target, to);
    }
}
