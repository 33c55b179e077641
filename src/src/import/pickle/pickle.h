/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/pickle.h - a symbolic pickle machine, protocols 0 to 5. It makes nodes: plain data, and
 * inert records of what a real unpickler would call. No name is ever resolved. Memory comes from
 * the job's arena and so from one budget; strings are copied, byte strings stay in the file and are
 * known by their place. No recursion. Source of the opcodes: CPython Lib/pickle.py and
 * pickletools.py (documentation of each opcode).
 */
#ifndef SFT_IMPORT_PICKLE_H
#define SFT_IMPORT_PICKLE_H

#include "import/core/import.h"
#include "import/pickle/globals.h"

typedef enum sft__import_pk_type {
    SFT__PK_NONE = 0,
    SFT__PK_BOOL,  /* integer */
    SFT__PK_INT,   /* integer */
    SFT__PK_BIG,   /* text: two's complement, little-endian, count bytes (more than 8) */
    SFT__PK_FLOAT, /* real; from text (protocol 0): known = 1 and text */
    SFT__PK_STR, /* text, count bytes of UTF-8, perhaps with lone surrogates; known: it is a string of
                      Python 2, sft__import_pk_string */
    SFT__PK_BYTES,  /* at: absolute place in the source; size: sft__import_pk_bytes */
    SFT__PK_LIST,   /* items; here and in the next three callable and args: of the call that made it
                      (OrderedDict, torch.Size), or 0 */
    SFT__PK_TUPLE,  /* items */
    SFT__PK_DICT,   /* items: key, value, key, value ...; state: attributes, ignored */
    SFT__PK_SET,    /* items; known: 1 if frozen */
    SFT__PK_GLOBAL, /* text "module.name", count bytes; argument; known */
    SFT__PK_CALL,   /* callable; args; state; items: what was appended or set */
    SFT__PK_PID     /* persistent_id */
} sft__import_pk_type;

/* Strings of Python 2 are bytes, and texts as far as anybody reads them as such. RAW: the text is the
 * bytes as they are in the file, at sft__import_pk_place. LATIN1: each character of it is a byte. */
typedef enum sft__import_pk_string { SFT__PK_RAW = 1, SFT__PK_LATIN1 } sft__import_pk_string;

typedef struct sft__import_pk_items {
    struct sft__import_pk_items *next;
    uint32_t count;
    uint32_t room;
    uint32_t ids[];
} sft__import_pk_items;

typedef struct sft__import_pk_list {
    sft__import_pk_items *first;
    sft__import_pk_items *last;
} sft__import_pk_list;

#define SFT__PK_NO 0u /* node 0 is None: "no state" and "state None" are the same to us */

typedef struct sft__import_pk_node {
    uint8_t type;   /* sft__import_pk_type */
    uint8_t walked; /* how far a walk of the tree is with it: torch_walk.h */
    uint16_t known; /* GLOBAL, CALL: sft__import_known of the global */
    uint32_t count;
    union {
        int64_t integer;
        double real;
        const char *text;
        uint64_t at;
        sft__import_pk_list *list; /* NULL while empty */
    } u;
    union {
        uint32_t callable;      /* CALL, LIST, TUPLE, DICT, SET: what is called */
        uint32_t persistent_id; /* PID */
        uint32_t number_high;   /* BYTES, STR: sft__import_pk_set_number */
    };
    union {
        uint32_t args;     /* CALL, LIST, TUPLE, DICT, SET: of the call */
        uint32_t argument; /* GLOBAL: sft__import_global.argument */
        uint32_t number_low;
    };
    uint32_t state;
    bool holds_tensor; /* is one, or something in it is: found by a walk */
} sft__import_pk_node;

/* Files of millions of objects make millions of them. */
_Static_assert(sizeof(sft__import_pk_node) == 32, "a node has grown");

enum { SFT__PK_CHUNK = 1024 };

enum { SFT__PK_WINDOW = 65536 };

/* A window over the source. */
typedef struct sft__import_pk_in {
    const sft_source *source;
    uint8_t *window;
    uint64_t base; /* offset of window[0] */
    size_t len;
    size_t pos;
    uint64_t end;
} sft__import_pk_in;

static inline uint64_t sft__import_pk_tell(const sft__import_pk_in *in) {
    return in->base + in->pos;
}

typedef struct sft__import_pickle {
    sft__import *job;
    const sft_source *source;
    uint32_t source_index;
    const char *where; /* member's name, for findings */
    sft__import_pk_node **chunks;
    size_t chunk_room;
    uint32_t count;
    uint32_t root;        /* of the last run */
    uint64_t end;         /* of the last run: where its STOP ended */
    sft__import_pk_in in; /* one window for all runs: a tar has thousands of small pickles */
    bool joblib;          /* arrays lie raw behind the objects that describe them */
    bool classes;         /* an unknown class is no error by itself (its weights are wanted) */
} sft__import_pickle;

/* Any number is fine: fields of nodes of other types than was hoped for come here, too. */
static inline sft__import_pk_node *sft__import_pk_at(const sft__import_pickle *p, uint32_t id) {
    id = id < p->count ? id : SFT__PK_NO;
    return &p->chunks[id / SFT__PK_CHUNK][id % SFT__PK_CHUNK];
}

static inline uint64_t sft__import_pk_bytes(const sft__import_pk_node *n) {
    return (uint64_t)n->number_high << 32 | n->number_low;
}

/* Of BYTES the size, of a STR that is SFT__PK_RAW its place. */
static inline void sft__import_pk_set_number(sft__import_pk_node *n, uint64_t number) {
    n->number_high = (uint32_t)(number >> 32);
    n->number_low = (uint32_t)number;
}

/* Of a STR that is SFT__PK_RAW: where it lies in the source. */
static inline uint64_t sft__import_pk_place(const sft__import_pk_node *n) {
    return (uint64_t)n->number_high << 32 | n->number_low;
}

sft_status sft__import_pickle_init(sft__import_pickle *p, sft__import *job,
                                   const sft_source *source, uint32_t source_index,
                                   const char *where, sft_error *err);
/* Runs one pickle that begins at `offset` and ends at or before `end`. May be called again: nodes
 * stay. */
sft_status sft__import_pickle_run(sft__import_pickle *p, uint64_t offset, uint64_t end,
                                  sft_error *err);
void sft__import_pickle_reset(sft__import_pickle *p);

/* Item i of a tuple or list; SFT__PK_NO past the end. O(segments). */
uint32_t sft__import_pk_item(const sft__import_pickle *p, uint32_t id, uint32_t i);
/* The value of a string key of a dict, or SFT__PK_NO; the last of several. */
uint32_t sft__import_pk_get(const sft__import_pickle *p, uint32_t dict, const char *key);
/* Is it an integer of 0 or more? */
bool sft__import_pk_uint(const sft__import_pickle *p, uint32_t id, uint64_t *value);
bool sft__import_pk_is_text(const sft__import_pickle *p, uint32_t id, const char *text);

/* Walks items: start with it->list of the node. */
typedef struct sft__import_pk_iter {
    const sft__import_pk_items *at;
    uint32_t i;
} sft__import_pk_iter;
static inline sft__import_pk_iter sft__import_pk_begin(const sft__import_pk_node *n) {
    const sft__import_pk_iter it = {n->u.list != NULL ? n->u.list->first : NULL, 0};
    return it;
}
static inline bool sft__import_pk_next(sft__import_pk_iter *it, uint32_t *id) {
    while (it->at != NULL && it->i >= it->at->count) {
        it->at = it->at->next;
        it->i = 0;
    }
    if (it->at == NULL) {
        return false;
    }
    *id = it->at->ids[it->i++];
    return true;
}

/* ---------------------------------------------------------------- input, pickle_in.c */

/* n bytes (at most SFT__PK_WINDOW) in memory; SFT_E_SCHEMA if the stream ends before. */
sft_status sft__import_pk_need(sft__import_pk_in *in, size_t n, const uint8_t **bytes,
                               sft_error *err);
sft_status sft__import_pk_skip(sft__import_pk_in *in, uint64_t n, sft_error *err);
/* A line without its '\n'; at most SFT__PK_WINDOW - 1 bytes; it stays until the next call. */
sft_status sft__import_pk_line(sft__import_pk_in *in, const char **line, size_t *len,
                               sft_error *err);
/* A line of any length, without its '\n': the last *len bytes of 2 * *len + SFT__PK_DECODE bytes of the
 * arena, so that it can be decoded into their beginning. */
enum { SFT__PK_DECODE = 5 };
sft_status sft__import_pk_line_copy(sft__import_pk_in *in, sft__import *job, char **room,
                                    size_t *len, sft_error *err);
/* n bytes copied into the arena, NUL behind. */
sft_status sft__import_pk_text(sft__import_pk_in *in, sft__import *job, uint64_t n,
                               const char **text, sft_error *err);

bool sft__import_pk_decimal(const char *text, size_t len, int64_t *value);
/* Python literals of protocol 0; SIZE_MAX: damaged. What is made of n bytes has at most 2 * n, so that
 * src may be the end of dst as sft__import_pk_line_copy gives it. */
size_t sft__import_pk_repr(char *dst, const char *src, size_t len);
size_t sft__import_pk_raw_unicode(char *dst, const char *src, size_t len);

#endif
