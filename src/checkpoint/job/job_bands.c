/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job_bands.c - moves gathered into clusters: what is linked by moves is placed in one
 * grid, where a slice of every node is contiguous in its file. Nodes whose places contradict each
 * other, which only catalogs made by hand have, are given up: their tensors are read whole. Read
 * job.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/job/job.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- source nodes */

static int by_place(const void *a, const void *b) {
    const sft__checkpoint_job_move *const x = a;
    const sft__checkpoint_job_move *const y = b;
    if (x->source_node != y->source_node) {
        return x->source_node < y->source_node ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    if (x->element != y->element) {
        return x->element < y->element ? -1 : 1;
    }
    for (uint32_t d = 0; d < x->rank; d++) {
        if (x->from_stride[d] != y->from_stride[d]) {
            return x->from_stride[d] < y->from_stride[d] ? -1 : 1;
        }
    }
    return x->from != y->from                ? (x->from < y->from ? -1 : 1)
           : x->target_node < y->target_node ? -1
                                             : x->target_node > y->target_node;
}

static uint64_t move_end(const sft__checkpoint_job_move *m) {
    uint64_t end = m->from + m->element;
    for (uint32_t d = 0; d < m->rank; d++) {
        end +=
            (m->count[d] - 1) * m->from_stride[d]; /* inside the source: the builder saw to that */
    }
    return end;
}

static bool same_tensor(const sft__checkpoint_job_node *n, const sft__checkpoint_job_move *m) {
    if (n->target || n->where != m->source_node || n->rank != m->rank || n->element != m->element ||
        m->from >= n->end) {
        return false;
    }
    return memcmp(n->stride, m->from_stride, m->rank * sizeof *n->stride) == 0;
}

static sft_status add_source_node(sft_job *job, const sft__checkpoint_job_move *m, sft_error *err) {
    const sft__checkpoint_job_node n = {.base = m->from,
                                        .stride = m->from_stride,
                                        .where = m->source_node,
                                        .rank = m->rank,
                                        .element = m->element};
    return sft__checkpoint_job_add_node(job, &n, err);
}

/* Where the move begins in its node. A box that would go across the end of a row has no place. */
static sft_status take_position(sft_job *job, sft__checkpoint_job_node *n,
                                sft__checkpoint_job_move *m, sft_error *err) {
    uint64_t *const at = sft__base_arena_alloc(&job->arena, m->rank * sizeof *at, sizeof *at);
    uint64_t left = m->from - n->base;
    SFT_NEED(at != NULL, m->rank * sizeof *at, err);
    for (uint32_t d = 0; d < m->rank; d++) {
        at[d] = left / n->stride[d]; /* not 0: is_nested */
        left %= n->stride[d];
        if (at[d] + m->count[d] > n->count[d]) {
            n->count[d] = at[d] + m->count[d];
        }
        n->lost = n->lost || (d > 0 && at[d] + m->count[d] > n->stride[d - 1] / n->stride[d]);
    }
    n->lost = n->lost || left != 0;
    m->position = at;
    return SFT_OK;
}

static sft_status make_source_nodes(sft_job *job, sft_error *err) {
    uint32_t last = UINT32_MAX;
    if (job->move_count > 1) { /* an empty list is NULL, which qsort must not get */
        qsort(job->moves, job->move_count, sizeof *job->moves, by_place);
    }
    for (size_t i = 0; i < job->move_count; i++) {
        sft__checkpoint_job_move *const m = &job->moves[i];
        if (last == UINT32_MAX || !same_tensor(&job->nodes[last], m)) {
            SFT_TRY(add_source_node(job, m, err));
            last = (uint32_t)(job->node_count - 1);
        }
        sft__checkpoint_job_node *const n = &job->nodes[last];
        const uint64_t end = move_end(m);
        n->end = n->end < end ? end : n->end;
        SFT_TRY(take_position(job, n, m, err));
        m->source_node = last;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- clusters */

static uint32_t root(sft__checkpoint_job_node *nodes, uint32_t i) {
    while (nodes[i].next != i) {
        nodes[i].next = nodes[nodes[i].next].next;
        i = nodes[i].next;
    }
    return i;
}

/* Moves link nodes to clusters; the lowest node leads, so that clusters are in the order of files. */
static void link_nodes(sft_job *job) {
    for (size_t i = 0; i < job->move_count; i++) {
        const uint32_t a = root(job->nodes, job->moves[i].source_node);
        const uint32_t b = root(job->nodes, job->moves[i].target_node);
        job->nodes[a < b ? b : a].next = a < b ? a : b;
    }
}

/* One cluster for each leading node; cluster[i]: that of node i. Nodes and moves are counted. */
static sft_status number_clusters(sft_job *job, uint32_t *cluster, sft_error *err) {
    for (uint32_t i = 0; i < job->node_count; i++) {
        const uint32_t lead = root(job->nodes, i);
        if (lead == i) {
            const size_t number = job->cluster_count;
            SFT_TRY(sft__checkpoint_more(job->allocator, &job->clusters, &job->cluster_room,
                                         number + 1, sizeof *job->clusters, err));
            job->clusters[number] = (sft__checkpoint_job_cluster){.rank = job->nodes[i].rank};
            job->cluster_count++;
            cluster[i] = (uint32_t)number;
        }
        cluster[i] = cluster[lead]; /* lead <= i: it has its number */
        job->clusters[cluster[i]].node_count++;
    }
    for (size_t i = 0; i < job->move_count; i++) {
        job->clusters[cluster[job->moves[i].source_node]].move_count++;
    }
    return SFT_OK;
}

/* Where each cluster begins; its counts start again, for who fills it. */
static void set_beginnings(sft_job *job) {
    size_t nodes = 0;
    size_t moves = 0;
    for (size_t i = 0; i < job->cluster_count; i++) {
        sft__checkpoint_job_cluster *const k = &job->clusters[i];
        k->first_node = nodes;
        k->first_move = moves;
        nodes += k->node_count;
        moves += k->move_count;
        k->node_count = 0;
        k->move_count = 0;
    }
}

/* Copies of nodes and moves in the order of clusters. place: the new number of each node. */
static void sort_into(sft_job *job, const uint32_t *cluster, uint32_t *place,
                      sft__checkpoint_job_node *nodes, sft__checkpoint_job_move *moves) {
    for (uint32_t i = 0; i < job->node_count; i++) {
        sft__checkpoint_job_cluster *const k = &job->clusters[cluster[i]];
        place[i] = (uint32_t)(k->first_node + k->node_count++);
        nodes[place[i]] = job->nodes[i];
    }
    for (size_t i = 0; i < job->move_count; i++) {
        const sft__checkpoint_job_move *const m = &job->moves[i];
        sft__checkpoint_job_cluster *const k = &job->clusters[cluster[m->source_node]];
        sft__checkpoint_job_move *const to = &moves[k->first_move + k->move_count++];
        *to = *m;
        to->source_node = place[m->source_node];
        to->target_node = place[m->target_node];
    }
}

/* Nodes and moves, sorted by clusters. */
static sft_status group(sft_job *job, sft_error *err) {
    const sft_allocator *const a = job->allocator;
    const size_t nodes = job->node_count + 1;
    const size_t moves = job->move_count + 1;
    uint32_t *const place = sft__base_alloc_array(a, nodes, sizeof *place);
    uint32_t *const cluster = sft__base_alloc_array(a, nodes, sizeof *cluster);
    sft__checkpoint_job_node *new_nodes = sft__base_alloc_array(a, nodes, sizeof *new_nodes);
    sft__checkpoint_job_move *new_moves = sft__base_alloc_array(a, moves, sizeof *new_moves);
    sft_status status;
    if (place == NULL || cluster == NULL || new_nodes == NULL || new_moves == NULL) {
        status = sft__base_fail_nomem(err, nodes * sizeof *new_nodes + moves * sizeof *new_moves);
    } else {
        link_nodes(job);
        status = number_clusters(job, cluster, err);
    }
    size_t node_room = nodes;
    size_t move_room = moves;
    if (status == SFT_OK) { /* the new lists are the job's, the old ones are freed instead */
        sft__checkpoint_job_node *const old_nodes = job->nodes;
        sft__checkpoint_job_move *const old_moves = job->moves;
        set_beginnings(job);
        sort_into(job, cluster, place, new_nodes, new_moves);
        node_room = job->node_room;
        move_room = job->move_room;
        job->nodes = new_nodes;
        job->node_room = nodes;
        job->moves = new_moves;
        job->move_room = moves;
        new_nodes = old_nodes;
        new_moves = old_moves;
    }
    sft__base_free(a, new_moves, move_room * sizeof *new_moves);
    sft__base_free(a, new_nodes, node_room * sizeof *new_nodes);
    sft__base_free(a, cluster, nodes * sizeof *cluster);
    sft__base_free(a, place, nodes * sizeof *place);
    return status;
}

/* ---------------------------------------------------------------- the grid */

/* source.at + position = target.at + start. True: something was placed. *fits is cleared by a
 * contradiction. */
static bool place_one(sft_job *job, const sft__checkpoint_job_move *m, bool *fits) {
    sft__checkpoint_job_node *const s = &job->nodes[m->source_node];
    sft__checkpoint_job_node *const t = &job->nodes[m->target_node];
    if (!s->placed && !t->placed) {
        return false;
    }
    for (uint32_t d = 0; d < m->rank; d++) {
        const int64_t shift = (int64_t)m->start[d] - (int64_t)m->position[d];
        if (!s->placed) {
            s->at[d] = t->at[d] + shift;
        } else if (!t->placed) {
            t->at[d] = s->at[d] - shift;
        } else if (s->at[d] != t->at[d] + shift) {
            *fits = false;
        }
    }
    const bool news = !s->placed || !t->placed;
    s->placed = true;
    t->placed = true;
    return news;
}

static bool place_all(sft_job *job, const sft__checkpoint_job_cluster *k) {
    bool fits = true;
    bool news = true;
    job->nodes[k->first_node].placed = true;
    while (news) {
        news = false;
        for (size_t i = 0; i < k->move_count; i++) {
            news = place_one(job, &job->moves[k->first_move + i], &fits) || news;
        }
        for (size_t i = k->move_count; i-- > 0 && news;) {
            (void)place_one(job, &job->moves[k->first_move + i], &fits);
        }
    }
    for (size_t i = 0; i < k->node_count; i++) {
        fits = fits && !job->nodes[k->first_node + i].lost;
    }
    return fits;
}

static sft_status frame(sft_job *job, sft__checkpoint_job_cluster *k, sft_error *err) {
    k->extent = sft__base_arena_alloc(&job->arena, k->rank * sizeof *k->extent, sizeof *k->extent);
    SFT_NEED(k->extent != NULL, k->rank * sizeof *k->extent, err);
    for (uint32_t d = 0; d < k->rank; d++) {
        int64_t low = INT64_MAX;
        k->extent[d] = 0;
        for (size_t i = 0; i < k->node_count; i++) {
            const sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
            low = n->at[d] < low ? n->at[d] : low;
        }
        for (size_t i = 0; i < k->node_count; i++) {
            sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
            n->at[d] -= low;
            const uint64_t end = (uint64_t)n->at[d] + n->count[d];
            k->extent[d] = end > k->extent[d] ? end : k->extent[d];
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- bands */

enum {
    LOCAL_GAP = 4096,   /* from here on, and if that is half of a row, another call costs less */
    SCATTERED_GAP = 512 /* what one more range costs a source that likes them scattered */
};

/* Is the source one that wants to know what is wanted of it, and no more? */
static bool scattered(const sft_job *job, const sft__checkpoint_job_node *n) {
    return !n->target &&
           (sft_source_flags(job->sources[n->where].source) & SFT_SOURCE_SCATTERED) != 0;
}

/* What a row of dimension `level` takes in the buffer, for every node. */
static void set_pitch(sft_job *job, const sft__checkpoint_job_cluster *k, uint32_t level) {
    for (size_t i = 0; i < k->node_count; i++) {
        sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
        n->low = n->target ? 0 : UINT64_MAX;
        n->pitch = n->target ? n->stride[level] : 0;
        n->rows = false;
    }
    for (size_t i = 0; i < k->move_count; i++) { /* pitch: the end of what is wanted, for now */
        const sft__checkpoint_job_move *const m = &job->moves[k->first_move + i];
        sft__checkpoint_job_node *const n = &job->nodes[m->source_node];
        uint64_t low = 0;
        uint64_t high = n->element;
        for (uint32_t d = level + 1; d < m->rank; d++) {
            low += m->position[d] * n->stride[d];
            high += (m->position[d] + m->count[d] - 1) * n->stride[d];
        }
        n->low = low < n->low ? low : n->low;
        n->pitch = high > n->pitch ? high : n->pitch;
    }
    for (size_t i = 0; i < k->node_count; i++) {
        sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
        const uint64_t row = n->stride[level];
        const uint64_t wanted = n->pitch - n->low;
        if (!n->target) {
            n->rows = scattered(job, n) ? row - wanted > SCATTERED_GAP
                                        : wanted <= row / 2 && row - wanted >= LOCAL_GAP;
            n->low = n->rows ? n->low : 0;
            n->pitch = n->rows ? wanted : row;
        }
    }
}

typedef struct event {
    uint64_t at;
    uint64_t bytes;
    bool ends;
} event;

static int by_event(const void *a, const void *b) {
    const event *const x = a;
    const event *const y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (int)y->ends - (int)x->ends;
}

/* Bytes that one row takes in all nodes that reach it, at most. */
static uint64_t most_per_row(const sft_job *job, const sft__checkpoint_job_cluster *k,
                             uint32_t level, event *events) {
    uint64_t now = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < k->node_count; i++) {
        const sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
        events[2 * i] = (event){(uint64_t)n->at[level], n->pitch, false};
        events[2 * i + 1] = (event){(uint64_t)n->at[level] + n->count[level], n->pitch, true};
    }
    qsort(events, 2 * k->node_count, sizeof *events, by_event);
    for (size_t i = 0; i < 2 * k->node_count; i++) {
        now = events[i].ends ? now - events[i].bytes : now + events[i].bytes;
        most = now > most ? now : most;
    }
    return most;
}

static sft_status slice(sft_job *job, sft__checkpoint_job_cluster *k, sft_error *err) {
    const size_t count = 2 * k->node_count;
    event *const events = sft__base_alloc_array(job->allocator, count, sizeof *events);
    uint64_t band = sft__base_size.job_band;
    uint64_t row = 0;
    SFT_NEED(events != NULL, count * sizeof *events, err);
    while (band < 8 * sft__base_size.job_band && band < k->node_count * (uint64_t)65536) {
        band *= 2;
    }
    for (k->level = 0; k->level < k->rank; k->level++) {
        set_pitch(job, k, k->level);
        row = most_per_row(job, k, k->level, events);
        if (row <= band || k->level + 1 == k->rank) {
            break;
        }
    }
    k->rows = row < band && row > 0 ? band / row : 1;
    k->rows = k->rows < k->extent[k->level] ? k->rows : k->extent[k->level];
    k->bands = (k->extent[k->level] + k->rows - 1) / k->rows;
    for (uint32_t d = 0; d < k->level; d++) {
        if (!sft__base_mul64(k->bands, k->extent[d], &k->bands)) {
            sft__base_free(job->allocator, events, count * sizeof *events);
            return sft__base_fail(err, SFT_E_OVERFLOW, "more bands than 2^64");
        }
    }
    k->room = k->rows * row + k->node_count * 128;
    for (size_t i = 0; i < k->node_count; i++) {
        const sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
        k->bytes += n->target ? n->end - n->base : 0;
    }
    sft__base_free(job->allocator, events, count * sizeof *events);
    return SFT_OK;
}

/* The cluster's tensors are read whole instead; it stays, empty. */
static sft_status give_up(sft_job *job, sft__checkpoint_job_cluster *k, sft_error *err) {
    for (size_t i = 0; i < k->node_count; i++) {
        const sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
        if (n->target) {
            SFT_TRY(sft__checkpoint_job_add_whole(job, n->where, n->tensor, err));
        }
    }
    k->node_count = 0;
    k->move_count = 0;
    k->bands = 0;
    return SFT_OK;
}

sft_status sft__checkpoint_job_gather(sft_job *job, sft_error *err) {
    if (job->move_count == 0) {
        return SFT_OK;
    }
    SFT_TRY(make_source_nodes(job, err));
    SFT_TRY(group(job, err));
    for (size_t i = 0; i < job->cluster_count; i++) {
        sft__checkpoint_job_cluster *const k = &job->clusters[i];
        if (!place_all(job, k)) {
            SFT_TRY(give_up(job, k, err));
            continue;
        }
        SFT_TRY(frame(job, k, err));
        SFT_TRY(slice(job, k, err));
    }
    return SFT_OK;
}
