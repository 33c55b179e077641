/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * stream.c - safe_open.stream(): tensors one after the other, read ahead by the module's pool within a budget of
 * memory (<sft/stream.h>). Each tensor is copied out of the budget into memory of its own, so that a consumer may
 * keep it; large tensors arrive in parts and are assembled here. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

#define WITHOUT_GIL ((size_t)1 << 16) /* copies from this size on */

typedef struct core_stream {
    PyObject_HEAD core_state *state;
    core_file *file;
    sft_stream *stream; /* NULL: closed, or lent to a call of next */
    core_target target;
    sft_read_options *reads; /* one for each tensor added */
    core_index *slices;      /* likewise; NULL: none */
    struct assembly {
        core_memory *memory; /* NULL: no part has arrived yet, or the tensor was returned */
        uint64_t copied;
    } *results; /* likewise: with order "any" the parts of several tensors arrive in any order */
    size_t count;
    bool running; /* under the object's lock */
    bool ended;
} core_stream;

static void stream_drop(core_stream *s) {
    sft_stream *stream = s->stream;

    s->stream = NULL;
    if (stream != NULL) {
        Py_BEGIN_ALLOW_THREADS sft_stream_cancel(stream);
        sft_stream_free(stream); /* waits for reads under way */
        Py_END_ALLOW_THREADS
    }
    if (s->file != NULL) {
        core_file_drop(s->file);
        s->file = NULL;
    }
    for (size_t i = 0; s->results != NULL && i < s->count; i++) {
        core_memory_drop(s->results[i].memory);
    }
    free(s->reads);
    free(s->slices);
    free(s->results);
    s->reads = NULL;
    s->slices = NULL;
    s->results = NULL;
}

static void stream_dealloc(PyObject *self) {
    core_stream *s = (core_stream *)self;

    stream_drop(s);
    Py_XDECREF(s->target.device);
    core_object_free(self);
}

/* ---------------------------------------------------------------- what to read */

/* One tensor: all of it, or the slice that `slices` (a dict, or NULL) has for it. */
static bool add_tensor(core_stream *s, const sft_tensor *tensor, PyObject *slices, size_t at) {
    sft_read_options *read = &s->reads[at];
    const int sliced =
        slices != NULL ? core_index_for(s->state, s->file, tensor, slices, &s->slices[at]) : 0;
    sft_error err;

    SFT_INIT(read);
    if (sliced > 0) {
        read->slices = s->slices[at].items;
        read->slice_count = s->slices[at].count;
    }
    if (sliced >= 0 &&
        sft_stream_add(s->stream, tensor, sliced ? read : NULL, NULL, 0, &err) != SFT_OK) {
        core_raise(s->state, &err, NULL);
        return false;
    }
    return sliced >= 0;
}

static bool add_wanted(core_stream *s, PyObject *names, PyObject *slices) {
    core_chosen c;
    bool added = core_choose(s->state, s->file, names, &c);

    if (added) {
        s->count = c.count;
        s->reads = calloc(c.count + 1, sizeof *s->reads);
        s->slices = slices != NULL ? calloc(c.count + 1, sizeof *s->slices) : NULL;
        s->results = calloc(c.count + 1, sizeof *s->results);
        added = s->reads != NULL && s->results != NULL && (slices == NULL || s->slices != NULL);
        if (!added) {
            core_no_memory(0);
        }
    }
    for (size_t i = 0; added && i < c.count; i++) {
        added = add_tensor(s, c.tensors[i], slices, i);
    }
    core_chosen_free(&c);
    return added;
}

static bool read_flags(PyObject *order, PyObject *memory, PyObject *verify,
                       sft_stream_options *options) {
    static const char *const orders[] = {"file", "given", "any", NULL};
    const int kind =
        order != NULL ? core_one_of(order, "order", "order", orders) : (int)SFT_STREAM_FILE;
    bool compare;

    if (kind < 0 || !core_truth(verify, &compare) ||
        (memory != NULL && !core_u64(memory, &options->memory_bytes))) {
        return false;
    }
    options->order = (uint32_t)kind;
    options->flags = SFT_STREAM_PARTS | (compare ? SFT_STREAM_VERIFY : 0);
    return true;
}

PyObject *core_stream_new(core_handle *handle, core_file *file, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"names", "order", "memory", "slices", "verify"};
    static const core_signature signature = {"safe_open.stream", parameters, 5, 1, 0};
    PyObject *values[5];
    sft_stream_options options;
    core_stream *s;
    sft_error err;

    SFT_INIT(&options);
    if (!core_parse(&signature, args, kwargs, values) ||
        !read_flags(values[1], core_none(values[2]), values[4], &options)) {
        return NULL;
    }
    for (int i = 0; i < 5; i++) {
        values[i] = core_none(values[i]);
    }
    if (values[3] != NULL && !PyDict_Check(values[3])) {
        return core_wrong_type("slices", values[3], "dict");
    }
    s = (core_stream *)PyType_GenericAlloc(handle->state->stream_type, 0); /* zeros */
    if (s == NULL) {
        return NULL;
    }
    s->state = handle->state;
    s->file = core_file_keep(file);
    s->target = (core_target){handle->framework, Py_XNewRef(handle->device)};
    options.pool = core_pool(s->state);
    if (sft_stream_create(&s->stream, file->catalog, &options, &err) != SFT_OK) {
        core_raise(s->state, &err, NULL);
    } else if (add_wanted(s, values[0], values[3])) {
        return (PyObject *)s;
    }
    Py_DECREF(s);
    return NULL;
}

/* ---------------------------------------------------------------- one after the other */

static void copy_out(core_memory *memory, const sft_stream_item *item) {
    if (item->size < WITHOUT_GIL) {
        memcpy(memory->base + item->offset, item->data, item->size);
        return;
    }
    Py_BEGIN_ALLOW_THREADS memcpy(memory->base + item->offset, item->data, item->size);
    Py_END_ALLOW_THREADS
}

/* The next complete result in memory of its own; *end: there is none. NULL with an exception otherwise. */
static core_memory *next_result(core_stream *s, sft_stream *stream, sft_stream_item *item,
                                bool *end) {
    *end = false;
    while (PyErr_CheckSignals() == 0) { /* list(stream) runs no bytecode that would look */
        struct assembly *result;
        core_memory *memory;
        sft_status status;
        sft_error err;
        Py_BEGIN_ALLOW_THREADS status = sft_stream_next(stream, item, &err);
        Py_END_ALLOW_THREADS *end = status == SFT_OK && item->tensor == NULL;
        if (status != SFT_OK || *end) {
            return status == SFT_OK ? NULL
                                    : (core_raise(s->state, &err, NULL), (core_memory *)NULL);
        }
        result = &s->results[item->index];
        if (result->memory == NULL) {
            result->memory =
                core_memory_new(s->state, item->nbytes != 0 ? (size_t)item->nbytes : 1);
        }
        memory = result->memory;
        if (memory != NULL) {
            copy_out(memory, item);
            result->copied += item->size;
        }
        sft_stream_release(stream, item);
        if (memory == NULL) {
            core_no_memory(0);
            return NULL;
        }
        if (result->copied == item->nbytes) {
            result->memory = NULL;
            return memory;
        }
    }
    return NULL;
}

static PyObject *make_pair(core_stream *s, const sft_stream_item *item, core_memory *memory) {
    const sft_read_options *read = &s->reads[item->index];
    const core_place place = {memory->base, memory, NULL};
    uint64_t shape[CORE_MAX_RANK];
    uint32_t rank = 0;
    uint64_t nbytes;
    sft_error err;
    PyObject *name, *tensor, *pair = NULL;

    if (item->tensor->rank > CORE_MAX_RANK) {
        return core_raise_text(s->state, SFT_E_LIMIT, item->tensor->name, "more than %d dimensions",
                               CORE_MAX_RANK);
    }
    if (sft_tensor_result(item->tensor, read, shape, &rank, &nbytes, &err) != SFT_OK) {
        return core_raise(s->state, &err, NULL);
    }
    tensor = core_tensor(s->state, &s->target, item->tensor->dtype, shape, rank, &place);
    name = tensor != NULL ? core_name(item->tensor) : NULL;
    if (name != NULL) {
        pair = PyTuple_Pack(2, name, tensor);
    }
    Py_XDECREF(name);
    Py_XDECREF(tensor);
    return pair;
}

/* The library's stream for one call of next; NULL with or (at the end) without an exception. */
static sft_stream *enter(core_stream *s) {
    sft_stream *stream = NULL;
    bool running, ended;

    CORE_BEGIN_LOCKED(s);
    running = s->running;
    ended = s->ended;
    if (!running) {
        stream = s->stream;
        s->running = stream != NULL;
    }
    CORE_END_LOCKED();
    if (stream == NULL && !ended) {
        core_raise_text(s->state, SFT_E_STATE, NULL,
                        running ? "the stream is in use by another thread"
                                : "the stream is closed");
    }
    return stream;
}

static PyObject *stream_next(PyObject *self) {
    core_stream *s = (core_stream *)self;
    sft_stream *stream = enter(s);
    sft_stream_item item;
    core_memory *memory;
    PyObject *pair = NULL;
    bool end;

    if (stream == NULL) {
        return NULL;
    }
    memory = next_result(s, stream, &item, &end);
    if (memory != NULL) {
        pair = make_pair(s, &item, memory);
        core_memory_drop(memory);
    }
    CORE_BEGIN_LOCKED(s);
    s->running = false;
    s->ended = end;
    CORE_END_LOCKED();
    if (pair == NULL) { /* the end, or a failure, after which nothing comes */
        stream_drop(s);
    }
    return pair;
}

static PyObject *stream_close(PyObject *self, PyObject *ignored) {
    core_stream *s = (core_stream *)self;
    bool running;

    (void)ignored;
    CORE_BEGIN_LOCKED(s);
    running = s->running;
    CORE_END_LOCKED();
    if (running) {
        return core_raise_text(s->state, SFT_E_STATE, NULL,
                               "the stream is in use by another thread");
    }
    stream_drop(s);
    Py_RETURN_NONE;
}

static PyMethodDef stream_methods[] = {
    {"close", stream_close, METH_NOARGS, "Ends reading ahead. Tensors already returned stay."},
    {"__enter__", core_enter, METH_NOARGS, NULL},
    {"__exit__", CORE_METHOD(stream_close), METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stream_slots[] = {
    {Py_tp_doc, (void *)"Pairs (name, tensor), read ahead. Made by safe_open.stream() and "
                        "safetensors_c.stream()."},
    {Py_tp_dealloc, (void *)stream_dealloc},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)stream_next},
    {Py_tp_methods, stream_methods},
    {0, NULL},
};

PyType_Spec core_stream_spec = {
    .name = "safetensors_c.TensorStream",
    .basicsize = sizeof(core_stream),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stream_slots,
};
