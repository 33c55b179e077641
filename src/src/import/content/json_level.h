/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/json_level.h - inside the rules for JSON: what is kept of the containers that are
 * open, and of the walk. json.c has the walk and the texts, json_object.c what is asked when a
 * container ends. Read first: content.h.
 */
#ifndef SFT_IMPORT_JSON_LEVEL_H
#define SFT_IMPORT_JSON_LEVEL_H

#include "base/text/utf8.h"
#include "import/content/content.h"
#include "import/settings/settings.h"

enum {
    FIELD_MOST = 256,
    PAIRED_MOST = 32 << 20,
    JUDGED_MOST = 2 << 20 /* values of a file */
};

/* Fields of an object that are kept until it ends. */
enum {
    F_MODULE,
    F_CLASS,
    F_REGISTERED,
    F_CONFIG,
    F_FUNCTION,
    F_VOCABULARY,
    F_PY_MODULE,
    F_PY_CLASS,
    F_TYPE,
    F_LIBRARY,
    F_COUNT
};

/* Texts of nodes of a graph. */
enum { N_OP, N_OP_TYPE, N_OP_TYPE_OLD, N_DOMAIN, N_KEY, N_VALUE, N_COUNT };

typedef struct level {
    bool object;
    bool templates; /* lies in a chat_template */
    bool has_config;
    bool code;
    bool jinja;                   /* template_format: jinja2 */
    bool langchain;               /* "lc": 1 */
    sft__base_json_str attribute; /* the name of a function or class in a module */
    sft__base_json_str imports;   /* the name of that module */
    sft__base_json_str library;   /* the same, with a class beside it */
    sft__base_json_str name;      /* of what a reference of fiddle's is to */
    const char *from;             /* where an object begins */
    uint32_t modules;             /* sft__import_setting_module() of its texts */
    sft__base_json_str key;
    sft__base_json_str template;
    sft__base_json_str id;              /* the first text of a list of that name */
    sft__base_json_str fields[F_COUNT]; /* raw NULL: not there */
    bool node;                          /* has one of these */
    sft__base_json_str nodes[N_COUNT];  /* last: set where `node` is */
} level;

typedef struct walking {
    const sft__import_content *c;
    sft__base_json j;
    const char *text;
    unsigned depth;
    bool lines;           /* a value on each line */
    bool graph;           /* below a key of a graph's */
    bool keras;           /* an object of Keras was met */
    const char *kinds_of; /* the key that sft__import_setting_key() was asked for last */
    unsigned kinds;
    size_t judged;
    const char *locates; /* the last key of that meaning */
    size_t paired;       /* bytes of objects that name such modules */
    const char *word;    /* a suspicious text, if it turns out to be Keras's */
    const char *own;     /* a loss, metric or activation that Keras does not have, likewise */
    sft__base_buf room;  /* of decoded texts */
    sft__base_buf keys;  /* of a decoded key */
    level levels[SFT__JSON_DEPTH + 1];
} walking;

static inline size_t place(const walking *w, const char *p) {
    return (size_t)(p - w->text);
}

static inline void find(walking *w, uint32_t verdict, const char *rule, const sft__base_json_str *s,
                        const char *sentence) {
    sft__import_content_find(w->c, verdict, rule, place(w, s->raw), s->raw, s->len, sentence);
}

static inline bool is(const sft__base_json_str *s, const char *text) {
    const size_t n = strlen(text); /* known to the compiler */
    if (s->raw == NULL || (s->len != n && !s->escaped)) {
        return false;
    }
    return s->escaped ? sft__base_json_is(s, text, n) : memcmp(s->raw, text, n) == 0;
}

/* The text, decoded and ended by a zero byte, cut to FIELD_MOST; NULL: not there. */
static inline const char *field(char room[FIELD_MOST], const sft__base_json_str *s) {
    sft__base_json_str cut = *s;

    if (s->raw == NULL) {
        return NULL;
    }
    if (cut.len > FIELD_MOST - 16) { /* not in the middle of an escape: the first backslash cuts */
        cut.len = FIELD_MOST - 16;
        for (size_t i = cut.len > 16 ? cut.len - 16 : 0; i < cut.len; i++) {
            cut.len = cut.raw[i] == '\\' ? i : cut.len;
        }
    }
    room[sft__base_json_decode(room, &cut)] = '\0';
    return room;
}

/* ---------------------------------------------------------------- json_object.c */

void sft__import_json_template(walking *w, const sft__base_json_str *s,
                               const sft__base_json_str *key);
/* {"mod": "os", "call": "system"}: are there both in the object, which ends at `end`? */
void sft__import_json_modules(walking *w, const level *l, const char *end);
void sft__import_json_object_end(walking *w, const level *l);
void sft__import_json_list_end(walking *w, const level *l);

#endif
