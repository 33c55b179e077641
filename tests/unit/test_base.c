/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of src/base: escaping, UTF-8, arena, name table, pool.
 */
#include "unit/cm.h"
#include "unit/counting.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/pages.h"
#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "base/text/utf8.h"
#include "base/thread/pool.h"
#include <sft/extend.h>

static void error_record_is_512_bytes(void **state) {
    (void)state;
    assert_int_equal(sizeof(sft_error), 512);
    assert_string_equal(sft_status_name(SFT_E_HOLE), "SFT_E_HOLE");
    assert_string_equal(sft_status_name(9999), "SFT_E_?");
}

static void escape_keeps_text_and_hides_controls(void **state) {
    (void)state;
    static const struct {
        const char *in;
        size_t len;
        const char *out;
    } cases[] = {
        {"plain", 5, "plain"},
        {"a\0b", 3, "a\\x00b"},
        {"\x1b[31m", 5, "\\x1b[31m"},
        {"tab\tnl\n", 7, "tab\\tnl\\n"},
        {"back\\slash", 10, "back\\\\slash"},
        {"\xc3\xa9", 2, "\xc3\xa9"},
        {"\xe2\x80\xae", 3, "\\u202e"},
        {"\xe2\x80\x8b", 3, "\\u200b"},
        {"\xc2\x9b", 2, "\\x9b"},
        {"\xff\xfe", 2, "\\xff\\xfe"},
        {"\xf3\xa0\x80\x81", 4, "\\U000e0001"},
        {"", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[64];
        (void)sft__base_escape(out, sizeof out, cases[i].in, cases[i].len);
        assert_string_equal(out, cases[i].out);
    }
}

/* Both ends of every range, and what is beside them. */
static void what_is_invisible_is_escaped(void **state) {
    (void)state;
    static const uint32_t hidden[] = {
        0x0,     0x1f,    0x7f,    0x9f,    0xad,    0x34f,   0x61c,   0x115f,  0x1160,
        0x17b4,  0x17b5,  0x180b,  0x180d,  0x180e,  0x180f,  0x200b,  0x200f,  0x2028,
        0x2029,  0x202a,  0x202e,  0x2060,  0x206f,  0x2800,  0x3164,  0xfe00,  0xfe0f,
        0xfeff,  0xffa0,  0xfff0,  0xfff8,  0xfffb,  0x1bca0, 0x1bca3, 0x1d173, 0x1d17a,
        0xe0000, 0xe0001, 0xe007f, 0xe0080, 0xe0100, 0xe01ef, 0xe0fff};
    static const uint32_t seen[] = {
        0x20,   0x7e,   0xa0,   0xac,    0xae,    0x34e,   0x350,   0x61b,   0x61d,   0x115e,
        0x1161, 0x17b3, 0x17b6, 0x180a,  0x1810,  0x200a,  0x2010,  0x2027,  0x202f,  0x205f,
        0x2070, 0x27ff, 0x2801, 0x3163,  0x3165,  0xfdff,  0xfe10,  0xfefe,  0xff00,  0xff9f,
        0xffa1, 0xffef, 0xfffc, 0x1bc9f, 0x1bca4, 0x1d172, 0x1d17b, 0xdffff, 0xe1000, 0x10ffff};

    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        char text[4];
        char out[32];
        const size_t len = sft__base_utf8_encode(text, hidden[i]);
        (void)sft_escape(out, sizeof out, text, len);
        assert_int_equal(out[0], '\\');
        assert_int_equal(sft__base_utf8_valid(out, strlen(out)), strlen(out));
        assert_true(strlen(out) >= 4);
    }
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        char text[4];
        char out[32];
        const size_t len = sft__base_utf8_encode(text, seen[i]);
        assert_int_equal(sft_escape(out, sizeof out, text, len), len);
        assert_memory_equal(out, text, len);
    }
}

static void escape_cuts_at_every_capacity(void **state) {
    (void)state;
    const char text[] = "ab\x01\xe2\x82\xac\xe2\x80\xae-end";
    char full[64];
    const size_t full_len = sft__base_escape(full, sizeof full, text, sizeof text - 1);
    for (size_t cap = 8; cap <= sizeof full; cap++) {
        char out[64];
        memset(out, 'X', sizeof out);
        const size_t n = sft__base_escape(out, cap, text, sizeof text - 1);
        assert_true(n < cap);
        assert_int_equal(strlen(out), n);
        assert_int_equal(sft__base_utf8_valid(out, n), n);
        if (cap > full_len) {
            assert_string_equal(out, full);
        } else {
            assert_string_equal(out + n - 3, "...");
        }
    }
}

static void utf8_accepts_and_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        size_t valid;
    } cases[] = {
        {"\xf0\x9f\x98\x80", 4, 4},
        {"\xed\xa0\x80", 3, 0},
        {"\xc0\x80", 2, 0},
        {"\xe0\x80\x80", 3, 0},
        {"\xf4\x90\x80\x80", 4, 0},
        {"\xf0\x80\x80\x80", 4, 0},
        {"a\xc3", 2, 1},
        {"\x80", 1, 0},
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\xed\x9f\xbf", 3, 3},
        {"\xee\x80\x80", 3, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sft__base_utf8_valid(cases[i].text, cases[i].len), cases[i].valid);
    }
    char block[200];
    memset(block, 'a', sizeof block);
    for (size_t bad = 0; bad < sizeof block; bad++) {
        block[bad] = (char)0xff;
        assert_int_equal(sft__base_utf8_valid(block, sizeof block), bad);
        block[bad] = 'a';
    }
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char enc[4];
        uint32_t back;
        if (cp >= 0xd800 && cp <= 0xdfff) {
            continue;
        }
        const size_t n = sft__base_utf8_encode(enc, cp);
        assert_int_equal(sft__base_utf8_decode(enc, n, &back), n);
        assert_int_equal(back, cp);
    }
}

static void checked_arithmetic_sees_every_wrap(void **state) {
    (void)state;
    uint64_t v;
    size_t z;
    assert_true(sft__base_add64(UINT64_MAX - 1, 1, &v));
    assert_false(sft__base_add64(UINT64_MAX, 1, &v));
    assert_true(sft__base_mul64(UINT32_MAX, UINT32_MAX, &v));
    assert_false(sft__base_mul64(UINT64_C(1) << 32, UINT64_C(1) << 32, &v));
    assert_true(sft__base_align64(9, 8, &v) && v == 16);
    assert_false(sft__base_align64(UINT64_MAX, 8, &v));
    assert_true(sft__base_size_from_u64(17, &z) && z == 17);
}

static void arena_aligns_copies_and_keeps_its_budget(void **state) {
    (void)state;
    sft__base_arena a;
    sft__base_arena_init(&a, NULL, 100000);
    for (size_t i = 1; i < 200; i++) {
        const size_t alignment = (size_t)1 << (i % 5);
        uint8_t *p = sft__base_arena_alloc(&a, i, alignment);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p & (alignment - 1), 0);
        memset(p, (int)i, i);
    }
    assert_string_equal(sft__base_arena_copy(&a, "text", 4), "text");
    assert_null(sft__base_arena_alloc(&a, 200000, 8));
    assert_null(sft__base_arena_alloc(&a, SIZE_MAX, 8));
    assert_true(a.total <= 100000);
    sft__base_arena_free(&a);
}

/* What was taken since the mark is given back, whether chunks of its own or a part of one. */
static void arena_rewinds_to_a_mark(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 64, 5000, 300000, 7, 1 << 20};
    counting c;
    sft__base_arena a;

    for (uint64_t budget = 0; budget <= 8 << 20; budget += 8 << 20) {
        counting_init(&c);
        sft__base_arena_init(&a, &c.allocator, budget);
        const char *kept = sft__base_arena_copy(&a, "kept", 4);
        const sft__base_arena mark = a;
        const uint64_t held = c.held;
        for (int round = 0; round < 50; round++) { /* together far beyond the budget */
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                uint8_t *p = sft__base_arena_alloc(&a, sizes[i], 8);
                assert_non_null(p);
                memset(p, 0x5a, sizes[i]);
            }
            sft__base_arena_rewind(&a, &mark);
            assert_true(c.held == held && a.total == mark.total && a.charged == mark.charged);
        }
        assert_string_equal(kept, "kept");
        assert_string_equal(sft__base_arena_copy(&a, "more", 4), "more");
        assert_string_equal(kept, "kept");
        sft__base_arena_free(&a);
        assert_true(c.held == 0);
    }
}

/* What a budget lets through follows from the requests: some budget separates failures from
 * successes, and no more than it is ever taken. */
static void arena_budgets_are_monotone_and_chunks_are_shared(void **state) {
    (void)state;
    static const size_t sizes[] = {24, 7, 100, 4000, 1, 300000, 16, 90, 65536, 3};
    enum { N = 400 };
    bool fits = false;
    for (uint64_t budget = 1; budget < (UINT64_C(1) << 26); budget += budget / 9 + 1) {
        counting c;
        sft__base_arena a;
        bool all = true;
        counting_init(&c);
        sft__base_arena_init(&a, &c.allocator, budget);
        for (size_t i = 0; i < N && all; i++) {
            const size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
            uint8_t *p = sft__base_arena_alloc(&a, size, 8);
            all = p != NULL;
            if (all) {
                assert_int_equal((uintptr_t)p % 8, 0);
                memset(p, 0xa5, size);
            } else {
                assert_true(a.over_budget);
            }
        }
        assert_true(a.total <= budget && c.held == a.total);
        assert_true(all || !fits);
        fits = all;
        if (all) {
            assert_true(SFT__ARENA_EXACT || c.calls < N / 2); /* far fewer than requests */
        }
        sft__base_arena_free(&a);
        assert_all_given_back(&c);
    }
    assert_true(fits);
}

typedef struct named {
    const char *name;
    size_t len;
    int payload;
} named;

static void name_table_finds_all_and_reports_duplicates(void **state) {
    (void)state;
    enum { N = 5000 };
    static char text[N][16];
    static named entries[N + 1];
    sft__base_strmap map;
    for (size_t i = 0; i < N; i++) {
        entries[i].len = (size_t)snprintf(text[i], sizeof text[i], "layer.%zu.w", i);
        entries[i].name = text[i];
    }
    entries[N] = entries[77];
    assert_true(sft__base_strmap_init(&map, entries, sizeof entries[0], N + 1, NULL));
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(sft__base_strmap_add(&map, i), SFT__STRMAP_NONE);
    }
    assert_int_equal(sft__base_strmap_add(&map, N), 77);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(sft__base_strmap_find(&map, text[i], entries[i].len), i);
    }
    assert_int_equal(sft__base_strmap_find(&map, "absent", 6), SFT__STRMAP_NONE);
    assert_int_equal(sft__base_strmap_find(&map, "layer.1", 7), SFT__STRMAP_NONE);
    sft__base_strmap_reset(&map);
    assert_int_equal(sft__base_strmap_find(&map, "x", 1), SFT__STRMAP_NONE);

    for (size_t count = 0; count <= 2 * N; count = count < 40 ? count + 1 : count * 3 + 1) {
        size_t again = 0;
        const size_t all = count <= N ? count : N + 1;
        assert_true(sft__base_strmap_init(&map, entries, sizeof entries[0], all, NULL));
        assert_int_equal(sft__base_strmap_add_all(&map, all, &again),
                         all <= N ? SFT__STRMAP_NONE : 77);
        assert_int_equal(again, all <= N ? 0 : N);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(sft__base_strmap_find(&map, text[i], entries[i].len),
                             i < all ? i : SFT__STRMAP_NONE);
        }
        sft__base_strmap_reset(&map);
    }
}

static void siphash_matches_its_published_family(void **state) {
    (void)state;
    /* SipHash-1-3 of 00 01 .. under key 00..0f: first words of the reference vectors. */
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    const uint64_t again[2] = {1, 2};
    uint8_t in[16];
    for (size_t i = 0; i < sizeof in; i++) {
        in[i] = (uint8_t)i;
    }
    assert_true(sft__base_hash(key, in, 0) == UINT64_C(0xabac0158050fc4dc));
    assert_true(sft__base_hash(key, in, 1) == UINT64_C(0xc9f49bf37d57ca93));
    assert_true(sft__base_hash(key, in, 8) != sft__base_hash(again, in, 8));
}

static void buffer_grows_and_prints_numbers(void **state) {
    (void)state;
    sft__base_buf b;
    sft__base_buf_init(&b, NULL);
    sft__base_buf_u64(&b, 0);
    sft__base_buf_text(&b, ",");
    sft__base_buf_u64(&b, UINT64_MAX);
    sft__base_buf_fill(&b, ' ', 3);
    assert_false(b.failed);
    assert_int_equal(b.len, 25);
    assert_memory_equal(b.data, "0,18446744073709551615   ", 25);
    sft__base_buf_reset(&b);
}

static void add_one(void *ctx, size_t index) {
    uint8_t *seen = ctx;
    seen[index]++;
}

static void patterns_have_one_grammar(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        const char *name;
        int fits;
    } rows[] = {
#include "patterns.inc"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (sft_glob_match(rows[i].pattern, strlen(rows[i].pattern), rows[i].name,
                           strlen(rows[i].name)) != rows[i].fits) {
            fail_msg("\"%s\" and \"%s\": not %d", rows[i].pattern, rows[i].name, rows[i].fits);
        }
    }
    assert_int_equal(sft_glob_match("a*", 1, "ab", 1), 1); /* lengths count, not terminators */
}

static void natural_order_counts_numbers(void **state) {
    (void)state;
    static const char *const rows[] = {"",    "7",    "07",     "10",  "a",
                                       "a.9", "a.10", "a.10.b", "a.b", "b"};
    const size_t count = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            const int order =
                sft_natural_compare(rows[i], strlen(rows[i]), rows[k], strlen(rows[k]));
            assert_int_equal(order, i < k ? -1 : i > k);
        }
    }
}

static void pool_runs_every_index_once(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads++) {
        sft_pool *pool;
        uint8_t seen[1000] = {0};
        assert_int_equal(sft_pool_create(&pool, threads, NULL, NULL), SFT_OK);
        assert_int_equal(sft_pool_threads(pool), threads);
        for (int round = 0; round < 20; round++) {
            sft_pool_run(pool, sizeof seen, add_one, seen);
        }
        for (size_t i = 0; i < sizeof seen; i++) {
            assert_int_equal(seen[i], 20);
        }
        sft_pool_free(pool);
    }
    sft_pool *none;
    sft_error err;
    assert_int_equal(sft_pool_create(&none, 100000, NULL, &err), SFT_E_ARG);
    assert_null(none);
}

static void count_atomic(void *ctx, size_t index) {
    (void)index;
    __atomic_add_fetch((size_t *)ctx, 1, __ATOMIC_RELAXED);
}

static void pool_works_in_the_background(void **state) {
    (void)state;
    for (uint32_t threads = 2; threads <= 4; threads++) {
        size_t done = 0, others = 0, added = 0;
        sft__base_batch batch = {.fn = count_atomic, .ctx = &done};
        sft_pool *pool;
        assert_int_equal(sft_pool_create(&pool, threads, NULL, NULL), SFT_OK);
        for (size_t round = 0; round < 200; round++) { /* also after it ran dry */
            sft__base_pool_add(pool, &batch, round % 7);
            added += round % 7;
            sft_pool_run(pool, 5, count_atomic, &others);
            if (round % 50 == 49) {
                sft__base_pool_wait(pool, &batch);
                assert_int_equal(done, added);
            }
        }
        assert_int_equal(others, 1000);
        sft_pool_free(pool);
    }
    sft__base_batch idle = {.fn = count_atomic};
    sft__base_pool_add(NULL, &idle, 3);
    sft__base_pool_wait(NULL, &idle);
    assert_int_equal(idle.count, 0);
}

/* Whatever part of a block is touched ahead, what lies there stays, and the rest stays zero. */
static void pages_keep_what_they_hold(void **state) {
    (void)state;
    enum { SIZE = 4 << 20 };
    uint8_t *p = sft__base_pages_alloc(SIZE);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 4096, 0);
    p[5000] = 7;
    p[SIZE - 1] = 9;
    sft__base_pages_touch(p, 1);
    sft__base_pages_touch(p + 4097, 12000);
    sft__base_pages_touch(p + 100, SIZE - 200);
    sft__base_pages_touch(p, SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        if (p[i] != (i == 5000 ? 7 : i == SIZE - 1 ? 9 : 0)) {
            fail_msg("byte %zu is %d", i, p[i]);
        }
    }
    sft__base_pages_free(p, SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_keep_what_they_hold),
        cmocka_unit_test(error_record_is_512_bytes),
        cmocka_unit_test(escape_keeps_text_and_hides_controls),
        cmocka_unit_test(what_is_invisible_is_escaped),
        cmocka_unit_test(escape_cuts_at_every_capacity),
        cmocka_unit_test(utf8_accepts_and_refuses),
        cmocka_unit_test(checked_arithmetic_sees_every_wrap),
        cmocka_unit_test(arena_aligns_copies_and_keeps_its_budget),
        cmocka_unit_test(arena_rewinds_to_a_mark),
        cmocka_unit_test(arena_budgets_are_monotone_and_chunks_are_shared),
        cmocka_unit_test(name_table_finds_all_and_reports_duplicates),
        cmocka_unit_test(siphash_matches_its_published_family),
        cmocka_unit_test(buffer_grows_and_prints_numbers),
        cmocka_unit_test(patterns_have_one_grammar),
        cmocka_unit_test(natural_order_counts_numbers),
        cmocka_unit_test(pool_runs_every_index_once),
        cmocka_unit_test(pool_works_in_the_background),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
