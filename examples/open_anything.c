/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Opens whatever it is given and lists the tensors: safetensors, an index, a directory, the ranks of a
 * training job, a .pt, .gguf, .npz ..., a URL of any of these; and, by an opener of its own, raw floats in
 * a file *.f32.
 *     open_anything OPERAND
 */
#include <sft/checkpoint_open.h>
#include <sft/extend.h>
#include <sft/import.h>
#include <sft/remote.h>
#include <sft/sft.h>
#include <stdio.h>
#include <string.h>

/* A file *.f32 is one tensor, "floats". Any other operand is left to the openers behind. */
static sft_status open_floats(sft_operand *operand, const void *options, sft_catalog **out,
                              sft_error *err) {
    const size_t len = operand->path != NULL ? strlen(operand->path) : 0;
    const uint64_t size = operand->source != NULL ? sft_source_size(operand->source) : 0;
    const uint64_t count = size / 4;
    const sft_piece piece = {.nbytes = 4 * count};
    const sft_tensor tensor = {.name = "floats",
                               .name_len = 6,
                               .dtype = sft_dtype_get(SFT_F32),
                               .shape = &count,
                               .rank = 1,
                               .pieces = &piece,
                               .piece_count = 1};
    const sft_file file = {.path = operand->path, .size = size, .data_bytes = size};
    sft_builder *builder = NULL;
    sft_status status;

    (void)options;
    if (operand->kind != SFT_OPERAND_FILE || len < 4 ||
        strcmp(operand->path + len - 4, ".f32") != 0) {
        return SFT_OK;
    }
    status = sft_builder_create(&builder, operand->open, err);
    if (!status) {
        status = sft_builder_add_source(builder, operand->source, NULL, err);
        operand->source = NULL; /* the builder's, in every case */
    }
    if (!status && !(status = sft_builder_add_file(builder, &file, NULL, err)) &&
        !(status = sft_builder_add_tensor(builder, &tensor, err))) {
        status = sft_builder_finish(out, builder, err);
    }
    sft_builder_free(builder);
    return status;
}

static const sft_opener floats = {sizeof floats, open_floats};

/* Called when the first URL is met: libcurl is looked for then. */
static sft_status find_remote(void *ctx, sft_remote **remote, sft_error *err) {
    sft_remote **ours = ctx;
    sft_status status = SFT_OK;

    if (*ours == NULL) {
        sft_remote_options options;
        SFT_INIT(&options);
        options.flags = SFT_REMOTE_ENVIRONMENT;
        status = sft_remote_create(ours, &options, err);
    }
    *remote = *ours;
    return status;
}

static void list(sft_catalog *model) {
    const sft_checkpoint *checkpoint = sft_checkpoint_of(model);
    sft_import_report *report = sft_import_report_take(model);

    printf("%s\n", checkpoint != NULL
                       ? sft_checkpoint_kind_title(sft_checkpoint_kind_of(checkpoint))
                   : report != NULL ? sft_import_format_title(sft_import_report_format(report))
                                    : "safetensors");
    for (size_t i = 0; i < sft_catalog_count(model); i++) {
        const sft_tensor *t = sft_catalog_at(model, i);
        printf("%s  %s  %llu bytes\n", t->name, t->dtype->name, (unsigned long long)t->nbytes);
    }
    sft_import_report_free(report);
}

int main(int argc, char **argv) {
    sft_remote *remote = NULL;
    sft_remote_opening urls;
    const sft_opener_row rows[] = {{sft_remote_opener(), &urls},
                                   {&floats, NULL},
                                   {sft_checkpoint_opener(), NULL},
                                   {sft_catalog_opener(), NULL},
                                   {sft_import_opener(), NULL}};
    sft_door_options door;
    sft_catalog *model;
    sft_error err;

    if (argc != 2) {
        fprintf(stderr, "usage: open_anything OPERAND\n");
        return 2;
    }
    SFT_INIT(&urls);
    urls.find = find_remote;
    urls.ctx = &remote;
    SFT_INIT(&door);
    door.rows = rows;
    door.row_count = sizeof rows / sizeof rows[0];
    const sft_status status = sft_open(&model, argv[1], NULL, &door, &err);
    if (status == SFT_OK) {
        list(model);
    } else {
        fprintf(stderr, "%s: %s\n", argv[1], err.message);
    }
    sft_catalog_close(model);
    sft_remote_free(remote);
    return status == SFT_OK ? 0 : 1;
}
