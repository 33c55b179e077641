/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/export.h - what every writer of another format works with: the items to write, an output
 * of known size that appears whole or not at all, and the copy of the items' bytes into it. To add
 * a format: write FORMAT_write.c with a `check` and a `write`, declare its row below and put it
 * into the table in export.c. Read first: <sft/import.h>, convert.h.
 */
#ifndef SFT_IMPORT_EXPORT_H
#define SFT_IMPORT_EXPORT_H

#include "import/convert/convert.h"

typedef struct sft__import_export {
    sft__import_conversion c; /* items, allocator, pool; c.options: what the caller gave */
    const sft_catalog *catalog;
    sft_export_options options; /* defaults filled in */
    const char *path;
    sft__fs_publish *output; /* after sft__import_export_start */
    sft__base_arena arena;   /* scratch of the writer, freed at the end */
    void *kept;              /* of the writer, for its reopen */
} sft__import_export;

typedef struct sft__import_writer_row {
    uint32_t format; /* sft_import_format */
    bool metadata;   /* the format has room for the caller's metadata */
    bool shares;     /* names of the same bytes are written, too */
    /* Can the format hold it (name, item->dtype, rank)? Called for every item, also for a plan.
     * item->dtype is any that sft_convert or the catalog's reader knows. */
    sft_status (*check)(const sft_import_item *item, sft_error *err);
    /* Lays out, sft__import_export_start with the size of the file, sft__import_export_copy,
     * sft__import_export_put for all the rest. Publishing is done behind it. */
    sft_status (*write)(sft__import_export *job, sft_error *err);
    /* The output as a catalog that has the items' names, for comparing; NULL: sft_import_open does
     * it. */
    sft_status (*reopen)(sft__import_export *job, sft_catalog **out, sft_error *err);
} sft__import_writer_row;

extern const sft__import_writer_row *const sft__import_export_writers[]; /* ends with NULL */
extern const sft__import_writer_row sft__import_writer_npz;
extern const sft__import_writer_row sft__import_writer_gguf;
extern const sft__import_writer_row sft__import_writer_mindspore;
extern const sft__import_writer_row sft__import_writer_torch;

/* ---------------------------------------------------------------- for writers */

/* Does the entry say only which framework wrote the tensors ("format": "pt")? That is said of safetensors
 * alone. */
bool sft__import_names_framework(const sft_metadata_entry *e);

/* Scratch of count * size bytes, aligned to 8, zeroed, into the pointer that `pointer` points at.
 */
sft_status sft__import_export_alloc(sft__import_export *job, void *pointer, size_t count,
                                    size_t size, sft_error *err);

/* Creates the output with exactly this many bytes (zeros where nothing is put). Once. */
sft_status sft__import_export_start(sft__import_export *job, uint64_t file_bytes, sft_error *err);
/* Bytes of the writer's own: headers, trailers. Any order, any thread. */
sft_status sft__import_export_put(sft__import_export *job, uint64_t offset, const void *data,
                                  size_t size, sft_error *err);

/* Bytes [first, first + nbytes) of items[item] (packed, little-endian, in the item's type) go to
 * `offset` of the file. crc32: filled in by sft__import_export_copy if it was asked to. */
typedef struct sft__import_stretch {
    size_t item;
    uint64_t first;
    uint64_t nbytes;
    uint64_t offset;
    uint32_t crc32;
    uint32_t reserved;
} sft__import_stretch;

/* Copies every item. stretches: by item, then by first, covering each item of more than 0 bytes
 * exactly once. Read, cast, put in order, summed and written block by block by the pool. */
sft_status sft__import_export_copy(sft__import_export *job, sft__import_stretch *stretches,
                                   size_t count, bool crc32, sft_error *err);

/* The CRC-32 of something followed by `bytes` more, less the part of what follows: the CRC-32 of A
 * and B together is shift(crc(A), |B|) ^ crc(B). */
uint32_t sft__import_crc32_shift(uint32_t crc, uint64_t bytes);

/* A stored zip archive, zip64 where needed, every member's bytes at a multiple of `alignment` (a
 * power of two, at most 4096): `head`, then items[item] (SIZE_MAX: none). Does all of a row's
 * `write`. Names: UTF-8 without NUL, at most 60,000 bytes. */
typedef struct sft__import_zip_member {
    const char *name;
    size_t name_len;
    const void *head;
    size_t head_len;
    size_t item;
    uint64_t at;   /* filled in: offset of the local header ... */
    uint64_t data; /* ... and of the bytes */
    uint32_t crc32;
    uint32_t extra; /* bytes of the local extra field */
} sft__import_zip_member;
sft_status sft__import_zip_write(sft__import_export *job, sft__import_zip_member *members,
                                 size_t count, uint32_t alignment, sft_error *err);

#endif
