/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/text.c - see text.h.
 */
#include "checkpoint/text.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include <string.h>

sft_status sft__checkpoint_text_read(sft__checkpoint_text *out, const char *path, uint64_t most,
                                     const char *what, const sft_allocator *allocator,
                                     sft_error *err) {
    sft_source *source;
    memset(out, 0, sizeof *out);
    out->allocator = allocator;
    SFT_TRY(sft_source_open(&source, path, SFT_ACCESS_READ, allocator, err));
    return sft__checkpoint_text_take(out, source, most, what, allocator, err);
}

sft_status sft__checkpoint_text_take(sft__checkpoint_text *out, sft_source *source, uint64_t most,
                                     const char *what, const sft_allocator *allocator,
                                     sft_error *err) {
    memset(out, 0, sizeof *out);
    out->allocator = allocator;
    const uint64_t size = sft_source_size(source);
    sft_status status = SFT_OK;
    if (size > most || size > SIZE_MAX / 2) {
        status = sft__base_fail(err, SFT_E_LIMIT, "%llu bytes of %s, the limit is %llu",
                                (unsigned long long)size, what, (unsigned long long)most);
    } else {
        out->data = sft__base_alloc(allocator, (size_t)size + 1);
        out->size = (size_t)size;
        status = out->data == NULL ? sft__base_fail_nomem(err, out->size) : SFT_OK;
    }
    if (status == SFT_OK && size != 0) {
        status = sft_source_read(source, 0, out->data, out->size, err);
    }
    sft_source_close(source);
    if (status != SFT_OK) {
        sft__checkpoint_text_reset(out);
    }
    return status;
}

void sft__checkpoint_text_reset(sft__checkpoint_text *text) {
    sft__base_free(text->allocator, text->data, text->size + 1);
    text->data = NULL;
}
