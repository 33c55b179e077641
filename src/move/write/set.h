/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/set.h - a set of tensors on its way into a file: entries, file order, header text, digests.
 * Shared by sft_save and the streaming writer; knows nothing of where the bytes go. Read first:
 * format/build.h.
 */
#ifndef SFT_MOVE_SET_H
#define SFT_MOVE_SET_H

#include "format/build.h"
#include "move/kernels/digest_twins.h"
#include <sft/digest.h>

/* Bytes that are written and hashed in one go: what stays in the cache between the two or, where the
 * disk is waited for, enough for it to be busy while another worker hashes. */
#define SFT__DIGEST_BLOCK         ((size_t)1 << 20)
#define SFT__DIGEST_BLOCK_DURABLE ((size_t)4 << 20)

typedef struct sft__move_set {
    sft_write_options options; /* copied; what it points to is the caller's (or the writer's) */
    sft_limits limits;         /* options.limits points here */
    const sft_allocator *allocator;
    sft__format_entry *entries; /* declaration order; the caller's memory */
    size_t count;
    const sft_metadata_entry *metadata; /* the caller's; NULL: none */
    size_t metadata_count;
    uint32_t cpu; /* features that digests may use */

    /* made by sft__move_set_layout */
    uint32_t *order; /* declaration index by file position */
    uint64_t data_bytes;
    uint64_t data_offset; /* = header.len */
    /* length bytes and text; digests in it are zeros until sft__move_set_seal */
    sft__base_buf header;
    uint32_t *crc;      /* by declaration index; NULL unless asked for */
    uint8_t (*sha)[32]; /* the same */
} sft__move_set;

/* The block for these options. */
size_t sft__move_set_digest_block(const sft__move_set *set);

/* Takes over options (NULL: defaults) of older and newer callers. Nothing else is set; the set must
 * stay where it is. SFT_E_ARG if a struct_size is missing: reset is allowed even then. */
sft_status sft__move_set_init(sft__move_set *set, const sft_write_options *options, sft_error *err);
void sft__move_set_reset(sft__move_set *set);

/* Orders, checks, builds the header. entries, count, metadata and metadata_count must be set. */
sft_status sft__move_set_layout(sft__move_set *set, sft_error *err);

/* Everything in the file: header and data. */
uint64_t sft__move_set_file_bytes(const sft__move_set *set);

/* First position in the file whose tensor ends behind `offset` of the data section. */
size_t sft__move_set_position(const sft__move_set *set, uint64_t offset);

/* crc and sha are complete: puts them into the header text (unless they go into a sidecar). */
sft_status sft__move_set_seal(sft__move_set *set, sft_error *err);

/* The sidecar's text: schema, file name, file size, digests by tensor. */
sft_status sft__move_set_sidecar(const sft__move_set *set, const char *file_name,
                                 sft__base_buf *out, sft_error *err);

/* Whether digests are recorded in the header. */
bool sft__move_set_digests_inside(const sft__move_set *set);

/* CRC32C of the catalog description of sft/digest.h; sorted: entries in byte order of their names.
 */
uint32_t sft__move_set_description(const sft__format_entry *const *sorted, size_t count);

#endif
