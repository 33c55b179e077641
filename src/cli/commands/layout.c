/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/layout.c - layout: shows, merges, converts and makes descriptions of how a model is cut among
 * ranks. Read ranks.h first.
 */
#include "cli/operands/names.h"
#include "cli/operands/ranks.h"
#include "cli/outputs/kept.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- show */

static const char *form_name(sft_layout_form form) {
    static const char *const names[] = {"none",     "layout", "strategy",
                                        "topology", "plan",   "numbers"};
    return names[(unsigned)form < sizeof names / sizeof names[0] ? form : 0];
}

/* The rank's own shape; false: it holds nothing, or the global shape is not known. */
static bool local_shape(const sft_layout_entry *e, uint64_t rank, uint64_t *local, size_t *dims) {
    if (e->layout == NULL || !e->has_shape || !sft_layout_holds(e->layout, rank)) {
        return false;
    }
    *dims = sft_layout_is_flat(e->layout) ? 1 : e->dims;
    return sft_layout_local_shape(e->layout, e->shape, e->dims, rank, local, NULL) == SFT_OK;
}

/* "0-3, 8": ranks in device order, runs folded, at most eight of them. */
static void put_ranks(char *text, size_t cap, const sft_layout *l) {
    const uint64_t count = l != NULL ? sft_layout_rank_count(l) : 0;
    size_t used = 0;
    int runs = 0;

    text[0] = '\0';
    for (uint64_t i = 0; i < count && used + 60 < cap; runs++) {
        uint64_t first = 0, last, next;
        if (runs == 8) {
            memcpy(text + used, ", ...", 6);
            return;
        }
        (void)!sft_layout_rank_at(l, i++, &first, NULL);
        last = first;
        while (i < count && sft_layout_rank_at(l, i, &next, NULL) == SFT_OK && next == last + 1) {
            last = next;
            i++;
        }
        sft_error number; /* formats without printf's locale */
        (void)sft_error_at(&number, SFT_OK, 0, NULL, 0, first == last ? "%s%llu" : "%s%llu-%llu",
                           runs == 0 ? "" : ", ", (unsigned long long)first,
                           (unsigned long long)last);
        const size_t n = strlen(number.message);
        memcpy(text + used, number.message, n + 1);
        used += n;
    }
}

static void json_entry(cli *c, cli_json *j, const sft_layout_entry *e) {
    static const char *const matches[] = {"name", "pattern", "module"};
    uint64_t local[SFT_LAYOUT_RANK];
    size_t dims;
    char ranks[256];

    cli_json_open(j, '{');
    cli_json_field_text(j, matches[e->match <= 2 ? e->match : 0], e->name, e->name_len);
    if (e->has_shape) {
        cli_json_field_shape(j, "shape", e->shape, e->dims);
    }
    cli_json_field_string(j, "mesh", e->mesh);
    cli_json_field_string(j, "cut", e->cut);
    if (e->layout != NULL) {
        put_ranks(ranks, sizeof ranks, e->layout);
        cli_json_field_string(j, "ranks", ranks);
    }
    if (local_shape(e, cli_number(c, "rank", 0), local, &dims)) {
        cli_json_field_shape(j, "local", local, dims);
    }
    cli_json_close(j, '}');
}

static void show_json(cli *c, const char *operand, const sft_layout_set *set) {
    cli_json j;

    cli_json_begin(&j, &c->out);
    cli_json_field_string(&j, "file", operand);
    cli_json_field_string(&j, "form", form_name(sft_layout_set_form(set)));
    cli_json_field_u64(&j, "ranks", sft_layout_set_ranks(set));
    cli_json_field_u64(&j, "rank", cli_number(c, "rank", 0));
    cli_json_field_open(&j, "tensors", '[');
    for (size_t i = 0; i < sft_layout_set_count(set) && !cli_stopped(c); i++) {
        sft_layout_entry e;
        SFT_INIT(&e);
        if (sft_layout_set_at(set, i, &e, NULL) == SFT_OK) {
            json_entry(c, &j, &e);
        }
    }
    cli_json_close(&j, ']');
    cli_json_end(&j);
}

static void show_text(cli *c, const sft_layout_set *set) {
    static const char *const titles[] = {"name", "shape", "mesh", "cut", "ranks", "local"};
    cli_table t;

    cli_table_init(&t, 6, titles, 0);
    for (size_t i = 0; i < sft_layout_set_count(set) && !cli_stopped(c); i++) {
        uint64_t local[SFT_LAYOUT_RANK];
        char text[CLI_SHAPE_ROOM];
        char ranks[256];
        size_t dims;
        sft_layout_entry e;
        SFT_INIT(&e);
        if (sft_layout_set_at(set, i, &e, NULL) != SFT_OK) {
            continue;
        }
        put_ranks(ranks, sizeof ranks, e.layout);
        cli_table_text(&t, e.name, e.name_len);
        cli_table_cell(&t, "%s", e.has_shape ? cli_shape(text, e.shape, (uint32_t)e.dims) : "");
        cli_table_text(&t, e.mesh, strlen(e.mesh));
        cli_table_text(&t, e.cut, strlen(e.cut));
        cli_table_cell(&t, "%s", ranks);
        const bool known = local_shape(&e, cli_number(c, "rank", 0), local, &dims);
        cli_table_cell(&t, "%s", known ? cli_shape(text, local, (uint32_t)dims) : "");
    }
    cli_table_print(&t, &c->out, c->color);
    cli_printf(&c->out, "%s, %llu ranks, %llu entr%s\n", form_name(sft_layout_set_form(set)),
               (unsigned long long)sft_layout_set_ranks(set),
               (unsigned long long)sft_layout_set_count(set),
               sft_layout_set_count(set) == 1 ? "y" : "ies");
}

/* ---------------------------------------------------------------- merge, convert */

static sft_status as_text(const sft_layout_set *set, const char *to, char **text, size_t *size,
                          sft_error *err) {
    const bool strategy_wanted = strcmp(to, "layout") != 0;
    const sft_ms_form form = strcmp(to, "strategy-json") == 0 ? SFT_MS_JSON : SFT_MS_PROTOBUF;
    sft_status status = SFT_OK;

    *text = NULL;
    for (int pass = 0; pass < 2 && status == SFT_OK; pass++) {
        if (pass == 1) {
            *text = cli_alloc(*size + 1, 1);
        }
        status = strategy_wanted ? sft_layout_set_write_strategy(set, form, *text, *size, size, err)
                                 : sft_layout_set_write(set, *text, *size, size, err);
    }
    return status;
}

static void put_file(cli *c, const char *path, const char *text, size_t size) {
    cli_sys_file f;
    char why[160];
    sft_error err;
    int error = 0;

    if (path == NULL || strcmp(path, "-") == 0) {
        cli_put(&c->out, text, size);
        return;
    }
    cli_kept_watch(c, path);
    error = cli_sys_create(&f, path, c->force);
    if (error == 0) {
        error = cli_sys_put(&f, text, size);
        if (error == 0) {
            error = cli_sys_commit(&f);
        } else {
            cli_sys_discard(&f);
        }
    }
    if (error != 0) {
        const bool exists = cli_sys_exists_error(error);
        (void)sft_error_set(&err, exists ? SFT_E_EXISTS : SFT_E_IO, error, "cannot write %s: %s",
                            path, cli_sys_text(error, why, sizeof why));
        cli_fail(c, path, &err);
    }
}

static void write_set(cli *c, const char *operand, const sft_layout_set *set, const char *to) {
    char *text = NULL;
    size_t size = 0;
    sft_error err;

    if (as_text(set, to, &text, &size, &err) == SFT_OK) {
        put_file(c, cli_text(c, "output"), text, size);
    } else {
        cli_fail_plainly(c, operand, &err);
    }
    free(text);
}

static void use_set(cli *c, const char *operand, const char *verb, const sft_layout_set *set) {
    const char *to = cli_text(c, "to");

    if (strcmp(verb, "show") == 0 && c->json) {
        show_json(c, operand, set);
    } else if (strcmp(verb, "show") == 0) {
        show_text(c, set);
    } else if (strcmp(verb, "convert") == 0) {
        write_set(c, operand, set, to != NULL ? to : "layout");
    } else {
        write_set(c, operand, set, to != NULL ? to : "strategy");
    }
}

/* A checkpoint that tells its own layout; false: it is none. */
static bool with_checkpoint(cli *c, const char *operand, const char *verb) {
    const uint32_t kind = cli_ranks_kind(operand);
    sft_checkpoint_options o;
    sft_checkpoint *checkpoint;
    sft_error err;

    if (kind == SFT_CHECKPOINT_NONE || kind == SFT_CHECKPOINT_COMPLETE) {
        return false;
    }
    cli_ranks_options(c, &o, NULL);
    o.flags = SFT_CHECKPOINT_PARTIAL; /* the layout is wanted, whatever the files hold */
    if (sft_checkpoint_open(&checkpoint, operand, &o, &err) != SFT_OK) {
        cli_fail(c, operand, &err);
        return true;
    }
    if (sft_checkpoint_layouts(checkpoint) != NULL) {
        use_set(c, operand, verb, sft_checkpoint_layouts(checkpoint));
    } else {
        cli_note(c, operand, "one rank, and nothing is cut");
    }
    sft_checkpoint_close(checkpoint);
    return true;
}

static void with_set(cli *c, const char *operand, const char *verb) {
    sft_layout_set_options o;
    sft_layout_set *set = NULL;
    sft_error err;

    if (with_checkpoint(c, operand, verb)) {
        return;
    }
    SFT_INIT(&o);
    o.ranks = cli_number(c, "ranks", 0);
    if (sft_layout_set_open(&set, operand, &o, &err) != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
        return;
    }
    if (sft_layout_set_form(set) == SFT_LAYOUT_FORM_PARALLEL) {
        cli_usage(c,
                  "%s: numbers say nothing of tensors before a model is there: layout make MODEL",
                  operand);
    } else {
        use_set(c, operand, verb, set);
    }
    sft_layout_set_free(set);
}

/* ---------------------------------------------------------------- make */

static const char *const keys[] = {"dp", "tp", "pp", "cp", "ep", "vpp"};

/* The numbers of the options as a layout's text. */
static char *numbers(const cli *c) {
    cli_text_buffer t = {NULL, 0, 0};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cli_text_put(&t, i == 0 ? "" : ",");
        cli_text_put(&t, keys[i]);
        cli_text_put(&t, "=");
        cli_text_number(&t, cli_number(c, keys[i], 1));
    }
    if (cli_text(c, "offset") != NULL) {
        cli_text_put(&t, ",offset=");
        cli_text_put(&t, cli_text(c, "offset"));
    }
    if (cli_text(c, "vocab-parallel") != NULL) {
        cli_text_put(&t, ",vocab-parallel=");
        cli_text_put(&t, cli_text(c, "vocab-parallel"));
    }
    cli_text_put(&t, cli_flag(c, "optimizer-parallel") ? ",optimizer-parallel" : "");
    return t.data;
}

static bool has_numbers(const cli *c) {
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (cli_number(c, keys[i], UINT64_MAX) != UINT64_MAX) {
            return true;
        }
    }
    return cli_text(c, "offset") != NULL || cli_text(c, "vocab-parallel") != NULL ||
           cli_flag(c, "optimizer-parallel");
}

static void make(cli *c, const char *operand) {
    const char *to = cli_text(c, "to");
    sft_layout_set *set = NULL;
    sft_catalog *model;
    sft_error err;

    if (!cli_open(c, operand, 0, &model)) {
        return;
    }
    if (cli_names_use(c, operand, &model)) {
        const char *file = cli_text(c, "parallel-config");
        char *text = numbers(c);
        const sft_status status =
            file != NULL ? cli_ranks_read_layout(file, 0, &set, &err)
                         : sft_layout_set_parse(&set, text, strlen(text), "options", NULL, &err);
        if (status != SFT_OK) {
            cli_fail_plainly(c, file != NULL ? file : operand, &err);
        } else if (sft_layout_set_form(set) != SFT_LAYOUT_FORM_PARALLEL) {
            cli_usage(c, "--parallel-config %s: neither a configuration of MindFormers nor numbers",
                      file);
        } else if (cli_names_bind(c, operand, set, model)) {
            write_set(c, operand, set, to != NULL ? to : "layout");
        }
        free(text);
        sft_layout_set_free(set);
        cli_close(c, model);
    }
}

static void run(cli *c) {
    const char *verb = c->operands[0];
    const bool makes = strcmp(verb, "make") == 0;

    if (!makes && strcmp(verb, "show") != 0 && strcmp(verb, "merge") != 0 &&
        strcmp(verb, "convert") != 0) {
        cli_usage(c, "\"%s\" is none of show, merge, convert and make", verb);
        return;
    }
    if (strcmp(verb, "show") != 0 && c->operand_count > 2) {
        cli_usage(c,
                  makes ? "%s takes one model"
                        : "%s takes one description, or a directory of strategies",
                  verb);
        return;
    }
    if (makes && cli_text(c, "parallel-config") != NULL && has_numbers(c)) {
        cli_usage(c, "--parallel-config says what the other numbers do");
        return;
    }
    if (makes) {
        make(c, c->operands[1]);
        return;
    }
    for (size_t i = 1; i < c->operand_count && !cli_stopped(c); i++) {
        with_set(c, c->operands[i], verb);
    }
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_NUMBER, "rank", 'r', "N", "show: whose local shapes (default: 0)"),
    CLI_OPT_ARG(CLI_NUMBER, "ranks", 'n', "N",
                "of a tensor-parallel plan that does not say: for so many ranks"),
    CLI_OPT_ARG(CLI_TEXT, "step", 0, "NAME",
                "of directories of ranks: the files whose names end so (3_2)"),
    CLI_OPT_CHOICE("to", 0, "FORM", "layout|strategy|strategy-json",
                   "what to write: our JSON (convert's default), a MindSpore strategy as protobuf "
                   "(merge's default) or as JSON"),
    CLI_OPT_ARG(CLI_NUMBER, "dp", 0, "N", "make: ranks that are replicas of one another"),
    CLI_OPT_ARG(CLI_NUMBER, "tp", 0, "N", "make: ranks that share each tensor"),
    CLI_OPT_ARG(CLI_NUMBER, "pp", 0, "N", "make: stages that share the layers"),
    CLI_OPT_ARG(CLI_NUMBER, "cp", 0, "N", "make: ranks that share a context, and no weights"),
    CLI_OPT_ARG(CLI_NUMBER, "ep", 0, "N", "make: ranks that share the experts"),
    CLI_OPT_ARG(CLI_NUMBER, "vpp", 0, "N", "make: runs of layers in each stage"),
    CLI_OPT_ARG(CLI_TEXT, "offset", 0, "N:N...",
                "make: layers that each stage has more (or less) than its share"),
    CLI_OPT_FLAG("optimizer-parallel", 0,
                 "make: replicas share the rows of each tensor, as MindSpore's parallel optimizer "
                 "has it"),
    CLI_OPT_CHOICE("vocab-parallel", 0, "CHOICE", "yes|no",
                   "make: embeddings and output are cut along the vocabulary (default: yes; names "
                   "of MindFormers 1.x: where there are stages)"),
    CLI_OPT_ARG(CLI_FILE, "parallel-config", 0, "FILE",
                "make: these numbers out of a configuration of MindFormers (YAML)"),
    CLI_NAMES_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_layout = {
    .name = "layout",
    .operands = "show|merge|convert|make FILE...",
    .summary = "show, merge, convert and make layouts: how a model is cut among ranks",
    .description =
        "FILE is any description, told by its content: a MindSpore strategy (protobuf or JSON), a "
        "directory of the strategies of all pipeline stages, our own JSON form, topology.json, or "
        "a tensor-parallel plan of transformers. A checkpoint that tells its own layout (PyTorch's "
        "shards, MindFormers 2.0, rank directories with a layout beside them) is one too; where "
        "files are no ranks, they are numbered.\n\n"
        "show lists tensors: full shape where the description tells it, the mesh, the axes that "
        "cut each dimension, the ranks that hold a part, and the local shape on --rank. merge "
        "makes one strategy out of a directory of them; equal files of one stage are fine, others "
        "are an error. convert writes our own form. make writes the layout of a model, FILE, out "
        "of the numbers of --dp, --tp and --pp: each tensor is cut as its name says, layers go to "
        "stages in order. Names that no rule knows are refused, as are numbers that do not "
        "divide.\n\n"
        "With --json, show writes one object per file: schema, file, form, ranks, rank, tensors "
        "(name, pattern or module; shape, mesh, cut, ranks, local).",
    .examples = "safetensors layout show --rank 3 strategy/ckpt_strategy_rank_0.ckpt\n"
                "safetensors layout merge strategy/ -o merged.ckpt\n"
                "safetensors layout convert plan.json --ranks 8 -o layout.json\n"
                "safetensors layout make model/ --dp 2 --tp 4 --pp 2 -o layout.json",
    .options = options,
    .common = CLI_NO_STDIN | CLI_WITH_JSON | CLI_WITH_OUTPUT | CLI_WITH_FORCE,
    .min_operands = 2,
    .max_operands = CLI_MANY,
    .run = run,
    .words = "show merge convert make",
};
