/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/torch_write.h - inside the writer of PyTorch files: the opcodes that both the plain state
 * dict (torch_write.c) and the tree of a checkpoint (torch_write_tree.c) are made of. What is
 * written is what torch.save writes at protocol 2; the only names are those of the tables there.
 * Read first: export.h.
 */
#ifndef SFT_IMPORT_TORCH_WRITE_H
#define SFT_IMPORT_TORCH_WRITE_H

#include "base/text/strmap.h"
#include "import/write/export.h"

/* A name that stands for a tensor: an item's, or an alias of one. */
typedef struct sft__import_called {
    const char *name; /* name, len first for the table */
    size_t len;
    size_t item;
    const sft_tensor *part; /* of the item, that the name shows; NULL: all */
    uint32_t memo;          /* where the pickle keeps this tensor; 0: not yet written */
    bool hidden;            /* bytes that only other names show */
} sft__import_called;

typedef struct sft__import_torch_writer {
    sft__import_export *job;
    sft__base_buf pickle;
    sft__import_called *called;
    size_t called_count;
    size_t called_room;
    sft__base_strmap names;
    uint8_t *untyped; /* of items: parts of them have another type */
    uint32_t memo;    /* the last number given */
    uint32_t kept[5]; /* numbers of what every tensor needs; 0: not yet written */
} sft__import_torch_writer;

/* torch_put.c. Does PyTorch have the element type? */
bool sft__import_put_has_type(const sft_dtype *dtype);
void sft__import_put_byte(sft__base_buf *b, uint8_t op);
void sft__import_put_le32(sft__base_buf *b, uint32_t v);
void sft__import_put_text(sft__base_buf *b, const char *text, size_t len);
void sft__import_put_int(sft__base_buf *b, int64_t v);
/* collections.OrderedDict(), empty. */
void sft__import_put_ordered_dict(sft__import_torch_writer *t);
/* The tensor, or the same one again. */
sft_status sft__import_put_tensor(sft__import_torch_writer *t, sft__import_called *c,
                                  sft_error *err);

/* torch_write_tree.c: the tree of docs/tree.md. */
sft_status sft__import_put_tree(sft__import_torch_writer *t, const char *text, size_t len,
                                sft_error *err);

#endif
