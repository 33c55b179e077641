/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/test_cuda.c - <sft/cuda.h> piece by piece: what is told where there is no GPU, limits,
 * cancelling, streams, exports that outlive everything else, the probe of GPUDirect Storage,
 * several devices.
 */
#include "gpu.h"
#include <pthread.h>
#include <stdatomic.h>

static sft_catalog *model; /* of one file with a tensor "m.0", F32 [250, 200], among others */

static int setup(void **state) {
    const standin_config c = gpu_config(1);
    assert_int_equal(gpu_setup(state), 0);
    gpu_reset(&c);
    rnd_state = 5;
    make_model(in_scratch("m.safetensors"), "m", true);
    assert_int_equal(sft_catalog_open(&model, in_scratch("m.safetensors"), NULL, NULL), SFT_OK);
    return 0;
}

static int teardown(void **state) {
    sft_catalog_close(model);
    return scratch_drop(state);
}

static int fresh(void **state) {
    const standin_config c = gpu_config(9);
    (void)state;
    gpu_reset(&c);
    return 0;
}

static void options(sft_cuda_options *how, sft_cuda_load_options *o) {
    SFT_INIT(how);
    SFT_INIT(o);
    how->driver_path = DRIVER;
    how->cufile_path = CUFILE;
    how->chunk_bytes = 32768;
    how->ring_bytes = 4 * 32768;
}

static sft_cuda *open_gpu(const sft_cuda_options *how) {
    sft_cuda *gpu;
    sft_error err = {0};
    if (sft_cuda_open(&gpu, how, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    return gpu;
}

static void fetch(uint32_t device, void *dst, uint64_t address, size_t size) {
    void *context;
    assert_int_equal(context_retain(&context, (int)device), 0);
    assert_int_equal(context_push(context), 0);
    assert_int_equal(copy_back(dst, address, size), 0);
    assert_int_equal(context_pop(&context), 0);
    assert_int_equal(context_release((int)device), 0);
}

static void wait_for(uint32_t device, void *stream) {
    void *context;
    assert_int_equal(context_retain(&context, (int)device), 0);
    assert_int_equal(context_push(context), 0);
    assert_int_equal(stream_sync(stream), 0);
    assert_int_equal(context_pop(&context), 0);
    assert_int_equal(context_release((int)device), 0);
}

/* ---------------------------------------------------------------- opening */

static void no_driver(void **state) {
    sft_cuda_options how;
    sft_cuda *gpu = (sft_cuda *)&how;
    uint32_t devices = 9;
    sft_error err = {0};

    (void)state;
    SFT_INIT(&how);
    how.driver_path = "/nonexistent/libcuda.so.1";
    assert_int_equal(sft_cuda_available(&devices, how.driver_path, &err), SFT_E_UNSUPPORTED);
    assert_int_equal(devices, 0);
    assert_non_null(strstr(err.message, "no CUDA driver: "));
    assert_non_null(strstr(err.message, "/nonexistent/libcuda.so.1"));
    assert_int_equal(sft_cuda_open(&gpu, &how, &err), SFT_E_UNSUPPORTED);
    assert_null(gpu);
    how.driver_path = "libc.so.6"; /* a library, but not that one */
    assert_int_equal(sft_cuda_open(&gpu, &how, &err), SFT_E_UNSUPPORTED);
    assert_string_equal(err.message, "the CUDA driver has no cuInit");
    sft_cuda_close(NULL);
    sft_cuda_loaded_free(NULL);
}

static void no_device(void **state) {
    standin_config c = gpu_config(1);
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda *gpu;
    uint32_t devices = 9;
    sft_error err = {0};

    (void)state;
    c.devices = 0;
    gpu_reset(&c);
    options(&how, &o);
    assert_int_equal(sft_cuda_available(&devices, DRIVER, &err), SFT_E_UNSUPPORTED);
    assert_string_equal(err.message, "the CUDA driver has no device");
    c.fail_call = 1; /* cuInit says so itself */
    c.fail_result = 100;
    gpu_reset(&c);
    assert_int_equal(sft_cuda_available(NULL, DRIVER, &err), SFT_E_UNSUPPORTED);
    assert_int_equal(err.sys, 100);
    c = gpu_config(1);
    gpu_reset(&c);
    assert_int_equal(sft_cuda_available(&devices, DRIVER, &err), SFT_OK);
    assert_int_equal(devices, 2);
    how.device = 2;
    assert_int_equal(sft_cuda_open(&gpu, &how, &err), SFT_E_RANGE);
    assert_string_equal(err.message, "device 2 was asked for, there are 2");
    assert_gpu_clean();
}

static void arguments(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_cuda *gpu;
    sft_error err = {0};
    sft_slice far = {.start = 250, .stop = 0, .step = 1, .kind = SFT_SLICE_INDEX};
    sft_cuda_item item = {sft_catalog_find(model, "m.0", 3), &far, 1};

    (void)state;
    options(&how, &o);
    assert_int_equal(sft_cuda_open(NULL, &how, &err), SFT_E_ARG);
    how.struct_size = 0;
    assert_int_equal(sft_cuda_open(&gpu, &how, &err), SFT_E_ARG);
    options(&how, &o);
    how.streams = 33;
    assert_int_equal(sft_cuda_open(&gpu, &how, &err), SFT_E_ARG);
    how.streams = 0;
    how.chunk_bytes = UINT64_MAX;
    assert_int_equal(sft_cuda_open(&gpu, &how, &err), SFT_E_ARG);
    options(&how, &o);
    gpu = open_gpu(&how);
    o.alignment = 3;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    o.alignment = 131072;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    o.alignment = 0;
    o.strategy = SFT_STRATEGY_MAP;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_UNSUPPORTED);
    o.strategy = SFT_STRATEGY_AUTO;
    o.flags = 2;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    o.flags = 0;
    o.items = &item;
    o.item_count = 1;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_RANGE);
    item.slices = NULL;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    item.tensor = NULL;
    item.slice_count = 0;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    assert_null(l);
    o.item_count = 0; /* nothing at all is fine */
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_OK);
    assert_int_equal(sft_cuda_loaded_count(l), 0);
    sft_cuda_view v;
    assert_int_equal(sft_cuda_loaded_at(l, 0, &v), SFT_E_RANGE);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

/* ---------------------------------------------------------------- accounting and limits */

static void accounts(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *a, *b;
    sft_cuda_info info;
    uint64_t need, size;
    sft_error err = {0};

    (void)state;
    options(&how, &o);
    assert_int_equal(sft_cuda_load_size(&need, model, &o, &err), SFT_OK);
    how.memory_bytes = 2 * need - 1;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_info_get(gpu, &info, &err), SFT_OK);
    assert_string_equal(info.name, "stand-in 0");
    assert_int_equal(info.driver_version, 12040);
    assert_int_equal(info.capability_major, 9);
    assert_int_equal(info.total_bytes, 64 << 20);
    assert_int_equal(info.held_bytes + info.ring_bytes, 0); /* nothing is taken before a load */
    assert_int_equal(sft_cuda_load(&a, gpu, model, &o, &err), SFT_OK);
    assert_int_not_equal(sft_cuda_loaded_memory(a, &size), 0);
    assert_int_equal(size, need);
    assert_int_equal(sft_cuda_load(&b, gpu, model, &o, &err), SFT_E_LIMIT);
    assert_int_equal(sft_cuda_info_get(gpu, &info, &err), SFT_OK);
    assert_int_equal(info.held_bytes, need);
    assert_true(info.ring_bytes > 0 && info.ring_bytes <= 4 * (32768 + 4096));
    sft_cuda_loaded_free(a);
    assert_int_equal(sft_cuda_load(&b, gpu, model, &o, &err), SFT_OK); /* there is room again */
    sft_cuda_loaded_free(b);
    assert_int_equal(sft_cuda_info_get(gpu, &info, &err), SFT_OK);
    assert_int_equal(info.held_bytes, 0);
    assert_int_equal(info.peak_bytes, need);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

static void device_memory_ends(void **state) {
    standin_config c = gpu_config(1);
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_error err = {0};

    (void)state;
    c.memory_bytes = 100000;
    gpu_reset(&c);
    options(&how, &o);
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_NOMEM);
    assert_non_null(strstr(err.message, "100000 of 100000 are free"));
    assert_int_equal(err.sys, 2);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

static void memory_of_the_caller(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    void *context;
    uint64_t need, here, elsewhere;
    sft_error err = {0};

    (void)state;
    options(&how, &o);
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_load_size(&need, model, &o, &err), SFT_OK);
    for (int device = 0; device < 2; device++) {
        assert_int_equal(context_retain(&context, device), 0);
        assert_int_equal(context_push(context), 0);
        assert_int_equal(memory_alloc(device == 0 ? &here : &elsewhere, need), 0);
        assert_int_equal(context_pop(&context), 0);
    }
    o.memory = here;
    o.memory_size = need - 1;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_NOMEM);
    o.memory_size = need;
    o.memory = elsewhere;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    assert_string_equal(err.message, "the memory is on device 1, the load is for device 0");
    o.memory = here + 8;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    o.memory = here;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_OK);
    assert_int_equal(sft_cuda_loaded_memory(l, NULL), here);
    sft_cuda_loaded_free(l); /* leaves it alone */
    sft_cuda_close(gpu);
    for (int device = 0; device < 2; device++) {
        assert_int_equal(context_retain(&context, device), 0);
        assert_int_equal(context_push(context), 0);
        assert_int_equal(memory_free(device == 0 ? here : elsewhere), 0);
        assert_int_equal(context_pop(&context), 0);
        assert_int_equal(context_release(device), 0);
        assert_int_equal(context_release(device), 0);
    }
    assert_gpu_clean();
}

/* ---------------------------------------------------------------- progress, cancelling, changes */

typedef struct watch {
    uint64_t last;
    uint64_t calls;
    uint64_t stop_at; /* calls */
    const char *path; /* changed in the second call */
    atomic_int inside;
} watch;

static int poll_it(void *ctx, const sft_progress *p) {
    watch *w = ctx;
    assert_int_equal(atomic_fetch_add(&w->inside, 1), 0); /* never two at once */
    assert_true(p->bytes_done <= p->bytes_total);
    w->last = p->bytes_done > w->last ? p->bytes_done : w->last;
    w->calls++;
    if (w->path != NULL && w->calls == 2) {
        FILE *f = fopen(w->path, "ab");
        assert_non_null(f);
        assert_int_equal(fputc('x', f), 'x');
        assert_int_equal(fclose(f), 0);
    }
    atomic_fetch_sub(&w->inside, 1);
    return w->stop_at != 0 && w->calls >= w->stop_at;
}

static void watched(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_control control;
    sft_pool *pool;
    sft_error err = {0};

    (void)state;
    options(&how, &o);
    how.chunk_bytes = 8192;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_pool_create(&pool, 4, NULL, NULL), SFT_OK);
    SFT_INIT(&control);
    control.poll = poll_it;
    o.control = &control;
    watch all = {.calls = 0};
    control.ctx = &all;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_OK);
    assert_int_equal(all.last, sft_cuda_loaded_bytes(l));
    sft_cuda_loaded_free(l);
    o.pool = pool;
    for (uint64_t n = 1; n < 10; n++) {
        watch some = {.stop_at = n};
        control.ctx = &some;
        o.stream = n % 2;
        assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_CANCELLED);
        assert_null(l);
        assert_int_equal(some.calls, n);
    }
    o.stream = 0;
    control.struct_size = 0;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_E_ARG);
    sft_pool_free(pool);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

static void changed_meanwhile(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_control control;
    size_t size = 0;
    sft_catalog *own;
    sft_error err = {0};
    char *bytes = file_get(in_scratch("m.safetensors"), &size);
    watch w = {.path = in_scratch("grows.safetensors")};

    (void)state;
    file_put(w.path, bytes, size);
    free(bytes);
    options(&how, &o);
    SFT_INIT(&control);
    control.poll = poll_it;
    control.ctx = &w;
    o.control = &control;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_catalog_open(&own, w.path, NULL, NULL), SFT_OK);
    assert_int_equal(sft_cuda_load(&l, gpu, own, &o, &err), SFT_E_CHANGED);
    sft_catalog_close(own);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

/* ---------------------------------------------------------------- only the part that is wanted */

static void reads_its_part_only(void **state) {
    const sft_tensor *t = sft_catalog_find(model, "m.0", 3);
    sft_slice rows = {.start = 100, .stop = 150, .step = 1, .kind = SFT_SLICE_RANGE};
    sft_cuda_item item = {t, &rows, 1};
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_cuda_stats stats;
    sft_cuda_view v;
    const char *reason = NULL;

    (void)state;
    options(&how, &o);
    o.items = &item;
    o.item_count = 1;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, NULL), SFT_OK);
    sft_cuda_loaded_stats(l, &stats);
    assert_int_equal(stats.bytes_read, 50 * 200 * 4);
    assert_int_equal(stats.bytes_copied, 50 * 200 * 4);
    assert_int_equal(sft_cuda_loaded_at(l, 0, &v), SFT_OK);
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.shape[0], 50);
    assert_int_equal(v.shape[1], 200);
    assert_int_equal(v.dtype->id, SFT_F32);
    assert_int_equal(sft_cuda_loaded_strategy(l, 0, &reason, NULL, NULL), SFT_STRATEGY_READ);
    assert_true(strlen(reason) > 10);
    assert_int_equal(sft_cuda_loaded_strategy(l, 1, &reason, NULL, NULL), SFT_STRATEGY_AUTO);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

static void unified_memory(void **state) {
    standin_config c = gpu_config(1);
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_info info;
    (void)state;
    c.integrated = 1;
    gpu_reset(&c);
    options(&how, &o);
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_info_get(gpu, &info, NULL), SFT_OK);
    assert_int_equal(info.unified, 1);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

/* ---------------------------------------------------------------- streams and exports */

static void a_stream_that_does_not_wait_sees_other_bytes(void **state) {
    standin_config c = gpu_config(1);
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_cuda_view v;
    sft_status status;
    uint64_t size;
    const sft_cuda_item item = {sft_catalog_find(model, "m.0", 3), NULL, 0};
    uint8_t *want = expected(model, &item, &size, &status);
    uint8_t *got = malloc(size);

    (void)state;
    assert_non_null(got);
    c.lazy = 1;
    gpu_reset(&c);
    options(&how, &o);
    how.ring_bytes = 64 * how.chunk_bytes; /* nobody waits for the ring */
    o.items = &item;
    o.item_count = 1;
    o.stream = 1;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, NULL), SFT_OK);
    assert_int_equal(sft_cuda_loaded_at(l, 0, &v), SFT_OK);
    fetch(0, got, v.address, size); /* at once, on no stream: too early */
    assert_true(memcmp(got, want, size) != 0);
    assert_int_equal(sft_cuda_loaded_wait(l, 2, NULL), SFT_OK);
    memset(got, 0, size);
    assert_int_equal(consume((void *)2, v.address, size, got), 0);
    wait_for(0, (void *)2);
    assert_memory_equal(got, want, size);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    assert_gpu_clean();
    free(got);
    free(want);
}

static void given_up_under_copies(void **state) {
    standin_config c = gpu_config(1);
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    standin_report r;

    (void)state;
    c.lazy = 1;
    gpu_reset(&c);
    options(&how, &o);
    how.ring_bytes = 64 * how.chunk_bytes;
    o.stream = 1;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, NULL), SFT_OK);
    sft_cuda_loaded_free(l); /* waits for them */
    standin_report_(&r);
    assert_string_equal(r.first, "");
    assert_int_equal(r.device_live, 0);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

static void *delete_it(void *managed) {
    sft_dl_managed *m = managed;
    m->deleter(m);
    return NULL;
}

static void exports_outlive_everything(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_loaded *l;
    sft_dl_managed *m[MODEL_MOST];
    sft_dl_managed_old *old;
    standin_report r;
    size_t count = 0;
    sft_catalog *own;
    sft_error err = {0};
    pthread_t thread;

    (void)state;
    options(&how, &o);
    how.device = 1;
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_catalog_open(&own, in_scratch("m.safetensors"), NULL, NULL), SFT_OK);
    o.alignment = 4096;
    assert_int_equal(sft_cuda_load(&l, gpu, own, &o, &err), SFT_OK);
    for (size_t i = 0; i < sft_cuda_loaded_count(l); i++) {
        assert_int_equal(sft_cuda_loaded_dlpack(&m[i], l, i, 0, &err), SFT_OK);
        count++;
    }
    assert_int_equal(sft_cuda_loaded_dlpack_old(&old, l, count, 0, &err), SFT_E_RANGE);
    assert_null(old);
    assert_int_equal(sft_cuda_loaded_dlpack_old(&old, l, 0, SFT_CUDA_DL_BYTES, &err), SFT_OK);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    sft_catalog_close(own);
    assert_int_equal(old->dl_tensor.ndim, 1);
    assert_int_equal(old->dl_tensor.dtype.code, SFT_DL_UINT);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(model, i);
        const sft_dl_tensor *d = &m[i]->dl_tensor;
        int64_t stride = 1;
        assert_int_equal(m[i]->version.major, 1);
        assert_int_equal(m[i]->flags, 0);
        assert_int_equal(d->device.device_type, SFT_DL_CUDA);
        assert_int_equal(d->device.device_id, 1);
        assert_int_equal(d->ndim, t->rank);
        assert_int_equal(d->dtype.bits, sft_dtype_bits(t->dtype));
        assert_int_equal(d->dtype.lanes, 1);
        for (uint32_t k = t->rank; k-- > 0;) {
            assert_int_equal(d->shape[k], t->shape[k]);
            assert_int_equal(d->strides[k], stride);
            stride *= d->shape[k] == 0 ? 1 : d->shape[k];
        }
        assert_int_equal(d->data == NULL, t->nbytes == 0);
        if (t->nbytes > 0) {
            const sft_cuda_item item = {t, NULL, 0};
            sft_status status;
            uint64_t bytes;
            uint8_t *want = expected(model, &item, &bytes, &status);
            uint8_t *got = malloc(bytes);
            assert_non_null(got);
            fetch(1, got, (uint64_t)(uintptr_t)d->data, bytes);
            assert_memory_equal(got, want, bytes);
            free(want);
            free(got);
        }
    }
    for (size_t i = 0; i < count; i++) { /* the last ones from another thread */
        assert_int_equal(pthread_create(&thread, NULL, delete_it, m[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    standin_report_(&r);
    assert_int_equal(r.device_live, 1);
    old->deleter(old);
    assert_gpu_clean();
}

/* ---------------------------------------------------------------- GPUDirect Storage */

static void probe(void **state) {
    static const struct {
        int behaviour;
        const char *reason;
    } cases[] = {
        {STANDIN_CUFILE_NO_MODULE, "compatibility mode"},
        {STANDIN_CUFILE_COMPAT, "allow_compat_mode"},
        {STANDIN_CUFILE_NO_DRIVER, "driver does not open"},
        {STANDIN_CUFILE_REFUSES, "does not accept"},
        {STANDIN_CUFILE_WRONG_BYTES, "other bytes than pread"},
        {STANDIN_CUFILE_FAILS_PROBE, "to the device failed"},
    };
    sft_cuda_options how;
    sft_cuda_load_options o;
    sft_cuda_stats stats;
    sft_cuda_loaded *l;
    const char *reason;
    int direct;
    sft_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        options(&how, &o);
        o.flags = SFT_CUDA_DIRECT_STORAGE;
        sft_cuda *gpu = open_gpu(&how);
        cufile_reset(cases[i].behaviour);
        assert_int_equal(sft_cuda_direct_probe(gpu, model, 0, &err), SFT_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, cases[i].reason));
        assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_OK); /* by the ring */
        (void)sft_cuda_loaded_strategy(l, 0, NULL, &direct, &reason);
        assert_int_equal(direct, 0);
        assert_non_null(strstr(reason, cases[i].reason));
        sft_cuda_loaded_stats(l, &stats);
        assert_int_equal(stats.bytes_direct, 0);
        sft_cuda_loaded_free(l);
        sft_cuda_close(gpu);
        assert_gpu_clean();
    }
    options(&how, &o);
    how.chunk_bytes = 1 << 20;
    cufile_reset(STANDIN_CUFILE_REAL);
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_direct_probe(gpu, model, 1, &err), SFT_E_RANGE);
    assert_int_equal(sft_cuda_direct_probe(gpu, model, 0, &err), SFT_OK);
    o.flags = SFT_CUDA_DIRECT_STORAGE;
    const sft_cuda_item item = {sft_catalog_find(model, "m.0", 3), NULL, 0};
    o.items = &item;
    o.item_count = 1;
    assert_int_equal(sft_cuda_load(&l, gpu, model, &o, &err), SFT_OK);
    (void)sft_cuda_loaded_strategy(l, 0, NULL, &direct, &reason);
    assert_int_equal(direct, 1);
    sft_cuda_loaded_stats(l, &stats);
    assert_int_equal(stats.bytes_direct, 250 * 200 * 4);
    assert_int_equal(stats.bytes_copied, 0);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    assert_gpu_clean();
    how.cufile_path = "/nonexistent/libcufile.so";
    gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_direct_probe(gpu, model, 0, &err), SFT_E_UNSUPPORTED);
    assert_string_equal(err.message, "no GPUDirect Storage: libcufile is not there");
    sft_cuda_close(gpu);
}

/* ---------------------------------------------------------------- many threads on one handle */

static sft_cuda *shared;

static void *loads(void *seed) {
    for (uintptr_t i = 0; i < 20; i++) {
        sft_cuda_load_options o;
        sft_cuda_loaded *l = NULL;
        sft_error err = {0};
        SFT_INIT(&o);
        o.stream = ((uintptr_t)seed + i) % 3;
        if (sft_cuda_load(&l, shared, model, &o, &err) != SFT_OK) {
            return shared;
        }
        sft_cuda_loaded_free(l);
    }
    return NULL;
}

static void threads_share_the_ring(void **state) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    pthread_t threads[6];
    standin_report r;

    (void)state;
    options(&how, &o);
    how.ring_bytes = 2 * how.chunk_bytes;
    shared = open_gpu(&how);
    for (uintptr_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, loads, (void *)i), 0);
    }
    for (size_t i = 0; i < 6; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    standin_report_(&r);
    assert_true(r.pinned_peak <= 2 * (how.chunk_bytes + 4096));
    sft_cuda_close(shared);
    assert_gpu_clean();
}

/* A device with the model on it. */
static sft_cuda *with_model(sft_cuda_loaded **l) {
    sft_cuda_options how;
    sft_cuda_load_options o;
    options(&how, &o);
    sft_cuda *gpu = open_gpu(&how);
    assert_int_equal(sft_cuda_load(l, gpu, model, &o, NULL), SFT_OK);
    assert_int_equal(sft_cuda_loaded_wait(*l, 0, NULL), SFT_OK);
    return gpu;
}

/* What was loaded comes back, into pinned memory; the device outlives its handle until the copies go. */
static void copies_out(void **state) {
    sft_cuda_copies *copies;
    sft_cuda_view view;
    sft_cuda_loaded *l;
    sft_error err;

    (void)state;
    sft_cuda *gpu = with_model(&l);
    assert_int_equal(sft_cuda_copies_create(&copies, gpu, 1, &err), SFT_OK);
    const sft_copier *copier = sft_cuda_copies_copier(copies);
    assert_int_equal(sft_cuda_loaded_at(l, 0, &view), SFT_OK);
    uint8_t *memory = copier->alloc(copier->ctx, (size_t)view.nbytes + 1);
    uint8_t *wanted = malloc((size_t)view.nbytes + 1);
    assert_non_null(memory);
    assert_non_null(wanted);
    assert_int_equal(copier->copy(copier->ctx, memory, view.address, (size_t)view.nbytes, &err),
                     SFT_OK);
    assert_int_equal(copier->finish(copier->ctx, &err), SFT_OK);
    assert_int_equal(sft_tensor_read(model, view.tensor, NULL, wanted, (size_t)view.nbytes, &err),
                     SFT_OK);
    assert_memory_equal(memory, wanted, (size_t)view.nbytes);
    copier->free(copier->ctx, memory, (size_t)view.nbytes + 1);
    free(wanted);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    sft_cuda_copies_free(copies);
    assert_gpu_clean();
}

/* Copies wait on the device for what computes the tensor, on whatever stream, and are done after finish; into
 * memory that is not pinned, too. */
static void copies_wait_for_the_stream(void **state) {
    enum { SIZE = 1 << 16 };
    static uint8_t plain[SIZE];
    sft_cuda_copies *copies;
    sft_cuda_view view;
    sft_cuda_loaded *l;
    sft_error err;

    (void)state;
    standin_config c = gpu_config(6);
    c.lazy = 1;
    gpu_reset(&c);
    sft_cuda *gpu = with_model(&l);
    size_t size = 0;
    for (size_t i = 0; size < 1000; i++) { /* one of some size */
        assert_int_equal(sft_cuda_loaded_at(l, i, &view), SFT_OK);
        size = view.nbytes < SIZE ? (size_t)view.nbytes : SIZE;
    }
    assert_int_equal(sft_cuda_copies_create(&copies, gpu, 0, &err), SFT_OK);
    const sft_copier *copier = sft_cuda_copies_copier(copies);
    uint8_t *pinned = copier->alloc(copier->ctx, size);
    assert_non_null(pinned);
    for (int round = 0; round < 40; round++) {
        uint8_t *const to = round % 4 == 3 ? plain : pinned;
        const uintptr_t stream = 1 + (uintptr_t)round % 2;
        memset(to, 0xee, size);
        sft_cuda_copies_stream(copies, stream);
        assert_int_equal(produce((void *)stream, view.address, size, round), 0);
        assert_int_equal(copier->copy(copier->ctx, to, view.address, size / 2, &err), SFT_OK);
        assert_int_equal(copier->copy(copier->ctx, to + size / 2, view.address + size / 2,
                                      size - size / 2, &err),
                         SFT_OK);
        assert_int_equal(copier->finish(copier->ctx, &err), SFT_OK);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(to[i], round);
        }
    }
    copier->free(copier->ctx, pinned, size);
    sft_cuda_copies_free(copies);
    sft_cuda_loaded_free(l);
    sft_cuda_close(gpu);
    assert_gpu_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(copies_out, fresh),
        cmocka_unit_test_setup(copies_wait_for_the_stream, fresh),
        cmocka_unit_test_setup(no_driver, fresh),
        cmocka_unit_test_setup(no_device, fresh),
        cmocka_unit_test_setup(arguments, fresh),
        cmocka_unit_test_setup(accounts, fresh),
        cmocka_unit_test_setup(device_memory_ends, fresh),
        cmocka_unit_test_setup(memory_of_the_caller, fresh),
        cmocka_unit_test_setup(watched, fresh),
        cmocka_unit_test_setup(changed_meanwhile, fresh),
        cmocka_unit_test_setup(reads_its_part_only, fresh),
        cmocka_unit_test_setup(unified_memory, fresh),
        cmocka_unit_test_setup(a_stream_that_does_not_wait_sees_other_bytes, fresh),
        cmocka_unit_test_setup(given_up_under_copies, fresh),
        cmocka_unit_test_setup(exports_outlive_everything, fresh),
        cmocka_unit_test_setup(probe, fresh),
        cmocka_unit_test_setup(threads_share_the_ring, fresh),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
