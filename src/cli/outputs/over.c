/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/over.c - nothing is written over a file that an option names to be read: a layout, rules for
 * names, an order. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/sys.h"
#include <string.h>

static bool is_read(const cli_opt *opt) {
    static const char *const texts[] = {"names",
                                        "order"}; /* these may be other things than files */

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(opt->name, texts[i]) == 0) {
            return true;
        }
    }
    return opt->type == CLI_FILE && strcmp(opt->name, "output") != 0 &&
           strcmp(opt->name, "report") != 0;
}

bool cli_over_read(cli *c, const char *output) {
    for (size_t i = 0; i < c->value_count; i++) {
        const cli_value *v = &c->values[i];
        if (v->text != NULL && is_read(v->opt) && cli_sys_kind(v->text) == CLI_KIND_FILE &&
            cli_sys_same_file(v->text, output)) {
            cli_usage(c, "\"%s\" would be written over the file of --%s, which is read", output,
                      v->opt->name);
            return true;
        }
    }
    return false;
}
