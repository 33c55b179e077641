/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of sft_convert: values from the definitions of the formats, fast loops against
 * portable ones on every input and remainder, in place, byte order, errors. tests/casts compares
 * with torch.
 */
#include "unit/cm.h"

#include "move/kernels/convert.h"
#include "move/kernels/convert_float.h"
#include "unit/move_util.h"

static void convert(void *dst, uint32_t to, const void *src, uint32_t from, uint64_t n) {
    sft_error err;
    ok(sft_convert(dst, src, n, &(sft_cast){sft_dtype_get(to), sft_dtype_get(from), 0}, &err),
       &err);
}

static uint32_t to_code(uint32_t to, float value) {
    uint8_t in[16] = {0};
    uint8_t out[8] = {0};
    uint32_t bits;
    memcpy(&bits, &value, 4);
    for (size_t i = 0; i < 4; i++) {
        in[i] = (uint8_t)(bits >> (8 * i));
    }
    convert(out, to, in, SFT_F32, sft_dtype_get(to)->block_elements);
    const uint32_t width = sft_dtype_bits(sft_dtype_get(to));
    return (uint32_t)get_bits(out, 0, width);
}

static float from_code(uint32_t from, uint32_t code) {
    uint8_t in[8] = {0};
    uint8_t out[16];
    uint32_t bits = 0;
    float value;
    put_bits(in, 0, sft_dtype_bits(sft_dtype_get(from)), code);
    convert(out, SFT_F32, in, from, sft_dtype_get(from)->block_elements);
    for (size_t i = 0; i < 4; i++) {
        bits |= (uint32_t)out[i] << (8 * i);
    }
    memcpy(&value, &bits, 4);
    return value;
}

/* Values of the tables in the OCP and IEEE documents. */
static void codes_of_known_values(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        float value;
        uint32_t code;
    } exact[] = {
        {SFT_F16, 1.0f, 0x3c00},
        {SFT_F16, 65504.0f, 0x7bff},
        {SFT_F16, 0x1p-24f, 0x0001},
        {SFT_F16, 0x1p-14f, 0x0400},
        {SFT_BF16, 1.0f, 0x3f80},
        {SFT_BF16, -2.5f, 0xc020},
        {SFT_F8_E4M3, 448.0f, 0x7e},
        {SFT_F8_E4M3, 0x1p-9f, 0x01},
        {SFT_F8_E4M3, 0x1p-6f, 0x08},
        {SFT_F8_E4M3, -1.0f, 0xb8},
        {SFT_F8_E5M2, 57344.0f, 0x7b},
        {SFT_F8_E5M2, 0x1p-16f, 0x01},
        {SFT_F8_E5M2, 0x1p-14f, 0x04},
        {SFT_F8_E5M2, 1.5f, 0x3e},
        {SFT_F8_E4M3FNUZ, 240.0f, 0x7f},
        {SFT_F8_E4M3FNUZ, 0x1p-10f, 0x01},
        {SFT_F8_E4M3FNUZ, 1.0f, 0x40},
        {SFT_F8_E5M2FNUZ, 57344.0f, 0x7f},
        {SFT_F8_E5M2FNUZ, 0x1p-17f, 1},
        {SFT_F8_E5M2FNUZ, -1.0f, 0xc0},
        {SFT_F8_E8M0, 1.0f, 0x7f},
        {SFT_F8_E8M0, 0x1p127f, 0xfe},
        {SFT_F8_E8M0, 0x1p-127f, 0x00},
        {SFT_F8_E8M0, 0x1p-126f, 0x01},
        {SFT_F4, 0.5f, 0x1},
        {SFT_F4, 6.0f, 0x7},
        {SFT_F4, -3.0f, 0xd},
        {SFT_F4, 1.0f, 0x2},
        {SFT_F6_E2M3, 7.5f, 0x1f},
        {SFT_F6_E2M3, 0.125f, 0x01},
        {SFT_F6_E2M3, 1.0f, 0x08},
        {SFT_F6_E3M2, 28.0f, 0x1f},
        {SFT_F6_E3M2, 0.0625f, 0x01},
        {SFT_F6_E3M2, -0.25f, 0x24},
    };
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        assert_int_equal(to_code(exact[i].type, exact[i].value), exact[i].code);
        assert_true(from_code(exact[i].type, exact[i].code) == exact[i].value);
    }
    static const struct {
        uint32_t type;
        float value;
        uint32_t code;
    } rounded[] = {
        {SFT_F16, 65519.0f, 0x7bff},
        {SFT_F16, 65520.0f, 0x7c00},
        {SFT_F16, 0x1p-25f, 0x0000},
        {SFT_F16, 0x1.8p-25f, 0x0001},
        {SFT_BF16, 1.00390625f, 0x3f80},
        {SFT_BF16, 1.01171875f, 0x3f82},
        {SFT_F8_E4M3, 1e30f, 0x7e},
        {SFT_F8_E4M3, -1e30f, 0xfe},
        {SFT_F8_E4M3, 17.0f, 0x58},
        {SFT_F8_E4M3, 19.0f, 0x5a},
        {SFT_F8_E5M2, 1e30f, 0x7c},
        {SFT_F8_E5M2, 61439.0f, 0x7b},
        {SFT_F8_E5M2, 61440.0f, 0x7c},
        {SFT_F8_E4M3FNUZ, 1e30f, 0x80},
        {SFT_F8_E4M3FNUZ, -0.0f, 0x00},
        {SFT_F8_E4M3FNUZ, -1e-30f, 0x00},
        {SFT_F8_E5M2FNUZ, 61440.0f, 0x80},
        {SFT_F8_E8M0, 1.5f, 0x80},
        {SFT_F8_E8M0, 1.49f, 0x7f},
        {SFT_F8_E8M0, -4.0f, 0x81},
        {SFT_F8_E8M0, 0.0f, 0x00},
        {SFT_F4, 5.0f, 0x6},
        {SFT_F4, 5.1f, 0x7},
        {SFT_F4, -100.0f, 0xf},
        {SFT_F4, 0.25f, 0x0},
        {SFT_F4, 0.75f, 0x2},
        {SFT_F6_E2M3, 100.0f, 0x1f},
        {SFT_F6_E3M2, -100.0f, 0x3f},
    };
    for (size_t i = 0; i < sizeof rounded / sizeof rounded[0]; i++) {
        assert_int_equal(to_code(rounded[i].type, rounded[i].value), rounded[i].code);
    }
}

/* Every code of a small float survives the way through every wider float. */
static void small_floats_survive_wider_ones(void **state) {
    (void)state;
    static const uint32_t small[] = {SFT_F8_E5M2, SFT_F8_E4M3, SFT_F8_E4M3FNUZ, SFT_F8_E5M2FNUZ};
    static const uint32_t wide[] = {SFT_F16, SFT_BF16, SFT_F32, SFT_F64, SFT_C64};
    uint8_t in[256];
    uint8_t middle[256 * 8];
    uint8_t out[256];
    for (size_t i = 0; i < 256; i++) {
        in[i] = (uint8_t)i;
    }
    for (size_t s = 0; s < 4; s++) {
        for (size_t w = 0; w < 5; w++) {
            convert(middle, wide[w], in, small[s], 256);
            convert(out, small[s], middle, wide[w], 256);
            for (size_t i = 0; i < 256; i++) {
                const bool nan =
                    from_code(small[s], (uint32_t)i) != from_code(small[s], (uint32_t)i);
                if (!nan) {
                    assert_int_equal(out[i], in[i]);
                }
            }
        }
    }
}

static void integers_wrap_and_floats_are_cut(void **state) {
    (void)state;
    const int16_t wide[4] = {-1, 300, -32768, 255};
    uint8_t le[8];
    uint8_t out[32];
    for (size_t i = 0; i < 4; i++) {
        le[2 * i] = (uint8_t)wide[i];
        le[2 * i + 1] = (uint8_t)((uint16_t)wide[i] >> 8);
    }
    convert(out, SFT_U8, le, SFT_I16, 4);
    const uint8_t low[4] = {0xff, 44, 0, 255};
    assert_memory_equal(out, low, 4);
    convert(out, SFT_U64, le, SFT_I16, 4);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(out[i], 0xff);
    }
    assert_int_equal(to_code(SFT_I32, -2.9f), (uint32_t)-2);
    assert_int_equal(to_code(SFT_I8, 127.9f), 127);
    assert_int_equal(to_code(SFT_I32, 3e9f), 0x80000000u);
    assert_int_equal(to_code(SFT_U32, 3e9f), 3000000000u);
    assert_int_equal(to_code(SFT_BOOL, -0.0f), 0);
    assert_int_equal(to_code(SFT_BOOL, 0x1p-149f), 1);
    const uint8_t truth[3] = {0, 1, 7};
    convert(out, SFT_I8, truth, SFT_BOOL, 3);
    assert_int_equal(out[0] | out[1] << 1 | out[2] << 2, 6);
}

static const uint32_t pairs[][2] = {
    {SFT_F32, SFT_F16},     {SFT_F16, SFT_F32},    {SFT_F32, SFT_BF16},    {SFT_BF16, SFT_F32},
    {SFT_BF16, SFT_F16},    {SFT_F16, SFT_BF16},   {SFT_F8_E4M3, SFT_F32}, {SFT_F8_E5M2, SFT_F32},
    {SFT_F32, SFT_F8_E4M3}, {SFT_F32, SFT_F8_E5M2}};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

/* The loop of each pair, in both twins, against the general way, which this computes by its parts.
 */
static void general(uint8_t *dst, uint32_t to, const uint8_t *src, uint32_t from, size_t n) {
    const size_t from_bytes = sft_dtype_get(from)->block_bytes;
    const size_t to_bytes = sft_dtype_get(to)->block_bytes;
    const sft__move_store_rule rule = sft__move_store_rule_for(from);
    for (size_t i = 0; i < n; i += SFT__LANE) {
        sft__move_lane lane;
        const size_t part = n - i < SFT__LANE ? n - i : SFT__LANE;
        sft__move_load_for(from)(&lane, src + i * from_bytes, part);
        sft__move_store_for(to, SFT__CARRY_F32)(dst + i * to_bytes, &lane, part, &rule);
    }
}

static void pair_loops_agree(void **state) {
    (void)state;
    enum { N = 65536 * 4 };
    uint8_t *in = malloc(4 * N);
    uint8_t *want = malloc(4 * N);
    uint8_t *got = malloc(4 * N);
    assert_true(in != NULL && want != NULL && got != NULL);
    for (size_t k = 0; k < PAIRS; k++) {
        const uint32_t to = pairs[k][0];
        const uint32_t from = pairs[k][1];
        const size_t to_bytes = sft_dtype_get(to)->block_bytes;
        rnd_state = 21;
        for (uint32_t i = 0; i < N; i++) {
            if (from != SFT_F32) {
                in[2 * i] = (uint8_t)i;
                in[2 * i + 1] = (uint8_t)(i >> 8);
            } else { /* every upper half, with lower halves about ties */
                static const uint32_t low[] = {0x0000, 0x7fff, 0x8000, 0x8001,
                                               0x1000, 0xffff, 0x2fff};
                const uint32_t v =
                    i << 16 | (i < 65536 ? (uint32_t)rnd() & 0xffff : low[rnd_below(7)]);
                for (size_t b = 0; b < 4; b++) {
                    in[4 * i + b] = (uint8_t)(v >> (8 * b));
                }
            }
        }
        general(want, to, in, from, N);
        sft__move_pair_fn *const twins[] = {
            sft__move_pair_portable(to, from),
            (sft__base_cpu_features() & SFT__CPU_AVX2) != 0 ? sft__move_pair_x86(to, from) : NULL,
            (sft__base_cpu_features() & SFT__CPU_AVX512) != 0 ? sft__move_pair_wide(to, from)
                                                              : NULL};
        for (size_t w = 0; w < 3; w++) {
            if (twins[w] != NULL) {
                memset(got, 0, 4 * N);
                twins[w](got, in, N);
                assert_memory_equal(got, want, N * to_bytes);
            }
        }
        for (size_t n = 0; n < 70; n++) { /* remainders and alignments; nothing beyond the end */
            memset(got, 0x77, 400);
            convert(got + n % 5, to, in + 4 * n, from, n);
            general(want, to, in + 4 * n, from, n);
            assert_memory_equal(got + n % 5, want, n * to_bytes);
            assert_int_equal(got[n % 5 + n * to_bytes], 0x77);
        }
    }
    free(in);
    free(want);
    free(got);
}

/* The inner loops of the general way: every upper half of a binary32 with lower halves about ties.
 */
static void lane_loops_agree(void **state) {
    (void)state;
    static const uint32_t low[] = {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
    static const sft__move_float_spec *const specs[] = {
        &sft__move_spec_e5m2,     &sft__move_spec_e4m3, &sft__move_spec_e4m3fnuz,
        &sft__move_spec_e5m2fnuz, &sft__move_spec_e2m1, &sft__move_spec_e2m3,
        &sft__move_spec_e3m2};
    uint64_t compared = 0;
    if ((sft__base_cpu_features() & SFT__CPU_AVX2) == 0) {
        return; /* there is one twin alone */
    }
    rnd_state = 25;
    for (uint32_t first = 0; first < 65536 * 6; first += SFT__LANE) {
        sft__move_lane f;
        sft__move_lane d;
        sft__move_lane a;
        sft__move_lane b;
        uint8_t x[SFT__LANE + 1];
        uint8_t y[SFT__LANE + 1];
        const size_t n = first % 512 == 0 ? SFT__LANE : 1 + (first / SFT__LANE) % SFT__LANE;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        memset(&d, 0, sizeof d);
        for (uint32_t i = 0; i < SFT__LANE; i++) {
            f.f[i] = (first + i) / 6 << 16 | low[(first + i) % 6];
        }
        for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
            memset(x, 0x55, sizeof x);
            memset(y, 0x55, sizeof y);
            sft__move_store_codes_portable(x, &f, n, specs[k]);
            sft__move_store_codes_x86(y, &f, n, specs[k]);
            assert_memory_equal(x, y, sizeof x);
            if ((sft__base_cpu_features() & SFT__CPU_AVX512) != 0) {
                memset(y, 0x55, sizeof y);
                sft__move_store_codes_wide(y, &f, n, specs[k]);
                assert_memory_equal(x, y, sizeof x);
            }
        }
        sft__move_carry_f64_portable(&a, &f, n);
        sft__move_carry_f64_x86(&b, &f, n);
        assert_memory_equal(a.u, b.u, n * 8);
        for (size_t i = 0; i < n; i++) { /* just beside binary32, and anything */
            d.u[i] = i % 4 == 3 ? rnd() : a.u[i] + rnd_below(3) * (((uint64_t)1 << 28) - 1);
        }
        sft__move_carry_f32_portable(&a, &d, n);
        sft__move_carry_f32_x86(&b, &d, n);
        assert_memory_equal(a.f, b.f, n * 4);
        compared += n;
    }
    assert_true(compared > 200000);
}

/* Every pair of types gives the same with any features of the processor left out. */
static void masks_change_nothing(void **state) {
    (void)state;
    enum { N = 2000 + 4 };
    static const char *const masks[] = {"portable", "sse4.2", "avx2", "-avx2"};
    uint8_t *in = malloc(8 * N);
    uint8_t *want = malloc(8 * N);
    uint8_t *got = malloc(8 * N);
    assert_true(in != NULL && want != NULL && got != NULL);
    rnd_state = 27;
    rnd_fill(in, 8 * N);
    for (uint32_t pair = 0; pair < SFT_DTYPE_COUNT * SFT_DTYPE_COUNT; pair++) {
        const sft_dtype *f = sft_dtype_get(pair / SFT_DTYPE_COUNT + 1);
        const sft_dtype *t = sft_dtype_get(pair % SFT_DTYPE_COUNT + 1);
        convert(want, t->id, in, f->id, N);
        for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
            uint32_t without;
            assert_int_equal(sft__base_cpu_parse(masks[m], &without, NULL), SFT_OK);
            assert_int_equal(
                sft_convert(got, in, N, &(sft_cast){t, f, SFT_CONVERT_WITHOUT(without)}, NULL),
                SFT_OK);
            assert_memory_equal(got, want, N / t->block_elements * t->block_bytes);
        }
    }
    free(in);
    free(want);
    free(got);
}

/* Long runs take tables or vector loops, single elements the general way: same results, for every
 * pair. */
static void long_runs_equal_single_blocks(void **state) {
    (void)state;
    enum { N = 4096 + 4 };
    uint8_t *in = malloc(8 * N);
    uint8_t *got = malloc(8 * N);
    assert_true(in != NULL && got != NULL);
    rnd_state = 22;
    rnd_fill(in, 8 * N);
    for (uint32_t from = 1; from <= SFT_DTYPE_COUNT; from++) {
        for (uint32_t to = 1; to <= SFT_DTYPE_COUNT; to++) {
            const sft_dtype *f = sft_dtype_get(from);
            const sft_dtype *t = sft_dtype_get(to);
            const size_t f4 = 4 / f->block_elements * f->block_bytes;
            const size_t t4 = 4 / t->block_elements * t->block_bytes;
            convert(got, to, in, from, N);
            for (size_t i = 0; i < N / 4; i++) {
                uint8_t one[32];
                convert(one, to, in + i * f4, from, 4);
                assert_memory_equal(one, got + i * t4, t4);
            }
        }
    }
    free(in);
    free(got);
}

static void in_place_when_sizes_are_equal(void **state) {
    (void)state;
    enum { N = 3000 };
    uint8_t in[N * 8];
    uint8_t want[N * 8];
    uint8_t work[N * 8];
    rnd_state = 23;
    rnd_fill(in, sizeof in);
    for (uint32_t from = 1; from <= SFT_DTYPE_COUNT; from++) {
        for (uint32_t to = 1; to <= SFT_DTYPE_COUNT; to++) {
            const sft_dtype *f = sft_dtype_get(from);
            const sft_dtype *t = sft_dtype_get(to);
            if (f->block_bytes * t->block_elements != t->block_bytes * f->block_elements) {
                continue;
            }
            memcpy(work, in, sizeof in);
            convert(want, to, in, from, N);
            convert(work, to, work, from, N);
            assert_memory_equal(work, want, N / t->block_elements * t->block_bytes);
        }
    }
}

/* What a host of the other byte order does, tested on any. */
static void other_byte_order(void **state) {
    (void)state;
    enum { N = 700 };
    uint8_t in[N * 8];
    uint8_t swapped[N * 8];
    uint8_t want[N * 8];
    uint8_t got[N * 8];
    rnd_state = 24;
    rnd_fill(in, sizeof in);
    for (uint32_t from = 1; from <= SFT_DTYPE_COUNT; from++) {
        for (uint32_t to = 1; to <= SFT_DTYPE_COUNT; to++) {
            const sft_dtype *f = sft_dtype_get(from);
            const sft_dtype *t = sft_dtype_get(to);
            const size_t from_bytes = N / f->block_elements * f->block_bytes;
            const size_t to_bytes = N / t->block_elements * t->block_bytes;
            const sft__move_cast cast = {t, f, sft__base_cpu_features()};
            convert(want, to, in, from, N);
            for (size_t i = 0; i < from_bytes; i++) {
                swapped[i] =
                    in[i / f->alignment * f->alignment + f->alignment - 1 - i % f->alignment];
            }
            sft__move_convert_swapped(&cast, got, swapped, N, false, true);
            assert_memory_equal(got, want, to_bytes);
            sft__move_convert_swapped(&cast, got, in, N, true, false);
            for (size_t i = 0; i < to_bytes; i++) {
                assert_int_equal(
                    got[i / t->alignment * t->alignment + t->alignment - 1 - i % t->alignment],
                    want[i]);
            }
        }
    }
}

static void errors(void **state) {
    (void)state;
    static const sft_dtype foreign = {1000, SFT_KIND_OPAQUE, 32, 18, 2, 0, "Q4_0"};
    uint8_t buffer[64] = {0};
    sft_error err;
    const sft_dtype *f32 = sft_dtype_get(SFT_F32);
    assert_int_equal(sft_convert(buffer, buffer, 32, &(sft_cast){f32, &foreign, 0}, &err),
                     SFT_E_UNSUPPORTED);
    assert_int_equal(sft_convert(buffer, buffer, 32, &(sft_cast){&foreign, f32, 0}, &err),
                     SFT_E_UNSUPPORTED);
    assert_int_equal(
        sft_convert(buffer, buffer + 32, 3, &(sft_cast){sft_dtype_get(SFT_F4), f32, 0}, &err),
        SFT_E_SUBBYTE);
    assert_int_equal(
        sft_convert(buffer, buffer + 32, 6, &(sft_cast){f32, sft_dtype_get(SFT_F6_E2M3), 0}, &err),
        SFT_E_SUBBYTE);
    assert_int_equal(sft_convert(NULL, buffer, 1, &(sft_cast){f32, f32, 0}, &err), SFT_E_ARG);
    assert_int_equal(sft_convert(buffer, buffer, 1, &(sft_cast){NULL, f32, 0}, &err), SFT_E_ARG);
    assert_int_equal(sft_convert(buffer, buffer, 1, &(sft_cast){f32, f32, 128}, &err), SFT_E_ARG);
    assert_int_equal(
        sft_convert(buffer, buffer, UINT64_MAX, &(sft_cast){f32, sft_dtype_get(SFT_F16), 0}, &err),
        SFT_E_OVERFLOW);
    ok(sft_convert(NULL, NULL, 0, &(sft_cast){f32, sft_dtype_get(SFT_F16), 0}, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_of_known_values),
        cmocka_unit_test(small_floats_survive_wider_ones),
        cmocka_unit_test(integers_wrap_and_floats_are_cut),
        cmocka_unit_test(pair_loops_agree),
        cmocka_unit_test(lane_loops_agree),
        cmocka_unit_test(long_runs_equal_single_blocks),
        cmocka_unit_test(masks_change_nothing),
        cmocka_unit_test(in_place_when_sizes_are_equal),
        cmocka_unit_test(other_byte_order),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
