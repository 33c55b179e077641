/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * report.c - what JavaScript calls of the site's module alone: a model as `safetensors report` writes it into a page,
 * and the statistics and the thumbnail of one tensor, by the tool's own code (src/cli/report). Below, what that code asks
 * of a tool for a terminal. Read first: model.c, src/cli/report/report.h.
 */
#include "cli/report/report.h"
#include "cli/sys.h"
#include "cli/work.h"
#include "format/header.h"
#include "host.h"
#include "module.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 24 << 20 }; /* for metadata, configuration, other names and quantised modules */

typedef struct page {
    cli_report report;
    cli_columns columns;
    cli_text_buffer json;
    sft_error deviation; /* from the letter of the format; status SFT_OK: none */
} page;

static cli tool;
static const page *made; /* the one that is looked at */

/* ---------------------------------------------------------------- the page */

/* As far as it can be opened: parts that are missing are problems, what is against the letter of the format a finding. */
EXPORT(open_anyway) model *w_open_anyway(const char *path, options *o) {
    o->open_flags |= SFT_OPEN_STRICT | SFT_OPEN_INCOMPLETE;
    model *m = w_open(path, o);
    if (m != NULL || error.status < SFT_E_FORMAT || error.status >= SFT_E_NOT_FOUND) {
        return m;
    }
    const sft_error deviation = error;
    o->open_flags &= ~SFT_OPEN_STRICT;
    m = w_open(path, o);
    if (m != NULL) {
        m->deviation = deviation;
    }
    return m;
}

/* Room in which the text of a header is put before a file is opened; bytes 0: it is not needed any more. NULL: there is no memory. */
EXPORT(header_room) void *w_header_room(size_t bytes) {
    return keep_pages(bytes > 0 ? bytes + SFT__HEADER_SLACK : 0);
}

static void make_summary(page *p) {
    const cli_section sections[] = {{"names", p->columns.names.size},
                                    {"kinds", p->columns.kind_ids.size},
                                    {"places", p->columns.places.size},
                                    {NULL, 0}};
    cli_out *out = cli_alloc(1, sizeof *out);

    p->json.size = 0;
    out->text = &p->json;
    cli_report_give_room(&p->report, ROOM);
    cli_report_summary(&p->report, &p->columns, sections, out);
    cli_flush(out);
    free(out);
}

/* What is needed for the first view. name: the model's. beside: are config.json and README.md to be looked for? */
EXPORT(page_open) page *w_page_open(model *m, const char *path, const char *name, uint32_t beside) {
    page *p = cli_alloc(1, sizeof *p);

    p->report = (cli_report){
        .c = &tool,
        .operand = cli_copy_of(path),
        .name = cli_copy_of(name),
        .format = sft_import_format_name(m->report != NULL ? sft_import_report_format(m->report)
                                                           : SFT_IMPORT_SAFETENSORS),
        .catalog = m->catalog,
        .count = sft_catalog_count(m->catalog)};
    p->deviation = m->deviation;
    if (beside) {
        cli_report_beside(&p->report);
    }
    cli_columns_make(&p->columns, m->catalog);
    make_summary(p);
    return p;
}

/* The same with what `check` says, and with quantised weights. 0: the error says why not. */
EXPORT(page_look) int32_t w_page_look(page *p) {
    cli_report *r = &p->report;

    made = p;
    r->odd.count = 0;
    if (cli_odd_find(&tool, r->operand, r->catalog, true, &r->odd, &error) != SFT_OK) {
        return 0;
    }
    if (r->quantised.items == NULL) {
        cli_quantised_find(&r->quantised, r->catalog, r->config, r->config_size);
    }
    cli_report_give_room(r, ROOM);
    (void)cli_report_leave_beside(r);
    make_summary(p);
    return 1;
}

typedef struct bytes {
    const char *data;
    size_t size;
} bytes;

/* Where the summary and the three sections lie until the next call of page_look. */
EXPORT(page_parts) void w_page_parts(const page *p, bytes out[4]) {
    const cli_text_buffer *const parts[] = {&p->json, &p->columns.names, &p->columns.kind_ids,
                                            &p->columns.places};

    for (size_t i = 0; i < 4; i++) {
        out[i] = (bytes){parts[i]->data, parts[i]->size};
    }
}

/* The columns are with JavaScript: only tensors are asked for from now on. */
EXPORT(page_forget) void w_page_forget(page *p) {
    cli_columns_reset(&p->columns);
    memset(&p->columns, 0, sizeof p->columns);
}

/* Entries of a tensor as in the sections stats and heat; sample: values that are looked at, 0: all. */
EXPORT(page_tensor) int32_t w_page_tensor(page *p, size_t i, double sample, bytes out[2]) {
    cli_report *r = &p->report;

    free(r->stats.bytes.data);
    free(r->heat.bytes.data);
    free(r->stats.sizes);
    free(r->heat.sizes);
    memset(&r->stats, 0, sizeof r->stats);
    memset(&r->heat, 0, sizeof r->heat);
    r->mode = sample > 0 ? CLI_STATS_SAMPLE : CLI_STATS_FULL;
    r->sample = (uint64_t)sample;
    if (i >= r->count || cli_report_pass_one(r, i, &error) != SFT_OK) {
        return 0;
    }
    out[0] = (bytes){r->stats.bytes.data, r->stats.bytes.size};
    out[1] = (bytes){r->heat.bytes.data, r->heat.bytes.size};
    return 1;
}

/* ---------------------------------------------------------------- what the tool's code asks for */

static void *or_stop(void *room) {
    if (room == NULL) {
        __builtin_trap(); /* and JavaScript says so */
    }
    return room;
}

void *cli_alloc(size_t count, size_t size) {
    return or_stop(calloc(count > 0 ? count : 1, size > 0 ? size : 1));
}

void *cli_resize(void *ptr, size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) {
        __builtin_trap();
    }
    return or_stop(realloc(ptr, count * size > 0 ? count * size : 1));
}

/* The model was opened strictly first: what that said is the answer. */
sft_status cli_open_quietly(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                            sft_error *err) {
    (void)c, (void)operand, (void)flags;
    *out = NULL;
    *err = made->deviation;
    return err->status;
}

void cli_report_leave(cli_report *r, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!cli_strings_have(&r->left_out, text)) { /* page_look may come again */
        cli_strings_take(&r->left_out, cli_copy_of(text));
    }
}

cli_kind cli_sys_kind(const char *path) {
    sft_source *source;

    if (path[0] == '.' && path[1] == '\0') {
        return CLI_KIND_DIRECTORY;
    }
    if (sft_source_open(&source, path, SFT_ACCESS_READ, NULL, NULL) != SFT_OK) {
        return CLI_KIND_NONE;
    }
    sft_source_close(source);
    return CLI_KIND_FILE;
}

/* Without the C library's, which brings streams along. */
double strtod(const char *restrict text, char **restrict end) {
    if (end != NULL) {
        __builtin_trap(); /* nobody asks */
    }
    return host_real_of(text, strlen(text));
}

bool cli_sys_is_link(const char *path) {
    (void)path;
    return false; /* what is chosen is a file */
}

char *cli_sys_real(const char *path) {
    (void)path;
    return NULL; /* of links alone */
}

/* For the seed of a table whose keys a file chooses. */
double cli_sys_now(void) {
    double seed;

    host_random(&seed, sizeof seed);
    return seed;
}

int cli_sys_write(int fd, const void *data, size_t size) {
    (void)fd, (void)data, (void)size;
    return 1;
}

int cli_sys_put(struct cli_sys_file *file, const void *data, size_t size) {
    (void)file;
    return cli_sys_write(0, data, size);
}

static int32_t go_on(void *ctx, const sft_progress *progress) {
    (void)ctx, (void)progress;
    return 0;
}

const sft_control *cli_control(cli *c, const char *label) {
    static const sft_control control = {.poll = go_on};

    (void)c, (void)label;
    return &control;
}

void cli_control_end(cli *c) {
    (void)c;
}

bool cli_stopped(const cli *c) {
    (void)c;
    return false;
}

const sft_pool *cli_pool(cli *c) {
    (void)c;
    return NULL;
}
