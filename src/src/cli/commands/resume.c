/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/resume.c - resume-point: the newest step of a training job that is complete over all
 * ranks. Read ranks.h first.
 */
#include "cli/operands/ranks.h"
#include <string.h>

static void json_step(cli_json *j, const sft_resume_step *s) {
    cli_json_open(j, '{');
    cli_json_key(j, "name");
    cli_json_string(j, s->name);
    cli_json_key(j, "path");
    cli_json_string(j, s->path);
    cli_json_key(j, "epoch");
    cli_json_u64(j, s->epoch);
    cli_json_key(j, "step");
    cli_json_u64(j, s->step);
    cli_json_key(j, "complete");
    cli_json_bool(j, s->complete != 0);
    if (!s->complete || s->why[0] != '\0') {
        cli_json_key(j, s->complete ? "warning" : "why");
        cli_json_string(j, s->why);
    }
    cli_json_close(j, '}');
}

static void print_json(cli *c, const char *operand, const sft_resume *r) {
    const sft_resume_step *chosen = sft_resume_chosen(r);
    const sft_resume_step *s;
    cli_json j;

    cli_json_init(&j, &c->out);
    cli_json_open(&j, '{');
    cli_json_key(&j, "schema");
    cli_json_u64(&j, 1);
    cli_json_key(&j, "folder");
    cli_json_string(&j, operand);
    cli_json_key(&j, "chosen");
    if (chosen != NULL) {
        json_step(&j, chosen);
    } else {
        cli_json_null(&j);
    }
    cli_json_key(&j, "skipped");
    cli_json_open(&j, '[');
    for (size_t i = 0; (s = sft_resume_at(r, i)) != NULL; i++) {
        if (!s->complete) {
            json_step(&j, s);
        }
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
    cli_json_newline(&j);
}

/* The name alone goes to standard output, for scripts; why others were skipped, to the other. */
static void print_text(cli *c, const char *operand, const sft_resume *r) {
    const sft_resume_step *chosen = sft_resume_chosen(r);
    const sft_resume_step *s;

    for (size_t i = 0; (s = sft_resume_at(r, i)) != NULL; i++) {
        char name[300];
        (void)sft_escape(name, sizeof name, s->name, strlen(s->name));
        if (!s->complete) {
            cli_warn(c, operand, "%s is skipped: %s", name, s->why);
        } else if (s->why[0] != '\0') {
            cli_warn(c, operand, "%s: %s", name, s->why);
        }
    }
    if (chosen != NULL) {
        cli_put_escaped(&c->out, chosen->name, strlen(chosen->name));
        cli_put(&c->out, "\n", 1);
    }
}

static void run(cli *c) {
    const char *operand = c->operands[0];
    const char *layout = cli_text(c, "layout");
    sft_checkpoint_options o;
    sft_open_options open;
    sft_limits limits;
    sft_resume *r = NULL;
    sft_error err;

    SFT_INIT(&open);
    SFT_INIT(&limits);
    limits.header_bytes = cli_number(c, "max-header-bytes", 0);
    open.limits = &limits;
    cli_ranks_options(c, &o, &open);
    o.step = NULL;
    if (layout != NULL &&
        cli_ranks_read_layout(layout, cli_number(c, "ranks", 0), &o.layouts, &err) != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
        return;
    }
    if (sft_resume_find(&r, operand, &o, &err) != SFT_OK) {
        cli_fail_plainly(c, operand, &err);
    } else {
        (c->json ? print_json : print_text)(c, operand, r);
    }
    if (r != NULL && sft_resume_chosen(r) == NULL) {
        cli_answer(c, CLI_NO);
    }
    sft_resume_free(r);
    sft_layout_set_free(o.layouts);
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_FILE, "layout", 0, "FILE",
                "how tensors are sharded among ranks, where the directory does not say"),
    CLI_OPT_ARG(CLI_NUMBER, "ranks", 'r', "N", "of a layout that does not say"),
    CLI_OPT_END,
};

const cli_command cli_cmd_resume_point = {
    .name = "resume-point",
    .operands = "DIR",
    .summary = "find the newest complete step of a training job",
    .description =
        "DIR is what the job writes to: rank_N directories with files NAME-EPOCH_STEP (MindSpore), "
        "checkpoint-N directories (Hugging Face's Trainer), iteration_N directories with their "
        "tracker "
        "(MindFormers), or other directories whose names end in a number (PyTorch).\n\n"
        "A step is complete if all files of its weights open, and the tensors of all ranks can be "
        "put together without a hole, replicas counted; headers alone are read. The states of "
        "optimizers and schedulers (.pt, .pth) must not be empty; what is in them is not read. "
        "For rank directories a layout is needed: strategy/ in or beside DIR, or --layout. What a "
        "rank's meta.json does not have yet, what lies beyond the tracker, and Trainer directories "
        "without trainer_state.json are not complete.\n\n"
        "Prints the name of the step; why newer ones were skipped goes to standard error. For "
        "rank directories it is what --step of other commands wants. The exit status is 1 if no "
        "step "
        "is complete. A step with fewer tensors than the one before it is named in a warning.\n\n"
        "--json writes schema, folder, chosen (name, path, epoch, step, complete, perhaps a "
        "warning; or null) and skipped, each with its why.",
    .examples = "safetensors resume-point output/checkpoint\n"
                "safetensors resume-point --json runs/llama | jq -r .chosen.path",
    .options = options,
    .common = CLI_NO_STDIN | CLI_WITH_JSON | CLI_WITH_LIMITS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
