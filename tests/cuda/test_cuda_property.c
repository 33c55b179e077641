/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/test_cuda_property.c - random models, selections, slices, chunks, rings, streams,
 * pools and orders of the device's work: what lies on the device is what sft_tensor_read gives, bit
 * for bit, and the stand-in finds no misuse. SFT_CUDA_LOADS: how many loads (default 3,000).
 */
#include "gpu.h"

enum { ITEMS_MOST = 40 };

typedef struct trial {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_item items[ITEMS_MOST];
    sft_slice slices[ITEMS_MOST][RANK_MOST];
    size_t count;
    void *consumer; /* a stream of the test's, or NULL */
    uint64_t memory;
    uint64_t memory_size;
    int cufile;
} trial;

static sft_pool *pools[4];
static uint64_t compared, refused, bytes_compared, by_gds, waits;

static void choose_items(trial *t, const sft_catalog *model) {
    const size_t tensors = sft_catalog_count(model);
    t->count = rnd_below(ITEMS_MOST);
    for (size_t i = 0; i < t->count; i++) {
        sft_cuda_item *item = &t->items[i];
        item->tensor = sft_catalog_at(model, rnd_below(tensors));
        if (rnd_below(3) != 0) {
            uint64_t size;
            sft_status status;
            item->slices = t->slices[i];
            item->slice_count = make_slices(t->slices[i], item->tensor);
            uint8_t *bytes = expected(model, item, &size, &status);
            if (bytes == NULL) { /* refused by reads, too: such items have a test of their own */
                refused++;
                item->slices = NULL;
                item->slice_count = 0;
            }
            free(bytes);
        }
    }
    t->o.items = t->items;
    t->o.item_count = t->count;
}

static void choose(trial *t, const sft_catalog *model) {
    static const uint64_t chunks[] = {1, 4096, 8192, 20000, 65536};
    static const uint32_t alignments[] = {0, 1, 16, 512, 4096};
    static const int ways[] = {STANDIN_CUFILE_REAL, STANDIN_CUFILE_SHORT,
                               STANDIN_CUFILE_FAILS_LATER, STANDIN_CUFILE_COMPAT};

    memset(t, 0, sizeof *t);
    SFT_INIT(&t->how);
    SFT_INIT(&t->o);
    t->how.driver_path = DRIVER;
    t->how.cufile_path = CUFILE;
    t->how.device = (uint32_t)rnd_below(2);
    t->how.chunk_bytes = chunks[rnd_below(5)];
    t->how.ring_bytes = t->how.chunk_bytes * (rnd_below(6) + 1) + rnd_below(2) * 8192;
    t->how.streams = (uint32_t)rnd_below(9);
    t->o.pool = pools[rnd_below(4)];
    t->o.alignment = alignments[rnd_below(5)];
    t->o.strategy =
        rnd_below(2) == 0 ? SFT_STRATEGY_DIRECT : (sft_strategy)(rnd_below(2) * SFT_STRATEGY_READ);
    t->cufile = ways[rnd_below(4)];
    t->o.flags = rnd_below(3) == 0 ? SFT_CUDA_DIRECT_STORAGE : 0;
    if (rnd_below(4) != 0) {
        choose_items(t, model);
    }
}

/* The consumer's side: its stream, its memory, and work on it that is still using that memory. */
static void prepare(trial *t, const sft_catalog *model) {
    const uint64_t kind = rnd_below(4);
    if (kind == 3) {
        assert_int_equal(stream_create(&t->consumer, 1), 0);
        t->o.stream = (uintptr_t)t->consumer;
    } else {
        t->o.stream = (uintptr_t)kind;
    }
    if (rnd_below(3) == 0) {
        assert_int_equal(sft_cuda_load_size(&t->memory_size, model, &t->o, NULL), SFT_OK);
        t->memory_size += rnd_below(100) + 1;
        assert_int_equal(memory_alloc(&t->memory, t->memory_size + t->o.alignment), 0);
        const uint64_t odd = t->o.alignment > 256 ? t->memory % t->o.alignment : 0;
        t->o.memory = t->memory + (odd > 0 ? t->o.alignment - odd : 0);
        t->o.memory_size = t->memory_size;
        if (t->o.stream != 0) {
            assert_int_equal(produce((void *)t->o.stream, t->o.memory, t->memory_size, 0x77), 0);
        }
    }
}

static void compare_item(const trial *t, const sft_catalog *model, const sft_cuda_item *item,
                         const sft_cuda_view *v) {
    sft_status status;
    uint64_t size;
    uint8_t *want = expected(model, item, &size, &status);
    uint8_t *got = malloc(size + 1);

    assert_non_null(want);
    assert_non_null(got);
    assert_int_equal(v->nbytes, size);
    assert_ptr_equal(v->tensor, item->tensor);
    if (size > 0) {
        assert_int_equal(v->address % (t->o.alignment == 0 ? 256 : t->o.alignment), 0);
        memset(got, 0, size);
        if (t->o.stream != 0) {
            assert_int_equal(consume((void *)t->o.stream, v->address, size, got), 0);
            assert_int_equal(stream_sync((void *)t->o.stream), 0);
        } else {
            assert_int_equal(copy_back(got, v->address, size), 0);
        }
        assert_memory_equal(got, want, size);
    }
    compared++;
    bytes_compared += size;
    free(want);
    free(got);
}

static void run_trial(trial *t, const sft_catalog *model) {
    sft_cuda *gpu;
    sft_cuda_loaded *l;
    sft_cuda_stats stats;
    sft_error err = {0};
    void *context;

    cufile_reset(t->cufile);
    assert_int_equal(context_retain(&context, (int)t->how.device), 0);
    assert_int_equal(context_push(context), 0);
    prepare(t, model);
    assert_int_equal(sft_cuda_open(&gpu, &t->how, &err), SFT_OK);
    const sft_status status = sft_cuda_load(&l, gpu, model, &t->o, &err);
    if (status != SFT_OK) {
        fail_msg("load: %s", err.message);
    }
    const size_t count = t->o.items != NULL ? t->count : sft_catalog_count(model);
    assert_int_equal(sft_cuda_loaded_count(l), count);
    for (size_t i = 0; i < count; i++) {
        const sft_cuda_item whole = {sft_catalog_at(model, i), NULL, 0};
        sft_cuda_view v;
        assert_int_equal(sft_cuda_loaded_at(l, i, &v), SFT_OK);
        assert_int_equal(v.device, t->how.device);
        compare_item(t, model, t->o.items != NULL ? &t->items[i] : &whole, &v);
    }
    sft_cuda_loaded_stats(l, &stats);
    assert_int_equal(stats.bytes_copied + stats.bytes_direct, sft_cuda_loaded_bytes(l));
    by_gds += stats.bytes_direct;
    waits += stats.ring_waits;
    if (rnd_below(2) == 0) {
        sft_cuda_close(gpu);
        sft_cuda_loaded_free(l);
    } else {
        sft_cuda_loaded_free(l);
        sft_cuda_close(gpu);
    }
    if (t->memory != 0) {
        assert_int_equal(memory_free(t->memory), 0);
    }
    if (t->consumer != NULL) {
        assert_int_equal(stream_free(t->consumer), 0);
    }
    assert_int_equal(context_pop(&context), 0);
    assert_int_equal(context_release((int)t->how.device), 0);
    assert_gpu_clean();
}

static void equal_to_reads(void **state) {
    const char *wanted = getenv("SFT_CUDA_LOADS");
    uint64_t loads = 3000;
    static trial t;

    (void)state;
    if (wanted != NULL) {
        loads = 0;
        for (const char *p = wanted; *p >= '0' && *p <= '9'; p++) {
            loads = loads * 10 + (uint64_t)(*p - '0');
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(sft_pool_create(&pools[i], i + 1, NULL, NULL), SFT_OK);
    }
    sft_pool_free(pools[0]);
    pools[0] = NULL;
    sft_catalog *model = NULL;
    for (uint64_t i = 0; i < loads; i++) {
        standin_config c = gpu_config((uint32_t)i);
        c.lazy = rnd_below(2) == 0;
        c.integrated = rnd_below(4) == 0;
        gpu_reset(&c);
        if (i % 20 == 0) {
            sft_catalog_close(model);
            (void)mkdir(in_scratch("model"), 0700);
            make_model(in_scratch("model/a.safetensors"), "a", i % 40 == 0);
            make_model(in_scratch("model/b.safetensors"), "b", false);
            assert_int_equal(sft_catalog_open(&model, in_scratch("model"), NULL, NULL), SFT_OK);
        }
        if (sft_catalog_count(model) > 0) {
            choose(&t, model);
            run_trial(&t, model);
        }
    }
    sft_catalog_close(model);
    (void)unlink(in_scratch("model/a.safetensors"));
    (void)unlink(in_scratch("model/b.safetensors"));
    (void)rmdir(in_scratch("model"));
    for (uint32_t i = 1; i < 4; i++) {
        sft_pool_free(pools[i]);
    }
    assert_true(loads < 1000 || (compared > 0 && by_gds > 0 && waits > 0 && refused > 0));
    print_message("%llu loads, %llu tensors and slices, %llu bytes equal; %llu bytes by cuFile, "
                  "%llu waits for "
                  "the ring, %llu slices that reads refuse\n",
                  (unsigned long long)loads, (unsigned long long)compared,
                  (unsigned long long)bytes_compared, (unsigned long long)by_gds,
                  (unsigned long long)waits, (unsigned long long)refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_to_reads)};
    return cmocka_run_group_tests(tests, gpu_setup, NULL);
}
