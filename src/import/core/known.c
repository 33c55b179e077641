/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/known.c - formats that are known and never read: what they are, and what to do
 * instead, by their first bytes. One table of magic numbers, one of questions for those that have
 * none; a test has a file for each row (tests/import/known.py). Read first: import.h.
 */
#include "import/arrow/arrow.h"
#include "import/core/wire.h"
#include "import/tensorflow/tf.h"

typedef struct refused {
    const char *magic;
    uint32_t len;
    uint32_t format;
    uint32_t offset;
    const char *sentence;
} refused;

#define REFUSED(magic, offset, format, sentence) {magic, sizeof magic - 1, format, offset, sentence}
#define OTHER(magic, offset, sentence)           REFUSED(magic, offset, SFT_IMPORT_OTHER, sentence)

static const refused refusals[] = {
    OTHER("version https://git-lfs", 0, "a Git LFS pointer, not the file itself: run git lfs pull"),
    OTHER("7z\xbc\xaf\x27\x1c", 0,
          "a 7z archive: PyTorch never writes such; a way to hide pickles from scanners"),
    OTHER("PYTORCH1", 0, "a file of a PyTorch preview release (0.5): nothing reads it any more"),
    REFUSED("\xd8\x5e\x3a\x7f", 0, SFT_IMPORT_MINDSPORE,
            "an encrypted MindSpore checkpoint (AES-GCM): only MindSpore with its key can read it"),
    REFUSED("\xd9\x5e\x3a\x7f", 0, SFT_IMPORT_MINDSPORE,
            "an encrypted MindSpore checkpoint (AES-CBC): only MindSpore with its key can read it"),
    REFUSED("\xda\x5e\x3a\x7f", 0, SFT_IMPORT_MINDSPORE,
            "an encrypted MindSpore checkpoint (SM4-CBC): only MindSpore with its key can read it"),
    OTHER(
        "\x12\x09"
        "MindSpore",
        5,
        "a MindIR model of MindSpore, a program with weights: load it with mindspore.load and save "
        "its parameters with save_checkpoint"),
    OTHER(
        "\x12\x09"
        "MindSpore",
        7,
        "a MindIR model of MindSpore, a program with weights: load it with mindspore.load and save "
        "its parameters with save_checkpoint"), /* versions of five letters */
    REFUSED("ARROW1\0\0", 0, SFT_IMPORT_ARROW,
            "an Apache Arrow file: it has columns, but no convention for weights"),
    OTHER("\x1f\x8b", 0, "compressed with gzip: unpack it first"),
    OTHER("\x28\xb5\x2f\xfd", 0, "compressed with zstd: unpack it first"),
    OTHER("BZh", 0, "compressed with bzip2: unpack it first"),
    OTHER("\xfd"
          "7zXZ",
          0, "compressed with xz or lzma: unpack it first"),
    OTHER("Rar!", 0, "a RAR archive: unpack it first"),
    OTHER("\x7f"
          "ELF",
          0, "a program, not a weight file"),
    OTHER("PK\005\006", 0, "an empty zip archive"),
    /* packed */
    OTHER("\x04\x22\x4d\x18", 0, "compressed with LZ4: unpack it first (lz4 -d)"),
    OTHER("\x02\x21\x4c\x18", 0, "compressed with LZ4 (old frames): unpack it first (lz4 -d)"),
    OTHER("LZIP", 0, "compressed with lzip: unpack it first"),
    OTHER("\xff\x06\0\0sNaPpY", 0, "compressed with Snappy: unpack it first"),
    OTHER("\x1f\x9d", 0, "compressed with compress (.Z): unpack it first"),
    OTHER("Salted__", 0, "encrypted by OpenSSL: only its password opens it"),
    OTHER("age-encryption.org/", 0, "encrypted by age: only its key opens it"),
    OTHER("-----BEGIN PGP MESSAGE", 0, "encrypted by PGP: only its key opens it"),
    /* weights of other programs */
    OTHER("lmgg", 0,
          "a GGML file (ggml, before GGUF), which names no architecture: convert it with "
          "llama.cpp's convert_llama_ggml_to_gguf.py"),
    OTHER("fmgg", 0,
          "a GGML file (ggmf, before GGUF): convert it with llama.cpp's "
          "convert_llama_ggml_to_gguf.py"),
    OTHER("tjgg", 0,
          "a GGML file (ggjt, before GGUF): convert it with llama.cpp's "
          "convert_llama_ggml_to_gguf.py"),
    OTHER("algg", 0,
          "a LoRA adapter of llama.cpp before GGUF (ggla): make it again from its origin"),
    OTHER("nsgg", 0, "a session of llama.cpp (ggsn), which holds its state and no weights"),
    OTHER("FUGG", 0,
          "a GGUF file with its bytes turned round: no writer makes such; copy it again"),
    OTHER("\xba\x16\x4f\x2f", 0,
          "a fastText model, which holds words and two matrices for its own "
          "library"),
    OTHER("7767517\n", 0,
          "the graph of an ncnn model (.param): its weights are in the .bin beside it, "
          "in ncnn's own form"),
    OTHER("\xdd\x85\x76\0", 0,
          "the graph of an ncnn model (.param.bin): its weights are in the .bin "
          "beside it, in ncnn's own form"),
    OTHER("\x47\x6b\x30\x01", 0,
          "the weights of an ncnn model (.bin, halves): their names and shapes "
          "are in the .param beside it"),
    OTHER("\x38\x4b\x0d\0", 0,
          "the weights of an ncnn model (.bin, 8-bit): their names and shapes are "
          "in the .param beside it"),
    OTHER("RKNN", 0, "an RKNN model, compiled for a processor of Rockchip: convert its origin"),
    OTHER("CYPTRKNN", 0, "an encrypted RKNN model, compiled for a processor of Rockchip"),
    OTHER("ftrt", 0, "a TensorRT engine, compiled for one GPU: convert its origin"),
    OTHER("ptrt", 0, "a TensorRT engine, compiled for one GPU: convert its origin"),
    OTHER("ORTM", 4, "a model of ONNX Runtime (.ort): convert the .onnx that it was made from"),
    OTHER("ET12", 4, "an ExecuTorch program (.pte), compiled: convert its origin"),
    OTHER("ML\xefR", 0, "MLIR bytecode (StableHLO, IREE), a program: convert its origin"),
    OTHER("\x01HEF", 0, "a Hailo program (.hef), compiled for one processor: convert its origin"),
    OTHER("\x12\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0,
          "parameters of MXNet (.params): load them with mxnet.nd.load and save arrays of numpy"),
    OTHER("\0\0\0\0\x02\0\0\0\x05\0\0\0", 0,
          "weights of Darknet (YOLO), whose shapes are in the .cfg beside it"),
    OTHER("\xef\xbe\xad\xde", 64,
          "the weights of a CoreML program (weight.bin): their names are in the "
          "model.mlmodel of its package"),
    OTHER("\n\x0e\n\x05<unk>", 0, "a SentencePiece tokenizer: it holds no weights"),
    OTHER("CBM1", 0, "a CatBoost model: trees, not tensors"),
    OTHER("tree\nversion=", 0, "a LightGBM model: trees, not tensors"),
    OTHER("binf", 0, "an XGBoost model (binary, before 1.0): trees, not tensors"),
    OTHER("{L\0\0\0\0\0\0", 0, "an XGBoost model (UBJSON): trees, not tensors"),
    OTHER("\0B<", 0, "a Kaldi model: convert it with kaldi's own tools"),
    /* tables */
    OTHER("PAR1", 0, "an Apache Parquet file: it has columns, but no convention for weights"),
    OTHER("FEA1", 0, "a Feather file: it has columns, but no convention for weights"),
    OTHER("Obj\x01", 0, "an Apache Avro file: it has records, but no convention for weights"),
    OTHER("SQLite format 3", 0, "a database of SQLite"),
    /* programs */
    OTHER("MZqFpD", 0,
          "a llamafile, or another program for every system (APE): a GGUF model may be in "
          "the zip at its end; unzip it first"),
    OTHER("jartsr=", 0,
          "a llamafile, or another program for every system (APE): a GGUF model may be in "
          "the zip at its end; unzip it first"),
    OTHER("MZ", 0, "a program for Windows, not a weight file"),
    OTHER("\xcf\xfa\xed\xfe", 0, "a program for macOS, not a weight file"),
    OTHER("\xca\xfe\xba\xbe", 0, "a program for macOS or for Java, not a weight file"),
    OTHER("\0asm", 0, "a WebAssembly program, not a weight file"),
    OTHER("BC\xc0\xde", 0, "LLVM bitcode, a program, not a weight file"),
    OTHER("!<arch>\n", 0, "a library of object files, not a weight file"),
    OTHER("#!", 0, "a script, not a weight file"),
    /* documents, images, sound */
    OTHER("%PDF-", 0, "a PDF document"),
    OTHER("%!PS", 0, "a PostScript document"),
    OTHER("\x89PNG\r\n\x1a\n", 0, "a PNG image"),
    OTHER("\xff\xd8\xff", 0, "a JPEG image"),
    OTHER("GIF8", 0, "a GIF image"),
    OTHER("RIFF", 0, "a WAV, AVI or WebP file: sound or images"),
    OTHER("fLaC", 0, "FLAC sound"),
    OTHER("OggS", 0, "Ogg sound or video"),
    OTHER("ID3", 0, "MP3 sound"),
    OTHER("ftyp", 4, "an MP4 video, or an image of its kind"),
    OTHER("bplist00", 0, "a property list of Apple's"),
};

/* A Cap'n Proto stream frame: segment count less one, segment sizes in words, that add up to the
 * file. Without magic, so only exact arithmetic counts. */
static bool is_capnp(const sft__import_probe *p) {
    if (p->head_len < 16 || (p->size & 7) != 0) {
        return false;
    }
    const uint64_t segments = (uint64_t)sft__base_load_le32(p->head) + 1;
    const uint64_t table = (4 + 4 * segments + 7) & ~UINT64_C(7);
    uint64_t words = 0;
    if (segments > 16 || table > p->head_len) {
        return false;
    }
    for (uint64_t i = 0; i < segments; i++) {
        words += sft__base_load_le32(p->head + 4 + 4 * i);
    }
    /* the root pointer must be a struct pointer: low bits 0, and small sizes */
    return words != 0 && table + 8 * words == p->size && (p->head[table] & 3) == 0 &&
           p->head[table + 3] == 0 && sft__base_load_le64(p->head + table) != 0;
}

static bool is_html(const sft__import_probe *p) {
    static const char *const starts[] = {"<!doctype html", "<html"};
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
static bool is_table(const sft__import_probe *p) {
    return p->head_len != 0 && sft__import_tf_is_table(p->source);
}

/* A SavedModel's graph: schema version 1, one MetaGraphDef that fills the file. */
static bool is_saved_model(const sft__import_probe *p) {
    const uint8_t *at = p->head + 3;
    uint64_t len;

    return p->head_len > 8 && memcmp(p->head, "\x08\x01\x12", 3) == 0 &&
           sft__base_pb_varint(&at, p->head + 8, &len) && len == p->size - (uint64_t)(at - p->head);
}

/* The text of the head from `at` on, NUL behind it. */
static bool head_has(const sft__import_probe *p, const char *text) {
    const size_t n = strlen(text);

    for (size_t at = 0; at + n <= p->head_len; at++) {
        if (memcmp(p->head + at, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static uint8_t first_of(const sft__import_probe *p) {
    size_t at = 0;

    while (at < p->head_len && (p->head[at] == ' ' || p->head[at] == '\n' || p->head[at] == '\r' ||
                                p->head[at] == '\t')) {
        at++;
    }
    return at < p->head_len ? p->head[at] : 0;
}

static bool is_openvino(const sft__import_probe *p) {
    return first_of(p) == '<' && head_has(p, "<net ") && head_has(p, "<layers>");
}

static bool is_xml(const sft__import_probe *p) {
    return first_of(p) == '<' && head_has(p, "<?xml");
}

static bool is_tfjs(const sft__import_probe *p) {
    return first_of(p) == '{' &&
           (head_has(p, "\"modelTopology\"") || head_has(p, "\"weightsManifest\""));
}

/* A line of JSON, then an array of numpy. */
static bool is_equinox(const sft__import_probe *p) {
    const uint8_t *line = memchr(p->head, '\n', p->head_len);
    const size_t at = line != NULL ? (size_t)(line - p->head) + 1 : p->head_len;

    return p->head_len != 0 && p->head[0] == '{' && p->head_len - at >= 6 &&
           memcmp(p->head + at, "\x93NUMPY", 6) == 0;
}

/* A version, then the tag of a layer; or the shape of a face. */
static bool is_dlib(const sft__import_probe *p) {
    const uint8_t *h = p->head;

    if (p->head_len < 12 || h[0] != 1 || h[1] != 1) {
        return false;
    }
    return (h[2] == 1 && memcmp(h + 4, "loss_", 5) == 0) ||
           (h[2] == 0x81 && h[4] == 0x81 && h[5] == 1);
}

static bool is_ctranslate(const sft__import_probe *p) {
    const size_t len = p->head_len > 8 ? sft__base_load_le16(p->head + 4) : 0;

    return len > 5 && len < 100 && p->head_len > 6 + len && sft__base_load_le32(p->head) < 32 &&
           memcmp(p->head + 6 + len - 5, "Spec", 5) == 0;
}

/* The first fields of a message: every number is one of `numbers` (first, last: pairs, ending with
 * 0), and `must` is among them. */
static bool has_fields(const sft__import_probe *p, const uint16_t *numbers,
                       const uint16_t must[2]) {
    sft__import_wire m = {0, p->size};
    sft__import_wire_in in;
    sft__import_wire_field f;
    bool more;

    sft__import_wire_init(&in, p->source);
    for (int i = 0; i < 64; i++) {
        const bool good = sft__import_wire_next(&in, &m, &f, &more, NULL) == SFT_OK;
        if (!more || f.number == 0) {
            return false;
        }
        if (f.number >= must[0] && f.number <= must[1]) {
            return f.wire == SFT__PB_BYTES && i > 0;
        }
        bool known = false;
        for (size_t k = 0; numbers[k] != 0; k += 2) {
            known = known || (f.number >= numbers[k] && f.number <= numbers[k + 1]);
        }
        if (!good || !known) {
            return false;
        }
    }
    return false;
}

/* A version, a description, then one of the kinds of models. */
static bool is_coreml(const sft__import_probe *p) {
    static const uint16_t numbers[] = {1, 2, 10, 10, 0};
    static const uint16_t kinds[2] = {200, 3000};
    return p->head_len > 8 && p->head[0] == 0x08 && p->head[1] > 0 && p->head[1] < 32 &&
           p->head[2] == 0x12 && has_fields(p, numbers, kinds);
}

/* A name, inputs, settings, then layers: 100, or 2 of version 1. */
static bool is_caffe(const sft__import_probe *p) {
    static const uint16_t numbers[] = {1, 1, 3, 8, 0};
    static const uint16_t layers[2] = {100, 100};
    return p->head_len > 8 && p->head[0] == 0x0a && has_fields(p, numbers, layers);
}

static bool is_zlib(const sft__import_probe *p) {
    return p->head_len > 2 && p->head[0] == 0x78 && (p->head[0] * 256 + p->head[1]) % 31 == 0 &&
           (p->head[1] & 0x20) == 0;
}

static bool is_arrow_stream(const sft__import_probe *p) {
    return sft__import_arrow_kind(p) != 0; /* a tensor was taken before */
}

/* A FlatBuffer without a mark: the root's table is one to the last field. */
static bool is_flatbuffer(const sft__import_probe *p) {
    const uint64_t root = p->head_len > 16 ? sft__base_load_le32(p->head) : 0;

    if (root < 8 || root % 4 != 0 || root + 8 > p->head_len) {
        return false;
    }
    const uint64_t back = sft__base_load_le32(p->head + root);
    if (back > root - 4 || back < 4) {
        return false;
    }
    const uint8_t *vtable = p->head + (root - back);
    const uint32_t len = sft__base_load_le16(vtable);
    const uint32_t size = sft__base_load_le16(vtable + 2);
    if (len < 8 || len % 2 != 0 || len > back || size < 8 || size > 1024) {
        return false;
    }
    for (uint32_t i = 4; i < len; i += 2) {
        const uint32_t slot = sft__base_load_le16(vtable + i);
        if (slot != 0 && (slot < 4 || slot >= size)) {
            return false;
        }
    }
    return true;
}

/* Without magic numbers: the first that says yes. */
static const struct {
    bool (*is)(const sft__import_probe *p);
    uint32_t format;
    const char *sentence;
} questions[] = {
    {is_openvino, SFT_IMPORT_OTHER,
     "the graph of an OpenVINO model (.xml): its weights are in the .bin beside it, by offsets "
     "that "
     "only the graph has"},
    {is_html, SFT_IMPORT_OTHER,
     "a web page: the download link gave an error or a login page instead of the file"},
    {is_xml, SFT_IMPORT_OTHER, "an XML file, not a weight file"},
    {is_tfjs, SFT_IMPORT_OTHER,
     "the graph of a TensorFlow.js model (model.json): its weights are in the shards (.bin) that "
     "it "
     "names; convert it with tensorflowjs_converter"},
    {is_equinox, SFT_IMPORT_OTHER,
     "leaves of Equinox (.eqx) behind a line of JSON: arrays of numpy one after the other, whose "
     "names "
     "only the program has"},
    {is_saved_model, SFT_IMPORT_OTHER,
     "the graph of a SavedModel: its weights are in variables/variables.index beside it"},
    {is_table, SFT_IMPORT_OTHER,
     "a LevelDB table, but none that TensorFlow writes without compression"},
    {is_arrow_stream, SFT_IMPORT_ARROW,
     "an Apache Arrow stream: it has columns, but no convention for weights"},
    {is_coreml, SFT_IMPORT_OTHER,
     "a CoreML model (.mlmodel), which holds a program and its weights: convert it with "
     "coremltools"},
    {is_caffe, SFT_IMPORT_OTHER,
     "a Caffe model (.caffemodel), which holds layers and their blobs: convert it to ONNX first"},
    {is_dlib, SFT_IMPORT_OTHER,
     "a dlib model, whose layers only the program that made it knows: dlib's net_to_xml reads it"},
    {is_ctranslate, SFT_IMPORT_OTHER,
     "a CTranslate2 model, made for its own library: convert its origin"},
    {is_capnp, SFT_IMPORT_CAPNP, "a Cap'n Proto message: there is no convention for weights in it"},
    {is_zlib, SFT_IMPORT_OTHER, "compressed with zlib (joblib does so): unpack it first"},
    {is_flatbuffer, SFT_IMPORT_OTHER,
     "a FlatBuffer without a mark (MNN models are such): convert its origin"},
};

const char *sft__import_refusal(const sft__import_probe *probe, uint32_t *format) {
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refused *r = &refusals[i];
        if (probe->head_len >= r->offset + r->len &&
            memcmp(probe->head + r->offset, r->magic, r->len) == 0) {
            *format = r->format;
            return r->sentence;
        }
    }
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (questions[i].is(probe)) {
            *format = questions[i].format;
            return questions[i].sentence;
        }
    }
    *format = SFT_IMPORT_UNKNOWN;
    return NULL;
}
