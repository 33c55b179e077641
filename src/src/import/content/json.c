/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/json.c - JSON beside and in weight files: valid to its end (NaN and Infinity as
 * Python writes them are taken), every object looked at for what a loader would import, call or
 * render: auto_map, hydra's _target_, jsonpickle, skops, Keras, chat templates; texts that are
 * pickles in base64 are walked. A stack of open containers, no recursion. Read first: content.h.
 */
#include "import/content/json_level.h"

static uint32_t dotted(const sft__base_json_str *s) {
    char room[FIELD_MOST];
    const char *text = field(room, s);
    return sft__import_content_dotted(text, strlen(text));
}
/* ---------------------------------------------------------------- texts */

static bool is_function_of(const level *l) {
    return l->object &&
           (is(&l->key, "loss") || is(&l->key, "metrics") || is(&l->key, "activation") ||
            is(&l->key, "recurrent_activation") || is(&l->key, "weighted_metrics"));
}

/* "loss": "mse", "metrics": ["accuracy"] */
static void function_text(walking *w, const level *l, const level *above,
                          const sft__base_json_str *s) {
    char room[FIELD_MOST];

    if ((is_function_of(l) || (above != NULL && is_function_of(above))) && w->own == NULL &&
        !sft__import_content_keras_has(field(room, s))) {
        w->own = s->raw;
    }
}

/* The nearest key: also of a list within lists. */
static const sft__base_json_str *nearest_key(const walking *w) {
    static const sft__base_json_str none = {"", 0, false};

    for (unsigned i = w->depth; i > 0; i--) {
        if (w->levels[i].object) {
            return &w->levels[i].key;
        }
    }
    return &none;
}

/* Decoded, up to a zero byte in it; NULL: too long, which was said. */
static const char *whole(walking *w, sft__base_buf *room, const sft__base_json_str *s,
                         size_t *len) {
    const char *text = s->raw;

    *len = s->len;
    if (s->escaped) {
        room->len = 0;
        if (s->len > SFT__CONTENT_STRING ||
            !sft__base_buf_reserve(room, s->len + SFT__JSON_SLACK)) {
            const sft__base_json_str shown = {s->raw, 0, false};
            find(w, SFT_SCAN_UNKNOWN, "strings", &shown, "a text too long to be decoded");
            return NULL;
        }
        *len = sft__base_json_decode(room->data, s);
        text = room->data;
    }
    const char *zero = *len != 0 ? memchr(text, '\0', *len) : NULL;
    *len = zero != NULL ? (size_t)(zero - text) : *len;
    return text;
}

/* A key, of a long one its end: the last words say what the value is. NULL: as above. */
static const char *key_text(walking *w, const sft__base_json_str *key, size_t *len) {
    const char *text = whole(w, &w->keys, key, len);
    const size_t skip = *len > FIELD_MOST ? *len - FIELD_MOST : 0;

    *len -= skip;
    return text != NULL ? text + skip : NULL;
}

static void judge(walking *w, const sft__base_json_str *s, const char *text, size_t len) {
    const sft__base_json_str *key = nearest_key(w);
    if (key->raw != w->kinds_of) {
        size_t n;
        const char *name = key_text(w, key, &n);
        w->kinds = name != NULL ? sft__import_setting_key(name, n) : 0;
        w->kinds_of = key->raw;
    }
    w->judged += (w->kinds & SFT__KEY_TOKENS) == 0;
    if (w->judged > JUDGED_MOST) {
        if (w->judged++ == JUDGED_MOST + 1) {
            const sft__base_json_str here = {s->raw, 0, false}; /* a list may have no key */
            find(w, SFT_SCAN_UNKNOWN, "strings", key->len != 0 ? key : &here,
                 "more values than are looked at");
        }
        return;
    }
    const sft__import_setting setting = {w->kinds, text, len, !w->levels[w->depth].object};
    sft__import_setting_said said;

    const uint32_t verdict = sft__import_setting_judge(&setting, &said);
    if (verdict != SFT_SCAN_HARMLESS) {
        const sft__base_json_str shown = {s->raw, s->len < 160 ? s->len : 160, s->escaped};
        find(w, verdict, said.rule, &shown, said.sentence);
    }
}

/* Programs of torch.export: the text, decoded, of a guard or with the specification of a tree. */
static void exported_text(walking *w, const sft__base_json_str *s, const char *text, size_t len) {
    const sft__base_json_str *key = nearest_key(w);
    const bool module = is(key, "default_factory_module");
    uint32_t verdict = sft__import_content_tree(w->c->job->allocator, text, len);

    if ((module || is(key, "default_factory_name")) && key->raw != s->raw) {
        verdict = sft__import_content_factory(text, len, module);
    }
    if (verdict != SFT_SCAN_HARMLESS) {
        find(w, verdict, "config-target", s, "a module that torch.export.load would import");
    }
    if (is(key, "guards_code") && key->raw != s->raw) {
        verdict = sft__import_content_guard(text, len);
        if (verdict != SFT_SCAN_HARMLESS) {
            find(w, verdict, "config-code", s, "a guard that is executed, of more than sizes");
        }
    }
}

/* Are the keys of the object at hand those of a vocabulary? */
static bool is_vocabulary(const walking *w) {
    const level *above = w->depth > 1 ? &w->levels[w->depth - 1] : NULL;
    char room[FIELD_MOST];

    if (above == NULL || !above->object) {
        return false;
    }
    const char *key = field(room, &above->key);
    return (sft__import_setting_key(key, strlen(key)) & SFT__KEY_TOKENS) != 0;
}

/* A text that may be a template, though its key does not say so. */
static void rendered_text(walking *w, const char *text, size_t len) {
    const level *l = &w->levels[w->depth];
    const bool read = l->templates || is(&l->key, "chat_template"); /* by the rules for templates */
    const uint32_t verdict =
        read ? SFT_SCAN_HARMLESS : sft__import_content_rendered(w->c->job->allocator, text, len);

    if (verdict != SFT_SCAN_HARMLESS) {
        find(w, verdict, "template", &l->key,
             verdict == SFT_SCAN_DANGEROUS ? "a template that reaches into the interpreter"
                                           : "a template with names that are computed");
    }
}

/* Texts that are pickles, or words of Keras's, whatever their key. */
static void any_text(walking *w, const sft__base_json_str *s, bool value) {
    char room[FIELD_MOST];
    const char *text = s->raw;
    size_t len = s->len;

    if (len < FIELD_MOST / 2) {
        text = field(room, s);
        if (sft__import_content_keras_word(text, strlen(text))) {
            w->word = s->raw;
        }
    }
    if (s->escaped) {
        w->room.len = 0;
        if (s->len > SFT__CONTENT_STRING || !sft__base_buf_reserve(&w->room, s->len + 1)) {
            find(w, SFT_SCAN_UNKNOWN, "strings", &w->levels[w->depth].key,
                 "a text too long to be decoded");
            return;
        }
        len = sft__base_json_decode(w->room.data, s);
        text = w->room.data;
    } else {
        text = s->raw;
    }
    size_t blanks = 0;
    while (blanks < len && memchr(" \t\r\n", text[blanks], 4) != NULL) {
        blanks++;
    }
    if (len - blanks > 12 && (text[blanks] == '{' || text[blanks] == '[') &&
        sft__import_content_has_target(text + blanks, len - blanks)) {
        const size_t skip = s->escaped ? 0 : blanks;
        const size_t rest = s->len - skip;
        const sft__base_json_str shown = {s->raw + skip, rest < 160 ? rest : 160, s->escaped};
        find(w, SFT_SCAN_UNKNOWN, "config-target", &shown,
             "JSON in a text, with what a loader imports");
    }
    exported_text(w, s, text, len);
    if (len > 7 && memcmp(text, "json://", 7) == 0) {
        find(w, SFT_SCAN_UNKNOWN, "config-target", s, "JSON in a key, as jsonpickle reads it");
    }
    rendered_text(w, text, len);
    if (value) {
        judge(w, s, text, len);
    } else if (s->raw == w->levels[w->depth].key.raw &&
               (sft__import_setting_python(text, len) & SFT__PYTHON_REACHES) != 0 &&
               !is_vocabulary(w)) {
        find(w, SFT_SCAN_UNKNOWN, "config-code", s,
             "a key that is Python, which a program that evaluates its keys runs");
    }
    if (!w->c->walked) {
        sft__import_scan_string(w->c->job, w->c->state->part, text, len, false);
    }
}

static bool is_attention(const level *l) {
    return l->object &&
           (is(&l->key, "attn_implementation") || is(&l->key, "_attn_implementation") ||
            is(&l->key, "_attn_implementation_internal") || is(&l->key, "experts_implementation") ||
            is(&l->key, "_experts_implementation") || is(&l->key, "kernel_config"));
}

/* "attn_implementation": "owner/repository@version:name", also one for each part of the model. */
static bool is_kernel(const level *l, const level *above, const sft__base_json_str *s) {
    return (is_attention(l) || (above != NULL && is_attention(above))) &&
           (s->escaped || memchr(s->raw, '/', s->len) != NULL);
}

/* What its key, or that of the list it is in, or its own form says that a loader would import. */
static void check_target(walking *w, const level *l, const level *above,
                         const sft__base_json_str *s) {
    static const sft__base_json_str none = {"", 0, false};
    static const sft__base_json_str any = {"target", 6, false};
    const sft__base_json_str *over = above != NULL && above->object ? &above->key : &none;
    const bool router = l->object && is(over, "types"); /* {"types": {"KEY": "package.Class"}} */
    const sft__base_json_str *key = router ? &any : nearest_key(w);
    const char *sentence;
    size_t key_len;
    size_t len;
    const char *name = key_text(w, key, &key_len);
    const char *text = whole(w, &w->room, s, &len);

    if (name == NULL || text == NULL) {
        return;
    }
    const sft__base_json_str shown = {s->raw, s->len < 160 ? s->len : 160, s->escaped};
    const bool by_key = !l->object || strcmp(w->c->name, "metadata") == 0; /* names of types */
    const uint32_t verdict =
        sft__import_content_target(name, key_len, text, len, by_key, &sentence);
    if (verdict != SFT_SCAN_HARMLESS) {
        find(w, verdict, "config-target", &shown, sentence);
    }
    if (l->object && sft__import_content_trusts(name, key_len, text, len)) {
        find(w, SFT_SCAN_UNKNOWN, "remote-code", key, "asks for code beside the model to be run");
    }
}

/* Shards of a model, modules of sentence-transformers: beside the file that names them. */
static void check_place(walking *w, const level *l, const level *above,
                        const sft__base_json_str *s) {
    char room[FIELD_MOST];
    const bool shard = above != NULL && above->object && is(&above->key, "weight_map");
    const bool module =
        l->object && is(&l->key, "path") &&
        sft__import_content_ends(sft__import_content_base(w->c->name), "modules.json");
    const bool manifest = w->depth > 3 && !l->object && above->object && is(&above->key, "paths") &&
                          is(&w->levels[1].key, "weightsManifest"); /* TF.js */

    if ((shard || module || manifest) && sft__import_content_leads_away(field(room, s))) {
        find(w, SFT_SCAN_DANGEROUS, "config-path", s,
             "weights outside of the model's directory, which its loader would read");
    }
}

static bool is_listed(const sft__base_json_str *s, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (is(s, words[i])) {
            return true;
        }
    }
    return false;
}

/* {"module": "evil", "attr": "f"} */
static void note_pair(level *l, const sft__base_json_str *s) {
    static const char *const modules[] = {"module",  "module_name",  "@module", "__module__",
                                          "_module", "class_module", NULL};
    static const char *const names[] = {"attr",          "class_name", "function",  "func",
                                        "callable",      "@class",     "@callable", "__name__",
                                        "function_name", "class",      "_class",    NULL};

    if (!l->object || l->key.len < 4 || memchr("mc@_afln\\", l->key.raw[0], 9) == NULL) {
        return; /* none of these words begins so */
    }
    if (is_listed(&l->key, modules)) {
        l->imports = *s;
    } else if (is_listed(&l->key, names)) {
        l->attribute = *s;
    } else if (is(&l->key, "library")) {
        l->library = *s;
    } else if (is(&l->key, "name")) {
        l->name = *s;
    }
}

static void note_node(level *l, const sft__base_json_str *s) {
    static const char *const keys[N_COUNT] = {"op", "opType", "op_type", "domain", "key", "value"};

    if (!l->object || l->key.len < 2 || memchr("odkv\\", l->key.raw[0], 5) == NULL) {
        return;
    }
    if (!l->node) {
        memset(l->nodes, 0, sizeof l->nodes);
    }
    for (size_t i = 0; i < N_COUNT; i++) {
        if (is(&l->key, keys[i])) {
            l->nodes[i] = *s;
            l->node = true;
        }
    }
}

/* A text value, its key in the level it stands in. */
static void on_text(walking *w, const sft__base_json_str *s) {
    static const char *const keys[] = {"module",   "class_name",    "registered_name", "config",
                                       "function", "vocabulary",    "__module__",      "__class__",
                                       "type",     "parent_library"};
    level *l = &w->levels[w->depth];
    level *above = w->depth > 1 ? &w->levels[w->depth - 1] : NULL;
    const bool in_config = above != NULL && above->object && is(&above->key, "config");

    if (l->templates || (l->object && is(&l->key, "chat_template"))) {
        any_text(w, s, false);
        sft__import_json_template(w, s, &l->key);
        return;
    }
    function_text(w, l, above, s);
    if (!l->object && l->fields[F_MODULE].raw == NULL) {
        l->fields[F_MODULE] = *s; /* of a list its first text */
    }
    if (is_kernel(l, above, s)) {
        find(w, SFT_SCAN_UNKNOWN, "remote-code", s,
             "a kernel of a repository, which transformers would fetch and load");
    }
    for (size_t i = 0; l->object && i < F_COUNT; i++) {
        if (is(&l->key, keys[i])) {
            level *of = (i == F_FUNCTION || i == F_VOCABULARY) ? (in_config ? above : NULL) : l;
            if (of != NULL) {
                of->fields[i] = *s;
            }
        }
    }
    if (l->object && in_config && is(&l->key, "function_type") && !is(s, "function")) {
        above->code = true;
    }
    if (w->locates != NULL && w->locates == nearest_key(w)->raw) {
        static const char *const own[] = {"conv_op", "norm_op", "dropout_op", "nonlin", NULL};
        if (!is_listed(s, own)) {
            find(w, SFT_SCAN_UNKNOWN, "config-target", s, "a key whose value nnU-Net would import");
        }
    }
    check_target(w, l, above, s);
    check_place(w, l, above, s);
    note_pair(l, s);
    if (l->object && s->len <= 66) { /* eleven letters, as escapes */
        char room[2][FIELD_MOST];
        const char *key = field(room[0], &l->key);
        const char *text = field(room[1], s);
        l->modules |= sft__import_setting_module(key, strlen(key), text, strlen(text));
    }
    if (w->graph) {
        note_node(l, s);
    }
    if (l->object && is(&l->key, "expr_str")) {
        const uint32_t verdict =
            s->escaped ? SFT_SCAN_UNKNOWN : sft__import_content_expression(s->raw, s->len);
        if (verdict != SFT_SCAN_HARMLESS) {
            find(w, verdict, "config-target", s,
                 "an expression that is evaluated, of more than sizes");
        }
    }
    if (l->object && is(&l->key, "#")) {
        const uint32_t verdict =
            s->escaped ? SFT_SCAN_UNKNOWN : sft__import_content_pir(s->raw, s->len);
        if (verdict != SFT_SCAN_HARMLESS) {
            find(w, verdict, "paddle-operator", s,
                 "an operator that runs Python, reads or writes files, or is none of Paddle's own");
        }
    }
    if (l->object && is(&l->key, "template_format") && is(s, "jinja2")) {
        l->jinja = true;
    } else if (l->object && is(&l->key, "template")) {
        l->template = *s;
    }
    if (l->object && (is(&l->key, "py/object") || is(&l->key, "py/type") ||
                      is(&l->key, "py/function") || is(&l->key, "py/repr"))) {
        find(w, dotted(s), "config-target", s, "what jsonpickle would import");
    }
    any_text(w, s, true);
}

static void on_key(walking *w, const sft__base_json_str *s) {
    level *l = &w->levels[w->depth];
    char room[FIELD_MOST];

    l->key = *s;
    if (w->depth == 1) {
        w->graph = is(s, "graph") || is(s, "modelTopology") || is(s, "functions") ||
                   is(s, "trainingInfo") || is(s, "training_info");
    }
    any_text(w, s, false);
    if (s->len > 32) {
        return;
    }
    const char *acts = sft__import_setting_of_file(w->c->name, field(room, s), w->depth);
    if (acts != NULL) {
        find(w, SFT_SCAN_UNKNOWN, "code-file", s, acts);
    } else if (is(s, "auto_map") || is(s, "custom_pipelines") || is(s, "custom_pipeline")) {
        find(w, SFT_SCAN_UNKNOWN, "remote-code", s,
             "names Python code beside the model, which trust_remote_code runs");
    } else if (is(s, "_kw_requires_import")) {
        w->locates = s->raw;
    } else if (is(s, "kernel_mapping")) {
        find(w, SFT_SCAN_UNKNOWN, "remote-code", s,
             "kernels of repositories, which transformers would fetch and load");
    } else if (is(s, "lc")) {
        l->langchain = true;
    } else if (is(s, "py/reduce") || is(s, "py/ref_reduce")) {
        find(w, SFT_SCAN_DANGEROUS, "config-target", s, "jsonpickle would make a call of it");
    } else if (s->len > 3 && field(room, s) != NULL && strncmp(room, "py/", 3) == 0) {
        find(w, SFT_SCAN_UNKNOWN, "config-target", s, "an object that jsonpickle would make");
    } else if (is(s, "config")) {
        l->has_config = true;
    }
}

/* ---------------------------------------------------------------- the walk */

static void push(walking *w, bool object) {
    const level *above = &w->levels[w->depth];
    const bool templates = above->templates || (above->object && is(&above->key, "chat_template"));
    level *upper = w->depth > 1 ? &w->levels[w->depth - 1] : NULL;

    if (above->object && is(&above->key, "trust_remote_code")) {
        find(w, SFT_SCAN_UNKNOWN, "remote-code", &above->key,
             "asks for code beside the model to be run");
    }
    if (object && above->object && is(&above->key, "guards_code")) {
        find(w, SFT_SCAN_UNKNOWN, "config-code", &above->key, "keys that would be executed");
    }
    if (above->object && is_listed(&above->key, sft__import_content_targets)) {
        find(w, SFT_SCAN_UNKNOWN, "config-target", &above->key, "what a loader would import");
    }
    if (!object && above->object && is(&above->key, "function") && upper != NULL && upper->object &&
        is(&upper->key, "config")) {
        upper->code = true; /* [bytes of code, defaults, closure] */
    }
    level *l = &w->levels[++w->depth];
    memset(l, 0, offsetof(level, nodes));
    l->object = object;
    l->templates = templates;
}

/* NaN, Infinity, -Infinity: Python's. */
static const char *python_number(const char *p) {
    const char *q = *p == '-' ? p + 1 : p;

    if (strncmp(q, "Infinity", 8) == 0) {
        return q + 8;
    }
    return strncmp(p, "NaN", 3) == 0 ? p + 3 : NULL;
}

static const char *scalar(walking *w, const char *p) {
    sft__base_json_str s;

    if (*p == '"') {
        p = sft__base_json_read(&w->j, p, &s);
        if (p != NULL) {
            on_text(w, &s);
        }
        return p;
    }
    const char *q = python_number(p);
    if (q == NULL) {
        q = sft__base_json_value(&w->j, p, w->depth);
        s = (sft__base_json_str){p, q != NULL ? (size_t)(q - p) : 0, false};
        if (q != NULL && w->levels[w->depth].object && (*p == 't' || (*p >= '1' && *p <= '9'))) {
            judge(w, &s, p, s.len);
        }
        if (q != NULL && is(&w->levels[w->depth].key, "trust_remote_code") && *p != 'f' &&
            *p != 'n' && !(q - p == 1 && *p == '0')) {
            find(w, SFT_SCAN_UNKNOWN, "remote-code", &w->levels[w->depth].key,
                 "asks for code beside the model to be run");
        }
    }
    return q;
}

static const char *read_key(walking *w, const char *p) {
    sft__base_json_str s;

    if (*p != '"') {
        return sft__base_json_expected(&w->j, p, "a key");
    }
    p = sft__base_json_read(&w->j, p, &s);
    if (p == NULL) {
        return NULL;
    }
    on_key(w, &s);
    p = sft__base_json_blank(p);
    return *p == ':' ? sft__base_json_blank(p + 1) : sft__base_json_expected(&w->j, p, "':'");
}

/* Behind a value: commas and ends of containers, up to the next value. NULL: a fault; *done. */
static const char *after_value(walking *w, const char *p, bool *done) {
    for (;;) {
        p = sft__base_json_blank(p);
        if (w->depth == 0) {
            *done = true;
            return p;
        }
        const level *l = &w->levels[w->depth];
        if (*p == ',') {
            p = sft__base_json_blank(p + 1);
            return l->object ? read_key(w, p) : p;
        }
        if (*p != (l->object ? '}' : ']')) {
            return sft__base_json_expected(&w->j, p, l->object ? "',' or '}'" : "',' or ']'");
        }
        if (l->object) {
            if (l->modules != 0) {
                sft__import_json_modules(w, l, p);
            }
            sft__import_json_object_end(w, l);
        } else {
            sft__import_json_list_end(w, l);
        }
        w->depth--;
        p++;
    }
}

/* One value or the beginning of a container; *done: all is read. */
static const char *step(walking *w, const char *p, bool *done) {
    if (*p != '{' && *p != '[') {
        p = scalar(w, p);
        return p != NULL ? after_value(w, p, done) : NULL;
    }
    if (w->depth == SFT__JSON_DEPTH) {
        return sft__base_json_fail(&w->j, p, "containers too deep");
    }
    push(w, *p == '{');
    w->levels[w->depth].from = p;
    p = sft__base_json_blank(p + 1);
    if (*p == (w->levels[w->depth].object ? '}' : ']')) {
        w->depth--;
        return after_value(w, p + 1, done);
    }
    return w->levels[w->depth].object ? read_key(w, p) : p;
}

/* Values one behind the other, a line each. A line that is none is passed over. */
static bool walk_lines(walking *w) {
    const char *p = w->text;

    while (p < w->j.end && !sft__import_content_is_tired(w->c)) {
        const char *line = p;
        bool done = false;
        w->depth = 0;
        memset(&w->levels[0], 0, sizeof w->levels[0]);
        p = sft__base_json_blank(p);
        while (p != NULL && p < w->j.end && !done && !sft__import_content_is_tired(w->c)) {
            p = step(w, p, &done);
        }
        if (p == NULL) { /* what stands before the fault was looked at */
            line = w->j.fault_at > line ? w->j.fault_at : line;
            p = memchr(line, '\n', (size_t)(w->j.end - line));
            p = p != NULL ? p + 1 : w->j.end;
        }
    }
    return true;
}

static bool walk_all(walking *w) {
    const char *p = w->text;
    bool done = false;

    if (w->lines) {
        return walk_lines(w);
    }

    if (w->c->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
    }
    p = sft__base_json_blank(p);
    while (p != NULL && !done && !sft__import_content_is_tired(w->c)) {
        p = step(w, p, &done);
    }
    if (!done && p != NULL) {
        return true; /* enough was found */
    }
    if (p != NULL && p < w->j.end) {
        p = sft__base_json_fail(&w->j, p, "more behind the value");
    }
    return p != NULL;
}

bool sft__import_content_json(const sft__import_content *c, bool *is_json) {
    const bool called = sft__import_content_ends(c->name, ".json");
    const bool lines =
        sft__import_content_ends(c->name, ".jsonl") || sft__import_content_ends(c->name, ".ndjson");
    const char *p = (const char *)c->data;
    walking *w;
    bool good = false;

    p += c->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    p = sft__base_json_blank(p);
    *is_json = *p == '{' || *p == '[' || called || lines;
    if (!*is_json) {
        return false;
    }
    w = sft__base_alloc_zero(c->job->allocator, sizeof *w);
    if (w == NULL || sft__base_utf8_valid(c->data, c->len) != c->len) {
        sft__base_free(c->job->allocator, w, sizeof *w);
        return false;
    }
    w->c = c;
    w->lines = lines;
    w->text = (const char *)c->data;
    w->j.end = w->text + c->len;
    sft__base_buf_init(&w->room, c->job->allocator);
    sft__base_buf_init(&w->keys, c->job->allocator);
    if (walk_all(w)) {
        good = true;
    } else {
        *is_json = called;
        if (called) {
            sft__import_content_find(
                c, SFT_SCAN_UNKNOWN, "json", place(w, w->j.fault_at), "", 0,
                "called *.json, but no valid JSON: loaders may read it differently");
        }
    }
    if (w->keras && w->word != NULL) {
        sft__import_content_find(
            c, SFT_SCAN_DANGEROUS, "keras-module", place(w, w->word), w->word,
            strcspn(w->word, "\""),
            "a utility of Keras that acts (loads, saves, fetches, switches protection off)");
    }
    if (w->keras && w->own != NULL) {
        sft__import_content_find(
            c, SFT_SCAN_UNKNOWN, "keras-custom", place(w, w->own), w->own, strcspn(w->own, "\""),
            "a function that Keras does not have: its code is not in the file");
    }
    sft__base_buf_reset(&w->room);
    sft__base_buf_reset(&w->keys);
    sft__base_free(c->job->allocator, w, sizeof *w);
    return good && !c->state->odd;
}
