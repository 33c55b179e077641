/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/disk/disk.c - see disk.h. Failures here are never errors: what cannot be kept is fetched
 * again.
 */
#include "remote/disk/disk.h"
#include "fs/output/entry.h"
#include <sft/digest.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX_FILES = 32, NAME_LEN = 64, SWEEP_EVERY = 64 << 20 };
#define TABLE_MARK 0x53465442u

typedef struct opened {
    char name[NAME_LEN + 1]; /* "" : free */
    sft__fs_handle blocks;
    sft__fs_handle table;
    uint64_t used; /* the least goes first */
} opened;

struct sft__remote_disk {
    const sft_allocator *allocator;
    sft__base_mutex mutex;
    sft__base_buf path; /* of the directory, absolute, with a / and room for a name */
    size_t path_len;    /* with the / */
    uint64_t limit;
    uint64_t clock;
    uint64_t unswept; /* bytes written since the folder was looked through */
    opened files[OPEN_MAX_FILES];
};

static const char blocks_end[] = ".blocks";
static const char table_end[] = ".table";

/* The path of NAME with that end, until the next call. */
static const char *path_of(sft__remote_disk *d, const char name[NAME_LEN], const char *end) {
    char *at = d->path.data + d->path_len;
    memcpy(at, name, NAME_LEN);
    memcpy(at + NAME_LEN, end, strlen(end) + 1);
    return d->path.data;
}

/* ---------------------------------------------------------------- the limit */

typedef struct found {
    char name[NAME_LEN];
    uint64_t bytes;
    int64_t used;
} found;

typedef struct sweeping {
    sft__remote_disk *disk;
    found *list;
    size_t count;
    size_t room;
    uint64_t total;
} sweeping;

static int older_first(const void *a, const void *b) {
    const found *x = a;
    const found *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* Only files of our own names are looked at or removed. */
static sft_status note_found(void *ctx, const char *name, size_t name_len, sft_error *err) {
    sweeping *s = ctx;
    sft__fs_stat st;

    (void)err;
    if (name_len == NAME_LEN + sizeof blocks_end - 1 &&
        memcmp(name + NAME_LEN, blocks_end, sizeof blocks_end) == 0) {
        const char *path = path_of(s->disk, name, blocks_end);
        if (!sft__fs_is_link(path) && sft__fs_look(path, &st, NULL) == SFT_OK && st.exists &&
            sft__base_grow(s->disk->allocator, &s->list, &s->room, s->count + 1, sizeof *s->list)) {
            found *f = &s->list[s->count++];
            memcpy(f->name, name, NAME_LEN);
            f->bytes = st.stored;
            f->used = st.mtime_ns;
            s->total += f->bytes;
        }
    }
    return SFT_OK;
}

static void sweep(sft__remote_disk *d) {
    sweeping s = {.disk = d};

    d->unswept = 0;
    d->path.data[d->path_len] = '\0';
    /* The list is read from the directory itself: its path is a buffer that path_of writes to. */
    (void)sft__fs_list(d->path.data, note_found, &s, NULL);
    if (s.total > d->limit && s.count > 1) {
        qsort(s.list, s.count, sizeof *s.list, older_first);
    }
    for (size_t i = 0; i < s.count && s.total > d->limit; i++) {
        (void)sft__fs_remove(path_of(d, s.list[i].name, blocks_end), NULL);
        (void)sft__fs_remove(path_of(d, s.list[i].name, table_end), NULL);
        s.total -= s.list[i].bytes;
    }
    sft__base_free(d->allocator, s.list, s.room * sizeof *s.list);
}

/* ---------------------------------------------------------------- life */

sft_status sft__remote_disk_open(sft__remote_disk **out, const char *folder, uint64_t bytes,
                                 const sft_allocator *allocator, sft_error *err) {
    sft__remote_disk *d = sft__base_alloc_zero(allocator, sizeof *d);

    *out = NULL;
    if (d == NULL || !sft__base_mutex_init(&d->mutex)) {
        sft__base_free(allocator, d, sizeof *d);
        return sft__remote_no_memory(err, sizeof *d);
    }
    d->allocator = allocator;
    d->limit = bytes;
    sft__base_buf_init(&d->path, allocator);
    (void)sft__fs_make_directory_private(folder, NULL);
    if (!sft__fs_is_directory(folder) || !sft__fs_real(folder, &d->path) ||
        !sft__base_buf_reserve(&d->path, 1 + NAME_LEN + sizeof blocks_end)) {
        sft__remote_disk_close(d);
        return sft_error_set(err, SFT_E_IO, 0, SFT_NO_OFFSET, NULL, 0,
                             "the directory of the cache cannot be opened: %s", folder);
    }
    d->path_len = d->path.len; /* its NUL becomes the / */
    d->path.data[d->path_len - 1] = '/';
    sweep(d);
    *out = d;
    return SFT_OK;
}

static void opened_close(opened *f) {
    if (f->name[0] != '\0') {
        sft__fs_close(f->blocks);
        sft__fs_close(f->table);
        f->name[0] = '\0';
    }
}

void sft__remote_disk_close(sft__remote_disk *d) {
    if (d != NULL) {
        for (size_t i = 0; i < OPEN_MAX_FILES; i++) {
            opened_close(&d->files[i]);
        }
        if (d->unswept != 0) {
            sweep(d);
        }
        sft__base_buf_reset(&d->path);
        sft__base_mutex_reset(&d->mutex);
        sft__base_free(d->allocator, d, sizeof *d);
    }
}

/* ---------------------------------------------------------------- files */

/* False: nothing tells this version of the file from another. */
static bool name_of(const sft__remote_object *object, char name[NAME_LEN + 1]) {
    const char *version = object->etag[0] != '\0' ? object->etag : object->modified;
    const uint64_t size = object->size;
    uint8_t digest[32];
    sft_sha256 s;

    sft_sha256_init(&s);
    sft_sha256_update(&s, object->stable, object->stable_size);
    sft_sha256_update(&s, version, strlen(version) + 1);
    sft_sha256_update(&s, &size, sizeof size);
    sft_sha256_final(&s, digest);
    sft__base_hex(name, digest, sizeof digest);
    name[NAME_LEN] = '\0';
    return version[0] != '\0';
}

static opened *least_used(sft__remote_disk *d) {
    opened *f = &d->files[0];
    for (size_t i = 0; i < OPEN_MAX_FILES; i++) {
        if (d->files[i].name[0] == '\0') {
            return &d->files[i];
        }
        f = d->files[i].used < f->used ? &d->files[i] : f;
    }
    opened_close(f);
    return f;
}

static opened *file_of(sft__remote_disk *d, const sft__remote_object *object) {
    char name[NAME_LEN + 1];

    if (!name_of(object, name)) {
        return NULL;
    }
    for (size_t i = 0; i < OPEN_MAX_FILES; i++) {
        if (strcmp(d->files[i].name, name) == 0) {
            d->files[i].used = ++d->clock;
            return &d->files[i];
        }
    }
    opened *f = least_used(d);
    if (sft__fs_create_private(path_of(d, name, blocks_end), &f->blocks, NULL) != SFT_OK) {
        return NULL;
    }
    if (sft__fs_create_private(path_of(d, name, table_end), &f->table, NULL) != SFT_OK) {
        sft__fs_close(f->blocks);
        return NULL;
    }
    memcpy(f->name, name, sizeof name);
    f->used = ++d->clock;
    return f;
}

bool sft__remote_disk_get(sft__remote_disk *d, const sft__remote_object *object, uint64_t index,
                          uint8_t *dst, size_t size) {
    uint32_t entry[2];
    bool good = false;

    sft__base_mutex_lock(&d->mutex);
    const opened *f = file_of(d, object);
    if (f != NULL &&
        sft__fs_read_at(f->table, f->name, index * sizeof entry, entry, sizeof entry, NULL) ==
            SFT_OK &&
        entry[0] == TABLE_MARK &&
        sft__fs_read_at(f->blocks, f->name, index * SFT__BLOCK, dst, size, NULL) == SFT_OK) {
        good = sft_crc32c(0, dst, size) == entry[1];
    }
    sft__base_mutex_unlock(&d->mutex);
    return good;
}

void sft__remote_disk_put(sft__remote_disk *d, const sft__remote_object *object, uint64_t index,
                          const uint8_t *data, size_t size) {
    const uint32_t entry[2] = {TABLE_MARK, sft_crc32c(0, data, size)};

    sft__base_mutex_lock(&d->mutex);
    const opened *f = file_of(d, object);
    if (f != NULL &&
        sft__fs_write_at(f->blocks, f->name, index * SFT__BLOCK, data, size, NULL) == SFT_OK) {
        (void)sft__fs_write_at(f->table, f->name, index * sizeof entry, entry, sizeof entry, NULL);
        d->unswept += size;
        if (d->unswept >= SWEEP_EVERY) {
            sweep(d);
        }
    }
    sft__base_mutex_unlock(&d->mutex);
}
