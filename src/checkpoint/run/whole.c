/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/whole.c - one catalog over all files of tensors that a manifest lists: model, optimizer and
 * state. Read steps.h first.
 */
#include "checkpoint/run/steps.h"
#include <sft/extend.h>

typedef struct opening {
    const char *directory;
    const sft_allocator *allocator;
} opening;

static sft_status open_sources(void *ctx, const char *const *names, size_t count,
                               sft_source **sources, sft_error *err) {
    const opening *const o = ctx;
    sft__base_buf path;
    sft_status status = SFT_OK;
    sft__base_buf_init(&path, o->allocator);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        status = sft__checkpoint_stage_path(&path, o->directory, names[i], err);
        if (status == SFT_OK) {
            status = sft_source_open(&sources[i], path.data, SFT_ACCESS_READ, o->allocator, err);
        }
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status open_nothing(sft_catalog **out, const sft_open_options *options, sft_error *err) {
    sft_builder *builder;
    SFT_TRY(sft_builder_create(&builder, options, err));
    const sft_status status = sft_builder_finish(out, builder, err);
    sft_builder_free(builder);
    return status;
}

bool sft__checkpoint_run_has_tensors(const char *name) {
    static const char end[] = ".safetensors";
    const size_t len = strlen(name);
    return len >= sizeof end && strcmp(name + len - (sizeof end - 1), end) == 0;
}

sft_status sft__checkpoint_run_open_files(sft_catalog **out, const char *directory,
                                          const sft__checkpoint_run_manifest *m,
                                          const sft_open_options *options, sft_error *err) {
    const sft_allocator *const a = sft__base_allocator(options->allocator);
    opening o = {directory, a};
    sft_model_files files;
    const char **const names = sft__base_alloc_array(a, m->count + 1, sizeof *names);
    *out = NULL;
    if (names == NULL) {
        return sft__base_fail_nomem(err, m->count * sizeof *names);
    }
    SFT_INIT(&files);
    files.names = names;
    files.open = open_sources;
    files.ctx = &o;
    for (size_t i = 0; i < m->count; i++) {
        if (sft__checkpoint_run_has_tensors(m->files[i].name)) {
            names[files.name_count++] = m->files[i].name;
        }
    }
    const sft_status status = files.name_count > 0
                                  ? sft_catalog_open_model(out, &files, options, err)
                                  : open_nothing(out, options, err);
    sft__base_free(a, names, (m->count + 1) * sizeof *names);
    return status;
}
