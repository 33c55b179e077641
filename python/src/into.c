/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * into.c - reading into tensors that exist: torch tensors, numpy arrays, anything with an array interface.
 * Shapes must agree; where types differ the values are cast on the way. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

typedef struct place_for {
    const sft_tensor *tensor;
    const sft_dtype *dtype;
    void *data;
    uint64_t nbytes;
    size_t order;
    bool later; /* its tensor or some of its memory is another's, too: read after that */
} place_for;

/* A load into tensors that exist. */
typedef struct into {
    core_state *state;
    core_file *file;
    place_for *all; /* in the order of the dict */
    size_t count;
    /* Those that may be read side by side, in one load. */
    size_t *select;
    const sft_dtype **dtypes;
    sft_load_place *places;
    size_t side_by_side;
    uint64_t bytes;
} into;

static PyObject *wrong(core_state *state, const sft_tensor *tensor, const char *why) {
    return core_raise_text(state, SFT_E_ARG, tensor->name, "cannot load into the tensor for %s: %s",
                           tensor->name, why);
}

/* Its type by name: "torch.float32", dtype('float32'), "bfloat16". */
static const sft_dtype *dtype_of(PyObject *object) {
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *text = dtype != NULL ? PyObject_Str(dtype) : NULL;
    const sft_dtype *found = NULL;
    Py_ssize_t len = 0;
    const char *name = text != NULL ? PyUnicode_AsUTF8AndSize(text, &len) : NULL;

    if (name != NULL) {
        if (len > 6 && memcmp(name, "torch.", 6) == 0) {
            name += 6;
            len -= 6;
        }
        found = core_dtype_by_name(name, len);
    }
    Py_XDECREF(text);
    Py_XDECREF(dtype);
    return found;
}

static bool same_shape(PyObject *object, const sft_tensor *tensor, uint64_t last_factor) {
    PyObject *shape = PyObject_GetAttrString(object, "shape");
    bool same = shape != NULL && PySequence_Size(shape) == (Py_ssize_t)tensor->rank;

    for (uint32_t i = 0; same && i < tensor->rank; i++) {
        PyObject *extent = PySequence_GetItem(shape, (Py_ssize_t)i);
        uint64_t value = 0;
        same = extent != NULL && core_u64(extent, &value) &&
               value * (i + 1 == tensor->rank ? last_factor : 1) == tensor->shape[i];
        Py_XDECREF(extent);
    }
    Py_XDECREF(shape);
    return same;
}

static bool torch_place(core_state *state, PyObject *object, place_for *p) {
    PyObject *device = PyObject_GetAttrString(object, "device");
    PyObject *kind = device != NULL ? PyObject_GetAttrString(device, "type") : NULL;
    PyObject *packed = kind != NULL ? PyObject_CallMethod(object, "is_contiguous", NULL) : NULL;
    PyObject *address = NULL;
    uint64_t value = 0;
    bool done = false;

    if (packed != NULL &&
        (!PyUnicode_Check(kind) || PyUnicode_CompareWithASCIIString(kind, "cpu") != 0)) {
        wrong(state, p->tensor, "it is not on the CPU");
    } else if (packed != NULL && packed != Py_True) {
        wrong(state, p->tensor, "it is not contiguous");
    } else if (packed != NULL) {
        address = PyObject_CallMethod(object, "data_ptr", NULL);
        done = address != NULL && core_u64(address, &value);
        p->data = (void *)(uintptr_t)value;
    }
    Py_XDECREF(address);
    Py_XDECREF(packed);
    Py_XDECREF(kind);
    Py_XDECREF(device);
    return done;
}

static bool array_place(core_state *state, PyObject *object, place_for *p) {
    PyObject *interface = PyObject_GetAttrString(object, "__array_interface__");
    PyObject *data = interface != NULL ? PyMapping_GetItemString(interface, "data") : NULL;
    PyObject *strides = data != NULL ? PyMapping_GetItemString(interface, "strides") : NULL;
    uint64_t value = 0;
    bool done = false;

    if (strides != NULL && strides != Py_None) {
        wrong(state, p->tensor, "it is not contiguous");
    } else if (strides != NULL && PyTuple_Check(data) &&
               PyObject_IsTrue(PyTuple_GetItem(data, 1))) {
        wrong(state, p->tensor, "it is read-only");
    } else if (strides != NULL && PyTuple_Check(data)) {
        done = core_u64(PyTuple_GetItem(data, 0), &value);
        p->data = (void *)(uintptr_t)value;
    }
    Py_XDECREF(strides);
    Py_XDECREF(data);
    Py_XDECREF(interface);
    return done;
}

static bool find_place(const into *t, PyObject *name, PyObject *object, place_for *p) {
    core_state *state = t->state;
    uint64_t elements = 1;
    sft_error err;

    p->tensor = core_find(state, t->file, name);
    if (p->tensor == NULL) {
        return false;
    }
    p->dtype = dtype_of(object);
    if (p->dtype == NULL) {
        if (!PyErr_Occurred()) {
            wrong(state, p->tensor, "its type has no name in the format");
        }
        return false;
    }
    if (!same_shape(object, p->tensor, p->dtype->block_elements)) {
        PyErr_Clear();
        wrong(state, p->tensor, "its shape differs");
        return false;
    }
    for (uint32_t i = 0; i < p->tensor->rank; i++) {
        elements *= p->tensor->shape[i]; /* checked when the catalog was made */
    }
    if (sft_dtype_bytes(p->dtype, elements, &p->nbytes, &err) != SFT_OK) {
        core_raise(state, &err, NULL);
        return false;
    }
    return PyObject_HasAttrString(object, "data_ptr") ? torch_place(state, object, p)
                                                      : array_place(state, object, p);
}

static int by_address(const void *a, const void *b) {
    const place_for *x = a, *y = b;

    if (x->data != y->data) {
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_order(const void *a, const void *b) {
    const place_for *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* What the pool may not write at the same time. seen: a byte per tensor of the catalog. */
static void find_later(into *t, unsigned char *seen) {
    uintptr_t end = 0;

    qsort(t->all, t->count, sizeof *t->all, by_address);
    for (size_t i = 0; i < t->count; i++) {
        place_for *p = &t->all[i];
        uintptr_t begin = (uintptr_t)p->data;
        p->later = begin < end && p->nbytes != 0;
        end = begin + (uintptr_t)p->nbytes > end ? begin + (uintptr_t)p->nbytes : end;
    }
    qsort(t->all, t->count, sizeof *t->all, by_order);
    for (size_t i = 0; i < t->count; i++) {
        place_for *p = &t->all[i];
        unsigned char *one = &seen[sft_catalog_index_of(t->file->catalog, p->tensor)];
        p->later = p->later || *one != 0 || core_is_part(t->file, p->tensor);
        *one = 1;
    }
}

static const sft_dtype *cast_to(const place_for *p) {
    return p->dtype->id != p->tensor->dtype->id ? p->dtype : NULL;
}

static void find_side_by_side(into *t) {
    for (size_t i = 0; i < t->count; i++) {
        const place_for *p = &t->all[i];
        if (!p->later) {
            const size_t n = t->side_by_side++;
            t->select[n] = sft_catalog_index_of(t->file->catalog, p->tensor);
            t->dtypes[n] = cast_to(p);
            t->places[n] = (sft_load_place){p->nbytes != 0 ? p->data : NULL, (size_t)p->nbytes};
            t->bytes += p->nbytes;
        }
    }
}

static void into_free(into *t) {
    free(t->all);
    free(t->select);
    free((void *)t->dtypes);
    free(t->places);
}

/* The dict's tensors and their places. False with an exception; into_free in every case. */
static bool into_find(into *t, PyObject *targets) {
    const size_t room = (size_t)PyDict_Size(targets) + 1;
    unsigned char *seen = calloc(sft_catalog_count(t->file->catalog) + 1, 1);
    PyObject *name, *object;
    Py_ssize_t position = 0;
    bool found;

    t->all = calloc(room, sizeof *t->all);
    t->select = malloc(room * sizeof *t->select);
    t->dtypes = malloc(room * sizeof *t->dtypes);
    t->places = malloc(room * sizeof *t->places);
    found = seen != NULL && t->all != NULL && t->select != NULL && t->dtypes != NULL &&
            t->places != NULL;
    if (!found) {
        core_no_memory(0);
    }
    while (found && PyDict_Next(targets, &position, &name, &object)) {
        t->all[t->count].order = t->count;
        found = find_place(t, name, object, &t->all[t->count++]);
    }
    if (found) {
        find_later(t, seen);
        find_side_by_side(t);
    }
    free(seen);
    return found;
}

static sft_status read_side_by_side(const into *t, bool verify, core_watch *watch) {
    sft_loaded *loaded = NULL;
    sft_load_options options;
    sft_status status;

    SFT_INIT(&options);
    options.select = t->select;
    options.select_count = t->side_by_side;
    options.dtypes = t->dtypes;
    options.places = t->places;
    options.control = &watch->control;
    options.flags = verify ? SFT_LOAD_VERIFY : 0;
    options.pool = core_pool_for(t->state, t->bytes);
    if (t->side_by_side == 0) {
        return SFT_OK;
    }
    status = sft_load(&loaded, t->file->catalog, &options, &watch->err);
    sft_loaded_free(loaded);
    return status;
}

/* One by one, in the order of the dict. */
static sft_status read_later(const into *t, core_watch *watch) {
    sft_status status = SFT_OK;

    for (size_t i = 0; i < t->count && status == SFT_OK; i++) {
        const place_for *p = &t->all[i];
        sft_read_options options;
        if (!p->later || p->nbytes == 0) {
            continue;
        }
        SFT_INIT(&options);
        options.dtype = cast_to(p);
        options.control = &watch->control;
        options.pool = core_pool_for(t->state, p->nbytes);
        status = sft_tensor_read(t->file->catalog, p->tensor, &options, p->data, (size_t)p->nbytes,
                                 &watch->err);
    }
    return status;
}

PyObject *core_load_into(core_state *state, core_file *file, PyObject *targets, PyObject *progress,
                         bool verify) {
    into t = {.state = state, .file = file};
    PyObject *copy;
    core_watch watch;
    sft_status status;
    bool done = false;

    if (!PyDict_Check(targets)) {
        return core_wrong_type("tensors", targets, "dict");
    }
    copy = PyDict_Copy(targets); /* keeps the tensors */
    if (copy != NULL && into_find(&t, copy)) {
        core_watch_begin(&watch, progress);
        status = read_side_by_side(&t, verify, &watch);
        status = status == SFT_OK ? read_later(&t, &watch) : status;
        done = core_watch_done(&watch, state, status, NULL);
    }
    into_free(&t);
    Py_XDECREF(copy);
    return done ? Py_NewRef(Py_None) : NULL;
}
