/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/flax/flax_types.c - the types of numpy and ml_dtypes, and those among them that
 * safetensors has not: small integers become I8 and U8, 4-bit floats two to a byte as safetensors
 * has them, other small floats bytes. Read first: flax_types.h.
 */
#include "import/flax/flax_types.h"
#include <stdio.h>

static const sft__import_flax_type rows[] = {
    {"float32", SFT_F32, 0, 0},
    {"float16", SFT_F16, 0, 0},
    {"bfloat16", SFT_BF16, 0, 0},
    {"float64", SFT_F64, 0, 0},
    {"int8", SFT_I8, 0, 0},
    {"uint8", SFT_U8, 0, 0},
    {"int16", SFT_I16, 0, 0},
    {"uint16", SFT_U16, 0, 0},
    {"int32", SFT_I32, 0, 0},
    {"uint32", SFT_U32, 0, 0},
    {"int64", SFT_I64, 0, 0},
    {"uint64", SFT_U64, 0, 0},
    {"bool", SFT_BOOL, 0, 0},
    {"complex64", SFT_C64, 0, 0},
    {"complex128", SFT__C128, 0, 0},
    {"complex32", SFT__C32, 0, 0},
    {"float8_e4m3fn", SFT_F8_E4M3, 0, 0},
    {"float8_e5m2", SFT_F8_E5M2, 0, 0},
    {"float8_e4m3fnuz", SFT_F8_E4M3FNUZ, 0, 0},
    {"float8_e5m2fnuz", SFT_F8_E5M2FNUZ, 0, 0},
    {"float8_e8m0fnu", SFT_F8_E8M0, 0, 0},
    {"int1", SFT_I8, SFT__FLAX_SIGNED, 1},
    {"int2", SFT_I8, SFT__FLAX_SIGNED, 2},
    {"int4", SFT_I8, SFT__FLAX_SIGNED, 4},
    {"uint1", SFT_U8, SFT__FLAX_BYTES, 1},
    {"uint2", SFT_U8, SFT__FLAX_BYTES, 2},
    {"uint4", SFT_U8, SFT__FLAX_BYTES, 4},
    {"float4_e2m1fn", SFT_F4, SFT__FLAX_PAIRS, 4},
    {"float6_e2m3fn", SFT_U8, SFT__FLAX_BYTES, 6},
    {"float6_e3m2fn", SFT_U8, SFT__FLAX_BYTES, 6},
    {"float8_e3m4", SFT_U8, SFT__FLAX_BYTES, 8},
    {"float8_e4m3", SFT_U8, SFT__FLAX_BYTES, 8},
    {"float8_e4m3b11fnuz", SFT_U8, SFT__FLAX_BYTES, 8},
};

const sft__import_flax_type *sft__import_flax_type_get(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The low `bits` bits of each byte, as a signed integer. */
static void extend(void *dst, const void *src, size_t blocks, uint32_t bits) {
    const uint8_t *s = src;
    uint8_t *d = dst;
    const uint8_t sign = (uint8_t)(1u << (bits - 1));
    const uint8_t mask = (uint8_t)((1u << bits) - 1);

    for (size_t i = 0; i < blocks; i++) {
        const uint8_t v = s[i] & mask;
        d[i] = (uint8_t)((v ^ sign) - sign);
    }
}

/* The first of two in the low half. */
static void pair(void *dst, const void *src, size_t blocks, uint32_t unused) {
    const uint8_t *s = src;
    uint8_t *d = dst;

    (void)unused;
    for (size_t i = 0; i < blocks; i++) {
        d[i] = (uint8_t)((s[2 * i] & 15) | (s[2 * i + 1] & 15) << 4);
    }
}

static sft_status map_runs(sft__import *job, const sft__import_block_map *map,
                           sft__import_run *runs, size_t count, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        sft_source *made;
        if (runs[i].nbytes == 0) {
            continue;
        }
        const uint64_t blocks = runs[i].nbytes / map->in_bytes;
        SFT_TRY(sft__import_source_map(&made, job->file,
                                       (sft__import_extent){runs[i].offset, blocks}, map,
                                       job->allocator, err));
        runs[i].offset = 0;
        runs[i].nbytes = blocks * map->out_bytes;
        SFT_TRY(sft_builder_add_source(job->builder, made, &runs[i].source, err));
    }
    return SFT_OK;
}

static sft_status tell(sft__import *job, const sft__import_flax_type *type, const sft_tensor *t,
                       uint64_t offset, sft_error *err) {
    char value[64];
    char *key;

    sft__import_find(job, SFT__RULE(NOTE, HARMLESS, "flax-type"), SFT__NAMED(t, offset),
                     "elements of type %s are given as %s", type->name, t->dtype->name);
    const int n = snprintf(value, sizeof value, "{\"dtype\": \"%s\"}", type->name);
    SFT_TRY(sft__import_alloc(job, &key, t->name_len + 6, 1, err));
    memcpy(key, "flax:", 5);
    memcpy(key + 5, t->name, t->name_len);
    const sft_metadata_entry e = {key, t->name_len + 5, value, (size_t)n};
    return sft_builder_add_metadata(job->builder, 0, &e, err);
}

sft_status sft__import_flax_take(sft__import *job, const sft__import_flax_type *type, sft_tensor *t,
                                 sft__import_run *runs, size_t count, sft_error *err) {
    const uint64_t offset = count != 0 ? runs[0].offset : SFT_NO_OFFSET;
    uint32_t form = type->form;

    t->dtype = sft__import_dtype(type->dtype);
    for (size_t i = 0; i < count; i++) { /* half a byte cannot be the end */
        form = form == SFT__FLAX_PAIRS && runs[i].nbytes % 2 != 0 ? SFT__FLAX_BYTES : form;
    }
    if (form == SFT__FLAX_PAIRS) {
        const sft__import_block_map map = {pair, 0, 2, 1};
        return map_runs(job, &map, runs, count, err);
    }
    if (form == SFT__FLAX_SIGNED) {
        const sft__import_block_map map = {extend, type->bits, 1, 1};
        SFT_TRY(map_runs(job, &map, runs, count, err));
    }
    if (form == SFT__FLAX_BYTES) {
        t->dtype = sft_dtype_get(SFT_U8);
    }
    return form == SFT__FLAX_PLAIN ? SFT_OK : tell(job, type, t, offset, err);
}
