/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of base/text/json.h: the scanner's pieces, each against a plain loop, on every alignment
 * and length.
 */
#include "unit/cm.h"

#include "base/text/json.h"

enum { ROOM = 512 };

/* A text with zeros behind it; the scanner for it. */
static char text[ROOM + SFT__JSON_SLACK];
static sft__base_json json;

static const char *load(const char *s, size_t len) {
    assert_true(len <= ROOM);
    memset(text, 0, sizeof text);
    memcpy(text, s, len);
    memset(&json, 0, sizeof json);
    json.end = text + len;
    return text;
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void the_end_of_plain_text_is_found(void **state) {
    (void)state;
    for (size_t start = 0; start < 17; start++) {
        for (size_t at = start; at < start + 70; at++) {
            for (unsigned c = 0; c < 256; c++) {
                memset(text, 'a' + (int)(at % 3), sizeof text);
                memset(text, '"', start);
                text[at] = (char)c;
                text[start + 80] = '"';
                const bool stops = c == '"' || c == '\\' || c < 0x20;
                const char *want = stops ? text + at : text + start + 80;
                assert_ptr_equal(sft__base_json_plain_end(text + start), want);
                assert_ptr_equal(sft__base_json_plain_end_portable(text + start), want);
            }
        }
    }
    /* several hits, bytes next to them, bytes above 0x7f */
    uint32_t seed = 1;
    for (unsigned round = 0; round < 20000; round++) {
        static const uint8_t bytes[] = {0x1f, 0x20, 0x21, 0x22, 0x23, 0x5b, 0x5c,
                                        0x5d, 0x80, 0x9f, 0xa2, 0xdc, 0xff};
        for (size_t i = 0; i < 64; i++) {
            text[i] =
                next_random(&seed) % 4 != 0 ? 'x' : (char)bytes[next_random(&seed) % sizeof bytes];
        }
        text[64] = '"';
        size_t want = 0;
        while (text[want] != '"' && text[want] != '\\' && (uint8_t)text[want] >= 0x20) {
            want++;
        }
        assert_ptr_equal(sft__base_json_plain_end(text), text + want);
        assert_ptr_equal(sft__base_json_plain_end_portable(text), text + want);
    }
}

static void the_survey_counts(void **state) {
    (void)state;
    static char data[40000];
    uint32_t seed = 7;
    for (unsigned round = 0; round < 3000; round++) {
        const size_t len = round < 300    ? round
                           : round < 2990 ? next_random(&seed) % 700
                                          : sizeof data - round;
        const size_t start = next_random(&seed) % 17;
        const unsigned dense = next_random(&seed) % 3;
        const bool high = next_random(&seed) % 2 != 0 && len > start;
        size_t want = 0;
        for (size_t i = 0; i < len; i++) {
            static const char other[] = "z|}[\x7f\x01\x7c\x7a";
            const bool brace = dense == 2 || (dense == 1 && next_random(&seed) % 2 != 0);
            data[i] = brace ? '{' : other[next_random(&seed) % (sizeof other - 1)];
        }
        if (high) {
            data[start + next_random(&seed) % (len - start)] =
                (char)(next_random(&seed) % 2 != 0 ? 0x80 : 0xfb);
        }
        for (size_t i = start; i < len; i++) {
            want += data[i] == '{' ? 1 : 0;
        }
        const size_t span = len > start ? len - start : 0;
        size_t braces = 99;
        assert_int_equal(sft__base_json_survey(data + start, span, &braces), !high);
        assert_int_equal(braces, want);
        assert_int_equal(sft__base_json_survey_portable(data + start, span, &braces), !high);
        assert_int_equal(braces, want);
    }
}

static void short_integers_are_read(void **state) {
    (void)state;
    static const char *const behind[] = {"",  ",", "]",  "x",    ".",    "/",
                                         ":", " ", "e5", "\x80", "\xb0", "\xff"};
    uint64_t power = 1;
    for (unsigned digits = 1; digits <= 19; digits++, power *= 10) {
        const uint64_t values[] = {power, power + 7, power * 9 + (power - 1), power * 5 / 3};
        for (size_t i = 0; i < 4; i++) {
            for (size_t k = 0; k < sizeof behind / sizeof behind[0]; k++) {
                char s[64];
                uint64_t v = 99;
                const size_t len =
                    (size_t)snprintf(s, sizeof s, "%llu", (unsigned long long)values[i]);
                (void)snprintf(s + len, sizeof s - len, "%s", behind[k]);
                const char *p = load(s, strlen(s));
                const char *end = sft__base_json_uint_short(p, &v);
                if (len > 15) {
                    assert_true(end == NULL || len == 16); /* the general reader's */
                } else {
                    assert_ptr_equal(end, p + len);
                    assert_int_equal(v, values[i]);
                }
            }
        }
    }
    static const char *const none[] = {"",           "x",  "-1",   "00", "01",
                                       "0000000000", " 1", "\xb1", "/",  ":"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        uint64_t v;
        assert_null(sft__base_json_uint_short(load(none[i], strlen(none[i])), &v));
    }
    uint64_t v = 1;
    const char *p = load("0,", 2);
    assert_ptr_equal(sft__base_json_uint_short(p, &v), p + 1);
    assert_int_equal(v, 0);
}

static void numbers_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_uint;
        uint64_t value;
    } good[] = {
        {"0", true, 0},
        {"7", true, 7},
        {"18446744073709551615", true, UINT64_MAX},
        {"-0", false, 0},
        {"-5", false, 0},
        {"1.0", false, 0},
        {"1e0", false, 0},
        {"1E0", false, 0},
        {"18446744073709551616", false, 0},
        {"99999999999999999999999", false, 0},
        {"0.0", false, 0},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        sft__base_json_num n;
        const char *p = load(good[i].text, strlen(good[i].text));
        assert_ptr_equal(sft__base_json_number(&json, p, &n), json.end);
        assert_int_equal(n.is_uint, good[i].is_uint);
        if (n.is_uint) {
            assert_int_equal(n.value, good[i].value);
        }
    }
}

/* Around the largest double for every number of digits before and behind the point. */
static void the_range_is_a_doubles(void **state) {
    (void)state;
    for (int digits = 1; digits <= 17; digits++) {
        char s[64];
        sft__base_json_num n;
        const char *p;
        (void)snprintf(s, sizeof s, "%.*se%d", digits, "17976931348623157", 309 - digits);
        p = load(s, strlen(s));
        assert_ptr_equal(sft__base_json_number(&json, p, &n), json.end);
        (void)snprintf(s, sizeof s, "%.*se%d", digits, "27976931348623157", 309 - digits);
        p = load(s, strlen(s));
        assert_null(sft__base_json_number(&json, p, &n));
        assert_string_equal(json.fault, "number out of range");
        assert_ptr_equal(json.fault_at, text);
    }
}

static void strings_are_decoded(void **state) {
    (void)state;
    static const struct {
        const char *raw;
        size_t raw_len;
        const char *out;
        size_t len;
    } rows[] = {
        {"\"\"", 2, "", 0},
        {"\"abc\"", 5, "abc", 3},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 18, "\"\\/\b\f\n\r\t", 8},
        {"\"a\\u0000b\"", 10, "a\0b", 3},
        {"\"\\u00e9\\u20AC\\uD83d\\uDe00!\"", 27, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!", 10},
        {"\"\\uffff\"", 8, "\xef\xbf\xbf", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__base_json_str s;
        sft__base_arena arena;
        size_t len;
        char *p = text;
        char out[64];
        (void)load(rows[i].raw, rows[i].raw_len);
        sft__base_arena_init(&arena, NULL, 0);
        assert_ptr_equal(sft__base_json_read(&json, p, &s), json.end);
        assert_int_equal(sft__base_json_decode(out, &s), rows[i].len);
        assert_memory_equal(out, rows[i].out, rows[i].len);
        assert_true(sft__base_json_is(&s, rows[i].out, rows[i].len));
        assert_false(sft__base_json_is(&s, "abd", 3));
        assert_false(sft__base_json_is(&s, "abcd", 4));
        assert_false(rows[i].len != 0 && sft__base_json_is(&s, rows[i].out, rows[i].len - 1));
        const char *kept = sft__base_json_keep(&arena, p + 1, &s, &len);
        assert_int_equal(len, rows[i].len);
        assert_memory_equal(kept, rows[i].out, len);
        assert_int_equal(kept[len], '\0');
        assert_true((kept == p + 1) == !s.escaped);
        sft__base_arena_free(&arena);
    }
}

static void values_are_skipped_whole(void **state) {
    (void)state;
    static const char *const good[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-1.5e+3",
                                       "\"x\\n\"",
                                       "[]",
                                       "{}",
                                       "[ ]",
                                       "{ }",
                                       "[1,[2,{\"a\":[]}],\"]\"]",
                                       "{\"a\":{\"b\":1},\"a\":[ 1 , 2 ]}"};
    static const char *const bad[] = {"",           "nul",     "[",        "{",          "[1,",
                                      "[1 2]",      "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]",
                                      "{a:1}",      "[}",      "{]",       "+1",         "\"",
                                      "[\"\x01\"]", "}",       "]",        ","};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const char *p = load(good[i], strlen(good[i]));
        assert_ptr_equal(sft__base_json_value(&json, p, 0), json.end);
        assert_ptr_equal(sft__base_json_value(&json, p, SFT__JSON_DEPTH - 4), json.end);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *p = load(bad[i], strlen(bad[i]));
        assert_null(sft__base_json_value(&json, p, 0));
        assert_non_null(json.fault);
        assert_true(json.fault_at >= text && json.fault_at <= json.end);
    }
    const char *p = load("[[]]", 4);
    assert_non_null(sft__base_json_value(&json, p, SFT__JSON_DEPTH - 2));
    assert_null(sft__base_json_value(&json, p, SFT__JSON_DEPTH - 1));
    assert_null(sft__base_json_value(&json, p, SFT__JSON_DEPTH));
}

static const char *note_member(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                               const char *value) {
    char *seen = ctx;

    strncat(seen, name->raw, name->len);
    strcat(seen, ";");
    return *value == '!' ? NULL : sft__base_json_value(j, value, 1);
}

static void members_are_visited(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *seen;
        bool good;
    } rows[] = {
        {"{}", "", true},
        {"{ }", "", true},
        {"{\"a\":1}", "a;", true},
        {"{ \"a\" : {\"x\":1} , \"b\":[2] }", "a;b;", true},
        {"", "", false},
        {"[]", "", false},
        {"{", "", false},
        {"{,}", "", false},
        {"{\"a\"}", "", false},
        {"{\"a\":1", "a;", false},
        {"{\"a\":1,}", "a;", false},
        {"{\"a\":1 \"b\":2}", "a;", false},
        {"{\"a\":!,\"b\":2}", "a;", false},
        {"{\"a\":1]", "a;", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char seen[16] = "";
        const char *p = load(rows[i].text, strlen(rows[i].text));
        assert_true((sft__base_json_members(&json, p, note_member, seen) == json.end) ==
                    rows[i].good);
        assert_string_equal(seen, rows[i].seen);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_plain_text_is_found), cmocka_unit_test(the_survey_counts),
        cmocka_unit_test(short_integers_are_read),        cmocka_unit_test(numbers_are_told_apart),
        cmocka_unit_test(the_range_is_a_doubles),         cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(values_are_skipped_whole),       cmocka_unit_test(members_are_visited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
