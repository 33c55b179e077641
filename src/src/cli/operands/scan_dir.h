/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/scan_dir.h - every file beneath a directory, hidden ones too, in the order of their paths.
 * Links are not followed out of it, except where Hugging Face's cache keeps the bytes of a
 * snapshot.
 */
#ifndef SFT_CLI_SCAN_DIR_H
#define SFT_CLI_SCAN_DIR_H

#include "cli/cmd.h"

typedef struct cli_scan_file {
    char *path;      /* with the directory in front */
    const char *why; /* NULL: to be read; else why it is not (rule in `rule`) */
    const char *rule;
    bool harmless; /* not read, but read elsewhere */
} cli_scan_file;

typedef struct cli_scan_list {
    cli_scan_file *files;
    size_t count;
    size_t room;
} cli_scan_list;

/* False: the directory cannot be listed; the failure was told. Free the list in either case. */
bool cli_scan_list_read(cli *c, const char *directory, cli_scan_list *list);
void cli_scan_list_free(cli_scan_list *list);

/* Does a link in a directory lead nowhere, or out of it to something else than a blob of Hugging
 * Face's cache? */
bool cli_link_leads_out(const char *directory, const char *path);

#endif
