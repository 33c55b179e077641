/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_onnx.c - any bytes as a file of the import library; the seeds are ONNX models.
 */
#include "import_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_file(data, size);
    return 0;
}
