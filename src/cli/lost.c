/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/lost.c - what an output does not hold of its inputs: the reports of all operands that were read, in
 * one list. And names of outputs that promise another format. Read lost.h first.
 */
#include "lost.h"
#include "wing.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cli_left {
    char *subject;
    char *message;
};

/* ---------------------------------------------------------------- reports */

void cli_lost_keep(cli *c, const sft_import_api *api, sft_import_report *report) {
    if (api->report_count(report) == 0) {
        api->report_free(report);
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
    const sft_import_api *api = c->report_count != 0 ? cli_wing_get(CLI_WING_IMPORT, NULL) : NULL;

    while (api != NULL && c->report_count != 0) {
        api->report_free(c->reports[--c->report_count]);
    }
    free(c->reports);
    for (size_t i = 0; i < c->left_count; i++) {
        free(c->left[i].subject);
        free(c->left[i].message);
    }
    free(c->left);
}

static char *copy_text(const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = cli_alloc(size, 1);

    memcpy(copy, text, size);
    return copy;
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
    c->left = cli_resize(c->left, c->left_count + 1, sizeof *c->left);
    c->left[c->left_count++] = (struct cli_left){copy_text(subject), copy_text(message)};
}

/* Calls `each`, unless it is NULL, with every finding of a kind; returns how many tensors and objects these
 * are. */
static uint64_t walk(const cli *c, uint32_t kind, void (*each)(cli_json *j, const sft_finding *f),
                     cli_json *j) {
    const sft_import_api *api = c->report_count != 0 ? cli_wing_get(CLI_WING_IMPORT, NULL) : NULL;
    uint64_t all = 0;

    for (size_t k = 0; api != NULL && k < c->report_count; k++) {
        for (size_t i = 0; i < api->report_count(c->reports[k]); i++) {
            const sft_finding *f = api->report_at(c->reports[k], i);
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

uint64_t cli_lost_count_all(const cli *c) {
    return walk(c, SFT_FINDING_LEFT_OUT, NULL, NULL);
}

static void put_finding(cli_json *j, const sft_finding *f) {
    cli_json_open(j, '{');
    cli_json_key(j, "subject");
    cli_json_text(j, f->subject, strlen(f->subject));
    cli_json_key(j, "message");
    cli_json_string(j, f->message);
    cli_json_key(j, "count");
    cli_json_u64(j, f->count);
    cli_json_close(j, '}');
}

void cli_lost_json(const cli *c, cli_json *j) {
    cli_json_key(j, "left_out_parts");
    cli_json_open(j, '[');
    (void)walk(c, SFT_FINDING_LEFT_OUT, put_finding, j);
    for (size_t i = 0; i < c->left_count; i++) {
        const sft_finding f = {.subject = c->left[i].subject, .message = c->left[i].message};
        put_finding(j, &f);
    }
    cli_json_close(j, ']');
}

void cli_notes_json(const cli *c, cli_json *j) {
    cli_json_key(j, "notes");
    cli_json_open(j, '[');
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
