/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * file.c - an open catalog: from a path (a file, an index, a directory, a URL), from bytes, or from a file
 * object. Its sources are mapped when the first tensor asks for it, from the descriptor that was opened
 * and checked, so a file replaced by rename meanwhile does not matter. Read core.h first.
 */
#include "core.h"

#include <errno.h>
#include <stdlib.h>

core_file *core_file_over(sft_catalog *catalog) {
    core_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        sft_catalog_close(catalog);
        core_no_memory(0);
        return NULL;
    }
    file->refs = 1;
    file->catalog = catalog;
    file->sources = sft_catalog_source_count(catalog);
    file->maps = calloc(file->sources + 1, sizeof *file->maps);
    file->lenders = calloc(file->sources + 1, sizeof *file->lenders);
    if (file->maps == NULL || file->lenders == NULL) {
        core_file_drop(file);
        core_no_memory(0);
        return NULL;
    }
    return file;
}

core_file *core_file_keep(core_file *file) {
    __atomic_fetch_add(&file->refs, 1, __ATOMIC_RELAXED);
    return file;
}

void core_file_drop(core_file *file) {
    if (file == NULL || __atomic_fetch_sub(&file->refs, 1, __ATOMIC_ACQ_REL) != 1) {
        return;
    }
    for (size_t i = 0; i < file->sources; i++) {
        if (file->lenders != NULL) {
            Py_XDECREF(file->lenders[i]);
        }
        if (file->maps != NULL) {
            core_memory_drop(file->maps[i]);
        }
    }
    free(file->maps);
    free(file->lenders);
    free(file->stamps);
    core_descriptors_drop(file->descriptors);
    sft_catalog_close(file->catalog);
    if (file->leaning != NULL) {
        file->leaning_drop(file->leaning);
    }
    core_memory_drop(file->bytes);
    free(file);
}

/* With its descriptors counted, or given up. */
static core_file *over_path(core_state *state, sft_catalog *catalog, bool mapped) {
    core_memory *map = NULL;
    core_file *file;
    core_stamp stamp = {0, 0, 0, false};

    if (mapped && sft_catalog_source_count(catalog) == 1) {
        (void)core_stamp_of(sft_source_descriptor(sft_catalog_source_at(catalog, 0)), &stamp);
        core_park(state, &catalog, &map);
    }
    file = core_file_over(catalog);
    if (file == NULL) {
        core_memory_drop(map);
        return NULL;
    }
    file->stamps = calloc(file->sources + 1, sizeof *file->stamps);
    if (file->stamps == NULL) {
        core_memory_drop(map);
        core_file_drop(file);
        core_no_memory(0);
        return NULL;
    }
    if (map != NULL) {
        file->maps[0] = map;
        file->stamps[0] = stamp;
        return file;
    }
    for (size_t i = 0; i < file->sources; i++) {
        const int fd = sft_source_descriptor(sft_catalog_source_at(catalog, i));
        file->descriptors += fd >= 0 ? 1 : 0;
        (void)core_stamp_of(fd, &file->stamps[i]);
    }
    core_descriptors_add(file->descriptors);
    return file;
}

static core_file *open_path(core_state *state, PyObject *text, const char *path, PyObject *how,
                            const char *doing, bool mapped) {
    const core_opening o = {
        .path = path, .name = path, .file = how == NULL ? text : NULL, .how = how, .doing = doing};
    sft_catalog *catalog;

    if (!core_open(state, &catalog, &o)) {
        return NULL;
    }
    return how != NULL || sft_operand_is_url(path) ? core_file_over(catalog)
                                                   : over_path(state, catalog, mapped);
}

static core_file *open_source(core_state *state, sft_source *source, const char *name,
                              PyObject *how, const char *doing) {
    const core_opening o = {.source = source, .name = name, .how = how, .doing = doing};
    sft_catalog *catalog;

    return core_open(state, &catalog, &o) ? core_file_over(catalog) : NULL;
}

static core_file *open_bytes(core_state *state, PyObject *object, PyObject *how,
                             const char *doing) {
    core_memory *memory = core_memory_view(object);
    core_file *file = NULL;
    sft_source *source;
    sft_error err;

    if (memory == NULL) {
        return NULL;
    }
    if (sft_source_open_memory(&source, memory->base, memory->size, NULL, &err) != SFT_OK) {
        core_raise(state, &err, doing);
    } else {
        file = open_source(state, source, "bytes", how, doing);
    }
    if (file == NULL) {
        core_memory_drop(memory);
    } else {
        file->bytes = memory;
    }
    return file;
}

/* The descriptor of a file object whose read() gives that file's bytes from the first on: io.FileIO, or a
 * buffer over one, at its beginning. What unpacks, or turns bytes into text, has a fileno(), too. */
static bool plain_descriptor(PyObject *object, int *fd) {
    PyObject *io = PyImport_ImportModule("io");
    PyObject *type = io != NULL ? PyObject_GetAttrString(io, "FileIO") : NULL;
    PyObject *raw = type != NULL ? PyObject_GetAttrString(object, "raw") : NULL;
    PyObject *at = NULL, *number = NULL;
    bool plain = false;

    PyErr_Clear();
    if (type != NULL && PyObject_IsInstance(raw != NULL ? raw : object, type) == 1) {
        at = PyObject_CallMethod(object, "tell", NULL);
        number = at != NULL ? PyObject_CallMethod(object, "fileno", NULL) : NULL;
        plain = number != NULL && PyLong_Check(at) && PyLong_AsLongLong(at) == 0 &&
                core_descriptor(number, fd);
    }
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(at);
    Py_XDECREF(raw);
    Py_XDECREF(type);
    Py_XDECREF(io);
    return plain;
}

/* A file object: by its descriptor if that is a regular file, else by reading it to its end. */
static core_file *open_object(core_state *state, PyObject *object, PyObject *how,
                              const char *doing) {
    PyObject *bytes;
    core_file *file;
    int fd;

    if (plain_descriptor(object, &fd)) {
        sft_source *source;
        sft_error err;
        const sft_status status = sft_source_open_fd(&source, fd, SFT_ACCESS_AUTO, NULL, &err);
        if (status == SFT_OK) {
            return open_source(state, source, "file", how, doing);
        }
        if (how == NULL && status != SFT_E_NOT_REGULAR) {
            return (core_file *)core_raise(state, &err, doing);
        }
    }
    bytes = PyObject_CallMethod(object, "read", NULL);
    if (bytes == NULL) {
        return NULL;
    }
    file = core_has_bytes(bytes) ? open_bytes(state, bytes, how, doing) : NULL;
    if (file == NULL && !PyErr_Occurred()) { /* a file object that gives text is no file of bytes */
        Py_XDECREF(core_path(object));
    }
    Py_DECREF(bytes);
    return file;
}

bool core_descriptor(PyObject *number, int *fd) {
    const long value = PyLong_AsLong(number);

    if (value == -1 && PyErr_Occurred()) {
        return false;
    }
    if (value < 0 || value > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "%ld is no file descriptor", value);
        return false;
    }
    *fd = (int)value;
    return true;
}

bool core_has_bytes(PyObject *object) {
    return PyObject_CheckBuffer(object) &&
           !PyUnicode_Check(object); /* numpy.str_ is a str that has a buffer */
}

/* CPython's sentence, behind the name of the argument. */
static void name_argument(void) {
    PyObject *type, *error, *traceback;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_Format(PyExc_TypeError, "argument 'filename': %S", error);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
}

PyObject *core_path(PyObject *object) {
    PyObject *path = PyOS_FSPath(object);

    if (path == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        name_argument();
    }
    if (path != NULL && !PyUnicode_Check(path)) {
        core_wrong_type("filename", path, "str");
        Py_CLEAR(path);
    }
    return path;
}

PyObject *core_path_bytes(PyObject *path, const char **text) {
    PyObject *bytes = PyUnicode_EncodeFSDefault(path);

    *text = bytes != NULL ? PyBytes_AsString(bytes) : NULL;
    if (bytes != NULL && strlen(*text) != (size_t)PyBytes_Size(bytes)) {
        *text = NULL;
    }
    return bytes;
}

PyObject *core_target_path(core_state *state, PyObject *object, const char **text) {
    PyObject *path = core_path(object);
    PyObject *bytes = path != NULL ? core_path_bytes(path, text) : NULL;

    Py_XDECREF(path);
    if (bytes != NULL && *text == NULL) {
        core_raise_text(state, SFT_E_PATH, NULL,
                        CORE_SERIALIZING ": I/O error: Invalid argument (os error %d)", EINVAL);
        Py_CLEAR(bytes);
    }
    return bytes;
}

core_file *core_file_open(core_state *state, PyObject *source, PyObject **name, PyObject *how,
                          const char *doing, bool mapped) {
    PyObject *path, *bytes;
    const char *text;
    core_file *file;

    *name = NULL;
    if (core_has_bytes(source)) {
        file = open_bytes(state, source, how, doing);
        *name = file != NULL ? Py_NewRef(source) : NULL;
        return file;
    }
    if (!PyUnicode_Check(source)) {
        int readable =
            PyObject_HasAttrString(source, "read") && !PyObject_HasAttrString(source, "__fspath__");
        if (readable) {
            file = open_object(state, source, how, doing);
            *name = file != NULL ? Py_NewRef(source) : NULL;
            return file;
        }
    }
    path = core_path(source);
    if (path == NULL) {
        return NULL;
    }
    bytes = core_path_bytes(path, &text);
    file = bytes != NULL && (text != NULL || core_no_such_file(path))
               ? open_path(state, path, text, how, doing, mapped)
               : NULL;
    Py_XDECREF(bytes);
    if (file == NULL) {
        Py_DECREF(path);
    } else {
        *name = path;
    }
    return file;
}

/* ---------------------------------------------------------------- where bytes lie */

bool core_file_can_map(core_file *file, const sft_tensor *tensor) {
    return tensor->piece_count == 1 && tensor->pieces[0].strides == NULL &&
           (file->bytes != NULL ||
            __atomic_load_n(&file->maps[tensor->pieces[0].source], __ATOMIC_ACQUIRE) != NULL ||
            sft_source_descriptor(sft_catalog_source_at(file->catalog, tensor->pieces[0].source)) >=
                0);
}

bool core_file_holds(core_state *state, core_file *file, const sft_tensor *tensor) {
    const sft_piece *piece = &tensor->pieces[0];
    unsigned char last;
    sft_error err;

    if (file->bytes != NULL || tensor->nbytes == 0 ||
        sft_source_read(sft_catalog_source_at(file->catalog, piece->source),
                        piece->offset + tensor->nbytes - 1, &last, 1, &err) == SFT_OK) {
        return true;
    }
    return core_raise(state, &err, NULL) != NULL;
}

/* The mapping of a source; two threads may make one each, then the first stays. */
static core_memory *map_source(core_state *state, core_file *file, size_t index) {
    core_memory *now = __atomic_load_n(&file->maps[index], __ATOMIC_ACQUIRE);
    core_memory *fresh;

    if (now != NULL) {
        return now;
    }
    if (file->bytes != NULL) {
        fresh = core_memory_keep(file->bytes);
    } else {
        const sft_source *source = sft_catalog_source_at(file->catalog, index);
        fresh = core_memory_map(state, sft_source_descriptor(source),
                                (size_t)sft_source_size(source), sft_source_name(source));
        if (fresh == NULL) {
            return NULL;
        }
    }
    if (!__atomic_compare_exchange_n(&file->maps[index], &now, fresh, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        core_memory_drop(fresh);
        return now;
    }
    return fresh;
}

bool core_file_data(core_state *state, core_file *file, const sft_tensor *tensor,
                    unsigned char **data, core_memory **memory, PyObject **lender) {
    const sft_piece *piece = &tensor->pieces[0];
    core_memory *m = map_source(state, file, piece->source);
    PyObject *lent;

    if (m == NULL) {
        return false;
    }
    lent = __atomic_load_n(&file->lenders[piece->source], __ATOMIC_ACQUIRE);
    if (lent == NULL) {
        lent = core_memory_object(state, m);
        if (lent == NULL) {
            return false;
        }
        lent = core_once(&file->lenders[piece->source], lent);
    }
    *data = m->base +
            piece->offset; /* inside: the catalog checked it against the size that is mapped */
    *memory = m;
    *lender = lent;
    return true;
}

bool core_is_part(const core_file *file, const sft_tensor *tensor) {
    return sft_catalog_at(file->catalog, sft_catalog_index_of(file->catalog, tensor)) != tensor;
}

const sft_tensor *core_find(core_state *state, core_file *file, PyObject *name) {
    Py_ssize_t len;
    const char *utf8;
    const sft_tensor *tensor;

    if (!PyUnicode_Check(name)) {
        return (const sft_tensor *)core_wrong_type("name", name, "str");
    }
    utf8 = PyUnicode_AsUTF8AndSize(name, &len);
    if (utf8 == NULL) {
        return NULL;
    }
    tensor = sft_catalog_find(file->catalog, utf8, (size_t)len);
    if (tensor == NULL) {
        core_raise_text(state, SFT_E_NOT_FOUND, utf8, "File does not contain tensor %U", name);
    }
    return tensor;
}
