/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/readers.c - which format the bytes are: the table of readers, and the formats that are
 * recognised only to be refused with a sentence. Extensions are never looked at. Read first:
 * import.h.
 */
#include "import/arrow/arrow.h"
#include "import/tensorflow/tf.h"

/* Magic numbers first, guesses last. One row per format: see import.h. */
const sft__reader *const sft__import_readers[] = {
    &sft__reader_npy,
    &sft__reader_npz,
    &sft__reader_gguf,
    &sft__reader_keras,
    &sft__reader_dcp,
    &sft__reader_torch_zip, /* any zip that no row above took */
    &sft__reader_torch_legacy,
    &sft__reader_torch_tar,
    &sft__reader_hdf5,
    &sft__reader_tf,
    &sft__reader_tflite,
    &sft__reader_arrow,
    &sft__reader_paddle,
    &sft__reader_mindspore,
    &sft__reader_onnx,
    &sft__reader_flax,
    &sft__reader_pickle, /* a guess where protocol 0 or 1 is meant */
    NULL,
};

typedef struct refused {
    const char *magic;
    uint32_t len;
    uint32_t format;
    uint32_t offset;
    const char *sentence;
} refused;

#define REFUSED(magic, offset, format, sentence)                                                   \
    { magic, sizeof magic - 1, format, offset, sentence }

static const refused refusals[] = {
    REFUSED("version https://git-lfs", 0, SFT_IMPORT_OTHER,
            "a Git LFS pointer, not the file itself: run git lfs pull"),
    REFUSED("7z\xbc\xaf\x27\x1c", 0, SFT_IMPORT_OTHER,
            "a 7z archive: PyTorch never writes such; a way to hide pickles from scanners"),
    REFUSED("PYTORCH1", 0, SFT_IMPORT_OTHER,
            "a file of a PyTorch preview release (0.5): nothing reads it any more"),
    REFUSED("\xd8\x5e\x3a\x7f", 0, SFT_IMPORT_MINDSPORE,
            "an encrypted MindSpore checkpoint (AES-GCM): only MindSpore with its key can read it"),
    REFUSED("\xd9\x5e\x3a\x7f", 0, SFT_IMPORT_MINDSPORE,
            "an encrypted MindSpore checkpoint (AES-CBC): only MindSpore with its key can read it"),
    REFUSED("\xda\x5e\x3a\x7f", 0, SFT_IMPORT_MINDSPORE,
            "an encrypted MindSpore checkpoint (SM4-CBC): only MindSpore with its key can read it"),
    REFUSED("ARROW1\0\0", 0, SFT_IMPORT_ARROW,
            "an Apache Arrow file: it has columns, but no convention for weights"),
    REFUSED("\x1f\x8b", 0, SFT_IMPORT_OTHER, "compressed with gzip: unpack it first"),
    REFUSED("\x28\xb5\x2f\xfd", 0, SFT_IMPORT_OTHER, "compressed with zstd: unpack it first"),
    REFUSED("BZh", 0, SFT_IMPORT_OTHER, "compressed with bzip2: unpack it first"),
    REFUSED("\xfd"
            "7zXZ",
            0, SFT_IMPORT_OTHER, "compressed with xz: unpack it first"),
    REFUSED("Rar!", 0, SFT_IMPORT_OTHER, "a RAR archive: unpack it first"),
    REFUSED("\x7f"
            "ELF",
            0, SFT_IMPORT_OTHER, "a program, not a weight file"),
    REFUSED("PK\005\006", 0, SFT_IMPORT_OTHER, "an empty zip archive"),
};

/* A Cap'n Proto stream frame: segment count less one, segment sizes in words, that add up to the
 * file. Without magic, so only exact arithmetic counts. */
static bool is_capnp(const sft__probe *p) {
    if (p->head_len < 16 || (p->size & 7) != 0) {
        return false;
    }
    const uint64_t segments = (uint64_t)sft__load_le32(p->head) + 1;
    const uint64_t table = (4 + 4 * segments + 7) & ~UINT64_C(7);
    uint64_t words = 0;
    if (segments > 16 || table > p->head_len) {
        return false;
    }
    for (uint64_t i = 0; i < segments; i++) {
        words += sft__load_le32(p->head + 4 + 4 * i);
    }
    /* the root pointer must be a struct pointer: low bits 0, and small sizes */
    return words != 0 && table + 8 * words == p->size && (p->head[table] & 3) == 0 &&
           p->head[table + 3] == 0 && sft__load_le64(p->head + table) != 0;
}

static bool is_html(const sft__probe *p) {
    static const char *const starts[] = {"<!doctype html", "<html", "<?xml"};
    size_t at = 0;

    while (at < p->head_len && (p->head[at] == ' ' || p->head[at] == '\n' || p->head[at] == '\r')) {
        at++;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        size_t k = 0;
        while (starts[i][k] != '\0' && at + k < p->head_len &&
               (p->head[at + k] | 0x20) == (uint8_t)(starts[i][k] | 0x20)) {
            k++;
        }
        if (starts[i][k] == '\0') {
            return true;
        }
    }
    return false;
}

/* The footer of a LevelDB table, but not the first entry of a bundle. */
static bool is_table(const sft__probe *p) {
    return p->head_len != 0 && sft__tf_is_table(p->source);
}

/* A SavedModel's graph: schema version 1, one MetaGraphDef that fills the file. */
static bool is_saved_model(const sft__probe *p) {
    const uint8_t *at = p->head + 3;
    uint64_t len;

    return p->head_len > 8 && memcmp(p->head, "\x08\x01\x12", 3) == 0 &&
           sft__pb_varint(&at, p->head + 8, &len) && len == p->size - (uint64_t)(at - p->head);
}

const char *sft__import_refusal(const sft__probe *probe, uint32_t *format) {
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refused *r = &refusals[i];
        if (probe->head_len >= r->offset + r->len &&
            memcmp(probe->head + r->offset, r->magic, r->len) == 0) {
            *format = r->format;
            return r->sentence;
        }
    }
    if (is_html(probe)) {
        *format = SFT_IMPORT_OTHER;
        return "a web page: the download link gave an error or a login page instead of the file";
    }
    if (is_saved_model(probe)) {
        *format = SFT_IMPORT_OTHER;
        return "the graph of a SavedModel: its weights are in variables/variables.index beside it";
    }
    if (is_table(probe)) {
        *format = SFT_IMPORT_OTHER;
        return "a LevelDB table, but none that TensorFlow writes without compression";
    }
    if (sft__arrow_kind(probe) != 0) { /* a tensor was taken before */
        *format = SFT_IMPORT_ARROW;
        return "an Apache Arrow stream: it has columns, but no convention for weights";
    }
    if (is_capnp(probe)) {
        *format = SFT_IMPORT_CAPNP;
        return "a Cap'n Proto message: there is no convention for weights in it";
    }
    *format = SFT_IMPORT_UNKNOWN;
    return NULL;
}

const sft__reader *sft__import_reader_for(const sft__probe *probe) {
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
