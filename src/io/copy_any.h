/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/copy_any.h - between copy.c and the systems' copy files. Both functions move c forward by what
 * was done.
 */
#ifndef SFT_IO_COPY_ANY_H
#define SFT_IO_COPY_ANY_H

#include "base/alloc.h"
#include "io/copy.h"

sft_status sft__copy_bounce(sft__copy *c, sft_error *err);
sft_status sft__copy_advance(sft__copy *c, uint64_t n, sft_error *err);

#endif
