/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/lookups.c - names that a pickle without a mark looks up, wherever it begins in bytes
 * of a format that is in order: attributes, texts, arrays and elements that programs unpickle.
 * Words one below the other spell such look-ups, too, so names that nobody knows count only if what
 * follows calls them, followed on a small stack, or ends the pickle where the value ends. Read
 * first: work.h.
 */
#include "import/pickle/globals.h"
#include "import/scan/work.h"
#include "import/walk/walk.h"

enum {
    NAME_MOST = 64,   /* bytes of a module, or of a name */
    LOOKUP_COST = 16, /* opcodes */
    FOUND_COST = 64,
    STACK_MOST = 32,
    AHEAD = 4096,           /* bytes behind a look-up in which its call is looked for */
    BEHIND = 512,           /* bytes before INST in which its mark is looked for */
    LONG_MOST = 0x2dffffff, /* bytes of a name: more are four letters that stand for a length */
    HEAD_MOST = 10          /* bytes of an opcode before its text */
};

/* ---------------------------------------------------------------- what becomes of a name */

/* What lies on the stack: texts, numbers and the like; what a call made; what grows; another class;
 * the name; a tuple, one that holds the name; what the memo gave; a mark. */
typedef enum item { PLAIN, MADE, GROWS, CLASS, THE_NAME, TUPLE, HOLDS, GOT, MARK } item;
typedef enum fate { NOTHING, CALLED, ENDED } fate;

typedef struct small_stack {
    const uint8_t *end;  /* of the bytes */
    const uint8_t *stop; /* ENDED: behind the STOP */
    uint64_t steps;
    size_t count;
    bool kept;   /* the memo has the name */
    bool loose;  /* a tuple began before the name */
    bool called; /* with that tuple: it counts if the pickle ends */
    item at[STACK_MOST];
} small_stack;

/* Of each opcode, what it does to the stack. */
static const char effects[256] = {
    ['('] = '(',  [')'] = 'T',  ['.'] = '.',  ['0'] = '0',  ['1'] = '1',  ['2'] = '2',
    ['B'] = 'P',  ['C'] = 'P',  ['F'] = 'P',  ['G'] = 'P',  ['I'] = 'P',  ['J'] = 'P',
    ['K'] = 'P',  ['L'] = 'P',  ['M'] = 'P',  ['N'] = 'P',  ['P'] = 'M',  ['Q'] = 'Q',
    ['R'] = 'R',  ['S'] = 'P',  ['T'] = 'P',  ['U'] = 'P',  ['V'] = 'P',  ['X'] = 'P',
    [']'] = 'G',  ['a'] = 'a',  ['b'] = 'b',  ['c'] = 'C',  ['d'] = 'd',  ['e'] = 'e',
    ['g'] = 'g',  ['h'] = 'g',  ['i'] = 'i',  ['j'] = 'g',  ['l'] = 'd',  ['o'] = 'o',
    ['p'] = 'p',  ['q'] = 'p',  ['r'] = 'p',  ['s'] = 's',  ['t'] = 't',  ['u'] = 'e',
    ['}'] = 'G',  [0x80] = '=', [0x81] = 'R', [0x82] = 'C', [0x83] = 'C', [0x84] = 'C',
    [0x85] = 'x', [0x86] = 'y', [0x87] = 'z', [0x88] = 'P', [0x89] = 'P', [0x8a] = 'P',
    [0x8b] = 'P', [0x8c] = 'P', [0x8d] = 'P', [0x8e] = 'P', [0x8f] = 'G', [0x90] = 'e',
    [0x91] = 'i', [0x92] = 'N', [0x93] = 'Y', [0x94] = 'p', [0x95] = '=', [0x96] = 'P',
    [0x97] = 'M', [0x98] = '=',
};

static bool push(small_stack *k, item what) {
    if (k->count == STACK_MOST) {
        return false;
    }
    k->at[k->count++] = what;
    return true;
}

static bool pop(small_stack *k, size_t n) {
    if (k->count < n) {
        return false;
    }
    k->count -= n;
    return true;
}

/* To behind the last mark, which is gone. */
static bool pop_mark(small_stack *k) {
    while (k->count != 0 && k->at[k->count - 1] != MARK) {
        k->count--;
    }
    return pop(k, 1);
}

static bool is_name(const small_stack *k, size_t below) {
    const item what = k->count > below ? k->at[k->count - 1 - below] : PLAIN;
    return what == THE_NAME || (what == GOT && k->kept);
}

/* A tuple of the last `n`, or (SIZE_MAX) of those behind the last mark. */
static bool make_tuple(small_stack *k, size_t n) {
    item made = TUPLE;

    while (n != 0 && k->count != 0 && (n != SIZE_MAX || k->at[k->count - 1] != MARK)) {
        const item what = k->at[--k->count];
        made = what == THE_NAME || what == HOLDS || (what == GOT && k->kept) ? HOLDS : made;
        n -= n != SIZE_MAX;
    }
    if (n == SIZE_MAX && k->count == 0) {
        k->loose = made == HOLDS;
        return k->loose && push(k, made);
    }
    k->count -= n == SIZE_MAX;
    return (n == 0 || n == SIZE_MAX) && push(k, made);
}

/* Could what lies there be called? */
static bool calls(const small_stack *k, size_t below) {
    const item what = k->count > below ? k->at[k->count - 1 - below] : PLAIN;
    return what == MADE || what == CLASS || what == THE_NAME || what == GOT;
}

/* Its items are on the stack no more. */
static bool grows(const small_stack *k) {
    const item what = k->count != 0 ? k->at[k->count - 1] : PLAIN;
    return what == GROWS || what == MADE || what == GOT;
}

/* REDUCE, NEWOBJ, and NEWOBJ_EX with one more: a callable below a tuple. The name is called, or
 * handed to what is, which may lie deeper: _reconstructor() makes the objects of protocol 0. */
static fate call(small_stack *k, size_t more, bool *goes_on) {
    const size_t n = k->count;
    const item args = n > more ? k->at[n - 1 - more] : PLAIN;
    const bool deeper = args == HOLDS && n == 1 + more;

    if ((args != TUPLE && args != GOT && args != HOLDS) || !(deeper || calls(k, 1 + more))) {
        *goes_on = false;
        return NOTHING;
    }
    if (!k->loose && (args == HOLDS || is_name(k, 1 + more))) {
        return CALLED;
    }
    k->called = k->called || args == HOLDS;
    *goes_on = pop(k, more + (deeper ? 1 : 2)) && push(k, MADE);
    return NOTHING;
}

/* OBJ: the class stands behind the mark. */
static fate call_object(small_stack *k, bool *goes_on) {
    size_t first = k->count;

    while (first > 0 && k->at[first - 1] != MARK) {
        first--;
    }
    if (first == 0 || first == k->count || !calls(k, k->count - 1 - first)) {
        *goes_on = false;
        return NOTHING;
    }
    if (is_name(k, k->count - 1 - first)) {
        return CALLED;
    }
    *goes_on = pop_mark(k) && push(k, MADE);
    return NOTHING;
}

/* BUILD: a state for what lies below. */
static fate build(small_stack *k, bool *goes_on) {
    const item state = k->count != 0 ? k->at[k->count - 1] : PLAIN;

    *goes_on = k->count >= 2 && (state == GROWS || state == TUPLE || state == HOLDS ||
                                 state == GOT || state == MADE);
    if (*goes_on && is_name(k, 1)) {
        return CALLED;
    }
    *goes_on = *goes_on && pop(k, 1) && calls(k, 0);
    return NOTHING;
}

static bool push_for(small_stack *k, char effect) {
    return push(k, effect == 'P'   ? PLAIN
                   : effect == 'G' ? GROWS
                   : effect == 'C' ? CLASS
                   : effect == 'M' ? MADE
                   : effect == 'T' ? TUPLE
                   : effect == 'g' ? GOT
                                   : MARK);
}

/* All but the calls. */
static bool move(small_stack *k, char effect) {
    switch (effect) {
    case '=':
        return true;
    case '2':
        return k->count != 0 && push(k, k->at[k->count - 1]);
    case 'p':
        k->kept = k->kept || is_name(k, 0);
        return k->count != 0;
    case '0':
        return pop(k, 1);
    case '1':
        return pop_mark(k);
    case 'a':
    case 's':
        return pop(k, effect == 'a' ? 1 : 2) && grows(k);
    case 'e':
        return pop_mark(k) && grows(k);
    case 'd':
    case 'i':
        return pop_mark(k) && push(k, effect == 'd' ? GROWS : MADE);
    case 'Q':
        return pop(k, 1) && push(k, MADE);
    case 'Y':
        return pop(k, 2) && push(k, CLASS);
    case 'x':
    case 'y':
    case 'z':
        return make_tuple(k, (size_t)(effect - 'x') + 1);
    case 't':
        return make_tuple(k, SIZE_MAX);
    default:
        return push_for(k, effect);
    }
}

static fate step(small_stack *k, char effect, bool *goes_on) {
    switch (effect) {
    case 'R':
        return call(k, 0, goes_on);
    case 'N':
        return call(k, 1, goes_on);
    case 'o':
        return call_object(k, goes_on);
    case 'b':
        return build(k, goes_on);
    default:
        *goes_on = move(k, effect);
        return NOTHING;
    }
}

/* Lines that opcodes of protocol 0 take: numbers, texts in quotes. */
static bool is_line(const uint8_t *p, const uint8_t *next) {
    const uint8_t c = p[1];

    switch (*p) {
    case 'S':
        return c == '\'' || c == '"';
    case 'g':
    case 'p':
        for (p++; p < next - 1 && *p >= '0' && *p <= '9'; p++) {
        }
        return p == next - 1 && c != '\n';
    case 'I':
    case 'F':
    case 'L':
        return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
    default:
        return true;
    }
}

/* Where the opcode at p ends; NULL: it is none. */
static const uint8_t *next_of(const uint8_t *p, const uint8_t *end) {
    const size_t left = (size_t)(end - p) < AHEAD ? (size_t)(end - p) : AHEAD;
    const size_t n = sft__import_walk_opcode(p, 0, left);

    return n == SIZE_MAX || n > left || (n > 1 && !is_line(p, p + n)) ? NULL : p + n;
}

/* Follows the opcodes from p on. */
static fate follow(small_stack *k, const uint8_t *p) {
    const uint8_t *most = (size_t)(k->end - p) < AHEAD ? k->end : p + AHEAD;
    bool goes_on = true;

    while (goes_on && p < most) {
        const uint8_t *next = next_of(p, k->end);
        const char effect = effects[*p];
        k->steps++;
        if (next == NULL || effect == '\0') {
            return NOTHING;
        }
        if (effect == '.') {
            k->stop = next;
            return k->called ? CALLED : ENDED;
        }
        const fate f = step(k, effect, &goes_on);
        if (f != NOTHING) {
            return f;
        }
        p = next;
    }
    return NOTHING;
}

/* ---------------------------------------------------------------- bytes that are gone through */

typedef struct looking {
    sft__import_scan *s;
    const sft__import_scan_part *part;
    uint64_t at; /* of the bytes in the part */
    const uint8_t *bytes;
    const uint8_t *end;
    bool ends; /* nothing follows in the part */
} looking;

/* A look-up of protocol 0: an opcode, a module and a name, each with its end of a line. */
typedef struct lines {
    const uint8_t *opcode;
    const uint8_t *lf;
    const uint8_t *stop;
    bool named; /* what becomes of the name is known: name_fate, apart */
    bool made;  /* the same of what INST makes: made_fate */
    bool apart;
    fate name_fate;
    fate made_fate;
} lines;

static bool is_word(uint8_t c) {
    return c == '.' || c == '_' || (c >= '0' && c <= '9') ||
           ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static uint32_t verdict_of(const uint8_t *module, size_t m_len, const uint8_t *name, size_t n_len,
                           const char **why) {
    const char *m = (const char *)module;
    const char *n = (const char *)name;

    return sft__import_global_verdict(sft__import_global_find(m, m_len, n, n_len), m, m_len, n,
                                      n_len, why);
}

static uint32_t verdict_of_lines(const lines *l, const char **why) {
    return verdict_of(l->opcode + 1, (size_t)(l->lf - l->opcode) - 1, l->lf + 1,
                      (size_t)(l->stop - l->lf) - 1, why);
}

static void push_mark(const looking *g, const uint8_t *p) {
    const uint64_t at = g->at + (uint64_t)(p - g->bytes);
    sft__import_scan_part inner = *g->part;

    inner.offset += at;
    inner.size -= at;
    sft__import_scan_marked(g->s, g->part, inner);
}

/* Functions that a payload calls. Where letters stand before the opcode only these count: lists of
 * words, one on each line, have "broadcast" and "acos", too. */
static bool is_called(const uint8_t *name, size_t len) {
    static const char *const names[] = {
        "system",      "popen",      "Popen",    "eval",        "exec",          "spawn",
        "posix_spawn", "execfile",   "check_",   "getoutput",   "import_module", "__import__",
        "runpy",       "run_module", "run_path", "apply_async", "getattr",       "__reduce__"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if (len >= n && memcmp(name, names[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/* Does a text end, or begin, with this byte beside it? */
static bool is_apart(uint8_t c) {
    return (c < ' ' && c != '\n' && c != '\r' && c != '\t') || c >= 0x7f;
}

/* The work of following is paid for; there may be none left. */
static fate pay(const looking *g, const small_stack *k, fate f) {
    sft__import_scan_pay(g->s, k->steps);
    return sft__import_scan_spent(g->s, g->part) ? NOTHING : f;
}

/* What follows a look-up of which `top` is on the stack. */
static fate fate_of(const looking *g, const lines *l, bool marked, item top, bool *apart) {
    small_stack k = {.end = g->end};

    if (marked) {
        (void)push(&k, MARK);
    }
    (void)push(&k, top);
    const fate f = pay(g, &k, follow(&k, l->stop + 1));
    *apart = f == ENDED && (k.stop < g->end ? is_apart(*k.stop) : g->ends);
    return f;
}

/* GLOBAL. Of those that end with the same line it is worked out once. */
static bool global_acts(const looking *g, lines *l) {
    const bool marked = l->opcode > g->bytes && l->opcode[-1] == '(';
    const bool first = l->opcode == g->bytes ? g->at == 0 : is_apart(l->opcode[-1]);
    bool apart;

    if (marked) {
        return fate_of(g, l, true, THE_NAME, &apart) == CALLED;
    }
    if (!l->named) {
        l->named = true;
        l->name_fate = fate_of(g, l, false, THE_NAME, &l->apart);
    }
    return l->name_fate == CALLED || (l->apart && first);
}

/* INST: a pickle that goes on to its end, and a mark before. */
static bool inst_acts(const looking *g, lines *l) {
    const uint8_t *least = l->opcode - g->bytes > BEHIND ? l->opcode - BEHIND : g->bytes;
    small_stack k = {.steps = BEHIND / 8};
    bool met = false;
    bool apart;

    if (!l->made) {
        l->made = true;
        l->made_fate = fate_of(g, l, false, MADE, &apart);
    }
    if (l->made_fate == NOTHING) {
        return false;
    }
    for (const uint8_t *q = l->opcode; q > least && !met;) {
        if (*--q != '(') {
            continue;
        }
        const uint8_t *p = q;
        while (p != NULL && p < l->opcode) {
            p = next_of(p, l->opcode);
            k.steps++;
        }
        met = p == l->opcode;
    }
    return pay(g, &k, CALLED) == CALLED && met;
}

/* A name that nobody vouches for is called here. */
static void tell(const looking *g, const lines *l, uint32_t verdict, const char *why) {
    const size_t m_len = (size_t)(l->lf - l->opcode) - 1;
    const size_t n_len = (size_t)(l->stop - l->lf) - 1;
    const sft__import_scan_part *part = g->part;
    const uint64_t at = part->offset + g->at + (uint64_t)(l->opcode - g->bytes);
    const bool inside = part->where[0] != '\0';
    char subject[2 * NAME_MOST + 1];

    sft__import_scan_pay(g->s, FOUND_COST);
    memcpy(subject, l->opcode + 1, m_len);
    subject[m_len] = '.';
    memcpy(subject + m_len + 1, l->lf + 1, n_len);
    sft__import_find(g->s->job, SFT_FINDING_GLOBAL, verdict, subject, m_len + 1 + n_len, "global",
                     part->base != SFT_NO_OFFSET ? part->base + at : SFT_NO_OFFSET,
                     "%s, in a pickle without a mark%s%.160s%s", why, inside ? " (in " : "",
                     part->where, inside ? ")" : "");
}

/* The longest of the names that are called here, unless one of them is harmless: the letters of a
 * module's name are opcodes, too. */
static void take_called(const looking *g, lines *l, const uint8_t *from) {
    lines longest = *l;
    uint32_t told = SFT_SCAN_HARMLESS;
    const char *told_why = "";

    const size_t most = (size_t)(l->lf - from);

    for (size_t n = 2; n <= most && !sft__import_scan_spent(g->s, g->part); n++) {
        l->opcode = l->lf - n;
        const uint8_t c = *l->opcode;
        const uint8_t begin = l->opcode[1];
        const char *why;
        if ((c != 'c' && c != 'i') || begin == '.' || (begin >= '0' && begin <= '9') ||
            !(c == 'c' ? global_acts(g, l) : inst_acts(g, l))) {
            continue;
        }
        sft__import_scan_pay(g->s, LOOKUP_COST);
        const uint32_t verdict = verdict_of_lines(l, &why);
        if (verdict == SFT_SCAN_HARMLESS) {
            return;
        }
        longest = *l;
        told = verdict;
        told_why = why;
    }
    if (told != SFT_SCAN_HARMLESS) {
        tell(g, &longest, told, told_why);
    }
}

/* "cos\nsystem\n", as protocol 0 looks names up, whatever stands before it. */
static void take_lines(const looking *g, const uint8_t *lf) {
    lines l = {.opcode = lf, .lf = lf, .stop = lf + 1};
    const uint8_t name = lf + 1 < g->end ? lf[1] : '.';
    const char *why;

    while (l.stop < g->end && is_word(*l.stop)) {
        l.stop++;
    }
    const bool cut = l.stop == g->end && !g->ends && l.stop - lf >= AHEAD;
    if ((l.stop == g->end ? !cut : *l.stop != '\n') || l.stop == lf + 1 ||
        sft__import_scan_spent(g->s, g->part)) {
        return;
    }
    const bool called = is_called(lf + 1, (size_t)(l.stop - lf) - 1);
    while (l.opcode > g->bytes && is_word(l.opcode[-1])) {
        const uint8_t c = *--l.opcode;
        const bool first = l.opcode == g->bytes || !is_word(l.opcode[-1]);
        const bool near = called && lf - l.opcode < NAME_MOST && l.stop - lf <= NAME_MOST;
        if ((c == 'c' || c == 'i') && lf - l.opcode >= 2 && (first || near)) {
            sft__import_scan_pay(g->s, LOOKUP_COST);
            if (verdict_of_lines(&l, &why) == SFT_SCAN_DANGEROUS) {
                push_mark(g, l.opcode);
                return;
            }
        }
    }
    const uint8_t ahead = g->end - l.stop > 1 ? l.stop[1] : 0;
    if (lf - l.opcode >= 2 && l.stop - lf <= NAME_MOST && effects[ahead] != '\0' && name != '.' &&
        !(name >= '0' && name <= '9')) {
        take_called(g, &l, lf - l.opcode < NAME_MOST ? l.opcode : lf - NAME_MOST);
    }
}

/* ---------------------------------------------------------------- two texts and STACK_GLOBAL */

/* Behind MEMOIZE, or a PUT. */
static const uint8_t *behind_put(const uint8_t *p, const uint8_t *end) {
    const uint8_t *next =
        p < end && (*p == 0x94 || *p == 'q' || *p == 'r' || *p == 'p') ? next_of(p, end) : NULL;
    return next != NULL ? next : p;
}

/* A text that an opcode pushes, of a name's letters; NULL: none. *next: behind it and its PUT. */
static const uint8_t *pushed(const uint8_t *p, const uint8_t *end, size_t *len,
                             const uint8_t **next) {
    const size_t left = (size_t)(end - p);
    const uint8_t op = left > 2 ? *p : 0;
    const bool line = op == 'V' || op == 'S';
    const size_t head = op == 'X' || op == 'T'    ? 5
                        : op == 0x8d              ? 9
                        : op == 'S'               ? 2
                        : op == 'V'               ? 1
                        : op == 0x8c || op == 'U' ? 2
                                                  : 0;

    if (head == 0 || left <= head) {
        return NULL;
    }
    const uint64_t size = line         ? NAME_MOST
                          : op == 0x8d ? sft__base_load_le64(p + 1)
                          : head == 5  ? sft__base_load_le32(p + 1)
                                       : p[1];
    size_t n = 0;
    if (!line && size > LONG_MOST) {
        return NULL;
    }
    while (n < size && n < left - head && is_word(p[head + n])) {
        n++;
    }
    *len = n;
    *next = p + head + n;
    if (n == 0 || (line && n == NAME_MOST) || n == left - head || (!line && n != size)) {
        return NULL;
    }
    if (op == 'S') {
        if ((p[1] != '\'' && p[1] != '"') || **next != p[1] || end - *next < 2) {
            return NULL;
        }
        ++*next;
    }
    if (line && *(*next)++ != '\n') {
        return NULL;
    }
    *next = behind_put(*next, end);
    return p + head;
}

/* The look-up of a name that is not harmless. */
static bool stack_lookup(const looking *g, const uint8_t *p) {
    const uint8_t *next = p;
    const char *why;
    size_t m_len;
    size_t n_len;

    const uint8_t *m = pushed(p, g->end, &m_len, &next);
    const uint8_t *n = m != NULL ? pushed(next, g->end, &n_len, &next) : NULL;
    if (n == NULL && next > p && g->end - next < HEAD_MOST && !g->ends && g->end - p >= AHEAD) {
        return true; /* cut by the window: only a walk tells */
    }
    if (n == NULL || next >= g->end || *next != 0x93) {
        return false;
    }
    sft__import_scan_pay(g->s, LOOKUP_COST);
    return verdict_of(m, m_len, n, n_len, &why) != SFT_SCAN_HARMLESS;
}

void sft__import_scan_lookups(sft__import_scan *s, const sft__import_scan_part *part, uint64_t at,
                              const uint8_t *bytes, size_t len) {
    static const uint8_t pushes[] = {0x8c, 'X', 'U', 'T', 'V', 'S', 0x8d};
    const looking g = {s, part, at, bytes, bytes + len, at + len == part->size};
    const uint8_t *p;

    for (size_t i = 0; i < sizeof pushes; i++) {
        p = bytes;
        for (; !s->tired && (p = memchr(p, pushes[i], (size_t)(g.end - p))) != NULL; p++) {
            if (stack_lookup(&g, p)) {
                push_mark(&g, p);
            }
        }
    }
    for (p = bytes; !s->tired && (p = memchr(p, '\n', (size_t)(g.end - p))) != NULL; p++) {
        take_lines(&g, p);
    }
}
