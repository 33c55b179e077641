/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/members.h - what lies in a container, member by member, as a loader with little care
 * finds it: zip by its directory (Python's zipfile adds what stands before the archive), tar by its
 * headers, zips one behind the other. What is wrong with a container is said by its reader, not
 * here. Read first: scan.h.
 */
#ifndef SFT_IMPORT_MEMBERS_H
#define SFT_IMPORT_MEMBERS_H

#include "import/scan/scan.h"

enum { SFT__MEMBER_NAME = 256 };

typedef struct sft__member {
    char name[SFT__MEMBER_NAME]; /* NUL-terminated; long ones are cut */
    uint64_t offset;             /* of its bytes in the source */
    uint64_t size;               /* of its bytes there */
    uint64_t plain;              /* of what they unpack to */
    uint32_t method;             /* zip: 0 stored, 8 deflated, others */
    bool encrypted;
    bool directory;
    bool link;
} sft__member;

typedef enum sft__members_kind {
    SFT__MEMBERS_NONE = 0,
    SFT__MEMBERS_ZIP,
    SFT__MEMBERS_TAR,
    SFT__MEMBERS_CHAIN /* of zips: members are whole archives, the last first */
} sft__members_kind;

typedef struct sft__members {
    sft__members_kind kind;
    const sft_source *source;
    uint64_t offset; /* of the container in the source */
    uint64_t end;
    uint64_t at;    /* of the next header, or of the end of the next archive */
    uint64_t stop;  /* zip: the end of the directory */
    uint64_t shift; /* zip: what offsets in the directory are counted from */
    bool whole;     /* it ended in order */
} sft__members;

/* A zip archive that ends where the part ends, or begins where it begins; several of them; a tar.
 * kind NONE: nothing of the sort. */
sft_status sft__members_open(sft__members *m, const sft__scan_part *part, sft_error *err);
/* *more: false at the end (m->whole: in order). */
sft_status sft__members_next(sft__members *m, sft__member *member, bool *more, sft_error *err);

#endif
