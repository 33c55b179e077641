/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_scan.c - any bytes as a file, scanned: the walk over its opcodes, what is compressed or
 * archived in it, the strings of its pickles. Behind a first byte of 0xff, as a member of a zip;
 * behind 0xfe, opened, too.
 */
#include "import_check.h"
#include "make_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static zip z;
    const size_t before = fuzz_memory.out;

    if (size > 0 && size < ROOM - 4096 && data[0] == 0xff) {
        z.len = z.directory_len = z.count = 0;
        zip_add(&z, "a/readme", data + 1, size - 1);
        zip_end(&z);
        check_scan(z.bytes, z.len, 0);
    } else if (size > 0 && data[0] == 0xfe) {
        check_file(data + 1, size - 1);
    } else {
        check_scan(data, size, 0);
    }
    CHECK(fuzz_memory.out == before);
    return 0;
}
