/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of catalogs over one file: every way to open it, what it answers, limits, faults,
 * threads.
 */
#include "unit/cm.h"
#include "unit/counting.h"
#include "unit/folder.h"

#include "base/thread/thread.h"
#include <errno.h>
#include <sft/extend.h>
#include <sft/sft.h>
#include <unistd.h>

static char tmp[64];

#define TWO                                                                                        \
    "{\"__metadata__\":{\"format\":\"pt\",\"a\\u0000b\":\"\"},"                                    \
    "\"second\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"                      \
    "\"first\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}"
enum { TWO_DATA = 32 };

static int setup(void **state) {
    (void)state;
    folder_make(tmp);
    write_tensors(in_folder(tmp, "two.safetensors"), TWO, TWO_DATA);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    folder_remove(tmp);
    return 0;
}

static const char *two(void) {
    return in_folder(tmp, "two.safetensors");
}

static size_t two_bytes(uint8_t bytes[1024]) {
    return file_bytes(bytes, TWO, TWO_DATA);
}

static void assert_two(const sft_catalog *c, const char *path) {
    const uint64_t begin = 8 + strlen(TWO);
    const sft_tensor *first = sft_catalog_at(c, 0);
    const sft_tensor *second = sft_catalog_at(c, 1);
    const char *key;
    const char *value;
    size_t key_len;
    size_t value_len;

    assert_int_equal(sft_catalog_count(c), 2);
    assert_null(sft_catalog_at(c, 2));
    assert_string_equal(first->name, "first");
    assert_int_equal(first->dtype->id, SFT_I64);
    assert_int_equal(first->rank, 0);
    assert_non_null(first->shape);
    assert_int_equal(first->nbytes, 8);
    assert_string_equal(second->name, "second");
    assert_int_equal(second->rank, 2);
    assert_int_equal(second->shape[0], 2);
    assert_int_equal(second->shape[1], 3);
    assert_int_equal(second->piece_count, 1);
    assert_int_equal(second->pieces[0].offset, begin + 8);
    assert_int_equal(second->pieces[0].nbytes, 24);
    assert_int_equal(second->pieces[0].source, 0);
    assert_int_equal(second->file, 0);
    assert_null(second->pieces[0].strides);

    assert_ptr_equal(sft_catalog_find(c, "second", 6), second);
    assert_null(sft_catalog_find(c, "second", 5));
    assert_null(sft_catalog_find(c, "", 0));
    assert_null(sft_catalog_find(c, NULL, 0));
    assert_int_equal(sft_catalog_index_of(c, second), 1);

    const sft_file *f = sft_catalog_file_at(c, 0);
    assert_int_equal(sft_catalog_file_count(c), 1);
    assert_null(sft_catalog_file_at(c, 1));
    assert_string_equal(f->path, path);
    assert_int_equal(f->header_bytes, strlen(TWO));
    assert_int_equal(f->data_offset, begin);
    assert_int_equal(f->data_bytes, TWO_DATA);
    assert_int_equal(f->size, begin + TWO_DATA);
    assert_int_equal(f->tensor_count, 2);
    assert_int_equal(f->has_metadata, 1);
    assert_int_equal(sft_catalog_source_count(c), 1);
    assert_int_equal(sft_source_size(sft_catalog_source_at(c, 0)), begin + TWO_DATA);
    assert_null(sft_catalog_source_at(c, 1));

    assert_int_equal(sft_catalog_metadata_count(c, 0), 2);
    assert_int_equal(sft_catalog_metadata_count(c, 1), 0);
    assert_int_equal(sft_catalog_metadata_at(c, 0, 1, &key, &key_len, &value, &value_len), SFT_OK);
    assert_int_equal(key_len, 3);
    assert_memory_equal(key, "a\0b", 4);
    assert_int_equal(value_len, 0);
    assert_string_equal(value, "");
    assert_int_equal(sft_catalog_metadata_at(c, 0, 0, NULL, NULL, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_metadata_at(c, 0, 2, &key, NULL, NULL, NULL), SFT_E_RANGE);
    assert_int_equal(sft_catalog_metadata_at(c, 1, 0, &key, NULL, NULL, NULL), SFT_E_RANGE);
    assert_string_equal(sft_catalog_metadata_find(c, 0, "format", 6, &value_len), "pt");
    assert_int_equal(value_len, 2);
    assert_string_equal(sft_catalog_metadata_find(c, 0, "a\0b", 3, NULL), "");
    assert_null(sft_catalog_metadata_find(c, 0, "a", 1, NULL));
    assert_null(sft_catalog_metadata_find(c, 1, "format", 6, NULL));

    assert_int_equal(sft_catalog_problem_count(c), 0);
    assert_null(sft_catalog_problem_at(c, 0));
    assert_int_equal(sft_catalog_alias_count(c), 0);
    assert_null(sft_catalog_alias_at(c, 0, NULL, NULL));
}

static sft_status open_fd(sft_catalog **out, int fd, const sft_open_options *o, sft_error *err) {
    sft_source *source;
    const sft_status status =
        sft_source_open_fd(&source, fd, o != NULL ? o->access : SFT_ACCESS_AUTO, NULL, err);
    return status == SFT_OK ? sft_catalog_open_source(out, source, o, err) : status;
}

static void every_way_gives_the_same_catalog(void **state) {
    (void)state;
    uint8_t bytes[1024];
    const size_t size = two_bytes(bytes);
    static const sft_access all[] = {SFT_ACCESS_AUTO, SFT_ACCESS_READ, SFT_ACCESS_MAP};
    sft_catalog *c;
    sft_error err;
    for (size_t i = 0; i < 3; i++) {
        sft_open_options o;
        SFT_INIT(&o);
        o.access = all[i];
        assert_int_equal(sft_catalog_open(&c, two(), &o, &err), SFT_OK);
        assert_two(c, two());
        sft_catalog_close(c);
        const int fd = open(two(), O_RDONLY);
        assert_int_equal(open_fd(&c, fd, &o, &err), SFT_OK);
        (void)close(fd);
        assert_two(c, "descriptor");
        sft_catalog_close(c);
    }
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, NULL, &err), SFT_OK);
    assert_two(c, "memory");
    sft_catalog_close(c);
    sft_source *s;
    assert_int_equal(sft_source_open(&s, two(), SFT_ACCESS_AUTO, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_open_source(&c, s, NULL, &err), SFT_OK);
    assert_two(c, two());
    sft_catalog_close(c);
    assert_int_equal(symlink("two.safetensors", in_folder(tmp, "link")), 0);
    assert_int_equal(sft_catalog_open(&c, in_folder(tmp, "link"), NULL, &err), SFT_OK);
    assert_two(c, in_folder(tmp, "link"));
    sft_catalog_close(c);
    sft_catalog_close(NULL);
}

/* Headers around the sizes that are read at once. */
static void headers_of_every_size(void **state) {
    (void)state;
    static const size_t sizes[] = {2,    3,    100,   4086,  4087,  4088,  4089,  4090,
                                   4096, 8192, 65527, 65528, 65529, 65536, 70000, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *header = malloc(sizes[i] + 1);
        sft_catalog *c;
        sft_error err;
        sft_open_options o;
        SFT_INIT(&o);
        memset(header, ' ', sizes[i]);
        header[0] = '{';
        header[sizes[i] - 1] = '}';
        header[sizes[i]] = '\0';
        write_tensors(in_folder(tmp, "sized"), header, 0);
        assert_int_equal(sft_catalog_open(&c, in_folder(tmp, "sized"), &o, &err), SFT_OK);
        assert_int_equal(sft_catalog_count(c), 0);
        assert_int_equal(sft_catalog_file_at(c, 0)->header_bytes, sizes[i]);
        assert_int_equal(sft_catalog_file_at(c, 0)->has_metadata, 0);
        assert_null(sft_catalog_find(c, "x", 1));
        sft_catalog_close(c);
        free(header);
    }
}

static void bad_files_say_why(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        sft_status status;
    } cases[] = {
        {"", 0, SFT_E_TOO_SMALL},
        {"1234567", 7, SFT_E_TOO_SMALL},
        {"\2\0\0\0\0\0\0\0{}", 10, SFT_OK},
        {"\2\0\0\0\0\0\0\0{", 9, SFT_E_HEADER_PAST_END},
        {"\2\0\0\0\0\0\0\0{}x", 11, SFT_E_COVERAGE},
        {"\2\0\0\0\0\0\0\1{}", 10, SFT_E_HEADER_TOO_LARGE},
        {"version https://git-lfs", 23, SFT_E_HEADER_TOO_LARGE},
        {"{\"weight_map\"", 13, SFT_E_HEADER_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sft_catalog *c = (sft_catalog *)1;
        sft_error err;
        const char *path = in_folder(tmp, "bad.safetensors");
        write_file(path, cases[i].bytes, cases[i].size);
        for (int way = 0; way < 2; way++) {
            const sft_status st =
                way == 0 ? sft_catalog_open(&c, path, NULL, &err)
                         : sft_catalog_open_memory(&c, cases[i].bytes, cases[i].size, NULL, &err);
            assert_int_equal(st, cases[i].status);
            if (st != SFT_OK) {
                assert_null(c);
                assert_int_equal(err.status, st);
                assert_true(err.message[0] != '\0');
            }
            sft_catalog_close(c);
        }
    }
}

static void bad_arguments(void **state) {
    (void)state;
    sft_catalog *c = (sft_catalog *)1;
    sft_error err;
    sft_open_options o = {0};
    sft_limits l = {0};
    uint8_t bytes[1024];
    const size_t size = two_bytes(bytes);
    assert_int_equal(sft_catalog_open(&c, NULL, NULL, &err), SFT_E_ARG);
    assert_null(c);
    assert_int_equal(sft_catalog_open(NULL, "x", NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_catalog_open_memory(&c, NULL, 3, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_catalog_open_source(&c, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(open_fd(&c, -1, NULL, &err), SFT_E_IO);
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_E_ARG);
    SFT_INIT(&o);
    o.limits = &l;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_E_ARG);
    SFT_INIT(&l);
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_OK);
    sft_catalog_close(c);
    o.flags = 1u << 31;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_E_ARG);
    o.flags = 0;
    o.access = (sft_access)7;
    assert_int_equal(sft_catalog_open(&c, two(), &o, &err), SFT_E_ARG);
    assert_null(c);
    assert_int_equal(sft_catalog_open(&c, in_folder(tmp, "absent"), NULL, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(mkfifo(in_folder(tmp, "fifo.safetensors"), 0600), 0);
    assert_int_equal(sft_catalog_open(&c, in_folder(tmp, "fifo.safetensors"), NULL, &err),
                     SFT_E_NOT_REGULAR);
    assert_int_equal(unlink(in_folder(tmp, "fifo.safetensors")), 0);
}

static void limits_are_kept(void **state) {
    (void)state;
    uint8_t bytes[1024];
    const size_t size = two_bytes(bytes);
    sft_catalog *c;
    sft_error err;
    sft_open_options o;
    sft_limits l;
    SFT_INIT(&o);
    SFT_INIT(&l);
    o.limits = &l;
    l.header_bytes = strlen(TWO) - 1;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_E_HEADER_TOO_LARGE);
    l.header_bytes = strlen(TWO);
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_OK);
    sft_catalog_close(c);
    l.header_bytes = UINT64_MAX;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_OK);
    sft_catalog_close(c);
    l.tensors = 1;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_E_LIMIT);
    l.tensors = 0;
    l.rank = 1;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_E_LIMIT);
    l.rank = 0;
    for (l.memory_bytes = 1; l.memory_bytes < 60000; l.memory_bytes += 97) {
        counting count;
        counting_init(&count);
        o.allocator = &count.allocator;
        const sft_status st = sft_catalog_open_memory(&c, bytes, size, &o, &err);
        assert_true(st == SFT_OK || st == SFT_E_LIMIT);
        /* the object and its source are small and not counted as held for the header */
        assert_true(count.peak <= l.memory_bytes + 2048);
        sft_catalog_close(c);
        assert_all_given_back(&count);
    }
    o.allocator = NULL;
    assert_int_equal(sft_catalog_open_memory(&c, bytes, size, &o, &err), SFT_OK);
    sft_catalog_close(c);
}

static void a_small_options_struct_of_an_older_caller(void **state) {
    (void)state;
    sft_catalog *c;
    sft_open_options o;
    SFT_INIT(&o);
    o.struct_size = offsetof(sft_open_options, access);
    o.access = (sft_access)99; /* behind the size: not looked at */
    o.flags = ~0u;
    assert_int_equal(sft_catalog_open(&c, two(), &o, NULL), SFT_OK);
    assert_two(c, two());
    sft_catalog_close(c);
}

/* ---------------------------------------------------------------- faults */

typedef struct own {
    const uint8_t *bytes;
    size_t size;
    size_t reads;
    size_t fail_at;
    size_t closes;
} own;

static sft_status own_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    own *o = self;
    if (++o->reads == o->fail_at) {
        return sft_error_at(err, SFT_E_TRUNCATED, offset, NULL, 0, "the line went dead");
    }
    assert_true(offset + size <= o->size);
    memcpy(dst, o->bytes + offset, size);
    return SFT_OK;
}

static void own_close(void *self) {
    ((own *)self)->closes++;
}

static void own_sources_are_taken_over_in_every_case(void **state) {
    (void)state;
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = own_read, .close = own_close};
    char header[70001];
    memset(header, ' ', 70000);
    header[70000] = '\0';
    header[0] = '{';
    header[69999] = '}';
    uint8_t *bytes = malloc(80000);
    const size_t size = file_bytes(bytes, header, 0);
    for (uint32_t flags = 0; flags <= SFT_SOURCE_REMOTE; flags += SFT_SOURCE_REMOTE) {
        for (size_t fail = 0; fail <= 2; fail++) {
            own o = {bytes, size, 0, fail, 0};
            sft_source *s;
            sft_catalog *c;
            sft_error err;
            assert_int_equal(sft_source_create(&s, &vtable, &o,
                                               &(sft_source_info){size, flags, "far", NULL}, &err),
                             SFT_OK);
            const sft_status st = sft_catalog_open_source(&c, s, NULL, &err);
            assert_int_equal(st, fail == 0 ? SFT_OK : SFT_E_TRUNCATED);
            assert_int_equal(o.reads, fail == 0 ? 2 : fail);
            assert_int_equal(o.closes, fail == 0 ? 0 : 1);
            if (fail != 0) {
                assert_string_equal(err.message, "the line went dead");
            }
            sft_catalog_close(c);
            assert_int_equal(o.closes, 1);
        }
        own o = {bytes, size, 0, 0, 0};
        sft_open_options bad = {0};
        sft_source *s;
        sft_catalog *c;
        assert_int_equal(
            sft_source_create(&s, &vtable, &o, &(sft_source_info){size, flags, "far", NULL}, NULL),
            SFT_OK);
        assert_int_equal(sft_catalog_open_source(&c, s, &bad, NULL), SFT_E_ARG);
        assert_int_equal(o.closes, 1);
        assert_int_equal(
            sft_source_create(&s, &vtable, &o, &(sft_source_info){size, flags, "far", NULL}, NULL),
            SFT_OK);
        assert_int_equal(sft_catalog_open_source(NULL, s, NULL, NULL), SFT_E_ARG);
        assert_int_equal(o.closes, 2);
    }
    free(bytes);
}

/* A small file behind a slow line costs one round trip. */
static void a_remote_header_is_one_read(void **state) {
    (void)state;
    const sft_source_vtable vtable = {.struct_size = sizeof vtable, .read_at = own_read};
    uint8_t bytes[1024];
    own o = {bytes, two_bytes(bytes), 0, 0, 0};
    sft_source *s;
    sft_catalog *c;
    assert_int_equal(sft_source_create(&s, &vtable, &o,
                                       &(sft_source_info){o.size, SFT_SOURCE_REMOTE, "far", NULL},
                                       NULL),
                     SFT_OK);
    assert_int_equal(sft_catalog_open_source(&c, s, NULL, NULL), SFT_OK);
    assert_two(c, "far");
    assert_int_equal(o.reads, 1);
    sft_catalog_close(c);
}

static sft_status open_way(int way, sft_catalog **c, const sft_open_options *o,
                           const uint8_t *bytes, size_t size, sft_error *err) {
    sft_status st;
    if (way == 0) {
        return sft_catalog_open(c, two(), o, err);
    }
    if (way == 1) {
        return sft_catalog_open_memory(c, bytes, size, o, err);
    }
    if (way == 2) {
        const int fd = open(two(), O_RDONLY);
        st = open_fd(c, fd, o, err);
        (void)close(fd);
        return st;
    }
    own *mine = calloc(1, sizeof *mine);
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = own_read, .close = free};
    sft_source *s;
    mine->bytes = bytes;
    mine->size = size;
    st = sft_source_create(&s, &vtable, mine,
                           &(sft_source_info){size, SFT_SOURCE_REMOTE, "x", o->allocator}, err);
    if (st != SFT_OK) {
        free(mine);
        *c = NULL;
        return st;
    }
    return sft_catalog_open_source(c, s, o, err);
}

static size_t open_descriptors(void) {
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    uint8_t bytes[1024];
    const size_t size = two_bytes(bytes);
    const size_t descriptors = open_descriptors();
    for (int way = 0; way < 4; way++) {
        size_t failures = 0;
        for (size_t k = 1;; k++) {
            counting count;
            sft_catalog *c = (sft_catalog *)1;
            sft_error err;
            sft_open_options o;
            SFT_INIT(&o);
            counting_init(&count);
            count.fail_from = k;
            count.fail_count = SIZE_MAX - k; /* and every one after it */
            o.allocator = &count.allocator;
            const sft_status st = open_way(way, &c, &o, bytes, size, &err);
            if (st == SFT_OK) {
                assert_two(c, sft_catalog_file_at(c, 0)->path);
                sft_catalog_close(c);
                assert_all_given_back(&count);
                break;
            }
            assert_int_equal(st, SFT_E_NOMEM);
            assert_int_equal(err.status, SFT_E_NOMEM);
            assert_null(c);
            assert_all_given_back(&count);
            failures++;
        }
        assert_true(failures >= 4);
    }
    assert_int_equal(open_descriptors(), descriptors);
}

static void a_file_that_shrinks_after_opening(void **state) {
    (void)state;
    sft_catalog *c;
    sft_error err;
    uint8_t buf[24];
    const char *path = in_folder(tmp, "shrinks");
    write_tensors(path, TWO, TWO_DATA);
    sft_open_options o;
    SFT_INIT(&o);
    o.access = SFT_ACCESS_MAP;
    assert_int_equal(sft_catalog_open(&c, path, &o, &err), SFT_OK);
    const sft_tensor *t = sft_catalog_find(c, "second", 6);
    const sft_source *s = sft_catalog_source_at(c, t->pieces[0].source);
    assert_int_equal(sft_source_read(s, t->pieces[0].offset, buf, 24, &err), SFT_OK);
    assert_int_equal(buf[0], 8 * 7 + 1);
    assert_int_equal(truncate(path, (off_t)t->pieces[0].offset + 5), 0);
    assert_int_equal(sft_source_read(s, t->pieces[0].offset, buf, 24, &err), SFT_E_TRUNCATED);
    assert_int_equal(err.offset, t->pieces[0].offset + 5);
    sft_catalog_close(c);
}

/* ---------------------------------------------------------------- threads */

static void ask(void *arg) {
    const sft_catalog *c = arg;
    for (int i = 0; i < 200; i++) {
        uint8_t buf[24];
        const void *lent;
        const sft_tensor *t = sft_catalog_find(c, "second", 6);
        const sft_source *s = sft_catalog_source_at(c, t->pieces[0].source);
        assert_int_equal(sft_source_read(s, t->pieces[0].offset, buf, 24, NULL), SFT_OK);
        assert_int_equal(sft_source_borrow(s, t->pieces[0].offset, 24, &lent, NULL), SFT_OK);
        assert_memory_equal(lent, buf, 24);
        assert_string_equal(sft_catalog_metadata_find(c, 0, "format", 6, NULL), "pt");
    }
}

static void eight_threads_share_one_catalog(void **state) {
    (void)state;
    sft_catalog *c;
    sft__base_thread threads[8];
    assert_int_equal(sft_catalog_open(&c, two(), NULL, NULL), SFT_OK);
    for (int i = 0; i < 8; i++) {
        assert_true(sft__base_thread_start(&threads[i], ask, c));
    }
    for (int i = 0; i < 8; i++) {
        sft__base_thread_join(&threads[i]);
    }
    sft_catalog_close(c);
}

static void data_beyond_four_gigabytes(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[5368709120],"
                                 "\"data_offsets\":[0,5368709120]},"
                                 "\"b\":{\"dtype\":\"U16\",\"shape\":[2],"
                                 "\"data_offsets\":[5368709120,5368709124]}}";
    const char *path = in_folder(tmp, "sparse.safetensors");
    sft_catalog *c;
    sft_error err;
    uint8_t buf[4];
    write_tensors(path, header, 0);
    const int fd = open(path, O_WRONLY);
    const off_t b = (off_t)(8 + strlen(header) + UINT64_C(5368709120));
    assert_int_equal(pwrite(fd, "far!", 4, b), 4);
    (void)close(fd);
    assert_int_equal(sft_catalog_open(&c, path, NULL, &err), SFT_OK);
    const sft_tensor *t = sft_catalog_find(c, "b", 1);
    assert_int_equal(t->pieces[0].offset, b);
    assert_int_equal(
        sft_source_read(sft_catalog_source_at(c, 0), t->pieces[0].offset, buf, 4, &err), SFT_OK);
    assert_memory_equal(buf, "far!", 4);
    sft_catalog_close(c);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_gives_the_same_catalog),
        cmocka_unit_test(headers_of_every_size),
        cmocka_unit_test(bad_files_say_why),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_small_options_struct_of_an_older_caller),
        cmocka_unit_test(own_sources_are_taken_over_in_every_case),
        cmocka_unit_test(a_remote_header_is_one_read),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_file_that_shrinks_after_opening),
        cmocka_unit_test(eight_threads_share_one_catalog),
        cmocka_unit_test(data_beyond_four_gigabytes),
    };
    return cmocka_run_group_tests_name("catalog", tests, setup, teardown);
}
