/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/batch_carry.c - digests that the source of a batch records, inside its files or beside them,
 * go with tensors that stay whole, into the metadata of the files that get them. Read batch.h
 * first.
 */
#include "batch.h"
#include "cp.h"
#include "lost.h"
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

/* ---------------------------------------------------------------- other names */

/* Does the file get the tensor, whole or a part of it? */
static bool takes_in(const sft_job_file *f, const sft_tensor *t) {
    const sft_tensor *own = sft_catalog_find(f->catalog, t->name, t->name_len);

    if (own == NULL || f->tensors == NULL) {
        return own != NULL;
    }
    const size_t at = sft_catalog_index_of(f->catalog, own);
    for (size_t i = 0; i < f->tensor_count; i++) {
        if (f->tensors[i] == at) {
            return true;
        }
    }
    return false;
}

/* Is the name in a file's metadata already, by itself or in sft.aliases? */
static bool is_recorded(const sft_catalog *catalog, const char *name, size_t len) {
    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        if (sft_catalog_metadata_find(catalog, f, name, len, NULL) != NULL ||
            sft_catalog_metadata_find(catalog, f, "sft.aliases", 11, NULL) != NULL) {
            return true;
        }
    }
    return false;
}

/* Does a file that is written take over the metadata that have the name? */
static bool goes_on(const cli_batch *b, const char *name, size_t len) {
    for (size_t k = 0; k < b->count; k++) {
        if (is_recorded(b->files[k].catalog, name, len)) {
            return true;
        }
    }
    return false;
}

static void add_alias(cli_batch *b, size_t file, const sft_metadata_entry *e) {
    sft_job_file *f = &b->files[file];
    sft_metadata_entry *more = cli_alloc(f->metadata_count + 1, sizeof *more);

    for (size_t i = 0; i < f->metadata_count; i++) {
        more[i] = f->metadata[i];
    }
    more[f->metadata_count++] = *e;
    f->metadata = more;
    free(b->aliases[file]);
    b->aliases[file] = more;
}

/* Of files of other formats, whose other names stand in no metadata. */
void cli_batch_aliases(cli_batch *b) {
    const size_t count = b->named != NULL ? sft_catalog_alias_count(b->named) : 0;
    size_t parts = 0;

    b->aliases = cli_alloc(b->count + 1, sizeof *b->aliases);
    for (size_t i = 0; i < count; i++) {
        size_t len;
        size_t of;
        const char *name = sft_catalog_alias_at(b->named, i, &len, &of);
        const sft_tensor *t = sft_catalog_at(b->named, of);
        const sft_metadata_entry e = {name, len, t->name, t->name_len};
        if (is_recorded(b->named, name, len)) {
            b->alias_count += goes_on(b, name, len);
            continue;
        }
        const bool whole = cli_shows_all(t, sft_catalog_find(b->named, name, len));
        if (!whole) {
            parts++;
            cli_lost_note(b->c, name, len, "another name of a part of a tensor: convert keeps it");
        }
        bool taken = false;
        for (size_t k = 0; whole && k < b->count; k++) {
            if (takes_in(&b->files[k], t)) {
                add_alias(b, k, &e);
                taken = true;
            }
        }
        b->alias_count += taken;
    }
    if (parts > 0) {
        char number[32];
        cli_warn(b->c, b->source,
                 "%s other name%s of parts of tensors %s left out: convert keeps them",
                 cli_grouped(number, parts), parts == 1 ? "" : "s", parts == 1 ? "is" : "are");
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
        cli_lost_digests(b->c, b->source, lost, "what is written", "--record");
    }
    return true;
}

/* ---------------------------------------------------------------- metadata */

/* Digests and other names are handed on by themselves. */
static bool is_of_names(const sft_catalog *catalog, const sft_metadata_entry *e) {
    return (e->key_len == 11 && memcmp(e->key, "sft.aliases", 11) == 0) ||
           (e->key_len == 10 && (memcmp(e->key, "sft.crc32c", 10) == 0 ||
                                 memcmp(e->key, "sft.sha256", 10) == 0)) ||
           sft_catalog_find(catalog, e->key, e->key_len) != NULL;
}

/* Why the entry of one of the files is not one of all; NULL: it is. */
static const char *why_left_out(const sft_catalog *catalog, const sft_metadata_entry *e) {
    const bool tree = e->key_len == 8 && memcmp(e->key, "sft.tree", 8) == 0;
    bool same;
    const size_t have = cli_lost_agree(catalog, e, &same);

    if (same && (!tree || have == sft_catalog_file_count(catalog))) {
        return NULL;
    }
    return tree ? "it names the tensors of one of the files"
                : "the files have different values of it";
}

/* What the files say differently is of none of them any more, nor is a tree of a part of the tensors. */
void cli_batch_metadata(cli_batch *b) {
    const sft_catalog *catalog = b->named;

    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(catalog, f); i++) {
            sft_metadata_entry e;
            (void)sft_catalog_metadata_at(catalog, f, i, &e.key, &e.key_len, &e.value, &e.value_len);
            if (!cli_lost_is_first(catalog, f, &e) || is_of_names(catalog, &e)) {
                continue;
            }
            const char *why = why_left_out(catalog, &e);
            if (why != NULL) {
                cli_lost_metadata(b->c, b->source, e.key, e.key_len, why);
            }
        }
    }
}
