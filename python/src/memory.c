/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * memory.c - memory that tensors lie in: counted, freed by whoever lets go last, and lent to Python through
 * the buffer protocol. Dropping needs no GIL, except for the buffers of Python objects. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

/* Below this malloc is faster than pages of our own, and wastes less. */
#define SMALL ((size_t)256 << 10)

static core_memory *make(core_memory_kind kind, unsigned char *base, size_t size)
{
    core_memory *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->refs = 1;
        m->kind = kind;
        m->base = base;
        m->size = size;
    }
    return m;
}

core_memory *core_memory_new(size_t size)
{
    core_memory *m;
    void *base;

    if (size < SMALL) {
        /* One byte more: nothing that is lent has the address NULL. 64: what vector code likes. */
        void *block = malloc(size + 64);
        if (block == NULL) {
            return NULL;
        }
        m = make(CORE_HEAP, block, size);
        if (m == NULL) {
            free(block);
        }
        return m;
    }
    base = core_pages_new(size);
    if (base == NULL) {
        return NULL;
    }
    m = make(CORE_PAGES, base, size);
    if (m == NULL) {
        core_pages_free(base, size);
    }
    return m;
}

core_memory *core_memory_map(struct core_state *state, int fd, size_t size, const char *name)
{
    int shorter = 0;
    core_memory *m;
    void *base = core_pages_map(fd, size, &shorter);

    if (base == NULL) {
        if (shorter) {
            return (core_memory *)core_raise_text(state, SFT_E_TRUNCATED, NULL,
                                                  "file shorter than it was: %s", name);
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return NULL;
    }
    m = make(CORE_MAP, base, size);
    if (m == NULL) {
        core_pages_unmap(base, size);
        PyErr_NoMemory();
    }
    return m;
}

core_memory *core_memory_view(PyObject *object)
{
    core_memory *m = make(CORE_VIEW, NULL, 0);
    if (m == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(object, &m->view, PyBUF_SIMPLE) < 0) {
        free(m);
        return NULL;
    }
    m->base = m->view.buf;
    m->size = (size_t)m->view.len;
    m->readonly = m->view.readonly != 0;
    return m;
}

core_memory *core_memory_keep(core_memory *memory)
{
    __atomic_fetch_add(&memory->refs, 1, __ATOMIC_RELAXED);
    return memory;
}

void core_memory_drop(core_memory *memory)
{
    if (memory == NULL || __atomic_fetch_sub(&memory->refs, 1, __ATOMIC_ACQ_REL) != 1) {
        return;
    }
    switch (memory->kind) {
    case CORE_HEAP:
        free(memory->base);
        break;
    case CORE_PAGES:
        core_pages_free(memory->base, memory->size);
        break;
    case CORE_MAP:
        core_pages_unmap(memory->base, memory->size);
        break;
    case CORE_VIEW:
        if (Py_IsInitialized()) {
            PyGILState_STATE gil = PyGILState_Ensure();
            PyBuffer_Release(&memory->view);
            PyGILState_Release(gil);
        }
        break;
    }
    free(memory);
}

/* ---------------------------------------------------------------- the Python object */

typedef struct memory_object {
    PyObject_HEAD
    core_memory *memory;
} memory_object;

PyObject *core_memory_object(struct core_state *state, core_memory *memory)
{
    memory_object *o = PyObject_New(memory_object, state->memory_type);
    if (o != NULL) {
        o->memory = core_memory_keep(memory);
    }
    return (PyObject *)o;
}

static void memory_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    core_memory_drop(((memory_object *)self)->memory);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    core_memory *m = ((memory_object *)self)->memory;
    return PyBuffer_FillInfo(view, self, m->base, (Py_ssize_t)m->size, m->readonly, flags);
}

static Py_ssize_t memory_length(PyObject *self)
{
    return (Py_ssize_t)((memory_object *)self)->memory->size;
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (void *)"Memory that tensors lie in, lent through the buffer protocol."},
    {Py_tp_dealloc, (void *)memory_dealloc},
    {Py_bf_getbuffer, (void *)memory_getbuffer},
    {Py_mp_length, (void *)memory_length},
    {0, NULL},
};

PyType_Spec core_memory_spec = {
    .name = "safetensors_c._core.Memory",
    .basicsize = sizeof(memory_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};
