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
    sft_error err;
    sft_remote *remote = NULL;

    printf("libsafetensors %s: %s, %s\n", sft_version(),
           sft_checkpoint_kind_title(SFT_CHECKPOINT_RANKS), sft_import_format_name(SFT_IMPORT_NPZ));
    if (sft_remote_create(&remote, NULL, &err) != SFT_OK) { /* no libcurl here: said so */
        return err.status == SFT_E_UNSUPPORTED ? 0 : 1;
    }
    sft_remote_free(remote);
    return 0;
}
