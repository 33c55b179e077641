/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/random_posix.c - the table key from the system. Where it has no entropy call, addresses and the
 * clock: weaker, but the key is only there to spoil precomputed collisions.
 */
#ifndef _WIN32
#include "base/text/strmap.h"
#include <time.h>
#include <unistd.h>
#if defined(__linux__) || defined(__APPLE__)
#include <sys/random.h>
#endif

void sft__base_random_key(uint64_t key[2]) {
#if defined(__linux__)
    if (getrandom(key, 16, GRND_NONBLOCK) == 16) {
        return;
    }
#elif defined(__APPLE__) || defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__NetBSD__)
    if (getentropy(key, 16) == 0) {
        return;
    }
#endif
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    key[0] = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)key;
    key[1] = ((uint64_t)now.tv_sec << 32 ^ (uint64_t)getpid()) * UINT64_C(0xbf58476d1ce4e5b9);
}
#endif
