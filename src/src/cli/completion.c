/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/completion.c - completion scripts for bash, zsh and fish, from the tables. Read cmd.h first.
 */
#include "cli/cmd.h"
#include <string.h>

static void put_choices(cli_out *o, const char *choices) { /* a|b|c -> a b c */
    for (; *choices != '\0'; choices++) {
        cli_put(o, *choices == '|' ? " " : choices, 1);
    }
}

static void put_commands(cli_out *o) {
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        cli_printf(o, "%s%s", i > 0 ? " " : "", cli_commands[i]->name);
    }
}

/* ---------------------------------------------------------------- bash */

static void bash_command(cli_out *o, const cli_command *command) {
    const cli_opt *opt;

    cli_printf(o, "    %s)\n        case $prev in\n", command->name);
    for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
        if (opt->type == CLI_FLAG) {
            continue;
        }
        cli_printf(o, "        --%s", opt->name);
        if (opt->letter != 0) {
            cli_printf(o, "|-%c", opt->letter);
        }
        if (opt->type == CLI_CHOICE) {
            cli_puts(o, ") COMPREPLY=($(compgen -W '");
            put_choices(o, opt->choices);
            cli_puts(o, "' -- \"$cur\")); return ;;\n");
        } else {
            cli_puts(o,
                     opt->type == CLI_FILE ? ") compopt -o default; return ;;\n" : ") return ;;\n");
        }
    }
    cli_puts(o, "        esac\n        words='");
    for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
        cli_printf(o, "%s--%s", n > 0 ? " " : "", opt->name);
    }
    cli_puts(o, "'\n        operands='");
    if (command->words != NULL && strcmp(command->words, "commands") == 0) {
        put_commands(o);
    } else if (command->words != NULL) {
        cli_puts(o, command->words);
    }
    cli_puts(o, "'\n        ;;\n");
}

static void bash(cli_out *o) {
    cli_puts(
        o,
        "# bash completion for safetensors; source it, or put it into\n"
        "# ~/.local/share/bash-completion/completions/safetensors\n"
        "_safetensors() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words operands\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '");
    put_commands(o);
    cli_puts(o, " --help --version' -- \"$cur\"))\n"
                "        return\n"
                "    fi\n"
                "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        bash_command(o, cli_commands[i]);
    }
    cli_puts(o, "    *) return ;;\n"
                "    esac\n"
                "    case $cur in\n"
                "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
                "    *) if [ -n \"$operands\" ]; then\n"
                "           COMPREPLY=($(compgen -W \"$operands\" -- \"$cur\"))\n"
                "       else\n"
                "           compopt -o default\n"
                "       fi ;;\n"
                "    esac\n"
                "}\n"
                "complete -F _safetensors safetensors\n");
}

/* ---------------------------------------------------------------- zsh */

/* Inside '...' of _arguments: quotes, brackets and colons mean something. */
static void zsh_text(cli_out *o, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            cli_puts(o, "'\\''");
            continue;
        }
        if (*text == '[' || *text == ']' || *text == ':' || *text == '\\') {
            cli_put(o, "\\", 1);
        }
        cli_put(o, text, 1);
    }
}

static void zsh_option(cli_out *o, const cli_opt *opt) {
    cli_puts(o, "            ");
    if (opt->letter != 0) {
        cli_printf(o, "'%s'{-%c,--%s}'", opt->type == CLI_LIST ? "*" : "", opt->letter, opt->name);
    } else {
        cli_printf(o, "'%s--%s", opt->type == CLI_LIST ? "*" : "", opt->name);
    }
    cli_puts(o, "[");
    zsh_text(o, opt->help);
    cli_puts(o, "]");
    if (opt->type != CLI_FLAG) {
        cli_puts(o, ":");
        zsh_text(o, opt->arg);
        cli_puts(o, ":");
        if (opt->type == CLI_CHOICE) {
            cli_puts(o, "(");
            put_choices(o, opt->choices);
            cli_puts(o, ")");
        } else if (opt->type == CLI_FILE) {
            cli_puts(o, "_files");
        }
    }
    cli_puts(o, "' \\\n");
}

static void zsh(cli_out *o) {
    const cli_opt *opt;

    cli_puts(o,
             "#compdef safetensors\n"
             "# zsh completion for safetensors; put it as _safetensors into a directory of $fpath\n"
             "_safetensors() {\n"
             "    local -a commands\n"
             "    commands=(\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        cli_printf(o, "        '%s:", cli_commands[i]->name);
        zsh_text(o, cli_commands[i]->summary);
        cli_puts(o, "'\n");
    }
    cli_puts(o, "    )\n"
                "    if (( CURRENT == 2 )); then\n"
                "        _describe command commands\n"
                "        return\n"
                "    fi\n"
                "    local verb=$words[2]\n"
                "    shift words\n"
                "    (( CURRENT-- ))\n"
                "    case $verb in\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const cli_command *command = cli_commands[i];
        cli_printf(o, "    %s)\n        _arguments -s \\\n", command->name);
        for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
            zsh_option(o, opt);
        }
        cli_puts(o, "            '*:operand:");
        if (command->words != NULL) {
            cli_puts(o, "(");
            if (strcmp(command->words, "commands") == 0) {
                put_commands(o);
            } else {
                cli_puts(o, command->words);
            }
            cli_puts(o, ")'\n        ;;\n");
        } else {
            cli_puts(o, "_files'\n        ;;\n");
        }
    }
    cli_puts(o, "    esac\n}\n"
                "_safetensors \"$@\"\n");
}

/* ---------------------------------------------------------------- fish */

static void fish_text(cli_out *o, const char *text) {
    cli_put(o, "'", 1);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            cli_put(o, "\\", 1);
        }
        cli_put(o, text, 1);
    }
    cli_put(o, "'", 1);
}

static void fish_option(cli_out *o, const cli_command *command, const cli_opt *opt) {
    cli_printf(o, "complete -c safetensors -n '__fish_seen_subcommand_from %s' -l %s",
               command->name, opt->name);
    if (opt->letter != 0) {
        cli_printf(o, " -s %c", opt->letter);
    }
    if (opt->type == CLI_CHOICE) {
        cli_puts(o, " -x -a '");
        put_choices(o, opt->choices);
        cli_puts(o, "'");
    } else if (opt->type == CLI_FILE) {
        cli_puts(o, " -r -F");
    } else if (opt->type != CLI_FLAG) {
        cli_puts(o, " -x");
    }
    cli_puts(o, " -d ");
    fish_text(o, opt->help);
    cli_puts(o, "\n");
}

static void fish(cli_out *o) {
    const cli_opt *opt;

    cli_puts(
        o,
        "# fish completion for safetensors; put it into "
        "~/.config/fish/completions/safetensors.fish\n"
        "complete -c safetensors -n __fish_use_subcommand -f -l help -d 'show help'\n"
        "complete -c safetensors -n __fish_use_subcommand -f -l version -d 'show the version'\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const cli_command *command = cli_commands[i];
        cli_printf(o, "complete -c safetensors -n __fish_use_subcommand -f -a %s -d ",
                   command->name);
        fish_text(o, command->summary);
        cli_puts(o, "\n");
        for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
            fish_option(o, command, opt);
        }
        if (command->words != NULL) {
            cli_printf(o, "complete -c safetensors -n '__fish_seen_subcommand_from %s' -f -a '",
                       command->name);
            if (strcmp(command->words, "commands") == 0) {
                put_commands(o);
            } else {
                cli_puts(o, command->words);
            }
            cli_puts(o, "'\n");
        }
    }
}

static void run(cli *c) {
    const char *shell = c->operands[0];

    if (strcmp(shell, "bash") == 0) {
        bash(&c->out);
    } else if (strcmp(shell, "zsh") == 0) {
        zsh(&c->out);
    } else if (strcmp(shell, "fish") == 0) {
        fish(&c->out);
    } else {
        cli_usage(c, "no completion for \"%s\": bash, zsh and fish are there", shell);
    }
}

static const cli_opt options[] = {CLI_OPT_END};

const cli_command cli_cmd_completion = {
    .name = "completion",
    .operands = "bash|zsh|fish",
    .summary = "write a completion script for a shell",
    .description =
        "Writes a script that teaches the shell the commands, options and arguments of this "
        "tool.",
    .examples = "source <(safetensors completion bash)\n"
                "safetensors completion fish > ~/.config/fish/completions/safetensors.fish",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
    .words = "bash zsh fish",
};
