/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_array.c - the arrays of joblib, as its own unpickler reads them (WALK_JOBLIB):
 * behind the BUILD of a NumpyArrayWrapper lies a byte that counts the padding (since 1.2), the
 * padding, and then shape times item size raw bytes; or, of objects, a pickle of its own. Numbers
 * and tuples are noted as far as that needs. Source: joblib/numpy_pickle.py. Read first: walk.h.
 */
#include "base/checked.h"
#include "import/walk/walk.h"

enum { NUMBERS_MOST = 1 << 20, RANK_MOST = 64, IS_PRODUCT = 1, IS_TYPE = 2 };
#define OBJECTS UINT64_MAX

/* Keeps numbers; their index + 1, or 0. */
static uint32_t keep(walk *w, uint64_t a, uint64_t b, size_t count) {
    if (w->number_count + count > NUMBERS_MOST ||
        !sft__grow(w->job->allocator, &w->numbers, &w->number_room, w->number_count + count,
                   sizeof *w->numbers)) {
        return 0;
    }
    const uint32_t index = (uint32_t)w->number_count + 1;
    w->numbers[w->number_count++] = a;
    if (count == 2) {
        w->numbers[w->number_count++] = b;
    }
    return index;
}

static bool is_following(const walk *w) {
    return (w->ways & WALK_JOBLIB) != 0;
}

walk_value sft__walk_array_int(walk *w, uint64_t value) {
    return walk_make(V_INT, is_following(w) ? keep(w, value, 0, 1) : 0);
}

/* The bytes of an item of "f8", "<i4", "U5", "O"; 0: unknown. */
static uint64_t item_of(walk *w, const char *text, size_t len) {
    uint64_t size = 0;
    size_t at = len != 0 && memchr("<>=|", text[0], 4) != NULL ? 1 : 0;

    if (at >= len) {
        return 0;
    }
    const char kind = text[at++];
    for (size_t i = at; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || size > 1 << 24) {
            return 0;
        }
        size = size * 10 + (uint64_t)(text[i] - '0');
    }
    switch (kind) {
    case 'b':
    case 'i':
    case 'u':
    case 'f':
    case 'c':
    case 'M':
    case 'm':
    case 'S':
        return size;
    case 'U':
        return size * 4;
    case '?':
        return 1;
    case 'V': /* a record: raw, unless a type of objects was made that may be a field of it */
        return w->objects ? 0 : size;
    case 'O':
        w->objects = true;
        return OBJECTS;
    default:
        return 0;
    }
}

static const walk_text *text_of(const walk *w, walk_value v) {
    return walk_kind(v) == V_STR && walk_number(v) != 0 ? &w->texts[walk_number(v)] : NULL;
}

/* A tuple of numbers: their product. One that begins with a string: perhaps a type. */
walk_value sft__walk_array_tuple(walk *w, const walk_value *items, size_t count) {
    uint64_t product = 1;

    if (!is_following(w) || count > RANK_MOST) {
        return walk_make(V_TUPLE, 0);
    }
    const walk_text *first = count != 0 ? text_of(w, items[0]) : NULL;
    if (first != NULL) {
        const uint64_t item = item_of(w, w->pool + first->at, first->len);
        return walk_make(V_TUPLE, item != 0 ? keep(w, IS_TYPE, item, 2) : 0);
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t n = walk_number(items[i]);
        if (walk_kind(items[i]) != V_INT || n == 0 ||
            !sft__mul64(product, w->numbers[n - 1], &product)) {
            return walk_make(V_TUPLE, 0);
        }
    }
    return walk_make(V_TUPLE, keep(w, IS_PRODUCT, product, 2));
}

/* numpy.dtype('f8', False, True) */
walk_value sft__walk_array_call(walk *w, walk_value called, walk_value args) {
    const uint32_t n = walk_kind(args) == V_TUPLE ? walk_number(args) : 0;

    return walk_kind(called) == V_CLASS && walk_number(called) == WALK_ROLE_DTYPE && n != 0 &&
                   w->numbers[n - 1] == IS_TYPE
               ? walk_make(V_DTYPE, n)
               : walk_make(V_ANY, 0);
}

static bool is_key(const walk *w, const walk_text *t, const char *name) {
    return t->len == strlen(name) && memcmp(w->pool + t->at, name, t->len) == 0;
}

void sft__walk_array_item(walk *w, walk_value key, walk_value value) {
    const walk_text *t = is_following(w) ? text_of(w, key) : NULL;
    const uint32_t n = walk_number(value);

    if (t == NULL) {
        return;
    }
    if (is_key(w, t, "shape")) {
        w->array.has_shape =
            walk_kind(value) == V_TUPLE && n != 0 && w->numbers[n - 1] == IS_PRODUCT;
        w->array.elements = w->array.has_shape ? w->numbers[n] : 0;
    } else if (is_key(w, t, "dtype")) {
        w->array.has_type = walk_kind(value) == V_DTYPE;
        w->array.item = w->array.has_type ? w->numbers[n] : 0;
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

walk_step sft__walk_array_built(walk *w) {
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
        const uint8_t *b = sft__walk_take(&w->in, 1);
        if (b == NULL || !sft__walk_skip(&w->in, *b)) {
            return WALK_FAIL;
        }
    }
    return sft__mul64(a.elements, a.item, &bytes) && sft__walk_skip(&w->in, bytes) ? WALK_GO
                                                                                   : WALK_FAIL;
}
