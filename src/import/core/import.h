/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/import.h - what every reader of the library works with: the job of reading one file, and the
 * table of readers. To add a format: write FORMAT.c with a `probe` and an `open`, declare its row
 * below and put it into the table in readers.c. Everything a reader finds goes to the job's builder
 * (sft__import_tensor), everything it will not take to sft__import_opaque or sft__import_trick;
 * readers never print, execute or open paths of their own. Read first: <sft/import.h>,
 * <sft/extend.h>.
 */
#ifndef SFT_IMPORT_IMPORT_H
#define SFT_IMPORT_IMPORT_H

#include "base/memory/need.h"
#include "base/text/strmap.h"
#include <sft/extend.h>
#include <sft/import.h>
#include <string.h>

/* One file being read. A scan runs the same code as an open; its catalog is thrown away. */
typedef struct sft__import {
    const sft_allocator *allocator;
    sft_import_options options; /* defaults filled in */
    sft_limits limits;          /* of the caller; options.limits points here */
    const char *path; /* as opened, for messages and for files beside it; NULL: a source alone */
    const sft_source *file; /* the builder's first source; source index 0, file index 0 */
    uint32_t file_source;   /* of the builder: 0, but for an archive inside another one */
    sft_builder *builder;
    /* scratch of the reader, within memory_bytes; freed when the catalog is made */
    sft__base_arena arena;
    sft_import_report *report;
    struct sft__import_inflater *inflater; /* shared by the deflated members; made on first use */
    uint64_t inflate_left;                 /* of the budget */
    uint64_t opcodes;                      /* of all pickles so far */
    uint64_t pickle_bytes;                 /* of deflated pickles so far */
    uint64_t total_bytes;                  /* of all tensors added: against expand()ed giants */
    uint64_t beside_bytes;                 /* of the files beside it that tensors lie in */
    uint64_t tensors;                      /* added so far */
    uint64_t walk_left;                    /* of a scan: opcodes that may still be walked */
    struct sft__import_scan *work;         /* of a scan: its work list (scan/work.h) */
    /* of a scan: the members that lead to this part, NULL or "": the file itself */
    const char *where;
    uint64_t base; /* its place in the file, or SFT_NO_OFFSET */
    uint32_t format;
    bool exact_names; /* members of an archive may differ by case alone */
    bool scanning;    /* keep going past whatever does not stop the format's own loader */
    bool named;       /* a walk has reported the names of pickles: they are not said again */
} sft__import;

/* ---------------------------------------------------------------- jobs: job.c, open.c */

/* Options and limits with their defaults; the job was zeroed. */
sft_status sft__import_job_options(sft__import *job, const sft_import_options *options,
                                   sft_error *err);
/* Reads the whole of a source, which is taken over, by the reader of its format (job->format) or, of
 * safetensors, by the core's; a report is made if the job has none. */
sft_status sft__import_job_read(sft__import *job, sft_catalog **out, sft_source *source,
                                sft_error *err);
void sft__import_job_reset(sft__import *job);

/* ---------------------------------------------------------------- the table of readers */

enum { SFT__IMPORT_HEAD = 4096 };

/* The first bytes of the file (padded with zeros to SFT__IMPORT_HEAD), and the whole of it. */
typedef struct sft__import_probe {
    const uint8_t *head;
    size_t head_len;
    uint64_t size;
    const sft_source *source;
    const sft_allocator *allocator;
} sft__import_probe;

typedef struct sft__import_reader {
    uint32_t format; /* sft_import_format */
    /* Is it this format? By bytes alone; magic numbers come first in the table, guesses last. */
    bool (*probe)(const sft__import_probe *p);
    /* Adds everything to job->builder. */
    sft_status (*open)(sft__import *job, sft_error *err);
} sft__import_reader;

extern const sft__import_reader *const sft__import_readers[]; /* ends with NULL */
extern const sft__import_reader sft__import_reader_npy;
extern const sft__import_reader sft__import_reader_npz;
extern const sft__import_reader sft__import_reader_gguf;
extern const sft__import_reader sft__import_reader_torch_zip;
extern const sft__import_reader sft__import_reader_dcp;
extern const sft__import_reader sft__import_reader_distcp;
extern const sft__import_reader sft__import_reader_torch_legacy;
extern const sft__import_reader sft__import_reader_torch_tar;
extern const sft__import_reader sft__import_reader_pickle;
extern const sft__import_reader sft__import_reader_mindspore;
extern const sft__import_reader sft__import_reader_onnx;
extern const sft__import_reader sft__import_reader_flax;
extern const sft__import_reader sft__import_reader_hdf5;
extern const sft__import_reader sft__import_reader_keras;
extern const sft__import_reader sft__import_reader_tf;
extern const sft__import_reader sft__import_reader_tflite;
extern const sft__import_reader sft__import_reader_arrow;
extern const sft__import_reader sft__import_reader_paddle;

/* Reads the first bytes of a source (job.c). */
sft_status sft__import_probe_read(sft__import_probe *p, uint8_t head[SFT__IMPORT_HEAD],
                                  const sft_source *source, const sft_allocator *allocator,
                                  sft_error *err);
/* The reader for a source, or NULL; the refusal for a format that is known but never read. */
const sft__import_reader *sft__import_reader_for(const sft__import_probe *probe);
const char *sft__import_refusal(const sft__import_probe *probe, uint32_t *format);

/* ---------------------------------------------------------------- for readers */

/* In options.flags: the file is opened with the others of its set. No flag of the API. */
#define SFT__IMPORT_IN_SET (UINT32_C(1) << 31)

/* Adds a tensor; its file is 0. Amplification (many or expanded tensors over few bytes) is
 * SFT_E_LIMIT: packed tensors together may be at most 64 times the file, or 1 GiB. */
sft_status sft__import_tensor(sft__import *job, const sft_tensor *tensor, sft_error *err);

/* What a finding is by: its kind and verdict (sft_finding), and the name of the rule. */
typedef struct sft__import_rule {
    uint32_t kind;
    uint32_t verdict;
    const char *name;
} sft__import_rule;
#define SFT__RULE(kind, verdict, name)                                                             \
    (sft__import_rule) {                                                                           \
        SFT_FINDING_##kind, SFT_SCAN_##verdict, name                                               \
    }

/* What it is about, and where that lies in the file: SFT_NO_OFFSET, if it has no place. */
typedef struct sft__import_subject {
    const char *text;
    size_t len;
    uint64_t offset;
} sft__import_subject;

#define SFT__AT(text, len, offset)                                                                 \
    (sft__import_subject) {                                                                        \
        text, len, offset                                                                          \
    }
#define SFT__NAMED(of, offset) SFT__AT((of)->name, (of)->name_len, offset) /* a tensor, a member */

static inline sft__import_subject sft__import_text_at(const char *text, uint64_t offset) {
    return (sft__import_subject){text, text != NULL ? strlen(text) : 0, offset};
}

/* Notes a fact for the report. format: printf. Findings of one kind, subject and rule are counted. */
void sft__import_find(sft__import *job, sft__import_rule rule, sft__import_subject subject,
                      const char *format, ...) SFT_PRINTF(4, 5);

/* Something that cannot become a tensor: SFT_E_UNSUPPORTED, or with ALLOW_OPAQUE (and in a scan) a
 * finding and SFT_OK. */
sft_status sft__import_opaque(sft__import *job, sft__import_subject subject, sft_error *err,
                              const char *format, ...) SFT_PRINTF(4, 5);

/* `count` tensors that are in the file and not in the catalog, and why: what a reader does not take must
 * pass through here or through sft__import_opaque, so that conversions can name it. */
void sft__import_left(sft__import *job, const char *subject, size_t subject_len, uint64_t count,
                      const char *format, ...) SFT_PRINTF(5, 6);

/* Something that only a damaged or a crafted file has, but that the format's own loader may read
 * past: SFT_E_SCHEMA when loading; in a scan a finding of this verdict and SFT_OK. */
sft_status sft__import_trick(sft__import *job, sft__import_rule rule, sft__import_subject subject,
                             sft_error *err, const char *format, ...) SFT_PRINTF(5, 6);

/* In a scan: the bytes [from, to) of a source, which no part of the format names. Zeros are padding;
 * anything else is a finding. */
sft_status sft__import_unnamed(sft__import *job, const sft_source *source, uint64_t from,
                               uint64_t to, sft_error *err);

/* Scratch memory of count * size bytes, aligned to 8, into the pointer that `pointer` points at.
 * SFT_E_LIMIT or SFT_E_NOMEM. */
sft_status sft__import_alloc(sft__import *job, void *pointer, size_t count, size_t size,
                             sft_error *err);
/* A copy in it, with a NUL behind. */
sft_status sft__import_copy(sft__import *job, char **out, const void *data, size_t len,
                            sft_error *err);

/* Room for one more entry of a list that begins each with a name (base/text/strmap.h), in whose map the first
 * `count` are: grown, they are found again. false: no memory. */
bool sft__import_more_named(const sft_allocator *a, sft__base_strmap *map, void *list, size_t *room,
                            size_t count, size_t size);

/* The report: created by whoever runs the job. */
sft_status sft__import_report_create(sft_import_report **out, const sft_allocator *allocator,
                                     sft_error *err);
void sft__import_report_format(sft_import_report *report, uint32_t format);
void sft__import_report_unused(sft_import_report *report, uint64_t bytes);
/* Bytes of tensor data in the file that no tensor of the catalog refers to. */
uint64_t sft__import_report_unused_bytes(const sft_import_report *report);
/* Bytes of the container that tensors were made of, as it counts them; 0: it does not say. */
void sft__import_report_covered(sft_import_report *report, uint64_t bytes);
uint64_t sft__import_report_covered_bytes(const sft_import_report *report);
void sft__import_report_add(sft_import_report *report, const sft_finding *finding,
                            size_t subject_len);
/* The findings and counts of `from`, whose format counts from then on, beside those that are there. */
void sft__import_report_merge(sft_import_report *into, const sft_import_report *from);
/* Tensors and objects that are in the file and not in the catalog. */
uint64_t sft__import_report_left_out(const sft_import_report *report);

/* ---------------------------------------------------------------- more element types */

/* Rows beyond the 22 of safetensors: readable, not writable as such. Static. */
enum {
    SFT__C128 = 1001, /* two doubles */
    SFT__C32 = 1002   /* two halves */
};
const sft_dtype *sft__import_dtype(uint32_t id); /* these and the 22 */

/* ---------------------------------------------------------------- sources over sources */

/* `inner` must outlive the source: give both to the same builder. */

/* From `offset` on, so many bytes, or blocks. */
typedef struct sft__import_extent {
    uint64_t offset;
    uint64_t count;
} sft__import_extent;

/* These bytes of inner as a source of their own. */
sft_status sft__import_source_part(sft_source **out, const sft_source *inner,
                                   sft__import_extent bytes, const char *name,
                                   const sft_allocator *allocator, sft_error *err);

/* `size` bytes of the source's own, at *bytes for the caller to fill in; it needs no other one. */
sft_status sft__import_source_own(sft_source **out, uint8_t **bytes, size_t size, const char *name,
                                  const sft_allocator *allocator, sft_error *err);

/* Blocks of in_bytes each; each becomes out_bytes through fn (n blocks at
 * once; in and out do not overlap). in_bytes, out_bytes: 1 to 4,096. For other byte orders,
 * conjugates, dequantising. */
typedef void (*sft__import_block_fn)(void *dst, const void *src, size_t blocks, uint32_t argument);
typedef struct sft__import_block_map {
    sft__import_block_fn fn;
    uint32_t argument;
    uint32_t in_bytes;
    uint32_t out_bytes;
} sft__import_block_map;
sft_status sft__import_source_map(sft_source **out, const sft_source *inner,
                                  sft__import_extent blocks, const sft__import_block_map *map,
                                  const sft_allocator *allocator, sft_error *err);
/* A map's fn: reverses the bytes of each block of `argument` (= in_bytes = out_bytes) bytes. */
void sft__import_block_swap(void *dst, const void *src, size_t blocks, uint32_t argument);

/* A raw deflate stream of csize bytes at offset, usize bytes long. A SEQUENTIAL source. Refused
 * before anything is inflated: more than 1,032:1, or more than what is left of the job's budget.
 * When its last byte is read the CRC-32 is compared (unless SFT_IMPORT_NO_CRC) and the stream must
 * end there. */
typedef struct sft__import_deflated {
    uint64_t offset;
    uint64_t csize;
    uint64_t usize;
    uint32_t crc32;
    uint32_t reserved;
    const char *name; /* for messages; copied */
} sft__import_deflated;
sft_status sft__import_source_inflate(sft_source **out, sft__import *job,
                                      const sft__import_deflated *d, sft_error *err);
void sft__import_inflater_drop(
    struct sft__import_inflater *inflater); /* the job's reference; NULL is fine */

uint32_t sft__import_crc32(uint32_t crc, const void *data, size_t size);
/* CRC-32 of a stretch of a source, read in blocks. */
sft_status sft__import_source_crc32(const sft_source *source, uint64_t offset, uint64_t size,
                                    uint32_t *crc, const sft_allocator *allocator, sft_error *err);

#endif
