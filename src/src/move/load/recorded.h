/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/recorded.h - the digests that files carry in their metadata or beside them, brought to the
 * tensors of a catalog. Read first: <sft/digest.h>.
 */
#ifndef SFT_MOVE_RECORDED_H
#define SFT_MOVE_RECORDED_H

#include "base/error.h"
#include <sft/digest.h>

typedef struct sft__move_recorded {
    uint32_t have; /* SFT_DIGEST_* */
    uint32_t crc;
    uint8_t sha[32];
} sft__move_recorded;

/* In `want`: the sidecar of a file only if its metadata has nothing. */
#define SFT__RECORDED_INSIDE 0x80000000u

/* A file whose digests are of other tensors has none. */
#define SFT__RECORDED_FITTING 0x40000000u

/* list: one zeroed entry per tensor of the catalog, in file order. want: SFT_DIGEST_*. found: some
 * file has digests of these kinds. SFT_E_STALE: digests of other tensors, or not in the form they
 * are written in. SFT_E_MISMATCH: those in the file and those beside it differ. */
sft_status sft__move_recorded_load(const sft_catalog *catalog, uint32_t want,
                                   const sft_allocator *allocator, sft__move_recorded *list,
                                   bool *found, sft_error *err);

/* The tensors that a file's digests are of: all of its header's, even those that the catalog left
 * out. */
typedef struct sft__move_recorded_file {
    const sft_catalog *catalog; /* the one asked for */
    const sft_file *info;
    size_t file;                     /* its index there */
    const sft_tensor *const *sorted; /* its tensors in byte order of names */
    size_t count;
    sft__move_recorded *list; /* of the catalog */
    const sft_allocator *allocator;
    uint32_t want;
} sft__move_recorded_file;

/* Stores a digest for the catalog's tensor of this name, if it has it. digest: hex digits, checked.
 */
sft_status sft__move_recorded_put(const sft__move_recorded_file *f, const char *name,
                                  size_t name_len, uint32_t kind, const char *hex, sft_error *err);
/* Digits of one digest of this kind. */
size_t sft__move_recorded_digits(uint32_t kind);

/* SFT_E_MISMATCH, with the tensor and its bytes. kind: "CRC32C" or "SHA-256". */
sft_status sft__move_recorded_differs(const sft_catalog *catalog, const sft_tensor *tensor,
                                      const char *kind, sft_error *err);

/* PATH.digests.json, if it is there. */
sft_status sft__move_recorded_sidecar(const sft__move_recorded_file *f, bool *found,
                                      sft_error *err);

#endif
