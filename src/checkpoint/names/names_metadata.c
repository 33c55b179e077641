/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_metadata.c - which metadata of a model are still true of it under other names, or of
 * some of its tensors. Read checkpoint/names/names.h first.
 */
#include "base/error.h"
#include "checkpoint/names/names.h"
#include "checkpoint/open/assembly.h"
#include <sft/digest.h>

sft_status sft__checkpoint_names_metadata_take(sft__checkpoint_assembly *a, const sft_catalog *in,
                                               const sft__checkpoint_names_metadata *what,
                                               sft_error *err) {
    const size_t count = sft_catalog_file_count(in) == 0 ? 0 : sft_catalog_metadata_count(in, 0);
    for (size_t i = 0; i < count; i++) {
        sft_metadata_entry e;
        SFT_TRY(sft_catalog_metadata_at(in, 0, i, &e.key, &e.key_len, &e.value, &e.value_len));
        if ((what->changed && sft__checkpoint_is_crc_num(e.key, e.key_len)) ||
            ((what->changed || what->renamed) &&
             (sft_digest_is_key(e.key, e.key_len) ||
              sft__checkpoint_describes_tensors(in, &e, true)))) {
            continue;
        }
        if (what->format == NULL || e.key_len != 6 || memcmp(e.key, "format", 6) != 0) {
            SFT_TRY(sft_builder_add_metadata(a->builder, 0, &e, err));
        }
    }
    if (what->format != NULL) {
        const sft_metadata_entry e = {"format", 6, what->format, strlen(what->format)};
        return sft_builder_add_metadata(a->builder, 0, &e, err);
    }
    return SFT_OK;
}
