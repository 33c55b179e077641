/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cp_choose.c - --select, --drop, --rename and --cast: from the tensors of the source to those
 * of the copy. Read cp.h first.
 */
#include "cli/copy/cp.h"
#include "cli/copy/rename.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- select, drop */

/* Option values and whether each has matched anything. */
typedef struct patterns {
    const char *option;
    size_t count;
    bool *used;
} patterns;

static patterns patterns_of(const cli *c, const char *option) {
    patterns p = {option, 0, NULL};
    while (cli_list(c, option, p.count) != NULL) {
        p.count++;
    }
    p.used = cli_alloc(p.count, sizeof *p.used);
    return p;
}

static bool any_matches(const cli *c, patterns *p, const cli_item *item) {
    bool found = false;
    for (size_t i = 0; i < p->count; i++) {
        if (cli_match(cli_list(c, p->option, i), item->from, item->from_len)) {
            p->used[i] = true;
            found = true;
        }
    }
    return found;
}

static void warn_unused(cli_copy *copy, patterns *p) {
    for (size_t i = 0; i < p->count; i++) {
        if (!p->used[i]) {
            cli_warn(copy->c, copy->source, "--%s \"%s\" matches no tensor", p->option,
                     cli_list(copy->c, p->option, i));
        }
    }
    free(p->used);
}

/* docs/tree.md */
static bool is_storage(const sft_tensor *t) {
    static const char storage[] = "sft.storage.";
    return t->name_len > sizeof storage - 1 && memcmp(t->name, storage, sizeof storage - 1) == 0;
}

/* Every name of every tensor: its own, then the others. */
static size_t all_names(const cli_copy *copy, cli_item **items) {
    const size_t count = sft_catalog_count(copy->catalog);

    *items = cli_alloc(count + sft_catalog_alias_count(copy->catalog), sizeof **items);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(copy->catalog, i);
        (*items)[i] = (cli_item){.tensor = t,
                                 .dtype = t->dtype,
                                 .from = t->name,
                                 .from_len = t->name_len,
                                 .name = t->name,
                                 .name_len = t->name_len,
                                 .nbytes = t->nbytes};
    }
    const size_t others = cli_copy_other_names(copy, *items + count);
    for (size_t i = count; i < count + others; i++) {
        const cli_item *o = &(*items)[i];
        if (o->part && is_storage(o->whole)) {
            (*items)[sft_catalog_index_of(copy->catalog, o->whole)].bare = true;
        }
    }
    return count + others;
}

/* none: no name is left. */
static size_t select_names(cli_copy *copy, cli_item *items, size_t count, bool *none) {
    patterns selected = patterns_of(copy->c, "select");
    patterns dropped = patterns_of(copy->c, "drop");
    size_t kept = 0;

    *none = true;
    for (size_t i = 0; i < count; i++) {
        if (items[i].bare) {
            items[kept++] = items[i];
            continue;
        }
        const bool wanted = selected.count == 0 || any_matches(copy->c, &selected, &items[i]);
        if (!any_matches(copy->c, &dropped, &items[i]) && wanted) {
            *none = false;
            items[kept++] = items[i];
        }
    }
    warn_unused(copy, &selected);
    warn_unused(copy, &dropped);
    return kept;
}

/* ---------------------------------------------------------------- rename */

static int by_name(const void *a, const void *b) {
    const cli_item *x = *(const cli_item *const *)a;
    const cli_item *y = *(const cli_item *const *)b;
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

/* Two names of the copy that are one, of different bytes: names both. */
static bool names_differ(cli_copy *copy) {
    const size_t count = copy->count + copy->other_count;
    const cli_item **sorted = cli_alloc(count, sizeof *sorted);
    bool good = true;

    for (size_t i = 0; i < count; i++) {
        sorted[i] = i < copy->count ? &copy->items[i] : &copy->others[i - copy->count];
    }
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count && good; i++) {
        const cli_item *a = sorted[i - 1];
        const cli_item *b = sorted[i];
        if (cli_compare_bytes(a->name, a->name_len, b->name, b->name_len) != 0) {
            continue;
        }
        sft_error err;
        char first[256];
        char second[256];
        char both[256];
        const bool in_order = a->tensor < b->tensor;
        const cli_item *x = in_order ? a : b;
        const cli_item *y = in_order ? b : a;
        (void)sft_escape(first, 100, x->from, x->from_len);
        (void)sft_escape(second, 100, y->from, y->from_len);
        (void)sft_escape(both, 100, a->name, a->name_len);
        (void)sft_error_set(&err, SFT_E_ARG, 0, SFT_NO_OFFSET, NULL, 0,
                            "\"%s\" and \"%s\" would both be called \"%s\"", first, second, both);
        cli_fail(copy->c, copy->source, &err);
        good = false;
    }
    free(sorted);
    return good;
}

static void rename_with(cli_item *items, size_t item_count, cli_rename *rules, size_t count,
                        bool *used) {
    for (size_t i = 0; i < item_count; i++) {
        cli_item *item = &items[i];
        for (size_t k = 0; k < count && item->renamed == NULL && !item->bare;
             k++) { /* the first that fits */
            if (cli_rename_apply(&rules[k], item->from, item->from_len, &item->renamed,
                                 &item->name_len)) {
                item->name = item->renamed;
                used[k] = true;
            }
        }
    }
}

static bool rename_names(cli_copy *copy, cli_item *items, size_t count) {
    patterns p = patterns_of(copy->c, "rename");
    cli_rename *rules = cli_alloc(p.count, sizeof *rules);
    const char *fault = NULL;

    for (size_t i = 0; i < p.count && fault == NULL; i++) {
        fault = cli_rename_parse(&rules[i], cli_list(copy->c, "rename", i));
        if (fault != NULL) {
            cli_usage(copy->c, "--rename \"%s\": %s", cli_list(copy->c, "rename", i), fault);
        }
    }
    if (fault == NULL) {
        rename_with(items, count, rules, p.count, p.used);
        warn_unused(copy, &p);
    } else {
        free(p.used);
    }
    for (size_t i = 0; i < p.count; i++) {
        cli_rename_reset(&rules[i]);
    }
    free(rules);
    return fault == NULL;
}

/* ---------------------------------------------------------------- cast */

enum { DTYPE_NAME_MAX = 31 };

static const sft_dtype *dtype_named(const char *name) {
    char upper[DTYPE_NAME_MAX + 1];
    const size_t len = strlen(name);

    if (len > DTYPE_NAME_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 0x20 : name[i]);
    }
    return sft_dtype_find(upper, len);
}

/* DTYPE alone: every floating-point tensor. PATTERN=DTYPE: every tensor that it matches. */
static bool apply_cast(cli_copy *copy, cli_item *items, size_t count, const char *text,
                       bool *used) {
    const char *equals = strrchr(text, '=');
    const sft_dtype *dtype = dtype_named(equals != NULL ? equals + 1 : text);
    char *pattern = NULL;

    if (dtype == NULL) {
        cli_usage(copy->c, "--cast \"%s\": unknown element type %s", text,
                  equals != NULL ? equals + 1 : text);
        return false;
    }
    if (equals != NULL) {
        pattern = cli_alloc((size_t)(equals - text) + 1, 1);
        memcpy(pattern, text, (size_t)(equals - text));
    }
    for (size_t i = 0; i < count; i++) {
        cli_item *item = &items[i];
        if (item->bare) {
            continue;
        }
        if (pattern != NULL ? cli_match(pattern, item->from, item->from_len)
                            : item->tensor->dtype->kind == SFT_KIND_FLOAT) {
            item->dtype = dtype;
            *used = true;
        }
    }
    free(pattern);
    return true;
}

static bool cast_names(cli_copy *copy, cli_item *items, size_t count) {
    patterns p = patterns_of(copy->c, "cast");
    bool good = true;

    for (size_t i = 0; i < p.count && good; i++) {
        good = apply_cast(copy, items, count, cli_list(copy->c, "cast", i), &p.used[i]);
    }
    if (good) {
        warn_unused(copy, &p);
    } else {
        free(p.used);
    }
    return good;
}

/* What all of it amounts to. */
static bool sum_up(cli_copy *copy) {
    bool good = true;
    sft_error err;

    for (size_t i = 0; i < copy->count + copy->other_count; i++) {
        const cli_item *n = i < copy->count ? &copy->items[i] : &copy->others[i - copy->count];
        copy->renamed += cli_compare_bytes(n->name, n->name_len, n->from, n->from_len) != 0;
    }
    for (size_t i = 0; i < copy->count && good; i++) {
        cli_item *item = &copy->items[i];
        if (item->dtype->id != item->tensor->dtype->id) {
            copy->cast++;
            if (sft_catalog_can_cast(copy->catalog, item->tensor, &err) != SFT_OK) {
                cli_fail(copy->c, copy->source, &err);
                copy->c->status = CLI_NO;
                good = false;
            } else if (sft_dtype_bytes(item->dtype, cli_elements(item->tensor), &item->nbytes,
                                       &err) != SFT_OK) {
                sft_error named;
                (void)sft_error_set(&named, err.status, 0, SFT_NO_OFFSET, item->tensor->name,
                                    item->tensor->name_len, "%s", err.message);
                cli_fail(copy->c, copy->source, &named);
                good = false;
            }
        }
        copy->data_bytes += item->nbytes;
    }
    return good;
}

bool cli_copy_choose(cli_copy *copy) {
    sft_error err;

    cli_item *names;
    size_t count = all_names(copy, &names);
    const size_t all = count;
    bool none;
    count = select_names(copy, names, count, &none);
    copy->dropped = all - count;
    if (none && all > 0) {
        (void)sft_error_set(&err, SFT_E_NOT_FOUND, 0, SFT_NO_OFFSET, NULL, 0,
                            "no tensor is left to copy");
        cli_fail(copy->c, copy->source, &err);
        free(names);
        return false;
    }
    const bool good = rename_names(copy, names, count) && cast_names(copy, names, count);
    return cli_copy_link(copy, names, count) && good && names_differ(copy) && sum_up(copy);
}

bool cli_copy_is_plain(const cli_copy *copy) {
    return copy->renamed == 0 && copy->cast == 0 && copy->dropped == 0 &&
           sft_catalog_file_count(copy->catalog) == 1;
}
