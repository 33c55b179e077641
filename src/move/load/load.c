/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load.c - many tensors into one piece of memory, or to places of the caller's: options, the
 * run as a whole, results. Read first: load.h, which names the other parts.
 */
#include "move/load/load.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "move/load/arena.h"
#include "move/read.h"

static const uint8_t nothing[64]; /* where tensors of no bytes lie */

/* ---------------------------------------------------------------- running */

static sft_status take_memory(sft__move_load *w, sft_error *err) {
    sft_loaded *l = w->loaded;
    sft_arena *arena = w->options->arena;

    if (w->options->memory_bytes != 0 && w->total > w->options->memory_bytes) {
        return sft__base_fail(
            err, SFT_E_LIMIT, "the tensors take %llu bytes of memory, the limit is %llu",
            (unsigned long long)w->total, (unsigned long long)w->options->memory_bytes);
    }
    if (w->total == 0) {
        return SFT_OK;
    }
    if (arena == NULL) {
        SFT_TRY(sft_arena_create(&l->own, 0, 0, l->allocator, err));
        arena = l->own;
    }
    return sft__move_data_arena_take(arena, w->total, &w->base, err);
}

/* Places of tensors, and jobs' positions, are relative to the run until here. */
static sft_status run(sft__move_load *w, sft_error *err) {
    sft_loaded *l = w->loaded;
    uint64_t bytes = 0; /* what lies between tensors included */

    SFT_TRY(take_memory(w, err));
    for (size_t i = 0; i < w->job_count; i++) {
        bytes += w->jobs[i].size;
    }
    w->loop = (sft__move_loop){.pool = w->options->pool,
                               .allocator = l->allocator,
                               .room = sft__move_load_buffer_size(),
                               .block = sft__move_load_job_run,
                               .ctx = w};
    SFT_TRY(sft__move_loop_begin(&w->loop, w->options->control, bytes, err));
    if (!sft__base_mutex_init(&w->lock)) {
        (void)sft__move_loop_end(&w->loop, NULL);
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    if (sft__move_loop_run(&w->loop, w->job_count, NULL) == SFT_OK && w->unseen != NULL) {
        w->loop.block = sft__move_load_unseen_run;
        (void)sft__move_loop_run(&w->loop, sft_pool_threads(w->options->pool), NULL);
    }
    sft__base_mutex_reset(&w->lock);
    SFT_TRY(sft__move_loop_end(&w->loop, err));
    for (size_t i = 0; i < l->slot_count; i++) {
        sft__move_load_slot *slot = &l->slots[i];
        if (slot->data != NULL && slot->at != SFT__LOAD_FINAL) {
            slot->data = w->base + (size_t)slot->at;
            slot->at = SFT__LOAD_FINAL;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- sources */

static void open_sources(sft_loaded *l, const sft_load_options *o) {
    for (size_t i = 0; i < l->source_count; i++) {
        l->sources[i].source = sft_catalog_source_at(l->catalog, i);
        l->sources[i].direct = -1;
        if (l->sources[i].wanted > 0) {
            l->sources[i].total = l->bytes;
            sft__io_reader_open(&l->sources[i], o->strategy, false);
        }
    }
}

/* After the load: what changed meanwhile is not to be trusted. */
static sft_status close_sources(sft_loaded *l, sft_status status, sft_error *err) {
    for (size_t i = 0; i < l->source_count; i++) {
        sft__io_reader_close(&l->sources[i]);
        if (status == SFT_OK) {
            status = sft__io_reader_unchanged(&l->sources[i], "loaded", err);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- selection */

/* The type that a tensor becomes. */
static sft_status slot_type(const sft_catalog *catalog, const sft_load_options *o, size_t i,
                            const sft_tensor *t, const sft_dtype **out, sft_error *err) {
    const uint32_t id = t->dtype->id;
    const bool floats = id == SFT_F16 || id == SFT_BF16 || id == SFT_F32 || id == SFT_F64;
    const sft_dtype *to = o->dtypes != NULL ? o->dtypes[i] : NULL;
    uint64_t made;

    if (to == NULL) {
        to = floats && o->float_dtype != NULL ? o->float_dtype : t->dtype;
    }
    *out = to;
    if (to->id == id) {
        *out = t->dtype;
        return SFT_OK;
    }
    SFT_TRY(sft_catalog_can_cast(catalog, t, err));
    if (sft_dtype_get(id) == NULL || sft_dtype_get(to->id) == NULL ||
        o->strategy == SFT_STRATEGY_MAP) {
        return SFT_FAIL_TENSOR(err, SFT_E_UNSUPPORTED, t, "no cast from %s to %s%s", t->dtype->name,
                               to->name, o->strategy == SFT_STRATEGY_MAP ? " in a mapping" : "");
    }
    return sft_dtype_bytes(to, t->nbytes / t->dtype->block_bytes * t->dtype->block_elements, &made,
                           err);
}

/* Tensor `index`, number i of the selection. */
static sft_status want(sft_loaded *l, const sft_load_options *o, size_t i, size_t index,
                       sft_error *err) {
    const sft_tensor *t = sft_catalog_at(l->catalog, index);
    const sft_load_place *place =
        o->places != NULL && o->places[i].data != NULL ? &o->places[i] : NULL;
    sft__move_load_slot *slot = &l->slots[index];

    if (slot->data != NULL) {
        return o->places == NULL && o->dtypes == NULL
                   ? SFT_OK
                   : SFT_FAIL_TENSOR(err, SFT_E_ARG, t,
                                     "selected twice, with places or types for each");
    }
    const sft_status status = slot_type(l->catalog, o, i, t, &slot->dtype, err);
    if (status != SFT_OK) {
        return sft__move_name_tensor(err, t, status);
    }
    const uint64_t size = sft__move_load_made(t, slot->dtype, t->nbytes);
    if (place != NULL && place->size < size) {
        return SFT_FAIL_TENSOR(err, SFT_E_ARG, t, "the tensor takes %llu bytes, its place has %llu",
                               (unsigned long long)size, (unsigned long long)place->size);
    }
    const void *data = place != NULL ? place->data : nothing;
    memcpy(&slot->data, &data, sizeof slot->data); /* only the type says const */
    slot->at = place != NULL || t->nbytes == 0 ? SFT__LOAD_FINAL : 0;
    l->count++;
    l->bytes += t->nbytes; /* wraps only where the plan fails */
    for (uint32_t k = 0; k < t->piece_count; k++) {
        l->sources[t->pieces[k].source].wanted += t->pieces[k].nbytes;
    }
    return SFT_OK;
}

static sft_status select_tensors(sft_loaded *l, const sft_load_options *o, sft_error *err) {
    const size_t count = o->select != NULL ? o->select_count : l->slot_count;
    for (size_t i = 0; i < count; i++) {
        const size_t index = o->select != NULL ? o->select[i] : i;
        if (index >= l->slot_count) {
            return sft__base_fail(err, SFT_E_RANGE,
                                  "tensor %llu was selected, the catalog has %llu",
                                  (unsigned long long)index, (unsigned long long)l->slot_count);
        }
        SFT_TRY(want(l, o, i, index, err));
    }
    return SFT_OK;
}

static sft_status read_options(const sft_load_options *options, sft_load_options *o,
                               sft_error *err) {
    const uint32_t flags =
        SFT_LOAD_POPULATE | SFT_LOAD_HOST_ORDER | SFT_LOAD_VERIFY | SFT_LOAD_SCAN;

    SFT_TRY(sft__base_options_read(o, sizeof *o, options, SFT__UP_TO(sft_load_options, select),
                                   "load options", err));
    SFT_TRY(sft__io_strategy_check(o->strategy, err));
    if ((o->flags & ~flags) != 0 || o->alignment > SFT__ARENA_ALIGN ||
        (o->alignment & (o->alignment - 1)) != 0 ||
        (o->digests & ~(SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256)) != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "flags, digests or alignment are not among the known");
    }
    if (o->strategy == SFT_STRATEGY_MAP &&
        (o->places != NULL || (SFT_BIG_ENDIAN && (o->flags & SFT_LOAD_HOST_ORDER) != 0))) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a mapping has its own place and the file's byte order");
    }
    return SFT_OK;
}

static sft_status loaded_new(sft_loaded **out, const sft_catalog *catalog,
                             const sft_allocator *allocator, sft_error *err) {
    sft_loaded *l = sft__base_alloc_zero(allocator, sizeof *l);
    SFT_NEED(l != NULL, sizeof *l, err);
    l->allocator = allocator;
    l->catalog = catalog;
    l->slot_count = sft_catalog_count(catalog);
    l->source_count = sft_catalog_source_count(catalog);
    /* cannot overflow: the catalog holds larger arrays of the same lengths */
    l->slots = sft__base_alloc_zero(allocator, l->slot_count * sizeof *l->slots);
    l->sources = sft__base_alloc_zero(allocator, l->source_count * sizeof *l->sources);
    *out = l;
    if ((l->slots == NULL && l->slot_count > 0) || (l->sources == NULL && l->source_count > 0)) {
        return sft__base_fail_nomem(err, l->slot_count * sizeof *l->slots);
    }
    return SFT_OK;
}

static sft_status load(sft_loaded *l, const sft_load_options *o, sft_error *err) {
    sft__move_recorded *recorded = NULL;
    sft__move_load w;

    memset(&w, 0, sizeof w);
    w.loaded = l;
    w.options = o;
    atomic_flag_clear(&w.touched);
    SFT_TRY(select_tensors(l, o, err));
    sft_status status = sft__move_load_facts_want(&w, &recorded, err);
    if (status == SFT_OK) {
        open_sources(l, o);
        status = sft__move_load_plan(&w, err);
        if (status == SFT_OK) {
            status = run(&w, err);
        }
        status = close_sources(l, status, err);
    }
    if (status == SFT_OK) {
        status = sft__move_load_facts_sum(&w, recorded, err);
    }
    sft__base_free(l->allocator, recorded, (l->slot_count + 1) * sizeof *recorded);
    sft__base_free(l->allocator, w.jobs, w.job_room * sizeof *w.jobs);
    sft__base_free(l->allocator, w.parts, w.part_room * sizeof *w.parts);
    return status;
}

sft_status sft_load(sft_loaded **out, const sft_catalog *catalog, const sft_load_options *options,
                    sft_error *err) {
    sft_load_options o;

    SFT_OUT(out, err);
    if (catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog is NULL");
    }
    SFT_TRY(read_options(options, &o, err));
    sft_status status = loaded_new(out, catalog, sft__base_allocator(o.allocator), err);
    if (status == SFT_OK) {
        status = load(*out, &o, err);
    }
    if (status != SFT_OK) {
        sft_loaded_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---------------------------------------------------------------- results */

/* Of an alias: what it shows of the tensor's bytes; NULL if that is not in one piece there, or was cast. */
static const void *data_of_part(const sft__move_load_slot *slot, const sft_tensor *whole,
                                const sft_tensor *part, size_t *size) {
    const bool packed = slot->data != NULL && part->pieces[0].strides == NULL;
    const bool cast = slot->dtype != NULL && slot->dtype->id != whole->dtype->id;
    const bool all = part->dtype->id == whole->dtype->id && part->nbytes == whole->nbytes;
    const uint64_t at = part->pieces[0].offset - whole->pieces[0].offset;

    if (!packed || (cast && !all)) {
        return NULL;
    }
    if (size != NULL) {
        *size = cast ? (size_t)sft__move_load_made(whole, slot->dtype, whole->nbytes)
                     : (size_t)part->nbytes;
    }
    return slot->data + at;
}

const void *sft_loaded_data(const sft_loaded *loaded, const sft_tensor *tensor, size_t *size) {
    const size_t index = sft_catalog_index_of(loaded->catalog, tensor);
    const sft__move_load_slot *slot = &loaded->slots[index];
    const sft_tensor *whole = sft_catalog_at(loaded->catalog, index);

    if (whole != tensor) {
        if (size != NULL) {
            *size = 0;
        }
        return data_of_part(slot, whole, tensor, size);
    }
    if (size != NULL) {
        *size = slot->data != NULL
                    ? (size_t)sft__move_load_made(tensor, slot->dtype, tensor->nbytes)
                    : 0;
    }
    return slot->data;
}

const sft_dtype *sft_loaded_dtype(const sft_loaded *loaded, const sft_tensor *tensor) {
    const sft__move_load_slot *slot = &loaded->slots[sft_catalog_index_of(loaded->catalog, tensor)];
    return slot->dtype != NULL ? slot->dtype : tensor->dtype;
}

size_t sft_loaded_count(const sft_loaded *loaded) {
    return loaded->count;
}

uint64_t sft_loaded_bytes(const sft_loaded *loaded) {
    return loaded->bytes;
}

sft_status sft_strategy_choose(const sft_catalog *catalog, size_t file, sft_strategy wanted,
                               sft_strategy_choice *out, sft_error *err) {
    sft__io_reader r;

    if (catalog == NULL || out == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or out is NULL");
    }
    SFT_TRY(sft__io_strategy_check(wanted, err));
    memset(out, 0, sizeof *out);
    const sft_file *f = sft_catalog_file_at(catalog, file);
    if (f == NULL) {
        return sft__base_fail(err, SFT_E_RANGE, "the catalog has %llu files",
                              (unsigned long long)sft_catalog_file_count(catalog));
    }
    memset(&r, 0, sizeof r);
    r.source = sft_catalog_source_at(catalog, f->source);
    r.wanted = f->data_bytes > 0 ? f->data_bytes : 1;
    sft__io_reader_open(&r, wanted, false);
    sft__io_reader_close(&r);
    *out = r.choice;
    return SFT_OK;
}

sft_strategy sft_loaded_strategy(const sft_loaded *loaded, size_t file, const char **reason) {
    const sft_file *f = sft_catalog_file_at(loaded->catalog, file);
    return sft__io_reader_told(f != NULL ? &loaded->sources[f->source] : NULL, reason);
}

void sft_loaded_free(sft_loaded *loaded) {
    if (loaded != NULL) {
        const sft_allocator *a = loaded->allocator;
        sft_arena_free(loaded->own);
        sft__base_free(a, loaded->slots, loaded->slot_count * sizeof *loaded->slots);
        sft__base_free(a, loaded->facts, loaded->slot_count * sizeof *loaded->facts);
        sft__base_free(a, loaded->sources, loaded->source_count * sizeof *loaded->sources);
        sft__base_free(a, loaded, sizeof *loaded);
    }
}
