/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_dataset.c - what the messages of a dataset say: shape, element type, layout,
 * filters, fill value; and the attribute that names an element type HDF5 has not. Nothing of the
 * data is read. Source: HDF5 File Format Specification, IV.A.2. Read first: hdf5.h.
 */
#include "base/checked.h"
#include "import/hdf5/hdf5.h"

enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2, VIRTUAL = 3, GLOBAL_MOST = 1 << 20 };

/* ---------------------------------------------------------------- shape */

static sft_status take_space(sft__import_h5 *h, sft__import_h5_dataset *d, sft_error *err) {
    const sft__import_h5_message *m = sft__import_h5_message_find(&h->object, SFT__H5_DATASPACE);
    sft__import_h5_in in = sft__import_h5_body(&h->object, m);
    const uint64_t version = sft__import_h5_take(&in, 1);
    const uint64_t rank = sft__import_h5_take(&in, 1);
    const uint64_t flags = sft__import_h5_take(&in, 1);
    const uint64_t kind = sft__import_h5_take(&in, 1); /* version 1: reserved */

    (void)sft__import_h5_skip(&in, version == 1 ? 4 : 0);
    if (version == 0 || version > 2 || (m->flags & 2) != 0) {
        return sft__import_h5_bad(h, m->addr, err, "a dataspace of an unknown version, or shared");
    }
    if (rank > SFT__H5_RANK) {
        return sft__import_h5_bad(h, m->addr, err, "more than 32 dimensions");
    }
    d->rank = (uint32_t)rank;
    d->empty = version == 2 && kind == 2;
    for (uint32_t i = 0; i < d->rank; i++) {
        d->shape[i] = sft__import_h5_take(&in, h->length_size);
        d->most[i] = d->shape[i];
    }
    const uint64_t any = UINT64_MAX >> (64 - 8 * h->length_size);
    for (uint32_t i = 0; i < d->rank && (flags & 1) != 0; i++) {
        d->most[i] = sft__import_h5_take(&in, h->length_size);
        d->most[i] = d->most[i] == any ? UINT64_MAX : d->most[i];
        if (d->most[i] < d->shape[i]) {
            return sft__import_h5_bad(h, m->addr, err,
                                      "a shape larger than the one it may grow to");
        }
    }
    return in.bad ? sft__import_h5_bad(h, m->addr, err, "a dataspace cut short") : SFT_OK;
}

static sft_status count(sft__import_h5 *h, sft__import_h5_dataset *d, sft_error *err) {
    bool none = false;
    uint64_t n = 1;

    for (uint32_t i = 0; i < d->rank; i++) {
        none = none || d->shape[i] == 0;
    }
    for (uint32_t i = 0; i < d->rank && !none; i++) {
        if (!sft__base_mul64(n, d->shape[i], &n)) {
            return sft__base_fail_tensor(err, SFT_E_OVERFLOW, h->base + d->addr, d->name,
                                         d->name_len, "hdf5: the shape overflows 64 bits");
        }
    }
    d->elements = none ? 0 : n;
    if (!sft__base_mul64(d->elements, d->type.size, &d->nbytes)) {
        return sft__base_fail_tensor(err, SFT_E_OVERFLOW, h->base + d->addr, d->name, d->name_len,
                                     "hdf5: the shape overflows 64 bits");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- layout */

/* How a layout has the dimensions of a chunk: so many numbers of this width. */
typedef struct chunk_form {
    uint64_t rank;
    size_t width;
    uint64_t addr; /* of the message */
} chunk_form;

/* Dimensions of a chunk, the last of them the bytes of an element. */
static sft_status take_chunk(sft__import_h5 *h, sft__import_h5_dataset *d, sft__import_h5_in *in,
                             chunk_form form, sft_error *err) {
    uint64_t bytes = d->type.size;

    if (form.rank != (uint64_t)d->rank + 1 || form.width == 0 || form.width > 8) {
        return sft__import_h5_bad(h, form.addr, err,
                                  "chunks of another number of dimensions than the dataset");
    }
    for (uint32_t i = 0; i < d->rank; i++) {
        d->chunk[i] = sft__import_h5_take(in, form.width);
        if (d->chunk[i] == 0 || !sft__base_mul64(bytes, d->chunk[i], &bytes)) {
            return sft__import_h5_bad(h, form.addr, err,
                                      "chunks of no size, or of one that overflows");
        }
    }
    if (sft__import_h5_take(in, form.width) != d->type.size || bytes > UINT32_MAX || d->rank == 0) {
        return sft__import_h5_bad(h, form.addr, err,
                                  "chunks of 2^32 bytes or more, or of other elements");
    }
    d->chunk_bytes = bytes;
    return SFT_OK;
}

/* Versions 1 and 2. */
static sft_status layout_old(sft__import_h5 *h, sft__import_h5_dataset *d, sft__import_h5_in *in,
                             uint64_t addr, sft_error *err) {
    const uint64_t rank = sft__import_h5_take(in, 1);

    d->layout = (uint32_t)sft__import_h5_take(in, 1);
    (void)sft__import_h5_skip(in, 5);
    if (d->layout != COMPACT) {
        d->data = sft__import_h5_take_addr(h, in);
    }
    if (d->layout == CHUNKED) {
        return take_chunk(h, d, in, (chunk_form){rank, 4, addr}, err);
    }
    (void)sft__import_h5_skip(in, rank * 4 < in->left ? (size_t)rank * 4 : in->left);
    d->data_size = d->nbytes;
    if (d->layout == COMPACT) {
        d->data_size = sft__import_h5_take(in, 4);
    }
    return SFT_OK;
}

/* Chunks of versions 4 and 5: one of five indexes. */
static sft_status layout_chunks(sft__import_h5 *h, sft__import_h5_dataset *d, sft__import_h5_in *in,
                                uint64_t addr, sft_error *err) {
    static const uint8_t parameters[6] = {0, 0, 0, 1, 5, 6};
    const uint64_t flags = sft__import_h5_take(in, 1);
    const uint64_t rank = sft__import_h5_take(in, 1);
    const size_t width = (size_t)sft__import_h5_take(in, 1);

    SFT_TRY(take_chunk(h, d, in, (chunk_form){rank, width, addr}, err));
    d->partial_plain = (flags & 1) != 0;
    d->index = (uint32_t)sft__import_h5_take(in, 1);
    if (d->index == 0 || d->index > 5) {
        return sft__import_h5_bad(h, addr, err, "an index of chunks of an unknown kind");
    }
    d->data_size = d->chunk_bytes;
    if (d->index == 1 && (flags & 2) != 0) {
        d->data_size = sft__import_h5_take(in, h->length_size);
        d->single_mask = (uint32_t)sft__import_h5_take(in, 4);
    }
    (void)sft__import_h5_skip(in, parameters[d->index]); /* the index repeats them */
    d->data = sft__import_h5_take_addr(h, in);
    return SFT_OK;
}

/* Versions 3 to 5. */
static sft_status layout_new(sft__import_h5 *h, sft__import_h5_dataset *d, sft__import_h5_in *in,
                             uint64_t version, uint64_t addr, sft_error *err) {
    d->layout = (uint32_t)sft__import_h5_take(in, 1);
    if (d->layout == CONTIGUOUS) {
        d->data = sft__import_h5_take_addr(h, in);
        d->data_size = sft__import_h5_take(in, h->length_size);
    } else if (d->layout == COMPACT) {
        d->data_size = sft__import_h5_take(in, 2);
    } else if (d->layout == CHUNKED && version >= 4) { /* 5: sizes of filtered chunks are wider */
        return layout_chunks(h, d, in, addr, err);
    } else if (d->layout == CHUNKED) {
        const uint64_t rank = sft__import_h5_take(in, 1);
        d->data = sft__import_h5_take_addr(h, in);
        return take_chunk(h, d, in, (chunk_form){rank, 4, addr}, err);
    }
    return SFT_OK;
}

static sft_status take_layout(sft__import_h5 *h, sft__import_h5_dataset *d, sft_error *err) {
    const sft__import_h5_message *m = sft__import_h5_message_find(&h->object, SFT__H5_LAYOUT);
    sft__import_h5_in in = sft__import_h5_body(&h->object, m);
    const uint64_t version = sft__import_h5_take(&in, 1);

    if (version == 0 || version > 5 || (m->flags & 2) != 0) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, h->base + m->addr, d->name,
                                     d->name_len, "hdf5: version %u of a layout, 1 to 5 are known",
                                     (unsigned)version);
    }
    SFT_TRY(version < 3 ? layout_old(h, d, &in, m->addr, err)
                        : layout_new(h, d, &in, version, m->addr, err));
    if (in.bad) {
        return sft__import_h5_bad(h, m->addr, err, "a layout cut short");
    }
    if (d->layout == COMPACT) { /* the data are what is left of the message */
        d->data = m->addr + (m->len - in.left);
        if (d->data_size > in.left) {
            return sft__import_h5_bad(h, m->addr, err, "a layout cut short");
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- filters */

static sft_status take_filters(sft__import_h5 *h, sft__import_h5_dataset *d, sft_error *err) {
    const sft__import_h5_message *m = sft__import_h5_message_find(&h->object, SFT__H5_FILTER);

    if (m == NULL) {
        return SFT_OK;
    }
    sft__import_h5_in in = sft__import_h5_body(&h->object, m);
    const uint64_t version = sft__import_h5_take(&in, 1);
    d->filter_count = (uint32_t)sft__import_h5_take(&in, 1);
    (void)sft__import_h5_skip(&in, version == 1 ? 6 : 0);
    if (version == 0 || version > 2 || (m->flags & 2) != 0 || d->filter_count > SFT__H5_FILTERS) {
        return sft__import_h5_bad(h, m->addr, err, "filters of an unknown version, or more than 8");
    }
    for (uint32_t i = 0; i < d->filter_count; i++) {
        sft__import_h5_filter *f = &d->filters[i];
        f->id = (uint32_t)sft__import_h5_take(&in, 2);
        size_t name = version == 1 || f->id >= 256 ? (size_t)sft__import_h5_take(&in, 2) : 0;
        (void)sft__import_h5_take(&in, 2);
        const size_t values = (size_t)sft__import_h5_take(&in, 2);
        name = version == 1 ? (name + 7) & ~(size_t)7 : name;
        (void)sft__import_h5_skip(&in, name);
        f->value = values != 0 ? (uint32_t)sft__import_h5_take(&in, 4) : 0;
        (void)sft__import_h5_skip(&in, values > 1 ? 4 * (values - 1) : 0);
        (void)sft__import_h5_skip(&in, version == 1 && (values & 1) != 0 ? 4 : 0);
    }
    return in.bad ? sft__import_h5_bad(h, m->addr, err, "filters cut short") : SFT_OK;
}

/* ---------------------------------------------------------------- fill value */

static sft_status take_fill(sft__import_h5 *h, sft__import_h5_dataset *d, sft_error *err) {
    const sft__import_h5_message *m = sft__import_h5_message_find(&h->object, SFT__H5_FILL);
    uint64_t size = 0;

    const sft__import_h5_message *old = sft__import_h5_message_find(&h->object, SFT__H5_FILL_OLD);
    m = m != NULL ? m : old;
    if (m == NULL) {
        return SFT_OK;
    }
    if ((m->flags & 2) != 0) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, h->base + m->addr, d->name,
                                     d->name_len,
                                     "hdf5: a fill value in the heap of shared messages");
    }
    sft__import_h5_in in = sft__import_h5_body(&h->object, m);
    const uint64_t version = m->type == SFT__H5_FILL ? sft__import_h5_take(&in, 1) : 0;
    if (version == 0) {
        size = sft__import_h5_take(&in, 4);
    } else if (version == 3) {
        size = (sft__import_h5_take(&in, 1) & 0x20) != 0 ? sft__import_h5_take(&in, 4) : 0;
    } else {
        (void)sft__import_h5_skip(&in, 2);
        const bool defined = sft__import_h5_take(&in, 1) != 0;
        size = version == 1 || defined ? sft__import_h5_take(&in, 4) : 0;
    }
    size = size == UINT32_MAX ? 0 : size; /* -1: none */
    const uint8_t *value = size <= in.left ? sft__import_h5_skip(&in, (size_t)size) : NULL;
    if (version > 3 || value == NULL || in.bad || (size != 0 && size != d->type.size)) {
        return sft__import_h5_bad(h, m->addr, err, "a fill value cut short or of another size");
    }
    if (size != 0 && size <= sizeof d->fill) {
        memcpy(d->fill, value, (size_t)size);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- attributes */

typedef struct wanted {
    sft__import_h5 *h;
    const char *name;
    char *text;
    size_t cap;
    bool *met; /* there is an attribute of this name, whatever it holds */
} wanted;

/* An object of a global heap: texts of any length lie there. */
static sft_status global_text(const wanted *w, uint64_t addr, uint64_t index, uint64_t len,
                              sft_error *err) {
    sft__import_h5 *h = w->h;
    const size_t l = h->length_size;
    uint8_t head[16];

    SFT_TRY(sft__import_h5_read(h, addr, head, 8 + l, "a global heap", err));
    const uint64_t size = sft__import_h5_uint(head + 8, l);
    if (memcmp(head, "GCOL", 4) != 0 || size > GLOBAL_MOST || size < 8 + l) {
        return sft__import_h5_bad(h, addr, err,
                                  "a global heap without its signature, or above 1 MiB");
    }
    SFT_TRY(sft__import_h5_block(h, &h->more, addr, size, "a global heap", err));
    sft__import_h5_in in = {h->more.data + 8 + l, (size_t)size - 8 - l, false};
    while (in.left >= 8 + l) {
        const uint64_t number = sft__import_h5_take(&in, 2);
        (void)sft__import_h5_skip(&in, 6);
        const uint64_t bytes = sft__import_h5_take(&in, l);
        if (number == 0) {
            break;
        }
        if (bytes > in.left) {
            return sft__import_h5_bad(h, addr, err, "an object beyond the end of its global heap");
        }
        const uint8_t *p = sft__import_h5_skip(&in, (size_t)bytes);
        (void)sft__import_h5_skip(&in, (0 - (size_t)bytes) & 7);
        if (number == index && len <= bytes) {
            const size_t n = len < w->cap ? (size_t)len : w->cap - 1;
            memcpy(w->text, p, n);
            w->text[n] = '\0';
            return SFT_OK;
        }
    }
    return SFT_OK;
}

/* One attribute: if it has the name and is one text, the text. */
static sft_status take_attribute(const wanted *w, sft__import_h5_in in, sft_error *err) {
    const uint64_t version = sft__import_h5_take(&in, 1);
    const uint64_t flags = sft__import_h5_take(&in, 1);
    const size_t pad = version == 1 ? 7 : 0;
    const size_t name_len = (size_t)sft__import_h5_take(&in, 2);
    const size_t type_len = (size_t)sft__import_h5_take(&in, 2);
    const size_t space_len = (size_t)sft__import_h5_take(&in, 2);

    (void)sft__import_h5_skip(&in, version == 3 ? 1 : 0);
    const uint8_t *name = sft__import_h5_skip(&in, (name_len + pad) & ~pad);
    const uint8_t *type = sft__import_h5_skip(&in, (type_len + pad) & ~pad);
    const uint8_t *space = sft__import_h5_skip(&in, (space_len + pad) & ~pad);
    const size_t want = strlen(w->name);
    if (in.bad || name_len != want + 1 || memcmp(name, w->name, name_len) != 0) {
        return SFT_OK;
    }
    *w->met = true;
    if (version == 0 || version > 3 || type_len < 8 || space_len < 2 ||
        (version > 1 && flags != 0) || space[1] != 0) {
        return SFT_OK;
    }
    if ((type[0] & 15) == 3) {
        const size_t n = in.left < w->cap - 1 ? in.left : w->cap - 1;
        const size_t size = sft__base_load_le32(type + 4);
        memcpy(w->text, in.p, size < n ? size : n);
        w->text[size < n ? size : n] = '\0';
    } else if ((type[0] & 15) == 9 && (type[1] & 15) == 1) {
        const uint64_t len = sft__import_h5_take(&in, 4);
        const uint64_t addr = sft__import_h5_take_addr(w->h, &in);
        const uint64_t index = sft__import_h5_take(&in, 4);
        return in.bad ? SFT_OK : global_text(w, addr, index, len, err);
    }
    return SFT_OK;
}

static sft_status each_attribute(void *ctx, const uint8_t *bytes, size_t size, sft_error *err) {
    const sft__import_h5_in in = {bytes, size, false};
    return take_attribute(ctx, in, err);
}

sft_status sft__import_h5_attribute_met(sft__import_h5 *h, const char *name, char *text, size_t cap,
                                        bool *met, sft_error *err) {
    wanted w = {h, name, text, cap, met};

    text[0] = '\0';
    *met = false;
    for (size_t i = 0; i < h->object.count; i++) {
        const sft__import_h5_message *m = &h->object.messages[i];
        sft__import_h5_in in = sft__import_h5_body(&h->object, m);
        if (m->type == SFT__H5_ATTRIBUTE && (m->flags & 2) == 0) {
            SFT_TRY(take_attribute(&w, in, err));
        } else if (m->type == SFT__H5_ATTRIBUTES) {
            (void)sft__import_h5_take(&in, 1);
            (void)sft__import_h5_skip(&in, (sft__import_h5_take(&in, 1) & 1) != 0 ? 2 : 0);
            const uint64_t heap = sft__import_h5_take_addr(h, &in);
            const uint64_t tree = sft__import_h5_take_addr(h, &in);
            if (!in.bad && heap != SFT__H5_UNDEF) {
                SFT_TRY(sft__import_h5_dense(h, (sft__import_h5_named){heap, tree, 8, 0},
                                             each_attribute, &w, err));
            }
        }
    }
    return SFT_OK;
}

sft_status sft__import_h5_attribute(sft__import_h5 *h, const char *name, char *text, size_t cap,
                                    sft_error *err) {
    bool met;
    return sft__import_h5_attribute_met(h, name, text, cap, &met, err);
}

/* Elements without a meaning: Keras says in an attribute what they are. */
static sft_status named_type(sft__import_h5 *h, sft__import_h5_dataset *d, sft_error *err) {
    static const struct {
        const char *name;
        uint32_t dtype;
    } rows[] = {
        {"bfloat16", SFT_BF16}, {"float8_e4m3fn", SFT_F8_E4M3}, {"float8_e5m2", SFT_F8_E5M2}};
    char text[32];

    if (!d->type.bare) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_h5_attribute(h, "dtype", text, sizeof text, err));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sft_dtype *dtype = sft__import_dtype(rows[i].dtype);
        if (strcmp(rows[i].name, text) == 0 && dtype->block_bytes == d->type.size) {
            d->type.dtype = dtype;
            d->type.bare = false;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all of it */

/* The filter that this reader does not undo, or NULL. */
static const char *filter_refusal(const sft__import_h5_dataset *d) {
    for (uint32_t i = 0; i < d->filter_count && d->layout == CHUNKED; i++) {
        const uint32_t id = d->filters[i].id;
        if ((id == 0 || id > 3) && id != SFT__H5_LZF) {
            return "data behind a filter that is not deflate, LZF, shuffle or fletcher32";
        }
    }
    return NULL;
}

sft_status sft__import_h5_dataset_read(sft__import_h5 *h, sft__import_h5_dataset *d,
                                       const char **why, sft_error *err) {
    const sft__import_h5_object *o = &h->object;
    const sft__import_h5_message *type = sft__import_h5_message_find(o, SFT__H5_DATATYPE);

    *why = NULL;
    d->data = SFT__H5_UNDEF;
    SFT_TRY(take_space(h, d, err));
    SFT_TRY(sft__import_h5_type_read(h, o, type, &d->type, err));
    if (d->empty) {
        return SFT_OK;
    }
    SFT_TRY(count(h, d, err));
    if (sft__import_h5_message_find(o, SFT__H5_EXTERNAL) != NULL) {
        *why = "data in other files, which are never opened";
        return SFT_OK;
    }
    SFT_TRY(take_filters(h, d, err));
    if (d->type.dtype != NULL || h->job->scanning) { /* else sizes mean something else */
        SFT_TRY(take_layout(h, d, err));
    }
    if (d->type.dtype != NULL) {
        SFT_TRY(take_fill(h, d, err));
        SFT_TRY(named_type(h, d, err));
    }
    const char *filter = filter_refusal(d);
    if (h->job->scanning && filter != NULL) {
        sft__import_find(h->job, SFT__RULE(CONTAINER, UNKNOWN, "hdf5-filter"),
                         SFT__NAMED(d, h->base + d->addr), "%s: it is not looked into", filter);
    } else if (h->job->scanning && d->type.dtype == NULL && d->layout == CHUNKED) {
        d->type.dtype = sft__import_dtype(SFT_U8); /* what is in chunks is looked into */
        d->bytes = true;
    }
    if (h->job->scanning && d->type.lists && sft_source_size(h->source) > SFT__H5_LOOKED) {
        sft__import_find(
            h->job, SFT__RULE(CONTAINER, UNKNOWN, "walk-limit"), SFT__NAMED(d, h->base + d->addr),
            "lists of bytes, which may be pickles, in a file larger than what is looked "
            "through for them");
    }
    d->type.unit = h->job->scanning ? 0 : d->type.unit; /* bytes as they are */
    *why = d->type.dtype == NULL ? d->type.why : filter;
    if (*why == NULL && d->layout == VIRTUAL) {
        *why = "a virtual dataset, which refers to other files";
    } else if (*why == NULL && d->layout > VIRTUAL) {
        *why = "a layout that is not known";
    }
    return SFT_OK;
}

sft_status sft__import_h5_dataset_text(sft__import_h5 *h, char *text, size_t cap, sft_error *err) {
    const sft__import_h5_message *type = sft__import_h5_message_find(&h->object, SFT__H5_DATATYPE);
    sft__import_h5_in in = sft__import_h5_body(&h->object, type);
    const uint64_t kind = (type->flags & 2) == 0 ? sft__import_h5_take(&in, 1) & 15 : 0;
    const wanted w = {h, "", text, cap, NULL};
    const char *why;
    uint8_t place[16];
    sft__import_h5_dataset d;

    memset(&d, 0, sizeof d);
    d.name = "";
    text[0] = '\0';
    SFT_TRY(sft__import_h5_dataset_read(h, &d, &why, err));
    if (d.layout > CONTIGUOUS || d.data == SFT__H5_UNDEF || d.elements != 1) {
        return SFT_OK;
    }
    if (kind == 3) {
        const size_t n = d.nbytes < cap - 1 ? (size_t)d.nbytes : cap - 1;
        SFT_TRY(sft__import_h5_read(h, d.data, text, n, "a text", err));
        text[n] = '\0';
    } else if (kind == 9 && d.type.size == 8 + h->offset_size) {
        SFT_TRY(sft__import_h5_read(h, d.data, place, d.type.size, "the place of a text", err));
        in = (sft__import_h5_in){place, d.type.size, false};
        const uint64_t len = sft__import_h5_take(&in, 4);
        const uint64_t addr = sft__import_h5_take_addr(h, &in);
        return global_text(&w, addr, sft__import_h5_take(&in, 4), len, err);
    }
    return SFT_OK;
}
