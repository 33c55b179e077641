/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/content.h - what the rules for contents share: texts, JSON, templates, images,
 * graphs and code that lie in or beside weight files. Rules are pure functions over bytes in memory
 * (or over a source, where the bytes may be many); what they find goes to the job's report, and
 * each says whether it has a positive reason to call the bytes harmless. Nothing is executed,
 * resolved or opened. Read first: scan.h.
 */
#ifndef SFT_IMPORT_CONTENT_H
#define SFT_IMPORT_CONTENT_H

#include "base/text/json.h"
#include "import/scan/scan.h"

enum {
    SFT__CONTENT_MOST = 64 << 20,        /* bytes of a text that are looked through */
    SFT__CONTENT_STRING = 8 << 20,       /* of one text in a JSON file, decoded */
    SFT__CONTENT_TEMPLATE = 1 << 20,     /* of a template */
    SFT__CONTENT_TEMPLATE_ALL = 3 << 20, /* of all templates of a part */
    SFT__CONTENT_FOUND = 4096,           /* findings of one part: more are a trick */
    SFT__CONTENT_TEMPLATES = 1024,
    SFT__CONTENT_NODES = 1 << 19, /* of a graph */
    SFT__CONTENT_YAML = 12 << 20,
    SFT__CONTENT_SVG = 4 << 20 /* bytes */
};

/* What the rules for one part share. */
typedef struct sft__import_content_state {
    const sft__import_scan_part *part;
    bool odd;       /* something was found that is not harmless */
    unsigned found; /* times that something was */
    unsigned templates;
    unsigned entries; /* of metadata that were looked at */
    size_t template_bytes;
    uint32_t format;   /* what the content was recognised as; SFT_IMPORT_UNKNOWN: nothing */
    sft_status status; /* of the world outside; the rules go on */
    sft_error *err;
} sft__import_content_state;

typedef struct sft__import_content {
    sft__import *job;
    sft__import_content_state *state;
    bool prose;          /* a text of git's, whatever its name */
    bool walked;         /* its strings were looked into before */
    const char *name;    /* path or member, for the rules that go by names; never NULL */
    uint64_t at;         /* of data in the file; SFT_NO_OFFSET: it does not lie there as such */
    const uint8_t *data; /* SFT__JSON_SLACK zero bytes behind it */
    size_t len;
} sft__import_content;

/* A finding at byte `at` of the content. subject: raw bytes out of the content. */
void sft__import_content_find(const sft__import_content *c, uint32_t verdict, const char *rule,
                              size_t at, const char *subject, size_t subject_len,
                              const char *sentence);

/* Were there so many that the rules stop? That was said. */
bool sft__import_content_is_tired(const sft__import_content *c);

/* ---------------------------------------------------------------- names of files (text.c) */

/* Does the name end so, in any case? `end` is in lower case. */
bool sft__import_content_ends(const char *name, const char *end);
/* Of a text of `len` bytes: how it starts, whether the word is in it, whether it is one of a list that
 * NULL ends. */
bool sft__import_text_starts(const char *text, size_t len, const char *with);
bool sft__import_text_has(const char *text, size_t len, const char *word);
bool sft__import_text_is_one(const char *text, size_t len, const char *const *words);
const char *sft__import_content_base(const char *name); /* behind the last slash */
/* Is it a name of what programs execute (*.py, *.so ...)? *sentence: what runs it. */
bool sft__import_content_runs(const char *name, const char **sentence);
/* A name of a text that no loader executes: README.md, vocab.txt, LICENSE ... */
bool sft__import_content_is_prose(const char *name);

/* The verdict for a value of a configuration that a loader may import and call; the keys decide,
 * and the value's form. key: "" if it is not known. by_key: of the rules for any key none counts.
 * targets.c */
uint32_t sft__import_content_target(const char *key, size_t key_len, const char *value, size_t len,
                                    bool by_key, const char **sentence);
/* Keys whose value is such, whatever form it has; ends with NULL. */
extern const char *const sft__import_content_targets[];
/* A template that reaches into the interpreter, whichever program renders it. */
bool sft__import_content_breaks_out(const char *text, size_t len);
/* The same for a text that may be a template, under any key: dangerous, or unknown if it gets attributes
 * by computed names. rendered.c */
uint32_t sft__import_content_rendered(const sft_allocator *a, const char *text, size_t len);
/* Are keys of this kind among the letters? */
bool sft__import_content_has_target(const char *text, size_t len);
/* An expression of sizes, as exported programs keep them and sympy evaluates them: numbers,
 * symbols, operators and functions that are known; else unknown or dangerous.
 * (torch/utils/_sympy/functions.py, 2.13) */
uint32_t sft__import_content_expression(const char *text, size_t len);
/* A guard of such a program, which Python executes: what its inputs are like, in sizes, numbers and
 * texts. */
uint32_t sft__import_content_guard(const char *text, size_t len);
/* A text of JSON, decoded once: does it, or JSON in texts within it, name modules as the specifications
 * of PyTorch's trees do? */
uint32_t sft__import_content_tree(const sft_allocator *a, const char *text, size_t len);
/* default_factory_module or default_factory_name of such a specification. */
uint32_t sft__import_content_factory(const char *text, size_t len, bool module);
/* Does a key ask for code beside the model (trust_remote_code), and the value not deny it? */
bool sft__import_content_trusts(const char *key, size_t key_len, const char *value, size_t len);

/* Is the file TOML, YAML or a template by its name, whatever stands behind that ("a.yaml.txt")? */
bool sft__import_content_is_toml(const char *name);
bool sft__import_content_is_yaml(const char *name);
bool sft__import_content_is_template(const char *name);

/* A path that leads out of the directory that it is in. */
bool sft__import_content_leads_away(const char *path);
/* 40 or 64 hexadecimal digits: a commit of git's. */
bool sft__import_content_is_commit(const char *text, size_t len);

/* ---------------------------------------------------------------- rules: true = positive */

/* UTF-8 without control characters. */
bool sft__import_content_is_text(const uint8_t *data, size_t len);
/* A text, already known to be one: YAML tags, scripts, SVG. */
bool sft__import_content_text(const sft__import_content *c);
/* YAML without tags of others, and without keys by which loaders import something. */
bool sft__import_content_yaml(const sft__import_content *c);
bool sft__import_content_toml(const sft__import_content *c);
/* SVG that only draws. */
bool sft__import_content_svg(const sft__import_content *c);
/* JSON: valid to its end, with nothing in it that names code. *is: it looks like JSON. */
bool sft__import_content_json(const sft__import_content *c, bool *is);
/* PNG, JPEG, GIF, WebP: whole, nothing behind the end. */
bool sft__import_content_image(const sft__import_content *c);
/* A model of sentencepiece: nothing but its known fields. */
bool sft__import_content_pieces(const sft__import_content *c);
/* The small file of numbers that SavedModels have. */
bool sft__import_content_fingerprint(const sft__import_content *c);
/* Bare numbers that a file beside it describes; opens that file. */
bool sft__import_content_is_data(const sft__import_content *c);
/* Code of TorchScript: nothing but what its compiler computes with. */
bool sft__import_content_torchscript(const sft__import_content *c);
/* The same of the operators in a bytecode.pkl, which has no code beside it. */
void sft__import_content_bytecode(const sft__import_content *c);
/* A Jinja template: reaches for nothing but its variables. subject: what holds it. */
bool sft__import_content_template(const sft__import_content *c, const char *subject,
                                  size_t subject_len, size_t at, const char *text, size_t len);

/* What a "#" of a program of Paddle 3 (.json) names: "1.relu", an operator of Paddle's own; "3.x" one
 * of another library; "0.t_f32", a type; "block_0". graph.c */
uint32_t sft__import_content_pir(const char *type, size_t len);

/* An object of a list called `list`, in JSON whose outermost object has it under `root`, with these texts
 * (NULL: not there): a node of ONNX as JSON or of TF.js, a place of external data. json_graph.c */
typedef struct sft__import_json_node {
    const char *root;
    const char *list;
    const char *op;      /* op */
    const char *op_type; /* opType, op_type */
    const char *domain;
    const char *key;
    const char *value;
} sft__import_json_node;
void sft__import_content_json_node(const sft__import_content *c, size_t at,
                                   const sft__import_json_node *n);

/* A text with a key out of metadata. metadata.c */
typedef struct sft__import_content_entry {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
} sft__import_content_entry;
sft_status sft__import_content_metadata(sft__import_content *c, const sft__import_content_entry *e,
                                        sft_error *err);

/* Libraries and pipelines of diffusers's own; ends with NULL. diffusers_names.c */
extern const char *const sft__import_diffusers_own[];

/* ---------------------------------------------------------------- names of Python */

/* The verdict for "package.module.name" as a loader would resolve it. */
uint32_t sft__import_content_dotted(const char *name, size_t len);
uint32_t sft__import_content_global(const char *module, size_t module_len, const char *name,
                                    size_t name_len);

/* ---------------------------------------------------------------- Keras (keras.c) */

/* An object of a Keras configuration, as far as it was met. Texts are decoded. */
typedef struct sft__import_keras {
    const char *module;
    const char *class_name;
    const char *registered;
    const char *config;     /* when it is a text: the name of a function */
    const char *function;   /* config.function, when it is a text */
    const char *vocabulary; /* config.vocabulary, when it is a text: a path */
    bool has_config;
    bool code; /* a function given by its bytes, or a lambda */
    size_t at;
} sft__import_keras;
void sft__import_content_keras(const sft__import_content *c, const sft__import_keras *object);
/* Keras's own classes, and names of its losses, metrics and activations. keras_names.c */
extern const char *const sft__import_keras_classes[];
extern const size_t sft__import_keras_classes_count;
extern const char *const sft__import_keras_words[];
extern const size_t sft__import_keras_words_count;
bool sft__import_content_keras_has(const char *name);
/* Texts that are suspicious anywhere in such a file. */
bool sft__import_content_keras_word(const char *text, size_t len);

#endif
