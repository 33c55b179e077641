/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda.c - loads to a GPU for safetensors_c.cuda, and their tensors as DLPack capsules. libsafetensors-cuda is
 * opened at the first use; the wheel does not carry it. It works on the same structures as the copy of the
 * library in here, so its version must be the very same. Read core.h first.
 */
#include "core.h"
#include <sft/cuda.h>

#include <stdlib.h>

#define DEVICE_NAME "safetensors_c.cuda.device"
#define LOADED_NAME "safetensors_c.cuda.loaded"

typedef struct device {
    const sft_cuda_api *api;
    sft_cuda *cuda;
    long process; /* CUDA does not survive a fork: a child leaves the parent's alone */
} device;

typedef struct loaded {
    const sft_cuda_api *api;
    sft_cuda_loaded *loaded;
    core_file *file; /* views point at its tensors */
    long process;
} loaded;

/* NULL with an exception. */
static const sft_cuda_api *cuda_api(core_state *state) {
    const char *given = getenv("SAFETENSORS_CUDA_LIBRARY");
    const char *library = given != NULL && *given != '\0' ? given : "libsafetensors-cuda.so.0";
    const sft_cuda_api *(*getter)(void);
    const sft_cuda_api *api;
    char why[256] = "";

    if (!core_library_symbol(library, "sft_cuda_api_get", &getter, why, sizeof why)) {
        core_raise_text(
            state, SFT_E_UNSUPPORTED, NULL,
            "loading to a GPU needs libsafetensors-cuda, which is no part of this package: install "
            "libsafetensors %s with it, or name the library in SAFETENSORS_CUDA_LIBRARY (%s)",
            sft_version(), why);
        return NULL;
    }
    api = getter();
    if (api->struct_size < sizeof *api || strcmp(api->version, sft_version()) != 0) {
        core_raise_text(state, SFT_E_UNSUPPORTED, NULL,
                        "libsafetensors-cuda is version %s, this package is %s", api->version,
                        sft_version());
        return NULL;
    }
    return api;
}

/* ---------------------------------------------------------------- devices */

static void device_end(PyObject *capsule) {
    device *d = PyCapsule_GetPointer(capsule, DEVICE_NAME);

    if (d->process == core_process()) {
        d->api->close(d->cuda);
    }
    free(d);
}

PyObject *core_cuda_open(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"device", "driver", "memory", NULL};
    static const core_signature signature = {"_cuda_open", parameters, 3, 3, 1};
    core_state *state = core_state_of(module);
    PyObject *values[3], *driver = NULL, *capsule = NULL;
    sft_cuda_options options;
    uint64_t ordinal, memory = 0;
    sft_status status;
    sft_error err;
    device *d;

    if (!core_parse(&signature, args, kwargs, values) || !core_u64(values[0], &ordinal) ||
        (core_none(values[2]) != NULL && !core_u64(values[2], &memory))) {
        return NULL;
    }
    SFT_INIT(&options);
    options.device = ordinal < UINT32_MAX ? (uint32_t)ordinal : UINT32_MAX;
    options.memory_bytes = memory;
    if (core_none(values[1]) != NULL) {
        driver = PyUnicode_EncodeFSDefault(values[1]);
        if (driver == NULL) {
            return NULL;
        }
        options.driver_path = PyBytes_AsString(driver);
    }
    d = calloc(1, sizeof *d);
    if (d == NULL) {
        core_no_memory(0);
    } else if ((d->api = cuda_api(state)) != NULL) {
        d->process = core_process();
        Py_BEGIN_ALLOW_THREADS status = d->api->open(&d->cuda, &options, &err);
        Py_END_ALLOW_THREADS if (status != SFT_OK) {
            core_raise(state, &err, NULL);
        }
        else {
            capsule = PyCapsule_New(d, DEVICE_NAME, device_end);
            if (capsule == NULL) {
                d->api->close(d->cuda);
            }
        }
    }
    if (capsule == NULL) {
        free(d);
    }
    Py_XDECREF(driver);
    return capsule;
}

PyObject *core_cuda_info(PyObject *module, PyObject *capsule) {
    device *d = PyCapsule_GetPointer(capsule, DEVICE_NAME);
    sft_cuda_info info;
    sft_error err;

    if (d == NULL) {
        return NULL;
    }
    if (d->api->info_get(d->cuda, &info, &err) != SFT_OK) {
        return core_raise(core_state_of(module), &err, NULL);
    }
    return Py_BuildValue(
        "{s:s,s:K,s:K,s:K,s:K,s:K,s:I,s:(II),s:O}", "name", info.name, "total_bytes",
        (unsigned long long)info.total_bytes, "free_bytes", (unsigned long long)info.free_bytes,
        "held_bytes", (unsigned long long)info.held_bytes, "peak_bytes",
        (unsigned long long)info.peak_bytes, "ring_bytes", (unsigned long long)info.ring_bytes,
        "driver_version", info.driver_version, "capability", info.capability_major,
        info.capability_minor, "unified", info.unified != 0 ? Py_True : Py_False);
}

/* ---------------------------------------------------------------- loads */

static void loaded_end(PyObject *capsule) {
    loaded *l = PyCapsule_GetPointer(capsule, LOADED_NAME);

    if (l->process == core_process()) {
        l->api->loaded_free(l->loaded);
    }
    core_file_drop(l->file);
    free(l);
}

typedef struct items {
    sft_cuda_item *list;
    core_index *slices;
    size_t count;
} items;

static void items_reset(items *w) {
    free(w->list);
    free(w->slices);
}

/* names: a sequence, or NULL for every tensor; slices: a dict from names to indexes, or NULL. */
static bool items_read(items *w, core_state *state, core_file *file, PyObject *names,
                       PyObject *slices) {
    core_chosen c;
    bool done = core_choose(state, file, names, &c);

    if (done) {
        w->list = calloc(c.count + 1, sizeof *w->list);
        w->slices = slices != NULL ? calloc(c.count + 1, sizeof *w->slices) : NULL;
        done = w->list != NULL && (slices == NULL || w->slices != NULL);
        if (!done) {
            core_no_memory(0);
        }
    }
    for (; done && w->count < c.count; w->count++) {
        sft_cuda_item *item = &w->list[w->count];
        int sliced = 0;
        item->tensor = c.tensors[w->count];
        if (slices != NULL) {
            core_index *index = &w->slices[w->count];
            sliced = core_index_for(state, file, item->tensor, slices, index);
            item->slices = sliced > 0 ? index->items : NULL;
            item->slice_count = index->count;
        }
        done = sliced >= 0;
    }
    core_chosen_free(&c);
    return done;
}

/* [(name, dtype, shape, nbytes, address), ...] */
static PyObject *views(const loaded *l) {
    const size_t count = l->api->loaded_count(l->loaded);
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list != NULL && i < count; i++) {
        sft_cuda_view v;
        PyObject *entry = NULL;
        if (l->api->loaded_at(l->loaded, i, &v) == SFT_OK) {
            entry = Py_BuildValue("(NsNKK)", core_name(v.tensor), v.dtype->name,
                                  core_shape_tuple(v.shape, v.rank), (unsigned long long)v.nbytes,
                                  (unsigned long long)v.address);
        }
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *load(core_state *state, device *d, core_file *file, const items *w,
                      PyObject *progress, uint32_t flags) {
    sft_cuda_load_options options;
    core_watch watch;
    sft_status status;
    PyObject *capsule, *list;
    loaded *l = calloc(1, sizeof *l);

    if (l == NULL) {
        return core_no_memory(0);
    }
    SFT_INIT(&options);
    options.items = w->list;
    options.item_count = w->count;
    options.pool = core_pool(state);
    options.flags = flags;
    core_watch_begin(&watch, progress);
    options.control = &watch.control;
    status = d->api->load(&l->loaded, d->cuda, file->catalog, &options, &watch.err);
    if (!core_watch_done(&watch, state, status, NULL)) {
        if (status == SFT_OK) {
            d->api->loaded_free(l->loaded);
        }
        free(l);
        return NULL;
    }
    l->api = d->api;
    l->process = d->process;
    l->file = core_file_keep(file);
    capsule = PyCapsule_New(l, LOADED_NAME, loaded_end);
    if (capsule == NULL) {
        d->api->loaded_free(l->loaded);
        core_file_drop(l->file);
        free(l);
        return NULL;
    }
    list = views(l);
    return list != NULL ? Py_BuildValue("(NN)", capsule, list)
                        : (Py_DECREF(capsule), (PyObject *)NULL);
}

PyObject *core_cuda_load(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"device", "handle",   "names", "slices",
                                             "direct", "progress", NULL};
    static const core_signature signature = {"_cuda_load", parameters, 6, 6, 6};
    core_state *state = core_state_of(module);
    PyObject *values[6], *result = NULL;
    core_file *file;
    items w = {NULL, NULL, 0};
    device *d;
    bool direct;

    if (!core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    d = PyCapsule_GetPointer(values[0], DEVICE_NAME);
    if (d == NULL || !core_truth(values[4], &direct)) {
        return NULL;
    }
    if (!PyObject_TypeCheck(values[1], state->handle_type)) {
        return core_wrong_type("handle", values[1], "safe_open");
    }
    file = core_handle_file((core_handle *)values[1]);
    if (file == NULL) {
        return NULL;
    }
    if (items_read(&w, state, file, core_none(values[2]), core_none(values[3]))) {
        result =
            load(state, d, file, &w, core_none(values[5]), direct ? SFT_CUDA_DIRECT_STORAGE : 0);
    }
    items_reset(&w);
    core_file_drop(file);
    return result;
}

/* ---------------------------------------------------------------- DLPack */

static void versioned_end(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) { /* nobody took it over */
        sft_dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
}

static void old_end(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        sft_dl_managed_old *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    }
}

PyObject *core_cuda_dlpack(PyObject *module, PyObject *args) {
    core_state *state = core_state_of(module);
    PyObject *capsule, *result;
    sft_dl_managed *versioned;
    sft_dl_managed_old *old;
    sft_status status;
    sft_error err;
    Py_ssize_t index;
    int as_bytes, version;
    loaded *l;

    if (!PyArg_ParseTuple(args, "Onpp", &capsule, &index, &as_bytes, &version)) {
        return NULL;
    }
    l = PyCapsule_GetPointer(capsule, LOADED_NAME);
    if (l == NULL) {
        return NULL;
    }
    if (version != 0) {
        status = l->api->loaded_dlpack(&versioned, l->loaded, (size_t)index,
                                       as_bytes ? SFT_CUDA_DL_BYTES : 0, &err);
    } else {
        status = l->api->loaded_dlpack_old(&old, l->loaded, (size_t)index,
                                           as_bytes ? SFT_CUDA_DL_BYTES : 0, &err);
    }
    if (status != SFT_OK) {
        return core_raise(state, &err, NULL);
    }
    result = version != 0 ? PyCapsule_New(versioned, "dltensor_versioned", versioned_end)
                          : PyCapsule_New(old, "dltensor", old_end);
    if (result == NULL && version != 0) {
        versioned->deleter(versioned);
    } else if (result == NULL) {
        old->deleter(old);
    }
    return result;
}

/* Bytes read, copied, read directly; and how file 0 was read: what the load did, for those who measure. */
PyObject *core_cuda_stats(PyObject *module, PyObject *capsule) {
    loaded *l = PyCapsule_GetPointer(capsule, LOADED_NAME);
    sft_cuda_stats s;
    const char *reason, *direct_reason;
    int direct;

    (void)module;
    if (l == NULL) {
        return NULL;
    }
    l->api->loaded_stats(l->loaded, &s);
    (void)l->api->loaded_strategy(l->loaded, 0, &reason, &direct, &direct_reason);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:s,s:O,s:s}", "bytes_read", (unsigned long long)s.bytes_read,
        "bytes_copied", (unsigned long long)s.bytes_copied, "bytes_direct",
        (unsigned long long)s.bytes_direct, "chunks", (unsigned long long)s.chunks, "copies",
        (unsigned long long)s.copies, "ring_waits", (unsigned long long)s.ring_waits, "reason",
        reason, "direct", direct != 0 ? Py_True : Py_False, "direct_reason", direct_reason);
}

/* ---------------------------------------------------------------- copies out of a device */

struct core_copies {
    const sft_cuda_api *api;
    sft_cuda_copies *copies;
};

core_copies *core_copies_new(core_state *state, PyObject *capsule) {
    device *d = PyCapsule_GetPointer(capsule, DEVICE_NAME);
    core_copies *c = d != NULL ? calloc(1, sizeof *c) : NULL;
    sft_status status;
    sft_error err;

    if (c == NULL) {
        return d != NULL ? (core_copies *)core_no_memory(0) : NULL;
    }
    c->api = d->api;
    Py_BEGIN_ALLOW_THREADS status = c->api->copies_create(&c->copies, d->cuda, 0, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        core_raise(state, &err, NULL);
        free(c);
        return NULL;
    }
    return c;
}

const sft_copier *core_copies_copier(const core_copies *copies) {
    return copies->api->copies_copier(copies->copies);
}

void core_copies_stream(const core_copies *copies, uint64_t stream) {
    copies->api->copies_stream(copies->copies, (uintptr_t)stream);
}

void core_copies_end(core_copies *copies) {
    if (copies != NULL) {
        copies->api->copies_free(copies->copies);
        free(copies);
    }
}
