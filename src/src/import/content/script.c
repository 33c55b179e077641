/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/script.c - the code of TorchScript archives (files called *.py in code/): Python
 * by its looks, but compiled by TorchScript itself, which knows nothing but operators. Harmless is
 * code that calls operators of computation alone; those that write or read files, and those of
 * libraries that are not PyTorch's, are findings. So are those that the lite interpreter's
 * bytecode.pkl names. Read first: content.h.
 */
#include "import/content/content.h"

enum { CHAIN = 256 };

typedef struct reading {
    const sft__import_content *c;
    const char *p;
    const char *end;
} reading;

static bool is_word(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_';
}

static bool is_one_of(const char *text, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static void say(const reading *r, uint32_t verdict, const char *at, const char *chain,
                const char *sentence) {
    sft__import_content_find(r->c, verdict, "torchscript-code",
                             (size_t)(at - (const char *)r->c->data), chain, strlen(chain),
                             sentence);
}

/* Operators by their last name that touch files or processes, in any namespace. */
static const char *const acting[] = {
    "save",       "load",      "from_file",    "_save",      "_load",     "read_file",
    "write_file", "system",    "popen",        "rpc_sync",   "rpc_async", "rpc_remote",
    "remote",     "_cuda_ipc", "load_library", "save_torch", NULL};

static const char *const spaces[] = {"aten",
                                     "prim",
                                     "quantized",
                                     "_quantized",
                                     "prepacked",
                                     "prims",
                                     "inductor",
                                     "sparse",
                                     "mkldnn",
                                     "mkldnn_prepacked",
                                     "onednn",
                                     "xnnpack",
                                     "quantized_decomposed",
                                     "tensorexpr",
                                     NULL};

static const char *const vision[] = {"ops.torchvision.nms",
                                     "ops.torchvision.roi_align",
                                     "ops.torchvision.roi_pool",
                                     "ops.torchvision.ps_roi_align",
                                     "ops.torchvision.ps_roi_pool",
                                     "ops.torchvision.deform_conv2d",
                                     NULL};

static const char *last_of(const char *chain) {
    const char *dot = strrchr(chain, '.');
    return dot != NULL ? dot + 1 : chain;
}

/* chain: "ops.aten.add" */
static void check_operator(const reading *r, const char *at, const char *chain) {
    char space[CHAIN];
    const size_t n = strcspn(chain + 4, ".");

    memcpy(space, chain + 4, n);
    space[n] = '\0';
    if (is_one_of(last_of(chain), acting) && strcmp(space, "prim") != 0) {
        say(r, SFT_SCAN_DANGEROUS, at, chain, "an operator that reads or writes files");
    } else if (!is_one_of(space, spaces) && !is_one_of(chain, vision)) {
        say(r, SFT_SCAN_UNKNOWN, at, chain, "an operator of a library that is not PyTorch's own");
    }
}

/* chain: "torch.add" */
static void check_torch(const reading *r, const char *at, const char *chain) {
    static const char *const inner[] = {"torch.nn.functional.",
                                        "torch.linalg_",
                                        "torch.special_",
                                        "torch.fft_",
                                        "torch.device",
                                        "torch.dtype",
                                        NULL};
    if (is_one_of(last_of(chain), acting)) {
        say(r, SFT_SCAN_DANGEROUS, at, chain, "an operator that reads or writes files");
        return;
    }
    for (size_t i = 0; inner[i] != NULL; i++) {
        if (starts(chain, inner[i])) {
            return;
        }
    }
    if (strchr(chain + 6, '.') != NULL) {
        say(r, SFT_SCAN_UNKNOWN, at, chain, "a part of PyTorch that TorchScript does not write");
    }
}

static void check_class(const reading *r, const char *at, const char *chain) {
    static const char *const own[] = {
        "__torch__.torch.classes.quantized.", "__torch__.torch.classes.xnnpack.",
        "__torch__.torch.classes.rnn.", "__torch__.torch.classes.sparse.", NULL};
    if (!starts(chain, "__torch__.torch.classes.")) {
        return;
    }
    for (size_t i = 0; own[i] != NULL; i++) {
        if (starts(chain, own[i])) {
            return;
        }
    }
    say(r, SFT_SCAN_UNKNOWN, at, chain, "a class of a library that is not PyTorch's own");
}

/* A chain of names with dots that begins at `at`; called: a bracket follows. */
static void check_chain(const reading *r, const char *at, const char *chain, bool called) {
    static const char *const python[] = {"eval",       "exec",    "open", "compile",
                                         "__import__", "globals", "vars", "setattr",
                                         "delattr",    "input",   NULL};
    static const char *const modules[] = {"os.",        "sys.",    "subprocess.", "builtins.",
                                          "importlib.", "socket.", "shutil.",     "pickle.",
                                          "ctypes.",    NULL};

    if (starts(chain, "ops.")) {
        check_operator(r, at, chain);
    } else if (starts(chain, "torch.")) {
        check_torch(r, at, chain);
    } else if (starts(chain, "__torch__")) {
        check_class(r, at, chain);
    } else if (called && is_one_of(chain, python)) {
        say(r, SFT_SCAN_DANGEROUS, at, chain,
            "a function of Python's that runs or opens something");
    } else {
        for (size_t i = 0; called && modules[i] != NULL; i++) {
            if (starts(chain, modules[i])) {
                say(r, SFT_SCAN_DANGEROUS, at, chain, "a module of Python's own");
            }
        }
    }
}

/* p at a quote: behind the text. A line's end ends it, too. */
static const char *skip_text(const char *p, const char *end) {
    const char quote = *p;
    for (p++; p < end && *p != quote && *p != '\n'; p++) {
        p += *p == '\\' && p + 1 < end;
    }
    return p < end ? p + 1 : end;
}

/* Imports of other units of the same archive are TorchScript's, other ones are Python's. */
static const char *take_import(const reading *r, const char *p) {
    const char *q = p;
    while (q < r->end && is_word(*q)) {
        q++;
    }
    while (q < r->end && *q == ' ') {
        q++;
    }
    if (r->end - q < 9 || memcmp(q, "__torch__", 9) != 0) {
        say(r, SFT_SCAN_UNKNOWN, p, "import", "an import that TorchScript does not write");
    }
    return q;
}

/* Names joined by dots, blanks about them allowed as Python allows them. */
static const char *take_chain(const reading *r, const char *p) {
    char chain[CHAIN];
    const char *at = p;
    size_t n = 0;

    for (;;) {
        while (p < r->end && is_word(*p)) {
            if (n < CHAIN - 2) {
                chain[n++] = *p;
            }
            p++;
        }
        const char *q = p;
        while (q < r->end && (*q == ' ' || *q == '\t' || *q == '\\' || *q == '\n')) {
            q++;
        }
        if (q >= r->end || *q != '.') {
            chain[n] = '\0';
            check_chain(r, at, chain, q < r->end && *q == '(');
            return p;
        }
        for (q++; q < r->end && (*q == ' ' || *q == '\t'); q++) {
        }
        if (q >= r->end || !is_word(*q)) {
            chain[n] = '\0';
            check_chain(r, at, chain, false);
            return q;
        }
        if (n < CHAIN - 2) {
            chain[n++] = '.';
        }
        p = q;
    }
}

static bool is_import(const char *p, const char *end, bool line) {
    return line && ((end - p > 7 && memcmp(p, "import ", 7) == 0) ||
                    (end - p > 5 && memcmp(p, "from ", 5) == 0));
}

bool sft__import_content_torchscript(const sft__import_content *c) {
    reading r = {c, (const char *)c->data, (const char *)c->data + c->len};
    const char *p = r.p;
    bool line = true; /* nothing but blanks so far */

    while (p < r.end) {
        if (*p == '#') {
            while (p < r.end && *p != '\n') {
                p++;
            }
        } else if (*p == '"' || *p == '\'') {
            if (r.end - p >= 3 && p[1] == p[0] && p[2] == p[0]) {
                say(&r, SFT_SCAN_UNKNOWN, p, "",
                    "a text over several lines, which it does not write");
                return false;
            }
            p = skip_text(p, r.end);
            line = false;
        } else if (*p == '.') { /* an attribute of a value: what it is, TorchScript's types say */
            for (p++; p < r.end && is_word(*p); p++) {
            }
        } else if (is_word(*p)) {
            p = is_import(p, r.end, line) ? take_import(&r, p) : take_chain(&r, p);
            line = false;
        } else {
            line = *p == '\n' || *p == ';' || (line && *p == ' ');
            p++;
        }
    }
    return !c->state->odd;
}

/* ---------------------------------------------------------------- bytecode */

/* A text that an opcode of a pickle at p pushes: its length, or 0. */
static size_t pushed(const uint8_t *p, const uint8_t *end, const char **text) {
    const bool four = *p == 'X' || *p == 'T';
    const bool one = *p == 'U' || *p == 0x8c;
    const size_t head = four ? 5 : 2;

    if ((!four && !one) || (size_t)(end - p) <= head) {
        return 0;
    }
    const size_t n = four ? sft__base_load_le32(p + 1) : p[1];
    *text = (const char *)p + head;
    return n <= (size_t)(end - p) - head ? n : 0;
}

/* "aten::add" or "__torch__.torch.classes.NAME". */
static void check_text(const reading *r, const char *text, size_t len) {
    char chain[CHAIN + 8];
    const char *colon = NULL;

    if (len < 4 || len >= CHAIN) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        const bool two = text[i] == ':' && colon == NULL && i + 1 < len && text[i + 1] == ':';
        if (!is_word(text[i]) && text[i] != '.' && !two) {
            return;
        }
        colon = two ? text + i : colon;
        i += two;
    }
    if (colon == NULL) {
        memcpy(chain, text, len);
        chain[len] = '\0';
        check_class(r, text, chain);
        return;
    }
    const size_t space = (size_t)(colon - text);
    memcpy(chain, "ops.", 4);
    memcpy(chain + 4, text, space);
    chain[4 + space] = '.';
    memcpy(chain + 5 + space, colon + 2, len - space - 2);
    chain[3 + len] = '\0';
    check_operator(r, text, chain);
}

/* The lite interpreter's bytecode.pkl names operators and classes in texts. Every byte may be an
 * opcode: what is none makes no such text. */
void sft__import_content_bytecode(const sft__import_content *c) {
    const reading r = {c, (const char *)c->data, (const char *)c->data + c->len};
    const char *text;

    for (size_t i = 0; i < c->len && !sft__import_content_is_tired(c); i++) {
        const size_t n = pushed(c->data + i, c->data + c->len, &text);
        if (n != 0) {
            check_text(&r, text, n);
        }
    }
}
