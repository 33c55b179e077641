/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_save.c - what the processes of a group hold, saved as one set of files. Read
 * group_save.h first.
 */
#include "checkpoint/group/group_save.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "base/text/json.h"
#include <sft/digest.h>
#include <stdio.h>

/* ---------------------------------------------------------------- files of this process */

typedef struct one_file {
    sft__checkpoint_gsave *save;
    uint32_t number;
    sft_save_tensor *tensors;
    size_t count;
    sft_metadata_entry *metadata;
    size_t metadata_count;
    sft__base_buf name;
    sft__base_buf path;
    sft__base_buf info; /* DCP_SHARDING_INFO */
} one_file;

static uint32_t rank_in(const sft__checkpoint_gset *set) {
    return set->group != NULL ? set->group->rank : 0;
}

static void put_padded(sft__base_buf *b, const char *before, uint64_t number) {
    char text[48];
    (void)snprintf(text, sizeof text, "%s%05llu", before, (unsigned long long)number);
    sft__base_buf_text(b, text);
}

void sft__checkpoint_gset_file_name(const sft__checkpoint_gset *set, const char *name,
                                    uint32_t number, sft__base_buf *out) {
    if (!set->boxes) {
        sft__base_buf_text(out, "rank_");
        sft__base_buf_u64(out, rank_in(set));
        sft__base_buf_text(out, "/");
        sft__base_buf_text(out, name);
    } else {
        put_padded(out, "shard-", (uint64_t)rank_in(set) + 1);
        sft__base_buf_text(out, "-");
        sft__base_buf_text(out, name);
        put_padded(out, "-", (uint64_t)number + 1);
        put_padded(out, "-of-", set->files > 0 ? set->files : 1);
    }
    sft__base_buf_text(out, ".safetensors");
    sft__base_buf_add(out, "", 1);
}

static uint32_t rank_of(const sft__checkpoint_gsave *s) {
    return rank_in(&s->set);
}

static void put_info(sft__base_buf *b, const sft__checkpoint_gpart *p) {
    sft__base_buf_text(b, b->len > 1 ? ", " : "");
    sft__base_json_string(b, p->tensor->name, p->tensor->name_len);
    sft__base_buf_text(b, ": {\"saved_offsets\": [");
    for (uint32_t d = 0; d < p->tensor->dims; d++) {
        sft__base_buf_text(b, d > 0 ? ", " : "");
        sft__base_buf_u64(b, p->start[d]);
    }
    sft__base_buf_text(b, "]}");
}

void sft__checkpoint_gset_info(const sft__checkpoint_gset *set, uint32_t number,
                               sft__base_buf *out) {
    sft__base_buf_text(out, "{");
    for (size_t i = 0; i < set->count; i++) {
        if (set->parts[i].mine && set->parts[i].file == number) {
            put_info(out, &set->parts[i]);
        }
    }
    sft__base_buf_text(out, "}");
}

static void take_tensors(one_file *f) {
    const sft__checkpoint_gset *const set = &f->save->set;
    if (set->boxes) {
        sft__checkpoint_gset_info(set, f->number, &f->info);
    }
    for (size_t i = 0; i < set->count; i++) {
        const sft__checkpoint_gpart *const p = &set->parts[i];
        if (!p->mine || (set->boxes && p->file != f->number)) {
            continue;
        }
        sft_save_tensor *const t = &f->tensors[f->count++];
        memset(t, 0, sizeof *t);
        t->name = p->tensor->name;
        t->name_len = p->tensor->name_len;
        t->dtype = p->tensor->dtype;
        t->shape = p->local;
        t->rank = p->local_dims;
        t->data = p->tensor->data;
        t->nbytes = p->tensor->nbytes;
    }
}

static void add_metadata(one_file *f, const char *key, const char *value, size_t len) {
    const size_t key_len = strlen(key);
    for (size_t i = 0; i < f->metadata_count; i++) {
        if (f->metadata[i].key_len == key_len && memcmp(f->metadata[i].key, key, key_len) == 0) {
            return; /* the caller's goes before */
        }
    }
    f->metadata[f->metadata_count++] = (sft_metadata_entry){key, key_len, value, len};
}

static sft_status write_file(one_file *f, sft_error *err) {
    const sft__checkpoint_gsave *const s = f->save;
    sft_write_options o;
    sft__checkpoint_gset_file_name(&s->set, s->name, f->number, &f->name);
    take_tensors(f);
    SFT_NEED(!f->name.failed && !f->info.failed, f->info.len, err);
    if (s->options.metadata_count > 0) {
        memcpy(f->metadata, s->options.metadata, s->options.metadata_count * sizeof *f->metadata);
    }
    f->metadata_count = s->options.metadata_count;
    if (s->set.boxes) {
        add_metadata(f, "DCP_SHARDING_INFO", f->info.data, f->info.len);
        add_metadata(f, "DCP_VERSION", "1.0", 3);
        add_metadata(f, "format", "pt", 2);
    }
    SFT_TRY(sft__checkpoint_stage_parents(&s->stage, s->stage.directory, f->name.data, err));
    SFT_TRY(sft__checkpoint_stage_path(&f->path, s->stage.directory, f->name.data, err));
    SFT_INIT(&o);
    o.allocator = s->options.allocator;
    o.limits = s->options.limits;
    o.durability = s->options.durability;
    o.digests = s->options.digests;
    o.pool = s->options.pool;
    o.control = s->options.control;
    return sft_save(f->path.data, f->tensors, f->count, f->metadata_count > 0 ? f->metadata : NULL,
                    f->metadata_count, &o, err);
}

static sft_status write_one(sft__checkpoint_gsave *s, uint32_t number, sft_error *err) {
    const sft_allocator *const a = s->set.allocator;
    const size_t room = s->options.metadata_count + 3;
    one_file f;
    memset(&f, 0, sizeof f);
    f.save = s;
    f.number = number;
    sft__base_buf_init(&f.name, a);
    sft__base_buf_init(&f.path, a);
    sft__base_buf_init(&f.info, a);
    f.tensors = sft__base_alloc_array(a, s->set.count + 1, sizeof *f.tensors);
    f.metadata = sft__base_alloc_array(a, room, sizeof *f.metadata);
    const sft_status status = f.tensors == NULL || f.metadata == NULL
                                  ? sft__base_fail_nomem(err, s->set.count * sizeof *f.tensors)
                                  : write_file(&f, err);
    sft__base_free(a, f.tensors, (s->set.count + 1) * sizeof *f.tensors);
    sft__base_free(a, f.metadata, room * sizeof *f.metadata);
    sft__base_buf_reset(&f.name);
    sft__base_buf_reset(&f.path);
    sft__base_buf_reset(&f.info);
    return status;
}

/* By boxes a process with nothing to write has no file, rank 0 excepted; by layouts each has one. */
static sft_status write_all(sft__checkpoint_gsave *s, sft_error *err) {
    const bool at_least_one = !s->set.boxes || rank_of(s) == 0;
    const uint32_t count = !s->set.boxes      ? 1
                           : s->set.files > 0 ? s->set.files
                           : at_least_one     ? 1
                                              : 0;
    for (uint32_t i = 0; i < count; i++) {
        SFT_TRY(write_one(s, i, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- together */

/* What must be the same for all processes. */
static uint64_t hash_options(const sft__checkpoint_gsave *s, const char *path) {
    const sft_group_save_options *const o = &s->options;
    const uint32_t numbers[3] = {(uint32_t)o->durability, o->digests, s->set.boxes ? 1 : 0};
    uint8_t digest[32];
    uint64_t number;
    sft_sha256 h;
    sft_sha256_init(&h);
    sft_sha256_update(&h, numbers, sizeof numbers);
    sft_sha256_update(&h, path, strlen(path) + 1);
    sft_sha256_update(&h, s->name, strlen(s->name) + 1);
    for (size_t i = 0; i < o->metadata_count; i++) {
        const sft_metadata_entry *const e = &o->metadata[i];
        sft_sha256_update(&h, &e->key_len, sizeof e->key_len);
        sft_sha256_update(&h, e->key, e->key_len);
        sft_sha256_update(&h, &e->value_len, sizeof e->value_len);
        sft_sha256_update(&h, e->value, e->value_len);
    }
    sft_sha256_final(&h, digest);
    memcpy(&number, digest, sizeof number);
    return number;
}

static bool is_plain(const char *name) {
    if (name[0] == '\0' || name[0] == '.') {
        return false;
    }
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '/' || *p == '\\' || *p == ':' || (unsigned char)*p < 0x20) {
            return false;
        }
    }
    return true;
}

static sft_status prepare(sft__checkpoint_gsave *s, const char *path,
                          const sft_group_save_options *options, sft_error *err) {
    SFT_TRY(sft__base_options_read(&s->options, sizeof s->options, options,
                                   SFT__UP_TO(sft_group_save_options, allocator), "options", err));
    s->name = s->options.name != NULL ? s->options.name : "model";
    if (path == NULL || path[0] == '\0' || !is_plain(s->name)) {
        return sft__base_fail(err, SFT_E_ARG, "a path, and a name without slashes, are needed");
    }
    if (s->options.flags != 0) {
        return sft__base_fail(err, SFT_E_ARG, "unknown flags in options of a group");
    }
    return sft__checkpoint_stage_init_set(&s->stage, path,
                                          s->options.durability == SFT_DURABLE_FULL,
                                          sft__base_allocator(s->options.allocator), err);
}

static sft_status check_same(const sft__checkpoint_gsave *s, const char *path, sft_error *err) {
    const uint64_t mine = hash_options(s, path);
    uint64_t number = mine;
    SFT_TRY(sft__checkpoint_group_agree_on(s->set.group, SFT_OK, &number, err));
    const sft_status status =
        number == mine ? SFT_OK
                       : sft__base_fail(err, SFT_E_MISMATCH,
                                        "path, name, metadata or options are not those of rank 0");
    return sft__checkpoint_group_agree(s->set.group, status, false, err);
}

static sft_status carry_out(sft__checkpoint_gsave *s, const char *path,
                            const sft_group_tensor *tensors, size_t count, sft_error *err) {
    const sft_group *const g = s->set.group;
    const bool first = rank_of(s) == 0;
    s->set.allocator = s->options.allocator;
    const sft_status status =
        sft__checkpoint_gset_init(&s->set, tensors, count, s->options.layouts, err);
    SFT_TRY(sft__checkpoint_group_agree(g, status, false, err));
    SFT_TRY(check_same(s, path, err));
    SFT_TRY(sft__checkpoint_gset_divide(&s->set, err));
    SFT_TRY(sft__checkpoint_group_agree(
        g, first ? sft__checkpoint_stage_open(&s->stage, true, err) : SFT_OK, false, err));
    SFT_TRY(sft__checkpoint_group_agree(g, write_all(s, err), false, err));
    SFT_TRY(sft__checkpoint_group_agree(g, first ? sft__checkpoint_gsave_describe(s, err) : SFT_OK,
                                        false, err));
    return sft__checkpoint_group_agree(
        g, first ? sft__checkpoint_stage_commit(&s->stage, err) : SFT_OK, false, err);
}

static void tell(const sft__checkpoint_gsave *s, uint64_t sums[3], sft_group_result *result) {
    sft_group_result full = {sizeof full, s->set.bytes, 0, sums[0], sums[1]};

    for (size_t i = 0; i < s->set.count; i++) {
        full.tensors += s->set.parts[i].mine ? 1 : 0;
    }
    if (result != NULL) {
        sft__base_result_write(result, &full, sizeof full);
    }
}

sft_status sft_checkpoint_save_group(const sft_group *group, const char *path,
                                     const sft_group_tensor *tensors, size_t count,
                                     const sft_group_save_options *options,
                                     sft_group_result *result, sft_error *err) {
    sft__checkpoint_gsave s;
    uint64_t sums[3] = {0, 0, 0};
    SFT_TRY(sft__checkpoint_group_check(group, err));
    if (count == SFT_GROUP_FAILED) {
        return sft__checkpoint_group_agree(group,
                                           err != NULL && err->status != SFT_OK
                                               ? (sft_status)err->status
                                               : sft__base_fail(err, SFT_E_CANCELLED, "has failed"),
                                           false, err);
    }
    memset(&s, 0, sizeof s);
    s.set.group = group;
    sft_status status = prepare(&s, path, options, err);
    if (status == SFT_OK) {
        status = sft__base_result_check(result, SFT__UP_TO(sft_group_result, bytes), err);
    }
    status = sft__checkpoint_group_agree(group, status, false, err);
    if (status == SFT_OK) {
        status = carry_out(&s, path, tensors, count, err);
        if (status != SFT_OK && status != SFT_E_DURABILITY && rank_of(&s) == 0 &&
            sft__checkpoint_stage_is_there(&s.stage)) { /* nobody writes any more */
            (void)!sft__checkpoint_stage_drop(&s.stage, NULL);
        }
    }
    if (status == SFT_OK) {
        sums[0] = s.total_bytes;
        sums[1] = s.total_files;
        status = sft__checkpoint_group_sum(group, sums, 2, err);
        tell(&s, sums, result);
    }
    sft__checkpoint_gset_reset(&s.set);
    sft__checkpoint_stage_reset(&s.stage);
    return status;
}
