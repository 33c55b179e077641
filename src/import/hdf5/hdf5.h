/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5.h - what the parts of the HDF5 reader share: bytes of a file by address, object
 * headers, groups, datasets, chunks. Everything is read by explicit stacks; each block of metadata
 * is charged to one budget, so that nodes that refer to each other end. Nothing outside the file
 * is ever opened. Source: HDF5 File Format Specification 3.0. Read first: import.h.
 */
#ifndef SFT_IMPORT_HDF5_H
#define SFT_IMPORT_HDF5_H

#include "import/core/import.h"

enum {
    SFT__H5_RANK = 32,
    SFT__H5_FILTERS = 8,
    SFT__H5_WINDOW = 8192,
    SFT__H5_WINDOWS = 8,
    SFT__H5_LZF = 32000,        /* h5py's filter */
    SFT__H5_LOOKED = 128 << 20, /* bytes of a file in which a scan looks for pickles */
    SFT__H5_NAME_MAX = 65536    /* of a path */
};

#define SFT__H5_UNDEF UINT64_MAX

/* Types of messages in object headers. */
enum {
    SFT__H5_DATASPACE = 0x01,
    SFT__H5_LINK_INFO = 0x02,
    SFT__H5_DATATYPE = 0x03,
    SFT__H5_FILL_OLD = 0x04,
    SFT__H5_FILL = 0x05,
    SFT__H5_LINK = 0x06,
    SFT__H5_EXTERNAL = 0x07,
    SFT__H5_LAYOUT = 0x08,
    SFT__H5_FILTER = 0x0b,
    SFT__H5_ATTRIBUTE = 0x0c,
    SFT__H5_CONTINUE = 0x10,
    SFT__H5_SYMBOLS = 0x11,
    SFT__H5_DRIVER = 0x14,
    SFT__H5_ATTRIBUTES = 0x15,
    SFT__H5_CACHE_IMAGE = 0x18
};

/* Memory that grows; freed with the reading. */
typedef struct sft__import_h5_buf {
    uint8_t *data;
    size_t room;
} sft__import_h5_buf;

typedef struct sft__import_h5_window {
    uint64_t at; /* of the source; UINT64_MAX: empty */
    size_t len;
    uint64_t used;
    uint8_t bytes[SFT__H5_WINDOW];
} sft__import_h5_window;

typedef struct sft__import_h5_message {
    uint32_t type;
    uint32_t flags;
    uint64_t addr; /* of its body */
    size_t offset; /* of its body, in the object's bytes */
    size_t len;
} sft__import_h5_message;

/* An object header, all of its blocks. */
typedef struct sft__import_h5_object {
    uint64_t addr;
    sft__import_h5_message *messages;
    size_t count;
    size_t room;
    sft__import_h5_buf bytes;
    size_t used;
} sft__import_h5_object;

/* A node of a tree that is still to be read. */
typedef struct sft__import_h5_node {
    uint64_t addr;
    uint64_t records;
    uint32_t level;
} sft__import_h5_node;

/* Something that a group's links lead to. */
typedef struct sft__import_h5_link {
    const char *name; /* in the job's memory: the path from the root. name, len first: a strmap */
    size_t len;
    uint64_t addr;      /* UNDEF: a soft link */
    const char *target; /* of a soft link */
    size_t target_len;
} sft__import_h5_link;

typedef struct sft__import_h5_links {
    sft__import_h5_link *at;
    size_t count;
    size_t room;
} sft__import_h5_links;

typedef struct sft__import_h5_extent {
    uint64_t at;
    uint64_t size;
} sft__import_h5_extent;

/* Addresses that were met, with a number each. */
typedef struct sft__import_h5_seen {
    uint64_t *slots; /* pairs: address + 1, number */
    size_t room;     /* pairs, a power of two */
    size_t count;
    uint64_t key[2];
} sft__import_h5_seen;

typedef struct sft__import_h5 {
    sft__import *job;
    const sft_source *source;
    uint32_t index; /* of the source in the builder */
    uint64_t base;  /* where the superblock lies: addresses count from here */
    uint64_t end;   /* of the addresses */
    uint64_t root;
    uint32_t offset_size;
    uint32_t length_size;
    uint64_t budget; /* bytes of metadata that may still be read */
    uint64_t places; /* of chunks that may still be gone through, whether one is there or not */
    uint64_t tick;
    sft__import_h5_window *windows;
    sft__import_h5_object object; /* the one being read */
    sft__import_h5_object shared; /* a committed datatype */
    sft__import_h5_buf node;      /* of a tree or a heap */
    sft__import_h5_buf heap;      /* names of a group; a block of a fractal heap */
    sft__import_h5_buf more;
    sft__import_h5_node *todo; /* nodes of a tree */
    size_t todo_count;
    size_t todo_room;
    sft__import_h5_links stack; /* links to follow */
    sft__import_h5_links soft;
    sft__import_h5_links tensors; /* what was added, under its full path */
    sft__import_h5_seen seen;
    sft__import_h5_extent *extents; /* of data */
    size_t extent_count;
    size_t extent_room;
    struct sft__import_h5_decoder *decoder;   /* shared by the chunked tensors; made on first use */
    uint32_t zeros;                           /* source of 16 zero bytes; 0: none yet */
    uint64_t others;                          /* objects that are no tensors */
    const struct sft__import_h5_wanted *want; /* only texts are looked for */
    uint64_t matched;                         /* tensors below the key that was asked for */
} sft__import_h5;

/* ---------------------------------------------------------------- bytes (hdf5_in.c) */

/* Where the superblock of an HDF5 file lies, or UINT64_MAX. */
uint64_t sft__import_h5_find(const sft_source *source);
/* Reads the superblock. */
sft_status sft__import_h5_start(sft__import_h5 *h, sft_error *err);
sft_status sft__import_h5_bad(const sft__import_h5 *h, uint64_t addr, sft_error *err,
                              const char *what);
/* n bytes at an address; `what` is for the error. */
sft_status sft__import_h5_read(sft__import_h5 *h, uint64_t addr, void *dst, size_t n,
                               const char *what, sft_error *err);
/* Charges work to the budget of metadata, or on places of chunks to theirs. */
sft_status sft__import_h5_charge(sft__import_h5 *h, uint64_t addr, uint64_t n, sft_error *err);
sft_status sft__import_h5_charge_places(sft__import_h5 *h, uint64_t addr, uint64_t n,
                                        sft_error *err);
/* The same into memory that grows. */
sft_status sft__import_h5_block(sft__import_h5 *h, sft__import_h5_buf *buf, uint64_t addr,
                                uint64_t n, const char *what, sft_error *err);
/* The last four of n bytes are the checksum of the others: SFT_E_MISMATCH. */
sft_status sft__import_h5_sum(const sft__import_h5 *h, const uint8_t *bytes, size_t n,
                              uint64_t addr, const char *what, sft_error *err);
sft_status sft__import_h5_room(sft__import_h5 *h, sft__import_h5_buf *buf, size_t n,
                               sft_error *err);
/* Makes room for one more element of a growing array, at most a quarter of the memory limit. */
sft_status sft__import_h5_grow(sft__import_h5 *h, void *array, size_t *room, size_t count,
                               size_t size, sft_error *err);
sft_status sft__import_h5_push(sft__import_h5 *h, uint64_t addr, uint64_t records, uint32_t level,
                               sft_error *err);
/* The number an address was given before (*met), or gives it this one. */
sft_status sft__import_h5_meet(sft__import_h5 *h, uint64_t addr, uint64_t number, uint64_t *met,
                               bool *was, sft_error *err);
/* Another number for an address that was met. */
void sft__import_h5_number(sft__import_h5 *h, uint64_t addr, uint64_t number);

/* Little-endian, 1 to 8 bytes. */
uint64_t sft__import_h5_uint(const uint8_t *p, size_t n);
/* Bytes to hold numbers up to `limit`. */
uint32_t sft__import_h5_width(uint64_t limit);

/* A cursor over bytes in memory: beyond its end it gives zeros and says so. */
typedef struct sft__import_h5_in {
    const uint8_t *p;
    size_t left;
    bool bad;
} sft__import_h5_in;
uint64_t sft__import_h5_take(sft__import_h5_in *in, size_t n); /* a number of 1 to 8 bytes */
uint64_t sft__import_h5_take_addr(const sft__import_h5 *h,
                                  sft__import_h5_in *in);            /* UNDEF if all bits are set */
const uint8_t *sft__import_h5_skip(sft__import_h5_in *in, size_t n); /* NULL: not there */

/* ---------------------------------------------------------------- objects (hdf5_object.c) */

sft_status sft__import_h5_object_read(sft__import_h5 *h, sft__import_h5_object *o, uint64_t addr,
                                      sft_error *err);
const sft__import_h5_message *sft__import_h5_message_find(const sft__import_h5_object *o,
                                                          uint32_t type);
static inline sft__import_h5_in sft__import_h5_body(const sft__import_h5_object *o,
                                                    const sft__import_h5_message *m) {
    const sft__import_h5_in in = {o->bytes.data + m->offset, m->len, false};
    return in;
}
void sft__import_h5_object_reset(sft__import_h5 *h, sft__import_h5_object *o);

/* ---------------------------------------------------------------- trees and heaps (hdf5_heap.c) */

/* Calls each(ctx, record, size) for every record of a B-tree of version 2, in no order. */
typedef sft_status (*sft__import_h5_each)(void *ctx, const uint8_t *record, size_t size,
                                          sft_error *err);
sft_status sft__import_h5_tree2(sft__import_h5 *h, uint64_t addr, uint32_t type,
                                sft__import_h5_each each, void *ctx, sft_error *err);
typedef struct sft__import_h5_named {
    uint64_t heap;
    uint64_t tree;
    uint32_t type; /* of the tree's records */
    size_t skip;   /* bytes of a record before the heap's id */
} sft__import_h5_named;

/* The objects of a fractal heap that the tree's records name. each gets the bytes of the object. */
sft_status sft__import_h5_dense(sft__import_h5 *h, sft__import_h5_named named,
                                sft__import_h5_each each, void *ctx, sft_error *err);

/* ---------------------------------------------------------------- groups (hdf5_group.c) */

bool sft__import_h5_is_group(const sft__import_h5_object *o);
/* Puts the links of h->object onto the stack, so that they are taken in the order of their names.
 */
sft_status sft__import_h5_group(sft__import_h5 *h, const char *path, size_t path_len,
                                sft_error *err);

/* ---------------------------------------------------------------- datasets */

typedef struct sft__import_h5_type {
    const sft_dtype *dtype; /* NULL: `why` says what it is */
    const char *why;
    uint32_t size;
    uint32_t unit; /* bytes to be turned round; 0: little-endian */
    bool bare;     /* bytes without a meaning */
    bool lists;    /* of bytes, each of any length: they lie somewhere else in the file */
} sft__import_h5_type;

typedef struct sft__import_h5_filter {
    uint32_t id;
    uint32_t value; /* the first one of its parameters */
} sft__import_h5_filter;

typedef struct sft__import_h5_dataset {
    const char *name;
    size_t name_len;
    uint64_t addr; /* of its object header */
    sft__import_h5_type type;
    uint32_t rank;
    bool empty; /* a dataspace without a shape */
    bool bytes; /* of no type of ours: a scan reads elements as bytes, one dimension more */
    uint64_t shape[SFT__H5_RANK];
    uint64_t most[SFT__H5_RANK]; /* shape it may grow to; UINT64_MAX: any */
    uint64_t elements;
    uint64_t nbytes;
    uint32_t layout; /* 0 compact, 1 contiguous, 2 chunked, 3 virtual */
    uint64_t data;   /* address: of the data or of the index of the chunks */
    uint64_t data_size;
    uint32_t index; /* of chunks: 0 B-tree 1; 1 single, 2 implicit, 3 fixed, 4 extensible, 5 tree */
    uint64_t chunk[SFT__H5_RANK];
    uint64_t chunk_bytes;
    uint32_t single_mask;
    bool partial_plain; /* chunks at the edge are not filtered */
    uint32_t filter_count;
    sft__import_h5_filter filters[SFT__H5_FILTERS];
    uint8_t fill[16]; /* as in the file */
} sft__import_h5_dataset;

/* Reads the messages of h->object (hdf5_dataset.c). *why: what it is, if it is nothing this reader
 * takes. */
sft_status sft__import_h5_dataset_read(sft__import_h5 *h, sft__import_h5_dataset *d,
                                       const char **why, sft_error *err);
/* Names the arrays of numbers in the attributes of h->object (hdf5_attribute.c). */
sft_status sft__import_h5_attributes(sft__import_h5 *h, const char *path, size_t len,
                                     sft_error *err);
/* The text of the attribute of this name, cut to cap - 1 bytes; empty if there is none. */
sft_status sft__import_h5_attribute(sft__import_h5 *h, const char *name, char *text, size_t cap,
                                    sft_error *err);
/* The same; *met: there is one of this name, though it may hold no single text. */
sft_status sft__import_h5_attribute_met(sft__import_h5 *h, const char *name, char *text, size_t cap,
                                        bool *met, sft_error *err);
/* The text that the dataset in h->object is; empty if it is none that can be read. */
sft_status sft__import_h5_dataset_text(sft__import_h5 *h, char *text, size_t cap, sft_error *err);
/* The type of a message's body (hdf5_type.c). */
sft_status sft__import_h5_type_read(sft__import_h5 *h, const sft__import_h5_object *o,
                                    const sft__import_h5_message *m, sft__import_h5_type *type,
                                    sft_error *err);

/* Adds it to the catalog: `name` is what it is called there (hdf5_add.c). */
sft_status sft__import_h5_add(sft__import_h5 *h, const sft__import_h5_dataset *d, const char *name,
                              size_t name_len, sft_error *err);
sft_status sft__import_h5_overlaps(sft__import_h5 *h, sft_error *err);

/* ---------------------------------------------------------------- chunks */

typedef struct sft__import_h5_chunk {
    uint64_t place; /* in the grid, row-major */
    uint64_t addr;
    uint64_t size; /* in the file */
    uint32_t mask; /* filters that were left out */
} sft__import_h5_chunk;

typedef struct sft__import_h5_chunks {
    sft__import_h5_chunk *at; /* in the order of their places */
    size_t count;
    size_t room;
    uint64_t grid[SFT__H5_RANK];
    uint64_t most[SFT__H5_RANK]; /* the grid that the index counts in; UINT64_MAX: any */
    uint64_t total;              /* of the grid */
    uint32_t grows;              /* the dimension that numbers count first; the rank: none */
} sft__import_h5_chunks;

/* The chunks that are there (hdf5_chunk.c, hdf5_array.c). Free `at` with the job's allocator. */
sft_status sft__import_h5_chunks_read(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                      sft__import_h5_chunks *c, sft_error *err);
/* Does the chunk lie in the file? */
sft_status sft__import_h5_chunk_inside(const sft__import_h5 *h, const sft__import_h5_dataset *d,
                                       const sft__import_h5_chunk *chunk, sft_error *err);
/* One chunk at these coordinates of the grid; those beyond it are passed over. */
sft_status sft__import_h5_chunk_put(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                    sft__import_h5_chunks *c, const uint64_t *place,
                                    const sft__import_h5_chunk *chunk, sft_error *err);
/* The same by a number in the grid of `most`. */
sft_status sft__import_h5_chunk_number(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                       sft__import_h5_chunks *c, uint64_t number,
                                       const sft__import_h5_chunk *chunk, sft_error *err);
sft_status sft__import_h5_fixed_array(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                      sft__import_h5_chunks *c, sft_error *err);
sft_status sft__import_h5_extensible_array(sft__import_h5 *h, const sft__import_h5_dataset *d,
                                           sft__import_h5_chunks *c, sft_error *err);

/* The chunks, decoded, one behind the other, as a source (hdf5_filter.c). */
sft_status sft__import_h5_chunk_source(sft_source **out, sft__import_h5 *h,
                                       const sft__import_h5_dataset *d,
                                       const sft__import_h5_chunks *c, sft_error *err);
/* LZF; false: damaged, or more than `room` bytes come out (hdf5_lzf.c). */
bool sft__import_h5_unlzf(const uint8_t *src, size_t n, uint8_t *dst, size_t room, size_t *out);
void sft__import_h5_decoder_drop(struct sft__import_h5_decoder *decoder);

/* ---------------------------------------------------------------- the whole (hdf5.c) */

/* Adds the tensors of the HDF5 file that `source` is; it is source `index` of the builder. */
sft_status sft__import_hdf5_add(sft__import *job, const sft_source *source, uint32_t index,
                                sft_error *err);

/* Texts that are looked for under these names: attributes of any object, and datasets. each gets
 * the path of what holds it, and the text in `text` (cap bytes), empty if it could not be read. */
typedef struct sft__import_h5_wanted {
    const char *const *names;
    size_t count;
    char *text;
    size_t cap;
    sft_status (*each)(void *ctx, const char *path, size_t len, const char *name, sft_error *err);
    void *ctx;
} sft__import_h5_wanted;
sft_status sft__import_hdf5_texts(const sft__import *job, const sft_source *source,
                                  const sft__import_h5_wanted *want, sft_error *err);

#endif
