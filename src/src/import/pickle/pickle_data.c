/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/pickle_data.c - the opcodes that make plain data: numbers, strings, containers, the memo.
 * Nothing is copied that could stay in the file, and no length is believed before the bytes are
 * there. Read first: machine.h.
 */
#include "import/pickle/machine.h"

enum { MEMO_DENSE = 1 << 16, LOAD_NAME_MAX = 4096 };

/* ---------------------------------------------------------------- simple values */

sft_status sft__import_op_none(sft__import_machine *m, sft_error *err) {
    return sft__import_pm_push(m, &m->stack, SFT__PK_NO, err);
}

static sft_status put_int(sft__import_machine *m, uint32_t type, int64_t value, sft_error *err) {
    sft__import_pk_node *n;
    SFT_TRY(sft__import_pm_push_new(m, type, &n, err));
    n->u.integer = value;
    return SFT_OK;
}

sft_status sft__import_op_true(sft__import_machine *m, sft_error *err) {
    return put_int(m, SFT__PK_BOOL, 1, err);
}

sft_status sft__import_op_false(sft__import_machine *m, sft_error *err) {
    return put_int(m, SFT__PK_BOOL, 0, err);
}

/* Little-endian operand of n bytes. */
sft_status sft__import_pm_operand(sft__import_machine *m, size_t n, uint64_t *value,
                                  sft_error *err) {
    const uint8_t *b;
    SFT_TRY(sft__import_pk_need(m->in, n, &b, err));
    *value = 0;
    for (size_t i = n; i-- > 0;) {
        *value = *value << 8 | b[i];
    }
    return SFT_OK;
}

sft_status sft__import_op_binint(sft__import_machine *m, sft_error *err) {
    uint64_t v;
    SFT_TRY(sft__import_pm_operand(m, 4, &v, err));
    return put_int(m, SFT__PK_INT, (int32_t)(uint32_t)v, err);
}

sft_status sft__import_op_binint1(sft__import_machine *m, sft_error *err) {
    uint64_t v;
    SFT_TRY(sft__import_pm_operand(m, 1, &v, err));
    return put_int(m, SFT__PK_INT, (int64_t)v, err);
}

sft_status sft__import_op_binint2(sft__import_machine *m, sft_error *err) {
    uint64_t v;
    SFT_TRY(sft__import_pm_operand(m, 2, &v, err));
    return put_int(m, SFT__PK_INT, (int64_t)v, err);
}

static sft_status put_long(sft__import_machine *m, uint64_t n, sft_error *err) {
    const char *text;
    sft__import_pk_node *node;
    uint64_t v = 0;

    SFT_TRY(sft__import_pk_text(m->in, m->job, n, &text, err));
    if (n > 8) {
        SFT_TRY(sft__import_pm_push_new(m, SFT__PK_BIG, &node, err));
        node->u.text = text;
        node->count = (uint32_t)n;
        return SFT_OK;
    }
    for (size_t i = (size_t)n; i-- > 0;) {
        v = v << 8 | (uint8_t)text[i];
    }
    if (n != 0 && n < 8 && (text[n - 1] & 0x80) != 0) {
        v |= UINT64_MAX << (8 * n);
    }
    int64_t value;
    memcpy(&value, &v, sizeof value);
    return put_int(m, SFT__PK_INT, value, err);
}

sft_status sft__import_op_long1(sft__import_machine *m, sft_error *err) {
    uint64_t n;
    SFT_TRY(sft__import_pm_operand(m, 1, &n, err));
    return put_long(m, n, err);
}

sft_status sft__import_op_long4(sft__import_machine *m, sft_error *err) {
    uint64_t n;
    SFT_TRY(sft__import_pm_operand(m, 4, &n, err));
    if (n > INT32_MAX) {
        return sft__import_pm_bad(m, err, "pickle-long",
                                  "an integer of a negative number of bytes");
    }
    return put_long(m, n, err);
}

sft_status sft__import_op_binfloat(sft__import_machine *m, sft_error *err) {
    const uint8_t *b;
    sft__import_pk_node *n;
    uint64_t bits = 0;

    SFT_TRY(sft__import_pk_need(m->in, 8, &b, err));
    for (size_t i = 0; i < 8; i++) {
        bits = bits << 8 | b[i];
    }
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_FLOAT, &n, err));
    memcpy(&n->u.real, &bits, sizeof bits);
    return SFT_OK;
}

static sft_status put_text(sft__import_machine *m, uint64_t len, sft_error *err) {
    const char *text;
    sft__import_pk_node *n;

    SFT_TRY(sft__import_pk_text(m->in, m->job, len, &text, err));
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_STR, &n, err));
    n->u.text = text;
    n->count = (uint32_t)len; /* sft__import_pk_text takes less than 2^32 */
    return SFT_OK;
}

static sft_status text_of(sft__import_machine *m, size_t width, sft_error *err) {
    uint64_t n;
    SFT_TRY(sft__import_pm_operand(m, width, &n, err));
    return put_text(m, n, err);
}

sft_status sft__import_op_text1(sft__import_machine *m, sft_error *err) {
    return text_of(m, 1, err);
}

sft_status sft__import_op_text4(sft__import_machine *m, sft_error *err) {
    return text_of(m, 4, err);
}

sft_status sft__import_op_text8(sft__import_machine *m, sft_error *err) {
    return text_of(m, 8, err);
}

/* Bytes stay where they are. */
static sft_status bytes_of(sft__import_machine *m, size_t width, sft_error *err) {
    sft__import_pk_node *n;
    uint64_t size;

    SFT_TRY(sft__import_pm_operand(m, width, &size, err));
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_BYTES, &n, err));
    n->u.at = sft__import_pk_tell(m->in);
    sft__import_pk_set_number(n, size);
    return sft__import_pk_skip(m->in, size, err);
}

sft_status sft__import_op_bytes1(sft__import_machine *m, sft_error *err) {
    return bytes_of(m, 1, err);
}

sft_status sft__import_op_bytes4(sft__import_machine *m, sft_error *err) {
    return bytes_of(m, 4, err);
}

sft_status sft__import_op_bytes8(sft__import_machine *m, sft_error *err) {
    return bytes_of(m, 8, err);
}

/* A short one is a name as often as not. */
static sft_status put_string(sft__import_machine *m, uint64_t len, sft_error *err) {
    const uint64_t at = sft__import_pk_tell(m->in);

    SFT_TRY(put_text(m, len, err));
    sft__import_pk_node *n = sft__import_pk_at(m->p, m->stack.at[m->stack.count - 1]);
    n->known = SFT__PK_RAW;
    sft__import_pk_set_number(n, at);
    return SFT_OK;
}

sft_status sft__import_op_binstring1(sft__import_machine *m, sft_error *err) {
    uint64_t n;
    SFT_TRY(sft__import_pm_operand(m, 1, &n, err));
    return put_string(m, n, err);
}

/* Python 2 strings: long ones are raw data, and stay where they are. */
sft_status sft__import_op_binstring(sft__import_machine *m, sft_error *err) {
    const uint8_t *b;
    sft__import_pk_node *n;

    SFT_TRY(sft__import_pk_need(m->in, 4, &b, err));
    const uint32_t size = sft__base_load_le32(b);
    if (size > INT32_MAX) {
        return sft__import_pm_bad(m, err, "pickle-string",
                                  "a string of a negative number of bytes");
    }
    if (size < LOAD_NAME_MAX) {
        return put_string(m, size, err);
    }
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_BYTES, &n, err));
    n->u.at = sft__import_pk_tell(m->in);
    sft__import_pk_set_number(n, size);
    return sft__import_pk_skip(m->in, size, err);
}

/* ---------------------------------------------------------------- the text forms of protocol 0 */

sft_status sft__import_op_int(sft__import_machine *m, sft_error *err) {
    const char *line;
    int64_t value;
    size_t len;

    SFT_TRY(sft__import_pk_line(m->in, &line, &len, err));
    if (len == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1')) {
        return put_int(m, SFT__PK_BOOL, line[1] - '0', err);
    }
    len -= len > 0 && line[len - 1] == 'L';
    if (!sft__import_pk_decimal(line, len, &value)) {
        return sft__import_pm_bad(m, err, "pickle-int", "text that is no integer below 2^63");
    }
    return put_int(m, SFT__PK_INT, value, err);
}

sft_status sft__import_op_float(sft__import_machine *m, sft_error *err) {
    const char *line;
    sft__import_pk_node *n;
    size_t len;

    SFT_TRY(sft__import_pk_line(m->in, &line, &len, err));
    if (len == 0 || len > 64) {
        return sft__import_pm_bad(m, err, "pickle-float", "text that is no number");
    }
    char *copy;
    SFT_TRY(sft__import_copy(m->job, &copy, line, len, err));
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_FLOAT, &n, err));
    n->known = 1;
    n->u.text = copy;
    n->count = (uint32_t)len;
    return SFT_OK;
}

static sft_status line_text(sft__import_machine *m, size_t (*decode)(char *, const char *, size_t),
                            uint16_t known, sft_error *err) {
    sft__import_pk_node *n;
    size_t len;
    char *room;

    SFT_TRY(sft__import_pk_line_copy(m->in, m->job, &room, &len, err));
    len = decode(room, room + len + SFT__PK_DECODE, len);
    if (len == SIZE_MAX) {
        return sft__import_pm_bad(m, err, "pickle-string", "a damaged string literal");
    }
    room[len] = '\0';
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_STR, &n, err));
    n->u.text = room;
    n->count = (uint32_t)len; /* a line has less than 2^31 */
    n->known = known;
    return SFT_OK;
}

sft_status sft__import_op_string(sft__import_machine *m, sft_error *err) {
    return line_text(m, sft__import_pk_repr, SFT__PK_LATIN1, err);
}

sft_status sft__import_op_unicode(sft__import_machine *m, sft_error *err) {
    return line_text(m, sft__import_pk_raw_unicode, 0, err);
}

/* ---------------------------------------------------------------- containers */

sft_status sft__import_op_empty_list(sft__import_machine *m, sft_error *err) {
    return sft__import_pm_collect(m, SFT__PK_LIST, m->stack.count, err);
}

sft_status sft__import_op_empty_tuple(sft__import_machine *m, sft_error *err) {
    return sft__import_pm_collect(m, SFT__PK_TUPLE, m->stack.count, err);
}

sft_status sft__import_op_empty_dict(sft__import_machine *m, sft_error *err) {
    return sft__import_pm_collect(m, SFT__PK_DICT, m->stack.count, err);
}

sft_status sft__import_op_empty_set(sft__import_machine *m, sft_error *err) {
    return sft__import_pm_collect(m, SFT__PK_SET, m->stack.count, err);
}

static sft_status marked(sft__import_machine *m, uint32_t type, sft_error *err) {
    size_t first;
    SFT_TRY(sft__import_pm_to_mark(m, &first, err));
    return sft__import_pm_collect(m, type, first, err);
}

sft_status sft__import_op_list(sft__import_machine *m, sft_error *err) {
    return marked(m, SFT__PK_LIST, err);
}

sft_status sft__import_op_tuple(sft__import_machine *m, sft_error *err) {
    return marked(m, SFT__PK_TUPLE, err);
}

sft_status sft__import_op_dict(sft__import_machine *m, sft_error *err) {
    return marked(m, SFT__PK_DICT, err);
}

sft_status sft__import_op_frozenset(sft__import_machine *m, sft_error *err) {
    SFT_TRY(marked(m, SFT__PK_SET, err));
    sft__import_pk_at(m->p, m->stack.at[m->stack.count - 1])->known = 1;
    return SFT_OK;
}

static sft_status tuple_of(sft__import_machine *m, size_t n, sft_error *err) {
    if (m->stack.count - sft__import_pm_floor(m) < n) {
        return sft__import_pm_bad(m, err, "pickle-stack", "a tuple of more values than there are");
    }
    return sft__import_pm_collect(m, SFT__PK_TUPLE, m->stack.count - n, err);
}

sft_status sft__import_op_tuple1(sft__import_machine *m, sft_error *err) {
    return tuple_of(m, 1, err);
}

sft_status sft__import_op_tuple2(sft__import_machine *m, sft_error *err) {
    return tuple_of(m, 2, err);
}

sft_status sft__import_op_tuple3(sft__import_machine *m, sft_error *err) {
    return tuple_of(m, 3, err);
}

sft_status sft__import_op_mark(sft__import_machine *m, sft_error *err) {
    return sft__import_pm_push(m, &m->marks, (uint32_t)m->stack.count, err);
}

/* Adds to the container on top: of this type, or a record of a class that is nothing to us.
 * Anything else is the confusion behind CVE-2026-24747. */
static sft_status add_to(sft__import_machine *m, uint32_t type, size_t first, sft_error *err) {
    const size_t count = m->stack.count - first;
    uint32_t id;

    m->stack.count = first;
    SFT_TRY(sft__import_pm_top(m, &id, err));
    sft__import_pk_node *n = sft__import_pk_at(m->p, id);
    const bool record = n->type == SFT__PK_CALL &&
                        (n->known == SFT__G_UNKNOWN || n->known == SFT__G_INERT) &&
                        type != SFT__PK_SET;
    if (type == SFT__PK_DICT && count % 2 != 0) {
        return sft__import_pm_bad(m, err, "pickle-items", "an odd number of keys and values");
    }
    if (n->type != type && !record) {
        return sft__import_pm_odd(
            m, SFT_SCAN_DANGEROUS, "pickle-type", err,
            "items are put into something that is no such container (CVE-2026-24747)");
    }
    return sft__import_pm_items_add(m, n, m->stack.at + first, count, err);
}

static sft_status add_marked(sft__import_machine *m, uint32_t type, sft_error *err) {
    size_t first;
    SFT_TRY(sft__import_pm_to_mark(m, &first, err));
    return add_to(m, type, first, err);
}

sft_status sft__import_op_appends(sft__import_machine *m, sft_error *err) {
    return add_marked(m, SFT__PK_LIST, err);
}

sft_status sft__import_op_setitems(sft__import_machine *m, sft_error *err) {
    return add_marked(m, SFT__PK_DICT, err);
}

sft_status sft__import_op_additems(sft__import_machine *m, sft_error *err) {
    return add_marked(m, SFT__PK_SET, err);
}

static sft_status add_last(sft__import_machine *m, uint32_t type, size_t n, sft_error *err) {
    if (m->stack.count - sft__import_pm_floor(m) < n + 1) {
        return sft__import_pm_bad(m, err, "pickle-stack",
                                  "an opcode takes more values than there are");
    }
    return add_to(m, type, m->stack.count - n, err);
}

sft_status sft__import_op_append(sft__import_machine *m, sft_error *err) {
    return add_last(m, SFT__PK_LIST, 1, err);
}

sft_status sft__import_op_setitem(sft__import_machine *m, sft_error *err) {
    return add_last(m, SFT__PK_DICT, 2, err);
}

/* ---------------------------------------------------------------- memo */

static sft_status memo_put(sft__import_machine *m, uint64_t index, sft_error *err) {
    uint32_t id;

    SFT_TRY(sft__import_pm_top(m, &id, err));
    if (index >= MEMO_DENSE && index > 2 * (uint64_t)m->memo_set) {
        return sft__import_pm_bad(m, err, "pickle-memo", "a memo index far beyond what was stored");
    }
    while (m->memo.count <= index) {
        SFT_TRY(sft__import_pm_push(m, &m->memo, 0, err));
    }
    m->memo_set += m->memo.at[index] == 0;
    m->memo.at[index] = id + 1;
    return SFT_OK;
}

static sft_status memo_get(sft__import_machine *m, uint64_t index, sft_error *err) {
    if (index >= m->memo.count || m->memo.at[index] == 0) {
        return sft__import_pm_bad(m, err, "pickle-memo", "a memo index that was never stored");
    }
    return sft__import_pm_push(m, &m->stack, m->memo.at[index] - 1, err);
}

sft_status sft__import_op_binput(sft__import_machine *m, sft_error *err) {
    uint64_t i;
    SFT_TRY(sft__import_pm_operand(m, 1, &i, err));
    return memo_put(m, i, err);
}

sft_status sft__import_op_long_binput(sft__import_machine *m, sft_error *err) {
    uint64_t i;
    SFT_TRY(sft__import_pm_operand(m, 4, &i, err));
    return memo_put(m, i, err);
}

sft_status sft__import_op_memoize(sft__import_machine *m, sft_error *err) {
    return memo_put(m, m->memo_set, err);
}

sft_status sft__import_op_binget(sft__import_machine *m, sft_error *err) {
    uint64_t i;
    SFT_TRY(sft__import_pm_operand(m, 1, &i, err));
    return memo_get(m, i, err);
}

sft_status sft__import_op_long_binget(sft__import_machine *m, sft_error *err) {
    uint64_t i;
    SFT_TRY(sft__import_pm_operand(m, 4, &i, err));
    return memo_get(m, i, err);
}

static sft_status line_index(sft__import_machine *m, int64_t *index, sft_error *err) {
    const char *line;
    size_t len;

    SFT_TRY(sft__import_pk_line(m->in, &line, &len, err));
    if (!sft__import_pk_decimal(line, len, index) || *index < 0) {
        return sft__import_pm_bad(m, err, "pickle-memo", "text that is no memo index");
    }
    return SFT_OK;
}

sft_status sft__import_op_put(sft__import_machine *m, sft_error *err) {
    int64_t i;
    SFT_TRY(line_index(m, &i, err));
    return memo_put(m, (uint64_t)i, err);
}

sft_status sft__import_op_get(sft__import_machine *m, sft_error *err) {
    int64_t i;
    SFT_TRY(line_index(m, &i, err));
    return memo_get(m, (uint64_t)i, err);
}
