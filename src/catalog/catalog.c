/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/catalog.c - questions to a catalog, what openers left with it, and its end.
 */
#include "catalog/catalog.h"
#include <sft/open.h>

typedef struct sft__catalog_attachment {
    struct sft__catalog_attachment *next;
    const char *key;
    void *object; /* NULL: given away */
    void (*drop)(void *object);
} sft__catalog_attachment;

sft_status sft_catalog_unchanged(const sft_catalog *catalog, sft_error *err) {
    for (size_t i = 0; i < catalog->source_count; i++) {
        SFT_TRY(sft_source_unchanged(catalog->sources[i], err));
    }
    return SFT_OK;
}

static void drop_attached(sft_catalog *catalog) {
    for (sft__catalog_attachment *a = catalog->attached; a != NULL; a = a->next) {
        if (a->object != NULL) {
            a->drop(a->object);
        }
    }
}

void sft_catalog_close(sft_catalog *catalog) {
    if (catalog == NULL) {
        return;
    }
    const sft_allocator *a = catalog->allocator;
    for (size_t i = 0; i < catalog->header_count; i++) {
        sft__format_header_reset(&catalog->headers[i]);
    }
    for (size_t i = 0; i < catalog->source_count; i++) {
        sft_source_close(catalog->sources[i]);
    }
    drop_attached(catalog);
    if (catalog->merged_names.slots != NULL) {
        sft__base_strmap_reset(&catalog->merged_names);
    }
    if (catalog->alias_names.slots != NULL) {
        sft__base_strmap_reset(&catalog->alias_names);
    }
    sft__base_arena_free(&catalog->arena);
    if (catalog->alias_room != 0) {
        sft__base_free(a, catalog->aliases, catalog->alias_room * sizeof *catalog->aliases);
    }
    if (catalog->part_room != 0) {
        sft__base_free(a, catalog->parts, catalog->part_room * sizeof *catalog->parts);
    }
    if (catalog->file_room != 0) {
        sft__base_free(a, catalog->files, catalog->file_room * sizeof *catalog->files);
    }
    if (catalog->source_room != 0) {
        sft__base_free(a, catalog->sources, catalog->source_room * sizeof *catalog->sources);
    }
    if (catalog->problem_room != 0) {
        sft__base_free(a, catalog->problems, catalog->problem_room * sizeof *catalog->problems);
    }
    if (catalog->header_room != 0) {
        sft__base_free(a, catalog->headers, catalog->header_room * sizeof *catalog->headers);
    }
    sft__base_free(a, catalog, sizeof *catalog);
}

size_t sft_catalog_count(const sft_catalog *catalog) {
    return catalog->tensor_count;
}

const sft_tensor *sft_catalog_at(const sft_catalog *catalog, size_t index) {
    return index < catalog->tensor_count ? &catalog->tensors[index] : NULL;
}

const sft_tensor *sft_catalog_find(const sft_catalog *catalog, const char *name, size_t name_len) {
    size_t index;

    if (name == NULL && name_len != 0) {
        return NULL;
    }
    index = sft__base_strmap_find(catalog->names, name, name_len);
    if (index == SFT__STRMAP_NONE && catalog->alias_count != 0) {
        const size_t at = sft__base_strmap_find(&catalog->alias_names, name, name_len);
        if (at != SFT__STRMAP_NONE && catalog->aliases[at].shows != 0) {
            return &catalog->parts[catalog->aliases[at].shows - 1].tensor;
        }
        index = at != SFT__STRMAP_NONE ? catalog->aliases[at].tensor : at;
    }
    return index != SFT__STRMAP_NONE ? &catalog->tensors[index] : NULL;
}

/* The part that begins with the tensor, or NULL: it is one of the tensors. */
static const sft__catalog_shown_part *part_of(const sft_catalog *catalog,
                                              const sft_tensor *tensor) {
    const uintptr_t begin = (uintptr_t)catalog->parts;
    const uintptr_t at = (uintptr_t)tensor;

    return catalog->part_count != 0 && at >= begin &&
                   at < begin + catalog->part_count * sizeof *catalog->parts
               ? &catalog->parts[(at - begin) / sizeof *catalog->parts]
               : NULL;
}

size_t sft_catalog_index_of(const sft_catalog *catalog, const sft_tensor *tensor) {
    const sft__catalog_shown_part *part = part_of(catalog, tensor);
    return part != NULL ? part->of : (size_t)(tensor - catalog->tensors);
}

size_t sft_catalog_file_count(const sft_catalog *catalog) {
    return catalog->file_count;
}

const sft_file *sft_catalog_file_at(const sft_catalog *catalog, size_t index) {
    return index < catalog->file_count ? &catalog->files[index].info : NULL;
}

size_t sft_catalog_source_count(const sft_catalog *catalog) {
    return catalog->source_count;
}

const sft_source *sft_catalog_source_at(const sft_catalog *catalog, size_t index) {
    return index < catalog->source_count ? catalog->sources[index] : NULL;
}

size_t sft_catalog_metadata_count(const sft_catalog *catalog, size_t file) {
    return file < catalog->file_count ? catalog->files[file].metadata_count : 0;
}

sft_status sft_catalog_metadata_at(const sft_catalog *catalog, size_t file, size_t index,
                                   const char **key, size_t *key_len, const char **value,
                                   size_t *value_len) {
    if (index >= sft_catalog_metadata_count(catalog, file)) {
        return SFT_E_RANGE;
    }
    const sft_metadata_entry *entry = &catalog->files[file].metadata[index];
    if (key != NULL) {
        *key = entry->key;
    }
    if (key_len != NULL) {
        *key_len = entry->key_len;
    }
    if (value != NULL) {
        *value = entry->value;
    }
    if (value_len != NULL) {
        *value_len = entry->value_len;
    }
    return SFT_OK;
}

void sft__catalog_file_index(sft_catalog *catalog, sft__catalog_file *file) {
    enum { FEW = 256 };
    const size_t slots =
        file->metadata_count > FEW ? sft__base_strmap_slots(file->metadata_count) : 0;
    uint64_t *const room =
        slots != 0 ? sft__base_arena_alloc(&catalog->arena, slots * sizeof *room, sizeof *room)
                   : NULL;

    if (room == NULL) {
        return; /* entries are gone through, then */
    }
    sft__base_strmap_init_at(&file->keys, file->metadata, sizeof *file->metadata, room, slots);
    for (size_t i = 0; i < file->metadata_count; i++) {
        (void)sft__base_strmap_add(&file->keys, i); /* of a key given twice, the first */
    }
}

const char *sft_catalog_metadata_find(const sft_catalog *catalog, size_t file, const char *key,
                                      size_t key_len, size_t *value_len) {
    const size_t count = sft_catalog_metadata_count(catalog, file);
    const sft__base_strmap *const keys = count != 0 ? &catalog->files[file].keys : NULL;
    size_t i = 0;

    if (keys != NULL && keys->slots != NULL) {
        i = sft__base_strmap_find(keys, key != NULL ? key : "", key_len);
    }
    for (; i < count; i++) {
        const sft_metadata_entry *entry = &catalog->files[file].metadata[i];
        if (entry->key_len == key_len && (key_len == 0 || memcmp(entry->key, key, key_len) == 0)) {
            if (value_len != NULL) {
                *value_len = entry->value_len;
            }
            return entry->value;
        }
    }
    return NULL;
}

sft_status sft_catalog_can_cast(const sft_catalog *catalog, const sft_tensor *tensor,
                                sft_error *err) {
    if (tensor->dtype->id != SFT_U8 ||
        sft_catalog_metadata_find(catalog, tensor->file, "gguf.tensors", 12, NULL) == NULL) {
        return SFT_OK;
    }
    return SFT_FAIL_TENSOR(err, SFT_E_UNSUPPORTED, tensor,
                           "it is blocks of a quantised type, not numbers that could be cast: "
                           "--dequantize makes numbers of those of a GGUF file");
}

size_t sft_catalog_problem_count(const sft_catalog *catalog) {
    return catalog->problem_count;
}

const sft_problem *sft_catalog_problem_at(const sft_catalog *catalog, size_t index) {
    return index < catalog->problem_count ? &catalog->problems[index] : NULL;
}

size_t sft_catalog_alias_count(const sft_catalog *catalog) {
    return catalog->alias_count;
}

const char *sft_catalog_alias_at(const sft_catalog *catalog, size_t index, size_t *name_len,
                                 size_t *tensor_index) {
    if (index >= catalog->alias_count) {
        return NULL;
    }
    if (name_len != NULL) {
        *name_len = catalog->aliases[index].name_len;
    }
    if (tensor_index != NULL) {
        *tensor_index = catalog->aliases[index].tensor;
    }
    return catalog->aliases[index].name;
}

/* ---------------------------------------------------------------- what came with it */

sft_status sft_catalog_attach(sft_catalog *catalog, const char *key, void *object,
                              void (*drop)(void *object), sft_error *err) {
    sft__catalog_attachment *a =
        sft__base_arena_alloc(&catalog->arena, sizeof *a, _Alignof(sft__catalog_attachment));

    if (a == NULL) {
        return sft__catalog_arena_failed(&catalog->arena, sizeof *a, err);
    }
    *a = (sft__catalog_attachment){catalog->attached, key, object, drop};
    catalog->attached = a;
    return SFT_OK;
}

static sft__catalog_attachment *find(const sft_catalog *catalog, const char *key) {
    sft__catalog_attachment *a = catalog->attached;

    while (a != NULL && (a->object == NULL || strcmp(a->key, key) != 0)) {
        a = a->next;
    }
    return a;
}

void *sft_catalog_attached(const sft_catalog *catalog, const char *key) {
    const sft__catalog_attachment *a = find(catalog, key);
    return a != NULL ? a->object : NULL;
}

void *sft_catalog_detach(sft_catalog *catalog, const char *key) {
    sft__catalog_attachment *a = find(catalog, key);
    void *object = a != NULL ? a->object : NULL;

    if (a != NULL) {
        a->object = NULL;
    }
    return object;
}
