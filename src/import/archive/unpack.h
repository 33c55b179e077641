/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/unpack.h - what is compressed as a whole, as a source of its own: gzip and zlib,
 * bzip2 and xz/lzma where their libraries were there when this was built. Several streams one
 * behind the other are one, as Python's modules read them. Checksums are not compared: Python hands
 * the bytes out before it does. Read first: core/import.h.
 */
#ifndef SFT_IMPORT_UNPACK_H
#define SFT_IMPORT_UNPACK_H

#include "import/core/import.h"

typedef enum sft__import_pack {
    SFT__PACK_NONE = 0,
    SFT__PACK_GZIP,
    SFT__PACK_ZLIB,
    SFT__PACK_BZIP2,
    SFT__PACK_LZMA,    /* xz, and what came before it */
    SFT__PACK_DEFLATE, /* raw: a member of a zip archive */
    SFT__PACK_ZSTD,    /* from here on: recognised alone */
    SFT__PACK_LZ4,
    SFT__PACK_7Z,
    SFT__PACK_RAR,
    SFT__PACK_COMPRESS
} sft__import_pack;

/* By the first bytes; zlib has two that mean little: others must rule out more. */
sft__import_pack sft__import_pack_of(const uint8_t *head, size_t len);
const char *sft__import_pack_name(sft__import_pack pack); /* "gzip" */
bool sft__import_pack_is_read(sft__import_pack pack);     /* is its library there? */

typedef struct sft__import_unpack {
    sft__import_pack pack;
    uint64_t offset; /* in the inner source */
    uint64_t size;
    uint64_t most; /* bytes to come out at most */
    /* of these kept in memory from the beginning on: reading back costs nothing there */
    uint64_t keep;
} sft__import_unpack;

typedef struct sft__import_unpacked {
    uint64_t size; /* that come out: of a damaged stream as many as there are */
    /* these, and what it cost to begin streams behind the first, as bytes; at most `most` */
    uint64_t work;
    bool damaged;  /* it ends early, or in nonsense */
    bool limited;  /* there would be more than `most`, or too many streams */
    bool trailing; /* bytes follow that belong to no stream */
} sft__import_unpacked;

/* A SEQUENTIAL source over what comes out; `inner` must outlive it. All of it is unpacked once,
 * here, to know its size. Errors: of the inner source, SFT_E_NOMEM, SFT_E_UNSUPPORTED (no library
 * for it). */
sft_status sft__import_source_unpack(sft_source **out, const sft_source *inner,
                                     const sft__import_unpack *how, sft__import_unpacked *got,
                                     const sft_allocator *allocator, sft_error *err);

#endif
