/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/cm.h - cmocka with the headers that it needs before it; cm_mini.h where there is none.
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

#ifdef SFT_MINI_CMOCKA
#include "unit/cm_mini.h"
#else
#include <cmocka.h>
#endif

#endif
