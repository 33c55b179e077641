/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * scan.c - what JavaScript calls of safetensors-scan.wasm, which opens no models: what judges is a half of it.
 */
#include "module.h"

EXPORT(scan) sft_import_report *w_scan(const char *path, options *o) {
    sft_limits limits;
    sft_import_options import;
    sft_import_report *report = NULL;

    set_limits(&limits, o);
    set_import(&import, &limits, o);
    return sft_scan(&report, path, &import, &error) == SFT_OK ? report : NULL;
}
