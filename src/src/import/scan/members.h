/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/members.h - what lies in a container, member by member, as a loader with little care
 * finds it: zip by its directory, wherever in the last 64 KiB its end record stands (Python's
 * zipfile adds what stands before the archive, PyTorch does not), tar by its headers, also behind
 * its end, zips one behind the other. One part may be several of these at once. What is wrong with
 * a container is said by its reader, not here. Read first: scan.h.
 */
#ifndef SFT_IMPORT_MEMBERS_H
#define SFT_IMPORT_MEMBERS_H

#include "import/scan/scan.h"

enum {
    SFT__MEMBER_NAME = 256,
    SFT__MEMBERS_MOST = 6,         /* containers that one part is */
    SFT__MEMBERS_TAIL = 65536 + 22 /* bytes in which an end record is looked for */
};

typedef struct sft__import_member {
    char name[SFT__MEMBER_NAME]; /* NUL-terminated; long ones are cut */
    uint64_t offset;             /* of its bytes in the source */
    uint64_t size;               /* of its bytes there */
    uint64_t plain;              /* of what they unpack to */
    uint32_t method;             /* zip: 0 stored, 8 deflated, others */
    bool encrypted;
    bool directory;
    bool link;
    bool device;  /* tar: or a pipe */
    bool cut;     /* tar: it should be longer than the file */
    bool again;   /* tar: one of this name, in any case, was there before */
    bool renamed; /* zip: by an extra field, which some programs follow */
    bool respelt; /* ... because its letters are none of the header's */
    bool about;   /* tar: says something of the next member */
    bool behind;  /* what lies behind the end of a tar, and is none */
} sft__import_member;

typedef enum sft__import_members_kind {
    SFT__MEMBERS_NONE = 0,
    SFT__MEMBERS_ZIP,
    SFT__MEMBERS_TAR,
    SFT__MEMBERS_CHAIN, /* of zips: members are whole archives, the last first */
    SFT__MEMBERS_INSIDE /* a zip within the part, from offset to end: without members here */
} sft__import_members_kind;

typedef struct sft__import_members {
    sft__import_members_kind kind;
    const sft_source *source;
    uint64_t offset; /* of the container in the source */
    uint64_t end;
    uint64_t at;    /* of the next header, or of the end of the next archive */
    uint64_t stop;  /* zip: the end of the directory */
    uint64_t shift; /* zip: what offsets in the directory are counted from */
    uint64_t left;  /* tar: bytes that may still be gone through behind its end */
    uint64_t given; /* bytes of all members so far: more than there are is an overlap */
    uint64_t *seen; /* tar: hashes of the names, a set */
    size_t seen_room;
    size_t seen_count;
    char next[SFT__MEMBER_NAME]; /* tar: the name of the next member */
    uint64_t next_hash;
    bool has_next;
    bool told;  /* tar: what lies behind it was given out */
    bool whole; /* it ended in order */
} sft__import_members;

/* All containers that the part is, at most SFT__MEMBERS_MOST. zipped: its reader takes it for a zip
 * archive, whatever stands before it. */
sft_status sft__import_members_list(sft__import_members *list, size_t *count,
                                    const sft__import_scan_part *part, bool zipped, sft_error *err);
/* *more: false at the end (m->whole: in order). */
sft_status sft__import_members_next(sft__import_members *m, sft__import_member *member, bool *more,
                                    sft_error *err);

void sft__import_members_reset(sft__import_members *m);

/* tar.c: the sum of a header's bytes is the one that it says; the next member. */
bool sft__import_tar_is_header(const uint8_t *h);
sft_status sft__import_tar_next(sft__import_members *m, sft__import_member *member, bool *more,
                                sft_error *err);

#endif
