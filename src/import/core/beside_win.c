/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/beside_win.c - files beside the one that is read are not opened on Windows: there is no
 * walk without links here. Read first: beside.h.
 */
#ifdef _WIN32
#include "import/core/beside.h"

sft_status sft__beside_open(sft_source **out, const sft__import *job, const char *location,
                            bool keep, sft_error *err) {
    (void)job;
    (void)location;
    (void)keep;
    *out = NULL;
    return sft__fail(err, SFT_E_UNSUPPORTED,
                     "external data: files beside the model are not opened on Windows");
}
#endif
