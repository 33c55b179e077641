/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_content.c - any bytes under the names that rules go by (the first byte chooses),
 * through the rules for contents alone: what is called harmless has no finding that says otherwise,
 * and nothing is lost or kept.
 */
#include "import/scan/scan.h"
#include "import_check.h"

static const char *const names[] = {
    "config.json",    "tokenizer_config.json",
    "x.jinja",        "config.yaml",
    "README.md",      "image.svg",
    "image.png",      "tokenizer.model",
    "saved_model.pb", "frozen.pb",
    "model.pdmodel",  "keras_metadata.pb",
    "fingerprint.pb", "checkpoint",
    ".git/config",    ".git/hooks/x",
    "modules.json",   "x.pth",
    "model.h5",       "model.onnx",
    "m/code/a.py",    "x.bin",
};

static void check_findings(const sft_import_report *report, bool positive) {
    uint32_t worst = SFT_SCAN_HARMLESS;

    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        CHECK(f->message[0] != '\0' && f->count >= 1);
        worst = f->verdict > worst ? f->verdict : worst;
    }
    CHECK(sft_import_report_verdict(report) >= worst);
    CHECK(!positive || worst == SFT_SCAN_HARMLESS);
}

static void check_content(const char *name, const uint8_t *data, size_t size) {
    const bool script = strcmp(name, "m/code/a.py") == 0;
    sft_import_options options;
    sft__import_scan_part part;
    sft__import job;
    sft_error err;
    bool positive = false;

    memset(&job, 0, sizeof job);
    memset(&part, 0, sizeof part);
    memset(&err, 0, sizeof err);
    SFT_INIT(&options);
    options.memory_bytes = 32 << 20;
    options.allocator = &fuzz_allocator;
    job.path = script ? "x.pt" : name;
    job.scanning = true;
    CHECK(sft__import_job_options(&job, &options, &err) == SFT_OK);
    job.walk_left = 1 << 20;
    sft__base_arena_init(&job.arena, job.allocator, 8 << 20);
    CHECK(sft__import_report_create(&job.report, job.allocator, &err) == SFT_OK);
    sft_source *source;
    CHECK(sft_source_open_memory(&source, data, size, &fuzz_allocator, &err) == SFT_OK);
    job.file = source;
    part.source = source;
    part.size = size;
    part.where = script ? name : "";
    part.container = script ? SFT_IMPORT_TORCH_ZIP : 0;
    part.format = strcmp(name, "model.onnx") == 0 ? SFT_IMPORT_ONNX : 0;
    CHECK(sft__import_scan_content(&job, &part, &positive, &err) == SFT_OK);
    check_findings(job.report, positive);
    sft__import_job_reset(&job);
    sft_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const size_t before = fuzz_memory.out;

    if (size == 0) {
        return 0;
    }
    if (data[0] == 0xff) { /* a file without a name */
        check_file(data + 1, size - 1);
        return 0;
    }
    check_content(names[data[0] % (sizeof names / sizeof names[0])], data + 1, size - 1);
    CHECK(fuzz_memory.out == before);
    return 0;
}
