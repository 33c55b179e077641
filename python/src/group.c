/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * group.c - what the processes of a job save and load together: src/checkpoint's calls, which
 * exchange a few bytes through a Python function. What is checked here is only what the C side cannot:
 * the types of Python objects. distributed.py is the one caller. Read core.h first.
 */
#include "core.h"
#include <sft/checkpoint_group.h>

#include <stdlib.h>

/* ---------------------------------------------------------------- the processes */

typedef struct talk {
    sft_group group;
    core_watch *watch;
    PyObject *gather; /* callable(bytes) -> bytes of all, in the order of ranks */
    bool broken;      /* it has raised: the others are not to be reached */
} talk;

static sft_status fail(sft_error *err, const char *what) {
    return sft_error_set(err, SFT_E_IO, 0, "%s", what);
}

/* Python's gather takes and gives bytes. An exception stays set: it is raised at the end. */
static sft_status gather_bytes(talk *t, const void *mine, size_t bytes, void *all, sft_error *err) {
    PyObject *given = PyBytes_FromStringAndSize(mine, (Py_ssize_t)bytes);
    PyObject *got = given != NULL ? PyObject_CallFunctionObjArgs(t->gather, given, NULL) : NULL;
    const size_t wanted = bytes * t->group.size; /* both are checked: at most 2^20 by 2^32 */
    char *data = NULL;
    Py_ssize_t size = 0;
    sft_status status = SFT_OK;

    Py_XDECREF(given);
    if (got == NULL || PyBytes_AsStringAndSize(got, &data, &size) < 0) {
        t->broken = t->watch->failed = true;
        status = fail(err, "the processes could not exchange what they hold");
    } else if ((size_t)size != wanted) {
        status = fail(err, "an exchange among the processes gave fewer bytes than there are");
    } else {
        memcpy(all, data, wanted);
    }
    Py_XDECREF(got);
    return status;
}

/* Called from the thread that made the call, without the GIL. Also when a callback of progress has raised: the
 * others wait to hear of it, and its exception is put back. */
static sft_status gather(void *ctx, const void *mine, size_t bytes, void *all, sft_error *err) {
    talk *t = ctx;
    PyObject *type, *value, *trace;
    sft_status status;

    if (t->broken) {
        return fail(err, "the processes could not exchange what they hold");
    }
    PyEval_RestoreThread(t->watch->thread);
    PyErr_Fetch(&type, &value, &trace);
    status = gather_bytes(t, mine, bytes, all, err);
    if (type != NULL) {
        PyErr_Restore(type, value, trace);
    }
    t->watch->thread = PyEval_SaveThread();
    return status;
}

/* group: None, or (rank, size, gather). *out: NULL for None. */
static bool talk_begin(talk *t, core_watch *watch, PyObject *group, const sft_group **out) {
    uint64_t rank, size;

    memset(t, 0, sizeof *t);
    SFT_INIT(&t->group);
    t->watch = watch;
    *out = NULL;
    if (group == Py_None) {
        return true;
    }
    if (!PyTuple_Check(group) || PyTuple_Size(group) != 3) {
        return core_wrong_type("group", group, "tuple") != NULL;
    }
    if (!core_u64(PyTuple_GetItem(group, 0), &rank) ||
        !core_u64(PyTuple_GetItem(group, 1), &size)) {
        return false;
    }
    if (size > UINT32_MAX || rank >= size) {
        PyErr_SetString(PyExc_ValueError, "a group has a size, and a rank below it");
        return false;
    }
    t->gather = PyTuple_GetItem(group, 2);
    t->group.rank = (uint32_t)rank;
    t->group.size = (uint32_t)size;
    t->group.allgather = gather;
    t->group.ctx = t;
    *out = &t->group;
    return true;
}

/* ---------------------------------------------------------------- parts */

/* (name, dtype, shape, start or None, count or None, address, nbytes) of each. */
typedef struct parts {
    sft_group_tensor *items; /* NULL with count SFT_GROUP_FAILED: this process has failed already */
    size_t count;
    uint64_t **numbers; /* to be freed */
    size_t number_count;
} parts;

static void parts_free(parts *p) {
    for (size_t i = 0; i < p->number_count; i++) {
        free(p->numbers[i]);
    }
    free(p->numbers);
    free(p->items);
}

static bool sizes_of(parts *p, PyObject *value, const uint64_t **out, uint32_t *rank) {
    uint64_t *numbers = NULL;

    if (!core_shape_read(value, &numbers, rank)) {
        return false;
    }
    p->numbers[p->number_count++] = numbers;
    *out = numbers;
    return true;
}

static bool part_of(parts *p, PyObject *entry, sft_group_tensor *out) {
    PyObject *v[7];
    Py_ssize_t len = 0;
    const char *dtype;
    uint64_t address = 0;
    uint32_t starts = 0, counts = 0;

    if (!PyTuple_Check(entry) || PyTuple_Size(entry) != 7) {
        return core_wrong_type("tensors", entry, "tuple") != NULL;
    }
    for (Py_ssize_t i = 0; i < 7; i++) {
        v[i] = PyTuple_GetItem(entry, i);
    }
    if (!PyUnicode_Check(v[0]) || !PyUnicode_Check(v[1])) {
        return core_wrong_type("tensors", PyUnicode_Check(v[0]) ? v[1] : v[0], "str") != NULL;
    }
    dtype = PyUnicode_AsUTF8AndSize(v[1], &len);
    out->dtype = dtype != NULL ? core_dtype_by_name(dtype, len) : NULL;
    out->name = PyUnicode_AsUTF8AndSize(v[0], &len);
    out->name_len = (size_t)len;
    if (out->name == NULL || out->dtype == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "%R is no type of the format", v[1]);
        }
        return false;
    }
    if (!sizes_of(p, v[2], &out->shape, &out->dims) || !core_u64(v[5], &address) ||
        !core_u64(v[6], &out->nbytes)) {
        return false;
    }
    out->data = (void *)(uintptr_t)address;
    if (v[3] == Py_None) {
        return true;
    }
    if (!sizes_of(p, v[3], &out->start, &starts) || !sizes_of(p, v[4], &out->count, &counts)) {
        return false;
    }
    if (starts != out->dims || counts != out->dims) {
        PyErr_Format(PyExc_ValueError,
                     "the box of %R has another number of dimensions than its tensor", v[0]);
        return false;
    }
    return true;
}

/* list: a list of entries, or a str: why this process has failed. The list must stay. */
static bool parts_read(parts *p, PyObject *list, sft_error *err) {
    size_t count;
    bool done;

    memset(p, 0, sizeof *p);
    if (PyUnicode_Check(list)) {
        const char *why = PyUnicode_AsUTF8AndSize(list, NULL);
        p->count = SFT_GROUP_FAILED;
        (void)sft_error_set(err, SFT_E_ARG, 0, "%s", why != NULL ? why : "");
        return why != NULL;
    }
    if (!PyList_Check(list)) {
        return core_wrong_type("tensors", list, "list") != NULL;
    }
    count = (size_t)PyList_Size(list);
    p->items = calloc(count + 1, sizeof *p->items);
    p->numbers = calloc(3 * count + 1, sizeof *p->numbers);
    done = p->items != NULL && p->numbers != NULL;
    if (!done) {
        core_no_memory(0);
    }
    while (done && p->count < count) {
        done = part_of(p, PyList_GetItem(list, (Py_ssize_t)p->count), &p->items[p->count]);
        p->count += done ? 1 : 0;
    }
    if (!done) {
        parts_free(p);
    }
    return done;
}

static PyObject *told(const sft_group_result *r) {
    return Py_BuildValue("(KKKK)", (unsigned long long)r->bytes, (unsigned long long)r->tensors,
                         (unsigned long long)r->total_bytes, (unsigned long long)r->total_files);
}

/* The path as text; *path is to be let go of. */
static const char *path_of(PyObject *object, PyObject **path) {
    *path = core_path(object);
    return *path != NULL ? core_text(*path, "path") : NULL;
}

/* ---------------------------------------------------------------- save */

enum {
    SAVE_PATH,
    SAVE_TENSORS,
    SAVE_GROUP,
    SAVE_METADATA,
    SAVE_DIGESTS,
    SAVE_DURABLE,
    SAVE_PROGRESS,
    SAVE_COUNT
};

static PyObject *save(core_state *state, const char *path, PyObject **v,
                      const core_metadata *metadata) {
    sft_group_save_options options;
    sft_group_result result;
    const sft_group *group;
    core_watch watch;
    sft_status status;
    sft_error err;
    parts tensors;
    talk t;
    const int durable = PyObject_IsTrue(v[SAVE_DURABLE]);

    SFT_INIT(&options);
    SFT_INIT(&result);
    if (durable < 0 || !core_digests(v[SAVE_DIGESTS], &options.digests)) {
        return NULL;
    }
    if (!talk_begin(&t, &watch, v[SAVE_GROUP], &group) ||
        !parts_read(&tensors, v[SAVE_TENSORS], &err)) {
        return NULL;
    }
    options.metadata = metadata->entries;
    options.metadata_count = metadata->count;
    options.durability = durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    options.pool = core_pool(state);
    core_watch_begin(&watch, core_none(v[SAVE_PROGRESS]));
    options.control = &watch.control;
    status = sft_checkpoint_save_group(group, path, tensors.items, tensors.count, &options, &result,
                                       &err);
    core_watch_end(&watch);
    parts_free(&tensors);
    if (status != SFT_OK || PyErr_Occurred()) {
        return core_watch_raise(&watch, state, &err, CORE_SERIALIZING);
    }
    return told(&result);
}

PyObject *core_save_group(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"path",    "tensors", "group",   "metadata",
                                             "digests", "durable", "progress"};
    static const core_signature signature = {"_save_group", parameters, SAVE_COUNT, SAVE_COUNT,
                                             SAVE_COUNT};
    core_state *state = core_state_of(module);
    PyObject *v[SAVE_COUNT], *path = NULL, *result = NULL;
    core_metadata metadata;
    const char *name;

    if (!core_parse(&signature, args, kwargs, v)) {
        return NULL;
    }
    name = path_of(v[SAVE_PATH], &path);
    if (name != NULL) {
        if (core_metadata_read(v[SAVE_METADATA], &metadata)) {
            result = save(state, name, v, &metadata);
        }
        core_metadata_free(&metadata);
    }
    Py_XDECREF(path);
    return result;
}

/* ---------------------------------------------------------------- load */

enum {
    LOAD_PATH,
    LOAD_TENSORS,
    LOAD_GROUP,
    LOAD_LAYOUT,
    LOAD_RANKS,
    LOAD_STEP,
    LOAD_CAST,
    LOAD_MISSING,
    LOAD_PROGRESS,
    LOAD_COUNT
};

static PyObject *load(core_state *state, const char *path, PyObject **v,
                      const sft_checkpoint_options *source) {
    sft_group_load_options options;
    sft_group_result result;
    const sft_group *group;
    core_watch watch;
    sft_status status;
    sft_error err;
    parts tensors;
    talk t;
    const int cast = PyObject_IsTrue(v[LOAD_CAST]), missing = PyObject_IsTrue(v[LOAD_MISSING]);

    SFT_INIT(&options);
    SFT_INIT(&result);
    if (cast < 0 || missing < 0 || !talk_begin(&t, &watch, v[LOAD_GROUP], &group) ||
        !parts_read(&tensors, v[LOAD_TENSORS], &err)) {
        return NULL;
    }
    options.source = source;
    options.flags = (cast ? SFT_GROUP_CAST : 0) | (missing ? SFT_GROUP_MISSING : 0);
    options.pool = core_pool(state);
    core_watch_begin(&watch, core_none(v[LOAD_PROGRESS]));
    options.control = &watch.control;
    status = sft_checkpoint_load_group(group, path, tensors.items, tensors.count, &options, &result,
                                       &err);
    core_watch_end(&watch);
    parts_free(&tensors);
    if (status != SFT_OK || PyErr_Occurred()) {
        return core_watch_raise(&watch, state, &err, NULL);
    }
    return told(&result);
}

PyObject *core_load_group(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"path", "tensors", "group",   "layout",  "ranks",
                                             "step", "cast",    "missing", "progress"};
    static const core_signature signature = {"_load_group", parameters, LOAD_COUNT, LOAD_COUNT,
                                             LOAD_COUNT};
    core_state *state = core_state_of(module);
    sft_checkpoint_options source;
    PyObject *v[LOAD_COUNT], *path = NULL, *result = NULL;
    const char *name;

    if (!core_parse(&signature, args, kwargs, v)) {
        return NULL;
    }
    SFT_INIT(&source);
    name = path_of(v[LOAD_PATH], &path);
    if (name != NULL &&
        (v[LOAD_STEP] == Py_None || (source.step = core_text(v[LOAD_STEP], "step")) != NULL) &&
        core_layouts(state, v[LOAD_LAYOUT], v[LOAD_RANKS], &source.layouts)) {
        result = load(state, name, v, &source);
    }
    if (source.layouts != NULL) {
        sft_layout_set_free(source.layouts);
    }
    Py_XDECREF(path);
    return result;
}
