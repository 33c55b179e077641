/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/test_load.c - <sft/load.h>: every strategy brings what sft_tensor_read brings,
 * whatever the offsets, the selection and the memory; and what happens when files shrink, change or
 * refuse. In this build jobs are 64 KiB and direct reads begin at 128 KiB.
 */
#include "unit/counting.h"
#include "unit/files.h"
#include "unit/move_util.h"

#include <sft/sft.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Direct reads as some file systems answer them, huge pages as some systems do. */
static int refuse_direct;
static int refuse_advice;

ssize_t pread(int fd, void *buf, size_t size, off_t offset) {
    if (refuse_direct && (fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
        errno = EINVAL;
        return -1;
    }
    const struct iovec one = {buf, size};
    return preadv(fd, &one, 1, offset);
}

int madvise(void *at, size_t size, int advice) {
    if (refuse_advice) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, at, size, advice);
}

/* A file of `count` tensors PREFIX0, PREFIX1 ... of random sizes below `most`, every fifth empty,
 * data at any offset. */
static void make_file(const char *name, const char *prefix, unsigned count, size_t most) {
    static char head[1 << 16];
    size_t n = 1, total = 0;
    head[0] = '{';
    for (unsigned i = 0; i < count; i++) {
        const size_t size = i % 5 == 4 ? 0 : rnd_below(most) + 1;
        n += (size_t)snprintf(
            head + n, sizeof head - n,
            "%s\"%s%u\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
            i ? "," : "", prefix, i, size, total, total + size);
        total += size;
    }
    n += (size_t)snprintf(head + n, sizeof head - n, "}%*s", (int)rnd_below(64), "");
    uint8_t *file = malloc(8 + n + total);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(file + 8, head, n);
    rnd_fill(file + 8 + n, total);
    file_put(in_scratch(name), file, 8 + n + total);
    free(file);
}

static sft_catalog *open_at(const char *path) {
    sft_catalog *c;
    sft_error err;
    ok(sft_catalog_open(&c, path, NULL, &err), &err);
    return c;
}

static sft_loaded *load_ok(const sft_catalog *c, const sft_load_options *o) {
    sft_loaded *l;
    sft_error err;
    ok(sft_load(&l, c, o, &err), &err);
    return l;
}

/* Compares every tensor that was selected; the others must not be there. */
static void assert_same(const sft_catalog *c, const sft_loaded *l, const sft_load_options *o) {
    const size_t count = sft_catalog_count(c);
    uint8_t *chosen = calloc(count, 1);
    uint64_t bytes = 0;
    size_t loaded = 0;
    assert_non_null(chosen);
    for (size_t i = 0; i < (o->select != NULL ? o->select_count : count); i++) {
        chosen[o->select != NULL ? o->select[i] : i] = 1;
    }
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(c, i);
        size_t size;
        sft_error err;
        const uint8_t *data = sft_loaded_data(l, t, &size);
        if (!chosen[i]) {
            assert_null(data);
            continue;
        }
        uint8_t *want = malloc((size_t)t->nbytes + 1);
        assert_non_null(want);
        assert_non_null(data);
        assert_int_equal(size, t->nbytes);
        ok(sft_tensor_read(c, t, NULL, want, (size_t)t->nbytes, &err), &err);
        if (memcmp(want, data, size) != 0) {
            fail_msg("tensor %s differs", t->name);
        }
        if (o->alignment != 0 && size != 0) {
            assert_int_equal((uintptr_t)data % o->alignment, 0);
        } else if (size != 0 && t->piece_count == 1 && sft_catalog_file_count(c) > 0 &&
                   t->pieces[0].strides == NULL && o->strategy != SFT_STRATEGY_MAP) {
            assert_int_equal((uintptr_t)data % 4096, t->pieces[0].offset % 4096);
        }
        free(want);
        bytes += size;
        loaded++;
    }
    assert_int_equal(sft_loaded_count(l), loaded);
    assert_int_equal(sft_loaded_bytes(l), bytes);
    free(chosen);
}

/* Large blocks end up 16 bytes before a page, where what is aligned behind a header shows. */
static void *skewed_alloc(void *ctx, size_t size) {
    uint8_t *whole = malloc(size + 8192);
    (void)ctx;
    if (whole == NULL) {
        return NULL;
    }
    uint8_t *p = whole + 16 + (4080 - ((uintptr_t)whole + 16) % 4096 + 4096) % 4096;
    memcpy(p - 8, &whole, sizeof whole);
    return p;
}

static void skewed_free(void *ctx, void *p, size_t size) {
    uint8_t *whole;
    (void)ctx;
    (void)size;
    if (p != NULL) {
        memcpy(&whole, (uint8_t *)p - 8, sizeof whole);
        free(whole);
    }
}

static void *skewed_resize(void *ctx, void *p, size_t old_size, size_t size) {
    void *fresh = skewed_alloc(ctx, size);
    if (fresh != NULL && p != NULL) {
        memcpy(fresh, p, old_size < size ? old_size : size);
        skewed_free(ctx, p, old_size);
    }
    return fresh;
}

static void test_equal(void **state) {
    static const sft_allocator skewed = {skewed_alloc, skewed_resize, skewed_free, NULL};
    static const uint32_t alignments[] = {0, 0, 1, 64, 4096};
    sft_pool *pool;
    sft_arena *grows, *over;
    sft_error err;
    size_t select[64];
    const size_t room = 24 << 20;
    uint8_t *memory = malloc(room);
    unsigned directs = 0;
    (void)state;
    assert_non_null(memory);
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    ok(sft_arena_create(&grows, 1 << 20, 0, NULL, &err), &err);
    ok(sft_arena_create_over(&over, memory + 13, room - 13, NULL, &err), &err);
    for (unsigned round = 0; round < 24; round++) {
        make_file("model-1.safetensors", "a", 30, 1 << 10);
        make_file("model-2.safetensors", "b", 20, (size_t)1 << (10 + round % 8));
        make_file("model-3.safetensors", "c", 7, 120 << 10);
        sft_catalog *c = open_at(scratch);
        sft_load_options o;
        SFT_INIT(&o);
        o.select_count = rnd_below(64);
        for (size_t i = 0; i < o.select_count; i++) {
            select[i] = rnd_below(sft_catalog_count(c)); /* any order, twice too */
        }
        for (unsigned k = 0; k < 16; k++) {
            sft_arena *const arenas[] = {NULL, grows, over};
            o.strategy = (sft_strategy)(k % 4);
            o.pool = k & 4 ? pool : NULL;
            o.select = k & 8 ? select : NULL;
            o.alignment = o.strategy == SFT_STRATEGY_MAP ? 0 : alignments[rnd_below(5)];
            o.flags = rnd_below(2) ? SFT_LOAD_POPULATE : 0;
            o.arena = arenas[rnd_below(3)];
            o.allocator = round % 2 != 0 ? &skewed : NULL;
            refuse_advice = rnd_below(4) == 0;
            sft_loaded *l = load_ok(c, &o);
            refuse_advice = 0;
            assert_same(c, l, &o);
            for (size_t f = 0; f < 3; f++) {
                const char *reason = NULL;
                const sft_strategy used = sft_loaded_strategy(l, f, &reason);
                assert_true(reason != NULL && reason[0] != '\0');
                directs += used == SFT_STRATEGY_DIRECT;
                if (used != SFT_STRATEGY_AUTO && o.strategy <= SFT_STRATEGY_MAP) {
                    assert_int_equal(used == SFT_STRATEGY_MAP, o.strategy == SFT_STRATEGY_MAP);
                }
            }
            sft_loaded_free(l);
            if (k % 3 == 2) {
                sft_arena_reset(grows);
                sft_arena_reset(over);
            }
        }
        sft_arena_reset(grows);
        sft_arena_reset(over);
        sft_catalog_close(c);
    }
    sft_catalog *c = open_at(scratch);
    sft_strategy_choice choice;
    ok(sft_strategy_choose(c, 2, SFT_STRATEGY_DIRECT, &choice, &err), &err);
    if (choice.strategy == SFT_STRATEGY_DIRECT) { /* else this file system has no such reads */
        assert_true(directs > 50);
    }
    assert_int_equal(sft_strategy_choose(c, 3, SFT_STRATEGY_AUTO, &choice, &err), SFT_E_RANGE);
    sft_catalog_close(c);
    sft_arena_free(grows);
    sft_arena_free(over);
    sft_pool_free(pool);
    free(memory);
}

static void test_choice(void **state) {
    sft_strategy_choice choice;
    sft_error err;
    (void)state;
    make_file("m.safetensors", "t", 12, 100 << 10);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    ok(sft_strategy_choose(c, 0, SFT_STRATEGY_READ, &choice, &err), &err);
    assert_int_equal(choice.strategy, SFT_STRATEGY_READ);
    ok(sft_strategy_choose(c, 0, SFT_STRATEGY_AUTO, &choice, &err),
       &err); /* just written: cached */
    assert_int_equal(choice.strategy, SFT_STRATEGY_READ);
    assert_true(choice.cached == -1 || choice.cached > 90);
    sft_catalog_close(c);
    make_file("s.safetensors", "t", 3, 100);
    c = open_at(in_scratch("s.safetensors"));
    ok(sft_strategy_choose(c, 0, SFT_STRATEGY_AUTO, &choice, &err), &err);
    assert_int_equal(choice.strategy, SFT_STRATEGY_READ);
    sft_catalog_close(c);
}

static void test_direct_refused(void **state) {
    const char *reason;
    sft_load_options o;
    (void)state;
    make_file("m.safetensors", "t", 12, 100 << 10);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    SFT_INIT(&o);
    o.strategy = SFT_STRATEGY_DIRECT;
    refuse_direct = 1;
    sft_loaded *l = load_ok(c, &o);
    refuse_direct = 0;
    assert_same(c, l, &o);
    assert_int_equal(sft_loaded_strategy(l, 0, &reason), SFT_STRATEGY_READ);
    assert_true(strstr(reason, "refused") != NULL || strstr(reason, "no direct reads") != NULL);
    sft_loaded_free(l);
    sft_catalog_close(c);
}

static void test_tmpfs(void **state) {
    char path[64];
    const char *reason;
    size_t size;
    sft_load_options o;
    (void)state;
    make_file("m.safetensors", "t", 12, 100 << 10);
    (void)snprintf(path, sizeof path, "/dev/shm/sft-load-%ld.safetensors", (long)getpid());
    char *data = file_get(in_scratch("m.safetensors"), &size);
    if (access("/dev/shm", W_OK) != 0) {
        (void)snprintf(path, sizeof path, "%s",
                       in_scratch("n.safetensors")); /* the rest still holds */
    }
    file_put(path, data, size);
    free(data);
    sft_catalog *c = open_at(path);
    assert_int_equal(unlink(path), 0);
    SFT_INIT(&o);
    o.strategy = SFT_STRATEGY_DIRECT;
    sft_loaded *l = load_ok(c, &o);
    assert_same(c, l, &o);
    if (strncmp(path, "/dev/shm", 8) == 0) {
        assert_int_equal(sft_loaded_strategy(l, 0, &reason), SFT_STRATEGY_READ);
        assert_string_equal(reason, "the file is in memory already");
    }
    sft_loaded_free(l);
    sft_catalog_close(c);
}

static void test_truncated(void **state) {
    sft_pool *pool;
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pool, 2, NULL, &err), &err);
    for (unsigned k = 0; k < 6; k++) {
        struct stat st;
        sft_load_options o;
        sft_loaded *l = (sft_loaded *)&st;
        make_file("m.safetensors", "t", 12, 100 << 10);
        const char *path = in_scratch("m.safetensors");
        sft_catalog *c = open_at(path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size - 1 - (k & 1) * 70000), 0);
        SFT_INIT(&o);
        o.strategy = (sft_strategy)(1 + k / 2);
        o.pool = k & 1 ? pool : NULL;
        o.flags = SFT_LOAD_POPULATE;
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_TRUNCATED);
        assert_null(l);
        sft_catalog_close(c);
    }
    sft_pool_free(pool);
}

typedef struct seen {
    uint64_t done;
    uint64_t total;
    uint64_t stop_at;  /* cancel from so many bytes on */
    const char *touch; /* file whose time changes at the first call */
} seen;

static int on_poll(void *ctx, const sft_progress *p) {
    seen *s = ctx;
    assert_true(p->bytes_done >= s->done);
    s->done = p->bytes_done;
    s->total = p->bytes_total;
    if (s->touch != NULL) {
        const struct timespec times[2] = {{1000, 0}, {2000, 0}};
        assert_int_equal(utimensat(AT_FDCWD, s->touch, times, 0), 0);
        s->touch = NULL;
    }
    return p->bytes_done >= s->stop_at;
}

static void test_control(void **state) {
    sft_pool *pool;
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    make_file("m.safetensors", "t", 30, 100 << 10);
    const char *path = in_scratch("m.safetensors");
    sft_catalog *c = open_at(path);
    for (unsigned k = 0; k < 8; k++) {
        seen s = {0, 0, UINT64_MAX, NULL};
        sft_control control = {sizeof control, on_poll, &s};
        sft_load_options o;
        sft_loaded *l;
        SFT_INIT(&o);
        o.control = &control;
        o.strategy = k & 2 ? SFT_STRATEGY_DIRECT : SFT_STRATEGY_READ;
        o.alignment = k & 4 ? 64 : 0;
        o.pool = k & 1 ? pool : NULL;
        l = load_ok(c, &o);
        assert_int_equal(s.done, sft_loaded_bytes(l)); /* no gaps in such a file */
        assert_int_equal(s.total, sft_loaded_bytes(l));
        sft_loaded_free(l);
        s = (seen){0, 0, 200000, NULL};
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_CANCELLED);
        assert_null(l);
        assert_true(s.done < s.total);
        s = (seen){0, 0, UINT64_MAX, path};
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_CHANGED);
        assert_null(l);
        assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
    }
    sft_catalog_close(c);
    sft_pool_free(pool);
}

static void test_no_memory(void **state) {
    sft_error err;
    (void)state;
    make_file("m.safetensors", "t", 40, 4 << 10);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    for (unsigned k = 0; k < 2; k++) {
        size_t at = 1;
        for (sft_status status = SFT_E_NOMEM; status != SFT_OK; at++) {
            counting a;
            sft_load_options o;
            sft_loaded *l;
            counting_init(&a);
            a.fail_from = at;
            SFT_INIT(&o);
            o.allocator = &a.allocator;
            o.alignment = k * 64;
            status = sft_load(&l, c, &o, &err);
            if (status != SFT_OK) {
                assert_int_equal(status, SFT_E_NOMEM);
                assert_null(l);
            } else {
                assert_same(c, l, &o);
            }
            sft_loaded_free(l);
            assert_all_given_back(&a);
        }
        assert_true(at > 6);
    }
    sft_catalog_close(c);
}

static void test_arena(void **state) {
    uint8_t small[9000];
    sft_arena *arena;
    sft_load_options o;
    sft_loaded *l;
    sft_error err;
    (void)state;
    make_file("m.safetensors", "t", 30, 100 << 10);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    const sft_tensor *t = sft_catalog_at(c, 1);
    SFT_INIT(&o);
    ok(sft_arena_create(&arena, 0, 0, NULL, &err), &err);
    assert_int_equal(sft_arena_size(arena), 0);
    o.arena = arena;
    sft_loaded *first = load_ok(c, &o);
    sft_loaded *second = load_ok(c, &o); /* the first one stays */
    assert_same(c, first, &o);
    assert_same(c, second, &o);
    sft_loaded_free(first);
    sft_loaded_free(second);
    sft_arena_reset(arena);
    const size_t size = sft_arena_size(arena);
    assert_true(size > 1 << 20);
    first = load_ok(c, &o);
    const void *where = sft_loaded_data(first, t, NULL);
    sft_loaded_free(first);
    sft_arena_reset(arena);
    first = load_ok(c, &o);
    assert_ptr_equal(sft_loaded_data(first, t, NULL), where);
    assert_int_equal(sft_arena_size(arena), size);
    sft_loaded_free(first);
    sft_arena_free(arena);

    o.memory_bytes = 4096;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_LIMIT);
    o.memory_bytes = 0;
    for (size_t room = 0; room <= sizeof small; room += 3000) {
        ok(sft_arena_create_over(&arena, small, room, NULL, &err), &err);
        o.arena = arena;
        assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_NOMEM);
        assert_null(l);
        sft_arena_free(arena);
    }
    assert_int_equal(sft_arena_create(&arena, SIZE_MAX / 8 * 7, 0, NULL, &err), SFT_E_NOMEM);
    assert_null(arena);
    assert_int_equal(sft_arena_create(&arena, SIZE_MAX, 0, NULL, &err), SFT_E_NOMEM);
    assert_int_equal(sft_arena_create(&arena, 0, 1, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_arena_create_over(&arena, NULL, 1, NULL, &err), SFT_E_ARG);
    sft_arena_free(NULL);
    sft_loaded_free(NULL);
    const size_t far[] = {0, 30};
    SFT_INIT(&o);
    o.select = far;
    o.select_count = 2;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_RANGE);
    o.select_count = 0; /* nothing at all */
    l = load_ok(c, &o);
    assert_same(c, l, &o);
    assert_int_equal(sft_loaded_strategy(l, 0, NULL), SFT_STRATEGY_AUTO);
    sft_loaded_free(l);
    o.alignment = 48;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    o.alignment = 8192;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    o.alignment = 0;
    o.strategy = (sft_strategy)5;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_ARG);
    sft_catalog_close(c);
}

/* Sources that are no files, and tensors that do not lie in one piece. */
static void test_other_sources(void **state) {
    sft_error err;
    size_t size;
    (void)state;
    make_file("m.safetensors", "t", 30, 60 << 10);
    uint8_t *data = (uint8_t *)file_get(in_scratch("m.safetensors"), &size);
    for (unsigned k = 0; k < 4; k++) {
        own_source own;
        sft_load_options o;
        sft_catalog *c;
        SFT_INIT(&o);
        o.strategy = k == 3 ? SFT_STRATEGY_DIRECT : SFT_STRATEGY_AUTO;
        if (k == 0) {
            ok(sft_catalog_open_memory(&c, data, size, NULL, &err), &err);
        } else {
            c = own_open(&own, data, size, k == 1 ? SFT_SOURCE_SEQUENTIAL : SFT_SOURCE_REMOTE);
        }
        sft_loaded *l = load_ok(c, &o);
        assert_true(k != 1 || (own.reads == 1 && !own.went_back));
        assert_int_equal(sft_loaded_strategy(l, 0, NULL), SFT_STRATEGY_READ);
        assert_same(c, l, &o);
        sft_loaded_free(l);
        o.strategy = SFT_STRATEGY_MAP;
        if (k == 0) {
            l = load_ok(c, &o);
            assert_same(c, l, &o);
            sft_loaded_free(l);
        } else {
            assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_UNSUPPORTED);
            own.fail_from = size - 1;
            o.strategy = SFT_STRATEGY_READ;
            assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_TRUNCATED);
        }
        sft_catalog_close(c);
    }
    free(data);
}

static void test_pieces(void **state) {
    static const uint64_t shape[2] = {6, 500}, start[2] = {3, 0}, half[2] = {3, 500};
    static const int64_t column[2] = {1, 6}; /* column-major */
    uint8_t bytes[9000];
    sft_error err;
    sft_builder *b;
    sft_source *source;
    sft_catalog *c;
    sft_load_options o;
    (void)state;
    rnd_fill(bytes, sizeof bytes);
    const sft_piece two[2] = {{.offset = 5000, .nbytes = 1500, .count = half},
                              {.offset = 1000, .nbytes = 1500, .start = start, .count = half}};
    const sft_piece strided = {.offset = 6000, .nbytes = 3000, .strides = column};
    const sft_piece plain = {.offset = 77, .nbytes = 3000};
    const sft_piece *pieces[] = {two, &strided, &plain};
    ok(sft_builder_create(&b, NULL, &err), &err);
    ok(sft_source_open_memory(&source, bytes, sizeof bytes, NULL, &err), &err);
    ok(sft_builder_add_source(b, source, NULL, &err), &err);
    const sft_file file = {.path = "f", .size = sizeof bytes, .data_bytes = sizeof bytes};
    ok(sft_builder_add_file(b, &file, NULL, &err), &err);
    for (unsigned i = 0; i < 3; i++) {
        const char *const names[] = {"two", "strided", "plain"};
        sft_tensor t = {.name = names[i], .name_len = strlen(names[i])};
        t.dtype = sft_dtype_find("U8", 2);
        t.shape = shape;
        t.rank = 2;
        t.pieces = pieces[i];
        t.piece_count = i == 0 ? 2 : 1;
        ok(sft_builder_add_tensor(b, &t, &err), &err);
    }
    ok(sft_builder_finish(&c, b, &err), &err);
    sft_builder_free(b);
    for (unsigned k = 0; k < 3; k++) {
        SFT_INIT(&o);
        o.alignment = k == 1 ? 256 : k;
        sft_loaded *l = load_ok(c, &o);
        assert_same(c, l, &o);
        sft_loaded_free(l);
    }
    o.strategy = SFT_STRATEGY_MAP;
    sft_loaded *l;
    assert_int_equal(sft_load(&l, c, &o, &err), SFT_E_UNSUPPORTED);
    sft_catalog_close(c);
}

#define T(f) cmocka_unit_test_setup(f, scratch_clear)

int main(void) {
    const struct CMUnitTest tests[] = {T(test_equal),     T(test_choice),    T(test_direct_refused),
                                       T(test_tmpfs),     T(test_truncated), T(test_control),
                                       T(test_no_memory), T(test_arena),     T(test_other_sources),
                                       T(test_pieces)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_drop);
}
