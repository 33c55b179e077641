/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/quantised.c - weights that are packed: which tensors belong together, and the shape that a
 * model computes with. A rule asks for names, types and shapes that agree; what fits none is left as it
 * is. Read report.h first.
 */
#include "cli/report/report.h"
#include <stdlib.h>
#include <string.h>

typedef struct search {
    cli_quantised_list *list;
    const sft_catalog *catalog;
    uint64_t bits;       /* of config.json's quantization_config; 0: it does not say */
    const sft_tensor *t; /* the packed one */
    size_t base;         /* bytes of its name in front of what the rule names */
    cli_text_buffer name;
    uint64_t spare;  /* elements of members that are no parameters */
    uint64_t looked; /* entries of metadata */
} search;

/* ---------------------------------------------------------------- names and small JSON */

static bool ends_with(search *s, const char *suffix) {
    const size_t len = strlen(suffix);

    s->base = s->t->name_len - len;
    return s->t->name_len >= len && memcmp(s->t->name + s->base, suffix, len) == 0;
}

/* The tensor whose name is the base and this; NULL: there is none. */
static const sft_tensor *beside(search *s, const char *suffix) {
    s->name.size = 0;
    cli_text_add(&s->name, s->t->name, s->base);
    cli_text_put(&s->name, suffix);
    const sft_tensor *t = sft_catalog_find(s->catalog, s->name.data, s->name.size);
    /* not an alias that shows a part of another */
    return t != NULL && sft_catalog_at(s->catalog, sft_catalog_index_of(s->catalog, t)) == t ? t
                                                                                             : NULL;
}

/* What stands behind "key": in a text of JSON, wherever it is; NULL: nothing does. */
static const char *behind_key(const char *text, size_t size, const char *key) {
    const size_t len = strlen(key);

    for (size_t i = 0; i + len + 3 <= size; i++) {
        if (text[i] != '"' || memcmp(text + i + 1, key, len) != 0 || text[i + 1 + len] != '"') {
            continue;
        }
        for (i += len + 2; i < size && strchr(" \t\r\n:", text[i]) != NULL && text[i] != '\0';) {
            i++;
        }
        return i < size ? text + i : NULL;
    }
    return NULL;
}

/* "[4096, 64]" or "4096": the numbers, at most 3; 0: it is none. */
static uint32_t numbers_at(const char *at, const char *end, uint64_t numbers[3]) {
    uint32_t count = 0;
    bool inside = false;

    for (; at != NULL && at < end && strchr("[], \n0123456789", *at) != NULL && *at != '\0'; at++) {
        const bool digit = *at >= '0' && *at <= '9';
        if (digit && !inside && count == 3) {
            return 0;
        }
        if (digit) {
            count += inside ? 0 : 1;
            numbers[count - 1] = (inside ? numbers[count - 1] * 10 : 0) + (uint64_t)(*at - '0');
            if (numbers[count - 1] > UINT32_MAX) {
                return 0;
            }
        }
        inside = digit;
        if (*at == ']') {
            break;
        }
    }
    return count;
}

static uint64_t config_bits(const char *config, size_t size) {
    const char *at = config != NULL ? behind_key(config, size, "quantization_config") : NULL;
    uint64_t numbers[3] = {0, 0, 0};

    if (at != NULL) {
        const char *end = config + size;
        (void)numbers_at(behind_key(at, (size_t)(end - at), "bits"), end, numbers);
    }
    return numbers[0];
}

/* ---------------------------------------------------------------- what was found */

static bool is(const sft_tensor *t, uint32_t dtype, uint32_t rank) {
    return t != NULL && t->dtype->id == dtype && t->rank == rank;
}

static bool is_eight(const sft_tensor *t) { /* scales in F8_E8M0, or as bytes */
    return t->dtype->id == SFT_U8 || t->dtype->id == SFT_F8_E8M0;
}

/* A floating-point type that scales are stored in. */
static bool is_scale(const sft_tensor *t) {
    return t != NULL && t->dtype->kind == SFT_KIND_FLOAT && t->dtype->block_elements == 1 &&
           t->dtype->block_bytes >= 2;
}

static cli_quantised *found(search *s, const char *scheme, double bits) {
    cli_quantised_list *l = s->list;

    if (l->count == l->room) {
        l->room = l->room > 0 ? 2 * l->room : 64;
        l->items = cli_resize(l->items, l->room, sizeof *l->items);
    }
    cli_quantised *q = &l->items[l->count++];
    memset(q, 0, sizeof *q);
    q->name = s->t->name;
    q->name_len = s->base;
    q->scheme = scheme;
    q->bits = bits;
    q->members[q->member_count++] = sft_catalog_index_of(s->catalog, s->t);
    return q;
}

/* Its shape: that of the packed tensor, the last dimension `times` as long. */
static void set_shape(search *s, cli_quantised *q, uint64_t times) {
    q->rank = s->t->rank <= 3 ? s->t->rank : 1;
    for (uint32_t i = 0; i < q->rank; i++) {
        q->shape[i] = s->t->rank <= 3 ? s->t->shape[i] : cli_elements(s->t);
    }
    if (q->rank > 0) {
        q->shape[q->rank - 1] *= times; /* of bytes in a file: cannot overflow for times <= 2 */
    }
}

static void set_matrix(cli_quantised *q, uint64_t rows, uint64_t columns) {
    q->rank = 2;
    q->shape[0] = rows;
    q->shape[1] = columns;
}

static void add_member(search *s, cli_quantised *q, const char *suffix) {
    const sft_tensor *t = beside(s, suffix);

    if (t != NULL && q->member_count < sizeof q->members / sizeof q->members[0]) {
        q->members[q->member_count++] = sft_catalog_index_of(s->catalog, t);
        s->spare += cli_elements(t);
    }
}

static bool are_bits(uint64_t bits) {
    return bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

/* ---------------------------------------------------------------- rules */

/* GPTQ (AutoGPTQ, nn_modules/qlinear): qweight I32 [in * bits / 32, out], scales [groups, out], qzeros,
 * g_idx [in]. AWQ (AutoAWQ, modules/linear/gemm.py): qweight I32 [in, out * bits / 32], scales [groups,
 * out]. */
static bool gptq_or_awq(search *s) {
    const sft_tensor *t = s->t;

    if (!ends_with(s, "qweight") || !is(t, SFT_I32, 2)) {
        return false;
    }
    const sft_tensor *scales = beside(s, "scales");
    const sft_tensor *order = beside(s, "g_idx");
    const sft_tensor *zeros = beside(s, "qzeros");
    if (!is_scale(scales) || scales->rank != 2 || t->shape[0] == 0 || t->shape[1] == 0 ||
        (zeros != NULL && (!is(zeros, SFT_I32, 2) || zeros->shape[0] != scales->shape[0]))) {
        return false;
    }
    const uint64_t rows = t->shape[0];
    const uint64_t columns = t->shape[1];
    const bool gptq = scales->shape[1] == columns;
    uint64_t bits = gptq ? s->bits : 0;
    if (gptq && is(order, SFT_I32, 1) && order->shape[0] > 0) {
        bits = 32 * rows / order->shape[0];
    } else if (!gptq && scales->shape[1] > 0) {
        bits = 32 * columns / scales->shape[1];
    }
    if (!are_bits(bits) || (gptq ? rows : columns) * 32 % bits != 0 ||
        (!gptq && columns * 32 / bits != scales->shape[1])) {
        return false;
    }
    const uint64_t inputs = gptq ? rows * 32 / bits : rows;
    if (scales->shape[0] > inputs || (order != NULL && order->shape[0] != inputs)) {
        return false;
    }
    cli_quantised *q = found(s, gptq ? "GPTQ" : "AWQ", (double)bits);
    set_matrix(q, gptq ? columns : scales->shape[1], inputs);
    add_member(s, q, "scales");
    add_member(s, q, "qzeros");
    add_member(s, q, "g_idx");
    return true;
}

/* bitsandbytes (functional.py, QuantState.as_dict): weight of two values a byte, in whatever type
 * bnb_4bit_quant_storage names, weight.absmax, and a weight.quant_state.bitsandbytes__nf4 (or fp4)
 * with JSON that has "shape". */
/* Has the shape so many elements, or one less, which shares its byte with nothing? */
static bool holds(const uint64_t shape[3], uint32_t rank, uint64_t elements) {
    uint64_t product = rank > 0;
    for (uint32_t k = 0; k < rank; k++) {
        if (shape[k] == 0 || product > elements / shape[k]) {
            return false;
        }
        product *= shape[k];
    }
    return product > 0 && (product == elements || product + 1 == elements);
}

static bool bitsandbytes_4(search *s) {
    static const char *const states[] = {".quant_state.bitsandbytes__nf4",
                                         ".quant_state.bitsandbytes__fp4"};
    const sft_tensor *t = s->t;
    char text[2048];
    uint64_t shape[3] = {0, 0, 0};

    s->base = t->name_len;
    if (beside(s, ".absmax") == NULL) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        const sft_tensor *state = beside(s, states[i]);
        if (state == NULL || state->nbytes > sizeof text || state->dtype->block_bytes != 1 ||
            sft_tensor_read_bytes(s->catalog, state, 0, text, (size_t)state->nbytes, NULL) !=
                SFT_OK) {
            continue;
        }
        const char *end = text + state->nbytes;
        const uint32_t rank =
            numbers_at(behind_key(text, (size_t)state->nbytes, "shape"), end, shape);
        if (!holds(shape, rank, 2 * t->nbytes)) {
            continue;
        }
        cli_quantised *q = found(s, i == 0 ? "bitsandbytes NF4" : "bitsandbytes FP4", 4);
        q->rank = rank;
        memcpy(q->shape, shape, sizeof shape);
        add_member(s, q, ".absmax");
        add_member(s, q, ".quant_map");
        add_member(s, q, ".nested_absmax");
        add_member(s, q, ".nested_quant_map");
        add_member(s, q, states[i]);
        return true;
    }
    return false;
}

/* bitsandbytes (nn/modules.py, Linear8bitLt): weight I8 [out, in], SCB F32 [out]. */
static bool bitsandbytes_8(search *s) {
    if (!ends_with(s, "weight") || !is(s->t, SFT_I8, 2) || !is(beside(s, "SCB"), SFT_F32, 1) ||
        beside(s, "SCB")->shape[0] != s->t->shape[0]) {
        return false;
    }
    cli_quantised *q = found(s, "bitsandbytes INT8", 8);
    set_shape(s, q, 1);
    add_member(s, q, "SCB");
    add_member(s, q, "weight_format");
    return true;
}

/* MXFP4 (gpt-oss; transformers, integrations/mxfp4.py): NAME_blocks U8 [..., rows, groups, 16],
 * NAME_scales U8 [..., rows, groups]; a group has 32 values. */
static bool mxfp4(search *s) {
    const sft_tensor *t = s->t;

    if (!ends_with(s, "_blocks") || t->dtype->id != SFT_U8 || t->rank < 3 || t->rank > 4 ||
        t->shape[t->rank - 1] != 16) {
        return false;
    }
    const sft_tensor *scales = beside(s, "_scales");
    if (scales == NULL || !is_eight(scales) || scales->rank != t->rank - 1 ||
        memcmp(scales->shape, t->shape, scales->rank * sizeof *t->shape) != 0) {
        return false;
    }
    cli_quantised *q = found(s, "MXFP4", 4);
    q->rank = scales->rank;
    memcpy(q->shape, t->shape, q->rank * sizeof *t->shape);
    q->shape[q->rank - 1] *= 32; /* twice the bytes: cannot overflow */
    add_member(s, q, "_scales");
    return true;
}

/* TensorRT Model Optimizer and compressed-tensors
 * (compressors/quantized_compressors/nvfp4_quantized.py): weight or weight_packed U8 [out, in / 2];
 * weight_scale F8_E4M3 [out, in / 16] (NVFP4), or of one byte [out, in / 32] (MXFP4). */
static bool packed_fp4(search *s) {
    const sft_tensor *t = s->t;

    if (!is(t, SFT_U8, 2) || (!ends_with(s, "weight_packed") && !ends_with(s, "weight"))) {
        return false;
    }
    const sft_tensor *scale = beside(s, "weight_scale");
    if (scale == NULL || scale->rank != 2 || scale->shape[0] != t->shape[0]) {
        return false;
    }
    const bool nv = scale->dtype->id == SFT_F8_E4M3 && scale->shape[1] * 8 == t->shape[1];
    const bool mx = is_eight(scale) && scale->shape[1] * 16 == t->shape[1];
    if (!nv && !mx) {
        return false;
    }
    cli_quantised *q = found(s, nv ? "NVFP4" : "MXFP4", 4);
    set_shape(s, q, 2);
    add_member(s, q, "weight_scale");
    add_member(s, q, "weight_scale_2");
    add_member(s, q, "weight_global_scale");
    add_member(s, q, "input_scale");
    add_member(s, q, "input_global_scale");
    return true;
}

/* compressed-tensors (compressors/quantized_compressors/pack_quantized.py): weight_packed I32 [out, in
 * * bits / 32], weight_scale, weight_shape I64 [2]. */
static bool packed_integers(search *s) {
    unsigned char bytes[16];
    uint64_t shape[2] = {0, 0};

    if (!ends_with(s, "weight_packed") || !is(s->t, SFT_I32, 2)) {
        return false;
    }
    const sft_tensor *holds = beside(s, "weight_shape");
    if (!is(holds, SFT_I64, 1) || holds->shape[0] != 2 || beside(s, "weight_scale") == NULL ||
        sft_tensor_read_bytes(s->catalog, holds, 0, bytes, sizeof bytes, NULL) != SFT_OK) {
        return false;
    }
    for (unsigned i = 16; i-- > 0;) {
        shape[i / 8] = shape[i / 8] << 8 | bytes[i];
    }
    const uint64_t bits =
        shape[1] > 0 && shape[1] <= UINT32_MAX ? 32 * s->t->shape[1] / shape[1] : 0;
    if (!are_bits(bits) || shape[0] != s->t->shape[0]) {
        return false;
    }
    cli_quantised *q = found(s, "compressed-tensors", (double)bits);
    set_matrix(q, shape[0], shape[1]);
    add_member(s, q, "weight_scale");
    add_member(s, q, "weight_zero_point");
    add_member(s, q, "weight_shape");
    add_member(s, q, "weight_g_idx");
    return true;
}

/* FP8 with scales of blocks (DeepSeek-V3: weight_scale_inv) or of the tensor, rows (compressed-tensors,
 * Model Optimizer: weight_scale). */
static bool fp8_scale(const sft_tensor *scale, const sft_tensor *weight) {
    if (scale == NULL || (!is_scale(scale) && scale->dtype->id != SFT_F8_E8M0)) {
        return false;
    }
    const bool rows = scale->rank > 0 && scale->shape[0] <= weight->shape[0];
    return cli_elements(scale) == 1 || (scale->rank == 1 && scale->shape[0] == weight->shape[0]) ||
           (scale->rank == 2 && rows && scale->shape[1] <= weight->shape[1]);
}

static bool fp8(search *s) {
    const sft_tensor *t = s->t;

    if (!ends_with(s, "weight") || t->dtype->kind != SFT_KIND_FLOAT || t->dtype->block_bytes != 1 ||
        t->dtype->block_elements != 1 || t->dtype->id == SFT_F8_E8M0 || t->rank != 2 ||
        (!fp8_scale(beside(s, "weight_scale_inv"), t) &&
         !fp8_scale(beside(s, "weight_scale"), t))) {
        return false;
    }
    cli_quantised *q = found(s, "FP8", 8);
    set_shape(s, q, 1);
    add_member(s, q, "weight_scale_inv");
    add_member(s, q, "weight_scale");
    add_member(s, q, "input_scale");
    return true;
}

/* torchao (prototype/safetensors/safetensors_support.py): of "M.weight" M._weight_qdata and
 * M._weight_scale; metadata "M.weight" has "_type". Int4Tensor and NVFP4Tensor keep two values in a
 * byte. */
static bool torchao(search *s) {
    const sft_tensor *t = s->t;
    size_t len = 0;

    enum { MOST_LOOKED = 100000000 }; /* or a hostile file would take hours */
    s->looked +=
        ends_with(s, "._weight_qdata") ? sft_catalog_metadata_count(s->catalog, t->file) : 0;
    if (!ends_with(s, "._weight_qdata") || s->looked > MOST_LOOKED) {
        return false;
    }
    s->name.size = 0;
    cli_text_add(&s->name, t->name, s->base);
    cli_text_put(&s->name, ".weight");
    const char *text =
        sft_catalog_metadata_find(s->catalog, t->file, s->name.data, s->name.size, &len);
    const char *type = text != NULL ? behind_key(text, len, "_type") : NULL;
    if (type == NULL || beside(s, "._weight_scale") == NULL) {
        return false;
    }
    const size_t left = (size_t)(text + len - type);
    const bool nv = left > 13 && memcmp(type, "\"NVFP4Tensor\"", 13) == 0;
    const bool half = nv || (left > 12 && memcmp(type, "\"Int4Tensor\"", 12) == 0);
    const bool whole = (left > 13 && memcmp(type, "\"Float8Tensor", 13) == 0) ||
                       (left > 12 && memcmp(type, "\"Int8Tensor\"", 12) == 0);
    if (!half && !whole) {
        return false;
    }
    cli_quantised *q = found(s,
                             nv     ? "torchao NVFP4"
                             : half ? "torchao INT4"
                                    : "torchao 8 bit",
                             half ? 4 : 8);
    set_shape(s, q, half && t->dtype->block_elements == 1 ? 2 : 1);
    add_member(s, q, "._weight_scale");
    add_member(s, q, "._weight_zero_point");
    return true;
}

/* GGUF (docs/import.md): blocks as bytes; "gguf.tensors" has {"NAME": {"type": "Q4_K", "shape": [...]},
 * ...}. */
static void gguf_tensor(search *s, const char *inside, size_t size) {
    static const char *const types[] = {"Q4_0",    "Q4_1",   "Q5_0",    "Q5_1",  "Q8_0",   "Q8_1",
                                        "Q2_K",    "Q3_K",   "Q4_K",    "Q5_K",  "Q6_K",   "Q8_K",
                                        "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
                                        "IQ2_S",   "IQ4_XS", "IQ1_M",   "TQ1_0", "TQ2_0",  "MXFP4"};
    const char *type = behind_key(inside, size, "type");
    uint64_t shape[3] = {0, 0, 0};
    uint64_t n = 1;
    const uint32_t rank = numbers_at(behind_key(inside, size, "shape"), inside + size, shape);

    s->base = s->t->name_len;
    for (uint32_t i = 0; i < rank; i++) {
        n = n > UINT64_MAX / 8 / (shape[i] > 0 ? shape[i] : 1) ? 0 : n * shape[i];
    }
    for (size_t i = 0; type != NULL && rank > 0 && n > 0 && i < sizeof types / sizeof types[0];
         i++) {
        const size_t len = strlen(types[i]);
        if ((size_t)(inside + size - type) < len + 2 || memcmp(type + 1, types[i], len) != 0 ||
            type[1 + len] != '"') {
            continue;
        }
        cli_quantised *q = found(s, types[i], (double)s->t->nbytes * 8 / (double)n);
        q->rank = rank;
        memcpy(q->shape, shape, sizeof shape);
    }
}

/* The end of what begins with a quotation mark: behind the other; NULL: there is none, or an escape. */
static const char *end_of_name(const char *at, const char *end) {
    const char *quote = memchr(at + 1, '"', (size_t)(end - at) - 1);
    return quote == NULL || memchr(at, '\\', (size_t)(quote - at)) != NULL ? NULL : quote + 1;
}

/* done: the tensors that it describes. */
static void gguf(search *s, const char *text, size_t size, bool *done) {
    const char *end = text + size;
    const char *at;

    while ((at = memchr(text, '"', (size_t)(end - text))) != NULL) {
        const char *behind = end_of_name(at, end);
        const char *close = behind != NULL ? memchr(behind, '}', (size_t)(end - behind)) : NULL;
        if (close == NULL) {
            return;
        }
        s->t = sft_catalog_find(s->catalog, at + 1, (size_t)(behind - at) - 2);
        const size_t index = s->t != NULL ? sft_catalog_index_of(s->catalog, s->t) : 0;
        if (s->t != NULL && !done[index] &&
            (s->t->dtype->id == SFT_U8 || s->t->dtype->kind == SFT_KIND_OPAQUE)) {
            const size_t before = s->list->count;
            gguf_tensor(s, behind, (size_t)(close - behind));
            done[index] = s->list->count > before;
        }
        text = close + 1;
    }
}

static uint64_t values_of(const cli_quantised *q) {
    uint64_t n = 1;

    for (uint32_t i = 0; i < q->rank; i++) {
        n *= q->shape[i]; /* as many values as have room in its bytes */
    }
    return n;
}

void cli_quantised_find(cli_quantised_list *list, const sft_catalog *catalog, const char *config,
                        size_t config_size) {
    static bool (*const rules[])(search *) = {gptq_or_awq, bitsandbytes_4, bitsandbytes_8,
                                              mxfp4,       packed_fp4,     packed_integers,
                                              fp8,         torchao};
    const size_t count = sft_catalog_count(catalog);
    bool *done = cli_alloc(count, sizeof *done);
    search s = {.list = list, .catalog = catalog, .bits = config_bits(config, config_size)};

    memset(list, 0, sizeof *list);
    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        size_t size = 0;
        const char *text = sft_catalog_metadata_find(catalog, i, "gguf.tensors", 12, &size);
        if (text != NULL) {
            gguf(&s, text, size, done);
        }
    }
    for (size_t i = 0; i < list->count; i++) {
        list->parameters += values_of(&list->items[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const size_t before = list->count;
        s.t = sft_catalog_at(catalog, i);
        for (size_t k = 0; k < sizeof rules / sizeof rules[0] && !done[i] && list->count == before;
             k++) {
            (void)rules[k](&s);
        }
        list->parameters += done[i]                ? 0
                            : list->count > before ? values_of(&list->items[before])
                                                   : cli_elements(s.t);
    }
    list->parameters -= s.spare < list->parameters ? s.spare : list->parameters;
    free(s.name.data);
    free(done);
}
