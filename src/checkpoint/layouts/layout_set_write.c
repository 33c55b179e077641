/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_write.c - any layout set in our own JSON form;
 * checkpoint/layouts/layout_set_read.c tells it.
 */
#include "base/error.h"
#include "base/text/json.h"
#include "checkpoint/layouts/layout_set.h"

static void key(sft__base_buf *b, const char *name) {
    sft__base_json_string_plain(b, name, strlen(name));
    sft__base_buf_text(b, ": ");
}

static void numbers(sft__base_buf *b, const uint64_t *list, size_t count) {
    sft__base_buf_text(b, "[");
    for (size_t i = 0; i < count; i++) {
        sft__base_buf_text(b, i == 0 ? "" : ", ");
        sft__base_buf_u64(b, list[i]);
    }
    sft__base_buf_text(b, "]");
}

static void put_mesh(sft__base_buf *b, const sft__checkpoint_lset_mesh *m) {
    sft__base_buf_text(b, "{\"axes\": {");
    for (size_t i = 0; i < m->mesh.axis_count; i++) {
        sft__base_buf_text(b, i == 0 ? "" : ", ");
        key(b, m->mesh.axis_names[i]);
        sft__base_buf_u64(b, m->mesh.axes[i]);
    }
    sft__base_buf_text(b, "}");
    if (m->mesh.ranks != NULL) {
        sft__base_buf_text(b, ", \"ranks\": ");
        numbers(b, m->mesh.ranks, (size_t)m->devices);
    } else if (m->mesh.first_rank != 0) {
        sft__base_buf_text(b, ", \"first_rank\": ");
        sft__base_buf_u64(b, m->mesh.first_rank);
    }
    sft__base_buf_text(b, "}");
}

static void put_by(sft__base_buf *b, const sft__layout_cut *cut,
                   const sft__checkpoint_lset_mesh *m) {
    sft__base_buf_text(b, "[");
    for (size_t i = 0; i < cut->factor_count; i++) {
        const sft__layout_factor *const f = &cut->factors[i];
        sft__base_buf_text(b, i == 0 ? "" : ", ");
        if (f->divisor <= 1 && f->size == 0) {
            sft__base_json_string_plain(b, m->mesh.axis_names[f->axis],
                                        strlen(m->mesh.axis_names[f->axis]));
            continue;
        }
        sft__base_buf_text(b, "{\"axis\": ");
        sft__base_json_string_plain(b, m->mesh.axis_names[f->axis],
                                    strlen(m->mesh.axis_names[f->axis]));
        if (f->divisor > 1) {
            sft__base_buf_text(b, ", \"divisor\": ");
            sft__base_buf_u64(b, f->divisor);
        }
        if (f->size != 0) {
            sft__base_buf_text(b, ", \"size\": ");
            sft__base_buf_u64(b, f->size);
        }
        sft__base_buf_text(b, "}");
    }
    sft__base_buf_text(b, "]");
}

static void put_cut(sft__base_buf *b, const sft__layout_cut *cut,
                    const sft__checkpoint_lset_mesh *m) {
    static const char *const rules[] = {"even", "chunk", "balanced", "sizes"};
    const bool blocks = cut->block_count != 0 || cut->block_parts > 1;
    if (cut->factor_count == 0 && !blocks && cut->split != SFT__SPLIT_SIZES) {
        sft__base_buf_text(b, "null");
        return;
    }
    if (cut->split == SFT__SPLIT_EVEN && !blocks) {
        put_by(b, cut, m);
        return;
    }
    sft__base_buf_text(b, "{\"by\": ");
    put_by(b, cut, m);
    sft__base_buf_text(b, ", \"split\": \"");
    sft__base_buf_text(b, rules[cut->split]);
    sft__base_buf_text(b, "\"");
    if (cut->sizes != NULL) {
        sft__base_buf_text(b, ", \"sizes\": ");
        numbers(b, cut->sizes, cut->size_count);
    }
    if (cut->block_count != 0) {
        sft__base_buf_text(b, ", \"blocks\": ");
        numbers(b, cut->blocks, cut->block_count);
    } else if (cut->block_parts > 1) {
        sft__base_buf_text(b, ", \"blocks\": ");
        sft__base_buf_u64(b, cut->block_parts);
    }
    sft__base_buf_text(b, "}");
}

static void put_boxes(sft__base_buf *b, const sft__checkpoint_lset_entry *e) {
    sft__base_buf_text(b, "\"boxes\": [");
    for (size_t i = 0; i < e->box_count; i++) {
        const uint64_t *const box = e->boxes + i * 2 * e->dims;
        sft__base_buf_text(b, i == 0 ? "{\"rank\": " : ", {\"rank\": ");
        sft__base_buf_u64(b, e->ranks[i]);
        sft__base_buf_text(b, ", \"start\": ");
        numbers(b, box, e->dims);
        sft__base_buf_text(b, ", \"count\": ");
        numbers(b, box + e->dims, e->dims);
        sft__base_buf_text(b, "}");
    }
    sft__base_buf_text(b, "]");
}

static void put_kind(sft__base_buf *b, const sft_layout_set *set,
                     const sft__checkpoint_lset_entry *e) {
    static const char *const texts[] = {"placements", "spec", "style"};
    const sft__checkpoint_lset_mesh *const m = set->mesh_count != 0 ? &set->meshes[e->mesh] : NULL;
    if (e->kind == SFT__LSET_WHOLE) {
        sft__base_buf_text(b, "\"whole\": true");
    } else if (e->kind == SFT__LSET_BOXES) {
        put_boxes(b, e);
    } else if (e->kind == SFT__LSET_CUTS) {
        sft__base_buf_text(b, "\"cuts\": [");
        for (size_t d = 0; d < e->dims; d++) {
            sft__base_buf_text(b, d == 0 ? "" : ", ");
            put_cut(b, &e->cuts[d], m);
        }
        sft__base_buf_text(b, "]");
    } else if (e->kind == SFT__LSET_FLAT) {
        sft__base_buf_text(b, "\"flat\": {\"by\": ");
        put_by(b, &e->flat, m);
        sft__base_buf_text(b, ", \"align\": ");
        sft__base_buf_u64(b, e->align);
        sft__base_buf_text(b, "}");
    } else {
        key(b, texts[e->kind - SFT__LSET_PLACEMENTS]);
        sft__base_json_string_plain(b, e->text, strlen(e->text));
    }
}

static void put_entry(sft__base_buf *b, const sft_layout_set *set,
                      const sft__checkpoint_lset_entry *e) {
    static const char *const matches[] = {"name", "pattern", "module"};
    sft__base_buf_text(b, "{");
    key(b, matches[e->match]);
    sft__base_json_string_plain(b, e->name, e->name_len);
    sft__base_buf_text(b, ", ");
    if (e->kind != SFT__LSET_WHOLE && e->kind != SFT__LSET_BOXES &&
        set->meshes[e->mesh].name_len != 0) {
        key(b, "mesh");
        sft__base_json_string_plain(b, set->meshes[e->mesh].name, set->meshes[e->mesh].name_len);
        sft__base_buf_text(b, ", ");
    }
    if (e->shape != NULL) {
        key(b, "shape");
        numbers(b, e->shape, e->dims);
        sft__base_buf_text(b, ", ");
    }
    put_kind(b, set, e);
    sft__base_buf_text(b, "}");
}

static void put_meshes(sft__base_buf *b, const sft_layout_set *set) {
    bool any = false;
    for (size_t i = 0; i < set->mesh_count; i++) {
        if (set->meshes[i].name_len == 0) {
            sft__base_buf_text(b, "  \"mesh\": ");
            put_mesh(b, &set->meshes[i]);
            sft__base_buf_text(b, ",\n");
        }
    }
    for (size_t i = 0; i < set->mesh_count; i++) {
        if (set->meshes[i].name_len != 0) {
            sft__base_buf_text(b, any ? ",\n    " : "  \"meshes\": {\n    ");
            sft__base_json_string_plain(b, set->meshes[i].name, set->meshes[i].name_len);
            sft__base_buf_text(b, ": ");
            put_mesh(b, &set->meshes[i]);
            any = true;
        }
    }
    sft__base_buf_text(b, any ? "\n  },\n" : "");
}

static void put_all(sft__base_buf *b, const sft_layout_set *set) {
    sft__base_buf_text(b, "{\n  \"format\": \"safetensors-layout\",\n  \"version\": 1,\n");
    put_meshes(b, set);
    sft__base_buf_text(b, "  \"tensors\": [");
    bool any = false;
    for (size_t i = 0; i < set->count; i++) {
        if (!set->entries[i].trimmed) {
            sft__base_buf_text(b, any ? ",\n    " : "\n    ");
            put_entry(b, set, &set->entries[i]);
            any = true;
        }
    }
    sft__base_buf_text(b, any ? "\n  ]\n}\n" : "]\n}\n");
}

sft_status sft_layout_set_write(const sft_layout_set *set, void *data, size_t capacity,
                                size_t *size, sft_error *err) {
    sft__base_buf b;
    SFT_TRY(sft__checkpoint_lset_bound(set, err));
    sft__base_buf_init(&b, set->allocator);
    put_all(&b, set);
    sft_status status = b.failed ? sft__base_fail_nomem(err, b.len) : SFT_OK;
    if (status == SFT_OK) {
        *size = b.len;
        if (data != NULL) {
            memcpy(data, b.data, b.len < capacity ? b.len : capacity);
        }
    }
    sft__base_buf_reset(&b);
    return status;
}
