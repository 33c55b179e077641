/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/convert.c - weight files of other formats into safetensors, and what is told of it.
 * Read choice.h first.
 */
#include "cli/cmd.h"
#include "cli/copy/cast_lost.h"
#include "cli/copy/choice.h"
#include "cli/copy/convert_ranks.h"
#include "cli/look/verify.h"
#include "cli/operands/names.h"
#include "cli/operands/other_format.h"
#include "cli/operands/siblings.h"
#include "cli/operands/url.h"
#include "cli/outputs/beside.h"
#include "cli/outputs/kept.h"
#include "cli/outputs/lost.h"
#include "cli/outputs/older.h"
#include "cli/sys.h"
#include "cli/work.h"
#include <string.h>

enum { FOUND_MAX = 4096 };

typedef struct converting {
    cli *c;
    cli_choice choice;
    cli_cast_lost *lost;
    cli_table table;
    cli_json json;
    bool plan;
    const sft_catalog *catalog; /* the input of an export */
    cli_beside *beside;         /* of a conversion */
    sft_names *names;           /* NULL: no --names */
} converting;

/* ---------------------------------------------------------------- choosing */

/* Every name of a tensor is asked for: its own, and those that it has beside it. */
static sft_status choose(void *ctx, sft_import_item *item, sft_error *err) {
    converting *k = ctx;

    (void)err;
    cli_choice_take(&k->choice, item);
    return SFT_OK;
}

/* ---------------------------------------------------------------- telling */

static void planned_json(cli_json *j, const sft_import_item *item) {
    const sft_tensor *t = item->tensor;

    cli_json_open(j, '{');
    cli_json_field_text(j, "name", item->name, item->name_len);
    cli_json_field_string(j, "dtype", item->dtype->name);
    cli_json_field_shape(j, "shape", t->shape, t->rank);
    cli_json_field_u64(j, "nbytes", item->nbytes);
    cli_json_field_text(j, "from_name", t->name, t->name_len);
    cli_json_field_string(j, "from_dtype", t->dtype->name);
    cli_json_field_bool(j, "in_order", t->piece_count == 1 && t->pieces[0].strides == NULL);
    cli_json_field_u64(j, "shard", item->file);
    cli_json_close(j, '}');
}

static void planned(void *ctx, const sft_import_item *item) {
    converting *k = ctx;
    const sft_tensor *t = item->tensor;
    char text[CLI_SHAPE_ROOM];
    char size[32];

    if (k->c->json) {
        planned_json(&k->json, item);
        return;
    }
    cli_table_cell(&k->table, "%u", (unsigned)item->file + 1);
    cli_table_text(&k->table, item->name, item->name_len);
    cli_table_cell(&k->table, "%s", item->dtype->name);
    cli_table_cell(&k->table, "%s", cli_shape(text, t->shape, t->rank));
    cli_table_cell(&k->table, "%s", cli_size(size, item->nbytes, k->c->units));
    cli_table_cell(&k->table, "%s",
                   item->dtype->id != t->dtype->id                       ? "cast"
                   : t->piece_count == 1 && t->pieces[0].strides != NULL ? "gather"
                                                                         : "copy");
}

static void casted(void *ctx, const sft_import_item *item, const void *before, const void *after,
                   size_t n) {
    const converting *k = ctx;
    cli_cast_saw(k->lost, item->tensor, item->dtype, before, after, n);
}

static void json_begin(converting *k) {
    cli *c = k->c;
    cli_json *j = &k->json;

    cli_json_begin(j, &c->out);
    cli_json_field_open(j, "inputs", '[');
    for (size_t i = 0; i < c->operand_count; i++) {
        cli_json_string(j, c->operands[i]);
    }
    cli_json_close(j, ']');
    cli_json_field_string(j, "output", cli_text(c, "output"));
    if (k->plan) {
        cli_json_field_open(j, "plan", '[');
    }
}

static void json_end(converting *k, const sft_import_converted *r) {
    cli_json *j = &k->json;

    if (k->plan) {
        cli_json_close(j, ']');
    }
    cli_json_field_u64(j, "tensors", r->tensors);
    cli_json_field_u64(j, "cast", r->cast);
    cli_json_field_u64(j, "gathered", r->gathered);
    cli_json_field_u64(j, "data_bytes", r->data_bytes);
    cli_json_field_u64(j, "file_bytes", r->file_bytes);
    cli_json_field_u64(j, "unused_bytes", r->unused_bytes);
    cli_json_field_u64(j, "files", r->files);
    cli_json_field_u64(j, "verified", r->verified);
    cli_lost_json(k->c, j, r->aliases, r->left_out);
    cli_notes_json(k->c, j);
    cli_json_end(j);
}

static void text_end(converting *k, const sft_import_converted *r) {
    cli *c = k->c;
    char data[32];
    char unused[32];

    if (k->plan) {
        cli_table_print(&k->table, &c->out, c->color);
    }
    if (!k->plan && c->quiet) {
        return;
    }
    cli_printf(&c->out, "%llu %s, %s, in %llu %s", (unsigned long long)r->tensors,
               r->tensors == 1 ? "tensor" : "tensors", cli_size(data, r->data_bytes, c->units),
               (unsigned long long)r->files, r->files == 1 ? "file" : "files");
    if (r->aliases > 0) {
        cli_printf(&c->out, "; %llu other %s", (unsigned long long)r->aliases,
                   r->aliases == 1 ? "name" : "names");
    }
    if (r->unused_bytes > 0) {
        cli_printf(&c->out, "; %s of unused storage left behind",
                   cli_size(unused, r->unused_bytes, c->units));
    }
    cli_puts(&c->out, r->verified > 0 ? "; verified\n" : "\n");
}

static void begin(converting *k) {
    static const char *const titles[] = {"FILE", "NAME", "DTYPE", "SHAPE", "SIZE", "HOW"};

    if (k->c->json) {
        json_begin(k);
    } else {
        cli_table_init(&k->table, 6, titles, 1u << 4);
    }
}

/* report: taken over if it went well; else err says why, of `failed`. */
static void conclude(converting *k, const sft_import_converted *r, sft_import_report *report,
                     const char *failed, const sft_error *err) {
    cli *c = k->c;
    const char *one = c->operand_count == 1 ? c->operands[0] : NULL;
    const char *output = cli_text(c, "output");

    if (err != NULL) {
        c->out.used = c->json ? 0 : c->out.used; /* not half a document */
        cli_fail_plainly(c, failed, err);
        c->status = err->status == SFT_E_UNSUPPORTED ? CLI_NO : c->status;
    } else {
        cli_warn_report(c, one, report);
        cli_choice_unused(&k->choice, one);
        cli_lost_keep(c, report);
        cli_cast_tell(k->lost, c, one != NULL ? one : output);
        if (one != NULL) {
            cli_siblings_tell(c, one, output, k->catalog);
        }
        if (k->beside != NULL) {
            cli_beside_tell(k->beside);
        }
        (c->json ? json_end : text_end)(k, r);
    }
    if (!c->json) {
        cli_table_reset(&k->table);
    }
}

/* ---------------------------------------------------------------- command */

/* The extension libraries do not know each other: what a URL names is opened here. */
static sft_status open_url(void *ctx, const char *input, sft_source **out, sft_error *err) {
    const converting *k = ctx;
    return cli_is_url(input) ? cli_url_source(k->c, input, out, err) : SFT_OK;
}

static sft_status opened(void *ctx, const char *input, sft_catalog **catalog, sft_error *err) {
    const converting *k = ctx;
    return cli_names_give(k->c, k->names, input, catalog, err);
}

/* A conversion that met pages of its input that are gone was cancelled by cli_control, or failed
 * over the zeros that it read instead. */
static sft_status outcome(sft_status status, sft_error *err) {
    return status == SFT_OK || status == SFT_E_TRUNCATED || !cli_sys_lost_pages()
               ? status
               : CLI_ERROR(err, SFT_E_TRUNCATED,
                           "the input was cut short while it was read, or its disk failed");
}

/* --dedup keep, of other names that a file records, too. */
static uint32_t keep_names(const cli *c) {
    const char *dedup = cli_text(c, "dedup");
    return dedup != NULL && strcmp(dedup, "keep") == 0 ? SFT_CONVERT_KEEP_NAMES : 0;
}

/* For an older model that lies where the output goes. How many files there will be is asked only where it
 * matters. False: reported. */
static bool make_way(converting *k, const sft_import_convert_options *options, const char *output,
                     cli_older *older) {
    cli *c = k->c;
    sft_import_convert_options o = *options;
    sft_import_report *report = NULL;
    sft_import_converted result;
    uint64_t files = 1;
    sft_error err;

    if (o.max_shard_bytes != 0 || cli_sys_kind(output) == CLI_KIND_DIRECTORY) {
        o.flags |= SFT_CONVERT_PLAN;
        if (sft_import_convert((const char *const *)c->operands, c->operand_count, output, &o,
                               &result, &report, &err) != SFT_OK) {
            return true; /* the conversion itself will say why */
        }
        files = result.files;
        sft_import_report_free(report);
    }
    return cli_older_find_set(older, c, output, files) && cli_older_begin(older);
}

static void convert(converting *k) {
    cli *c = k->c;
    const char *output = cli_text(c, "output");
    sft_import_convert_options o;
    sft_import_report *report;
    sft_import_converted result;
    sft_import_options read;
    sft_write_options write;
    sft_limits limits;
    sft_error err;

    cli_import_options(c, &read, &limits);
    SFT_INIT(&write);
    SFT_INIT(&o);
    write.durability = cli_flag(c, "no-sync") ? SFT_DURABLE_NONE : SFT_DURABLE_FULL;
    write.pool = cli_pool(c);
    write.control = cli_control(c, "converting");
    o.read = &read;
    o.write = &write;
    o.choose = cli_choice_any(c) ? choose : NULL;
    o.open = open_url;
    o.opened = k->names != NULL ? opened : NULL;
    o.planned = k->plan ? planned : NULL;
    o.casted = casted;
    o.ctx = k;
    o.metadata = k->choice.metadata;
    o.metadata_count = k->choice.metadata_count;
    o.max_shard_bytes = cli_number(c, "max-shard-size", 0);
    o.flags = (k->plan ? SFT_CONVERT_PLAN : 0) | (c->force ? SFT_CONVERT_REPLACE : 0) |
              (cli_flag(c, "verify") ? SFT_CONVERT_VERIFY : 0) | keep_names(c) |
              (cli_sys_catch_lost_pages() ? SFT_CONVERT_BORROW : 0);
    cli_older older = {.c = c};
    cli_beside beside;
    cli_beside_begin(&beside, c, c->operands[0], c->operand_count == 1 ? output : NULL);
    o.ready = cli_beside_put;
    o.ready_ctx = &beside;
    if (!k->plan && !make_way(k, &o, output, &older)) {
        cli_control_end(c);
        cli_older_end(&older, false);
        return;
    }
    begin(k);
    const sft_status status =
        outcome(sft_import_convert((const char *const *)c->operands, c->operand_count, output, &o,
                                   &result, &report, &err),
                &err);
    cli_control_end(c);
    cli_older_end(&older, status == SFT_OK);
    k->beside = &beside;
    conclude(k, &result, report, c->operand_count == 1 ? c->operands[0] : NULL,
             status != SFT_OK ? &err : NULL);
    cli_beside_end(&beside, status == SFT_OK || status == SFT_E_DURABILITY);
}

/* ---------------------------------------------------------------- into other formats */

/* Extensions are compared without regard to case. */
static bool is_same(const char *text, const char *ending) {
    size_t i = 0;

    while (ending[i] != '\0' && (text[i] == ending[i] || (text[i] | 0x20) == ending[i])) {
        i++;
    }
    return ending[i] == '\0' && text[i] == '\0';
}

/* What --to, or else the extension of OUT, asks for. */
static uint32_t output_format(cli *c) {
    static const struct {
        const char *word;
        const char *ending;
        uint32_t format;
    } rows[] = {
        {"safetensors", ".safetensors", SFT_IMPORT_SAFETENSORS},
        {"npz", ".npz", SFT_IMPORT_NPZ},
        {"gguf", ".gguf", SFT_IMPORT_GGUF},
        {"pt", ".pt", SFT_IMPORT_TORCH_ZIP},
        {"pt", ".pth", SFT_IMPORT_TORCH_ZIP},
        {"ckpt", ".ckpt", SFT_IMPORT_MINDSPORE},
    };
    const char *output = cli_text(c, "output");
    const char *to = cli_text(c, "to");
    const size_t len = strlen(output);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t n = strlen(rows[i].ending);
        if (to != NULL ? strcmp(to, rows[i].word) == 0
                       : len > n && is_same(output + len - n, rows[i].ending)) {
            return rows[i].format;
        }
    }
    return SFT_IMPORT_SAFETENSORS;
}

static void export_options(converting *k, sft_export_options *o) {
    cli *c = k->c;

    SFT_INIT(o);
    o->pool = cli_pool(c);
    o->control = cli_control(c, "converting");
    o->choose = choose;
    o->planned = k->plan ? planned : NULL;
    o->casted = casted;
    o->ctx = k;
    o->metadata = k->choice.metadata;
    o->metadata_count = k->choice.metadata_count;
    o->piece_bytes = cli_number(c, "piece-size", 0);
    o->durability = cli_flag(c, "no-sync") ? SFT_DURABLE_NONE : SFT_DURABLE_FULL;
    o->flags = (k->plan ? SFT_CONVERT_PLAN : 0) | (c->force ? SFT_CONVERT_REPLACE : 0) |
               (cli_flag(c, "verify") ? SFT_CONVERT_VERIFY : 0) | keep_names(c) |
               (cli_sys_catch_lost_pages() ? SFT_CONVERT_BORROW : 0);
}

static void export_into(converting *k, uint32_t format) {
    cli *c = k->c;
    sft_import_report *report = NULL;
    sft_import_converted result;
    sft_export_options o;
    sft_catalog *catalog;
    sft_error err;

    if (c->operand_count != 1 || cli_number(c, "max-shard-size", 0) != 0) {
        cli_usage(c, "one input becomes one %s file, without shards",
                  sft_import_format_name(format));
        return;
    }
    if (!cli_open(c, c->operands[0], 0, &catalog) || !cli_names_use(c, c->operands[0], &catalog)) {
        return;
    }
    export_options(k, &o);
    cli_kept_watch(c, cli_text(c, "output"));
    o.report = &report;
    begin(k);
    const sft_status status =
        outcome(sft_import_export(catalog, format, cli_text(c, "output"), &o, &result, &err), &err);
    cli_control_end(c);
    c->proved = status == SFT_OK;
    result.left_out += cli_lost_count_all(c); /* while the catalog was opened */
    k->catalog = catalog;
    conclude(k, &result, report, cli_text(c, "output"), status != SFT_OK ? &err : NULL);
    cli_close(c, catalog);
}

/* *made: the directory is new. */
static bool make_output(cli *c, const converting *k, bool *made) {
    const char *output = cli_text(c, "output");
    char found[FOUND_MAX];
    int error;

    *made = false;
    const bool is_directory = cli_sys_kind(output) == CLI_KIND_DIRECTORY;
    /* a directory of TensorFlow's is one checkpoint, and becomes one file */
    const bool of_directory =
        c->operand_count == 1 && cli_sys_kind(c->operands[0]) == CLI_KIND_DIRECTORY &&
        sft_import_locate(found, sizeof found, c->operands[0], NULL) != SFT_OK;
    if (is_directory && !of_directory) {
        CLI_FAIL(c, output, SFT_E_NOT_REGULAR,
                 "a directory: name the file in it, model.safetensors for example");
        return false;
    }
    if (k->plan || !of_directory || is_directory) {
        return true;
    }
    error = cli_sys_make_directory(output);
    if (error != 0) {
        cli_fail_io(c, output, error, "cannot make the directory");
    }
    *made = error == 0;
    return *made;
}

/* A training job's directory, which no reader of another format knows. */
static bool is_of_ranks(cli *c) {
    char found[FOUND_MAX];

    return c->operand_count == 1 && cli_sys_kind(c->operands[0]) == CLI_KIND_DIRECTORY &&
           output_format(c) == SFT_IMPORT_SAFETENSORS && cli_convert_is_ranks(c->operands[0]) &&
           sft_import_locate(found, sizeof found, c->operands[0], NULL) != SFT_OK;
}

static void run(cli *c) {
    converting k = {.c = c};
    bool made;

    k.lost = cli_cast_watch();
    k.plan = cli_flag(c, "plan") || cli_flag(c, "dry-run");
    const char *output = cli_text(c, "output");
    if (output == NULL || output[0] == '\0' || strcmp(output, "-") == 0) {
        cli_usage(c, "-o OUT says where to");
    } else if ((cli_text(c, "to") == NULL && cli_sys_kind(output) != CLI_KIND_DIRECTORY &&
                cli_lost_ending(c, output, true)) ||
               cli_over_read(c, output)) {
    } else if (is_of_ranks(c)) {
        cli_convert_ranks(c);
    } else if (cli_choice_parse(&k.choice, c) &&
               (cli_text(c, "names") == NULL || (k.names = cli_names_open(c)) != NULL) &&
               (!cli_flag(c, "verify") || k.plan || cli_verify_inputs(c))) {
        const uint32_t format = output_format(c);
        if (format != SFT_IMPORT_SAFETENSORS) {
            export_into(&k, format);
        } else if (cli_reads_stdin(c)) {
            cli_usage(c, "files are needed, which may have others beside them: safetensors cp - "
                         "OUT writes what standard input holds");
        } else if (make_output(c, &k, &made)) {
            convert(&k);
            if (made && c->status != 0) {
                cli_sys_remove_directory(cli_text(c, "output"));
            }
        }
    }
    cli_cast_end(k.lost);
    cli_choice_reset(&k.choice);
    sft_names_free(k.names);
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_FILE, "output", 'o', "OUT", "the file or directory to write"),
    CLI_OPT_CHOICE("to", 0, "FORMAT", "safetensors|npz|gguf|pt|ckpt",
                   "what OUT becomes; else its extension says it, else safetensors"),
    CLI_CHOOSE_OPTIONS,
    CLI_OPT_ARG(CLI_LIST, "rename", 'r', "OLD=NEW", "rename, as in cp"),
    CLI_OPT_ARG(CLI_LIST, "cast", 'c', "[PATTERN=]DTYPE", "change the element type, as in cp"),
    CLI_OPT_ARG(CLI_LIST, "metadata", 'm', "KEY=VALUE", "set a metadata entry; may be repeated"),
    CLI_OPT_ARG(CLI_FILE, "metadata-json", 0, "FILE",
                "metadata entries from a JSON object of strings"),
    CLI_NAMES_OPTIONS,
    CLI_OPT_ARG(CLI_BYTES, "max-shard-size", 0, "SIZE",
                "cut into files of at most this much data, with an index"),
    CLI_OPT_ARG(CLI_BYTES, "piece-size", 0, "SIZE",
                "ckpt: tensors in pieces of at most this much (default and most: 512 MiB)"),
    CLI_OPT_FLAG("tree", 0,
                 "keep everything around the tensors, too: an optimizer's state comes back equal"),
    CLI_BESIDE_OPTION,
    CLI_OPT_FLAG("verify", 0, "read the output again and compare every byte"),
    CLI_OPT_FLAG("restart", 0,
                 "of a directory of ranks: forget what a run that was killed has left"),
    CLI_OPT_FLAG("no-sync", 0, "do not wait for the disk"),
    CLI_PLAN_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_convert = {
    .name = "convert",
    .operands = "IN...",
    .summary = "convert other weight formats to safetensors and back, executing nothing",
    .description =
        "Reads PyTorch checkpoints of any age (and every other format that libsafetensors-import "
        "knows; what a file is, its bytes say) and writes safetensors to -o OUT: one file, or with "
        "--max-shard-size shards and an index. An input may be the URL of a file. Several inputs "
        "become one output. A directory with pytorch_model.bin or pytorch_model-*.bin and their "
        "index becomes model.safetensors, or the same shards with their index, in the directory "
        "OUT. Of a training job's directory (rank_0, rank_1 ..., or a file for each step) every "
        "file of weights is converted under its name, without a layout, with meta.json, "
        "layout.json and strategy files; --select, --drop, --rename and --cast act on every file "
        "there, and a run that was killed goes on.\n\n"
        "Of a nested checkpoint the model is taken if the rest is its optimizer, scheduler, "
        "average or what the trainer recorded, which is named in warnings; of everything else all "
        "parts are taken. --key chooses a part; --tree takes everything and keeps dicts, lists and "
        "numbers in the metadata, where Python's load_tree and a conversion back to PyTorch find "
        "them. Names of the same bytes become one tensor and metadata entries (--dedup). Storage "
        "that no tensor uses stays behind. What is not understood is an error, or left out and "
        "listed with --allow-opaque. Nothing in a file is ever executed. --names renames, fuses "
        "and "
        "splits the tensors of each input by rules; --select, --drop, --rename and --cast then see "
        "the new names.\n\n"
        "--to, or the extension of OUT, asks for another format than safetensors: npz (numpy), "
        "gguf, pt (PyTorch's zip archive), ckpt (MindSpore); IN may then also be safetensors, a "
        "directory or an index. A type that the format does not have is an error: cast it.\n\n"
        "OUT appears complete or not at all; one that exists is replaced only with -f. --json "
        "writes schema, inputs, output, tensors, cast, gathered, data_bytes, file_bytes, "
        "unused_bytes, files, verified, aliases, left_out, left_out_parts, notes; with --plan also "
        "plan: an array of name, dtype, shape, nbytes, from_name, from_dtype, in_order, shard. Of "
        "a "
        "training job's directory --json and --plan write what reshard does.",
    .examples = "safetensors convert pytorch_model.bin -o model.safetensors --verify\n"
                "safetensors convert model/ -o converted/ # a Hugging Face directory\n"
                "safetensors convert checkpoint/ -o ranks/ # MindSpore's .ckpt files of all ranks\n"
                "safetensors convert last.ckpt -o ema.safetensors --key ema --cast bf16",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_JOBS | CLI_WITH_SIZES |
              CLI_WITH_IMPORT | CLI_WITH_REMOTE,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
