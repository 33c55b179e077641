/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cp_choose.c - --select, --drop, --rename and --cast: from the tensors of the source to those
 * of the copy. Read cp.h first.
 */
#include "cli/copy/choice.h"
#include "cli/copy/cp.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- select, drop */

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
static size_t select_names(cli_copy *copy, cli_choice *choice, cli_item *items, size_t count,
                           bool *none) {
    size_t kept = 0;

    *none = true;
    for (size_t i = 0; i < count; i++) {
        const bool wanted =
            !items[i].bare && cli_choice_wants(choice, items[i].from, items[i].from_len);
        *none = *none && !wanted;
        if (wanted || items[i].bare) {
            items[kept++] = items[i];
        }
    }
    cli_choice_tell(choice, &choice->selects, copy->source);
    cli_choice_tell(choice, &choice->drops, copy->source);
    return kept;
}

/* ---------------------------------------------------------------- rename */

/* Two names of the copy that are one, of different bytes: names both. */
static bool names_differ(cli_copy *copy) {
    const size_t count = copy->count + copy->other_count;
    const cli_item **sorted = cli_alloc(count, sizeof *sorted);
    bool good = true;

    for (size_t i = 0; i < count; i++) {
        sorted[i] = i < copy->count ? &copy->items[i] : &copy->others[i - copy->count];
    }
    qsort(sorted, count, sizeof *sorted, cli_items_by_name);
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
        (void)CLI_ERROR(&err, SFT_E_ARG, "\"%s\" and \"%s\" would both be called \"%s\"", first,
                        second, both);
        cli_fail(copy->c, copy->source, &err);
        good = false;
    }
    free(sorted);
    return good;
}

static bool rename_names(cli_copy *copy, cli_choice *choice, cli_item *items, size_t count) {
    if (!cli_choice_parse_renames(choice)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        cli_item *item = &items[i];
        if (!item->bare && cli_choice_rename(choice, item->from, item->from_len, &item->renamed,
                                             &item->name_len)) {
            item->name = item->renamed;
        }
    }
    cli_choice_tell(choice, &choice->renamed, copy->source);
    return true;
}

/* ---------------------------------------------------------------- cast */

static bool cast_names(cli_copy *copy, cli_choice *choice, cli_item *items, size_t count) {
    if (!cli_choice_parse_casts(choice)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        cli_item *item = &items[i];
        const sft_dtype *dtype =
            item->bare ? NULL : cli_choice_cast(choice, item->from, item->from_len, item->tensor);
        item->dtype = dtype != NULL ? dtype : item->dtype;
    }
    cli_choice_tell(choice, &choice->casted, copy->source);
    return true;
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
                (void)sft_error_at(&named, err.status, SFT_NO_OFFSET, item->tensor->name,
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
    cli_choice choice;
    sft_error err;

    cli_item *names;
    size_t count = all_names(copy, &names);
    const size_t all = count;
    bool none;
    cli_choice_init(&choice, copy->c);
    count = select_names(copy, &choice, names, count, &none);
    copy->dropped = all - count;
    if (none && all > 0) {
        (void)CLI_ERROR(&err, SFT_E_NOT_FOUND, "no tensor is left to copy");
        cli_fail(copy->c, copy->source, &err);
        cli_choice_reset(&choice);
        free(names);
        return false;
    }
    const bool good =
        rename_names(copy, &choice, names, count) && cast_names(copy, &choice, names, count);
    cli_choice_reset(&choice);
    return cli_copy_link(copy, names, count) && good && names_differ(copy) && sum_up(copy);
}

bool cli_copy_is_plain(const cli_copy *copy) {
    return copy->renamed == 0 && copy->cast == 0 && copy->dropped == 0 &&
           sft_catalog_file_count(copy->catalog) == 1;
}
