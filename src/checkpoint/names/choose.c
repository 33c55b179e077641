/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/choose.c - some tensors of a catalog, under other names and as other types. Read
 * checkpoint/names/names.h and checkpoint/open/assembly.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/names/names.h"
#include "checkpoint/open/assembly.h"

typedef struct choosing {
    sft__checkpoint_assembly assembly;
    const sft_catalog *in;
    sft_choose_options options;
    sft_chosen *chosen;          /* by tensor */
    sft__checkpoint_casts casts; /* `taken`: the source's */
    bool taken;
    uint32_t source; /* theirs */
    sft_choose_result result;
    sft_error *err;
} choosing;

/* Not so of a tensor out of SFT_CHECKPOINT_HOLES. */
static bool is_whole(const sft_tensor *t) {
    uint64_t there = 0;
    for (uint32_t i = 0; i < t->piece_count; i++) {
        uint64_t n = 1;
        for (uint32_t d = 0; d < t->rank; d++) {
            n *= t->pieces[i].count != NULL ? t->pieces[i].count[d] : t->shape[d];
        }
        there += n;
    }
    return there >= t->nbytes / t->dtype->block_bytes * t->dtype->block_elements;
}

static sft_status note_cast(choosing *c, const sft_tensor *t, const sft_dtype *to) {
    sft__checkpoint_cast *const one = &c->casts.list[c->casts.count];
    SFT_TRY(sft_catalog_can_cast(c->in, t, c->err));
    if (!is_whole(t)) {
        return sft__base_fail_tensor(c->err, SFT_E_HOLE, SFT_NO_OFFSET, t->name, t->name_len,
                                     "it is not whole, and cannot be cast before it is cut");
    }
    if (to->kind == SFT_KIND_OPAQUE || t->dtype->kind == SFT_KIND_OPAQUE) {
        return sft__base_fail_tensor(c->err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, t->name, t->name_len,
                                     "%s cannot be cast to %s", t->dtype->name, to->name);
    }
    one->tensor = t;
    one->to = to;
    one->elements = t->nbytes / t->dtype->block_bytes * t->dtype->block_elements;
    SFT_TRY(sft_dtype_bytes(to, one->elements, &one->nbytes, c->err));
    one->begin = c->casts.count == 0 ? 0 : one[-1].begin + one[-1].nbytes;
    uint64_t end;
    if (!sft__base_add64(one->begin, one->nbytes, &end) || end > (uint64_t)INT64_MAX) {
        return sft__base_fail(c->err, SFT_E_OVERFLOW,
                              "the tensors that are cast do not fit into any file");
    }
    c->casts.count += one->nbytes > 0; /* nothing is read of an empty one */
    c->result.cast++;
    return SFT_OK;
}

static sft_status ask(choosing *c, size_t i) {
    const sft_tensor *const t = sft_catalog_at(c->in, i);
    sft_chosen *const one = &c->chosen[i];
    *one = (sft_chosen){1, 0, t->name, t->name_len, t->dtype};
    SFT_TRY(c->options.choose(c->options.ctx, t, one, c->err));
    if (one->keep == 0) {
        c->result.left_out++;
        return SFT_OK;
    }
    c->result.kept++;
    c->result.renamed +=
        one->name_len != t->name_len || memcmp(one->name, t->name, t->name_len) != 0;
    return one->dtype->id != t->dtype->id ? note_cast(c, t, one->dtype) : SFT_OK;
}

/* The sources of the catalog, so that a job sees when they change, and behind them that of what is cast. */
static sft_status add_sources(choosing *c) {
    sft_source *source;
    SFT_TRY(sft__checkpoint_assembly_sources(&c->assembly, 0));
    if (c->casts.count == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_cast_source(&source, c->in, &c->casts, &c->options, c->err));
    c->taken = true;
    sft_file file = {.path = sft_source_name(source), .size = sft_source_size(source)};
    SFT_TRY(sft_builder_add_source(c->assembly.builder, source, &file.source, c->err));
    c->source = file.source;
    return sft_builder_add_file(c->assembly.builder, &file, NULL, c->err);
}

static sft_status add(choosing *c, size_t i, size_t *cast) {
    const sft_tensor *const t = sft_catalog_at(c->in, i);
    const sft_chosen *const one = &c->chosen[i];
    sft_tensor made = *t;
    made.name = one->name;
    made.name_len = one->name_len;
    made.dtype = one->dtype;
    if (one->dtype->id == t->dtype->id || t->nbytes == 0) {
        SFT_TRY(sft__checkpoint_assembly_global(&c->assembly, 0, t));
        return sft__checkpoint_assembly_add(&c->assembly, 0, &made, t->shape, t->rank);
    }
    const sft_piece piece = {.offset = c->casts.list[(*cast)++].begin, .source = c->source};
    made.pieces = &piece;
    made.piece_count = 1;
    made.nbytes = 0;
    made.file = c->source; /* files are added beside sources */
    return sft_builder_add_tensor(c->assembly.builder, &made, c->err);
}

static sft_status add_all(choosing *c, size_t count) {
    size_t cast = 0;
    for (size_t i = 0; i < count; i++) {
        if (c->chosen[i].keep != 0) {
            SFT_TRY(add(c, i, &cast));
        }
    }
    const sft__checkpoint_names_metadata m = {NULL, c->result.kept != count || c->result.cast != 0,
                                              c->result.renamed != 0};
    return c->result.kept == 0
               ? SFT_OK
               : sft__checkpoint_names_metadata_take(&c->assembly, c->in, &m, c->err);
}

static sft_status run(choosing *c, size_t count) {
    SFT_TRY(sft__checkpoint_assembly_init(&c->assembly, &c->in, 1, c->options.open, c->err));
    c->chosen = sft__base_alloc_array(c->assembly.allocator, count + 1, sizeof *c->chosen);
    c->casts.room = count + 1;
    c->casts.list = sft__base_alloc_array(c->assembly.allocator, count + 1, sizeof *c->casts.list);
    SFT_NEED(c->chosen != NULL && c->casts.list != NULL, count * sizeof *c->casts.list, c->err);
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(ask(c, i));
    }
    SFT_TRY(add_sources(c));
    SFT_TRY(sft__checkpoint_assembly_lacks(&c->assembly, 0));
    return add_all(c, count);
}

sft_status sft_choose(sft_catalog **out, const sft_catalog *in, const sft_choose_options *options,
                      sft_choose_result *result, sft_error *err) {
    choosing c;
    *out = NULL;
    memset(&c, 0, sizeof c);
    SFT_TRY(sft__base_options_read(&c.options, sizeof c.options, options,
                                   SFT__UP_TO(sft_choose_options, choose), "options", err));
    SFT_TRY(sft__base_result_check(result, SFT__UP_TO(sft_choose_result, kept), err));
    if (c.options.choose == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "nobody chooses");
    }
    c.in = in;
    c.err = err;
    const size_t count = sft_catalog_count(in);
    sft_status status = run(&c, count);
    if (status == SFT_OK) {
        status = sft_builder_finish(out, c.assembly.builder, err);
    }
    if (result != NULL) {
        sft__base_result_write(result, &c.result, sizeof c.result);
    }
    sft__base_free(c.assembly.allocator, c.chosen, (count + 1) * sizeof *c.chosen);
    if (!c.taken) {
        sft__base_free(c.assembly.allocator, c.casts.list, (count + 1) * sizeof *c.casts.list);
    }
    sft__checkpoint_assembly_reset(&c.assembly);
    return status;
}
