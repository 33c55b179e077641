/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/steps.h - the steps of a run as they lie on the disk: their names, manifests, whether
 * they are complete and verified, and which of them the rules keep. Nothing here writes but manifest_text,
 * which makes a text. Read docs/run.md first.
 *
 *   manifest.c  reads and writes manifest.json and run.json     verify.c  digests of files
 *   whole.c     all tensors of a step as one catalog
 *   steps.c     lists, and what is complete                     rules.c   which stay
 */
#ifndef SFT_CHECKPOINT_RUN_STEPS_H
#define SFT_CHECKPOINT_RUN_STEPS_H

#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "checkpoint/stage/entries.h"
#include "fs/file.h"
#include <sft/run.h>

#define SFT__RUN_ID       32 /* digits */
#define SFT__RUN_STEP_MAX ((UINT64_C(1) << 53) - 1)
#define SFT__RUN_NAME     32 /* room for the name of a step's directory */

#define SFT__RUN_MANIFEST "manifest.json"
#define SFT__RUN_STATE    "state.json"
#define SFT__RUN_FILE     "run.json"
#define SFT__RUN_LATEST   "latest"
#define SFT__RUN_LOCK     ".sft-run.lock"
#define SFT__RUN_TEXT_MAX UINT64_C(100000000) /* bytes of a text that is read whole */

void sft__checkpoint_run_name(char out[SFT__RUN_NAME], uint64_t step);
bool sft__checkpoint_run_is_name(const char *name, uint64_t *step);
/* What a step's directory is called while it is written, replaced or removed, or removed by a rewind; and the
 * mark of a rewind, of SFT_RUN_NONE without a step's name: no step above it is there for anybody any more. */
#define SFT__RUN_PART   ".sft-part"
#define SFT__RUN_GONE   ".sft-gone"
#define SFT__RUN_OLD    ".sft-old"
#define SFT__RUN_BACK   ".sft-back"
#define SFT__RUN_HIDDEN (SFT__RUN_NAME + 16)
void sft__checkpoint_run_hidden(char out[SFT__RUN_HIDDEN], uint64_t step, const char *end);
bool sft__checkpoint_run_is_hidden(const char *name, const char *end, uint64_t *step);

/* Where a rewind is under way, steps above the mark are there for nobody. Begins zeroed. */
typedef struct sft__checkpoint_run_back {
    bool is_set;
    uint64_t to; /* the lowest of several; SFT_RUN_NONE: no step stays */
} sft__checkpoint_run_back;

/* Is a file of this name a mark? It counts, then. */
bool sft__checkpoint_run_see_back(sft__checkpoint_run_back *mark, const char *name);
/* Is the step above the mark? */
bool sft__checkpoint_run_is_above(const sft__checkpoint_run_back *mark, uint64_t step);
/* May a file of a step be called so? NAME, or DIRECTORY/NAME. */
bool sft__checkpoint_run_is_plain(const char *name, size_t len);

/* ---------------------------------------------------------------- manifests */

typedef struct sft__checkpoint_run_fact {
    const char *name; /* begins as a sft__base_strmap wants it */
    size_t name_len;
    uint64_t size;
    uint32_t crc;
    bool hashed; /* there is a SHA-256 */
    uint8_t sha[32];
} sft__checkpoint_run_fact;

typedef struct sft__checkpoint_run_metric {
    const char *name;
    size_t name_len;
    double value;
} sft__checkpoint_run_metric;

/* Texts lie in the arena that it was read into, or are the writer's. */
typedef struct sft__checkpoint_run_manifest {
    char id[SFT__RUN_ID + 1];
    uint64_t step;
    int64_t time;
    uint64_t processes;
    sft__checkpoint_run_fact *files; /* by bytes of their names */
    size_t count;
    sft__checkpoint_run_metric *metrics;
    size_t metric_count;
} sft__checkpoint_run_manifest;

/* directory: of the step. SFT_E_NOT_FOUND: there is none. */
sft_status sft__checkpoint_run_manifest_read(sft__checkpoint_run_manifest *out,
                                             const char *directory, sft__base_arena *arena,
                                             sft_error *err);
/* The same of another file of that form. */
sft_status sft__checkpoint_run_note_read(sft__checkpoint_run_manifest *out, const char *directory,
                                         const char *name, sft__base_arena *arena, sft_error *err);
void sft__checkpoint_run_manifest_text(sft__base_buf *out, const sft__checkpoint_run_manifest *m);
const sft__checkpoint_run_fact *
sft__checkpoint_run_manifest_find(const sft__checkpoint_run_manifest *m, const char *name);
/* The bytes of a file of the step or of the run, in the arena, with SFT__JSON_SLACK zeros behind them. */
sft_status sft__checkpoint_run_read_text(const char *directory, const char *name,
                                         sft__base_arena *arena, char **text, size_t *size,
                                         sft_error *err);
/* id "" (and SFT_OK): there is no run.json. */
sft_status sft__checkpoint_run_id_read(char id[SFT__RUN_ID + 1], const char *path,
                                       sft__base_arena *arena, sft_error *err);

/* whole.c: is a file of this name one of tensors? */
bool sft__checkpoint_run_has_tensors(const char *name);

/* Every file of tensors that the manifest lists, as one catalog. */
sft_status sft__checkpoint_run_open_files(sft_catalog **out, const char *directory,
                                          const sft__checkpoint_run_manifest *m,
                                          const sft_open_options *options, sft_error *err);

/* ---------------------------------------------------------------- lists */

typedef struct sft__checkpoint_run_found {
    sft_run_step told;
    sft__checkpoint_run_manifest manifest; /* if told.complete */
    bool unread; /* the system did not let us look at it, which says nothing about it */
} sft__checkpoint_run_found;

struct sft_run_list {
    const sft_allocator *allocator;
    sft__base_arena arena;
    sft__checkpoint_run_found *steps; /* oldest first */
    size_t count;
    size_t room;
    bool all; /* steps that a rewind has not removed yet, too */
};

sft_status sft__checkpoint_run_list_new(sft_run_list **out, const sft_allocator *allocator,
                                        sft_error *err);
/* The names in the directory `path`; step: this one alone, or SFT_RUN_NONE. Nothing else is looked at. */
sft_status sft__checkpoint_run_names(sft_run_list *list, const char *path, uint64_t step,
                                     sft_error *err);
/* Is it complete? id: of the run, "" if that is not known. What a step lacks is its `why`, no error. */
sft_status sft__checkpoint_run_look(sft_run_list *list, sft__checkpoint_run_found *step,
                                    const char *path, const char *id, sft_error *err);
/* names, and a look at each. */
sft_status sft__checkpoint_run_scan(sft_run_list *list, const char *path, const char *id,
                                    uint64_t step, sft_error *err);
/* The newest complete one that is not `besides`; NULL: there is none. */
const sft__checkpoint_run_found *sft__checkpoint_run_newest(const sft_run_list *list,
                                                            uint64_t besides);
sft_status sft__checkpoint_run_why(sft_run_list *list, sft__checkpoint_run_found *step,
                                   const sft_error *why, sft_error *err);

/* told.c: the CRC32C of a file of tensors, which is alone in the catalog, by the digests that its header has:
 * nothing but the header is read. SFT_E_MISMATCH: it has none. */
sft_status sft__checkpoint_run_told_crc(const sft_catalog *c, uint32_t *crc, const sft_allocator *a,
                                        sft_error *err);

/* verify.c: compares every byte of the files of a complete step with its manifest, and opens them.
 * Failures of the step are SFT_E_MISMATCH and the like; of the machine: SFT_E_NOMEM, SFT_E_CANCELLED. */
typedef struct sft__checkpoint_run_verify {
    const sft_allocator *allocator;
    const sft_pool *pool;
    const sft_control *control;
    bool loads; /* of files of tensors only headers: a load compares the digests that they have */
    uint32_t share; /* only files number share, share + shares, ... */
    uint32_t shares;
} sft__checkpoint_run_verify;
sft_status sft__checkpoint_run_verify_step(const sft__checkpoint_run_verify *verify,
                                           const char *directory,
                                           const sft__checkpoint_run_manifest *m, sft_error *err);
/* Is it a failure of the machine, or of the one who asked, which says nothing about the step? */
bool sft__checkpoint_run_is_of_machine(sft_status status);

/* rules.c: SFT_E_NOT_FOUND where there are good steps, none of which has the metric of the rules: the message
 * has the names of those that are there. */
sft_status sft__checkpoint_run_check_best(const sft_run_rules *rules,
                                          const sft__checkpoint_run_found *steps, size_t count,
                                          sft_error *err);
/* Fills `kept` of every step, oldest first. */
void sft__checkpoint_run_judge(const sft_run_rules *rules, sft__checkpoint_run_found *steps,
                               size_t count, int64_t now);

#endif
