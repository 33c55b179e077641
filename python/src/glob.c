/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * glob.c - the names that match a pattern, by the one grammar of the library and the tool (sft_glob_match), for
 * select= and drop= of the modules in Python. Read core.h first.
 */
#include "core.h"

/* The UTF-8 of a str, lone surrogates included, as a new bytes object; NULL with a TypeError for anything else. */
static PyObject *utf8_of(const char *what, PyObject *text) {
    return PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass")
                                 : core_wrong_type(what, text, "str");
}

/* Appends the name if the pattern, which is bytes, fits it. */
static bool keep_fitting(PyObject *list, PyObject *pattern, PyObject *name) {
    PyObject *bytes = utf8_of("name", name);
    bool ok = bytes != NULL;

    if (ok && sft_glob_match(PyBytes_AsString(pattern), (size_t)PyBytes_Size(pattern),
                             PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)) != 0) {
        ok = PyList_Append(list, name) == 0;
    }
    Py_XDECREF(bytes);
    return ok;
}

PyObject *core_glob(PyObject *module, PyObject *args) {
    PyObject *text, *names, *pattern, *each, *list, *name;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &text, &names)) {
        return NULL;
    }
    pattern = utf8_of("pattern", text);
    each = pattern != NULL ? PyObject_GetIter(names) : NULL;
    list = each != NULL ? PyList_New(0) : NULL;
    while (list != NULL && (name = PyIter_Next(each)) != NULL) {
        if (!keep_fitting(list, pattern, name)) {
            Py_CLEAR(list);
        }
        Py_DECREF(name);
    }
    if (PyErr_Occurred() != NULL) {
        Py_CLEAR(list);
    }
    Py_XDECREF(pattern);
    Py_XDECREF(each);
    return list;
}
