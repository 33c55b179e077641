/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/out.h - standard output: a buffered writer that falls silent when its reader has gone,
 * escaping, a streaming JSON writer, aligned tables, sizes for people. Read cmd.h first.
 */
#ifndef SFT_CLI_OUT_H
#define SFT_CLI_OUT_H

#include <sft/catalog.h>
#include <sft/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- bytes and text */

typedef struct cli_out {
    int fd;
    struct cli_sys_file *file;    /* NULL: fd */
    struct cli_text_buffer *text; /* of text.h: all goes there; NULL: to a file */
    bool closed; /* the reader has gone, or writing failed: everything further is dropped */
    bool mute;   /* everything is dropped, as if it had been written */
    int failed;  /* errno of a failure other than a closed pipe */
    size_t used;
    char buffer[32768];
} cli_out;

void cli_put(cli_out *o, const void *data, size_t size);
void cli_puts(cli_out *o, const char *text);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_printf(cli_out *o, const char *format, ...); /* at most 1,023 bytes; nothing from files */
void cli_put_escaped(cli_out *o, const char *text, size_t len);
/* An operand as text calls it: - is standard input. */
void cli_put_name(cli_out *o, const char *operand);
void cli_put_blanks(cli_out *o, size_t count);
void cli_flush(cli_out *o);

/* Terminal columns that already escaped UTF-8 takes. */
size_t cli_width(const char *text, size_t len);
/* One character of valid UTF-8 (len >= 1): its code point and length; invalid bytes give 0xfffd, 1.
 */
uint32_t cli_decode(const char *text, size_t len, size_t *used);
/* The largest number of bytes up to `len` that ends between characters. */
size_t cli_whole_characters(const char *text, size_t len);

/* ---------------------------------------------------------------- sizes */

typedef enum cli_units { CLI_IEC, CLI_SI, CLI_PLAIN } cli_units;

/* "1.2 GiB", "1.3 GB" or "1,288,490,188" (bytes as they are). Returns text. */
const char *cli_size(char text[32], uint64_t bytes, cli_units units);
/* "124,439,808". */
const char *cli_grouped(char text[32], uint64_t value);
/* "124.4 M": with K, M, B, T as people count parameters. */
const char *cli_count_short(char text[32], uint64_t value);

/* ---------------------------------------------------------------- JSON */

/* Writes one value with ", " and ": " between; UTF-8 stays, control and deceptive characters become
 * \uXXXX, bytes that are not UTF-8 U+FFFD. At most 60 levels. */
typedef struct cli_json {
    cli_out *out;
    uint64_t filled; /* bit d: level d already has a member */
    unsigned depth;
    bool after_key;
} cli_json;

void cli_json_init(cli_json *j, cli_out *out);
void cli_json_open(cli_json *j, char bracket);  /* '{' or '[' */
void cli_json_close(cli_json *j, char bracket); /* '}' or ']' */
void cli_json_key(cli_json *j, const char *key);
void cli_json_key_text(cli_json *j, const char *key, size_t len); /* a key that came from a file */
/* A character as \uXXXX, twice that beyond 16 bits. */
void cli_json_escape(cli_out *o, uint32_t cp);
void cli_json_text(cli_json *j, const char *text, size_t len);
void cli_json_string(cli_json *j, const char *text); /* NULL: null */
void cli_json_u64(cli_json *j, uint64_t value);
void cli_json_i64(cli_json *j, int64_t value);
void cli_json_real(cli_json *j, double value); /* shortest form that reads back; NaN, Inf: null */
void cli_json_bool(cli_json *j, bool value);
void cli_json_null(cli_json *j);
void cli_json_newline(cli_json *j); /* after the outermost close */

/* A key and its value. */
void cli_json_field_open(cli_json *j, const char *key, char bracket);
void cli_json_field_text(cli_json *j, const char *key, const char *text,
                         size_t len);                                       /* NULL: null */
void cli_json_field_string(cli_json *j, const char *key, const char *text); /* NULL: null */
void cli_json_field_u64(cli_json *j, const char *key, uint64_t value);
void cli_json_field_real(cli_json *j, const char *key, double value);
void cli_json_field_bool(cli_json *j, const char *key, bool value);
void cli_json_field_offset(cli_json *j, const char *key, uint64_t offset); /* SFT_NO_OFFSET: null */
void cli_json_field_shape(cli_json *j, const char *key, const uint64_t *shape, size_t rank);
void cli_json_field_range(cli_json *j, const char *key, uint64_t begin, uint64_t end); /* [b, e] */
void cli_json_fields_of(cli_json *j, const sft_tensor *tensor); /* name, dtype, shape */
void cli_json_fields_of_error(cli_json *j,
                              const sft_error *err); /* status, offset, tensor, message */
/* The object of a command, a line of its own: begins with the number of its schema, 1. */
void cli_json_begin(cli_json *j, cli_out *out);
void cli_json_end(cli_json *j);

/* ---------------------------------------------------------------- tables */

/* Rows are kept until printed, then aligned by display width. */
typedef struct cli_table {
    size_t columns;
    const char *const *titles; /* NULL: none */
    uint32_t right;            /* bit per column: align right */
    char *text;
    size_t text_used;
    size_t text_room;
    size_t *ends; /* end of each cell in text */
    size_t cells;
    size_t cell_room;
} cli_table;

void cli_table_init(cli_table *t, size_t columns, const char *const *titles, uint32_t right);
void cli_table_text(cli_table *t, const char *text, size_t len); /* next cell; escaped */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_table_cell(cli_table *t, const char *format, ...); /* next cell; trusted text */
void cli_table_print(cli_table *t, cli_out *o, bool color); /* and resets it */
void cli_table_reset(cli_table *t);

/* ---------------------------------------------------------------- colour */

#define CLI_BOLD   "\033[1m"
#define CLI_DIM    "\033[2m"
#define CLI_RED    "\033[31m"
#define CLI_GREEN  "\033[32m"
#define CLI_YELLOW "\033[33m"
#define CLI_NORMAL "\033[0m"

/* ---------------------------------------------------------------- progress (progress.c) */

typedef struct cli_progress {
    sft_control control;
    const char *label;
    double started; /* seconds; 0: not running */
    double drawn;   /* when the line was last drawn */
    bool enabled;   /* standard error is a terminal, and not -q */
    bool visible;   /* a line is on the screen */
    bool plain;     /* no terminal: a line of its own now and then */
} cli_progress;

#endif
