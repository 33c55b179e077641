/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * handle_open.c - the ways to a handle: safe_open and its likes from Python's arguments, handles over what was
 * opened already, and pickled ones. What a handle can do is in handle.c. Read core.h first.
 */
#include "core.h"

/* ---------------------------------------------------------------- devices */

/* The digits after "cuda:". */
static bool device_index(const char *digits) {
    uint64_t value = 0;

    if (*digits == 0) {
        PyErr_SetString(PyExc_ValueError, "cannot parse integer from empty string");
        return false;
    }
    for (const char *p = digits; *p != 0; p++) {
        if (*p < '0' || *p > '9') {
            PyErr_SetString(PyExc_ValueError, "invalid digit found in string");
            return false;
        }
        if (value > (SIZE_MAX - 9) / 10) {
            PyErr_SetString(PyExc_ValueError, "number too large to fit in target type");
            return false;
        }
        value = value * 10 + (uint64_t)(*p - '0');
    }
    return true;
}

/* *out: NULL for the CPU, else what the framework is told. Owned. */
static bool parse_device(core_state *state, PyObject *value, PyObject **out) {
    static const char *const kinds[] = {"cuda", "npu", "xpu", "xla", "mlu", "musa", "hpu", NULL};
    PyObject *text;
    const char *name;
    bool done = false;

    *out = NULL;
    if (value == NULL || value == Py_None) {
        return true;
    }
    if (PyIndex_Check(value)) { /* 0, True, numpy.int64(0) */
        uint64_t number;
        *out = core_u64(value, &number) ? PyLong_FromUnsignedLongLong(number) : NULL;
        if (*out == NULL && PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            core_raise_text(state, SFT_E_ARG, NULL, "device %R is invalid", value);
        }
        return *out != NULL;
    }
    text = PyUnicode_Check(value) || PyObject_HasAttrString(value, "type") ? PyObject_Str(value)
                                                                           : NULL;
    name = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (name == NULL) {
        Py_XDECREF(text);
        if (!PyErr_Occurred()) {
            core_raise_text(state, SFT_E_ARG, NULL, "device %R is invalid", value);
        }
        return false;
    }
    if (strcmp(name, "cpu") == 0) {
        done = true;
    } else if (strcmp(name, "mps") == 0 || strcmp(name, "mps:0") == 0) {
        *out = PyUnicode_FromString("mps");
        done = *out != NULL;
    } else if (strncmp(name, "mps:", 4) == 0) {
        core_raise_text(state, SFT_E_ARG, NULL,
                        "device %U is invalid: only mps or mps:0 is supported", text);
    } else {
        size_t i = 0, len = 0;
        for (; kinds[i] != NULL; i++) {
            len = strlen(kinds[i]);
            if (strncmp(name, kinds[i], len) == 0 && (name[len] == 0 || name[len] == ':')) {
                break;
            }
        }
        if (kinds[i] == NULL) {
            core_raise_text(
                state, SFT_E_ARG, NULL,
                PyUnicode_Check(value) ? "device %S is invalid" : "device %R is invalid", value);
        } else if (name[len] == 0) {
            *out = PyUnicode_FromFormat("%s:0", name);
            done = *out != NULL;
        } else if (device_index(name + len + 1)) {
            *out = Py_NewRef(text);
            done = true;
        }
    }
    Py_DECREF(text);
    return done;
}

/* ---------------------------------------------------------------- opening */

enum { OPEN_FILENAME, OPEN_FRAMEWORK, OPEN_DEVICE, OPEN_BACKEND, OPEN_COUNT };
static const char *const open_parameters[] = {"filename", "framework", "device", "backend"};
static const core_signature open_signature = {"safe_open.__new__", open_parameters, OPEN_COUNT, 3,
                                              2};
static const char *const backends[] = {"mmap", "pread", NULL};

static bool framework_into(core_handle *h, PyObject *value) {
    Py_ssize_t len = 0;
    const char *framework;
    int found;

    if (!PyUnicode_Check(value)) {
        return core_wrong_type("framework", value, "str") != NULL;
    }
    framework = PyUnicode_AsUTF8AndSize(value, &len);
    if (framework == NULL) {
        return false;
    }
    found = core_framework_find(framework, len);
    if (found < 0) {
        return core_raise_text(h->state, SFT_E_ARG, NULL, "framework %U is invalid", value) != NULL;
    }
    h->framework = (core_framework)found;
    return true;
}

/* The path as it is from any directory: a pickle is opened elsewhere. */
static bool locate(core_handle *h) {
    const char *path = PyUnicode_Check(h->source) ? PyUnicode_AsUTF8AndSize(h->source, NULL) : "/";
    PyObject *absolute;

    PyErr_Clear(); /* not UTF-8 */
    if (path != NULL && (path[0] == '/' || sft_operand_is_url(path))) {
        return true;
    }
    absolute = core_import_attribute("os.path", "abspath");
    if (absolute != NULL) {
        h->where = PyObject_CallFunctionObjArgs(absolute, h->source, NULL);
        Py_DECREF(absolute);
    }
    return h->where != NULL;
}

/* Fills a fresh handle from the arguments. */
static bool open_into(core_handle *h, PyObject **v, PyObject *how) {
    core_state *state = h->state;
    int backend = 0;

    if (!framework_into(h, v[OPEN_FRAMEWORK])) {
        return false;
    }
    if (v[OPEN_BACKEND] != NULL) {
        backend = core_choice(v[OPEN_BACKEND], "backend", backends);
        if (backend == -1) {
            core_raise_text(state, SFT_E_ARG, NULL,
                            "backend \"%U\" is invalid (expected one of: \"mmap\", \"pread\")",
                            v[OPEN_BACKEND]);
        }
        if (backend < 0) {
            return false;
        }
    }
    if (!parse_device(state, v[OPEN_DEVICE], &h->device)) {
        return false;
    }
    if (h->device != NULL && h->framework != CORE_TORCH && h->framework != CORE_PADDLE) {
        return core_raise_text(state, SFT_E_UNSUPPORTED, NULL,
                               "Device %S is not supported for framework %s", h->device,
                               core_framework_name[h->framework]) != NULL;
    }
    h->file = core_file_open(state, v[OPEN_FILENAME], &h->source, how,
                             "Error while deserializing header", backend == 0);
    if (h->file == NULL || !locate(h)) {
        return false;
    }
    /* Nobody writes into the bytes of an immutable object. */
    h->owned = backend == 1 || (h->file->bytes != NULL && h->file->bytes->readonly);
    h->how = how != NULL ? Py_NewRef(how) : NULL;
    h->backend = PyUnicode_FromString(backends[backend]);
    return h->backend != NULL;
}

static core_handle *blank(core_state *state) {
    core_handle *h = PyObject_New(core_handle, state->handle_type);

    if (h != NULL) {
        h->state = state;
        h->file = NULL;
        h->source = NULL;
        h->where = NULL;
        h->device = NULL;
        h->backend = NULL;
        h->how = NULL;
        h->owned = false;
        h->framework = CORE_NUMPY;
    }
    return h;
}

PyObject *core_handle_over(core_state *state, core_file *file, PyObject *source,
                           PyObject *framework, PyObject *device) {
    core_handle *h = blank(state);

    if (h == NULL) {
        core_file_drop(file);
        return NULL;
    }
    h->file = file;
    h->source = PyTuple_Pack(1, source); /* no str: there is more to it than its path */
    h->backend = PyUnicode_FromString(backends[0]);
    if (h->source == NULL || h->backend == NULL || !framework_into(h, framework) ||
        !parse_device(state, device, &h->device)) {
        Py_DECREF(h);
        return NULL;
    }
    return (PyObject *)h;
}

PyObject *core_handle_part(core_handle *whole, core_file *file) {
    core_handle *h = blank(whole->state);

    if (h == NULL) {
        core_file_drop(file);
        return NULL;
    }
    h->file = file;
    h->source =
        PyUnicode_Check(whole->source) ? PyTuple_Pack(1, whole->source) : Py_NewRef(whole->source);
    h->backend = Py_NewRef(whole->backend);
    h->device = Py_XNewRef(whole->device);
    h->framework = whole->framework;
    h->owned = whole->owned;
    if (h->source == NULL) {
        Py_DECREF(h);
        return NULL;
    }
    return (PyObject *)h;
}

PyObject *core_handle_again(core_handle *handle) {
    core_file *file = core_handle_file(handle);
    core_handle *h = file != NULL ? blank(handle->state) : NULL;

    if (h == NULL) {
        core_file_drop(file);
        return NULL;
    }
    h->file = file;
    h->source = Py_XNewRef(handle->source);
    h->where = Py_XNewRef(handle->where);
    h->device = Py_XNewRef(handle->device);
    h->backend = Py_XNewRef(handle->backend);
    h->how = Py_XNewRef(handle->how);
    h->framework = handle->framework;
    h->owned = handle->owned;
    return (PyObject *)h;
}

PyObject *core_handle_stamps(core_file *file) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)(file->stamps != NULL ? file->sources : 0));

    for (size_t i = 0; tuple != NULL && file->stamps != NULL && i < file->sources; i++) {
        const core_stamp *s = &file->stamps[i];
        PyObject *one = !s->known
                            ? Py_NewRef(Py_None)
                            : Py_BuildValue("KKL", (unsigned long long)s->inode,
                                            (unsigned long long)s->size, (long long)s->mtime_ns);
        if (one == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

PyObject *core_handle_new(core_state *state, PyObject **values, PyObject *how) {
    core_handle *h = blank(state);

    if (h == NULL) {
        return NULL;
    }
    if (!open_into(h, values, how)) {
        Py_DECREF(h);
        return NULL;
    }
    return (PyObject *)h;
}

PyObject *core_handle_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *values[OPEN_COUNT];
    core_state *state = PyType_GetModuleState(type);

    if (state == NULL || !core_parse(&open_signature, args, kwargs, values)) {
        return NULL;
    }
    return core_handle_new(state, values, NULL);
}

PyObject *core_safe_open_handle(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"f", "framework", "device", "backend"};
    static const core_signature signature = {"_safe_open_handle.__new__", parameters, OPEN_COUNT, 3,
                                             2};
    PyObject *values[OPEN_COUNT], *result;
    PyObject *name = NULL;

    if (!core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    /* A file that has a name is opened by it, as the reference does; others are read. */
    if (PyObject_HasAttrString(values[0], "name")) {
        name = PyObject_GetAttrString(values[0], "name");
        if (name != NULL && PyUnicode_Check(name)) {
            values[0] = name;
        }
        PyErr_Clear();
    }
    result = core_handle_new(core_state_of(module), values, NULL);
    Py_XDECREF(name);
    return result;
}

/* A handle is opened from its pickle only over the files that it was pickled over. */
static bool same_files(core_handle *h, PyObject *stamps) {
    PyObject *now = core_handle_stamps(h->file);
    const int same = now != NULL ? PyObject_RichCompareBool(now, stamps, Py_EQ) : -1;

    Py_XDECREF(now);
    if (same == 0) {
        core_raise_text(
            h->state, SFT_E_CHANGED, NULL,
            "%S was replaced or changed after the handle that was pickled had opened it",
            h->source);
    }
    return same > 0;
}

PyObject *core_reopen(PyObject *module, PyObject *args) {
    PyObject *values[OPEN_COUNT], *how, *stamps, *handle;
    const Py_ssize_t given =
        PyTuple_Size(args); /* behind the four: what open_any was told; what the files were */

    if (given < OPEN_COUNT || given > OPEN_COUNT + 2) {
        PyErr_SetString(PyExc_TypeError, "_reopen() takes 4 to 6 arguments");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < OPEN_COUNT; i++) {
        values[i] = PyTuple_GetItem(args, i);
    }
    how = given > OPEN_COUNT ? core_none(PyTuple_GetItem(args, OPEN_COUNT)) : NULL;
    stamps = given > OPEN_COUNT + 1 ? PyTuple_GetItem(args, OPEN_COUNT + 1) : NULL;
    handle = core_handle_new(core_state_of(module), values, how);
    if (handle != NULL && stamps != NULL && !same_files((core_handle *)handle, stamps)) {
        Py_CLEAR(handle);
    }
    return handle;
}
