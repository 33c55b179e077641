/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/verify_team.c - verify by many processes: each reads a share of the tensors, contiguous and
 * equal in bytes, and all learn what all have found. Read verify.h and team.h first.
 */
#include "cli/look/hash.h"
#include "cli/look/verify.h"
#include "cli/team.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which tensors are whose: those of rank r are first[r] to first[r + 1] - 1. */
static size_t *make_shares(const sft_catalog *catalog, uint32_t ranks) {
    const size_t count = sft_catalog_count(catalog);
    size_t *first = cli_alloc((size_t)ranks + 1, sizeof *first);
    uint64_t total = 0;
    uint64_t at = 0;
    uint32_t rank = 0;

    for (size_t i = 0; i < count; i++) {
        total += sft_catalog_at(catalog, i)->nbytes + 1; /* inside files: cannot overflow */
    }
    for (size_t i = 0; i < count; i++) {
        while (rank < ranks && (double)at >= (double)total * rank / ranks) {
            first[rank++] = i;
        }
        at += sft_catalog_at(catalog, i)->nbytes + 1;
    }
    while (rank <= ranks) {
        first[rank++] = count;
    }
    return first;
}

/* ---------------------------------------------------------------- recorded digests */

typedef struct finding {
    uint64_t checked;
    uint64_t damaged;
    uint64_t unlisted;
    uint64_t bytes;
    uint64_t listed; /* in list */
    int64_t status;
    sft_error err;
} finding;

typedef struct told {
    uint64_t tensor;
    char message[376];
} told;

/* Everybody's list, rank by rank: each tells its n-th entry at the same time. */
static sft_status exchange(cli_check *k, const finding *all, const cli_damage *mine,
                           sft_error *err) {
    const sft_group *g = k->c->team->group;
    told *round = cli_alloc(g->size, sizeof *round);
    told **lists = cli_alloc(g->size, sizeof(told *));
    uint64_t most = 0;
    sft_status status = SFT_OK;

    for (uint32_t r = 0; r < g->size; r++) {
        lists[r] = cli_alloc((size_t)all[r].listed, sizeof(told));
        most = all[r].listed > most ? all[r].listed : most;
    }
    for (uint64_t n = 0; n < most && status == SFT_OK; n++) {
        told one;
        memset(&one, 0, sizeof one);
        if (n < all[g->rank].listed) {
            one.tensor = sft_catalog_index_of(k->catalog, mine[n].tensor);
            (void)snprintf(one.message, sizeof one.message, "%s", mine[n].message);
        }
        status = cli_team_gather(k->c, &one, sizeof one, round, err);
        for (uint32_t r = 0; r < g->size && status == SFT_OK; r++) {
            if (n < all[r].listed) {
                lists[r][n] = round[r];
            }
        }
    }
    for (uint32_t r = 0; r < g->size; r++) {
        for (uint64_t n = 0; n < all[r].listed && status == SFT_OK; n++) {
            cli_verify_tensor(k, sft_catalog_at(k->catalog, (size_t)lists[r][n].tensor),
                              SFT_E_MISMATCH, lists[r][n].message);
        }
        free(lists[r]);
    }
    free(lists);
    free(round);
    return status;
}

/* MISMATCH only where nobody has met something worse. */
static sft_status worst(const finding *all, uint32_t size, sft_error *err) {
    const finding *chosen = NULL;

    for (uint32_t r = 0; r < size; r++) {
        const bool other = all[r].status != SFT_OK && all[r].status != SFT_E_MISMATCH;
        if (all[r].status != SFT_OK &&
            (chosen == NULL || (other && chosen->status == SFT_E_MISMATCH))) {
            chosen = &all[r];
        }
    }
    if (chosen == NULL) {
        return SFT_OK;
    }
    *err = chosen->err;
    return (sft_status)chosen->status;
}

static sft_status share_findings(cli_check *k, const finding *mine, sft_verify_result *result,
                                 const cli_damage *list, sft_error *err) {
    const uint32_t size = k->c->team->group->size;
    finding *all = cli_alloc(size, sizeof *all);

    sft_status status = cli_team_gather(k->c, mine, sizeof *mine, all, err);
    if (status == SFT_OK) {
        status = exchange(k, all, list, err);
    }
    memset(result, 0, sizeof *result);
    k->bytes = 0;
    for (uint32_t r = 0; r < size && status == SFT_OK; r++) {
        result->checked += all[r].checked;
        result->damaged += all[r].damaged;
        result->unlisted += all[r].unlisted;
        k->bytes += all[r].bytes;
    }
    if (status == SFT_OK) {
        status = worst(all, size, err);
    }
    free(all);
    return status;
}

/* Counts, and keeps; nothing is printed before all have told. */
static void keep(void *ctx, const sft_tensor *tensor, sft_status status, const char *message) {
    cli_check *k = ctx;

    if (status == SFT_OK) {
        k->bytes += tensor->nbytes;
        return;
    }
    k->list = cli_resize(k->list, k->count + 1, sizeof *k->list);
    char *copy = cli_alloc(strlen(message) + 1, 1);
    memcpy(copy, message, strlen(message));
    k->list[k->count++] = (cli_damage){tensor, copy};
}

sft_status cli_verify_together(cli_check *k, const sft_verify_options *options,
                               sft_verify_result *result, sft_error *err) {
    const sft_group *g = k->c->team->group;
    size_t *first = make_shares(k->catalog, g->size);
    cli_check own = {.c = k->c, .operand = k->operand, .catalog = k->catalog};
    sft_verify_options o = *options;
    finding mine;

    memset(&mine, 0, sizeof mine);
    o.first = first[g->rank];
    o.count = first[g->rank + 1] - o.first;
    o.report = keep;
    o.report_ctx = &own;
    if (o.count > 0) {
        mine.status = sft_catalog_verify(k->catalog, &o, result, &mine.err);
    }
    free(first);
    mine.checked = result->checked;
    mine.damaged = result->damaged;
    mine.unlisted = result->unlisted;
    mine.bytes = own.bytes;
    mine.listed = own.count;
    const sft_status status = share_findings(k, &mine, result, own.list, err);
    for (size_t i = 0; i < own.count; i++) {
        free(own.list[i].message);
    }
    free(own.list);
    return status;
}

/* ---------------------------------------------------------------- the content hash */

static sft_status hash_share(cli *c, const sft_catalog *catalog, size_t first, size_t end,
                             uint8_t (*digests)[32], sft_error *err) {
    const sft_control *control = cli_control(c, "hashing");
    sft_status status = SFT_OK;

    for (size_t i = first; i < end && status == SFT_OK; i++) {
        status =
            sft_tensor_digest(catalog, sft_catalog_at(catalog, i), digests[i], NULL, control, err);
    }
    cli_control_end(c);
    return status;
}

/* Blocks of as many digests as everybody can send; shares are of different lengths. */
static sft_status spread(cli *c, const size_t *first, uint8_t (*digests)[32], sft_error *err) {
    enum { AT_ONCE = 1024 };
    const sft_group *g = c->team->group;
    uint8_t(*all)[32] = cli_alloc((size_t)g->size * AT_ONCE, sizeof *all);
    static uint8_t mine[AT_ONCE][32]; /* the tool has one thread here */
    size_t most = 0;
    sft_status status = SFT_OK;

    for (uint32_t r = 0; r < g->size; r++) {
        most = first[r + 1] - first[r] > most ? first[r + 1] - first[r] : most;
    }
    for (size_t at = 0; at < most && status == SFT_OK; at += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE && first[g->rank] + at + i < first[g->rank + 1]; i++) {
            memcpy(mine[i], digests[first[g->rank] + at + i], 32);
        }
        status = cli_team_gather(c, mine, sizeof mine, all, err);
        for (uint32_t r = 0; r < g->size && status == SFT_OK; r++) {
            for (size_t i = 0; i < AT_ONCE && first[r] + at + i < first[r + 1]; i++) {
                memcpy(digests[first[r] + at + i], all[r * (size_t)AT_ONCE + i], 32);
            }
        }
    }
    free(all);
    return status;
}

sft_status cli_content_together(cli *c, const sft_catalog *catalog, uint8_t digest[32],
                                sft_error *err) {
    const sft_group *g = c->team->group;
    size_t *first = make_shares(catalog, g->size);
    uint8_t(*digests)[32] = cli_alloc(sft_catalog_count(catalog), sizeof *digests);

    sft_status status = hash_share(c, catalog, first[g->rank], first[g->rank + 1], digests, err);
    status = cli_team_agree(c, status, err);
    if (status == SFT_OK) {
        status = spread(c, first, digests, err);
    }
    if (status == SFT_OK) {
        cli_hash_join(catalog, (const uint8_t(*)[32])digests, digest);
    }
    free(digests);
    free(first);
    return status;
}
