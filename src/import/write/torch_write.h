/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/torch_write.h - inside the writer of PyTorch files: the opcodes that both the plain state
 * dict (torch_write.c) and the tree of a checkpoint (torch_write_tree.c) are made of. What is
 * written is what torch.save writes at protocol 2; the only names are those of the tables there.
 * Read first: export.h.
 */
#ifndef SFT_IMPORT_TORCH_WRITE_H
#define SFT_IMPORT_TORCH_WRITE_H

#include "base/strmap.h"
#include "import/write/export.h"

/* A name that stands for a tensor: an item's, or an alias of one. */
typedef struct sft__called {
    const char *name; /* name, len first for the table */
    size_t len;
    size_t item;
    const sft_tensor *part; /* of the item, that the name shows; NULL: all */
    uint32_t memo;          /* where the pickle keeps this tensor; 0: not yet written */
    bool hidden;            /* bytes that only other names show */
} sft__called;

typedef struct sft__torch_writer {
    sft__export *job;
    sft__buf pickle;
    sft__called *called;
    size_t called_count;
    size_t called_room;
    sft__strmap names;
    uint8_t *untyped; /* of items: parts of them have another type */
    uint32_t memo;    /* the last number given */
    uint32_t kept[5]; /* numbers of what every tensor needs; 0: not yet written */
} sft__torch_writer;

void sft__put_byte(sft__buf *b, uint8_t op);
void sft__put_le32(sft__buf *b, uint32_t v);
void sft__put_text(sft__buf *b, const char *text, size_t len);
void sft__put_int(sft__buf *b, int64_t v);
/* collections.OrderedDict(), empty. */
void sft__put_ordered_dict(sft__torch_writer *t);
/* The tensor, or the same one again. */
sft_status sft__put_tensor(sft__torch_writer *t, sft__called *c, sft_error *err);

/* torch_write_tree.c: the tree of docs/tree.md. */
sft_status sft__put_tree(sft__torch_writer *t, const char *text, size_t len, sft_error *err);

#endif
