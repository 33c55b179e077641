/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/random_win.c - the table key on Windows: address space layout, counters and ids, mixed.
 */
#ifdef _WIN32
#include "base/text/strmap.h"
#include <windows.h>

void sft__base_random_key(uint64_t key[2]) {
    static const uint64_t seed[2] = {UINT64_C(0x736970686173682d), UINT64_C(0x312d33206b657973)};
    LARGE_INTEGER counter;
    uint64_t words[4];
    counter.QuadPart = 0;
    (void)QueryPerformanceCounter(&counter);
    words[0] = (uint64_t)counter.QuadPart;
    words[1] = (uint64_t)(uintptr_t)key;
    words[2] = ((uint64_t)GetCurrentProcessId() << 32) | GetCurrentThreadId();
    words[3] = (uint64_t)GetTickCount64();
    const uint64_t a = sft__base_hash(seed, words, sizeof words);
    words[0] ^= a;
    key[1] = sft__base_hash(seed, words, sizeof words);
    key[0] = a;
}
#else
typedef int sft__base_random_win_empty;
#endif
