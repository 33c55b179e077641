/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/copy_win.c - see copy.h. Windows copies whole files only: ranges go through the buffer.
 */
#ifdef _WIN32
#include "io/copy_any.h"

sft_status sft__copy_range(const sft__copy *copy, sft_error *err) {
    sft__copy c = *copy;
    return sft__copy_bounce(&c, err);
}
#else
typedef int sft__copy_win_empty;
#endif
