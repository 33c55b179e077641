/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/reader.h - the one reader: how the bytes of a source are best brought and why, reads in that way, and
 * whether the file changed meanwhile. Loads, streams, slices and uploads to a GPU read by it. What is
 * marked SFT_API is for the extension libraries of the same version, and for nobody else.
 */
#ifndef SFT_IO_READER_H
#define SFT_IO_READER_H

#include "base/error.h"
#include "fs/probe.h"
#include <sft/extend.h>
#include <sft/load.h>
#include <stdatomic.h>

/* Zero it, set source, wanted and total, then open it. Reads may come from several threads at once. */
typedef struct sft__io_reader {
    const sft_source *source;
    uint64_t wanted; /* bytes of it; 0: nothing is chosen, and nothing read */
    uint64_t total;  /* bytes of all sources of the operation */
    sft_strategy_choice choice;
    sft__fs_stamp stamp;
    bool stamped;
    bool batches;        /* takes many ranges at once */
    int direct;          /* descriptor, or -1 */
    atomic_bool refused; /* a direct read did not come through */
} sft__io_reader;

/* SFT_E_UNSUPPORTED for the strategy whose number is reserved, SFT_E_ARG for what is no strategy. */
sft_status sft__io_strategy_check(sft_strategy strategy, sft_error *err);

/* Chooses, opens what that needs, notes size and time. aligned: for who cannot give direct reads the memory
 * that they want. */
SFT_API void sft__io_reader_open(sft__io_reader *r, sft_strategy strategy, bool aligned);
/* All sources of an operation, of which `wanted` is set: what they want together is the total of each. */
void sft__io_readers_open(sft__io_reader *readers, size_t count, sft_strategy strategy,
                          bool aligned);
/* Once; one that was only zeroed must have direct -1. What was told stays. */
SFT_API void sft__io_reader_close(sft__io_reader *r);
/* A range that lies in the source, in the way chosen. If that is DIRECT, dst equals offset modulo
 * SFT__FS_DIRECT_ALIGN, and its pages belong to this read, odd ends included. */
SFT_API sft_status sft__io_reader_read(sft__io_reader *r, uint64_t offset, uint64_t size,
                                       uint8_t *dst, sft_error *err);
/* Ranges that follow each other, through the page cache: in one call where the system has it. */
sft_status sft__io_reader_read_ranges(const sft__io_reader *r, const sft_io_range *ranges,
                                      size_t count, sft_error *err);
/* SFT_E_CHANGED if size or time differ from those noted; what: "loaded", "streamed". SFT_OK if not known. */
SFT_API sft_status sft__io_reader_unchanged(const sft__io_reader *r, const char *what,
                                            sft_error *err);
/* How it is, or was, read, and why; r NULL, or nothing wanted of it: AUTO. reason may be NULL. */
SFT_API sft_strategy sft__io_reader_told(const sft__io_reader *r, const char **reason);

#endif
