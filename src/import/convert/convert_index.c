/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_index.c - the index of a sharded output. Read first: convert.h.
 */
#include "base/memory/need.h"
#include "base/text/json.h"
#include "import/convert/convert.h"
#include "import/write/export.h"

void sft__import_index_begin(sft__base_buf *b) {
    sft__base_buf_text(b, "{\n  \"weight_map\": {");
}

void sft__import_index_add(sft__base_buf *b, const char *name, size_t name_len, const char *file) {
    sft__base_buf_text(b, b->len > 0 && b->data[b->len - 1] != '{' ? ",\n    " : "\n    ");
    sft__base_json_string(b, name, name_len);
    sft__base_buf_text(b, ": ");
    sft__base_json_string(b, file, strlen(file));
}

void sft__import_index_end(sft__base_buf *b, uint64_t total_bytes) {
    sft__base_buf_text(b, "\n  },\n  \"metadata\": {\n    \"total_size\": ");
    sft__base_buf_u64(b, total_bytes);
    sft__base_buf_text(b, "\n  }\n}\n");
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static sft_status make_index(sft__import_conversion *c, const char *path, const sft__base_buf *text,
                             sft__fs_publish **out, sft_error *err) {
    const sft__fs_span all = {text->data, text->len};

    SFT_NEED(!text->failed, text->len, err);
    SFT_TRY(sft__import_convert_output(c, path, text->len, out, err));
    return sft__fs_publish_write(*out, 0, &all, 1, err);
}

sft_status sft__import_convert_begin(sft__import_conversion *c, const char *index, sft_error *err) {
    const size_t size = strlen(index) + 1;

    if (c->index != NULL) {
        return SFT_OK;
    }
    SFT_TRY(sft__base_need(c->allocator, &c->index, size, err));
    memcpy(c->index, index, size);
    return sft_model_begin(index, c->write.durability == SFT_DURABLE_FULL, err);
}

/* The conversion is over: with all files and the index, or with none of them. */
static sft_status end_set(sft__import_conversion *c, sft_error *err) {
    char *index = c->index;

    c->index = NULL;
    const sft_status status = sft_model_end(index, err);
    sft__base_free(c->allocator, index, strlen(index) + 1);
    return status;
}

sft_status sft__import_convert_together(sft__import_conversion *c, const char *index,
                                        const sft__base_buf *text, sft_error *err) {
    sft__fs_publish *out = NULL;
    sft_status status = make_index(c, index, text, &out, err);

    SFT_THEN(status, sft__import_convert_begin(c, index, err));
    SFT_THEN(status, sft__import_convert_commit(c, err));
    SFT_THEN(status, sft__fs_publish_commit(out, err));
    SFT_THEN(status, end_set(c, err));
    sft__fs_publish_free(out);
    return status;
}

sft_status sft__import_convert_index(sft__import_conversion *c, const char *output, uint32_t files,
                                     sft_error *err) {
    sft_status status = SFT_OK;
    uint32_t known = UINT32_MAX;
    sft__base_buf path;
    sft__base_buf text;
    sft__base_buf name;

    sft__base_buf_init(&path, c->allocator);
    sft__base_buf_init(&text, c->allocator);
    sft__base_buf_init(&name, c->allocator);
    sft__import_index_begin(&text);
    for (size_t i = 0; i < c->item_count && status == SFT_OK; i++) {
        const sft_import_item *item = &c->items[i];
        if (item->file != known) {
            sft__base_buf_reset(&name);
            status = sft__import_convert_name(c, &name, output, item->file, files, err);
            known = item->file;
        }
        if (status == SFT_OK) {
            sft__import_index_add(&text, item->name, item->name_len, base_name(name.data));
        }
    }
    sft__import_index_end(&text, c->result.data_bytes);
    const size_t len = strlen(output);
    sft__base_buf_text(&path, output);
    sft__base_buf_text(&path, len > 12 && strcmp(output + len - 12, ".safetensors") == 0
                                  ? ".index.json"
                                  : ".safetensors.index.json");
    sft__base_buf_add(&path, "", 1);
    SFT_THEN(status, path.failed ? sft__base_fail_nomem(err, path.len)
                                 : sft__import_convert_together(c, path.data, &text, err));
    sft__base_buf_reset(&path);
    sft__base_buf_reset(&text);
    sft__base_buf_reset(&name);
    return status;
}
