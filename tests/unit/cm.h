/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/cm.h - cmocka with the headers that it needs before it.
 */
#ifndef SFT_TESTS_CM_H
#define SFT_TESTS_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
