/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/python.c - may a text be valid Python, and what does it call? Read in tokens, not
 * parsed: two words side by side of which none is a keyword, a sign that Python does not have, a
 * bracket without its end are prose or another language. Read first: settings.h.
 */
#include "import/content/letters.h"
#include "import/settings/settings.h"

enum { BRACKETS = 200 };

typedef enum kind { NONE, WORD, KEYWORD, NUMBER, TEXT, SIGN } kind;

typedef struct reading {
    const char *p;
    const char *end;
    char brackets[BRACKETS];
    unsigned depth;
    kind before;      /* the token before this one */
    const char *last; /* the last word, and its length */
    size_t last_len;
    bool attribute;   /* the last word follows a dot */
    const char *root; /* the first word of a chain with dots */
    size_t root_len;
    bool closed;         /* a bracket did, just before: what opens behind it is a call */
    bool statement;      /* at the beginning of one */
    unsigned statements; /* begun */
    bool mentions;       /* a function that reaches, by its name alone */
    bool brackets_open;  /* round ones, anywhere */
    bool imports;
    bool from;
    bool lambda; /* its colon is still to come */
    unsigned said;
} reading;

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\f';
}

static bool is_name(char c) {
    return is_letter(c) || sft__base_is_digit(c);
}

static bool is(const char *p, size_t len, const char *word) {
    return strlen(word) == len && memcmp(p, word, len) == 0;
}

/* __class__, __import__: as Python's own are written, in small letters. */
static bool is_inner(const char *p, size_t len) {
    static const char *const plain[] = {"__name__", "__main__", "__init__", "__version__",
                                        "__file__", "__doc__",  NULL};
    for (size_t i = 2; i + 2 < len; i++) {
        if (!(p[i] >= 'a' && p[i] <= 'z') && p[i] != '_' && !sft__base_is_digit(p[i])) {
            return false;
        }
    }
    return len > 4 && memcmp(p, "__", 2) == 0 && memcmp(p + len - 2, "__", 2) == 0 &&
           !sft__import_text_is_one(p, len, plain);
}

static const char *const modules[] = {
    "os",       "posix",  "nt",     "subprocess", "builtins", "__builtin__", "importlib", "runpy",
    "pty",      "ctypes", "shutil", "commands",   "socket",   "pickle",      "marshal",   "cPickle",
    "requests", "urllib", "sys",    "webbrowser", "code",     "timeit",      NULL};
static const char *const functions[] = {"eval",       "exec",    "execfile", "open",
                                        "__import__", "getattr", "globals",  "breakpoint",
                                        "compile",    "setattr", NULL};

/* These reach however they are called: "(eval)(x)", "map(exec, y)". */
static const char *const sharp[] = {"eval",    "exec",         "execfile",   "__import__",
                                    "globals", "__builtins__", "breakpoint", NULL};

/* These make a value of what they are given. */
static const char *const made_of[] = {"dict", "list",  "tuple",     "set", "range",       "int",
                                      "bool", "float", "Namespace", "len", "OrderedDict", NULL};

/* Letters of full width and of mathematics, which Python reads as plain ones. */
static bool is_disguised(const char *p, size_t len) {
    for (size_t i = 0; i + 2 < len; i++) {
        const unsigned char a = (unsigned char)p[i];
        const unsigned char b = (unsigned char)p[i + 1];
        const unsigned char c = (unsigned char)p[i + 2];
        if ((a == 0xf0 && b == 0x9d) || (a == 0xef && b == 0xbc && c >= 0xa1 && c <= 0xba) ||
            (a == 0xef && b == 0xbd && c >= 0x81 && c <= 0x9a)) {
            return true;
        }
    }
    return false;
}

/* torch.load(), numpy.load(): pickles. */
static bool loads_pickles(const reading *r) {
    static const char *const roots[] = {"torch", "joblib", "dill",   "cloudpickle", "np",
                                        "numpy", "yaml",   "pandas", "pd",          NULL};
    static const char *const names[] = {"load", "loads", "unsafe_load", "read_pickle", NULL};

    return r->attribute && sft__import_text_is_one(r->root, r->root_len, roots) &&
           sft__import_text_is_one(r->last, r->last_len, names);
}

/* A bracket opens behind a word: a call. */
static void called(reading *r) {
    const char *q = r->p + 1;
    const bool path = r->root_len + 6 < (size_t)(r->end - r->root) &&
                      memcmp(r->root + r->root_len, ".path", 5) == 0;

    while (q < r->end && (is_space(*q) || *q == '\n' || *q == '\r')) {
        q++;
    }
    const bool empty = q == r->end || *q == ')';
    const bool made = !r->attribute && sft__import_text_is_one(r->last, r->last_len, made_of);
    const bool beside = r->last + r->last_len == r->p || r->attribute;
    r->said |= made ? 0U : beside ? SFT__PYTHON_CALLS : SFT__PYTHON_SPACED;
    if (!r->attribute && !empty && sft__import_text_is_one(r->last, r->last_len, functions)) {
        r->said |= SFT__PYTHON_REACHES;
    }
    if (loads_pickles(r)) {
        r->said |= SFT__PYTHON_REACHES;
    }
    if (r->attribute && !path && sft__import_text_is_one(r->root, r->root_len, modules)) {
        r->said |= SFT__PYTHON_REACHES;
    }
}

static bool open_bracket(reading *r) {
    r->brackets_open = r->brackets_open || *r->p == '(';
    if (*r->p == '(' && r->before == WORD) {
        called(r);
    } else if ((*r->p == '(' && r->before == NUMBER && r->closed) ||
               (*r->p == '[' && r->before == WORD &&
                sft__import_text_is_one(r->root, r->root_len, modules))) {
        r->said |= SFT__PYTHON_CALLS; /* what is called is no name: (f)(x), [f][0](x) */
    }
    if (r->depth == BRACKETS) {
        return false;
    }
    r->brackets[r->depth++] = *r->p == '(' ? ')' : *r->p == '[' ? ']' : '}';
    r->before = SIGN;
    r->statement = false;
    r->p++;
    return true;
}

static bool take_sign(reading *r) {
    static const char plain[] = "+-*/%@&|^~:.,=<>\\";
    const char ch = *r->p;

    if (ch == '(' || ch == '[' || ch == '{') {
        return open_bracket(r);
    }
    if (ch == ')' || ch == ']' || ch == '}') {
        if (r->depth == 0 || r->brackets[r->depth - 1] != ch) {
            return false;
        }
        r->depth--;
        r->before = NUMBER; /* a value: no word may follow */
        r->closed = true;
        r->last_len = 0;
        r->p++;
        return true;
    }
    if (ch == ':' && r->lambda) {
        r->said |= SFT__PYTHON_REACHES;
    }
    if (ch == ';' || ch == ':') {
        r->statement = r->depth == 0;
    }
    if (ch == '!' ? r->p + 1 == r->end || r->p[1] != '=' : ch != ';' && strchr(plain, ch) == NULL) {
        return false;
    }
    if (ch == '\\' && r->p + 1 < r->end && (r->p[1] == '\n' || r->p[1] == '\r')) {
        r->p += 2; /* the line goes on */
        return true;
    }
    r->p++;
    r->before = ch == '.' && r->before != SIGN ? r->before : SIGN;
    r->attribute = ch == '.';
    return true;
}

/* r, b, u, f, t, rb, br, rf, fr ... in any case. */
static bool is_prefix(const char *p, size_t len) {
    return len > 0 && len <= 2 && memchr("rbuft", p[0] | 0x20, 5) != NULL &&
           (len == 1 || ((p[0] | 0x20) == 'r') != ((p[1] | 0x20) == 'r')) &&
           memchr("rbuft", p[len - 1] | 0x20, 5) != NULL;
}

/* What its braces hold is evaluated. */
static bool is_formatted(const char *p, size_t len) {
    return memchr("ft", p[0] | 0x20, 2) != NULL || memchr("ft", p[len - 1] | 0x20, 2) != NULL;
}

/* Behind a text that begins with the quote at p; three of them make it long. */
static bool take_text(reading *r) {
    const char quote = *r->p;
    const bool wide = r->end - r->p >= 3 && r->p[1] == quote && r->p[2] == quote;
    const bool prefix = r->before == WORD;

    if (prefix &&
        (r->attribute || r->last + r->last_len != r->p || !is_prefix(r->last, r->last_len))) {
        return false;
    }
    const bool format = prefix && is_formatted(r->last, r->last_len);
    const char *begin = r->p;
    for (r->p += wide ? 3 : 1; r->p < r->end; r->p++) {
        if (*r->p == '\\') {
            r->p++;
        } else if (*r->p == quote && !wide) {
            break;
        } else if (*r->p == '\n' && !wide) {
            return false;
        } else if (*r->p == quote && r->end - r->p >= 3 && r->p[1] == quote && r->p[2] == quote) {
            r->p += 2;
            break;
        }
    }
    if (r->p >= r->end) {
        return false;
    }
    if (format && memchr(begin, '{', (size_t)(r->p - begin)) != NULL) {
        r->said |= SFT__PYTHON_CALLS;
    }
    if (format && sft__import_setting_is_wild(begin, (size_t)(r->p - begin), false)) {
        r->said |= SFT__PYTHON_REACHES;
    }
    r->p++;
    r->before = TEXT;
    r->statement = false;
    return true;
}

/* os.system, handed over: "max(['id'], key=os.system)". */
static bool is_handed(const reading *r, const char *p, size_t n) {
    static const char *const roots[] = {"os",       "posix", "nt",        "subprocess", "pty",
                                        "builtins", "runpy", "importlib", "shutil",     NULL};
    static const char *const quiet[] = {"path",   "sep",  "linesep", "curdir",
                                        "pardir", "name", "environ", NULL};
    return sft__import_text_is_one(r->root, r->root_len, roots) && r->root + r->root_len + 1 == p &&
           !sft__import_text_is_one(p, n, quiet);
}

static void take_keyword(reading *r, const char *p, size_t n) {
    r->lambda = r->lambda || is(p, n, "lambda");
    r->mentions = r->mentions || is(p, n, "exec");
    if (r->statement && is(p, n, "from")) {
        r->from = true;
    } else if (is(p, n, "import") && (r->statement || r->from)) {
        r->imports = true;
    }
    r->before = KEYWORD;
}

/* A number ends where its letters do: a keyword may follow at once, as in "1if x else 2". */
static bool take_number(reading *r) {
    const bool attribute = r->attribute;
    const char *p = r->p;
    bool dot = attribute;
    const bool coded = *p == '0' && r->end - p > 1 && memchr("xXoObB", p[1], 6) != NULL;
    const bool good = r->before == SIGN || r->before == NONE || r->before == KEYWORD || attribute;

    for (p += coded ? 2 : 1; p < r->end; p++) {
        const char low = (char)(*p | 0x20);
        const bool power = low == 'e' && p + 1 < r->end &&
                           (sft__base_is_digit(p[1]) || p[1] == '-' || p[1] == '+');
        if (!coded && *p == '.' && !dot) {
            dot = true;
        } else if (!sft__base_is_digit(*p) && *p != '_' &&
                   !(coded ? low >= 'a' && low <= 'f' : power || low == 'j' || low == 'l')) {
            break;
        }
    }
    r->p = p;
    r->attribute = false;
    r->before = NUMBER;
    r->closed = false;
    r->statement = false;
    return good;
}

/* Is it one that can be no name? The others may be called: "print(x)". */
static bool is_keyword(const char *p, size_t n, bool called) {
    static const char *const hard[] = {
        "and",    "as",   "assert", "async",  "await",    "break", "class", "continue", "def",
        "del",    "elif", "else",   "except", "finally",  "for",   "from",  "global",   "if",
        "import", "in",   "is",     "lambda", "nonlocal", "not",   "or",    "pass",     "raise",
        "return", "try",  "while",  "with",   "yield",    NULL};
    static const char *const soft[] = {"print", "exec", "match", "case", NULL};

    return sft__import_text_is_one(p, n, hard) || (!called && sft__import_text_is_one(p, n, soft));
}

static bool take_word(reading *r) {
    const char *p = r->p;
    size_t n = 0;

    while (p + n < r->end && is_name(p[n])) {
        n++;
    }
    r->p += n;
    const bool attribute = r->attribute;
    r->attribute = false;
    const char *q = r->p;
    while (q < r->end && is_space(*q)) {
        q++;
    }
    const bool called = q < r->end && *q == '(';
    if (!attribute && is_keyword(p, n, called)) {
        take_keyword(r, p, n);
        r->statement = false;
        return true;
    }
    if (!attribute && r->before != NONE && r->before != SIGN && r->before != KEYWORD) {
        return false; /* two words */
    }
    if (attribute && is_handed(r, p, n)) {
        r->mentions = true;
    }
    if (!attribute) {
        r->root = p;
        r->root_len = n;
        r->mentions = r->mentions || sft__import_text_is_one(p, n, sharp);
    }
    r->mentions = r->mentions || is_disguised(p, n);
    if (is_inner(p, n) && (attribute || (r->p < r->end && memchr("(.[", *r->p, 3) != NULL))) {
        r->said |= SFT__PYTHON_REACHES;
    }
    r->last = p;
    r->last_len = n;
    r->attribute = attribute;
    r->before = WORD;
    r->statement = false;
    return true;
}

static void take_line(reading *r) {
    r->p++;
    if (r->depth == 0) {
        r->before = NONE;
        r->statement = true;
    }
    r->attribute = r->attribute && r->depth != 0;
}

static bool take_token(reading *r) {
    const char ch = *r->p;

    if (ch == '\n' || ch == '\r') {
        take_line(r);
        return true;
    }
    if (is_space(ch)) {
        r->p++;
        return true;
    }
    if (ch == '#') {
        while (r->p < r->end && *r->p != '\n' && *r->p != '\r') {
            r->p++;
        }
        return true;
    }
    r->statements += r->statement;
    if (ch == '"' || ch == '\'') {
        return take_text(r);
    }
    return sft__base_is_digit(ch) ? take_number(r) : is_name(ch) ? take_word(r) : take_sign(r);
}

unsigned sft__import_setting_python(const char *text, size_t len) {
    reading r = {.p = text, .end = text + len, .root = text, .last = text, .statement = true};

    if (len == 0 || (memchr(text, '(', len) == NULL && !sft__import_text_has(text, len, "import") &&
                     !sft__import_text_has(text, len, "lambda") &&
                     !sft__import_text_has(text, len, ".modules"))) {
        return 0;
    }
    while (r.p < r.end) {
        if (!take_token(&r)) {
            return 0;
        }
    }
    if (r.depth != 0) {
        return 0;
    }
    if (r.imports && (r.statements > 1 || r.from)) {
        r.said |= SFT__PYTHON_REACHES;
    }
    if (r.mentions && r.brackets_open) {
        r.said |= SFT__PYTHON_REACHES;
    }
    return r.said | SFT__PYTHON;
}

bool sft__import_setting_is_wild(const char *text, size_t len, bool strict) {
    static const char *const words[] = {
        "__import__(", "__subclasses__", "__globals__", "__builtins__",
        "os.system(",  "os.popen(",      NULL};
    static const char *const others[] = {"os.exec",   "subprocess.", "importlib.", "builtins.",
                                         "pty.spawn", "eval(",       "exec(",      NULL};

    return sft__import_text_has_one(text, len, words) ||
           (!strict && sft__import_text_has_one(text, len, others));
}
