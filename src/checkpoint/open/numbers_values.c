/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/numbers_values.c - do the values of ranks bear numbers (dp=2,tp=2) out that somebody gives
 * as their layout? What the layout makes replicas holds alike values, and what it makes different parts of a
 * matrix does not. Little is read, and only of files: what is refused does not come about by chance, and
 * what is not refused is not proven. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/parallel_facts.h"
#include "checkpoint/open/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>

#define SAMPLE   ((size_t)4096)      /* bytes of a part that are compared */
#define CERTAIN  (UINT64_C(1) << 20) /* and of different parts that are alike so far */
#define GLANCE   ((size_t)64)        /* elements that tell most parts apart */
#define MATRICES 3u                  /* that are looked at before something is refused */
#define MOST     ((size_t)1024)      /* ranks of a stage that are compared */

/* What is compared in one way. */
typedef enum group {
    GROUP_WEIGHTS,
    GROUP_KEYS, /* heads of keys may be fewer than ranks */
    GROUP_VOCABULARY,
    GROUP_WHOLE,
    GROUPS,
    GROUP_NONE
} group;

/* Tensors of which one speaks for the others: q_proj of all layers, up_proj of all experts. */
typedef struct kind {
    group g;
    const char *module; /* role.module */
    bool is_bias;
    sft__checkpoint_size size;
} kind;

#define KINDS ((size_t)256) /* above twice the rules that there are */

typedef struct holding {
    uint64_t part; /* of the tensor; 0 where it is whole */
    bool there;
    bool leads; /* the first rank that holds the part */
} holding;

/* A stage. */
typedef struct looking {
    const sft_checkpoint *c;
    const sft__checkpoint_parallel *p;
    size_t first;
    size_t count;
    holding *holdings;
    uint8_t *samples;
    sft_error *err;
} looking;

typedef enum word { SAYS_NOTHING, SAYS_YES, SAYS_NO } word;

/* ep: experts are whole, and elsewhere. */
static group group_of(const sft__checkpoint_role *role, bool ep) {
    if (ep && role->expert != UINT64_MAX) {
        return GROUP_NONE;
    }
    switch (role->cut) {
    case SFT__CUT_STACK_EXPERT:
        return GROUP_NONE;
    case SFT__CUT_STACK_IN:
    case SFT__CUT_STACK_OUT:
        return ep ? GROUP_NONE : GROUP_WEIGHTS;
    case SFT__CUT_VOCABULARY:
        return GROUP_VOCABULARY;
    case SFT__CUT_WHOLE:
        return GROUP_WHOLE;
    case SFT__CUT_ROW:
        return role->is_bias ? GROUP_WHOLE : GROUP_WEIGHTS;
    default:
        return role->size == SFT__SIZE_KEY || role->size == SFT__SIZE_KEYS ? GROUP_KEYS
                                                                           : GROUP_WEIGHTS;
    }
}

/* false: the tensor is not compared. A router's bias may be kept by each rank's own counts. */
static bool kind_of(const looking *l, const sft_tensor *t, kind *out) {
    sft__checkpoint_role role;
    if (t->dtype->block_elements != 1 || t->nbytes < 4 * t->dtype->block_bytes ||
        !sft__checkpoint_role_of(t->name, t->name_len, &role) || role.place == SFT__PLACE_ALL ||
        role.is_state) {
        return false;
    }
    const uint32_t rank = role.is_bias ? 1 : sft__checkpoint_is_stack(role.cut) ? 3 : 2;
    const bool is_vector = t->rank == 1 && role.cut == SFT__CUT_WHOLE;
    if ((t->rank != rank && !is_vector) || (is_vector && role.size == SFT__SIZE_ROUTER)) {
        return false;
    }
    out->g = group_of(&role, l->p->ep > 1);
    out->module = role.module;
    out->is_bias = role.is_bias;
    out->size = role.size;
    return out->g != GROUP_NONE;
}

static bool same_kind(const kind *a, const kind *b) {
    return a->g == b->g && a->module == b->module && a->is_bias == b->is_bias;
}

static bool is_borne_out(const looking *l, const kind *k) {
    return (l->c->layouts->borne_out >> k->size & 1) != 0 &&
           (k->g != GROUP_VOCABULARY || !l->c->layouts->filled);
}

static const sft_rank_part *part_at(const looking *l, size_t i) {
    return &l->c->parts[l->first + i];
}

/* Which part of the tensor the layout gives to the rank: numbers cut along the last axis of a mesh. */
static uint64_t part_of(const looking *l, const sft_tensor *t, uint64_t rank) {
    const sft_layout_set *const set = l->c->layouts;
    const sft__checkpoint_lset_entry *const e = sft__checkpoint_lset_entry_of(set, t, rank);
    for (size_t d = 0; e != NULL && e->kind == SFT__LSET_CUTS && d < e->dims; d++) {
        if (e->cuts[d].factor_count == 1) {
            const sft__layout_mesh *const mesh = &set->meshes[e->mesh].mesh;
            return (rank - mesh->first_rank) % mesh->axes[mesh->axis_count - 1];
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- two samples */

static float magnitude(float x) {
    return x < 0 ? -x : x;
}

static bool to_floats(const sft_dtype *d, const uint8_t *bytes, size_t count, float *out) {
    const sft_cast cast = {sft_dtype_get(SFT_F32), d, SFT_CONVERT_HOST_DST};
    return d->kind == SFT_KIND_FLOAT && sft_convert(out, bytes, count, &cast, NULL) == SFT_OK;
}

/* How many of the values are apart by more than the larger one's share-th; *compared: neither NaN nor
 * infinite. */
static size_t count_apart(const float *x, const float *y, size_t count, float share,
                          size_t *compared) {
    size_t n = 0;
    *compared = 0;
    for (size_t i = 0; i < count; i++) {
        const float a = magnitude(x[i]);
        const float b = magnitude(y[i]);
        const float apart = magnitude(x[i] - y[i]);
        if (apart == apart) {
            ++*compared;
            n += apart > (a > b ? a : b) / share;
        }
    }
    return n;
}

/* Replicas that drifted apart have values near each other; those of norms are so of any two models. */
static word are_replicas(const sft_tensor *t, const uint8_t *a, const uint8_t *b, size_t n) {
    const sft_dtype *const d = t->dtype;
    const float share = t->rank == 1 && d->block_bytes > 1 ? 8 : 4;
    const size_t count = n / d->block_bytes;
    float x[SAMPLE];
    float y[SAMPLE];
    size_t compared = count;
    size_t apart = 0;
    if (to_floats(d, a, count, x) && to_floats(d, b, count, y)) {
        apart = count_apart(x, y, count, share, &compared);
    } else {
        for (size_t i = 0; i < n; i += d->block_bytes) {
            apart += memcmp(a + i, b + i, d->block_bytes) != 0;
        }
    }
    return compared >= 4 && apart > compared / 2 ? SAYS_NO : SAYS_YES;
}

/* Nearly all values are nearly the same. */
static bool are_near(const float *x, const float *y, size_t count) {
    size_t compared;
    const size_t apart = count_apart(x, y, count, 64, &compared);
    return compared == 0 || apart <= compared / 16;
}

/* Different parts; where a value is like the next one, too, nothing can be said. */
static word are_parts(const sft_dtype *d, const uint8_t *a, const uint8_t *b, size_t n) {
    const size_t count = n / d->block_bytes;
    const size_t glance = count < GLANCE ? count : GLANCE;
    const size_t next = d->block_bytes;
    float x[SAMPLE];
    float y[SAMPLE];
    if (count < 4) {
        return SAYS_NOTHING;
    }
    if (!to_floats(d, a, glance, x) || !to_floats(d, b, glance, y)) {
        return memcmp(a, b, n) != 0                 ? SAYS_YES
               : memcmp(a, a + next, n - next) == 0 ? SAYS_NOTHING
                                                    : SAYS_NO;
    }
    if (!are_near(x, y, glance)) {
        return SAYS_YES;
    }
    if (!to_floats(d, a, count, x) || !to_floats(d, b, count, y) || !are_near(x, y, count)) {
        return SAYS_YES;
    }
    return are_near(x, y + 1, count - 1) ? SAYS_NOTHING : SAYS_NO;
}

/* ---------------------------------------------------------------- two ranks */

static size_t sample_of(const sft_tensor *t, uint64_t at) {
    const size_t n = (size_t)(t->nbytes - at < SAMPLE ? t->nbytes - at : SAMPLE);
    return n - n % t->dtype->block_bytes;
}

/* The tensor of that name, if it is of the same size. */
static const sft_tensor *like(const looking *l, size_t i, const sft_tensor *t) {
    const sft_tensor *const u = sft_catalog_find(part_at(l, i)->catalog, t->name, t->name_len);
    return u != NULL && u->nbytes == t->nbytes && u->dtype->id == t->dtype->id ? u : NULL;
}

/* What one tensor says of the ranks a and b. */
static sft_status ask(const looking *l, const sft_tensor *t, const size_t *ranks, bool replicas,
                      word *out) {
    const sft_tensor *const two[2] = {like(l, ranks[0], t), like(l, ranks[1], t)};
    const uint64_t end = replicas || t->nbytes < CERTAIN ? t->nbytes : CERTAIN;
    uint8_t bytes[2][SAMPLE];
    *out = SAYS_NOTHING;
    for (uint64_t at = 0; two[0] != NULL && two[1] != NULL && at < end; at += SAMPLE) {
        const size_t n = sample_of(t, at);
        for (size_t k = 0; k < 2; k++) {
            SFT_TRY(sft_tensor_read_bytes(part_at(l, ranks[k])->catalog, two[k], at, bytes[k], n,
                                          l->err));
        }
        const word now = replicas ? are_replicas(t, bytes[0], bytes[1], n)
                                  : are_parts(t->dtype, bytes[0], bytes[1], n);
        if (replicas || now == SAYS_YES) {
            *out = now;
            return SFT_OK;
        }
        *out = now == SAYS_NO ? SAYS_NO : *out;
    }
    return SFT_OK;
}

/* Do tensors of the kind say that the numbers are wrong of these ranks, and none that they are right? */
static sft_status judge(const looking *l, const kind *k, const size_t *ranks, bool replicas,
                        const sft_tensor **against) {
    const sft_catalog *const c = part_at(l, ranks[0])->catalog;
    /* Where sizes say the contrary, everything must. */
    const bool all = !replicas && is_borne_out(l, k);
    size_t seen = 0;
    *against = NULL;
    for (size_t i = 0; i < sft_catalog_count(c) && (seen < MATRICES || all); i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        kind own;
        word says = SAYS_NOTHING;
        if (kind_of(l, t, &own) && (same_kind(&own, k) || (all && own.g != GROUP_WHOLE))) {
            SFT_TRY(ask(l, t, ranks, replicas, &says));
        }
        if (says == SAYS_YES) {
            *against = NULL;
            return SFT_OK;
        }
        if (says == SAYS_NO) {
            *against = *against == NULL ? t : *against;
            seen++;
        }
    }
    return SFT_OK;
}

static sft_status tell_replicas(const looking *l, group g, const size_t *ranks,
                                const sft_tensor *t) {
    const bool same =
        part_at(l, ranks[0])->rank % l->p->tp == part_at(l, ranks[1])->rank % l->p->tp;
    if (g == GROUP_WHOLE && !same) {
        return SFT_FAIL_TENSOR(l->err, SFT_E_MISMATCH, t,
                               "ranks %llu and %llu hold other values of it, and by the numbers "
                               "(tp=%llu) each rank holds all of it: they are of other models, or "
                               "of other steps",
                               (unsigned long long)part_at(l, ranks[0])->rank,
                               (unsigned long long)part_at(l, ranks[1])->rank,
                               (unsigned long long)l->p->tp);
    }
    return SFT_FAIL_TENSOR(l->err, SFT_E_MISMATCH, t,
                           "ranks %llu and %llu hold other values of it, and the numbers (dp=%llu, "
                           "tp=%llu%s) make them replicas: they are parts, %sor of other steps",
                           (unsigned long long)part_at(l, ranks[0])->rank,
                           (unsigned long long)part_at(l, ranks[1])->rank,
                           (unsigned long long)l->p->dp, (unsigned long long)l->p->tp,
                           g == GROUP_VOCABULARY && !same ? ", vocab-parallel=no" : "",
                           same                    ? "of a larger tp, "
                           : g == GROUP_VOCABULARY ? "by vocab-parallel, "
                                                   : "");
}

/* How many ranks hold the first one's values, if each part is held by so many; 0: not so. */
static size_t twins_of(const looking *l, const sft_tensor *t) {
    const size_t n = sample_of(t, 0);
    size_t twins = 0;
    for (size_t i = 0; i < l->count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < l->count && l->holdings[i].leads; k++) {
            same += l->holdings[k].leads &&
                    (k == i || are_parts(t->dtype, l->samples + i * SAMPLE, l->samples + k * SAMPLE,
                                         n) == SAYS_NO);
        }
        if (same != 0 && twins != 0 && same != twins) {
            return 0;
        }
        twins = same != 0 ? same : twins;
    }
    return twins > 1 ? twins : 0;
}

/* Is another tensor of the group in parts, as the numbers say? It is *out then. */
static sft_status find_parts(const looking *l, group g, const size_t *ranks,
                             const sft_tensor **out) {
    const sft_catalog *const c = part_at(l, ranks[0])->catalog;
    *out = NULL;
    for (size_t i = 0; i < sft_catalog_count(c) && *out == NULL; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        kind own;
        word says = SAYS_NOTHING;
        if (kind_of(l, t, &own) && own.g == g && !own.is_bias) {
            SFT_TRY(ask(l, t, ranks, false, &says));
        }
        *out = says == SAYS_YES ? t : NULL;
    }
    return SFT_OK;
}

static sft_status tell_parts(const looking *l, group g, const size_t *ranks, const sft_tensor *of,
                             const sft_tensor *t) {
    const size_t twins = twins_of(l, of);
    const sft_tensor *other;
    char more[224] = "";
    SFT_TRY(find_parts(l, g, ranks, &other));
    if (other != NULL && g != GROUP_KEYS) {
        char name[128];
        (void)sft_escape(name, sizeof name, other->name, other->name_len);
        (void)snprintf(more, sizeof more, ": whole, and \"%s\" is cut: a layout's file can say so",
                       name);
    } else if (g == GROUP_VOCABULARY && twins == l->p->tp) {
        (void)snprintf(more, sizeof more, ": vocab-parallel=no, more probably");
    } else if (g == GROUP_KEYS) {
        (void)snprintf(more, sizeof more,
                       ": heads of keys that several ranks hold are not to be told by numbers");
    } else if (twins != 0 && l->p->tp % twins == 0) {
        (void)snprintf(more, sizeof more, ": dp=%llu,tp=%llu, more probably",
                       (unsigned long long)(l->p->dp * twins),
                       (unsigned long long)(l->p->tp / twins));
    }
    return SFT_FAIL_TENSOR(l->err, SFT_E_MISMATCH, t,
                           "the numbers (tp=%llu) make ranks %llu and %llu hold different parts of "
                           "it, and the parts are the same values, as replicas are%s",
                           (unsigned long long)l->p->tp,
                           (unsigned long long)part_at(l, ranks[0])->rank,
                           (unsigned long long)part_at(l, ranks[1])->rank, more);
}

/* ---------------------------------------------------------------- a stage */

/* Of the first tensor of the kind that says anything: who holds which part, and the samples. */
static sft_status take_samples(looking *l, const kind *k, const sft_tensor **out) {
    const sft_catalog *const c = part_at(l, 0)->catalog;
    *out = NULL;
    for (size_t i = 0; i < sft_catalog_count(c) && *out == NULL; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        const size_t n = sample_of(t, 0);
        kind own;
        if (kind_of(l, t, &own) && same_kind(&own, k)) {
            SFT_TRY(sft_tensor_read_bytes(c, t, 0, l->samples, n, l->err));
            *out = are_parts(t->dtype, l->samples, l->samples, n) == SAYS_NO ? t : NULL;
        }
    }
    for (size_t i = 0; i < l->count && *out != NULL; i++) {
        const sft_tensor *const u = like(l, i, *out);
        l->holdings[i].there = u != NULL;
        l->holdings[i].part = part_of(l, *out, part_at(l, i)->rank);
        if (u != NULL) {
            SFT_TRY(sft_tensor_read_bytes(part_at(l, i)->catalog, u, 0, l->samples + i * SAMPLE,
                                          sample_of(u, 0), l->err));
        }
    }
    return SFT_OK;
}

/* The rank before it that holds the same part; `i` itself: none. */
static size_t leader_of(looking *l, size_t i) {
    for (size_t k = 0; k < i; k++) {
        if (l->holdings[k].leads && l->holdings[k].part == l->holdings[i].part) {
            return k;
        }
    }
    return i;
}

static sft_status compare(const looking *l, const kind *k, const sft_tensor *t, const size_t *ranks,
                          bool replicas) {
    const uint8_t *const a = l->samples + ranks[0] * SAMPLE;
    const uint8_t *const b = l->samples + ranks[1] * SAMPLE;
    const size_t n = sample_of(t, 0);
    const sft_tensor *against;
    if ((replicas ? are_replicas(t, a, b, n) : are_parts(t->dtype, a, b, n)) != SAYS_NO) {
        return SFT_OK;
    }
    SFT_TRY(judge(l, k, ranks, replicas, &against));
    if (against == NULL) {
        return SFT_OK;
    }
    return replicas ? tell_replicas(l, k->g, ranks, against)
                    : tell_parts(l, k->g, ranks, t, against);
}

static sft_status check_kind(looking *l, const kind *own) {
    const sft_tensor *t;
    SFT_TRY(take_samples(l, own, &t));
    for (size_t i = 0; i < l->count && t != NULL; i++) {
        holding *const h = &l->holdings[i];
        h->leads = false;
        if (!h->there) {
            continue;
        }
        const size_t leader = leader_of(l, i);
        h->leads = leader == i;
        /* Biases that are cut may be so small that they have drifted apart: those of keys. */
        if (!h->leads && (!own->is_bias || own->g == GROUP_WHOLE)) {
            SFT_TRY(compare(l, own, t, (const size_t[]){leader, i}, true));
        }
    }
    /* Where config.json tells how many heads of keys there are, tp divides them. */
    if (own->g == GROUP_KEYS && is_borne_out(l, own)) {
        return SFT_OK;
    }
    for (size_t i = 0; i < l->count && t != NULL; i++) {
        for (size_t k = 0; k < i && l->holdings[i].leads; k++) {
            if (l->holdings[k].leads) {
                SFT_TRY(compare(l, own, t, (const size_t[]){k, i}, false));
            }
        }
    }
    return SFT_OK;
}

/* Kinds of the group that the stage's first rank has. */
static sft_status check_group(looking *l, group g) {
    const sft_catalog *const c = part_at(l, 0)->catalog;
    kind kinds[KINDS];
    size_t count = 0;
    for (size_t i = 0; i < sft_catalog_count(c) && count < KINDS; i++) {
        size_t k = 0;
        if (!kind_of(l, sft_catalog_at(c, i), &kinds[count]) || kinds[count].g != g) {
            continue;
        }
        while (!same_kind(&kinds[k], &kinds[count])) {
            k++;
        }
        if (k == count) {
            SFT_TRY(check_kind(l, &kinds[count++]));
        }
    }
    return SFT_OK;
}

static sft_status check_stage(looking *l) {
    sft_status status = SFT_OK;
    l->holdings = sft__base_alloc_array(l->c->allocator, l->count, sizeof *l->holdings);
    SFT_NEED(l->holdings != NULL, l->count * sizeof *l->holdings, l->err);
    memset(l->holdings, 0, l->count * sizeof *l->holdings);
    l->samples = sft__base_alloc_array(l->c->allocator, l->count, SAMPLE);
    if (l->samples == NULL) {
        status = sft__base_fail_nomem(l->err, l->count * SAMPLE);
    }
    for (size_t g = 0; g < GROUPS && status == SFT_OK; g++) {
        status = check_group(l, (group)g);
    }
    if (l->samples != NULL) {
        sft__base_free(l->c->allocator, l->samples, l->count * SAMPLE);
    }
    sft__base_free(l->c->allocator, l->holdings, l->count * sizeof *l->holdings);
    return status;
}

sft_status sft__checkpoint_values_fit(const sft_checkpoint *c, sft_error *err) {
    const sft__checkpoint_parallel *const p = c->layouts->parallel;
    const uint64_t devices = p->dp * p->cp * p->tp;
    looking l = {c, p, 0, 0, NULL, NULL, err};
    while (l.first < c->count) {
        size_t next = l.first;
        while (next < c->count &&
               c->parts[next].rank / devices == c->parts[l.first].rank / devices) {
            next++;
        }
        l.count = next - l.first < MOST ? next - l.first : MOST;
        SFT_TRY(check_stage(&l));
        l.first = next;
    }
    return SFT_OK;
}
