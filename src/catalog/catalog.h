/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/catalog.h - the catalog object and how it is filled. Whoever fills one owns it alone
 * until it is handed out; from then on nothing in it changes. A catalog over one file borrows the
 * tensors and the name table of its only header; all others have merged ones in their arena.
 */
#ifndef SFT_CATALOG_CATALOG_H
#define SFT_CATALOG_CATALOG_H

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/strmap.h"
#include "format/header.h"
#include "io/source.h"
#include <sft/extend.h>

/* One file with its metadata (borrowed from a header, or in the arena). */
typedef struct sft__catalog_file {
    sft_file info;
    const sft_metadata_entry *metadata;
    size_t metadata_count;
    sft__base_strmap keys; /* of many metadata entries, in the catalog's arena; of few none */
} sft__catalog_file;

typedef struct sft__catalog_alias {
    const char *name; /* name, len first: a sft__base_strmap can index them */
    size_t name_len;
    size_t tensor; /* index */
    size_t shows;  /* 0: the tensor; else the part, its index + 1 */
} sft__catalog_alias;

/* What an alias shows of a tensor (all of it, or a view), under the alias's name. */
typedef struct sft__catalog_shown_part {
    sft_tensor tensor; /* its pieces: &piece */
    sft_piece piece;
    size_t of; /* index of the tensor */
} sft__catalog_shown_part;

struct sft_catalog {
    const sft_allocator *allocator;
    const sft_tensor *tensors;
    size_t tensor_count;
    const sft__base_strmap *names; /* over tensors */
    sft__catalog_file *files;      /* &one_file, or allocated with room for file_room */
    size_t file_count;
    sft_source **sources; /* owned; &one_source, or allocated with room for source_room */
    size_t source_count;
    sft_problem *problems; /* allocated with room for problem_room */
    size_t problem_count;
    sft__catalog_alias *aliases; /* allocated with room for alias_room */
    size_t alias_count;
    sft__catalog_shown_part *parts; /* allocated with room for part_room */
    size_t part_count;

    sft__format_header *headers; /* owned; &one_header, or allocated with room for header_room */
    size_t header_count;
    sft__base_strmap merged_names;
    sft__base_strmap alias_names;
    sft__base_arena arena;
    size_t file_room; /* 0: not allocated; so the others */
    size_t source_room;
    size_t problem_room;
    size_t header_room;
    size_t alias_room;
    size_t part_room;
    struct sft__catalog_attachment *attached; /* in the arena, the newest first */
    sft__catalog_file one_file;
    sft_source *one_source;
    sft__format_header one_header;
};

/* Options as this version of the library knows them, whatever the caller was compiled against:
 * defaults filled in. `open.limits` points at `limits`. */
typedef struct sft__catalog_options {
    sft_open_options open;
    sft_limits limits;
    const sft_limits *asked; /* the caller's own */
    bool exact;              /* read no more of a remote file than its header: it is at hand */
} sft__catalog_options;
sft_status sft__catalog_open_read(sft__catalog_options *out, const sft_open_options *options,
                                  sft_error *err);

/* An empty catalog. */
sft_status sft__catalog_new(sft_catalog **out, const sft__catalog_options *options, sft_error *err);

/* Reads and parses the header behind a source. */
sft_status sft__catalog_header_read(sft__format_header *out, const sft_source *source,
                                    const sft__catalog_options *options, sft_error *err);

/* The facts of a file that was just read. */
void sft__catalog_file_describe(sft__catalog_file *out, const sft__format_header *header,
                                const sft_source *source, uint32_t source_index);
/* Once its metadata are known: a name table, where there are so many that a search would tell. */
void sft__catalog_file_index(sft_catalog *catalog, sft__catalog_file *file);

/* catalog/aliases.c: the other names that the files' metadata record ("alias": "tensor", and sft.aliases,
 * docs/tree.md), once all tensors are there. */
sft_status sft__catalog_aliases(sft_catalog *catalog, sft_error *err);
/* The parts lie where they will stay. */
void sft__catalog_parts_settle(sft_catalog *catalog);

/* catalog/directory.c: fills a catalog from a directory, or from an index file's text. */
sft_status sft__catalog_open_directory(sft_catalog *catalog, sft__fs_handle directory,
                                       const char *path, const sft__catalog_options *options,
                                       sft_error *err);
sft_status sft__catalog_open_index(sft_catalog *catalog, const sft_source *source, const char *path,
                                   const sft__catalog_options *options, sft_error *err);

/* Why an allocation of the catalog's arena failed: its budget or the system. */
sft_status sft__catalog_arena_failed(const sft__base_arena *arena, uint64_t size, sft_error *err);

/* Heap that a parsed header holds. */
uint64_t sft__catalog_header_memory(const sft__format_header *header);

#endif
