/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/arrow/arrow.h - what else asks whether bytes are Arrow's. Read first: import.h.
 */
#ifndef SFT_IMPORT_ARROW_H
#define SFT_IMPORT_ARROW_H

#include "import/core/import.h"

/* The kind of the message that a file begins with: 1 schema, 2 dictionary, 3 records, 4 tensor,
 * 5 sparse tensor; 0: none of Arrow's. Pure. */
uint32_t sft__import_arrow_kind(const sft__import_probe *p);

#endif
