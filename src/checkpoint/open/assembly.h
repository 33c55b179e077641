/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/assembly.h - a catalog while it is put together from pieces of others: their sources (lent,
 * never closed), and boxes of their tensors moved to new places. Read <sft/extend.h> and
 * <sft/checkpoint.h> first.
 */
#ifndef SFT_CHECKPOINT_ASSEMBLY_H
#define SFT_CHECKPOINT_ASSEMBLY_H

#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "layout/layout.h"
#include <sft/checkpoint.h>
#include <sft/extend.h>

/* Of one tensor: memory is taken for each before any is found. */
#define SFT__MOST_PARTS UINT64_C(0x1000000)

/* Where the pieces of the tensor at hand are collected. Arrays are kept for the next tensor. */
typedef struct sft__checkpoint_piece_list {
    /* numbers point into `numbers` only when sft__checkpoint_assembly_add runs */
    sft_piece *pieces;
    size_t count;
    size_t capacity;
    uint64_t *numbers; /* start, count, strides: 3 * rank per piece */
    size_t number_count;
    size_t number_capacity;
} sft__checkpoint_piece_list;

typedef struct sft__checkpoint_assembly {
    const sft_allocator *allocator;
    sft_builder *builder;
    const sft_catalog *const *catalogs;
    size_t catalog_count;
    size_t *first;   /* of each catalog: position of its sources in `index` */
    uint32_t *index; /* of the builder's source and file; NONE: not added yet */
    size_t index_count;
    sft__checkpoint_piece_list list;
    double share; /* of the pieces of the tensor before: those before the one found; below 1 */
    sft_error *err;
} sft__checkpoint_assembly;

sft_status sft__checkpoint_assembly_init(sft__checkpoint_assembly *a,
                                         const sft_catalog *const *catalogs, size_t count,
                                         const sft_open_options *options, sft_error *err);
/* Frees everything that is left. */
void sft__checkpoint_assembly_reset(sft__checkpoint_assembly *a);

/* All sources of catalog `which`, with their files, in their order. */
sft_status sft__checkpoint_assembly_sources(sft__checkpoint_assembly *a, size_t which);

/* What catalog `which` lacks, as problems of the new one too: by the names that it had there. */
sft_status sft__checkpoint_assembly_lacks(sft__checkpoint_assembly *a, size_t which);

/* Box [from, from + count) of a tensor of catalog `which` becomes the box that begins at `to` in the new
 * tensor. A part of it that the tensor's pieces do not hold is not there either. */
sft_status sft__checkpoint_assembly_box(sft__checkpoint_assembly *a, size_t which,
                                        const sft_tensor *tensor, const uint64_t *from,
                                        const uint64_t *count, const uint64_t *to);
/* All of it, as it is. */
sft_status sft__checkpoint_assembly_global(sft__checkpoint_assembly *a, size_t which,
                                           const sft_tensor *tensor);
/* All of it as number `index` of a stack: a first dimension is put before its own. */
sft_status sft__checkpoint_assembly_stack(sft__checkpoint_assembly *a, size_t which,
                                          const sft_tensor *tensor, uint64_t index);
/* Number `index` along its first dimension, without that dimension. The list must be empty before. */
sft_status sft__checkpoint_assembly_unstack(sft__checkpoint_assembly *a, size_t which,
                                            const sft_tensor *tensor, uint64_t index);
/* A shard of a flat layout: a run in row-major order of a tensor that lies packed in one piece becomes a
 * packed box of `rank` dimensions. SFT_E_UNSUPPORTED for other tensors. */
sft_status sft__checkpoint_assembly_run(sft__checkpoint_assembly *a, size_t which,
                                        const sft_tensor *tensor, const sft__layout_shard *shard,
                                        uint32_t rank);
/* Box [from, from + count) of a tensor, which is contiguous in row-major order of it, becomes part of a
 * vector:
 * element e of the tensor, counted so, becomes element e - base. A tensor that was cut across rows gives
 * one piece per run: SFT_E_LIMIT above SFT__RUNS. */
#define SFT__RUNS (UINT64_C(1) << 20)
sft_status sft__checkpoint_assembly_flat(sft__checkpoint_assembly *a, size_t which,
                                         const sft_tensor *tensor, const uint64_t *from,
                                         const uint64_t *count, uint64_t base);
/* How many elements the collected pieces hold, which do not overlap, of a tensor of that rank. */
uint64_t sft__checkpoint_assembly_elements(const sft__checkpoint_assembly *a, size_t rank);
/* The collected pieces as a tensor with the name, dtype and file of `like`. The list is empty afterwards. */
sft_status sft__checkpoint_assembly_add(sft__checkpoint_assembly *a, size_t which,
                                        const sft_tensor *like, const uint64_t *shape, size_t rank);

/* part.c: what `rank` holds of a tensor of the assembly's first catalog, at its places in the rank's own. */
sft_status sft__checkpoint_part_take(sft__checkpoint_assembly *a, const sft_tensor *tensor,
                                     const sft_layout *layout, uint64_t rank, sft_error *err);

/* A join of ranks. */
typedef struct sft__checkpoint_join {
    const sft_rank_part *parts;
    size_t count;
    sft_layout_find find;
    void *ctx;
    const struct sft__checkpoint_gap *gaps; /* tensors that nobody holds: problems of the result */
    size_t gap_count;
    const char *
        skipped; /* files that names count and are not there, a problem of the result; NULL: none */
    const char *unknown; /* a sentence on tensors that nobody knows, likewise */
    bool partial;        /* what is incomplete is left out, and a problem too */
    bool holes;          /* partial: but it stays if any of it is there */
} sft__checkpoint_join;
/* open/metadata.c: what all files that have a key agree on, without keys that speak of one file, and
 * without sft.aliases where tensors are put together out of several (cut): a problem of the result. */
sft_status sft__checkpoint_join_metadata(sft_builder *builder, const sft_rank_part *parts,
                                         size_t count, bool cut, sft_error *err);
/* crc_num, remove_redundancy, DCP_SHARDING_INFO, DCP_VERSION. */
bool sft__checkpoint_speaks_of_one_file(const char *key, size_t len);
/* Says something of tensors of the catalog by their names, or of parts of them: sft.aliases, sft.tree,
 * gguf.tensors, tensor_names, onnx:NAME and its like; global: alias: NAME too. Wrong where tensors are
 * cut (without `global`), or called otherwise. */
bool sft__checkpoint_describes_tensors(const sft_catalog *catalog, const sft_metadata_entry *e,
                                       bool global);
/* crc_num alone: of all names and bytes of a file. */
bool sft__checkpoint_is_crc_num(const char *key, size_t len);

/* The global tensors. Every part of every tensor must be held by some rank, else SFT_E_HOLE names the
 * tensor and says which box no file holds; missing ranks are no fault where replicas stand in.
 * SFT_E_MISMATCH: ranks disagree about dtype or shape. SFT_E_OVERLAP: explicit boxes overlap. A rank given
 * twice is SFT_E_DUPLICATE. Tensors come in the order of the first rank that has them. Metadata: entries
 * that are equal wherever they are given, without those that speak of one file (crc_num,
 * remove_redundancy, DCP_SHARDING_INFO, DCP_VERSION).
 * options: allocator and limits; NULL for defaults. Cost: O(parts * tensors), from headers alone. */
sft_status sft__checkpoint_join_parts(sft_catalog **out, const sft__checkpoint_join *what,
                                      const sft_open_options *options, sft_error *err);

#endif
