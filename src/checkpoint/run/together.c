/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/together.c - how the processes of a group finish a step: each leaves a note in the
 * staging directory, of the form of a manifest whose "run" is the token of this save; rank 0 waits for all
 * of them. Read together.h first.
 */
#include "checkpoint/run/together.h"
#include "checkpoint/group/group_save.h"
#include "fs/output/entry.h"
#include <sft/digest.h>
#include <stdio.h>

enum { NAP_MS = 10 };

void sft__checkpoint_run_state_name(char out[64], uint32_t rank) {
    if (rank == 0) {
        (void)snprintf(out, 64, "%s", SFT__RUN_STATE);
    } else {
        (void)snprintf(out, 64, "state.rank-%05lu.json", (unsigned long)rank);
    }
}

sft_status sft__checkpoint_run_add_fact(sft__checkpoint_run_share *s,
                                        const sft__checkpoint_run_fact *fact, sft_error *err) {
    if (!sft__base_grow(s->run->allocator, &s->facts, &s->room, s->count + 1, sizeof *s->facts)) {
        return sft__base_fail_nomem(err, (s->count + 1) * sizeof *s->facts);
    }
    s->facts[s->count++] = *fact;
    return SFT_OK;
}

/* ---------------------------------------------------------------- notes */

static void name_note(char out[64], uint32_t rank, const char *end) {
    (void)snprintf(out, 64, ".rank-%05lu.json%s", (unsigned long)rank, end);
}

/* A note without files is a failure: its metric's name is the message, its value the status. */
sft_status sft__checkpoint_run_note(const sft__checkpoint_run_share *s, sft_status status,
                                    const sft_error *failure, sft_error *err) {
    const uint32_t rank = sft__checkpoint_run_rank(s->run);
    const bool durable = s->run->options.durability == SFT_DURABLE_FULL;
    sft__checkpoint_run_metric metric = {failure->message, strlen(failure->message),
                                         (double)status};
    sft__checkpoint_run_manifest m;
    char part[64];
    char name[64];
    sft__base_buf text;
    sft__base_buf from;
    sft__base_buf to;
    memset(&m, 0, sizeof m);
    memcpy(m.id, s->save->token, sizeof m.id);
    m.step = s->save->step;
    m.processes = rank;
    m.files = s->facts;
    m.count = status == SFT_OK ? s->count : 0;
    m.metrics = &metric;
    m.metric_count = status != SFT_OK;
    name_note(part, rank, ".sft-part");
    name_note(name, rank, "");
    sft__base_buf_init(&text, s->run->allocator);
    sft__base_buf_init(&from, s->run->allocator);
    sft__base_buf_init(&to, s->run->allocator);
    sft__checkpoint_run_manifest_text(&text, &m);
    sft_status done = sft__checkpoint_write_text(s->directory, part, &text, durable, err);
    if (done == SFT_OK) {
        done = sft__checkpoint_stage_path(&from, s->directory, part, err);
    }
    if (done == SFT_OK) {
        done = sft__checkpoint_stage_path(&to, s->directory, name, err);
    }
    if (done == SFT_OK) {
        done = sft__fs_rename(from.data, to.data, err);
    }
    sft__base_buf_reset(&text);
    sft__base_buf_reset(&from);
    sft__base_buf_reset(&to);
    return done;
}

/* *there: the note of this save. SFT_OK, or the failure that it tells. */
static sft_status read_note(const sft__checkpoint_run_share *s, uint32_t rank,
                            sft__base_arena *arena, sft__checkpoint_run_manifest *m, bool *there,
                            sft_error *err) {
    char name[64];
    name_note(name, rank, "");
    *there = sft__checkpoint_run_note_read(m, s->directory, name, arena, NULL) == SFT_OK &&
             strcmp(m->id, s->save->token) == 0;
    if (*there && m->metric_count > 0) {
        return sft__base_fail(err, (sft_status)(int)m->metrics[0].value, "rank %lu: %.300s",
                              (unsigned long)rank, m->metrics[0].name);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- rank 0 */

static sft_status missing(const sft__checkpoint_run_share *s, const bool *have, sft_error *err) {
    const sft_group *const g = s->run->options.group;
    char text[200] = "";
    size_t at = 0;
    for (uint32_t r = 0; r < g->size && at + 16 < sizeof text; r++) {
        if (!have[r]) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%lu", at > 0 ? ", " : "",
                                   (unsigned long)r);
        }
    }
    return sft__base_fail(
        err, SFT_E_TIMEOUT, "step %llu is not committed: not ready within %llu ms: rank %s%s",
        (unsigned long long)s->save->step, (unsigned long long)s->run->options.timeout_ms, text,
        at + 16 < sizeof text ? "" : " ...");
}

static sft_status take_note(sft__checkpoint_run_share *s, uint32_t rank, sft__base_arena *texts,
                            bool *have, sft_error *err) {
    sft__checkpoint_run_manifest m;
    const sft__base_arena mark = *texts;
    SFT_TRY(read_note(s, rank, texts, &m, have, err));
    if (!*have) {
        sft__base_arena_rewind(texts, &mark);
        return SFT_OK;
    }
    for (size_t i = 0; i < m.count; i++) {
        SFT_TRY(sft__checkpoint_run_add_fact(s, &m.files[i], err));
    }
    return SFT_OK;
}

static sft_status wait_for_all(sft__checkpoint_run_share *s, bool *have, sft__base_arena *texts,
                               sft_error *err) {
    const sft_group *const g = s->run->options.group;
    const uint64_t begun = sft__base_now_ms();
    uint32_t left = g->size - 1;
    have[0] = true;
    for (;;) {
        for (uint32_t r = 1; r < g->size; r++) {
            if (!have[r]) {
                SFT_TRY(take_note(s, r, texts, &have[r], err));
                left -= have[r];
            }
        }
        if (left == 0) {
            return SFT_OK;
        }
        if (sft__base_now_ms() - begun >= s->run->options.timeout_ms) {
            return missing(s, have, err);
        }
        sft__base_sleep_ms(NAP_MS);
    }
}

static sft_status remove_notes(const sft__checkpoint_run_share *s, sft_error *err) {
    sft__base_buf path;
    sft_status status = SFT_OK;
    sft__base_buf_init(&path, s->run->allocator);
    for (uint32_t r = 1; r < s->run->options.group->size && status == SFT_OK; r++) {
        char name[64];
        name_note(name, r, "");
        status = sft__checkpoint_stage_path(&path, s->directory, name, err);
        if (status == SFT_OK) {
            status = sft__fs_remove(path.data, err);
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

/* Opens what all have written, which proves it whole, and says which box lies where. */
static sft_status describe(sft__checkpoint_run_share *s, sft__base_arena *texts, sft_error *err) {
    static const char topology[] = "topology.json";
    sft__checkpoint_gsave g;
    sft__checkpoint_run_fact fact;
    char *text;
    size_t size;
    bool tensors = false;
    for (size_t i = 0; i < s->count; i++) {
        tensors = tensors || strncmp(s->facts[i].name, "shard-", 6) == 0;
    }
    if (!tensors) {
        return SFT_OK;
    }
    memset(&g, 0, sizeof g);
    g.set.allocator = s->run->allocator;
    g.set.boxes = true;
    g.options.allocator = s->run->allocator;
    g.unmarked = true;
    g.stage.directory = s->directory;
    g.stage.durable = s->run->options.durability == SFT_DURABLE_FULL;
    SFT_TRY(sft__checkpoint_gsave_describe(&g, err));
    SFT_TRY(sft__checkpoint_run_read_text(s->directory, topology, texts, &text, &size, err));
    memset(&fact, 0, sizeof fact);
    fact.name = topology;
    fact.name_len = sizeof topology - 1;
    fact.size = size;
    fact.crc = sft_crc32c(0, text, size);
    return sft__checkpoint_run_add_fact(s, &fact, err);
}

sft_status sft__checkpoint_run_gather(sft__checkpoint_run_share *s, sft__base_arena *texts,
                                      sft_error *err) {
    const uint32_t size = s->run->options.group->size;
    bool *const have = sft__base_alloc_zero(s->run->allocator, size * sizeof *have);
    if (have == NULL) {
        return sft__base_fail_nomem(err, size);
    }
    sft_status status = wait_for_all(s, have, texts, err);
    sft__base_free(s->run->allocator, have, size * sizeof *have);
    if (status == SFT_OK) {
        status = remove_notes(s, err);
    }
    return status == SFT_OK ? describe(s, texts, err) : status;
}

/* ---------------------------------------------------------------- the others */

/* Is the step in its place, with what this process wrote? */
static bool is_committed(const sft__checkpoint_run_share *s, sft__base_arena *arena) {
    char name[SFT__RUN_NAME];
    sft__checkpoint_run_manifest m;
    sft__base_buf path;
    bool same = false;
    sft__checkpoint_run_name(name, s->save->step);
    sft__base_buf_init(&path, s->run->allocator);
    if (sft__checkpoint_stage_path(&path, s->run->path, name, NULL) == SFT_OK &&
        sft__checkpoint_run_manifest_read(&m, path.data, arena, NULL) == SFT_OK) {
        same =
            m.time == s->save->time; /* rank 0's, agreed on: not of an older step of this number */
        for (size_t i = 0; i < s->count && same; i++) {
            const sft__checkpoint_run_fact *const f =
                sft__checkpoint_run_manifest_find(&m, s->facts[i].name);
            same = f != NULL && f->crc == s->facts[i].crc && f->size == s->facts[i].size;
        }
    }
    sft__base_buf_reset(&path);
    return same;
}

sft_status sft__checkpoint_run_await(const sft__checkpoint_run_share *s, sft_error *err) {
    const uint64_t begun = sft__base_now_ms();
    for (;;) {
        const bool staged = sft__fs_is_directory(s->directory);
        sft__checkpoint_run_manifest m;
        sft__base_arena arena;
        bool there;
        sft__base_arena_init(&arena, s->run->allocator, 0);
        const sft_status status = read_note(s, 0, &arena, &m, &there, err); /* a failure, or none */
        const bool done = !staged && is_committed(s, &arena);
        sft__base_arena_free(&arena);
        if (done || status != SFT_OK) {
            return status;
        }
        /* rank 0 may take as long as the last of the others, and then as long again */
        if (sft__base_now_ms() - begun >= 2 * s->run->options.timeout_ms) {
            return sft__base_fail(err, SFT_E_TIMEOUT,
                                  "step %llu was not committed by rank 0 within %llu ms",
                                  (unsigned long long)s->save->step,
                                  (unsigned long long)(2 * s->run->options.timeout_ms));
        }
        sft__base_sleep_ms(NAP_MS);
    }
}
