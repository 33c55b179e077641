/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/buf.h - a growable byte buffer. A failed append sets `failed` and makes all later ones no-ops, so
 * a long chain of appends needs one check at its end.
 */
#ifndef SFT_BASE_BUF_H
#define SFT_BASE_BUF_H

#include "base/memory/alloc.h"

typedef struct sft__base_buf {
    const sft_allocator *allocator;
    char *data;
    size_t len;
    size_t cap;
    bool failed;
} sft__base_buf;

void sft__base_buf_init(sft__base_buf *b, const sft_allocator *allocator);
void sft__base_buf_reset(sft__base_buf *b); /* frees; may be used again */
bool sft__base_buf_reserve(sft__base_buf *b, size_t more);
void sft__base_buf_add(sft__base_buf *b, const void *data, size_t len);
void sft__base_buf_text(sft__base_buf *b, const char *text);
void sft__base_buf_fill(sft__base_buf *b, char c, size_t count);
void sft__base_buf_u64(sft__base_buf *b, uint64_t v); /* decimal */
/* Of a URL: everything but unreserved characters (RFC 3986) as %XX; '/' stays if `slashes`. */
void sft__base_buf_url(sft__base_buf *b, const char *text, size_t len, bool slashes);

/* 2 * count lower-case hexadecimal digits, not terminated. */
extern const char sft__base_hex_digits[17];
void sft__base_hex(char *dst, const uint8_t *bytes, size_t count);
/* Of a hexadecimal digit, upper or lower case; -1: it is none. */
int sft__base_hex_value(char c);
/* The bytes of 2 * count lower-case digits. False: something else is there. */
bool sft__base_hex_read(uint8_t *bytes, const char *digits, size_t count);
/* The same of a number as eight digits, the most significant first. */
void sft__base_hex32(char *dst, uint32_t v);
bool sft__base_hex32_read(uint32_t *v, const char *digits);

#endif
