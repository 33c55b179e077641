/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_dcp.c - any bytes as the .metadata of a distributed checkpoint, beside a file of three
 * items: F32 [2, 3], the same again, and an object. POSIX only: elsewhere there are no files
 * beside.
 */
#include "import_check.h"
#include "make_zip.h"
#include "reader_check.h"
#include "scratch.h"

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>

static char folder[64];
static char data_path[96];
static char path[96];
static int metadata = -1;

static const char tensor[] =
    "\x80\x02"
    "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
    "X\x01\0\0\0"
    "0X\x03\0\0\0cpuK\x06tQK\0K\x02K\x03\x86K\x03K\x01\x86\x89"
    "ccollections\nOrderedDict\n)RtR.";

static void clean(void) {
    (void)unlink(data_path);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void write_items(FILE *f) {
    static zip z;
    static const uint8_t numbers[24] = {1, 2, 3};

    for (int i = 0; i < 3; i++) {
        z.len = z.directory_len = z.count = 0;
        if (i < 2) {
            zip_add(&z, "archive/data.pkl", tensor, sizeof tensor - 1);
            zip_add(&z, "archive/data/0", numbers, sizeof numbers);
        } else {
            zip_add(&z, "archive/data.pkl", "\x80\x02K\x03.", 5);
        }
        zip_add(&z, "archive/version", "3\n", 2);
        zip_end(&z);
        CHECK(fwrite(z.bytes, 1, z.len, f) == z.len);
    }
}

static void prepare(void) {
    if (metadata >= 0) {
        return;
    }
    scratch_make(folder);
    (void)snprintf(data_path, sizeof data_path, "%s/__0_0.distcp", folder);
    (void)snprintf(path, sizeof path, "%s/.metadata", folder);
    FILE *const f = fopen(data_path, "wb");
    CHECK(f != NULL);
    write_items(f);
    CHECK(fclose(f) == 0);
    metadata = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(metadata >= 0 && atexit(clean) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint32_t hash = hash_of(data, size);

    prepare();
    if (is_whole_way(hash)) {
        CHECK(ftruncate(metadata, 0) == 0 && pwrite(metadata, data, size, 0) == (ssize_t)size);
    }
    fuzz_path = path;
    check_reader(&sft__import_reader_dcp, hash, data, size);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_reader(&sft__import_reader_dcp, hash_of(data, size), data, size);
    return 0;
}
#endif
