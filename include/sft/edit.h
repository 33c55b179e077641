/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/edit.h - changing the metadata of a file that exists. The data section stays byte-identical. By default
 * an edit is safe against a crash at any moment: old file or new file, nothing between.
 *
 * Edits by this library wait for each other, one at a time for a file (an advisory lock; where the file
 * system knows none, the loser is SFT_E_CHANGED). A file that somebody else replaces or writes to while
 * it is edited stays what they made of it: SFT_E_CHANGED. On Linux there is no gap in this: the new file
 * and the old one are exchanged, and exchanged back if what came out is not the file that was edited.
 * Elsewhere the file is looked at just before it is replaced.
 */
#ifndef SFT_EDIT_H
#define SFT_EDIT_H

#include <sft/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Write into the existing file even where a crash could tear it; SFT_E_UNSUPPORTED if the change does not
 * fit, or if the file has other names (hard links), which would change with it. */
#define SFT_EDIT_IN_PLACE 1u
/* Never write into the existing file: always a new file and a rename. */
#define SFT_EDIT_NEW_FILE 2u
/* metadata: remove every key first (with no entries: the whole __metadata__ goes). */
#define SFT_EDIT_CLEAR 4u

typedef struct sft_edit_options {
    size_t struct_size;
    const sft_allocator *allocator;
    const sft_limits *limits;
    sft_durability durability;
    uint32_t flags; /* SFT_EDIT_* */
    /* if a new file must be written: room left for later edits; default 1,024 */
    uint64_t reserve_bytes;
    const sft_control *control;
    /* NULL, or a catalog of this file that what is written was made of (digests, say): SFT_E_CHANGED if
     * the file is not, any more, what that was opened over. */
    const struct sft_catalog *made_of;
} sft_edit_options;

typedef enum sft_edit_way {
    SFT_EDITED_NOTHING = 0,  /* the file already said so */
    SFT_EDITED_IN_PLACE = 1, /* independent of file size */
    SFT_EDITED_NEW_FILE =
        2 /* copied in the kernel (shared blocks where the file system can), renamed */
} sft_edit_way;

/* Sets (value not NULL) or deletes (value NULL; no error if absent) metadata keys. way: may be NULL.
 * In place when the change fits the header's blanks and lies within one 4096-byte block of the file, so
 * that one write carries it out, and the file has no other name (hard link), which would change with it;
 * otherwise (unless SFT_EDIT_IN_PLACE) by a new file. */
SFT_API SFT_MUST_CHECK sft_status sft_edit_metadata(const char *path,
                                                    const sft_metadata_entry *entries, size_t count,
                                                    const sft_edit_options *options,
                                                    sft_edit_way *way, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
