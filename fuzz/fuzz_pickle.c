/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_pickle.c - any bytes as data.pkl of a PyTorch zip that is right in everything else,
 * with two storages.
 */
#include "import_check.h"
#include "make_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static zip z;
    static const uint8_t zeros[256];

    if (size > ROOM - 4096) {
        return 0;
    }
    z.len = z.directory_len = z.count = 0;
    zip_add(&z, "a/data.pkl", data, size);
    zip_add(&z, "a/data/0", zeros, 64);
    zip_add(&z, "a/data/1", zeros, 256);
    zip_add(&z, "a/version", (const uint8_t *)"3\n", 2);
    zip_end(&z);
    check_file(z.bytes, z.len);
    return 0;
}
