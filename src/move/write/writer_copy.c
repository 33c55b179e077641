/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer_copy.c - tensors of a catalog go into a file as they are, in blocks of the new file:
 * whatever neighbours share a block is read together where it lies together, and written at once,
 * at offsets that page caches and direct writes like. SHA-256 needs a tensor's bytes in order, and
 * a stream the file's: those go tensor by tensor. (Copies inside the kernel were measured: one
 * copy_file_range takes longer than two threads that read and write.)
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "move/loop.h"
#include "move/read.h"
#include "move/write/writer.h"
#include <sft/extend.h>

enum { PAGE = 4096, BLOCK = 256 << 10 /* stays in a core's cache between read and write */ };

typedef struct copier {
    sft_writer *w;
    const sft_catalog *catalog;
    const sft_tensor *const *tensors;
    uint32_t *crcs; /* by declaration index; NULL: not asked for */
    size_t block;
    uint64_t first;      /* block of the file that has the first data */
    sft__move_loop loop; /* its buffers: a block and a page */
} copier;

/* Bytes that follow each other in a source and in the block. */
typedef struct stretch {
    const copier *c;
    const sft_source *source;
    uint64_t offset;
    uint8_t *dst;
    size_t size;
} stretch;

static const sft__format_entry *entry_at(const copier *c, size_t position, uint32_t *index) {
    *index = c->w->set.order[position];
    return &c->w->set.entries[*index];
}

/* ---------------------------------------------------------------- blocks */

static sft_status read_stretch(stretch *s, sft_error *err) {
    const size_t size = s->size;
    s->size = 0;
    return size == 0 ? SFT_OK : sft_source_read(s->source, s->offset, s->dst, size, err);
}

/* Bytes [from, from + size) of the tensor to dst, now or with the stretch. */
static sft_status read_part(stretch *s, const sft_tensor *t, uint64_t from, uint8_t *dst,
                            size_t size, sft_error *err) {
    const sft_catalog *catalog = s->c->catalog;
    const sft_piece *p = t->pieces;

    if (t->piece_count != 1 || p->strides != NULL || p->nbytes != t->nbytes) {
        SFT_TRY(read_stretch(s, err));
        return sft_tensor_read_bytes(catalog, t, from, dst, size, err);
    }
    const sft_source *source = sft_catalog_source_at(catalog, p->source);
    if (s->size > 0 && (s->source != source || s->offset + s->size != p->offset + from ||
                        s->dst + s->size != dst)) {
        SFT_TRY(sft__move_name_tensor(err, t, read_stretch(s, err)));
    }
    if (s->size == 0) {
        *s = (stretch){s->c, source, p->offset + from, dst, 0};
    }
    s->size += size;
    return SFT_OK;
}

/* The CRC32C of the tensors in the range, whose bytes are at data. */
static void count_crcs(const copier *c, uint64_t begin, uint64_t end, const uint8_t *data) {
    for (size_t p = sft__move_set_position(&c->w->set, begin); c->crcs != NULL && begin < end;
         p++) {
        uint32_t index;
        const sft__format_entry *e = entry_at(c, p, &index);
        const uint64_t stop = e->begin + e->nbytes < end ? e->begin + e->nbytes : end;
        if (stop > begin) {
            uint32_t crc = sft__move_crc32c(c->w->set.cpu, 0, data, (size_t)(stop - begin));
            crc = sft_crc32c_combine(crc, 0, e->begin + e->nbytes - stop);
            sft__base_mutex_lock(&c->w->lock);
            c->crcs[index] ^= crc; /* CRCs of parts, moved to their places, add up in any order */
            sft__base_mutex_unlock(&c->w->lock);
            data += (size_t)(stop - begin);
            begin = stop;
        }
    }
}

/* Bytes [begin, end) of the data section are at data. */
static sft_status write_out(const copier *c, uint64_t begin, uint64_t end, uint8_t *data,
                            sft_error *err) {
    const sft__fs_span part = {data, (size_t)(end - begin)};

    if (part.size == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__fs_publish_write(c->w->publish, c->w->set.data_offset + begin, &part, 1, err));
    count_crcs(c, begin, end, data);
    return sft__base_meter_add(&c->w->meter, part.size, err);
}

/* Reads and writes what the range [begin, end) of the data section has of the tensors; at: memory
 * for it. */
static sft_status copy_range(const copier *c, uint64_t begin, uint64_t end, uint8_t *at,
                             sft_error *err) {
    stretch s = {c, NULL, 0, NULL, 0};
    uint64_t done = begin; /* written, or not ours */

    for (size_t p = sft__move_set_position(&c->w->set, begin); begin < end && p < c->w->set.count;
         p++) {
        uint32_t index;
        const sft__format_entry *e = entry_at(c, p, &index);
        const sft_tensor *t = c->tensors[index];
        const uint64_t stop = e->begin + e->nbytes < end ? e->begin + e->nbytes : end;
        const size_t size = (size_t)(stop - begin);
        if (t == NULL && size > 0) {
            SFT_TRY(read_stretch(&s, err));
            SFT_TRY(write_out(c, done, begin, at - (begin - done), err));
            done = stop;
        } else if (size > 0) {
            SFT_TRY(read_part(&s, t, begin - e->begin, at, size, err));
        }
        at += size;
        begin = stop;
    }
    SFT_TRY(read_stretch(&s, err));
    return write_out(c, done, begin, at - (begin - done), err);
}

static sft_status run_block(copier *c, size_t index, sft_error *err) {
    const sft__move_set *set = &c->w->set;
    const uint64_t at = (c->first + index) * c->block; /* inside the file */
    const uint64_t begin = at > set->data_offset ? at - set->data_offset : 0;
    const uint64_t left = set->data_bytes - begin;
    const uint64_t room = at + c->block - set->data_offset - begin;
    uint8_t *b = sft__move_loop_take(&c->loop, err);

    if (b == NULL) {
        return SFT_E_NOMEM;
    }
    const sft_status status = copy_range(c, begin, begin + (left < room ? left : room),
                                         b + (set->data_offset + begin) % PAGE, err);
    sft__move_loop_give(&c->loop, b);
    return status;
}

/* ---------------------------------------------------------------- tensor by tensor */

static sft_status run_tensor(copier *c, size_t position, sft_error *err) {
    uint32_t index;
    const sft__format_entry *e = entry_at(c, position, &index);
    const sft_tensor *t = c->tensors[index];
    sft_status status = SFT_OK;

    if (t == NULL || t->nbytes == 0) {
        return SFT_OK;
    }
    uint8_t *b = sft__move_loop_take(&c->loop, err);
    if (b == NULL) {
        return SFT_E_NOMEM;
    }
    for (uint64_t at = 0; at < e->nbytes && status == SFT_OK; at += c->block) {
        const uint64_t left = e->nbytes - at;
        const size_t size = left < c->block ? (size_t)left : c->block;
        status = sft_tensor_read_bytes(c->catalog, t, at, b, size, err);
        if (status == SFT_OK) {
            status = sft_writer_put(c->w, index, at, b, size, err);
        }
    }
    sft__move_loop_give(&c->loop, b);
    return status;
}

static bool by_tensor(const copier *c) {
    return c->w->path == NULL || c->w->set.sha != NULL;
}

static sft_status run_job(void *ctx, size_t index, sft_error *err) {
    copier *c = ctx;
    return by_tensor(c) ? run_tensor(c, index, err) : run_block(c, index, err);
}

/* ---------------------------------------------------------------- all of it */

static sft_status check(const copier *c, sft_error *err) {
    for (size_t i = 0; i < c->w->set.count; i++) {
        const sft_tensor *t = c->tensors[i];
        const sft__format_entry *e = &c->w->set.entries[i];
        if (t != NULL && t->nbytes != e->nbytes) {
            return sft__base_fail_tensor(err, SFT_E_ARG, SFT_NO_OFFSET, e->name, e->name_len,
                                         "a tensor of %llu bytes is to become one of %llu",
                                         (unsigned long long)t->nbytes,
                                         (unsigned long long)e->nbytes);
        }
    }
    return SFT_OK;
}

/* Lock held. Before and after blocks: the tensors' bytes are booked as a whole. */
static sft_status claim(copier *c, sft_error *err) {
    for (size_t i = 0; i < c->w->set.count; i++) {
        const sft__format_entry *e = &c->w->set.entries[i];
        uint64_t clash = 0;
        if (c->tensors[i] == NULL || e->nbytes == 0) {
            continue;
        }
        const sft__move_claim claimed = sft__move_cover_claim(&c->w->intakes[i].cover, 0, e->nbytes,
                                                              c->w->set.allocator, &clash);
        if (claimed != SFT__CLAIM_OK) {
            c->w->state = SFT__WRITER_DONE;
            return claimed == SFT__CLAIM_NOMEM
                       ? sft__base_fail_nomem(err, sizeof(sft__move_extent))
                       : sft__base_fail_tensor(err, SFT_E_STATE,
                                               c->w->set.data_offset + e->begin + clash, e->name,
                                               e->name_len, "byte %llu of the tensor is put twice",
                                               (unsigned long long)clash);
        }
    }
    return SFT_OK;
}

static void settle(copier *c) {
    for (size_t i = 0; i < c->w->set.count; i++) {
        if (c->tensors[i] != NULL && c->w->set.entries[i].nbytes > 0) {
            sft__move_cover_done(&c->w->intakes[i].cover, 0, c->crcs != NULL ? c->crcs[i] : 0);
        }
    }
}

/* Lock held: everything before the first byte. */
static sft_status begin(copier *c, sft_error *err) {
    sft_writer *w = c->w;

    if (w->state == SFT__WRITER_DECLARING) {
        SFT_TRY(sft__move_writer_start(w, err));
    }
    if (w->state != SFT__WRITER_OPEN) {
        return sft__base_fail(err, SFT_E_STATE,
                              "the writer has failed or been committed: only free is left");
    }
    SFT_TRY(check(c, err));
    c->block = sft__move_set_digest_block(&w->set);
    c->block = c->block < SFT__DIGEST_BLOCK_DURABLE ? BLOCK : c->block;
    c->first = w->set.data_offset / c->block;
    if (by_tensor(c)) {
        return SFT_OK;
    }
    if (w->set.crc != NULL && w->set.count > 0) {
        c->crcs = sft__base_alloc_zero(w->set.allocator, w->set.count * sizeof *c->crcs);
        SFT_NEED(c->crcs != NULL, w->set.count * sizeof *c->crcs, err);
    }
    return claim(c, err);
}

static sft_status run(copier *c, sft_error *err) {
    const sft__move_set *set = &c->w->set;
    const uint64_t end = sft__move_set_file_bytes(set);
    size_t jobs = set->count;

    if (!by_tensor(c) &&
        !sft__base_size_from_u64((end + c->block - 1) / c->block - c->first, &jobs)) {
        return sft__base_fail(err, SFT_E_LIMIT, "a file of %llu bytes", (unsigned long long)end);
    }
    c->loop = (sft__move_loop){.pool = c->w->path != NULL ? set->options.pool : NULL,
                               .allocator = set->allocator,
                               .room = c->block + PAGE,
                               .block = run_job,
                               .ctx = c};
    SFT_TRY(sft__move_loop_begin(&c->loop, NULL, 0, err)); /* the writer's meter counts */
    (void)sft__move_loop_run(&c->loop, jobs, NULL);
    return sft__move_loop_end(&c->loop, err);
}

sft_status sft_writer_copy(sft_writer *writer, const sft_catalog *catalog,
                           const sft_tensor *const *tensors, sft_error *err) {
    copier c = {.w = writer, .catalog = catalog, .tensors = tensors};

    if (catalog == NULL || (tensors == NULL && writer->set.count > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or tensors is NULL");
    }
    sft__base_mutex_lock(&writer->lock);
    sft_status status = begin(&c, err);
    sft__base_mutex_unlock(&writer->lock);
    if (status == SFT_OK) {
        status = run(&c, err);
        sft__base_mutex_lock(&writer->lock);
        if (status != SFT_OK) {
            writer->state = SFT__WRITER_DONE;
        } else if (!by_tensor(&c)) {
            settle(&c);
        }
        sft__base_mutex_unlock(&writer->lock);
    }
    sft__base_free(writer->set.allocator, c.crcs, writer->set.count * sizeof *c.crcs);
    return status;
}
