/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_types.c - the tables of GGUF: types of tensors with their blocks, types of metadata
 * values. Numbers that are missing belonged to types that were removed. Read first: gguf.h.
 */
#include "import/gguf/gguf.h"

static const sft__import_gguf_type types[] = {
    {0, 1, 4, SFT_F32, "F32"},   {1, 1, 2, SFT_F16, "F16"},    {2, 32, 18, 0, "Q4_0"},
    {3, 32, 20, 0, "Q4_1"},      {6, 32, 22, 0, "Q5_0"},       {7, 32, 24, 0, "Q5_1"},
    {8, 32, 34, 0, "Q8_0"},      {9, 32, 36, 0, "Q8_1"},       {10, 256, 84, 0, "Q2_K"},
    {11, 256, 110, 0, "Q3_K"},   {12, 256, 144, 0, "Q4_K"},    {13, 256, 176, 0, "Q5_K"},
    {14, 256, 210, 0, "Q6_K"},   {15, 256, 292, 0, "Q8_K"},    {16, 256, 66, 0, "IQ2_XXS"},
    {17, 256, 74, 0, "IQ2_XS"},  {18, 256, 98, 0, "IQ3_XXS"},  {19, 256, 50, 0, "IQ1_S"},
    {20, 32, 18, 0, "IQ4_NL"},   {21, 256, 110, 0, "IQ3_S"},   {22, 256, 82, 0, "IQ2_S"},
    {23, 256, 136, 0, "IQ4_XS"}, {24, 1, 1, SFT_I8, "I8"},     {25, 1, 2, SFT_I16, "I16"},
    {26, 1, 4, SFT_I32, "I32"},  {27, 1, 8, SFT_I64, "I64"},   {28, 1, 8, SFT_F64, "F64"},
    {29, 256, 56, 0, "IQ1_M"},   {30, 1, 2, SFT_BF16, "BF16"}, {34, 256, 54, 0, "TQ1_0"},
    {35, 256, 66, 0, "TQ2_0"},   {39, 32, 17, 0, "MXFP4"},     {40, 64, 36, 0, "NVFP4"},
    {41, 128, 18, 0, "Q1_0"}};

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
