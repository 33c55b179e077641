/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/thread.c - the parts of thread.h that every system has.
 */
#include "base/thread/thread.h"
#include "base/memory/alloc.h"

sft_status sft__base_mutex_new(sft__base_mutex *m, sft_error *err) {
    return sft__base_mutex_init(m) ? SFT_OK
                                   : sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
}
