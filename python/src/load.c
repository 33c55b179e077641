/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * load.c - many tensors at once: as views of the mapped file, or read into memory of their own with the
 * pool and without the GIL. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>
#include <time.h>

#define POOL_THREADS     8
#define ALONE            ((uint64_t)8 << 20) /* the calling thread alone is faster for less */
#define MANY             256
#define FEW              16
#define POLL_NANOSECONDS 50000000
/* Small pieces come by the thousand: the clock is read again after this many calls or bytes. */
#define POLL_CALLS 16
#define POLL_BYTES ((uint64_t)1 << 20)
/* What lies in memory beside a run of tensors: alignment on both ends, and a gap that is read over. */
#define RUN_SLACK ((uint64_t)72 << 10)

const sft_pool *core_pool(core_state *state) {
    sft_pool *now = __atomic_load_n(&state->pool, __ATOMIC_ACQUIRE);
    sft_pool *fresh, *most = NULL;
    long process = core_process();

    if (now != NULL && __atomic_load_n(&state->pool_process, __ATOMIC_ACQUIRE) == process) {
        return now;
    }
    /* None yet, or the parent's, whose threads are not in this process: that one is left alone. */
    if (sft_pool_create(&fresh, 0, NULL, NULL) != SFT_OK) {
        return NULL;
    }
    if (sft_pool_threads(fresh) > POOL_THREADS &&
        sft_pool_create(&most, POOL_THREADS, NULL, NULL) == SFT_OK) {
        sft_pool_free(fresh);
        fresh = most;
    }
    if (state->cpu != NULL) {
        (void)!sft_pool_set_cpu(fresh, PyBytes_AsString(state->cpu), NULL);
    }
    if (!__atomic_compare_exchange_n(&state->pool, &now, fresh, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        sft_pool_free(fresh);
        return now;
    }
    __atomic_store_n(&state->pool_process, process, __ATOMIC_RELEASE);
    return fresh;
}

const sft_pool *core_pool_for(core_state *state, uint64_t bytes) {
    return bytes >= ALONE || state->cpu != NULL ? core_pool(state) : NULL;
}

bool core_read_cpu(core_state *state) {
    const char *text = getenv("SFT_CPU");
    sft_pool *pool;
    bool good = true;
    sft_error err;

    if (text == NULL || *text == '\0' || sft_pool_create(&pool, 1, NULL, NULL) != SFT_OK) {
        return true;
    }
    if (sft_pool_set_cpu(pool, text, &err) == SFT_OK) {
        state->cpu = PyBytes_FromString(text);
        good = state->cpu != NULL;
    } else {
        good = PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "SFT_CPU: %s; nothing is left out",
                                err.message) == 0;
    }
    sft_pool_free(pool);
    return good;
}

PyObject *core_without(PyObject *module, PyObject *none) {
    (void)none;
    return PyLong_FromUnsignedLong(sft_pool_without(core_pool(core_state_of(module))));
}

/* ---------------------------------------------------------------- watching */

static int64_t now_ns(void) {
    struct timespec t;
#ifdef _WIN32
    const bool told = timespec_get(&t, TIME_UTC) == TIME_UTC;
#else
    const bool told = clock_gettime(CLOCK_REALTIME, &t) == 0; /* timespec_get: macOS 10.15 */
#endif
    return told ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : 0;
}

static int poll_python(void *ctx, const sft_progress *progress) {
    core_watch *watch = ctx;
    int64_t now;

    /* Signals and callbacks belong to the calling thread, which does its share of the work. */
    if (watch->failed || PyThread_get_thread_ident() != watch->caller) {
        return watch->failed;
    }
    if (watch->last != 0 && progress->bytes_done != progress->bytes_total) {
        if (++watch->calls < POLL_CALLS && progress->bytes_done - watch->seen < POLL_BYTES) {
            return 0;
        }
        watch->calls = 0;
        watch->seen = progress->bytes_done;
        now = now_ns();
        if (now - watch->last < POLL_NANOSECONDS) {
            return 0;
        }
    } else {
        now = now_ns();
    }
    watch->last = now;
    PyEval_RestoreThread(watch->thread);
    watch->failed = PyErr_CheckSignals() != 0;
    if (!watch->failed && watch->progress != NULL) {
        PyObject *result =
            PyObject_CallFunction(watch->progress, "KK", (unsigned long long)progress->bytes_done,
                                  (unsigned long long)progress->bytes_total);
        watch->failed = result == NULL;
        Py_XDECREF(result);
    }
    watch->thread = PyEval_SaveThread();
    return watch->failed;
}

void core_watch_begin(core_watch *watch, PyObject *progress) {
    SFT_INIT(&watch->control);
    watch->control.poll = poll_python;
    watch->control.ctx = watch;
    watch->caller = PyThread_get_thread_ident();
    watch->progress = progress;
    watch->failed = false;
    watch->last = 0; /* the first poll of the calling thread always asks Python */
    watch->seen = 0;
    watch->calls = 0;
    watch->thread = PyEval_SaveThread();
}

void core_watch_end(core_watch *watch) {
    PyEval_RestoreThread(watch->thread);
}

bool core_watch_done(core_watch *watch, core_state *state, sft_status status, const char *doing) {
    core_watch_end(watch);
    if (status != SFT_OK) {
        core_raise(state, &watch->err, doing);
    }
    return PyErr_Occurred() == NULL;
}

/* ---------------------------------------------------------------- which tensors */

void core_chosen_free(core_chosen *c) {
    free((void *)c->tensors);
    free(c->positions);
}

bool core_choose(core_state *state, core_file *file, PyObject *names, core_chosen *c) {
    PyObject *list = names != NULL ? PySequence_List(names) : NULL;
    bool done = names == NULL || list != NULL;

    memset(c, 0, sizeof *c);
    if (!done) {
        return false;
    }
    c->count = list != NULL ? (size_t)PyList_Size(list) : sft_catalog_count(file->catalog);
    c->tensors = malloc((c->count + 1) * sizeof *c->tensors);
    c->positions = list != NULL ? malloc((c->count + 1) * sizeof *c->positions) : NULL;
    if (c->tensors == NULL || (list != NULL && c->positions == NULL)) {
        core_no_memory(0);
        done = false;
    }
    for (size_t i = 0; done && i < c->count; i++) {
        c->tensors[i] = list != NULL ? core_find(state, file, PyList_GetItem(list, (Py_ssize_t)i))
                                     : sft_catalog_at(file->catalog, i);
        done = c->tensors[i] != NULL;
        if (done && list != NULL) {
            c->positions[i] = sft_catalog_index_of(file->catalog, c->tensors[i]);
        }
    }
    Py_XDECREF(list);
    return done;
}

/* ---------------------------------------------------------------- the dict */

/* How many tensors from i on lie in the same source, `most` at most, and their dimensions. */
static size_t alike(const core_chosen *c, size_t i, size_t most, size_t *dimensions) {
    uint32_t source = c->tensors[i]->pieces[0].source;
    size_t n = 0;

    *dimensions = 0;
    for (; i + n < c->count && n < most && c->tensors[i + n]->pieces[0].source == source; n++) {
        *dimensions += c->tensors[i + n]->rank;
    }
    return n;
}

static bool put_tensor(PyObject *dict, const sft_tensor *tensor, PyObject *value) {
    PyObject *name = value != NULL ? core_name(tensor) : NULL;
    bool done = name != NULL && PyDict_SetItem(dict, name, value) == 0;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return done;
}

/* The slab of torch's capsules while a dict is filled. */
typedef struct slabs {
    core_slab *now;
    const core_memory *memory; /* that it is for */
    size_t left, most;
} slabs;

/* A slab for tensor i, which lies in `memory`, and for those after it that lie there, too. */
static bool next_slab(slabs *s, const core_chosen *c, size_t i, core_memory *memory) {
    size_t dimensions;

    if (s->left == 0 || memory != s->memory) {
        s->most = s->left != 0 ? FEW : s->most; /* neighbours do not lie in the same memory here */
        s->left = alike(c, i, s->most, &dimensions);
        s->memory = memory;
        core_slab_drop(s->now);
        s->now = core_slab_new(s->left, dimensions, memory);
    }
    s->left--;
    return s->now != NULL || core_no_memory(0) != NULL;
}

/* `where` gives each tensor's memory: in the mapped file, or in that of a load. */
static PyObject *fill(core_state *state, const core_chosen *c, const core_target *target,
                      core_where where, void *ctx) {
    PyObject *dict = PyDict_New();
    slabs s = {NULL, NULL, 0, c->count};
    bool done = dict != NULL;
    /* Nothing that is made here can be garbage yet; without this the collector walks all of it again and
     * again, which takes a third of the time of a load of 20,000 tensors. */
    bool collecting = c->count >= MANY && PyGC_Disable() != 0;

    for (size_t i = 0; done && i < c->count; i++) {
        const sft_tensor *t = c->tensors[i];
        core_place place;
        PyObject *value = NULL;
        if (!where(ctx, t, &place)) {
            done = false;
        } else if (target->framework != CORE_TORCH) {
            value = core_tensor(state, target, t->dtype, t->shape, t->rank, &place);
        } else if (next_slab(&s, c, i, place.memory)) {
            value = core_torch_tensor(state, s.now, t->dtype, t->shape, t->rank, place.data);
            if (value != NULL && target->device != NULL) {
                CORE_SET(value, PyObject_CallMethod(value, "to", "O", target->device));
            }
        }
        done = put_tensor(dict, t, value) && done;
    }
    core_slab_drop(s.now);
    if (collecting) {
        (void)PyGC_Enable();
    }
    if (!done) {
        Py_CLEAR(dict);
    }
    return dict;
}

/* ---------------------------------------------------------------- mapped */

typedef struct mapped {
    core_state *state;
    core_file *file;
} mapped;

static bool where_mapped(void *ctx, const sft_tensor *tensor, core_place *place) {
    mapped *m = ctx;
    return core_file_data(m->state, m->file, tensor, &place->data, &place->memory, &place->lender);
}

int core_mapped(core_state *state, core_file *file, const sft_tensor *tensor, core_place *place) {
    if (!core_file_can_map(file, tensor)) {
        return 0;
    }
    if (!core_file_holds(state, file, tensor)) {
        return -1;
    }
    if (core_file_data(state, file, tensor, &place->data, &place->memory, &place->lender)) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_OSError)) {
        return -1;
    }
    PyErr_Clear(); /* a file system that cannot map */
    return 0;
}

static bool all_map(core_file *file, const core_chosen *c) {
    for (size_t i = 0; i < c->count; i++) {
        if (!core_file_can_map(file, c->tensors[i])) {
            return false;
        }
    }
    return true;
}

/* If the last tensor of a source is there, those before it are. */
static bool holds_all(core_state *state, core_file *file, const core_chosen *c) {
    const sft_tensor *last = NULL;

    for (size_t i = 0; i < c->count; i++) {
        const sft_tensor *t = c->tensors[i];
        if (last != NULL && t->pieces[0].source != last->pieces[0].source &&
            !core_file_holds(state, file, last)) {
            return false;
        }
        if (last == NULL || t->pieces[0].source != last->pieces[0].source ||
            t->pieces[0].offset + t->nbytes > last->pieces[0].offset + last->nbytes) {
            last = t;
        }
    }
    return last == NULL || core_file_holds(state, file, last);
}

/* ---------------------------------------------------------------- owned */

typedef struct owned {
    core_memory *memory;
    PyObject *lender;
    sft_loaded *loaded;
} owned;

static bool where_owned(void *ctx, const sft_tensor *tensor, core_place *place) {
    owned *o = ctx;
    /* Memory from READ and DIRECT may be written to. */
    place->data = (unsigned char *)(uintptr_t)sft_loaded_data(o->loaded, tensor, NULL);
    place->memory = o->memory;
    place->lender = o->lender;
    if (tensor->nbytes == 0) {
        place->data = o->memory->base;
    }
    return true;
}

/* Enough for the tensors wherever they lie; unused memory is never touched. */
static bool room_for(core_file *file, const core_chosen *c, size_t *size) {
    uint64_t wanted = 0, all = 0, room;

    for (size_t i = 0; i < c->count; i++) {
        wanted += c->tensors[i]->nbytes; /* cannot overflow: they lie in files */
    }
    for (size_t i = 0; i < sft_catalog_file_count(file->catalog); i++) {
        all += sft_catalog_file_at(file->catalog, i)->size;
    }
    room = wanted + (uint64_t)c->count * RUN_SLACK;
    all += (uint64_t)sft_catalog_file_count(file->catalog) * RUN_SLACK;
    room = room < all || c->positions != NULL ? room : all;
    if (room > SIZE_MAX / 2) {
        core_no_memory(room);
        return false;
    }
    *size = (size_t)room;
    return true;
}

static PyObject *load_owned(core_state *state, core_file *file, const core_chosen *c,
                            const core_wish *wish) {
    sft_load_options options;
    sft_arena *arena = NULL;
    owned o = {NULL, NULL, NULL};
    core_watch watch;
    sft_status status;
    size_t size;
    PyObject *dict = NULL;

    if (!room_for(file, c, &size)) {
        return NULL;
    }
    o.memory = core_memory_new(state, size);
    if (o.memory == NULL) {
        return core_no_memory(size);
    }
    o.lender = core_memory_object(state, o.memory);
    if (o.lender == NULL) {
        core_memory_drop(o.memory);
        return NULL;
    }
    SFT_INIT(&options);
    options.select = c->positions;
    options.select_count = c->positions != NULL ? c->count : 0;
    options.pool = core_pool_for(state, size);
    options.strategy = wish->strategy;
    options.flags = wish->verify ? SFT_LOAD_VERIFY : 0;
    core_watch_begin(&watch, wish->progress);
    options.control = &watch.control;
    status = sft_arena_create_over(&arena, o.memory->base, o.memory->size, NULL, &watch.err);
    options.arena = arena;
    if (status == SFT_OK && c->count != 0) {
        status = sft_load(&o.loaded, file->catalog, &options, &watch.err);
    }
    if (core_watch_done(&watch, state, status, NULL)) {
        dict = fill(state, c, &wish->target, where_owned, &o);
    }
    sft_loaded_free(o.loaded);
    sft_arena_free(arena);
    Py_DECREF(o.lender);
    core_memory_drop(o.memory);
    return dict;
}

/* An alias that shows elements which do not lie in order is read by itself. */
static bool any_scattered(core_file *file, const core_chosen *c) {
    for (size_t i = 0; c->positions != NULL && i < c->count; i++) {
        if (core_is_part(file, c->tensors[i]) && c->tensors[i]->pieces[0].strides != NULL) {
            return true;
        }
    }
    return false;
}

static PyObject *load_each(core_state *state, core_file *file, const core_chosen *c,
                           const core_wish *wish) {
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict != NULL && i < c->count; i++) {
        if (!put_tensor(dict, c->tensors[i], core_load_one(state, file, c->tensors[i], wish))) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

static PyObject *load_chosen(core_state *state, core_file *file, const core_chosen *c,
                             const core_wish *wish) {
    mapped m = {state, file};
    PyObject *dict;

    if (any_scattered(file, c)) {
        return load_each(state, file, c, wish);
    }
    if (wish->owned || !all_map(file, c)) {
        return load_owned(state, file, c, wish);
    }
    if (!holds_all(state, file, c)) {
        return NULL;
    }
    dict = fill(state, c, &wish->target, where_mapped, &m);
    if (dict == NULL && PyErr_ExceptionMatches(PyExc_OSError)) {
        /* A file system that cannot map can still be read. */
        PyErr_Clear();
        dict = load_owned(state, file, c, wish);
    }
    return dict;
}

PyObject *core_load(core_state *state, core_file *file, const core_wish *wish) {
    PyObject *dict = NULL;
    core_chosen c;

    if (wish->target.framework == CORE_TORCH && !core_torch_ready(state)) {
        return NULL;
    }
    if (core_choose(state, file, wish->names, &c)) {
        dict = load_chosen(state, file, &c, wish);
    }
    core_chosen_free(&c);
    return dict;
}

PyObject *core_load_placed(core_state *state, core_file *file, core_framework framework,
                           core_where where, void *ctx) {
    const core_target target = {framework, NULL};
    PyObject *dict;
    core_chosen c;

    if (framework == CORE_TORCH && !core_torch_ready(state)) {
        return NULL;
    }
    dict = core_choose(state, file, NULL, &c) ? fill(state, &c, &target, where, ctx) : NULL;
    core_chosen_free(&c);
    return dict;
}

PyObject *core_load_one(core_state *state, core_file *file, const sft_tensor *tensor,
                        const core_wish *wish) {
    core_place place = {NULL, NULL, NULL};
    sft_read_options options;
    core_watch watch;
    sft_status status;
    PyObject *result = NULL;

    if (tensor->nbytes > SIZE_MAX / 2 ||
        (place.memory = core_memory_new(state, (size_t)tensor->nbytes)) == NULL) {
        return core_no_memory(tensor->nbytes);
    }
    place.data = place.memory->base;
    SFT_INIT(&options);
    options.pool = core_pool_for(state, tensor->nbytes);
    core_watch_begin(&watch, wish->progress);
    options.control = &watch.control;
    status = sft_tensor_read(file->catalog, tensor, &options, place.data, place.memory->size,
                             &watch.err);
    if (core_watch_done(&watch, state, status, NULL)) {
        result =
            core_tensor(state, &wish->target, tensor->dtype, tensor->shape, tensor->rank, &place);
    }
    core_memory_drop(place.memory);
    return result;
}
