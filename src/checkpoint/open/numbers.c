/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/numbers.c - do ranks that are there bear numbers (dp=2,tp=2,pp=2) out that somebody gives
 * as their layout? Replicas have the same names; a layer is of one stage; replicas hold alike values, and
 * parts of a matrix not all the same ones. Of the values little is read, and only of files: what is refused
 * cannot come about by chance, and what is not refused is not proven. Read checkpoint/open/checkpoint.h
 * first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/parallel.h"
#include "checkpoint/open/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>

#define SAMPLE   ((size_t)4096)      /* bytes of a part that are compared */
#define CERTAIN  (UINT64_C(1) << 20) /* and of parts that are the same so far */
#define MATRICES 3u                  /* that are looked at, where the first tells nothing */
#define MOST     UINT64_C(1024)      /* ranks whose parts are compared */

typedef struct fitting {
    const sft_checkpoint *c;
    const sft__checkpoint_parallel *p;
    uint64_t devices; /* of a stage */
    uint8_t *room;
    sft_error *err;
} fitting;

static bool same_name(const sft_tensor *a, const sft_tensor *b) {
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/* ---------------------------------------------------------------- names */

/* Is it a tensor that every replica has? Experts are of every ep-th rank, and what is no parameter of the
 * model, of some rank alone, perhaps. */
static bool is_shared(const fitting *f, const sft_tensor *t, sft__checkpoint_role *role) {
    return sft__checkpoint_role_of(t->name, t->name_len, role) && role->place != SFT__PLACE_ALL &&
           (f->p->ep == 1 ||
            (role->expert == UINT64_MAX && role->cut != SFT__CUT_STACK_IN &&
             role->cut != SFT__CUT_STACK_OUT && role->cut != SFT__CUT_STACK_EXPERT));
}

/* How many stages the names speak of: ranks up to the first that has other ones. 0: not so. */
static uint64_t stages_of(const fitting *f, uint64_t lower, uint64_t higher) {
    const uint64_t ranks = f->devices * f->p->pp;
    const uint64_t each = higher - lower / f->devices * f->devices;
    return each != 0 && ranks % each == 0 ? ranks / each : 0;
}

static sft_status not_shared(const fitting *f, const sft_tensor *t, size_t has, size_t lacks) {
    const uint64_t a = f->c->parts[has].rank;
    const uint64_t b = f->c->parts[lacks].rank;
    const uint64_t stages = stages_of(f, a < b ? a : b, a < b ? b : a);
    char more[64] = "";
    if (stages > f->p->pp) {
        (void)snprintf(more, sizeof more, ", pp=%llu more probably", (unsigned long long)stages);
    }
    return SFT_FAIL_TENSOR(
        f->err, SFT_E_MISMATCH, t,
        "rank %llu has it and rank %llu does not, and the numbers (dp=%llu) make "
        "them replicas: they are of several pipeline stages%s, or the numbers of "
        "another model",
        (unsigned long long)a, (unsigned long long)b, (unsigned long long)f->p->dp, more);
}

/* What part `has` has, part `lacks` must have. */
static sft_status check_has(const fitting *f, size_t has, size_t lacks) {
    const sft_catalog *const x = f->c->parts[has].catalog;
    const sft_catalog *const y = f->c->parts[lacks].catalog;
    for (size_t i = 0; i < sft_catalog_count(x); i++) {
        const sft_tensor *const t = sft_catalog_at(x, i);
        const sft_tensor *const u = sft_catalog_at(y, i);
        sft__checkpoint_role role;
        if ((u != NULL && same_name(t, u)) || sft_catalog_find(y, t->name, t->name_len) != NULL ||
            !is_shared(f, t, &role)) {
            continue;
        }
        return not_shared(f, t, has, lacks);
    }
    return SFT_OK;
}

static int by_rank(const void *key, const void *part) {
    const uint64_t a = *(const uint64_t *)key;
    const uint64_t b = ((const sft_rank_part *)part)->rank;
    return a < b ? -1 : a > b;
}

/* The next lower replica that has a file; NULL: none. */
static const sft_rank_part *replica_below(const fitting *f, uint64_t rank) {
    const sft_checkpoint *const c = f->c;
    const sft_rank_part *found = NULL;
    uint64_t at = rank % f->devices;
    for (size_t i = 0; at >= f->p->tp && i < MOST && found == NULL; i++) {
        at -= f->p->tp;
        const uint64_t key = rank / f->devices * f->devices + at;
        found = bsearch(&key, c->parts, c->count, sizeof *c->parts, by_rank);
    }
    return found;
}

static sft_status check_replicas(const fitting *f) {
    for (size_t i = 0; i < f->c->count; i++) {
        const sft_rank_part *const other = replica_below(f, f->c->parts[i].rank);
        if (other != NULL) {
            const size_t at = (size_t)(other - f->c->parts);
            SFT_TRY(check_has(f, at, i));
            SFT_TRY(check_has(f, i, at));
        }
    }
    return SFT_OK;
}

/* The first part of every stage: its layers are of no other stage. */
static sft_status check_stage(const fitting *f, size_t at, size_t other) {
    const sft_catalog *const x = f->c->parts[at].catalog;
    for (size_t i = 0; i < sft_catalog_count(x); i++) {
        const sft_tensor *const t = sft_catalog_at(x, i);
        sft__checkpoint_role role;
        if (sft_catalog_find(f->c->parts[other].catalog, t->name, t->name_len) == NULL ||
            !sft__checkpoint_role_of(t->name, t->name_len, &role) ||
            role.place != SFT__PLACE_LAYER) {
            continue;
        }
        return SFT_FAIL_TENSOR(
            f->err, SFT_E_MISMATCH, t,
            "ranks %llu and %llu have it, and the numbers (pp=%llu) make them of "
            "different pipeline stages: a layer is of one",
            (unsigned long long)f->c->parts[other].rank, (unsigned long long)f->c->parts[at].rank,
            (unsigned long long)f->p->pp);
    }
    return SFT_OK;
}

/* Neighbours are enough: numbers that are wrong make every stage so. */
static sft_status check_stages(const fitting *f) {
    size_t before = 0;
    for (size_t i = 1; i < f->c->count; i++) {
        if (f->c->parts[i].rank / f->devices != f->c->parts[before].rank / f->devices) {
            SFT_TRY(check_stage(f, i, before));
            before = i;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- values */

static bool is_constant(const uint8_t *p, size_t n, size_t element) {
    return n < 2 * element || memcmp(p, p + element, n - element) == 0;
}

static size_t sample_of(const sft_tensor *t) {
    const size_t n = (size_t)(t->nbytes < SAMPLE ? t->nbytes : SAMPLE);
    return n - n % t->dtype->block_bytes;
}

/* Weights of a model that tensor parallelism cuts: one head of keys may be on several ranks. */
static bool is_matrix(const fitting *f, const sft_tensor *t) {
    sft__checkpoint_role role;
    return t->rank == 2 && t->dtype->block_elements == 1 &&
           t->nbytes >= 4 * t->dtype->block_bytes && is_shared(f, t, &role) && !role.is_state &&
           role.expert == UINT64_MAX && role.heads != SFT__HEADS_KEY &&
           (role.cut == SFT__CUT_COLUMN || role.cut == SFT__CUT_ROW ||
            role.cut == SFT__CUT_GATE_UP);
}

static sft_status read_sample(const fitting *f, size_t part, const sft_tensor *like, uint8_t *out,
                              size_t n, bool *there) {
    const sft_catalog *const c = f->c->parts[part].catalog;
    const sft_tensor *const t = sft_catalog_find(c, like->name, like->name_len);
    *there = t != NULL && t->nbytes == like->nbytes && t->dtype->id == like->dtype->id;
    return *there ? sft_tensor_read_bytes(c, t, 0, out, n, f->err) : SFT_OK;
}

static float magnitude(float x) {
    return x < 0 ? -x : x;
}

/* Values of replicas that drifted apart are near each other; those of other parts are not. */
static bool are_unlike(const float *x, const float *y, size_t count) {
    size_t unlike = 0;
    size_t compared = 0;
    for (size_t i = 0; i < count; i++) {
        const float a = magnitude(x[i]);
        const float b = magnitude(y[i]);
        const float apart = magnitude(x[i] - y[i]);
        if (apart == apart) { /* neither NaN nor infinite */
            compared++;
            unlike += apart > (a > b ? a : b) / 4;
        }
    }
    return compared >= 4 && unlike > compared / 2;
}

static bool is_unlike(const sft_tensor *like, const uint8_t *a, const uint8_t *b, size_t n) {
    const sft_dtype *const d = like->dtype;
    const size_t count = n / d->block_bytes;
    const sft_cast cast = {sft_dtype_get(SFT_F32), d, SFT_CONVERT_HOST_DST};
    float x[SAMPLE / 2];
    float y[SAMPLE / 2];
    size_t unlike = 0;
    if (d->id == SFT_F32 || d->id == SFT_F16 || d->id == SFT_BF16) {
        return sft_convert(x, a, count, &cast, NULL) == SFT_OK &&
               sft_convert(y, b, count, &cast, NULL) == SFT_OK && are_unlike(x, y, count);
    }
    for (size_t i = 0; i < n; i += d->block_bytes) {
        unlike += memcmp(a + i, b + i, d->block_bytes) != 0;
    }
    return count >= 4 && unlike > count / 2;
}

/* Ranks 0, tp, 2 * tp ... of the first stage. *other: one that is unlike the first; 0: none. */
static sft_status compare_replicas(const fitting *f, const sft_tensor *t, size_t *other) {
    const size_t n = sample_of(t);
    bool there;
    *other = 0;
    SFT_TRY(read_sample(f, 0, t, f->room, n, &there));
    for (size_t i = 1; i < f->c->count && i < MOST && there && *other == 0; i++) {
        const uint64_t rank = f->c->parts[i].rank;
        bool too;
        if (rank / f->devices != f->c->parts[0].rank / f->devices) {
            break;
        }
        if (rank % f->p->tp == f->c->parts[0].rank % f->p->tp) {
            SFT_TRY(read_sample(f, i, t, f->room + SAMPLE, n, &too));
            *other = too && is_unlike(t, f->room, f->room + SAMPLE, n) ? i : 0;
        }
    }
    return SFT_OK;
}

static sft_status check_alike(const fitting *f) {
    const sft_catalog *const c = f->c->parts[0].catalog;
    const sft_tensor *last = NULL;
    size_t other = 0;
    size_t seen = 0;
    for (size_t i = 0; i < sft_catalog_count(c) && seen < MATRICES; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        if (is_matrix(f, t)) {
            SFT_TRY(compare_replicas(f, t, &other));
            if (other == 0) {
                return SFT_OK;
            }
            last = t;
            seen++;
        }
    }
    return last == NULL
               ? SFT_OK
               : SFT_FAIL_TENSOR(
                     f->err, SFT_E_MISMATCH, last,
                     "ranks %llu and %llu hold other values of it, and the numbers (dp=%llu, "
                     "tp=%llu) make them replicas: they are parts, of a larger tp, or of other "
                     "steps",
                     (unsigned long long)f->c->parts[0].rank,
                     (unsigned long long)f->c->parts[other].rank, (unsigned long long)f->p->dp,
                     (unsigned long long)f->p->tp);
}

/* The same bytes, as far as CERTAIN? */
static sft_status is_same(const fitting *f, const sft_tensor *t, size_t a, size_t b, bool *same) {
    const uint64_t end = t->nbytes < CERTAIN ? t->nbytes : CERTAIN;
    *same = true;
    for (uint64_t at = 0; at < end && *same; at += SAMPLE) {
        const size_t n = (size_t)(end - at < SAMPLE ? end - at : SAMPLE);
        uint8_t two[2][SAMPLE];
        for (size_t k = 0; k < 2; k++) {
            const sft_catalog *const c = f->c->parts[k == 0 ? a : b].catalog;
            const sft_tensor *const u = sft_catalog_find(c, t->name, t->name_len);
            SFT_TRY(sft_tensor_read_bytes(c, u, at, two[k], n, f->err));
        }
        *same = memcmp(two[0], two[1], n) == 0;
    }
    return SFT_OK;
}

/* How many of the first tp ranks' parts are each held once more; *twins: of the first one's bytes. 0: some
 * part is like no other, or nothing can be said. */
static sft_status compare_parts(const fitting *f, const sft_tensor *t, size_t count, size_t *twins,
                                bool *tells) {
    const size_t n = sample_of(t);
    *twins = 0;
    *tells = false;
    for (size_t i = 0; i < count; i++) {
        bool there;
        SFT_TRY(read_sample(f, i, t, f->room + i * SAMPLE, n, &there));
        if (!there || is_constant(f->room + i * SAMPLE, n, t->dtype->block_bytes)) {
            return SFT_OK;
        }
    }
    *tells = true;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < count; k++) {
            bool equal = k != i && memcmp(f->room + i * SAMPLE, f->room + k * SAMPLE, n) == 0;
            if (equal && same == 0) {
                SFT_TRY(is_same(f, t, i, k, &equal));
            }
            same += equal ? 1 : 0;
        }
        if (same == 0) {
            *twins = 0;
            return SFT_OK;
        }
        *twins = i == 0 ? same + 1 : *twins;
    }
    return SFT_OK;
}

static sft_status check_unlike(const fitting *f) {
    const sft_catalog *const c = f->c->parts[0].catalog;
    const sft_tensor *last = NULL;
    size_t count = 0;
    size_t twins = 0;
    size_t seen = 0;
    while (count < f->c->count && f->c->parts[count].rank < f->p->tp && count < MOST) {
        count++;
    }
    for (size_t i = 0; i < sft_catalog_count(c) && seen < MATRICES && count > 1; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        bool tells = false;
        if (is_matrix(f, t)) {
            SFT_TRY(compare_parts(f, t, count, &twins, &tells));
            if (tells && twins == 0) {
                return SFT_OK;
            }
            last = tells ? t : last;
            seen += tells;
        }
    }
    if (last == NULL) {
        return SFT_OK;
    }
    char fitting_numbers[80] = "";
    if (f->p->tp % twins == 0) {
        (void)snprintf(fitting_numbers, sizeof fitting_numbers, ": dp=%llu,tp=%llu, more probably",
                       (unsigned long long)(f->p->dp * twins),
                       (unsigned long long)(f->p->tp / twins));
    }
    return SFT_FAIL_TENSOR(
        f->err, SFT_E_MISMATCH, last,
        "the numbers (tp=%llu) make ranks hold parts of it, and the parts are the "
        "same bytes, as replicas are%s",
        (unsigned long long)f->p->tp, fitting_numbers);
}

/* ---------------------------------------------------------------- all of it */

static sft_status check_values(fitting *f) {
    const size_t parts = f->p->tp < MOST ? (size_t)f->p->tp + 1 : (size_t)MOST + 1;
    f->room = sft__base_alloc_array(f->c->allocator, parts, SAMPLE);
    SFT_NEED(f->room != NULL, parts * SAMPLE, f->err);
    sft_status status = check_alike(f);
    if (status == SFT_OK && f->p->tp > 1 && !f->c->layouts->borne_out) {
        status = check_unlike(f);
    }
    sft__base_free(f->c->allocator, f->room, parts * SAMPLE);
    return status;
}

sft_status sft__checkpoint_numbers_fit(const sft_checkpoint *c, bool deduplicated, sft_error *err) {
    fitting f = {c, c->layouts->parallel, 0, NULL, err};
    if (f.p == NULL || c->count < 2) {
        return SFT_OK;
    }
    f.devices = f.p->dp * f.p->cp * f.p->tp;
    SFT_TRY(check_stages(&f));
    if (!deduplicated) {
        SFT_TRY(check_replicas(&f));
    }
    return c->directory != NULL ? check_values(&f) : SFT_OK;
}
