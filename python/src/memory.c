/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * memory.c - memory that tensors lie in: counted, freed (or kept for the next) by whoever lets go last, and lent
 * to Python through the buffer protocol. Dropping needs no GIL, except for the buffers of Python objects. Read
 * core.h first.
 */
#include "core.h"

#include <stdlib.h>

/* Below this malloc is faster than pages of our own, and wastes less. */
#define SMALL      ((size_t)256 << 10)
#define HEAP_ALIGN ((size_t)64) /* what vector code likes */

/* Pages that nobody uses any more are kept for the next tensor of about their size: a loop over slices then
 * writes to memory that exists, where fresh pages would cost more than the read. So much of it at most. */
#define SPARE_BYTES  ((size_t)64 << 20)
#define SPARE_BLOCKS 8

/* Counted: the module has one, and every block of pages that is in use. */
struct core_spare {
    size_t refs;                       /* atomic */
    size_t ended;                      /* atomic: the module is gone, nothing more is kept */
    size_t bytes;                      /* atomic: of all blocks */
    core_memory *blocks[SPARE_BLOCKS]; /* atomic, each; refs 0, spare NULL */
};

static core_memory *make(core_memory_kind kind, unsigned char *base, size_t size) {
    core_memory *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->refs = 1;
        m->kind = kind;
        m->base = base;
        m->size = m->room = size;
    }
    return m;
}

/* ---------------------------------------------------------------- spare pages */

core_spare *core_spare_new(void) {
    core_spare *spare = calloc(1, sizeof *spare);
    if (spare != NULL) {
        spare->refs = 1;
    }
    return spare;
}

/* What is in that place, now the caller's; NULL: nothing. */
static core_memory *spare_out(core_spare *spare, size_t place) {
    core_memory *m = __atomic_exchange_n(&spare->blocks[place], NULL, __ATOMIC_ACQ_REL);
    if (m != NULL) {
        __atomic_fetch_sub(&spare->bytes, m->room, __ATOMIC_RELAXED);
    }
    return m;
}

static void pages_end(core_memory *m) {
    if (m != NULL) {
        core_pages_free(m->base, m->room);
        free(m);
    }
}

static void spare_empty(core_spare *spare) {
    for (size_t i = 0; i < SPARE_BLOCKS; i++) {
        pages_end(spare_out(spare, i));
    }
}

static void spare_drop(core_spare *spare) {
    if (spare != NULL && __atomic_fetch_sub(&spare->refs, 1, __ATOMIC_ACQ_REL) == 1) {
        spare_empty(spare);
        free(spare);
    }
}

void core_spare_end(core_spare *spare) {
    if (spare != NULL) {
        __atomic_store_n(&spare->ended, 1, __ATOMIC_RELEASE);
        spare_empty(spare);
        spare_drop(spare);
    }
}

/* The block goes into a free place, or into the first: the newest is the likeliest to be wanted again. Others go
 * until it fits. */
static void spare_in(core_spare *spare, core_memory *m) {
    if (m->room > SPARE_BYTES || __atomic_load_n(&spare->ended, __ATOMIC_ACQUIRE) != 0) {
        pages_end(m);
        return;
    }
    for (size_t i = 0; i < SPARE_BLOCKS; i++) {
        if (__atomic_load_n(&spare->bytes, __ATOMIC_RELAXED) <= SPARE_BYTES - m->room) {
            break;
        }
        pages_end(spare_out(spare, i));
    }
    core_pages_idle(m->base, m->room);
    __atomic_fetch_add(&spare->bytes, m->room, __ATOMIC_RELAXED);
    for (size_t i = 0; i < SPARE_BLOCKS; i++) {
        core_memory *none = NULL;
        if (__atomic_compare_exchange_n(&spare->blocks[i], &none, m, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return;
        }
    }
    m = __atomic_exchange_n(&spare->blocks[0], m, __ATOMIC_ACQ_REL);
    if (m != NULL) {
        __atomic_fetch_sub(&spare->bytes, m->room, __ATOMIC_RELAXED);
        pages_end(m);
    }
}

/* A block that has room for `size` bytes and not much more; NULL: none. */
static core_memory *spare_find(core_spare *spare, size_t size) {
    for (size_t i = 0; i < SPARE_BLOCKS; i++) {
        core_memory *m, *none = NULL;
        if (__atomic_load_n(&spare->blocks[i], __ATOMIC_RELAXED) == NULL) {
            continue;
        }
        m = spare_out(spare, i);
        if (m == NULL) {
            continue;
        }
        if (m->room >= size && m->room - size <= m->room / 4) {
            return m;
        }
        __atomic_fetch_add(&spare->bytes, m->room, __ATOMIC_RELAXED);
        if (!__atomic_compare_exchange_n(&spare->blocks[i], &none, m, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED)) {
            __atomic_fetch_sub(&spare->bytes, m->room, __ATOMIC_RELAXED);
            pages_end(m);
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- memory */

/* One block of malloc: what is known of it, then the bytes. */
static core_memory *heap_new(size_t size) {
    core_memory *m = malloc(sizeof *m + HEAP_ALIGN + size);
    if (m != NULL) {
        memset(m, 0, sizeof *m);
        m->refs = 1;
        m->kind = CORE_HEAP;
        m->base =
            (unsigned char *)(((uintptr_t)(m + 1) + HEAP_ALIGN - 1) & ~(uintptr_t)(HEAP_ALIGN - 1));
        m->size = m->room = size;
    }
    return m;
}

core_memory *core_memory_new(struct core_state *state, size_t size) {
    core_spare *spare = state->spare;
    core_memory *m;

    if (size < SMALL) {
        return heap_new(size);
    }
    m = spare_find(spare, size);
    if (m == NULL) {
        unsigned char *base = core_pages_new(size);
        if (base == NULL) {
            return NULL;
        }
        m = make(CORE_PAGES, base, size);
        if (m == NULL) {
            core_pages_free(base, size);
            return NULL;
        }
    }
    __atomic_fetch_add(&spare->refs, 1, __ATOMIC_RELAXED);
    m->spare = spare;
    m->refs = 1;
    m->size = size;
    return m;
}

core_memory *core_memory_map(struct core_state *state, int fd, size_t size, const char *name) {
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
        core_no_memory(0);
    }
    return m;
}

core_memory *core_memory_view(PyObject *object) {
    core_memory *m = make(CORE_VIEW, NULL, 0);
    if (m == NULL) {
        core_no_memory(0);
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

core_memory *core_memory_keep(core_memory *memory) {
    __atomic_fetch_add(&memory->refs, 1, __ATOMIC_RELAXED);
    return memory;
}

static void pages_drop(core_memory *m) {
    core_spare *spare = m->spare;

    m->spare = NULL;
    spare_in(spare, m);
    spare_drop(spare);
}

void core_memory_drop(core_memory *memory) {
    if (memory == NULL || __atomic_fetch_sub(&memory->refs, 1, __ATOMIC_ACQ_REL) != 1) {
        return;
    }
    switch (memory->kind) {
    case CORE_HEAP:
        break;
    case CORE_PAGES:
        pages_drop(memory);
        return;
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
    PyObject_HEAD core_memory *memory;
} memory_object;

PyObject *core_memory_object(struct core_state *state, core_memory *memory) {
    memory_object *o = PyObject_New(memory_object, state->memory_type);
    if (o != NULL) {
        o->memory = core_memory_keep(memory);
    }
    return (PyObject *)o;
}

static void memory_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    core_memory_drop(((memory_object *)self)->memory);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    core_memory *m = ((memory_object *)self)->memory;
    return PyBuffer_FillInfo(view, self, m->base, (Py_ssize_t)m->size, m->readonly, flags);
}

static Py_ssize_t memory_length(PyObject *self) {
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
