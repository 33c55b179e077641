/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * view.c - what items() and values() of a handle return: tensors made one by one, when they are asked for; and
 * TensorMeta, what the header says of a tensor. Read core.h first.
 */
#include "core.h"

typedef struct view_object {
    PyObject_HEAD PyObject *handle;
    PyObject *names; /* NULL: not begun */
    Py_ssize_t next;
    int items;
} view_object;

PyObject *core_view_new(core_state *state, PyObject *handle, int items) {
    view_object *v;
    PyObject *names = PyObject_CallMethod(handle, "offset_keys", NULL);

    if (names == NULL) {
        return NULL;
    }
    v = PyObject_New(view_object, state->view_type);
    if (v == NULL) {
        Py_DECREF(names);
        return NULL;
    }
    v->handle = Py_NewRef(handle);
    v->names = names;
    v->next = 0;
    v->items = items;
    return (PyObject *)v;
}

static void view_dealloc(PyObject *self) {
    view_object *v = (view_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(v->handle);
    Py_XDECREF(v->names);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *view_next(PyObject *self) {
    view_object *v = (view_object *)self;
    Py_ssize_t at = __atomic_fetch_add(&v->next, 1, __ATOMIC_RELAXED);
    PyObject *name, *tensor, *pair;

    if (at >= PyList_Size(v->names)) {
        return NULL;
    }
    name = PyList_GetItem(v->names, at);
    tensor = name != NULL ? PyObject_GetItem(v->handle, name) : NULL;
    if (tensor == NULL || !v->items) {
        return tensor;
    }
    pair = PyTuple_Pack(2, name, tensor);
    Py_DECREF(tensor);
    return pair;
}

static Py_ssize_t view_length(PyObject *self) {
    view_object *v = (view_object *)self;
    Py_ssize_t left = PyList_Size(v->names) - __atomic_load_n(&v->next, __ATOMIC_RELAXED);
    return left > 0 ? left : 0;
}

static PyType_Slot view_slots[] = {
    {Py_tp_doc, (void *)"Tensors, made one by one."},
    {Py_tp_dealloc, (void *)view_dealloc},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)view_next},
    {Py_mp_length, (void *)view_length},
    {0, NULL},
};

PyType_Spec core_view_spec = {
    .name = "safetensors_c._core.TensorIterator",
    .basicsize = sizeof(view_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = view_slots,
};

/* ---------------------------------------------------------------- TensorMeta */

typedef struct meta_object {
    PyObject_HEAD core_file *file;
    const sft_tensor *tensor;
} meta_object;

PyObject *core_meta_new(core_state *state, core_file *file, const sft_tensor *tensor) {
    meta_object *m = PyObject_New(meta_object, state->meta_type);
    if (m != NULL) {
        m->file = core_file_keep(file);
        m->tensor = tensor;
    }
    return (PyObject *)m;
}

static void meta_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    core_file_drop(((meta_object *)self)->file);
    PyObject_Free(self);
    Py_DECREF(type);
}

static const sft_file *meta_file_of(PyObject *self) {
    meta_object *m = (meta_object *)self;
    return sft_catalog_file_at(m->file->catalog, m->tensor->file);
}

static PyObject *meta_name(PyObject *self, void *closure) {
    (void)closure;
    return core_name(((meta_object *)self)->tensor);
}

static PyObject *meta_dtype(PyObject *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(((meta_object *)self)->tensor->dtype->name);
}

static PyObject *meta_shape(PyObject *self, void *closure) {
    const sft_tensor *t = ((meta_object *)self)->tensor;
    (void)closure;
    return core_shape_list(t->shape, t->rank);
}

static PyObject *meta_nbytes(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(((meta_object *)self)->tensor->nbytes);
}

static PyObject *meta_offsets(PyObject *self, void *closure) {
    const sft_tensor *t = ((meta_object *)self)->tensor;
    uint64_t from = t->pieces[0].offset - meta_file_of(self)->data_offset;
    (void)closure;
    return Py_BuildValue("(KK)", (unsigned long long)from, (unsigned long long)(from + t->nbytes));
}

static PyObject *meta_file_offset(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(((meta_object *)self)->tensor->pieces[0].offset);
}

static PyObject *meta_file(PyObject *self, void *closure) {
    const char *path = meta_file_of(self)->path;
    (void)closure;
    return PyUnicode_DecodeFSDefault(path);
}

static PyObject *meta_repr(PyObject *self) {
    PyObject *shape = meta_shape(self, NULL), *offsets = meta_offsets(self, NULL), *text = NULL;
    if (shape != NULL && offsets != NULL) {
        text = PyUnicode_FromFormat("TensorMeta(dtype='%s', shape=%R, data_offsets=%R)",
                                    ((meta_object *)self)->tensor->dtype->name, shape, offsets);
    }
    Py_XDECREF(shape);
    Py_XDECREF(offsets);
    return text;
}

static PyGetSetDef meta_getset[] = {
    {"name", meta_name, NULL, "The tensor's name.", NULL},
    {"dtype", meta_dtype, NULL, "The tensor's type as the format calls it.", NULL},
    {"shape", meta_shape, NULL, "The tensor's shape, a list.", NULL},
    {"nbytes", meta_nbytes, NULL, "Bytes of the tensor.", NULL},
    {"data_offsets", meta_offsets, NULL,
     "(start, end) of its bytes within the data section of its file.", NULL},
    {"file_offset", meta_file_offset, NULL, "Where its bytes begin in its file.", NULL},
    {"file", meta_file, NULL, "Path of its file.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot meta_slots[] = {
    {Py_tp_doc, (void *)"What the header says of a tensor."},
    {Py_tp_dealloc, (void *)meta_dealloc},
    {Py_tp_repr, (void *)meta_repr},
    {Py_tp_getset, meta_getset},
    {0, NULL},
};

PyType_Spec core_meta_spec = {
    .name = "safetensors_c.TensorMeta",
    .basicsize = sizeof(meta_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = meta_slots,
};
