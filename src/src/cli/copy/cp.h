/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cp.h - what a copy consists of: which tensors under which names and types in which order
 * (cp_choose.c, cp_order.c), with which metadata (cp_metadata.c), and the copying itself
 * (cmd_cp.c). Read cmd.h first.
 */
#ifndef SFT_CLI_CP_H
#define SFT_CLI_CP_H

#include "cli/cmd.h"

/* One tensor of the copy. */
typedef struct cli_item {
    const sft_tensor *tensor;
    const sft_dtype *dtype; /* in the copy */
    const char *from; /* the name in SRC that was chosen: the tensor's, or another name of it */
    size_t from_len;
    const char *name; /* in the copy */
    size_t name_len;
    char *renamed; /* owned; NULL: the old name */
    uint64_t nbytes;
    size_t rank;             /* of its name in --order FILE */
    const sft_tensor *whole; /* of another name: the tensor that it is one of; else NULL */
    bool part;               /* of another name: it shows something else than all of it */
    bool bare;               /* bytes that only other names show: nobody can ask for it */
} cli_item;

typedef struct cli_pair {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
} cli_pair;

typedef struct cli_copy {
    cli *c;
    const char *source;
    const char *target;
    const sft_catalog *catalog;
    cli_item *items; /* in the order of the copy */
    size_t count;
    cli_item *others; /* other names of items, or of parts of them */
    size_t other_count;
    uint64_t data_bytes;
    size_t renamed;
    size_t cast;
    size_t dropped;
    uint64_t orphans; /* tensors that the index does not name */
    cli_pair *pairs;
    size_t pair_count;
    bool has_metadata;
    bool carry;       /* the metadata is kept, recorded digests among it */
    uint32_t digests; /* SFT_DIGEST_* */
    bool casting;     /* in order, by a job that draws its own progress */
    char *order_text; /* the file of --order */
    char **texts;     /* owned: metadata that were rewritten */
    size_t text_count;
    bool apart[2]; /* gguf.tensors, gguf.types of several files are not put together */
} cli_copy;

/* cp_alias.c: of all names that were chosen, those of tensors first, the first of each becomes its item, the
 * rest are others. What shows a part of a tensor that does not go on as it is becomes an item. */
bool cli_copy_link(cli_copy *copy, cli_item *chosen, size_t count);
/* Names of the catalog that are none of its tensors: appended to items of these. */
size_t cli_copy_other_names(const cli_copy *copy, cli_item *items);
/* Does the entry record another name, as `others` has it? */
bool cli_copy_is_record(const cli_copy *copy, const char *key, size_t len, const char *value,
                        size_t value_len);
/* Is the key one that never is another name of a tensor? */
bool cli_is_reserved(const char *key, size_t len);
#define CLI_LOOKS_LIKE_NAME                                                                        \
    "its text is a tensor's name: readers would take the key for another name of it"
sft_status cli_copy_write_names(const cli_copy *copy, sft_writer *writer, sft_error *err);
/* The entry under the names that its tensors have in the copy: false, it is left out. */
bool cli_copy_describe(cli_copy *copy, cli_pair *pair);
/* Is it an object that the files say differently, which cli_copy_describe puts together? */
bool cli_copy_collects(const cli_copy *copy, const cli_pair *pair);

/* Each fills a part of the copy. False: reported. */
bool cli_copy_choose(cli_copy *copy);
bool cli_copy_order(cli_copy *copy);
bool cli_copy_metadata(cli_copy *copy);
void cli_copy_reset(cli_copy *copy);
/* Do the bytes of all tensors stay what they are, under the same names? */
bool cli_copy_is_plain(const cli_copy *copy);

#endif
