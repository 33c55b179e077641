/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * save.c - serialize, serialize_file, serialize_fd: a dict of TensorSpecs into bytes, a file or a stream, with
 * the GIL released; and deserialize. It works on copies of the dicts, so that changing a dict meanwhile is
 * harmless. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

typedef struct job {
    PyObject *tensors; /* our copies of the dicts */
    PyObject *metadata;
    sft_save_tensor *list;
    size_t count;
    core_metadata texts;
    sft_write_options options;
    core_watch watch;
} job;

static void job_free(job *j) {
    Py_XDECREF(j->tensors);
    Py_XDECREF(j->metadata);
    free(j->list);
    core_metadata_free(&j->texts);
}

/* The options are the caller's. False with an exception, and nothing to free. */
static bool job_read(core_state *state, PyObject *tensors, PyObject *metadata, job *j) {
    PyObject *key, *value;
    Py_ssize_t position = 0;

    j->tensors = j->metadata = NULL;
    j->list = NULL;
    j->count = 0;
    j->texts = (core_metadata){NULL, 0};
    if (!PyDict_Check(tensors)) {
        return core_wrong_type("tensor_dict", tensors, "dict") != NULL;
    }
    if (core_none(metadata) != NULL && !PyDict_Check(metadata)) {
        return core_wrong_type("metadata", metadata, "dict") != NULL;
    }
    j->tensors = PyDict_Copy(tensors);
    j->metadata = core_none(metadata) != NULL ? PyDict_Copy(metadata) : NULL;
    if (j->tensors == NULL || (j->metadata == NULL && PyErr_Occurred())) {
        goto fail;
    }
    j->list = calloc((size_t)PyDict_Size(j->tensors) + 1, sizeof *j->list);
    if (j->list == NULL) {
        core_no_memory(0);
        goto fail;
    }
    while (PyDict_Next(j->tensors, &position, &key, &value)) {
        if (!core_spec_read(state, key, value, &j->list[j->count])) {
            goto fail;
        }
        if (j->list[j->count].data == NULL && j->list[j->count].nbytes != 0) {
            core_raise_text(
                state, SFT_E_ARG, j->list[j->count].name,
                "%s: invalid shape, data type, or offset for tensor `%U`: %llu bytes at address 0",
                CORE_SERIALIZING, key, (unsigned long long)j->list[j->count].nbytes);
            goto fail;
        }
        j->count++;
    }
    if (!core_metadata_read(j->metadata, &j->texts)) {
        goto fail;
    }
    return true;
fail:
    job_free(j);
    return false;
}

/* Before a call of the library with our options, which releases the GIL; and after it. */
static void job_begin(job *j, PyObject *progress) {
    core_watch_begin(&j->watch, core_none(progress));
    j->options.control = &j->watch.control;
}

static bool job_done(job *j, core_state *state, sft_status status) {
    return core_watch_done(&j->watch, state, status, CORE_SERIALIZING);
}

static uint64_t job_bytes(const job *j) {
    uint64_t sum = 0;
    for (size_t i = 0; i < j->count; i++) {
        sum += j->list[i].nbytes; /* they lie in memory */
    }
    return sum;
}

/* ---------------------------------------------------------------- into memory */

PyObject *core_serialize(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"tensor_dict", "metadata", "digests", "progress"};
    static const core_signature signature = {"serialize", parameters, 4, 2, 1};
    core_state *state = core_state_of(module);
    PyObject *v[4], *result = NULL;
    sft_status status;
    size_t size = 0;
    char *buffer;
    job j;

    SFT_INIT(&j.options);
    if (!core_parse(&signature, args, kwargs, v) || !core_digests(v[2], &j.options.digests) ||
        !job_read(state, v[0], v[1], &j)) {
        return NULL;
    }
    status = sft_save_memory(NULL, 0, &size, j.list, j.count, j.texts.entries, j.texts.count,
                             &j.options, &j.watch.err);
    if (status == SFT_OK && size > (size_t)PY_SSIZE_T_MAX) {
        status = j.watch.err.status = SFT_E_NOMEM;
    }
    if (status != SFT_OK) {
        core_raise(state, &j.watch.err, CORE_SERIALIZING);
    } else {
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
        if (result == NULL && PyErr_ExceptionMatches(PyExc_MemoryError)) {
            core_no_memory(size);
        }
    }
    if (result != NULL) {
        buffer = PyBytes_AsString(result);
        core_pages_huge(buffer, size);
        j.options.pool = core_pool_for(state, size);
        job_begin(&j, v[3]);
        status = sft_save_memory(buffer, size, &size, j.list, j.count, j.texts.entries,
                                 j.texts.count, &j.options, &j.watch.err);
        if (!job_done(&j, state, status)) {
            Py_CLEAR(result);
        }
    }
    job_free(&j);
    return result;
}

/* ---------------------------------------------------------------- into a file */

enum {
    FILE_TENSORS,
    FILE_NAME,
    FILE_METADATA,
    FILE_DURABLE,
    FILE_DIGESTS,
    FILE_SIDECAR,
    FILE_NEW,
    FILE_ALIGN,
    FILE_PROGRESS,
    FILE_COUNT
};
static const char *const file_parameters[] = {"tensor_dict", "filename",       "metadata",
                                              "durable",     "digests",        "sidecar",
                                              "new_only",    "data_alignment", "progress"};
static const core_signature file_signature = {"serialize_file", file_parameters, FILE_COUNT, 3, 2};

static bool file_options(PyObject **v, sft_write_options *options) {
    bool durable, sidecar, new_only;

    SFT_INIT(options);
    if (!core_truth(v[FILE_DURABLE], &durable) || !core_truth(v[FILE_SIDECAR], &sidecar) ||
        !core_truth(v[FILE_NEW], &new_only) || !core_digests(v[FILE_DIGESTS], &options->digests) ||
        (core_none(v[FILE_ALIGN]) != NULL && !core_u64(v[FILE_ALIGN], &options->data_alignment))) {
        return false;
    }
    options->durability = durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    options->flags =
        (sidecar ? SFT_WRITE_DIGESTS_SIDECAR : 0) | (new_only ? SFT_WRITE_NEW_ONLY : 0);
    return true;
}

PyObject *core_serialize_file(PyObject *module, PyObject *args, PyObject *kwargs) {
    core_state *state = core_state_of(module);
    PyObject *v[FILE_COUNT], *bytes;
    const char *name;
    bool done = false;
    job j;

    if (!core_parse(&file_signature, args, kwargs, v) || !file_options(v, &j.options) ||
        !job_read(state, v[FILE_TENSORS], v[FILE_METADATA], &j)) {
        return NULL;
    }
    bytes = core_target_path(state, v[FILE_NAME], &name);
    if (bytes != NULL) {
        j.options.pool = core_pool_for(state, job_bytes(&j));
        job_begin(&j, v[FILE_PROGRESS]);
        done = job_done(&j, state,
                        sft_save(name, j.list, j.count, j.texts.entries, j.texts.count, &j.options,
                                 &j.watch.err));
        Py_DECREF(bytes);
    }
    job_free(&j);
    return done ? Py_NewRef(Py_None) : NULL;
}

PyObject *core_serialize_fd(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"tensor_dict", "fd", "metadata", "digests",
                                             "progress"};
    static const core_signature signature = {"serialize_fd", parameters, 5, 3, 2};
    core_state *state = core_state_of(module);
    PyObject *v[5];
    bool done;
    int fd;
    job j;

    SFT_INIT(&j.options);
    if (!core_parse(&signature, args, kwargs, v) || !core_digests(v[3], &j.options.digests)) {
        return NULL;
    }
    if (!core_descriptor(v[1], &fd) || !job_read(state, v[0], v[2], &j)) {
        return NULL;
    }
    job_begin(&j, v[4]);
    done = job_done(&j, state,
                    sft_save_stream(fd, j.list, j.count, j.texts.entries, j.texts.count, &j.options,
                                    &j.watch.err));
    job_free(&j);
    return done ? Py_NewRef(Py_None) : NULL;
}

/* ---------------------------------------------------------------- deserialize */

static PyObject *entry(core_file *file, const sft_tensor *t) {
    const char *data = (const char *)file->bytes->base + t->pieces[0].offset;
    PyObject *bytes = PyByteArray_FromStringAndSize(data, (Py_ssize_t)t->nbytes);
    PyObject *shape = bytes != NULL ? core_shape_list(t->shape, t->rank) : NULL;

    if (shape == NULL) {
        Py_XDECREF(bytes);
        return NULL;
    }
    return Py_BuildValue("s#{s:N,s:s,s:N}", t->name, (Py_ssize_t)t->name_len, "shape", shape,
                         "dtype", t->dtype->name, "data", bytes);
}

PyObject *core_deserialize(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"bytes"};
    static const core_signature signature = {"deserialize", parameters, 1, 1, 1};
    PyObject *value, *name, *list;
    core_file *file;

    if (!core_parse(&signature, args, kwargs, &value)) {
        return NULL;
    }
    if (!core_has_bytes(value)) {
        return core_wrong_type("bytes", value, "bytes");
    }
    file = core_file_open(core_state_of(module), value, &name, NULL, "Error while deserializing",
                          false);
    if (file == NULL) {
        return NULL;
    }
    Py_DECREF(name);
    list = PyList_New((Py_ssize_t)sft_catalog_count(file->catalog));
    for (size_t i = 0; list != NULL && i < sft_catalog_count(file->catalog); i++) {
        PyObject *item = entry(file, sft_catalog_at(file->catalog, i));
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    core_file_drop(file);
    return list;
}
