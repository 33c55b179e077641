/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/run.c - run: the steps of a training run, whether they are good, and which a rule would
 * prune. Read <sft/run.h> first.
 */
#include "cli/cmd.h"
#include <sft/run.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- what the command line says */

static bool has_rule(const sft_run_rules *r) {
    return r->keep_last != 0 || r->keep_every != 0 || r->best != NULL || r->keep_seconds != 0;
}

static bool take_rules(cli *c, sft_run_rules *r) {
    const char *const mode = cli_text(c, "mode");
    const double seconds = cli_real(c, "keep-days", 0) * 86400;

    SFT_INIT(r);
    r->keep_last = cli_number(c, "keep-last", 0);
    r->keep_every = cli_number(c, "keep-every", 0);
    r->keep_best = cli_number(c, "keep-best", 0);
    r->keep_seconds = (uint64_t)seconds + ((double)(uint64_t)seconds < seconds);
    r->best = cli_text(c, "best");
    r->best_mode = mode != NULL && strcmp(mode, "max") == 0 ? SFT_RUN_MAX : SFT_RUN_MIN;
    if (r->best == NULL && (r->keep_best != 0 || mode != NULL)) {
        cli_usage(c, "--keep-best and --mode need a metric: --best NAME");
        return false;
    }
    return true;
}

/* Another process that has the run is no defect. */
static void fail(cli *c, const char *operand, const sft_error *err) {
    if (err->status == SFT_E_STATE) {
        sft_error told = *err;
        told.status = SFT_E_EXISTS; /* exit status 3 */
        cli_fail_plainly(c, operand, &told);
    } else {
        cli_fail_plainly(c, operand, err);
    }
}

static bool open_run(cli *c, const char *operand, const sft_run_rules *rules, bool write,
                     sft_run **out) {
    sft_run_options o;
    sft_error err;

    SFT_INIT(&o);
    o.rules = rules;
    o.pool = cli_pool(c);
    o.flags = write ? 0 : SFT_RUN_READ_ONLY;
    if (sft_run_open(out, operand, &o, &err) != SFT_OK) {
        fail(c, operand, &err);
        return false;
    }
    return true;
}

static bool list_steps(cli *c, const char *operand, sft_run *run, uint32_t flags,
                       sft_run_list **out) {
    const uint64_t step = cli_number(c, "step", SFT_RUN_NONE);
    sft_error err;
    const sft_status status =
        sft_run_list_make(out, run, step, flags, cli_control(c, "verifying"), &err);

    cli_control_end(c);
    if (status == SFT_OK && sft_run_list_count(*out) == 0) {
        sft_run_list_free(*out);
        *out = NULL;
        (void)sft_error_set(&err, SFT_E_NOT_FOUND, 0,
                            step == SFT_RUN_NONE ? "the directory holds no steps of a run"
                                                 : "the run has no such step");
        cli_fail_plainly(c, operand, &err);
    } else if (status != SFT_OK) {
        fail(c, operand, &err);
    }
    return *out != NULL;
}

/* ---------------------------------------------------------------- for people */

static const char *show_age(char text[32], int64_t time_of) {
    const int64_t seconds = (int64_t)time(NULL) - time_of;
    static const struct {
        int64_t from;
        int64_t unit;
        const char *name;
    } rows[] = {{172800, 86400, "days"}, {7200, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};

    if (time_of == 0 || seconds < 0) {
        return "";
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (seconds >= rows[i].from) {
            (void)snprintf(text, 32, "%lld %s", (long long)(seconds / rows[i].unit), rows[i].name);
            break;
        }
    }
    return text;
}

static const char *show_state(const sft_run_step *s) {
    return !s->complete       ? "incomplete"
           : s->verified == 2 ? "damaged"
           : s->verified == 1 ? "verified"
                              : "complete";
}

static const struct {
    uint32_t bit;
    const char *word;
} reasons[] = {
    {SFT_RUN_KEPT_NEWEST, "newest"}, {SFT_RUN_KEPT_LAST, "last"},
    {SFT_RUN_KEPT_EVERY, "every"},   {SFT_RUN_KEPT_BEST, "best"},
    {SFT_RUN_KEPT_YOUNG, "young"},   {SFT_RUN_KEPT_OTHER, "other run"},
};

static void put_kept(cli_table *t, const sft_run_step *s) {
    char text[96] = "";
    size_t at = 0;

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if ((s->kept & reasons[i].bit) != 0) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at > 0 ? ", " : "",
                                   reasons[i].word);
        }
    }
    cli_table_cell(t, "%s", s->kept == 0 ? "would be pruned" : text);
}

static void put_row(cli *c, cli_table *t, const sft_run_step *s, bool rule) {
    char size[32];
    char age[32] = "";

    cli_table_cell(t, "%llu", (unsigned long long)s->step);
    cli_table_cell(t, "%s", show_age(age, s->time));
    cli_table_cell(t, "%s", s->complete ? cli_size(size, s->bytes, c->units) : "");
    if (s->has_metric) {
        char metric[200];
        (void)snprintf(metric, sizeof metric, "%.100s %.6g", s->metric_name, s->metric);
        cli_table_text(t, metric, strlen(metric));
    } else {
        cli_table_cell(t, "%s", "");
    }
    cli_table_cell(t, "%s", show_state(s));
    if (rule) {
        put_kept(t, s);
    }
}

static void print_text(cli *c, const char *operand, const sft_run_list *list, bool rule) {
    static const char *const titles[] = {"STEP", "AGE", "SIZE", "METRIC", "STATE", "KEPT"};
    const sft_run_step *s;
    cli_table t;

    cli_table_init(&t, rule ? 6 : 5, titles, 0x7);
    for (size_t i = 0; (s = sft_run_list_at(list, i)) != NULL; i++) {
        put_row(c, &t, s, rule);
    }
    cli_table_print(&t, &c->out, c->color);
    cli_table_reset(&t);
    for (size_t i = 0; (s = sft_run_list_at(list, i)) != NULL; i++) {
        if (s->why[0] != '\0') {
            cli_warn(c, operand, "%s: %s", s->name, s->why);
        }
    }
}

/* ---------------------------------------------------------------- for programs */

static void json_step(cli_json *j, const sft_run_step *s, bool rule) {
    cli_json_open(j, '{');
    cli_json_field_u64(j, "step", s->step);
    cli_json_field_string(j, "name", s->name);
    cli_json_key(j, "time");
    cli_json_i64(j, s->time);
    cli_json_field_u64(j, "bytes", s->bytes);
    cli_json_field_u64(j, "own_bytes", s->own_bytes);
    cli_json_field_u64(j, "files", s->files);
    cli_json_field_u64(j, "processes", s->processes);
    cli_json_key(j, "metric");
    if (s->has_metric) {
        cli_json_open(j, '{');
        cli_json_key_text(j, s->metric_name, strlen(s->metric_name));
        cli_json_real(j, s->metric);
        cli_json_close(j, '}');
    } else {
        cli_json_null(j);
    }
    cli_json_field_bool(j, "complete", s->complete != 0);
    cli_json_key(j, "verified");
    if (s->verified != 0) {
        cli_json_bool(j, s->verified == 1);
    } else {
        cli_json_null(j);
    }
    if (rule) {
        cli_json_field_open(j, "kept", '[');
        for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
            if ((s->kept & reasons[i].bit) != 0) {
                cli_json_string(j, reasons[i].word);
            }
        }
        cli_json_close(j, ']');
    }
    if (s->why[0] != '\0') {
        cli_json_field_string(j, "why", s->why);
    }
    cli_json_close(j, '}');
}

static void print_json(cli *c, const char *operand, const sft_run_list *list, bool rule) {
    const sft_run_step *s;
    cli_json j;

    cli_json_init(&j, &c->out);
    cli_json_open(&j, '{');
    cli_json_field_u64(&j, "schema", 1);
    cli_json_field_string(&j, "run", operand);
    cli_json_field_open(&j, "steps", '[');
    for (size_t i = 0; (s = sft_run_list_at(list, i)) != NULL; i++) {
        json_step(&j, s, rule);
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    cli_json_newline(&j);
}

static void print(cli *c, const char *operand, const sft_run_list *list, bool rule) {
    (c->json ? print_json : print_text)(c, operand, list, rule);
}

/* ---------------------------------------------------------------- ls, verify, prune */

static void show(cli *c, const char *operand, const sft_run_rules *rules, bool verify) {
    sft_run *run;
    sft_run_list *list = NULL;
    const sft_run_step *s;

    if (!open_run(c, operand, rules, false, &run)) {
        return;
    }
    if (list_steps(c, operand, run, verify ? SFT_RUN_LIST_VERIFY : 0, &list)) {
        print(c, operand, list, has_rule(rules));
        for (size_t i = 0; verify && (s = sft_run_list_at(list, i)) != NULL; i++) {
            if (s->verified != 1) {
                cli_answer(c, CLI_NO);
            }
        }
    }
    sft_run_list_free(list);
    (void)!sft_run_close(run, NULL); /* it was only read */
}

/* The steps that go, by name: what was done, or with --dry-run would be. */
static void prune(cli *c, const char *operand, const sft_run_rules *rules) {
    const bool dry = cli_flag(c, "dry-run");
    sft_run *run;
    sft_run_list *list = NULL;
    const sft_run_step *s;
    sft_error err;

    if (!open_run(c, operand, rules, !dry, &run)) {
        return;
    }
    if (list_steps(c, operand, run, SFT_RUN_LIST_RULES, &list)) {
        if (!dry && sft_run_prune(run, NULL, &err) != SFT_OK) {
            fail(c, operand, &err);
        } else if (c->json) {
            print_json(c, operand, list, true);
        } else {
            for (size_t i = 0; (s = sft_run_list_at(list, i)) != NULL; i++) {
                if (s->kept == 0) {
                    cli_puts(&c->out, s->name);
                    cli_put(&c->out, "\n", 1);
                }
            }
        }
    }
    sft_run_list_free(list);
    (void)!sft_run_close(run, NULL); /* nothing was saved */
}

static void run(cli *c) {
    const char *const verb = c->operands[0];
    const char *const operand = c->operands[1];
    sft_run_rules rules;

    if (!take_rules(c, &rules)) {
        return;
    }
    if (strcmp(verb, "prune") != 0 && has_rule(&rules) &&
        cli_number(c, "step", SFT_RUN_NONE) != SFT_RUN_NONE) {
        cli_usage(c, "rules look at all steps: %s takes --step or rules", verb);
    } else if (strcmp(verb, "ls") == 0 || strcmp(verb, "verify") == 0) {
        show(c, operand, &rules, verb[0] == 'v');
    } else if (strcmp(verb, "prune") != 0) {
        cli_usage(c, "\"%s\" is none of ls, verify and prune", verb);
    } else if (!has_rule(&rules)) {
        cli_usage(c, "prune needs a rule: --keep-last, --keep-every, --keep-days or --best");
    } else if (cli_number(c, "step", SFT_RUN_NONE) != SFT_RUN_NONE) {
        cli_usage(c, "prune looks at all steps: it takes no --step");
    } else {
        prune(c, operand, &rules);
    }
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_NUMBER, "step", 0, "N", "ls, verify: this step alone"),
    CLI_OPT_ARG(CLI_NUMBER, "keep-last", 0, "N", "keep the N newest complete steps"),
    CLI_OPT_ARG(CLI_NUMBER, "keep-every", 0, "K", "keep steps whose number is a multiple of K"),
    CLI_OPT_ARG(CLI_REAL, "keep-days", 0, "D", "keep what is younger than D days"),
    CLI_OPT_ARG(CLI_TEXT, "best", 0, "METRIC", "keep the best step by this metric"),
    CLI_OPT_ARG(CLI_NUMBER, "keep-best", 0, "M", "with --best: the M best (default 1)"),
    CLI_OPT_CHOICE("mode", 0, "MODE", "min|max",
                   "with --best: min, the least (default), or max, the greatest"),
    CLI_OPT_FLAG("dry-run", 'n', "prune: say what would go, and remove nothing"),
    CLI_OPT_END,
};

const cli_command cli_cmd_run = {
    .name = "run",
    .operands = "ls|verify|prune DIR",
    .summary = "list, verify and prune the steps of a training run",
    .description =
        "DIR is a training run (docs/run.md): a directory of steps, each complete by itself.\n\n"
        "ls lists the steps, oldest first: number, age, size, metric, and whether they are "
        "complete, by "
        "their manifests and the sizes of their files. With rules it says what each rule keeps, "
        "and what "
        "would be pruned. verify reads every byte and compares it with the manifest; the exit "
        "status is "
        "1 if a step is incomplete or damaged. Why goes to standard error.\n\n"
        "prune removes what no rule keeps, and prints the names. The newest complete step always "
        "stays, "
        "so does the best one where --best names a metric (one that no step has is refused), and "
        "steps of "
        "another run. Incomplete "
        "steps go "
        "if a complete one is newer. While a program has the run open, prune refuses (exit status "
        "3).\n\n"
        "--json writes schema, run and steps (step, name, time, bytes, own_bytes, files, "
        "processes, "
        "metric, complete, verified; kept where there are rules; perhaps why).",
    .examples = "safetensors run ls runs/llama\n"
                "safetensors run verify runs/llama --step 1200\n"
                "safetensors run prune runs/llama --keep-last 3 --best val_loss --dry-run",
    .options = options,
    .common = CLI_NO_STDIN | CLI_WITH_JSON | CLI_WITH_JOBS | CLI_WITH_SIZES,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
    .words = "ls verify prune",
};
