/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/files.c - the tensors of a step divided into files, and where each lies in its file and
 * in the arena: the arena mirrors the data sections, each at a page of its own, as in the files, so that
 * they are written without a copy. Read run.h first.
 */
#include "base/checked.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "checkpoint/run/run.h"
#include <stdio.h>

const char *const sft__checkpoint_run_parts[3] = {"model", "optimizer", "state"};

static sft_status nomem(const sft_run_save *s, sft_error *err) {
    return sft__base_fail_nomem(err, (s->count + 1) * sizeof *s->tensors);
}

/* ---------------------------------------------------------------- names */

static sft_status check_words(const sft__checkpoint_run_words *words, const char *what,
                              const sft_allocator *a, sft_error *err) {
    sft__base_strmap map;
    size_t twice = 0;
    sft_status status = SFT_OK;
    if (!sft__base_strmap_init(&map, words->list, sizeof *words->list, words->count, a)) {
        return sft__base_fail_nomem(err, words->count * sizeof(uint64_t));
    }
    if (words->count > 0 &&
        sft__base_strmap_add_all(&map, words->count, &twice) != SFT__STRMAP_NONE) {
        status = sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, words->list[twice].name,
                                       words->list[twice].name_len, "%s given twice", what);
    }
    sft__base_strmap_reset(&map);
    return status;
}

/* No reader takes a state.json of more. */
static sft_status check_size(const sft_run_save *s, sft_error *err) {
    uint64_t bytes = 100; /* around the entries, and the step's number */
    sft__base_buf name;
    sft__base_buf_init(&name, s->allocator);
    for (size_t i = 0; i < s->entries.count; i++) {
        const sft__checkpoint_run_word *const w = &s->entries.list[i];
        name.len = 0;
        sft__base_json_string(&name, w->name, w->name_len);
        bytes += name.len + w->len + 8; /* cannot overflow: all of it lies in memory */
    }
    const bool failed = name.failed;
    sft__base_buf_reset(&name);
    return failed ? sft__base_fail_nomem(err, 0)
           : bytes <= SFT__RUN_TEXT_MAX
               ? SFT_OK
               : sft__base_fail(err, SFT_E_LIMIT,
                                "the entries need %llu bytes in state.json, the limit is %llu: "
                                "what is large is better given as tensors",
                                (unsigned long long)bytes, (unsigned long long)SFT__RUN_TEXT_MAX);
}

sft_status sft__checkpoint_run_check_words(const sft_run_save *s, sft_error *err) {
    SFT_TRY(check_words(&s->entries, "an entry of state.json", s->allocator, err));
    SFT_TRY(check_words(&s->metrics, "a metric", s->allocator, err));
    SFT_TRY(check_words(&s->files, "a file", s->allocator, err));
    return check_size(s, err);
}

static sft_status check_names(const sft_run_save *s, sft__base_strmap *map, sft_error *err) {
    size_t twice = 0;
    if (!sft__base_strmap_init(map, s->items, sizeof *s->items, s->count, s->allocator)) {
        return nomem(s, err);
    }
    if (s->count > 0 && sft__base_strmap_add_all(map, s->count, &twice) != SFT__STRMAP_NONE) {
        return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, s->items[twice].name,
                                     s->items[twice].name_len, "a tensor given twice");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- files */

sft_status sft__checkpoint_run_add_plan(sft_run_save *s, uint32_t part, size_t first,
                                        sft_error *err) {
    if (!sft__base_grow(s->allocator, &s->plans, &s->plan_room, s->plan_count + 1,
                        sizeof *s->plans)) {
        return sft__base_fail_nomem(err, (s->plan_count + 1) * sizeof *s->plans);
    }
    sft__checkpoint_run_plan *const p = &s->plans[s->plan_count++];
    memset(p, 0, sizeof *p);
    p->part = part;
    p->first = first;
    return SFT_OK;
}

void sft__checkpoint_run_take_item(sft_run_save *s, size_t at, size_t index) {
    const sft__checkpoint_run_item *const item = &s->items[index];
    sft_save_tensor *const t = &s->tensors[at];
    memset(t, 0, sizeof *t);
    t->name = item->name;
    t->name_len = item->name_len;
    t->dtype = item->given.dtype;
    t->shape = item->given.shape;
    t->rank = item->given.rank;
    t->nbytes = item->given.nbytes;
    s->order[at] = index;
}

/* Tensors of one part, those that are not expected to change apart: greedily, in the order given. */
static sft_status fill_plans(sft_run_save *s, uint32_t part, uint32_t frozen, size_t *at,
                             sft_error *err) {
    const uint64_t most = s->run->options.shard_bytes;
    uint64_t bytes = 0;
    bool open = false;
    for (size_t i = 0; i < s->count; i++) {
        const sft_run_tensor *const t = &s->items[i].given;
        if (t->part != part || (t->flags & SFT_RUN_FROZEN) != frozen) {
            continue;
        }
        if (!open || bytes > most || t->nbytes > most - bytes) {
            SFT_TRY(sft__checkpoint_run_add_plan(s, part, *at, err));
            open = true;
            bytes = 0;
        }
        bytes += t->nbytes; /* cannot overflow: below most + one tensor in memory */
        s->plans[s->plan_count - 1].count++;
        sft__checkpoint_run_take_item(s, (*at)++, i);
    }
    return SFT_OK;
}

static void name_plans(sft_run_save *s, size_t first) {
    const size_t n = s->plan_count - first;
    for (size_t i = first; i < s->plan_count; i++) {
        sft__checkpoint_run_plan *const p = &s->plans[i];
        const char *const part = sft__checkpoint_run_parts[p->part];
        if (n == 1) {
            (void)snprintf(p->name, sizeof p->name, "%s.safetensors", part);
        } else {
            (void)snprintf(p->name, sizeof p->name, "%s-%05llu-of-%05llu.safetensors", part,
                           (unsigned long long)(i - first + 1), (unsigned long long)n);
        }
    }
}

/* ---------------------------------------------------------------- metadata, and where the bytes lie */

/* An entry whose value is a tensor's name is another name of that tensor: it goes where the tensor lies. */
static bool belongs(const sft_run_save *s, const sft__base_strmap *map,
                    const sft__checkpoint_run_plan *plan, const sft__checkpoint_run_word *entry) {
    const size_t of = map != NULL
                          ? sft__base_strmap_find(map, entry->text, entry->len)
                          : SFT__STRMAP_NONE; /* of many processes: nobody knows all names */
    if (of == SFT__STRMAP_NONE || s->items[of].given.part != SFT_RUN_MODEL) {
        return true;
    }
    for (size_t i = 0; i < plan->count; i++) {
        if (s->order[plan->first + i] == of) {
            return true;
        }
    }
    return false;
}

static sft_status add_metadata(sft_run_save *s, const sft__base_strmap *map,
                               sft__checkpoint_run_plan *plan, sft_error *err) {
    const size_t given = plan->part == SFT_RUN_MODEL ? s->metadata.count : 0;
    const size_t room = given + 3;
    sft_metadata_entry *const m = sft__base_arena_alloc(&s->arena, room * sizeof *m, 8);
    bool format = false;
    if (m == NULL) {
        return sft__base_fail_nomem(err, room * sizeof *m);
    }
    plan->metadata = m;
    for (size_t i = 0; i < given; i++) {
        const sft__checkpoint_run_word *const w = &s->metadata.list[i];
        if (belongs(s, map, plan, w)) {
            format = format || strcmp(w->name, "format") == 0;
            m[plan->metadata_count++] = (sft_metadata_entry){w->name, w->name_len, w->text, w->len};
        }
    }
    if (!format) {
        m[plan->metadata_count++] = (sft_metadata_entry){"format", 6, "pt", 2};
    }
    if (plan->info != NULL) {
        m[plan->metadata_count++] =
            (sft_metadata_entry){"DCP_SHARDING_INFO", 17, plan->info, strlen(plan->info)};
        m[plan->metadata_count++] = (sft_metadata_entry){"DCP_VERSION", 11, "1.0", 3};
    }
    return SFT_OK;
}

void sft__checkpoint_run_write_options(const sft_run_save *s, sft_write_options *o) {
    const sft_run_options *const given = &s->run->options;
    SFT_INIT(o);
    o->allocator = s->allocator;
    o->durability = given->durability;
    o->digests = SFT_DIGEST_CRC32C | (given->sha256 != 0 ? SFT_DIGEST_SHA256 : 0);
    o->data_alignment = SFT__RUN_PAGE;
    o->pool = given->writers;
}

static sft_status lay_out(sft_run_save *s, sft__checkpoint_run_plan *plan, uint64_t *offsets,
                          sft_error *err) {
    sft_write_options o;
    size_t header;
    sft__checkpoint_run_write_options(s, &o);
    SFT_TRY(sft_save_header(NULL, 0, &header, offsets, s->tensors + plan->first, plan->count,
                            plan->metadata, plan->metadata_count, &o, err));
    for (size_t i = 0; i < plan->count; i++) {
        sft__checkpoint_run_item *const item = &s->items[s->order[plan->first + i]];
        const uint64_t end = offsets[i] - header + item->given.nbytes;
        item->file_begin = offsets[i] - header;
        plan->data_bytes = end > plan->data_bytes ? end : plan->data_bytes;
    }
    plan->base = s->bytes;
    return sft__base_add64(s->bytes, plan->data_bytes, &s->bytes) &&
                   sft__base_align64(s->bytes, SFT__RUN_PAGE, &s->bytes)
               ? SFT_OK
               : sft__base_fail(err, SFT_E_OVERFLOW, "a step of more than 2^64 bytes");
}

sft_status sft__checkpoint_run_finish_plans(sft_run_save *s, const sft__base_strmap *map,
                                            sft_error *err) {
    uint64_t *const offsets = sft__base_alloc_array(s->allocator, s->count + 1, sizeof *offsets);
    sft_status status = offsets == NULL ? nomem(s, err) : SFT_OK;
    for (size_t i = 0; i < s->plan_count && status == SFT_OK; i++) {
        status = add_metadata(s, map, &s->plans[i], err);
        if (status == SFT_OK) {
            status = lay_out(s, &s->plans[i], offsets, err);
        }
    }
    sft__base_free(s->allocator, offsets, (s->count + 1) * sizeof *offsets);
    return status;
}

static sft_status divide(sft_run_save *s, sft__base_strmap *map, sft_error *err) {
    size_t at = 0;
    SFT_TRY(check_names(s, map, err));
    for (uint32_t part = 0; part < 3; part++) {
        const size_t first = s->plan_count;
        SFT_TRY(fill_plans(s, part, 0, &at, err));
        SFT_TRY(fill_plans(s, part, SFT_RUN_FROZEN, &at, err));
        name_plans(s, first);
    }
    return sft__checkpoint_run_finish_plans(s, map, err);
}

sft_status sft__checkpoint_run_make_room(sft_run_save *s, sft_error *err) {
    s->tensors = sft__base_arena_alloc(&s->arena, (s->count + 1) * sizeof *s->tensors, 8);
    s->order = sft__base_arena_alloc(&s->arena, (s->count + 1) * sizeof *s->order, 8);
    return s->tensors == NULL || s->order == NULL ? nomem(s, err) : SFT_OK;
}

sft_status sft__checkpoint_run_divide(sft_run_save *s, sft_error *err) {
    sft__base_strmap map;
    memset(&map, 0, sizeof map);
    sft_status status = sft__checkpoint_run_check_words(s, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_make_room(s, err);
    }
    if (status == SFT_OK) {
        status = divide(s, &map, err);
    }
    sft__base_strmap_reset(&map);
    return status;
}
