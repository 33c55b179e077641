/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Bytes from anywhere: a source of one's own. This one serves a file through stdio and counts what is
 * read, so it shows that opening reads the header and at most a page of what follows it.
 *     own_source FILE.safetensors
 * Read first: sft/extend.h.
 */
#include <sft/extend.h>
#include <sft/sft.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct counted {
    FILE *file;
    unsigned long long calls;
    unsigned long long bytes;
} counted;

/* The library may call read_at from several threads at once. This program has one thread; with more, a
 * source guards its state (here: the stdio position) with a lock. */
static sft_status counted_read(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    counted *c = self;
    c->calls++;
    c->bytes += size;
    if (offset > (uint64_t)INT32_MAX || fseek(c->file, (long)offset, SEEK_SET) != 0 ||
        fread(dst, 1, size, c->file) != size) {
        return sft_error_at(err, SFT_E_IO, offset, NULL, 0, "cannot read %llu bytes",
                            (unsigned long long)size);
    }
    return SFT_OK;
}

static void counted_close(void *self) {
    counted *c = self;
    fclose(c->file);
}

static int print_first(sft_catalog *model, const counted *c) {
    sft_error err = {0};
    printf("%zu tensors; %llu bytes read to open it\n", sft_catalog_count(model), c->bytes);
    const sft_tensor *t = sft_catalog_at(model, 0);
    if (t == NULL) {
        return 0;
    }
    unsigned char first[8];
    const size_t size = t->nbytes < sizeof first ? (size_t)t->nbytes : sizeof first;
    if (sft_tensor_read_bytes(model, t, 0, first, size, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("first bytes of the first tensor:");
    for (size_t i = 0; i < size; i++) {
        printf(" %02x", first[i]);
    }
    printf("\n%llu calls in all\n", c->calls);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: own_source FILE.safetensors\n");
        return 2;
    }
    counted c = {fopen(argv[1], "rb"), 0, 0};
    if (c.file == NULL || fseek(c.file, 0, SEEK_END) != 0) {
        perror(argv[1]);
        return 3;
    }
    const long size = ftell(c.file);

    sft_source_vtable vtable;
    SFT_INIT(&vtable);
    vtable.read_at = counted_read;
    vtable.close = counted_close;

    sft_error err = {0};
    sft_source *source = NULL;
    sft_catalog *model = NULL;
    if (sft_source_create(&source, &vtable, &c,
                          &(sft_source_info){(uint64_t)size, 0, argv[1], NULL}, &err) ||
        sft_catalog_open_source(&model, source, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const int rc = print_first(model, &c);
    sft_catalog_close(model); /* closes the source, which closes the file */
    return rc;
}
