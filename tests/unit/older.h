/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/older.h - options structures as callers have them who were compiled against another header: an
 * older one's are shorter, a newer one's longer. What they lack counts as zero, and nothing behind them is
 * looked at: the bytes there are 0xee here, which no option survives.
 */
#ifndef SFT_TESTS_OLDER_H
#define SFT_TESTS_OLDER_H

#include "unit/cm.h"

#include <sft/types.h>

enum { OLDER_ROOM = 1024, OLDER_NEWER = 64 };

typedef struct older_row {
    const char *name;
    size_t full;  /* this header's size */
    size_t first; /* what the first version had; less is SFT_E_ARG */
    sft_status (*call)(const void *options, sft_error *err);
} older_row;

/* First version: up to and with this member. */
#define OLDER_ROW(type, member, call)                                                              \
    {#type, sizeof(type), offsetof(type, member) + sizeof(((type *)0)->member), call}

static inline void older_check(const older_row *row) {
    union {
        max_align_t align;
        unsigned char bytes[OLDER_ROOM];
    } given;

    assert_true(row->full + OLDER_NEWER <= sizeof given);
    for (size_t size = 0; size <= row->full + OLDER_NEWER; size += 4) {
        sft_error err;
        memset(&err, 0, sizeof err);
        memset(given.bytes, 0xee, sizeof given);
        memset(given.bytes, 0, size < row->full ? size : row->full);
        memcpy(given.bytes, &size, sizeof size);
        const sft_status want = size < row->first ? SFT_E_ARG : SFT_OK;
        const sft_status status = row->call(given.bytes, &err);
        if (status != want) {
            fail_msg("%s of %zu bytes: %s, %s", row->name, size, sft_status_name((int32_t)status),
                     err.message);
        }
    }
}

#endif
