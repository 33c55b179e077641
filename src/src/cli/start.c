/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/start.c - the command safetensors: one process. Read entry.h first.
 */
#include "cli/entry.h"

int main(int argc, char **argv) {
    return cli_main(argc, argv, NULL);
}
