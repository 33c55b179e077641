/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/numpy/npz.c - numpy archives: a zip of NAME.npy members, stored or deflated. An archive that
 * also holds pickles is read as PyTorch would read it. Source: numpy/lib/_npyio_impl.py. Read
 * first: npy.h, zip.h.
 */
#include "import/numpy/npy.h"
#include "import/archive/zip.h"

static bool ends_with(const char *name, size_t len, const char *end) {
    const size_t n = strlen(end);
    return len >= n && memcmp(name + len - n, end, n) == 0;
}

/* The first member is an array. */
static bool probe(const sft__probe *p) {
    if (!sft__zip_probe(p) || p->head_len < 34) {
        return false;
    }
    const size_t len = sft__load_le16(p->head + 26);
    return 30 + len <= p->head_len && ends_with((const char *)p->head + 30, len, ".npy");
}

static sft_status add_member(sft__import *job, const sft__zip_entry *e, sft_error *err) {
    const sft_source *bytes;
    uint32_t source;
    uint64_t offset;

    if (!ends_with(e->name, e->name_len, ".npy")) {
        return sft__import_opaque(job, e->name, e->name_len, e->header, err,
                                  "npz-member: a member that is no .npy file");
    }
    SFT_TRY(sft__zip_place(job, e, &source, &bytes, &offset, err));
    return sft__npy_add(job, bytes, source, offset, e->usize, e->name, e->name_len - 4, err);
}

static sft_status add_all(sft__import *job, const sft__zip *zip, sft_error *err) {
    for (size_t i = 0; i < zip->count; i++) {
        SFT_TRY(add_member(job, &zip->entries[i], err));
    }
    for (size_t i = 0; i < zip->count && (job->options.flags & SFT_IMPORT_CHECKSUMS) != 0; i++) {
        SFT_TRY(sft__zip_check(job, &zip->entries[i], err));
    }
    return SFT_OK;
}

static sft_status open_npz(sft__import *job, sft_error *err) {
    sft__zip zip;
    bool pickles = false;

    job->exact_names = true;
    sft_status status = sft__zip_open(&zip, job, err);
    for (size_t i = 0; i < zip.count && status == SFT_OK; i++) {
        const sft__zip_entry *e = &zip.entries[i];
        pickles = pickles || ends_with(e->name, e->name_len, ".pkl") ||
                  ends_with(e->name, e->name_len, ".pickle");
    }
    if (status == SFT_OK && !pickles) {
        status = add_all(job, &zip, err);
    }
    sft__zip_reset(&zip);
    if (status != SFT_OK || !pickles) {
        return status;
    }
    job->exact_names = false;
    job->format = SFT_IMPORT_TORCH_ZIP;
    return sft__reader_torch_zip.open(job, err);
}

const sft__reader sft__reader_npz = {SFT_IMPORT_NPZ, probe, open_npz};
