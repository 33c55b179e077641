/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/readers.c - which format the bytes are: the table of readers. What is recognised only
 * to be refused with a sentence is in known.c. Extensions are never looked at. Read first:
 * import.h.
 */
#include "import/core/import.h"

/* Magic numbers first, guesses last. One row per format: see import.h. */
const sft__import_reader *const sft__import_readers[] = {
    &sft__import_reader_npy,
    &sft__import_reader_npz,
    &sft__import_reader_gguf,
    &sft__import_reader_keras,
    &sft__import_reader_dcp,
    &sft__import_reader_distcp,
    &sft__import_reader_torch_zip, /* any zip that no row above took */
    &sft__import_reader_torch_legacy,
    &sft__import_reader_torch_tar,
    &sft__import_reader_hdf5,
    &sft__import_reader_tf,
    &sft__import_reader_tflite,
    &sft__import_reader_arrow,
    &sft__import_reader_paddle,
    &sft__import_reader_mindspore,
    &sft__import_reader_onnx,
    &sft__import_reader_flax,
    &sft__import_reader_pickle, /* a guess where protocol 0 or 1 is meant */
    NULL,
};

const sft__import_reader *sft__import_reader_for(const sft__import_probe *probe) {
    for (size_t i = 0; sft__import_readers[i] != NULL; i++) {
        if (sft__import_readers[i]->probe(probe)) {
            return sft__import_readers[i];
        }
    }
    return NULL;
}

typedef struct titled {
    uint32_t format;
    const char *name;
    const char *title;
} titled;

static const titled titles[] = {
#define TITLE_ROW(id, number, name, title) {number, name, title},
    SFT_IMPORT_FORMAT_MAP(TITLE_ROW)
#undef TITLE_ROW
};

static const titled *title_of(uint32_t format) {
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        if (titles[i].format == format) {
            return &titles[i];
        }
    }
    return &titles[0];
}

const char *sft_import_format_name(uint32_t format) {
    return title_of(format)->name;
}

const char *sft_import_format_title(uint32_t format) {
    return title_of(format)->title;
}
