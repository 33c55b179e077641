/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/scan.c - scans of a path or source. Opening and scanning are the same run: a scan throws the
 * catalog away. Read first: scan.h.
 */
#include "import/scan/scan.h"
#include "import/core/shards.h"
#include "import/tensorflow/tf.h"

static sft_status scan_out(sft_import_report **out, sft_error *err) {
    SFT_OUT(out, err);
    return SFT_OK;
}

sft_status sft_scan_source(sft_import_report **out, sft_source *source,
                           const sft_import_options *options, sft_error *err) {
    if (source == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "source is NULL");
    }
    const sft_status status = scan_out(out, err);
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    return sft__import_scan_file(out, source, NULL, options, err);
}

sft_status sft_scan(sft_import_report **out, const char *path, const sft_import_options *options,
                    sft_error *err) {
    char found[SFT__TF_PATH];
    sft_source *source;

    SFT_TRY(scan_out(out, err));
    SFT_TRY(sft__import_open_path(&source, &path, found, options, err));
    return sft__import_scan_file(out, source, path, options, err);
}
