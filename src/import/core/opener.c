/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/opener.c - other formats at the one door. Behind an opener of safetensors it is asked about
 * what that one refused, and takes what the bytes say is of another format; first in the row it takes
 * everything, as sft_import_open does. Read first: sft/open.h, import.h.
 */
#include "base/options.h"
#include "import/core/import.h"
#include "import/core/shards.h"
#include "import/tensorflow/tf.h"
#include <sft/open.h>

#define REPORT "sft.import.report"

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

static void drop_report(void *report) {
    sft_import_report_free(report);
}

/* The report goes with the catalog. */
static sft_status keep(sft_status status, sft_catalog **out, sft_import_report *report,
                       sft_error *err) {
    if (status != SFT_OK) {
        return status;
    }
    const sft_status kept = sft_catalog_attach(*out, REPORT, report, drop_report, err);
    if (kept != SFT_OK) {
        sft_import_report_free(report);
        sft_catalog_close(*out);
        *out = NULL;
    }
    return kept;
}

sft_import_report *sft_import_report_take(sft_catalog *catalog) {
    return sft_catalog_detach(catalog, REPORT);
}

/* Nobody knows it so far: it is opened, or refused, here. */
static sft_status open_all(sft_operand *operand, const sft_import_options *options,
                           sft_catalog **out, sft_error *err) {
    const char *path = operand->kind != SFT_OPERAND_URL ? operand->path : NULL;
    sft_import_report *report = NULL;
    sft_source *source = operand->source;
    sft_status status;

    operand->source = NULL;
    status = source != NULL ? sft__import_open_over(out, source, path, options, &report, err)
                            : sft_import_open(out, path, options, &report, err);
    return keep(status, out, report, err);
}

/* A directory without safetensors, or an index that names none, may be a model of another format. */
static bool may_be_several(const sft_operand *operand) {
    const char *path = operand->path;

    if (operand->kind == SFT_OPERAND_DIRECTORY) {
        return operand->refused.status == SFT_E_FORMAT;
    }
    if (operand->kind != SFT_OPERAND_FILE) {
        return false;
    }
    if (ends_with(path, ".weights.json")) { /* of Keras: a list of files for a group */
        return sft_operand_is_other(operand) || operand->refused.status == SFT_E_INDEX;
    }
    return sft_operand_is_other(operand) && ends_with(path, ".index.json") &&
           !ends_with(path, ".safetensors.index.json");
}

/* The answer where a directory, or an index, is of no format after all: *out stays NULL. */
static sft_status open_several(sft_operand *operand, const sft_import_options *options,
                               sft_catalog **out, sft_error *err) {
    sft_import_report *report = NULL;
    sft_status status = sft_import_open(out, operand->path, options, &report, err);

    status = keep(status, out, report, err);
    return status == SFT_E_NOT_REGULAR || status == SFT_E_IO ||
                   (status == SFT_E_FORMAT && operand->kind == SFT_OPERAND_FILE)
               ? SFT_OK
               : status;
}

/* The bytes of what an opener before has read and refused. NULL: there are none. */
static const sft_source *bytes_of(sft_operand *operand) {
    if (operand->source == NULL && operand->fetch != NULL) {
        (void)!operand->fetch(operand, NULL);
    }
    return operand->source;
}

/* By their bytes. Two of them say "pickle", and if the rest does not it is a damaged file of safetensors as
 * well: the reason why it was refused as such stands. */
static sft_status open_detected(sft_operand *operand, const sft_import_options *options,
                                sft_catalog **out, sft_error *err) {
    const sft_source *bytes = bytes_of(operand);
    uint32_t format = SFT_IMPORT_UNKNOWN;

    if (bytes == NULL || sft_import_detect(bytes, &format, NULL) != SFT_OK ||
        format == SFT_IMPORT_UNKNOWN || format == SFT_IMPORT_SAFETENSORS) {
        return SFT_OK;
    }
    const sft_status status = open_all(operand, options, out, err);
    return status == SFT_E_SCHEMA && format == SFT_IMPORT_PICKLE ? SFT_OK : status;
}

/* Where no file is: what the path stands for, as a prefix of TensorFlow's does. */
static sft_status open_located(sft_operand *operand, const sft_import_options *options,
                               sft_catalog **out, sft_error *err) {
    char found[SFT__TF_PATH];
    sft_operand at = *operand;

    if (sft_import_locate(found, sizeof found, operand->path, NULL) != SFT_OK ||
        sft_source_open(&at.source, found, operand->open->access, operand->open->allocator, NULL) !=
            SFT_OK) {
        return SFT_OK;
    }
    at.path = found;
    at.kind = SFT_OPERAND_FILE;
    const sft_status status = open_detected(&at, options, out, err);
    sft_source_close(at.source);
    return status;
}

static sft_status open_other(sft_operand *operand, const void *given, sft_catalog **out,
                             sft_error *err) {
    const int32_t refused = operand->refused.status; /* by openers before this one */
    sft_import_options options;

    SFT_TRY(sft__base_options_read(&options, sizeof options, given,
                                   SFT__UP_TO(sft_import_options, limits), "options", err));
    options.allocator = options.allocator != NULL ? options.allocator : operand->open->allocator;
    options.limits = options.limits != NULL ? options.limits : operand->open->limits;
    options.access = options.access != SFT_ACCESS_AUTO ? options.access : operand->open->access;
    if (refused == SFT_OK) {
        return operand->kind != SFT_OPERAND_URL ? open_all(operand, &options, out, err) : SFT_OK;
    }
    if (may_be_several(operand)) {
        return open_several(operand, &options, out, err);
    }
    if (sft_operand_is_other(operand)) {
        return open_detected(operand, &options, out, err);
    }
    return (operand->kind == SFT_OPERAND_DIRECTORY || operand->kind == SFT_OPERAND_NOTHING) &&
                   (refused == SFT_E_NOT_FOUND || refused == SFT_E_IO)
               ? open_located(operand, &options, out, err)
               : SFT_OK;
}

const sft_opener *sft_import_opener(void) {
    static const sft_opener opener = {sizeof opener, open_other};
    return &opener;
}
