/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Every allocation of every scenario fails in turn: once alone, and once with all that follow.
 * Nothing may leak, sizes given back must be right, and files are as before or as after, never
 * between.
 */
#include "scenario.h"

typedef struct counter {
    size_t calls;
    size_t fail_at; /* 1: the first; 0: none */
    bool all_after;
    size_t blocks;
    size_t bytes;
} counter;

static bool fails(counter *c) {
    c->calls++;
    return c->fail_at != 0 && (c->calls == c->fail_at || (c->all_after && c->calls > c->fail_at));
}

/* Each block carries its size, to be compared with what the library says on giving it back. */
static void *counted_alloc(void *ctx, size_t size) {
    counter *c = ctx;
    if (fails(c)) {
        return NULL;
    }
    size_t *p = malloc(size + 2 * sizeof *p);
    assert_non_null(p);
    assert_true(size > 0);
    p[0] = size;
    memset(p + 2, 0xa5, size);
    c->blocks++;
    c->bytes += size;
    return p + 2;
}

static void counted_free(void *ctx, void *ptr, size_t size) {
    counter *c = ctx;
    size_t *p = (size_t *)ptr - 2;
    assert_int_equal(p[0], size);
    c->blocks--;
    c->bytes -= size;
    memset(ptr, 0x5a, size);
    free(p);
}

static void *counted_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    void *fresh = counted_alloc(ctx, new_size);
    if (fresh != NULL) {
        memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
        counted_free(ctx, ptr, old_size);
    }
    return fresh;
}

static size_t run_one(const scenario *s, const snapshot *before, const snapshot *after,
                      size_t fail_at, bool all_after) {
    counter c = {0, fail_at, all_after, 0, 0};
    const sft_allocator a = {counted_alloc, counted_resize, counted_free, &c};
    sft_error err;
    snapshot now;
    s->prepare();
    const sft_status st = s->run(&a, &err);
    assert_int_equal(c.blocks, 0);
    assert_int_equal(c.bytes, 0);
    snapshot_take(&now, false);
    if (st == SFT_OK) {
        assert_true(snapshot_equal(&now, after));
    } else {
        assert_true(st == SFT_E_NOMEM || st == SFT_E_DURABILITY);
        assert_int_equal(err.status, st);
        assert_true(snapshot_equal(&now, st == SFT_E_NOMEM ? before : after));
        assert_true(fail_at != 0 && c.calls >= fail_at);
    }
    snapshot_drop(&now);
    (void)scratch_list(1);
    return c.calls;
}

static void every_allocation_fails(void **state) {
    (void)state;
    size_t runs = 0;
    for (size_t i = 0; i < scenario_count; i++) {
        const scenario *s = &scenarios[i];
        snapshot before;
        snapshot after;
        sft_error err;
        s->prepare();
        snapshot_take(&before, false);
        assert_int_equal(s->run(NULL, &err), SFT_OK);
        snapshot_take(&after, false);
        (void)scratch_list(1);
        const size_t calls = run_one(s, &before, &after, 0, false);
        assert_true(calls > 0);
        for (size_t k = 1; k <= calls; k++) {
            (void)run_one(s, &before, &after, k, false);
            (void)run_one(s, &before, &after, k, true);
        }
        runs += 2 * calls;
        print_message("  %-42s %4zu allocations\n", s->name, calls);
        snapshot_drop(&before);
        snapshot_drop(&after);
    }
    print_message("  %zu runs with a failing allocation\n", runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_allocation_fails, scratch_clear),
    };
    return cmocka_run_group_tests_name("fault: memory", tests, scenarios_open_quick,
                                       scenarios_close);
}
