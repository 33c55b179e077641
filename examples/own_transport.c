/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * One's own transport: a source whose batches are under way at once and end in any order, as with a
 * network client, an object store or io_uring. This one keeps a queue of requests, serves the last
 * asked first, and counts what came together; the bytes are those of a file. own_transport
 * FILE.safetensors Read first: sft/extend.h.
 */
#include <sft/extend.h>
#include <sft/sft.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct transport {
    FILE *file;
    unsigned long long batches;
    unsigned long long requests;
    size_t most; /* requests of one batch */
} transport;

/* What a client would do when an answer arrives: the bytes go to their place, or the request
 * failed. */
static sft_status answer(transport *t, const sft_io_range *r, sft_error *err) {
    t->requests++;
    if (r->offset > (uint64_t)INT32_MAX || fseek(t->file, (long)r->offset, SEEK_SET) != 0 ||
        fread(r->data, 1, r->size, t->file) != r->size) {
        return sft_error_at(err, SFT_E_IO, r->offset, NULL, 0, "%llu bytes did not come",
                            (unsigned long long)r->size);
    }
    return SFT_OK;
}

static sft_status one(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const sft_io_range r = {offset, dst, size};
    return answer(self, &r, err);
}

/* All requests of a batch are sent, then the answers are taken as they come. Each range ends with
 * one call of done; the first failure is the result. */
static sft_status many(void *self, const sft_io_batch *batch, sft_error *err) {
    const sft_io_range *ranges = batch->ranges;
    const size_t count = batch->count;
    transport *t = self;
    sft_status result = SFT_OK;

    /* a client that waits asks batch->control now and then */
    t->batches++;
    t->most = count > t->most ? count : t->most;
    for (size_t i = count; i-- > 0;) { /* the last first: any order will do */
        sft_error why;
        const sft_status status = ranges[i].size == 0 ? SFT_OK : answer(t, &ranges[i], &why);
        batch->done(batch->done_ctx, i, status, status == SFT_OK ? NULL : &why);
        if (status != SFT_OK && result == SFT_OK) {
            result = status;
            *err = why;
        }
    }
    return result;
}

static int use(sft_catalog *model, const transport *t) {
    uint8_t digest[32];
    sft_error err = {0};
    sft_loaded *loaded = NULL;

    if (sft_load(&loaded, model, NULL, &err) ||
        sft_catalog_content_hash(model, digest, NULL, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        sft_loaded_free(loaded);
        return 1;
    }
    printf("%llu bytes in %zu tensors\n", (unsigned long long)sft_loaded_bytes(loaded),
           sft_loaded_count(loaded));
    printf("content ");
    for (size_t i = 0; i < sizeof digest; i++) {
        printf("%02x", digest[i]);
    }
    printf("\n%llu requests, %llu batches\n", t->requests, t->batches);
    sft_loaded_free(loaded);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: own_transport FILE.safetensors\n");
        return 2;
    }
    transport t = {fopen(argv[1], "rb"), 0, 0, 0};
    if (t.file == NULL || fseek(t.file, 0, SEEK_END) != 0) {
        perror(argv[1]);
        return 3;
    }
    const long size = ftell(t.file);

    sft_source_vtable vtable;
    SFT_INIT(&vtable);
    vtable.read_at = one;
    vtable.read_many = many;

    /* SFT_SOURCE_REMOTE: a read costs a round trip, so small gaps are read over and reads come in
     * batches. */
    sft_error err = {0};
    sft_source *source = NULL;
    sft_catalog *model = NULL;
    if (sft_source_create(&source, &vtable, &t,
                          &(sft_source_info){(uint64_t)size, SFT_SOURCE_REMOTE, argv[1], NULL},
                          &err) ||
        sft_catalog_open_source(&model, source, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        fclose(t.file);
        return 1;
    }
    const int rc = use(model, &t);
    sft_catalog_close(model);
    fclose(t.file);
    return rc;
}
