/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of recorded digests: files made by sft_save and by hand, damage found at its place,
 * stale and malformed records, sidecars, the content hash.
 */
#include "unit/cm.h"

#include "unit/move_util.h"
#include <sft/digest.h>

enum { COUNT = 5 };
static uint8_t data[COUNT][3000];
static const struct {
    const char *name;
    uint32_t dtype;
    uint64_t shape[2];
    uint32_t rank;
    uint64_t nbytes;
} made[COUNT] = {{"w.b", SFT_F32, {10, 7}, 2, 280},
                 {"w", SFT_U8, {3000, 0}, 1, 3000},
                 {"empty", SFT_I64, {0, 4}, 2, 0},
                 {"z", SFT_F16, {0, 0}, 0, 2},
                 {"\xc3\xa9", SFT_F4, {8, 3}, 2, 12}};

static void save(uint32_t digests, uint32_t flags, sft_order order) {
    sft_save_tensor tensors[COUNT];
    sft_write_options o;
    sft_error err;
    const sft_metadata_entry meta = {"k", 1, "v", 1};
    rnd_state = 31;
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < COUNT; i++) {
        rnd_fill(data[i], (size_t)made[i].nbytes);
        tensors[i].name = made[i].name;
        tensors[i].name_len = strlen(made[i].name);
        tensors[i].dtype = sft_dtype_get(made[i].dtype);
        tensors[i].shape = made[i].shape;
        tensors[i].rank = made[i].rank;
        tensors[i].data = data[i];
        tensors[i].nbytes = made[i].nbytes;
    }
    SFT_INIT(&o);
    o.digests = digests;
    o.flags = flags;
    o.order = order;
    o.durability = SFT_DURABLE_NONE;
    ok(sft_save(tmp_path("safetensors"), tensors, COUNT, &meta, 1, &o, &err), &err);
}

typedef struct seen {
    size_t calls;
    size_t bad;
    char order[256];
    char damaged[64];
} seen;

static void report(void *ctx, const sft_tensor *tensor, sft_status status, const char *message) {
    seen *s = ctx;
    s->calls++;
    assert_non_null(message);
    strncat(s->order, tensor->name, sizeof s->order - strlen(s->order) - 1);
    strncat(s->order, " ", sizeof s->order - strlen(s->order) - 1);
    if (status != SFT_OK) {
        s->bad++;
        (void)snprintf(s->damaged, sizeof s->damaged, "%s", tensor->name);
    }
}

static sft_status verify(uint32_t digests, seen *s, sft_verify_result *r, sft_error *err) {
    sft_catalog *catalog;
    sft_verify_options o;
    SFT_INIT(&o);
    o.digests = digests;
    o.report = s != NULL ? report : NULL;
    o.report_ctx = s;
    if (s != NULL) {
        memset(s, 0, sizeof *s);
    }
    ok(sft_catalog_open(&catalog, tmp_path("safetensors"), NULL, err), err);
    const sft_status status = sft_catalog_verify(catalog, &o, r, err);
    sft_catalog_close(catalog);
    return status;
}

/* Absolute offset of a tensor's first byte. */
static uint64_t place(const char *name) {
    sft_catalog *catalog;
    sft_error err;
    ok(sft_catalog_open(&catalog, tmp_path("safetensors"), NULL, &err), &err);
    const sft_tensor *t = sft_catalog_find(catalog, name, strlen(name));
    assert_non_null(t);
    const uint64_t at = t->pieces[0].offset;
    sft_catalog_close(catalog);
    return at;
}

static void flip(const char *file, uint64_t at, uint8_t bit) {
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_not_equal(fputc(c ^ bit, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static void intact_files_pass(void **state) {
    (void)state;
    static const sft_order orders[] = {SFT_ORDER_REFERENCE, SFT_ORDER_DECLARED};
    sft_error err;
    for (uint32_t digests = 1; digests <= 3; digests++) {
        for (int side = 0; side < 2; side++) {
            for (size_t order = 0; order < 2; order++) {
                seen s;
                sft_verify_result r;
                save(digests, side ? SFT_WRITE_DIGESTS_SIDECAR : 0, orders[order]);
                ok(verify(0, &s, &r, &err), &err);
                assert_int_equal(r.checked, COUNT);
                assert_int_equal(r.damaged, 0);
                assert_int_equal(r.unlisted, 0);
                assert_int_equal(s.calls, COUNT);
                assert_int_equal(s.bad, 0);
                if (order == 1) {
                    assert_string_equal(s.order, "w.b w empty z \xc3\xa9 ");
                }
                for (uint32_t ask = 1; ask <= 2; ask++) {
                    const sft_status status = verify(ask, NULL, NULL, &err);
                    assert_int_equal(status, (digests & ask) != 0 ? SFT_OK : SFT_E_NOT_FOUND);
                }
                (void)remove(tmp_path("safetensors.digests.json"));
            }
        }
    }
    save(0, 0, SFT_ORDER_REFERENCE);
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_NOT_FOUND);
}

static void damage_is_named(void **state) {
    (void)state;
    sft_error err;
    for (uint32_t digests = 1; digests <= 3; digests++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (made[i].nbytes == 0) {
                continue;
            }
            for (int end = 0; end < 2; end++) {
                seen s;
                sft_verify_result r;
                char range[64];
                save(digests, 0, SFT_ORDER_REFERENCE);
                const uint64_t at = place(made[i].name);
                flip(tmp_path("safetensors"), at + (end ? made[i].nbytes - 1 : 0),
                     (uint8_t)(1u << i));
                assert_int_equal(verify(0, &s, &r, &err), SFT_E_MISMATCH);
                assert_int_equal(r.checked, COUNT);
                assert_int_equal(r.damaged, 1);
                assert_int_equal(s.bad, 1);
                assert_int_equal(s.calls, COUNT);
                assert_string_equal(s.damaged, made[i].name);
                assert_int_equal(err.offset, at);
                assert_string_equal(err.tensor, made[i].name);
                (void)snprintf(range, sizeof range, "[%llu, %llu)", (unsigned long long)at,
                               (unsigned long long)(at + made[i].nbytes));
                assert_non_null(strstr(err.message, range));
            }
        }
    }
}

static uint32_t crc_bytes(uint32_t crc, const void *p, size_t n) { /* independent of the library */
    const uint8_t *b = p;
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= b[i];
        for (int k = 0; k < 8; k++) {
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        }
    }
    return ~crc;
}

static uint32_t crc_number(uint32_t crc, uint64_t v) {
    uint8_t le[8];
    for (size_t i = 0; i < 8; i++) {
        le[i] = (uint8_t)(v >> (8 * i));
    }
    return crc_bytes(crc, le, 8);
}

/* A file with the given value of sft.crc32c. */
static void write_by_hand(const char *value) {
    char head[1024];
    FILE *f = fopen(tmp_path("safetensors"), "wb");
    const int n =
        snprintf(head, sizeof head,
                 "{\"__metadata__\":{\"sft.crc32c\":\"%s\"},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
                 "\"data_offsets\":[0,2]},\"a\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":"
                 "[2,4]}}",
                 value);
    assert_non_null(f);
    for (int i = 0; i < 8; i++) {
        (void)fputc((n >> (i < 4 ? 8 * i : 31)) & (i < 4 ? 0xff : 0), f);
    }
    (void)fwrite(head, 1, (size_t)n, f);
    (void)fwrite("\x01\x02\x03\x04", 1, 4, f);
    assert_int_equal(fclose(f), 0);
}

static void records_by_hand(void **state) {
    (void)state;
    sft_error err;
    char value[64];
    uint32_t d = 0;
    d = crc_number(d, 1);
    d = crc_bytes(d, "a", 1);
    d = crc_bytes(d, "I16\0", 4);
    d = crc_number(d, 0);
    d = crc_number(d, 1);
    d = crc_bytes(d, "b", 1);
    d = crc_bytes(d, "U8\0", 3);
    d = crc_number(d, 1);
    d = crc_number(d, 2);
    const uint32_t a = crc_bytes(0, "\x03\x04", 2);
    const uint32_t b = crc_bytes(0, "\x01\x02", 2);
    (void)snprintf(value, sizeof value, "%08x%08x%08x", (unsigned)d, (unsigned)a, (unsigned)b);
    write_by_hand(value);
    ok(verify(0, NULL, NULL, &err), &err);
    (void)snprintf(value, sizeof value, "%08x%08x%08x", (unsigned)d, (unsigned)b, (unsigned)a);
    write_by_hand(value);
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_MISMATCH);
    assert_string_equal(err.tensor, "b"); /* the first in file order */
    (void)snprintf(value, sizeof value, "%08x%08x%08x", (unsigned)d ^ 1, (unsigned)a, (unsigned)b);
    write_by_hand(value);
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_STALE);
    (void)snprintf(value, sizeof value, "%08x%08x", (unsigned)d, (unsigned)a);
    write_by_hand(value);
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_STALE);
    (void)snprintf(value, sizeof value, "%08X%08X%08x", (unsigned)d, 0xABCDEF01u, (unsigned)b);
    write_by_hand(value);
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_STALE);
    write_by_hand("");
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_STALE);
}

static void put_sidecar(const char *text) {
    FILE *f = fopen(tmp_path("safetensors.digests.json"), "wb");
    assert_non_null(f);
    (void)fwrite(text, 1, strlen(text), f);
    assert_int_equal(fclose(f), 0);
}

static void sidecars_by_hand(void **state) {
    (void)state;
    sft_error err;
    sft_catalog *catalog;
    char text[1024];
    write_by_hand("x"); /* digests of nothing: no sidecar could make up for them */
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_STALE);
    const uint64_t shape = 4;
    size_t size;
    rnd_state = 33;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), &shape, 1, 4, 0, &size);
    FILE *f = fopen(tmp_path("safetensors"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    const unsigned crc = crc_bytes(0, file + size - 4, 4);
    const struct {
        const char *format; /* of size and crc */
        sft_status status;
    } cases[] = {
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}}}", SFT_OK},
        {" { \"x\" : [1,{\"y\":null}], \"schema\" : 1 , \"size\" : %u , \"tensors\" : "
         "{ \"\\u0074\" : { \"z\" : 1.5, \"crc32c\" : \"%08x\" } } } \n",
         SFT_OK},
        {"{\"schema\":2,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}}}", SFT_E_STALE},
        {"{\"schema\":1,\"size\":1%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}}}", SFT_E_STALE},
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"u\":{\"crc32c\":\"%08x\"}}}", SFT_E_STALE},
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x0\"}}}", SFT_E_STALE},
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}},}", SFT_E_JSON},
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}}", SFT_E_JSON},
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":[\"%08x\"]}}", SFT_E_JSON},
        {"{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}}}x", SFT_E_JSON},
        {"{\"schema\":1,\"size\":%u,\"x\":\"%08x\"}", SFT_E_STALE},
        {"[%u,%08x]", SFT_E_JSON},
        {"\xff%u%08x", SFT_E_UTF8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
        (void)snprintf(text, sizeof text, cases[i].format, (unsigned)size, crc);
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
        put_sidecar(text);
        const sft_status status = verify(0, NULL, NULL, &err);
        if (status != cases[i].status) {
            fail_msg("%s: %s", text, status == SFT_OK ? "ok" : err.message);
        }
    }
    (void)snprintf(text, sizeof text,
                   "{\"schema\":1,\"size\":%u,\"tensors\":{\"t\":{\"crc32c\":\"%08x\"}}}",
                   (unsigned)size, crc ^ 0x10u);
    put_sidecar(text);
    assert_int_equal(verify(0, NULL, NULL, &err), SFT_E_MISMATCH);
    /* a catalog in memory has no file beside it */
    ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
    assert_int_equal(sft_catalog_verify(catalog, NULL, NULL, &err), SFT_E_NOT_FOUND);
    sft_catalog_close(catalog);
    free(file);
    (void)remove(tmp_path("safetensors.digests.json"));
}

/* A record in the file is no answer to the one beside it: both are compared. */
static void both_records_count(void **state) {
    (void)state;
    sft_error err;
    sft_verify_result r;
    char text[4096] = {0};
    save(SFT_DIGEST_SHA256, SFT_WRITE_DIGESTS_SIDECAR, SFT_ORDER_REFERENCE);
    FILE *f = fopen(tmp_path("safetensors.digests.json"), "rb");
    assert_non_null(f);
    const size_t len = fread(text, 1, sizeof text - 64, f);
    assert_int_equal(fclose(f), 0);
    save(SFT_DIGEST_CRC32C, 0, SFT_ORDER_REFERENCE);
    char *size = strstr(text, "\"size\"");
    assert_non_null(size);
    size += strcspn(size, "0123456789");
    f = fopen(tmp_path("safetensors"), "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    char number[32];
    const int digits = snprintf(number, sizeof number, "%ld", ftell(f));
    assert_int_equal(fclose(f), 0);
    const size_t old = strspn(size, "0123456789");
    memmove(size + digits, size + old, len - (size_t)(size - text) - old + 1);
    memcpy(size, number, (size_t)digits);
    put_sidecar(text);
    ok(verify(0, NULL, &r, &err), &err);
    char *sha = strstr(text, "\"sha256\"");
    assert_non_null(sha);
    sha = strchr(sha + 8, '"') + 1;
    *sha = *sha == '0' ? '1' : '0';
    put_sidecar(text);
    assert_int_equal(verify(0, NULL, &r, &err), SFT_E_MISMATCH);
    assert_non_null(strstr(err.message, "SHA-256"));
    (void)remove(tmp_path("safetensors.digests.json"));
}

/* Of a file whose place another has taken, the sidecar there tells nothing; and whether it had one,
 * too, nobody knows. */
static void a_sidecar_is_of_the_file_that_is_there(void **state) {
    (void)state;
#ifndef _WIN32 /* where an open file cannot be replaced */
    sft_catalog *c;
    sft_error err;
    save(SFT_DIGEST_CRC32C, SFT_WRITE_DIGESTS_SIDECAR, SFT_ORDER_REFERENCE);
    ok(sft_catalog_open(&c, tmp_path("safetensors"), NULL, &err), &err);
    ok(sft_catalog_verify(c, NULL, NULL, &err), &err);
    save(SFT_DIGEST_CRC32C, SFT_WRITE_DIGESTS_SIDECAR, SFT_ORDER_REFERENCE);
    assert_int_equal(sft_catalog_verify(c, NULL, NULL, &err), SFT_E_CHANGED);
    assert_non_null(strstr(err.message, "was replaced before"));
    const sft_tensor *t = sft_catalog_at(c, 0);
    const sft_writer_origin origin = {c, t};
    sft_writer *w; /* a copy that begins then does not leave them out */
    uint32_t lost;
    ok(sft_writer_create(&w, tmp_path("copy"), NULL, &err), &err);
    ok(sft_writer_declare(w, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL, &err), &err);
    assert_int_equal(sft_writer_carry_digests(w, &origin, &lost, &err), SFT_E_CHANGED);
    sft_writer_free(w);
    (void)remove(tmp_path("safetensors.digests.json"));
    assert_int_equal(sft_catalog_verify(c, NULL, NULL, &err), SFT_E_NOT_FOUND);
    sft_catalog_close(c);
#endif
}

static void unreadable_tensors_are_reported(void **state) {
    (void)state;
    sft_error err;
    own_source own;
    seen s;
    sft_verify_result r;
    sft_verify_options o;
    save(SFT_DIGEST_CRC32C, 0, SFT_ORDER_DECLARED);
    const uint64_t at = place("w");
    FILE *f = fopen(tmp_path("safetensors"), "rb");
    uint8_t file[8192];
    assert_non_null(f);
    const size_t size = fread(file, 1, sizeof file, f);
    assert_int_equal(fclose(f), 0);
    sft_catalog *catalog = own_open(&own, file, size, 0);
    own.fail_from = at + 5;
    SFT_INIT(&o);
    o.report = report;
    o.report_ctx = &s;
    memset(&s, 0, sizeof s);
    assert_int_equal(sft_catalog_verify(catalog, &o, &r, &err), SFT_E_TRUNCATED);
    assert_string_equal(err.tensor, "w");
    assert_int_equal(s.calls, COUNT);
    assert_int_equal(r.checked, 2); /* the one before, and the empty one */
    sft_catalog_close(catalog);
}

/* Order, metadata and digests do not change the content hash; a name, a shape and a byte do. */
static void content_hash_is_of_the_content(void **state) {
    (void)state;
    sft_error err;
    sft_catalog *catalog;
    sft_pool *pool;
    uint8_t first[32];
    uint8_t other[32];
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    save(0, 0, SFT_ORDER_REFERENCE);
    ok(sft_catalog_open(&catalog, tmp_path("safetensors"), NULL, &err), &err);
    ok(sft_catalog_content_hash(catalog, first, NULL, NULL, &err), &err);
    sft_catalog_close(catalog);
    save(3, 0, SFT_ORDER_DECLARED);
    ok(sft_catalog_open(&catalog, tmp_path("safetensors"), NULL, &err), &err);
    ok(sft_catalog_content_hash(catalog, other, pool, NULL, &err), &err);
    sft_catalog_close(catalog);
    assert_memory_equal(first, other, 32);

    /* by the definition */
    static const size_t by_name[COUNT] = {2, 1, 0, 3, 4};
    sft_sha256 all;
    sft_sha256_init(&all);
    for (size_t k = 0; k < COUNT; k++) {
        const size_t i = by_name[k];
        const char *dtype = sft_dtype_get(made[i].dtype)->name;
        uint8_t le[8];
        sft_sha256 one;
        uint8_t digest[32];
        uint64_t numbers[3] = {strlen(made[i].name), made[i].rank, 0};
        for (size_t b = 0; b < 8; b++) {
            le[b] = (uint8_t)(numbers[0] >> (8 * b));
        }
        sft_sha256_update(&all, le, 8);
        sft_sha256_update(&all, made[i].name, strlen(made[i].name));
        sft_sha256_update(&all, dtype, strlen(dtype) + 1);
        for (size_t b = 0; b < 8; b++) {
            le[b] = (uint8_t)(numbers[1] >> (8 * b));
        }
        sft_sha256_update(&all, le, 8);
        for (uint32_t d = 0; d < made[i].rank; d++) {
            for (size_t b = 0; b < 8; b++) {
                le[b] = (uint8_t)(made[i].shape[d] >> (8 * b));
            }
            sft_sha256_update(&all, le, 8);
        }
        sft_sha256_init(&one);
        sft_sha256_update(&one, data[i], (size_t)made[i].nbytes);
        sft_sha256_final(&one, digest);
        sft_sha256_update(&all, digest, 32);
    }
    sft_sha256_final(&all, other);
    assert_memory_equal(first, other, 32);

    flip(tmp_path("safetensors"), place("z"), 1);
    ok(sft_catalog_open(&catalog, tmp_path("safetensors"), NULL, &err), &err);
    ok(sft_catalog_content_hash(catalog, other, NULL, NULL, &err), &err);
    assert_memory_not_equal(first, other, 32);
    const sft_tensor *t = sft_catalog_find(catalog, "w", 1);
    uint8_t sha[32];
    uint32_t crc;
    sft_sha256 one;
    ok(sft_tensor_digest(catalog, t, sha, &crc, NULL, &err), &err);
    assert_int_equal(crc, crc_bytes(0, data[1], 3000));
    sft_sha256_init(&one);
    sft_sha256_update(&one, data[1], 3000);
    sft_sha256_final(&one, other);
    assert_memory_equal(sha, other, 32);
    ok(sft_tensor_digest(catalog, t, NULL, NULL, NULL, &err), &err);
    sft_catalog_close(catalog);
    sft_pool_free(pool);
}

static int cancel_now(void *ctx, const sft_progress *progress) {
    int *left = ctx;
    assert_true(progress->bytes_done <= progress->bytes_total);
    return (*left)-- <= 0;
}

static void cancelling_and_arguments(void **state) {
    (void)state;
    sft_error err;
    sft_catalog *catalog;
    sft_verify_options o;
    sft_control control;
    int left = 0;
    uint8_t digest[32];
    save(1, 0, SFT_ORDER_REFERENCE);
    ok(sft_catalog_open(&catalog, tmp_path("safetensors"), NULL, &err), &err);
    SFT_INIT(&o);
    SFT_INIT(&control);
    control.poll = cancel_now;
    control.ctx = &left;
    o.control = &control;
    for (int n = 0; n < 3; n++) {
        left = n;
        assert_int_equal(sft_catalog_verify(catalog, &o, NULL, &err), SFT_E_CANCELLED);
        left = n > 0 ? n - 1 : 0;
        assert_int_equal(sft_catalog_content_hash(catalog, digest, NULL, &control, &err),
                         SFT_E_CANCELLED);
        left = 0;
        assert_int_equal(sft_tensor_digest(catalog, sft_catalog_find(catalog, "w", 1), digest, NULL,
                                           &control, &err),
                         SFT_E_CANCELLED);
    }
    o.digests = 8;
    assert_int_equal(sft_catalog_verify(catalog, &o, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_catalog_verify(NULL, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_tensor_digest(NULL, NULL, NULL, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_catalog_content_hash(NULL, digest, NULL, NULL, &err), SFT_E_ARG);
    sft_catalog_close(catalog);
}

/* Large enough to be cut into stretches, with and without a pool. */
static void stretches_of_large_tensors(void **state) {
    (void)state;
    enum { SIZE = (64 << 20) * 2 + 12345 };
    sft_error err;
    sft_catalog *catalog;
    sft_pool *pool;
    sft_verify_options o;
    uint8_t *big = malloc(SIZE);
    uint64_t shape = SIZE;
    sft_save_tensor t;
    sft_write_options w;
    assert_non_null(big);
    memset(big, 3, SIZE);
    for (size_t i = 0; i < SIZE; i += 4096) {
        big[i] = (uint8_t)(i >> 12);
    }
    memset(&t, 0, sizeof t);
    t.name = "big";
    t.name_len = 3;
    t.dtype = sft_dtype_get(SFT_U8);
    t.shape = &shape;
    t.rank = 1;
    t.data = big;
    t.nbytes = SIZE;
    SFT_INIT(&w);
    w.digests = SFT_DIGEST_CRC32C;
    size_t size;
    ok(sft_save_memory(NULL, 0, &size, &t, 1, NULL, 0, &w, &err), &err);
    uint8_t *file = malloc(size);
    assert_non_null(file);
    ok(sft_save_memory(file, size, &size, &t, 1, NULL, 0, &w, &err), &err);
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
    SFT_INIT(&o);
    ok(sft_catalog_verify(catalog, &o, NULL, &err), &err);
    o.pool = pool;
    ok(sft_catalog_verify(catalog, &o, NULL, &err), &err);
    file[size - 1] ^= 4;
    assert_int_equal(sft_catalog_verify(catalog, &o, NULL, &err), SFT_E_MISMATCH);
    sft_catalog_close(catalog);
    sft_pool_free(pool);
    free(file);
    free(big);
}

/* Shares of a catalog, as several processes take them. */
static void only_some_tensors(void **state) {
    (void)state;
    static const uint8_t eight[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char *const names[] = {"a", "b", "c", "d"};
    const uint64_t shape = 8;
    sft_save_tensor t[4];
    sft_write_options w;
    sft_verify_options o;
    sft_verify_result r;
    sft_catalog *catalog;
    sft_error err;
    uint8_t file[4096];
    size_t size;
    memset(t, 0, sizeof t);
    for (size_t i = 0; i < 4; i++) {
        t[i].name = names[i];
        t[i].name_len = 1;
        t[i].dtype = sft_dtype_get(SFT_U8);
        t[i].shape = &shape;
        t[i].rank = 1;
        t[i].data = eight;
        t[i].nbytes = 8;
    }
    SFT_INIT(&w);
    SFT_INIT(&o);
    w.digests = SFT_DIGEST_CRC32C;
    ok(sft_save_memory(file, sizeof file, &size, t, 4, NULL, 0, &w, &err), &err);
    file[size - 1] ^= 1; /* of "d" */
    ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
    o.count = 3;
    ok(sft_catalog_verify(catalog, &o, &r, &err), &err);
    assert_int_equal(r.checked, 3);
    o.first = 3;
    o.count = 1;
    assert_int_equal(sft_catalog_verify(catalog, &o, &r, &err), SFT_E_MISMATCH);
    assert_int_equal(r.checked, 1);
    assert_int_equal(r.damaged, 1);
    o.count = 0;
    ok(sft_catalog_verify(catalog, &o, &r, &err), &err);
    assert_int_equal(r.checked, 0);
    static const uint8_t some[4] = {1, 0, 1, 0};
    o.chosen = some;
    o.first = 0;
    ok(sft_catalog_verify(catalog, &o, &r, &err), &err);
    assert_int_equal(r.checked, 2);
    assert_int_equal(r.unlisted, 0);
    o.chosen = NULL;
    o.flags = 2;
    assert_int_equal(sft_catalog_verify(catalog, &o, &r, &err), SFT_E_ARG);
    o.flags = SFT_VERIFY_SKIP_STALE; /* fits: compared */
    assert_int_equal(sft_catalog_verify(catalog, &o, &r, &err), SFT_E_MISMATCH);
    o.flags = 0;
    o.first = 3;
    o.count = 2;
    assert_int_equal(sft_catalog_verify(catalog, &o, &r, &err), SFT_E_RANGE);
    o.first = 4;
    o.count = 0;
    ok(sft_catalog_verify(catalog, &o, &r, &err), &err);
    o.first = 5;
    assert_int_equal(sft_catalog_verify(catalog, &o, &r, &err), SFT_E_RANGE);
    sft_catalog_close(catalog);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_some_tensors),
        cmocka_unit_test(intact_files_pass),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(records_by_hand),
        cmocka_unit_test(sidecars_by_hand),
        cmocka_unit_test(both_records_count),
        cmocka_unit_test(a_sidecar_is_of_the_file_that_is_there),
        cmocka_unit_test(unreadable_tensors_are_reported),
        cmocka_unit_test(content_hash_is_of_the_content),
        cmocka_unit_test(cancelling_and_arguments),
        cmocka_unit_test(stretches_of_large_tensors),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(tmp_path("safetensors"));
    (void)remove(tmp_path("safetensors.digests.json"));
    return failed;
}
