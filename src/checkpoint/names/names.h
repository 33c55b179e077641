/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names.h - rules for names as they are kept: patterns of literals and placeholders, and
 * what is moved. Read <sft/names.h> first.
 */
#ifndef SFT_CHECKPOINT_NAMES_H
#define SFT_CHECKPOINT_NAMES_H

#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include <sft/names.h>

#define SFT__NAME_SLOTS   8u
#define SFT__NAME_PARTS   32u
#define SFT__NAME_MEMBERS 16u /* tensors that are fused into one */
#define SFT__NAME_NONE    UINT32_MAX

/* Literal text, or what a placeholder stands for: "{i}" a decimal number, "{i+2}" the same with 2 added,
 * "{i+first}" with a value added, "{p*}" any text that is not empty. */
typedef struct sft__checkpoint_name_part {
    const char *text; /* literal; or name of the value to add, NULL: none */
    size_t len;
    uint32_t slot; /* NONE: literal */
    bool any;
    bool minus;
    uint64_t add;
} sft__checkpoint_name_part;

typedef struct sft__checkpoint_name_pattern {
    sft__checkpoint_name_part *parts;
    uint32_t count;
    uint32_t slots; /* bit set */
} sft__checkpoint_name_pattern;

/* What the placeholders stand for. text points into the name that was matched. */
typedef struct sft__checkpoint_name_bound {
    const char *text[SFT__NAME_SLOTS];
    size_t len[SFT__NAME_SLOTS];
    uint64_t number[SFT__NAME_SLOTS];
    uint32_t set; /* bit set */
} sft__checkpoint_name_bound;

struct sft__layout_jnode;
typedef struct sft__checkpoint_name_values {
    const sft_names_value *values;
    size_t count;
    const struct sft__layout_jnode *config; /* NULL: none */
} sft__checkpoint_name_values;

typedef enum sft__checkpoint_name_kind {
    SFT__NAME_MOVE, /* rename; fuse with more than one member */
    SFT__NAME_STACK,
    SFT__NAME_DROP
} sft__checkpoint_name_kind;

/* "num_key_value_heads|num_attention_heads", or a number. */
typedef struct sft__checkpoint_name_number {
    const char *text; /* NULL: value */
    uint64_t value;
} sft__checkpoint_name_number;

typedef struct sft__checkpoint_name_rule {
    sft__checkpoint_name_kind kind;
    uint32_t from_count;
    sft__checkpoint_name_pattern *from; /* from_count of them */
    sft__checkpoint_name_pattern to;
    uint32_t stack_slot; /* STACK */
    uint32_t dim;        /* fused along */
    uint32_t part_count; /* 0: equal parts; else from_count proportions */
    uint32_t has_groups;
    sft__checkpoint_name_number *parts;
    sft__checkpoint_name_number groups; /* each member is cut into so many, which take turns */
    uint64_t offset;                    /* in the text of the rules */
} sft__checkpoint_name_rule;

typedef enum sft__checkpoint_name_rest {
    SFT__REST_KEEP,
    SFT__REST_DROP,
    SFT__REST_ERROR
} sft__checkpoint_name_rest;

struct sft_names {
    const sft_allocator *allocator;
    sft__base_arena arena;
    sft__checkpoint_name_rule *rules;
    size_t rule_count;
    sft__checkpoint_name_rest rest;
    bool rest_given;        /* "otherwise" is in the text */
    const char *formats[2]; /* metadata "format" on the left and on the right; NULL: as it is */
};

/* One pattern. slot_names: of the rule, grown. */
typedef struct sft__checkpoint_name_slots {
    const char *name[SFT__NAME_SLOTS];
    size_t len[SFT__NAME_SLOTS];
    bool any[SFT__NAME_SLOTS];
    uint32_t count;
} sft__checkpoint_name_slots;

sft_status sft__checkpoint_name_pattern_parse(sft__checkpoint_name_pattern *out,
                                              sft__base_arena *arena,
                                              sft__checkpoint_name_slots *slots,
                                              const struct sft__layout_jnode *node, sft_error *err);
/* Does the tensor's name match? SFT_E_NOT_FOUND for a value that is needed and not there; *yes otherwise. */
sft_status sft__checkpoint_name_match(const sft__checkpoint_name_pattern *pattern,
                                      const sft__checkpoint_name_values *values,
                                      const sft_tensor *tensor, sft__checkpoint_name_bound *bound,
                                      bool *yes, sft_error *err);
/* Appends the name to `out`, which is emptied first, and a NUL behind it. */
sft_status sft__checkpoint_name_expand(const sft__checkpoint_name_pattern *pattern,
                                       const sft__checkpoint_name_values *values,
                                       const sft__checkpoint_name_bound *bound, sft__base_buf *out,
                                       sft_error *err);
sft_status sft__checkpoint_name_number_value(const sft__checkpoint_name_number *number,
                                             const sft__checkpoint_name_values *values,
                                             uint64_t *value, sft_error *err);

/* Appends the pattern as it is read ("a.{i}.{p*}"), whatever its placeholders are called. */
void sft__checkpoint_name_text(const sft__checkpoint_name_pattern *pattern, sft__base_buf *out);

/* ---------------------------------------------------------------- names_metadata.c */

typedef struct sft__checkpoint_names_metadata {
    const char *format; /* "format" becomes this; NULL: as it is */
    bool changed;       /* other tensors than those of the catalog */
    bool renamed;
} sft__checkpoint_names_metadata;
struct sft__checkpoint_assembly;
/* The first file's goes to the first file of the result, without what is no longer so. */
sft_status sft__checkpoint_names_metadata_take(struct sft__checkpoint_assembly *a,
                                               const sft_catalog *in,
                                               const sft__checkpoint_names_metadata *what,
                                               sft_error *err);

/* ---------------------------------------------------------------- choose_cast.c */

/* A tensor of another catalog as another type, at [begin, begin + nbytes) of one source. */
typedef struct sft__checkpoint_cast {
    const sft_tensor *tensor;
    const sft_dtype *to;
    uint64_t elements;
    uint64_t begin;
    uint64_t nbytes;
} sft__checkpoint_cast;
/* In the order of `begin`, without gaps. */
typedef struct sft__checkpoint_casts {
    sft__checkpoint_cast *list;
    size_t count;
    size_t room; /* that the list was made with */
} sft__checkpoint_casts;
/* Casts what is read of it, of one cast at least. The list is the source's if this succeeds. Of the options
 * allocator and `casted` are used. */
sft_status sft__checkpoint_cast_source(sft_source **out, const sft_catalog *in,
                                       const sft__checkpoint_casts *casts,
                                       const sft_choose_options *options, sft_error *err);

/* ---------------------------------------------------------------- names_tell.c: what may be a mistake */

enum { SFT__NAME_ROOM = 120 };

/* Tensors of one kind: how many, and the first one's name, escaped. */
typedef struct sft__checkpoint_name_note {
    uint64_t count;
    char name[SFT__NAME_ROOM];
} sft__checkpoint_name_note;
void sft__checkpoint_name_note_take(sft__checkpoint_name_note *note, const sft_tensor *t);

/* Of the first stack of a rule, and of the first one that is of another number. */
typedef struct sft__checkpoint_name_height {
    uint64_t first;
    uint64_t other;
    uint64_t others; /* stacks that are not as the first */
    char name[SFT__NAME_ROOM];
    char other_name[SFT__NAME_ROOM];
} sft__checkpoint_name_height;

typedef struct sft__checkpoint_name_notes {
    sft__checkpoint_name_height *heights; /* of stacks, by rule; NULL: nobody is told */
    sft__checkpoint_name_note dropped;
    struct sft__checkpoint_name_kept *kept;
    size_t kept_count;
    size_t kept_room;
} sft__checkpoint_name_notes;
/* A tensor that no rule matches. */
typedef struct sft__checkpoint_name_kept {
    const sft_tensor *tensor;
    bool one_way; /* the way back would change it; else the rules do not say that it is kept */
} sft__checkpoint_name_kept;
void sft__checkpoint_name_tell(const sft__checkpoint_name_notes *notes, const sft_names *names,
                               const sft_names_options *options);

/* Rules that come with the library, by name: the i-th, or NULL past the end; *title may be NULL.
 * Static. */
const char *sft__checkpoint_names_shipped(size_t index, const char **title);

#endif
