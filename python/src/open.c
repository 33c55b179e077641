/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * open.c - the one door: whatever is opened becomes a catalog here, by the openers that the library has; and how
 * files of other formats are to be read. Nothing of a file is executed. Read core.h first.
 */
#include "core.h"

#include <errno.h>
#include <stdlib.h>

#define ASKERS 16 /* URLs of ranks that are waited for at once */

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

PyObject *core_how_read(PyObject **v) {
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

static bool match_views(core_viewing *v, const sft_tensor *t, const sft_dtype **dtype) {
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
    core_viewing *v = ctx;
    bool good;

    PyEval_RestoreThread(*v->thread);
    good = match_views(v, tensor, dtype);
    *v->thread = PyEval_SaveThread();
    return good ? SFT_OK : sft_error_set(err, SFT_E_CANCELLED, 0, "cancelled");
}

bool core_view_begin(core_viewing *v, PyObject *views, PyThreadState **thread,
                     sft_import_options *options) {
    PyObject *module;

    *v = (core_viewing){.thread = thread, .views = views};
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

bool core_view_end(core_viewing *v, bool told, const char *name) {
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

bool core_how_options(PyObject *how, sft_import_options *options, PyObject **views) {
    PyObject *key;
    unsigned int flags;
    int dedup;

    SFT_INIT(options);
    *views = NULL; /* handles that were pickled before there were any have none */
    if (!PyArg_ParseTuple(how, "OiI|O!", &key, &dedup, &flags, &PyList_Type, views)) {
        return false;
    }
    options->key = key != Py_None ? core_text(key, "key") : NULL;
    options->dedup = (sft_import_dedup)dedup;
    options->flags = flags;
    return key == Py_None || options->key != NULL;
}

/* ---------------------------------------------------------------- what was found */

static bool warn_one(const char *name, const sft_finding *f) {
    char subject[300];

    (void)sft_escape(subject, sizeof subject, f->subject, strlen(f->subject));
    return PyErr_WarnFormat(PyExc_UserWarning, 1, "%s: %s%s%s%s", name,
                            f->kind == SFT_FINDING_LEFT_OUT ? "left out: " : "", subject,
                            subject[0] != 0 ? ": " : "", f->message) == 0;
}

bool core_warn_report(const sft_import_report *report, const char *name) {
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

/* ---------------------------------------------------------------- the one door */

/* Files of ranks that are no safetensors, and what was found in those where anything was; without the lock. */
typedef struct rank_report {
    sft_import_report *report;
    char *path;
} rank_report;

typedef struct rank_reading {
    const sft_import_options *options;
    rank_report *reports;
    size_t count;
} rank_reading;

static sft_status open_rank(void *ctx, const char *path, const sft_open_options *options,
                            sft_catalog **out, sft_error *err) {
    rank_reading *const r = ctx;
    sft_import_options o = *r->options;
    sft_import_report *report;

    o.allocator = options->allocator;
    const sft_status status = sft_import_open(out, path, &o, &report, err);
    if (status != SFT_OK || sft_import_report_count(report) == 0) {
        sft_import_report_free(report);
        return status;
    }
    char *const copy = strdup(path);
    rank_report *const more = realloc(r->reports, (r->count + 1) * sizeof *more);
    if (more == NULL || copy == NULL) {
        r->reports = more != NULL ? more : r->reports;
        free(copy);
        sft_import_report_free(report);
        sft_catalog_close(*out);
        *out = NULL;
        return sft_error_set(err, SFT_E_NOMEM, 0, "no memory for what was found in %.200s", path);
    }
    r->reports = more;
    r->reports[r->count++] = (rank_report){report, copy};
    return SFT_OK;
}

/* Has a file before it the same finding, in the same place? */
static bool is_told(const rank_reading *r, size_t before, size_t at, const sft_finding *f) {
    bool told = false;

    for (size_t i = 0; i < before && !told; i++) {
        const sft_finding *g = at < sft_import_report_count(r->reports[i].report)
                                   ? sft_import_report_at(r->reports[i].report, at)
                                   : NULL;
        told = g != NULL && f->kind == g->kind && strcmp(f->rule, g->rule) == 0 &&
               strcmp(f->subject, g->subject) == 0;
    }
    return told;
}

/* Warns of what was left out of ranks, once where ranks are alike, and forgets the reports. */
static bool warn_ranks(rank_reading *r, bool wanted) {
    size_t left = 0;

    for (size_t i = 0; i < r->count; i++) {
        for (size_t k = 0; wanted && k < sft_import_report_count(r->reports[i].report); k++) {
            const sft_finding *f = sft_import_report_at(r->reports[i].report, k);
            if (f->kind == SFT_FINDING_LEFT_OUT && !is_told(r, i, k, f) && left++ < WARNINGS_MAX) {
                wanted = warn_one(r->reports[i].path, f);
            }
        }
    }
    const char *const last = r->count > 0 ? r->reports[r->count - 1].path : "";
    const bool good = wanted && (left <= WARNINGS_MAX ||
                                 PyErr_WarnFormat(PyExc_UserWarning, 1, "%s: left out: %zu more",
                                                  last, left - WARNINGS_MAX) == 0);
    while (r->count > 0) {
        sft_import_report_free(r->reports[--r->count].report);
        free(r->reports[r->count].path);
    }
    free(r->reports);
    return good;
}

/* The openers in their order; returns how many. Files of any format: the import's refuses what none of them knows. */
static size_t fill_rows(sft_opener_row rows[3], const core_opening *o,
                        sft_checkpoint_options *ranks, const sft_remote_opening *remote,
                        rank_reading *reading) {
    size_t count = 0;

    if (o->ranks != NULL || (o->how != NULL && o->path != NULL)) {
        SFT_INIT(ranks);
        if (o->ranks != NULL) {
            *ranks = *o->ranks;
        }
        ranks->other = open_rank;
        ranks->other_ctx = reading;
        ranks->source = core_remote_bytes;
        ranks->source_ctx = remote->ctx;
        rows[count++] = (sft_opener_row){sft_checkpoint_opener(), ranks};
    }
    rows[count++] = core_remote_row(remote);
    rows[count++] = o->how != NULL ? (sft_opener_row){sft_import_opener(), reading->options}
                                   : (sft_opener_row){sft_catalog_opener(), NULL};
    return count;
}

/* Nothing can be found under such a name. */
static bool is_nowhere(int sys) {
#ifdef ELOOP
    if (sys == ELOOP) {
        return true;
    }
#endif
    return sys == ENOENT || sys == ENOTDIR || sys == ENAMETOOLONG;
}

bool core_no_such_file(PyObject *name) {
    PyErr_Format(PyExc_FileNotFoundError, "No such file or directory: %U", name);
    return false;
}

static bool raise_opening(core_state *state, const core_opening *o, const sft_error *err,
                          bool no_remote) {
    if (PyErr_Occurred() != NULL) {
        return false; /* of fnmatch, of a signal */
    }
    if (o->file != NULL && !sft_operand_is_url(o->path) && is_nowhere(err->sys)) {
        return core_no_such_file(o->file);
    }
    return (o->how != NULL ? core_raise_plain(state, err)
                           : core_raise(state, err, no_remote ? NULL : o->doing)) != NULL;
}

bool core_open(core_state *state, sft_catalog **out, const core_opening *o) {
    core_remote_finding finding = {state, false};
    sft_import_options other;
    sft_checkpoint_options ranks;
    sft_remote_opening remote;
    sft_opener_row rows[3];
    sft_door_options door;
    core_viewing v = {NULL, NULL, NULL, NULL};
    rank_reading reading = {&other, NULL, 0};
    PyThreadState *thread;
    PyObject *views;
    sft_status status;
    sft_error err;

    *out = NULL;
    SFT_INIT(&other);
    if (o->how != NULL && (!core_how_options(o->how, &other, &views) ||
                           !core_view_begin(&v, views, &thread, &other))) {
        sft_source_close(o->source);
        return false;
    }
    sft_pool *askers = NULL;
    SFT_INIT(&remote);
    remote.find = core_remote_find;
    remote.ctx = &finding;
    SFT_INIT(&door);
    door.rows = rows;
    door.row_count = fill_rows(rows, o, &ranks, &remote, &reading);
    thread = PyEval_SaveThread();
    if (o->ranks != NULL && o->path != NULL && sft_operand_is_url(o->path) &&
        sft_pool_create(&askers, ASKERS, NULL, NULL) == SFT_OK) {
        ranks.pool = askers;
    }
    status = sft_open(out, o->path, o->source, &door, &err);
    sft_pool_free(askers);
    PyEval_RestoreThread(thread);
    const bool viewed = o->how == NULL || core_view_end(&v, status == SFT_OK, o->name);
    if (status != SFT_OK) {
        (void)warn_ranks(&reading, false);
        return raise_opening(state, o, &err, finding.failed);
    }
    sft_import_report *report = sft_import_report_take(*out);
    const bool ranked = warn_ranks(&reading, viewed);
    const bool told = ranked && core_warn_report(report, o->name);
    sft_import_report_free(report);
    if (!told) {
        sft_catalog_close(*out);
        *out = NULL;
    }
    return told;
}

PyObject *core_open_any(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"filename", "framework", "device", "backend",
                                             CORE_HOW_PARAMETERS};
    static const core_signature signature = {"open_any", parameters, 4 + CORE_HOW_COUNT, 3, 1};
    PyObject *values[4 + CORE_HOW_COUNT], *framework = NULL, *how, *result = NULL;

    if (!core_parse(&signature, args, kwargs, values)) {
        return NULL;
    }
    how = core_how_read(values + 4);
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
