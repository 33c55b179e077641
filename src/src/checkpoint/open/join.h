/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/join.h - a join while it runs. join.c: names, holders, the order of it all;
 * open/join_parts.c: the pieces of one cut tensor, and what nobody has. Read checkpoint/open/assembly.h
 * first.
 */
#ifndef SFT_CHECKPOINT_JOIN_H
#define SFT_CHECKPOINT_JOIN_H

#include "base/text/strmap.h"
#include "checkpoint/open/assembly.h"

#define SFT__BORROWED SIZE_MAX /* a holder: of another group, its pieces are there already */

/* A name, and who has it first. Name and length come first: base/text/strmap.h reads them there. */
typedef struct sft__checkpoint_joined_name {
    const char *name;
    size_t len;
    size_t first; /* of the parts */
} sft__checkpoint_joined_name;

/* Ranks that cut the tensor at hand by one layout. Several pipeline stages may each have all of it.
 */
typedef struct sft__checkpoint_join_group {
    const sft_layout *layout;
    size_t base; /* of its parts in `holder` */
} sft__checkpoint_join_group;

typedef struct sft__checkpoint_joining {
    const sft__checkpoint_join *what;
    sft__checkpoint_assembly assembly;
    const sft_allocator *allocator;
    const sft_rank_part *parts;
    size_t count;
    sft_layout_find find;
    void *ctx;
    sft_error *err;
    const sft_catalog **catalogs;
    uint64_t *load; /* bytes taken from each part so far */
    sft__checkpoint_joined_name *names;
    size_t name_count;
    size_t name_room;
    sft__base_strmap map;
    size_t *holder; /* of each part of the tensor at hand, group after group: position in `parts` +
                       1; 0: none */
    size_t holder_room;
    const sft_tensor **found; /* the tensor at hand, by part; NULL: the part has none */
    size_t *guess;            /* where a part's next tensor probably is: ranks keep one order */
    sft__checkpoint_join_group *groups;
    size_t group_count;
    size_t group_room;
    bool cut; /* a tensor is larger than a part's */
} sft__checkpoint_joining;

/* The tensor at hand. */
typedef struct sft__checkpoint_join_subject {
    const sft_tensor *like;          /* as its first rank has it */
    const sft_layout *layout;        /* of the group at hand */
    size_t base;                     /* where the group's holders begin */
    uint64_t shape[SFT_LAYOUT_RANK]; /* of the full tensor */
    size_t dims;
} sft__checkpoint_join_subject;

/* The group at hand is number `which`. */
void sft__checkpoint_join_select(const sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                                 size_t which);
/* Explicit boxes must fill the tensor. */
sft_status sft__checkpoint_join_boxes(const sft__checkpoint_joining *j,
                                      const sft__checkpoint_join_subject *s);
/* The pieces of the part that number `which` of the parts holds. */
sft_status sft__checkpoint_join_part(sft__checkpoint_joining *j,
                                     const sft__checkpoint_join_subject *s, size_t which);
/* The parts of the group at hand that have boxes and no holder: the first is counted, or all are
 * borrowed. */
sft_status sft__checkpoint_join_missing(sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                                        size_t own, bool borrow, uint64_t *count);

#endif
