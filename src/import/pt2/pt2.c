/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pt2/pt2.c - the archives of torch.export. Three layouts: since 2.9 every weight is a member of raw
 * bytes, and NAME_weights_config.json says what it is; in 2.7 and 2.8 data/weights/NAME.pt is what
 * torch.save made of the state dict; before, serialized_state_dict.pt beside the program. The
 * program, sample inputs and what AOTInductor compiled stay outside, by name. Source:
 * torch/export/pt2_archive, torch/export/__init__.py. Read first: pt2.h.
 */
#include "import/pt2/pt2.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/json.h"

enum { CONFIG_MOST = 64 << 20, PATH_MOST = 4096, STRIDED = 7 };

typedef struct pt2 {
    sft__import *job;
    const sft__import_zip *zip;
    const sft__import_pt2_inner *inner;
    sft__import_torch t;
    sft__import_pickle p;
    sft__import_named_view *views;
    size_t view_count;
    size_t view_room;
    uint8_t *listed; /* for each member: a list names it */
} pt2;

static bool ends_with(const sft__import_zip_entry *e, const char *end) {
    const size_t n = strlen(end);
    return e->name_len >= n && memcmp(e->name + e->name_len - n, end, n) == 0;
}

/* The name behind its top directory, or all of it. */
static const char *below_top(const sft__import_zip_entry *e) {
    const char *slash = memchr(e->name, '/', e->name_len);
    return slash != NULL ? slash + 1 : e->name;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

bool sft__import_pt2_is(const sft__import_zip *zip) {
    for (size_t i = 0; i < zip->count; i++) {
        const sft__import_zip_entry *e = &zip->entries[i];
        if (strcmp(e->name, "serialized_exported_program.json") == 0 ||
            strcmp(below_top(e), "archive_format") == 0) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- raw weights */

static const sft_dtype *dtype_of(uint64_t number) {
    static const uint16_t types[] = {
        [1] = SFT_U8,           [2] = SFT_I8,           [3] = SFT_I16,      [4] = SFT_I32,
        [5] = SFT_I64,          [6] = SFT_F16,          [7] = SFT_F32,      [8] = SFT_F64,
        [9] = SFT__C32,         [10] = SFT_C64,         [11] = SFT__C128,   [12] = SFT_BOOL,
        [13] = SFT_BF16,        [28] = SFT_U16,         [29] = SFT_F8_E4M3, [30] = SFT_F8_E5M2,
        [31] = SFT_F8_E4M3FNUZ, [32] = SFT_F8_E5M2FNUZ, [33] = SFT_F8_E8M0, [34] = SFT_U32,
        [35] = SFT_U64,
    };
    const size_t count = sizeof types / sizeof types[0];
    return number > 0 && number < count && types[number] != 0 ? sft__import_dtype(types[number])
                                                              : NULL;
}

static sft_status left_out(const pt2 *k, const char *name, size_t len, const char *what) {
    sft__import_find(k->job, SFT__RULE(LEFT_OUT, HARMLESS, "pt2-left-out"),
                     SFT__AT(name, len, SFT_NO_OFFSET), "%s", what);
    return SFT_OK;
}

/* DIRECTORY/path_name, where DIRECTORY is that of the list. */
static const sft__import_zip_entry *payload(const pt2 *k, const sft__import_zip_entry *list,
                                            const sft__import_pt2_entry *e) {
    char path[PATH_MOST];
    size_t n = list->name_len;

    while (n > 0 && list->name[n - 1] != '/') {
        n--;
    }
    if (n > sizeof path || e->path_len > sizeof path - n) {
        return NULL;
    }
    memcpy(path, list->name, n);
    memcpy(path + n, e->path != NULL ? e->path : "", e->path_len);
    return sft__import_zip_find(k->zip, path, n + e->path_len);
}

static sft_status bad(sft_error *err, sft_status status, const sft__import_pt2_entry *e,
                      const char *what) {
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, e->name, e->name_len, "pt2-weight: %s",
                                 what);
}

static sft_status add_view(pt2 *k, const sft__import_pt2_entry *e, const sft__import_view *v,
                           sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(k->job->allocator, k->views, k->view_room, k->view_count, err));
    k->views[k->view_count++] = (sft__import_named_view){e->name, e->name_len, *v};
    return SFT_OK;
}

static sft_status read_raw(pt2 *k, const sft__import_zip_entry *list,
                           const sft__import_pt2_entry *e, sft_error *err) {
    const sft__import_zip_entry *member = payload(k, list, e);
    sft__import_view v;

    if (member != NULL) {
        k->listed[member - k->zip->entries] = 1;
    }

    if (member == NULL) {
        return bad(err, SFT_E_HOLE, e, "the archive has no member with its bytes");
    }
    if (e->pickled && k->job->scanning) {
        sft__import_find(k->job, SFT__RULE(CONTAINER, UNKNOWN, "pt2-pickled"),
                         SFT__NAMED(e, member->data), "an object that loading it unpickles");
    }
    if (e->pickled || !e->described) {
        return sft__import_opaque(k->job, SFT__NAMED(e, member->data), err,
                                  "pt2-weight: an object that was pickled into %.200s",
                                  member->name);
    }
    memset(&v, 0, sizeof v);
    v.dtype = dtype_of(e->dtype);
    if (v.dtype == NULL || e->layout != STRIDED) {
        return sft__import_opaque(k->job, SFT__NAMED(e, member->data), err,
                                  "pt2-weight: a tensor of the type %llu and layout %llu of "
                                  "PyTorch's exports",
                                  (unsigned long long)e->dtype, (unsigned long long)e->layout);
    }
    if (e->rank != e->stride_count) {
        return bad(err, SFT_E_SHAPE, e, "size and stride have different lengths");
    }
    SFT_TRY(sft__import_zip_place(k->job, member, &v.source, &v.data, &v.low, err));
    v.high = v.low + member->usize;
    v.rank = e->rank;
    v.shape = e->shape;
    SFT_TRY(sft__import_alloc(k->job, &v.strides, v.rank, sizeof *v.strides, err));
    SFT_TRY(sft__import_torch_view(&v, e->offset, e->strides, err));
    SFT_TRY(sft__import_torch_packed_check(&v, err));
    return add_view(k, e, &v, err);
}

static sft_status read_list(pt2 *k, const sft__import_zip_entry *list, sft_error *err) {
    sft__import_pt2_entry *entries = NULL;
    size_t count = 0;
    size_t size;
    char *text;
    char *copy;

    SFT_TRY(sft__import_zip_read(k->job, list, CONFIG_MOST, &text, &size, err));
    SFT_TRY(sft__import_alloc(k->job, &copy, size + SFT__JSON_SLACK, 1, err));
    memcpy(copy, text, size);
    memset(copy + size, 0, SFT__JSON_SLACK);
    SFT_TRY(sft__import_pt2_config(k->job, copy, size, &entries, &count, err));
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(read_raw(k, list, &entries[i], err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what torch.save made */

/* A member that is an archive of PyTorch's itself: its tensors, under their own names. */
static sft_status read_inside(pt2 *k, const sft__import_zip_entry *e, sft_error *err) {
    const sft_source *outer = k->job->file;
    const uint32_t outer_source = k->job->file_source;
    const sft_source *bytes;
    sft_source *part;
    uint32_t source;
    uint64_t offset;

    if (e->usize == 0) {
        return SFT_OK; /* no constants */
    }
    SFT_TRY(sft__import_zip_place(k->job, e, &source, &bytes, &offset, err));
    if (e->method != 0) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, e->data,
                                 "pt2: member %.200s is compressed, which PyTorch never does",
                                 e->name);
    }
    SFT_TRY(sft__import_source_part(&part, bytes, (sft__import_extent){offset, e->usize}, e->name,
                                    k->job->allocator, err));
    SFT_TRY(sft_builder_add_source(k->job->builder, part, &source, err));
    k->job->file = part;
    k->job->file_source = source;
    const sft_status status = k->inner->open(k->job, err);
    k->job->file = outer;
    k->job->file_source = outer_source;
    return status;
}

/* A scan looks into archives of PyTorch's that reading leaves outside. */
static sft_status scan_inside(pt2 *k, const sft__import_zip_entry *e, sft_error *err) {
    const sft_source *outer = k->job->file;
    sft_source *part;
    sft__import_view view;
    sft_error why;
    bool tensor;
    bool storages;

    memset(&why, 0, sizeof why);
    if (!k->job->scanning || e->usize == 0 || e->method != 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_source_part(&part, outer, (sft__import_extent){e->data, e->usize}, e->name,
                                    k->job->allocator, err));
    const sft__base_arena before = k->job->arena;
    k->job->file = part;
    if (k->inner->item(k->job, &view, &tensor, &storages, &why) != SFT_OK) {
        sft__import_find(k->job, SFT__RULE(CONTAINER, UNKNOWN, "pt2-member"),
                         SFT__NAMED(e, why.offset), "%s", why.message);
    }
    k->job->file = outer;
    sft__base_arena_rewind(&k->job->arena, &before);
    sft_source_close(part);
    return SFT_OK;
}

/* ---------------------------------------------------------------- the whole */

static bool is_service(const char *name) {
    static const char *const known[] = {"archive_format",    "archive_version", "byteorder",
                                        "version",           ".data/",          ".format_version",
                                        ".storage_alignment"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (begins(name, known[i])) {
            return true;
        }
    }
    return false;
}

static sft_status read_member(pt2 *k, const sft__import_zip_entry *e, sft_error *err) {
    const char *name = below_top(e);
    const bool data = begins(name, "data/weights/") || begins(name, "data/constants/");

    if (data && ends_with(e, "_config.json")) {
        return read_list(k, e, err);
    }
    if ((data && ends_with(e, ".pt")) || strcmp(e->name, "serialized_state_dict.pt") == 0 ||
        strcmp(e->name, "serialized_constants.pt") == 0) {
        return read_inside(k, e, err);
    }
    if (data || is_service(name)) {
        return SFT_OK; /* weights are asked for by their lists */
    }
    if (begins(name, "data/aotinductor/")) {
        if (k->job->scanning) {
            sft__import_find(k->job, SFT__RULE(CONTAINER, UNKNOWN, "pt2-compiled"),
                             SFT__NAMED(e, e->data),
                             "compiled by AOTInductor: a program, which loading it runs");
        }
        return left_out(k, e->name, e->name_len,
                        "compiled by AOTInductor: a program for one machine");
    }
    if (begins(name, "models/") || strcmp(e->name, "serialized_exported_program.json") == 0) {
        return left_out(k, e->name, e->name_len, "the program, which is never read");
    }
    if (ends_with(e, ".pt")) {
        SFT_TRY(scan_inside(k, e, err));
    }
    return left_out(k, e->name, e->name_len,
                    begins(name, "data/sample_inputs/") || begins(e->name, "serialized_example")
                        ? "sample inputs, no weights"
                        : "no weights");
}

/* Weights that no list names. */
static void tell_unlisted(const pt2 *k) {
    for (size_t i = 0; i < k->zip->count; i++) {
        const sft__import_zip_entry *e = &k->zip->entries[i];
        const char *name = below_top(e);
        const bool data = begins(name, "data/weights/") || begins(name, "data/constants/");
        if (data && k->listed[i] == 0 && !ends_with(e, "_config.json") && !ends_with(e, ".pt") &&
            e->usize != 0) {
            sft__import_left(k->job, e->name, e->name_len, 1,
                             "a member of weights or constants that no list names");
        }
    }
}

sft_status sft__import_pt2_read(sft__import *job, const sft__import_zip *zip,
                                const sft__import_pt2_inner *inner, sft_error *err) {
    sft_status status = SFT_OK;
    pt2 k;

    memset(&k, 0, sizeof k);
    k.job = job;
    k.zip = zip;
    k.inner = inner;
    k.t.job = job;
    k.t.p = &k.p;
    k.p.job = job;
    job->format = SFT_IMPORT_PT2;
    SFT_TRY(sft__import_alloc(job, &k.listed, zip->count, 1, err));
    memset(k.listed, 0, zip->count);
    for (size_t i = 0; i < zip->count && status == SFT_OK; i++) {
        status = read_member(&k, &zip->entries[i], err);
    }
    tell_unlisted(&k);
    SFT_THEN(status, sft__import_torch_views(&k.t, k.views, k.view_count, err));
    sft__base_free(job->allocator, k.views, k.view_room * sizeof *k.views);
    return status;
}
