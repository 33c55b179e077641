/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/batch_carry.c - digests that the source of a batch records, inside its files or beside them, go with
 * tensors that stay whole, into the metadata of the files that get them. Read batch.h first.
 */
#include "batch.h"
#include "verify.h"
#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"sft.crc32c", "sft.sha256"};
enum { KEYS = 2, KEY_LEN = 10 };

/* What a writer of these tensors would record. Nothing is written: it is asked before it begins. */
static sft_status ask(const sft_job_file *f, sft_writer *writer, uint32_t *lost, sft_error *err) {
    const size_t count = f->tensors != NULL ? f->tensor_count : sft_catalog_count(f->catalog);
    sft_writer_origin *origins = cli_alloc(count + 1, sizeof *origins);
    sft_status status = SFT_OK;

    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        const sft_tensor *t = sft_catalog_at(f->catalog, f->tensors != NULL ? f->tensors[i] : i);
        const bool whole = t->piece_count == 1 && t->pieces[0].strides == NULL;
        origins[i] = (sft_writer_origin){f->catalog, whole ? t : NULL};
        status = sft_writer_declare(writer, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL,
                                    err);
    }
    if (status == SFT_OK) {
        status = sft_writer_carry_digests(writer, origins, lost, err);
    }
    free(origins);
    return status;
}

static void take(sft_job_file *f, sft_metadata_entry *room, const sft_writer *writer) {
    f->metadata = room;
    for (size_t k = 0; k < KEYS; k++) {
        size_t len;
        const char *value = sft_writer_metadata_find(writer, keys[k], KEY_LEN, &len);
        if (value != NULL) {
            char *copy = cli_alloc(len + 1, 1);
            memcpy(copy, value, len);
            room[f->metadata_count++] = (sft_metadata_entry){keys[k], KEY_LEN, copy, len};
        }
    }
}

/* Files of ranks record digests, of parts of tensors. */
static bool of_ranks(const cli_batch *b) {
    char **paths;
    const size_t count = cli_verify_files(b->c, b->source, &paths);

    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
    }
    free(paths);
    return count > 0;
}

bool cli_batch_carry(cli_batch *b) {
    uint32_t lost = 0;
    sft_error err;

    b->carried = cli_alloc(KEYS * b->count + 1, sizeof *b->carried);
    for (size_t i = 0; i < b->count; i++) {
        sft_write_options o;
        sft_writer *writer;
        uint32_t one = 0;

        SFT_INIT(&o);
        sft_status status = sft_writer_create_stream(&writer, 2, &o, &err);
        if (status == SFT_OK) {
            status = ask(&b->files[i], writer, &one, &err);
            if (status == SFT_OK) {
                take(&b->files[i], &b->carried[KEYS * i], writer);
            }
            sft_writer_free(writer);
        }
        if (status != SFT_OK) {
            cli_fail_plainly(b->c, b->source, &err);
            return false;
        }
        lost |= one;
    }
    if (lost != 0 || of_ranks(b)) {
        cli_warn(b->c, b->source,
                 "recorded digests do not fit what is written and are left out; --record records new "
                 "ones");
    }
    return true;
}
