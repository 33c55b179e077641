/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * slice.c - PySafeSlice: a tensor that is sliced before it is read. A mapped torch tensor is sliced by torch
 * itself. For the others a slice whose bytes are contiguous is a view; of any other slice only its bytes are
 * read. Bounds follow Python, but a bound outside the tensor is an error, with the reference's sentences.
 * Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

#define APART                                                                                      \
    512 /* runs as many bytes from each other are copied one by one; twice as many from WIDE on */
#define WIDE 64 /* bytes, for which the system's copying starts more slowly */
#define UNWATCHED                                                                                  \
    ((uint64_t)256 << 10) /* reads of files below this are not asked whether to stop */

typedef struct slice_object {
    PyObject_HEAD core_state *state;
    core_file *file;
    const sft_tensor *tensor;
    core_target target;
    bool owned;
} slice_object;

PyObject *core_slice_new(core_handle *handle, core_file *file, const sft_tensor *tensor) {
    slice_object *s = PyObject_New(slice_object, handle->state->slice_type);
    if (s != NULL) {
        s->state = handle->state;
        s->file = core_file_keep(file);
        s->tensor = tensor;
        s->target = (core_target){handle->framework, Py_XNewRef(handle->device)};
        s->owned = handle->owned;
    }
    return (PyObject *)s;
}

static void slice_dealloc(PyObject *self) {
    slice_object *s = (slice_object *)self;

    core_file_drop(s->file);
    Py_XDECREF(s->target.device);
    core_object_free(self);
}

/* ---------------------------------------------------------------- indexes */

/* One bound of a slice object; None: omitted. */
static bool bound(PyObject *slice, PyObject *field, int64_t *out) {
    PyObject *value = PyObject_GetAttr(slice, field), *index;
    int overflow = 0;

    *out = SFT_OMIT;
    if (value == NULL || value == Py_None) {
        Py_XDECREF(value);
        return value != NULL;
    }
    index = PyNumber_Index(value);
    Py_DECREF(value);
    if (index == NULL) {
        return false;
    }
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow != 0) {
        *out = overflow > 0 ? INT64_MAX : INT64_MIN + 1;
    }
    return true;
}

/* One item between the commas. */
static bool read_item(slice_object *s, PyObject *item, size_t position, sft_slice *out) {
    memset(out, 0, sizeof *out);
    out->step = 1;
    if (item == Py_Ellipsis) {
        out->kind = SFT_SLICE_ELLIPSIS;
        return true;
    }
    if (PySlice_Check(item)) {
        out->kind = SFT_SLICE_RANGE;
        if (!bound(item, s->state->slice_fields[0], &out->start) ||
            !bound(item, s->state->slice_fields[1], &out->stop) ||
            !bound(item, s->state->slice_fields[2], &out->step)) {
            return false;
        }
        out->step = out->step == SFT_OMIT ? 1 : out->step;
        if (out->step == 0) {
            core_raise_text(s->state, SFT_E_ARG, s->tensor->name,
                            "Slice step must be a positive integer, got 0");
            return false;
        }
        return true;
    }
    if (PyIndex_Check(item)) { /* arrays and tensors of one integer among them, if they say so */
        int overflow = 0;
        PyObject *index = PyNumber_Index(item);
        if (index != NULL) {
            out->kind = SFT_SLICE_INDEX;
            out->start = PyLong_AsLongLongAndOverflow(index, &overflow);
            Py_DECREF(index);
            if (overflow == 0) {
                return true;
            }
        } else if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return false;
        }
        PyErr_Clear();
    }
    core_raise_text(s->state, SFT_E_ARG, s->tensor->name,
                    "Unsupported slice index at position %zu: expected slice, int, or ellipsis",
                    position);
    return false;
}

/* 2:, :20, 5, ..., 0:8:2 between commas, as the reference prints them. */
static PyObject *describe(const core_index *w) {
    PyObject *text = PyUnicode_FromString("");

    for (size_t i = 0; text != NULL && i < w->count; i++) {
        const sft_slice *s = &w->items[i];
        char start[32] = "", stop[32] = "", step[32] = "";
        if (s->start != SFT_OMIT) {
            (void)PyOS_snprintf(start, sizeof start, "%lld", (long long)s->start);
        }
        if (s->stop != SFT_OMIT) {
            (void)PyOS_snprintf(stop, sizeof stop, "%lld", (long long)s->stop);
        }
        if (s->step != 1) {
            (void)PyOS_snprintf(step, sizeof step, ":%lld", (long long)s->step);
        }
        if (s->kind == SFT_SLICE_INDEX) {
            CORE_SET(text, PyUnicode_FromFormat("%U%s%s", text, i == 0 ? "" : ", ", start));
        } else if (s->kind == SFT_SLICE_ELLIPSIS) {
            CORE_SET(text, PyUnicode_FromFormat("%U%s...", text, i == 0 ? "" : ", "));
        } else {
            CORE_SET(text, PyUnicode_FromFormat("%U%s%s:%s%s", text, i == 0 ? "" : ", ", start,
                                                stop, step));
        }
    }
    return text;
}

static bool outside(slice_object *s, const core_index *w, const char *format, ...) {
    PyObject *text = describe(w);
    PyObject *shape = core_shape_list(s->tensor->shape, s->tensor->rank);
    PyObject *why;
    va_list arguments;

    va_start(arguments, format);
    why = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (text != NULL && shape != NULL && why != NULL) {
        core_raise_text(s->state, SFT_E_RANGE, s->tensor->name,
                        "Error during slicing [%U] with shape %R: %U", text, shape, why);
    }
    Py_XDECREF(text);
    Py_XDECREF(shape);
    Py_XDECREF(why);
    return false;
}

/* The reference refuses what numpy would clip: a start or stop past the end. Negative bounds are Python's. */
static bool check_item(slice_object *s, const core_index *w, const sft_slice *item, uint32_t dim) {
    const int64_t size = (int64_t)s->tensor->shape[dim];
    const bool single = item->kind == SFT_SLICE_INDEX;
    int64_t past;

    if (single && item->start < -size) {
        core_raise_text(s->state, SFT_E_RANGE, s->tensor->name,
                        "Invalid index %lld for dimension %u of size %lld", (long long)item->start,
                        (unsigned)dim, (long long)size);
        return false;
    }
    if (!single && item->step < 0) {
        return true;
    }
    if (item->start != SFT_OMIT && item->start >= size && (single || item->start > 0)) {
        past = item->start;
    } else if (!single && item->stop != SFT_OMIT && item->stop > size) {
        past = item->stop - 1;
    } else {
        return true;
    }
    return outside(s, w, "index %lld out of bounds for tensor dimension #%u of size %lld",
                   (long long)past, (unsigned)dim, (long long)size);
}

static bool check(slice_object *s, const core_index *w) {
    uint32_t dim = 0, rank = s->tensor->rank;
    size_t dots = 0;

    for (size_t i = 0; i < w->count; i++) {
        dots += w->items[i].kind == SFT_SLICE_ELLIPSIS;
    }
    if (dots > 1) {
        core_raise_text(s->state, SFT_E_ARG, s->tensor->name,
                        "Only one ellipsis (...) is allowed in slice index");
        return false;
    }
    if (w->count - dots > rank) {
        return outside(s, w, "more slicing indexes than dimensions in tensor");
    }
    for (size_t i = 0; i < w->count; i++) {
        if (w->items[i].kind == SFT_SLICE_ELLIPSIS) {
            dim += rank - (uint32_t)(w->count - 1);
        } else if (!check_item(s, w, &w->items[i], dim++)) {
            return false;
        }
    }
    return true;
}

static bool read_index(slice_object *s, PyObject *index, core_index *w) {
    bool tuple = PyTuple_Check(index);
    Py_ssize_t count = tuple ? PyTuple_Size(index) : 1;

    w->count = 0;
    if (PyList_Check(index)) {
        if (PyList_Size(index) != 0) {
            core_raise_text(s->state, SFT_E_UNSUPPORTED, s->tensor->name,
                            "Non empty lists are not implemented");
            return false;
        }
        /* [[]]: nothing of the first dimension. */
        w->items[0] = (sft_slice){0, 0, 1, SFT_SLICE_RANGE, 0};
        w->count = 1;
        return check(s, w);
    }
    if (count > CORE_MAX_RANK + 1) {
        return outside(s, w, "more slicing indexes than dimensions in tensor");
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = tuple ? PyTuple_GetItem(index, i) : index;
        if (item == NULL || !read_item(s, item, (size_t)i, &w->items[i])) {
            return false;
        }
        w->count++;
    }
    return check(s, w);
}

int core_index_for(core_state *state, core_file *file, const sft_tensor *tensor, PyObject *slices,
                   core_index *out) {
    PyObject *name = slices != NULL ? core_name(tensor) : NULL;
    PyObject *index = name != NULL ? PyDict_GetItemWithError(slices, name) : NULL;
    slice_object s; /* never seen by Python: what read_index looks at */
    int found = index != NULL;

    memset(&s, 0, sizeof s);
    s.state = state;
    s.file = file;
    s.tensor = tensor;
    if (PyErr_Occurred() != NULL || (index != NULL && !read_index(&s, index, out))) {
        found = -1;
    }
    Py_XDECREF(name);
    return found;
}

/* ---------------------------------------------------------------- results */

typedef struct result {
    uint64_t shape[CORE_MAX_RANK];
    uint32_t rank;
    bool together;   /* the bytes lie together in the tensor ... */
    uint64_t offset; /* ... from here, */
    uint64_t nbytes; /* this many of them */
    core_runs runs;  /* the same as runs of neighbours; dst and base are still open */
} result;

/* The result of sft_tensor_result where an element is a number of bytes. A slice is never larger than its tensor. */
static sft_status result_shape(const sft_tensor *t, const sft_dim *dims, result *r) {
    r->rank = 0;
    r->nbytes = t->dtype->block_bytes;
    for (uint32_t i = 0; i < t->rank; i++) {
        r->nbytes *= dims[i].count;
        if (!dims[i].dropped) {
            r->shape[r->rank++] = dims[i].count;
        }
    }
    return SFT_OK;
}

/* Complete dimensions from the last one, then one range of the next, are a run; those before it count runs. */
static void find_runs(const sft_tensor *t, const sft_dim *dims, core_runs *runs) {
    uint64_t stride = t->dtype->block_bytes;
    bool open = t->dtype->block_elements == 1;

    runs->offset = 0;
    runs->size = open ? stride : 0;
    runs->rank = 0;
    for (uint32_t i = t->rank; i-- > 0 && runs->size != 0;) {
        runs->offset += dims[i].start * stride;
        if (open && (dims[i].step == 1 || dims[i].count <= 1)) {
            runs->size *= dims[i].count;
            open = dims[i].count == t->shape[i];
        } else {
            open = false;
            runs->count[runs->rank] = dims[i].count;
            runs->stride[runs->rank++] = dims[i].step * (int64_t)stride;
        }
        stride *= t->shape[i];
    }
}

/* Short runs out of the mapping, for which one system call each would cost too much. Runs close to each other are faster
 * to read with the gaps between them. 0: they must be read. */
static int gather(slice_object *s, result *r, core_memory *memory) {
    const int64_t apart = r->runs.rank != 0 ? r->runs.stride[0] : 0,
                  least = r->runs.size < WIDE ? APART : 2 * APART;
    const void *data;
    size_t size;
    int done;

    if (s->owned || s->file->bytes != NULL || r->runs.size == 0 ||
        r->runs.size > ((uint64_t)64 << 10) || (apart < least && apart > -least) ||
        r->nbytes < 2 * r->runs.size || r->nbytes > ((uint64_t)256 << 20) ||
        sft_tensor_borrow(s->file->catalog, s->tensor, &data, &size, NULL) != SFT_OK) {
        return 0;
    }
    r->runs.base = data;
    Py_BEGIN_ALLOW_THREADS done = core_gather(&r->runs, memory->base, memory->size);
    Py_END_ALLOW_THREADS return done;
}

static bool resolve(slice_object *s, const core_index *w, result *r) {
    const sft_tensor *t = s->tensor;
    sft_dim dims[CORE_MAX_RANK];
    sft_read_options options;
    uint64_t stride = t->dtype->block_bytes;
    sft_error err;
    bool partial = false;

    if (t->rank > CORE_MAX_RANK) {
        core_raise_text(s->state, SFT_E_UNSUPPORTED, t->name, "slices of tensors of rank %u",
                        (unsigned)t->rank);
        return false;
    }
    SFT_INIT(&options);
    options.slices = w->items;
    options.slice_count = w->count;
    if (sft_slice_resolve(w->items, w->count, t->shape, t->rank, dims, &err) != SFT_OK ||
        (t->dtype->block_elements == 1
             ? result_shape(t, dims, r)
             : sft_tensor_result(t, &options, r->shape, &r->rank, &r->nbytes, &err)) != SFT_OK) {
        if (err.status == SFT_E_SUBBYTE) {
            return outside(s, w, "%s", core_reference_text(SFT_E_SUBBYTE));
        }
        core_raise(s->state, &err, NULL);
        return false;
    }
    /* From the last dimension: complete ones, then one range of adjacent elements, then single elements. */
    r->together = t->dtype->block_elements == 1;
    r->offset = 0;
    for (uint32_t i = t->rank; i-- > 0 && r->together;) {
        r->together = (!partial || dims[i].count == 1) && (dims[i].step == 1 || dims[i].count <= 1);
        partial = partial || dims[i].count != t->shape[i];
        r->offset += dims[i].start * stride;
        stride *= t->shape[i];
    }
    r->together = r->together && r->nbytes != 0;
    find_runs(t, dims, &r->runs);
    return true;
}

/* The bytes of the slice, read into memory of their own. */
static core_memory *read_slice(slice_object *s, const core_index *w, result *r) {
    const bool map = core_file_can_map(s->file, s->tensor);
    const bool brief = map && r->nbytes < UNWATCHED; /* over before anybody could interrupt it */
    sft_read_options options;
    core_memory *memory;
    core_watch watch;
    sft_status status;

    if (r->nbytes > SIZE_MAX / 2 ||
        (memory = core_memory_new(s->state, (size_t)r->nbytes)) == NULL) {
        return (core_memory *)core_no_memory(r->nbytes);
    }
    if (map && gather(s, r, memory) > 0) {
        return memory;
    }
    SFT_INIT(&options); /* a page that is gone is said by the reading, too */
    options.slices = w->items;
    options.slice_count = w->count;
    options.pool = brief ? NULL : core_pool_for(s->state, r->nbytes);
    core_watch_begin(&watch, NULL);
    options.control = brief ? NULL : &watch.control;
    status = sft_tensor_read(s->file->catalog, s->tensor, &options, memory->base, memory->size,
                             &watch.err);
    if (!core_watch_done(&watch, s->state, status, NULL)) {
        core_memory_drop(memory);
        return NULL;
    }
    return memory;
}

static PyObject *slice_read(slice_object *s, PyObject *index) {
    core_place place = {NULL, NULL, NULL};
    PyObject *tensor;
    core_index w;
    result r;
    int mapped = 0;

    if (!read_index(s, index, &w) || !resolve(s, &w, &r)) {
        return NULL;
    }
    if (!s->owned && r.together) {
        mapped = core_mapped(s->state, s->file, s->tensor, &place);
    } else if (!s->owned && core_file_can_map(s->file, s->tensor)) {
        mapped = core_file_holds(s->state, s->file, s->tensor) ? 0 : -1;
    }
    if (mapped < 0) {
        return NULL;
    }
    if (mapped > 0) {
        place.data += r.offset;
        return core_tensor(s->state, &s->target, s->tensor->dtype, r.shape, r.rank, &place);
    }
    place = (core_place){NULL, read_slice(s, &w, &r), NULL};
    if (place.memory == NULL) {
        return NULL;
    }
    place.data = place.memory->base;
    tensor = core_tensor(s->state, &s->target, s->tensor->dtype, r.shape, r.rank, &place);
    core_memory_drop(place.memory);
    return tensor;
}

/* torch slices its own tensors: lists, masks and all; on the CPU, then the result moves. */
static PyObject *slice_torch(slice_object *s, PyObject *index, const core_place *place) {
    static const core_target cpu = {CORE_TORCH, NULL};
    const sft_tensor *t = s->tensor;
    PyObject *all = core_tensor(s->state, &cpu, t->dtype, t->shape, t->rank, place);
    PyObject *part = all != NULL ? PyObject_GetItem(all, index) : NULL;

    Py_XDECREF(all);
    if (part != NULL && s->target.device != NULL) {
        CORE_SET(part, PyObject_CallMethod(part, "to", "O", s->target.device));
    }
    return part;
}

static PyObject *slice_subscript(PyObject *self, PyObject *index) {
    slice_object *s = (slice_object *)self;
    core_place place;
    int mapped = 0;

    if (s->target.framework == CORE_TORCH && !s->owned) {
        mapped = core_mapped(s->state, s->file, s->tensor, &place);
    }
    if (mapped != 0) {
        return mapped > 0 ? slice_torch(s, index, &place) : NULL;
    }
    return slice_read(s, index);
}

static PyObject *slice_get_shape(PyObject *self, PyObject *ignored) {
    const sft_tensor *t = ((slice_object *)self)->tensor;
    (void)ignored;
    return core_shape_list(t->shape, t->rank);
}

static PyObject *slice_get_dtype(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return PyUnicode_FromString(((slice_object *)self)->tensor->dtype->name);
}

static PyObject *slice_shape(PyObject *self, void *closure) {
    const sft_tensor *t = ((slice_object *)self)->tensor;
    (void)closure;
    return core_shape_tuple(t->shape, t->rank);
}

static PyObject *slice_dtype(PyObject *self, void *closure) {
    (void)closure;
    return slice_get_dtype(self, NULL);
}

static Py_ssize_t slice_length(PyObject *self) {
    const sft_tensor *t = ((slice_object *)self)->tensor;
    if (t->rank == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    return (Py_ssize_t)t->shape[0];
}

/* Rows one after the other, for iter(); after the last one an IndexError ends it. */
static PyObject *slice_item(PyObject *self, Py_ssize_t row) {
    const sft_tensor *t = ((slice_object *)self)->tensor;
    PyObject *index, *result;

    if (t->rank != 0 && row >= 0 && (uint64_t)row >= t->shape[0]) {
        PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for dimension 0 with size %llu",
                     row, (unsigned long long)t->shape[0]);
        return NULL;
    }
    index = PyLong_FromSsize_t(row);
    if (index == NULL) {
        return NULL;
    }
    result = slice_subscript(self, index);
    Py_DECREF(index);
    return result;
}

static PyObject *slice_repr(PyObject *self) {
    const sft_tensor *t = ((slice_object *)self)->tensor;
    PyObject *name = core_name(t), *shape = core_shape_list(t->shape, t->rank), *text = NULL;
    if (name != NULL && shape != NULL) {
        text = PyUnicode_FromFormat("<PySafeSlice %R, %s %R>", name, t->dtype->name, shape);
    }
    Py_XDECREF(name);
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef slice_methods[] = {
    {"get_shape", slice_get_shape, METH_NOARGS, "The tensor's shape, a list."},
    {"get_dtype", slice_get_dtype, METH_NOARGS, "The tensor's type as the format calls it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef slice_getset[] = {
    {"shape", slice_shape, NULL, "The tensor's shape, a tuple.", NULL},
    {"dtype", slice_dtype, NULL, "The tensor's type as the format calls it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slice_slots[] = {
    {Py_tp_doc, (void *)"A tensor to be sliced before it is read."},
    {Py_tp_dealloc, (void *)slice_dealloc},
    {Py_tp_repr, (void *)slice_repr},
    {Py_tp_methods, slice_methods},
    {Py_tp_getset, slice_getset},
    {Py_mp_subscript, (void *)slice_subscript},
    {Py_mp_length, (void *)slice_length},
    {Py_sq_item, (void *)slice_item},
    {Py_nb_bool, (void *)core_always},
    {0, NULL},
};

PyType_Spec core_slice_spec = {
    .name = "safetensors_c.PySafeSlice",
    .basicsize = sizeof(slice_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slice_slots,
};
