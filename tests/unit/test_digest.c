/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of the digests: published vectors, an independent bitwise CRC, twins against each
 * other on every length and alignment, combination. tests/peers compares SHA-256 with Python's
 * hashlib.
 */
#include "unit/cm.h"

#include "move/kernels/digest_twins.h"
#include <sft/digest.h>

static void fill(uint8_t *p, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = (uint8_t)(seed >> 56);
    }
}

/* One bit at a time, straight from the definition. */
static uint32_t crc_bitwise(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) {
            crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
        }
    }
    return ~crc;
}

/* RFC 3720 B.4, as byte sequences of the CRC, and the usual check value. */
static void crc32c_published_vectors(void **state) {
    (void)state;
    uint8_t b[32];
    static const uint8_t read10[48] = {0x01, 0xc0, 0, 0,    0,    0, 0, 0,    0,    0, 0,    0,
                                       0,    0,    0, 0,    0x14, 0, 0, 0,    0,    0, 0x04, 0,
                                       0,    0,    0, 0x14, 0,    0, 0, 0x18, 0x28, 0, 0,    0,
                                       0,    0,    0, 0,    0x02, 0, 0, 0,    0,    0, 0,    0};
    memset(b, 0, sizeof b);
    assert_int_equal(sft_crc32c(0, b, 32), 0x8a9136aau);
    memset(b, 0xff, sizeof b);
    assert_int_equal(sft_crc32c(0, b, 32), 0x62a8ab43u);
    for (size_t i = 0; i < 32; i++) {
        b[i] = (uint8_t)i;
    }
    assert_int_equal(sft_crc32c(0, b, 32), 0x46dd794eu);
    for (size_t i = 0; i < 32; i++) {
        b[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(sft_crc32c(0, b, 32), 0x113fdb5cu);
    assert_int_equal(sft_crc32c(0, read10, 48), 0xd9963a56u);
    assert_int_equal(sft_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(sft_crc32c(0, NULL, 0), 0);
}

static const char *const masks[] = {
    "portable", "sse4.2", "avx2", "avx512", "-clmul", "-vpclmul", "-avx512", "-vpclmul,-avx512", "",
};
enum { MASKS = sizeof masks / sizeof masks[0] };

static uint32_t features_under(const char *mask) {
    uint32_t without;
    assert_int_equal(sft__base_cpu_parse(mask, &without, NULL), SFT_OK);
    return sft__base_cpu_features() & ~without;
}

/* The kernels that this processor can run under one mask or another. */
static size_t crc32c_twins(sft__move_crc32c_fn *twin[8]) {
    size_t n = 0;
    for (size_t i = 0; i < MASKS; i++) {
        sft__move_crc32c_fn *one = sft__move_crc32c_for(features_under(masks[i]));
        size_t k = 0;
        while (k < n && twin[k] != one) {
            k++;
        }
        n += k == n ? 1 : 0;
        assert_true(n <= 8);
        twin[k] = one;
    }
    return n;
}

/* Each mask leaves the kernel that its features allow, whatever this processor has. */
static void crc32c_is_chosen_by_features(void **state) {
    (void)state;
    const uint32_t x86 = SFT__CPU_CRC32;
    const uint32_t clmul = x86 | SFT__CPU_CLMUL;
    const uint32_t wide = clmul | SFT__CPU_AVX2 | SFT__CPU_VPCLMUL;
    assert_true(sft__move_crc32c_for(0) == sft__move_crc32c_portable);
    assert_true(sft__move_crc32c_for(~x86) == sft__move_crc32c_portable);
#if SFT__X86_64
    assert_true(sft__move_crc32c_for(x86) == sft__move_crc32c_x86);
    assert_true(sft__move_crc32c_for(clmul) == sft__move_crc32c_clmul);
    assert_true(sft__move_crc32c_for(clmul | SFT__CPU_AVX2 | SFT__CPU_AVX512) ==
                sft__move_crc32c_clmul);
    assert_true(sft__move_crc32c_for(wide) == sft__move_crc32c_clmul_256);
    assert_true(sft__move_crc32c_for(wide | SFT__CPU_AVX512) == sft__move_crc32c_clmul_512);
#else
    (void)clmul;
    (void)wide;
#endif
    sft_error err;
    uint32_t without = 1;
    assert_int_equal(sft__base_cpu_parse(NULL, &without, &err), SFT_OK);
    assert_int_equal(without, 0);
    assert_int_equal(sft__base_cpu_parse("avx2,-sha", &without, &err), SFT_OK);
    assert_int_equal(without, SFT__CPU_AVX512 | SFT__CPU_SHA);
    static const char *const wrong[] = {"avx", "sse4.2 ", ",", "-", "avx2,,avx2", "sha", "AVX2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(sft__base_cpu_parse(wrong[i], &without, &err), SFT_E_ARG);
    }
}

static void crc32c_twins_agree(void **state) {
    (void)state;
    enum { ROOM = 50000 };
    uint8_t *data = malloc(ROOM);
    static const size_t lengths[] = {301,   511,   512,   513,   575,   576,   640,   767,   768,
                                     769,   1023,  1536,  2047,  2303,  6143,  6144,  6145,  6912,
                                     8191,  12288, 13064, 20000, 24063, 24064, 24065, 24575, 24576,
                                     39990, 48127, 48128, 49000, 3071,  3072,  3073,  10239, 10240,
                                     10241, 15871, 15872, 15873, 31744};
    sft__move_crc32c_fn *twin[8];
    const size_t twins = crc32c_twins(twin);

    assert_non_null(data);
    fill(data, ROOM, 1);
    for (size_t k = 0; k < 301 + sizeof lengths / sizeof lengths[0]; k++) {
        const size_t n = k <= 300 ? k : lengths[k - 301];
        for (size_t at = 0; at < (n <= 300 ? 17u : 3u) && at + n <= ROOM; at++) {
            const uint32_t start = (uint32_t)(n * 2654435761u + at);
            const uint32_t want = crc_bitwise(start, data + at, n);
            assert_int_equal(sft_crc32c(start, data + at, n), want);
            for (size_t i = 0; i < twins; i++) {
                assert_int_equal(~twin[i](~start, data + at, n), want);
            }
        }
    }
    free(data);
}

static void crc32c_combines(void **state) {
    (void)state;
    uint8_t data[5000];
    fill(data, sizeof data, 2);
    const uint32_t whole = sft_crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut += 7) {
        const uint32_t a = sft_crc32c(0, data, cut);
        const uint32_t b = sft_crc32c(0, data + cut, sizeof data - cut);
        assert_int_equal(sft_crc32c(a, data + cut, sizeof data - cut), whole);
        assert_int_equal(sft_crc32c_combine(a, b, sizeof data - cut), whole);
    }
    /* lengths beyond 32 bits: appending 2^40 and then 2^41 zeros equals appending their sum */
    const uint32_t zeros_40 = sft_crc32c_combine(0x12345678u, 0, (uint64_t)1 << 40);
    const uint32_t zeros_41 = sft_crc32c_combine(zeros_40, 0, (uint64_t)1 << 41);
    assert_int_equal(sft_crc32c_combine(0x12345678u, 0, (uint64_t)3 << 40), zeros_41);
}

static void hex(char out[65], const uint8_t d[32]) {
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", d[i]);
    }
}

static void sha_hex(char out[65], const void *data, size_t n) {
    sft_sha256 s;
    uint8_t d[32];
    sft_sha256_init(&s);
    sft_sha256_update(&s, data, n);
    sft_sha256_final(&s, d);
    hex(out, d);
}

static void sha256_published_vectors(void **state) {
    (void)state;
    char out[65];
    sha_hex(out, "", 0);
    assert_string_equal(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha_hex(out, "abc", 3);
    assert_string_equal(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha_hex(out, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56);
    assert_string_equal(out, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    sha_hex(out,
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnop"
            "qrlmnopqrsmnopqrstnopqrstu",
            112);
    assert_string_equal(out, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    sft_sha256 s;
    uint8_t d[32];
    uint8_t a[1000];
    memset(a, 'a', sizeof a);
    sft_sha256_init(&s);
    for (int i = 0; i < 1000; i++) {
        sft_sha256_update(&s, a, sizeof a);
    }
    sft_sha256_final(&s, d);
    hex(out, d);
    assert_string_equal(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_twins_agree(void **state) {
    (void)state;
    uint8_t data[64 * 9 + 16];
    fill(data, sizeof data, 3);
    for (size_t count = 0; count <= 8; count++) {
        for (size_t at = 0; at < 16; at++) {
            uint32_t a[8];
            uint32_t b[8];
            for (size_t i = 0; i < 8; i++) {
                a[i] = b[i] = (uint32_t)(i * 0x9e3779b9u + count);
            }
            sft__move_sha256_portable(a, data + at, count);
            if ((sft__base_cpu_features() & SFT__CPU_SHA) != 0) {
                sft__move_sha256_x86(b, data + at, count);
                assert_memory_equal(a, b, sizeof a);
            }
        }
    }
}

/* Every length 0..300, fed whole, in two parts and byte by byte, gives one digest; and it is the
 * digest of the portable twin with padding done here, independently. */
static void sha256_any_split(void **state) {
    (void)state;
    uint8_t data[300];
    fill(data, sizeof data, 4);
    for (size_t n = 0; n <= sizeof data; n++) {
        uint8_t padded[448] = {0};
        uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        const size_t blocks = (n + 9 + 63) / 64;
        char want[65];
        char got[65];
        memcpy(padded, data, n);
        padded[n] = 0x80;
        padded[blocks * 64 - 1] = (uint8_t)(n * 8);
        padded[blocks * 64 - 2] = (uint8_t)((n * 8) >> 8);
        sft__move_sha256_portable(h, padded, blocks);
        for (size_t i = 0; i < 8; i++) {
            (void)snprintf(want + 8 * i, 9, "%08x", (unsigned)h[i]);
        }
        sha_hex(got, data, n);
        assert_string_equal(got, want);
        for (size_t cut = 0; cut <= n; cut += 1 + n / 16) {
            sft_sha256 s;
            uint8_t d[32];
            sft_sha256_init(&s);
            sft_sha256_update(&s, data, cut);
            sft_sha256_update(&s, data + cut, n - cut);
            sft_sha256_final(&s, d);
            hex(got, d);
            assert_string_equal(got, want);
        }
        sft_sha256 s;
        uint8_t d[32];
        sft_sha256_init(&s);
        for (size_t i = 0; i < n; i++) {
            sft_sha256_update(&s, data + i, 1);
        }
        sft_sha256_final(&s, d);
        hex(got, d);
        assert_string_equal(got, want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_published_vectors), cmocka_unit_test(crc32c_is_chosen_by_features),
        cmocka_unit_test(crc32c_twins_agree),       cmocka_unit_test(crc32c_combines),
        cmocka_unit_test(sha256_published_vectors), cmocka_unit_test(sha256_twins_agree),
        cmocka_unit_test(sha256_any_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
