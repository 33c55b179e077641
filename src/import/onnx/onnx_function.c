/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/onnx/onnx_function.c - the names of a model's functions: a name alone where only one
 * function has it, NAME@DOMAIN or NAME@DOMAIN:OVERLOAD where several do. Source: onnx/onnx.proto,
 * FunctionProto. Read first: onnx.h.
 */
#include "base/memory/need.h"
#include "import/onnx/onnx.h"

enum { FUNCTIONS = 25, NAME = 1, DOMAIN = 10, OVERLOAD = 13 };

typedef struct sft__import_onnx_named {
    const char *name; /* name, len first for the table */
    size_t len;
    bool several;
} named;

/* The texts NAME, DOMAIN and OVERLOAD of a function; "" where there is none. */
static sft_status texts_of(sft__import_onnx *o, sft__import_wire m, const char *texts[3],
                           sft_error *err) {
    sft__import_wire_field f;
    sft_status status;

    texts[0] = texts[1] = texts[2] = "";
    while (sft__import_wire_each(&o->in, &m, &f, &status, err)) {
        const size_t i = f.number == NAME       ? 0
                         : f.number == DOMAIN   ? 1
                         : f.number == OVERLOAD ? 2
                                                : 3;
        if (i < 3 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(sft__import_onnx_name(o, &f, &texts[i], err));
        }
    }
    return status;
}

static sft_status note(sft__import_onnx *o, const char *name, sft_error *err) {
    const size_t len = strlen(name);

    SFT_NEED(sft__import_more_named(o->job->allocator, &o->function_names, &o->functions,
                                    &o->function_room, o->function_count, sizeof *o->functions),
             o->function_count * sizeof *o->functions, err);
    const size_t old = sft__base_strmap_find(&o->function_names, name, len);
    if (old != SFT__STRMAP_NONE) {
        o->functions[old].several = true;
        return SFT_OK;
    }
    o->functions[o->function_count] = (named){name, len, false};
    (void)sft__base_strmap_add(&o->function_names, o->function_count++);
    return SFT_OK;
}

sft_status sft__import_onnx_functions(sft__import_onnx *o, sft_error *err) {
    sft__import_wire m = {0, sft_source_size(o->job->file)};
    const char *texts[3];
    sft__import_wire_field f;
    sft_status status;

    while (sft__import_wire_each(&o->in, &m, &f, &status, err)) {
        if (f.number == FUNCTIONS && f.wire == SFT__PB_BYTES) {
            SFT_TRY(texts_of(o, sft__import_wire_inside(&f), texts, err));
            SFT_TRY(note(o, texts[0], err));
        }
    }
    return status;
}

sft_status sft__import_onnx_function(sft__import_onnx *o, sft__import_wire m, const char **prefix,
                                     sft_error *err) {
    const char *texts[3];
    const char *name;

    SFT_TRY(texts_of(o, m, texts, err));
    const size_t i = o->function_room != 0
                         ? sft__base_strmap_find(&o->function_names, texts[0], strlen(texts[0]))
                         : SFT__STRMAP_NONE;
    if (i == SFT__STRMAP_NONE || !o->functions[i].several || texts[0][0] == '\0') {
        return SFT_OK; /* its name, or its place, is enough */
    }
    SFT_TRY(sft__import_onnx_join(o, texts[0], "@", texts[1], &name, err));
    if (texts[2][0] != '\0') {
        SFT_TRY(sft__import_onnx_join(o, name, ":", texts[2], &name, err));
    }
    return sft__import_onnx_join(o, name, ".", "", prefix, err);
}

void sft__import_onnx_functions_reset(sft__import_onnx *o) {
    if (o->function_names.slots != NULL) {
        sft__base_strmap_reset(&o->function_names);
    }
    sft__base_free(o->job->allocator, o->functions, o->function_room * sizeof *o->functions);
}
