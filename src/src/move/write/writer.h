/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer.h - what the files of the streaming writer share. writer.c: declaring; writer_put.c:
 * bytes; writer_commit.c: the end.
 */
#ifndef SFT_MOVE_WRITER_H
#define SFT_MOVE_WRITER_H

#include "base/thread/meter.h"
#include "base/thread/thread.h"
#include "fs/output/publish.h"
#include "move/write/cover.h"
#include "move/write/set.h"

typedef enum sft__move_writer_state {
    SFT__WRITER_DECLARING,
    SFT__WRITER_OPEN, /* takes puts */
    SFT__WRITER_DONE  /* committed, failed or cancelled: only free is left */
} sft__move_writer_state;

enum { SFT__WRITER_CHUNK = 16 << 10 };

/* One tensor's bytes as they come. */
typedef struct sft__move_intake {
    sft__move_cover cover;
    sft_sha256 *sha; /* of the first sha_bytes bytes; NULL: none yet, or complete */
    uint64_t sha_bytes;
    bool sha_busy; /* a put is feeding it */
} sft__move_intake;

struct sft_writer {
    sft__move_set set;
    sft__base_arena arena;
    const char *path; /* NULL: a stream */
    sft__fs_stream stream;
    sft__fs_publish *publish;
    size_t entry_cap;
    sft_metadata_entry *metadata;
    size_t metadata_cap;
    bool has_metadata;
    sft__base_mutex lock; /* state, intakes, position */
    sft__move_writer_state state;
    sft__move_intake *intakes; /* by declaration index, from start on */
    uint64_t stream_bytes;     /* put into the stream's data section so far */
    /* The end of the last put that does not fill a chunk of the file: it waits for the next put, so
     * that chunks are written whole, which page caches take a third faster. At most one put at a
     * time takes it and leaves a new one (held). */
    uint8_t carry[SFT__WRITER_CHUNK];
    size_t carry_len;
    uint64_t carry_end; /* in the file */
    bool carry_held;
    sft__base_meter meter;
};

/* With the lock held. */
sft_status sft__move_writer_start(sft_writer *w, sft_error *err);

#endif
