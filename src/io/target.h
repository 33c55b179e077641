/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/target.h - what the engine may do with this room's own targets beyond their vtable.
 */
#ifndef SFT_IO_TARGET_H
#define SFT_IO_TARGET_H

#include "base/meter.h"
#include <sft/extend.h>

/* Copies `size` bytes of an open regular file to `offset` of a target made by sft_target_open_fd or
 * sft_target_open_stream, inside the kernel where it can (a stream goes on counting its position).
 * Any other target: SFT_E_UNSUPPORTED, nothing done. allocator: of the bounce buffer, if one is
 * needed; meter: or NULL. */
sft_status sft__target_copy(sft_target *target, uint64_t offset, int src_fd, const char *src_name,
                            uint64_t src_offset, uint64_t size, sft__meter *meter, sft_error *err);

#endif
