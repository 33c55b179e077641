/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * One program with every object of the static extension libraries, and the core: two globals of one
 * name do not link.
 */
#include <sft/checkpoint_api.h>
#include <sft/import.h>
#include <sft/remote.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const int same = strcmp(sft_checkpoint_api_get()->version, sft_version()) == 0 &&
                     strcmp(sft_remote_api_get()->version, sft_version()) == 0 &&
                     strcmp(sft_import_api_get()->version, sft_version()) == 0;
    printf("libsafetensors %s\n", sft_version());
    return same ? 0 : 1;
}
