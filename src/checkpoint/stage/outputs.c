/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/outputs.c - see outputs.h.
 */
#include "checkpoint/stage/outputs.h"
#include "base/memory/need.h"
#include "fs/copy.h"
#include <errno.h>

enum { MOST_OPEN = 256 };

sft_status sft__checkpoint_outputs_init(sft__checkpoint_outputs *o,
                                        const sft__checkpoint_stage *stage, sft_error *err) {
    memset(o, 0, sizeof *o);
    o->stage = stage;
    o->files = sft__base_alloc_zero(stage->allocator, (stage->job->count + 1) * sizeof *o->files);
    SFT_NEED(o->files != NULL, (stage->job->count + 1) * sizeof *o->files, err);
    o->count = stage->job->count;
    for (size_t i = 0; i < o->count; i++) {
        o->files[i].disk = SFT__FS_NO_HANDLE;
    }
    o->locked = sft__base_mutex_init(&o->lock);
    return o->locked ? SFT_OK : sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
}

void sft__checkpoint_outputs_reset(sft__checkpoint_outputs *o) {
    for (size_t i = 0; i < o->count; i++) {
        sft__fs_close(o->files[i].disk);
    }
    if (o->files != NULL) {
        sft__base_free(o->stage->allocator, o->files, (o->count + 1) * sizeof *o->files);
    }
    if (o->locked) {
        sft__base_mutex_reset(&o->lock);
    }
    memset(o, 0, sizeof *o);
}

/* Lock held. False: all are in use. */
static bool close_one(sft__checkpoint_outputs *o) {
    for (size_t i = 0; i < o->count; i++) {
        sft__checkpoint_output *const f = &o->files[o->hand];
        o->hand = (o->hand + 1) % o->count;
        if (f->disk != SFT__FS_NO_HANDLE && f->users == 0) {
            sft__fs_close(f->disk);
            f->disk = SFT__FS_NO_HANDLE;
            o->open--;
            return true;
        }
    }
    return false;
}

/* Lock held. */
static sft_status open_file(sft__checkpoint_outputs *o, size_t file, sft_error *err) {
    const sft__checkpoint_job_file *const f = &o->stage->job->files[file];
    sft__checkpoint_output *const out = &o->files[file];
    sft__base_buf path;
    sft_error why;
    if (out->disk != SFT__FS_NO_HANDLE) {
        return SFT_OK;
    }
    if (o->open >= MOST_OPEN) {
        (void)close_one(o);
    }
    sft__base_buf_init(&path, o->stage->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, o->stage->directory, f->given.name, err);
    if (status == SFT_OK && !out->made) {
        status = sft__checkpoint_stage_parents(o->stage, o->stage->directory, f->given.name, err);
    }
    if (status == SFT_OK) {
        status = sft__fs_staged_open(path.data, &out->disk, &why);
        while (status != SFT_OK && why.sys == EMFILE && close_one(o)) {
            status = sft__fs_staged_open(path.data, &out->disk, &why);
        }
        if (status != SFT_OK && err != NULL) {
            *err = why;
        }
    }
    if (status == SFT_OK) {
        o->open++;
        if (!out->made) {
            status = sft__fs_reserve(out->disk, path.data, f->size, err);
            out->made = status == SFT_OK;
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status get(sft__checkpoint_outputs *o, size_t file, bool dirty, sft__fs_handle *disk,
                      sft_error *err) {
    sft__base_mutex_lock(&o->lock);
    const sft_status status = open_file(o, file, err);
    if (status == SFT_OK) {
        o->files[file].users++;
        o->files[file].dirty = o->files[file].dirty || dirty;
        *disk = o->files[file].disk;
    }
    sft__base_mutex_unlock(&o->lock);
    return status;
}

static void put(sft__checkpoint_outputs *o, size_t file) {
    sft__base_mutex_lock(&o->lock);
    o->files[file].users--;
    sft__base_mutex_unlock(&o->lock);
}

void sft__checkpoint_outputs_close(sft__checkpoint_outputs *o) {
    sft__base_mutex_lock(&o->lock);
    while (o->open > 0 && close_one(o)) {
    }
    sft__base_mutex_unlock(&o->lock);
}

sft_status sft__checkpoint_outputs_reserve(sft__checkpoint_outputs *o, sft_error *err) {
    for (size_t i = 0; i < o->count; i++) {
        sft__fs_handle disk;
        SFT_TRY(get(o, i, false, &disk, err));
        put(o, i);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_outputs_write(sft__checkpoint_outputs *o, size_t file, uint64_t offset,
                                         const void *data, size_t size, sft_error *err) {
    sft__fs_handle disk;
    SFT_TRY(get(o, file, true, &disk, err));
    const sft_status status =
        sft__fs_write_at(disk, o->stage->job->files[file].given.name, offset, data, size, err);
    put(o, file);
    return status;
}

sft_status sft__checkpoint_outputs_copy(sft__checkpoint_outputs *o, sft__checkpoint_range to,
                                        int fd, uint64_t from, uint64_t *moved, sft_error *err) {
    const char *const name = o->stage->job->files[to.file].given.name;
    sft__fs_handle disk;
    *moved = 0;
    SFT_TRY(get(o, to.file, true, &disk, err));
    const sft__fs_copy copy = {.src = fd,
                               .src_offset = from,
                               .dst = disk,
                               .dst_name = name,
                               .dst_offset = to.offset,
                               .size = to.size};
    const sft_status status = sft__fs_copy_cheaply(&copy, moved, err);
    put(o, to.file);
    return status;
}

sft_status sft__checkpoint_outputs_read(sft__checkpoint_outputs *o, size_t file, uint64_t offset,
                                        void *data, size_t size, sft_error *err) {
    sft__fs_handle disk;
    SFT_TRY(get(o, file, false, &disk, err));
    const sft_status status =
        sft__fs_read_at(disk, o->stage->job->files[file].given.name, offset, data, size, err);
    put(o, file);
    return status;
}

void sft__checkpoint_outputs_soon(sft__checkpoint_outputs *o, size_t file, uint64_t offset,
                                  uint64_t size) {
    sft__fs_handle disk;
    if (get(o, file, false, &disk, NULL) == SFT_OK) {
        sft__fs_sync_soon(disk, offset, size);
        put(o, file);
    }
}

sft_status sft__checkpoint_outputs_sync(sft__checkpoint_outputs *o, sft_error *err) {
    for (size_t i = 0; i < o->count; i++) {
        sft__fs_handle disk;
        sft__base_mutex_lock(&o->lock);
        const bool dirty = o->files[i].dirty;
        o->files[i].dirty = false;
        sft__base_mutex_unlock(&o->lock);
        if (dirty) {
            SFT_TRY(get(o, i, false, &disk, err));
            const sft_status status = sft__fs_sync(disk, o->stage->job->files[i].given.name, err);
            put(o, i);
            SFT_TRY(status);
        }
    }
    return SFT_OK;
}

/* The file's entry in its directory, and that one's. */
static sft_status sync_parents(sft__checkpoint_outputs *o, size_t file, sft_error *err) {
    const char *const name = o->stage->job->files[file].given.name;
    sft_error why;
    sft_status status = sft__checkpoint_stage_sync_parents(o->stage, name, &why);
    for (bool closed = true; status != SFT_OK && why.sys == EMFILE && closed;) {
        sft__base_mutex_lock(&o->lock);
        closed = close_one(o);
        sft__base_mutex_unlock(&o->lock);
        status = closed ? sft__checkpoint_stage_sync_parents(o->stage, name, &why) : status;
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

sft_status sft__checkpoint_outputs_finish(sft__checkpoint_outputs *o, size_t file, bool sync,
                                          sft_error *err) {
    sft_status status = SFT_OK;
    sft__fs_handle disk;
    SFT_TRY(get(o, file, false, &disk, err));
    if (sync) {
        status = sft__fs_sync(disk, o->stage->job->files[file].given.name, err);
    }
    sft__base_mutex_lock(&o->lock);
    if (--o->files[file].users == 0) {
        sft__fs_close(disk);
        o->files[file].disk = SFT__FS_NO_HANDLE;
        o->open--;
    }
    sft__base_mutex_unlock(&o->lock);
    return status == SFT_OK && sync ? sync_parents(o, file, err) : status;
}
