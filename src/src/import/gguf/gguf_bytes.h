/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_bytes.h - strings of GGUF's metadata that are not UTF-8 (tokens may be any bytes). The
 * catalog shows U+FFFD for what is none; their bytes are in "gguf.types", behind the type of the entry:
 * {"tok": {"type": "[string]", "bytes": {"7": "\u00e4"}}} says that string 7 is the byte e4, each character
 * being the byte of its number. Read first: gguf_in.h, gguf_meta.h.
 */
#ifndef SFT_IMPORT_GGUF_BYTES_H
#define SFT_IMPORT_GGUF_BYTES_H

#include "base/text/buf.h"

/* The bytes as UTF-8, with U+FFFD for each that is none. */
void sft__import_gguf_show_bytes(sft__base_buf *b, const char *text, size_t len);
/* The member "index": "bytes", behind a comma if it is not the first. */
void sft__import_gguf_keep_bytes(sft__base_buf *b, uint64_t index, const char *text, size_t len);

/* What is kept of one entry's strings, gone through once. */
typedef struct sft__import_gguf_kept {
    const char *at; /* before a member, or the brace that ends them; NULL: there are no more */
    const char *end;
} sft__import_gguf_kept;

/* out, from `from` on, is string `index` of a file: its length in 8 bytes, its text. It becomes the bytes
 * that are kept for it if it is what these are shown as (else somebody gave it another text). Strings are
 * asked for in their order. False: the object is none that a GGUF file leaves. */
bool sft__import_gguf_restore_bytes(sft__import_gguf_kept *kept, uint64_t index, sft__base_buf *out,
                                    size_t from);

#endif
