/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job_units.c - shares of work, what they cost, and the hash that names a plan. Read
 * job.h first.
 */
#include "checkpoint/job/job.h"
#include <sft/digest.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- runs in order */

static int by_target(const void *a, const void *b) {
    const sft__checkpoint_job_run *const x = a;
    const sft__checkpoint_job_run *const y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Sorts every file's runs and joins neighbours. */
static void sort_runs(sft_job *job) {
    size_t out = 0;
    for (size_t i = 0; i < job->count; i++) {
        sft__checkpoint_job_file *const f = &job->files[i];
        const size_t first = out;
        if (f->run_count > 0) {
            qsort(job->runs + f->first_run, f->run_count, sizeof *job->runs, by_target);
        }
        for (size_t k = 0; k < f->run_count; k++) {
            const sft__checkpoint_job_run *const r = &job->runs[f->first_run + k];
            sft__checkpoint_job_run *const last = out > first ? &job->runs[out - 1] : NULL;
            if (last != NULL && last->source == r->source && last->to + last->size == r->to &&
                last->from + last->size == r->from) {
                last->size += r->size;
            } else {
                job->runs[out++] = *r;
            }
        }
        f->first_run = first;
        f->run_count = out - first;
    }
    job->run_count = out;
}

/* ---------------------------------------------------------------- units */

static sft_status add_unit(sft_job *job, size_t which, sft__checkpoint_job_unit unit,
                           sft_error *err) {
    if (which > UINT32_MAX) {
        return sft__base_fail_nomem(err, SIZE_MAX);
    }
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->units, &job->unit_room, job->unit_count + 1,
                                 sizeof *job->units, err));
    unit.which = (uint32_t)which;
    job->units[job->unit_count++] = unit;
    return SFT_OK;
}

/* Units end where the file's position is a multiple of their size: writes are of whole pages then, and
 * large ones, which costs a file system half of what writes across pages do. */
static sft_status divide_file(sft_job *job, size_t file, sft_error *err) {
    const sft__checkpoint_job_file *const f = &job->files[file];
    uint64_t first = 0;
    uint64_t end = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < f->run_count; i++) {
        const sft__checkpoint_job_run *const r = &job->runs[f->first_run + i];
        for (uint64_t at = r->to; at < r->to + r->size;) {
            const uint64_t room = sft__base_size.job_unit - at % sft__base_size.job_unit;
            const uint64_t left = r->to + r->size - at;
            if (bytes > 0 && at / sft__base_size.job_unit != first / sft__base_size.job_unit) {
                SFT_TRY(add_unit(job, file,
                                 (sft__checkpoint_job_unit){SFT__UNIT_RUNS, 0, first, end, bytes},
                                 err));
                bytes = 0;
            }
            first = bytes == 0 ? at : first;
            end = at + (left < room ? left : room);
            bytes += end - at;
            at = end;
        }
    }
    return bytes > 0
               ? add_unit(job, file,
                          (sft__checkpoint_job_unit){SFT__UNIT_RUNS, 0, first, end, bytes}, err)
               : SFT_OK;
}

static sft_status divide_cluster(sft_job *job, size_t which, sft_error *err) {
    const sft__checkpoint_job_cluster *const k = &job->clusters[which];
    if (k->bands == 0) {
        return SFT_OK;
    }
    const uint64_t each = k->bytes / k->bands + 1;
    const uint64_t step = sft__base_size.job_unit / each > 0 ? sft__base_size.job_unit / each : 1;
    for (uint64_t at = 0; at < k->bands; at += step) {
        const uint64_t n = k->bands - at < step ? k->bands - at : step;
        const uint64_t left = at * each < k->bytes ? k->bytes - at * each : 0;
        const uint64_t bytes = n * each < left ? n * each : left;
        SFT_TRY(add_unit(job, which,
                         (sft__checkpoint_job_unit){SFT__UNIT_BANDS, 0, at, at + n, bytes}, err));
    }
    return SFT_OK;
}

static sft_status divide_whole(sft_job *job, size_t which, sft_error *err) {
    const uint64_t size = job->wholes[which].tensor->nbytes;
    for (uint64_t at = 0; at < size; at += sft__base_size.job_unit) {
        const uint64_t n =
            size - at < sft__base_size.job_unit ? size - at : sft__base_size.job_unit;
        SFT_TRY(add_unit(job, which, (sft__checkpoint_job_unit){SFT__UNIT_WHOLE, 0, at, at + n, n},
                         err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- costs */

/* Bytes that the bands read from a source node: all rows, or what is wanted of them. */
static uint64_t read_of(const sft__checkpoint_job_cluster *k, const sft__checkpoint_job_node *n) {
    uint64_t rows = 1;
    if (!n->rows) {
        return n->end - n->base;
    }
    for (uint32_t d = 0; d <= k->level; d++) {
        rows *= n->count[d];
    }
    return rows * n->pitch;
}

static void add_costs(sft_job *job) {
    sft_job_cost *const t = &job->total;
    for (size_t i = 0; i < job->count; i++) {
        sft__checkpoint_job_file *const f = &job->files[i];
        f->read = f->size - f->header;
        t->bytes += f->size;
        t->header_bytes += f->header;
        t->tensors += f->count;
        t->runs += f->pieces;
    }
    for (size_t i = 0; i < job->text_count; i++) {
        t->bytes += job->texts[i].size;
        t->header_bytes += job->texts[i].size;
    }
    for (size_t i = 0; i < job->run_count; i++) {
        t->bytes_read += job->runs[i].size;
    }
    for (size_t i = 0; i < job->whole_count; i++) {
        t->bytes_read += job->wholes[i].tensor->nbytes;
    }
    uint64_t stretches = job->run_count + 2 * job->whole_count;
    job->room = sft__base_size.job_block;
    for (size_t i = 0; i < job->cluster_count; i++) {
        const sft__checkpoint_job_cluster *const k = &job->clusters[i];
        job->room = k->room > job->room ? k->room : job->room;
        for (size_t n = 0; n < k->node_count; n++) {
            const sft__checkpoint_job_node *const node = &job->nodes[k->first_node + n];
            t->bytes_read += node->target ? 0 : read_of(k, node);
        }
        stretches += k->bands * k->node_count;
    }
    t->sources = job->source_count;
    t->cost = t->bytes + t->bytes_read + 4096 * stretches;
}

/* ---------------------------------------------------------------- keys */

typedef struct hashing {
    sft_sha256 sha;
    uint8_t buffer[4096];
    size_t used;
} hashing;

static void hash_number(hashing *h, uint64_t v) {
    if (h->used + 8 > sizeof h->buffer) {
        sft_sha256_update(&h->sha, h->buffer, h->used);
        h->used = 0;
    }
    for (unsigned i = 0; i < 8; i++) {
        h->buffer[h->used++] = (uint8_t)(v >> 8 * i);
    }
}

static void hash_bytes(hashing *h, const void *data, size_t size) {
    hash_number(h, size);
    sft_sha256_update(&h->sha, h->buffer, h->used);
    h->used = 0;
    if (size > 0) {
        sft_sha256_update(&h->sha, data, size);
    }
}

static void hash_move(hashing *h, const sft_job *job, const sft__checkpoint_job_move *m) {
    const sft__checkpoint_job_node *const to = &job->nodes[m->target_node];
    hash_number(h, m->from);
    hash_number(h, job->nodes[m->source_node].where);
    hash_number(h, to->where);
    hash_number(h, to->base);
    for (uint32_t d = 0; d < m->rank; d++) {
        hash_number(h, m->count[d]);
        hash_number(h, m->from_stride[d]);
        hash_number(h, m->start[d]);
    }
}

static void hash_whole(hashing *h, const sft_job *job, const sft__checkpoint_job_whole *w) {
    const sft_tensor *const t = w->tensor;
    hash_number(h, w->to);
    for (uint32_t i = 0; i < t->piece_count; i++) {
        const sft_piece *const p = &t->pieces[i];
        hash_number(h, job->source_index[job->files[w->file].source_table + p->source]);
        hash_number(h, p->offset);
        for (uint32_t d = 0; d < t->rank; d++) {
            hash_number(h, p->start != NULL ? p->start[d] : 0);
            hash_number(h, p->count != NULL ? p->count[d] : 0);
            hash_number(h, p->strides != NULL ? (uint64_t)p->strides[d] : 0);
        }
    }
}

static sft_status make_keys(sft_job *job, sft_error *err) {
    hashing h;
    sft__base_buf header;
    h.used = 0;
    sft_sha256_init(&h.sha);
    sft__base_buf_init(&header, job->allocator);
    for (size_t i = 0; i < job->count; i++) {
        const sft__checkpoint_job_file *const f = &job->files[i];
        header.len = 0;
        const sft_status status = sft__checkpoint_job_header(job, f, &header, NULL, err);
        if (status != SFT_OK) {
            sft__base_buf_reset(&header);
            return status;
        }
        hash_bytes(&h, f->given.name, strlen(f->given.name));
        hash_bytes(&h, header.data, header.len);
    }
    sft__base_buf_reset(&header);
    for (size_t i = 0; i < job->text_count; i++) {
        hash_bytes(&h, job->texts[i].name, strlen(job->texts[i].name));
        hash_bytes(&h, job->texts[i].data, job->texts[i].size);
    }
    for (size_t i = 0; i < job->run_count; i++) {
        const sft__checkpoint_job_run *const r = &job->runs[i];
        hash_number(&h, (uint64_t)r->file << 32 | r->source);
        hash_number(&h, r->from);
        hash_number(&h, r->to);
        hash_number(&h, r->size);
    }
    for (size_t i = 0; i < job->move_count; i++) {
        hash_move(&h, job, &job->moves[i]);
    }
    for (size_t i = 0; i < job->whole_count; i++) {
        hash_whole(&h, job, &job->wholes[i]);
    }
    hash_bytes(&h, NULL, 0);
    sft_sha256_final(&h.sha, job->plan_key);
    sft_sha256_init(&h.sha);
    hash_bytes(&h, job->plan_key, sizeof job->plan_key);
    for (size_t i = 0; i < job->source_count; i++) {
        hash_number(&h, job->sources[i].size);
        hash_number(&h, (uint64_t)job->sources[i].mtime_ns);
    }
    hash_bytes(&h, NULL, 0);
    sft_sha256_final(&h.sha, job->key);
    return SFT_OK;
}

sft_status sft__checkpoint_job_divide(sft_job *job, sft_error *err) {
    sort_runs(job);
    for (size_t i = 0; i < job->count; i++) {
        SFT_TRY(divide_file(job, i, err));
    }
    for (size_t i = 0; i < job->cluster_count; i++) {
        SFT_TRY(divide_cluster(job, i, err));
    }
    for (size_t i = 0; i < job->whole_count; i++) {
        SFT_TRY(divide_whole(job, i, err));
    }
    if (job->unit_count > UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "a job of more than 2^32 units");
    }
    add_costs(job);
    return make_keys(job, err);
}
