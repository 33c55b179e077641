/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/scan.h - one tensor entry of a header: text in, dtype, shape and offsets out. Private to
 * src/format. Read first: the grammar in scan.c.
 */
#ifndef SFT_FORMAT_SCAN_H
#define SFT_FORMAT_SCAN_H

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/json.h"
#include <sft/dtype.h>

enum { SFT__DTYPE_NAME_MAX = 11 };

/* The scanner's state over one header, or over an index (index.c). */
typedef struct sft__format_scan {
    sft__base_json json;
    char *text;
    const char *noun; /* for messages: "header", "index" */
    const char *prefix;
    uint64_t origin; /* of the text in the file: offsets in errors are absolute */
    sft_error *err;
    sft_status status; /* set with every failure */
    /* the tensor being read, for errors; NULL: none */
    const char *name;
    size_t name_len;
    /* where shapes go: room between dims and dims_end, more from the arena */
    sft__base_arena *arena;
    uint64_t *dims;
    uint64_t *dims_end;
    size_t next_dims;
    uint64_t rank_limit;
    bool strict;
    /* the dtype of the entry before, as its name and closing quote look in the text; mask 0: none
     */
    const sft_dtype *last_dtype;
    uint64_t last_word;
    uint64_t last_mask;
    unsigned last_len;
} sft__format_scan;

typedef struct sft__format_scan_tensor {
    const sft_dtype *dtype;
    const uint64_t *shape; /* in the arena */
    uint32_t rank;
    uint64_t begin;
    uint64_t end;
} sft__format_scan_tensor;

/* p at the quote that closes a name. Reads `":{"dtype":"F32","shape":[...],"data_offsets":[a,b]}`
 * in exactly the reference writer's form and returns the position behind it; NULL, without any
 * effect, if there is anything else: then the general form decides. */
const char *sft__format_scan_canonical(sft__format_scan *s, const char *p,
                                       sft__format_scan_tensor *out);

/* p at an entry's value, in any form; NULL on failure. */
const char *sft__format_scan_entry(sft__format_scan *s, const char *p,
                                   sft__format_scan_tensor *out);

/* Failures: fill the error record, set s->status, return NULL. */
SFT_COLD const char *
sft__format_scan_json_fault(sft__format_scan *s); /* the fault that s->json holds */
#define SFT__SCAN_FAIL(s, code, at, ...)                                                           \
    ((s)->status =                                                                                 \
         sft__base_fail_tensor((s)->err, (code), (s)->origin + (uint64_t)((at) - (s)->text),       \
                               (s)->name, (s)->name_len, __VA_ARGS__),                             \
     (const char *)NULL)
SFT_COLD const char *sft__format_scan_expected(sft__format_scan *s, sft_status status,
                                               const char *at, const char *needed);
/* A value of the wrong type at p, with `depth` containers open around it: fails with status, or
 * with JSON if it is no value at all. */
SFT_COLD const char *sft__format_scan_wrong_type(sft__format_scan *s, const char *p, unsigned depth,
                                                 sft_status status, const char *needed);
SFT_COLD const char *sft__format_scan_no_room(sft__format_scan *s,
                                              uint64_t size); /* arena refused: budget or memory */

/* Those of base/text/json.h, a fault told. */
const char *sft__format_scan_key(sft__format_scan *s, const char *p, sft__base_json_str *name,
                                 const char *quote, const char *colon);
const char *sft__format_scan_next(sft__format_scan *s, const char *p, char close,
                                  const char *needed, bool *more);
const char *sft__format_scan_value(sft__format_scan *s, const char *p, unsigned depth);
/* A string as C text that lasts as long as text and arena: of one that was read, NULL: no room; or p at its
 * quote, the position behind it. */
const char *sft__format_scan_keep(sft__format_scan *s, const sft__base_json_str *str, size_t *len);
const char *sft__format_scan_string(sft__format_scan *s, const char *p, const char **text,
                                    size_t *len);

/* The position of a member's value in an entry that was read before; p at the entry's `{`. */
const char *sft__format_scan_member(sft__format_scan *s, const char *p, const char *member);

/* Bits of one element by sft_dtype_id. */
extern const uint8_t sft__format_dtype_bits_of[SFT_DTYPE_COUNT + 1];

/* The row for the name whose first eight bytes (zeros behind it) are `key`. */
const sft_dtype *sft__format_dtype_of_key(uint64_t key, const char *name, size_t len);

#endif
