/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/rank_names.c - see rank_names.h.
 */
#include "cli/outputs/rank_names.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789";

/* ---------------------------------------------------------------- names of the source */

/* Where the digits begin that end at `end`. */
static size_t digits_before(const char *name, size_t end) {
    size_t at = end;

    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
        at--;
    }
    return at;
}

static size_t stem_of(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

/* STEM-EPOCH_STEP.EXT: *stem, where STEM ends, and the two numbers. False: no step; *stem is before the
 * extension. */
static bool find_step(const char *name, size_t *stem, size_t *epoch, size_t *step) {
    const size_t end = stem_of(name);

    *stem = end;
    *step = digits_before(name, end);
    if (*step == end || *step < 3 || name[*step - 1] != '_') {
        return false;
    }
    *epoch = digits_before(name, *step - 1);
    if (*epoch == *step - 1 || *epoch < 2 || name[*epoch - 1] != '-') {
        return false;
    }
    *stem = *epoch - 1;
    return true;
}

bool cli_rank_has_step(const char *name) {
    size_t stem;
    size_t epoch;
    size_t step;

    return find_step(name, &stem, &epoch, &step);
}

/* PREFIX_rank_RANK, with or without _TASK; PREFIX may be missing. */
static bool take_rank(cli_rank_names *n, const char *name, size_t len) {
    static const char word[] = "rank_";
    const size_t size = sizeof word - 1;

    for (size_t at = len >= size ? len - size + 1 : 0; at-- > 0;) {
        const char *rest = name + at + size;
        const size_t number = strspn(rest, digits);
        const size_t left = len - at - size;
        if (memcmp(name + at, word, size) != 0 || number == 0 || number > left ||
            (at > 0 && name[at - 1] != '_')) {
            continue;
        }
        if (number < left && (rest[number] != '_' || number + 1 == left ||
                              strspn(rest + number + 1, digits) < left - number - 1)) {
            return false;
        }
        n->prefix = at > 1 ? cli_copy_bytes(name, at - 1) : NULL;
        n->task = number < left ? cli_copy_bytes(rest + number + 1, left - number - 1) : NULL;
        return true;
    }
    return false;
}

/* numbered: what it ends in is the rank, which is no step. */
static void take_name(cli_rank_names *n, const char *name, bool numbered) {
    size_t stem;
    size_t epoch;
    size_t step;

    if (find_step(name, &stem, &epoch, &step) && !numbered) {
        n->epoch = cli_copy_bytes(name + epoch, step - 1 - epoch);
        n->step = cli_copy_bytes(name + step, strspn(name + step, digits));
    }
    stem = numbered ? stem_of(name) : stem;
    if (take_rank(n, name, stem)) {
        return;
    }
    if (numbered) {
        stem = digits_before(name, stem);
        stem -= stem > 0 && name[stem - 1] == '_';
    }
    n->prefix = stem > 0 ? cli_copy_bytes(name, stem) : NULL;
}

/* The name of the first rank's file, or of the one that there is; NULL: there are several. */
static const char *name_of(const sft_catalog *source) {
    const sft_checkpoint *checkpoint = sft_checkpoint_of(source);
    size_t count = 0;

    if (checkpoint != NULL) {
        const sft_rank_part *parts = sft_checkpoint_ranks(checkpoint, &count);
        const uint32_t kind = sft_checkpoint_kind_of(checkpoint);
        return count > 0 && (kind == SFT_CHECKPOINT_RANKS || kind == SFT_CHECKPOINT_STEPS)
                   ? cli_base_name(sft_catalog_file_at(parts[0].catalog, 0)->path)
                   : NULL;
    }
    return sft_catalog_file_count(source) == 1 ? cli_base_name(sft_catalog_file_at(source, 0)->path)
                                               : NULL;
}

/* NAME_0, NAME_1 ..., or NAME-1_0, NAME-1_1, which are no steps. */
static bool is_numbered(const sft_catalog *source) {
    const sft_checkpoint *checkpoint = sft_checkpoint_of(source);
    size_t count = 0;

    const sft_rank_part *parts =
        checkpoint != NULL ? sft_checkpoint_ranks(checkpoint, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = cli_base_name(sft_catalog_file_at(parts[i].catalog, 0)->path);
        const size_t at = digits_before(name, stem_of(name));
        char number[24];
        const int n = snprintf(number, sizeof number, "%llu.", (unsigned long long)parts[i].rank);
        if (strncmp(name + at, number, (size_t)n) != 0) {
            return false;
        }
    }
    return count > 1;
}

/* ---------------------------------------------------------------- the pattern */

enum { HOLES = 5 };
static const char *const holes[HOLES] = {"{rank}", "{prefix}", "{epoch}", "{step}", "{task}"};

/* Which placeholder the text begins with; HOLES: none. */
static size_t hole_at(const char *text) {
    size_t k = 0;

    while (k < HOLES && strncmp(text, holes[k], strlen(holes[k])) != 0) {
        k++;
    }
    return k;
}

/* NULL for {rank}, too. */
static const char *value_of(const cli_rank_names *n, size_t hole) {
    const char *const values[HOLES] = {NULL, n->prefix, n->epoch, n->step, n->task};
    return values[hole];
}

/* Of two ranks' names, rank_N/NAME: do readers take them for files of one step? Digits of the ranks' numbers
 * that look like one are one, unless the name ends in them. */
static bool same_step(const char *pattern, const char *a, const char *b) {
    const size_t before = digits_before(a, stem_of(a));
    size_t stem[2];
    size_t epoch[2];
    size_t step[2];
    const bool stepped = find_step(a, &stem[0], &epoch[0], &step[0]);

    if (stepped != find_step(b, &stem[1], &epoch[1], &step[1])) {
        return false;
    }
    if (!stepped || (cli_ends_with(pattern, "{rank}.safetensors") &&
                     before == digits_before(b, stem_of(b)) && memcmp(a, b, before) == 0)) {
        return true;
    }
    const size_t n = step[0] - epoch[0];
    return n == step[1] - epoch[1] && memcmp(a + epoch[0], b + epoch[1], n) == 0;
}

/* The last "rank_7" in a rank's file's name must be that rank. */
static bool says_other(const char *base, uint64_t rank) {
    static const char word[] = "rank_";
    const size_t size = sizeof word - 1;

    for (size_t at = strlen(base); at-- > 0;) {
        char number[24];
        const char *rest = base + at + size;
        if (strncmp(base + at, word, size) != 0 || (at > 0 && base[at - 1] != '_') ||
            strspn(rest, digits) == 0) {
            continue;
        }
        const int n = snprintf(number, sizeof number, "%llu", (unsigned long long)rank);
        return strspn(rest, digits) != (size_t)n || strncmp(rest, number, (size_t)n) != 0;
    }
    return false;
}

/* Names that readers do not look at, or take for something else; NULL: they would open. */
static const char *unreadable(const cli_rank_names *n, uint64_t ranks) {
    char *first = cli_rank_name(n, 0);
    char *last = cli_rank_name(n, ranks - 1);
    const char *a = cli_base_name(first);
    const char *b = cli_base_name(last);
    const char *why = NULL;

    if (!cli_ends_with(a, ".safetensors")) {
        why = "only files whose names end in .safetensors are a rank's";
    } else if (cli_rank_names_open(n->pattern) && a[0] == '.') {
        why = "files whose names begin with a dot are no rank's";
    } else if (cli_rank_names_open(n->pattern) && (says_other(a, 0) || says_other(b, ranks - 1))) {
        why = "the name says of which rank the file is, and of another one than its directory";
    } else if (cli_rank_names_open(n->pattern) && !same_step(n->pattern, a, b)) {
        why = "the rank's number stands where the epoch does, so that ranks are of different steps";
    }
    free(first);
    free(last);
    return why;
}

static bool check(const cli_rank_names *n, cli *c, uint64_t ranks) {
    for (const char *at = strchr(n->pattern, '{'); at != NULL; at = strchr(at + 1, '{')) {
        const char *end = strchr(at, '}');
        const size_t hole = hole_at(at);
        if (hole == HOLES) {
            cli_usage(c,
                      "--name: %.*s is no placeholder, only {rank}, {prefix}, {epoch}, {step} and "
                      "{task} are",
                      (int)(end != NULL && end - at < 40 ? end - at + 1 : 1), at);
            return false;
        }
        if (hole != 0 && value_of(n, hole) == NULL) {
            cli_usage(c, "--name: the names of the source's files have nothing for %s",
                      holes[hole]);
            return false;
        }
    }
    if (ranks > 1 && strstr(n->pattern, holes[0]) == NULL) {
        cli_usage(c, "--name needs {rank} where the rank's number goes");
        return false;
    }
    const char *why = ranks > 0 ? unreadable(n, ranks) : NULL;
    if (why != NULL) {
        cli_usage(c, "--name \"%.200s\": what is written would not be opened again: %s", n->pattern,
                  why);
        return false;
    }
    if (ranks > 1 && !cli_rank_names_open(n->pattern)) {
        cli_warn(c, n->pattern,
                 "files of these names do not open as one model again: rank_{rank}/NAME would");
    }
    return true;
}

bool cli_rank_names_init(cli_rank_names *n, cli *c, const char *pattern, const sft_catalog *source,
                         uint64_t ranks) {
    const char *name = name_of(source);

    *n = (cli_rank_names){.pattern = pattern};
    if (name != NULL) {
        take_name(n, name, is_numbered(source));
    }
    return check(n, c, ranks);
}

void cli_rank_names_reset(cli_rank_names *n) {
    free(n->prefix);
    free(n->task);
    free(n->epoch);
    free(n->step);
}

/* The files of ranks are found by their directories' names alone, rank_N. */
bool cli_rank_names_open(const char *pattern) {
    static const char directory[] = "rank_{rank}/";
    return strncmp(pattern, directory, sizeof directory - 1) == 0 &&
           strchr(pattern + sizeof directory - 1, '/') == NULL;
}

char *cli_rank_name(const cli_rank_names *n, uint64_t rank) {
    cli_text_buffer t = {NULL, 0, 0};

    cli_text_put(&t, "");
    for (const char *at = n->pattern; *at != '\0';) {
        const size_t hole = hole_at(at);
        if (hole == HOLES) {
            cli_text_add(&t, at++, 1);
            continue;
        }
        if (hole == 0) {
            cli_text_number(&t, rank);
        } else {
            cli_text_put(&t, value_of(n, hole));
        }
        at += strlen(holes[hole]);
    }
    return t.data;
}

/* ---------------------------------------------------------------- meta.json */

/* Digits as a number of JSON, which has no zeros in front. */
static void put_number(cli_text_buffer *t, const char *text, size_t len) {
    while (len > 1 && *text == '0') {
        text++;
        len--;
    }
    cli_text_add(t, text, len);
}

/* rank_3/meta.json of rank_3/NAME; free() it. */
static char *meta_beside(const char *name) {
    char *directory = cli_copy_bytes(name, (size_t)(cli_base_name(name) - name));
    char *path = cli_joined(directory, "meta.json", "");

    free(directory);
    return path;
}

void cli_rank_meta(cli_batch *b, const char *name) {
    const char *base = cli_base_name(name);
    cli_text_buffer t = {NULL, 0, 0};
    size_t stem;
    size_t epoch;
    size_t step;

    if (base == name || !find_step(base, &stem, &epoch, &step)) {
        return;
    }
    cli_text_put(&t, "{\"last_epoch\": ");
    put_number(&t, base + epoch, step - 1 - epoch);
    cli_text_put(&t, ", \"last_step\": ");
    put_number(&t, base + step, strspn(base + step, digits));
    cli_text_put(&t, ", \"last_ckpt_file\": ");
    cli_text_json(&t, base, strlen(base));
    cli_text_put(&t, "}");
    char *path = meta_beside(name);
    cli_batch_text(b, path, t.data, t.size);
    free(path);
}

bool cli_rank_meta_names(const char *text, const char *base) {
    char *quoted = cli_joined("\"", base, "\"");
    const bool names = strstr(text, quoted) != NULL;

    free(quoted);
    return names;
}

void cli_rank_meta_carry(cli_batch *b, const char *name) {
    char *path = meta_beside(name);
    char *there = cli_path_in(b->source, path);
    char *text = NULL;
    size_t size;

    if (cli_read_text(there, CLI_RANK_META_MOST, &text, &size, NULL) == SFT_OK &&
        cli_rank_meta_names(text, cli_base_name(name))) {
        cli_batch_text(b, path, text, size);
    } else {
        free(text);
        if (cli_sys_kind(there) == CLI_KIND_FILE) {
            cli_rank_meta(b, name);
        }
    }
    free(there);
    free(path);
}
