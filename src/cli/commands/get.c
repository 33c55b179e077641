/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/get.c - one tensor, or a slice of it, into a .npy or raw file or to standard output, in
 * blocks: memory does not depend on the tensor's size. Read cmd.h and view.h first.
 */
#include "cli/copy/cast_lost.h"
#include "cli/look/view.h"
#include "cli/outputs/single.h"
#include "cli/ui/npy.h"
#include "cli/ui/path_text.h"
#include "cli/work.h"
#include <sft/extend.h>
#include <stdlib.h>
#include <string.h>

enum { FAR_BLOCK_BYTES = 16 << 20 };

typedef struct job {
    cli *c;
    const char *operand; /* the file */
    const char *output;
    bool npy;
    sft_catalog *catalog;
    cli_pick pick;
    cli_view view;
    const sft_dtype *dtype; /* of the result */
    uint64_t nbytes;        /* of the result, without a header */
    char *header;           /* of the .npy file; NULL for raw */
    size_t header_size;
    cli_out *sink;
    cli_cast_lost *lost;
    uint32_t without; /* features of the processor */
} job;

/* ---------------------------------------------------------------- which tensor, which part */

/* TENSOR[RANGES]. A tensor whose own name is the whole operand comes first. */
static bool find_tensor(job *j, const char *what) {
    const size_t len = strlen(what);
    const char *bracket = strrchr(what, '[');
    size_t name_len = len;

    j->pick.tensor = sft_catalog_find(j->catalog, what, len);
    if (j->pick.tensor == NULL && bracket != NULL && what[len - 1] == ']') {
        name_len = (size_t)(bracket - what);
        j->pick.tensor = sft_catalog_find(j->catalog, what, name_len);
        j->pick.ranges = bracket + 1;
        j->pick.ranges_len = len - name_len - 2;
    }
    if (j->pick.tensor == NULL) {
        cli_fail_no_tensor(j->c, j->operand, j->catalog, what, name_len);
    }
    return j->pick.tensor != NULL;
}

static bool find_dtype(job *j) {
    const char *name = cli_text(j->c, "dtype");

    j->dtype = j->pick.tensor->dtype;
    if (name != NULL) {
        j->dtype = sft_dtype_find(name, strlen(name));
        if (j->dtype == NULL) {
            cli_usage(j->c, "--dtype: \"%s\" is no element type; F32, BF16, I64 ... are", name);
            return false;
        }
    }
    return true;
}

static bool make_header(job *j) {
    const sft_tensor *t = j->pick.tensor;
    uint64_t *shape = cli_alloc(t->rank, sizeof *shape);
    uint32_t rank = 0;

    for (uint32_t d = 0; d < t->rank; d++) {
        if (j->view.dims[d].dropped == 0) {
            shape[rank++] = j->view.dims[d].count;
        }
    }
    j->header = cli_npy_header(j->dtype, shape, rank, &j->header_size);
    free(shape);
    if (j->header == NULL) {
        cli_usage(j->c, "numpy has no element type for %s: use --dtype F32, or --format raw",
                  j->dtype->name);
    }
    return j->header != NULL;
}

/* Where a read costs a round trip, or to inflate all that lies between its elements, few long ones.
 */
static bool is_far(const sft_catalog *catalog, const sft_tensor *t) {
    return t->piece_count > 0 &&
           (sft_source_flags(sft_catalog_source_at(catalog, t->pieces[0].source)) &
            (SFT_SOURCE_REMOTE | SFT_SOURCE_SEQUENTIAL)) != 0;
}

/* Elements of a block: such that it is about so many bytes in the wider of the two types. */
static size_t block_elements(const job *j) {
    const sft_tensor *t = j->pick.tensor;
    const uint32_t a = (sft_dtype_bits(t->dtype) + 7) / 8;
    const uint32_t b = (sft_dtype_bits(j->dtype) + 7) / 8;
    const size_t bytes = is_far(j->catalog, t) ? FAR_BLOCK_BYTES : CLI_BLOCK_BYTES;
    return bytes / 8 * (8 / (a > b ? a : b)); /* a, b: 1, 2, 4 or 8; a multiple of 8 */
}

static bool resolve(job *j) {
    const sft_tensor *t = j->pick.tensor;
    sft_error err;

    if (j->dtype->id != t->dtype->id && sft_catalog_can_cast(j->catalog, t, &err) != SFT_OK) {
        cli_fail(j->c, j->operand, &err);
        j->c->status = CLI_NO;
        return false;
    }
    sft_status status = cli_view_init(&j->view, j->catalog, t, &j->pick, block_elements(j), &err);
    if (status == SFT_OK) {
        status = sft_dtype_bytes(j->dtype, j->view.elements, &j->nbytes, &err);
    }
    if (status == SFT_OK && j->dtype->id != t->dtype->id) { /* can it be cast at all? */
        status = sft_convert(NULL, NULL, 0, &(sft_cast){j->dtype, t->dtype, 0}, &err);
    }
    if (status != SFT_OK) {
        cli_fail(j->c, j->operand, &err);
        return false;
    }
    return !j->npy || make_header(j);
}

/* ---------------------------------------------------------------- where to */

static bool choose_output(job *j) {
    cli *c = j->c;
    const char *format = cli_text(c, "format");
    const bool to_stdout = strcmp(j->output, "-") == 0;

    if (format != NULL) {
        j->npy = strcmp(format, "npy") == 0;
    } else if (cli_ends_with(j->output, ".npy")) {
        j->npy = true;
    } else if (!to_stdout && !cli_ends_with(j->output, ".bin") &&
               !cli_ends_with(j->output, ".raw")) {
        cli_usage(c, "%s: neither .npy nor .bin: say which with --format", j->output);
        return false;
    }
    if (to_stdout && cli_sys_is_terminal(1) && !c->force) {
        cli_usage(c, "standard output is a terminal: name a file, or use --force");
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- the bytes */

/* A slot's room: this, scratch, the block as it lies in the file, the block as it is wanted. */
typedef struct block {
    const char *data;
    uint64_t size;
} block;

static size_t rounded(size_t size) {
    return (size + 63) / 64 * 64;
}

static size_t bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return (size_t)cli_bytes_of(dtype, elements) + dtype->block_bytes;
}

static sft_status read_block(void *ctx, uint64_t unit, cli_slot *slot) {
    const job *j = ctx;
    const sft_dtype *from = j->pick.tensor->dtype;
    block *b = slot->room;
    char *scratch = (char *)slot->room + rounded(sizeof *b);
    char *read = scratch + rounded(cli_view_scratch(&j->view));
    char *cast = read + rounded(bytes_of(from, j->view.block));
    size_t n = 0;

    const cli_view_room room = {read, bytes_of(from, j->view.block), scratch};
    sft_status status = cli_view_read_block(&j->view, unit, &room, &n, &slot->err);
    b->data = read;
    if (status == SFT_OK && from->id != j->dtype->id) {
        status =
            sft_convert(cast, read, n, &(sft_cast){j->dtype, from, SFT_CONVERT_WITHOUT(j->without)},
                        &slot->err);
        b->data = cast;
    }
    if (status == SFT_OK && b->data == cast) {
        cli_cast_saw(j->lost, j->pick.tensor, j->dtype, read, cast, n);
    }
    if (status == SFT_OK) {
        status = sft_dtype_bytes(j->dtype, n, &b->size, &slot->err);
    }
    return status;
}

static sft_status write_block(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    job *j = ctx;
    const block *b = slot->room;

    (void)unit;
    cli_put(j->sink, b->data, (size_t)b->size);
    *bytes = b->size;
    return j->sink->closed ? CLI_ERROR(&slot->err, SFT_E_CANCELLED, "the output failed") : SFT_OK;
}

/* Header and blocks into the sink. Failures of the sink itself are left to the caller. */
static sft_status write_all(job *j, sft_error *err) {
    const cli_job work = {
        .label = "writing",
        .count = j->view.units,
        .total_bytes = j->nbytes,
        .room_bytes = rounded(sizeof(block)) + rounded(cli_view_scratch(&j->view)) +
                      rounded(bytes_of(j->pick.tensor->dtype, j->view.block)) +
                      rounded(bytes_of(j->dtype, j->view.block)),
        .work = read_block,
        .merge = write_block,
        .ctx = j,
    };

    cli_put(j->sink, j->header, j->header_size);
    const sft_status status = cli_run_job(j->c, &work, err);
    cli_flush(j->sink);
    if (status == SFT_OK) {
        cli_cast_tell(j->lost, j->c, j->operand);
    }
    return status;
}

static void write_stdout(job *j) {
    sft_error err;

    j->sink = &j->c->out; /* main reports what goes wrong with it */
    if (write_all(j, &err) != SFT_OK && !j->sink->closed) {
        cli_fail(j->c, j->operand, &err);
    }
}

static void write_file(job *j) {
    cli_single single;
    sft_error err;

    if (!cli_single_begin(&single, j->c, j->operand, j->catalog, j->output)) {
        return;
    }
    j->sink = single.out;
    const sft_status status = write_all(j, &err);
    if (cli_single_end(&single, status, &err)) {
        cli_note(j->c, j->output, "%llu bytes", (unsigned long long)(j->nbytes + j->header_size));
    }
}

static void run(cli *c) {
    job j = {.c = c,
             .operand = c->operands[0],
             .output = cli_text(c, "output"),
             .without = cli_without(c)};

    if (j.output == NULL) {
        cli_usage(c, "where to? -o FILE.npy, -o FILE.bin, or -o - for standard output");
        return;
    }
    if (!choose_output(&j) || !cli_open(c, j.operand, 0, &j.catalog)) {
        return;
    }
    j.lost = cli_cast_watch();
    if (find_tensor(&j, c->operands[1]) && find_dtype(&j) && resolve(&j)) {
        if (strcmp(j.output, "-") == 0) {
            write_stdout(&j);
        } else {
            write_file(&j);
        }
    }
    free(j.header);
    cli_cast_end(j.lost);
    cli_view_reset(&j.view);
    cli_close(c, j.catalog);
}

static const cli_opt options[] = {
    CLI_OPT_CHOICE("format", 0, "FORMAT", "npy|raw",
                   "npy or raw; by default what the name of the output says"),
    CLI_OPT_ARG(CLI_TEXT, "dtype", 'd', "DTYPE", "cast to DTYPE (F32, F16, I64 ...) as torch does"),
    CLI_OPT_END,
};

const cli_command cli_cmd_get = {
    .name = "get",
    .operands = "FILE TENSOR[RANGES]",
    .summary = "write a tensor, or a slice of it, to .npy, raw bytes or standard output",
    .description =
        "RANGES are written as in Python: w[0:2, ::-1, 3], w[..., -1]. A tensor whose own name is "
        "the whole operand, brackets included, is taken first.\n\n"
        "The output's name says what is written: .npy a numpy array; .bin or .raw, and standard "
        "output, the bytes alone (row by row, little-endian). BF16 becomes |V2 in .npy and the "
        "8-bit floats |V1, since numpy has no such types: view them as ml_dtypes.bfloat16 and so "
        "on, or use --dtype F32. F4 and F6 need --dtype or --format raw.\n\n"
        "The file appears when it is complete. An existing one is replaced only with --force.",
    .examples = "safetensors get model.safetensors wte.weight -o wte.npy\n"
                "safetensors get model/ 'h.0.attn.weight[:, :768]' --dtype F32 -o q.npy\n"
                "safetensors get model.safetensors 'wte.weight[42]' -o - | od -t f4",
    .options = options,
    .common = CLI_WITH_OUTPUT | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS |
              CLI_WITH_EXPLAIN | CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
