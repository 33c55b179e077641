/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/dtypes.c - element types that other formats have and safetensors has not. Read first:
 * import.h.
 */
#include "import/core/import.h"

static const sft_dtype more[] = {
    {SFT__C128, SFT_KIND_COMPLEX, 1, 16, 8, 0, "C128"},
    {SFT__C32, SFT_KIND_COMPLEX, 1, 4, 2, 0, "C32"},
};

const sft_dtype *sft__import_dtype(uint32_t id) {
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (more[i].id == id) {
            return &more[i];
        }
    }
    return sft_dtype_get(id);
}
