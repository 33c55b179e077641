/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/npy.h - what the readers and the writer of numpy's formats share. Read first: import.h.
 */
#ifndef SFT_IMPORT_NPY_H
#define SFT_IMPORT_NPY_H

#include "import/import.h"

#define SFT__NPY_RANK_MAX 64 /* of numpy 2 */

#endif
