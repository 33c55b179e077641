/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/cuda.h - tensors into the memory of an NVIDIA GPU. Library libsafetensors-cuda.
 *
 *     sft_cuda *gpu;
 *     sft_cuda_loaded *model;
 *     sft_cuda_view w;
 *     if (sft_cuda_open(&gpu, NULL, &err) || sft_cuda_load(&model, gpu, catalog, NULL, &err)) { ... }
 *     sft_cuda_loaded_at(model, 0, &w);  -- w.address is a device pointer to w.nbytes bytes
 *     sft_cuda_loaded_free(model);
 *     sft_cuda_close(gpu);
 *
 * Caveats first.
 *  - Nothing of CUDA is needed to build or link this: the driver (libcuda.so.1) is opened at run time.
 *  Where
 *    it is missing, every call that needs it is SFT_E_UNSUPPORTED with the reason in the message.
 *  - The device's primary context is used, the one that the CUDA runtime, torch, jax and cupy share. It is
 *    made current around the calls of this library and put back afterwards.
 *  - A view's address is only good while its sft_cuda_loaded, or an export of any tensor of it, lives: all
 *    tensors of a load lie in one allocation ("slab"), which goes when the last of them goes.
 *  - With a `stream` in the options a load returns while the last copies are still under way; only work on
 *    that stream (or one given to sft_cuda_loaded_wait) may touch the tensors then.
 *  - Bytes are little-endian as in the file.
 *  - On machines where processor and GPU share one memory (sft_cuda_info.unified) the page cache would hold
 *    every byte a second time: AUTO reads past it there whenever the file system can.
 *  - GPUDirect Storage is used only when asked for, and only if a probe has shown that it is real:
 *    cuFile's compatibility mode, which copies through host memory anyway, is refused with the reason.
 *  - Do not use a handle in a child after fork(): CUDA itself does not survive it.
 *
 * Threads: any number may load through one sft_cuda at once; they share its ring of pinned memory. A
 * sft_cuda_loaded is immutable but for free. Exports may be deleted from any thread.
 */
#ifndef SFT_CUDA_H
#define SFT_CUDA_H

#include <sft/dlpack.h>
#include <sft/extend.h>
#include <sft/load.h>
#include <sft/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device that is open. */
typedef struct sft_cuda sft_cuda;

typedef struct sft_cuda_options {
    size_t struct_size;
    const sft_allocator *allocator; /* of the bookkeeping; must outlive every export */
    const char *driver_path;        /* library of the driver; NULL: "libcuda.so.1" */
    const char *cufile_path;        /* library of cuFile; NULL: "libcufile.so.0" */
    uint64_t memory_bytes; /* slabs alive at once above this: SFT_E_LIMIT; 0: what the device has */
    /* pinned host memory in all; default 128 MiB, at least one chunk. It is taken when the first
     * load needs it and stays until close */
    uint64_t ring_bytes;
    /* of one read and copy; rounded up to 4,096; default 8 MiB; at most 1 GiB */
    uint64_t chunk_bytes;
    uint32_t device;  /* ordinal, as in CUDA_VISIBLE_DEVICES */
    uint32_t streams; /* copies under way side by side; default 4, at most 32 */
} sft_cuda_options;

typedef struct sft_cuda_info {
    char name[64];
    uint8_t uuid[16];
    uint64_t total_bytes; /* of the device's memory */
    uint64_t free_bytes;
    uint64_t held_bytes;     /* in slabs of this handle */
    uint64_t peak_bytes;     /* most that held_bytes has been */
    uint64_t ring_bytes;     /* pinned now */
    uint32_t driver_version; /* 12040: CUDA 12.4 */
    uint32_t device;
    uint32_t capability_major;
    uint32_t capability_minor;
    uint32_t unified; /* 1: shares the processor's memory */
    uint32_t reserved[5];
} sft_cuda_info;

/* How many devices there are. SFT_E_UNSUPPORTED: no driver, one too old, or no device; the message says
 * which. driver_path: NULL for the system's. Cost: cuInit, on first use up to a second. */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_available(uint32_t *devices, const char *driver_path,
                                                     sft_error *err);

/* Opens a device: driver, primary context, streams. out: owned; sft_cuda_close. options: NULL for defaults.
 * SFT_E_UNSUPPORTED as above, SFT_E_RANGE (no such device), SFT_E_ARG, SFT_E_NOMEM, SFT_E_IO (the
 * driver's refusal; err->sys is its CUresult and the message its name). */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_open(sft_cuda **out, const sft_cuda_options *options,
                                                sft_error *err);
/* Waits for copies under way, frees ring and streams. What was loaded and exported lives on. NULL is fine.
 * No load may be running. */
SFT_API void sft_cuda_close(sft_cuda *cuda);
SFT_API SFT_MUST_CHECK sft_status sft_cuda_info_get(const sft_cuda *cuda, sft_cuda_info *out,
                                                    sft_error *err);

/* Whether reads of this file can go from storage to the device without host memory between: libcufile is
 * there, its driver is open, its kernel module (or peer-to-peer NVMe) serves, compatibility mode is off,
 * the file's handle is accepted, and a small read brought the same bytes as pread. SFT_OK, or
 * SFT_E_UNSUPPORTED with the reason. file: index of the catalog. */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_direct_probe(sft_cuda *cuda, const sft_catalog *catalog,
                                                        size_t file, sft_error *err);

/* ---------------------------------------------------------------- loads */

/* A tensor, or the part of it that this rank wants. */
typedef struct sft_cuda_item {
    const sft_tensor *tensor;
    const sft_slice *slices; /* NULL: whole */
    size_t slice_count;
} sft_cuda_item;

#define SFT_CUDA_DIRECT_STORAGE                                                                    \
    1u /* GPUDirect Storage for files whose probe says yes, the ring for others */

typedef struct sft_cuda_load_options {
    size_t struct_size;
    const sft_cuda_item *items; /* NULL: every tensor of the catalog, whole, in its order */
    size_t item_count;
    const sft_pool *pool;       /* readers; NULL: the calling thread alone */
    const sft_control *control; /* progress counts bytes handed to the device */
    uint64_t memory;      /* device address to load to, of this device, a multiple of `alignment`
                                   (else SFT_E_ARG); 0: a slab of the library's. The caller's must live
                                   as long as what is loaded and exported */
    uint64_t memory_size; /* bytes there; too few: SFT_E_NOMEM */
    uintptr_t stream;     /* the consumer's stream, as DLPack counts: 0: return when all is on the
                                   device; 1: legacy default stream; 2: per-thread default stream; else a
                                   CUstream (cudaStream_t) of this context. The stream waits for the
                                   copies; copies wait for what is on the stream already */
    uint32_t alignment;   /* of each tensor in the slab, a power of two up to 65,536; default 256 */
    sft_strategy strategy; /* AUTO, READ or DIRECT; MAP is SFT_E_UNSUPPORTED */
    uint32_t flags;        /* SFT_CUDA_* */
    uint32_t reserved;
} sft_cuda_load_options;

/* Bytes of device memory that a load with these options needs: room for `memory`. */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_load_size(uint64_t *bytes, const sft_catalog *catalog,
                                                     const sft_cuda_load_options *options,
                                                     sft_error *err);

typedef struct sft_cuda_loaded sft_cuda_loaded;

/* Reads the items and brings them to the device. Neighbours in a file are read together (gaps up to 64 KiB
 * included), whatever their order in `items`; of slices only the bytes that are wanted are read (with gaps
 * too small to be worth a second read), strided ones are gathered in the ring. Reading, and copies of what
 * was read before, overlap. Host memory: the ring and O(tensors).
 * The catalog may be closed afterwards, except that views point at its tensors.
 * Errors: those of sft_load; SFT_E_NOMEM (device memory, with the bytes that were free; pinned memory),
 * SFT_E_LIMIT, SFT_E_ARG, SFT_E_RANGE and SFT_E_SUBBYTE (slices), SFT_E_IO with the CUresult in err->sys.
 * After a failure nothing is left on the device and no copy is under way. */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_load(sft_cuda_loaded **out, sft_cuda *cuda,
                                                const sft_catalog *catalog,
                                                const sft_cuda_load_options *options,
                                                sft_error *err);

/* One item on the device. */
typedef struct sft_cuda_view {
    const sft_tensor *tensor; /* of the catalog */
    const sft_dtype *dtype;
    const uint64_t *shape; /* of the slice; rank entries, lives as long as the sft_cuda_loaded */
    uint64_t address;      /* device pointer, packed row-major; of no meaning for 0 bytes */
    uint64_t nbytes;
    uint32_t rank;
    uint32_t device;
    uint64_t reserved[2];
} sft_cuda_view;

SFT_API size_t sft_cuda_loaded_count(const sft_cuda_loaded *loaded); /* items */
/* Item `index` in the order of the options. SFT_E_RANGE past the end (out is then untouched). */
SFT_API sft_status sft_cuda_loaded_at(const sft_cuda_loaded *loaded, size_t index,
                                      sft_cuda_view *out);
SFT_API uint64_t sft_cuda_loaded_bytes(const sft_cuda_loaded *loaded); /* of the items */
SFT_API uint64_t sft_cuda_loaded_memory(const sft_cuda_loaded *loaded,
                                        uint64_t *size); /* the slab */

/* What the load did. */
typedef struct sft_cuda_stats {
    uint64_t bytes_read;   /* from sources, gaps included; slices of strided ones: what was kept */
    uint64_t bytes_copied; /* from the ring to the device */
    uint64_t bytes_direct; /* from storage to the device */
    uint64_t chunks;
    uint64_t copies;
    /* how often a reader found the ring full: above zero, the copies are the limit */
    uint64_t ring_waits;
    uint64_t reserved[2];
} sft_cuda_stats;
SFT_API void sft_cuda_loaded_stats(const sft_cuda_loaded *loaded, sft_cuda_stats *out);

/* How file `file` of the catalog was read and why, a static sentence, as sft_loaded_strategy. *direct: 1 if
 * it went from storage to the device, and direct_reason why (or why not). Each may be NULL. */
SFT_API sft_strategy sft_cuda_loaded_strategy(const sft_cuda_loaded *loaded, size_t file,
                                              const char **reason, int *direct,
                                              const char **direct_reason);

/* Makes `stream` (as in the options; 0: the calling thread) wait until all of the load is on the device. */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_loaded_wait(const sft_cuda_loaded *loaded,
                                                       uintptr_t stream, sft_error *err);
SFT_API void sft_cuda_loaded_free(sft_cuda_loaded *loaded); /* NULL is fine; exports live on */

/* ---------------------------------------------------------------- DLPack */

#define SFT_CUDA_DL_BYTES                                                                          \
    1u /* as U8 of nbytes elements: for types that the consumer does not know */

/* Item `index` as a managed tensor that keeps the slab alive by itself; its deleter gives it up. F4 is
 * told as 4-bit elements in the tensor's shape, packed. No copy. device_type is SFT_DL_CUDA.
 * SFT_E_RANGE, SFT_E_NOMEM, SFT_E_UNSUPPORTED (a type that DLPack has no code for), SFT_E_SHAPE. */
SFT_API SFT_MUST_CHECK sft_status sft_cuda_loaded_dlpack(sft_dl_managed **out,
                                                         const sft_cuda_loaded *loaded,
                                                         size_t index, uint32_t flags,
                                                         sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_cuda_loaded_dlpack_old(sft_dl_managed_old **out,
                                                             const sft_cuda_loaded *loaded,
                                                             size_t index, uint32_t flags,
                                                             sft_error *err);

/* ---------------------------------------------------------------- out of device memory */

/* Copies out of the device, for those who stage tensors that lie there: the `copier` of <sft/run.h>, whose
 * arenas are pinned memory then. They go on a stream of their own, which waits on the device for what is on
 * `stream` when the first copy of a save begins; the host waits when all of a save have begun. stream: the
 * one that computes the tensors, as in the load's options; 0: it has been waited for already. The device
 * may be closed before; free them after the run is closed. One thread at a time. */
typedef struct sft_cuda_copies sft_cuda_copies;
SFT_API SFT_MUST_CHECK sft_status sft_cuda_copies_create(sft_cuda_copies **out, sft_cuda *cuda,
                                                         uintptr_t stream, sft_error *err);
/* Another stream from the next save on. */
SFT_API void sft_cuda_copies_stream(sft_cuda_copies *copies, uintptr_t stream);
SFT_API const sft_copier *sft_cuda_copies_copier(const sft_cuda_copies *copies); /* a borrow */
SFT_API void sft_cuda_copies_free(sft_cuda_copies *copies);                      /* NULL is fine */

/* ---------------------------------------------------------------- for those who load it at run time */

/* All of the above: what dlopen and dlsym("sft_cuda_api_get") need. Grows at its end. */
typedef struct sft_cuda_api {
    size_t struct_size;
    const char *version; /* of the library, "major.minor.patch" */
    sft_status (*available)(uint32_t *devices, const char *driver_path, sft_error *err);
    sft_status (*open)(sft_cuda **out, const sft_cuda_options *options, sft_error *err);
    void (*close)(sft_cuda *cuda);
    sft_status (*info_get)(const sft_cuda *cuda, sft_cuda_info *out, sft_error *err);
    sft_status (*direct_probe)(sft_cuda *cuda, const sft_catalog *catalog, size_t file,
                               sft_error *err);
    sft_status (*load_size)(uint64_t *bytes, const sft_catalog *catalog,
                            const sft_cuda_load_options *options, sft_error *err);
    sft_status (*load)(sft_cuda_loaded **out, sft_cuda *cuda, const sft_catalog *catalog,
                       const sft_cuda_load_options *options, sft_error *err);
    size_t (*loaded_count)(const sft_cuda_loaded *loaded);
    sft_status (*loaded_at)(const sft_cuda_loaded *loaded, size_t index, sft_cuda_view *out);
    uint64_t (*loaded_bytes)(const sft_cuda_loaded *loaded);
    uint64_t (*loaded_memory)(const sft_cuda_loaded *loaded, uint64_t *size);
    void (*loaded_stats)(const sft_cuda_loaded *loaded, sft_cuda_stats *out);
    sft_strategy (*loaded_strategy)(const sft_cuda_loaded *loaded, size_t file, const char **reason,
                                    int *direct, const char **direct_reason);
    sft_status (*loaded_wait)(const sft_cuda_loaded *loaded, uintptr_t stream, sft_error *err);
    void (*loaded_free)(sft_cuda_loaded *loaded);
    sft_status (*loaded_dlpack)(sft_dl_managed **out, const sft_cuda_loaded *loaded, size_t index,
                                uint32_t flags, sft_error *err);
    sft_status (*loaded_dlpack_old)(sft_dl_managed_old **out, const sft_cuda_loaded *loaded,
                                    size_t index, uint32_t flags, sft_error *err);
    sft_status (*copies_create)(sft_cuda_copies **out, sft_cuda *cuda, uintptr_t stream,
                                sft_error *err);
    const sft_copier *(*copies_copier)(const sft_cuda_copies *copies);
    void (*copies_free)(sft_cuda_copies *copies);
    void (*copies_stream)(sft_cuda_copies *copies, uintptr_t stream);
} sft_cuda_api;
SFT_API const sft_cuda_api *sft_cuda_api_get(void); /* static */

#ifdef __cplusplus
}
#endif
#endif
