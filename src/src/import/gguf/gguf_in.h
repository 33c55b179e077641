/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_in.h - the description of a GGUF file, read front to back: numbers, strings, metadata
 * values. Read first: gguf.h.
 */
#ifndef SFT_IMPORT_GGUF_IN_H
#define SFT_IMPORT_GGUF_IN_H

#include "import/gguf/gguf.h"

typedef struct sft__import_gguf_in {
    sft__import *job;
    uint64_t at;
    uint64_t end;       /* of the file */
    uint64_t most;      /* bytes of the description */
    uint64_t alignment; /* general.alignment, or 32 */
    uint32_t version;
    uint64_t replaced;    /* strings of the entry that are no UTF-8 */
    uint64_t element;     /* of its list, that is read now */
    sft__base_buf bytes;  /* JSON: those strings (gguf_bytes.h) */
    bool too_many;        /* they are not kept */
    uint32_t split_no;    /* split.no, from 0 */
    uint32_t split_count; /* split.count; 0: not split */
    bool big;
    uint8_t *window;
    uint64_t window_at;
    size_t window_len;
    sft__base_buf text;    /* of the value under way */
    sft__base_buf types;   /* JSON: of metadata values that are no strings */
    sft__base_buf tensors; /* JSON: of tensors given as raw blocks */
} sft__import_gguf_in;

/* Magic and version. */
sft_status sft__import_gguf_begin(sft__import_gguf_in *g, sft_error *err);
sft_status sft__import_gguf_u32(sft__import_gguf_in *g, uint32_t *v, sft_error *err);
sft_status sft__import_gguf_u64(sft__import_gguf_in *g, uint64_t *v, sft_error *err);
/* A count or length: 32 bits in version 1, else 64. */
sft_status sft__import_gguf_size(sft__import_gguf_in *g, uint64_t *v, sft_error *err);
/* Text of at most `most` bytes, UTF-8, into the job's arena. */
sft_status sft__import_gguf_string(sft__import_gguf_in *g, size_t most, const char **text,
                                   size_t *len, sft_error *err);
/* All metadata, into the catalog's; sets alignment. */
sft_status sft__import_gguf_values(sft__import_gguf_in *g, uint64_t count, sft_error *err);
/* SFT__GGUF_KEY_TYPES and _TENSORS. */
sft_status sft__import_gguf_note_types(sft__import_gguf_in *g, sft_error *err);

/* Are the notes of types, or of tensors, still of a size that memory allows? */
sft_status sft__import_gguf_check_note(const sft__import_gguf_in *g, const sft__base_buf *b,
                                       sft_error *err);

#endif
