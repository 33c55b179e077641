/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/ranks.c - a directory for each rank, rank_N/NAME_rank_N-EPOCH_STEP.safetensors or
 * .ckpt: which of its files is meant, and where the layout is. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/text/utf8.h"
#include "checkpoint/open/checkpoint.h"
#include "fs/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- which file */

static const char *base_of(const char *name, size_t *len) {
    static const char *const extensions[] = {".safetensors", ".ckpt"};
    *len = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        if (sft__checkpoint_ends(name, *len, extensions[i])) {
            *len -= strlen(extensions[i]);
            break;
        }
    }
    return name;
}

/* Does the name, without its extension, end in what was asked for? A number is meant whole: "5" is
 * not net-1_15. */
static bool is_wanted(const sft_checkpoint *c, const char *name) {
    size_t len;
    (void)base_of(name, &len);
    if (c->step == NULL) {
        return true;
    }
    const size_t n = strlen(c->step);
    return sft__checkpoint_ends(name, len, c->step) &&
           (n == 0 || n == len || !sft__base_is_digit(c->step[0]) ||
            !sft__base_is_digit(name[len - n - 1]));
}

static bool is_newer(const sft__checkpoint_rank_directory *a,
                     const sft__checkpoint_rank_directory *b) {
    return a->epoch != b->epoch ? a->epoch > b->epoch : a->step > b->step;
}

static sft_status several(const sft__checkpoint_rank_directory *f, const char *other,
                          sft_error *err) {
    if (f->rank == SFT__NO_RANK) {
        return sft__base_fail(
            err, SFT_E_DUPLICATE,
            "several files of one step, %s and %s: say which by the end of its name", f->file,
            other);
    }
    return sft__base_fail(
        err, SFT_E_DUPLICATE,
        "rank %llu has several files, %s and %s: say which by the end of its name",
        (unsigned long long)f->rank, f->file, other);
}

/* Keeps the newest file; two of one step cannot be told apart. */
static sft_status consider(sft__checkpoint_rank_directory *best, const char *name, sft_error *err) {
    sft__checkpoint_rank_directory one = *best;
    one.file = name;
    one.stepped = sft__checkpoint_step_of(name, strlen(name), &one.epoch, &one.step);
    one.epoch = one.stepped ? one.epoch : 0; /* digits may have been taken for a part of a step */
    one.step = one.stepped ? one.step : 0;
    if (best->file == NULL) {
        *best = one;
        return SFT_OK;
    }
    if (one.stepped != best->stepped) { /* a file with a step beats one without */
        *best = one.stepped ? one : *best;
        return SFT_OK;
    }
    if (!one.stepped || (one.epoch == best->epoch && one.step == best->step)) {
        return several(best, name, err);
    }
    *best = is_newer(&one, best) ? one : *best;
    return SFT_OK;
}

/* The newest file, or the one of the step that was asked for. */
static sft_status sft__checkpoint_choose(sft_checkpoint *c, sft__checkpoint_rank_directory *f,
                                         sft_error *err) {
    sft__checkpoint_names names = {c, NULL, 0, 0, {".safetensors", ".ckpt"}};
    sft_status status = sft__checkpoint_list(&names, f->directory, err);
    for (size_t i = 0; i < names.count && status == SFT_OK; i++) {
        if (is_wanted(c, names.list[i])) {
            status = consider(f, names.list[i], err);
        }
    }
    sft__checkpoint_names_reset(&names);
    return status;
}

/* ---------------------------------------------------------------- all ranks */

static int by_rank(const void *a, const void *b) {
    const sft__checkpoint_rank_directory *const x = a;
    const sft__checkpoint_rank_directory *const y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Is there a directory? A wrong answer would leave something out. */
static sft_status look(const char *path, bool *directory, sft_error *err) {
    sft__fs_stat st;
    sft_error why;

    memset(&why, 0, sizeof why);
    const sft_status status = sft__fs_look(path, &st, &why);
    *directory = status == SFT_OK && st.directory;
    if (status == SFT_OK || why.sys == ELOOP) { /* a link to itself is none */
        return SFT_OK;
    }
    if (err != NULL) {
        *err = why;
    }
    return status;
}

static sft_status collect(sft__checkpoint_directories *f, sft_error *err) {
    sft__checkpoint_names names = {f->c, NULL, 0, 0, {NULL, NULL}};
    sft_status status = sft__checkpoint_list(&names, f->c->directory, err);
    for (size_t i = 0; i < names.count && status == SFT_OK; i++) {
        uint64_t rank;
        if (!sft__checkpoint_rank_of(names.list[i], strlen(names.list[i]), &rank)) {
            continue;
        }
        if (!sft__base_grow(f->c->allocator, &f->list, &f->room, f->count + 1, sizeof *f->list)) {
            status = sft__base_fail_nomem(err, (f->count + 1) * sizeof *f->list);
            break;
        }
        sft__checkpoint_rank_directory *const one = &f->list[f->count++];
        memset(one, 0, sizeof *one);
        one->rank = rank;
        status = sft__checkpoint_path(f->c, f->c->directory, names.list[i], &one->directory, err);
        bool directory = false;
        if (status == SFT_OK) {
            status = look(one->directory, &directory, err);
        }
        if (directory) {
            status = sft__checkpoint_choose(f->c, one, err);
        }
    }
    sft__checkpoint_names_reset(&names);
    if (status == SFT_OK && f->count > 1) {
        qsort(f->list, f->count, sizeof *f->list, by_rank);
    }
    return status;
}

/* Does the name end in a number? *len: of what goes before it. */
static bool ends_in_number(const sft__checkpoint_rank_directory *one, size_t *len,
                           uint64_t *number) {
    uint64_t unit = 1;
    size_t at;
    (void)base_of(one->file, &at);
    const size_t end = at;
    *number = 0;
    while (at > 0 && end - at < 18 && one->file[at - 1] >= '0' && one->file[at - 1] <= '9') {
        *number += unit * (uint64_t)(one->file[--at] - '0'); /* below 10^18 */
        unit *= 10;
    }
    *len = at;
    return at != end;
}

/* In the rank's, "net-1_0" of rank 0? */
static bool ends_in_rank(const sft__checkpoint_rank_directory *one, size_t *len) {
    uint64_t number;
    return ends_in_number(one, len, &number) && number == one->rank;
}

/* PREFIX and the rank's number: what looks like a step is none if rank 0 is there, for no job saves
 * its step 0. */
static bool are_numbered(const sft__checkpoint_directories *f) {
    const sft__checkpoint_rank_directory *first = NULL;
    size_t first_len = 0;
    size_t len;
    for (size_t i = 0; i < f->count; i++) {
        const sft__checkpoint_rank_directory *const one = &f->list[i];
        if (one->file == NULL) {
            continue;
        }
        if (!ends_in_rank(one, &len) || (first == NULL && one->rank != 0)) {
            return false;
        }
        if (first != NULL && (len != first_len || memcmp(one->file, first->file, len) != 0)) {
            return false;
        }
        first_len = len;
        first = first == NULL ? one : first;
    }
    return first != NULL;
}

/* The file's name without its extension and its step; *len: as far as that. */
static const char *stem_of(const sft__checkpoint_rank_directory *one, bool numbered, size_t *len) {
    (void)base_of(one->file, len);
    while (one->stepped && !numbered && *len > 0 && one->file[*len - 1] != '-') {
        --*len;
    }
    return one->file;
}

/* *len: of what goes before "rank_3" in "net_rank_3", "net_rank_3_1", or before digits at the end.
 */
static void cut_number(const char *name, size_t *len) {
    static const char word[] = "rank_";
    const size_t n = sizeof word - 1;

    for (size_t at = *len > n ? *len - n : 0; at > 0; at--) {
        const char digit = name[at - 1 + n];
        if (memcmp(name + at - 1, word, n) == 0 && digit >= '0' && digit <= '9') {
            *len = at - 1;
            return;
        }
    }
    while (*len > 0 && name[*len - 1] >= '0' && name[*len - 1] <= '9') {
        --*len;
    }
}

/* Reads past digits that are the rank's number. */
static bool skip_number(const char *name, size_t len, size_t *at, uint64_t rank) {
    char word[24];
    const size_t n = (size_t)snprintf(word, sizeof word, "%llu", (unsigned long long)rank);
    const bool begun = *at > 0 && name[*at - 1] >= '0' && name[*at - 1] <= '9';

    if (begun || len - *at < n || memcmp(name + *at, word, n) != 0 ||
        (*at + n < len && name[*at + n] >= '0' && name[*at + n] <= '9')) {
        return false;
    }
    *at += n;
    return true;
}

/* Are two ranks' files called alike, but for the ranks' numbers? Files of two jobs are not. */
static bool called_alike(const sft__checkpoint_rank_directory *a,
                         const sft__checkpoint_rank_directory *b, bool numbered) {
    size_t a_len;
    size_t b_len;
    const char *const x = stem_of(a, numbered, &a_len);
    const char *const y = stem_of(b, numbered, &b_len);
    size_t i = 0;
    size_t k = 0;

    while (i < a_len && k < b_len) {
        size_t i_next = i;
        size_t k_next = k;
        if (skip_number(x, a_len, &i_next, a->rank) && skip_number(y, b_len, &k_next, b->rank)) {
            i = i_next;
            k = k_next;
        } else if (x[i++] != y[k++]) {
            i = a_len + 1;
        }
    }
    if (i == a_len && k == b_len) {
        return true;
    }
    cut_number(x, &a_len);
    cut_number(y, &b_len);
    return a_len == b_len && memcmp(x, y, a_len) == 0;
}

/* "net_rank_3-1_20", "net_rank_3_1": the last such number is the rank's. */
static bool says_rank(const char *name, uint64_t *rank) {
    static const char word[] = "rank_";
    const size_t n = sizeof word - 1;
    size_t len;
    (void)base_of(name, &len);
    for (size_t at = len >= n ? len - n + 1 : 0; at-- > 0;) {
        size_t digits = at + n;
        if (memcmp(name + at, word, n) != 0 || (at > 0 && name[at - 1] != '_')) {
            continue;
        }
        for (*rank = 0; digits < len && sft__base_is_digit(name[digits]); digits++) {
            *rank = digits - at - n < 18 ? *rank * 10 + (uint64_t)(name[digits] - '0')
                                         : SFT__RANK_BEYOND;
        }
        if (digits > at + n) {
            return true;
        }
    }
    return false;
}

static sft_status of_another(const sft__checkpoint_rank_directory *one, uint64_t said,
                             sft_error *err) {
    return sft__base_fail(err, SFT_E_MISMATCH,
                          "the directory of rank %llu has %s, which is rank %llu's by its name",
                          (unsigned long long)one->rank, one->file, (unsigned long long)said);
}

/* "net0", "net1": names that end in numbers which are not the same ones for all, and of which some are those
 * of ranks that are there, say ranks. */
static sft_status check_numbers(const sft__checkpoint_directories *f, sft_error *err) {
    const sft__checkpoint_rank_directory *wrong = NULL;
    const char *name = NULL;
    uint64_t said = 0, first = 0;
    size_t stem = 0;
    bool differ = false, ranks = false;
    for (size_t i = 0; i < f->count; i++) {
        const sft__checkpoint_rank_directory *const one = &f->list[i];
        uint64_t number;
        size_t len;
        if (one->file == NULL) {
            continue;
        }
        if (one->stepped || says_rank(one->file, &number) || !ends_in_number(one, &len, &number) ||
            (name != NULL && (len != stem || memcmp(one->file, name, len) != 0))) {
            return SFT_OK; /* another form */
        }
        first = name == NULL ? number : first;
        name = one->file;
        stem = len;
        differ = differ || number != first;
        const sft__checkpoint_rank_directory key = {.rank = number};
        ranks = ranks || bsearch(&key, f->list, f->count, sizeof key, by_rank) != NULL;
        if (number != one->rank && wrong == NULL) {
            wrong = one;
            said = number;
        }
    }
    return differ && ranks && wrong != NULL ? of_another(wrong, said, err) : SFT_OK;
}

/* The files of all ranks are of one job, one step and one format. */
sft_status sft__checkpoint_ranks_compare(const sft__checkpoint_directories *f, sft_error *err) {
    const bool numbered = are_numbered(f);
    const sft__checkpoint_rank_directory *first = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const sft__checkpoint_rank_directory *const one = &f->list[i];
        if (i > 0 && one->rank == one[-1].rank) {
            return sft__base_fail(err, SFT_E_DUPLICATE, "rank %llu has two directories",
                                  (unsigned long long)one->rank);
        }
        if (one->file == NULL) {
            continue;
        }
        uint64_t said;
        if (says_rank(one->file, &said) && said != one->rank) {
            return of_another(one, said, err);
        }
        first = first == NULL ? one : first;
        if (!numbered && (one->stepped != first->stepped || one->epoch != first->epoch ||
                          one->step != first->step)) {
            return sft__base_fail(
                err, SFT_E_MISMATCH,
                "ranks are of different steps: rank %llu has %s, rank %llu %s: say which step",
                (unsigned long long)first->rank, first->file, (unsigned long long)one->rank,
                one->file);
        }
        if (!called_alike(first, one, numbered)) {
            return sft__base_fail(err, SFT_E_MISMATCH,
                                  "ranks are of different jobs: rank %llu has %s, rank %llu %s",
                                  (unsigned long long)first->rank, first->file,
                                  (unsigned long long)one->rank, one->file);
        }
        if (sft__checkpoint_ends(one->file, strlen(one->file), ".ckpt") !=
            sft__checkpoint_ends(first->file, strlen(first->file), ".ckpt")) {
            return sft__base_fail(err, SFT_E_MISMATCH,
                                  "rank %llu has %s, rank %llu %s: two formats",
                                  (unsigned long long)first->rank, first->file,
                                  (unsigned long long)one->rank, one->file);
        }
    }
    if (first == NULL) {
        return sft__base_fail(err, SFT_E_FORMAT, "no rank has a file%s%s",
                              f->c->step != NULL ? " whose name ends in " : "",
                              f->c->step != NULL ? f->c->step : "");
    }
    return check_numbers(f, err);
}

static sft_status open_all(const sft__checkpoint_directories *f, sft_error *err) {
    for (size_t i = 0; i < f->count; i++) {
        sft_catalog *catalog;
        const char *path;
        if (f->list[i].file == NULL) {
            continue; /* replicas may stand in: join finds out */
        }
        SFT_TRY(sft__checkpoint_path(f->c, f->list[i].directory, f->list[i].file, &path, err));
        sft_error why;
        const sft_status status = sft__checkpoint_open_file(f->c, path, &catalog, &why);
        if (status != SFT_OK) {
            return sft_error_from(err, status, &why, "%s: %s", path, why.message);
        }
        SFT_TRY(sft__checkpoint_add(f->c, f->list[i].rank, catalog, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the layout */

/* Where frameworks leave it. */
static sft_status find_layout(sft_checkpoint *c, size_t ranks, sft_error *err) {
    static const char *const places[] = {"layout.json", "strategy", "strategy.ckpt", "../strategy",
                                         "../merged_strategy"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        sft_layout_set_options options;
        const char *path;
        sft_error why;
        SFT_TRY(sft__checkpoint_path(c, c->directory, places[i], &path, err));
        SFT_INIT(&options);
        options.allocator = c->allocator;
        options.limits = &c->limits;
        const sft_status status = sft_layout_set_open(&c->own, path, &options, &why);
        if (status == SFT_OK) {
            c->layouts = c->own;
            c->layout_path = path;
            return SFT_OK;
        }
        if (status != SFT_E_IO && status != SFT_E_FORMAT) {
            return sft_error_from(err, status, &why, "%s: %s", path, why.message);
        }
    }
    if (ranks == 1 &&
        (c->parts[0].rank == 0 || c->partial)) { /* all there ever was, as far as anybody says */
        c->unknown =
            c->parts[0].rank == 0 ? NULL : "ranks below the one that is there have no file";
        return SFT_OK;
    }
    if (ranks == 1) {
        return sft__base_fail(
            err, SFT_E_NOT_FOUND,
            "rank %llu is there alone: ranks below it are missing, and no layout says how it "
            "is cut",
            (unsigned long long)c->parts[0].rank);
    }
    return sft__base_fail(
        err, SFT_E_NOT_FOUND,
        "how tensors are cut among the %llu ranks is not known: a layout is needed",
        (unsigned long long)c->count);
}

sft_status sft__checkpoint_ranks(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_directories f = {c, NULL, 0, 0};
    sft_status status = collect(&f, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_ranks_compare(&f, err);
    }
    if (status == SFT_OK) {
        status = open_all(&f, err);
    }
    if (status == SFT_OK && c->layouts == NULL) {
        status = find_layout(c, f.count, err);
    }
    if (status == SFT_OK && c->layouts != NULL) {
        c->layouts->lacking = c->partial;
        status = sft__checkpoint_lset_learn(c->layouts, c->parts, c->count, err);
    }
    sft__base_free(c->allocator, f.list, f.room * sizeof *f.list);
    return status;
}

/* ---------------------------------------------------------------- a file for each step */

static sft_status open_step(sft_checkpoint *c, const char *directory, const char *name,
                            sft_catalog **out, sft_error *err) {
    const char *path;
    *out = NULL;
    SFT_TRY(sft__checkpoint_path(c, directory, name, &path, err));
    return sft__checkpoint_open_file(c, path, out, err);
}

sft_status sft__checkpoint_are_steps(sft_checkpoint *c, const char *directory, bool *steps,
                                     sft_error *err) {
    sft__checkpoint_names names = {c, NULL, 0, 0, {".safetensors", ".ckpt"}};
    sft_catalog *first = NULL;
    sft_catalog *second = NULL;
    *steps = c->step != NULL;
    sft_status status = sft__checkpoint_list(&names, directory, err);
    if (status == SFT_OK && !*steps && names.count > 1 &&
        open_step(c, directory, names.list[0], &first, NULL) == SFT_OK &&
        open_step(c, directory, names.list[1], &second, NULL) == SFT_OK) {
        for (size_t i = 0; i < sft_catalog_count(first) && !*steps; i++) {
            const sft_tensor *const t = sft_catalog_at(first, i);
            *steps = sft_catalog_find(second, t->name, t->name_len) != NULL;
        }
    }
    sft_catalog_close(second);
    sft_catalog_close(first);
    sft__checkpoint_names_reset(&names);
    return status;
}

sft_status sft__checkpoint_steps(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_rank_directory one;
    sft_catalog *catalog;
    memset(&one, 0, sizeof one);
    one.rank = SFT__NO_RANK;
    one.directory = c->directory;
    SFT_TRY(sft__checkpoint_choose(c, &one, err));
    if (one.file == NULL) {
        return sft__base_fail(err, SFT_E_FORMAT, "no file whose name ends in %s",
                              c->step != NULL ? c->step : "");
    }
    SFT_TRY(open_step(c, c->directory, one.file, &catalog, err));
    return sft__checkpoint_add(c, 0, catalog, err);
}
