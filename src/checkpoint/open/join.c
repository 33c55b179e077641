/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/join.c - global tensors out of what many ranks hold: for each tensor its layout, for each
 * part of it one holder, for each box of the part a piece. Read checkpoint/open/join.h first.
 */
#include "checkpoint/open/join.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/open/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>

static sft_status fail_on(const sft__checkpoint_joining *j, const sft_tensor *t, sft_status status,
                          const char *what) {
    return sft__base_fail_tensor(j->err, status, SFT_NO_OFFSET, t->name, t->name_len, "%s", what);
}

/* ---------------------------------------------------------------- names */

static int compare_ranks(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static sft_status check_ranks(const sft__checkpoint_joining *j) {
    uint64_t *const ranks = sft__base_alloc_array(j->allocator, j->count, sizeof *ranks);
    sft_status status = SFT_OK;
    SFT_NEED(ranks != NULL, j->count * sizeof *ranks, j->err);
    for (size_t i = 0; i < j->count; i++) {
        ranks[i] = j->parts[i].rank;
    }
    qsort(ranks, j->count, sizeof *ranks, compare_ranks);
    for (size_t i = 1; i < j->count && status == SFT_OK; i++) {
        if (ranks[i] == ranks[i - 1]) {
            status = sft__base_fail(j->err, SFT_E_DUPLICATE, "rank %llu is given twice",
                                    (unsigned long long)ranks[i]);
        }
    }
    sft__base_free(j->allocator, ranks, j->count * sizeof *ranks);
    return status;
}

static bool same_name(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* The table is made anew when it is full: of a thousand ranks it holds the names of one. */
static sft_status make_room(sft__checkpoint_joining *j) {
    const size_t wanted = j->name_count < 1024 ? 2048 : 2 * j->name_count;
    SFT_NEED(sft__base_grow(j->allocator, &j->names, &j->name_room, wanted, sizeof *j->names),
             wanted * sizeof *j->names, j->err);
    if (j->map.slots != NULL) {
        sft__base_strmap_reset(&j->map);
    }
    SFT_NEED(sft__base_strmap_init(&j->map, j->names, sizeof *j->names, j->name_room, j->allocator),
             wanted * sizeof(uint64_t), j->err);
    for (size_t i = 0; i < j->name_count; i++) {
        (void)sft__base_strmap_add(&j->map, i);
    }
    return SFT_OK;
}

/* A tensor of part number i. *next: which name it probably has, as ranks keep one order. */
static sft_status note_name(sft__checkpoint_joining *j, const sft_tensor *t, size_t i,
                            size_t *next) {
    if (*next < j->name_count &&
        same_name(j->names[*next].name, j->names[*next].len, t->name, t->name_len)) {
        ++*next;
        return SFT_OK;
    }
    if (j->name_count == j->name_room) {
        SFT_TRY(make_room(j));
    }
    sft__checkpoint_joined_name *const n = &j->names[j->name_count];
    n->name = t->name;
    n->len = t->name_len;
    n->first = i;
    const size_t at = sft__base_strmap_add(&j->map, j->name_count);
    *next = at == SFT__STRMAP_NONE ? ++j->name_count : at + 1;
    return SFT_OK;
}

static sft_status collect_names(sft__checkpoint_joining *j) {
    for (size_t i = 0; i < j->count; i++) {
        const sft_catalog *const c = j->parts[i].catalog;
        const size_t count = sft_catalog_count(c);
        size_t next = 0;
        for (size_t k = 0; k < count; k++) {
            SFT_TRY(note_name(j, sft_catalog_at(c, k), i, &next));
        }
    }
    return SFT_OK;
}

/* Every rank's tensor is far from the one before: asked for while others are looked at, first itself,
 * then what it points to. */
static void look_ahead(const sft__checkpoint_joining *j, const sft__checkpoint_joined_name *n,
                       size_t i) {
    enum { NEAR = 8, FAR = 16 };
    if (i + FAR < j->count && i + FAR >= n->first) {
        const sft_tensor *const t = sft_catalog_at(j->parts[i + FAR].catalog, j->guess[i + FAR]);
        SFT_PREFETCH(t);
        if (t != NULL) {
            SFT_PREFETCH(&t->rank); /* which lies in another line of the cache */
        }
    }
    if (i + NEAR < j->count && i + NEAR >= n->first) {
        const sft_tensor *const t = sft_catalog_at(j->parts[i + NEAR].catalog, j->guess[i + NEAR]);
        if (t != NULL) {
            SFT_PREFETCH(t->name);
            SFT_PREFETCH(t->shape);
            SFT_PREFETCH(t->pieces);
        }
    }
}

/* Who has the tensor, and which one it is there. */
static void find_everywhere(sft__checkpoint_joining *j, const sft__checkpoint_joined_name *n) {
    for (size_t i = 0; i < j->count; i++) {
        look_ahead(j, n, i);
        const sft_catalog *const c = j->parts[i].catalog;
        const sft_tensor *t = i < n->first ? NULL : sft_catalog_at(c, j->guess[i]);
        if (i >= n->first && (t == NULL || !same_name(t->name, t->name_len, n->name, n->len))) {
            t = sft_catalog_find(c, n->name, n->len);
        }
        if (t != NULL) {
            j->guess[i] = sft_catalog_index_of(c, t) + 1;
        }
        j->found[i] = t;
    }
}

/* ---------------------------------------------------------------- holders */

static sft_status disagree(const sft__checkpoint_joining *j, const sft_tensor *t, size_t part,
                           const char *what) {
    return sft__base_fail_tensor(j->err, SFT_E_MISMATCH, SFT_NO_OFFSET, t->name, t->name_len,
                                 "rank %llu has another %s",
                                 (unsigned long long)j->parts[part].rank, what);
}

/* A rank's tensor must be what the layout says of that rank. */
static sft_status check_local(const sft__checkpoint_joining *j,
                              const sft__checkpoint_join_subject *s, const sft_tensor *t,
                              size_t part) {
    uint64_t local[SFT_LAYOUT_RANK];
    sft_error why;
    const uint64_t rank = j->parts[part].rank;
    const sft_status status =
        sft_layout_local_shape(s->layout, s->shape, s->dims, rank, local, &why);
    const size_t dims = sft_layout_is_flat(s->layout) ? 1 : s->dims;
    if (status != SFT_OK) {
        return fail_on(j, t, status, why.message);
    }
    if (t->dtype->id != s->like->dtype->id) {
        return disagree(j, t, part, "dtype");
    }
    if (t->rank != dims || memcmp(t->shape, local, dims * sizeof *local) != 0) {
        return disagree(j, t, part, "shape than the layout gives it");
    }
    return SFT_OK;
}

static sft_status clear_holders(sft__checkpoint_joining *j) {
    size_t wanted = 0;
    for (size_t i = 0; i < j->group_count; i++) {
        size_t parts;
        j->groups[i].base = wanted;
        const uint64_t n = sft__layout_part_count(j->groups[i].layout);
        if (n > SFT__MOST_PARTS) {
            return sft__base_fail(j->err, SFT_E_LIMIT,
                                  "a tensor in %llu parts, at most %llu are joined",
                                  (unsigned long long)n, (unsigned long long)SFT__MOST_PARTS);
        }
        SFT_NEED(sft__base_size_from_u64(n, &parts) && sft__base_add_size(wanted, parts, &wanted),
                 SIZE_MAX, j->err);
    }
    SFT_NEED(sft__base_grow(j->allocator, &j->holder, &j->holder_room, wanted, sizeof *j->holder),
             wanted, j->err);
    memset(j->holder, 0, wanted * sizeof *j->holder);
    return SFT_OK;
}

/* For each part of the group the rank that has read least so far, the first of equals. */
static sft_status find_holders(sft__checkpoint_joining *j, const sft__checkpoint_join_subject *s) {
    for (size_t i = 0; i < j->count; i++) {
        uint64_t part;
        const sft_tensor *t;
        if (!sft_layout_holds(s->layout, j->parts[i].rank)) {
            continue;
        }
        t = j->found[i];
        if (t == NULL) {
            continue;
        }
        SFT_TRY(check_local(j, s, t, i));
        SFT_TRY(sft__layout_part(s->layout, j->parts[i].rank, &part, j->err));
        size_t *const holder = &j->holder[s->base + part];
        if (*holder == 0 || j->load[i] < j->load[*holder - 1]) {
            *holder = i + 1;
        }
    }
    return SFT_OK;
}

static sft_status add_group(sft__checkpoint_joining *j, const sft_layout *layout) {
    SFT_NEED(sft__base_grow(j->allocator, &j->groups, &j->group_room, j->group_count + 1,
                            sizeof *j->groups),
             (j->group_count + 1) * sizeof *j->groups, j->err);
    j->groups[j->group_count].layout = layout;
    j->groups[j->group_count++].base = 0;
    return SFT_OK;
}

static bool is_grouped(const sft__checkpoint_joining *j, uint64_t rank) {
    for (size_t i = 0; i < j->group_count; i++) {
        if (sft_layout_holds(j->groups[i].layout, rank)) {
            return true;
        }
    }
    return false;
}

/* Ranks that have the tensor and are not of the first one's layout: of another stage. */
static sft_status find_groups(sft__checkpoint_joining *j, const sft__checkpoint_join_subject *s,
                              size_t first) {
    j->group_count = 0;
    SFT_TRY(add_group(j, s->layout));
    for (size_t i = first + 1; i < j->count; i++) {
        uint64_t shape[SFT_LAYOUT_RANK];
        const sft_layout *layout = NULL;
        const sft_tensor *t;
        if (is_grouped(j, j->parts[i].rank)) {
            continue;
        }
        t = j->found[i];
        if (t == NULL) {
            continue;
        }
        size_t dims = t->rank;
        for (size_t d = 0; d < dims && d < SFT_LAYOUT_RANK; d++) {
            shape[d] = t->shape[d];
        }
        SFT_TRY(j->find(j->ctx, t, j->parts[i].rank, &layout, shape, &dims, j->err));
        if (t->dtype->id != s->like->dtype->id) {
            return disagree(j, t, i, "dtype");
        }
        if (dims != s->dims || memcmp(shape, s->shape, dims * sizeof *shape) != 0) {
            return disagree(j, t, i, "shape of the global tensor");
        }
        if (layout != NULL && sft_layout_holds(layout, j->parts[i].rank) &&
            !sft_layout_is_flat(layout)) {
            SFT_TRY(add_group(j, layout));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- a cut tensor */

/* The first group that lacks nothing, else the first one. */
static sft_status choose_group(sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                               size_t *chosen) {
    for (size_t g = 0; g < j->group_count; g++) {
        uint64_t lacking;
        sft__checkpoint_join_select(j, s, g);
        SFT_TRY(sft__checkpoint_join_missing(j, s, g, false, &lacking));
        if (lacking == 0) {
            *chosen = g;
            return SFT_OK;
        }
    }
    *chosen = 0;
    sft__checkpoint_join_select(j, s, 0);
    return SFT_OK;
}

static sft_status check_shape(const sft__checkpoint_joining *j,
                              const sft__checkpoint_join_subject *s) {
    sft_error why;
    const sft_status status = sft__layout_check(s->layout, s->shape, s->dims, &why);
    return status != SFT_OK ? fail_on(j, s->like, status, why.message) : SFT_OK;
}

static sft_status take_cut(sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                           size_t which) {
    size_t chosen;
    uint64_t lacking;
    SFT_TRY(check_shape(j, s));
    SFT_TRY(find_groups(j, s, which));
    SFT_TRY(clear_holders(j));
    for (size_t g = 0; g < j->group_count; g++) {
        sft__checkpoint_join_select(j, s, g);
        SFT_TRY(check_shape(j, s));
        SFT_TRY(find_holders(j, s));
    }
    SFT_TRY(choose_group(j, s, &chosen));
    SFT_TRY(sft__checkpoint_join_missing(j, s, chosen, true, &lacking));
    if (sft__layout_is_boxes(s->layout)) {
        const sft_status status = sft__checkpoint_join_boxes(j, s);
        if (status != SFT_OK && (status != SFT_E_HOLE || !j->what->holes)) {
            return status;
        }
    }
    const uint64_t parts = sft__layout_part_count(s->layout);
    for (uint64_t i = 0; i < parts; i++) {
        const size_t holder = j->holder[s->base + i];
        if (holder != 0 && holder != SFT__BORROWED) {
            SFT_TRY(sft__checkpoint_join_part(j, s, holder - 1));
        }
    }
    if (lacking != 0 && j->assembly.list.count == 0) {
        return sft__base_fail_tensor(j->err, SFT_E_HOLE, SFT_NO_OFFSET, s->like->name,
                                     s->like->name_len, "no file holds any of it");
    }
    return sft__checkpoint_assembly_add(&j->assembly, which, s->like, s->shape, s->dims);
}

/* Not cut: all ranks that have it must have the same. */
static sft_status take_global(sft__checkpoint_joining *j, const sft_tensor *like, size_t which) {
    for (size_t i = which + 1; i < j->count; i++) {
        const sft_tensor *const t = j->found[i];
        if (t == NULL) {
            continue;
        }
        if (t->dtype->id != like->dtype->id) {
            return disagree(j, t, i, "dtype");
        }
        if (t->rank != like->rank ||
            memcmp(t->shape, like->shape, t->rank * sizeof *t->shape) != 0) {
            return disagree(j, t, i, "shape");
        }
    }
    SFT_TRY(sft__checkpoint_assembly_global(&j->assembly, which, like));
    j->load[which] += like->nbytes;
    return sft__checkpoint_assembly_add(&j->assembly, which, like, like->shape, like->rank);
}

static sft_status take_name(sft__checkpoint_joining *j, const sft__checkpoint_joined_name *n) {
    sft__checkpoint_join_subject s;
    memset(&s, 0, sizeof s);
    find_everywhere(j, n);
    s.like = j->found[n->first];
    s.dims = s.like->rank;
    for (size_t d = 0; d < s.dims && d < SFT_LAYOUT_RANK; d++) {
        s.shape[d] = s.like->shape[d];
    }
    SFT_TRY(j->find(j->ctx, s.like, j->parts[n->first].rank, &s.layout, s.shape, &s.dims, j->err));
    return s.layout == NULL ? take_global(j, s.like, n->first) : take_cut(j, &s, n->first);
}

/* ---------------------------------------------------------------- all of it */

static sft_status prepare(sft__checkpoint_joining *j, const sft_open_options *options) {
    j->catalogs = sft__base_alloc_array(j->allocator, j->count, sizeof *j->catalogs);
    j->load = sft__base_alloc_zero(j->allocator, j->count * sizeof *j->load);
    j->found = sft__base_alloc_array(j->allocator, j->count, sizeof *j->found);
    j->guess = sft__base_alloc_zero(j->allocator, j->count * sizeof *j->guess);
    SFT_NEED(j->catalogs != NULL && j->load != NULL && j->found != NULL && j->guess != NULL,
             j->count * sizeof *j->load, j->err);
    for (size_t i = 0; i < j->count; i++) {
        j->catalogs[i] = j->parts[i].catalog;
    }
    SFT_TRY(check_ranks(j));
    SFT_TRY(sft__checkpoint_assembly_init(&j->assembly, j->catalogs, j->count, options, j->err));
    return collect_names(j);
}

static sft_status add_problem(sft__checkpoint_joining *j, const char *name, size_t len,
                              const char *why) {
    char shown[160];
    char text[600];
    (void)sft_escape(shown, sizeof shown, name, len < 64 ? len : 64);
    (void)snprintf(text, sizeof text, "tensor \"%s%s\" is left out: %s", shown,
                   len < 64 ? "" : "...", why);
    return sft_builder_add_problem(j->assembly.builder, SFT_PROBLEM_MISSING_TENSOR, name, len, text,
                                   j->err);
}

static sft_status add_skipped(sft__checkpoint_joining *j, const char *skipped) {
    char text[600];
    (void)snprintf(text, sizeof text,
                   "the names of the files skip %s: tensors that nothing else held would be "
                   "missing here (a rank with nothing to save writes no file)",
                   skipped);
    return sft_builder_add_problem(j->assembly.builder, SFT_PROBLEM_MISSING_FILE, skipped,
                                   strlen(skipped), text, j->err);
}

static sft_status add_unknown(sft__checkpoint_joining *j, const char *why) {
    char text[600];
    (void)snprintf(text, sizeof text, "%s: what else they held is left out", why);
    return sft_builder_add_problem(j->assembly.builder, SFT_PROBLEM_MISSING_FILE, why, strlen(why),
                                   text, j->err);
}

static sft_status pass_on(sft_error *err, const sft_error *why) {
    if (err != NULL) {
        *err = *why;
    }
    return (sft_status)why->status;
}

/* A tensor that is incomplete does not end the search: how many there are is told, too. */
static sft_status take_names(sft__checkpoint_joining *j) {
    sft_error *const err = j->err;
    uint64_t holes = 0;
    sft_error first, why;
    memset(&first, 0, sizeof first);
    for (size_t i = 0; i < j->name_count; i++) {
        memset(&why, 0, sizeof why);
        j->err = &why;
        j->assembly.err = &why;
        const sft_status status = take_name(j, &j->names[i]);
        j->err = err;
        j->assembly.err = err;
        const bool unknown = status == SFT_E_SHAPE && j->what->partial; /* a part would tell it */
        if (status != SFT_OK && status != SFT_E_HOLE && !unknown) {
            return pass_on(err, &why);
        }
        if (status != SFT_OK) {
            first = holes++ == 0 ? why : first;
            j->assembly.list.count = 0;
            j->assembly.list.number_count = 0;
        }
        if (status != SFT_OK && j->what->partial) {
            SFT_TRY(add_problem(j, j->names[i].name, j->names[i].len, why.message));
        }
    }
    if (holes > 1 && !j->what->partial) {
        const size_t used = strlen(first.message);
        (void)snprintf(first.message + used, sizeof first.message - used,
                       "; %llu more tensor%s not whole", (unsigned long long)(holes - 1),
                       holes == 2 ? " is" : "s are");
    }
    return holes == 0 || j->what->partial ? SFT_OK : pass_on(err, &first);
}

static sft_status run(sft__checkpoint_joining *j, const sft_open_options *options) {
    SFT_TRY(prepare(j, options));
    SFT_TRY(take_names(j));
    for (size_t i = 0; i < j->what->gap_count; i++) {
        const sft__checkpoint_gap *const gap = &j->what->gaps[i];
        SFT_TRY(add_problem(j, gap->name, gap->len, gap->why));
    }
    if (j->what->skipped != NULL) {
        SFT_TRY(add_skipped(j, j->what->skipped));
    }
    if (j->what->unknown != NULL) {
        SFT_TRY(add_unknown(j, j->what->unknown));
    }
    return j->name_count == 0 ? SFT_OK
                              : sft__checkpoint_join_metadata(j->assembly.builder, j->parts,
                                                              j->count, j->cut, j->err);
}

sft_status sft__checkpoint_join_parts(sft_catalog **out, const sft__checkpoint_join *what,
                                      const sft_open_options *options, sft_error *err) {
    const size_t count = what->count;
    sft__checkpoint_joining j;
    *out = NULL;
    if (count == 0 || count > UINT32_MAX) {
        return sft__base_fail(err, SFT_E_ARG, "no ranks to join");
    }
    memset(&j, 0, sizeof j);
    j.allocator = sft__base_allocator(options != NULL ? options->allocator : NULL);
    j.what = what;
    j.parts = what->parts;
    j.count = count;
    j.find = what->find;
    j.ctx = what->ctx;
    j.err = err;
    sft_status status = run(&j, options);
    if (status == SFT_OK) {
        status = sft_builder_finish(out, j.assembly.builder, err);
    }
    sft__checkpoint_assembly_reset(&j.assembly);
    if (j.map.slots != NULL) {
        sft__base_strmap_reset(&j.map);
    }
    sft__base_free(j.allocator, j.catalogs, count * sizeof *j.catalogs);
    sft__base_free(j.allocator, j.load, count * sizeof *j.load);
    sft__base_free(j.allocator, j.found, count * sizeof *j.found);
    sft__base_free(j.allocator, j.guess, count * sizeof *j.guess);
    sft__base_free(j.allocator, j.names, j.name_room * sizeof *j.names);
    sft__base_free(j.allocator, j.holder, j.holder_room * sizeof *j.holder);
    sft__base_free(j.allocator, j.groups, j.group_room * sizeof *j.groups);
    return status;
}
