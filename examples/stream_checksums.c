/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Streams a model of any size through 64 MiB of memory and prints the CRC32C of every tensor. Two more
 * threads read ahead while this one computes; tensors larger than a part of the budget come in parts.
 *     stream_checksums MODEL
 */
#include <inttypes.h>
#include <sft/sft.h>
#include <stdio.h>

static sft_status checksums(sft_stream *stream, sft_error *err) {
    sft_stream_item item;
    sft_status status;
    uint64_t tensors = 0, bytes = 0;
    uint32_t crc = 0;

    while ((status = sft_stream_next(stream, &item, err)) == SFT_OK && item.tensor != NULL) {
        crc = sft_crc32c(item.offset == 0 ? 0 : crc, item.data, item.size);
        if (item.offset + item.size == item.nbytes) { /* the last part, or all of it */
            printf("%08" PRIx32 "  %s\n", crc, item.tensor->name);
            tensors++;
            bytes += item.nbytes;
        }
        sft_stream_release(stream, &item);
    }
    printf("%" PRIu64 " tensors, %" PRIu64 " bytes\n", tensors, bytes);
    return status;
}

int main(int argc, char **argv) {
    sft_error err = {0};
    sft_catalog *model = NULL;
    sft_pool *pool = NULL;
    sft_stream *stream = NULL;
    sft_stream_options options;
    const char *why = NULL;
    uint64_t most = 0;
    sft_status status;

    if (argc != 2) {
        fprintf(stderr, "usage: stream_checksums MODEL\n");
        return 2;
    }
    status = sft_catalog_open(&model, argv[1], NULL, &err);
    if (!status && !(status = sft_pool_create(&pool, 3, NULL, &err))) {
        SFT_INIT(&options);
        options.pool = pool;
        options.memory_bytes = 64 << 20;
        options.flags = SFT_STREAM_PARTS;
        status = sft_stream_create(&stream, model, &options, &err);
    }
    /* Reading begins here: what is done before the first tensor is wanted costs nothing. */
    if (!status && !(status = sft_stream_add_all(stream, &err)) &&
        !(status = sft_stream_start(stream, &err))) {
        status = checksums(stream, &err);
        (void)sft_stream_memory(stream, &most);
        const int strategy = (int)sft_stream_strategy(stream, 0, &why);
        fprintf(stderr, "strategy %d (%s), at most %" PRIu64 " bytes of memory\n", strategy,
                why != NULL ? why : "the first choice", most);
    }
    if (status) {
        fprintf(stderr, "%s: %s\n", sft_status_text((int32_t)status), err.message);
    }
    sft_stream_free(stream);
    sft_pool_free(pool);
    sft_catalog_close(model);
    return status != SFT_OK;
}
