/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch.h - from the nodes of a pickle to tensors: what all PyTorch containers share (and
 * Paddle's and plain pickles of numpy arrays). A container fills in the storages that persistent
 * ids name; torch_eval.c turns calls into tensors, torch_tree.c walks the tree, names what it finds
 * and adds it to the catalog.
 */
#ifndef SFT_IMPORT_TORCH_H
#define SFT_IMPORT_TORCH_H

#include "base/text/strmap.h"
#include "import/pickle/pickle.h"

/* KEY_MAX: of a storage, which is a number as text; each mention is looked up. */
enum { SFT__TORCH_RANK_MAX = 64, SFT__TORCH_KEY_MAX = 512 };

/* Where a storage lies. */
typedef struct sft__import_storage {
    const char *key; /* key, len first for the name table */
    size_t key_len;
    const sft_dtype *dtype; /* NULL: untyped, elements are bytes */
    uint64_t elements;
    uint64_t bytes;
    uint64_t offset; /* in the source */
    uint32_t source; /* of the builder */
    bool placed;
    const sft_source *data;
} sft__import_storage;

/* A strided view of a storage, or of any stretch of a source. */
typedef struct sft__import_view {
    const sft_source *data;
    uint32_t source;
    uint32_t rank;
    uint64_t low; /* the stretch that the view must lie in: bytes [low, high) of the source */
    uint64_t high;
    uint64_t first; /* byte of element 0 */
    const sft_dtype *dtype;
    uint64_t *shape;
    int64_t *strides; /* bytes */
    bool conjugate;
    bool negative;
    bool swap; /* elements are big-endian */
    bool made; /* its bytes are our own, and in no storage */
} sft__import_view;

/* A text node's state, which a text cannot have, is its number here + 1. */
typedef struct sft__import_decoded_text {
    const sft_source *data;
    uint64_t size;
    uint32_t source;
} sft__import_decoded_text;

/* A node: its bytes are in a view of the catalog; it was looked at; it was told of; all below it was;
 * what leads to it gives no name to what is below. */
enum {
    SFT__TORCH_MET = 1,
    SFT__TORCH_SEEN = 2,
    SFT__TORCH_TOLD = 4,
    SFT__TORCH_PART = 8,
    SFT__TORCH_NAMELESS = 16
};

typedef struct sft__import_torch {
    sft__import *job;
    sft__import_pickle *p;
    /* Fills in where a storage lies; key, dtype and elements are set. */
    sft_status (*place)(struct sft__import_torch *t, sft__import_storage *s, sft_error *err);
    /* A persistent id that is a tensor itself (tar); NULL: they are storages. */
    sft_status (*tensor)(struct sft__import_torch *t, const sft__import_pk_node *id,
                         sft__import_view *v, sft_error *err);
    void *ctx;
    sft__import_storage *storages;
    size_t storage_count;
    size_t storage_room;
    sft__base_strmap keys;
    bool big_endian;
    bool outside; /* what is evaluated is not taken: nothing is said of it */
    bool paddle;  /* uint16 of numpy means bfloat16 */
    struct sft__import_decoded_text *texts; /* bytes that came as text, each once */
    size_t text_count;
    size_t text_room;
    uint64_t text_bytes;    /* of all of them */
    uint8_t *marks;         /* one for each node while its tree is read; NULL: nobody asks */
    uint64_t storage_bytes; /* of all that the container holds, for the unused ones */
} sft__import_torch;

/* Adds everything under the chosen part of the tree to the catalog; t->p->root is the root. */
sft_status sft__import_torch_tree(sft__import_torch *t, sft_error *err);
void sft__import_torch_reset(sft__import_torch *t);
static inline void sft__import_torch_mark(const sft__import_torch *t, uint32_t id, uint8_t mark) {
    if (t->marks != NULL) {
        t->marks[id] |= mark;
    }
}

/* torch_eval.c: is this node a tensor (a call that rebuilds one, a numpy array, a persistent id)?
 */
bool sft__import_torch_is_tensor(const sft__import_torch *t, uint32_t id);
/* Is it a storage by itself, in the place of a tensor? */
bool sft__import_torch_is_storage(const sft__import_torch *t, uint32_t id);
/* Looks through parameters and subclasses. The call that makes the tensor, and what it calls;
 * SFT__G_UNKNOWN: no tensor. subclass: name of a class that is not PyTorch's own. mark: SFT__TORCH_MET, or
 * 0. */
uint32_t sft__import_torch_strip(const sft__import_torch *t, uint32_t id, sft__import_pk_node *call,
                                 const char **subclass, uint8_t mark);
/* Marks the call that makes the tensor, and those that it is seen through. */
void sft__import_torch_meet(const sft__import_torch *t, uint32_t id);
/* What a leaf of the tree becomes: one view, or several with suffixes (quantised, sparse). */
enum { SFT__TORCH_PARTS = 4 };
typedef struct sft__import_part {
    const char *suffix; /* "", ".scale" ... */
    sft__import_view view;
} sft__import_part;

typedef struct sft__import_parts {
    sft__import_part at[SFT__TORCH_PARTS];
    size_t count;
} sft__import_parts;
/* *count 0: left out (already told). */
sft_status sft__import_torch_eval(sft__import_torch *t, uint32_t id, const char *name,
                                  size_t name_len, sft__import_parts *parts, sft_error *err);
/* Room for one more storage. */
sft_status sft__import_torch_more(sft__import_torch *t, sft_error *err);
/* The storage of a persistent id, registered and placed. */
sft_status sft__import_torch_storage(sft__import_torch *t, const sft__import_pk_node *pid,
                                     uint32_t *index, sft_error *err);

/* torch_zip.c: job->file is an archive of its own (an item of a larger file). *tensor: its root is a
 * tensor, *view; *storages: it holds some. */
sft_status sft__import_torch_zip_item(sft__import *job, sft__import_view *view, bool *tensor,
                                      bool *storages, sft_error *err);

/* torch_tree.c: views with names that no tree has, into the catalog: those of the same place are one
 * tensor. */
typedef struct sft__import_named_view {
    const char *name;
    size_t name_len;
    sft__import_view view;
} sft__import_named_view;
sft_status sft__import_torch_views(sft__import_torch *t, const sft__import_named_view *views,
                                   size_t count, sft_error *err);

/* torch_wrap.c: what an object of a tensor's class has beside its bytes, a dict (or a tuple of two), or
 * SFT__PK_NO. Has it no bytes of its own? */
uint32_t sft__import_torch_attributes(const sft__import_torch *t, uint32_t id);
bool sft__import_torch_is_wrapper(const sft__import_torch *t, uint32_t id);

/* torch_numpy.c: an array that numpy pickled. */
sft_status sft__import_torch_numpy(sft__import_torch *t, const sft__import_pk_node *call,
                                   sft__import_view *v, sft_error *err);
bool sft__import_torch_is_array(const sft__import_torch *t, const sft__import_pk_node *call);
/* A masked one: .data, .mask, and its .fill_value if it has one. */
sft_status sft__import_torch_masked(sft__import_torch *t, const sft__import_pk_node *call,
                                    sft__import_part parts[SFT__TORCH_PARTS], size_t *count,
                                    sft_error *err);

/* paddle.c: is it a state dict of Paddle? The parameters of it that lie in slices become tensors,
 * and the slices none; the bytes of an array that are text or a call that makes them of it (low, high,
 * first, source, data are filled in). */
bool sft__import_paddle_is_dict(const sft__import_torch *t, uint32_t id);
sft_status sft__import_paddle_slices(sft__import_torch *t, uint32_t dict, sft_error *err);
sft_status sft__import_torch_latin1(sft__import_torch *t, uint32_t id, sft__import_view *v,
                                    sft_error *err);

/* torch_bytes.c. bytes(): how protocols 0 to 2 have none. */
bool sft__import_torch_is_no_bytes(const sft__import_torch *t, const sft__import_pk_node *n);
/* The bytes of a byte string of at most SFT__TORCH_BYTES_MAX, however the protocol has it, in scratch;
 * *bytes NULL: it is none. */
enum { SFT__TORCH_BYTES_MAX = 16 << 20 };
sft_status sft__import_torch_bytes(const sft__import_torch *t, uint32_t id, uint8_t **bytes,
                                   size_t *size, sft_error *err);
/* numpy's texts (np.str_) are texts to Python: from here on to us. */
sft_status sft__import_torch_texts(sft__import_torch *t, sft_error *err);

/* Numbers of a tuple or list, each an integer of 0 or more. */
sft_status sft__import_torch_numbers(sft__import_torch *t, uint32_t id, const char *what,
                                     uint64_t **numbers, uint32_t *count, sft_error *err);
/* Offset and strides in elements become places: v has low, high, dtype, shape, and room for
 * strides. The last element must lie in [low, high). */
sft_status sft__import_torch_view(sft__import_view *v, uint64_t offset, const uint64_t *strides,
                                  sft_error *err);
/* torch_packed.c. float4_e2m1fn_x2 counts bytes of two values each, and F4 the values: only whole
 * tensors, of one dimension or more, can be both. What is in the catalog: sft__import_torch_shape, its
 * product. */
sft_status sft__import_torch_packed_check(const sft__import_view *v, sft_error *err);
void sft__import_torch_shape(const sft__import_view *v, uint64_t *shape);
/* Sizes and strides that count values of which `values` share a byte (quint4x2) as those of the
 * bytes, those of Tensor.int_repr(). */
sft_status sft__import_torch_packed_bytes(sft__import_view *v, uint64_t offset, uint64_t *strides,
                                          uint32_t values, sft_error *err);
bool sft__import_torch_is_whole(const sft__import_view *v);

/* A few bytes of our own (a scale, a shape) as a source of the catalog. */
sft_status sft__import_torch_constant(sft__import_torch *t, const sft_dtype *dtype,
                                      const uint64_t *values, uint32_t count, sft__import_view *v,
                                      sft_error *err);

#endif
