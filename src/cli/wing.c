/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/wing.c - which wings there are, and whether they are linked in, opened on first use, or not
 * part of this build. Read wing.h first.
 */
#include "cli/wing.h"
#include <stdio.h>
#include <string.h>

#ifdef SFT_WING_IMPORT_LINKED
#include <sft/import.h>
static const void *import_linked(void) {
    return sft_import_api_get();
}
#endif

#ifdef SFT_WING_CHECKPOINT_LINKED
#include <sft/checkpoint_api.h>
static const void *checkpoint_linked(void) {
    return sft_checkpoint_api_get();
}
#endif

/* getter: linked in; library: opened by this name, through the tool's own search path; neither: not
 * built. */
typedef struct wing_row {
    const char *name;
    const char *what;
    cli_wing_getter getter;
    const char *library;
    const char *symbol;
} wing_row;

static const wing_row rows[CLI_WING_COUNT] = {
    [CLI_WING_IMPORT] = {"import", "reading other weight formats",
#if defined(SFT_WING_IMPORT_LINKED)
                         import_linked, NULL, NULL
#elif defined(SFT_WING_IMPORT_DLOPEN)
                         NULL, SFT_WING_IMPORT_DLOPEN, "sft_import_api_get"
#else
                         NULL, NULL, NULL
#endif
    },
    [CLI_WING_CHECKPOINT] = {"checkpoint", "working with checkpoints of many ranks",
#if defined(SFT_WING_CHECKPOINT_LINKED)
                             checkpoint_linked, NULL, NULL
#elif defined(SFT_WING_CHECKPOINT_DLOPEN)
                             NULL, SFT_WING_CHECKPOINT_DLOPEN, "sft_checkpoint_api_get"
#else
                             NULL, NULL, NULL
#endif
    },
    [CLI_WING_REMOTE] = {"remote", "reading from a URL",
#if defined(SFT_WING_REMOTE_DLOPEN)
                         NULL, SFT_WING_REMOTE_DLOPEN, "sft_remote_api_get"
#else
                         NULL, NULL, NULL
#endif
    },
};

/* Every wing's table begins so. */
typedef struct wing_head {
    size_t struct_size;
    const char *version;
} wing_head;

const void *cli_wing_get(cli_wing wing, sft_error *err) {
    static const void *tables[CLI_WING_COUNT]; /* the tool asks from one thread */
    const wing_row *row = &rows[wing];
    cli_wing_getter getter = row->getter;
    char why[256];

    if (tables[wing] != NULL) {
        return tables[wing];
    }
    if (getter == NULL && row->library == NULL) {
        (void)sft_error_set(
            err, CLI_WING_MISSING, 0, SFT_NO_OFFSET, NULL, 0,
            "%s needs libsafetensors-%s, which this build of the tool does not have", row->what,
            row->name);
        return NULL;
    }
    if (getter == NULL) {
        getter = cli_wing_load(row->library, row->symbol, why, sizeof why);
    }
    if (getter == NULL) {
        (void)sft_error_set(err, CLI_WING_MISSING, 0, SFT_NO_OFFSET, NULL, 0,
                            "%s needs the library %s: %s", row->what, row->library, why);
        return NULL;
    }
    const wing_head *head = getter();
    if (strcmp(head->version, sft_version()) != 0) {
        (void)sft_error_set(err, CLI_WING_MISSING, 0, SFT_NO_OFFSET, NULL, 0,
                            "the %s wing is version %s, this tool is %s", row->name, head->version,
                            sft_version());
        return NULL;
    }
    tables[wing] = head;
    return head;
}

bool cli_wing_gone(cli_wing wing, sft_error *err) {
    return rows[wing].library != NULL && cli_wing_get(wing, err) == NULL;
}
