/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/journal.h - what a killed run leaves behind: lines of text, each with its CRC32C,
 * written only after the bytes that they speak of. A torn last line is cut off. Read job.h first.
 *
 *     sft-job 6 PLAN-KEY                     the plan, without the sources' identities
 *     source NUMBER SIZE MTIME INODE CRC32C-OF-NAME   one for each; the name without the query of a URL
 *     unit NUMBER CRC32C-OF-WHAT-WAS-WRITTEN    "--------": the kernel copied it, nobody looked
 *     commit CRC32C-OF-ALL-HEADERS           all is written; renaming has begun
 *
 * What a line says is believed once it was compared with the files (run_prove.c, verify_units).
 */
#ifndef SFT_CHECKPOINT_JOURNAL_H
#define SFT_CHECKPOINT_JOURNAL_H

#include "checkpoint/job/job.h"

#define SFT__CRC_UNKNOWN UINT64_MAX

/* What journals say about the units. */
typedef struct sft__checkpoint_done {
    uint8_t *units; /* by unit: 0, or 1 an earlier run or another task says that it did it, 2 done
                       by this run, 3 said before and proven */
    uint64_t *crcs; /* SFT__CRC_UNKNOWN: not computed */
    bool committed;
    uint32_t headers; /* their CRC32C, if committed */
} sft__checkpoint_done;

/* Adds what a journal says; *valid: length of its whole lines. SFT_E_CHANGED: a source is not what
 * it was. SFT_E_MISMATCH: it is of another plan, or of other sources. No file is fine. */
sft_status sft__checkpoint_journal_read(const sft_job *job, const char *path,
                                        sft__checkpoint_done *done, uint64_t *valid,
                                        sft_error *err);
/* Does it say that all is written? What cannot be read does not. */
bool sft__checkpoint_journal_is_committed(const sft_job *job, const char *path);
/* Lines for the beginning, and for one unit. */
void sft__checkpoint_journal_begin(const sft_job *job, sft__base_buf *out);
void sft__checkpoint_journal_unit(sft__base_buf *out, size_t unit, uint64_t crc);
void sft__checkpoint_journal_commit(sft__base_buf *out, uint32_t headers);
/* Bytes, and a CRC32C, in digits of base 16. */
void sft__checkpoint_journal_hex(sft__base_buf *out, const uint8_t *bytes, size_t count);
void sft__checkpoint_journal_crc(sft__base_buf *out, uint32_t crc);

#endif
