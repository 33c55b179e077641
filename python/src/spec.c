/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * spec.c - TensorSpec: the type, shape and address of a tensor to save; and everything else that saving reads
 * from Python objects. Addresses are trusted, as in the reference. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

typedef struct spec_object {
    PyObject_HEAD const sft_dtype *dtype;
    uint64_t *shape;
    uint32_t rank;
    uint64_t data_ptr;
    uint64_t data_len;
    PyObject *owner; /* owns the memory, and is kept alive. NULL: the caller keeps it */
} spec_object;

bool core_shape_read(PyObject *value, uint64_t **out, uint32_t *rank) {
    Py_ssize_t count;

    *out = NULL;
    if (!PySequence_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value)) {
        return core_wrong_type("shape", value, "Sequence") != NULL;
    }
    count = PySequence_Size(value);
    if (count < 0) {
        return false;
    }
    *out = malloc(((size_t)count + 1) * sizeof **out);
    if (*out == NULL || count > (Py_ssize_t)INT32_MAX) {
        free(*out);
        *out = NULL;
        core_no_memory(0);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        bool done = item != NULL;
        if (done && !PyIndex_Check(item)) {
            PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(item), "__name__");
            if (type != NULL) {
                PyErr_Format(PyExc_TypeError,
                             "argument 'shape': '%U' object cannot be interpreted as an integer",
                             type);
                Py_DECREF(type);
            }
            done = false;
        }
        done = done && core_u64(item, &(*out)[i]);
        Py_XDECREF(item);
        if (!done) {
            free(*out);
            *out = NULL;
            return false;
        }
    }
    *rank = (uint32_t)count;
    return true;
}

/* torch's float4_e2m1fn_x2 has two elements in what it counts as one. */
static bool logical_shape(core_state *state, spec_object *s) {
    uint64_t last;

    if (s->dtype->id != SFT_F4 || s->rank == 0) {
        return true;
    }
    last = s->shape[s->rank - 1];
    if (last > UINT64_MAX / 2) {
        core_raise_text(state, SFT_E_OVERFLOW, NULL,
                        "F4 last-dim %llu doubled to logical shape overflows usize",
                        (unsigned long long)last);
        return false;
    }
    s->shape[s->rank - 1] = last * 2;
    return true;
}

static bool spec_fill(core_state *state, spec_object *s, PyObject **values) {
    Py_ssize_t len;
    const char *name;

    if (!PyUnicode_Check(values[0])) {
        return core_wrong_type("dtype", values[0], "str") != NULL;
    }
    name = PyUnicode_AsUTF8AndSize(values[0], &len);
    if (name == NULL || !core_shape_read(values[1], &s->shape, &s->rank) ||
        !core_u64(values[2], &s->data_ptr) || !core_u64(values[3], &s->data_len)) {
        return false;
    }
    s->dtype = core_dtype_by_name(name, len);
    if (s->dtype == NULL) {
        static const char supported[] =
#define NAME(id, text) ", " text
            CORE_DTYPE_MAP(NAME);
#undef NAME
        core_raise_text(state, SFT_E_DTYPE, NULL, "Unknown dtype \"%U\". Supported dtypes: %s",
                        values[0], supported + 2);
        return false;
    }
    /* "F4" is the format's name, and means its shape; torch's name means torch's. */
    return strcmp(name, "float4_e2m1fn_x2") != 0 || logical_shape(state, s);
}

static PyObject *spec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"dtype", "shape", "data_ptr", "data_len", "owner"};
    static const core_signature signature = {"TensorSpec.__new__", parameters, 5, 0, 4};
    core_state *state = PyType_GetModuleState(type);
    PyObject *values[5];
    spec_object *s;

    if (state == NULL || !core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    s = PyObject_New(spec_object, type);
    if (s == NULL) {
        return NULL;
    }
    s->shape = NULL;
    s->owner = NULL;
    if (!spec_fill(state, s, values)) {
        Py_DECREF(s);
        return NULL;
    }
    s->owner = Py_XNewRef(values[4]);
    return (PyObject *)s;
}

static void spec_dealloc(PyObject *self) {
    spec_object *s = (spec_object *)self;

    free(s->shape);
    Py_XDECREF(s->owner);
    core_object_free(self);
}

static PyObject *spec_dtype(PyObject *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(((spec_object *)self)->dtype->name);
}

static PyObject *spec_shape(PyObject *self, void *closure) {
    spec_object *s = (spec_object *)self;
    (void)closure;
    return core_shape_list(s->shape, s->rank);
}

static PyObject *spec_data_ptr(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(((spec_object *)self)->data_ptr);
}

static PyObject *spec_data_len(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(((spec_object *)self)->data_len);
}

static PyObject *spec_repr(PyObject *self) {
    spec_object *s = (spec_object *)self;
    PyObject *shape = core_shape_list(s->shape, s->rank), *text = NULL;
    if (shape != NULL) {
        text = PyUnicode_FromFormat(
            "TensorSpec(dtype='%s', shape=%R, data_ptr=%llu, data_len=%llu)", s->dtype->name, shape,
            (unsigned long long)s->data_ptr, (unsigned long long)s->data_len);
        Py_DECREF(shape);
    }
    return text;
}

static PyGetSetDef spec_getset[] = {
    {"dtype", spec_dtype, NULL, "The tensor's type as the format calls it.", NULL},
    {"shape", spec_shape, NULL, "The shape that goes into the header.", NULL},
    {"data_ptr", spec_data_ptr, NULL, "Address of the bytes.", NULL},
    {"data_len", spec_data_len, NULL, "Number of bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot spec_slots[] = {
    {Py_tp_doc,
     (void *)"TensorSpec(*, dtype, shape, data_ptr, data_len, owner=None)\n--\n\n"
             "A tensor to be saved, by its address. The memory must stay; owner is kept alive."},
    {Py_tp_new, (void *)spec_new},
    {Py_tp_dealloc, (void *)spec_dealloc},
    {Py_tp_repr, (void *)spec_repr},
    {Py_tp_getset, spec_getset},
    {0, NULL},
};

PyType_Spec core_spec_spec = {
    .name = "safetensors_c.TensorSpec",
    .basicsize = sizeof(spec_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = spec_slots,
};

bool core_spec_read(core_state *state, PyObject *name, PyObject *spec, sft_save_tensor *out) {
    spec_object *s = (spec_object *)spec;
    Py_ssize_t len;
    uint64_t elements = 1, bytes = 0;
    bool fits = true;
    sft_error err;

    if (!PyUnicode_Check(name)) {
        return core_wrong_type("tensor_dict", name, "str") != NULL;
    }
    if (!Py_IS_TYPE(spec, state->spec_type)) {
        return core_wrong_type("tensor_dict", spec, "TensorSpec") != NULL;
    }
    memset(out, 0, sizeof *out);
    out->name = PyUnicode_AsUTF8AndSize(name, &len);
    if (out->name == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < s->rank && fits; i++) {
        fits = s->shape[i] == 0 || elements <= UINT64_MAX / s->shape[i];
        elements = fits ? elements * s->shape[i] : 0;
    }
    sft_zero(&err, sizeof err);
    err.offset = SFT_NO_OFFSET;
    err.status = !fits ? SFT_E_OVERFLOW : sft_dtype_bytes(s->dtype, elements, &bytes, &err);
    if (err.status == SFT_OK && bytes != s->data_len) {
        err.status = SFT_E_SIZE;
    }
    if (err.status != SFT_OK) {
        (void)sft_escape(err.tensor, sizeof err.tensor, out->name, (size_t)len);
        return core_raise(state, &err, CORE_SERIALIZING) != NULL;
    }
    out->name_len = (size_t)len;
    out->dtype = s->dtype;
    out->shape = s->shape;
    out->rank = s->rank;
    out->data = (const void *)(uintptr_t)s->data_ptr;
    out->nbytes = s->data_len;
    return true;
}

/* ---------------------------------------------------------------- bytes, digests, metadata */

/* An array of the other byte order: its bytes are no numbers here. Not every buffer says its format. */
static bool is_foreign_order(PyObject *object) {
    Py_buffer view;

    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return false;
    }
    const char first = view.format != NULL ? view.format[0] : '\0';
    const bool foreign = view.itemsize > 1 && (first == '>' || first == '!');
    PyBuffer_Release(&view);
    return foreign;
}

bool core_bytes_get(core_state *state, PyObject *object, core_bytes *out) {
    memset(out, 0, sizeof *out);
    if (Py_IS_TYPE(object, state->spec_type)) {
        spec_object *s = (spec_object *)object;
        out->data = (const void *)(uintptr_t)s->data_ptr;
        out->size = s->data_len;
        return true;
    }
    if (PyObject_GetBuffer(object, &out->view, PyBUF_SIMPLE) < 0) {
        out->view.obj = NULL;
        return false;
    }
    if (is_foreign_order(object)) {
        PyErr_SetString(PyExc_TypeError,
                        "an array whose numbers are big-endian: its bytes would be other numbers");
        core_bytes_release(out);
        return false;
    }
    out->data = out->view.buf;
    out->size = (uint64_t)out->view.len;
    return true;
}

void core_bytes_release(core_bytes *bytes) {
    if (bytes->view.obj != NULL) {
        PyBuffer_Release(&bytes->view);
    }
}

bool core_digests(PyObject *value, uint32_t *out) {
    static const char *const names[] = {"crc32c", "sha256", NULL};
    static const uint32_t digests[] = {SFT_DIGEST_CRC32C, SFT_DIGEST_SHA256};
    PyObject *list;
    int found = 0;

    *out = 0;
    if (core_none(value) == NULL) {
        return true;
    }
    list = PyUnicode_Check(value) ? Py_BuildValue("[O]", value) : PySequence_List(value);
    for (Py_ssize_t i = 0; list != NULL && found >= 0 && i < PyList_Size(list); i++) {
        found = core_one_of(PyList_GetItem(list, i), "digests", "digest", names);
        *out |= found >= 0 ? digests[found] : 0;
    }
    Py_XDECREF(list);
    return list != NULL && found >= 0;
}

/* The head of what numpy's __array_struct__ points to (the array interface protocol, version 3). */
typedef struct array_interface {
    int two; /* always */
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    void *data;
} array_interface;

PyObject *core_array_address(PyObject *module, PyObject *array) {
    PyObject *capsule = PyObject_GetAttrString(array, "__array_struct__");
    const array_interface *a = capsule != NULL ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    PyObject *address = NULL;

    (void)module;
    if (a != NULL && a->two != 2) {
        PyErr_SetString(PyExc_ValueError,
                        "__array_struct__ is not of version 3 of the array interface");
    } else if (a != NULL) {
        address = PyLong_FromVoidPtr(a->data);
    }
    Py_XDECREF(capsule);
    return address;
}

bool core_metadata_read(PyObject *metadata, core_metadata *out) {
    PyObject *key, *value;
    Py_ssize_t position = 0;

    out->entries = NULL;
    out->count = 0;
    if (core_none(metadata) == NULL) {
        return true;
    }
    if (!PyDict_Check(metadata)) {
        return core_wrong_type("metadata", metadata, "dict") != NULL;
    }
    out->entries = calloc((size_t)PyDict_Size(metadata) + 1, sizeof *out->entries);
    if (out->entries == NULL) {
        core_no_memory(0);
        return false;
    }
    while (PyDict_Next(metadata, &position, &key, &value)) {
        sft_metadata_entry *e = &out->entries[out->count];
        Py_ssize_t key_len, value_len;
        if (!PyUnicode_Check(key) || !PyUnicode_Check(value)) {
            core_wrong_type("metadata", PyUnicode_Check(key) ? value : key, "str");
            return false;
        }
        e->key = PyUnicode_AsUTF8AndSize(key, &key_len);
        e->value = PyUnicode_AsUTF8AndSize(value, &value_len);
        if (e->key == NULL || e->value == NULL) {
            return false;
        }
        e->key_len = (size_t)key_len;
        e->value_len = (size_t)value_len;
        out->count++;
    }
    return true;
}

void core_metadata_free(core_metadata *metadata) {
    free(metadata->entries);
}
