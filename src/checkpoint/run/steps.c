/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/steps.c - which steps a run has, and which of them are complete: directories, manifests
 * and sizes of files. Nothing of a tensor is read. Read steps.h first.
 */
#include "checkpoint/run/steps.h"
#include "fs/output/entry.h"
#include <stdio.h>
#include <stdlib.h>

#define PREFIX "step-"
enum { DIGITS = 9, DIGITS_MAX = 16 };

void sft__checkpoint_run_name(char out[SFT__RUN_NAME], uint64_t step) {
    (void)snprintf(out, SFT__RUN_NAME, PREFIX "%0*llu", DIGITS, (unsigned long long)step);
}

bool sft__checkpoint_run_is_name(const char *name, uint64_t *step) {
    char again[SFT__RUN_NAME];
    const size_t prefix = sizeof PREFIX - 1;
    uint64_t value = 0;
    if (strncmp(name, PREFIX, prefix) != 0 || strlen(name) > prefix + DIGITS_MAX) {
        return false;
    }
    for (const char *p = name + prefix; *p != '\0'; p++) {
        if (*p < '0' || *p > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(*p - '0'); /* below 10^16 */
    }
    sft__checkpoint_run_name(again, value);
    *step = value;
    return value <= SFT__RUN_STEP_MAX && strcmp(again, name) == 0;
}

void sft__checkpoint_run_hidden(char out[SFT__RUN_HIDDEN], uint64_t step, const char *end) {
    char name[SFT__RUN_NAME] = "";
    if (step != SFT_RUN_NONE) {
        sft__checkpoint_run_name(name, step);
    }
    (void)snprintf(out, SFT__RUN_HIDDEN, "%s%s%s", step != SFT_RUN_NONE ? "." : "", name, end);
}

bool sft__checkpoint_run_is_hidden(const char *name, const char *end, uint64_t *step) {
    char inner[SFT__RUN_HIDDEN];
    const size_t len = strlen(name);
    const size_t tail = strlen(end);
    if (strcmp(name, end) == 0) {
        *step = SFT_RUN_NONE;
        return strcmp(end, SFT__RUN_BACK) == 0;
    }
    if (name[0] != '.' || len <= tail + 1 || len >= sizeof inner ||
        strcmp(name + len - tail, end) != 0) {
        return false;
    }
    memcpy(inner, name + 1, len - tail - 1);
    inner[len - tail - 1] = '\0';
    return sft__checkpoint_run_is_name(inner, step);
}

bool sft__checkpoint_run_see_back(sft__checkpoint_run_back *mark, const char *name) {
    uint64_t step;
    if (!sft__checkpoint_run_is_hidden(name, SFT__RUN_BACK, &step)) {
        return false;
    }
    mark->to =
        !mark->is_set || step + 1 < mark->to + 1 ? step : mark->to; /* SFT_RUN_NONE is the lowest */
    mark->is_set = true;
    return true;
}

bool sft__checkpoint_run_is_above(const sft__checkpoint_run_back *mark, uint64_t step) {
    return mark->is_set && (mark->to == SFT_RUN_NONE || step > mark->to);
}

/* ---------------------------------------------------------------- lists */

sft_status sft__checkpoint_run_list_new(sft_run_list **out, const sft_allocator *allocator,
                                        sft_error *err) {
    sft_run_list *const list = sft__base_alloc_zero(allocator, sizeof *list);
    *out = list;
    if (list == NULL) {
        return sft__base_fail_nomem(err, sizeof *list);
    }
    list->allocator = allocator;
    sft__base_arena_init(&list->arena, allocator, 0);
    return SFT_OK;
}

void sft_run_list_free(sft_run_list *list) {
    if (list != NULL) {
        sft__base_free(list->allocator, list->steps, list->room * sizeof *list->steps);
        sft__base_arena_free(&list->arena);
        sft__base_free(list->allocator, list, sizeof *list);
    }
}

typedef struct naming {
    sft_run_list *list;
    uint64_t only;
    sft__checkpoint_run_back mark;
} naming;

static sft_status add_name(void *ctx, const char *name, size_t len, sft_error *err) {
    naming *const n = ctx;
    sft_run_list *const list = n->list;
    uint64_t step;
    if (sft__checkpoint_run_see_back(&n->mark, name)) {
        return SFT_OK;
    }
    if (!sft__checkpoint_run_is_name(name, &step) || (n->only != SFT_RUN_NONE && step != n->only)) {
        return SFT_OK;
    }
    if (!sft__base_grow(list->allocator, &list->steps, &list->room, list->count + 1,
                        sizeof *list->steps)) {
        return sft__base_fail_nomem(err, (list->count + 1) * sizeof *list->steps);
    }
    sft__checkpoint_run_found *const s = &list->steps[list->count];
    memset(s, 0, sizeof *s);
    s->told.name = sft__base_arena_copy(&list->arena, name, len);
    s->told.step = step;
    s->told.why = "";
    s->told.metric_name = "";
    if (s->told.name == NULL) {
        return sft__base_fail_nomem(err, len);
    }
    list->count++;
    return SFT_OK;
}

static int oldest_first(const void *a, const void *b) {
    const uint64_t x = ((const sft__checkpoint_run_found *)a)->told.step;
    const uint64_t y = ((const sft__checkpoint_run_found *)b)->told.step;
    return x < y ? -1 : x > y;
}

sft_status sft__checkpoint_run_names(sft_run_list *list, const char *path, uint64_t step,
                                     sft_error *err) {
    naming n = {list, step, {false, 0}};
    size_t kept = 0;
    SFT_TRY(sft__fs_list(path, add_name, &n, err));
    for (size_t i = 0; i < list->count; i++) {
        if (list->all || !sft__checkpoint_run_is_above(&n.mark, list->steps[i].told.step)) {
            list->steps[kept++] = list->steps[i];
        }
    }
    list->count = kept;
    if (list->count > 1) {
        qsort(list->steps, list->count, sizeof *list->steps, oldest_first);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- is it complete? */

sft_status sft__checkpoint_run_why(sft_run_list *list, sft__checkpoint_run_found *step,
                                   const sft_error *why, sft_error *err) {
    char text[sizeof why->tensor + sizeof why->message + 16];
    (void)snprintf(text, sizeof text, "%s%s%s%s", why->tensor[0] != '\0' ? "tensor \"" : "",
                   why->tensor, why->tensor[0] != '\0' ? "\": " : "", why->message);
    step->told.why = sft__base_arena_copy(&list->arena, text, strlen(text));
    return step->told.why != NULL ? SFT_OK : sft__base_fail_nomem(err, strlen(text));
}

bool sft__checkpoint_run_is_of_machine(sft_status status) {
    return status == SFT_E_NOMEM || status == SFT_E_ARG || status == SFT_E_CANCELLED;
}

/* A directory inside the step's is one of its own. */
static sft_status look_at_inner(const char *name, const char *directory, sft__base_buf *path,
                                sft_error *why) {
    const char *const slash = strchr(name, '/');
    if (slash == NULL) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_stage_path(path, directory, name, why));
    path->data[path->len - 1 - strlen(slash)] = '\0';
    return !sft__fs_is_link(path->data)
               ? SFT_OK
               : sft__base_fail(why, SFT_E_FORMAT, "%s lies behind a link", name);
}

static sft_status look_at_file(const sft__checkpoint_run_fact *f, const char *directory,
                               sft__base_buf *path, sft_run_step *told, sft_error *why) {
    sft__fs_stat st;
    SFT_TRY(look_at_inner(f->name, directory, path, why));
    SFT_TRY(sft__checkpoint_stage_path(path, directory, f->name, why));
    SFT_TRY(sft__fs_look(path->data, &st, why));
    if (!st.exists || !st.regular || sft__fs_is_link(path->data)) {
        return sft__base_fail(why, SFT_E_NOT_FOUND, "%s is missing, or no file", f->name);
    }
    if (st.size != f->size) {
        return sft__base_fail(why, SFT_E_MISMATCH, "%s has %llu bytes, its manifest says %llu",
                              f->name, (unsigned long long)st.size, (unsigned long long)f->size);
    }
    told->bytes += st.size;
    told->own_bytes += st.names > 1 ? 0 : st.size;
    return SFT_OK;
}

static sft_status look_inside(sft_run_list *list, sft__checkpoint_run_found *s,
                              const char *directory, const char *id, sft_error *why) {
    sft__checkpoint_run_manifest *const m = &s->manifest;
    sft__base_buf path;
    sft__fs_stat st;
    sft_status status = SFT_OK;
    SFT_TRY(sft__fs_look(directory, &st, why));
    if (sft__fs_is_link(directory) || !st.directory) { /* somebody has put it there */
        s->told.kept = SFT_RUN_KEPT_OTHER;
        return sft__base_fail(why, SFT_E_FORMAT, "it is no directory of its own");
    }
    SFT_TRY(sft__checkpoint_run_manifest_read(m, directory, &list->arena, why));
    if (m->step != s->told.step) {
        return sft__base_fail(why, SFT_E_MISMATCH, "its manifest is that of step %llu",
                              (unsigned long long)m->step);
    }
    s->told.time = m->time;
    s->told.files = m->count;
    s->told.processes = m->processes < UINT32_MAX ? (uint32_t)m->processes : UINT32_MAX;
    if (id[0] != '\0' && strcmp(m->id, id) != 0) {
        s->told.kept = SFT_RUN_KEPT_OTHER;
        return sft__base_fail(why, SFT_E_MISMATCH, "it is a step of another run: %s", m->id);
    }
    sft__base_buf_init(&path, list->allocator);
    for (size_t i = 0; i < m->count && status == SFT_OK; i++) {
        status = look_at_file(&m->files[i], directory, &path, &s->told, why);
    }
    sft__base_buf_reset(&path);
    return status;
}

sft_status sft__checkpoint_run_look(sft_run_list *list, sft__checkpoint_run_found *step,
                                    const char *path, const char *id, sft_error *err) {
    sft__base_buf directory;
    sft_error why;
    memset(&why, 0, sizeof why);
    sft__base_buf_init(&directory, list->allocator);
    sft_status status = sft__checkpoint_stage_path(&directory, path, step->told.name, &why);
    if (status == SFT_OK) {
        status = look_inside(list, step, directory.data, id, &why);
    }
    sft__base_buf_reset(&directory);
    step->told.complete = status == SFT_OK;
    step->unread = status == SFT_E_IO;
    if (step->unread) { /* it is not to be removed */
        step->told.kept = SFT_RUN_KEPT_OTHER;
    }
    if (sft__checkpoint_run_is_of_machine(status)) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    return status == SFT_OK ? SFT_OK : sft__checkpoint_run_why(list, step, &why, err);
}

sft_status sft__checkpoint_run_scan(sft_run_list *list, const char *path, const char *id,
                                    uint64_t step, sft_error *err) {
    SFT_TRY(sft__checkpoint_run_names(list, path, step, err));
    for (size_t i = 0; i < list->count; i++) {
        SFT_TRY(sft__checkpoint_run_look(list, &list->steps[i], path, id, err));
    }
    return SFT_OK;
}

const sft__checkpoint_run_found *sft__checkpoint_run_newest(const sft_run_list *list,
                                                            uint64_t besides) {
    for (size_t i = list->count; i-- > 0;) {
        if (list->steps[i].told.complete && list->steps[i].told.step != besides) {
            return &list->steps[i];
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- what is there */

size_t sft_run_list_count(const sft_run_list *list) {
    return list->count;
}

const sft_run_step *sft_run_list_at(const sft_run_list *list, size_t index) {
    return index < list->count ? &list->steps[index].told : NULL;
}
