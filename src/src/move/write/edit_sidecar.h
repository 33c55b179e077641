/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/edit_sidecar.h - keeping PATH.digests.json true when its file is edited.
 */
#ifndef SFT_MOVE_EDIT_SIDECAR_H
#define SFT_MOVE_EDIT_SIDECAR_H

#include "base/text/buf.h"
#include "fs/output/publish.h"

/* A sidecar's new text, made before the file is edited. Zero-initialise. */
typedef struct sft__move_edit_sidecar {
    sft__base_buf path;
    sft__base_buf text;
    sft__fs_publish *publish; /* written, not yet visible */
    bool wanted;              /* there is one, and it must change */
} sft__move_edit_sidecar;

/* Is there a sidecar beside the file? */
sft_status sft__move_edit_sidecar_find(sft__move_edit_sidecar *s, const char *path,
                                       const sft_allocator *allocator, sft_error *err);
/* Reads it, puts in the file's new size, and writes it beside the old one: all but the
 * last step is done before the file is edited. What is no sidecar is left alone. */
sft_status sft__move_edit_sidecar_make(sft__move_edit_sidecar *s, uint64_t file_size,
                                       const sft__fs_publish_options *options, sft_error *err);
/* The file is edited: the sidecar follows. SFT_E_DURABILITY if that fails. */
sft_status sft__move_edit_sidecar_publish(sft__move_edit_sidecar *s, sft_error *err);
void sft__move_edit_sidecar_reset(sft__move_edit_sidecar *s);

#endif
