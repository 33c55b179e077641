/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/diff.h - what the command diff knows of two models, and the parts that look for more and
 * print it. Read compare.h and change.h first.
 */
#ifndef SFT_CLI_DIFF_H
#define SFT_CLI_DIFF_H

#include "cli/compare/change.h"
#include "cli/operands/states.h"
#include "cli/report/parts.h"
#include "cli/work.h"
#include <stdatomic.h>

typedef enum cli_verdict {
    CLI_SAME,
    CLI_ONLY_A,
    CLI_ONLY_B,
    CLI_OTHER_TYPE, /* dtype or shape */
    CLI_OTHER_VALUES,
    CLI_OTHER_NAME, /* the same bytes */
    CLI_VERDICTS
} cli_verdict;

typedef struct cli_pair {
    const char *name; /* a's, if it has one */
    size_t name_len;
    const sft_tensor *a;
    const sft_tensor *b;
    cli_verdict verdict;
    atomic_bool enough; /* a unit differs, and that is all that is asked: others are not read */
    bool renamed;       /* b has another name */
    bool compared;      /* values are in `difference` */
    cli_difference difference;
    cli_change *change; /* NULL: not measured, or equal; free() */
    bool ranked;        /* how `rank` was found out: it was tried */
    uint32_t rank;      /* of b - a; 0: none that is low */
    bool scattered;     /* some rows or columns of a matrix are the same in both */
} cli_pair;

/* What became of a model, as far as that can be told (kind.c). */
typedef enum cli_kind_of_change {
    CLI_CHANGE_NONE,
    CLI_CHANGE_METADATA,
    CLI_CHANGE_NAMES,
    CLI_CHANGE_SIGNS, /* of zeros */
    CLI_CHANGE_CAST,
    CLI_CHANGE_QUANTIZED,
    CLI_CHANGE_PRUNED,
    CLI_CHANGE_LORA,
    CLI_CHANGE_TUNED,
    CLI_CHANGE_OTHER
} cli_kind_of_change;

typedef struct cli_diff {
    cli *c;
    const char *name_a;
    const char *name_b;
    const char *report; /* file of the page; NULL: none */
    const sft_catalog *a;
    const sft_catalog *b;
    cli_tolerance tolerance;
    bool details; /* numbers about values, not only that they differ */
    bool compare; /* by cli_compare_block; else by cli_change_block alone */
    bool measure; /* --stat */
    cli_pair *pairs;
    size_t count;
    size_t *common; /* pairs whose values are compared, in the order of the cut */
    cli_cut cut;
    sft_reader *reader_a; /* while values are compared */
    sft_reader *reader_b;
    size_t read_bytes;  /* room for what is read of one at a time */
    cli_change running; /* of the pair whose blocks are being merged */
    uint64_t tally[CLI_VERDICTS];
    uint64_t metadata_changes;
    cli_states states_a; /* of steps of training runs */
    cli_states states_b;
    cli_kind_of_change kind;
    char reason[240]; /* a sentence about it; "": not asked for */
    uint32_t rank;    /* of a merged LoRA; 0: it is none */
    uint64_t both;    /* pairs that a and b have */
    uint64_t moved;   /* of them: whose values are others */
    cli_change
        overall; /* of floating-point tensors that moved; if none did, of those that were cast */
} cli_diff;

typedef void (*cli_metadata_change_fn)(cli_diff *d, void *ctx, const cli_metadata_change *x);

/* metadata.c: how many keys differ; report NULL: they are only counted. */
uint64_t cli_diff_metadata(cli_diff *d, cli_metadata_change_fn report, void *ctx);

/* renamed.c: makes pairs of tensors that only a and only b have, of one type and shape, whose values
 * are the same or much alike in a sample. False: reported. */
bool cli_diff_find_renamed(cli_diff *d);

/* rank.c: the rank of b - a of the most changed matrices. False: reported. */
bool cli_diff_find_ranks(cli_diff *d);

/* kind.c: fills kind and reason; after the values were measured. */
void cli_diff_find_kind(cli_diff *d);
const char *cli_diff_kind_word(cli_kind_of_change kind);

/* text.c. A distance or quotient of finite numbers may be more than doubles have: infinite, which is said. */
const char *cli_diff_real(char text[48], int digits, double value);
void cli_diff_text(cli_diff *d, bool same);

/* json.c: the object; its members models, tally, renamed, overall and rank. */
void cli_diff_json(cli_diff *d, bool same);
void cli_diff_put_figures(const cli_diff *d, cli_json *j);
/* Bins from the first to the last that is not empty; how many. */
size_t cli_diff_bins(const cli_change *x, size_t *first);
const char *cli_diff_verdict_word(cli_verdict verdict);

/* page.c: --report, at most max_size bytes. False: reported. */
bool cli_diff_page(cli_diff *d, bool same, uint64_t max_size, cli_out *out);

#endif
