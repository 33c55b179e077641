/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/target.c - where results go: caller's memory, an open file, a stream, or the user's own
 * vtable. Checks ranges once, so that no implementation has to.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/thread.h"
#include "fs/copy.h"
#include "io/target.h"

struct sft_target {
    sft_target_vtable vtable;
    void *self;
    uint64_t size;
    const sft_allocator *allocator;
    uint32_t flags;
    char *name;
    size_t name_size;
};

sft_status sft_target_create(sft_target **out, const sft_target_vtable *vtable, void *self,
                             uint64_t size, uint32_t flags, const char *name,
                             const sft_allocator *allocator, sft_error *err) {
    const size_t known = sizeof(sft_target_vtable);
    sft_target *t;

    if (out == NULL) {
        return sft__fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    if (vtable == NULL || vtable->struct_size < offsetof(sft_target_vtable, write_many) ||
        vtable->write_at == NULL) {
        return sft__fail(err, SFT_E_ARG,
                         "the target's vtable has no write_at, or its struct_size is not set");
    }
    t = sft__alloc_zero(allocator, sizeof *t);
    if (t == NULL) {
        return sft__fail_nomem(err, sizeof *t);
    }
    name = name == NULL ? "target" : name;
    t->name_size = strlen(name) + 1;
    t->name = sft__alloc(allocator, t->name_size);
    if (t->name == NULL) {
        const size_t size_wanted = t->name_size;
        sft__free(allocator, t, sizeof *t);
        return sft__fail_nomem(err, size_wanted);
    }
    memcpy(t->name, name, t->name_size);
    /* an older caller's table is shorter: what it lacks is absent */
    memcpy(&t->vtable, vtable, vtable->struct_size < known ? vtable->struct_size : known);
    t->self = self;
    t->size = size;
    t->flags = flags;
    t->allocator = allocator;
    *out = t;
    return SFT_OK;
}

void sft_target_close(sft_target *target) {
    if (target == NULL) {
        return;
    }
    if (target->vtable.close != NULL) {
        target->vtable.close(target->self);
    }
    sft__free(target->allocator, target->name, target->name_size);
    sft__free(target->allocator, target, sizeof *target);
}

uint64_t sft_target_size(const sft_target *target) {
    return target->size;
}

uint32_t sft_target_flags(const sft_target *target) {
    return target->flags;
}

const char *sft_target_name(const sft_target *target) {
    return target->name;
}

int sft_target_descriptor(const sft_target *target) {
    return target->vtable.descriptor == NULL ? -1 : target->vtable.descriptor(target->self);
}

static sft_status check_range(const sft_target *t, uint64_t offset, uint64_t size, sft_error *err) {
    if (offset > t->size || size > t->size - offset) {
        return sft__fail_at(err, SFT_E_RANGE, offset,
                            "%llu bytes at %llu do not fit into \"%s\" of %llu bytes",
                            (unsigned long long)size, (unsigned long long)offset, t->name,
                            (unsigned long long)t->size);
    }
    return SFT_OK;
}

/* A user's write_at gets a record in any case, and may fail without filling it. */
static sft_status write_checked(sft_target *target, uint64_t offset, const void *data, size_t size,
                                sft_error *err) {
    sft_error e;
    e.status = SFT_OK;
    const sft_status status = target->vtable.write_at(target->self, offset, data, size, &e);
    if (status == SFT_OK || err == NULL) {
        return status;
    }
    if (e.status != (int32_t)status) {
        return sft__fail_at(err, status, offset, "\"%s\" could not be written: %s", target->name,
                            sft_status_text(status));
    }
    *err = e;
    return status;
}

sft_status sft_target_write(sft_target *target, uint64_t offset, const void *data, size_t size,
                            sft_error *err) {
    SFT_TRY(check_range(target, offset, size, err));
    return size == 0 ? SFT_OK : write_checked(target, offset, data, size, err);
}

static void no_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    (void)ctx;
    (void)index;
    (void)status;
    (void)err;
}

/* One after the other. What comes behind a failure is not tried, but told as ended. */
static sft_status write_each(sft_target *t, const sft_io_range *ranges, size_t count,
                             sft_io_done done, void *done_ctx, const sft_control *control,
                             sft_error *err) {
    sft_progress progress = {0, 0};
    sft_error first;
    sft_status st = SFT_OK;

    for (size_t i = 0; i < count; i++) {
        progress.bytes_total += ranges[i].size;
    }
    for (size_t i = 0; i < count; i++) {
        if (st == SFT_OK && control != NULL && control->poll != NULL &&
            control->poll(control->ctx, &progress) != 0) {
            st = sft__fail(&first, SFT_E_CANCELLED, "cancelled by the caller");
        }
        if (st == SFT_OK) {
            st = sft_target_write(t, ranges[i].offset, ranges[i].data, ranges[i].size, &first);
            progress.bytes_done += ranges[i].size;
        }
        done(done_ctx, i, st, st == SFT_OK ? NULL : &first);
    }
    if (st != SFT_OK && err != NULL) {
        *err = first;
    }
    return st;
}

sft_status sft_target_write_many(sft_target *target, const sft_io_range *ranges, size_t count,
                                 sft_io_done done, void *done_ctx, const sft_control *control,
                                 sft_error *err) {
    done = done == NULL ? no_done : done;
    if (target->vtable.write_many == NULL) {
        return write_each(target, ranges, count, done, done_ctx, control, err);
    }
    for (size_t i = 0; i < count; i++) {
        sft_error record;
        const sft_status st = check_range(target, ranges[i].offset, ranges[i].size, &record);
        if (st != SFT_OK) {
            for (size_t k = 0; k < count; k++) {
                done(done_ctx, k, st, &record);
            }
            if (err != NULL) {
                *err = record;
            }
            return st;
        }
    }
    return target->vtable.write_many(target->self, ranges, count, done, done_ctx, control, err);
}

sft_status sft_target_borrow(sft_target *target, uint64_t offset, size_t size, void **data,
                             sft_error *err) {
    *data = NULL;
    if (target->vtable.borrow == NULL) {
        return sft__fail(err, SFT_E_UNSUPPORTED, "\"%s\" has no memory to lend", target->name);
    }
    SFT_TRY(check_range(target, offset, size, err));
    return target->vtable.borrow(target->self, offset, size, data, err);
}

/* ---------------------------------------------------------------- memory */

static sft_status memory_write(void *self, uint64_t offset, const void *data, size_t size,
                               sft_error *err) {
    (void)err;
    memcpy((uint8_t *)self + (size_t)offset, data,
           size); /* offset + size <= size of the memory: checked */
    return SFT_OK;
}

static sft_status memory_borrow(void *self, uint64_t offset, size_t size, void **data,
                                sft_error *err) {
    (void)size;
    (void)err;
    *data = (uint8_t *)self + (size_t)offset;
    return SFT_OK;
}

sft_status sft_target_open_memory(sft_target **out, void *data, size_t size,
                                  const sft_allocator *allocator, sft_error *err) {
    sft_target_vtable vtable;
    SFT_INIT(&vtable);
    vtable.write_at = memory_write;
    vtable.borrow = memory_borrow;
    return sft_target_create(out, &vtable, data, size, 0, "memory", allocator, err);
}

/* ---------------------------------------------------------------- descriptors */

typedef struct fd_target {
    const sft_allocator *allocator;
    int fd;
    sft__fs_handle file;
    sft__fs_stream stream;
    sft__mutex lock;
    uint64_t position; /* of a stream: bytes written so far */
} fd_target;

static sft_status file_write(void *self, uint64_t offset, const void *data, size_t size,
                             sft_error *err) {
    const fd_target *t = self;
    return sft__fs_write_at(t->file, "descriptor", offset, data, size, err);
}

static sft_status stream_write(void *self, uint64_t offset, const void *data, size_t size,
                               sft_error *err) {
    fd_target *t = self;
    const sft__fs_span part = {data, size};
    sft_status st;

    sft__mutex_lock(&t->lock);
    if (offset != t->position) {
        st = sft__fail_at(err, SFT_E_STATE, offset,
                          "a stream at byte %llu cannot take bytes of %llu",
                          (unsigned long long)t->position, (unsigned long long)offset);
    } else {
        st = sft__fs_stream_write(&t->stream, &part, 1, err);
        t->position += st == SFT_OK ? size : 0;
    }
    sft__mutex_unlock(&t->lock);
    return st;
}

static int fd_descriptor(void *self) {
    return ((fd_target *)self)->fd;
}

static void fd_close(void *self) {
    fd_target *t = self;
    sft__mutex_reset(&t->lock);
    sft__free(t->allocator, t, sizeof *t);
}

static sft_status fd_open(sft_target **out, fd_target *shape, sft_target_vtable *vtable,
                          uint32_t flags, const char *name, sft_error *err) {
    const sft_allocator *allocator = shape->allocator;
    fd_target *t = sft__alloc(allocator, sizeof *t);
    sft_status st;

    if (t == NULL) {
        return sft__fail_nomem(err, sizeof *t);
    }
    *t = *shape;
    if (!sft__mutex_init(&t->lock)) {
        sft__free(allocator, t, sizeof *t);
        return sft__fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    vtable->close = fd_close;
    st = sft_target_create(out, vtable, t, UINT64_MAX, flags, name, allocator, err);
    if (st != SFT_OK) {
        fd_close(t);
    }
    return st;
}

sft_status sft_target_open_fd(sft_target **out, int fd, const sft_allocator *allocator,
                              sft_error *err) {
    sft_target_vtable vtable;
    fd_target shape;

    *out = NULL;
    memset(&shape, 0, sizeof shape);
    shape.allocator = allocator;
    shape.fd = fd;
    SFT_TRY(sft__fs_stream_file(fd, &shape.file, err));
    SFT_INIT(&vtable);
    vtable.write_at = file_write;
    vtable.descriptor = fd_descriptor;
    return fd_open(out, &shape, &vtable, 0, "descriptor", err);
}

/* Has no descriptor to give: what somebody else wrote there would not be counted. */
sft_status sft_target_open_stream(sft_target **out, int fd, const sft_allocator *allocator,
                                  sft_error *err) {
    sft_target_vtable vtable;
    fd_target shape;

    *out = NULL;
    memset(&shape, 0, sizeof shape);
    shape.allocator = allocator;
    shape.fd = fd;
    SFT_TRY(sft__fs_stream_init(&shape.stream, fd, err));
    SFT_INIT(&vtable);
    vtable.write_at = stream_write;
    return fd_open(out, &shape, &vtable, SFT_TARGET_ORDERED, "stream", err);
}

sft_status sft__target_copy(sft_target *target, uint64_t offset, int src_fd, const char *src_name,
                            uint64_t src_offset, uint64_t size, sft__meter *meter, sft_error *err) {
    const bool file = target->vtable.write_at == file_write;
    fd_target *t = target->self;
    sft__fs_copy copy;
    sft_status st;

    if (!file && target->vtable.write_at != stream_write) {
        return sft__fail(err, SFT_E_UNSUPPORTED, "\"%s\" is no descriptor of this library",
                         target->name);
    }
    memset(&copy, 0, sizeof copy);
    SFT_TRY(sft__fs_stream_file(src_fd, &copy.src, err));
    copy.src_name = src_name;
    copy.src_offset = src_offset;
    copy.dst = t->file;
    copy.dst_name = target->name;
    copy.dst_offset = offset;
    copy.size = size;
    copy.allocator = target->allocator;
    copy.meter = meter;
    if (file) {
        return sft__fs_copy_range(&copy, err);
    }
    copy.stream = &t->stream;
    sft__mutex_lock(&t->lock);
    if (offset != t->position) {
        st = sft__fail_at(err, SFT_E_STATE, offset,
                          "a stream at byte %llu cannot take bytes of %llu",
                          (unsigned long long)t->position, (unsigned long long)offset);
    } else {
        st = sft__fs_copy_range(&copy, err);
        t->position += st == SFT_OK ? size : 0;
    }
    sft__mutex_unlock(&t->lock);
    return st;
}
