/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/scan.h - what a scan does beside reading: every part of a file (the file itself, each
 * member of an archive, what is compressed in it) is walked as a pickle and looked at by rules
 * about its content, and is harmless only for a positive reason. Nothing is executed, imported or
 * resolved. The parts are a work list (driver.c), never recursion; one budget of work and memory is
 * for all of them. Read first: core/import.h.
 */
#ifndef SFT_IMPORT_SCAN_H
#define SFT_IMPORT_SCAN_H

#include "import/core/import.h"

/* The bytes of a part are read raw by the loader of their format (the storage of a tensor, an
 * image): only a name that a Python could import counts there, for random bytes spell odd ones. */
#define SFT__SCAN_RAW 1u
/* A literal of a pickle, or text decoded out of metadata: findings say so. */
#define SFT__SCAN_NESTED 2u
/* Begins at a line of a text: whoever read the lines before may unpickle from here, but most lines
 * are words. Names count if something is called, or the pickle ends where its line does. */
#define SFT__SCAN_LINE 4u

/* A string that a program may decode, or what came out of one: what is found in it counts, not that
 * nothing is known of it. */
#define SFT__SCAN_STRING 8u
/* It was decoded out of base64 or hex. */
#define SFT__SCAN_CODED 16u

/* One stretch of bytes that some loader may take for a file of its own. */
typedef struct sft__import_scan_part {
    const sft_source *source;
    uint64_t offset; /* of its first byte in the source */
    uint64_t size;
    const char *where; /* members that lead to it, "a.zip!b/data.pkl"; "" for the file itself;
                          NUL-terminated, lives as long as the part */
    uint64_t base; /* the absolute place of byte 0 of the source in the file, or SFT_NO_OFFSET where
                      it was unpacked */
    uint32_t depth;     /* containers and literals that it lies in */
    uint32_t flags;     /* SFT__SCAN_* */
    uint32_t format;    /* sft_import_format, when its reader has seen it; 0 before */
    uint32_t container; /* the format of the archive that it is a member of; 0: none */
} sft__import_scan_part;

/* All of a file; the source is taken over. driver.c */
sft_status sft__import_scan_file(sft_import_report **out, sft_source *source, const char *path,
                                 const sft_import_options *options, sft_error *err);
/* Is it an error of the world outside, not of the bytes? */
bool sft__import_scan_is_outside(sft_status status);

/* Walks a part as CPython's unpicklers would execute it: every opcode from its first byte up to the
 * first that fails, and again behind each STOP. Every name that it looks up becomes a finding,
 * judged by pickle/globals.h; literals that are pickles themselves are walked, too. A walk that
 * meets no name finds nothing. Errors: the world outside alone (SFT_E_IO, SFT_E_NOMEM). */
sft_status sft__import_scan_walk(sft__import *job, const sft__import_scan_part *part,
                                 sft_error *err);

/* The same from every line of a text that a pickle could begin at, for programs that read lines
 * before they unpickle. A part of more than 64 MiB is not looked at. */
sft_status sft__import_scan_walk_lines(sft__import *job, const sft__import_scan_part *part,
                                       sft_error *err);
/* A string of a pickle, of JSON, of metadata: what a program could decode it to is looked into later
 * (strings.c). walked: whether it is a pickle itself is known. */
void sft__import_scan_string(sft__import *job, const sft__import_scan_part *part, const void *bytes,
                             size_t len, bool walked);
/* The same of a long one that lies in a source which lives as long as the part's: `part` is that
 * stretch, head its first bytes. */
void sft__import_scan_stretch(sft__import *job, const sft__import_scan_part *part,
                              const uint8_t *head, size_t head_len);

/* Says what the file is, if no reader has said it. */
void sft__import_scan_names(sft__import *job, uint32_t format);

/* Rules about what else a loader would act on: configurations, graphs, templates, code. *positive
 * is set where the bytes are of a kind that no loader executes, proven by a test of all that
 * matters (it is not cleared otherwise). Findings are added with the place and part->where. Errors:
 * as above. */
sft_status sft__import_scan_content(sft__import *job, const sft__import_scan_part *part,
                                    bool *positive, sft_error *err);
/* Is it a text or an image by its name and its first bytes? Walks then count only names that a
 * Python could import, for prose spells odd ones. */
bool sft__import_scan_is_plain(const sft__import *job, const sft__import_scan_part *part,
                               const uint8_t *head, size_t len);
/* Does it begin as an image? */
bool sft__import_scan_is_image(const uint8_t *head, size_t len);
/* Do the first bytes look like a text? */
bool sft__import_scan_is_text(const uint8_t *head, size_t len, uint64_t size);
/* The same for the metadata of a catalog that was read: chat templates, JSON, pickles in base64. */
sft_status sft__import_scan_metadata(sft__import *job, const sft__import_scan_part *part,
                                     const sft_catalog *catalog, sft_error *err);

#endif
