/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/zip.h - a strict reader of zip archives (APPNOTE.TXT 6.3) that gives the place of every
 * member. What two readers could understand differently is refused: the numbered rules are in zip.c
 * and docs/import.md.
 */
#ifndef SFT_IMPORT_ZIP_H
#define SFT_IMPORT_ZIP_H

#include "base/text/strmap.h"
#include "import/core/import.h"

typedef struct sft__import_zip_entry {
    const char *name; /* name, len first for the name table; NUL-terminated */
    size_t name_len;
    uint64_t header; /* offset of the local header */
    uint64_t data;   /* offset of the bytes */
    uint64_t csize;
    uint64_t usize;
    uint32_t crc32;
    uint16_t method; /* 0 stored, 8 deflated */
    uint16_t flags;
} sft__import_zip_entry;

typedef struct sft__import_zip {
    sft__import_zip_entry *entries; /* in the order of the central directory; in the job's arena */
    size_t count;
    sft__base_strmap names;
    uint64_t directory; /* offset */
} sft__import_zip;

/* Does a zip end record stand at the end of the source? */
bool sft__import_zip_probe(const sft__import_probe *p);

/* Would a member of this name be taken? UTF-8, relative, nothing that leads elsewhere. */
bool sft__import_zip_name_is_safe(const char *name, size_t len);

/* Reads and checks the whole directory and every local header. In a scan, what PyTorch or Python
 * would read past becomes a finding. */
sft_status sft__import_zip_open(sft__import_zip *zip, sft__import *job, sft_error *err);
void sft__import_zip_reset(sft__import_zip *zip);

const sft__import_zip_entry *sft__import_zip_find(const sft__import_zip *zip, const char *name,
                                                  size_t name_len);

/* The member's bytes as (source of the builder, offset): the file itself for a stored one, a new
 * deflate source for a deflated one. */
sft_status sft__import_zip_place(sft__import *job, const sft__import_zip_entry *entry,
                                 uint32_t *source, const sft_source **bytes, uint64_t *offset,
                                 sft_error *err);

/* Reads a small member whole (NUL behind it) and checks its CRC. SFT_E_LIMIT above `most`. */
sft_status sft__import_zip_read(sft__import *job, const sft__import_zip_entry *entry, uint64_t most,
                                char **text, size_t *size, sft_error *err);
/* Compares the CRC of a stored member. */
sft_status sft__import_zip_check(sft__import *job, const sft__import_zip_entry *entry,
                                 sft_error *err);

#endif
