/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/man.c - manual pages in man(7) form, from the tables. Read cmd.h first.
 */
#include "cli/cmd.h"
#include <stdio.h>
#include <string.h>

/* Text with what troff would take as a command made harmless. */
static void troff(cli_out *o, const char *text, size_t len) {
    bool line_start = true;

    for (size_t i = 0; i < len; i++) {
        if (line_start && (text[i] == '.' || text[i] == '\'')) {
            cli_puts(o, "\\&");
        }
        if (text[i] == '\\') {
            cli_puts(o, "\\e");
        } else if (text[i] == '-') {
            cli_puts(o, "\\-");
        } else if (text[i] == '\n' && i + 1 < len && text[i + 1] == '\n') {
            cli_puts(o, "\n.PP\n");
            i++;
        } else {
            cli_put(o, text + i, 1);
        }
        line_start = text[i] == '\n';
    }
}

static void troff_text(cli_out *o, const char *text) {
    troff(o, text, strlen(text));
}

static void head(cli_out *o, const char *name, const char *summary) {
    cli_puts(o,
             ".\\\" Generated from the option tables of the tool; do not edit.\n.TH \"SAFETENSORS");
    for (const char *s = name; *s != '\0'; s++) {
        cli_printf(o, "%c", *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
    }
    cli_printf(o, "\" 1 \"\" \"libsafetensors %s\" \"User Commands\"\n.SH NAME\nsafetensors",
               sft_version());
    troff_text(o, name);
    cli_puts(o, " \\- ");
    troff_text(o, summary);
    cli_puts(o, "\n");
}

static void exit_status(cli_out *o) {
    cli_puts(o, ".SH EXIT STATUS\n"
                ".TP\n.B 0\ndone\n"
                ".TP\n.B 1\nthe answer is no: invalid, different, missing\n"
                ".TP\n.B 2\nwrong usage\n"
                ".TP\n.B 3\nsystem, network or write failure\n"
                ".TP\n.B 4\ninternal error\n"
                ".TP\n.B 130\ninterrupted\n"
                ".PP\nWith several operands the worst one counts.\n"
                ".SH ENVIRONMENT\n"
                ".TP\n.B NO_COLOR\nif set and not empty, no colour is used unless "
                "\\-\\-color=always is given\n"
                ".TP\n.B SFT_CPU\nfeatures of the processor to do without, for comparisons: a "
                "comma list of a "
                "level (portable, sse4.2, avx2, avx512: what is above it is left out) and of "
                "\\-crc32, \\-clmul, "
                "\\-sha, \\-avx2, \\-vpclmul, \\-avx512; results are the same\n");
}

static void option_item(cli_out *o, const cli_opt *opt) {
    cli_puts(o, ".TP\n");
    if (opt->letter != 0) {
        cli_printf(o, "\\fB\\-%c\\fR, ", opt->letter);
    }
    cli_puts(o, "\\fB\\-\\-");
    troff_text(o, opt->name);
    cli_puts(o, "\\fR");
    if (opt->arg != NULL) {
        cli_printf(o, " \\fI%s\\fR", opt->arg);
    }
    cli_puts(o, "\n");
    troff_text(o, opt->help);
    cli_puts(o, "\n");
}

static void page(cli_out *o, const cli_command *command) {
    const cli_opt *opt;
    char name[40];

    (void)snprintf(name, sizeof name, "-%s", command->name);
    head(o, name, command->summary);
    cli_printf(o, ".SH SYNOPSIS\n.B safetensors %s\n[\\fIOPTION\\fR]...\n", command->name);
    troff_text(o, command->operands);
    cli_puts(o, "\n.SH DESCRIPTION\n");
    troff_text(o, command->description);
    cli_puts(o, "\n.SH OPTIONS\n");
    for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
        option_item(o, opt);
    }
    exit_status(o);
    if (command->examples != NULL) {
        cli_puts(o, ".SH EXAMPLES\n.nf\n");
        troff_text(o, command->examples);
        cli_puts(o, "\n.fi\n");
    }
    cli_puts(o, ".SH SEE ALSO\n.BR safetensors (1)\n");
}

void cli_man(cli *c, const cli_command *command) {
    cli_out *o = &c->out;

    if (command != NULL) {
        page(o, command);
        return;
    }
    head(o, "", "look into, check, read and change safetensors files");
    cli_puts(
        o,
        ".SH SYNOPSIS\n.B safetensors\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... \\fIOPERAND\\fR...\n"
        ".SH DESCRIPTION\n"
        "An operand is a .safetensors file, an index (model.safetensors.index.json), a directory "
        "that\n"
        "holds either, or \\- for standard input. Data goes to standard output, everything else "
        "to\n"
        "standard error. Whatever comes from a file is escaped before it is printed.\n"
        ".SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        cli_printf(o, ".TP\n.BR safetensors\\-%s (1)\n", cli_commands[i]->name);
        troff_text(o, cli_commands[i]->summary);
        cli_puts(o, "\n");
    }
    exit_status(o);
}
