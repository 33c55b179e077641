/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_heap.c - B-trees of version 2 and fractal heaps, in which HDF5 keeps many links,
 * many attributes and chunks. Every node's checksum is compared. The objects of a heap are fetched
 * in the order of their places, so that each block is read once. Source: HDF5 File Format
 * Specification, III.A.2, III.G. Read first: hdf5.h.
 */
#include "base/checked.h"
#include "import/hdf5/hdf5.h"
#include <stdlib.h>

enum {
    DEPTH_MAX = 16,
    ID_MAX = 64,
    HUGE_MOST = 12 << 20 /* bytes of an object by itself that are read: more than any text here */
};

/* ---------------------------------------------------------------- B-trees of version 2 */

typedef struct tree {
    sft__import_h5 *h;
    uint32_t type;
    uint32_t node_size;
    uint32_t record;
    uint32_t depth;
    uint32_t count_width;                /* bytes of a child's count */
    uint32_t total_width[DEPTH_MAX + 1]; /* of the count below a node of this level */
    uint64_t most[DEPTH_MAX + 1];        /* records in a node of this level */
} tree;

/* How many records fit into nodes of each level: the widths of the counts follow from it. */
static sft_status tree_levels(tree *t, uint64_t addr, sft_error *err) {
    uint64_t below = 0; /* records below a node of the level before */

    for (uint32_t level = 0; level <= t->depth; level++) {
        const uint32_t pointer = level == 0 ? 0
                                            : t->h->offset_size + t->count_width +
                                                  (level > 1 ? t->total_width[level - 1] : 0);
        if (t->node_size < 10 + pointer + t->record + pointer) {
            return sft__import_h5_bad(t->h, addr, err,
                                      "a B-tree whose nodes have no room for a record");
        }
        t->most[level] = (t->node_size - 10 - pointer) / (t->record + pointer);
        if (level == 0) {
            t->count_width = sft__import_h5_width(t->most[0]);
            below = t->most[0];
        } else {
            uint64_t all;
            if (!sft__base_mul64(t->most[level] + 1, below, &all) ||
                !sft__base_add64(all, t->most[level], &below)) {
                below = UINT64_MAX;
            }
        }
        t->total_width[level] = sft__import_h5_width(below);
    }
    return SFT_OK;
}

static sft_status tree_open(tree *t, uint64_t addr, uint32_t type, sft_error *err) {
    sft__import_h5 *h = t->h;
    const size_t n = 22 + (size_t)h->offset_size + h->length_size;
    uint8_t head[64];

    SFT_TRY(sft__import_h5_read(h, addr, head, n, "a B-tree", err));
    if (memcmp(head, "BTHD", 4) != 0 || head[4] != 0) {
        return sft__import_h5_bad(h, addr, err, "a B-tree without its signature");
    }
    SFT_TRY(sft__import_h5_sum(h, head, n, addr, "a B-tree", err));
    t->type = head[5];
    t->node_size = sft__base_load_le32(head + 6);
    t->record = sft__base_load_le16(head + 10);
    t->depth = sft__base_load_le16(head + 12);
    if (t->type != type || t->record == 0 || t->depth > DEPTH_MAX ||
        t->node_size > h->job->options.memory_bytes / 8) {
        return sft__import_h5_bad(h, addr, err, "a B-tree of another kind, or too deep");
    }
    SFT_TRY(tree_levels(t, addr, err));
    sft__import_h5_in in = {head + 16, n - 16, false};
    const uint64_t root = sft__import_h5_take_addr(h, &in);
    const uint64_t records = sft__import_h5_take(&in, 2);
    h->todo_count = 0;
    return root == SFT__H5_UNDEF || records == 0
               ? SFT_OK
               : sft__import_h5_push(h, root, records, t->depth, err);
}

/* One node: its records to each(), its children onto the stack. */
static sft_status tree_node(tree *t, const sft__import_h5_node *n, sft__import_h5_each each,
                            void *ctx, sft_error *err) {
    sft__import_h5 *h = t->h;
    const uint32_t level = n->level;
    const uint32_t totals = level > 1 ? t->total_width[level - 1] : 0;
    const uint64_t pointer = level == 0 ? 0 : h->offset_size + t->count_width + totals;

    if (n->records > t->most[level]) {
        return sft__import_h5_bad(h, n->addr, err, "a node of a B-tree with more records than fit");
    }
    const uint64_t records = n->records * t->record;
    const uint64_t size = 6 + records + (level == 0 ? 0 : (n->records + 1) * pointer) + 4;
    SFT_TRY(sft__import_h5_block(h, &h->node, n->addr, size, "a node of a B-tree", err));
    SFT_TRY(sft__import_h5_sum(h, h->node.data, (size_t)size, n->addr, "a node of a B-tree", err));
    if (memcmp(h->node.data, level == 0 ? "BTLF" : "BTIN", 4) != 0 || h->node.data[5] != t->type) {
        return sft__import_h5_bad(h, n->addr, err, "a node of a B-tree without its signature");
    }
    for (uint64_t i = 0; i < n->records; i++) {
        SFT_TRY(each(ctx, h->node.data + 6 + i * t->record, t->record, err));
    }
    sft__import_h5_in in = {h->node.data + 6 + records, (size_t)(size - 10 - records), false};
    for (uint64_t i = 0; level > 0 && i <= n->records; i++) {
        const uint64_t child = sft__import_h5_take_addr(h, &in);
        const uint64_t count = sft__import_h5_take(&in, t->count_width);
        (void)sft__import_h5_skip(&in, totals);
        SFT_TRY(sft__import_h5_push(h, child, count, level - 1, err));
    }
    return SFT_OK;
}

sft_status sft__import_h5_tree2(sft__import_h5 *h, uint64_t addr, uint32_t type,
                                sft__import_h5_each each, void *ctx, sft_error *err) {
    tree t;

    memset(&t, 0, sizeof t);
    t.h = h;
    SFT_TRY(tree_open(&t, addr, type, err));
    while (h->todo_count > 0) {
        const sft__import_h5_node n = h->todo[--h->todo_count];
        SFT_TRY(tree_node(&t, &n, each, ctx, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- fractal heaps */

typedef struct heap_id {
    uint64_t offset; /* of a managed object */
    uint64_t len;
    uint64_t addr;    /* of one that is kept by itself; UNDEF: none is */
    uint8_t tiny[16]; /* or the object itself: offset UNDEF */
} heap_id;

/* An object too large for the blocks of a heap. */
typedef struct huge {
    uint64_t key;
    uint64_t addr;
    uint64_t len;
} huge;

typedef struct heap {
    sft__import_h5 *h;
    uint64_t addr;
    uint64_t huge_tree; /* of those that are found by a key; UNDEF: none */
    huge *huges;
    size_t huge_count;
    size_t huge_room;
    size_t keyed; /* ids that are keys of it */
    uint32_t id_len;
    uint32_t offset_width; /* of an offset in an id, and of a block's */
    uint32_t len_width;
    bool summed;     /* direct blocks have a checksum */
    uint64_t width;  /* blocks in a row */
    uint64_t start;  /* bytes of a block in the first row */
    uint64_t direct; /* of the largest block that is direct */
    uint32_t rows;   /* of the root; 0: it is a direct block */
    uint64_t root;
    uint64_t block_at; /* of the block in h->heap; UNDEF: none */
    uint64_t block_size;
    size_t skip; /* bytes of an id's record before it */
    heap_id *ids;
    size_t count;
    size_t room;
} heap;

static uint32_t log2_of(uint64_t v) {
    uint32_t n = 0;
    while (v > 1) {
        v >>= 1;
        n++;
    }
    return n;
}

static bool is_power(uint64_t v) {
    return v != 0 && (v & (v - 1)) == 0;
}

static sft_status heap_open(heap *p, sft_error *err) {
    sft__import_h5 *h = p->h;
    const size_t o = h->offset_size;
    const size_t l = h->length_size;
    const size_t n = 26 + 12 * l + 3 * o;
    uint8_t head[160];

    SFT_TRY(sft__import_h5_read(h, p->addr, head, n, "a fractal heap", err));
    if (memcmp(head, "FRHP", 4) != 0 || head[4] != 0) {
        return sft__import_h5_bad(h, p->addr, err, "a fractal heap without its signature");
    }
    if (sft__base_load_le16(head + 7) != 0) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, h->base + p->addr,
                                 "hdf5: a heap of links or attributes with filters");
    }
    SFT_TRY(sft__import_h5_sum(h, head, n, p->addr, "a fractal heap", err));
    p->id_len = sft__base_load_le16(head + 5);
    p->summed = (head[9] & 2) != 0;
    const uint64_t largest = sft__base_load_le32(head + 10);
    sft__import_h5_in large = {head + 14 + l, o, false};
    p->huge_tree = sft__import_h5_take_addr(h, &large);
    sft__import_h5_in in = {head + 14 + 10 * l + 2 * o, 12 + 2 * l + o, false};
    p->width = sft__import_h5_take(&in, 2);
    p->start = sft__import_h5_take(&in, l);
    p->direct = sft__import_h5_take(&in, l);
    const uint64_t bits = sft__import_h5_take(&in, 2);
    (void)sft__import_h5_take(&in, 2);
    p->root = sft__import_h5_take_addr(h, &in);
    p->rows = (uint32_t)sft__import_h5_take(&in, 2);
    if (!is_power(p->width) || !is_power(p->start) || !is_power(p->direct) ||
        p->direct < p->start || p->direct > h->job->options.memory_bytes / 8 || bits == 0 ||
        bits > 64 || p->rows > 64 || p->width > 1u << 15 || p->id_len > ID_MAX) {
        return sft__import_h5_bad(h, p->addr, err, "a fractal heap with impossible numbers");
    }
    p->offset_width = (uint32_t)((bits + 7) / 8);
    const uint32_t a = (log2_of(p->direct) + 7) / 8;
    const uint32_t b = log2_of(largest) / 8 + 1;
    p->len_width = a < b ? a : b;
    p->block_at = SFT__H5_UNDEF;
    return p->len_width != 0 && 1 + p->offset_width + p->len_width <= p->id_len
               ? SFT_OK
               : sft__import_h5_bad(h, p->addr, err, "a fractal heap whose ids are too short");
}

static sft_status nowhere(const heap *p, sft_error *err) {
    return sft__import_h5_bad(p->h, p->addr, err, "a large object that its heap does not have");
}

/* Where it lies, if there is room for that in an id; else a key of the heap's tree. */
static sft_status take_huge(heap *p, const uint8_t *record, heap_id *id, sft_error *err) {
    const uint32_t o = p->h->offset_size;
    const uint32_t l = p->h->length_size;

    if (o + l <= p->id_len - 1) {
        id->addr = sft__import_h5_uint(record + 1, o);
        id->len = sft__import_h5_uint(record + 1 + o, l);
        return id->addr != SFT__H5_UNDEF && id->addr != 0 ? SFT_OK : nowhere(p, err);
    }
    id->len = sft__import_h5_uint(record + 1, p->id_len - 1 < 8 ? p->id_len - 1 : 8);
    id->addr = 0; /* until its key is looked up */
    p->keyed++;
    return SFT_OK;
}

/* Address, length, key. */
static sft_status each_huge(void *ctx, const uint8_t *record, size_t size, sft_error *err) {
    heap *p = ctx;
    sft__import_h5_in in = {record, size, false};
    huge it;

    it.addr = sft__import_h5_take_addr(p->h, &in);
    it.len = sft__import_h5_take(&in, p->h->length_size);
    it.key = sft__import_h5_take(&in, p->h->length_size);
    if (in.bad) {
        return sft__import_h5_bad(p->h, p->huge_tree, err, "a large object's record cut short");
    }
    SFT_TRY(
        sft__import_h5_grow(p->h, &p->huges, &p->huge_room, p->huge_count, sizeof *p->huges, err));
    p->huges[p->huge_count++] = it;
    return SFT_OK;
}

static int by_key(const void *a, const void *b) {
    const huge *x = a;
    const huge *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* The keys of large objects become their places. */
static sft_status find_huge(heap *p, sft_error *err) {
    if (p->keyed == 0) {
        return SFT_OK;
    }
    if (p->huge_tree != SFT__H5_UNDEF) {
        SFT_TRY(sft__import_h5_tree2(p->h, p->huge_tree, 1, each_huge, p, err));
    }
    if (p->huge_count > 1) {
        qsort(p->huges, p->huge_count, sizeof *p->huges, by_key);
    }
    for (size_t i = 0; i < p->count; i++) {
        heap_id *id = &p->ids[i];
        if (id->addr != 0) {
            continue;
        }
        const huge want = {.key = id->len};
        const huge *it = p->huge_count != 0
                             ? bsearch(&want, p->huges, p->huge_count, sizeof want, by_key)
                             : NULL;
        if (it == NULL || it->addr == SFT__H5_UNDEF || it->addr == 0) {
            return nowhere(p, err);
        }
        id->addr = it->addr;
        id->len = it->len;
    }
    return SFT_OK;
}

/* As much of a large object as anything here looks at. */
static sft_status fetch_huge(heap *p, const heap_id *id, sft__import_h5_each each, void *ctx,
                             sft_error *err) {
    sft__import_h5 *h = p->h;
    const size_t n = id->len < HUGE_MOST ? (size_t)id->len : HUGE_MOST;

    SFT_TRY(sft__import_h5_block(h, &h->heap, id->addr, n, "a large object of a heap", err));
    p->block_at = SFT__H5_UNDEF; /* its memory is used */
    return each(ctx, h->heap.data, n, err);
}

static sft_status each_id(void *ctx, const uint8_t *record, size_t size, sft_error *err) {
    heap *p = ctx;
    heap_id id = {SFT__H5_UNDEF, 0, SFT__H5_UNDEF, {0}};

    if (size < p->skip + p->id_len) {
        return sft__import_h5_bad(p->h, p->addr, err,
                                  "records too short for the ids of their heap");
    }
    record += p->skip;
    const unsigned kind = record[0] >> 4;
    if (kind == 2 && p->id_len <= 17) {
        id.len = (record[0] & 15u) + 1;
        if (id.len > p->id_len - 1) {
            return sft__import_h5_bad(p->h, p->addr, err, "a tiny object longer than its id");
        }
        memcpy(id.tiny, record + 1, (size_t)id.len);
    } else if (kind == 0) {
        id.offset = sft__import_h5_uint(record + 1, p->offset_width);
        id.len = sft__import_h5_uint(record + 1 + p->offset_width, p->len_width);
    } else if (kind == 1) {
        SFT_TRY(take_huge(p, record, &id, err));
    } else {
        return sft__import_h5_bad(p->h, p->addr, err, "an object of a heap of an unknown kind");
    }
    SFT_TRY(sft__import_h5_grow(p->h, &p->ids, &p->room, p->count, sizeof *p->ids, err));
    p->ids[p->count++] = id;
    return SFT_OK;
}

/* A block of a heap. rows: of an indirect one; 0: it is direct. */
typedef struct heap_block {
    uint64_t addr;
    uint64_t from; /* the heap offset of its first byte */
    uint64_t size;
    uint32_t rows;
} heap_block;

/* From an indirect block to its child at this heap offset. */
static sft_status indirect(heap *p, uint64_t offset, heap_block *b, sft_error *err) {
    sft__import_h5 *h = p->h;
    const uint64_t first = p->width * p->start; /* 2^15 and a part of the memory limit at most */
    const uint64_t rel = offset - b->from;
    const uint32_t row = rel < first ? 0 : log2_of(rel / first) + 1;
    const uint64_t direct_rows = log2_of(p->direct) - log2_of(p->start) + 2u;
    const size_t head = 5 + (size_t)h->offset_size + p->offset_width;

    if (row >= b->rows) {
        return sft__import_h5_bad(h, b->addr, err, "an object beyond the blocks of its heap");
    }
    const uint64_t block = row == 0 ? p->start : p->start << (row - 1);
    const uint64_t row_from = row == 0 ? 0 : first << (row - 1);
    const uint64_t column = (rel - row_from) / block;
    const uint64_t n = head + b->rows * p->width * h->offset_size + 4;
    SFT_TRY(sft__import_h5_block(h, &h->heap, b->addr, n, "a block of a heap", err));
    p->block_at = SFT__H5_UNDEF;
    SFT_TRY(sft__import_h5_sum(h, h->heap.data, (size_t)n, b->addr, "a block of a heap", err));
    if (memcmp(h->heap.data, "FHIB", 4) != 0 ||
        sft__import_h5_uint(h->heap.data + 5 + h->offset_size, p->offset_width) != b->from) {
        return sft__import_h5_bad(h, b->addr, err,
                                  "a block of a heap that is not the one it should be");
    }
    sft__import_h5_in in = {h->heap.data + head + (row * p->width + column) * h->offset_size,
                            h->offset_size, false};
    b->addr = sft__import_h5_take_addr(h, &in);
    b->from += row_from + column * block;
    b->size = block;
    b->rows = 0;
    if (row >= direct_rows) {
        if (block <= first) {
            return sft__import_h5_bad(h, b->addr, err, "a block of a heap without rows");
        }
        b->rows = log2_of(block) - log2_of(first) + 1;
    }
    return SFT_OK;
}

/* The direct block that holds a heap offset, into h->heap. */
static sft_status load_block(heap *p, uint64_t offset, sft_error *err) {
    sft__import_h5 *h = p->h;
    heap_block b = {p->root, 0, p->start, p->rows};

    if (p->block_at != SFT__H5_UNDEF && offset >= p->block_at &&
        offset - p->block_at < p->block_size) {
        return SFT_OK;
    }
    while (b.rows != 0) { /* a child has fewer rows: its block is smaller than its parent */
        const uint32_t before = b.rows;
        SFT_TRY(indirect(p, offset, &b, err));
        if (b.rows >= before) {
            return sft__import_h5_bad(h, b.addr, err,
                                      "a block of a heap as large as the one it is in");
        }
    }
    p->block_at = SFT__H5_UNDEF;
    if (offset - b.from >= b.size) {
        return sft__import_h5_bad(h, b.addr, err, "an object beyond the blocks of its heap");
    }
    const size_t head = 5 + (size_t)h->offset_size + p->offset_width;
    SFT_TRY(sft__import_h5_block(h, &h->heap, b.addr, b.size, "a block of a heap", err));
    uint8_t *bytes = h->heap.data;
    if (b.size < head + 4 || memcmp(bytes, "FHDB", 4) != 0 ||
        sft__import_h5_uint(bytes + 5 + h->offset_size, p->offset_width) != b.from) {
        return sft__import_h5_bad(h, b.addr, err,
                                  "a block of a heap that is not the one it should be");
    }
    if (p->summed) { /* its checksum stands in the head and counts as zeros: move it to the end */
        SFT_TRY(sft__import_h5_room(h, &h->heap, (size_t)b.size + 4, err));
        bytes = h->heap.data;
        memcpy(bytes + b.size, bytes + head, 4);
        memset(bytes + head, 0, 4);
        SFT_TRY(sft__import_h5_sum(h, bytes, (size_t)b.size + 4, b.addr, "a block of a heap", err));
    }
    p->block_at = b.from;
    p->block_size = b.size;
    return SFT_OK;
}

static int by_offset(const void *a, const void *b) {
    const heap_id *x = a;
    const heap_id *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static sft_status fetch_all(heap *p, sft__import_h5_each each, void *ctx, sft_error *err) {
    uint64_t reach = 0;

    if (p->count > 1) {
        qsort(p->ids, p->count, sizeof *p->ids, by_offset);
    }
    for (size_t i = 0; i < p->count; i++) {
        const heap_id *id = &p->ids[i];
        if (id->addr != SFT__H5_UNDEF) {
            SFT_TRY(fetch_huge(p, id, each, ctx, err));
            continue;
        }
        if (id->offset == SFT__H5_UNDEF) {
            SFT_TRY(each(ctx, id->tiny, (size_t)id->len, err));
            continue;
        }
        if (id->offset < reach) {
            return sft__import_h5_bad(p->h, p->addr, err, "objects of a heap that share bytes");
        }
        reach = id->offset + id->len; /* at most 2^32 more: a width of 4 bytes */
        SFT_TRY(load_block(p, id->offset, err));
        const uint64_t at = id->offset - p->block_at;
        if (id->len > p->block_size - at) {
            return sft__import_h5_bad(p->h, p->addr, err, "an object beyond the end of its block");
        }
        SFT_TRY(each(ctx, p->h->heap.data + at, (size_t)id->len, err));
    }
    return SFT_OK;
}

sft_status sft__import_h5_dense(sft__import_h5 *h, sft__import_h5_named named,
                                sft__import_h5_each each, void *ctx, sft_error *err) {
    heap p;

    memset(&p, 0, sizeof p);
    p.h = h;
    p.addr = named.heap;
    p.skip = named.skip;
    sft_status status = heap_open(&p, err);
    SFT_THEN(status, sft__import_h5_tree2(h, named.tree, named.type, each_id, &p, err));
    SFT_THEN(status, find_huge(&p, err));
    SFT_THEN(status, fetch_all(&p, each, ctx, err));
    sft__base_free(h->job->allocator, p.ids, p.room * sizeof *p.ids);
    sft__base_free(h->job->allocator, p.huges, p.huge_room * sizeof *p.huges);
    return status;
}
