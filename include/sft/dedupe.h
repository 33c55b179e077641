/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/dedupe.h - removes the replicas from a directory of ranks, and puts them back: the files of a
 * job (sft/job.h) for either. In the library libsafetensors-checkpoint.
 *
 * Ranks that, by the layout, hold the same shard of a tensor hold replicas. Once de-duplicated, each
 * shard lies in the file of one rank, and the directory still opens as the same model. Expanding gives
 * every rank its full set back.
 *
 * Caveats first.
 *  - Headers do not show whether replicas are equal: sft_dedupe_compare reads and compares them. Without
 *    that, a layout that takes halves for replicas would lose bytes.
 *  - Expanded files equal the original ones byte for byte if those were written as sft_save writes them
 *    (as the reference and everything built on it do); otherwise tensors, order and metadata are equal.
 *  - Only weights are carried over: other files beside them (meta.json ...) stay where they are.
 *
 * Threads: the object is immutable; sft_dedupe_compare may run in several threads at once.
 */
#ifndef SFT_DEDUPE_H
#define SFT_DEDUPE_H

#include <sft/checkpoint_open.h>
#include <sft/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sft_dedupe_rule {
    /* What MindSpore keeps (remove_redundancy=True): parameters by name; the i-th one of a group of
     * ranks that hold the same part goes to rank i % size of it. Parameters of the layout that no
     * file has count too. Tensors that the layout does not name stay with every rank. (MindSpore
     * 2.10, train/_utils.py) */
    SFT_DEDUPE_MINDSPORE = 0,
    /* By bytes: parts with the fewest holders first, then the largest, then by name, each to the
     * holder with the fewest bytes so far (of equals the lowest rank). Tensors that the layout does
     * not name are replicas of one another. */
    SFT_DEDUPE_BALANCED = 1,
    SFT_DEDUPE_FORCE_32BIT = 0x7fffffff
} sft_dedupe_rule;

typedef struct sft_dedupe_options {
    size_t struct_size;
    const sft_allocator *allocator; /* must outlive the object */
    const sft_open_options *open;   /* limits of what is put together; NULL: defaults */
    sft_dedupe_rule rule;           /* of sft_dedupe_create */
    uint32_t flags;                 /* 0 */
} sft_dedupe_options;

typedef struct sft_dedupe sft_dedupe;

/* The files of a directory of ranks (SFT_CHECKPOINT_RANKS, else SFT_E_UNSUPPORTED), without replicas:
 * under the names that they have there, layout.json, and dedupe.json, which says what every rank's
 * file was. Where the rank that the rule names has no file, or no such tensor, the next one of its
 * group keeps it. Metadata: remove_redundancy becomes "True", crc_num goes where tensors do.
 * checkpoint: borrowed, must outlive the object. Errors: SFT_E_HOLE (a part that no rank has),
 * SFT_E_MISMATCH (replicas with other dtypes or shapes), SFT_E_NOT_FOUND (no layout).
 * Cost: O(tensors of all ranks * log), headers alone. */
SFT_API SFT_MUST_CHECK sft_status sft_dedupe_create(sft_dedupe **out,
                                                    const sft_checkpoint *checkpoint,
                                                    const sft_dedupe_options *options,
                                                    sft_error *err);

/* The files of such a directory with all that every rank had: what dedupe.json says; without one
 * (MindSpore wrote the directory) everything that the layout gives to a rank, and what it has beside
 * that. Without dedupe.json ranks that the layout names get a file even if they have none, with a
 * name as the others'. Errors: as above; SFT_E_SCHEMA, SFT_E_JSON (dedupe.json). */
SFT_API SFT_MUST_CHECK sft_status sft_dedupe_expand(sft_dedupe **out,
                                                    const sft_checkpoint *checkpoint,
                                                    const sft_dedupe_options *options,
                                                    sft_error *err);
SFT_API void sft_dedupe_free(sft_dedupe *dedupe); /* NULL is fine */

/* What to give to sft_job_create, with this order. Borrowed from the object. */
SFT_API const sft_job_file *sft_dedupe_files(const sft_dedupe *dedupe, size_t *count);
SFT_API const sft_job_text *sft_dedupe_texts(const sft_dedupe *dedupe, size_t *count);
SFT_API sft_order sft_dedupe_order(const sft_dedupe *dedupe);
/* Tensors in files that go (create) or come back (expand), and their bytes. */
SFT_API void sft_dedupe_total(const sft_dedupe *dedupe, uint64_t *tensors, uint64_t *bytes);

/* Compares every replica that goes with the one that stays, byte by byte. *compared: bytes that
 * were (may be NULL). SFT_E_MISMATCH names the tensor, the two ranks and the place: of several the
 * first by name. Memory: 2 MiB for each thread. After expand there is nothing to compare. */
SFT_API SFT_MUST_CHECK sft_status sft_dedupe_compare(const sft_dedupe *dedupe, const sft_pool *pool,
                                                     const sft_control *control, uint64_t *compared,
                                                     sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
