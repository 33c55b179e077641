/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/text.h - a small file, read whole.
 */
#ifndef SFT_CHECKPOINT_TEXT_H
#define SFT_CHECKPOINT_TEXT_H

#include <sft/source.h>

typedef struct sft__checkpoint_text {
    const sft_allocator *allocator;
    char *data;
    size_t size;
} sft__checkpoint_text;

/* SFT_E_LIMIT: of more than `most` bytes; what: it is, for that message. Reset it in any case. */
sft_status sft__checkpoint_text_read(sft__checkpoint_text *out, const char *path, uint64_t most,
                                     const char *what, const sft_allocator *allocator,
                                     sft_error *err);
/* The same of a source, which is taken over in every case. */
sft_status sft__checkpoint_text_take(sft__checkpoint_text *out, sft_source *source, uint64_t most,
                                     const char *what, const sft_allocator *allocator,
                                     sft_error *err);
void sft__checkpoint_text_reset(sft__checkpoint_text *text);

#endif
