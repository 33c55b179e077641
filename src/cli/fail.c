/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/fail.c - errors, warnings and the exit status. Everything goes to standard error in one
 * shape, and everything that may come from a file or an argument is escaped. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/group.h"
#include "cli/sys.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STDERR_FD = 2, LINE_MAX_BYTES = 4096 };

void cli_answer(cli *c, int status) {
    c->status = status > c->status ? status : c->status;
}

int cli_status_of(int32_t status) {
    switch (status) {
    case SFT_OK:
        return CLI_OK;
    case SFT_E_ARG:
    case SFT_E_UNSUPPORTED:
        return CLI_USAGE;
    case SFT_E_NOMEM:
    case SFT_E_IO:
    case SFT_E_TRUNCATED:
    case SFT_E_CHANGED:
    case SFT_E_HTTP:
    case SFT_E_NOT_COMMITTED:
    case SFT_E_DURABILITY:
    case SFT_E_EXISTS:
    case SFT_E_NOT_REGULAR:
    case SFT_E_TIMEOUT:
        return CLI_SYSTEM;
    case SFT_E_STATE:
    case SFT_E_INTERNAL:
        return CLI_DEFECT;
    case SFT_E_CANCELLED:
        return CLI_STOPPED;
    default: /* limits, refused paths, everything wrong with a file, every no */
        return CLI_NO;
    }
}

typedef struct line {
    size_t used;
    char text[LINE_MAX_BYTES];
} line;

static void add(line *l, const char *text) {
    const size_t room = sizeof l->text - 1 - l->used;
    const size_t len = strlen(text);
    const size_t n = len < room ? len : room;
    memcpy(l->text + l->used, text, n);
    l->used += n;
}

static void add_escaped(line *l, const char *text) {
    char escaped[1024];
    (void)sft_escape(escaped, sizeof escaped, text, strlen(text));
    add(l, escaped);
}

/* The message without the file's name, which the line begins with already: "cannot open x: ...", "x
 * is a directory". */
static void add_message(line *l, const char *message, const char *file) {
    char name[1024];
    char start[sizeof((sft_error *)NULL)->message];

    (void)sft_escape(name, sizeof name, file != NULL ? file : "", file != NULL ? strlen(file) : 0);
    const size_t len = strlen(name);
    const char *found = len > 0 ? strstr(message, name) : NULL;
    if (found == message && message[len] == ' ') {
        add(l, message + len + 1);
    } else if (found == message && message[len] == ':' && message[len + 1] == ' ') {
        add(l, message + len + 2);
    } else if (found != NULL && found != message && found[-1] == ' ' &&
               (found[len] == ':' || found[len] == '\0')) {
        const size_t before = (size_t)(found - message) - 1;
        memcpy(start, message, before);
        start[before] = '\0';
        add(l, start);
        add(l, found + len);
    } else {
        add(l, message);
    }
}

static void add_start(const cli *c, line *l, const char *file) {
    l->used = 0;
    add(l, c->color_error ? CLI_BOLD : "");
    add(l, c->program);
    add(l, c->color_error ? ":" CLI_NORMAL " " : ": ");
    cli_group_name(c, l->text + l->used, sizeof l->text - l->used);
    l->used += strlen(l->text + l->used);
    if (file != NULL) {
        add_escaped(l, strcmp(file, "-") == 0 ? "standard input" : file);
        add(l, ": ");
    }
}

/* Data that came before goes first, so that both read in order on one terminal. */
static void say(cli *c, line *l) {
    cli_flush(&c->out);
    cli_control_end(c);
    l->text[l->used] = '\n'; /* add() leaves one byte */
    if (cli_group_keep(c, l->text, l->used + 1)) {
        return;
    }
    (void)cli_sys_write(STDERR_FD, l->text, l->used + 1);
}

static void add_format(line *l, const char *format, va_list args) {
    char text[1024];
    char escaped[2048];
    const int n = vsnprintf(text, sizeof text, format, args);
    const size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;

    (void)sft_escape(escaped, sizeof escaped, text, len);
    add(l, escaped);
}

void cli_advise(cli *c, const char *hint) {
    line l;
    l.used = 0;
    add(&l, c->color_error ? CLI_GREEN "hint:" CLI_NORMAL " " : "hint: ");
    add(&l, hint);
    say(c, &l);
}

void cli_fail_plainly(cli *c, const char *file, const sft_error *err) {
    line l;
    char number[64];
    const int status = cli_status_of(err->status);

    cli_answer(c, status);
    if (c->first.status == SFT_OK) {
        c->first = *err;
    }
    if (status == CLI_STOPPED || (err->status == SFT_E_IO && cli_sys_closed_pipe(err->sys))) {
        return; /* who interrupts, or closes the pipe that we write to, needs no telling */
    }
    add_start(c, &l, file);
    if (err->offset != SFT_NO_OFFSET) {
        (void)snprintf(number, sizeof number, "at byte %llu: ", (unsigned long long)err->offset);
        add(&l, number);
    }
    if (err->tensor[0] != '\0') {
        add(&l, "tensor \"");
        add(&l, err->tensor);
        add(&l, "\": ");
    }
    add_message(&l, err->message, file);
    say(c, &l);
}

void cli_fail(cli *c, const char *file, const sft_error *err) {
    char hint[512];

    cli_fail_plainly(c, file, err);
    cli_hint(file, err, hint, sizeof hint);
    if (hint[0] != '\0') {
        cli_advise(c, hint);
    }
}

sft_status cli_error_io(sft_error *err, int error, const char *what) {
    char text[160];
    return sft_error_set(err, SFT_E_IO, error, "%s: %s", what,
                         cli_sys_text(error, text, sizeof text));
}

void cli_fail_io(cli *c, const char *file, int error, const char *what) {
    sft_error err;
    (void)cli_error_io(&err, error, what);
    cli_fail_plainly(c, file, &err);
}

void cli_usage(cli *c, const char *format, ...) {
    line l;
    va_list args;

    cli_answer(c, CLI_USAGE);
    add_start(c, &l, NULL);
    if (c->command != NULL) {
        add(&l, c->command->name);
        add(&l, ": ");
    }
    va_start(args, format);
    add_format(&l, format, args);
    va_end(args);
    say(c, &l);
    l.used = 0;
    add(&l, "see safetensors ");
    add(&l, c->command != NULL ? c->command->name : "");
    add(&l, c->command != NULL ? " --help" : "--help");
    l.text[l.used] = '\0';
    cli_advise(c, l.text);
}

void cli_warn(cli *c, const char *file, const char *format, ...) {
    line l;
    va_list args;

    if (c->quiet) {
        return;
    }
    add_start(c, &l, file);
    add(&l, c->color_error ? CLI_YELLOW "warning:" CLI_NORMAL " " : "warning: ");
    va_start(args, format);
    add_format(&l, format, args);
    va_end(args);
    say(c, &l);
}

void cli_note(cli *c, const char *file, const char *format, ...) {
    line l;
    va_list args;

    if (!c->verbose) {
        return;
    }
    add_start(c, &l, file);
    va_start(args, format);
    add_format(&l, format, args);
    va_end(args);
    say(c, &l);
}

static void *or_die(void *ptr) {
    static const char text[] = "safetensors: out of memory\n";
    if (ptr == NULL) {
        (void)cli_sys_write(STDERR_FD, text, sizeof text - 1);
        exit(CLI_SYSTEM);
    }
    return ptr;
}

void *cli_resize(void *ptr, size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) {
        return or_die(NULL);
    }
    return or_die(realloc(ptr, count * size > 0 ? count * size : 1));
}

void *cli_alloc(size_t count, size_t size) {
    return or_die(calloc(count > 0 ? count : 1, size > 0 ? size : 1));
}

static void *plain_alloc(void *ctx, size_t size) {
    (void)ctx;
    return cli_alloc(size, 1);
}

static void *plain_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    (void)ctx;
    (void)old_size;
    return cli_resize(ptr, new_size, 1);
}

static void plain_free(void *ctx, void *ptr, size_t size) {
    (void)ctx;
    (void)size;
    free(ptr);
}

const sft_allocator *cli_allocator(void) {
    static const sft_allocator plain = {plain_alloc, plain_resize, plain_free, NULL};
    return &plain;
}
