/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/layout_set.h - the layouts of a model: how each tensor is sharded, as a file describes it.
 * In the library libsafetensors-checkpoint. Files are detected by their content, not by their names:
 *  - our own JSON form (docs/layout.md): meshes with named axes, tensors by name, pattern or module,
 *    sharded by DTensor placements, JAX PartitionSpec, Hugging Face styles, factors with sizes and
 *    blocks, flat ranges or explicit boxes
 *  - a MindSpore strategy, protobuf or JSON; a directory of them, one or more for each pipeline stage
 *  - topology.json of safetensors_distributed: explicit boxes by file
 *  - a tensor-parallel plan of transformers, {"layers.*.self_attn.q_proj": "colwise", ...}; with the
 *    number of ranks beside it, {"tp_plan": {...}, "tp_size": 8}, or in the options
 *  - numbers alone, "dp=2,tp=4,pp=2", given instead of a path or as text: how many ranks hold replicas, parts
 *    of tensors and parts of the layers. sft_layout_set_bind makes the layout of a model out of them
 *  - a configuration of MindFormers in YAML (parallel_config), for the same numbers
 *
 * Caveats first. A tensor that a set does not name is not sharded: every rank holds all of it. A set
 * knows shapes only where its file gives them; the sizes of a dimension that is sharded unevenly cannot
 * be derived from one rank's shard: opening a checkpoint takes them from all of its ranks.
 *
 * Threads: a set is immutable, except for opening a checkpoint with it, bind, and free.
 */
#ifndef SFT_LAYOUT_SET_H
#define SFT_LAYOUT_SET_H

#include <sft/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sft_layout_set sft_layout_set;

typedef enum sft_layout_form {
    SFT_LAYOUT_FORM_OWN = 1,      /* our own JSON */
    SFT_LAYOUT_FORM_STRATEGY = 2, /* MindSpore */
    SFT_LAYOUT_FORM_TOPOLOGY = 3, /* topology.json */
    SFT_LAYOUT_FORM_PLAN = 4,     /* tensor-parallel plan */
    SFT_LAYOUT_FORM_PARALLEL = 5, /* numbers: dp=2,tp=4,pp=2 */
    SFT_LAYOUT_FORM_FORCE_32BIT = 0x7fffffff
} sft_layout_form;

typedef struct sft_layout_set_options {
    size_t struct_size;
    const sft_allocator *allocator; /* must outlive the set */
    /* header_bytes bounds each file; tensors, rank, name_bytes, memory_bytes */
    const sft_limits *limits;
    /* of a tensor-parallel plan that does not say; 0: SFT_E_ARG then. Others: unused */
    uint64_t ranks;
} sft_layout_set_options;

/* A file, or a directory of strategies. Errors: SFT_E_FORMAT (nothing of the above), SFT_E_JSON,
 * SFT_E_SCHEMA, SFT_E_UTF8, SFT_E_DUPLICATE, SFT_E_MISMATCH (strategies of one stage differ),
 * SFT_E_NOT_FOUND (a stage is missing), SFT_E_LIMIT, with the offset in the text; SFT_E_IO. Cost:
 * O(size). */
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_open(sft_layout_set **out, const char *path,
                                                      const sft_layout_set_options *options,
                                                      sft_error *err);
/* The same from text in memory, which is copied. name: for messages. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_parse(sft_layout_set **out, const void *data,
                                                       size_t size, const char *name,
                                                       const sft_layout_set_options *options,
                                                       sft_error *err);
SFT_API void sft_layout_set_free(sft_layout_set *set); /* NULL is fine */

/* Makes the entries of a set of numbers alone (SFT_LAYOUT_FORM_PARALLEL), once, for all tensors of a model by
 * their names; sets of other forms stay as they are. Ranks that are opened with such a set need no call.
 * config: the model's config.json; NULL: the file of this name beside the model's first file, or in the
 * directory above, is read. Errors: SFT_E_NOT_FOUND (names that no rule knows, up to three of them in the
 * text; or no number of heads), SFT_E_SHAPE with the tensor's name and the numbers (heads, rows or experts
 * that do not divide; more stages than layers), SFT_E_ARG (made before), SFT_E_JSON and SFT_E_SCHEMA of the
 * config. Cost: O(tensors), from headers alone. Not by several threads at once. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_bind(sft_layout_set *set, const sft_catalog *model,
                                                      const char *config, size_t config_size,
                                                      sft_error *err);

SFT_API sft_layout_form sft_layout_set_form(const sft_layout_set *set);
/* One more than the highest rank that any layout names: ranks are 0 to this - 1. */
SFT_API uint64_t sft_layout_set_ranks(const sft_layout_set *set);

/* An sft_layout_find (sft/checkpoint.h) for sft_checkpoint_part, with the set as ctx. */
SFT_API sft_status sft_layout_set_find_global(void *set, const sft_tensor *tensor, uint64_t rank,
                                              const sft_layout **layout, uint64_t *shape,
                                              size_t *dims, sft_error *err);

typedef enum sft_layout_match {
    SFT_LAYOUT_MATCH_NAME = 0,    /* exactly this name */
    SFT_LAYOUT_MATCH_PATTERN = 1, /* *, ?, [a-z]; * takes dots too */
    SFT_LAYOUT_MATCH_MODULE =
        2, /* parameters of this module; * stands for digits, anything may go before */
    SFT_LAYOUT_MATCH_FORCE_32BIT = 0x7fffffff
} sft_layout_match;

/* One entry, for people. Borrowed from the set. */
typedef struct sft_layout_entry {
    size_t struct_size; /* set by the caller: SFT_INIT */
    const char *name;   /* or the pattern, UTF-8, also NUL-terminated */
    size_t name_len;
    uint32_t match;     /* sft_layout_match */
    uint32_t has_shape; /* shape and dims are known */
    /* NULL: whole, or it takes the tensor's number of dimensions to tell */
    const sft_layout *layout;
    const uint64_t *shape; /* of the global tensor */
    size_t dims;           /* of the shape, or of the layout */
    const char *mesh;      /* "dp 2, tp 4", "" for explicit boxes */
    const char *cut; /* "tp, -" (one entry per dimension), "P('x', None)", "boxes", "whole" ... */
} sft_layout_entry;

/* Entries in the order of the file. at: SFT_E_RANGE past the end. */
SFT_API size_t sft_layout_set_count(const sft_layout_set *set);
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_at(const sft_layout_set *set, size_t index,
                                                    sft_layout_entry *entry, sft_error *err);

/* How a set and a model go together, by names. */
typedef struct sft_layout_fit {
    size_t struct_size;
    uint64_t entries;
    uint64_t entries_unmatched; /* entries that no tensor belongs to */
    uint64_t tensors;
    uint64_t tensors_unmatched; /* tensors that no entry names: not sharded */
    uint64_t bytes_unmatched;   /* of these */
} sft_layout_fit;

/* Counts them; fit may be NULL. SFT_E_MISMATCH, with the nearest names: no entry fits any tensor,
 * so that the layout is probably another model's; the counts are filled in all the same. Cost:
 * O(tensors * patterns). */
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_fit(const sft_layout_set *set,
                                                     const sft_catalog *catalog,
                                                     sft_layout_fit *fit, sft_error *err);
/* Entries of names that the catalog does not have will not be written: a layout beside files
 * promises what they hold. */
SFT_API void sft_layout_set_trim(sft_layout_set *set, const sft_catalog *catalog);
/* The same for files of ranks some of whose tensors are left out or get other names: entries of names get
 * the new ones; patterns and modules that speak of a tensor become entries of its name. parts: the ranks as
 * the set describes them. name: what a tensor is called from now on (copied), NULL: left out. Afterwards the
 * set can be written (sft_layout_set_write) and freed, nothing else. */
typedef const char *(*sft_layout_new_name)(void *ctx, const char *name, size_t name_len,
                                           size_t *new_len);
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_rename(sft_layout_set *set,
                                                        const sft_rank_part *parts, size_t count,
                                                        sft_layout_new_name name, void *ctx,
                                                        sft_error *err);

/* The set in our own JSON form, whatever it was read from. Writes at most `capacity` bytes to
 * `data` (may be NULL) and its full length to *size: call twice. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_write(const sft_layout_set *set, void *data,
                                                       size_t capacity, size_t *size,
                                                       sft_error *err);
/* The set as MindSpore's strategy, merged where there are several pipeline stages; a strategy that was read
 * as it was. Protobuf as MindSpore writes it, numbers unpacked; JSON compact, with shapes where known. Call
 * twice, as sft_layout_set_write. SFT_E_UNSUPPORTED names the first tensor whose layout no
 * strategy can say: patterns, boxes, flat ranges, uneven parts, blocks (fused tensors), other ranks. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_set_write_strategy(const sft_layout_set *set,
                                                                sft_ms_form form, void *data,
                                                                size_t capacity, size_t *size,
                                                                sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
