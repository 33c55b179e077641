/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_group.c - the links of a group of HDF5: symbol tables (a B-tree of version 1 over a
 * heap of names), messages in the object header, and messages in a fractal heap. Links that lead
 * out of the file are named and not followed. Source: HDF5 File Format Specification, III.A to
 * III.D, IV.A.2.c. Read first: hdf5.h.
 */
#include "base/text/utf8.h"
#include "import/hdf5/hdf5.h"
#include <stdlib.h>

enum { LINK_HARD = 0, LINK_SOFT = 1, LINK_EXTERNAL = 64, SOFT_CACHED = 2 };

typedef struct group {
    sft__import_h5 *h;
    const char *path; /* of the group */
    size_t path_len;
    size_t names; /* bytes of them in h->heap */
} group;

bool sft__import_h5_is_group(const sft__import_h5_object *o) {
    return sft__import_h5_message_find(o, SFT__H5_SYMBOLS) != NULL ||
           sft__import_h5_message_find(o, SFT__H5_LINK_INFO) != NULL ||
           sft__import_h5_message_find(o, SFT__H5_LINK) != NULL;
}

/* ---------------------------------------------------------------- one link */

static sft_status link_path(group *g, sft__import_h5_link *link, const uint8_t *name, size_t len,
                            uint64_t addr, sft_error *err) {
    const size_t before = g->path_len != 0 ? g->path_len + 1 : 0;
    char *path;

    if (len == 0 || memchr(name, '/', len) != NULL || memchr(name, '\0', len) != NULL) {
        return sft__import_h5_bad(g->h, addr, err,
                                  "a link whose name is empty or has a slash or a zero");
    }
    if (sft__base_utf8_valid(name, len) != len) {
        return sft__base_fail_at(err, SFT_E_UTF8, g->h->base + addr,
                                 "hdf5: a name that is not UTF-8");
    }
    if (before + len > SFT__H5_NAME_MAX) {
        return sft__base_fail_at(err, SFT_E_LIMIT, g->h->base + addr,
                                 "hdf5: a path of more than %d bytes", (int)SFT__H5_NAME_MAX);
    }
    SFT_TRY(sft__import_alloc(g->h->job, &path, before + len + 1, 1, err));
    if (before != 0) {
        memcpy(path, g->path, g->path_len);
        path[g->path_len] = '/';
    }
    memcpy(path + before, name, len);
    path[before + len] = '\0';
    link->name = path;
    link->len = before + len;
    return SFT_OK;
}

/* A hard link, or with target a soft one. */
static sft_status put(group *g, const sft__import_h5_link *like, const uint8_t *name, size_t len,
                      uint64_t at, sft_error *err) {
    sft__import_h5_links *to = like->target != NULL ? &g->h->soft : &g->h->stack;
    sft__import_h5_link link = *like;
    char *copy;

    SFT_TRY(sft__import_h5_grow(g->h, &to->at, &to->room, to->count, sizeof *to->at, err));
    SFT_TRY(link_path(g, &link, name, len, at, err));
    if (like->target != NULL) {
        SFT_TRY(sft__import_copy(g->h->job, &copy, like->target, like->target_len, err));
        link.target = copy;
    }
    to->at[to->count++] = link;
    return SFT_OK;
}

/* A link that opens another file when it is followed. */
static sft_status leads_out(group *g, const uint8_t *name, size_t len, unsigned kind, uint64_t at,
                            sft_error *err) {
    sft__import_h5_link link = {0};

    SFT_TRY(link_path(g, &link, name, len, at, err));
    if (kind == LINK_EXTERNAL) {
        sft__import_find(g->h->job, SFT__RULE(CONTAINER, DANGEROUS, "hdf5-external-link"),
                         SFT__AT(link.name, link.len, g->h->base + at),
                         "a link into another file, which HDF5 opens");
        return sft__import_opaque(g->h->job, SFT__AT(link.name, link.len, g->h->base + at), err,
                                  "hdf5: %.200s is a link into another file, which is never opened",
                                  link.name);
    }
    return sft__import_opaque(g->h->job, SFT__AT(link.name, link.len, g->h->base + at), err,
                              "hdf5: %.200s is a link of the kind %u, which is not known",
                              link.name, kind);
}

/* ---------------------------------------------------------------- link messages */

static sft_status take_link(group *g, sft__import_h5_in in, uint64_t at, sft_error *err) {
    const uint8_t version = (uint8_t)sft__import_h5_take(&in, 1);
    const uint8_t flags = (uint8_t)sft__import_h5_take(&in, 1);
    const unsigned kind = (flags & 0x08) != 0 ? (unsigned)sft__import_h5_take(&in, 1) : LINK_HARD;
    sft__import_h5_link link = {.addr = SFT__H5_UNDEF};

    (void)sft__import_h5_skip(&in, (flags & 0x04) != 0 ? 8 : 0);
    (void)sft__import_h5_skip(&in, (flags & 0x10) != 0 ? 1 : 0);
    const uint64_t len = sft__import_h5_take(&in, (size_t)1 << (flags & 3));
    const uint8_t *name = len <= in.left ? sft__import_h5_skip(&in, (size_t)len) : NULL;
    if (name == NULL || in.bad || version != 1) {
        return sft__import_h5_bad(g->h, at, err, "a link cut short or of an unknown version");
    }
    if (kind == LINK_HARD) {
        link.addr = sft__import_h5_take_addr(g->h, &in);
    } else if (kind == LINK_SOFT) {
        link.target_len = (size_t)sft__import_h5_take(&in, 2);
        link.target = (const char *)sft__import_h5_skip(&in, link.target_len);
    } else {
        return leads_out(g, name, (size_t)len, kind, at, err);
    }
    if (in.bad || (kind == LINK_HARD && link.addr == SFT__H5_UNDEF)) {
        return sft__import_h5_bad(g->h, at, err, "a link to nowhere");
    }
    return put(g, &link, name, (size_t)len, at, err);
}

static sft_status each_link(void *ctx, const uint8_t *bytes, size_t size, sft_error *err) {
    const sft__import_h5_in in = {bytes, size, false};
    group *g = ctx;
    return take_link(g, in, g->h->object.addr, err);
}

/* ---------------------------------------------------------------- symbol tables */

/* The text at an offset of the heap of names; at most up to its end. */
static sft_status heap_text(group *g, uint64_t offset, const char **text, size_t *len, uint64_t at,
                            sft_error *err) {
    const uint8_t *bytes = g->h->heap.data;
    const uint8_t *end =
        offset < g->names ? memchr(bytes + offset, 0, g->names - (size_t)offset) : NULL;

    if (end == NULL) {
        return sft__import_h5_bad(g->h, at, err, "a name outside the heap of its group");
    }
    *text = (const char *)bytes + offset;
    *len = (size_t)(end - (bytes + offset));
    return SFT_OK;
}

static sft_status take_symbol(group *g, sft__import_h5_in *in, uint64_t at, sft_error *err) {
    sft__import_h5 *h = g->h;
    sft__import_h5_link link = {0};
    const char *name = "";
    size_t len = 0;

    const uint64_t offset = sft__import_h5_take(in, h->offset_size);
    link.addr = sft__import_h5_take_addr(h, in);
    const uint64_t cached = sft__import_h5_take(in, 4);
    (void)sft__import_h5_skip(in, 4);
    const uint8_t *scratch = sft__import_h5_skip(in, 16);
    if (scratch == NULL) {
        return sft__import_h5_bad(h, at, err, "a node of a group cut short");
    }
    SFT_TRY(heap_text(g, offset, &name, &len, at, err));
    if (cached == SOFT_CACHED) {
        link.addr = SFT__H5_UNDEF;
        SFT_TRY(
            heap_text(g, sft__base_load_le32(scratch), &link.target, &link.target_len, at, err));
    } else if (link.addr == SFT__H5_UNDEF) {
        return sft__import_h5_bad(h, at, err, "a link to nowhere");
    }
    return put(g, &link, (const uint8_t *)name, len, at, err);
}

/* A leaf: symbols. */
static sft_status take_symbols(group *g, uint64_t addr, sft_error *err) {
    sft__import_h5 *h = g->h;
    const uint64_t entry = 2 * (uint64_t)h->offset_size + 24;
    uint8_t head[8];

    SFT_TRY(sft__import_h5_read(h, addr, head, sizeof head, "a node of a group", err));
    if (memcmp(head, "SNOD", 4) != 0 || head[4] != 1) {
        return sft__import_h5_bad(h, addr, err, "a node of a group without its signature");
    }
    const uint32_t count = sft__base_load_le16(head + 6);
    SFT_TRY(sft__import_h5_block(h, &h->node, addr + 8, count * entry, "a node of a group", err));
    sft__import_h5_in in = {h->node.data, (size_t)(count * entry), false};
    for (uint32_t i = 0; i < count; i++) {
        SFT_TRY(take_symbol(g, &in, addr + 8 + i * entry, err));
    }
    return SFT_OK;
}

/* An inner node: pushes its children, whose level is one less. */
static sft_status take_tree_node(group *g, const sft__import_h5_node *n, sft_error *err) {
    sft__import_h5 *h = g->h;
    const size_t step = h->length_size + h->offset_size;
    const size_t head = 8 + 2 * (size_t)h->offset_size;
    uint8_t top[8];

    SFT_TRY(sft__import_h5_read(h, n->addr, top, sizeof top, "a B-tree of a group", err));
    const uint32_t count = sft__base_load_le16(top + 6);
    if (memcmp(top, "TREE", 4) != 0 || top[4] != 0 ||
        (n->level != UINT32_MAX && top[5] != n->level)) {
        return sft__import_h5_bad(h, n->addr, err,
                                  "no node of the B-tree of a group of this level");
    }
    SFT_TRY(sft__import_h5_block(h, &h->node, n->addr, head + count * step + h->length_size,
                                 "a B-tree of a group", err));
    for (uint32_t i = 0; i < count; i++) {
        sft__import_h5_in in = {h->node.data + head + i * step + h->length_size, h->offset_size,
                                false};
        const uint64_t child = sft__import_h5_take_addr(h, &in);
        /* records 1: a leaf of symbols */
        SFT_TRY(sft__import_h5_push(h, child, top[5] == 0, top[5] == 0 ? 0 : top[5] - 1u, err));
    }
    return SFT_OK;
}

/* The names, into h->heap. */
static sft_status read_heap(group *g, uint64_t addr, sft_error *err) {
    sft__import_h5 *h = g->h;
    uint8_t head[32];

    SFT_TRY(sft__import_h5_read(h, addr, head, 8 + 2 * (size_t)h->length_size + h->offset_size,
                                "a heap of names", err));
    if (memcmp(head, "HEAP", 4) != 0 || head[4] != 0) {
        return sft__import_h5_bad(h, addr, err, "a heap of names without its signature");
    }
    sft__import_h5_in in = {head + 8, sizeof head - 8, false};
    const uint64_t len = sft__import_h5_take(&in, h->length_size);
    (void)sft__import_h5_take(&in, h->length_size);
    const uint64_t data = sft__import_h5_take_addr(h, &in);
    SFT_TRY(sft__import_h5_block(h, &h->heap, data, len, "a heap of names", err));
    g->names = (size_t)len;
    return SFT_OK;
}

static sft_status take_table(group *g, const sft__import_h5_message *m, sft_error *err) {
    sft__import_h5 *h = g->h;
    sft__import_h5_in in = sft__import_h5_body(&h->object, m);
    const uint64_t tree = sft__import_h5_take_addr(h, &in);
    const uint64_t heap = sft__import_h5_take_addr(h, &in);

    if (in.bad) {
        return sft__import_h5_bad(h, m->addr, err, "a symbol table cut short");
    }
    SFT_TRY(read_heap(g, heap, err));
    h->todo_count = 0;
    SFT_TRY(sft__import_h5_push(h, tree, 0, UINT32_MAX, err));
    while (h->todo_count > 0) {
        const sft__import_h5_node n = h->todo[--h->todo_count];
        SFT_TRY(n.records != 0 ? take_symbols(g, n.addr, err) : take_tree_node(g, &n, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- a group */

static sft_status take_info(group *g, const sft__import_h5_message *m, sft_error *err) {
    sft__import_h5 *h = g->h;
    sft__import_h5_in in = sft__import_h5_body(&h->object, m);
    const uint8_t version = (uint8_t)sft__import_h5_take(&in, 1);
    const uint8_t flags = (uint8_t)sft__import_h5_take(&in, 1);

    (void)sft__import_h5_skip(&in, (flags & 1) != 0 ? 8 : 0);
    const uint64_t heap = sft__import_h5_take_addr(h, &in);
    const uint64_t tree = sft__import_h5_take_addr(h, &in);
    if (in.bad || version != 0) {
        return sft__import_h5_bad(h, m->addr, err, "a group cut short or of an unknown version");
    }
    return heap == SFT__H5_UNDEF ? SFT_OK
                                 : sft__import_h5_dense(h, (sft__import_h5_named){heap, tree, 5, 4},
                                                        each_link, g, err);
}

static int by_name_backwards(const void *a, const void *b) {
    const sft__import_h5_link *x = a;
    const sft__import_h5_link *y = b;
    const size_t n = x->len < y->len ? x->len : y->len;
    const int o = memcmp(y->name, x->name, n);
    return o != 0 ? o : (x->len < y->len) - (x->len > y->len);
}

sft_status sft__import_h5_group(sft__import_h5 *h, const char *path, size_t path_len,
                                sft_error *err) {
    group g = {h, path, path_len, 0};
    const size_t first = h->stack.count;

    for (size_t i = 0; i < h->object.count; i++) {
        const sft__import_h5_message *m = &h->object.messages[i];
        if (m->type == SFT__H5_SYMBOLS) {
            SFT_TRY(take_table(&g, m, err));
        } else if (m->type == SFT__H5_LINK_INFO) {
            SFT_TRY(take_info(&g, m, err));
        } else if (m->type == SFT__H5_LINK) {
            SFT_TRY(take_link(&g, sft__import_h5_body(&h->object, m), m->addr, err));
        }
    }
    if (h->stack.count > first + 1) {
        qsort(h->stack.at + first, h->stack.count - first, sizeof *h->stack.at, by_name_backwards);
    }
    return SFT_OK;
}
