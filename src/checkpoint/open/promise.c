/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/promise.c - what a checkpoint must hold: the names that its layout or description
 * gives to ranks, and the ranks themselves. Files cannot tell what is missing altogether. Boxes of
 * tensors that are there are join's matter. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/parallel.h"
#include "checkpoint/open/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>

#define RECORD     "dedupe.json"
#define MOST_RANKS (UINT64_C(1) << 17) /* that are looked through for those without a file */
#define MOST_GAPS  1024u               /* that are counted, unless all are to be told */
#define MANY_GAPS  32u                 /* from here on a table of all names is worth its making */

/* Name and length come first: base/text/strmap.h reads them there. */
typedef struct known_name {
    const char *name;
    size_t len;
} known_name;

typedef struct promise {
    sft_checkpoint *c;
    const sft_layout_set *set;
    size_t hit;    /* of the parts: where the name before was found */
    bool any_rank; /* of the name at hand: one of its ranks has a file */
    sft__checkpoint_lset_runs runs;
    const char *last_why; /* of the last name that one mesh has, in the arena */
    size_t last_mesh;
    known_name *names; /* of all parts, made when many names are missing */
    size_t name_room;
    sft__base_strmap map;
    int64_t *by_rank; /* how many meshes have rank i, as differences; MOST_RANKS and one more */
    int64_t *by_part; /* the same of the parts */
    bool *mesh_there; /* by mesh: some rank of it has a file */
    sft_error *err;
} promise;

static int by_rank(const void *key, const void *part) {
    const uint64_t a = *(const uint64_t *)key;
    const uint64_t b = ((const sft_rank_part *)part)->rank;
    return a < b ? -1 : a > b;
}

static bool has_file(const sft_checkpoint *c, uint64_t rank) {
    return c->count != 0 && bsearch(&rank, c->parts, c->count, sizeof *c->parts, by_rank) != NULL;
}

/* ---------------------------------------------------------------- gaps */

/* why: kept as it is where it lies in the arena already. */
static sft_status add_gap(promise *p, const char *name, size_t len, const char *why) {
    sft_checkpoint *const c = p->c;
    SFT_NEED(
        sft__base_grow(c->allocator, &c->gaps, &c->gap_room, c->gap_count + 1, sizeof *c->gaps),
        (c->gap_count + 1) * sizeof *c->gaps, p->err);
    sft__checkpoint_gap *const gap = &c->gaps[c->gap_count];
    gap->name = sft__base_arena_copy(&c->arena, name, len);
    gap->len = len;
    gap->why = why == p->last_why ? why : sft__base_arena_copy(&c->arena, why, strlen(why));
    if (gap->name == NULL || gap->why == NULL) {
        return sft__checkpoint_nomem(c, len, p->err);
    }
    c->gap_count++;
    return SFT_OK;
}

static void note_rank(void *ctx, uint64_t rank) {
    promise *const p = ctx;
    p->any_rank = p->any_rank || has_file(p->c, rank);
    sft__checkpoint_lset_runs_add(&p->runs, rank);
}

/* elsewhere: a part that has it and should not, or SIZE_MAX. */
static sft_status nobody_has(promise *p, size_t at, size_t elsewhere) {
    const sft__checkpoint_lset_entry *const e = &p->set->entries[at];
    const bool of_mesh = e->next == 0 && e->kind != SFT__LSET_WHOLE && e->kind != SFT__LSET_BOXES &&
                         elsewhere == SIZE_MAX;
    sft__base_buf text;
    if (of_mesh && p->last_why != NULL && p->last_mesh == e->mesh) {
        return add_gap(p, e->name, e->name_len, p->last_why); /* of the same ranks */
    }
    memset(&p->runs, 0, sizeof p->runs);
    sft__base_buf_init(&p->runs.text, p->c->allocator);
    sft__base_buf_init(&text, p->c->allocator);
    p->any_rank = false;
    const bool all = sft__checkpoint_lset_each_rank(p->set, at, note_rank, p);
    sft__checkpoint_lset_runs_end(&p->runs);
    sft__base_buf_text(&text, "no file holds it");
    if (p->runs.count != 0) {
        sft__base_buf_text(&text, ": the layout gives it to rank");
        sft__base_buf_text(&text, p->runs.count == 1 && p->runs.first == p->runs.last ? " " : "s ");
        sft__base_buf_add(&text, p->runs.text.data, p->runs.text.len);
        sft__base_buf_text(&text, !all ? " and more" : p->any_rank ? "" : ", which have no file");
    }
    if (elsewhere != SIZE_MAX) {
        sft__base_buf_text(&text, ", not to rank ");
        sft__base_buf_u64(&text, p->c->parts[elsewhere].rank);
        sft__base_buf_text(&text, ", which has it");
    }
    sft__base_buf_add(&text, "", 1);
    const bool failed = text.failed || p->runs.text.failed;
    const sft_status status = failed ? sft__base_fail_nomem(p->err, text.len)
                                     : add_gap(p, e->name, e->name_len, text.data);
    if (status == SFT_OK && of_mesh) {
        p->last_why = p->c->gaps[p->c->gap_count - 1].why;
        p->last_mesh = e->mesh;
    }
    sft__base_buf_reset(&p->runs.text);
    sft__base_buf_reset(&text);
    return status;
}

/* MindSpore accumulates gradients in parameters of the graph that it never saves. */
static bool is_never_saved(const sft__checkpoint_lset_entry *e) {
    static const char start[] = "accu_grads";
    return e->name_len >= sizeof start - 1 && memcmp(e->name, start, sizeof start - 1) == 0;
}

/* Every name that some part has. */
static sft_status know_names(promise *p) {
    const sft_allocator *const a = p->c->allocator;
    size_t n = 0;
    for (size_t i = 0; i < p->c->count; i++) {
        p->name_room += sft_catalog_count(p->c->parts[i].catalog); /* they lie in memory */
    }
    p->names = sft__base_alloc_array(a, p->name_room + 1, sizeof *p->names);
    SFT_NEED(p->names != NULL &&
                 sft__base_strmap_init(&p->map, p->names, sizeof *p->names, p->name_room + 1, a),
             p->name_room * sizeof *p->names, p->err);
    for (size_t i = 0; i < p->c->count; i++) {
        for (size_t k = 0; k < sft_catalog_count(p->c->parts[i].catalog); k++) {
            const sft_tensor *const t = sft_catalog_at(p->c->parts[i].catalog, k);
            p->names[n].name = t->name;
            p->names[n].len = t->name_len;
            n += sft__base_strmap_add(&p->map, n) == SFT__STRMAP_NONE;
        }
    }
    return SFT_OK;
}

static sft_status look_for(promise *p, size_t at) {
    const sft__checkpoint_lset_entry *const e = &p->set->entries[at];
    size_t elsewhere = SIZE_MAX;
    if (p->names == NULL && p->c->gap_count >= MANY_GAPS) {
        SFT_TRY(know_names(p));
    }
    if (p->names != NULL &&
        sft__base_strmap_find(&p->map, e->name, e->name_len) == SFT__STRMAP_NONE) {
        return nobody_has(p, at, elsewhere);
    }
    for (size_t i = 0; i < p->c->count; i++) {
        const size_t part = (p->hit + i) % p->c->count; /* as the name before, most probably */
        const sft_tensor *const t =
            sft_catalog_find(p->c->parts[part].catalog, e->name, e->name_len);
        if (t != NULL && sft__checkpoint_lset_gives(p->set, at, t, p->c->parts[part].rank)) {
            p->hit = part;
            return SFT_OK;
        }
        elsewhere = t != NULL ? part : elsewhere;
    }
    return nobody_has(p, at, elsewhere);
}

static sft_status check_names(promise *p) {
    for (size_t i = 0; i < p->set->count; i++) {
        const sft__checkpoint_lset_entry *const e = &p->set->entries[i];
        if (e->match != SFT_LAYOUT_MATCH_NAME || is_never_saved(e) ||
            sft__base_strmap_find(&p->set->map, e->name, e->name_len) != i) {
            continue; /* not the first of its name */
        }
        SFT_TRY(look_for(p, i));
        if (!p->c->partial && p->c->gap_count >= MOST_GAPS) {
            break;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- ranks */

/* The first part whose rank is at least this. */
static size_t first_from(const sft_checkpoint *c, uint64_t rank) {
    size_t low = 0;
    size_t high = c->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->parts[middle].rank < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void count_range(const promise *p, uint64_t first, uint64_t end) {
    p->by_rank[first < MOST_RANKS ? first : MOST_RANKS]++;
    p->by_rank[end < MOST_RANKS ? end : MOST_RANKS]--;
    p->by_part[first_from(p->c, first)]++;
    p->by_part[first_from(p->c, end)]--;
}

/* Ascending parts: the first that is not below tells. */
static bool mesh_has_file(const promise *p, const sft__checkpoint_lset_mesh *m) {
    const sft_checkpoint *const c = p->c;
    if (m->mesh.ranks == NULL) {
        const size_t first = first_from(c, m->mesh.first_rank);
        return first < c->count && c->parts[first].rank - m->mesh.first_rank < m->devices;
    }
    for (uint64_t i = 0; i < m->devices; i++) {
        if (has_file(c, m->mesh.ranks[i])) {
            return true;
        }
    }
    return false;
}

/* Which ranks and parts are of some mesh: one pass over all meshes, however many there are. */
static sft_status count_meshes(promise *p) {
    p->by_rank = sft__base_alloc_zero(p->c->allocator, (MOST_RANKS + 1) * sizeof *p->by_rank);
    p->by_part = sft__base_alloc_zero(p->c->allocator, (p->c->count + 1) * sizeof *p->by_part);
    p->mesh_there = sft__base_alloc_zero(p->c->allocator, p->set->mesh_count + 1);
    SFT_NEED(p->by_rank != NULL && p->by_part != NULL && p->mesh_there != NULL,
             (p->c->count + 1) * sizeof *p->by_part, p->err);
    for (size_t i = 0; i < p->set->mesh_count; i++) {
        const sft__checkpoint_lset_mesh *const m = &p->set->meshes[i];
        p->mesh_there[i] = mesh_has_file(p, m);
        if (m->mesh.ranks == NULL) { /* below 2^64: mesh_done saw to it */
            count_range(p, m->mesh.first_rank, m->mesh.first_rank + m->devices);
        }
        for (uint64_t k = 0; m->mesh.ranks != NULL && k < m->devices; k++) {
            const uint64_t rank = m->mesh.ranks[k];
            count_range(p, rank, rank == UINT64_MAX ? rank : rank + 1);
        }
    }
    for (size_t i = 1; i <= MOST_RANKS; i++) {
        p->by_rank[i] += p->by_rank[i - 1];
    }
    for (size_t i = 1; i <= p->c->count; i++) {
        p->by_part[i] += p->by_part[i - 1];
    }
    return SFT_OK;
}

/* Ranks of a larger model that lay here before, or of another stage than the strategy is for. */
static sft_status check_extra(const promise *p) {
    const sft_checkpoint *const c = p->c;
    const uint64_t ranks = p->set->ranks;
    const uint64_t last = c->parts[c->count - 1].rank;
    if (last >= ranks && c->count > 1) {
        return sft__base_fail(p->err, SFT_E_MISMATCH,
                              "there is a rank %llu, and the layout is for %llu ranks",
                              (unsigned long long)last, (unsigned long long)ranks);
    }
    for (size_t i = 0; i < p->set->count; i++) {
        if (p->set->entries[i].kind == SFT__LSET_BOXES) {
            return SFT_OK; /* boxes name ranks one by one; no mesh does */
        }
    }
    for (size_t i = 0; i < c->count && p->set->mesh_count != 0 && c->count > 1; i++) {
        if (p->by_part[i] == 0) {
            return sft__base_fail(p->err, SFT_E_MISMATCH,
                                  "rank %llu has a file, and the layout gives nothing to it",
                                  (unsigned long long)c->parts[i].rank);
        }
    }
    return SFT_OK;
}

/* Ranks without a file, as text. Of layouts for very many ranks only the first are looked at. */
static sft_status note_absent(promise *p) {
    const uint64_t end = p->set->ranks < MOST_RANKS ? p->set->ranks : MOST_RANKS;
    sft__checkpoint_lset_runs runs;
    memset(&runs, 0, sizeof runs);
    sft__base_buf_init(&runs.text, p->c->allocator);
    for (uint64_t rank = 0; rank < end; rank++) {
        if ((p->by_rank[rank] != 0 || p->set->parallel != NULL) && !has_file(p->c, rank)) {
            sft__checkpoint_lset_runs_add(&runs, rank);
        }
    }
    sft__checkpoint_lset_runs_end(&runs);
    const char *const text =
        runs.text.failed || runs.count == 0
            ? ""
            : sft__base_arena_copy(&p->c->arena, runs.text.data, runs.text.len);
    sft__base_buf_reset(&runs.text);
    if (text == NULL) {
        return sft__checkpoint_nomem(p->c, 1, p->err);
    }
    p->c->absent = text;
    return SFT_OK;
}

static bool says_deduplicated(const sft_checkpoint *c) {
    static const char key[] = "remove_redundancy";
    for (size_t i = 0; i < c->count; i++) {
        size_t len;
        const char *const value =
            sft_catalog_file_count(c->parts[i].catalog) == 0
                ? NULL
                : sft_catalog_metadata_find(c->parts[i].catalog, 0, key, sizeof key - 1, &len);
        if (value != NULL && len == 4 && memcmp(value, "True", 4) == 0) {
            return true;
        }
    }
    return false;
}

/* Patterns, modules and numbers promise no names. Ranks of one mesh have the same ones, so that others tell
 * them, unless none of the mesh has a file, or each name stays with one rank. */
static sft_status check_loose(promise *p, bool recorded) {
    const bool alone = p->c->absent[0] != '\0' && !recorded && says_deduplicated(p->c);
    for (size_t i = 0; i < p->set->loose_count; i++) {
        const sft__checkpoint_lset_entry *const e = &p->set->entries[p->set->loose[i]];
        bool any = e->kind == SFT__LSET_WHOLE || e->kind == SFT__LSET_BOXES;
        any = any || p->mesh_there[e->mesh];
        if (!any || alone) {
            return sft__base_fail(p->err, SFT_E_HOLE,
                                  "ranks %s have no file, and what \"%.100s\" of the layout gives "
                                  "them nobody else tells",
                                  p->c->absent, e->name);
        }
    }
    if (alone && p->set->parallel != NULL) {
        return sft__base_fail(p->err, SFT_E_HOLE,
                              "ranks %s have no file, and replicas were removed: what they alone "
                              "held nobody tells",
                              p->c->absent);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- dedupe.json */

static bool any_part_has(const promise *p, const char *name, size_t len) {
    for (size_t i = 0; i < p->c->count; i++) {
        if (sft_catalog_find(p->c->parts[(p->hit + i) % p->c->count].catalog, name, len) != NULL) {
            return true;
        }
    }
    return false;
}

/* The names that were there when replicas were taken out: of those that the layout does not name
 * each may lie on one rank. */
static sft_status check_record(promise *p, bool *recorded) {
    sft__checkpoint_text text;
    const char *path;
    sft__layout_jnode *root;
    *recorded = false;
    if (p->c->directory == NULL) { /* files that are still to be written */
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_path(p->c, p->c->directory, RECORD, &path, p->err));
    if (sft__checkpoint_read(p->c, path, &text, NULL) != SFT_OK) {
        return SFT_OK; /* not there; expand says what is wrong with it */
    }
    sft_status status = SFT_OK;
    if (sft__layout_jtree_parse(&root, &p->c->arena, text.data, text.size, RECORD, NULL) ==
        SFT_OK) {
        const sft__layout_jnode *const names = sft__layout_jtree_get(root, "names");
        *recorded = names != NULL && names->type == SFT__J_ARRAY;
        for (const sft__layout_jnode *n = *recorded ? names->first : NULL;
             n != NULL && status == SFT_OK; n = n->next) {
            const bool named =
                n->type == SFT__J_STRING &&
                sft__base_strmap_find(&p->set->map, n->text, n->len) == SFT__STRMAP_NONE;
            if (named && !any_part_has(p, n->text, n->len)) {
                status = add_gap(p, n->text, n->len, "no file holds it, and " RECORD " lists it");
            }
        }
    }
    sft__checkpoint_text_reset(&text);
    return status;
}

/* ---------------------------------------------------------------- all of it */

/* A layout that fits no rank's names is another model's. */
static sft_status check_fit(const promise *p) {
    for (size_t i = 0; i < p->c->count; i++) {
        const sft_catalog *const c = p->c->parts[i].catalog;
        for (size_t k = 0; k < sft_catalog_count(c); k++) {
            if (sft__checkpoint_lset_entry_of(p->set, sft_catalog_at(c, k), 0) != NULL) {
                return SFT_OK; /* the first one, most probably */
            }
        }
    }
    return sft_layout_set_fit(p->set, p->c->parts[0].catalog, NULL, p->err);
}

static sft_status tell_gaps(const promise *p) {
    const sft__checkpoint_gap *const first = p->c->gaps;
    const unsigned long long more = p->c->gap_count - 1;
    if (more == 0) {
        return sft__base_fail_tensor(p->err, SFT_E_HOLE, SFT_NO_OFFSET, first->name, first->len,
                                     "%s", first->why);
    }
    return sft__base_fail_tensor(p->err, SFT_E_HOLE, SFT_NO_OFFSET, first->name, first->len,
                                 "%s; %s%llu more tensor%s missing", first->why,
                                 p->c->gap_count >= MOST_GAPS ? "at least " : "", more,
                                 more == 1 ? " is" : "s are");
}

/* Numbers alone name no tensors: what a stage of which no rank is there would have had, nobody knows. */
static sft_status check_stages(const promise *p) {
    const sft__checkpoint_parallel *const n = p->set->parallel;
    if (n == NULL || n->pp < 2) {
        return SFT_OK;
    }
    const uint64_t ranks = sft_layout_set_ranks(p->set) / n->pp;
    char *const there = sft__base_arena_alloc(&p->c->arena, (size_t)n->pp, 1);
    SFT_NEED(there != NULL, (size_t)n->pp, p->err);
    memset(there, 0, (size_t)n->pp);
    for (size_t i = 0; i < p->c->count; i++) {
        if (p->c->parts[i].rank / ranks < n->pp) {
            there[p->c->parts[i].rank / ranks] = 1;
        }
    }
    for (uint64_t stage = 0; stage < n->pp; stage++) {
        if (there[stage] == 0) {
            return sft__base_fail(
                p->err, SFT_E_HOLE, "ranks %llu to %llu, all of pipeline stage %llu, have no files",
                (unsigned long long)(stage * ranks),
                (unsigned long long)(stage * ranks + ranks - 1), (unsigned long long)stage);
        }
    }
    return SFT_OK;
}

/* Layers that the configuration counts and that no rank has anything of. */
static sft_status note_lost(promise *p) {
    char why[160];
    for (size_t i = 0; i < p->set->lost_count; i++) {
        const sft__checkpoint_lset_lost *const lost = &p->set->lost[i];
        uint64_t stage;
        (void)snprintf(why, sizeof why, "no file holds anything of layer %llu",
                       (unsigned long long)lost->layer);
        if (sft__checkpoint_parallel_stage(p->set->parallel, p->set->layers, lost->layer, &stage,
                                           NULL) == SFT_OK) {
            const uint64_t ranks = sft_layout_set_ranks(p->set) / p->set->parallel->pp;
            (void)snprintf(why, sizeof why,
                           "no file holds anything of layer %llu, of ranks %llu to %llu",
                           (unsigned long long)lost->layer, (unsigned long long)(stage * ranks),
                           (unsigned long long)(stage * ranks + ranks - 1));
        }
        SFT_TRY(add_gap(p, lost->name, strlen(lost->name), why));
    }
    return SFT_OK;
}

/* What ranks without a file held that nobody else tells by name: a problem of the model. */
static sft_status note_unknown(promise *p, bool recorded) {
    sft_error *const err = p->err;
    sft_error why;
    memset(&why, 0, sizeof why);
    p->c->unknown = p->set->unknown;
    if (recorded) {
        return SFT_OK;
    }
    p->err = &why;
    sft_status status = check_stages(p);
    status = status == SFT_OK ? check_loose(p, recorded) : status;
    p->err = err;
    if (status == SFT_OK) {
        return SFT_OK;
    }
    if (status != SFT_E_HOLE) {
        return sft_error_from(err, status, &why, "%s", why.message);
    }
    p->c->unknown = sft__base_arena_copy(&p->c->arena, why.message, strlen(why.message));
    return p->c->unknown != NULL ? SFT_OK : sft__checkpoint_nomem(p->c, strlen(why.message), err);
}

static sft_status check(promise *p) {
    bool recorded = false;
    if (p->c->kind == SFT_CHECKPOINT_RANKS) {
        SFT_TRY(count_meshes(p));
        SFT_TRY(check_extra(p));
        SFT_TRY(check_fit(p));
        SFT_TRY(note_absent(p));
        SFT_TRY(check_record(p, &recorded));
        if (!p->c->partial) {
            SFT_TRY(check_stages(p));
            SFT_TRY(check_loose(p, recorded));
        } else {
            SFT_TRY(note_lost(p));
            SFT_TRY(note_unknown(p, recorded));
        }
        SFT_TRY(sft__checkpoint_numbers_fit(p->c, recorded || says_deduplicated(p->c), p->err));
    }
    SFT_TRY(check_names(p));
    return p->c->gap_count == 0 || p->c->partial ? SFT_OK : tell_gaps(p);
}

sft_status sft__checkpoint_keeps_promise(sft_checkpoint *c, sft_error *err) {
    promise p;
    if (c->layouts == NULL || c->count == 0) {
        return SFT_OK;
    }
    memset(&p, 0, sizeof p);
    p.c = c;
    p.set = c->layouts;
    p.err = err;
    const sft_status status = check(&p);
    if (p.map.slots != NULL) {
        sft__base_strmap_reset(&p.map);
    }
    sft__base_free(c->allocator, p.names, (p.name_room + 1) * sizeof *p.names);
    sft__base_free(c->allocator, p.by_rank, (MOST_RANKS + 1) * sizeof *p.by_rank);
    sft__base_free(c->allocator, p.by_part, (c->count + 1) * sizeof *p.by_part);
    sft__base_free(c->allocator, p.mesh_there, c->layouts->mesh_count + 1);
    return status;
}
