/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/machine.c - the pickle machine's stack and nodes. Read first: machine.h.
 */
#include "import/pickle/machine.h"
#include "base/memory/need.h"

enum { STACK_MAX = 8 << 20 };

sft_status sft__import_pm_push(sft__import_machine *m, sft__import_ids *s, uint32_t id,
                               sft_error *err) {
    if (s->count == s->room) {
        if (s->count >= STACK_MAX) {
            return sft__base_fail_at(err, SFT_E_LIMIT, m->opcode_at,
                                     "pickle-stack: more than %d values on the stack",
                                     (int)STACK_MAX);
        }
        SFT_TRY(SFT_ONE_MORE(m->job->allocator, s->at, s->room, s->count, err));
    }
    s->at[s->count++] = id;
    return SFT_OK;
}

/* What an unpickler would trip over, or could be made to misuse: ends the run. */
sft_status sft__import_pm_bad(const sft__import_machine *m, sft_error *err, const char *rule,
                              const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, m->opcode_at, "%s: %s", rule, text);
}

/* The same, but older or other unpicklers read on: so does a scan. */
sft_status sft__import_pm_odd(sft__import_machine *m, uint32_t verdict, const char *rule,
                              sft_error *err, const char *text) {
    return sft__import_trick(m->job, (sft__import_rule){SFT_FINDING_PICKLE, verdict, rule},
                             sft__import_text_at(m->p->where, m->opcode_at), err, "%s", text);
}

size_t sft__import_pm_floor(const sft__import_machine *m) {
    return m->marks.count != 0 ? m->marks.at[m->marks.count - 1] : 0;
}

sft_status sft__import_pm_pop(sft__import_machine *m, uint32_t *id, sft_error *err) {
    *id = SFT__PK_NO;
    if (m->stack.count <= sft__import_pm_floor(m)) {
        return sft__import_pm_bad(m, err, "pickle-stack",
                                  "an opcode takes more values than there are");
    }
    *id = m->stack.at[--m->stack.count];
    return SFT_OK;
}

sft_status sft__import_pm_top(sft__import_machine *m, uint32_t *id, sft_error *err) {
    SFT_TRY(sft__import_pm_pop(m, id, err));
    m->stack.count++;
    return SFT_OK;
}

/* ---------------------------------------------------------------- nodes */

sft_status sft__import_pm_node(sft__import_pickle *p, uint32_t type, uint32_t *id, sft_error *err) {
    const size_t chunk = p->count / SFT__PK_CHUNK;

    if (p->count % SFT__PK_CHUNK == 0) {
        if (p->count >= UINT32_MAX - SFT__PK_CHUNK) {
            return sft__base_fail(err, SFT_E_LIMIT, "pickle-nodes: more than 2^32 objects");
        }
        if (chunk == p->chunk_room && !sft__base_grow(p->job->allocator, &p->chunks, &p->chunk_room,
                                                      chunk + 1, sizeof *p->chunks)) {
            return sft__base_fail_nomem(err, chunk * sizeof *p->chunks);
        }
        SFT_TRY(sft__import_alloc(p->job, &p->chunks[chunk], SFT__PK_CHUNK,
                                  sizeof(sft__import_pk_node), err));
    }
    sft__import_pk_node *n = &p->chunks[chunk][p->count % SFT__PK_CHUNK];
    memset(n, 0, sizeof *n);
    n->type = (uint8_t)type;
    *id = p->count++;
    return SFT_OK;
}

sft_status sft__import_pm_push_new(sft__import_machine *m, uint32_t type,
                                   sft__import_pk_node **node, sft_error *err) {
    uint32_t id;
    SFT_TRY(sft__import_pm_node(m->p, type, &id, err));
    *node = sft__import_pk_at(m->p, id);
    return sft__import_pm_push(m, &m->stack, id, err);
}

/* Appends ids to a node's items. */
sft_status sft__import_pm_items_add(sft__import_machine *m, sft__import_pk_node *n,
                                    const uint32_t *values, size_t count, sft_error *err) {
    sft__import_pk_list *list = n->u.list;

    if (count == 0) {
        return SFT_OK;
    }
    if (list == NULL) {
        SFT_TRY(sft__import_alloc(m->job, &list, 1, sizeof *list, err));
        list->first = list->last = NULL;
        n->u.list = list;
    }
    sft__import_pk_items *last = list->last;
    if (last == NULL || last->room - last->count < count) {
        size_t room = last == NULL ? count : last->room < 4096 ? last->room * 2 : 8192;
        room = room < count ? count : room;
        SFT_TRY(sft__import_alloc(m->job, &last, 1, sizeof *last + room * sizeof(uint32_t), err));
        last->next = NULL;
        last->count = 0;
        last->room = (uint32_t)room;
        if (list->last != NULL) {
            list->last->next = last;
        } else {
            list->first = last;
        }
        list->last = last;
    }
    memcpy(last->ids + last->count, values, count * sizeof *values);
    last->count += (uint32_t)count;
    n->count += (uint32_t)count;
    return SFT_OK;
}

/* The values above the last mark: [*first, stack.count). The mark is taken away. */
sft_status sft__import_pm_to_mark(sft__import_machine *m, size_t *first, sft_error *err) {
    *first = 0;
    if (m->marks.count == 0) {
        return sft__import_pm_bad(m, err, "pickle-mark",
                                  "an opcode needs a mark, and there is none");
    }
    *first = m->marks.at[--m->marks.count];
    return SFT_OK;
}

sft_status sft__import_pm_collect(sft__import_machine *m, uint32_t type, size_t first,
                                  sft_error *err) {
    uint32_t id;

    SFT_TRY(sft__import_pm_node(m->p, type, &id, err));
    if (type == SFT__PK_DICT && (m->stack.count - first) % 2 != 0) {
        return sft__import_pm_bad(m, err, "pickle-items",
                                  "a dict of an odd number of keys and values");
    }
    if (m->stack.count > first) {
        SFT_TRY(sft__import_pm_items_add(m, sft__import_pk_at(m->p, id), m->stack.at + first,
                                         m->stack.count - first, err));
    }
    m->stack.count = first;
    return sft__import_pm_push(m, &m->stack, id, err);
}
