/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/dlpack.h - the structures by which array libraries hand memory to each other, as the DLPack
 * specification lays them out (version 1.1; major 1 is compatible throughout). Layout and numbers are the
 * specification's, names are ours: a program may include dlpack.h of DLPack as well and cast.
 *
 * A producer makes a managed tensor; whoever owns it calls its deleter once, from any thread.
 * Python: a PyCapsule named "dltensor_versioned" (or "dltensor") around the pointer.
 */
#ifndef SFT_DLPACK_H
#define SFT_DLPACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SFT_DL_MAJOR 1
#define SFT_DL_MINOR 1

/* device_type */
#define SFT_DL_CPU          1
#define SFT_DL_CUDA         2
#define SFT_DL_CUDA_HOST    3
#define SFT_DL_CUDA_MANAGED 13

/* code of a data type */
#define SFT_DL_INT             0
#define SFT_DL_UINT            1
#define SFT_DL_FLOAT           2
#define SFT_DL_BFLOAT          4
#define SFT_DL_COMPLEX         5
#define SFT_DL_BOOL            6
#define SFT_DL_FLOAT8_E4M3FN   10
#define SFT_DL_FLOAT8_E4M3FNUZ 11
#define SFT_DL_FLOAT8_E5M2     12
#define SFT_DL_FLOAT8_E5M2FNUZ 13
#define SFT_DL_FLOAT8_E8M0FNU  14
#define SFT_DL_FLOAT6_E2M3FN   15
#define SFT_DL_FLOAT6_E3M2FN   16
#define SFT_DL_FLOAT4_E2M1FN   17

/* flags */
#define SFT_DL_READ_ONLY 1u
#define SFT_DL_COPIED    2u

typedef struct sft_dl_device {
    int32_t device_type;
    int32_t device_id;
} sft_dl_device;

typedef struct sft_dl_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} sft_dl_type;

typedef struct sft_dl_tensor {
    void *data; /* a device address on a device */
    sft_dl_device device;
    int32_t ndim;
    sft_dl_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} sft_dl_tensor;

typedef struct sft_dl_version {
    uint32_t major;
    uint32_t minor;
} sft_dl_version;

typedef struct sft_dl_managed {
    sft_dl_version version;
    void *manager_ctx;
    void (*deleter)(struct sft_dl_managed *self);
    uint64_t flags;
    sft_dl_tensor dl_tensor;
} sft_dl_managed;

/* As it was before version 1: for consumers that know no other. */
typedef struct sft_dl_managed_old {
    sft_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct sft_dl_managed_old *self);
} sft_dl_managed_old;

#ifdef __cplusplus
}
#endif
#endif
