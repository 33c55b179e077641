/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/checkpoint/crowd.h - a group whose processes are threads: the smallest thing that lends
 * sft_group its two functions. Assertions belong into the thread that made the crowd.
 */
#ifndef SFT_TESTS_CROWD_H
#define SFT_TESTS_CROWD_H

#include "unit/folder.h"
#include <pthread.h>
#include <sft/checkpoint_group.h>
#include <stdlib.h>
#include <string.h>

enum { CROWD_MOST = 16 };

typedef struct crowd {
    pthread_mutex_t lock;
    pthread_cond_t turn;
    uint32_t size;
    uint32_t waiting;
    uint64_t round;
    uint8_t *shared; /* of the round */
    size_t shared_size;
    uint64_t gathers;
    size_t greatest; /* bytes of one process at once */
} crowd;

typedef struct crowd_member {
    crowd *all;
    uint32_t rank;
    sft_group group;
    void (*run)(struct crowd_member *m);
    void *ctx;
    sft_status status;
    sft_error err;
    pthread_t thread;
} crowd_member;

/* Lock held. The last one to come opens the door. */
static inline void crowd_wait(crowd *c) {
    const uint64_t round = c->round;
    if (++c->waiting == c->size) {
        c->waiting = 0;
        c->round++;
        (void)pthread_cond_broadcast(&c->turn);
    }
    while (c->round == round) {
        (void)pthread_cond_wait(&c->turn, &c->lock);
    }
}

static inline sft_status crowd_gather(void *ctx, const void *mine, size_t bytes, void *all,
                                      sft_error *err) {
    crowd_member *const m = ctx;
    crowd *const c = m->all;
    (void)err;
    (void)pthread_mutex_lock(&c->lock);
    if (c->shared_size < bytes * c->size) {
        free(c->shared);
        c->shared = malloc(bytes * c->size);
        c->shared_size = bytes * c->size;
    }
    memcpy(c->shared + m->rank * bytes, mine, bytes);
    c->gathers += m->rank == 0;
    c->greatest = bytes > c->greatest ? bytes : c->greatest;
    crowd_wait(c);
    memcpy(all, c->shared, bytes * c->size);
    crowd_wait(c);
    (void)pthread_mutex_unlock(&c->lock);
    return SFT_OK;
}

static inline void *crowd_main(void *ctx) {
    crowd_member *const m = ctx;
    m->run(m);
    return NULL;
}

/* Runs `run` in `size` threads, to their end. The shared buffer may only grow between rounds: all
 * copy out of it before anybody leaves. */
static inline void crowd_run(crowd_member *members, uint32_t size, void (*run)(crowd_member *m),
                             void *ctx) {
    crowd c;
    memset(&c, 0, sizeof c);
    c.size = size;
    (void)pthread_mutex_init(&c.lock, NULL);
    (void)pthread_cond_init(&c.turn, NULL);
    for (uint32_t i = 0; i < size; i++) {
        crowd_member *const m = &members[i];
        memset(m, 0, sizeof *m);
        m->all = &c;
        m->rank = i;
        m->run = run;
        m->ctx = ctx;
        SFT_INIT(&m->group);
        m->group.rank = i;
        m->group.size = size;
        m->group.allgather = crowd_gather;
        m->group.ctx = m;
    }
    for (uint32_t i = 0; i < size; i++) {
        (void)pthread_create(&members[i].thread, NULL, crowd_main, &members[i]);
    }
    for (uint32_t i = 0; i < size; i++) {
        (void)pthread_join(members[i].thread, NULL);
    }
    free(c.shared);
    (void)pthread_cond_destroy(&c.turn);
    (void)pthread_mutex_destroy(&c.lock);
}

static inline void assert_all_ok(const crowd_member *members, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        if (members[i].status != SFT_OK) {
            fail_msg("rank %u: %s: %s", (unsigned)i, members[i].err.tensor, members[i].err.message);
        }
    }
}

/* All with one status and one message, which has these words in it. */
static inline void assert_all_fail(const crowd_member *members, uint32_t size, sft_status status,
                                   const char *words) {
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(members[i].status, status);
        assert_string_equal(members[i].err.message, members[0].err.message);
        assert_string_equal(members[i].err.tensor, members[0].err.tensor);
    }
    if (strstr(members[0].err.message, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, members[0].err.message);
    }
}

static inline void assert_absent(const char *path) {
    struct stat st;
    char staging[256];
    const char *const name = strrchr(path, '/') + 1;
    assert_int_not_equal(lstat(path, &st), 0);
    (void)snprintf(staging, sizeof staging, "%.*s.%s.sft-part", (int)(name - path), path, name);
    assert_int_not_equal(lstat(staging, &st), 0);
}

#endif
