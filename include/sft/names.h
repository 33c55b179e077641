/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/names.h - names of tensors from one convention to another, with the moves that go with them: rename,
 * fuse and split (q, k, v into one matrix), stack and unstack (experts). In the library
 * libsafetensors-checkpoint.
 *
 * Rules are a JSON text (docs/names.md), tried in order; the first that matches a name counts. Applying them
 * copies nothing: the result is a catalog whose tensors have pieces in the files of the first. Every rule but
 * "drop" works both ways, and there and back gives the same bytes.
 *
 * sft_choose leaves tensors of a catalog out, names others anew and casts them, one by one, as a callback
 * says.
 *
 * Caveats first. The catalog given must outlive the one that comes out. Rules only move: nothing is cast,
 * transposed or calculated. Aliases (other names of a tensor) are not carried over.
 *
 * Threads: rules are immutable and may be shared.
 */
#ifndef SFT_NAMES_H
#define SFT_NAMES_H

#include <sft/catalog.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sft_names sft_names;

/* Errors: SFT_E_JSON, SFT_E_UTF8, SFT_E_DUPLICATE, SFT_E_SCHEMA (with the place in the text), SFT_E_LIMIT
 * (above 1 MiB, or 4,096 rules). */
SFT_API SFT_MUST_CHECK sft_status sft_names_parse(sft_names **out, const char *text, size_t size,
                                                  const sft_allocator *allocator, sft_error *err);
/* The names of the shipped rules; NULL past the end. Static. */
SFT_API const char *sft_names_shipped_at(size_t index);
/* The text of shipped rules, or NULL. Static. */
SFT_API const char *sft_names_shipped_text(const char *name);
/* For messages: the name of the shipped rules that is most like this one; NULL: none is like it. Static. */
SFT_API const char *sft_names_nearest(const char *name);
SFT_API void sft_names_free(sft_names *names); /* NULL is fine */

/* A number that rules may ask for: "num_attention_heads". */
typedef struct sft_names_value {
    const char *name;
    uint64_t value;
} sft_names_value;

typedef struct sft_names_options {
    size_t struct_size;
    const sft_open_options *open; /* allocator and limits of the result; NULL: defaults */
    const sft_names_value *values;
    size_t value_count;
    /* JSON whose plain numbers are values too ("values" come first); NULL: none */
    const char *config;
    size_t config_size;
    uint32_t reverse; /* 1: from the names on the right to those on the left */
    uint32_t reserved;
    /* Called for what may be a mistake, with a sentence and names escaped: stacks of one rule that differ
     * in number, tensors that are kept and that the way back would change, tensors that are left out, and
     * tensors that no rule matches where the rules do not say what becomes of them, each with the rule that
     * is most like its name. NULL: no report. */
    void (*warn)(void *ctx, const char *message);
    void *warn_ctx;
    /* Called, where warn is set, for each of the last kind, with the text of the rule that is most like its
     * name ("": none is): sentences are given of the first 20 only. NULL: not called. */
    void (*unmatched)(void *warn_ctx, const sft_tensor *tensor, const char *nearest);
} sft_names_options;

/* What became of the tensors of the input. */
typedef struct sft_names_result {
    size_t struct_size;
    uint64_t renamed;
    uint64_t fused; /* input tensors that became part of another */
    uint64_t split; /* input tensors that became several */
    uint64_t kept;  /* no rule matched */
    uint64_t dropped;
} sft_names_result;

/* Applies rules to a catalog. result may be NULL. Tensors come in the order of the first input tensor that
 * each is made from. Metadata: that of the first file, "format" as the rules have it.
 * Errors: SFT_E_NOT_FOUND (a tensor or number that a rule needs; or, where the rules say so, a name that no
 * rule matches), SFT_E_SHAPE and SFT_E_DTYPE (tensors that cannot be fused or split so), SFT_E_DUPLICATE
 * (two tensors get one name), SFT_E_SUBBYTE, SFT_E_LIMIT (above 2^20 boxes a tensor).
 * Cost: O(tensors * rules), from headers alone. */
SFT_API SFT_MUST_CHECK sft_status sft_names_apply(sft_catalog **out, const sft_catalog *in,
                                                  const sft_names *names,
                                                  const sft_names_options *options,
                                                  sft_names_result *result, sft_error *err);

/* ---------------------------------------------------------------- which tensors, and as what types */

/* What becomes of a tensor. The callback finds it filled in with what the tensor is. */
typedef struct sft_chosen {
    uint32_t keep; /* 0: it is left out */
    uint32_t reserved;
    const char *name; /* must live until sft_choose returns */
    size_t name_len;
    const sft_dtype *dtype; /* another one: it is cast while it is read */
} sft_chosen;

typedef struct sft_choose_options {
    size_t struct_size;
    const sft_open_options *open; /* allocator and limits of the result; NULL: defaults */
    void *ctx;                    /* of both callbacks */
    /* Called once for each tensor, in the catalog's order. What it returns but SFT_OK ends it. */
    sft_status (*choose)(void *ctx, const sft_tensor *tensor, sft_chosen *chosen, sft_error *err);
    /* While the result is read: n elements of a tensor of `in` were cast, both sides packed and
     * little-endian. Any thread, several at once. Bytes that are read twice are told twice. NULL: nobody is
     * told. */
    void (*casted)(void *ctx, const sft_tensor *tensor, const sft_dtype *to, const void *before,
                   const void *after, size_t n);
} sft_choose_options;

typedef struct sft_choose_result {
    size_t struct_size;
    uint64_t kept;
    uint64_t left_out;
    uint64_t renamed;
    uint64_t cast;
} sft_choose_result;

/* result may be NULL. Tensors keep their order; metadata as sft_names_apply.
 * Errors: those of the callback, SFT_E_DUPLICATE (two tensors get one name), SFT_E_UNSUPPORTED (a tensor
 * that cannot be cast), SFT_E_HOLE (one to be cast that is not whole), SFT_E_SUBBYTE, SFT_E_OVERFLOW. Reads
 * of cast tensors give the errors of sft_convert and of sft_tensor_read_bytes. Cost: O(tensors), from
 * headers alone; a cast is one pass where it is read. */
SFT_API SFT_MUST_CHECK sft_status sft_choose(sft_catalog **out, const sft_catalog *in,
                                             const sft_choose_options *options,
                                             sft_choose_result *result, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
