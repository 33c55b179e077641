/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/checkpoint/run_home.h - what tests of training runs have in common: a directory that is new for each
 * test, with the run's path in it, and tensors as <sft/run.h> takes them. One program includes it once.
 */
#ifndef SFT_TESTS_RUN_HOME_H
#define SFT_TESTS_RUN_HOME_H

#include "unit/folder.h"
#include <sft/run.h>

static char base[64];
static char path[96]; /* of the run; not made */

static inline int set_up(void **state) {
    (void)state;
    folder_make(base);
    (void)snprintf(path, sizeof path, "%s/run", base);
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    folder_remove(base);
    return 0;
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* Floats; everything that it points to must stay. */
static inline sft_run_tensor floats(const char *name, uint32_t part, const uint64_t *shape,
                                    uint32_t rank, const void *data, size_t size) {
    sft_run_tensor t;
    SFT_INIT(&t);
    t.name = name;
    t.name_len = strlen(name);
    t.part = part;
    t.dtype = sft_dtype_get(SFT_F32);
    t.shape = shape;
    t.rank = rank;
    t.data = data;
    t.nbytes = size;
    return t;
}

#endif
