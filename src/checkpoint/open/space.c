/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/space.c - opening a checkpoint of many ranks: which kind a folder is, its files, the
 * whole out of them. The kinds themselves are in space_*.c. Read checkpoint/open/space.h first.
 */
#include "checkpoint/open/space.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/options.h"
#include "fs/below.h"
#include <stdlib.h>

#define MAX_TEXT UINT64_C(100000000)

static const char *const kind_titles[] = {
#define ROW(name, number, word, title) [number] = title,
    SFT_CHECKPOINT_KIND_MAP(ROW)
#undef ROW
};

const char *sft_checkpoint_kind_title(uint32_t kind) {
    return kind_titles[kind < sizeof kind_titles / sizeof kind_titles[0] ? kind : 0];
}

/* ---------------------------------------------------------------- names */

bool sft__checkpoint_ends(const char *name, size_t len, const char *suffix) {
    const size_t n = strlen(suffix);
    return len >= n && memcmp(name + len - n, suffix, n) == 0;
}

static size_t take_digits(const char *text, size_t len, uint64_t *value) {
    size_t n = 0;
    *value = 0;
    while (n < len && n < 18 && text[n] >= '0' && text[n] <= '9') {
        *value = *value * 10 + (uint64_t)(text[n++] - '0'); /* below 10^18 */
    }
    return n;
}

bool sft__checkpoint_rank_of(const char *name, size_t len, uint64_t *rank) {
    static const char prefix[] = "rank_";
    const size_t n = sizeof prefix - 1;
    size_t at = n;
    if (len <= n || memcmp(name, prefix, n) != 0) {
        return false;
    }
    while (at < len && name[at] >= '0' && name[at] <= '9') {
        at++;
    }
    if (take_digits(name + n, len - n, rank) != len - n) {
        *rank = SFT__RANK_BEYOND;
    }
    return at == len;
}

bool sft__checkpoint_step_of(const char *name, size_t len, uint64_t *epoch, uint64_t *step) {
    size_t end = len;
    size_t at;
    while (end > 0 && name[end - 1] != '.') {
        end--;
    }
    end -= end > 0;
    at = end;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    if (at == end || at == 0 || name[at - 1] != '_' ||
        take_digits(name + at, end - at, step) != end - at) {
        return false;
    }
    const size_t middle = at - 1;
    at = middle;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    return at != middle && at > 0 && name[at - 1] == '-' &&
           take_digits(name + at, middle - at, epoch) == middle - at;
}

/* ---------------------------------------------------------------- small helpers */

sft_status sft__checkpoint_nomem(const sft_checkpoint *c, size_t size, sft_error *err) {
    if (c->arena.over_budget) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "checkpoint needs more memory than the limit allows");
    }
    return sft__base_fail_nomem(err, size);
}

sft_status sft__checkpoint_path(sft_checkpoint *c, const char *folder, const char *name,
                                const char **out, sft_error *err) {
    const size_t a = strlen(folder);
    const size_t b = strlen(name);
    const bool slash = a != 0 && folder[a - 1] != '/';
    char *const path = sft__base_arena_alloc(&c->arena, a + b + 2, 1);
    if (path == NULL) {
        return sft__checkpoint_nomem(c, a + b + 2, err);
    }
    memcpy(path, folder, a);
    path[a] = '/';
    memcpy(path + a + slash, name, b + 1);
    *out = path;
    return SFT_OK;
}

sft_status sft__checkpoint_read(const sft_checkpoint *c, const char *path,
                                sft__checkpoint_text *out, sft_error *err) {
    const uint64_t most = c->limits.header_bytes != 0 ? c->limits.header_bytes : MAX_TEXT;
    sft_source *source;
    memset(out, 0, sizeof *out);
    out->allocator = c->allocator;
    SFT_TRY(sft_source_open(&source, path, SFT_ACCESS_READ, c->allocator, err));
    const uint64_t size = sft_source_size(source);
    sft_status status = SFT_OK;
    if (size > most || size > SIZE_MAX / 2) {
        status = sft__base_fail(err, SFT_E_LIMIT, "%llu bytes of description, the limit is %llu",
                                (unsigned long long)size, (unsigned long long)most);
    } else {
        out->data = sft__base_alloc(c->allocator, (size_t)size + 1);
        out->size = (size_t)size;
        status = out->data == NULL ? sft__base_fail_nomem(err, out->size) : SFT_OK;
    }
    if (status == SFT_OK && size != 0) {
        status = sft_source_read(source, 0, out->data, out->size, err);
    }
    sft_source_close(source);
    if (status != SFT_OK) {
        sft__checkpoint_text_reset(out);
    }
    return status;
}

void sft__checkpoint_text_reset(sft__checkpoint_text *text) {
    sft__base_free(text->allocator, text->data, text->size + 1);
    text->data = NULL;
}

/* ---------------------------------------------------------------- listings */

static sft_status note_name(void *ctx, const char *name, size_t len, sft_error *err) {
    sft__checkpoint_names *const n = ctx;
    if (name[0] == '.' ||
        (n->suffixes[0] != NULL && !sft__checkpoint_ends(name, len, n->suffixes[0]) &&
         (n->suffixes[1] == NULL || !sft__checkpoint_ends(name, len, n->suffixes[1])))) {
        return SFT_OK;
    }
    if (!sft__base_grow(n->c->allocator, &n->list, &n->room, n->count + 1, sizeof *n->list)) {
        return sft__base_fail_nomem(err, (n->count + 1) * sizeof *n->list);
    }
    n->list[n->count] = sft__base_arena_copy(&n->c->arena, name, len);
    return n->list[n->count++] != NULL ? SFT_OK : sft__checkpoint_nomem(n->c, len, err);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

sft_status sft__checkpoint_list(sft__checkpoint_names *names, const char *folder, sft_error *err) {
    SFT_TRY(sft__fs_list(folder, note_name, names, err));
    if (names->count > 1) {
        qsort(names->list, names->count, sizeof *names->list, by_bytes);
    }
    return SFT_OK;
}

void sft__checkpoint_names_reset(sft__checkpoint_names *names) {
    sft__base_free(names->c->allocator, names->list, names->room * sizeof *names->list);
    names->list = NULL;
    names->count = 0;
    names->room = 0;
}

/* ---------------------------------------------------------------- which kind */

typedef struct sight {
    bool ranks, topology, metadata, name_map, index, weights;
    bool stepped, unstepped; /* there are files with a step in their names, and without */
    bool shard;              /* `first` is called as PyTorch's shards are */
    char first[512];         /* of the weight files, in byte order; shards before others */
} sight;

static bool is_name(const char *name, size_t len, const char *what) {
    return strlen(what) == len && memcmp(name, what, len) == 0;
}

static sft_status see(void *ctx, const char *name, size_t len, sft_error *err) {
    sight *const s = ctx;
    uint64_t rank, step;
    (void)err;
    s->ranks = s->ranks || sft__checkpoint_rank_of(name, len, &rank);
    s->topology = s->topology || is_name(name, len, "topology.json");
    s->metadata = s->metadata || is_name(name, len, "metadata.json") ||
                  is_name(name, len, "latest_checkpointed_iteration.txt");
    s->name_map = s->name_map || is_name(name, len, "param_name_map.json");
    s->index = s->index || sft__checkpoint_ends(name, len, ".safetensors.index.json");
    if (name[0] != '.' && (sft__checkpoint_ends(name, len, ".safetensors") ||
                           sft__checkpoint_ends(name, len, ".ckpt"))) {
        const bool stepped = sft__checkpoint_step_of(name, len, &rank, &step);
        s->stepped = s->stepped || stepped;
        s->unstepped = s->unstepped || !stepped;
    }
    const bool shard = sft__checkpoint_is_shard(name);
    if (name[0] != '.' && len < sizeof s->first &&
        sft__checkpoint_ends(name, len, ".safetensors") &&
        (!s->weights || (shard != s->shard ? shard : strcmp(name, s->first) < 0))) {
        s->weights = true;
        s->shard = shard;
        memcpy(s->first, name, len + 1);
    }
    return SFT_OK;
}

/* One file of a folder that PyTorch wrote says what is in it. What cannot be opened says nothing.
 */
static sft_status has_sharding_info(sft_checkpoint *c, const char *folder, const char *name,
                                    bool *found, sft_error *err) {
    static const char key[] = "DCP_SHARDING_INFO";
    const char *path;
    sft_catalog *catalog;
    SFT_TRY(sft__checkpoint_path(c, folder, name, &path, err));
    const sft_status status = sft_catalog_open(&catalog, path, &c->open, NULL);
    if (status == SFT_OK) {
        *found = sft_catalog_metadata_find(catalog, 0, key, sizeof key - 1, NULL) != NULL;
        sft_catalog_close(catalog);
    }
    return status == SFT_E_NOMEM ? sft__base_fail_nomem(err, sizeof key) : SFT_OK;
}

/* The text of a description in the folder; *found: it could be read. */
static sft_status read_if_there(sft_checkpoint *c, const char *folder, const char *name,
                                sft__checkpoint_text *text, bool *found, sft_error *err) {
    const char *path;
    SFT_TRY(sft__checkpoint_path(c, folder, name, &path, err));
    const sft_status status = sft__checkpoint_read(c, path, text, NULL);
    *found = status == SFT_OK;
    return status == SFT_E_NOMEM ? sft__base_fail_nomem(err, 1) : SFT_OK;
}

/* A folder's metadata.json may be anybody's. */
static sft_status is_mindformers(sft_checkpoint *c, const char *folder, bool *found,
                                 sft_error *err) {
    static const char key[] = "\"state_dict_metadata\"";
    sft__checkpoint_text text;
    bool there;
    SFT_TRY(read_if_there(c, folder, "latest_checkpointed_iteration.txt", &text, found, err));
    if (*found) {
        sft__checkpoint_text_reset(&text);
        return SFT_OK;
    }
    SFT_TRY(read_if_there(c, folder, "metadata.json", &text, &there, err));
    if (!there) {
        return SFT_OK;
    }
    for (size_t i = 0; !*found && i + sizeof key - 1 <= text.size; i++) {
        *found = text.data[i] == '"' && memcmp(text.data + i, key, sizeof key - 1) == 0;
    }
    sft__checkpoint_text_reset(&text);
    return SFT_OK;
}

static sft_status look(sft_checkpoint *c, const char *folder, sft_error *err) {
    sight s;
    memset(&s, 0, sizeof s);
    c->kind = SFT_CHECKPOINT_NONE;
    SFT_TRY(sft__fs_list(folder, see, &s, err));
    bool mindformers = false;
    bool sharded = false;
    if (s.metadata && !s.ranks && !s.topology) {
        SFT_TRY(is_mindformers(c, folder, &mindformers, err));
    }
    if (s.weights && !s.index && !s.ranks && !s.topology && !mindformers && !s.name_map) {
        SFT_TRY(has_sharding_info(c, folder, s.first, &sharded, err));
    }
    c->kind = s.ranks       ? SFT_CHECKPOINT_RANKS
              : s.topology  ? SFT_CHECKPOINT_TOPOLOGY
              : mindformers ? SFT_CHECKPOINT_MINDFORMERS
              : s.name_map  ? SFT_CHECKPOINT_COMPLETE
              : sharded     ? SFT_CHECKPOINT_DCP
                            : SFT_CHECKPOINT_NONE;
    if (c->kind == SFT_CHECKPOINT_NONE && s.stepped && !s.unstepped && !s.index) {
        bool steps;
        SFT_TRY(sft__checkpoint_are_steps(c, folder, &steps, err));
        c->kind = steps ? SFT_CHECKPOINT_STEPS : SFT_CHECKPOINT_NONE;
    }
    return SFT_OK;
}

/* The folder of a description that was named instead of it. */
static sft_status find_folder(sft_checkpoint *c, const char *path, sft_error *err) {
    static const char *const descriptions[] = {"param_name_map.json", "metadata.json",
                                               "topology.json"};
    const size_t len = strlen(path);
    size_t base = len;
    bool named = false;
    while (base > 0 && path[base - 1] != '/' && path[base - 1] != '\\') {
        base--;
    }
    for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++) {
        named = named || strcmp(path + base, descriptions[i]) == 0;
    }
    if (sft__fs_is_directory(path)) {
        c->folder = sft__base_arena_copy(&c->arena, path, len);
    } else if (named) {
        c->folder = base == 0 ? sft__base_arena_copy(&c->arena, ".", 1)
                              : sft__base_arena_copy(&c->arena, path, base);
    } else {
        return SFT_OK; /* folder stays NULL: nothing of ours */
    }
    return c->folder != NULL ? SFT_OK : sft__checkpoint_nomem(c, len, err);
}

/* ---------------------------------------------------------------- the object */

sft_status sft__checkpoint_create(sft_checkpoint **out, const sft_checkpoint_options *options,
                                  sft_error *err) {
    sft_checkpoint_options o;
    sft_open_options open;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_checkpoint_options, open),
                                   "options", err));
    SFT_TRY(sft__base_options_read(&open, sizeof open, o.open,
                                   SFT__UP_TO(sft_open_options, allocator), "options of opening",
                                   err));
    const sft_allocator *const a = sft__base_allocator(open.allocator);
    sft_checkpoint *const c = sft__base_alloc_zero(a, sizeof *c);
    if (c == NULL) {
        return sft__base_fail_nomem(err, sizeof *c);
    }
    c->allocator = a;
    const sft_status status = sft__base_limits_read(&c->limits, open.limits, err);
    if (status != SFT_OK) {
        sft__base_free(a, c, sizeof *c);
        return status;
    }
    c->open = open;
    c->open.limits = &c->limits;
    c->layout_path = "";
    sft__base_arena_init(&c->arena, a, c->limits.memory_bytes);
    c->layouts = o.layouts;
    c->step = o.step;
    c->other = o.other;
    c->other_ctx = o.other_ctx;
    c->partial = (o.flags & SFT_CHECKPOINT_PARTIAL) != 0;
    c->absent = "";
    *out = c;
    return SFT_OK;
}

void sft_checkpoint_close(sft_checkpoint *checkpoint) {
    if (checkpoint == NULL) {
        return;
    }
    const sft_allocator *const a = checkpoint->allocator;
    for (size_t i = 0; i < checkpoint->count; i++) {
        sft_catalog_close(checkpoint->catalogs[i]);
    }
    sft_layout_set_free(checkpoint->own);
    sft__base_free(a, checkpoint->parts, checkpoint->room * sizeof *checkpoint->parts);
    sft__base_free(a, checkpoint->catalogs,
                   checkpoint->catalog_room * sizeof *checkpoint->catalogs);
    sft__base_free(a, checkpoint->gaps, checkpoint->gap_room * sizeof *checkpoint->gaps);
    sft__base_arena_free(&checkpoint->arena);
    sft__base_free(a, checkpoint, sizeof *checkpoint);
}

sft_status sft_checkpoint_detect(const char *path, uint32_t *kind, sft_error *err) {
    sft_checkpoint *c;
    *kind = SFT_CHECKPOINT_NONE;
    SFT_TRY(sft__checkpoint_create(&c, NULL, err));
    sft_status status = find_folder(c, path, err);
    if (status == SFT_OK && c->folder != NULL) {
        status = look(c, c->folder, err);
        *kind = c->kind;
    }
    sft_checkpoint_close(c);
    return status;
}

sft_status sft__checkpoint_add(sft_checkpoint *c, uint64_t rank, sft_catalog *catalog,
                               sft_error *err) {
    if (!sft__base_grow(c->allocator, &c->parts, &c->room, c->count + 1, sizeof *c->parts) ||
        !sft__base_grow(c->allocator, &c->catalogs, &c->catalog_room, c->count + 1,
                        sizeof *c->catalogs)) {
        sft_catalog_close(catalog);
        return sft__base_fail_nomem(err, (c->count + 1) * sizeof *c->parts);
    }
    c->parts[c->count].rank = rank;
    c->parts[c->count].catalog = catalog;
    c->catalogs[c->count++] = catalog;
    return SFT_OK;
}

/* ---------------------------------------------------------------- files */

sft_status sft__checkpoint_open_below(const char *folder, const char *name,
                                      const sft_allocator *allocator, sft_source **out,
                                      bool *missing, sft_error *err) {
    sft__fs_root root = {SFT__FS_NO_HANDLE, folder, SFT__FS_LINKS_INSIDE};
    sft__fs_handle file;
    sft__fs_stat inside;
    sft__fs_stat opened;
    sft__base_buf path;

    *out = NULL;
    *missing = false;
    SFT_TRY(sft__fs_open_any(folder, &root.directory, &inside, err));
    sft_status status = sft__fs_open_below(&root, name, &file, &inside, missing, err);
    sft__fs_close(root.directory);
    SFT_TRY(status);
    sft__base_buf_init(&path, allocator);
    sft__base_buf_text(&path, folder);
    sft__base_buf_text(&path, "/");
    sft__base_buf_add(&path, name, strlen(name) + 1);
    status = path.failed ? sft__base_fail_nomem(err, strlen(name))
                         : sft_source_open(out, path.data, SFT_ACCESS_READ, allocator, err);
    /* a source is opened by a name, which may lead elsewhere by now */
    const int fd = status == SFT_OK ? sft_source_descriptor(*out) : -1;
    if (fd >= 0 && (sft__fs_stat_fd(fd, name, &opened, NULL) != SFT_OK ||
                    inside.device != opened.device || inside.inode != opened.inode)) {
        sft_source_close(*out);
        *out = NULL;
        status = sft__base_fail(err, SFT_E_CHANGED, "%s was replaced while it was opened", name);
    }
    sft__fs_close(file);
    sft__base_buf_reset(&path);
    return status;
}

typedef struct named_file {
    const sft_checkpoint *c;
    bool missing;
    sft_error *err;
} named_file;

static sft_status open_below(void *ctx, const char *const *names, size_t count,
                             sft_source **sources, sft_error *err) {
    named_file *const f = ctx;
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(sft__checkpoint_open_below(f->c->folder, names[i], f->c->allocator, &sources[i],
                                           &f->missing, err));
    }
    return SFT_OK;
}

sft_status sft__checkpoint_open_named(sft_checkpoint *c, const char *name, sft_catalog **out,
                                      bool *missing, sft_error *err) {
    const char *const names[] = {name};
    named_file f = {c, false, err};
    sft_model_files files;
    SFT_INIT(&files);
    files.names = names;
    files.name_count = 1;
    files.open = open_below;
    files.ctx = &f;
    *missing = false;
    sft_error why;
    const sft_status status = sft_catalog_open_model(out, &files, &c->open, &why);
    if (status != SFT_OK && f.missing) {
        *missing = true;
        return SFT_OK;
    }
    if (status == SFT_E_ARG) { /* what would be a caller's fault was the description's */
        return sft__base_fail(err, SFT_E_SCHEMA, "file name \"%.200s\" in the description: %s",
                              name, why.message);
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

sft_status sft__checkpoint_open_file(sft_checkpoint *c, const char *path, sft_catalog **out,
                                     sft_error *err) {
    if (sft__checkpoint_ends(path, strlen(path), ".safetensors")) {
        return sft_catalog_open(out, path, &c->open, err);
    }
    *out = NULL;
    if (c->other == NULL) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "%s is no safetensors file, and nothing here reads it", path);
    }
    return c->other(c->other_ctx, path, &c->open, out, err);
}

sft_status sft__checkpoint_check_named(const sft_checkpoint *c, sft_error *err) {
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < sft_catalog_count(c->parts[i].catalog); k++) {
            const sft_tensor *const t = sft_catalog_at(c->parts[i].catalog, k);
            const sft_layout *layout;
            uint64_t shape[SFT_LAYOUT_RANK];
            size_t dims;
            const sft_file *const file = sft_catalog_file_at(c->parts[i].catalog, 0);
            const sft_status status = sft__checkpoint_lset_find_part(
                c->layouts, t, c->parts[i].rank, &layout, shape, &dims, err);
            if (status == SFT_OK &&
                (layout == NULL || !sft_layout_holds(layout, c->parts[i].rank))) {
                return sft__base_fail_tensor(
                    err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, t->name, t->name_len,
                    "is in %s, but the description does not say so", file->path);
            }
            SFT_TRY(status);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- opening */

static sft_status open_kind(sft_checkpoint *c, const char *path, sft_error *err) {
    SFT_TRY(find_folder(c, path, err));
    if (c->folder != NULL) {
        SFT_TRY(look(c, c->folder, err));
    }
    if (c->kind ==
        SFT_CHECKPOINT_RANKS) { /* files of two models, perhaps, and the layout of neither */
        SFT_TRY(sft_model_check(c->folder, err));
    }
    switch (c->kind) {
    case SFT_CHECKPOINT_COMPLETE:
        return sft__checkpoint_complete(c, err);
    case SFT_CHECKPOINT_STEPS:
        return sft__checkpoint_steps(c, err);
    case SFT_CHECKPOINT_RANKS:
        SFT_TRY(sft__checkpoint_ranks(c, err));
        return sft__checkpoint_keeps_promise(c, err);
    case SFT_CHECKPOINT_DCP:
        return sft__checkpoint_dcp(c, err);
    case SFT_CHECKPOINT_MINDFORMERS:
        SFT_TRY(sft__checkpoint_mindformers(c, err));
        return sft__checkpoint_keeps_promise(c, err);
    case SFT_CHECKPOINT_TOPOLOGY:
        SFT_TRY(sft__checkpoint_topology(c, err));
        return sft__checkpoint_keeps_promise(c, err);
    default:
        return sft__base_fail(err, SFT_E_FORMAT, "%s holds no checkpoint of many ranks", path);
    }
}

sft_status sft_checkpoint_open(sft_checkpoint **out, const char *path,
                               const sft_checkpoint_options *options, sft_error *err) {
    sft_checkpoint *c;
    *out = NULL;
    SFT_TRY(sft__checkpoint_create(&c, options, err));
    const sft_status status = open_kind(c, path, err);
    if (status != SFT_OK) {
        sft_checkpoint_close(c);
        return status;
    }
    *out = c;
    return SFT_OK;
}

/* Slots of catalogs stay empty: they are the caller's. */
static sft_status borrow(sft_checkpoint *c, const sft_rank_part *parts, size_t count,
                         sft_error *err) {
    if (!sft__base_grow(c->allocator, &c->parts, &c->room, count + 1, sizeof *c->parts) ||
        !sft__base_grow(c->allocator, &c->catalogs, &c->catalog_room, count + 1,
                        sizeof *c->catalogs)) {
        return sft__base_fail_nomem(err, (count + 1) * sizeof *c->parts);
    }
    memcpy(c->parts, parts, count * sizeof *parts);
    memset((void *)c->catalogs, 0, count * sizeof *c->catalogs);
    c->count = count;
    return SFT_OK;
}

sft_status sft_checkpoint_from_ranks(sft_checkpoint **out, const sft_rank_part *parts, size_t count,
                                     sft_layout_set *layouts, sft_error *err) {
    sft_checkpoint_options o;
    sft_checkpoint *c;
    SFT_INIT(&o);
    o.layouts = layouts;
    *out = NULL;
    if (count == 0) {
        return sft__base_fail(err, SFT_E_ARG, "no ranks");
    }
    SFT_TRY(sft__checkpoint_create(&c, &o, err));
    c->kind = SFT_CHECKPOINT_RANKS;
    sft_status status = borrow(c, parts, count, err);
    if (status == SFT_OK && layouts != NULL) {
        status = sft__checkpoint_lset_learn(layouts, c->parts, c->count, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_keeps_promise(c, err);
    }
    if (status != SFT_OK) {
        sft_checkpoint_close(c);
        return status;
    }
    *out = c;
    return SFT_OK;
}

uint32_t sft_checkpoint_kind_of(const sft_checkpoint *checkpoint) {
    return checkpoint->kind;
}

const sft_rank_part *sft_checkpoint_ranks(const sft_checkpoint *checkpoint, size_t *count) {
    *count = checkpoint->count;
    return checkpoint->parts;
}

const sft_layout_set *sft_checkpoint_layouts(const sft_checkpoint *checkpoint) {
    return checkpoint->layouts;
}

const char *sft_checkpoint_layout_path(const sft_checkpoint *checkpoint) {
    return checkpoint->layout_path;
}

sft_status sft__checkpoint_find_part(void *checkpoint, const sft_tensor *tensor, uint64_t rank,
                                     const sft_layout **layout, uint64_t *shape, size_t *dims,
                                     sft_error *err) {
    const sft_checkpoint *const c = checkpoint;
    *layout = NULL;
    if (c->layouts == NULL) {
        return SFT_OK;
    }
    return sft__checkpoint_lset_find_part(c->layouts, tensor, rank, layout, shape, dims, err);
}

const char *sft_checkpoint_absent(const sft_checkpoint *checkpoint) {
    return checkpoint->absent;
}

static sft_status join(sft_catalog **out, const sft_checkpoint *c, const sft_open_options *options,
                       sft_source *keeper, sft_error *err) {
    const sft__checkpoint_join what = {c->parts,
                                       c->count,
                                       sft__checkpoint_find_part,
                                       (void *)(uintptr_t)c,
                                       c->gaps,
                                       c->gap_count,
                                       c->skipped,
                                       c->partial};
    return sft__checkpoint_join_keeping(out, &what, options, keeper, err);
}

sft_status sft_checkpoint_join_ranks(sft_catalog **out, const sft_checkpoint *checkpoint,
                                     const sft_open_options *options, sft_error *err) {
    return join(out, checkpoint, options, NULL, err);
}

static sft_status read_nothing(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    (void)self;
    (void)offset;
    (void)dst;
    (void)size;
    return sft__base_fail(err, SFT_E_INTERNAL, "a source without bytes was read");
}

static void close_checkpoint(void *self) {
    sft_checkpoint_close(self);
}

sft_status sft_checkpoint_take_whole(sft_catalog **out, sft_checkpoint *checkpoint,
                                     const sft_open_options *options, sft_error *err) {
    sft_source_vtable vtable;
    sft_source *keeper;
    *out = NULL;
    if (checkpoint->kind == SFT_CHECKPOINT_COMPLETE || checkpoint->kind == SFT_CHECKPOINT_STEPS) {
        /* one catalog already: it needs no keeper */
        *out = checkpoint->catalogs[0];
        checkpoint->count = 0;
        sft_checkpoint_close(checkpoint);
        return SFT_OK;
    }
    sft_zero(&vtable, sizeof vtable);
    vtable.struct_size = sizeof vtable;
    vtable.read_at = read_nothing;
    vtable.close = close_checkpoint;
    const sft_status status = sft_source_create(&keeper, &vtable, checkpoint, 0, 0,
                                                checkpoint->folder, checkpoint->allocator, err);
    if (status != SFT_OK) {
        sft_checkpoint_close(checkpoint);
        return status;
    }
    return join(out, checkpoint, options, keeper, err);
}
