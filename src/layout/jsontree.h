/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/jsontree.h - a small JSON text as a tree in an arena: for the descriptions that come with
 * checkpoints (strategies, topologies, plans), not for headers. Strict as base/text/json.h; no recursion.
 */
#ifndef SFT_LAYOUT_JSONTREE_H
#define SFT_LAYOUT_JSONTREE_H

#include "base/memory/alloc.h"

typedef enum sft__layout_jtype {
    SFT__J_NULL,
    SFT__J_BOOL,
    SFT__J_NUMBER,
    SFT__J_STRING,
    SFT__J_ARRAY,
    SFT__J_OBJECT
} sft__layout_jtype;

typedef struct sft__layout_jnode sft__layout_jnode;
struct sft__layout_jnode {
    sft__layout_jtype type;
    bool negative;   /* NUMBER: value is what to take from 0 */
    bool is_int;     /* NUMBER: a plain integer, value counts */
    const char *key; /* in an object, else NULL; NUL-terminated */
    size_t key_len;
    const char *text;         /* STRING; NUL-terminated */
    size_t len;               /* STRING: bytes; ARRAY, OBJECT: members */
    uint64_t value;           /* NUMBER; BOOL: 0 or 1 */
    uint64_t offset;          /* in the text */
    sft__layout_jnode *first; /* ARRAY, OBJECT: members, in order */
    sft__layout_jnode *next;
};

/* what: "strategy", "topology" ...: begins the messages. Errors: SFT_E_UTF8, SFT_E_JSON, SFT_E_DUPLICATE (a
 * key twice in one object of at most 64 members; larger ones are for the caller's own table), SFT_E_LIMIT
 * (the arena's budget), SFT_E_NOMEM. */
sft_status sft__layout_jtree_parse(sft__layout_jnode **out, sft__base_arena *arena,
                                   const char *text, size_t size, const char *what, sft_error *err);
/* A config.json, as Python's json writes it: NaN, Infinity and -Infinity are numbers that are no integers. */
sft_status sft__layout_jtree_config(sft__layout_jnode **out, sft__base_arena *arena,
                                    const char *text, size_t size, sft_error *err);
/* Member of an object, or NULL (also for what is no object). */
const sft__layout_jnode *sft__layout_jtree_get(const sft__layout_jnode *node, const char *key);
/* A plain integer within int64_t? */
bool sft__layout_jtree_int(const sft__layout_jnode *node, int64_t *value);

#endif
