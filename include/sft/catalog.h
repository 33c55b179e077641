/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/catalog.h - an immutable, fully validated set of tensors over one or many sources.
 *
 * A catalog that you hold is valid: every header was parsed and checked, and every tensor lies inside its
 * file. There is no separate validate call. No tensor data is touched by opening.
 *
 * Caveats first. Validation is about the file as it was when opened; see sft/source.h for what happens
 * when a file shrinks later. Values are never inspected (a BOOL byte may be 7, a float may be NaN).
 * Names are any UTF-8, NUL and control characters included: escape them before printing.
 *
 * Threads: a catalog is immutable; every function here but close may run in many threads at once.
 */
#ifndef SFT_CATALOG_H
#define SFT_CATALOG_H

#include <sft/dtype.h>
#include <sft/source.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sft_catalog sft_catalog;

/* A box of a tensor and where its bytes lie. A tensor of a safetensors file has exactly one, packed. */
typedef struct sft_piece {
    uint64_t offset;        /* absolute, in the source */
    uint64_t nbytes;        /* bytes from offset to the end of the last element */
    const uint64_t *start;  /* per dimension, lower corner in the tensor; NULL: zeros */
    const uint64_t *count;  /* per dimension, extent; NULL: the whole tensor */
    const int64_t *strides; /* per dimension, bytes; NULL: packed row-major */
    uint32_t source;        /* index of the catalog's source */
    uint32_t reserved;
} sft_piece;

/* Plain data, read-only, lives as long as its catalog. Always reached by pointer: may grow. */
typedef struct sft_tensor {
    const char *name; /* UTF-8, also NUL-terminated */
    size_t name_len;
    const sft_dtype *dtype;
    const uint64_t *shape;   /* rank entries; never NULL */
    const sft_piece *pieces; /* piece_count entries */
    uint64_t nbytes;         /* packed size of the whole tensor */
    uint32_t rank;           /* 0: a scalar, one element */
    uint32_t piece_count;
    uint32_t file;  /* index of the catalog's file that declared it */
    uint32_t flags; /* SFT_TENSOR_* */
} sft_tensor;

/* Of a tensor with several pieces: each begins at the row (index of the first dimension) of the one
 * before it or later, and ends so. Set by catalogs, ignored where a tensor is given to one. */
#define SFT_TENSOR_ASCENDING 1u

/* One file of the catalog. */
typedef struct sft_file {
    const char *path;      /* as opened, or "memory", a URL ...; NUL-terminated UTF-8 */
    uint64_t size;         /* bytes of the whole file */
    uint64_t header_bytes; /* N: length of the header text, padding included */
    uint64_t data_offset;  /* 8 + N; 0 for formats without one */
    uint64_t data_bytes;   /* size - data_offset */
    uint64_t tensor_count;
    uint32_t source;       /* index of the catalog's source */
    uint32_t has_metadata; /* 0: absent or null; 1: present, maybe empty */
} sft_file;

typedef enum sft_problem_kind {
    SFT_PROBLEM_ORPHAN_FILE = 1,   /* a weight file beside the index that the index does not name */
    SFT_PROBLEM_ORPHAN_TENSOR = 2, /* in a shard, but not in the index; left out of the catalog */
    SFT_PROBLEM_MISSING_FILE = 3,  /* named by the index, or counted by names, not there */
    SFT_PROBLEM_MISSING_TENSOR =
        4, /* named by the index, in no shard; or not whole in the files of many ranks */
    SFT_PROBLEM_OTHER_SHARD = 5, /* the index names one shard, the tensor lies in another */
    SFT_PROBLEM_TOTAL_SIZE = 6,  /* the index's metadata.total_size is not the sum of the tensors */
    SFT_PROBLEM_ALIAS = 7        /* metadata sft.aliases names what is not there */
} sft_problem_kind;

/* What an index and its directory disagree about. */
typedef struct sft_problem {
    uint32_t kind;       /* sft_problem_kind */
    uint32_t fatal;      /* 1: only tolerated because of SFT_OPEN_INCOMPLETE */
    const char *subject; /* tensor or file name, raw bytes as in the file */
    size_t subject_len;
    const char *message; /* one printable sentence */
} sft_problem;

/* Open even if the index names files or tensors that are not there; they become problems. */
#define SFT_OPEN_INCOMPLETE 1u
/* Refuse what the reference accepts against the letter of the format: see docs/format.md, "Strict". */
#define SFT_OPEN_STRICT 2u

typedef struct sft_open_options {
    size_t struct_size;
    const sft_allocator *allocator; /* must outlive the catalog */
    const sft_limits *limits;
    sft_access access;
    uint32_t flags; /* SFT_OPEN_* */
} sft_open_options;

/* Opens a .safetensors file, an *.index.json, or a directory (its index if it has exactly one, else all its
 * *.safetensors files) as one catalog. Shard names from an index never lead outside the directory: absolute
 * paths, "..", drive letters, backslashes, and symbolic links out of it are SFT_E_PATH (the Hugging Face
 * cache's links from snapshots/ into blobs/ of the same repository are fine). The same holds for links
 * among the files of a directory; `path` itself may be any link. The directory of an index is the one that
 * `path` names it in, wherever a link in its last component leads. Of several indexes in a directory
 * model.safetensors.index.json is taken; without it SFT_E_INDEX lists them.
 * Where an index and the files disagree the index decides what the catalog holds: files and tensors that
 * it does not name are left out (problems), those that it names and nobody has are SFT_E_SHARD_MISSING
 * and SFT_E_SHARD_DISAGREES. Without an index a name in two files is SFT_E_DUPLICATE, and a file that the
 * names of the others count (model-00002-of-00004) and that is not there is SFT_E_SHARD_MISSING.
 * path: UTF-8. options: NULL for defaults. out: owned; sft_catalog_close.
 * Cost: one read of each header; O(tensors) time, memory at most 5 times the headers + 16 MB. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_open(sft_catalog **out, const char *path,
                                                   const sft_open_options *options, sft_error *err);

/* A safetensors file in memory. The bytes are not copied: they must stay until close. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_open_memory(sft_catalog **out, const void *data,
                                                          size_t size,
                                                          const sft_open_options *options,
                                                          sft_error *err);

/* A safetensors file behind any source. The source is taken over in every case: closed with the catalog,
 * or before this returns if it fails. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_open_source(sft_catalog **out, sft_source *source,
                                                          const sft_open_options *options,
                                                          sft_error *err);

/* sft_source_unchanged of every source: to be asked before what was read is believed or published, where
 * others may write to the files. sft_load and streams ask by themselves. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_unchanged(const sft_catalog *catalog, sft_error *err);

/* Frees the catalog and closes its sources. Everything borrowed from it dies. NULL is fine. */
SFT_API void sft_catalog_close(sft_catalog *catalog);

/* Tensors in file order: by data offset, files in the order of their names. at: NULL past the end. */
SFT_API size_t sft_catalog_count(const sft_catalog *catalog);
SFT_API const sft_tensor *sft_catalog_at(const sft_catalog *catalog, size_t index);

/* By exact name, or NULL. An alias finds the tensor that it is another name of, or what it shows of one: a
 * tensor for every function that reads one, which sft_catalog_at does not list. O(1); no allocation. */
SFT_API const sft_tensor *sft_catalog_find(const sft_catalog *catalog, const char *name,
                                           size_t name_len);

/* Position of a tensor of this catalog in file order; of a part, that of the tensor it is of. */
SFT_API size_t sft_catalog_index_of(const sft_catalog *catalog, const sft_tensor *tensor);

SFT_API size_t sft_catalog_file_count(const sft_catalog *catalog);
SFT_API const sft_file *sft_catalog_file_at(const sft_catalog *catalog, size_t index);
SFT_API size_t sft_catalog_source_count(const sft_catalog *catalog);
SFT_API const sft_source *sft_catalog_source_at(const sft_catalog *catalog, size_t index);

/* Metadata of one file, in header order: pairs of strings. at: SFT_E_RANGE past the end; any of the four
 * outputs may be NULL. find: value or NULL; value_len may be NULL. Strings are decoded UTF-8, also
 * NUL-terminated; they may hold NUL. */
SFT_API size_t sft_catalog_metadata_count(const sft_catalog *catalog, size_t file);
SFT_API sft_status sft_catalog_metadata_at(const sft_catalog *catalog, size_t file, size_t index,
                                           const char **key, size_t *key_len, const char **value,
                                           size_t *value_len);
SFT_API const char *sft_catalog_metadata_find(const sft_catalog *catalog, size_t file,
                                              const char *key, size_t key_len, size_t *value_len);

/* May the tensor be cast? SFT_E_UNSUPPORTED if the metadata of its file (gguf.tensors, docs/import.md) say
 * that its bytes are blocks of a quantised type, which are U8 for want of a type of their own: every read,
 * load and conversion that would cast them gives this error. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_can_cast(const sft_catalog *catalog,
                                                       const sft_tensor *tensor, sft_error *err);

/* Disagreements between an index, its directory and its shards. */
SFT_API size_t sft_catalog_problem_count(const sft_catalog *catalog);
SFT_API const sft_problem *sft_catalog_problem_at(const sft_catalog *catalog, size_t index);

/* Other names of a tensor (names that share storage): of formats that know such, and those that the metadata
 * of a safetensors file record ("alias": "tensor", as conversions write it; sft.aliases, docs/tree.md). Pairs
 * (alias name, index of the tensor). An alias may show only a part: sft_catalog_find gives that. */
SFT_API size_t sft_catalog_alias_count(const sft_catalog *catalog);
SFT_API const char *sft_catalog_alias_at(const sft_catalog *catalog, size_t index, size_t *name_len,
                                         size_t *tensor_index);

#ifdef __cplusplus
}
#endif
#endif
