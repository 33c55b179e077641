/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * group.c - collective saves and loads: src/checkpoint's calls, which exchange a few bytes through a Python
 * function. Only what the C side cannot check is checked here: the types of Python objects. distributed.py is the one
 * caller. Read core.h first.
 */
#include "core.h"
#include <sft/checkpoint_group.h>

#include <stdlib.h>

/* ---------------------------------------------------------------- the processes */

typedef struct talk {
    sft_group group;
    core_watch *watch;
    PyObject *gather; /* callable(bytes) -> bytes of all, in the order of ranks */
    bool broken;      /* it has raised: the other processes cannot be reached */
} talk;

static sft_status fail(sft_error *err, const char *what) {
    return sft_error_set(err, SFT_E_IO, 0, "%s", what);
}

/* An exception stays set: it is raised at the end. */
sft_status core_group_gather(PyObject *call, const sft_group *group, const void *mine, size_t bytes,
                             void *all, sft_error *err) {
    PyObject *given = PyBytes_FromStringAndSize(mine, (Py_ssize_t)bytes);
    PyObject *got = given != NULL ? PyObject_CallFunctionObjArgs(call, given, NULL) : NULL;
    const size_t wanted = bytes * group->size; /* both are checked: at most 2^20 by 2^32 */
    char *data = NULL;
    Py_ssize_t size = 0;
    sft_status status = SFT_OK;

    Py_XDECREF(given);
    if (got == NULL || PyBytes_AsStringAndSize(got, &data, &size) < 0) {
        status = fail(err, "the processes could not exchange what they hold");
    } else if ((size_t)size != wanted) {
        status = fail(err, "an exchange among the processes gave fewer bytes than there are");
    } else {
        memcpy(all, data, wanted);
    }
    Py_XDECREF(got);
    return status;
}

/* Called from the thread that made the call, without the GIL; also after a progress callback has raised, since the
 * other processes wait for the failure. The callback's exception is restored afterwards. */
static sft_status gather(void *ctx, const void *mine, size_t bytes, void *all, sft_error *err) {
    talk *t = ctx;
    PyObject *type, *value, *trace;
    sft_status status;

    if (t->broken) {
        return fail(err, "the processes could not exchange what they hold");
    }
    PyEval_RestoreThread(t->watch->thread);
    PyErr_Fetch(&type, &value, &trace);
    status = core_group_gather(t->gather, &t->group, mine, bytes, all, err);
    if (PyErr_Occurred() != NULL) {
        t->broken = t->watch->failed = true;
    }
    if (type != NULL) {
        PyErr_Restore(type, value, trace);
    }
    t->watch->thread = PyEval_SaveThread();
    return status;
}

bool core_group_read(PyObject *value, sft_group *out, PyObject **call) {
    uint64_t rank, size;

    if (!PyTuple_Check(value) || PyTuple_Size(value) != 3) {
        return core_wrong_type("group", value, "tuple") != NULL;
    }
    if (!core_u64(PyTuple_GetItem(value, 0), &rank) ||
        !core_u64(PyTuple_GetItem(value, 1), &size)) {
        return false;
    }
    if (size > UINT32_MAX || rank >= size) {
        PyErr_SetString(PyExc_ValueError, "a group has a size, and a rank below it");
        return false;
    }
    *call = PyTuple_GetItem(value, 2);
    out->rank = (uint32_t)rank;
    out->size = (uint32_t)size;
    return true;
}

/* group: None, or as core_group_read has it. t: zeros, and *out NULL, which it stays for None. */
static bool talk_begin(talk *t, core_watch *watch, PyObject *group, const sft_group **out) {
    SFT_INIT(&t->group);
    t->watch = watch;
    if (group == Py_None) {
        return true;
    }
    t->group.allgather = gather;
    t->group.ctx = t;
    *out = &t->group;
    return core_group_read(group, &t->group, &t->gather);
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
    PyObject *name, *dtype, *shape, *start, *count, *address, *nbytes;
    const char *dtype_name;
    Py_ssize_t len = 0;
    uint64_t data = 0;
    uint32_t starts = 0, counts = 0;

    if (!PyTuple_Check(entry)) {
        return core_wrong_type("tensors", entry, "tuple") != NULL;
    }
    if (!PyArg_ParseTuple(entry, "UUOOOOO", &name, &dtype, &shape, &start, &count, &address,
                          &nbytes)) {
        return false;
    }
    dtype_name = PyUnicode_AsUTF8AndSize(dtype, &len);
    out->dtype = dtype_name != NULL ? core_dtype_by_name(dtype_name, len) : NULL;
    out->name = PyUnicode_AsUTF8AndSize(name, &len);
    out->name_len = (size_t)len;
    if (out->name == NULL || out->dtype == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "%R is no type of the format", dtype);
        }
        return false;
    }
    if (!sizes_of(p, shape, &out->shape, &out->dims) || !core_u64(address, &data) ||
        !core_u64(nbytes, &out->nbytes)) {
        return false;
    }
    out->data = (void *)(uintptr_t)data;
    if (start == Py_None) {
        return true;
    }
    if (!sizes_of(p, start, &out->start, &starts) || !sizes_of(p, count, &out->count, &counts)) {
        return false;
    }
    if (starts != out->dims || counts != out->dims) {
        PyErr_Format(PyExc_ValueError,
                     "the box of %R has another number of dimensions than its tensor", name);
        return false;
    }
    return true;
}

/* list: a list of entries, or a str: why this process has failed. The list must stay. p: zeros; to be freed in every
 * case. */
static bool parts_read(parts *p, PyObject *list, sft_error *err) {
    size_t count;
    bool done;

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
    return done;
}

/* ---------------------------------------------------------------- what both do */

enum { PATH, TENSORS, GROUP, OWN }; /* the first parameters; then those of each */

/* A call of the library for all processes. */
typedef struct call {
    const sft_group *group; /* NULL: this process alone */
    const char *path;
    PyObject *path_object; /* that `path` lives as long as */
    parts tensors;
    sft_group_result result;
    core_watch watch;
    talk talk;
} call;

/* False with an exception; call_free in every case. */
static bool call_read(call *c, PyObject **v) {
    memset(c, 0, sizeof *c);
    SFT_INIT(&c->result);
    c->path_object = core_path(v[PATH]);
    c->path = c->path_object != NULL ? core_text(c->path_object, "path") : NULL;
    return c->path != NULL && talk_begin(&c->talk, &c->watch, v[GROUP], &c->group) &&
           parts_read(&c->tensors, v[TENSORS], &c->watch.err);
}

static void call_free(call *c) {
    parts_free(&c->tensors);
    Py_XDECREF(c->path_object);
}

static PyObject *call_done(call *c, core_state *state, sft_status status, const char *doing) {
    const sft_group_result *r = &c->result;
    const sft_error *err = &c->watch.err;

    if (doing == NULL && err->tensor[0] != '\0' && err->offset == SFT_NO_OFFSET &&
        (status == SFT_E_SHAPE || status == SFT_E_DTYPE || status == SFT_E_NOT_FOUND ||
         status == SFT_E_MISMATCH)) { /* of what is asked for, and of no file's header */
        core_watch_end(&c->watch);
        return PyErr_Occurred() == NULL ? core_raise_plain(state, err) : NULL;
    }
    if (!core_watch_done(&c->watch, state, status, doing)) {
        return NULL;
    }
    return Py_BuildValue("(KKKK)", (unsigned long long)r->bytes, (unsigned long long)r->tensors,
                         (unsigned long long)r->total_bytes, (unsigned long long)r->total_files);
}

/* ---------------------------------------------------------------- save */

enum { SAVE_METADATA = OWN, SAVE_DIGESTS, SAVE_DURABLE, SAVE_PROGRESS, SAVE_COUNT };

static PyObject *save(core_state *state, PyObject **v, call *c) {
    sft_group_save_options options;
    core_metadata metadata;
    PyObject *result = NULL;
    bool durable;

    SFT_INIT(&options);
    if (core_metadata_read(v[SAVE_METADATA], &metadata) && core_truth(v[SAVE_DURABLE], &durable) &&
        core_digests(v[SAVE_DIGESTS], &options.digests)) {
        options.metadata = metadata.entries;
        options.metadata_count = metadata.count;
        options.durability = durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
        options.pool = core_pool(state);
        core_watch_begin(&c->watch, core_none(v[SAVE_PROGRESS]));
        options.control = &c->watch.control;
        result = call_done(c, state,
                           sft_checkpoint_save_group(c->group, c->path, c->tensors.items,
                                                     c->tensors.count, &options, &c->result,
                                                     &c->watch.err),
                           CORE_SERIALIZING);
    }
    core_metadata_free(&metadata);
    return result;
}

PyObject *core_save_group(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"path",    "tensors", "group",   "metadata",
                                             "digests", "durable", "progress"};
    static const core_signature signature = {"_save_group", parameters, SAVE_COUNT, SAVE_COUNT,
                                             SAVE_COUNT};
    PyObject *v[SAVE_COUNT], *result = NULL;
    call c;

    if (core_parse(&signature, args, kwargs, v)) {
        result = call_read(&c, v) ? save(core_state_of(module), v, &c) : NULL;
        call_free(&c);
    }
    return result;
}

/* ---------------------------------------------------------------- load */

enum {
    LOAD_LAYOUT = OWN,
    LOAD_RANKS,
    LOAD_STEP,
    LOAD_CAST,
    LOAD_MISSING,
    LOAD_PROGRESS,
    LOAD_COUNT
};

static PyObject *load(core_state *state, PyObject **v, call *c) {
    sft_checkpoint_options source;
    sft_group_load_options options;
    PyObject *result = NULL;
    bool cast, missing;

    SFT_INIT(&source);
    SFT_INIT(&options);
    if ((v[LOAD_STEP] == Py_None || (source.step = core_text(v[LOAD_STEP], "step")) != NULL) &&
        core_truth(v[LOAD_CAST], &cast) && core_truth(v[LOAD_MISSING], &missing) &&
        core_layouts(state, v[LOAD_LAYOUT], v[LOAD_RANKS], &source.layouts)) {
        options.source = &source;
        options.flags = (cast ? SFT_GROUP_CAST : 0) | (missing ? SFT_GROUP_MISSING : 0);
        options.pool = core_pool(state);
        core_watch_begin(&c->watch, core_none(v[LOAD_PROGRESS]));
        options.control = &c->watch.control;
        result = call_done(c, state,
                           sft_checkpoint_load_group(c->group, c->path, c->tensors.items,
                                                     c->tensors.count, &options, &c->result,
                                                     &c->watch.err),
                           NULL);
    }
    if (source.layouts != NULL) {
        sft_layout_set_free(source.layouts);
    }
    return result;
}

PyObject *core_load_group(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"path", "tensors", "group",   "layout",  "ranks",
                                             "step", "cast",    "missing", "progress"};
    static const core_signature signature = {"_load_group", parameters, LOAD_COUNT, LOAD_COUNT,
                                             LOAD_COUNT};
    PyObject *v[LOAD_COUNT], *result = NULL;
    call c;

    if (core_parse(&signature, args, kwargs, v)) {
        result = call_read(&c, v) ? load(core_state_of(module), v, &c) : NULL;
        call_free(&c);
    }
    return result;
}
