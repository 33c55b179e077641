/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cp_metadata.c - --metadata: what the copy says of itself. Read cp.h first.
 */
#include "cli/copy/cp.h"
#include "cli/outputs/lost.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

static cli_pair *find_pair(cli_copy *copy, const char *key, size_t len) {
    for (size_t i = 0; i < copy->pair_count; i++) {
        if (copy->pairs[i].key_len == len && memcmp(copy->pairs[i].key, key, len) == 0) {
            return &copy->pairs[i];
        }
    }
    return NULL;
}

/* MindSpore's checksum of all tensors, and what names them or parts of them, hold only if these stay. */
static bool is_stale(const cli_copy *copy, const char *key, size_t len) {
    const bool crc = len == 7 && memcmp(key, "crc_num", 7) == 0;
    const bool tree = len == 8 && memcmp(key, "sft.tree", 8) == 0;

    const bool torchao = len == 12 && memcmp(key, "tensor_names", 12) == 0;

    return !cli_copy_is_plain(copy) && (crc || torchao ||
                                        (tree && (copy->renamed + copy->dropped != 0 ||
                                                  sft_catalog_file_count(copy->catalog) > 1)));
}

/* The value of a key in the first file before this one that has it, or NULL. */
static const char *find_earlier(const cli_copy *copy, size_t file, const char *key, size_t len,
                                size_t *value_len) {
    const char *value = NULL;

    for (size_t f = 0; f < file && value == NULL; f++) {
        value = sft_catalog_metadata_find(copy->catalog, f, key, len, value_len);
    }
    return value;
}

static int by_name(const void *a, const void *b) {
    const cli_item *x = *(const cli_item *const *)a;
    const cli_item *y = *(const cli_item *const *)b;
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

/* Is the text a tensor's name in the copy? sorted: the items by these names. */
static bool is_name(const cli_copy *copy, const cli_item *const *sorted, const char *text,
                    size_t len) {
    const cli_item key = {.name = text, .name_len = len};
    const cli_item *const wanted = &key;

    return copy->count != 0 &&
           bsearch(&wanted, sorted, copy->count, sizeof *sorted, by_name) != NULL;
}

/* Would readers take the entry, which records no other name, for one that does? */
static bool looks_like_name(const cli_copy *copy, const cli_item *const *sorted,
                            const cli_pair *p) {
    return is_name(copy, sorted, p->value, p->value_len) &&
           !is_name(copy, sorted, p->key, p->key_len) && !cli_is_reserved(p->key, p->key_len);
}

static const cli_item **sort_names(const cli_copy *copy) {
    const cli_item **sorted = cli_alloc(copy->count, sizeof *sorted);

    for (size_t i = 0; i < copy->count; i++) {
        sorted[i] = &copy->items[i];
    }
    if (copy->count > 1) {
        qsort(sorted, copy->count, sizeof *sorted, by_name);
    }
    return sorted;
}

static void add_file(cli_copy *copy, size_t file, const cli_item *const *sorted) {
    const size_t count = sft_catalog_metadata_count(copy->catalog, file);

    for (size_t i = 0; i < count; i++) {
        cli_pair pair;
        if (sft_catalog_metadata_at(copy->catalog, file, i, &pair.key, &pair.key_len, &pair.value,
                                    &pair.value_len) != SFT_OK) {
            return;
        }
        if (sft_digest_is_key(pair.key, pair.key_len) || /* declare_all hands them on */
            cli_copy_is_record(copy, pair.key, pair.key_len, pair.value, pair.value_len)) {
            continue;
        }
        if (is_stale(copy, pair.key, pair.key_len)) {
            cli_lost_metadata(copy->c, copy->source, pair.key, pair.key_len,
                              "it is about tensors that the copy changes");
            continue;
        }
        if (looks_like_name(copy, sorted, &pair)) {
            cli_lost_metadata(copy->c, copy->source, pair.key, pair.key_len, CLI_LOOKS_LIKE_NAME);
            continue;
        }
        size_t old_len = 0;
        const char *old = find_earlier(copy, file, pair.key, pair.key_len, &old_len);
        if (old == NULL && !cli_copy_describe(copy, &pair)) {
            continue;
        }
        if (old != NULL && cli_copy_collects(copy, &pair)) {
            continue; /* it is in what the first one became */
        }
        if (old == NULL) {
            copy->pairs = cli_resize(copy->pairs, copy->pair_count + 1, sizeof *copy->pairs);
            copy->pairs[copy->pair_count++] = pair;
        } else if (old_len != pair.value_len || memcmp(old, pair.value, old_len) != 0) {
            char key[128];
            (void)sft_escape(key, sizeof key, pair.key, pair.key_len);
            cli_warn(copy->c, sft_catalog_file_at(copy->catalog, file)->path,
                     "metadata \"%s\" has another value in an earlier file, which is kept", key);
            cli_lost_note(copy->c, pair.key, pair.key_len,
                          "another value of it, in an earlier file, is kept");
        }
    }
}

static void set_pair(cli_copy *copy, const char *text, const char *equals) {
    const cli_pair pair = {text, (size_t)(equals - text), equals + 1, strlen(equals + 1)};
    cli_pair *old = find_pair(copy, pair.key, pair.key_len);

    if (old != NULL) {
        *old = pair;
        return;
    }
    copy->pairs = cli_resize(copy->pairs, copy->pair_count + 1, sizeof *copy->pairs);
    copy->pairs[copy->pair_count++] = pair;
}

bool cli_copy_metadata(cli_copy *copy) {
    bool keep = true;
    const char *text;

    for (size_t i = 0; (text = cli_list(copy->c, "metadata", i)) != NULL; i++) {
        if (strchr(text, '=') == NULL && strcmp(text, "keep") != 0 && strcmp(text, "drop") != 0) {
            cli_usage(copy->c, "--metadata: \"%s\" is not keep, drop or KEY=VALUE", text);
            return false;
        }
        keep = strcmp(text, "drop") == 0 ? false : strcmp(text, "keep") == 0 ? true : keep;
    }
    copy->carry = keep;
    const cli_item **sorted = sort_names(copy);
    for (size_t f = 0; keep && f < sft_catalog_file_count(copy->catalog); f++) {
        copy->has_metadata =
            copy->has_metadata || sft_catalog_file_at(copy->catalog, f)->has_metadata;
        add_file(copy, f, sorted);
    }
    free(sorted);
    if (keep) {
        cli_lost_retyped(copy->c, copy->source, copy->catalog);
    }
    if (!keep && copy->other_count != 0) {
        char name[128];
        (void)sft_escape(name, sizeof name, copy->others[0].name, copy->others[0].name_len);
        cli_warn(copy->c, copy->source, "%llu other %s (\"%s\"%s left out with the metadata",
                 (unsigned long long)copy->other_count,
                 copy->other_count == 1 ? "name of a tensor" : "names of tensors", name,
                 copy->other_count == 1 ? ") is" : " ...) are");
    }
    for (size_t i = 0; (text = cli_list(copy->c, "metadata", i)) != NULL; i++) {
        const char *equals = strchr(text, '=');
        if (equals != NULL) {
            copy->has_metadata = true;
            set_pair(copy, text, equals);
        }
    }
    return true;
}

void cli_copy_reset(cli_copy *copy) {
    for (size_t i = 0; i < copy->count; i++) {
        free(copy->items[i].renamed);
    }
    for (size_t i = 0; i < copy->other_count; i++) {
        free(copy->others[i].renamed);
    }
    for (size_t i = 0; i < copy->text_count; i++) {
        free(copy->texts[i]);
    }
    free(copy->texts);
    free(copy->others);
    free(copy->items);
    free(copy->pairs);
    free(copy->order_text);
}
