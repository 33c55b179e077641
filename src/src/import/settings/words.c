/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/words.c - the words of a key: "worker-extension-cls", "userModule" and
 * "custom_ops_library" say by them that code is named. Keys of known programs that say it by no
 * word are listed with the program. Read first: settings.h.
 */
#include "import/settings/settings.h"

enum { WORDS_MOST = 12, WORD_MOST = 24 };

typedef struct key_words {
    char words[WORDS_MOST][WORD_MOST];
    size_t count;
} key_words;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_big(char c) {
    return c >= 'A' && c <= 'Z';
}

/* At "_", "-", ".", digits and blanks, and where a capital follows a small letter. */
static void split(key_words *k, const char *key, size_t len) {
    size_t n = 0;

    k->count = 0;
    for (size_t i = 0; i <= len && k->count < WORDS_MOST; i++) {
        const bool letter = i < len && is_letter(key[i]);
        if (n > 0 && (!letter || (is_big(key[i]) && !is_big(key[i - 1])))) {
            k->words[k->count++][n] = '\0';
            n = 0;
        }
        if (letter && k->count < WORDS_MOST && n < WORD_MOST - 1) {
            k->words[k->count][n++] = (char)(key[i] | 0x20);
        }
    }
}

/* What a word says by itself. */
enum {
    CODE = 1,    /* of what is imported, made and called; no plural that models have for layers */
    RUNS = 2,    /* last: a line for a shell, or a program */
    HOLDS = 4,   /* with a place behind it: code is taken from there */
    PLACE = 8,   /* last: a place */
    ROOM = 16,   /* with "module" behind it: the name of one */
    ALLOWS = 32, /* first: with what is let in behind it */
    LET_IN = 64
};

typedef struct word {
    const char *text;
    unsigned says;
} word;

/* In byte order: searched by halves. */
static const word words[] = {
    {"addon", CODE | HOLDS},
    {"addons", CODE},
    {"agent", CODE},
    {"agents", CODE},
    {"allow", ALLOWS},
    {"app", CODE | ROOM},
    {"application", CODE},
    {"backend", CODE},
    {"builder", CODE},
    {"callable", CODE},
    {"callables", CODE},
    {"callback", CODE},
    {"callbacks", CODE},
    {"class", CODE},
    {"classes", CODE},
    {"cls", CODE},
    {"cmd", RUNS},
    {"cmds", RUNS},
    {"code", CODE | HOLDS | ROOM | LET_IN},
    {"collator", CODE},
    {"command", CODE | RUNS},
    {"commands", RUNS},
    {"constructor", CODE},
    {"creator", CODE},
    {"custom", ROOM},
    {"dangerous", LET_IN},
    {"decorator", CODE},
    {"dir", PLACE},
    {"directory", PLACE},
    {"dirs", PLACE},
    {"download", RUNS},
    {"driver", CODE},
    {"engine", CODE},
    {"entry", RUNS | ROOM},
    {"entrypoint", CODE | RUNS},
    {"entrypoints", CODE},
    {"evaluator", CODE},
    {"exec", RUNS},
    {"executable", RUNS},
    {"execute", RUNS},
    {"executor", CODE},
    {"extension", CODE | HOLDS | ROOM},
    {"extensions", CODE | HOLDS},
    {"external", ROOM},
    {"extra", CODE},
    {"factories", CODE},
    {"factory", CODE},
    {"file", PLACE},
    {"files", PLACE},
    {"fn", CODE},
    {"fns", CODE},
    {"folder", PLACE},
    {"func", CODE},
    {"funcs", CODE},
    {"function", CODE},
    {"functions", CODE},
    {"handler", CODE},
    {"handlers", CODE},
    {"hook", CODE | RUNS | HOLDS},
    {"hooks", CODE | RUNS | HOLDS},
    {"impl", CODE},
    {"implementation", CODE},
    {"implementations", CODE},
    {"import", CODE | ROOM},
    {"importer", CODE},
    {"imports", CODE},
    {"init", CODE},
    {"klass", CODE},
    {"lib", CODE | HOLDS},
    {"libraries", CODE},
    {"library", CODE | HOLDS},
    {"libs", CODE},
    {"loader", CODE | ROOM},
    {"location", PLACE},
    {"method", CODE},
    {"middleware", CODE},
    {"middlewares", CODE},
    {"module", CODE | HOLDS},
    {"network", ROOM},
    {"optimizer", CODE},
    {"parser", CODE},
    {"path", PLACE},
    {"paths", PLACE},
    {"pickle", LET_IN},
    {"plugin", CODE | HOLDS | ROOM},
    {"plugins", CODE | HOLDS},
    {"postinstall", RUNS},
    {"postprocessing", CODE},
    {"postprocessor", CODE},
    {"poststart", RUNS},
    {"preinstall", RUNS},
    {"preprocessing", CODE},
    {"preprocessor", CODE},
    {"prestart", RUNS},
    {"processor", CODE},
    {"processors", CODE},
    {"program", RUNS},
    {"provider", CODE},
    {"python", CODE | HOLDS | ROOM},
    {"registry", CODE},
    {"remote", LET_IN},
    {"repo", PLACE},
    {"repository", PLACE},
    {"resolver", CODE},
    {"reward", CODE | ROOM},
    {"rewards", CODE},
    {"root", PLACE},
    {"run", RUNS},
    {"runner", CODE},
    {"sampler", CODE},
    {"scheduler", CODE},
    {"scorer", CODE},
    {"script", CODE | RUNS | HOLDS | ROOM},
    {"scripts", CODE | RUNS | HOLDS},
    {"service", CODE},
    {"setup", CODE | RUNS},
    {"shell", RUNS},
    {"startup", RUNS},
    {"strategy", CODE},
    {"target", CODE},
    {"tool", CODE},
    {"tools", CODE},
    {"transform", CODE},
    {"transforms", CODE},
    {"trust", ALLOWS},
    {"unsafe", LET_IN},
    {"uri", PLACE},
    {"url", PLACE},
    {"user", ROOM},
    {"worker", CODE},
    {"wrapper", CODE},
};

/* strcmp(), in place: this is asked for each word of each key. */
static int compare(const char *a, const char *b) {
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

static unsigned says(const char *text) {
    size_t low = 0;
    size_t high = sizeof words / sizeof words[0];

    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = compare(text, words[middle].text);
        if (order == 0) {
            return words[middle].says;
        }
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

/* Joined by "_", in small letters. */
static void join(const key_words *k, char *out, size_t cap) {
    size_t n = 0;

    for (size_t i = 0; i < k->count; i++) {
        for (const char *p = k->words[i]; *p != '\0' && n + 2 < cap; p++) {
            out[n++] = *p;
        }
        if (i + 1 < k->count && n + 2 < cap) {
            out[n++] = '_';
        }
    }
    out[n] = '\0';
}

/* Keys of known programs, joined. In byte order. */
static const word known[] = {
    {"act",
     SFT__KEY_EVALUATED | SFT__KEY_LAYERS | SFT__KEY_ACTIVATION}, /* Ultralytics, YOLOv5: eval() */
    {"activation", SFT__KEY_EVALUATED | SFT__KEY_LAYERS | SFT__KEY_ACTIVATION}, /* the same */
    {"args", SFT__KEY_EVALUATED | SFT__KEY_METADATA},     /* Ultralytics, of exported models */
    {"backbone", SFT__KEY_EVALUATED | SFT__KEY_LAYERS},   /* the same */
    {"backend_path", SFT__KEY_LOADED | SFT__KEY_LIBRARY}, /* ONNX Runtime, QNN */
    {"base", SFT__KEY_LOADED},                            /* mmengine: _base_ */
    {"bash_env", SFT__KEY_LIBRARY},                       /* of an environment */
    {"batch", SFT__KEY_METADATA},                         /* Ultralytics, of exported models */
    {"channels", SFT__KEY_METADATA},                      /* the same */
    {"cfg", SFT__KEY_SOURCE},                             /* mmengine, in checkpoints */
    {"conv_op", SFT__KEY_NAMES_CODE},                     /* nnU-Net */
    {"custom_generate", SFT__KEY_REPOSITORY},             /* transformers */
    {"custom_op_libraries", SFT__KEY_LOADED | SFT__KEY_LIBRARY},
    {"custom_op_library", SFT__KEY_LOADED | SFT__KEY_LIBRARY},
    {"custom_ops_libraries", SFT__KEY_LOADED | SFT__KEY_LIBRARY},
    {"custom_ops_library", SFT__KEY_LOADED | SFT__KEY_LIBRARY}, /* onnxruntime-genai */
    {"download", SFT__KEY_EVALUATED | SFT__KEY_SCRIPT}, /* Ultralytics, YOLOv5: exec() or a shell */
    {"dropout_op", SFT__KEY_NAMES_CODE},                /* nnU-Net */
    {"dyld_insert_libraries", SFT__KEY_LIBRARY},        /* of an environment */
    {"files", SFT__KEY_FILES},
    {"head", SFT__KEY_EVALUATED | SFT__KEY_LAYERS},
    {"imgsz", SFT__KEY_EVALUATED | SFT__KEY_METADATA}, /* Ultralytics, of exported models: eval() */
    {"install_requires", SFT__KEY_PACKAGES},
    {"kpt_names", SFT__KEY_EVALUATED | SFT__KEY_METADATA},               /* the same */
    {"kpt_shape", SFT__KEY_EVALUATED | SFT__KEY_METADATA},               /* the same */
    {"kv_connector_module_path", SFT__KEY_NAMES_CODE | SFT__KEY_MODULE}, /* vLLM */
    {"ld_preload", SFT__KEY_LIBRARY},                                    /* of an environment */
    {"library_path", SFT__KEY_LOADED | SFT__KEY_LIBRARY},
    {"megatron_core", SFT__KEY_NAMES_CODE | SFT__KEY_MODULE}, /* peft */
    {"merges", SFT__KEY_TOKENS},
    {"model_lib", SFT__KEY_LOADED}, /* MLC-LLM */
    {"model_lib_path", SFT__KEY_LOADED},
    {"names", SFT__KEY_EVALUATED | SFT__KEY_METADATA}, /* Ultralytics, of exported models: eval() */
    {"neck", SFT__KEY_EVALUATED | SFT__KEY_LAYERS},
    {"node_options", SFT__KEY_LIBRARY},                              /* of an environment */
    {"nonlin", SFT__KEY_NAMES_CODE},                                 /* nnU-Net */
    {"norm_op", SFT__KEY_NAMES_CODE},                                /* the same */
    {"plugin_dir", SFT__KEY_LOADED | SFT__KEY_LIBRARY},              /* mmdetection3d */
    {"py_modules", SFT__KEY_LIBRARY},                                /* Ray */
    {"pythonhome", SFT__KEY_LIBRARY},                                /* of an environment */
    {"pythonpath", SFT__KEY_LIBRARY},                                /* of an environment */
    {"pythonstartup", SFT__KEY_LIBRARY},                             /* of an environment */
    {"reasoning_parser_plugin", SFT__KEY_LOADED | SFT__KEY_LIBRARY}, /* vLLM */
    {"remote_code", SFT__KEY_LOADED | SFT__KEY_REPOSITORY},          /* FunASR */
    {"requirements", SFT__KEY_PACKAGES},                             /* spaCy */
    {"stride", SFT__KEY_METADATA}, /* Ultralytics, of exported models */
    {"task", SFT__KEY_METADATA},   /* the same */
    {"tool_parser_plugin", SFT__KEY_LOADED | SFT__KEY_LIBRARY},         /* vLLM */
    {"trt_extra_plugin_lib_paths", SFT__KEY_LOADED | SFT__KEY_LIBRARY}, /* ONNX Runtime, TensorRT */
    {"type", SFT__KEY_NAMES_CODE},
    {"uses", SFT__KEY_NAMES_CODE}, /* Rasa */
    {"vocab", SFT__KEY_TOKENS},
};

static unsigned known_of(const char *key) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].text[0] == key[0] && strcmp(known[i].text, key) == 0) {
            return known[i].says;
        }
    }
    return 0;
}

unsigned sft__import_setting_key(const char *key, size_t len) {
    key_words k;
    char name[64];
    unsigned any = 0;

    split(&k, key, len);
    if (k.count == 0) {
        return 0;
    }
    const char *end = k.words[k.count - 1];
    const unsigned first = says(k.words[0]);
    const unsigned last = says(end);
    const unsigned before = k.count >= 2 ? says(k.words[k.count - 2]) : 0;
    for (size_t i = 0; i < k.count; i++) {
        any |= says(k.words[i]);
    }
    const bool entry =
        k.count >= 2 && strncmp(end, "point", 5) == 0 && strcmp(k.words[k.count - 2], "entry") == 0;
    join(&k, name, sizeof name);
    unsigned kinds = known_of(name);
    kinds |= entry || (any & CODE) != 0 ? SFT__KEY_NAMES_CODE : 0U;
    kinds |= entry || (last & RUNS) != 0 ? SFT__KEY_RUNS : 0U;
    kinds |= k.count >= 2 && (last & PLACE) != 0 && (any & HOLDS) != 0 ? SFT__KEY_PLACE : 0U;
    kinds |= strcmp(end, "module") == 0 && (before & ROOM) != 0 ? SFT__KEY_MODULE : 0U;
    kinds |=
        strncmp(end, "plugin", 6) == 0 && end[6 + (end[6] == 's')] == '\0' ? SFT__KEY_PLUGINS : 0U;
    if ((first & ALLOWS) != 0 && (any & LET_IN) != 0 && strcmp(name, "trust_remote_code") != 0) {
        kinds |= SFT__KEY_TRUSTS; /* that one is sft__import_content_trusts()'s */
    }
    return kinds;
}

/* ---------------------------------------------------------------- how words begin */

/* Of the word at key[i]. */
static unsigned start_of(const char *key, size_t len, size_t i) {
    unsigned start = 0;

    for (size_t k = i; k < i + 3; k++) {
        const bool on =
            k < len && is_letter(key[k]) && !(k > i && is_big(key[k]) && !is_big(key[k - 1]));
        start = start << 5 | (on ? (unsigned)key[k] & 31U : 0U);
        len = on ? len : k;
    }
    return start & 0x7fff;
}

void sft__import_setting_starts_add(sft__import_setting_starts *s, const char *key) {
    const size_t len = strlen(key);
    size_t i = 0;

    while (i < len && !is_letter(key[i])) {
        i++;
    }
    const unsigned start = start_of(key, len, i);
    s->bits[start / 8] |= (uint8_t)(1U << start % 8);
}

void sft__import_setting_starts_init(sft__import_setting_starts *s) {
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        sft__import_setting_starts_add(s, words[i].text);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        sft__import_setting_starts_add(s, known[i].text);
    }
}

bool sft__import_setting_may_be(const sft__import_setting_starts *s, const char *key, size_t len) {
    bool letters = false;

    for (size_t i = 0; i < len; i++) {
        if (!is_letter(key[i])) {
            continue;
        }
        letters = true;
        if (i == 0 || !is_letter(key[i - 1]) || (is_big(key[i]) && !is_big(key[i - 1]))) {
            const unsigned start = start_of(key, len, i);
            if ((s->bits[start / 8] >> start % 8 & 1) != 0) {
                return true;
            }
        }
    }
    return !letters;
}
