/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/words.c - words in texts, names of files, names of Python: what all rules compare.
 * Leans on no rule. Read first: content.h.
 */
#include "import/content/content.h"
#include "import/content/letters.h"
#include "import/pickle/globals.h"
#include <stdlib.h>

bool sft__import_text_same(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != b[i]) {
            return false;
        }
    }
    return true;
}

const char *sft__import_text_find(const char *p, const char *end, const char *word) {
    const size_t n = strlen(word);

    for (; (size_t)(end - p) >= n; p++) {
        if (lower(*p) == word[0] && sft__import_text_same(p, word, n)) {
            return p;
        }
    }
    return NULL;
}

bool sft__import_content_ends(const char *name, const char *end) {
    const size_t n = strlen(name);
    const size_t m = strlen(end);
    return n >= m && sft__import_text_same(name + n - m, end, m);
}

bool sft__import_text_starts(const char *text, size_t len, const char *with) {
    const size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

bool sft__import_text_has(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);
    const char *end = text + len;

    for (const char *p = text; (size_t)(end - p) >= n; p++) {
        p = memchr(p, word[0], (size_t)(end - p) - n + 1);
        if (p == NULL || memcmp(p, word, n) == 0) {
            return p != NULL;
        }
    }
    return false;
}

bool sft__import_text_is_one(const char *text, size_t len, const char *const *words) {
    for (size_t i = 0; words[i] != NULL && len != 0; i++) {
        if (words[i][0] == text[0] && strlen(words[i]) == len && memcmp(words[i], text, len) == 0) {
            return true;
        }
    }
    return false;
}

bool sft__import_text_starts_one(const char *text, size_t len, const char *const *words) {
    size_t i = 0;

    while (words[i] != NULL && !sft__import_text_starts(text, len, words[i])) {
        i++;
    }
    return words[i] != NULL;
}

bool sft__import_text_has_one(const char *text, size_t len, const char *const *words) {
    size_t i = 0;

    while (words[i] != NULL && !sft__import_text_has(text, len, words[i])) {
        i++;
    }
    return words[i] != NULL;
}

static int by_text(const void *text, const void *item) {
    return strcmp(text, *(const char *const *)item);
}

bool sft__import_text_is_among(const char *text, const char *const *words, size_t count) {
    return bsearch(text, words, count, sizeof *words, by_text) != NULL;
}

const char *sft__import_content_base(const char *name) {
    const char *base = name;
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '/' || *p == '\\') {
            base = p + 1;
        }
    }
    return base;
}

/* Absolute, a URL, a drive, or with ".." among its parts. */
bool sft__import_content_leads_away(const char *path) {
    if (path[0] == '/' || path[0] == '\\' || path[0] == '~' || strstr(path, "://") != NULL ||
        (path[0] != '\0' && path[1] == ':')) {
        return true;
    }
    for (const char *p = path; *p != '\0'; p++) {
        const bool first = p == path || p[-1] == '/' || p[-1] == '\\';
        if (first && p[0] == '.' && p[1] == '.' && (p[2] == '\0' || p[2] == '/' || p[2] == '\\')) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- names of Python */

uint32_t sft__import_content_global(const char *module, size_t module_len, const char *name,
                                    size_t name_len) {
    const char *why;
    const sft__import_global *row = sft__import_global_find(module, module_len, name, name_len);
    return sft__import_global_verdict(row, module, module_len, name, name_len, &why);
}

/* The dots may lie anywhere between module and attributes: the worst reading counts, except that of
 * a name alone, which is one of this program's. */
uint32_t sft__import_content_dotted(const char *name, size_t len) {
    uint32_t worst = SFT_SCAN_UNKNOWN;
    unsigned dots = 0;

    for (size_t i = len; i-- > 0 && dots < 16;) {
        if (name[i] == '.') {
            const uint32_t v = sft__import_content_global(name, i, name + i + 1, len - i - 1);
            worst = v > worst ? v : worst;
            dots++;
        }
    }
    return worst;
}
