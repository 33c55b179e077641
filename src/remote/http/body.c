/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/body.c - what of a get one request asks for, and what becomes of the bytes of its answer:
 * wanted ones are put, gaps passed over, no byte beyond what was asked for is taken. Read first:
 * transfer.h.
 */
#include "remote/http/transfer.h"
#include <stdio.h>
#include <string.h>

enum { DROP_MAX = 64 << 10, RANGE_TEXT = 48 /* two numbers of 20 digits */ };

/* ---------------------------------------------------------------- asking */

void sft__remote_exchange_ask(sft__remote_exchange *x, char text[SFT__ASK_TEXT]) {
    const size_t room = SFT__ASK_TEXT;
    const sft__remote_get *get = x->get;
    const sft__remote_object *o = get->object;
    const bool many = get->ranges != NULL && !get->whole && !x->plain &&
                      o->credential != SFT__SIGV4 &&
                      !sft__remote_multipart_refused(o->remote, x->url);
    const uint64_t gap = o->remote->settings.o.gap_bytes;
    uint64_t from = x->at;
    size_t len = 0;

    x->asked = 0;
    x->stop = get->offset + get->size;
    for (size_t i = x->range; get->ranges != NULL && !get->whole && i < get->range_count; i++) {
        const uint64_t end = get->ranges[i].offset + get->ranges[i].size;
        if (many ? x->asked == SFT__RANGES_MAX || room - len < RANGE_TEXT
                 : x->asked > 0 &&
                       (get->ranges[i].offset - x->stop > gap || end - x->at > SFT__SHORT)) {
            break;
        }
        x->stop = end;
        x->asked++;
        if (many) {
            from = i == x->range ? x->at : get->ranges[i].offset;
            len += (size_t)snprintf(text + len, room - len, "%s%llu-%llu", len > 0 ? "," : "",
                                    (unsigned long long)from, (unsigned long long)(end - 1));
        }
    }
    if (len == 0) {
        x->asked = 1;
        (void)snprintf(text, room, "%llu-%llu", (unsigned long long)x->at,
                       (unsigned long long)(x->stop - 1));
    }
}

/* ---------------------------------------------------------------- taking */

/* Bytes of the file at pos: those that are wanted are put, the others passed over. False: they
 * could not be put. */
static bool take(sft__remote_exchange *x, const uint8_t *data, size_t n) {
    sft__remote_get *get = x->get;

    while (n > 0 && x->at < get->offset + get->size) {
        const sft__remote_range *r = get->ranges != NULL ? &get->ranges[x->range] : NULL;
        const bool before = x->pos < x->at;
        const uint64_t end = before      ? x->at
                             : r != NULL ? r->offset + r->size
                                         : get->offset + get->size;
        const size_t k = end - x->pos < n ? (size_t)(end - x->pos) : n;
        if (!before) {
            get->status = get->put(get->ctx, x->at, data, k, &get->err);
            if (get->status != SFT_OK) {
                x->verdict = SFT__FAIL;
                return false;
            }
            x->at += k;
            get->got += k;
            x->progress += k;
            if (r != NULL && x->at == end && x->range + 1 < get->range_count) {
                x->at = get->ranges[++x->range].offset;
            }
        }
        x->pos += k;
        data += k;
        n -= k;
    }
    x->pos += n;
    return true;
}

static bool take_parts(sft__remote_exchange *x, const uint8_t *data, size_t len) {
    sft__remote_slice slice;

    if (sft__remote_multipart_ended(&x->parts)) { /* an end without end is cut off */
        x->dropped += len;
        x->enough = x->dropped > DROP_MAX;
        return !x->enough;
    }
    while (sft__remote_multipart_next(&x->parts, x->at, &data, &len, &slice)) {
        x->pos = slice.offset;
        if (!take(x, slice.data, slice.size)) {
            return false;
        }
    }
    if (x->parts.fault != NULL) { /* what was taken so far was what was asked for */
        sft__remote_exchange_plain(x);
        x->enough = x->at >= x->stop; /* the fault comes behind it */
        x->verdict = x->enough ? SFT__TAKE : SFT__PLAIN;
        return false;
    }
    return true;
}

bool sft__remote_exchange_body(sft__remote_exchange *x, const uint8_t *data, size_t len) {
    if (x->verdict != SFT__TAKE) {
        if (x->explaining) {
            const size_t room = sizeof x->why - x->why_len;
            memcpy(x->why + x->why_len, data, len < room ? len : room);
            x->why_len += len < room ? len : room;
            if (x->why_len == sizeof x->why && x->verdict == SFT__FAIL) {
                return false; /* nothing more is wanted of it */
            }
        }
        x->dropped += len;
        x->enough = x->dropped > DROP_MAX;
        return !x->enough;
    }
    if (x->in_parts) {
        return take_parts(x, data, len);
    }
    const uint64_t room = x->stop - x->pos;
    const size_t n = len < room ? len : (size_t)room;
    if (!take(x, data, n)) {
        return false;
    }
    x->enough = x->pos == x->stop;
    return n == len; /* the rest is not wanted */
}
