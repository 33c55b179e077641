/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * test_tile.c - planes of every element size and shape, turned, against element by element.
 */
#include "unit/cm.h"

#include "import/convert/tile.h"

enum { SIDE = 75 };

static void check(uint32_t unit, uint64_t n, uint64_t m, uint64_t si, uint64_t sj, uint64_t di,
                  uint64_t dj) {
    static uint8_t src[SIDE * (SIDE + 3) * 16];
    static uint8_t dst[SIDE * (SIDE + 3) * 16];
    static uint8_t want[SIDE * (SIDE + 3) * 16];
    const sft__import_plane plane = {{n, m}, {si, sj}, {di, dj}, unit};

    for (size_t i = 0; i < sizeof src; i++) {
        src[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    memset(dst, 0xa5, sizeof dst);
    memset(want, 0xa5, sizeof want);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < m; j++) {
            memcpy(want + (i * di + j * dj) * unit, src + (i * si + j * sj) * unit, unit);
        }
    }
    sft__import_plane_turn(dst, src, &plane);
    assert_memory_equal(dst, want, sizeof dst);
}

/* Rows of the result a power of two apart, which share lines of the cache. */
static void check_wide(uint32_t unit, uint64_t n, uint64_t m) {
    enum { PITCH = 4096 };
    static uint8_t src[67 * 150 * 16];
    static uint8_t dst[67 * PITCH];
    static uint8_t want[67 * PITCH];
    const sft__import_plane plane = {{n, m}, {1, n}, {PITCH / unit, 1}, unit};

    for (size_t i = 0; i < sizeof src; i++) {
        src[i] = (uint8_t)(i * 2654435761u >> 11);
    }
    memset(dst, 0xa5, sizeof dst);
    memset(want, 0xa5, sizeof want);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < m; j++) {
            memcpy(want + i * PITCH + j * unit, src + (i + j * n) * unit, unit);
        }
    }
    sft__import_plane_turn(dst, src, &plane);
    assert_memory_equal(dst, want, sizeof dst);
}

static void turns(void **state) {
    (void)state;
    for (uint32_t unit = 1; unit <= 16; unit *= 2) {
        for (uint64_t n = 0; n < SIDE; n += 1 + n / 9) {
            for (uint64_t m = 1; m < SIDE; m += 1 + m / 7) {
                check(unit, n, m, 1, n + 3, m + 2, 1); /* a transposition, rows with room between */
                check(unit, n, m, 1, 0, m, 1);         /* one column, repeated */
            }
        }
        check_wide(unit, 67, 150);
        check_wide(unit, 16, 129);
        check(unit, 40, 33, 33, 1, 1, 40); /* the other way round */
        check(unit, 20, 30, 2, 41, 31, 1); /* every second one */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
