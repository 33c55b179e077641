/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_settings.c - what dictionaries of pickles say to the programs that they are
 * settings of: hyper-parameters, configurations. Items of dictionaries with texts for keys, and of
 * lists and tuples under such a key, are written down as lines of JSON, below the nearest key
 * outside, and judged by the rules for JSON (content/json.c) when enough of them are together, or
 * the part ends. Pickles that fail are nobody's settings. Most items are words under words that
 * name nothing: those are left out. Read first: walk.h.
 */
#include "base/text/utf8.h"
#include "import/content/content.h"
#include "import/settings/settings.h"
#include "import/walk/walk.h"

enum {
    FLUSH_BYTES = 256 << 10,
    TEXT_MOST = 16 << 20, /* bytes of a text */
    FAR_COST = 4,         /* bytes of one that is read again, for the price of an opcode */
    JUDGE_BYTES = 16,     /* bytes that are judged, likewise */
    JUDGE_COST = 2048,    /* of the walk over some of them, in opcodes */
    NEAREST_MOST = 64,    /* containers within one another */
    MARKS = 8,            /* that are passed over for the price of an opcode */
    DULL_MOST = 128,      /* bytes of a value */
    KEY_MOST = 128        /* of a key that names something */
};

/* ---------------------------------------------------------------- texts */

static const walk_text *text_of(const walk *w, walk_value v) {
    return walk_kind(v) == V_STR ? sft__import_walk_text(w, walk_number(v)) : NULL;
}

/* As JSON; bytes that are no UTF-8 become characters each. */
static void put_bytes(sft__base_buf *out, const sft_allocator *a, const uint8_t *bytes,
                      size_t len) {
    if (sft__base_utf8_valid(bytes, len) == len) {
        sft__base_json_string(out, (const char *)bytes, len);
        return;
    }
    uint8_t *wide = sft__base_alloc(a, 2 * len);
    if (wide == NULL) {
        out->failed = true;
        return;
    }
    const size_t n = sft__import_walk_from_latin1(wide, bytes, len);
    sft__base_json_string(out, (const char *)wide, n);
    sft__base_free(a, wide, 2 * len);
}

/* A long one, as it lies in the source. *len bytes of *room; NULL: it cannot be had. */
static uint8_t *read_far(walk *w, const walk_text *t, size_t *len, size_t *room) {
    const sft_allocator *a = w->job->allocator;
    walk_far far;

    memcpy(&far, w->pool + t->at + t->len, sizeof far);
    if (far.size > TEXT_MOST || w->job->walk_left == 0) {
        return NULL;
    }
    walk_pay(w, far.size / FAR_COST);
    const size_t n = (size_t)far.size;
    *room = far.how == WALK_FAR_PLAIN ? n : 3 * n + 8;
    uint8_t *out = sft__base_alloc(a, *room);
    uint8_t *line = far.how == WALK_FAR_PLAIN || out == NULL ? out : out + *room - n;
    if (out == NULL || sft_source_read(w->in.source, far.at, line, n, NULL) != SFT_OK) {
        sft__base_free(a, out, *room);
        return NULL;
    }
    *len = far.how == WALK_FAR_PLAIN    ? n
           : far.how == WALK_FAR_STRING ? sft__import_walk_escaped(out, line, n)
                                        : sft__import_walk_raw_unicode(out, line, n);
    if (*len == SIZE_MAX) {
        sft__base_free(a, out, *room);
        return NULL;
    }
    return out;
}

static void lose(walk *w) {
    if (!w->settings.lost) {
        w->settings.lost = true;
        sft__import_walk_odd(w, SFT_SCAN_UNKNOWN, "", "strings",
                             "more texts in dictionaries, or larger ones, than are looked at");
    }
}

/* A text, decoded as far as it must be; what *owned has, of *room bytes, is to be freed. */
static walk_words words_of(walk *w, const walk_text *t, uint8_t **owned, size_t *room) {
    walk_words all = {w->pool + t->at, t->len};

    *owned = NULL;
    if (t->cut != 0) {
        *owned = read_far(w, t, &all.len, room);
        all.at = (const char *)*owned;
        if (*owned == NULL) {
            lose(w);
            all = (walk_words){"", 0};
        }
    }
    return all;
}

static void put_text(walk *w, const walk_text *t) {
    uint8_t *owned;
    size_t room;
    const walk_words all = words_of(w, t, &owned, &room);

    put_bytes(&w->settings.text, w->job->allocator, (const uint8_t *)all.at, all.len);
    sft__base_free(w->job->allocator, owned, owned != NULL ? room : 0);
}

static bool may_be_json(const walk *w, const walk_text *t) {
    const char *p = w->pool + t->at;
    size_t i = 0;

    while (i < t->len && (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r'))) {
        i++;
    }
    return i == t->len ? t->cut != 0 : p[i] == '{' || p[i] == '[';
}

/* ---------------------------------------------------------------- what is worth it */

/* Halves of a pair that names something in a module. */
static const char *const halves[] = {
    "module",     "module_name", "@module", "__module__", "_module",   "class_module",
    "attr",       "class_name",  "class",   "function",   "func",      "callable",
    "@class",     "@callable",   "name",    "__name__",   "__class__", "function_name",
    "_class",     "type",        "library", "config",     "template",  "registered_name",
    "vocabulary", NULL};

/* Keys of which any value counts, beside those that sft__import_setting_key() knows. */
static const char *const sure[] = {
    "parent_library", "template_format", "auto_map",          "custom_pipeline", "custom_pipelines",
    "chat_template",  "expr_str",        "trust_remote_code", "kernel_mapping",  NULL};

static bool is_half(const walk *w, const walk_text *t) {
    return t != NULL && t->len >= 4 && t->len <= 15 &&
           sft__import_text_is_one(w->pool + t->at, t->len, halves);
}

static bool is_sure(const char *p, size_t len) {
    return sft__import_text_is_one(p, len, sure) ||
           sft__import_text_is_one(p, len, sft__import_content_targets) ||
           (len > 3 && memcmp(p, "py/", 3) == 0);
}

void sft__import_walk_settings_init(walk *w) {
    sft__base_buf_init(&w->settings.text, w->job->allocator);
}

/* How keys that tell something begin; put together for the first key: most parts have none. */
static const walk_settings *starts_of(walk *w) {
    const char *const *const lists[] = {halves, sure, sft__import_content_targets};
    sft__import_setting_starts *s = &w->settings.starts;

    if (w->settings.ready) {
        return &w->settings;
    }
    w->settings.ready = true;
    sft__import_setting_starts_init(s);
    sft__import_setting_starts_add(s, "py/object");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (size_t k = 0; lists[i][k] != NULL; k++) {
            sft__import_setting_starts_add(s, lists[i][k]);
        }
    }
    for (size_t i = 0; sft__import_setting_reaching[i].name != NULL; i++) {
        sft__import_setting_starts_add(&w->settings.reaching, sft__import_setting_reaching[i].name);
    }
    for (size_t i = 0; sft__import_setting_modules[i] != NULL; i++) {
        sft__import_setting_starts_add(&w->settings.reaching, sft__import_setting_modules[i]);
    }
    return &w->settings;
}

/* Could a value under this key be anything, however plain it is? The last keys are kept. */
static bool is_telling(walk *w, const walk_text *t) {
    const char *p = w->pool + t->at;
    walk_settings *s = &w->settings;
    uint32_t hash = t->len;

    if (t->len == 0 || t->len > KEY_MOST ||
        !sft__import_setting_may_be(&starts_of(w)->starts, p, t->len)) {
        return false;
    }
    for (size_t i = 0; i < t->len; i++) {
        hash = (hash ^ (uint8_t)p[i]) * 16777619u;
    }
    walk_key *k = &s->keys[(hash ^ hash >> 15) % WALK_KEYS];
    if (k->len != t->len || memcmp(k->text, p, t->len < WALK_KEY ? t->len : WALK_KEY) != 0 ||
        t->len > WALK_KEY) {
        k->telling = is_half(w, t) || is_sure(p, t->len) || sft__import_setting_key(p, t->len) != 0;
        k->len = t->len;
        memcpy(k->text, p, t->len < WALK_KEY ? t->len : WALK_KEY);
    }
    return k->telling;
}

/* Words and numbers, of which no program makes anything. */
static bool is_dull(const walk *w, const walk_text *t) {
    const uint8_t *p = (const uint8_t *)w->pool + t->at;
    static const uint8_t plain[256] = {
        [' '] = 1, ['_'] = 1, ['-'] = 1, ['+'] = 1, [','] = 1, ['\''] = 1, ['!'] = 1, ['?'] = 1,
        ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1,  ['6'] = 1, ['7'] = 1,
        ['8'] = 1, ['9'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1,  ['E'] = 1, ['F'] = 1,
        ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1,  ['M'] = 1, ['N'] = 1,
        ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1,  ['U'] = 1, ['V'] = 1,
        ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['a'] = 1, ['b'] = 1,  ['c'] = 1, ['d'] = 1,
        ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1,  ['k'] = 1, ['l'] = 1,
        ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1,  ['s'] = 1, ['t'] = 1,
        ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
    };
    if (t->cut != 0 || t->len > DULL_MOST || (t->len != 0 && p[0] == '-')) {
        return false;
    }
    for (size_t i = 0; i < t->len; i++) {
        if (plain[p[i]] == 0 && p[i] < 0x80) {
            return false;
        }
    }
    return !sft__import_text_has((const char *)p, t->len, "import ");
}

/* ---------------------------------------------------------------- the nearest key */

/* The key above a container that lies, or will lie, at `at` of the stack. NULL: there is none. */
static const walk_text *nearest(walk *w, size_t at) {
    size_t marks = w->marks.count;

    for (unsigned i = 0; i < NEAREST_MOST && at > 0; i++) {
        const size_t before = marks;
        while (marks > 0 && w->marks.at[marks - 1] > at) {
            marks--;
        }
        walk_pay(w, (before - marks) / MARKS);
        const size_t frame = marks > 0 ? w->marks.at[marks - 1] : 0;
        const walk_value owner = frame > 0 ? w->stack.at[frame - 1] : walk_make(V_NONE, 0);
        const walk_value below = w->stack.at[at - 1];
        if (at > frame && walk_kind(owner) == V_LIST) {
            at = frame - 1;
        } else if (walk_kind(below) == V_STR) {
            /* in a dictionary every other value is a key, the first of them behind the mark */
            const bool key = at == frame || walk_kind(owner) != V_DICT || (at - frame) % 2 != 0;
            return key ? text_of(w, below) : NULL;
        } else if (at == frame || walk_kind(below) == V_LIST || walk_kind(below) == V_ANY ||
                   walk_kind(below) == V_OBJECT) {
            at--; /* an item of it, or its state */
        } else if (walk_kind(owner) != V_DICT && frame > 0) {
            at = frame; /* in a tuple */
        } else {
            return NULL;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- lines */

static void open_line(walk *w, const walk_text *above, char container) {
    sft__base_buf *out = &w->settings.text;

    sft__base_buf_text(out, "{");
    if (above != NULL) {
        put_text(w, above);
        sft__base_buf_text(out, container == '{' ? ":{" : ":[");
    }
}

static void close_line(walk *w, const walk_text *above, char container) {
    sft__base_buf *out = &w->settings.text;

    if (out->len != 0 && !out->failed && out->data[out->len - 1] == ',') {
        out->len--;
    }
    sft__base_buf_text(out, above == NULL ? "}\n" : container == '{' ? "}}\n" : "]}\n");
}

/* {"KEY": VALUE}, the text being JSON perhaps: where it is none, the rest of the line is passed
 * over. */
static void json_line(walk *w, const walk_text *key, const walk_text *t) {
    sft__base_buf *out = &w->settings.text;
    uint8_t *owned;
    size_t room;
    const walk_words all = words_of(w, t, &owned, &room);

    if (sft__base_utf8_valid((const uint8_t *)all.at, all.len) == all.len) {
        sft__base_buf_text(out, "{");
        put_text(w, key);
        sft__base_buf_text(out, ":");
        const size_t from = out->len;
        sft__base_buf_add(out, all.at, all.len);
        for (size_t i = from; i < out->len && !out->failed; i++) {
            out->data[i] = out->data[i] == '\n' || out->data[i] == '\0' ? ' ' : out->data[i];
        }
        sft__base_buf_text(out, "}\n");
    }
    sft__base_free(w->job->allocator, owned, owned != NULL ? room : 0);
}

/* What an item is, as JSON has it; "": nothing that counts. */
static const char *plain_value(walk *w, const walk_text *key, walk_value v) {
    const unsigned kind = walk_kind(v);
    uint64_t n;

    if (kind == V_LIST || kind == V_DICT || kind == V_TUPLE || kind == V_SET) {
        return is_telling(w, key) ? "0," : "";
    }
    if (v == walk_make(V_SCALAR, WALK_TRUE)) {
        return is_telling(w, key) ? "true," : "";
    }
    return kind == V_INT && sft__import_walk_int_of(w, v, &n) && n != 0 && is_telling(w, key) ? "1,"
                                                                                              : "";
}

/* A module that reaches the operating system, or a function of one. */
static bool is_reaching(walk *w, const walk_text *key, const walk_text *t) {
    const char *p = w->pool + t->at;

    return t->len >= 2 && t->len <= 15 &&
           sft__import_setting_may_be(&starts_of(w)->reaching, p, t->len) &&
           (sft__import_setting_reaches(UINT32_MAX, p, t->len) ||
            sft__import_setting_module(w->pool + key->at, key->len, p, t->len) != 0);
}

static bool wants(walk *w, const walk_text *key, walk_value v) {
    const walk_text *t = text_of(w, v);

    if (t == NULL && walk_kind(v) == V_STR) {
        lose(w);
    }
    return t != NULL ? !is_dull(w, t) || is_reaching(w, key, t) || is_telling(w, key)
                     : *plain_value(w, key, v) != '\0';
}

static void put_item(walk *w, const walk_text *key, walk_value v) {
    const walk_text *t = text_of(w, v);
    sft__base_buf *out = &w->settings.text;

    put_text(w, key);
    sft__base_buf_text(out, ":");
    if (t != NULL) {
        put_text(w, t);
        sft__base_buf_text(out, ",");
    } else {
        sft__base_buf_text(out, plain_value(w, key, v));
    }
}

/* ---------------------------------------------------------------- dictionaries and lists */

/* What was put into containers above `at`, which are closed. */
static void drop_held(walk_settings *s, size_t at) {
    while (s->held_count != 0 && s->held[s->held_count - 1].at > at) {
        s->held_count--;
    }
}

/* Halves of a pair that were put into the dictionary at `at` one by one. */
static void put_held(walk *w, size_t at) {
    walk_settings *s = &w->settings;

    drop_held(s, at);
    for (size_t i = s->held_count; i > 0 && s->held[i - 1].at == at; i--) {
        const walk_text *key = text_of(w, s->held[i - 1].key);
        if (key != NULL) {
            put_item(w, key, s->held[i - 1].value);
        }
    }
}

static void hold(walk *w, size_t at, walk_value key, walk_value value) {
    walk_settings *s = &w->settings;

    const walk_text *k = text_of(w, key);
    const walk_text *t = text_of(w, value);

    if (s->held_count < WALK_HELD && t != NULL && (is_half(w, k) || is_reaching(w, k, t))) {
        s->held[s->held_count++] = (walk_held){at, key, value};
    }
}

static void dictionary(walk *w, size_t at, const walk_text *above, size_t first) {
    bool open = false;

    for (size_t i = first; i + 1 < w->stack.count; i += 2) {
        const walk_text *key = text_of(w, w->stack.at[i]);
        if (key == NULL || !wants(w, key, w->stack.at[i + 1])) {
            continue;
        }
        if (!open) {
            open = true;
            open_line(w, above, '{');
            put_held(w, at);
        }
        put_item(w, key, w->stack.at[i + 1]);
        hold(w, at, w->stack.at[i], w->stack.at[i + 1]);
    }
    if (open) {
        close_line(w, above, '{');
    }
    for (size_t i = first; i + 1 < w->stack.count; i += 2) {
        const walk_text *key = text_of(w, w->stack.at[i]);
        const walk_text *t = text_of(w, w->stack.at[i + 1]);
        if (key != NULL && t != NULL && may_be_json(w, t)) {
            json_line(w, key, t);
        }
    }
}

/* step: 2 for the values of a dictionary whose keys are numbers. */
static void list(walk *w, const walk_text *above, size_t first, size_t step) {
    bool open = false;

    for (size_t i = first; i < w->stack.count; i += step) {
        const walk_text *t = text_of(w, w->stack.at[i]);
        const bool number = step == 1 || walk_kind(w->stack.at[i - 1]) == V_INT;
        if (t == NULL || !number || !wants(w, above, w->stack.at[i])) {
            continue;
        }
        if (!open) {
            open = true;
            open_line(w, above, '[');
        }
        put_text(w, t);
        sft__base_buf_text(&w->settings.text, ",");
    }
    if (open) {
        close_line(w, above, '[');
    }
    for (size_t i = first; i < w->stack.count; i += step) {
        const walk_text *t = text_of(w, w->stack.at[i]);
        if (t != NULL && may_be_json(w, t)) {
            json_line(w, above, t);
        }
    }
}

/* ---------------------------------------------------------------- the judgement */

static void judge(walk *w) {
    walk_settings *s = &w->settings;
    bool is;

    s->state.part = w->part;
    s->state.err = w->in.err;
    sft__import_content c = {.job = w->job,
                             .state = &s->state,
                             .name = "pickle.jsonl",
                             .at = SFT_NO_OFFSET,
                             .walked = true};
    walk_pay(w, JUDGE_COST + s->text.len / JUDGE_BYTES);
    c.len = s->text.len;
    sft__base_buf_fill(&s->text, '\0', SFT__JSON_SLACK);
    if (s->text.failed) {
        w->limited = true;
    } else {
        c.data = (const uint8_t *)s->text.data;
        (void)sft__import_content_json(&c, &is);
        if (s->state.status != SFT_OK && w->in.status == SFT_OK) {
            w->in.status = s->state.status;
        }
    }
}

void sft__import_walk_settings_judge(walk *w) {
    walk_settings *s = &w->settings;

    if (s->text.len != 0 || s->text.failed) {
        judge(w);
    }
    sft__base_buf_reset(&s->text);
    s->begin = 0;
}

void sft__import_walk_settings_begin(walk *w) {
    w->settings.begin = w->settings.text.len;
    w->settings.held_count = 0;
}

/* What a pickle that fails says is of no account. */
void sft__import_walk_settings_end(walk *w, bool ended) {
    walk_settings *s = &w->settings;

    if (!ended) {
        s->text.len = s->begin < s->text.len ? s->begin : s->text.len;
    }
    if (s->text.len > FLUSH_BYTES) {
        sft__import_walk_settings_judge(w);
    }
}

static void taken(walk *w) {
    if (w->settings.text.len > 4 * FLUSH_BYTES || w->settings.text.failed) {
        sft__import_walk_settings_judge(w);
    }
}

void sft__import_walk_settings_items(walk *w, size_t first, size_t at) {
    if (w->stack.count == first) {
        return;
    }
    const walk_text *above = nearest(w, at);
    dictionary(w, at, above, first);
    if (above != NULL && walk_kind(w->stack.at[first]) == V_INT) {
        list(w, above, first + 1, 2);
    }
    taken(w);
}

void sft__import_walk_settings_list(walk *w, size_t first, size_t at) {
    bool any = false;

    drop_held(&w->settings, at);
    for (size_t i = first; i < w->stack.count && !any; i++) {
        any = walk_kind(w->stack.at[i]) == V_STR;
    }
    /* what torch.save once noted of a class, and where a storage is: ('module', class, source) */
    if (!any || (w->stack.count - first > 2 && walk_kind(w->stack.at[first + 1]) == V_CLASS)) {
        return;
    }
    const walk_text *above = nearest(w, at);
    if (above != NULL) {
        list(w, above, first, 1);
    }
    taken(w);
}
