/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/settings.h - what a configuration's value may make a program do, told by the
 * words of its key and by the value's own form: code that is evaluated, files of code and
 * libraries that are loaded by their path, commands of a shell, functions named by "package:name".
 * Lists of keys age; words and forms do so more slowly. Pure functions over text; nothing is
 * resolved or opened. What a program does under a key with no such word and with a value of no such
 * form, nobody can tell from the file. Read first: content.h.
 */
#ifndef SFT_IMPORT_SETTINGS_H
#define SFT_IMPORT_SETTINGS_H

#include "import/content/content.h"

/* What the words of a key say about its value. */
enum {
    SFT__KEY_NAMES_CODE = 1,     /* a word such as plugin, handler, factory: what is imported */
    SFT__KEY_RUNS = 2,           /* ends in a word such as command, script, hook */
    SFT__KEY_PLACE = 4,          /* plugin_dir, code_path: a place that code is taken from */
    SFT__KEY_MODULE = 8,         /* user_module: the name of a module, without dots, too */
    SFT__KEY_PLUGINS = 16,       /* ends in plugin or plugins */
    SFT__KEY_LOADED = 32,        /* known: a library or a file of Python is loaded */
    SFT__KEY_EVALUATED = 64,     /* known: the value is evaluated as Python */
    SFT__KEY_REPOSITORY = 128,   /* known: code of a repository or an address is run */
    SFT__KEY_TRUSTS = 256,       /* allow_remote, allow_pickle */
    SFT__KEY_TOKENS = 512,       /* a vocabulary */
    SFT__KEY_FILES = 1024,       /* what a package has: a list of files */
    SFT__KEY_SCRIPT = 2048,      /* evaluated: download */
    SFT__KEY_LAYERS = 4096,      /* evaluated: backbone, head */
    SFT__KEY_LIBRARY = 8192,     /* loaded, whatever its ending is */
    SFT__KEY_ACTIVATION = 16384, /* evaluated, and what comes out of it is called */
    SFT__KEY_METADATA = 32768,   /* evaluated as Python where it describes an exported model */
    SFT__KEY_SOURCE = 65536,     /* known: a text of Python is executed */
    SFT__KEY_PACKAGES = 131072   /* known: packages that are to be installed */
};
unsigned sft__import_setting_key(const char *key, size_t len);

/* How words begin: a bit for each three letters. Those of which sft__import_setting_key() knows
 * something; one more key; could a key be one of them? Most are none, and this is quick. */
typedef struct sft__import_setting_starts {
    uint8_t bits[4096];
} sft__import_setting_starts;
void sft__import_setting_starts_init(sft__import_setting_starts *s);
void sft__import_setting_starts_add(sft__import_setting_starts *s, const char *key);
bool sft__import_setting_may_be(const sft__import_setting_starts *s, const char *key, size_t len);

/* What a text is, read as Python. */
enum {
    SFT__PYTHON = 1, /* it may be valid; prose and most else are not */
    SFT__PYTHON_CALLS = 2,
    SFT__PYTHON_REACHES = 4, /* it imports, or calls what leads out of an expression */
    SFT__PYTHON_SPACED = 8   /* "f (x)": a call, or a word with a remark behind it */
};
unsigned sft__import_setting_python(const char *text, size_t len);
/* Python that is executed: the verdict; assignments of plain values are harmless. source.c */
uint32_t sft__import_setting_source(const char *text, size_t len);
/* Are there words anywhere that no text but code has? strict: that prose does not mention. */
bool sft__import_setting_is_wild(const char *text, size_t len, bool strict);

/* Modules that reach the operating system, where the key says that the text may be one: a set of one, or 0.
 * Is the text a function in one of the set that does? What such are called: both end with NULL. reach.c */
typedef struct sft__import_setting_function {
    const char *name;
    uint32_t modules;
} sft__import_setting_function;
uint32_t sft__import_setting_module(const char *key, size_t key_len, const char *text, size_t len);
bool sft__import_setting_reaches(uint32_t set, const char *text, size_t len);
extern const sft__import_setting_function sft__import_setting_reaching[];
extern const char *const sft__import_setting_modules[];

/* One value, decoded. */
typedef struct sft__import_setting {
    unsigned kinds; /* sft__import_setting_key() of the nearest key */
    const char *value;
    size_t len;
    bool listed; /* in a list */
} sft__import_setting;

typedef struct sft__import_setting_said {
    const char *rule;
    const char *sentence;
} sft__import_setting_said;

/* The verdict; harmless: nothing to be said. Dotted names are sft__import_content_target()'s. */
uint32_t sft__import_setting_judge(const sft__import_setting *s, sft__import_setting_said *said);

/* The values of a YAML or TOML text, one by one, as far as lines and quotes tell them.
 * base: of the text in the content; SIZE_MAX: it was decoded. */
bool sft__import_setting_yaml(const sft__import_content *c, const char *text, size_t len,
                              size_t base);

/* requirements.txt, conda.yaml ...: what pip or conda would take from elsewhere. */
bool sft__import_setting_is_requirements(const char *name);
bool sft__import_setting_requirements(const sft__import_content *c);

/* entry_points.txt: what programs load of every package that they find. */
bool sft__import_setting_is_entry_points(const char *name);
bool sft__import_setting_entry_points(const sft__import_content *c);

/* What a program makes of a key of its own file: scripts of package.json. NULL: nothing. */
const char *sft__import_setting_of_file(const char *name, const char *key, unsigned depth);

/* The objects of a Keras configuration in YAML. keras_yaml.c */
bool sft__import_setting_keras(const sft__import_content *c, const char *text, size_t len,
                               size_t base);

#endif
