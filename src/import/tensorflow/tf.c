/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tensorflow/tf.c - tensor bundles, TensorFlow's checkpoints since 0.12 and the variables of a
 * SavedModel: NAME.index says what each tensor is and where it lies in NAME.data-00000-of-00002
 * beside it. Nothing else of a SavedModel is read. Texts, resources and variants are left out.
 * Source: tensorflow/core/protobuf/tensor_bundle.proto. Read first: tf.h.
 */
#include "import/tensorflow/tf.h"
#include "base/checked.h"
#include "base/text/utf8.h"
#include <stdio.h>
#include <stdlib.h>

enum { BUNDLE_VERSION = 1 };
enum { TYPE_STRING = 7, TYPE_RESOURCE = 20, TYPE_VARIANT = 21 };
enum { KEY_BYTES_MOST = 192 << 20 };

static const char index_end[] = ".index";

/* By the numbers of types.proto. */
static const uint16_t types[] = {
    [1] = SFT_F32,          [2] = SFT_F64,      [3] = SFT_I32,          [4] = SFT_U8,
    [5] = SFT_I16,          [6] = SFT_I8,       [8] = SFT_C64,          [9] = SFT_I64,
    [10] = SFT_BOOL,        [11] = SFT_I8,      [12] = SFT_U8,          [13] = SFT_I32,
    [14] = SFT_BF16,        [15] = SFT_I16,     [16] = SFT_U16,         [17] = SFT_U16,
    [18] = SFT__C128,       [19] = SFT_F16,     [22] = SFT_U32,         [23] = SFT_U64,
    [24] = SFT_F8_E5M2,     [25] = SFT_F8_E4M3, [26] = SFT_F8_E4M3FNUZ, [27] = SFT_U8,
    [28] = SFT_F8_E5M2FNUZ, [29] = SFT_I8,      [30] = SFT_U8,          [31] = SFT_I8,
    [32] = SFT_U8,          [33] = SFT_U8};

static const sft_dtype *type_of(uint64_t number) {
    const uint16_t type = number < sizeof types / sizeof types[0] ? types[number] : 0;
    return type != 0 ? sft__import_dtype(type) : NULL;
}

/* For whoever gets the elements; NULL: they are what their type says. */
static const char *note_of(uint64_t number) {
    return (number >= 11 && number <= 13) || number == 15 || number == 16
               ? "quantised: its range is not in the checkpoint, given as integers"
           : number == 27 ? "float8_e4m3b11fnuz, which has no type of its own: given as bytes"
           : number >= 29 && number <= 32 ? "one element in each byte, as TensorFlow stores it"
           : number == 33 ? "float4_e2m1fn, one element in each byte: given as bytes"
                          : NULL;
}

static sft_status bad(uint64_t at, sft_error *err, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "tf-bundle: %s", text);
}

/* ---------------------------------------------------------------- what entries say */

/* VersionDef: what wrote it, what may read it. */
static sft_status check_version(const sft__import_tf_pair *pair, const sft__base_pb_field *field,
                                sft_error *err) {
    sft__base_pb m = sft__base_pb_over(field->data, field->len);
    sft__base_pb_field f;

    while (sft__base_pb_next(&m, &f)) {
        if (f.number == 2 && f.value > BUNDLE_VERSION) {
            return sft__base_fail_at(err, SFT_E_UNSUPPORTED, pair->at,
                                     "tf-bundle: made for readers of version %llu, 1 is known",
                                     (unsigned long long)f.value);
        }
    }
    return m.fault == NULL ? SFT_OK : bad(pair->at, err, m.fault);
}

static sft_status read_header(sft__import_tf *tf, const sft__import_tf_pair *pair, sft_error *err) {
    sft__base_pb m = sft__base_pb_over(pair->value, pair->value_len);
    uint64_t shards = 0;
    uint64_t order = 0;
    sft__base_pb_field f;

    if (pair->key_len != 0) {
        return bad(pair->at, err, "a table without a header: LevelDB's, but no tensor bundle");
    }
    while (sft__base_pb_next(&m, &f)) {
        if (f.number == 1 && f.wire == SFT__PB_BYTES) {
            return sft__base_fail_at(
                err, SFT_E_UNSUPPORTED, pair->at,
                "a checkpoint of TensorFlow before 0.12 (version 1), which has its "
                "data in the table: load it and save it again");
        }
        shards = f.number == 1 ? f.value : shards;
        order = f.number == 2 ? f.value : order;
        if (f.number == 3 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(check_version(pair, &f, err));
        }
    }
    if (m.fault != NULL || shards == 0 || order > 1) {
        return bad(pair->at, err,
                   m.fault != NULL ? m.fault : "a header without shards, or of an unknown order");
    }
    if (shards > SFT__TF_SHARDS) {
        return sft__base_fail_at(err, SFT_E_LIMIT, pair->at,
                                 "tf-bundle: %llu shards, %d are the limit",
                                 (unsigned long long)shards, (int)SFT__TF_SHARDS);
    }
    tf->shard_count = shards;
    tf->big = order == 1;
    SFT_TRY(sft__import_alloc(tf->job, &tf->shards, (size_t)shards, sizeof *tf->shards, err));
    memset(tf->shards, 0, (size_t)shards * sizeof *tf->shards);
    return SFT_OK;
}

/* TensorShapeProto: dims of one size each, 0 where none is written. */
static sft_status read_shape(sft__import_tf_entry *e, const sft__base_pb_field *shape,
                             sft_error *err) {
    sft__base_pb m = sft__base_pb_over(shape->data, shape->len);
    sft__base_pb_field f;
    sft__base_pb_field d;

    if (shape->wire != SFT__PB_BYTES || e->has_shape) {
        return bad(e->at, err, "a shape that is none, or two of them");
    }
    e->has_shape = true;
    while (sft__base_pb_next(&m, &f)) {
        if (f.number == 3 && f.value != 0) {
            return bad(e->at, err, "a tensor whose number of dimensions is not known");
        }
        if (f.number != 2) {
            continue;
        }
        if (f.wire != SFT__PB_BYTES) {
            return bad(e->at, err, "a dimension that is no message");
        }
        uint64_t size = 0;
        sft__base_pb dim = sft__base_pb_over(f.data, f.len);
        while (sft__base_pb_next(&dim, &d)) {
            size = d.number == 1 ? d.value : size;
        }
        if (dim.fault != NULL || size > INT64_MAX) {
            return bad(e->at, err, "a negative dimension, or one that cannot be read");
        }
        if (e->dims.rank == SFT__WIRE_RANK) {
            return sft__base_fail_at(err, SFT_E_LIMIT, e->at, "more than %d dimensions",
                                     (int)SFT__WIRE_RANK);
        }
        e->dims.at[e->dims.rank++] = size;
    }
    return m.fault == NULL ? SFT_OK : bad(e->at, err, m.fault);
}

static sft_status read_entry(const sft__import_tf_pair *pair, sft__import_tf_entry *e,
                             sft_error *err) {
    sft__base_pb m = sft__base_pb_over(pair->value, pair->value_len);
    sft__base_pb_field f;

    memset(e, 0, sizeof *e);
    e->at = pair->at;
    while (sft__base_pb_next(&m, &f)) {
        const uint32_t wire = f.number == 6                    ? SFT__PB_FIXED32
                              : f.number == 2 || f.number == 7 ? SFT__PB_BYTES
                                                               : SFT__PB_VARINT;
        if (f.number <= 7 && f.wire != wire) {
            return bad(e->at, err, "a field of another kind than it has");
        }
        switch (f.number) {
        case 1:
            e->type = f.value;
            break;
        case 2:
            SFT_TRY(read_shape(e, &f, err));
            break;
        case 3:
            e->place.shard = f.value;
            break;
        case 4:
            e->place.offset = f.value;
            break;
        case 5:
            e->place.size = f.value;
            break;
        case 6:
            e->crc = (uint32_t)f.value;
            break;
        case 7:
            e->slices = e->slices != NULL ? e->slices : f.start;
            e->slice_count++;
            break;
        default:
            break;
        }
    }
    e->dtype = type_of(e->type);
    return m.fault == NULL ? SFT_OK : bad(e->at, err, m.fault);
}

/* ---------------------------------------------------------------- into the catalog */

/* Texts and what lives in a session only: no tensors to anybody. */
static sft_status leave_out(sft__import_tf *tf, const sft__import_tf_pair *pair,
                            const sft__import_tf_entry *e, sft_error *err) {
    const char *name = (const char *)pair->key;
    const char *what = e->type == TYPE_STRING     ? "a text, no tensor"
                       : e->type == TYPE_RESOURCE ? "a resource, no tensor"
                       : e->type == TYPE_VARIANT  ? "a variant, no tensor"
                                                  : NULL;

    if (what == NULL) {
        return sft__import_opaque(tf->job, SFT__AT(name, pair->key_len, e->at), err,
                                  "tf-bundle: %.*s has the element type %llu, which is not known",
                                  pair->key_len < 100 ? (int)pair->key_len : 100, name,
                                  (unsigned long long)e->type);
    }
    sft__import_find(tf->job,
                     SFT__RULE(LEFT_OUT, HARMLESS, e->type == TYPE_STRING ? "text" : "left-out"),
                     SFT__AT(name, pair->key_len, e->at), "%s", what);
    if (e->place.shard >= tf->shard_count || e->place.size > INT64_MAX ||
        e->place.offset > INT64_MAX) {
        return bad(e->at, err, "data that lies in no shard");
    }
    return sft__import_tf_keep_place(tf, &e->place, err);
}

static sft_status add_tensor(sft__import_tf *tf, const sft__import_tf_pair *pair,
                             const sft__import_tf_entry *e, sft_error *err) {
    const char *name = (const char *)pair->key;
    uint64_t elements;
    uint64_t need = 0;
    sft_tensor t;

    memset(&t, 0, sizeof t);
    t.name = name;
    t.name_len = pair->key_len;
    t.dtype = e->dtype;
    t.shape = e->dims.at;
    t.rank = e->dims.rank;
    if (note_of(e->type) != NULL) {
        sft__import_find(tf->job, SFT__RULE(NOTE, HARMLESS, "tf-type"),
                         SFT__AT(name, pair->key_len, e->at), "%s", note_of(e->type));
    }
    if (!sft__import_wire_elements(&e->dims, &elements) ||
        sft_dtype_bytes(t.dtype, elements, &need, NULL) != SFT_OK) {
        return sft__base_fail_tensor(err, SFT_E_OVERFLOW, e->at, name, t.name_len,
                                     "the size of its shape overflows");
    }
    if (e->slices != NULL) {
        return sft__import_tf_slices(tf, pair, e, &t, err);
    }
    if (e->place.size != need) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, e->at, name, t.name_len,
                                     "%llu bytes of data, shape and type need %llu",
                                     (unsigned long long)e->place.size, (unsigned long long)need);
    }
    sft_piece piece;
    memset(&piece, 0, sizeof piece);
    SFT_TRY(sft__import_tf_data(tf, &t, &e->place, e->crc, &piece, err));
    t.pieces = &piece;
    t.piece_count = 1;
    return sft__import_tensor(tf->job, &t, err);
}

static sft_status add_pair(void *ctx, const sft__import_tf_pair *pair, sft_error *err) {
    sft__import_tf *tf = ctx;
    sft__import_tf_entry e;

    if (tf->shard_count == 0) {
        return read_header(tf, pair, err);
    }
    tf->key_bytes += pair->key_len; /* a few bytes of the table may stand for long keys */
    if (tf->key_bytes > KEY_BYTES_MOST) {
        return sft__base_fail_at(err, SFT_E_LIMIT, pair->at, "memory: %llu bytes of names",
                                 (unsigned long long)tf->key_bytes);
    }
    SFT_TRY(read_entry(pair, &e, err));
    if (pair->key[0] == 0) {
        return sft__import_tf_slice_keep(tf, pair, &e, err);
    }
    const size_t good = sft__base_utf8_valid(pair->key, pair->key_len);
    if (good != pair->key_len) {
        return sft__base_fail_at(err, SFT_E_UTF8, pair->at, "a name that is not UTF-8");
    }
    return e.dtype != NULL ? add_tensor(tf, pair, &e, err) : leave_out(tf, pair, &e, err);
}

/* ---------------------------------------------------------------- the file */

/* "variables" of ".../variables.index". */
static sft_status find_stem(sft__import_tf *tf, sft_error *err) {
    const char *path = tf->job->path;
    char *stem;

    if (path == NULL) {
        tf->stem = ""; /* sft__import_beside_open says that there is no directory */
        return SFT_OK;
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const size_t n = strlen(name);
    const size_t e = sizeof index_end - 1;
    if (n <= e || strcmp(name + n - e, index_end) != 0) {
        return sft__base_fail(
            err, SFT_E_PATH,
            "an index of TensorFlow's whose name does not end in .index: its data "
            "cannot be found");
    }
    SFT_TRY(sft__import_copy(tf->job, &stem, name, n - e, err));
    tf->stem = stem;
    return SFT_OK;
}

/* The variables of a SavedModel: its graph may hold constants, too. */
static void tell_graph(sft__import *job) {
    static const char end[] = "variables/variables.index";
    const size_t n = sizeof end - 1;
    const size_t len = job->path != NULL ? strlen(job->path) : 0;

    if (len > n && strcmp(job->path + len - n, end) == 0 && !job->scanning) {
        sft__import_left(job, "saved_model.pb", 14, 0,
                         "the graph, which is never read: constants in it stay there");
    }
}

static sft_status read_bundle(sft__import_tf *tf, sft_error *err) {
    SFT_TRY(sft__import_tf_table(tf->job, add_pair, tf, err));
    if (tf->shard_count == 0) {
        return bad(0, err, "a table without a header: LevelDB's, but no tensor bundle");
    }
    SFT_TRY(sft__import_tf_slices_end(tf, err));
    tell_graph(tf->job);
    return sft__import_tf_check_places(tf, err);
}

static sft_status open_tf(sft__import *job, sft_error *err) {
    sft__import_tf tf;

    memset(&tf, 0, sizeof tf);
    tf.job = job;
    sft_status status = find_stem(&tf, err);
    SFT_THEN(status, read_bundle(&tf, err));
    if (tf.mapped) {
        sft__base_strmap_reset(&tf.map);
    }
    sft__base_free(job->allocator, tf.slices, tf.slice_room * sizeof *tf.slices);
    sft__base_free(job->allocator, tf.places, tf.place_room * sizeof *tf.places);
    return status;
}

/* A first entry that shares nothing and has no key, where pickles and other formats never begin so:
 * and the footer of a table. */
static bool probe(const sft__import_probe *p) {
    return p->head_len > 2 && p->head[0] == 0 && p->head[1] == 0 &&
           sft__import_tf_is_table(p->source);
}

const sft__import_reader sft__import_reader_tf = {SFT_IMPORT_TF_BUNDLE, probe, open_tf};
