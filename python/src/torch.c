/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * torch.c - torch tensors through DLPack capsules, the one way that needs none of torch's headers. The
 * capsules of one load share a slab, so a tensor costs no allocation of ours. Types that DLPack does not have in every
 * supported torch are passed as uint8 and then viewed. Source: DLPack 1.1, dlpack.h.
 */
#include "core.h"
#include <sft/dlpack.h>

#include <stdlib.h>

struct core_slab {
    size_t refs; /* atomic */
    core_memory *memory;
    size_t room, used;
    int modes;               /* whether torch has dispatch modes now; -1: not asked */
    int64_t *next_dimension; /* shape and strides of the next tensor */
    sft_dl_managed_old tensors[];
};

/* DLPack's code of a type; 0 bits for floats of less than two bytes, which always go by way of uint8. */
static sft_dl_type dlpack_type(const sft_dtype *dtype) {
    static const uint8_t codes[SFT_KIND_COMPLEX + 1] = {[SFT_KIND_BOOL] = SFT_DL_BOOL,
                                                        [SFT_KIND_INT] = SFT_DL_INT,
                                                        [SFT_KIND_UINT] = SFT_DL_UINT,
                                                        [SFT_KIND_FLOAT] = SFT_DL_FLOAT,
                                                        [SFT_KIND_COMPLEX] = SFT_DL_COMPLEX};
    if (dtype->kind == SFT_KIND_FLOAT && dtype->block_bytes < 2) {
        return (sft_dl_type){0, 0, 0};
    }
    return (sft_dl_type){dtype->id == SFT_BF16 ? SFT_DL_BFLOAT : codes[dtype->kind],
                         (uint8_t)(8 * dtype->block_bytes), 1};
}

core_slab *core_slab_new(size_t tensors, size_t dimensions, core_memory *memory) {
    size_t numbers = 2 * dimensions + 1;
    core_slab *slab;

    if (tensors > SIZE_MAX / 4 / sizeof(sft_dl_managed_old) ||
        numbers > SIZE_MAX / 4 / sizeof(int64_t)) {
        return NULL;
    }
    slab = malloc(sizeof *slab + tensors * sizeof(sft_dl_managed_old) + numbers * sizeof(int64_t));
    if (slab != NULL) {
        slab->refs = 1;
        slab->memory = core_memory_keep(memory);
        slab->room = tensors;
        slab->used = 0;
        slab->modes = -1;
        slab->next_dimension = (int64_t *)(void *)&slab->tensors[tensors];
    }
    return slab;
}

void core_slab_drop(core_slab *slab) {
    if (slab != NULL && __atomic_fetch_sub(&slab->refs, 1, __ATOMIC_ACQ_REL) == 1) {
        core_memory_drop(slab->memory);
        free(slab);
    }
}

static void delete_tensor(sft_dl_managed_old *self) {
    core_slab_drop(self->manager_ctx);
}

/* The next tensor of the slab as a capsule; strides are given, since some versions of torch require them. */
static PyObject *capsule(core_slab *slab, sft_dl_type type, const uint64_t *shape, uint32_t rank,
                         unsigned char *data) {
    sft_dl_managed_old *m = &slab->tensors[slab->used];
    int64_t *dims = slab->next_dimension, *strides = dims + rank;
    uint64_t stride = 1;
    PyObject *result;

    for (uint32_t i = rank; i-- > 0;) {
        dims[i] = (int64_t)shape[i];
        strides[i] = (int64_t)stride;
        stride *= shape[i] > 1 ? shape[i] : 1; /* wraps only where an extent is 0 */
    }
    m->dl_tensor = (sft_dl_tensor){.data = data,
                                   .device = {SFT_DL_CPU, 0},
                                   .ndim = (int32_t)rank,
                                   .dtype = type,
                                   .shape = dims,
                                   .strides = strides};
    m->manager_ctx = slab;
    m->deleter = delete_tensor;
    result = PyCapsule_New(m, "dltensor", NULL);
    if (result != NULL) {
        slab->used++;
        slab->next_dimension = strides + rank;
        __atomic_fetch_add(&slab->refs, 1, __ATOMIC_RELAXED);
    }
    return result;
}

/* Dispatch modes (FakeTensorMode ...) do not see what comes out of a capsule; asked once for each slab. */
static bool modes_active(core_state *state, core_slab *slab) {
    if (slab->modes < 0) {
        PyObject *number =
            state->torch_modes != NULL ? PyObject_CallNoArgs(state->torch_modes) : NULL;
        slab->modes = number != NULL && PyLong_AsLong(number) > 0;
        Py_XDECREF(number);
        PyErr_Clear(); /* a torch that has no such function has no modes that matter */
    }
    return slab->modes > 0;
}

static PyObject *import_under_modes(PyObject *object, PyObject *element) {
    PyObject *function = core_import_attribute("safetensors_c.torch", "_import_under_modes");
    PyObject *tensor = NULL;

    if (function != NULL) {
        tensor = PyObject_CallFunctionObjArgs(function, object, element != NULL ? element : Py_None,
                                              NULL);
        Py_DECREF(function);
    }
    return tensor;
}

/* torch takes ownership of the capsule, or we release what it holds. element: the type to view it as; NULL: its own. */
static PyObject *import_capsule(core_state *state, core_slab *slab, PyObject *object,
                                PyObject *element) {
    PyObject *tensor = NULL;

    if (object != NULL) {
        if (modes_active(state, slab)) {
            tensor = import_under_modes(object, element);
        } else {
            tensor = PyObject_CallFunctionObjArgs(state->torch_from_dlpack, object, NULL);
            if (tensor != NULL && element != NULL) {
                CORE_SET(tensor, PyObject_CallMethod(tensor, "view", "O", element));
            }
        }
        if (tensor == NULL && PyCapsule_IsValid(object, "dltensor")) {
            PyObject *type, *value, *trace;
            PyErr_Fetch(&type, &value, &trace);
            delete_tensor(PyCapsule_GetPointer(object, "dltensor"));
            PyErr_Restore(type, value, trace);
        }
        Py_DECREF(object);
    }
    return tensor;
}

bool core_torch_ready(core_state *state) {
    PyObject *function;

    if (__atomic_load_n(&state->torch_from_dlpack, __ATOMIC_ACQUIRE) != NULL) {
        return true;
    }
    /* The function behind torch.utils.dlpack.from_dlpack, which adds 0.3 us of Python per tensor. */
    function = core_import_attribute("torch._C", "_from_dlpack");
    if (function == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        function = core_import_attribute("torch.utils.dlpack", "from_dlpack");
    }
    if (function == NULL) {
        return false;
    }
    if (__atomic_load_n(&state->torch_modes, __ATOMIC_ACQUIRE) == NULL) {
        PyObject *modes = core_import_attribute("torch._C", "_len_torch_dispatch_stack");
        if (modes != NULL) {
            core_once(&state->torch_modes, modes);
        }
        PyErr_Clear();
    }
    core_once(&state->torch_from_dlpack, function);
    return true;
}

/* torch.<name of the type>. Borrowed. */
static PyObject *torch_dtype(core_state *state, uint32_t id) {
    PyObject *now = __atomic_load_n(&state->torch_dtype[id], __ATOMIC_ACQUIRE);
    if (now == NULL) {
        now = core_import_attribute("torch", core_dtype_name[id]);
        if (now != NULL) {
            now = core_once(&state->torch_dtype[id], now);
        }
    }
    return now;
}

/* By way of uint8: the last dimension counts bytes, then the type is put on it. */
static PyObject *viewed(core_state *state, core_slab *slab, const sft_dtype *dtype,
                        const uint64_t *shape, uint32_t rank, unsigned char *data) {
    static const sft_dl_type byte = {SFT_DL_UINT, 8, 1};
    uint64_t dims[CORE_MAX_RANK];
    PyObject *element = torch_dtype(state, dtype->id);

    if (element == NULL) {
        return NULL;
    }
    if (rank > CORE_MAX_RANK) {
        return core_raise_text(state, SFT_E_UNSUPPORTED, NULL, "%s of rank %u", dtype->name,
                               (unsigned)rank);
    }
    memcpy(dims, shape, rank * sizeof dims[0]);
    if (dtype->block_elements > 1) {
        if (rank == 0 || dims[rank - 1] % dtype->block_elements != 0) {
            PyObject *list = core_shape_list(shape, rank);
            if (list != NULL) {
                core_raise_text(
                    state, SFT_E_SUBBYTE, NULL,
                    "f4_x2 dtype requires that the last dim be divisible by 2 in torch: got %R",
                    list);
                Py_DECREF(list);
            }
            return NULL;
        }
        dims[rank - 1] /= dtype->block_elements;
    }
    return import_capsule(state, slab, capsule(slab, byte, dims, rank, data), element);
}

PyObject *core_torch_tensor(core_state *state, core_slab *slab, const sft_dtype *dtype,
                            const uint64_t *shape, uint32_t rank, unsigned char *data) {
    sft_dl_type type;

    if (!core_torch_ready(state)) {
        return NULL;
    }
    if (dtype->id > SFT_DTYPE_COUNT || core_dtype_name[dtype->id] == NULL) {
        return core_raise_text(state, SFT_E_UNSUPPORTED, NULL, "Dtype not understood: %s",
                               dtype->name);
    }
    type = dlpack_type(dtype);
    if (type.bits == 0) {
        return viewed(state, slab, dtype, shape, rank, data);
    }
    return import_capsule(state, slab, capsule(slab, type, shape, rank, data), NULL);
}
