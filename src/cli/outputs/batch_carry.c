/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/batch_carry.c - digests that the source of a batch records, inside its files or beside them,
 * go with tensors that stay whole, into the metadata of the files that get them. Read batch.h
 * first.
 */
#include "cli/copy/cp.h"
#include "cli/look/verify.h"
#include "cli/operands/chosen.h"
#include "cli/operands/other_name.h"
#include "cli/operands/ranks.h"
#include "cli/outputs/batch.h"
#include "cli/outputs/lost.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"sft.crc32c", "sft.sha256"};
enum { KEYS = 2, KEY_LEN = 10 };

/* What a writer of these tensors would record. Nothing is written: it is asked before it begins. */
static sft_status ask(const cli *c, const sft_job_file *f, sft_writer *writer, uint32_t *lost,
                      sft_error *err) {
    const size_t count = f->tensors != NULL ? f->tensor_count : sft_catalog_count(f->catalog);
    sft_writer_origin *origins = cli_alloc(count + 1, sizeof *origins);
    sft_status status = SFT_OK;

    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        const sft_tensor *t = sft_catalog_at(f->catalog, f->tensors != NULL ? f->tensors[i] : i);
        const bool whole = t->piece_count == 1 && t->pieces[0].strides == NULL;
        const sft_catalog *from = f->catalog;
        const sft_tensor *own = cli_chosen_origin(&from, t);
        if (c->unnamed != NULL) { /* fused and split ones are no tensor's bytes any more */
            from = cli_as_opened(c, from);
            own = NULL;
        }
        origins[i] = (sft_writer_origin){from, whole ? own : NULL};
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
    for (size_t i = 0; i < f->metadata_count; i++) { /* at most one */
        room[i] = f->metadata[i];
        room[i].value = cli_copy_bytes(room[i].value, room[i].value_len);
    }
    for (size_t k = 0; k < KEYS; k++) {
        size_t len;
        const char *value = sft_writer_metadata_find(writer, keys[k], KEY_LEN, &len);
        if (value != NULL) {
            room[f->metadata_count++] =
                (sft_metadata_entry){keys[k], KEY_LEN, cli_copy_bytes(value, len), len};
        }
    }
    f->metadata = f->metadata_count != 0 ? room : NULL;
}

/* ---------------------------------------------------------------- other names */

/* What one file of the output says of other names. */
typedef struct linking {
    cli_batch *b;
    const sft_catalog *named; /* the model, or the file's own catalog */
    size_t file;
    bool *takes;            /* of its tensors: those that the file gets, whole or cut */
    bool *kept;             /* of its other names: those that a file records */
    sft_writer_name *names; /* to be recorded in this one */
    size_t count;
} linking;

static void mark_taken(linking *k) {
    const sft_job_file *f = &k->b->files[k->file];
    const size_t count = f->tensors != NULL ? f->tensor_count : sft_catalog_count(f->catalog);

    memset(k->takes, 0, sft_catalog_count(k->named) * sizeof *k->takes);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(f->catalog, f->tensors != NULL ? f->tensors[i] : i);
        const sft_tensor *own = sft_catalog_find(k->named, t->name, t->name_len);
        if (own != NULL) {
            k->takes[sft_catalog_index_of(k->named, own)] = true;
        }
    }
}

/* Is the name in metadata that the file takes over? Of several files sft.aliases is made anew. */
static bool goes_on(const linking *k, const char *name, size_t len, const sft_tensor *of) {
    const sft_catalog *c = k->b->files[k->file].catalog;
    const size_t files = sft_catalog_file_count(c);
    bool same;

    if (files == 1 && sft_catalog_metadata_find(c, 0, "sft.aliases", 11, NULL) != NULL) {
        return true;
    }
    for (size_t f = 0; f < files; f++) {
        sft_metadata_entry e = {name, len, NULL, 0};
        e.value = sft_catalog_metadata_find(c, f, name, len, &e.value_len);
        if (e.value != NULL) {
            (void)cli_lost_agree(c, &e, &same);
            return same && e.value_len == of->name_len &&
                   memcmp(e.value, of->name, e.value_len) == 0;
        }
    }
    return false;
}

/* Can a record say where in the tensor, as it is written, the part lies? */
static bool is_plain(const linking *k, const sft_tensor *of) {
    return k->b->carries && of->piece_count == 1 && of->pieces[0].strides == NULL;
}

/* What the file's metadata will be without these names. */
static sft_status put_others(const linking *k, sft_writer *w, sft_error *err) {
    const sft_job_file *file = &k->b->files[k->file];
    const sft_catalog *c = file->catalog;
    sft_status status = SFT_OK;
    bool same;

    for (size_t f = 0; f < sft_catalog_file_count(c); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(c, f) && status == SFT_OK; i++) {
            const sft_metadata_entry e = cli_metadata_at(c, f, i);
            (void)cli_lost_agree(c, &e, &same);
            if (same && cli_lost_is_first(c, f, &e) &&
                !cli_is_word(e.key, e.key_len, "sft.aliases")) {
                status = sft_writer_metadata(w, e.key, e.key_len, e.value, e.value_len, err);
            }
        }
    }
    return status;
}

/* Does a plain entry say it? Not where the key is another text's, or one that readers take for something
 * else. */
static bool is_free(const linking *k, const sft_writer_name *n) {
    const sft_catalog *c = k->b->files[k->file].catalog;
    bool same = false;

    for (size_t f = 0; f < sft_catalog_file_count(c) && !same; f++) {
        sft_metadata_entry e = {n->name, n->name_len, NULL, 0};
        e.value = sft_catalog_metadata_find(c, f, n->name, n->name_len, &e.value_len);
        if (e.value != NULL) {
            (void)cli_lost_agree(c, &e, &same);
            break;
        }
    }
    return !same && n->shows == NULL && !cli_is_reserved(n->name, n->name_len);
}

/* As a writer would record them: entries "name": "tensor", the rest in sft.aliases. */
static sft_status record(linking *k, sft_writer *w, sft_error *err) {
    cli_batch *b = k->b;
    sft_job_file *f = &b->files[k->file];
    size_t len = 0;

    sft_status status = put_others(k, w, err);
    status = status == SFT_OK ? sft_writer_names(w, k->names, k->count, err) : status;
    if (status != SFT_OK) {
        return status;
    }
    sft_metadata_entry *room = cli_alloc(f->metadata_count + k->count + 1, sizeof *room);
    for (size_t i = 0; i < f->metadata_count; i++) {
        room[i] = f->metadata[i];
    }
    for (size_t i = 0; i < k->count; i++) {
        const sft_writer_name *n = &k->names[i];
        if (is_free(k, n)) {
            room[f->metadata_count++] =
                (sft_metadata_entry){n->name, n->name_len, n->of, n->of_len};
        }
    }
    const char *value = sft_writer_metadata_find(w, "sft.aliases", 11, &len);
    if (value != NULL) {
        b->records[k->file] = cli_copy_bytes(value, len);
        room[f->metadata_count++] =
            (sft_metadata_entry){"sft.aliases", 11, b->records[k->file], len};
    }
    f->metadata = room;
    b->aliases[k->file] = room;
    return SFT_OK;
}

static sft_status link_file(linking *k, sft_error *err) {
    const size_t count = sft_catalog_alias_count(k->named);
    sft_write_options o;
    sft_writer *w;

    k->count = 0;
    mark_taken(k);
    for (size_t i = 0; i < count; i++) {
        const cli_other_name n = cli_other_name_at(k->named, i);
        const sft_tensor *t = n.whole;
        if (goes_on(k, n.name, n.len, t)) {
            k->kept[i] = true;
        } else if (k->takes[n.index] && (!n.part || is_plain(k, t))) {
            k->names[k->count++] = (sft_writer_name){
                n.name, n.len, t->name, t->name_len, t->dtype, t, n.part ? n.shows : NULL};
            k->kept[i] = true;
        }
    }
    if (k->count == 0) {
        return SFT_OK;
    }
    SFT_INIT(&o);
    sft_status status = sft_writer_create_stream(&w, 2, &o, err);
    if (status == SFT_OK) {
        status = record(k, w, err);
        sft_writer_free(w);
    }
    return status;
}

/* Names that no file records. */
static void tell_left(const linking *k, size_t count) {
    cli_batch *b = k->b;
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        const cli_other_name o = cli_other_name_at(k->named, i);
        b->alias_count += k->kept[i];
        if (!k->kept[i]) {
            cli_lost_note(b->c, o.name, o.len,
                          "another name of a part of a tensor: convert keeps it");
            left++;
        }
    }
    if (left > 0) {
        char number[32];
        cli_warn(b->c, b->source,
                 "%s other name%s of parts of tensors %s left out: convert keeps them",
                 cli_grouped(number, left), left == 1 ? "" : "s", left == 1 ? "is" : "are");
    }
}

/* Texts of another format that are names of tensors: readers of the output know no better. */
static void tell_texts(const cli_batch *b) {
    for (size_t f = 0; f < sft_catalog_file_count(b->named); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(b->named, f); i++) {
            const sft_metadata_entry e = cli_metadata_at(b->named, f, i);
            char key[128];
            if (sft_catalog_find(b->named, e.value, e.value_len) == NULL ||
                sft_catalog_find(b->named, e.key, e.key_len) != NULL ||
                cli_is_reserved(e.key, e.key_len)) {
                continue;
            }
            (void)sft_escape(key, sizeof key, e.key, e.key_len);
            cli_warn(b->c, b->source, "metadata \"%s\": %s (convert leaves it out)", key,
                     CLI_LOOKS_LIKE_NAME);
        }
    }
}

/* The other names that a catalog has, in the files from `first` to before `end`. */
static sft_status link_files(cli_batch *b, const sft_catalog *named, size_t first, size_t end,
                             sft_error *err) {
    const size_t count = sft_catalog_alias_count(named);
    sft_status status = SFT_OK;

    if (count == 0) {
        return SFT_OK;
    }
    linking k = {.b = b,
                 .named = named,
                 .file = first,
                 .takes = cli_alloc(sft_catalog_count(named) + 1, sizeof *k.takes),
                 .kept = cli_alloc(count, sizeof *k.kept),
                 .names = cli_alloc(count, sizeof *k.names)};
    for (; k.file < end && status == SFT_OK; k.file++) {
        status = link_file(&k, err);
    }
    if (status == SFT_OK) {
        tell_left(&k, count);
    }
    free(k.takes);
    free(k.kept);
    free(k.names);
    return status;
}

bool cli_batch_aliases(cli_batch *b) {
    sft_status status = SFT_OK;
    sft_error err;

    b->aliases = cli_alloc(b->count + 1, sizeof *b->aliases);
    b->records = cli_alloc(b->count + 1, sizeof *b->records);
    if (b->named != NULL && b->c->other_formats) {
        tell_texts(b);
    }
    if (b->named != NULL) {
        status = link_files(b, b->named, 0, b->count, &err);
    }
    for (size_t i = 0; b->named == NULL && b->carries && i < b->count && status == SFT_OK; i++) {
        status = link_files(b, b->files[i].catalog, i, i + 1, &err);
    }
    if (status != SFT_OK) {
        cli_fail_plainly(b->c, b->source, &err);
    }
    return status == SFT_OK;
}

/* Files of ranks record digests, of parts of tensors. */
static bool of_ranks(const cli_batch *b) {
    cli_strings paths = cli_verify_files(b->c, b->source);
    const bool any = paths.count > 0;

    cli_strings_reset(&paths);
    return any;
}

bool cli_batch_carry(cli_batch *b) {
    uint32_t lost = 0;
    sft_error err;

    b->carried = cli_alloc(CLI_BATCH_CARRIED * b->count + 1, sizeof *b->carried);
    for (size_t i = 0; i < b->count; i++) {
        sft_write_options o;
        sft_writer *writer;
        uint32_t one = 0;

        SFT_INIT(&o);
        sft_status status = sft_writer_create_stream(&writer, 2, &o, &err);
        if (status == SFT_OK) {
            status = ask(b->c, &b->files[i], writer, &one, &err);
            if (status == SFT_OK) {
                take(&b->files[i], &b->carried[CLI_BATCH_CARRIED * i], writer);
            }
            sft_writer_free(writer);
        }
        if (status != SFT_OK) {
            cli_fail_plainly(b->c, b->source, &err);
            return false;
        }
        lost |= one;
    }
    if (lost != 0 || (b->named != NULL && of_ranks(b))) {
        const bool converts = strcmp(b->c->command->name, "convert") == 0;
        cli_lost_digests(b->c, b->source, lost, "what is written",
                         converts ? "verify --record" : "--record");
    }
    return true;
}

/* ---------------------------------------------------------------- metadata */

/* Digests and other names are handed on by themselves. */
static bool is_of_names(const sft_catalog *catalog, const sft_metadata_entry *e) {
    return cli_is_word(e->key, e->key_len, "sft.aliases") ||
           cli_is_word(e->key, e->key_len, keys[0]) || cli_is_word(e->key, e->key_len, keys[1]) ||
           sft_catalog_find(catalog, e->key, e->key_len) != NULL;
}

/* Why the entry of one of the files is not one of all; NULL: it is. */
static const char *why_left_out(const sft_catalog *catalog, const sft_metadata_entry *e) {
    const bool tree = cli_is_word(e->key, e->key_len, "sft.tree");
    bool same;
    const size_t have = cli_lost_agree(catalog, e, &same);

    if (same && (!tree || have == sft_catalog_file_count(catalog))) {
        return NULL;
    }
    return tree ? "it names the tensors of one of the files"
                : "the files have different values of it";
}

/* Gives the entry to every file that takes the model's metadata over. */
static void give(cli_batch *b, const sft_metadata_entry *e) {
    for (size_t i = 0; i < b->count; i++) {
        sft_job_file *f = &b->files[i];
        if (f->catalog != b->named || (f->flags & SFT_JOB_FILE_METADATA) == 0) {
            continue;
        }
        sft_metadata_entry *room = cli_alloc(f->metadata_count + 1, sizeof *room);
        for (size_t k = 0; k < f->metadata_count; k++) {
            room[k] = f->metadata[k];
        }
        room[f->metadata_count++] = *e;
        free(b->aliases[i]);
        b->aliases[i] = room;
        f->metadata = room;
    }
}

/* The objects that the files have under the key, as one. False: it is no such key, or they are no objects. */
static bool put_together(cli_batch *b, const sft_metadata_entry *like) {
    const sft_import_collection from = {&b->named, 1, NULL, NULL, cli_allocator()};
    const size_t i = b->together[0] != NULL;
    sft_metadata_entry e;
    size_t size;
    bool same;

    (void)cli_lost_agree(b->named, like, &same);
    if (same || !sft_import_collects(like) ||
        sft_import_collect(&e, &b->together[i], &size, like, &from, NULL) != SFT_OK) {
        return false;
    }
    if (e.key != NULL) {
        give(b, &e);
    }
    return true;
}

/* What the files say differently is of none of them any more, nor is a tree of a part of the tensors. */
void cli_batch_metadata(cli_batch *b) {
    const sft_catalog *catalog = b->named;

    cli_lost_retyped(b->c, b->source, catalog);
    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(catalog, f); i++) {
            const sft_metadata_entry e = cli_metadata_at(catalog, f, i);
            if (!cli_lost_is_first(catalog, f, &e) || is_of_names(catalog, &e)) {
                continue;
            }
            const char *why = put_together(b, &e) ? NULL : why_left_out(catalog, &e);
            if (why != NULL) {
                cli_lost_metadata(b->c, b->source, e.key, e.key_len, why);
            }
        }
    }
}
