/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tensor.c - tensors of a framework over memory of ours. numpy arrays are made by numpy.ndarray() itself over
 * an object that lends the memory; the other frameworks but torch (torch.c) get theirs from such an array.
 * Nothing is imported before a tensor is asked for. Read core.h first.
 */
#include "core.h"

const char *const core_framework_name[CORE_FRAMEWORKS] = {
    "pytorch", "numpy", "tensorflow", "flax", "mlx", "paddle", "mindspore",
};

int core_framework_find(const char *name, Py_ssize_t len) {
    static const struct {
        const char *name;
        core_framework framework;
    } names[] = {
        {"pt", CORE_TORCH},
        {"torch", CORE_TORCH},
        {"pytorch", CORE_TORCH},
        {"np", CORE_NUMPY},
        {"numpy", CORE_NUMPY},
        {"tf", CORE_TENSORFLOW},
        {"tensorflow", CORE_TENSORFLOW},
        {"jax", CORE_FLAX},
        {"flax", CORE_FLAX},
        {"mlx", CORE_MLX},
        {"paddle", CORE_PADDLE},
        {"ms", CORE_MINDSPORE},
        {"mindspore", CORE_MINDSPORE},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i].name) == (size_t)len && memcmp(names[i].name, name, (size_t)len) == 0) {
            return (int)names[i].framework;
        }
    }
    return -1;
}

PyObject *core_shape_tuple(const uint64_t *shape, size_t rank) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)rank);
    for (size_t i = 0; tuple != NULL && i < rank; i++) {
        PyObject *extent = PyLong_FromUnsignedLongLong(shape[i]);
        if (extent == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, extent) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

PyObject *core_shape_list(const uint64_t *shape, size_t rank) {
    PyObject *list = PyList_New((Py_ssize_t)rank);
    for (size_t i = 0; list != NULL && i < rank; i++) {
        PyObject *extent = PyLong_FromUnsignedLongLong(shape[i]);
        if (extent == NULL || PyList_SetItem(list, (Py_ssize_t)i, extent) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *core_name(const sft_tensor *tensor) {
    return PyUnicode_FromStringAndSize(tensor->name, (Py_ssize_t)tensor->name_len);
}

/* ---------------------------------------------------------------- numpy */

/* A dtype object for a name that numpy itself may not know. */
static PyObject *numpy_lookup(uint32_t id) {
    const char *name = core_dtype_name[id];
    bool extended = id == SFT_BF16 || (id >= SFT_F8_E5M2 && id <= SFT_F8_E5M2FNUZ);
    PyObject *numpy, *what = NULL, *result;

    if (extended) {
        what = core_import_attribute("ml_dtypes", name);
        if (what == NULL) {
            PyErr_Clear();
        }
    }
    if (what == NULL && extended && id != SFT_BF16) {
        /* AttributeError: module 'numpy' has no attribute 'float8_e4m3fn' */
        what = core_import_attribute("numpy", name);
    } else if (what == NULL) {
        what = PyUnicode_FromString(name);
    }
    if (what == NULL) {
        return NULL;
    }
    numpy = PyImport_ImportModule("numpy");
    result = numpy != NULL ? PyObject_CallMethod(numpy, "dtype", "O", what) : NULL;
    Py_XDECREF(numpy);
    Py_DECREF(what);
    return result;
}

/* Little-endian types on a big-endian host are numpy's own affair. */
static PyObject *numpy_dtype(core_state *state, const sft_dtype *dtype) {
    PyObject *now;
    const uint16_t probe = 1;

    if (dtype->id > SFT_DTYPE_COUNT || core_dtype_name[dtype->id] == NULL) {
        return core_raise_text(state, SFT_E_UNSUPPORTED, NULL, "Dtype not understood: %s",
                               dtype->name);
    }
    now = __atomic_load_n(&state->numpy_dtype[dtype->id], __ATOMIC_ACQUIRE);
    if (now == NULL) {
        now = numpy_lookup(dtype->id);
        if (now != NULL && *(const unsigned char *)&probe == 0) {
            CORE_SET(now, PyObject_CallMethod(now, "newbyteorder", "s", "<"));
        }
        if (now != NULL) {
            now = core_once(&state->numpy_dtype[dtype->id], now);
        }
    }
    return now;
}

/* Two elements to a byte in files, one to a byte in ml_dtypes' arrays: a copy. */
static PyObject *unpacked_f4(core_state *state, const uint64_t *shape, uint32_t rank,
                             const core_place *place);

static PyObject *numpy_tensor(core_state *state, const sft_dtype *dtype, const uint64_t *shape,
                              uint32_t rank, const core_place *place) {
    PyObject *type = __atomic_load_n(&state->numpy_ndarray, __ATOMIC_ACQUIRE);
    PyObject *element = dtype->id != SFT_F4 ? numpy_dtype(state, dtype) : NULL;
    PyObject *dims, *offset, *lender, *result = NULL;

    if (dtype->id == SFT_F4) {
        return unpacked_f4(state, shape, rank, place);
    }
    if (element == NULL) {
        return NULL;
    }
    if (type == NULL) {
        type = core_import_attribute("numpy", "ndarray");
        if (type == NULL) {
            return NULL;
        }
        type = core_once(&state->numpy_ndarray, type);
    }
    lender =
        place->lender != NULL ? Py_NewRef(place->lender) : core_memory_object(state, place->memory);
    dims = core_shape_tuple(shape, rank);
    offset = PyLong_FromSize_t((size_t)(place->data - place->memory->base));
    if (lender != NULL && dims != NULL && offset != NULL) {
        result = PyObject_CallFunctionObjArgs(type, dims, element, lender, offset, NULL);
    }
    Py_XDECREF(lender);
    Py_XDECREF(dims);
    Py_XDECREF(offset);
    return result;
}

static PyObject *unpacked_f4(core_state *state, const uint64_t *shape, uint32_t rank,
                             const core_place *place) {
    PyObject *unpack = core_import_attribute("safetensors_c.numpy", "_unpack_f4");
    PyObject *dims = NULL, *packed = NULL, *result = NULL;
    uint64_t bytes = 1;

    for (uint32_t i = 0; i < rank; i++) {
        bytes *= shape[i]; /* checked when the catalog was made */
    }
    bytes /= 2;
    if (unpack != NULL) {
        packed = numpy_tensor(state, sft_dtype_get(SFT_U8), &bytes, 1, place);
    }
    dims = packed != NULL ? core_shape_tuple(shape, rank) : NULL;
    if (dims != NULL) {
        result = PyObject_CallFunctionObjArgs(unpack, packed, dims, NULL);
    }
    Py_XDECREF(dims);
    Py_XDECREF(packed);
    Py_XDECREF(unpack);
    return result;
}

/* ---------------------------------------------------------------- all frameworks */

PyObject *core_import_attribute(const char *module, const char *name) {
    PyObject *loaded = PyImport_ImportModule(module);
    PyObject *result = loaded != NULL ? PyObject_GetAttrString(loaded, name) : NULL;
    Py_XDECREF(loaded);
    return result;
}

/* A framework's tensor of a numpy array, by its own function or by one of safetensors_c, which takes the device. */
static PyObject *convert(core_framework framework, PyObject *device, PyObject *array) {
    static const struct {
        const char *module;
        const char *name;
    } own[CORE_FRAMEWORKS] = {
        [CORE_TENSORFLOW] = {"tensorflow", "convert_to_tensor"},
        [CORE_FLAX] = {"jax.numpy", "array"},
        [CORE_MLX] = {"safetensors_c.mlx", "_from_numpy"},
        [CORE_PADDLE] = {"safetensors_c.paddle", "_from_numpy"},
        [CORE_MINDSPORE] = {"safetensors_c.mindspore", "_from_numpy"},
    };
    const bool ours = framework >= CORE_MLX;
    PyObject *function = core_import_attribute(own[framework].module, own[framework].name);
    PyObject *last = !ours ? NULL : device != NULL ? device : Py_None;
    PyObject *result =
        function != NULL ? PyObject_CallFunctionObjArgs(function, array, last, NULL) : NULL;

    Py_XDECREF(function);
    return result;
}

PyObject *core_tensor(core_state *state, const core_target *target, const sft_dtype *dtype,
                      const uint64_t *shape, uint32_t rank, const core_place *place) {
    const core_framework framework = target->framework;
    PyObject *device = target->device, *tensor;

    if (framework == CORE_TORCH) {
        core_slab *slab = core_slab_new(1, rank, place->memory);
        if (slab == NULL) {
            return core_no_memory(0);
        }
        tensor = core_torch_tensor(state, slab, dtype, shape, rank, place->data);
        core_slab_drop(slab);
        if (tensor != NULL && device != NULL) {
            CORE_SET(tensor, PyObject_CallMethod(tensor, "to", "O", device));
        }
        return tensor;
    }
    tensor = numpy_tensor(state, dtype, shape, rank, place);
    if (tensor != NULL && framework != CORE_NUMPY) {
        CORE_SET(tensor, convert(framework, device, tensor));
    }
    return tensor;
}
