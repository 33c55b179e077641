/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/targets.c - values of configurations that loaders import, and mostly call: by keys
 * that mean nothing else (hydra's _target_), by everyday keys if the value is a name of Python's
 * (latent diffusion's target), and by any key if it is the name of a class in a module (pyannote's
 * name, haystack's type). What PyTorch computes with, and the classes of frameworks whose models
 * are made by such words, are no findings. JSON and YAML ask the same list. Read first: content.h.
 */
#include "import/content/content.h"
#include "import/pickle/globals.h"
#include "import/settings/settings.h"

/* Keys that mean nothing else. */
const char *const sft__import_content_targets[] = {"_target_",
                                                   "__target__",
                                                   "class_path",
                                                   "_component_",
                                                   "custom_imports",
                                                   "loader_module",
                                                   "python_callable",
                                                   "import_string",
                                                   "user_dir",
                                                   "_instantiator",
                                                   "()",
                                                   NULL};

/* Everyday words: only names with dots count. */
static const char *const everyday[] = {"target",
                                       "class",
                                       "cls",
                                       "klass",
                                       "callable",
                                       "factory",
                                       "entry_point",
                                       "entrypoint",
                                       "import",
                                       "imports",
                                       "import_path",
                                       "module_path",
                                       "module_name",
                                       "plugin",
                                       "python_module",
                                       "model_class",
                                       "activation_fn",
                                       "callback",
                                       "plugins",
                                       "activation_function",
                                       "handler",
                                       "score_fn",
                                       "loss_fn",
                                       "collate_fn",
                                       "callbacks",
                                       "extensions",
                                       NULL};

/* Ends of names of files, which no function has. */
static const char *const files[] = {
    "json",  "jsonl", "csv", "tsv", "txt", "md",  "yaml", "yml", "safetensors", "parquet", "bin",
    "model", "pt",    "pth", "npy", "npz", "png", "jpg",  "wav", "arrow",       "onnx",    "gguf",
    "h5",    "so",    "out", "com", "org", "io",  "zip",  "gz",  "vocab",       NULL};

/* Modules that reach the operating system or the interpreter. */
static const char *const roots[] = {
    "os",          "posix",     "nt",     "sys",  "subprocess", "builtins",
    "__builtin__", "importlib", "runpy",  "pty",  "ctypes",     "shutil",
    "commands",    "socket",    "pickle", "code", "cPickle",    "marshal",
    "posixpath",   "pdb",       "timeit", "pip",  NULL};

static bool is(const char *p, size_t len, const char *word) {
    return strlen(word) == len && memcmp(p, word, len) == 0;
}

static bool is_small(char c) {
    return c >= 'a' && c <= 'z';
}

static bool is_big(char c) {
    return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c) {
    return is_small(c) || is_big(c) || c == '_' || (c & 0x80) != 0;
}

/* NAME.NAME..., as Python has it. *parts: how many; *last: where the last begins. */
static bool is_dotted(const char *p, size_t len, unsigned *parts, size_t *last) {
    bool begin = true;

    *parts = 1;
    *last = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '.' && !begin) {
            begin = true;
            *last = i + 1;
            ++*parts;
        } else if (is_letter(p[i]) || (!begin && p[i] >= '0' && p[i] <= '9')) {
            begin = false;
        } else {
            return false;
        }
    }
    return !begin && *parts > 1;
}

/* Is each part but the last a plain name of a module, that leads nowhere else? */
static bool is_straight(const char *p, size_t last) {
    for (size_t i = 0; i < last;) {
        const char *dot = memchr(p + i, '.', last - i);
        const size_t n = (size_t)(dot - (p + i));
        for (size_t j = 0; j < n; j++) {
            if (!is_small(p[i + j]) &&
                !(j > 0 && (p[i + j] == '_' || (p[i + j] >= '0' && p[i + j] <= '9')))) {
                return false;
            }
        }
        if (sft__import_text_is_one(p + i, n, roots) || sft__import_text_starts(p + i, n, "__")) {
            return false;
        }
        i += n + 1;
    }
    return true;
}

/* Does it reach, through a module that the package has imported, something of Python's own?
 * "torch.optim.lr_scheduler.types.FunctionType". Packages of that name within frameworks are none.
 */
static bool passes_python(const char *p, size_t len) {
    static const char *const own[] = {"nemo.collections.", "pyannote.audio.core.io."};
    size_t i = 0;

    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) {
        i = sft__import_text_starts(p, len, own[k]) ? strlen(own[k]) : i;
    }
    for (; i < len; i++) {
        const char *dot = p[i] == '.' ? memchr(p + i + 1, '.', len - i - 1) : NULL;
        if (dot != NULL && sft__import_global_is_standard(p + i + 1, (size_t)(dot - p) - i - 1)) {
            return true;
        }
    }
    return false;
}

/* Classes of PyTorch and of frameworks that make models by such words; what computes. */
static bool is_known(const char *p, size_t len, unsigned parts, size_t last) {
    static const char *const classes[] = {"torch.nn.",
                                          "torch.optim.",
                                          "torchvision.models.",
                                          "torchvision.transforms.",
                                          "transformers.",
                                          "diffusers.",
                                          "ldm.models.",
                                          "ldm.modules.",
                                          "ldm.lr_scheduler.",
                                          "sgm.models.",
                                          "sgm.modules.",
                                          "sgm.lr_scheduler.",
                                          "nemo.collections.",
                                          "pyannote.audio.",
                                          "timm.models.",
                                          "ktransformers.operators.",
                                          "sentence_transformers.",
                                          "monai.networks.",
                                          "bitsandbytes.optim.",
                                          "torchao.",
                                          NULL};
    static const char *const counts[] = {"add", "sub", "mul",  "floordiv", "truediv", "mod", "pow",
                                         "neg", "pos", "eq",   "ne",       "ge",      "gt",  "le",
                                         "lt",  "abs", "and_", "or_",      "not_",    NULL};

    if ((!is_straight(p, last) && !sft__import_text_starts(p, len, "_operator.")) ||
        passes_python(p, len)) {
        return false;
    }
    for (size_t i = 0; is_big(p[last]) && classes[i] != NULL; i++) {
        if (sft__import_text_starts(p, len, classes[i])) {
            return true;
        }
    }
    static const char *const whole[] = {
        "torchtune.models.",   "torchtune.modules.", "torchtune.data.",      "torchtune.datasets.",
        "torchtune.training.", "torchtune.rlhf.",    "torch.nn.functional.", NULL};
    for (size_t i = 0; p[last] != '_' && whole[i] != NULL; i++) {
        if (sft__import_text_starts(p, last, whole[i])) {
            return true;
        }
    }
    const bool plain =
        parts == 2 && sft__import_content_global(p, last - 1, p + last, len - last) ==
                          SFT_SCAN_HARMLESS; /* torch.bfloat16 */
    return plain || (len == 13 && memcmp(p, "megatron.core", len) == 0) ||
           (len == 11 && memcmp(p, "torch.dtype", len) == 0) || /* torchao: of a dtype's name */
           (parts == 2 && sft__import_text_starts(p, len, "math.")) ||
           (parts == 2 &&
            (sft__import_text_starts(p, len, "_operator.") ||
             sft__import_text_starts(p, len, "operator.")) &&
            sft__import_text_is_one(p + last, len - last, counts)) ||
           (parts == 2 && (sft__import_text_starts(p, len, "torch.sym_") ||
                           sft__import_text_starts(p, len, "torch._sym_")));
}

/* torch.ops.LIBRARY.OPERATOR.OVERLOAD of the libraries that PyTorch has itself, as exported
 * programs name what they compute with. What opens a file, and what calls an object's own code, is
 * none. */
static bool is_operator(const char *p, size_t len, unsigned parts) {
    static const char *const libraries[] = {
        "torch.ops.aten.",         "torch.ops.prims.",           "torch.ops.prim.",
        "torch.ops.quantized.",    "torch.ops._quantized.",      "torch.ops.quantized_decomposed.",
        "torch.ops.torchvision.",  "torch.ops.torchaudio.",      "torch.ops.torchao.",
        "torch.ops.higher_order.", "torch.ops.onednn.",          "torch.ops.mkldnn.",
        "torch.ops.inductor.",     "torch.ops._c10d_functional."};

    if (parts < 4 || sft__import_text_has(p, len, "from_file") ||
        sft__import_text_has(p, len, "torchbind") || sft__import_text_has(p, len, "__")) {
        return false;
    }
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        if (sft__import_text_starts(p, len, libraries[i])) {
            return true;
        }
    }
    return false;
}

/* Of all readings of the dots the worst, except that PyTorch's modules are its own: there only what
 * is said of the function itself counts. */
static uint32_t verdict_of(const char *p, size_t len, size_t last) {
    const uint32_t worst = sft__import_content_dotted(p, len);
    const sft__import_global *row = sft__import_global_find(p, last - 1, p + last, len - last);

    if (row != NULL && row->known == SFT__G_TENSOR_CLASS) { /* {"_type": ...}, as torchao has it */
        return SFT_SCAN_HARMLESS;
    }
    if (sft__import_text_starts(p, len, "torch.") && passes_python(p, len)) {
        return SFT_SCAN_DANGEROUS;
    }
    if (worst == SFT_SCAN_DANGEROUS && sft__import_text_starts(p, len, "torch.") &&
        is_straight(p, last) && p[last] != '_') {
        return sft__import_content_global(p, last - 1, p + last, len - last) == SFT_SCAN_DANGEROUS
                   ? SFT_SCAN_DANGEROUS
                   : SFT_SCAN_UNKNOWN;
    }
    return worst;
}

/* What logging.config makes by the key "class" or "()": what only formats or prints is harmless,
 * what opens files and connections is nobody's to vouch for. */
static bool is_logging(const char *p, size_t len, uint32_t *verdict) {
    static const char *const quiet[] = {"logging.StreamHandler",
                                        "logging.NullHandler",
                                        "logging.Formatter",
                                        "logging.Filter",
                                        "uvicorn.logging.DefaultFormatter",
                                        "uvicorn.logging.AccessFormatter",
                                        "colorlog.ColoredFormatter",
                                        "coloredlogs.ColoredFormatter",
                                        "pythonjsonlogger.jsonlogger.JsonFormatter",
                                        "pythonjsonlogger.json.JsonFormatter",
                                        NULL};

    *verdict = sft__import_text_is_one(p, len, quiet) ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
    if (*verdict == SFT_SCAN_HARMLESS) {
        return true;
    }
    return sft__import_text_starts(p, len, "logging.") && memchr(p, '_', len) == NULL &&
           (*verdict == SFT_SCAN_HARMLESS || (len > 15 && memcmp(p + len - 7, "Handler", 7) == 0));
}

/* "model.embed_tokens", "self_attn.q_proj": a part of a network, as settings of quantizers and
 * adapters name it. */
static bool is_layer(const char *p, size_t len) {
    static const char *const begins[] = {"model.",
                                         "layers.",
                                         "transformer.",
                                         "encoder.",
                                         "decoder.",
                                         "self_attn.",
                                         "mlp.",
                                         "attn.",
                                         "attention.",
                                         "lm_head.",
                                         "backbone.",
                                         "visual.",
                                         "vision_model.",
                                         "vision_tower.",
                                         "text_model.",
                                         "language_model.",
                                         "block.",
                                         "blocks.",
                                         "block_sparse_moe.",
                                         "cross_attn.",
                                         "linear_attn.",
                                         "audio_tower.",
                                         "experts.",
                                         NULL};

    for (size_t i = 0; begins[i] != NULL; i++) {
        if (sft__import_text_starts(p, len, begins[i])) {
            return true;
        }
    }
    return false;
}

/* "type: chat_template.default": a data set's strategy of axolotl's, and no module. */
static bool is_strategy(const char *p, size_t len) {
    static const char *const begins[] = {
        "chat_template.", "chatml.", "llama3.", "bradley_terry.", "zephyr.", "passthrough.",
        "user_defined.",  "ebft_",   "alpaca.", "sharegpt.",      NULL};

    for (size_t i = 0; begins[i] != NULL; i++) {
        if (sft__import_text_starts(p, len, begins[i])) {
            return true;
        }
    }
    return false;
}

/* "keras.layers", "transformers.models.bert": a module of a framework; other rules ask what is
 * taken from it. */
static bool is_part_of(const char *p, size_t len) {
    static const char *const modules[] = {"keras.",
                                          "tf_keras.",
                                          "tensorflow.keras.",
                                          "tensorflow.python.keras.",
                                          "transformers.",
                                          "diffusers.",
                                          "torch.nn",
                                          "sentence_transformers.",
                                          "peft.",
                                          "timm.",
                                          "torchvision.",
                                          "pyannote.audio.",
                                          NULL};

    for (size_t i = 0; modules[i] != NULL; i++) {
        if (sft__import_text_starts(p, len, modules[i])) {
            return !passes_python(p, len);
        }
    }
    return false;
}

/* Do the key's words say that the dotted value is code? */
static bool names_code(const char *key, size_t key_len, const char *value, size_t len,
                       bool by_key) {
    const bool type = key_len == 4 && memcmp(key, "type", 4) == 0;

    if (sft__import_text_is_one(key, key_len, everyday)) {
        return !sft__import_text_has(key, key_len, "module") || !is_layer(value, len);
    }
    if (key_len == 13 && memcmp(key, "build-backend", 13) == 0) {
        return false; /* of pyproject.toml, which is a finding by its name */
    }
    if ((sft__import_setting_key(key, key_len) & SFT__KEY_NAMES_CODE) == 0 ||
        (type && (by_key || is_strategy(value, len) || is_layer(value, len)))) {
        return false;
    }
    const bool module = sft__import_text_has(key, key_len, "odule") ||
                        sft__import_text_has(key, key_len, "library");
    return !module || (!is_layer(value, len) && !is_part_of(value, len));
}

static bool is_nothing(const char *p, size_t len) {
    static const char *const words[] = {"~", "null", "Null", "NULL", "none", "None", NULL};
    return len == 0 || sft__import_text_is_one(p, len, words);
}

/* Is it, under no key that says so, what only code is called? */
static bool is_odd(const char *value, size_t len, size_t last, const char **sentence) {
    const size_t first = (size_t)((const char *)memchr(value, '.', len) - value);

    if (sft__import_text_is_one(value, first, roots)) {
        *sentence = "a function of Python's own: no setting, unless something is to call it";
        return true;
    }
    if (sft__import_text_is_one(value + last, len - last, roots)) {
        *sentence = "a module of Python's own, by the name that a package gives it";
        return true;
    }
    *sentence = "a class in a module, which whoever makes one of it imports";
    return is_big(value[last]) && is_small(value[last - 2]) && len - last > 2;
}

/* A name that is imported, but not called: what type checkers, packagers and test runners list as
 * modules and plugins ("pandas.io.sql"). Nor is a class by the everyday word "type", by which
 * documents and schemas tell kinds. What reaches the operating system is none of these. */
static bool is_not_called(const char *key, size_t key_len, const char *value, size_t len,
                          size_t last) {
    const size_t first = (size_t)((const char *)memchr(value, '.', len) - value);
    const bool standard = sft__import_global_is_standard(value, first);
    const bool lists = sft__import_text_has(key, key_len, "odule") ||
                       sft__import_text_has(key, key_len, "lugin") ||
                       sft__import_text_has(key, key_len, "ackage");

    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && value[i + n] != '.') {
            n++;
        }
        if (sft__import_text_is_one(value + i, n, roots)) {
            return false;
        }
        i += n + 1;
    }
    return lists ? !standard : is(key, key_len, "type") && standard && is_big(value[last]);
}

uint32_t sft__import_content_target(const char *key, size_t key_len, const char *value, size_t len,
                                    bool by_key, const char **sentence) {
    unsigned parts = 0;
    size_t last = 0;
    if (is(key, key_len, "()") &&
        sft__import_text_starts(value, len, "ext://")) { /* logging.config */
        value += 6;
        len -= 6;
    }
    const bool dotted =
        len > 2 && memchr(value, '.', len) != NULL && is_dotted(value, len, &parts, &last);
    const bool always =
        key_len != 0 && sft__import_text_is_one(key, key_len, sft__import_content_targets);
    const bool called =
        always || (dotted && key_len != 0 && names_code(key, key_len, value, len, by_key));
    uint32_t verdict;

    *sentence = always
                    ? "what hydra, Lightning, torchtune, MLflow or mmengine would import and call"
                    : "a name of Python's, which loaders that know the key import and call";
    if (!called && (!dotted || by_key || !is_odd(value, len, last, sentence))) {
        return SFT_SCAN_HARMLESS;
    }
    static const char *const makers[] = {"lightning.pytorch.cli.instantiate_module",
                                         "pytorch_lightning.cli.instantiate_module", NULL};
    if (is(key, key_len, "_instantiator") && sft__import_text_is_one(value, len, makers)) {
        return SFT_SCAN_HARMLESS; /* what LightningCLI notes in each checkpoint */
    }
    if (always &&
        (is_nothing(value, len) || (sft__import_text_starts(key, key_len, "loader_module") &&
                                    sft__import_text_starts(value, len, "mlflow.")))) {
        return SFT_SCAN_HARMLESS;
    }
    const bool made = is(key, key_len, "implementation"); /* MLServer: "evil.model" */
    if (dotted && ((!always && !made && sft__import_text_is_one(value + last, len - last, files)) ||
                   is_known(value, len, parts, last) || is_operator(value, len, parts))) {
        return SFT_SCAN_HARMLESS;
    }
    if (dotted && (is(key, key_len, "class") || is(key, key_len, "()")) &&
        is_logging(value, len, &verdict)) {
        return verdict;
    }
    verdict = dotted ? verdict_of(value, len, last) : sft__import_content_dotted(value, len);
    if (verdict == SFT_SCAN_DANGEROUS && dotted && !always &&
        is_not_called(key, key_len, value, len, last)) {
        return SFT_SCAN_UNKNOWN;
    }
    return called || sft__import_text_is_one(
                         value, (size_t)((const char *)memchr(value, '.', len) - value), roots)
               ? verdict
               : SFT_SCAN_UNKNOWN;
}

bool sft__import_content_trusts(const char *key, size_t key_len, const char *value, size_t len) {
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off",
                                     "OFF",   "n",     "N",     "0",  "[]", "{}", NULL};
    static const char name[] = "trust_remote_code";

    return key_len == sizeof name - 1 && memcmp(key, name, key_len) == 0 &&
           !is_nothing(value, len) && !sft__import_text_is_one(value, len, no);
}

bool sft__import_content_breaks_out(const char *text, size_t len) {
    static const char *const words[] = {
        "__globals__", "__subclasses__", "__import__", "__builtins__", "__mro__",
        "__class__",   "|attr(",         "| attr(",    "\\x5f\\x5f",   "\\u005f\\u005f",
        "\\137\\137",  "lipsum[",        "cycler[",    "joiner["};

    if (len < 12 ||
        (!sft__import_text_has(text, len, "{{") && !sft__import_text_has(text, len, "{%"))) {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (sft__import_text_has(text, len, words[i])) {
            return true;
        }
    }
    return false;
}

bool sft__import_content_has_target(const char *text, size_t len) {
    static const char *const words[] = {"_target_", "class_path", "_component_", "auto_map"};
    const char *end = text + len;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i]);
        for (const char *p = text; (size_t)(end - p) > n; p++) {
            p = memchr(p, words[i][0], (size_t)(end - p) - n);
            if (p == NULL) {
                break;
            }
            if (p == text || p[-1] != '"' || memcmp(p, words[i], n) != 0) {
                continue;
            }
            const char *q = p + n;
            while (q < end && *q == '\\') { /* JSON in a text of JSON, and so on */
                q++;
            }
            if (q == end || *q != '"') {
                continue;
            }
            for (q++; q < end && memchr(" \t\r\n", *q, 4) != NULL; q++) {
            }
            if (q < end && *q == ':') {
                return true;
            }
        }
    }
    return sft__import_text_has(text, len, "\"py/");
}
