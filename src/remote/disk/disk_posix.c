/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/disk/disk_posix.c - see disk.h. Failures here are never errors: what cannot be kept is fetched
 * again.
 */
#include "remote/disk/disk.h"
#include <dirent.h>
#include <fcntl.h>
#include <sft/digest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_MAX_FILES = 32, NAME_LEN = 64, SWEEP_EVERY = 64 << 20 };
#define TABLE_MARK 0x53465442u

typedef struct opened {
    char name[NAME_LEN + 1]; /* "" : free */
    int blocks;
    int table;
    uint64_t used; /* the least goes first */
} opened;

struct sft__remote_disk {
    const sft_allocator *allocator;
    sft__base_mutex mutex;
    int folder;
    uint64_t limit;
    uint64_t clock;
    uint64_t unswept; /* bytes written since the folder was looked through */
    opened files[OPEN_MAX_FILES];
};

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name);
    const size_t m = strlen(end);
    return n == NAME_LEN + m && memcmp(name + NAME_LEN, end, m) == 0;
}

/* ---------------------------------------------------------------- the limit */

typedef struct found {
    char name[NAME_LEN + 16];
    uint64_t bytes;
    int64_t used;
} found;

static int older_first(const void *a, const void *b) {
    const found *x = a;
    const found *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

static void remove_oldest(const sft__remote_disk *d, found *list, size_t count, uint64_t total) {
    if (count > 1) { /* an empty list is NULL, which qsort must not get */
        qsort(list, count, sizeof *list, older_first);
    }
    for (size_t i = 0; i < count && total > d->limit; i++) {
        (void)unlinkat(d->folder, list[i].name, 0);
        memcpy(list[i].name + NAME_LEN, ".table", sizeof ".table");
        (void)unlinkat(d->folder, list[i].name, 0);
        total -= list[i].bytes;
    }
}

/* Only files of our own names are looked at or removed. */
static void sweep(sft__remote_disk *d) {
    const int fd = openat(d->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    found *list = NULL;
    size_t count = 0;
    size_t room = 0;
    uint64_t total = 0;

    d->unswept = 0;
    if (dir == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    while ((e = readdir(dir)) != NULL) {
        struct stat st;
        if (!ends_with(e->d_name, ".blocks") ||
            fstatat(d->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !sft__base_grow(d->allocator, &list, &room, count + 1, sizeof *list)) {
            continue;
        }
        memcpy(list[count].name, e->d_name, strlen(e->d_name) + 1);
        list[count].bytes = (uint64_t)st.st_blocks * 512;
        list[count].used = (int64_t)st.st_mtime;
        total += list[count++].bytes;
    }
    (void)closedir(dir);
    if (total > d->limit && count > 0) {
        remove_oldest(d, list, count, total);
    }
    sft__base_free(d->allocator, list, room * sizeof *list);
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
    (void)mkdir(folder, 0700);
    d->allocator = allocator;
    d->limit = bytes;
    d->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->folder < 0) {
        sft__base_mutex_reset(&d->mutex);
        sft__base_free(allocator, d, sizeof *d);
        return sft_error_set(err, SFT_E_IO, 0, SFT_NO_OFFSET, NULL, 0,
                             "the folder of the cache cannot be opened: %s", folder);
    }
    sweep(d);
    *out = d;
    return SFT_OK;
}

static void opened_close(opened *f) {
    if (f->name[0] != '\0') {
        (void)close(f->blocks);
        (void)close(f->table);
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
        (void)close(d->folder);
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
    char path[NAME_LEN + 16];

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
    (void)snprintf(path, sizeof path, "%s.blocks", name);
    f->blocks = openat(d->folder, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    (void)snprintf(path, sizeof path, "%s.table", name);
    f->table = openat(d->folder, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->blocks < 0 || f->table < 0) {
        if (f->blocks >= 0) {
            (void)close(f->blocks);
        }
        if (f->table >= 0) {
            (void)close(f->table);
        }
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
        pread(f->table, entry, sizeof entry, (off_t)(index * sizeof entry)) ==
            (ssize_t)sizeof entry &&
        entry[0] == TABLE_MARK &&
        pread(f->blocks, dst, size, (off_t)(index * SFT__BLOCK)) == (ssize_t)size) {
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
    if (f != NULL && pwrite(f->blocks, data, size, (off_t)(index * SFT__BLOCK)) == (ssize_t)size) {
        (void)!pwrite(f->table, entry, sizeof entry, (off_t)(index * sizeof entry));
        d->unswept += size;
        if (d->unswept >= SWEEP_EVERY) {
            sweep(d);
        }
    }
    sft__base_mutex_unlock(&d->mutex);
}
