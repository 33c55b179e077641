/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/npy.c - see npy.h. Layout: "\x93NUMPY", 1, 0, two length bytes, a Python dict, blanks and a
 * line break up to a multiple of 64.
 */
#include "cli/ui/npy.h"
#include "cli/cmd.h"
#include <stdio.h>
#include <string.h>

const char *cli_npy_descr(const sft_dtype *dtype) {
    switch (dtype->id) {
    case SFT_BOOL:
        return "|b1";
    case SFT_U8:
        return "|u1";
    case SFT_I8:
        return "|i1";
    case SFT_F8_E5M2:
    case SFT_F8_E4M3:
    case SFT_F8_E8M0:
    case SFT_F8_E4M3FNUZ:
    case SFT_F8_E5M2FNUZ:
        return "|V1";
    case SFT_BF16:
        return "|V2";
    case SFT_I16:
        return "<i2";
    case SFT_U16:
        return "<u2";
    case SFT_F16:
        return "<f2";
    case SFT_I32:
        return "<i4";
    case SFT_U32:
        return "<u4";
    case SFT_F32:
        return "<f4";
    case SFT_C64:
        return "<c8";
    case SFT_F64:
        return "<f8";
    case SFT_I64:
        return "<i8";
    case SFT_U64:
        return "<u8";
    default:
        return NULL;
    }
}

char *cli_npy_header(const sft_dtype *dtype, const uint64_t *shape, uint32_t rank, size_t *size) {
    const char *descr = cli_npy_descr(dtype);
    const size_t room =
        192 + (size_t)rank * 24; /* rank <= 1,024: well under the 65,535 of version 1.0 */
    size_t at = 10;

    if (descr == NULL) {
        return NULL;
    }
    char *text = cli_alloc(room, 1);
    at += (size_t)snprintf(text + at, room - at,
                           "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t d = 0; d < rank; d++) {
        at += (size_t)snprintf(text + at, room - at, "%llu%s", (unsigned long long)shape[d],
                               rank == 1      ? ","
                               : d + 1 < rank ? ", "
                                              : "");
    }
    at += (size_t)snprintf(text + at, room - at, "), }");
    const size_t total = (at + 1 + 63) / 64 * 64;
    memset(text + at, ' ', total - 1 - at);
    text[total - 1] = '\n';
    memcpy(text, "\x93NUMPY\x01", 8); /* and the terminator: minor version 0 */
    text[8] = (char)((total - 10) & 0xff);
    text[9] = (char)((total - 10) >> 8);
    *size = total;
    return text;
}
