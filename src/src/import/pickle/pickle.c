/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/pickle.c - see pickle.h: names and calls, the stream, and one function per opcode
 * in a table of 256. Opcodes that no pickler emits for data (INST, OBJ, POP, DUP, EXT, ...) are
 * refused when loading; a scan carries them out symbolically, so that what they hide is seen. Read
 * first: machine.h.
 */
#include "import/pickle/machine.h"

typedef sft_status (*op_fn)(sft__import_machine *m, sft_error *err);

/* An opcode for so many bytes of the memory limit (48 million by default, in all pickles of a
 * file): what they make would not fit, and deflate makes billions of them out of nothing. */
enum { OPCODE_BYTES = 4, SCAN_OPCODES = 12 << 20 };

/* ---------------------------------------------------------------- names and calls */

static sft_status push_global(sft__import_machine *m, const char *module, size_t module_len,
                              const char *name, size_t name_len, sft_error *err) {
    const sft__import_global *row = sft__import_global_find(module, module_len, name, name_len);
    sft__import_pk_node *n;
    const char *why;
    char *text;

    SFT_TRY(sft__import_alloc(m->job, &text, module_len + name_len + 2, 1, err));
    memcpy(text, module, module_len);
    text[module_len] = '.';
    memcpy(text + module_len + 1, name, name_len);
    text[module_len + 1 + name_len] = '\0';
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_GLOBAL, &n, err));
    n->u.text = text;
    n->count = (uint32_t)(module_len + 1 + name_len);
    n->known = row != NULL ? row->known : SFT__G_UNKNOWN;
    n->argument = row != NULL ? row->argument : 0;
    if (m->job->named && m->job->format != SFT_IMPORT_TORCH_TAR) {
        return SFT_OK; /* of a tar only this code sees all */
    }
    const uint32_t verdict =
        sft__import_global_verdict(row, text, module_len, text + module_len + 1, name_len, &why);
    sft__import_find(m->job, SFT_FINDING_GLOBAL, verdict, text, n->count, "global", m->opcode_at,
                     "%s", why);
    return SFT_OK;
}

/* Two lines; the first stays valid only until the second is read. */
static sft_status read_global(sft__import_machine *m, sft_error *err) {
    const char *line;
    size_t name_len;
    size_t len;
    char *module;

    SFT_TRY(sft__import_pk_line(m->in, &line, &len, err));
    SFT_TRY(sft__import_copy(m->job, &module, line, len, err));
    SFT_TRY(sft__import_pk_line(m->in, &line, &name_len, err));
    return push_global(m, module, len, line, name_len, err);
}

static sft_status op_stack_global(sft__import_machine *m, sft_error *err) {
    uint32_t name;
    uint32_t module;

    SFT_TRY(sft__import_pm_pop(m, &name, err));
    SFT_TRY(sft__import_pm_pop(m, &module, err));
    const sft__import_pk_node *a = sft__import_pk_at(m->p, module);
    const sft__import_pk_node *b = sft__import_pk_at(m->p, name);
    if (a->type != SFT__PK_STR || b->type != SFT__PK_STR) {
        return sft__import_pm_bad(m, err, "pickle-global", "the name of a global is no string");
    }
    return push_global(m, a->u.text, a->count, b->u.text, b->count, err);
}

/* OrderedDict([[k, v], ...]) as Python 2 wrote it. */
static sft_status pairs_to_dict(sft__import_machine *m, uint32_t list, sft__import_pk_node *dict,
                                sft_error *err) {
    sft__import_pk_iter it = sft__import_pk_begin(sft__import_pk_at(m->p, list));
    uint32_t id;

    while (sft__import_pk_next(&it, &id)) {
        const sft__import_pk_node *pair = sft__import_pk_at(m->p, id);
        const uint32_t both[2] = {sft__import_pk_item(m->p, id, 0),
                                  sft__import_pk_item(m->p, id, 1)};
        if ((pair->type != SFT__PK_LIST && pair->type != SFT__PK_TUPLE) || pair->count != 2) {
            return sft__import_pm_bad(m, err, "pickle-items",
                                      "a dict is made of something that is no pair");
        }
        SFT_TRY(sft__import_pm_items_add(m, dict, both, 2, err));
    }
    return SFT_OK;
}

/* Calls whose result is plain data. *made: false if it is not one of them. */
static sft_status plain_call(sft__import_machine *m, uint32_t known, uint32_t args, bool *made,
                             sft_error *err) {
    const uint32_t first = sft__import_pk_item(m->p, args, 0);
    const uint32_t count = sft__import_pk_at(m->p, args)->count;
    const uint32_t first_type = sft__import_pk_at(m->p, first)->type;
    const bool listed =
        first_type == SFT__PK_LIST || first_type == SFT__PK_TUPLE || first_type == SFT__PK_SET;
    sft__import_pk_node *n;
    uint32_t type = known == SFT__G_SET     ? SFT__PK_SET
                    : known == SFT__G_LIST  ? SFT__PK_LIST
                    : known == SFT__G_TUPLE ? SFT__PK_TUPLE
                                            : SFT__PK_DICT;

    *made = true;
    if (known == SFT__G_DEFAULTDICT && count <= 1) {
        return sft__import_pm_push_new(m, SFT__PK_DICT, &n, err);
    }
    if ((known == SFT__G_DICT || known == SFT__G_SET || known == SFT__G_LIST ||
         known == SFT__G_TUPLE) &&
        (count == 0 || (listed && (count == 1 || (count == 2 && known == SFT__G_LIST))))) {
        /* two: a deque and its most */
        SFT_TRY(sft__import_pm_push_new(m, type, &n, err));
        if (count == 0) {
            return SFT_OK;
        }
        if (type == SFT__PK_DICT) {
            return pairs_to_dict(m, first, n, err);
        }
        sft__import_pk_iter it = sft__import_pk_begin(sft__import_pk_at(m->p, first));
        uint32_t id;
        while (sft__import_pk_next(&it, &id)) {
            SFT_TRY(sft__import_pm_items_add(m, n, &id, 1, err));
        }
        return SFT_OK;
    }
    if (known == SFT__G_EVAL && count == 2 && sft__import_pk_is_text(m->p, first, "data")) {
        const uint32_t names =
            sft__import_pk_item(m->p, args, 1); /* Paddle: eval('data', {'data': x}) */
        const bool alone =
            sft__import_pk_at(m->p, names)->count == 2; /* else it is not searched either */
        const uint32_t value = alone ? sft__import_pk_get(m->p, names, "data") : SFT__PK_NO;
        if (value != SFT__PK_NO) {
            return sft__import_pm_push(m, &m->stack, value, err);
        }
    }
    if (known == SFT__G_DICT && count == 1 && first_type == SFT__PK_DICT) { /* Counter({...}) */
        SFT_TRY(sft__import_pm_push_new(m, SFT__PK_DICT, &n, err));
        sft__import_pk_iter it = sft__import_pk_begin(sft__import_pk_at(m->p, first));
        uint32_t id;
        while (sft__import_pk_next(&it, &id)) {
            SFT_TRY(sft__import_pm_items_add(m, n, &id, 1, err));
        }
        return SFT_OK;
    }
    *made = false;
    return SFT_OK;
}

static sft_status record_call(sft__import_machine *m, uint32_t callable, uint32_t args,
                              sft_error *err) {
    const sft__import_pk_node *c = sft__import_pk_at(m->p, callable);
    sft__import_pk_node *n;
    uint32_t made_of;
    bool made = false;

    if (c->type == SFT__PK_PID &&
        sft__import_pk_is_text(m->p, sft__import_pk_item(m->p, c->persistent_id, 0), "module")) {
        /* PyTorch before 1.6: a class with its source */
        callable = sft__import_pk_item(m->p, c->persistent_id, 1);
        c = sft__import_pk_at(m->p, callable);
    }
    if (sft__import_pk_at(m->p, args)->type != SFT__PK_TUPLE) {
        SFT_TRY(sft__import_pm_odd(m, SFT_SCAN_UNKNOWN, "pickle-call", err,
                                   "the arguments of a call are no tuple"));
        args = SFT__PK_NO;
    }
    if (c->type != SFT__PK_GLOBAL) {
        SFT_TRY(sft__import_pm_odd(
            m, SFT_SCAN_DANGEROUS, "pickle-call", err,
            "something is called that is no global: the result of another call, or data"));
    } else if (c->known == SFT__G_UNKNOWN && !m->p->classes) {
        SFT_TRY(sft__import_opaque(m->job, c->u.text, c->count, m->opcode_at, err,
                                   "an object of the class or function %.200s, which is not known",
                                   c->u.text));
    } else if (args != SFT__PK_NO) {
        SFT_TRY(plain_call(m, c->known, args, &made, err));
        if (!made && c->known == SFT__G_EVAL) {
            SFT_TRY(sft__import_opaque(m->job, c->u.text, c->count, m->opcode_at, err,
                                       "a call of eval, which is not done"));
        }
    }
    if (made) {
        SFT_TRY(sft__import_pm_top(m, &made_of, err));
        if (c->known != SFT__G_EVAL) {
            sft__import_pk_node *data = sft__import_pk_at(m->p, made_of);
            data->callable = callable; /* which kind of dict, set, tuple it is */
            data->args = args;         /* tensors in them are not forgotten */
        }
        return SFT_OK;
    }
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_CALL, &n, err));
    n->known = c->type == SFT__PK_GLOBAL ? c->known : (uint16_t)SFT__G_UNKNOWN;
    const sft__import_pk_node *class = sft__import_pk_at(m->p, sft__import_pk_item(m->p, args, 0));
    if (m->p->joblib && class->type == SFT__PK_GLOBAL && class->known == SFT__G_JOBLIB_ARRAY) {
        n->known =
            class->known; /* copyreg._reconstructor(class, object, None): protocols 0 and 1 */
    }
    n->callable = callable;
    n->args = args;
    return SFT_OK;
}

static sft_status op_reduce(sft__import_machine *m, sft_error *err) {
    uint32_t args;
    uint32_t callable;

    SFT_TRY(sft__import_pm_pop(m, &args, err));
    SFT_TRY(sft__import_pm_pop(m, &callable, err));
    return record_call(m, callable, args, err);
}

/* NEWOBJ_EX: class, arguments, keywords. */
static sft_status op_newobj_ex(sft__import_machine *m, sft_error *err) {
    uint32_t keywords;
    SFT_TRY(sft__import_pm_pop(m, &keywords, err));
    return op_reduce(m, err);
}

static sft_status op_build(sft__import_machine *m, sft_error *err) {
    uint32_t state;
    uint32_t id;

    SFT_TRY(sft__import_pm_pop(m, &state, err));
    SFT_TRY(sft__import_pm_top(m, &id, err));
    sft__import_pk_node *n = sft__import_pk_at(m->p, id);
    if (n->type != SFT__PK_CALL && n->type != SFT__PK_DICT) {
        return sft__import_pm_odd(m, SFT_SCAN_DANGEROUS, "pickle-type", err,
                                  "a state is given to something that has none");
    }
    if (n->state != SFT__PK_NO) {
        SFT_TRY(sft__import_pm_odd(m, SFT_SCAN_UNKNOWN, "pickle-state", err,
                                   "a second state is given to one object"));
    }
    n->state = state;
    return n->known == SFT__G_JOBLIB_ARRAY && n->type == SFT__PK_CALL && m->p->joblib
               ? sft__import_pm_joblib(m, n, err)
               : SFT_OK;
}

static sft_status put_pid(sft__import_machine *m, uint32_t id, sft_error *err) {
    sft__import_pk_node *n;
    SFT_TRY(sft__import_pm_push_new(m, SFT__PK_PID, &n, err));
    n->persistent_id = id;
    return SFT_OK;
}

static sft_status op_binpersid(sft__import_machine *m, sft_error *err) {
    uint32_t id;
    SFT_TRY(sft__import_pm_pop(m, &id, err));
    return put_pid(m, id, err);
}

static sft_status op_persid(sft__import_machine *m, sft_error *err) {
    const char *line;
    uint32_t id;
    size_t len;
    char *copy;

    SFT_TRY(sft__import_pk_line(m->in, &line, &len, err));
    SFT_TRY(sft__import_copy(m->job, &copy, line, len, err));
    SFT_TRY(sft__import_pm_node(m->p, SFT__PK_STR, &id, err));
    sft__import_pk_at(m->p, id)->u.text = copy;
    sft__import_pk_at(m->p, id)->count = (uint32_t)len;
    return put_pid(m, id, err);
}

/* ---------------------------------------------------------------- only attackers' opcodes */

/* MARK args... INST: module, name lines. */
static sft_status op_inst(sft__import_machine *m, sft_error *err) {
    uint32_t args;
    uint32_t callable;

    SFT_TRY(sft__import_op_tuple(m, err));
    SFT_TRY(sft__import_pm_pop(m, &args, err));
    SFT_TRY(read_global(m, err));
    SFT_TRY(sft__import_pm_pop(m, &callable, err));
    return record_call(m, callable, args, err);
}

/* MARK class args... OBJ. */
static sft_status op_obj(sft__import_machine *m, sft_error *err) {
    uint32_t args;
    size_t first;

    SFT_TRY(sft__import_pm_to_mark(m, &first, err));
    if (first >= m->stack.count) {
        return sft__import_pm_bad(m, err, "pickle-stack", "an object without a class");
    }
    const uint32_t callable = m->stack.at[first];
    SFT_TRY(sft__import_pm_collect(m, SFT__PK_TUPLE, first + 1, err));
    args = m->stack.at[--m->stack.count];
    m->stack.count = first;
    return record_call(m, callable, args, err);
}

static sft_status op_pop(sft__import_machine *m, sft_error *err) {
    uint32_t id;
    if (m->stack.count == sft__import_pm_floor(m) && m->marks.count != 0) {
        m->marks.count--;
        return SFT_OK;
    }
    return sft__import_pm_pop(m, &id, err);
}

static sft_status op_pop_mark(sft__import_machine *m, sft_error *err) {
    size_t first;
    SFT_TRY(sft__import_pm_to_mark(m, &first, err));
    m->stack.count = first;
    return SFT_OK;
}

static sft_status op_dup(sft__import_machine *m, sft_error *err) {
    uint32_t id;
    SFT_TRY(sft__import_pm_top(m, &id, err));
    return sft__import_pm_push(m, &m->stack, id, err);
}

static sft_status extension(sft__import_machine *m, size_t width, sft_error *err) {
    uint64_t code;
    SFT_TRY(sft__import_pm_operand(m, width, &code, err));
    return push_global(m, "copyreg", 7, "extension", 9, err);
}

static sft_status op_ext1(sft__import_machine *m, sft_error *err) {
    return extension(m, 1, err);
}

static sft_status op_ext2(sft__import_machine *m, sft_error *err) {
    return extension(m, 2, err);
}

static sft_status op_ext4(sft__import_machine *m, sft_error *err) {
    return extension(m, 4, err);
}

static sft_status op_next_buffer(sft__import_machine *m, sft_error *err) {
    return sft__import_op_none(m, err);
}

static sft_status op_nothing(sft__import_machine *m, sft_error *err) {
    (void)m;
    (void)err;
    return SFT_OK;
}

/* ---------------------------------------------------------------- the stream itself */

static sft_status op_proto(sft__import_machine *m, sft_error *err) {
    uint64_t version;

    SFT_TRY(sft__import_pm_operand(m, 1, &version, err));
    if (m->opcodes != 1) {
        SFT_TRY(sft__import_pm_odd(m, SFT_SCAN_UNKNOWN, "pickle-proto", err,
                                   "a protocol is declared in the middle of a pickle"));
    }
    if (version < 2 || version > 5) {
        return sft__import_pm_bad(m, err, "pickle-proto",
                                  "a protocol that does not exist (2 to 5 are declared)");
    }
    m->protocol = (int)version;
    return SFT_OK;
}

static sft_status op_frame(sft__import_machine *m, sft_error *err) {
    uint64_t size;

    SFT_TRY(sft__import_pm_operand(m, 8, &size, err));
    const uint64_t at = sft__import_pk_tell(m->in);
    if (m->frame_end != 0) {
        SFT_TRY(sft__import_pm_odd(m, SFT_SCAN_DANGEROUS, "pickle-frame", err,
                                   "a frame begins inside another: unpicklers disagree"));
    }
    if (size > m->in->end - at) {
        return sft__import_pm_bad(m, err, "pickle-frame",
                                  "a frame reaches past the end of the pickle");
    }
    m->frame_end = at + size;
    return SFT_OK;
}

static sft_status op_stop(sft__import_machine *m, sft_error *err) {
    uint32_t root;

    SFT_TRY(sft__import_pm_pop(m, &root, err));
    if (m->stack.count != 0 || m->marks.count != 0) {
        SFT_TRY(sft__import_pm_odd(m, SFT_SCAN_UNKNOWN, "pickle-stack", err,
                                   "values are left over where the pickle stops"));
    }
    m->p->root = root;
    m->stopped = true;
    return SFT_OK;
}

typedef struct op_row {
    op_fn fn;
    bool odd; /* no pickler writes it into data */
} op_row;

static const op_row ops[256] = {
    ['('] = {sft__import_op_mark, false},
    ['.'] = {op_stop, false},
    ['0'] = {op_pop, true},
    ['1'] = {op_pop_mark, true},
    ['2'] = {op_dup, true},
    ['F'] = {sft__import_op_float, false},
    ['I'] = {sft__import_op_int, false},
    ['J'] = {sft__import_op_binint, false},
    ['K'] = {sft__import_op_binint1, false},
    ['L'] = {sft__import_op_int, false},
    ['M'] = {sft__import_op_binint2, false},
    ['N'] = {sft__import_op_none, false},
    ['P'] = {op_persid, false},
    ['Q'] = {op_binpersid, false},
    ['R'] = {op_reduce, false},
    ['S'] = {sft__import_op_string, false},
    ['T'] = {sft__import_op_binstring, false},
    ['U'] = {sft__import_op_binstring1, false},
    ['V'] = {sft__import_op_unicode, false},
    ['X'] = {sft__import_op_text4, false},
    ['a'] = {sft__import_op_append, false},
    ['b'] = {op_build, false},
    ['c'] = {read_global, false},
    ['d'] = {sft__import_op_dict, false},
    ['e'] = {sft__import_op_appends, false},
    ['g'] = {sft__import_op_get, false},
    ['h'] = {sft__import_op_binget, false},
    ['i'] = {op_inst, true},
    ['j'] = {sft__import_op_long_binget, false},
    ['l'] = {sft__import_op_list, false},
    ['o'] = {op_obj, true},
    ['p'] = {sft__import_op_put, false},
    ['q'] = {sft__import_op_binput, false},
    ['r'] = {sft__import_op_long_binput, false},
    ['s'] = {sft__import_op_setitem, false},
    ['t'] = {sft__import_op_tuple, false},
    ['u'] = {sft__import_op_setitems, false},
    ['}'] = {sft__import_op_empty_dict, false},
    [']'] = {sft__import_op_empty_list, false},
    [')'] = {sft__import_op_empty_tuple, false},
    ['G'] = {sft__import_op_binfloat, false},
    ['B'] = {sft__import_op_bytes4, false},
    ['C'] = {sft__import_op_bytes1, false},
    [0x80] = {op_proto, false},
    [0x81] = {op_reduce, false},
    [0x82] = {op_ext1, true},
    [0x83] = {op_ext2, true},
    [0x84] = {op_ext4, true},
    [0x85] = {sft__import_op_tuple1, false},
    [0x86] = {sft__import_op_tuple2, false},
    [0x87] = {sft__import_op_tuple3, false},
    [0x88] = {sft__import_op_true, false},
    [0x89] = {sft__import_op_false, false},
    [0x8a] = {sft__import_op_long1, false},
    [0x8b] = {sft__import_op_long4, false},
    [0x8c] = {sft__import_op_text1, false},
    [0x8d] = {sft__import_op_text8, false},
    [0x8e] = {sft__import_op_bytes8, false},
    [0x8f] = {sft__import_op_empty_set, false},
    [0x90] = {sft__import_op_additems, false},
    [0x91] = {sft__import_op_frozenset, false},
    [0x92] = {op_newobj_ex, true},
    [0x93] = {op_stack_global, false},
    [0x94] = {sft__import_op_memoize, false},
    [0x95] = {op_frame, false},
    [0x96] = {sft__import_op_bytes8, false},
    [0x97] = {op_next_buffer, true},
    [0x98] = {op_nothing, true},
};

static sft_status step(sft__import_machine *m, sft_error *err) {
    const uint8_t *b;

    m->opcode_at = sft__import_pk_tell(m->in);
    if (m->frame_end != 0 && m->opcode_at == m->frame_end) {
        m->frame_end = 0;
    }
    SFT_TRY(sft__import_pk_need(m->in, 1, &b, err));
    const uint8_t code = *b;
    const op_row *row = &ops[code];
    m->opcodes++;
    if (++m->job->opcodes > m->most) {
        return sft__base_fail_at(err, SFT_E_LIMIT, m->opcode_at, "pickle-opcodes: more than %llu",
                                 (unsigned long long)m->most);
    }
    if (row->fn == NULL) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, m->opcode_at,
                                 "pickle-opcode: 0x%02x is no opcode", (unsigned)code);
    }
    /* tuples that hold themselves are written twice, and one of them taken off the stack */
    const bool twice = (code == '0' || code == '1') && !m->job->scanning;
    if (row->odd && !twice && !m->odd[code]) {
        m->odd[code] = true; /* said once: a file may have millions */
        SFT_TRY(sft__import_trick(
            m->job, SFT_FINDING_PICKLE, SFT_SCAN_UNKNOWN, m->p->where, "pickle-opcode",
            m->opcode_at, err, "opcode 0x%02x, which no pickler writes into data", (unsigned)code));
    }
    SFT_TRY(row->fn(m, err));
    if (m->frame_end != 0 && sft__import_pk_tell(m->in) > m->frame_end) {
        SFT_TRY(sft__import_pm_odd(m, SFT_SCAN_DANGEROUS, "pickle-frame", err,
                                   "an opcode crosses the end of its frame: unpicklers disagree"));
        m->frame_end = 0;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- public */

sft_status sft__import_pickle_init(sft__import_pickle *p, sft__import *job,
                                   const sft_source *source, uint32_t source_index,
                                   const char *where, sft_error *err) {
    uint32_t none;

    memset(p, 0, sizeof *p);
    p->job = job;
    p->source = source;
    p->source_index = source_index;
    p->where = where;
    return sft__import_pm_node(p, SFT__PK_NONE, &none, err);
}

/* What the window already holds of the next pickle stays. */
static sft_status seek(sft__import_pickle *p, uint64_t offset, uint64_t end, sft_error *err) {
    sft__import_pk_in *in = &p->in;

    if (in->window == NULL) {
        SFT_TRY(sft__import_alloc(p->job, &in->window, SFT__PK_WINDOW, 1, err));
        in->source = p->source;
    }
    if (offset < in->base || offset - in->base > in->len) {
        in->base = offset;
        in->len = 0;
    }
    in->pos = (size_t)(offset - in->base);
    in->end = end;
    if (end - in->base < in->len) {
        in->len = (size_t)(end - in->base);
    }
    return SFT_OK;
}

sft_status sft__import_pickle_run(sft__import_pickle *p, uint64_t offset, uint64_t end,
                                  sft_error *err) {
    const sft_allocator *allocator = p->job->allocator;
    sft_status status = SFT_OK;
    sft__import_machine m;

    memset(&m, 0, sizeof m);
    m.p = p;
    m.job = p->job;
    m.in = &p->in;
    m.most = p->job->options.memory_bytes / OPCODE_BYTES;
    m.most = p->job->scanning && m.most > SCAN_OPCODES ? SCAN_OPCODES : m.most;
    SFT_TRY(seek(p, offset, end, err));
    while (status == SFT_OK && !m.stopped) {
        status = step(&m, err);
    }
    p->end = sft__import_pk_tell(m.in);
    sft__base_free(allocator, m.stack.at, m.stack.room * sizeof *m.stack.at);
    sft__base_free(allocator, m.marks.at, m.marks.room * sizeof *m.marks.at);
    sft__base_free(allocator, m.memo.at, m.memo.room * sizeof *m.memo.at);
    return status;
}

void sft__import_pickle_reset(sft__import_pickle *p) {
    sft__base_free(p->job->allocator, p->chunks, p->chunk_room * sizeof *p->chunks);
    p->chunks = NULL;
    p->chunk_room = 0;
}

uint32_t sft__import_pk_item(const sft__import_pickle *p, uint32_t id, uint32_t i) {
    const sft__import_pk_node *n = sft__import_pk_at(p, id);

    if (n->type != SFT__PK_TUPLE && n->type != SFT__PK_LIST) {
        return SFT__PK_NO;
    }
    for (const sft__import_pk_items *s = n->u.list != NULL ? n->u.list->first : NULL; s != NULL;
         s = s->next) {
        if (i < s->count) {
            return s->ids[i];
        }
        i -= s->count;
    }
    return SFT__PK_NO;
}

uint32_t sft__import_pk_get(const sft__import_pickle *p, uint32_t dict, const char *key) {
    const sft__import_pk_node *n = sft__import_pk_at(p, dict);
    const size_t len = strlen(key);
    uint32_t found = SFT__PK_NO;
    uint32_t k;
    uint32_t v;

    if (n->type != SFT__PK_DICT) {
        return SFT__PK_NO;
    }
    for (sft__import_pk_iter it = sft__import_pk_begin(n);
         sft__import_pk_next(&it, &k) && sft__import_pk_next(&it, &v);) {
        const sft__import_pk_node *t = sft__import_pk_at(p, k);
        if (t->type == SFT__PK_STR && t->count == len && memcmp(t->u.text, key, len) == 0) {
            found = v;
        }
    }
    return found;
}

bool sft__import_pk_uint(const sft__import_pickle *p, uint32_t id, uint64_t *value) {
    const sft__import_pk_node *n = sft__import_pk_at(p, id);
    if (n->type != SFT__PK_INT || n->u.integer < 0) {
        return false;
    }
    *value = (uint64_t)n->u.integer;
    return true;
}

bool sft__import_pk_is_text(const sft__import_pickle *p, uint32_t id, const char *text) {
    const sft__import_pk_node *n = sft__import_pk_at(p, id);
    return n->type == SFT__PK_STR && n->count == strlen(text) &&
           memcmp(n->u.text, text, n->count) == 0;
}
