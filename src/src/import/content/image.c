/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/image.c - images and sentencepiece models that are nothing else: read from their
 * first byte to their last by their own lengths, nothing behind the end, so that nothing can hide
 * in them that a loader of something else would find at its end. Sources: PNG 1.2; ITU T.81;
 * GIF89a; RIFF; sentencepiece_model.proto. Read first: content.h.
 */
#include "base/protobuf.h"
#include "import/content/content.h"

static bool begins(const sft__import_content *c, const char *magic, size_t n) {
    return c->len >= n && memcmp(c->data, magic, n) == 0;
}

static uint32_t be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* zTXt, iTXt: a keyword, then a text that may be compressed; behind it, in bytes. */
static void png_text(const sft__import_content *c, const uint8_t *kind, const uint8_t *p,
                     size_t n) {
    const uint8_t *end = p + n;
    const uint8_t *text = n != 0 ? memchr(p, 0, n) : NULL;
    const bool more = memcmp(kind, "iTXt", 4) == 0;

    if (text == NULL || (!more && memcmp(kind, "zTXt", 4) != 0)) {
        return;
    }
    text += 2 + more;
    for (int i = 0; i < 2 && more && text < end; i++) { /* language, translated keyword */
        const uint8_t *nul = memchr(text, 0, (size_t)(end - text));
        text = nul != NULL ? nul + 1 : end;
    }
    if (text < end) {
        sft__import_scan_string(c->job, c->state->part, text, (size_t)(end - text), false);
    }
}

/* Decoders must stop at a chunk whose name begins with a big letter if they do not know it. */
static bool is_known_chunk(const uint8_t *kind) {
    return kind[0] >= 'a' || memcmp(kind, "IHDR", 4) == 0 || memcmp(kind, "PLTE", 4) == 0 ||
           memcmp(kind, "IDAT", 4) == 0 || memcmp(kind, "IEND", 4) == 0;
}

/* Chunks with their checksums, IHDR first, IEND last. */
static bool png(const sft__import_content *c) {
    const uint8_t *p = c->data + 8;
    const uint8_t *end = c->data + c->len;
    bool first = true;

    while (end - p >= 12) {
        const uint32_t n = be32(p);
        if (n > (uint64_t)(end - p) - 12 ||
            be32(p + 8 + n) != sft__import_crc32(0, p + 4, (size_t)n + 4) ||
            first != (memcmp(p + 4, "IHDR", 4) == 0) || !is_known_chunk(p + 4)) {
            return false;
        }
        first = false;
        png_text(c, p + 4, p + 8, n);
        if (memcmp(p + 4, "IEND", 4) == 0) {
            return n == 0 && end - p == 12;
        }
        p += 12 + (size_t)n;
    }
    return false;
}

/* Behind a scan's header: entropy-coded bytes up to a marker that is neither stuffed nor a restart.
 */
static const uint8_t *jpeg_scan(const uint8_t *p, const uint8_t *end) {
    while (end - p >= 2) {
        if (p[0] == 0xff && p[1] != 0 && p[1] != 0xff && (p[1] < 0xd0 || p[1] > 0xd7)) {
            return p;
        }
        p++;
    }
    return end;
}

static bool jpeg(const sft__import_content *c) {
    const uint8_t *p = c->data + 2;
    const uint8_t *end = c->data + c->len;

    while (end - p >= 2 && p[0] == 0xff) {
        if (p[1] == 0xd9) {
            return end - p == 2;
        }
        if (p[1] == 0xff) { /* fill */
            p++;
            continue;
        }
        const bool scan = p[1] == 0xda;
        if (end - p < 4 || p[1] < 0xc0 || (p[1] >= 0xd0 && p[1] <= 0xd8)) {
            return false;
        }
        const size_t n = (size_t)p[2] << 8 | p[3];
        if (n < 2 || n > (size_t)(end - p) - 2) {
            return false;
        }
        p += 2 + n;
        p = scan ? jpeg_scan(p, end) : p;
    }
    return false;
}

/* Sub-blocks up to the empty one. */
static const uint8_t *gif_blocks(const uint8_t *p, const uint8_t *end) {
    while (p < end && *p != 0) {
        if (*p >= end - p) {
            return end;
        }
        p += 1 + (size_t)*p;
    }
    return p < end ? p + 1 : end;
}

static size_t gif_colors(uint8_t flags) {
    return (flags & 0x80) != 0 ? (size_t)3 << ((flags & 7) + 1) : 0;
}

static bool gif(const sft__import_content *c) {
    const uint8_t *p = c->data + 13;
    const uint8_t *end = c->data + c->len;

    if (c->len < 14 || gif_colors(c->data[10]) >= c->len - 13) {
        return false;
    }
    p += gif_colors(c->data[10]);
    while (p < end) {
        if (*p == 0x3b) {
            return end - p == 1;
        }
        if (*p == 0x21 && end - p > 2) {
            p = gif_blocks(p + 2, end);
        } else if (*p == 0x2c && end - p > 11 && gif_colors(p[9]) < (size_t)(end - p) - 11) {
            p = gif_blocks(p + 11 + gif_colors(p[9]), end);
        } else {
            return false;
        }
    }
    return false;
}

/* RIFF: the sizes of the chunks fill the file. */
static bool webp(const sft__import_content *c) {
    const uint8_t *p = c->data + 12;
    const uint8_t *end = c->data + c->len;

    if (c->len < 20 || sft__base_load_le32(c->data + 4) != c->len - 8) {
        return false;
    }
    while (end - p >= 8) {
        const uint64_t n = ((uint64_t)sft__base_load_le32(p + 4) + 1) & ~UINT64_C(1);
        if (n > (uint64_t)(end - p) - 8) {
            return false;
        }
        p += 8 + (size_t)n;
    }
    return p == end;
}

bool sft__import_content_image(const sft__import_content *c) {
    if (begins(c, "\x89PNG\r\n\x1a\n", 8)) {
        return png(c);
    }
    if (begins(c, "\xff\xd8\xff", 3)) {
        return jpeg(c);
    }
    if (begins(c, "GIF87a", 6) || begins(c, "GIF89a", 6)) {
        return gif(c);
    }
    return begins(c, "RIFF", 4) && c->len >= 12 && memcmp(c->data + 8, "WEBP", 4) == 0 && webp(c);
}

/* ---------------------------------------------------------------- sentencepiece */

/* piece (1: text), score (2: float), type (3). */
static bool is_piece(const sft__base_pb_field *f) {
    sft__base_pb in = sft__base_pb_over(f->data, f->len);
    sft__base_pb_field inner;
    bool named = false;

    while (sft__base_pb_next(&in, &inner)) {
        const bool known = (inner.number == 1 && inner.wire == SFT__PB_BYTES) ||
                           (inner.number == 2 && inner.wire == SFT__PB_FIXED32) ||
                           (inner.number == 3 && inner.wire == SFT__PB_VARINT);
        if (!known) {
            return false;
        }
        named = named || inner.number == 1;
    }
    return in.fault == NULL && named;
}

/* Messages of settings: any fields, but whole. */
static bool is_settings(const sft__base_pb_field *f) {
    sft__base_pb in = sft__base_pb_over(f->data, f->len);
    sft__base_pb_field inner;

    while (sft__base_pb_next(&in, &inner)) {
    }
    return in.fault == NULL;
}

bool sft__import_content_pieces(const sft__import_content *c) {
    sft__base_pb in = sft__base_pb_over(c->data, c->len);
    sft__base_pb_field f;
    size_t pieces = 0;
    bool trained = false;

    while (sft__base_pb_next(&in, &f)) {
        if (f.wire != SFT__PB_BYTES || f.number < 1 || f.number > 5 ||
            !(f.number == 1 ? is_piece(&f) : is_settings(&f))) {
            return false;
        }
        pieces += f.number == 1;
        trained = trained || f.number == 2;
    }
    return in.fault == NULL && pieces > 0 && trained;
}
