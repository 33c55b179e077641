/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/test_load_ways.c - what sft_load does beside loading: casts, places of the caller's,
 * digests, counts of NaN and infinities, verification, selection. Every combination of strategy,
 * threads, kind of source, cast, place and alignment is compared with sft_tensor_read and with
 * digests taken afterwards; the number of comparisons is printed. In this build jobs are 64 KiB,
 * blocks 12 KiB and buffers 20 KiB.
 */
#include "unit/files.h"
#include "unit/move_util.h"

#include <math.h>
#include <sft/sft.h>

static unsigned long compared;

static const uint32_t types[] = {SFT_F32, SFT_BF16,    SFT_F16,     SFT_U8,      SFT_F64,
                                 SFT_I16, SFT_F8_E4M3, SFT_F8_E5M2, SFT_C64,     SFT_F4,
                                 SFT_I64, SFT_BOOL,    SFT_F6_E2M3, SFT_F8_E8M0, SFT_F8_E4M3FNUZ};
enum { TYPES = sizeof types / sizeof types[0], COUNT_MAX = 40 };

/* A safetensors file in memory, malloc'ed: `count` tensors t0, t1 ... of random types and up to
 * `most` bytes, every seventh empty, at whatever offsets that gives. */
static uint8_t *make_file(unsigned count, size_t most, size_t *size) {
    static char head[1 << 16];
    size_t n = 1, total = 0;
    head[0] = '{';
    for (unsigned i = 0; i < count; i++) {
        const sft_dtype *t = sft_dtype_get(types[rnd_below(TYPES)]);
        /* four elements at a time: every cast fits */
        const size_t unit = (size_t)4 / t->block_elements * t->block_bytes;
        const size_t units = i % 7 == 6 ? 0 : rnd_below(most / unit) + 1;
        n += (size_t)snprintf(
            head + n, sizeof head - n,
            "%s\"t%u\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
            i, t->name, units * 4, total, total + units * unit);
        total += units * unit;
    }
    n += (size_t)snprintf(head + n, sizeof head - n, "}%*s", (int)rnd_below(64), "");
    uint8_t *file = malloc(8 + n + total);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(file + 8, head, n);
    rnd_fill(file + 8 + n, total);
    for (size_t i = 8 + n; i + 3000 < 8 + n + total; i += 1 + rnd_below(3000)) {
        file[i] = 0xff; /* more NaN than chance gives */
    }
    *size = 8 + n + total;
    return file;
}

/* A source that takes many ranges at once, and does them from the last to the first. */
typedef struct many_source {
    own_source own;
    uint64_t batches;
    uint64_t ranges;
    uint64_t singles;
} many_source;

static sft_status many_read_at(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    many_source *m = self;
    __atomic_add_fetch(&m->singles, 1, __ATOMIC_RELAXED);
    return own_read_at(&m->own, offset, dst, size, err);
}

static sft_status many_read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    const sft_io_range *ranges = batch->ranges;
    const sft_control *control = batch->control;
    const size_t count = batch->count;
    many_source *m = self;
    sft_status status = SFT_OK;
    const sft_progress progress = {0, 0};
    __atomic_add_fetch(&m->batches, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&m->ranges, count, __ATOMIC_RELAXED);
    for (size_t i = count; i-- > 0;) {
        sft_error e;
        sft_status s;
        if (status == SFT_OK && control != NULL && control->poll(control->ctx, &progress) != 0) {
            status = sft_error_at(err, SFT_E_CANCELLED, 0, NULL, 0, "cancelled");
        }
        s = status != SFT_OK
                ? sft_error_at(&e, SFT_E_CANCELLED, 0, NULL, 0, "not read")
                : own_read_at(&m->own, ranges[i].offset, ranges[i].data, ranges[i].size, &e);
        if (s != SFT_OK && status == SFT_OK) {
            status = s;
            *err = e;
        }
        batch->done(batch->done_ctx, i, s, s == SFT_OK ? NULL : &e);
    }
    return status;
}

static sft_catalog *many_open(many_source *m, const uint8_t *data, size_t size) {
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = many_read_at, .read_many = many_read_many};
    sft_source *source;
    sft_catalog *catalog;
    sft_error err;
    memset(m, 0, sizeof *m);
    m->own.data = data;
    m->own.size = size;
    m->own.fail_from = UINT64_MAX;
    ok(sft_source_create(&source, &vtable, m,
                         &(sft_source_info){size, SFT_SOURCE_REMOTE, "many", NULL}, &err),
       &err);
    ok(sft_catalog_open_source(&catalog, source, NULL, &err), &err);
    m->batches = m->ranges = m->singles = 0;
    return catalog;
}

/* NaN and infinities by way of binary64. */
static void count_slowly(const sft_dtype *t, const uint8_t *p, uint64_t nbytes, uint64_t *nans,
                         uint64_t *infinities) {
    sft_error err;
    if (t->id == SFT_C64) {
        t = sft_dtype_get(SFT_F32);
    }
    *nans = *infinities = 0;
    if (t->kind != SFT_KIND_FLOAT || nbytes == 0) {
        return;
    }
    const uint64_t count = nbytes / t->block_bytes * t->block_elements;
    double *wide = malloc((size_t)count * sizeof *wide);
    assert_non_null(wide);
    ok(sft_convert(wide, p, count, &(sft_cast){sft_dtype_get(SFT_F64), t, SFT_CONVERT_HOST_DST},
                   &err),
       &err);
    for (uint64_t i = 0; i < count; i++) {
        *nans += isnan(wide[i]) != 0;
        *infinities += isinf(wide[i]) != 0;
    }
    free(wide);
}

static void assert_tensor(const sft_catalog *c, const sft_loaded *l, const sft_load_options *o,
                          const sft_tensor *t, const sft_dtype *type) {
    size_t size;
    sft_error err;
    sft_read_options read;
    sft_loaded_facts f;
    uint64_t nbytes, nans, infinities;
    uint8_t sha[32];
    uint32_t crc;
    const uint8_t *data = sft_loaded_data(l, t, &size);
    SFT_INIT(&read);
    read.dtype = type;
    read.flags = (o->flags & SFT_LOAD_HOST_ORDER) != 0 ? SFT_READ_HOST_ORDER : 0;
    ok(sft_tensor_result(t, &read, NULL, NULL, &nbytes, &err), &err);
    uint8_t *want = malloc((size_t)nbytes + 1);
    uint8_t *raw = malloc((size_t)t->nbytes + 1);
    assert_true(want != NULL && raw != NULL && data != NULL);
    ok(sft_tensor_read(c, t, &read, want, (size_t)nbytes, &err), &err);
    ok(sft_tensor_read(c, t, NULL, raw, (size_t)t->nbytes, &err), &err);
    assert_int_equal(size, nbytes);
    assert_int_equal(sft_loaded_dtype(l, t)->id, type->id);
    if (memcmp(want, data, size) != 0) {
        fail_msg("tensor %s (%s as %s) differs", t->name, t->dtype->name, type->name);
    }
    sft_loaded_facts_get(l, t, &f);
    assert_int_equal(f.digests, o->digests);
    ok(sft_tensor_digest(c, t, sha, &crc, NULL, &err), &err);
    if ((o->digests & SFT_DIGEST_CRC32C) != 0) {
        assert_int_equal(f.crc32c, crc);
    }
    if ((o->digests & SFT_DIGEST_SHA256) != 0) {
        assert_memory_equal(f.sha256, sha, 32);
    }
    count_slowly(t->dtype, raw, t->nbytes, &nans, &infinities);
    if ((o->flags & SFT_LOAD_SCAN) != 0) {
        assert_int_equal(f.nans, nans);
        assert_int_equal(f.infinities, infinities);
        assert_int_equal(f.scanned,
                         t->dtype->kind == SFT_KIND_FLOAT || t->dtype->kind == SFT_KIND_COMPLEX);
    }
    free(want);
    free(raw);
    compared++;
}

typedef struct asked {
    size_t select[COUNT_MAX];
    const sft_dtype *dtypes[COUNT_MAX];
    sft_load_place places[COUNT_MAX];
    uint8_t *memory;
    size_t memory_size;
} asked;

/* Options at random; what they borrow is in `a`. */
static void ask(asked *a, const sft_catalog *c, sft_load_options *o) {
    static const uint32_t to[] = {SFT_F32,     SFT_BF16, SFT_F16, SFT_F64,
                                  SFT_F8_E4M3, SFT_F4,   SFT_I16};
    const size_t count = sft_catalog_count(c);
    const bool map = o->strategy == SFT_STRATEGY_MAP;
    size_t at = 0;
    o->select = NULL;
    o->select_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (rnd_below(4) != 0) {
            a->select[o->select_count++] = i;
        }
    }
    if (rnd_below(3) != 0) {
        o->select_count = count;
        for (size_t i = 0; i < count; i++) {
            a->select[i] = i;
        }
    } else {
        for (size_t i = o->select_count; i-- > 1;) { /* any order */
            const size_t k = rnd_below(i + 1), other = a->select[i];
            a->select[i] = a->select[k];
            a->select[k] = other;
        }
        o->select = a->select;
    }
    o->float_dtype = !map && rnd_below(3) == 0 ? sft_dtype_get(to[rnd_below(4)]) : NULL;
    o->dtypes = !map && rnd_below(3) == 0 ? a->dtypes : NULL;
    o->places = !map && rnd_below(2) == 0 ? a->places : NULL;
    o->digests = (uint32_t)rnd_below(8) < 4 ? 0 : (uint32_t)rnd_below(4);
    o->flags = rnd_below(2) ? SFT_LOAD_SCAN : 0;
    o->flags |= !map && rnd_below(2) ? SFT_LOAD_HOST_ORDER : 0;
    o->alignment = map || rnd_below(3) ? 0 : (uint32_t)1 << rnd_below(13);
    for (size_t i = 0; i < o->select_count; i++) {
        const sft_tensor *t = sft_catalog_at(c, a->select[i]);
        const size_t room = 16 * (size_t)t->nbytes + 64; /* F4 to F64 */
        a->dtypes[i] = rnd_below(2) ? sft_dtype_get(to[rnd_below(7)]) : NULL;
        a->places[i] = (sft_load_place){NULL, 0};
        if (rnd_below(3) != 0 && at + room < a->memory_size) {
            at += rnd_below(64);
            a->places[i] = (sft_load_place){a->memory + at, room - 64};
            at += room - 64;
        }
    }
}

static const sft_dtype *type_of(const asked *a, const sft_load_options *o, size_t i,
                                const sft_tensor *t) {
    const uint32_t id = t->dtype->id;
    if (o->dtypes != NULL && a->dtypes[i] != NULL) {
        return a->dtypes[i];
    }
    return o->float_dtype != NULL &&
                   (id == SFT_F16 || id == SFT_BF16 || id == SFT_F32 || id == SFT_F64)
               ? o->float_dtype
               : t->dtype;
}

static void load_and_compare(asked *a, const sft_catalog *c, sft_load_options *o) {
    sft_loaded *l;
    sft_error err;
    ask(a, c, o);
    ok(sft_load(&l, c, o, &err), &err);
    assert_int_equal(sft_loaded_count(l), o->select_count);
    for (size_t i = 0; i < o->select_count; i++) {
        const sft_tensor *t = sft_catalog_at(c, a->select[i]);
        assert_tensor(c, l, o, t, type_of(a, o, i, t));
        if (o->places != NULL && a->places[i].data != NULL) {
            assert_ptr_equal(sft_loaded_data(l, t, NULL), a->places[i].data);
        } else if (o->alignment != 0 && t->nbytes != 0) {
            assert_int_equal((uintptr_t)sft_loaded_data(l, t, NULL) % o->alignment, 0);
        }
    }
    sft_loaded_free(l);
}

static void test_every_way(void **state) {
    static asked a;
    sft_pool *pool;
    sft_error err;
    unsigned direct = 0;
    (void)state;
    a.memory_size = 48 << 20;
    a.memory = malloc(a.memory_size);
    assert_non_null(a.memory);
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    for (unsigned round = 0; round < 30; round++) {
        size_t size;
        const char *path = in_scratch("m.safetensors");
        uint8_t *data =
            make_file(4 + (unsigned)rnd_below(COUNT_MAX - 4), (size_t)256 << rnd_below(10), &size);
        file_put(path, data, size);
        for (unsigned k = 0; k < 16; k++) {
            own_source own;
            many_source many;
            sft_catalog *c;
            sft_load_options o;
            SFT_INIT(&o);
            o.pool = k & 1 ? pool : NULL;
            if (k < 10) {
                ok(sft_catalog_open(&c, path, NULL, &err), &err);
                o.strategy = (sft_strategy)(k / 2 % 4);
            } else if (k < 12) {
                ok(sft_catalog_open_memory(&c, data, size, NULL, &err), &err);
                o.strategy = k == 11 ? SFT_STRATEGY_MAP : SFT_STRATEGY_AUTO;
            } else if (k < 14) {
                c = own_open(&own, data, size, k == 12 ? SFT_SOURCE_SEQUENTIAL : SFT_SOURCE_REMOTE);
            } else {
                c = many_open(&many, data, size);
            }
            load_and_compare(&a, c, &o);
            if (k >= 14) {
                assert_true(many.batches > 0 || many.ranges == 0);
            }
            sft_catalog_close(c);
        }
        sft_catalog *c;
        sft_strategy_choice choice;
        ok(sft_catalog_open(&c, path, NULL, &err), &err);
        ok(sft_strategy_choose(c, 0, SFT_STRATEGY_DIRECT, &choice, &err), &err);
        direct += choice.strategy == SFT_STRATEGY_DIRECT;
        sft_catalog_close(c);
        free(data);
    }
    printf("%lu tensors compared, direct reads in %u of 30 files\n", compared, direct);
    assert_true(compared > 5000);
    sft_pool_free(pool);
    free(a.memory);
}

/* Tensors in two pieces, one of them strided. */
static void test_pieces(void **state) {
    enum { ROWS = 96, COLUMNS = 250, HALF = ROWS / 2 * COLUMNS * 4 };
    static uint8_t first[HALF], second[2 * HALF];
    static asked a;
    const uint64_t shape[] = {ROWS, COLUMNS}, low[] = {0, 0}, high[] = {ROWS / 2, 0};
    const uint64_t half[] = {ROWS / 2, COLUMNS};
    const int64_t strides[] = {2 * COLUMNS * 4, 4};
    sft_pool *pool;
    sft_error err;
    (void)state;
    rnd_fill(first, sizeof first);
    rnd_fill(second, sizeof second);
    a.memory_size = 4 << 20;
    a.memory = malloc(a.memory_size);
    ok(sft_pool_create(&pool, 2, NULL, &err), &err);
    for (unsigned round = 0; round < 40; round++) {
        sft_builder *b;
        sft_source *s;
        sft_catalog *c;
        sft_file file;
        uint32_t index;
        memset(&file, 0, sizeof file);
        file.path = "pieces";
        ok(sft_builder_create(&b, NULL, &err), &err);
        ok(sft_source_open_memory(&s, first, sizeof first, NULL, &err), &err);
        ok(sft_builder_add_source(b, s, &index, &err), &err);
        ok(sft_source_open_memory(&s, second, sizeof second, NULL, &err), &err);
        ok(sft_builder_add_source(b, s, &index, &err), &err);
        ok(sft_builder_add_file(b, &file, &index, &err), &err);
        const sft_piece pieces[] = {{0, 0, low, half, NULL, 0, 0},
                                    {0, 0, high, half, strides, 1, 0}};
        const sft_tensor t = {"cut", 3, sft_dtype_get(SFT_F32), shape, pieces, 0, 2, 2, 0, 0};
        ok(sft_builder_add_tensor(b, &t, &err), &err);
        ok(sft_builder_finish(&c, b, &err), &err);
        sft_builder_free(b);
        sft_load_options o;
        SFT_INIT(&o);
        o.pool = round & 1 ? pool : NULL;
        load_and_compare(&a, c, &o);
        sft_catalog_close(c);
    }
    sft_pool_free(pool);
    free(a.memory);
}

/* ---------------------------------------------------------------- plans */

/* Rows, columns and steps of several tensors in one stream, past the page cache and through it, with
 * casts: as sft_tensor_read brings them. */
static void test_streamed_slices(void **state) {
    enum { TENSORS = 4, ROOM = 2 << 20 };
    const char *path = in_scratch("p.safetensors");
    unsigned long pieces = 0;
    unsigned direct = 0;
    sft_pool *pool;
    sft_error err;
    uint8_t *got = malloc(ROOM), *want = malloc(ROOM);
    (void)state;
    assert_true(got != NULL && want != NULL);
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    for (unsigned round = 0; round < 60; round++) {
        uint64_t shapes[TENSORS][2];
        sft_save_tensor list[TENSORS];
        char names[TENSORS][2];
        sft_write_options w;
        sft_catalog *c;
        memset(list, 0, sizeof list);
        rnd_fill(got, ROOM);
        for (unsigned i = 0; i < TENSORS; i++) {
            shapes[i][0] = 1 + rnd_below(200);
            shapes[i][1] = 1 + rnd_below(600);
            names[i][0] = (char)('a' + i);
            const sft_dtype *t = sft_dtype_get(i & 1 ? SFT_F32 : i & 2 ? SFT_U8 : SFT_BF16);
            list[i] = (sft_save_tensor){.name = names[i],
                                        .name_len = 1,
                                        .dtype = t,
                                        .shape = shapes[i],
                                        .rank = 2,
                                        .data = got,
                                        .nbytes = shapes[i][0] * shapes[i][1] * t->block_bytes};
        }
        SFT_INIT(&w);
        w.durability = SFT_DURABLE_NONE;
        ok(sft_save(path, list, TENSORS, NULL, 0, &w, &err), &err);
        ok(sft_catalog_open(&c, path, NULL, &err), &err);
        for (unsigned k = 0; k < 6; k++) {
            static const sft_strategy ways[] = {SFT_STRATEGY_AUTO, SFT_STRATEGY_READ,
                                                SFT_STRATEGY_DIRECT};
            sft_stream_options how;
            sft_stream_item item;
            sft_stream *stream;
            const char *reason;
            uint64_t at = 0;
            memset(got, 0x55, ROOM);
            memset(want, 0x55, ROOM);
            SFT_INIT(&how);
            how.strategy = ways[k % 3];
            how.pool = k < 3 ? NULL : pool;
            ok(sft_stream_create(&stream, c, &how, &err), &err);
            assert_int_equal(sft_stream_strategy(stream, 0, &reason), SFT_STRATEGY_AUTO);
            for (size_t i = 0; i < TENSORS; i++) {
                const sft_tensor *t = sft_catalog_at(c, i);
                sft_slice slices[2];
                sft_read_options o;
                uint64_t nbytes;
                SFT_INIT(&o);
                for (unsigned d = 0; d < 2; d++) {
                    slices[d].kind = SFT_SLICE_RANGE;
                    slices[d].start = (int64_t)rnd_below(t->shape[d]);
                    slices[d].stop =
                        slices[d].start +
                        (int64_t)(1 + rnd_below(t->shape[d] - (uint64_t)slices[d].start));
                    slices[d].step = rnd_below(4) == 0 ? 2 : 1;
                }
                o.slices = slices;
                o.slice_count = rnd_below(4) == 0 ? 0 : 1 + rnd_below(2);
                o.dtype = rnd_below(3) == 0 ? sft_dtype_get(SFT_F16) : NULL;
                ok(sft_tensor_result(t, &o, NULL, NULL, &nbytes, &err), &err);
                at += rnd_below(3); /* any alignment */
                ok(sft_tensor_read(c, t, &o, want + at, (size_t)nbytes, &err), &err);
                ok(sft_stream_add(stream, t, &o, got + at, (size_t)nbytes, &err), &err);
                at += nbytes;
                pieces++;
            }
            do {
                ok(sft_stream_next(stream, &item, &err), &err);
            } while (item.tensor != NULL);
            const sft_strategy used = sft_stream_strategy(stream, 0, &reason);
            assert_true(used == SFT_STRATEGY_READ || used == SFT_STRATEGY_DIRECT);
            assert_true(reason[0] != '\0');
            direct += used == SFT_STRATEGY_DIRECT;
            assert_true(how.strategy != SFT_STRATEGY_READ || used == SFT_STRATEGY_READ);
            assert_memory_equal(got, want, ROOM); /* gaps and what is behind them included */
            sft_stream_free(stream);
        }
        sft_catalog_close(c);
    }
    printf("%lu slices in streams, %u streams past the page cache\n", pieces, direct);
    sft_pool_free(pool);
    free(got);
    free(want);
}

/* ---------------------------------------------------------------- verification */

static void save_model(const char *path, uint32_t digests, uint32_t flags) {
    static uint8_t data[6][90000];
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    static const uint64_t sizes[] = {90000, 1, 0, 4096, 77777, 30};
    sft_save_tensor tensors[6];
    sft_write_options o;
    sft_error err;
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < 6; i++) {
        rnd_fill(data[i], (size_t)sizes[i]);
        tensors[i].name = names[i];
        tensors[i].name_len = 1;
        tensors[i].dtype = sft_dtype_get(SFT_U8);
        tensors[i].shape = &sizes[i];
        tensors[i].rank = 1;
        tensors[i].data = data[i];
        tensors[i].nbytes = sizes[i];
    }
    SFT_INIT(&o);
    o.digests = digests;
    o.flags = flags;
    o.durability = SFT_DURABLE_NONE;
    ok(sft_save(path, tensors, 6, NULL, 0, &o, &err), &err);
}

static void flip(const char *path, uint64_t offset) {
    uint8_t byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 64;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    assert_int_equal(close(fd), 0);
}

static void test_verify(void **state) {
    char path[1024], sidecar[1024];
    sft_pool *pool;
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    (void)snprintf(path, sizeof path, "%s", in_scratch("v.safetensors"));
    (void)snprintf(sidecar, sizeof sidecar, "%s", in_scratch("v.safetensors.digests.json"));
    for (unsigned k = 0; k < 32; k++) {
        const uint32_t digests = 1 + k % 3;
        sft_catalog *c;
        sft_loaded *l;
        sft_load_options o;
        sft_loaded_facts f;
        save_model(path, digests, k & 16 ? SFT_WRITE_DIGESTS_SIDECAR : 0);
        ok(sft_catalog_open(&c, path, NULL, &err), &err);
        SFT_INIT(&o);
        o.pool = k & 1 ? pool : NULL;
        o.strategy = (sft_strategy)(k / 2 % 4);
        o.flags = SFT_LOAD_VERIFY;
        o.digests = k & 8 ? SFT_DIGEST_SHA256 : 0;
        ok(sft_load(&l, c, &o, &err), &err);
        assert_int_equal(sft_loaded_verified(l), 6);
        sft_loaded_facts_get(l, sft_catalog_at(c, 2), &f);
        assert_true((f.verified & ~digests) == 0 && f.verified != 0);
        assert_int_equal(f.verified & SFT_DIGEST_CRC32C, digests & SFT_DIGEST_CRC32C);
        sft_loaded_free(l);
        /* the last byte of one tensor */
        const sft_tensor *t = sft_catalog_find(c, k & 4 ? "a" : "e", 1);
        flip(path, t->pieces[0].offset + t->nbytes - 1);
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_MISMATCH);
        assert_null(l);
        assert_string_equal(err.tensor, t->name);
        assert_int_equal(err.offset, t->pieces[0].offset);
        /* without the damaged one all is well */
        size_t select[5], n = 0;
        for (size_t i = 0; i < 6; i++) {
            if (sft_catalog_at(c, i) != t) {
                select[n++] = i;
            }
        }
        o.select = select;
        o.select_count = n;
        ok(sft_load(&l, c, &o, &err), &err);
        assert_int_equal(sft_loaded_verified(l), 5);
        sft_loaded_free(l);
        sft_catalog_close(c);
        (void)unlink(sidecar);
    }
    sft_catalog *c;
    sft_loaded *l;
    sft_load_options o;
    save_model(path, 0, 0);
    ok(sft_catalog_open(&c, path, NULL, &err), &err);
    SFT_INIT(&o);
    o.flags = SFT_LOAD_VERIFY;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_NOT_FOUND);
    assert_null(l);
    sft_catalog_close(c);
    sft_pool_free(pool);
}

/* Bytes told, and how many are enough. */
typedef struct told {
    uint64_t done;
    uint64_t enough;
    bool back; /* fewer than before */
    uint64_t total;
} told;

static int on_told(void *ctx, const sft_progress *progress) {
    told *t = ctx;
    t->back = t->back || progress->bytes_done < t->done;
    t->total = progress->bytes_total;
    t->done = progress->bytes_done;
    return t->done >= t->enough;
}

/* Many jobs, few or many threads: whoever compares, all is compared, the first damaged tensor of
 * the catalog is named, and the end can be asked for at any time. */
static void test_verify_shared(void **state) {
    enum { COUNT = 24, SIZE = 50001 };
    static uint8_t data[COUNT][SIZE];
    static const uint64_t shape = SIZE;
    sft_save_tensor tensors[COUNT];
    char path[1024], names[COUNT][2];
    sft_pool *pools[3] = {NULL, NULL, NULL};
    sft_write_options w;
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 2, NULL, &err), &err);
    ok(sft_pool_create(&pools[2], 8, NULL, &err), &err);
    (void)snprintf(path, sizeof path, "%s", in_scratch("shared.safetensors"));
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < COUNT; i++) {
        rnd_fill(data[i], SIZE);
        names[i][0] = (char)('a' + i);
        tensors[i].name = names[i];
        tensors[i].name_len = 1;
        tensors[i].dtype = sft_dtype_get(SFT_U8);
        tensors[i].shape = &shape;
        tensors[i].rank = 1;
        tensors[i].data = data[i];
        tensors[i].nbytes = SIZE;
    }
    SFT_INIT(&w);
    w.digests = SFT_DIGEST_CRC32C;
    w.durability = SFT_DURABLE_NONE;
    for (unsigned k = 0; k < 36; k++) {
        told t = {.enough = UINT64_MAX};
        const sft_control control = {sizeof control, on_told, &t};
        sft_load_options o;
        sft_catalog *c;
        sft_loaded *l;
        ok(sft_save(path, tensors, COUNT, NULL, 0, &w, &err), &err);
        ok(sft_catalog_open(&c, path, NULL, &err), &err);
        SFT_INIT(&o);
        o.flags = SFT_LOAD_VERIFY;
        o.pool = pools[k % 3];
        o.strategy = (sft_strategy)(SFT_STRATEGY_READ + k / 3 % 2);
        o.control = &control;
        ok(sft_load(&l, c, &o, &err), &err);
        assert_int_equal(sft_loaded_verified(l), COUNT);
        assert_true(t.done == (uint64_t)COUNT * SIZE && !t.back);
        for (size_t i = 0; i < COUNT; i++) {
            const sft_tensor *tensor = sft_catalog_at(c, i);
            sft_loaded_facts f;
            sft_loaded_facts_get(l, tensor, &f);
            assert_int_equal(f.crc32c, sft_crc32c(0, data[tensor->name[0] - 'a'], SIZE));
        }
        sft_loaded_free(l);
        t = (told){.enough = UINT64_MAX}; /* gaps are read, too, and are in the total */
        o.select = (const size_t[]){0, 2, 3, 6, 8};
        o.select_count = 5;
        ok(sft_load(&l, c, &o, &err), &err);
        assert_true(t.done > (uint64_t)5 * SIZE && t.done == t.total);
        sft_loaded_free(l);
        o.select = NULL;
        t = (told){.enough = (k + 1) * ((uint64_t)COUNT * SIZE / 36)};
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_CANCELLED);
        assert_null(l);
        const size_t damaged[] = {19, 7 + k % 5, 13};
        for (size_t i = 0; i < 3; i++) {
            flip(path, sft_catalog_at(c, damaged[i])->pieces[0].offset + k * 1000);
        }
        t = (told){.enough = UINT64_MAX};
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_MISMATCH);
        assert_string_equal(err.tensor, sft_catalog_at(c, damaged[1])->name);
        /* what cannot be read is said, not what differs */
        assert_int_equal(truncate(path, (off_t)sft_catalog_at(c, 20)->pieces[0].offset), 0);
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_TRUNCATED);
        assert_null(l);
        sft_catalog_close(c);
    }
    sft_pool_free(pools[1]);
    sft_pool_free(pools[2]);
}

/* ---------------------------------------------------------------- past the cache */

/* The same bytes past the page cache as through it. A file that is damaged or cut short is found. */
static void test_past_the_cache(void **state) {
    char path[1024];
    sft_pool *pool;
    sft_error err;
    (void)state;
    (void)snprintf(path, sizeof path, "%s", in_scratch("r.safetensors"));
    ok(sft_pool_create(&pool, 2, NULL, &err), &err);
    for (unsigned k = 0; k < 4; k++) {
        sft_load_options o;
        sft_catalog *c;
        sft_loaded *l;
        save_model(path, SFT_DIGEST_CRC32C, 0);
        ok(sft_catalog_open(&c, path, NULL, &err), &err);
        SFT_INIT(&o);
        o.strategy = SFT_STRATEGY_DIRECT;
        o.pool = k & 1 ? pool : NULL;
        o.flags = k & 2 ? SFT_LOAD_VERIFY : 0;
        ok(sft_load(&l, c, &o, &err), &err);
        for (size_t i = 0; i < sft_catalog_count(c); i++) {
            const sft_tensor *t = sft_catalog_at(c, i);
            uint8_t *want = malloc((size_t)t->nbytes + 1);
            ok(sft_tensor_read(c, t, NULL, want, (size_t)t->nbytes, &err), &err);
            assert_memory_equal(sft_loaded_data(l, t, NULL), want, (size_t)t->nbytes);
            free(want);
        }
        sft_loaded_free(l);
        const sft_tensor *t = sft_catalog_find(c, "a", 1);
        flip(path, t->pieces[0].offset + 70000);
        o.flags = SFT_LOAD_VERIFY;
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_MISMATCH);
        const sft_tensor *last = sft_catalog_at(c, sft_catalog_count(c) - 1);
        assert_int_equal(truncate(path, (off_t)(last->pieces[0].offset - 20000)), 0);
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_TRUNCATED);
        assert_null(l);
        o.strategy = SFT_STRATEGY_URING; /* a number that is taken, of a way that is gone */
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_UNSUPPORTED);
        assert_string_equal(err.message,
                            "reads by io_uring are no longer there: DIRECT is as fast");
        assert_null(l);
        sft_strategy_choice choice;
        assert_int_equal(sft_strategy_choose(c, 0, SFT_STRATEGY_URING, &choice, &err),
                         SFT_E_UNSUPPORTED);
        sft_catalog_close(c);
    }
    sft_pool_free(pool);
}

/* ---------------------------------------------------------------- selection */

static void test_select(void **state) {
    static const char text[] = "{\"a.0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"a.1\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"a.10\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"b[1]\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"c*\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    static const struct {
        const char *pattern;
        sft_match match;
        const char *found; /* names joined by | in file order; NULL: not found */
    } rows[] = {
        {"a.1", SFT_MATCH_NAME, "a.1"},
        {"a", SFT_MATCH_NAME, NULL},
        {"", SFT_MATCH_NAME, ""},
        {"a.1", SFT_MATCH_PREFIX, "a.1|a.10"},
        {"", SFT_MATCH_PREFIX, "*all*"},
        {"d", SFT_MATCH_PREFIX, NULL},
        {"a.?", SFT_MATCH_GLOB, "a.0|a.1"},
        {"a.*", SFT_MATCH_GLOB, "a.0|a.1|a.10"},
        {"*0", SFT_MATCH_GLOB, "a.0|a.10"},
        {"*", SFT_MATCH_GLOB, "*all*"},
        {"a.[1-9]*", SFT_MATCH_GLOB, "a.1|a.10"},
        {"a.[!1]", SFT_MATCH_GLOB, "a.0"},
        {"b\\[1]", SFT_MATCH_GLOB, "b[1]"},
        {"b[[]1]", SFT_MATCH_GLOB, "b[1]"},
        {"c\\*", SFT_MATCH_GLOB, "c*"},
        {"b[1", SFT_MATCH_GLOB, NULL},
        {"*.*.*", SFT_MATCH_GLOB, NULL},
        {"**1**", SFT_MATCH_GLOB, "a.1|a.10|b[1]"},
        {"b[1]", SFT_MATCH_GLOB, NULL},
        {"[]a]*", SFT_MATCH_GLOB, "a.0|a.1|a.10"},
    };
    uint8_t file[sizeof text + 8];
    size_t positions[6], count;
    sft_catalog *c;
    sft_error err;
    (void)state;
    memset(file, 0, 8);
    file[0] = (uint8_t)((sizeof text - 1) & 255);
    file[1] = (uint8_t)((sizeof text - 1) >> 8);
    memcpy(file + 8, text, sizeof text - 1);
    ok(sft_catalog_open_memory(&c, file, sizeof text + 7, NULL, &err), &err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sft_name name = {rows[i].pattern, strlen(rows[i].pattern)};
        const sft_status status = sft_catalog_select(c, &(sft_selection){&name, 1, rows[i].match},
                                                     positions, &count, &err);
        if (rows[i].found == NULL) {
            assert_int_equal(status, SFT_E_NOT_FOUND);
            assert_string_equal(err.tensor, rows[i].pattern[0] == 'b' && rows[i].pattern[1] == '\\'
                                                ? "b\\\\[1]"
                                                : rows[i].pattern);
            assert_int_equal(count, 0);
            continue;
        }
        char got[128] = "";
        ok(status, &err);
        for (size_t k = 0; k < count; k++) {
            assert_true(k == 0 || positions[k] > positions[k - 1]);
            strncat(got, k > 0 ? "|" : "", 2);
            strncat(got, sft_catalog_at(c, positions[k])->name, 16);
        }
        if (strcmp(rows[i].found, "*all*") == 0) {
            assert_int_equal(count, 6);
        } else if (strcmp(got, rows[i].found) != 0) {
            fail_msg("\"%s\" found \"%s\", not \"%s\"", rows[i].pattern, got, rows[i].found);
        }
    }
    const sft_name two[] = {{"a.10", 4}, {"a.0", 3}};
    ok(sft_catalog_select(c, &(sft_selection){two, 2, SFT_MATCH_NAME}, positions, &count, &err),
       &err);
    assert_int_equal(count, 2);
    assert_string_equal(sft_catalog_at(c, positions[0])->name, "a.0");
    ok(sft_catalog_select(c, &(sft_selection){NULL, 0, SFT_MATCH_NAME}, positions, &count, &err),
       &err);
    assert_int_equal(count, 0);
    assert_int_equal(
        sft_catalog_select(c, &(sft_selection){two, 2, (sft_match)3}, positions, &count, &err),
        SFT_E_ARG);
    assert_int_equal(
        sft_catalog_select(NULL, &(sft_selection){two, 2, SFT_MATCH_NAME}, positions, &count, &err),
        SFT_E_ARG);
    sft_catalog_close(c);
}

/* ---------------------------------------------------------------- what is refused */

static void test_refused(void **state) {
    const char *path = in_scratch("v.safetensors");
    uint8_t room[64];
    sft_catalog *c;
    sft_loaded *l;
    sft_load_options o;
    sft_error err;
    (void)state;
    save_model(path, 0, 0);
    ok(sft_catalog_open(&c, path, NULL, &err), &err);
    const size_t at = sft_catalog_index_of(c, sft_catalog_find(c, "f", 1)); /* 30 bytes of U8 */
    const size_t twice[] = {at, at};
    const sft_dtype *f64 = sft_dtype_get(SFT_F64), *f4 = sft_dtype_get(SFT_F4);
    const size_t b = sft_catalog_index_of(c, sft_catalog_find(c, "b", 1)); /* 1 byte */
    sft_load_place places[] = {{room, 29}, {room, 30}};
    SFT_INIT(&o);
    o.select = twice;
    o.select_count = 1;
    o.places = places;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    assert_string_equal(err.tensor, "f");
    places[0].size = 30;
    o.select_count = 2;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    o.select_count = 1;
    o.dtypes = &f64; /* 240 bytes now */
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    o.dtypes = NULL;
    ok(sft_load(&l, c, &o, &err), &err);
    sft_loaded_free(l);
    o.strategy = SFT_STRATEGY_MAP;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    o.places = NULL;
    o.dtypes = &f64;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_UNSUPPORTED);
    o.strategy = SFT_STRATEGY_READ;
    o.select = &b;
    o.dtypes = &f4; /* one element of half a byte */
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_SUBBYTE);
    assert_string_equal(err.tensor, "b");
    SFT_INIT(&o);
    o.digests = 4;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    o.digests = 0;
    o.flags = 16;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    memset(&o, 0, sizeof o);
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    assert_null(l);
    sft_catalog_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way),       cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_streamed_slices), cmocka_unit_test(test_past_the_cache),
        cmocka_unit_test(test_verify),          cmocka_unit_test(test_verify_shared),
        cmocka_unit_test(test_select),          cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_drop);
}
