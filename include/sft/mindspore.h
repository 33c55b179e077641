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
 * Strategies are read and written as layout sets: sft_layout_set_open and sft_layout_set_write_strategy of
 * <sft/layout_set.h>.
 */
#ifndef SFT_MINDSPORE_H
#define SFT_MINDSPORE_H

#include <sft/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sft_ms_form {
    SFT_MS_PROTOBUF = 0,
    SFT_MS_JSON = 1,
    SFT_MS_FORM_FORCE_32BIT = 0x7fffffff
} sft_ms_form;

#ifdef __cplusplus
}
#endif
#endif
