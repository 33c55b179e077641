/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/values.c - see values.h. Small views are read whole; of large ones only the corners are read,
 * unless everything is asked for: then values stream through one block.
 */
#include "cli/ui/values.h"
#include "cli/sys.h"
#include "cli/work.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THRESHOLD = 1000,         /* values printed without summary, as numpy does */
    EDGE = 3,                 /* values shown at each end */
    LOADED_MOST = 1 << 16,    /* values of a summary */
    SUBBYTE_MOST = 1 << 20,   /* values of a type below a byte that are loaded for printing */
    BLOCK_ELEMENTS = 1 << 15, /* streamed */
    WIDEST_RANK = 64
};

/* ---------------------------------------------------------------- numbers */

static bool same_real(double a, double b) {
    return !(a < b) && !(a > b);
}

/* value after rounding to the type; types below a byte are exact in few digits anyway */
static double rounded(double value, const sft_dtype *dtype) {
    unsigned char bits[8];
    double back;
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);

    if (dtype == NULL || dtype->id == SFT_F64 || dtype->kind != SFT_KIND_FLOAT ||
        dtype->block_elements != 1 || dtype->block_bytes > 4) {
        return value;
    }
    if (dtype->id == SFT_F32) {
        return (double)(float)value;
    }
    if (sft_convert(bits, &value, 1, &(sft_cast){dtype, f64, SFT_CONVERT_HOST_SRC}, NULL) !=
            SFT_OK ||
        sft_convert(&back, bits, 1, &(sft_cast){f64, dtype, SFT_CONVERT_HOST_DST}, NULL) !=
            SFT_OK) {
        return value;
    }
    return back;
}

const char *cli_real_text(char text[48], double value, const sft_dtype *dtype) {
    if (!isfinite(value)) {
        (void)snprintf(text, 48, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return text;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, 40, "%.*g", digits, value);
        if (same_real(rounded(strtod(text, NULL), dtype), value)) {
            break;
        }
    }
    if (strchr(text, 'e') != NULL && fabs(value) < 1e15 && fabs(value) >= 1) {
        (void)snprintf(text, 48, "%.1f", value); /* an integer: fewer digits than places */
    } else if (strpbrk(text, ".e") == NULL) {
        (void)snprintf(text + strlen(text), 8, ".0");
    }
    return text;
}

static uint64_t load_bits(const unsigned char *p, size_t bytes) {
    uint64_t v = 0;
    for (size_t i = bytes; i > 0; i--) {
        v = v << 8 | p[i - 1];
    }
    return v;
}

static int64_t load_signed(const unsigned char *p, size_t bytes) {
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    const uint64_t v = load_bits(p, bytes);
    return (v & sign) == 0 ? (int64_t)v : -(int64_t)((~v) & (sign - 1)) - 1;
}

const sft_dtype *cli_number_type(const sft_dtype *t) {
    return t->kind != SFT_KIND_COMPLEX ? t
                                       : sft_dtype_get(t->block_bytes == 4    ? SFT_F16
                                                       : t->block_bytes == 16 ? SFT_F64
                                                                              : SFT_F32);
}

static void load_parts(double parts[2], const sft_dtype *dtype, const void *data) {
    const sft_cast cast = {sft_dtype_get(SFT_F64), cli_number_type(dtype), SFT_CONVERT_HOST_DST};

    parts[0] = parts[1] = 0;
    (void)!sft_convert(parts, data, 2, &cast, NULL);
}

static const char *complex_text(char text[CLI_ELEMENT_TEXT], const sft_dtype *dtype,
                                const void *data) {
    const sft_dtype *part = cli_number_type(dtype);
    double parts[2];
    char re[48];
    char im[48];

    load_parts(parts, dtype, data);
    cli_real_text(im, fabs(parts[1]), part);
    (void)snprintf(text, CLI_ELEMENT_TEXT, "%s%s%sj", cli_real_text(re, parts[0], part),
                   signbit(parts[1]) && !isnan(parts[1]) ? "-" : "+", im);
    return text;
}

const char *cli_element_text(char text[CLI_ELEMENT_TEXT], const sft_dtype *dtype,
                             const void *data) {
    double value = 0;

    switch (dtype->kind) {
    case SFT_KIND_BOOL:
        (void)snprintf(text, CLI_ELEMENT_TEXT, "%s",
                       *(const unsigned char *)data != 0 ? "true" : "false");
        return text;
    case SFT_KIND_UINT:
        (void)snprintf(text, CLI_ELEMENT_TEXT, "%llu",
                       (unsigned long long)load_bits(data, dtype->block_bytes));
        return text;
    case SFT_KIND_INT:
        (void)snprintf(text, CLI_ELEMENT_TEXT, "%lld",
                       (long long)load_signed(data, dtype->block_bytes));
        return text;
    case SFT_KIND_COMPLEX:
        return complex_text(text, dtype, data);
    default:
        break;
    }
    if (dtype->block_elements != 1) {
        memcpy(&value, data, sizeof value);
    } else {
        (void)!sft_convert(&value, data, 1,
                           &(sft_cast){sft_dtype_get(SFT_F64), dtype, SFT_CONVERT_HOST_DST}, NULL);
    }
    return cli_real_text(text, value, dtype);
}

/* A number, or "NaN", "Infinity", "-Infinity". */
static void json_number(cli_json *j, double value) {
    if (isfinite(value)) {
        cli_json_real(j, value);
    } else {
        cli_json_string(j, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    }
}

void cli_json_element(cli_json *j, const sft_dtype *dtype, const void *data) {
    double value = 0;

    if (dtype->kind == SFT_KIND_BOOL) {
        cli_json_bool(j, *(const unsigned char *)data != 0);
    } else if (dtype->kind == SFT_KIND_UINT) {
        cli_json_u64(j, load_bits(data, dtype->block_bytes));
    } else if (dtype->kind == SFT_KIND_INT) {
        cli_json_i64(j, load_signed(data, dtype->block_bytes));
    } else if (dtype->kind == SFT_KIND_COMPLEX) {
        double parts[2];
        load_parts(parts, dtype, data);
        cli_json_open(j, '[');
        json_number(j, parts[0]);
        json_number(j, parts[1]);
        cli_json_close(j, ']');
    } else if (dtype->block_elements != 1) {
        memcpy(&value, data, sizeof value);
        json_number(j, value);
    } else {
        (void)!sft_convert(&value, data, 1,
                           &(sft_cast){sft_dtype_get(SFT_F64), dtype, SFT_CONVERT_HOST_DST}, NULL);
        json_number(j, value);
    }
}

/* Bytes of one element as the two functions above take it. */
static size_t element_bytes(const sft_dtype *dtype) {
    return dtype->block_elements == 1 ? dtype->block_bytes : sizeof(double);
}

/* ---------------------------------------------------------------- the printer */

/* Takes the shown elements one by one and puts brackets, commas and dots between them. */
typedef struct printer {
    cli_out *out;
    size_t rank;
    uint64_t shown[WIDEST_RANK]; /* per dimension */
    bool gap[WIDEST_RANK];       /* EDGE at each end, dots between */
    uint64_t edge;
    uint64_t at[WIDEST_RANK];
    bool any;
    size_t column;
    size_t columns;
    size_t width; /* elements are padded to it */
} printer;

static void new_line(printer *p, size_t lines, size_t indent) {
    for (size_t i = 0; i < lines; i++) {
        cli_put(p->out, "\n", 1);
    }
    cli_put_blanks(p->out, indent);
    p->column = indent;
}

/* What goes before the element at p->at. */
static void lead_in(printer *p) {
    size_t opened = 0; /* trailing dimensions that begin here */

    while (opened < p->rank && p->at[p->rank - 1 - opened] == 0) {
        opened++;
    }
    const size_t outer = p->rank - opened; /* dimensions that go on */
    if (p->any && opened > 0) {
        cli_put(p->out, ",", 1);
        if (outer > 0 && p->gap[outer - 1] && p->at[outer - 1] == p->edge) {
            new_line(p, opened, outer);
            cli_puts(p->out, "...,");
        }
        new_line(p, opened, outer);
    } else if (p->any) {
        const bool gap = p->rank > 0 && p->gap[p->rank - 1] && p->at[p->rank - 1] == p->edge;
        const size_t need = p->width + (gap ? 5 : 0) + 2;
        cli_put(p->out, ",", 1);
        if (p->column + need > p->columns) {
            new_line(p, 1, p->rank);
        } else {
            cli_put(p->out, " ", 1);
            p->column++;
        }
        cli_puts(p->out, gap ? "..., " : "");
        p->column += gap ? 5 : 0;
    }
    for (size_t i = 0; i < opened; i++) {
        cli_put(p->out, "[", 1);
        p->column++;
    }
    p->any = true;
}

static void print_element(printer *p, const char *text) {
    const size_t len = strlen(text);

    lead_in(p);
    cli_put_blanks(p->out, len < p->width ? p->width - len : 0);
    cli_put(p->out, text, len);
    p->column += (len < p->width ? p->width : len) + 1;
    for (size_t k = p->rank; k-- > 0;) {
        if (++p->at[k] < p->shown[k]) {
            return;
        }
        p->at[k] = 0;
        cli_put(p->out, "]", 1);
    }
}

/* Result dimensions of the view, those dropped by an index left out; SIZE_MAX: too many. */
static size_t result_shape(const cli_view *view, uint64_t *shape, size_t cap) {
    size_t rank = 0;
    for (uint32_t k = 0; k < view->tensor->rank; k++) {
        if (view->dims[k].dropped == 0) {
            if (rank == cap) {
                return SIZE_MAX;
            }
            shape[rank++] = view->dims[k].count;
        }
    }
    return rank;
}

/* How many to show at each end, so that not too many come together; 0: nothing is short enough. */
static uint64_t choose_edge(const uint64_t *shape, size_t rank) {
    for (uint64_t edge = EDGE; edge > 0; edge--) {
        uint64_t product = 1;
        for (size_t k = 0; k < rank && product <= LOADED_MOST; k++) {
            product *= shape[k] < 2 * edge ? shape[k] : 2 * edge;
        }
        if (product <= LOADED_MOST) {
            return edge;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- loading what is shown */

typedef struct corner {
    const cli_view *view;
    uint64_t *low; /* per dimension of the tensor: box to read */
    uint64_t *count;
    void *scratch;
    const double *loaded; /* the whole view, for types below a byte; else NULL */
    size_t size;          /* of one element */
} corner;

static void copy_loaded(const corner *k, void *dst, uint64_t n) {
    uint64_t at = 0;
    for (uint32_t d = 0; d < k->view->tensor->rank; d++) {
        at = at * k->view->dims[d].count + k->low[d];
    }
    memcpy(dst, k->loaded + at, (size_t)n * sizeof(double));
}

static sft_status read_run(const corner *k, uint32_t last, uint64_t low, uint64_t n, char **dst,
                           sft_error *err) {
    sft_status status = SFT_OK;

    if (k->view->tensor->rank > 0) {
        k->low[last] = low;
        k->count[last] = n;
    }
    if (k->loaded != NULL) {
        copy_loaded(k, *dst, n);
    } else {
        const cli_view_room room = {*dst, (size_t)n * k->size, k->scratch};
        status = cli_view_read_box(k->view, k->low, k->count, &room, err);
    }
    *dst += (size_t)n * k->size;
    return status;
}

/* Goes to the next shown index of the dimensions before `last`; false past the end. */
static bool next_row(const corner *k, uint32_t last, uint64_t edge) {
    for (uint32_t d = last; d-- > 0;) {
        const uint64_t n = k->view->dims[d].count;
        k->low[d]++;
        if (n > 2 * edge && k->low[d] == edge) {
            k->low[d] = n - edge;
        }
        if (k->low[d] < n) {
            return true;
        }
        k->low[d] = 0;
    }
    return false;
}

/* Reads the shown elements of the view into dst, row by row. */
static sft_status read_shown(const corner *k, uint64_t edge, char *dst, cli *c, sft_error *err) {
    const uint32_t rank = k->view->tensor->rank;
    const uint32_t last = rank > 0 ? rank - 1 : 0;
    const uint64_t n = rank > 0 ? k->view->dims[last].count : 1;
    sft_status status;

    for (uint32_t d = 0; d < rank; d++) {
        k->low[d] = 0;
        k->count[d] = 1;
    }
    do {
        if (n <= 2 * edge) {
            status = read_run(k, last, 0, n, &dst, err);
        } else {
            status = read_run(k, last, 0, edge, &dst, err);
            if (status == SFT_OK) {
                status = read_run(k, last, n - edge, edge, &dst, err);
            }
        }
    } while (status == SFT_OK && !cli_stopped(c) && next_row(k, last, edge));
    return status;
}

/* All of a view of a sub-byte type, as doubles. */
static sft_status load_small(const cli_view *view, double *dst, void *scratch, sft_error *err) {
    const sft_dtype *dtype = view->tensor->dtype;
    const uint64_t size = (view->elements / dtype->block_elements + 1) * dtype->block_bytes;
    const cli_view_room room = {cli_alloc((size_t)size, 1), (size_t)size, scratch};
    uint64_t *box = cli_alloc(2 * (size_t)view->tensor->rank, sizeof *box);
    sft_status status;

    for (uint32_t k = 0; k < view->tensor->rank; k++) {
        box[view->tensor->rank + k] = view->dims[k].count;
    }
    status = cli_view_read_box(view, box, box + view->tensor->rank, &room, err);
    if (status == SFT_OK) {
        status = sft_convert(dst, room.data, view->elements,
                             &(sft_cast){sft_dtype_get(SFT_F64), dtype, SFT_CONVERT_HOST_DST}, err);
    }
    free(box);
    free(room.data);
    return status;
}

/* ---------------------------------------------------------------- printing */

static void print_shown(printer *p, const sft_dtype *dtype, const char *data, size_t size,
                        uint64_t count) {
    char text[CLI_ELEMENT_TEXT];

    for (uint64_t i = 0; i < count; i++) {
        const size_t len = strlen(cli_element_text(text, dtype, data + i * size));
        p->width = len > p->width ? len : p->width;
    }
    for (uint64_t i = 0; i < count; i++) {
        print_element(p, cli_element_text(text, dtype, data + i * size));
    }
    cli_put(p->out, "\n", 1);
}

static sft_status print_summary(cli *c, printer *p, const cli_view *view, sft_error *err) {
    const uint32_t rank = view->tensor->rank;
    corner k = {view, NULL, NULL, NULL, NULL, element_bytes(view->tensor->dtype)};
    double *loaded = NULL;
    uint64_t count = 1;
    sft_status status = SFT_OK;

    for (size_t d = 0; d < p->rank; d++) {
        count *= p->shown[d];
    }
    uint64_t *box = cli_alloc(2 * (size_t)rank, sizeof *box);
    char *data = cli_alloc((size_t)count, k.size);
    k.scratch = cli_alloc(cli_view_scratch(view), 1);
    k.low = box;
    k.count = box + rank;
    if (view->tensor->dtype->block_elements != 1) {
        loaded = cli_alloc((size_t)view->elements, sizeof *loaded);
        k.loaded = loaded;
        status = load_small(view, loaded, k.scratch, err);
    }
    if (status == SFT_OK) {
        status = read_shown(&k, p->edge, data, c, err);
    }
    if (status == SFT_OK) {
        print_shown(p, view->tensor->dtype, data, k.size, count);
    }
    free(loaded);
    free(k.scratch);
    free(data);
    free(box);
    return status;
}

/* One block after the other through `each`. */
typedef struct stream {
    const cli_view *view;
    char *data;
    double *values; /* sub-byte types */
    void *scratch;
    size_t size;
} stream;

static sft_status stream_block(const stream *s, uint64_t unit, const char **data, size_t *n,
                               sft_error *err) {
    const sft_dtype *dtype = s->view->tensor->dtype;
    const cli_view_room room = {s->data, s->view->block * sizeof(double), s->scratch};
    sft_status status = cli_view_read_block(s->view, unit, &room, n, err);
    *data = s->data;
    if (status == SFT_OK && s->values != NULL) {
        *data = (const char *)s->values;
        status = sft_convert(s->values, s->data, *n,
                             &(sft_cast){sft_dtype_get(SFT_F64), dtype, SFT_CONVERT_HOST_DST}, err);
    }
    return status;
}

static void stream_init(stream *s, const cli_view *view) {
    s->view = view;
    s->size = element_bytes(view->tensor->dtype);
    s->data = cli_alloc(view->block, sizeof(double));
    s->values = NULL;
    if (view->tensor->dtype->block_elements != 1) {
        s->values = cli_alloc(view->block, sizeof(double));
    }
    s->scratch = cli_alloc(cli_view_scratch(view), 1);
}

static void stream_reset(stream *s) {
    free(s->data);
    free(s->values);
    free(s->scratch);
}

/* The number of elements that went through, or the error. p NULL: into j. */
static sft_status stream_values(cli *c, const cli_view *view, printer *p, cli_json *j,
                                sft_error *err) {
    char text[CLI_ELEMENT_TEXT];
    stream s;
    sft_status status = SFT_OK;

    stream_init(&s, view);
    for (uint64_t unit = 0; status == SFT_OK && unit < view->units && !cli_stopped(c); unit++) {
        const char *data;
        size_t n;
        status = stream_block(&s, unit, &data, &n, err);
        for (size_t i = 0; status == SFT_OK && i < n; i++) {
            if (p != NULL) {
                print_element(p, cli_element_text(text, view->tensor->dtype, data + i * s.size));
            } else {
                cli_json_element(j, view->tensor->dtype, data + i * s.size);
            }
        }
    }
    stream_reset(&s);
    return status;
}

static bool printable_type(cli *c, const char *file, const cli_view *view) {
    const sft_dtype *dtype = view->tensor->dtype;
    sft_error err;

    if (dtype->kind != SFT_KIND_OPAQUE && dtype->block_bytes <= sizeof(double)) {
        return true;
    }
    (void)sft_error_at(&err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, view->tensor->name,
                       view->tensor->name_len, "values of type %s cannot be shown", dtype->name);
    cli_fail(c, file, &err);
    return false;
}

/* Which elements the printer will be given. False: only a further slice could be shown. */
static bool choose_shown(printer *p, const uint64_t *shape, const cli_view *view, bool all) {
    const bool subbyte = view->tensor->dtype->block_elements != 1;
    const bool summarise = !all && view->elements > THRESHOLD;

    p->edge = summarise ? choose_edge(shape, p->rank) : UINT64_MAX / 2;
    if (p->edge == 0 || (subbyte && !all && view->elements > SUBBYTE_MOST)) {
        return false;
    }
    for (size_t k = 0; k < p->rank; k++) {
        p->gap[k] = shape[k] > 2 * p->edge;
        p->shown[k] = p->gap[k] ? 2 * p->edge : shape[k];
    }
    return true;
}

bool cli_print_values(cli *c, const char *file, const cli_view *view, bool all) {
    uint64_t shape[WIDEST_RANK];
    printer p = {.out = &c->out};
    sft_error err;
    sft_status status;

    if (!printable_type(c, file, view)) {
        return false;
    }
    p.rank = result_shape(view, shape, WIDEST_RANK);
    p.columns = cli_sys_columns(1);
    if (view->elements == 0) {
        cli_puts(&c->out, "[]\n");
        return true;
    }
    if (p.rank == SIZE_MAX || !choose_shown(&p, shape, view, all)) {
        cli_puts(&c->out, "(too many to show: ask for a slice)\n");
        return true;
    }
    if (all && view->elements > LOADED_MOST) {
        status = stream_values(c, view, &p, NULL, &err);
        cli_put(&c->out, "\n", 1);
    } else {
        status = print_summary(c, &p, view, &err);
    }
    if (status != SFT_OK) {
        cli_fail(c, file, &err);
    }
    return status == SFT_OK;
}

bool cli_json_values(cli *c, const char *file, cli_json *j, const cli_view *view) {
    sft_error err;
    sft_status status = SFT_OK;

    cli_json_open(j, '[');
    if (!printable_type(c, file, view)) {
        cli_json_close(j, ']');
        return false;
    }
    status = stream_values(c, view, NULL, j, &err);
    cli_json_close(j, ']');
    if (status != SFT_OK) {
        cli_fail(c, file, &err);
    }
    return status == SFT_OK;
}
