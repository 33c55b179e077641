/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of sft_choose: which tensors, under which names, as which types; casts read at every place; what
 * is refused; failing allocators.
 */
#include "unit/cm.h"

#include "unit/counting.h"
#include <sft/extend.h>
#include <sft/names.h>
#include <sft/read.h>
#include <sft/write.h>
#include <stdbool.h>

enum { COUNT = 4, ELEMENTS = 24 };

typedef struct model {
    void *bytes;
    sft_catalog *catalog;
} model;

/* "a": F32, "b": F4, "c": I16 without elements, "d": U8; element e is e % 7 (of F4: the code). */
static model make(void) {
    static const uint64_t full[2] = {4, ELEMENTS / 4};
    static const uint64_t none[1] = {0};
    static const char *const names[COUNT] = {"a", "b", "c", "d"};
    static const char *const types[COUNT] = {"F32", "F4", "I16", "U8"};
    float a[ELEMENTS];
    uint8_t b[ELEMENTS / 2];
    uint8_t d[ELEMENTS];
    sft_save_tensor t[COUNT];
    model m;
    size_t size;
    for (size_t e = 0; e < ELEMENTS; e++) {
        a[e] = (float)(e % 7);
        d[e] = (uint8_t)(e % 7);
        b[e / 2] = (uint8_t)(e % 2 == 0 ? e % 7 : b[e / 2] | (e % 7) << 4);
    }
    const void *const data[COUNT] = {a, b, NULL, d};
    const size_t bytes[COUNT] = {sizeof a, sizeof b, 0, sizeof d};
    memset(t, 0, sizeof t);
    for (size_t i = 0; i < COUNT; i++) {
        t[i].name = names[i];
        t[i].name_len = 1;
        t[i].dtype = sft_dtype_find(types[i], strlen(types[i]));
        t[i].shape = i == 2 ? none : full;
        t[i].rank = i == 2 ? 1 : 2;
        t[i].data = data[i];
        t[i].nbytes = bytes[i];
    }
    const sft_metadata_entry e[2] = {{"format", 6, "pt", 2}, {"crc_num", 7, "1", 1}};
    assert_int_equal(sft_save_memory(NULL, 0, &size, t, COUNT, e, 2, NULL, NULL), SFT_OK);
    m.bytes = malloc(size);
    assert_int_equal(sft_save_memory(m.bytes, size, &size, t, COUNT, e, 2, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_open_memory(&m.catalog, m.bytes, size, NULL, NULL), SFT_OK);
    return m;
}

static void drop(model *m) {
    sft_catalog_close(m->catalog);
    free(m->bytes);
}

typedef struct wish {
    const char *drop;         /* letters of those that are left out */
    const char *names[COUNT]; /* NULL: their own */
    const char *types[COUNT];
    uint64_t told; /* elements */
    sft_status fails;
} wish;

static sft_status choose(void *ctx, const sft_tensor *t, sft_chosen *chosen, sft_error *err) {
    wish *const w = ctx;
    const size_t i = (size_t)(t->name[0] - 'a');
    assert_int_equal(chosen->keep, 1);
    assert_ptr_equal(chosen->name, t->name);
    assert_ptr_equal(chosen->dtype, t->dtype);
    if (w->fails != SFT_OK) {
        return sft_error_set(err, w->fails, 0, "as asked");
    }
    chosen->keep = w->drop == NULL || strchr(w->drop, t->name[0]) == NULL;
    if (w->names[i] != NULL) {
        chosen->name = w->names[i];
        chosen->name_len = strlen(w->names[i]);
    }
    if (w->types[i] != NULL) {
        chosen->dtype = sft_dtype_find(w->types[i], strlen(w->types[i]));
    }
    return SFT_OK;
}

static void casted(void *ctx, const sft_tensor *t, const sft_dtype *to, const void *before,
                   const void *after, size_t n) {
    wish *const w = ctx;
    assert_true(t->dtype->id != to->id && before != after);
    w->told += n;
}

static sft_status chosen(sft_catalog **out, const model *m, wish *w, sft_choose_result *r,
                         const sft_open_options *open) {
    sft_choose_options o;
    SFT_INIT(&o);
    SFT_INIT(r);
    o.ctx = w;
    o.choose = choose;
    o.casted = casted;
    o.open = open;
    return sft_choose(out, m->catalog, &o, r, NULL);
}

/* All of a tensor at once, then every stretch of it, is what sft_convert makes of it. */
static void assert_cast(const sft_catalog *c, const char *name, const model *m, const char *from) {
    const sft_tensor *const t = sft_catalog_find(c, name, strlen(name));
    const sft_tensor *const was = sft_catalog_find(m->catalog, from, 1);
    const sft_cast cast = {t->dtype, was->dtype, 0};
    uint8_t plain[ELEMENTS * 8];
    uint8_t wanted[ELEMENTS * 8];
    uint8_t got[ELEMENTS * 8 + 1];
    assert_int_equal(sft_tensor_read(m->catalog, was, NULL, plain, sizeof plain, NULL), SFT_OK);
    assert_int_equal(sft_convert(wanted, plain, ELEMENTS, &cast, NULL), SFT_OK);
    const size_t n = (size_t)t->nbytes;
    for (size_t at = 0; at <= n; at++) {
        for (size_t size = 0; at + size <= n; size++) {
            memset(got, 0x55, sizeof got);
            assert_int_equal(sft_tensor_read_bytes(c, t, at, got, size, NULL), SFT_OK);
            assert_memory_equal(got, wanted + at, size);
            assert_int_equal(got[size], 0x55);
        }
    }
}

static void test_casts(void **state) {
    static const char *const types[] = {"F32", "F64", "BF16", "U8", "I64", "F4", "F6_E2M3", "BOOL"};
    model m = make();
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        wish w = {.types = {types[k], types[k], types[k], types[k]}, .names = {NULL, "second"}};
        sft_choose_result r;
        sft_catalog *c;
        assert_int_equal(chosen(&c, &m, &w, &r, NULL), SFT_OK);
        assert_int_equal(r.kept, COUNT);
        assert_int_equal(r.renamed, 1);
        assert_int_equal(r.left_out, 0);
        const bool same[COUNT] = {k == 0, k == 5, false, k == 3};
        static const char *const names[COUNT] = {"a", "second", "c", "d"};
        uint64_t cast = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const sft_tensor *const t = sft_catalog_find(c, names[i], strlen(names[i]));
            const char from[2] = {(char)('a' + i), '\0'};
            assert_string_equal(t->dtype->name, types[k]);
            cast += !same[i];
            if (i == 2) {
                assert_int_equal(t->nbytes, 0);
            } else if (!same[i]) {
                assert_cast(c, names[i], &m, from);
            }
        }
        assert_int_equal(r.cast, cast);
        assert_true(w.told >= ELEMENTS * (cast - 1));
        sft_catalog_close(c);
    }
    drop(&m);
}

static void test_choice(void **state) {
    model m = make();
    wish w = {.drop = "bd", .names = {"z"}};
    sft_choose_result r;
    sft_catalog *c;
    size_t len;
    (void)state;
    assert_int_equal(chosen(&c, &m, &w, &r, NULL), SFT_OK);
    assert_int_equal(sft_catalog_count(c), 2);
    assert_int_equal(r.kept, 2);
    assert_int_equal(r.left_out, 2);
    assert_non_null(sft_catalog_find(c, "z", 1));
    assert_null(sft_catalog_find(c, "a", 1));
    assert_string_equal(sft_catalog_metadata_find(c, 0, "format", 6, &len), "pt");
    assert_null(sft_catalog_metadata_find(c, 0, "crc_num", 7, &len)); /* of all tensors */
    sft_catalog_close(c);
    w = (wish){.drop = "abcd"};
    assert_int_equal(chosen(&c, &m, &w, &r, NULL), SFT_OK);
    assert_int_equal(sft_catalog_count(c), 0);
    sft_catalog_close(c);
    drop(&m);
}

static void test_refused(void **state) {
    model m = make();
    sft_choose_options o;
    sft_choose_result r;
    sft_catalog *c;
    wish w = {.names = {"d"}};
    (void)state;
    assert_int_equal(chosen(&c, &m, &w, &r, NULL), SFT_E_DUPLICATE);
    assert_null(c);
    w = (wish){.fails = SFT_E_CANCELLED};
    assert_int_equal(chosen(&c, &m, &w, &r, NULL), SFT_E_CANCELLED);
    SFT_INIT(&o);
    assert_int_equal(sft_choose(&c, m.catalog, &o, NULL, NULL), SFT_E_ARG);
    o.struct_size = 0;
    o.choose = choose;
    assert_int_equal(sft_choose(&c, m.catalog, &o, NULL, NULL), SFT_E_ARG);
    drop(&m);
}

static void test_memory(void **state) {
    counting c;
    sft_status status = SFT_E_NOMEM;
    size_t runs = 0;
    model m = make();
    (void)state;
    for (; status == SFT_E_NOMEM; runs++) {
        wish w = {.types = {"F16", "F32"}, .names = {"x"}};
        sft_choose_result r;
        sft_open_options open;
        sft_catalog *out = NULL;
        uint8_t got[ELEMENTS * 4];
        counting_init(&c);
        c.fail_from = runs + 1;
        c.fail_count = 1;
        SFT_INIT(&open);
        open.allocator = &c.allocator;
        status = chosen(&out, &m, &w, &r, &open);
        if (status == SFT_OK) {
            status = sft_tensor_read(out, sft_catalog_at(out, 0), NULL, got, sizeof got, NULL);
        }
        sft_catalog_close(out);
        assert_all_given_back(&c);
    }
    assert_int_equal(status, SFT_OK);
    assert_true(runs > 5);
    drop(&m);
}

/* A tensor whose second half is nowhere (SFT_CHECKPOINT_HOLES) is not cast; renamed it still has its half. */
static void test_holes(void **state) {
    static const uint64_t shape = 4, start = 0, count = 2;
    static const float half[2] = {1, 2};
    sft_tensor t = {.name = "a", .name_len = 1, .shape = &shape, .rank = 1, .piece_count = 1};
    sft_piece piece = {.start = &start, .count = &count};
    sft_source *source;
    sft_builder *builder;
    sft_choose_result r;
    sft_catalog *out;
    model m = {NULL, NULL};
    (void)state;
    t.dtype = sft_dtype_find("F32", 3);
    t.pieces = &piece;
    assert_int_equal(sft_builder_create(&builder, NULL, NULL), SFT_OK);
    assert_int_equal(sft_source_open_memory(&source, half, sizeof half, NULL, NULL), SFT_OK);
    const sft_file file = {.path = "half", .size = sizeof half};
    assert_int_equal(sft_builder_add_source(builder, source, &piece.source, NULL), SFT_OK);
    assert_int_equal(sft_builder_add_file(builder, &file, NULL, NULL), SFT_OK);
    assert_int_equal(sft_builder_add_tensor(builder, &t, NULL), SFT_OK);
    assert_int_equal(sft_builder_finish(&m.catalog, builder, NULL), SFT_OK);
    sft_builder_free(builder);
    wish w = {.types = {"F16"}};
    assert_int_equal(chosen(&out, &m, &w, &r, NULL), SFT_E_HOLE);
    w = (wish){.names = {"z"}};
    assert_int_equal(chosen(&out, &m, &w, &r, NULL), SFT_OK);
    assert_int_equal(sft_catalog_at(out, 0)->pieces[0].nbytes, sizeof half);
    sft_catalog_close(out);
    drop(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_casts),   cmocka_unit_test(test_choice),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_holes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
