/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_legacy.c - PyTorch's stream before 1.6: five pickles (magic, protocol, system, the
 * object, the keys of the storages), then the storages raw, in the order of the keys: int64 number
 * of elements, elements. Also a pickle alone. Source: torch/serialization.py (_legacy_save,
 * _legacy_load). Read first: torch.h.
 */
#include "base/checked.h"
#include "import/torch/torch.h"

enum { MAGIC_BYTES = 15, PICKLES_MAX = 64 };

static const uint8_t magic[MAGIC_BYTES] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                           0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/* Protocol 1 has it as text. (Protocol 0 cannot name a storage.) */
static const char magic_text[] = "L119547037146038801333356L\n.";

static bool is_text(const sft__import_probe *p) {
    return p->head_len >= sizeof magic_text + 8 &&
           memcmp(p->head, magic_text, sizeof magic_text - 1) == 0;
}

/* Protocols 4 and 5 put a frame around the number. */
static bool probe_legacy(const sft__import_probe *p) {
    const uint8_t *h = p->head;
    const size_t at = h[2] == 0x95 ? 11 : 2;

    return is_text(p) || (p->head_len >= MAGIC_BYTES + 9 && h[0] == 0x80 && h[1] >= 2 &&
                          h[1] <= 5 && memcmp(h + at, magic + 2, MAGIC_BYTES - 3) == 0);
}

/* ---------------------------------------------------------------- the storages behind the pickles
 */

typedef struct legacy {
    sft__import_torch t;
    sft__import_pickle p;
    uint64_t at; /* where the storages begin */
} legacy;

/* A storage is placed when the list of keys is walked; all that is asked for later is there. */
static sft_status place(sft__import_torch *t, sft__import_storage *s, sft_error *err) {
    (void)t;
    (void)err;
    s->data = t->p->source;
    s->source = 0;
    return SFT_OK;
}

/* A view of another storage: (view_key, offset, elements) behind the five. Its tensors are laid
 * over the root's bytes. */
static sft_status check_view(sft__import_pickle *p, const sft__import_pk_node *pid,
                             sft_error *err) {
    const uint32_t view = sft__import_pk_item(p, pid->persistent_id, 5);
    if (sft__import_pk_at(p, view)->type == SFT__PK_NONE) {
        return SFT_OK;
    }
    return sft__import_pk_at(p, view)->count == 3
               ? SFT_OK
               : sft__base_fail(err, SFT_E_SCHEMA, "torch-storage: a damaged view of a storage");
}

/* Every persistent id of the object names a storage: registers all of them. */
static sft_status register_all(legacy *l, sft_error *err) {
    for (uint32_t i = 0; i < l->p.count; i++) {
        const sft__import_pk_node *n = sft__import_pk_at(&l->p, i);
        uint32_t index;
        if (n->type != SFT__PK_PID) {
            continue;
        }
        if (sft__import_pk_is_text(&l->p, sft__import_pk_item(&l->p, n->persistent_id, 0),
                                   "module")) {
            SFT_TRY(sft__import_opaque(l->t.job, "module", 6, l->p.end, err,
                                       "torch-module: source code of a class; it is never read"));
            continue;
        }
        SFT_TRY(check_view(&l->p, n, err));
        SFT_TRY(sft__import_torch_storage(&l->t, n, &index, err));
    }
    return SFT_OK;
}

/* The list of keys gives the order of the raw storages. */
static sft_status place_all(legacy *l, sft_error *err) {
    const sft__import_pk_node *keys = sft__import_pk_at(&l->p, l->p.root);
    const uint64_t size = sft_source_size(l->t.job->file);
    uint64_t at = l->at;
    uint32_t id;

    if (keys->type != SFT__PK_LIST) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, at, "torch-keys: no list of storage keys");
    }
    for (sft__import_pk_iter it = sft__import_pk_begin(keys); sft__import_pk_next(&it, &id);) {
        const sft__import_pk_node *key = sft__import_pk_at(&l->p, id);
        uint8_t head[8];
        const size_t i = key->type == SFT__PK_STR && l->t.keys.slots != NULL
                             ? sft__base_strmap_find(&l->t.keys, key->u.text, key->count)
                             : SFT__STRMAP_NONE;
        if (i == SFT__STRMAP_NONE || l->t.storages[i].placed) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, at,
                                     "torch-keys: a storage key that nothing refers to, or twice");
        }
        sft__import_storage *s = &l->t.storages[i];
        if (size - at < 8) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, at,
                                     "torch-storage: the file ends before "
                                     "storage \"%.64s\"",
                                     s->key);
        }
        SFT_TRY(sft_source_read(l->t.job->file, at, head, 8, err));
        at += 8;
        if (sft__base_load_le64(head) != s->elements) {
            return sft__base_fail_at(
                err, SFT_E_SIZE, at - 8,
                "torch-storage: storage \"%.64s\" has %llu elements, its description "
                "says %llu",
                s->key, (unsigned long long)sft__base_load_le64(head),
                (unsigned long long)s->elements);
        }
        if (s->bytes > size - at) {
            return sft__base_fail_at(
                err, SFT_E_SCHEMA, at,
                "torch-storage: storage \"%.64s\" needs %llu bytes, the file ends "
                "before",
                s->key, (unsigned long long)s->bytes);
        }
        s->offset = at;
        s->placed = true;
        l->t.storage_bytes += s->bytes;
        at += s->bytes;
    }
    for (size_t i = 0; i < l->t.storage_count; i++) {
        if (!l->t.storages[i].placed) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, at,
                                     "torch-keys: storage \"%.64s\" is not in "
                                     "the list of keys",
                                     l->t.storages[i].key);
        }
    }
    if (at != size) {
        return sft__import_trick(l->t.job, SFT_FINDING_CONTAINER, SFT_SCAN_UNKNOWN, "",
                                 "torch-trailing", at, err, "%llu bytes follow the last storage",
                                 (unsigned long long)(size - at));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the five pickles */

static sft_status next_pickle(legacy *l, uint64_t *at, uint32_t *root, sft_error *err) {
    SFT_TRY(sft__import_pickle_run(&l->p, *at, sft_source_size(l->t.job->file), err));
    *at = l->p.end;
    *root = l->p.root;
    return SFT_OK;
}

/* Before the object, unpicklers that only look for names have seen eval('...') here. */
static sft_status read_head(legacy *l, uint64_t *at, sft_error *err) {
    uint32_t root;
    uint64_t version;
    uint8_t first;

    SFT_TRY(sft_source_read(l->t.job->file, 0, &first, 1, err));
    if (first == (uint8_t)magic_text[0]) {
        *at = sizeof magic_text - 1; /* all of the first pickle, as the probe has seen */
    } else {
        SFT_TRY(next_pickle(l, at, &root, err));
    }
    SFT_TRY(next_pickle(l, at, &root, err));
    if (!sft__import_pk_uint(&l->p, root, &version) || version != 1001) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, *at,
                                 "torch-protocol: the stream's protocol is not 1001");
    }
    SFT_TRY(next_pickle(l, at, &root, err));
    if (sft__import_pk_at(&l->p, root)->type != SFT__PK_DICT) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, *at,
                                 "torch-system: no description of the system");
    }
    const sft__import_pk_node *little =
        sft__import_pk_at(&l->p, sft__import_pk_get(&l->p, root, "little_endian"));
    l->t.big_endian = little->type == SFT__PK_BOOL && little->u.integer == 0;
    return SFT_OK;
}

static sft_status read_stream(legacy *l, sft_error *err) {
    uint64_t at = 0;
    uint32_t object;
    uint32_t keys;

    SFT_TRY(read_head(l, &at, err));
    SFT_TRY(next_pickle(l, &at, &object, err));
    SFT_TRY(next_pickle(l, &at, &keys, err));
    l->at = at;
    SFT_TRY(register_all(l, err));
    SFT_TRY(place_all(l, err));
    l->p.root = object;
    return sft__import_torch_tree(&l->t, err);
}

static void legacy_init(legacy *l, sft__import *job) {
    memset(l, 0, sizeof *l);
    l->p.job = job;
    l->t.job = job;
    l->t.p = &l->p;
    l->t.place = place;
}

static sft_status open_legacy(sft__import *job, sft_error *err) {
    legacy l;

    legacy_init(&l, job);
    sft_status status = sft__import_pickle_init(&l.p, job, job->file, 0, "", err);
    if (status == SFT_OK) {
        status = read_stream(&l, err);
    }
    sft__import_torch_reset(&l.t);
    sft__import_pickle_reset(&l.p);
    return status;
}

/* ---------------------------------------------------------------- a pickle alone */

static bool probe_pickle(const sft__import_probe *p) {
    static const char starts[] =
        "(}]c)"; /* of protocols 0 and 1, which have no mark of their own */
    uint8_t last = 0;

    if (p->size < 4 || sft_source_read(p->source, p->size - 1, &last, 1, NULL) != SFT_OK) {
        return false;
    }
    if (p->head[0] == 0x80 && p->head[1] >= 2 && p->head[1] <= 5) {
        return true;
    }
    return last == '.' && strchr(starts, p->head[0]) != NULL && p->head[0] != '\0';
}

static sft_status no_storage(sft__import_torch *t, sft__import_storage *s, sft_error *err) {
    (void)t;
    return sft__base_fail(err, SFT_E_SCHEMA, "pickle: a pickle alone has no storage \"%.64s\"",
                          s->key);
}

static sft_status read_alone(legacy *l, sft_error *err) {
    const uint64_t size = sft_source_size(l->t.job->file);

    SFT_TRY(sft__import_pickle_run(&l->p, 0, size, err));
    const uint32_t root = l->p.root;
    for (int i = 0; l->p.end < size; i++) {
        SFT_TRY(sft__import_trick(l->t.job, SFT_FINDING_PICKLE, SFT_SCAN_UNKNOWN, "",
                                  "pickle-trailing", l->p.end, err,
                                  "bytes follow the end of the pickle"));
        if (i >= PICKLES_MAX || sft__import_pickle_run(&l->p, l->p.end, size, NULL) != SFT_OK) {
            break;
        }
    }
    l->p.root = root;
    SFT_TRY(sft__import_torch_tree(&l->t, err));
    if (l->t.job->tensors == 0 && !l->t.job->scanning) {
        return sft__base_fail_at(err, SFT_E_FORMAT, 0,
                                 "this is a Python pickle that holds no tensors");
    }
    return SFT_OK;
}

static sft_status open_pickle(sft__import *job, sft_error *err) {
    legacy l;

    legacy_init(&l, job);
    l.t.place = no_storage;
    sft_status status = sft__import_pickle_init(&l.p, job, job->file, job->file_source, "", err);
    if (status == SFT_OK) {
        l.p.joblib = true;
        status = read_alone(&l, err);
    }
    sft__import_torch_reset(&l.t);
    sft__import_pickle_reset(&l.p);
    return status;
}

const sft__import_reader sft__import_reader_torch_legacy = {SFT_IMPORT_TORCH_LEGACY, probe_legacy,
                                                            open_legacy};
const sft__import_reader sft__import_reader_pickle = {SFT_IMPORT_PICKLE, probe_pickle, open_pickle};
