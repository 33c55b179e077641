/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * convert.c - conversions to safetensors and to other formats. Nothing of a file is executed. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

typedef struct converting {
    core_state *state;
    core_watch watch;
    PyObject *choose; /* NULL: everything as it is */
    PyObject *names;  /* list: texts that items point into */
    PyObject *plan;   /* list; NULL: none is wanted */
    /* what another format has no room for; NULL: safetensors are written */
    sft_import_report *lost;
    core_naming naming; /* without names: as they are */
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

    if (!sft_operand_is_url(input)) {
        return SFT_OK;
    }
    PyEval_RestoreThread(k->watch.thread);
    k->watch.failed = !core_remote_source(k->state, out, input);
    k->watch.thread = PyEval_SaveThread();
    return k->watch.failed ? sft_error_set(err, SFT_E_CANCELLED, 0, "cancelled") : SFT_OK;
}

static void drop_catalog(void *catalog) {
    sft_catalog_close(catalog);
}

static sft_status opened(void *ctx, const char *input, sft_catalog **catalog, sft_error *err) {
    converting *k = ctx;
    sft_catalog *renamed = NULL;

    (void)input;
    PyEval_RestoreThread(k->watch.thread);
    sft_status status = core_naming_apply(&k->naming, *catalog, &renamed, err);
    k->watch.thread = PyEval_SaveThread();
    if (status == SFT_OK) {
        status = sft_catalog_attach(renamed, "python.unnamed", *catalog, drop_catalog, err);
    }
    if (status != SFT_OK) {
        sft_catalog_close(renamed);
        return status;
    }
    *catalog = renamed;
    return SFT_OK;
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
    TO_NAMES,
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
        w->inputs[i] = core_text(one, "inputs");
        if (w->inputs[i] == NULL) {
            return false;
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
    w->output = core_text(v[TO_OUTPUT], "output");
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
    w->how = core_how_read(v + TO_COUNT);
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
    o.opened = k->naming.names != NULL ? opened : NULL;
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
    if (status == SFT_OK && k->naming.names != NULL) {
        status = opened(k, w->inputs[0], &catalog, err);
        if (status != SFT_OK) {
            sft_catalog_close(catalog);
        }
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

/* (rules, reverse, config or None, list) */
static bool read_naming(core_state *state, PyObject *value, core_naming *out) {
    PyObject *v[4];

    return PyArg_ParseTuple(value, "OOOO", &v[0], &v[1], &v[2], &v[3]) &&
           core_naming_read(state, v, out);
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
    core_viewing view;

    if (core_none(v[TO_NAMES]) != NULL && !read_naming(state, v[TO_NAMES], &k.naming)) {
        return NULL;
    }
    if (!core_how_options(w->how, &read, &views) ||
        !core_view_begin(&view, views, &k.watch.thread, &read)) {
        sft_names_free(k.naming.names);
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
        viewed = core_view_end(&view, status == SFT_OK && PyErr_Occurred() == NULL,
                               w->inputs[w->count - 1]);
        if (!viewed || PyErr_Occurred()) {
            result = NULL; /* of a callback */
        } else if (status != SFT_OK) {
            core_raise_plain(state, &err);
        } else if (core_warn_report(report, w->inputs[w->count - 1]) &&
                   core_warn_report(k.lost, w->inputs[0])) {
            result = told(&k, report, &converted);
        }
        sft_import_report_free(report);
        sft_import_report_free(k.lost);
    } else {
        (void)core_view_end(&view, false, NULL);
    }
    sft_names_free(k.naming.names);
    Py_XDECREF(k.names);
    Py_XDECREF(k.plan);
    return result;
}

PyObject *core_convert(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {
        "inputs",  "output", "to",      "choose",   "metadata", "max_shard_size",   "plan",
        "replace", "verify", "durable", "progress", "names",    CORE_HOW_PARAMETERS};
    static const core_signature signature = {"_convert", parameters, TO_COUNT + CORE_HOW_COUNT,
                                             TO_COUNT, TO_COUNT};
    PyObject *values[TO_COUNT + CORE_HOW_COUNT], *result = NULL;
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
