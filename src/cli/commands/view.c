/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/view.c - view: the page of report, served on a loopback address and shown in the browser. Read
 * report/report.h and serve/serve.h first.
 */
#include "cli/report/report.h"
#include "cli/serve/serve.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 4096, MAX_SIZE = 100000000 };

/* False: nobody knows the address. */
static bool ready(cli *c, const char *url) {
    cli_printf(&c->out, "%s\n", url);
    cli_flush(&c->out);
    const bool wanted = !cli_flag(c, "no-browser");
    const bool started = wanted && cli_browse(url);
    if (wanted && !started) {
        cli_note(c, NULL, "no browser was started: open the address in one");
    }
    return started || !c->out.closed;
}

/* The page of a model, in memory. */
static bool make_page(cli *c, cli_site *site) {
    const char *mode = cli_text(c, "stats");
    cli_text_buffer page = {NULL, 0, 0};
    cli_report r = {.mode = mode == NULL || strcmp(mode, "sample") == 0 ? CLI_STATS_SAMPLE
                            : strcmp(mode, "full") == 0                 ? CLI_STATS_FULL
                                                                        : CLI_STATS_NONE,
                    .sample = SAMPLE,
                    .max_size = MAX_SIZE,
                    .served = true};

    if (!cli_report_open(&r, c, c->operands[0])) {
        return false;
    }
    cli_out *out = cli_alloc(1, sizeof *out);
    out->text = &page;
    const bool good = cli_report_look(&r) && cli_report_page(&r, out);
    cli_flush(out);
    free(out);
    cli_report_close(&r);
    cli_site_page(site, page.data, page.size);
    return good;
}

static void run(cli *c) {
    const uint64_t port = cli_number(c, "port", 0);
    const bool model = c->operand_count > 0;
    cli_site site = {.listening = -1};

    if (port > UINT16_MAX) {
        cli_usage(c, "--port: at most 65535");
    } else if (model && cli_text(c, "site") != NULL) {
        cli_usage(c, "--site is for the page without a MODEL");
    } else if (cli_listen(c, &site, (uint16_t)port) && /* before a model is read for nothing */
               (model ? make_page(c, &site) : cli_site_folder(c, &site, cli_text(c, "site"))) &&
               !cli_stopped(c)) {
        cli_serve(c, &site, ready);
    }
    cli_site_reset(&site);
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_NUMBER, "port", 0, "N", "listen there (default: a port that is free)"),
    CLI_OPT_FLAG("no-browser", 0, "print the address alone"),
    CLI_OPT_CHOICE("stats", 0, "HOW", "full|sample|none",
                   "statistics of all values, of a sample of each tensor (the default), or none"),
    CLI_OPT_ARG(CLI_FILE, "site", 0, "DIR", "without MODEL: the folder with the page's files"),
    CLI_OPT_END,
};

const cli_command cli_cmd_view = {
    .name = "view",
    .operands = "[MODEL]",
    .summary = "the page of report in the browser, without a file",
    .description =
        "Makes the page that report writes, serves it on 127.0.0.1 and opens it in the browser; "
        "the "
        "address, which holds a token that cannot be guessed, is printed. Ctrl-C ends it, with "
        "exit "
        "status 130. The model "
        "is read before that, and not again.\n\n"
        "Without MODEL the page is one that opens files which are dropped on it, folders, and "
        "addresses, in the browser itself: nothing is sent to this server or to anybody else. Its "
        "files are those that `make site` makes, of --site or beside the installed tool.\n\n"
        "Only that address and its files are answered, to GET and HEAD, and only if the request "
        "names this server "
        "as its host, and no other page as its origin.",
    .examples = "safetensors view model/\n"
                "safetensors view # then drop a file on the page\n"
                "safetensors view --no-browser --port 8000 model.gguf # forward 8000 to 8000",
    .options = options,
    .common = CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS | CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
