/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/judge.c - the verdict for a value by its key's words and its own form. Anywhere:
 * Python that imports or calls what leads out of an expression, and paths that end as libraries and
 * files of Python do. Under words that name code: "package:name", scripts, commands. Under the keys
 * of known programs that evaluate or load the value: dangerous. Read first: settings.h.
 */
#include "import/content/letters.h"
#include "import/settings/settings.h"

enum { PATH_MOST = 1024, EXTENSION_MOST = 8 };

typedef struct judging {
    const sft__import_setting *s;
    unsigned kinds; /* of the key */
    sft__import_setting_said *said;
} judging;

static uint32_t say(const judging *j, uint32_t verdict, const char *rule, const char *sentence) {
    j->said->rule = rule;
    j->said->sentence = sentence;
    return verdict;
}

static bool is_nothing(const char *p, size_t len) {
    static const char *const words[] = {"true", "True", "TRUE", "false", "False",   "FALSE", "null",
                                        "Null", "NULL", "none", "None",  "~",       "yes",   "no",
                                        "on",   "off",  "auto", "Auto",  "default", NULL};
    return len == 0 || sft__import_text_is_one(p, len, words);
}

static bool denies(const char *p, size_t len) {
    static const char *const words[] = {"false", "False", "FALSE", "no", "No", "NO",
                                        "off",   "Off",   "OFF",   "n",  "N",  "0",
                                        "null",  "none",  "None",  "~",  NULL};
    return len == 0 || sft__import_text_is_one(p, len, words);
}

/* NAME or NAME.NAME...; *dots: there are any. */
static bool is_name(const char *p, size_t len, bool *dots) {
    bool begin = true;

    *dots = false;
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '.' && !begin) {
            begin = true;
            *dots = true;
        } else if (is_letter(p[i]) || (!begin && sft__base_is_digit(p[i]))) {
            begin = false;
        } else {
            return false;
        }
    }
    return !begin;
}

/* ---------------------------------------------------------------- paths */

/* The letters behind the last dot, in small ones; 0: none, or nothing before the dot that is a name
 * ("*.py" and ".py" are no files). */
static size_t extension(char out[EXTENSION_MOST], const char *p, size_t len) {
    size_t n = 0;

    while (n < len && n < EXTENSION_MOST && p[len - 1 - n] != '.') {
        n++;
    }
    if (n + 1 >= len || n >= EXTENSION_MOST - 1 || p[len - 1 - n] != '.') {
        return 0;
    }
    const char before = p[len - n - 2];
    if (before == '*' || before == '/' || before == '\\' || is_blank(before)) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const char c = p[len - n + i];
        out[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    return n;
}

static const char *const libraries[] = {"so", "dylib", "dll", "pyd", NULL};
static const char *const pythons[] = {"py", "pyc", "pyo", "pyw", "pyx", NULL};
static const char *const scripts[] = {"sh",  "bash", "bat", "cmd", "exe", "ps1", "js",
                                      "mjs", "cjs",  "jar", "lua", "rb",  "pl",  "wasm",
                                      "ts",  "vbs",  "com", "zsh", "cu",  "cpp", NULL};

/* libx.so.1.2 */
static bool is_numbered(const char *p, size_t len) {
    char end[EXTENSION_MOST];
    size_t n = len;

    while (n > 0 && (sft__base_is_digit(p[n - 1]) || p[n - 1] == '.')) {
        n--;
    }
    return n < len && p[n] == '.' && extension(end, p, n) == 2 && memcmp(end, "so", 2) == 0;
}

typedef enum code_file { NO_CODE, LIBRARY, PYTHON, SCRIPT } code_file;

static code_file by_extension(const char *p, size_t len, bool blank) {
    char end[EXTENSION_MOST];
    const size_t n = extension(end, p, len);

    if (n == 0) {
        return NO_CODE;
    }
    if (sft__import_text_is_one(end, n, libraries) || is_numbered(p, len)) {
        return LIBRARY;
    }
    return blank                                      ? NO_CODE
           : sft__import_text_is_one(end, n, pythons) ? PYTHON
           : sft__import_text_is_one(end, n, scripts) ? SCRIPT
                                                      : NO_CODE;
}

/* One path, without blanks in it unless it is a library's; what stands behind '?', '#' is none of
 * it, and "path.py:name" names something in it. */
static code_file one_path(const char *p, size_t len) {
    const char *colon = NULL;
    bool blank = false;
    bool dot = false;
    bool dots;

    for (size_t i = 0; i < len; i++) {
        blank = blank || is_blank(p[i]);
        dot = dot || p[i] == '.';
        if (p[i] == '\n' || p[i] == '*' || p[i] == '<' || p[i] == '"') {
            return NO_CODE;
        }
        if ((p[i] == '?' || p[i] == '#') && i > 0) {
            len = i;
        }
        colon = p[i] == ':' && i > 1 && i < len ? p + i : colon;
    }
    if (!dot) {
        return NO_CODE;
    }
    if (colon != NULL && is_name(colon + 1, (size_t)(p + len - colon) - 1, &dots) && !dots) {
        len = (size_t)(colon - p);
        len -= p[len - 1] == ':';
    }
    return by_extension(p, len, blank);
}

/* A path, or several behind ';' or ',': the worst. */
static code_file paths(const char *p, size_t len) {
    code_file worst = NO_CODE;

    while (len > 0) {
        size_t n = 0;
        while (n < len && p[n] != ';' && p[n] != ',') {
            n++;
        }
        while (n > 0 && is_blank(*p)) {
            p++;
            n--;
            len--;
        }
        const code_file is = one_path(p, n);
        worst = worst == NO_CODE || (is != NO_CODE && is < worst) ? is : worst;
        p += n < len ? n + 1 : n;
        len -= n < len ? n + 1 : n;
    }
    return worst;
}

/* Without a blank in it: no prose, however long. */
static bool is_unbroken(const char *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (is_blank(p[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t judge_path(const judging *j) {
    const sft__import_setting *s = j->s;
    const code_file is =
        s->len <= PATH_MOST || is_unbroken(s->value, s->len) ? paths(s->value, s->len) : NO_CODE;

    if ((j->kinds & SFT__KEY_LOADED) != 0 && (is == LIBRARY || is == PYTHON)) {
        return say(j, SFT_SCAN_DANGEROUS, "config-path",
                   is == LIBRARY ? "a library that the loader of such a configuration loads"
                                 : "a file of Python that the loader of such a configuration runs");
    }
    if (is == LIBRARY || is == PYTHON) {
        return say(j, SFT_SCAN_UNKNOWN, "config-path",
                   is == LIBRARY
                       ? "the path of a library: whoever loads it runs it"
                       : "the path of a Python file, which loaders that know the key run");
    }
    if (is == SCRIPT && (j->kinds & (SFT__KEY_NAMES_CODE | SFT__KEY_RUNS | SFT__KEY_PLACE)) != 0) {
        return say(j, SFT_SCAN_UNKNOWN, "config-path",
                   "the path of a script, under a key that names what is run");
    }
    return SFT_SCAN_HARMLESS;
}

/* ---------------------------------------------------------------- shells */

static const char *const programs[] = {
    "bash",  "sh",    "zsh",    "dash",    "fish",       "python",  "python2", "python3",
    "pip",   "pip3",  "curl",   "wget",    "sudo",       "node",    "npm",     "npx",
    "uvx",   "uv",    "cmd",    "cmd.exe", "powershell", "pwsh",    "make",    "docker",
    "chmod", "chown", "rm",     "mv",      "cp",         "cat",     "nc",      "ncat",
    "perl",  "ruby",  "source", "git",     "ssh",        "scp",     "env",     "nohup",
    "eval",  "exec",  "deno",   "bun",     "conda",      "apt-get", "apt",     NULL};

/* A line for a shell: it begins with a program or a path, and has words behind it, or has signs
 * that join commands. */
static bool is_shell(const sft__import_setting *s) {
    static const char *const paths_of[] = {"./", "../", "~/", NULL};
    static const char *const joins[] = {"$(", "&&", " | ", "| sh", "; ", "`", NULL};
    const char *p = s->value;
    size_t n = 0;

    while (n < s->len && !is_blank(p[n])) {
        n++;
    }
    if (sft__import_text_is_one(p, n, programs)) {
        return n < s->len || n > 3 || s->listed;
    }
    return sft__import_text_starts_one(p, s->len, paths_of) ||
           (s->len > 1 && p[0] == '/' && is_letter(p[1])) ||
           sft__import_text_has_one(p, s->len, joins);
}

/* ---------------------------------------------------------------- values that are evaluated */

/* Is it an address, a path, a name or plain words: nothing that exec() makes something of? One line
 * without brackets, quotes, "=", "#" and the word "import". */
static bool is_no_script(const char *p, size_t len) {
    static const char word[] = "import";
    const size_t n = sizeof word - 1;

    if (sft__import_text_starts(p, len, "http://") || sft__import_text_starts(p, len, "https://") ||
        sft__import_text_starts(p, len, "${")) {
        return is_unbroken(p, len); /* none is Python */
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_letter(p[i]) && !sft__base_is_digit(p[i]) &&
            (p[i] == '\0' || strchr(" .,-/~:%+@&?!\\", p[i]) == NULL)) {
            return false;
        }
        if (p[i] == word[0] && len - i >= n && memcmp(p + i, word, n) == 0 &&
            (i == 0 || strchr(" .,:", p[i - 1]) != NULL) &&
            (i + n == len || strchr(" \\", p[i + n]) != NULL)) {
            return false;
        }
    }
    return true;
}

/* Ultralytics, YOLOv5: an address of a zip, "bash ...", or anything else to exec(). Lists are not
 * executed: the parts of a data set, as other programs have them. */
static uint32_t judge_download(const judging *j) {
    const sft__import_setting *s = j->s;
    const char *sentence = "a script that loaders of data sets (Ultralytics, YOLOv5) run";

    if (sft__import_text_starts(s->value, s->len, "bash ") ||
        sft__import_text_starts(s->value, s->len, "sh ") ||
        (sft__import_setting_is_wild(s->value, s->len, false) && !is_no_script(s->value, s->len))) {
        return say(j, SFT_SCAN_DANGEROUS, "config-code", sentence);
    }
    const unsigned python = sft__import_setting_python(s->value, s->len);
    const bool acts = s->listed ? (python & (SFT__PYTHON_CALLS | SFT__PYTHON_REACHES)) != 0
                                : !is_no_script(s->value, s->len);
    return acts ? say(j, SFT_SCAN_UNKNOWN, "config-code", sentence) : SFT_SCAN_HARMLESS;
}

/* nn.SiLU(), torch.nn.LeakyReLU(0.1): a layer, given nothing but numbers and words. */
static bool is_layer(const char *p, size_t len) {
    const size_t skip = sft__import_text_starts(p, len, "torch.nn.") ? 9
                        : sft__import_text_starts(p, len, "nn.")     ? 3
                                                                     : 0;
    size_t i = skip;

    while (i < len && (is_letter(p[i]) || sft__base_is_digit(p[i]))) {
        i++;
    }
    if (skip != 0 && !(p[skip] >= 'A' && p[skip] <= 'Z')) {
        return false;
    }
    if (skip == 0 || i == skip || i == len || p[i] != '(' || p[len - 1] != ')') {
        return skip != 0 && i == len && i > skip;
    }
    for (i++; i + 1 < len; i++) {
        if (!is_letter(p[i]) && !sft__base_is_digit(p[i]) && memchr(".,= -+", p[i], 6) == NULL) {
            return false;
        }
    }
    return true;
}

/* nn.functional.silu, jax.nn.gelu: a function that computes. */
static bool is_computing(const char *p, size_t len) {
    /* clang-format off */
    static const char *const rooms[] = {
        "F.", "nn.functional.", "torch.nn.functional.", "jax.nn.", "flax.linen.",
        "keras.activations.", "tf.nn.", "jnp.", "tf.keras.activations.", "mx.nn.",
        "paddle.nn.functional."};
    /* clang-format on */
    bool dots;

    static const char *const plain[] = {"relu",    "tanh", "sigmoid", "selu", "celu", "rrelu",
                                        "softmax", "erf",  "exp",     "sin",  "cos",  NULL};
    if (sft__import_text_starts(p, len, "torch.") &&
        sft__import_text_is_one(p + 6, len - 6, plain)) {
        return true;
    }
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        const size_t n = strlen(rooms[i]);
        if (sft__import_text_starts(p, len, rooms[i]) && is_name(p + n, len - n, &dots) && !dots &&
            p[n] != '_') {
            return true;
        }
    }
    return false;
}

/* attempt_load, check_requirements, exit: a function by its words, where layers are named. */
static bool is_acting(const char *p, size_t len) {
    /* clang-format off */
    static const char *const verbs[] = {
        "load", "loads", "download", "install", "requirements", "exit", "quit", "input", "exec",
        "eval", "import", "system", "breakpoint", "open", "run", "compile", "popen", "setattr",
        "delattr", "getattr", "globals", "hub", "check", "export", "spawn", "__import__",
        "DetectMultiBackend", "AutoBackend", "YOLO", NULL};
    /* clang-format on */
    bool dots;
    size_t from = 0;

    if (!is_name(p, len, &dots) || dots) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        if (i == len || (p[i] == '_' && p[0] != '_')) {
            if (i > from && sft__import_text_is_one(p + from, i - from, verbs)) {
                return true;
            }
            from = i + 1;
        }
    }
    return false;
}

/* What a layer is given: an address, or a file of weights. */
static bool is_fetched(const char *p, size_t len) {
    static const char *const weights[] = {"pt",   "pth",    "pkl",   "pickle",
                                          "ckpt", "joblib", "torch", NULL};
    char end[EXTENSION_MOST];
    const size_t n = len <= PATH_MOST ? extension(end, p, len) : 0;

    return sft__import_text_has(p, len, "://") ||
           (n != 0 && sft__import_text_is_one(end, n, weights));
}

/* One word of a list of layers, or a function for what they compute: evaluated, and called. */
static uint32_t judge_layer(const judging *j) {
    const sft__import_setting *s = j->s;
    const char *sentence = "a name that loaders of such configurations evaluate and call";
    const bool function = (s->kinds & SFT__KEY_ACTIVATION) != 0;
    bool dots;

    if (function && is_name(s->value, s->len, &dots) && dots) {
        const char *other;
        return is_computing(s->value, s->len)
                   ? SFT_SCAN_HARMLESS
                   : say(j, sft__import_content_target("cls", 3, s->value, s->len, false, &other),
                         "config-code", sentence);
    }
    if (!s->listed) {
        return SFT_SCAN_HARMLESS;
    }
    if (sft__import_text_starts(s->value, s->len, "torchvision.ops.") && s->len > 16 &&
        is_name(s->value + 16, s->len - 16, &dots) && !dots && s->value[16] <= 'Z') {
        return SFT_SCAN_HARMLESS; /* a class of those layers */
    }
    if (is_name(s->value, s->len, &dots) && dots) {
        return say(j, sft__import_content_dotted(s->value, s->len), "config-code", sentence);
    }
    if (is_acting(s->value, s->len)) {
        return say(j, SFT_SCAN_UNKNOWN, "config-code", sentence);
    }
    return is_fetched(s->value, s->len)
               ? say(j, SFT_SCAN_UNKNOWN, "config-code",
                     "an address or a file of weights among what layers are given")
               : SFT_SCAN_HARMLESS;
}

/* Lines, calls or imports, not the name of a file. */
static uint32_t judge_source(const judging *j) {
    const sft__import_setting *s = j->s;

    if (s->listed ||
        (memchr(s->value, '(', s->len) == NULL && memchr(s->value, '\n', s->len) == NULL &&
         !sft__import_text_starts(s->value, s->len, "import ") &&
         memchr(s->value, '=', s->len) == NULL)) {
        return SFT_SCAN_HARMLESS;
    }
    return say(j, sft__import_setting_source(s->value, s->len), "config-code",
               "a configuration that is Python, which mmengine executes");
}

static uint32_t judge_evaluated(const judging *j) {
    static const char *const functions[] = {"eval",       "exec",  "open",    "compile",
                                            "__import__", "input", "getattr", "globals",
                                            "breakpoint", NULL};
    const sft__import_setting *s = j->s;
    const unsigned python = sft__import_setting_python(s->value, s->len);

    if ((s->kinds & SFT__KEY_SCRIPT) != 0) {
        return judge_download(j);
    }
    const bool layers = (s->kinds & SFT__KEY_LAYERS) != 0;
    if ((python & SFT__PYTHON_REACHES) != 0 ||
        (sft__import_setting_is_wild(s->value, s->len, false) &&
         memchr(s->value, '(', s->len) != NULL) ||
        (layers && sft__import_text_is_one(s->value, s->len, functions))) {
        return say(j, SFT_SCAN_DANGEROUS, "config-code",
                   "Python that loaders of such configurations (YOLOv5, Ultralytics) evaluate");
    }
    if (is_layer(s->value, s->len)) {
        return SFT_SCAN_HARMLESS;
    }
    const uint32_t verdict = layers ? judge_layer(j) : SFT_SCAN_HARMLESS;
    if (verdict != SFT_SCAN_HARMLESS) {
        return verdict;
    }
    return (python & SFT__PYTHON_CALLS) != 0 ||
                   ((python & SFT__PYTHON_SPACED) != 0 && (layers || !s->listed))
               ? say(j, SFT_SCAN_UNKNOWN, "config-code",
                     "Python that loaders of such configurations evaluate")
               : SFT_SCAN_HARMLESS;
}

/* ---------------------------------------------------------------- what names code */

/* "package.module:name" */
static bool is_named(const char *p, size_t len) {
    const char *colon = memchr(p, ':', len);
    bool dots;

    return colon != NULL && is_name(p, (size_t)(colon - p), &dots) &&
           is_name(colon + 1, len - (size_t)(colon - p) - 1, &dots);
}

/* "--plugin evil.so", "evil.py --x": a file of code among the words of a line. */
static bool has_code_word(const sft__import_setting *s, bool python) {
    size_t from = 0;

    for (size_t i = 0; i <= s->len; i++) {
        if (i < s->len && !is_blank(s->value[i]) && s->value[i] != '=') {
            continue;
        }
        const code_file is = i > from ? one_path(s->value + from, i - from) : NO_CODE;
        if (is == LIBRARY || (is != NO_CODE && python)) {
            return true;
        }
        from = i + 1;
    }
    return false;
}

/* A line that runs something, whatever its key. */
static bool is_command(const sft__import_setting *s) {
    static const char *const begins[] = {"sh -c ",      "bash -c ",    "/bin/sh ",   "/bin/bash ",
                                         "python -c ",  "python3 -c ", "python -m ", "python3 -m ",
                                         "curl http",   "wget http",   "cmd /c ",    "cmd.exe ",
                                         "powershell ", NULL};
    return sft__import_text_starts_one(s->value, s->len, begins) ||
           (s->value[0] == '-' && s->len <= PATH_MOST && has_code_word(s, true));
}

/* "python:evil.mod", and "package.module:name" where the package is no server's. */
static bool is_module_named(const sft__import_setting *s) {
    static const char *const hosts[] = {"com",         "org",  "net",  "io",  "ai", "local",
                                        "localdomain", "json", "yaml", "yml", NULL};
    const size_t skip = sft__import_text_starts(s->value, s->len, "python:") ? 7
                        : sft__import_text_starts(s->value, s->len, "py:")   ? 3
                                                                             : 0;
    const char *colon = memchr(s->value, ':', s->len);
    bool dots;

    if (skip != 0) {
        return is_name(s->value + skip, s->len - skip, &dots) && dots;
    }
    if (colon == NULL || !is_named(s->value, s->len) ||
        memchr(s->value, '.', (size_t)(colon - s->value)) == NULL) {
        return false;
    }
    const char *last = colon;
    while (last[-1] != '.') {
        last--;
    }
    return !sft__import_text_is_one(last, (size_t)(colon - last), hosts);
}

/* "ext://package.name" of logging.config is imported, whatever its key; "ext://sys.stdout" is in
 * every other such file. */
static uint32_t judge_external(const judging *j) {
    static const char *const streams[] = {"sys.stdout", "sys.stderr", "sys.stdin", NULL};
    const char *name = j->s->value + 6;
    const size_t len = j->s->len - 6;

    return sft__import_text_is_one(name, len, streams)
               ? SFT_SCAN_HARMLESS
               : say(j, sft__import_content_dotted(name, len), "config-target",
                     "a name of Python's, which logging.config and its like import");
}

static uint32_t judge_named(const judging *j) {
    const sft__import_setting *s = j->s;
    bool dots = false;
    const bool name = is_name(s->value, s->len, &dots);

    if (is_module_named(s) ||
        ((j->kinds & SFT__KEY_NAMES_CODE) != 0 && is_named(s->value, s->len))) {
        return say(j, SFT_SCAN_UNKNOWN, "config-target",
                   "a name of Python's, which loaders that know the key import and call");
    }
    if ((j->kinds & (SFT__KEY_MODULE | SFT__KEY_PLUGINS)) != 0 && name && !dots) {
        return say(j, SFT_SCAN_UNKNOWN, "config-target",
                   "the name of a module or plugin, which loaders that know the key import");
    }
    if ((j->kinds & SFT__KEY_LIBRARY) != 0) {
        return say(j, SFT_SCAN_UNKNOWN, "config-path",
                   "what the loader of such a configuration loads as a library or runs");
    }
    if ((j->kinds & SFT__KEY_PLACE) != 0 &&
        (memchr(s->value, '/', s->len) != NULL || memchr(s->value, '\\', s->len) != NULL)) {
        return say(j, SFT_SCAN_UNKNOWN, "config-path", "a place that code is taken from");
    }
    if (is_command(s)) {
        return say(j, SFT_SCAN_UNKNOWN, "config-code", "a command");
    }
    if ((j->kinds & (SFT__KEY_NAMES_CODE | SFT__KEY_RUNS)) != 0 &&
        sft__import_text_starts(s->value, s->len, "import ") &&
        is_name(s->value + 7, s->len - 7, &dots)) {
        return say(j, SFT_SCAN_UNKNOWN, "config-code", "Python, under a key that names code");
    }
    if ((j->kinds & SFT__KEY_RUNS) != 0 &&
        (is_shell(s) || (s->len <= PATH_MOST && has_code_word(s, true)))) {
        return say(j, SFT_SCAN_UNKNOWN, "config-code", "a command, under a key that says so");
    }
    return SFT_SCAN_HARMLESS;
}

/* Words, numbers, a path without an ending: nothing that any key but a few would make something of.
 */
static bool is_plain(const sft__import_setting *s) {
    for (size_t i = 0; i < s->len; i++) {
        const char c = s->value[i];
        if (c == '.' || c == '(' || c == ';' || c == '\n' || c == '$' || c == ':') {
            return false;
        }
    }
    return (s->kinds & ~(unsigned)SFT__KEY_METADATA) == 0 && (s->len < 8 || !is_command(s)) &&
           (s->len < 12 || !sft__import_text_has(s->value, s->len, "import "));
}

uint32_t sft__import_setting_judge(const sft__import_setting *s, sft__import_setting_said *said) {
    static const char *const elsewhere[] = {"://", "git+", " @", NULL};
    sft__import_setting t = *s;

    if (is_plain(s) || (s->kinds & SFT__KEY_TOKENS) != 0) {
        return SFT_SCAN_HARMLESS;
    }
    while (t.len > 0 && is_blank(*t.value)) {
        t.value++;
        t.len--;
    }
    while (t.len > 0 && is_blank(t.value[t.len - 1])) {
        t.len--;
    }
    const judging j = {&t, t.kinds, said};
    if ((j.kinds & SFT__KEY_TRUSTS) != 0 && !denies(t.value, t.len)) {
        return say(&j, SFT_SCAN_UNKNOWN, "remote-code",
                   "allows a loader to run code beside the model, or out of pickles");
    }
    if (is_nothing(t.value, t.len) || (t.listed && (j.kinds & SFT__KEY_FILES) != 0)) {
        return SFT_SCAN_HARMLESS;
    }
    if (sft__import_text_starts(t.value, t.len, "pkg://") && t.len > 6) {
        return say(&j, SFT_SCAN_UNKNOWN, "config-target", "a package that hydra imports");
    }
    if (sft__import_text_starts(t.value, t.len, "ext://") && t.len > 6) {
        return judge_external(&j);
    }
    if ((j.kinds & SFT__KEY_PACKAGES) != 0 && sft__import_text_has_one(t.value, t.len, elsewhere)) {
        return say(&j, SFT_SCAN_UNKNOWN, "remote-code",
                   "a package that is installed from elsewhere");
    }
    uint32_t verdict = SFT_SCAN_HARMLESS;
    if ((j.kinds & SFT__KEY_SOURCE) != 0) {
        verdict = judge_source(&j);
    }
    if (verdict == SFT_SCAN_HARMLESS && (j.kinds & SFT__KEY_EVALUATED) != 0) {
        verdict = judge_evaluated(&j);
    }
    if (verdict == SFT_SCAN_HARMLESS) {
        verdict = judge_path(&j);
    }
    if (verdict != SFT_SCAN_HARMLESS) {
        return verdict;
    }
    if ((j.kinds & SFT__KEY_REPOSITORY) != 0) {
        return say(&j, SFT_SCAN_UNKNOWN, "remote-code",
                   "names code that is fetched from elsewhere or lies beside the model");
    }
    if ((sft__import_setting_python(t.value, t.len) & SFT__PYTHON_REACHES) != 0 ||
        (sft__import_text_starts(t.value, t.len, "${") &&
         sft__import_setting_is_wild(t.value, t.len, false))) {
        return say(&j, SFT_SCAN_UNKNOWN, "config-code",
                   "Python that imports or opens something: whoever evaluates the value runs it");
    }
    return judge_named(&j);
}
