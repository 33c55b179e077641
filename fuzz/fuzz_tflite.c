/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_tflite.c - any bytes as a file of the import wing; the seeds are TFLite models.
 */
#include "import_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_file(data, size);
    return 0;
}
