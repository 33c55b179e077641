/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/mindspore.h - MindSpore's strategy files: how one training job sharded its parameters among ranks. In
 * the library libsafetensors-checkpoint. Both forms are read: protobuf (node_strategy.proto; any name,
 * "ckpt_strategy_rank_0.ckpt" by custom) and JSON.
 *
 * Caveats first. The protobuf form holds no tensor shapes. A truncated protobuf may still parse: a file
 * without any parameter is refused. A file describes one pipeline stage, unless it was merged; then names
 * begin with "STAGE-". MindSpore's `field` (merged embeddings of old versions) is refused when a layout is
 * asked for.
 *
 * Threads: a strategy is immutable; every function but free may run in many threads at once.
 */
#ifndef SFT_MINDSPORE_H
#define SFT_MINDSPORE_H

#include <sft/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One parameter, as it stands in the file. Lives as long as its strategy. */
typedef struct sft_ms_param {
    const char *name; /* without the stage prefix; UTF-8, also NUL-terminated */
    size_t name_len;
    const uint64_t
        *dev_matrix; /* sizes of the mesh axes; the product is the devices of one stage */
    size_t axis_count;
    /* Dimension i is sharded by the entries map[map_at[i]] to map[map_at[i + 1] - 1], major first: entry m is
     * axis axis_count - 1 - m. No entries: not sharded (-1 in the file). */
    const uint32_t *map;
    const size_t *map_at; /* dims + 1 entries */
    size_t dims;
    const uint64_t *shape; /* of the global tensor, dims entries; NULL: the file does not say */
    const uint64_t *split_rows;   /* rows of dimension 0 by slice, where they are given by hand */
    const int64_t *split_offsets; /* index offsets beside them */
    size_t split_count;           /* 0: split evenly */
    int32_t field;
    int32_t opt_shard_step; /* distance of the ranks of one optimizer group */
    int32_t opt_shard_size; /* 0: no optimizer sharding; -1: over all ranks that are left */
    uint32_t stage;
    uint32_t reserved;
} sft_ms_param;

typedef struct sft_ms_strategy sft_ms_strategy;

typedef enum sft_ms_form {
    SFT_MS_PROTOBUF = 0,
    SFT_MS_JSON = 1,
    SFT_MS_FORM_FORCE_32BIT = 0x7fffffff
} sft_ms_form;

/* The text of a strategy file of either form, distinguished by its first byte. name: of the file, for
 * messages. Everything is copied. limits: tensors, rank, name_bytes, memory_bytes; NULL for defaults.
 * Errors: SFT_E_FORMAT, SFT_E_JSON, SFT_E_SCHEMA, SFT_E_DUPLICATE, SFT_E_LIMIT, with the offset in the
 * text. Cost: O(size). */
SFT_API SFT_MUST_CHECK sft_status sft_ms_strategy_parse(sft_ms_strategy **out, const void *data,
                                                        size_t size, const char *name,
                                                        const sft_limits *limits,
                                                        const sft_allocator *allocator,
                                                        sft_error *err);
SFT_API void sft_ms_strategy_free(sft_ms_strategy *strategy); /* NULL is fine */

SFT_API sft_ms_form sft_ms_strategy_form(const sft_ms_strategy *strategy);
/* Pipeline stages: 1, or as many as a merged file holds. */
SFT_API uint32_t sft_ms_strategy_stages(const sft_ms_strategy *strategy);
/* The stage of a file that was not merged (as its operators say), 0 otherwise. */
SFT_API uint32_t sft_ms_strategy_stage(const sft_ms_strategy *strategy);
SFT_API int sft_ms_strategy_merged(const sft_ms_strategy *strategy);

/* Parameters in file order; NULL past the end. A parameter of several stages is there once for each. */
SFT_API size_t sft_ms_strategy_count(const sft_ms_strategy *strategy);
SFT_API const sft_ms_param *sft_ms_strategy_at(const sft_ms_strategy *strategy, size_t index);
/* By name and stage, or NULL. O(1). */
SFT_API const sft_ms_param *sft_ms_strategy_find(const sft_ms_strategy *strategy, const char *name,
                                                 size_t name_len, uint32_t stage);

/* The stages' files as one: stage i must be given exactly once, or several times with equal contents
 * (SFT_E_MISMATCH says which parameter differs); a gap is SFT_E_NOT_FOUND. Merged files are refused.
 * (mindspore.merge_pipeline_strategys) */
SFT_API SFT_MUST_CHECK sft_status sft_ms_strategy_merge(sft_ms_strategy **out,
                                                        const sft_ms_strategy *const *strategies,
                                                        size_t count,
                                                        const sft_allocator *allocator,
                                                        sft_error *err);

/* The file's text. Writes at most `capacity` bytes to `data` (may be NULL) and its full length to *size:
 * call twice. Protobuf as MindSpore writes it, numbers unpacked; JSON compact, with shapes where known. */
SFT_API SFT_MUST_CHECK sft_status sft_ms_strategy_write(const sft_ms_strategy *strategy,
                                                        sft_ms_form form, void *data,
                                                        size_t capacity, size_t *size,
                                                        sft_error *err);

/* The layout of one parameter among the ranks of its stage: mesh, tensor map, optimizer sharding (which cuts
 * dimension 0 further, by replicated axes from the right). Ranks begin at stage * devices.
 * Errors: SFT_E_SCHEMA with the tensor's name for maps that no mesh can have, SFT_E_UNSUPPORTED for
 * `field`. */
SFT_API SFT_MUST_CHECK sft_status sft_ms_param_layout(sft_layout **out, const sft_ms_param *param,
                                                      const sft_allocator *allocator,
                                                      sft_error *err);

/* Shape of the global tensor from that of a rank's part: even cuts multiplied back. full: dims entries.
 * SFT_E_SHAPE: another number of dimensions. SFT_E_OVERFLOW. */
SFT_API SFT_MUST_CHECK sft_status sft_ms_param_full_shape(const sft_ms_param *param,
                                                          const uint64_t *local, size_t dims,
                                                          uint64_t *full, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
