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
    uint32_t arg; /* what distinguishes the opcode at hand from others of its function */
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

/* Opcodes of plain data, pickle_data.c. */
sft_status sft__import_op_none(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_bool(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_integer(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_long(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_int(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binfloat(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_float(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_text(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_bytes(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_binstring(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_string(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_unicode(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_empty(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_collect(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_tuple(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_mark(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_add_marked(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_add(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_memoize(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_put(sft__import_machine *m, sft_error *err);
sft_status sft__import_op_get(sft__import_machine *m, sft_error *err);

#endif
