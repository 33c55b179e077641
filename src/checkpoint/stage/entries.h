/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/entries.h - what is done to directories that are written as a whole: paths in them, a
 * small file written, all of one removed.
 */
#ifndef SFT_CHECKPOINT_ENTRIES_H
#define SFT_CHECKPOINT_ENTRIES_H

#include "base/error.h"
#include "base/text/buf.h"

/* DIRECTORY/NAME in `out`, NUL-terminated. */
sft_status sft__checkpoint_stage_path(sft__base_buf *out, const char *directory, const char *name,
                                      sft_error *err);
/* A new file of the directory, flushed if durable. What has another name beside this one stays:
 * SFT_E_EXISTS. */
sft_status sft__checkpoint_write_text(const char *directory, const char *name,
                                      const sft__base_buf *text, bool durable, sft_error *err);
/* Everything in the directory, and the directory; links are removed, not followed, `path` itself too.
 * None is fine. */
sft_status sft__checkpoint_remove_tree(const char *path, const sft_allocator *allocator,
                                       sft_error *err);

#endif
