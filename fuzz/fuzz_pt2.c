/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_pt2.c - any bytes as the list of weights of a .pt2 archive that is right in everything
 * else.
 */
#include "import_check.h"
#include "make_zip.h"
#include "reader_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static zip z;
    static const uint8_t bytes[256];

    if (size > ROOM - 4096) {
        return 0;
    }
    z.len = z.directory_len = z.count = 0;
    zip_add(&z, "m/archive_format", "pt2", 3);
    zip_add(&z, "m/data/weights/weight_0", bytes, 64);
    zip_add(&z, "m/data/weights/weight_1", bytes, 256);
    zip_add(&z, "m/data/weights/model_weights_config.json", data, size);
    zip_add(&z, "m/models/model.json", "{}", 2);
    zip_end(&z);
    check_reader(&sft__import_reader_torch_zip, hash_of(data, size), z.bytes, z.len);
    return 0;
}
