/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_text.c - the numbers of a layout as text, "dp=2,tp=4,pp=2,offset=1:0", and the
 * stage that they give to a layer. Read checkpoint/layouts/parallel.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/layouts/parallel.h"
#include <string.h>

#define MOST_NUMBER  UINT64_C(999999999)
#define MOST_OFFSETS 65536u
#define THRESHOLD    UINT64_C(65536) /* MindSpore's own, 64 KiB */

static const char *const keys[] = {"dp", "tp", "pp", "cp", "ep", "vpp"};
#define KEYS (sizeof keys / sizeof keys[0])

typedef struct reading {
    sft_layout_set *set;
    sft__checkpoint_parallel *p;
    const char *text;
    size_t len;
    size_t at;
    unsigned seen; /* bits of KEYS, then offset, threshold, vocab and optimizer */
    sft_error *err;
} reading;

static bool begins(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);
    return len >= n && memcmp(text, word, n) == 0;
}

static uint64_t *place_of(sft__checkpoint_parallel *p, size_t key) {
    uint64_t *const places[KEYS] = {&p->dp, &p->tp, &p->pp, &p->cp, &p->ep, &p->vpp};
    return places[key];
}

bool sft__checkpoint_parallel_is(const char *text, size_t len) {
    static const char *const words[] = {
        "offset=",         "optimizer-threshold=", "optimizer-parallel=", "optimizer-parallel,",
        "vocab-parallel=", "vocab-parallel,"};
    for (size_t i = 0; i < KEYS; i++) {
        const size_t n = strlen(keys[i]);
        if (begins(text, len, keys[i]) && len > n + 1 && text[n] == '=' && text[n + 1] >= '0' &&
            text[n + 1] <= '9') {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (begins(text, len, words[i])) {
            return true;
        }
    }
    return false;
}

static sft_status wrong(const reading *r, const char *what) {
    return sft__base_fail_at(r->err, SFT_E_SCHEMA, r->at, "layout \"%.*s\": %s",
                             (int)(r->len < 120 ? r->len : 120), r->text, what);
}

static bool take(reading *r, const char *word) {
    if (!begins(r->text + r->at, r->len - r->at, word)) {
        return false;
    }
    r->at += strlen(word);
    return true;
}

static sft_status number(reading *r, uint64_t *out) {
    const size_t from = r->at;
    uint64_t v = 0;
    while (r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        v = v * 10 + (uint64_t)(r->text[r->at++] - '0');
        if (v > MOST_NUMBER) {
            return wrong(r, "a number above 999999999");
        }
    }
    *out = v;
    return r->at != from ? SFT_OK : wrong(r, "expected a number");
}

/* "1:0:-1", or such rows for each virtual stage: "1:0/0:0". */
static sft_status offsets(reading *r) {
    int64_t *list;
    size_t room = 1;
    size_t n = 0;
    for (size_t i = r->at; i < r->len && r->text[i] != ','; i++) {
        room += r->text[i] == ':' || r->text[i] == '/';
    }
    if (room > MOST_OFFSETS) {
        return wrong(r, "more than 65536 offsets");
    }
    SFT_TRY(sft__checkpoint_lset_take(r->set, &list, room, sizeof *list, r->err));
    do {
        const bool negative = take(r, "-");
        uint64_t v = 0;
        SFT_TRY(number(r, &v));
        list[n++] = negative ? -(int64_t)v : (int64_t)v; /* at most nine digits */
    } while (take(r, ":") || take(r, "/"));
    r->p->offset = list;
    r->p->offset_count = n;
    return SFT_OK;
}

static sft_status yes_or_no(reading *r, bool *out) {
    *out = true;
    if (!take(r, "=") || take(r, "yes")) {
        return SFT_OK;
    }
    *out = false;
    return take(r, "no") ? SFT_OK : wrong(r, "expected yes or no");
}

static sft_status once(reading *r, size_t bit) {
    const bool again = (r->seen & 1u << bit) != 0;
    r->seen |= 1u << bit;
    return again ? wrong(r, "a number is given twice") : SFT_OK;
}

static sft_status item(reading *r) {
    for (size_t i = 0; i < KEYS; i++) {
        const size_t n = strlen(keys[i]);
        if (begins(r->text + r->at, r->len - r->at, keys[i]) && r->at + n < r->len &&
            r->text[r->at + n] == '=') {
            SFT_TRY(once(r, i));
            r->at += n + 1;
            SFT_TRY(number(r, place_of(r->p, i)));
            return *place_of(r->p, i) != 0 ? SFT_OK : wrong(r, "a number of ranks is 0");
        }
    }
    if (take(r, "offset=")) {
        SFT_TRY(once(r, KEYS));
        return offsets(r);
    }
    if (take(r, "optimizer-threshold=")) {
        SFT_TRY(once(r, KEYS + 1));
        return number(r, &r->p->threshold);
    }
    if (take(r, "optimizer-parallel")) {
        SFT_TRY(once(r, KEYS + 2));
        return yes_or_no(r, &r->p->optimizer);
    }
    if (take(r, "vocab-parallel")) {
        bool yes;
        SFT_TRY(once(r, KEYS + 3));
        SFT_TRY(yes_or_no(r, &yes));
        r->p->vocab = yes ? SFT__CHOICE_YES : SFT__CHOICE_NO;
        return SFT_OK;
    }
    return wrong(r, "expected dp=, tp=, pp=, cp=, ep=, vpp=, offset=, vocab-parallel, "
                    "optimizer-parallel or optimizer-threshold=");
}

sft_status sft__checkpoint_parallel_new(sft_layout_set *set, sft__checkpoint_parallel **out,
                                        sft_error *err) {
    SFT_TRY(sft__checkpoint_lset_take(set, out, 1, sizeof **out, err));
    for (size_t i = 0; i < KEYS; i++) {
        *place_of(*out, i) = 1;
    }
    (*out)->threshold = THRESHOLD;
    return SFT_OK;
}

sft_status sft__checkpoint_parallel_ready(sft_layout_set *set, sft__checkpoint_parallel *p,
                                          sft_error *err) {
    uint64_t devices;
    if (!sft__base_mul64(p->dp, p->cp, &devices) || !sft__base_mul64(devices, p->tp, &devices) ||
        !sft__base_mul64(devices, p->pp, &set->ranks) || set->ranks > UINT64_C(1) << 31) {
        return sft__base_fail(err, SFT_E_SCHEMA, "layout: more than 2^31 ranks");
    }
    if (devices % p->ep != 0) {
        return sft__base_fail(err, SFT_E_SCHEMA,
                              "layout: ep %llu does not divide the %llu ranks of a stage",
                              (unsigned long long)p->ep, (unsigned long long)devices);
    }
    if (p->offset_count != 0 && p->offset_count != p->pp &&
        (p->offset_count % p->pp != 0 || p->offset_count / p->pp != p->vpp)) {
        return sft__base_fail(
            err, SFT_E_SCHEMA,
            "layout: %llu offsets: one for each of %llu stages, or for each of their "
            "%llu virtual ones, is needed",
            (unsigned long long)p->offset_count, (unsigned long long)p->pp,
            (unsigned long long)p->vpp);
    }
    set->parallel = p;
    set->form = SFT_LAYOUT_FORM_PARALLEL;
    return SFT_OK;
}

sft_status sft__checkpoint_parallel_parse(sft_layout_set *set, const char *text, size_t len,
                                          sft_error *err) {
    reading r = {set, NULL, text, len, 0, 0, err};
    SFT_TRY(sft__checkpoint_parallel_new(set, &r.p, err));
    while (r.len != 0 && (r.text[r.len - 1] == '\n' || r.text[r.len - 1] == '\r')) {
        r.len--;
    }
    do {
        SFT_TRY(item(&r));
    } while (take(&r, ","));
    if (r.at != r.len) {
        return wrong(&r, "expected a comma, or the end");
    }
    return sft__checkpoint_parallel_ready(set, r.p, err);
}

/* ---------------------------------------------------------------- stages */

static sft_status uneven(const sft__checkpoint_parallel *p, uint64_t layers, const char *what,
                         sft_error *err) {
    return sft__base_fail(err, SFT_E_SHAPE, "%llu layers among pp %llu with vpp %llu: %s",
                          (unsigned long long)layers, (unsigned long long)p->pp,
                          (unsigned long long)p->vpp, what);
}

sft_status sft__checkpoint_parallel_stage(const sft__checkpoint_parallel *p, uint64_t layers,
                                          uint64_t layer, uint64_t *stage, sft_error *err) {
    const uint64_t runs = p->pp * p->vpp; /* cannot overflow: both below 10^9 */
    int64_t end = 0;
    bool found = false;
    if (runs > layers) {
        return uneven(p, layers, "more stages than layers", err);
    }
    for (uint64_t i = 0; i < runs; i++) { /* at most `layers` */
        const int64_t more =
            p->offset_count == 0 ? 0 : p->offset[p->offset_count == runs ? i : i % p->pp];
        const int64_t size = (int64_t)(layers / runs) + more;
        if (size < 0 || (size == 0 && i != 0 && i + 1 != runs)) {
            return uneven(p, layers, "an offset leaves a stage without layers", err);
        }
        end += size; /* at most 2^31 of numbers below 2^31 */
        if (!found && (uint64_t)end > layer) {
            *stage = i % p->pp;
            found = true;
        }
    }
    if ((uint64_t)end != layers) {
        return uneven(p, layers,
                      p->offset_count == 0 ? "they do not divide, so that offset= must say who has "
                                             "more of them"
                                           : "the offsets do not add up to what is left",
                      err);
    }
    return SFT_OK;
}
