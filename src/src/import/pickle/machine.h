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
typedef struct sft__import_ids {
    uint32_t *at;
    size_t count;
    size_t room;
} sft__import_ids;

typedef struct sft__import_machine {
    sft__import_pickle *p;
    sft__import *job;
    sft__import_pk_in *in; /* of p */
    sft__import_ids stack;
    sft__import_ids marks;
    sft__import_ids memo; /* id + 1; 0: never set */
    size_t memo_set;
    uint64_t frame_end; /* 0: no frame */
    uint64_t opcode_at;
    uint64_t opcodes;
    uint64_t most; /* opcodes of all pickles of the job */
    bool odd[256]; /* opcodes that no pickler writes: said */
    int protocol;
    bool stopped;
} sft__import_machine;

/* floor: values below it belong to an outer mark. bad: what ends the run. odd: what older or other
 * unpicklers read past, so a scan does too. to_mark: the values above the last mark, which goes.
 * collect: a container of the values from `first` on. */
sft_status sft__import_pm_push(sft__import_machine *m, sft__import_ids *s, uint32_t id,
                               sft_error *err);
sft_status sft__import_pm_bad(const sft__import_machine *m, sft_error *err, const char *rule,
                              const char *text);
sft_status sft__import_pm_odd(sft__import_machine *m, uint32_t verdict, const char *rule,
                              sft_error *err, const char *text);
size_t sft__import_pm_floor(const sft__import_machine *m);
sft_status sft__import_pm_pop(sft__import_machine *m, uint32_t *id, sft_error *err);
sft_status sft__import_pm_top(sft__import_machine *m, uint32_t *id, sft_error *err);
sft_status sft__import_pm_node(sft__import_pickle *p, uint32_t type, uint32_t *id, sft_error *err);
sft_status sft__import_pm_push_new(sft__import_machine *m, uint32_t type,
                                   sft__import_pk_node **node, sft_error *err);
sft_status sft__import_pm_items_add(sft__import_machine *m, sft__import_pk_node *n,
                                    const uint32_t *values, size_t count, sft_error *err);
sft_status sft__import_pm_to_mark(sft__import_machine *m, size_t *first, sft_error *err);
sft_status sft__import_pm_collect(sft__import_machine *m, uint32_t type, size_t first,
                                  sft_error *err);
sft_status sft__import_pm_operand(sft__import_machine *m, size_t n, uint64_t *value,
                                  sft_error *err);

/* pickle_joblib.c: what lies behind the state of a NumpyArrayWrapper. */
sft_status sft__import_pm_joblib(sft__import_machine *m, sft__import_pk_node *array,
                                 sft_error *err);

sft_status sft__import_op_none(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_true(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_false(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binint(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binint1(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binint2(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_long1(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_long4(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binfloat(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_text1(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_text4(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_text8(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_bytes1(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_bytes4(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_bytes8(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binstring(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binstring1(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_int(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_float(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_string(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_unicode(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_empty_list(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_empty_tuple(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_empty_dict(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_empty_set(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_list(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_tuple(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_dict(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_frozenset(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_tuple1(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_tuple2(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_tuple3(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_mark(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_appends(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_setitems(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_additems(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_append(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_setitem(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binput(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_long_binput(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_memoize(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binget(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_long_binget(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_put(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_get(sft__import_machine *m, sft_error *err);

#endif
