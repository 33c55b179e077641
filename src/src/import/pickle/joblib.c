/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/joblib.c - dumps of joblib that are compressed as a whole (zlib, gzip, bzip2, xz, lzma),
 * which joblib.load opens unasked: unpacked as a stream, and read as the pickle that comes out. Not
 * for scans, which unpack by themselves. Read first: archive/unpack.h, pickle_joblib.c.
 */
#include "import/pickle/joblib.h"
#include "import/archive/unpack.h"

enum { MOST = 128 << 20, RATIO = 16, KEEP = 1 << 20 };

bool sft__import_joblib_is_packed(const sft__import_probe *p) {
    const sft__import_pack pack = sft__import_pack_of(p->head, p->head_len);
    return pack >= SFT__PACK_GZIP && pack <= SFT__PACK_LZMA && sft__import_pack_is_read(pack);
}

/* What may come out: in proportion to the file, or what is unpacked within a second, twice. */
static uint64_t most_of(sft__import_pack pack, uint64_t size) {
    const uint64_t least = pack == SFT__PACK_BZIP2  ? (uint64_t)MOST / 6
                           : pack == SFT__PACK_LZMA ? (uint64_t)MOST / 3
                                                    : (uint64_t)MOST;
    return size > UINT64_MAX / RATIO ? UINT64_MAX : size * RATIO > least ? size * RATIO : least;
}

static sft_status check(const sft__import *job, const sft_source *made,
                        const sft__import_unpacked *got, sft__import_pack pack, sft_error *err) {
    uint8_t first[2] = {0, 0};

    if (got->size >= 4) {
        SFT_TRY(sft_source_read(made, 0, first, sizeof first, err));
    }
    if (!(first[0] == 0x80 && first[1] >= 2 && first[1] <= 5) &&
        (first[0] == 0 || memchr("(}]c)", first[0], 5) == NULL)) {
        return sft__base_fail_at(err, SFT_E_FORMAT, 0,
                                 "this is compressed with %s: unpack it first",
                                 sft__import_pack_name(pack));
    }
    if (got->limited) {
        return sft__base_fail_at(err, SFT_E_LIMIT, 0,
                                 "joblib-stream: %s would unpack to more than %llu bytes",
                                 sft__import_pack_name(pack),
                                 (unsigned long long)most_of(pack, sft_source_size(job->file)));
    }
    if (got->damaged || got->trailing) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, 0, "joblib-stream: what is compressed with %s %s",
            sft__import_pack_name(pack),
            got->damaged ? "ends early, or is damaged" : "is followed by other bytes");
    }
    return SFT_OK;
}

sft_status sft__import_joblib_open_packed(sft__import *job, const sft__import_probe *probe,
                                          sft_error *err) {
    const sft_source *outer = job->file;
    const uint64_t size = sft_source_size(outer);
    const sft__import_pack pack = sft__import_pack_of(probe->head, probe->head_len);
    const sft__import_unpack how = {pack, 0, size, most_of(pack, size), KEEP};
    sft__import_unpacked got;
    sft_source *made;
    uint32_t source;

    SFT_TRY(sft__import_source_unpack(&made, outer, &how, &got, job->allocator, err));
    SFT_TRY(sft_builder_add_source(job->builder, made, &source, err));
    SFT_TRY(check(job, made, &got, pack, err));
    job->file = made;
    job->file_source = source;
    const sft_status status = sft__import_reader_pickle.open(job, err);
    job->file = outer;
    job->file_source = 0;
    job->format = SFT_IMPORT_JOBLIB;
    return status;
}
