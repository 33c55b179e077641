/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A small reshard from two ranks to three, and the replicas of a folder removed and brought back,
 * while every allocation, then every system call of them fails in turn. Afterwards: the target is
 * not there, or is complete; nothing leaks, no descriptor stays open; the same thing without
 * failures goes on from what was left and gives the right bytes.
 */
#define SFT_FILES_SHARED
#include "unit/files.h"
#include "unit/folder.h"
#include "wrap.h"

#include <errno.h>
#include <sft/dedupe.h>
#include <sft/digest.h>
#include <sft/sft.h>
#include <stdbool.h>

char scratch[256];
static char source[300], target[300];

enum { WIDE = 6000, RANKS = 4 };

/* ---------------------------------------------------------------- the folder */

static const char three[] =
    "{\"format\": \"safetensors-layout\", \"version\": 1, \"mesh\": {\"axes\": {\"x\": 3}}, "
    "\"tensors\": [{\"name\": \"rows\", \"cuts\": [{\"by\": \"x\", \"split\": \"chunk\"}, null]},"
    " {\"name\": \"columns\", \"cuts\": [null, {\"by\": \"x\", \"split\": \"chunk\"}]}]}";
static const char four[] =
    "{\"format\": \"safetensors-layout\", \"version\": 1, \"mesh\": {\"axes\": {\"dp\": 2, \"x\": "
    "2}}, "
    "\"tensors\": [{\"name\": \"rows\", \"cuts\": [\"x\", null]},"
    " {\"name\": \"columns\", \"cuts\": [null, \"x\"]}, {\"name\": \"norm\", \"cuts\": [null]}]}";

static void save_rank(unsigned rank, const uint8_t *data) {
    static const sft_metadata_entry meta[] = {{"format", 6, "pt", 2}};
    uint64_t rows[] = {3, WIDE};
    uint64_t columns[] = {40, WIDE / 40};
    uint64_t norm[] = {64};
    const uint8_t *const mine = data + (rank % 2) * 997;
    const sft_save_tensor t[] = {
        {"columns", 7, sft_dtype_get(SFT_F32), columns, 2, 0, mine, WIDE * 4},
        {"rows", 4, sft_dtype_get(SFT_U8), rows, 2, 0, mine, 3 * (size_t)WIDE},
        {"norm", 4, sft_dtype_get(SFT_F16), norm, 1, 0, data, 128},
    };
    char path[400];
    sft_error err;
    (void)snprintf(path, sizeof path, "%s/rank_%u", source, rank);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof path, "%s/rank_%u/model.safetensors", source, rank);
    assert_int_equal(sft_save(path, t, 3, meta, 1, NULL, &err), SFT_OK);
}

static int make_source(void **state) {
    char path[400];
    uint8_t *data;
    (void)state;
    if (scratch_make_in("/dev/shm") != 0 && scratch_make(state) != 0) {
        return -1;
    }
    (void)snprintf(source, sizeof source, "%s/ranks", scratch);
    (void)snprintf(target, sizeof target, "%s/out", scratch);
    if (mkdir(source, 0755) != 0 || (data = malloc(WIDE * 8)) == NULL) {
        return -1;
    }
    for (size_t i = 0; i < WIDE * 8; i++) {
        data[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (unsigned r = 0; r < RANKS; r++) {
        save_rank(r, data);
    }
    free(data);
    (void)snprintf(path, sizeof path, "%s/layout.json", source);
    file_put(path, four, sizeof four - 1);
    return 0;
}

static int drop_source(void **state) {
    (void)state;
    folder_remove(scratch);
    return 0;
}

/* ---------------------------------------------------------------- what is done */

static sft_status run_job(const sft_job_file *files, size_t count, sft_order order,
                          const sft_allocator *a, sft_error *err) {
    sft_job_options o;
    sft_job_run_options r;
    sft_job *job;
    SFT_INIT(&o);
    SFT_INIT(&r);
    o.allocator = a;
    o.order = order;
    r.durability = SFT_DURABLE_FULL;
    r.memory_bytes = 4 << 20;
    r.flags = SFT_JOB_VERIFY;
    sft_status status = sft_job_create(&job, files, count, NULL, 0, &o, err);
    if (status == SFT_OK) {
        status = sft_job_run(job, target, &r, NULL, err);
        sft_job_free(job);
    }
    return status;
}

/* Borrowed catalogs are closed by the caller. */
static sft_status cut(const sft_checkpoint *c, sft_catalog **whole, sft_catalog **parts,
                      sft_layout_set *set, const sft_open_options *open, sft_error *err) {
    static const char *const names[] = {"0.safetensors", "1.safetensors", "deep/2.safetensors"};
    sft_job_file files[3];
    sft_status status = sft_checkpoint_join_ranks(whole, c, open, err);
    memset(files, 0, sizeof files);
    for (size_t i = 0; i < 3 && status == SFT_OK; i++) {
        status =
            sft_checkpoint_part(&parts[i], *whole, i, sft_layout_set_find_global, set, open, err);
        files[i].name = names[i];
        files[i].catalog = parts[i];
        files[i].flags = SFT_JOB_FILE_METADATA;
    }
    return status == SFT_OK ? run_job(files, 3, SFT_ORDER_REFERENCE, open->allocator, err) : status;
}

static sft_status open_source(sft_checkpoint **c, const sft_open_options *open, sft_error *err) {
    sft_checkpoint_options o;
    SFT_INIT(&o);
    o.open = open;
    return sft_checkpoint_open(c, source, &o, err);
}

static sft_status reshard(const sft_allocator *a, sft_error *err) {
    sft_open_options open;
    sft_layout_set_options read;
    sft_layout_set *set = NULL;
    sft_checkpoint *c = NULL;
    sft_catalog *whole = NULL;
    sft_catalog *parts[3] = {NULL, NULL, NULL};
    SFT_INIT(&open);
    SFT_INIT(&read);
    open.allocator = a;
    read.allocator = a;
    sft_status status = sft_layout_set_parse(&set, three, sizeof three - 1, "three", &read, err);
    if (status == SFT_OK) {
        status = open_source(&c, &open, err);
    }
    if (status == SFT_OK) {
        status = cut(c, &whole, parts, set, &open, err);
    }
    for (size_t i = 0; i < 3; i++) {
        sft_catalog_close(parts[i]);
    }
    sft_catalog_close(whole);
    sft_checkpoint_close(c);
    sft_layout_set_free(set);
    return status;
}

static sft_status thin(const sft_allocator *a, sft_dedupe_rule rule, bool expand, sft_error *err) {
    sft_open_options open;
    sft_dedupe_options o;
    sft_checkpoint *c;
    sft_dedupe *d = NULL;
    size_t count;
    SFT_INIT(&open);
    SFT_INIT(&o);
    open.allocator = a;
    o.allocator = a;
    o.open = &open;
    o.rule = rule;
    sft_status status = open_source(&c, &open, err);
    if (status == SFT_OK) {
        status = expand ? sft_dedupe_expand(&d, c, &o, err) : sft_dedupe_create(&d, c, &o, err);
    }
    if (status == SFT_OK) {
        status = sft_dedupe_compare(d, NULL, NULL, NULL, err);
    }
    if (status == SFT_OK) {
        const sft_job_file *const files = sft_dedupe_files(d, &count);
        status = run_job(files, count, sft_dedupe_order(d), a, err);
    }
    sft_dedupe_free(d);
    sft_checkpoint_close(c);
    return status;
}

static sft_status dedupe(const sft_allocator *a, sft_error *err) {
    return thin(a, SFT_DEDUPE_MINDSPORE, false, err);
}

static sft_status balance(const sft_allocator *a, sft_error *err) {
    return thin(a, SFT_DEDUPE_BALANCED, false, err);
}

static sft_status expand(const sft_allocator *a, sft_error *err) {
    return thin(a, SFT_DEDUPE_MINDSPORE, true, err);
}

static const struct {
    const char *name;
    sft_status (*run)(const sft_allocator *a, sft_error *err);
} works[] = {{"reshard", reshard}, {"dedupe", dedupe}, {"balanced", balance}, {"expand", expand}};
enum { WORKS = sizeof works / sizeof works[0] };

/* ---------------------------------------------------------------- the right bytes */

static bool is_there(void) {
    struct stat st;
    return stat(target, &st) == 0;
}

static void leave_nothing(void) {
    char path[400];
    folder_remove(target);
    (void)snprintf(path, sizeof path, "%s/.out.sft-part", scratch);
    folder_remove(path);
}

/* Of all files that can be below the target. */
static uint64_t fingerprint(void) {
    static const char *const names[] = {"0.safetensors",
                                        "1.safetensors",
                                        "deep/2.safetensors",
                                        "rank_0/model.safetensors",
                                        "rank_1/model.safetensors",
                                        "rank_2/model.safetensors",
                                        "rank_3/model.safetensors"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stat st;
        const char *const path = in_folder(target, names[i]);
        if (stat(path, &st) == 0) {
            size_t size = 0;
            char *const data = file_get(path, &size);
            sum = sum * 1000003 + size * 7 + i;
            sum = sum * 1000003 + sft_crc32c(0, data, size);
            free(data);
        }
    }
    return sum;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* After a failure, or a success in spite of one: what must hold, and that it can be ended. */
static void judge(size_t which, sft_status status, const sft_error *err, uint64_t right,
                  bool finish) {
    sft_error again;
    if (status == SFT_OK || status == SFT_E_DURABILITY) {
        assert_true(is_there());
    } else {
        assert_int_equal(err->status, status);
        assert_true(err->message[0] != 0);
    }
    if (!is_there()) {
        if (!finish) {
            return;
        }
        const sft_status end = works[which].run(NULL, &again);
        if (end != SFT_OK) {
            print_message("%s: %s, after %s\n", works[which].name, again.message, err->message);
        }
        assert_int_equal(end, SFT_OK);
    }
    if (fingerprint() != right) {
        print_message("%s: other bytes after status %d: %s\n", works[which].name, (int)status,
                      status != SFT_OK ? err->message : "");
        fail();
    }
    leave_nothing();
}

static uint64_t right_one(size_t which) {
    sft_error err;
    leave_nothing();
    const sft_status status = works[which].run(NULL, &err);
    if (status != SFT_OK) {
        print_message("%s: %s\n", works[which].name, err.message);
    }
    assert_int_equal(status, SFT_OK);
    const uint64_t right = fingerprint();
    leave_nothing();
    return right;
}

/* ---------------------------------------------------------------- memory */

typedef struct counter {
    size_t calls;
    size_t fail_at; /* 0: none */
    bool all_after;
    size_t blocks;
    size_t bytes;
} counter;

static void *counted_alloc(void *ctx, size_t size) {
    counter *const c = ctx;
    c->calls++;
    if (c->fail_at != 0 && (c->calls == c->fail_at || (c->all_after && c->calls > c->fail_at))) {
        return NULL;
    }
    size_t *const p = malloc(size + 2 * sizeof *p);
    assert_non_null(p);
    assert_true(size > 0);
    p[0] = size;
    memset(p + 2, 0xa5, size < 4096 ? size : 4096);
    c->blocks++;
    c->bytes += size;
    return p + 2;
}

static void counted_free(void *ctx, void *ptr, size_t size) {
    counter *const c = ctx;
    size_t *const p = (size_t *)ptr - 2;
    assert_int_equal(p[0], size);
    c->blocks--;
    c->bytes -= size;
    free(p);
}

static void *counted_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    void *const fresh = counted_alloc(ctx, new_size);
    if (fresh != NULL) {
        memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
        counted_free(ctx, ptr, old_size);
    }
    return fresh;
}

static size_t without_memory(size_t which, size_t fail_at, bool all_after, uint64_t right) {
    counter c = {0, fail_at, all_after, 0, 0};
    const sft_allocator a = {counted_alloc, counted_resize, counted_free, &c};
    sft_error err;
    const sft_status status = works[which].run(&a, &err);
    assert_int_equal(c.blocks, 0);
    assert_int_equal(c.bytes, 0);
    if (status != SFT_OK && status != SFT_E_NOMEM && status != SFT_E_DURABILITY) {
        print_message("allocation %zu: %s\n", fail_at, err.message);
        fail();
    }
    judge(which, status, &err, right, fail_at % 8 == 0);
    return c.calls;
}

static void every_allocation_fails(void **state) {
    (void)state;
    for (size_t w = 0; w < WORKS; w++) {
        const uint64_t right = right_one(w);
        const size_t calls = without_memory(w, 0, false, right);
        assert_true(calls > 0);
        for (size_t k = 1; k <= calls; k++) {
            (void)without_memory(w, k, false, right);
            (void)without_memory(w, k, true, right);
        }
        leave_nothing();
        print_message("  %-10s %4zu allocations\n", works[w].name, calls);
    }
}

/* ---------------------------------------------------------------- system calls */

typedef struct fault {
    wrap_kind kind;
    int error;
} fault;

/* After these nothing may be wrong, whatever the call was. */
static bool harmless(const char *call, const fault *f) {
    return (f->kind == WRAP_ERRNO && f->error == EINTR && strncmp(call, "pread", 5) == 0) ||
           (f->kind == WRAP_ONE && strncmp(call, "pwrite", 6) == 0);
}

static size_t with_fault(size_t which, size_t fail_at, const fault *f, uint64_t right,
                         size_t *failures) {
    const int before = open_descriptors();
    sft_error err;
    wrap_arm(fail_at, f->kind, f->error, 0);
    const sft_status status = works[which].run(NULL, &err);
    const size_t calls = wrap_disarm();
    const char *const call = fail_at != 0 && fail_at <= calls ? wrap_call(fail_at) : "";
    if (open_descriptors() != before || (status != SFT_OK && harmless(call, f))) {
        print_message("call %zu, %s: %s\n", fail_at, call, err.message);
        fail();
    }
    *failures += status != SFT_OK;
    if (f->kind == WRAP_ONE && strncmp(call, "readdir", 7) == 0) {
        leave_nothing(); /* a listing that ends early cannot be told from a shorter one */
    } else {
        judge(which, status, &err, right, fail_at % 4 == 0);
    }
    return calls;
}

static void every_call_fails(void **state) {
    static const fault faults[] = {
        {WRAP_ERRNO, EIO}, {WRAP_ERRNO, ENOSPC}, {WRAP_ERRNO, EINTR}, {WRAP_ONE, 0}};
    (void)state;
    for (size_t w = 0; w < WORKS; w++) {
        const uint64_t right = right_one(w);
        size_t failures = 0;
        const size_t calls = with_fault(w, 0, &faults[0], right, &failures);
        assert_true(calls > 0 && failures == 0);
        for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
            for (size_t k = 1; k <= calls; k++) {
                (void)with_fault(w, k, &faults[f], right, &failures);
            }
            leave_nothing();
        }
        assert_true(failures > calls / 2);
        print_message("  %-10s %4zu calls, %zu runs failed\n", works[w].name, calls, failures);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(every_call_fails),
    };
    return cmocka_run_group_tests_name("fault: jobs", tests, make_source, drop_source);
}
