/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/shards.h - the index of a model in several files (pytorch_model.bin.index.json and
 * its kin), and directories of such files as one catalog. Read first: import.h.
 */
#ifndef SFT_IMPORT_SHARDS_H
#define SFT_IMPORT_SHARDS_H

#include "base/text/strmap.h"
#include "import/core/import.h"

typedef struct sft__import_shard_entry {
    const char *name; /* name, len first for the table; of a group: "/GROUP\nFILE" */
    size_t len;
    const char *file; /* one component: of the index's own directory */
    bool met; /* a group: it has a tensor; else: its file has parts of it, which no entry names */
} sft__import_shard_entry;

/* Zeroed before use. Entries are sorted by file. */
typedef struct sft__import_shard_index {
    const sft_allocator *allocator;
    sft__base_arena arena;
    sft__import_shard_entry *entries;
    size_t count;
    size_t room;
    bool groups;            /* Keras: entries are groups of HDF5, not tensors */
    sft__base_strmap names; /* over entries */
} sft__import_shard_index;

/* SFT_E_INDEX, SFT_E_UTF8, SFT_E_PATH (a file outside the directory), SFT_E_DUPLICATE, SFT_E_LIMIT.
 * Reset in every case. */
sft_status sft__import_shard_index_read(sft__import_shard_index *index, const sft_source *source,
                                        const sft_allocator *allocator, sft_error *err);
void sft__import_shard_index_reset(sft__import_shard_index *index);
/* SFT_E_SHARD_DISAGREES: a name that the index has in the file of entries[first] is not in its
 * catalog, nor are parts of it (q.scale) that the index does not name; the tensor, which is in `file`, is
 * elsewhere by the index. */
sft_status sft__import_shard_index_holds(sft__import_shard_index *index, size_t first,
                                         const sft_catalog *catalog, sft_error *err);
sft_status sft__import_shard_index_places(sft__import_shard_index *index, const char *file,
                                          const sft_tensor *tensor, sft_error *err);

/* When all files are read: SFT_E_SHARD_DISAGREES: a group without a tensor. */
sft_status sft__import_shard_index_complete(const sft__import_shard_index *index, sft_error *err);

/* Does the beginning of a file look like an index? Pure. */
bool sft__import_shard_index_likely(const uint8_t *head, size_t len);

/* The source that a path names, or that it stands for: the index of TensorFlow's, or the .metadata of a
 * distributed checkpoint, whose path is in `found` (SFT__TF_PATH bytes) and *path then (open.c). */
sft_status sft__import_open_path(sft_source **out, const char **path, char *found,
                                 const sft_import_options *options, sft_error *err);
/* sft_import_open of a file alone (open.c). */
sft_status sft__import_open_file(sft_catalog **out, const char *path,
                                 const sft_import_options *options, sft_import_report **report,
                                 sft_error *err);
/* sft_import_open of a file that is open already (open.c): `source`, which is taken over in every case.
 * path: NULL if nothing can lie beside it. */
sft_status sft__import_open_over(sft_catalog **out, sft_source *source, const char *path,
                                 const sft_import_options *options, sft_import_report **report,
                                 sft_error *err);

/* Is `path` the first of the files that gguf-split made of a model (NAME-00001-of-00003.gguf), by
 * its name and its first bytes? */
bool sft__import_gguf_set_likely(const char *path, const uint8_t *head, size_t len);
/* All files of such a set as one catalog. SFT_E_SHARD_MISSING, SFT_E_SHARD_DISAGREES: a file that
 * is no shard of it, other counts. */
sft_status sft__import_gguf_set_open(sft_catalog **out, const char *path,
                                     const sft_import_options *options, sft_import_report **report,
                                     sft_error *err);

/* All files of an index, or what a directory holds (an index or a single file, by the names that
 * Hugging Face gives them; else safetensors), as one catalog. *is: the directory holds such; otherwise
 * nothing is said. options: complete. */
sft_status sft__import_shards_open(sft_catalog **out, const char *path, const sft_source *index,
                                   const sft_import_options *options, sft_import_report **report,
                                   sft_error *err);
sft_status sft__import_directory_open(sft_catalog **out, const char *path, bool *is,
                                      const sft_import_options *options, sft_import_report **report,
                                      sft_error *err);

#endif
