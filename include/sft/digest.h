/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/digest.h - CRC32C (Castagnoli, RFC 3720) and SHA-256 (FIPS 180-4), digests recorded in files, and
 * the content hash of a model.
 *
 * Recorded digests live in `__metadata__` under "sft.crc32c" and "sft.sha256" (or in a sidecar
 * PATH.digests.json). The value is lower-case hex without separators: first the CRC32C of the catalog
 * description (8 digits), then one digest per tensor (8 or 64 digits), tensors in byte order of their
 * names; so it survives reordering. The description is, per tensor in that order: name length (8 bytes
 * little-endian), name, dtype name, a zero byte, rank (8 bytes LE), each dimension (8 bytes LE).
 */
#ifndef SFT_DIGEST_H
#define SFT_DIGEST_H

#include <sft/catalog.h>
#include <sft/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CRC32C of crc's bytes followed by these; start with 0. Pure, thread-safe. */
SFT_API uint32_t sft_crc32c(uint32_t crc, const void *data, size_t size);
/* CRC32C of A followed by B, from crc(A), crc(B) and the length of B. O(log size_b). */
SFT_API uint32_t sft_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

typedef struct sft_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
    uint32_t without; /* sft_pool_without: what to leave out; init sets 0 */
} sft_sha256;
SFT_API void sft_sha256_init(sft_sha256 *s);
SFT_API void sft_sha256_update(sft_sha256 *s, const void *data, size_t size);
SFT_API void sft_sha256_final(sft_sha256 *s, uint8_t digest[32]); /* init before using it again */

/* The description's CRC32C with one more tensor: of the tensors in byte order of their names, one after the
 * other, beginning with crc = 0. For programs that record digests themselves. Pure, thread-safe. */
SFT_API uint32_t sft_digest_describe(uint32_t crc, const sft_tensor *tensor);

/* Is it the metadata key of recorded digests? Whoever copies metadata leaves these to
 * sft_writer_carry_digests. */
SFT_API int sft_digest_is_key(const char *key, size_t len);

/* Where the bytes of a declared tensor come from. tensor: of the catalog; NULL: they change on the way. */
typedef struct sft_writer_origin {
    const sft_catalog *catalog;
    const sft_tensor *tensor;
} sft_writer_origin;
/* After declaring with a writer, before its start: hands on the digests that inputs have in their metadata,
 * under the new names: a kind goes on if every declared tensor has the very bytes of one of which it is
 * recorded (not if the writer computes it anyway). origins: one for each tensor, in the order of
 * declaration. *lost: SFT_DIGEST_* that an input has and the output will not; may be NULL. Digests that do
 * not fit their own file are lost. Errors: SFT_E_STATE, SFT_E_ARG, SFT_E_NOMEM. Cost: time and memory by the
 * number of tensors. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_carry_digests(sft_writer *writer,
                                                           const sft_writer_origin *origins,
                                                           uint32_t *lost, sft_error *err);

typedef struct sft_verify_options {
    size_t struct_size;
    const sft_allocator *allocator;
    const sft_pool *pool;
    const sft_control *control;
    /* Called for every tensor that has a recorded digest, in file order, from the calling thread;
     * may be NULL. status: SFT_OK, SFT_E_MISMATCH, or why it could not be read. */
    void (*report)(void *ctx, const sft_tensor *tensor, sft_status status, const char *message);
    void *report_ctx;
    uint32_t digests; /* SFT_DIGEST_* to check; 0: all that are recorded */
    uint32_t flags;
    size_t first; /* only tensors first to first + count - 1 of the catalog; both 0: all */
    size_t count;
    const uint8_t *chosen; /* by tensor of the catalog: 0: not looked at; NULL: all are */
} sft_verify_options;
/* In flags: files whose digests are of other tensors count as files without. */
#define SFT_VERIFY_SKIP_STALE 1u

typedef struct sft_verify_result {
    uint64_t checked;  /* tensors whose digest was compared */
    uint64_t damaged;  /* of those, how many differ */
    uint64_t unlisted; /* tensors in files that have no digests */
} sft_verify_result;

/* Reads every tensor that has a recorded digest and compares. SFT_OK: all equal (and at least one file
 * had digests). SFT_E_MISMATCH: err names the first damaged tensor and its byte range. SFT_E_NOT_FOUND:
 * nothing recorded. SFT_E_STALE: digests of other tensors. result may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_verify(const sft_catalog *catalog,
                                                     const sft_verify_options *options,
                                                     sft_verify_result *result, sft_error *err);

/* SHA-256 of one tensor's packed bytes, or its CRC32C. Either output may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_digest(const sft_catalog *catalog,
                                                    const sft_tensor *tensor, uint8_t sha256[32],
                                                    uint32_t *crc32c, const sft_control *control,
                                                    sft_error *err);

/* A hash of names, dtypes, shapes and bytes that does not depend on order, files or metadata: SHA-256 over,
 * per tensor in byte order of names, the description above followed by the SHA-256 of its bytes. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_content_hash(const sft_catalog *catalog,
                                                           uint8_t digest[32], const sft_pool *pool,
                                                           const sft_control *control,
                                                           sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
