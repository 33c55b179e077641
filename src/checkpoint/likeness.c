/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/likeness.c - see likeness.h.
 */
#include "checkpoint/likeness.h"

#define SHARED 80u /* bytes of a name that are compared piece by piece */

/* Bytes of the longest text that is in both. */
static size_t shared(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t most = 0;
    for (size_t i = 0; i + most < a_len; i++) {
        for (size_t k = 0; k + most < b_len; k++) {
            size_t n = 0;
            while (i + n < a_len && k + n < b_len && a[i + n] == b[k + n]) {
                n++;
            }
            most = n > most ? n : most;
        }
    }
    return most;
}

size_t sft__checkpoint_likeness(const char *a, size_t a_len, const char *b, size_t b_len) {
    const size_t most = a_len < b_len ? a_len : b_len;
    size_t front = 0;
    size_t back = 0;
    while (front < most && a[front] == b[front]) {
        front++;
    }
    while (back < most - front && a[a_len - 1 - back] == b[b_len - 1 - back]) {
        back++;
    }
    return front + back +
           shared(a, a_len < SHARED ? a_len : SHARED, b, b_len < SHARED ? b_len : SHARED);
}
