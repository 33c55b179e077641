/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/half.h - marks of models that are half written: files of no bytes.
 */
#ifndef SFT_FS_HALF_H
#define SFT_FS_HALF_H

#include "base/error.h"
#include <sft/extend.h>

bool sft__fs_half_is_mark(const char *name, size_t len);

#endif
