/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk.h - inside the walker: a pickle machine without objects. A value is a kind and
 * at most a number; the text of short strings is kept, for they can become names. It does all that
 * CPython's two unpicklers do before they fail: where they differ it goes on if either does, so
 * that what they look up is always looked at here. Differences that lead to other bytes (what C
 * drops at the end of a frame, one memo for several pickles, the raw arrays of joblib) are walks of
 * their own: WALK_*. Source: CPython Modules/_pickle.c and Lib/pickle.py, 3.8 to 3.14. Read first:
 * scan.h.
 */
#ifndef SFT_IMPORT_WALK_H
#define SFT_IMPORT_WALK_H

#include "base/text/buf.h"
#include "import/settings/settings.h"

enum { WALK_WINDOW = 65536, WALK_TEXT = 512 };

/* The ways to walk a part again. */
enum {
    WALK_DROP = 1,   /* C, from a file without peek: what an operand needs beyond its frame is read
                        behind it, the rest of the frame is dropped */
    WALK_KEEP = 2,   /* one Unpickler, load() again: the memo stays */
    WALK_JOBLIB = 4, /* the raw bytes of arrays follow their descriptions */
    WALK_WAYS = 8
};

/* A window over the part. Behind its end, or where the source is damaged, nothing follows. */
typedef struct walk_in {
    const sft_source *source;
    uint8_t *window;
    uint64_t base; /* offset of window[0] */
    size_t len;
    size_t pos;
    uint64_t end;
    uint64_t frame;    /* where the frame ends, 0: none */
    sft_status status; /* of the world outside */
    sft_error *err;
    bool drop;    /* WALK_DROP */
    bool crossed; /* something reached over the end of a frame */
} walk_in;

static inline uint64_t walk_tell(const walk_in *in) {
    return in->base + in->pos;
}
void sft__import_walk_seek(walk_in *in, uint64_t at);
/* n bytes (at most WALK_WINDOW) that stay until the next call, and behind them; NULL: there are not
 * so many. */
const uint8_t *sft__import_walk_take(walk_in *in, size_t n);
/* Skips n bytes; false: the part ends before, and the input is at its end. */
bool sft__import_walk_skip(walk_in *in, uint64_t n);
/* The bytes of a literal, skipped; the first of them, at most WALK_WINDOW, in *head (NULL: cut
 * short).
 */
bool sft__import_walk_literal(walk_in *in, uint64_t n, bool text, const uint8_t **head,
                              size_t *head_len, uint64_t *at);
/* A line; len without its '\n', of long lines the first WALK_WINDOW bytes, *all the whole length.
 * *whole: false where the part ends before a '\n'. NULL: there is nothing. */
const uint8_t *sft__import_walk_line(walk_in *in, size_t *len, uint64_t *all, bool *whole);

/* ---------------------------------------------------------------- values */

typedef uint32_t walk_value; /* kind in the upper 5 bits, a number below */
enum walk_kind {
    V_ANY = 0, /* what a call, a persistent id or a buffer gave: could be anything */
    V_CLASS,   /* what a lookup gave: WALK_ROLE_* */
    V_NONE,
    V_INT,    /* walk_array.c: its number, or where it is kept; 0: unknown */
    V_SCALAR, /* another number or truth value */
    V_STR,    /* index of the text; 0: forgotten */
    V_BYTES,
    V_BYTEARRAY,
    V_LIST,
    V_DICT, /* WALK_DICT_* */
    V_SET,
    V_FROZENSET,
    V_TUPLE,   /* walk_array.c: what is known of it; 0: nothing */
    V_DTYPE,   /* a numpy.dtype: its walk_type + 1, or 0 */
    V_WRAPPER, /* WALK_JOBLIB: a NumpyArrayWrapper before its BUILD */
    V_OBJECT,  /* an array, a type, a container: no text */
    V_KINDS
};
enum { WALK_SHIFT = 27 };
#define WALK_NUMBERS ((1u << WALK_SHIFT) - 1)
enum {
    WALK_ROLE_NONE,
    WALK_ROLE_KNOWN, /* on the allow-list, and what it makes is a V_OBJECT */
    WALK_ROLE_DTYPE,
    WALK_ROLE_WRAPPER,
    WALK_ROLE_ARRAY /* numpy.ndarray */
};
/* A dict could be the fields of a type: not this one; not surely, it has been elsewhere; it is empty; more:
 * the last of its walk_fields. */
enum { WALK_DICT_PLAIN, WALK_DICT_SHARED, WALK_DICT_FRESH };
enum { WALK_TRUE = 1 }; /* of V_SCALAR */

static inline walk_value walk_make(unsigned kind, uint32_t number) {
    return (walk_value)(kind << WALK_SHIFT) | number;
}
static inline unsigned walk_kind(walk_value v) {
    return v >> WALK_SHIFT;
}
static inline uint32_t walk_number(walk_value v) {
    return v & WALK_NUMBERS;
}
/* Could it be called, or have any attribute? */
static inline bool walk_opaque(walk_value v) {
    return walk_kind(v) <= V_CLASS || walk_kind(v) >= V_DTYPE;
}

typedef struct walk_values {
    walk_value *at;
    size_t count;
    size_t room;
} walk_values;

/* Numbers to values: an array as far as they are close together, a table of hashes for the rest. */
typedef struct walk_slot {
    uint64_t key;
    uint32_t value; /* + 1; 0: free */
    uint32_t reserved;
} walk_slot;
typedef struct walk_table {
    walk_slot *slots;
    size_t room; /* a power of two, or 0 */
    size_t used; /* of the slots, those in use now: a power of two */
    size_t count;
} walk_table;
typedef struct walk_memo {
    uint64_t *dense; /* epoch in the upper half, value + 1 in the lower */
    size_t room;
    uint32_t epoch;
    uint64_t count; /* set */
    walk_table sparse;
    bool lost; /* more than there is room for: what is not found may have been there */
} walk_memo;

typedef struct walk_text {
    uint32_t at; /* in the pool */
    uint16_t len;
    uint16_t cut; /* 1: only the beginning; a walk_far lies behind it */
} walk_text;

/* Where all of a text lies in the source, and how it is written there. */
enum { WALK_FAR_PLAIN, WALK_FAR_STRING, WALK_FAR_UNICODE };
typedef struct walk_far {
    uint64_t at;
    uint64_t size;
    uint64_t how;
} walk_far;

/* Texts beyond the room for them: the last ones. */
enum { WALK_RECENT = 4096 };
typedef struct walk_recent {
    walk_text *texts;
    uint32_t count; /* that there were */
    uint32_t at;    /* of the first in the pool */
} walk_recent;

/* What dictionaries say, walk_settings.c */
enum { WALK_HELD = 64, WALK_KEYS = 256, WALK_KEY = 30 };
typedef struct walk_held {
    size_t at; /* of the dictionary on the stack */
    walk_value key;
    walk_value value;
} walk_held;
typedef struct walk_key {
    uint16_t len;
    bool telling;
    char text[WALK_KEY];
} walk_key;
typedef struct walk_settings {
    sft__base_buf text; /* lines of JSON */
    size_t begin;       /* of those of the pickle at hand */
    walk_held held[WALK_HELD];
    size_t held_count;
    walk_key keys[WALK_KEYS];
    sft__import_setting_starts starts;   /* of keys that tell something */
    sft__import_setting_starts reaching; /* of functions that reach the operating system */
    sft__import_content_state state;
    bool lost;  /* that texts were is said */
    bool ready; /* starts, reaching */
} walk_settings;

/* What WALK_JOBLIB knows of the dict that is being filled. */
typedef struct walk_array {
    uint64_t elements;
    uint64_t item;   /* bytes; UINT64_MAX: objects, that are a pickle */
    uint64_t padded; /* 1: a byte tells how much padding follows */
    bool has_shape;
    bool has_type;
} walk_array;

/* A numpy.dtype, as numpy itself would have made it. */
typedef struct walk_type {
    uint64_t size; /* bytes of an element */
    char kind;     /* of numpy's letters */
    bool known;
    bool objects; /* holds addresses of objects */
    bool built;   /* has its state */
    bool used;    /* was at hand elsewhere before it had one */
} walk_type;

typedef struct walk_field {
    uint64_t offset;
    uint64_t size;
    uint32_t note; /* of its tuple */
    uint32_t next; /* number of a dict, of the fields before */
    bool objects;
} walk_field;

/* A finding that waits for the end of its pickle. */
enum { WALK_PENDING = 64 };
typedef struct walk_pending {
    uint32_t kind;
    uint32_t verdict;
    const char *rule;
    const char *why;
    uint64_t offset;
    size_t len;
    bool possible; /* as anything could be called, */
    bool module_plausible;
    bool plausible;  /* as names of files and attributes go, */
    bool identifier; /* as names in programs go */
    bool acts;       /* the module does something when it is imported */
    char subject[2 * WALK_TEXT + 2];
} walk_pending;

/* A name and its verdict. */
enum { WALK_JUDGED = 64 };
typedef struct walk_judged {
    size_t module_len;
    size_t name_len;
    uint32_t verdict;
    uint32_t role;
    const char *why;
    char text[2 * WALK_TEXT];
} walk_judged;

/* A literal that may be a pickle itself: bytes of the source, or decoded ones, which are owned. */
typedef struct walk_nested {
    const sft_source *source;
    uint8_t *decoded;
    uint64_t offset;
    uint64_t size;
    uint32_t depth;
    uint32_t reserved;
} walk_nested;

typedef struct walk {
    sft__import *job;
    const sft__import_scan_part *given; /* the outermost */
    const sft__import_scan_part *part;
    walk_in in;
    walk_values stack;
    walk_values marks; /* heights of the stack */
    walk_memo memo;
    walk_text *texts;
    size_t text_count;
    size_t text_room;
    char *pool;
    size_t pool_len;
    size_t pool_room;
    uint64_t *numbers; /* WALK_JOBLIB */
    size_t number_count;
    size_t number_room;
    walk_array array;
    walk_type *types;
    size_t type_count;
    size_t type_room;
    walk_field *fields;
    size_t field_count;
    size_t field_room;
    walk_recent recent;
    walk_settings settings;
    walk_table seen;  /* where pickles began */
    uint64_t *starts; /* where more may begin: the ends of frames */
    size_t start_count;
    size_t start_room;
    walk_pending *pending; /* names that count only if the pickle ends in order */
    size_t pending_count;
    walk_judged *judged; /* WALK_JUDGED of them, or NULL */
    walk_nested *nested; /* literals to be walked */
    size_t nested_count;
    size_t nested_room;
    uint64_t decoded_bytes;
    uint64_t opcode_at;
    uint64_t complete_to; /* pickles in order up to here, from the first byte on */
    uint32_t pickles;     /* that ended with a STOP */
    uint32_t names;
    uint32_t ways;   /* this walk's */
    uint32_t wanted; /* ways that would lead elsewhere */
    uint8_t opcode;  /* the one at hand */
    uint8_t arg;     /* walk_op.arg of it */
    bool loose;      /* the last name is words rather than one */
    bool printed;    /* and has nothing but printable ASCII */
    bool marked;     /* this pickle began with PROTO 2 or more */
    bool reread;     /* the memo was read or MEMOIZE used in this pickle */
    bool limited;    /* something was too large to be followed */
    bool refilled;   /* a dict was filled that had been elsewhere */
    bool has_fields; /* a type with fields was made */
    bool inner;      /* WALK_JOBLIB: in the pickle of an array of objects */
    size_t inner_base;
    walk_memo outer;
} walk;

typedef enum walk_step { WALK_GO = 0, WALK_STOP, WALK_FAIL } walk_step;

/* ---------------------------------------------------------------- values, walk_values.c */

bool sft__import_walk_values_push(walk *w, walk_values *s, uint32_t v); /* of the stack or marks */
static inline bool sft__import_walk_push(walk *w, walk_value v) {
    if (w->stack.count == w->stack.room) {
        return sft__import_walk_values_push(w, &w->stack, v);
    }
    w->stack.at[w->stack.count++] = v;
    return true;
}
static inline size_t sft__import_walk_floor(const walk *w) {
    const size_t mark = w->marks.count != 0 ? w->marks.at[w->marks.count - 1] : 0;
    return w->inner && mark < w->inner_base ? w->inner_base : mark;
}
static inline bool sft__import_walk_pop(walk *w, walk_value *v) {
    if (w->stack.count <= sft__import_walk_floor(w)) {
        return false;
    }
    *v = w->stack.at[--w->stack.count];
    return true;
}
bool sft__import_walk_top(walk *w, walk_value **v);
/* So much work is done; where there is no more of it, the walk is limited. */
static inline void walk_pay(walk *w, uint64_t work) {
    w->job->walk_left -= work < w->job->walk_left ? work : w->job->walk_left;
}
/* What a line costs beyond the window: it is read up to its end. */
static inline void walk_pay_line(walk *w, uint64_t all) {
    walk_pay(w, all > WALK_WINDOW ? all / 64 : 0);
}
bool sft__import_walk_mark(walk *w, size_t *first); /* pops it */
void sft__import_walk_memo_put(walk *w, uint64_t key, walk_value v);
bool sft__import_walk_memo_get(walk *w, uint64_t key, walk_value *v);
void sft__import_walk_memo_clear(walk_memo *m);
void sft__import_walk_memo_reset(walk_memo *m, const sft_allocator *a);
bool sft__import_walk_table_put(walk_table *t, const sft_allocator *a, uint64_t key, uint32_t value,
                                size_t most);
void sft__import_walk_table_clear(walk_table *t);
const walk_slot *sft__import_walk_table_find(const walk_table *t, uint64_t key);
/* A string of these bytes of UTF-8; more are cut, and then found again at `far`. */
walk_value sft__import_walk_string(walk *w, const void *bytes, size_t len, bool cut,
                                   const walk_far *far);

const walk_text *sft__import_walk_text(const walk *w, uint32_t number); /* NULL: forgotten */
void sft__import_walk_texts_clear(walk *w);

/* ---------------------------------------------------------------- text, walk_text.c */

/* Would int() or float() take the line, in either implementation? base: 0 or 10. *value: of those
 * below 2^63, else a number made of the digits. */
bool sft__import_walk_int(const uint8_t *line, size_t len, int base, uint64_t *value,
                          bool *negative);
bool sft__import_walk_float(const uint8_t *line, size_t len);
/* Python literals of protocol 0, decoded to UTF-8; out: at least len * 2 bytes. SIZE_MAX: damaged.
 */
size_t sft__import_walk_escaped(uint8_t *out, const uint8_t *in, size_t len);
size_t sft__import_walk_raw_unicode(uint8_t *out, const uint8_t *in, size_t len);
/* UTF-8 that Python takes: with surrogates, if `pass`. A tail that is cut short is fine if `cut`.
 */
bool sft__import_walk_utf8(const uint8_t *bytes, size_t len, bool pass, bool cut);
/* UTF-8 of characters below 256 as these bytes, or SIZE_MAX. In place is fine. */
size_t sft__import_walk_latin1(uint8_t *out, const uint8_t *in, size_t len);
/* The other way; out: 2 * len bytes. */
size_t sft__import_walk_from_latin1(uint8_t *out, const uint8_t *in, size_t len);

/* ---------------------------------------------------------------- names, walk_name.c */

typedef struct walk_words {
    const char *at;
    size_t len;
} walk_words;
/* What a lookup of the name gives; the name becomes a finding. */
walk_value sft__import_walk_name(walk *w, walk_words module, walk_words name);
/* Another thing of the pickle that is worth a finding. */
void sft__import_walk_odd(walk *w, uint32_t verdict, const char *subject, const char *rule,
                          const char *message);
void sft__import_walk_settle(walk *w, bool ended); /* the pickle has ended, or failed */
/* Something is called: what waits counts. Not surely: only by Python's own code, which takes a text
 * for arguments; then names alone that a program would write. */
void sft__import_walk_called(walk *w, bool surely);

/* ---------------------------------------------------------------- literals and arrays */

/* Keeps a literal that could be a pickle for later. */
void sft__import_walk_keep(walk *w, const uint8_t *head, size_t head_len, uint64_t at,
                           uint64_t size, bool text);
/* One that was decoded (which is changed here). */
void sft__import_walk_decoded(walk *w, uint8_t *bytes, size_t len);

/* Notes of numbers and tuples. WALK_JOBLIB: items of dicts, the bytes behind a BUILD. */
walk_value sft__import_walk_array_int(walk *w, uint64_t value);
walk_value sft__import_walk_array_tuple(walk *w, const walk_value *items, size_t count);
walk_value sft__import_walk_array_call(walk *w, walk_value called, walk_value args);
walk_value
sft__import_walk_array_new(walk *w, walk_value of); /* of a class or function of numpy, or V_ANY */
bool sft__import_walk_int_of(const walk *w, walk_value v, uint64_t *value);
bool sft__import_walk_product_of(const walk *w, walk_value v,
                                 uint64_t *value); /* of numbers in a tuple */
const walk_text *sft__import_walk_first_text(const walk *w, walk_value tuple);
/* The values of a tuple that is a field, a base with its shape (2), or the state of a type (8). */
const uint64_t *sft__import_walk_note(const walk *w, walk_value tuple, size_t count);
void sft__import_walk_array_item(walk *w, walk_value key, walk_value value);
walk_step sft__import_walk_array_built(walk *w);

/* Types of numpy, walk_dtype.c: what a call makes of its arguments; NULL: unknown; a text or type that is
 * surely one of numbers; the dict with one more item; the state that a BUILD gives. */
walk_value sft__import_walk_dtype(walk *w, walk_value args);
walk_type *sft__import_walk_type(const walk *w, walk_value v);
bool sft__import_walk_is_numbers(const walk *w, walk_value v);
walk_value sft__import_walk_dict_item(walk *w, walk_value dict, walk_value value);
void sft__import_walk_fields_shared(walk *w);
void sft__import_walk_dtype_state(walk *w, walk_value target, walk_value state);
/* What the memo or DUP keeps of a value: the one that is at hand is no longer alone. */
static inline walk_value walk_shared(walk_value v) {
    return walk_kind(v) == V_DICT && walk_number(v) != WALK_DICT_PLAIN
               ? walk_make(V_DICT, WALK_DICT_SHARED)
               : v;
}
static inline void walk_use(walk *w, walk_value v) {
    walk_type *t = walk_kind(v) == V_DTYPE ? sft__import_walk_type(w, v) : NULL;
    if (t != NULL && !t->built) {
        t->used = true;
    }
}

/* ---------------------------------------------------------------- settings, walk_settings.c */

/* Items that are put into the dictionary at `at` of the stack, or become one there; the same of a list
 * or tuple. */
void sft__import_walk_settings_items(walk *w, size_t first, size_t at);
void sft__import_walk_settings_list(walk *w, size_t first, size_t at);
void sft__import_walk_settings_init(walk *w);
void sft__import_walk_settings_begin(walk *w); /* a pickle */
void sft__import_walk_settings_end(walk *w, bool ended);
void sft__import_walk_settings_judge(walk *w); /* a part has ended */

/* ---------------------------------------------------------------- opcodes */

typedef struct walk_op {
    walk_step (*fn)(walk *w);
    uint8_t arg; /* bytes of an operand (0: a line), a kind, a number of values */
} walk_op;
extern const walk_op sft__import_walk_ops[256];
/* Where the opcode at `i` ends, without a stack; SIZE_MAX: it is none, or cut short. walk_nested.c
 */
size_t sft__import_walk_opcode(const uint8_t *bytes, size_t i, size_t end);

/* Does a run of opcodes from the first byte on, whatever the stack, come to one that looks up a
 * name? *opcodes: plus those that were skimmed. */
bool sft__import_walk_skims(const uint8_t *bytes, size_t len, uint64_t *opcodes);
/* The same of a pickle that says so by its first bytes: `len` of `all`. Opcodes that go on behind these
 * count, too, and frames, whose ends may hide some: only a walk tells what they do. */
bool sft__import_walk_marked(const uint8_t *bytes, size_t len, uint64_t all, uint64_t *opcodes);

/* ---------------------------------------------------------------- all of a part */

typedef struct sft__import_scan_walked {
    uint64_t complete_to; /* pickles in order, one after the other, up to this offset in the part */
    uint32_t pickles;
    uint32_t names;
    bool limited;
} sft__import_scan_walked;
sft_status sft__import_scan_walk_part(sft__import *job, const sft__import_scan_part *part,
                                      sft__import_scan_walked *walked, sft_error *err);

#endif
