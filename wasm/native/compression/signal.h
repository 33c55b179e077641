/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * signal.h - for a header of liblzma, which blocks signals where there are any.
 */
#ifndef SFT_WASM_SIGNAL_H
#define SFT_WASM_SIGNAL_H

#define __NEED_sigset_t
#include <bits/alltypes.h>

static inline int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    (void)how, (void)set, (void)old;
    return 0;
}

#endif
