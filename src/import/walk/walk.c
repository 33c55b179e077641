/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk.c - walks a part: pickle after pickle from its first byte on, as CPython would
 * execute them, in every way that leads elsewhere, and then the pickles within their strings.
 * Linear: each opcode costs of one budget (job->walk_left). Read first: walk.h.
 */
#include "import/walk/walk.h"
#include "base/memory/need.h"

enum {
    STARTS_MOST = 4096,
    SEEN_MOST = 1 << 18,
    NESTED_DEPTH = 32,
    OWNED_MOST = 4096,
    PICKLE_COST = 4
};

/* ---------------------------------------------------------------- pickle after pickle */

/* Where another pickle may begin: an unpickler has read the frame to its end. */
static void add_start(walk *w, uint64_t at) {
    if (w->start_count >= STARTS_MOST ||
        !sft__base_grow(w->job->allocator, &w->starts, &w->start_room, w->start_count + 1,
                        sizeof *w->starts)) {
        w->limited = true;
        return;
    }
    w->starts[w->start_count++] = at;
}

static void begin_pickle(walk *w) {
    w->stack.count = 0;
    w->marks.count = 0;
    w->marked = false;
    w->reread = false;
    w->refilled = false;
    w->has_fields = false;
    memset(&w->array, 0, sizeof w->array);
    if ((w->ways & WALK_KEEP) == 0) { /* what an Unpickler keeps: memo, and the rest of a frame */
        w->in.frame = 0;
        sft__import_walk_texts_clear(w);
        w->number_count = 0;
        w->type_count = 0;
        w->field_count = 0;
        sft__import_walk_memo_clear(&w->memo);
    }
}

/* The pickle within, of an array of objects, has ended. */
static void end_inner(walk *w) {
    while (w->marks.count != 0 && w->marks.at[w->marks.count - 1] >= w->inner_base) {
        w->marks.count--;
    }
    w->stack.count = w->inner_base;
    sft__import_walk_memo_reset(&w->memo, w->job->allocator);
    w->memo = w->outer;
    memset(&w->outer, 0, sizeof w->outer);
    w->inner = false;
}

static walk_step one_opcode(walk *w) {
    walk_in *in = &w->in;
    const uint8_t *b;

    w->opcode_at = walk_tell(in);
    if (in->frame == 0 && in->pos < in->len) {
        b = &in->window[in->pos++];
    } else {
        b = sft__import_walk_take(in, 1);
    }
    const walk_op *op = b != NULL ? &sft__import_walk_ops[*b] : NULL;
    if (op == NULL || op->fn == NULL) {
        return WALK_FAIL;
    }
    if (w->job->walk_left == 0) {
        w->limited = true;
        return WALK_FAIL;
    }
    w->job->walk_left--;
    w->opcode = *b;
    w->arg = op->arg;
    return op->fn(w);
}

/* One pickle; true: it ended with its STOP. */
static bool one_pickle(walk *w) {
    const uint64_t begin = walk_tell(&w->in);
    walk_step step;

    begin_pickle(w);
    sft__import_walk_settings_begin(w);
    do {
        step = one_opcode(w);
        w->marked = w->marked || (w->opcode_at == begin && step == WALK_GO && w->opcode == 0x80);
        if (step == WALK_STOP && w->inner) {
            end_inner(w);
            step = WALK_GO;
        }
    } while (step == WALK_GO);
    if (w->inner) {
        end_inner(w);
    }
    sft__import_walk_settings_end(w, step == WALK_STOP);
    sft__import_walk_settle(w, step == WALK_STOP);
    return step == WALK_STOP;
}

/* From one place on: until a pickle fails, or one begins where one has begun. */
static void chain(walk *w, uint64_t from, bool first) {
    sft__import_walk_seek(&w->in, from);
    w->in.frame = 0;
    for (uint32_t i = 0; walk_tell(&w->in) < w->in.end && w->in.status == SFT_OK; i++) {
        const uint64_t at = walk_tell(&w->in);
        if (sft__import_walk_table_find(&w->seen, at + 1) != NULL) {
            return;
        }
        (void)sft__import_walk_table_put(&w->seen, w->job->allocator, at + 1, 1, SEEN_MOST);
        walk_pay(w, PICKLE_COST);
        const bool ended = one_pickle(w);
        if (i > 0 && w->reread) {
            w->wanted |= WALK_KEEP;
        }
        if (!ended) {
            return;
        }
        w->pickles++;
        if (first && walk_tell(&w->in) > w->complete_to) {
            w->complete_to = walk_tell(&w->in);
        }
        if (w->in.frame > walk_tell(&w->in)) {
            w->wanted |= WALK_KEEP;
            add_start(w, w->in.frame);
        }
    }
}

/* The whole of a part in one way. */
static void walk_way(walk *w, const sft__import_scan_part *part, uint32_t ways) {
    w->ways = ways;
    w->in.drop = (ways & WALK_DROP) != 0;
    w->in.end = part->offset + part->size;
    w->in.crossed = false;
    w->start_count = 0;
    sft__import_walk_texts_clear(w);
    sft__import_walk_memo_clear(&w->memo);
    sft__import_walk_table_clear(&w->seen);
    chain(w, part->offset, true);
    while (w->start_count != 0 && w->in.status == SFT_OK) {
        chain(w, w->starts[--w->start_count], false);
    }
    sft__import_walk_settings_judge(w);
    w->wanted |= w->in.crossed ? WALK_DROP : 0;
}

/* Four pickles of torch.save, each of which torch.load gives an unpickler of its own: the first is
 * a magic number. */
static bool is_torch(const walk *w, const sft__import_scan_part *part) {
    static const uint8_t magic[] = {0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                    0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
    uint8_t head[2 + 9 + sizeof magic];

    if (part->size < sizeof head || part->flags != 0 || part->depth != 0 ||
        sft_source_read(w->in.source, part->offset, head, sizeof head, NULL) != SFT_OK) {
        return false;
    }
    return head[0] == 0x80 && memcmp(head + (head[2] == 0x95 ? 11 : 2), magic, sizeof magic) == 0;
}

/* In every way that is wanted, each once. */
static void walk_ways(walk *w, const sft__import_scan_part *part) {
    const uint32_t refused = is_torch(w, part) ? WALK_KEEP : 0;
    bool done[WALK_WAYS] = {true};

    w->part = part;
    w->wanted = 0;
    walk_way(w, part, 0);
    for (uint32_t way = 1; way < WALK_WAYS; way++) {
        if (!done[way] && (way & ~(w->wanted & ~refused)) == 0 && w->in.status == SFT_OK) {
            done[way] = true;
            walk_way(w, part, way);
            way = 0; /* it may want more */
        }
    }
}

/* ---------------------------------------------------------------- what is nested */

typedef struct owned {
    sft_source *source;
    uint8_t *bytes;
    size_t size;
} owned;

typedef struct owner {
    owned *list;
    size_t count;
    size_t room;
} owner;

/* The source of a literal: the part's own, or a new one over what was decoded. */
static const sft_source *source_of(walk *w, owner *o, const walk_nested *n) {
    owned *mine;

    if (n->decoded == NULL) {
        return n->source;
    }
    if (o->count >= OWNED_MOST ||
        !sft__base_grow(w->job->allocator, &o->list, &o->room, o->count + 1, sizeof *o->list)) {
        sft__base_free(w->job->allocator, n->decoded, (size_t)n->size);
        w->limited = true;
        return NULL;
    }
    mine = &o->list[o->count];
    *mine = (owned){NULL, n->decoded, (size_t)n->size};
    if (sft_source_open_memory(&mine->source, n->decoded, (size_t)n->size, w->job->allocator,
                               NULL) != SFT_OK) {
        sft__base_free(w->job->allocator, n->decoded, (size_t)n->size);
        w->limited = true;
        return NULL;
    }
    o->count++;
    return mine->source;
}

static void walk_nested_ones(walk *w, owner *o, const sft__import_scan_part *outer) {
    while (w->nested_count != 0 && w->in.status == SFT_OK) {
        const walk_nested n = w->nested[--w->nested_count];
        const sft_source *source = source_of(w, o, &n);
        if (source == NULL || n.depth > NESTED_DEPTH) {
            w->limited = w->limited || source != NULL;
            continue;
        }
        const sft__import_scan_part part = {source,
                                            n.offset,
                                            n.size,
                                            outer->where,
                                            source == outer->source ? outer->base : SFT_NO_OFFSET,
                                            n.depth,
                                            outer->flags | SFT__SCAN_NESTED,
                                            0,
                                            outer->container};
        w->in.source = source;
        w->in.base = n.offset;
        w->in.len = 0;
        w->in.pos = 0;
        walk_ways(w, &part);
    }
}

static void owner_reset(owner *o, const sft_allocator *a) {
    for (size_t i = 0; i < o->count; i++) {
        sft_source_close(o->list[i].source);
        sft__base_free(a, o->list[i].bytes, o->list[i].size);
    }
    sft__base_free(a, o->list, o->room * sizeof *o->list);
}

/* ---------------------------------------------------------------- all of it */

static void walk_reset(walk *w) {
    const sft_allocator *a = w->job->allocator;

    for (size_t i = 0; i < w->nested_count; i++) {
        if (w->nested[i].decoded != NULL) {
            sft__base_free(a, w->nested[i].decoded, (size_t)w->nested[i].size);
        }
    }
    sft__base_free(a, w->nested, w->nested_room * sizeof *w->nested);
    sft__base_free(a, w->judged, WALK_JUDGED * sizeof *w->judged);
    sft__base_free(a, w->pending, WALK_PENDING * sizeof *w->pending);
    sft__base_free(a, w->starts, w->start_room * sizeof *w->starts);
    sft__base_free(a, w->seen.slots, w->seen.room * sizeof *w->seen.slots);
    sft__base_free(a, w->numbers, w->number_room * sizeof *w->numbers);
    sft__base_free(a, w->types, w->type_room * sizeof *w->types);
    sft__base_free(a, w->fields, w->field_room * sizeof *w->fields);
    sft__base_free(a, w->texts, w->text_room * sizeof *w->texts);
    sft__base_free(a, w->pool, w->pool_room);
    sft__base_free(a, w->recent.texts,
                   w->recent.texts != NULL ? WALK_RECENT * sizeof *w->recent.texts : 0);
    sft__base_free(a, w->stack.at, w->stack.room * sizeof *w->stack.at);
    sft__base_free(a, w->marks.at, w->marks.room * sizeof *w->marks.at);
    sft__import_walk_memo_reset(&w->memo, a);
    sft__base_buf_reset(&w->settings.text);
    sft__base_free(a, w->in.window, WALK_WINDOW);
    sft__base_free(a, w, sizeof *w);
}

sft_status sft__import_scan_walk_part(sft__import *job, const sft__import_scan_part *part,
                                      sft__import_scan_walked *walked, sft_error *err) {
    walk *w = sft__base_alloc_zero(job->allocator, sizeof *w);
    owner o = {NULL, 0, 0};

    memset(walked, 0, sizeof *walked);
    SFT_NEED(w != NULL, sizeof *w, err);
    w->job = job;
    w->given = part;
    w->in.source = part->source;
    w->in.err = err;
    sft__import_walk_settings_init(w);
    w->in.window = sft__base_alloc(job->allocator, WALK_WINDOW);
    sft_status status = w->in.window != NULL ? SFT_OK : sft__base_fail_nomem(err, WALK_WINDOW);
    if (status == SFT_OK) {
        walk_ways(w, part);
        walked->complete_to = w->complete_to > part->offset ? w->complete_to - part->offset : 0;
        walked->pickles = w->pickles;
        walk_nested_ones(w, &o, part);
        walked->names = w->names;
        walked->limited = w->limited;
        status = w->in.status;
    }
    if (status == SFT_OK && w->limited) {
        w->part = part;
        sft__import_find(job, SFT__RULE(PICKLE, UNKNOWN, "walk-limit"),
                         sft__import_text_at(part->where, SFT_NO_OFFSET),
                         "larger, deeper or stranger than a pickle can be followed");
    }
    walk_reset(w);
    owner_reset(&o, job->allocator);
    return status;
}

sft_status sft__import_scan_walk(sft__import *job, const sft__import_scan_part *part,
                                 sft_error *err) {
    sft__import_scan_walked walked;
    return sft__import_scan_walk_part(job, part, &walked, err);
}
