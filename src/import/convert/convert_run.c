/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/convert_run.c - sft_import_convert: options, one directory or some files. Read first:
 * convert.h.
 */
#include "base/options.h"
#include "import/convert/convert.h"
#include <stdio.h>

static sft_status read_options(sft__import_conversion *c, const sft_import_convert_options *options,
                               sft_error *err) {
    sft_import_convert_options *o = &c->options;

    SFT_TRY(sft__base_options_read(o, sizeof *o, options,
                                   SFT__UP_TO(sft_import_convert_options, read), "options", err));
    SFT_TRY(sft__base_options_read(&c->read, sizeof c->read, o->read,
                                   SFT__UP_TO(sft_import_options, limits), "import options", err));
    SFT_TRY(sft__base_options_read(&c->write, sizeof c->write, o->write,
                                   SFT__UP_TO(sft_write_options, allocator), "write options", err));
    if ((o->flags & SFT_CONVERT_VERIFY) != 0) {
        c->read.flags |= SFT_IMPORT_CHECKSUMS; /* what was stored is what was written, too */
    }
    c->allocator = sft__base_allocator(c->write.allocator);
    return SFT_OK;
}

/* What one conversion made stays or goes as a whole. */
static void forget_made(sft__import_conversion *c, bool keep) {
    for (size_t i = 0; i < c->made_count; i++) {
        sft_writer_free(c->made[i].writer);
        if (!keep && c->made[i].is_new) {
            (void)remove(c->made[i].path);
        }
        sft__base_free(c->allocator, c->made[i].path, strlen(c->made[i].path) + 1);
    }
    sft__base_free(c->allocator, c->made, c->made_room * sizeof *c->made);
    if (c->index != NULL) {
        if ((c->options.flags & SFT_CONVERT_REPLACE) == 0) {
            (void)!sft_model_end(c->index, NULL);
        } /* else older files were replaced: the mark stays, for whoever does it again */
        sft__base_free(c->allocator, c->index, strlen(c->index) + 1);
    }
}

sft_status sft_import_convert(const char *const *inputs, size_t count, const char *output,
                              const sft_import_convert_options *options,
                              sft_import_converted *result, sft_import_report **report,
                              sft_error *err) {
    sft__import_conversion c;
    bool done = false;

    if (report != NULL) {
        *report = NULL;
    }
    if (inputs == NULL || count == 0 || output == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "a conversion needs inputs and an output");
    }
    memset(&c, 0, sizeof c);
    sft_status status = read_options(&c, options, err);
    if (status == SFT_OK && count == 1) {
        status = sft__import_convert_directory(&c, inputs[0], output, &done, err);
    }
    if (status == SFT_OK && !done) {
        status = sft__import_convert_files(&c, inputs, count, output, err);
    }
    if (result != NULL) {
        *result = c.result;
    }
    if (status == SFT_OK && report != NULL) {
        *report = c.report;
        c.report = NULL;
    }
    sft_import_report_free(c.report);
    sft__import_convert_clear(&c);
    forget_made(&c, status == SFT_OK);
    sft__base_free(c.allocator, c.catalogs, c.catalog_room * sizeof *c.catalogs);
    sft__base_free(c.allocator, c.items, c.item_room * sizeof *c.items);
    sft__base_free(c.allocator, c.others, c.other_room * sizeof *c.others);
    return status;
}
