/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_hdf5.c - any bytes as a file of one reader; the seeds are HDF5 files.
 */
#include "import_check.h"
#include "reader_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_reader(&sft__import_reader_hdf5, hash_of(data, size), data, size);
    return 0;
}
