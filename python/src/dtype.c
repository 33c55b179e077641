/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * dtype.c - what frameworks call the format's element types; one table for numpy (ml_dtypes), torch, paddle, the
 * TensorSpec and the modules in Python, which get it as _core._dtypes. Sizes are the library's. Read core.h first.
 */
#include "core.h"

const char *const core_dtype_name[SFT_DTYPE_COUNT + 1] = {
#define NAME(id, name) [id] = name,
    CORE_DTYPE_MAP(NAME)
#undef NAME
};

const sft_dtype *core_dtype_by_name(const char *name, Py_ssize_t len) {
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        const char *known = core_dtype_name[id];
        if (known != NULL && strlen(known) == (size_t)len &&
            memcmp(known, name, (size_t)len) == 0) {
            return sft_dtype_get(id);
        }
    }
    return sft_dtype_find(name, (size_t)len);
}

PyObject *core_dtypes(void) {
    PyObject *rows = PyTuple_New(SFT_DTYPE_COUNT);

    for (uint32_t id = 1; rows != NULL && id <= SFT_DTYPE_COUNT; id++) {
        const sft_dtype *dtype = sft_dtype_get(id);
        PyObject *row =
            Py_BuildValue("(szI)", dtype->name, core_dtype_name[id], sft_dtype_bits(dtype));
        if (row == NULL || PyTuple_SetItem(rows, (Py_ssize_t)id - 1, row) < 0) {
            Py_CLEAR(rows);
        }
    }
    return rows;
}
