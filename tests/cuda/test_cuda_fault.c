/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/test_cuda_fault.c - every call of the driver fails in turn, every allocation, every
 * read: the right error, nothing left on the device, nothing under way, no hang.
 */
#include "gpu.h"
#include <sft/extend.h>
#include <stdatomic.h>

static sft_catalog *model;
static uint64_t runs, failures;

static int setup(void **state) {
    const standin_config c = gpu_config(7);
    assert_int_equal(gpu_setup(state), 0);
    gpu_reset(&c);
    rnd_state = 11;
    make_model(in_scratch("m.safetensors"), "m", true);
    assert_int_equal(sft_catalog_open(&model, in_scratch("m.safetensors"), NULL, NULL), SFT_OK);
    return 0;
}

static int teardown(void **state) {
    sft_catalog_close(model);
    return scratch_drop(state);
}

static void options(sft_cuda_options *how, sft_cuda_load_options *o) {
    SFT_INIT(how);
    SFT_INIT(o);
    how->driver_path = DRIVER;
    how->cufile_path = CUFILE;
    how->chunk_bytes = 16384;
    how->ring_bytes = 3 * 16384;
    how->streams = 2;
}

static void check_bytes(const sft_cuda_loaded *l) {
    for (size_t i = 0; i < sft_cuda_loaded_count(l); i++) {
        sft_cuda_view v;
        sft_read_options whole;
        assert_int_equal(sft_cuda_loaded_at(l, i, &v), SFT_OK);
        if (v.nbytes != v.tensor->nbytes || v.nbytes == 0) {
            continue; /* slices are compared elsewhere */
        }
        uint8_t *want = malloc(v.nbytes);
        uint8_t *got = malloc(v.nbytes);
        assert_non_null(want);
        assert_non_null(got);
        SFT_INIT(&whole);
        assert_int_equal(sft_tensor_read(model, v.tensor, &whole, want, v.nbytes, NULL), SFT_OK);
        assert_int_equal(peek(v.address, v.nbytes, got), 1);
        assert_memory_equal(got, want, v.nbytes);
        free(want);
        free(got);
    }
}

/* The first tensor goes back, into pinned memory or, where there is none, into other. */
static sft_status copy_out(sft_cuda *gpu, const sft_cuda_loaded *l, sft_error *err) {
    sft_cuda_copies *copies;
    sft_cuda_view v;
    assert_int_equal(sft_cuda_loaded_at(l, 0, &v), SFT_OK);
    sft_status status = sft_cuda_copies_create(&copies, gpu, 1, err);
    assert_int_equal(copies == NULL, status != SFT_OK);
    if (status != SFT_OK) {
        return status;
    }
    const size_t size = (size_t)v.nbytes;
    const sft_copier *const c = sft_cuda_copies_copier(copies);
    uint8_t *const pinned = c->alloc(c->ctx, size);
    uint8_t *const memory = pinned != NULL ? pinned : malloc(size);
    uint8_t *const want = malloc(size);
    assert_true(size > 0 && memory != NULL && want != NULL);
    status = c->copy(c->ctx, memory, v.address, size, err);
    const sft_status finished = c->finish(c->ctx, status == SFT_OK ? err : NULL);
    status = status == SFT_OK ? finished : status;
    if (status == SFT_OK) {
        assert_int_equal(peek(v.address, size, want), 1);
        assert_memory_equal(memory, want, size);
    }
    if (pinned != NULL) {
        c->free(c->ctx, pinned, size);
    } else {
        free(memory);
    }
    free(want);
    sft_cuda_copies_free(copies);
    return status;
}

/* Opens, loads, exports, copies back, asks, waits, frees. The first failure. */
static sft_status whole_life(const sft_cuda_options *how, const sft_cuda_load_options *o,
                             sft_error *err) {
    sft_cuda *gpu = NULL;
    sft_cuda_loaded *l = NULL;
    sft_dl_managed *managed = NULL;
    sft_cuda_info info;

    sft_status status = sft_cuda_open(&gpu, how, err);
    if (status == SFT_OK) {
        status = sft_cuda_info_get(gpu, &info, err);
    }
    if (status == SFT_OK) {
        status = sft_cuda_load(&l, gpu, model, o, err);
        assert_int_equal(l == NULL, status != SFT_OK);
    }
    if (status == SFT_OK) {
        status = sft_cuda_loaded_wait(l, 0, err);
    }
    if (status == SFT_OK) {
        status = sft_cuda_loaded_dlpack(&managed, l, 0, SFT_CUDA_DL_BYTES, err);
        assert_int_equal(managed == NULL, status != SFT_OK);
    }
    if (status == SFT_OK) {
        check_bytes(l);
        status = copy_out(gpu, l, err);
    }
    sft_cuda_close(gpu);
    sft_cuda_loaded_free(l);
    if (managed != NULL) {
        managed->deleter(managed);
    }
    return status;
}

static void fail_each_call(uint32_t stream, uint32_t flags, uint32_t threads, int result) {
    sft_pool *pool = NULL;
    sft_cuda_options how;
    sft_cuda_load_options o;
    standin_report r;
    uint64_t n = 0;

    assert_int_equal(sft_pool_create(&pool, threads, NULL, NULL), SFT_OK);
    options(&how, &o);
    o.pool = pool;
    o.stream = stream;
    o.flags = flags;
    do {
        standin_config c = gpu_config((uint32_t)n);
        sft_error err = {0};
        c.lazy = n % 2 == 0;
        c.fail_call = ++n;
        c.fail_result = result;
        gpu_reset(&c);
        const sft_status status = whole_life(&how, &o, &err);
        standin_report_(&r);
        if (strcmp(r.failed, "cuCtxPushCurrent_v2") != 0) {
            assert_gpu_clean();
        } else if (r.faults >
                   0) { /* a context that cannot be entered takes what it holds with it */
            assert_non_null(strstr(r.first, "left when the last context went"));
            assert_int_equal(r.faults, 1);
        }
        runs++;
        if (status != SFT_OK) {
            failures++;
            assert_true(r.failed[0] != '\0');
            assert_int_equal(err.status, status);
            assert_true(status == (result == 2 ? SFT_E_NOMEM : SFT_E_IO) ||
                        strcmp(r.failed, "cuInit") == 0);
            assert_int_equal(err.sys, result);
            assert_non_null(
                strstr(err.message, strcmp(r.failed, "cuMemAlloc_v2") == 0 && result == 2
                                        ? "of device memory"
                                        : r.failed));
        }
        assert_true(n < 5000);
    } while (r.failed[0] != '\0'); /* until a run has fewer calls than that */
    sft_pool_free(pool);
}

static void calls(void **state) {
    (void)state;
    fail_each_call(0, 0, 1, 999);
    fail_each_call(0, 0, 1, 2);
    fail_each_call(2, 0, 1, 999);
    fail_each_call(0, SFT_CUDA_DIRECT_STORAGE, 1, 999);
    fail_each_call(1, 0, 3, 999);
    fail_each_call(0, 0, 3, 2);
    assert_true(failures > 300);
    print_message("%llu runs with a failing call of the driver, %llu of them refused\n",
                  (unsigned long long)runs, (unsigned long long)failures);
}

static void allocations(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_item items[3];
    sft_slice slices[2];
    counting c;
    sft_status status;
    size_t n = 0;

    (void)state;
    options(&how, &o);
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < 3; i++) {
        items[i].tensor = sft_catalog_find(model, "m.0", 3);
    }
    for (size_t i = 0; i < 2; i++) {
        slices[i] = (sft_slice){.start = 1, .stop = SFT_OMIT, .step = 3, .kind = SFT_SLICE_RANGE};
    }
    items[1].slices = slices;
    items[1].slice_count = 2;
    do {
        const standin_config config = gpu_config((uint32_t)n);
        sft_error err = {0};
        gpu_reset(&config);
        counting_init(&c);
        how.allocator = &c.allocator;
        o.items = n % 2 == 0 ? items : NULL;
        o.item_count = 3;
        c.fail_from = n / 2 + 1;
        status = whole_life(&how, &o, &err);
        assert_true(status == SFT_OK || (status == SFT_E_NOMEM && err.message[0] != '\0'));
        assert_gpu_clean();
        assert_all_given_back(&c);
        n++;
    } while (c.calls >= c.fail_from || n % 2 != 0);
    assert_true(n > 20);
    print_message("%zu runs with a failing allocation\n", n);
}

static void pinned_memory_is_scarce(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    (void)state;
    for (uint64_t room = 0; room < 4; room++) {
        standin_config c = gpu_config(3);
        sft_error err = {0};
        standin_report r;
        options(&how, &o);
        c.lazy = 1; /* no copy is done before somebody waits */
        c.pinned_bytes = room * (16384 + 4096) + 100;
        gpu_reset(&c);
        const sft_status status = whole_life(&how, &o, &err);
        assert_int_equal(status, room == 0 ? SFT_E_NOMEM : SFT_OK); /* it does with fewer chunks */
        standin_report_(&r);
        assert_int_equal(r.pinned_peak, room * (16384 + 4096));
        assert_gpu_clean();
    }
}

/* ---------------------------------------------------------------- reads that fail */

typedef struct bad_source {
    uint8_t *bytes;
    size_t size;
    uint64_t fail_from; /* reads from here on fail */
    atomic_uint reads;
} bad_source;

static sft_status bad_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    bad_source *b = self;
    atomic_fetch_add(&b->reads, 1);
    if (offset + size > b->fail_from) {
        (void)sft_error_set(err, SFT_E_IO, 5, "the disk is gone");
        err->offset = offset;
        return SFT_E_IO;
    }
    memcpy(dst, b->bytes + offset, size);
    return SFT_OK;
}

static void reads(void **state) {
    static const sft_source_vtable vtable = {.struct_size = sizeof vtable, .read_at = bad_read};
    sft_cuda_options how;
    sft_cuda_load_options o;
    size_t size = 0;
    sft_pool *pool;
    char *bytes = file_get(in_scratch("m.safetensors"), &size);
    sft_catalog *good = model;

    (void)state;
    assert_int_equal(sft_pool_create(&pool, 3, NULL, NULL), SFT_OK);
    options(&how, &o);
    for (int i = 0; i < 60; i++) {
        bad_source b = {.bytes = (uint8_t *)bytes, .size = size, .fail_from = size};
        standin_config c = gpu_config((uint32_t)i);
        sft_source *source;
        sft_error err = {0};
        c.lazy = i % 4 < 2;
        gpu_reset(&c);
        assert_int_equal(sft_source_create(&source, &vtable, &b,
                                           &(sft_source_info){size,
                                                              i % 3 == 0   ? SFT_SOURCE_SEQUENTIAL
                                                              : i % 3 == 1 ? SFT_SOURCE_REMOTE
                                                                           : 0,
                                                              "bad", NULL},
                                           NULL),
                         SFT_OK);
        assert_int_equal(sft_catalog_open_source(&model, source, NULL, NULL), SFT_OK);
        const uint64_t data = sft_catalog_file_at(model, 0)->data_offset;
        b.fail_from = i < 6 ? size : data + (size - data) * (uint64_t)(i - 6) / 60;
        o.pool = i % 2 == 0 ? pool : NULL;
        o.stream = (uintptr_t)(i % 4);
        if (o.stream == 3) {
            o.stream = 0;
        }
        const sft_status status = whole_life(&how, &o, &err);
        assert_int_equal(status, i < 6 ? SFT_OK : SFT_E_IO);
        if (status != SFT_OK) {
            assert_string_equal(err.message, "the disk is gone");
            assert_int_equal(err.sys, 5);
            assert_true(err.offset >= data && err.offset < size);
        }
        sft_catalog_close(model);
        assert_gpu_clean();
    }
    model = good;
    sft_pool_free(pool);
    free(bytes);
}

static void files_that_shrink(void **state) {
    static const sft_strategy ways[] = {SFT_STRATEGY_READ, SFT_STRATEGY_DIRECT};
    sft_cuda_options how;
    sft_cuda_load_options o;
    size_t size = 0;
    char *bytes = file_get(in_scratch("m.safetensors"), &size);
    sft_catalog *good = model;

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        const standin_config c = gpu_config((uint32_t)i);
        sft_error err = {0};
        options(&how, &o);
        o.strategy = ways[i % 2];
        o.flags = i % 4 > 1 ? SFT_CUDA_DIRECT_STORAGE : 0;
        gpu_reset(&c);
        file_put(in_scratch("short.safetensors"), bytes, size);
        assert_int_equal(sft_catalog_open(&model, in_scratch("short.safetensors"), NULL, NULL),
                         SFT_OK);
        assert_int_equal(truncate(in_scratch("short.safetensors"), (off_t)(size - 1 - i * 5000)),
                         0);
        assert_int_equal(whole_life(&how, &o, &err), SFT_E_TRUNCATED);
        assert_int_equal(err.status, SFT_E_TRUNCATED);
        sft_catalog_close(model);
        assert_gpu_clean();
    }
    model = good;
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),
        cmocka_unit_test(allocations),
        cmocka_unit_test(pinned_memory_is_scarce),
        cmocka_unit_test(reads),
        cmocka_unit_test(files_that_shrink),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
