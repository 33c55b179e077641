/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_dtype.c - types of numpy: what a call of numpy.dtype makes, and whether the
 * state that a BUILD gives to it is one that numpy could have written. numpy believes the state:
 * with a type of objects that says that it has none, or with a field behind the end of its element,
 * the bytes of the file become addresses. Source: numpy/_core/src/multiarray/descriptor.c. Read
 * first: walk.h.
 */
#include "base/checked.h"
#include "import/walk/walk.h"

enum {
    TYPES_MOST = 1 << 18,
    FIELDS_MOST = 1 << 20,
    CROWD_MOST = 512, /* fields of a type that has objects */
    POINTER = 8,
    HAS_OBJECTS = 1, /* flags of a type */
    AS_LIST = 2,
    AS_ZEROS = 8
};
static const uint64_t size_most = INT32_MAX;
static const uint64_t minus_one = UINT32_MAX; /* BININT: four bytes */

/* "f8", "<i4", "U5", "O8": what it is. */
static walk_type type_of(const char *text, size_t len) {
    walk_type t = {0};
    size_t at = len != 0 && memchr("<>=|", text[0], 4) != NULL ? 1 : 0;

    if (at >= len || memchr("biufcMmSUVO?", text[at], 12) == NULL) {
        return t;
    }
    t.kind = text[at++];
    const bool digits = at < len;
    for (; at < len; at++) {
        if (text[at] < '0' || text[at] > '9' || t.size > 1 << 24) {
            return t;
        }
        t.size = t.size * 10 + (uint64_t)(text[at] - '0');
    }
    t.size = t.kind == 'U' ? t.size * 4 : t.kind == '?' ? 1 : t.kind == 'O' ? POINTER : t.size;
    t.objects = t.kind == 'O';
    t.known = digits || t.kind == '?' || t.kind == 'O';
    return t;
}

walk_type *sft__import_walk_type(const walk *w, walk_value v) {
    const uint32_t n = walk_kind(v) == V_DTYPE ? walk_number(v) : 0;
    return n != 0 && n <= w->type_count ? &w->types[n - 1] : NULL;
}

walk_value sft__import_walk_dtype(walk *w, walk_value args) {
    const walk_text *t = sft__import_walk_first_text(w, args);

    if (t == NULL || w->type_count >= TYPES_MOST ||
        !sft__base_grow(w->job->allocator, &w->types, &w->type_room, w->type_count + 1,
                        sizeof *w->types)) {
        return walk_make(V_DTYPE, 0);
    }
    w->types[w->type_count++] = type_of(w->pool + t->at, t->len);
    return walk_make(V_DTYPE, (uint32_t)w->type_count);
}

bool sft__import_walk_is_numbers(const walk *w, walk_value v) {
    const walk_type *made = sft__import_walk_type(w, v);
    const walk_text *text = walk_kind(v) == V_STR ? sft__import_walk_text(w, walk_number(v)) : NULL;
    if (text != NULL) {
        const walk_type t = type_of(w->pool + text->at, text->len);
        return t.known && !t.objects;
    }
    return made != NULL && made->known && !made->objects;
}

/* ---------------------------------------------------------------- fields */

walk_value sft__import_walk_dict_item(walk *w, walk_value dict, walk_value value) {
    const uint64_t *note = sft__import_walk_note(w, value, 2);
    const walk_type *t = note != NULL ? sft__import_walk_type(w, (walk_value)note[0]) : NULL;
    uint64_t offset;

    if (walk_number(dict) == WALK_DICT_SHARED) {
        w->refilled = true;
        sft__import_walk_fields_shared(w);
    }
    if (walk_number(dict) < WALK_DICT_FRESH) {
        return dict;
    }
    if (t == NULL || !sft__import_walk_int_of(w, (walk_value)note[1], &offset) || !t->known ||
        w->field_count >= FIELDS_MOST ||
        !sft__base_grow(w->job->allocator, &w->fields, &w->field_room, w->field_count + 1,
                        sizeof *w->fields)) {
        return walk_make(V_DICT, WALK_DICT_PLAIN);
    }
    w->fields[w->field_count++] =
        (walk_field){offset, t->size, walk_number(value), walk_number(dict), t->objects};
    return walk_make(V_DICT, WALK_DICT_FRESH + (uint32_t)w->field_count);
}

void sft__import_walk_fields_shared(walk *w) {
    if (w->refilled && w->has_fields) {
        sft__import_walk_odd(
            w, SFT_SCAN_UNKNOWN, "", "numpy-dtype",
            "a dict that may hold the fields of a numpy.dtype is changed from elsewhere");
    }
}

static const walk_field *field_at(const walk *w, uint32_t number) {
    return number > WALK_DICT_FRESH && number - WALK_DICT_FRESH <= w->field_count
               ? &w->fields[number - WALK_DICT_FRESH - 1]
               : NULL;
}

/* Does a field of objects share bytes with another one? A name and its title are one. */
static bool is_overlapped(walk *w, const walk_field *f) {
    for (const walk_field *o = field_at(w, f->next); o != NULL; o = field_at(w, o->next)) {
        walk_pay(w, 1);
        if ((f->objects || o->objects) && f->note != o->note && f->offset < o->offset + o->size &&
            o->offset < f->offset + f->size) {
            return true;
        }
    }
    return false;
}

typedef enum state_fault { GOOD, WRONG, OBSCURE } state_fault;

static state_fault fields_fault(walk *w, walk_value dict, uint64_t size, bool *objects) {
    uint32_t count = 0;

    if (walk_kind(dict) != V_DICT || walk_number(dict) < WALK_DICT_FRESH) {
        return OBSCURE;
    }
    for (const walk_field *f = field_at(w, walk_number(dict)); f != NULL;
         f = field_at(w, f->next)) {
        if (f->offset > size || f->size > size - f->offset) {
            return WRONG;
        }
        *objects = *objects || f->objects;
        count++;
    }
    if (*objects && count > CROWD_MOST) {
        return OBSCURE;
    }
    for (const walk_field *f = field_at(w, walk_number(dict)); *objects && f != NULL;
         f = field_at(w, f->next)) {
        if (is_overlapped(w, f)) {
            return WRONG;
        }
    }
    return GOOD;
}

/* ---------------------------------------------------------------- states */

/* (type, shape) */
static state_fault sub_fault(const walk *w, walk_value sub, uint64_t size, bool *objects) {
    const uint64_t *note = sft__import_walk_note(w, sub, 2);
    const walk_type *base = note != NULL ? sft__import_walk_type(w, (walk_value)note[0]) : NULL;
    uint64_t elements;
    uint64_t bytes;

    if (base == NULL || !base->known ||
        !sft__import_walk_product_of(w, (walk_value)note[1], &elements)) {
        return OBSCURE;
    }
    *objects = *objects || base->objects;
    return sft__base_mul64(base->size, elements, &bytes) && bytes == size ? GOOD : WRONG;
}

/* (version, order, base and shape, names, fields, size, alignment, flags) */
static state_fault state_fault_of(walk *w, walk_type *t, const uint64_t *state) {
    const bool sized = t->kind == 'S' || t->kind == 'U' || t->kind == 'V';
    state_fault fault = GOOD;
    uint64_t flags;
    uint64_t size;
    bool objects = t->objects;

    if (!t->known || !sft__import_walk_int_of(w, (walk_value)state[5], &size) ||
        !sft__import_walk_int_of(w, (walk_value)state[7], &flags)) {
        return OBSCURE;
    }
    if (sized ? size > size_most : size != minus_one && size != t->size) {
        return WRONG;
    }
    t->size = sized ? size : t->size;
    if (walk_kind((walk_value)state[2]) != V_NONE) {
        fault = sub_fault(w, (walk_value)state[2], t->size, &objects);
    }
    if (fault == GOOD && walk_kind((walk_value)state[4]) != V_NONE) {
        w->has_fields = true;
        sft__import_walk_fields_shared(w);
        fault = fields_fault(w, (walk_value)state[4], t->size, &objects);
    }
    const uint64_t asked = HAS_OBJECTS | AS_LIST | (objects ? AS_ZEROS : 0);
    t->objects = objects;
    return fault != GOOD ? fault : (flags & asked) == (objects ? asked : 0) ? GOOD : WRONG;
}

void sft__import_walk_dtype_state(walk *w, walk_value target, walk_value state) {
    const uint64_t *note = sft__import_walk_note(w, state, 8);
    walk_type *t = sft__import_walk_type(w, target);
    state_fault fault = OBSCURE;

    if (t != NULL && (t->built || t->used)) {
        fault = WRONG;
    } else if (t != NULL && note != NULL) {
        fault = state_fault_of(w, t, note);
    }
    if (t != NULL) {
        t->built = true;
        t->known = t->known && fault == GOOD;
    }
    if (fault == WRONG) {
        sft__import_walk_odd(
            w, SFT_SCAN_DANGEROUS, "", "numpy-dtype",
            "the state of a numpy.dtype is none that numpy writes: bytes of the file would "
            "be taken for addresses");
    } else if (fault == OBSCURE) {
        sft__import_walk_odd(
            w, SFT_SCAN_UNKNOWN, "", "numpy-dtype",
            "the state of a numpy.dtype is computed, or is that of an unknown type");
    }
}
