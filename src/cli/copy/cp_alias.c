/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cp_alias.c - names that are none of the source's tensors: other names of one, or of a part of
 * it. They go on as that where their tensor does, and are tensors where it does not. And metadata that
 * say something about a tensor by its name. Read cp.h first.
 */
#include "cli/copy/cp.h"
#include "cli/operands/other_format.h"
#include "cli/operands/other_name.h"
#include "cli/outputs/lost.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- other names */

size_t cli_copy_other_names(const cli_copy *copy, cli_item *items) {
    const size_t count = sft_catalog_alias_count(copy->catalog);

    for (size_t i = 0; i < count; i++) {
        const cli_other_name o = cli_other_name_at(copy->catalog, i);
        items[i] = (cli_item){.tensor = o.part ? o.shows : o.whole,
                              .dtype = o.shows->dtype,
                              .from = o.name,
                              .from_len = o.len,
                              .name = o.name,
                              .name_len = o.len,
                              .nbytes = o.shows->nbytes,
                              .whole = o.whole,
                              .part = o.part};
    }
    return count;
}

/* ---------------------------------------------------------------- items and their other names */

static const sft_tensor *whole_of(const cli_item *item) {
    return item->whole != NULL ? item->whole : item->tensor;
}

/* The tensor's own name, then other names of all of it, then parts. */
static int by_whole(const void *a, const void *b) {
    const cli_item *x = a;
    const cli_item *y = b;
    const sft_tensor *p = whole_of(x);
    const sft_tensor *q = whole_of(y);
    const int kind_x = x->whole == NULL ? 0 : x->part ? 2 : 1;
    const int kind_y = y->whole == NULL ? 0 : y->part ? 2 : 1;

    return p != q             ? (p < q ? -1 : 1)
           : kind_x != kind_y ? kind_x - kind_y
                              : cli_compare_bytes(x->from, x->from_len, y->from, y->from_len);
}

static bool same_type(cli_copy *copy, const cli_item *kept, const cli_item *item) {
    sft_error err;
    char first[128];

    if (kept->dtype->id == item->dtype->id) {
        return true;
    }
    (void)sft_escape(first, sizeof first, kept->from, kept->from_len);
    (void)sft_error_at(&err, SFT_E_DTYPE, SFT_NO_OFFSET, item->from, item->from_len,
                       "it would be %s, and \"%s\", another name of the same tensor, %s: cast "
                       "both, or leave one out",
                       item->dtype->name, first, kept->dtype->name);
    cli_fail(copy->c, copy->source, &err);
    return false;
}

/* Bytes that only other names show stay behind if none of these shows them any more. */
static bool is_left(const cli_item *names, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (!names[i].part || names[i].dtype->id == names[i].tensor->dtype->id) {
            return false;
        }
    }
    return names[0].bare;
}

/* All chosen names of one tensor. */
static bool link_one(cli_copy *copy, cli_item *names, size_t count) {
    cli_item *kept = names[0].part || is_left(names, count) ? NULL : &names[0];
    bool good = true;

    for (size_t i = 0; i < count; i++) {
        cli_item *n = &names[i];
        const bool kept_as_it_is = kept != NULL && kept->dtype->id == kept->tensor->dtype->id &&
                                   n->dtype->id == n->tensor->dtype->id;
        if (n == kept || (n->part && !kept_as_it_is)) {
            copy->items[copy->count++] = *n;
        } else if (kept == NULL) {
            free(n->renamed); /* the bare storage itself */
        } else if (n->part ||
                   cli_compare_bytes(n->name, n->name_len, kept->name, kept->name_len) != 0) {
            good = (n->part || same_type(copy, kept, n)) && good;
            copy->others[copy->other_count++] = *n;
        } else { /* two names of one tensor have become one */
            good = same_type(copy, kept, n) && good;
            free(n->renamed);
        }
    }
    return good;
}

bool cli_copy_link(cli_copy *copy, cli_item *chosen, size_t count) {
    bool good = true;

    copy->items = cli_alloc(count, sizeof *copy->items);
    copy->others = cli_alloc(count, sizeof *copy->others);
    if (sft_catalog_alias_count(copy->catalog) == 0) { /* in their order already */
        memcpy(copy->items, chosen, count * sizeof *chosen);
        copy->count = count;
        free(chosen);
        return true;
    }
    qsort(chosen, count, sizeof *chosen, by_whole);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && whole_of(&chosen[end]) == whole_of(&chosen[i])) {
            end++;
        }
        good = link_one(copy, chosen + i, end - i) && good;
        i = end;
    }
    free(chosen);
    return good;
}

/* ---------------------------------------------------------------- in the metadata */

bool cli_copy_is_record(const cli_copy *copy, const char *key, size_t len, const char *value,
                        size_t value_len) {
    const sft_tensor *t = sft_catalog_find(copy->catalog, key, len);

    if (cli_is_word(key, len, "sft.aliases")) {
        return true;
    }
    return t != NULL &&
           t != sft_catalog_at(copy->catalog, sft_catalog_index_of(copy->catalog, t)) &&
           sft_catalog_find(copy->catalog, value, value_len) != NULL;
}

bool cli_is_reserved(const char *key, size_t len) {
    return len == 0 || cli_is_word(key, len, "format") || (len >= 4 && memcmp(key, "sft.", 4) == 0);
}

static int by_tensor(const void *a, const void *b) {
    const cli_item *x = *(const cli_item *const *)a;
    const cli_item *y = *(const cli_item *const *)b;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

/* The item of a tensor; sorted: by tensor. */
static const cli_item *item_of(const cli_item *const *sorted, size_t count, const sft_tensor *t) {
    const cli_item key = {.tensor = t};
    const cli_item *const wanted = &key;
    const cli_item *const *found = bsearch(&wanted, sorted, count, sizeof *sorted, by_tensor);

    return found != NULL ? *found : NULL;
}

int cli_items_by_name(const void *a, const void *b) {
    const cli_item *x = *(const cli_item *const *)a;
    const cli_item *y = *(const cli_item *const *)b;
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

const cli_item **cli_items_sorted(const cli_copy *copy,
                                  int (*order)(const void *a, const void *b)) {
    const cli_item **sorted = cli_alloc(copy->count, sizeof *sorted);

    for (size_t i = 0; i < copy->count; i++) {
        sorted[i] = &copy->items[i];
    }
    qsort(sorted, copy->count, sizeof *sorted, order);
    return sorted;
}

sft_status cli_copy_write_names(const cli_copy *copy, sft_writer *writer, sft_error *err) {
    if (copy->other_count == 0 || !copy->carry) {
        return SFT_OK;
    }
    const cli_item **sorted = cli_items_sorted(copy, by_tensor);
    sft_writer_name *names = cli_alloc(copy->other_count, sizeof *names);
    for (size_t i = 0; i < copy->other_count; i++) {
        const cli_item *o = &copy->others[i];
        const cli_item *of = item_of(sorted, copy->count, o->whole);
        names[i] = (sft_writer_name){o->name,
                                     o->name_len,
                                     of->name,
                                     of->name_len,
                                     of->dtype,
                                     o->whole,
                                     o->part ? o->tensor : NULL};
    }
    const sft_status status = sft_writer_names(writer, names, copy->other_count, err);
    free(names);
    free(sorted);
    return status;
}

/* ---------------------------------------------------------------- what describes tensors */

typedef struct naming {
    const cli_copy *copy;
    const cli_item **sorted;
    bool cast;
} naming;

static sft_import_named name_now(void *ctx, const char *name, size_t len, const char **now,
                                 size_t *now_len) {
    naming *k = ctx;
    const sft_catalog *catalog = k->copy->catalog;
    const sft_tensor *t = sft_catalog_find(catalog, name, len);

    if (t == NULL) {
        return SFT_IMPORT_NAME_UNKNOWN;
    }
    const sft_tensor *whole = sft_catalog_at(catalog, sft_catalog_index_of(catalog, t));
    const cli_item *item = item_of(k->sorted, k->copy->count, whole);
    if (item == NULL || item->dtype->id != whole->dtype->id) {
        k->cast = k->cast || item != NULL;
        return SFT_IMPORT_NAME_GONE;
    }
    *now = item->name;
    *now_len = item->name_len;
    return SFT_IMPORT_NAME_HERE;
}

static sft_import_named name_block(void *ctx, const sft_catalog *catalog, const sft_tensor *t,
                                   const char **now, size_t *now_len) {
    (void)catalog;
    return name_now(ctx, t->name, t->name_len, now, now_len);
}

static size_t apart_of(const sft_metadata_entry *pair) {
    return pair->key_len == sizeof "gguf.types" - 1;
}

bool cli_copy_collects(const cli_copy *copy, const sft_metadata_entry *pair) {
    const sft_metadata_entry e = {pair->key, pair->key_len, pair->value, pair->value_len};
    bool same = true;

    if (!sft_import_collects(&e) || copy->apart[apart_of(pair)]) {
        return false;
    }
    (void)cli_lost_agree(copy->catalog, &e, &same);
    return !same;
}

bool cli_copy_describe(cli_copy *copy, sft_metadata_entry *pair) {
    const bool collects = cli_copy_collects(copy, pair);
    sft_metadata_entry e = {pair->key, pair->key_len, pair->value, pair->value_len};
    sft_metadata_entry now = e;
    char *memory = NULL;
    size_t size;
    sft_error err;

    if (!collects &&
        (copy->renamed + copy->cast + copy->dropped == 0 || !sft_import_describes(&e))) {
        return true;
    }
    naming k = {copy, cli_items_sorted(copy, by_tensor), false};
    const sft_import_collection from = {&copy->catalog, 1, name_block, &k, cli_allocator()};
    const sft_status status = collects ? sft_import_collect(&now, &memory, &size, &e, &from, &err)
                                       : sft_import_describe(&now, &memory, &size, &e, name_now, &k,
                                                             cli_allocator(), &err);
    free(k.sorted);
    if (collects && status != SFT_OK) { /* the first file's is kept, with a warning */
        copy->apart[apart_of(pair)] = true;
        return cli_copy_describe(copy, pair);
    }
    if (memory != NULL) {
        copy->texts = cli_resize(copy->texts, copy->text_count + 1, sizeof *copy->texts);
        copy->texts[copy->text_count++] = memory;
    }
    if (k.cast || status != SFT_OK) {
        char key[128];
        (void)sft_escape(key, sizeof key, pair->key, pair->key_len);
        cli_warn(copy->c, copy->source,
                 "metadata \"%s\" is left out for tensors that are cast: it tells their type", key);
        cli_lost_note(copy->c, pair->key, pair->key_len,
                      "what it tells of the types of tensors that are cast");
    }
    *pair = (sft_metadata_entry){now.key, now.key_len, now.value, now.value_len};
    return status == SFT_OK && now.key != NULL;
}
