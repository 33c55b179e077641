/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_counts.c - of --verify: do the tensors of an input have all bytes that its
 * container gave them, and are they those that its own digests are of? A copy that is compared with
 * the catalog it was made from cannot say so. Read first: convert.h.
 */
#include "import/convert/convert.h"
#include <sft/digest.h>

sft_status sft__import_convert_counts(const sft_catalog *catalog, const sft_import_report *report,
                                      sft_error *err) {
    const uint64_t want = sft__import_report_covered_bytes(report);
    uint64_t have = 0;

    if (want == 0) {
        return SFT_OK;
    }
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        have += sft_catalog_at(catalog, i)->nbytes; /* bounded by the builder */
    }
    return have >= want
               ? SFT_OK
               : sft__base_fail(err, SFT_E_MISMATCH,
                                "verify: the tensors have %llu bytes, the storages gave them "
                                "%llu",
                                (unsigned long long)have, (unsigned long long)want);
}

sft_status sft__import_convert_recorded(const sft__import_conversion *c, const sft_catalog *catalog,
                                        sft_error *err) {
    sft_verify_options o;

    SFT_INIT(&o);
    o.allocator = c->write.allocator;
    o.pool = c->write.pool;
    o.control = c->write.control;
    const sft_status status = sft_catalog_verify(catalog, &o, NULL, err);
    return status == SFT_E_NOT_FOUND ? SFT_OK : status;
}
