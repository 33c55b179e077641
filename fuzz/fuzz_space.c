/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_space.c - any bytes as the description in a folder of a checkpoint:
 * param_name_map.json, metadata.json, topology.json, or the sharding metadata of a shard (the first
 * byte says which). The folder holds two good files; what opens must be readable to the last byte.
 * POSIX only: elsewhere nothing is tried.
 */
#include "fuzz.h"

#ifndef _WIN32
#include <sft/checkpoint_open.h>
#include <sft/read.h>
#include <sft/write.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *data, size_t size) {
    FILE *const f = fopen(in_folder(name), "wb");
    CHECK(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

/* "a": 4 x 6 of which this file has half of the columns; "s": a scalar. */
static void put_shard(const char *name, uint64_t columns, const sft_metadata_entry *entry) {
    static const uint32_t values[24] = {1, 2, 3};
    const uint64_t shape[] = {4, columns};
    sft_save_tensor t[2];
    uint8_t bytes[4096];
    size_t size = 0;
    memset(t, 0, sizeof t);
    t[0] = (sft_save_tensor){.name = "a",
                             .name_len = 1,
                             .dtype = sft_dtype_get(SFT_U32),
                             .shape = shape,
                             .rank = 2,
                             .data = values,
                             .nbytes = 16 * columns};
    t[1] = (sft_save_tensor){
        .name = "s", .name_len = 1, .dtype = sft_dtype_get(SFT_U32), .data = values, .nbytes = 4};
    if (sft_save_memory(bytes, sizeof bytes, &size, t, 2, entry, entry != NULL ? 1 : 0, NULL,
                        NULL) == SFT_OK) {
        put(name, bytes, size);
    }
}

static void prepare(void) {
    static const char *const names[] = {"param_name_map.json", "metadata.json", "topology.json"};
    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "/tmp/sft-fuzz-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
        put_shard("a.safetensors", 2, NULL);
    }
    for (size_t i = 0; i < 3; i++) {
        (void)unlink(in_folder(names[i]));
    }
    put_shard("b.safetensors", 4, NULL);
}

static void read_all(const sft_catalog *c) {
    for (size_t i = 0; i < sft_catalog_count(c); i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        uint8_t data[4096];
        CHECK(t->nbytes <= sizeof data);
        CHECK(sft_tensor_read(c, t, NULL, data, sizeof data, NULL) == SFT_OK);
    }
}

static void describe(const uint8_t *data, size_t size, uint8_t which) {
    static const char *const names[] = {"param_name_map.json", "metadata.json", "topology.json"};
    if (which < 3) {
        put(names[which], data, size);
        return;
    }
    const sft_metadata_entry entry = {"DCP_SHARDING_INFO", 17, (const char *)data,
                                      size < 2048 ? size : 2048};
    put_shard("b.safetensors", 4, &entry);
    static const char first[] = "{\"a\":{\"saved_offsets\":[0,0]},\"s\":{\"saved_offsets\":[]}}";
    const sft_metadata_entry other = {"DCP_SHARDING_INFO", 17, first, sizeof first - 1};
    put_shard("a.safetensors", 2, &other);
}

static void clean(void) {
    static const char *const names[] = {"param_name_map.json", "metadata.json", "topology.json",
                                        "a.safetensors", "b.safetensors"};
    for (size_t i = 0; i < 5; i++) {
        (void)unlink(in_folder(names[i]));
    }
    (void)rmdir(folder);
    folder[0] = '\0';
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
#ifndef _WIN32
    sft_checkpoint *checkpoint;
    sft_catalog *whole;
    sft_error err;
    if (size == 0) {
        return 0;
    }
    prepare();
    describe(data + 1, size - 1, data[0] % 4);
    memset(&err, 0, sizeof err);
    sft_status status = sft_checkpoint_open(&checkpoint, folder, NULL, &err);
    CHECK(err.status == (int32_t)status);
    if (status == SFT_OK) {
        status = sft_checkpoint_take_global(&whole, checkpoint, NULL, &err);
        CHECK(err.status == (int32_t)status);
        if (status == SFT_OK) {
            read_all(whole);
        }
        sft_catalog_close(whole);
    }
    CHECK(status == SFT_OK || err.message[0] != '\0');
    clean();
#else
    (void)data;
    (void)size;
#endif
    return 0;
}
