/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * run.c - _Run: a training run of <sft/run.h>. Which objects of a program become which tensors and trees is
 * decided in run.py, the one caller, which also sees to it that one thread at a time is in here, wait and
 * poll excepted. Read core.h first.
 */
#include "core.h"
#include <sft/run.h>

#include <stdlib.h>

typedef struct core_run {
    PyObject_HEAD core_state *state;
    sft_run *run;         /* NULL: closed */
    sft_run_point *point; /* what was resumed; NULL: nothing */
    PyObject *device;     /* tensors of it are staged through pinned memory; NULL: none */
    core_copies *copies;
    PyObject *talk; /* of many processes: callable(bytes) -> bytes of all; NULL: this one alone */
    sft_group group;
    bool broken;  /* it has raised: the others cannot be reached any more */
    long process; /* a forked child has no use of it: its thread that writes is not there */
} core_run;

/* The run for a call; NULL with an exception. */
static sft_run *open_run(const core_run *r) {
    if (r->run == NULL) {
        core_raise_text(r->state, SFT_E_STATE, NULL, "the run is closed");
        return NULL;
    }
    if (r->process != core_process()) {
        core_raise_text(r->state, SFT_E_STATE, NULL, "the run belongs to the parent process");
        return NULL;
    }
    return r->run;
}

/* Called from the thread that made the call, without the GIL. An exception stays set: the call raises it. */
static sft_status run_gather(void *ctx, const void *mine, size_t bytes, void *all, sft_error *err) {
    core_run *r = ctx;
    sft_status status;

    if (r->broken) {
        return sft_error_set(err, SFT_E_IO, 0,
                             "the processes of the run cannot exchange anything "
                             "any more; an earlier error says why");
    }
    const PyGILState_STATE held = PyGILState_Ensure();
    status = core_group_gather(r->talk, &r->group, mine, bytes, all, err);
    r->broken = PyErr_Occurred() != NULL;
    PyGILState_Release(held);
    return status;
}

/* The exception of the exchange, or that of the library's error. */
static PyObject *raise_of(const core_run *r, const sft_error *err) {
    return PyErr_Occurred() != NULL ? NULL : core_raise_plain(r->state, err);
}

/* ---------------------------------------------------------------- open and close */

enum {
    OPEN_PATH,
    OPEN_KEEP_LAST,
    OPEN_KEEP_EVERY,
    OPEN_KEEP_BEST,
    OPEN_KEEP_SECONDS,
    OPEN_SHARD_BYTES,
    OPEN_ARENAS,
    OPEN_FLAGS,
    OPEN_BEST,
    OPEN_MODE,
    OPEN_DURABLE,
    OPEN_SHA256,
    OPEN_DEVICE,
    OPEN_GROUP,
    OPEN_TIMEOUT,
    OPEN_COUNT
};

/* Numbers first, the rest where `values` has it; false with an exception. */
static bool read_options(PyObject **v, sft_run_rules *rules, sft_run_options *options) {
    uint64_t *const numbers[] = {&rules->keep_last, &rules->keep_every, &rules->keep_best,
                                 &rules->keep_seconds, &options->shard_bytes};
    static const char *const modes[] = {"min", "max", NULL};
    uint64_t arenas = 0, flags = 0;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!core_u64(v[OPEN_KEEP_LAST + i], numbers[i])) {
            return false;
        }
    }
    const int mode = core_choice(v[OPEN_MODE], "mode", modes);
    const int durable = PyObject_IsTrue(v[OPEN_DURABLE]), sha256 = PyObject_IsTrue(v[OPEN_SHA256]);
    if (mode == -1) {
        PyErr_SetString(PyExc_ValueError, "mode is \"min\" or \"max\"");
    }
    if (mode < 0 || durable < 0 || sha256 < 0 || !core_u64(v[OPEN_ARENAS], &arenas) ||
        !core_u64(v[OPEN_FLAGS], &flags) || !core_u64(v[OPEN_TIMEOUT], &options->timeout_ms)) {
        return false;
    }
    if (v[OPEN_BEST] != Py_None && (rules->best = core_text(v[OPEN_BEST], "best")) == NULL) {
        return false;
    }
    rules->best_mode = mode == 0 ? SFT_RUN_MIN : SFT_RUN_MAX;
    options->durability = durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    options->sha256 = (uint32_t)sha256;
    options->arenas = arenas <= UINT32_MAX ? (uint32_t)arenas : UINT32_MAX;
    options->flags = (uint32_t)flags;
    options->rules = rules;
    return true;
}

/* Of the devices and the processes. False with an exception. */
static bool take_others(core_run *r, PyObject **v, sft_run_options *options) {
    if (v[OPEN_DEVICE] != Py_None) {
        r->device = Py_NewRef(v[OPEN_DEVICE]);
        r->copies = core_copies_new(r->state, r->device);
        if (r->copies == NULL) {
            return false;
        }
        options->copier = core_copies_copier(r->copies);
    }
    if (v[OPEN_GROUP] != Py_None) {
        SFT_INIT(&r->group);
        if (!core_group_read(v[OPEN_GROUP], &r->group, &r->talk)) {
            return false;
        }
        Py_INCREF(r->talk);
        r->group.allgather = run_gather;
        r->group.ctx = r;
        options->group = &r->group;
    }
    return true;
}

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {
        "path",        "keep_last", "keep_every", "keep_best", "keep_seconds",
        "shard_bytes", "arenas",    "flags",      "best",      "mode",
        "durable",     "sha256",    "device",     "group",     "timeout_ms"};
    static const core_signature signature = {"_Run", parameters, OPEN_COUNT, OPEN_COUNT,
                                             OPEN_COUNT};
    core_state *state = PyType_GetModuleState(type);
    PyObject *v[OPEN_COUNT], *path;
    const char *name;
    sft_run_options options;
    sft_run_rules rules;
    sft_status status;
    sft_error err;
    core_run *r;

    SFT_INIT(&options);
    SFT_INIT(&rules);
    if (state == NULL || !core_parse(&signature, args, kwargs, v) ||
        !read_options(v, &rules, &options)) {
        return NULL;
    }
    path = core_target_path(state, v[OPEN_PATH], &name);
    r = path != NULL ? (core_run *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : NULL;
    if (r != NULL) {
        r->state = state;
        r->process = core_process();
        options.pool = options.writers = core_pool(state);
        if (!take_others(r, v, &options)) {
            Py_DECREF(path);
            Py_DECREF(r);
            return NULL;
        }
        Py_BEGIN_ALLOW_THREADS status = sft_run_open(&r->run, name, &options, &err);
        Py_END_ALLOW_THREADS if (status != SFT_OK) {
            raise_of(r, &err);
            Py_DECREF(r);
            r = NULL;
        }
    }
    Py_XDECREF(path);
    return (PyObject *)r;
}

static sft_status end(core_run *r, sft_error *err) {
    sft_run *const run = r->run;
    sft_run_point *const point = r->point;
    sft_status status = SFT_OK;

    r->run = NULL;
    r->point = NULL;
    if (run != NULL && r->process == core_process()) {
        Py_BEGIN_ALLOW_THREADS sft_run_point_free(point);
        status = sft_run_close(run, err);
        Py_END_ALLOW_THREADS
    }
    if (r->process == core_process()) {
        core_copies_end(r->copies);
    }
    r->copies = NULL;
    Py_CLEAR(r->device);
    Py_CLEAR(r->talk);
    return status;
}

static void run_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    core_run *r = (core_run *)self;
    PyObject *type_of, *value, *trace;
    sft_error err;

    PyErr_Fetch(&type_of, &value, &trace);
    if (end(r, &err) != SFT_OK) { /* nobody has closed it, so nobody would learn of it */
        (void)core_raise_plain(r->state, &err);
        PyErr_WriteUnraisable((PyObject *)type); /* an object that is going cannot be shown */
    }
    PyErr_Restore(type_of, value, trace);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *run_close(PyObject *self, PyObject *ignored) {
    core_run *r = (core_run *)self;
    sft_error err;

    (void)ignored;
    return end(r, &err) == SFT_OK ? Py_NewRef(Py_None) : core_raise_plain(r->state, &err);
}

/* ---------------------------------------------------------------- tensors */

/* (name, dtype, shape, part, address, nbytes, flags), and of many processes (..., start, count), of each. */
typedef struct tensors {
    sft_run_tensor *items;
    uint64_t **sizes; /* SIZES of each; NULL: not given */
    size_t count;
} tensors;

enum { SHAPE, START, COUNT, SIZES };

static void tensors_free(tensors *t) {
    for (size_t i = 0; t->sizes != NULL && i < SIZES * t->count; i++) {
        free(t->sizes[i]);
    }
    free(t->sizes);
    free(t->items);
}

/* Among a tensor's flags: its address is one of the device. */
#define ON_DEVICE 0x10000u

/* Names lie in the list's strings, which must stay. */
static bool tensor_read(PyObject *entry, sft_run_tensor *out, uint64_t **sizes) {
    const char *dtype;
    Py_ssize_t name_len = 0, dtype_len = 0;
    unsigned long long address = 0, nbytes = 0;
    unsigned int part = 0, flags = 0;
    PyObject *given[SIZES] = {NULL, NULL, NULL};
    uint32_t ranks[SIZES] = {0, 0, 0};

    SFT_INIT(out);
    if (!PyTuple_Check(entry)) {
        return core_wrong_type("tensors", entry, "tuple") != NULL;
    }
    if (!PyArg_ParseTuple(entry, "s#s#OIKKI|OO", &out->name, &name_len, &dtype, &dtype_len,
                          &given[SHAPE], &part, &address, &nbytes, &flags, &given[START],
                          &given[COUNT])) {
        return false;
    }
    out->name_len = (size_t)name_len;
    out->dtype = core_dtype_by_name(dtype, dtype_len);
    if (out->dtype == NULL) {
        PyErr_Format(PyExc_ValueError, "`%s`: %s is no type of the format", out->name, dtype);
        return false;
    }
    out->part = part;
    if ((flags & ON_DEVICE) != 0) {
        out->address = address;
    } else {
        out->data = (const void *)(uintptr_t)address;
    }
    out->nbytes = nbytes;
    out->flags = flags & ~ON_DEVICE;
    for (size_t i = 0; i < SIZES; i++) {
        if (given[i] != NULL && !core_shape_read(given[i], &sizes[i], &ranks[i])) {
            return false;
        }
        if (given[i] != NULL && ranks[i] != ranks[SHAPE]) {
            PyErr_Format(PyExc_ValueError,
                         "the box of `%s` has another number of dimensions than its tensor",
                         out->name);
            return false;
        }
    }
    out->rank = ranks[SHAPE];
    out->shape = sizes[SHAPE];
    out->start = sizes[START];
    out->count = sizes[COUNT];
    return true;
}

static bool tensors_read(tensors *t, PyObject *list) {
    memset(t, 0, sizeof *t);
    if (!PyList_Check(list)) {
        return core_wrong_type("tensors", list, "list") != NULL;
    }
    const size_t count = (size_t)PyList_Size(list);
    t->items = calloc(count + 1, sizeof *t->items);
    t->sizes = calloc(SIZES * count + 1, sizeof *t->sizes);
    if (t->items == NULL || t->sizes == NULL) {
        core_no_memory(0);
        tensors_free(t);
        return false;
    }
    while (t->count < count) {
        const size_t i = t->count++; /* what it has got so far is freed, too */
        if (!tensor_read(PyList_GetItem(list, (Py_ssize_t)i), &t->items[i], &t->sizes[SIZES * i])) {
            tensors_free(t);
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- save */

static sft_status add_node(sft_run_save *save, const char *name, const char *bytes, size_t size,
                           sft_error *err) {
    return sft_run_add_node(save, name, bytes, size, err);
}

static sft_status add_file(sft_run_save *save, const char *name, const char *bytes, size_t size,
                           sft_error *err) {
    return sft_run_add_file(save, name, bytes, size, err);
}

static sft_status add_metadata(sft_run_save *save, const char *name, const char *bytes, size_t size,
                               sft_error *err) {
    return sft_run_add_metadata(save, name, strlen(name), bytes, size, err);
}

/* What the pairs of each list are; without a function they are metrics. */
static const struct {
    const char *format;
    sft_status (*add)(sft_run_save *save, const char *name, const char *bytes, size_t size,
                      sft_error *err);
} adders[] = {{"ss#", add_node}, {"sd", NULL}, {"sy#", add_file}, {"ss#", add_metadata}};

/* Adds one pair of list k; *status is the library's. False with an exception. */
static bool add_pair(sft_run_save *save, size_t k, PyObject *pair, sft_status *status,
                     sft_error *err) {
    const char *name, *bytes;
    Py_ssize_t size = 0;
    double value = 0;

    if (adders[k].add == NULL) {
        if (!PyArg_ParseTuple(pair, adders[k].format, &name, &value)) {
            return false;
        }
        *status = sft_run_add_metric(save, name, value, err);
        return true;
    }
    if (!PyArg_ParseTuple(pair, adders[k].format, &name, &bytes, &size)) {
        return false;
    }
    *status = adders[k].add(save, name, bytes, (size_t)size, err);
    return true;
}

static bool add_all(core_state *state, sft_run_save *save, const tensors *t, PyObject **lists) {
    sft_status status = SFT_OK;
    sft_error err;

    for (size_t i = 0; status == SFT_OK && i < t->count; i++) {
        status = sft_run_add_tensor(save, &t->items[i], &err);
    }
    for (size_t k = 0; k < sizeof adders / sizeof *adders; k++) {
        const Py_ssize_t count = PyList_Size(lists[k]);
        if (count < 0) {
            return false;
        }
        for (Py_ssize_t i = 0; status == SFT_OK && i < count; i++) {
            if (!add_pair(save, k, PyList_GetItem(lists[k], i), &status, &err)) {
                return false;
            }
        }
    }
    if (status != SFT_OK) {
        core_raise_plain(state, &err);
    }
    return status == SFT_OK;
}

/* The other processes of a group learn of the exception, which stays. */
static void give_up(sft_run_save *save) {
    PyObject *type, *value, *trace;
    const char *why = NULL;

    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    why = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (why == NULL) {
        PyErr_Clear();
        why = "what it gives cannot be saved";
    }
    Py_BEGIN_ALLOW_THREADS sft_run_give_up(save, why);
    Py_END_ALLOW_THREADS Py_XDECREF(text);
    PyErr_Restore(type, value, trace);
}

static PyObject *run_save(PyObject *self, PyObject *args) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    unsigned long long step = 0, stream = 0, keep = SFT_RUN_NONE;
    unsigned int flags = 0;
    PyObject *list, *lists[4];
    sft_run_save *save;
    uint64_t ticket = 0;
    sft_status status;
    sft_error err;
    tensors t;

    if (run == NULL || !PyArg_ParseTuple(args, "KIOOOOO|KK", &step, &flags, &list, &lists[0],
                                         &lists[1], &lists[2], &lists[3], &stream, &keep)) {
        return NULL;
    }
    if (!tensors_read(&t, list)) {
        return NULL;
    }
    if (r->copies != NULL) {
        core_copies_stream(r->copies, stream);
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_begin(&save, run, step, flags, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        tensors_free(&t);
        return raise_of(r, &err);
    }
    sft_run_keep(save, keep);
    const bool added = add_all(r->state, save, &t, lists);
    tensors_free(&t);
    if (!added) {
        give_up(save);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_stage(save, &ticket, &err);
    Py_END_ALLOW_THREADS return status == SFT_OK ? PyLong_FromUnsignedLongLong(ticket)
                                                 : raise_of(r, &err);
}

static PyObject *run_poll(PyObject *self, PyObject *ignored) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    sft_run_progress p;
    sft_error err;

    (void)ignored;
    SFT_INIT(&p);
    if (run == NULL) {
        return NULL;
    }
    if (sft_run_poll(run, &p, &err) != SFT_OK) {
        return raise_of(r, &err);
    }
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K}", "pending", (unsigned long long)p.pending,
                         "bytes_done", (unsigned long long)p.bytes_done, "bytes_total",
                         (unsigned long long)p.bytes_total, "linked", (unsigned long long)p.linked,
                         "written", (unsigned long long)p.written);
}

/* True: committed; False: not yet; or the error of the save. What is raised is of something else. */
static PyObject *run_wait(PyObject *self, PyObject *args) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    unsigned long long ticket = 0, timeout = 0;
    sft_status status;
    sft_error err;
    PyObject *type, *value, *trace;

    if (run == NULL || !PyArg_ParseTuple(args, "KK", &ticket, &timeout)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_wait(run, ticket, timeout, &err);
    Py_END_ALLOW_THREADS
        /* A step of many processes may itself have failed as one of them was missing: with the same status. */
        if (status == SFT_OK ||
            (status == SFT_E_TIMEOUT && strncmp(err.message, "not written within", 18) == 0)) {
        return PyBool_FromLong(status == SFT_OK);
    }
    (void)raise_of(r, &err);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (!PyErr_GivenExceptionMatches(type,
                                     PyExc_Exception)) { /* an interrupt, while processes talked */
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* ---------------------------------------------------------------- resume */

static PyObject *point_told(const core_run *r) {
    return Py_BuildValue("(KN)", (unsigned long long)sft_run_point_step(r->point),
                         PyUnicode_DecodeFSDefault(sft_run_point_path(r->point)));
}

/* (step, directory), or None where there is no step at all. step: None, or this one alone. */
static PyObject *run_resume(PyObject *self, PyObject *step) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    sft_run_resume_options options;
    sft_run_point *point;
    sft_status status;
    sft_error err;

    SFT_INIT(&options);
    if (run == NULL || (step != Py_None && !core_u64(step, &options.step))) {
        return NULL;
    }
    options.exact = step != Py_None;
    options.check = SFT_RUN_CHECK_SIZES; /* digests are compared while loading */
    sft_run_point_free(r->point);
    r->point = NULL;
    Py_BEGIN_ALLOW_THREADS status = sft_run_resume(&point, run, &options, &err);
    Py_END_ALLOW_THREADS if (status == SFT_E_NOT_FOUND && step == Py_None &&
                             sft_run_skipped(run, 0) == NULL) {
        return Py_NewRef(Py_None);
    }
    if (status != SFT_OK) {
        return raise_of(r, &err);
    }
    r->point = point;
    return point_told(r);
}

static bool has_point(const core_run *r) {
    if (open_run(r) == NULL) {
        return false;
    }
    if (r->point == NULL) {
        core_raise_text(r->state, SFT_E_STATE, NULL, "no step was resumed");
    }
    return r->point != NULL;
}

static PyObject *run_next(PyObject *self, PyObject *why) {
    core_run *r = (core_run *)self;
    const char *text = has_point(r) ? core_text(why, "why") : NULL;
    sft_status status;
    sft_error err;

    if (text == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_point_next(r->point, text, &err);
    Py_END_ALLOW_THREADS return status == SFT_OK ? point_told(r) : raise_of(r, &err);
}

static PyObject *run_leave(PyObject *self, PyObject *ignored) {
    core_run *r = (core_run *)self;

    (void)ignored;
    sft_run_point_free(r->point);
    r->point = NULL;
    Py_RETURN_NONE;
}

/* {name: JSON text} */
static PyObject *run_entries(PyObject *self, PyObject *ignored) {
    core_run *r = (core_run *)self;
    PyObject *dict = has_point(r) ? PyDict_New() : NULL;
    const char *name;

    (void)ignored;
    for (size_t i = 0; dict != NULL && (name = sft_run_point_name(r->point, i)) != NULL; i++) {
        const char *json;
        size_t len = 0;
        sft_error err;
        PyObject *text = NULL;
        if (sft_run_point_node(r->point, name, &json, &len, &err) == SFT_OK) {
            text = PyUnicode_FromStringAndSize(json, (Py_ssize_t)len);
        } else {
            raise_of(r, &err);
        }
        if (text == NULL || PyDict_SetItemString(dict, name, text) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(text);
    }
    return dict;
}

/* {name: (dtype, shape)} */
static PyObject *run_tensors(PyObject *self, PyObject *ignored) {
    core_run *r = (core_run *)self;
    PyObject *dict = has_point(r) ? PyDict_New() : NULL;
    const sft_catalog *catalog = dict != NULL ? sft_run_point_catalog(r->point) : NULL;

    (void)ignored;
    for (size_t i = 0; dict != NULL && i < sft_catalog_count(catalog); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        PyObject *name = core_name(t);
        PyObject *what = Py_BuildValue("(sN)", t->dtype->name, core_shape_tuple(t->shape, t->rank));
        if (name == NULL || what == NULL || PyDict_SetItem(dict, name, what) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(name);
        Py_XDECREF(what);
    }
    return dict;
}

/* Reads tensors of the step into memory, as save described it. */
static PyObject *run_load(PyObject *self, PyObject *list) {
    core_run *r = (core_run *)self;
    sft_status status;
    sft_error err;
    tensors t;

    if (!has_point(r) || !tensors_read(&t, list)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_point_load(r->point, t.items, t.count, 0, &err);
    Py_END_ALLOW_THREADS tensors_free(&t);
    return status == SFT_OK ? Py_NewRef(Py_None) : raise_of(r, &err);
}

/* ---------------------------------------------------------------- what is there */

/* None: not compared. */
static PyObject *verdict(uint32_t verified) {
    return verified == 0 ? Py_None : verified == 1 ? Py_True : Py_False;
}

static PyObject *step_told(const sft_run_step *s) {
    PyObject *metric =
        s->has_metric ? Py_BuildValue("(sd)", s->metric_name, s->metric) : Py_NewRef(Py_None);

    return Py_BuildValue("{s:s,s:s,s:K,s:L,s:K,s:K,s:I,s:O,s:O,s:I,s:N}", "name", s->name, "why",
                         s->why, "step", (unsigned long long)s->step, "time", (long long)s->time,
                         "bytes", (unsigned long long)s->bytes, "own_bytes",
                         (unsigned long long)s->own_bytes, "processes", s->processes, "complete",
                         s->complete ? Py_True : Py_False, "verified", verdict(s->verified), "kept",
                         s->kept, "metric", metric);
}

static PyObject *steps_told(const sft_run *run, const sft_run_list *steps) {
    PyObject *list = PyList_New(0);
    const sft_run_step *s;

    for (size_t i = 0; list != NULL && (s = steps != NULL ? sft_run_list_at(steps, i)
                                                          : sft_run_skipped(run, i)) != NULL;
         i++) {
        PyObject *told = step_told(s);
        if (told == NULL || PyList_Append(list, told) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(told);
    }
    return list;
}

static PyObject *run_list(PyObject *self, PyObject *args) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    unsigned long long step = SFT_RUN_NONE;
    int verify = 0;
    sft_run_list *steps;
    sft_status status;
    PyObject *list;
    sft_error err;

    if (run == NULL || !PyArg_ParseTuple(args, "p|K", &verify, &step)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status =
        sft_run_list_make(&steps, run, step, verify != 0 ? SFT_RUN_LIST_VERIFY : 0, NULL, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        return raise_of(r, &err);
    }
    list = steps_told(run, steps);
    sft_run_list_free(steps);
    return list;
}

static PyObject *run_skipped(PyObject *self, PyObject *ignored) {
    sft_run *const run = open_run((core_run *)self);

    (void)ignored;
    return run != NULL ? steps_told(run, NULL) : NULL;
}

static PyObject *run_prune(PyObject *self, PyObject *ignored) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    uint64_t removed = 0;
    sft_status status;
    sft_error err;

    (void)ignored;
    if (run == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_prune(run, &removed, &err);
    Py_END_ALLOW_THREADS return status == SFT_OK ? PyLong_FromUnsignedLongLong(removed)
                                                 : raise_of(r, &err);
}

/* step: None, or the one above which all is removed. */
static PyObject *run_rewind(PyObject *self, PyObject *step) {
    core_run *r = (core_run *)self;
    sft_run *const run = open_run(r);
    uint64_t from = SFT_RUN_NONE, removed = 0;
    sft_status status;
    sft_error err;

    if (run == NULL || (step != Py_None && !core_u64(step, &from))) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_run_rewind(run, from, &removed, &err);
    Py_END_ALLOW_THREADS return status == SFT_OK ? PyLong_FromUnsignedLongLong(removed)
                                                 : raise_of(r, &err);
}

/* ---------------------------------------------------------------- the type */

static PyMethodDef run_methods[] = {
    {"save", run_save, METH_VARARGS,
     "save(step, flags, tensors, entries, metrics, files, metadata, stream=0, keep=none, /): a "
     "ticket, once "
     "all "
     "is staged."},
    {"poll", run_poll, METH_NOARGS, "What happens behind."},
    {"wait", run_wait, METH_VARARGS,
     "wait(ticket, milliseconds, /): whether it is committed, or its error."},
    {"resume", run_resume, METH_O, "resume(step, /): (step, directory), or None."},
    {"next", run_next, METH_O, "next(why, /): the next older one."},
    {"leave", run_leave, METH_NOARGS, "Lets go of what was resumed."},
    {"entries", run_entries, METH_NOARGS, "{name: JSON} of the step that was resumed."},
    {"tensors", run_tensors, METH_NOARGS, "{name: (dtype, shape)} of it."},
    {"load", run_load, METH_O, "load(tensors, /): reads them in place."},
    {"list", run_list, METH_VARARGS, "list(verify, step=all, /): the steps."},
    {"skipped", run_skipped, METH_NOARGS, "The steps that resume passed over."},
    {"prune", run_prune, METH_NOARGS, "Removes what the rules do not keep."},
    {"rewind", run_rewind, METH_O, "rewind(step, /): removes what is above it, or all."},
    {"close", run_close, METH_NOARGS, "Waits, and frees."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, (void *)"A training run; safetensors_c.Run is for programs."},
    {Py_tp_new, (void *)run_new},
    {Py_tp_dealloc, (void *)run_dealloc},
    {Py_tp_methods, run_methods},
    {0, NULL},
};

PyType_Spec core_run_spec = {
    .name = "safetensors_c._core._Run",
    .basicsize = sizeof(core_run),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = run_slots,
};
