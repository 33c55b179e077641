/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/beside.c - what lies beside the weights and belongs into a report: config.json, and the
 * licence that the metadata, the README or the configuration name. Read report.h first.
 */
#include "cli/operands/scan_dir.h"
#include "cli/operands/url.h"
#include "cli/report/report.h"
#include "cli/sys.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_CONFIG = 256 << 10, MOST_README = 1 << 20, MOST_LICENSE = 100 };

/* DIRECTORY/NAME of the model; NULL: it has no directory here. */
static char *path_beside(const cli_report *r, const char *name) {
    const char *base = cli_base_name(r->operand);

    if (cli_is_url(r->operand) || strcmp(r->operand, "-") == 0) {
        return NULL;
    }
    if (cli_sys_kind(r->operand) == CLI_KIND_DIRECTORY) {
        return cli_joined(r->operand, "/", name);
    }
    char *directory = cli_copy_bytes(r->operand, (size_t)(base - r->operand));
    char *path = cli_joined(directory, name, "");
    free(directory);
    return path;
}

/* NULL: it is not there, or has to stay away, which is said. */
static char *read_beside(cli_report *r, const char *name, uint64_t most, size_t *size) {
    char *path = path_beside(r, name);
    const cli_kind kind = path != NULL ? cli_sys_kind(path) : CLI_KIND_NONE;
    char *text = NULL;
    sft_error err;

    if (kind == CLI_KIND_FILE && cli_sys_is_link(path)) {
        char *directory = cli_copy_bytes(path, (size_t)(cli_base_name(path) - path));
        if (cli_link_leads_out(directory[0] != '\0' ? directory : ".", path)) {
            cli_report_leave(r, "%s, a link that leads out of the directory", name);
            free(path);
            path = NULL;
        }
        free(directory);
    }
    if (kind == CLI_KIND_FILE && path != NULL) {
        const sft_status status = cli_read_text(path, most, &text, size, &err);
        if (status != SFT_OK) {
            if (status == SFT_E_LIMIT) {
                cli_report_leave(r, "%s, which is larger than %llu bytes", name,
                                 (unsigned long long)most);
            } else {
                cli_report_leave(r, "%s, which cannot be read", name);
            }
            free(text);
            text = NULL;
        }
    }
    free(path);
    return text;
}

static void take_license(cli_report *r, const char *text, size_t len) {
    while (len > 0 && strchr(" \t\r\n\"'", *text) != NULL && *text != '\0') {
        text++;
        len--;
    }
    while (len > 0 && strchr(" \t\r\n\"'", text[len - 1]) != NULL && text[len - 1] != '\0') {
        len--;
    }
    if (r->license == NULL && len > 0) {
        r->license = cli_copy_bytes(text, len < MOST_LICENSE ? len : MOST_LICENSE);
    }
}

/* "license: apache-2.0" between the two lines of --- that a README begins with. */
static void find_in_readme(cli_report *r, const char *text, size_t size) {
    static const char mark[] = "\xef\xbb\xbf"; /* of the byte order, which editors put in front */
    const char *end = text + size;

    if (size > 3 && memcmp(text, mark, 3) == 0) {
        text += 3;
        size -= 3;
    }
    if (size < 4 || memcmp(text, "---", 3) != 0) {
        return;
    }
    while (text < end) {
        const char *line = memchr(text, '\n', (size_t)(end - text));
        if (line == NULL || (size_t)(end - ++line) < 3 || memcmp(line, "---", 3) == 0) {
            return;
        }
        text = line;
        if ((size_t)(end - text) > 8 && memcmp(text, "license:", 8) == 0) {
            const char *stop = memchr(text, '\n', (size_t)(end - text));
            take_license(r, text + 8, (size_t)((stop != NULL ? stop : end) - text) - 8);
            return;
        }
    }
}

void cli_report_beside(cli_report *r) {
    static const char *const keys[] = {"license", "general.license", "modelspec.license"};
    size_t size = 0;

    r->config = read_beside(r, "config.json", MOST_CONFIG, &r->config_size);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *value =
            sft_catalog_file_count(r->catalog) > 0
                ? sft_catalog_metadata_find(r->catalog, 0, keys[i], strlen(keys[i]), &size)
                : NULL;
        if (value != NULL) {
            take_license(r, value, size);
        }
    }
    char *readme = read_beside(r, "README.md", MOST_README, &size);
    if (readme != NULL) {
        find_in_readme(r, readme, size);
    }
    free(readme);
}
