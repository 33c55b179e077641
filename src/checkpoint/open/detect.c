/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/detect.c - which kind of checkpoint a directory holds, from its names and as few bytes as
 * tell: nothing is opened that the answer does not need. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/run/steps.h"
#include "fs/below.h"

static const char *const kind_titles[] = {
#define ROW(name, number, word, title) [number] = title,
    SFT_CHECKPOINT_KIND_MAP(ROW)
#undef ROW
};

const char *sft_checkpoint_kind_title(uint32_t kind) {
    return kind_titles[kind < sizeof kind_titles / sizeof kind_titles[0] ? kind : 0];
}

typedef struct sight {
    bool ranks, topology, metadata, name_map, index, weights, manifest;
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
    s->manifest = s->manifest || is_name(name, len, SFT__RUN_MANIFEST);
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

/* One file of a directory that PyTorch wrote says what is in it. What cannot be opened says nothing.
 */
static sft_status has_sharding_info(sft_checkpoint *c, const char *directory, const char *name,
                                    bool *found, sft_error *err) {
    static const char key[] = "DCP_SHARDING_INFO";
    const char *path;
    sft_catalog *catalog;
    SFT_TRY(sft__checkpoint_path(c, directory, name, &path, err));
    const sft_status status = sft_catalog_open(&catalog, path, &c->open, NULL);
    if (status == SFT_OK) {
        *found = sft_catalog_metadata_find(catalog, 0, key, sizeof key - 1, NULL) != NULL;
        sft_catalog_close(catalog);
    }
    return status == SFT_E_NOMEM ? sft__base_fail_nomem(err, sizeof key) : SFT_OK;
}

/* The text of a description in the directory; *found: it could be read. */
static sft_status read_if_there(sft_checkpoint *c, const char *directory, const char *name,
                                sft__checkpoint_text *text, bool *found, sft_error *err) {
    const char *path;
    SFT_TRY(sft__checkpoint_path(c, directory, name, &path, err));
    const sft_status status = sft__checkpoint_read(c, path, text, NULL);
    *found = status == SFT_OK;
    return status == SFT_E_NOMEM ? sft__base_fail_nomem(err, 1) : SFT_OK;
}

/* A directory's metadata.json may be anybody's. */
static sft_status is_mindformers(sft_checkpoint *c, const char *directory, bool *found,
                                 sft_error *err) {
    static const char key[] = "\"state_dict_metadata\"";
    sft__checkpoint_text text;
    bool there;
    SFT_TRY(read_if_there(c, directory, "latest_checkpointed_iteration.txt", &text, found, err));
    if (*found) {
        sft__checkpoint_text_reset(&text);
        return SFT_OK;
    }
    SFT_TRY(read_if_there(c, directory, "metadata.json", &text, &there, err));
    if (!there) {
        return SFT_OK;
    }
    for (size_t i = 0; !*found && i + sizeof key - 1 <= text.size; i++) {
        *found = text.data[i] == '"' && memcmp(text.data + i, key, sizeof key - 1) == 0;
    }
    sft__checkpoint_text_reset(&text);
    return SFT_OK;
}

/* A directory's manifest.json may be anybody's, too. */
static sft_status is_run_step(sft_checkpoint *c, const char *directory, bool *found,
                              sft_error *err) {
    sft__checkpoint_run_manifest m;
    const sft_status status = sft__checkpoint_run_manifest_read(&m, directory, &c->arena, NULL);
    *found = status == SFT_OK;
    return status == SFT_E_NOMEM ? sft__base_fail_nomem(err, 1) : SFT_OK;
}

static sft_status look(sft_checkpoint *c, const char *directory, sft_error *err) {
    sight s;
    memset(&s, 0, sizeof s);
    c->kind = SFT_CHECKPOINT_NONE;
    SFT_TRY(sft__fs_list(directory, see, &s, err));
    bool mindformers = false;
    bool sharded = false;
    bool step = false;
    if (s.manifest && !s.ranks && !s.topology) {
        SFT_TRY(is_run_step(c, directory, &step, err));
    }
    if (s.metadata && !s.ranks && !s.topology) {
        SFT_TRY(is_mindformers(c, directory, &mindformers, err));
    }
    if (s.weights && !s.index && !s.ranks && !s.topology && !mindformers && !s.name_map) {
        SFT_TRY(has_sharding_info(c, directory, s.first, &sharded, err));
    }
    c->two = s.ranks && s.name_map && s.weights;
    c->kind = step                     ? SFT_CHECKPOINT_STEP
              : c->two && c->map_named ? SFT_CHECKPOINT_COMPLETE
              : s.ranks                ? SFT_CHECKPOINT_RANKS
              : s.topology             ? SFT_CHECKPOINT_TOPOLOGY
              : mindformers            ? SFT_CHECKPOINT_MINDFORMERS
              : s.name_map             ? SFT_CHECKPOINT_COMPLETE
              : sharded                ? SFT_CHECKPOINT_DCP
                                       : SFT_CHECKPOINT_NONE;
    if (c->kind == SFT_CHECKPOINT_NONE && s.stepped && !s.unstepped && !s.index) {
        bool steps;
        SFT_TRY(sft__checkpoint_are_steps(c, directory, &steps, err));
        c->kind = steps ? SFT_CHECKPOINT_STEPS : SFT_CHECKPOINT_NONE;
    }
    return SFT_OK;
}

/* The directory of a description that was named instead of it. */
static sft_status find_directory(sft_checkpoint *c, const char *path, sft_error *err) {
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
    c->map_named = strcmp(path + base, descriptions[0]) == 0;
    if (sft__fs_is_directory(path)) {
        c->directory = sft__base_arena_copy(&c->arena, path, len);
    } else if (named) {
        c->directory = base == 0 ? sft__base_arena_copy(&c->arena, ".", 1)
                                 : sft__base_arena_copy(&c->arena, path, base);
    } else {
        return SFT_OK; /* c->directory stays NULL: nothing of ours */
    }
    return c->directory != NULL ? SFT_OK : sft__checkpoint_nomem(c, len, err);
}

sft_status sft__checkpoint_detect(sft_checkpoint *c, const char *path, sft_error *err) {
    SFT_TRY(find_directory(c, path, err));
    return c->directory != NULL ? look(c, c->directory, err) : SFT_OK;
}

sft_status sft_checkpoint_detect(const char *path, uint32_t *kind, sft_error *err) {
    sft_checkpoint *c;
    *kind = SFT_CHECKPOINT_NONE;
    SFT_TRY(sft__checkpoint_create(&c, NULL, err));
    const sft_status status = sft__checkpoint_detect(c, path, err);
    *kind = c->kind;
    sft_checkpoint_close(c);
    return status;
}
