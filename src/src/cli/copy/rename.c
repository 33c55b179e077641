/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/rename.c - see rename.h.
 */
#include "cli/copy/rename.h"
#include "cli/cmd.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- parsing */

typedef struct side {
    cli_text_part *parts;
    size_t *takes; /* NULL: OLD */
    size_t holes;
} side;

/* A hole at s: its length, 0 if there is none. number: 0 if it has none. */
static size_t hole_at(const char *s, size_t *number) {
    size_t n = 1;

    *number = 0;
    if (*s == '*') {
        return 1;
    }
    if (*s != '{') {
        return 0;
    }
    while (s[n] >= '0' && s[n] <= '9' && n <= 2) {
        *number = *number * 10 + (size_t)(s[n] - '0');
        n++;
    }
    return s[n] == '}' && (n == 1 || *number > 0) ? n + 1 : 0;
}

/* Reads up to an unescaped '=' (OLD) or the end (NEW). */
static const char *parse_side(side *d, const char **text, char **room, bool is_new) {
    const char *s = *text;

    d->parts[0] = (cli_text_part){*room, 0};
    while (*s != '\0' && (is_new || *s != '=')) {
        size_t number;
        const size_t hole = hole_at(s, &number);
        if (hole > 0) {
            if (d->holes == CLI_MOST_HOLES) {
                return "more than 16 wildcards";
            }
            if (!is_new && number > 0) {
                return "numbered {} belong on the right of =";
            }
            if (is_new) {
                d->takes[d->holes] = number > 0 ? number - 1 : d->holes;
            }
            d->holes++;
            d->parts[d->holes] = (cli_text_part){*room, 0};
            s += hole;
            continue;
        }
        s += *s == '\\' && s[1] != '\0';
        *(*room)++ = *s++;
        d->parts[d->holes].len++;
    }
    *text = s;
    return NULL;
}

const char *cli_rename_parse(cli_rename *rule, const char *text) {
    side old = {rule->old_parts, NULL, 0};
    side fresh = {rule->new_parts, rule->takes, 0};
    char *room;

    memset(rule, 0, sizeof *rule);
    rule->text = cli_alloc(strlen(text) + 1, 1);
    room = rule->text;
    const char *fault = parse_side(&old, &text, &room, false);
    if (fault == NULL && *text != '=') {
        fault = "OLD=NEW is wanted";
    }
    if (fault == NULL) {
        text++;
        fault = parse_side(&fresh, &text, &room, true);
    }
    for (size_t i = 0; fault == NULL && i < fresh.holes; i++) {
        if (rule->takes[i] >= old.holes) {
            fault = "NEW has a wildcard that OLD has not";
        }
    }
    rule->old_holes = old.holes;
    rule->new_holes = fresh.holes;
    return fault;
}

void cli_rename_reset(cli_rename *rule) {
    free(rule->text);
    rule->text = NULL;
}

/* ---------------------------------------------------------------- matching */

static const char *find(const char *at, const char *end, const cli_text_part *part) {
    for (; (size_t)(end - at) >= part->len; at++) {
        if (memcmp(at, part->at, part->len) == 0) {
            return at;
        }
        if (at == end) {
            break;
        }
    }
    return NULL;
}

/* First part at the front, last at the back, the others as far left as they go. */
static bool match(const cli_rename *rule, const char *name, size_t len, cli_text_part *caught) {
    const cli_text_part *first = &rule->old_parts[0];
    const cli_text_part *last = &rule->old_parts[rule->old_holes];
    const char *at = name + first->len;
    const char *end = name + len;

    if (rule->old_holes == 0) {
        return len == first->len && memcmp(name, first->at, len) == 0;
    }
    if (len < first->len + last->len || memcmp(name, first->at, first->len) != 0 ||
        memcmp(end - last->len, last->at, last->len) != 0) {
        return false;
    }
    end -= last->len;
    for (size_t i = 1; i < rule->old_holes; i++) {
        const char *found = find(at, end, &rule->old_parts[i]);
        if (found == NULL) {
            return false;
        }
        caught[i - 1] = (cli_text_part){at, (size_t)(found - at)};
        at = found + rule->old_parts[i].len;
    }
    caught[rule->old_holes - 1] = (cli_text_part){at, (size_t)(end - at)};
    return true;
}

static void append(char *text, size_t *len, const cli_text_part *part) {
    if (part->len > 0) {
        memcpy(text + *len, part->at, part->len);
        *len += part->len;
    }
}

bool cli_rename_apply(const cli_rename *rule, const char *name, size_t len, char **out,
                      size_t *out_len) {
    cli_text_part caught[CLI_MOST_HOLES];
    size_t room = 1;

    if (!match(rule, name, len, caught)) {
        return false;
    }
    for (size_t i = 0; i <= rule->new_holes; i++) {
        room += rule->new_parts[i].len + (i < rule->new_holes ? caught[rule->takes[i]].len : 0);
    }
    *out = cli_alloc(room, 1);
    *out_len = 0;
    for (size_t i = 0; i <= rule->new_holes; i++) {
        append(*out, out_len, &rule->new_parts[i]);
        if (i < rule->new_holes) {
            append(*out, out_len, &caught[rule->takes[i]]);
        }
    }
    return true;
}
