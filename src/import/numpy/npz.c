/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/numpy/npz.c - numpy archives: a zip of NAME.npy members, stored or deflated. An archive
 * that also holds pickles is read as PyTorch would read it. Source: numpy/lib/_npyio_impl.py. Read
 * first: npy.h, zip.h.
 */
#include "import/archive/zip.h"
#include "import/numpy/npy.h"

static bool ends_with(const char *name, size_t len, const char *end) {
    const size_t n = strlen(end);
    return len >= n && memcmp(name + len - n, end, n) == 0;
}

/* Settings and notes that programs put beside the arrays. */
static bool is_text(const char *name, size_t len) {
    return ends_with(name, len, ".json") || ends_with(name, len, ".txt") ||
           ends_with(name, len, ".yaml") || ends_with(name, len, ".md");
}

/* The first member is an array; or texts, which are stored, and then an array. A Keras archive
 * begins with texts of its own. */
/* Of a name that ends behind the first bytes: how does it end? */
static bool is_long_array(const sft__import_probe *p, size_t at, size_t len) {
    const uint64_t end = (uint64_t)at + 30 + len;
    char last[4];

    return end > p->head_len && end <= p->size && len > 4 &&
           sft_source_read(p->source, end - 4, last, 4, NULL) == SFT_OK &&
           memcmp(last, ".npy", 4) == 0;
}

static bool probe(const sft__import_probe *p) {
    size_t at = 0;

    if (!sft__import_zip_probe(p)) {
        return false;
    }
    for (int i = 0; i < 8 && at + 34 <= p->head_len; i++) {
        const uint8_t *h = p->head + at;
        const size_t len = sft__base_load_le16(h + 26);
        const uint64_t next =
            at + 30 + (uint64_t)len + sft__base_load_le16(h + 28) + sft__base_load_le32(h + 18);
        const char *name = (const char *)h + 30;
        if (memcmp(h, "PK\003\004", 4) != 0 || at + 30 + len > p->head_len) {
            return memcmp(h, "PK\003\004", 4) == 0 && is_long_array(p, at, len);
        }
        if (ends_with(name, len, ".npy")) {
            return true;
        }
        const bool keras = (len == 13 && memcmp(name, "metadata.json", 13) == 0) ||
                           (len == 11 && memcmp(name, "config.json", 11) == 0);
        if (keras || !is_text(name, len) || (h[6] & 8) != 0 || next > p->head_len) {
            return false;
        }
        at = (size_t)next;
    }
    return false;
}

static sft_status add_member(sft__import *job, const sft__import_zip_entry *e, sft_error *err) {
    sft__import_npy array = {.name = e->name, .name_len = e->name_len - 4};

    if (is_text(e->name, e->name_len)) {
        sft__import_find(job, SFT__RULE(LEFT_OUT, HARMLESS, "npz-member"), SFT__NAMED(e, e->header),
                         "a text beside the arrays");
        return SFT_OK;
    }
    if (!ends_with(e->name, e->name_len, ".npy")) {
        return sft__import_opaque(job, SFT__NAMED(e, e->header), err,
                                  "npz-member: a member that is no .npy file");
    }
    SFT_TRY(sft__import_zip_place(job, e, &array.source, &array.bytes, &array.offset, err));
    array.end = array.offset + e->usize;
    return sft__import_npy_add(job, &array, err);
}

static sft_status add_all(sft__import *job, const sft__import_zip *zip, sft_error *err) {
    for (size_t i = 0; i < zip->count; i++) {
        SFT_TRY(add_member(job, &zip->entries[i], err));
    }
    for (size_t i = 0; i < zip->count && (job->options.flags & SFT_IMPORT_CHECKSUMS) != 0; i++) {
        SFT_TRY(sft__import_zip_check(job, &zip->entries[i], err));
    }
    return SFT_OK;
}

static sft_status open_npz(sft__import *job, sft_error *err) {
    sft__import_zip zip;
    bool pickles = false;

    job->exact_names = true;
    sft_status status = sft__import_zip_open(&zip, job, err);
    for (size_t i = 0; i < zip.count && status == SFT_OK; i++) {
        const sft__import_zip_entry *e = &zip.entries[i];
        pickles = pickles || ends_with(e->name, e->name_len, ".pkl") ||
                  ends_with(e->name, e->name_len, ".pickle");
    }
    if (status == SFT_OK && !pickles) {
        status = add_all(job, &zip, err);
    }
    sft__import_zip_reset(&zip);
    if (status != SFT_OK || !pickles) {
        return status;
    }
    job->exact_names = false;
    job->format = SFT_IMPORT_TORCH_ZIP;
    return sft__import_reader_torch_zip.open(job, err);
}

const sft__import_reader sft__import_reader_npz = {SFT_IMPORT_NPZ, probe, open_npz};
