/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/cm_mini.h - the part of cmocka's interface that our unit tests use, in one header, for
 * targets that have no cmocka package (32 bit, s390x, Windows). Assertions leave a failed test by longjmp,
 * as cmocka does. One thread asserts at a time. Not a general replacement.
 */
#ifndef SFT_TESTS_CM_MINI_H
#define SFT_TESTS_CM_MINI_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
    int (*teardown)(void **state);
    void *initial_state;
};

#define cmocka_unit_test(f)                                 {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, setup)                    {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown)              {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_prestate(f, state)                 {#f, f, NULL, NULL, state}

static jmp_buf cm_mini_out;
static int cm_mini_skipped;

static inline void cm_mini_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    longjmp(cm_mini_out, 1);
}

static inline void cm_mini_equal(uintmax_t a, uintmax_t b, int wanted, const char *text,
                                 const char *file, int line) {
    if ((a == b) != wanted) {
        cm_mini_fail(file, line,
                     "%s: %" PRIuMAX " (0x%" PRIxMAX ") and %" PRIuMAX " (0x%" PRIxMAX ")", text, a,
                     a, b, b);
    }
}

static inline void cm_mini_string(const char *a, const char *b, int wanted, const char *file,
                                  int line) {
    if ((strcmp(a, b) == 0) != wanted) {
        cm_mini_fail(file, line, "\"%s\" and \"%s\"", a, b);
    }
}

static inline void cm_mini_memory(const void *a, const void *b, size_t n, const char *file,
                                  int line) {
    const unsigned char *x = (const unsigned char *)a;
    const unsigned char *y = (const unsigned char *)b;
    for (size_t i = 0; i < n; i++) {
        if (x[i] != y[i]) {
            cm_mini_fail(file, line, "byte %zu of %zu: 0x%02x and 0x%02x", i, n, x[i], y[i]);
        }
    }
}

static inline void cm_mini_true(int ok, const char *text, const char *file, int line) {
    if (!ok) {
        cm_mini_fail(file, line, "%s", text);
    }
}

#define cm_mini_int(a) ((uintmax_t)(a))
#define assert_int_equal(a, b)                                                                     \
    cm_mini_equal(cm_mini_int(a), cm_mini_int(b), 1, #a " == " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                 \
    cm_mini_equal(cm_mini_int(a), cm_mini_int(b), 0, #a " != " #b, __FILE__, __LINE__)
#define assert_true(c)     cm_mini_true(!!(c), #c, __FILE__, __LINE__)
#define assert_false(c)    cm_mini_true(!(c), "not: " #c, __FILE__, __LINE__)
#define assert_null(p)     cm_mini_true((p) == NULL, #p " is not NULL", __FILE__, __LINE__)
#define assert_non_null(p) cm_mini_true((p) != NULL, #p " is NULL", __FILE__, __LINE__)
#define assert_ptr_equal(a, b)                                                                     \
    cm_mini_true((const void *)(a) == (const void *)(b), #a " == " #b, __FILE__, __LINE__)
#define assert_ptr_not_equal(a, b)                                                                 \
    cm_mini_true((const void *)(a) != (const void *)(b), #a " != " #b, __FILE__, __LINE__)
#define assert_string_equal(a, b)     cm_mini_string((a), (b), 1, __FILE__, __LINE__)
#define assert_string_not_equal(a, b) cm_mini_string((a), (b), 0, __FILE__, __LINE__)
#define assert_memory_equal(a, b, n)  cm_mini_memory((a), (b), (n), __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, n)                                                           \
    cm_mini_true(memcmp((a), (b), (n)) != 0, "the same: " #a " and " #b, __FILE__, __LINE__)
#define assert_not_in_range(v, low, high)                                                          \
    cm_mini_true(cm_mini_int(v) < cm_mini_int(low) || cm_mini_int(v) > cm_mini_int(high),          \
                 #v " not in " #low ".." #high, __FILE__, __LINE__)
#define assert_in_range(v, low, high)                                                              \
    cm_mini_true(cm_mini_int(v) >= cm_mini_int(low) && cm_mini_int(v) <= cm_mini_int(high),        \
                 #v " in " #low ".." #high, __FILE__, __LINE__)
#define fail()             cm_mini_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...)      cm_mini_fail(__FILE__, __LINE__, __VA_ARGS__)
#define print_message(...) ((void)fprintf(stdout, __VA_ARGS__))
#define print_error(...)   ((void)fprintf(stderr, __VA_ARGS__))
#define skip()             (cm_mini_skipped = 1, longjmp(cm_mini_out, 2))

static inline int cm_mini_one(const struct CMUnitTest *test) {
    void *state = test->initial_state;
    if (test->setup != NULL && test->setup(&state) != 0) {
        fprintf(stderr, "%s: setup failed\n", test->name);
        return 1;
    }
    const int how = setjmp(cm_mini_out);
    if (how == 0) {
        test->test(&state);
    }
    int failed = how == 1;
    if (test->teardown != NULL && test->teardown(&state) != 0) {
        fprintf(stderr, "%s: teardown failed\n", test->name);
        failed = 1;
    }
    return failed;
}

static inline int cm_mini_run(const char *group, const struct CMUnitTest *tests, size_t count,
                              int (*setup)(void **), int (*teardown)(void **)) {
    int failed = 0;
    int skipped = 0;
    void *state = NULL;
    if (setup != NULL && setup(&state) != 0) {
        fprintf(stderr, "%s: group setup failed\n", group);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        cm_mini_skipped = 0;
        const int bad = cm_mini_one(&tests[i]);
        failed += bad;
        skipped += cm_mini_skipped;
        printf("%s %s\n", bad ? "FAILED " : cm_mini_skipped ? "skipped" : "ok     ", tests[i].name);
    }
    if (teardown != NULL && teardown(&state) != 0) {
        fprintf(stderr, "%s: group teardown failed\n", group);
        failed++;
    }
    printf("%s: %zu tests, %d failed, %d skipped\n", group, count, failed, skipped);
    return failed;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cm_mini_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    cm_mini_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
