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
 * Threads: a strategy is immutable; it belongs to the layout set that it was read into.
 */
#ifndef SFT_MINDSPORE_H
#define SFT_MINDSPORE_H

#include <sft/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Behind a set of layouts: sft_layout_set_strategy. */
typedef struct sft_ms_strategy sft_ms_strategy;

typedef enum sft_ms_form {
    SFT_MS_PROTOBUF = 0,
    SFT_MS_JSON = 1,
    SFT_MS_FORM_FORCE_32BIT = 0x7fffffff
} sft_ms_form;

/* The file's text. Writes at most `capacity` bytes to `data` (may be NULL) and its full length to *size:
 * call twice. Protobuf as MindSpore writes it, numbers unpacked; JSON compact, with shapes where known. */
SFT_API SFT_MUST_CHECK sft_status sft_ms_strategy_write(const sft_ms_strategy *strategy,
                                                        sft_ms_form form, void *data,
                                                        size_t capacity, size_t *size,
                                                        sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
