/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/json_object.c - what is asked of an object or a list of JSON when it ends: pairs
 * of a module and a name in it, objects of Keras, skops, langchain and diffusers, nodes of graphs.
 * Read first: json_level.h.
 */
#include "import/content/json_level.h"

static void end_keras(walking *w, const level *l) {
    char rooms[F_VOCABULARY + 1][FIELD_MOST];
    sft__import_keras o;

    memset(&o, 0, sizeof o);
    o.module = field(rooms[F_MODULE], &l->fields[F_MODULE]);
    o.class_name = field(rooms[F_CLASS], &l->fields[F_CLASS]);
    o.registered = field(rooms[F_REGISTERED], &l->fields[F_REGISTERED]);
    o.config = field(rooms[F_CONFIG], &l->fields[F_CONFIG]);
    o.function = field(rooms[F_FUNCTION], &l->fields[F_FUNCTION]);
    o.vocabulary = field(rooms[F_VOCABULARY], &l->fields[F_VOCABULARY]);
    o.has_config = l->has_config;
    o.code = l->code;
    o.at = place(w, l->fields[F_CLASS].raw);
    w->keras = true;
    sft__import_content_keras(w->c, &o);
}

/* {"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode"} */
static void end_skops(walking *w, const level *l) {
    char module[FIELD_MOST];
    char name[FIELD_MOST];
    const char *m = field(module, &l->fields[F_PY_MODULE]);
    const char *n = field(name, &l->fields[F_PY_CLASS]);
    const uint32_t verdict = sft__import_content_global(m, strlen(m), n, strlen(n));

    if (verdict != SFT_SCAN_HARMLESS) {
        find(w, verdict, "config-target", &l->fields[F_PY_MODULE],
             "a class that a loader (skops) would import and make");
    }
}

/* A module that is none of these or below one of them. */
static void foreign_module(walking *w, const sft__base_json_str *s, const char *const *own,
                           const char *sentence) {
    char room[FIELD_MOST];
    const char *text = field(room, s);

    for (size_t i = 0; own[i] != NULL; i++) {
        const size_t n = strlen(own[i]);
        if (strncmp(text, own[i], n) == 0 && (text[n] == '\0' || text[n] == '.')) {
            return;
        }
    }
    const uint32_t verdict = sft__import_content_global(text, strlen(text), "x", 1);
    find(w, verdict == SFT_SCAN_DANGEROUS ? verdict : SFT_SCAN_UNKNOWN, "remote-code", s, sentence);
}

/* A template, decoded. */
void sft__import_json_template(walking *w, const sft__base_json_str *s,
                               const sft__base_json_str *key) {
    static const sft__base_json_str none = {"chat_template", 13, false};
    const sft__base_json_str *name = key->raw != NULL ? key : &none;

    w->room.len = 0;
    if (s->len > SFT__CONTENT_STRING ||
        !sft__base_buf_reserve(&w->room, s->len + SFT__JSON_SLACK)) {
        find(w, SFT_SCAN_UNKNOWN, "template", name, "a template too long to be looked through");
        return;
    }
    const size_t n = sft__base_json_decode(w->room.data, s);
    memset(w->room.data + n, 0, SFT__JSON_SLACK);
    (void)sft__import_content_template(w->c, name->raw, name->len, place(w, s->raw), w->room.data,
                                       n);
}

static void end_pair(walking *w, const sft__base_json_str *imports,
                     const sft__base_json_str *attribute) {
    static const char *const data[] = {/* what monty and pymatgen keep numbers and dates as */
                                       "numpy.array",      "torch.tensor",          "uuid.UUID",
                                       "pandas.DataFrame", "datetime.datetime",     "pathlib.Path",
                                       "pandas.Series",    "bson.objectid.ObjectId"};
    char module[FIELD_MOST];
    char name[FIELD_MOST];
    char both[2 * FIELD_MOST + 1];
    const char *sentence;

    if ((imports->len > FIELD_MOST - 16 || attribute->len > FIELD_MOST - 16) &&
        memchr(imports->raw, ' ', imports->len) == NULL &&
        memchr(attribute->raw, ' ', attribute->len) == NULL) {
        const sft__base_json_str shown = {imports->raw, 0, false};
        find(w, SFT_SCAN_UNKNOWN, "strings", &shown,
             "names of a module and of what is in it, longer than are looked at");
    }
    const size_t n = strlen(field(module, imports));
    const size_t m = strlen(field(name, attribute));
    if (sft__import_content_global(module, n, name, m) == SFT_SCAN_HARMLESS) {
        return; /* {"module": "builtins", "name": "tuple"} */
    }
    memcpy(both, module, n);
    both[n] = '.';
    memcpy(both + n + 1, name, m);
    both[n + 1 + m] = '\0';
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        if (strcmp(both, data[i]) == 0) {
            return;
        }
    }
    const uint32_t verdict =
        sft__import_content_target("class", 5, both, n + 1 + m, false, &sentence);
    if (verdict != SFT_SCAN_HARMLESS) {
        find(w, verdict, "config-target", imports, sentence);
    }
}

/* {"graph": {"node": [{"opType": "Relu"}]}} */
static void end_node(walking *w, const level *l) {
    char rooms[N_COUNT + 2][FIELD_MOST];
    const char *texts[N_COUNT];
    const level *list = w->depth > 2 ? &w->levels[w->depth - 2] : NULL;

    if (list == NULL || list->key.raw == NULL || w->levels[1].key.raw == NULL) {
        return;
    }
    for (size_t i = 0; i < N_COUNT; i++) {
        texts[i] = field(rooms[i], &l->nodes[i]);
    }
    const sft__import_json_node n = {.root = field(rooms[N_COUNT], &w->levels[1].key),
                                     .list = field(rooms[N_COUNT + 1], &list->key),
                                     .op = texts[N_OP],
                                     .op_type = texts[N_OP_TYPE] != NULL ? texts[N_OP_TYPE]
                                                                         : texts[N_OP_TYPE_OLD],
                                     .domain = texts[N_DOMAIN],
                                     .key = texts[N_KEY],
                                     .value = texts[N_VALUE]};
    const char *at = l->nodes[N_OP].raw;
    for (size_t i = 0; i < N_COUNT && at == NULL; i++) {
        at = l->nodes[i].raw;
    }
    sft__import_content_json_node(w->c, place(w, at), &n);
}

/* {"mod": "os", "call": "system"}: are there both? */
void sft__import_json_modules(walking *w, const level *l, const char *end) {
    sft__base_json j = w->j;
    char room[FIELD_MOST];
    sft__base_json_str s;

    w->paired += (size_t)(end - l->from);
    if (w->paired > PAIRED_MOST) {
        const sft__base_json_str here = {l->from, 0, false};
        find(w, SFT_SCAN_UNKNOWN, "strings", &here, "more texts beside modules than are looked at");
        return;
    }
    for (const char *p = l->from; p != NULL && p < end;) {
        if (*p != '"') {
            p++;
            continue;
        }
        p = sft__base_json_read(&j, p, &s);
        if (p != NULL && s.len < FIELD_MOST - 16) {
            const char *text = field(room, &s);
            if (sft__import_setting_reaches(l->modules, text, strlen(text))) {
                find(w, SFT_SCAN_DANGEROUS, "config-target", &s,
                     "a function that reaches the operating system, beside its module");
                return;
            }
        }
    }
}

void sft__import_json_object_end(walking *w, const level *l) {
    if (l->node) {
        end_node(w, l);
    }
    if (l->fields[F_CLASS].raw != NULL &&
        (l->has_config || l->fields[F_MODULE].raw != NULL || l->fields[F_REGISTERED].raw != NULL)) {
        end_keras(w, l);
    }
    if (l->fields[F_PY_MODULE].raw != NULL && l->fields[F_PY_CLASS].raw != NULL) {
        end_skops(w, l);
    }
    if (l->fields[F_TYPE].raw != NULL &&
        sft__import_content_ends(sft__import_content_base(w->c->name), "modules.json")) {
        static const char *const own[] = {"sentence_transformers", NULL};
        foreign_module(w, &l->fields[F_TYPE], own,
                       "a module that sentence-transformers would import");
    }
    if (l->fields[F_LIBRARY].raw != NULL) {
        static const char *const own[] = {
            "transformers", "diffusers",   "peft", "sentence_transformers",
            "timm",         "torchvision", NULL};
        foreign_module(w, &l->fields[F_LIBRARY], own, "a module that peft would import");
    }
    if (l->langchain && l->id.raw != NULL) {
        static const char *const own[] = {NULL};
        foreign_module(w, &l->id, own, "what langchain would import and make");
    }
    if (l->imports.raw != NULL && l->attribute.raw != NULL &&
        (l->fields[F_CLASS].raw == NULL || l->fields[F_MODULE].raw == NULL)) {
        end_pair(w, &l->imports, &l->attribute);
    }
    if (l->library.raw != NULL && l->attribute.raw != NULL) {
        end_pair(w, &l->library, &l->attribute);
    }
    if (l->imports.raw != NULL && l->name.raw != NULL && is(&l->fields[F_TYPE], "pyref")) {
        end_pair(w, &l->imports, &l->name);
    }
    if (l->jinja && l->template.raw != NULL) {
        sft__import_json_template(w, &l->template, &l->key);
    }
}

/* model_index.json of diffusers: "unet": ["library", "Class"] in the outermost object. A library
 * that is none of its own or a pipeline's is imported. */
void sft__import_json_list_end(walking *w, const level *l) {
    level *above = &w->levels[w->depth - 1];
    const bool hint = w->depth > 1 && above->object && is(&above->key, "type_hint");

    if (l->fields[F_MODULE].raw == NULL) {
        return;
    }
    if (hint || (w->depth == 2 && sft__import_content_ends(sft__import_content_base(w->c->name),
                                                           "model_index.json"))) {
        foreign_module(w, &l->fields[F_MODULE], sft__import_diffusers_own,
                       "a module that diffusers would import");
    }
    if (w->depth > 1 && above->object && is(&above->key, "id")) {
        above->id = l->fields[F_MODULE];
    }
}
