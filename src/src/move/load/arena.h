/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/arena.h - room for tensor data. Read first: <sft/load.h>.
 */
#ifndef SFT_MOVE_ARENA_H
#define SFT_MOVE_ARENA_H

#include "base/error.h"
#include <sft/load.h>

/* Of what an arena hands out: the unit of direct reads. */
#define SFT__ARENA_ALIGN ((size_t)4096)

/* One untouched run of `size` bytes (above 0), aligned to SFT__ARENA_ALIGN. */
sft_status sft__move_data_arena_take(sft_arena *arena, uint64_t size, uint8_t **out,
                                     sft_error *err);

#endif
