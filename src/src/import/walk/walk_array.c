/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_array.c - the arrays of joblib, as its own unpickler reads them (WALK_JOBLIB):
 * behind the BUILD of a NumpyArrayWrapper lies a byte that counts the padding (since 1.2), the
 * padding, and then shape times item size raw bytes; or, of objects, a pickle of its own. Numbers
 * and tuples are noted as far as that needs. Source: joblib/numpy_pickle.py. Read first: walk.h.
 */
#include "base/checked.h"
#include "import/walk/walk.h"

enum {
    NUMBERS_MOST = 1 << 20,
    RANK_MOST = 64,
    /* V_INT: the number + 1, SMALL + its place + 1, or -1 as BININT has it */
    SMALL = 1 << 26,
    MINUS_ONE = WALK_NUMBERS,
    /* V_TUPLE: the upper bits tell what the lower ones are */
    TAG_SHIFT = 24,
    TAG_MASK = (1 << TAG_SHIFT) - 1,
    IS_NOTE = 0,   /* place of the values + 1, or 0: nothing is known */
    IS_STATE = 1,  /* the same, of the state of a numpy.dtype */
    IS_SHAPE = 2,  /* numbers: their product + 1 */
    IS_PLACED = 3, /* numbers: place of their product + 1 */
    IS_TEXT = 4,   /* begins with a text: its index */
    IS_BUFFER = 5, /* arguments of numpy.ndarray: bytes for what may be objects */
    IS_MAKER = 6   /* has numpy.dtype among its values */
};
#define OBJECTS UINT64_MAX

/* Keeps numbers; the place of the first + 1, or 0. */
static uint32_t keep(walk *w, const uint64_t *values, size_t count) {
    if (w->number_count + count > NUMBERS_MOST ||
        !sft__base_grow(w->job->allocator, &w->numbers, &w->number_room, w->number_count + count,
                        sizeof *w->numbers)) {
        return 0;
    }
    memcpy(w->numbers + w->number_count, values, count * sizeof *values);
    w->number_count += count;
    return (uint32_t)(w->number_count - count) + 1;
}

static bool is_following(const walk *w) {
    return (w->ways & WALK_JOBLIB) != 0;
}

walk_value sft__import_walk_array_int(walk *w, uint64_t value) {
    if (value == UINT32_MAX) {
        return walk_make(V_INT, MINUS_ONE);
    }
    if (value < SMALL - 1) {
        return walk_make(V_INT, (uint32_t)value + 1);
    }
    const uint32_t place = keep(w, &value, 1);
    return walk_make(V_INT, place != 0 ? SMALL + place : 0);
}

bool sft__import_walk_int_of(const walk *w, walk_value v, uint64_t *value) {
    const uint32_t n = walk_number(v);

    if (walk_kind(v) != V_INT || n == 0) {
        return false;
    }
    if (n != MINUS_ONE && n > SMALL && n - SMALL > w->number_count) {
        return false; /* of a pickle before */
    }
    *value = n == MINUS_ONE ? UINT32_MAX : n <= SMALL ? n - 1 : w->numbers[n - SMALL - 1];
    return true;
}

static walk_value tagged(uint32_t tag, uint32_t number) {
    return walk_make(V_TUPLE, number != 0 && number <= TAG_MASK ? tag << TAG_SHIFT | number : 0);
}

/* The number of a tuple with this tag, or 0. */
static uint32_t tag_of(walk_value v, uint32_t tag) {
    return walk_kind(v) == V_TUPLE && walk_number(v) >> TAG_SHIFT == tag ? walk_number(v) & TAG_MASK
                                                                         : 0;
}

const walk_text *sft__import_walk_first_text(const walk *w, walk_value tuple) {
    const uint32_t n = tag_of(tuple, IS_TEXT);
    return n != 0 ? sft__import_walk_text(w, n) : NULL;
}

const uint64_t *sft__import_walk_note(const walk *w, walk_value tuple, size_t count) {
    const uint32_t n = tag_of(tuple, count == 2 ? IS_NOTE : IS_STATE);
    return n != 0 && n - 1 + count <= w->number_count ? &w->numbers[n - 1] : NULL;
}

bool sft__import_walk_product_of(const walk *w, walk_value v, uint64_t *value) {
    const uint32_t small = tag_of(v, IS_SHAPE);
    const uint32_t placed = tag_of(v, IS_PLACED);

    if (walk_kind(v) == V_INT) {
        return sft__import_walk_int_of(w, v, value);
    }
    if ((small == 0 && placed == 0) || placed > w->number_count) {
        return false;
    }
    *value = small != 0 ? small - 1 : w->numbers[placed - 1];
    return true;
}

/* Of numbers: their product. */
static walk_value shape_of(walk *w, const walk_value *items, size_t count) {
    uint64_t product = 1;
    uint64_t n;

    for (size_t i = 0; i < count; i++) {
        if (!sft__import_walk_int_of(w, items[i], &n) || !sft__base_mul64(product, n, &product)) {
            return walk_make(V_TUPLE, 0);
        }
    }
    return product < TAG_MASK ? tagged(IS_SHAPE, (uint32_t)product + 1)
                              : tagged(IS_PLACED, keep(w, &product, 1));
}

static bool is_state(const walk_value *items, size_t count) {
    return (count == 8 || count == 9) && walk_kind(items[0]) == V_INT &&
           walk_kind(items[1]) == V_STR && walk_kind(items[7]) == V_INT;
}

static bool has_maker(const walk_value *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (items[i] == walk_make(V_CLASS, WALK_ROLE_DTYPE)) {
            return true;
        }
    }
    return false;
}

walk_value sft__import_walk_array_tuple(walk *w, const walk_value *items, size_t count) {
    uint64_t values[9];

    if (count > RANK_MOST) {
        return walk_make(V_TUPLE, 0);
    }
    const unsigned first = count != 0 ? walk_kind(items[0]) : (unsigned)V_INT;
    const unsigned second = count > 1 ? walk_kind(items[1]) : (unsigned)V_NONE;
    const unsigned third = count > 2 ? walk_kind(items[2]) : (unsigned)V_NONE;
    const bool state = is_state(items, count);
    if (state || (first == V_DTYPE && (second == V_INT || second == V_TUPLE))) {
        const size_t n = state ? 8 : 2;
        for (size_t i = 0; i < n; i++) {
            values[i] = items[i];
        }
        return tagged(state ? IS_STATE : IS_NOTE, keep(w, values, n));
    }
    if (has_maker(items, count)) {
        return tagged(IS_MAKER, 1);
    }
    if ((third == V_BYTES || third == V_BYTEARRAY || third == V_ANY) && first != V_STR &&
        !sft__import_walk_is_numbers(w, items[1])) {
        return tagged(IS_BUFFER, 1);
    }
    return first == V_STR ? tagged(IS_TEXT, walk_number(items[0])) : shape_of(w, items, count);
}

walk_value sft__import_walk_array_new(walk *w, walk_value of) {
    const uint32_t role = walk_kind(of) == V_CLASS ? walk_number(of) : (uint32_t)WALK_ROLE_NONE;

    if (role == WALK_ROLE_ARRAY) {
        sft__import_walk_odd(w, SFT_SCAN_UNKNOWN, "", "numpy-array",
                             "numpy.ndarray is called, which no pickle of numpy's does");
        return walk_make(V_OBJECT, 0);
    }
    return walk_make(role == WALK_ROLE_DTYPE ? V_DTYPE : V_ANY, 0);
}

/* numpy.dtype('f8', False, True) */
walk_value sft__import_walk_array_call(walk *w, walk_value called, walk_value args) {
    const uint32_t role =
        walk_kind(called) == V_CLASS ? walk_number(called) : (uint32_t)WALK_ROLE_NONE;

    if (role == WALK_ROLE_DTYPE) {
        return sft__import_walk_dtype(w, args);
    }
    if (role == WALK_ROLE_ARRAY && tag_of(args, IS_BUFFER) != 0) {
        sft__import_walk_odd(
            w, SFT_SCAN_DANGEROUS, "", "numpy-array",
            "numpy.ndarray is made of bytes of the file that may be taken for addresses");
        return walk_make(V_OBJECT, 0);
    }
    if (tag_of(args, IS_MAKER) != 0) {
        return walk_make(V_DTYPE, 0); /* copyreg._reconstructor(dtype, dtype, 'V8') */
    }
    return sft__import_walk_array_new(w, called);
}

static bool is_key(const walk *w, const walk_text *t, const char *name) {
    return t->len == strlen(name) && memcmp(w->pool + t->at, name, t->len) == 0;
}

static const walk_text *text_of(const walk *w, walk_value v) {
    return walk_kind(v) == V_STR ? sft__import_walk_text(w, walk_number(v)) : NULL;
}

void sft__import_walk_array_item(walk *w, walk_value key, walk_value value) {
    const walk_text *t = is_following(w) ? text_of(w, key) : NULL;

    if (t == NULL) {
        return;
    }
    if (is_key(w, t, "shape")) {
        w->array.elements = 0;
        w->array.has_shape = walk_kind(value) == V_TUPLE &&
                             sft__import_walk_product_of(w, value, &w->array.elements);
    } else if (is_key(w, t, "dtype")) {
        const walk_type *type = sft__import_walk_type(w, value);
        w->array.has_type = type != NULL && type->known;
        w->array.item = !w->array.has_type ? 0 : type->objects ? OBJECTS : type->size;
    } else if (is_key(w, t, "numpy_array_alignment_bytes")) {
        w->array.padded = walk_kind(value) == V_INT;
    }
}

/* The pickle of an array of objects: another unpickler reads it, with a memo of its own. */
static walk_step begin_objects(walk *w) {
    if (w->inner) {
        w->limited = true; /* plain pickles have no arrays of joblib */
        return WALK_FAIL;
    }
    w->inner = true;
    w->inner_base = w->stack.count;
    w->outer = w->memo;
    memset(&w->memo, 0, sizeof w->memo);
    return WALK_GO;
}

walk_step sft__import_walk_array_built(walk *w) {
    const walk_array a = w->array;
    uint64_t bytes;

    memset(&w->array, 0, sizeof w->array);
    if (!a.has_shape || !a.has_type || w->in.frame > walk_tell(&w->in)) {
        w->limited = true;
        return WALK_FAIL;
    }
    w->in.frame = 0;
    if (a.item == OBJECTS) {
        return begin_objects(w);
    }
    if (a.padded != 0) {
        const uint8_t *b = sft__import_walk_take(&w->in, 1);
        if (b == NULL || !sft__import_walk_skip(&w->in, *b)) {
            return WALK_FAIL;
        }
    }
    return sft__base_mul64(a.elements, a.item, &bytes) && sft__import_walk_skip(&w->in, bytes)
               ? WALK_GO
               : WALK_FAIL;
}
