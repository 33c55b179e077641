/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/source.h - what the rooms above need of sources beyond <sft/source.h> and <sft/extend.h>.
 */
#ifndef SFT_IO_SOURCE_H
#define SFT_IO_SOURCE_H

#include "base/memory/alloc.h"
#include "fs/file.h"
#include "fs/probe.h"
#include <sft/extend.h>

/* A source over a file that is open already. The handle is taken over in every case. name is
 * copied. */
sft_status sft__io_source_from_handle(sft_source **out, sft__fs_handle file, const sft__fs_stat *st,
                                      const char *name, sft_access access,
                                      const sft_allocator *allocator, sft_error *err);

/* One allocation for the source, its name and `extra` zeroed bytes that become self. */
sft_status sft__io_source_new(sft_source **out, const sft_source_vtable *vtable, size_t extra,
                              uint64_t size, uint32_t flags, const char *name,
                              const sft_allocator *allocator, sft_error *err);
void *sft__io_source_self(const sft_source *source);
/* Is it one that reads by this function? */
bool sft__io_source_reads_by(const sft_source *source,
                             sft_status (*read_at)(void *, uint64_t, void *, size_t, sft_error *));
/* Over a descriptor that a caller gave: a file of its name in the working directory is another. */
bool sft__io_source_nameless(const sft_source *source);
/* What the file was when the source was opened. False: the source is over no file. */
bool sft__io_source_stamp(const sft_source *source, sft__fs_stat *stamp);
/* What it is now. False: not known. */
bool sft__io_source_now(const sft_source *source, sft__fs_stamp *stamp);
/* It has a read_many of its own: many ranges at once are cheaper than one after the other. */
bool sft__io_source_batches(const sft_source *source);
/* Frees it without calling the vtable's close. */
void sft__io_source_discard(sft_source *source);

#endif
