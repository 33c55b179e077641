/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert.h - inside a conversion: convert.c decides what goes where, convert_copy.c moves
 * the bytes, convert_directory.c knows Hugging Face's directories. Read first: <sft/import.h>.
 */
#ifndef SFT_IMPORT_CONVERT_H
#define SFT_IMPORT_CONVERT_H

#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "fs/output/publish.h"
#include "import/core/import.h"

/* A file of the output. */
typedef struct sft__import_made {
    char *path;
    sft_writer *writer; /* NULL: it has its name */
    bool is_new;        /* it has, and replaced none: removed if the conversion fails */
} sft__import_made;

/* Another name in the output: of an item, or of a part of it. */
typedef struct sft__import_other {
    const char *name;
    size_t name_len;
    const char *old; /* in the input; they are in its order */
    size_t old_len;
    const sft_catalog *catalog;
    const sft_tensor *of;    /* the item's */
    const sft_tensor *shows; /* what the name finds in the input */
    bool part;               /* that is not simply all of `of` */
} sft__import_other;

typedef struct sft__import_conversion {
    const sft_allocator *allocator;
    sft_import_convert_options options;
    sft_import_options read;
    sft_write_options write;
    sft_catalog **catalogs;
    size_t catalog_count;
    size_t catalog_room;
    sft_import_item *items; /* those taken, in the order of the output */
    size_t item_count;
    size_t item_room;
    size_t not_taken;  /* tensors of the catalogs that are no items under any name */
    size_t apart;      /* items that are parts of tensors, which other names show */
    size_t names_left; /* that `choose` left out */
    sft__import_other *others;
    size_t other_count;
    size_t other_room;
    sft__base_arena names;                     /* that were made: of storages */
    struct sft__import_convert_called *called; /* every name of the output */
    size_t called_count;
    size_t called_room;
    sft__base_strmap called_names; /* over them */
    size_t *places; /* of the catalogs' tensors, one catalog behind the other: item + 1 */
    size_t place_room;
    bool no_parts; /* what shows a part of a tensor becomes a tensor */
    bool any_type; /* of types that safetensors has not, too */
    sft_import_converted result;
    sft_import_report *report;
    bool many;             /* inputs */
    const char *framework; /* "pt" or "ms": of the first input that has one; NULL: none */
    bool as_input; /* files of the output are at most as large as the largest of the input */
    uint64_t done_bytes;
    bool several;  /* what is written now is one file of several */
    bool is_ready; /* options.ready was called */
    char *index;   /* of several files: begun (sft_model_begin); NULL: not yet, or done */
    sft__import_made *made;
    size_t made_count;
    size_t made_room;
} sft__import_conversion;

/* What a conversion into one output path makes of its inputs. */
sft_status sft__import_convert_files(sft__import_conversion *c, const char *const *inputs,
                                     size_t count, const char *output, sft_error *err);
/* Is `input` a directory of PyTorch weights? *done: it was, and status is its conversion's. */
sft_status sft__import_convert_directory(sft__import_conversion *c, const char *input,
                                         const char *output, bool *done, sft_error *err);

/* Puts the bytes of items[first, end) into the writer, where they are declared as 0, 1, 2 ... */
sft_status sft__import_convert_copy(sft__import_conversion *c, sft_writer *writer, size_t first,
                                    size_t end, sft_error *err);
/* The same into anything: `size` bytes at `offset` of items[item], in its type, packed and
 * little-endian; from any of the pool's workers, in any order. */
typedef struct sft__import_sink {
    sft_status (*put)(void *ctx, size_t item, uint64_t offset, const void *data, size_t size,
                      sft_error *err);
    void *ctx;
} sft__import_sink;
sft_status sft__import_convert_sink(sft__import_conversion *c, const sft__import_sink *sink,
                                    sft_error *err);
/* Compares items[first, end) with what lies in the file at `path`. */
sft_status sft__import_convert_verify(sft__import_conversion *c, const char *path, size_t first,
                                      size_t end, sft_error *err);
/* The same with all items and a catalog that is open. */
sft_status sft__import_convert_compare(sft__import_conversion *c, sft_catalog *with,
                                       sft_error *err);
/* Of an input: SFT_E_MISMATCH if its tensors have fewer bytes than the container gave them. */
sft_status sft__import_convert_counts(const sft_catalog *catalog, const sft_import_report *report,
                                      sft_error *err);
/* SFT_E_MISMATCH if digests that the input records are not those of its tensors, SFT_E_STALE if they are of
 * other tensors. */
sft_status sft__import_convert_recorded(const sft__import_conversion *c, const sft_catalog *catalog,
                                        sft_error *err);

/* OUT.safetensors.index.json for the items and their files, which appear with it. */
sft_status sft__import_convert_index(sft__import_conversion *c, const char *output, uint32_t files,
                                     sft_error *err);
/* What was written of several files gets its names, then its index: from the first until the last of them
 * nobody takes the directory for a model. */
sft_status sft__import_convert_together(sft__import_conversion *c, const char *index,
                                        const sft__base_buf *text, sft_error *err);
/* The files that are held get their names. */
sft_status sft__import_convert_commit(sft__import_conversion *c, sft_error *err);
/* From here on files of several appear at once, because each is compared before the next. */
sft_status sft__import_convert_begin(sft__import_conversion *c, const char *index, sft_error *err);
/* write/convert_names.c. Asks `choose` about every name of every tensor: those taken become items and other
 * names of these. Types that safetensors has not are refused unless `any_type`. */
sft_status sft__import_convert_take(sft__import_conversion *c, const sft_catalog *catalog,
                                    sft_error *err);
/* Does another name show simply all of the tensor? */
bool sft__import_convert_shows_all(const sft_tensor *of, const sft_tensor *shows);
int sft__import_convert_compare_names(const char *a, size_t a_len, const char *b, size_t b_len);
/* Once all items are taken and in order: item_of knows the item that a tensor of an input became, or NULL. */
sft_status sft__import_convert_map(sft__import_conversion *c, sft_error *err);
const sft_import_item *sft__import_convert_item_of(const sft__import_conversion *c,
                                                   const sft_catalog *catalog, const sft_tensor *t,
                                                   size_t *index);

/* write/convert_metadata.c. Of the file with items[first, end). */
sft_status sft__import_convert_metadata(sft__import_conversion *c, sft_writer *writer, size_t first,
                                        size_t end, sft_error *err);
/* Names what a catalog could not have: a record that names nothing, a file that its index does not name.
 * Returns how many tensors it names. */
uint64_t sft__import_convert_problems(sft__import_conversion *c, const sft_catalog *catalog);
/* Does the caller set the entry? */
bool sft__import_convert_given(const sft__import_conversion *c, const char *key, size_t len);
/* Does an entry of the catalog's metadata record another name, as the items' other names have it? */
bool sft__import_convert_is_record(const sft_catalog *catalog, const sft_metadata_entry *e);
/* Names something that the output does not hold: `tensors` of them, 0 for metadata. */
void sft__import_convert_lost(sft__import_conversion *c, const char *subject, uint64_t tensors,
                              const char *message);
/* Tells which metadata of the catalogs' files have one text and are of several types. */
sft_status sft__import_convert_retyped(sft__import_conversion *c,
                                       const sft_catalog *const *catalogs, size_t count,
                                       sft_error *err);
/* SFT_E_UNSUPPORTED if there is nothing to write; SFT_E_INTERNAL if a tensor of the catalogs is neither an
 * item nor left out. */
sft_status sft__import_convert_complete(const sft__import_conversion *c,
                                        const sft_catalog *const *catalogs, size_t count,
                                        sft_error *err);
/* Puts other names in order; storages of several inputs (sft.storage.N) get numbers that are free.
 * Before items are put in order. SFT_E_DUPLICATE if a name comes twice. */
sft_status sft__import_convert_names(sft__import_conversion *c, sft_error *err);
/* From then on: is it a tensor's name in the output? */
bool sft__import_convert_is_name(const sft__import_conversion *c, const char *text, size_t len);
void sft__import_convert_forget_names(sft__import_conversion *c);
/* Closes the inputs and forgets the items. */
void sft__import_convert_clear(sft__import_conversion *c);
/* The name of the output, or of one of its shards, with its NUL. */
sft_status sft__import_convert_name(sft__import_conversion *c, sft__base_buf *b, const char *output,
                                    uint32_t file, uint32_t files, sft_error *err);

/* An index in the making: names and the files that hold them. */
void sft__import_index_begin(sft__base_buf *b);
void sft__import_index_add(sft__base_buf *b, const char *name, size_t name_len, const char *file);
void sft__import_index_end(sft__base_buf *b, uint64_t total_bytes);

/* write/export.c. A file of `size` bytes that appears at `path` when it is committed: durable, and in the
 * place of another one, as the options say. */
sft_status sft__import_convert_output(const sft__import_conversion *c, const char *path,
                                      uint64_t size, sft__fs_publish **out, sft_error *err);

#endif
