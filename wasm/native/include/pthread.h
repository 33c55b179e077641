/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pthread.h - the types that src/base/thread/thread.h has by value; this C library has no more of it. There are
 * no threads: thread.c.
 */
#ifndef SFT_WASM_PTHREAD_H
#define SFT_WASM_PTHREAD_H

#include <sys/types.h>

#endif
