/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/shard_names.c - PyTorch numbers its files, shard-00003-model-00002-of-00004: what
 * the names count and the directory does not have. Nothing else tells: the files give no global shapes,
 * and no list of tensors. A rank that had nothing to save writes no file, so that a gap is a
 * problem, not an error. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/open/checkpoint.h"
#include <stdlib.h>

typedef struct numbered {
    uint64_t shard;
    uint64_t file; /* of so many */
    uint64_t of;
} numbered;

static bool take(const char **text, const char *stop, uint64_t *number) {
    const char *p = *text;
    *number = 0;
    while (p < stop && p - *text < 18 && *p >= '0' && *p <= '9') {
        *number = *number * 10 + (uint64_t)(*p++ - '0'); /* below 10^18 */
    }
    const bool any = p != *text;
    *text = p;
    return any && *number != 0;
}

/* The number that ends before `stop`, after `before`; *stop: where that begins. */
static bool take_last(const char *name, const char **stop, const char *before, uint64_t *number) {
    const size_t n = strlen(before);
    const char *p = *stop;
    while (p > name && p[-1] >= '0' && p[-1] <= '9') {
        p--;
    }
    const char *at = p;
    if ((size_t)(p - name) < n || memcmp(p - n, before, n) != 0 || !take(&at, *stop, number) ||
        at != *stop) {
        return false;
    }
    *stop = p - n;
    return true;
}

static bool parse(const char *name, numbered *out) {
    static const char extension[] = ".safetensors";
    const size_t len = strlen(name);
    if (!sft__checkpoint_is_shard(name) || !sft__checkpoint_ends(name, len, extension)) {
        return false;
    }
    const char *p = name + strlen(SFT__SHARD);
    const char *stop = name + len - (sizeof extension - 1);
    return take(&p, stop, &out->shard) && p < stop && *p == '-' &&
           take_last(p, &stop, "-of-", &out->of) && take_last(p, &stop, "-", &out->file);
}

bool sft__checkpoint_is_shard(const char *name) {
    return strncmp(name, SFT__SHARD, strlen(SFT__SHARD)) == 0;
}

static int order(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int by_shard(const void *a, const void *b) {
    return order(((const numbered *)a)->shard, ((const numbered *)b)->shard);
}

static int by_file(const void *a, const void *b) {
    const numbered *const x = a;
    const numbered *const y = b;
    return x->of != y->of ? order(x->of, y->of) : order(x->file, y->file);
}

static void skip(sft__checkpoint_lset_runs *runs, uint64_t first, uint64_t end) {
    if (first < end) {
        sft__checkpoint_lset_runs_add(runs, first);
        runs->last = end - 1;
    }
}

/* The text of the runs as one more of the problem's parts. */
static void put(sft__base_buf *text, const char *one, const char *many,
                sft__checkpoint_lset_runs *runs) {
    const bool single = runs->count == 1 && runs->first == runs->last;
    sft__checkpoint_lset_runs_end(runs);
    if (runs->count != 0) {
        sft__base_buf_text(text, text->len != 0 ? "; " : "");
        sft__base_buf_text(text, single ? one : many);
        sft__base_buf_add(text, runs->text.data, runs->text.len);
        text->failed = text->failed || runs->text.failed;
    }
    sft__base_buf_reset(&runs->text);
}

static void put_shards(sft__base_buf *text, numbered *list, size_t count, const sft_allocator *a) {
    sft__checkpoint_lset_runs runs;
    uint64_t next = 1;
    memset(&runs, 0, sizeof runs);
    sft__base_buf_init(&runs.text, a);
    qsort(list, count, sizeof *list, by_shard);
    for (size_t i = 0; i < count; i++) {
        skip(&runs, next, list[i].shard);
        next = list[i].shard + 1; /* below 10^18 + 1 */
    }
    put(text, "shard ", "shards ", &runs);
}

/* Of the files of one count, whichever shards they are of. */
static size_t put_files(sft__base_buf *text, const numbered *list, size_t count,
                        const sft_allocator *a) {
    const uint64_t of = list[0].of;
    sft__checkpoint_lset_runs runs;
    uint64_t next = 1;
    size_t n = 0;
    memset(&runs, 0, sizeof runs);
    sft__base_buf_init(&runs.text, a);
    for (; n < count && list[n].of == of; n++) {
        skip(&runs, next, list[n].file);
        next = list[n].file >= next ? list[n].file + 1 : next;
    }
    skip(&runs, next, of + 1);
    const bool any = runs.count != 0;
    put(text, "file ", "files ", &runs);
    if (any) {
        sft__base_buf_text(text, " of ");
        sft__base_buf_u64(text, of);
    }
    return n;
}

sft_status sft__checkpoint_note_shards(sft_checkpoint *c, const sft__checkpoint_names *names,
                                       sft_error *err) {
    enum { MOST = 200 }; /* bytes: different counts are many, where names are hostile */
    const size_t room = names->count + 1;
    numbered *const list = sft__base_alloc_array(c->allocator, room, sizeof *list);
    sft__base_buf text;
    size_t count = 0;
    SFT_NEED(list != NULL, room * sizeof *list, err);
    for (size_t i = 0; i < names->count; i++) {
        count += parse(names->list[i], &list[count]);
    }
    sft__base_buf_init(&text, c->allocator);
    if (count != 0) {
        put_shards(&text, list, count, c->allocator);
        qsort(list, count, sizeof *list, by_file);
    }
    for (size_t i = 0; i < count && text.len < MOST;) {
        i += put_files(&text, list + i, count - i, c->allocator);
    }
    if (text.len != 0) {
        c->skipped = sft__base_arena_copy(&c->arena, text.data, text.len);
    }
    const bool failed = text.failed || (text.len != 0 && c->skipped == NULL);
    const size_t size = text.len;
    sft__base_buf_reset(&text);
    sft__base_free(c->allocator, list, room * sizeof *list);
    return failed ? sft__checkpoint_nomem(c, size, err) : SFT_OK;
}
