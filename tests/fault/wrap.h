/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/fault/wrap.h - system calls that can be made to fail. The program is linked with --wrap, so
 * that the library's calls come here first.
 */
#ifndef SFT_TESTS_FAULT_WRAP_H
#define SFT_TESTS_FAULT_WRAP_H

#include <stdbool.h>
#include <stddef.h>

enum { WRAP_LOG = 512 };

/* What happens to the chosen call. */
typedef enum wrap_kind {
    WRAP_ERRNO, /* -1 and this errno; close closes all the same */
    WRAP_ONE,   /* transfers one byte */
    WRAP_LESS,  /* transfers all but one byte */
    WRAP_NONE,  /* transfers nothing, returns 0 */
    WRAP_KILL   /* the process is killed before it */
} wrap_kind;

/* Things that this system, while set, does not have. */
#define WRAP_NO_TMPFILE     1u
#define WRAP_NO_PROC        2u
#define WRAP_NO_RENAMEAT2   4u
#define WRAP_NO_KERNEL_COPY 8u
#define WRAP_NO_FALLOCATE   16u
#define WRAP_NO_OPENAT2     32u

/* Counts and names calls from here on; the fail_at-th (from 1; 0: none) goes wrong. */
void wrap_arm(size_t fail_at, wrap_kind kind, int error, unsigned missing);
size_t wrap_disarm(void);           /* how many calls there were */
const char *wrap_call(size_t call); /* name of call k (from 1) of the last round */

/* For calls that one test catches besides: is this the chosen one? *error: what it is to fail with. */
bool wrap_hit(const char *name, int *error);

#endif
