/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/histogram.c - see histogram.h.
 */
#include "cli/report/histogram.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* floor(x / 2^shift) */
static int64_t floor_shift(int64_t x, int shift) {
    if (shift > 62) {
        return x < 0 ? -1 : 0;
    }
    const int64_t width = (int64_t)1 << shift;
    return x >= 0 ? x / width : -((-(x + 1)) / width) - 1;
}

static void widen(cli_histogram *h, int shift) {
    if (shift <= 0) {
        return;
    }
    const int64_t base = floor_shift(h->base, shift);
    uint32_t span = 0;

    for (uint32_t i = 0; i < h->span; i++) {
        /* new position <= old position, so nothing unread is overwritten */
        const uint32_t to = (uint32_t)(floor_shift(h->base + i, shift) - base);
        const uint64_t n = h->counts[i];
        if (to >= span) {
            span = to + 1;
            h->counts[to] = 0;
        }
        h->counts[to] += n;
    }
    memset(h->counts + span, 0, (size_t)(h->span - span) * sizeof h->counts[0]);
    h->base = base;
    h->span = span;
    h->exponent += shift;
}

void cli_histogram_narrow(cli_histogram *h, uint32_t bins) {
    while (h->span > bins && h->span > 1) {
        const int64_t before = h->base;
        const uint32_t span = h->span;
        widen(h, 1);
        if (h->span == span && h->base == before) {
            return; /* -1 and 0 never meet */
        }
    }
}

/* Distance between two bins of one width, at most 2^54 in sum: see cli_histogram_width. */
void cli_histogram_merge(cli_histogram *h, const cli_histogram *more) {
    cli_histogram other;

    if (more->span == 0) {
        return;
    }
    if (h->span == 0) {
        *h = *more;
        return;
    }
    other = *more;
    widen(h, other.exponent - h->exponent);
    widen(&other, h->exponent - other.exponent);
    for (;;) {
        const int64_t low = h->base < other.base ? h->base : other.base;
        const int64_t end_h = h->base + h->span;
        const int64_t end_o = other.base + other.span;
        const int64_t high = end_h > end_o ? end_h : end_o;
        if (high - low <= CLI_BINS) {
            const size_t shift = (size_t)(h->base - low);
            memmove(h->counts + shift, h->counts, h->span * sizeof h->counts[0]);
            memset(h->counts, 0, shift * sizeof h->counts[0]);
            for (uint32_t i = 0; i < other.span; i++) {
                h->counts[(size_t)(other.base - low) + i] += other.counts[i];
            }
            h->base = low;
            h->span = (uint32_t)(high - low);
            return;
        }
        widen(h, 1);
        widen(&other, 1);
    }
}

int cli_histogram_width(double min, double max, bool integers) {
    const double range = max / 2 - min / 2;
    const double far = fmax(fabs(min), fabs(max));
    int exponent = integers ? 0 : -1000;

    if (range > 0) {
        const int by_range = ilogb(range) + 2 - 10; /* width * 1024 > 2 * range */
        exponent = by_range > exponent ? by_range : exponent;
    }
    if (far > 0) {
        const int by_size = ilogb(far) - 51;
        exponent = by_size > exponent ? by_size : exponent;
    }
    return exponent;
}

bool cli_histogram_has(const cli_histogram *h, double min, double max) {
    const double scale = ldexp(1.0, -h->exponent);
    return h->span > 0 && floor(min * scale) >= (double)h->base &&
           floor(max * scale) < (double)(h->base + h->span);
}

double cli_histogram_edge(const cli_histogram *h, uint32_t i) {
    /* exact, |base + i| < 2^53, but for 2^1024, which doubles do not have */
    const double edge = ldexp((double)(h->base + i), h->exponent);
    return fmin(fmax(edge, -DBL_MAX), DBL_MAX);
}

cli_histogram cli_histogram_of(double min, double max, int exponent) {
    cli_histogram h = {.exponent = exponent};
    double scale = ldexp(1.0, -exponent);

    while (floor(max * scale) - floor(min * scale) >= CLI_BINS) {
        scale = ldexp(1.0, -++h.exponent);
    }
    h.base = (int64_t)floor(min * scale); /* below 2^53: see cli_histogram_width */
    h.span = (uint32_t)((int64_t)floor(max * scale) - h.base) + 1;
    return h;
}
