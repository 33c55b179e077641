/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * foreign.c - weight files of other formats: open_any and conversions. Nothing of a file is executed. Read
 * core.h first.
 */
#include "core.h"
#include <sft/import.h>

#include <stdlib.h>

#define WARNINGS_MAX 8

/* ---------------------------------------------------------------- how to read */

static const char *const dedups[] = {"hf", "first", "keep", "error", "alias", NULL};

static const struct {
    const char *name;
    uint32_t flag;
} switches[] = {
    {"allow_opaque", SFT_IMPORT_ALLOW_OPAQUE}, {"no_crc", SFT_IMPORT_NO_CRC},
    {"checksums", SFT_IMPORT_CHECKSUMS},       {"follow_links", SFT_IMPORT_FOLLOW_LINKS},
    {"dequantize", SFT_IMPORT_DEQUANTIZE},     {"tree", SFT_IMPORT_KEEP_TREE},
};
#define SWITCHES ((Py_ssize_t)(sizeof switches / sizeof switches[0]))
#define READ_PARAMETERS                                                                            \
    "key", "dedup", "allow_opaque", "no_crc", "checksums", "follow_links", "dequantize", "tree",   \
        "view_as"
#define READ_COUNT (3 + SWITCHES)

/* "BF16", "bfloat16", torch.bfloat16, numpy.float16 and numpy.dtype("float16"), by name; NULL: an exception is set. */
static const sft_dtype *named_dtype(PyObject *value) {
    const sft_dtype *found = NULL;
    PyObject *name = PyUnicode_Check(value)
                         ? Py_NewRef(value)
                         : PyObject_GetAttrString(value, PyType_Check(value) ? "__name__" : "name");
    Py_ssize_t len = 0;
    const char *text;

    if (name == NULL) {
        PyErr_Clear();
        name = PyObject_Str(value);
    }
    text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    if (text != NULL) {
        const char *dot = strrchr(text, '.'); /* torch.bfloat16 */
        const char *last = dot != NULL ? dot + 1 : text;
        char upper[32] = "";
        len -= last - text;
        found = core_dtype_by_name(last, len);
        for (Py_ssize_t i = 0; found == NULL && i < len && len < (Py_ssize_t)sizeof upper; i++) {
            upper[i] = (char)(last[i] >= 'a' && last[i] <= 'z' ? last[i] - 0x20 : last[i]);
        }
        found = found == NULL ? sft_dtype_find(upper, strlen(upper)) : found;
    }
    Py_XDECREF(name);
    if (found == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "unknown dtype %R", value);
    }
    return found;
}

/* {glob: type} as a list of (glob, the format's word); an empty one for None. New reference. */
static PyObject *read_views(PyObject *value) {
    PyObject *list = PyList_New(0), *items = NULL;

    if (list == NULL || value == NULL || value == Py_None) {
        return list;
    }
    items = PyMapping_Check(value) && !PyUnicode_Check(value) ? PyMapping_Items(value) : NULL;
    if (items == NULL) {
        PyErr_Clear();
        Py_DECREF(list);
        return core_wrong_type("view_as", value, "Mapping[str, dtype]");
    }
    for (Py_ssize_t i = 0; list != NULL && i < PyList_Size(items); i++) {
        PyObject *glob, *type, *one = NULL;
        const sft_dtype *dtype;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "UO", &glob, &type) ||
            (dtype = named_dtype(type)) == NULL ||
            (one = Py_BuildValue("(Os)", glob, dtype->name)) == NULL ||
            PyList_Append(list, one) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(one);
    }
    Py_DECREF(items);
    return list;
}

/* (key, dedup, flags, views) of the READ_PARAMETERS: what a pickled handle keeps. New reference. */
static PyObject *read_parameters(PyObject **v) {
    PyObject *key = v[0] != NULL ? v[0] : Py_None, *views;
    uint32_t flags = 0;
    int dedup = 0;

    if (key != Py_None && !PyUnicode_Check(key)) {
        return core_wrong_type("key", key, "str");
    }
    if (v[1] != NULL && (dedup = core_choice(v[1], "dedup", dedups)) < 0) {
        if (dedup == -1) {
            PyErr_Format(PyExc_ValueError, "dedup %R is none of: hf, first, keep, error, alias",
                         v[1]);
        }
        return NULL;
    }
    for (Py_ssize_t i = 0; i < SWITCHES; i++) {
        int on = v[2 + i] != NULL ? PyObject_IsTrue(v[2 + i]) : 0;
        if (on < 0) {
            return NULL;
        }
        flags |= on ? switches[i].flag : 0;
    }
    views = read_views(v[2 + SWITCHES]);
    return views != NULL ? Py_BuildValue("(OiIN)", key, dedup, (unsigned int)flags, views) : NULL;
}

/* What tensors are taken for while a file is opened, by a thread that gave the GIL away. */
typedef struct viewing {
    PyThreadState **thread;
    PyObject *views; /* of read_parameters: borrowed */
    PyObject *match; /* fnmatch.fnmatchcase */
    char *met;       /* by view: it fits a tensor */
} viewing;

static bool match_views(viewing *v, const sft_tensor *t, const sft_dtype **dtype) {
    PyObject *name = PyUnicode_DecodeUTF8(t->name, (Py_ssize_t)t->name_len, "backslashreplace");
    bool good = name != NULL;

    for (Py_ssize_t i = 0; good && i < PyList_Size(v->views); i++) {
        PyObject *glob, *answer = NULL;
        const char *type;
        good = PyArg_ParseTuple(PyList_GetItem(v->views, i), "Os", &glob, &type) != 0 &&
               (answer = PyObject_CallFunctionObjArgs(v->match, name, glob, NULL)) != NULL;
        if (good && answer == Py_True) {
            *dtype = sft_dtype_find(type, strlen(type)); /* the last one counts, as in the tool */
            v->met[i] = 1;
        }
        Py_XDECREF(answer);
    }
    Py_XDECREF(name);
    return good;
}

static sft_status view_as(void *ctx, const sft_tensor *tensor, const sft_dtype **dtype,
                          sft_error *err) {
    viewing *v = ctx;
    bool good;

    PyEval_RestoreThread(*v->thread);
    good = match_views(v, tensor, dtype);
    *v->thread = PyEval_SaveThread();
    return good ? SFT_OK : sft_error_set(err, SFT_E_CANCELLED, 0, "cancelled");
}

static bool view_begin(viewing *v, PyObject *views, PyThreadState **thread,
                       sft_import_options *options) {
    PyObject *module;

    *v = (viewing){.thread = thread, .views = views};
    if (views == NULL || PyList_Size(views) == 0) {
        return true;
    }
    module = PyImport_ImportModule("fnmatch");
    v->match = module != NULL ? PyObject_GetAttrString(module, "fnmatchcase") : NULL;
    v->met = v->match != NULL ? calloc((size_t)PyList_Size(views), 1) : NULL;
    Py_XDECREF(module);
    if (v->met == NULL) {
        Py_CLEAR(v->match);
        return PyErr_Occurred() == NULL && core_no_memory(0) != NULL;
    }
    options->view_as = view_as;
    options->view_ctx = v;
    return true;
}

/* told: what fits no tensor is. */
static bool view_end(viewing *v, bool told, const char *name) {
    bool good = true;

    for (Py_ssize_t i = 0; told && good && v->met != NULL && i < PyList_Size(v->views); i++) {
        if (v->met[i] == 0) {
            good = PyErr_WarnFormat(PyExc_UserWarning, 1,
                                    "%s: view_as %R fits no tensor whose type may be told", name,
                                    PyTuple_GetItem(PyList_GetItem(v->views, i), 0)) == 0;
        }
    }
    free(v->met);
    Py_XDECREF(v->match);
    return good;
}

/* The options borrow from the tuple. */
static bool read_options(PyObject *how, sft_import_options *options, PyObject **views) {
    PyObject *key;
    unsigned int flags;
    int dedup;

    SFT_INIT(options);
    *views = NULL; /* handles that were pickled before there were any have none */
    if (!PyArg_ParseTuple(how, "OiI|O!", &key, &dedup, &flags, &PyList_Type, views)) {
        return false;
    }
    options->key = key != Py_None ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    options->dedup = (sft_import_dedup)dedup;
    options->flags = flags;
    return key == Py_None || options->key != NULL;
}

/* ---------------------------------------------------------------- opening */

static bool warn_one(const char *name, const sft_finding *f) {
    char subject[300];

    (void)sft_escape(subject, sizeof subject, f->subject, strlen(f->subject));
    return PyErr_WarnFormat(PyExc_UserWarning, 1, "%s: %s%s%s%s", name,
                            f->kind == SFT_FINDING_LEFT_OUT ? "left out: " : "", subject,
                            subject[0] != 0 ? ": " : "", f->message) == 0;
}

/* What is not in the catalog is told, not swallowed; and what is in it more than once. */
static bool warn_all(const sft_import_report *report, const char *name) {
    size_t left = 0;

    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        const bool shared = f->kind == SFT_FINDING_NOTE && strcmp(f->rule, "shared") == 0;
        if ((shared && !warn_one(name, f)) ||
            (f->kind == SFT_FINDING_LEFT_OUT && left++ < WARNINGS_MAX && !warn_one(name, f))) {
            return false;
        }
    }
    return left <= WARNINGS_MAX || PyErr_WarnFormat(PyExc_UserWarning, 1, "%s: left out: %zu more",
                                                    name, left - WARNINGS_MAX) == 0;
}

bool core_foreign_open(core_state *state, sft_catalog **out, sft_source *source, const char *path,
                       PyObject *how) {
    sft_import_report *report = NULL;
    sft_import_options options;
    PyThreadState *thread;
    PyObject *views;
    sft_status status;
    sft_error err;
    viewing v;
    bool done;

    *out = NULL;
    if (!read_options(how, &options, &views) || !view_begin(&v, views, &thread, &options)) {
        sft_source_close(source);
        return false;
    }
    thread = PyEval_SaveThread();
    status = source != NULL ? sft_import_open_source(out, source, &options, &report, &err)
                            : sft_import_open(out, path, &options, &report, &err);
    PyEval_RestoreThread(thread);
    done = view_end(&v, status == SFT_OK, path);
    if (status != SFT_OK) {
        if (PyErr_Occurred() == NULL) { /* of fnmatch, of a signal */
            core_raise_plain(state, &err);
        }
        return false;
    }
    done = done && warn_all(report, path);
    sft_import_report_free(report);
    if (!done) {
        sft_catalog_close(*out);
        *out = NULL;
    }
    return done;
}

PyObject *core_open_any(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"filename", "framework", "device", "backend",
                                             READ_PARAMETERS};
    static const core_signature signature = {"open_any", parameters, 4 + READ_COUNT, 3, 1};
    PyObject *values[4 + READ_COUNT], *framework = NULL, *how, *result = NULL;

    if (!core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    how = read_parameters(values + 4);
    if (how != NULL && values[1] == NULL) {
        values[1] = framework = PyUnicode_FromString("pt");
    }
    if (how != NULL && values[1] != NULL) {
        result = core_handle_new(core_state_of(module), values, how);
    }
    Py_XDECREF(framework);
    Py_XDECREF(how);
    return result;
}

/* ---------------------------------------------------------------- converting */

typedef struct converting {
    core_state *state;
    core_watch watch;
    PyObject *choose; /* NULL: everything as it is */
    PyObject *names;  /* list: texts that items point into */
    PyObject *plan;   /* list; NULL: none is wanted */
    sft_import_report
        *lost; /* what another format has no room for; NULL: safetensors are written */
} converting;

/* (name, dtype or None), None to leave it out. */
static bool chosen(converting *k, sft_import_item *item, PyObject *answer) {
    PyObject *name, *dtype;
    Py_ssize_t len;

    if (answer == Py_None) {
        item->take = 0;
        return true;
    }
    if (!PyArg_ParseTuple(answer, "UO", &name, &dtype) || PyList_Append(k->names, name) < 0) {
        return false;
    }
    item->name = PyUnicode_AsUTF8AndSize(name, &len);
    if (item->name == NULL) {
        return false;
    }
    item->name_len = (size_t)len;
    if (dtype != Py_None) {
        const char *text = PyUnicode_Check(dtype) ? PyUnicode_AsUTF8AndSize(dtype, &len) : NULL;
        item->dtype = text != NULL ? core_dtype_by_name(text, len) : NULL;
        if (item->dtype == NULL) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "unknown dtype %R", dtype);
            return false;
        }
    }
    return true;
}

/* The next three run in the caller's thread, which gave the GIL away. */
static sft_status choose(void *ctx, sft_import_item *item, sft_error *err) {
    converting *k = ctx;
    const sft_tensor *t = item->tensor;
    PyObject *shape, *name, *answer = NULL;

    PyEval_RestoreThread(k->watch.thread);
    shape = core_shape_tuple(t->shape, t->rank);
    name = PyUnicode_FromStringAndSize(item->name, (Py_ssize_t)item->name_len);
    if (shape != NULL && name != NULL) {
        answer = PyObject_CallFunction(k->choose, "OsOi", name, t->dtype->name, shape,
                                       (int)(t->dtype->kind == SFT_KIND_FLOAT));
    }
    k->watch.failed = answer == NULL || !chosen(k, item, answer);
    Py_XDECREF(answer);
    Py_XDECREF(name);
    Py_XDECREF(shape);
    k->watch.thread = PyEval_SaveThread();
    return k->watch.failed ? sft_error_set(err, SFT_E_CANCELLED, 0, "cancelled") : SFT_OK;
}

static void planned(void *ctx, const sft_import_item *item) {
    converting *k = ctx;
    const sft_tensor *t = item->tensor;
    PyObject *shape, *one = NULL;

    PyEval_RestoreThread(k->watch.thread);
    shape = k->watch.failed ? NULL : core_shape_list(t->shape, t->rank);
    if (shape != NULL) {
        one = Py_BuildValue("{s:s#,s:s,s:N,s:K,s:s#,s:s,s:I}", "name", item->name,
                            (Py_ssize_t)item->name_len, "dtype", item->dtype->name, "shape", shape,
                            "nbytes", (unsigned long long)item->nbytes, "from_name", t->name,
                            (Py_ssize_t)t->name_len, "from_dtype", t->dtype->name, "file",
                            (unsigned int)item->file);
    }
    k->watch.failed = one == NULL || PyList_Append(k->plan, one) < 0;
    Py_XDECREF(one);
    k->watch.thread = PyEval_SaveThread();
}

static sft_status open_url(void *ctx, const char *input, sft_source **out, sft_error *err) {
    converting *k = ctx;

    if (!core_is_url(input)) {
        return SFT_OK;
    }
    PyEval_RestoreThread(k->watch.thread);
    k->watch.failed = !core_remote_source(k->state, out, input);
    k->watch.thread = PyEval_SaveThread();
    return k->watch.failed ? sft_error_set(err, SFT_E_CANCELLED, 0, "cancelled") : SFT_OK;
}

/* ---------------------------------------------------------------- the call */

enum {
    TO_INPUTS,
    TO_OUTPUT,
    TO_FORMAT,
    TO_CHOOSE,
    TO_METADATA,
    TO_SHARD,
    TO_PLAN,
    TO_REPLACE,
    TO_VERIFY,
    TO_DURABLE,
    TO_PROGRESS,
    TO_COUNT
};
static const char *const formats[] = {"safetensors", "npz", "gguf", "pt", "ckpt", NULL};
static const uint32_t format_ids[] = {SFT_IMPORT_SAFETENSORS, SFT_IMPORT_NPZ, SFT_IMPORT_GGUF,
                                      SFT_IMPORT_TORCH_ZIP, SFT_IMPORT_MINDSPORE};

typedef struct wanted {
    const char **inputs;
    Py_ssize_t count;
    const char *output;
    core_metadata texts;
    uint64_t shard;
    uint32_t format;
    uint32_t flags;
    bool durable;
    PyObject *how;
} wanted;

static bool switch_on(PyObject *value, uint32_t flag, uint32_t *flags) {
    int on = value != NULL ? PyObject_IsTrue(value) : 0;
    *flags |= on > 0 ? flag : 0;
    return on >= 0;
}

static bool read_inputs(PyObject *list, wanted *w) {
    w->count = PyList_Size(list);
    if (w->count < 0) {
        return false;
    }
    w->inputs = calloc((size_t)w->count + 1, sizeof *w->inputs);
    if (w->inputs == NULL) {
        core_no_memory(0);
        return false;
    }
    for (Py_ssize_t i = 0; i < w->count; i++) {
        PyObject *one = PyList_GetItem(list, i);
        w->inputs[i] = PyUnicode_Check(one) ? PyUnicode_AsUTF8AndSize(one, NULL) : NULL;
        if (w->inputs[i] == NULL) {
            return PyErr_Occurred() == NULL && core_wrong_type("inputs", one, "str") != NULL;
        }
    }
    return true;
}

static bool read_wanted(PyObject **v, wanted *w) {
    uint32_t durable = 0;
    int format;

    memset(w, 0, sizeof *w);
    if (!read_inputs(v[TO_INPUTS], w)) {
        return false;
    }
    w->output = PyUnicode_AsUTF8AndSize(v[TO_OUTPUT], NULL);
    format = core_choice(v[TO_FORMAT], "to", formats);
    if (format == -1) {
        PyErr_Format(PyExc_ValueError, "to %R is none of: safetensors, npz, gguf, pt, ckpt",
                     v[TO_FORMAT]);
    }
    if (w->output == NULL || format < 0 || !core_metadata_read(v[TO_METADATA], &w->texts) ||
        !core_u64(v[TO_SHARD], &w->shard) || !switch_on(v[TO_PLAN], SFT_CONVERT_PLAN, &w->flags) ||
        !switch_on(v[TO_REPLACE], SFT_CONVERT_REPLACE, &w->flags) ||
        !switch_on(v[TO_VERIFY], SFT_CONVERT_VERIFY, &w->flags) ||
        !switch_on(v[TO_DURABLE], 1, &durable)) {
        return false;
    }
    w->format = format_ids[format];
    w->durable = durable != 0;
    w->how = read_parameters(v + TO_COUNT);
    return w->how != NULL;
}

static sft_status into_safetensors(converting *k, const wanted *w, const sft_import_options *read,
                                   sft_import_converted *result, sft_import_report **report,
                                   sft_error *err) {
    sft_import_convert_options o;
    sft_write_options write;

    SFT_INIT(&write);
    write.durability = w->durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    write.pool = core_pool(k->state);
    write.control = &k->watch.control;
    SFT_INIT(&o);
    o.read = read;
    o.write = &write;
    o.choose = k->choose != NULL ? choose : NULL;
    o.planned = k->plan != NULL ? planned : NULL;
    o.open = open_url;
    o.ctx = k;
    o.metadata = w->texts.entries;
    o.metadata_count = w->texts.count;
    o.max_shard_bytes = w->shard;
    o.flags = w->flags;
    return sft_import_convert(w->inputs, (size_t)w->count, w->output, &o, result, report, err);
}

/* What was left out while the one input of another output was opened; a conversion to safetensors counts it. */
static uint64_t left_out(const sft_import_report *report) {
    uint64_t count = 0;

    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        count += f->kind == SFT_FINDING_LEFT_OUT ? f->count : 0;
    }
    return count;
}

static sft_status into_other(converting *k, const wanted *w, const sft_import_options *read,
                             sft_import_converted *result, sft_import_report **report,
                             sft_error *err) {
    sft_export_options o;
    sft_import_report *lost = NULL;
    sft_catalog *catalog;
    sft_source *source = NULL;
    sft_import_options how = *read;
    sft_status status;

    how.flags |= (w->flags & SFT_CONVERT_VERIFY) != 0 ? SFT_IMPORT_CHECKSUMS : 0;
    status = open_url(k, w->inputs[0], &source, err);
    if (status == SFT_OK) {
        status = source != NULL ? sft_import_open_source(&catalog, source, &how, report, err)
                                : sft_import_open(&catalog, w->inputs[0], &how, report, err);
    }
    if (status != SFT_OK) {
        return status;
    }
    SFT_INIT(&o);
    o.pool = core_pool(k->state);
    o.control = &k->watch.control;
    o.choose = k->choose != NULL ? choose : NULL;
    o.planned = k->plan != NULL ? planned : NULL;
    o.ctx = k;
    o.metadata = w->texts.entries;
    o.metadata_count = w->texts.count;
    o.durability = w->durable ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
    o.flags = w->flags;
    o.report = &lost;
    status = sft_import_export(catalog, w->format, w->output, &o, result, err);
    result->left_out += left_out(*report);
    k->lost = lost;
    sft_catalog_close(catalog);
    return status;
}

/* Findings of one kind as (subject, sentence), into the list. */
static PyObject *findings(PyObject *list, const sft_import_report *report, uint32_t kind) {
    for (size_t i = 0; list != NULL && i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        PyObject *subject, *one;
        if (f->kind != kind) {
            continue;
        }
        subject =
            PyUnicode_DecodeUTF8(f->subject, (Py_ssize_t)strlen(f->subject), "backslashreplace");
        one = subject != NULL ? Py_BuildValue("(Ns)", subject, f->message) : NULL;
        if (one == NULL || PyList_Append(list, one) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *told(const converting *k, const sft_import_report *report,
                      const sft_import_converted *r) {
    PyObject *left = findings(PyList_New(0), report, SFT_FINDING_LEFT_OUT), *notes = NULL;

    left = findings(left, k->lost, SFT_FINDING_LEFT_OUT);
    if (left != NULL) {
        notes = findings(PyList_New(0), report, SFT_FINDING_NOTE);
    }
    if (notes == NULL) {
        Py_XDECREF(left);
        return NULL;
    }
    return Py_BuildValue("{s:s,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:N,s:N,s:O}", "format",
                         sft_import_format_name(sft_import_report_format(report)), "tensors",
                         (unsigned long long)r->tensors, "aliases", (unsigned long long)r->aliases,
                         "left_out", (unsigned long long)r->left_out, "cast",
                         (unsigned long long)r->cast, "gathered", (unsigned long long)r->gathered,
                         "data_bytes", (unsigned long long)r->data_bytes, "file_bytes",
                         (unsigned long long)r->file_bytes, "unused_bytes",
                         (unsigned long long)r->unused_bytes, "files", (unsigned long long)r->files,
                         "verified", (unsigned long long)r->verified, "left_out_parts", left,
                         "notes", notes, "plan", k->plan != NULL ? k->plan : Py_None);
}

static PyObject *run(core_state *state, PyObject **v, const wanted *w) {
    converting k = {.state = state};
    bool viewed = false;
    sft_import_report *report = NULL;
    sft_import_converted converted;
    sft_import_options read;
    PyObject *result = NULL, *views;
    sft_status status;
    sft_error err;
    viewing view;

    if (!read_options(w->how, &read, &views) || !view_begin(&view, views, &k.watch.thread, &read)) {
        return NULL;
    }
    memset(&converted, 0, sizeof converted);
    k.choose = core_none(v[TO_CHOOSE]);
    k.names = PyList_New(0);
    k.plan = (w->flags & SFT_CONVERT_PLAN) != 0 ? PyList_New(0) : NULL;
    if (k.names != NULL && (k.plan != NULL || (w->flags & SFT_CONVERT_PLAN) == 0)) {
        core_watch_begin(&k.watch, core_none(v[TO_PROGRESS]));
        status = w->format == SFT_IMPORT_SAFETENSORS
                     ? into_safetensors(&k, w, &read, &converted, &report, &err)
                     : into_other(&k, w, &read, &converted, &report, &err);
        core_watch_end(&k.watch);
        viewed =
            view_end(&view, status == SFT_OK && PyErr_Occurred() == NULL, w->inputs[w->count - 1]);
        if (!viewed || PyErr_Occurred()) {
            result = NULL; /* of a callback */
        } else if (status != SFT_OK) {
            core_raise_plain(state, &err);
        } else if (warn_all(report, w->inputs[w->count - 1]) && warn_all(k.lost, w->inputs[0])) {
            result = told(&k, report, &converted);
        }
        sft_import_report_free(report);
        sft_import_report_free(k.lost);
    } else {
        (void)view_end(&view, false, NULL);
    }
    Py_XDECREF(k.names);
    Py_XDECREF(k.plan);
    return result;
}

PyObject *core_convert(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {
        "inputs", "output",  "to",     "choose",  "metadata", "max_shard_size",
        "plan",   "replace", "verify", "durable", "progress", READ_PARAMETERS};
    static const core_signature signature = {"_convert", parameters, TO_COUNT + READ_COUNT,
                                             TO_COUNT, TO_COUNT};
    PyObject *values[TO_COUNT + READ_COUNT], *result = NULL;
    wanted w;

    if (!core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    if (read_wanted(values, &w)) {
        result = run(core_state_of(module), values, &w);
    }
    core_metadata_free(&w.texts);
    free((void *)w.inputs);
    Py_XDECREF(w.how);
    return result;
}
