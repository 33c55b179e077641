/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/clock_posix.c - clocks and a little chance. See transfer.h.
 */
#include "base/text/strmap.h"
#include "remote/http/transfer.h"
#include <time.h>

uint64_t sft__remote_now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t sft__remote_now_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec;
}

uint64_t sft__remote_jitter(sft_remote *remote) {
    const uint64_t ticket = atomic_fetch_add(&remote->ticket, 1);
    return sft__base_hash(remote->secret, &ticket, sizeof ticket);
}
