/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * handle.c - safe_open: the methods of an open file (handle_open.c opens it). Every method holds a reference to
 * the file while it runs, so another thread may close the handle meanwhile. Read core.h first.
 */
#include "core.h"

static void handle_dealloc(PyObject *self) {
    core_handle *h = (core_handle *)self;

    core_file_drop(h->file);
    Py_XDECREF(h->source);
    Py_XDECREF(h->where);
    Py_XDECREF(h->device);
    Py_XDECREF(h->backend);
    Py_XDECREF(h->how);
    core_object_free(self);
}

/* The file with a count of one more; NULL without an exception when it is closed. */
static core_file *file_of(core_handle *h) {
    core_file *file;

    CORE_BEGIN_LOCKED(h);
    file = h->file != NULL ? core_file_keep(h->file) : NULL;
    CORE_END_LOCKED();
    return file;
}

core_file *core_handle_file(core_handle *h) {
    core_file *file = file_of(h);

    if (file == NULL) {
        core_raise_text(h->state, SFT_E_STATE, NULL, "File is closed");
    }
    return file;
}

static PyObject *handle_close(PyObject *self, PyObject *ignored) {
    core_handle *h = (core_handle *)self;
    core_file *file;

    (void)ignored;
    CORE_BEGIN_LOCKED(h);
    file = h->file;
    h->file = NULL;
    CORE_END_LOCKED();
    core_file_drop(file);
    Py_RETURN_NONE;
}

static PyObject *handle_exit(PyObject *self, PyObject *args) {
    PyObject *type, *value, *traceback;

    return PyArg_UnpackTuple(args, "__exit__", 3, 3, &type, &value, &traceback)
               ? handle_close(self, NULL)
               : NULL;
}

static PyObject *get_closed(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(((core_handle *)self)->file == NULL);
}

/* ---------------------------------------------------------------- names */

/* The result of `work`, which asks the open file for something. */
static PyObject *on_file(PyObject *self, PyObject *(*work)(core_file *file)) {
    core_file *file = core_handle_file((core_handle *)self);
    PyObject *result = file != NULL ? work(file) : NULL;

    core_file_drop(file);
    return result;
}

static PyObject *names(core_file *file) {
    const size_t count = sft_catalog_count(file->catalog);
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *name = core_name(sft_catalog_at(file->catalog, i));
        if (name == NULL || PyList_SetItem(list, (Py_ssize_t)i, name) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *handle_offset_keys(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return on_file(self, names);
}

static PyObject *handle_keys(PyObject *self, PyObject *ignored) {
    PyObject *list = handle_offset_keys(self, ignored);

    if (list != NULL && PyList_Sort(list) < 0) {
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *handle_iter(PyObject *self) {
    PyObject *list = handle_keys(self, NULL);
    PyObject *iterator = list != NULL ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static Py_ssize_t handle_length(PyObject *self) {
    core_file *file = core_handle_file((core_handle *)self);
    Py_ssize_t count = file != NULL ? (Py_ssize_t)sft_catalog_count(file->catalog) : -1;
    core_file_drop(file);
    return count;
}

static int handle_contains(PyObject *self, PyObject *name) {
    core_file *file = core_handle_file((core_handle *)self);
    int result = -1;

    if (file != NULL) {
        Py_ssize_t len = 0;
        const char *utf8 = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &len) : NULL;
        PyErr_Clear();
        result = utf8 != NULL && sft_catalog_find(file->catalog, utf8, (size_t)len) != NULL;
        core_file_drop(file);
    }
    return result;
}

static bool add_metadata(core_file *file, size_t index, PyObject *dict) {
    size_t count = sft_catalog_metadata_count(file->catalog, index);

    for (size_t i = 0; i < count; i++) {
        const char *key, *value;
        size_t key_len, value_len;
        PyObject *k, *v;
        bool done;
        if (sft_catalog_metadata_at(file->catalog, index, i, &key, &key_len, &value, &value_len) !=
            SFT_OK) {
            break;
        }
        k = PyUnicode_FromStringAndSize(key, (Py_ssize_t)key_len);
        v = PyUnicode_FromStringAndSize(value, (Py_ssize_t)value_len);
        /* If several files have a key, the first one counts. */
        done = k != NULL && v != NULL;
        if (done) {
            int there = PyDict_Contains(dict, k);
            done = there > 0 || (there == 0 && PyDict_SetItem(dict, k, v) == 0);
        }
        Py_XDECREF(k);
        Py_XDECREF(v);
        if (!done) {
            return false;
        }
    }
    return true;
}

static PyObject *metadata(core_file *file) {
    PyObject *dict = NULL;

    for (size_t i = 0; i < sft_catalog_file_count(file->catalog); i++) {
        if (!sft_catalog_file_at(file->catalog, i)->has_metadata) {
            continue;
        }
        if (dict == NULL && (dict = PyDict_New()) == NULL) {
            break;
        }
        if (!add_metadata(file, i, dict)) {
            Py_CLEAR(dict);
            break;
        }
    }
    if (dict == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return dict;
}

static PyObject *handle_metadata(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return on_file(self, metadata);
}

/* ---------------------------------------------------------------- tensors */

static PyObject *one(core_handle *h, core_file *file, const sft_tensor *tensor) {
    core_wish wish = {{h->framework, h->device}, NULL, NULL, true, SFT_STRATEGY_AUTO, false};
    core_place place;
    const int mapped = h->owned ? 0 : core_mapped(h->state, file, tensor, &place);

    if (mapped <= 0) {
        return mapped < 0 ? NULL : core_load_one(h->state, file, tensor, &wish);
    }
    return core_tensor(h->state, &wish.target, tensor->dtype, tensor->shape, tensor->rank, &place);
}

/* The result of `work` on the tensor whose name is the only argument of `function`. */
static PyObject *on_tensor(PyObject *self, const char *function, PyObject *args, PyObject *kwargs,
                           PyObject *(*work)(core_handle *h, core_file *file,
                                             const sft_tensor *tensor)) {
    static const char *const parameters[] = {"name"};
    const core_signature signature = {function, parameters, 1, 1, 1};
    core_handle *h = (core_handle *)self;
    PyObject *name, *result = NULL;
    const sft_tensor *tensor;
    core_file *file;

    if (!core_parse(&signature, args, kwargs, &name)) {
        return NULL;
    }
    file = core_handle_file(h);
    tensor = file != NULL ? core_find(h->state, file, name) : NULL;
    if (tensor != NULL) {
        result = work(h, file, tensor);
    }
    core_file_drop(file);
    return result;
}

static PyObject *handle_get_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    return on_tensor(self, "safe_open.get_tensor", args, kwargs, one);
}

static PyObject *handle_get_slice(PyObject *self, PyObject *args, PyObject *kwargs) {
    return on_tensor(self, "safe_open.get_slice", args, kwargs, core_slice_new);
}

static PyObject *meta(core_handle *h, core_file *file, const sft_tensor *tensor) {
    return core_meta_new(h->state, file, tensor);
}

static PyObject *handle_get_tensor_meta(PyObject *self, PyObject *args, PyObject *kwargs) {
    return on_tensor(self, "safe_open.get_tensor_meta", args, kwargs, meta);
}

static PyObject *handle_subscript(PyObject *self, PyObject *name) {
    core_file *file = core_handle_file((core_handle *)self);
    const sft_tensor *tensor;
    PyObject *result = NULL;
    Py_ssize_t len = 0;
    const char *utf8;

    if (file == NULL) {
        return NULL;
    }
    utf8 = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    tensor = utf8 != NULL ? sft_catalog_find(file->catalog, utf8, (size_t)len) : NULL;
    if (tensor != NULL) {
        result = one((core_handle *)self, file, tensor);
    } else if (!PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, name);
    }
    core_file_drop(file);
    return result;
}

static PyObject *handle_get(PyObject *self, PyObject *args) {
    PyObject *name, *fallback = Py_None;
    int there;

    if (!PyArg_ParseTuple(args, "O|O:get", &name, &fallback)) {
        return NULL;
    }
    there = handle_contains(self, name);
    if (there < 0) {
        return NULL;
    }
    return there ? handle_subscript(self, name) : Py_NewRef(fallback);
}

static const char *const strategies[] = {"auto", "map", "read", "direct", NULL};

static PyObject *handle_get_tensors(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"names", "owned", "strategy", "progress", "verify"};
    static const core_signature signature = {"safe_open.get_tensors", parameters, 5, 1, 0};
    core_handle *h = (core_handle *)self;
    core_wish wish = {{h->framework, h->device}, NULL, NULL, h->owned, SFT_STRATEGY_AUTO, false};
    PyObject *values[5], *result;
    core_file *file;

    if (!core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    wish.names = core_none(values[0]);
    wish.progress = core_none(values[3]);
    if (core_none(values[1]) != NULL && !core_truth(values[1], &wish.owned)) {
        return NULL;
    }
    if (core_none(values[2]) != NULL) {
        const int strategy = core_one_of(values[2], "strategy", "strategy", strategies);
        if (strategy < 0) {
            return NULL;
        }
        wish.strategy = strategy == 1 ? SFT_STRATEGY_AUTO : (sft_strategy)strategy;
        wish.owned = strategy != 1 && (strategy != 0 || wish.owned);
    }
    if (!core_truth(values[4], &wish.verify)) {
        return NULL;
    }
    file = core_handle_file(h);
    if (file == NULL) {
        return NULL;
    }
    wish.owned = wish.owned || wish.verify || (file->bytes != NULL && file->bytes->readonly);
    result = core_load(h->state, file, &wish);
    core_file_drop(file);
    return result;
}

static PyObject *handle_load_into(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"tensors", "progress", "verify"};
    static const core_signature signature = {"safe_open.load_into", parameters, 3, 1, 1};
    core_handle *h = (core_handle *)self;
    PyObject *values[3], *result;
    core_file *file;
    bool verify;

    if (!core_parse(&signature, args, kwargs, values) || !core_truth(values[2], &verify)) {
        return NULL;
    }
    file = core_handle_file(h);
    if (file == NULL) {
        return NULL;
    }
    result = core_load_into(h->state, file, values[0], core_none(values[1]), verify);
    core_file_drop(file);
    return result;
}

/* ---------------------------------------------------------------- reports */

static PyObject *explain(core_file *file, size_t index, sft_strategy wanted, core_state *state) {
    sft_strategy_choice choice;
    sft_status status;
    sft_error err;

    Py_BEGIN_ALLOW_THREADS status =
        sft_strategy_choose(file->catalog, index, wanted, &choice, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        return core_raise(state, &err, NULL);
    }
    return Py_BuildValue("{s:N,s:s,s:i,s:s,s:s}", "path",
                         PyUnicode_DecodeFSDefault(sft_catalog_file_at(file->catalog, index)->path),
                         "strategy", strategies[choice.strategy], "cached", (int)choice.cached,
                         "file_system", choice.file_system, "reason", choice.reason);
}

static PyObject *handle_explain(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"strategy"};
    static const core_signature signature = {"safe_open.explain", parameters, 1, 1, 0};
    core_handle *h = (core_handle *)self;
    PyObject *value, *list;
    core_file *file;
    int wanted = 0;

    if (!core_parse(&signature, args, kwargs, &value)) {
        return NULL;
    }
    if (value != NULL && (wanted = core_one_of(value, "strategy", "strategy", strategies)) < 0) {
        return NULL;
    }
    file = core_handle_file(h);
    if (file == NULL) {
        return NULL;
    }
    list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < sft_catalog_file_count(file->catalog); i++) {
        PyObject *item = explain(file, i, (sft_strategy)wanted, h->state);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    core_file_drop(file);
    return list;
}

/* Compares recorded digests; a dict of counts, or SafetensorError with the first damaged tensor. */
static PyObject *handle_verify(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"progress"};
    static const core_signature signature = {"safe_open.verify", parameters, 1, 0, 0};
    core_handle *h = (core_handle *)self;
    sft_verify_options options;
    sft_verify_result counts;
    core_watch watch;
    sft_status status;
    PyObject *progress, *result = NULL;
    core_file *file;

    if (!core_parse(&signature, args, kwargs, &progress) || (file = core_handle_file(h)) == NULL) {
        return NULL;
    }
    SFT_INIT(&options);
    options.pool = core_pool(h->state);
    core_watch_begin(&watch, core_none(progress));
    options.control = &watch.control;
    status = sft_catalog_verify(file->catalog, &options, &counts, &watch.err);
    if (core_watch_done(&watch, h->state, status, NULL)) {
        result = Py_BuildValue("{s:K,s:K}", "checked", (unsigned long long)counts.checked,
                               "unlisted", (unsigned long long)counts.unlisted);
    }
    core_file_drop(file);
    return result;
}

static PyObject *handle_stream(PyObject *self, PyObject *args, PyObject *kwargs) {
    core_handle *h = (core_handle *)self;
    core_file *file = core_handle_file(h);
    PyObject *stream;

    if (file == NULL) {
        return NULL;
    }
    stream = core_stream_new(h, file, args, kwargs);
    core_file_drop(file);
    return stream;
}

/* prefetch(plan=None, *, device=None, threads=8): Python's part, with the framework and the device. */
static PyObject *handle_prefetch(PyObject *self, PyObject *args, PyObject *kwargs) {
    core_handle *h = (core_handle *)self;
    PyObject *start = core_import_attribute("safetensors_c._prefetch", "start");
    PyObject *first = NULL, *all = NULL, *result = NULL;

    if (start == NULL) {
        return NULL;
    }
    first = h->device != NULL
                ? Py_BuildValue("(OsO)", self, core_framework_name[h->framework], h->device)
                : Py_BuildValue("(Oss)", self, core_framework_name[h->framework], "cpu");
    all = first != NULL ? PySequence_Concat(first, args) : NULL;
    result = all != NULL ? PyObject_Call(start, all, kwargs) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(first);
    Py_DECREF(start);
    return result;
}

static PyObject *handle_items(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return core_view_new(((core_handle *)self)->state, self, 1);
}

static PyObject *handle_values(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return core_view_new(((core_handle *)self)->state, self, 0);
}

static PyObject *handle_reduce(PyObject *self, PyObject *ignored) {
    core_handle *h = (core_handle *)self;
    PyObject *function, *stamps;

    (void)ignored;
    if (h->file == NULL) {
        return core_raise_text(h->state, SFT_E_STATE, NULL, "File is closed");
    }
    if (!PyUnicode_Check(h->source) && !PyBytes_Check(h->source)) {
        PyErr_SetString(PyExc_TypeError,
                        PyTuple_Check(h->source)
                            ? "a handle over a checkpoint cannot be pickled"
                            : "a handle over a file object or a buffer cannot be pickled");
        return NULL;
    }
    function = core_import_attribute("safetensors_c._core", "_reopen");
    stamps = function != NULL ? core_handle_stamps(h->file) : NULL;
    if (stamps == NULL) {
        Py_XDECREF(function);
        return NULL;
    }
    return Py_BuildValue("N(OsOOON)", function, h->where != NULL ? h->where : h->source,
                         core_framework_name[h->framework], h->device != NULL ? h->device : Py_None,
                         h->backend, h->how != NULL ? h->how : Py_None, stamps);
}

/* copy.copy and copy.deepcopy: another handle on the open file, whatever happened to the path. */
static PyObject *handle_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return core_handle_again((core_handle *)self);
}

static PyObject *handle_repr(PyObject *self) {
    core_handle *h = (core_handle *)self;
    core_file *file = file_of(h);
    PyObject *result;

    if (file == NULL) {
        return PyUnicode_FromString("<safe_open, closed>");
    }
    result =
        PyUnicode_FromFormat("<safe_open %R, %zu tensors, framework %s>",
                             PyUnicode_Check(h->source) ? h->source
                             : PyTuple_Check(h->source) ? PyTuple_GetItem(h->source, 0)
                                                        : (PyObject *)Py_TYPE(h->source),
                             sft_catalog_count(file->catalog), core_framework_name[h->framework]);
    core_file_drop(file);
    return result;
}

/* What notebooks show. */
static PyObject *handle_html(PyObject *self, PyObject *ignored) {
    PyObject *module = PyImport_ImportModule("safetensors_c._report");
    PyObject *result =
        module != NULL ? PyObject_CallMethod(module, "handle_html", "O", self) : NULL;

    (void)ignored;
    Py_XDECREF(module);
    return result;
}

static PyMethodDef handle_methods[] = {
    {"keys", handle_keys, METH_NOARGS, "Names of the tensors, sorted."},
    {"offset_keys", handle_offset_keys, METH_NOARGS,
     "Names of the tensors, by their place in the file."},
    {"metadata", handle_metadata, METH_NOARGS, "The texts of __metadata__, or None."},
    {"get_tensor", CORE_METHOD(handle_get_tensor), CORE_KEYWORDS, "The tensor of that name."},
    {"get_tensors", CORE_METHOD(handle_get_tensors), CORE_KEYWORDS,
     "All tensors, or those named, as a dict. owned=True: in memory of their own. verify=True: so, "
     "and compared with the recorded digests on the way."},
    {"get_slice", CORE_METHOD(handle_get_slice), CORE_KEYWORDS,
     "A tensor to be sliced before it is read."},
    {"get_tensor_meta", CORE_METHOD(handle_get_tensor_meta), CORE_KEYWORDS,
     "dtype, shape and place of a tensor; reads nothing."},
    {"load_into", CORE_METHOD(handle_load_into), CORE_KEYWORDS,
     "Reads tensors into those of a dict, casting where types differ; verify=True: and compares "
     "with the recorded digests."},
    {"explain", CORE_METHOD(handle_explain), CORE_KEYWORDS,
     "How each file would be read, and why."},
    {"verify", CORE_METHOD(handle_verify), CORE_KEYWORDS, "Compares the recorded digests."},
    {"stream", CORE_METHOD(handle_stream), CORE_KEYWORDS,
     "stream(names=None, *, order='file', memory=None, slices=None, verify=False): pairs (name, "
     "tensor), read ahead within so many bytes of memory."},
    {"prefetch", CORE_METHOD(handle_prefetch), CORE_KEYWORDS,
     "prefetch(plan=None, *, device=None, threads=8): tensors loading to a CUDA device in the "
     "background."},
    {"items", handle_items, METH_NOARGS, "Pairs (name, tensor), made one by one."},
    {"values", handle_values, METH_NOARGS, "Tensors, made one by one."},
    {"get", handle_get, METH_VARARGS, "The tensor of that name, or the default."},
    {"close", handle_close, METH_NOARGS, "Closes the file. Tensors stay."},
    {"_repr_html_", handle_html, METH_NOARGS, "A table of its tensors, for notebooks."},
    {"__enter__", core_enter, METH_NOARGS, NULL},
    {"__exit__", handle_exit, METH_VARARGS, NULL},
    {"__reduce__", handle_reduce, METH_NOARGS, NULL},
    {"__copy__", handle_copy, METH_NOARGS, NULL},
    {"__deepcopy__", handle_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef handle_getset[] = {
    {"closed", get_closed, NULL, "Whether it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, (void *)"safe_open(filename, framework, device='cpu', *, backend='mmap')\n--\n\n"
                        "Opens a file, an index, a directory of shards, bytes or a file object."},
    {Py_tp_new, (void *)core_handle_tp_new},
    {Py_tp_dealloc, (void *)handle_dealloc},
    {Py_tp_repr, (void *)handle_repr},
    {Py_tp_iter, (void *)handle_iter},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_mp_length, (void *)handle_length},
    {Py_mp_subscript, (void *)handle_subscript},
    {Py_sq_contains, (void *)handle_contains},
    {Py_nb_bool, (void *)core_always},
    {0, NULL},
};

PyType_Spec core_handle_spec = {
    .name = "safetensors_c.safe_open",
    .basicsize = sizeof(core_handle),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = handle_slots,
};
