/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/batch.h - what split, join, reshard, slice, dedupe and expand have in common: the list of
 * files to write, and the run (or the plan) of the job that writes them. Read ranks.h first.
 */
#ifndef SFT_CLI_BATCH_H
#define SFT_CLI_BATCH_H

#include "cli/operands/chosen.h"
#include "cli/operands/names.h"
#include "cli/ui/text.h"

/* A number that --json tells of a job beside the usual ones. */
typedef struct cli_batch_number {
    const char *key;
    uint64_t value;
} cli_batch_number;

/* What a file is given at most with `carries`: one entry before, and two kinds of digests. */
enum { CLI_BATCH_CARRIED = 3 };

typedef struct cli_batch {
    cli *c;
    const char *source;    /* for messages */
    const char *target;    /* for messages: the directory or file asked for */
    char *owned_target;    /* what it leads to, if it is a link */
    const char *directory; /* where the files go */
    sft_job_file *files;   /* names and lists are owned */
    size_t count;
    sft_job_text *texts; /* names and data are owned */
    size_t text_count;
    char *owned_directory;
    sft_order order;          /* of tensors in files; default: the reference's */
    cli_batch_number more[8]; /* for --json, and the plan's last line */
    size_t more_count;
    bool carries; /* tensors stay whole: so do the digests that the source records of them */
    const sft_catalog
        *named; /* the model: its other names of tensors go on; NULL: several, of which with
                                     `carries` each is one file's */
    uint64_t alias_count;         /* that do */
    uint64_t left_out;            /* tensors of `named` that are not whole */
    sft_metadata_entry **aliases; /* owned: of each file, with what it had before; or NULL */
    char **records;               /* owned: sft.aliases of each file, or NULL */
    char *together[2];            /* owned: objects of all files of `named` as one */
    sft_metadata_entry *carried;  /* owned, with their values: CLI_BATCH_CARRIED for each file */
    cli_chosen *chosen;           /* owned; NULL: all of it, as it is */
    bool published;               /* by this run */
    bool records_new;             /* digests of what is written */
    bool told_metadata;           /* that some are left out */
} cli_batch;

/* False: reported. */
bool cli_batch_init(cli_batch *b, cli *c, const char *source);
void cli_batch_reset(cli_batch *b);
/* The output is the directory -o. */
bool cli_batch_to_directory(cli_batch *b);
/* The output is the one file -o; the name that it has in its directory. NULL: reported. */
const char *cli_batch_to_file(cli_batch *b);

/* name is copied; tensors (may be NULL: all) was made by cli_alloc and is taken over. */
sft_job_file *cli_batch_file(cli_batch *b, const char *name, const sft_catalog *catalog,
                             uint32_t *tensors, size_t count);
/* name is copied; data was made by cli_alloc and is taken over. */
void cli_batch_text(cli_batch *b, const char *name, char *data, size_t size);

/* Of batch_carry.c: gives the files the digests that the source records of their tensors. False: reported. */
bool cli_batch_carry(cli_batch *b);
/* The same for other names of tensors that b->named has and the files' metadata do not record. False:
 * reported. */
bool cli_batch_aliases(cli_batch *b);
/* Puts together what each of the model's files says of its blocks and types; names what they say differently
 * otherwise, and a tree of some of its tensors: neither goes on. */
void cli_batch_metadata(cli_batch *b);
/* Tells the plan, or carries it out and tells of that. label: of the progress line. */
void cli_batch_run(cli_batch *b, const char *label);

/* A source of --source-layout, or any other one that cli_open opens: as one model, with the names
 * that --names gives. False: reported. */
bool cli_batch_open(cli_batch *b, sft_catalog **out);
/* Warns of what a catalog of the source, or of a part of it, could not have, and counts it. */
void cli_batch_lacks(cli_batch *b, const sft_catalog *catalog);
/* The second half of it, for a source that was opened otherwise: tells what was left out of it. */
bool cli_batch_took(cli_batch *b, sft_catalog **catalog);
/* A layout of numbers alone is made for the model. What the layout of `option` does not name goes to every
 * rank: told, and refused (false) where it is everything, without --allow-replicated. */
bool cli_batch_fits(cli_batch *b, const char *option, sft_layout_set *set,
                    const sft_catalog *global);
/* For --json and the plan. key: static. */
void cli_batch_number_add(cli_batch *b, const char *key, uint64_t value);

/* model-00002-of-00005.safetensors for the second, which is number 1; of one alone: model.safetensors. */
void cli_shard_name(char *name, size_t room, uint64_t number, uint64_t of);

/* {"metadata": {"total_size": N}, "weight_map": {name: file}} as Python writes it with this indent.
 */
void cli_text_index(cli_text_buffer *t, const cli_batch *b, size_t count, uint64_t total,
                    unsigned indent);

#define CLI_BATCH_OPTIONS CLI_CHOSEN_OPTIONS, CLI_NAMES_OPTIONS, CLI_BATCH_RUN_OPTIONS
#define CLI_BATCH_RUN_OPTIONS                                                                      \
    CLI_OPT_ARG(CLI_FILE, "output", 'o', "OUT", "the file or folder to write"),                    \
        CLI_OPT_ARG(CLI_BYTES, "memory", 0, "SIZE", "buffers in all (default 256MiB)"),            \
        CLI_OPT_ARG(CLI_TEXT, "task", 0, "K/N",                                                    \
                    "only share K of N, the same everywhere; the last one to end puts all in "     \
                    "place, or finish "                                                            \
                    "does"),                                                                       \
        CLI_OPT_ARG(CLI_TEXT, "record", 0, "LIST",                                                 \
                    "digests of what was written into the files: crc32c, sha256 or "               \
                    "crc32c,sha256"),                                                              \
        CLI_OPT_FLAG("restart", 0, "forget what a run that was killed has left"),                  \
        CLI_OPT_FLAG("verify", 0, "read back what was written, and compare"),                      \
        CLI_OPT_FLAG("no-sync", 0, "do not wait for the disk"),                                    \
        CLI_OPT_FLAG("plan", 'n',                                                                  \
                     "say what would be done, a JSON line for each file, and do nothing")
#define CLI_BATCH_COMMON                                                                           \
    (CLI_WITH_JSON | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_JOBS | CLI_WITH_SIZES |           \
     CLI_WITH_IMPORT | CLI_WITH_REMOTE | CLI_WITH_GROUP)

#endif
