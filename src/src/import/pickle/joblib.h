/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/joblib.h - dumps of joblib that are compressed as a whole.
 */
#ifndef SFT_IMPORT_JOBLIB_H
#define SFT_IMPORT_JOBLIB_H

#include "import/core/import.h"

/* By the first bytes: compressed by something that can be unpacked here. */
bool sft__import_joblib_is_packed(const sft__import_probe *p);
/* SFT_E_FORMAT: what comes out is no pickle. */
sft_status sft__import_joblib_open_packed(sft__import *job, const sft__import_probe *probe,
                                          sft_error *err);

#endif
