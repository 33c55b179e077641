/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/emit.h - what json_emit.c and header_build.c share: the order of names and a sort over
 * indexes.
 */
#ifndef SFT_FORMAT_EMIT_H
#define SFT_FORMAT_EMIT_H

#include "base/compiler.h"

/* By bytes, a prefix before what continues it. */
int sft__format_name_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* Must a stand before b? Indexes into items. */
typedef bool (*sft__format_order_fn)(const void *items, uint32_t a, uint32_t b);

/* Stable; sorts n indexes at `from` with `to` as room for as many more; the result is in the array
 * that is returned. */
uint32_t *sft__format_merge_sort(uint32_t *from, uint32_t *to, size_t n,
                                 sft__format_order_fn before, const void *items);

#endif
