/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_meta.h - metadata of a GGUF file that is written: texts become typed values. Types:
 * what "gguf.types" of the catalog says; what the caller says behind the key ("a.b:u32"); else, of
 * the caller's, by their look; else strings. Read first: gguf.h, export.h.
 */
#ifndef SFT_IMPORT_GGUF_META_H
#define SFT_IMPORT_GGUF_META_H

#include "base/text/strmap.h"
#include "import/gguf/gguf.h"
#include "import/gguf/gguf_bytes.h"
#include "import/write/export.h"

/* A tensor that came as raw blocks, from "gguf.tensors". */
typedef struct sft__import_gguf_raw {
    const char *name; /* name, len first for the name table */
    size_t name_len;
    const sft__import_gguf_type *type;
    uint64_t shape[SFT__GGUF_RANK_MAX];
    uint64_t nbytes;
    uint32_t rank;
    uint32_t reserved;
} sft__import_gguf_raw;

/* A key and its type, from "gguf.types". */
typedef struct sft__import_gguf_typed {
    const char *name;
    size_t name_len;
    uint32_t type;
    uint32_t element;
    sft__import_gguf_kept kept; /* of its strings */
} sft__import_gguf_typed;

typedef struct sft__import_gguf_meta {
    sft__import_export *job;
    uint64_t count;     /* of values */
    sft__base_buf text; /* as they are in the file */
    sft__import_gguf_typed *types;
    size_t type_count;
    sft__base_strmap type_names;
    sft__import_gguf_raw *raws;
    size_t raw_count;
    sft__base_strmap raw_names;
} sft__import_gguf_meta;

/* Reset it in every case. SFT_E_UNSUPPORTED without general.architecture; SFT_E_ARG: a value that
 * is not of its type. */
sft_status sft__import_gguf_meta_init(sft__import_gguf_meta *m, sft__import_export *job,
                                      sft_error *err);
void sft__import_gguf_meta_reset(sft__import_gguf_meta *m);
const sft__import_gguf_raw *sft__import_gguf_meta_raw(const sft__import_gguf_meta *m,
                                                      const char *name, size_t name_len);

/* gguf_text.c. The number that a value's name says, "[i32]" too; false: none. */
bool sft__import_gguf_type_read(const char *text, size_t len, uint32_t *type, uint32_t *element);
/* By its look: an integer, a real number, true or false, a list of one of these or of strings, else
 * a string. */
void sft__import_gguf_type_guess(const char *text, size_t len, uint32_t *type, uint32_t *element);
/* The value's bytes, appended. text: followed by SFT__JSON_SLACK zero bytes; typed: what it is, and the bytes
 * of its strings. false: it is no such value. */
bool sft__import_gguf_value_add(sft__base_buf *out, const char *text, size_t len,
                                const sft__import_gguf_typed *typed);

#endif
