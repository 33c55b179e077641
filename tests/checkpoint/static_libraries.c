/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * One program with every object of the static extension libraries, and the core: two globals of one
 * name do not link.
 */
#include <sft/checkpoint_open.h>
#include <sft/import.h>
#include <sft/remote.h>
#include <stdio.h>

int main(void) {
    printf("libsafetensors %s: %s, %s\n", sft_version(),
           sft_checkpoint_kind_name(SFT_CHECKPOINT_RANKS), sft_import_format_name(SFT_IMPORT_NPZ));
    return sft_remote_is_url("hf://org/model") ? 0 : 1;
}
