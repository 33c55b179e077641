/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tensorflow/tf.h - TensorFlow's checkpoints: the table that an index is (tf_table.c), what
 * its entries say (tf.c, tf_slices.c) and where the tensors lie (tf_data.c), and the paths that stand for an
 * index (tf_path.c). Sources: tensorflow/core/lib/io/{format,block}.cc,
 * core/protobuf/tensor_bundle.proto, core/util/tensor_bundle, core/util/saved_tensor_slice_util.cc.
 * Read first: wire.h.
 */
#ifndef SFT_IMPORT_TF_H
#define SFT_IMPORT_TF_H

#include "base/text/strmap.h"
#include "import/core/wire.h"

enum { SFT__TF_KEY = 1 << 18, SFT__TF_SHARDS = 65536, SFT__TF_PATH = 4096 };

/* ---------------------------------------------------------------- the table */

/* One entry of the table: bytes in memory until the next one. */
typedef struct sft__import_tf_pair {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_len;
    size_t value_len;
    uint64_t at; /* of the value in the file */
} sft__import_tf_pair;

typedef sft_status (*sft__import_tf_fn)(void *ctx, const sft__import_tf_pair *pair, sft_error *err);

/* Calls fn for every entry, keys ascending. What a reader that searches and one that walks could
 * see differently is refused: order, restart points, keys of the index, blocks used twice. */
sft_status sft__import_tf_table(sft__import *job, sft__import_tf_fn fn, void *ctx, sft_error *err);
/* Does it end as a table does? */
bool sft__import_tf_is_table(const sft_source *source);
/* CRC32C as tables and bundles store it. Pure. */
uint32_t sft__import_tf_masked(uint32_t crc);

/* ---------------------------------------------------------------- the bundle */

/* Bytes of a shard. */
typedef struct sft__import_tf_place {
    uint64_t shard;
    uint64_t offset;
    uint64_t size;
} sft__import_tf_place;

/* A BundleEntryProto. */
typedef struct sft__import_tf_entry {
    const sft_dtype *dtype; /* NULL: no tensor that the catalog can have */
    const uint8_t *slices;  /* the first field of slices in the entry; NULL: none */
    uint64_t slice_count;
    uint64_t type;
    uint64_t at; /* in the file */
    sft__import_wire_dims dims;
    sft__import_tf_place place;
    uint32_t crc; /* masked */
    bool has_shape;
} sft__import_tf_entry;

/* The bytes of one slice of a partitioned variable, stored under a key of its own. */
typedef struct sft__import_tf_slice {
    const char *key; /* as base/text/strmap.h wants it: name, length */
    size_t key_len;
    const uint64_t *dims;
    const sft_dtype *dtype;
    sft__import_tf_place place;
    uint64_t at;
    uint32_t crc;
    uint32_t rank;
    bool used;
} sft__import_tf_slice;

typedef struct sft__import_tf_shard {
    const sft_source *source; /* the builder's; NULL: not opened yet */
    uint64_t size;
    uint32_t index;
} sft__import_tf_shard;

typedef struct sft__import_tf {
    sft__import *job;
    const char *stem; /* "variables" of .../variables.index */
    sft__import_tf_shard *shards;
    uint64_t shard_count; /* 0: the header was not read yet */
    sft__import_tf_slice *slices;
    size_t slice_count;
    size_t slice_room;
    sft__base_strmap map;         /* of the slices, once all are known */
    sft__import_tf_place *places; /* of everything */
    size_t place_count;
    size_t place_room;
    uint64_t key_bytes; /* of all keys so far */
    uint64_t pairs;     /* of slices compared so far */
    bool mapped;
    bool big; /* numbers of the data are big-endian */
} sft__import_tf;

/* Opens the shard, compares place and bounds, and with SFT_IMPORT_CHECKSUMS the bytes. piece: where
 * the elements are for the catalog, in little-endian order. */
sft_status sft__import_tf_data(sft__import_tf *tf, const sft_tensor *t,
                               const sft__import_tf_place *place, uint32_t crc, sft_piece *piece,
                               sft_error *err);
/* Keeps the place, for check_places: no byte of a shard belongs to two tensors; what belongs to none is
 * told. */
sft_status sft__import_tf_keep_place(sft__import_tf *tf, const sft__import_tf_place *p,
                                     sft_error *err);
sft_status sft__import_tf_check_places(sft__import_tf *tf, sft_error *err);
/* A slice's entry is kept; a variable in slices is put together from them. e: with its slices. */
sft_status sft__import_tf_slice_keep(sft__import_tf *tf, const sft__import_tf_pair *pair,
                                     const sft__import_tf_entry *e, sft_error *err);
sft_status sft__import_tf_slices(sft__import_tf *tf, const sft__import_tf_pair *pair,
                                 const sft__import_tf_entry *e, sft_tensor *t, sft_error *err);
/* Slices that no variable has. */
sft_status sft__import_tf_slices_end(sft__import_tf *tf, sft_error *err);

/* ---------------------------------------------------------------- paths */

/* The index that a path which is no file stands for: PATH.index, the variables of the SavedModel
 * PATH, PATH/variables.index, or what PATH/checkpoint names last. SFT_E_NOT_FOUND: none;
 * SFT_E_PATH: PATH/checkpoint names something elsewhere. found: SFT__TF_PATH bytes. */
sft_status sft__import_tf_locate(const char *path, const sft_import_options *options, char *found,
                                 sft_error *err);

#endif
