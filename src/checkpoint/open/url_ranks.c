/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/url_ranks.c - the files of ranks behind URLs, of which there are no listings: a URL with
 * "{rank}" in it, or a directory whose rank_N/meta.json say what the last files are called. Read
 * checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/utf8.h"
#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/open/checkpoint.h"
#include "layout/layout.h"
#include <sft/extend.h>
#include <stdio.h>

#define PATTERN    "{rank}"
#define MOST_RANKS UINT64_C(16384) /* that are asked for at the most */
#define WINDOW     ((size_t)256)   /* ranks whose answers are waited for together */
#define NOBODY     ((size_t)1024)  /* ranks without a file, from 0 on: there are none at all */

static bool is_absent(sft_status status, const sft_error *why) {
    return status == SFT_E_NOT_FOUND || (status == SFT_E_HTTP && why->sys == 404);
}

bool sft__checkpoint_is_url_ranks(const sft_checkpoint *c, const char *url) {
    return strstr(url, PATTERN) != NULL || c->step != NULL || c->layouts != NULL;
}

/* ---------------------------------------------------------------- names */

/* Every "{rank}" becomes the number. */
static sft_status fill_in(sft_checkpoint *c, const char *url, uint64_t rank, const char **out,
                          sft_error *err) {
    sft__base_buf b;
    char number[24];
    const char *at;
    const char *found;
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)rank);
    sft__base_buf_init(&b, c->allocator);
    for (at = url; (found = strstr(at, PATTERN)) != NULL; at = found + sizeof PATTERN - 1) {
        sft__base_buf_add(&b, at, (size_t)(found - at));
        sft__base_buf_text(&b, number);
    }
    sft__base_buf_text(&b, at);
    *out = b.failed ? NULL : sft__base_arena_copy(&c->arena, b.data, b.len);
    const size_t size = b.len;
    sft__base_buf_reset(&b);
    return *out != NULL ? SFT_OK : sft__checkpoint_nomem(c, size, err);
}

/* One part of a URL's path. */
static bool is_name(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || strchr("/\\?#%", name[i]) != NULL) {
            return false;
        }
    }
    return len != 0 && name[0] != '.';
}

/* Web addresses have escapes in them; other URLs are escaped where they are asked for. */
static sft_status in_url(sft_checkpoint *c, const char *url, const char *name, const char **out,
                         sft_error *err) {
    sft__base_buf b;
    if (strncmp(url, "http", 4) != 0) {
        *out = name;
        return SFT_OK;
    }
    sft__base_buf_init(&b, c->allocator);
    sft__base_buf_url(&b, name, strlen(name), false);
    const size_t size = b.len;
    *out = b.failed ? NULL : sft__base_arena_copy(&c->arena, b.data, b.len);
    sft__base_buf_reset(&b);
    return *out != NULL ? SFT_OK : sft__checkpoint_nomem(c, size, err);
}

/* PREFIX-EPOCH_STEP.safetensors with the step that was asked for. */
static sft_status other_step(sft_checkpoint *c, const char *name, size_t len, const char **out,
                             sft_error *err) {
    static const char ending[] = ".safetensors";
    uint64_t epoch, step;
    sft__base_buf b;
    size_t stem = len;
    if (!sft__checkpoint_step_of(name, len, &epoch, &step)) {
        return sft__base_fail(err, SFT_E_FORMAT, "%s has no step in its name", name);
    }
    while (name[stem - 1] != '-') {
        stem--;
    }
    sft__base_buf_init(&b, c->allocator);
    sft__base_buf_add(&b, name, stem);
    sft__base_buf_text(&b, c->step + (c->step[0] == '-')); /* "-3_2" as resume-point says it */
    sft__base_buf_add(&b, ending, sizeof ending - 1);
    const bool good = !b.failed && is_name(b.data, b.len) &&
                      sft__checkpoint_step_of(b.data, b.len, &epoch, &step);
    *out = good ? sft__base_arena_copy(&c->arena, b.data, b.len) : NULL;
    const bool failed = b.failed;
    sft__base_buf_reset(&b);
    if (*out == NULL && (good || failed)) {
        return sft__checkpoint_nomem(c, len, err);
    }
    return good ? SFT_OK
                : sft__base_fail(err, SFT_E_ARG, "\"%.80s\" is no step: EPOCH_STEP is wanted",
                                 c->step);
}

/* What the rank's meta.json names, or the step that was asked for. */
static sft_status name_of(sft_checkpoint *c, const sft__checkpoint_text *text, const char **out,
                          sft_error *err) {
    sft__layout_jnode *root;
    SFT_TRY(sft__layout_jtree_parse(&root, &c->arena, text->data, text->size, "meta.json", err));
    const sft__layout_jnode *const last = sft__layout_jtree_get(root, "last_ckpt_file");
    if (last == NULL || last->type != SFT__J_STRING || !is_name(last->text, last->len) ||
        !sft__checkpoint_ends(last->text, last->len, ".safetensors")) {
        return sft__base_fail(err, SFT_E_SCHEMA,
                              "meta.json: \"last_ckpt_file\" names no file of safetensors");
    }
    const char *const name = sft__base_arena_copy(&c->arena, last->text, last->len);
    if (name == NULL) {
        return sft__checkpoint_nomem(c, last->len, err);
    }
    if (c->step != NULL) {
        return other_step(c, name, last->len, out, err);
    }
    *out = name;
    return SFT_OK;
}

/* ---------------------------------------------------------------- many at once */

/* What one rank is asked for, and what came. */
typedef struct asked {
    const char *url; /* NULL: nothing */
    sft__checkpoint_text text;
    sft_catalog *catalog;
    sft_status status;
    sft_error why;
} asked;

typedef struct asking {
    sft_checkpoint *c;
    asked *list;
    size_t first;  /* which of the list the pool's number 0 is */
    bool catalogs; /* of files; else texts */
} asking;

static void ask_one(void *ctx, size_t i) {
    const asking *const k = ctx;
    asked *const a = &k->list[k->first + i];
    if (a->url != NULL) {
        a->status = k->catalogs ? sft__checkpoint_open_file(k->c, a->url, &a->catalog, &a->why)
                                : sft__checkpoint_read(k->c, a->url, &a->text, &a->why);
    }
}

/* The first by itself: whoever opens URLs makes what it needs for that, and is then asked by several
 * threads. A fault there is the answer. */
static void ask(asking *k, size_t count) {
    k->first = 0;
    ask_one(k, 0);
    if (k->list[0].status != SFT_OK && !is_absent(k->list[0].status, &k->list[0].why)) {
        return;
    }
    k->first = 1;
    sft_pool_run(k->c->pool, count - 1, ask_one, k);
}

static void forget(asking *k, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (k->list[i].text.data != NULL) {
            sft__checkpoint_text_reset(&k->list[i].text);
        }
        sft_catalog_close(k->list[i].catalog); /* NULL is fine */
    }
    memset(k->list, 0, WINDOW * sizeof *k->list);
}

static sft_status asking_init(asking *k, sft_checkpoint *c, bool catalogs, sft_error *err) {
    *k = (asking){c, sft__base_alloc_zero(c->allocator, WINDOW * sizeof *k->list), 0, catalogs};
    SFT_NEED(k->list != NULL, WINDOW * sizeof *k->list, err);
    return SFT_OK;
}

static void asking_reset(asking *k) {
    sft__base_free(k->c->allocator, k->list, WINDOW * sizeof *k->list);
}

/* ---------------------------------------------------------------- opening */

static sft_status read_layout(sft_checkpoint *c, const char *url, sft_error *err) {
    sft__checkpoint_text text;
    sft_layout_set_options o;
    const char *path;
    sft_error why;
    SFT_TRY(sft__checkpoint_path(c, url, "layout.json", &path, err));
    sft_status status = sft__checkpoint_read(c, path, &text, &why);
    if (status != SFT_OK) {
        return is_absent(status, &why)
                   ? sft__base_fail(err, SFT_E_NOT_FOUND,
                                    "how tensors are cut among the ranks is not known: there is no "
                                    "layout.json, and a layout is needed")
                   : sft_error_from(err, status, &why, "%s", why.message);
    }
    SFT_INIT(&o);
    o.allocator = c->allocator;
    o.limits = &c->limits;
    status = sft_layout_set_parse(&c->own, text.data, text.size, "layout.json", &o, err);
    sft__checkpoint_text_reset(&text);
    SFT_TRY(status);
    c->layouts = c->own;
    c->layout_path = "layout.json";
    return SFT_OK;
}

/* Where the rank's file is; NULL: it has none. */
static sft_status url_of(sft_checkpoint *c, const char *pattern,
                         const sft__checkpoint_rank_directory *one, const char **url,
                         sft_error *err) {
    const char *name;
    *url = NULL;
    if (pattern != NULL) {
        return fill_in(c, pattern, one->rank, url, err);
    }
    if (one->file == NULL) {
        return SFT_OK;
    }
    SFT_TRY(in_url(c, one->directory, one->file, &name, err));
    return sft__checkpoint_path(c, one->directory, name, url, err);
}

/* A rank without a file is none: replicas may stand in. */
static sft_status take_file(asking *k, size_t i, uint64_t rank, sft_error *err) {
    asked *const a = &k->list[i];
    sft_catalog *const catalog = a->catalog;
    if (a->url == NULL || (a->status != SFT_OK && is_absent(a->status, &a->why))) {
        return SFT_OK;
    }
    if (a->status != SFT_OK) {
        return sft_error_from(err, a->status, &a->why, "rank %llu: %s", (unsigned long long)rank,
                              a->why.message);
    }
    a->catalog = NULL;
    return sft__checkpoint_add(k->c, rank, catalog, err);
}

/* The files of all ranks, in order. */
static sft_status open_files(sft_checkpoint *c, const char *pattern,
                             const sft__checkpoint_directories *f, sft_error *err) {
    asking k;
    SFT_TRY(asking_init(&k, c, true, err));
    sft_status status = SFT_OK;
    for (size_t at = 0; at < f->count && status == SFT_OK; at += WINDOW) {
        const size_t n = f->count - at < WINDOW ? f->count - at : WINDOW;
        if (at >= NOBODY && c->count == 0) {
            break;
        }
        for (size_t i = 0; i < n && status == SFT_OK; i++) {
            status = url_of(c, pattern, &f->list[at + i], &k.list[i].url, err);
        }
        if (status == SFT_OK) {
            ask(&k, n);
        }
        for (size_t i = 0; i < n && status == SFT_OK; i++) {
            status = take_file(&k, i, f->list[at + i].rank, err);
        }
        forget(&k, n);
    }
    asking_reset(&k);
    return status;
}

static sft_status take_meta(asking *k, size_t i, sft__checkpoint_rank_directory *one,
                            sft_error *err) {
    const asked *const a = &k->list[i];
    if (a->status != SFT_OK) {
        return is_absent(a->status, &a->why)
                   ? SFT_OK
                   : sft_error_from(err, a->status, &a->why, "%s", a->why.message);
    }
    SFT_TRY(name_of(k->c, &a->text, &one->file, err));
    one->stepped = one->file != NULL &&
                   sft__checkpoint_step_of(one->file, strlen(one->file), &one->epoch, &one->step);
    return SFT_OK;
}

static sft_status place(sft_checkpoint *c, const char *url, sft__checkpoint_rank_directory *one,
                        const char **meta, sft_error *err) {
    char number[32];
    (void)snprintf(number, sizeof number, "rank_%llu", (unsigned long long)one->rank);
    SFT_TRY(sft__checkpoint_path(c, url, number, &one->directory, err));
    return sft__checkpoint_path(c, one->directory, "meta.json", meta, err);
}

/* What every rank's meta.json names. */
static sft_status look(sft_checkpoint *c, const char *url, const sft__checkpoint_directories *f,
                       bool *named, sft_error *err) {
    asking k;
    SFT_TRY(asking_init(&k, c, false, err));
    sft_status status = SFT_OK;
    *named = false;
    for (size_t at = 0; at < f->count && status == SFT_OK; at += WINDOW) {
        const size_t n = f->count - at < WINDOW ? f->count - at : WINDOW;
        for (size_t i = 0; i < n && status == SFT_OK; i++) {
            status = place(c, url, &f->list[at + i], &k.list[i].url, err);
        }
        if (status == SFT_OK && (at < NOBODY || *named)) {
            ask(&k, n);
            for (size_t i = 0; i < n && status == SFT_OK; i++) {
                status = take_meta(&k, i, &f->list[at + i], err);
                *named = *named || f->list[at + i].file != NULL;
            }
        }
        forget(&k, n);
    }
    asking_reset(&k);
    return status;
}

/* The file of the rank behind the last one of the layout, if it has any; *there: it opens. What the server
 * answers otherwise says nothing. */
static sft_status look_beyond(sft_checkpoint *c, const char *url, bool pattern,
                              sft__checkpoint_rank_directory *one, bool *there) {
    sft__checkpoint_text text;
    sft_catalog *catalog = NULL;
    const char *path;
    sft_error why;
    *there = false;
    if (!pattern) {
        SFT_TRY(place(c, url, one, &path, &why));
        if (one->file == NULL) {
            SFT_TRY(sft__checkpoint_read(c, path, &text, &why));
            const sft_status status = name_of(c, &text, &one->file, &why);
            sft__checkpoint_text_reset(&text);
            SFT_TRY(status);
        }
    }
    SFT_TRY(url_of(c, pattern ? url : NULL, one, &path, &why));
    SFT_TRY(sft__checkpoint_open_file(c, path, &catalog, &why));
    sft_catalog_close(catalog);
    *there = true;
    return SFT_OK;
}

/* As on a disk, where the ranks are listed: a layout of fewer ranks is another job's. */
static sft_status check_beyond(const sft__checkpoint_directories *f, const char *url, bool pattern,
                               bool named, sft_error *err) {
    sft_checkpoint *const c = f->c;
    sft__checkpoint_rank_directory one = {.rank = f->count};
    bool there = false;
    if (c->count == 0) {
        return SFT_OK;
    }
    one.file = pattern || named || c->step != NULL ? NULL : f->list[0].file;
    if (look_beyond(c, url, pattern, &one, &there) == SFT_E_NOMEM) {
        return sft__base_fail_nomem(err, 1);
    }
    return there ? sft__base_fail(err, SFT_E_MISMATCH,
                                  "there is a rank %llu, and the layout is for %llu ranks",
                                  (unsigned long long)one.rank, (unsigned long long)f->count)
                 : SFT_OK;
}

static sft_status open_ranks(sft_checkpoint *c, const char *url, bool pattern, size_t ranks,
                             sft_error *err) {
    sft__checkpoint_directories f = {c, NULL, ranks, ranks};
    sft_status status = SFT_OK;
    bool named = false;
    f.list = sft__base_alloc_array(c->allocator, ranks, sizeof *f.list);
    SFT_NEED(f.list != NULL, ranks * sizeof *f.list, err);
    memset(f.list, 0, ranks * sizeof *f.list);
    for (size_t r = 0; r < ranks; r++) {
        f.list[r].rank = r;
    }
    if (!pattern) {
        status = look(c, url, &f, &named, err);
        for (size_t r = 0; r < ranks && !named && c->step == NULL; r++) {
            f.list[r].file = "model.safetensors"; /* no rank has a meta.json */
        }
        if (status == SFT_OK) {
            status = sft__checkpoint_ranks_compare(&f, err);
        }
    }
    if (status == SFT_OK) {
        status = open_files(c, pattern ? url : NULL, &f, err);
    }
    if (status == SFT_OK) {
        status = check_beyond(&f, url, pattern, named, err);
    }
    sft__base_free(c->allocator, f.list, ranks * sizeof *f.list);
    return status;
}

sft_status sft__checkpoint_url_ranks(sft_checkpoint *c, const char *url, sft_error *err) {
    const bool pattern = strstr(url, PATTERN) != NULL;
    c->kind = SFT_CHECKPOINT_RANKS;
    if (pattern && c->step != NULL) {
        return sft__base_fail(err, SFT_E_ARG, "a URL with " PATTERN " names the files: no step");
    }
    if (pattern && c->layouts == NULL) {
        return sft__base_fail(
            err, SFT_E_NOT_FOUND,
            "how tensors are cut among the ranks is not known: a layout is needed");
    }
    if (!pattern && strpbrk(url, "?#") != NULL) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a URL with a query names one file; with " PATTERN
                              " in it one of each rank");
    }
    if (c->layouts == NULL) {
        SFT_TRY(read_layout(c, url, err));
    }
    const uint64_t ranks = sft_layout_set_ranks(c->layouts);
    if (ranks == 0 || ranks > MOST_RANKS) {
        return sft__base_fail(err, SFT_E_LIMIT, "a layout of %llu ranks, at most %llu are opened",
                              (unsigned long long)ranks, (unsigned long long)MOST_RANKS);
    }
    SFT_TRY(open_ranks(c, url, pattern, (size_t)ranks, err));
    if (c->count == 0) {
        return sft__base_fail(err, SFT_E_FORMAT, "no rank has a file there");
    }
    c->layouts->lacking = c->partial;
    return sft__checkpoint_lset_learn(c->layouts, c->parts, c->count, err);
}
