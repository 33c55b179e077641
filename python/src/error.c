/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * error.c - SafetensorError, and how the library's errors become exceptions. Texts are the reference's, with
 * the name of its variant in brackets, because programs search for either; the attributes status, offset and tensor
 * give the place of the fault, and `detail` the library's own sentence. Read core.h first.
 */
#include "core.h"

#include <errno.h>
#include <stdarg.h>

typedef struct text {
    int32_t status;
    const char *variant;
    const char *text; /* NULL: a sentence is made */
} text;

/* How the reference calls what the library found. */
static const text texts[] = {
    {SFT_E_TOO_SMALL, "HeaderTooSmall", "header too small"},
    {SFT_E_HEADER_TOO_LARGE, "HeaderTooLarge", "header too large"},
    {SFT_E_HEADER_PAST_END, "InvalidHeaderLength", "invalid header length"},
    {SFT_E_UTF8, "InvalidHeader", "invalid UTF-8 in header"},
    {SFT_E_JSON, "InvalidHeaderDeserialization", "invalid JSON in header"},
    {SFT_E_SCHEMA, "InvalidHeaderDeserialization", "invalid JSON in header"},
    {SFT_E_DUPLICATE, "InvalidHeaderDeserialization", "invalid JSON in header"},
    {SFT_E_MISSING_FIELD, "InvalidHeaderDeserialization", "invalid JSON in header"},
    {SFT_E_DTYPE, "InvalidHeaderDeserialization", "invalid JSON in header"},
    {SFT_E_SHAPE, "InvalidHeaderDeserialization", "invalid JSON in header"},
    {SFT_E_OFFSETS, "InvalidOffset", NULL},
    {SFT_E_HOLE, "InvalidOffset", NULL},
    {SFT_E_OVERLAP, "InvalidOffset", NULL},
    {SFT_E_SIZE, "TensorInvalidInfo", "invalid shape, data type, or offset for tensor"},
    {SFT_E_OVERFLOW, "ValidationOverflow",
     "overflow computing buffer size from shape and/or element type"},
    {SFT_E_SUBBYTE, "MisalignedSlice",
     "The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary, "
     "this is invalid."},
    {SFT_E_COVERAGE, "MetadataIncompleteBuffer", "incomplete metadata, file not fully covered"},
};

static const text *find_text(int32_t status) {
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].status == status) {
            return &texts[i];
        }
    }
    return NULL;
}

const char *core_reference_text(int32_t status) {
    const text *t = find_text(status);
    return t != NULL ? t->text : NULL;
}

PyObject *core_error_class(void) {
    PyObject *dict = Py_BuildValue("{sOsOsOsO}", "status", Py_None, "offset", Py_None, "tensor",
                                   Py_None, "detail", Py_None);
    PyObject *result =
        dict != NULL ? PyErr_NewExceptionWithDoc("safetensors_c.SafetensorError",
                                                 "Custom Python Exception for Safetensor errors.",
                                                 NULL, dict)
                     : NULL;

    Py_XDECREF(dict);
    return result;
}

/* Sets an attribute and releases the value; false when there is no value or it cannot be set. */
static bool put(PyObject *object, const char *name, PyObject *value) {
    bool done = value != NULL && PyObject_SetAttrString(object, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

static PyObject *raise_error(core_state *state, const sft_error *err, PyObject *message) {
    PyObject *error;

    if (message == NULL) {
        return NULL;
    }
    error = PyObject_CallFunctionObjArgs(state->error, message, NULL);
    Py_DECREF(message);
    if (error == NULL) {
        return NULL;
    }
    if (put(error, "status", PyUnicode_FromString(sft_status_name(err->status))) &&
        (err->offset == SFT_NO_OFFSET ||
         put(error, "offset", PyLong_FromUnsignedLongLong(err->offset))) &&
        (err->tensor[0] == 0 || put(error, "tensor", PyUnicode_FromString(err->tensor))) &&
        put(error, "detail",
            PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message), "replace"))) {
        PyErr_SetObject(state->error, error);
    }
    Py_DECREF(error);
    return NULL;
}

/* The operating system refused a read; a failed write is a SafetensorError, as with the reference. */
static PyObject *raise_system(const sft_error *err) {
    PyObject *type = err->sys == ENOENT                        ? PyExc_FileNotFoundError
                     : err->sys == EACCES || err->sys == EPERM ? PyExc_PermissionError
                                                               : PyExc_OSError;
    PyObject *error;

    error = PyObject_CallFunction(type, "s", err->message);
    if (error != NULL) {
        if (put(error, "errno", PyLong_FromLong(err->sys))) {
            PyErr_SetObject(type, error);
        }
        Py_DECREF(error);
    }
    return NULL;
}

PyObject *core_raise(core_state *state, const sft_error *err, const char *doing) {
    const text *t = find_text(err->status);
    const char *colon = doing != NULL ? ": " : "";
    PyObject *message;

    if (PyErr_Occurred()) {
        return NULL;
    }
    doing = doing != NULL ? doing : "";
    if (err->status == SFT_E_NOMEM) {
        PyErr_SetString(PyExc_MemoryError, err->message[0] != 0 ? err->message : "out of memory");
        return NULL;
    }
    if (err->status == SFT_E_CANCELLED) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return NULL;
    }
    if (err->status == SFT_E_EXISTS) {
        PyErr_SetString(PyExc_FileExistsError, err->message);
        return NULL;
    }
    if (err->sys != 0 && (err->status == SFT_E_IO || err->status == SFT_E_PATH) &&
        strcmp(doing, CORE_SERIALIZING) != 0) {
        return raise_system(err);
    }
    if (t == NULL && err->sys != 0 && err->status != SFT_E_HTTP) {
        message = PyUnicode_FromFormat("%s%sI/O error: %s (os error %d)", doing, colon,
                                       err->message, (int)err->sys);
    } else if (t == NULL || (err->status == SFT_E_HOLE && err->offset == SFT_NO_OFFSET)) {
        /* of many files: the reference knows no such error */
        message = err->tensor[0] != 0 ? PyUnicode_FromFormat("%s%stensor `%s`: %s", doing, colon,
                                                             err->tensor, err->message)
                                      : PyUnicode_FromFormat("%s%s%s", doing, colon, err->message);
    } else if (t->text == NULL) {
        message = PyUnicode_FromFormat("%s%sinvalid offset for tensor `%s` (%s)", doing, colon,
                                       err->tensor, t->variant);
    } else if (strcmp(t->variant, "InvalidHeaderDeserialization") == 0 ||
               err->status == SFT_E_UTF8) {
        message = PyUnicode_FromFormat("%s%s%s: %s (%s)", doing, colon, t->text, err->message,
                                       t->variant);
    } else {
        message = PyUnicode_FromFormat("%s%s%s (%s)", doing, colon, t->text, t->variant);
    }
    return raise_error(state, err, message);
}

PyObject *core_no_memory(uint64_t bytes) {
    if (bytes == 0) {
        PyErr_SetString(PyExc_MemoryError, "out of memory");
        return NULL;
    }
    return PyErr_Format(PyExc_MemoryError, "cannot allocate %llu bytes", (unsigned long long)bytes);
}

PyObject *core_raise_plain(core_state *state, const sft_error *err) {
    if (find_text(err->status) == NULL && err->tensor[0] == 0) {
        return core_raise(state, err, NULL);
    }
    return raise_error(state, err,
                       err->tensor[0] == 0
                           ? PyUnicode_FromString(err->message)
                           : PyUnicode_FromFormat("%s: %s", err->tensor, err->message));
}

PyObject *core_raise_text(core_state *state, sft_status status, const char *tensor,
                          const char *format, ...) {
    sft_error err;
    PyObject *message;
    va_list arguments;

    sft_zero(&err, sizeof err);
    err.status = status;
    err.offset = SFT_NO_OFFSET;
    if (tensor != NULL) {
        (void)sft_escape(err.tensor, sizeof err.tensor, tensor, strlen(tensor));
    }
    va_start(arguments, format);
    message = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (message != NULL) {
        const char *utf8 = PyUnicode_AsUTF8AndSize(message, NULL);
        if (utf8 == NULL) {
            PyErr_Clear();
        } else {
            (void)sft_escape(err.message, sizeof err.message, utf8, strlen(utf8));
        }
    }
    return raise_error(state, &err, message);
}

PyObject *core_wrong_type(const char *argument, PyObject *value, const char *wanted) {
    PyObject *name;

    if (value == Py_None) {
        PyErr_Format(PyExc_TypeError, "argument '%s': 'None' is not an instance of '%s'", argument,
                     wanted);
        return NULL;
    }
    name = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    if (name != NULL) {
        PyErr_Format(PyExc_TypeError, "argument '%s': '%U' object is not an instance of '%s'",
                     argument, name, wanted);
        Py_DECREF(name);
    }
    return NULL;
}
