/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/keras.c - the objects of a Keras configuration (config.json of .keras,
 * model_config of HDF5, metadata of SavedModels): Keras imports `module`, looks `class_name` up in
 * it and calls what it finds. Harmless are the classes of Keras's own modules that build layers and
 * the like; lambdas, its utilities, files to be read, and names of other packages are findings.
 * Sources: keras src/saving/serialization_lib.py; CVE-2024-3660, CVE-2025-1550, -8747, -9905,
 * -9906, -12058. Read first: content.h.
 */
#include "import/content/content.h"

static bool is_one_of(const char *text, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static bool below(const char *module, const char *root) {
    const size_t n = strlen(root);
    return strncmp(module, root, n) == 0 && (module[n] == '\0' || module[n] == '.');
}

static void say(const sft__import_content *c, const sft__import_keras *o, uint32_t verdict,
                const char *rule, const char *subject, const char *sentence) {
    sft__import_content_find(c, verdict, rule, o->at, subject, strlen(subject), sentence);
}

/* "keras.layers" and "keras.src.layers.core.dense" begin with "layers"; NULL: no module of Keras's.
 */
static const char *inside_keras(const char *module) {
    static const char *const roots[] = {"keras", "tf_keras", "tensorflow.keras",
                                        "tensorflow.python.keras", NULL};
    for (size_t i = 0; roots[i] != NULL; i++) {
        if (below(module, roots[i])) {
            const char *rest = module + strlen(roots[i]);
            rest += strncmp(rest, ".src", 4) == 0 && (rest[4] == '.' || rest[4] == '\0') ? 4 : 0;
            rest += strncmp(rest, ".api", 4) == 0 && (rest[4] == '.' || rest[4] == '\0') ? 4 : 0;
            return *rest == '.' ? rest + 1 : rest;
        }
    }
    return NULL;
}

/* Parts of Keras whose names are classes and functions of models, and nothing that acts. */
static bool builds_models(const char *inside) {
    static const char *const parts[] = {
        "layers", "models",  "initializers", "regularizers",   "constraints",    "activations",
        "losses", "metrics", "optimizers",   "dtype_policies", "quantizers",     "ops",
        "engine", "random",  "distribution", "engine",         "feature_column", NULL};

    for (size_t i = 0; parts[i] != NULL; i++) {
        if (below(inside, parts[i])) {
            return true;
        }
    }
    return *inside == '\0' || below(inside, "callbacks.History");
}

bool sft__import_content_keras_word(const char *text, size_t len) {
    static const char *const words[] = {"get_file", "enable_unsafe_deserialization",
                                        "keras.config.enable_unsafe_deserialization",
                                        "keras.utils.get_file", NULL};
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0) {
            return true;
        }
    }
    return false;
}

/* What a function of Python's own is called; config is its name. */
static void builtin(const sft__import_content *c, const sft__import_keras *o) {
    static const char *const acting[] = {
        "eval",       "exec",    "compile",     "open",         "__import__", "getattr",
        "setattr",    "delattr", "input",       "vars",         "globals",    "locals",
        "breakpoint", "help",    "exit",        "quit",         "map",        "filter",
        "type",       "super",   "classmethod", "staticmethod", "memoryview", "reduce",
        "print",      NULL};
    const bool function = strcmp(o->class_name, "function") == 0;
    const char *name = function ? (o->config != NULL ? o->config : "") : o->class_name;

    if (is_one_of(name, acting)) {
        say(c, o, SFT_SCAN_DANGEROUS, "keras-module", name,
            "a function of Python's own, called by Keras");
    } else {
        say(c, o, SFT_SCAN_UNKNOWN, "keras-custom", name,
            "a function that Keras does not have: code that is not in the file");
    }
}

static void module_of(const sft__import_content *c, const sft__import_keras *o) {
    static const char *const acting[] = {
        "load_model",      "save_model",  "load_weights",      "save_weights", "model_from_json",
        "model_from_yaml", "clone_model", "model_from_config", "load_data",    NULL};
    const char *inside = inside_keras(o->module);
    const bool function = strcmp(o->class_name, "function") == 0 && o->config != NULL;
    const char *name = function ? o->config : o->class_name;

    if (strcmp(o->module, "builtins") == 0) {
        builtin(c, o);
    } else if (inside == NULL) {
        const uint32_t verdict =
            sft__import_content_global(o->module, strlen(o->module), name, strlen(name));
        say(c, o, verdict == SFT_SCAN_DANGEROUS ? verdict : SFT_SCAN_UNKNOWN, "keras-module",
            o->module, "a module that is none of Keras's: Keras would import it");
    } else if (sft__import_content_keras_word(name, strlen(name)) || is_one_of(name, acting) ||
               below(inside, "utils") || below(inside, "config") || below(inside, "saving")) {
        say(c, o, SFT_SCAN_DANGEROUS, "keras-module", name,
            "a utility of Keras that acts (loads, saves, fetches, switches protection off)");
    } else if (!builds_models(inside)) {
        say(c, o, SFT_SCAN_UNKNOWN, "keras-module", o->module,
            "a part of Keras that models are not made of");
    }
}

static void vocabulary(const sft__import_content *c, const sft__import_keras *o) {
    const char *path = o->vocabulary;
    const bool away = sft__import_content_leads_away(path);

    say(c, o, away ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, "keras-file", path,
        "a file that a layer reads its vocabulary from when the model is loaded");
}

/* Keras 2 keeps operators of TensorFlow by name. */
static void operator_of(const sft__import_content *c, const sft__import_keras *o) {
    static const char *const harmless[] = {"math.",    "nn.",    "linalg.", "__operators__.",
                                           "signal.",  "image.", "dtypes.", "bitwise.",
                                           "strings.", NULL};
    static const char *const acting[] = {
        "io.",        "py_function",  "numpy_function", "raw_ops.",      "data.",
        "load_",      "saved_model.", "train.",         "summary.",      "print",
        "debugging.", "keras.utils",  "compat.",        "experimental.", NULL};
    const char *name = o->function != NULL ? o->function : "";

    for (size_t i = 0; harmless[i] != NULL; i++) {
        if (strncmp(name, harmless[i], strlen(harmless[i])) == 0) {
            return;
        }
    }
    for (size_t i = 0; acting[i] != NULL; i++) {
        if (strncmp(name, acting[i], strlen(acting[i])) == 0) {
            say(c, o, SFT_SCAN_DANGEROUS, "keras-operator", name,
                "an operator of TensorFlow that does more than to compute");
            return;
        }
    }
    if (strchr(name, '.') != NULL || *name == '\0') {
        say(c, o, SFT_SCAN_UNKNOWN, "keras-operator", name, "an operator that is not known here");
    }
}

static bool is_in(const char *const *list, size_t count, const char *name) {
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(name, list[middle]);
        if (order == 0) {
            return true;
        }
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

bool sft__import_content_keras_has(const char *name) {
    return is_in(sft__import_keras_classes, sft__import_keras_classes_count, name) ||
           is_in(sft__import_keras_words, sft__import_keras_words_count, name);
}

/* A class that Keras looks up by its name alone: its own, or one that the loading program
 * registered. */
static bool is_foreign(const sft__import_keras *o) {
    return (o->module == NULL || *o->module == '\0') && strchr(o->class_name, '>') == NULL &&
           !sft__import_content_keras_has(o->class_name);
}

/* "Custom>Adam": tf_keras registers its own optimizers so, as users do theirs. */
static bool is_custom(const char *registered) {
    const char *mark = strchr(registered, '>');

    return mark != NULL && strncmp(registered, "keras>", 6) != 0 &&
           strncmp(registered, "Keras>", 6) != 0 &&
           !(strncmp(registered, "Custom>", 7) == 0 && sft__import_content_keras_has(mark + 1));
}

void sft__import_content_keras(const sft__import_content *c, const sft__import_keras *o) {
    static const char *const operators[] = {"TFOpLambda",  "SlicingOpLambda", "TensorFlowOpLayer",
                                            "ClassMethod", "InstanceMethod",  "InstanceProperty",
                                            NULL};
    if (strcmp(o->class_name, "__lambda__") == 0) {
        say(c, o, SFT_SCAN_DANGEROUS, "keras-lambda", o->class_name,
            "a function as bytes of code: Keras runs it");
    } else if (strcmp(o->class_name, "Lambda") == 0) {
        say(c, o, o->code ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, "keras-lambda", o->class_name,
            o->code ? "a layer whose function is bytes of code: Keras runs it"
                    : "a layer that is a function of Python");
    } else if (strcmp(o->class_name, "TorchModuleWrapper") == 0) {
        say(c, o, SFT_SCAN_DANGEROUS, "keras-torch", o->class_name,
            "a layer whose configuration is a pickle in base64: Keras gives it to torch.load");
    } else if (strcmp(o->class_name, "TFSMLayer") == 0) {
        say(c, o, SFT_SCAN_UNKNOWN, "keras-saved-model", o->class_name,
            "a layer that loads a SavedModel from a path in its configuration");
    } else if (is_one_of(o->class_name, operators)) {
        operator_of(c, o);
    }
    if (o->vocabulary != NULL) {
        vocabulary(c, o);
    }
    if (o->module != NULL) {
        module_of(c, o);
    }
    if ((o->registered != NULL && is_custom(o->registered)) || is_custom(o->class_name) ||
        is_foreign(o)) {
        say(c, o, SFT_SCAN_UNKNOWN, "keras-custom",
            o->registered != NULL ? o->registered : o->class_name,
            "a class that Keras does not have: its code is not in the file");
    }
}
