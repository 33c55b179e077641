/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/pages.h - large blocks straight from the operating system, with huge pages where it offers
 * them.
 */
#ifndef SFT_BASE_PAGES_H
#define SFT_BASE_PAGES_H

#include "base/compiler.h"

#define SFT__PAGES_MIN ((size_t)1 << 20)
#define SFT__HUGE_PAGE ((size_t)2 << 20)

/* Zeroed memory aligned to 2 MiB, not yet touched; NULL on failure. free takes the same size. */
void *sft__base_pages_alloc(size_t size);
void sft__base_pages_free(void *ptr, size_t size);
/* Makes the system provide the whole pages in the range now, as far as it can: what lies in them
 * stays. The rest, and errors, come with the first write. */
void sft__base_pages_touch(void *ptr, size_t size);

#endif
