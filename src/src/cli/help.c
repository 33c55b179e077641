/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/help.c - --help and the command help, from the tables. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/sys.h"
#include <stdio.h>
#include <string.h>

enum { HELP_INDENT = 26, HELP_COLUMNS = 96 };

/* Fills lines to `columns`, further ones indented; "\n" breaks. The first starts at column `at`. */
static void wrap(cli_out *o, const char *text, size_t at, size_t indent, size_t columns) {
    while (*text != '\0') {
        size_t word = strcspn(text, " \n");
        if (at > indent && at + word > columns) {
            cli_put(o, "\n", 1);
            cli_put_blanks(o, indent);
            at = indent;
        }
        cli_put(o, text, word);
        at += word;
        text += word;
        if (*text == '\n') {
            cli_put(o, "\n", 1);
            at = 0;
            if (text[1] != '\n' && text[1] != '\0') {
                cli_put_blanks(o, indent);
                at = indent;
            }
            text++;
        } else if (*text == ' ') {
            const char *next = text + 1;
            if (at + 1 + strcspn(next, " \n") <= columns) {
                cli_put(o, " ", 1);
                at++;
            } else {
                cli_put(o, "\n", 1);
                cli_put_blanks(o, indent);
                at = indent;
            }
            text = next;
        }
    }
    cli_put(o, "\n", 1);
}

static void title(const cli *c, cli_out *o, const char *text) {
    cli_printf(o, "\n%s%s%s\n", c->color ? CLI_BOLD : "", text, c->color ? CLI_NORMAL : "");
}

static void option_line(cli_out *o, const cli_opt *opt) {
    char left[80];
    char letter[8] = "    ";

    if (opt->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", opt->letter);
    }
    const int n = snprintf(left, sizeof left, "  %s--%s%s%s", letter, opt->name,
                           opt->arg != NULL ? " " : "", opt->arg != NULL ? opt->arg : "");
    size_t at = n < 0 ? 0 : (size_t)n;
    cli_puts(o, left);
    if (at + 2 > HELP_INDENT) {
        cli_put(o, "\n", 1);
        at = 0;
    }
    cli_put_blanks(o, HELP_INDENT - at);
    wrap(o, opt->help, HELP_INDENT, HELP_INDENT, HELP_COLUMNS);
}

static void overview(cli *c) {
    cli_out *o = &c->out;

    cli_puts(o, "safetensors - look into, check, read and change safetensors files\n\n"
                "Usage: safetensors COMMAND [OPTION]... OPERAND...\n"
                "       safetensors COMMAND --help\n");
    title(c, o, "Commands");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        cli_printf(o, "  %-13s", cli_commands[i]->name);
        wrap(o, cli_commands[i]->summary, 15, 15, HELP_COLUMNS);
    }
    title(c, o, "Operands");
    cli_puts(o, "  ");
    wrap(o,
         "A .safetensors file, a model.safetensors.index.json, a directory that holds either, or - "
         "for "
         "standard input.",
         2, 2, HELP_COLUMNS);
    title(c, o, "Options");
    cli_puts(o, "  -h, --help    show this help; after a command: its own\n"
                "  -V, --version show the version\n");
    title(c, o, "Exit status");
    cli_puts(o, "  0 done   1 the answer is no (invalid, different, missing)   2 usage\n"
                "  3 system, network or write failure   4 internal   130 interrupted\n");
}

void cli_help(cli *c, const cli_command *command) {
    cli_out *o = &c->out;
    const cli_opt *opt;

    if (command == NULL) {
        overview(c);
        return;
    }
    cli_printf(o, "safetensors %s - %s\n\nUsage: safetensors %s [OPTION]... %s\n\n", command->name,
               command->summary, command->name, command->operands);
    wrap(o, command->description, 0, 0, HELP_COLUMNS);
    title(c, o, "Options");
    for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
        option_line(o, opt);
    }
    if (command->examples != NULL) {
        title(c, o, "Examples");
        for (const char *s = command->examples; *s != '\0';) {
            const size_t len = strcspn(s, "\n");
            cli_puts(o, "  ");
            cli_put(o, s, len);
            cli_put(o, "\n", 1);
            s += len + (s[len] == '\n');
        }
    }
}

static void run(cli *c) {
    const cli_command *command = NULL;

    if (c->operand_count > 0) {
        command = cli_command_find(c->operands[0]);
        if (command == NULL) {
            cli_usage(c, "no command \"%s\"", c->operands[0]);
            return;
        }
    }
    if (cli_flag(c, "man")) {
        cli_man(c, command);
    } else {
        cli_help(c, command);
    }
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("man", 0, "write the manual page in troff"),
    CLI_OPT_END,
};

const cli_command cli_cmd_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "show help for a command",
    .description =
        "Shows what --help shows. With --man, writes the manual page instead: safetensors.1 "
        "without a command, else safetensors-COMMAND.1.",
    .examples = "safetensors help ls\nsafetensors help --man ls | man -l -",
    .options = options,
    .max_operands = 1,
    .run = run,
    .words = "commands",
};
