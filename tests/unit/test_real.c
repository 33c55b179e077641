/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of base/text/real.h against the C library, which runs in the C locale here.
 */
#include "base/text/real.h"
#include "unit/cm.h"

static void both_ways(double value) {
    char text[SFT__REAL_ROOM];
    double back = 0;
    sft__base_real_print(text, value);
    assert_true(sft__base_real_parse(text, strlen(text), &back));
    assert_memory_equal(&back, &value, sizeof back);
    back = strtod(text, NULL);
    assert_memory_equal(&back, &value, sizeof back);
}

static void forms(void **state) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.0, "0.0"},
                {-0.0, "-0.0"},
                {1.0, "1.0"},
                {0.1, "0.1"},
                {-2.5, "-2.5"},
                {1e-5, "1e-05"},
                {0.0001, "0.0001"},
                {1e16, "1e+16"},
                {123456789012345680.0, "1.2345678901234568e+17"},
                {5e-324, "5e-324"},
                {1.7976931348623157e308, "1.7976931348623157e+308"},
                {9007199254740991.0, "9007199254740991.0"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[SFT__REAL_ROOM];
        sft__base_real_print(text, rows[i].value);
        assert_string_equal(text, rows[i].text);
        both_ways(rows[i].value);
    }
}

static void not_finite(void **state) {
    static const char *const words[] = {"inf", "-inf", "nan"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[SFT__REAL_ROOM];
        double value = 0;
        assert_true(sft__base_real_parse(words[i], strlen(words[i]), &value));
        sft__base_real_print(text, value);
        assert_string_equal(text, words[i]);
    }
}

/* Halves, ends of the range, more digits than any double has. */
static void rounding(void **state) {
    static const char *const rows[] = {"9007199254740993",
                                       "9007199254740993.00000000000000000000000000000000000001",
                                       "9007199254740992.99999999999999999999999999999999999999",
                                       "2.4703282292062327208e-324",
                                       "2.4703282292062328e-324",
                                       "2.2250738585072011e-308",
                                       "1.7976931348623158e308",
                                       "1.7976931348623159e308",
                                       "1e400",
                                       "1e-400",
                                       "123e-2",
                                       "0.000e9",
                                       ".5",
                                       "5.",
                                       "-1E+3"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 0;
        const double wanted = strtod(rows[i], NULL);
        assert_true(sft__base_real_parse(rows[i], strlen(rows[i]), &value));
        assert_memory_equal(&value, &wanted, sizeof value);
    }
}

static void refused(void **state) {
    static const char *const rows[] = {"",   "-",  ".",    "e5",  "1e",   "1e+",      "1x",
                                       "1 ", "+1", "0x10", "1,5", "1..2", "infinity", "NaN"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 0;
        assert_false(sft__base_real_parse(rows[i], strlen(rows[i]), &value));
    }
}

static void many(void **state) {
    uint64_t x = UINT64_C(88172645463325252);
    (void)state;
    for (int i = 0; i < 1000; i++) {
        double value;
        uint64_t bits;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bits = i % 5 == 0 ? x & UINT64_C(0x800fffffffffffff) : x;
        memcpy(&value, &bits, sizeof value);
        if ((bits >> 52 & 2047) != 2047) {
            both_ways(value);
            both_ways((double)(float)i / 7);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(not_finite),
                                       cmocka_unit_test(rounding), cmocka_unit_test(refused),
                                       cmocka_unit_test(many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
