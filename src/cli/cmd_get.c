/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/cmd_get.c - one tensor, or a slice of it, into a .npy or raw file or to standard output. The
 * bytes go through a plan of the library, so memory does not depend on the tensor's size. Read
 * cmd.h first.
 */
#include "cmd.h"
#include "npy.h"
#include "sys.h"
#include <stdlib.h>
#include <string.h>

typedef struct job {
    cli *c;
    const char *operand; /* the file */
    const char *output;
    bool npy;
    sft_catalog *catalog;
    const sft_tensor *tensor;
    sft_slice *slices;
    sft_read_options read;
    uint64_t *shape; /* of the result */
    uint32_t rank;
    uint64_t nbytes;
    char *header; /* of the .npy file; NULL for raw */
    size_t header_size;
} job;

/* ---------------------------------------------------------------- which tensor, which part */

static void suggest(cli *c, const char *operand, const sft_catalog *catalog, const char *name,
                    size_t len) {
    enum { LOOKED_AT = 20000 };
    const size_t total = sft_catalog_count(catalog);
    const size_t count = total < LOOKED_AT ? total : LOOKED_AT;
    const char **words = cli_alloc(count, sizeof *words);
    char *word = cli_alloc(len + 1, 1);
    sft_error err;

    memcpy(word, name, len);
    for (size_t i = 0; i < count; i++) {
        words[i] = sft_catalog_at(catalog, i)->name;
    }
    const char *closest = cli_closest(word, words, count);
    (void)sft_error_set(&err, SFT_E_NOT_FOUND, 0, SFT_NO_OFFSET, name, len, "no such tensor%s%s%s",
                        closest != NULL ? "; did you mean \"" : "", closest != NULL ? closest : "",
                        closest != NULL ? "\"?" : "");
    cli_fail(c, operand, &err);
    free(word);
    free(words);
}

/* TENSOR[RANGES]. A tensor whose own name is the whole operand comes first. */
static bool find_tensor(job *j, const char *what) {
    const size_t len = strlen(what);
    const char *bracket = strrchr(what, '[');
    sft_error err;

    j->tensor = sft_catalog_find(j->catalog, what, len);
    if (j->tensor != NULL) {
        return true;
    }
    if (bracket == NULL || what[len - 1] != ']') {
        suggest(j->c, j->operand, j->catalog, what, len);
        return false;
    }
    const size_t name_len = (size_t)(bracket - what);
    const size_t text_len = len - name_len - 2;
    j->tensor = sft_catalog_find(j->catalog, what, name_len);
    if (j->tensor == NULL) {
        suggest(j->c, j->operand, j->catalog, what, name_len);
        return false;
    }
    j->slices = cli_alloc(text_len + 2, sizeof *j->slices);
    if (sft_slice_parse(bracket + 1, text_len, j->slices, text_len + 2, &j->read.slice_count,
                        &err) != SFT_OK) {
        cli_usage(j->c, "%s: %s", bracket, err.message);
        return false;
    }
    j->read.slices = j->slices;
    return true;
}

static bool find_dtype(job *j) {
    const char *name = cli_text(j->c, "dtype");

    if (name != NULL) {
        j->read.dtype = sft_dtype_find(name, strlen(name));
        if (j->read.dtype == NULL) {
            cli_usage(j->c, "--dtype: \"%s\" is no element type; F32, BF16, I64 ... are", name);
            return false;
        }
    }
    return true;
}

static bool resolve(job *j) {
    const sft_dtype *dtype = j->read.dtype != NULL ? j->read.dtype : j->tensor->dtype;
    sft_error err;

    j->shape = cli_alloc((size_t)j->tensor->rank + 1, sizeof *j->shape);
    if (sft_tensor_result(j->tensor, &j->read, j->shape, &j->rank, &j->nbytes, &err) != SFT_OK) {
        cli_fail(j->c, j->operand, &err);
        return false;
    }
    if (j->npy) {
        j->header = cli_npy_header(dtype, j->shape, j->rank, &j->header_size);
        if (j->header == NULL) {
            cli_usage(j->c, "numpy has no element type for %s: use --dtype F32, or --format raw",
                      dtype->name);
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- where to */

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static bool choose_output(job *j) {
    cli *c = j->c;
    const char *format = cli_text(c, "format");
    const bool to_stdout = strcmp(j->output, "-") == 0;

    if (format != NULL) {
        j->npy = strcmp(format, "npy") == 0;
    } else if (ends_with(j->output, ".npy")) {
        j->npy = true;
    } else if (!to_stdout && !ends_with(j->output, ".bin") && !ends_with(j->output, ".raw")) {
        cli_usage(c, "%s: neither .npy nor .bin: say which with --format", j->output);
        return false;
    }
    if (to_stdout && cli_sys_is_terminal(1) && !c->force) {
        cli_usage(c, "standard output is a terminal: name a file, or use --force");
        return false;
    }
    if (!to_stdout && strcmp(j->operand, "-") != 0 && cli_sys_same_file(j->operand, j->output)) {
        cli_usage(c, "%s: output and input are the same file", j->output);
        return false;
    }
    return true;
}

static void fail_output(job *j, int error) {
    sft_error err;
    char text[160];

    if (cli_sys_exists_error(error)) {
        (void)sft_error_set(&err, SFT_E_EXISTS, error, SFT_NO_OFFSET, NULL, 0, "the file exists");
    } else {
        (void)sft_error_set(&err, SFT_E_IO, error, SFT_NO_OFFSET, NULL, 0, "cannot write: %s",
                            cli_sys_text(error, text, sizeof text));
    }
    cli_fail(j->c, j->output, &err);
}

/* ---------------------------------------------------------------- the bytes */

static sft_status run_plan(job *j, sft_target *target, sft_error *err) {
    sft_plan *plan;
    sft_run_options options;
    uint32_t index;

    sft_status status = sft_plan_create(&plan, NULL, err);
    if (status != SFT_OK) {
        return status;
    }
    SFT_INIT(&options);
    options.control = cli_control(j->c, "writing");
    options.pool = cli_pool(j->c);
    status = sft_plan_add_target(plan, target, &index, err);
    if (status == SFT_OK) {
        status =
            sft_plan_add_tensor(plan, j->catalog, j->tensor, &j->read, index, j->header_size, err);
    }
    if (status == SFT_OK) {
        status = sft_plan_run(plan, &options, err);
    }
    cli_control_end(j->c);
    sft_plan_free(plan);
    return status;
}

static sft_status write_to(job *j, sft_target *target, sft_error *err) {
    if (j->header != NULL) {
        const sft_status status = sft_target_write(target, 0, j->header, j->header_size, err);
        if (status != SFT_OK) {
            return status;
        }
    }
    return run_plan(j, target, err);
}

static void write_stdout(job *j) {
    sft_target *target;
    sft_error err;

    sft_status status = sft_target_open_stream(&target, 1, NULL, &err);
    if (status == SFT_OK) {
        status = write_to(j, target, &err);
        sft_target_close(target);
    }
    if (status != SFT_OK && !(status == SFT_E_IO && cli_sys_pipe_closed(err.sys))) {
        cli_fail(j->c, status == SFT_E_IO ? NULL : j->operand, &err);
    }
}

static void write_file(job *j) {
    cli_sys_file file;
    sft_target *target;
    sft_error err;

    if (!j->c->force && cli_sys_kind(j->output) == CLI_KIND_FILE) { /* before the work, not after */
        (void)sft_error_set(&err, SFT_E_EXISTS, 0, SFT_NO_OFFSET, NULL, 0, "the file exists");
        cli_fail(j->c, j->output, &err);
        return;
    }
    int error = cli_sys_create(&file, j->output);
    if (error != 0) {
        fail_output(j, error);
        return;
    }
    sft_status status = sft_target_open_fd(&target, file.fd, NULL, &err);
    if (status == SFT_OK) {
        status = write_to(j, target, &err);
        sft_target_close(target);
    }
    if (status != SFT_OK) {
        cli_sys_discard(&file);
        cli_fail(j->c, j->operand, &err);
        return;
    }
    error = cli_sys_commit(&file, j->c->force);
    if (error != 0) {
        fail_output(j, error);
        return;
    }
    cli_note(j->c, j->output, "%llu bytes", (unsigned long long)(j->nbytes + j->header_size));
}

static void run(cli *c) {
    job j = {.c = c, .operand = c->operands[0], .output = cli_text(c, "output")};

    SFT_INIT(&j.read);
    if (j.output == NULL) {
        cli_usage(c, "where to? -o FILE.npy, -o FILE.bin, or -o - for standard output");
        return;
    }
    if (!choose_output(&j) || !cli_open(c, j.operand, 0, &j.catalog)) {
        return;
    }
    if (find_tensor(&j, c->operands[1]) && find_dtype(&j) && resolve(&j)) {
        if (strcmp(j.output, "-") == 0) {
            write_stdout(&j);
        } else {
            write_file(&j);
        }
    }
    free(j.header);
    free(j.shape);
    free(j.slices);
    sft_catalog_close(j.catalog);
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
        "the "
        "whole operand, brackets included, is taken first.\n\n"
        "The output's name says what is written: .npy a numpy array; .bin or .raw, and standard "
        "output, "
        "the bytes alone (row by row, little-endian). BF16 becomes |V2 in .npy and the 8-bit "
        "floats |V1, "
        "since numpy has no such types: view them as ml_dtypes.bfloat16 and so on, or use --dtype "
        "F32. "
        "F4 and F6 need --dtype or --format raw.\n\n"
        "The file appears when it is complete. An existing one is replaced only with --force.",
    .examples = "safetensors get model.safetensors wte.weight -o wte.npy\n"
                "safetensors get model/ 'h.0.attn.weight[:, :768]' --dtype F32 -o q.npy\n"
                "safetensors get model.safetensors 'wte.weight[42]' -o - | od -t f4",
    .options = options,
    .common = CLI_WITH_OUTPUT | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_JOBS,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
