/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/publish_set.h - the last step of every save: file and sidecar become visible.
 */
#ifndef SFT_MOVE_PUBLISH_SET_H
#define SFT_MOVE_PUBLISH_SET_H

#include "fs/output/publish.h"
#include "move/write/set.h"

/* Opens, creates and reserves the file that the set will fill. */
sft_status sft__move_set_create(sft__fs_publish **out, const sft__move_set *set, const char *path,
                                sft_error *err);

/* Header and data are written, digests sealed. Commits; then the sidecar, if one is asked for,
 * which was written before: all but its very last step can fail only while the old file is still in
 * place. */
sft_status sft__move_set_publish(const sft__move_set *set, sft__fs_publish *publish,
                                 const char *path, sft_error *err);

#endif
