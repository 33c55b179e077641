/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/extend.h - for those who write a source or a reader of another format. Nothing private is needed:
 * examples/own_source.c.
 */
#ifndef SFT_EXTEND_H
#define SFT_EXTEND_H

#include <sft/read.h>
#include <sft/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- sources */

#define SFT_SOURCE_SEQUENTIAL                                                                      \
    1u /* ascending reads are much cheaper (inflater, pipe): moves are sorted */
#define SFT_SOURCE_REMOTE 2u /* a read costs a round trip: small gaps are read over generously */
#define SFT_SOURCE_SCATTERED                                                                       \
    8u /* read_many gets many short ranges for little more than their bytes: it is
                                  * asked for what is wanted and decides itself which gaps to read over */
#define SFT_SOURCE_MEMORY                                                                          \
    4u /* borrow lends plain memory (no mapping of a file): reads copy from it */

/* All functions may be called from several threads at once, close excepted. */
typedef struct sft_source_vtable {
    size_t struct_size;
    /* All `size` bytes at `offset`, or an error (err, never NULL, filled with sft_error_set).
     * offset + size <= the source's size and size > 0 are assured. */
    sft_status (*read_at)(void *self, uint64_t offset, void *dst, size_t size, sft_error *err);
    /* NULL: done by read_at, one after the other. Otherwise as sft_source_read_many; `done` is never NULL
     * and must be called exactly once per range. */
    sft_status (*read_many)(void *self, const sft_io_batch *batch, sft_error *err);
    /* NULL: cannot lend memory. */
    sft_status (*borrow)(void *self, uint64_t offset, size_t size, const void **data,
                         sft_error *err);
    void (*advise)(void *self, uint64_t offset, uint64_t size, sft_advice advice); /* may be NULL */
    /* The descriptor behind it, positions equal to the source's, for copies inside the kernel; -1 or a
     * NULL function: none. */
    int (*descriptor)(void *self);
    void (*close)(void *self); /* called exactly once; may be NULL */
    /* A number for what identifies the version of the bytes (an ETag, a generation), the same in every
     * process and as long as they are the same; 0, or a NULL function: nothing does. */
    uint64_t (*version)(void *self);
} sft_source_vtable;

/* What a source is. What comes later goes into the vtable, which knows its size. */
typedef struct sft_source_info {
    uint64_t size;
    uint32_t flags;                 /* SFT_SOURCE_... */
    const char *name;               /* for messages; copied. NULL: "source" */
    const sft_allocator *allocator; /* of the source; NULL: the C library's */
} sft_source_info;

/* The vtable is copied. self belongs to the source from here on if this succeeds. */
SFT_API SFT_MUST_CHECK sft_status sft_source_create(sft_source **out,
                                                    const sft_source_vtable *vtable, void *self,
                                                    const sft_source_info *info, sft_error *err);
SFT_API uint32_t sft_source_flags(const sft_source *source);
SFT_API int sft_source_descriptor(const sft_source *source); /* -1: none */
SFT_API uint64_t
sft_source_version(const sft_source *source); /* 0: not known. Files have stamps instead */

/* ---------------------------------------------------------------- models without a directory */

/* The files of a model that lie behind URLs, in an archive, in a store ... */
typedef struct sft_model_files {
    size_t struct_size;
    /* an *.index.json, borrowed for the call; NULL: the files are those in `names` */
    sft_source *index;
    /* without an index: *.safetensors, relative, "/" between directories */
    const char *const *names;
    size_t name_count;
    /* Opens `count` files, all at once: with an index those that it names, in byte order. Every name was
     * checked: relative, no "..", no drive, no backslash. sources: all NULL; fill in one for each file that
     * is there, NULL means missing. Those filled in are taken over, even if this fails. What is read next
     * of each file is its header: 8 bytes, a length N (little-endian), and the N bytes behind them, in the
     * order of `names`; a source that costs a round trip a read may have them ready. */
    sft_status (*open)(void *ctx, const char *const *names, size_t count, sft_source **sources,
                       sft_error *err);
    void *ctx;
} sft_model_files;

/* One catalog over them, by the rules of sft_catalog_open for an index, or for a directory without one; no
 * orphan files are looked for. Files' paths are the names of their sources. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_open_model(sft_catalog **out,
                                                         const sft_model_files *files,
                                                         const sft_open_options *options,
                                                         sft_error *err);

/* ---------------------------------------------------------------- catalogs of other formats */

typedef struct sft_builder sft_builder;

SFT_API SFT_MUST_CHECK sft_status sft_builder_create(sft_builder **out,
                                                     const sft_open_options *options,
                                                     sft_error *err);
/* Takes the source over in every case. */
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_source(sft_builder *builder, sft_source *source,
                                                         uint32_t *index, sft_error *err);
/* path and numbers are copied; tensor_count is counted by the builder. */
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_file(sft_builder *builder, const sft_file *file,
                                                       uint32_t *index, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_metadata(sft_builder *builder, uint32_t file,
                                                           const sft_metadata_entry *entry,
                                                           sft_error *err);
/* Tensors keep the order in which they are added. nbytes of the tensor and of its pieces: 0, or what is
 * found by calculation (else SFT_E_SIZE). A strided piece needs elements of whole bytes.
 * Everything is copied except the dtype descriptor, which must outlive the catalog. Checked: shape and
 * dtype give nbytes (the field is filled in), every piece lies inside its source, boxes inside the shape,
 * names are new (SFT_E_DUPLICATE). */
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_tensor(sft_builder *builder,
                                                         const sft_tensor *tensor, sft_error *err);
/* `name` is another name of the tensor called `of` (added before). */
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_alias(sft_builder *builder, const char *name,
                                                        size_t name_len, const char *of,
                                                        size_t of_len, sft_error *err);
/* part->name is another name of a part of the tensor called `of` (added before, in one packed piece): one
 * piece of the same source inside of its bytes. `file` is that of the tensor. */
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_part(sft_builder *builder, const sft_tensor *part,
                                                       const char *of, size_t of_len,
                                                       sft_error *err);
/* What the catalog is to report beside its tensors: kind (sft_problem_kind), what it is about, and
 * one printable sentence; both are copied. Not fatal. */
SFT_API SFT_MUST_CHECK sft_status sft_builder_add_problem(sft_builder *builder, uint32_t kind,
                                                          const char *subject, size_t subject_len,
                                                          const char *message, sft_error *err);
/* Makes the catalog; the builder is left empty, free it. */
SFT_API SFT_MUST_CHECK sft_status sft_builder_finish(sft_catalog **out, sft_builder *builder,
                                                     sft_error *err);
SFT_API void sft_builder_free(sft_builder *builder); /* NULL is fine */

/* ---------------------------------------------------------------- memory that the processor does not
 * reach */

/* Copies out of a device's memory: what <sft/run.h> stages tensors with (sft_cuda_copier in <sft/cuda.h>).
 * All functions are called from one thread at a time. */
typedef struct sft_copier {
    size_t struct_size;
    /* Copies, or begins to copy, `size` bytes at the device's `address` to dst. */
    sft_status (*copy)(void *ctx, void *dst, uint64_t address, size_t size, sft_error *err);
    /* All copies begun have arrived: called after them, also when one of them failed. NULL: copy does it
     * all. */
    sft_status (*finish)(void *ctx, sft_error *err);
    /* Memory that copies are fast to (pinned), at a multiple of 4,096; NULL is no error: ordinary memory is
     * taken then. Both NULL: ordinary memory. */
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *ptr, size_t size);
    void *ctx; /* must outlive whatever the copier was given to */
} sft_copier;

/* Runs fn(ctx, i) for every i < count on the pool's workers (NULL pool: in the calling thread). Returns
 * when all are done. fn must not call sft_pool_run on the same pool. */
SFT_API void sft_pool_run(const sft_pool *pool, size_t count, void (*fn)(void *ctx, size_t index),
                          void *ctx);

/* For those who write a file that is to replace the one at `path` (a link is followed; nothing there, or no
 * regular file: nothing is done): gives the open file that one's permission bits and, as far as the system
 * lets this process, its owner, access control list and extended attributes. Not those that the system or
 * its policy sets (security.*), nor what describes the bytes of an overlay. SFT_E_IO: the permission bits
 * cannot be set. On Windows nothing is done: a replaced file's list is kept there by the system, or not. */
SFT_API SFT_MUST_CHECK sft_status sft_file_keep(int fd, const char *path, sft_error *err);

/* For those who write a model of several files, which appear one after the other, the one at `index` last:
 * the index that readers begin with, or a layout.json. begin: all files are written, none has its name yet;
 * leaves a file .INDEX.sft-half beside it, then removes an older index, so that until the new one is in
 * place nobody takes what lies there for a model: opening the directory is SFT_E_CHANGED. end: the new
 * index is in place, or the older files are all there still (then give back their index first). durable:
 * the directory is flushed in between. */
SFT_API SFT_MUST_CHECK sft_status sft_model_begin(const char *index, int durable, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_model_end(const char *index, sft_error *err);
/* SFT_E_CHANGED if a model whose files are in `directory`, or were to be, is half written or half replaced:
 * there is a file .NAME.sft-half, and no NAME. */
SFT_API SFT_MUST_CHECK sft_status sft_model_check(const char *directory, sft_error *err);

#if defined(__MINGW32__)
#define SFT_FORMAT(text, first)                                                                    \
    __attribute__((format(gnu_printf, text, first))) /* %zu there, too */
#elif defined(__GNUC__)
#define SFT_FORMAT(text, first) __attribute__((format(printf, text, first)))
#else
#define SFT_FORMAT(text, first)
#endif
/* Fill an error record (err may be NULL) and return status: printf-like, message escaped and truncated. sys:
 * errno, HTTP status ... or 0. */
SFT_API sft_status sft_error_set(sft_error *err, sft_status status, int32_t sys, const char *format,
                                 ...) SFT_FORMAT(4, 5);
/* With the place: an absolute offset, or SFT_NO_OFFSET, and a tensor, or NULL. */
SFT_API sft_status sft_error_at(sft_error *err, sft_status status, uint64_t offset,
                                const char *tensor, size_t tensor_len, const char *format, ...)
    SFT_FORMAT(6, 7);
/* With cause and place of another record, which is not `err`. */
SFT_API sft_status sft_error_from(sft_error *err, sft_status status, const sft_error *why,
                                  const char *format, ...) SFT_FORMAT(4, 5);
#undef SFT_FORMAT

/* Makes text safe to print: control characters, bidirectional overrides, zero-width and other invisible
 * characters, line separators and bytes that are not UTF-8 become \n, \t, \x1b, \u202e ...; a backslash
 * becomes \\. Cut at a whole character with "..." if it does not fit; 4 * len + 8 bytes always do. dst is
 * NUL-terminated. cap: at least 8. Returns the length written. Pure, thread-safe. */
SFT_API size_t sft_escape(char *dst, size_t cap, const char *src, size_t len);

#ifdef __cplusplus
}
#endif
#endif
