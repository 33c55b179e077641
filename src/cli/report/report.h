/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/report.h - the parts of the command report: a model's description as columns and a summary
 * (docs/report.md), statistics and thumbnails from one pass over its data, and the page that shows them. Read
 * cmd.h first.
 */
#ifndef SFT_CLI_REPORT_H
#define SFT_CLI_REPORT_H

#include "cli/look/odd.h"
#include "cli/report/parts.h"
#include "cli/report/stats.h"

/* ---------------------------------------------------------------- quantised.c */

/* A module whose weight is spread over several tensors, or packed. */
typedef struct cli_quantised {
    const char *name; /* the module's: name_len bytes of a tensor's name */
    size_t name_len;
    const char *scheme;
    uint64_t shape[3]; /* of the weight as it is computed with */
    uint32_t rank;
    double bits; /* of an element, its share of a block's scales included */
    size_t members[6];
    size_t member_count;
} cli_quantised;

typedef struct cli_quantised_list {
    cli_quantised *items;
    size_t count;
    size_t room;
    uint64_t parameters; /* of the whole model: logical ones where they are known */
} cli_quantised_list;

/* config: text of config.json, or NULL. */
void cli_quantised_find(cli_quantised_list *list, const sft_catalog *catalog, const char *config,
                        size_t config_size);

/* ---------------------------------------------------------------- the report */

typedef enum cli_stats_mode { CLI_STATS_NONE, CLI_STATS_SAMPLE, CLI_STATS_FULL } cli_stats_mode;

/* What a pass found of the tensors, one behind the other, in the form of docs/report.md. */
typedef struct cli_entries {
    cli_text_buffer bytes;
    uint32_t *sizes; /* per tensor; 0: it has none */
} cli_entries;

/* What has room beside the tensors. */
typedef struct cli_beside {
    bool config;
    bool quantised; /* the list */
    size_t aliases; /* the first so many */
    cli_room metadata;
} cli_beside;

typedef struct cli_report {
    cli *c;
    const char *operand;
    char *name;         /* of the model */
    const char *format; /* NULL: is found out */
    sft_catalog *catalog;
    size_t count; /* tensors */
    cli_stats_mode mode;
    uint64_t sample;   /* elements of a tensor */
    uint64_t max_size; /* bytes of the page */
    bool served;       /* by view, which has no option for it */
    bool *wanted;      /* per tensor: has room for statistics; NULL: all have */
    bool *drawn;       /* per tensor: has room for a thumbnail; NULL: none */
    cli_entries stats;
    cli_entries heat;
    cli_oddities odd;
    struct sft_import_report **scans; /* of its files */
    size_t scan_count;
    const char *unscanned; /* NULL, or how grave it is that there was no scan */
    cli_quantised_list quantised;
    cli_beside beside;
    cli_strings left_out; /* sentences */
    cli_strings paths;    /* of its files, */
    uint64_t *stamps;     /* and what they were when it was opened */
    char *config;         /* NULL: none */
    size_t config_size;
    char *license;
} cli_report;

/* Adds a sentence to what was left out (format: printf), and warns. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_report_leave(cli_report *r, const char *format, ...);

/* model.c: opens a model; r's mode, sample and max_size are the caller's. Then what check, scan and the
 * directory say of it. False: reported. */
bool cli_report_open(cli_report *r, cli *c, const char *operand);
bool cli_report_look(cli_report *r);
void cli_report_close(cli_report *r);

/* beside.c: config.json and the licence, from the model's directory or its metadata. */
void cli_report_beside(cli_report *r);

/* pass.c: fills in stats and heat. */
sft_status cli_report_pass(cli_report *r, sft_error *err);
/* The same of one tensor, whatever is wanted and drawn: the entries' sizes are sizes[0]. */
sft_status cli_report_pass_one(cli_report *r, size_t tensor, sft_error *err);
/* Rows and columns of a thumbnail; 0: there is none. Bytes of its entry, that of the flag included. */
size_t cli_report_grid(const sft_tensor *tensor, uint32_t *rows, uint32_t *columns);
/* The entry of a tensor as JSON: null, or an object. */
void cli_report_json_stats(cli_json *j, const unsigned char *entry, size_t size);

/* columns.c */
typedef struct cli_columns {
    cli_tables tables;
    cli_text_buffer names;
    cli_text_buffer kind_ids;
    cli_text_buffer places;
} cli_columns;
void cli_columns_make(cli_columns *columns, const sft_catalog *catalog);
void cli_columns_reset(cli_columns *columns);

/* summary.c: the summary object. sections: of the columns, with offsets as they come; NULL: --json, which has
 * the tensors with their statistics instead. */
void cli_report_summary(const cli_report *r, const cli_columns *columns,
                        const cli_section *sections, cli_out *out);
/* Before it: so many bytes for metadata, config.json, other names and quantised modules; UINT64_MAX: for all
 * of them. */
void cli_report_give_room(cli_report *r, uint64_t bytes);
/* Names what of these has none; true: metadata or names could use more. */
bool cli_report_leave_beside(cli_report *r);

/* page.c: what has room, the pass, and the whole page into `out`. False: reported. */
bool cli_report_page(cli_report *r, cli_out *out);

#endif
