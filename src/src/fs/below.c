/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/below.c - recognising the Hugging Face cache from a path alone. See below.h.
 */
#include "fs/below.h"

static bool is_separator(char c) {
    return c == '/' || c == '\\';
}

static bool begins(const char *s, size_t len, const char *prefix) {
    const size_t n = strlen(prefix);
    return len > n && memcmp(s, prefix, n) == 0;
}

size_t sft__fs_cache_root(const char *path) {
    const size_t len = strlen(path);
    size_t begin = 0;    /* of the component being looked at */
    size_t previous = 0; /* of the one before it */
    size_t previous_len = 0;
    size_t root = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && !is_separator(path[i])) {
            continue;
        }
        const char *before = path + previous;
        if (i < len && i - begin == 9 && memcmp(path + begin, "snapshots", 9) == 0 &&
            path[i + 1] != 0 &&
            (begins(before, previous_len, "models--") ||
             begins(before, previous_len, "datasets--") ||
             begins(before, previous_len, "spaces--"))) {
            root = previous + previous_len; /* the innermost one counts */
        }
        previous = begin;
        previous_len = i - begin;
        begin = i + 1;
    }
    return root;
}
