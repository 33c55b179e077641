/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/hint.c - the one line that says what a file that was refused probably is. Looks at the file's
 * first bytes through the library's own source, so that devices and pipes are never touched. Read
 * cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/sys.h"
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 512 };

typedef struct signature {
    const char *bytes;
    size_t len;
    const char *hint;
} signature;

#define SIGNATURE(text, hint) {text, sizeof text - 1, hint}

static const signature signatures[] = {
    SIGNATURE("version https://git-lfs",
              "this is a Git LFS pointer, not the file itself: run git lfs pull"),
    SIGNATURE("PK\003\004", "this is a zip archive, probably a PyTorch checkpoint (.pt, .bin)"),
    SIGNATURE("\x80\002", "this is a Python pickle, probably an old PyTorch checkpoint"),
    SIGNATURE("\x80\003", "this is a Python pickle"),
    SIGNATURE("\x80\004\x95", "this is a Python pickle"),
    SIGNATURE("GGUF", "this is a GGUF file (llama.cpp), not safetensors"),
    SIGNATURE("\x89HDF", "this is an HDF5 file (Keras, .h5), not safetensors"),
    SIGNATURE("\x93NUMPY", "this is a numpy array file (.npy), not safetensors"),
    SIGNATURE("\x1f\x8b", "this file is compressed with gzip: unpack it first"),
    SIGNATURE("\x28\xb5\x2f\xfd", "this file is compressed with zstd: unpack it first"),
    SIGNATURE("BZh", "this file is compressed with bzip2: unpack it first"),
    SIGNATURE("\xfd"
              "7zXZ",
              "this file is compressed with xz: unpack it first"),
    SIGNATURE("\x7f"
              "ELF",
              "this is a program, not a weight file"),
};

static bool starts_as_html(const char *head, size_t len) {
    static const char *const starts[] = {"<!doctype", "<html", "<head", "<?xml"};
    size_t at = 0;

    while (at < len &&
           (head[at] == ' ' || head[at] == '\n' || head[at] == '\r' || head[at] == '\t')) {
        at++;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        size_t k = 0;
        while (starts[i][k] != '\0' && at + k < len &&
               (head[at + k] == starts[i][k] || (char)(head[at + k] | 0x20) == starts[i][k])) {
            k++;
        }
        if (starts[i][k] == '\0') {
            return true;
        }
    }
    return false;
}

static bool all_zero(const char *head, size_t len) {
    size_t i = 0;
    while (i < len && head[i] == '\0') {
        i++;
    }
    return i == len;
}

static const char *guess(const char *head, size_t len) {
    if (len == 0) {
        return "the file is empty: the download or copy did not begin, or failed";
    }
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        if (len >= signatures[i].len && memcmp(head, signatures[i].bytes, signatures[i].len) == 0) {
            return signatures[i].hint;
        }
    }
    if (starts_as_html(head, len)) {
        return "this is a web page: the download link gave an error or a login page instead of the "
               "file";
    }
    if (head[0] == '{' || head[0] == '[') {
        return "this is JSON text without the 8 length bytes of a safetensors file";
    }
    if (all_zero(head, len)) {
        return "the file begins with zeros: space was reserved, but the content was never written";
    }
    return NULL;
}

/* What the error says already needs no hint: do both end alike? */
static bool is_said(const char *message, const char *text) {
    const size_t n = strlen(message);
    const size_t len = strlen(text);
    const size_t tail = len < 20 ? len : 20;
    return n >= tail && strcmp(message + n - tail, text + len - tail) == 0;
}

static const char *from_status(const sft_error *err, uint64_t size) {
    switch (err->status) {
    case SFT_E_HEADER_TOO_LARGE:
        return err->expected > 0 && err->expected <= size
                   ? "if the file is genuine, allow more with --max-header-bytes"
                   : NULL;
    case SFT_E_SHARD_MISSING:
        return "a file of the model is not there: complete the download";
    case SFT_E_EXISTS:
        return "overwrite it with --force";
    case SFT_E_HTTP:
        return err->sys == 401 || err->sys == 403
                   ? "for hf:// set HF_TOKEN; for s3:// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                   : NULL;
    case SFT_E_NOT_FOUND:
        return strstr(err->message, "a layout is needed") != NULL
                   ? "say how with --layout: a MindSpore strategy, a directory of them, or "
                     "layout.json"
                   : NULL;
    case SFT_E_MISMATCH:
        return strstr(err->message, "say which step") != NULL
                   ? "say which with --step, the end of the files' names: resume-point finds it"
               : strncmp(err->message, "zip-crc: ", 9) == 0
                   ? "the member is damaged, or was changed without its checksum: PyTorch reads it "
                     "all the same, and so does --no-crc"
                   : NULL;
    case SFT_E_HOLE:
        return strstr(err->message, "no file") != NULL
                   ? "--partial takes what is there, and says what it leaves out"
                   : NULL;
    case SFT_E_DUPLICATE:
        return strncmp(err->tensor, "sft.storage.", 12) == 0
                   ? "bytes that only other names show, of two files: convert FILE FILE ... -o OUT "
                     "numbers "
                     "them anew"
                   : NULL;
    case SFT_E_STALE:
        return "the file was changed by a program that does not keep digests up to date";
    default:
        return NULL;
    }
}

/* Text for a file whose data ends early, from the place where the header says that it ends. */
static bool truncated(const sft_error *err, uint64_t size, char *hint, size_t cap) {
    const uint64_t wanted = err->expected;
    char have[32];
    char want[32];

    if (wanted <= size || wanted == 0 ||
        (err->status != SFT_E_COVERAGE && err->status != SFT_E_HEADER_PAST_END)) {
        return false;
    }
    (void)snprintf(
        hint, cap, "the file is cut short: %s of %s%s present; complete the download or copy",
        cli_size(have, size, CLI_SI), err->status == SFT_E_HEADER_PAST_END ? "at least " : "",
        cli_size(want, wanted, CLI_SI));
    return true;
}

static bool is_index(const char *file) {
    static const char end[] = ".index.json";
    const size_t len = strlen(file);
    return len >= sizeof end - 1 && strcmp(file + len - (sizeof end - 1), end) == 0;
}

void cli_hint(const char *file, const sft_error *err, char *hint, size_t cap) {
    char head[HEAD_BYTES];
    sft_source *source;
    const char *text = NULL;
    uint64_t size = 0;

    hint[0] = '\0';
    const bool about_content = err->status >= SFT_E_FORMAT && err->status < SFT_E_NOT_FOUND;
    if (about_content && file != NULL && strcmp(file, "-") != 0 && !is_index(file) &&
        sft_source_open(&source, file, SFT_ACCESS_READ, NULL, NULL) == SFT_OK) {
        size = sft_source_size(source);
        const size_t len = size < HEAD_BYTES ? (size_t)size : HEAD_BYTES;
        if (sft_source_read(source, 0, head, len, NULL) == SFT_OK) {
            text = guess(head, len);
            text = text != NULL && is_said(err->message, text) ? NULL : text;
        }
        sft_source_close(source);
        if (text == NULL && truncated(err, size, hint, cap)) {
            return;
        }
    }
    if (text == NULL) {
        text = from_status(err, size);
    }
    if (text != NULL) {
        (void)snprintf(hint, cap, "%s", text);
    }
}
