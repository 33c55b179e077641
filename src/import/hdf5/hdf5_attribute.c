/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_attribute.c - arrays of numbers in attributes, which are no tensors here: each
 * is named. Texts, single numbers, references and records, which is what libraries describe their
 * objects with, are passed over. Source: HDF5 File Format Specification, IV.A.2.m. Read first:
 * hdf5.h.
 */
#include "import/hdf5/hdf5.h"

enum { FLOATS = 1, TEXTS = 3, RECORDS = 6, ENUMERATION = 8, ARRAY = 10 };

typedef struct telling {
    sft__import_h5 *h;
    const char *path;
    size_t len;
} telling;

/* Of one dimension or more, and not empty. */
static bool is_array(const sft__import_h5 *h, const uint8_t *space, size_t len) {
    const size_t head = len != 0 && space[0] == 1 ? 8 : 4;
    sft__import_h5_in in = {space, len, false};

    if (len < head || space[0] < 1 || space[0] > 2 || space[1] == 0 ||
        (space[0] == 2 && space[3] != 1)) {
        return false;
    }
    (void)sft__import_h5_skip(&in, head);
    for (uint32_t d = 0; d < space[1]; d++) {
        if (sft__import_h5_take(&in, h->length_size) == 0 || in.bad) {
            return false;
        }
    }
    return true;
}

/* Numbers, h5py's complex ones (records of r and i), booleans and enumerations, and what HDF5 2.0
 * has; no texts, references and other records. */
static bool is_number(const uint8_t *type, size_t len) {
    const uint32_t class = len >= 8 ? type[0] & 15u : TEXTS;

    if (class == RECORDS) {
        return len >= 10 && sft__base_load_le16(type + 1) == 2 && memcmp(type + 8, "r", 2) == 0;
    }
    return class <= FLOATS || class == ENUMERATION || class >= ARRAY;
}

static sft_status take(void *ctx, const uint8_t *bytes, size_t size, sft_error *err) {
    const telling *t = ctx;
    sft__import_h5_in in = {bytes, size, false};
    char subject[512];
    const uint64_t version = sft__import_h5_take(&in, 1);
    const uint64_t flags = sft__import_h5_take(&in, 1);
    const size_t pad = version == 1 ? 7 : 0;
    const size_t name_len = (size_t)sft__import_h5_take(&in, 2);
    const size_t type_len = (size_t)sft__import_h5_take(&in, 2);
    const size_t space_len = (size_t)sft__import_h5_take(&in, 2);

    (void)err;
    (void)sft__import_h5_skip(&in, version == 3 ? 1 : 0);
    const uint8_t *name = sft__import_h5_skip(&in, (name_len + pad) & ~pad);
    const uint8_t *type = sft__import_h5_skip(&in, (type_len + pad) & ~pad);
    const uint8_t *space = sft__import_h5_skip(&in, (space_len + pad) & ~pad);
    if (in.bad || version == 0 || version > 3 || name_len == 0) {
        return SFT_OK; /* no attribute that anybody reads */
    }
    const bool shared = version > 1 && (flags & 1) != 0;
    const bool array = type_len >= 8 && (type[0] & 15) == ARRAY;
    if (!(shared || is_number(type, type_len)) || !(array || is_array(t->h, space, space_len))) {
        return SFT_OK;
    }
    size_t n = t->len < sizeof subject / 2 ? t->len : sizeof subject / 2;
    memcpy(subject, t->path, n);
    subject[n++] = '@';
    for (size_t i = 0; i + 1 < name_len && n < sizeof subject && name[i] != 0; i++) {
        subject[n++] = (char)name[i];
    }
    sft__import_left(t->h->job, subject, n, 1,
                     "an array of numbers in an attribute: attributes are no tensors");
    return SFT_OK;
}

sft_status sft__import_h5_attributes(sft__import_h5 *h, const char *path, size_t len,
                                     sft_error *err) {
    telling t = {h, path, len};

    for (size_t i = 0; i < h->object.count && !h->job->scanning; i++) {
        const sft__import_h5_message *m = &h->object.messages[i];
        sft__import_h5_in in = sft__import_h5_body(&h->object, m);
        if (m->type == SFT__H5_ATTRIBUTE && (m->flags & 2) == 0) {
            SFT_TRY(take(&t, in.p, in.left, err));
        } else if (m->type == SFT__H5_ATTRIBUTES) {
            uint64_t met;
            bool was;
            (void)sft__import_h5_take(&in, 1);
            (void)sft__import_h5_skip(&in, (sft__import_h5_take(&in, 1) & 1) != 0 ? 2 : 0);
            const uint64_t heap = sft__import_h5_take_addr(h, &in);
            const uint64_t tree = sft__import_h5_take_addr(h, &in);
            if (in.bad || heap == SFT__H5_UNDEF) {
                continue;
            }
            SFT_TRY(
                sft__import_h5_meet(h, heap, UINT64_MAX - 2, &met, &was, err)); /* each heap once */
            if (!was) {
                SFT_TRY(sft__import_h5_dense(h, (sft__import_h5_named){heap, tree, 8, 0}, take, &t,
                                             err));
            }
        }
    }
    return SFT_OK;
}
