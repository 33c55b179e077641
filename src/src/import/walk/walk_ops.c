/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_ops.c - one function per opcode of the stack, memo, names and calls: what stays
 * on the stack, and whether both of CPython's implementations would fail. What fails by the values
 * of objects (a key that cannot be hashed, a call that raises) does not fail here. Read first:
 * walk.h.
 */
#include "import/walk/walk_data.h"

/* ---------------------------------------------------------------- the stack itself */

static walk_step op_mark(walk *w) {
    const size_t height = w->stack.count;
    walk_values *m = &w->marks;

    if (m->count == m->room &&
        (m->count >= 8 << 20 ||
         !sft__base_grow(w->job->allocator, &m->at, &m->room, m->count + 1, sizeof *m->at))) {
        w->limited = true;
        return WALK_FAIL;
    }
    m->at[m->count++] = (walk_value)height;
    return WALK_GO;
}

static walk_step op_pop(walk *w) {
    walk_value v;
    size_t first;

    return sft__import_walk_pop(w, &v) || sft__import_walk_mark(w, &first) ? WALK_GO : WALK_FAIL;
}

static walk_step op_pop_mark(walk *w) {
    size_t first;

    if (!sft__import_walk_mark(w, &first)) {
        return WALK_FAIL;
    }
    w->stack.count = first;
    return WALK_GO;
}

static walk_step op_dup(walk *w) {
    walk_value *top;

    if (!sft__import_walk_top(w, &top)) {
        return WALK_FAIL;
    }
    *top = walk_shared(*top);
    walk_use(w, *top);
    return sft__import_walk_push(w, *top) ? WALK_GO : WALK_FAIL;
}

/* ---------------------------------------------------------------- containers */

static walk_step tuple_of(walk *w, size_t n) {
    if (w->stack.count - sft__import_walk_floor(w) < n) {
        return WALK_FAIL;
    }
    const walk_value v = sft__import_walk_array_tuple(w, w->stack.at + w->stack.count - n, n);
    sft__import_walk_settings_list(w, w->stack.count - n, w->stack.count - n);
    w->stack.count -= n;
    return sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL;
}
static walk_step op_tuple1(walk *w) {
    return tuple_of(w, 1);
}
static walk_step op_tuple2(walk *w) {
    return tuple_of(w, 2);
}
static walk_step op_tuple3(walk *w) {
    return tuple_of(w, 3);
}

static walk_step op_tuple(walk *w) {
    size_t first;

    if (!sft__import_walk_mark(w, &first)) {
        return WALK_FAIL;
    }
    const size_t n = w->stack.count - first;
    const walk_value v = sft__import_walk_array_tuple(w, n != 0 ? w->stack.at + first : NULL, n);
    sft__import_walk_settings_list(w, first, first);
    w->stack.count = first;
    return sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL;
}

static walk_step collect(walk *w, unsigned kind) {
    size_t first;

    if (!sft__import_walk_mark(w, &first) ||
        (kind == V_DICT && (w->stack.count - first) % 2 != 0)) {
        return WALK_FAIL;
    }
    walk_value made_of = walk_make(kind, kind == V_DICT ? WALK_DICT_FRESH : 0);
    for (size_t i = first; kind == V_DICT && i + 1 < w->stack.count; i += 2) {
        sft__import_walk_array_item(w, w->stack.at[i], w->stack.at[i + 1]);
        made_of = sft__import_walk_dict_item(w, made_of, w->stack.at[i + 1]);
    }
    if (kind == V_DICT) {
        sft__import_walk_settings_items(w, first, first);
    } else {
        sft__import_walk_settings_list(w, first, first);
    }
    w->stack.count = first;
    return sft__import_walk_push(w, made_of) ? WALK_GO : WALK_FAIL;
}
static walk_step op_to_list(walk *w) {
    return collect(w, V_LIST);
}
static walk_step op_to_dict(walk *w) {
    return collect(w, V_DICT);
}
static walk_step op_frozenset(walk *w) {
    return collect(w, V_FROZENSET);
}

/* May the values from `first` on go into what lies below them? They do. */
static walk_step put_into(walk *w, size_t first, unsigned a, unsigned b, unsigned c) {
    const size_t count = w->stack.count - first;

    if (first <= sft__import_walk_floor(w)) {
        return WALK_FAIL;
    }
    const walk_value into = w->stack.at[first - 1];
    const unsigned kind = walk_kind(into);
    w->stack.count = first;
    return count == 0 || walk_opaque(into) || kind == a || kind == b || kind == c ? WALK_GO
                                                                                  : WALK_FAIL;
}

static walk_step put_items(walk *w, size_t first, unsigned a, unsigned b) {
    if (first > sft__import_walk_floor(w)) {
        sft__import_walk_settings_list(w, first, first - 1);
    }
    return put_into(w, first, a, b, b);
}

static walk_step op_appends(walk *w) {
    size_t first;
    return sft__import_walk_mark(w, &first) ? put_items(w, first, V_LIST, V_BYTEARRAY) : WALK_FAIL;
}

static walk_step op_append(walk *w) {
    return w->stack.count - sft__import_walk_floor(w) >= 2
               ? put_items(w, w->stack.count - 1, V_LIST, V_BYTEARRAY)
               : WALK_FAIL;
}

static walk_step op_additems(walk *w) {
    size_t first;
    return sft__import_walk_mark(w, &first) ? put_items(w, first, V_SET, V_SET) : WALK_FAIL;
}

static walk_step items(walk *w, size_t first) {
    const size_t count = w->stack.count - first;

    if (count % 2 != 0) {
        return WALK_FAIL;
    }
    const bool dict =
        first > sft__import_walk_floor(w) && walk_kind(w->stack.at[first - 1]) == V_DICT;
    for (size_t i = first; i < w->stack.count; i += 2) {
        sft__import_walk_array_item(w, w->stack.at[i], w->stack.at[i + 1]);
        if (dict) {
            w->stack.at[first - 1] =
                sft__import_walk_dict_item(w, w->stack.at[first - 1], w->stack.at[i + 1]);
        }
    }
    if (first > sft__import_walk_floor(w)) {
        sft__import_walk_settings_items(w, first, first - 1);
    }
    return put_into(w, first, V_DICT, V_LIST, V_BYTEARRAY);
}

static walk_step op_setitems(walk *w) {
    size_t first;
    return sft__import_walk_mark(w, &first) ? items(w, first) : WALK_FAIL;
}

static walk_step op_setitem(walk *w) {
    return w->stack.count - sft__import_walk_floor(w) >= 3 ? items(w, w->stack.count - 2)
                                                           : WALK_FAIL;
}

/* ---------------------------------------------------------------- the memo */

static walk_step memo_put(walk *w, uint64_t key) {
    walk_value *top;

    if (!sft__import_walk_top(w, &top)) {
        return WALK_FAIL;
    }
    sft__import_walk_memo_put(w, key, walk_shared(*top));
    return WALK_GO;
}

static walk_step memo_get(walk *w, uint64_t key) {
    walk_value v;

    w->reread = true;
    if (!sft__import_walk_memo_get(w, key, &v)) {
        return WALK_FAIL;
    }
    walk_use(w, v);
    return sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL;
}

/* The number of a line; larger ones than Python's C code knows are keys of its dict. */
static bool memo_key(walk *w, uint64_t *key) {
    bool negative;
    size_t len;
    bool cut;
    const uint8_t *text = sft__import_walk_whole_line(w, &len, &cut);

    return text != NULL && sft__import_walk_int(text, len, 10, key, &negative) &&
           (!negative || *key == 0);
}

static walk_step op_put(walk *w) {
    uint64_t key;
    return memo_key(w, &key) ? memo_put(w, key) : WALK_FAIL;
}
static walk_step op_get(walk *w) {
    uint64_t key;
    return memo_key(w, &key) ? memo_get(w, key) : WALK_FAIL;
}
static walk_step op_binput(walk *w) {
    const uint8_t *b = sft__import_walk_take(&w->in, 1);
    return b != NULL ? memo_put(w, *b) : WALK_FAIL;
}
static walk_step op_long_binput(walk *w) {
    const uint8_t *b = sft__import_walk_take(&w->in, 4);
    return b != NULL ? memo_put(w, sft__base_load_le32(b)) : WALK_FAIL;
}
static walk_step op_binget(walk *w) {
    const uint8_t *b = sft__import_walk_take(&w->in, 1);
    return b != NULL ? memo_get(w, *b) : WALK_FAIL;
}
static walk_step op_long_binget(walk *w) {
    const uint8_t *b = sft__import_walk_take(&w->in, 4);
    return b != NULL ? memo_get(w, sft__base_load_le32(b)) : WALK_FAIL;
}
static walk_step op_memoize(walk *w) {
    w->reread = true; /* its number is how many there are */
    return memo_put(w, w->memo.count);
}

/* ---------------------------------------------------------------- names and calls */

/* A line of GLOBAL or INST as Python's own code takes it, which takes empty ones, none, and those
 * that the end of the file cuts: without their last byte, for it takes that for the '\n'. False:
 * its bytes are no text. */
static bool half_of_name(walk *w, bool ascii, char room[WALK_TEXT], walk_words *half, bool *whole) {
    uint64_t all = 0;
    size_t len = 0;
    const uint8_t *text = sft__import_walk_line(&w->in, &len, &all, whole);

    walk_pay_line(w, all);
    len = text == NULL ? 0 : *whole || len == 0 ? len : len - 1;
    *whole = *whole && text != NULL;
    if (w->in.status != SFT_OK ||
        (len != 0 && !sft__import_walk_utf8(text, len, false, all > len + 1))) {
        return false;
    }
    for (size_t i = 0; i < len && ascii; i++) {
        if (text[i] >= 0x80) {
            return false;
        }
    }
    *half = (walk_words){room, len < WALK_TEXT ? len : WALK_TEXT};
    if (len != 0) {
        memcpy(room, text, half->len);
    }
    return true;
}

/* Both lines, and what a lookup gives; *more: nothing was cut, so that a pickle may go on. */
static bool names(walk *w, bool ascii, walk_value *found, bool *more) {
    char rooms[2][WALK_TEXT];
    walk_words module;
    walk_words name = {rooms[1], 0};
    bool whole;

    *more = false;
    if (!half_of_name(w, ascii, rooms[0], &module, &whole) ||
        (whole && !half_of_name(w, ascii, rooms[1], &name, more))) {
        return false;
    }
    *found = sft__import_walk_name(w, module, name);
    return true;
}

/* Could C or Python call something with it? Every container is taken. */
static bool is_arguments(walk_value v) {
    const unsigned kind = walk_kind(v);
    return kind != V_NONE && kind != V_INT && kind != V_SCALAR;
}

static walk_step op_global(walk *w) {
    walk_value found;
    bool more;
    return names(w, false, &found, &more) && more && sft__import_walk_push(w, found) ? WALK_GO
                                                                                     : WALK_FAIL;
}

/* What calling a class or function gives. */
static walk_step made(walk *w, walk_value of) {
    const uint32_t role = walk_kind(of) == V_CLASS ? walk_number(of) : WALK_ROLE_NONE;
    const walk_value array = sft__import_walk_array_new(w, of);
    if (walk_kind(array) != V_ANY) {
        return sft__import_walk_push(w, array) ? WALK_GO : WALK_FAIL;
    }
    const bool wrapper = role == WALK_ROLE_WRAPPER && (w->ways & WALK_JOBLIB) != 0;
    return walk_push_kind(w, wrapper ? V_WRAPPER : role != WALK_ROLE_NONE ? V_OBJECT : V_ANY, 0);
}

/* Does the walk begin where an unpickler does by itself? Words that spell opcodes are rare there. */
static bool is_first_of_all(const walk *w) {
    return (w->part->flags & (SFT__SCAN_LINE | SFT__SCAN_NESTED)) == 0;
}

/* Python looks the name up before it looks for the mark, and calls what the end of the file cuts.
 */
static walk_step op_inst(walk *w) {
    walk_value found;
    size_t first;
    bool more;

    if (!names(w, true, &found, &more) || !sft__import_walk_mark(w, &first)) {
        return WALK_FAIL;
    }
    w->stack.count = first;
    if (!w->loose || (w->printed && is_first_of_all(w))) { /* "(including" is a mark and an INST */
        sft__import_walk_called(w, true);
    }
    return more ? made(w, found) : WALK_FAIL;
}

static walk_step op_stack_global(walk *w) {
    walk_value name;
    walk_value module;
    walk_words words[2];

    if (!sft__import_walk_pop(w, &name) || !sft__import_walk_pop(w, &module)) {
        return WALK_FAIL;
    }
    const walk_value both[2] = {module, name};
    for (int i = 0; i < 2; i++) {
        const walk_text *t =
            walk_kind(both[i]) == V_STR ? sft__import_walk_text(w, walk_number(both[i])) : NULL;
        const bool other =
            walk_kind(both[i]) >= V_DTYPE || /* no text */
            (walk_kind(both[i]) == V_CLASS && walk_number(both[i]) != WALK_ROLE_NONE);
        if (t == NULL && (other || !walk_opaque(both[i])) && walk_kind(both[i]) != V_STR) {
            return WALK_FAIL;
        }
        if (t == NULL) {
            sft__import_walk_odd(
                w, SFT_SCAN_DANGEROUS, "", "computed-name",
                "a name that is made by a call or is not at hand here is looked up: it "
                "could be any");
            return walk_push_kind(w, V_CLASS, 0);
        }
        words[i] = (walk_words){w->pool + t->at, t->len};
    }
    return sft__import_walk_push(w, sft__import_walk_name(w, words[0], words[1])) ? WALK_GO
                                                                                  : WALK_FAIL;
}

static walk_step extension(walk *w, size_t n) {
    const uint8_t *b = sft__import_walk_take(&w->in, n);
    uint32_t code = 0;

    for (size_t i = 0; b != NULL && i < n; i++) {
        code |= (uint32_t)b[i] << 8 * i;
    }
    if (b == NULL || code == 0 || code > INT32_MAX) {
        return WALK_FAIL;
    }
    sft__import_walk_odd(
        w, SFT_SCAN_UNKNOWN, "", "extension-code",
        "a code of copyreg's registry stands for a name that only the loading program "
        "knows");
    return walk_push_kind(w, V_CLASS, 0);
}
static walk_step op_ext1(walk *w) {
    return extension(w, 1);
}
static walk_step op_ext2(walk *w) {
    return extension(w, 2);
}
static walk_step op_ext4(walk *w) {
    return extension(w, 4);
}

static walk_step called_with(walk *w, walk_value of, walk_value args) {
    const walk_value v = sft__import_walk_array_call(w, of, args);
    return walk_kind(v) != V_ANY ? (sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL)
                                 : made(w, of);
}

static walk_step op_reduce(walk *w) {
    walk_value args;
    walk_value of;

    if (!sft__import_walk_pop(w, &args) || !sft__import_walk_pop(w, &of) || !walk_opaque(of)) {
        return WALK_FAIL;
    }
    if (is_arguments(args)) { /* Python's own code takes whatever it can go through */
        const bool usual = walk_kind(args) == V_TUPLE || walk_kind(args) == V_ANY;
        sft__import_walk_called(w, usual || is_first_of_all(w));
    }
    return called_with(w, of, args);
}

static walk_step new_of(walk *w, size_t args) {
    walk_value given = walk_make(V_ANY, 0);
    walk_value v;

    for (size_t i = 0; i <= args; i++) {
        given = i == 1 ? v : given;
        if (!sft__import_walk_pop(w, &v)) {
            return WALK_FAIL;
        }
    }
    if (!walk_opaque(v)) {
        return WALK_FAIL;
    }
    sft__import_walk_called(w, true);
    return called_with(w, v, args == 1 ? given : walk_make(V_ANY, 0));
}
static walk_step op_newobj(walk *w) {
    return new_of(w, 1);
}
static walk_step op_newobj_ex(walk *w) {
    return new_of(w, 2);
}

static walk_step op_obj(walk *w) {
    size_t first;

    if (!sft__import_walk_mark(w, &first) || w->stack.count <= first) {
        return WALK_FAIL;
    }
    const walk_value of = w->stack.at[first];
    w->stack.count = first;
    if (!walk_opaque(of)) {
        return WALK_FAIL;
    }
    sft__import_walk_called(w, true);
    return made(w, of);
}

static walk_step op_build(walk *w) {
    walk_value state;
    walk_value *inst;

    if (!sft__import_walk_pop(w, &state) || !sft__import_walk_top(w, &inst)) {
        return WALK_FAIL;
    }
    if (walk_kind(*inst) == V_CLASS && walk_kind(state) != V_NONE) {
        sft__import_walk_odd(w, SFT_SCAN_UNKNOWN, "", "pickle-build",
                             "changes a class, function or module instead of an object of its own");
    }
    if (walk_kind(*inst) == V_DTYPE) {
        sft__import_walk_dtype_state(w, *inst, state);
    }
    if (walk_kind(*inst) == V_WRAPPER) {
        *inst = walk_make(V_OBJECT, 0);
        return sft__import_walk_array_built(w);
    }
    return WALK_GO;
}

static walk_step op_binpersid(walk *w) {
    walk_value id;
    return sft__import_walk_pop(w, &id) ? walk_push_kind(w, V_ANY, 0) : WALK_FAIL;
}

static walk_step op_next_buffer(walk *w) {
    return walk_push_kind(w, V_ANY, 0);
}

/* Strings of Python 2 are bytes to who asks for that. */
static walk_step op_readonly_buffer(walk *w) {
    walk_value *top;
    return sft__import_walk_top(w, &top) &&
                   (walk_opaque(*top) || walk_kind(*top) == V_BYTES ||
                    walk_kind(*top) == V_BYTEARRAY || walk_kind(*top) == V_STR)
               ? WALK_GO
               : WALK_FAIL;
}

/* ---------------------------------------------------------------- the stream */

static walk_step op_proto(walk *w) {
    const uint8_t *b = sft__import_walk_take(&w->in, 1);

    if (b == NULL || *b > 5) {
        return WALK_FAIL;
    }
    return WALK_GO;
}

static walk_step op_frame(walk *w) {
    uint64_t size;

    if (!sft__import_walk_length(w, 8, false, &size)) {
        return WALK_FAIL;
    }
    const uint64_t at = walk_tell(&w->in);
    const uint64_t left = w->in.end - at;
    const uint64_t stop = at + (size < left ? size : left);
    if (w->in.frame != 0 && stop <= w->in.frame) {
        return WALK_GO; /* within the one that is there */
    }
    if (w->in.frame > at) {
        w->in.crossed = true;
        if (w->in.drop) {
            sft__import_walk_seek(&w->in, w->in.frame);
            const uint64_t rest = w->in.end - w->in.frame;
            w->in.frame += size < rest ? size : rest;
            return WALK_GO;
        }
    }
    w->in.frame = stop;
    return WALK_GO;
}

static walk_step op_stop(walk *w) {
    walk_value v;
    return sft__import_walk_pop(w, &v) ? WALK_STOP : WALK_FAIL;
}

/* Source: CPython Lib/pickletools.py. */
const walk_op sft__import_walk_ops[256] = {
    ['('] = op_mark,
    ['.'] = op_stop,
    ['0'] = op_pop,
    ['1'] = op_pop_mark,
    ['2'] = op_dup,
    ['F'] = sft__import_walk_op_float,
    ['I'] = sft__import_walk_op_int,
    ['J'] = sft__import_walk_op_binint,
    ['K'] = sft__import_walk_op_binint1,
    ['L'] = sft__import_walk_op_long,
    ['M'] = sft__import_walk_op_binint2,
    ['N'] = sft__import_walk_op_none,
    ['P'] = sft__import_walk_op_persid,
    ['Q'] = op_binpersid,
    ['R'] = op_reduce,
    ['S'] = sft__import_walk_op_string,
    ['T'] = sft__import_walk_op_string4,
    ['U'] = sft__import_walk_op_string1,
    ['V'] = sft__import_walk_op_unicode,
    ['X'] = sft__import_walk_op_text4,
    ['a'] = op_append,
    ['b'] = op_build,
    ['c'] = op_global,
    ['d'] = op_to_dict,
    ['}'] = sft__import_walk_op_dict,
    ['e'] = op_appends,
    ['g'] = op_get,
    ['h'] = op_binget,
    ['i'] = op_inst,
    ['j'] = op_long_binget,
    ['l'] = op_to_list,
    [']'] = sft__import_walk_op_list,
    ['o'] = op_obj,
    ['p'] = op_put,
    ['q'] = op_binput,
    ['r'] = op_long_binput,
    ['s'] = op_setitem,
    ['t'] = op_tuple,
    [')'] = sft__import_walk_op_empty_tuple,
    ['u'] = op_setitems,
    ['G'] = sft__import_walk_op_binfloat,
    ['B'] = sft__import_walk_op_bytes4,
    ['C'] = sft__import_walk_op_bytes1,
    [0x80] = op_proto,
    [0x81] = op_newobj,
    [0x82] = op_ext1,
    [0x83] = op_ext2,
    [0x84] = op_ext4,
    [0x85] = op_tuple1,
    [0x86] = op_tuple2,
    [0x87] = op_tuple3,
    [0x88] = sft__import_walk_op_scalar,
    [0x89] = sft__import_walk_op_scalar,
    [0x8a] = sft__import_walk_op_long1,
    [0x8b] = sft__import_walk_op_long4,
    [0x8c] = sft__import_walk_op_text1,
    [0x8d] = sft__import_walk_op_text8,
    [0x8e] = sft__import_walk_op_bytes8,
    [0x8f] = sft__import_walk_op_set,
    [0x90] = op_additems,
    [0x91] = op_frozenset,
    [0x92] = op_newobj_ex,
    [0x93] = op_stack_global,
    [0x94] = op_memoize,
    [0x95] = op_frame,
    [0x96] = sft__import_walk_op_bytearray8,
    [0x97] = op_next_buffer,
    [0x98] = op_readonly_buffer,
};
