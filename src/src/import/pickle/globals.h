/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/globals.h - the names that pickles may refer to, as data: what each means to us,
 * and which are known to be dangerous. Nothing is ever looked up in a Python; a name that is not
 * here stays a name.
 */
#ifndef SFT_IMPORT_GLOBALS_H
#define SFT_IMPORT_GLOBALS_H

#include "import/core/import.h"

typedef enum sft__import_known {
    SFT__G_UNKNOWN = 0,
    SFT__G_DICT, /* OrderedDict, Counter, dict */
    SFT__G_DEFAULTDICT,
    SFT__G_SET,
    SFT__G_LIST,
    SFT__G_TUPLE,
    SFT__G_BYTEARRAY,
    SFT__G_ENCODE,
    SFT__G_INERT, /* plain data of a class that does nothing: kept as a record */
    SFT__G_DTYPE, /* torch.float32 ... */
    SFT__G_STORAGE,
    SFT__G_TENSOR_CLASS,
    SFT__G_PARAMETER,
    SFT__G_REBUILD_TENSOR,
    SFT__G_REBUILD_TENSOR_V2,
    SFT__G_REBUILD_TENSOR_V3,
    SFT__G_REBUILD_PARAMETER,
    SFT__G_REBUILD_QTENSOR,
    SFT__G_REBUILD_SPARSE,
    SFT__G_REBUILD_SPARSE_CSR,
    SFT__G_REBUILD_META,
    SFT__G_REBUILD_WRAPPER,
    SFT__G_REBUILD_NESTED,
    SFT__G_REBUILD_FROM_TYPE,
    SFT__G_REBUILD_FROM_NUMPY,
    SFT__G_REBUILD_FROM_CPU,
    SFT__G_QSCHEME,
    SFT__G_NP_RECONSTRUCT,
    SFT__G_NP_SCALAR,
    SFT__G_NP_NDARRAY,
    SFT__G_NP_DTYPE,
    SFT__G_NP_FROMBUFFER,
    SFT__G_NP_MASKED,
    SFT__G_JOBLIB_ARRAY,
    SFT__G_EVAL /* Paddle writes eval('data', {'data': ...}): a name, never run */
} sft__import_known;

typedef struct sft__import_global {
    const char *module;
    const char *name;
    uint16_t known;
    uint16_t
        argument; /* DTYPE, STORAGE: dtype id, 0 if untyped; QSCHEME: 0 per tensor, 1 per channel */
} sft__import_global;

/* The row for a name, or NULL. Old spellings (__builtin__, copy_reg, numpy._core) are the same. */
const sft__import_global *sft__import_global_find(const char *module, size_t module_len,
                                                  const char *name, size_t name_len);

/* What a scanner says about it; *why: static sentence. */
uint32_t sft__import_global_verdict(const sft__import_global *row, const char *module,
                                    size_t module_len, const char *name, size_t name_len,
                                    const char **why);

/* Is it one of the modules of Python's standard library, or below one? */
bool sft__import_global_is_standard(const char *module, size_t len);

#endif
