/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * module.c - what JavaScript calls, in both modules: the library with flat arguments. Structs of the library are
 * read where they lie (src/native.ts has their offsets). Whoever gets 0 for a pointer, or a status, reads the error.
 */
#include "module.h"
#include <stdlib.h>

sft_error error;

EXPORT(error) const sft_error *w_error(void) {
    return &error;
}

EXPORT(alloc) void *w_alloc(size_t size) {
    return malloc(size > 0 ? size : 1);
}

EXPORT(free) void w_free(void *p) {
    free(p);
}

EXPORT(status_name) const char *w_status_name(int32_t status) {
    return sft_status_name(status);
}

EXPORT(format_name) const char *w_format_name(uint32_t format, uint32_t title) {
    return title ? sft_import_format_title(format) : sft_import_format_name(format);
}

/* ---------------------------------------------------------------- options */

static sft_status view_as(void *ctx, const sft_tensor *tensor, const sft_dtype **dtype,
                          sft_error *err) {
    const options *o = ctx;

    (void)err;
    for (uint32_t i = 0; i < o->view_count; i++) {
        const view_rule *v = &o->views[i];
        if (sft_glob_match(v->pattern, v->pattern_len, tensor->name, tensor->name_len)) {
            *dtype = sft_dtype_get(v->dtype);
        }
    }
    return SFT_OK;
}

void set_limits(sft_limits *limits, const options *o) {
    SFT_INIT(limits);
    limits->header_bytes = (uint64_t)o->header_bytes;
    limits->tensors = (uint64_t)o->tensors;
    limits->memory_bytes = (uint64_t)o->memory_bytes;
}

void set_import(sft_import_options *import, const sft_limits *limits, options *o) {
    SFT_INIT(import);
    import->limits = limits;
    import->key = o->key;
    import->flags = o->import_flags;
    import->dedup = (sft_import_dedup)o->dedup;
    import->memory_bytes = (uint64_t)o->memory_bytes;
    import->inflate_bytes = (uint64_t)o->inflate_bytes;
    import->view_as = o->view_count > 0 ? view_as : NULL;
    import->view_ctx = o;
}

/* ---------------------------------------------------------------- reports */

EXPORT(report_count) size_t w_report_count(const sft_import_report *r) {
    return sft_import_report_count(r);
}

EXPORT(report_finding) const sft_finding *w_report_finding(const sft_import_report *r, size_t i) {
    return sft_import_report_at(r, i);
}

EXPORT(report_format) uint32_t w_report_format(const sft_import_report *r) {
    return sft_import_report_format(r);
}

EXPORT(report_verdict) uint32_t w_report_verdict(const sft_import_report *r) {
    return sft_import_report_verdict(r);
}

EXPORT(report_free) void w_report_free(sft_import_report *r) {
    sft_import_report_free(r);
}
