/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/work.h - inside a scan: the work list and what its parts share. driver.c looks at one
 * part, apart.c takes containers apart, strings.c says what may be in strings and texts. Read
 * first: scan.h.
 */
#ifndef SFT_IMPORT_WORK_H
#define SFT_IMPORT_WORK_H

#include "import/archive/unpack.h"
#include "import/scan/members.h"

enum {
    SFT__SCAN_DEPTH = 16, /* of containers in one another */
    SFT__SCAN_WHERE = 400,
    SFT__SCAN_KEEP = 24 << 20, /* bytes of what was unpacked that stay in memory */
    SFT__SCAN_PLACES = 64,
    SFT__SCAN_KNOWN = 4096, /* a power of two */
    SFT__CODED_LEAST = 16,  /* letters of base64 that name something */
    SFT__CODED_RUN = 20     /* one behind the other */
};

/* Beside SFT__SCAN_*: the reader of the container has read this member. */
#define SFT__SCAN_READ 0x100u
/* The reader of the container has seen it, whatever came of it. */
#define SFT__SCAN_SEEN 0x200u

typedef enum sft__import_task_kind {
    SFT__TASK_PART,
    SFT__TASK_PACKED,
    SFT__TASK_MEMBERS,
    SFT__TASK_CLOSE
} sft__import_task_kind;

/* Something to be done. Tasks are done last first: what a container holds before what follows it.
 */
typedef struct sft__import_task {
    sft__import_task_kind kind;
    sft__import_scan_part part; /* PACKED: the compressed bytes; MEMBERS, CLOSE: the container */
    sft__import_pack pack;
    uint64_t plain; /* PACKED: what is said to come out, UINT64_MAX: not said */
    sft__import_members *members;
    uint32_t format;    /* MEMBERS: of the container */
    bool read;          /* MEMBERS: its reader found it in order */
    sft_source *source; /* CLOSE */
    uint8_t *bytes;     /* CLOSE: freed behind it */
    size_t size;        /* of bytes */
    char *where;        /* freed */
} sft__import_task;

/* Where a part began that was found within another one. */
typedef struct sft__import_place {
    const sft_source *source;
    uint64_t offset;
} sft__import_place;

typedef enum sft__import_letters {
    SFT__BASE64 = 0,
    SFT__BASE64_STANDARD, /* without the alphabet of URLs */
    SFT__HEX,
    SFT__LETTERS
} sft__import_letters;

typedef struct sft__import_scan {
    sft__import *job;
    sft__import_task *tasks;
    size_t count;
    size_t room;
    uint64_t unpack_left; /* in bytes that come out of gzip; others cost more */
    uint64_t keep_left;
    sft__import_place places[SFT__SCAN_PLACES];
    size_t place_count;
    uint64_t runs_left;    /* bytes in which texts are looked for */
    uint64_t marks_left;   /* the same for pickles */
    uint64_t heads_left;   /* tensors whose beginnings are looked at */
    uint64_t look_left;    /* bytes in which archives are looked for */
    uint64_t members_left; /* of containers; those that share bytes with others cost more */
    uint8_t letters[SFT__LETTERS][256];
    bool tired;                      /* no more strings are looked into: that was said */
    uint64_t string_bytes;           /* copies of strings that wait */
    uint32_t strings;                /* that were looked into */
    uint64_t closed;                 /* sources: their addresses may come again */
    uint64_t known[SFT__SCAN_KNOWN]; /* hashes of the last ones */
} sft__import_scan;

/* What is known of the part at hand. */
typedef struct sft__import_looked {
    uint8_t head[SFT__IMPORT_HEAD];
    size_t head_len;
    uint32_t format;  /* by the bytes */
    bool read;        /* its reader found it in order */
    bool chain;       /* of archives */
    bool refused;     /* no reader's, or one that says that it is something else */
    bool long_pickle; /* of more opcodes than its reader follows in a scan */
    char sentence[400];
    uint64_t place;
} sft__import_looked;

void sft__import_scan_note(sft__import *job, const sft__import_scan_part *part, uint32_t verdict,
                           const char *rule, const char *message);
sft_status sft__import_scan_push(sft__import_scan *s, const sft__import_task *t, sft_error *err);
void sft__import_task_reset(sft__import_scan *s, sft__import_task *t);
/* "container!member"; NULL: no memory. */
char *sft__import_scan_join(sft__import_scan *s, const char *outer, const char *name);

bool sft__import_scan_ends(const char *text, const char *end);

/* apart.c: the next member of a container, as a task above the container's own. */
sft_status sft__import_scan_next_member(sft__import_scan *s, sft__import_task *t, sft_error *err);
/* Tasks for all that a program could find in these bytes by looking at another place than their
 * first byte: members, archives within, HDF5 behind a user block. *is: it is a container of
 * members. */
sft_status sft__import_scan_apart(sft__import_scan *s, const sft__import_scan_part *part,
                                  const sft__import_looked *l, bool *is, sft_error *err);
/* Unpacks, and puts what comes out before everything else. *is: false if it is not compressed at
 * all. */
sft_status sft__import_scan_unpack(sft__import_scan *s, const sft__import_task *t, bool *is,
                                   sft_error *err);

/* Work, out of the budget of the walk, in opcodes. strings.c */
void sft__import_scan_pay(const sft__import_scan *s, uint64_t work);
/* Is there none left, or are no more strings looked into? It is said. */
bool sft__import_scan_spent(sft__import_scan *s, const sft__import_scan_part *part);
/* strings.c: a text that may be base64 or hex is decoded; what comes out becomes a part if it is
 * anything. whole: it begins here, else only where its first letters tell. */
void sft__import_scan_text(sft__import_scan *s, const sft__import_scan_part *part,
                           const uint8_t *text, size_t len, bool whole);
void sft__import_scan_letters(sft__import_scan *s); /* before anything else */
/* A string that is a part: what it decodes to. */
sft_status sft__import_scan_string_part(sft__import_scan *s, const sft__import_scan_part *part,
                                        const sft__import_looked *l, sft_error *err);
/* Do programs take it for a file: zip, HDF5, numpy, tar? */
bool sft__import_scan_is_file(const uint8_t *head, size_t len);
/* Does it begin as gzip, zlib, bzip2 or xz, and does something come out? */
bool sft__import_scan_is_packed(const sft__import_scan *s, const uint8_t *bytes, size_t len);
/* Would opcodes from the first byte on look up a name? It is paid for. With the mark of a pickle it
 * is enough that they go on behind these of `all` bytes. */
bool sft__import_scan_skims(sft__import_scan *s, const sft__import_scan_part *part,
                            const uint8_t *bytes, size_t len, uint64_t all);
/* A pickle within a part of another format. */
void sft__import_scan_marked(sft__import_scan *s, const sft__import_scan_part *part,
                             sft__import_scan_part inner);
/* lookups.c: pickles without a mark, in bytes that lie at `at` in the part. */
void sft__import_scan_lookups(sft__import_scan *s, const sft__import_scan_part *part, uint64_t at,
                              const uint8_t *bytes, size_t len);
/* runs.c: texts in base64 that stand anywhere in the bytes of a part; marks: pickles, too. */
sft_status sft__import_scan_runs(sft__import_scan *s, const sft__import_scan_part *part, bool marks,
                                 sft_error *err);
/* Words of a text that begin as base64 of something does. Runs of letters: only if asked. */
void sft__import_scan_words(sft__import_scan *s, const sft__import_scan_part *part,
                            const uint8_t *text, size_t len, bool runs_too);

/* runs.c: beginnings of tensors of bytes, in files larger than what is looked through for pickles. */
sft_status sft__import_scan_heads(sft__import_scan *s, const sft__import_scan_part *part,
                                  const sft_catalog *catalog, sft_error *err);
/* decoded.c: tensors of HDF5 that are compressed, or lie in pieces: the catalog is taken over. */
sft_status sft__import_scan_decoded(sft__import_scan *s, const sft__import_scan_part *part,
                                    sft_catalog *catalog, sft_error *err);

#endif
