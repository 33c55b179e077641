/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/siblings.c - a directory may hold more weights than those of the model that it is taken for:
 * shards that the index does not name, an adapter, the same model in another format, models of their
 * own in directories below. They stay behind, and are named: files of any name by what their bytes are,
 * files in directories below by their names. Read siblings.h first.
 */
#include "cli/operands/siblings.h"
#include "cli/look/verify.h"
#include "cli/operands/other_format.h"
#include "cli/outputs/lost.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What files of weights are called, in small letters or not. */
static const char *const weights[] = {
    "*.safetensors",
    "*pytorch_model*.bin",
    "model*.bin",
    "*adapter*.bin",
    "*lora*.bin",
    "model*.pt",
    "model*.pth",
    "consolidated*.pt*",
    "*.gguf",
    "*.onnx",
    "*.onnx_data",
    "*.onnx.data",
    "*.h5",
    "*.hdf5",
    "*.keras",
    "*.msgpack",
    "*.ckpt",
    "*.npz",
    "*.npy",
    "*.pt2",
    "*.distcp",
    "*.pdparams",
    "*.pdiparams",
    "*.tflite",
    "*.ot",
    "*_states.pt",
    "*.data-[0-9]*-of-[0-9]*",
    "*.mlmodel",
    "*.ggml",
    "*.eqx",
};
/* Of a directory: files that say that it is a model, or it by its own name. */
static const char *const marks[] = {"saved_model.pb", "_checkpoint_metadata"};
static const char *const models[] = {"*.mlpackage", "*.zarr"};
typedef struct found {
    char *name;
    bool directory;
    bool named; /* as weights are */
} found;

typedef struct listing {
    found *list;
    size_t count;
    size_t room;
} listing;

static bool is_called(const char *name, const char *const *patterns, size_t count) {
    char small[256];
    size_t n = 0;

    for (; name[n] != '\0' && n < sizeof small; n++) {
        small[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] + 0x20 : name[n]);
    }
    for (size_t i = 0; i < count && name[0] != '.'; i++) {
        if (cli_match(patterns[i], small, n)) {
            return true;
        }
    }
    return false;
}
#define IS_CALLED(name, patterns) is_called(name, patterns, sizeof patterns / sizeof patterns[0])

static void note(void *ctx, const char *name, bool is_directory) {
    listing *l = ctx;

    if (name[0] == '.') {
        return;
    }
    if (l->count == l->room) {
        l->room = l->room != 0 ? 2 * l->room : 16;
        l->list = cli_resize(l->list, l->room, sizeof *l->list);
    }
    const size_t size = strlen(name) + 1;
    found *f = &l->list[l->count++];
    *f = (found){cli_alloc(size, 1), is_directory,
                 is_directory ? IS_CALLED(name, models) : IS_CALLED(name, weights)};
    memcpy(f->name, name, size);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

static void list(listing *l, const char *directory) {
    (void)cli_sys_list(directory, note, l); /* it was read a moment ago */
    if (l->count > 1) {                     /* an empty list is NULL, which qsort must not get */
        qsort(l->list, l->count, sizeof *l->list, by_name);
    }
}

static void drop(listing *l) {
    for (size_t i = 0; i < l->count; i++) {
        free(l->list[i].name);
    }
    free(l->list);
}

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A model.safetensors of each rank, and one beside the ranks' directories: only the parents tell. */
static bool is_file_in(const char *path, const char *directory, const char *name) {
    const size_t len = (size_t)(base_of(path) - path);

    if (strcmp(path + len, name) != 0) {
        return false;
    }
    if (len == 0) { /* without its directory */
        return true;
    }
    char *parent = cli_alloc(len + 1, 1);
    memcpy(parent, path, len);
    char *in = cli_sys_real(parent);
    char *real = cli_sys_real(directory);
    const bool same = in == NULL || real == NULL || strcmp(in, real) == 0;
    free(in);
    free(real);
    free(parent);
    return same;
}

static bool is_read(const sft_catalog *catalog, const char *directory, const char *name) {
    for (size_t i = 0; catalog != NULL && i < sft_catalog_file_count(catalog); i++) {
        if (is_file_in(sft_catalog_file_at(catalog, i)->path, directory, name)) {
            return true;
        }
    }
    return false;
}

/* Data of a file that is read: NAME.data-00000-of-00001 of NAME.index, *.distcp of .metadata. */
static bool is_data(const sft_catalog *catalog, const char *directory, const char *name) {
    const char *end = strstr(name, ".data-");
    const size_t len = end != NULL ? (size_t)(end - name) : 0;

    if (end == NULL) {
        return cli_match("*.distcp", name, strlen(name)) &&
               is_read(catalog, directory, ".metadata");
    }
    char *index = cli_alloc(len + sizeof ".index", 1);
    memcpy(index, name, len);
    memcpy(index + len, ".index", sizeof ".index");
    const bool is = is_read(catalog, directory, index);
    free(index);
    return is;
}

/* Has the format a mark of its own, and weights behind it? Pickles, protobuf and msgpack begin with what
 * many files begin with: those go by their names. */
static bool is_marked(uint32_t format) {
    static const uint32_t marked[] = {
        SFT_IMPORT_SAFETENSORS, SFT_IMPORT_TORCH_ZIP, SFT_IMPORT_TORCH_LEGACY, SFT_IMPORT_TORCH_TAR,
        SFT_IMPORT_PT2,         SFT_IMPORT_NPY,       SFT_IMPORT_NPZ,          SFT_IMPORT_GGUF,
        SFT_IMPORT_HDF5,        SFT_IMPORT_KERAS,     SFT_IMPORT_TFLITE,       SFT_IMPORT_TF_BUNDLE,
    };

    for (size_t i = 0; i < sizeof marked / sizeof marked[0]; i++) {
        if (marked[i] == format) {
            return true;
        }
    }
    return false;
}

/* By the file's bytes; UNKNOWN: no weights, as far as these tell. */
static uint32_t format_of(const char *directory, const char *name) {
    uint32_t format = SFT_IMPORT_UNKNOWN;
    sft_source *source;
    char *path = cli_path_in(directory, name);

    if (cli_sys_kind(path) == CLI_KIND_FILE &&
        sft_source_open(&source, path, SFT_ACCESS_READ, NULL, NULL) == SFT_OK) {
        if (sft_import_detect(source, &format, NULL) != SFT_OK) {
            format = SFT_IMPORT_UNKNOWN;
        }
        sft_source_close(source);
    }
    free(path);
    return is_marked(format) ? format : (uint32_t)SFT_IMPORT_UNKNOWN;
}

static void tell_file(cli *c, const char *operand, const char *directory, const found *f) {
    if (f->named) {
        cli_lost_tell(c, operand, f->name,
                      "weights that are none of this model's: not carried along (name the file to "
                      "take them)");
        return;
    }
    const uint32_t format = format_of(directory, f->name);
    if (format != SFT_IMPORT_UNKNOWN) {
        cli_lost_tell(c, operand, f->name,
                      "%s, none of this model's: not carried along (name the file to take it)",
                      sft_import_format_title(format));
    }
}

static bool is_in(const char *path, const char *directory) {
    const size_t len = strlen(directory);

    for (const char *at = path; (at = strstr(at, directory)) != NULL; at++) {
        if ((at == path || at[-1] == '/' || at[-1] == '\\') &&
            (at[len] == '/' || at[len] == '\\')) {
            return true;
        }
    }
    return false;
}

/* The files of ranks, also those of which replicas stand in; found when they are first asked for. */
typedef struct ranks {
    char **paths;
    size_t count;
    bool known;
} ranks;

static void find_ranks(cli *c, const char *operand, ranks *r) {
    bool digests;

    if (!r->known) {
        r->known = true;
        r->count = cli_verify_ranks(c, operand, &r->paths, &digests);
    }
}

/* Is a file of the model in the directory? */
static bool is_part(cli *c, const char *operand, const sft_catalog *catalog, ranks *r,
                    const char *directory) {
    for (size_t i = 0; catalog != NULL && i < sft_catalog_file_count(catalog); i++) {
        if (is_in(sft_catalog_file_at(catalog, i)->path, directory)) {
            return true;
        }
    }
    find_ranks(c, operand, r);
    for (size_t i = 0; i < r->count; i++) {
        if (is_in(r->paths[i], directory)) {
            return true;
        }
    }
    return false;
}

/* One of the files of ranks, in the directory itself? */
static bool is_rank(cli *c, const char *operand, ranks *r, const char *directory,
                    const char *name) {
    find_ranks(c, operand, r);
    for (size_t i = 0; i < r->count; i++) {
        if (is_file_in(r->paths[i], directory, name)) {
            return true;
        }
    }
    return false;
}

static void drop_ranks(ranks *r) {
    for (size_t i = 0; i < r->count; i++) {
        free(r->paths[i]);
    }
    free(r->paths);
}

static void tell_directory(cli *c, const char *operand, const char *directory, const char *name) {
    char *path = cli_path_in(directory, name);
    listing below = {NULL, 0, 0};

    list(&below, path);
    for (size_t i = 0; i < below.count; i++) {
        /* which has the name of weights, and says how ranks are cut */
        const bool strategy = strstr(below.list[i].name, "ckpt_strategy") != NULL;
        if (!below.list[i].directory && !strategy &&
            (below.list[i].named || IS_CALLED(below.list[i].name, marks))) {
            char text[300];
            (void)sft_escape(text, sizeof text, below.list[i].name, strlen(below.list[i].name));
            cli_lost_tell(c, operand, name,
                          "a directory with weights of its own (%.200s): not carried along", text);
            break;
        }
    }
    drop(&below);
    free(path);
}

/* The directory that the operand is, or whose index it is; owned. NULL: neither. */
static char *directory_of(const char *operand) {
    static const char ending[] = ".index.json";
    const size_t len = strlen(operand);
    const bool is_directory = cli_sys_kind(operand) == CLI_KIND_DIRECTORY;
    const size_t name = (size_t)(base_of(operand) - operand);

    if (!is_directory &&
        (len < sizeof ending || strcmp(operand + len - (sizeof ending - 1), ending) != 0 ||
         cli_sys_kind(operand) != CLI_KIND_FILE)) {
        return NULL;
    }
    const size_t n = is_directory ? len : name != 0 ? name : 1;
    char *directory = cli_alloc(n + 1, 1);
    memcpy(directory, is_directory || name != 0 ? operand : ".", n);
    return directory;
}

static sft_catalog *open_again(cli *c, const char *operand) {
    sft_catalog *catalog = NULL;
    sft_import_options options;
    sft_limits limits;
    sft_error err;

    cli_import_options(c, &options, &limits);
    options.key = NULL; /* which files it has, nothing else */
    options.flags = SFT_IMPORT_ALLOW_OPAQUE | SFT_IMPORT_NO_CRC;
    return sft_import_open(&catalog, operand, &options, NULL, &err) == SFT_OK ? catalog : NULL;
}

/* Does the output lie in the directory? Then nothing is left behind. */
static bool stays(const char *directory, const char *target) {
    const size_t len = (size_t)(base_of(target) - target);
    char *parent = cli_alloc(len + 3, 1);

    memcpy(parent, len != 0 ? target : "./", len != 0 ? len : 2);
    char *in = cli_sys_real(cli_sys_kind(target) == CLI_KIND_DIRECTORY ? target : parent);
    char *real = cli_sys_real(directory);
    const bool same = in != NULL && real != NULL && strcmp(in, real) == 0;
    free(in);
    free(real);
    free(parent);
    return same;
}

/* catalog: NULL if all that is known are the files of ranks. */
static void tell_all(cli *c, const char *operand, const char *directory,
                     const sft_catalog *catalog) {
    listing all = {NULL, 0, 0};
    ranks r = {NULL, 0, false};

    list(&all, directory);
    for (size_t i = 0; i < all.count; i++) {
        const found *f = &all.list[i];
        if (f->directory
                ? is_part(c, operand, catalog, &r, f->name)
                : is_read(catalog, directory, f->name) || is_data(catalog, directory, f->name) ||
                      (catalog == NULL && is_rank(c, operand, &r, directory, f->name))) {
            continue;
        }
        if (f->directory && f->named) {
            cli_lost_tell(c, operand, f->name, "a model of its own: not carried along");
        } else if (f->directory) {
            tell_directory(c, operand, directory, f->name);
        } else {
            tell_file(c, operand, directory, f);
        }
    }
    drop_ranks(&r);
    drop(&all);
}

void cli_siblings_tell(cli *c, const char *operand, const char *target,
                       const sft_catalog *catalog) {
    char *directory = directory_of(operand);

    if (directory != NULL && !stays(directory, target)) {
        sft_catalog *again = catalog == NULL ? open_again(c, operand) : NULL;
        catalog = catalog != NULL ? catalog : again;
        if (catalog != NULL) {
            tell_all(c, operand, directory, catalog);
        }
        sft_catalog_close(again);
    }
    free(directory);
}

void cli_siblings_tell_ranks(cli *c, const char *directory, const char *target) {
    if (!stays(directory, target)) {
        tell_all(c, directory, directory, NULL);
    }
}
