/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/open.h - the one door: a path, a directory, a URL or bytes become a catalog, whatever they hold.
 *
 * sft_open looks at the operand once and shows it to openers, in the order in which the caller lists them:
 *
 *     sft_opener_row rows[] = {{sft_remote_opener(), &remote}, {sft_checkpoint_opener(), NULL},
 *                              {sft_catalog_opener(), NULL},   {sft_import_opener(), NULL}};
 *     sft_door_options door;
 *     SFT_INIT(&door);
 *     door.rows = rows;
 *     door.row_count = 4;
 *     status = sft_open(&catalog, "model.pt", NULL, &door, &err);
 *
 * Each library has one opener; the caller lists those that it links, and there is no registry. An opener of
 * your own is a function and a row.
 *
 * Threads: sft_open may run in many threads at once, with the same rows, if the openers' options allow it.
 */
#ifndef SFT_OPEN_H
#define SFT_OPEN_H

#include <sft/catalog.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sft_operand_kind {
    SFT_OPERAND_BYTES = 1,     /* a source of the caller's */
    SFT_OPERAND_URL = 2,       /* by its scheme: sft_operand_is_url */
    SFT_OPERAND_FILE = 3,      /* a regular file, which is open */
    SFT_OPERAND_DIRECTORY = 4, /* a directory */
    SFT_OPERAND_NOTHING = 5    /* nothing that can be opened is at the path */
} sft_operand_kind;

/* What is to be opened, as every opener sees it. Made by sft_open alone: it may grow. */
typedef struct sft_operand sft_operand;
struct sft_operand {
    uint32_t kind; /* sft_operand_kind */
    uint32_t reserved;
    const char *path; /* or URL; NULL for BYTES */
    /* The bytes of BYTES and FILE; of others NULL. An opener that takes the source over sets it to NULL. */
    sft_source *source;
    const sft_open_options *open; /* never NULL; for every opener */
    /* Why the openers before did not take it; status SFT_OK: none has looked into it. */
    sft_error refused;
    /* Set by an opener of URLs that did not know what it found: brings `source` for the openers behind it.
     * May be NULL. */
    sft_status (*fetch)(sft_operand *operand, sft_error *err);
    void *fetch_ctx;
};

/* How one library opens. Append only. */
typedef struct sft_opener {
    size_t struct_size;
    /* SFT_OK and *out: opened. SFT_OK and *out NULL: this operand is for others; `refused` may say what was
     * wrong with it, which is the answer of sft_open if nobody else takes it. Any other status: it is this
     * opener's own and cannot be opened, and nobody else is asked. *out is NULL before. err: never NULL.
     * options: those of the row. */
    sft_status (*open)(sft_operand *operand, const void *options, sft_catalog **out,
                       sft_error *err);
} sft_opener;

/* An opener and its options, whose type is said where the opener is declared; NULL: its defaults. */
typedef struct sft_opener_row {
    const sft_opener *opener;
    const void *options;
} sft_opener_row;

typedef struct sft_door_options {
    size_t struct_size;
    const sft_open_options *open; /* what every opener is to keep to; NULL: defaults */
    const sft_opener_row *rows;   /* asked in this order; NULL: the core's alone */
    size_t row_count;
    /* NULL, or set to the opener that opened the operand, or called it its own and could not; NULL in it:
     * every opener left it to the others. */
    const sft_opener **taken_by;
} sft_door_options;

/* Opens what `path` names: a file, a directory, or a URL. path NULL: the bytes of `source`, which is taken
 * over in every case (else source is NULL). What an opener has to say beside the tensors belongs to the
 * catalog, and its library has a function that gives it: sft_import_report_take, sft_checkpoint_of.
 * Errors: those of the opener that takes the operand, or the last one that looked into it and left it;
 * SFT_E_UNSUPPORTED: a URL, and no opener for it. */
SFT_API SFT_MUST_CHECK sft_status sft_open(sft_catalog **out, const char *path, sft_source *source,
                                           const sft_door_options *options, sft_error *err);

/* The core's: safetensors files, indexes and directories, as sft_catalog_open. It takes everything but URLs
 * that it can open, and leaves what it cannot to the openers behind it. Options: none. */
SFT_API const sft_opener *sft_catalog_opener(void);

/* Does the text begin with https://, http://, hf:// or s3://, in either case? Then it is no path. */
SFT_API int sft_operand_is_url(const char *text);

/* For openers: was the operand read, and is not of the format that was looked for (SFT_E_FORMAT up to
 * SFT_E_COVERAGE)? Then another opener may know it. */
SFT_API int sft_operand_is_other(const sft_operand *operand);

/* For openers: leaves something with a catalog that nobody else has yet, to be found by its key (static
 * text) as long as the catalog lives: drop(object) is called when that is closed, after its sources. The
 * object stays the caller's if this fails. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_attach(sft_catalog *catalog, const char *key,
                                                     void *object, void (*drop)(void *object),
                                                     sft_error *err);
/* What was left under the key, or NULL. */
SFT_API void *sft_catalog_attached(const sft_catalog *catalog, const char *key);
/* The same, given to the caller: the catalog does not drop it. Not while other threads use the catalog. */
SFT_API void *sft_catalog_detach(sft_catalog *catalog, const char *key);

#ifdef __cplusplus
}
#endif
#endif
