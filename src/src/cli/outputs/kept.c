/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/kept.c - see kept.h.
 */
#include "cli/outputs/kept.h"
#include "cli/sys.h"
#include <stdlib.h>
#include <string.h>

struct cli_kept {
    char *path; /* links followed */
    char *names;
    char *link; /* a link that leads there, or nowhere */
};

static char *copy_of(const char *text) {
    char *copy = cli_alloc(strlen(text) + 1, 1);
    memcpy(copy, text, strlen(text) + 1);
    return copy;
}

void cli_kept_watch(cli *c, const char *path) {
    const bool link = cli_sys_is_link(path);
    char *names = cli_sys_kind(path) == CLI_KIND_FILE ? cli_sys_attributes(path) : NULL;
    char *real = names != NULL ? cli_sys_real(path) : NULL;

    if (real == NULL) {
        free(names);
        names = NULL;
    }
    if (real != NULL || link) {
        c->kept = cli_resize(c->kept, c->kept_count + 1, sizeof *c->kept);
        c->kept[c->kept_count++] = (struct cli_kept){real, names, link ? copy_of(path) : NULL};
    }
}

static bool has_name(const char *names, const char *name) {
    for (; names != NULL && *names != '\0'; names += strlen(names) + 1) {
        if (strcmp(names, name) == 0) {
            return true;
        }
    }
    return false;
}

static void compare(cli *c, const struct cli_kept *k) {
    char *now = cli_sys_attributes(k->path);

    for (const char *name = k->names; *name != '\0'; name += strlen(name) + 1) {
        if (!has_name(now, name)) {
            char text[512];
            (void)sft_escape(text, sizeof text, name, strlen(name));
            cli_warn(c, k->path, "the attribute %.300s of the replaced file could not be kept",
                     text);
        }
    }
    free(now);
}

void cli_kept_end(cli *c) {
    for (size_t i = 0; i < c->kept_count; i++) {
        const struct cli_kept *k = &c->kept[i];
        if (k->link != NULL && cli_sys_kind(k->link) != CLI_KIND_NONE &&
            !cli_sys_is_link(k->link)) {
            cli_warn(c, k->link, "was a link, and is a file now: what it led to is as it was");
        } else if (k->path != NULL && cli_sys_kind(k->path) == CLI_KIND_FILE) {
            compare(c, k);
        }
        free(k->link);
        free(c->kept[i].path);
        free(c->kept[i].names);
    }
    free(c->kept);
    c->kept = NULL;
    c->kept_count = 0;
}
