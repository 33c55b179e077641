/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load_select.c - tensors by name, by the beginning of names and by patterns. Read first:
 * <sft/load.h>.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include <sft/load.h>

static bool name_fits(const sft_name *n, sft_match match, const char *name, size_t len) {
    if (match == SFT_MATCH_GLOB) {
        return sft_glob_match(n->text, n->len, name, len) != 0;
    }
    return n->len <= len && (n->len == 0 || memcmp(n->text, name, n->len) == 0);
}

/* Marks what the name fits; false if that is nothing. */
static bool select_one(const sft_catalog *catalog, const sft_name *n, sft_match match,
                       uint8_t *marks) {
    const size_t count = sft_catalog_count(catalog);
    const size_t aliases = sft_catalog_alias_count(catalog);
    bool found = false;

    if (match == SFT_MATCH_NAME) {
        const sft_tensor *t = sft_catalog_find(catalog, n->text, n->len);
        if (t != NULL) {
            marks[sft_catalog_index_of(catalog, t)] = 1;
        }
        return t != NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        if (name_fits(n, match, t->name, t->name_len)) {
            marks[i] = 1;
            found = true;
        }
    }
    for (size_t i = 0; i < aliases; i++) {
        size_t len = 0;
        size_t index = 0;
        const char *alias = sft_catalog_alias_at(catalog, i, &len, &index);
        if (name_fits(n, match, alias, len)) {
            marks[index] = 1;
            found = true;
        }
    }
    return found;
}

sft_status sft_catalog_select(const sft_catalog *catalog, const sft_selection *selection,
                              size_t *positions, size_t *count, sft_error *err) {
    if (count != NULL) {
        *count = 0;
    }
    if (catalog == NULL || selection == NULL || positions == NULL || count == NULL ||
        (selection->names == NULL && selection->count != 0) ||
        (uint32_t)selection->match > SFT_MATCH_GLOB) {
        return sft__base_fail(err, SFT_E_ARG,
                              "an argument is NULL, or the kind of match is unknown");
    }
    const sft_name *const names = selection->names;
    const size_t tensors = sft_catalog_count(catalog);
    uint8_t *marks = sft__base_alloc_zero(NULL, tensors + 1);
    SFT_NEED(marks != NULL, tensors + 1, err);
    sft_status status = SFT_OK;
    for (size_t i = 0; i < selection->count && status == SFT_OK; i++) {
        if (names[i].text == NULL || !select_one(catalog, &names[i], selection->match, marks)) {
            status = sft__base_fail_tensor(
                err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, names[i].text != NULL ? names[i].text : "",
                names[i].text != NULL ? names[i].len : 0, "no tensor has such a name");
        }
    }
    for (size_t i = 0; i < tensors && status == SFT_OK; i++) {
        if (marks[i] != 0) {
            positions[(*count)++] = i;
        }
    }
    sft__base_free(NULL, marks, tensors + 1);
    return status;
}
