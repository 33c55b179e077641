/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/ls_fold.c - layers.0.w ... layers.31.w become layers.{0..31}.w. Rows are sorted by their name
 * with numbers taken out, so that those which belong together become neighbours; then each run is
 * one row. Read ls.h first.
 */
#include "cli/look/ls.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBERS = 8, MAX_RANGES = 6 };

/* One piece of a name: bytes up to and with the next dot; number: all of it but the dot is one. */
typedef struct part {
    const char *text;
    size_t len; /* without the dot */
    bool number;
    uint64_t value;
} part;

static bool next_part(const char **at, const char *end, part *p) {
    const char *s = *at;

    if (s > end) {
        return false;
    }
    const char *dot = s < end ? memchr(s, '.', (size_t)(end - s)) : NULL;
    p->text = s;
    p->len = (size_t)((dot != NULL ? dot : end) - s);
    p->value = 0;
    p->number = p->len > 0 && p->len <= 18 && (p->len == 1 || s[0] != '0'); /* 18 digits fit */
    for (size_t i = 0; p->number && i < p->len; i++) {
        p->number = s[i] >= '0' && s[i] <= '9';
        p->value = p->value * 10 + (uint64_t)(s[i] - '0');
    }
    *at = dot != NULL ? dot + 1 : end + 1;
    return true;
}

/* Order by the name with every number taken for the same, then dtype, then shape. */
static int compare_kind(const ls_row *a, const ls_row *b) {
    const char *at_a = a->name;
    const char *at_b = b->name;
    part pa;
    part pb;

    for (;;) {
        const bool more_a = next_part(&at_a, a->name + a->len, &pa);
        const bool more_b = next_part(&at_b, b->name + b->len, &pb);
        if (!more_a || !more_b) {
            if (more_a != more_b) {
                return more_a ? 1 : -1;
            }
            break;
        }
        if (pa.number != pb.number) {
            return pa.number ? -1 : 1;
        }
        if (!pa.number) {
            const int order = memcmp(pa.text, pb.text, pa.len < pb.len ? pa.len : pb.len);
            if (order != 0 || pa.len != pb.len) {
                return order != 0 ? order : pa.len < pb.len ? -1 : 1;
            }
        }
    }
    if (a->tensor->dtype->id != b->tensor->dtype->id) {
        return a->tensor->dtype->id < b->tensor->dtype->id ? -1 : 1;
    }
    if (a->tensor->rank != b->tensor->rank) {
        return a->tensor->rank < b->tensor->rank ? -1 : 1;
    }
    return memcmp(a->tensor->shape, b->tensor->shape, a->tensor->rank * sizeof *a->tensor->shape);
}

/* Before folding, count holds the row's position: it keeps the sort stable. */
static int compare_rows(const void *left, const void *right) {
    const ls_row *a = left;
    const ls_row *b = right;
    const int order = compare_kind(a, b);

    return order != 0 ? order : a->count < b->count ? -1 : a->count > b->count;
}

static int compare_position(const void *left, const void *right) {
    const ls_row *a = left;
    const ls_row *b = right;
    return a->count < b->count ? -1 : a->count > b->count;
}

static int compare_u64(const void *left, const void *right) {
    const uint64_t *a = left;
    const uint64_t *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* The k-th number of each name, sorted, once each. Returns how many. */
static size_t numbers_at(const ls_row *rows, size_t count, size_t k, uint64_t *values) {
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        const char *at = rows[i].name;
        size_t seen = 0;
        part p;
        while (next_part(&at, rows[i].name + rows[i].len, &p)) {
            if (p.number && seen++ == k) {
                values[i] = p.value;
                break;
            }
        }
    }
    qsort(values, count, sizeof *values, compare_u64);
    for (size_t i = 0; i < count; i++) {
        if (n == 0 || values[n - 1] != values[i]) {
            values[n++] = values[i];
        }
    }
    return n;
}

/* "7", "{0..31}", "{0,2,4..9}", or "#" when that would be long. */
static void put_numbers(char text[96], const uint64_t *values, size_t n) {
    size_t at = 0;
    size_t ranges = 0;

    if (n == 1) {
        (void)snprintf(text, 96, "%llu", (unsigned long long)values[0]);
        return;
    }
    text[at++] = '{';
    for (size_t i = 0; i < n; ranges++) {
        size_t end = i;
        char item[48];
        while (end + 1 < n && values[end + 1] == values[end] + 1) {
            end++;
        }
        const int len =
            snprintf(item, sizeof item, end > i ? "%s%llu..%llu" : "%s%llu", i > 0 ? "," : "",
                     (unsigned long long)values[i], (unsigned long long)values[end]);
        if (ranges == MAX_RANGES || at + (size_t)len + 2 > 96) {
            (void)snprintf(text, 96, "#");
            return;
        }
        memcpy(text + at, item, (size_t)len);
        at += (size_t)len;
        i = end + 1;
    }
    text[at++] = '}';
    text[at] = '\0';
}

static size_t count_numbers(const ls_row *row) {
    const char *at = row->name;
    size_t n = 0;
    part p;

    while (next_part(&at, row->name + row->len, &p)) {
        n += p.number;
    }
    return n;
}

/* The name that stands for all: exact sets if together they make up every member, else "#". */
static void name_group(ls_row *rows, size_t count, uint64_t *values) {
    char sets[MAX_NUMBERS][96];
    const size_t numbers = count_numbers(&rows[0]);
    const size_t known = numbers < MAX_NUMBERS ? numbers : MAX_NUMBERS;
    uint64_t product = 1;
    size_t at = 0;
    size_t k = 0;
    part p;

    for (size_t i = 0; i < known; i++) {
        const size_t n = numbers_at(rows, count, i, values);
        product = product > count ? product : product * n;
        put_numbers(sets[i], values, n);
    }
    char *text = cli_alloc(rows[0].len + known * 96 + 1, 1);
    const char *from = rows[0].name;
    const char *end = rows[0].name + rows[0].len;
    while (next_part(&from, end, &p)) {
        const char *set = p.number && k < known ? sets[k] : "#";
        if (p.number && product != count && strchr(set, '{') != NULL) {
            set = "#"; /* not every combination is there */
        }
        const size_t len = p.number ? strlen(set) : p.len;
        memcpy(text + at, p.number ? set : p.text, len);
        at += len;
        k += p.number;
        if (from <= end) {
            text[at++] = '.';
        }
    }
    rows[0].owned = text;
    rows[0].name = text;
    rows[0].len = at;
}

size_t cli_ls_fold(ls_row *rows, size_t count) {
    uint64_t *values = cli_alloc(count, sizeof *values);
    size_t made = 0;

    for (size_t i = 0; i < count; i++) {
        rows[i].count = i;
    }
    qsort(rows, count, sizeof *rows, compare_rows);
    uint64_t *members = cli_alloc(count, sizeof *members);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && compare_kind(&rows[i], &rows[end]) == 0) {
            rows[i].nbytes += rows[end].nbytes;
            end++;
        }
        if (end - i > 1) {
            name_group(rows + i, end - i, values);
        }
        members[rows[i].count] = end - i;
        rows[made++] = rows[i];
        i = end;
    }
    qsort(rows, made, sizeof *rows, compare_position);
    for (size_t i = 0; i < made; i++) {
        rows[i].count = members[rows[i].count];
    }
    free(members);
    free(values);
    return made;
}
