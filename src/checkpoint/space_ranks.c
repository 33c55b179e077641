/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/space_ranks.c - a folder for each rank, rank_N/NAME_rank_N-EPOCH_STEP.safetensors or
 * .ckpt: which of its files is meant, and where the layout is. Read checkpoint/space.h first.
 */
#include "base/error.h"
#include "checkpoint/space.h"
#include <stdlib.h>

/* A rank's folder and the file chosen in it. */
typedef struct rank_folder {
    uint64_t rank;
    const char *folder;
    const char *file; /* NULL: none */
    uint64_t epoch;
    uint64_t step;
    bool stepped;
} rank_folder;

typedef struct folders {
    sft_checkpoint *c;
    rank_folder *list;
    size_t count;
    size_t room;
} folders;

/* ---------------------------------------------------------------- which file */

static const char *base_of(const char *name, size_t *len) {
    static const char *const extensions[] = {".safetensors", ".ckpt"};
    *len = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        if (sft__space_ends(name, *len, extensions[i])) {
            *len -= strlen(extensions[i]);
            break;
        }
    }
    return name;
}

/* Does the name, without its extension, end in what was asked for? */
static bool is_wanted(const sft_checkpoint *c, const char *name) {
    size_t len;
    (void)base_of(name, &len);
    return c->step == NULL || sft__space_ends(name, len, c->step);
}

static bool is_newer(const rank_folder *a, const rank_folder *b) {
    return a->epoch != b->epoch ? a->epoch > b->epoch : a->step > b->step;
}

static sft_status several(const rank_folder *f, const char *other, sft_error *err) {
    return sft__fail(err, SFT_E_DUPLICATE,
                     "rank %llu has several files, %s and %s: say which by the end of its name",
                     (unsigned long long)f->rank, f->file, other);
}

/* Keeps the newest file; two of one step cannot be told apart. */
static sft_status consider(rank_folder *best, const char *name, sft_error *err) {
    rank_folder one = *best;
    one.file = name;
    one.stepped = sft__space_step_of(name, strlen(name), &one.epoch, &one.step);
    if (best->file == NULL) {
        *best = one;
        return SFT_OK;
    }
    if (one.stepped != best->stepped) { /* a file with a step beats one without */
        *best = one.stepped ? one : *best;
        return SFT_OK;
    }
    if (!one.stepped || (one.epoch == best->epoch && one.step == best->step)) {
        return several(best, name, err);
    }
    *best = is_newer(&one, best) ? one : *best;
    return SFT_OK;
}

static sft_status choose(sft_checkpoint *c, rank_folder *f, sft_error *err) {
    sft__space_names names = {c, NULL, 0, 0, {".safetensors", ".ckpt"}};
    sft_status status = sft__space_list(&names, f->folder, err);
    for (size_t i = 0; i < names.count && status == SFT_OK; i++) {
        if (is_wanted(c, names.list[i])) {
            status = consider(f, names.list[i], err);
        }
    }
    sft__space_names_reset(&names);
    return status;
}

/* ---------------------------------------------------------------- all ranks */

static int by_rank(const void *a, const void *b) {
    const rank_folder *const x = a;
    const rank_folder *const y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static sft_status collect(folders *f, sft_error *err) {
    sft__space_names names = {f->c, NULL, 0, 0, {NULL, NULL}};
    sft_status status = sft__space_list(&names, f->c->folder, err);
    for (size_t i = 0; i < names.count && status == SFT_OK; i++) {
        uint64_t rank;
        if (!sft__space_rank_of(names.list[i], strlen(names.list[i]), &rank)) {
            continue;
        }
        if (!sft__grow(f->c->allocator, &f->list, &f->room, f->count + 1, sizeof *f->list)) {
            status = sft__fail_nomem(err, (f->count + 1) * sizeof *f->list);
            break;
        }
        rank_folder *const one = &f->list[f->count++];
        memset(one, 0, sizeof *one);
        one->rank = rank;
        status = sft__space_path(f->c, f->c->folder, names.list[i], &one->folder, err);
        bool folder = false;
        if (status == SFT_OK) {
            status = sft__ck_look(one->folder, &folder, err);
        }
        if (folder) {
            status = choose(f->c, one, err);
        }
    }
    sft__space_names_reset(&names);
    if (status == SFT_OK && f->count > 1) {
        qsort(f->list, f->count, sizeof *f->list, by_rank);
    }
    return status;
}

/* The files of all ranks are of one step and one format. */
static sft_status compare(const folders *f, sft_error *err) {
    const rank_folder *first = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const rank_folder *const one = &f->list[i];
        if (i > 0 && one->rank == one[-1].rank) {
            return sft__fail(err, SFT_E_DUPLICATE, "rank %llu has two folders",
                             (unsigned long long)one->rank);
        }
        if (one->file == NULL) {
            continue;
        }
        first = first == NULL ? one : first;
        if (one->stepped != first->stepped || one->epoch != first->epoch ||
            one->step != first->step) {
            return sft__fail(
                err, SFT_E_MISMATCH,
                "ranks are of different steps: rank %llu has %s, rank %llu %s: say which step",
                (unsigned long long)first->rank, first->file, (unsigned long long)one->rank,
                one->file);
        }
        if (sft__space_ends(one->file, strlen(one->file), ".ckpt") !=
            sft__space_ends(first->file, strlen(first->file), ".ckpt")) {
            return sft__fail(err, SFT_E_MISMATCH, "rank %llu has %s, rank %llu %s: two formats",
                             (unsigned long long)first->rank, first->file,
                             (unsigned long long)one->rank, one->file);
        }
    }
    if (first == NULL) {
        return sft__fail(err, SFT_E_FORMAT, "no rank has a file%s%s",
                         f->c->step != NULL ? " whose name ends in " : "",
                         f->c->step != NULL ? f->c->step : "");
    }
    return SFT_OK;
}

static sft_status open_all(const folders *f, sft_error *err) {
    for (size_t i = 0; i < f->count; i++) {
        sft_catalog *catalog;
        const char *path;
        if (f->list[i].file == NULL) {
            continue; /* replicas may stand in: join finds out */
        }
        SFT_TRY(sft__space_path(f->c, f->list[i].folder, f->list[i].file, &path, err));
        sft_error why;
        const sft_status status = sft__space_open_file(f->c, path, &catalog, &why);
        if (status != SFT_OK) {
            return sft_error_set(err, status, why.sys, why.offset, why.tensor, strlen(why.tensor),
                                 "%s: %s", path, why.message);
        }
        SFT_TRY(sft__space_add(f->c, f->list[i].rank, catalog, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the layout */

/* Where frameworks leave it. */
static sft_status find_layout(sft_checkpoint *c, size_t ranks, sft_error *err) {
    static const char *const places[] = {"layout.json", "strategy", "strategy.ckpt", "../strategy",
                                         "../merged_strategy"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        sft_layout_set_options options;
        const char *path;
        sft_error why;
        SFT_TRY(sft__space_path(c, c->folder, places[i], &path, err));
        SFT_INIT(&options);
        options.allocator = c->allocator;
        options.limits = &c->limits;
        const sft_status status = sft_layout_set_open(&c->own, path, &options, &why);
        if (status == SFT_OK) {
            c->layouts = c->own;
            c->layout_path = path;
            return SFT_OK;
        }
        if (status != SFT_E_IO && status != SFT_E_FORMAT) {
            return sft_error_set(err, status, why.sys, why.offset, why.tensor, strlen(why.tensor),
                                 "%s: %s", path, why.message);
        }
    }
    if (ranks == 1) { /* all there ever was, as far as anybody says */
        return SFT_OK;
    }
    return sft__fail(err, SFT_E_NOT_FOUND,
                     "how tensors are cut among the %llu ranks is not known: a layout is needed",
                     (unsigned long long)c->count);
}

/* Tensors that a layout does not name count as replicas: with a layout of too few ranks (one stage
 * of several, say) parts would be taken for wholes. */
static sft_status check_ranks(const sft_checkpoint *c, sft_error *err) {
    const uint64_t ranks = sft_layout_set_ranks(c->layouts);
    const uint64_t last =
        c->parts[c->count - 1].rank; /* sorted, and not empty: compare() saw to it */
    if (last >= ranks && c->count > 1) {
        return sft__fail(err, SFT_E_MISMATCH,
                         "there is a rank %llu, and the layout is for %llu ranks",
                         (unsigned long long)last, (unsigned long long)ranks);
    }
    return SFT_OK;
}

sft_status sft__space_ranks(sft_checkpoint *c, sft_error *err) {
    folders f = {c, NULL, 0, 0};
    sft_status status = collect(&f, err);
    if (status == SFT_OK) {
        status = compare(&f, err);
    }
    if (status == SFT_OK) {
        status = open_all(&f, err);
    }
    if (status == SFT_OK && c->layouts == NULL) {
        status = find_layout(c, f.count, err);
    }
    if (status == SFT_OK && c->layouts != NULL) {
        status = check_ranks(c, err);
    }
    if (status == SFT_OK && c->layouts != NULL) {
        status = sft_layout_set_learn(c->layouts, c->parts, c->count, err);
    }
    sft__free(c->allocator, f.list, f.room * sizeof *f.list);
    return status;
}
