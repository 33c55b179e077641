/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/check.c - is this file what it says it is? One verdict per file, with the cause in plain
 * words. Only headers are read, unless --digests asks for more. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/look/odd.h"
#include "cli/operands/ranks.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include "cli/ui/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verdict {
    cli *c;
    const char *operand;
    sft_catalog *catalog;    /* NULL if it did not open */
    sft_catalog *incomplete; /* a model with missing parts, opened for its problems */
    sft_status status;
    sft_error err;
    bool digests_match;
    cli_oddities odd;
} verdict;

typedef struct counts {
    uint64_t valid;
    uint64_t invalid;
    uint64_t unreadable;
} counts;

/* ---------------------------------------------------------------- verdict */

static void verify_digests(verdict *v) {
    sft_verify_options options;
    sft_error err;

    SFT_INIT(&options);
    options.control = cli_control(v->c, "checking digests");
    options.pool = cli_pool(v->c);
    const sft_status status = sft_catalog_verify(v->catalog, &options, NULL, &err);
    cli_control_end(v->c);
    if (status == SFT_E_NOT_FOUND || status == SFT_E_STALE) {
        (void)snprintf(
            cli_odd_add(&v->odd, status == SFT_E_STALE ? "stale_digests" : "no_digests")->message,
            sizeof v->odd.items[0].message, "%s",
            status == SFT_E_STALE ? err.message : "no digests are recorded");
    } else if (status != SFT_OK) {
        v->status = status;
        v->err = err;
    } else {
        v->digests_match = true;
    }
}

static void judge(verdict *v) {
    v->status = cli_open_quietly(v->c, v->operand, 0, &v->catalog, &v->err);
    if (v->status == SFT_E_SHARD_MISSING || v->status == SFT_E_SHARD_DISAGREES) {
        sft_error again;
        if (cli_open_quietly(v->c, v->operand, SFT_OPEN_INCOMPLETE, &v->incomplete, &again) !=
            SFT_OK) {
            v->incomplete = NULL;
        }
    }
    if (v->status == SFT_OK) {
        v->status =
            cli_odd_find(v->c, v->operand, v->catalog, cli_flag(v->c, "strict"), &v->odd, &v->err);
    }
    if (v->status == SFT_OK && cli_flag(v->c, "digests")) {
        verify_digests(v);
    }
}

/* What is told of an index: with a model that opens, or with one that lacks parts. */
static const sft_catalog *with_problems(const verdict *v) {
    return v->catalog != NULL ? v->catalog : v->incomplete;
}

static size_t problem_count(const verdict *v) {
    const sft_catalog *catalog = with_problems(v);
    return catalog != NULL ? sft_catalog_problem_count(catalog) : 0;
}

/* ---------------------------------------------------------------- output */

static void json_warning(cli_json *j, const char *kind, const char *message, const char *tensor,
                         size_t tensor_len, uint64_t offset) {
    cli_json_open(j, '{');
    cli_json_field_string(j, "kind", kind);
    cli_json_field_string(j, "message", message);
    cli_json_field_text(j, "tensor", tensor, tensor_len);
    cli_json_field_offset(j, "offset", offset);
    cli_json_close(j, '}');
}

static void json_error(cli_json *j, const sft_error *err, const char *hint) {
    cli_json_open(j, '{');
    cli_json_fields_of_error(j, err);
    cli_json_field_string(j, "hint", hint[0] != '\0' ? hint : NULL);
    cli_json_close(j, '}');
}

static void print_json(const verdict *v, const char *hint) {
    cli_json j;

    cli_json_init(&j, &v->c->out);
    cli_json_open(&j, '{');
    cli_json_field_string(&j, "file", v->operand);
    cli_json_field_bool(&j, "valid", v->status == SFT_OK);
    cli_json_key(&j, "error");
    if (v->status != SFT_OK) {
        json_error(&j, &v->err, hint);
    } else {
        cli_json_null(&j);
    }
    cli_json_field_open(&j, "warnings", '[');
    for (size_t i = 0; i < problem_count(v); i++) {
        const sft_problem *p = sft_catalog_problem_at(with_problems(v), i);
        const bool tensor = p->kind != SFT_PROBLEM_ORPHAN_FILE &&
                            p->kind != SFT_PROBLEM_MISSING_FILE &&
                            p->kind != SFT_PROBLEM_TOTAL_SIZE;
        json_warning(&j, cli_odd_problem(p->kind), p->message, tensor ? p->subject : NULL,
                     p->subject_len, SFT_NO_OFFSET);
    }
    for (size_t i = 0; i < v->odd.count; i++) {
        const cli_oddity *f = &v->odd.items[i];
        json_warning(&j, f->kind, f->message, f->tensor != NULL ? f->tensor->name : NULL,
                     f->tensor != NULL ? f->tensor->name_len : 0, f->offset);
    }
    cli_json_close(&j, ']');
    cli_json_end(&j);
}

static void print_warning(cli *c, const char *message, const sft_tensor *tensor) {
    cli_puts(&c->out, c->color ? "  " CLI_YELLOW "warning:" CLI_NORMAL " " : "  warning: ");
    cli_puts(&c->out, message); /* printable by contract */
    if (tensor != NULL) {
        cli_puts(&c->out, " (first: \"");
        cli_put_escaped(&c->out, tensor->name, tensor->name_len < 200 ? tensor->name_len : 200);
        cli_puts(&c->out, tensor->name_len < 200 ? "\")" : "...\")");
    }
    cli_put(&c->out, "\n", 1);
}

static void print_warnings(const verdict *v) {
    for (size_t i = 0; i < problem_count(v); i++) {
        print_warning(v->c, sft_catalog_problem_at(with_problems(v), i)->message, NULL);
    }
    for (size_t i = 0; i < v->odd.count; i++) {
        print_warning(v->c, v->odd.items[i].message, v->odd.items[i].tensor);
    }
}

static void print_valid(const verdict *v) {
    cli_out *o = &v->c->out;
    char number[32];
    char size[32];
    uint64_t nbytes = 0;
    const size_t tensors = sft_catalog_count(v->catalog);

    if (v->c->quiet && v->odd.count == 0 && problem_count(v) == 0) {
        return;
    }
    for (size_t i = 0; i < sft_catalog_file_count(v->catalog); i++) {
        nbytes += sft_catalog_file_at(v->catalog, i)->data_bytes;
    }
    cli_put_name(o, v->operand);
    cli_puts(o, v->c->color ? ": " CLI_GREEN "ok" CLI_NORMAL : ": ok");
    cli_printf(o, ", %s tensor%s, %s%s\n", cli_grouped(number, tensors), tensors == 1 ? "" : "s",
               cli_size(size, nbytes, v->c->units), v->digests_match ? ", digests match" : "");
    print_warnings(v);
}

static void print_invalid(const verdict *v, const char *hint) {
    cli_out *o = &v->c->out;
    const sft_error *err = &v->err;

    cli_put_name(o, v->operand);
    cli_puts(o, v->c->color ? ": " CLI_RED "invalid" CLI_NORMAL ": " : ": invalid: ");
    if (err->offset != SFT_NO_OFFSET) {
        cli_printf(o, "at byte %llu: ", (unsigned long long)err->offset);
    }
    if (err->tensor[0] != '\0') {
        cli_printf(o, "tensor \"%s\": ", err->tensor);
    }
    cli_puts(o, err->message);
    cli_put(o, "\n", 1);
    if (hint[0] != '\0') {
        cli_printf(o, v->c->color ? "  " CLI_GREEN "hint:" CLI_NORMAL " %s\n" : "  hint: %s\n",
                   hint);
    }
    print_warnings(v);
}

static void check_one(cli *c, const char *operand, counts *n) {
    verdict v = {.c = c, .operand = operand};
    char hint[512] = "";

    judge(&v);
    /* what nobody can read here is the file's fault, not the command line's */
    const int status = v.status == SFT_E_UNSUPPORTED ? CLI_NO : cli_status_of(v.status);
    if (v.status != SFT_OK) {
        cli_hint(operand, &v.err, hint, sizeof hint);
    }
    n->valid += v.status == SFT_OK;
    n->invalid += status == CLI_NO;
    n->unreadable += status > CLI_NO;
    if (status == CLI_STOPPED) {
        cli_answer(c, status);
    } else if (c->json) {
        cli_answer(c, status);
        print_json(&v, hint);
    } else if (status == CLI_OK) {
        print_valid(&v);
    } else if (status == CLI_NO) {
        cli_answer(c, status);
        print_invalid(&v, hint);
    } else {
        cli_fail(c, operand, &v.err);
    }
    cli_close(c, v.incomplete);
    cli_close(c, v.catalog);
}

/* ---------------------------------------------------------------- directories */

typedef struct walk {
    const char *directory;
    cli_strings directories; /* still to be looked into */
    cli_strings files;
} walk;

static void add_name(cli_strings *n, const char *directory, const char *name) {
    const size_t len = strlen(directory);

    cli_strings_take(n,
                     cli_joined(directory, len > 0 && directory[len - 1] != '/' ? "/" : "", name));
}

static void on_entry(void *ctx, const char *name, bool is_directory) {
    walk *w = ctx;

    if (is_directory) {
        if (name[0] != '.') {
            add_name(&w->directories, w->directory, name);
        }
    } else if (cli_ends_with(name, ".safetensors") ||
               cli_ends_with(name, ".safetensors.index.json")) {
        add_name(&w->files, w->directory, name);
    }
}

static int by_path(const void *left, const void *right) {
    char *const *a = left;
    char *const *b = right;
    return sft_natural_compare(*a, strlen(*a), *b, strlen(*b));
}

static void fail_listing(cli *c, const char *directory, int error) {
    cli_fail_io(c, directory, error, "cannot list the directory");
}

/* Are there files right in the directory, and no index among them? */
static bool lacks_index(const char *directory, const cli_strings *files) {
    const size_t len = strlen(directory);
    const size_t skip = len > 0 && directory[len - 1] == '/' ? len : len + 1;
    bool any = false;

    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i];
        if (strncmp(path, directory, len) != 0 || strlen(path) < skip || path[skip - 1] != '/' ||
            strchr(path + skip, '/') != NULL) {
            continue;
        }
        if (cli_ends_with(path, ".index.json")) {
            return false;
        }
        any = true;
    }
    return any;
}

/* Do the names of a directory's files count more than there are? Where an index is, it says that. */
static void check_count(cli *c, const char *directory, const cli_strings *files, counts *n) {
    sft_catalog *catalog = NULL;
    sft_error err;

    if (lacks_index(directory, files) &&
        cli_open_quietly(c, directory, 0, &catalog, &err) == SFT_E_SHARD_MISSING) {
        check_one(c, directory, n);
    }
    cli_close(c, catalog);
}

/* Can the parts be put together? In directories below the operand only ranks are parts. */
static void check_parts(cli *c, const char *directory, bool operand, const cli_strings *files,
                        counts *n) {
    const uint32_t kind = cli_ranks_kind(directory);
    sft_catalog *catalog = NULL;
    sft_error err;

    if (kind == SFT_CHECKPOINT_NONE) {
        check_count(c, directory, files, n);
        return;
    }
    if (kind == SFT_CHECKPOINT_STEPS || (!operand && kind != SFT_CHECKPOINT_RANKS)) {
        return;
    }
    if (kind == SFT_CHECKPOINT_RANKS && cli_text(c, "layout") == NULL &&
        cli_open_quietly(c, directory, 0, &catalog, &err) == SFT_E_NOT_FOUND) {
        cli_warn(c, directory,
                 "files were checked one by one, but whether they are a whole model nobody tells: "
                 "--layout FILE says how tensors are cut");
    } else {
        check_one(c, directory, n);
    }
    cli_close(c, catalog);
}

static void check_directory(cli *c, const char *directory, counts *n) {
    walk w;

    memset(&w, 0, sizeof w);
    add_name(&w.directories, directory, "");
    for (size_t i = 0; i < w.directories.count && !cli_stopped(c); i++) {
        w.directory = w.directories.items[i];
        const int error = cli_sys_list(w.directory, on_entry, &w);
        if (error != 0) {
            fail_listing(c, w.directory, error);
        }
    }
    if (w.files.count == 0) {
        check_one(c, directory, n); /* the library says what is missing */
    } else {
        qsort(w.files.items, w.files.count, sizeof *w.files.items, by_path);
    }
    /* Verdicts of files and of the whole, each right in its moment, must be of one moment to be believed
     * together. */
    uint64_t *stamps = cli_sys_stamps(w.files.items, w.files.count);
    for (size_t i = 0; i < w.files.count && !cli_stopped(c); i++) {
        check_one(c, w.files.items[i], n);
    }
    const size_t parts = w.files.count == 0 ? 0 : w.directories.count;
    for (size_t i = 0; i < parts && !cli_stopped(c); i++) {
        check_parts(c, i == 0 ? directory : w.directories.items[i], i == 0, &w.files, n);
    }
    const char *changed =
        cli_stopped(c) ? NULL : cli_sys_changed(w.files.items, w.files.count, stamps);
    if (changed != NULL) {
        CLI_FAIL(c, changed, SFT_E_CHANGED,
                 "was written to or replaced while its directory was checked");
    }
    free(stamps);
    cli_strings_reset(&w.directories);
    cli_strings_reset(&w.files);
}

/* ---------------------------------------------------------------- command */

static void run(cli *c) {
    counts n = {0, 0, 0};
    char valid[32];
    char invalid[32];
    char unreadable[32];
    char total[32];

    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        const char *operand = c->operands[i];
        if (strcmp(operand, "-") != 0 && cli_sys_kind(operand) == CLI_KIND_DIRECTORY) {
            check_directory(c, operand, &n);
        } else {
            check_one(c, operand, &n);
        }
    }
    const uint64_t all = n.valid + n.invalid + n.unreadable;
    if (all > 1 && !c->json && !c->quiet) {
        cli_printf(&c->out, "\n%s files: ", cli_grouped(total, all));
        cli_printf(&c->out, "%s valid, %s invalid", cli_grouped(valid, n.valid),
                   cli_grouped(invalid, n.invalid));
        cli_printf(&c->out, n.unreadable > 0 ? ", %s not readable\n" : "\n",
                   cli_grouped(unreadable, n.unreadable));
    }
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("strict", 0,
                 "also warn of what is allowed but should not be: deviations from the format's "
                 "letter, unsafe names, misaligned data, headers above the Hub's 25,000,000 bytes"),
    CLI_OPT_FLAG("digests", 0, "also read all data and compare it with the recorded digests"),
    CLI_OPT_END,
};

const cli_command cli_cmd_check = {
    .name = "check",
    .operands = "FILE...",
    .summary = "validate files, and say in plain words what is wrong",
    .description =
        "Says of each file whether it is valid; if not, where and why, and what it probably is "
        "instead. In directories, and directories in them, every .safetensors file and every index "
        "is checked. Only headers are read, so the size of files does not matter. A checkpoint of "
        "many ranks that tells its layout, or whose --layout or --step is given, is also put "
        "together: what no file holds is an error. So is a file that the names of the others count "
        "and that is not there (model-00002-of-00004), where no index says what there is.\n\n"
        "The exit status is 1 if a file is invalid, 3 if one cannot be read. Warnings do not "
        "change it. -q says nothing of valid files.\n\n"
        "With --json, one object per file and line: file, valid, error (null, or status, offset, "
        "tensor, message, hint) and warnings (each kind, message, tensor, offset).",
    .examples = "safetensors check model.safetensors\n"
                "safetensors check --strict ~/models\n"
                "safetensors check --json downloads/ | jq -r 'select(.valid | not) | .file'",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS | CLI_WITH_SIZES |
              CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
