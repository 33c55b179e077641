/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/names.c - the one grammar of patterns for names and the one natural order, both public
 * (<sft/types.h>). Patterns are walked with one place to go back to, the last star: no recursion, at most
 * name times pattern steps. Bytes that are no UTF-8 are characters of their own.
 */
#include "base/compiler.h"
#include "base/text/utf8.h"
#include <sft/types.h>
#include <string.h>

typedef struct text {
    const char *at;
    size_t left;
} text;

/* The character at the front, which is taken away; a byte that begins none is one above all others. */
static uint32_t take(text *t) {
    uint32_t code = 0;
    size_t len = sft__base_utf8_decode(t->at, t->left, &code);

    if (len == 0) {
        code = 0x110000u + (uint8_t)t->at[0];
        len = 1;
    }
    t->at += len;
    t->left -= len;
    return code;
}

/* The set behind a '[': is the character in it? False, with *set as it was, if it is never closed. */
static bool take_set(text *set, uint32_t character, bool *in) {
    text t = *set;
    const bool turned = t.left > 0 && (t.at[0] == '!' || t.at[0] == '^');
    bool found = false;

    t.at += turned;
    t.left -= turned;
    for (bool first = true; t.left > 0; first = false) {
        const uint32_t low = take(&t);
        uint32_t high = low;
        if (low == ']' && !first) {
            *set = t;
            *in = found != turned;
            return true;
        }
        if (t.left > 1 && t.at[0] == '-' && t.at[1] != ']') {
            t.at++;
            t.left--;
            high = take(&t);
        }
        found = found || (character >= low && character <= high);
    }
    return false;
}

/* One element of the pattern, no star, against one character of the name; both move behind it. */
static bool take_one(text *pattern, text *name) {
    const uint32_t character = take(name);
    const uint32_t want = take(pattern);
    bool in = false;

    if (want == '?') {
        return true;
    }
    if (want == '[' && take_set(pattern, character, &in)) {
        return in;
    }
    return (want == '\\' && pattern->left > 0 ? take(pattern) : want) == character;
}

int sft_glob_match(const char *pattern, size_t pattern_len, const char *name, size_t name_len) {
    text p = {pattern, pattern_len}, n = {name, name_len};
    text star = {NULL, 0}, from = {NULL, 0};

    while (n.left > 0) {
        text next = p, behind = n;
        if (p.left > 0 && p.at[0] == '*') {
            p = (text){p.at + 1, p.left - 1};
            star = p;
            from = n;
        } else if (p.left > 0 && take_one(&next, &behind)) {
            p = next;
            n = behind;
        } else if (star.at != NULL) {
            (void)take(&from);
            p = star;
            n = from;
        } else {
            return 0;
        }
    }
    while (p.left > 0 && p.at[0] == '*') {
        p = (text){p.at + 1, p.left - 1};
    }
    return p.left == 0;
}

/* The digits at the front, taken away: how many; *value: without the zeros before them. */
static size_t take_digits(text *t, text *value) {
    size_t n = 0;

    while (n < t->left && t->at[n] >= '0' && t->at[n] <= '9') {
        n++;
    }
    *value = (text){t->at, n};
    while (value->left > 1 && value->at[0] == '0') {
        *value = (text){value->at + 1, value->left - 1};
    }
    t->at += n;
    t->left -= n;
    return n;
}

int sft_natural_compare(const char *a, size_t a_len, const char *b, size_t b_len) {
    text x = {a, a_len}, y = {b, b_len};

    while (x.left > 0 && y.left > 0) {
        text k = x, m = y, of_k, of_m;
        const size_t n = take_digits(&k, &of_k), o = take_digits(&m, &of_m);
        if (n > 0 && o > 0) { /* by value; 7 before 07, so names that share a start stay together */
            const int order = of_k.left != of_m.left ? (of_k.left < of_m.left ? -1 : 1)
                                                     : memcmp(of_k.at, of_m.at, of_k.left);
            if (order != 0 || n != o) {
                return order != 0 ? (order < 0 ? -1 : 1) : n < o ? -1 : 1;
            }
            x = k;
            y = m;
        } else if (x.at[0] != y.at[0]) {
            return (uint8_t)x.at[0] < (uint8_t)y.at[0] ? -1 : 1;
        } else {
            x = (text){x.at + 1, x.left - 1};
            y = (text){y.at + 1, y.left - 1};
        }
    }
    return x.left != y.left ? (x.left < y.left ? -1 : 1) : 0;
}
