/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/beside.h - files beside the one that is read, which it names itself: only regular files in
 * its directory or below. Read first: import.h.
 */
#ifndef SFT_IMPORT_BESIDE_H
#define SFT_IMPORT_BESIDE_H

#include "import/core/import.h"

enum { SFT__BESIDE_PATH = 4096, SFT__BESIDE_OPEN = 128 };

/* Is this a relative path without "..", empty parts, backslashes or a drive letter? len without
 * NUL. Pure. */
bool sft__import_beside_is_good(const char *location, size_t len);

/* Opens `location` in the directory of job->path. Refused: anything sft__import_beside_is_good refuses,
 * devices, pipes, and links (SFT_E_PATH), unless SFT_IMPORT_FOLLOW_LINKS, or both ends lie in one
 * repository of the Hugging Face cache. keep: a descriptor stays open; otherwise the file is opened
 * for every read. */
sft_status sft__import_beside_open(sft_source **out, const sft__import *job, const char *location,
                                   bool keep, sft_error *err);

/* Of a file that an index names, or that is a directory's model by its name: SFT_E_PATH for a link out of its
 * directory, unless SFT_IMPORT_FOLLOW_LINKS, or both ends lie in one repository of the Hugging Face cache.
 * What else is wrong with it, opening it says. */
sft_status sft__import_beside_stays(const char *path, uint32_t flags, sft_error *err);

#endif
