/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/lost.c - what an output does not hold of its inputs: the reports of all operands that were
 * read, in one list. And names of outputs that promise another format. Read lost.h first.
 */
#include "cli/outputs/lost.h"
#include "cli/ui/text.h"
#include <sft/digest.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor, and the text of the rule that is most like its name; "": none is. */
struct cli_unmatched {
    char *name;
    size_t len;
    char *nearest;
};

struct cli_left {
    char *subject;
    char *message;
};

/* ---------------------------------------------------------------- reports */

void cli_lost_keep(cli *c, sft_import_report *report) {
    c->other_formats = true;
    if (sft_import_report_count(report) == 0) {
        sft_import_report_free(report);
        return;
    }
    c->reports = cli_resize(c->reports, c->report_count + 1, sizeof *c->reports);
    c->reports[c->report_count++] = report;
}

void cli_lost_views(cli *c) {
    const char *text;

    for (size_t i = 0; c->status == 0 && (text = cli_list(c, "view-as", i)) != NULL; i++) {
        if ((c->viewed >> (i < 64 ? i : 63) & 1) == 0) {
            cli_warn(c, NULL, "--view-as \"%s\" matches no tensor of a file that is no safetensors",
                     text);
        }
    }
}

void cli_lost_end(cli *c) {
    while (c->report_count != 0) {
        sft_import_report_free(c->reports[--c->report_count]);
    }
    free(c->reports);
    for (size_t i = 0; i < c->left_count; i++) {
        free(c->left[i].subject);
        free(c->left[i].message);
    }
    free(c->left);
    for (size_t i = 0; i < c->unmatched_count; i++) {
        free(c->unmatched[i].name);
        free(c->unmatched[i].nearest);
    }
    free(c->unmatched);
}

void cli_lost_note(cli *c, const char *subject, size_t len, const char *message) {
    c->left = cli_resize(c->left, c->left_count + 1, sizeof *c->left);
    c->left[c->left_count++] =
        (struct cli_left){cli_copy_bytes(subject, len), cli_copy_of(message)};
}

bool cli_lost_is_told(const cli *c, const char *subject) {
    for (size_t i = 0; i < c->left_count; i++) {
        if (strcmp(c->left[i].subject, subject) == 0) {
            return true;
        }
    }
    return false;
}

void cli_lost_metadata(cli *c, const char *operand, const char *key, size_t len, const char *why) {
    char name[128];

    (void)sft_escape(name, sizeof name, key, len);
    cli_warn(c, operand, "metadata \"%s\" is left out: %s", name, why);
    cli_lost_note(c, key, len, why);
}

bool cli_lost_is_first(const sft_catalog *catalog, size_t file, const sft_metadata_entry *e) {
    for (size_t k = 0; k < file; k++) {
        if (sft_catalog_metadata_find(catalog, k, e->key, e->key_len, NULL) != NULL) {
            return false;
        }
    }
    return true;
}

size_t cli_lost_agree(const sft_catalog *catalog, const sft_metadata_entry *e, bool *same) {
    size_t have = 0;

    *same = true;
    for (size_t k = 0; k < sft_catalog_file_count(catalog); k++) {
        size_t len;
        const char *value = sft_catalog_metadata_find(catalog, k, e->key, e->key_len, &len);
        have += value != NULL;
        *same =
            *same && (value == NULL || (len == e->value_len && memcmp(value, e->value, len) == 0));
    }
    return have;
}

typedef struct retyping {
    cli *c;
    const char *operand;
} retyping;

static void tell_retyped(void *ctx, const sft_metadata_entry *e) {
    const retyping *k = ctx;

    cli_lost_metadata(k->c, k->operand, e->key, e->key_len,
                      "the same text as in an earlier file, but a value of another type");
}

void cli_lost_retyped(cli *c, const char *operand, const sft_catalog *catalog) {
    const bool several = sft_catalog_file_count(catalog) > 1;
    const sft_import_collection from = {&catalog, 1, NULL, NULL, cli_allocator()};
    retyping k = {c, operand};
    sft_error err;

    if (several && sft_import_retyped(&from, tell_retyped, &k, &err) != SFT_OK) {
        cli_fail(c, operand, &err);
    }
}

void cli_lost_digests(cli *c, const char *operand, uint32_t kinds, const char *what,
                      const char *option) {
    static const char why[] = "digests are recorded of other bytes than those of the output";

    cli_warn(c, operand, "recorded digests do not fit %s and are left out; %s records new ones",
             what, option);
    if ((kinds & SFT_DIGEST_CRC32C) != 0) {
        cli_lost_note(c, "sft.crc32c", 10, why);
    }
    if ((kinds & SFT_DIGEST_SHA256) != 0) {
        cli_lost_note(c, "sft.sha256", 10, why);
    }
    if (kinds == 0) {
        cli_lost_note(c, "digests", 7, "they are recorded of parts of tensors");
    }
}

void cli_lost_tell(cli *c, const char *operand, const char *subject, const char *format, ...) {
    char message[400];
    char name[300];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)sft_escape(name, sizeof name, subject, strlen(subject));
    cli_warn(c, operand, "left out: %s: %s", name, message);
    cli_lost_note(c, subject, strlen(subject), message);
}

/* Files that an index does not name are told as other weights of the directory. */
uint64_t cli_lost_problems(cli *c, const sft_catalog *catalog) {
    uint64_t tensors = 0;

    for (size_t i = 0; i < sft_catalog_problem_count(catalog); i++) {
        const sft_problem *p = sft_catalog_problem_at(catalog, i);
        if (p->kind == SFT_PROBLEM_ORPHAN_TENSOR || p->kind == SFT_PROBLEM_MISSING_TENSOR ||
            p->kind == SFT_PROBLEM_ALIAS) {
            cli_lost_note(c, p->subject, p->subject_len, p->message);
            tensors += p->kind == SFT_PROBLEM_ORPHAN_TENSOR;
        }
    }
    return tensors;
}

/* Calls `each`, unless it is NULL, with every finding of a kind; returns how many tensors and objects these
 * are. */
static uint64_t walk(const cli *c, uint32_t kind, void (*each)(cli_json *j, const sft_finding *f),
                     cli_json *j) {
    uint64_t all = 0;

    for (size_t k = 0; k < c->report_count; k++) {
        for (size_t i = 0; i < sft_import_report_count(c->reports[k]); i++) {
            const sft_finding *f = sft_import_report_at(c->reports[k], i);
            if (f->kind == kind) {
                all += f->count;
                if (each != NULL) {
                    each(j, f);
                }
            }
        }
    }
    return all;
}

void cli_lost_unmatched(cli *c, const sft_tensor *t, const char *nearest) {
    c->unmatched = cli_resize(c->unmatched, c->unmatched_count + 1, sizeof *c->unmatched);
    c->unmatched[c->unmatched_count++] = (struct cli_unmatched){
        cli_copy_bytes(t->name, t->name_len), t->name_len, cli_copy_of(nearest)};
}

static void put_unmatched(const cli *c, cli_json *j) {
    cli_json_field_open(j, "names_unmatched", '[');
    for (size_t i = 0; i < c->unmatched_count; i++) {
        cli_json_open(j, '{');
        cli_json_field_text(j, "name", c->unmatched[i].name, c->unmatched[i].len);
        cli_json_field_string(j, "nearest", c->unmatched[i].nearest);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

uint64_t cli_lost_count_all(const cli *c) {
    return walk(c, SFT_FINDING_LEFT_OUT, NULL, NULL);
}

static void put_finding(cli_json *j, const sft_finding *f) {
    cli_json_open(j, '{');
    cli_json_field_text(j, "subject", f->subject, strlen(f->subject));
    cli_json_field_string(j, "message", f->message);
    cli_json_field_u64(j, "count", f->count);
    cli_json_close(j, '}');
}

void cli_lost_json(const cli *c, cli_json *j, uint64_t aliases, uint64_t left_out) {
    cli_json_field_u64(j, "aliases", aliases);
    cli_json_field_u64(j, "left_out", left_out);
    cli_json_field_open(j, "left_out_parts", '[');
    (void)walk(c, SFT_FINDING_LEFT_OUT, put_finding, j);
    for (size_t i = 0; i < c->left_count; i++) {
        const sft_finding f = {.subject = c->left[i].subject, .message = c->left[i].message};
        put_finding(j, &f);
    }
    cli_json_close(j, ']');
    if (cli_text(c, "names") != NULL) {
        put_unmatched(c, j);
    }
}

void cli_notes_json(const cli *c, cli_json *j) {
    cli_json_field_open(j, "notes", '[');
    (void)walk(c, SFT_FINDING_NOTE, put_finding, j);
    cli_json_close(j, ']');
}

/* ---------------------------------------------------------------- names of outputs */

/* What an extension promises. writes: convert writes it. */
static const struct {
    const char *ending;
    const char *what;
    bool writes;
} endings[] = {
    {".npz", "numpy archives", true},
    {".gguf", "GGUF", true},
    {".pt", "PyTorch files", true},
    {".pth", "PyTorch files", true},
    {".ckpt", "MindSpore checkpoints", true},
    {".bin", "PyTorch's or raw data", false},
    {".pt2", "exported PyTorch programs", false},
    {".ptl", "PyTorch Lite files", false},
    {".distcp", "parts of PyTorch's distributed checkpoints", false},
    {".pkl", "pickles", false},
    {".pickle", "pickles", false},
    {".joblib", "joblib's pickles", false},
    {".npy", "single numpy arrays", false},
    {".h5", "HDF5", false},
    {".hdf5", "HDF5", false},
    {".keras", "Keras archives", false},
    {".onnx", "ONNX", false},
    {".msgpack", "Flax msgpack", false},
    {".pdparams", "Paddle pickles", false},
    {".pdopt", "Paddle pickles", false},
    {".pdiparams", "Paddle inference weights", false},
    {".pdmodel", "Paddle programs", false},
    {".arrow", "Apache Arrow", false},
    {".feather", "Apache Arrow", false},
    {".parquet", "Apache Parquet", false},
    {".tflite", "TFLite", false},
    {".pb", "TensorFlow graphs", false},
    {".mlmodel", "Core ML", false},
    {".mlpackage", "Core ML", false},
    {".ggml", "GGML", false},
    {".eqx", "Equinox files", false},
    {".engine", "TensorRT engines", false},
    {".json", "JSON, as indexes of shards are", false},
    {".tar", "tar archives", false},
    {".zip", "zip archives", false},
};

static bool ends_in(const char *text, const char *ending) {
    const size_t len = strlen(text);
    const size_t n = strlen(ending);

    if (len <= n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const char c = text[len - n + i];
        if ((char)(c >= 'A' && c <= 'Z' ? c + 0x20 : c) != ending[i]) {
            return false;
        }
    }
    return true;
}

bool cli_lost_ending(cli *c, const char *output, bool convert) {
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (!ends_in(output, endings[i].ending) || (convert && endings[i].writes)) {
            continue;
        }
        if (convert) {
            cli_usage(c,
                      "\"%s\": %s cannot be written, only safetensors, .npz, .gguf, .pt, .pth and "
                      ".ckpt; --to safetensors writes safetensors under this name",
                      output, endings[i].what);
        } else {
            cli_usage(c, "\"%s\": this writes safetensors, and the name is one for %s%s", output,
                      endings[i].what, endings[i].writes ? "; convert writes these" : "");
        }
        return true;
    }
    return false;
}
