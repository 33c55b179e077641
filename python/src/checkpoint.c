/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint.c - directories of training jobs as one model, and what one rank holds of a model: handles over
 * catalogs that src/checkpoint makes. Read core.h first.
 */
#include "core.h"
#include <sft/checkpoint_group.h>

#include <stdlib.h>

/* ---------------------------------------------------------------- what a catalog leans on */

/* Goes with the catalog that borrows from it. */
typedef struct leaning {
    core_file *parent; /* NULL: none */
    sft_layout_set *layouts;
} leaning;

static void leaning_drop(void *self) {
    leaning *l = self;

    core_file_drop(l->parent);
    sft_layout_set_free(l->layouts);
    free(l);
}

/* All given is taken over in every case. */
static core_file *lean(sft_catalog *catalog, sft_layout_set *layouts, core_file *parent) {
    core_file *file = core_file_over(catalog);
    leaning *l = file != NULL ? malloc(sizeof *l) : NULL;

    if (l == NULL) {
        core_file_drop(file);
        core_file_drop(parent);
        sft_layout_set_free(layouts);
        return file != NULL ? (core_file *)core_no_memory(0) : NULL;
    }
    l->parent = parent;
    l->layouts = layouts;
    file->leaning = l;
    file->leaning_drop = leaning_drop;
    return file;
}

/* ---------------------------------------------------------------- arguments */

const char *core_text(PyObject *value, const char *argument) {
    Py_ssize_t len = 0;
    const char *text;

    if (!PyUnicode_Check(value)) {
        core_wrong_type(argument, value, "str");
        return NULL;
    }
    text = PyUnicode_AsUTF8AndSize(value, &len);
    if (text != NULL && strlen(text) != (size_t)len) {
        PyErr_SetString(PyExc_ValueError, "embedded null byte");
        return NULL;
    }
    return text;
}

bool core_layouts(core_state *state, PyObject *value, PyObject *ranks, sft_layout_set **out) {
    sft_layout_set_options options;
    sft_status status;
    sft_error err;

    *out = NULL;
    SFT_INIT(&options);
    if (value == NULL || value == Py_None) {
        return true;
    }
    if (ranks != NULL && ranks != Py_None && !core_u64(ranks, &options.ranks)) {
        return false;
    }
    if (PyBytes_Check(value)) {
        char *text = NULL;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(value, &text, &size) < 0) {
            return false;
        }
        Py_BEGIN_ALLOW_THREADS status =
            sft_layout_set_parse(out, text, (size_t)size, "the layout given", &options, &err);
        Py_END_ALLOW_THREADS
    } else {
        const char *path = core_text(value, "layout");
        if (path == NULL) {
            return false;
        }
        Py_BEGIN_ALLOW_THREADS status = sft_layout_set_open(out, path, &options, &err);
        Py_END_ALLOW_THREADS
    }
    if (status != SFT_OK) {
        core_raise_plain(state, &err);
        return false;
    }
    return true;
}

/* The set in our own JSON; NULL: an exception. */
static PyObject *layout_text(core_state *state, const sft_layout_set *layouts) {
    size_t size = 0;
    sft_error err;
    sft_status status = sft_layout_set_write(layouts, NULL, 0, &size, &err);
    PyObject *text = NULL;

    if (status == SFT_OK && (text = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size)) == NULL) {
        return NULL;
    }
    if (status == SFT_OK) {
        status = sft_layout_set_write(layouts, PyBytes_AsString(text), size, &size, &err);
    }
    if (status != SFT_OK) {
        Py_XDECREF(text);
        return core_raise_plain(state, &err);
    }
    return text;
}

PyObject *core_read_layout(PyObject *module, PyObject *args) {
    core_state *state = core_state_of(module);
    PyObject *layout, *ranks, *text, *result = NULL;
    sft_layout_set *layouts = NULL;

    if (!PyArg_ParseTuple(args, "OO:_read_layout", &layout, &ranks) ||
        !core_layouts(state, layout, ranks, &layouts)) {
        return NULL;
    }
    if (layouts == NULL) {
        return core_wrong_type("layout", layout, "str");
    }
    text = layout_text(state, layouts);
    if (text != NULL) {
        result = Py_BuildValue("NK", text, (unsigned long long)sft_layout_set_ranks(layouts));
    }
    sft_layout_set_free(layouts);
    return result;
}

/* ---------------------------------------------------------------- opening */

/* options: without layouts. */
static core_file *open_file(core_state *state, const char *path, sft_checkpoint_options *options,
                            PyObject *layout, PyObject *ranks) {
    const core_opening o = {
        .path = path, .name = path, .ranks = options, .doing = "Error while opening a checkpoint"};
    sft_layout_set *layouts = NULL;
    sft_catalog *catalog;
    const bool asked = options->step != NULL || (layout != NULL && layout != Py_None);

    if (!core_layouts(state, layout, ranks, &layouts)) {
        return NULL;
    }
    options->layouts = layouts;
    options->flags |= asked ? SFT_CHECKPOINT_NOTHING_ELSE : 0;
    if (!core_open(state, &catalog, &o)) {
        sft_layout_set_free(layouts);
        return NULL;
    }
    return lean(catalog, layouts, NULL);
}

PyObject *core_open_checkpoint(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"path",  "framework", "device", "layout", "step",
                                             "ranks", "partial",   "holes",  "config"};
    static const core_signature signature = {"_open_checkpoint", parameters, 9, 3, 2};
    core_state *state = core_state_of(module);
    PyObject *v[9], *path, *result = NULL;
    sft_checkpoint_options options;
    const char *name;
    core_file *file = NULL;

    if (!core_parse(&signature, args, kwargs, v)) {
        return NULL;
    }
    SFT_INIT(&options);
    const int partial = v[6] != NULL ? PyObject_IsTrue(v[6]) : 0;
    const int holes = v[7] != NULL ? PyObject_IsTrue(v[7]) : 0;
    if (partial < 0 || holes < 0) {
        return NULL;
    }
    options.flags = (partial != 0 ? SFT_CHECKPOINT_PARTIAL : 0) |
                    (holes != 0 ? SFT_CHECKPOINT_PARTIAL | SFT_CHECKPOINT_HOLES : 0);
    if (v[8] != NULL && v[8] != Py_None) {
        Py_ssize_t size;
        options.config = PyUnicode_AsUTF8AndSize(v[8], &size);
        if (options.config == NULL) {
            return NULL;
        }
        options.config_size = (size_t)size;
    }
    path = core_path(v[0]);
    name = path != NULL ? core_text(path, "path") : NULL;
    if (name != NULL &&
        (v[4] == NULL || v[4] == Py_None || (options.step = core_text(v[4], "step")) != NULL)) {
        file = open_file(state, name, &options, v[3], v[5]);
    }
    if (file != NULL) {
        result = core_handle_over(state, file, path, v[1], v[2]);
    }
    Py_XDECREF(path);
    return result;
}

/* [(name, sentence)] of tensors that are incomplete in the files. */
static PyObject *left_out(const sft_catalog *catalog) {
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list != NULL && i < sft_catalog_problem_count(catalog); i++) {
        const sft_problem *p = sft_catalog_problem_at(catalog, i);
        PyObject *pair;
        if (p->kind != SFT_PROBLEM_MISSING_TENSOR && p->kind != SFT_PROBLEM_MISSING_FILE) {
            continue;
        }
        pair = Py_BuildValue("s#s", p->subject, (Py_ssize_t)p->subject_len, p->message);
        if (pair == NULL || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

PyObject *core_left_out(PyObject *module, PyObject *handle) {
    core_state *state = core_state_of(module);
    PyObject *list;
    core_file *file;

    if (Py_TYPE(handle) != state->handle_type) {
        return core_wrong_type("handle", handle, "safe_open");
    }
    file = core_handle_file((core_handle *)handle);
    list = file != NULL ? left_out(file->catalog) : NULL;
    core_file_drop(file);
    return list;
}

/* ---------------------------------------------------------------- parts */

/* SFT_E_MISMATCH: a layout that fits no tensor, so that every rank would have all of the model. */
static sft_status take_part(sft_catalog **out, const sft_catalog *global, sft_layout_set *layouts,
                            uint64_t rank, bool replicated, sft_error *err) {
    const sft_status fit = sft_layout_set_fit(layouts, global, NULL, err);

    const uint64_t ranks = sft_layout_set_ranks(layouts);

    *out = NULL;
    if (fit != SFT_OK && (fit != SFT_E_MISMATCH || !replicated)) {
        return fit;
    }
    if (rank >= ranks) {
        return sft_error_set(err, SFT_E_RANGE, 0, "rank %llu: the layout has %llu ranks, from 0",
                             (unsigned long long)rank, (unsigned long long)ranks);
    }
    return sft_checkpoint_part(out, global, rank, sft_layout_set_find_global, layouts, NULL, err);
}

PyObject *core_part(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"handle", "layout",           "rank",
                                             "ranks",  "allow_replicated", "config"};
    static const core_signature signature = {"_part", parameters, 6, 3, 3};
    core_state *state = core_state_of(module);
    sft_layout_set *layouts = NULL;
    sft_catalog *catalog = NULL;
    core_file *global, *file;
    PyObject *v[6];
    sft_status status;
    uint64_t rank;
    sft_error err;
    int replicated;
    char *config = NULL;
    Py_ssize_t config_size = 0;

    if (!core_parse(&signature, args, kwargs, v) || !core_u64(v[2], &rank)) {
        return NULL;
    }
    replicated = v[4] != NULL ? PyObject_IsTrue(v[4]) : 0;
    if (replicated < 0 || (v[5] != NULL && v[5] != Py_None &&
                           PyBytes_AsStringAndSize(v[5], &config, &config_size) < 0)) {
        return NULL;
    }
    if (Py_TYPE(v[0]) != state->handle_type) {
        return core_wrong_type("handle", v[0], "safe_open");
    }
    if (!core_layouts(state, v[1], v[3], &layouts)) {
        return NULL;
    }
    if (layouts == NULL) {
        return core_wrong_type("layout", v[1], "str");
    }
    global = core_handle_file((core_handle *)v[0]);
    if (global == NULL) {
        sft_layout_set_free(layouts);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status =
        sft_layout_set_bind(layouts, global->catalog, config, (size_t)config_size, &err);
    if (status == SFT_OK) {
        status = take_part(&catalog, global->catalog, layouts, rank, replicated != 0, &err);
    }
    Py_END_ALLOW_THREADS sft_layout_set_free(layouts);
    if (status != SFT_OK) {
        core_file_drop(global);
        return core_raise_plain(state, &err);
    }
    file = lean(catalog, NULL, global);
    return file != NULL ? core_handle_part((core_handle *)v[0], file) : NULL;
}

/* ---------------------------------------------------------------- other names */

/* Sentences for the caller to warn with; they come while the interpreter's lock is held. */
static void keep_warning(void *ctx, const char *message) {
    PyObject *const list = ctx;
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");

    if (text == NULL || PyList_Append(list, text) < 0) {
        PyErr_Clear(); /* a warning that is lost for want of memory */
    }
    Py_XDECREF(text);
}

/* The shipped rules of that name, or the text itself. */
static sft_names *parse_rules(core_state *state, PyObject *value) {
    sft_names *names = NULL;
    Py_ssize_t size = 0;
    sft_error err;
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : NULL;

    if (text == NULL) {
        if (!PyErr_Occurred()) {
            core_wrong_type("rules", value, "str");
        }
        return NULL;
    }
    const char *shipped = strlen(text) == (size_t)size ? sft_names_shipped_text(text) : NULL;
    if (sft_names_parse(&names, shipped != NULL ? shipped : text,
                        shipped != NULL ? strlen(shipped) : (size_t)size, NULL, &err) != SFT_OK) {
        core_raise(state, &err, "Error while reading rules for names");
        return NULL;
    }
    return names;
}

PyObject *core_rules_known(PyObject *module, PyObject *name) {
    const char *text = core_text(name, "name");

    (void)module;
    return text != NULL ? PyBool_FromLong(sft_names_shipped_text(text) != NULL) : NULL;
}

PyObject *core_rules_nearest(PyObject *module, PyObject *name) {
    const char *text = core_text(name, "name");

    (void)module;
    return text != NULL ? Py_BuildValue("z", sft_names_nearest(text)) : NULL;
}

bool core_naming_read(core_state *state, PyObject **v, core_naming *out) {
    Py_ssize_t size = 0;

    memset(out, 0, sizeof *out);
    SFT_INIT(&out->options);
    const int reverse = PyObject_IsTrue(v[1]);
    if (reverse < 0) {
        return false;
    }
    if (!PyList_Check(v[3])) {
        return core_wrong_type("warnings", v[3], "list") != NULL;
    }
    if (v[2] != Py_None) {
        out->options.config = PyUnicode_AsUTF8AndSize(v[2], &size);
        if (out->options.config == NULL) {
            return false;
        }
    }
    out->options.config_size = (size_t)size;
    out->options.reverse = reverse != 0;
    out->options.warn = keep_warning;
    out->options.warn_ctx = v[3];
    out->names = parse_rules(state, v[0]);
    return out->names != NULL;
}

sft_status core_naming_apply(const core_naming *n, const sft_catalog *from, sft_catalog **out,
                             sft_error *err) {
    if (sft_catalog_alias_count(from) > 0) {
        keep_warning(n->options.warn_ctx, "other names of tensors (aliases) are not carried over");
    }
    return sft_names_apply(out, from, n->names, &n->options, NULL, err);
}

PyObject *core_renamed(PyObject *module, PyObject *args, PyObject *kwargs) {
    static const char *const parameters[] = {"handle", "rules", "reverse", "config", "warnings"};
    static const core_signature signature = {"_renamed", parameters, 5, 5, 5};
    core_state *state = core_state_of(module);
    sft_catalog *catalog = NULL;
    core_naming naming;
    core_file *global;
    PyObject *v[5];
    sft_error err;

    if (!core_parse(&signature, args, kwargs, v)) {
        return NULL;
    }
    if (Py_TYPE(v[0]) != state->handle_type) {
        return core_wrong_type("handle", v[0], "safe_open");
    }
    if (!core_naming_read(state, v + 1, &naming)) {
        return NULL;
    }
    global = core_handle_file((core_handle *)v[0]);
    if (global != NULL && core_naming_apply(&naming, global->catalog, &catalog, &err) != SFT_OK) {
        core_raise(state, &err, "Error while giving tensors other names");
    }
    sft_names_free(naming.names);
    if (catalog == NULL) {
        core_file_drop(global);
        return NULL;
    }
    core_file *const file = lean(catalog, NULL, global);
    return file != NULL ? core_handle_part((core_handle *)v[0], file) : NULL;
}
