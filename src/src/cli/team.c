/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/team.c - see team.h.
 */
#include "cli/team.h"
#include "cli/operands/ranks.h"
#include "cli/sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STDERR_FD = 2 };

void cli_team_name(const cli *c, char *text, size_t cap) {
    text[0] = '\0';
    if (c->team != NULL && c->team->group->rank > 0) {
        (void)snprintf(text, cap, "rank %lu: ", (unsigned long)c->team->group->rank);
    }
}

bool cli_team_keep(cli *c, const char *text, size_t size) {
    if (c->team == NULL) {
        return false;
    }
    c->said = cli_resize(c->said, c->said_size + size, 1);
    memcpy(c->said + c->said_size, text, size);
    c->said_size += size;
    return c->team->group->rank > 0;
}

bool cli_team_first(const cli *c) {
    return c->team == NULL || c->team->group->rank == 0;
}

uint64_t cli_team_threads(const cli *c) {
    return c->team != NULL ? c->team->threads : 0;
}

sft_status cli_team_run(cli *c, const sft_job *job, const char *folder,
                        const sft_job_run_options *options, sft_job_result *result,
                        sft_error *err) {

    c->met = true;
    return sft_job_run_group(job, folder, options, c->team->group, result, err);
}

/* ---------------------------------------------------------------- without a job */

sft_status cli_team_gather(cli *c, const void *mine, size_t bytes, void *all, sft_error *err) {
    if (c->team == NULL || c->team->group->size == 1) {
        memcpy(all, mine, bytes);
        return SFT_OK;
    }
    return c->team->group->allgather(c->team->group->ctx, mine, bytes, all, err);
}

typedef struct verdict {
    int64_t status;
    sft_error err;
} verdict;

sft_status cli_team_agree(cli *c, sft_status status, sft_error *err) {
    verdict mine = {status, {0}};

    if (c->team == NULL || c->team->group->size == 1) {
        return status;
    }
    if (status != SFT_OK) {
        mine.err = *err;
    }
    const uint32_t size = c->team->group->size;
    verdict *all = cli_alloc(size, sizeof *all);
    sft_status result = cli_team_gather(c, &mine, sizeof mine, all, err);
    for (uint32_t i = 0; i < size && result == SFT_OK; i++) {
        if (all[i].status != SFT_OK) {
            const sft_error *why = &all[i].err;
            result =
                sft_error_set(err, (sft_status)all[i].status, why->sys, why->offset, why->tensor,
                              strlen(why->tensor), "rank %lu: %s", (unsigned long)i, why->message);
        }
    }
    free(all);
    return result;
}

/* ---------------------------------------------------------------- the end */

/* What the others are told of a process that has come to its end without a job. */
static void reason(const cli *c, sft_error *why) {
    static const sft_status of[] = {SFT_E_MISMATCH, SFT_E_FORMAT, SFT_E_ARG, SFT_E_IO};
    if (c->first.status != SFT_OK) {
        *why = c->first;
        return;
    }
    const sft_status status = c->status == CLI_STOPPED ? SFT_E_CANCELLED
                              : c->status < 4          ? of[c->status]
                                                       : SFT_E_INTERNAL;
    (void)sft_error_set(why, status, 0, SFT_NO_OFFSET, NULL, 0,
                        status == SFT_E_MISMATCH ? "has nothing to do" : "has failed");
}

static void meet(cli *c) {
    sft_error why;

    if (c->met) { /* without the library nobody has run anything */
        return;
    }
    reason(c, &why);
    c->met = true;
    (void)!sft_job_run_group(NULL, NULL, NULL, c->team->group, NULL, &why);
}

/* Words of a process: its lines; what is behind the last but one that there is room for is one. */
enum { LINES = 8 };

/* Where line `i` ends that begins at `at`. */
static size_t line_end(const cli *c, size_t at, size_t i) {
    const char *end = i + 1 < LINES ? memchr(c->said + at, '\n', c->said_size - at) : NULL;
    return end != NULL ? (size_t)(end - c->said) + 1 : c->said_size;
}

/* FNV-1a of a line without the name of the rank that says it: equal lines are said once. */
static uint64_t digest(const cli *c, size_t at, size_t end) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    char name[32];
    bool named = false;

    cli_team_name(c, name, sizeof name);
    const size_t len = strlen(name);
    for (size_t i = at; i < end; i++) {
        if (!named && len > 0 && end - i > len && memcmp(c->said + i, name, len) == 0) {
            named = true;
            i += len;
        }
        named = named && c->said[i] != '\n';
        h = (h ^ (uint8_t)c->said[i]) * UINT64_C(0x100000001b3);
    }
    return h != 0 ? h : 1;
}

typedef struct last_word {
    uint64_t said[LINES]; /* 0: no line */
    int64_t status;
} last_word;

/* Has a rank before this one said this line? */
static bool known(const last_word *all, uint32_t rank, uint64_t line) {
    for (uint32_t i = 0; i < rank; i++) {
        for (size_t k = 0; k < LINES; k++) {
            if (all[i].said[k] == line) {
                return true;
            }
        }
    }
    return false;
}

void cli_team_end(cli *c) {
    last_word mine = {{0}, 0};
    sft_error err;

    if (c->team == NULL) {
        return;
    }
    meet(c);
    const sft_group *g = c->team->group;
    mine.status = c->status;
    for (size_t at = 0, i = 0, end; at < c->said_size; at = end, i++) {
        end = line_end(c, at, i);
        mine.said[i] = digest(c, at, end);
    }
    last_word *all = cli_alloc(g->size, sizeof *all);
    if (g->size == 1) {
        all[0] = mine;
    } else if (g->allgather(g->ctx, &mine, sizeof mine, all, &err) != SFT_OK) {
        memset(all, 0, g->size * sizeof *all);
        all[0].status = CLI_SYSTEM;
    }
    for (uint32_t i = 0; i < g->size; i++) {
        cli_answer(c, (int)all[i].status);
    }
    for (size_t at = 0, i = 0, end; g->rank > 0 && at < c->said_size; at = end, i++) {
        end = line_end(c, at, i);
        if (!known(all, g->rank, mine.said[i])) {
            (void)cli_sys_write(STDERR_FD, c->said + at, end - at);
        }
    }
    free(all);
    free(c->said);
}
