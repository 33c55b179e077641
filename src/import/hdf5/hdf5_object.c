/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_object.c - object headers of HDF5, versions 1 and 2: their messages out of all
 * blocks, in order, checksums compared. Source: HDF5 File Format Specification, IV.A. Read first:
 * hdf5.h.
 */
#include "base/checked.h"
#include "import/hdf5/hdf5.h"

enum { BLOCKS_MAX = 4096, FAIL_IF_UNKNOWN = 0x80 };

typedef struct reading {
    sft__import_h5 *h;
    sft__import_h5_object *o;
    bool second;  /* version 2 */
    bool ordered; /* messages have a number */
} reading;

const sft__import_h5_message *sft__import_h5_message_find(const sft__import_h5_object *o,
                                                          uint32_t type) {
    for (size_t i = 0; i < o->count; i++) {
        if (o->messages[i].type == type) {
            return &o->messages[i];
        }
    }
    return NULL;
}

void sft__import_h5_object_reset(sft__import_h5 *h, sft__import_h5_object *o) {
    const sft_allocator *a = h->job->allocator;
    sft__base_free(a, o->messages, o->room * sizeof *o->messages);
    sft__base_free(a, o->bytes.data, o->bytes.room);
    memset(o, 0, sizeof *o);
}

/* A block that continues the header. */
static sft_status take_more(reading *r, const sft__import_h5_message *m, sft_error *err) {
    sft__import_h5_in in = sft__import_h5_body(r->o, m);
    const uint64_t addr = sft__import_h5_take_addr(r->h, &in);
    const uint64_t len = sft__import_h5_take(&in, r->h->length_size);

    if (in.bad) {
        return sft__import_h5_bad(r->h, m->addr, err,
                                  "a continuation of an object header cut short");
    }
    return sft__import_h5_push(r->h, addr, len, 0, err);
}

static sft_status take_message(reading *r, const sft__import_h5_message *m, sft_error *err) {
    sft__import_h5_object *o = r->o;

    if (m->type == SFT__H5_CONTINUE) {
        return take_more(r, m, err);
    }
    if (m->type > SFT__H5_CACHE_IMAGE && (m->flags & FAIL_IF_UNKNOWN) != 0) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, r->h->base + m->addr,
                                 "hdf5: a message of type %u, which must be understood",
                                 (unsigned)m->type);
    }
    if (m->type == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_h5_grow(r->h, &o->messages, &o->room, o->count, sizeof *o->messages, err));
    o->messages[o->count++] = *m;
    return SFT_OK;
}

/* Messages in bytes [from, end) of the object's, which lie at addr. */
static sft_status take_messages(reading *r, size_t from, size_t end, uint64_t addr,
                                sft_error *err) {
    const size_t head = r->second ? (r->ordered ? 6u : 4u) : 8u;
    size_t at = from;

    while (end - at >= head) {
        const uint8_t *p = r->o->bytes.data + at;
        sft__import_h5_message m;
        m.type = r->second ? p[0] : sft__base_load_le16(p);
        m.len = r->second ? sft__base_load_le16(p + 1) : sft__base_load_le16(p + 2);
        m.flags = r->second ? p[3] : p[4];
        m.offset = at + head;
        m.addr = addr + (m.offset - from);
        if (m.len > end - m.offset) {
            return sft__import_h5_bad(r->h, m.addr, err, "a message longer than its object header");
        }
        SFT_TRY(take_message(r, &m, err));
        at = m.offset + m.len;
    }
    return SFT_OK;
}

/* A block's bytes behind those that are there. */
static sft_status take_block(reading *r, uint64_t addr, uint64_t len, size_t *from,
                             sft_error *err) {
    sft__import_h5_object *o = r->o;
    size_t n;
    size_t all;

    if (len > r->h->end || !sft__base_size_from_u64(len, &n) ||
        !sft__base_add_size(o->used, n, &all)) {
        return sft__import_h5_bad(r->h, addr, err, "an object header longer than the file");
    }
    SFT_TRY(sft__import_h5_room(r->h, &o->bytes, all, err));
    SFT_TRY(sft__import_h5_read(r->h, addr, o->bytes.data + o->used, n, "an object header", err));
    *from = o->used;
    o->used = all;
    return SFT_OK;
}

/* A block of version 2: what is between `head` bytes and the checksum. */
static sft_status take_summed(reading *r, uint64_t addr, uint64_t len, size_t head,
                              sft_error *err) {
    size_t from = 0;

    if (len < head + 4) {
        return sft__import_h5_bad(r->h, addr, err, "an object header too short for its checksum");
    }
    SFT_TRY(take_block(r, addr, len, &from, err));
    const uint8_t *p = r->o->bytes.data + from;
    SFT_TRY(sft__import_h5_sum(r->h, p, (size_t)len, addr, "an object header", err));
    if (memcmp(p, from == 0 ? "OHDR" : "OCHK", 4) != 0) {
        return sft__import_h5_bad(r->h, addr, err,
                                  "a block of an object header without its signature");
    }
    return take_messages(r, from + head, from + (size_t)len - 4, addr + head, err);
}

static sft_status first_block_2(reading *r, uint64_t addr, const uint8_t *head, sft_error *err) {
    const uint8_t flags = head[5];
    size_t n = 6;

    if (head[4] != 2) {
        return sft__import_h5_bad(r->h, addr, err, "an object header of an unknown version");
    }
    r->second = true;
    r->ordered = (flags & 0x04) != 0;
    n += (flags & 0x20) != 0 ? 16u : 0u;
    n += (flags & 0x10) != 0 ? 4u : 0u;
    const size_t width = (size_t)1 << (flags & 3);
    uint8_t size[8];
    SFT_TRY(sft__import_h5_read(r->h, addr + n, size, width, "an object header", err));
    n += width;
    const uint64_t len = sft__import_h5_uint(size, width);
    if (len > r->h->end) {
        return sft__import_h5_bad(r->h, addr, err, "an object header longer than the file");
    }
    return take_summed(r, addr, n + len + 4, n, err);
}

static sft_status first_block_1(reading *r, uint64_t addr, const uint8_t *head, sft_error *err) {
    const uint32_t len = sft__base_load_le32(head + 8);
    size_t from;

    if (head[0] != 1) {
        return sft__import_h5_bad(r->h, addr, err, "no object header");
    }
    SFT_TRY(take_block(r, addr + 16, len, &from, err));
    return take_messages(r, from, from + len, addr + 16, err);
}

static sft_status more_blocks(reading *r, sft_error *err) {
    sft__import_h5 *h = r->h;
    size_t from;

    for (int blocks = 0; h->todo_count > 0; blocks++) {
        const sft__import_h5_node n = h->todo[--h->todo_count];
        if (blocks == BLOCKS_MAX) {
            return sft__import_h5_bad(h, n.addr, err, "an object header in more than 4096 blocks");
        }
        if (r->second) {
            SFT_TRY(take_summed(r, n.addr, n.records, 4, err));
        } else {
            SFT_TRY(take_block(r, n.addr, n.records, &from, err));
            SFT_TRY(take_messages(r, from, r->o->used, n.addr, err));
        }
    }
    return SFT_OK;
}

sft_status sft__import_h5_object_read(sft__import_h5 *h, sft__import_h5_object *o, uint64_t addr,
                                      sft_error *err) {
    reading r = {h, o, false, false};
    uint8_t head[16];

    o->addr = addr;
    o->count = 0;
    o->used = 0;
    h->todo_count = 0;
    SFT_TRY(sft__import_h5_read(h, addr, head, sizeof head, "an object header", err));
    SFT_TRY(memcmp(head, "OHDR", 4) == 0 ? first_block_2(&r, addr, head, err)
                                         : first_block_1(&r, addr, head, err));
    return more_blocks(&r, err);
}
