/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_legacy.c - any bytes behind the first three pickles of PyTorch's stream before 1.6: the
 * object, the keys, the storages.
 */
#include "import_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                  "\x80\x02M\xe9\x03.\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    static uint8_t file[sizeof head + (1 << 16)];

    if (size > (1 << 16)) {
        return 0;
    }
    memcpy(file, head, sizeof head - 1);
    memcpy(file + sizeof head - 1, data, size);
    check_file(file, sizeof head - 1 + size);
    return 0;
}
