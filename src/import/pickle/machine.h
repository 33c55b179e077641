/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/machine.h - inside the pickle machine: its state, the helpers of all opcodes
 * (machine.c), the opcodes of plain data (pickle_data.c). Calls, names and the stream are in
 * pickle.c. Read first: pickle.h.
 */
#ifndef SFT_IMPORT_MACHINE_H
#define SFT_IMPORT_MACHINE_H

#include "import/pickle/pickle.h"

/* Growable numbers: the stack, the places of its marks, the memo. */
typedef struct sft__ids {
    uint32_t *at;
    size_t count;
    size_t room;
} sft__ids;

typedef struct sft__machine {
    sft__pickle *p;
    sft__import *job;
    sft__pk_in *in; /* of p */
    sft__ids stack;
    sft__ids marks;
    sft__ids memo; /* id + 1; 0: never set */
    size_t memo_set;
    uint64_t frame_end; /* 0: no frame */
    uint64_t opcode_at;
    uint64_t opcodes;
    uint64_t most; /* opcodes of all pickles of the job */
    bool odd[256]; /* opcodes that no pickler writes: said */
    int protocol;
    bool stopped;
} sft__machine;

/* floor: values below it belong to an outer mark. bad: what ends the run. odd: what older or other
 * unpicklers read past, so a scan does too. to_mark: the values above the last mark, which goes.
 * collect: a container of the values from `first` on. */
sft_status sft__pm_push(sft__machine *m, sft__ids *s, uint32_t id, sft_error *err);
sft_status sft__pm_bad(const sft__machine *m, sft_error *err, const char *rule, const char *text);
sft_status sft__pm_odd(sft__machine *m, uint32_t verdict, const char *rule, sft_error *err,
                       const char *text);
size_t sft__pm_floor(const sft__machine *m);
sft_status sft__pm_pop(sft__machine *m, uint32_t *id, sft_error *err);
sft_status sft__pm_top(sft__machine *m, uint32_t *id, sft_error *err);
sft_status sft__pm_node(sft__pickle *p, uint32_t type, uint32_t *id, sft_error *err);
sft_status sft__pm_push_new(sft__machine *m, uint32_t type, sft__pk_node **node, sft_error *err);
sft_status sft__pm_items_add(sft__machine *m, sft__pk_node *n, const uint32_t *values, size_t count,
                             sft_error *err);
sft_status sft__pm_to_mark(sft__machine *m, size_t *first, sft_error *err);
sft_status sft__pm_collect(sft__machine *m, uint32_t type, size_t first, sft_error *err);
sft_status sft__pm_operand(sft__machine *m, size_t n, uint64_t *value, sft_error *err);

/* pickle_joblib.c: what lies behind the state of a NumpyArrayWrapper. */
sft_status sft__pm_joblib(sft__machine *m, sft__pk_node *array, sft_error *err);

sft_status sft__op_none(sft__machine *m, sft_error *err);
sft_status sft__op_true(sft__machine *m, sft_error *err);
sft_status sft__op_false(sft__machine *m, sft_error *err);
sft_status sft__op_binint(sft__machine *m, sft_error *err);
sft_status sft__op_binint1(sft__machine *m, sft_error *err);
sft_status sft__op_binint2(sft__machine *m, sft_error *err);
sft_status sft__op_long1(sft__machine *m, sft_error *err);
sft_status sft__op_long4(sft__machine *m, sft_error *err);
sft_status sft__op_binfloat(sft__machine *m, sft_error *err);
sft_status sft__op_text1(sft__machine *m, sft_error *err);
sft_status sft__op_text4(sft__machine *m, sft_error *err);
sft_status sft__op_text8(sft__machine *m, sft_error *err);
sft_status sft__op_bytes1(sft__machine *m, sft_error *err);
sft_status sft__op_bytes4(sft__machine *m, sft_error *err);
sft_status sft__op_bytes8(sft__machine *m, sft_error *err);
sft_status sft__op_binstring(sft__machine *m, sft_error *err);
sft_status sft__op_binstring1(sft__machine *m, sft_error *err);
sft_status sft__op_int(sft__machine *m, sft_error *err);
sft_status sft__op_float(sft__machine *m, sft_error *err);
sft_status sft__op_string(sft__machine *m, sft_error *err);
sft_status sft__op_unicode(sft__machine *m, sft_error *err);
sft_status sft__op_empty_list(sft__machine *m, sft_error *err);
sft_status sft__op_empty_tuple(sft__machine *m, sft_error *err);
sft_status sft__op_empty_dict(sft__machine *m, sft_error *err);
sft_status sft__op_empty_set(sft__machine *m, sft_error *err);
sft_status sft__op_list(sft__machine *m, sft_error *err);
sft_status sft__op_tuple(sft__machine *m, sft_error *err);
sft_status sft__op_dict(sft__machine *m, sft_error *err);
sft_status sft__op_frozenset(sft__machine *m, sft_error *err);
sft_status sft__op_tuple1(sft__machine *m, sft_error *err);
sft_status sft__op_tuple2(sft__machine *m, sft_error *err);
sft_status sft__op_tuple3(sft__machine *m, sft_error *err);
sft_status sft__op_mark(sft__machine *m, sft_error *err);
sft_status sft__op_appends(sft__machine *m, sft_error *err);
sft_status sft__op_setitems(sft__machine *m, sft_error *err);
sft_status sft__op_additems(sft__machine *m, sft_error *err);
sft_status sft__op_append(sft__machine *m, sft_error *err);
sft_status sft__op_setitem(sft__machine *m, sft_error *err);
sft_status sft__op_binput(sft__machine *m, sft_error *err);
sft_status sft__op_long_binput(sft__machine *m, sft_error *err);
sft_status sft__op_memoize(sft__machine *m, sft_error *err);
sft_status sft__op_binget(sft__machine *m, sft_error *err);
sft_status sft__op_long_binget(sft__machine *m, sft_error *err);
sft_status sft__op_put(sft__machine *m, sft_error *err);
sft_status sft__op_get(sft__machine *m, sft_error *err);

#endif
