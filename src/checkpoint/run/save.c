/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/save.c - what a step is to hold, as the caller says it piece by piece: tensors by where
 * they lie, everything else copied. Read run.h first.
 */
#include "base/checked.h"
#include "base/options.h"
#include "base/text/json.h"
#include "base/text/real.h"
#include "base/text/utf8.h"
#include "checkpoint/run/together.h"
#include <stdio.h>

/* Below this the digits are a plain JSON number everywhere. */
static const int64_t PLAIN_MAX = (INT64_C(1) << 53) - 1;

/* ---------------------------------------------------------------- begin and end */

static sft_status is_free(sft_run *run, uint64_t step, uint32_t flags, sft_error *err) {
    sft_run_list *list;
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, step, err);
    if (status == SFT_OK && (flags & SFT_RUN_REPLACE) == 0) {
        bool passed_over = false;
        for (size_t i = 0; run->skipped != NULL && i < run->skipped->count; i++) {
            passed_over = passed_over || run->skipped->steps[i].told.step == step;
        }
        passed_over = passed_over && sft__checkpoint_run_is_marked(run, step);
        const sft_run_step *const there = sft_run_list_at(list, 0);
        if (there != NULL && (there->kept & SFT_RUN_KEPT_OTHER) != 0) {
            status = sft__base_fail(err, SFT_E_EXISTS, "step %llu is there already: %s",
                                    (unsigned long long)step, there->why);
        } else if (there != NULL && there->complete && !passed_over) {
            status = sft__base_fail(err, SFT_E_EXISTS, "step %llu is there already, and complete",
                                    (unsigned long long)step);
        }
    }
    sft_run_list_free(list);
    return status == SFT_OK && flags == 0 && sft__checkpoint_run_rank(run) == 0
               ? sft__checkpoint_run_check_newer(run, step, err)
               : status;
}

/* The ticket of the save of this step that waits to be written; 0: there is none. */
static uint64_t ticket_of(sft_run *run, uint64_t step) {
    uint64_t ticket = 0;
    sft__base_mutex_lock(&run->mutex);
    for (const sft_run_save *s = run->first; s != NULL; s = s->next) {
        ticket = s->step == step ? s->ticket : ticket;
    }
    sft__base_mutex_unlock(&run->mutex);
    return ticket;
}

static sft_status may_begin(sft_run *run, uint64_t step, uint32_t flags, sft_error *err) {
    if (run->read_only || run->begun != NULL) {
        return sft__base_fail(err, SFT_E_STATE,
                              run->read_only ? "the run was opened to be read"
                                             : "another save of this run is begun and not staged");
    }
    if (step > SFT__RUN_STEP_MAX || (flags & ~SFT_RUN_REPLACE) != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a step is a number up to 2^53 - 1, without other flags");
    }
    if (run->unfinished) {
        SFT_TRY(sft__checkpoint_run_end_rewind(run, err));
    }
    const uint64_t ticket = ticket_of(run, step);
    if (ticket != 0 && (flags & SFT_RUN_REPLACE) != 0) {
        SFT_TRY(sft_run_wait(run, ticket, SFT_RUN_FOREVER, err));
    } else if (ticket != 0) {
        return sft__base_fail(err, SFT_E_EXISTS, "step %llu is being written",
                              (unsigned long long)step);
    }
    return is_free(run, step, flags, err);
}

sft_status sft_run_begin(sft_run_save **out, sft_run *run, uint64_t step, uint32_t flags,
                         sft_error *err) {
    *out = NULL;
    sft_status status = sft__checkpoint_run_tell(run, err);
    if (status == SFT_OK) {
        status = may_begin(run, step, flags, err);
    }
    SFT_TRY(sft__checkpoint_group_agree(run->options.group, status, false, err));
    sft_run_save *const s = sft__base_alloc_zero(run->allocator, sizeof *s);
    if (s == NULL) {
        return sft__base_fail_nomem(err, sizeof *s);
    }
    s->run = run;
    s->allocator = run->allocator;
    s->step = step;
    s->flags = flags;
    s->slot = SFT__RUN_ARENAS;
    s->keep = SFT_RUN_NONE;
    sft__base_arena_init(&s->arena, s->allocator, 0);
    run->begun = s;
    *out = s;
    return SFT_OK;
}

static void free_words(sft__checkpoint_run_words *words, const sft_allocator *a) {
    sft__base_free(a, words->list, words->room * sizeof *words->list);
}

void sft__checkpoint_run_save_drop(sft_run_save *save) {
    free_words(&save->entries, save->allocator);
    free_words(&save->metrics, save->allocator);
    free_words(&save->files, save->allocator);
    free_words(&save->metadata, save->allocator);
    sft__base_free(save->allocator, save->items, save->room * sizeof *save->items);
    sft__base_free(save->allocator, save->plans, save->plan_room * sizeof *save->plans);
    sft__base_arena_free(&save->arena);
    sft__base_free(save->allocator, save, sizeof *save);
}

void sft_run_save_free(sft_run_save *save) {
    if (save != NULL) {
        save->run->begun = NULL;
        sft__checkpoint_run_save_drop(save);
    }
}

/* ---------------------------------------------------------------- tensors */

static sft_status about(const sft_run_tensor *t, sft_status status, const char *what,
                        sft_error *err) {
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, t->name, t->name_len, "%s", what);
}

static bool begins(const char *name, size_t len, const char *with) {
    return len > strlen(with) && memcmp(name, with, strlen(with)) == 0;
}

static sft_status check_tensor(const sft_run_tensor *t, bool device, sft_error *err) {
    if (t->name == NULL || t->dtype == NULL || (t->shape == NULL && t->rank > 0) ||
        sft__base_utf8_valid(t->name, t->name_len) != t->name_len) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a tensor needs a name in UTF-8, a dtype and a shape");
    }
    if (t->part > SFT_RUN_STATE || (t->flags & ~SFT_RUN_FROZEN) != 0) {
        return about(t, SFT_E_ARG, "is of no part of a step, or has flags that are not known", err);
    }
    if ((t->part == SFT_RUN_OPTIMIZER && !begins(t->name, t->name_len, "optimizer.")) ||
        (t->part == SFT_RUN_STATE && !begins(t->name, t->name_len, "state."))) {
        return about(t, SFT_E_ARG, "does not begin with the name of its part and a dot", err);
    }
    if ((t->data != NULL) + (t->fill != NULL) + (t->address != 0) != (t->nbytes > 0)) {
        return about(t, SFT_E_ARG, "needs one of data, fill and address", err);
    }
    if (t->address != 0 && !device) {
        return about(t, SFT_E_ARG, "lies in a device's memory, and the run has no copier", err);
    }
    return t->nbytes <= SIZE_MAX ? SFT_OK : about(t, SFT_E_OVERFLOW, "is larger than memory", err);
}

sft_status sft__checkpoint_run_check_bytes(const sft_run_tensor *t, sft_error *err) {
    const uint64_t *const shape = t->count != NULL ? t->count : t->shape;
    uint64_t elements = 1;
    uint64_t bytes = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!sft__base_mul64(elements, shape[d], &elements)) {
            return about(t, SFT_E_OVERFLOW, "has more than 2^64 elements", err);
        }
    }
    SFT_TRY(sft_dtype_bytes(t->dtype, elements, &bytes, err));
    return bytes == t->nbytes
               ? SFT_OK
               : sft__base_fail_tensor(err, SFT_E_ARG, SFT_NO_OFFSET, t->name, t->name_len,
                                       "%llu bytes given, dtype %s and shape need %llu",
                                       (unsigned long long)t->nbytes, t->dtype->name,
                                       (unsigned long long)bytes);
}

static sft_status keep_sizes(sft_run_save *s, const uint64_t **sizes, uint32_t rank,
                             sft_error *err) {
    if (*sizes != NULL) {
        uint64_t *const copy = sft__base_arena_alloc(&s->arena, (rank + 1) * sizeof *copy, 8);
        if (copy == NULL) {
            return sft__base_fail_nomem(err, rank * sizeof *copy);
        }
        memcpy(copy, *sizes, rank * sizeof *copy);
        *sizes = copy;
    }
    return SFT_OK;
}

sft_status sft_run_add_tensor(sft_run_save *save, const sft_run_tensor *tensor, sft_error *err) {
    sft_run_tensor t;
    SFT_TRY(sft__base_options_read(&t, sizeof t, tensor, SFT__UP_TO(sft_run_tensor, reserved),
                                   "tensor", err));
    SFT_TRY(check_tensor(&t, save->run->copier.copy != NULL, err));
    if ((t.start != NULL || t.count != NULL) &&
        (save->run->options.group == NULL || t.start == NULL || t.count == NULL)) {
        return about(&t, SFT_E_ARG, "has a box, which is for groups, with start and count", err);
    }
    SFT_TRY(sft__checkpoint_run_check_bytes(&t, err));
    SFT_TRY(keep_sizes(save, &t.shape, t.rank, err));
    SFT_TRY(keep_sizes(save, &t.start, t.rank, err));
    SFT_TRY(keep_sizes(save, &t.count, t.rank, err));
    t.name = sft__base_arena_copy(&save->arena, t.name, t.name_len);
    if (t.name == NULL || !sft__base_grow(save->allocator, &save->items, &save->room,
                                          save->count + 1, sizeof *save->items)) {
        return sft__base_fail_nomem(err, t.name_len);
    }
    save->items[save->count++] = (sft__checkpoint_run_item){t.name, t.name_len, t, 0, NULL};
    return SFT_OK;
}

/* ---------------------------------------------------------------- words */

typedef struct given {
    const char *name;
    size_t name_len;
    const char *text;
    size_t len;
} given;

static sft_status add_word(sft_run_save *s, sft__checkpoint_run_words *words, const given *g,
                           sft_error *err) {
    if (g->name == NULL || g->name_len == 0 ||
        sft__base_utf8_valid(g->name, g->name_len) != g->name_len ||
        (g->text == NULL && g->len > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "a name in UTF-8, and what it names, are needed");
    }
    if (!sft__base_grow(s->allocator, &words->list, &words->room, words->count + 1,
                        sizeof *words->list)) {
        return sft__base_fail_nomem(err, g->len);
    }
    sft__checkpoint_run_word *const w = &words->list[words->count];
    w->name = sft__base_arena_copy(&s->arena, g->name, g->name_len);
    w->name_len = g->name_len;
    w->text = sft__base_arena_copy(&s->arena, g->text != NULL ? g->text : "", g->len);
    w->len = g->len;
    if (w->name == NULL || w->text == NULL) {
        return sft__base_fail_nomem(err, g->len);
    }
    words->count++;
    return SFT_OK;
}

static sft_status add_entry(sft_run_save *s, const char *name, const char *text, sft_error *err) {
    const given g = {name, name != NULL ? strlen(name) : 0, text, strlen(text)};
    return add_word(s, &s->entries, &g, err);
}

sft_status sft_run_add_f64(sft_run_save *save, const char *name, double value, sft_error *err) {
    char number[SFT__REAL_ROOM];
    char text[SFT__REAL_ROOM + 32];
    sft__base_real_print(number, value);
    (void)snprintf(text, sizeof text, "{\"$\": \"float\", \"v\": \"%s\"}", number);
    return add_entry(save, name, text, err);
}

sft_status sft_run_add_i64(sft_run_save *save, const char *name, int64_t value, sft_error *err) {
    char text[64];
    (void)snprintf(text, sizeof text,
                   value >= -PLAIN_MAX && value <= PLAIN_MAX ? "%lld"
                                                             : "{\"$\": \"int\", \"v\": \"%lld\"}",
                   (long long)value);
    return add_entry(save, name, text, err);
}

sft_status sft_run_add_bool(sft_run_save *save, const char *name, int value, sft_error *err) {
    return add_entry(save, name, value != 0 ? "true" : "false", err);
}

sft_status sft_run_add_text(sft_run_save *save, const char *name, const char *text, size_t len,
                            sft_error *err) {
    sft__base_buf b;
    if (text == NULL || sft__base_utf8_valid(text, len) != len) {
        return sft__base_fail(err, SFT_E_ARG, "a text in UTF-8 is needed");
    }
    sft__base_buf_init(&b, save->allocator);
    sft__base_json_string(&b, text, len);
    const given g = {name, name != NULL ? strlen(name) : 0, b.data, b.len};
    const sft_status status =
        b.failed ? sft__base_fail_nomem(err, len) : add_word(save, &save->entries, &g, err);
    sft__base_buf_reset(&b);
    return status;
}

sft_status sft_run_add_node(sft_run_save *save, const char *name, const char *json, size_t len,
                            sft_error *err) {
    sft__base_buf b;
    sft__base_buf_init(&b, save->allocator);
    sft__base_buf_add(&b, json, len);
    sft__base_buf_fill(&b, '\0', SFT__JSON_SLACK);
    sft_status status = SFT_OK;
    if (b.failed) {
        status = sft__base_fail_nomem(err, len);
    } else {
        sft__base_json j = {.end = b.data + len};
        const char *const at = sft__base_json_blank(b.data);
        const char *end =
            sft__base_utf8_valid(json, len) == len ? sft__base_json_value(&j, at, 2) : NULL;
        end = end != NULL ? sft__base_json_blank(end) : NULL;
        if (end != j.end) {
            status = sft__base_fail(err, SFT_E_JSON, "the node \"%.100s\" is no JSON value: %s",
                                    name != NULL ? name : "",
                                    j.fault != NULL ? j.fault : "more follows");
        }
    }
    if (status == SFT_OK) {
        const given g = {name, name != NULL ? strlen(name) : 0, json, len};
        status = add_word(save, &save->entries, &g, err);
    }
    sft__base_buf_reset(&b);
    return status;
}

/* ---------------------------------------------------------------- blobs, metrics, files, metadata */

sft_status sft_run_add_blob(sft_run_save *save, const char *name, const void *data, size_t size,
                            sft_error *err) {
    const uint64_t shape = size;
    sft_run_tensor t;
    sft__base_buf b;
    if (name == NULL || (data == NULL && size > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "a blob needs a name and its bytes");
    }
    char *const copy = sft__base_arena_copy(&save->arena, data != NULL ? data : "", size);
    if (copy == NULL) {
        return sft__base_fail_nomem(err, size);
    }
    sft__base_buf_init(&b, save->allocator);
    sft__base_buf_text(&b, "state.");
    if (sft__checkpoint_run_rank(save->run) > 0) { /* each process has its own */
        char rank[32];
        (void)snprintf(rank, sizeof rank, "rank-%05lu.",
                       (unsigned long)sft__checkpoint_run_rank(save->run));
        sft__base_buf_text(&b, rank);
    }
    sft__base_buf_text(&b, name);
    const size_t len = b.len;
    SFT_INIT(&t);
    t.name = b.data;
    t.name_len = len;
    t.dtype = sft_dtype_find("U8", 2);
    t.shape = &shape;
    t.rank = 1;
    t.part = SFT_RUN_STATE;
    t.data = size > 0 ? copy : NULL;
    t.nbytes = size;
    sft_status status =
        b.failed ? sft__base_fail_nomem(err, len) : sft_run_add_tensor(save, &t, err);
    if (status == SFT_OK) {
        sft__base_buf node;
        sft__base_buf_init(&node, save->allocator);
        sft__base_buf_text(&node, "{\"$\": \"tensor\", \"v\": ");
        sft__base_json_string(&node, b.data, len);
        sft__base_buf_add(&node, "}", 2);
        status =
            node.failed ? sft__base_fail_nomem(err, len) : add_entry(save, name, node.data, err);
        save->count -= status != SFT_OK;
        sft__base_buf_reset(&node);
    }
    sft__base_buf_reset(&b);
    return status;
}

sft_status sft_run_add_metric(sft_run_save *save, const char *name, double value, sft_error *err) {
    const given g = {name, name != NULL ? strlen(name) : 0, (const char *)&value, sizeof value};
    return add_word(save, &save->metrics, &g, err);
}

/* Names that a step has itself, or that would be taken for weights. */
static bool is_taken(const char *name) {
    static const char *const ends[] = {".safetensors", ".index.json", ".bin",
                                       ".pt",          ".pth",        ".ckpt"};
    const size_t len = strlen(name);
    bool taken = strcmp(name, SFT__RUN_MANIFEST) == 0 || strcmp(name, "topology.json") == 0 ||
                 strncmp(name, "state.", 6) == 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t n = strlen(ends[i]);
        taken = taken || (len >= n && strcmp(name + len - n, ends[i]) == 0);
    }
    return taken;
}

sft_status sft_run_add_file(sft_run_save *save, const char *name, const void *data, size_t size,
                            sft_error *err) {
    const given g = {name, name != NULL ? strlen(name) : 0, data, size};
    if (name == NULL || !sft__checkpoint_run_is_plain(name, g.name_len) || is_taken(name)) {
        return sft__base_fail(
            err, SFT_E_ARG,
            "\"%.200s\" is no plain name (NAME or DIRECTORY/NAME of at most 200 bytes, no "
            "leading dot, none of \\ : * ? \" < > |), or one that a step may have itself "
            "(state.*, *.safetensors, *.index.json, *.bin, *.pt, *.pth, *.ckpt)",
            name != NULL ? name : "");
    }
    return add_word(save, &save->files, &g, err);
}

void sft_run_keep(sft_run_save *save, uint64_t other) {
    save->keep = other;
}

sft_status sft_run_add_metadata(sft_run_save *save, const char *key, size_t key_len,
                                const char *value, size_t value_len, sft_error *err) {
    const given g = {key, key_len, value, value_len};
    return add_word(save, &save->metadata, &g, err);
}
