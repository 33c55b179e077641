/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of the catalog builder: what it copies, what it checks, what it gives back.
 */
#include "unit/cm.h"
#include "unit/counting.h"

#include <sft/extend.h>

static const uint8_t memory[1000] = {1, 2, 3};

static sft_source *memory_source(size_t size, const sft_allocator *a) {
    sft_source *s = NULL;
    return sft_source_open_memory(&s, memory, size, a, NULL) == SFT_OK ? s : NULL;
}

/* A builder with one source of 1000 bytes and one file. */
static sft_builder *builder_with(const sft_open_options *options) {
    sft_builder *b;
    sft_error err;
    const sft_file file = {.path = "x.gguf", .size = 1000, .tensor_count = 99};
    uint32_t index = 9;
    assert_int_equal(sft_builder_create(&b, options, &err), SFT_OK);
    assert_int_equal(sft_builder_add_source(b, memory_source(1000, NULL), &index, &err), SFT_OK);
    assert_int_equal(index, 0);
    assert_int_equal(sft_builder_add_file(b, &file, &index, &err), SFT_OK);
    assert_int_equal(index, 0);
    return b;
}

static sft_tensor tensor(const char *name, uint32_t dtype, const uint64_t *shape, uint32_t rank,
                         const sft_piece *pieces, uint32_t piece_count) {
    return (sft_tensor){.name = name,
                        .name_len = strlen(name),
                        .dtype = sft_dtype_get(dtype),
                        .shape = shape,
                        .rank = rank,
                        .pieces = pieces,
                        .piece_count = piece_count};
}

static void everything_is_copied(void **state) {
    (void)state;
    counting count;
    sft_open_options o;
    sft_builder *b;
    sft_catalog *c;
    sft_error err;
    counting_init(&count);
    SFT_INIT(&o);
    o.allocator = &count.allocator;
    char path[] = "model.pt";
    char name[] = "weight";
    char key[] = "k";
    char value[] = "v";
    char alias[] = "tied";
    uint64_t shape[] = {4, 6};
    uint64_t start[] = {0, 3};
    uint64_t extent[] = {4, 3};
    int64_t strides[] = {12, -2};
    uint32_t index;
    sft_piece pieces[] = {{.offset = 100, .count = extent},
                          {.offset = 300, .start = start, .count = extent, .strides = strides}};
    assert_int_equal(sft_builder_create(&b, &o, &err), SFT_OK);
    assert_int_equal(sft_builder_add_source(b, memory_source(10, &count.allocator), NULL, &err),
                     SFT_OK);
    assert_int_equal(sft_builder_add_source(b, memory_source(1000, &count.allocator), &index, &err),
                     SFT_OK);
    assert_int_equal(index, 1);
    pieces[0].source = pieces[1].source = 1;
    sft_file file = {.path = path, .size = 1000, .source = 1, .tensor_count = 7};
    assert_int_equal(sft_builder_add_file(b, &file, NULL, &err), SFT_OK);
    file.path = "second";
    assert_int_equal(sft_builder_add_file(b, &file, &index, &err), SFT_OK);
    assert_int_equal(index, 1);
    const sft_metadata_entry entry = {key, 1, value, 1};
    const sft_metadata_entry other = {"other", 5, "file", 4};
    const sft_metadata_entry last = {"last", 4, "", 0};
    assert_int_equal(sft_builder_add_metadata(b, 1, &other, &err), SFT_OK);
    assert_int_equal(sft_builder_add_metadata(b, 0, &entry, &err), SFT_OK);
    assert_int_equal(sft_builder_add_metadata(b, 1, &last, &err), SFT_OK);
    sft_tensor t = tensor(name, SFT_F16, shape, 2, pieces, 2);
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_OK);
    sft_tensor empty = tensor("", SFT_F32, (const uint64_t[]){5, 0}, 2, NULL, 0);
    empty.file = 1;
    assert_int_equal(sft_builder_add_tensor(b, &empty, &err), SFT_OK);
    assert_int_equal(sft_builder_add_alias(b, alias, 4, name, 6, &err), SFT_OK);
    memset(path, '?', 8), memset(name, '?', 6), memset(key, '?', 1), memset(value, '?', 1);
    memset(alias, '?', 4), memset(shape, 0xff, sizeof shape), memset(start, 0xff, sizeof start);
    memset(extent, 0xff, sizeof extent), memset(strides, 0xff, sizeof strides);
    memset(pieces, 0xff, sizeof pieces);

    assert_int_equal(sft_builder_finish(&c, b, &err), SFT_OK);
    assert_int_equal(sft_builder_add_tensor(b, &empty, &err), SFT_E_STATE);
    assert_int_equal(sft_builder_add_file(b, &file, NULL, &err), SFT_E_STATE);
    sft_catalog *again = (sft_catalog *)1;
    assert_int_equal(sft_builder_finish(&again, b, &err), SFT_E_STATE);
    assert_null(again);
    sft_builder_free(b);

    assert_int_equal(sft_catalog_count(c), 2);
    const sft_tensor *w = sft_catalog_find(c, "weight", 6);
    assert_ptr_equal(w, sft_catalog_at(c, 0));
    assert_string_equal(w->name, "weight");
    assert_int_equal(w->nbytes, 48);
    assert_int_equal(w->shape[1], 6);
    assert_int_equal(w->piece_count, 2);
    assert_int_equal(w->pieces[0].nbytes, 24);
    assert_null(w->pieces[0].start);
    assert_int_equal(w->pieces[0].count[1], 3);
    assert_int_equal(w->pieces[1].start[1], 3);
    assert_int_equal(w->pieces[1].strides[1], -2);
    assert_int_equal(w->pieces[1].nbytes, 3 * 12 + 2); /* up to the row that begins last */
    assert_int_equal(w->pieces[1].source, 1);
    assert_ptr_equal(sft_catalog_find(c, "", 0), sft_catalog_at(c, 1));
    assert_ptr_equal(sft_catalog_find(c, "tied", 4), w);
    assert_null(sft_catalog_find(c, "tie", 3));
    size_t len;
    size_t of;
    assert_int_equal(sft_catalog_alias_count(c), 1);
    assert_string_equal(sft_catalog_alias_at(c, 0, &len, &of), "tied");
    assert_int_equal(len, 4);
    assert_int_equal(of, 0);
    assert_null(sft_catalog_alias_at(c, 1, &len, &of));
    assert_string_equal(sft_catalog_file_at(c, 0)->path, "model.pt");
    assert_int_equal(sft_catalog_file_at(c, 0)->tensor_count, 1);
    assert_int_equal(sft_catalog_file_at(c, 1)->tensor_count, 1);
    assert_int_equal(sft_catalog_metadata_count(c, 0), 1);
    assert_int_equal(sft_catalog_metadata_count(c, 1), 2);
    assert_string_equal(sft_catalog_metadata_find(c, 0, "k", 1, NULL), "v");
    assert_string_equal(sft_catalog_metadata_find(c, 1, "other", 5, NULL), "file");
    const char *k;
    assert_int_equal(sft_catalog_metadata_at(c, 1, 1, &k, NULL, NULL, NULL), SFT_OK);
    assert_string_equal(k, "last");
    assert_int_equal(sft_catalog_source_count(c), 2);
    sft_catalog_close(c);
    assert_all_given_back(&count);
}

/* One tensor per row, over a source of 1000 bytes. */
static void every_claim_is_checked(void **state) {
    (void)state;
    static const uint64_t s46[] = {4, 6};
    static const uint64_t s3[] = {3};
    static const uint64_t s0[] = {0, 7};
    static const uint64_t huge[] = {UINT64_MAX, 2};
    static const uint64_t wide[] = {UINT64_C(1) << 62};
    static const uint64_t one1[] = {1, 1};
    static const uint64_t four7[] = {4, 7};
    static const uint64_t max1[] = {UINT64_MAX, 1};
    static const uint64_t two2[] = {2, 2};
    static const int64_t rows[] = {12, 2};
    static const int64_t back[] = {-12, -2};
    static const int64_t far_rows[] = {400, 2};
    static const int64_t extreme[] = {INT64_MIN, INT64_MIN};
    static const int64_t zero[] = {0, 0};
    static const struct {
        uint32_t dtype;
        uint32_t rank;
        const uint64_t *shape;
        sft_piece piece;
        uint64_t nbytes;
        uint32_t file;
        sft_status status;
        uint64_t piece_bytes; /* if it is taken */
    } cases[] = {
        {SFT_F16, 2, s46, {.offset = 0}, 0, 0, SFT_OK, 48},
        {SFT_F16, 2, s46, {.offset = 952}, 0, 0, SFT_OK, 48},
        {SFT_F16, 2, s46, {.offset = 953}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_F16, 2, s46, {.offset = 1001}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_F16, 2, s46, {.offset = UINT64_MAX}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_F16, 2, s46, {.nbytes = 48}, 48, 0, SFT_OK, 48},
        {SFT_F16, 2, s46, {.nbytes = 47}, 48, 0, SFT_E_SIZE, 0},
        {SFT_F16, 2, s46, {.nbytes = 0}, 47, 0, SFT_E_SIZE, 0},
        {SFT_F16, 2, s46, {.source = 1}, 0, 0, SFT_E_ARG, 0},
        {SFT_F16, 2, s46, {.offset = 0}, 0, 1, SFT_E_ARG, 0},
        {SFT_F16, 2, NULL, {.offset = 0}, 0, 0, SFT_E_ARG, 0},
        {SFT_F4, 1, s3, {.offset = 0}, 0, 0, SFT_E_SUBBYTE, 0},
        {SFT_F4, 2, s46, {.offset = 0}, 0, 0, SFT_OK, 12},
        {SFT_U8, 2, huge, {.offset = 0}, 0, 0, SFT_E_OVERFLOW, 0},
        {SFT_F64, 1, wide, {.offset = 0}, 0, 0, SFT_E_OVERFLOW, 0},
        {SFT_U8, 2, s0, {.offset = 1000}, 0, 0, SFT_OK, 0},
        {SFT_U8, 2, s0, {.offset = 1001}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_U8, 0, NULL, {.offset = 999}, 0, 0, SFT_OK, 1},
        /* boxes */
        {SFT_F16, 2, s46, {.start = one1, .count = two2}, 0, 0, SFT_OK, 8},
        {SFT_F16, 2, s46, {.start = one1}, 0, 0, SFT_E_RANGE, 0},
        {SFT_F16, 2, s46, {.count = four7}, 0, 0, SFT_E_RANGE, 0},
        {SFT_F16, 2, s46, {.start = four7, .count = one1}, 0, 0, SFT_E_RANGE, 0},
        {SFT_F16, 2, s46, {.start = max1, .count = one1}, 0, 0, SFT_E_RANGE, 0},
        {SFT_F16, 2, s46, {.start = one1, .count = max1}, 0, 0, SFT_E_RANGE, 0},
        /* strides */
        {SFT_F16, 2, s46, {.strides = rows}, 0, 0, SFT_OK, 48},
        {SFT_F16, 2, s46, {.offset = 953, .strides = rows}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_F16, 2, s46, {.offset = 46, .strides = back}, 0, 0, SFT_OK, 2},
        {SFT_F16, 2, s46, {.offset = 45, .strides = back}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_F16, 2, s46, {.strides = far_rows}, 0, 0, SFT_E_OFFSETS, 0},
        {SFT_F16, 2, s46, {.count = two2, .strides = far_rows}, 0, 0, SFT_OK, 404},
        {SFT_F16, 2, s46, {.strides = zero}, 0, 0, SFT_OK, 2},
        {SFT_F16, 2, s46, {.strides = extreme}, 0, 0, SFT_E_OVERFLOW, 0},
        {SFT_U8, 2, s0, {.strides = extreme}, 0, 0, SFT_OK, 0},
        {SFT_F4, 2, s46, {.strides = rows}, 0, 0, SFT_E_UNSUPPORTED, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sft_builder *b = builder_with(NULL);
        sft_catalog *c;
        sft_error err;
        sft_tensor t =
            tensor("t", cases[i].dtype, cases[i].shape, cases[i].rank, &cases[i].piece, 1);
        t.nbytes = cases[i].nbytes;
        t.file = cases[i].file;
        const sft_status st = sft_builder_add_tensor(b, &t, &err);
        if (st != cases[i].status) {
            fail_msg("case %zu: %s, not %s", i, sft_status_name(st),
                     sft_status_name(cases[i].status));
        }
        assert_int_equal(sft_builder_finish(&c, b, &err), SFT_OK);
        assert_int_equal(sft_catalog_count(c), st == SFT_OK);
        if (st == SFT_OK) {
            assert_int_equal(sft_catalog_at(c, 0)->pieces[0].nbytes, cases[i].piece_bytes);
        } else {
            assert_null(sft_catalog_find(c, "t", 1));
        }
        sft_catalog_close(c);
        sft_builder_free(b);
    }
}

static void foreign_types(void **state) {
    (void)state;
    static const sft_dtype q4 = {.id = 1002,
                                 .kind = SFT_KIND_OPAQUE,
                                 .block_elements = 32,
                                 .block_bytes = 18,
                                 .alignment = 2,
                                 .name = "Q4_0"};
    static const sft_dtype broken = {
        .id = 1003, .block_elements = 0, .block_bytes = 1, .name = "?"};
    static const uint64_t shape[] = {2, 64};
    static const uint64_t odd[] = {33};
    const sft_piece piece = {.offset = 3};
    sft_builder *b = builder_with(NULL);
    sft_catalog *c;
    sft_error err;
    sft_tensor t = tensor("q", SFT_U8, shape, 2, &piece, 1);
    t.dtype = &q4;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_OK);
    t.name = "odd";
    t.name_len = 3;
    t.shape = odd;
    t.rank = 1;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_SUBBYTE);
    assert_string_equal(err.tensor, "odd");
    t.dtype = &broken;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_DTYPE);
    t.dtype = NULL;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_DTYPE);
    assert_int_equal(sft_builder_finish(&c, b, &err), SFT_OK);
    assert_int_equal(sft_catalog_find(c, "q", 1)->nbytes, 4 * 18);
    sft_catalog_close(c);
    sft_builder_free(b);
}

static void names(void **state) {
    (void)state;
    const sft_piece piece = {.offset = 0};
    sft_builder *b = builder_with(NULL);
    sft_error err;
    sft_tensor t = tensor("a", SFT_U8, NULL, 0, &piece, 1);
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_OK);
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_DUPLICATE);
    assert_string_equal(err.tensor, "a");
    assert_int_equal(sft_builder_add_alias(b, "b", 1, "a", 1, &err), SFT_OK);
    assert_int_equal(sft_builder_add_alias(b, "b", 1, "a", 1, &err), SFT_E_DUPLICATE);
    assert_int_equal(sft_builder_add_alias(b, "a", 1, "a", 1, &err), SFT_E_DUPLICATE);
    assert_int_equal(sft_builder_add_alias(b, "c", 1, "b", 1, &err), SFT_E_NOT_FOUND);
    assert_int_equal(sft_builder_add_alias(b, "c", 1, NULL, 0, &err), SFT_E_NOT_FOUND);
    t.name = "b";
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_DUPLICATE);
    t.name = "\xff";
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_UTF8);
    t.name = NULL;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_ARG);
    t.name = "d";
    t.piece_count = 0;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_ARG);
    t.piece_count = 1;
    t.pieces = NULL;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_ARG);
    assert_int_equal(sft_builder_add_tensor(b, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_builder_add_metadata(b, 1, &(sft_metadata_entry){"k", 1, "v", 1}, &err),
                     SFT_E_ARG);
    assert_int_equal(sft_builder_add_metadata(b, 0, &(sft_metadata_entry){"\xff", 1, "v", 1}, &err),
                     SFT_E_UTF8);
    assert_int_equal(sft_builder_add_metadata(b, 0, &(sft_metadata_entry){"k", 1, NULL, 1}, &err),
                     SFT_E_ARG);
    assert_int_equal(sft_builder_add_file(b, &(sft_file){.path = NULL}, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_builder_add_file(b, &(sft_file){.path = "x", .source = 1}, NULL, &err),
                     SFT_E_ARG);
    assert_int_equal(sft_builder_add_source(b, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_builder_add_tensor(NULL, &t, &err), SFT_E_ARG);
    assert_int_equal(sft_builder_create(NULL, NULL, &err), SFT_E_ARG);
    sft_builder_free(b); /* unfinished: closes its source */
    sft_builder_free(NULL);
}

static void limits(void **state) {
    (void)state;
    sft_open_options o;
    sft_limits l;
    sft_error err;
    static const uint64_t shape[] = {1, 1};
    const sft_piece piece = {.offset = 0};
    SFT_INIT(&o);
    SFT_INIT(&l);
    o.limits = &l;
    l.tensors = 1;
    l.rank = 1;
    l.name_bytes = 2;
    l.shards = 1;
    sft_builder *b = builder_with(&o);
    sft_tensor t = tensor("abc", SFT_U8, NULL, 0, &piece, 1);
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_LIMIT);
    t.name_len = 2;
    t.rank = 2;
    t.shape = shape;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_LIMIT);
    t.rank = 1;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_OK);
    t.name = "x";
    t.name_len = 1;
    assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_E_LIMIT);
    assert_int_equal(sft_builder_add_source(b, memory_source(3, NULL), NULL, &err), SFT_E_LIMIT);
    assert_int_equal(sft_builder_add_file(b, &(sft_file){.path = "x"}, NULL, &err), SFT_E_LIMIT);
    sft_builder_free(b);
    l.tensors = 0;
    l.memory_bytes = 8000;
    b = builder_with(&o);
    static const sft_piece many[20] = {{.offset = 0}};
    sft_status st = SFT_OK;
    size_t added = 0;
    for (char name = '!'; st == SFT_OK && name <= '~'; name++, added++) {
        sft_tensor big = tensor("", SFT_U8, NULL, 0, many, 20);
        big.name = &name;
        big.name_len = 1;
        st = sft_builder_add_tensor(b, &big, &err);
    }
    assert_int_equal(st, SFT_E_LIMIT);
    assert_true(added > 2 && added <= 1 + 8000 / (20 * sizeof(sft_piece)));
    sft_builder_free(b);
}

/* Builds a catalog of `count` tensors and aliases; whatever fails, nothing is lost. */
static sft_status build(size_t count, sft_catalog **out, const sft_allocator *a, sft_error *err) {
    static const uint64_t shape[] = {3, 4};
    static const uint64_t start[] = {0, 0};
    static const int64_t strides[] = {4, 1};
    const sft_piece piece = {.offset = 5, .start = start, .count = shape, .strides = strides};
    const sft_file file = {.path = "f"};
    const sft_metadata_entry entry = {"k", 1, "v", 1};
    sft_open_options o;
    sft_builder *b;
    *out = NULL;
    SFT_INIT(&o);
    o.allocator = a;
    sft_status st = sft_builder_create(&b, &o, err);
    if (st != SFT_OK) {
        return st;
    }
    sft_source *s;
    st = sft_source_open_memory(&s, memory, 1000, a, err);
    st = st != SFT_OK ? st : sft_builder_add_source(b, s, NULL, err);
    st = st != SFT_OK ? st : sft_builder_add_file(b, &file, NULL, err);
    st = st != SFT_OK ? st : sft_builder_add_metadata(b, 0, &entry, err);
    for (size_t i = 0; st == SFT_OK && i < count; i++) {
        char name[32];
        char alias[32];
        (void)snprintf(name, sizeof name, "t%zu", i);
        (void)snprintf(alias, sizeof alias, "alias%zu", i);
        sft_tensor t = tensor(name, SFT_I8, shape, 2, &piece, 1);
        st = sft_builder_add_tensor(b, &t, err);
        st = st != SFT_OK ? st
                          : sft_builder_add_alias(b, alias, strlen(alias), name, strlen(name), err);
    }
    st = st != SFT_OK ? st : sft_builder_finish(out, b, err);
    sft_builder_free(b);
    return st;
}

static void thousands_of_tensors(void **state) {
    (void)state;
    sft_catalog *c;
    sft_error err;
    assert_int_equal(build(5000, &c, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_count(c), 5000);
    for (size_t i = 0; i < 5000; i++) {
        char name[32];
        size_t of;
        const sft_tensor *t = sft_catalog_at(c, i);
        (void)snprintf(name, sizeof name, "t%zu", i);
        assert_string_equal(t->name, name);
        assert_ptr_equal(sft_catalog_find(c, name, strlen(name)), t);
        (void)snprintf(name, sizeof name, "alias%zu", i);
        assert_ptr_equal(sft_catalog_find(c, name, strlen(name)), t);
        assert_string_equal(sft_catalog_alias_at(c, i, NULL, &of), name);
        assert_int_equal(of, i);
        assert_int_equal(t->pieces[0].nbytes, 12);
    }
    sft_catalog_close(c);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    size_t failures = 0;
    for (size_t k = 1;; k++) {
        counting count;
        sft_catalog *c;
        sft_error err;
        counting_init(&count);
        count.fail_from = k;
        const sft_status st = build(40, &c, &count.allocator, &err);
        if (st == SFT_OK) {
            assert_true(count.calls < k);
            assert_int_equal(sft_catalog_count(c), 40);
            sft_catalog_close(c);
            assert_all_given_back(&count);
            break;
        }
        assert_int_equal(st, SFT_E_NOMEM);
        assert_null(c);
        assert_all_given_back(&count);
        failures++;
    }
    assert_true(failures > 15);
}

/* A failed addition may be tried again; what was there before is still there. */
static void a_failed_addition_changes_nothing(void **state) {
    (void)state;
    for (size_t k = 1; k < 12; k++) {
        counting count;
        sft_open_options o;
        sft_catalog *c;
        sft_error err;
        const sft_piece piece = {.offset = 0};
        counting_init(&count);
        SFT_INIT(&o);
        o.allocator = &count.allocator;
        sft_builder *b = builder_with(&o);
        for (size_t i = 0; i < 100; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "n%zu", i);
            sft_tensor t = tensor(name, SFT_U8, NULL, 0, &piece, 1);
            count.calls = 0;
            count.fail_from = i % 3 == 0 ? k % 3 + 1 : 0;
            if (sft_builder_add_tensor(b, &t, &err) != SFT_OK) {
                assert_int_equal(err.status, SFT_E_NOMEM);
                count.fail_from = 0;
                assert_int_equal(sft_builder_add_tensor(b, &t, &err), SFT_OK);
            }
        }
        count.fail_from = 0;
        assert_int_equal(sft_builder_finish(&c, b, &err), SFT_OK);
        sft_builder_free(b);
        for (size_t i = 0; i < 100; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "n%zu", i);
            assert_ptr_equal(sft_catalog_find(c, name, strlen(name)), sft_catalog_at(c, i));
        }
        assert_int_equal(sft_catalog_file_at(c, 0)->tensor_count, 100);
        sft_catalog_close(c);
        assert_all_given_back(&count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_copied),
        cmocka_unit_test(every_claim_is_checked),
        cmocka_unit_test(foreign_types),
        cmocka_unit_test(names),
        cmocka_unit_test(limits),
        cmocka_unit_test(thousands_of_tensors),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_failed_addition_changes_nothing),
    };
    return cmocka_run_group_tests_name("builder", tests, NULL, NULL);
}
