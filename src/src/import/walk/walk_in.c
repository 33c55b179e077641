/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_in.c - the bytes that the walker reads: a window over a part, forward, small at
 * first because most parts are no pickle. Where the bytes cannot be had (a damaged member) the part
 * ends. Read first: walk.h.
 */
#include "import/walk/walk.h"

enum { FIRST = 512, HEAD = 16384 };

/* An error of the world outside stops the walk, one of the bytes ends the part. */
static bool is_outside(sft_status status) {
    return status == SFT_E_NOMEM || status == SFT_E_IO || status == SFT_E_TRUNCATED ||
           status == SFT_E_CHANGED || status == SFT_E_CANCELLED || status == SFT_E_HTTP ||
           status == SFT_E_ARG || status == SFT_E_STATE || status == SFT_E_INTERNAL;
}

/* Reads on until n bytes are there behind pos. */
static bool fill(walk_in *in, size_t n) {
    const uint64_t at = walk_tell(in);

    if (in->len - in->pos >= n) {
        return true;
    }
    if (in->status != SFT_OK || in->end - at < n) {
        return false;
    }
    size_t want = in->len == 0 ? FIRST : in->len * 8;
    want = want < n ? n : want;
    want = want > WALK_WINDOW ? WALK_WINDOW : want;
    want = in->end - at < want ? (size_t)(in->end - at) : want;
    const sft_status status = sft_source_read(in->source, at, in->window, want, in->err);
    in->base = at;
    in->pos = 0;
    in->len = status == SFT_OK ? want : 0;
    if (status != SFT_OK) {
        in->status = is_outside(status) ? status : SFT_OK;
        in->end = at;
        return false;
    }
    return true;
}

void sft__import_walk_seek(walk_in *in, uint64_t at) {
    if (at >= in->base && at - in->base <= in->len) {
        in->pos = (size_t)(at - in->base);
    } else {
        in->base = at;
        in->pos = 0;
        in->len = 0;
    }
}

/* Something of n bytes is read at once: what C does where a frame ends in it. */
static void at_frame(walk_in *in, uint64_t n) {
    const uint64_t at = walk_tell(in);

    if (in->frame == 0 || in->frame - at >= n) {
        return;
    }
    if (in->frame > at) {
        in->crossed = true;
        if (in->drop) {
            sft__import_walk_seek(in, in->frame);
        }
    }
    in->frame = 0;
}

const uint8_t *sft__import_walk_take(walk_in *in, size_t n) {
    at_frame(in, n);
    if (!fill(in, n)) {
        return NULL;
    }
    const uint8_t *bytes = in->window + in->pos;
    in->pos += n;
    return bytes;
}

bool sft__import_walk_skip(walk_in *in, uint64_t n) {
    const uint64_t at = walk_tell(in);

    if (in->end - at < n) {
        sft__import_walk_seek(in, in->end);
        return false;
    }
    sft__import_walk_seek(in, at + n);
    return true;
}

bool sft__import_walk_literal(walk_in *in, uint64_t n, bool text, const uint8_t **head,
                              size_t *head_len, uint64_t *at) {
    if (text) { /* bytes are copied from both sides of a frame's end */
        at_frame(in, n);
    } else if (in->frame != 0 && in->frame - walk_tell(in) < n) {
        in->frame = 0;
    }
    *at = walk_tell(in);
    *head_len = n <= HEAD ? (size_t)n : FIRST;
    if (in->end - *at < n || !fill(in, *head_len)) {
        return false;
    }
    *head = in->window + in->pos;
    if (in->len - in->pos >= n) {
        in->pos += (size_t)n; /* the window stays for the caller */
        return true;
    }
    /* the head stays readable until the next read: only the place changes */
    in->base += in->pos + n;
    in->pos = 0;
    in->len = 0;
    return true;
}

/* The length of a line that has not ended within the window: without its '\n', which is skipped. */
static uint64_t far_end(walk_in *in, uint64_t from, bool *whole) {
    uint8_t block[4096];
    uint64_t at = from;

    *whole = false;
    while (at < in->end && in->status == SFT_OK) {
        const size_t n = in->end - at < sizeof block ? (size_t)(in->end - at) : sizeof block;
        const sft_status status = sft_source_read(in->source, at, block, n, in->err);
        if (status != SFT_OK) {
            in->status = is_outside(status) ? status : SFT_OK;
            in->end = at;
            return at;
        }
        const uint8_t *lf = memchr(block, '\n', n);
        if (lf != NULL) {
            *whole = true;
            return at + (uint64_t)(lf - block);
        }
        at += n;
    }
    return at;
}

/* Looks for the '\n' in more and more of the window. */
static const uint8_t *near_end(walk_in *in) {
    size_t seen = 0;

    for (;;) {
        const size_t have = in->len - in->pos;
        const uint8_t *lf =
            have > seen ? memchr(in->window + in->pos + seen, '\n', have - seen) : NULL;
        const uint64_t left = in->end - walk_tell(in);
        if (lf != NULL || have >= WALK_WINDOW || have >= left) {
            return lf;
        }
        seen = have;
        const size_t want = have < FIRST / 2 ? FIRST : have * 4;
        const size_t most = left < WALK_WINDOW ? (size_t)left : WALK_WINDOW;
        if (!fill(in, want < most ? want : most)) {
            return NULL;
        }
    }
}

static const uint8_t *line_here(walk_in *in, size_t *len, uint64_t *all, bool *whole) {
    const uint64_t begin = walk_tell(in);
    const uint8_t *lf = near_end(in);
    const uint8_t *line = in->window + in->pos;

    if (lf != NULL) {
        *len = (size_t)(lf - line);
        *all = *len;
        *whole = true;
        in->pos += *len + 1;
        return line;
    }
    *len = in->len - in->pos;
    const uint64_t stop = far_end(in, begin + *len, whole);
    *all = stop - begin;
    in->base = stop + (*whole ? 1 : 0);
    in->pos = 0;
    in->len = 0; /* the bytes stay until the next read */
    return in->status == SFT_OK && *all + *whole > 0 ? line : NULL;
}

const uint8_t *sft__import_walk_line(walk_in *in, size_t *len, uint64_t *all, bool *whole) {
    const uint64_t at = walk_tell(in);
    const uint64_t frame = in->frame;
    const uint8_t *line = line_here(in, len, all, whole);

    if (frame == 0 || walk_tell(in) <= frame) {
        return line;
    }
    in->frame = 0;
    if (frame > at) {
        in->crossed = true;
        if (in->drop) {
            sft__import_walk_seek(in, frame);
            line = line_here(in, len, all, whole);
        }
    }
    return line;
}
