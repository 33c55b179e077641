/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/content.c - which rules are for a part: its kind is told by bytes, and by its name
 * where a name is what makes a program run it. Short parts are read whole, graphs where they lie;
 * tensors are not looked at. Read first: content.h, graph.h.
 */
#include "import/content/content.h"
#include "base/memory/need.h"
#include "import/graph/graph.h"
#include "import/hdf5/hdf5.h"
#include <stdio.h>

enum { HEAD = 1024 };

/* ---------------------------------------------------------------- findings */

void sft__import_content_find(const sft__import_content *c, uint32_t verdict, const char *rule,
                              size_t at, sft__import_span subject, const char *sentence) {
    const char *where = c->state->part->where;
    const size_t head = strlen(where);
    const uint32_t kind = verdict == SFT_SCAN_HARMLESS ? SFT_FINDING_NOTE : SFT_FINDING_CONTENT;
    const uint64_t offset = c->at == SFT_NO_OFFSET ? SFT_NO_OFFSET : c->at + at;
    char text[512];

    c->state->odd = c->state->odd || verdict != SFT_SCAN_HARMLESS;
    c->state->found += verdict != SFT_SCAN_HARMLESS;
    if (c->state->found == SFT__CONTENT_FOUND) {
        c->state->found++;
        sft__import_content_find(
            c, SFT_SCAN_DANGEROUS, "too-many", at, sft__import_span_of(""),
            "more findings than any honest file has: the rest is not looked at");
    }
    if (head == 0) {
        sft__import_find(c->job, (sft__import_rule){kind, verdict, rule},
                         SFT__AT(subject.at, subject.len, offset), "%s", sentence);
        return;
    }
    const size_t keep = head < 240 ? head : 240;
    const size_t tail = subject.len < 240 ? subject.len : 240;
    memcpy(text, where, keep);
    if (tail != 0) {
        memcpy(text + keep, ": ", 2);
        memcpy(text + keep + 2, subject.at, tail);
    }
    sft__import_find(c->job, (sft__import_rule){kind, verdict, rule},
                     SFT__AT(text, keep + (tail != 0 ? 2 + tail : 0), offset), "%s", sentence);
}

void sft__import_content_say(const sft__import_content *c, uint32_t verdict, const char *rule,
                             const char *sentence) {
    sft__import_content_find(c, verdict, rule, 0, sft__import_span_of(""), sentence);
}

bool sft__import_content_is_tired(const sft__import_content *c) {
    return c->state->found >= SFT__CONTENT_FOUND;
}

/* ---------------------------------------------------------------- HDF5 */

enum { H5_TEXT = 8 << 20 };

static bool is_outside(sft_status status) {
    return status == SFT_E_NOMEM || status == SFT_E_IO || status == SFT_E_TRUNCATED ||
           status == SFT_E_CHANGED || status == SFT_E_CANCELLED || status == SFT_E_HTTP;
}

/* A configuration that is looked through. */
typedef struct h5_config {
    sft__import_content *c;
    char *text;
    size_t cap;
} h5_config;

static sft_status h5_text(void *ctx, const char *path, size_t path_len, const char *name,
                          sft_error *err) {
    const h5_config *x = ctx;
    sft__import_content *c = x->c;
    const size_t len = strlen(x->text);
    const size_t base = strlen(name);
    char subject[160];
    bool is;

    (void)err;
    if (path_len != 0 && (path_len < base || strcmp(path + path_len - base, name) != 0)) {
        const int shown = path_len < 80 ? (int)path_len : 80;
        (void)snprintf(subject, sizeof subject, "%.*s@%s", shown, path, name);
    } else {
        (void)snprintf(subject, sizeof subject, "%.150s", path_len != 0 ? path : name);
    }
    memset(x->text + len, 0, SFT__JSON_SLACK);
    if (len == 0 || len >= x->cap - 1) {
        sft__import_content_find(
            c, SFT_SCAN_UNKNOWN, "keras-config", 0, sft__import_span_of(subject),
            "a configuration that Keras reads, but that could not be read here");
        return SFT_OK;
    }
    c->data = (const uint8_t *)x->text;
    c->len = len;
    c->at = SFT_NO_OFFSET;
    if (!sft__import_content_json(c, &is) && !c->state->odd) {
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "keras-config", 0,
                                 sft__import_span_of(subject),
                                 "a configuration that Keras reads, but no JSON");
    }
    return SFT_OK;
}

/* Keras keeps its configuration in attributes of the root; a model that is loaded out of a group,
 * or by older ones out of datasets, has it there. */
static sft_status h5_configs(sft__import_content *c, const sft__import_scan_part *part,
                             sft_error *err) {
    static const char *const names[] = {"model_config", "training_config"};
    const sft_allocator *a = c->job->allocator;
    const size_t cap = part->size < H5_TEXT ? (size_t)part->size + 1 : H5_TEXT;
    sft_source *source;
    sft_error why;

    SFT_TRY(sft__import_source_part(
        &source, part->source, (sft__import_extent){part->offset, part->size}, c->name, a, err));
    h5_config x = {c, sft__base_alloc(a, cap + SFT__JSON_SLACK), cap};
    const sft__import_h5_wanted want = {names, sizeof names / sizeof names[0], x.text, cap, h5_text,
                                        &x};
    memset(&why, 0, sizeof why);
    sft_status status = x.text != NULL ? sft__import_hdf5_texts(c->job, source, &want, &why)
                                       : sft__base_fail_nomem(&why, cap);
    sft__base_free(a, x.text, cap + SFT__JSON_SLACK);
    sft_source_close(source);
    if (status != SFT_OK && !is_outside(status)) {
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "keras-config", 0,
                                 sft__import_span_of(names[0]),
                                 "configurations that Keras reads could not be looked for");
        status = SFT_OK;
    } else if (status != SFT_OK) {
        *err = why;
    }
    return status;
}

/* ---------------------------------------------------------------- graphs */

typedef sft_status (*graph_fn)(sft__import_graph *g, sft_error *err);

/* The rules for a graph, or NULL. *whole: they are all that is to be said about such a file. */
static graph_fn graph_of(sft__import_graph *g, const uint8_t *head, size_t len, bool *whole) {
    const char *base = sft__import_content_base(g->c->name);
    const uint32_t format = g->c->state->part->format;

    *whole = true;
    if (format == SFT_IMPORT_ONNX) {
        *whole = false; /* the reader has its say about the rest */
        return sft__import_graph_onnx;
    }
    if (format == SFT_IMPORT_TFLITE) {
        *whole = false;
        return sft__import_graph_tflite;
    }
    if (format != SFT_IMPORT_UNKNOWN && format != SFT_IMPORT_OTHER) {
        return NULL;
    }
    if (strcmp(base, "keras_metadata.pb") == 0) {
        return sft__import_graph_keras_metadata;
    }
    if (sft__import_content_ends(base, ".pdmodel") || strcmp(base, "__model__") == 0) {
        *whole = false; /* its operators are not all known here */
        return sft__import_graph_paddle;
    }
    if (strcmp(base, "saved_model.pb") == 0 || (len > 3 && memcmp(head, "\x08\x01\x12", 3) == 0)) {
        return sft__import_graph_saved_model;
    }
    return len > 2 && head[0] == 0x0a && sft__import_graph_is_frozen(g) ? sft__import_graph_frozen
                                                                        : NULL;
}

static sft_status take_graph(sft__import_content *c, const uint8_t *head, size_t len, bool *is,
                             bool *positive, sft_error *err) {
    const sft__import_scan_part *part = c->state->part;
    sft__import_wire_in *in = sft__base_alloc(c->job->allocator, sizeof *in);
    sft__import_graph g = {.c = c, .in = in, .all = {part->offset, part->offset + part->size}};
    sft_error why;
    bool whole;

    SFT_NEED(in != NULL, sizeof *in, err);
    memset(&why, 0, sizeof why);
    sft__import_wire_init(in, part->source);
    in->fields_left = SFT__WIRE_SCANNED;
    const graph_fn fn = graph_of(&g, head, len, &whole);
    sft_status status = fn != NULL ? fn(&g, &why) : SFT_OK;
    *is = fn != NULL;
    if (is_outside(status)) {
        *err = why;
    } else if (status != SFT_OK) {
        const char *text = status == SFT_E_LIMIT ? "a graph with more in it than is gone through"
                                                 : "a graph that cannot be read to its end";
        const uint64_t at =
            why.offset != SFT_NO_OFFSET && why.offset >= part->offset ? why.offset : part->offset;
        sft__import_graph_find(&g, SFT_SCAN_UNKNOWN, "graph", at, "", text);
        status = SFT_OK;
    } else if (fn != NULL && whole && !c->state->odd &&
               (g.nodes > 0 || fn == sft__import_graph_keras_metadata)) {
        *positive = true;
    }
    sft__base_free(c->job->allocator, in, sizeof *in);
    return status;
}

/* ---------------------------------------------------------------- texts and images */

bool sft__import_scan_is_image(const uint8_t *head, size_t len) {
    return len >= 12 && (memcmp(head, "\x89PNG", 4) == 0 || memcmp(head, "\xff\xd8\xff", 3) == 0 ||
                         memcmp(head, "GIF8", 4) == 0 || memcmp(head, "RIFF", 4) == 0);
}

/* A head may end in the middle of a character. */
static bool may_be_text(const uint8_t *head, size_t len, bool all) {
    for (size_t cut = 0; cut < 4 && cut < len; cut++) {
        if (sft__import_content_is_text(head, len - cut)) {
            return true;
        }
        if (all) {
            break;
        }
    }
    return false;
}

static bool is_torchscript(const sft__import_content *c) {
    return c->state->part->container == SFT_IMPORT_TORCH_ZIP &&
           sft__import_content_ends(c->name, ".py") &&
           (strncmp(c->name, "code/", 5) == 0 || strstr(c->name, "/code/") != NULL);
}

static bool is_bytecode(const sft__import_content *c) {
    return c->state->part->container == SFT_IMPORT_TORCH_ZIP &&
           strcmp(sft__import_content_base(c->name), "bytecode.pkl") == 0;
}

static bool detected(const sft__import_content *c, uint32_t format, bool good) {
    c->state->format = format;
    return good;
}

static bool text_rules(const sft__import_content *c) {
    bool json = false;

    if (!sft__import_content_is_text(c->data, c->len)) {
        return false;
    }
    c->state->format = SFT_IMPORT_TEXT;
    if (is_torchscript(c)) {
        return sft__import_content_torchscript(c);
    }
    if (sft__import_content_is_template(c->name) ||
        (strstr(sft__import_content_base(c->name), "chat_template") != NULL &&
         !sft__import_content_ends(c->name, ".json") && !sft__import_content_is_yaml(c->name))) {
        return detected(c, SFT_IMPORT_TEMPLATE,
                        sft__import_content_template(c, "", 0, 0, (const char *)c->data, c->len));
    }
    const bool good = sft__import_content_json(c, &json);
    if (json) { /* valid, and nothing in it: still, a program's name makes it one */
        const char *sentence;
        return detected(c, SFT_IMPORT_JSON, good && !sft__import_content_runs(c->name, &sentence));
    }
    if (sft__import_content_is_yaml(c->name)) {
        c->state->format = SFT_IMPORT_YAML;
    } else if (sft__import_content_ends(c->name, ".svg")) {
        c->state->format = SFT_IMPORT_IMAGE;
    }
    return sft__import_content_text(c) && !c->state->odd;
}

static sft_status take_bytes(sft__import_content *c, const uint8_t *head, size_t head_len,
                             bool *positive, sft_error *err) {
    const sft__import_scan_part *part = c->state->part;
    const sft_allocator *a = c->job->allocator;
    const bool image = sft__import_scan_is_image(head, head_len);
    const bool text = may_be_text(head, head_len, head_len == part->size);
    const bool finger =
        part->size <= head_len && strcmp(sft__import_content_base(c->name), "fingerprint.pb") == 0;
    const bool pieces = head_len > 2 && head[0] == 0x0a && !text;
    const bool bytecode = is_bytecode(c);

    if (!image && !text && !pieces && !finger && !bytecode) {
        return SFT_OK;
    }
    if (part->size > SFT__CONTENT_MOST) {
        if (text || bytecode) {
            sft__import_content_say(c, SFT_SCAN_UNKNOWN, "text",
                                    "a text of more than 64 MiB, which is not looked through");
        }
        return SFT_OK;
    }
    const size_t len = (size_t)part->size;
    uint8_t *data = sft__base_alloc(a, len + SFT__JSON_SLACK);
    SFT_NEED(data != NULL, len, err);
    const sft_status status = sft_source_read(part->source, part->offset, data, len, err);
    if (status == SFT_OK) {
        memset(data + len, 0, SFT__JSON_SLACK);
        c->data = data;
        c->len = len;
        if (bytecode) {
            sft__import_content_bytecode(c);
        }
        const bool good =
            (image && detected(c, SFT_IMPORT_IMAGE, sft__import_content_image(c))) ||
            (text && text_rules(c)) ||
            (pieces && sft__import_content_pieces(c) && detected(c, SFT_IMPORT_TOKENIZER, true)) ||
            (finger && sft__import_content_fingerprint(c) && detected(c, SFT_IMPORT_GRAPH, true));
        *positive = *positive || good;
    }
    sft__base_free(a, data, len + SFT__JSON_SLACK);
    return status;
}

/* ---------------------------------------------------------------- a part */

/* What git runs; its own texts are prose. */
static void git_rules(sft__import_content *c) {
    const char *hooks = strstr(c->name, ".git/hooks/");
    const char *git = strstr(c->name, ".git/");

    if (git == NULL || (git != c->name && git[-1] != '/')) {
        return;
    }
    if (hooks != NULL && !sft__import_content_ends(c->name, ".sample")) {
        sft__import_content_say(
            c, SFT_SCAN_DANGEROUS, "git-hook",
            "a hook: git runs it when something is committed, merged or checked out");
        return;
    }
    static const char *const own[] = {"HEAD",           "config",     "description", "packed-refs",
                                      "ORIG_HEAD",      "FETCH_HEAD", "exclude",     "shallow",
                                      "COMMIT_EDITMSG", NULL};
    for (size_t i = 0; own[i] != NULL; i++) {
        c->prose = c->prose || strcmp(sft__import_content_base(c->name), own[i]) == 0;
    }
    c->prose = c->prose || strstr(git, "/refs/") != NULL || strstr(git, "/logs/") != NULL ||
               sft__import_content_ends(git, ".sample");
}

static sft_status take_part(sft__import_content *c, bool *positive, sft_error *err) {
    const sft__import_scan_part *part = c->state->part;
    uint8_t head[HEAD];
    const char *sentence;
    bool graph = false;

    const size_t n = part->size < HEAD ? (size_t)part->size : HEAD;
    if (n == 0) {
        /* empty on purpose: git's and Hugging Face's */
        const bool marker = strcmp(sft__import_content_base(c->name), ".gitkeep") == 0 ||
                            sft__import_content_ends(c->name, ".lock") ||
                            strstr(c->name, ".no_exist/") != NULL;
        *positive = *positive || (marker && detected(c, SFT_IMPORT_MARKER, true));
        return SFT_OK;
    }
    git_rules(c);
    if (!is_torchscript(c) && sft__import_content_runs(c->name, &sentence)) {
        sft__import_content_say(c, SFT_SCAN_UNKNOWN, "code-file", sentence);
    }
    SFT_TRY(sft_source_read(part->source, part->offset, head, n, err));
    if (n >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0) {
        return h5_configs(c, part, err);
    }
    if (part->format == SFT_IMPORT_HDF5) {
        return h5_configs(c, part, err); /* behind a user block */
    }
    if (sft__import_content_is_data(c)) {
        *positive = detected(c, SFT_IMPORT_NUMBERS, true);
        return SFT_OK;
    }
    SFT_TRY(take_graph(c, head, n, &graph, positive, err));
    if (graph) {
        c->state->format = SFT_IMPORT_GRAPH;
        return SFT_OK;
    }
    return take_bytes(c, head, n, positive, err);
}

/* A string that was decoded: JSON, if it is any. */
static sft_status take_string(sft__import_content *c, sft_error *err) {
    const sft__import_scan_part *part = c->state->part;
    uint8_t head[HEAD];
    bool ignored = false;

    const size_t n = part->size < HEAD ? (size_t)part->size : HEAD;
    if (part->size < 2 || part->size > SFT__CONTENT_STRING) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(part->source, part->offset, head, n, err));
    c->name = "string";
    c->at = SFT_NO_OFFSET;
    return (head[0] == '{' || head[0] == '[') && may_be_text(head, n, n == part->size)
               ? take_bytes(c, head, n, &ignored, err)
               : SFT_OK;
}

static const char *name_of(const sft__import *job, const sft__import_scan_part *part) {
    const char *name = part->where;

    if (name[0] == '\0') {
        name = job->path != NULL ? job->path : sft_source_name(part->source);
        return name != NULL ? name : "";
    }
    for (const char *p = name; *p != '\0'; p++) {
        name = *p == '!' ? p + 1 : name;
    }
    return name;
}

sft_status sft__import_scan_content(sft__import *job, const sft__import_scan_part *part,
                                    bool *positive, sft_error *err) {
    sft__import_content_state state = {.part = part, .err = err};
    sft__import_content c = {.job = job, .state = &state, .name = name_of(job, part)};
    bool good = false;

    if ((part->flags & (SFT__SCAN_RAW | SFT__SCAN_NESTED)) != 0) {
        return SFT_OK;
    }
    if ((part->flags & SFT__SCAN_STRING) != 0) {
        SFT_TRY(take_string(&c, err));
        return state.status;
    }
    c.at = part->base == SFT_NO_OFFSET ? SFT_NO_OFFSET : part->base + part->offset;
    SFT_TRY(take_part(&c, &good, err));
    if (part->where[0] == '\0' && state.format != SFT_IMPORT_UNKNOWN) {
        sft__import_scan_names(job, state.format);
    }
    *positive = *positive || (good && !state.odd); /* whatever it is, its name may run it */
    return state.status;
}

bool sft__import_scan_is_plain(const sft__import *job, const sft__import_scan_part *part,
                               const uint8_t *head, size_t len) {
    const char *name = name_of(job, part);
    const size_t n = len < HEAD ? len : HEAD;
    const char *sentence;

    if (sft__import_scan_is_image(head, n) ||
        (n == part->size && sft__import_content_is_commit((const char *)head, n))) {
        return true;
    }
    return n != 0 && may_be_text(head, n, n == part->size) &&
           (sft__import_content_is_prose(name) || sft__import_content_is_template(name) ||
            sft__import_content_runs(name, &sentence) || strstr(name, ".git/") != NULL);
}

bool sft__import_scan_is_text(const uint8_t *head, size_t len, uint64_t size) {
    const size_t n = len < HEAD ? len : HEAD;
    return n != 0 && may_be_text(head, n, n == size);
}
