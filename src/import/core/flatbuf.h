/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/flatbuf.h - FlatBuffers read where they lie: tables, vectors and texts by their
 * offsets, through a few small windows over a source. Knows no schema and does not recurse. Every
 * offset is compared with the bytes that are there; what the windows read is charged to a budget,
 * so that tables that share each other cost no more than the file. Source:
 * flatbuffers.dev/internals. Read first: import.h.
 */
#ifndef SFT_IMPORT_FLATBUF_H
#define SFT_IMPORT_FLATBUF_H

#include "import/core/import.h"

enum {
    SFT__FB_WINDOW = 4096,
    SFT__FB_WINDOWS = 12,
    SFT__FB_SLOTS = 24, /* fields of a table that are looked at */
    SFT__FB_RANK = 64
};

typedef struct sft__import_fb_window {
    uint64_t at;
    size_t len; /* 0: empty */
    uint64_t used;
    uint8_t bytes[SFT__FB_WINDOW];
} sft__import_fb_window;

/* About 50 KiB: not on a stack. */
typedef struct sft__import_fb {
    sft__import *job;
    const char *what; /* "tflite": for errors */
    uint64_t begin;   /* of the buffer in job->file ... */
    uint64_t end;     /* ... and its end: no offset leads out */
    uint64_t budget;  /* bytes that the windows may still read */
    uint64_t tick;
    uint64_t reach; /* where the farthest of what was read so far ends */
    sft__import_fb_window windows[SFT__FB_WINDOWS];
} sft__import_fb;

typedef struct sft__import_fb_table {
    uint64_t at;
    uint32_t size;                 /* of its fields */
    uint16_t slots[SFT__FB_SLOTS]; /* offsets from `at`; 0: not there */
} sft__import_fb_table;

/* count items of `width` bytes each lie in the buffer at `at`. */
typedef struct sft__import_fb_vector {
    uint64_t at;
    uint64_t count;
    uint32_t width;
} sft__import_fb_vector;

void sft__import_fb_init(sft__import_fb *b, sft__import *job, const char *what, uint64_t begin,
                         uint64_t end);
/* SFT_E_SCHEMA at an offset. */
sft_status sft__import_fb_bad(const sft__import_fb *b, uint64_t at, sft_error *err,
                              const char *text);
/* The table that the first four bytes lead to. */
sft_status sft__import_fb_root(sft__import_fb *b, sft__import_fb_table *t, sft_error *err);
/* A number of 1, 2, 4 or 8 bytes in a field; 0 if the field is not there. */
sft_status sft__import_fb_number(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                                 uint32_t width, uint64_t *value, sft_error *err);
/* Two numbers of 8 bytes each in a field (a struct); *there false: none. */
sft_status sft__import_fb_pair(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                               uint64_t pair[2], bool *there, sft_error *err);
/* The table in a field; *there false: none. */
sft_status sft__import_fb_inner(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                                sft__import_fb_table *inner, bool *there, sft_error *err);
/* The vector in a field, of items of `width` bytes; without a field it has none and at is 0. */
sft_status sft__import_fb_vector_of(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                                    uint32_t width, sft__import_fb_vector *v, sft_error *err);
/* Item i < count, a number; a table (of a vector of width 4). */
sft_status sft__import_fb_item(sft__import_fb *b, const sft__import_fb_vector *v, uint64_t i,
                               uint64_t *value, sft_error *err);
sft_status sft__import_fb_item_table(sft__import_fb *b, const sft__import_fb_vector *v, uint64_t i,
                                     sft__import_fb_table *t, sft_error *err);
/* A text in the job's memory, NUL behind; "" without a field. At most `most` bytes, UTF-8
 * (SFT_E_UTF8, SFT_E_LIMIT), no NUL in it. */
sft_status sft__import_fb_text(sft__import_fb *b, const sft__import_fb_table *t, uint32_t slot,
                               size_t most, const char **text, sft_error *err);

#endif
