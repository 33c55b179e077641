/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/multipart.h - the body of an answer with several ranges (multipart/byteranges, RFC 9110
 * section 14.6), cut into its parts while it comes. Pure functions over hostile bytes: whatever
 * they are, only bytes of ranges that were asked for come out, each at most once and ascending.
 */
#ifndef SFT_REMOTE_MULTIPART_H
#define SFT_REMOTE_MULTIPART_H

#include "base/compiler.h"
#include <sft/types.h>

enum { SFT__BOUNDARY_MAX = 70, SFT__PART_LINE = 256, SFT__PART_HEAD = 2048 };

typedef struct sft__remote_multipart {
    const char *boundary; /* borrowed */
    size_t boundary_len;
    uint64_t total; /* size of the file */
    uint64_t stop;  /* no part goes beyond */
    size_t most;    /* parts to come: a server may join ranges, not split them */
    uint8_t state;
    bool ranged; /* this part's Content-Range was seen */
    uint64_t at; /* of the data to come */
    uint64_t left;
    uint64_t next_end; /* what the head of this part announces */
    size_t head_len;
    size_t line_len;
    const char *fault; /* static sentence, or NULL; nothing comes after it */
    char line[SFT__PART_LINE];
} sft__remote_multipart;

void sft__remote_multipart_init(sft__remote_multipart *p, const char *boundary, uint64_t total,
                                uint64_t stop, size_t most);

/* Some bytes of the file. */
typedef struct sft__remote_slice {
    uint64_t offset;
    const uint8_t *data;
    size_t size;
} sft__remote_slice;

/* Takes bytes at *data and moves on over them until there is a slice (true), or until all are used
 * or there is a fault (false). A part must begin at `expected`. */
bool sft__remote_multipart_next(sft__remote_multipart *p, uint64_t expected, const uint8_t **data,
                                size_t *len, sft__remote_slice *out);
/* The closing boundary was seen. */
bool sft__remote_multipart_ended(const sft__remote_multipart *p);

/* The boundary out of the value of a Content-Type; false: it is no multipart/byteranges with one.
 */
bool sft__remote_multipart_boundary(const char *value, size_t len,
                                    char boundary[SFT__BOUNDARY_MAX + 1]);

#endif
