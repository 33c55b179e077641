/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/pickle_joblib.c - arrays as joblib writes them: a NumpyArrayWrapper says shape, type and
 * order, and behind the opcode that gives it its state lie the bytes of the array, which are no
 * part of the pickle: a count of padding bytes and these (since 1.2), then the elements; of objects
 * a pickle of their own. Source: joblib/numpy_pickle.py. Read first: machine.h.
 */
#include "base/checked.h"
#include "import/pickle/machine.h"

enum { FLAG_OBJECTS = 1, DIGITS_MAX = 9 };

/* "f8", "U12" ... : bytes of an element. */
static bool item_bytes(const sft__import_pk_node *code, uint64_t *bytes) {
    uint64_t n = 0;

    if (code->type != SFT__PK_STR || code->count < 2 || code->count > 1 + DIGITS_MAX) {
        return false;
    }
    for (uint32_t i = 1; i < code->count; i++) {
        if (code->u.text[i] < '0' || code->u.text[i] > '9') {
            return false;
        }
        n = n * 10 + (uint64_t)(code->u.text[i] - '0');
    }
    *bytes = code->u.text[0] == 'U' ? 4 * n : n;
    return true;
}

/* Does an element hold objects? The last number of a type's state has a bit for it. */
static bool has_objects(const sft__import_pickle *p, const sft__import_pk_node *dtype,
                        const sft__import_pk_node *code) {
    const sft__import_pk_node *state = sft__import_pk_at(p, dtype->state);
    const uint32_t last = state->count != 0 ? state->count - 1 : 0;
    const sft__import_pk_node *flags =
        sft__import_pk_at(p, sft__import_pk_item(p, dtype->state, last));

    return code->u.text[0] == 'O' ||
           (state->count > 7 && flags->type == SFT__PK_INT && (flags->u.integer & FLAG_OBJECTS));
}

/* A pickle inside, by another unpickler: another memo. It holds no such arrays. */
static sft_status skip_objects(sft__import_machine *m, sft__import_pk_node *array, sft_error *err) {
    const uint32_t root = m->p->root;

    m->p->joblib = false;
    const sft_status status =
        sft__import_pickle_run(m->p, sft__import_pk_tell(m->in), m->in->end, err);
    m->p->joblib = true;
    const uint32_t objects = m->p->root; /* what is in it is not forgotten */
    m->p->root = root;
    return status == SFT_OK ? sft__import_pm_items_add(m, array, &objects, 1, err) : status;
}

static sft_status skip_padding(sft__import_machine *m, uint32_t state, sft_error *err) {
    const uint8_t *bytes;

    if (sft__import_pk_at(m->p, sft__import_pk_get(m->p, state, "numpy_array_alignment_bytes"))
            ->type == SFT__PK_NONE) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_pk_need(m->in, 1, &bytes, err));
    return sft__import_pk_skip(m->in, bytes[0], err);
}

sft_status sft__import_pm_joblib(sft__import_machine *m, sft__import_pk_node *array,
                                 sft_error *err) {
    const uint32_t state = array->state;
    const uint32_t shape = sft__import_pk_get(m->p, state, "shape");
    const sft__import_pk_node *dtype =
        sft__import_pk_at(m->p, sft__import_pk_get(m->p, state, "dtype"));
    const sft__import_pk_node *code =
        sft__import_pk_at(m->p, sft__import_pk_item(m->p, dtype->args, 0));
    uint64_t size;
    uint32_t item;
    uint32_t id;

    if (m->frame_end > sft__import_pk_tell(m->in)) {
        return sft__import_pm_bad(m, err, "joblib-array",
                                  "the array of a frame that goes on behind it");
    }
    m->frame_end = 0;
    if (sft__import_pk_at(m->p, shape)->type != SFT__PK_TUPLE || dtype->type != SFT__PK_CALL ||
        dtype->known != SFT__G_NP_DTYPE || !item_bytes(code, &size)) {
        return sft__import_pm_bad(m, err, "joblib-array", "an array without its shape or type");
    }
    m->job->format = SFT_IMPORT_JOBLIB;
    if (has_objects(m->p, dtype, code)) {
        return skip_objects(m, array, err);
    }
    for (sft__import_pk_iter it = sft__import_pk_begin(sft__import_pk_at(m->p, shape));
         sft__import_pk_next(&it, &item);) {
        uint64_t n;
        if (!sft__import_pk_uint(m->p, item, &n) || !sft__base_mul64(size, n, &size)) {
            return sft__import_pm_bad(m, err, "joblib-array", "the shape of an array overflows");
        }
    }
    SFT_TRY(skip_padding(m, state, err));
    const uint64_t at = sft__import_pk_tell(m->in);
    SFT_TRY(sft__import_pk_skip(m->in, size, err));
    SFT_TRY(sft__import_pm_node(m->p, SFT__PK_BYTES, &id, err));
    sft__import_pk_node *bytes = sft__import_pk_at(m->p, id);
    bytes->u.at = at;
    sft__import_pk_set_number(bytes, size);
    return sft__import_pm_items_add(m, array, &id, 1, err);
}
