/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_tar.c - PyTorch 0.1.x: a tar of four files. storages and tensors are streams of
 * small pickles with raw numbers between; the object's persistent ids are keys of tensors. Nothing
 * is unpacked. Source: torch/serialization.py (legacy_load), POSIX ustar. Read first: torch.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/torch/torch.h"

enum { BLOCK = 512, MEMBERS = 4, VIEWS_DEEP = 16 };

enum { SYS_INFO, PICKLE, TENSORS, STORAGES };
static const char *const member_names[MEMBERS] = {"sys_info", "pickle", "tensors", "storages"};

typedef struct stretch {
    uint64_t at;
    uint64_t end;
    bool found;
} stretch;

/* A tensor of the stream `tensors`. */
typedef struct tar_tensor {
    const char *key; /* key, len first for the table */
    size_t key_len;
    const char *storage;
    uint64_t place; /* where size, stride and offset stand */
    uint64_t rank;
    const sft_dtype *dtype;
    bool named; /* the object has it */
} tar_tensor;

typedef struct tar {
    sft__import_torch t;
    sft__import_pickle p;
    stretch members[MEMBERS];
    tar_tensor *tensors;
    size_t tensor_count;
    size_t tensor_room;
    sft__base_strmap tensor_keys;
} tar;

static bool probe(const sft__import_probe *p) {
    return p->head_len >= BLOCK && memcmp(p->head + 257, "ustar", 5) == 0;
}

static sft_status bad(sft_error *err, uint64_t at, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "tar: %s", text);
}

/* ---------------------------------------------------------------- the archive */

/* Octal digits, or base 256 where the first bit is set. */
static bool tar_number(const uint8_t *field, size_t len, uint64_t *value) {
    *value = 0;
    if ((field[0] & 0x80) != 0) {
        for (size_t i = 0; i < len; i++) {
            const uint8_t byte = i == 0 ? field[0] & 0x7f : field[i];
            if (*value >> 56 != 0) {
                return false;
            }
            *value = *value << 8 | byte;
        }
        return *value <= INT64_MAX;
    }
    size_t i = 0;
    while (i < len && field[i] == ' ') {
        i++;
    }
    const size_t first = i;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        if (*value >> 60 != 0) {
            return false;
        }
        *value = *value << 3 | (uint64_t)(field[i] - '0');
    }
    return i > first && (i == len || field[i] == '\0' || field[i] == ' ');
}

static bool checksum_fits(const uint8_t *h) {
    uint64_t said;
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        sum += i >= 148 && i < 156 ? ' ' : h[i];
    }
    return tar_number(h + 148, 8, &said) && said == sum;
}

/* Does a record of a pax header change what the next header says of itself? */
static bool pax_overrides(const char *key, size_t len) {
    static const char *const keys[] = {"path", "size", "linkpath", "hdrcharset"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (len == strlen(keys[i]) && memcmp(key, keys[i], len) == 0) {
            return true;
        }
    }
    return len >= 4 && memcmp(key, "GNU.", 4) == 0;
}

/* Records "LENGTH KEY=VALUE\n" (POSIX 1003.1, pax). Times and owners are nothing to us; names and
 * sizes that are not those of the header would show one archive to tar's readers and another to us.
 */
static sft_status take_pax(tar *a, uint64_t at, uint64_t size, sft_error *err) {
    char text[8192];
    const size_t n = size < sizeof text ? (size_t)size : sizeof text;
    bool fits = size <= sizeof text;

    if (n != 0) {
        SFT_TRY(sft_source_read(a->t.job->file, at + BLOCK, text, n, err));
    }
    for (size_t i = 0; i < n && fits;) {
        size_t len = 0;
        size_t k = i;
        for (; k < n && text[k] >= '0' && text[k] <= '9' && len < sizeof text; k++) {
            len = 10 * len + (size_t)(text[k] - '0');
        }
        const size_t end = len > k - i && len <= n - i ? i + len : 0;
        const char *equals = end != 0 && text[k] == ' ' ? memchr(text + k, '=', end - k) : NULL;
        fits = equals != NULL && text[end - 1] == '\n' &&
               !pax_overrides(text + k + 1, (size_t)(equals - text) - k - 1);
        i = end;
    }
    return fits ? SFT_OK
                : sft__import_trick(a->t.job, SFT__RULE(CONTAINER, DANGEROUS, "torch-pax"),
                                    SFT__AT("", 0, at), err,
                                    "a pax header that changes what the next header says, or is "
                                    "damaged");
}

static sft_status take_member(tar *a, const uint8_t *h, uint64_t at, uint64_t size,
                              sft_error *err) {
    char name[101];

    memcpy(name, h, 100);
    name[100] = '\0';
    if (h[156] == 'x' || h[156] == 'g') {
        return take_pax(a, at, size, err);
    }
    if (h[156] == '5') {
        return SFT_OK; /* the directory itself */
    }
    if (h[156] != '0' && h[156] != '\0') {
        return bad(err, at, "a member that is no regular file (a link?)");
    }
    const char *base = strncmp(name, "./", 2) == 0 ? name + 2 : name;
    for (size_t i = 0; i < MEMBERS; i++) {
        if (strcmp(base, member_names[i]) == 0) {
            if (a->members[i].found) {
                return bad(err, at, "a member comes twice");
            }
            a->members[i] = (stretch){at + BLOCK, at + BLOCK + size, true};
            return SFT_OK;
        }
    }
    return bad(err, at, "a member that PyTorch never wrote: this is another tar archive");
}

static sft_status read_members(tar *a, sft_error *err) {
    const sft_source *file = a->t.job->file;
    const uint64_t all = sft_source_size(file);
    uint64_t at = 0;

    for (int i = 0; i < 64 && all - at >= BLOCK; i++) {
        uint8_t h[BLOCK];
        uint64_t size;
        uint64_t next;
        SFT_TRY(sft_source_read(file, at, h, BLOCK, err));
        if (h[0] == '\0') {
            break; /* the end: blocks of zeros */
        }
        if (!checksum_fits(h) || !tar_number(h + 124, 12, &size)) {
            return bad(err, at, "a damaged header");
        }
        if (!sft__base_align64(size, BLOCK, &next) || size > all - at - BLOCK ||
            next > all - at - BLOCK + BLOCK - 1) {
            return bad(err, at, "a member reaches past the end of the file");
        }
        SFT_TRY(take_member(a, h, at, size, err));
        next = next > all - at - BLOCK ? all - at - BLOCK : next;
        at += BLOCK + next;
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        if (!a->members[i].found) {
            return sft__base_fail_at(err, SFT_E_FORMAT, at,
                                     "this is a tar archive, but no PyTorch file (it "
                                     "has no %s)",
                                     member_names[i]);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- streams of pickles and numbers
 */

static sft_status next_pickle(tar *a, stretch *s, uint32_t *root, sft_error *err) {
    SFT_TRY(sft__import_pickle_run(&a->p, s->at, s->end, err));
    s->at = a->p.end;
    *root = a->p.root;
    return SFT_OK;
}

static sft_status next_bytes(tar *a, stretch *s, void *dst, size_t n, sft_error *err) {
    if (s->end - s->at < n) {
        return bad(err, s->at, "a member ends early");
    }
    SFT_TRY(sft_source_read(a->t.job->file, s->at, dst, n, err));
    s->at += n;
    return SFT_OK;
}

static sft_status next_count(tar *a, stretch *s, uint64_t *n, sft_error *err) {
    uint32_t root;
    SFT_TRY(next_pickle(a, s, &root, err));
    if (!sft__import_pk_uint(&a->p, root, n) || *n > (s->end - s->at) / 8 + 1) {
        return bad(err, s->at, "a count that the member cannot hold");
    }
    return SFT_OK;
}

/* Keys are integers, or texts: as text in both cases. */
static sft_status key_text(tar *a, uint32_t id, const char **text, size_t *len, sft_error *err) {
    const sft__import_pk_node *n = sft__import_pk_at(&a->p, id);
    char digits[24];
    char *copy;

    if (n->type == SFT__PK_STR && n->count > SFT__TORCH_KEY_MAX) {
        return bad(err, a->p.end, "a key of more than 512 bytes");
    }
    if (n->type == SFT__PK_STR) {
        *text = n->u.text;
        *len = n->count;
        return SFT_OK;
    }
    uint64_t v;
    if (!sft__import_pk_uint(&a->p, id, &v)) {
        return bad(err, a->p.end, "a key that is no integer");
    }
    *len = 0;
    do {
        digits[sizeof digits - 1 - (*len)++] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    SFT_TRY(sft__import_copy(a->t.job, &copy, digits + sizeof digits - *len, *len, err));
    *text = copy;
    return SFT_OK;
}

static sft_status add_storage(tar *a, const sft__import_storage *like, sft_error *err) {
    sft__import_torch *t = &a->t;

    if (t->keys.slots != NULL &&
        sft__base_strmap_find(&t->keys, like->key, like->key_len) != SFT__STRMAP_NONE) {
        return bad(err, like->offset, "a storage comes twice");
    }
    SFT_TRY(sft__import_torch_more(t, err));
    t->storages[t->storage_count] = *like;
    (void)sft__base_strmap_add(&t->keys, t->storage_count);
    t->storage_count++;
    return SFT_OK;
}

/* (key, location, class), int64 elements, bytes; then a list of views (key, root, offset,
 * elements). */
static sft_status read_storages(tar *a, sft_error *err) {
    stretch s = a->members[STORAGES];
    uint64_t count;
    uint32_t root;

    SFT_TRY(next_count(a, &s, &count, err));
    for (uint64_t i = 0; i < count; i++) {
        uint8_t head[8];
        sft__import_storage made = {.data = a->t.job->file, .placed = true};
        SFT_TRY(next_pickle(a, &s, &root, err));
        const sft__import_pk_node *class =
            sft__import_pk_at(&a->p, sft__import_pk_item(&a->p, root, 2));
        SFT_TRY(key_text(a, sft__import_pk_item(&a->p, root, 0), &made.key, &made.key_len, err));
        if (class->type != SFT__PK_GLOBAL || class->known != SFT__G_STORAGE ||
            class->argument == 0) {
            return bad(err, s.at, "a storage without a known class");
        }
        made.dtype = sft__import_dtype(class->argument);
        SFT_TRY(next_bytes(a, &s, head, 8, err));
        made.elements = sft__base_load_le64(head);
        made.offset = s.at;
        if (!sft__base_mul64(made.elements, made.dtype->block_bytes, &made.bytes) ||
            made.bytes > s.end - s.at) {
            return bad(err, s.at, "a storage reaches past its member");
        }
        s.at += made.bytes;
        a->t.storage_bytes += made.bytes;
        SFT_TRY(add_storage(a, &made, err));
    }
    SFT_TRY(next_pickle(a, &s, &root, err));
    uint32_t id;
    if (sft__import_pk_at(&a->p, root)->type != SFT__PK_LIST) {
        return bad(err, s.at, "no list of storage views");
    }
    for (sft__import_pk_iter it = sft__import_pk_begin(sft__import_pk_at(&a->p, root));
         sft__import_pk_next(&it, &id);) {
        const char *of;
        size_t of_len;
        uint64_t offset;
        uint64_t elements;
        sft__import_storage made;
        const char *key;
        size_t key_len;
        SFT_TRY(key_text(a, sft__import_pk_item(&a->p, id, 0), &key, &key_len, err));
        SFT_TRY(key_text(a, sft__import_pk_item(&a->p, id, 1), &of, &of_len, err));
        const size_t k = a->t.keys.slots != NULL ? sft__base_strmap_find(&a->t.keys, of, of_len)
                                                 : SFT__STRMAP_NONE;
        if (k == SFT__STRMAP_NONE ||
            !sft__import_pk_uint(&a->p, sft__import_pk_item(&a->p, id, 2), &offset) ||
            !sft__import_pk_uint(&a->p, sft__import_pk_item(&a->p, id, 3), &elements) ||
            offset > a->t.storages[k].elements || elements > a->t.storages[k].elements - offset) {
            return bad(err, s.at, "a view of a storage that is not there, or leaves it");
        }
        made = a->t.storages[k];
        made.key = key;
        made.key_len = key_len;
        made.offset += offset * made.dtype->block_bytes;
        made.elements = elements;
        made.bytes = elements * made.dtype->block_bytes;
        SFT_TRY(add_storage(a, &made, err));
    }
    return s.at == s.end ? SFT_OK : bad(err, s.at, "bytes follow the storages");
}

/* (key, storage, class), int32 dimensions, 4 zero bytes, int64 sizes, strides, offset. */
static sft_status read_tensors(tar *a, sft_error *err) {
    stretch s = a->members[TENSORS];
    const sft_allocator *allocator = a->t.job->allocator;
    uint64_t count;

    SFT_TRY(next_count(a, &s, &count, err));
    for (uint64_t i = 0; i < count; i++) {
        tar_tensor made;
        uint8_t head[8];
        uint32_t root;
        size_t len;
        memset(&made, 0, sizeof made);
        SFT_TRY(next_pickle(a, &s, &root, err));
        SFT_TRY(key_text(a, sft__import_pk_item(&a->p, root, 0), &made.key, &made.key_len, err));
        SFT_TRY(key_text(a, sft__import_pk_item(&a->p, root, 1), &made.storage, &len, err));
        const sft__import_pk_node *class =
            sft__import_pk_at(&a->p, sft__import_pk_item(&a->p, root, 2));
        if (class->type != SFT__PK_GLOBAL || class->known != SFT__G_TENSOR_CLASS ||
            class->argument == 0) {
            return bad(err, s.at, "a tensor without a known class");
        }
        made.dtype = sft__import_dtype(class->argument);
        SFT_TRY(next_bytes(a, &s, head, 8, err));
        made.rank = sft__base_load_le32(head);
        made.place = s.at;
        if (made.rank > SFT__TORCH_RANK_MAX || sft__base_load_le32(head + 4) != 0 ||
            s.end - s.at < made.rank * 16 + 8) {
            return bad(err, s.at, "a tensor of too many dimensions, or a damaged one");
        }
        s.at += made.rank * 16 + 8;
        SFT_TRY(SFT_ONE_MORE(allocator, a->tensors, a->tensor_room, a->tensor_count, err));
        a->tensors[a->tensor_count++] = made;
    }
    if (s.at != s.end) {
        return bad(err, s.at, "bytes follow the tensors");
    }
    SFT_NEED(sft__base_strmap_init(&a->tensor_keys, a->tensors, sizeof *a->tensors, a->tensor_count,
                                   allocator),
             a->tensor_count * 16, err);
    for (size_t i = 0; i < a->tensor_count; i++) {
        if (sft__base_strmap_add(&a->tensor_keys, i) != SFT__STRMAP_NONE) {
            return bad(err, a->tensors[i].place, "a tensor comes twice");
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- tensors of the object */

static sft_status tensor_of(sft__import_torch *t, const sft__import_pk_node *pid,
                            sft__import_view *v, sft_error *err) {
    tar *a = t->ctx;
    const char *key;
    size_t len;
    uint8_t numbers[(2 * SFT__TORCH_RANK_MAX + 1) * 8];
    uint64_t strides[SFT__TORCH_RANK_MAX + 1];

    if (sft__import_pk_at(&a->p, pid->persistent_id)->type == SFT__PK_TUPLE) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "tar: source code of a module; it is never read");
    }
    SFT_TRY(key_text(a, pid->persistent_id, &key, &len, err));
    const size_t i = sft__base_strmap_find(&a->tensor_keys, key, len);
    if (i == SFT__STRMAP_NONE) {
        return bad(err, SFT_NO_OFFSET, "the object refers to a tensor that is not there");
    }
    const tar_tensor *x = &a->tensors[i];
    a->tensors[i].named = true;
    const size_t k = t->keys.slots != NULL
                         ? sft__base_strmap_find(&t->keys, x->storage, strlen(x->storage))
                         : SFT__STRMAP_NONE;
    if (k == SFT__STRMAP_NONE || t->storages[k].dtype != x->dtype) {
        return bad(err, x->place, "a tensor over a storage that is not there, or of another type");
    }
    const sft__import_storage *s = &t->storages[k];
    const uint32_t rank = (uint32_t)x->rank;
    SFT_TRY(sft_source_read(t->job->file, x->place, numbers, (2 * rank + 1) * 8, err));
    SFT_TRY(sft__import_alloc(t->job, &v->shape, rank, sizeof *v->shape, err));
    SFT_TRY(sft__import_alloc(t->job, &v->strides, rank, sizeof *v->strides, err));
    for (uint32_t d = 0; d < rank; d++) {
        v->shape[d] = sft__base_load_le64(numbers + 8 * d);
        strides[d] = sft__base_load_le64(numbers + 8 * (rank + d));
    }
    v->rank = rank;
    v->dtype = x->dtype;
    v->data = s->data;
    v->low = s->offset;
    v->high = s->offset + s->bytes;
    return sft__import_torch_view(v, sft__base_load_le64(numbers + 16 * rank), strides, err);
}

/* Storages are those of the archive: a persistent id of the object is a tensor. */
static sft_status no_storage(sft__import_torch *t, sft__import_storage *s, sft_error *err) {
    (void)t;
    return sft__base_fail(err, SFT_E_SCHEMA,
                          "tar: the object describes a storage \"%.64s\" of its own", s->key);
}

static sft_status read_all(tar *a, sft_error *err) {
    stretch s;
    uint32_t root;

    SFT_TRY(read_members(a, err));
    SFT_TRY(sft__import_pickle_init(&a->p, a->t.job, a->t.job->file, 0, "", err));
    s = a->members[SYS_INFO];
    SFT_TRY(next_pickle(a, &s, &root, err));
    SFT_TRY(read_storages(a, err));
    SFT_TRY(read_tensors(a, err));
    s = a->members[PICKLE];
    SFT_TRY(next_pickle(a, &s, &root, err));
    if (s.at != s.end) {
        SFT_TRY(sft__import_trick(a->t.job, SFT__RULE(PICKLE, DANGEROUS, "pickle-trailing"),
                                  sft__import_text_at("pickle", s.at), err,
                                  "bytes follow the end of the pickle"));
    }
    a->p.root = root;
    SFT_TRY(sft__import_torch_tree(&a->t, err));
    const char *part = a->t.job->options.key;
    for (size_t i = 0; i < a->tensor_count && (part == NULL || strcmp(part, ".") == 0); i++) {
        if (!a->tensors[i].named && !a->t.job->scanning) {
            sft__import_left(a->t.job, a->tensors[i].key, a->tensors[i].key_len, 1,
                             "a tensor of the archive that the object does not have");
        }
    }
    return SFT_OK;
}

static sft_status open_tar(sft__import *job, sft_error *err) {
    tar a;

    memset(&a, 0, sizeof a);
    a.p.job = job;
    a.t.job = job;
    a.t.p = &a.p;
    a.t.place = no_storage;
    a.t.tensor = tensor_of;
    a.t.ctx = &a;
    const sft_status status = read_all(&a, err);
    if (a.tensor_keys.slots != NULL) {
        sft__base_strmap_reset(&a.tensor_keys);
    }
    sft__base_free(job->allocator, a.tensors, a.tensor_room * sizeof *a.tensors);
    sft__import_torch_reset(&a.t);
    sft__import_pickle_reset(&a.p);
    return status;
}

const sft__import_reader sft__import_reader_torch_tar = {SFT_IMPORT_TORCH_TAR, probe, open_tar};
