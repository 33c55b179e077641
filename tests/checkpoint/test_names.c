/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of names: what rules say, what they do with tensors whose values count the elements,
 * there and back, and what is refused.
 */
#include "unit/cm.h"
#include <stdio.h>

#include "checkpoint/names/names.h"
#include "unit/counting.h"
#include <sft/names.h>
#include <sft/read.h>
#include <sft/write.h>

enum { MOST = 64, HEADS = 4, KV = 2, HEAD = 3, HIDDEN = 5, FFN = 6 };

typedef struct model {
    void *bytes;
    sft_catalog *catalog;
} model;

typedef struct wanted {
    const char *name;
    uint32_t rows;
    uint32_t columns; /* 0: a vector */
} wanted;

static void drop(model *m) {
    sft_catalog_close(m->catalog);
    free(m->bytes);
}

/* Element e of tensor t has the value 1000 t + e. */
static model make(const wanted *list, size_t count) {
    sft_save_tensor tensors[MOST];
    uint64_t shapes[MOST][2];
    const sft_metadata_entry format = {"format", 6, "pt", 2};
    model m;
    size_t size;
    memset(tensors, 0, sizeof tensors);
    assert_true(count <= MOST);
    for (size_t t = 0; t < count; t++) {
        const size_t n = list[t].rows * (list[t].columns != 0 ? list[t].columns : 1);
        int32_t *const data = malloc(n * 4 + 1);
        for (size_t e = 0; e < n; e++) {
            data[e] = (int32_t)(1000 * t + e);
        }
        shapes[t][0] = list[t].rows;
        shapes[t][1] = list[t].columns;
        tensors[t].name = list[t].name;
        tensors[t].name_len = strlen(list[t].name);
        tensors[t].dtype = sft_dtype_find("I32", 3);
        tensors[t].shape = shapes[t];
        tensors[t].rank = list[t].columns != 0 ? 2 : 1;
        tensors[t].data = data;
        tensors[t].nbytes = n * 4;
    }
    assert_int_equal(sft_save_memory(NULL, 0, &size, tensors, count, &format, 1, NULL, NULL),
                     SFT_OK);
    m.bytes = malloc(size);
    assert_int_equal(sft_save_memory(m.bytes, size, &size, tensors, count, &format, 1, NULL, NULL),
                     SFT_OK);
    assert_int_equal(sft_catalog_open_memory(&m.catalog, m.bytes, size, NULL, NULL), SFT_OK);
    for (size_t t = 0; t < count; t++) {
        free((void *)(uintptr_t)tensors[t].data);
    }
    return m;
}

static sft_names *rules(const char *text) {
    sft_names *names;
    sft_error err;
    if (sft_names_parse(&names, text, strlen(text), NULL, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    return names;
}

static sft_status apply(sft_catalog **out, const sft_catalog *in, const sft_names *names,
                        uint32_t reverse, sft_names_result *result, sft_error *err) {
    const sft_names_value values[] = {{"num_attention_heads", HEADS},
                                      {"num_key_value_heads", KV},
                                      {"intermediate_size", FFN},
                                      {"first", 8}};
    sft_names_options o;
    SFT_INIT(&o);
    o.values = values;
    o.value_count = 4;
    o.reverse = reverse;
    if (result != NULL) {
        SFT_INIT(result);
    }
    return sft_names_apply(out, in, names, &o, result, err);
}

static sft_catalog *applied(const sft_catalog *in, const char *text, uint32_t reverse,
                            sft_names_result *result) {
    sft_names *const names = rules(text);
    sft_catalog *out;
    sft_error err;
    if (apply(&out, in, names, reverse, result, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    sft_names_free(names); /* the catalog needs them no more */
    return out;
}

static int32_t *values_of(const sft_catalog *c, const char *name, uint64_t rows, uint64_t columns) {
    const sft_tensor *const t = sft_catalog_find(c, name, strlen(name));
    assert_non_null(t);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->rank, columns != 0 ? 2 : 1);
    assert_true(columns == 0 || t->shape[1] == columns);
    int32_t *const data = malloc((size_t)t->nbytes + 1);
    assert_int_equal(sft_tensor_read(c, t, NULL, data, (size_t)t->nbytes, NULL), SFT_OK);
    return data;
}

static void assert_same(const sft_catalog *a, const sft_catalog *b) {
    assert_int_equal(sft_catalog_count(a), sft_catalog_count(b));
    for (size_t i = 0; i < sft_catalog_count(a); i++) {
        const sft_tensor *const t = sft_catalog_at(a, i);
        const sft_tensor *const u = sft_catalog_find(b, t->name, t->name_len);
        assert_non_null(u);
        assert_int_equal(t->rank, u->rank);
        assert_memory_equal(t->shape, u->shape, t->rank * sizeof *t->shape);
        void *const x = malloc((size_t)t->nbytes + 1);
        void *const y = malloc((size_t)t->nbytes + 1);
        assert_int_equal(sft_tensor_read(a, t, NULL, x, (size_t)t->nbytes, NULL), SFT_OK);
        assert_int_equal(sft_tensor_read(b, u, NULL, y, (size_t)t->nbytes, NULL), SFT_OK);
        assert_memory_equal(x, y, (size_t)t->nbytes);
        free(x);
        free(y);
    }
}

static const wanted llama[] = {
    {"model.embed_tokens.weight", 7, HIDDEN},
    {"model.layers.0.self_attn.q_proj.weight", HEADS *HEAD, HIDDEN},
    {"model.layers.0.self_attn.k_proj.weight", KV *HEAD, HIDDEN},
    {"model.layers.0.self_attn.v_proj.weight", KV *HEAD, HIDDEN},
    {"model.layers.0.self_attn.q_proj.bias", HEADS *HEAD, 0},
    {"model.layers.0.self_attn.k_proj.bias", KV *HEAD, 0},
    {"model.layers.0.self_attn.v_proj.bias", KV *HEAD, 0},
    {"model.layers.0.self_attn.o_proj.weight", HIDDEN, HEADS *HEAD},
    {"model.layers.0.mlp.gate_proj.weight", FFN, HIDDEN},
    {"model.layers.0.mlp.up_proj.weight", FFN, HIDDEN},
    {"model.layers.0.mlp.down_proj.weight", HIDDEN, FFN},
    {"model.layers.0.input_layernorm.weight", HIDDEN, 0},
    {"model.layers.0.post_attention_layernorm.weight", HIDDEN, 0},
    {"model.layers.0.self_attn.rotary_emb.inv_freq", 2, 0},
    {"model.norm.weight", HIDDEN, 0},
    {"lm_head.weight", 7, HIDDEN},
};
enum { LLAMA = sizeof llama / sizeof llama[0], ROTARY = 13 };

/* The list without the tensor that has no way back. */
static model make_without_rotary(void) {
    wanted list[LLAMA];
    memcpy(list, llama, sizeof list);
    memmove(list + ROTARY, list + ROTARY + 1, (LLAMA - ROTARY - 1) * sizeof *list);
    return make(list, LLAMA - 1);
}

static void test_shipped_rename(void **state) {
    static const char *const expected[] = {"model.tok_embeddings.embedding_weight",
                                           "model.layers.0.attention.wq.weight",
                                           "model.layers.0.attention.wk.weight",
                                           "model.layers.0.attention.wv.weight",
                                           "model.layers.0.attention.wq.bias",
                                           "model.layers.0.attention.wk.bias",
                                           "model.layers.0.attention.wv.bias",
                                           "model.layers.0.attention.wo.weight",
                                           "model.layers.0.feed_forward.w1.weight",
                                           "model.layers.0.feed_forward.w3.weight",
                                           "model.layers.0.feed_forward.w2.weight",
                                           "model.layers.0.attention_norm.weight",
                                           "model.layers.0.ffn_norm.weight",
                                           "model.norm_out.weight",
                                           "lm_head.weight"};
    model m = make(llama, LLAMA);
    model plain = make_without_rotary();
    sft_names_result r;
    (void)state;
    sft_catalog *const ms = applied(m.catalog, sft_names_shipped_text("llama-mindformers"), 0, &r);
    assert_int_equal(sft_catalog_count(ms), LLAMA - 1);
    for (size_t i = 0; i < LLAMA - 1; i++) {
        assert_non_null(sft_catalog_find(ms, expected[i], strlen(expected[i])));
    }
    assert_int_equal(r.renamed, LLAMA - 1);
    assert_int_equal(r.dropped, 1);
    size_t len;
    assert_string_equal(sft_catalog_metadata_find(ms, 0, "format", 6, &len), "ms");
    sft_catalog *const there =
        applied(plain.catalog, sft_names_shipped_text("qwen2-mindformers"), 0, &r);
    sft_catalog *const back = applied(there, sft_names_shipped_text("qwen2-mindformers"), 1, &r);
    assert_same(plain.catalog, back);
    assert_string_equal(sft_catalog_metadata_find(back, 0, "format", 6, &len), "pt");
    sft_catalog_close(back);
    sft_catalog_close(there);
    sft_catalog_close(ms);
    drop(&plain);
    drop(&m);
}

/* Row r of the fused q, k, v: which tensor it is from, and which row there, by counting. */
static int32_t fused_value(uint32_t row, uint32_t column, uint32_t columns, uint32_t first) {
    const uint32_t per_group = HEADS / KV * HEAD + 2 * HEAD;
    const uint32_t group = row / per_group;
    uint32_t in = row % per_group;
    uint32_t tensor = first;
    uint32_t from = group * (HEADS / KV * HEAD) + in;
    if (in >= HEADS / KV * HEAD) {
        in -= HEADS / KV * HEAD;
        tensor = first + 1 + in / HEAD;
        from = group * HEAD + in % HEAD;
    }
    return (int32_t)(1000 * tensor + from * columns + column);
}

static void test_shipped_fused(void **state) {
    const uint32_t rows = (HEADS + 2 * KV) * HEAD;
    model m = make_without_rotary();
    sft_names_result r;
    (void)state;
    sft_catalog *const ms =
        applied(m.catalog, sft_names_shipped_text("llama-mindformers-fused"), 0, &r);
    int32_t *w = values_of(ms, "model.layers.0.attention.w_qkv.weight", rows, HIDDEN);
    int32_t *b = values_of(ms, "model.layers.0.attention.w_qkv.bias", rows, 0);
    for (uint32_t row = 0; row < rows; row++) {
        assert_int_equal(b[row], fused_value(row, 0, 1, 4));
        for (uint32_t c = 0; c < HIDDEN; c++) {
            assert_int_equal(w[row * HIDDEN + c], fused_value(row, c, HIDDEN, 1));
        }
    }
    free(w);
    free(b);
    w = values_of(ms, "model.layers.0.feed_forward.w_gate_hidden.weight", 2 * FFN, HIDDEN);
    for (uint32_t row = 0; row < 2 * FFN; row++) {
        assert_int_equal(w[row * HIDDEN], 1000 * (8 + row % 2) + row / 2 * HIDDEN);
    }
    free(w);
    assert_int_equal(r.fused, 8);
    sft_catalog *const back = applied(ms, sft_names_shipped_text("llama-mindformers-fused"), 1, &r);
    assert_int_equal(r.split, 3);
    assert_same(m.catalog, back);
    sft_catalog_close(back);
    sft_catalog_close(ms);
    drop(&m);
}

static void test_numbers_from_a_configuration(void **state) {
    static const char *const config[] = {
        "{\"num_attention_heads\": 4, \"rope\": {\"num_key_value_heads\": 7}, "
        "\"num_key_value_heads\": 2, "
        "\"intermediate_size\": 6}",
        "{\"num_attention_heads\": 4, \"intermediate_size\": 6}", "{"};
    model m = make_without_rotary();
    sft_names *const names = rules(sft_names_shipped_text("llama-mindformers-fused"));
    sft_names_result r;
    sft_names_options o;
    sft_catalog *c;
    sft_error err;
    (void)state;
    sft_catalog *const by_values =
        applied(m.catalog, sft_names_shipped_text("llama-mindformers-fused"), 0, &r);
    SFT_INIT(&o);
    o.config = config[0];
    o.config_size = strlen(config[0]);
    assert_int_equal(sft_names_apply(&c, m.catalog, names, &o, NULL, &err), SFT_OK);
    assert_same(by_values, c);
    sft_catalog_close(c);
    o.config = config[1]; /* as many heads of keys as of queries: not this model */
    o.config_size = strlen(config[1]);
    assert_int_equal(sft_names_apply(&c, m.catalog, names, &o, NULL, &err), SFT_E_SHAPE);
    o.config = config[2];
    o.config_size = strlen(config[2]);
    assert_int_equal(sft_names_apply(&c, m.catalog, names, &o, NULL, &err), SFT_E_JSON);
    o.config = NULL;
    assert_int_equal(sft_names_apply(&c, m.catalog, names, &o, NULL, &err), SFT_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "need a value for"));
    sft_catalog_close(by_values);
    sft_names_free(names);
    drop(&m);
}

/* MindFormers 2.x; what it keeps in a network of its own is left out. */
static void test_shipped_second_release(void **state) {
    static const struct {
        const char *from;
        const char *to;
    } names[] = {
        {"model.embed_tokens.weight", "embedding.word_embeddings.weight"},
        {"model.layers.0.self_attn.q_a_layernorm.weight",
         "decoder.layers.0.self_attention.q_layernorm.weight"},
        {"model.layers.0.self_attn.kv_b_proj.weight",
         "decoder.layers.0.self_attention.linear_kv_up_proj.weight"},
        {"model.layers.0.mlp.gate_proj.weight", "decoder.layers.0.mlp.gating.weight"},
        {"model.layers.7.mlp.experts.12.up_proj.weight",
         "decoder.layers.7.mlp.experts.12.hidden.weight"},
        {"model.layers.7.mlp.experts.12.up_proj.weight_scale_inv",
         "decoder.layers.7.mlp.experts.12.hidden.weight_scale_inv"},
        {"model.layers.7.mlp.shared_experts.down_proj.weight",
         "decoder.layers.7.mlp.shared_experts.linear_fc2.weight"},
        {"model.layers.7.mlp.gate.weight", "decoder.layers.7.mlp.router.weight"},
        {"model.layers.7.mlp.gate.e_score_correction_bias",
         "decoder.layers.7.mlp.router.expert_bias"},
        {"model.layers.61.eh_proj.weight", NULL},
        {"lm_head.weight", "output_layer.weight"},
    };
    enum { COUNT = sizeof names / sizeof names[0] };
    wanted list[COUNT];
    sft_names_result r;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        list[i] = (wanted){names[i].from, 2, 2};
    }
    model m = make(list, COUNT);
    sft_catalog *const ms =
        applied(m.catalog, sft_names_shipped_text("deepseek3-mindformers"), 0, &r);
    assert_int_equal(sft_catalog_count(ms), COUNT - 1);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(names[i].to == NULL ||
                    sft_catalog_find(ms, names[i].to, strlen(names[i].to)) != NULL);
    }
    assert_int_equal(r.dropped, 1);
    sft_catalog_close(ms);
    drop(&m);
}

static void test_every_shipped_text_parses(void **state) {
    const char *title;
    size_t count = 0;
    (void)state;
    for (const char *name; (name = sft__checkpoint_names_shipped(count, &title)) != NULL; count++) {
        sft_names_free(rules(sft_names_shipped_text(name)));
        assert_true(strlen(title) > 10);
    }
    assert_int_equal(count, 13);
    assert_null(sft_names_shipped_text("none"));
}

#define RULES(text) "{\"format\":\"safetensors.names/1\",\"rules\":[" text "]}"
#define KEEPING(text)                                                                              \
    "{\"format\":\"safetensors.names/1\",\"otherwise\":\"keep\",\"rules\":[" text "]}"

static void test_stack(void **state) {
    static const wanted list[] = {
        {"l.0.e.1.w", 2, 3}, {"l.0.e.0.w", 2, 3}, {"l.0.e.2.w", 2, 3}, {"x", 1, 0}};
    static const char text[] =
        RULES("{\"from\":\"l.{l}.e.{e}.w\",\"to\":\"l.{l}.experts\",\"stack\":\"e\"}");
    static const int32_t order[] = {1, 0, 2};
    model m = make(list, 4);
    sft_names_result r;
    int32_t data[18];
    (void)state;
    sft_catalog *const c = applied(m.catalog, text, 0, &r);
    const sft_tensor *const t = sft_catalog_find(c, "l.0.experts", 11);
    assert_non_null(t);
    assert_int_equal(sft_catalog_count(c), 2);
    assert_int_equal(t->rank, 3);
    assert_int_equal(t->shape[0], 3);
    assert_int_equal(t->shape[2], 3);
    assert_int_equal(sft_tensor_read(c, t, NULL, data, sizeof data, NULL), SFT_OK);
    for (int i = 0; i < 18; i++) {
        assert_int_equal(data[i], 1000 * order[i / 6] + i % 6);
    }
    sft_catalog *const back = applied(c, text, 1, &r);
    assert_same(m.catalog, back);
    sft_catalog_close(back);
    sft_catalog_close(c);
    drop(&m);
}

/* What may be a mistake is told, once for each rule; what is right is not. */
static void take_warning(void *ctx, const char *message) {
    char *text = ctx;
    strncat(text, message, 8000 - strlen(text));
    strncat(text, "|", 8000 - strlen(text));
}

static void warned(const char *text, const wanted *list, size_t count, uint32_t reverse,
                   const char *first, const char *second) {
    char told[8192] = "";
    sft_names_options o;
    sft_catalog *out;
    model m = make(list, count);
    sft_names *names = rules(text);
    SFT_INIT(&o);
    o.reverse = reverse;
    o.warn = take_warning;
    o.warn_ctx = told;
    assert_int_equal(sft_names_apply(&out, m.catalog, names, &o, NULL, NULL), SFT_OK);
    if (first == NULL) {
        assert_string_equal(told, "");
    } else {
        assert_non_null(strstr(told, first));
        assert_true(second == NULL || strstr(told, second) != NULL);
        assert_true(told[8000] == '\0');
    }
    sft_catalog_close(out);
    sft_names_free(names);
    drop(&m);
}

static void test_warnings(void **state) {
    static const char stacks[] =
        KEEPING("{\"from\":\"l.{l}.e.{e}.w\",\"to\":\"l.{l}.experts\",\"stack\":\"e\"}");
    static const char shift[] = KEEPING("{\"from\":\"h.{i+4}.{p*}\",\"to\":\"h.{i}.{p*}\"}");
    static const char swap[] = KEEPING("{\"from\":\"{p*}.{q*}\",\"to\":\"{q*}.{p*}\"}");
    static const char gone[] =
        KEEPING("{\"drop\":\"{p*}.inv\"},{\"from\":\"a.{i}\",\"to\":\"b.{i}\"}");
    static const wanted uneven[] = {{"l.0.e.0.w", 2, 3}, {"l.0.e.1.w", 2, 3}, {"l.1.e.0.w", 2, 3},
                                    {"l.2.e.0.w", 2, 3}, {"l.3.e.0.w", 2, 3}, {"l.3.e.1.w", 2, 3}};
    static const wanted even[] = {{"l.0.e.0.w", 2, 3},
                                  {"l.0.e.1.w", 2, 3},
                                  {"l.1.e.0.w", 1, 3},
                                  {"l.1.e.1.w", 1, 3},
                                  {"x", 1, 0}};
    static const wanted low[] = {{"h.0.w", 1, 0}, {"h.1.w", 1, 0}};
    static const wanted high[] = {{"h.4.w", 1, 0}, {"h.5.w", 1, 0}, {"x", 1, 0}};
    static const wanted plain[] = {{"c", 1, 0}, {"r.inv", 1, 0}, {"a.1", 1, 0}};
    static const char near[] =
        RULES("{\"from\":\"l.{i}.mlp.up_proj.{p*}\",\"to\":\"u.{i}.{p*}\"},"
              "{\"from\":\"l.{i}.mlp.gate_proj.{p*}\",\"to\":\"g.{i}.{p*}\"}");
    static const wanted typo[] = {{"l.12.mlp.gat_proj.w", 1, 0}, {"g.1.w", 1, 0}, {"x", 1, 0}};
    static const wanted of_state[] = {{"adam_m.l.1.mlp.gat_proj.w", 1, 0}};
    static const wanted far[] = {{"some.other.name", 1, 0}};
    (void)state;
    warned(stacks, uneven, 6, 0, "\"l.0.experts\" has 2 tensors, \"l.1.experts\" 1",
           "so do 1 more");
    warned(stacks, even, 5, 0, NULL, NULL);
    warned(shift, low, 2, 0, "no rule matches \"h.0.w\"", "no rule matches \"h.1.w\"");
    warned(shift, low, 2, 0, "kept as it is, and the way back would change it", NULL);
    warned(shift, high, 3, 0, NULL, NULL);
    warned(swap, plain, 1, 0, NULL, NULL);
    warned(gone, plain, 3, 0, "leave out 1 tensor, \"r.inv\"", NULL);
    warned(near, typo, 1, 0,
           "\"l.12.mlp.gat_proj.w\" (the nearest is for \"l.{i}.mlp.gate_proj.{p*}\")",
           "kept as it is");
    warned(near, typo, 3, 1,
           "\"l.12.mlp.gat_proj.w\" (the nearest is for \"l.{i}.mlp.gate_proj.{p*}\")",
           "no rule matches \"x\": kept as it is");
    warned(near, far, 1, 0, "no rule matches \"some.other.name\": kept as it is", NULL);
    warned(gone, plain, 3, 1, "no rule matches \"a.1\"", "way back");
    warned(near, of_state, 1, 0,
           "\"adam_m.l.1.mlp.gat_proj.w\" (the nearest is for \"l.{i}.mlp.gate", NULL);
    wanted many[25];
    char many_names[25][32];
    for (size_t i = 0; i < 25; i++) {
        (void)snprintf(many_names[i], sizeof many_names[i], "l.%u.mlp.gat_proj.w", (unsigned)i);
        many[i] = (wanted){many_names[i], 1, 0};
    }
    warned(near, many, 25, 0, "\"l.0.mlp.gat_proj.w\" (the nearest",
           "5 more tensors: kept as they are");
}

/* Layers of a pipeline stage get the numbers that they have in the whole, and back; a stage's
 * prefix goes. */
static void test_offsets(void **state) {
    static const wanted list[] = {{"1-m.0.w", 1, 0}, {"1-m.11.w", 2, 0}, {"1-tail", 3, 0}};
    static const char text[] = RULES("{\"from\":\"{s}-m.{i}.w\",\"to\":\"{s}/"
                                     "m.{i+first}.w\"},{\"from\":\"1-{r*}\",\"to\":\"{r*}\"}");
    model m = make(list, 3);
    sft_names_result r;
    (void)state;
    sft_catalog *const c = applied(m.catalog, text, 0, &r);
    assert_string_equal(sft_catalog_at(c, 0)->name, "1/m.8.w");
    assert_string_equal(sft_catalog_at(c, 1)->name, "1/m.19.w");
    assert_string_equal(sft_catalog_at(c, 2)->name, "tail");
    sft_catalog *const back = applied(c, text, 1, &r);
    assert_same(m.catalog, back);
    sft_catalog_close(back);
    sft_catalog_close(c);
    drop(&m);
}

static void test_refused_texts(void **state) {
    static const struct {
        const char *text;
        sft_status status;
    } bad[] = {
        {"", SFT_E_JSON},
        {"[]", SFT_E_SCHEMA},
        {"{\"rules\":[]}", SFT_E_SCHEMA},
        {RULES("{}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i}\",\"to\":\"b\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i}{j}\",\"to\":\"{i}b{j}\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i\",\"to\":\"b\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a}\",\"to\":\"b\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{}\",\"to\":\"b{}\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i}\",\"to\":\"b{i*}\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i+}\",\"to\":\"b{i}\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i+01}\",\"to\":\"b{i}\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a\",\"to\":\"\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":[],\"to\":\"b\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":[\"a\",7],\"to\":\"b\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"c\",\"parts\":[1]}"), SFT_E_SCHEMA},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"c\",\"parts\":[1,0]}"), SFT_E_SCHEMA},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"c\",\"dim\":64}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i}\",\"to\":\"b{i}\",\"stack\":\"i\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a{i}\",\"to\":\"b\",\"stack\":\"j\"}"), SFT_E_SCHEMA},
        {RULES("{\"from\":\"a\",\"to\":\"b\",\"what\":1}"), SFT_E_SCHEMA},
        {RULES("{\"drop\":\"a\",\"to\":\"b\"}"), SFT_E_SCHEMA},
        {"{\"format\":\"safetensors.names/1\",\"rules\":[],\"otherwise\":\"?\"}", SFT_E_SCHEMA},
        {"{\"format\":\"safetensors.names/1\",\"rules\":[],\"formats\":[\"a\"]}", SFT_E_SCHEMA},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sft_names *names;
        sft_error err;
        const sft_status status =
            sft_names_parse(&names, bad[i].text, strlen(bad[i].text), NULL, &err);
        if (status != bad[i].status) {
            fail_msg("%s: %s (%s)", bad[i].text, sft_status_name(status), err.message);
        }
        assert_null(names);
        assert_true(strlen(err.message) > 5);
    }
}

static void test_refused_tensors(void **state) {
    static const wanted list[] = {{"a", 4, 3},   {"b", 2, 3},   {"c", 2, 2},
                                  {"e.0", 2, 0}, {"e.1", 3, 0}, {"f.1", 1, 0}};
    static const struct {
        const char *text;
        sft_status status;
        uint32_t reverse;
        const char *tensor;
    } bad[] = {
        {RULES("{\"from\":[\"a\",\"z\"],\"to\":\"q\"}"), SFT_E_NOT_FOUND, 0, "a"},
        {RULES("{\"from\":[\"z\",\"b\"],\"to\":\"q\"}"), SFT_E_NOT_FOUND, 0, "b"},
        {RULES("{\"from\":[\"a\",\"c\"],\"to\":\"q\"}"), SFT_E_SHAPE, 0, "c"},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"q\",\"dim\":2}"), SFT_E_SHAPE, 0, "a"},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"q\",\"parts\":[1,1]}"), SFT_E_SHAPE, 0, "a"},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"q\",\"parts\":[5,1]}"), SFT_E_SHAPE, 0, "a"},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"q\",\"groups\":4}"), SFT_E_SHAPE, 0, "b"},
        {RULES("{\"from\":[\"a\",\"b\"],\"to\":\"q\",\"groups\":\"none\"}"), SFT_E_NOT_FOUND, 0,
         "a"},
        {RULES("{\"from\":[\"x\",\"y\",\"z\"],\"to\":\"a\"}"), SFT_E_SHAPE, 1, "a"},
        {RULES("{\"from\":[\"x\",\"y\"],\"to\":\"a\",\"groups\":2000000}"), SFT_E_LIMIT, 1, "a"},
        {RULES("{\"from\":\"a\",\"to\":\"b\"}"), SFT_E_DUPLICATE, 0, "b"},
        {RULES("{\"from\":\"e.{i}\",\"to\":\"e\",\"stack\":\"i\"}"), SFT_E_SHAPE, 0, "e.1"},
        {RULES("{\"from\":\"f.{i}\",\"to\":\"f\",\"stack\":\"i\"}"), SFT_E_NOT_FOUND, 0, "f.1"},
        {"{\"format\":\"safetensors.names/1\",\"rules\":[],\"otherwise\":\"error\"}",
         SFT_E_NOT_FOUND, 0, "a"},
    };
    model m = make(list, 6);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sft_names *const names = rules(bad[i].text);
        sft_catalog *out;
        sft_error err;
        const sft_status status = apply(&out, m.catalog, names, bad[i].reverse, NULL, &err);
        if (status != bad[i].status) {
            fail_msg("%s: %s (%s)", bad[i].text, sft_status_name(status), err.message);
        }
        assert_null(out);
        assert_string_equal(err.tensor, bad[i].tensor);
        sft_names_free(names);
    }
    drop(&m);
}

static void test_starved(void **state) {
    counting c;
    const char *const text = sft_names_shipped_text("llama-mindformers-fused");
    sft_status status = SFT_E_NOMEM;
    size_t runs = 0;
    model m = make_without_rotary();
    (void)state;
    for (; status == SFT_E_NOMEM; runs++) {
        const sft_names_value values[] = {{"num_attention_heads", HEADS},
                                          {"num_key_value_heads", KV},
                                          {"intermediate_size", FFN}};
        sft_names *names = NULL;
        sft_catalog *out = NULL;
        sft_names_options o;
        sft_open_options open;
        counting_init(&c);
        c.fail_from = runs + 1;
        SFT_INIT(&o);
        SFT_INIT(&open);
        open.allocator = &c.allocator;
        o.open = &open;
        o.values = values;
        o.value_count = 3;
        status = sft_names_parse(&names, text, strlen(text), &c.allocator, NULL);
        if (status == SFT_OK) {
            status = sft_names_apply(&out, m.catalog, names, &o, NULL, NULL);
        }
        sft_catalog_close(out);
        sft_names_free(names);
        assert_all_given_back(&c);
    }
    assert_int_equal(status, SFT_OK);
    assert_true(runs > 5);
    drop(&m);
}

static void test_nearest_shipped(void **state) {
    (void)state;
    assert_string_equal(sft_names_nearest("deepseek-mindformers"), "deepseek3-mindformers");
    assert_string_equal(sft_names_nearest("glm4-mindformers"), "glm4-mindformers");
    assert_string_equal(sft_names_nearest("qwen3-moe-mindformer"), "qwen3-moe-mindformers");
    assert_null(sft_names_nearest("my-own-rules.json"));
    assert_string_equal(sft_names_nearest("LLAMA-MindFormers"), "llama-mindformers");
    assert_null(sft_names_nearest("z"));
    assert_string_equal(sft_names_shipped_at(0), "llama-mindformers");
    assert_null(sft_names_shipped_at(1000));
    assert_null(sft_names_nearest(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_shipped),
        cmocka_unit_test(test_shipped_rename),
        cmocka_unit_test(test_shipped_fused),
        cmocka_unit_test(test_shipped_second_release),
        cmocka_unit_test(test_every_shipped_text_parses),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_numbers_from_a_configuration),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_refused_texts),
        cmocka_unit_test(test_refused_tensors),
        cmocka_unit_test(test_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
