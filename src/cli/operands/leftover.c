/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/leftover.c - see leftover.h.
 */
#include "cli/operands/leftover.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct telling {
    cli *c;
    const char *operand;
    size_t told;
} telling;

static void tell(telling *t, const char *name) {
    char text[300];

    if (t->told++ < 8) { /* of more, the first ones do */
        (void)sft_escape(text, sizeof text, name, strlen(name));
        cli_warn(t->c, t->operand,
                 "%.280s is there: a run that writes here was killed, or is still at it; the same "
                 "command again finishes",
                 text);
    }
}

static bool is_hex(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) {
            return false;
        }
    }
    return true;
}

/* .NAME.tmp<hex>-<digits>: one that takes the place of another. */
static bool is_taking_place(const char *name) {
    const char *dash = strrchr(name, '-');
    const char *number = dash;

    while (number != NULL && number > name && is_hex(number - 1, 1)) {
        number--;
    }
    return dash != NULL && number != dash && number - name > 4 &&
           memcmp(number - 4, ".tmp", 4) == 0 && dash[1] != '\0' &&
           strspn(dash + 1, "0123456789") == strlen(dash + 1);
}

/* .NAME.tmp.<16 hex> or .NAME.<8 hex>.tmp: a file before it gets its name. */
static bool is_unnamed(const char *name) {
    enum { CORE = 5 + 16, OTHER = 1 + 8 + 4 };
    const size_t len = strlen(name);

    return is_taking_place(name) ||
           (len > 1 + CORE && memcmp(name + len - CORE, ".tmp.", 5) == 0 &&
            is_hex(name + len - 16, 16)) ||
           (len > 1 + OTHER && name[len - OTHER] == '.' && is_hex(name + len - OTHER + 1, 8) &&
            memcmp(name + len - 4, ".tmp", 4) == 0);
}

static void on_entry(void *ctx, const char *name, bool is_directory) {
    telling *t = ctx;

    if (name[0] == '.' && !is_directory && is_unnamed(name)) {
        char text[300];
        (void)sft_escape(text, sizeof text, name, strlen(name));
        if (t->told++ < 8) {
            cli_warn(t->c, t->operand,
                     "%.280s is there: a file that a run has not finished; if none is at it any "
                     "more, nothing needs it",
                     text);
        }
        return;
    }
    if (name[0] == '.' &&
        (is_directory
             ? cli_ends_with(name, ".sft-part")
             : cli_ends_with(name, ".sft-half") || cli_ends_with(name, ".sft-older") ||
                   cli_ends_with(name, ".part.journal") ||
                   strncmp(name, ".sft-journal-", 13) == 0)) { /* renamed, and then killed */
        tell(ctx, name);
    }
}

/* The staging directory of what `path` names: beside it, .NAME.sft-part. */
static void tell_beside(telling *t, const char *path) {
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    size_t base = len;
    while (base > 0 && path[base - 1] != '/') {
        base--;
    }
    const size_t room = len + sizeof "..sft-part" + 1;
    char *staging = cli_alloc(room, 1);
    (void)snprintf(staging, room, "%.*s.%.*s.sft-part", (int)base, path, (int)(len - base),
                   path + base);
    if (len > base && path[base] != '.' && cli_sys_kind(staging) == CLI_KIND_DIRECTORY) {
        tell(t, staging + base);
    }
    free(staging);
}

static void tell_in(telling *t, const char *directory) {
    (void)cli_sys_list(directory, on_entry, t);
}

void cli_leftover_tell(cli *c) {
    for (size_t i = 0; i < c->operand_count && !c->quiet; i++) {
        const char *path = c->operands[i];
        telling t = {c, path, 0};
        if (cli_is_url(path) || strcmp(path, "-") == 0) {
            continue;
        }
        if (cli_sys_kind(path) == CLI_KIND_DIRECTORY) {
            tell_in(&t, path);
        } else if (cli_ends_with(path, ".index.json")) { /* whether it is there or not */
            const char *slash = strrchr(path, '/');
            const size_t len = slash != NULL ? (size_t)(slash - path) + 1 : 0;
            char *directory = cli_alloc(len + 2, 1);
            memcpy(directory, len > 0 ? path : ".", len > 0 ? len : 1);
            tell_in(&t, directory);
            free(directory);
        }
        tell_beside(&t, path);
    }
}
