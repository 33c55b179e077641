/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer_carry.c - digests that inputs record, on their way into an output: they go with the
 * bytes that they were made of, under the names that these have now, or not at all. For every copy
 * and conversion; the form is that of <sft/digest.h>. Read first: writer.h, recorded.h.
 */
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "move/digest_tensor.h"
#include "move/load/recorded.h"
#include "move/write/writer.h"
#include <stdlib.h>

static const struct kind {
    uint32_t id;
    const char *key;
} kinds[] = {{SFT_DIGEST_CRC32C, "sft.crc32c"}, {SFT_DIGEST_SHA256, "sft.sha256"}};
enum { KINDS = 2, KEY_LEN = 10 };

int sft_digest_is_key(const char *key, size_t len) {
    return key != NULL && len == KEY_LEN &&
           (memcmp(key, kinds[0].key, KEY_LEN) == 0 || memcmp(key, kinds[1].key, KEY_LEN) == 0);
}

/* The digests of one input. */
typedef struct input {
    const sft_catalog *catalog;
    sft__move_recorded *list; /* by tensor; NULL: it records none, or stale ones */
    uint32_t kinds;           /* that its metadata has, or what lies beside it, stale or not */
} input;

typedef struct carrying {
    sft_writer *writer;
    const sft_writer_origin *origins;
    const sft_allocator *allocator;
    input *inputs;
    size_t count;
    size_t room;
} carrying;

static uint32_t kinds_of(const sft_catalog *catalog) {
    uint32_t found = 0;

    for (size_t k = 0; k < KINDS; k++) {
        for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
            if (sft_catalog_metadata_find(catalog, f, kinds[k].key, KEY_LEN, NULL) != NULL) {
                found |= kinds[k].id;
            }
        }
    }
    return found;
}

static const input *input_of(const carrying *c, const sft_catalog *catalog) {
    for (size_t i = c->count; i-- > 0;) { /* as many as there are inputs: few */
        if (c->inputs[i].catalog == catalog) {
            return &c->inputs[i];
        }
    }
    return NULL;
}

static sft_status add_input(carrying *c, const sft_catalog *catalog, sft_error *err) {
    const size_t bytes = (sft_catalog_count(catalog) + 1) * sizeof(sft__move_recorded);
    bool found = false;

    SFT_TRY(SFT_ONE_MORE(c->allocator, c->inputs, c->room, c->count, err));
    input *in = &c->inputs[c->count++];
    *in = (input){catalog, NULL, kinds_of(catalog)};
    const bool inside = in->kinds != 0;
    in->list = sft__base_alloc_zero(c->allocator, bytes);
    in->kinds = inside ? in->kinds : SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256; /* beside, perhaps */
    const sft_status status =
        in->list != NULL
            ? sft__move_recorded_load(catalog, in->kinds | (inside ? SFT__RECORDED_INSIDE : 0),
                                      c->allocator, in->list, &found, err)
            : sft__base_fail_nomem(err, bytes);
    if (!inside && status == SFT_OK) {
        in->kinds = 0;
        for (size_t i = 0; found && i < sft_catalog_count(catalog); i++) {
            in->kinds |= in->list[i].have;
        }
    }
    if (status != SFT_OK) { /* of other tensors, say: then they are not handed on */
        sft__base_free(c->allocator, in->list, bytes);
        in->list = NULL;
    }
    return status == SFT_E_NOMEM || status == SFT_E_CHANGED ? status : SFT_OK;
}

/* What is recorded of the tensor that goes on as declared[i]; NULL: nothing. */
static const sft__move_recorded *recorded_of(const carrying *c, size_t i, uint32_t kind) {
    const sft_writer_origin *o = &c->origins[i];
    const input *in = input_of(c, o->catalog);
    const sft__format_entry *e = &c->writer->set.entries[i];

    if (in == NULL || in->list == NULL || o->tensor == NULL ||
        e->dtype->id != o->tensor->dtype->id) {
        return NULL;
    }
    const size_t at = sft_catalog_index_of(o->catalog, o->tensor);
    const sft__move_recorded *r = &in->list[at];
    if (sft_catalog_at(o->catalog, at) != o->tensor) {
        return NULL; /* what an alias shows of a tensor */
    }
    return (r->have & kind) != 0 ? r : NULL;
}

static int by_name(const void *a, const void *b) {
    const sft__format_entry *x = *(const sft__format_entry *const *)a;
    const sft__format_entry *y = *(const sft__format_entry *const *)b;
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int o = n == 0 ? 0 : memcmp(x->name, y->name, n);

    return o != 0 ? o : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

static void put_hex(sft__base_buf *b, const uint8_t *bytes, size_t size) {
    char digits[64];
    sft__base_hex(digits, bytes, size);
    sft__base_buf_add(b, digits, 2 * size);
}

static void put_crc(sft__base_buf *b, uint32_t crc) {
    const uint8_t bytes[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
                              (uint8_t)crc};
    put_hex(b, bytes, sizeof bytes);
}

/* The value of one kind, if all declared tensors have it. */
static sft_status carry_kind(carrying *c, const sft__format_entry **sorted, const struct kind *k,
                             bool *done, sft_error *err) {
    const sft__move_set *set = &c->writer->set;
    sft__base_buf text;

    *done = false;
    for (size_t i = 0; i < set->count; i++) {
        if (recorded_of(c, i, k->id) == NULL) {
            return SFT_OK;
        }
        sorted[i] = &set->entries[i];
    }
    qsort(sorted, set->count, sizeof *sorted, by_name);
    sft__base_buf_init(&text, c->allocator);
    put_crc(&text, sft__move_set_description(sorted, set->count));
    for (size_t i = 0; i < set->count; i++) {
        const sft__move_recorded *r = recorded_of(c, (size_t)(sorted[i] - set->entries), k->id);
        if (k->id == SFT_DIGEST_CRC32C) {
            put_crc(&text, r->crc);
        } else {
            put_hex(&text, r->sha, sizeof r->sha);
        }
    }
    const sft_status status =
        text.failed ? sft__base_fail_nomem(err, text.len)
                    : sft_writer_metadata(c->writer, k->key, KEY_LEN, text.data, text.len, err);
    sft__base_buf_reset(&text);
    *done = status == SFT_OK;
    return status;
}

static sft_status carry(carrying *c, uint32_t *lost, sft_error *err) {
    const size_t count = c->writer->set.count;
    uint32_t have = 0;

    for (size_t i = 0; i < count; i++) {
        if (c->origins[i].catalog != NULL && input_of(c, c->origins[i].catalog) == NULL) {
            SFT_TRY(add_input(c, c->origins[i].catalog, err));
            have |= c->inputs[c->count - 1].kinds;
        }
    }
    have &= ~c->writer->set.options.digests; /* those are made of what is written */
    if (have == 0 || count == 0) {
        return SFT_OK;
    }
    const sft__format_entry **sorted = sft__base_alloc_array(c->allocator, count, sizeof *sorted);
    sft_status status = sorted != NULL ? SFT_OK : sft__base_fail_nomem(err, count * sizeof *sorted);
    for (size_t k = 0; k < KINDS && status == SFT_OK; k++) {
        bool done = false;
        if ((have & kinds[k].id) != 0) {
            status = carry_kind(c, sorted, &kinds[k], &done, err);
            *lost |= done ? 0 : kinds[k].id;
        }
    }
    sft__base_free(c->allocator, sorted, count * sizeof *sorted);
    return status;
}

sft_status sft_writer_carry_digests(sft_writer *writer, const sft_writer_origin *origins,
                                    uint32_t *lost, sft_error *err) {
    uint32_t unused = 0;

    if (writer == NULL || (origins == NULL && writer->set.count != 0)) {
        return sft__base_fail(err, SFT_E_ARG, "writer or origins is NULL");
    }
    carrying c = {.writer = writer, .origins = origins, .allocator = writer->set.allocator};
    lost = lost != NULL ? lost : &unused;
    *lost = 0;
    const sft_status status = carry(&c, lost, err);
    for (size_t i = 0; i < c.count; i++) {
        sft__base_free(c.allocator, c.inputs[i].list,
                       (sft_catalog_count(c.inputs[i].catalog) + 1) * sizeof(sft__move_recorded));
    }
    sft__base_free(c.allocator, c.inputs, c.room * sizeof *c.inputs);
    return status;
}
