/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/metadata.c - the metadata of a joined checkpoint out of that of its files. Read
 * checkpoint/open/assembly.h first.
 */
#include "base/error.h"
#include "checkpoint/open/assembly.h"

bool sft__checkpoint_speaks_of_one_file(const char *key, size_t len) {
    static const char *const keys[] = {"crc_num", "remove_redundancy", "DCP_SHARDING_INFO",
                                       "DCP_VERSION"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strlen(keys[i]) == len && memcmp(keys[i], key, len) == 0) {
            return true;
        }
    }
    return false;
}

bool sft__checkpoint_describes_tensors(const sft_catalog *catalog, const sft_metadata_entry *e,
                                       bool global) {
    static const char *const keys[] = {"sft.aliases", "sft.tree", "gguf.tensors", "tensor_names"};
    static const char *const starts[] = {"onnx:", "flax:", "tflite:", "torchao:"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strlen(keys[i]) == e->key_len && memcmp(keys[i], e->key, e->key_len) == 0) {
            return true;
        }
    }
    for (size_t i = 0; global && i < sizeof starts / sizeof starts[0]; i++) {
        const size_t n = strlen(starts[i]);
        if (e->key_len > n && memcmp(e->key, starts[i], n) == 0) {
            return true;
        }
    }
    return global && sft_catalog_find(catalog, e->key, e->key_len) != NULL &&
           sft_catalog_find(catalog, e->value, e->value_len) != NULL;
}

bool sft__checkpoint_is_crc_num(const char *key, size_t len) {
    return len == 7 && memcmp(key, "crc_num", 7) == 0;
}

/* Is it the first file that has the key, and do the others that have it agree? */
static bool agreed(const sft_rank_part *parts, size_t count, size_t part,
                   const sft_metadata_entry *e) {
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *const value =
            sft_catalog_file_count(parts[i].catalog) == 0
                ? NULL
                : sft_catalog_metadata_find(parts[i].catalog, 0, e->key, e->key_len, &len);
        if (value == NULL) {
            continue;
        }
        if (i < part || len != e->value_len || memcmp(value, e->value, len) != 0) {
            return false;
        }
    }
    return true;
}

static bool is_aliases(const sft_metadata_entry *e) {
    return e->key_len == 11 && memcmp(e->key, "sft.aliases", 11) == 0;
}

/* Names of parts of a rank's tensors say nothing of global tensors. */
static sft_status tell_aliases(sft_builder *builder, const sft_rank_part *parts, size_t count,
                               bool cut, sft_error *err) {
    sft_metadata_entry e = {"sft.aliases", 11, NULL, 0};

    for (size_t i = 0; i < count; i++) {
        if (sft_catalog_file_count(parts[i].catalog) == 0) {
            continue;
        }
        e.value = sft_catalog_metadata_find(parts[i].catalog, 0, e.key, e.key_len, &e.value_len);
        if (e.value == NULL) {
            continue;
        }
        return !cut && agreed(parts, count, i, &e)
                   ? SFT_OK
                   : sft_builder_add_problem(
                         builder, SFT_PROBLEM_ALIAS, e.key, e.key_len,
                         "metadata sft.aliases is left out: it names parts of the ranks' tensors",
                         err);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_join_metadata(sft_builder *builder, const sft_rank_part *parts,
                                         size_t count, bool cut, sft_error *err) {
    SFT_TRY(tell_aliases(builder, parts, count, cut, err));
    for (size_t i = 0; i < count; i++) {
        const sft_catalog *const c = parts[i].catalog;
        const size_t entries =
            sft_catalog_file_count(c) == 0 ? 0 : sft_catalog_metadata_count(c, 0);
        for (size_t k = 0; k < entries; k++) {
            sft_metadata_entry e;
            SFT_TRY(sft_catalog_metadata_at(c, 0, k, &e.key, &e.key_len, &e.value, &e.value_len));
            if (!sft__checkpoint_speaks_of_one_file(e.key, e.key_len) && !(cut && is_aliases(&e)) &&
                agreed(parts, count, i, &e)) {
                SFT_TRY(sft_builder_add_metadata(builder, 0, &e, err));
            }
        }
    }
    return SFT_OK;
}
