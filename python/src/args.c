/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * args.c - parameters by position and by name, with the sentences that users of the reference know for what
 * is missing or too much; what the types in here have in common. Read core.h first.
 */
#include "core.h"

static bool missing(const core_signature *s, PyObject **values) {
    PyObject *text = PyUnicode_FromString("");
    Py_ssize_t count = 0, seen = 0;

    for (Py_ssize_t i = 0; i < s->required; i++) {
        count += values[i] == NULL;
    }
    for (Py_ssize_t i = 0; text != NULL && i < s->required; i++) {
        if (values[i] != NULL) {
            continue;
        }
        CORE_SET(text,
                 PyUnicode_FromFormat(
                     "%U%s'%s'", text,
                     seen == 0 ? "" : (seen + 1 < count ? ", " : (count > 2 ? ", and " : " and ")),
                     s->parameters[i]));
        seen++;
    }
    if (text != NULL) {
        PyErr_Format(PyExc_TypeError, "%s() missing %zd required %s argument%s: %U", s->name, count,
                     s->positional == 0 ? "keyword" : "positional", count == 1 ? "" : "s", text);
        Py_DECREF(text);
    }
    return false;
}

bool core_parse(const core_signature *s, PyObject *args, PyObject *kwargs, PyObject **values) {
    Py_ssize_t given = PyTuple_Size(args), position = 0;
    PyObject *key, *value;

    for (Py_ssize_t i = 0; i < s->count; i++) {
        values[i] = i < given && i < s->positional ? PyTuple_GetItem(args, i) : NULL;
    }
    if (given > s->positional) {
        if (s->required < s->positional && s->required > 0) {
            PyErr_Format(PyExc_TypeError,
                         "%s() takes from %zd to %zd positional arguments but %zd were given",
                         s->name, s->required, s->positional, given);
        } else {
            PyErr_Format(PyExc_TypeError, "%s() takes %zd positional arguments but %zd were given",
                         s->name, s->positional, given);
        }
        return false;
    }
    while (kwargs != NULL && PyDict_Next(kwargs, &position, &key, &value)) {
        Py_ssize_t i = 0;
        while (i < s->count && PyUnicode_CompareWithASCIIString(key, s->parameters[i]) != 0) {
            i++;
        }
        if (i == s->count) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", s->name,
                         key);
            return false;
        }
        if (values[i] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", s->name,
                         key);
            return false;
        }
        values[i] = value;
    }
    for (Py_ssize_t i = 0; i < s->required; i++) {
        if (values[i] == NULL) {
            return missing(s, values);
        }
    }
    return true;
}

int core_choice(PyObject *value, const char *argument, const char *const *choices) {
    if (!PyUnicode_Check(value)) {
        core_wrong_type(argument, value, "str");
        return -2;
    }
    for (int i = 0; choices[i] != NULL; i++) {
        if (PyUnicode_CompareWithASCIIString(value, choices[i]) == 0) {
            return i;
        }
    }
    return -1;
}

int core_one_of(PyObject *value, const char *argument, const char *word,
                const char *const *choices) {
    const int found = core_choice(value, argument, choices);
    char list[128] = "";

    if (found == -1) {
        for (size_t i = 0; choices[i] != NULL; i++) {
            const size_t used = strlen(list);
            (void)PyOS_snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                choices[i]);
        }
        PyErr_Format(PyExc_ValueError, "%s %R is none of: %s", word, value, list);
    }
    return found;
}

PyObject *core_none(PyObject *value) {
    return value == Py_None ? NULL : value;
}

bool core_truth(PyObject *value, bool *out) {
    const int truth = value != NULL ? PyObject_IsTrue(value) : 0;

    *out = truth > 0;
    return truth >= 0;
}

bool core_u64(PyObject *value, uint64_t *out) {
    PyObject *index = PyNumber_Index(value);
    int overflow = 0;
    long long small;

    if (index == NULL) {
        return false;
    }
    small = PyLong_AsLongLongAndOverflow(index, &overflow);
    *out = overflow > 0 ? PyLong_AsUnsignedLongLong(index) : (uint64_t)small;
    Py_DECREF(index);
    if (small < 0 && overflow <= 0) {
        PyErr_SetString(PyExc_OverflowError, "can't convert negative int to unsigned");
    } else if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_SetString(PyExc_OverflowError, "int too big to convert");
    }
    return !PyErr_Occurred();
}

/* ---------------------------------------------------------------- what our types have in common */

PyObject *core_enter(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

int core_always(PyObject *self) {
    (void)self;
    return 1;
}

void core_object_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    PyObject_Free(self);
    Py_DECREF(type);
}
