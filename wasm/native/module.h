/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * module.h - what the modules have in common: safetensors.wasm (model.c), safetensors-scan.wasm (scan.c) and
 * safetensors-report.wasm (model.c and report.c).
 */
#ifndef SFT_WASM_MODULE_H
#define SFT_WASM_MODULE_H

#include <sft/import.h>

#define EXPORT(name) __attribute__((export_name(#name)))

/* Of the last call: there is one thread. */
extern sft_error error;

typedef struct view_rule {
    const char *pattern;
    uint32_t pattern_len;
    uint32_t dtype;
} view_rule;

/* All of what JavaScript may ask for; 0 is the default of each. */
typedef struct options {
    double header_bytes;
    double tensors;
    double memory_bytes;
    double inflate_bytes;
    uint32_t open_flags;
    uint32_t import_flags;
    uint32_t dedup;
    const char *key;
    const view_rule *views;
    uint32_t view_count;
} options;

/* Of model.c, an open model. */
typedef struct model {
    sft_catalog *catalog;
    sft_import_report *report; /* NULL for safetensors */
    sft_error deviation;       /* of report.c: why it could not be opened strictly, if so */
} model;

model *w_open(const char *path, options *o);
void *keep_pages(size_t size); /* thread.c; 0: what was kept is freed */
void set_limits(sft_limits *limits, const options *o);
void set_import(sft_import_options *import, const sft_limits *limits, options *o);

#endif
