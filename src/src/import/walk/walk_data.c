/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_data.c - the opcodes of plain values: numbers, strings, bytes, the lines of
 * protocol 0. Read first: walk.h.
 */
#include "import/walk/walk_data.h"

/* ---------------------------------------------------------------- plain values */

walk_step sft__import_walk_op_none(walk *w) {
    return walk_push_kind(w, V_NONE, 0);
}
walk_step sft__import_walk_op_scalar(walk *w) {
    return walk_push_kind(w, V_SCALAR, w->opcode == 0x88 ? WALK_TRUE : 0);
}
walk_step sft__import_walk_op_list(walk *w) {
    return walk_push_kind(w, V_LIST, 0);
}
walk_step sft__import_walk_op_dict(walk *w) {
    return walk_push_kind(w, V_DICT, WALK_DICT_FRESH);
}
walk_step sft__import_walk_op_set(walk *w) {
    return walk_push_kind(w, V_SET, 0);
}
walk_step sft__import_walk_op_empty_tuple(walk *w) {
    return sft__import_walk_push(w, sft__import_walk_array_tuple(w, NULL, 0)) ? WALK_GO : WALK_FAIL;
}

static walk_step number(walk *w, size_t n) {
    const uint8_t *b = sft__import_walk_take(&w->in, n);
    uint64_t value = 0;

    if (b == NULL) {
        return WALK_FAIL;
    }
    for (size_t i = 0; i < n; i++) {
        value |= (uint64_t)b[i] << 8 * i;
    }
    return sft__import_walk_push(w, sft__import_walk_array_int(w, value)) ? WALK_GO : WALK_FAIL;
}
walk_step sft__import_walk_op_binint(walk *w) {
    return number(w, 4);
}
walk_step sft__import_walk_op_binint1(walk *w) {
    return number(w, 1);
}
walk_step sft__import_walk_op_binint2(walk *w) {
    return number(w, 2);
}

walk_step sft__import_walk_op_binfloat(walk *w) {
    return sft__import_walk_take(&w->in, 8) != NULL ? walk_push_kind(w, V_SCALAR, 0) : WALK_FAIL;
}

/* The length of a literal, of n bytes. */
bool sft__import_walk_length(walk *w, size_t n, bool is_signed, uint64_t *size) {
    const uint8_t *b = sft__import_walk_take(&w->in, n);

    if (b == NULL) {
        return false;
    }
    *size = n == 1 ? b[0] : n == 4 ? sft__base_load_le32(b) : sft__base_load_le64(b);
    return *size <= (is_signed && n == 4 ? (uint64_t)INT32_MAX : (uint64_t)INT64_MAX);
}

static walk_step long_of(walk *w, size_t n) {
    uint64_t size;
    const uint8_t *head;
    size_t head_len;
    uint64_t at;
    uint64_t value = 0;

    if (!sft__import_walk_length(w, n, true, &size) ||
        !sft__import_walk_literal(&w->in, size, true, &head, &head_len, &at)) {
        return WALK_FAIL;
    }
    for (size_t i = 0; i < size && size <= 8; i++) {
        value |= (uint64_t)head[i] << 8 * i;
    }
    return sft__import_walk_push(w, size <= 8 ? sft__import_walk_array_int(w, value)
                                              : walk_make(V_SCALAR, 0))
               ? WALK_GO
               : WALK_FAIL;
}
walk_step sft__import_walk_op_long1(walk *w) {
    return long_of(w, 1);
}
walk_step sft__import_walk_op_long4(walk *w) {
    return long_of(w, 4);
}

/* ---------------------------------------------------------------- strings */

/* The bytes of a string of Python 2: a loader may take them for UTF-8 or for Latin-1. */
static walk_value old_string(walk *w, const uint8_t *bytes, size_t len, const walk_far *far) {
    const bool cut = len < far->size;
    uint8_t text[2 * WALK_TEXT];
    const size_t n = len < WALK_TEXT ? len : WALK_TEXT;

    if (sft__import_walk_utf8(bytes, n, true, true)) {
        return sft__import_walk_string(w, bytes, len, cut, far);
    }
    return sft__import_walk_string(w, text, sft__import_walk_from_latin1(text, bytes, n),
                                   cut || n < len, far);
}

/* UTF-8, or bytes of Python 2, whose encoding the loader chooses. */
static walk_step text_of(walk *w, size_t n, bool utf8) {
    uint64_t size;
    const uint8_t *head;
    size_t head_len;
    uint64_t at;

    if (!sft__import_walk_length(w, n, !utf8, &size) ||
        !sft__import_walk_literal(&w->in, size, true, &head, &head_len, &at)) {
        return WALK_FAIL;
    }
    if (utf8 && !sft__import_walk_utf8(head, head_len, true, head_len < size)) {
        return WALK_FAIL;
    }
    sft__import_walk_keep(w, head, head_len, at, size, true);
    const walk_far far = {at, size, WALK_FAR_PLAIN};
    return sft__import_walk_push(
               w, utf8 ? sft__import_walk_string(w, head, head_len, head_len < size, &far)
                       : old_string(w, head, head_len, &far))
               ? WALK_GO
               : WALK_FAIL;
}
walk_step sft__import_walk_op_text1(walk *w) {
    return text_of(w, 1, true);
}
walk_step sft__import_walk_op_text4(walk *w) {
    return text_of(w, 4, true);
}
walk_step sft__import_walk_op_text8(walk *w) {
    return text_of(w, 8, true);
}
walk_step sft__import_walk_op_string1(walk *w) {
    return text_of(w, 1, false);
}
walk_step sft__import_walk_op_string4(walk *w) {
    return text_of(w, 4, false);
}

static walk_step bytes_of(walk *w, size_t n, unsigned kind) {
    uint64_t size;
    const uint8_t *head;
    size_t head_len;
    uint64_t at;

    if (!sft__import_walk_length(w, n, false, &size) ||
        !sft__import_walk_literal(&w->in, size, false, &head, &head_len, &at)) {
        return WALK_FAIL;
    }
    sft__import_walk_keep(w, head, head_len, at, size, false);
    return walk_push_kind(w, kind, 0);
}
walk_step sft__import_walk_op_bytes1(walk *w) {
    return bytes_of(w, 1, V_BYTES);
}
walk_step sft__import_walk_op_bytes4(walk *w) {
    return bytes_of(w, 4, V_BYTES);
}
walk_step sft__import_walk_op_bytes8(walk *w) {
    return bytes_of(w, 8, V_BYTES);
}
walk_step sft__import_walk_op_bytearray8(walk *w) {
    return bytes_of(w, 8, V_BYTEARRAY);
}

/* ---------------------------------------------------------------- lines */

/* A line that ends; Python takes one that the end of the file cuts, and fails right after. */
const uint8_t *sft__import_walk_whole_line(walk *w, size_t *len, bool *cut) {
    uint64_t all = 0;
    bool whole;
    const uint8_t *text = sft__import_walk_line(&w->in, len, &all, &whole);

    walk_pay_line(w, all);
    *cut = all > *len;
    return text != NULL && whole ? text : NULL;
}

/* -1 is as BININT has it. */
static walk_step push_line(walk *w, bool negative, uint64_t value) {
    const walk_value v = !negative    ? sft__import_walk_array_int(w, value)
                         : value == 1 ? sft__import_walk_array_int(w, UINT32_MAX)
                                      : walk_make(V_SCALAR, 0);
    return sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL;
}

walk_step sft__import_walk_op_int(walk *w) {
    bool negative;
    uint64_t value;
    size_t len;
    bool cut;
    const uint8_t *text = sft__import_walk_whole_line(w, &len, &cut);

    if (text == NULL || !sft__import_walk_int(text, len, 0, &value, &negative)) {
        return WALK_FAIL;
    }
    return push_line(w, negative, value);
}

walk_step sft__import_walk_op_long(walk *w) {
    bool negative;
    uint64_t value;
    size_t len;
    bool cut;
    const uint8_t *text = sft__import_walk_whole_line(w, &len, &cut);

    if (text == NULL) {
        return WALK_FAIL;
    }
    len -= len != 0 && text[len - 1] == 'L' && !cut;
    if (!sft__import_walk_int(text, len, 0, &value, &negative)) {
        return WALK_FAIL;
    }
    return push_line(w, negative, value);
}

walk_step sft__import_walk_op_float(walk *w) {
    size_t len;
    bool cut;
    const uint8_t *text = sft__import_walk_whole_line(w, &len, &cut);

    return text != NULL && sft__import_walk_float(text, len) ? walk_push_kind(w, V_SCALAR, 0)
                                                             : WALK_FAIL;
}

enum {
    DECODE_BYTES = 8,       /* for the price of an opcode */
    FAR_BYTES = 3,          /* the same of a long line, that is read again */
    LITERAL_MOST = 32 << 20 /* bytes of a line that are decoded */
};

/* A line that may be longer than the window: numpy's arrays are, in protocol 0. *owned: to be freed,
 * of *len bytes. */
static const uint8_t *literal_line(walk *w, size_t *len, bool *cut, uint8_t **owned) {
    uint64_t all = 0;
    bool whole;
    const uint8_t *text = sft__import_walk_line(&w->in, len, &all, &whole);

    walk_pay_line(w, all);
    *owned = NULL;
    *cut = all > *len;
    if (text == NULL || !whole || !*cut || all > LITERAL_MOST || w->job->walk_left == 0) {
        return text != NULL && whole ? text : NULL;
    }
    uint8_t *far = sft__base_alloc(w->job->allocator, (size_t)all);
    if (far == NULL || sft_source_read(w->in.source, walk_tell(&w->in) - 1 - all, far, (size_t)all,
                                       NULL) != SFT_OK) {
        sft__base_free(w->job->allocator, far, (size_t)all);
        return text;
    }
    walk_pay(w, all / FAR_BYTES);
    *owned = far;
    *len = (size_t)all;
    *cut = false;
    return far;
}

/* A literal of protocol 0: decoded, kept as text, looked at as a pickle. */
static walk_step literal(walk *w, const uint8_t *text, size_t len, bool cut, uint64_t how) {
    uint8_t *room = sft__base_alloc(w->job->allocator, 2 * len + 8);
    walk_value v = walk_make(V_STR, 0);

    if (room == NULL) {
        w->limited = true;
        return WALK_FAIL;
    }
    const walk_far far = {walk_tell(&w->in) - (how == WALK_FAR_STRING ? 2 : 1) - len, len, how};
    const size_t n = how == WALK_FAR_STRING ? sft__import_walk_escaped(room, text, len)
                                            : sft__import_walk_raw_unicode(room, text, len);
    walk_pay(w, len / DECODE_BYTES);
    if (n != SIZE_MAX) {
        v = sft__import_walk_string(w, room, n, cut, &far);
        sft__import_walk_decoded(w, room, n);
        w->limited = w->limited || cut;
    }
    sft__base_free(w->job->allocator, room, 2 * len + 8);
    return n != SIZE_MAX || cut ? (sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL) : WALK_FAIL;
}

walk_step sft__import_walk_op_string(walk *w) {
    walk_step step = WALK_FAIL;
    uint8_t *owned;
    size_t len;
    bool cut;
    const uint8_t *text = literal_line(w, &len, &cut, &owned);
    const size_t room = len;

    if (text != NULL && len >= 2 && (text[0] == '\'' || text[0] == '"') &&
        (text[len - 1] == text[0] || cut)) {
        step = literal(w, text + 1, len - 1 - !cut, cut, WALK_FAR_STRING);
    }
    sft__base_free(w->job->allocator, owned, room);
    return step;
}

walk_step sft__import_walk_op_unicode(walk *w) {
    uint8_t *owned;
    size_t len;
    bool cut;
    const uint8_t *text = literal_line(w, &len, &cut, &owned);

    const walk_step step = text != NULL ? literal(w, text, len, cut, WALK_FAR_UNICODE) : WALK_FAIL;
    sft__base_free(w->job->allocator, owned, len);
    return step;
}

walk_step sft__import_walk_op_persid(walk *w) {
    size_t len;
    bool cut;
    const uint8_t *text = sft__import_walk_whole_line(w, &len, &cut);

    for (size_t i = 0; text != NULL && i < len; i++) {
        if (text[i] >= 0x80) {
            return WALK_FAIL;
        }
    }
    return text != NULL ? walk_push_kind(w, V_ANY, 0) : WALK_FAIL;
}
