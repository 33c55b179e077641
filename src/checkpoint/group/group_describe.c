/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_describe.c - rank 0's part of a save: the files of all processes are opened as
 * the checkpoint that they are, which proves them complete; then come topology.json or layout.json,
 * and the marker. Read group_save.h first.
 */
#include "base/memory/need.h"
#include "base/text/json.h"
#include "checkpoint/group/group_save.h"
#include "checkpoint/open/checkpoint.h"
#include "fs/output/staged.h"
#include <stdlib.h>

static sft_status write_text(const sft__checkpoint_gsave *s, const char *name,
                             const sft__base_buf *text, sft_error *err) {
    return sft__checkpoint_write_text(s->stage.directory, name, text, s->stage.durable, err);
}

/* ---------------------------------------------------------------- names of files */

static const char *path_of(const sft_checkpoint *c, size_t i) {
    const sft_file *const f = sft_catalog_file_at(c->parts[i].catalog, 0);
    return f != NULL ? f->path : "";
}

/* What follows the last `parts` slashes, that many parts: "rank_0/model.safetensors". */
static const char *tail_of(const char *path, unsigned parts) {
    const char *at = path + strlen(path);
    while (at > path) {
        if ((at[-1] == '/' || at[-1] == '\\') && --parts == 0) {
            break;
        }
        at--;
    }
    return at;
}

/* ---------------------------------------------------------------- topology.json */

static void numbers(sft__base_buf *b, const uint64_t *list, size_t count) {
    sft__base_buf_text(b, "[");
    for (size_t i = 0; i < count; i++) {
        sft__base_buf_text(b, i > 0 ? ", " : "");
        sft__base_buf_u64(b, list[i]);
    }
    sft__base_buf_text(b, "]");
}

static void put_tensor(sft__base_buf *b, const sft__checkpoint_lset_entry *e,
                       const sft_dtype *dtype) {
    sft__base_json_string(b, e->name, e->name_len);
    sft__base_buf_text(b, ": {\"type\": \"Distributed\", \"shape\": ");
    numbers(b, e->shape, e->dims);
    sft__base_buf_text(b, ", \"dtype\": \"");
    sft__base_buf_text(b, dtype->name);
    sft__base_buf_text(b, "\", \"chunks\": [");
    for (size_t i = 0; i < e->box_count; i++) {
        const uint64_t *const box = e->boxes + i * 2 * e->dims;
        sft__base_buf_text(b, i > 0 ? ", {\"offsets\": " : "{\"offsets\": ");
        numbers(b, box, e->dims);
        sft__base_buf_text(b, ", \"shape\": ");
        numbers(b, box + e->dims, e->dims);
        sft__base_buf_text(b, ", \"filename_index\": ");
        sft__base_buf_u64(b, e->ranks[i]);
        sft__base_buf_text(b, "}");
    }
    sft__base_buf_text(b, "]}");
}

static sft_status write_topology(const sft__checkpoint_gsave *s, const sft_checkpoint *c,
                                 const sft_catalog *global, sft_error *err) {
    sft__base_buf b;
    sft__base_buf_init(&b, s->set.allocator);
    sft__base_buf_text(&b, "{\n  \"tensors\": {");
    for (size_t i = 0; i < c->layouts->count; i++) {
        const sft__checkpoint_lset_entry *const e = &c->layouts->entries[i];
        const sft_tensor *const t = sft_catalog_find(global, e->name, e->name_len);
        sft__base_buf_text(&b, i > 0 ? ",\n    " : "\n    ");
        if (t != NULL) { /* join saw them all */
            put_tensor(&b, e, t->dtype);
        }
    }
    sft__base_buf_text(&b, "\n  },\n  \"filenames\": [");
    for (size_t i = 0; i < c->count; i++) {
        const char *const name = tail_of(path_of(c, i), 1);
        sft__base_buf_text(&b, i > 0 ? ", " : "");
        sft__base_json_string(&b, name, strlen(name));
    }
    sft__base_buf_text(&b, "],\n  \"world_size\": ");
    sft__base_buf_u64(&b, c->count);
    sft__base_buf_text(&b, "\n}\n");
    const sft_status status = write_text(s, "topology.json", &b, err);
    sft__base_buf_reset(&b);
    return status;
}

/* ---------------------------------------------------------------- layout.json */

static sft_status write_layout(const sft__checkpoint_gsave *s, sft_error *err) {
    size_t size = 0;
    sft__base_buf b;
    sft__base_buf_init(&b, s->set.allocator);
    sft_status status = sft_layout_set_write(s->options.layouts, NULL, 0, &size, err);
    if (status == SFT_OK && !sft__base_buf_reserve(&b, size)) {
        status = sft__base_fail_nomem(err, size);
    }
    if (status == SFT_OK) {
        status = sft_layout_set_write(s->options.layouts, b.data, size, &size, err);
        b.len = size;
    }
    if (status == SFT_OK) {
        status = write_text(s, "layout.json", &b, err);
    }
    sft__base_buf_reset(&b);
    return status;
}

/* ---------------------------------------------------------------- the marker */

static sft_status write_marker(sft__checkpoint_gsave *s, const sft_checkpoint *c,
                               const sft_catalog *global, sft_error *err) {
    const unsigned parts = s->set.boxes ? 1 : 2;
    uint64_t total = 0;
    sft__base_buf b;
    sft__base_buf_init(&b, s->set.allocator);
    for (size_t i = 0; i < sft_catalog_count(global); i++) {
        total += sft_catalog_at(global, i)->nbytes;
    }
    sft__base_buf_text(&b, "{\n  \"schema\": 1,\n  \"processes\": ");
    sft__base_buf_u64(&b, s->set.group != NULL ? s->set.group->size : 1);
    sft__base_buf_text(&b, ",\n  \"tensors\": ");
    sft__base_buf_u64(&b, sft_catalog_count(global));
    sft__base_buf_text(&b, ",\n  \"total_size\": ");
    sft__base_buf_u64(&b, total);
    sft__base_buf_text(&b, ",\n  \"files\": {");
    for (size_t i = 0; i < c->count; i++) {
        const sft_file *const f = sft_catalog_file_at(c->parts[i].catalog, 0);
        const char *const name = tail_of(path_of(c, i), parts);
        const uint64_t size = f != NULL ? f->size : 0;
        sft__base_buf_text(&b, i > 0 ? ",\n    " : "\n    ");
        sft__base_json_string(&b, name, strlen(name));
        sft__base_buf_text(&b, ": ");
        sft__base_buf_u64(&b, size);
        s->total_bytes += size;
        s->total_files++;
    }
    sft__base_buf_text(&b, "\n  }\n}\n");
    sft_status status = write_text(s, "sft-checkpoint.json", &b, err);
    sft__base_buf_reset(&b);
    if (status == SFT_OK && s->stage.durable) {
        status = sft__fs_sync_directory(s->stage.directory, err);
    }
    return status;
}

/* ---------------------------------------------------------------- all of it */

static sft_status describe(sft__checkpoint_gsave *s, const sft_checkpoint *c,
                           const sft_open_options *open, sft_error *err) {
    sft_catalog *global;
    SFT_TRY(sft_checkpoint_join_ranks(&global, c, open, err));
    sft_status status = s->set.boxes ? write_topology(s, c, global, err) : SFT_OK;
    if (status == SFT_OK && !s->unmarked) {
        status = write_marker(s, c, global, err);
    }
    sft_catalog_close(global);
    return status;
}

sft_status sft__checkpoint_gsave_describe(sft__checkpoint_gsave *s, sft_error *err) {
    sft_checkpoint_options o;
    sft_open_options open;
    sft_checkpoint *c;
    if (!s->set.boxes) {
        SFT_TRY(write_layout(s, err));
    }
    SFT_INIT(&o);
    SFT_INIT(&open);
    open.allocator = s->options.allocator;
    open.limits = s->options.limits;
    o.open = &open;
    SFT_TRY(sft_checkpoint_open(&c, s->stage.directory, &o, err));
    const sft_status status = describe(s, c, &open, err);
    sft_checkpoint_close(c);
    return status;
}
