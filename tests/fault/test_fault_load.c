/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Loads where the system refuses what makes them fast, or gives little: huge pages forbidden, no locked
 * memory, address space limited, reads that are interrupted and come short, a file that is cut while it is
 * loaded. Every strategy, in a process of its own each: what comes is whole and right, or an error says why
 * not. The number of loads is printed.
 */
#include "unit/files.h"

#include <sft/sft.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { TENSORS = 12, EACH = 300 << 10, TOTAL = TENSORS * EACH };
static uint8_t *data; /* of tensor i at i * EACH */
static char path[1024];

/* ---------------------------------------------------------------- reads that come short */

static int cut_reads;

static ssize_t cut_vector(int fd, const struct iovec *v, int count, off_t at) {
    static unsigned calls;
    struct iovec first = v[0];
    calls++;
    if (cut_reads && calls % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    if (cut_reads) { /* of the first part, most */
        first.iov_len = first.iov_len > 1 ? first.iov_len / 2 + 1 : first.iov_len;
        count = 1;
        v = &first;
    }
    return syscall(SYS_preadv, fd, v, count, (long)at, (long)0);
}

ssize_t pread(int fd, void *buf, size_t size, off_t at) {
    const struct iovec v = {buf, size};
    return cut_vector(fd, &v, 1, at);
}

ssize_t preadv(int fd, const struct iovec *v, int count, off_t at) {
    return cut_vector(fd, v, count, at);
}

/* ---------------------------------------------------------------- loads */

static int save_file(void **state) {
    sft_save_tensor list[TENSORS];
    static char names[TENSORS][4];
    static const uint64_t shape[] = {EACH};
    sft_write_options o;
    sft_error err;
    if (scratch_make(state) != 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s", in_scratch("model.safetensors"));
    data = malloc(TOTAL);
    assert_non_null(data);
    for (uint32_t i = 0, v = 1; i < TOTAL; i++, v = v * 1664525 + 1013904223) {
        data[i] = (uint8_t)(v >> 24);
    }
    memset(list, 0, sizeof list);
    for (unsigned i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%02u", i);
        list[i] = (sft_save_tensor){.name = names[i],
                                    .name_len = 2,
                                    .dtype = sft_dtype_get(SFT_U8),
                                    .shape = shape,
                                    .rank = 1,
                                    .data = data + (size_t)i * EACH,
                                    .nbytes = EACH};
    }
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C;
    return sft_save(path, list, TENSORS, NULL, 0, &o, &err) == SFT_OK ? 0 : -1;
}

/* One load; k chooses how. A wrong byte ends the process with 9. places: TOTAL bytes, or NULL. */
static sft_status load_once(const sft_catalog *c, unsigned k, uint8_t *places,
                            const sft_control *control, sft_error *err) {
    sft_load_place place[TENSORS];
    sft_pool *pool = NULL;
    sft_load_options o;
    sft_loaded *l;
    SFT_INIT(&o);
    o.strategy = (sft_strategy)(k % 4);
    o.control = control;
    if (k / 5 % 2 != 0) {
        const sft_status status = sft_pool_create(&pool, 3, NULL, err);
        if (status != SFT_OK) {
            return status;
        }
    }
    o.pool = pool;
    o.flags = k / 10 % 2 != 0 ? SFT_LOAD_VERIFY : 0;
    for (unsigned i = 0; i < TENSORS; i++) {
        place[i] = (sft_load_place){places != NULL ? places + (size_t)i * EACH : NULL, EACH};
    }
    o.places = k / 20 % 2 != 0 && places != NULL && o.strategy != SFT_STRATEGY_MAP ? place : NULL;
    const sft_status status = sft_load(&l, c, &o, err);
    for (unsigned i = 0; i < TENSORS && status == SFT_OK; i++) {
        const uint8_t *got = sft_loaded_data(l, sft_catalog_at(c, i), NULL);
        if (memcmp(got, data + (size_t)i * EACH, EACH) != 0) {
            _exit(9);
        }
    }
    sft_loaded_free(l);
    sft_pool_free(pool);
    return status;
}

/* Every way in a child that `change` has been called in. also: a failure that is no fault. */
static void in_a_child(const char *what, void (*change)(void), sft_status also) {
    int status = 0;
    (void)fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sft_catalog *c;
        sft_error err;
        unsigned fine = 0, failed = 0;
        uint8_t *places = malloc(TOTAL);
        if (places == NULL || sft_catalog_open(&c, path, NULL, &err) != SFT_OK) {
            _exit(2);
        }
        change();
        for (unsigned k = 0; k < 40; k++) {
            const sft_status s = load_once(c, k, places, NULL, &err);
            const int told = s == also || (also == SFT_E_NOMEM && err.sys == ENOMEM);
            fine += s == SFT_OK;
            failed += s != SFT_OK && told;
            if (s != SFT_OK && !told) {
                (void)fprintf(stderr, "%s, load %u: %s (%s, %d)\n", what, k, err.message,
                              sft_status_name((int32_t)s), (int)err.sys);
                _exit(3);
            }
        }
        printf("  %s: %u loads right, %u refused\n", what, fine, failed);
        (void)fflush(stdout);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void nothing_changed(void) {
}

static void no_huge_pages(void) {
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
        _exit(4);
    }
}

static void no_locked_memory(void) {
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0) {
        _exit(4);
    }
}

static void short_reads(void) {
    cut_reads = 1;
}

static void test_refused(void **state) {
    (void)state;
    in_a_child("as it is", nothing_changed, SFT_OK);
    in_a_child("no huge pages", no_huge_pages, SFT_OK);
    in_a_child("no locked memory", no_locked_memory, SFT_OK);
    in_a_child("short reads", short_reads, SFT_OK);
}

/* Address space, from what is there already to enough for everything. */
static rlim_t room;

static void little_room(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%lu", &pages) != 1 || fclose(f) != 0) {
        _exit(4);
    }
    const rlim_t now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    const struct rlimit limit = {now + room, now + room};
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        _exit(4);
    }
}

static void test_address_space(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("  address space is the sanitizer's: not limited\n");
#else
    for (room = 64 << 10; room <= 64 << 20; room *= 4) {
        in_a_child("little room", little_room, SFT_E_NOMEM);
    }
#endif
}

/* ---------------------------------------------------------------- a file that is cut meanwhile */

static int cut_file(void *ctx, const sft_progress *progress) {
    unsigned *left = ctx;
    if (progress->bytes_done > 0 && *left > 0 && --*left == 0) {
        assert_int_equal(truncate(path, TOTAL / 2), 0);
    }
    return 0;
}

static void test_cut_meanwhile(void **state) {
    unsigned truncated = 0, changed = 0;
    size_t size = 0;
    uint8_t *places = malloc(TOTAL);
    char *whole = file_get(path, &size);
    (void)state;
    assert_true(whole != NULL && places != NULL);
    for (unsigned k = 0; k < 40; k++) {
        unsigned left = 1 + k % 7;
        const sft_control control = {sizeof control, cut_file, &left};
        sft_catalog *c;
        sft_error err;
        if (k % 5 == SFT_STRATEGY_MAP) {
            continue; /* the caller's hazard */
        }
        assert_int_equal(sft_catalog_open(&c, path, NULL, &err), SFT_OK);
        const sft_status s = load_once(c, k, places, &control, &err);
        truncated += s == SFT_E_TRUNCATED;
        changed += s == SFT_E_CHANGED;
        if (left == 0) { /* else it was loaded in fewer steps */
            assert_true(s == SFT_E_TRUNCATED || s == SFT_E_CHANGED);
        }
        sft_catalog_close(c);
        file_put(path, whole, size);
    }
    printf("  cut meanwhile: %u truncated, %u changed\n", truncated, changed);
    assert_true(truncated > 0);
    free(whole);
    free(places);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_address_space),
                                       cmocka_unit_test(test_cut_meanwhile)};
    return cmocka_run_group_tests(tests, save_file, scratch_drop);
}
