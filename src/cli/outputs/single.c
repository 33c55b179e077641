/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/single.c - see single.h.
 */
#include "cli/outputs/single.h"
#include "cli/operands/url.h"
#include "cli/outputs/kept.h"
#include "cli/ui/path_text.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

/* Does it belong to the model though it is none of its files? In its directory any .json (the index, the
 * state, the configuration) and the README; beside a file, those that a model has. An index is read even if
 * it was not there before. */
static bool is_beside(const char *output, const char *operand) {
    const bool whole = cli_sys_kind(operand) == CLI_KIND_DIRECTORY;
    const char *name = cli_base_name(output);
    const bool index = cli_ends_with(name, ".index.json");
    const bool of_model =
        index || strcmp(name, "config.json") == 0 || strcmp(name, "README.md") == 0;

    if (cli_is_url(operand) || (cli_sys_kind(output) != CLI_KIND_FILE && !index) ||
        !(of_model || (whole && cli_ends_with(name, ".json")))) {
        return false;
    }
    char *directory = whole ? cli_copy_of(operand)
                            : cli_copy_bytes(operand, (size_t)(cli_base_name(operand) - operand));
    const char *of_operand = directory[0] != '\0' ? directory : ".";
    char *path = cli_path_in(of_operand, name);
    char *beneath = cli_copy_bytes(output, (size_t)(name - output));
    const bool same = cli_sys_same_file(path, output) ||
                      (index && cli_sys_same_file(of_operand, beneath[0] != '\0' ? beneath : "."));
    free(beneath);
    free(path);
    free(directory);
    return same;
}

/* Of a model (catalog NULL: there is none). */
static bool is_file_of(const char *output, const char *operand, const sft_catalog *catalog) {
    if (catalog == NULL || strcmp(operand, "-") == 0) {
        return false;
    }
    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        if (cli_sys_same_file(sft_catalog_file_at(catalog, i)->path, output)) {
            return true;
        }
    }
    return is_beside(output, operand) ||
           (cli_sys_kind(operand) == CLI_KIND_FILE && cli_sys_same_file(operand, output));
}

/* Writing over what is being read would lose a model. What counts is where a link leads. */
static bool is_other_file(const cli_single *s) {
    if (cli_over_read(s->c, s->output)) {
        return false;
    }
    const bool link = cli_sys_is_link(s->output);
    char *led = link ? cli_sys_real(s->output) : cli_copy_of(s->output);
    if (led == NULL) {
        CLI_FAIL(s->c, s->output, SFT_E_PATH, "is a link that leads nowhere");
        return false;
    }
    const bool same =
        is_file_of(led, s->operand, s->catalog) || is_file_of(led, s->other_operand, s->other);
    free(led);
    if (same) {
        cli_usage(s->c, "%s: output and input are the same file", s->output);
    }
    return !same;
}

/* Before the work, not after it. */
static bool is_free(const cli_single *s) {
    const cli_kind kind = cli_sys_kind(s->output);
    sft_error err;

    if (kind == CLI_KIND_DIRECTORY || kind == CLI_KIND_OTHER) {
        (void)CLI_ERROR(&err, SFT_E_NOT_REGULAR, "not a regular file%s",
                        kind == CLI_KIND_OTHER ? ": use -o - and redirect" : "");
    } else if (kind == CLI_KIND_FILE && !s->c->force) {
        (void)CLI_ERROR(&err, SFT_E_EXISTS, "the file exists");
    } else {
        return true;
    }
    cli_fail(s->c, s->output, &err);
    return false;
}

static void fail_output(const cli_single *s, int error) {
    sft_error err;

    if (!cli_sys_exists_error(error)) {
        cli_fail_io(s->c, s->output, error, "cannot write");
        return;
    }
    (void)sft_error_set(&err, SFT_E_EXISTS, error, "the file exists");
    cli_fail(s->c, s->output, &err);
}

bool cli_single_begin(cli_single *s, cli *c, const char *operand, const sft_catalog *catalog,
                      const char *output) {
    *s = (cli_single){.c = c, .operand = operand, .catalog = catalog, .output = output};
    return cli_single_begin_of_two(s);
}

bool cli_single_begin_of_two(cli_single *s) {
    if (s->output[0] == '\0') {
        cli_usage(s->c, "the output has an empty name");
        return false;
    }
    if (!is_other_file(s) || !is_free(s)) {
        return false;
    }
    cli_kept_watch(s->c, s->output);
    const int error = cli_sys_create(&s->file, s->output, s->c->force);
    if (error != 0) {
        fail_output(s, error);
        return false;
    }
    s->out = cli_alloc(1, sizeof *s->out);
    s->out->file = &s->file;
    return true;
}

bool cli_single_end(cli_single *s, sft_status status, sft_error *err) {
    const char *operand = s->operand;

    cli_flush(s->out);
    if (status == SFT_OK) {
        status = sft_catalog_unchanged(s->catalog, err);
    }
    if (status == SFT_OK && s->other != NULL) {
        operand = s->other_operand;
        status = sft_catalog_unchanged(s->other, err);
    }
    int error = s->out->failed;
    if (status == SFT_OK && error == 0 && !s->out->closed) {
        error = cli_sys_commit(&s->file);
    } else {
        cli_sys_discard(&s->file);
    }
    free(s->out);
    if (error != 0) {
        fail_output(s, error);
    } else if (status != SFT_OK) {
        cli_fail(s->c, operand, err);
    } else {
        s->c->proved = true;
    }
    return error == 0 && status == SFT_OK;
}

void cli_single_drop(cli_single *s) {
    cli_sys_discard(&s->file);
    free(s->out);
}
