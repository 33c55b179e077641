/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/main.c - the table of commands, and the way from arguments to exit status. start.c: the
 * command safetensors. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/entry.h"
#include "cli/group.h"
#include "cli/operands/leftover.h"
#include "cli/operands/ranks.h"
#include "cli/operands/url.h"
#include "cli/outputs/kept.h"
#include "cli/outputs/lost.h"
#include "cli/sys.h"
#include <stdlib.h>
#include <string.h>

const cli_command *const cli_commands[] = {
    /* a line each, so that two new commands do not meet */
    /* clang-format off */
    &cli_cmd_ls,           &cli_cmd_show,    &cli_cmd_check,      &cli_cmd_get,    &cli_cmd_meta,
    &cli_cmd_cp,           &cli_cmd_diff,    &cli_cmd_hash,       &cli_cmd_verify, &cli_cmd_mem,
    &cli_cmd_fetch,        &cli_cmd_convert, &cli_cmd_scan,       &cli_cmd_split,  &cli_cmd_join,
    &cli_cmd_reshard,      &cli_cmd_slice,   &cli_cmd_dedupe,     &cli_cmd_expand, &cli_cmd_layout,
    &cli_cmd_report,       &cli_cmd_view,
    &cli_cmd_resume_point, &cli_cmd_run,     &cli_cmd_completion, &cli_cmd_help,   NULL,
    /* clang-format on */
};

const cli_command *cli_command_find(const char *name) {
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
    }
    return NULL;
}

static void unknown_command(cli *c, const char *name) {
    const char *words[64];
    size_t count = 0;

    for (; count < 64 && cli_commands[count] != NULL; count++) {
        words[count] = cli_commands[count]->name;
    }
    const char *closest = cli_closest(name, words, count);
    if (name[0] == '-') {
        cli_usage(c, "unknown option %s", name);
    } else if (closest != NULL) {
        cli_usage(c, "unknown command \"%s\"; did you mean %s?", name, closest);
    } else {
        cli_usage(c, "unknown command \"%s\"", name);
    }
}

/* Who types the name alone wants to know what it is good for. */
static void no_command(cli *c) {
    cli_usage(c, "no command given");
    if (c->processes == NULL) {
        cli_advise(c, "three things to try; MODEL: a file, a directory or a URL\n"
                      "  safetensors ls --fold MODEL    # what is in it: names, types, shapes\n"
                      "  safetensors check MODEL        # valid? if not: which byte, which tensor\n"
                      "  safetensors convert FILE.pt -o FILE.safetensors"
                      "  # GGUF, ONNX, HDF5 ... too; runs nothing in it");
    }
}

static void run(cli *c, int argc, char **argv) {
    if (argc < 2) {
        no_command(c);
        return;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        cli_printf(&c->out, "%s %s\n", c->program, sft_version());
        return;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_help(c, NULL);
        return;
    }
    c->command = cli_command_find(argv[1]);
    if (c->command == NULL) {
        unknown_command(c, argv[1]);
    } else if (c->processes != NULL && (c->command->common & CLI_WITH_GROUP) == 0) {
        c->command = NULL;
        cli_usage(c, "\"%s\" is done by one process: safetensors %s", argv[1], argv[1]);
    } else if (cli_parse(c, argc - 2, argv + 2)) {
        if (cli_flag(c, "help")) {
            cli_help(c, c->command);
        } else if ((c->command->common & CLI_NO_STDIN) != 0 && cli_reads_stdin(c)) {
            cli_usage(c, "a file or directory is needed, not standard input");
        } else {
            cli_leftover_tell(c);
            c->command->run(c);
            cli_lost_views(c);
            cli_kept_end(c);
        }
    }
}

static void report_output(cli *c) {
    cli_flush(&c->out);
    if (c->out.failed != 0 && !cli_sys_interrupted()) { /* who interrupts does not want the rest */
        cli_fail_io(c, "standard output", c->out.failed, "cannot write");
    }
}

int cli_main(int argc, char **argv, const cli_processes *processes) {
    static cli c; /* large; the only object of its kind */

    cli_sys_start(&argc, &argv);
    cli_sys_catch(true);
    c.out.fd = 1;
    c.program = processes != NULL ? "safetensors-mpi" : "safetensors";
    c.processes = processes;
    c.out.mute = processes != NULL && processes->group->rank > 0;
    cli_url_conceal(&c, argc, argv);
    run(&c, argc, argv);
    report_output(&c);
    if (cli_sys_interrupted()) {
        cli_answer(&c, CLI_STOPPED);
    }
    cli_group_end(&c);
    cli_url_end(&c);
    cli_ranks_end(&c);
    cli_stdin_end(&c);
    cli_lost_end(&c);
    sft_pool_free(c.pool);
    free(c.config);
    free(c.values);
    free(c.operands);
    return c.status;
}
