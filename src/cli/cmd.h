/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/cmd.h - what every command of the tool is made of. The tool knows the public headers only.
 *
 * To add a command:
 *  1. Write commands/<verb>.c with a static table of cli_opt (CLI_OPT_END closes it), a static
 *     `void run(cli *c)`, and one `const cli_command cli_cmd_<verb>` that names both.
 *  2. Declare it below ("commands") and put it into the table in main.c. Parser, --help, manual
 *     page and completion follow from the tables; nothing else is to be registered.
 *  3. Operands are c->operands[0 .. operand_count); "-" is standard input. Open with cli_open(),
 *     which reports by itself (message, hint, exit status): on false go on with the next operand.
 *  4. Data goes out with cli_put*, cli_json_* (out.h) or a cli_table; every string that came from a
 *     file through cli_put_escaped, cli_table_text or cli_json_text. Talk goes to standard error
 *     with cli_warn and cli_note.
 *  5. Pass cli_control(c, "label") to long operations (Ctrl-C, progress), cli_control_end(c) after
 *     them, or use cli_run_job (work.h). Loops over many things ask cli_stopped(c) now and then.
 *  6. Failures: cli_fail(c, file, &err), or cli_answer(c, CLI_NO); the worst exit status wins.
 *     Wrong usage: cli_usage(c, "..."), then return.
 *  7. Add golden runs in tests/cli/<theme>/ (tests/cli/README.md).
 */
#ifndef SFT_CLI_CMD_H
#define SFT_CLI_CMD_H

#include "cli/ui/out.h"
#include <sft/extend.h>
#include <sft/sft.h>
#include <stdbool.h>
#include <stdint.h>

/* ---------------------------------------------------------------- exit status, from good to bad */

enum {
    CLI_OK = 0,
    CLI_NO = 1,       /* the answer is no: invalid, different, missing */
    CLI_USAGE = 2,    /* the command line makes no sense */
    CLI_SYSTEM = 3,   /* system, network or write failure */
    CLI_DEFECT = 4,   /* a defect of the tool or the library */
    CLI_STOPPED = 130 /* interrupted */
};

/* ---------------------------------------------------------------- options */

typedef enum cli_opt_type {
    CLI_FLAG,   /* no argument */
    CLI_TEXT,   /* the last one counts */
    CLI_LIST,   /* may be repeated: all count */
    CLI_FILE,   /* as CLI_TEXT; completes file names */
    CLI_NUMBER, /* decimal integer */
    CLI_BYTES,  /* integer with an optional K, M, G, T, KiB, kB ... */
    CLI_REAL,   /* decimal fraction, never NaN or negative */
    CLI_CHOICE  /* one word of a "a|b|c" list */
} cli_opt_type;

typedef struct cli_opt {
    const char *name; /* long name without dashes; NULL ends a table */
    char letter;      /* short name, or 0 */
    cli_opt_type type;
    const char *arg;     /* what --help calls the argument; NULL for flags */
    const char *choices; /* CLI_CHOICE only: "a|b|c" */
    const char *help;    /* one sentence fragment, lower case, no full stop */
} cli_opt;

#define CLI_OPT_FLAG(name, letter, help)           {name, letter, CLI_FLAG, NULL, NULL, help}
#define CLI_OPT_ARG(type, name, letter, arg, help) {name, letter, type, arg, NULL, help}
#define CLI_OPT_CHOICE(name, letter, arg, choices, help)                                           \
    {name, letter, CLI_CHOICE, arg, choices, help}
/* Rows that tables of several commands have. */
#define CLI_CHOOSE_OPTIONS                                                                         \
    CLI_OPT_ARG(CLI_LIST, "select", 's', "PATTERN", "only tensors that match; may be repeated"),   \
        CLI_OPT_ARG(CLI_LIST, "drop", 'd', "PATTERN", "not tensors that match; may be repeated")
#define CLI_PLAN_OPTIONS                                                                           \
    CLI_OPT_FLAG("plan", 'n', "say what would be done, and do nothing"),                           \
        CLI_OPT_FLAG("dry-run", 0, "the same as --plan")
#define CLI_OPT_END {NULL, 0, CLI_FLAG, NULL, NULL, NULL}

/* Options that several commands share: a command asks for them with these bits; --help, --quiet,
 * --verbose and --color belong to every command. */
#define CLI_WITH_JSON   1u  /* --json; result in c->json */
#define CLI_WITH_OUTPUT 2u  /* -o, --output FILE: cli_text(c, "output") */
#define CLI_WITH_FORCE  4u  /* -f, --force: c->force */
#define CLI_WITH_LIMITS 8u  /* --max-header-bytes: cli_open() obeys */
#define CLI_WITH_JOBS   16u /* -j, --jobs: cli_pool() obeys */
#define CLI_WITH_SIZES  32u /* --iec, --si, --bytes: cli_put_size() obeys */
#define CLI_WITH_IMPORT 64u /* --key, --dedup, --allow-opaque, --no-crc: cli_open() obeys */
#define CLI_WITH_REMOTE                                                                            \
    128u /* --connections, --block-cache, --allow-http, --offline: url.c obeys */
#define CLI_WITH_EXPLAIN 256u  /* --explain: cli_open() obeys */
#define CLI_WITH_RANKS   512u  /* --layout, --step, --partial: cli_open() obeys (ranks.c) */
#define CLI_NO_STDIN     2048u /* no option: - is no operand */
#define CLI_WITH_GROUP   1024u /* no option: safetensors-mpi has this command (group.h) */

/* ---------------------------------------------------------------- commands */

typedef struct cli cli;

typedef struct cli_command {
    const char *name;
    const char *operands;    /* for the usage line: "FILE..." */
    const char *summary;     /* one line, lower case, no full stop */
    const char *description; /* paragraphs apart by "\n\n"; for --help and the man page */
    const char *examples;    /* one per line, "command # what it does"; may be NULL */
    const cli_opt *options;
    uint32_t common; /* CLI_WITH_* */
    uint32_t min_operands;
    uint32_t max_operands; /* CLI_MANY: no limit */
    void (*run)(cli *c);
    const char *words; /* first operand is one of these words, for completion; NULL: files */
} cli_command;
#define CLI_MANY UINT32_MAX

extern const cli_command *const cli_commands[]; /* ends with NULL */
extern const cli_command cli_cmd_check;
extern const cli_command cli_cmd_completion;
extern const cli_command cli_cmd_convert;
extern const cli_command cli_cmd_cp;
extern const cli_command cli_cmd_dedupe;
extern const cli_command cli_cmd_diff;
extern const cli_command cli_cmd_expand;
extern const cli_command cli_cmd_fetch;
extern const cli_command cli_cmd_get;
extern const cli_command cli_cmd_hash;
extern const cli_command cli_cmd_help;
extern const cli_command cli_cmd_join;
extern const cli_command cli_cmd_layout;
extern const cli_command cli_cmd_ls;
extern const cli_command cli_cmd_mem;
extern const cli_command cli_cmd_meta;
extern const cli_command cli_cmd_report;
extern const cli_command cli_cmd_reshard;
extern const cli_command cli_cmd_resume_point;
extern const cli_command cli_cmd_run;
extern const cli_command cli_cmd_scan;
extern const cli_command cli_cmd_show;
extern const cli_command cli_cmd_slice;
extern const cli_command cli_cmd_split;
extern const cli_command cli_cmd_verify;
extern const cli_command cli_cmd_view;

typedef struct cli_value {
    const cli_opt *opt;
    const char *text;
    uint64_t number;
    double real;
} cli_value;

struct cli {
    const cli_command *command;
    char **operands;
    size_t operand_count;
    cli_value *values; /* options in the order given */
    size_t value_count;
    cli_out out; /* standard output */
    bool json;
    bool quiet;
    bool verbose;
    bool force;
    bool color;       /* colour on standard output */
    bool color_error; /* and on standard error */
    cli_units units;
    int status;  /* worst so far */
    bool proved; /* what was read was compared with its files before it was published */
    sft_pool *pool;
    cli_progress progress;
    struct sft_remote *remote; /* of url.c; NULL until a URL is opened */
    sft_pool *askers;          /* of url.c: many URLs are asked at once, which takes no processor */
    sft_control remote_control;
    sft_source *stdin_bytes;    /* of open.c: a pipe's, read once */
    struct cli_secret *secrets; /* of url.c: URLs that hold some */
    sft_catalog *unnamed;       /* what --names was applied to; a borrow */
    sft_catalog *unchosen; /* what --select and its like were applied to, before that; a borrow */
    struct sft_import_report **reports; /* of lost.c: about operands of other formats */
    size_t report_count;
    bool other_formats; /* an operand is of another format, with or without something to report */
    struct cli_left *left; /* of lost.c: what the tool itself leaves behind */
    size_t left_count;
    struct cli_unmatched *unmatched; /* of lost.c: tensors that no rule of --names matches */
    size_t unmatched_count;
    struct cli_kept *kept; /* of kept.h */
    size_t kept_count;
    char *config; /* of names.c: the text of --config, where models are written anew */
    size_t config_size;
    uint64_t viewed;                       /* which of the first 64 --view-as have met a tensor */
    const char *program;                   /* what messages begin with */
    const struct cli_processes *processes; /* of group.c; NULL: this is the only process */
    bool met;                              /* the group's job has been run, or has failed */
    sft_error first;                       /* failure that was told; status SFT_OK: none */
    char *said;                            /* messages of a group's process, until the end */
    size_t said_size;
};

/* ---------------------------------------------------------------- opt.c */

/* Fills c from the arguments after the command's name. False: a usage error was printed. */
bool cli_parse(cli *c, int argc, char **argv);
/* The n-th option of a command, common ones included; NULL past the end. */
const cli_opt *cli_option_at(const cli_command *command, size_t n);

bool cli_flag(const cli *c, const char *name);
const char *cli_text(const cli *c, const char *name); /* NULL if not given; CHOICE and FILE too */
const char *cli_list(const cli *c, const char *name, size_t nth);        /* NULL past the end */
uint64_t cli_number(const cli *c, const char *name, uint64_t otherwise); /* NUMBER and BYTES */
double cli_real(const cli *c, const char *name, double otherwise);
sft_limits cli_limits(const cli *c); /* what CLI_WITH_LIMITS was given */

/* Closest of `count` words (by edits, at most 2 and under half the length), or NULL. */
const char *cli_closest(const char *word, const char *const *words, size_t count);
/* "12", "4K", "64MiB", "2GB"; K, M, G, T alone are powers of 1,024. */
bool cli_parse_bytes(const char *text, bool units, uint64_t *value);

/* ---------------------------------------------------------------- fail.c */

void cli_answer(cli *c, int status); /* raises the exit status to this one, if it is worse */
int cli_status_of(int32_t status);   /* exit status for a sft_status */

/* safetensors: FILE: at byte N: tensor "x": message, and a hint: line where the cause can be
 * guessed. Sets the exit status. file: operand, or NULL. */
void cli_fail(cli *c, const char *file, const sft_error *err);
/* The same without a hint: for files that are not meant to be safetensors. */
void cli_fail_plainly(cli *c, const char *file, const sft_error *err);
/* The same of what the tool finds itself: a status, and a message as for printf. */
#define CLI_FAIL(c, file, status, ...)                                                             \
    do {                                                                                           \
        sft_error fail_err;                                                                        \
        (void)CLI_ERROR(&fail_err, status, __VA_ARGS__);                                           \
        cli_fail_plainly(c, file, &fail_err);                                                      \
    } while (0)
/* An error without a place; gives its status. */
#define CLI_ERROR(err, status, ...) sft_error_set(err, status, 0, __VA_ARGS__)
/* SFT_E_IO, "WHAT: the system's text for the error"; and the same as a failure of a file. */
sft_status cli_error_io(sft_error *err, int error, const char *what);
void cli_fail_io(cli *c, const char *file, int error, const char *what);
/* safetensors: COMMAND: message; sets exit status 2. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_usage(cli *c, const char *format, ...);
/* hint: TEXT, which may be several lines. */
void cli_advise(cli *c, const char *hint);
/* Is it a file that an option names to be read? Reported: exit status 2. */
bool cli_over_read(cli *c, const char *output);
/* safetensors: FILE: warning: message. Not with -q. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void cli_warn(cli *c, const char *file, const char *format, ...);
/* safetensors: FILE: message; only with -v. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void cli_note(cli *c, const char *file, const char *format, ...);
/* The hint for an error of this file, "" if there is none. Reads the file's first bytes. */
void cli_hint(const char *file, const sft_error *err, char *hint, size_t cap);

/* Memory that the tool cannot go on without: prints and exits with 3. */
void *cli_alloc(size_t count, size_t size);
void *cli_resize(void *ptr, size_t count, size_t size);
/* The same for the library: what comes of it goes with free(). */
const sft_allocator *cli_allocator(void);

/* ---------------------------------------------------------------- open.c */

/* File, directory, index, URL or "-"; what is no safetensors is opened by libsafetensors-import, if it
 * knows it. flags: SFT_OPEN_*. On failure the error is reported, *out NULL. */
bool cli_open(cli *c, const char *operand, uint32_t flags, sft_catalog **out);
/* Of what was opened so: says so (exit status 3) if a file was written to meanwhile, and what was told of
 * it is neither of what it was nor of what it is; not if c->proved. NULL is fine. */
void cli_close(cli *c, sft_catalog *catalog);
/* Standard input as bytes: the file itself if it is one, else read to its end. */
sft_status cli_stdin_source(cli *c, sft_source **out, sft_error *err);
bool cli_reads_stdin(const cli *c); /* one of the operands is - */
void cli_stdin_end(cli *c);
/* A checkpoint of ranks whose layout is in the file `layout`, for `ranks` ranks where that does not say
 * (ranks.c). */
sft_status cli_open_sharded(cli *c, const char *operand, const char *layout, uint64_t ranks,
                            sft_catalog **out, sft_error *err);

/* cli_open without a word. */
sft_status cli_open_quietly(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                            sft_error *err);
/* Workers for --jobs; NULL for one. Made on first use, freed by main. */
const sft_pool *cli_pool(cli *c);
/* Features of the processor that SFT_CPU leaves out, for SFT_CONVERT_WITHOUT and sft_sha256; 0: none. */
uint32_t cli_without(cli *c);

/* sft_glob_match with a pattern that is a C string. */
bool cli_match(const char *pattern, const char *name, size_t name_len);

/* ---------------------------------------------------------------- tensor.c */

enum { CLI_SHAPE_ROOM = 512 };
/* "[2, 3]"; beyond 16 dimensions the rest is only counted. Returns text. */
const char *cli_shape(char text[CLI_SHAPE_ROOM], const uint64_t *shape, uint32_t rank);
uint64_t cli_elements(const sft_tensor *tensor); /* product of the shape */
/* Is the catalog one file, the operand itself? Otherwise tensors are told with their files. */
bool cli_is_single(const sft_catalog *catalog, const char *operand);
/* Path of a file of the catalog without the directory that the operand names. */
const char *cli_relative(const sft_file *file, const char *operand);
/* Warns of everything that an index and its directory disagree about; missing parts give exit
 * status 1. */
void cli_warn_problems(cli *c, const sft_catalog *catalog, const char *operand);

/* ---------------------------------------------------------------- progress.c */

/* For one long operation: cancels it on Ctrl-C, and draws progress on a terminal after one second.
 */
const sft_control *cli_control(cli *c, const char *label);
void cli_control_end(cli *c);
/* Interrupted, or nobody reads our output any more. */
bool cli_stopped(const cli *c);

/* ---------------------------------------------------------------- help.c, man.c, completion.c */

void cli_help(cli *c, const cli_command *command); /* NULL: overview */
void cli_man(cli *c, const cli_command *command);  /* NULL: safetensors(1) */
const cli_command *cli_command_find(const char *name);

#endif
