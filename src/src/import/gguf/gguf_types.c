/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_types.c - the tables of GGUF: types of tensors with their blocks, types of metadata
 * values. Numbers that are missing belonged to types that were removed. Read first: gguf.h.
 */
#include "import/gguf/gguf.h"

static const sft__import_gguf_type types[] = {
    {0, 1, 4, SFT_F32, NULL, "F32"},
    {1, 1, 2, SFT_F16, NULL, "F16"},
    {2, 32, 18, 0, sft__import_dequant_q4_0, "Q4_0"},
    {3, 32, 20, 0, sft__import_dequant_q4_1, "Q4_1"},
    {6, 32, 22, 0, sft__import_dequant_q5_0, "Q5_0"},
    {7, 32, 24, 0, sft__import_dequant_q5_1, "Q5_1"},
    {8, 32, 34, 0, sft__import_dequant_q8_0, "Q8_0"},
    {9, 32, 36, 0, NULL, "Q8_1"},
    {10, 256, 84, 0, sft__import_dequant_q2_k, "Q2_K"},
    {11, 256, 110, 0, sft__import_dequant_q3_k, "Q3_K"},
    {12, 256, 144, 0, sft__import_dequant_q4_k, "Q4_K"},
    {13, 256, 176, 0, sft__import_dequant_q5_k, "Q5_K"},
    {14, 256, 210, 0, sft__import_dequant_q6_k, "Q6_K"},
    {15, 256, 292, 0, sft__import_dequant_q8_k, "Q8_K"},
    {16, 256, 66, 0, NULL, "IQ2_XXS"},
    {17, 256, 74, 0, NULL, "IQ2_XS"},
    {18, 256, 98, 0, NULL, "IQ3_XXS"},
    {19, 256, 50, 0, NULL, "IQ1_S"},
    {20, 32, 18, 0, sft__import_dequant_iq4_nl, "IQ4_NL"},
    {21, 256, 110, 0, NULL, "IQ3_S"},
    {22, 256, 82, 0, NULL, "IQ2_S"},
    {23, 256, 136, 0, sft__import_dequant_iq4_xs, "IQ4_XS"},
    {24, 1, 1, SFT_I8, NULL, "I8"},
    {25, 1, 2, SFT_I16, NULL, "I16"},
    {26, 1, 4, SFT_I32, NULL, "I32"},
    {27, 1, 8, SFT_I64, NULL, "I64"},
    {28, 1, 8, SFT_F64, NULL, "F64"},
    {29, 256, 56, 0, NULL, "IQ1_M"},
    {30, 1, 2, SFT_BF16, NULL, "BF16"},
    {34, 256, 54, 0, sft__import_dequant_tq1_0, "TQ1_0"},
    {35, 256, 66, 0, sft__import_dequant_tq2_0, "TQ2_0"},
    {39, 32, 17, 0, sft__import_dequant_mxfp4, "MXFP4"},
    {40, 64, 36, 0, NULL, "NVFP4"},
    {41, 128, 18, 0, NULL, "Q1_0"},
};

enum { COUNT = sizeof types / sizeof types[0] };

const sft__import_gguf_type *sft__import_gguf_type_get(uint32_t number) {
    for (size_t i = 0; i < COUNT; i++) {
        if (types[i].number == number) {
            return &types[i];
        }
    }
    return NULL;
}

const sft__import_gguf_type *sft__import_gguf_type_find(const char *name, size_t name_len) {
    for (size_t i = 0; i < COUNT; i++) {
        if (strlen(types[i].name) == name_len && memcmp(types[i].name, name, name_len) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

const sft__import_gguf_type *sft__import_gguf_type_of(uint32_t dtype) {
    for (size_t i = 0; i < COUNT && dtype != 0; i++) {
        if (types[i].dtype == dtype) {
            return &types[i];
        }
    }
    return NULL;
}

static const struct {
    const char *name;
    uint32_t bytes;
} values[SFT__GGUF_VALUES] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

const char *sft__import_gguf_value_name(uint32_t type) {
    return type < SFT__GGUF_VALUES ? values[type].name : NULL;
}

uint32_t sft__import_gguf_value_bytes(uint32_t type) {
    return type < SFT__GGUF_VALUES ? values[type].bytes : 0;
}
