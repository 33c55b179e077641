/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/data.c - files of bare numbers beside the file that describes them: shards of
 * TensorFlow's checkpoints (X.data-00000-of-00001 beside X.index) and external data of ONNX
 * (X.onnx_data, X.data beside X.onnx). They are harmless if the description opens and its tensors
 * lie in them, for then they are read as numbers. Also TensorFlow's small files. Read first:
 * content.h.
 */
#include "base/protobuf.h"
#include "import/content/content.h"

enum { PATH_MOST = 4096 };

static bool digits(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
    }
    return true;
}

/* The path of what describes `path`, or false. */
static bool describes(char out[PATH_MOST], const char *path) {
    static const char *const ends[][2] = {
        {".onnx_data", ".onnx"}, {".onnx.data", ".onnx"}, {".data", ".onnx"}};
    const size_t n = strlen(path);
    const size_t shard = sizeof ".data-00000-of-00001" - 1;

    if (n + 16 > PATH_MOST) {
        return false;
    }
    memcpy(out, path, n + 1);
    if (n > shard && memcmp(path + n - shard, ".data-", 6) == 0 && digits(path + n - 14, 5) &&
        memcmp(path + n - 9, "-of-", 4) == 0 && digits(path + n - 5, 5)) {
        memcpy(out + n - shard, ".index", sizeof ".index");
        return true;
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (sft__import_content_ends(path, ends[i][0])) {
            memcpy(out + n - strlen(ends[i][0]), ends[i][1], strlen(ends[i][1]) + 1);
            return true;
        }
    }
    return false;
}

bool sft__import_content_is_data(const sft__import_content *c) {
    const char *own = c->job->path;
    char path[PATH_MOST];
    sft_catalog *catalog;
    sft_import_options options;
    bool found = false;

    if (own == NULL || c->state->part->where[0] != '\0' || !describes(path, own)) {
        return false;
    }
    options = c->job->options;
    options.key = NULL;
    options.flags &= ~(SFT_IMPORT_CHECKSUMS | SFT_IMPORT_FOLLOW_LINKS);
    if (sft_import_open(&catalog, path, &options, NULL, NULL) != SFT_OK) {
        return false;
    }
    /* The first is the description; files beside it have no names, but their sizes. A checkpoint of
     * TensorFlow without tensors has texts alone, whose shard is not opened. */
    found = sft__import_content_ends(path, ".index") && sft_catalog_count(catalog) == 0;
    for (size_t i = 1; i < sft_catalog_source_count(catalog) && !found; i++) {
        found = sft_source_size(sft_catalog_source_at(catalog, i)) == c->state->part->size;
    }
    sft_catalog_close(catalog);
    return found;
}

/* fingerprint.pb of a SavedModel: five numbers, a version, an identifier. */
bool sft__import_content_fingerprint(const sft__import_content *c) {
    sft__base_pb in = sft__base_pb_over(c->data, c->len);
    sft__base_pb_field f;
    unsigned numbers = 0;

    if (c->len > 512 || strcmp(sft__import_content_base(c->name), "fingerprint.pb") != 0) {
        return false;
    }
    while (sft__base_pb_next(&in, &f)) {
        if (f.number > 7 || (f.wire == SFT__PB_BYTES && f.len > 64)) {
            return false;
        }
        numbers += f.number <= 5 && f.wire == SFT__PB_VARINT;
    }
    return in.fault == NULL && numbers >= 4;
}
