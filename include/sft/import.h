/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/import.h - weight files of other formats, read as catalogs; what is hostile in them, reported; and
 * their conversion to safetensors. Library libsafetensors-import (needs zlib).
 *
 * Caveats first.
 *  - Nothing in a file is ever executed, imported or resolved: a pickle is read by a symbolic machine
 *    whose only results are plain data and inert records. No second file is opened unless the format
 *    says so (shards of an index, external data), and then only inside the directory of the first.
 *  - A verdict of SFT_SCAN_HARMLESS means that loading with *this library* or with an unpickler limited
 *    to the same names executes nothing. It says nothing about the values of the weights.
 *  - Formats are detected by their bytes, never by the name of the file.
 *  - The checksums of stored tensor data (zip CRC-32) are read with SFT_IMPORT_CHECKSUMS alone, which
 *    sft_scan and sft_import_open know and a conversion with SFT_CONVERT_VERIFY sets: an additional pass
 *    over the file. Pickles, short texts and deflated members are always checked.
 *
 * Threads: as in sft/catalog.h. Reports are immutable.
 */
#ifndef SFT_IMPORT_H
#define SFT_IMPORT_H

#include <sft/open.h>
#include <sft/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- formats */

/* Stable numbers. X(name, number, short name, title). From 33 on: what a scan finds beside weights, for
 * a reason of its own; no reader's, and never sft_import_detect()'s. */
#define SFT_IMPORT_FORMAT_MAP(X)                                                                   \
    X(SFT_IMPORT_UNKNOWN, 0, "unknown", "no known format")                                         \
    X(SFT_IMPORT_SAFETENSORS, 1, "safetensors", "safetensors")                                     \
    X(SFT_IMPORT_TORCH_ZIP, 2, "torch-zip", "PyTorch zip archive (1.6 and later)")                 \
    X(SFT_IMPORT_TORCH_LEGACY, 3, "torch-legacy", "PyTorch legacy stream (before 1.6)")            \
    X(SFT_IMPORT_TORCH_TAR, 4, "torch-tar", "PyTorch legacy tar (0.1)")                            \
    X(SFT_IMPORT_PICKLE, 5, "pickle", "Python pickle")                                             \
    X(SFT_IMPORT_DCP, 30, "dcp", "PyTorch distributed checkpoint (DCP)")                           \
    X(SFT_IMPORT_JOBLIB, 31, "joblib", "joblib dump")                                              \
    X(SFT_IMPORT_PT2, 32, "pt2", "PyTorch exported program (.pt2)")                                \
    X(SFT_IMPORT_NPY, 6, "npy", "numpy array")                                                     \
    X(SFT_IMPORT_NPZ, 7, "npz", "numpy archive")                                                   \
    X(SFT_IMPORT_GGUF, 8, "gguf", "GGUF")                                                          \
    X(SFT_IMPORT_ONNX, 9, "onnx", "ONNX model")                                                    \
    X(SFT_IMPORT_MINDSPORE, 10, "mindspore", "MindSpore checkpoint")                               \
    X(SFT_IMPORT_FLAX, 11, "flax", "Flax msgpack")                                                 \
    X(SFT_IMPORT_HDF5, 12, "hdf5", "HDF5 (Keras, h5py)")                                           \
    X(SFT_IMPORT_TF_BUNDLE, 13, "tf-bundle", "TensorFlow checkpoint (tensor bundle)")              \
    X(SFT_IMPORT_KERAS, 14, "keras", "Keras archive (.keras)")                                     \
    X(SFT_IMPORT_ARROW, 15, "arrow", "Apache Arrow")                                               \
    X(SFT_IMPORT_CAPNP, 16, "capnp", "Cap'n Proto message")                                        \
    X(SFT_IMPORT_OTHER, 17, "other", "a known format that holds no weights")                       \
    X(SFT_IMPORT_TFLITE, 18, "tflite", "TensorFlow Lite model (TFLite, LiteRT)")                   \
    X(SFT_IMPORT_PADDLE, 19, "paddle", "Paddle parameters of a static graph (.pdiparams)")         \
    X(SFT_IMPORT_TEXT, 33, "text", "text")                                                         \
    X(SFT_IMPORT_JSON, 34, "json", "JSON")                                                         \
    X(SFT_IMPORT_YAML, 35, "yaml", "YAML")                                                         \
    X(SFT_IMPORT_TEMPLATE, 36, "template", "Jinja template")                                       \
    X(SFT_IMPORT_IMAGE, 37, "image", "image")                                                      \
    X(SFT_IMPORT_GRAPH, 38, "graph", "graph of TensorFlow or Paddle")                              \
    X(SFT_IMPORT_TOKENIZER, 39, "tokenizer", "sentencepiece model")                                \
    X(SFT_IMPORT_NUMBERS, 40, "numbers", "numbers that a file beside it describes")                \
    X(SFT_IMPORT_ARCHIVE, 41, "archive", "archive")                                                \
    X(SFT_IMPORT_PACKED, 42, "compressed", "compressed")                                           \
    X(SFT_IMPORT_MARKER, 43, "marker", "empty, as its name says")

typedef enum sft_import_format {
#define SFT_IMPORT_ENUM(name, number, word, title) name = number,
    SFT_IMPORT_FORMAT_MAP(SFT_IMPORT_ENUM)
#undef SFT_IMPORT_ENUM
        SFT_IMPORT_FORCE_32BIT = 0x7fffffff
} sft_import_format;

/* "torch-zip" and "PyTorch zip archive ..."; the row of UNKNOWN for other numbers. Static. */
SFT_API const char *sft_import_format_name(uint32_t format);
SFT_API const char *sft_import_format_title(uint32_t format);

/* What the bytes behind a source are. SFT_IMPORT_UNKNOWN is no error. Reads at most a few KiB from both
 * ends. The source stays the caller's. */
SFT_API SFT_MUST_CHECK sft_status sft_import_detect(const sft_source *source, uint32_t *format,
                                                    sft_error *err);

/* ---------------------------------------------------------------- options */

/* Several names of the same bytes (same storage, offset, shape, strides and type): which one is the
 * tensor and which are aliases (sft_catalog_alias_at). Views that differ in any of these are tensors of
 * their own. */
typedef enum sft_import_dedup {
    SFT_DEDUP_HF = 0,    /* the smallest name, as Hugging Face's conversion has it */
    SFT_DEDUP_FIRST = 1, /* the first in the file */
    SFT_DEDUP_KEEP = 2,  /* each is a tensor: the bytes are copied */
    SFT_DEDUP_ERROR = 3, /* SFT_E_DUPLICATE */
    /* As HF, and of PyTorch files views that lie in another tensor are names of a part of it, too; so under
     * SFT_IMPORT_KEEP_TREE with HF or FIRST */
    SFT_DEDUP_ALIAS = 4
} sft_import_dedup;

/* Keep going past what is not understood (unknown classes, tensors of unknown kinds, TorchScript
 * archives, whose code is never looked at); the report lists what was left out. Without it the first
 * such thing is SFT_E_UNSUPPORTED. */
#define SFT_IMPORT_ALLOW_OPAQUE 1u
/* Wrong CRC-32s in zip archives are no error (torch.serialization.set_crc32_options(False) writes such). */
#define SFT_IMPORT_NO_CRC 2u
/* Read and check the checksums of large members too: SFT_E_MISMATCH when opening. */
#define SFT_IMPORT_CHECKSUMS 4u
/* Files beside the first one (shards, external data) may be symbolic links to anywhere. */
#define SFT_IMPORT_FOLLOW_LINKS 8u
/* GGUF: give F32 instead of raw blocks, where this library knows the type (docs/import.md); the others
 * stay bytes, with a note in the report. */
#define SFT_IMPORT_DEQUANTIZE 16u
/* The whole tree of dicts, lists, tuples and scalars as JSON with tagged types in the metadata of file 0,
 * key "sft.tree", in the form of docs/tree.md; without a key everything in the file is taken. What the
 * form cannot hold (objects of other classes, quantised tensors) is SFT_E_UNSUPPORTED, or null with
 * ALLOW_OPAQUE. Pickles alone; other formats have no such tree. */
#define SFT_IMPORT_KEEP_TREE 32u

typedef struct sft_import_options {
    size_t struct_size;
    const sft_allocator *allocator; /* must outlive the catalog */
    const sft_limits *limits; /* of names, ranks, tensors; header_bytes: descriptions read whole */
    const char *key; /* part of a nested file: "state_dict", "ema.params"; "." for all of it;
                                       NULL: the state dict is looked for */
    sft_access access;
    uint32_t flags; /* SFT_IMPORT_* */
    sft_import_dedup dedup;
    uint32_t reserved;
    uint64_t memory_bytes;  /* heap while reading and in the catalog; default 192 MiB */
    uint64_t inflate_bytes; /* of deflated members, together; default 1,032 times the file */
    /* Says what the elements of a tensor are where the file does not (bfloat16 in a .npz is two bytes
     * without a type): *dtype is what the file says, and may be set to another of the 22 types whose
     * elements have as many bytes; else SFT_E_DTYPE. May be NULL. Not called for safetensors, which say
     * their types. */
    sft_status (*view_as)(void *ctx, const sft_tensor *tensor, const sft_dtype **dtype,
                          sft_error *err);
    void *view_ctx;
} sft_import_options;

/* ---------------------------------------------------------------- reports */

typedef enum sft_scan_verdict {
    SFT_SCAN_HARMLESS = 0,
    SFT_SCAN_UNKNOWN = 1,  /* nobody vouches for it */
    SFT_SCAN_DANGEROUS = 2 /* would run code, or is a known trick against scanners */
} sft_scan_verdict;

typedef enum sft_finding_kind {
    SFT_FINDING_GLOBAL = 1,    /* a name that a pickle refers to */
    SFT_FINDING_CONTAINER = 2, /* something odd about the archive or stream */
    SFT_FINDING_PICKLE = 3,    /* something odd about a pickle */
    SFT_FINDING_LEFT_OUT = 4,  /* a tensor or object that is not in the catalog */
    SFT_FINDING_BROKEN = 5,    /* why reading stopped */
    SFT_FINDING_NOTE = 6,      /* good to know */
    SFT_FINDING_CONTENT = 7    /* a text, a graph or code in which something acts when it is used */
} sft_finding_kind;

/* Plain data; strings are NUL-terminated, raw bytes of the file (escape them before printing), never
 * NULL, and live as long as the report. */
typedef struct sft_finding {
    uint32_t kind;       /* sft_finding_kind */
    uint32_t verdict;    /* sft_scan_verdict */
    const char *subject; /* "os.system", a tensor's name, a member of an archive, ... */
    const char *rule;    /* stable short name, "global", "crc-mismatch" ...; see docs/import.md */
    const char *message; /* one printable sentence: why */
    uint64_t offset;     /* absolute in the file, or SFT_NO_OFFSET */
    /* times seen; of SFT_FINDING_LEFT_OUT how many tensors it is: 0 if it is none */
    uint64_t count;
} sft_finding;

typedef struct sft_import_report sft_import_report;
SFT_API size_t sft_import_report_count(const sft_import_report *report); /* 0 for NULL */
SFT_API const sft_finding *sft_import_report_at(const sft_import_report *report, size_t index);
SFT_API uint32_t sft_import_report_format(const sft_import_report *report);
SFT_API uint32_t sft_import_report_verdict(const sft_import_report *report); /* the worst of all */
SFT_API void sft_import_report_free(sft_import_report *report);              /* NULL is fine */

/* ---------------------------------------------------------------- reading */

/* Opens a file of any known format (safetensors included) as a catalog; or an index of shards (an object
 * with weight_map, as Hugging Face writes it) of files of any known format beside it; or a directory with
 * pytorch_model.bin, flax_model.msgpack, or the index of one, else as sft_catalog_open does. No tensor data
 * is read. What index and files disagree about is SFT_E_SHARD_DISAGREES. A prefix or a directory of
 * TensorFlow's stands for an index: sft_import_locate. Its data is in files beside it (SFT_E_SHARD_MISSING).
 * report: NULL, or owned by the caller on success (sft_import_report_free), NULL on failure.
 * Errors: SFT_E_FORMAT (no known format, or known and refused: the sentence says which),
 * SFT_E_UNSUPPORTED (something that SFT_IMPORT_ALLOW_OPAQUE would leave out), SFT_E_SCHEMA (damaged or
 * contradictory), SFT_E_MISMATCH (checksum), SFT_E_NOT_FOUND (key), SFT_E_LIMIT (a budget), ... */
SFT_API SFT_MUST_CHECK sft_status sft_import_open(sft_catalog **out, const char *path,
                                                  const sft_import_options *options,
                                                  sft_import_report **report, sft_error *err);
/* The file that sft_import_open and sft_scan open for a path: the path itself, or where no file is there the
 * index of TensorFlow's that it stands for: PATH.index, PATH/variables/variables.index (a SavedModel),
 * PATH/variables.index, or the one that PATH/checkpoint names last, if that lies in PATH.
 * found: `size` bytes, NUL-terminated. Errors: as sft_source_open for the path; SFT_E_PATH (PATH/checkpoint
 * names something elsewhere), SFT_E_LIMIT (no room in `found`). */
SFT_API SFT_MUST_CHECK sft_status sft_import_locate(char *found, size_t size, const char *path,
                                                    sft_error *err);
/* The same over a source of one's own, which is taken over in every case. Formats whose data lies in
 * other files are SFT_E_UNSUPPORTED. */
SFT_API SFT_MUST_CHECK sft_status sft_import_open_source(sft_catalog **out, sft_source *source,
                                                         const sft_import_options *options,
                                                         sft_import_report **report,
                                                         sft_error *err);

/* For sft_open: options are sft_import_options, which take what is NULL or 0 in them (allocator, limits,
 * access) from the options of the door. Behind sft_catalog_opener it takes what that one refused and the
 * bytes say is another format, directories and indexes of such files, and the paths of sft_import_locate;
 * what it does not know stays refused with the reason given before. Without an opener before it, it takes
 * all that sft_import_open does. */
SFT_API const sft_opener *sft_import_opener(void);
/* What was found while the catalog was opened by sft_import_opener: the caller's from here on. NULL:
 * another opener made it, or it was taken before. Not while other threads use the catalog. */
SFT_API sft_import_report *sft_import_report_take(sft_catalog *catalog);

/* ---------------------------------------------------------------- scanning */

/* Everything that is to be said about a file, by the same code that would load it. A file that is
 * hostile or broken is no error: the report says so. Errors: SFT_E_IO, SFT_E_NOMEM, SFT_E_ARG ... */
SFT_API SFT_MUST_CHECK sft_status sft_scan(sft_import_report **out, const char *path,
                                           const sft_import_options *options, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_scan_source(sft_import_report **out, sft_source *source,
                                                  const sft_import_options *options,
                                                  sft_error *err);

/* ---------------------------------------------------------------- converting */

/* One tensor on its way: filled in with what it is, changed by `choose`. */
typedef struct sft_import_item {
    const sft_catalog *catalog;
    const sft_tensor *tensor;
    /* its name, or another name of it that the input has; changed by `choose`, it must live until
     * the conversion ends */
    const char *name;
    size_t name_len;
    const sft_dtype *dtype; /* in the output */
    uint64_t nbytes;        /* in the output; filled in after choose */
    uint32_t take;          /* 1; set to 0 to leave it out */
    uint32_t file;          /* which output file, from 0; filled in after choose */
} sft_import_item;

#define SFT_CONVERT_VERIFY                                                                         \
    1u /* read the output again and compare every byte with the input, whose own
                                  checksums are checked, too (unless SFT_IMPORT_NO_CRC) */
#define SFT_CONVERT_PLAN        2u /* call `planned` for every tensor, and do nothing */
#define SFT_CONVERT_REPLACE     4u /* files that exist are replaced; else SFT_E_EXISTS */
#define SFT_CONVERT_NO_METADATA 8u /* neither "format" nor aliases are recorded */
#define SFT_CONVERT_KEEP_NAMES                                                                     \
    32u /* other names of tensors, and parts that these show, become tensors */
/* Tensors whose elements lie in another order are read from the mapping of their file: about twice as
 * fast, but with the hazard of sft_tensor_borrow (a file truncated meanwhile raises a signal instead of an
 * error). Pages of the file stay mapped while such a tensor is converted: they are the system's cache, and no
 * part of the memory that is promised below. */
#define SFT_CONVERT_BORROW 16u

typedef struct sft_import_convert_options {
    size_t struct_size;
    const sft_import_options *read; /* NULL: defaults */
    /* NULL: defaults. allocator, pool and control are used throughout; order: reference unless
     * DECLARED; flags and order_list are ignored */
    const sft_write_options *write;
    /* Called for every name of every tensor of every input before anything is written: the tensor's own,
     * then its other names (sft_catalog_alias_at). The first that is taken is the tensor's in the output;
     * all that are taken must agree about the type. May be NULL. */
    sft_status (*choose)(void *ctx, sft_import_item *item, sft_error *err);
    /* Called for every tensor of the output, in the order of its file; may be NULL. */
    void (*planned)(void *ctx, const sft_import_item *item);
    void *ctx;
    const sft_metadata_entry *metadata; /* beside or instead of what the inputs have */
    size_t metadata_count;
    uint64_t max_shard_bytes; /* of tensor data in one file; 0: one file */
    uint32_t flags;           /* SFT_CONVERT_* */
    uint32_t reserved;
    /* Gives the source behind an input that is no path (a URL, say), owned by the conversion from then on;
     * *out stays NULL for a path. May be NULL. */
    sft_status (*open)(void *ctx, const char *input, sft_source **out, sft_error *err);
    /* Called for what was cast, by any thread of the pool: n elements in the tensor's type and in the item's,
     * both little-endian and whole blocks. May be NULL. */
    void (*casted)(void *ctx, const sft_import_item *item, const void *before, const void *after,
                   size_t n);
    /* Called once when all bytes are written, before the first file gets its name: the place to put what
     * belongs beside them. What it returns but SFT_OK ends the conversion; nothing appears. May be NULL. */
    sft_status (*ready)(void *ctx, sft_error *err);
    void *ready_ctx;
    /* Called for every input when it is open: may put another catalog in its place, which then owns the one
     * before (sft_catalog_attach), of other names, say. If it fails it leaves *catalog as it was, or NULL.
     * May be NULL. */
    sft_status (*opened)(void *ctx, const char *input, sft_catalog **catalog, sft_error *err);
} sft_import_convert_options;

typedef struct sft_import_converted {
    uint64_t tensors;
    uint64_t aliases;  /* other names, recorded in the metadata */
    uint64_t left_out; /* by choose, and of the findings SFT_FINDING_LEFT_OUT of the report */
    uint64_t cast;
    uint64_t gathered;     /* tensors whose elements did not lie in order */
    uint64_t data_bytes;   /* of the output */
    uint64_t file_bytes;   /* of all output files */
    uint64_t unused_bytes; /* of the inputs: belong to no tensor, stay behind */
    uint64_t files;
    uint64_t verified; /* tensors compared */
} sft_import_converted;

/* ---------------------------------------------------------------- metadata about tensors */

typedef enum sft_import_named {
    SFT_IMPORT_NAME_HERE = 0,   /* the tensor is in the output, *now is its name there */
    SFT_IMPORT_NAME_GONE = 1,   /* it is not, or is something else */
    SFT_IMPORT_NAME_UNKNOWN = 2 /* no tensor has the name */
} sft_import_named;
/* What becomes of a tensor of the input by its name. */
typedef sft_import_named (*sft_import_namer)(void *ctx, const char *name, size_t len,
                                             const char **now, size_t *now_len);

/* Does the entry describe tensors by their names (gguf.tensors, onnx:NAME, tflite:NAME, flax:NAME,
 * arrow.dim_names:NAME)? */
SFT_API int sft_import_describes(const sft_metadata_entry *entry);
/* The entry for tensors under their names in an output; out->key NULL: it describes none of them.
 * memory: what `out` points into beside `entry`, of memory_size bytes of the allocator's (NULL: none). */
SFT_API SFT_MUST_CHECK sft_status sft_import_describe(
    sft_metadata_entry *out, char **memory, size_t *memory_size, const sft_metadata_entry *entry,
    sft_import_namer namer, void *ctx, const sft_allocator *allocator, sft_error *err);

/* Is the entry an object of which each file of a model has its own: of its blocks (gguf.tensors), of its
 * metadata's types (gguf.types)? */
SFT_API int sft_import_collects(const sft_metadata_entry *entry);
typedef struct sft_import_collection {
    const sft_catalog *const *catalogs;
    size_t count;
    /* What becomes of a tensor of a catalog; NULL: all are in the output, under their names. */
    sft_import_named (*namer)(void *ctx, const sft_catalog *catalog, const sft_tensor *tensor,
                              const char **now, size_t *now_len);
    void *ctx;
    const sft_allocator *allocator; /* NULL: malloc */
} sft_import_collection;
/* The objects that all files of the catalogs have under the key as one: of a tensor what its own file says,
 * else the first that says something; of an entry of the metadata the first file that has it. out, memory: as
 * above; out->key NULL: nothing is left of it. SFT_E_SCHEMA: one of them is no object. */
SFT_API SFT_MUST_CHECK sft_status sft_import_collect(sft_metadata_entry *out, char **memory,
                                                     size_t *memory_size,
                                                     const sft_metadata_entry *like,
                                                     const sft_import_collection *from,
                                                     sft_error *err);

typedef void (*sft_import_retyped_fn)(void *ctx, const sft_metadata_entry *entry);
/* Calls `tell` once for every key under which a file has the text of the first that has it, while their
 * gguf.types say that the values are not the same: a number of another type, or other bytes behind U+FFFD.
 * Where files are put together, the first one's type stays. from: catalogs, count, allocator. Time and
 * memory: in proportion to the metadata. */
SFT_API SFT_MUST_CHECK sft_status sft_import_retyped(const sft_import_collection *from,
                                                     sft_import_retyped_fn tell, void *ctx,
                                                     sft_error *err);

/* Converts files of any known format into safetensors: one file, or with max_shard_bytes shards with an
 * index if one is not enough (OUT.safetensors becomes OUT-00001-of-00003.safetensors ... and
 * OUT.safetensors.index.json). A single input that is a directory with pytorch_model.bin (and its index)
 * becomes model.safetensors, or shards of the same numbers with their index, in the directory `output`,
 * which must exist; with `choose` shards at most as large as the largest of the input. Each file appears
 * complete or not at all; the index last. After a failure files that this call made are removed; those that
 * it replaced stay as they are.
 * Metadata "format": "pt" for PyTorch inputs, and one entry per alias (alias: name of the tensor), as
 * Hugging Face's conversion writes it.
 * result, report: may be NULL; report is about all inputs, its format that of the last.
 * Memory: at most 64 MiB beyond the catalogs, whatever the sizes.
 * Errors: those of sft_import_open and sft_writer; SFT_E_DUPLICATE for a name that two inputs have;
 * SFT_E_DTYPE for a type that safetensors has not; SFT_E_MISMATCH if what was written reads back
 * differently. */
SFT_API SFT_MUST_CHECK sft_status sft_import_convert(const char *const *inputs, size_t count,
                                                     const char *output,
                                                     const sft_import_convert_options *options,
                                                     sft_import_converted *result,
                                                     sft_import_report **report, sft_error *err);

/* ---------------------------------------------------------------- into other formats */

typedef struct sft_export_options {
    size_t struct_size;
    const sft_allocator *allocator;
    const sft_pool *pool; /* blocks are read and written by its workers; NULL: the calling thread */
    const sft_control *control;
    /* As in sft_import_convert_options; may be NULL. */
    sft_status (*choose)(void *ctx, sft_import_item *item, sft_error *err);
    void (*planned)(void *ctx, const sft_import_item *item);
    void *ctx;
    /* beside or instead of the catalog's, where the format has room for any; else
     * SFT_E_UNSUPPORTED */
    const sft_metadata_entry *metadata;
    size_t metadata_count;
    uint64_t piece_bytes; /* of formats that cut tensors: at most this much in one; 0: as they do */
    sft_durability durability;
    uint32_t flags; /* SFT_CONVERT_* */
    /* What of the catalog the file does not hold (metadata, other names), as findings; NULL: not wanted.
     * Owned by the caller on success (sft_import_report_free), NULL on failure. */
    sft_import_report **report;
    /* As in sft_import_convert_options. */
    void (*casted)(void *ctx, const sft_import_item *item, const void *before, const void *after,
                   size_t n);
} sft_export_options;

/* Writes the tensors of a catalog (of any format) into one file of another format: SFT_IMPORT_NPZ, ...
 * (docs/import.md has the list).
 * What the format cannot hold (a type, a name, a rank) is SFT_E_UNSUPPORTED, before anything is written:
 * cast it or leave it out with `choose`. PyTorch files have the catalog's aliases; elsewhere they are not
 * written, and named in the report: open the input with SFT_DEDUP_KEEP to have each name. The file appears
 * complete or not at all. Strided tensors are put in order, checksums that the format has are computed on
 * the way: each byte is read once.
 * result: may be NULL. Memory: at most 64 MiB beyond the catalog, whatever the sizes.
 * Errors: those of reading; SFT_E_FORMAT (no writer for it), SFT_E_EXISTS, SFT_E_NOT_REGULAR,
 * SFT_E_MISMATCH (VERIFY: read again by this library's own reader), SFT_E_NOT_COMMITTED,
 * SFT_E_DURABILITY. */
SFT_API SFT_MUST_CHECK sft_status sft_import_export(const sft_catalog *catalog, uint32_t format,
                                                    const char *path,
                                                    const sft_export_options *options,
                                                    sft_import_converted *result, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
