/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_names.c - which names of the inputs go on. Every name of a tensor is asked for,
 * other names as well: the first that is taken is the tensor's in the output, those behind it are
 * other names there. What shows a part of a tensor stays that if the tensor goes on as it is, and
 * becomes a tensor of its own if not. Read first: convert.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/convert/convert.h"
#include <stdio.h>
#include <stdlib.h>

static const char storage[] = "sft.storage."; /* bytes that only other names show; docs/tree.md */

enum {
    STORAGE = 2
}; /* `take` of such bytes: nobody chose their name, so they may get another one */

/* ---------------------------------------------------------------- other names of the inputs */

/* Another name, in the order of the tensors. */
typedef struct linked {
    const char *name;
    size_t len;
    size_t of;
    const sft_tensor *shows;
    sft_import_item item; /* what `choose` made of it */
    bool part;
} linked;

int sft__import_convert_compare_names(const char *a, size_t a_len, const char *b, size_t b_len) {
    const size_t n = a_len < b_len ? a_len : b_len;
    const int o = n != 0 ? memcmp(a, b, n) : 0;

    return o != 0 ? o : a_len < b_len ? -1 : a_len > b_len;
}

static int by_tensor(const void *a, const void *b) {
    const linked *x = a;
    const linked *y = b;

    if (x->of != y->of || x->part != y->part) {
        return x->of != y->of ? (x->of < y->of ? -1 : 1) : x->part ? 1 : -1;
    }
    return sft__import_convert_compare_names(x->name, x->len, y->name, y->len);
}

static int by_old_name(const void *a, const void *b) {
    const sft__import_other *x = a;
    const sft__import_other *y = b;
    return sft__import_convert_compare_names(x->old, x->old_len, y->old, y->old_len);
}

bool sft__import_convert_shows_all(const sft_tensor *of, const sft_tensor *shows) {
    return shows == of ||
           (shows->dtype->id == of->dtype->id && shows->rank == of->rank &&
            (of->rank == 0 || memcmp(shows->shape, of->shape, of->rank * sizeof *of->shape) == 0) &&
            shows->piece_count == of->piece_count &&
            (of->piece_count == 0 || (shows->pieces[0].strides == of->pieces[0].strides &&
                                      shows->pieces[0].offset == of->pieces[0].offset)));
}

static sft_status list_links(const sft__import_conversion *c, const sft_catalog *catalog,
                             linked **list, sft_error *err) {
    const size_t count = sft_catalog_alias_count(catalog);

    *list = sft__base_alloc_array(c->allocator, count + 1, sizeof **list);
    SFT_NEED(*list != NULL, count * sizeof **list, err);
    for (size_t i = 0; i < count; i++) {
        linked *l = &(*list)[i];
        memset(l, 0, sizeof *l);
        l->name = sft_catalog_alias_at(catalog, i, &l->len, &l->of);
        l->shows = sft_catalog_find(catalog, l->name, l->len);
        l->part = !sft__import_convert_shows_all(sft_catalog_at(catalog, l->of), l->shows);
    }
    if (count > 1) {
        qsort(*list, count, sizeof **list, by_tensor);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- asking */

static sft_import_item item_of(const sft_catalog *catalog, const sft_tensor *t, const char *name,
                               size_t len) {
    return (sft_import_item){catalog, t, name, len, t->dtype, 0, 1, 0};
}

/* What becomes of one name. */
static sft_status ask(sft__import_conversion *c, sft_import_item *item, sft_error *err) {
    const sft_import_item as_it_is = *item;
    const sft_tensor *t = item->tensor;

    if (c->options.choose != NULL) {
        SFT_TRY(c->options.choose(c->options.ctx, item, err));
    }
    if (item->take == 0) {
        c->result.left_out++;
        c->names_left++;
        return SFT_OK;
    }
    if (item->dtype != NULL && item->dtype->id != t->dtype->id) {
        SFT_TRY(sft_catalog_can_cast(as_it_is.catalog, t, err));
    }
    if (!c->any_type && item->name_len == 12 && memcmp(item->name, "__metadata__", 12) == 0) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, as_it_is.name,
                                     as_it_is.name_len,
                                     "safetensors cannot have a tensor of this name: rename it");
    }
    if (item->dtype == NULL || (!c->any_type && sft_dtype_get(item->dtype->id) == NULL)) {
        return sft__base_fail_tensor(
            err, SFT_E_DTYPE, SFT_NO_OFFSET, as_it_is.name, as_it_is.name_len,
            "safetensors has no type %s, and nothing casts it: leave it out, or "
            "write it with another type, as complex64 for example",
            t->dtype->name);
    }
    return SFT_OK;
}

static sft_status add_item(sft__import_conversion *c, const sft_import_item *from, sft_error *err) {
    const sft_tensor *t = from->tensor;
    sft_import_item item = *from;
    uint64_t elements = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        elements *= t->shape[d];
    }
    SFT_TRY(sft_dtype_bytes(item.dtype, elements, &item.nbytes, err));
    SFT_TRY(SFT_ONE_MORE(c->allocator, c->items, c->item_room, c->item_count, err));
    c->result.tensors++;
    c->result.data_bytes += item.nbytes;
    c->result.cast += item.dtype->id != t->dtype->id;
    c->result.gathered += t->piece_count == 1 && t->pieces[0].strides != NULL;
    c->items[c->item_count++] = item;
    return SFT_OK;
}

static sft_status add_other(sft__import_conversion *c, const linked *l, const sft_tensor *of,
                            sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(c->allocator, c->others, c->other_room, c->other_count, err));
    c->others[c->other_count++] = (sft__import_other){
        l->item.name, l->item.name_len, l->name, l->len, l->item.catalog, of, l->shows, l->part};
    c->result.aliases++;
    return SFT_OK;
}

static bool same_name(const sft_import_item *a, const sft_import_item *b) {
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/* One tensor can have one type only. */
static sft_status same_type(const sft_import_item *of, const linked *l, sft_error *err) {
    char name[128];

    (void)sft_escape(name, sizeof name, of->name, of->name_len);
    return of->dtype->id == l->item.dtype->id
               ? SFT_OK
               : sft__base_fail_tensor(
                     err, SFT_E_DTYPE, SFT_NO_OFFSET, l->name, l->len,
                     "it would be %s, and \"%s\", another name of the same tensor, "
                     "%s: cast both, leave one out, or --dedup keep",
                     l->item.dtype->name, name, of->dtype->name);
}

/* ---------------------------------------------------------------- one tensor with all its names */

/* Parts of the tensor: names of bytes of the item (NULL: there is none), or tensors. */
static sft_status take_parts(sft__import_conversion *c, const sft_import_item *kept, linked *links,
                             size_t count, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        linked *l = &links[i];
        if (l->item.take == 0) {
            continue;
        }
        const bool as_it_is = !c->no_parts && kept != NULL &&
                              kept->dtype->id == kept->tensor->dtype->id &&
                              l->item.dtype->id == l->shows->dtype->id;
        SFT_TRY(as_it_is ? add_other(c, l, kept->tensor, err) : add_item(c, &l->item, err));
        c->apart += !as_it_is;
    }
    return SFT_OK;
}

/* Bytes that only other names show? They have no name of their own that anybody could ask for. */
static bool is_bare(const sft_tensor *t, const linked *links, size_t count) {
    const size_t n = sizeof storage - 1;

    return count != 0 && links[count - 1].part && t->name_len > n &&
           memcmp(t->name, storage, n) == 0; /* parts come last */
}

/* They go on as they are if one of the names still shows them. */
static bool is_shown(const sft__import_conversion *c, const linked *parts, size_t count) {
    bool shown = false;

    for (size_t i = 0; i < count; i++) {
        shown = shown || (!c->no_parts && parts[i].item.take != 0 &&
                          parts[i].item.dtype->id == parts[i].shows->dtype->id);
    }
    return shown;
}

static sft_status take_tensor(sft__import_conversion *c, const sft_catalog *catalog,
                              const sft_tensor *t, linked *links, size_t count, sft_error *err) {
    sft_import_item kept;
    size_t whole = 0;

    const bool bare = is_bare(t, links, count);
    kept = item_of(catalog, t, t->name, t->name_len);
    if (!bare) {
        SFT_TRY(ask(c, &kept, err));
    }
    for (size_t i = 0; i < count; i++) {
        linked *l = &links[i];
        whole += !l->part;
        l->item = item_of(catalog, l->part ? l->shows : t, l->name, l->len);
        SFT_TRY(ask(c, &l->item, err));
        if (!l->part && l->item.take != 0 && kept.take == 0) {
            kept = l->item;
            l->item.take = 0; /* it is the tensor's */
        }
    }
    if (kept.take == 0 || (bare && !is_shown(c, links + whole, count - whole))) {
        c->not_taken++;
        return take_parts(c, NULL, links + whole, count - whole, err);
    }
    kept.take = bare ? STORAGE : kept.take;
    SFT_TRY(add_item(c, &kept, err));
    for (size_t i = 0; i < whole; i++) {
        if (links[i].item.take != 0 && (c->options.flags & SFT_CONVERT_KEEP_NAMES) != 0) {
            SFT_TRY(add_item(c, &links[i].item, err));
            c->apart++;
            continue;
        }
        if (links[i].item.take != 0) {
            SFT_TRY(same_type(&kept, &links[i], err));
        }
        if (links[i].item.take != 0 && !same_name(&kept, &links[i].item)) {
            SFT_TRY(add_other(c, &links[i], t, err));
        }
    }
    return take_parts(c, &kept, links + whole, count - whole, err);
}

sft_status sft__import_convert_take(sft__import_conversion *c, const sft_catalog *catalog,
                                    sft_error *err) {
    const size_t aliases = sft_catalog_alias_count(catalog);
    sft_status status = SFT_OK;
    linked *links;
    size_t at = 0;

    c->no_parts = c->no_parts || (c->options.flags & SFT_CONVERT_KEEP_NAMES) != 0;
    SFT_TRY(list_links(c, catalog, &links, err));
    for (size_t i = 0; i < sft_catalog_count(catalog) && status == SFT_OK; i++) {
        size_t end = at;
        while (end < aliases && links[end].of == i) {
            end++;
        }
        status = take_tensor(c, catalog, sft_catalog_at(catalog, i), links + at, end - at, err);
        at = end;
    }
    sft__base_free(c->allocator, links, (aliases + 1) * sizeof *links);
    return status;
}

/* ---------------------------------------------------------------- names of the output */

/* Every name of the output in one table: those of items, then the others, then storages. */
typedef struct sft__import_convert_called {
    const char *name;
    size_t len;
    const sft_catalog *catalog;
    bool is_item;
} called;

static sft_status twice(const called *names, size_t index, size_t other, sft_error *err) {
    const called *n = &names[index];
    const char *what = "two other names of tensors would become this one";

    if (n->is_item && names[other].is_item) {
        what = "two tensors would have this name";
    } else if (n->catalog != names[other].catalog) {
        what = "two inputs have this name, in one it is another name of a tensor";
    } else if (names[other].is_item) {
        what = "a tensor and another name of a different one would have this name";
    }
    return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, n->name, n->len, "%s", what);
}

static sft_status add_called(sft__import_conversion *c, const called *n, sft_error *err) {
    const size_t at = c->called_count++;

    c->called[at] = *n;
    const size_t other = sft__base_strmap_add(&c->called_names, at);
    return other == SFT__STRMAP_NONE ? SFT_OK : twice(c->called, at, other, err);
}

/* Bytes without a name of their own: the next number that is free where theirs is taken. */
static sft_status number_storage(sft__import_conversion *c, sft_import_item *item, uint32_t *number,
                                 sft_error *err) {
    const sft__base_strmap *map = &c->called_names;
    char name[32];
    size_t len;

    if (sft__base_strmap_find(map, item->name, item->name_len) == SFT__STRMAP_NONE) {
        return SFT_OK;
    }
    do {
        len = (size_t)snprintf(name, sizeof name, "%s%u", storage, (unsigned)(*number)++);
    } while (sft__base_strmap_find(map, name, len) !=
             SFT__STRMAP_NONE); /* of n names one of n + 1 is free */
    if (c->names.allocator == NULL) {
        sft__base_arena_init(&c->names, c->allocator, 0);
    }
    item->name = sft__base_arena_copy(&c->names, name, len);
    item->name_len = len;
    return item->name != NULL ? SFT_OK : sft__base_fail_nomem(err, len);
}

static sft_status put_called(sft__import_conversion *c, sft_error *err) {
    uint32_t number = 0;

    for (int storages = 0; storages < 2; storages++) { /* all other names first */
        for (size_t i = 0; i < c->item_count; i++) {
            sft_import_item *item = &c->items[i];
            if ((item->take == STORAGE) != (storages != 0)) {
                continue;
            }
            if (storages != 0) {
                SFT_TRY(number_storage(c, item, &number, err));
            }
            SFT_TRY(add_called(c, &(called){item->name, item->name_len, item->catalog, true}, err));
        }
        for (size_t i = 0; i < c->other_count && storages == 0; i++) {
            const sft__import_other *o = &c->others[i];
            SFT_TRY(add_called(c, &(called){o->name, o->name_len, o->catalog, false}, err));
        }
    }
    return SFT_OK;
}

sft_status sft__import_convert_names(sft__import_conversion *c, sft_error *err) {
    const size_t count = c->item_count + c->other_count;

    if (c->other_count > 1) {
        qsort(c->others, c->other_count, sizeof *c->others, by_old_name);
    }
    c->called = sft__base_alloc_array(c->allocator, count + 1, sizeof *c->called);
    c->called_room = c->called != NULL ? count + 1 : 0;
    SFT_NEED(c->called != NULL && sft__base_strmap_init(&c->called_names, c->called,
                                                        sizeof *c->called, count + 1, c->allocator),
             count * sizeof *c->called, err);
    return put_called(c, err);
}

bool sft__import_convert_is_name(const sft__import_conversion *c, const char *text, size_t len) {
    const size_t at = c->called_count != 0 ? sft__base_strmap_find(&c->called_names, text, len)
                                           : SFT__STRMAP_NONE;

    return at != SFT__STRMAP_NONE && c->called[at].is_item;
}

void sft__import_convert_forget_names(sft__import_conversion *c) {
    if (c->called_names.slots != NULL) {
        sft__base_strmap_reset(&c->called_names);
    }
    sft__base_free(c->allocator, c->called, c->called_room * sizeof *c->called);
    c->called = NULL;
    c->called_room = c->called_count = 0;
    if (c->names.allocator != NULL) {
        sft__base_arena_free(&c->names);
    }
}

/* ---------------------------------------------------------------- from inputs to items */

sft_status sft__import_convert_map(sft__import_conversion *c, sft_error *err) {
    size_t all = 0;

    for (size_t k = 0; k < c->catalog_count; k++) {
        all += sft_catalog_count(c->catalogs[k]);
    }
    if (c->catalog_count == 0 && c->item_count != 0) { /* of an export: the only one */
        all = sft_catalog_count(c->items[0].catalog);
    }
    c->place_room = all + 1;
    c->places = sft__base_alloc_zero(c->allocator, c->place_room * sizeof *c->places);
    if (c->places == NULL) {
        c->place_room = 0;
        return sft__base_fail_nomem(err, all * sizeof *c->places);
    }
    for (size_t i = 0; i < c->item_count; i++) {
        const sft_import_item *item = &c->items[i];
        size_t first = 0;
        size_t k = 0;
        while (k + 1 < c->catalog_count && c->catalogs[k] != item->catalog) {
            first += sft_catalog_count(c->catalogs[k++]);
        }
        const size_t at = sft_catalog_index_of(item->catalog, item->tensor);
        if (sft_catalog_at(item->catalog, at) == item->tensor) { /* else a part on its own */
            c->places[first + at] = i + 1;
        }
    }
    return SFT_OK;
}

const sft_import_item *sft__import_convert_item_of(const sft__import_conversion *c,
                                                   const sft_catalog *catalog, const sft_tensor *t,
                                                   size_t *index) {
    size_t first = 0;
    size_t k = 0;

    while (k + 1 < c->catalog_count && c->catalogs[k] != catalog) {
        first += sft_catalog_count(c->catalogs[k++]);
    }
    const size_t at = c->places[first + sft_catalog_index_of(catalog, t)];
    if (index != NULL) {
        *index = at - 1;
    }
    return at != 0 ? &c->items[at - 1] : NULL;
}
