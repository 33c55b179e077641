/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/counted.c - a directory without an index whose files count themselves, model-00002-of-00004:
 * what the names count and the directory does not have is missing, as what an index names is.
 * PyTorch's shards (shard-00003-model-00002-of-00004) are not judged: a rank with nothing to save
 * writes no file, see checkpoint/open/shard_names.c. Read first: model.h.
 */
#include "base/memory/need.h"
#include "base/text/utf8.h"
#include "catalog/model.h"
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS_MOST = 18 }; /* numbers below 10^18 */

/* BEFORE digits "-of-" digits BEHIND: what a name counts. */
typedef struct counted {
    const char *name;
    size_t name_len;
    size_t before; /* bytes in front of the number, its separator included */
    size_t width;  /* of the number */
    size_t behind; /* where the text behind the count begins */
    uint64_t number;
    uint64_t of;
} counted;

static bool is_separator(char ch) {
    return ch == '-' || ch == '_' || ch == '.';
}

static uint64_t number_at(const char *p, size_t len) {
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        v = 10 * v + (uint64_t)(p[i] - '0'); /* len <= DIGITS_MOST */
    }
    return v;
}

/* Does "-of-" stand at `at`, with digits on both sides? */
static bool parse_at(counted *c, size_t at) {
    size_t first = at;
    size_t end = at + 4;

    if (!is_separator(c->name[at]) || memcmp(c->name + at + 1, "of", 2) != 0 ||
        c->name[at + 3] != c->name[at]) {
        return false;
    }
    while (first > 0 && sft__base_is_digit(c->name[first - 1])) {
        first--;
    }
    while (end < c->name_len && sft__base_is_digit(c->name[end])) {
        end++;
    }
    c->before = first;
    c->width = at - first;
    c->behind = end;
    if (c->width == 0 || c->width > DIGITS_MOST || end == at + 4 || end - at - 4 > DIGITS_MOST ||
        end == c->name_len || c->name[end] != '.' ||
        (first > 0 && !is_separator(c->name[first - 1]))) {
        return false;
    }
    c->number = number_at(c->name + first, c->width);
    c->of = number_at(c->name + at + 4, end - at - 4);
    return c->number <= c->of;
}

static bool parse(counted *c, const sft__catalog_shard *shard) {
    static const char torch[] = "shard-";

    c->name = shard->name;
    c->name_len = shard->name_len;
    if (c->name_len < sizeof torch || memcmp(c->name, torch, sizeof torch - 1) == 0) {
        return false;
    }
    for (size_t at = c->name_len - 4; at > 0; at--) {
        if (parse_at(c, at)) {
            return true;
        }
    }
    return false;
}

static int compare_texts(const char *a, size_t a_len, const char *b, size_t b_len) {
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : a_len < b_len ? -1 : a_len > b_len;
}

/* Of two names of one set: 0. */
static int compare_sets(const counted *x, const counted *y) {
    int order = compare_texts(x->name, x->before, y->name, y->before);
    if (order == 0) {
        order = compare_texts(x->name + x->behind, x->name_len - x->behind, y->name + y->behind,
                              y->name_len - y->behind);
    }
    return order != 0 ? order : x->of < y->of ? -1 : x->of > y->of;
}

static int compare(const void *a, const void *b) {
    const counted *const x = a;
    const counted *const y = b;
    const int order = compare_sets(x, y);
    return order != 0 ? order : x->number < y->number ? -1 : x->number > y->number;
}

static sft_status miss(sft__catalog_model *model, const counted *like, uint64_t number,
                       uint64_t there, sft_error *err) {
    const size_t room = like->name_len + DIGITS_MOST + 3;
    const unsigned long long count = there;
    const unsigned long long of = like->of;
    char *name = sft__base_arena_alloc(&model->catalog->arena, room, 1);
    sft__catalog_shown shown;

    if (name == NULL) {
        return sft__catalog_arena_failed(&model->catalog->arena, room, err);
    }
    memcpy(name, like->name, like->before);
    const int digits = snprintf(name + like->before, DIGITS_MOST + 3, "%0*llu", (int)like->width,
                                (unsigned long long)number);
    const size_t at = like->before + (digits > 0 ? (size_t)digits : 0);
    const size_t rest = like->before + like->width;
    memcpy(name + at, like->name + rest, like->name_len - rest + 1);
    (void)sft__catalog_show(&shown, name, strlen(name));
    if ((model->options->open.flags & SFT_OPEN_INCOMPLETE) == 0) {
        return sft__base_fail(
            err, SFT_E_SHARD_MISSING,
            "%s is not there: of %llu files that the names count there are %llu, and "
            "no index",
            shown.text, of, count);
    }
    return sft__catalog_problem_add(
        model->catalog, SFT_PROBLEM_MISSING_FILE, (sft__catalog_subject){name, strlen(name)}, err,
        "%s is not there: of %llu files that the names count there are %llu", shown.text, of,
        count);
}

/* The set that begins at `list`, sorted; *size: its names. Numbers begin at 1, or at 0 where one is
 * 0. */
static sft_status check_set(sft__catalog_model *model, const counted *list, size_t count,
                            size_t *size, sft_error *err) {
    const uint64_t first = list[0].number == 0 ? 0 : 1;
    const uint64_t end = first + list[0].of;
    uint64_t next = first;
    uint64_t there = 0;
    uint64_t hole = end;
    size_t n = 0;

    for (; n < count && compare_sets(&list[0], &list[n]) == 0; n++) {
        if (list[n].number < next || list[n].number >= end) { /* once more, or behind the last */
            continue;
        }
        hole = hole == end && list[n].number != next ? next : hole;
        next = list[n].number + 1;
        there++;
    }
    hole = hole == end ? next : hole;
    *size = n;
    return hole < end ? miss(model, &list[0], hole, there, err) : SFT_OK;
}

sft_status sft__catalog_shards_count(sft__catalog_model *model, sft_error *err) {
    const sft_allocator *const a = model->catalog->allocator;
    const size_t room = model->shard_count;
    counted *const list = sft__base_alloc_array(a, room, sizeof *list);
    sft_status status = SFT_OK;
    size_t count = 0;
    size_t size;

    SFT_NEED(list != NULL, room * sizeof *list, err);
    for (size_t i = 0; i < room; i++) {
        count += parse(&list[count], &model->shards[i]);
    }
    if (count > 1) {
        qsort(list, count, sizeof *list, compare);
    }
    for (size_t i = 0; i < count && status == SFT_OK; i += size) {
        status = check_set(model, list + i, count - i, &size, err);
    }
    sft__base_free(a, list, room * sizeof *list);
    return status;
}
