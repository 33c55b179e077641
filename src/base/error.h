/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/error.h - filling the caller's error record. An error is a place: give the offset and the tensor
 * whenever they are known. Messages: lower case, no full stop, what was found and what was needed.
 */
#ifndef SFT_BASE_ERROR_H
#define SFT_BASE_ERROR_H

#include "base/compiler.h"
#include <sft/types.h>
#include <stdarg.h>

/* sft_error_set(), _at() and _from() of <sft/extend.h>, and short ones; all return status. */
SFT_API sft_status sft_error_set(sft_error *err, sft_status status, int32_t sys, const char *format,
                                 ...) SFT_PRINTF(4, 5);
SFT_API sft_status sft_error_at(sft_error *err, sft_status status, uint64_t offset,
                                const char *tensor, size_t tensor_len, const char *format, ...)
    SFT_PRINTF(6, 7);
SFT_API sft_status sft_error_from(sft_error *err, sft_status status, const sft_error *why,
                                  const char *format, ...) SFT_PRINTF(4, 5);
sft_status sft__base_fail(sft_error *err, sft_status status, const char *format, ...)
    SFT_PRINTF(3, 4);
sft_status sft__base_fail_at(sft_error *err, sft_status status, uint64_t offset, const char *format,
                             ...) SFT_PRINTF(4, 5);
sft_status sft__base_fail_tensor(sft_error *err, sft_status status, uint64_t offset,
                                 const char *tensor, size_t tensor_len, const char *format, ...)
    SFT_PRINTF(6, 7);
/* Of a tensor, or whatever has its name. */
#define SFT_FAIL_TENSOR(err, status, tensor, ...)                                                  \
    sft__base_fail_tensor(err, status, SFT_NO_OFFSET, (tensor)->name, (tensor)->name_len,          \
                          __VA_ARGS__)
/* With errno (or GetLastError) and the system's text for it appended after ": ". */
sft_status sft__base_fail_sys(sft_error *err, sft_status status, int32_t sys, const char *format,
                              ...) SFT_PRINTF(4, 5);
sft_status sft__base_fail_nomem(sft_error *err, size_t size);

/* Text for an errno, or NULL if it is not in the table. */
const char *sft__base_errno_text(int32_t sys);

/* Writes bytes as printable UTF-8 into dst[cap] (NUL-terminated): control characters, bidirectional
 * overrides, zero-width characters, line separators and invalid bytes become \n, \t, \x1b, \u202e ...;
 * a backslash becomes \\. Cut at a whole character with "..." if it does not fit. cap >= 8. Returns the
 * length written. */
size_t sft__base_escape(char *dst, size_t cap, const char *src, size_t len);
/* The same, public: see <sft/extend.h>. */
SFT_API size_t sft_escape(char *dst, size_t cap, const char *src, size_t len);

/* The first argument of who makes something: NULL until it is made. */
#define SFT_OUT(out, err)                                                                          \
    do {                                                                                           \
        if ((out) == NULL) {                                                                       \
            return sft__base_fail(err, SFT_E_ARG, "out is NULL");                                  \
        }                                                                                          \
        *(out) = NULL;                                                                             \
    } while (0)

#define SFT_TRY(call)                                                                              \
    do {                                                                                           \
        const sft_status try_st = (call);                                                          \
        if (try_st != SFT_OK) {                                                                    \
            return try_st;                                                                         \
        }                                                                                          \
    } while (0)

/* The next step of several, if those before it succeeded: for functions that clean up behind them. */
#define SFT_THEN(status, call) ((status) = (status) == SFT_OK ? (call) : (status))

#endif
