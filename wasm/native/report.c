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

/* How far the columns have been read. */
typedef struct reading {
    size_t tensors;
    const unsigned char *name;
    const unsigned char *kind;
    const unsigned char *place;
    uint32_t *holes; /* of each template: the numbers in its names */
    uint64_t end;    /* of the last tensor */
    uint32_t file;
} reading;

typedef struct page {
    cli_report report;
    cli_columns columns;
    reading read;
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

/* Where the summary and the names lie until the next call of page_look. */
EXPORT(page_parts) void w_page_parts(const page *p, bytes out[2]) {
    out[0] = (bytes){p->json.data, p->json.size};
    out[1] = (bytes){p->columns.names.data, p->columns.names.size};
}

static uint32_t *holes_of(const cli_ids *templates) {
    uint32_t *const holes = cli_alloc(templates->count, sizeof *holes);

    for (size_t i = 0; i < templates->count; i++) {
        size_t size;
        const unsigned char *part = (const unsigned char *)cli_id_text(templates, i, &size);
        for (const unsigned char *const end = part + size;;) {
            const size_t len = (size_t)cli_get_leb(&part);
            part += len;
            if (part == end) {
                break;
            }
            holes[i]++;
        }
    }
    return holes;
}

/* Mostly one byte. */
static inline uint64_t get_leb(const unsigned char **at) {
    return **at < 128 ? *(*at)++ : cli_get_leb(at);
}

/* Of the next `room` tensors at most: where each lies in its file, its template, where its numbers begin in the names, its kind, its
 * file. Each array has so much room. How many they are; 0: there are no more. */
EXPORT(page_columns)
size_t w_page_columns(page *p, size_t room, double *offsets, uint32_t *templates, uint32_t *starts,
                      uint32_t *kinds, uint32_t *files) {
    const cli_columns *k = &p->columns;
    reading r = p->read;
    size_t n = 0;

    if (r.tensors == 0) {
        r = (reading){.name = (const unsigned char *)k->names.data,
                      .kind = (const unsigned char *)k->kind_ids.data,
                      .place = (const unsigned char *)k->places.data,
                      .holes = holes_of(&k->tables.templates),
                      .file = UINT32_MAX};
    }
    for (; n < room && r.tensors < p->report.count; n++, r.tensors++) {
        kinds[n] = (uint32_t)get_leb(&r.kind);
        templates[n] = (uint32_t)get_leb(&r.name);
        starts[n] = (uint32_t)(r.name - (const unsigned char *)k->names.data);
        for (uint32_t h = r.holes[templates[n]]; h > 0; h -= *r.name++ < 128) {
        }
        files[n] = (uint32_t)get_leb(&r.place);
        const uint64_t step = get_leb(&r.place);
        r.end = (files[n] == r.file ? r.end : 0) + (step >> 1 ^ (0 - (step & 1)));
        r.file = files[n];
        offsets[n] = (double)r.end;
        r.end += sft_catalog_at(p->report.catalog, r.tensors)->nbytes;
    }
    p->read = r;
    return n;
}

/* The columns are with JavaScript: only tensors are asked for from now on. */
EXPORT(page_forget) void w_page_forget(page *p) {
    cli_columns_reset(&p->columns);
    memset(&p->columns, 0, sizeof p->columns);
    free(p->read.holes);
    memset(&p->read, 0, sizeof p->read);
}

static int32_t count_tensor(cli_report *r, size_t i, double sample, bytes out[2]) {
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

/* Entries of a tensor as in the sections stats and heat; sample: values that are looked at, 0: all. */
EXPORT(page_tensor) int32_t w_page_tensor(page *p, size_t i, double sample, bytes out[2]) {
    return count_tensor(&p->report, i, sample, out);
}

/* The same of the first tensor of a model without a page. */
EXPORT(first_tensor) int32_t w_first_tensor(const model *m, double sample, bytes out[2]) {
    static cli_report alone = {.c = &tool};

    alone.catalog = m->catalog;
    alone.count = sft_catalog_count(m->catalog);
    return count_tensor(&alone, 0, sample, out);
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

const char *cli_text(const cli *c, const char *name) {
    (void)c;
    (void)name;
    return NULL;
}

const sft_pool *cli_pool(cli *c) {
    (void)c;
    return NULL;
}
