/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/share.c - what this process writes of a step that many save: parts as a collective save
 * divides them (checkpoint/group/group_parts.h), each part of the step a set of its own. Read together.h
 * first.
 */
#include "checkpoint/group/group_save.h"
#include "checkpoint/run/together.h"

/* One part of the step, or the frozen tensors of it: these lie in files of their own, which do not change. */
typedef struct sharing {
    sft_run_save *save;
    sft__checkpoint_gset set;
    sft_group_tensor *tensors;
    size_t *items; /* beside tensors */
    size_t count;
    bool frozen;
} sharing;

/* Between the rank and the number in the names of files; beside sft__checkpoint_run_parts. */
static const char *const frozen_parts[3] = {"model-frozen", "optimizer-frozen", "state-frozen"};

static void list_part(sharing *h, uint32_t part) {
    h->count = 0;
    for (size_t i = 0; i < h->save->count; i++) {
        const sft__checkpoint_run_item *const item = &h->save->items[i];
        const sft_run_tensor *const t = &item->given;
        if (t->part == part && ((t->flags & SFT_RUN_FROZEN) != 0) == h->frozen) {
            h->items[h->count] = i;
            h->tensors[h->count++] =
                (sft_group_tensor){.name = t->name,
                                   .name_len = t->name_len,
                                   .dtype = t->dtype,
                                   .shape = t->shape,
                                   .dims = t->rank,
                                   .start = t->start,
                                   .count = t->count,
                                   .data = h->save, /* it lies somewhere; nobody looks here */
                                   .nbytes = t->nbytes};
        }
    }
}

static sft_status add_file(sharing *h, uint32_t part, uint32_t number, size_t *at, sft_error *err) {
    sft_run_save *const s = h->save;
    sft__base_buf b;
    SFT_TRY(sft__checkpoint_run_add_plan(s, part, *at, err));
    sft__checkpoint_run_plan *const plan = &s->plans[s->plan_count - 1];
    for (size_t i = 0; i < h->count; i++) {
        const sft__checkpoint_gpart *const p = &h->set.parts[i];
        if (p->mine && p->file == number) {
            uint64_t *const local =
                sft__base_arena_alloc(&s->arena, (p->local_dims + 1) * sizeof *local, 8);
            if (local == NULL) {
                return sft__base_fail_nomem(err, p->local_dims * sizeof *local);
            }
            memcpy(local, p->local, p->local_dims * sizeof *local);
            sft__checkpoint_run_take_item(s, *at, h->items[i]);
            s->tensors[*at].shape = local;
            plan->count++;
            ++*at;
        }
    }
    sft__base_buf_init(&b, s->allocator);
    sft__checkpoint_gset_info(&h->set, number, &b);
    plan->info = b.failed ? NULL : sft__base_arena_copy(&s->arena, b.data, b.len);
    b.len = 0;
    sft__checkpoint_gset_file_name(
        &h->set, h->frozen ? frozen_parts[part] : sft__checkpoint_run_parts[part], number, &b);
    const bool fits = !b.failed && b.len <= sizeof plan->name && plan->info != NULL;
    if (fits) {
        memcpy(plan->name, b.data, b.len);
    }
    sft__base_buf_reset(&b);
    return fits ? SFT_OK : sft__base_fail_nomem(err, sizeof plan->name);
}

/* Collective. */
static sft_status share_part(sharing *h, uint32_t part, size_t *at, sft_error *err) {
    const sft_group *const g = h->save->run->options.group;
    uint64_t total;
    list_part(h, part);
    total = h->count;
    SFT_TRY(sft__checkpoint_group_sum(g, &total, 1, err));
    if (total == 0) {
        return SFT_OK;
    }
    memset(&h->set, 0, sizeof h->set);
    h->set.group = g;
    h->set.allocator = h->save->allocator;
    sft_status status = sft__checkpoint_gset_init(&h->set, h->tensors, h->count, NULL, err);
    status = sft__checkpoint_group_agree(g, status, false, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_gset_divide(&h->set, err);
    }
    const uint32_t files = h->set.files > 0 ? h->set.files : g->rank == 0 ? 1 : 0;
    for (uint32_t i = 0; i < files && status == SFT_OK; i++) {
        status = add_file(h, part, i, at, err);
    }
    sft__checkpoint_gset_reset(&h->set);
    return status;
}

/* The same random number, and time, for all: rank 0's. Collective. */
static sft_status draw_token(sft_run_save *s, sft_error *err) {
    uint64_t key[2], time = (uint64_t)sft__base_now_seconds();
    sft__base_random_key(key);
    SFT_TRY(sft__checkpoint_group_agree_on(s->run->options.group, SFT_OK, &time, err));
    s->time = (int64_t)time;
    SFT_TRY(sft__checkpoint_group_agree_on(s->run->options.group, SFT_OK, &key[0], err));
    key[1] = key[0];
    sft__base_hex(s->token, (const uint8_t *)key, sizeof key);
    s->token[SFT__RUN_ID] = '\0';
    return SFT_OK;
}

/* A process that fails alone joins the others' next call with its failure. */
sft_status sft__checkpoint_run_divide_group(sft_run_save *s, sft_error *err) {
    const sft_group *const g = s->run->options.group;
    const size_t room = s->count + 1;
    sharing h;
    size_t at = 0;
    memset(&h, 0, sizeof h);
    h.save = s;
    h.tensors = sft__base_alloc_array(s->allocator, room, sizeof *h.tensors);
    h.items = sft__base_alloc_array(s->allocator, room, sizeof *h.items);
    sft_status status = h.tensors == NULL || h.items == NULL
                            ? sft__base_fail_nomem(err, room * sizeof *h.tensors)
                            : sft__checkpoint_run_check_words(s, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_make_room(s, err);
    }
    if (s->given_up != NULL) {
        status = sft__base_fail(err, SFT_E_ARG, "%s", s->given_up);
    }
    uint64_t step = s->step;
    status = sft__checkpoint_group_agree_on(g, status, &step, err);
    if (status == SFT_OK && step != s->step) {
        status = sft__base_fail(err, SFT_E_MISMATCH, "step %llu, and rank 0 saves step %llu",
                                (unsigned long long)s->step, (unsigned long long)step);
    }
    status = sft__checkpoint_group_agree(g, status, false, err);
    for (uint32_t set = 0; set < 6 && status == SFT_OK; set++) {
        h.frozen = set % 2 == 1;
        status = sft__checkpoint_group_agree(g, share_part(&h, set / 2, &at, err), false, err);
    }
    if (status == SFT_OK) {
        status = draw_token(s, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_run_finish_plans(s, NULL, err);
    }
    sft__base_free(s->allocator, h.tensors, room * sizeof *h.tensors);
    sft__base_free(s->allocator, h.items, room * sizeof *h.items);
    return status;
}
