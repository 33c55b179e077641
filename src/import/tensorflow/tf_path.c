/* SPDX-License-Identifier: Apache-2.0 OR MIT  import/tensorflow/tf_path.c - paths as TensorFlow's users
 * have them: a prefix without a file of that name, a SavedModel's directory, a directory with a state file
 * called "checkpoint". A state file is believed only as far as its own directory. Read first: tf.h. / */
#include "base/memory/need.h"
#include "import/core/beside.h"
#include "import/tensorflow/tf.h"
#include <stdio.h>

enum { STATE_MOST = 1 << 16 };

/* Is there an index at directory + middle + end? */
static bool is_index(const char *a, const char *b, const char *c, const sft_import_options *options,
                     char *found) {
    sft_source *source;
    const int n = snprintf(found, SFT__TF_PATH, "%s%s%s", a, b, c);

    if (n < 0 || n >= SFT__TF_PATH ||
        sft_source_open(&source, found, SFT_ACCESS_READ, options->allocator, NULL) != SFT_OK) {
        return false;
    }
    const bool is = sft__import_tf_is_table(source);
    sft_source_close(source);
    return is;
}

/* The text behind model_checkpoint_path: in the text form of a CheckpointState: quoted, octal
 * escapes for what is not ASCII. Returns its length, 0: there is none. */
static size_t state_name(const char *text, char *name) {
    static const char key[] = "model_checkpoint_path:";
    const char *p = text;
    size_t n = 0;

    while (strncmp(p, key, sizeof key - 1) != 0) {
        p = strchr(p, '\n');
        if (p == NULL) {
            return 0;
        }
        p++;
    }
    p += sizeof key - 1;
    p += strspn(p, " \t");
    const char quote = *p;
    if (quote != '"' && quote != '\'') {
        return 0;
    }
    for (p++; *p != quote; p++) {
        unsigned byte = (uint8_t)*p;
        if (byte < ' ' || n + 1 >= SFT__TF_PATH) {
            return 0;
        }
        if (byte == '\\') {
            p++;
            byte = (uint8_t)*p;
            if (byte >= '0' && byte <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' &&
                p[2] <= '7') {
                byte = (byte - '0') << 6 | (unsigned)(p[1] - '0') << 3 | (unsigned)(p[2] - '0');
                p += 2;
            } else if (byte != '"' && byte != '\'' && byte != '\\') {
                return 0;
            }
        }
        if (byte == 0) {
            return 0;
        }
        name[n++] = (char)byte;
    }
    name[n] = '\0';
    return n;
}

/* What DIRECTORY/checkpoint names last. A path from the root was written by TensorFlow where the files
 * then were: the name alone counts. */
static sft_status from_state(const char *path, const sft_import_options *options, char *found,
                             char *text, sft_error *err) {
    static const char none[] = "no file, no directory and no prefix of a checkpoint";
    char shown[256];
    char name[SFT__TF_PATH];
    sft_source *source;
    sft__import job;

    const int n = snprintf(found, SFT__TF_PATH, "%s/checkpoint", path);
    if (n < 0 || n >= SFT__TF_PATH ||
        sft_source_open(&source, found, SFT_ACCESS_READ, options->allocator, NULL) != SFT_OK) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "%s", none);
    }
    const uint64_t size = sft_source_size(source);
    const bool good = size < STATE_MOST &&
                      (size == 0 || sft_source_read(source, 0, text, (size_t)size, NULL) == SFT_OK);
    sft_source_close(source);
    text[good ? size : 0] = '\0';
    const size_t len = state_name(text, name);
    if (len == 0) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "%s", none);
    }
    const char *slash = strrchr(name, '/');
    const char *last = name[0] == '/' ? slash + 1 : name;
    (void)sft_escape(shown, sizeof shown, name, len);
    if (!sft__import_beside_is_good(last, strlen(last))) {
        return sft__base_fail(err, SFT_E_PATH,
                              "the file \"checkpoint\" names \"%s\", which leads out of "
                              "its directory",
                              shown);
    }
    char *end = name + len;
    if ((size_t)(end - name) + sizeof ".index" > sizeof name) {
        return sft__base_fail(err, SFT_E_PATH, "the path is too long");
    }
    memcpy(end, ".index", sizeof ".index");
    memset(&job, 0, sizeof job);
    job.path = found;
    job.options = *options;
    job.allocator = options->allocator;
    SFT_TRY(sft__import_beside_open(&source, &job, last, true, err));
    sft_source_close(source);
    if (!is_index(path, "/", last, options, found)) {
        return sft__base_fail(err, SFT_E_FORMAT,
                              "the file \"checkpoint\" names \"%s\", which is no checkpoint",
                              shown);
    }
    return SFT_OK;
}

sft_status sft__import_tf_locate(const char *path, const sft_import_options *options, char *found,
                                 sft_error *err) {
    const size_t len = strlen(path);
    const sft_allocator *a = sft__base_allocator(options->allocator);
    const char *join = len != 0 && path[len - 1] == '/' ? "" : "/";
    sft_import_options o = *options;

    o.allocator = a;
    if (len == 0 || is_index(path, ".index", "", &o, found) ||
        is_index(path, join, "variables/variables.index", &o, found) ||
        is_index(path, join, "variables.index", &o, found)) {
        return len != 0 ? SFT_OK : sft__base_fail(err, SFT_E_NOT_FOUND, "an empty path");
    }
    char *text;
    SFT_TRY(sft__base_need(a, &text, STATE_MOST + 1, err));
    const sft_status status = from_state(path, &o, found, text, err);
    sft__base_free(a, text, STATE_MOST + 1);
    return status;
}
