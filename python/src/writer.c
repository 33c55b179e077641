/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * writer.c - Writer: a file written tensor by tensor, without a copy of any. Names, types and shapes are
 * given first; put() then takes the bytes, from any number of threads; the file appears with finish() or not at
 * all. If the target is a descriptor, puts must come in file order. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

#define PIECE ((size_t)64 << 20) /* between looks at signals */

typedef struct core_writer {
    PyObject_HEAD core_state *state;
    sft_writer *writer; /* NULL: finished or aborted */
    PyObject *index;    /* dict: name -> index of declaration */
    PyObject *order;    /* list of names, by place in the file */
    uint64_t file_bytes;
    uint64_t data_bytes;
    Py_ssize_t busy; /* puts under way; changed under the object's lock */
} core_writer;

/* Borrows the library's writer for a call; NULL with an exception. alone: no other call may run. */
static sft_writer *enter(core_writer *w, bool alone) {
    sft_writer *writer;

    CORE_BEGIN_LOCKED(w);
    writer = alone && w->busy != 0 ? NULL : w->writer;
    if (writer != NULL) {
        w->busy++;
        w->writer = alone ? NULL : writer;
    }
    CORE_END_LOCKED();
    if (writer == NULL) {
        core_raise_text(w->state, SFT_E_STATE, NULL,
                        "Writer is finished, aborted or in use by another thread");
    }
    return writer;
}

static void leave(core_writer *w) {
    CORE_BEGIN_LOCKED(w);
    w->busy--;
    CORE_END_LOCKED();
}

static bool declare(core_writer *w, PyObject *specs) {
    PyObject *name, *spec, *number;
    Py_ssize_t position = 0;
    sft_save_tensor entry;
    uint32_t index;
    sft_error err;

    while (PyDict_Next(specs, &position, &name, &spec)) {
        if (!core_spec_read(w->state, name, spec, &entry)) {
            return false;
        }
        if (sft_writer_declare(w->writer, entry.name, entry.name_len, entry.dtype, entry.shape,
                               entry.rank, &index, &err) != SFT_OK) {
            core_raise(w->state, &err, CORE_SERIALIZING);
            return false;
        }
        number = PyLong_FromUnsignedLong(index);
        if (number == NULL || PyDict_SetItem(w->index, name, number) < 0) {
            Py_XDECREF(number);
            return false;
        }
        Py_DECREF(number);
    }
    return true;
}

static bool add_metadata(core_writer *w, PyObject *metadata) {
    core_metadata texts;
    sft_status status = SFT_OK;
    sft_error err;

    if (metadata == NULL) {
        return true;
    }
    if (!core_metadata_read(metadata, &texts)) {
        return false;
    }
    if (texts.count == 0) {
        status = sft_writer_metadata(w->writer, NULL, 0, NULL, 0, &err);
    }
    for (size_t i = 0; status == SFT_OK && i < texts.count; i++) {
        const sft_metadata_entry *e = &texts.entries[i];
        status = sft_writer_metadata(w->writer, e->key, e->key_len, e->value, e->value_len, &err);
    }
    if (status != SFT_OK) {
        core_raise(w->state, &err, CORE_SERIALIZING);
    }
    core_metadata_free(&texts);
    return status == SFT_OK;
}

/* The names by their place in the file. */
static bool lay_out(core_writer *w) {
    Py_ssize_t count = PyDict_Size(w->index), position = 0;
    PyObject **names, *name, *number;
    sft_error err;
    sft_status status;

    Py_BEGIN_ALLOW_THREADS status = sft_writer_start(w->writer, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        core_raise(w->state, &err, CORE_SERIALIZING);
        return false;
    }
    w->file_bytes = sft_writer_file_bytes(w->writer);
    names = calloc((size_t)count + 1, sizeof *names);
    if (names == NULL) {
        core_no_memory(0);
        return false;
    }
    while (PyDict_Next(w->index, &position, &name, &number)) {
        names[PyLong_AsUnsignedLong(number)] = name;
    }
    w->order = PyList_New(count);
    for (Py_ssize_t i = 0; w->order != NULL && i < count; i++) {
        uint32_t index = sft_writer_at(w->writer, (uint32_t)i);
        w->data_bytes += sft_writer_nbytes(w->writer, index);
        if (PyList_SetItem(w->order, i, Py_NewRef(names[index])) < 0) {
            Py_CLEAR(w->order);
        }
    }
    free(names);
    return w->order != NULL;
}

static bool create(core_writer *w, PyObject *target, const sft_write_options *options) {
    PyObject *bytes;
    const char *name;
    sft_status status;
    sft_error err;

    if (PyLong_Check(target)) {
        int fd;
        if (!core_descriptor(target, &fd)) {
            return false;
        }
        status = sft_writer_create_stream(&w->writer, fd, options, &err);
    } else {
        bytes = core_target_path(w->state, target, &name);
        if (bytes == NULL) {
            return false;
        }
        status = sft_writer_create(&w->writer, name, options, &err);
        Py_DECREF(bytes);
    }
    if (status != SFT_OK) {
        core_raise(w->state, &err, CORE_SERIALIZING);
    }
    return status == SFT_OK;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"target", "tensor_dict", "metadata", "digests",
                                             "durable"};
    static const core_signature signature = {"Writer", parameters, 5, 3, 2};
    core_state *state = PyType_GetModuleState(type);
    PyObject *v[5], *specs = NULL;
    core_writer *w;
    sft_write_options options;
    bool durable;

    SFT_INIT(&options);
    if (state == NULL || !core_parse(&signature, args, kwargs, v) ||
        !core_digests(v[3], &options.digests) || !core_truth(v[4], &durable)) {
        return NULL;
    }
    if (!PyDict_Check(v[1])) {
        return core_wrong_type("tensor_dict", v[1], "dict");
    }
    if (core_none(v[2]) != NULL && !PyDict_Check(v[2])) {
        return core_wrong_type("metadata", v[2], "dict");
    }
    options.durability = durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    w = (core_writer *)PyType_GenericAlloc(type, 0);
    if (w == NULL) {
        return NULL;
    }
    w->state = state;
    w->index = PyDict_New();
    specs = PyDict_Copy(v[1]);
    if (w->index == NULL || specs == NULL || !create(w, v[0], &options) || !declare(w, specs) ||
        !add_metadata(w, core_none(v[2])) || !lay_out(w)) {
        Py_DECREF(w);
        w = NULL;
    }
    Py_XDECREF(specs);
    return (PyObject *)w;
}

static void writer_dealloc(PyObject *self) {
    core_writer *w = (core_writer *)self;

    sft_writer_free(w->writer);
    Py_XDECREF(w->index);
    Py_XDECREF(w->order);
    core_object_free(self);
}

static bool put_bytes(core_writer *w, sft_writer *writer, uint32_t index, const core_bytes *bytes) {
    const unsigned char *data = bytes->data;
    uint64_t wanted = sft_writer_nbytes(writer, index), done = 0;
    sft_status status = SFT_OK;
    sft_error err;

    if (bytes->size != wanted) {
        PyErr_Format(PyExc_ValueError, "the tensor has %llu bytes, %llu were given",
                     (unsigned long long)wanted, (unsigned long long)bytes->size);
        return false;
    }
    while (status == SFT_OK && done < wanted) {
        size_t piece = wanted - done < PIECE ? (size_t)(wanted - done) : PIECE;
        Py_BEGIN_ALLOW_THREADS status =
            sft_writer_put(writer, index, done, data + done, piece, &err);
        Py_END_ALLOW_THREADS done += piece;
        if (status == SFT_OK && PyErr_CheckSignals() != 0) {
            return false;
        }
    }
    if (status != SFT_OK) {
        core_raise(w->state, &err, CORE_SERIALIZING);
    }
    return status == SFT_OK;
}

static PyObject *writer_put(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"name", "data"};
    static const core_signature signature = {"Writer.put", parameters, 2, 2, 2};
    core_writer *w = (core_writer *)self;
    PyObject *v[2], *number;
    core_bytes bytes;
    sft_writer *writer;
    bool done = false;

    if (!core_parse(&signature, args, kwargs, v)) {
        return NULL;
    }
    number = PyDict_GetItemWithError(w->index, v[0]);
    if (number == NULL) {
        return PyErr_Occurred() ? NULL
                                : core_raise_text(w->state, SFT_E_NOT_FOUND, NULL,
                                                  "Writer has no tensor %S", v[0]);
    }
    writer = enter(w, false);
    if (writer == NULL) {
        return NULL;
    }
    if (core_bytes_get(w->state, v[1], &bytes)) {
        done = put_bytes(w, writer, (uint32_t)PyLong_AsUnsignedLong(number), &bytes);
        core_bytes_release(&bytes);
    }
    leave(w);
    return done ? Py_NewRef(Py_None) : NULL;
}

static PyObject *writer_finish(PyObject *self, PyObject *ignored) {
    core_writer *w = (core_writer *)self;
    sft_writer *writer = enter(w, true);
    sft_status status;
    sft_error err;

    (void)ignored;
    if (writer == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_writer_commit(writer, &err);
    sft_writer_free(writer);
    Py_END_ALLOW_THREADS leave(w);
    return status == SFT_OK ? Py_NewRef(Py_None) : core_raise(w->state, &err, CORE_SERIALIZING);
}

static PyObject *writer_abort(PyObject *self, PyObject *ignored) {
    core_writer *w = (core_writer *)self;
    sft_writer *writer = NULL;

    (void)ignored;
    CORE_BEGIN_LOCKED(w);
    if (w->busy == 0) {
        writer = w->writer;
        w->writer = NULL;
    }
    CORE_END_LOCKED();
    sft_writer_free(writer);
    Py_RETURN_NONE;
}

static PyObject *get_order(PyObject *self, void *ignored) {
    PyObject *order = ((core_writer *)self)->order;
    (void)ignored;
    return PyList_GetSlice(order, 0, PyList_Size(order));
}

static PyObject *get_data_bytes(PyObject *self, void *ignored) {
    (void)ignored;
    return PyLong_FromUnsignedLongLong(((core_writer *)self)->data_bytes);
}

static PyObject *get_file_bytes(PyObject *self, void *ignored) {
    (void)ignored;
    return PyLong_FromUnsignedLongLong(((core_writer *)self)->file_bytes);
}

static PyMethodDef writer_methods[] = {
    {"put", CORE_METHOD(writer_put), CORE_KEYWORDS,
     "put(name, data): the bytes of a tensor; data is a TensorSpec or has a buffer."},
    {"finish", writer_finish, METH_NOARGS, "Publishes the file, once every tensor was put."},
    {"abort", writer_abort, METH_NOARGS, "Removes what was written."},
    {"__enter__", core_enter, METH_NOARGS, NULL},
    {"__exit__", writer_abort, METH_VARARGS, "Aborts unless finished."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef writer_getset[] = {
    {"order", get_order, NULL, "The names by their place in the file.", NULL},
    {"data_bytes", get_data_bytes, NULL, "Bytes of all tensors.", NULL},
    {"file_bytes", get_file_bytes, NULL, "Bytes of the file.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc,
     (void *)"Writer(target, tensor_dict, metadata=None, *, digests=None, durable=False)\n--\n\n"
             "Writes a file tensor by tensor. target: a path, or a descriptor (puts in .order)."},
    {Py_tp_new, (void *)writer_new},
    {Py_tp_dealloc, (void *)writer_dealloc},
    {Py_tp_methods, writer_methods},
    {Py_tp_getset, writer_getset},
    {0, NULL},
};

PyType_Spec core_writer_spec = {
    .name = "safetensors_c.Writer",
    .basicsize = sizeof(core_writer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = writer_slots,
};
