/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_name.c - what the walker says: every name that is looked up, judged by the one
 * table of pickle/globals.h, and what else is odd. Where bytes are raw or nested, what is only
 * unknown, or no name that a program would write, waits for a call or the end of the pickle: random
 * bytes and texts spell a name now and then, but nothing behind it. Read first: walk.h.
 */
#include "import/pickle/globals.h"
#include "import/walk/walk.h"

/* In opcodes: a name is looked up in three lists, and becomes a finding. */
enum { NAME_COST = 24 };
#define DOUBTED (SFT__SCAN_RAW | SFT__SCAN_NESTED | SFT__SCAN_LINE)

static void tell(walk *w, const walk_pending *f) {
    const char *where = w->part->where;
    const bool nested = (w->part->flags & SFT__SCAN_NESTED) != 0;
    const bool place =
        where[0] != '\0' && (f->verdict != SFT_SCAN_HARMLESS || w->part->base == SFT_NO_OFFSET);

    sft__import_find(w->job, f->kind, f->verdict, f->subject, f->len, f->rule, f->offset,
                     "%s%s%s%.160s%s", f->why, nested ? ", in a pickle within a string" : "",
                     place ? " (in " : "", place ? where : "", place ? ")" : "");
}

/* Says it now, or when it turns out to count. */
static void find(walk *w, const walk_pending *f) {
    const uint32_t raw = w->part->flags & DOUBTED;
    const bool named = f->plausible || ((raw & SFT__SCAN_NESTED) == 0 && f->module_plausible);
    const bool sure = f->verdict == SFT_SCAN_DANGEROUS && named && (raw & SFT__SCAN_LINE) == 0;

    if (raw == 0 || (w->marked && f->kind == SFT_FINDING_GLOBAL) || sure) {
        tell(w, f);
        return;
    }
    if (w->pending == NULL) {
        w->pending = sft__base_alloc_array(w->job->allocator, WALK_PENDING, sizeof *w->pending);
    }
    if (w->pending != NULL && w->pending_count < WALK_PENDING) {
        w->pending[w->pending_count++] = *f;
    } else if (f->plausible) {
        tell(w, f);
    }
}

void sft__import_walk_called(walk *w, bool surely) {
    size_t kept = 0;

    for (size_t i = 0; i < w->pending_count; i++) {
        if (w->pending[i].plausible || (surely && w->pending[i].possible)) {
            tell(w, &w->pending[i]);
        } else {
            w->pending[kept++] = w->pending[i];
        }
    }
    w->pending_count = kept;
}

/* Is there nothing but blanks behind the pickle, in its line or (*all) in the part? */
static bool ends_line(walk *w, bool *all) {
    const uint64_t at = walk_tell(&w->in);
    const uint64_t left = w->in.end - at;
    const size_t n = left < 64 ? (size_t)left : 64;
    const uint8_t *rest = n != 0 ? sft__import_walk_take(&w->in, n) : NULL;
    size_t i = 0;

    while (rest != NULL && i < n && (rest[i] == ' ' || (rest[i] >= '\t' && rest[i] <= '\r'))) {
        i++;
    }
    const bool line = n == 0 || (rest != NULL && (rest[0] == '\n' || rest[0] == '\r'));
    *all = i == left;
    sft__import_walk_seek(&w->in, at);
    return line;
}

/* What was looked up in bytes that are raw or words, and nothing came of it. */
static void tell_words(walk *w, const walk_pending *f) {
    walk_pending note = *f;

    note.kind = SFT_FINDING_NOTE;
    note.verdict = SFT_SCAN_HARMLESS;
    note.why =
        "words or raw bytes, which an unpickler would take for a name: nothing is called, and no "
        "pickle ends behind them";
    tell(w, &note);
}

void sft__import_walk_settle(walk *w, bool ended) {
    const uint32_t flags = w->part->flags;
    bool all = false;
    const bool line = w->pending_count != 0 && ended && ends_line(w, &all);

    for (size_t i = 0; i < w->pending_count; i++) {
        const walk_pending *f = &w->pending[i];
        const bool named = (flags & SFT__SCAN_LINE) != 0 ? f->identifier && line : f->plausible;
        const bool acts = f->acts && (flags & SFT__SCAN_NESTED) == 0;
        if (acts || (ended && ((all && f->possible) || named))) {
            tell(w, f);
        } else if ((flags & (SFT__SCAN_LINE | SFT__SCAN_NESTED)) == 0 &&
                   f->kind == SFT_FINDING_GLOBAL) {
            tell_words(w, f);
        }
    }
    w->pending_count = 0;
}

static uint64_t place_of(const walk *w) {
    uint64_t at;
    return w->part->base != SFT_NO_OFFSET && (at = w->part->base + w->opcode_at) >= w->part->base
               ? at
               : SFT_NO_OFFSET;
}

void sft__import_walk_odd(walk *w, uint32_t verdict, const char *subject, const char *rule,
                          const char *message) {
    walk_pending f = {.kind = SFT_FINDING_PICKLE,
                      .verdict = verdict,
                      .rule = rule,
                      .why = message,
                      .offset = place_of(w),
                      .len = strlen(subject),
                      .possible = true,
                      .module_plausible = true,
                      .plausible = true,
                      .identifier = true};

    walk_pay(w, NAME_COST);
    f.len = f.len < sizeof f.subject ? f.len : sizeof f.subject - 1;
    memcpy(f.subject, subject, f.len);
    find(w, &f);
}

/* Could a file of Python's own paths be called so? Letters, digits, underscores, dots, anything
 * beyond ASCII; empty parts are none. */
static bool is_plausible(walk_words s) {
    for (size_t i = 0; i < s.len; i++) {
        const uint8_t c = (uint8_t)s.at[i];
        const bool word = c >= 0x80 || c == '_' || (c >= '0' && c <= '9') ||
                          ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!word && !(c == '.' && i > 0 && s.at[i - 1] != '.')) {
            return false;
        }
    }
    return s.len != 0;
}

/* No part of it begins with a digit: names that a program writes without help. */
static bool is_identifier(walk_words s) {
    for (size_t i = 0; i < s.len; i++) {
        if ((i == 0 || s.at[i - 1] == '.') && s.at[i] >= '0' && s.at[i] <= '9') {
            return false;
        }
    }
    return is_plausible(s);
}

/* Could a file or an attribute be called so at all? Every import refuses empty parts. */
static bool is_possible(walk_words s) {
    size_t part = 0;

    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] == '.' ? part == 0 : part > 255) {
            return false;
        }
        part = s.at[i] == '.' ? 0 : part + 1;
    }
    return part != 0;
}

/* Not as files are called by those who want to be imported: words of a sentence. */
static bool is_loose(walk_words s) {
    for (size_t i = 0; i < s.len; i++) {
        const uint8_t c = (uint8_t)s.at[i];
        if (c <= ' ' || (c < 0x80 && strchr("!\"#$%&'()*,:;<=>?[\\]^`{|}", c) != NULL)) {
            return true;
        }
    }
    return !is_possible(s);
}

static bool is_printed(walk_words s) {
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < ' ' || s.at[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Modules that act when they are imported, which the look-up of any name in them does: no words. */
static bool is_acting(walk_words module) {
    static const char *const names[] = {"antigravity", "idlelib.idle", "idlelib.idle_test.htest"};
    static const char tail[] = ".__main__";
    const size_t n = sizeof tail - 1;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (module.len == strlen(names[i]) && memcmp(module.at, names[i], module.len) == 0) {
            return true;
        }
    }
    return module.len > n && memcmp(module.at + module.len - n, tail, n) == 0;
}

/* A NUL ends the subject of a finding: shown as a space that is no space. */
static void subject_put(walk_pending *f, walk_words s) {
    const size_t n = s.len < WALK_TEXT ? s.len : WALK_TEXT;

    for (size_t i = 0; i < n; i++) {
        f->subject[f->len++] = s.at[i] != '\0' ? s.at[i] : '\x01';
    }
}

/* What it makes is known to be no text, out of which names could be made. */
static uint32_t role_of(const sft__import_global *row) {
    const uint32_t known = row != NULL ? row->known : SFT__G_UNKNOWN;

    if (row != NULL && strcmp(row->module, "numpy.dtypes") == 0) {
        return WALK_ROLE_DTYPE;
    }
    return known == SFT__G_UNKNOWN || known == SFT__G_INERT || known == SFT__G_ENCODE ||
                   known == SFT__G_EVAL || known == SFT__G_REBUILD_FROM_TYPE
               ? WALK_ROLE_NONE
           : known == SFT__G_NP_DTYPE                                        ? WALK_ROLE_DTYPE
           : known == SFT__G_NP_NDARRAY && strcmp(row->name, "ndarray") == 0 ? WALK_ROLE_ARRAY
           : known == SFT__G_JOBLIB_ARRAY && strcmp(row->name, "NumpyArrayWrapper") == 0
               ? WALK_ROLE_WRAPPER
               : WALK_ROLE_KNOWN;
}

/* The table's verdict. A file may name the same long thing a million times: the last ones are kept.
 */
static uint32_t judge(walk *w, walk_words module, walk_words name, const char **why,
                      uint32_t *role) {
    const size_t at = (module.len * 3 + name.len + (module.len != 0 ? (uint8_t)module.at[0] : 0) +
                       (name.len != 0 ? (uint8_t)name.at[name.len - 1] : 0)) %
                      WALK_JUDGED;

    if (w->judged == NULL) {
        w->judged = sft__base_alloc_zero(w->job->allocator, WALK_JUDGED * sizeof *w->judged);
    }
    walk_judged *j = w->judged != NULL ? &w->judged[at] : NULL;
    if (j != NULL && j->why != NULL && j->module_len == module.len && j->name_len == name.len &&
        memcmp(j->text, module.at, module.len) == 0 &&
        memcmp(j->text + module.len, name.at, name.len) == 0) {
        *why = j->why;
        *role = j->role;
        return j->verdict;
    }
    const sft__import_global *row =
        sft__import_global_find(module.at, module.len, name.at, name.len);
    const uint32_t verdict =
        sft__import_global_verdict(row, module.at, module.len, name.at, name.len, why);
    *role = role_of(row);
    if (j != NULL && module.len <= WALK_TEXT && name.len <= WALK_TEXT) {
        j->module_len = module.len;
        j->name_len = name.len;
        j->verdict = verdict;
        j->role = *role;
        j->why = *why;
        memcpy(j->text, module.at, module.len);
        memcpy(j->text + module.len, name.at, name.len);
    }
    return verdict;
}

walk_value sft__import_walk_name(walk *w, walk_words module, walk_words name) {
    walk_pending f = {
        .kind = SFT_FINDING_GLOBAL, .rule = "global", .why = "", .offset = place_of(w)};
    uint32_t role;

    w->names++;
    walk_pay(w, NAME_COST + (module.len + name.len) / 2);
    if ((w->part->flags & DOUBTED) != 0) {
        w->loose = is_loose(module) || is_loose(name);
        w->printed = is_printed(module) && is_printed(name);
        f.possible = is_possible(module) && is_possible(name);
        f.module_plausible = is_plausible(module);
        f.plausible = f.module_plausible && is_plausible(name);
        f.identifier = f.plausible && is_identifier(module) && is_identifier(name);
        f.acts = f.module_plausible && is_acting(module);
    }
    f.verdict = judge(w, module, name, &f.why, &role);
    if (role == WALK_ROLE_WRAPPER) {
        w->wanted |= WALK_JOBLIB;
    }
    subject_put(&f, module);
    f.subject[f.len++] = '.';
    subject_put(&f, name);
    find(w, &f);
    return walk_make(V_CLASS, role);
}
