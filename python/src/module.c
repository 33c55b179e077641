/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * module.c - the extension module safetensors_c._core: what it exports and its state. Read core.h first.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sft.h"

static int module_exec(PyObject *module)
{
    return PyModule_AddStringConstant(module, "__version__", SFT_VERSION_STRING);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "safetensors_c._core",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
